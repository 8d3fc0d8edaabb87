/* Flat buffers: torch::utils::flatten_dense_tensors and its counterpart. */
#include "parallel/flat.h"

#include "parallel/comm.h"
#include "tensor/op.h"

struct tensor *
flat_empty(struct task *me, const struct flat_members *members)
{
    int64_t elements = 0;
    for (int i = 0; i < members->count; i++)
        elements += tensor_count(members->tensors[members->indices[i]]);
    const struct tensor *first = members->tensors[members->indices[0]];
    return tensor_empty(me, first->dtype, tensor_device(first), 1, &elements);
}

struct tensor *
flat_joined(struct task *me, const struct flat_members *members)
{
    struct arena plain PLAIN = { 0 };
    struct tensor **rows = comm_take(me, &plain, (size_t)members->count * sizeof *rows);
    if (rows == NULL)
        return NULL;
    for (int i = 0; i < members->count; i++) {
        struct tensor *whole = tensor_contiguous(me, members->tensors[members->indices[i]]);
        const int64_t size = tensor_count(whole), stride = 1;
        rows[i] = whole != NULL ? tensor_view(me, whole, 1, &size, &stride, whole->offset) : NULL;
        if (rows[i] == NULL)
            return NULL;
    }
    const struct op_args args = { .list = rows, .list_count = members->count };
    return members->count == 1 ? rows[0] : op_run(me, OP_cat, &args);
}

struct tensor *
flat_piece(struct task *me, struct flat_walk *walk, const struct tensor *like)
{
    int64_t stride[TENSOR_DIMS], step = 1;
    for (int dim = like->dims - 1; dim >= 0; dim--) {
        stride[dim] = step;
        step *= like->size[dim] > 1 ? like->size[dim] : 1;
    }
    struct tensor *piece =
        tensor_view(me, walk->flat, like->dims, like->size, stride, walk->flat->offset + walk->used);
    walk->used += tensor_count(like);
    return piece;
}
