/* Stepping in what was recorded. Forwards one never steps over a question: predicting first is what teaches.
 * Interface: browse, with a parsed command; browse_on while it is under way, browse_pause. */
#include "browse.h"

#include "analysis/moves.h"
#include "base/str.h"
#include "base/vec.h"
#include "trace/match.h"
#include "trace/reader.h"

#include <string.h>

enum { SEARCH_SLICE = 1 << 18 }; /* events between two frames: a fiftieth of a second or so */

bool
browse_move(struct model *model, struct view *view, size_t seq)
{
    size_t before = view->cursor;
    bool   there = view_goto(view, model, seq);
    if (!there)
        view->message[0] = '\0'; /* the question itself says it */
    if (view->cursor > before)
        view->before = before; /* what is new since then is marked */
    return there;
}

/* No stop on the way: it ends at the record's edge, which is where a session would stand. */
static void
stand_at_record_edge(struct model *model, struct view *view, const struct move *move)
{
    const char *edge = move->backwards ? "start of the record" : "end of the record";
    if (!browse_move(model, view, move->at))
        return;
    if (move->match != NULL)
        view_say(view, "no %s event for which %.200s: %s", move->backwards ? "earlier" : "further",
                 match_text(move->match), edge);
    else
        view_say(view, "%s", edge);
}

static void
say_line(struct view *view, struct str *told)
{
    const char *text = str_text(told);
    view_say(view, "%.*s", (int)strcspn(text, "\n"), text);
    str_free(told);
}

static void
say_stop(const struct model *model, struct view *view, const struct breakpoint *point)
{
    struct str told = { 0 };
    breaks_print_stop(point, model->trace, view->cursor, &told);
    say_line(view, &told);
}

bool
browse_on(struct model *model, struct view *view)
{
    struct move *move = &view->move;
    if (!view->moving)
        return false;
    if (view->hunt.is != NULL)
        return hunt_on(view, model);
    enum move_result result = move_search(move, model->seen, SEARCH_SLICE);
    view->moving = result == MOVE_GOES_ON;
    if (view->moving) {
        view_say(view, "looking at event %zu; ^C stops there", move->at);
        return true;
    }
    view->message[0] = '\0';
    if (result == MOVE_STOPPED && move->command == CMD_next && predict_ask(view, model, move->at))
        ;
    else if (result == MOVE_NO_MEMORY)
        view_say(view, "no memory for the story");
    else if (result == MOVE_AT_EDGE)
        stand_at_record_edge(model, view, move);
    else if (browse_move(model, view, move->at) && move->stopped_by != NULL &&
             veil_question(model, &view->asking, move->at) == NO_EVENT)
        say_stop(model, view, move->stopped_by);
    move_end(move);
    return false;
}

void
browse_pause(struct model *model, struct view *view)
{
    if (view->hunt.is != NULL) {
        hunt_pause(view);
        return;
    }
    view->moving = false;
    if (browse_move(model, view, view->move.at))
        view_say(view, "paused at event %zu", view->cursor);
    move_end(&view->move);
}

static void
start(struct model *model, struct view *view, const struct command_line *line)
{
    struct str told = { 0 };
    view->move = (struct move){ .trace = model->trace, .rules = &view->rules, .story = model_story(model),
                                .ended = true, .at = view->cursor };
    view->moving = move_begin(&view->move, line, &told);
    if (view->moving)
        browse_on(model, view);
    else
        say_line(view, &told);
    str_free(&told);
}

static void
set_rule(struct model *model, struct view *view, const struct command_line *line)
{
    struct str told = { 0 };
    if (line->command == CMD_show)
        move_show(&view->rules, line->rest, &told);
    else if (breaks_command(&view->rules.breaks, model->trace, view->cursor, line, &told) && told.len == 0)
        str_addf(&told, "breakpoint %lld is gone\n", (long long)line->count);
    say_line(view, &told);
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
    if (is_move(line->command)) {
        start(model, view, line);
        return;
    }
    if (breaks_takes(line->command)) {
        set_rule(model, view, line);
        return;
    }
    switch (line->command) {
    case CMD_show:
        set_rule(model, view, line);
        break;
    case CMD_goto:
        go_to(model, view, line->count);
        break;
    default:
        view_say(view, "%s needs the running engine: ringside step LESSON.lua", command_info(line->command)->name);
    }
}
