/* log_softmax and softmax along one dimension, and their gradients. A row is gone
 * through from its first element to its last.
 * In PyTorch: ATen/native/cpu/SoftMaxKernel.cpp. */
#include <math.h>
#include "base/dtype.h"
#include "tensor/cpu/approximate.h"
#include "tensor/cpu/loop.h"

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

static void
row_f32(float *out, int64_t to, const float *x, int64_t step, int64_t count)
{
    float most = -INFINITY, sum = 0;
    for (int64_t i = 0; i < count; i++)
        most = x[i * step] > most || x[i * step] != x[i * step] ? x[i * step] : most;
    for (int64_t i = 0; i < count; i++)
        sum += expf(x[i * step] - most);
    float norm = logf(sum);
    for (int64_t i = 0; i < count; i++)
        out[i * to] = x[i * step] - most - norm;
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
static void
row_backward_f32(float *out, int64_t to, const float *g, int64_t g_step, const float *y, int64_t y_step, int64_t count)
{
    float sum = 0;
    for (int64_t i = 0; i < count; i++)
        sum += g[i * g_step];
    for (int64_t i = 0; i < count; i++)
        out[i * to] = g[i * g_step] - expf(y[i * y_step]) * sum;
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

/* Sixteen lanes, added by halves; the row is read in blocks, so its distance in memory says nothing. */
static void
soft_f32(float *out, int64_t to, const float *x, int64_t step, int64_t count)
{
    float most = -INFINITY, lane[BLOCK] = { 0 };
    for (int64_t i = 0; i < count; i++)
        most = x[i * step] > most || x[i * step] != x[i * step] ? x[i * step] : most;
    for (int64_t i = 0; i < count; i += BLOCK) {
        float   block[BLOCK];
        int64_t here = count - i < BLOCK ? count - i : BLOCK;
        for (int64_t j = 0; j < BLOCK; j++)
            block[j] = j < here ? x[(i + j) * step] - most : -INFINITY;
        for (int j = 0; j < BLOCK; j++)
            block[j] = near_exp(block[j]);
        for (int j = 0; j < BLOCK; j++)
            lane[j] += block[j];
        for (int64_t j = 0; j < here; j++)
            out[(i + j) * to] = block[j];
    }
    for (int half = BLOCK / 2; half > 0; half /= 2) {
        for (int j = 0; j < half; j++)
            lane[j] += lane[j + half];
    }
    float scale = 1 / lane[0];
    for (int64_t i = 0; i < count; i++)
        out[i * to] *= scale;
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
static void
soft_backward_f32(float *out, int64_t to, const float *g, int64_t g_step, const float *y, int64_t y_step,
                  int64_t count)
{
    float lane[BLOCK] = { 0 };
    for (int64_t i = 0; i < count; i += BLOCK) {
        int64_t here = count - i < BLOCK ? count - i : BLOCK;
        for (int64_t j = 0; j < here; j++)
            lane[j] += g[(i + j) * g_step] * y[(i + j) * y_step];
    }
    for (int half = BLOCK / 2; half > 0; half /= 2) {
        for (int j = 0; j < half; j++)
            lane[j] += lane[j + half];
    }
    for (int64_t i = 0; i < count; i++)
        out[i * to] = y[i * y_step] * (g[i * g_step] - lane[0]);
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
