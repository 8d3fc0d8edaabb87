/* log_softmax and softmax along one dimension, and their gradients. Rows of float32 are read in blocks, wherever their
 * elements lie, and summed in as many lanes, which are added by halves; of float64 from the first element to the last.
 * In PyTorch: ATen/native/cpu/SoftMaxKernel.cpp. */
#include <math.h>
#include "tensor/cpu/approximate.h"
#include "tensor/cpu/kernels.h"
#include "tensor/cpu/loop.h"
#include "tensor/cpu/math.h"
#include "tensor/cpu/wide.h"

/* The views with dimension `dim` reduced to its first element: the loop then visits the rows. */
static struct cpu_view
row_starts(const struct cpu_view *view, int64_t dim)
{
    struct cpu_view starts = *view;
    if (view->dims > 0)
        starts.size[dim] = view->size[dim] > 0 ? 1 : 0;
    return starts;
}

static int64_t
row_step(const struct cpu_view *view, int64_t dim)
{
    return view->dims > 0 ? view->stride[dim] : 0;
}

/* The row's elements from x on, up to a block of them, what is missing filled up. */
static inline void
load(float *block, const float *x, int64_t step, int64_t left, float filler)
{
    if (step == 1 && left >= BLOCK) {
        memcpy(block, x, BLOCK * sizeof *block);
        return;
    }
    for (int64_t j = 0; j < BLOCK; j++)
        block[j] = j < left ? x[j * step] : filler;
}

static inline void
store(float *out, int64_t step, int64_t left, const float *block)
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
largest(const float *x, int64_t step, int64_t count)
{
    float most[BLOCK], block[BLOCK];
    for (int j = 0; j < BLOCK; j++)
        most[j] = -INFINITY;
    for (int64_t i = 0; i < count; i += BLOCK) {
        load(block, x + i * step, step, count - i, -INFINITY);
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
row_f32(float *out, int64_t to, const float *x, int64_t step, int64_t count)
{
    float most = largest(x, step, count), lane[BLOCK] = { 0 }, block[BLOCK];
    for (int64_t i = 0; i < count; i += BLOCK) {
        load(block, x + i * step, step, count - i, -INFINITY);
        for (int j = 0; j < BLOCK; j++)
            lane[j] += near_exp(block[j] - most);
    }
    float norm = (float)cpu_log((double)lanes_total(lane));
    for (int64_t i = 0; i < count; i += BLOCK) {
        load(block, x + i * step, step, count - i, 0);
        for (int j = 0; j < BLOCK; j++)
            block[j] = block[j] - most - norm;
        store(out + i * to, to, count - i, block);
    }
}

static void
row_f64(double *out, int64_t to, const double *x, int64_t step, int64_t count)
{
    double most = -INFINITY, sum = 0;
    for (int64_t i = 0; i < count; i++)
        most = x[i * step] > most || x[i * step] != x[i * step] ? x[i * step] : most;
    for (int64_t i = 0; i < count; i++)
        sum += cpu_exp(x[i * step] - most);
    double norm = cpu_log(sum);
    for (int64_t i = 0; i < count; i++)
        out[i * to] = x[i * step] - most - norm;
}

void
cpu_log_softmax(const struct cpu_call *call)
{
    struct cpu_view in = row_starts(&call->in[0], call->dim), out = row_starts(&call->out, call->dim);
    const struct cpu_view *views[2] = { &out, &in };
    int64_t     count = in.dims > 0 ? call->in[0].size[call->dim] : 1;
    int64_t     to = row_step(&out, call->dim), step = row_step(&in, call->dim);
    struct loop loop;
    for (loop_begin(&loop, views, 2); loop.more; loop_next(&loop)) {
        for (int64_t i = 0; i < loop.run; i++) {
            char *y = loop.at[0] + i * loop.step[0], *x = loop.at[1] + i * loop.step[1];
            if (call->compute == DTYPE_F32)
                row_f32((float *)y, to, (const float *)x, step, count);
            else
                row_f64((double *)y, to, (const double *)x, step, count);
        }
    }
}

/* grad - softmax * (sum of grad) */
WIDE static void
row_backward_f32(float *out, int64_t to, const float *g, int64_t g_step, const float *y, int64_t y_step, int64_t count)
{
    float lane[BLOCK] = { 0 }, grad[BLOCK], block[BLOCK];
    for (int64_t i = 0; i < count; i += BLOCK) {
        load(grad, g + i * g_step, g_step, count - i, 0);
        for (int j = 0; j < BLOCK; j++)
            lane[j] += grad[j];
    }
    float sum = lanes_total(lane);
    for (int64_t i = 0; i < count; i += BLOCK) {
        load(grad, g + i * g_step, g_step, count - i, 0);
        load(block, y + i * y_step, y_step, count - i, 0);
        for (int j = 0; j < BLOCK; j++)
            block[j] = grad[j] - near_exp(block[j]) * sum;
        store(out + i * to, to, count - i, block);
    }
}

static void
row_backward_f64(double *out, int64_t to, const double *g, int64_t g_step, const double *y, int64_t y_step,
                 int64_t count)
{
    double sum = 0;
    for (int64_t i = 0; i < count; i++)
        sum += g[i * g_step];
    for (int64_t i = 0; i < count; i++)
        out[i * to] = g[i * g_step] - cpu_exp(y[i * y_step]) * sum;
}

void
cpu_log_softmax_backward(const struct cpu_call *call)
{
    struct cpu_view grad = row_starts(&call->in[0], call->dim), result = row_starts(&call->in[1], call->dim);
    struct cpu_view out = row_starts(&call->out, call->dim);
    const struct cpu_view *views[3] = { &out, &grad, &result };
    int64_t     count = grad.dims > 0 ? call->in[0].size[call->dim] : 1;
    int64_t     to = row_step(&out, call->dim), g = row_step(&grad, call->dim), y = row_step(&result, call->dim);
    struct loop loop;
    for (loop_begin(&loop, views, 3); loop.more; loop_next(&loop)) {
        for (int64_t i = 0; i < loop.run; i++) {
            void *at[3];
            for (int v = 0; v < 3; v++)
                at[v] = loop.at[v] + i * loop.step[v];
            if (call->compute == DTYPE_F32)
                row_backward_f32(at[0], to, at[1], g, at[2], y, count);
            else
                row_backward_f64(at[0], to, at[1], g, at[2], y, count);
        }
    }
}

/* ---- softmax ---- */

WIDE static void
soft_f32(float *out, int64_t to, const float *x, int64_t step, int64_t count)
{
    float most = largest(x, step, count), lane[BLOCK] = { 0 }, block[BLOCK];
    for (int64_t i = 0; i < count; i += BLOCK) {
        load(block, x + i * step, step, count - i, -INFINITY);
        for (int j = 0; j < BLOCK; j++)
            block[j] = near_exp(block[j] - most);
        for (int j = 0; j < BLOCK; j++)
            lane[j] += block[j];
        store(out + i * to, to, count - i, block);
    }
    float scale = 1 / lanes_total(lane);
    for (int64_t i = 0; i < count; i += BLOCK) {
        load(block, out + i * to, to, count - i, 0);
        for (int j = 0; j < BLOCK; j++)
            block[j] *= scale;
        store(out + i * to, to, count - i, block);
    }
}

static void
soft_f64(double *out, int64_t to, const double *x, int64_t step, int64_t count)
{
    double most = -INFINITY, sum = 0;
    for (int64_t i = 0; i < count; i++)
        most = x[i * step] > most || x[i * step] != x[i * step] ? x[i * step] : most;
    for (int64_t i = 0; i < count; i++)
        sum += out[i * to] = cpu_exp(x[i * step] - most);
    for (int64_t i = 0; i < count; i++)
        out[i * to] /= sum;
}

void
cpu_softmax(const struct cpu_call *call)
{
    struct cpu_view in = row_starts(&call->in[0], call->dim), out = row_starts(&call->out, call->dim);
    const struct cpu_view *views[2] = { &out, &in };
    int64_t     count = in.dims > 0 ? call->in[0].size[call->dim] : 1;
    int64_t     to = row_step(&out, call->dim), step = row_step(&in, call->dim);
    struct loop loop;
    for (loop_begin(&loop, views, 2); loop.more; loop_next(&loop)) {
        for (int64_t i = 0; i < loop.run; i++) {
            char *y = loop.at[0] + i * loop.step[0], *x = loop.at[1] + i * loop.step[1];
            if (call->compute == DTYPE_F32)
                soft_f32((float *)y, to, (const float *)x, step, count);
            else
                soft_f64((double *)y, to, (const double *)x, step, count);
        }
    }
}

/* y * (grad - sum of grad * y) */
WIDE static void
soft_backward_f32(float *out, int64_t to, const float *g, int64_t g_step, const float *y, int64_t y_step,
                  int64_t count)
{
    float lane[BLOCK] = { 0 }, grad[BLOCK], block[BLOCK];
    for (int64_t i = 0; i < count; i += BLOCK) {
        load(grad, g + i * g_step, g_step, count - i, 0);
        load(block, y + i * y_step, y_step, count - i, 0);
        for (int j = 0; j < BLOCK; j++)
            lane[j] += grad[j] * block[j];
    }
    float sum = lanes_total(lane);
    for (int64_t i = 0; i < count; i += BLOCK) {
        load(grad, g + i * g_step, g_step, count - i, 0);
        load(block, y + i * y_step, y_step, count - i, 0);
        for (int j = 0; j < BLOCK; j++)
            block[j] *= grad[j] - sum;
        store(out + i * to, to, count - i, block);
    }
}

static void
soft_backward_f64(double *out, int64_t to, const double *g, int64_t g_step, const double *y, int64_t y_step,
                  int64_t count)
{
    double sum = 0;
    for (int64_t i = 0; i < count; i++)
        sum += g[i * g_step] * y[i * y_step];
    for (int64_t i = 0; i < count; i++)
        out[i * to] = y[i * y_step] * (g[i * g_step] - sum);
}

void
cpu_softmax_backward(const struct cpu_call *call)
{
    struct cpu_view grad = row_starts(&call->in[0], call->dim), result = row_starts(&call->in[1], call->dim);
    struct cpu_view out = row_starts(&call->out, call->dim);
    const struct cpu_view *views[3] = { &out, &grad, &result };
    int64_t     count = grad.dims > 0 ? call->in[0].size[call->dim] : 1;
    int64_t     to = row_step(&out, call->dim), g = row_step(&grad, call->dim), y = row_step(&result, call->dim);
    struct loop loop;
    for (loop_begin(&loop, views, 3); loop.more; loop_next(&loop)) {
        for (int64_t i = 0; i < loop.run; i++) {
            void *at[3];
            for (int v = 0; v < 3; v++)
                at[v] = loop.at[v] + i * loop.step[v];
            if (call->compute == DTYPE_F32)
                soft_backward_f32(at[0], to, at[1], g, at[2], y, count);
            else
                soft_backward_f64(at[0], to, at[1], g, at[2], y, count);
        }
    }
}
