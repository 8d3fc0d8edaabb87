/* Cases for the kernels of products, convolutions and the steps of an LSTM (rows_products.def): bits are the CPU's
 * exact ones. What cuBLAS does: play_cublas.c. */
#include "play_kernels.h"
#include <string.h>
#include "tensor/cpu/conv.h"
#include "tensor/cpu/lstm.h"
#include "tensor/cpu/view.h"

static const enum dtype types[] = { DTYPE_F32, DTYPE_F64, DTYPE_I64 };
enum { TYPES = sizeof types / sizeof *types, FRACTIONS = 2 };

/* A view of numbers whose sums are rounded at each step; of integers, which wrap around, whatever there is. */
static struct cpu_view
view_of(struct play *p, enum dtype dtype, enum layout layout, struct sizes sizes)
{
    struct cpu_view view = view_new(p, dtype, layout, sizes);
    if (dtype != DTYPE_I64)
        fill_between(p, view, -1, 1);
    return view;
}

/* ---- matrices ---- */

/* m x k by k x n. */
struct product { int64_t m, k, n; };

static struct cpu_call
product_call(struct play *p, enum dtype dtype, struct product size, enum layout left, enum layout right)
{
    struct cpu_call call = call_of(2, dtype);
    call.in[0]     = view_of(p, dtype, left, (struct sizes){ 2, { size.m, size.k } });
    call.in[1]     = view_of(p, dtype, right, (struct sizes){ 2, { size.k, size.n } });
    call.out       = view_of(p, dtype, LAYOUT_PLAIN, (struct sizes){ 2, { size.m, size.n } });
    call.alpha     = 1;
    call.workspace = workspace_new(p, cpu_mm_workspace(dtype, size.k));
    return call;
}

static const struct product products[] = {
    { 0, 3, 5 },    { 3, 0, 5 },     { 3, 5, 0 },    { 1, 1, 1 },     { 3, 3, 3 },     { 31, 32, 33 }, { 32, 33, 31 },
    { 33, 31, 32 }, { 1, 257, 33 },  { 33, 257, 1 }, { 4, 255, 65 },  { 65, 256, 4 },  { 5, 33, 5 },   { 255, 3, 17 },
    { 17, 1, 257 },
};
enum { PRODUCTS = sizeof products / sizeof *products };

static void
all_sizes(struct play *p)
{
    for (int i = 0; i < PRODUCTS * TYPES; i++) {
        if (types[i % TYPES] == DTYPE_I64 && p->kernel == KERNEL_cpu_mm_add)
            continue;
        struct cpu_call call = product_call(p, types[i % TYPES], products[i / TYPES], LAYOUT_PLAIN, LAYOUT_PLAIN);
        compare(p, p->kernel, &call);
    }
}

static void
all_layouts(struct play *p)
{
    for (enum layout left = LAYOUT_PLAIN; left < LAYOUTS; left++) {
        for (enum layout right = LAYOUT_PLAIN; right < LAYOUTS; right++) {
            int             most = p->kernel == KERNEL_cpu_mm_add ? FRACTIONS : TYPES;
            enum dtype      dtype = types[((int)left + (int)right) % most];
            struct cpu_call call = product_call(p, dtype, (struct product){ 19, 37, 21 }, left, right);
            compare(p, p->kernel, &call);
        }
    }
}

/* Enough tiles of 64 by 64 that they are taken: all edges of such a tile are among them. */
static void
large_tiles(struct play *p)
{
    struct cpu_call wide = product_call(p, DTYPE_F32, (struct product){ 33, 17, 64 * 95 + 1 }, LAYOUT_PLAIN,
                                        LAYOUT_PLAIN);
    struct cpu_call high = product_call(p, DTYPE_F32, (struct product){ 64 * 95 + 1, 16, 35 }, LAYOUT_TRANSPOSED,
                                        LAYOUT_TRANSPOSED);
    compare(p, p->kernel, &wide);
    compare(p, p->kernel, &high);
}

/* NaN, infinities, -0, numbers that are hardly any. */
static void
odd_values(struct play *p)
{
    for (int i = 0; i < FRACTIONS; i++) {
        struct cpu_call call = product_call(p, types[i], (struct product){ 40, 3, 40 }, LAYOUT_PLAIN, LAYOUT_PLAIN);
        for (int side = 0; side < 2; side++)
            fill_odd(p, call.in[side]);
        fill_odd(p, call.out);
        compare(p, p->kernel, &call);
    }
}

/* The sum begins at what is there: -0 stays it where nothing, or only -0, is added. */
static void
adds_to_minus_zero(struct play *p)
{
    struct cpu_call call = product_call(p, DTYPE_F32, (struct product){ 9, 2, 9 }, LAYOUT_PLAIN, LAYOUT_PLAIN);
    struct cpu_call nothing = product_call(p, DTYPE_F32, (struct product){ 9, 0, 9 }, LAYOUT_PLAIN, LAYOUT_PLAIN);
    fill_value(call.out, -0.0);
    fill_value(nothing.out, -0.0);
    fill_value(call.in[0], -0.0);
    compare(p, KERNEL_cpu_mm_add, &call);
    compare(p, KERNEL_cpu_mm_add, &nothing);
}

static void
no_narrow_types(struct play *p)
{
    struct cpu_call call = product_call(p, DTYPE_F32, (struct product){ 3, 3, 3 }, LAYOUT_PLAIN, LAYOUT_PLAIN);
    call.in[1].dtype = DTYPE_F16;
    lacks(p, KERNEL_cpu_mm, &call);
    call.in[1].dtype = DTYPE_F32;
    call.out.dtype   = DTYPE_F64;
    lacks(p, KERNEL_cpu_mm, &call);
}

/* ---- a bias ---- */

static void
play_bias(struct play *p, enum dtype dtype, struct sizes bias, enum layout layout, struct product size)
{
    struct cpu_call call = product_call(p, dtype, size, LAYOUT_PLAIN, LAYOUT_TRANSPOSED);
    call.inputs = 3;
    call.in[2]  = call.in[1];
    call.in[1]  = call.in[0];
    call.in[0]  = view_of(p, dtype, layout, bias);
    compare(p, KERNEL_cpu_addmm, &call);
}

static void
biases(struct play *p)
{
    const int64_t m = 33, n = 18;
    const struct sizes shapes[] = { { 1, { n } }, { 1, { 1 } }, { 0, { 0 } }, { 2, { m, n } }, { 2, { 1, n } },
                                    { 2, { m, 1 } }, { 2, { 1, 1 } } };
    for (int i = 0; i < TYPES; i++) {
        for (size_t shape = 0; shape < sizeof shapes / sizeof *shapes; shape++)
            play_bias(p, types[i], shapes[shape], LAYOUT_PLAIN, (struct product){ m, 31, n });
        play_bias(p, types[i], shapes[0], LAYOUT_STRIDED, (struct product){ m, 5, n });
        play_bias(p, types[i], shapes[3], LAYOUT_TRANSPOSED, (struct product){ m, 0, n });
        play_bias(p, types[i], shapes[3], LAYOUT_EXPANDED, (struct product){ m, 257, n });
        play_bias(p, types[i], (struct sizes){ 1, { 3 } }, LAYOUT_PLAIN, (struct product){ 0, 4, 3 });
    }
}

/* ---- batches and vectors ---- */

static void
play_batch(struct play *p, enum dtype dtype, int64_t count, struct product size, enum layout layout)
{
    struct cpu_call call = call_of(2, dtype);
    call.in[0]     = view_of(p, dtype, layout, (struct sizes){ 3, { count, size.m, size.k } });
    call.in[1]     = view_of(p, dtype, layout, (struct sizes){ 3, { count, size.k, size.n } });
    call.out       = view_of(p, dtype, LAYOUT_PLAIN, (struct sizes){ 3, { count, size.m, size.n } });
    call.workspace = workspace_new(p, cpu_mm_workspace(dtype, size.k));
    compare(p, KERNEL_product_bmm, &call);
}

static void
batches(struct play *p)
{
    for (int i = 0; i < TYPES; i++) {
        for (enum layout layout = LAYOUT_PLAIN; layout < LAYOUTS; layout++)
            play_batch(p, types[i], 3, (struct product){ 17, 33, 9 }, layout);
        play_batch(p, types[i], 0, (struct product){ 2, 3, 2 }, LAYOUT_PLAIN);
        play_batch(p, types[i], 2, (struct product){ 2, 0, 2 }, LAYOUT_PLAIN);
        play_batch(p, types[i], 5, (struct product){ 1, 32, 1 }, LAYOUT_PLAIN);
    }
}

static void
many_matrices(struct play *p)
{
    play_batch(p, DTYPE_F32, 97, (struct product){ 33, 3, 34 }, LAYOUT_PLAIN);
}

static void
play_vector(struct play *p, enum dtype dtype, int64_t rows, int64_t length, enum layout layout)
{
    struct cpu_call call = call_of(2, dtype);
    bool            is_dot = rows < 0;
    call.in[0]     = is_dot ? view_of(p, dtype, layout, (struct sizes){ 1, { length } })
                            : view_of(p, dtype, layout, (struct sizes){ 2, { rows, length } });
    call.in[1]     = view_of(p, dtype, layout, (struct sizes){ 1, { length } });
    call.out       = view_of(p, dtype, LAYOUT_PLAIN, (struct sizes){ is_dot ? 0 : 1, { rows } });
    call.workspace = workspace_new(p, cpu_mm_workspace(dtype, length));
    compare(p, KERNEL_product_vector, &call);
}

static void
vectors(struct play *p)
{
    for (int i = 0; i < TYPES * LENGTHS; i++) {
        enum layout layout = (enum layout)(i % LAYOUT_EXPANDED);
        play_vector(p, types[i % TYPES], -1, lengths[i / TYPES], layout);
        if (lengths[i / TYPES] <= 257) {
            play_vector(p, types[i % TYPES], lengths[i / TYPES], 33, layout);
            play_vector(p, types[i % TYPES], 3, lengths[i / TYPES], layout);
        }
    }
    play_vector(p, DTYPE_F32, 65, 40, LAYOUT_EXPANDED);
}

/* ---- convolutions ---- */

struct filter { int64_t n, groups, ins, outs, h, w, kh, kw, sh, sw, ph, pw, dh, dw; };   /* ins, outs: of one group */

static const struct filter filters[] = {
    { 2, 1, 3, 5, 9, 7, 3, 3, 1, 1, 1, 1, 1, 1 },        /* planes that move: as wide as what they give */
    { 1, 1, 1, 1, 5, 5, 1, 1, 1, 1, 0, 0, 1, 1 },
    { 2, 1, 2, 17, 8, 8, 3, 3, 1, 1, 0, 0, 1, 1 },
    { 3, 1, 2, 4, 9, 11, 3, 2, 2, 3, 1, 0, 1, 1 },
    { 1, 1, 2, 4, 11, 12, 3, 3, 1, 1, 2, 2, 2, 2 },      /* dilated, and moving */
    { 2, 1, 2, 3, 10, 9, 2, 3, 2, 1, 3, 2, 3, 2 },
    { 2, 3, 2, 2, 6, 6, 3, 3, 1, 1, 1, 1, 1, 1 },
    { 2, 4, 1, 2, 6, 5, 3, 3, 2, 2, 1, 1, 1, 1 },        /* each channel by itself */
    { 2, 1, 33, 34, 4, 4, 3, 3, 1, 1, 1, 1, 1, 1 },
    { 1, 1, 1, 2, 2, 2, 3, 3, 1, 1, 5, 5, 1, 1 },        /* places that see nothing but padding */
    { 1, 1, 1, 2, 3, 4, 3, 5, 1, 1, 0, 1, 1, 1 },
    { 5, 1, 1, 1, 1, 1, 1, 1, 3, 3, 0, 0, 1, 1 },
    { 0, 1, 2, 3, 5, 5, 3, 3, 1, 1, 1, 1, 1, 1 },
};
enum { FILTERS = sizeof filters / sizeof *filters };

static struct sizes
image_of(const struct filter *f)
{
    return (struct sizes){ 4, { f->n, f->groups * f->ins, f->h, f->w } };
}

static struct sizes
weight_of(const struct filter *f)
{
    return (struct sizes){ 4, { f->groups * f->outs, f->ins, f->kh, f->kw } };
}

static struct sizes
result_of(const struct filter *f)
{
    int64_t oh = (f->h + 2 * f->ph - f->dh * (f->kh - 1) - 1) / f->sh + 1;
    int64_t ow = (f->w + 2 * f->pw - f->dw * (f->kw - 1) - 1) / f->sw + 1;
    return (struct sizes){ 4, { f->n, f->groups * f->outs, oh, ow } };
}

/* Operands of those sizes; room as the CPU's plan has it, packed copies of both included. */
static struct cpu_call
conv_call(struct play *p, enum dtype dtype, const struct filter *f, enum layout layout, const struct sizes *sizes)
{
    const int64_t   steps[7] = { f->sh, f->sw, f->ph, f->pw, f->dh, f->dw, f->groups };
    struct cpu_call call = call_of(2, dtype);
    struct sizes    image = image_of(f), weight = weight_of(f), result = result_of(f);
    memcpy(call.sizes, steps, sizeof steps);
    call.in[0] = view_of(p, dtype, layout, sizes[0]);
    call.in[1] = view_of(p, dtype, layout, sizes[1]);
    call.out   = view_of(p, dtype, LAYOUT_PLAIN, sizes[2]);
    struct conv shape = conv_shape(steps, image.size, weight.size, result.size);
    int64_t     packed = view_count(&call.in[0]) + view_count(&call.in[1]) + sizes[1].size[0];
    size_t      room = conv_workspace(&shape, dtype, true) + (size_t)packed * dtype_size(dtype) + 3 * 64;
    call.workspace = workspace_new(p, room);
    return call;
}

static void
play_forward(struct play *p, enum dtype dtype, const struct filter *f, enum layout layout)
{
    const struct sizes sizes[] = { image_of(f), weight_of(f), result_of(f) };
    struct cpu_call    call = conv_call(p, dtype, f, layout, sizes);
    call.start = 1;
    compare(p, KERNEL_cpu_conv2d, &call);
    call.start  = 0;
    call.inputs = 3;
    call.in[2]  = view_of(p, dtype, layout == LAYOUT_PLAIN ? LAYOUT_PLAIN : LAYOUT_STRIDED,
                          (struct sizes){ 1, { f->groups * f->outs } });
    compare(p, KERNEL_cpu_conv2d, &call);
}

static void
play_conv(struct play *p, enum dtype dtype, const struct filter *f, enum layout layout)
{
    if (p->kernel == KERNEL_cpu_conv2d) {
        play_forward(p, dtype, f, layout);
        return;
    }
    bool               is_weight = p->kernel == KERNEL_cpu_conv2d_weight;
    const struct sizes back[] = { result_of(f), weight_of(f), image_of(f) };
    const struct sizes weight[] = { result_of(f), image_of(f), weight_of(f) };
    struct cpu_call    call = conv_call(p, dtype, f, layout, is_weight ? weight : back);
    call.length = is_weight ? f->kh : f->h;
    call.step   = is_weight ? f->kw : f->w;
    compare(p, p->kernel, &call);
}

static void
convolutions(struct play *p)
{
    for (int i = 0; i < FILTERS; i++)
        for (int type = 0; type < FRACTIONS; type++)
            play_conv(p, types[type], &filters[i], LAYOUT_PLAIN);
}

static void
convolutions_of_layouts(struct play *p)
{
    for (enum layout layout = LAYOUT_TRANSPOSED; layout < LAYOUTS; layout++)
        for (int i = 0; i < 8; i++)
            play_conv(p, types[i % FRACTIONS], &filters[i], layout);
}

/* Padding is a factor 0 as well: of infinity it makes NaN. */
static void
convolution_of_odd_values(struct play *p)
{
    const struct filter *f = &filters[5];
    const struct sizes   sizes[] = { image_of(f), weight_of(f), result_of(f) };
    const struct sizes   back[] = { sizes[2], sizes[1], sizes[0] }, weight[] = { sizes[2], sizes[0], sizes[1] };
    struct cpu_call      call = conv_call(p, DTYPE_F32, f, LAYOUT_PLAIN, p->kernel == KERNEL_cpu_conv2d ? sizes :
                                          p->kernel == KERNEL_cpu_conv2d_weight ? weight : back);
    call.start  = 1;
    call.length = p->kernel == KERNEL_cpu_conv2d_weight ? f->kh : f->h;
    call.step   = p->kernel == KERNEL_cpu_conv2d_weight ? f->kw : f->w;
    for (int64_t i = 0; i < view_count(&call.in[0]); i += 97)
        fill_odd(p, (struct cpu_view){ .data = view_at(call.in[0], i), .dtype = DTYPE_F32 });
    for (int64_t i = 0; i < view_count(&call.in[1]); i += 5)
        fill_odd(p, (struct cpu_view){ .data = view_at(call.in[1], i), .dtype = DTYPE_F32 });
    compare(p, p->kernel, &call);
}

/* Large tiles, by many channels and samples. */
static void
large_convolution(struct play *p)
{
    const struct filter many = { 96, 1, 33, 34, 6, 6, 1, 1, 1, 1, 0, 0, 1, 1 };
    play_conv(p, DTYPE_F32, &many, LAYOUT_PLAIN);
}

/* More than fit beside each other: sample by sample. */
static void
weight_too_large_for_parts(struct play *p)
{
    const struct filter large = { 3, 1, 837, 838, 1, 1, 1, 1, 1, 1, 0, 0, 1, 1 };
    play_conv(p, DTYPE_F32, &large, LAYOUT_PLAIN);
    const struct filter wide = { 3, 1, 592, 593, 2, 1, 1, 1, 1, 1, 0, 0, 1, 1 };
    play_conv(p, DTYPE_F64, &wide, LAYOUT_PLAIN);
}

static void
no_whole_convolution(struct play *p)
{
    const struct sizes sizes[] = { image_of(&filters[0]), weight_of(&filters[0]), result_of(&filters[0]) };
    struct cpu_call    call = conv_call(p, DTYPE_F32, &filters[0], LAYOUT_PLAIN, sizes);
    call.start   = 1;
    call.compute = DTYPE_I64;
    lacks(p, KERNEL_cpu_conv2d, &call);
    call.compute  = DTYPE_F32;
    call.sizes[0] = INT32_MAX;
    lacks(p, KERNEL_cpu_conv2d, &call);
}

/* ---- the steps of an LSTM ---- */

struct layer { int64_t steps, rows, wide; bool turned, has_bias, last_only, has_grad, skip_first; };

static const struct layer layers[] = {
    { 3, 2, 5, false, true, false, true, false },    { 4, 3, 33, true, true, false, true, true },
    { 1, 1, 1, false, false, false, true, false },   { 2, 5, 64, false, false, false, false, false },
    { 5, 1, 16, true, false, false, false, true },   { 3, 129, 3, false, true, false, true, false },
    { 2, 257, 2, true, true, false, true, false },   { 2, 513, 2, false, true, false, true, true },
    { 2, 517, 3, true, false, false, true, false },  { 2, 2, 70, false, true, false, true, false },
    { 1, 2, 257, false, true, false, true, false },  { 4, 3, 9, false, true, true, false, false },
    { 3, 130, 8, true, false, true, false, false },  { 0, 2, 4, false, true, false, true, false },
};
enum { STEP_LAYERS = sizeof layers / sizeof *layers };

static float *
floats(struct play *p, int64_t count, double reach)
{
    float          *memory = memory_new(p, DTYPE_F32, (size_t)count);
    struct cpu_view view = { .data = memory, .dtype = DTYPE_F32, .dims = 1, .size = { count }, .stride = { 1 } };
    fill_between(p, view, -reach, reach);
    return memory;
}

static struct lstm_steps
steps_of(struct play *p, const struct layer *l, double reach)
{
    return (struct lstm_steps){ .room = workspace_new(p, lstm_room(l->wide)), .steps = l->steps, .rows = l->rows,
                                .wide = l->wide, .turned = l->turned,
                                .weight = floats(p, 4 * l->wide * l->wide, reach) };
}

static void
play_forward_steps(struct play *p, const struct layer *l, double reach)
{
    int64_t             part = l->rows * l->wide;
    struct lstm_forward job = { .s = steps_of(p, l, reach), .last_only = l->last_only };
    job.bias  = l->has_bias ? floats(p, 4 * l->wide, reach) : NULL;
    job.h     = floats(p, part, 1);
    job.c     = floats(p, part, reach);
    job.gates = floats(p, l->steps * 4 * part, reach);
    job.cells = floats(p, (l->last_only ? 1 : l->steps + 1) * part, 1);
    job.out   = floats(p, l->steps * part, 1);
    compare(p, KERNEL_lstm_forward, &job);
}

static void
steps_forward(struct play *p)
{
    for (int i = 0; i < STEP_LAYERS; i++)
        play_forward_steps(p, &layers[i], 1);
}

/* Where sigmoid and tanh are 0 or 1. */
static void
steps_of_large_numbers(struct play *p)
{
    play_forward_steps(p, &layers[0], 60);
    play_forward_steps(p, &layers[1], 1e30);
}

static void
steps_back(struct play *p)
{
    for (int i = 0; i < STEP_LAYERS; i++) {
        const struct layer  *l = &layers[i];
        int64_t              part = l->rows * l->wide;
        struct lstm_backward job = { .s = steps_of(p, l, 1), .skip_first = l->skip_first };
        if (l->last_only)
            continue;
        job.grad       = l->has_grad ? floats(p, l->steps * part, 1) : NULL;
        job.gates      = floats(p, l->steps * 4 * part, 1);
        job.cells      = floats(p, (l->steps + 1) * part, 1);
        job.grad_gates = floats(p, l->steps * 4 * part, 1);
        job.state      = floats(p, 2 * part, 1);
        compare(p, KERNEL_lstm_backward, &job);
    }
}

/* What did not come counts as 0: -0 becomes 0. */
static void
steps_back_from_minus_zero(struct play *p)
{
    const struct layer   l = { 1, 2, 3, false, false, false, false, false };
    struct lstm_backward job = { .s = steps_of(p, &l, 1) };
    job.gates      = floats(p, 4 * 6, 1);
    job.cells      = floats(p, 2 * 6, 1);
    job.grad_gates = floats(p, 4 * 6, 1);
    job.state      = floats(p, 2 * 6, 1);
    for (int i = 0; i < 12; i++)
        job.state[i] = -0.0f;
    compare(p, KERNEL_lstm_backward, &job);
}

const struct play_case play_products[] = {
    { "mm of all sizes and types", all_sizes, KERNEL_cpu_mm },
    { "mm_add of all sizes and types", all_sizes, KERNEL_cpu_mm_add },
    { "mm of all layouts", all_layouts, KERNEL_cpu_mm },
    { "mm_add of all layouts", all_layouts, KERNEL_cpu_mm_add },
    { "mm by large tiles", large_tiles, KERNEL_cpu_mm },
    { "mm_add by large tiles", large_tiles, KERNEL_cpu_mm_add },
    { "mm of odd values", odd_values, KERNEL_cpu_mm },
    { "mm_add of odd values", odd_values, KERNEL_cpu_mm_add },
    { "mm_add keeps -0 where nothing is added", adds_to_minus_zero, KERNEL_cpu_mm_add },
    { "mm has no narrow types", no_narrow_types, KERNEL_cpu_mm },
    { "addmm adds a bias of any shape last", biases, KERNEL_cpu_addmm },
    { "bmm of all types and layouts", batches, KERNEL_product_bmm },
    { "bmm of many matrices, by large tiles", many_matrices, KERNEL_product_bmm },
    { "dot and mv of all lengths and types", vectors, KERNEL_product_vector },
    { "conv2d with all steps, paddings, dilations, groups", convolutions, KERNEL_cpu_conv2d },
    { "conv_transpose2d with all of them", convolutions, KERNEL_cpu_conv_transpose2d },
    { "conv2d_weight with all of them", convolutions, KERNEL_cpu_conv2d_weight },
    { "conv2d of all layouts", convolutions_of_layouts, KERNEL_cpu_conv2d },
    { "conv_transpose2d of all layouts", convolutions_of_layouts, KERNEL_cpu_conv_transpose2d },
    { "conv2d_weight of all layouts", convolutions_of_layouts, KERNEL_cpu_conv2d_weight },
    { "conv2d of odd values", convolution_of_odd_values, KERNEL_cpu_conv2d },
    { "conv_transpose2d of odd values", convolution_of_odd_values, KERNEL_cpu_conv_transpose2d },
    { "conv2d_weight of odd values", convolution_of_odd_values, KERNEL_cpu_conv2d_weight },
    { "conv2d by large tiles", large_convolution, KERNEL_cpu_conv2d },
    { "conv_transpose2d by large tiles", large_convolution, KERNEL_cpu_conv_transpose2d },
    { "conv2d_weight by large tiles", large_convolution, KERNEL_cpu_conv2d_weight },
    { "conv2d_weight that is too large for all samples at once", weight_too_large_for_parts, KERNEL_cpu_conv2d_weight },
    { "conv2d of whole numbers, and of huge steps, is the host's", no_whole_convolution, KERNEL_cpu_conv2d },
    { "an LSTM's steps forwards", steps_forward, KERNEL_lstm_forward },
    { "an LSTM's steps of large numbers", steps_of_large_numbers, KERNEL_lstm_forward },
    { "an LSTM's steps backwards", steps_back, KERNEL_lstm_backward },
    { "an LSTM's steps backwards from -0", steps_back_from_minus_zero, KERNEL_lstm_backward },
    { NULL, NULL, KERNEL_COUNT },
};
