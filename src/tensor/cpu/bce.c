/* Binary cross entropy of logits, element by element. In PyTorch: ATen/native/Loss.cpp,
 * binary_cross_entropy_with_logits. */
#include <math.h>
#include "tensor/cpu/kernels.h"
#include "tensor/cpu/math.h"
#include "tensor/cpu/pack.h"

static void
forward_f32(float *out, const float *x, const float *t, const float *pos, int64_t count)
{
    for (int64_t i = 0; i < count; i++) {
        float tail = (float)cpu_log1p(cpu_exp(-fabs((double)x[i]))) + (x[i] < 0 ? -x[i] : 0);
        out[i] = (1 - t[i]) * x[i] + (pos != NULL ? 1 + (pos[i] - 1) * t[i] : 1) * tail;
    }
}

static void
forward_f64(double *out, const double *x, const double *t, const double *pos, int64_t count)
{
    for (int64_t i = 0; i < count; i++) {
        double tail = cpu_log1p(cpu_exp(-fabs(x[i]))) + (x[i] < 0 ? -x[i] : 0);
        out[i] = (1 - t[i]) * x[i] + (pos != NULL ? 1 + (pos[i] - 1) * t[i] : 1) * tail;
    }
}

/* in: input, target, weight of the positive (start 1: there is none). */
void
cpu_bce_with_logits(const struct cpu_call *call)
{
    char       *room = call->workspace;
    const void *x = pack_input(call, 0, &room), *t = pack_input(call, 1, &room);
    const void *pos = call->start == 1 ? NULL : pack_input(call, 2, &room);
    if (call->compute == DTYPE_F32)
        forward_f32(call->out.data, x, t, pos, view_count(&call->out));
    else
        forward_f64(call->out.data, x, t, pos, view_count(&call->out));
}

static void
backward_f32(float *out, const float *g, const float *x, const float *t, const float *pos, int64_t count)
{
    for (int64_t i = 0; i < count; i++)
        out[i] = g[i] * (1 - t[i] - (pos != NULL ? 1 + (pos[i] - 1) * t[i] : 1) / (1 + expf(x[i])));
}

static void
backward_f64(double *out, const double *g, const double *x, const double *t, const double *pos, int64_t count)
{
    for (int64_t i = 0; i < count; i++)
        out[i] = g[i] * (1 - t[i] - (pos != NULL ? 1 + (pos[i] - 1) * t[i] : 1) / (1 + cpu_exp(x[i])));
}

/* in: gradient, and those three. */
void
cpu_bce_with_logits_backward(const struct cpu_call *call)
{
    char       *room = call->workspace;
    const void *g = pack_input(call, 0, &room), *x = pack_input(call, 1, &room), *t = pack_input(call, 2, &room);
    const void *pos = call->start == 1 ? NULL : pack_input(call, 3, &room);
    if (call->compute == DTYPE_F32)
        backward_f32(call->out.data, g, x, t, pos, view_count(&call->out));
    else
        backward_f64(call->out.data, g, x, t, pos, view_count(&call->out));
}
