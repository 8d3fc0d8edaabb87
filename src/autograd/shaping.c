/* Copies and shapes: views, reductions to a shape, joining, torch.chunk's rule. Dimensions may count from the end;
 * sizes may leave one out (-1) where PyTorch allows it. What is a view shares storage and version with its base. */
#include <string.h>
#include "autograd/internal.h"
#include "base/str.h"
#include "sched/sched.h"

struct tensor *
tensor_copied(struct task *me, struct tensor *a)
{
    return op_on(me, OP_clone, a, NULL, 0);
}

struct tensor *
tensor_copy_to(struct task *me, struct tensor *a, int device, enum dtype dtype)
{
    if (a == NULL)
        return NULL;
    if (tensor_device(a) == device && a->dtype == dtype)
        return tensor_born(me, tensor_ref(a));
    if (tensor_is_sparse(a))
        return op_call(me, OP_copy, &(struct op_args){ .in = { a }, .start = device, .length = dtype });
    struct op_args args = { .in = { a }, .out = tensor_empty(me, dtype, device, a->dims, a->size) };
    return args.out != NULL ? op_call(me, OP_copy, &args) : NULL;
}

struct tensor *
tensor_detach(struct task *me, struct tensor *a)
{
    return a != NULL ? tensor_alias(me, a) : NULL;
}

struct tensor *
tensor_sum(struct task *me, struct tensor *a)
{
    return op_on(me, OP_sum, a, NULL, 0);
}

/* `extra` 1 for unsqueeze, which may also put the new dimension behind the last. */
static bool
dim_of(struct task *me, const struct tensor *a, int dim, int extra, int64_t *out)
{
    int dims = a->dims + extra;
    int low  = dims > 0 ? dims : 1; /* a 0-dim tensor is taken as 1-D */
    if (dim < -low || dim >= low)
        return failed(me, E_INDEX, "Dimension out of range (expected to be in range of [%d, %d], but got %d)", -low,
                      low - 1, dim);
    *out = dim < 0 ? dim + low : dim;
    return true;
}

struct tensor *
tensor_sum_dim(struct task *me, struct tensor *a, int dim, bool keepdim)
{
    struct op_args args = { .in = { a }, .keepdim = keepdim };
    if (a == NULL || !dim_of(me, a, dim, 0, &args.dim))
        return NULL;
    return a->dims > 0 ? op_call(me, OP_sum_dim, &args) : tensor_sum(me, a);
}

static void
set_sizes(struct op_args *args, int dims, const int64_t *sizes)
{
    args->dims = dims;
    if (dims > 0)
        memcpy(args->sizes, sizes, (size_t)dims * sizeof *sizes);
}

struct tensor *
tensor_sum_to(struct task *me, struct tensor *a, int dims, const int64_t *sizes)
{
    struct op_args args = { .in = { a } };
    if (a == NULL)
        return NULL;
    if (a->dims == dims && (dims == 0 || memcmp(a->size, sizes, (size_t)dims * sizeof *sizes) == 0))
        return a;
    set_sizes(&args, dims, sizes);
    return op_call(me, OP_sum_to, &args);
}

struct tensor *
zeros_of(struct task *me, const struct tensor *like, int dims, const int64_t *sizes)
{
    if (like == NULL)
        return NULL;
    struct op_args args = { .out = tensor_empty(me, like->dtype, tensor_device(like), dims, sizes), .alpha = 0 };
    return args.out != NULL ? op_call(me, OP_fill, &args) : NULL;
}

struct tensor *
tensor_t(struct task *me, struct tensor *a)
{
    struct op_args args = { .in = { a } };
    if (a != NULL && a->dims > 2)
        return failed_null(me, E_SHAPE, "t() expects a tensor with <= 2 dimensions, but self is %dD", a->dims);
    return a != NULL ? op_call(me, OP_t, &args) : NULL;
}

struct tensor *
tensor_transpose(struct task *me, struct tensor *a, int dim0, int dim1)
{
    struct op_args args = { .in = { a } };
    if (a == NULL || !dim_of(me, a, dim0, 0, &args.dim) || !dim_of(me, a, dim1, 0, &args.start))
        return NULL;
    return op_call(me, OP_transpose, &args);
}

static struct tensor *
shape_does_not_fit(struct task *me, const struct tensor *a, int dims, const int64_t *sizes)
{
    struct str shape = { 0 };
    shape_print(dims, sizes, &shape);
    failed(me, E_SHAPE, "shape '%s' is invalid for input of size %lld", str_text(&shape), (long long)tensor_count(a));
    str_free(&shape);
    return NULL;
}

/* Fills in the one size that was left out. */
static bool
infer_sizes(const struct tensor *a, int dims, int64_t *sizes)
{
    int64_t known = 1, count = tensor_count(a);
    int     open  = -1;
    for (int i = 0; i < dims; i++) {
        if (sizes[i] < -1 || (sizes[i] == -1 && open >= 0))
            return false;
        if (sizes[i] == -1)
            open = i;
        else if (__builtin_mul_overflow(known, sizes[i], &known))
            return false;
    }
    if (open < 0)
        return known == count;
    if (known == 0 || count % known != 0)
        return false;
    sizes[open] = count / known;
    return true;
}

/* Can `a` be seen in these sizes without a copy? Each new dimension must lie within one run of old dimensions that
 * follow each other in memory. */
static bool
view_fits(const struct tensor *a, int dims, const int64_t *sizes)
{
    if (tensor_is_contiguous(a) || tensor_count(a) == 0)
        return true;
    int     next   = dims - 1;
    int64_t stride = a->stride[a->dims - 1], run = 1, seen = 1;
    for (int i = a->dims - 1; i >= 0; i--) {
        run *= a->size[i];
        if (i > 0 && (a->size[i - 1] == 1 || a->stride[i - 1] == run * stride))
            continue; /* the next one goes on where this one ends */
        while (next >= 0 && (seen < run || sizes[next] == 1))
            seen *= sizes[next--];
        if (seen != run)
            return false;
        stride = i > 0 ? a->stride[i - 1] : 0;
        run = seen = 1;
    }
    return next < 0;
}

/* What lies in one piece is viewed, in 1.13 too under the name _reshape_alias. */
struct tensor *
tensor_reshape(struct task *me, struct tensor *a, int dims, const int64_t *sizes)
{
    struct op_args args = { .in = { a } };
    if (a == NULL)
        return NULL;
    if (dims < 0 || dims > TENSOR_DIMS)
        return failed_null(me, E_SHAPE, "a tensor has at most %d dimensions, but %d were asked for", TENSOR_DIMS, dims);
    set_sizes(&args, dims, sizes);
    if (!infer_sizes(a, dims, args.sizes))
        return shape_does_not_fit(me, a, dims, sizes);
    bool fits  = view_fits(a, dims, args.sizes);
    args.in[0] = fits ? a : tensor_copied(me, a);
    args.start = !fits ? VIEW_UNSAFE : tensor_is_contiguous(a) ? VIEW_PLAIN : VIEW_RESHAPED;
    return args.in[0] != NULL ? op_call(me, OP_view, &args) : NULL;
}

struct tensor *
tensor_view_as(struct task *me, struct tensor *a, int dims, const int64_t *sizes, enum view_kind kind)
{
    struct op_args args = { .in = { a }, .start = kind };
    set_sizes(&args, dims, sizes);
    return a != NULL ? op_call(me, OP_view, &args) : NULL;
}

struct tensor *
tensor_narrow(struct task *me, struct tensor *a, int dim, int64_t start, int64_t length)
{
    struct op_args args = { .in = { a }, .start = start, .length = length };
    if (a == NULL || !dim_of(me, a, dim, 0, &args.dim))
        return NULL;
    if (a->dims == 0)
        return failed_null(me, E_SHAPE, "narrow() cannot be applied to a 0-dim tensor.");
    int64_t size = a->size[args.dim];
    if (start < -size || start > size)
        return failed_null(me, E_INDEX, "start out of range (expected to be in range of [%lld, %lld], but got %lld)",
                           (long long)-size, (long long)size, (long long)start);
    args.start = start < 0 ? start + size : start;
    if (length < 0 || length > size - args.start)
        return failed_null(me, E_RUNTIME, "start (%lld) + length (%lld) exceeds dimension size (%lld).",
                           (long long)args.start, (long long)length, (long long)size);
    return op_call(me, OP_narrow, &args);
}

struct tensor *
tensor_select(struct task *me, struct tensor *a, int dim, int64_t index)
{
    struct op_args args = { .in = { a } };
    if (a == NULL || !dim_of(me, a, dim, 0, &args.dim))
        return NULL;
    if (a->dims == 0)
        return failed_null(me, E_INDEX, "select() cannot be applied to a 0-dim tensor.");
    int64_t size = a->size[args.dim];
    if (index < -size || index >= size)
        return failed_null(me, E_INDEX, "index %lld is out of range for dimension %lld of size %lld", (long long)index,
                           (long long)args.dim, (long long)size);
    args.start = index < 0 ? index + size : index;
    return op_call(me, OP_select, &args);
}

struct tensor *
tensor_unsqueeze(struct task *me, struct tensor *a, int dim)
{
    struct op_args args = { .in = { a } };
    if (a == NULL || !dim_of(me, a, dim, 1, &args.dim))
        return NULL;
    if (a->dims >= TENSOR_DIMS)
        return failed_null(me, E_SHAPE, "a tensor has at most %d dimensions, unsqueeze makes %d", TENSOR_DIMS,
                           a->dims + 1);
    return op_call(me, OP_unsqueeze, &args);
}

struct tensor *
tensor_squeeze(struct task *me, struct tensor *a, int dim)
{
    struct op_args args = { .in = { a } };
    if (a == NULL || !dim_of(me, a, dim, 0, &args.dim))
        return NULL;
    return op_call(me, OP_squeeze, &args);
}

struct tensor *
tensor_expand(struct task *me, struct tensor *a, int dims, const int64_t *sizes)
{
    struct op_args args = { .in = { a } };
    if (a == NULL)
        return NULL;
    if (dims > TENSOR_DIMS || dims < a->dims)
        return failed_null(me, E_SHAPE,
                           "expand: the number of sizes provided (%d) must be greater or equal to the number of "
                           "dimensions in the tensor (%d)", dims, a->dims);
    set_sizes(&args, dims, sizes);
    for (int i = dims - a->dims; i < dims; i++)
        if (args.sizes[i] == -1)
            args.sizes[i] = a->size[i - (dims - a->dims)];
    return op_call(me, OP_expand, &args);
}

struct tensor *
tensor_cat(struct task *me, struct tensor *const *parts, int count, int dim)
{
    struct op_args args = { .list = (struct tensor **)(uintptr_t)parts, .list_count = count };
    for (int i = 0; i < count; i++)
        if (parts[i] == NULL)
            return NULL;
    if (count < 1)
        return failed_null(me, E_VALUE, "cat: expected a non-empty list of tensors");
    if (parts[0]->dims == 0)
        return failed_null(me, E_SHAPE, "zero-dimensional tensor (at position 0) cannot be concatenated");
    return dim_of(me, parts[0], dim, 0, &args.dim) ? op_call(me, OP_cat, &args) : NULL;
}

struct tensor *
tensor_stack(struct task *me, struct tensor **parts, int count, int dim)
{
    for (int i = 0; i < count; i++)
        if (parts[i] == NULL)
            return NULL;
    return op_call(me, OP_stack, &(struct op_args){ .list = parts, .list_count = count, .dim = dim });
}

int
chunk_lengths(struct task *me, const struct tensor *tensor, int64_t chunks, int dim, int64_t *lengths)
{
    int64_t at;
    if (tensor == NULL)
        return 0;
    if (tensor->dims == 0)
        return failed(me, E_SHAPE, "chunk expects at least a 1-dimensional tensor");
    if (chunks < 1 || chunks > INT32_MAX)
        return failed(me, E_RUNTIME, "chunk expects `chunks` to be greater than 0, got: %lld", (long long)chunks);
    if (!dim_of(me, tensor, dim, 0, &at))
        return 0;
    int64_t size = tensor->size[at], piece = (size + chunks - 1) / chunks;
    int     count = 0;
    for (int64_t start = 0; start < size; start += piece)
        lengths[count++] = size - start < piece ? size - start : piece;
    for (; size == 0 && count < chunks; count++)
        lengths[count] = 0;
    return count;
}
