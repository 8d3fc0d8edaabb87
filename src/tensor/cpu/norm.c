/* batch_norm, layer_norm and group_norm with their gradients. What batch_norm needs of the whole batch is an op of its
 * own (batch_norm_stats), so that running statistics and gradients use the same numbers.
 *
 * start: the bits of norm.h.
 * alpha: eps. dim: how many trailing dimensions layer_norm normalises, how many groups group_norm has.
 * In PyTorch: ATen/native/Normalization.cpp, ATen/native/cpu/layer_norm_kernel.cpp. */
#include <math.h>
#include <stdbool.h>
#include <string.h>
#include "tensor/cpu/kernels.h"
#include "tensor/cpu/norm.h"
#include "tensor/cpu/pack.h"
#include "tensor/cpu/wide.h"

struct batch { int64_t samples, channels, length; };
struct lines { int64_t rows, wide; double eps; };
struct gathered { int64_t ranks, channels; double eps; };
struct groups { int64_t rows, groups, channels, length; double eps; }; /* channels of a group, elements of a channel */
/* What a kernel reads, as much of it as it has: gradient, input, its statistics, sums and terms of the gradient. */
struct norm { const void *g, *x, *stats, *sums, *terms, *weight, *bias; bool centered; };

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

/* in: for each rank a row of means, of 1 / sqrt(variance + eps), and its count. */
void
cpu_batch_norm_gather_stats(const struct cpu_call *call)
{
    char           *room = call->workspace;
    struct gathered by = { call->in[0].size[0], call->out.size[1], call->alpha };
    const void     *rows = pack_input(call, 0, &room);
    if (call->compute == DTYPE_F32)
        f32_gather(call->out.data, rows, &by);
    else
        f64_gather(call->out.data, rows, &by);
}

/* in: input, statistics, weight, bias. */
void
cpu_batch_norm(const struct cpu_call *call)
{
    char        *room = call->workspace;
    struct batch b = batch_of(&call->in[0]);
    struct norm  in = { .x = pack_input(call, 0, &room) };
    in.stats  = pack_input(call, 1, &room);
    in.weight = call->start & HAS_WEIGHT ? pack_input(call, 2, &room) : NULL;
    in.bias   = call->start & HAS_BIAS ? pack_input(call, 3, &room) : NULL;
    if (call->compute == DTYPE_F32)
        f32_batch(call->out.data, &in, &b);
    else
        f64_batch(call->out.data, &in, &b);
}

/* in: gradient, input, statistics. */
void
cpu_batch_norm_sums(const struct cpu_call *call)
{
    char        *room = call->workspace;
    struct batch b = batch_of(&call->in[0]);
    struct norm  in = { .g = pack_input(call, 0, &room) };
    in.x     = pack_input(call, 1, &room);
    in.stats    = pack_input(call, 2, &room);
    in.centered = call->start & CENTERED_SUMS;
    if (call->compute == DTYPE_F32)
        f32_batch_sums(call->out.data, &in, &b);
    else
        f64_batch_sums(call->out.data, &in, &b);
}

/* in: sums, statistics, weight. length: elements of a channel. */
void
cpu_batch_norm_terms(const struct cpu_call *call)
{
    char       *room = call->workspace;
    double      count = call->start & OF_BATCH ? (double)call->length : 0;
    struct norm in = { .sums = pack_input(call, 0, &room) };
    in.stats  = pack_input(call, 1, &room);
    in.weight = call->start & HAS_WEIGHT ? pack_input(call, 2, &room) : NULL;
    in.centered = call->start & CENTERED_SUMS;
    if (call->compute == DTYPE_F32)
        f32_coefficients(call->out.data, &in, call->out.size[1], count);
    else
        f64_coefficients(call->out.data, &in, call->out.size[1], count);
}

/* in: gradient, input, statistics, terms. */
void
cpu_batch_norm_backward(const struct cpu_call *call)
{
    char        *room = call->workspace;
    struct batch b = batch_of(&call->in[0]);
    struct norm  in = { .g = pack_input(call, 0, &room) };
    in.x     = pack_input(call, 1, &room);
    in.stats = pack_input(call, 2, &room);
    in.terms = pack_input(call, 3, &room);
    if (call->compute == DTYPE_F32)
        f32_batch_input(call->out.data, &in, &b);
    else
        f64_batch_input(call->out.data, &in, &b);
}

/* The first operand's last call->dim dimensions are a row. */
static struct lines
lines_of(const struct cpu_call *call)
{
    const struct cpu_view *view = &call->in[0];
    struct lines           lines = { .wide = 1, .eps = call->alpha };
    for (int64_t d = view->dims - call->dim; d < view->dims; d++)
        lines.wide *= view->size[d];
    lines.rows = lines.wide > 0 ? view_count(view) / lines.wide : 0;
    return lines;
}

/* in: input, weight, bias. */
void
cpu_layer_norm(const struct cpu_call *call)
{
    char        *room = call->workspace;
    struct lines lines = lines_of(call);
    struct norm  in = { .x = pack_input(call, 0, &room) };
    in.weight = call->start & HAS_WEIGHT ? pack_input(call, 1, &room) : NULL;
    in.bias   = call->start & HAS_BIAS ? pack_input(call, 2, &room) : NULL;
    if (call->compute == DTYPE_F32)
        f32_layer(call->out.data, &in, &lines);
    else
        f64_layer(call->out.data, &in, &lines);
}

/* in: gradient, input, weight. */
void
cpu_layer_norm_backward(const struct cpu_call *call)
{
    char        *room = call->workspace;
    struct lines lines = lines_of(call);
    struct norm  in = { .g = pack_input(call, 0, &room) };
    in.x      = pack_input(call, 1, &room);
    in.weight = call->start & HAS_WEIGHT ? pack_input(call, 2, &room) : NULL;
    if (call->compute == DTYPE_F32)
        f32_layer_input(call->out.data, &in, &lines, (float *)(void *)room);
    else
        f64_layer_input(call->out.data, &in, &lines, (double *)(void *)room);
}

/* in: gradient, input. */
void
cpu_layer_norm_sums(const struct cpu_call *call)
{
    char        *room = call->workspace;
    struct lines lines = lines_of(call);
    struct norm  in = { .g = pack_input(call, 0, &room) };
    in.x = pack_input(call, 1, &room);
    if (call->compute == DTYPE_F32)
        f32_layer_sums(call->out.data, &in, &lines);
    else
        f64_layer_sums(call->out.data, &in, &lines);
}

/* The operand's dimension 1 is `call->dim` groups of channels. */
static struct groups
groups_of(const struct cpu_call *call, const struct cpu_view *view)
{
    struct groups of = { view->size[0] * call->dim, call->dim, view->size[1] / call->dim, 1, call->alpha };
    for (int d = 2; d < view->dims; d++)
        of.length *= view->size[d];
    return of;
}

/* in: input, weight, bias. */
void
cpu_group_norm(const struct cpu_call *call)
{
    char         *room = call->workspace;
    struct groups of = groups_of(call, &call->in[0]);
    struct norm   in = { .x = pack_input(call, 0, &room) };
    in.weight = call->start & HAS_WEIGHT ? pack_input(call, 1, &room) : NULL;
    in.bias   = call->start & HAS_BIAS ? pack_input(call, 2, &room) : NULL;
    if (call->compute == DTYPE_F32)
        f32_group(call->out.data, &in, &of);
    else
        f64_group(call->out.data, &in, &of);
}

/* in: gradient, input, weight. */
void
cpu_group_norm_backward(const struct cpu_call *call)
{
    char         *room = call->workspace;
    struct groups of = groups_of(call, &call->in[0]);
    struct norm   in = { .g = pack_input(call, 0, &room) };
    in.x      = pack_input(call, 1, &room);
    in.weight = call->start & HAS_WEIGHT ? pack_input(call, 2, &room) : NULL;
    if (call->compute == DTYPE_F32)
        f32_group_input(call->out.data, &in, &of, (float *)(void *)room);
    else
        f64_group_input(call->out.data, &in, &of, (double *)(void *)room);
}

/* in: gradient, input. */
void
cpu_group_norm_sums(const struct cpu_call *call)
{
    char         *room = call->workspace;
    struct groups of = groups_of(call, &call->in[0]);
    struct norm   in = { .g = pack_input(call, 0, &room) };
    in.x = pack_input(call, 1, &room);
    if (call->compute == DTYPE_F32)
        f32_group_sums(call->out.data, &in, &of);
    else
        f64_group_sums(call->out.data, &in, &of);
}
