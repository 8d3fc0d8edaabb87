/* What each cell of a timeline row contains. Levels are painted from the outermost inwards; an inner span is shown
 * where it is wide enough to be read and otherwise belongs to the one around it, which touches the same cells. What
 * lies within one cell is added from the pyramid; a block of 64 spans that crosses cells is looked at span by span,
 * or, where that costs more than the frame may, split in proportion: then the row is rough, but for faults and what is
 * as long as a cell.
 * Interface: shelf_new, shelf_begin, strip_paint, shelf_is_rough, shelf_free; how cells look is strip_draw's business,
 * in strip_draw.c, what is kept painted that of shelf.c. */
#include "strip.h"

#include <string.h>

#include "shelf.h"

enum { LEGIBLE = 3 }; /* cells that an inner span must touch to be shown */

/* What is being painted, where to. */
struct painter {
    const struct strip *strip;
    const struct index *index;
    struct painted     *into;
    bool                rough;
    size_t              looked;  /* spans and marks looked at one by one */
};

static uint64_t
span_end(const struct strip *strip, const struct span *span)
{
    uint64_t end = span->end != STILL_OPEN ? span->end : strip->model->end;
    if (end > strip->veil->until)
        end = strip->veil->until;
    return end > span->begin ? end : span->begin;
}

/* ---- cells ---- */

/* A span is in this cell for that long, and in others or not at all. */
static void
paint_share(struct strip_cell *cell, uint8_t work, uint64_t length)
{
    cell->works |= (uint16_t)(1 << work);
    if (cell->work == WORK_NONE || length > cell->longest) {
        cell->work = work;
        cell->longest = length;
    }
    cell->busy += length;
}

static void
count_up(uint16_t *count, uint64_t more)
{
    *count = more < (uint64_t)(UINT16_MAX - *count) ? (uint16_t)(*count + more) : UINT16_MAX;
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

/* The cells that a span touches. `outermost`: of the first level shown, so that what it does not cover counts too. */
static void
paint_cells(const struct strip *strip, struct strip_cell *cells, const struct span *span, bool outermost)
{
    const struct scale *scale = &strip->scale;
    uint64_t end = span_end(strip, span);
    int first = scale_column(scale, span->begin);
    int last = scale_column(scale, end > span->begin ? end - 1 : end);
    bool starts = first >= 0, ends = last < scale->columns;
    for (int column = starts ? first + 1 : 0; column < (ends ? last : scale->columns); column++)
        paint_start(&cells[column], span, 0);
    if (starts && outermost)
        paint_share(&cells[first], span->work, scale_time(scale, first + 1) - span->begin);
    if (ends && outermost)
        paint_share(&cells[last], span->work, end - scale_time(scale, last));
    if (starts)
        paint_start(&cells[first], span, (int)(scale_eighths(scale, span->begin) - 8 * (int64_t)first));
    if (ends)
        paint_end(&cells[last], span, (int)(scale_eighths(scale, end) - 8 * (int64_t)last));
}

/* How many columns it touches, those off the screen too: so that what is legible does not change as one pans. */
static int64_t
columns_of_span(const struct strip *strip, const struct span *span)
{
    uint64_t end = span_end(strip, span);
    const struct scale *scale = &strip->scale;
    return scale_number(scale, end > span->begin ? end - 1 : end) - scale_number(scale, span->begin) + 1;
}

static void
paint_span(struct painter *painter, const struct span *span, int level)
{
    const struct strip *strip = painter->strip;
    const struct scale *scale = &strip->scale;
    struct strip_cell *cells = painter->into->cells;
    uint64_t end = span_end(strip, span);
    int first = scale_column(scale, span->begin);
    int last = scale_column(scale, end > span->begin ? end - 1 : end);
    bool outermost = level == strip->first;
    if (first >= scale->columns || last < 0)
        return;
    if (first == last && outermost) {
        paint_share(&cells[first], span->work, end - span->begin);
        count_up(&cells[first].tiny, 1);
        cells[first].fault |= span->work == WORK_FAULT;
    }
    bool fills = first == last && end - span->begin == scale->unit;
    if ((first == last && !fills) || (first != last && !outermost && columns_of_span(strip, span) < LEGIBLE))
        return;
    const struct span *kept = painted_keep(painter->into, span);
    painter->into->starved |= kept == NULL;
    if (kept == NULL)
        return;
    if (fills)
        paint_start(&cells[first], kept, 0);
    else
        paint_cells(strip, cells, kept, outermost);
}

/* ---- spans, and nodes of the pyramid ---- */

static uint64_t
busy_of(const struct node *node)
{
    uint64_t busy = 0;
    for (int i = 0; i < WORK_COUNT - 1; i++)
        busy += node->busy[i];
    return busy;
}

static uint8_t
longest_of(const struct node *node)
{
    return node->longest_work > WORK_NONE && node->longest_work < WORK_COUNT ? node->longest_work : (uint8_t)WORK_OTHER;
}

static bool
is_hidden(const struct strip *strip, size_t seq)
{
    return veil_hides(strip->veil, strip->model, seq) ||
           (strip->sieve.hides != NULL && strip->sieve.hides(strip->sieve.what, strip->model, seq));
}

/* Something of these kinds, or up to then, may be hidden, so that sums say nothing. */
static bool
is_veiled(const struct painter *painter, uint64_t kinds, uint64_t last)
{
    const struct strip *strip = painter->strip;
    return (strip->sieve.hides != NULL && !painter->rough) || veil_meets(strip->veil, kinds, last);
}

/* In a rough frame a few spans of a node say whether the sieve lets it through. */
static bool
is_sieved_out(const struct painter *painter, int level, size_t i, size_t size)
{
    enum { ASKED = 4 };
    const struct strip *strip = painter->strip;
    if (strip->sieve.hides == NULL || !painter->rough)
        return false;
    painter->into->rough = true;
    for (size_t n = 0; n < ASKED; n++) {
        size_t seq = index_begin(painter->index, strip->lane, level, i + n * (size / ASKED));
        if (seq != NO_EVENT && !is_hidden(strip, seq))
            return false;
    }
    return true;
}

static bool
is_in_one_cell(const struct strip *strip, const struct node *node)
{
    const struct scale *scale = &strip->scale;
    int column = scale_column(scale, node->from);
    return node->last != STILL_OPEN && node->longest < scale->unit && column >= 0 && column < scale->columns &&
           scale_column(scale, node->last) == column;
}

/* All of it lies in one cell, and none of it fills that: its sums are what its spans would have painted. */
static bool
paint_node(struct painter *painter, const struct node *node)
{
    if (!is_in_one_cell(painter->strip, node) || is_veiled(painter, node->kinds, node->last))
        return false;
    struct strip_cell *cell = &painter->into->cells[scale_column(&painter->strip->scale, node->from)];
    uint64_t busy = busy_of(node);
    paint_share(cell, longest_of(node), node->longest);
    cell->busy += busy - node->longest;
    cell->works |= node->works;
    cell->fault |= (node->works >> WORK_FAULT & 1) != 0;
    count_up(&cell->tiny, node->count);
    return true;
}

/* `part` of `whole` of a value. */
static uint64_t
portion(uint64_t value, uint64_t part, uint64_t whole)
{
    return (uint64_t)((unsigned __int128)value * part / (whole > 0 ? whole : 1));
}

/* In proportion over the cells that it touches; `busy` of the spans that were not painted one by one. */
static void
spread_node(struct painter *painter, const struct node *node, uint64_t busy, uint64_t count)
{
    const struct scale *scale = &painter->strip->scale;
    int first = scale_column(scale, node->from), last = scale_column(scale, node->last);
    uint64_t whole = node->last - node->from + 1;
    for (int column = first < 0 ? 0 : first; column <= last && column < scale->columns; column++) {
        uint64_t from = scale_time(scale, column), to = scale_time(scale, column + 1);
        from = from > node->from ? from : node->from;
        to = to <= node->last ? to : node->last + 1;
        struct strip_cell *cell = &painter->into->cells[column];
        uint64_t part = to > from ? to - from : 1, share = portion(busy, part, whole);
        uint64_t several = portion(count, part, whole), most = node->longest < share ? node->longest : share;
        paint_share(cell, longest_of(node), most);
        cell->busy += share - most;
        cell->works |= node->works;
        count_up(&cell->tiny, several > 0 ? several : 1);
    }
    painter->into->rough = true;
}

/* A block that crosses cells, in a rough frame: what is as long as a cell as it is, the rest in proportion. */
static bool
paint_block_roughly(struct painter *painter, const struct node *node, int level, size_t i)
{
    const struct strip *strip = painter->strip;
    if (!painter->rough || level > strip->first || node->last == STILL_OPEN || node->last < node->from ||
        (node->works >> WORK_FAULT & 1) != 0 || is_veiled(painter, node->kinds, node->last))
        return false;
    uint64_t busy = busy_of(node), count = node->count;
    for (size_t at = i; at < i + INDEX_BLOCK && node->longest >= strip->scale.unit; at++) {
        struct span span;
        if (index_length(painter->index, strip->lane, level, at) < strip->scale.unit ||
            !index_span(painter->index, strip->lane, level, at, &span))
            continue;
        uint64_t length = span.end - span.begin;
        if (!is_hidden(strip, span.seq))
            paint_span(painter, &span, level);
        painter->looked++;
        busy -= length < busy ? length : busy;
        count -= count > 0;
    }
    if (count > 0)
        spread_node(painter, node, busy, count);
    return true;
}

/* How many spans from `i` on are done with at once. */
static size_t
paint_whole(struct painter *painter, int level, size_t i)
{
    const struct strip *strip = painter->strip;
    bool outermost = level == strip->first;
    size_t size = INDEX_BLOCK, done = 0;
    int heights = index_heights(painter->index, strip->lane, level), height = 0;
    bool sums = strip->sieve.hides == NULL || painter->rough || !outermost; /* of many may answer */
    while (height + 1 < heights && i % (size * INDEX_FAN) == 0 && sums)
        height++, size *= INDEX_FAN;
    for (; height >= 0 && done == 0; height--, size /= INDEX_FAN) {
        const struct node *node = index_node(painter->index, strip->lane, level, height, i / size);
        if (node == NULL)
            continue;
        bool small = node->last != STILL_OPEN && node->longest < strip->scale.unit + 2;
        if (!outermost && small)
            return size;
        if ((height <= 1 || is_in_one_cell(strip, node)) && is_sieved_out(painter, level, i, size))
            return size;
        if (outermost && paint_node(painter, node))
            done = size;
        else if (height == 0 && paint_block_roughly(painter, node, level, i))
            done = size;
    }
    return done;
}

static void
paint_level(struct painter *painter, int level)
{
    const struct strip *strip = painter->strip;
    uint64_t from = scale_time(&strip->scale, 0), to = scale_time(&strip->scale, strip->scale.columns);
    size_t count = index_spans(painter->index, strip->lane, level);
    for (size_t i = index_find_span(painter->index, strip->lane, level, from); i < count;) {
        const struct node *node = index_node(painter->index, strip->lane, level, 0, i / INDEX_BLOCK);
        if (i % INDEX_BLOCK == 0 && node != NULL && node->from >= to)
            return;
        size_t done = i % INDEX_BLOCK == 0 ? paint_whole(painter, level, i) : 0;
        struct span span;
        i += done > 0 ? done : 1;
        if (done > 0)
            continue;
        if (level > strip->first && index_length(painter->index, strip->lane, level, i - 1) < strip->scale.unit + 2)
            continue;
        painter->looked++;
        if (!index_span(painter->index, strip->lane, level, i - 1, &span))
            continue;
        if (span.begin >= to)
            return;
        if (!is_hidden(strip, span.seq))
            paint_span(painter, &span, level);
    }
}

/* ---- marks ---- */

static void
paint_mark(struct strip_cell *cell, uint16_t works, uint32_t count)
{
    cell->mark_works |= works;
    cell->fault |= (works >> WORK_FAULT & 1) != 0;
    count_up(&cell->marks, count);
}

static size_t
paint_marks_whole(struct painter *painter, size_t i)
{
    const struct strip *strip = painter->strip;
    size_t size = INDEX_BLOCK;
    int heights = index_mark_heights(painter->index, strip->lane), height = 0;
    while (height + 1 < heights && i % (size * INDEX_FAN) == 0)
        height++, size *= INDEX_FAN;
    for (; height >= 0; height--, size /= INDEX_FAN) {
        const struct mark_node *node = index_mark_node(painter->index, strip->lane, height, i / size);
        if (node == NULL || is_veiled(painter, node->kinds, node->last))
            continue;
        int first = scale_column(&strip->scale, node->from), last = scale_column(&strip->scale, node->last);
        bool inside = first >= 0 && first == last && first < strip->scale.columns;
        bool rough = painter->rough && height == 0 && (node->works >> WORK_FAULT & 1) == 0;
        if (!inside && !rough)
            continue;
        for (int column = first < 0 ? 0 : first; column <= last && column < strip->scale.columns; column++)
            paint_mark(&painter->into->cells[column], node->works, node->count);
        painter->into->rough |= !inside;
        return size;
    }
    return 0;
}

static void
paint_marks(struct painter *painter)
{
    const struct strip *strip = painter->strip;
    size_t count = index_marks(painter->index, strip->lane);
    for (size_t i = index_find_mark(painter->index, strip->lane, scale_time(&strip->scale, 0)); i < count;) {
        size_t done = i % INDEX_BLOCK == 0 ? paint_marks_whole(painter, i) : 0;
        struct mark mark;
        i += done > 0 ? done : 1;
        if (done > 0)
            continue;
        painter->looked++;
        if (!index_mark(painter->index, strip->lane, i - 1, &mark))
            continue;
        int column = scale_column(&strip->scale, mark.time);
        if (column >= strip->scale.columns)
            break;
        if (column >= 0 && !is_hidden(strip, mark.seq))
            paint_mark(&painter->into->cells[column], (uint16_t)(1 << mark.work), 1);
    }
}

/* ---- the row ---- */

/* Until there is an index: how busy each stretch of the sample was. */
static void
paint_sample(struct painter *painter)
{
    const struct node *node;
    for (size_t i = 0; (node = index_sample(painter->index, painter->strip->lane, i)) != NULL; i++)
        if (node->works != 0)
            spread_node(painter, node, busy_of(node), node->count);
    painter->into->rough = true;
}

static void
finish_cells(struct painted *painted, int columns)
{
    for (int column = 0; column < columns; column++) {
        struct strip_cell *cell = &painted->cells[column];
        cell->mixed = (cell->works & (cell->works - 1)) != 0;
        unsigned marks = cell->mark_works & ~(1u << WORK_OTHER);
        marks = marks != 0 ? marks : cell->mark_works;
        cell->mark_work = marks != 0 ? (uint8_t)__builtin_ctz(marks) : (uint8_t)WORK_NONE;
    }
}

/* At most so many spans are looked at one by one, if the row is painted exactly: blocks that cross cells. */
static size_t
cost_of(const struct strip *strip)
{
    const struct index *index = strip->model->index;
    size_t from = index_find_span(index, strip->lane, strip->first, scale_time(&strip->scale, 0));
    size_t to = index_find_span(index, strip->lane, strip->first, scale_time(&strip->scale, strip->scale.columns));
    size_t first = index_find_mark(index, strip->lane, scale_time(&strip->scale, 0));
    size_t last = index_find_mark(index, strip->lane, scale_time(&strip->scale, strip->scale.columns));
    size_t most = ((size_t)strip->scale.columns + 1) * INDEX_BLOCK, spans = to - from, marks = last - first;
    if (strip->sieve.hides != NULL || strip->veil->draws || strip->veil->horizon != NO_EVENT)
        most = SIZE_MAX;
    return (spans < most ? spans : most) + (strip->first == 0 ? marks < most ? marks : most : 0) + 1;
}

static void
paint(const struct strip *strip, struct painted *painted, bool rough)
{
    struct painter painter = { .strip = strip, .index = strip->model->index, .into = painted, .rough = rough };
    int depth = index_depth(strip->model->index, strip->lane);
    if (!model_is_whole(strip->model)) {
        if (strip->first == 0)
            paint_sample(&painter);
    } else {
        for (int level = strip->first; level <= strip->last && level < depth; level++)
            paint_level(&painter, level);
        if (strip->first == 0)
            paint_marks(&painter);
    }
    finish_cells(painted, strip->scale.columns);
    shelf_spend(strip->model->shelf, painter.looked);
}

/* The selected span is painted even where it is not legible. */
static void
paint_selection(struct strip *strip)
{
    int level;
    strip->chosen = NULL;
    if (!strip->cursor_here || !model_span(strip->model, strip->selected, &strip->chosen_span, &level) ||
        level < strip->first || level > strip->last)
        return;
    const struct span *span = strip->chosen = &strip->chosen_span;
    uint64_t end = span_end(strip, span);
    int first = scale_column(&strip->scale, span->begin);
    int last = scale_column(&strip->scale, end > span->begin ? end - 1 : end);
    if (first >= strip->scale.columns || last < 0) {
        strip->chosen = NULL;
        return;
    }
    if (level == strip->first || columns_of_span(strip, span) >= LEGIBLE)
        return;
    if (first != last) {
        paint_cells(strip, strip->cells, span, false);
        return;
    }
    paint_share(&strip->cells[first], span->work, end - span->begin);
    count_up(&strip->cells[first].tiny, 1);
    paint_start(&strip->cells[first], span, 0);
}

void
strip_paint(struct strip *strip)
{
    size_t bytes = (size_t)strip->scale.columns * sizeof *strip->cells;
    bool rough = false, fresh = false;
    memset(strip->cells, 0, bytes);
    struct painted *painted = shelf_find(strip);
    if (painted == NULL || painted->rough) {
        bool whole = model_is_whole(strip->model);
        rough = whole && !shelf_affords(strip->model->shelf, cost_of(strip));
        fresh = painted == NULL || (whole && !rough);
    }
    if (fresh)
        painted = shelf_take(strip);
    strip->starved = painted == NULL;
    if (painted == NULL)
        return;
    if (fresh)
        paint(strip, painted, rough);
    memcpy(strip->cells, painted->cells, bytes);
    strip->rough = painted->rough;
    strip->starved = painted->starved;
    shelf_note(strip->model->shelf, painted->rough);
    paint_selection(strip);
}
