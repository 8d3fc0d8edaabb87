/* See model_averaging.h. */
#include "parallel/model_averaging.h"
#include "c10d/group.h"
#include "device/cells.h"
#include "parallel/flat.h"
#include "sched/stage.h"
#include "tensor/op.h"

bool
averaging_is_due(int64_t step, int64_t warmup_steps, int64_t period)
{
    return step >= warmup_steps && (step - warmup_steps) % period == 0;
}

int
averaging_level(int64_t step, int64_t warmup_steps, const int64_t *periods, int count)
{
    for (int i = count - 1; i >= 0 && step >= warmup_steps; i--)
        if (step % periods[i] == 0)
            return i;
    return -1;
}

/* All of them in a row, in their common type. */
static struct tensor *
flat_of(struct task *me, struct tensor *const *params, int count)
{
    int         *order = scratch_new(me, (size_t)count, sizeof *order);
    struct flat_members members = { params, order, count };
    for (int i = 0; i < count && order != NULL; i++)
        order[i] = i;
    struct tensor *flat = order != NULL ? flat_joined(me, &members) : NULL;
    return count == 1 && flat != NULL ? tensor_clone(me, flat) : flat;
}

/* The ranks' parameters have drifted apart: each becomes their mean. PyTorch lets a
 * parameter's data point into the sum; here the parameter keeps its memory, and as there
 * its version: a backward that saved it does not notice. */
bool
average_parameters(struct task *me, struct tensor *const *params, int count,
                   struct process_group *group)
{
    int     ranks = group != NULL ? process_group_size(group) : 0;
    int64_t bytes = 0;
    for (int i = 0; i < count; i++)
        bytes += tensor_bytes(params[i]);
    STAGE(me, ddp_average_parameters, count, bytes, ranks);
    if (group == NULL)
        return !task_failed(me);
    if (count == 0)
        return failed(me, E_VALUE, "torch.cat(): expected a non-empty list of Tensors: "
                      "no parameter has a gradient, so there is nothing to average; "
                      "average after a backward");
    struct tensor *flat    = flat_of(me, params, count);
    struct op_args sharing = { .in = { flat }, .out = flat, .alpha = ranks };
    if (op_run(me, OP_div_scalar, &sharing) == NULL)
        return false;
    if (!group_all_reduce_now(me, group, flat, NULL))
        return false;
    struct flat_walk walk = { .flat = flat };
    for (int i = 0; i < count; i++) {
        uint32_t       version = tensor_version(params[i]);
        struct tensor *mean    = flat_piece(me, &walk, params[i]);
        if (mean == NULL || !tensor_copy(me, params[i], mean))
            return false;
        tensor_preserve_version(params[i], version);
    }
    return true;
}
