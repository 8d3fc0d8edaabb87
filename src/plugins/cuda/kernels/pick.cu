/* Elements and rows by index: gather and scatter (an index for each element), index and its inverses (an index for
 * each row), flip, the triangles. A bad index is reported and left out. What comes to one place comes there in the
 * order of the indices, as in tensor/cpu/pick.c: the last that is put wins, and sums have one order.
 *
 * In PyTorch: ATen/native/cuda/ScatterGatherKernel.cu, IndexKernel.cu, Indexing.cu, TriangularOps.cu. */
#include "plugins/cuda/kernels/named.h"
#include "plugins/cuda/kernels/ordered.h"

/* What the first operand has, before others come into it; any type, by bytes. */
ON_DEVICE void
begin_with_first(const struct cpu_call &call)
{
    size_t  element = dtype_size(call.out.dtype);
    int64_t count = elements_of(call.out);
    for (int64_t i = first_item(); i < count; i += item_step())
        move_element(element_at(call.out.data, place_of(call.out, i), element),
                     element_at(operand(call, 0), place_of(call.in[0], i), element), element);
}

/* A symbol for each kernel that begins so: who sees only launches (a profiler, the tests' runtime) knows which it is. */
#define BEGINS(name)                                                                                               \
    KERNEL_OF(name, struct cpu_call)                                                                               \
    {                                                                                                              \
        begin_with_first(call);                                                                                    \
    }
BEGINS(renorm_begin)
BEGINS(scatter_begin)
BEGINS(scatter_add_begin)
BEGINS(index_put_begin)
BEGINS(index_add_begin)

/* *to += factor * *from, as tensor/cpu/pick.c adds each type. */
ON_DEVICE void
add_element(void *to, const void *from, enum dtype dtype, double factor)
{
    if (dtype == DTYPE_F32) {
        *static_cast<float *>(to) += (float)factor * *static_cast<const float *>(from);
    } else if (dtype == DTYPE_BOOL) {
        *static_cast<uint8_t *>(to) |= *static_cast<const uint8_t *>(from);
    } else if (dtype_is_float(dtype)) {
        store<double>(to, dtype, 0, load<double>(to, dtype, 0) + factor * load<double>(from, dtype, 0));
    } else {
        uint64_t sum = (uint64_t)load<int64_t>(to, dtype, 0) +
                       (uint64_t)int64_of_double(factor) * (uint64_t)load<int64_t>(from, dtype, 0);
        store<int64_t>(to, dtype, 0, (int64_t)sum);
    }
}

/* ---- an index for each element ---- */

/* Of element number i of the indices, in elements of `from` at index 0 of `dim`; the indices may lack that
 * dimension. */
CALLED_ON_DEVICE int64_t
gather_place(const struct cpu_view &from, const struct cpu_view &index, int dim, int64_t i)
{
    int64_t place = 0;
    ROLLED for (int d = index.dims - 1; d >= 0; d--) {
        int64_t outer = quotient(i, index.size[d]);
        int     at = index.dims < from.dims && d >= dim ? d + 1 : d;
        if (at != dim)
            place += (i - outer * index.size[d]) * from.stride[at];
        i = outer;
    }
    return place;
}

/* in: elements, indices. */
KERNEL_OF(pick_gather, struct cpu_call)
{
    const struct cpu_view &from = call.in[0], &index = call.in[1];
    size_t                 element = dtype_size(from.dtype);
    int                    dim = (int)call.dim;
    int64_t                count = elements_of(index), limit = from.dims > 0 ? from.size[dim] : 1;
    int64_t                step = from.dims > 0 ? from.stride[dim] : 0;
    for (int64_t i = first_item(); i < count; i += item_step()) {
        int64_t at = static_cast<const int64_t *>(operand(call, 1))[place_of(index, i)];
        if (inside_or_none(call, at, limit) == NO_PLACE)
            continue;
        move_element(element_at(call.out.data, place_of(call.out, i), element),
                     element_at(operand(call, 0), gather_place(from, index, dim, i) + at * step, element), element);
    }
}

/* Lines of the indices along `dim`: what one has to do with places no other has. */
struct line { const int64_t *index; char *to; const char *from; int64_t count, step, limit, to_step, from_step; };

/* in: elements, indices, source. */
ON_DEVICE struct line
line_of(const struct cpu_call &call, int64_t number)
{
    const struct cpu_view &index = call.in[1];
    int                    dim = (int)call.dim;
    size_t                 element = dtype_size(call.out.dtype);
    struct line            line = { static_cast<const int64_t *>(operand(call, 1)), static_cast<char *>(call.out.data),
                                    static_cast<const char *>(operand(call, 2)), 1, 0, 1, 0, 0 };
    if (index.dims == 0)
        return line;
    line.index += place_beside(index, dim, number);
    line.to += place_like(index, call.out, dim, number) * (int64_t)element;
    line.from += place_like(index, call.in[2], dim, number) * (int64_t)element;
    line.count     = index.size[dim];
    line.step      = index.stride[dim];
    line.limit     = call.out.size[dim];
    line.to_step   = call.out.stride[dim] * (int64_t)element;
    line.from_step = call.in[2].stride[dim] * (int64_t)element;
    return line;
}

ON_DEVICE void
scatter_entry(const struct cpu_call &call, const struct line &line, int64_t place, int64_t i, bool add)
{
    char       *to = line.to + place * line.to_step;
    const char *from = line.from + i * line.from_step;
    if (add)
        add_element(to, from, call.out.dtype, 1);
    else
        move_element(to, from, dtype_size(call.out.dtype));
}

/* Where there are many lines, or short ones, a thread has a line. */
enum { LINES_FOR_ALL = 1 << 14, SHORT_LINE = 32 };

ON_DEVICE void
scatter_lines(const struct cpu_call &call, bool add)
{
    const struct cpu_view &index = call.in[1];
    int64_t                length = index.dims > 0 ? index.size[call.dim] : 1;
    int64_t                lines = length > 0 ? elements_of(index) / length : 0;
    if (lines >= LINES_FOR_ALL || length <= SHORT_LINE) {
        for (int64_t n = first_item(); n < lines; n += item_step()) {
            struct line line = line_of(call, n);
            for (int64_t i = 0; i < line.count; i++) {
                int64_t place = inside_or_none(call, line.index[i * line.step], line.limit);
                if (place != NO_PLACE)
                    scatter_entry(call, line, place, i, add);
            }
        }
        return;
    }
    for (int64_t n = block_index(); n < lines; n += block_count()) {
        struct line line = line_of(call, n);
        in_order(
            line.count, [&](int64_t i) { return inside_or_none(call, line.index[i * line.step], line.limit); },
            [&](int64_t place, int64_t i) { scatter_entry(call, line, place, i, add); });
    }
}

KERNEL_OF(pick_scatter, struct cpu_call)
{
    scatter_lines(call, false);
}

KERNEL_OF(pick_scatter_add, struct cpu_call)
{
    scatter_lines(call, true);
}

/* ---- an index for each row of dimension `dim` ---- */

/* Elements of the packed side are counted [outer, index, inner], those of a row [outer, inner]. */
ON_DEVICE int64_t
inner_of(const struct cpu_view &whole, int dim)
{
    int64_t inner = 1;
    for (int d = dim + 1; d < whole.dims; d++)
        inner *= whole.size[d];
    return inner;
}

/* in: elements, indices of any shape, which takes the place of dimension dim. */
KERNEL_OF(pick_index, struct cpu_call)
{
    const struct cpu_view &whole = call.in[0];
    int                    dim = (int)call.dim;
    size_t                 element = dtype_size(call.out.dtype);
    int64_t                inner = inner_of(whole, dim), indices = elements_of(call.in[1]);
    int64_t                count = elements_of(call.out);
    for (int64_t i = first_item(); i < count; i += item_step()) {
        int64_t  outside = quotient(i, inner), q = i - outside * inner, outer = quotient(outside, indices);
        uint64_t row = named_row(call, whole.size[dim], true, outside - outer * indices);
        if (row == NAMES_NOTHING)
            continue;
        int64_t from = place_beside(whole, dim, outer * inner + q) + (int64_t)row * whole.stride[dim];
        move_element(element_at(call.out.data, place_of(call.out, i), element),
                     element_at(operand(call, 0), from, element), element);
    }
}

/* in: elements, indices, rows. A thread has a column of a named row: the last position puts, or all add. */
ON_DEVICE void
into_rows(const struct cpu_call &call, bool add)
{
    const struct cpu_view &whole = call.out, &rows = call.in[2];
    struct named           named = named_of(call);
    int                    dim = (int)call.dim;
    size_t                 element = dtype_size(whole.dtype), other = dtype_size(rows.dtype);
    int64_t                inner = inner_of(whole, dim);
    int64_t                columns = whole.size[dim] > 0 ? elements_of(whole) / whole.size[dim] : 0;
    for (int64_t e = first_item(); e < named.count * columns; e += item_step()) {
        int64_t at = quotient(e, columns), column = e - at * columns, outer = quotient(column, inner);
        if (!named_head(named, at))
            continue;
        int64_t end = named_end(named, at), row = (int64_t)named.rows[at];
        void   *to = element_at(whole.data, place_beside(whole, dim, column) + row * whole.stride[dim], element);
        for (int64_t i = add ? at : end - 1; i < end; i++) {
            int64_t     packed = (outer * named.count + named.positions[i]) * inner + column - outer * inner;
            const void *from = element_at(operand(call, 2), place_of(rows, packed), other);
            if (add)
                add_element(to, from, whole.dtype, call.alpha);
            else
                convert_element(to, whole.dtype, from, rows.dtype);
        }
    }
}

/* Of equal indices the last wins. */
KERNEL_OF(pick_index_put, struct cpu_call)
{
    into_rows(call, false);
}

/* alpha: factor of what is added. */
KERNEL_OF(pick_index_add, struct cpu_call)
{
    into_rows(call, true);
}

/* ---- other orders ---- */

CALLED_ON_DEVICE int64_t
flipped_place(const struct cpu_view &from, int64_t turned, int64_t i)
{
    int64_t place = 0;
    ROLLED for (int d = from.dims - 1; d >= 0; d--) {
        int64_t outer = quotient(i, from.size[d]), index = i - outer * from.size[d];
        place += (turned >> d & 1 ? from.size[d] - 1 - index : index) * from.stride[d];
        i = outer;
    }
    return place;
}

/* start: bit d turns dimension d round. */
KERNEL_OF(pick_flip, struct cpu_call)
{
    size_t  element = dtype_size(call.out.dtype);
    int64_t count = elements_of(call.out);
    for (int64_t i = first_item(); i < count; i += item_step())
        move_element(element_at(call.out.data, place_of(call.out, i), element),
                     element_at(operand(call, 0), flipped_place(call.in[0], call.start, i), element), element);
}

/* Rows and columns of the last two dimensions: those above (below) the diagonal `start` become 0. */
ON_DEVICE void
cut_triangle(const struct cpu_call &call, bool upper)
{
    const struct cpu_view &out = call.out;
    size_t                 element = dtype_size(out.dtype);
    int64_t rows = out.size[out.dims - 2], columns = out.size[out.dims - 1], count = elements_of(out);
    for (int64_t i = first_item(); i < count; i += item_step()) {
        int64_t line = quotient(i, columns), column = i - line * columns, row = line - quotient(line, rows) * rows;
        void   *to = element_at(out.data, place_of(out, i), element);
        if (upper ? column - row < call.start : column - row > call.start)
            clear_element(to, element);
        else
            move_element(to, element_at(operand(call, 0), place_of(call.in[0], i), element), element);
    }
}

KERNEL_OF(pick_tril, struct cpu_call)
{
    cut_triangle(call, false);
}

KERNEL_OF(pick_triu, struct cpu_call)
{
    cut_triangle(call, true);
}
