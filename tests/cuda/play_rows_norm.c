/* Cases for the kernels of normalisation; the list is play_rows.c's. */
#include "play_rows.h"
#include "tensor/cpu/norm.h"

/* ---- batch_norm ---- */

struct batch_case { int64_t samples, channels, length; enum layout layout; int64_t start; bool odd; };

static struct cpu_call
batch_call(struct play *p, enum dtype dtype, const struct batch_case *c)
{
    struct sizes all = { 3, { c->samples, c->channels, c->length } }, each = { 1, { c->channels } };
    struct sizes two = { 2, { 2, c->channels } }, three = { 2, { 3, c->channels } };
    struct sizes ranks = { 2, { c->samples, 2 * c->channels + 1 } };
    struct { enum kernel kernel; int inputs; struct sizes in[CALL_INPUTS], out; } of[] = {
        { KERNEL_cpu_batch_norm_stats, 1, { all }, three },
        { KERNEL_cpu_batch_norm_gather_stats, 1, { ranks }, three },
        { KERNEL_cpu_batch_norm, 4, { all, three, each, each }, all },
        { KERNEL_cpu_batch_norm_sums, 3, { all, all, three }, two },
        { KERNEL_cpu_batch_norm_terms, 3, { two, three, each }, three },
        { KERNEL_cpu_batch_norm_backward, 4, { all, all, three, three }, all },
    };
    struct cpu_call call = { 0 };
    for (size_t k = 0; k < sizeof of / sizeof *of; k++) {
        if (of[k].kernel != p->kernel)
            continue;
        call = rows_call(p, of[k].inputs, dtype);
        for (int i = 0; i < of[k].inputs; i++)
            call.in[i] = numbers(p, c->odd, dtype, c->layout, of[k].in[i]);
        call.out = result(p, dtype, of[k].out);
    }
    call.alpha  = 1e-5;
    call.start  = c->start;
    call.length = c->samples * c->length;
    return call;
}

static void
batch_case(struct play *p, struct batch_case c)
{
    for (int t = 0; t < REAL_TYPES; t++) {
        struct cpu_call call = batch_call(p, real_types[t], &c);
        compare(p, p->kernel, &call);
    }
}

void
batch_shapes(struct play *p)
{
    for (int i = 0; i < LENGTHS - 1; i++) {
        batch_case(p, (struct batch_case){ .samples = 3, .channels = 2, .length = lengths[i] });
        batch_case(p, (struct batch_case){ .samples = lengths[i], .channels = 2, .length = 1 });
        batch_case(p, (struct batch_case){ .samples = lengths[i], .channels = 1, .length = 9 });
        batch_case(p, (struct batch_case){ .samples = 2, .channels = lengths[i], .length = 3 });
    }
    for (int64_t start = 0; start < 16; start++)
        batch_case(p, (struct batch_case){ .samples = 4, .channels = 5, .length = 8, .start = start });
    for (int l = 0; l < ROW_LAYOUTS; l++)
        batch_case(p, (struct batch_case){ .samples = 5, .channels = 3, .length = 11,
                                           .start = HAS_WEIGHT | HAS_BIAS | OF_BATCH,
                                           .layout = row_layouts[l] });
}

void
batch_odd(struct play *p)
{
    for (int64_t start = 0; start < 16; start += 5)
        batch_case(p, (struct batch_case){ .samples = 4, .channels = 40, .length = 2, .start = start, .odd = true });
}

/* ---- layer_norm ---- */

static struct sizes
tail_of(const struct sizes *sizes, int dims)
{
    struct sizes tail = { dims, { 0 } };
    for (int d = 0; d < dims; d++)
        tail.size[d] = sizes->size[sizes->dims - dims + d];
    return tail;
}

/* Of a layer the weight is like a row, of groups there is one for each channel. */
static void
line_case(struct play *p, bool odd, enum layout layout, struct sizes sizes, int64_t dim, int64_t start)
{
    bool groups = p->kernel == KERNEL_cpu_group_norm || p->kernel == KERNEL_cpu_group_norm_backward;
    bool back = p->kernel == KERNEL_cpu_layer_norm_backward || p->kernel == KERNEL_cpu_group_norm_backward;
    struct sizes own = groups ? (struct sizes){ 1, { sizes.size[1] } } : tail_of(&sizes, (int)dim);
    for (int t = 0; t < REAL_TYPES; t++) {
        struct cpu_call call = rows_call(p, 3, real_types[t]);
        call.in[0] = numbers(p, odd, real_types[t], layout, sizes);
        call.in[1] = numbers(p, odd, real_types[t], layout, back ? sizes : own);
        call.in[2] = numbers(p, odd, real_types[t], layout, own);
        call.out   = result(p, real_types[t], sizes);
        call.dim   = dim;
        call.start = start;
        call.alpha = 1e-5;
        compare(p, p->kernel, &call);
    }
}

void
lines_layer(struct play *p)
{
    for (int i = 0; i < LENGTHS; i++)
        line_case(p, false, LAYOUT_PLAIN, (struct sizes){ 2, { i < LENGTHS - 1 ? 3 : 1, lengths[i] } }, 1, 3);
    for (int i = 0; i < LENGTHS - 1; i++)
        line_case(p, false, LAYOUT_PLAIN, (struct sizes){ 2, { lengths[i], 12 } }, 1, 3);
    for (int l = 0; l < ROW_LAYOUTS; l++)
        for (int dim = 1; dim <= 3; dim++)
            for (int start = 0; start < 4; start++)
                line_case(p, false, row_layouts[l], (struct sizes){ 3, { 4, 5, 7 } }, dim, start);
}

void
lines_group(struct play *p)
{
    for (int i = 1; i < LENGTHS - 1; i++)
        line_case(p, false, LAYOUT_PLAIN, (struct sizes){ 3, { 2, 4, lengths[i] } }, 2, 3);
    for (int i = 0; i < LENGTHS - 1; i++)
        line_case(p, false, LAYOUT_PLAIN, (struct sizes){ 3, { lengths[i], 2, 3 } }, 2, 3);
    for (int l = 0; l < ROW_LAYOUTS; l++)
        for (int dim = 1; dim <= 4; dim *= 2)
            for (int start = 0; start < 4; start++)
                line_case(p, false, row_layouts[l], (struct sizes){ 4, { 3, 4, 3, 5 } }, dim, start);
}

void
lines_odd(struct play *p)
{
    for (int start = 0; start < 4; start++)
        line_case(p, true, LAYOUT_PLAIN, (struct sizes){ 3, { 40, 4, 1 } }, 2, start);
}

/* in: gradient, input. */
static void
sums_case(struct play *p, bool odd, enum layout layout, struct sizes sizes, int64_t dim)
{
    bool         groups = p->kernel == KERNEL_cpu_group_norm_sums;
    struct sizes out = { groups ? 2 : (int)dim + 1, { 2, sizes.size[1] } };
    for (int d = 0; !groups && d < (int)dim; d++)
        out.size[d + 1] = sizes.size[sizes.dims - (int)dim + d];
    for (int t = 0; t < REAL_TYPES; t++) {
        struct cpu_call call = rows_call(p, 2, real_types[t]);
        for (int i = 0; i < 2; i++)
            call.in[i] = numbers(p, odd, real_types[t], layout, sizes);
        call.out   = result(p, real_types[t], out);
        call.dim   = dim;
        call.alpha = 1e-5;
        compare(p, p->kernel, &call);
    }
}

void
lines_layer_sums(struct play *p)
{
    for (int i = 0; i < LENGTHS - 1; i++) {
        sums_case(p, false, LAYOUT_PLAIN, (struct sizes){ 2, { lengths[i], 12 } }, 1);
        sums_case(p, false, LAYOUT_PLAIN, (struct sizes){ 2, { 35, lengths[i] } }, 1);
    }
    for (int l = 0; l < ROW_LAYOUTS; l++)
        for (int dim = 1; dim <= 3; dim++)
            sums_case(p, l == 3, row_layouts[l], (struct sizes){ 3, { 6, 5, 7 } }, dim);
}

void
lines_group_sums(struct play *p)
{
    for (int i = 0; i < LENGTHS - 1; i++) {
        sums_case(p, false, LAYOUT_PLAIN, (struct sizes){ 3, { lengths[i], 4, 3 } }, 2);
        sums_case(p, false, LAYOUT_PLAIN, (struct sizes){ 3, { 3, 4, lengths[i] } }, 2);
    }
    for (int l = 0; l < ROW_LAYOUTS; l++)
        for (int dim = 1; dim <= 4; dim *= 2)
            sums_case(p, l == 3, row_layouts[l], (struct sizes){ 4, { 6, 4, 3, 5 } }, dim);
}
