/* Operators that only look differently at the same elements: no kernel, no price, a memory.alias event.
 * In PyTorch: ATen/native/TensorShape.cpp, ATen/TensorUtils.cpp (computeStride). */
#include <string.h>
#include "base/str.h"
#include "tensor/internal.h"

/* Strides with which the elements of `tensor` take the shape `sizes` without moving; false: there are none.
 * Both shapes are walked from the right in groups of dimensions that lie in one piece. */
static bool
strides_for(const struct tensor *tensor, int dims, const int64_t *sizes, int64_t *strides)
{
    if (tensor_count(tensor) == 0 || tensor->dims == 0) {
        row_major_strides(dims, sizes, strides);
        return true;
    }
    int     to = dims - 1;
    int64_t piece = tensor->stride[tensor->dims - 1], have = 1, made = 1;
    for (int from = tensor->dims - 1; from >= 0; from--) {
        have *= tensor->size[from];
        if (from > 0 && (tensor->size[from - 1] == 1 || tensor->stride[from - 1] == have * piece))
            continue; /* the next one to the left belongs to the same piece */
        while (to >= 0 && (made < have || sizes[to] == 1)) {
            strides[to] = made * piece;
            made *= sizes[to];
            to--;
        }
        if (made != have)
            return false;
        if (from > 0) {
            piece = tensor->stride[from - 1];
            have = made = 1;
        }
    }
    return to < 0;
}

/* Fills in a size of -1 of those that are given. */
static bool
infer_size(struct task *me, const struct tensor *tensor, int dims, const int64_t *given, int64_t *sizes)
{
    int64_t known = 1, count = tensor_count(tensor), made = 0;
    int     open = -1;
    for (int i = 0; i < dims; i++) {
        if (sizes[i] == -1 && open >= 0)
            return failed(me, E_RUNTIME, "only one dimension can be inferred");
        if (sizes[i] == -1)
            open = i;
        else if (sizes[i] < 0 || __builtin_mul_overflow(known, sizes[i], &known))
            return failed(me, E_RUNTIME, "invalid shape dimension %lld at index %d of the shape", (long long)sizes[i],
                          i);
    }
    if (open >= 0 && known > 0)
        sizes[open] = count / known;
    else if (open >= 0)
        return failed(me, E_RUNTIME, "view: -1 can be anything beside a size of 0");
    if (!shape_count(me, dims, sizes, &made))
        return false;
    if (made == count)
        return true;
    struct str text = { 0 };
    shape_print(dims, given, &text);
    failed(me, str_ok(&text) ? E_SHAPE : E_MEMORY, "shape '%s' is invalid for input of size %lld",
           str_text(&text), (long long)count);
    str_free(&text);
    return false;
}

struct tensor *
view_view(struct task *me, enum op op, const struct op_args *args)
{
    (void)op;
    struct tensor *tensor = args->in[0];
    int64_t        sizes[TENSOR_DIMS] = { 0 }, strides[TENSOR_DIMS] = { 0 };
    if (args->dims < 0 || args->dims > TENSOR_DIMS)
        return failed_null(me, E_VALUE, "a tensor has at most %d dimensions", TENSOR_DIMS);
    memcpy(sizes, args->sizes, sizeof sizes);
    if (!infer_size(me, tensor, args->dims, args->sizes, sizes))
        return NULL;
    if (!strides_for(tensor, args->dims, sizes, strides))
        return failed_null(me, E_RUNTIME, "view: the elements do not lie in one piece for that shape; use reshape, "
                                          "which copies them, or contiguous first");
    return tensor_view(me, tensor, &(struct view_place){ args->dims, sizes, strides, tensor->offset });
}

struct tensor *
view_expanded(struct task *me, enum op op, const struct op_args *args)
{
    struct tensor *tensor = args->in[0];
    int64_t        sizes[TENSOR_DIMS], strides[TENSOR_DIMS];
    int            added = args->dims - tensor->dims;
    if (args->dims > TENSOR_DIMS || added < 0)
        return failed_null(me, E_RUNTIME, "expand: %d sizes are too few or too many for a tensor of %d dimensions",
                           args->dims, tensor->dims);
    for (int i = 0; i < args->dims; i++) {
        int64_t is = i >= added ? tensor->size[i - added] : 1;
        sizes[i]   = args->sizes[i] == -1 && i >= added ? is : args->sizes[i];
        strides[i] = i >= added && (is != 1 || sizes[i] == 1) ? tensor->stride[i - added] : 0;
        if (sizes[i] < 0 || (is != 1 && is != sizes[i])) {
            struct tensor wanted = { .dims = args->dims };
            memcpy(wanted.size, args->sizes, sizeof wanted.size);
            shape_mismatch(me, op, tensor, &wanted, "only dimensions of size 1 can be expanded");
            return NULL;
        }
    }
    return tensor_view(me, tensor, &(struct view_place){ args->dims, sizes, strides, tensor->offset });
}

static struct tensor *
swapped(struct task *me, struct tensor *tensor, int a, int b)
{
    int64_t sizes[TENSOR_DIMS], strides[TENSOR_DIMS];
    memcpy(sizes, tensor->size, sizeof sizes);
    memcpy(strides, tensor->stride, sizeof strides);
    if (tensor->dims > 0) {
        sizes[a]   = tensor->size[b];
        sizes[b]   = tensor->size[a];
        strides[a] = tensor->stride[b];
        strides[b] = tensor->stride[a];
    }
    return tensor_view(me, tensor, &(struct view_place){ tensor->dims, sizes, strides, tensor->offset });
}

struct tensor *
view_t(struct task *me, enum op op, const struct op_args *args)
{
    (void)op;
    struct tensor *tensor = args->in[0];
    if (tensor->dims > 2)
        return failed_null(me, E_RUNTIME, "t: a tensor of at most 2 dimensions is expected, this one has %d",
                           tensor->dims);
    return swapped(me, tensor, 0, tensor->dims == 2 ? 1 : 0);
}

struct tensor *
view_transpose(struct task *me, enum op op, const struct op_args *args)
{
    int a = 0, b = 0;
    if (!shape_wrap(me, op_info(op)->name, args->in[0]->dims, args->dim, &a) ||
        !shape_wrap(me, op_info(op)->name, args->in[0]->dims, args->start, &b))
        return NULL;
    return swapped(me, args->in[0], a, b);
}

struct tensor *
view_narrow(struct task *me, enum op op, const struct op_args *args)
{
    struct tensor *tensor = args->in[0];
    int64_t        sizes[TENSOR_DIMS], strides[TENSOR_DIMS], step = args->step > 0 ? args->step : 1;
    int            dim = 0;
    if (tensor->dims == 0)
        return failed_null(me, E_RUNTIME, "narrow: a 0-dim tensor has no dimension to cut");
    if (!shape_wrap(me, op_info(op)->name, tensor->dims, args->dim, &dim))
        return NULL;
    int64_t size = tensor->size[dim], start = args->start < 0 ? args->start + size : args->start;
    if (start < 0 || start > size || args->length < 0 ||
        (args->length > 0 && (args->length - 1 > (size - 1 - start) / step || start >= size)))
        return failed_null(me, E_INDEX, "narrow: %lld elements from %lld are not in dimension %d of size %lld",
                           (long long)args->length, (long long)args->start, dim, (long long)size);
    memcpy(sizes, tensor->size, sizeof sizes);
    memcpy(strides, tensor->stride, sizeof strides);
    sizes[dim]   = args->length;
    strides[dim] = tensor->stride[dim] * (args->length > 1 ? step : 1);
    int64_t offset = tensor->offset + (args->length > 0 ? start * tensor->stride[dim] : 0);
    return tensor_view(me, tensor, &(struct view_place){ tensor->dims, sizes, strides, offset });
}

struct tensor *
view_select(struct task *me, enum op op, const struct op_args *args)
{
    struct tensor *tensor = args->in[0];
    int64_t        sizes[TENSOR_DIMS] = { 0 }, strides[TENSOR_DIMS] = { 0 };
    int            dim = 0;
    if (tensor->dims == 0)
        return failed_null(me, E_INDEX, "a 0-dim tensor cannot be indexed; use item()");
    if (!shape_wrap(me, op_info(op)->name, tensor->dims, args->dim, &dim))
        return NULL;
    int64_t size = tensor->size[dim], index = args->start < 0 ? args->start + size : args->start;
    if (index < 0 || index >= size)
        return failed_null(me, E_INDEX, "index %lld is out of range for dimension %d of size %lld",
                           (long long)args->start, dim, (long long)size);
    for (int i = 0, to = 0; i < tensor->dims; i++) {
        if (i == dim)
            continue;
        sizes[to]     = tensor->size[i];
        strides[to++] = tensor->stride[i];
    }
    int64_t offset = tensor_count(tensor) > 0 ? tensor->offset + index * tensor->stride[dim] : tensor->offset;
    return tensor_view(me, tensor, &(struct view_place){ tensor->dims - 1, sizes, strides, offset });
}

/* sizes: which old dimension comes where. */
struct tensor *
view_permute(struct task *me, enum op op, const struct op_args *args)
{
    struct tensor *tensor = args->in[0];
    int64_t        sizes[TENSOR_DIMS] = { 0 }, strides[TENSOR_DIMS] = { 0 };
    unsigned       seen = 0;
    for (int i = 0; i < args->dims && i < tensor->dims; i++) {
        int dim = 0;
        if (!shape_wrap(me, op_info(op)->name, tensor->dims, args->sizes[i], &dim))
            return NULL;
        seen |= 1u << dim;
        sizes[i]   = tensor->size[dim];
        strides[i] = tensor->stride[dim];
    }
    if (args->dims != tensor->dims || seen != (1u << tensor->dims) - 1)
        return failed_null(me, E_RUNTIME, "permute: each of the %d dimensions must be given once, got %d", tensor->dims,
                           args->dims);
    return tensor_view(me, tensor, &(struct view_place){ tensor->dims, sizes, strides, tensor->offset });
}

/* dim, start: the two dimensions; length: how far to the right of the main diagonal. It becomes the last dimension. */
struct tensor *
view_diagonal(struct task *me, enum op op, const struct op_args *args)
{
    struct tensor *tensor = args->in[0];
    int64_t        sizes[TENSOR_DIMS] = { 0 }, strides[TENSOR_DIMS] = { 0 }, right = args->length;
    int            a = 0, b = 0, to = 0;
    if (!shape_wrap(me, op_info(op)->name, tensor->dims, args->dim, &a) ||
        !shape_wrap(me, op_info(op)->name, tensor->dims, args->start, &b))
        return NULL;
    if (a == b || tensor->dims < 2)
        return failed_null(me, E_RUNTIME, "diagonal: two different dimensions are expected, got %d and %d of %d", a, b,
                           tensor->dims);
    for (int i = 0; i < tensor->dims; i++) {
        if (i == a || i == b)
            continue;
        sizes[to]     = tensor->size[i];
        strides[to++] = tensor->stride[i];
    }
    int64_t rows = tensor->size[a] + (right < 0 ? right : 0), columns = tensor->size[b] - (right > 0 ? right : 0);
    sizes[to]      = rows < columns ? rows : columns;
    sizes[to]      = sizes[to] > 0 ? sizes[to] : 0;
    strides[to]    = tensor->stride[a] + tensor->stride[b];
    int64_t offset = tensor->offset;
    if (sizes[to] > 0) /* else it lies anywhere, and the product may be too large */
        offset += right >= 0 ? right * tensor->stride[b] : -right * tensor->stride[a];
    return tensor_view(me, tensor, &(struct view_place){ to + 1, sizes, strides, offset });
}

struct tensor *
view_unsqueeze(struct task *me, enum op op, const struct op_args *args)
{
    struct tensor *tensor = args->in[0];
    int64_t        sizes[TENSOR_DIMS + 1], strides[TENSOR_DIMS + 1];
    int            dim = 0;
    if (!shape_wrap(me, op_info(op)->name, tensor->dims + 1, args->dim, &dim))
        return NULL;
    for (int i = 0, from = 0; i <= tensor->dims; i++) {
        if (i == dim) {
            sizes[i]   = 1;
            strides[i] = from < tensor->dims ? tensor->size[from] * tensor->stride[from] : 1;
            continue;
        }
        sizes[i]   = tensor->size[from];
        strides[i] = tensor->stride[from++];
    }
    return tensor_view(me, tensor, &(struct view_place){ tensor->dims + 1, sizes, strides, tensor->offset });
}

struct tensor *
view_squeeze(struct task *me, enum op op, const struct op_args *args)
{
    struct tensor *tensor = args->in[0];
    int64_t        sizes[TENSOR_DIMS] = { 0 }, strides[TENSOR_DIMS] = { 0 };
    int            dim = 0, to = 0;
    if (!shape_wrap(me, op_info(op)->name, tensor->dims, args->dim, &dim))
        return NULL;
    for (int i = 0; i < tensor->dims; i++) {
        if ((args->flag || i == dim) && tensor->size[i] == 1)
            continue;
        sizes[to]     = tensor->size[i];
        strides[to++] = tensor->stride[i];
    }
    return tensor_view(me, tensor, &(struct view_place){ to, sizes, strides, tensor->offset });
}
