/* The reducer's buckets: which parameters travel together, at first and after the rebuild, and the memory in which they
 * do. The rule is in buckets.c. */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include "base/dtype.h"
#include "c10d/group.h"
#include "device/cells.h"
#include "parallel/check_ranks.h"
#include "nn/module.h"
#include "parallel/internal.h"
#include "sched/stage.h"
#include "tensor/op.h"

/* ---- memory ---- */

void
bucket_forget(struct task *me, const struct reducer *reducer, struct bucket *bucket)
{
    work_free(me, bucket->work);
    if (bucket->hooked != NULL)
        reducer->comm_hook.forget(me, reducer->comm_hook.context, bucket->hooked);
    bucket->work   = NULL;
    bucket->hooked = NULL;
    if (bucket->sparse || reducer->lazy)
        bucket_release(me, bucket);
}

void
bucket_release(struct task *me, struct bucket *bucket)
{
    for (int i = 0; bucket->views != NULL && i < bucket->count; i++)
        tensor_drop(me, &bucket->views[i]);
    tensor_drop(me, &bucket->gradients);
}

static void
bucket_clear(struct task *me, const struct reducer *reducer, struct bucket *bucket)
{
    bucket_forget(me, reducer, bucket);
    bucket_release(me, bucket);
    free(bucket->views);
    free(bucket->indices);
    *bucket = (struct bucket){ 0 };
}

/* One flat tensor; each parameter has a view of its own shape. */
bool
bucket_allocate(struct task *me, const struct reducer *reducer, struct bucket *bucket)
{
    const struct flat_members members = { reducer->params, bucket->indices, bucket->count };
    tensor_keep(me, &bucket->gradients, flat_empty(me, &members));
    if (bucket->gradients != NULL)
        tensor_announce_role(me, bucket->gradients, "bucket");
    struct flat_walk walk = { .flat = bucket->gradients };
    for (int i = 0; i < bucket->count && bucket->gradients != NULL; i++) {
        struct tensor *view = flat_piece_strided(me, &walk, reducer->params[bucket->indices[i]]);
        tensor_keep(me, &bucket->views[i], view);
        if (view == NULL)
            return false;
        if (reducer->as_views) /* a .grad that says so: detach_() refuses views */
            tensor_keep(me, &view->base, bucket->gradients);
    }
    return bucket->gradients != NULL;
}

/* ---- making them ---- */

void
bucket_print(const struct bucket *bucket, struct str *out)
{
    for (int i = 0; i < bucket->count; i++)
        str_addf(out, "%s%d", i > 0 ? " " : "", bucket->indices[i]);
}

/* A bucket and the parameters whose gradients travel in it. */
static bool
reducer_announce_bucket(struct task *me, const struct bucket *bucket, int index)
{
    struct str text = { 0 };
    bucket_print(bucket, &text);
    bool    whole   = str_ok(&text);
    int64_t indices = stage_text_id(me, str_text(&text));
    str_free(&text);
    if (!whole)
        return failed(me, E_MEMORY, "out of memory for buckets");
    POINT(me, ddp_bucket, index, bucket->bytes, bucket->count, indices);
    return true;
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

static bool
bucket_make(struct task *me, struct reducer *reducer, struct bucket *bucket, const int *indices, int count)
{
    bucket->indices = malloc((size_t)count * sizeof *bucket->indices);
    bucket->views   = calloc((size_t)count, sizeof *bucket->views);
    if (bucket->indices == NULL || bucket->views == NULL)
        return failed(me, E_MEMORY, "out of memory for buckets");
    memcpy(bucket->indices, indices, (size_t)count * sizeof *bucket->indices);
    bucket->count  = count;
    bucket->sparse = reducer->sparse[indices[0]];
    for (int i = 0; i < count; i++) {
        reducer->bucket_of[indices[i]] = (int)(bucket - reducer->buckets);
        reducer->place_of[indices[i]]  = i;
        bucket->bytes += tensor_bytes(reducer->params[indices[i]]);
    }
    return bucket->sparse || reducer->lazy || bucket_allocate(me, reducer, bucket);
}

/* With gradient_as_bucket_view gradients that are there already move into their new slots. */
static bool
move_grads(struct task *me, struct reducer *reducer)
{
    for (int i = 0; i < reducer->params_count && reducer->as_views; i++) {
        struct bucket *bucket = &reducer->buckets[reducer->bucket_of[i]];
        struct tensor *grad   = reducer->params[i]->grad;
        if (grad == NULL || bucket->sparse || tensor_is_sparse(grad))
            continue;
        if (bucket->gradients == NULL && !bucket_allocate(me, reducer, bucket))
            return false;
        struct tensor *slot = bucket->views[reducer->place_of[i]];
        if (grad->storage == slot->storage)
            continue;
        if (!tensor_copy(me, slot, grad))
            return false;
        tensor_keep(me, &reducer->params[i]->grad, slot);
    }
    return true;
}

static void
buckets_clear(struct task *me, const struct reducer *reducer, struct bucket *buckets, int count)
{
    for (int i = 0; i < count; i++)
        bucket_clear(me, reducer, &buckets[i]);
    free(buckets);
}

void
reducer_clear_buckets(struct task *me, struct reducer *reducer)
{
    buckets_clear(me, reducer, reducer->buckets, reducer->count);
    reducer->buckets = NULL;
    reducer->count   = 0;
}

static void
locate_params(struct reducer *reducer)
{
    for (int b = 0; b < reducer->count; b++)
        for (int i = 0; i < reducer->buckets[b].count; i++) {
            reducer->bucket_of[reducer->buckets[b].indices[i]] = b;
            reducer->place_of[reducer->buckets[b].indices[i]]  = i;
        }
}

static bool
buckets_make(struct task *me, struct reducer *reducer, const struct bucket_list *list)
{
    reducer->buckets = calloc((size_t)list->count, sizeof *reducer->buckets);
    reducer->count   = 0;
    if (reducer->buckets == NULL)
        return failed(me, E_MEMORY, "out of memory for buckets");
    for (int i = 0; i < list->count; i++) {
        struct bucket *bucket = &reducer->buckets[reducer->count++];
        if (!bucket_make(me, reducer, bucket, list->indices[i], list->sizes[i]) ||
            !reducer_announce_bucket(me, bucket, i))
            return false;
    }
    return move_grads(me, reducer) && (reducer->replica == NULL || reducer_check_names(me, reducer));
}

/* The old buckets go when the new ones are there: where memory does not do for both, the old ones stay. */
bool
reducer_initialize_buckets(struct task *me, struct reducer *reducer, const struct bucket_list *list)
{
    struct bucket *old   = reducer->buckets;
    int            count = reducer->count;
    if (buckets_make(me, reducer, list)) {
        buckets_clear(me, reducer, old, count);
        return true;
    }
    buckets_clear(me, reducer, reducer->buckets, reducer->buckets != NULL ? reducer->count : 0);
    reducer->buckets = old;
    reducer->count   = count;
    locate_params(reducer);
    return false;
}

/* ---- which travel together ---- */

static bool
reducer_assign(struct task *me, const struct reducer *reducer, struct bucket_assignment wanted, struct bucket_list *out)
{
    int                  count  = reducer->params_count;
    struct bucket_input *inputs = scratch_new(me, (size_t)count, sizeof *inputs);
    for (int i = 0; inputs != NULL && i < count; i++) {
        inputs[i]        = bucket_input_of(reducer->params[wanted.order != NULL ? wanted.order[i] : i]);
        inputs[i].sparse = reducer->sparse[i];
    }
    wanted.inputs = inputs;
    wanted.count  = wanted.order_count = count;
    if (reducer->limits != NULL) {
        wanted.limits      = reducer->limits;
        wanted.limit_count = reducer->limit_count;
    }
    return inputs != NULL && buckets_assign(me, &wanted, out);
}

bool
reducer_assign_by_order(struct task *me, const struct reducer *reducer, struct bucket_list *out)
{
    size_t limits[] = { reducer->first_bucket_bytes, reducer->bucket_bytes };
    struct bucket_assignment wanted = { .limits = limits, .limit_count = 2, .order = reducer->rebuilt_order };
    if (reducer->rebuilt_count != reducer->params_count)
        return failed(me, E_RUNTIME, "buckets are rebuilt by the order in which gradients came, but the last backward "
                      "brought %d of %d", reducer->rebuilt_count, reducer->params_count);
    return reducer_assign(me, reducer, wanted, out);
}

static void
buckets_reverse(struct bucket_list *list)
{
    for (int i = 0, j = list->count - 1; i < j; i++, j--) {
        int *indices = list->indices[i], size = list->sizes[i];
        list->indices[i] = list->indices[j];
        list->sizes[i]   = list->sizes[j];
        list->indices[j] = indices;
        list->sizes[j]   = size;
    }
}

/* Before anything is known of the order: the parameters last defined come first. With find_unused_parameters there will
 * be no rebuild, so the limits count from the start; else one bucket per dtype and device does for one iteration. */
bool
reducer_first_buckets(struct task *me, struct reducer *reducer, bool static_graph)
{
    size_t limits[] = { reducer->first_bucket_bytes, reducer->bucket_bytes }, unlimited[] = { SIZE_MAX };
    struct bucket_assignment wanted = { .limits = unlimited, .limit_count = 1 };
    if (reducer->find_unused && !static_graph)
        wanted = (struct bucket_assignment){ .limits = limits, .limit_count = 2 };
    struct bucket_list list;
    if (!reducer_assign(me, reducer, wanted, &list))
        return false;
    buckets_reverse(&list);
    return reducer_initialize_buckets(me, reducer, &list);
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
struct bucket_numbers { int64_t *indices, *sizes; int count, buckets; };

/* What came from rank 0 must be each parameter once, cut into buckets that are not empty. */
static bool
numbers_fit(struct task *me, const struct bucket_numbers *given)
{
    bool   *seen = scratch_new(me, (size_t)given->count, sizeof *seen);
    int64_t sum  = 0;
    for (int i = 0; i < given->count && seen != NULL; i++) {
        int64_t index = given->indices[i];
        if (index < 0 || index >= given->count || seen[index])
            return failed(me, E_RUNTIME, "rank 0's buckets cannot be taken over: they have parameter %" PRId64
                                         " twice, or there is none of that number", index);
        seen[index] = true;
    }
    for (int i = 0; i < given->buckets; i++)
        sum += given->sizes[i] > 0 && given->sizes[i] <= given->count ? given->sizes[i] : given->count + 1;
    return seen != NULL && (sum == given->count ||
                            failed(me, E_RUNTIME, "rank 0's buckets cannot be taken over: their sizes do not add up"));
}

static bool
numbers_to_buckets(struct task *me, const struct bucket_numbers *given, struct bucket_list *out)
{
    int *indices = scratch_new(me, (size_t)given->count, sizeof *indices), at = 0;
    out->indices = scratch_new(me, (size_t)given->buckets, sizeof *out->indices);
    out->sizes   = scratch_new(me, (size_t)given->buckets, sizeof *out->sizes);
    out->count   = given->buckets;
    if (indices == NULL || out->indices == NULL || out->sizes == NULL || !numbers_fit(me, given))
        return false;
    for (int i = 0; i < given->buckets; at += out->sizes[i], i++) {
        out->indices[i] = indices + at;
        out->sizes[i]   = (int)given->sizes[i];
    }
    for (int i = 0; i < given->count; i++)
        indices[i] = (int)given->indices[i];
    return true;
}

/* Ranks may have seen their gradients in different orders; buckets must be the same everywhere. */
bool
reducer_sync_bucket_indices(struct task *me, struct reducer *reducer, struct bucket_list *list)
{
    int      count = reducer->params_count, at = 0;
    int64_t *numbers = scratch_new(me, 2 * (size_t)count + 1, sizeof *numbers);
    if (numbers == NULL)
        return false;
    struct bucket_numbers travel = { .indices = numbers, .sizes = numbers + count + 1, .count = count };
    for (int i = 0; i < list->count; at += list->sizes[i], i++) {
        for (int j = 0; j < list->sizes[i]; j++)
            numbers[at + j] = list->indices[i][j];
        travel.sizes[i] = list->sizes[i];
    }
    numbers[count] = list->count;
    if (!broadcast_numbers(me, reducer, numbers, count + 1))
        return false;
    if (numbers[count] < 1 || numbers[count] > count)
        return failed(me, E_RUNTIME, "rank 0 sent %" PRId64 " buckets for %d parameters", numbers[count], count);
    travel.buckets = (int)numbers[count];
    return broadcast_numbers(me, reducer, travel.sizes, travel.buckets) && numbers_to_buckets(me, &travel, list);
}
