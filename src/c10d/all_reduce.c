/* All-reduce: which algorithm, and what lies around each of them. This is their table; each is a page of its own.
 * Order of use: algorithm_chosen when the call is made, local_all_reduce on the comm task.
 * PyTorch: gloo's AllreduceOptions::Algorithm, NCCL_ALGO and NCCL's tuning tables. */
#include <stdio.h>
#include <string.h>
#include "base/vec.h"
#include "c10d/local.h"
#include "c10d/nccl_internal.h"
#include "c10d/remote.h"
#include "sched/stage.h"
#include "tensor/cpu/elements.h"

static const struct algorithm *const table[] = {
    &algorithm_naive, &algorithm_ring, &algorithm_tree, &algorithm_double_tree, &algorithm_halving_doubling,
    &algorithm_hierarchical, &algorithm_direct,
};

const struct algorithm *
algorithm_at(size_t index)
{
    return index < countof(table) ? table[index] : NULL;
}

/* ---- which one ---- */

/* The one with the least price, the first of equals. NULL: failed. */
static const struct algorithm *
algorithm_priced(struct task *me, const struct collective *call)
{
    const struct algorithm *best  = NULL;
    uint64_t                least = UINT64_MAX, price;
    for (size_t i = 0; i < countof(table); i++) {
        if (!table[i]->has_price)
            continue;
        if (!rehearsal_price(me, call, table[i], &price))
            return NULL;
        if (price < least)
            best = table[i];
        least = price < least ? price : least;
    }
    return best;
}

/* `free` has no prices, and there shared memory is the fastest. All ranks find the same, so one finds it for all. */
static const struct algorithm *
algorithm_cheapest(struct task *me, const struct collective *call)
{
    struct channel *channel = call->channel;
    uint64_t        key     = (uint64_t)call->bytes << 4 | (uint64_t)(call->bytes / call->elements), known;
    if (!sched_is_stepped(me->sched))
        return &algorithm_direct;
    monitor_enter(me, &channel->monitor);
    bool is_known = map_get(&channel->cheapest, key, &known);
    monitor_leave(me, &channel->monitor);
    if (is_known)
        return (const struct algorithm *)(uintptr_t)known;
    const struct algorithm *best = algorithm_priced(me, call);
    monitor_enter(me, &channel->monitor);
    if (best != NULL)
        (void)map_set(&channel->cheapest, key, (uintptr_t)best);   /* without memory it is found again */
    monitor_leave(me, &channel->monitor);
    return best;
}

static const struct algorithm *
algorithm_unknown(struct task *me, const char *name)
{
    char   known[160];
    size_t used = 0;
    for (size_t i = 0; i < countof(table); i++)
        used += (size_t)snprintf(known + used, sizeof known - used, "%s, ", table[i]->name);
    return failed_null(me, E_VALUE, "unknown all-reduce algorithm '%.40s': there are %sand auto; "
                                    "dist.register_algorithm, called on each rank, adds others", name, known);
}

bool
algorithm_is_built_in(const char *name)
{
    bool known = strcmp(name, "auto") == 0;
    for (size_t i = 0; i < countof(table) && !known; i++)
        known = strcmp(table[i]->name, name) == 0;
    return known;
}

static bool
by_messages(const struct collective *call)
{
    const struct channel *channel = call->channel;
    return channel->local->by_messages;
}

const struct algorithm *
algorithm_chosen(struct task *me, const struct collective *call)
{
    const char *name     = call->options.algorithm;
    bool        forwards = call->options.ring_forwards;
    if (name == NULL && remote_takes(call))
        return &algorithm_transport;
    if (name == NULL)
        return sched_is_stepped(me->sched) || forwards || by_messages(call) ? &algorithm_ring : &algorithm_direct;
    if (forwards && strcmp(name, "ring") != 0)
        return failed_null(me, E_VALUE, "direction = \"forward\" is the ring's, but the algorithm is '%.40s'", name);
    if (strcmp(name, "auto") == 0)
        return algorithm_cheapest(me, call);
    for (size_t i = 0; i < countof(table); i++)
        if (strcmp(table[i]->name, name) == 0)
            return table[i];
    return algorithm_unknown(me, name);
}

/* ---- around it ---- */

/* The algorithm's name and how it cuts the tensor: in `parts` chunks of `each` elements; 0: equal ones, -1: halves of
 * halves, -W: equal ones, each cut again in W. A script's own cuts as it likes: 0 parts. */
void
algorithm_announce(struct task *me, const char *name, int64_t elements, const struct cut *cut)
{
    int64_t each = cut->within == 0 ? -1 : cut->within > 1 ? -cut->within : cut->each;
    if (!sched_is_stepped(me->sched) || !stage_enabled(me, KIND_c10d_algorithm))
        return;
    int64_t name_id = stage_name_id(me, name);
    POINT(me, c10d_algorithm, name_id, cut->parts, each, elements);
}

static bool
all_reduce_run(struct task *me, const struct collective *call)
{
    const struct custom_algorithm *custom = call->options.custom;
    if (custom != NULL) { /* who wrote it adds up: multiplying before and dividing after are not his */
        algorithm_announce(me, custom->name, call->elements, &(struct cut){ .within = 1 });
        bool done = custom->run(me, custom->context, call->tensor, call->options.op);
        tensor_tell(me, call->tensor);
        return done;
    }
    if (call->ranks == 1 || call->elements == 0)
        return true;
    const struct algorithm *algorithm = algorithm_chosen(me, call);
    if (algorithm == NULL)
        return false;
    struct cut cut = algorithm->cut != NULL ? algorithm->cut(call) : (struct cut){ 1, 1, call->elements };
    algorithm_announce(me, algorithm->name, call->elements, &cut);
    return algorithm->run(me, call);
}

/* PREMUL_SUM multiplies before that, AVG divides after it; both round to the dtype. */
static bool
all_reduce_by_host(struct task *me, const struct collective *call)
{
    struct tensor    *tensor = call->tensor;
    struct collective sum    = *call;
    enum reduce_op    op     = call->options.op;
    int               dtype  = (int)tensor->dtype;
    size_t            bytes  = (size_t)call->bytes;
    if (op == REDUCE_AVG || op == REDUCE_PREMUL_SUM)
        sum.options.op = REDUCE_SUM;
    if (op == REDUCE_PREMUL_SUM)
        reduce_multiply(dtype, tensor_elements(tensor), bytes, call->options.factor);

    if (!all_reduce_run(me, &sum))
        return false;
    if (op == REDUCE_AVG && call->ranks > 1)
        reduce_average(dtype, tensor_elements(tensor), bytes, call->ranks);
    tensor_bump(tensor);
    if (call->ranks > 1 && (op != sum.options.op || !hop_tells(call)))
        tensor_tell(me, tensor);
    return true;
}

/* It goes by the GPU's kernel, if all ranks' tensors lie on it: equal on all ranks. */
bool
local_stays(struct task *me, const struct collective *call)
{
    const struct channel *channel = call->channel;
    return channel->local->one_gpu && channel->remote == NULL && call->operation == OPERATION_ALL_REDUCE &&
           call->options.custom == NULL && call->elements > 0 && call->ranks > 1 && call->ranks <= ALL_REDUCE_RANKS &&
           !channel->local->by_messages && algorithm_chosen(me, call) == &algorithm_direct;
}

/* All ranks end with the sum (mean, product, ...) of their tensors, the same bits everywhere. */
bool
local_all_reduce(struct task *me, const struct collective *call)
{
    STAGE(me, c10d_allreduce, call->sequence, call->bytes, call->elements, call->ranks);
    if (!tensor_touch(me, call->tensor, true, "all-reduce"))
        return false;
    if (nccl_takes(call))
        return nccl_run(me, call);
    if (local_stays(me, call))
        return fused_run(me, call, all_reduce_by_host);
    return all_reduce_by_host(me, call);
}
