/* The window in time: zoom, pan, fit, in and out, measure. */
#include "look_internal.h"

#include "columns.h"
#include "moment.h"
#include "window.h"

void
zoom_into(struct view *view, struct model *model)
{
    if (view->cursor == NO_EVENT)
        return;
    struct span span;
    int level;
    uint64_t length = moment_span(model, view->cursor, &span, &level) ? span_end_shown(model, &span) - span.begin : 0;
    uint64_t unit = window_scale(view, model, columns_of_time(view->width)).unit;
    if (length == 0 && scale_finer(unit) == unit) { /* a window that is set no longer grows with the run */
        view_say(view, "no time passes here: there is nothing to zoom into");
        return;
    }
    window_keep(view);
    if (length == 0) { /* a mark, or a stage that costs no time */
        window_zoom(view, model, true);
        return;
    }
    uint64_t from = window_shown(model, view, span.seq);
    window_show(view, model, from, from + length);
}

static void
out(struct view *view, struct model *model, const struct command_line *line)
{
    (void)model;
    (void)line;
    window_back(view);
}

static void
zoom_in(struct view *view, struct model *model, const struct command_line *line)
{
    (void)line;
    window_zoom(view, model, true);
}

static void
zoom_out(struct view *view, struct model *model, const struct command_line *line)
{
    (void)line;
    window_zoom(view, model, false);
}

/* A quarter of what is seen, or all of it. */
static void
pan(struct view *view, const struct model *model, int direction, int part)
{
    int columns = columns_of_time(view->width) / part;
    window_pan(view, model, direction * (columns > 0 ? columns : 1));
}

static void
pan_left(struct view *view, struct model *model, const struct command_line *line)
{
    (void)line;
    pan(view, model, -1, 4);
}

static void
pan_right(struct view *view, struct model *model, const struct command_line *line)
{
    (void)line;
    pan(view, model, 1, 4);
}

static void
screen_left(struct view *view, struct model *model, const struct command_line *line)
{
    (void)line;
    pan(view, model, -1, 1);
}

static void
screen_right(struct view *view, struct model *model, const struct command_line *line)
{
    (void)line;
    pan(view, model, 1, 1);
}

static void
fit(struct view *view, struct model *model, const struct command_line *line)
{
    (void)line;
    window_keep(view);
    window_show_all(view, model);
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
    { CMD_screen_left, screen_left },
    { CMD_screen_right, screen_right },
    { CMD_fit, fit },
    { CMD_out, out },
    { CMD_measure, measure },
    { 0, NULL },
};
