/* torch.matmul for operands of all ranks: vectors get a dimension for the time of the product, leading dimensions are
 * batches and broadcast. In PyTorch: ATen/native/LinearAlgebra.cpp (matmul). */
#include <string.h>
#include "autograd/internal.h"
#include "base/str.h"
#include "sched/task.h"

/* A stack of matrices by one matrix or vector: the stack as one tall matrix. */
static struct tensor *
folded_product(struct task *me, struct tensor *a, struct tensor *b)
{
    int64_t sizes[TENSOR_DIMS], rows = 1;
    int     dims = a->dims - 1;
    memcpy(sizes, a->size, sizeof sizes);
    for (int i = 0; i < dims; i++)
        rows *= sizes[i];
    struct tensor *tall = tensor_reshape(me, a, 2, (const int64_t[]){ rows, a->size[dims] });
    if (b->dims == 1)
        return tensor_view_as(me, op_on(me, OP_mv, tall, b, 1), dims, sizes, VIEW_UNSAFE);
    sizes[dims] = b->size[1];
    return tensor_view_as(me, tensor_mm(me, tall, b), a->dims, sizes, VIEW_UNSAFE);
}

static struct tensor *
as_batch(struct task *me, struct tensor *a, int batch_dims, const int64_t *batch, int64_t count)
{
    int64_t sizes[TENSOR_DIMS];
    memcpy(sizes, batch, (size_t)batch_dims * sizeof *sizes);
    sizes[batch_dims]     = a->size[a->dims - 2];
    sizes[batch_dims + 1] = a->size[a->dims - 1];
    struct tensor *wide = tensor_expand(me, a, batch_dims + 2, sizes);
    return tensor_reshape(me, wide, 3, (const int64_t[]){ count, sizes[batch_dims], sizes[batch_dims + 1] });
}

static struct tensor *
bad_batches(struct task *me, const struct tensor *a, const struct tensor *b)
{
    struct str text = { 0 };
    str_add(&text, "matmul: shapes ");
    shape_print(a->dims, a->size, &text);
    str_add(&text, " and ");
    shape_print(b->dims, b->size, &text);
    failed(me, E_SHAPE, "%s do not fit: sizes before the last two must be equal or 1", str_text(&text));
    str_free(&text);
    return NULL;
}

/* Both have two dimensions or more. */
static struct tensor *
batched_product(struct task *me, struct tensor *a, struct tensor *b)
{
    int64_t sizes[TENSOR_DIMS], count = 1;
    int     dims = (a->dims > b->dims ? a->dims : b->dims) - 2;
    for (int i = 0; i < dims; i++) {
        int     from_a = i - (dims - (a->dims - 2)), from_b = i - (dims - (b->dims - 2));
        int64_t x = from_a >= 0 ? a->size[from_a] : 1, y = from_b >= 0 ? b->size[from_b] : 1;
        if (x != y && x != 1 && y != 1)
            return bad_batches(me, a, b);
        sizes[i] = x == 1 ? y : x;
        count *= sizes[i];
    }
    struct tensor *left = as_batch(me, a, dims, sizes, count), *right = as_batch(me, b, dims, sizes, count);
    struct tensor *product = op_on(me, OP_bmm, left, right, 1);
    sizes[dims]     = a->size[a->dims - 2];
    sizes[dims + 1] = b->size[b->dims - 1];
    return tensor_view_as(me, product, dims + 2, sizes, VIEW_UNSAFE);
}

struct tensor *
tensor_matmul(struct task *me, struct tensor *a, struct tensor *b)
{
    if (a == NULL || b == NULL)
        return NULL;
    if (a->dims < 1 || b->dims < 1)
        return failed_null(me, E_SHAPE, "both arguments to matmul need to be at least 1D, but they are %dD and %dD",
                           a->dims, b->dims);
    if (a->dims == 1 && b->dims == 1)
        return op_on(me, OP_dot, a, b, 1);
    if (a->dims == 2 && b->dims <= 2)
        return b->dims == 1 ? op_on(me, OP_mv, a, b, 1) : tensor_mm(me, a, b);
    if (a->dims == 1 && b->dims == 2)
        return tensor_squeeze(me, tensor_mm(me, tensor_unsqueeze(me, a, 0), b), 0);
    if (a->dims > 2 && b->dims <= 2)
        return folded_product(me, a, b);
    if (a->dims > 1)
        return batched_product(me, a, b);
    struct tensor *row = tensor_unsqueeze(me, a, 0);
    return row != NULL ? tensor_squeeze(me, batched_product(me, row, b), -2) : NULL;
}
