/* Many tensors as one: they are laid side by side in one that is in one piece, whose parts are their stand-ins, so that
 * one collective moves them all. Order of use as in collectives.c. PyTorch: all_reduce_coalesced,
 * all_gather_coalesced, _coalescing_manager. */
#include "c10d/internal.h"
#include "device/cells.h"
#include "tensor/op.h"

static bool
list_fits(struct task *me, const struct work *work, const struct group_tensors *list)
{
    const char *name = operation_name(work->call.operation);
    if (list->count == 0)
        return failed(me, E_NOT_IMPLEMENTED, "%s: there are no tensors in the list", name);
    for (int i = 0; i < list->count; i++) {
        const struct tensor *tensor = list->tensors[i], *first = list->tensors[0];
        if (tensor == NULL)
            return failed(me, E_TYPE, "%s needs tensors", name);
        if (tensor_is_sparse(tensor))
            return sparse_refused(me, name, tensor);
        if (tensor->dtype != first->dtype)
            return failed(me, E_VALUE, "%s: Invalid usage of tensors with different dtypes: found %s and %s", name,
                          dtype_name(first->dtype), dtype_name(tensor->dtype));
        if (tensor_device(tensor) != tensor_device(first))
            return failed(me, E_DEVICE, "%s: its tensors must be on one device", name);
    }
    return true;
}

/* A tensor with room for all of them, `times` over. */
static struct tensor *
flat_for(struct task *me, const struct group_tensors *list, int times)
{
    int64_t count = 0;
    for (int i = 0; i < list->count; i++)
        count += tensor_count(list->tensors[i]);
    count *= times;
    return tensor_empty(me, list->tensors[0]->dtype, tensor_device(list->tensors[0]), 1, &count);
}

/* Each tensor is stood in for by the part of `flat` that begins at *offset. */
static bool
lay_out(struct task *me, struct work *work, struct tensor *flat, const struct group_tensors *list, int64_t *offset,
        unsigned use)
{
    for (int i = 0; i < list->count; i++) {
        struct tensor *tensor = list->tensors[i];
        struct tensor *part   = tensor_piece(me, flat, tensor->dims, tensor->size, *offset);
        if (!work_stand_in(me, work, (struct stand_in){ .tensor = tensor, .copy = part }, use))
            return false;
        *offset += tensor_count(tensor);
    }
    return true;
}

struct work *
group_all_reduce_coalesced(struct task *me, struct process_group *group, const struct group_tensors *list,
                           const struct collective_options *options)
{
    struct work   *work   = group_begin(me, group, OPERATION_ALL_REDUCE, options);
    struct tensor *flat   = work != NULL && list_fits(me, work, list) ? flat_for(me, list, 1) : NULL;
    int64_t        offset = 0;
    bool taken = flat != NULL && lay_out(me, work, flat, list, &offset, USE_INPUT | USE_OUTCOME | USE_COPY_) &&
                 group_take(me, work, flat, USE_INPUT | USE_OUTCOME);
    return group_issue_if(me, work, taken);
}

/* Each rank's parts lie in one row of `all`, which is what is gathered. */
static bool
lay_out_rows(struct task *me, struct work *work, struct tensor *flat, struct tensor *const *outputs,
             const struct group_tensors *inputs)
{
    int            ranks = work->call.ranks;
    int64_t        offset = 0, wide = tensor_count(flat);
    struct tensor *all = flat_for(me, inputs, ranks), **rows = scratch_new(me, (size_t)ranks, sizeof *rows);
    for (int rank = 0; all != NULL && rows != NULL && rank < ranks; rank++) {
        struct group_tensors theirs = { outputs + (size_t)rank * (size_t)inputs->count, inputs->count };
        if (!list_fits(me, work, &theirs))
            return false;
        for (int i = 0; i < inputs->count; i++)
            if (!tensor_same_shape(theirs.tensors[i], inputs->tensors[i]))
                return failed(me, E_SHAPE, "%s: expected output %d of rank %d to have the shape of input %d, %s, "
                              "got %s", operation_name(work->call.operation), i, rank, i,
                              shape_text(inputs->tensors[i]).text, shape_text(theirs.tensors[i]).text);
        rows[rank] = tensor_piece(me, all, 1, &wide, offset);
        if (rows[rank] == NULL || !lay_out(me, work, all, &theirs, &offset, USE_OUTCOME | USE_COPY_))
            return false;
    }
    struct taken_list list = { .tensors = rows, .first = flat, .use = USE_OUTCOME };
    return all != NULL && rows != NULL && group_take_list(me, work, &work->call.outputs, &list);
}

struct work *
group_all_gather_coalesced(struct task *me, struct process_group *group, struct tensor *const *outputs,
                           const struct group_tensors *inputs)
{
    struct work   *work   = group_begin(me, group, OPERATION_ALL_GATHER, NULL);
    struct tensor *flat   = work != NULL && list_fits(me, work, inputs) ? flat_for(me, inputs, 1) : NULL;
    int64_t        offset = 0;
    bool taken = flat != NULL && lay_out(me, work, flat, inputs, &offset, USE_INPUT) &&
                 group_take(me, work, flat, USE_INPUT) && lay_out_rows(me, work, flat, outputs, inputs);
    return group_issue_if(me, work, taken);
}
