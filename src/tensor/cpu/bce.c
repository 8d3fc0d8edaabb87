/* Binary cross entropy of logits, element by element. In PyTorch: ATen/native/Loss.cpp,
 * binary_cross_entropy_with_logits. */
#include <math.h>
#include "tensor/cpu/kernels.h"
#include "tensor/cpu/math.h"
#include "tensor/cpu/pack.h"

/* positive: the weight of the positive; NULL: 1. */
struct logits { const void *x, *target, *positive; int64_t count; };

static void
bce_forward_f32(float *out, const struct logits *l)
{
    const float *x = l->x, *t = l->target, *pos = l->positive;
    for (int64_t i = 0; i < l->count; i++) {
        float tail = (float)cpu_log1p(cpu_exp(-fabs((double)x[i]))) + (x[i] < 0 ? -x[i] : 0);
        out[i] = (1 - t[i]) * x[i] + (pos != NULL ? 1 + (pos[i] - 1) * t[i] : 1) * tail;
    }
}

static void
bce_forward_f64(double *out, const struct logits *l)
{
    const double *x = l->x, *t = l->target, *pos = l->positive;
    for (int64_t i = 0; i < l->count; i++) {
        double tail = cpu_log1p(cpu_exp(-fabs(x[i]))) + (x[i] < 0 ? -x[i] : 0);
        out[i] = (1 - t[i]) * x[i] + (pos != NULL ? 1 + (pos[i] - 1) * t[i] : 1) * tail;
    }
}

/* The inputs from number `first` on. */
static struct logits
take_logits(const struct cpu_call *call, int first, char **room)
{
    struct logits l = { .count = view_count(&call->out) };
    l.x        = pack_input(call, first, room);
    l.target   = pack_input(call, first + 1, room);
    l.positive = call->start == 1 ? NULL : pack_input(call, first + 2, room);
    return l;
}

/* in: input, target, weight of the positive (start 1: there is none). */
void
cpu_bce_with_logits(const struct cpu_call *call)
{
    char         *room = call->workspace;
    struct logits l = take_logits(call, 0, &room);
    if (call->compute == DTYPE_F32)
        bce_forward_f32(call->out.data, &l);
    else
        bce_forward_f64(call->out.data, &l);
}

static void
bce_backward_f32(float *out, const float *g, const struct logits *l)
{
    const float *x = l->x, *t = l->target, *pos = l->positive;
    for (int64_t i = 0; i < l->count; i++)
        out[i] = g[i] * (1 - t[i] - (pos != NULL ? 1 + (pos[i] - 1) * t[i] : 1) / (1 + expf(x[i])));
}

static void
bce_backward_f64(double *out, const double *g, const struct logits *l)
{
    const double *x = l->x, *t = l->target, *pos = l->positive;
    for (int64_t i = 0; i < l->count; i++)
        out[i] = g[i] * (1 - t[i] - (pos != NULL ? 1 + (pos[i] - 1) * t[i] : 1) / (1 + cpu_exp(x[i])));
}

/* in: gradient, and those three. */
void
cpu_bce_with_logits_backward(const struct cpu_call *call)
{
    char         *room = call->workspace;
    const void   *g = pack_input(call, 0, &room);
    struct logits l = take_logits(call, 1, &room);
    if (call->compute == DTYPE_F32)
        bce_backward_f32(call->out.data, g, &l);
    else
        bce_backward_f64(call->out.data, g, &l);
}
