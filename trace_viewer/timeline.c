/* Lanes in rows. Interface in order of use: timeline_wanted while rows are dealt out, timeline_draw;
 * timeline_lane_at. Which row shows what is rows.c's business, what its cells contain and look like strip.c's and
 * strip_draw.c's, lines between rows flows.c's, names gutter.c's, which moment a column shows window.c's. */
#include "timeline.h"

#include "columns.h"
#include "contrast.h"
#include "flows.h"
#include "gutter.h"
#include "moment.h"
#include "rows.h"
#include "shade.h"
#include "strip.h"
#include "trace/reader.h"
#include "window.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { VERTICAL = 0x2502, SLASH = 0x2571 };

int
timeline_wanted(const struct model *model, const struct view *view)
{
    struct axis axis;
    window_axis(model, view, columns_of_time(view->width), &axis);
    return rows_wanted(model, view, &axis);
}

int
timeline_lane_at(const struct model *model, const struct view *view, int rows, int row)
{
    struct axis axis;
    struct rows dealt;
    window_axis(model, view, columns_of_time(view->width), &axis);
    if (!rows_deal(model, view, &axis, rows, &dealt))
        return -1;
    int lane = row >= 0 && row < dealt.count && dealt.row[row].unit >= 0 ? dealt.row[row].lane : -1;
    rows_free(&dealt);
    return lane;
}

/* The seq that a row highlights: the begin of the span that the cursor's event begins or ends; or the mark. */
static size_t
selection(const struct model *model, const struct view *view)
{
    struct span span;
    int level;
    return moment_span(model, view->cursor, &span, &level) ? span.seq : view->cursor;
}

static bool
row_has(const struct model *model, const struct row *row, size_t seq)
{
    const struct trace_event *event = trace_event(model->trace, seq);
    if (row->kind != ROW_LANE || event == NULL || (int)event->lane != row->lane)
        return false;
    struct span span;
    int level;
    return moment_span(model, seq, &span, &level) ? level >= row->first && level <= row->last : row->first == 0;
}

/* All that rows are drawn with. */
struct drawing {
    const struct model        *model;
    const struct view         *view;
    const struct capabilities *capabilities;
    const struct rows         *rows;
    const struct axis         *axis;
    struct strip               strip;
    struct canvas              body, gutter;
    int                        cursor;     /* its column, -1 none */
};

/* A lane's levels, piece by piece of the axis: each is a stretch of plain time. */
static void
draw_lane(struct drawing *drawing, int at)
{
    const struct row *row = &drawing->rows->row[at];
    const struct model *model = drawing->model;
    struct strip *strip = &drawing->strip;
    uint64_t shift = align_shift(&drawing->view->arrange.align, trace_lane_at(model->trace, (size_t)row->lane)->rank);
    strip->lane = (size_t)row->lane;
    strip->first = row->first;
    strip->last = row->last;
    strip->cursor_here = strip->selected != NO_EVENT && row_has(model, row, strip->selected);
    for (int i = 0; i < drawing->axis->count; i++) {
        const struct piece *piece = &drawing->axis->piece[i];
        struct canvas part = canvas_part(&drawing->body, at, piece->at, 1, piece->columns);
        if (piece_is_gap(piece)) {
            canvas_fill(&part, 0, (struct style){ .ink = INK_DIM }, SLASH);
            continue;
        }
        strip->scale = axis_scale(drawing->axis, i, shift);
        strip->cursor = drawing->cursor - piece->at;
        if (strip->cursor < 0 || strip->cursor >= piece->columns)
            strip->cursor = -1;
        strip_paint(strip);
        strip_draw(strip, &part, 0, drawing->capabilities);
    }
}

/* "mem d0  512KiB": what the curve counts, and the most in the window. */
static void
draw_curve(struct drawing *drawing, int at)
{
    const struct view *view = drawing->view;
    const struct curve *curve = &view->arrange.curves.curve[drawing->rows->row[at].lane];
    int64_t top = shade_curve(curve, drawing->axis, view->veil.whole, &drawing->body, at);
    char name[32], most[16];
    struct style dim = { .ink = INK_DIM };
    curve_name(curve, drawing->gutter.width >= 16, name, sizeof name);
    curve_print(curve, top, most, sizeof most);
    int end = canvas_cut(&drawing->gutter, (struct stretch){ at, 1, drawing->gutter.width - 2 }, dim, name);
    int left = drawing->gutter.width - 1 - (int)strlen(most);
    if (left > end)
        canvas_text(&drawing->gutter, at, left, dim, most);
}

static void
draw_unit(struct drawing *drawing, int at)
{
    const struct rows *rows = drawing->rows;
    const struct unit *unit = &rows->unit[rows->row[at].unit];
    int lanes = unit->count;
    if (unit->kind == ROW_ALIKE) { /* the first rank stands for all */
        int rank = trace_lane_at(drawing->model->trace, (size_t)rows->lane[unit->from])->rank;
        for (lanes = 1; lanes < unit->count; lanes++)
            if (trace_lane_at(drawing->model->trace, (size_t)rows->lane[unit->from + lanes])->rank != rank)
                break;
    }
    draw_lane(drawing, at); /* what the rank's own thread does, and where that does nothing, how busy the others are */
    shade_lanes(drawing->model, drawing->view, drawing->axis, &rows->lane[unit->from], lanes, &drawing->body, at);
}

/* How busy the lanes are that have no row, and in blank cells how one comes to them. */
static void
draw_rest(struct drawing *drawing, int at, struct canvas *pane, int column)
{
    static const char hint[] = " j/k scroll";
    const struct rows *rows = drawing->rows;
    int *lanes = malloc(((size_t)rows->lanes + 1) * sizeof *lanes), count = 0;
    if (lanes == NULL) {
        canvas_starve(pane);
        return;
    }
    for (int i = 0; i < rows->units; i++) {
        int place = rows->pinned >= 0 && i > rows->pinned ? i - 1 : i;
        bool shown = i == rows->pinned || (place >= rows->top && place < rows->top + rows->shown);
        for (int k = 0; k < rows->unit[i].count && !shown; k++)
            lanes[count++] = rows->lane[rows->unit[i].from + k];
    }
    if (column <= drawing->gutter.width)
        shade_lanes(drawing->model, drawing->view, drawing->axis, lanes, count, &drawing->body, at);
    free(lanes);
    int from = pane->width - (int)sizeof hint + 1;
    bool blank = from >= column;
    for (int i = from; i < pane->width && blank; i++)
        blank = canvas_at(pane, at, i)->code == ' ';
    if (blank)
        canvas_text(pane, at, from, (struct style){ .ink = INK_DIM }, hint);
}

static void
draw_contrast(struct drawing *drawing, int at)
{
    const struct row *row = &drawing->rows->row[at];
    contrast_draw(&(struct contrast){ (size_t)row->first, (size_t)row->last }, drawing->axis, &drawing->strip,
                  &drawing->body, at);
}

static void
draw_row(struct drawing *drawing, int at, struct canvas *pane)
{
    int column = gutter_draw(drawing->model, drawing->view, drawing->rows, at, &drawing->gutter, pane);
    switch (drawing->rows->row[at].kind) {
    case ROW_LANE:  draw_lane(drawing, at); break;
    case ROW_RANK:
    case ROW_ALIKE: draw_unit(drawing, at); break;
    case ROW_REST:  draw_rest(drawing, at, pane, column); break;
    case ROW_CURVE: draw_curve(drawing, at); break;
    case ROW_CONTRAST: draw_contrast(drawing, at); break;
    }
}

static void
draw_cursor(struct canvas *canvas, int rows, int column)
{
    for (int row = 0; row < rows && column >= 0 && column < canvas->width; row++) {
        const struct cell *cell = canvas_at(canvas, row, column);
        if (cell->code == ' ' && cell->style.paper == INK_PLAIN)
            canvas_put(canvas, row, column, (struct style){ .ink = INK_DIM }, VERTICAL);
    }
}

void
timeline_draw(const struct model *model, const struct view *view, struct canvas *pane,
              const struct capabilities *capabilities)
{
    int names = columns_of_names(pane->width), columns = pane->width - names;
    struct rows rows;
    struct axis axis;
    if (pane->height <= 0 || columns <= 0)
        return;
    struct strip_cell *cells = calloc((size_t)columns, sizeof *cells);
    window_axis(model, view, columns, &axis);
    if (cells == NULL || !rows_deal(model, view, &axis, pane->height, &rows)) {
        free(cells);
        canvas_starve(pane);
        return;
    }
    struct drawing drawing = {
        .model = model, .view = view, .capabilities = capabilities, .rows = &rows, .axis = &axis, .cursor = -1,
        .strip = { .model = model, .veil = &view->veil, .sieve = filter_sieve(&view->arrange.filter), .cells = cells,
                   .selected = selection(model, view) },
        .gutter = canvas_part(pane, 0, 0, pane->height, names),
        .body = canvas_part(pane, 0, names, pane->height, columns),
    };
    if (view->cursor != NO_EVENT)
        drawing.cursor = axis_column(&axis, window_shown(model, view, view->cursor));
    for (int i = 0; i < rows.count; i++)
        draw_row(&drawing, i, pane);
    flows_draw(model, view, &rows, &axis, &drawing.body);
    draw_cursor(&drawing.body, rows.count, drawing.cursor);
    rows_free(&rows);
    free(cells);
}
