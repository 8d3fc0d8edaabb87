/* The collectives of a group: checked here, on the rank that calls; numbered, compared and queued by work_issue; moved
 * by the back-end on the comm task. Order of use: group_NAME, then work_wait and work_free; or group_NAME_now, which is
 * all of it. PyTorch: c10d::ProcessGroup, torch/distributed/distributed_c10d.py. */
#include <stdlib.h>
#include "c10d/internal.h"

static struct work *
group_issue(struct task *me, struct work *work)
{
    if (work == NULL)
        return NULL;
    struct tensor *tensor = work->call.tensor;
    bool ready = work->group->world->backend->accepts(me, &work->call) &&
                 (tensor == NULL || work_tensor_ready(me, tensor, &work->event, &work->on_device));
    if (ready && tensor != NULL && tensor->dtype == DTYPE_BOOL)
        ready = failed(me, E_DTYPE, "%s does not take bool tensors", operation_name(work->call.operation));
    if (ready && work_issue(me, work))
        return work;
    work_discard(me, work);
    return NULL;
}

struct work *
group_all_reduce(struct task *me, struct process_group *group, struct tensor *tensor,
                 const struct collective_options *options)
{
    struct collective_options plain = { .op = REDUCE_SUM };
    if (options == NULL)
        options = &plain;
    if ((int)options->op < REDUCE_SUM || options->op > REDUCE_PREMUL_SUM)
        return failed_null(me, E_VALUE, "unknown reduce operation %d", (int)options->op);
    struct work *work = tensor != NULL ? work_new(me, group, OPERATION_ALL_REDUCE, tensor) : NULL;
    if (work != NULL)
        work->call.options = *options;
    return group_issue(me, work);
}

struct work *
group_broadcast(struct task *me, struct process_group *group, struct tensor *tensor, int root)
{
    if (root < 0 || root >= group->communicator->size)
        return failed_null(me, E_VALUE, "broadcast from rank %d: the group has %d ranks", root,
                           group->communicator->size);
    struct work *work = tensor != NULL ? work_new(me, group, OPERATION_BROADCAST, tensor) : NULL;
    if (work != NULL)
        work->call.options.root = root;
    return group_issue(me, work);
}

struct work *
group_all_gather(struct task *me, struct process_group *group, struct tensor *const *outputs, struct tensor *input)
{
    int size = group->communicator->size;
    for (int i = 0; input != NULL && i < size; i++) {
        const struct tensor *output = outputs[i];
        if (output == NULL)
            return NULL;
        if (output->dtype != input->dtype || !tensor_same_shape(output, input) || !tensor_is_contiguous(output) ||
            tensor_device(output) != tensor_device(input))
            return failed_null(me, E_SHAPE, "allgather: output %d must have the input's shape, dtype and device and be "
                                            "contiguous", i);
    }
    struct work *work = input != NULL ? work_new(me, group, OPERATION_ALL_GATHER, input) : NULL;
    if (work == NULL)
        return NULL;
    struct tensor **kept = work->call.outputs = calloc((size_t)size, sizeof *kept);
    if (kept == NULL) {
        work_discard(me, work);
        return failed_null(me, E_MEMORY, "out of memory for allgather");
    }
    for (int i = 0; i < size; i++)
        kept[i] = tensor_ref(outputs[i]);
    return group_issue(me, work);
}

struct work *
group_all_gather_into_tensor(struct task *me, struct process_group *group, struct tensor *output,
                             struct tensor *input)
{
    if (output == NULL || input == NULL)
        return NULL;
    int size = group->communicator->size;
    if (output->dtype != input->dtype || tensor_count(output) != tensor_count(input) * size ||
        !tensor_is_contiguous(output) || tensor_device(output) != tensor_device(input))
        return failed_null(me, E_SHAPE, "allgather: the output must have %d times the input's elements, its dtype and "
                                        "device and be contiguous", size);
    struct work *work = work_new(me, group, OPERATION_ALL_GATHER, input);
    if (work != NULL)
        work->call.gathered = tensor_ref(output);
    return group_issue(me, work);
}

struct work *
group_barrier(struct task *me, struct process_group *group)
{
    return group_issue(me, work_new(me, group, OPERATION_BARRIER, NULL));
}

/* ---- issue, wait, free ---- */

static bool
work_now(struct task *me, struct work *work)
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
    return work_now(me, group_all_reduce(me, group, tensor, &at_once));
}

bool
group_broadcast_now(struct task *me, struct process_group *group, struct tensor *tensor, int root)
{
    return work_now(me, group_broadcast(me, group, tensor, root));
}

bool
group_all_gather_now(struct task *me, struct process_group *group, struct tensor *const *outputs, struct tensor *input)
{
    return work_now(me, group_all_gather(me, group, outputs, input));
}

bool
group_all_gather_into_tensor_now(struct task *me, struct process_group *group, struct tensor *output,
                                 struct tensor *input)
{
    return work_now(me, group_all_gather_into_tensor(me, group, output, input));
}

bool
group_barrier_now(struct task *me, struct process_group *group)
{
    return work_now(me, group_barrier(me, group));
}
