/* Sparse tensors as a script sees them: made from indices and values, asked for their parts. In PyTorch:
 * torch.sparse_coo_tensor, Tensor.coalesce, Tensor.indices; here with one sparse dimension, the first. */
#include <string.h>
#include "autograd/call.h"
#include "functional/create.h"
#include "functional/functions.h"
#include "sched/task.h"

/* ---- making ---- */

/* The size that is given, or as large as the indices ask for. false: failed. */
static bool
sparse_size(struct task *me, const struct sparse_parts *parts, const int64_t *index, struct making *out)
{
    const struct tensor *values = parts->values;
    int64_t              rows = parts->size != NULL ? parts->size[0] : 0, pairs = values->size[0];
    for (int64_t i = 0; i < pairs; i++) {
        if (parts->size == NULL && index[i] >= rows)
            rows = index[i] + 1;
        if (index[i] < 0 || index[i] >= rows)
            return failed(me, E_RUNTIME, "size is inconsistent with indices: for dim 0, size is %lld but found index "
                                         "%lld", (long long)rows, (long long)index[i]);
        if (parts->coalesced > 0 && i > 0 && index[i] <= index[i - 1])
            return failed(me, E_RUNTIME, "cannot set is_coalesced to true if indices correspond to uncoalesced COO "
                                         "tensor");
    }
    out->dims = values->dims;
    memcpy(out->sizes, values->size, sizeof out->sizes);
    out->sizes[0] = rows;
    return true;
}

static bool
parts_fit(struct task *me, const struct sparse_parts *parts)
{
    const struct tensor *indices = parts->indices, *values = parts->values;
    if (tensor_is_sparse(indices) || tensor_is_sparse(values))
        return failed(me, E_RUNTIME, "the parts of a sparse tensor are dense");
    if (indices->dims != 2)
        return failed(me, E_RUNTIME, "indices must be sparse_dim x nnz, but got a tensor of %d dimensions",
                      indices->dims);
    if (indices->size[0] != 1)
        return failed(me, E_NOT_IMPLEMENTED, "sparse tensors here have one sparse dimension, the rows, as gradients of "
                                             "embeddings have; these indices have %lld", (long long)indices->size[0]);
    if (values->dims < 1 || indices->size[1] != values->size[0])
        return failed(me, E_RUNTIME, "indices and values must have same nnz, but got nnz from indices: %lld, nnz from "
                                     "values: %lld", (long long)indices->size[1], (long long)tensor_size(values, 0));
    if (parts->size == NULL)
        return true;
    if (parts->dims != values->dims)
        return failed(me, E_RUNTIME, "'len(size) == sparse_dim + dense_dim' is not satisfied: len(size) = %d, "
                                     "sparse_dim = 1, dense_dim = %d", parts->dims, values->dims - 1);
    for (int d = 1; d < values->dims; d++)
        if (parts->size[d] != values->size[d])
            return failed(me, E_RUNTIME, "values has incorrect size, expected %lld in dimension %d, got %lld",
                          (long long)parts->size[d], d, (long long)values->size[d]);
    return parts->size[0] >= 0 || failed(me, E_RUNTIME, "a size cannot be negative: %lld", (long long)parts->size[0]);
}

struct tensor *
sparse_coo_tensor(struct task *me, const struct sparse_parts *parts)
{
    struct making size = { .dims = 0 };
    if (parts->indices == NULL || parts->values == NULL || !parts_fit(me, parts))
        return NULL;
    int64_t        pairs = parts->indices->size[1];
    struct tensor *indices = tensor_copy_to(me, parts->indices, parts->device, DTYPE_I64);
    struct tensor *values = tensor_copy_to(me, parts->values, parts->device, parts->dtype);
    indices = indices != NULL ? tensor_reshape(me, indices, 1, &pairs) : NULL;
    int64_t *index = indices != NULL ? scratch_new(me, (size_t)pairs + 1, sizeof *index) : NULL;
    if (index == NULL || values == NULL || !tensor_read(me, indices, index) || !sparse_size(me, parts, index, &size))
        return NULL;
    struct tensor *sparse = tensor_sparse(me, size.sizes[0], indices, values);
    if (sparse != NULL && parts->coalesced >= 0)
        sparse->coalesced = parts->coalesced > 0;
    return sparse;
}

struct tensor *
fn_to_sparse(struct task *me, struct arguments *a)
{
    struct tensor *x = a->at[0].tensor;
    int64_t        sparse_dim = a->at[1].none ? tensor_dims(x) : a->at[1].integer[0];
    if (!tensor_is_sparse(x) && (sparse_dim != 1 || tensor_dims(x) < 1))
        return failed_null(me, E_NOT_IMPLEMENTED, "sparse tensors here have one sparse dimension, the rows, as "
                                                  "gradients of embeddings have: use t:to_sparse(1)");
    return tensor_to_sparse(me, x);
}

/* ---- its parts ---- */

static struct tensor *
sparse_argument(struct task *me, const struct arguments *a)
{
    struct tensor *x = a->at[0].tensor;
    if (tensor_is_sparse(x))
        return x;
    return failed_null(me, E_RUNTIME, "%s expected a sparse tensor, this one is strided", a->function->signature.name);
}

static struct tensor *
coalesced_argument(struct task *me, const struct arguments *a)
{
    struct tensor *x = sparse_argument(me, a);
    if (x == NULL || x->coalesced)
        return x;
    return failed_null(me, E_RUNTIME, "Cannot get %s on an uncoalesced tensor, please call t:coalesce() first",
                       a->function->signature.name);
}

struct tensor *
fn_is_coalesced(struct task *me, struct arguments *a)
{
    struct tensor *x = sparse_argument(me, a);
    a->number = x != NULL && x->coalesced;
    return NULL;
}

struct tensor *
fn_nnz(struct task *me, struct arguments *a)
{
    a->number = (double)tensor_size(sparse_argument(me, a) != NULL ? a->at[0].tensor->indices : NULL, 0);
    return NULL;
}

struct tensor *
fn_sparse_dim(struct task *me, struct arguments *a)
{
    (void)me;
    a->number = tensor_is_sparse(a->at[0].tensor);
    return NULL;
}

struct tensor *
fn_dense_dim(struct task *me, struct arguments *a)
{
    (void)me;
    a->number = a->at[0].tensor->dims - tensor_is_sparse(a->at[0].tensor);
    return NULL;
}

/* [1, pairs] */
static struct tensor *
indices_of(struct task *me, struct tensor *x)
{
    return x != NULL ? tensor_unsqueeze(me, x->indices, 0) : NULL;
}

/* Without the underscore of coalesced ones alone, and part of the graph. */
struct tensor *
fn_indices(struct task *me, struct arguments *a)
{
    return indices_of(me, sparse_argument(me, a));
}

struct tensor *
fn_coalesced_indices(struct task *me, struct arguments *a)
{
    return indices_of(me, coalesced_argument(me, a));
}

struct tensor *
fn_values(struct task *me, struct arguments *a)
{
    struct tensor *x = sparse_argument(me, a);
    return x != NULL ? tensor_detach(me, x->values) : NULL;
}

struct tensor *
fn_coalesced_values(struct task *me, struct arguments *a)
{
    struct tensor *x = coalesced_argument(me, a);
    return x != NULL ? x->values : NULL;
}

struct tensor *
fn_to_dense(struct task *me, struct arguments *a)
{
    return tensor_to_dense(me, a->at[0].tensor);
}

struct tensor *
fn_coalesce(struct task *me, struct arguments *a)
{
    return sparse_coalesced(me, sparse_argument(me, a));
}
