/* Several tensors joined to one, one cut into several, several stretched to one shape. */
#include <stdlib.h>
#include <string.h>
#include "autograd/call.h"
#include "base/str.h"
#include "functional/functions.h"
#include "sched/task.h"

/* ---- enough dimensions ---- */

/* Dimensions of size 1 are put in until there are enough: a vector becomes a row, in three dimensions (1, n, 1). */
static struct tensor *
at_least(struct task *me, struct tensor *x, int dims)
{
    if (x == NULL || x->dims >= dims)
        return x;
    if (dims == 3 && x->dims == 2)
        return tensor_unsqueeze(me, x, 2);
    if (dims == 3 && x->dims == 1)
        return tensor_unsqueeze(me, tensor_unsqueeze(me, x, 0), 2);
    while (x != NULL && x->dims < dims)
        x = tensor_unsqueeze(me, x, 0);
    return x;
}

struct tensor *
fn_atleast_1d(struct task *me, struct arguments *a)
{
    return at_least(me, a->at[0].tensor, 1);
}

struct tensor *
fn_atleast_2d(struct task *me, struct arguments *a)
{
    return at_least(me, a->at[0].tensor, 2);
}

struct tensor *
fn_atleast_3d(struct task *me, struct arguments *a)
{
    return at_least(me, a->at[0].tensor, 3);
}

/* ---- joined ---- */

/* cat and its other names: ValueError; the stacks, which count what they are given first: RuntimeError. */
static enum error_kind
empty_list_kind(const struct arguments *a)
{
    return strstr(a->function->signature.name, "cat") != NULL ? E_VALUE : E_RUNTIME;
}

static bool
has_parts(struct task *me, const struct arguments *a)
{
    return a->at[0].count > 0 || failed(me, empty_list_kind(a), "%s: expected a list of at least one tensor",
                                        a->function->signature.name);
}

struct tensor *
fn_cat(struct task *me, struct arguments *a)
{
    if (!has_parts(me, a))
        return NULL;
    return tensor_cat(me, a->at[0].tensors, a->at[0].count, (int)a->at[1].integer[0]);
}

struct tensor *
fn_stack(struct task *me, struct arguments *a)
{
    if (!has_parts(me, a))
        return NULL;
    return tensor_stack(me, a->at[0].tensors, a->at[0].count, (int)a->at[1].integer[0]);
}

/* Each with so many dimensions at least, along `dim`; a column_stack's vectors are columns. */
struct stacking { int dims, dim; bool columns; };

static struct tensor *
stack_up(struct task *me, struct arguments *a, struct stacking how)
{
    struct tensor **parts = a->at[0].tensors; /* the call's own list */
    if (!has_parts(me, a))
        return NULL;
    for (int i = 0; i < a->at[0].count; i++) {
        bool column = how.columns && parts[i]->dims < 2;
        parts[i]    = column ? tensor_reshape(me, parts[i], 2, (const int64_t[]){ tensor_count(parts[i]), 1 })
                             : at_least(me, parts[i], how.dims);
        if (parts[i] == NULL)
            return NULL;
    }
    return tensor_cat(me, parts, a->at[0].count, how.dim < parts[0]->dims ? how.dim : 0);
}

struct tensor *
fn_vstack(struct task *me, struct arguments *a)
{
    return stack_up(me, a, (struct stacking){ .dims = 2, .dim = 0 });
}

/* Of vectors along their only dimension. */
struct tensor *
fn_hstack(struct task *me, struct arguments *a)
{
    return stack_up(me, a, (struct stacking){ .dims = 1, .dim = 1 });
}

struct tensor *
fn_dstack(struct task *me, struct arguments *a)
{
    return stack_up(me, a, (struct stacking){ .dims = 3, .dim = 2 });
}

struct tensor *
fn_column_stack(struct task *me, struct arguments *a)
{
    return stack_up(me, a, (struct stacking){ .dims = 2, .dim = 1, .columns = true });
}

/* ---- cut ---- */

enum { MOST_PIECES = 1 << 20 };

/* Views of these lengths as the answer. */
static void
answer_pieces(struct task *me, struct arguments *a, int dim, const int64_t *lengths, int count)
{
    struct tensor **list = answer_list(me, a, count);
    struct pieces   pieces = { dim, count, lengths, a->at[1].integers != NULL };
    if (list != NULL && !tensor_split(me, a->at[0].tensor, &pieces, list))
        a->results = 0;
}

struct tensor *
fn_chunk(struct task *me, struct arguments *a)
{
    int64_t chunks = a->at[1].integer[0];
    int     dim    = (int)a->at[2].integer[0], count;
    if (chunks > MOST_PIECES)
        return failed_null(me, E_VALUE, "%lld chunks are too many", (long long)chunks);
    int64_t *lengths = scratch_new(me, (size_t)(chunks > 0 ? chunks : 1), sizeof *lengths);
    count = lengths != NULL ? chunk_lengths(me, a->at[0].tensor, chunks, dim, lengths) : 0;
    if (count > 0)
        answer_pieces(me, a, dim, lengths, count);
    return NULL;
}

/* Pieces of one size, the last one shorter. */
static struct tensor *
split_evenly(struct task *me, struct arguments *a, int dim)
{
    int64_t size = a->at[0].tensor->size[dim], piece = a->at[1].integer[0];
    if (piece <= 0)
        return failed_null(me, E_RUNTIME, "split expects a positive size, not %lld", (long long)piece);
    int64_t count = size == 0 ? 1 : (size - 1) / piece + 1;
    if (count > MOST_PIECES)
        return failed_null(me, E_VALUE, "%lld pieces are too many", (long long)count);
    int64_t *lengths = scratch_new(me, (size_t)count, sizeof *lengths);
    for (int64_t i = 0; i < count && lengths != NULL; i++)
        lengths[i] = size - i * piece < piece ? size - i * piece : piece;
    if (lengths != NULL)
        answer_pieces(me, a, dim, lengths, (int)count);
    return NULL;
}

static struct tensor *
lengths_differ(struct task *me, const struct argument *lengths, int64_t size, int dim)
{
    struct str text = { 0 };
    for (int i = 0; i < lengths->count && text.len < 200; i++)
        str_addf(&text, "%s%lld", i > 0 ? ", " : "", (long long)lengths->integers[i]);
    failed(me, E_RUNTIME, "split_with_sizes expects split_sizes to sum exactly to %lld (input tensor's size at "
           "dimension %d), but got split_sizes=[%s]", (long long)size, dim, str_ok(&text) ? str_text(&text) : "");
    str_free(&text);
    return NULL;
}

struct tensor *
fn_split(struct task *me, struct arguments *a)
{
    const struct argument *lengths = &a->at[1];
    int                    dim     = (int)a->at[2].integer[0];
    int64_t                total   = 0;
    if (a->at[0].tensor->dims == 0)
        return failed_null(me, E_RUNTIME, "split expects at least a 1-dimensional tensor");
    if (lengths->integers == NULL)
        return split_evenly(me, a, dim);
    int64_t size = a->at[0].tensor->size[dim];
    for (int i = 0; i < lengths->count && total <= size; i++) {
        int64_t left = size - total, length = lengths->integers[i];
        total += length >= 0 && length <= left ? length : left + 1;
    }
    if (total != size)
        return lengths_differ(me, lengths, size, dim);
    if (lengths->count == 0)
        return failed_null(me, E_RUNTIME, "split expects at least one length");
    answer_pieces(me, a, dim, lengths->integers, lengths->count);
    return NULL;
}

/* Where the i-th of `count` pieces ends: at a place that is listed, or as even as possible. */
static int64_t
piece_end(const struct argument *at, int64_t size, int64_t i, int64_t count)
{
    if (at->integers == NULL)
        return (i + 1) * (size / count) + (i + 1 < size % count ? i + 1 : size % count);
    if (i + 1 == count)
        return size;
    int64_t end = at->integers[i];
    return end < -size ? 0 : end < 0 ? end + size : end > size ? size : end;
}

static struct tensor *
cut_at_places(struct task *me, struct arguments *a, int dim)
{
    const struct argument *at    = &a->at[1];
    int64_t                size  = a->at[0].tensor->size[dim], start = 0;
    int64_t                count = at->integers != NULL ? (int64_t)at->count + 1 : at->integer[0];
    if (count < 1 || count > MOST_PIECES)
        return failed_null(me, E_RUNTIME, "tensor_split: %lld sections are not possible", (long long)count);
    struct tensor **list = answer_list(me, a, count);
    for (int64_t i = 0; list != NULL && i < count && !task_failed(me); i++) {
        int64_t end = piece_end(at, size, i, count), from = start < end ? start : end;
        list[i]     = tensor_narrow(me, a->at[0].tensor, dim, from, end - from);
        start       = end;
    }
    return NULL;
}

struct tensor *
fn_tensor_split(struct task *me, struct arguments *a)
{
    if (a->at[0].tensor->dims == 0)
        return failed_null(me, E_RUNTIME, "tensor_split expected at least a 1-dimensional tensor, but got a tensor "
                                          "with 0 dims");
    return cut_at_places(me, a, (int)a->at[2].integer[0]);
}

/* A number of sections must divide the size. */
static struct tensor *
cut_evenly(struct task *me, struct arguments *a, int dim)
{
    const char *name = a->function->signature.name;
    int64_t     size = a->at[0].tensor->size[dim], sections = a->at[1].integer[0];
    if (a->at[1].integers == NULL && (sections < 1 || size % sections != 0))
        return failed_null(me, E_RUNTIME, "%s: dimension %d of size %lld does not divide into %lld equal parts", name,
                           dim, (long long)size, (long long)sections);
    return cut_at_places(me, a, dim);
}

struct tensor *
fn_vsplit(struct task *me, struct arguments *a)
{
    if (a->at[0].tensor->dims < 2)
        return failed_null(me, E_RUNTIME, "vsplit requires a tensor with at least 2 dimensions, got %s",
                           shape_text(a->at[0].tensor).text);
    return cut_evenly(me, a, 0);
}

struct tensor *
fn_hsplit(struct task *me, struct arguments *a)
{
    if (a->at[0].tensor->dims < 1)
        return failed_null(me, E_RUNTIME, "hsplit requires a tensor with at least 1 dimensions");
    return cut_evenly(me, a, a->at[0].tensor->dims > 1);
}

struct tensor *
fn_unbind(struct task *me, struct arguments *a)
{
    struct tensor *x   = a->at[0].tensor;
    int            dim = (int)a->at[1].integer[0];
    if (x->dims == 0)
        return failed_null(me, E_INDEX, "unbind: dimension 0 is given but the tensor has no dimensions");
    if (x->size[dim] > MOST_PIECES)
        return failed_null(me, E_RUNTIME, "unbind: a tensor of %d dimensions and %lld slices", x->dims,
                           (long long)x->size[dim]);
    struct tensor **list = answer_list(me, a, x->size[dim]);
    if (list != NULL && !tensor_unbind(me, x, dim, list))
        a->results = 0;
    return NULL;
}

/* ---- stretched ---- */

/* The shape that all together have; false: failed. */
static bool
common_shape(struct task *me, const struct argument *of, int *dims, int64_t *sizes)
{
    *dims = 0;
    for (int i = 0; i < of->count; i++)
        *dims = of->tensors[i]->dims > *dims ? of->tensors[i]->dims : *dims;
    for (int d = 1; d <= *dims; d++) {
        int64_t *size = &sizes[*dims - d];
        *size         = 1;
        for (int i = 0; i < of->count; i++) {
            int64_t own = d <= of->tensors[i]->dims ? tensor_size(of->tensors[i], -d) : 1;
            if (own != 1 && *size != 1 && own != *size)
                return failed(me, E_RUNTIME, "broadcast_tensors: sizes %lld and %lld do not match at dimension -%d",
                              (long long)*size, (long long)own, d);
            *size = own != 1 ? own : *size;
        }
    }
    return true;
}

struct tensor *
fn_broadcast_tensors(struct task *me, struct arguments *a)
{
    int64_t sizes[TENSOR_DIMS];
    int     dims;
    if (!common_shape(me, &a->at[0], &dims, sizes) || answer_list(me, a, a->at[0].count) == NULL)
        return NULL;
    for (int i = 0; i < a->results && !task_failed(me); i++)
        a->list[i] = tensor_expand(me, a->at[0].tensors[i], dims, sizes);
    return NULL;
}

static bool
grid_possible(struct task *me, const struct argument *of, const char *indexing)
{
    if (strcmp(indexing, "ij") != 0 && strcmp(indexing, "xy") != 0)
        return failed(me, E_RUNTIME, "meshgrid: indexing must be \"ij\" or \"xy\", not \"%.20s\"", indexing);
    if (of->count < 1 || of->count > TENSOR_DIMS)
        return failed(me, E_RUNTIME, "meshgrid takes 1 to %d tensors, got %d", TENSOR_DIMS, of->count);
    for (int i = 0; i < of->count; i++)
        if (of->tensors[i]->dims > 1)
            return failed(me, E_RUNTIME, "meshgrid: expected vectors, but tensor %d has %d dimensions", i,
                          of->tensors[i]->dims);
    return true;
}

/* Vectors stretched over the grid that they span; "xy" turns the first two. */
struct tensor *
fn_meshgrid(struct task *me, struct arguments *a)
{
    struct argument *of = &a->at[0];
    int64_t          sizes[TENSOR_DIMS];
    bool             turned = strcmp(a->at[1].text, "xy") == 0 && of->count > 1;
    if (!grid_possible(me, of, a->at[1].text) || answer_list(me, a, of->count) == NULL)
        return NULL;
    for (int i = 0; i < of->count; i++)
        sizes[turned && i < 2 ? 1 - i : i] = tensor_count(of->tensors[i]);
    for (int i = 0; i < of->count && !task_failed(me); i++) {
        int64_t shape[TENSOR_DIMS] = { 1, 1, 1, 1, 1, 1, 1, 1 };
        shape[turned && i < 2 ? 1 - i : i] = tensor_count(of->tensors[i]);
        a->list[i] = tensor_expand(me, tensor_reshape(me, of->tensors[i], of->count, shape), of->count, sizes);
    }
    return NULL;
}
