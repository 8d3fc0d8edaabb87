/* One order for the events of all writers: by time, then writer, then position. A `stepped` trace has one writer
 * and is in order as it lies, which costs nothing; else an array of slots holds the order. Each writer's events are
 * in order among themselves, so a heap of writers merges them in one pass.
 *
 * Interface: run_add for each stretch of new events of a chunk, then merge_runs. */
#include <stdlib.h>
#include <string.h>

#include "base/vec.h"
#include "trace/internal.h"

/* The caller made room. */
void
run_add(struct run_list *list, size_t chunk_index, uint32_t before, const struct chunk *chunk)
{
    size_t first = (TRACE_PAGE + chunk_index * TRACE_CHUNK + sizeof(struct chunk_head)) / sizeof(struct trace_event);
    list->runs[list->count++] = (struct run){ .writer = chunk->writer, .slot = (uint32_t)(first + before),
                                              .left = chunk->events - before, .chunk = (uint32_t)chunk_index };
}

/* The new events only lengthen the row of the only writer: its last chunk grows, or is full and another follows. */
static bool
row_takes(const struct trace *trace, const struct run_list *fresh)
{
    size_t last = trace->row_count > 0 ? trace->row[trace->row_count - 1] : SIZE_MAX;
    size_t expected = trace->count;
    for (size_t i = 0; i < fresh->count; i++) {
        const struct run *run = &fresh->runs[i];
        uint32_t writer = trace->row_count > 0 ? trace->chunks[trace->row[0]].writer : fresh->runs[0].writer;
        if (run->writer != writer || (last != SIZE_MAX && run->chunk < last))
            return false;
        if (run->chunk != last && expected % CHUNK_EVENTS_ROOM != 0)
            return false;
        last = run->chunk;
        expected += run->left;
    }
    return true;
}

static bool
lengthen_row(struct trace *trace, const struct run_list *fresh)
{
    if (!vec_room(&trace->row, &trace->row_room, trace->row_count + fresh->count, sizeof *trace->row))
        return false;
    for (size_t i = 0; i < fresh->count; i++) {
        const struct run *run = &fresh->runs[i];
        if (trace->row_count == 0 || trace->row[trace->row_count - 1] != run->chunk)
            trace->row[trace->row_count++] = run->chunk;
        trace->count += run->left;
    }
    return true;
}

/* From here on the order is an array. */
static bool
row_to_order(struct trace *trace)
{
    uint32_t *order = NULL;
    size_t room = 0;
    if (!vec_room(&order, &room, trace->count + 1, sizeof *order))
        return false;
    for (size_t seq = 0; seq < trace->count; seq++)
        order[seq] = slot_of(trace, seq);
    trace->order = order;
    trace->order_room = room;
    return true;
}

static int
compare_runs(const void *a, const void *b)
{
    const struct run *one = a, *other = b;
    if (one->writer != other->writer)
        return one->writer < other->writer ? -1 : 1;
    return one->slot < other->slot ? -1 : one->slot > other->slot;
}

/* A writer's place in the merge: the runs from `run` to `end` are its own. */
struct cursor {
    struct run *run, *end;
    uint64_t    time; /* of the event at its slot */
};

static bool
comes_first(const struct cursor *a, const struct cursor *b)
{
    return a->time != b->time ? a->time < b->time : a->run->writer < b->run->writer;
}

static void
sift_run_down(struct cursor *heap, size_t count, size_t at)
{
    for (;;) {
        size_t least = at;
        for (size_t child = 2 * at + 1; child <= 2 * at + 2 && child < count; child++) {
            if (comes_first(&heap[child], &heap[least]))
                least = child;
        }
        if (least == at)
            return;
        struct cursor swapped = heap[at];
        heap[at] = heap[least];
        heap[least] = swapped;
        at = least;
    }
}

static size_t
make_heap(const struct trace *trace, struct run_list *fresh, struct cursor *heap)
{
    size_t count = 0;
    for (size_t i = 0; i < fresh->count; i++) {
        struct run *run = &fresh->runs[i];
        if (count == 0 || heap[count - 1].run->writer != run->writer)
            heap[count++] = (struct cursor){ .run = run, .time = event_in_slot(trace, run->slot)->time };
        heap[count - 1].end = run + 1;
    }
    for (size_t i = count / 2; i > 0; i--)
        sift_run_down(heap, count, i - 1);
    return count;
}

/* The new events in order, behind the known ones. */
static bool
merge_fresh(struct trace *trace, struct run_list *fresh, size_t total)
{
    struct cursor *heap = malloc(fresh->count * sizeof *heap);
    if (heap == NULL || !vec_room(&trace->order, &trace->order_room, trace->count + total, sizeof *trace->order)) {
        free(heap);
        return false;
    }
    qsort(fresh->runs, fresh->count, sizeof *fresh->runs, compare_runs);
    size_t writers = make_heap(trace, fresh, heap);
    uint32_t *out = trace->order + trace->count;
    while (writers > 0) {
        struct cursor *first = &heap[0];
        *out++ = first->run->slot++;
        if (--first->run->left == 0 && ++first->run == first->end)
            heap[0] = heap[--writers];
        else
            first->time = event_in_slot(trace, first->run->slot)->time;
        sift_run_down(heap, writers, 0);
    }
    free(heap);
    return true;
}

static bool
slot_before(const struct trace *trace, uint32_t a, uint32_t b)
{
    uint64_t one = event_in_slot(trace, a)->time, other = event_in_slot(trace, b)->time;
    if (one != other)
        return one < other;
    const uint32_t per_chunk = TRACE_CHUNK / sizeof(struct trace_event), page = TRACE_PAGE / sizeof(struct trace_event);
    return trace->chunks[(a - page) / per_chunk].writer < trace->chunks[(b - page) / per_chunk].writer;
}

/* Some thread was slow to write what happened earlier: the known events behind that moment move. Without memory for
 * that the late ones stay late. */
static void
settle(struct trace *trace, size_t total)
{
    uint32_t *order = trace->order;
    size_t known = trace->count, from = known;
    while (from > 0 && slot_before(trace, order[known], order[from - 1]))
        from--;
    size_t moved = known - from;
    uint32_t *late = moved > 0 ? malloc(moved * sizeof *late) : NULL;
    if (late == NULL)
        return;

    memcpy(late, order + from, moved * sizeof *late);
    size_t out = from, a = 0, b = known;
    while (a < moved && b < known + total)
        order[out++] = slot_before(trace, order[b], late[a]) ? order[b++] : late[a++];
    memcpy(order + out, late + a, (moved - a) * sizeof *late);
    free(late);
    trace->version++;
}

bool
merge_runs(struct trace *trace)
{
    struct run_list *fresh = &trace->fresh;
    if (fresh->count == 0)
        return true;
    if (trace->order == NULL && row_takes(trace, fresh)) {
        if (!lengthen_row(trace, fresh))
            return false;
    } else {
        size_t total = 0;
        for (size_t i = 0; i < fresh->count; i++)
            total += fresh->runs[i].left;
        if ((trace->order == NULL && !row_to_order(trace)) || !merge_fresh(trace, fresh, total))
            return false;
        settle(trace, total);
        trace->count += total;
    }
    fresh->count = 0;
    return true;
}
