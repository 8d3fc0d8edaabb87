/* Stepping in what was recorded. Forwards one never steps over a question: predicting first is what teaches.
 * Interface: browse, with a parsed command. */
#include "browse.h"

#include "analysis/state.h"
#include "base/vec.h"
#include "trace/match.h"
#include "trace/reader.h"

#include <stdio.h>
#include <string.h>

bool
browse_move(struct model *model, struct view *view, size_t seq)
{
    for (size_t i = 0; seq > view->cursor && i < model->lesson_count; i++) {
        size_t lesson = model->lessons[i];
        if (lesson > view->cursor && lesson < seq && model_is_lesson(model, lesson, "ask") &&
            !view_is_revealed(view, lesson)) {
            view_goto(view, model, lesson);
            return false;
        }
    }
    view_goto(view, model, seq);
    return true;
}

static void
step(struct model *model, struct view *view, int64_t count, bool backwards)
{
    size_t last = model->seen - 1, seq = view->cursor;
    if (backwards ? seq == 0 : seq == last) {
        view_say(view, backwards ? "start of the record" : "end of the record");
        return;
    }
    size_t room = backwards ? seq : last - seq;
    size_t steps = count < 1 ? 1 : (uint64_t)count > room ? room : (size_t)count;
    browse_move(model, view, backwards ? seq - steps : seq + steps);
}

/* What one steps from and to: a stage's begin or what the lesson says, not deeper than where one stands; or the end
 * of the stage around it. Allocations and the like are passed over. */
static bool
is_sibling(const struct model *model, size_t seq, const struct trace_event *from)
{
    const struct trace_event *event = trace_event(model->trace, seq);
    if (event->depth > from->depth)
        return false;
    if (event->phase == PHASE_END)
        return event->depth < from->depth;
    return event->phase == PHASE_BEGIN || model_work(model, seq) == WORK_LESSON;
}

static void
next(struct model *model, struct view *view, int64_t count, bool backwards)
{
    for (; count > 0; count--) {
        const struct trace_event *here = trace_event(model->trace, view->cursor);
        const struct lane *lane = &model->lanes[here->lane];
        size_t at = lane_find(lane, view->cursor);
        bool found = false;
        while (!found && (backwards ? at > 0 : at + 1 < lane->event_count)) {
            at = backwards ? at - 1 : at + 1;
            found = is_sibling(model, lane->events[at], here);
        }
        if (!found) {
            view_say(view, "no %s stage on this lane at this depth", backwards ? "earlier" : "further");
            return;
        }
        if (!browse_move(model, view, lane->events[at]))
            return;
    }
}

size_t
browse_finish(struct model *model, size_t seq, bool backwards)
{
    const struct trace_event *event = trace_event(model->trace, seq);
    if (event == NULL || !model_seek(model, seq))
        return NO_EVENT;
    if (event->phase == PHASE_END && backwards)
        return trace_partner(model->trace, seq);
    size_t open[256], count = state_open(model->state, event->lane, open, countof(open));
    if (event->phase == PHASE_BEGIN && backwards && count > 0)
        count--; /* one stands at its beginning: the one around it */
    if (count == 0 || count > countof(open))
        return NO_EVENT;
    return backwards ? open[count - 1] : trace_partner(model->trace, open[count - 1]);
}

static void
finish(struct model *model, struct view *view, bool backwards)
{
    size_t seq = browse_finish(model, view->cursor, backwards);
    if (seq == NO_EVENT)
        view_say(view, backwards ? "no stage is open around this event"
                                 : "no stage around this event ends in the record");
    else
        browse_move(model, view, seq);
}

static bool
matches(const struct model *model, const struct match *match, size_t seq)
{
    return match_event(match, trace_event(model->trace, seq), seq, trace_time(model->trace, seq));
}

static const struct breakpoint *
break_at(const struct model *model, const struct view *view, size_t seq)
{
    for (int i = 0; i < view->break_count; i++)
        if (matches(model, view->breaks[i].match, seq))
            return &view->breaks[i];
    return NULL;
}

static void
run(struct model *model, struct view *view, const struct match *until, bool backwards)
{
    size_t seq = view->cursor, end = backwards ? 0 : model->seen - 1;
    while (seq != end) {
        seq = backwards ? seq - 1 : seq + 1;
        const struct breakpoint *stop = until != NULL ? NULL : break_at(model, view, seq);
        if (stop == NULL && (until == NULL || !matches(model, until, seq)))
            continue;
        if (browse_move(model, view, seq) && stop != NULL)
            view_say(view, "stopped by %d: %.200s", stop->number, match_text(stop->match));
        return;
    }
    if (until != NULL)
        view_say(view, "no %s event for which %.200s", backwards ? "earlier" : "further", match_text(until));
    else if (browse_move(model, view, end))
        view_say(view, backwards ? "start of the record" : "end of the record");
}

static void
run_until(struct model *model, struct view *view, const char *expression, bool backwards)
{
    struct match_names names = match_names_of_trace(model->trace);
    char why[256];
    struct match *match = match_compile(expression, &names, why, sizeof why);
    if (match == NULL) {
        view_say(view, "%s", why);
        return;
    }
    run(model, view, match, backwards);
    match_free(match);
}

static void
add_break(struct model *model, struct view *view, const char *text)
{
    struct match_names names = match_names_of_trace(model->trace);
    char why[256];
    if (text[0] == '\0')
        text = model_kind(model, view->cursor);
    if (view->break_count == BREAKS) {
        view_say(view, "%d breakpoints are all there can be; delete one", BREAKS);
        return;
    }
    struct match *match = match_compile_break(text, &names, why, sizeof why);
    if (match == NULL) {
        view_say(view, "%s", why);
        return;
    }
    view->breaks[view->break_count++] = (struct breakpoint){ match, ++view->break_last };
    view_say(view, "breakpoint %d: %.300s", view->break_last, text);
}

static void
delete_break(struct view *view, int64_t number)
{
    for (int i = 0; i < view->break_count; i++)
        if (view->breaks[i].number == number) {
            match_free(view->breaks[i].match);
            memmove(&view->breaks[i], &view->breaks[i + 1],
                    (size_t)(--view->break_count - i) * sizeof view->breaks[0]);
            view_say(view, "breakpoint %lld is gone", (long long)number);
            return;
        }
    view_say(view, "there is no breakpoint %lld", (long long)number);
}

static void
say_breaks(struct view *view)
{
    char text[480] = "no breakpoints; b makes one";
    size_t used = 0;
    for (int i = 0; i < view->break_count && used < sizeof text; i++) {
        int more = snprintf(text + used, sizeof text - used, "%s%d %.60s", i > 0 ? "  |  " : "",
                            view->breaks[i].number, match_text(view->breaks[i].match));
        used += more > 0 ? (size_t)more : 0;
    }
    view_say(view, "%s", text);
}

static void
go_to(struct model *model, struct view *view, int64_t seq)
{
    if (seq < 0 || (uint64_t)seq >= model->seen)
        view_say(view, "the events are 0 to %zu", model->seen - 1);
    else
        view_goto(view, model, (size_t)seq);
}

void
browse(struct model *model, struct view *view, const struct command_line *line)
{
    if (view->cursor == NO_EVENT) {
        view_say(view, "the trace has no events");
        return;
    }
    switch (line->command) {
    case CMD_step:      step(model, view, line->count, false); break;
    case CMD_back:      step(model, view, line->count, true); break;
    case CMD_next:      next(model, view, line->count, false); break;
    case CMD_rnext:     next(model, view, line->count, true); break;
    case CMD_finish:    finish(model, view, false); break;
    case CMD_rfinish:   finish(model, view, true); break;
    case CMD_continue:  run(model, view, NULL, false); break;
    case CMD_rcontinue: run(model, view, NULL, true); break;
    case CMD_until:     run_until(model, view, line->rest, false); break;
    case CMD_runtil:    run_until(model, view, line->rest, true); break;
    case CMD_goto:      go_to(model, view, line->count); break;
    case CMD_break:     add_break(model, view, line->rest); break;
    case CMD_delete:    delete_break(view, line->count); break;
    case CMD_info:      say_breaks(view); break;
    default:
        view_say(view, "%s needs the running engine: ringside step LESSON.lua", command_info(line->command)->name);
    }
}
