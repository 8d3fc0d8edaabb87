/* Rows of a table by index, and the table's gradient: rows are added in the order of their positions.
 * In PyTorch: ATen/native/Embedding.cpp. */
#include <math.h>
#include <string.h>
#include "tensor/cpu/convert.h"
#include "tensor/cpu/kernels.h"
#include "tensor/cpu/loop.h"
#include "tensor/cpu/wide.h"

/* A bad index is reported and its row left out. */
static bool
is_row(const struct cpu_call *call, int64_t index, int64_t rows)
{
    if (index >= 0 && index < rows)
        return true;
    fault_raise(call->fault, index, rows);
    return false;
}

/* The first element of each row, shaped like the indices. */
static struct cpu_view
first_elements(const struct cpu_view *rows)
{
    struct cpu_view starts = *rows;
    starts.dims--;
    return starts;
}

void
cpu_embedding(const struct cpu_call *call)
{
    const struct cpu_view *weight = &call->in[0], *indices = &call->in[1];
    struct cpu_view        starts = first_elements(&call->out);
    const struct cpu_view *views[2] = { indices, &starts };
    int64_t     element = (int64_t)dtype_size(weight->dtype), wide = weight->size[1];
    struct loop loop;
    for (loop_begin(&loop, views, 2); loop.more; loop_next(&loop)) {
        for (int64_t i = 0; i < loop.run; i++) {
            int64_t index = *(int64_t *)(loop.at[0] + i * loop.step[0]);
            char   *to = loop.at[1] + i * loop.step[1];
            if (index >= 0 && index < weight->size[0] && weight->stride[1] == 1)
                copy_row(to, (char *)weight->data + index * weight->stride[0] * element, (size_t)(wide * element));
            else if (is_row(call, index, weight->size[0]))
                cpu_convert(to, every(weight->dtype, 1), (char *)weight->data + index * weight->stride[0] * element,
                            every(weight->dtype, weight->stride[1]), wide);
            else if (wide > 0)
                memset(to, 0, (size_t)(wide * element));
        }
    }
}

/* Each row of the gradient divided by how often it was looked up. */
static void
scale_by_frequency(const struct cpu_call *call)
{
    const struct cpu_view *indices = &call->in[1], *views[1] = { indices }, *out = &call->out;
    int64_t    *counts = call->workspace, wide = out->size[1];
    struct loop loop;
    memset(counts, 0, (size_t)out->size[0] * sizeof *counts);
    for (loop_begin(&loop, views, 1); loop.more; loop_next(&loop)) {
        for (int64_t i = 0; i < loop.run; i++) {
            int64_t index = *(int64_t *)(loop.at[0] + i * loop.step[0]);
            if (index >= 0 && index < out->size[0])
                counts[index]++;
        }
    }
    for (int64_t i = 0; i < out->size[0] * wide; i++) {
        if (counts[i / wide] > 1 && call->compute == DTYPE_F32)
            ((float *)out->data)[i] /= (float)counts[i / wide];
        else if (counts[i / wide] > 1)
            ((double *)out->data)[i] /= (double)counts[i / wide];
    }
}

/* `count` indices and their rows of gradients, `index_step` and `row_step` bytes apart. */
struct given { const char *indices, *rows; int64_t index_step, row_step, step, wide, count; };

static inline int64_t
index_at(const struct given *given, int64_t i)
{
    return *(const int64_t *)(const void *)(given->indices + i * given->index_step);
}

#define T float
#define ADD_GIVEN add_given_f32
#include "tensor/cpu/embedding_type.def"
#define T double
#define ADD_GIVEN add_given_f64
#include "tensor/cpu/embedding_type.def"

#define T float
#define FUSED fmaf
#define ADD_ROWS add_to_rows_f32
#include "tensor/cpu/add_rows_type.def"
#define T double
#define FUSED fma
#define ADD_ROWS add_to_rows_f64
#include "tensor/cpu/add_rows_type.def"
#define T int64_t
#define FUSED(a, x, y) ((int64_t)((uint64_t)(a) * (uint64_t)(x) + (uint64_t)(y)))
#define ADD_ROWS add_to_rows_i64
#include "tensor/cpu/add_rows_type.def"

/* Where the result is the table itself, rows that nobody names are not touched. */
void
cpu_add_rows(const struct cpu_call *call)
{
    const struct cpu_view *rows = &call->in[2];
    if (call->out.data != call->in[0].data)
        cpu_copy(call);
    struct given given = { .indices = call->in[1].data, .rows = rows->data, .count = rows->size[0], .wide = 1,
                           .index_step = call->in[1].stride[0] * (int64_t)sizeof(int64_t) };
    for (int d = 1; d < rows->dims; d++)
        given.wide *= rows->size[d];
    if (call->compute == DTYPE_F32)
        add_to_rows_f32(call, &given);
    else if (call->compute == DTYPE_F64)
        add_to_rows_f64(call, &given);
    else
        add_to_rows_i64(call, &given);
}

/* start: the row that gets no gradient. */
void
cpu_embedding_backward(const struct cpu_call *call)
{
    const struct cpu_view *grad = &call->in[0], *indices = &call->in[1], *out = &call->out;
    struct cpu_view        starts = first_elements(grad);
    const struct cpu_view *views[2] = { indices, &starts };
    int64_t     element = (int64_t)dtype_size(out->dtype), wide = out->size[1], step = grad->stride[grad->dims - 1];
    struct loop loop;
    if (out->size[0] * wide > 0)
        memset(out->data, 0, (size_t)(out->size[0] * wide * element));
    for (loop_begin(&loop, views, 2); loop.more; loop_next(&loop)) {
        struct given given = { loop.at[0], loop.at[1], loop.step[0], loop.step[1], step, wide, loop.run };
        (call->compute == DTYPE_F32 ? add_given_f32 : add_given_f64)(call, &given);
    }
    if (call->step == 1)
        scale_by_frequency(call);
}
