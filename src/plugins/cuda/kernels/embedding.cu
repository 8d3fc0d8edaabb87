/* Rows of a table by index, the table's gradient, sparse updates, and rows made no longer than a norm. Rows are
 * added in the order of their positions: the indices are sorted first (named.h), then a thread takes a column of a
 * row that is named.
 *
 * In PyTorch: ATen/native/cuda/Embedding.cu, EmbeddingBackwardKernel.cu. */
#include "plugins/cuda/kernels/math.h"
#include "plugins/cuda/kernels/named.h"
#include "tensor/cpu/renorm.h"

struct alignas(16) sixteen { uint64_t half[2]; };

/* Rows that lie in one piece go in pieces of `unit` bytes: sixteen where everything divides by that. */
ON_DEVICE size_t
unit_of(const struct cpu_call &call, size_t element)
{
    const struct cpu_view &weight = call.in[0];
    uint64_t mixed = (uint64_t)(uintptr_t)weight.data | (uint64_t)(uintptr_t)call.out.data |
                     (uint64_t)weight.size[1] * element | (uint64_t)weight.stride[0] * element;
    return weight.stride[1] == 1 && mixed % sizeof(struct sixteen) == 0 ? sizeof(struct sixteen) : element;
}

ON_DEVICE void
move_unit(void *to, const void *from, size_t unit)
{
    if (unit == sizeof(struct sixteen))
        *static_cast<struct sixteen *>(to) = *static_cast<const struct sixteen *>(from);
    else
        move_element(to, from, unit);
}

ON_DEVICE void
clear_unit(void *to, size_t unit)
{
    const struct sixteen nothing = {};
    move_unit(to, &nothing, unit);
}

/* A bad index is reported and its row is zeros. */
KERNEL_OF(embedding, struct cpu_call)
{
    const struct cpu_view &weight = call.in[0], &indices = call.in[1];
    size_t        element = dtype_size(weight.dtype), unit = unit_of(call, element);
    int64_t       wide = weight.size[1] * (int64_t)element / (int64_t)unit, count = elements_of(indices) * wide;
    int64_t       step = unit == element ? weight.stride[1] : 1;
    const int64_t *index = static_cast<const int64_t *>(operand(call, 1));
    for (int64_t i = first_item(); i < count; i += item_step()) {
        int64_t position = quotient(i, wide), j = i - position * wide, row = index[place_of(indices, position)];
        void   *to = element_at(call.out.data, i, unit);
        if (row >= 0 && row < weight.size[0]) {
            move_unit(to, element_at(element_at(weight.data, row * weight.stride[0], element), j * step, unit), unit);
            continue;
        }
        if (j == 0)
            raise_fault(call.fault, row, weight.size[0]);
        clear_unit(to, unit);
    }
}

/* ---- the gradient; in: gradient, indices; start: the row that gets none; step 1: divided by how often it was named
 * ---- */

KERNEL_OF(embedding_clear, struct cpu_call)
{
    size_t  element = dtype_size(call.out.dtype);
    int64_t count = elements_of(call.out);
    for (int64_t i = first_item(); i < count; i += item_step())
        clear_element(element_at(call.out.data, i, element), element);
}

template <typename T> ON_DEVICE void
add_gradients(const struct cpu_call &call)
{
    struct named named = named_of(call);
    Elements<T>  grad = elements<T>(call, 0);
    int64_t      wide = call.out.size[1];
    for (int64_t e = first_item(); e < named.count * wide; e += item_step()) {
        int64_t at = quotient(e, wide), j = e - at * wide;
        if (!named_head(named, at) || (int64_t)named.rows[at] == call.start)
            continue;
        int64_t end = named_end(named, at);
        T       sum = 0;
        for (int64_t i = at; i < end; i++)
            sum += grad[named.positions[i] * wide + j];
        if (call.step == 1 && end - at > 1)
            sum /= (T)(end - at);
        static_cast<T *>(call.out.data)[(int64_t)named.rows[at] * wide + j] = sum;
    }
}

KERNEL_OF(embedding_backward, struct cpu_call)
{
    if (call.compute == DTYPE_F32)
        add_gradients<float>(call);
    else
        add_gradients<double>(call);
}

/* ---- rows times alpha added to a table's; in: table, indices, rows in one piece ---- */

/* Where the result is the table itself, rows that nobody names are not touched. */
KERNEL_OF(add_rows_begin, struct cpu_call)
{
    size_t  element = dtype_size(call.out.dtype);
    int64_t count = elements_of(call.out);
    if (call.out.data == call.in[0].data)
        return;
    for (int64_t i = first_item(); i < count; i += item_step())
        move_element(element_at(call.out.data, i, element),
                     element_at(operand(call, 0), place_of(call.in[0], i), element), element);
}

ON_DEVICE float
added(float sum, float alpha, float x)
{
    return alpha == 1 ? sum + x : fmaf(alpha, x, sum);
}

ON_DEVICE double
added(double sum, double alpha, double x)
{
    return alpha == 1 ? sum + x : fma(alpha, x, sum);
}

ON_DEVICE int64_t
added(int64_t sum, int64_t alpha, int64_t x)
{
    return (int64_t)((uint64_t)alpha * (uint64_t)x + (uint64_t)sum);
}

template <typename T> ON_DEVICE void
add_to_rows(const struct cpu_call &call, T alpha)
{
    struct named named = named_of(call);
    const T     *rows = static_cast<const T *>(operand(call, 2));
    int64_t      wide = 1;
    for (int d = 1; d < call.in[2].dims; d++)
        wide *= call.in[2].size[d];
    for (int64_t e = first_item(); e < named.count * wide; e += item_step()) {
        int64_t at = quotient(e, wide), j = e - at * wide;
        if (!named_head(named, at))
            continue;
        int64_t end = named_end(named, at);
        T      *to = static_cast<T *>(call.out.data) + (int64_t)named.rows[at] * wide + j, sum = *to;
        for (int64_t i = at; i < end; i++)
            sum = added(sum, alpha, rows[named.positions[i] * wide + j]);
        *to = sum;
    }
}

KERNEL_OF(add_rows, struct cpu_call)
{
    if (call.compute == DTYPE_F32)
        add_to_rows<float>(call, (float)call.alpha);
    else if (call.compute == DTYPE_F64)
        add_to_rows<double>(call, call.alpha);
    else
        add_to_rows<int64_t>(call, (int64_t)call.alpha);
}

/* ---- max_norm; in: weight, indices; alpha: the norm, beta: which one ---- */

/* A thread has a row; who has it too writes the same. */
template <typename T> ON_DEVICE void
shorten(const struct cpu_call &call)
{
    const struct cpu_view &indices = call.in[1];
    Elements<T>            weight = elements<T>(call, 0);
    int64_t                rows = call.out.size[0], wide = call.out.size[1], count = elements_of(indices);
    for (int64_t i = first_item(); i < count; i += item_step()) {
        int64_t row = static_cast<const int64_t *>(operand(call, 1))[place_of(indices, i)];
        if (row < 0 || row >= rows) {
            raise_fault(call.fault, row, rows);
            continue;
        }
        double sum = 0;
        for (int64_t j = 0; j < wide; j++)
            sum = norm_with(sum, (double)weight[row * wide + j], call.beta);
        double norm = norm_end(sum, call.beta), scale = call.alpha / (norm + 1e-7);
        for (int64_t j = 0; norm > call.alpha && j < wide; j++)
            static_cast<T *>(call.out.data)[row * wide + j] = (T)((double)weight[row * wide + j] * scale);
    }
}

KERNEL_OF(embedding_renorm, struct cpu_call)
{
    if (call.compute == DTYPE_F32)
        shorten<float>(call);
    else
        shorten<double>(call);
}
