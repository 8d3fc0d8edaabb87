/* Which gradients travel together: compute_bucket_assignment_by_size, to the letter.
 * A bucket closes when it reaches its limit, so it usually exceeds it; each pair of dtype and device fills buckets of
 * its own and walks along the limits by itself. Without an order the buckets are sorted by their smallest index; with
 * one (the rebuild) they stay as they were closed, left-over ones last, of the newest kind first. Order of use:
 * buckets_assign, buckets_free. */
#include <stdlib.h>
#include "base/vec.h"
#include "parallel/reducer.h"
#include "sched/task.h"

struct open_bucket { int key, limit, count; size_t bytes, room; int *indices; };
struct open_list { struct open_bucket *items; size_t count, room; };

static struct open_bucket *
open_find(struct open_list *list, int key)
{
    for (size_t i = 0; i < list->count; i++)
        if (list->items[i].key == key)
            return &list->items[i];
    if (!vec_room(&list->items, &list->room, list->count + 1, sizeof *list->items))
        return NULL;
    struct open_bucket *open = &list->items[list->count++];
    *open = (struct open_bucket){ .key = key };
    return open;
}

/* Takes `indices` over, also when there is no memory. */
static bool
buckets_emit(struct bucket_list *list, int *indices, int count, size_t limit)
{
    if (list->count == list->room) {
        int     room  = list->room > 0 ? 2 * list->room : 16;
        int   **rows  = realloc(list->indices, (size_t)room * sizeof *rows);
        list->indices = rows != NULL ? rows : list->indices;
        int    *sizes = realloc(list->sizes, (size_t)room * sizeof *sizes);
        list->sizes   = sizes != NULL ? sizes : list->sizes;
        size_t *limits = realloc(list->limits, (size_t)room * sizeof *limits);
        list->limits   = limits != NULL ? limits : list->limits;
        if (rows == NULL || sizes == NULL || limits == NULL) {
            free(indices);
            return false;
        }
        list->room = room;
    }
    list->indices[list->count] = indices;
    list->sizes[list->count]   = count;
    list->limits[list->count]  = limit;
    list->count++;
    return true;
}

static bool
open_emit(struct bucket_list *list, struct open_bucket *open, size_t limit)
{
    int *indices = open->indices, count = open->count;
    *open = (struct open_bucket){ .key = open->key, .limit = open->limit };
    return buckets_emit(list, indices, count, limit);
}

static bool
buckets_emit_alone(struct bucket_list *list, int index)
{
    int *indices = malloc(sizeof *indices);
    if (indices == NULL)
        return false;
    *indices = index;
    return buckets_emit(list, indices, 1, 0);
}

static bool
open_add(struct bucket_list *list, struct open_bucket *open, int index, size_t bytes, const size_t *limits,
         int limit_count)
{
    if (!vec_room(&open->indices, &open->room, (size_t)open->count + 1, sizeof *open->indices))
        return false;
    open->indices[open->count++] = index;
    open->bytes += bytes;
    size_t limit = limits[open->limit];
    if (open->bytes < limit)
        return true;
    open->limit += open->limit + 1 < limit_count;
    return open_emit(list, open, limit);
}

static void
buckets_sort(struct bucket_list *list)
{
    for (int i = 1; i < list->count; i++) {
        for (int j = i; j > 0 && list->indices[j - 1][0] > list->indices[j][0]; j--) {
            int   *indices = list->indices[j];
            int    size    = list->sizes[j];
            size_t limit   = list->limits[j];
            list->indices[j] = list->indices[j - 1];
            list->sizes[j]   = list->sizes[j - 1];
            list->limits[j]  = list->limits[j - 1];
            list->indices[j - 1] = indices;
            list->sizes[j - 1]   = size;
            list->limits[j - 1]  = limit;
        }
    }
}

static bool
buckets_fill(const struct bucket_input *inputs, int count, const size_t *limits, int limit_count, const int *order,
             struct open_list *open, struct bucket_list *out)
{
    for (int i = 0; i < count; i++) {
        int index = order != NULL ? order[i] : i;
        if (inputs[index].sparse) {
            if (!buckets_emit_alone(out, index))
                return false;
            continue;
        }
        struct open_bucket *bucket = open_find(open, inputs[i].key);
        if (bucket == NULL || !open_add(out, bucket, index, inputs[i].bytes, limits, limit_count))
            return false;
    }
    /* PyTorch's map of them gives the kind that came last first. */
    for (size_t i = open->count; i-- > 0;)
        if (open->items[i].count > 0 && !open_emit(out, &open->items[i], limits[open->items[i].limit]))
            return false;
    return true;
}

bool
buckets_assign(struct task *me, const struct bucket_input *inputs, int count, const size_t *limits, int limit_count,
               const int *order, int order_count, struct bucket_list *out)
{
    *out = (struct bucket_list){ 0 };
    if (limit_count < 1)
        return failed(me, E_VALUE, "buckets need a size limit");
    if (order != NULL && order_count != count)
        return failed(me, E_VALUE, "%d tensors but %d indices", count, order_count);
    for (int i = 0; order != NULL && i < count; i++)
        if (order[i] < 0 || order[i] >= count)
            return failed(me, E_INDEX, "tensor index %d is out of range for %d tensors", order[i], count);
    struct open_list open = { 0 };
    bool filled = buckets_fill(inputs, count, limits, limit_count, order, &open, out);
    for (size_t i = 0; i < open.count; i++)
        free(open.items[i].indices);
    free(open.items);
    if (!filled) {
        buckets_free(out);
        return failed(me, E_MEMORY, "out of memory for buckets");
    }
    if (order == NULL)
        buckets_sort(out);
    return true;
}

void
buckets_free(struct bucket_list *list)
{
    for (int i = 0; i < list->count; i++)
        free(list->indices[i]);
    free(list->indices);
    free(list->sizes);
    free(list->limits);
    *list = (struct bucket_list){ 0 };
}
