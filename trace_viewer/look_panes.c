/* Panes: which has the keys, which is open, how far they are scrolled; and the list of keys. */
#include "look_internal.h"

#include "base/vec.h"
#include "keys.h"
#include "layout.h"
#include "rows.h"
#include "trace/reader.h"

#include <string.h>
#include <strings.h>

int
bounded(int value, int low, int high)
{
    return value > high ? high < low ? low : high : value < low ? low : value;
}

/* How many rows the list of keys has to itself. */
static int
help_rows(const struct view *view)
{
    return view->height > 2 ? view->height - 2 : 1;
}

static struct layout
layout_now(const struct view *view, const struct model *model)
{
    return layout_of(&(struct scene){ model, view, NULL }, view->width, view->height);
}

/* A pane whose rows can be chosen moves its choice, another its text. */
static void
scroll_pane(struct view *view, const struct model *model, int direction, bool page)
{
    const struct scene     scene = { model, view, NULL };
    struct pane_look       *look = &view->panes[view->focus];
    struct layout           layout = layout_now(view, model);
    const struct slot      *slot = layout_slot(&layout, view->focus);
    int rows = slot != NULL && slot->box.height > 2 ? slot->box.height - 1 : 1, by = page ? rows : 1;
    if (pane_has_choices(view->focus)) {
        look->line = bounded(look->line + direction * by, 0, pane_choices(&scene, view->focus) - 1);
        look->scroll = bounded(look->scroll, look->line - rows + 1, look->line);
        look->scroll = look->scroll < 0 ? 0 : look->scroll;
        return;
    }
    int way = view->focus == PANE_LESSON ? -direction : direction; /* its newest words are at its foot */
    look->scroll = bounded(look->scroll + way * by, view->focus == PANE_SOURCE ? -100000 : 0, 100000);
}

/* In the timeline lanes, in a pane its lines, in the help its lines; by one, or by as many as are on the screen. */
static void
up_or_down(struct view *view, const struct model *model, int direction, bool page)
{
    if (view->help) {
        int *line = &view->panes[PANE_TIMELINE].scroll, rows = help_rows(view);
        *line = bounded(*line + direction * (page ? rows : 1), 0, keys_help_lines(view) - rows);
    } else if (view->focus != PANE_TIMELINE) {
        scroll_pane(view, model, direction, page);
    } else {
        struct layout layout = layout_now(view, model);
        int by = page && layout.timeline.height > 2 ? layout.timeline.height - 1 : 1;
        view->lane = rows_lane_beside(model, view, layout.timeline.height, direction * by);
    }
}

/* A trace that grows is followed from its last event on. */
static bool
is_live(const struct view *view, const struct model *model)
{
    return view->run == RUN_RUNNING || view->run == RUN_PAUSED ||
           (view->run == RUN_SAVED && strncmp(trace_note(model->trace), "cut", 3) == 0);
}

/* The first or last event; in the help its first or last lines. */
static void
go_end(struct view *view, const struct model *model, bool last)
{
    if (view->help) {
        int most = bounded(keys_help_lines(view) - help_rows(view), 0, 100000);
        view->panes[PANE_TIMELINE].scroll = last ? most : 0;
        return;
    }
    view_goto(view, model, last && model->seen > 0 ? model->seen - 1 : 0);
    view->arrange.following = last && is_live(view, model);
}

/* The next pane of those on the screen, or the one before. */
static void
turn_pane(struct view *view, const struct model *model, int direction)
{
    struct view parts = *view;
    parts.full = false;
    struct layout layout = layout_of(&(struct scene){ model, &parts, NULL }, view->width, view->height);
    do
        view->focus = (enum pane)(((int)view->focus + direction + PANE_COUNT) % PANE_COUNT);
    while (view->focus != PANE_TIMELINE && layout_slot(&layout, view->focus) == NULL);
}

/* The pane has the keys; one that is not on the screen takes the place that changes. */
static void
give_pane(struct view *view, struct model *model, const struct command_line *line)
{
    struct layout layout = layout_now(view, model);
    size_t        length = strlen(line->rest);
    if (length == 0) {
        turn_pane(view, model, 1);
        return;
    }
    if (strncasecmp("timeline", line->rest, length) == 0) {
        view->focus = PANE_TIMELINE;
        return;
    }
    for (int pane = PANE_LESSON; pane < PANE_COUNT; pane++)
        if (strncasecmp(pane_kind((enum pane)pane)->name, line->rest, length) == 0) {
            view->focus = (enum pane)pane;
            if (layout_slot(&layout, view->focus) == NULL)
                view->chosen = view->focus;
            return;
        }
    view_say(view, "no pane is called %.40s; :pane and Tab name them", line->rest);
}

/* What is in the place that changes, turned by hand through the panes that are not on the screen otherwise; behind
 * the last one it follows the event again. */
static void
inspect(struct view *view, struct model *model, const struct command_line *line)
{
    (void)line;
    struct layout layout = layout_now(view, model);
    const struct scene scene = { model, view, NULL };
    enum pane open = pane_open(&scene);
    int pane = view->chosen == PANE_TIMELINE ? PANE_SOURCE : (int)view->chosen + 1;
    while (pane < PANE_COUNT && (pane_concern(&scene, (enum pane)pane) == CONCERN_NONE || pane == (int)open ||
                                 layout_slot(&layout, (enum pane)pane) != NULL))
        pane++;
    view->chosen = pane < PANE_COUNT ? (enum pane)pane : PANE_TIMELINE;
    if (view->focus == open && open != PANE_TIMELINE)
        view->focus = pane_open(&scene);
    if (view->chosen == PANE_TIMELINE)
        view_say(view, "the pane follows the event again");
}

/* info: breaks, memory, buckets, tensors, tasks and locks are panes. */
static void
show_info(struct view *view, struct model *model, const struct command_line *line)
{
    (void)model;
    static const struct { const char *word; enum pane pane; } panes[] = {
        { "memory", PANE_MEMORY }, { "tensor", PANE_TENSOR }, { "buckets", PANE_BUCKETS }, { "breaks", PANE_BREAKS },
    };
    view->chosen = PANE_TASKS;
    for (size_t i = 0; i < countof(panes); i++)
        if (strncmp(line->rest, panes[i].word, 2) == 0)
            view->chosen = panes[i].pane;
}

/* B: the breakpoints have the keys; again: the timeline has. */
static void
points(struct view *view, struct model *model, const struct command_line *line)
{
    (void)line;
    struct layout layout = layout_now(view, model);
    bool open = view->focus == PANE_BREAKS;
    view->focus = open ? PANE_TIMELINE : PANE_BREAKS;
    if (open && view->chosen == PANE_BREAKS)
        view->chosen = PANE_TIMELINE;
    if (!open && layout_slot(&layout, PANE_BREAKS) == NULL)
        view->chosen = PANE_BREAKS;
}

static void
help(struct view *view, struct model *model, const struct command_line *line)
{
    (void)model;
    if (line->rest[0] != '\0') {
        keys_explain(view, line->rest);
        return;
    }
    view->help = view->help == HELP_KEYS ? HELP_NONE : view->help + 1;
    view->panes[PANE_TIMELINE].scroll = 0;
}

static void
rpane(struct view *view, struct model *model, const struct command_line *line)
{
    (void)line;
    turn_pane(view, model, -1);
}

static void
lane_up(struct view *view, struct model *model, const struct command_line *line)
{
    (void)line;
    up_or_down(view, model, -1, false);
}

static void
lane_down(struct view *view, struct model *model, const struct command_line *line)
{
    (void)line;
    up_or_down(view, model, 1, false);
}

static void
page_up(struct view *view, struct model *model, const struct command_line *line)
{
    (void)line;
    up_or_down(view, model, -1, true);
}

static void
page_down(struct view *view, struct model *model, const struct command_line *line)
{
    (void)line;
    up_or_down(view, model, 1, true);
}

static void
first(struct view *view, struct model *model, const struct command_line *line)
{
    if (line->has_count && (uint64_t)line->count < model->seen)
        view_goto(view, model, (size_t)line->count);
    else if (line->has_count)
        view_say(view, "the events are 0 to %zu", model->seen > 0 ? model->seen - 1 : 0);
    else
        go_end(view, model, false);
}

static void
last(struct view *view, struct model *model, const struct command_line *line)
{
    (void)line;
    go_end(view, model, true);
}

static void
full(struct view *view, struct model *model, const struct command_line *line)
{
    (void)model;
    (void)line;
    view->full = !view->full;
}

const struct look_rule look_pane_rules[] = {
    { CMD_help, help },
    { CMD_pane, give_pane },
    { CMD_inspect, inspect },
    { CMD_info, show_info },
    { CMD_points, points },
    { CMD_rpane, rpane },
    { CMD_lane_up, lane_up },
    { CMD_lane_down, lane_down },
    { CMD_page_up, page_up },
    { CMD_page_down, page_down },
    { CMD_first, first },
    { CMD_last, last },
    { CMD_full, full },
    { 0, NULL },
};
