/* To other events: along the lane, to the next iteration, wait or fault. */
#include "look_internal.h"

#include "analysis/diff.h"
#include "trace/reader.h"

static void
along_lane(struct view *view, struct model *model, int direction)
{
    if (view->lane < 0 || (size_t)view->lane >= model->lane_count || view->cursor == NO_EVENT)
        return;
    size_t at = model_lane_next(model, (size_t)view->lane, view->cursor, direction);
    while (direction > 0 && at != NO_EVENT && veil_hides(&view->veil, model, at))
        at = model_lane_next(model, (size_t)view->lane, at, direction);
    if (at != NO_EVENT)
        view_goto(view, model, at);
    else if (direction < 0)
        view_say(view, "the first event of this lane");
    else
        view_say(view, "the last event of this lane%s", or_hidden(view));
}

static size_t
next_of_kind(const struct view *view, const struct model *model, size_t seq, int direction)
{
    return model_next_kind(model, trace_event(model->trace, view->cursor)->kind, seq, direction);
}

static size_t
next_wait(const struct view *view, const struct model *model, size_t seq, int direction)
{
    return model_next_wait(model, (size_t)view->lane, seq, direction);
}

/* Backwards: the first event of an iteration, this one's if one does not stand at it. */
static size_t
next_iteration(const struct view *view, const struct model *model, size_t seq, int direction)
{
    (void)view;
    return model_next_iteration(model, seq, direction);
}

static size_t
next_fault(const struct view *view, const struct model *model, size_t seq, int direction)
{
    (void)view;
    return model_next_fault(model, seq, direction);
}

/* To the next one that is not hidden. */
static void
go_next(struct view *view, struct model *model, int direction,
        size_t (*next)(const struct view *view, const struct model *model, size_t seq, int direction), const char *what)
{
    if (view->cursor == NO_EVENT)
        return;
    size_t seq = next(view, model, view->cursor, direction);
    while (seq != NO_EVENT && veil_hides(&view->veil, model, seq))
        seq = next(view, model, seq, direction);
    if (seq != NO_EVENT)
        view_goto(view, model, seq);
    else
        view_say(view, "no %s %s%s", direction > 0 ? "further" : "earlier", what, direction > 0 ? or_hidden(view) : "");
}

static void
event_left(struct view *view, struct model *model, const struct command_line *line)
{
    (void)line;
    along_lane(view, model, -1);
}

static void
event_right(struct view *view, struct model *model, const struct command_line *line)
{
    (void)line;
    along_lane(view, model, 1);
}

/* Where the runs that are compared differ next. */
static void
next_difference(struct view *view, struct model *model, int direction)
{
    size_t                   count, low = 0;
    const struct difference *list = diff_list(model->diff, &count, NULL);
    size_t                   high = count;
    while (low < high) { /* the first that does not lie before the cursor */
        size_t middle = low + (high - low) / 2;
        if (list[middle].seq < view->cursor)
            low = middle + 1;
        else
            high = middle;
    }
    if (direction > 0 && low < count && list[low].seq == view->cursor)
        low++;
    if (direction < 0 ? low == 0 : low == count)
        view_say(view, "no %s difference", direction > 0 ? "further" : "earlier");
    else
        view_goto(view, model, list[direction < 0 ? low - 1 : low].seq);
}

static void
iteration(struct view *view, struct model *model, const struct command_line *line)
{
    (void)line;
    if (model->diff != NULL)
        next_difference(view, model, 1);
    else
        go_next(view, model, 1, next_iteration, "iteration");
}

static void
riteration(struct view *view, struct model *model, const struct command_line *line)
{
    (void)line;
    if (model->diff != NULL)
        next_difference(view, model, -1);
    else
        go_next(view, model, -1, next_iteration, "iteration");
}

static void
wait_on(struct view *view, struct model *model, const struct command_line *line)
{
    (void)line;
    go_next(view, model, 1, next_wait, "wait on this lane");
}

static void
rwait(struct view *view, struct model *model, const struct command_line *line)
{
    (void)line;
    go_next(view, model, -1, next_wait, "wait on this lane");
}

static void
fault(struct view *view, struct model *model, const struct command_line *line)
{
    (void)line;
    go_next(view, model, 1, next_fault, "fault or failed check");
}

static void
rfault(struct view *view, struct model *model, const struct command_line *line)
{
    (void)line;
    go_next(view, model, -1, next_fault, "fault or failed check");
}

static void
same(struct view *view, struct model *model, const struct command_line *line)
{
    (void)line;
    go_next(view, model, 1, next_of_kind, "event of this kind");
}

const struct look_rule look_move_rules[] = {
    { CMD_event_left, event_left },
    { CMD_event_right, event_right },
    { CMD_iteration, iteration },
    { CMD_riteration, riteration },
    { CMD_wait, wait_on },
    { CMD_rwait, rwait },
    { CMD_fault, fault },
    { CMD_rfault, rfault },
    { CMD_same, same },
    { 0, NULL },
};
