/* batch_norm and layer_norm with their gradients. What batch_norm needs of the whole batch is an op of its own
 * (batch_norm_stats), so that running statistics and gradients use the same numbers.
 *
 * start: bit 0: there is a weight, bit 1: there is a bias, bit 2: the statistics are the batch's (they depend on the
 * input). alpha: eps. layer_norm: dim: how many trailing dimensions are normalised.
 * In PyTorch: ATen/native/Normalization.cpp, ATen/native/cpu/layer_norm_kernel.cpp. */
#include <math.h>
#include <string.h>
#include "tensor/cpu/kernels.h"
#include "tensor/cpu/pack.h"
#include "tensor/cpu/wide.h"

enum { HAS_WEIGHT = 1, HAS_BIAS = 2, OF_BATCH = 4, LANES = 8 };

struct batch { int64_t samples, channels, length; };
struct moments { double mean, scale; };

static inline double
lanes_total(double *lane)
{
    for (int half = LANES / 2; half > 0; half /= 2) {
        for (int j = 0; j < half; j++)
            lane[j] += lane[j + half];
    }
    return lane[0];
}

#define T float
#define NORM(part) f32_##part
#include "tensor/cpu/norm_type.def"
#define T double
#define NORM(part) f64_##part
#include "tensor/cpu/norm_type.def"

static struct batch
batch_of(const struct cpu_view *view)
{
    struct batch b = { view->size[0], view->size[1], 1 };
    for (int d = 2; d < view->dims; d++)
        b.length *= view->size[d];
    return b;
}

void
cpu_batch_norm_stats(const struct cpu_call *call)
{
    char        *room = call->workspace;
    struct batch b = batch_of(&call->in[0]);
    const void  *x = pack_input(call, 0, &room);
    if (call->compute == DTYPE_F32)
        f32_stats(call->out.data, x, &b, call->alpha);
    else
        f64_stats(call->out.data, x, &b, call->alpha);
}

/* in: input, statistics, weight, bias. */
void
cpu_batch_norm(const struct cpu_call *call)
{
    char        *room = call->workspace;
    struct batch b = batch_of(&call->in[0]);
    const void  *x = pack_input(call, 0, &room), *stats = pack_input(call, 1, &room);
    const void  *weight = call->start & HAS_WEIGHT ? pack_input(call, 2, &room) : NULL;
    const void  *bias = call->start & HAS_BIAS ? pack_input(call, 3, &room) : NULL;
    if (call->compute == DTYPE_F32)
        f32_batch(call->out.data, x, stats, weight, bias, &b);
    else
        f64_batch(call->out.data, x, stats, weight, bias, &b);
}

/* in: gradient, input, statistics. */
void
cpu_batch_norm_sums(const struct cpu_call *call)
{
    char        *room = call->workspace;
    struct batch b = batch_of(&call->in[0]);
    const void  *g = pack_input(call, 0, &room), *x = pack_input(call, 1, &room);
    const void  *stats = pack_input(call, 2, &room);
    if (call->compute == DTYPE_F32)
        f32_batch_sums(call->out.data, g, x, stats, &b);
    else
        f64_batch_sums(call->out.data, g, x, stats, &b);
}

/* in: sums, statistics, weight. length: elements of a channel. */
void
cpu_batch_norm_terms(const struct cpu_call *call)
{
    char       *room = call->workspace;
    const void *sums = pack_input(call, 0, &room), *stats = pack_input(call, 1, &room);
    const void *weight = call->start & HAS_WEIGHT ? pack_input(call, 2, &room) : NULL;
    double      count = call->start & OF_BATCH ? (double)call->length : 0;
    if (call->compute == DTYPE_F32)
        f32_coefficients(call->out.data, sums, stats, weight, call->out.size[1], count);
    else
        f64_coefficients(call->out.data, sums, stats, weight, call->out.size[1], count);
}

/* in: gradient, input, statistics, terms. */
void
cpu_batch_norm_backward(const struct cpu_call *call)
{
    char        *room = call->workspace;
    struct batch b = batch_of(&call->in[0]);
    const void  *g = pack_input(call, 0, &room), *x = pack_input(call, 1, &room);
    const void  *stats = pack_input(call, 2, &room), *terms = pack_input(call, 3, &room);
    if (call->compute == DTYPE_F32)
        f32_batch_input(call->out.data, g, x, stats, terms, &b);
    else
        f64_batch_input(call->out.data, g, x, stats, terms, &b);
}

static int64_t
width_of(const struct cpu_view *view, int64_t dims)
{
    int64_t wide = 1;
    for (int64_t d = view->dims - dims; d < view->dims; d++)
        wide *= view->size[d];
    return wide;
}

/* in: input, weight, bias. */
void
cpu_layer_norm(const struct cpu_call *call)
{
    char       *room = call->workspace;
    int64_t     wide = width_of(&call->in[0], call->dim), rows = wide > 0 ? view_count(&call->out) / wide : 0;
    const void *x = pack_input(call, 0, &room);
    const void *weight = call->start & HAS_WEIGHT ? pack_input(call, 1, &room) : NULL;
    const void *bias = call->start & HAS_BIAS ? pack_input(call, 2, &room) : NULL;
    if (call->compute == DTYPE_F32)
        f32_layer(call->out.data, x, weight, bias, rows, wide, call->alpha);
    else
        f64_layer(call->out.data, x, weight, bias, rows, wide, call->alpha);
}

/* in: gradient, input, weight. */
void
cpu_layer_norm_backward(const struct cpu_call *call)
{
    char       *room = call->workspace;
    int64_t     wide = width_of(&call->in[0], call->dim), rows = wide > 0 ? view_count(&call->out) / wide : 0;
    const void *g = pack_input(call, 0, &room), *x = pack_input(call, 1, &room);
    const void *weight = call->start & HAS_WEIGHT ? pack_input(call, 2, &room) : NULL;
    if (call->compute == DTYPE_F32)
        f32_layer_input(call->out.data, g, x, weight, (float *)(void *)room, rows, wide, call->alpha);
    else
        f64_layer_input(call->out.data, g, x, weight, (double *)(void *)room, rows, wide, call->alpha);
}

/* in: gradient, input. */
void
cpu_layer_norm_sums(const struct cpu_call *call)
{
    char       *room = call->workspace;
    int64_t     wide = width_of(&call->in[0], call->dim), rows = wide > 0 ? view_count(&call->in[0]) / wide : 0;
    const void *g = pack_input(call, 0, &room), *x = pack_input(call, 1, &room);
    if (call->compute == DTYPE_F32)
        f32_layer_sums(call->out.data, g, x, rows, wide, call->alpha);
    else
        f64_layer_sums(call->out.data, g, x, rows, wide, call->alpha);
}
