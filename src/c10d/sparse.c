/* The all-reduce of sparse tensors: all ranks show each other how many pairs they have, which rows, and their values;
 * each adds them up in the order of ranks. So a row may come from one rank alone, and the result has the union of all.
 * PyTorch: ProcessGroupGloo's AsyncSparseAllreduceWork. */
#include <string.h>
#include "autograd/operators.h"
#include "c10d/internal.h"
#include "device/cells.h"
#include "device/stream.h"
#include "sched/stage.h"
#include "tensor/op.h"

/* What the ranks' tensors are as one: `parts[r]` is rank r's row range in `all`. */
struct gathered { struct tensor *all, **parts; };

/* Room for rows[r] of each rank, each like those of `like`. */
static bool
gathered_new(struct task *me, const struct collective *call, const struct tensor *like, const int64_t *rows,
             struct gathered *out)
{
    int64_t size[TENSOR_DIMS], count = 0, wide = 1, offset = 0;
    memcpy(size, like->size, sizeof size);
    for (int d = 1; d < like->dims; d++)
        wide *= size[d];
    for (int i = 0; i < call->ranks; i++)
        count += rows[i];
    size[0]    = count;
    out->all   = tensor_empty(me, like->dtype, tensor_device(like), like->dims, size);
    out->parts = scratch_new(me, (size_t)call->ranks, sizeof *out->parts);
    for (int i = 0; out->all != NULL && out->parts != NULL && i < call->ranks; i++) {
        size[0]       = rows[i];
        out->parts[i] = tensor_piece(me, out->all, like->dims, size, offset);
        offset += rows[i] * wide;
        if (out->parts[i] == NULL)
            return false;
    }
    return out->all != NULL && out->parts != NULL;
}

static bool
gather(struct task *me, const struct collective *call, struct tensor *mine, const struct gathered *into)
{
    struct collective part = *call;
    part.operation = OPERATION_ALL_GATHER;
    part.tensor    = mine;
    part.ready     = NULL;    /* they were made just now */
    part.outputs   = into->parts;
    part.bytes     = tensor_bytes(mine);
    part.elements  = tensor_count(mine);
    return mirrored_run(me, &part, call->work->group->world->backend->all_gather);
}

/* How many pairs each rank has, in an array of me's scope. NULL: failed. */
static int64_t *
gather_counts(struct task *me, const struct collective *call, int64_t mine)
{
    int64_t        one = 1, *ones = scratch_new(me, (size_t)call->ranks, sizeof *ones);
    struct tensor *count = tensor_from(me, DTYPE_I64, 1, &one, &mine);
    struct gathered counts;
    for (int i = 0; ones != NULL && i < call->ranks; i++)
        ones[i] = 1;
    if (ones == NULL || count == NULL || !gathered_new(me, call, count, ones, &counts) ||
        !gather(me, call, count, &counts) || !tensor_read(me, counts.all, ones))
        return NULL;
    return ones;
}

/* Without its history. */
static struct tensor *
coalesced_copy(struct task *me, const struct tensor *sparse)
{
    struct tensor *values = tensor_detach(me, sparse->values);
    struct tensor *copy   = tensor_sparse(me, sparse->size[0], sparse->indices, values);
    if (copy != NULL)
        copy->coalesced = sparse->coalesced;
    return sparse_coalesced(me, copy);
}

/* The host moves elements itself, so it waits for those that move them on a device. */
static bool
device_is_done(struct task *me, const struct tensor *tensor)
{
    int            device = tensor_device(tensor);
    struct stream *stream = device >= 0 ? stream_current(me, device) : NULL;
    return device < 0 || (stream != NULL && stream_synchronize(me, stream));
}

/* Three all-gathers, then a sum in the order of ranks: how many, which rows, which values. */
bool
sparse_all_reduce(struct task *me, const struct collective *call)
{
    STAGE(me, c10d_allreduce_sparse, call->sequence, call->ranks);
    struct tensor  *mine = coalesced_copy(me, call->tensor);
    struct gathered indices, values;
    if (mine == NULL)
        return false;
    struct tensor *rows   = tensor_contiguous(me, mine->indices);
    struct tensor *number = tensor_contiguous(me, mine->values);
    bool           ready  = rows != NULL && number != NULL && device_is_done(me, number);
    int64_t       *counts = ready ? gather_counts(me, call, tensor_size(rows, 0)) : NULL;
    if (counts == NULL || !gathered_new(me, call, rows, counts, &indices) ||
        !gathered_new(me, call, number, counts, &values) ||
        !gather(me, call, rows, &indices) || !gather(me, call, number, &values))
        return false;
    call->work->is_moved = true;
    int64_t        size = tensor_size(call->tensor, 0);
    struct tensor *all  = tensor_sparse(me, size, indices.all, values.all);
    struct tensor *sum  = sparse_coalesced(me, all);
    if (sum == NULL || !device_is_done(me, sum->values))
        return false;
    tensor_sparse_assign(me, call->tensor, sum);
    tensor_bump(call->tensor);
    return true;
}
