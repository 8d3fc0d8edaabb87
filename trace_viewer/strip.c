/* What each cell of a timeline row contains. Levels are painted from the outermost inwards; an inner span is shown
 * where it is wide enough to be read and otherwise belongs to the one around it, which touches the same cells.
 * Interface: strip_paint; how cells look is strip_draw's business, in strip_draw.c. */
#include "strip.h"

#include <string.h>

enum { LEGIBLE = 3 }; /* cells that an inner span must touch to be shown */

static uint64_t
span_end(const struct strip *strip, const struct span *span)
{
    if (span->end != STILL_OPEN)
        return span->end;
    return strip->model->end > span->begin ? strip->model->end : span->begin;
}

/* A span is in this cell for that long, and in others or not at all. */
static void
paint_share(struct strip_cell *cell, const struct span *span, uint64_t length)
{
    cell->mixed |= cell->work != WORK_NONE && cell->work != span->work;
    if (cell->work == WORK_NONE || length > cell->longest) {
        cell->work = span->work;
        cell->longest = length;
    }
    cell->busy += length;
}

static void
paint_tiny(struct strip_cell *cell, const struct span *span, uint64_t length)
{
    paint_share(cell, span, length);
    if (cell->tiny < UINT16_MAX)
        cell->tiny++;
}

/* A span begins in this cell: what was there stays on its left. */
static void
paint_start(struct strip_cell *cell, const struct span *span, int cut)
{
    if (cut <= 0) {
        cell->left = cell->right = span;
        cell->cut = 0;
        return;
    }
    if (cell->left != NULL && cell->left != cell->right && cell->right == NULL)
        cut = (cell->cut + cut + 1) / 2; /* one span ended earlier in this cell */
    cell->right = span;
    cell->cut = (uint8_t)(cut > 7 ? 7 : cut);
}

static void
paint_end(struct strip_cell *cell, const struct span *span, int cut)
{
    if (cut >= 8) {
        cell->left = cell->right = span;
        cell->cut = 0;
        return;
    }
    cell->left = span;
    cell->cut = (uint8_t)(cut < 1 ? 1 : cut);
}

static void
paint_span(struct strip *strip, const struct span *span, int level)
{
    uint64_t end = span_end(strip, span);
    const struct scale *scale = &strip->scale;
    int first = scale_column(scale, span->begin);
    int last = scale_column(scale, end > span->begin ? end - 1 : end);
    if (first >= scale->columns || last < 0)
        return;
    bool starts = first >= 0, ends = last < scale->columns;
    bool selected = strip->cursor_here && span->seq == strip->selected;
    if (selected)
        strip->chosen = span;
    if (first == last) {
        uint64_t length = end - span->begin;
        if (level == strip->first || selected)
            paint_tiny(&strip->cells[first], span, length);
        if (length == scale->unit || (selected && level > strip->first))
            paint_start(&strip->cells[first], span, 0);
        return;
    }
    if (level > strip->first && last - first + 1 < LEGIBLE && !selected)
        return;
    for (int column = starts ? first + 1 : 0; column < (ends ? last : scale->columns); column++)
        paint_start(&strip->cells[column], span, 0);
    if (starts && level == strip->first)
        paint_share(&strip->cells[first], span, scale_time(scale, first + 1) - span->begin);
    if (ends && level == strip->first)
        paint_share(&strip->cells[last], span, end - scale_time(scale, last));
    if (starts)
        paint_start(&strip->cells[first], span, (int)(scale_eighths(scale, span->begin) - 8 * (int64_t)first));
    if (ends)
        paint_end(&strip->cells[last], span, (int)(scale_eighths(scale, end) - 8 * (int64_t)last));
}

static bool
is_hidden(const struct strip *strip, size_t seq)
{
    return veil_hides(strip->veil, strip->model, seq) ||
           (strip->filter != NULL && !filter_shows(strip->filter, strip->model, seq));
}

static void
paint_marks(struct strip *strip)
{
    const struct lane *lane = strip->lane;
    uint64_t from = scale_time(&strip->scale, 0);
    size_t low = 0, high = lane->mark_count;
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        if (lane->marks[middle].time < from)
            low = middle + 1;
        else
            high = middle;
    }
    for (size_t i = low; i < lane->mark_count; i++) {
        int column = scale_column(&strip->scale, lane->marks[i].time);
        if (column >= strip->scale.columns)
            break;
        if (column < 0 || is_hidden(strip, lane->marks[i].seq))
            continue;
        struct strip_cell *cell = &strip->cells[column];
        if (cell->mark_work == WORK_NONE || lane->marks[i].work != WORK_OTHER)
            cell->mark_work = lane->marks[i].work;
        cell->fault |= lane->marks[i].work == WORK_FAULT;
        if (cell->marks < UINT16_MAX)
            cell->marks++;
    }
}

void
strip_paint(struct strip *strip)
{
    memset(strip->cells, 0, (size_t)strip->scale.columns * sizeof *strip->cells);
    strip->chosen = NULL;
    uint64_t from = scale_time(&strip->scale, 0), to = scale_time(&strip->scale, strip->scale.columns);
    for (int level = strip->first; level <= strip->last && level < strip->lane->depth; level++) {
        const struct level *spans = &strip->lane->levels[level];
        for (size_t i = level_find(spans, from); i < spans->count && spans->spans[i].begin < to; i++)
            if (!is_hidden(strip, spans->spans[i].seq))
                paint_span(strip, &spans->spans[i], level);
    }
    if (strip->first == 0)
        paint_marks(strip);
}
