/* Sparse gradients: made by embedding, added up, turned into dense ones. Nothing here is recorded: a sparse
 * gradient has no gradient. In PyTorch: ATen/native/Embedding.cpp, ATen/native/sparse/SparseTensorMath.cpp. */
#include "autograd/internal.h"
#include "device/cells.h"
#include "sched/sched.h"

/* The elements of a 1-D index in an array of me's scope, which has room for one more. */
static int64_t *
index_elements(struct task *me, struct tensor *index)
{
    int64_t *out = index != NULL && tensor_work(me, index)
                 ? scratch_new(me, (size_t)tensor_count(index) + 1, sizeof *out) : NULL;
    return out != NULL && tensor_read(me, index, out) ? out : NULL;
}

static struct tensor *
index_of(struct task *me, const struct tensor *like, const int64_t *values, int64_t count)
{
    struct tensor *index = tensor_from(me, DTYPE_I64, 1, &count, values);
    return index != NULL ? tensor_to(me, index, tensor_device(like), DTYPE_I64) : NULL;
}

/* One pair for each position, in order, without those that look up the padding row. */
struct tensor *
sparse_embedding_grad(struct task *me, struct tensor *grad, struct tensor *indices, int64_t rows, int64_t padding)
{
    if (grad == NULL || indices == NULL)
        return NULL;
    int64_t        count = tensor_count(indices), wide = tensor_size(grad, -1), kept = 0;
    struct tensor *flat = tensor_reshape(me, indices, 1, &count);
    struct tensor *values = tensor_reshape(me, grad, 2, (const int64_t[]){ count, wide });
    if (padding < 0)
        return tensor_sparse(me, rows, flat, values);
    int64_t *index = index_elements(me, flat), *place = index_elements(me, flat);
    if (index == NULL || place == NULL || values == NULL)
        return NULL;
    for (int64_t i = 0; i < count; i++) {
        if (index[i] == padding)
            continue;
        index[kept]   = index[i];
        place[kept++] = i;
    }
    struct tensor *places = index_of(me, values, place, kept);
    if (places == NULL)
        return NULL;
    struct tensor *looked_up = index_of(me, values, index, kept);
    return tensor_sparse(me, rows, looked_up, tensor_index_select(me, OP_index_select, values, 0, places));
}

struct tensor *
tensor_to_dense(struct task *me, struct tensor *tensor)
{
    if (!tensor_is_sparse(tensor))
        return tensor;
    int64_t        rows = tensor->indices->size[0], wide = rows > 0 ? tensor_count(tensor->values) / rows : 0;
    struct tensor *flat = tensor->values;
    if (tensor->dims != 2)
        flat = tensor_reshape(me, flat, 2, (const int64_t[]){ rows, wide });
    struct op_args args = { .in = { flat, tensor->indices }, .length = tensor->size[0], .start = -1 };
    return flat != NULL ? op_call(me, OP_embedding_backward, &args) : NULL;
}

/* The pairs of both side by side, always the one with the smaller row next, and one pair where the two rows are equal:
 * in rising order if both were. */
static struct tensor *
merged(struct task *me, struct tensor *a, struct tensor *b, struct tensor *values)
{
    int64_t  first = a->indices->size[0], second = b->indices->size[0], count = 0, i = 0, j = 0;
    int64_t *of_a = index_elements(me, a->indices), *of_b = index_elements(me, b->indices);
    int64_t *index = scratch_new(me, (size_t)(first + second) + 1, sizeof *index);
    int64_t *place = scratch_new(me, (size_t)(first + second) + 1, sizeof *place);
    if (of_a == NULL || of_b == NULL || index == NULL || place == NULL)
        return NULL;
    while (i < first || j < second) {
        bool take_a = j == second || (i < first && of_a[i] <= of_b[j]);
        bool take_b = i == first || (j < second && of_b[j] <= of_a[i]);
        index[count] = take_a ? of_a[i] : of_b[j];
        if (take_a)
            place[i++] = count;
        if (take_b)
            place[first + j++] = count;
        count++;
    }
    struct op_args args = { .in = { values, index_of(me, values, place, first + second) }, .length = count,
                            .start = -1 };
    struct tensor *rows = args.in[1] != NULL ? op_call(me, OP_embedding_backward, &args) : NULL;
    struct tensor *result = tensor_sparse(me, a->size[0], index_of(me, values, index, count), rows);
    if (result != NULL)
        result->coalesced = a->coalesced && b->coalesced;
    return result;
}

/* Merged, or where values are not contiguous one after the other, those of `a` first, as PyTorch has it; beside a dense
 * one it becomes dense. */
static struct tensor *
sparse_sum(struct task *me, struct tensor *a, struct tensor *b)
{
    if (!tensor_is_sparse(a) || !tensor_is_sparse(b)) {
        struct tensor *left = tensor_to_dense(me, a), *right = tensor_to_dense(me, b);
        return op_on(me, OP_add, left, right, 1);
    }
    if (!tensor_same_shape(a, b))
        return failed_null(me, E_SHAPE, "add: sparse tensors of different shapes");
    bool           side_by_side = tensor_is_contiguous(a->values) && tensor_is_contiguous(b->values);
    struct tensor *values = tensor_cat(me, (struct tensor *[]){ a->values, b->values }, 2, 0);
    if (values == NULL)
        return NULL;
    if (side_by_side && values->dims == 2)
        return merged(me, a, b, values);
    struct tensor *indices = tensor_cat(me, (struct tensor *[]){ a->indices, b->indices }, 2, 0);
    return tensor_sparse(me, a->size[0], indices, values);
}

struct tensor *
tensor_add(struct task *me, struct tensor *a, struct tensor *b)
{
    if (tensor_is_sparse(a) || tensor_is_sparse(b))
        return a != NULL && b != NULL ? sparse_sum(me, a, b) : NULL;
    return op_on(me, OP_add, a, b, 1);
}

/* Each row once, in rising order. */
struct tensor *
sparse_coalesced(struct task *me, struct tensor *tensor)
{
    if (!tensor_is_sparse(tensor) || tensor->coalesced)
        return tensor;
    int64_t  count = tensor_size(tensor->indices, 0), rows = 0;
    int64_t *index = index_elements(me, tensor->indices), *place = index_elements(me, tensor->indices);
    int64_t *seen = scratch_new(me, (size_t)tensor->size[0] + 1, sizeof *seen);
    if (index == NULL || place == NULL || seen == NULL)
        return NULL;
    for (int64_t i = 0; i < count; i++) {
        if (index[i] < 0 || index[i] >= tensor->size[0])
            return failed_null(me, E_INDEX, "a sparse tensor's index %lld is out of range", (long long)index[i]);
        seen[index[i]] = 1;
    }
    for (int64_t row = 0; row < tensor->size[0]; row++)
        seen[row] = seen[row] != 0 ? ++rows : 0;
    for (int64_t i = 0; i < count; i++)
        place[i] = seen[index[i]] - 1;
    for (int64_t row = 0; row < tensor->size[0]; row++)
        if (seen[row] != 0)
            index[seen[row] - 1] = row;
    struct op_args args = { .in = { tensor->values, index_of(me, tensor->values, place, count) }, .length = rows,
                            .start = -1 };
    struct tensor *values = args.in[1] != NULL ? op_call(me, OP_embedding_backward, &args) : NULL;
    struct tensor *result = tensor_sparse(me, tensor->size[0], index_of(me, tensor->values, index, rows), values);
    if (result != NULL)
        result->coalesced = true;
    return result;
}

/* `tensor` takes `from`'s place, the object stays. */
void
sparse_assign(struct task *me, struct tensor *tensor, const struct tensor *from)
{
    tensor_keep(me, &tensor->indices, from->indices);
    tensor_keep(me, &tensor->values, from->values);
    tensor->coalesced = from->coalesced;
    tensor_bump(tensor);
}

/* zero_: no pairs are left. */
struct tensor *
sparse_cleared(struct task *me, struct tensor *tensor)
{
    int64_t        none = 0;
    struct tensor *indices = tensor_from(me, DTYPE_I64, 1, &none, NULL);
    struct tensor *values = tensor_narrow(me, tensor->values, 0, 0, 0);
    struct tensor *empty = tensor_sparse(me, tensor->size[0], indices, values);
    if (empty == NULL)
        return NULL;
    sparse_assign(me, tensor, empty);
    return tensor;
}
