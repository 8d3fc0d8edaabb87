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

static bool
dims_follow(const struct tensor *a, int dims)
{
    for (int i = 0; i < dims - 1; i++)
        if (a->stride[i] != a->stride[i + 1] * a->size[i + 1])
            return false;
    return true;
}

/* Is a stack seen as one matrix? The smaller operand, if it wants a gradient, would else be stretched to the whole
 * stack, gradient and all; without one only where that takes no copy. In PyTorch: should_fold. */
static bool
should_fold(const struct tensor *a, const struct tensor *b)
{
    bool                 left = a->dims >= b->dims;
    const struct tensor *stack = left ? a : b, *small = left ? b : a;
    if (stack->dims < 3 || small->dims > 2)
        return false;
    if (small->requires_grad || small->grad_fn != NULL)
        return true;
    if (a->dims == 2)
        return false;
    if (tensor_count(stack) == 0)
        return true;
    struct tensor turned = *stack;
    if (!left) {
        int last = turned.dims - 1;
        turned.size[last - 1]   = stack->size[last];
        turned.stride[last - 1] = stack->stride[last];
    }
    return dims_follow(&turned, turned.dims - 1);
}

/* a @ B for a stack B: (B^T @ a^T)^T. */
static struct tensor *
turned_product(struct task *me, struct tensor *a, struct tensor *b)
{
    struct tensor *stack = tensor_transpose(me, b, -2, -1), *matrix = a->dims == 2 ? tensor_t(me, a) : a;
    struct tensor *product = stack != NULL && matrix != NULL ? folded_product(me, stack, matrix) : NULL;
    if (product == NULL || a->dims == 1)
        return product;
    struct tensor *turned = tensor_transpose(me, product, -2, -1);
    return turned == NULL || tensor_is_contiguous(turned) ? turned : tensor_copied(me, turned);
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

/* A vector on the left is a row, on the right a column, for the time of the product. */
static struct tensor *
batched_product(struct task *me, struct tensor *a, struct tensor *b)
{
    int64_t sizes[TENSOR_DIMS], count = 1;
    bool    row = a->dims == 1, column = b->dims == 1;
    a = row ? tensor_unsqueeze(me, a, 0) : a;
    b = column ? tensor_unsqueeze(me, b, 1) : b;
    if (a == NULL || b == NULL)
        return NULL;
    int dims = (a->dims > b->dims ? a->dims : b->dims) - 2;
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
    if (!row)
        sizes[dims++] = a->size[a->dims - 2];
    if (!column)
        sizes[dims++] = b->size[b->dims - 1];
    return tensor_view_as(me, product, dims, sizes, VIEW_UNSAFE);
}

/* Without the row that a vector was: PyTorch takes it away in place. */
static struct tensor *
without_row(struct task *me, struct tensor *product)
{
    static const struct recorded_as in_place = { "SqueezeBackward4", 1 };
    return product != NULL ? op_call(me, OP_squeeze, &(struct op_args){ .in = { product }, .as = &in_place }) : NULL;
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
        return without_row(me, tensor_mm(me, tensor_unsqueeze(me, a, 0), b));
    if (should_fold(a, b))
        return a->dims >= b->dims ? folded_product(me, a, b) : turned_product(me, a, b);
    return batched_product(me, a, b);
}
