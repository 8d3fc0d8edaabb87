/* The plain hooks: an all-reduce of the mean, the same in half the bytes, a cast around another hook, and nothing at
 * all. As default_hooks.py and debugging_hooks.py. */
#include "parallel/comm_hooks.h"

#include <inttypes.h>
#include "autograd/call.h"
#include "c10d/group.h"
#include "device/cells.h"
#include "sched/stage.h"
#include "tensor/op.h"

/* ---- states ---- */

void *
hook_state_new(struct task *me, size_t bytes)
{
    struct hook_state *state = host_take(me, bytes);
    if (state != NULL)
        atomic_init(&state->references, 1);
    return state;
}

struct hook_state *
hook_state_ref(struct hook_state *state)
{
    atomic_fetch_add(&state->references, 1);
    return state;
}

void
hook_state_unref(struct task *me, void *object)
{
    struct hook_state *state = object;
    if (atomic_fetch_sub(&state->references, 1) == 1)
        state->drop(me, state);
}

/* ---- what hooks are made of ---- */

/* Truly divided, where the reducer multiplies by the reciprocal: for three ranks that is another last bit. */
bool
hook_divide(struct task *me, struct tensor *tensor, int ranks)
{
    struct op_args args = { .in = { tensor }, .out = tensor, .alpha = ranks };
    if (!tensor_is_sparse(tensor))
        return op_run(me, OP_div_scalar, &args) != NULL;
    args.out = NULL;
    struct tensor *share = op_call(me, OP_div_scalar, &args);
    if (share != NULL)
        tensor_sparse_assign(me, tensor, share);
    return share != NULL;
}

struct hook_sum { struct work *work; struct tensor *sent, *buffer; };

void
hook_sum_forget(struct task *me, void *context, void *object)
{
    struct hook_sum *sum = object;
    (void)context;
    work_free(me, sum->work);
    tensor_drop(me, &sum->sent);
    tensor_drop(me, &sum->buffer);
    host_return(me, sum, sizeof *sum);
}

struct hook_sum *
hook_sum_begin(struct task *me, struct process_group *group, struct tensor *sent, struct tensor *buffer)
{
    struct hook_sum *sum = host_take(me, sizeof *sum);
    if (sum == NULL)
        return NULL;
    tensor_keep(me, &sum->sent, sent);
    tensor_keep(me, &sum->buffer, buffer);
    sum->work = group_all_reduce(me, group, sent, NULL);
    if (sum->work != NULL)
        return sum;
    hook_sum_forget(me, NULL, sum);
    return NULL;
}

struct tensor *
hook_sum_finish(struct task *me, void *context, void *object)
{
    struct hook_sum *sum = object;
    bool done = work_wait(me, sum->work);
    if (done && sum->sent != sum->buffer)
        done = tensor_copy(me, sum->buffer, sum->sent);
    struct tensor *result = done ? tensor_born(me, tensor_ref(sum->buffer)) : NULL;
    hook_sum_forget(me, context, sum);
    return result;
}

void
hook_keeps_nothing(struct task *me, void *context)
{
    (void)me, (void)context;
}

/* ---- the mean ---- */

static void *
start_allreduce(struct task *me, void *context, const struct grad_bucket *bucket)
{
    struct process_group *group = context;
    if (!hook_divide(me, bucket->buffer, process_group_size(group)))
        return NULL;
    return hook_sum_begin(me, group, bucket->buffer, bucket->buffer);
}

struct comm_hook
allreduce_hook(struct process_group *group)
{
    return (struct comm_hook){ .start = start_allreduce, .finish = hook_sum_finish, .forget = hook_sum_forget,
                               .drop = hook_keeps_nothing, .context = group, .name = "allreduce_hook" };
}

/* ---- the mean in sixteen bits ---- */

/* A sum of several ranks' halves may be too large for one: divided first. */
static void *
start_compressed(struct task *me, struct process_group *group, enum dtype dtype,
                 const struct grad_bucket *bucket)
{
    struct tensor *buffer = bucket->buffer;
    if (tensor_is_sparse(buffer)) {
        failed(me, E_NOT_IMPLEMENTED, "a sparse gradient is not added up in %s: use allreduce_hook",
               dtype_name(dtype));
        return NULL;
    }
    struct tensor *small = tensor_to(me, buffer, tensor_device(buffer), dtype);
    if (small == NULL || !hook_divide(me, small, process_group_size(group)))
        return NULL;
    return hook_sum_begin(me, group, small, buffer);
}

static void *
start_fp16(struct task *me, void *group, const struct grad_bucket *bucket)
{
    return start_compressed(me, group, DTYPE_F16, bucket);
}

static void *
start_bf16(struct task *me, void *group, const struct grad_bucket *bucket)
{
    return start_compressed(me, group, DTYPE_BF16, bucket);
}

struct comm_hook
fp16_compress_hook(struct process_group *group)
{
    return (struct comm_hook){ .start = start_fp16, .finish = hook_sum_finish, .forget = hook_sum_forget,
                               .drop = hook_keeps_nothing, .context = group, .name = "fp16_compress_hook" };
}

struct comm_hook
bf16_compress_hook(struct process_group *group)
{
    return (struct comm_hook){ .start = start_bf16, .finish = hook_sum_finish, .forget = hook_sum_forget,
                               .drop = hook_keeps_nothing, .context = group, .name = "bf16_compress_hook" };
}

/* ---- a cast around another hook ---- */

struct wrapper { struct comm_hook inner; enum dtype dtype; };
struct wrapped { void *started; struct tensor *buffer; };    /* the bucket, cast */

static void
drop_wrapper(struct task *me, void *context)
{
    struct wrapper *wrapper = context;
    wrapper->inner.drop(me, wrapper->inner.context);
    host_return(me, wrapper, sizeof *wrapper);
}

static void
forget_wrapped(struct task *me, void *context, void *object)
{
    struct wrapper *wrapper = context;
    struct wrapped *wrapped = object;
    if (wrapped->started != NULL)
        wrapper->inner.forget(me, wrapper->inner.context, wrapped->started);
    tensor_drop(me, &wrapped->buffer);
    host_return(me, wrapped, sizeof *wrapped);
}

static void *
start_wrapped(struct task *me, void *context, const struct grad_bucket *bucket)
{
    struct wrapper    *wrapper = context;
    struct grad_bucket cast    = *bucket;
    if (tensor_is_sparse(bucket->buffer)) {
        failed(me, E_NOT_IMPLEMENTED, "a sparse gradient is not added up in %s: leave the wrapper out",
               dtype_name(wrapper->dtype));
        return NULL;
    }
    struct wrapped *wrapped = host_take(me, sizeof *wrapped);
    cast.buffer = tensor_to(me, bucket->buffer, tensor_device(bucket->buffer), wrapper->dtype);
    if (wrapped == NULL)
        return NULL;
    tensor_keep(me, &wrapped->buffer, cast.buffer);
    if (cast.buffer != NULL)
        wrapped->started = wrapper->inner.start(me, wrapper->inner.context, &cast);
    if (wrapped->started != NULL)
        return wrapped;
    forget_wrapped(me, wrapper, wrapped);
    return NULL;
}

static bool
take_result(struct task *me, struct tensor *buffer, struct tensor *result)
{
    if (tensor_count(result) != tensor_count(buffer))
        return failed(me, E_RUNTIME, "the hook inside of the wrapper answered %" PRId64 " elements for a bucket of "
                                     "%" PRId64, tensor_count(result), tensor_count(buffer));
    return tensor_copy(me, buffer, result);
}

static struct tensor *
finish_wrapped(struct task *me, void *context, void *object)
{
    struct wrapper *wrapper = context;
    struct wrapped *wrapped = object;
    void           *started = wrapped->started;
    wrapped->started = NULL;
    struct tensor *result = wrapper->inner.finish(me, wrapper->inner.context, started);
    if (result != NULL && result != wrapped->buffer && !take_result(me, wrapped->buffer, result))
        result = NULL;
    if (result != NULL)
        result = tensor_born(me, tensor_ref(wrapped->buffer));
    forget_wrapped(me, wrapper, wrapped);
    return result;
}

static struct comm_hook
wrap(struct task *me, const struct comm_hook *inner, enum dtype dtype, const char *name)
{
    struct wrapper *wrapper = host_take(me, sizeof *wrapper);
    if (wrapper == NULL) {
        inner->drop(me, inner->context);
        return (struct comm_hook){ 0 };
    }
    *wrapper = (struct wrapper){ .inner = *inner, .dtype = dtype };
    return (struct comm_hook){ .start = start_wrapped, .finish = finish_wrapped, .forget = forget_wrapped,
                               .drop = drop_wrapper, .context = wrapper, .name = name };
}

struct comm_hook
fp16_compress_wrapper(struct task *me, const struct comm_hook *inner)
{
    return wrap(me, inner, DTYPE_F16, "fp16_compress_wrapper.<locals>.fp16_compress_wrapper_hook");
}

struct comm_hook
bf16_compress_wrapper(struct task *me, const struct comm_hook *inner)
{
    return wrap(me, inner, DTYPE_BF16, "bf16_compress_wrapper.<locals>.bf16_compress_wrapper_hook");
}

/* ---- nothing ---- */

struct noop { struct tensor *buffer; };

static void
forget_noop(struct task *me, void *context, void *object)
{
    struct noop *noop = object;
    (void)context;
    tensor_drop(me, &noop->buffer);
    host_return(me, noop, sizeof *noop);
}

static void *
start_noop(struct task *me, void *context, const struct grad_bucket *bucket)
{
    struct noop *noop = host_take(me, sizeof *noop);
    (void)context;
    if (noop != NULL)
        tensor_keep(me, &noop->buffer, bucket->buffer);
    return noop;
}

static struct tensor *
finish_noop(struct task *me, void *context, void *object)
{
    struct noop   *noop   = object;
    struct tensor *result = tensor_born(me, tensor_ref(noop->buffer));
    forget_noop(me, context, noop);
    return result;
}

struct comm_hook
noop_hook(void)
{
    return (struct comm_hook){ .start = start_noop, .finish = finish_noop, .forget = forget_noop,
                               .drop = hook_keeps_nothing, .name = "noop_hook" };
}
