/* How busy lanes are. Interface: busy_columns for all lanes, busy_touched and busy_next for some. */
#include "busy.h"

#include "trace/reader.h"

enum { IDLE_LEAST = 8 }; /* columns of a pause that must be seen */

static uint64_t
span_end(const struct model *model, const struct veil *veil, const struct span *span)
{
    uint64_t end = span->end != STILL_OPEN ? span->end : model->end;
    if (veil != NULL && end > veil->until)
        end = veil->until;
    return end > span->begin ? end : span->begin;
}

/* Spans that work, and are seen. */
static bool
works(const struct model *model, const struct veil *veil, const struct span *span)
{
    return span->work != WORK_WAIT && (veil == NULL || !veil_hides(veil, model, span->seq));
}

static bool
is_veiled(const struct veil *veil, const struct node *node)
{
    return veil != NULL && veil_meets(veil, node->kinds, node->last);
}

static uint64_t
busy_of(const struct node *node)
{
    uint64_t busy = 0;
    for (int i = 0; i < WORK_COUNT - 1; i++)
        busy += i == WORK_WAIT - 1 ? 0 : node->busy[i];
    return busy;
}

/* ---- sums ---- */

struct sums { const struct model *model; const struct veil *veil; const struct scale *scale; uint64_t *columns; };

static void
add_stretch(const struct sums *sums, uint64_t from, uint64_t to, uint64_t busy)
{
    const struct scale *scale = sums->scale;
    int first = scale_column(scale, from), last = scale_column(scale, to > from ? to - 1 : to);
    for (int column = first < 0 ? 0 : first; column <= last && column < scale->columns; column++) {
        uint64_t begin = scale_time(scale, column), end = scale_time(scale, column + 1);
        begin = begin > from ? begin : from;
        end = end < to ? end : to;
        uint64_t part = end > begin ? end - begin : 0;
        uint64_t share = part;
        if (to - from > busy)
            share = (uint64_t)((unsigned __int128)busy * part / (to - from));
        sums->columns[column] += share > 0 ? share : 1;
    }
}

/* How many spans from `i` on are added at once: what lies in one column, or a block of a large trace. */
static size_t
add_nodes(const struct sums *sums, size_t lane, size_t i)
{
    const struct index *index = sums->model->index;
    size_t size = INDEX_BLOCK;
    int heights = index_heights(index, lane, 0), height = 0;
    while (height + 1 < heights && i % (size * INDEX_FAN) == 0)
        height++, size *= INDEX_FAN;
    for (; height >= 0; height--, size /= INDEX_FAN) {
        const struct node *node = index_node(index, lane, 0, height, i / size);
        if (node == NULL || node->last == STILL_OPEN || node->last < node->from || is_veiled(sums->veil, node))
            continue;
        bool inside = scale_column(sums->scale, node->from) == scale_column(sums->scale, node->last);
        if (!inside && (height > 0 || sums->model->seen < INDEX_FROM))
            continue;
        if ((node->works & ~(1u << WORK_WAIT)) != 0)
            add_stretch(sums, node->from, node->last + 1, busy_of(node));
        return size;
    }
    return 0;
}

static void
add_lane(const struct sums *sums, size_t lane)
{
    const struct index *index = sums->model->index;
    size_t count = index_spans(index, lane, 0);
    uint64_t to = scale_time(sums->scale, sums->scale->columns);
    for (size_t i = index_find_span(index, lane, 0, scale_time(sums->scale, 0)); i < count;) {
        size_t done = i % INDEX_BLOCK == 0 ? add_nodes(sums, lane, i) : 0;
        struct span span;
        i += done > 0 ? done : 1;
        if (done > 0 || !index_span(index, lane, 0, i - 1, &span))
            continue;
        if (span.begin >= to)
            return;
        if (works(sums->model, sums->veil, &span))
            add_stretch(sums, span.begin, span_end(sums->model, sums->veil, &span),
                        span_end(sums->model, sums->veil, &span) - span.begin);
    }
}

void
busy_columns(const struct model *model, const struct veil *veil, const bool *lanes, const struct scale *scale,
             uint64_t *columns)
{
    struct sums sums = { model, veil, scale, columns };
    const struct node *node;
    for (size_t lane = 0; lane < model->lane_count; lane++) {
        if (lanes != NULL && !lanes[lane])
            continue;
        add_lane(&sums, lane);
        for (size_t i = 0; (node = index_sample(model->index, lane, i)) != NULL; i++)
            if (node->works != 0)
                add_stretch(&sums, node->from, node->last + 1, busy_of(node));
    }
}

/* ---- what is touched ---- */

static void
touch(const struct scale *scale, uint64_t from, uint64_t last, bool *columns)
{
    int first = scale_column(scale, from), end = scale_column(scale, last);
    for (int column = first < 0 ? 0 : first; column <= end && column < scale->columns; column++)
        columns[column] = true;
}

/* A node in which no pause that counts can lie is touched all over. */
static size_t
touch_nodes(const struct sums *sums, size_t lane, size_t i, bool *columns)
{
    const struct index *index = sums->model->index;
    size_t size = INDEX_BLOCK;
    int heights = index_heights(index, lane, 0), height = 0;
    while (height + 1 < heights && i % (size * INDEX_FAN) == 0)
        height++, size *= INDEX_FAN;
    for (; height >= 0; height--, size /= INDEX_FAN) {
        const struct node *node = index_node(index, lane, 0, height, i / size);
        if (node == NULL || node->last == STILL_OPEN || node->last < node->from || is_veiled(sums->veil, node))
            continue;
        if ((node->works & ~(1u << WORK_WAIT)) != 0) {
            if ((node->last - node->from) / sums->scale->unit >= IDLE_LEAST)
                continue;
            touch(sums->scale, node->from, node->last, columns);
        }
        return size;
    }
    return 0;
}

static void
touch_lane(const struct sums *sums, size_t lane, bool *columns)
{
    const struct index *index = sums->model->index;
    size_t count = index_spans(index, lane, 0);
    uint64_t to = scale_time(sums->scale, sums->scale->columns);
    for (size_t i = index_find_span(index, lane, 0, scale_time(sums->scale, 0)); i < count;) {
        size_t done = i % INDEX_BLOCK == 0 ? touch_nodes(sums, lane, i, columns) : 0;
        struct span span;
        i += done > 0 ? done : 1;
        if (done > 0 || !index_span(index, lane, 0, i - 1, &span))
            continue;
        if (span.begin >= to)
            return;
        uint64_t end = span_end(sums->model, sums->veil, &span);
        if (works(sums->model, sums->veil, &span))
            touch(sums->scale, span.begin, end > span.begin ? end - 1 : end, columns);
    }
}

void
busy_touched(const struct model *model, const struct veil *veil, const bool *lanes, const struct scale *scale,
             bool *columns)
{
    struct sums sums = { model, veil, scale, NULL };
    const struct node *node;
    for (size_t lane = 0; lane < model->lane_count; lane++) {
        if (lanes != NULL && !lanes[lane])
            continue;
        touch_lane(&sums, lane, columns);
        for (size_t i = 0; (node = index_sample(model->index, lane, i)) != NULL; i++)
            if ((node->works & ~(1u << WORK_WAIT)) != 0)
                touch(scale, node->from, node->last, columns);
    }
}

/* ---- what comes next ---- */

static uint64_t
lane_next(const struct model *model, const struct veil *veil, size_t lane, uint64_t time, uint64_t best)
{
    const struct index *index = model->index;
    size_t count = index_spans(index, lane, 0);
    struct span span;
    for (size_t i = index_find_span(index, lane, 0, time); i < count; i++) {
        const struct node *node = i % INDEX_BLOCK == 0 ? index_node(index, lane, 0, 0, i / INDEX_BLOCK) : NULL;
        if (node != NULL && node->from >= best)
            break;
        if (node != NULL && (node->works & ~(1u << WORK_WAIT)) == 0) {
            i += INDEX_BLOCK - 1;
            continue;
        }
        if (!index_span(index, lane, 0, i, &span) || !works(model, veil, &span))
            continue;
        uint64_t at = span.begin > time ? span.begin : time;
        return at < best ? at : best;
    }
    return best;
}

uint64_t
busy_next(const struct model *model, const struct veil *veil, const bool *lanes, uint64_t time)
{
    uint64_t best = STILL_OPEN;
    for (size_t lane = 0; lane < model->lane_count && best > time; lane++)
        if (lanes == NULL || lanes[lane])
            best = lane_next(model, veil, lane, time, best);
    return best;
}
