/* The collectives of a group: checked here, on the rank that calls; numbered, compared and queued by work_issue; moved
 * by the back-end on the comm task. Order of use: group_NAME, then work_wait and work_free, or work_complete, which is
 * both. PyTorch: c10d::ProcessGroup, torch/distributed/distributed_c10d.py. */
#include <stdio.h>
#include "c10d/internal.h"
#include "device/cells.h"

static const struct collective_options plain;   /* a sum, from or to rank 0 */

/* ---- from a call to a work ---- */

/* The tensor whose device and dtype are those of all. */
static struct tensor *
first_tensor(const struct collective *call)
{
    if (call->tensor != NULL)
        return call->tensor;
    return call->inputs != NULL ? call->inputs[0] : NULL;
}

static void
count_elements(struct collective *call)
{
    bool all = call->operation == OPERATION_REDUCE_SCATTER || call->operation == OPERATION_ALL_TO_ALL;
    const struct tensor *tensor = tensor_is_sparse(call->tensor) ? call->tensor->values : call->tensor;
    call->bytes    = all ? 0 : tensor_bytes(tensor);
    call->elements = all ? 0 : tensor_count(tensor);
    for (int i = 0; all && i < call->ranks; i++) {
        call->bytes += tensor_bytes(call->inputs[i]);
        call->elements += tensor_count(call->inputs[i]);
    }
}

struct work *
group_issue(struct task *me, struct work *work)
{
    if (work == NULL)
        return NULL;
    struct tensor *tensor = first_tensor(&work->call);
    bool           ready  = !task_failed(me);
    if (ready && work->call.operation != OPERATION_BARRIER)
        count_elements(&work->call);
    ready = ready && work->group->world->backend->accepts(me, &work->call) &&
            (tensor == NULL || work_tensor_ready(me, tensor, &work->event, &work->on_device)) && work_issue(me, work);
    if (ready)
        return work;
    work_discard(me, work);
    return NULL;
}

struct work *
group_begin(struct task *me, struct process_group *group, enum operation operation,
            const struct collective_options *options)
{
    if (options == NULL)
        options = &plain;
    int size = group->communicator->size;
    if ((int)options->op < REDUCE_SUM || options->op > REDUCE_PREMUL_SUM)
        return failed_null(me, E_VALUE, "unknown reduce operation %d", (int)options->op);
    if (operation_has_root(operation) && (options->root < 0 || options->root >= size))
        return failed_null(me, E_RUNTIME, "%s: invalid root rank: %d; the group has %d ranks",
                           operation_name(operation), options->root, size);
    struct work *work = work_new(me, group, operation, NULL);
    if (work == NULL)
        return NULL;
    work->call.options = *options;
    if (options->algorithm != NULL) { /* a script's text, which a work may outlive */
        memcpy(work->algorithm, options->algorithm, strnlen(options->algorithm, sizeof work->algorithm - 1));
        work->call.options.algorithm = work->algorithm;
    }
    if (options->at_once || work_claims(me, work))
        return work;
    work_discard(me, work);
    return NULL;
}

/* ---- checks ---- */

static bool
op_fits(struct task *me, const struct work *work, const struct tensor *tensor)
{
    enum operation  operation = work->call.operation;
    enum reduce_op  op = work->call.options.op;
    const char     *type = dtype_name(tensor->dtype);
    bool fraction = dtype_is_float(tensor->dtype), bits = op == REDUCE_BAND || op == REDUCE_BOR || op == REDUCE_BXOR;
    if (!operation_reduces(operation))
        return true;
    if (op == REDUCE_AVG && !fraction)
        return failed(me, E_RUNTIME, "%s: AVG of %s tensors: a mean is no integer; take SUM, or tensors of fractions",
                      operation_name(operation), type);
    if (op == REDUCE_PREMUL_SUM && !fraction)
        return failed(me, E_RUNTIME, "%s: PREMUL_SUM of %s tensors: a factor needs fractions",
                      operation_name(operation), type);
    if (bits && fraction)
        return failed(me, E_RUNTIME, "%s: Cannot use ReduceOp.%s with non-integral dtype %s",
                      operation_name(operation), reduce_op_title(op), type);
    return true;
}

static bool
tensor_fits(struct task *me, const struct work *work, const struct tensor *tensor, const struct tensor *first)
{
    const char *name = operation_name(work->call.operation);
    if (tensor == NULL)
        return failed(me, E_TYPE, "%s needs a tensor", name);
    if (tensor_is_sparse(tensor))
        return sparse_refused(me, name, tensor);
    if (first != NULL && tensor->dtype != first->dtype)
        return failed(me, E_VALUE, "%s: Invalid usage of tensors with different dtypes: found %s and %s", name,
                      dtype_name(first->dtype), dtype_name(tensor->dtype));
    if (first != NULL && tensor_device(tensor) != tensor_device(first))
        return failed(me, E_DEVICE, "%s: its tensors must be on one device", name);
    return op_fits(me, work, tensor);
}

static bool
shape_differs(struct task *me, const struct work *work, int index, const struct tensor *is, const struct tensor *should)
{
    struct str text = { 0 };
    str_addf(&text, "%s: invalid tensor size at index %d: expected ", operation_name(work->call.operation), index);
    shape_print(should->dims, should->size, &text);
    str_add(&text, ", got ");
    shape_print(is->dims, is->size, &text);
    (void)failed(me, E_SHAPE, "%s", str_ok(&text) ? str_text(&text) : "invalid tensor size");
    str_free(&text);
    return false;
}

/* A list that has a tensor for each rank: this rank's must have the shape of `like`, the others' depends on theirs. As
 * in PyTorch the first one that differs is named. */
static bool
own_fits(struct task *me, const struct work *work, struct tensor *const *list, const struct tensor *like)
{
    int index = 0;
    if (tensor_same_shape(list[work->call.rank], like))
        return true;
    while (tensor_same_shape(list[index], like))
        index++;
    return shape_differs(me, work, index, list[index], like);
}

/* ---- tensors ---- */

/* Where gloo takes memory as it lies, what is dense but turned is right if it is so on all ranks. The output of
 * reduce_scatter is copied to in order before that. */
static void
look_at_strides(struct task *me, const struct work *work, const struct tensor *tensor, unsigned use)
{
    enum operation operation = work->call.operation;
    bool lies_apart = operation == OPERATION_ALL_REDUCE || operation == OPERATION_BROADCAST ||
                      operation == OPERATION_REDUCE || operation == OPERATION_SCATTER;
    bool half_apart = operation == OPERATION_REDUCE_SCATTER && !work->call.in_one;
    if ((lies_apart && !tensor_is_contiguous(tensor) && !tensor_has_no_gaps(tensor)) ||
        (half_apart && !tensor_is_contiguous(tensor)))
        warn_of_strides(me, work, tensor, use);
}

bool
group_take(struct task *me, struct work *work, struct tensor *tensor, unsigned use)
{
    if (work == NULL || task_failed(me) || !tensor_fits(me, work, tensor, NULL))
        return false;
    look_at_strides(me, work, tensor, use);
    work->call.tensor = work_take(me, work, tensor, use);
    return work->call.tensor != NULL;
}

/* Outputs that share elements are pasted in the order of the ranks, however their messages come. */
bool
group_take_list(struct task *me, struct work *work, struct tensor ***place, const struct taken_list *list)
{
    int      ranks = work->call.ranks;
    unsigned use   = list->use;
    if ((use & USE_OUTCOME) && tensors_share(me, list->tensors, ranks))
        use |= USE_APART;
    *place = host_take(me, (size_t)ranks * sizeof **place);
    for (int i = 0; *place != NULL && i < ranks; i++) {
        struct tensor *tensor = list->tensors[i];
        if (!tensor_fits(me, work, tensor, list->first != NULL ? list->first : list->tensors[0]))
            return false;
        if (list->like != NULL && !tensor_same_shape(tensor, list->like))
            return shape_differs(me, work, i, tensor, list->like);
        if (work->call.operation == OPERATION_SCATTER && !tensor_same_strides(tensor, list->like))
            warn_of_strides(me, work, tensor, USE_INPUT);
        if (((*place)[i] = work_take(me, work, tensor, use)) == NULL)
            return false;
    }
    return *place != NULL;
}

bool
group_only_root(struct task *me, const struct work *work, const void *list, const char *name)
{
    bool root = work->call.rank == work->call.options.root;
    if (root == (list != NULL))
        return true;
    return failed(me, E_VALUE, root ? "%s: `%s` must be specified on the root rank"
                                    : "%s: `%s` must NOT be specified on ranks that are not the root",
                  operation_name(work->call.operation), name);
}

struct work *
group_issue_if(struct task *me, struct work *work, bool taken)
{
    if (taken)
        return group_issue(me, work);
    if (work != NULL)
        work_discard(me, work);
    return NULL;
}

/* ---- the collectives ---- */

struct work *
group_all_reduce(struct task *me, struct process_group *group, struct tensor *tensor,
                 const struct collective_options *options)
{
    struct work *work = group_begin(me, group, OPERATION_ALL_REDUCE, options);
    if (work == NULL || !tensor_is_sparse(tensor))
        return group_issue_if(me, work, group_take(me, work, tensor, USE_INPUT | USE_OUTCOME));
    bool sum = work->call.options.op == REDUCE_SUM ||
               failed(me, E_RUNTIME, "unsupported reduction operation (allreduce of sparse tensors only works with "
                                     "ReduceOp.SUM)");
    sum = sum && work_claim(me, work, tensor, true);
    if (sum)
        work->call.tensor = tensor_ref(tensor);
    return group_issue_if(me, work, sum);
}

struct work *
group_broadcast(struct task *me, struct process_group *group, struct tensor *tensor, int root)
{
    struct work *work = group_begin(me, group, OPERATION_BROADCAST, &(struct collective_options){ .root = root });
    unsigned     use  = group->rank == root ? USE_INPUT : USE_OUTCOME;
    return group_issue_if(me, work, group_take(me, work, tensor, use));
}

struct work *
group_reduce(struct task *me, struct process_group *group, struct tensor *tensor,
             const struct collective_options *options)
{
    struct work *work = group_begin(me, group, OPERATION_REDUCE, options);
    unsigned     use  = work != NULL && group->rank == work->call.options.root ? USE_INPUT | USE_OUTCOME : USE_INPUT;
    return group_issue_if(me, work, group_take(me, work, tensor, use));
}

struct work *
group_all_gather(struct task *me, struct process_group *group, struct tensor *const *outputs, struct tensor *input)
{
    struct work      *work = group_begin(me, group, OPERATION_ALL_GATHER, NULL);
    struct taken_list list = { .tensors = outputs, .first = input, .use = USE_OUTCOME | USE_COPY_ };
    bool taken = group_take(me, work, input, USE_INPUT) && group_take_list(me, work, &work->call.outputs, &list);
    return group_issue_if(me, work, taken && own_fits(me, work, outputs, input));
}

struct work *
group_gather(struct task *me, struct process_group *group, struct tensor *const *outputs, struct tensor *input,
             int root)
{
    struct work      *work = group_begin(me, group, OPERATION_GATHER, &(struct collective_options){ .root = root });
    struct taken_list list = { .tensors = outputs, .first = input, .like = input, .use = USE_OUTCOME | USE_COPY_ };
    bool taken = work != NULL && group_only_root(me, work, outputs, "gather_list") &&
                 group_take(me, work, input, USE_INPUT) &&
                 (outputs == NULL || group_take_list(me, work, &work->call.outputs, &list));
    return group_issue_if(me, work, taken);
}

struct work *
group_scatter(struct task *me, struct process_group *group, struct tensor *output, struct tensor *const *inputs,
              int root)
{
    struct work      *work = group_begin(me, group, OPERATION_SCATTER, &(struct collective_options){ .root = root });
    struct taken_list list = { .tensors = inputs, .first = output, .like = output, .use = USE_INPUT };
    bool taken = work != NULL && group_only_root(me, work, inputs, "scatter_list") &&
                 group_take(me, work, output, USE_OUTCOME) &&
                 (inputs == NULL || group_take_list(me, work, &work->call.inputs, &list));
    return group_issue_if(me, work, taken);
}

struct work *
group_reduce_scatter(struct task *me, struct process_group *group, struct tensor *output,
                     struct tensor *const *inputs, const struct collective_options *options)
{
    struct work      *work = group_begin(me, group, OPERATION_REDUCE_SCATTER, options);
    struct taken_list list = { .tensors = inputs, .first = output, .use = USE_INPUT };
    bool taken = group_take(me, work, output, USE_OUTCOME | USE_COPY_) &&
                 group_take_list(me, work, &work->call.inputs, &list);
    return group_issue_if(me, work, taken && own_fits(me, work, inputs, output));
}

/* Whether all_to_all's lists agree on what a rank has for itself; with the others' the back-end compares. */
bool
group_keeps_own(struct task *me, const struct work *work)
{
    int     rank = work->call.rank;
    int64_t has  = tensor_count(work->call.inputs[rank]), expects = tensor_count(work->call.outputs[rank]);
    return has == expects ||
           failed(me, E_RUNTIME, "alltoall: rank %d has %lld elements for itself where it expects %lld",
                  work->group->global_rank, (long long)has, (long long)expects);
}

unsigned
group_input_use(struct task *me, struct tensor *const *outputs, struct tensor *const *inputs, int count)
{
    struct tensor **all = scratch_new(me, 2 * (size_t)count, sizeof *all);
    for (int i = 0; all != NULL && i < count; i++) {
        all[2 * i]     = outputs[i];
        all[2 * i + 1] = inputs[i];
    }
    return all != NULL && tensors_share(me, all, 2 * count) ? USE_INPUT | USE_APART : USE_INPUT;
}

struct work *
group_all_to_all(struct task *me, struct process_group *group, struct tensor *const *outputs,
                 struct tensor *const *inputs)
{
    struct work      *work = group_begin(me, group, OPERATION_ALL_TO_ALL, NULL);
    struct taken_list in = { .tensors = inputs, .use = USE_INPUT };
    if (work != NULL)
        in.use = group_input_use(me, outputs, inputs, work->call.ranks);
    struct taken_list out = { .tensors = outputs, .first = inputs[0], .use = USE_OUTCOME | USE_COPY_ };
    bool taken = work != NULL && group_take_list(me, work, &work->call.inputs, &in) &&
                 group_take_list(me, work, &work->call.outputs, &out) && group_keeps_own(me, work);
    return group_issue_if(me, work, taken);
}

struct work *
group_barrier_within(struct task *me, struct process_group *group, uint64_t timeout_ps)
{
    return group_issue(me, group_begin(me, group, OPERATION_BARRIER,
                                       &(struct collective_options){ .timeout_ps = timeout_ps }));
}

struct work *
group_barrier(struct task *me, struct process_group *group)
{
    return group_barrier_within(me, group, 0);
}

/* ---- issue, wait, free ---- */

bool
work_complete(struct task *me, struct work *work)
{
    if (work == NULL)
        return false;
    bool done = work_wait(me, work);
    work_free(me, work);
    return done;
}

bool
group_all_reduce_now(struct task *me, struct process_group *group, struct tensor *tensor,
                     const struct collective_options *options)
{
    struct collective_options at_once = options != NULL ? *options : (struct collective_options){ .op = REDUCE_SUM };
    at_once.at_once = true;
    return work_complete(me, group_all_reduce(me, group, tensor, &at_once));
}

bool
group_broadcast_now(struct task *me, struct process_group *group, struct tensor *tensor, int root)
{
    return work_complete(me, group_broadcast(me, group, tensor, root));
}

bool
group_all_gather_now(struct task *me, struct process_group *group, struct tensor *const *outputs, struct tensor *input)
{
    return work_complete(me, group_all_gather(me, group, outputs, input));
}

bool
group_barrier_now(struct task *me, struct process_group *group)
{
    return work_complete(me, group_barrier(me, group));
}
