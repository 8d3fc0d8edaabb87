/* How busy lanes are. Interface: busy_lane, busy_columns. */
#include "busy.h"

#include "trace/reader.h"

/* A lane of which sums are taken. */
struct sums {
    const struct model *model;
    const struct veil  *veil;
    const struct scale *scale;
    struct share       *columns;
    size_t              lane;
};

static bool
is_veiled(const struct veil *veil, uint64_t kinds)
{
    return veil->draws && (veil->mask & kinds) != 0;
}

static uint64_t
busy_of(const struct node *node)
{
    uint64_t busy = 0;
    for (int i = 0; i < WORK_COUNT - 1; i++)
        busy += i == WORK_WAIT - 1 ? 0 : node->busy[i];
    return busy;
}

/* `busy` ps of work spread evenly over [from, to). */
static void
add_stretch(const struct sums *sums, uint64_t from, uint64_t to, uint64_t busy, uint8_t work)
{
    const struct scale *scale = sums->scale;
    int first = scale_column(scale, from), last = scale_column(scale, to > from ? to - 1 : to);
    for (int column = first < 0 ? 0 : first; column <= last && column < scale->columns; column++) {
        struct share *share = &sums->columns[column];
        uint64_t begin = scale_time(scale, column), end = scale_time(scale, column + 1);
        begin = begin > from ? begin : from;
        end = end < to ? end : to;
        uint64_t part = end > begin ? end - begin : 0;
        if (part > 0 && busy < to - from)
            part = (uint64_t)((unsigned __int128)busy * part / (to - from));
        share->touched = true;
        if (work == WORK_WAIT)
            continue;
        share->busy += part > 0 ? part : 1;
        if (share->work == WORK_NONE)
            share->work = work;
    }
}

/* How many spans from `i` on are added at once: what lies in one column, or a block of a large trace. */
static size_t
add_node(const struct sums *sums, size_t i)
{
    const struct index *index = sums->model->index;
    size_t size = INDEX_BLOCK;
    int heights = index_heights(index, sums->lane, 0), height = 0;
    while (height + 1 < heights && i % (size * INDEX_FAN) == 0)
        height++, size *= INDEX_FAN;
    for (; height >= 0; height--, size /= INDEX_FAN) {
        const struct node *node = index_node(index, sums->lane, 0, height, i / size);
        if (node == NULL || node->last == STILL_OPEN || node->last < node->from || is_veiled(sums->veil, node->kinds))
            continue;
        bool inside = scale_number(sums->scale, node->from) == scale_number(sums->scale, node->last);
        if (!inside && (height > 0 || sums->model->seen < INDEX_FROM))
            continue;
        uint8_t work = node->longest_work < WORK_COUNT ? node->longest_work : (uint8_t)WORK_OTHER;
        bool works = (node->works & ~(1u << WORK_WAIT)) != 0;
        work = !works ? (uint8_t)WORK_WAIT : work == WORK_WAIT ? (uint8_t)WORK_OTHER : work;
        add_stretch(sums, node->from, node->last + 1, busy_of(node), work);
        return size;
    }
    return 0;
}

static void
add_spans(const struct sums *sums)
{
    const struct model *model = sums->model;
    size_t count = index_spans(model->index, sums->lane, 0);
    uint64_t to = scale_time(sums->scale, sums->scale->columns);
    for (size_t i = index_find_span(model->index, sums->lane, 0, scale_time(sums->scale, 0)); i < count;) {
        size_t done = i % INDEX_BLOCK == 0 ? add_node(sums, i) : 0;
        struct span span;
        i += done > 0 ? done : 1;
        if (done > 0 || !index_span(model->index, sums->lane, 0, i - 1, &span))
            continue;
        if (span.begin >= to)
            return;
        uint64_t end = span.end != STILL_OPEN ? span.end : model->end > span.begin ? model->end : span.begin;
        if (!veil_hides(sums->veil, model, span.seq))
            add_stretch(sums, span.begin, end, end - span.begin, span.work);
    }
}

static void
add_marks(const struct sums *sums)
{
    const struct model *model = sums->model;
    size_t count = index_marks(model->index, sums->lane);
    for (size_t i = index_find_mark(model->index, sums->lane, scale_time(sums->scale, 0)); i < count;) {
        const struct mark_node *node = index_mark_node(model->index, sums->lane, 0, i / INDEX_BLOCK);
        struct mark mark;
        if (i % INDEX_BLOCK == 0 && node != NULL && !is_veiled(sums->veil, node->kinds) &&
            (model->seen >= INDEX_FROM ||
             scale_number(sums->scale, node->from) == scale_number(sums->scale, node->last))) {
            if (scale_column(sums->scale, node->from) >= sums->scale->columns)
                return;
            add_stretch(sums, node->from, node->last + 1, 0, WORK_WAIT);
            i += INDEX_BLOCK;
            continue;
        }
        if (!index_mark(model->index, sums->lane, i++, &mark))
            continue;
        if (scale_column(sums->scale, mark.time) >= sums->scale->columns)
            return;
        if (!veil_hides(sums->veil, model, mark.seq))
            add_stretch(sums, mark.time, mark.time, 0, WORK_WAIT);
    }
}

void
busy_lane(const struct model *model, const struct veil *veil, size_t lane, const struct scale *scale,
          struct share *columns)
{
    struct sums sums = { model, veil, scale, columns, lane };
    const struct node *node;
    add_spans(&sums);
    add_marks(&sums);
    for (size_t i = 0; (node = index_sample(model->index, lane, i)) != NULL; i++)
        if (node->works != 0)
            add_stretch(&sums, node->from, node->last + 1, busy_of(node),
                        node->longest_work != WORK_NONE ? node->longest_work : (uint8_t)WORK_WAIT);
}

void
busy_columns(const struct model *model, const struct veil *veil, const struct scale *scale, struct share *columns)
{
    for (size_t lane = 0; lane < model->lane_count; lane++)
        busy_lane(model, veil, lane, scale, columns);
}
