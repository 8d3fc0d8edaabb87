/* How the timeline is arranged: ranks, flows, folding, pinning, filters, squeezing, alignment, curves. */
#include "look_internal.h"

#include "moment.h"
#include "trace/match.h"
#include "trace/reader.h"
#include "window.h"

#include <string.h>

/* The word that `text` begins of a list that ends with NULL; -1: none, and that is said. */
static int
choose(struct view *view, const char *text, const char *const *words, const char *usage)
{
    for (int i = 0; words[i] != NULL && text[0] != '\0'; i++)
        if (strncmp(words[i], text, strlen(text)) == 0)
            return i;
    view_say(view, "%s", usage);
    return -1;
}

static int
rank_of_lane(const struct model *model, int lane)
{
    return lane >= 0 && (size_t)lane < model->lane_count ? trace_lane_at(model->trace, (size_t)lane)->rank : -1;
}

/* ---- ranks ---- */

/* The rank's own thread, which is the first of its lanes that is one. */
static int
lane_of_rank(const struct model *model, int64_t rank)
{
    int found = -1;
    for (size_t i = 0; i < model->lane_count; i++) {
        const struct trace_lane_info *info = trace_lane_at(model->trace, i);
        if (info->rank != rank)
            continue;
        if (found < 0 || (info->kind == LANE_HOST && trace_lane_at(model->trace, (size_t)found)->kind != LANE_HOST))
            found = (int)i;
    }
    return found;
}

static void
turn_rank(struct view *view, const struct model *model, int direction)
{
    int most = -1, own = rank_of_lane(model, view->lane), here = own;
    for (size_t i = 0; i < model->lane_count; i++)
        most = rank_of_lane(model, (int)i) > most ? rank_of_lane(model, (int)i) : most;
    int ranks = most + 1;
    if (here < 0)
        here = direction > 0 ? ranks - 1 : 0;
    for (int i = 1; i <= ranks; i++) {
        int rank = (here + direction * i + i * ranks) % ranks;
        int lane = lane_of_rank(model, rank);
        if (lane >= 0 && rank != own) {
            view->lane = lane;
            return;
        }
    }
    view_say(view, "there is no other rank");
}

static void
rank(struct view *view, struct model *model, const struct command_line *line)
{
    int lane = line->has_count ? lane_of_rank(model, line->count) : -1;
    if (!line->has_count)
        turn_rank(view, model, 1);
    else if (lane >= 0 && line->count >= 0)
        view->lane = lane;
    else
        view_say(view, "no lane of rank %lld", (long long)line->count);
}

static void
rrank(struct view *view, struct model *model, const struct command_line *line)
{
    (void)line;
    turn_rank(view, model, -1);
}

/* ---- flows ---- */

/* The end of a flow at this event, or at the other end of its stage; `other` is its other end. */
static size_t
flow_here(const struct view *view, const struct model *model, size_t *other)
{
    size_t ends[2] = { view->cursor, model_partner(model, view->cursor) };
    for (int i = 0; i < 2; i++) {
        *other = ends[i] == NO_EVENT ? NO_EVENT : model_flow_end(model, ends[i]);
        if (*other != NO_EVENT)
            return ends[i];
    }
    return NO_EVENT;
}

/* Inside a stage the first flow of its lane, so that from a collective one comes to its messages. */
static size_t
flow_inside(const struct view *view, const struct model *model, bool sends, size_t *other)
{
    enum { LOOKED_AT = 1 << 13 };
    struct span span;
    int level;
    if (!moment_span(model, view->cursor, &span, &level))
        return NO_EVENT;
    uint64_t end = span_end_shown(model, &span);
    size_t seq = span.seq, lane = trace_event(model->trace, seq)->lane;
    for (int n = 0; n < LOOKED_AT && seq != NO_EVENT && trace_time(model->trace, seq) <= end; n++) {
        *other = trace_event(model->trace, seq)->flow != 0 ? model_flow_end(model, seq) : NO_EVENT;
        if (*other != NO_EVENT && (seq < *other) == sends)
            return seq;
        seq = model_lane_next(model, lane, seq, 1);
    }
    return NO_EVENT;
}

static void
follow_flow(struct view *view, const struct model *model, bool to_receiver)
{
    size_t other = NO_EVENT;
    if (view->cursor == NO_EVENT || trace_event(model->trace, view->cursor)->lane >= model->lane_count)
        return;
    size_t here = flow_here(view, model, &other);
    if (here == NO_EVENT || (here < other) != to_receiver) {
        size_t inside_other, inside = flow_inside(view, model, to_receiver, &inside_other);
        if (inside != NO_EVENT)
            here = inside, other = inside_other;
    }
    if (here == NO_EVENT)
        view_say(view, "no flow leaves or reaches this event%s",
                 view->run == RUN_PAUSED ? ", or its other end is still to come" : "");
    else if (veil_hides(&view->veil, model, other))
        view_say(view, "its other end is hidden until you answer");
    else if ((here < other) != to_receiver)
        view_say(view, to_receiver ? "this is where it arrived; [ goes to its sender"
                                   : "this is where it left; ] goes to its receiver");
    else
        view_goto(view, model, other);
}

static void
flow(struct view *view, struct model *model, const struct command_line *line)
{
    (void)line;
    follow_flow(view, model, true);
}

static void
rflow(struct view *view, struct model *model, const struct command_line *line)
{
    (void)line;
    follow_flow(view, model, false);
}

static void
flows(struct view *view, struct model *model, const struct command_line *line)
{
    static const char *const words[] = { "selection", "iteration", "all", "off", NULL };
    (void)model;
    int choice = choose(view, line->rest, words, "flows selection, iteration, all, or off");
    if (choice >= 0)
        view->arrange.flows = (enum flows_shown)choice;
}

/* ---- lanes ---- */

/* The selected lane's levels, then its rank, then everything unfolded again. */
static void
fold(struct view *view, struct model *model, const struct command_line *line)
{
    (void)line;
    struct arrange *arrange = &view->arrange;
    int rank = rank_of_lane(model, view->lane);
    enum fold now = arrange_fold(arrange, view->lane);
    if (view->lane < 0 || (size_t)view->lane >= model->lane_count)
        return;
    enum fold then = rank >= 0 ? FOLD_RANK : FOLD_NONE;
    if (now == FOLD_RANK)
        then = FOLD_NONE;
    else if (now != FOLD_LEVELS && model_depth(model, (size_t)view->lane) > 1)
        then = FOLD_LEVELS;
    bool good = arrange_set_fold(arrange, view->lane, then);
    for (size_t i = 0; i < model->lane_count && (then == FOLD_RANK || now == FOLD_RANK); i++)
        if (rank_of_lane(model, (int)i) == rank)
            good = arrange_set_fold(arrange, (int)i, then == FOLD_RANK ? FOLD_RANK : FOLD_OPEN) && good;
    if (!good)
        view_say(view, "out of memory");
    else if (then == FOLD_RANK)
        view_say(view, "rank %d in one row; o unfolds it", rank);
    else
        view_say(view, then == FOLD_LEVELS ? "the lane in one row; o again: its rank" : "unfolded as rows allow");
}

static void
pin(struct view *view, struct model *model, const struct command_line *line)
{
    (void)model;
    (void)line;
    bool pinned = view->arrange.pinned == view->lane + 1;
    view->arrange.pinned = pinned ? 0 : view->lane + 1;
    view_say(view, pinned ? "no lane is pinned" : "the lane stays at the top; p lets it go");
}

static void
filter(struct view *view, struct model *model, const struct command_line *line)
{
    char why[256];
    struct filter *filter = &view->arrange.filter;
    if (line->rest[0] == '\0') {
        filter_free(filter);
        view_say(view, "everything is shown");
    } else if (!filter_set(filter, model, line->rest, why, sizeof why)) {
        view_say(view, "%s  & takes ddp.*, rank 1, bytes > 1e6", why);
    } else {
        view_say(view, "only %.200s is shown; & and Enter end it", match_text(filter->match));
    }
}

/* ---- time ---- */

static void
squeeze(struct view *view, struct model *model, const struct command_line *line)
{
    (void)line;
    bool all = view->unit == 0 || (view->all && view->left == 0);
    view->arrange.squeezed = !view->arrange.squeezed;
    if (all)
        window_show_all(view, model);
    else
        window_follow_cursor(view, model);
    view_say(view, view->arrange.squeezed ? "idle time is squeezed; z shows it" : "idle time is shown");
}

static void
align_by(struct view *view, const struct model *model, enum align_by by)
{
    static const char *const said[] = {
        "times as they were recorded",
        "aligned by the start of this iteration; beside each rank how late it began",
        "aligned by the end of this collective; beside each rank how late it came",
    };
    view->arrange.align.by = by;
    view->arrange.align.count = 0;
    align_settle(&view->arrange.align, model, view->cursor);
    window_follow_cursor(view, model);
    view_say(view, "%s", said[by]);
}

static void
align(struct view *view, struct model *model, const struct command_line *line)
{
    static const char *const words[] = { "wall", "iteration", "collective", NULL };
    int choice = choose(view, line->rest, words, "align wall, iteration, or collective");
    if (choice >= 0)
        align_by(view, model, (enum align_by)choice);
}

static void
clock_next(struct view *view, struct model *model, const struct command_line *line)
{
    (void)line;
    align_by(view, model, (enum align_by)((view->arrange.align.by + 1) % (ALIGN_COLLECTIVE + 1)));
}

static void
curves(struct view *view, struct model *model, const struct command_line *line)
{
    static const char *const words[] = { "on", "off", NULL };
    (void)model;
    int choice = choose(view, line->rest, words, "curves on, or off");
    if (choice < 0)
        return;
    view->arrange.curves_shown = choice == 0 ? CURVES_ON : CURVES_OFF;
    if (choice == 0 && view->arrange.align.by != ALIGN_WALL)
        view_say(view, "curves are shown once times are as recorded: align wall");
    else
        view_say(view, choice == 0 ? "curves are shown where rows are left" : "curves are not shown");
}

const struct look_rule look_timeline_rules[] = {
    { CMD_rank, rank },
    { CMD_rrank, rrank },
    { CMD_flow, flow },
    { CMD_rflow, rflow },
    { CMD_flows, flows },
    { CMD_fold, fold },
    { CMD_pin, pin },
    { CMD_filter, filter },
    { CMD_squeeze, squeeze },
    { CMD_align, align },
    { CMD_clock, clock_next },
    { CMD_curves, curves },
    { 0, NULL },
};
