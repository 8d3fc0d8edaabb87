/* Between a parameter's .grad and its place in a bucket. On the way in each gradient becomes this rank's share of the
 * mean: slot = grad * (1 / world). On the way back the slot is copied into .grad. Three options change that:
 *
 *   gradient_as_bucket_view   .grad is the slot itself from the first time on: nothing is copied, only divided in place
 *   batched_grad_copy         a bucket's gradients go in together when the last has come, and are divided as one
 *   lazy_bucket_allocation    a bucket has memory from its first gradient to the end of finalize
 *
 * A sparse gradient is its own bucket: nothing is copied either way. */
#include "autograd/call.h"
#include "c10d/group.h"
#include "parallel/check_ranks.h"
#include "parallel/internal.h"
#include "sched/stage.h"
#include "tensor/op.h"

static struct tensor *
slot_of(const struct reducer *reducer, int index)
{
    return reducer->buckets[reducer->bucket_of[index]].views[reducer->place_of[index]];
}

static bool
is_slot(const struct tensor *grad, const struct tensor *slot)
{
    return grad->storage == slot->storage;
}

static bool
has_history(const struct tensor *grad)
{
    return grad != NULL && (grad->grad_fn != NULL || grad->requires_grad);
}

bool
reducer_in_slot(const struct reducer *reducer, int index)
{
    const struct tensor *grad = reducer->params[index]->grad, *slot = slot_of(reducer, index);
    return grad != NULL && slot != NULL && is_slot(grad, slot);
}

static bool
divide(struct task *me, const struct reducer *reducer, struct tensor *tensor)
{
    const struct op_args args = { .in = { tensor }, .out = tensor, .alpha = reducer->divisor };
    return op_run(me, OP_div_scalar, &args) != NULL;
}

/* ---- in ---- */

/* A gradient that was made with create_graph has a history. It goes on being differentiable as this rank's own share:
 * the sum over the ranks is in nobody's graph (issues 63812 and 63929). */
static bool
fill_with_history(struct task *me, struct reducer *reducer, int index, struct tensor *slot)
{
    struct tensor *param = reducer->params[index], *share = param->grad;
    if (!reducer->warned_history)
        task_warn(me, "DistributedDataParallel with create_graph=true: the gradients are averaged, but their own "
                      "gradients are not; a second backward gives each rank its own");
    reducer->warned_history = true;
    if (reducer->comm_hook.start == NULL)
        share = tensor_mul_number(me, share, 1.0 / reducer->divisor);
    if (share == NULL || !tensor_copy(me, slot, share))
        return false;
    struct tensor *grad = reducer->as_views ? tensor_alias(me, slot) : tensor_clone(me, slot);
    if (grad != NULL && share->grad_fn != NULL)
        node_output(me, share->grad_fn, grad, share->output_nr);
    tensor_keep(me, &param->grad, grad);
    return grad != NULL;
}

/* PyTorch multiplies by the reciprocal here and divides where it divides in place: for three ranks that is another last
 * bit. */
static bool
fill_scaled(struct task *me, struct reducer *reducer, int index, struct tensor *slot)
{
    struct tensor *param = reducer->params[index];
    const struct op_args args = { .in = { param->grad }, .out = slot, .alpha = 1.0 / reducer->divisor };
    bool done = reducer->comm_hook.start != NULL ? tensor_copy(me, slot, param->grad)
                                                 : op_run(me, OP_mul_scalar, &args) != NULL;
    if (done && reducer->as_views)
        tensor_keep(me, &param->grad, slot);
    return done;
}

/* Its parameter was used, by what the used map will say, but there is nothing to be reduced. */
static bool
fill_missing(struct task *me, struct reducer *reducer, int index, struct tensor *slot)
{
    if (reducer->used[index] && (dynamic_find_unused(reducer) || static_first(reducer)))
        return reducer_missing_grad(me, reducer, index);
    return tensor_fill(me, slot, 0);
}

/* The share is a new tensor: the gradient's values may be those of another parameter's, too (2.15 divides in place, and
 * such values twice). */
static bool
fill_sparse(struct task *me, struct reducer *reducer, int index)
{
    struct bucket *bucket = &reducer->buckets[reducer->bucket_of[index]];
    struct tensor *param  = reducer->params[index], *share = param->grad;
    if (!tensor_is_sparse(share))
        return reducer_not_sparse(me, reducer, index);
    const struct op_args args = { .in = { share }, .alpha = reducer->divisor };
    if (reducer->comm_hook.start == NULL)
        share = op_call(me, OP_div_scalar, &args);
    if (share == NULL)
        return false;
    tensor_keep(me, &param->grad, share);
    tensor_keep(me, &bucket->gradients, share);
    bucket->bytes = tensor_bytes(share->values);
    return true;
}

void
reducer_announce_slot(struct task *me, const struct reducer *reducer, int index)
{
    const struct bucket *bucket = &reducer->buckets[reducer->bucket_of[index]];
    if (!bucket->sparse && bucket->gradients != NULL)
        tensor_announce_named(me, slot_of(reducer, index), "slot", reducer->params[index]->name);
}

bool
reducer_fill_slot(struct task *me, struct reducer *reducer, int index)
{
    struct bucket *bucket = &reducer->buckets[reducer->bucket_of[index]];
    struct tensor *grad   = reducer->params[index]->grad;
    if (bucket->sparse)
        return fill_sparse(me, reducer, index);
    if (bucket->gradients == NULL && !bucket_allocate(me, reducer, bucket))
        return false;
    struct tensor *slot = slot_of(reducer, index);
    if (grad == NULL)
        return fill_missing(me, reducer, index, slot);
    if (tensor_is_sparse(grad) || grad->dtype != slot->dtype || !tensor_same_shape(grad, slot))
        return reducer_wrong_grad(me, reducer, index, slot);
    if (has_history(grad))
        return fill_with_history(me, reducer, index, slot);
    if (reducer->batched_copy)
        return true;
    if (is_slot(grad, slot))
        return reducer->comm_hook.start != NULL || divide(me, reducer, slot);
    return fill_scaled(me, reducer, index, slot);
}

/* Beside gradients with a history, which are in the bucket and divided already, each goes in by itself. */
static bool
fill_one_by_one(struct task *me, struct reducer *reducer, struct bucket *bucket)
{
    for (int i = 0; i < bucket->count; i++) {
        struct tensor *grad = reducer->params[bucket->indices[i]]->grad, *slot = bucket->views[i];
        bool shared = reducer->comm_hook.start == NULL;
        if (grad == NULL || has_history(grad) || (is_slot(grad, slot) && !shared))
            continue;
        if (is_slot(grad, slot) ? !divide(me, reducer, slot) : !fill_scaled(me, reducer, bucket->indices[i], slot))
            return false;
    }
    return true;
}

/* batched_grad_copy: all gradients of a bucket go in at once, and one division does for all of them. */
bool
reducer_fill_bucket(struct task *me, struct reducer *reducer, struct bucket *bucket)
{
    if (!reducer->batched_copy || bucket->sparse)
        return true;
    STAGE(me, ddp_batched_copy, bucket - reducer->buckets, bucket->bytes);
    for (int i = 0; i < bucket->count; i++)
        if (has_history(reducer->params[bucket->indices[i]]->grad))
            return fill_one_by_one(me, reducer, bucket);
    for (int i = 0; i < bucket->count; i++) {
        struct tensor *param = reducer->params[bucket->indices[i]];
        struct tensor *slot  = bucket->views[i];
        if (param->grad == NULL || is_slot(param->grad, slot))
            continue;
        if (!tensor_copy(me, slot, param->grad))
            return false;
        if (reducer->as_views)
            tensor_keep(me, &param->grad, slot);
    }
    return reducer->comm_hook.start != NULL || divide(me, reducer, bucket->gradients);
}

/* ---- out ---- */

/* With the slot's strides, which are the parameter's. */
static struct tensor *
slot_copied(struct task *me, struct tensor *slot)
{
    return tensor_is_contiguous(slot) ? tensor_clone(me, slot) : tensor_copied(me, slot);
}

/* The mean over all ranks becomes the parameter's gradient, also where this rank did not use it. */
static bool
reducer_copy_bucket_to_grad(struct task *me, struct reducer *reducer, int index)
{
    struct tensor *param = reducer->params[index], *slot = slot_of(reducer, index);
    int bucket = reducer->bucket_of[index];
    tensor_announce_named(me, slot, "slot", reducer->params[index]->name);
    tensor_announce_named(me, param->grad, "gradient", param->name);
    STAGE(me, ddp_copy_bucket_to_grad, index, bucket, tensor_bytes(param));
    if (param->grad != NULL) {
        tensor_bump(param->grad);
        return tensor_copy(me, param->grad, slot);
    }
    struct tensor *grad = slot_copied(me, slot);
    tensor_keep(me, &param->grad, grad);
    tensor_announce_named(me, grad, "gradient", param->name);
    return grad != NULL;
}

/* .grad lies in the bucket: who had none gets the slot. */
static bool
point_to_slot(struct task *me, struct reducer *reducer, int index)
{
    struct tensor *param = reducer->params[index], *slot = slot_of(reducer, index);
    if (param->grad == NULL)
        tensor_keep(me, &param->grad, slot);
    return is_slot(param->grad, slot) || reducer_wrong_view(me, reducer, index);
}

static bool
finish_grad(struct task *me, struct reducer *reducer, int index)
{
    bool unused = false;
    if (!reducer_globally_unused(me, reducer, index, &unused))
        return false;
    if (unused)
        return true;
    bool done = reducer->as_views ? point_to_slot(me, reducer, index)
                                  : reducer_copy_bucket_to_grad(me, reducer, index);
    return done && replica_grad(me, reducer->replica, index, reducer->params[index]->grad);
}

/* What the hook's future holds becomes the bucket, whatever its shape and dtype. */
static bool
take_result(struct task *me, struct bucket *bucket, struct tensor *result)
{
    if (result == bucket->gradients)
        return true;
    if (bucket->gradients == NULL)
        return failed(me, E_RUNTIME, "a callback of the comm hook has finalized this backward, or changed its group, "
                                     "while it was awaited: with lazy_bucket_allocation the bucket is gone then. Do "
                                     "that after the backward.");
    if (bucket->sparse) {
        if (!tensor_is_sparse(result))
            return failed(me, E_RUNTIME, "the comm hook's tensor is dense, but the bucket's gradient is sparse");
        tensor_sparse_assign(me, bucket->gradients, result);
        return true;
    }
    const int64_t count = tensor_count(bucket->gradients);
    if (tensor_count(result) < count)
        return failed(me, E_RUNTIME, "the comm hook's tensor has %lld elements, but the bucket has %lld",
                      (long long)tensor_count(result), (long long)count);
    struct tensor *whole = tensor_contiguous(me, result);
    struct tensor *row   = whole != NULL ? tensor_piece(me, whole, 1, &count, whole->offset) : NULL;
    return row != NULL && tensor_copy(me, bucket->gradients, row);
}

/* The second half of the hook: what it has started is waited for, and unpacked; a hook of several collectives issues
 * the others here. */
static bool
reducer_await_comm_hook(struct task *me, struct reducer *reducer, struct bucket *bucket,
                        void *hooked)
{
    int number = (int)(bucket - reducer->buckets);
    STAGE(me, ddp_comm_hook_result, number, bucket->bytes);
    const struct comm_hook *hook   = &reducer->comm_hook;
    struct tensor          *result = hook->finish(me, hook->context, hooked);
    return result != NULL && take_result(me, bucket, result);
}

static bool
await_bucket(struct task *me, struct reducer *reducer, struct bucket *bucket)
{
    struct work *work = bucket->work;
    void      *hooked = bucket->hooked;
    bucket->work   = NULL;
    bucket->hooked = NULL;
    if (hooked == NULL) {
        bool done = work_wait(me, work);
        work_free(me, work);
        return done;
    }
    return reducer_await_comm_hook(me, reducer, bucket, hooked);
}

bool
reducer_finish_bucket(struct task *me, struct reducer *reducer, struct bucket *bucket)
{
    if (bucket->work == NULL && bucket->hooked == NULL)
        return true;
    if (!await_bucket(me, reducer, bucket))
        return false;
    if (bucket == reducer->buckets && !replica_reduced(me, reducer->replica))
        return false;
    for (int i = 0; i < bucket->count && !bucket->sparse; i++)
        if (!finish_grad(me, reducer, bucket->indices[i]))
            return false;
    if (bucket->sparse)
        tensor_drop(me, &bucket->gradients);
    return true;
}
