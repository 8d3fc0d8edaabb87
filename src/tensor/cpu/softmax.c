/* log_softmax and softmax along one dimension, and their gradients. Rows of float32 are read in blocks, wherever their
 * elements lie, and summed in as many lanes, which are added by halves; of float64 from the first element to the last.
 * In PyTorch: ATen/native/cpu/SoftMaxKernel.cpp. */
#include <math.h>
#include "base/math.h"
#include "tensor/cpu/approximate.h"
#include "tensor/cpu/kernels.h"
#include "tensor/cpu/loop.h"
#include "tensor/cpu/wide.h"

/* The views with dimension `dim` reduced to its first element: the loop then visits the rows. */
static struct cpu_view
first_of_rows(const struct cpu_view *view, int64_t dim)
{
    struct cpu_view starts = *view;
    if (view->dims > 0)
        starts.size[dim] = view->size[dim] > 0 ? 1 : 0;
    return starts;
}

/* Elements of one row, `step` of them apart. */
struct softmax_row { void *at; int64_t step; };
/* rows: the result, then the inputs. */
typedef void row_kernel(const struct softmax_row *rows, int64_t count);

static void
each_row_along(const struct cpu_call *call, row_kernel *kernel, int views)
{
    struct cpu_view        starts[3];
    const struct cpu_view *firsts[3] = { &starts[0], &starts[1], &starts[2] };
    struct softmax_row             rows[3];
    int64_t                count = call->out.dims > 0 ? call->in[0].size[call->dim] : 1;
    struct loop            loop;
    for (int v = 0; v < views; v++) {
        const struct cpu_view *view = v == 0 ? &call->out : &call->in[v - 1];
        starts[v]    = first_of_rows(view, call->dim);
        rows[v].step = view->dims > 0 ? view->stride[call->dim] : 0;
    }
    for (loop_begin(&loop, firsts, views); loop.more; loop_next(&loop)) {
        for (int64_t i = 0; i < loop.run; i++) {
            for (int v = 0; v < views; v++)
                rows[v].at = loop.at[v] + i * loop.step[v];
            kernel(rows, count);
        }
    }
}

/* The row's elements from x on, up to a block of them, what is missing filled up. */
static inline void
load_block(float *block, const float *x, int64_t step, int64_t left, float filler)
{
    if (step == 1 && left >= BLOCK) {
        memcpy(block, x, BLOCK * sizeof *block);
        return;
    }
    for (int64_t j = 0; j < BLOCK; j++)
        block[j] = j < left ? x[j * step] : filler;
}

static inline void
store_block(float *out, int64_t step, int64_t left, const float *block)
{
    if (step == 1 && left >= BLOCK) {
        memcpy(out, block, BLOCK * sizeof *block);
        return;
    }
    for (int64_t j = 0; j < BLOCK && j < left; j++)
        out[j * step] = block[j];
}

static inline float
lanes_total(float *lane)
{
    for (int half = BLOCK / 2; half > 0; half /= 2) {
        for (int j = 0; j < half; j++)
            lane[j] += lane[j + half];
    }
    return lane[0];
}

/* Without regard to NaN: one in the row makes the sum NaN, and that all of it. */
static inline float
row_largest(const float *x, int64_t step, int64_t count)
{
    float most[BLOCK], block[BLOCK];
    for (int j = 0; j < BLOCK; j++)
        most[j] = -INFINITY;
    for (int64_t i = 0; i < count; i += BLOCK) {
        load_block(block, x + i * step, step, count - i, -INFINITY);
        for (int j = 0; j < BLOCK; j++)
            most[j] = block[j] > most[j] ? block[j] : most[j];
    }
    for (int half = BLOCK / 2; half > 0; half /= 2) {
        for (int j = 0; j < half; j++)
            most[j] = most[j + half] > most[j] ? most[j + half] : most[j];
    }
    return most[0];
}

WIDE static void
log_softmax_f32(const struct softmax_row *rows, int64_t count)
{
    const float *x = rows[1].at;
    float       *out = rows[0].at;
    int64_t     to = rows[0].step, step = rows[1].step;
    float most = row_largest(x, step, count), lane[BLOCK] = { 0 }, block[BLOCK];
    for (int64_t i = 0; i < count; i += BLOCK) {
        load_block(block, x + i * step, step, count - i, -INFINITY);
        for (int j = 0; j < BLOCK; j++)
            lane[j] += near_exp(block[j] - most);
    }
    float norm = (float)math_log((double)lanes_total(lane));
    for (int64_t i = 0; i < count; i += BLOCK) {
        load_block(block, x + i * step, step, count - i, 0);
        for (int j = 0; j < BLOCK; j++)
            block[j] = block[j] - most - norm;
        store_block(out + i * to, to, count - i, block);
    }
}

static void
log_softmax_f64(const struct softmax_row *rows, int64_t count)
{
    const double *x = rows[1].at;
    double       *out = rows[0].at;
    int64_t      to = rows[0].step, step = rows[1].step;
    double most = -INFINITY, sum = 0;
    for (int64_t i = 0; i < count; i++)
        most = x[i * step] > most || x[i * step] != x[i * step] ? x[i * step] : most;
    for (int64_t i = 0; i < count; i++)
        sum += math_exp(x[i * step] - most);
    double norm = math_log(sum);
    for (int64_t i = 0; i < count; i++)
        out[i * to] = x[i * step] - most - norm;
}

void
cpu_log_softmax(const struct cpu_call *call)
{
    each_row_along(call, call->compute == DTYPE_F32 ? log_softmax_f32 : log_softmax_f64, 2);
}

/* grad - softmax * (sum of grad) */
WIDE static void
log_softmax_backward_f32(const struct softmax_row *rows, int64_t count)
{
    const float *g = rows[1].at, *y = rows[2].at;
    float       *out = rows[0].at;
    int64_t     to = rows[0].step, g_step = rows[1].step, y_step = rows[2].step;
    float lane[BLOCK] = { 0 }, grad[BLOCK], block[BLOCK];
    for (int64_t i = 0; i < count; i += BLOCK) {
        load_block(grad, g + i * g_step, g_step, count - i, 0);
        for (int j = 0; j < BLOCK; j++)
            lane[j] += grad[j];
    }
    float sum = lanes_total(lane);
    for (int64_t i = 0; i < count; i += BLOCK) {
        load_block(grad, g + i * g_step, g_step, count - i, 0);
        load_block(block, y + i * y_step, y_step, count - i, 0);
        for (int j = 0; j < BLOCK; j++)
            block[j] = grad[j] - near_exp(block[j]) * sum;
        store_block(out + i * to, to, count - i, block);
    }
}

static void
log_softmax_backward_f64(const struct softmax_row *rows, int64_t count)
{
    const double *g = rows[1].at, *y = rows[2].at;
    double       *out = rows[0].at;
    int64_t      to = rows[0].step, g_step = rows[1].step, y_step = rows[2].step;
    double sum = 0;
    for (int64_t i = 0; i < count; i++)
        sum += g[i * g_step];
    for (int64_t i = 0; i < count; i++)
        out[i * to] = g[i * g_step] - math_exp(y[i * y_step]) * sum;
}

void
cpu_log_softmax_backward(const struct cpu_call *call)
{
    each_row_along(call, call->compute == DTYPE_F32 ? log_softmax_backward_f32 : log_softmax_backward_f64, 3);
}

/* ---- softmax ---- */

WIDE static void
softmax_f32(const struct softmax_row *rows, int64_t count)
{
    const float *x = rows[1].at;
    float       *out = rows[0].at;
    int64_t     to = rows[0].step, step = rows[1].step;
    float most = row_largest(x, step, count), lane[BLOCK] = { 0 }, block[BLOCK];
    for (int64_t i = 0; i < count; i += BLOCK) {
        load_block(block, x + i * step, step, count - i, -INFINITY);
        for (int j = 0; j < BLOCK; j++)
            block[j] = near_exp(block[j] - most);
        for (int j = 0; j < BLOCK; j++)
            lane[j] += block[j];
        store_block(out + i * to, to, count - i, block);
    }
    float scale = 1 / lanes_total(lane);
    for (int64_t i = 0; i < count; i += BLOCK) {
        load_block(block, out + i * to, to, count - i, 0);
        for (int j = 0; j < BLOCK; j++)
            block[j] *= scale;
        store_block(out + i * to, to, count - i, block);
    }
}

static void
softmax_f64(const struct softmax_row *rows, int64_t count)
{
    const double *x = rows[1].at;
    double       *out = rows[0].at;
    int64_t      to = rows[0].step, step = rows[1].step;
    double most = -INFINITY, sum = 0;
    for (int64_t i = 0; i < count; i++)
        most = x[i * step] > most || x[i * step] != x[i * step] ? x[i * step] : most;
    for (int64_t i = 0; i < count; i++)
        sum += out[i * to] = math_exp(x[i * step] - most);
    for (int64_t i = 0; i < count; i++)
        out[i * to] /= sum;
}

void
cpu_softmax(const struct cpu_call *call)
{
    each_row_along(call, call->compute == DTYPE_F32 ? softmax_f32 : softmax_f64, 2);
}

/* y * (grad - sum of grad * y) */
WIDE static void
softmax_backward_f32(const struct softmax_row *rows, int64_t count)
{
    const float *g = rows[1].at, *y = rows[2].at;
    float       *out = rows[0].at;
    int64_t     to = rows[0].step, g_step = rows[1].step, y_step = rows[2].step;
    float lane[BLOCK] = { 0 }, grad[BLOCK], block[BLOCK];
    for (int64_t i = 0; i < count; i += BLOCK) {
        load_block(grad, g + i * g_step, g_step, count - i, 0);
        load_block(block, y + i * y_step, y_step, count - i, 0);
        for (int j = 0; j < BLOCK; j++)
            lane[j] += grad[j] * block[j];
    }
    float sum = lanes_total(lane);
    for (int64_t i = 0; i < count; i += BLOCK) {
        load_block(grad, g + i * g_step, g_step, count - i, 0);
        load_block(block, y + i * y_step, y_step, count - i, 0);
        for (int j = 0; j < BLOCK; j++)
            block[j] *= grad[j] - sum;
        store_block(out + i * to, to, count - i, block);
    }
}

static void
softmax_backward_f64(const struct softmax_row *rows, int64_t count)
{
    const double *g = rows[1].at, *y = rows[2].at;
    double       *out = rows[0].at;
    int64_t      to = rows[0].step, g_step = rows[1].step, y_step = rows[2].step;
    double sum = 0;
    for (int64_t i = 0; i < count; i++)
        sum += g[i * g_step] * y[i * y_step];
    for (int64_t i = 0; i < count; i++)
        out[i * to] = y[i * y_step] * (g[i * g_step] - sum);
}

void
cpu_softmax_backward(const struct cpu_call *call)
{
    each_row_along(call, call->compute == DTYPE_F32 ? softmax_backward_f32 : softmax_backward_f64, 3);
}
