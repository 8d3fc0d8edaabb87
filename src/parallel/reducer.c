/* What the reducer does in every iteration, as reducer.cpp in torch/csrc/distributed/c10d. Read it from the top: before
 * the forward, before the backward, while gradients come, after the backward. The order of use is in reducer.h, the
 * fields and the other pages are in internal.h. */
#include <string.h>
#include "autograd/engine.h"
#include "c10d/future.h"
#include "c10d/group.h"
#include "device/cells.h"
#include "nn/module.h"
#include "parallel/check_ranks.h"
#include "parallel/internal.h"
#include "parallel/join.h"
#include "sched/account.h"
#include "sched/stage.h"
#include "tensor/op.h"

/* ---- before the forward ---- */

int64_t
reducer_iterations(const struct reducer *reducer)
{
    return reducer->forwards;
}

bool
reducer_collects_times(const struct reducer *reducer)
{
    return logger_samples(reducer->forwards, reducer->sample_rate);
}

void
reducer_moment(struct task *me, struct reducer *reducer, enum reducer_moment moment)
{
    if (reducer_collects_times(reducer))
        reducer->moments[moment] = (int64_t)sched_now(me);
}

int64_t
reducer_prepare_for_forward(struct task *me, struct reducer *reducer)
{
    int64_t number = reducer->forwards++;
    reducer_moment(me, reducer, FORWARD_START);
    return number;
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
    return !dynamic_find_unused(reducer) && !reducer->has_rebuilt && reducer->rebuilt_count > 0;
}

/* Once, before the second synchronising forward (a static graph's third: its first backward is only watched): from here
 * on the buckets follow the order in which gradients really come, by default the first ones in a small bucket, so that
 * the wire gets work early. Rank 0's order holds for all. */
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
    if (rebuilt) /* else the old buckets stay, and the next forward tries again */
        reducer->rebuilt_count = 0;
    return rebuilt;
}

/* ---- before the backward ---- */

/* Every bucket waits for all its gradients again. Unused parameters are only noted: they are marked ready when the
 * first gradient comes, because these outputs may never be used. A static graph knows them from its first backward. */
bool
reducer_prepare_for_backward(struct task *me, struct reducer *reducer,
                             struct tensor *const *outputs, int count)
{
    STAGE(me, ddp_prepare_for_backward, reducer->count);
    reducer_moment(me, reducer, BACKWARD_COMPUTE_START);
    size_t params = (size_t)reducer->params_count;
    memset(reducer->ready, 0, params * sizeof *reducer->ready);
    for (int i = 0; i < reducer->count; i++)
        reducer->buckets[i].pending = reducer->buckets[i].count;
    if (reducer->static_graph)
        memcpy(reducer->times_left, reducer->times_used, params * sizeof(int));
    reducer->next              = 0;
    reducer->buckets_reduced   = 0;
    reducer->ready_count       = 0;
    reducer->has_marked_unused = false;
    reducer->expect_hooks      = true;
    return !dynamic_find_unused(reducer) ||
           reducer_search_unused(me, reducer, outputs, count);
}

/* ---- during the backward: the engine comes in by reducer_run_hook, at the end of this part ---- */

static int64_t
name_id(struct task *me, const struct reducer *reducer, int index)
{
    return stage_text_id(me, reducer->names[index]);
}

/* The ranks, or under a Join that asks for it those that still have inputs. */
static bool
reducer_set_divide_factor(struct task *me, struct reducer *reducer)
{
    int live = 0;
    if (reducer->divisor != 0)
        return true;
    if (reducer->live != NULL && !live_ranks_count(me, reducer->live, &live))
        return false;
    reducer->divisor = live > 0 ? live : reducer->world;
    return true;
}

/* Each rank scales before the sum, which then is the mean: a gradient is divided on its way into the bucket. A comm
 * hook gets it as it is. */
static bool
reducer_copy_to_bucket(struct task *me, struct reducer *reducer, int index)
{
    bool    in_slot = reducer_in_slot(reducer, index);
    int64_t bytes   = in_slot ? 0 : tensor_bytes(reducer->params[index]);
    STAGE(me, ddp_copy_to_bucket, index, reducer->bucket_of[index], bytes);
    bool filled = reducer_set_divide_factor(me, reducer) &&
                  reducer_fill_slot(me, reducer, index);
    reducer_announce_slot(me, reducer, index);
    return filled;
}

/* What becomes of the bucket is the hook's business: it averages (or not), compresses, goes its own
 * way. What it answers at once is waited for at the end of the backward. */
static bool
reducer_run_comm_hook(struct task *me, struct reducer *reducer, struct bucket *bucket)
{
    int index = reducer->next;
    STAGE(me, ddp_comm_hook, index, bucket->bytes);
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
bool
reducer_all_reduce_bucket(struct task *me, struct reducer *reducer, struct bucket *bucket)
{
    int number = (int)(bucket - reducer->buckets);
    tensor_announce_numbered(me, bucket->gradients, "bucket", number);
    STAGE(me, ddp_all_reduce_bucket, number, bucket->bytes);
    if (reducer->comm_hook.start != NULL)
        return reducer_run_comm_hook(me, reducer, bucket);
    bucket->work = group_all_reduce(me, reducer->group, bucket->gradients, NULL);
    return bucket->work != NULL;
}

/* Nobody needs a bucket that no rank uses: who asks for that promises that all ranks leave out the same ones. */
bool
reducer_skips_bucket(const struct reducer *reducer, const struct bucket *bucket)
{
    bool unused = reducer->skip_unused;
    for (int i = 0; i < bucket->count && unused; i++)
        unused = reducer->unused[bucket->indices[i]];
    return unused;
}

/* Bucket `index` has its last gradient. Start every bucket whose turn has come.
 *
 * Buckets fill in any order, but are started in index order, because ranks pair
 * their collectives up by the order of the calls and by nothing else. */
bool
reducer_mark_bucket_ready(struct task *me, struct reducer *reducer, int index)
{
    STAGE(me, ddp_mark_bucket_ready, index, reducer->next);
    if (!reducer_fill_bucket(me, reducer, &reducer->buckets[index]))
        return false;
    if (index > reducer->next)
        return true;
    for (; reducer->next < reducer->count; reducer->next++) {
        struct bucket *bucket = &reducer->buckets[reducer->next];
        if (bucket->pending > 0)
            break;
        if (reducer->next == 0)
            reducer_moment(me, reducer, BACKWARD_COMM_START);
        if (reducer_skips_bucket(reducer, bucket))
            continue;
        if (!reducer_all_reduce_bucket(me, reducer, bucket))
            return false;
        reducer->buckets_reduced++;
    }
    return true;
}

/* What a static graph does not use came in no order: it goes to the end of that of the rebuild. */
static void
reducer_order_unused(struct reducer *reducer)
{
    for (int i = 0; i < reducer->params_count; i++)
        if (reducer->unused[i] && reducer->rebuilt_count < reducer->params_count)
            reducer->rebuilt_order[reducer->rebuilt_count++] = i;
}

static bool
finalize_callback(struct task *me, void *context)
{
    struct reducer *reducer = context;
    reducer_moment(me, reducer, BACKWARD_COMPUTE_END);
    if (static_later(reducer) && !reducer->has_rebuilt)
        reducer_order_unused(reducer);
    return reducer->manual || reducer_finalize_backward(me, reducer);
}

static void
drop_owner(struct task *me, void *owner)
{
    module_unref(me, owner);
}

bool
reducer_hold(struct task *me, struct reducer *reducer)
{
    return reducer->owner == NULL || autograd_drop_after(me, drop_owner, module_ref(reducer->owner));
}

/* All buckets are on their way: the ranks tell each other what they used, and the end of the backward will wait. */
static bool
reducer_all_launched(struct task *me, struct reducer *reducer)
{
    if (dynamic_find_unused(reducer) && !reducer_launch_used_map(me, reducer))
        return false;
    return reducer_hold(me, reducer) && autograd_queue_callback(me, finalize_callback, reducer);
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
    int unused = 0;
    for (int i = 0; i < reducer->params_count; i++)
        unused += reducer->unused[i];
    STAGE(me, ddp_mark_unused, unused);
    reducer->has_marked_unused = true;
    for (int i = 0; i < reducer->params_count; i++)
        if (reducer->unused[i] && !reducer_mark_variable_ready(me, reducer, i))
            return false;
    return true;
}

static bool
reducer_has_unused(const struct reducer *reducer)
{
    return memchr(reducer->unused, true, (size_t)reducer->params_count) != NULL;
}

/* In a static graph a parameter that was used several times in the first backward is ready when its hook has run as
 * often again. Does this call make it ready? */
static bool
reducer_last_use(struct task *me, struct reducer *reducer, int index, bool *last)
{
    *last = true;
    if (!static_later(reducer))
        return true;
    if (reducer->times_left[index] == 0)
        return reducer_graph_changed(me, reducer, index);
    *last = --reducer->times_left[index] == 0;
    return true;
}

static bool
reducer_grad_came(struct task *me, struct reducer *reducer, int index)
{
    bool last;
    if (reducer->ready_count < reducer->params_count)
        reducer->ready_order[reducer->ready_count++] = index;
    if (!reducer->has_marked_unused && reducer_has_unused(reducer) && !reducer_mark_unused(me, reducer))
        return false;
    reducer->has_marked_unused = true;
    if (!reducer_last_use(me, reducer, index, &last))
        return false;
    if (!last)
        return true;
    bool ordered = !dynamic_find_unused(reducer) && !reducer->has_rebuilt;
    if (ordered && reducer->rebuilt_count < reducer->params_count)
        reducer->rebuilt_order[reducer->rebuilt_count++] = index;
    return reducer_mark_variable_ready(me, reducer, index);
}

/* Parameter `index` has just accumulated its gradient. Without a forward that prepared for this backward (no_sync, or a
 * second backward) nothing is reduced: the gradient stays this rank's own, but counts as used when the next reduction
 * comes (in PyTorch 1.13 it did not, and a branch used only there kept a gradient of each rank's own). */
static bool
reducer_autograd_hook(struct task *me, struct reducer *reducer, int index)
{
    tensor_announce_named(me, reducer->params[index]->grad, "gradient",
                          reducer->params[index]->name);
    STAGE(me, ddp_autograd_hook, index, name_id(me, reducer, index));
    if (!reducer->hook_called)
        reducer->backwards++;
    reducer->hook_called = true;
    bool watched = dynamic_find_unused(reducer) || static_first(reducer);
    if (watched && reducer->params[index]->grad != NULL)
        reducer->used[index] = true;
    if (static_first(reducer)) {
        reducer->times_used[index]++;
        return true;
    }
    return !reducer->expect_hooks || reducer_grad_came(me, reducer, index);
}

/* Parameters on several devices have their gradients accumulated by several workers: one at a time, then. */
bool
reducer_run_hook(struct task *me, void *context, struct node *node, struct tensor **grads, int count)
{
    (void)node, (void)grads, (void)count;
    struct reducer_hook *hook    = context;
    struct reducer      *reducer = hook->reducer;
    struct module       *owner   = module_ref(reducer->owner);
    bool                 locked  = reducer->has_lock && lock_acquire(me, &reducer->lock);
    bool                 done    = locked == reducer->has_lock && reducer_autograd_hook(me, reducer, hook->index);
    if (locked)
        lock_release(me, &reducer->lock);
    if (owner != NULL)
        module_unref(me, owner);
    return done;
}

/* ---- a static graph's first iteration ---- */

/* The end of the first backward, in which hooks only counted: now it is known what is used, and how often. Everything
 * travels at once, in the order of the parameters. The next iterations need no search and no used map.
 * PyTorch does not count the buckets on here: every call of a comm hook says that it is bucket 0. */
bool
reducer_delay_all_reduce(struct task *me, struct reducer *reducer)
{
    STAGE(me, ddp_delay_all_reduce, reducer->params_count);
    reducer_moment(me, reducer, BACKWARD_COMPUTE_END);
    reducer_moment(me, reducer, BACKWARD_COMM_START);
    reducer->require_finalize = true;
    if (!reducer->expect_hooks)
        return reducer_not_watched(me, reducer);
    bool done = reducer_launch_used_map(me, reducer);
    for (int i = 0; i < reducer->params_count && done; i++) {
        reducer->unused[i] = reducer->times_used[i] == 0;
        reducer->ready[i]  = true;
        done               = reducer_copy_to_bucket(me, reducer, i);
    }
    for (int i = 0; i < reducer->count && done; i++)
        done = reducer_fill_bucket(me, reducer, &reducer->buckets[i]) &&
               reducer_all_reduce_bucket(me, reducer, &reducer->buckets[i]);
    return done && (reducer->manual || reducer_finalize_backward(me, reducer));
}

/* ---- after the backward ---- */

/* What an unfinished or a failed iteration leaves: nobody waits for it any more, and the next one begins anew. */
void
reducer_abandon(struct task *me, struct reducer *reducer)
{
    for (int i = 0; i < reducer->count; i++)
        bucket_forget(me, reducer, &reducer->buckets[i]);
    for (size_t i = 0; i < reducer->future_count; i++)
        future_unref(me, reducer->futures[i]);
    work_free(me, reducer->used_work);
    reducer->used_work        = NULL;
    reducer->future_count     = 0;
    reducer->divisor          = 0;
    reducer->expect_hooks     = false;
    reducer->hook_called      = false;
    reducer->require_finalize = false;
}

bool
reducer_install_future(struct task *me, struct reducer *reducer, struct future *future)
{
    if (!host_room(me, &reducer->futures, &reducer->future_room, reducer->future_count + 1,
                   sizeof(struct future *))) {
        future_unref(me, future);
        return memory_failed(me, sizeof(struct future *), "the host");
    }
    reducer->futures[reducer->future_count++] = future;
    return true;
}

bool
reducer_finish_futures(struct task *me, const struct reducer *reducer)
{
    for (size_t i = 0; i < reducer->future_count; i++)
        if (!future_wait(me, reducer->futures[i]))
            return false;
    return true;
}

static bool
reducer_finish_all(struct task *me, struct reducer *reducer)
{
    for (int i = 0; i < reducer->count; i++)
        if (!reducer_finish_bucket(me, reducer, &reducer->buckets[i]))
            return false;
    return reducer_finish_futures(me, reducer) && reducer_finish_used_map(me, reducer);
}

/* The whole backward is done: wait for the buckets in their order and copy each back. What no rank used keeps the
 * gradient that it had. The optimizer runs after this, on equal gradients. */
bool
reducer_finalize_backward(struct task *me, struct reducer *reducer)
{
    STAGE(me, ddp_finalize_backward, reducer->count);
    bool done = reducer_finish_all(me, reducer);
    reducer_abandon(me, reducer);
    reducer_moment(me, reducer, BACKWARD_COMM_END);
    return done;
}

/* ---- by hand ---- */

bool
reducer_set_manual_finalization(struct task *me, struct reducer *reducer, bool required)
{
    if (reducer->expect_hooks)
        return failed(me, E_RUNTIME, "require_manual_backward_finalization cannot be set after a forward, while its "
                                     "backward is expected or in progress: set it before the forward or after "
                                     "finalize_backward()");
    reducer->manual = required;
    return true;
}

bool
reducer_should_finalize_after_backward(const struct reducer *reducer)
{
    return reducer->manual && !dynamic_find_unused(reducer) && !reducer->has_rebuilt;
}

bool
reducer_finalize_manually(struct task *me, struct reducer *reducer)
{
    if (!reducer->manual)
        return failed(me, E_RUNTIME, "finalize_backward() called but manual backward finalization is not required. Set "
                                     "require_manual_backward_finalization to true first.");
    if (!reducer->require_finalize)
        return failed(me, E_RUNTIME, "finalize_backward() called but no gradient reduction requires finalization: the "
                                     "forward was in no_sync(), or this backward was finalized already");
    bool first = static_first(reducer);
    if (!first && reducer->next < reducer->count)
        return failed(me, E_RUNTIME, "finalize_backward() called before all DDP buckets were ready: bucket %d of %d "
                                     "still waits for gradients. Call it when all parameters have theirs.",
                      reducer->next, reducer->count);
    return reducer_finalize_backward(me, reducer);
}

bool
reducer_check_finalized(struct task *me, const struct reducer *reducer)
{
    return reducer->require_finalize ? reducer_unfinished(me, reducer) : !task_failed(me);
}

/* ---- another process group ---- */

/* What a backward that failed has started still writes into its bucket, or into the used map. */
static bool
reducer_replace_what_is_under_way(struct task *me, struct reducer *reducer)
{
    for (int i = 0; i < reducer->count; i++) {
        struct bucket *bucket = &reducer->buckets[i];
        if ((bucket->work == NULL && bucket->hooked == NULL) || bucket->sparse || reducer->lazy)
            continue;
        bucket_release(me, bucket);
        if (!bucket_allocate(me, reducer, bucket))
            return false;
    }
    const int64_t count = reducer->params_count;
    if (reducer->used_work != NULL)
        tensor_keep(me, &reducer->used_map, tensor_zeros(me, DTYPE_I32, DEVICE_CPU, 1, &count));
    return reducer->used_work == NULL || reducer->used_map != NULL;
}

bool
reducer_reset_state(struct task *me, struct reducer *reducer)
{
    bool done = reducer_replace_what_is_under_way(me, reducer);
    reducer_abandon(me, reducer);
    reducer->has_rebuilt   = false;
    reducer->rebuilt_count = 0;
    reducer->used_reduced  = false;
    memset(reducer->used, 0, sizeof *reducer->used * (size_t)reducer->params_count);
    return done;
}

void
reducer_update_process_group(struct reducer *reducer, struct process_group *group)
{
    reducer->group = group;
    reducer->world = process_group_size(group);
}

struct process_group *
reducer_group(const struct reducer *reducer)
{
    return reducer->group;
}
