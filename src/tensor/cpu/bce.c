/* Binary cross entropy of logits, of each element or reduced. In PyTorch: ATen/native/Loss.cpp,
 * binary_cross_entropy_with_logits. */
#include <math.h>
#include "base/math.h"
#include "tensor/cpu/kernels.h"
#include "tensor/cpu/loss.h"
#include "tensor/cpu/loss_bodies.h"
#include "tensor/cpu/pack.h"
#include "tensor/cpu/rounded.h"

enum { NO_POSITIVE = 1, NO_WEIGHT = 2 };   /* in start */

/* positive: the weight of the positive, weight: of each loss; NULL: 1. */
struct logits { const void *x, *target, *positive, *weight; };

static void
bce_forward_f32(float *out, const struct logits *l, int64_t from, int64_t count)
{
    const float *x = (const float *)l->x + from, *t = (const float *)l->target + from;
    const float *pos = l->positive != NULL ? (const float *)l->positive + from : NULL;
    const float *weight = l->weight != NULL ? (const float *)l->weight + from : NULL;
    for (int64_t i = 0; i < count; i++)
        out[i] = logit_loss_f32(x[i], t[i], pos != NULL ? 1 + (pos[i] - 1) * t[i] : 1);
    for (int64_t i = 0; weight != NULL && i < count; i++)
        out[i] *= weight[i];
}

static void
bce_forward_f64(double *out, const struct logits *l, int64_t from, int64_t count)
{
    const double *x = (const double *)l->x + from, *t = (const double *)l->target + from;
    const double *pos = l->positive != NULL ? (const double *)l->positive + from : NULL;
    const double *weight = l->weight != NULL ? (const double *)l->weight + from : NULL;
    for (int64_t i = 0; i < count; i++)
        out[i] = logit_loss_f64(x[i], t[i], pos != NULL ? 1 + (pos[i] - 1) * t[i] : 1);
    for (int64_t i = 0; weight != NULL && i < count; i++)
        out[i] *= weight[i];
}

/* The inputs from number `first` on. */
static struct logits
take_logits(const struct cpu_call *call, int first, char **room)
{
    struct logits l = { .x = pack_input(call, first, room) };
    l.target   = pack_input(call, first + 1, room);
    l.positive = call->start & NO_POSITIVE ? NULL : pack_input(call, first + 2, room);
    return l;
}

static void
reduced_logits(const struct cpu_call *call, const struct logits *l, int64_t elements)
{
    double             buffer[LOOP_CHUNK];
    struct running_sum sum = { .chunks = 0 };
    bool               single = call->compute == DTYPE_F32;
    for (int64_t done = 0; done < elements; done += LOOP_CHUNK) {
        int64_t count = elements - done < LOOP_CHUNK ? elements - done : LOOP_CHUNK;
        if (single)
            bce_forward_f32((float *)buffer, l, done, count);
        else
            bce_forward_f64(buffer, l, done, count);
        sum_add(&sum, single ? (double)lanes_f32((float *)buffer, count) : lanes_f64(buffer, count), single);
    }
    loss_store(call, &sum, (double)elements);
}

/* in: input, target, weight of the positive, weight. */
void
cpu_bce_with_logits(const struct cpu_call *call)
{
    char         *room = call->workspace;
    struct logits l = take_logits(call, 0, &room);
    int64_t       count = view_count(&call->in[0]);
    l.weight = call->start & NO_WEIGHT ? NULL : pack_input(call, 3, &room);
    if (call->dim != LOSS_NONE)
        reduced_logits(call, &l, count);
    else if (call->compute == DTYPE_F32)
        bce_forward_f32(call->out.data, &l, 0, count);
    else
        bce_forward_f64(call->out.data, &l, 0, count);
}

static void
bce_backward_f32(float *out, const float *g, const struct logits *l, int64_t count)
{
    const float *x = l->x, *t = l->target, *pos = l->positive;
    for (int64_t i = 0; i < count; i++)
        out[i] = logit_slope_f32(g[i], t[i], pos != NULL ? 1 + (pos[i] - 1) * t[i] : 1, rounded_exp(x[i]));
}

static void
bce_backward_f64(double *out, const double *g, const struct logits *l, int64_t count)
{
    const double *x = l->x, *t = l->target, *pos = l->positive;
    for (int64_t i = 0; i < count; i++)
        out[i] = logit_slope_f64(g[i], t[i], pos != NULL ? 1 + (pos[i] - 1) * t[i] : 1, math_exp(x[i]));
}

/* in: gradient, and the first three of those. */
void
cpu_bce_with_logits_backward(const struct cpu_call *call)
{
    char         *room = call->workspace;
    const void   *g = pack_input(call, 0, &room);
    struct logits l = take_logits(call, 1, &room);
    int64_t       count = view_count(&call->out);
    if (call->compute == DTYPE_F32)
        bce_backward_f32(call->out.data, g, &l, count);
    else
        bce_backward_f64(call->out.data, g, &l, count);
}
