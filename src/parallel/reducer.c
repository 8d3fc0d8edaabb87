/* What the reducer does in every iteration, as reducer.cpp in torch/csrc/distributed/c10d. Read it from the top: before
 * the forward, before the backward, while gradients come, after the backward. The order of use is in reducer.h. */
#include <stdlib.h>
#include <string.h>
#include "autograd/engine.h"
#include "base/map.h"
#include "base/vec.h"
#include "c10d/group.h"
#include "device/cells.h"
#include "parallel/check_ranks.h"
#include "parallel/internal.h"
#include "sched/stage.h"
#include "tensor/op.h"

/* ---- before the forward ---- */

int64_t
reducer_iterations(const struct reducer *reducer)
{
    return reducer->iterations;
}

int64_t
reducer_prepare_for_forward(struct reducer *reducer)
{
    memcpy(reducer->last_order, reducer->ready_order, sizeof *reducer->last_order * (size_t)reducer->ready_count);
    reducer->last_count = reducer->ready_count;
    return reducer->iterations++;
}

/* The error for a forgotten branch surfaces here, one iteration late: only the next forward knows that nothing more
 * will come. */
bool
reducer_ensure_prior_reduction_finished(struct task *me, struct reducer *reducer)
{
    return reducer->require_finalize ? reducer_unfinished(me, reducer) : !task_failed(me);
}

bool
reducer_should_rebuild_buckets(const struct reducer *reducer)
{
    return !reducer->find_unused && !reducer->has_rebuilt && reducer->rebuilt_count == reducer->params_count;
}

/* Once, before the second synchronising forward: from here on the buckets follow the order in which gradients really
 * come, by default the first ones in a small bucket, so that the wire gets work early. Rank 0's order holds for all. */
bool
reducer_rebuild_buckets(struct task *me, struct reducer *reducer)
{
    STAGE(me, ddp_rebuild_buckets, reducer->params_count);
    if (!reducer_ensure_prior_reduction_finished(me, reducer))
        return false;
    if (!reducer_should_rebuild_buckets(reducer))
        return true;
    struct bucket_list list = { 0 };
    bool rebuilt = reducer_assign_by_order(me, reducer, &list) &&
                   reducer_sync_bucket_indices(me, reducer, &list) &&
                   reducer_initialize_buckets(me, reducer, &list);
    reducer->has_rebuilt = rebuilt;
    buckets_free(&list);
    return rebuilt;
}

/* ---- before the backward ---- */

static bool
node_visit(struct map *seen, struct node ***stack, size_t *count, size_t *room, struct node *node)
{
    if (node == NULL || map_get(seen, (uintptr_t)node, NULL))
        return true;
    if (!map_set(seen, (uintptr_t)node, 1) || !vec_room(stack, room, *count + 1, sizeof **stack))
        return false;
    (*stack)[(*count)++] = node;
    return true;
}

/* Depth first over the graph from every output: whose accumulator is not met gets no gradient in this iteration. */
static bool
reducer_search_unused(struct task *me, struct reducer *reducer, struct tensor *const *outputs, int count)
{
    struct map    seen  = { 0 };
    struct node **stack = NULL;
    size_t        depth = 0, room = 0;
    bool          ok    = true;
    for (int i = 0; i < count && ok; i++)
        ok = node_visit(&seen, &stack, &depth, &room, outputs[i]->grad_fn);
    while (depth > 0 && ok) {
        struct node *node = stack[--depth];
        for (int i = 0; i < node->edge_count && ok; i++)
            ok = node_visit(&seen, &stack, &depth, &room, node->edges[i].node);
    }
    for (int i = 0; i < reducer->params_count; i++)
        reducer->unused[i] = !map_get(&seen, (uintptr_t)reducer->hooks[i].node, NULL);
    free(stack);
    map_free(&seen);
    return ok || failed(me, E_MEMORY, "out of memory while looking for unused parameters");
}

/* Every bucket waits for all its gradients again. Unused parameters are only noted: they are marked ready when the
 * first gradient comes, because these outputs may never be used. */
bool
reducer_prepare_for_backward(struct task *me, struct reducer *reducer,
                             struct tensor *const *outputs, int count)
{
    STAGE(me, ddp_prepare_for_backward, reducer->count);
    size_t flags = sizeof(bool) * (size_t)reducer->params_count;
    memset(reducer->ready, 0, flags);
    memset(reducer->unused, 0, flags);
    for (int i = 0; i < reducer->count; i++)
        reducer->buckets[i].pending = reducer->buckets[i].count;
    reducer->next              = 0;
    reducer->ready_count       = 0;
    reducer->has_marked_unused = false;
    reducer->expect_hooks      = true;
    return !reducer->find_unused || reducer_search_unused(me, reducer, outputs, count);
}

/* ---- during the backward ---- */

static int64_t
name_id(struct task *me, const struct reducer *reducer, int index)
{
    return stage_text_id(me, reducer->names[index]);
}

/* The gradient's share of the mean goes into its place of the bucket: each rank scales before the sum. A comm hook gets
 * it as it is. */
static bool
reducer_copy_to_bucket(struct task *me, struct reducer *reducer, int index)
{
    struct bucket *bucket = &reducer->buckets[reducer->bucket_of[index]];
    struct tensor *param = reducer->params[index], *grad = param->grad;
    STAGE(me, ddp_copy_to_bucket, index, reducer->bucket_of[index], tensor_bytes(param));
    struct tensor *slot = bucket->views[reducer->place_of[index]];
    if (grad == NULL)
        return tensor_fill(me, slot, 0);
    if (grad->dtype != slot->dtype || !tensor_same_shape(grad, slot))
        return reducer_wrong_grad(me, index, grad, slot);
    struct op_args args = { .in = { grad }, .out = slot, .alpha = 1.0 / reducer->world };
    if (reducer->comm_hook.start != NULL)
        return tensor_copy(me, slot, grad);
    return op_run(me, OP_mul_scalar, &args) != NULL;
}

/* What becomes of the bucket is the hook's business: it averages (or not), compresses, goes its own
 * way. What it answers at once is waited for at the end of the backward. */
static bool
reducer_run_comm_hook(struct task *me, struct reducer *reducer, int index)
{
    struct bucket *bucket = &reducer->buckets[index];
    STAGE(me, ddp_comm_hook, index, tensor_bytes(bucket->gradients));
    struct tensor **params = scratch_new(me, (size_t)bucket->count, sizeof *params);
    for (int i = 0; i < bucket->count && params != NULL; i++)
        params[i] = reducer->params[bucket->indices[i]];
    struct grad_bucket seen = { .index = index, .count = bucket->count, .params = params,
                                .is_last = index == reducer->count - 1 };
    seen.buffer = bucket->gradients;
    if (params != NULL)
        bucket->hooked = reducer->comm_hook.start(me, reducer->comm_hook.context, &seen);
    return bucket->hooked != NULL;
}

/* Asynchronous: the backward goes on while the comm task adds up the ranks' buckets. */
static bool
reducer_all_reduce_bucket(struct task *me, struct reducer *reducer, int index)
{
    struct bucket *bucket = &reducer->buckets[index];
    STAGE(me, ddp_all_reduce_bucket, index, tensor_bytes(bucket->gradients));
    if (reducer->comm_hook.start != NULL)
        return reducer_run_comm_hook(me, reducer, index);
    bucket->work = group_all_reduce(me, reducer->group, bucket->gradients, NULL);
    return bucket->work != NULL;
}

/* Bucket `index` has its last gradient. Start every bucket whose turn has come.
 *
 * Buckets fill in any order, but are started in index order, because ranks pair
 * their collectives up by the order of the calls and by nothing else. */
bool
reducer_mark_bucket_ready(struct task *me, struct reducer *reducer, int index)
{
    STAGE(me, ddp_mark_bucket_ready, index, reducer->next);
    if (index > reducer->next)
        return true;
    for (; reducer->next < reducer->count; reducer->next++) {
        if (reducer->buckets[reducer->next].pending > 0)
            break;
        if (!reducer_all_reduce_bucket(me, reducer, reducer->next))
            return false;
    }
    return true;
}

/* One 4-byte number per parameter, 1 where this rank used it; their sum says who is used anywhere. */
static bool
reducer_launch_used_map(struct task *me, struct reducer *reducer)
{
    for (int i = 0; i < reducer->params_count; i++)
        reducer->used_numbers[i] = reducer->used[i] ? 1.0F : 0.0F;
    if (!tensor_write(me, reducer->used_map, reducer->used_numbers))
        return false;
    reducer->used_work = group_all_reduce(me, reducer->group, reducer->used_map, NULL);
    return reducer->used_work != NULL;
}

static bool
finalize_callback(struct task *me, void *reducer)
{
    return reducer_finalize_backward(me, reducer);
}

/* All buckets are on their way: the ranks tell each other what they used, and the end of the backward will wait. */
static bool
reducer_all_launched(struct task *me, struct reducer *reducer)
{
    if (reducer->find_unused && !reducer_launch_used_map(me, reducer))
        return false;
    return autograd_queue_callback(me, finalize_callback, reducer);
}

/* Parameter `index` has its final gradient of this iteration, or will get none. Its bucket waits for one less; the one
 * that waits for nobody is ready. */
bool
reducer_mark_variable_ready(struct task *me, struct reducer *reducer, int index)
{
    int at = reducer->bucket_of[index], pending = reducer->buckets[at].pending - 1;
    STAGE(me, ddp_mark_variable_ready, index, at, pending, name_id(me, reducer, index));
    if (reducer->ready[index])
        return reducer_ready_twice(me, reducer, index);
    reducer->ready[index]     = true;
    reducer->require_finalize = true;
    if (!reducer_copy_to_bucket(me, reducer, index))
        return false;
    reducer->buckets[at].pending = pending;
    if (pending == 0 && !reducer_mark_bucket_ready(me, reducer, at))
        return false;
    return reducer->next < reducer->count || reducer_all_launched(me, reducer);
}

/* Before the first gradient counts, those that will not come are told: nobody shall wait for them. */
static bool
reducer_mark_unused(struct task *me, struct reducer *reducer)
{
    reducer->has_marked_unused = true;
    for (int i = 0; i < reducer->params_count; i++)
        if (reducer->unused[i] && !reducer_mark_variable_ready(me, reducer, i))
            return false;
    return true;
}

static void
reducer_note_order(struct reducer *reducer, int index)
{
    if (reducer->ready_count < reducer->params_count)
        reducer->ready_order[reducer->ready_count++] = index;
    if (!reducer->find_unused && !reducer->has_rebuilt && reducer->rebuilt_count < reducer->params_count)
        reducer->rebuilt_order[reducer->rebuilt_count++] = index;
}

/* Parameter `index` has just accumulated its gradient. Without a forward that prepared for this backward (no_sync, or a
 * second backward) nothing is reduced: the gradient stays this rank's own, but counts as used when the next reduction
 * comes (in PyTorch 1.13 it did not, and a branch used only there kept a gradient of each rank's own). */
static bool
reducer_autograd_hook(struct task *me, struct reducer *reducer, int index)
{
    STAGE(me, ddp_autograd_hook, index, name_id(me, reducer, index));
    if (reducer->params[index]->grad != NULL)
        reducer->used[index] = true;
    if (!reducer->expect_hooks)
        return true;
    reducer_note_order(reducer, index);
    if (!reducer->has_marked_unused && !reducer_mark_unused(me, reducer))
        return false;
    return reducer_mark_variable_ready(me, reducer, index);
}

/* Parameters on several devices have their gradients accumulated by several workers: one at a time, then. */
bool
reducer_run_hook(struct task *me, void *context, struct node *node, struct tensor **grads, int count)
{
    (void)node, (void)grads, (void)count;
    struct reducer_hook *hook    = context;
    struct reducer      *reducer = hook->reducer;
    if (reducer->has_lock && !lock_acquire(me, &reducer->lock))
        return false;
    bool done = reducer_autograd_hook(me, reducer, hook->index);
    if (reducer->has_lock)
        lock_release(me, &reducer->lock);
    return done;
}

/* ---- after the backward ---- */

static bool
reducer_await_used_map(struct task *me, struct reducer *reducer)
{
    bool done = work_wait(me, reducer->used_work) && tensor_read(me, reducer->used_map, reducer->used_numbers);
    work_free(me, reducer->used_work);
    reducer->used_work = NULL;
    return done;
}

/* Only who did not use the parameter itself must ask the others. */
static bool
reducer_globally_unused(struct task *me, struct reducer *reducer, int index, bool *unused)
{
    *unused = false;
    if (!reducer->find_unused || reducer->used[index])
        return true;
    if (reducer->used_work != NULL && !reducer_await_used_map(me, reducer))
        return false;
    *unused = reducer->used_numbers[index] == 0;
    return true;
}

static bool
reducer_finish_used_map(struct task *me, struct reducer *reducer)
{
    bool done = reducer->used_work == NULL || reducer_await_used_map(me, reducer);
    memset(reducer->used, 0, sizeof *reducer->used * (size_t)reducer->params_count);
    return done;
}

/* The mean over all ranks becomes the parameter's gradient, also where this rank did not use it. */
static bool
reducer_copy_bucket_to_grad(struct task *me, struct reducer *reducer, int index)
{
    struct tensor *param = reducer->params[index];
    int at = reducer->bucket_of[index];
    STAGE(me, ddp_copy_bucket_to_grad, index, at, tensor_bytes(param));
    struct tensor *slot = reducer->buckets[at].views[reducer->place_of[index]];
    if (param->grad != NULL) {
        tensor_bump(param->grad);
        return tensor_copy(me, param->grad, slot);
    }
    struct tensor *grad = tensor_clone(me, slot);
    tensor_keep(me, &param->grad, grad);
    return grad != NULL;
}

/* What the hook's future holds becomes the bucket, whatever its shape and dtype. */
static bool
reducer_await_comm_hook(struct task *me, struct reducer *reducer, struct bucket *bucket)
{
    size_t         mark   = scope_mark(me);
    void          *hooked = bucket->hooked;
    const int64_t  count  = tensor_count(bucket->gradients);
    bucket->hooked        = NULL;
    struct tensor *result = reducer->comm_hook.finish(me, reducer->comm_hook.context, hooked);
    bool           done   = result != NULL;
    if (done && tensor_count(result) < count)
        done = failed(me, E_RUNTIME, "the comm hook's tensor has %lld elements, but the bucket has %lld",
                      (long long)tensor_count(result), (long long)count);
    if (done && result != bucket->gradients) {
        struct tensor *whole = tensor_contiguous(me, result);
        struct tensor *row   = whole != NULL ? tensor_piece(me, whole, 1, &count, whole->offset) : NULL;
        done = row != NULL && tensor_copy(me, bucket->gradients, row);
    }
    scope_release(me, mark);
    return done;
}

static bool
reducer_await_bucket(struct task *me, struct reducer *reducer, struct bucket *bucket)
{
    if (bucket->hooked != NULL)
        return reducer_await_comm_hook(me, reducer, bucket);
    bool done = bucket->work != NULL && work_wait(me, bucket->work);
    work_free(me, bucket->work);
    bucket->work = NULL;
    return done;
}

static bool
reducer_finish_bucket(struct task *me, struct reducer *reducer, struct bucket *bucket)
{
    bool done = reducer_await_bucket(me, reducer, bucket);
    if (done && bucket == reducer->buckets)
        done = replica_reduced(me, reducer->replica);
    for (int i = 0; i < bucket->count && done; i++) {
        int  index  = bucket->indices[i];
        bool unused = false;
        done = reducer_globally_unused(me, reducer, index, &unused);
        if (done && !unused)
            done = reducer_copy_bucket_to_grad(me, reducer, index) &&
                   replica_grad(me, reducer->replica, index, reducer->params[index]->grad);
    }
    return done;
}

/* The whole backward is done: wait for the buckets in their order and copy each back. What no rank used keeps the
 * gradient that it had. The optimizer runs after this, on equal gradients. */
bool
reducer_finalize_backward(struct task *me, struct reducer *reducer)
{
    STAGE(me, ddp_finalize_backward, reducer->count);
    reducer->expect_hooks     = false;
    reducer->require_finalize = false;
    for (int i = 0; i < reducer->count; i++)
        if (!reducer_finish_bucket(me, reducer, &reducer->buckets[i]))
            return false;
    return !reducer->find_unused || reducer_finish_used_map(me, reducer);
}
