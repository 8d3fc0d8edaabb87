/* Sparse gradients: made by embedding, added up, merged, turned into dense ones. A sparse tensor has no history of its
 * own: its values have, and all that happens here happens to them by ops. In PyTorch: ATen/native/Embedding.cpp,
 * ATen/native/sparse/SparseTensor.cpp, SparseTensorMath.cpp. */
#include <string.h>
#include "autograd/internal.h"
#include "device/cells.h"
#include "sched/sched.h"

static struct tensor *
as_type(struct task *me, struct tensor *tensor, enum dtype dtype)
{
    return tensor != NULL ? tensor_copy_to(me, tensor, tensor_device(tensor), dtype) : NULL;
}

static struct tensor *
in_one_piece(struct task *me, struct tensor *values)
{
    return values == NULL || tensor_is_contiguous(values) ? values : tensor_copied(me, values);
}

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

/* Without those that look up the padding row. */
static struct tensor *
without_padding(struct task *me, struct tensor *sparse, int64_t padding)
{
    int64_t  count = tensor_size(sparse->indices, 0), kept = 0;
    int64_t *index = index_elements(me, sparse->indices), *place = index_elements(me, sparse->indices);
    if (index == NULL || place == NULL)
        return NULL;
    for (int64_t i = 0; i < count; i++) {
        if (index[i] == padding)
            continue;
        index[kept]   = index[i];
        place[kept++] = i;
    }
    struct tensor *places = index_of(me, sparse, place, kept);
    struct tensor *values = tensor_index_select(me, OP_index_select, sparse->values, 0, places);
    return tensor_sparse(me, sparse->size[0], index_of(me, sparse, index, kept), values);
}

/* One pair for each position, in order. */
struct tensor *
sparse_embedding_grad(struct task *me, struct tensor *grad, struct tensor *indices, int64_t rows, int64_t padding)
{
    if (grad == NULL || indices == NULL)
        return NULL;
    int64_t        count = tensor_count(indices), wide = tensor_size(grad, -1);
    struct tensor *flat = tensor_reshape(me, indices, 1, &count);
    struct tensor *values = tensor_reshape(me, grad, 2, (const int64_t[]){ count, wide });
    struct tensor *sparse = tensor_sparse(me, rows, flat, values);
    return sparse == NULL || padding < 0 ? sparse : without_padding(me, sparse, padding);
}

/* alpha times the rows `from` added to those of `table` at `places`, in their order; in place if that is asked for. */
static struct tensor *
add_rows(struct task *me, struct tensor *table, struct tensor *places, struct tensor *from,
         const struct rows_added *how)
{
    struct op_args args = { .in = { table, places, in_one_piece(me, from) }, .out = how->in_place ? table : NULL,
                            .alpha = how->alpha, .as = how->as };
    return op_call_checked(me, OP_add_rows, &args);
}

/* A table of zeros but for these rows. */
static struct tensor *
table_of(struct task *me, int64_t rows, struct tensor *places, struct tensor *from, const struct rows_added *how)
{
    int64_t size[TENSOR_DIMS];
    if (places == NULL || from == NULL)
        return NULL;
    memcpy(size, from->size, sizeof size);
    size[0] = rows;
    return add_rows(me, tensor_zeros(me, from->dtype, tensor_device(from), from->dims, size), places, from, how);
}

struct tensor *
tensor_to_dense(struct task *me, struct tensor *tensor)
{
    static const struct recorded_as as = { "ToDenseBackward0", 0 };
    if (!tensor_is_sparse(tensor))
        return tensor;
    bool           counts = dtype_is_float(tensor->dtype) || tensor->dtype == DTYPE_I64;
    enum dtype     dtype = counts ? tensor->dtype : DTYPE_I64;
    struct tensor *values = as_type(me, tensor->values, dtype);
    struct tensor *dense = table_of(me, tensor->size[0], tensor->indices, values, &(struct rows_added){ 1, true, &as });
    return as_type(me, dense, tensor->dtype);
}

struct tensor *
sparse_added_to(struct task *me, struct tensor *dense, struct tensor *sparse, const struct rows_added *how)
{
    return add_rows(me, dense, sparse->indices, sparse->values, how);
}

/* ---- sparse and sparse ---- */

/* Where each pair of the first, then of the second goes, and which row is at a place. */
struct merge { int64_t first, second, count, *rows, *places; };

/* Always the one with the smaller row next, and one place where the two rows are equal: in rising order if both
 * were. */
static bool
merge_plan(struct task *me, struct tensor *a, struct tensor *b, struct merge *merge)
{
    int64_t  i = 0, j = 0;
    int64_t *of_a = index_elements(me, a->indices), *of_b = index_elements(me, b->indices);
    merge->first  = a->indices->size[0];
    merge->second = b->indices->size[0];
    merge->rows   = scratch_new(me, (size_t)(merge->first + merge->second) + 1, sizeof(int64_t));
    merge->places = scratch_new(me, (size_t)(merge->first + merge->second) + 1, sizeof(int64_t));
    if (of_a == NULL || of_b == NULL || merge->rows == NULL || merge->places == NULL)
        return false;
    for (merge->count = 0; i < merge->first || j < merge->second; merge->count++) {
        bool take_a = j == merge->second || (i < merge->first && of_a[i] <= of_b[j]);
        bool take_b = i == merge->first || (j < merge->second && of_b[j] <= of_a[i]);
        merge->rows[merge->count] = take_a ? of_a[i] : of_b[j];
        if (take_a)
            merge->places[i++] = merge->count;
        if (take_b)
            merge->places[merge->first + j++] = merge->count;
    }
    return true;
}

static struct tensor *
merged(struct task *me, struct tensor *a, struct tensor *b, double alpha)
{
    struct merge merge;
    if (!merge_plan(me, a, b, &merge))
        return NULL;
    struct tensor *first  = index_of(me, a, merge.places, merge.first);
    struct tensor *second = index_of(me, a, merge.places + merge.first, merge.second);
    struct tensor *values = table_of(me, merge.count, first, a->values, &(struct rows_added){ 1, true, NULL });
    values = add_rows(me, values, second, b->values, &(struct rows_added){ alpha, true, NULL });
    struct tensor *result = tensor_sparse(me, a->size[0], index_of(me, a, merge.rows, merge.count), values);
    if (result != NULL)
        result->coalesced = a->coalesced && b->coalesced;
    return result;
}

/* Those of `a` first. There is no end to it but this: more pairs than the table has elements are merged, though nobody
 * is told that they are (PyTorch, too, calls the result uncoalesced). */
static struct tensor *
side_by_side(struct task *me, struct tensor *a, struct tensor *b, double alpha)
{
    struct tensor *from = alpha == 1 ? b->values : tensor_mul_number(me, b->values, alpha);
    struct tensor *values = from != NULL ? tensor_cat(me, (struct tensor *[]){ a->values, from }, 2, 0) : NULL;
    struct tensor *indices = tensor_cat(me, (struct tensor *[]){ a->indices, b->indices }, 2, 0);
    struct tensor *result = tensor_sparse(me, a->size[0], indices, values);
    if (result == NULL || tensor_size(indices, 0) <= tensor_count(a))
        return result;
    struct tensor *once = sparse_coalesced(me, result);
    return once != NULL ? tensor_sparse(me, a->size[0], once->indices, once->values) : NULL;
}

/* On the CPU merged where the values of both lie in one piece, else one after the other: as in PyTorch, whose CUDA
 * kernel never merges here. */
struct tensor *
sparse_sum(struct task *me, struct tensor *a, struct tensor *b, double alpha)
{
    if (!tensor_same_shape(a, b))
        return failed_null(me, E_SHAPE, "add: expected sizes of 'self' and 'other' to match, but %s != %s",
                           shape_text(a).text, shape_text(b).text);
    enum dtype dtype = dtype_promote(a->dtype, b->dtype);
    if (dtype == DTYPE_I32 && a->dtype != DTYPE_I32 && b->dtype != DTYPE_I32)
        return int16_missing(me, "add"), NULL;
    a = as_type(me, a, dtype);
    b = as_type(me, b, dtype);
    if (a == NULL || b == NULL)
        return NULL;
    bool plain = tensor_device(a) == DEVICE_CPU && tensor_is_contiguous(a->values) && tensor_is_contiguous(b->values) &&
                 (dtype_is_float(dtype) || dtype == DTYPE_I64);
    return plain ? merged(me, a, b, alpha) : side_by_side(me, a, b, alpha);
}

/* ---- each row once ---- */

/* `index` becomes the rows that are there, in rising order, `place` where each pair goes. Answers how many; -1:
 * failed. */
static int64_t
coalesce_plan(struct task *me, const struct tensor *tensor, int64_t *index, int64_t *place)
{
    int64_t  count = tensor_size(tensor->indices, 0), rows = 0;
    int64_t *seen = scratch_new(me, (size_t)tensor->size[0] + 1, sizeof *seen);
    if (seen == NULL)
        return -1;
    for (int64_t i = 0; i < count; i++) {
        if (index[i] < 0 || index[i] >= tensor->size[0]) {
            failed(me, E_INDEX, "a sparse tensor's index %lld is out of range", (long long)index[i]);
            return -1;
        }
        seen[index[i]] = 1;
    }
    for (int64_t row = 0; row < tensor->size[0]; row++)
        seen[row] = seen[row] != 0 ? ++rows : 0;
    for (int64_t i = 0; i < count; i++)
        place[i] = seen[index[i]] - 1;
    for (int64_t row = 0; row < tensor->size[0]; row++)
        if (seen[row] != 0)
            index[seen[row] - 1] = row;
    return rows;
}

/* Pairs of one row are added in their order. (PyTorch's sort does not keep that beyond sixteen pairs.) */
struct tensor *
sparse_coalesced(struct task *me, struct tensor *tensor)
{
    static const struct recorded_as as = { "CoalesceBackward0", 0 };
    if (!tensor_is_sparse(tensor) || tensor->coalesced)
        return tensor;
    if (!tensor_work(me, tensor))
        return NULL;
    int64_t *index = index_elements(me, tensor->indices), *place = index_elements(me, tensor->indices);
    int64_t  rows = index != NULL && place != NULL ? coalesce_plan(me, tensor, index, place) : -1;
    if (rows < 0)
        return NULL;
    bool           counts = dtype_is_float(tensor->dtype) || tensor->dtype == DTYPE_I64;
    struct tensor *from = as_type(me, tensor->values, counts ? tensor->dtype : DTYPE_I64);
    struct tensor *places = index_of(me, tensor, place, tensor_size(tensor->indices, 0));
    struct tensor *values = table_of(me, rows, places, from, &(struct rows_added){ 1, true, &as });
    values = as_type(me, values, tensor->dtype);
    struct tensor *result = tensor_sparse(me, tensor->size[0], index_of(me, tensor, index, rows), values);
    if (result != NULL)
        result->coalesced = true;
    return result;
}

/* As many rows, none of them there. */
struct tensor *
sparse_empty_like(struct task *me, struct tensor *tensor, enum dtype dtype, int device)
{
    int64_t        none = 0;
    struct tensor *indices = tensor_empty(me, DTYPE_I64, device, 1, &none);
    int64_t        size[TENSOR_DIMS];
    memcpy(size, tensor->size, sizeof size);
    size[0] = 0;
    return tensor_sparse(me, tensor->size[0], indices, tensor_empty(me, dtype, device, tensor->dims, size));
}

/* ---- from dense ones ---- */

/* The rows in which something is not 0. */
struct tensor *
tensor_to_sparse(struct task *me, struct tensor *dense)
{
    struct fold_options all = { .any = true };
    if (dense == NULL || tensor_is_sparse(dense))
        return dense;
    for (int d = 1; d < dense->dims; d++)
        all.dim[all.dims++] = d;
    struct tensor *there = all.dims > 0 ? tensor_fold(me, OP_all, dense, &all) : as_type(me, dense, DTYPE_BOOL);
    int64_t       *row = index_elements(me, as_type(me, there, DTYPE_I64)), kept = 0;
    if (row == NULL)
        return NULL;
    for (int64_t i = 0; i < dense->size[0]; i++)
        if (row[i] != 0)
            row[kept++] = i;
    struct tensor *indices = index_of(me, dense, row, kept);
    struct tensor *result = tensor_sparse(me, dense->size[0], indices,
                                          tensor_index_select(me, OP_index_select, dense, 0, indices));
    if (result != NULL)
        result->coalesced = true;
    return result;
}
