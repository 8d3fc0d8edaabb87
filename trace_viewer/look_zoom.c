/* The window in time: zoom, pan, fit, measure. */
#include "look_internal.h"

#include "columns.h"
#include "trace/reader.h"

/* From "all" to a zoom that can be changed. */
static void
fix_zoom(struct view *view, const struct model *model)
{
    if (view->unit != 0)
        return;
    struct scale scale = view_scale(view, model, columns_of_time(view->width));
    view->unit = scale.unit;
    view->left = scale.left;
}

/* The cursor keeps its column. */
static void
zoom(struct view *view, const struct model *model, bool in)
{
    fix_zoom(view, model);
    int columns = columns_of_time(view->width);
    uint64_t time = view->cursor != NO_EVENT ? trace_time(model->trace, view->cursor) : 0;
    int64_t column = (int64_t)(time / view->unit) - view->left;
    if (column < 0 || column >= columns)
        column = columns / 2;
    view->unit = in ? scale_finer(view->unit) : scale_coarser(view->unit);
    view->left = (int64_t)(time / view->unit) - column;
    if (view->left < 0)
        view->left = 0;
}

static void
pan(struct view *view, const struct model *model, int direction)
{
    fix_zoom(view, model);
    int64_t last = (int64_t)(model->end / view->unit);
    int64_t columns = columns_of_time(view->width), left = view->left + direction * (columns / 4 > 0 ? columns / 4 : 1);
    view->left = left > last ? last : left < 0 ? 0 : left;
}

void
zoom_into(struct view *view, struct model *model)
{
    if (view->cursor == NO_EVENT)
        return;
    size_t partner = trace_partner(model->trace, view->cursor);
    uint64_t a = trace_time(model->trace, view->cursor);
    uint64_t b = partner == SIZE_MAX ? a : trace_time(model->trace, partner);
    uint64_t from = a < b ? a : b, length = a < b ? b - a : a - b;
    if (length == 0) { /* a mark, or a stage that costs no time */
        zoom(view, model, true);
        return;
    }
    int columns = columns_of_time(view->width);
    view->unit = scale_unit_for(length + length / 8, columns);
    view->left = (int64_t)(from / view->unit) - (columns - (int64_t)(length / view->unit)) / 2;
    if (view->left < 0)
        view->left = 0;
}

static void
zoom_in(struct view *view, struct model *model, const struct command_line *line)
{
    (void)line;
    zoom(view, model, true);
}

static void
zoom_out(struct view *view, struct model *model, const struct command_line *line)
{
    (void)line;
    zoom(view, model, false);
}

static void
pan_left(struct view *view, struct model *model, const struct command_line *line)
{
    (void)line;
    pan(view, model, -1);
}

static void
pan_right(struct view *view, struct model *model, const struct command_line *line)
{
    (void)line;
    pan(view, model, 1);
}

static void
fit(struct view *view, struct model *model, const struct command_line *line)
{
    (void)model;
    (void)line;
    view->unit = 0;
    view->left = 0;
    view->all = true;
}

static void
measure(struct view *view, struct model *model, const struct command_line *line)
{
    (void)model;
    (void)line;
    view->measure = view->measure == NO_EVENT ? view->cursor : NO_EVENT;
}

const struct look_rule look_zoom_rules[] = {
    { CMD_zoom_in, zoom_in },
    { CMD_zoom_out, zoom_out },
    { CMD_pan_left, pan_left },
    { CMD_pan_right, pan_right },
    { CMD_fit, fit },
    { CMD_measure, measure },
    { 0, NULL },
};
