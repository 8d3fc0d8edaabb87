/* ringside story: what `n` tells of a lesson or a trace, a line each stop; with --count how many, and what is left
 * out. */
#include <stdio.h>
#include "analysis/story.h"
#include "base/str.h"
#include "base/visible.h"
#include "cli/commands.h"
#include "cli/course.h"
#include "cli/message.h"
#include "cli/options.h"
#include "cli/run.h"
#include "cli/session.h"
#include "trace/reader.h"
#include "trace/sources.h"

static bool
print_stops(struct story *story)
{
    struct str line = { 0 };
    for (size_t i = 0; i < story_count(story) && str_ok(&line); i++) {
        const struct story_stop *stop = story_at(story, i);
        str_clear(&line);
        story_again(story, stop, &line);
        if (line.len > 0)
            str_add(&line, "\n");
        str_addf(&line, "%zu  %zu  ", i, stop->at);
        story_tell(story, stop, &line);
        str_add(&line, "\n");
        if (str_ok(&line))
            visible_write(stdout, str_text(&line), line.len, VISIBLE_LINES);
    }
    bool good = str_ok(&line);
    str_free(&line);
    return good;
}

static bool
print_figures(struct story *story)
{
    struct story_figures f;
    story_figures(story, &f);
    if (!story_close(story)) /* it had no memory to tell what it counts */
        return false;
    printf("%zu stops, %zu of them questions; %zu in a row differ by numbers alone at most\n"
           "%zu acts and scenes without a stop, %zu details that lie in none\n",
           f.stops, f.questions, f.alike, f.untold, f.loose);
    return true;
}

static int
tell(struct trace *trace, bool count)
{
    struct story *story = story_new(trace);
    bool          whole = story != NULL && !trace_starved(trace) && story_read(story, trace_count(trace)) &&
                 story_close(story) && (count ? print_figures(story) : print_stops(story));
    story_free(story);
    return whole ? STATUS_DONE : message(STATUS_USAGE, "story: out of memory");
}

/* The lesson is run to its end, as a batch of `step` runs it, and told also where it fails. */
static int
tell_lesson(struct run_options *options)
{
    struct session        session;
    struct session_engine engine = { run_in_session, options, options->trace, -1 };
    struct str            out = { 0 };
    char                  why[500];
    if (!session_open(&session, &engine, why, sizeof why))
        return session.status != 0 ? session.status : message(STATUS_USAGE, "%s", why);
    session_command(&session, "continue", &out);
    int status = STATUS_FAILED;
    if (session.starved || !str_ok(&out))
        message(status, "story: out of memory");
    else if (session.died)
        message(status, "story: the engine or its record is gone, the run was not at its end");
    else
        status = tell(session.trace, options->count);
    if (status == STATUS_DONE && session.ended) {
        status = session.status;
        if (status >= STATUS_USAGE)
            session_tell_failure(&session, options->lesson);
    }
    str_free(&out);
    session_close(&session);
    return status;
}

int
cli_story(int argc, char **argv)
{
    struct run_options options;
    int                status = options_parse(argc, argv, OPTION_STORY, &options);
    if (status >= 0)
        return status;
    char          why[500];
    struct trace *trace = trace_open(options.lesson, why, sizeof why);
    if (trace != NULL) {
        status = tell(trace, options.count);
        if (trace_note(trace)[0] != '\0')
            message(status, "%s: %s", options.lesson, trace_note(trace));
        trace_release(trace);
        return status;
    }
    if (sources_is_name(options.lesson))
        return message(STATUS_USAGE, "%s", why);
    status = lesson_choose(argv[0], &options);
    return status >= 0 ? status : tell_lesson(&options);
}
