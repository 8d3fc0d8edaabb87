/* To other events: along the lane, to the other end of a flow, to the next iteration, wait or fault. */
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

static void
go_rank(struct view *view, struct model *model, const struct command_line *line)
{
    int count = (int)model->lane_count;
    int here = count > 0 ? trace_lane_at(model->trace, (size_t)view->lane)->rank : -1;
    for (int i = 1; i <= count; i++) {
        int lane = line->has_count ? i - 1 : (view->lane + i) % count;
        int rank = trace_lane_at(model->trace, (size_t)lane)->rank;
        if (line->has_count ? rank == line->count : rank != here && rank >= 0) {
            view->lane = lane;
            return;
        }
    }
    view_say(view, line->has_count ? "no lane of rank %lld" : "there is no other rank", (long long)line->count);
}

static void
follow_flow(struct view *view, struct model *model)
{
    if (view->cursor == NO_EVENT)
        return;
    size_t other = trace_flow_end(model->trace, view->cursor);
    size_t partner = other == SIZE_MAX ? trace_partner(model->trace, view->cursor) : SIZE_MAX;
    if (partner != SIZE_MAX)
        other = trace_flow_end(model->trace, partner);
    if (other != SIZE_MAX && veil_hides(&view->veil, model, other))
        view_say(view, "its other end is hidden until you answer");
    else if (other == SIZE_MAX)
        view_say(view, "no flow leaves or reaches this event%s",
                 view->run == RUN_PAUSED ? ", or its other end is still to come" : "");
    else
        view_goto(view, model, other);
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

static void
flow(struct view *view, struct model *model, const struct command_line *line)
{
    (void)line;
    follow_flow(view, model);
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
    { CMD_flow, flow },
    { CMD_rank, go_rank },
    { 0, NULL },
};
