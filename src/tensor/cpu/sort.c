/* The order of the elements along a dimension, as indices: a stable merge sort, so of equal elements the first
 * comes first. NaN is larger than everything. In PyTorch: ATen/native/cpu/SortingKernel.cpp. */
#include <string.h>
#include "tensor/cpu/convert.h"
#include "tensor/cpu/kernels.h"
#include "tensor/cpu/reduce.h"

/* A line's keys (double or int64) and two lists of places, in the workspace. */
struct line { const double *fractions; const int64_t *wholes; bool integers, descending; };

size_t
cpu_sort_workspace(int64_t length)
{
    return (size_t)(length > 0 ? length : 1) * (sizeof(double) + 2 * sizeof(int64_t));
}

static bool
is_less(double x, double y)
{
    return x < y || (x == x && y != y);
}

/* Must b stand before a, which comes first? */
static bool
out_of_order(const struct line *line, int64_t a, int64_t b)
{
    if (line->descending) {
        int64_t other = a;
        a = b;
        b = other;
    }
    return line->integers ? line->wholes[b] < line->wholes[a] : is_less(line->fractions[b], line->fractions[a]);
}

/* Two neighbouring stretches, each in order. */
struct halves { int64_t begin, middle, end; };

static void
merge(const struct line *line, const int64_t *from, int64_t *to, struct halves halves)
{
    int64_t left = halves.begin, right = halves.middle;
    for (int64_t i = halves.begin; i < halves.end; i++) {
        bool take_right = left >= halves.middle || (right < halves.end && out_of_order(line, from[left], from[right]));
        to[i] = take_right ? from[right++] : from[left++];
    }
}

/* Answers the list that holds the order. */
static const int64_t *
sort_line(const struct line *line, int64_t *a, int64_t *b, int64_t length)
{
    for (int64_t i = 0; i < length; i++)
        a[i] = i;
    for (int64_t width = 1; width < length; width *= 2) {
        for (int64_t begin = 0; begin < length; begin += 2 * width) {
            struct halves halves = { begin, begin + width, begin + 2 * width };
            halves.middle = halves.middle < length ? halves.middle : length;
            halves.end    = halves.end < length ? halves.end : length;
            merge(line, a, b, halves);
        }
        int64_t *sorted = b;
        b = a;
        a = sorted;
    }
    return a;
}

/* start: descending. */
void
sort_argsort(const struct cpu_call *call)
{
    const struct cpu_view *from = &call->in[0], *to = &call->out;
    int                    dim = (int)call->dim;
    struct cpu_view        in = view_without(from, dim), out = view_without(to, dim);
    const struct cpu_view *views[2] = { &in, &out };
    int64_t     length = from->dims > 0 ? from->size[dim] : 1;
    int64_t     in_step = from->dims > 0 ? from->stride[dim] : 1, out_step = to->dims > 0 ? to->stride[dim] : 1;
    double     *keys = call->workspace;
    int64_t    *places = (int64_t *)(keys + (length > 0 ? length : 1));
    struct line line = { keys, call->workspace, call->compute == DTYPE_I64, call->start != 0 };
    struct loop loop;
    for (loop_begin(&loop, views, 2); length > 0 && loop.more; loop_next(&loop)) {
        for (int64_t i = 0; i < loop.run; i++) {
            cpu_convert(keys, every(line.integers ? DTYPE_I64 : DTYPE_F64, 1), loop.at[0] + i * loop.step[0],
                        every(in.dtype, in_step), length);
            const int64_t *order = sort_line(&line, places, places + length, length);
            cpu_convert(loop.at[1] + i * loop.step[1], every(DTYPE_I64, out_step), order, every(DTYPE_I64, 1), length);
        }
    }
}
