/* The reducer of a rank whose inputs have run out (join.h): what a backward of the others sends is sent here, too, with
 * zeros in the place of gradients. The buckets are the same, in the same order; only their memory is another one, since
 * this rank's gradients may lie in its own. */
#include <string.h>
#include "autograd/engine.h"
#include "c10d/group.h"
#include "parallel/check_ranks.h"
#include "parallel/internal.h"
#include "sched/account.h"
#include "tensor/op.h"

/* An iteration's collectives are known from the parameters, but for two options, where only an iteration of one's own
 * tells them. */
bool
reducer_can_shadow(struct task *me, const struct reducer *reducer)
{
    const char *option = NULL;
    if (reducer->static_graph && reducer->backwards == 0)
        option = "static_graph";
    else if (reducer->skip_unused && dynamic_find_unused(reducer) && !reducer->searched)
        option = "skip_all_reduce_unused_params";
    if (option == NULL)
        return !task_failed(me);
    return failed(me, E_RUNTIME, "Rank %d has run out of inputs before its first backward, but with %s=true only that "
                                 "shows what the other ranks send. Give each rank at least one input, or leave %s out.",
                  process_group_rank(reducer->group), option, option);
}

void
reducer_divide_by_live_ranks(struct reducer *reducer, struct live_ranks *live)
{
    reducer->live = live;
}

int
reducer_device(const struct reducer *reducer)
{
    return tensor_device(reducer->params[0]);
}

static struct tensor *
zero_rows(struct task *me, const struct tensor *param)
{
    int64_t sizes[TENSOR_DIMS] = { 0 };
    for (int d = 1; d < param->dims; d++)
        sizes[d] = param->size[d];
    struct tensor *indices = tensor_zeros(me, DTYPE_I64, tensor_device(param), 1, sizes);
    struct tensor *values  = tensor_zeros(me, param->dtype, tensor_device(param), param->dims, sizes);
    return indices != NULL && values != NULL ? tensor_sparse(me, param->size[0], indices, values) : NULL;
}

static struct tensor *
bucket_zeros(struct task *me, const struct reducer *reducer, const struct bucket *bucket)
{
    const struct flat_members members = { reducer->params, bucket->indices, bucket->count };
    return bucket->sparse ? zero_rows(me, reducer->params[bucket->indices[0]])
                          : tensor_filled(me, flat_empty(me, &members), 0);
}

/* The bucket's own memory is out of the way until nothing is under way any more: its caller keeps it. */
static bool
shadow_bucket(struct task *me, struct reducer *reducer, struct bucket *bucket)
{
    struct tensor *zeros = bucket_zeros(me, reducer, bucket);
    if (zeros == NULL)
        return false;
    tensor_keep(me, &bucket->gradients, zeros);
    return reducer_all_reduce_bucket(me, reducer, bucket);
}

static bool
await_shadow(struct task *me, struct reducer *reducer, struct bucket *bucket)
{
    struct work *work = bucket->work;
    void      *hooked = bucket->hooked;
    bucket->work   = NULL;
    bucket->hooked = NULL;
    if (hooked != NULL)
        return reducer->comm_hook.finish(me, reducer->comm_hook.context, hooked) != NULL;
    return work == NULL || work_complete(me, work);
}

static void
forget_shadow(struct task *me, struct reducer *reducer, struct bucket *bucket)
{
    work_free(me, bucket->work);
    if (bucket->hooked != NULL)
        reducer->comm_hook.forget(me, reducer->comm_hook.context, bucket->hooked);
    bucket->work   = NULL;
    bucket->hooked = NULL;
}

static bool
shadow_buckets(struct task *me, struct reducer *reducer)
{
    struct tensor **own = scratch_new(me, (size_t)reducer->count, sizeof *own);
    bool done = own != NULL;
    int  sent = 0, next = reducer->next;
    for (reducer->next = 0; done && reducer->next < reducer->count; reducer->next++, sent++) {
        struct bucket *bucket = &reducer->buckets[reducer->next];
        own[sent] = tensor_ref(bucket->gradients);
        done = reducer_skips_bucket(reducer, bucket) || shadow_bucket(me, reducer, bucket);
    }
    for (int i = 0; i < sent; i++) {
        struct bucket *bucket = &reducer->buckets[i];
        done = done && await_shadow(me, reducer, bucket);
        forget_shadow(me, reducer, bucket);
        tensor_drop(me, &bucket->gradients);
        bucket->gradients = own[i];
    }
    reducer->next = next;
    return done;
}

/* As in PyTorch this rank says again what its last map said, so that what nobody uses any more gets zeros for a
 * gradient, not none. (2.15 sends the sum itself again: two ranks that do so double it each time, until it overflows.) What this
 * rank has used in a no_sync that no reduction followed is noted for its next one. */
static bool
shadow_used_map(struct task *me, struct reducer *reducer)
{
    size_t bytes  = (size_t)reducer->params_count * sizeof *reducer->used;
    bool  *before = scratch_new(me, (size_t)reducer->params_count, sizeof *before);
    if (before == NULL)
        return false;
    memcpy(before, reducer->used, bytes);
    for (int i = 0; i < reducer->params_count; i++)
        reducer->used[i] = reducer->used_numbers[i] != 0;
    bool done = reducer_launch_used_map(me, reducer) && reducer_finish_used_map(me, reducer);
    memcpy(reducer->used, before, bytes);
    return done;
}

/* The others note in which order their gradients come and will rebuild the buckets by it: with this rank, and if it is
 * rank 0, in the order of the parameters. */
static void
push_all_rebuilt(struct reducer *reducer)
{
    if (dynamic_find_unused(reducer) || reducer->has_rebuilt || reducer->rebuilt_count > 0)
        return;
    while (reducer->rebuilt_count < reducer->params_count) {
        reducer->rebuilt_order[reducer->rebuilt_count] = reducer->rebuilt_count;
        reducer->rebuilt_count++;
    }
}

bool
reducer_shadow_backward(struct task *me, struct reducer *reducer)
{
    size_t mark     = scope_mark(me);
    bool   recorded = grad_enabled(me);     /* hooks find what they find in a backward */
    grad_set_enabled(me, false);
    bool done = shadow_buckets(me, reducer) &&
                (!dynamic_find_unused(reducer) || shadow_used_map(me, reducer)) &&
                reducer_finish_futures(me, reducer) &&
                replica_shadowed(me, reducer->replica, dynamic_find_unused(reducer) ? reducer->used_numbers : NULL);
    grad_set_enabled(me, recorded);
    reducer_abandon(me, reducer);
    scope_release(me, mark);
    if (done)
        push_all_rebuilt(reducer);
    return done;
}
