/* The heap of what can go on, earliest first: tasks that are ready and sources (streams) with something due. */
#include <stdlib.h>
#include "base/vec.h"
#include "sched/internal.h"

static bool
is_earlier(const struct heap_item *a, const struct heap_item *b)
{
    if (a->clock != b->clock)
        return a->clock < b->clock;
    if (a->tie != b->tie)
        return a->tie < b->tie;
    if (a->number != b->number)
        return a->number < b->number;
    return heap_item_is_source(*a) && heap_item_is_source(*b) && a->source->tie < b->source->tie;
}

static void
heap_put(struct sched *sched, size_t index, struct heap_item item)
{
    sched->heap[index] = item;
    if (heap_item_is_source(item))
        item.source->place = index + 1;
}

static void
heap_sift_up(struct sched *sched, size_t index, struct heap_item item)
{
    while (index > 0) {
        size_t parent = (index - 1) / 2;
        if (!is_earlier(&item, &sched->heap[parent]))
            break;
        heap_put(sched, index, sched->heap[parent]);
        index = parent;
    }
    heap_put(sched, index, item);
}

static void
heap_sift_down(struct sched *sched, size_t index, struct heap_item item)
{
    for (;;) {
        size_t child = 2 * index + 1;
        if (child >= sched->heap_count)
            break;
        if (child + 1 < sched->heap_count && is_earlier(&sched->heap[child + 1], &sched->heap[child]))
            child++;
        if (!is_earlier(&sched->heap[child], &item))
            break;
        heap_put(sched, index, sched->heap[child]);
        index = child;
    }
    heap_put(sched, index, item);
}

bool
heap_reserve(struct sched *sched, size_t need)
{
    return vec_room(&sched->heap, &sched->heap_room, need, sizeof *sched->heap);
}

void
heap_push(struct sched *sched, struct heap_item item)
{
    sched->heap_count++;
    heap_sift_up(sched, sched->heap_count - 1, item);
}

void
heap_remove(struct sched *sched, size_t place)
{
    size_t           index = place - 1;
    struct heap_item gone  = sched->heap[index];
    struct heap_item last  = sched->heap[--sched->heap_count];
    if (heap_item_is_source(gone))
        gone.source->place = 0;
    if (index == sched->heap_count)
        return;
    if (index > 0 && is_earlier(&last, &sched->heap[(index - 1) / 2]))
        heap_sift_up(sched, index, last);
    else
        heap_sift_down(sched, index, last);
}

struct heap_item
heap_pop(struct sched *sched)
{
    struct heap_item top = sched->heap[0];
    heap_remove(sched, 1);
    return top;
}

struct heap_item *
heap_find(struct sched *sched, const struct machine *machine)
{
    for (size_t i = 0; i < sched->heap_count; i++)
        if (sched->heap[i].number == machine->task.number)
            return &sched->heap[i];
    return NULL;
}

void
heap_rebuild(struct sched *sched)
{
    size_t count      = sched->heap_count;
    sched->heap_count = 0;
    for (size_t i = 0; i < count; i++) {
        struct heap_item item = sched->heap[i];
        sched->heap_count++;
        heap_sift_up(sched, i, item);
    }
}
