/* ringside events: every event of a trace that a predicate asks for, one line each.
 *
 * Interface: cli_events. The lines are trace/print.c's, the predicate is trace/match.h's. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "analysis/story_words.h"
#include "base/str.h"
#include "cli/commands.h"
#include "cli/message.h"
#include "trace/match.h"
#include "trace/reader.h"
#include "trace/sources.h"

enum { LINES_AT_ONCE = 16 * 1024 }; /* bytes */

static const char help[] =
    "usage: ringside events TRACE... [FILTER...] [--json | --tell | --hash]\n"
    "\n"
    "Prints every event of the trace, or those that FILTER asks for, one line each:\n"
    "number, kind, phase, rank, device, time, arguments, and where the engine did it.\n"
    "Several traces (NAME.trace), or a folder of them, are read as one: those of a job by\n"
    "its clock, others each from its start.\n"
    "\n"
    "  --json   one JSON object per line: seq t phase kind rank device lane iter flow args place;\n"
    "           t is in nanoseconds, rank and device are null where there is none\n"
    "  --tell   what each event means, as a sentence, before it\n"
    "  --hash   no events but the hash of one trace, as run --hash prints it: what happened\n"
    "           counts, no file names, no line numbers, no text of the lesson\n"
    "  --help   this text\n"
    "\n"
    "FILTER is a kind (dp.scatter; dp or dp.* for all below it), a comparison of a field\n"
    "(seq t rank device lane iter phase kind flow line depth, or an argument's name) with\n"
    "= != < <= > >= or ~ (contains), or several of these with and, or, not, ( ):\n"
    "\n"
    "  ringside events run.trace dp.scatter.chunk\n"
    "  ringside events run.trace 'ddp and rank 1 and bytes > 1e6'\n"
    "  ringside events run.trace 'op and op ~ mm and not phase = end'\n"
    "  ringside events rank0.trace rank1.trace comm.hop\n"
    "\n"
    "A kind alone matches where a stage begins, not where it ends.\n";

struct events_request {
    struct sources sources;
    struct str     filter;
    bool           json, tell, hash, help;
};

/* -1: go on. */
static int
read_request(int argc, char **argv, struct events_request *request)
{
    bool options = true;
    for (int i = 1; i < argc; i++) {
        const char *word = argv[i];
        if (options && strcmp(word, "--") == 0) {
            options = false;
        } else if (options && (strcmp(word, "--help") == 0 || strcmp(word, "-h") == 0)) {
            request->help = true;
        } else if (options && strcmp(word, "--json") == 0) {
            request->json = true;
        } else if (options && strcmp(word, "--tell") == 0) {
            request->tell = true;
        } else if (options && strcmp(word, "--hash") == 0) {
            request->hash = true;
        } else if (options && word[0] == '-' && word[1] != '\0') {
            return message(STATUS_USAGE, "events: there is no option %s; see ringside events --help", word);
        } else if (request->sources.count == 0 || (request->filter.len == 0 && sources_is_name(word))) {
            if (!sources_add(&request->sources, word))
                return message(STATUS_USAGE, "events: %s: that is more traces than can be read as one", word);
        } else {
            str_add(&request->filter, request->filter.len > 0 ? " " : "");
            str_add(&request->filter, word);
        }
    }
    if (request->help) {
        fputs(help, stdout);
        return STATUS_DONE;
    }
    if (request->sources.count == 0)
        return message(STATUS_USAGE, "events: which trace? usage: ringside events TRACE... [FILTER...] [--json]");
    if (request->json && request->tell)
        return message(STATUS_USAGE, "events: --tell is for people, --json for programs: one of the two");
    if (request->hash && (request->json || request->tell || request->filter.len > 0))
        return message(STATUS_USAGE, "events: --hash is of the whole trace; it goes with no filter, --json or --tell");
    if (!str_ok(&request->filter))
        return message(STATUS_USAGE, "events: no memory");
    return -1;
}

/* Its sentence, and what parts it from the event; nothing where none is true. */
static void
tell_event(struct trace *trace, size_t seq, struct str *lines)
{
    const struct trace_event *event = trace_event(trace, seq);
    struct told               told = { .at = seq, .first = seq, .last = seq, .bucket = -1 };
    if (!story_tells(trace_kind(trace, event->kind)->name, event->phase))
        return;
    story_sentence(trace, &told, lines);
    str_add(lines, "  ");
}

/* Many lines at once, for a call takes as long as a line. Stops when nobody takes them any more; whether that is an
 * error is output_finish's to say. */
static int
print_events(struct trace *trace, const struct match *match, const struct events_request *request)
{
    struct str lines = { 0 };
    for (size_t seq = 0, count = trace_count(trace); seq < count && !ferror(stdout) && str_ok(&lines); seq++) {
        if (match != NULL && !match_event(match, trace_event(trace, seq), seq, trace_time(trace, seq)))
            continue;
        if (request->tell)
            tell_event(trace, seq, &lines);
        if (request->json)
            trace_print_json(trace, seq, &lines);
        else
            trace_print_event(trace, seq, &lines);
        str_add(&lines, "\n");
        if (lines.len >= LINES_AT_ONCE && str_ok(&lines)) {
            fwrite(str_text(&lines), 1, lines.len, stdout);
            str_clear(&lines);
        }
    }
    bool good = str_ok(&lines);
    if (good)
        fwrite(str_text(&lines), 1, lines.len, stdout);
    str_free(&lines);
    return good ? STATUS_DONE : message(STATUS_USAGE, "events: no memory");
}

/* What is read, by its name: of several the first one's. */
static const char *
name_of(const struct events_request *request)
{
    return request->sources.paths[0];
}

static int
print_hash(const struct events_request *request, struct trace *trace)
{
    uint32_t    hash;
    const char *note = trace_note(trace);
    if (trace_option_of(trace, JOIN_PART "0")[0] != '\0')
        return message(STATUS_USAGE, "events: --hash is of one trace, not of several");
    if (note[0] != '\0')
        return message(STATUS_USAGE, "%s: no hash of a part: %s", name_of(request), note);
    if (!trace_file_hash(trace, &hash))
        return message(STATUS_USAGE, "%s: cannot be read: %s", name_of(request),
                       errno != 0 ? strerror(errno) : "it was cut short meanwhile");
    errno = 0;
    hash_line(hash, trace_is_virtual(trace));
    return STATUS_DONE;
}

/* What is missing from the trace; also when that turns out only while it is read. */
static void
tell_note(const struct events_request *request, const struct trace *trace, const char **told)
{
    const char *note = sources_note(trace);
    if (note[0] != '\0' && note != *told)
        message(STATUS_DONE, "%s: %s", request->sources.count == 1 ? name_of(request) : "events", note);
    *told = note;
}

static int
print_trace(const struct events_request *request)
{
    char why[512];
    struct trace *trace = sources_open(&request->sources, why, sizeof why);
    if (trace == NULL)
        return message(STATUS_USAGE, "%s", why);

    struct match *match = NULL;
    int status = STATUS_DONE;
    if (request->filter.len > 0) {
        struct match_names names = match_names_of_trace(trace);
        match = match_compile(str_text(&request->filter), &names, why, sizeof why);
        if (match == NULL)
            status = message(STATUS_USAGE, "events: %s", why);
    }
    const char *told = "";
    if (status == STATUS_DONE && !request->hash)
        tell_note(request, trace, &told);
    if (status == STATUS_DONE && request->hash)
        status = print_hash(request, trace);
    else if (status == STATUS_DONE)
        status = print_events(trace, match, request);
    if (status == STATUS_DONE)
        tell_note(request, trace, &told);
    match_free(match);
    trace_release(trace);
    return status;
}

int
cli_events(int argc, char **argv)
{
    struct events_request request = { 0 };
    int status = read_request(argc, argv, &request);
    if (status < 0)
        status = print_trace(&request);
    str_free(&request.filter);
    return status;
}
