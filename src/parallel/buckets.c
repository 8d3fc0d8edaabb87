/* Which gradients travel together (compute_bucket_assignment_by_size, to the letter), where the reducer lays them, and
 * how all ranks come to the same buckets. */
#include "parallel/buckets.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include "base/vec.h"
#include "c10d/group.h"
#include "parallel/flat.h"
#include "parallel/check_ranks.h"
#include "parallel/internal.h"
#include "sched/stage.h"

/* ---- the rule ---- */

/* A bucket closes when it reaches its limit, so it usually exceeds it; each pair of dtype and device fills buckets of
 * its own and walks along the limits by itself. Without an order the buckets are sorted by their smallest index; with
 * one (the rebuild) they stay as they were closed, left-over ones last, of the newest kind first. */
struct open_bucket { int key, limit, count; size_t bytes, room; int *indices; };
struct open_buckets { struct open_bucket *items; size_t count, room; };

static struct open_bucket *
open_find(struct open_buckets *list, int key)
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
open_add(const struct bucket_assignment *wanted, struct bucket_list *list, struct open_bucket *open, int index,
         size_t bytes)
{
    if (!vec_room(&open->indices, &open->room, (size_t)open->count + 1, sizeof *open->indices))
        return false;
    open->indices[open->count++] = index;
    open->bytes += bytes;
    size_t limit = wanted->limits[open->limit];
    if (open->bytes < limit)
        return true;
    open->limit += open->limit + 1 < wanted->limit_count;
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
buckets_fill(const struct bucket_assignment *wanted, struct open_buckets *open, struct bucket_list *out)
{
    for (int i = 0; i < wanted->count; i++) {
        int index = wanted->order != NULL ? wanted->order[i] : i;
        if (wanted->inputs[index].sparse) {
            if (!buckets_emit_alone(out, index))
                return false;
            continue;
        }
        struct open_bucket *bucket = open_find(open, wanted->inputs[i].key);
        if (bucket == NULL || !open_add(wanted, out, bucket, index, wanted->inputs[i].bytes))
            return false;
    }
    /* PyTorch's map of them gives the kind that came last first. */
    for (size_t i = open->count; i-- > 0;)
        if (open->items[i].count > 0 && !open_emit(out, &open->items[i], wanted->limits[open->items[i].limit]))
            return false;
    return true;
}

static bool
assignment_check(struct task *me, const struct bucket_assignment *wanted)
{
    if (wanted->limit_count < 1)
        return failed(me, E_VALUE, "buckets need a size limit");
    if (wanted->order == NULL)
        return true;
    if (wanted->order_count != wanted->count)
        return failed(me, E_VALUE, "%d tensors but %d indices", wanted->count, wanted->order_count);
    for (int i = 0; i < wanted->count; i++)
        if (wanted->order[i] < 0 || wanted->order[i] >= wanted->count)
            return failed(me, E_INDEX, "tensor index %d is out of range for %d tensors", wanted->order[i],
                          wanted->count);
    return true;
}

bool
buckets_assign(struct task *me, const struct bucket_assignment *wanted, struct bucket_list *out)
{
    *out = (struct bucket_list){ 0 };
    if (!assignment_check(me, wanted))
        return false;
    struct open_buckets open = { 0 };
    bool filled = buckets_fill(wanted, &open, out);
    for (size_t i = 0; i < open.count; i++)
        free(open.items[i].indices);
    free(open.items);
    if (!filled) {
        buckets_free(out);
        return failed(me, E_MEMORY, "out of memory for buckets");
    }
    if (wanted->order == NULL)
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

struct bucket_input
bucket_input_of(const struct tensor *tensor)
{
    return (struct bucket_input){ .bytes = (size_t)tensor_bytes(tensor),
                                  .key = (int)tensor->dtype + DTYPE_COUNT * (tensor_device(tensor) + 1) };
}

/* ---- the reducer's buckets ---- */

static void
bucket_clear(struct task *me, const struct reducer *reducer, struct bucket *bucket)
{
    work_free(me, bucket->work);
    if (bucket->hooked != NULL)
        reducer->comm_hook.forget(me, reducer->comm_hook.context, bucket->hooked);
    for (int i = 0; bucket->views != NULL && i < bucket->count; i++)
        tensor_drop(me, &bucket->views[i]);
    tensor_drop(me, &bucket->gradients);
    free(bucket->views);
    free(bucket->indices);
    *bucket = (struct bucket){ 0 };
}

void
reducer_clear_buckets(struct task *me, struct reducer *reducer)
{
    for (int i = 0; i < reducer->count; i++)
        bucket_clear(me, reducer, &reducer->buckets[i]);
    free(reducer->buckets);
    reducer->buckets = NULL;
    reducer->count   = 0;
}

void
bucket_print(const struct bucket *bucket, struct str *out)
{
    for (int i = 0; i < bucket->count; i++)
        str_addf(out, "%s%d", i > 0 ? " " : "", bucket->indices[i]);
}

/* A bucket and the parameters whose gradients travel in it. */
static void
reducer_announce_bucket(struct task *me, const struct bucket *bucket, int index)
{
    struct str text = { 0 };
    bucket_print(bucket, &text);
    int64_t indices = stage_text_id(me, str_text(&text));
    POINT(me, ddp_bucket, index, tensor_bytes(bucket->gradients), bucket->count, indices);
    str_free(&text);
}

/* One flat tensor; each parameter has a view of its own shape. */
static bool
bucket_lay_out(struct task *me, struct reducer *reducer, struct bucket *bucket, int index)
{
    struct flat_members members = { reducer->params, bucket->indices, bucket->count };
    tensor_keep(me, &bucket->gradients, flat_empty(me, &members));
    struct flat_walk walk = { .flat = bucket->gradients };
    for (int i = 0; i < bucket->count && bucket->gradients != NULL; i++) {
        struct tensor *view = flat_piece(me, &walk, reducer->params[bucket->indices[i]]);
        tensor_keep(me, &bucket->views[i], view);
        if (view == NULL)
            return false;
        reducer->bucket_of[bucket->indices[i]] = index;
        reducer->place_of[bucket->indices[i]]  = i;
    }
    return bucket->gradients != NULL;
}

/* "bucket 0, element 16: net.0.bias", for whoever compares the ranks' buckets. */
static bool
reducer_check_names(struct task *me, const struct reducer *reducer)
{
    struct str lines = { 0 };
    for (int b = 0; b < reducer->count; b++) {
        const struct bucket *bucket  = &reducer->buckets[b];
        int64_t              element = 0;
        for (int i = 0; i < bucket->count; i++) {
            int index = bucket->indices[i];
            str_addf(&lines, "bucket %d, element %" PRId64 ": %s", b, element, reducer->names[index]);
            str_add_bytes(&lines, "", 1);
            element += tensor_count(reducer->params[index]);
        }
    }
    bool done = str_ok(&lines) ? replica_names(me, reducer->replica, lines.text, lines.len)
                               : failed(me, E_MEMORY, "out of memory for buckets");
    str_free(&lines);
    return done;
}

bool
reducer_initialize_buckets(struct task *me, struct reducer *reducer, const struct bucket_list *list)
{
    reducer_clear_buckets(me, reducer);
    reducer->buckets = calloc((size_t)list->count, sizeof *reducer->buckets);
    if (reducer->buckets == NULL)
        return failed(me, E_MEMORY, "out of memory for buckets");
    for (int i = 0; i < list->count; i++) {
        struct bucket *bucket = &reducer->buckets[reducer->count++];
        size_t         size   = (size_t)list->sizes[i];
        bucket->indices = malloc(size * sizeof *bucket->indices);
        bucket->views   = calloc(size, sizeof *bucket->views);
        if (bucket->indices == NULL || bucket->views == NULL)
            return failed(me, E_MEMORY, "out of memory for buckets");
        memcpy(bucket->indices, list->indices[i], size * sizeof *bucket->indices);
        bucket->count = list->sizes[i];
        if (!bucket_lay_out(me, reducer, bucket, i))
            return false;
        reducer_announce_bucket(me, bucket, i);
    }
    return reducer->replica == NULL || reducer_check_names(me, reducer);
}

static bool
reducer_assign(struct task *me, const struct reducer *reducer, struct bucket_assignment wanted, struct bucket_list *out)
{
    *out = (struct bucket_list){ 0 };
    int                  count  = reducer->params_count;
    struct bucket_input *inputs = malloc((size_t)count * sizeof *inputs);
    if (inputs == NULL)
        return failed(me, E_MEMORY, "out of memory for buckets");
    for (int i = 0; i < count; i++)
        inputs[i] = bucket_input_of(reducer->params[wanted.order != NULL ? wanted.order[i] : i]);
    wanted.inputs = inputs;
    wanted.count  = wanted.order_count = count;
    bool done = buckets_assign(me, &wanted, out);
    free(inputs);
    return done;
}

bool
reducer_assign_by_order(struct task *me, const struct reducer *reducer, struct bucket_list *out)
{
    size_t limits[] = { reducer->first_bucket_bytes, reducer->bucket_bytes };
    struct bucket_assignment wanted = { .limits = limits, .limit_count = 2, .order = reducer->rebuilt_order };
    return reducer_assign(me, reducer, wanted, out);
}

/* Before anything is known of the order: the parameters last defined come first. With find_unused_parameters there will
 * be no rebuild, so the limits count from the start; else one bucket per dtype and device does for one iteration. */
bool
reducer_first_buckets(struct task *me, struct reducer *reducer)
{
    size_t limits[] = { reducer->first_bucket_bytes, reducer->bucket_bytes }, unlimited[] = { SIZE_MAX };
    struct bucket_assignment wanted = { .limits = unlimited, .limit_count = 1 };
    if (reducer->find_unused)
        wanted = (struct bucket_assignment){ .limits = limits, .limit_count = 2 };
    struct bucket_list list;
    bool done = reducer_assign(me, reducer, wanted, &list);
    for (int i = 0, j = list.count - 1; i < j; i++, j--) {
        int *indices = list.indices[i], size = list.sizes[i];
        list.indices[i] = list.indices[j];
        list.sizes[i]   = list.sizes[j];
        list.indices[j] = indices;
        list.sizes[j]   = size;
    }
    done = done && reducer_initialize_buckets(me, reducer, &list);
    buckets_free(&list);
    return done;
}

/* ---- rank 0's order holds ---- */

static bool
broadcast_numbers(struct task *me, struct reducer *reducer, int64_t *numbers, int count)
{
    int64_t        size   = count;
    struct tensor *tensor = tensor_from(me, DTYPE_I64, 1, &size, numbers);
    return tensor != NULL && group_broadcast_now(me, reducer->group, tensor, 0) && tensor_read(me, tensor, numbers);
}

/* How buckets travel: the parameters' indices, bucket after bucket, and how many of them each bucket has. */
struct bucket_numbers { const int64_t *indices, *sizes; int count, buckets; };

/* What came from rank 0 must be each parameter once, cut into buckets that are not empty. */
static bool
numbers_to_buckets(const struct bucket_numbers *given, bool *seen, struct bucket_list *out)
{
    const int64_t *indices = given->indices, *sizes = given->sizes;
    int            count = given->count, buckets = given->buckets, at = 0;
    out->indices = calloc((size_t)buckets, sizeof *out->indices);
    out->sizes   = calloc((size_t)buckets, sizeof *out->sizes);
    out->limits  = calloc((size_t)buckets, sizeof *out->limits);
    if (out->indices == NULL || out->sizes == NULL || out->limits == NULL)
        return false;
    for (int i = 0; i < buckets; i++) {
        if (sizes[i] < 1 || sizes[i] > count - at || (i == buckets - 1 && sizes[i] != count - at))
            return false;
        int *row = malloc((size_t)sizes[i] * sizeof *row);
        if (row == NULL)
            return false;
        out->indices[out->count] = row;
        out->sizes[out->count++] = (int)sizes[i];
        for (int j = 0; j < sizes[i]; j++, at++) {
            if (indices[at] < 0 || indices[at] >= count || seen[indices[at]])
                return false;
            seen[indices[at]] = true;
            row[j] = (int)indices[at];
        }
    }
    return true;
}

static bool
sync_numbers(struct task *me, struct reducer *reducer, struct bucket_list *list, int64_t *numbers, bool *seen)
{
    int      count = reducer->params_count, at = 0;
    int64_t *sizes = numbers + count + 1;
    for (int i = 0; i < list->count; i++)
        for (int j = 0; j < list->sizes[i]; j++)
            numbers[at++] = list->indices[i][j];
    numbers[count] = list->count;
    for (int i = 0; i < list->count; i++)
        sizes[i] = list->sizes[i];
    if (!broadcast_numbers(me, reducer, numbers, count + 1))
        return false;
    int64_t buckets = numbers[count];
    if (buckets < 1 || buckets > count)
        return failed(me, E_RUNTIME, "rank 0 sent %" PRId64 " buckets for %d parameters", buckets, count);
    if (!broadcast_numbers(me, reducer, sizes, (int)buckets))
        return false;
    const struct bucket_numbers given = { numbers, sizes, count, (int)buckets };
    buckets_free(list);
    return numbers_to_buckets(&given, seen, list) ||
           failed(me, E_RUNTIME, "rank 0's buckets cannot be taken over: not every parameter once, or no memory");
}

/* Ranks may have seen their gradients in different orders; buckets must be the same everywhere. */
bool
reducer_sync_bucket_indices(struct task *me, struct reducer *reducer, struct bucket_list *list)
{
    size_t   count   = (size_t)reducer->params_count;
    int64_t *numbers = calloc(2 * count + 1, sizeof *numbers);
    bool    *seen    = calloc(count, sizeof *seen);
    bool     done    = numbers != NULL && seen != NULL;
    done = done ? sync_numbers(me, reducer, list, numbers, seen) : failed(me, E_MEMORY, "out of memory for buckets");
    free(numbers);
    free(seen);
    return done;
}
