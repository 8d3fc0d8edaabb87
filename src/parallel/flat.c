/* Flat buffers: torch::utils::flatten_dense_tensors and its counterpart. */
#include "parallel/flat.h"

#include "device/cells.h"
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
    struct tensor **rows = scratch_new(me, (size_t)members->count, sizeof *rows);
    if (rows == NULL)
        return NULL;
    for (int i = 0; i < members->count; i++) {
        struct tensor *whole = tensor_contiguous(me, members->tensors[members->indices[i]]);
        const int64_t size = tensor_count(whole);
        rows[i] = whole != NULL ? tensor_piece(me, whole, 1, &size, whole->offset) : NULL;
        if (rows[i] == NULL)
            return NULL;
    }
    const struct op_args args = { .list = rows, .list_count = members->count };
    return members->count == 1 ? rows[0] : op_run(me, OP_cat, &args);
}

struct tensor *
flat_piece(struct task *me, struct flat_walk *walk, const struct tensor *like)
{
    struct tensor *piece = tensor_piece(me, walk->flat, like->dims, like->size, walk->flat->offset + walk->used);
    walk->used += tensor_count(like);
    return piece;
}

struct tensor *
flat_piece_strided(struct task *me, struct flat_walk *walk, const struct tensor *like)
{
    if (tensor_is_contiguous(like) || !tensor_has_no_gaps(like))
        return flat_piece(me, walk, like);
    const struct view_place place = { .dims = like->dims, .size = like->size, .stride = like->stride,
                                      .offset = walk->flat->offset + walk->used };
    walk->used += tensor_count(like);
    return tensor_view(me, walk->flat, &place);
}
