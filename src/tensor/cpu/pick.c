/* Elements and rows by index: gather and scatter (an index for each element), index and its inverses (an index for each
 * row), flip, the triangles. A bad index is reported and left out. What is added at one place is added in the order of
 * the indices. In PyTorch: ATen/native/cpu/ScatterGatherKernel.cpp, IndexKernel.cpp. */
#include <string.h>
#include "base/number.h"
#include "tensor/cpu/convert.h"
#include "tensor/cpu/kernels.h"
#include "tensor/cpu/reduce.h"

/* Negative indices count from the end where `wraps`. */
static bool
is_index(const struct cpu_call *call, int64_t *index, int64_t size, bool wraps)
{
    int64_t asked = *index;
    if (wraps && asked < 0)
        *index += size;
    if (*index >= 0 && *index < size)
        return true;
    fault_raise(call->fault, asked, size);
    return false;
}

static void
add_element(void *to, const void *from, enum dtype dtype, double factor)
{
    switch (dtype) {
    case DTYPE_F32: *(float *)to += (float)factor * *(const float *)from; break;
    case DTYPE_F64: *(double *)to += factor * *(const double *)from; break;
    case DTYPE_I64:
        *(int64_t *)to = (int64_t)(*(uint64_t *)to + (uint64_t)int64_of_double(factor) * *(const uint64_t *)from);
        break;
    case DTYPE_BOOL: *(unsigned char *)to |= *(const unsigned char *)from; break;
    case DTYPE_I32: case DTYPE_U8: case DTYPE_I8: {
        uint64_t sum = (uint64_t)dtype_whole(dtype, to) +
                       (uint64_t)int64_of_double(factor) * (uint64_t)dtype_whole(dtype, from);
        dtype_put_whole(dtype, to, (int64_t)sum);
        break;
    }
    default: dtype_put_fraction(dtype, to, dtype_fraction(dtype, to) + factor * dtype_fraction(dtype, from)); break;
    }
}

/* The indices' view: one that has lost the dimension (of max over a dimension) gets it back with size 1. */
static struct cpu_view
with_dim(const struct cpu_view *view, int dims, int dim)
{
    struct cpu_view whole = *view;
    if (view->dims == dims)
        return whole;
    whole.dims = dims;
    for (int d = dims - 1; d > dim; d--) {
        whole.size[d]   = view->size[d - 1];
        whole.stride[d] = view->stride[d - 1];
    }
    whole.size[dim]   = 1;
    whole.stride[dim] = 0;
    return whole;
}

/* Sizes cut to those of `like`. */
static struct cpu_view
cut_like(const struct cpu_view *view, const struct cpu_view *like)
{
    struct cpu_view cut = *view;
    memcpy(cut.size, like->size, sizeof cut.size);
    return cut;
}

/* in: elements, indices. out[i][j] = in[i][index[i][j]] */
void
pick_gather(const struct cpu_call *call)
{
    int                    dims = call->in[0].dims, dim = (int)call->dim;
    struct cpu_view        index = with_dim(&call->in[1], dims, dim), out = with_dim(&call->out, dims, dim);
    struct cpu_view        from = cut_like(&call->in[0], &index);
    int64_t                element = (int64_t)dtype_size(from.dtype), size = dims > 0 ? call->in[0].size[dim] : 1;
    int64_t                step = dims > 0 ? from.stride[dim] * element : 0;
    if (dims > 0)
        from.stride[dim] = 0;
    const struct cpu_view *views[3] = { &out, &index, &from };
    struct loop            loop;
    for (loop_begin(&loop, views, 3); loop.more; loop_next(&loop)) {
        for (int64_t i = 0; i < loop.run; i++) {
            int64_t at = *(int64_t *)(loop.at[1] + i * loop.step[1]);
            if (is_index(call, &at, size, false))
                memcpy(loop.at[0] + i * loop.step[0], loop.at[2] + i * loop.step[2] + at * step, (size_t)element);
        }
    }
}

/* in: elements, indices, source. */
static void
scatter_elements(const struct cpu_call *call, bool add)
{
    int                    dims = call->out.dims, dim = (int)call->dim;
    const struct cpu_view *index = &call->in[1];
    struct cpu_view        from = cut_like(&call->in[2], index), to = cut_like(&call->out, index);
    int64_t                element = (int64_t)dtype_size(to.dtype), size = dims > 0 ? call->out.size[dim] : 1;
    int64_t                step = dims > 0 ? to.stride[dim] * element : 0;
    if (dims > 0)
        to.stride[dim] = 0;
    const struct cpu_view *views[3] = { &to, index, &from };
    struct loop            loop;
    cpu_copy(call);
    for (loop_begin(&loop, views, 3); loop.more; loop_next(&loop)) {
        for (int64_t i = 0; i < loop.run; i++) {
            int64_t     at = *(int64_t *)(loop.at[1] + i * loop.step[1]);
            char       *into = loop.at[0] + i * loop.step[0];
            const char *source = loop.at[2] + i * loop.step[2];
            if (!is_index(call, &at, size, false))
                continue;
            if (add)
                add_element(into + at * step, source, to.dtype, 1);
            else
                memcpy(into + at * step, source, (size_t)element);
        }
    }
}

void
pick_scatter(const struct cpu_call *call)
{
    scatter_elements(call, false);
}

void
pick_scatter_add(const struct cpu_call *call)
{
    scatter_elements(call, true);
}

/* ---- rows ---- */

/* One row of dimension `dim`, and of the packed side: the index' dimensions stand in that one's place. */
struct rows { struct cpu_view whole, packed; int64_t step; };

static struct rows
picked_rows(const struct cpu_view *whole, const struct cpu_view *packed, int dim, int index_dims)
{
    struct rows rows = { .whole = view_without(whole, dim), .packed = *packed };
    rows.step = whole->dims > 0 ? whole->stride[dim] * (int64_t)dtype_size(whole->dtype) : 0;
    for (int i = 0; i < index_dims; i++)
        rows.packed = view_without(&rows.packed, dim);
    return rows;
}

/* Where the packed side's row for the index at `index` begins: its dimensions from `dim` on go with the index'. */
static struct cpu_view
packed_starts(const struct cpu_view *packed, const struct cpu_view *index, int dim)
{
    struct cpu_view starts = { .data = packed->data, .dtype = packed->dtype, .dims = index->dims };
    for (int i = 0; i < index->dims; i++) {
        starts.size[i]   = packed->size[dim + i];
        starts.stride[i] = packed->stride[dim + i];
    }
    return starts;
}

/* Between row `at` of the whole and a packed row. */
static void
move_row(const struct cpu_view *to, const struct cpu_view *from, bool add, double factor)
{
    const struct cpu_view *views[2] = { to, from };
    int64_t     into = (int64_t)dtype_size(to->dtype), element = (int64_t)dtype_size(from->dtype);
    struct loop loop;
    for (loop_begin(&loop, views, 2); loop.more; loop_next(&loop)) {
        if (!add) {
            cpu_convert(loop.at[0], every(to->dtype, loop.step[0] / into), loop.at[1],
                        every(from->dtype, loop.step[1] / element), loop.run);
            continue;
        }
        for (int64_t i = 0; i < loop.run; i++)
            add_element(loop.at[0] + i * loop.step[0], loop.at[1] + i * loop.step[1], to->dtype, factor);
    }
}

enum row_move { ROW_TAKE, ROW_PUT, ROW_ADD };

static void
each_row(const struct cpu_call *call, const struct cpu_view *whole, const struct cpu_view *packed, enum row_move move)
{
    int                    dim = (int)call->dim;
    const struct cpu_view *index = &call->in[1];
    struct rows            rows = picked_rows(whole, packed, dim, index->dims);
    struct cpu_view        starts = packed_starts(packed, index, dim);
    const struct cpu_view *views[2] = { index, &starts };
    int64_t                size = whole->dims > 0 ? whole->size[dim] : 1;
    struct loop            loop;
    for (loop_begin(&loop, views, 2); loop.more; loop_next(&loop)) {
        for (int64_t i = 0; i < loop.run; i++) {
            int64_t at = *(int64_t *)(loop.at[0] + i * loop.step[0]);
            if (!is_index(call, &at, size, true))
                continue;
            struct cpu_view row = rows.whole;
            row.data         = (char *)row.data + at * rows.step;
            rows.packed.data = loop.at[1] + i * loop.step[1];
            if (move == ROW_TAKE)
                move_row(&rows.packed, &row, false, 1);
            else
                move_row(&row, &rows.packed, move == ROW_ADD, call->alpha);
        }
    }
}

/* in: elements, indices of any shape, which takes the place of dimension dim. */
void
pick_index(const struct cpu_call *call)
{
    each_row(call, &call->in[0], &call->out, ROW_TAKE);
}

/* in: elements, indices, rows to put in their places; of equal indices the last wins. */
void
pick_index_put(const struct cpu_call *call)
{
    cpu_copy(call);
    each_row(call, &call->out, &call->in[2], ROW_PUT);
}

/* alpha: factor of what is added. */
void
pick_index_add(const struct cpu_call *call)
{
    cpu_copy(call);
    each_row(call, &call->out, &call->in[2], ROW_ADD);
}

/* ---- other orders ---- */

/* start: bit d turns dimension d round. */
void
pick_flip(const struct cpu_call *call)
{
    struct cpu_call turned = *call;
    struct cpu_view *in = &turned.in[0];
    for (int d = 0; d < in->dims; d++) {
        if (!(call->start >> d & 1) || in->size[d] == 0)
            continue;
        in->data      = (char *)in->data + (in->size[d] - 1) * in->stride[d] * (int64_t)dtype_size(in->dtype);
        in->stride[d] = -in->stride[d];
    }
    cpu_copy(&turned);
}

/* Rows and columns of the last two dimensions: those above (below) the diagonal `start` become 0. */
static void
cut_triangle(const struct cpu_call *call, bool upper)
{
    struct cpu_view out = call->out;
    int64_t rows = out.size[out.dims - 2], columns = out.size[out.dims - 1], element = (int64_t)dtype_size(out.dtype);
    struct cpu_view heads = view_without(&out, out.dims - 1);
    heads = view_without(&heads, heads.dims - 1);
    const struct cpu_view *views[1] = { &heads };
    struct loop loop;
    cpu_copy(call);
    for (loop_begin(&loop, views, 1); loop.more; loop_next(&loop)) {
        for (int64_t i = 0; i < loop.run * rows * columns; i++) {
            int64_t row = i / columns % rows, column = i % columns, matrix = i / (rows * columns);
            char   *at = loop.at[0] + matrix * loop.step[0] +
                         (row * out.stride[out.dims - 2] + column * out.stride[out.dims - 1]) * element;
            if (upper ? column - row < call->start : column - row > call->start)
                memset(at, 0, (size_t)element);
        }
    }
}

void
pick_tril(const struct cpu_call *call)
{
    cut_triangle(call, false);
}

void
pick_triu(const struct cpu_call *call)
{
    cut_triangle(call, true);
}
