/* To other events: along the lane, to the next iteration, wait or fault. */
#include "look_internal.h"

#include "analysis/diff.h"
#include "trace/reader.h"

static void
along_lane(struct view *view, struct model *model, int direction)
{
    if (view->lane < 0 || (size_t)view->lane >= model->lane_count || view->cursor == NO_EVENT)
        return;
    const struct lane *lane = &model->lanes[view->lane];
    size_t at = lane_find(lane, direction > 0 ? view->cursor + 1 : view->cursor);
    while (direction > 0 && at < lane->event_count && veil_hides(&view->veil, model, lane->events[at]))
        at++;
    if (direction < 0 && at-- == 0)
        view_say(view, "the first event of this lane");
    else if (at >= lane->event_count)
        view_say(view, "the last event of this lane%s", or_hidden(view));
    else
        view_goto(view, model, lane->events[at]);
}

static bool
is_same_kind(const struct view *view, const struct model *model, size_t seq)
{
    const struct trace_event *here = trace_event(model->trace, view->cursor), *there = trace_event(model->trace, seq);
    return there->kind == here->kind && there->phase != PHASE_END;
}

static bool
is_wait(const struct view *view, const struct model *model, size_t seq)
{
    const struct trace_event *event = trace_event(model->trace, seq);
    return (int)event->lane == view->lane && event->phase == PHASE_BEGIN && model_work(model, seq) == WORK_WAIT;
}

static bool
is_next_iteration(const struct view *view, const struct model *model, size_t seq)
{
    return trace_event(model->trace, seq)->iteration > trace_event(model->trace, view->cursor)->iteration;
}

/* Backwards: the first event of an iteration, this one's if one does not stand at it. */
static bool
is_iteration_start(const struct view *view, const struct model *model, size_t seq)
{
    (void)view;
    return seq == 0 || trace_event(model->trace, seq)->iteration > trace_event(model->trace, seq - 1)->iteration;
}

static bool
is_fault(const struct view *view, const struct model *model, size_t seq)
{
    (void)view;
    size_t low = 0, high = model->fault_count;
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        if (model->faults[middle] < seq)
            low = middle + 1;
        else
            high = middle;
    }
    return low < model->fault_count && model->faults[low] == seq;
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
        hunt(view, model, 1, is_next_iteration, "iteration");
}

static void
riteration(struct view *view, struct model *model, const struct command_line *line)
{
    (void)line;
    if (model->diff != NULL)
        next_difference(view, model, -1);
    else
        hunt(view, model, -1, is_iteration_start, "iteration");
}

static void
wait_on(struct view *view, struct model *model, const struct command_line *line)
{
    (void)line;
    hunt(view, model, 1, is_wait, "wait on this lane");
}

static void
rwait(struct view *view, struct model *model, const struct command_line *line)
{
    (void)line;
    hunt(view, model, -1, is_wait, "wait on this lane");
}

static void
fault(struct view *view, struct model *model, const struct command_line *line)
{
    (void)line;
    hunt(view, model, 1, is_fault, "fault or failed check");
}

static void
rfault(struct view *view, struct model *model, const struct command_line *line)
{
    (void)line;
    hunt(view, model, -1, is_fault, "fault or failed check");
}

static void
same(struct view *view, struct model *model, const struct command_line *line)
{
    (void)line;
    hunt(view, model, 1, is_same_kind, "event of this kind");
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
