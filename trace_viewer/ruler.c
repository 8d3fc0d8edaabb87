/* The ruler and the minimap above the timeline. Interface: ruler_draw, minimap_draw, each into one row. */
#include "timeline.h"

#include "base/str.h"
#include "busy.h"
#include "columns.h"
#include "gutter.h"
#include "measure.h"
#include "trace/reader.h"
#include "window.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { APART = 12, TICK = 0x2577, CURSOR = 0x25bc, SLASH = 0x2571 };

/* One unit for the whole ruler, from the distance of its ticks. ASCII "us", never a mu. */
static void
print_offset(uint64_t ps, uint64_t step, char *out, size_t size)
{
    static const struct { uint64_t ps; const char *name; } units[] = {
        { 1000000000000u, "s" }, { 1000000000u, "ms" }, { 1000000u, "us" }, { 1000u, "ns" },
    };
    int i = 0;
    while (i < 3 && step < units[i].ps)
        i++;
    double value = (double)ps / (double)units[i].ps;
    snprintf(out, size, "+%.10g %s", value, units[i].name);
}

/* Which clock the times are of; where ranks are set side by side, by what. */
static void
print_clock(const struct model *model, const struct view *view, char *out, size_t size)
{
    const char *hardware = trace_option_of(model->trace, "hardware");
    const struct align *align = &view->arrange.align;
    if (align->by == ALIGN_ITERATION)
        snprintf(out, size, "aligned by iteration %u", align->iteration);
    else if (align->by == ALIGN_COLLECTIVE)
        snprintf(out, size, "aligned by collective %lld", (long long)align->sequence);
    else if (!trace_is_virtual(model->trace))
        snprintf(out, size, "wall clock");
    else if (hardware[0] != '\0')
        snprintf(out, size, "virtual (%.40s)", hardware);
    else
        snprintf(out, size, "virtual clock");
}

/* Absolute; where ranks are aligned, from where they meet. */
static void
draw_left(const struct view *view, const struct axis *axis, struct canvas *pane, int room)
{
    struct str left = { 0 };
    uint64_t time = axis_time(axis, 0), meet = view->arrange.align.late;
    char apart[16];
    gutter_print_short(time < meet ? meet - time : time - meet, apart, sizeof apart);
    if (view->arrange.align.by != ALIGN_WALL && view->arrange.align.count > 0)
        str_addf(&left, "%s%s", time < meet ? "-" : "+", apart);
    else
        trace_print_time(time, &left);
    canvas_cut(pane, (struct stretch){ 0, 1, room }, (struct style){ 0 }, canvas_words(pane, &left));
    str_free(&left);
}

static bool
is_blank(const struct canvas *canvas, struct stretch place)
{
    for (int i = 0; i < place.room; i++) {
        const struct cell *cell = canvas_at(canvas, place.row, place.column + i);
        if (cell == NULL || cell->code != ' ')
            return false;
    }
    return true;
}

/* How long the gaps are that squeezing left, above them. */
static void
draw_gaps(const struct axis *axis, struct canvas *body, const struct capabilities *capabilities)
{
    const struct style style = { .ink = INK_ACCENT };
    for (int i = 0; i < axis->count; i++) {
        const struct piece *piece = &axis->piece[i];
        char text[16];
        if (!piece_is_gap(piece))
            continue;
        gutter_print_short((uint64_t)piece->length * axis->unit, text, sizeof text);
        int length = (int)strlen(text), from = piece->at + 1 - length / 2;
        from = from + length > body->width ? body->width - length : from < 0 ? 0 : from;
        if (is_blank(body, (struct stretch){ 0, from, length }))
            canvas_text(body, 0, from, style, text);
        else
            for (int k = 0; k < piece->columns; k++)
                canvas_put(body, 0, piece->at + k, style, capabilities->utf8 ? SLASH : '/');
    }
}

/* Ticks of one piece of the axis, at steps from the window's left edge on. */
static void
draw_ticks(const struct axis *axis, const struct piece *piece, uint64_t step, struct canvas *body, int room)
{
    const struct style dim = { .ink = INK_DIM };
    int64_t apart = (int64_t)(step / axis->unit), first = axis->piece[0].left;
    int64_t at = (piece->left - first + apart - 1) / apart * apart;
    for (; at - (piece->left - first) < piece->columns; at += apart) {
        char text[48];
        int column = piece->at + (int)(at - (piece->left - first));
        print_offset((uint64_t)at * axis->unit, step, text, sizeof text);
        struct stretch label = { 0, column + 1, (int)strlen(text) };
        if (column >= room || !is_blank(body, (struct stretch){ 0, column, 1 }))
            continue;
        canvas_put(body, 0, column, dim, TICK);
        if (at > 0 && column + 1 + label.room <= room && is_blank(body, label))
            canvas_text(body, 0, column + 1, dim, text);
    }
}

static void
draw_cursor(struct canvas *body, int cursor, const struct capabilities *capabilities)
{
    const struct cell *cell = canvas_at(body, 0, cursor);
    if (cell == NULL)
        return;
    uint32_t code = cell->code != ' ' && cell->code != TICK ? cell->code : capabilities->utf8 ? CURSOR : 'v';
    canvas_put(body, 0, cursor, (struct style){ .ink = INK_ACCENT, .attr = ATTR_REVERSE | ATTR_BOLD }, code);
}

void
ruler_draw(const struct model *model, const struct view *view, struct canvas *pane,
           const struct capabilities *capabilities)
{
    int gutter = columns_of_names(pane->width), columns = pane->width - gutter;
    if (columns <= 0 || pane->height <= 0)
        return;
    struct axis axis;
    window_axis(model, view, columns, &axis);
    struct canvas body = canvas_part(pane, 0, gutter, pane->height, columns);
    char clock[64];
    print_clock(model, view, clock, sizeof clock);
    struct style dim = { .ink = INK_DIM };
    int cursor = view->cursor == NO_EVENT ? -1 : axis_column(&axis, window_shown(model, view, view->cursor));
    draw_left(view, &axis, pane, gutter - 2);
    draw_gaps(&axis, &body, capabilities);
    int room = columns, named = (int)strlen(clock) + 2;
    bool right = cursor < columns - named || cursor >= columns; /* the cursor's column is the cursor's */
    right &= is_blank(&body, (struct stretch){ 0, columns - named, named });
    if (columns > 60 && right) {
        canvas_right(&body, 0, dim, clock);
        room = columns - named;
    } else if (columns > 60 && is_blank(&body, (struct stretch){ 0, 0, named })) {
        canvas_text(&body, 0, 1, dim, clock);
        canvas_put(&body, 0, 0, dim, TICK);
    }
    uint64_t step = axis.unit;
    for (int i = 0; i < 5 && step / axis.unit < APART; i++)
        step = scale_coarser(step);
    for (int i = 0; i < axis.count; i++)
        if (!piece_is_gap(&axis.piece[i]))
            draw_ticks(&axis, &axis.piece[i], step, &body, room);
    draw_cursor(&body, cursor, capabilities);
    if (pane->height > 1) {
        struct canvas below = canvas_part(&body, 1, 0, 1, columns);
        measure_draw(model, view, &axis, &below);
    }
}

/* The first one from the column's left edge on that is not hidden lies in it. */
static bool
has_fault(const struct model *model, const struct view *view, const struct scale *whole, int column)
{
    size_t low = 0, high = model->fault_count;
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        if (trace_time(model->trace, model->faults[middle]) < scale_time(whole, column))
            low = middle + 1;
        else
            high = middle;
    }
    while (low < model->fault_count && veil_hides(&view->veil, model, model->faults[low]))
        low++;
    return low < model->fault_count && scale_column(whole, trace_time(model->trace, model->faults[low])) == column;
}

static void
draw_window(const struct model *model, const struct view *view, uint64_t unit, struct canvas *body)
{
    struct scale whole = { .unit = unit, .columns = body->width };
    for (int column = 0; column < body->width; column++)
        if (has_fault(model, view, &whole, column))
            canvas_put(body, 0, column, (struct style){ .ink = WORK_FAULT, .attr = ATTR_BOLD }, '!');
    if (view->unit != 0) {
        struct axis axis;
        window_axis(model, view, body->width, &axis);
        int left = scale_column(&whole, axis_time(&axis, 0));
        int right = scale_column(&whole, axis_time(&axis, body->width));
        struct style edge = { .ink = INK_ACCENT, .attr = ATTR_BOLD };
        right = right < body->width ? right : body->width - 1;
        if (left >= right) /* within one column: it is drawn wider than it is, that both are seen */
            left = right > 0 ? right - 1 : 0, right = left + 1;
        canvas_put(body, 0, left, edge, '[');
        canvas_put(body, 0, right, edge, ']');
    }
    if (view->cursor != NO_EVENT) {
        int at = scale_column(&whole, trace_time(model->trace, view->cursor));
        const struct cell *cell = canvas_at(body, 0, at);
        if (cell != NULL)
            canvas_put(body, 0, at, (struct style){ .ink = INK_ACCENT, .attr = ATTR_REVERSE }, cell->code);
    }
}

/* One row, the whole trace: how busy the lanes are, where the window lies, where it went wrong. */
void
minimap_draw(const struct model *model, const struct view *view, struct canvas *pane,
             const struct capabilities *capabilities)
{
    int gutter = columns_of_names(pane->width), columns = pane->width - gutter;
    if (columns <= 0 || pane->height <= 0)
        return;
    uint64_t *busy = calloc((size_t)columns, sizeof *busy);
    if (busy == NULL) {
        canvas_starve(pane);
        return;
    }
    struct canvas body = canvas_part(pane, 0, gutter, 1, columns);
    canvas_text(pane, 0, 1, (struct style){ .ink = INK_DIM }, "all");
    uint64_t unit = scale_unit_for(model->end, columns), most = 1;
    busy_columns(model, &view->veil, NULL, &(struct scale){ .unit = unit, .columns = columns }, busy);
    for (int column = 0; column < columns; column++)
        most = busy[column] > most ? busy[column] : most;
    for (int column = 0; column < columns; column++)
        if (busy[column] > 0) {
            int height = (int)((__uint128_t)busy[column] * 7 / most);
            canvas_put(&body, 0, column, (struct style){ .ink = INK_DIM },
                       capabilities->utf8 ? 0x2581 + (uint32_t)height : (uint32_t)(unsigned char)".:-=+*##"[height]);
        }
    draw_window(model, view, unit, &body);
    free(busy);
}
