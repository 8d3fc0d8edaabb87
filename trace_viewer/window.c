/* The window in time, and moving it. Interface: window_scale, window_axis, window_shown; window_fix,
 * window_place, window_show, window_show_all, window_follow_cursor, window_zoom, window_pan; window_keep,
 * window_back. */
#include "window.h"

#include "columns.h"
#include "squeeze.h"
#include "trace/reader.h"
#include "view.h"

#include <string.h>

enum { TRIES = 64 };

struct scale
window_scale(const struct view *view, const struct model *model, int columns)
{
    if (view->unit == 0)
        return (struct scale){ scale_unit_for(model->end + align_most(&view->arrange.align), columns), 0, columns, 0 };
    return (struct scale){ view->unit, view->left, columns, 0 };
}

void
window_axis(const struct model *model, const struct view *view, int columns, struct axis *axis)
{
    struct scale scale = window_scale(view, model, columns);
    if (view->arrange.squeezed)
        squeeze_axis(model, view, &scale, axis);
    else
        axis_plain(axis, &scale);
}

uint64_t
window_shown(const struct model *model, const struct view *view, size_t seq)
{
    const struct trace_event *event = trace_event(model->trace, seq);
    if (event == NULL)
        return 0;
    int rank = trace_lane_at(model->trace, event->lane)->rank;
    return trace_time(model->trace, seq) + align_shift(&view->arrange.align, rank);
}

static void
axis_now(const struct view *view, const struct model *model, struct axis *axis)
{
    window_axis(model, view, columns_of_time(view->width), axis);
}

void
window_fix(struct view *view, const struct model *model)
{
    if (view->unit != 0)
        return;
    struct scale scale = window_scale(view, model, columns_of_time(view->width));
    view->unit = scale.unit;
    view->left = scale.left;
}

/* Squeezed, how far left the window begins is found by trying: what is further left pushes the moment to the right, by
 * a column at most for each. */
static void
step_back_to(struct view *view, const struct model *model, uint64_t shown, int column)
{
    int64_t step = 0;
    for (int i = 0, before = -1; i < TRIES && view->left > 0; i++) {
        struct axis axis;
        axis_now(view, model, &axis);
        int at = axis_column(&axis, shown);
        if (at >= column)
            break;
        step = at > before || step == 0 ? column - at : step * 2;
        view->left = view->left > step ? view->left - step : 0;
        before = at;
    }
}

void
window_place(struct view *view, const struct model *model, uint64_t shown, int column)
{
    view->left = (int64_t)(shown / view->unit) - column;
    if (view->left < 0)
        view->left = 0;
    if (view->arrange.squeezed)
        step_back_to(view, model, shown, column);
}

void
window_show(struct view *view, const struct model *model, uint64_t from, uint64_t to)
{
    int columns = columns_of_time(view->width);
    uint64_t length = to - from;
    view->unit = scale_unit_for(length + length / 8, columns);
    window_place(view, model, from, (columns - (int)(length / view->unit)) / 2);
}

/* Squeezed, the finest zoom at which the end is still to be seen: the finer it is, the more is squeezed. */
void
window_show_all(struct view *view, const struct model *model)
{
    view->unit = 0;
    view->left = 0;
    view->all = true;
    if (!view->arrange.squeezed || columns_of_time(view->width) <= 0)
        return;
    window_fix(view, model);
    uint64_t found = view->unit, end = model->end + align_most(&view->arrange.align);
    for (uint64_t before = 0; view->unit != before;) {
        struct axis axis;
        axis_now(view, model, &axis);
        found = axis_column(&axis, end) < axis.columns ? view->unit : found;
        before = view->unit;
        view->unit = scale_finer(before);
    }
    view->unit = found;
}

void
window_follow_cursor(struct view *view, const struct model *model)
{
    if (view->unit == 0 || view->cursor == NO_EVENT)
        return;
    struct axis axis;
    axis_now(view, model, &axis);
    uint64_t shown = window_shown(model, view, view->cursor);
    int column = axis_column(&axis, shown), margin = axis.columns / 5;
    if (column < margin && view->left > 0)
        window_place(view, model, shown, margin);
    else if (column >= axis.columns - margin)
        window_place(view, model, shown, axis.columns - margin - 1);
}

void
window_zoom(struct view *view, const struct model *model, bool in)
{
    struct axis axis;
    window_fix(view, model);
    axis_now(view, model, &axis);
    uint64_t shown = view->cursor != NO_EVENT ? window_shown(model, view, view->cursor) : 0;
    int column = view->cursor != NO_EVENT ? axis_column(&axis, shown) : -1;
    bool here = column >= 0 && column < axis.columns;
    if (!here) {
        column = axis.columns / 2;
        shown = axis_time(&axis, column);
    }
    view->unit = in ? scale_finer(view->unit) : scale_coarser(view->unit);
    window_place(view, model, here ? shown : shown + view->unit / 2, column);
}

void
window_pan(struct view *view, const struct model *model, int columns)
{
    struct axis axis;
    window_fix(view, model);
    axis_now(view, model, &axis);
    int64_t last = (int64_t)((model->end + align_most(&view->arrange.align)) / view->unit);
    if (columns > 0)
        view->left = (int64_t)(axis_time(&axis, columns) / axis.unit);
    else
        window_place(view, model, axis_time(&axis, 0), -columns);
    view->left = view->left > last ? last : view->left;
    if (columns < 0)
        view->arrange.following = false;
}

void
window_keep(struct view *view)
{
    struct arrange *arrange = &view->arrange;
    if (arrange->window_count == WINDOWS) { /* the oldest is forgotten */
        memmove(arrange->windows, arrange->windows + 1, sizeof arrange->windows - sizeof arrange->windows[0]);
        arrange->window_count--;
    }
    arrange->windows[arrange->window_count++] = (struct window){ view->unit, view->left };
}

bool
window_back(struct view *view)
{
    struct arrange *arrange = &view->arrange;
    if (arrange->window_count == 0)
        return false;
    struct window *window = &arrange->windows[--arrange->window_count];
    view->unit = window->unit;
    view->left = window->left;
    return true;
}
