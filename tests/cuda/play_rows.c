/* Cases for the kernels of rows (rows_rows.def): softmax, the class loss, recurrent cells; the list of all, whose other
 * functions are in play_rows_norm.c and play_rows_pool.c. */
#include "play_rows.h"
#include <math.h>
#include "play_kernels_internal.h"

const enum dtype  real_types[REAL_TYPES]   = { DTYPE_F32, DTYPE_F64 };
const enum layout row_layouts[ROW_LAYOUTS] = { LAYOUT_PLAIN, LAYOUT_TRANSPOSED, LAYOUT_STRIDED, LAYOUT_OFFSET };

struct cpu_view
numbers(struct play *p, bool odd, enum dtype dtype, enum layout layout, struct sizes sizes)
{
    struct cpu_view view = view_new(p, dtype, layout, sizes);
    if (!odd)
        fill_between(p, view, -3, 3);
    return view;
}

struct cpu_view
result(struct play *p, enum dtype dtype, struct sizes sizes)
{
    return view_new(p, dtype, LAYOUT_PLAIN, sizes);
}

struct cpu_view
places(struct play *p, enum layout layout, struct sizes sizes, int64_t low, int64_t high)
{
    struct cpu_view view = view_new(p, DTYPE_I64, layout, sizes);
    for (int64_t i = 0, n = view_count(&view); i < n; i++)
        *(int64_t *)view_at(view, i) = low + (int64_t)play_draw(p, (uint64_t)(high - low));
    return view;
}

struct cpu_call
rows_call(struct play *p, int inputs, enum dtype dtype)
{
    struct cpu_call call = call_of(inputs, dtype);
    storages_free(p);
    call.workspace = workspace_new(p, WORKSPACE);
    call.fault     = fault_new(p, true);
    return call;
}

/* ---- softmax ---- */

static bool
is_backward(const struct play *p)
{
    return p->kernel == KERNEL_cpu_softmax_backward || p->kernel == KERNEL_cpu_log_softmax_backward;
}

static void
softmax_case(struct play *p, bool odd, enum dtype dtype, enum layout layout, struct sizes sizes, int dim)
{
    struct cpu_call call = rows_call(p, 1 + is_backward(p), dtype);
    for (int i = 0; i < call.inputs; i++)
        call.in[i] = numbers(p, odd, dtype, i == 0 ? layout : LAYOUT_PLAIN, sizes);
    call.out = result(p, dtype, sizes);
    call.dim = dim;
    compare(p, p->kernel, &call);
}

static void
softmax_rows(struct play *p)
{
    for (int t = 0; t < REAL_TYPES; t++) {
        for (int i = 0; i < LENGTHS; i++)
            softmax_case(p, false, real_types[t], LAYOUT_PLAIN,
                         (struct sizes){ 2, { i < LENGTHS - 1 ? 5 : 1, lengths[i] } }, 1);
        for (int i = 0; i < LENGTHS - 1; i++)
            softmax_case(p, false, real_types[t], LAYOUT_PLAIN, (struct sizes){ 2, { lengths[i], 10 } }, 1);
        softmax_case(p, false, real_types[t], LAYOUT_PLAIN, (struct sizes){ 0, { 0 } }, 0);
    }
}

static void
softmax_along_each(struct play *p)
{
    for (int t = 0; t < REAL_TYPES; t++)
        for (int l = 0; l < ROW_LAYOUTS; l++)
            for (int dim = 0; dim < 3; dim++)
                softmax_case(p, false, real_types[t], row_layouts[l], (struct sizes){ 3, { 4, 37, 3 } }, dim);
}

/* Rows of infinities, of one NaN, of numbers whose exp is 0 or too large. */
static void
softmax_odd_rows(struct play *p)
{
    static const double rows[][4] = { { -INFINITY, -INFINITY, -INFINITY, -INFINITY }, { INFINITY, 1, 2, 3 },
                                      { 1, NAN, 2, 3 }, { -1000, 1000, 0, -0.0 }, { 89, 89, -104, 88 },
                                      { -INFINITY, 0, 1, 2 } };
    const int64_t       count = sizeof rows / sizeof *rows;
    for (int t = 0; t < REAL_TYPES; t++) {
        for (int n = 0; n < 20; n++)
            softmax_case(p, true, real_types[t], LAYOUT_PLAIN, (struct sizes){ 2, { 6, 9 } }, 1);
        struct sizes    sizes = { 2, { count, 4 } };
        struct cpu_call call = rows_call(p, 1 + is_backward(p), real_types[t]);
        for (int i = 0; i < call.inputs; i++) {
            call.in[i] = view_new(p, real_types[t], LAYOUT_PLAIN, sizes);
            fill_list(call.in[i], rows[0], (size_t)count * 4);
        }
        call.out = result(p, real_types[t], sizes);
        call.dim = 1;
        compare(p, p->kernel, &call);
    }
}

static void
softmax_backward_by_constant(struct play *p)
{
    for (int t = 0; t < REAL_TYPES; t++) {
        struct sizes    none = { 0, { 0 } };
        struct cpu_call call = rows_call(p, 2, real_types[t]);
        constant_set(&call, 0, real_types[t], 1.25, none);
        call.in[1] = numbers(p, false, real_types[t], LAYOUT_PLAIN, none);
        call.out   = result(p, real_types[t], none);
        compare(p, p->kernel, &call);
    }
}

/* ---- nll_loss ---- */

struct nll_case { int64_t samples, classes, places; enum layout layout; enum reduction reduction; double smoothing;
                  enum dtype weight; int64_t ignored, low, beyond; bool alone; };   /* weight DTYPE_COUNT: none */

static void
nll_case(struct play *p, enum dtype dtype, const struct nll_case *c)
{
    bool            back = p->kernel == KERNEL_cpu_nll_loss_backward;
    struct sizes    targets = { c->alone ? 0 : c->places > 0 ? 2 : 1, { c->samples, c->places } };
    struct sizes    input = { targets.dims + 1, { c->alone ? c->classes : c->samples, c->classes, c->places } };
    struct sizes    scalar = { 0, { 0 } }, classes = { 1, { c->classes } };
    struct cpu_call call = rows_call(p, 3 + back, dtype);
    if (back)
        call.in[0] = numbers(p, false, dtype, c->layout, c->reduction == LOSS_NONE ? targets : scalar);
    call.in[back]     = numbers(p, false, dtype, c->layout, input);
    call.in[back + 1] = places(p, c->layout, targets, c->low, c->classes + c->beyond);
    call.in[back + 2] = c->weight == DTYPE_COUNT ? call.in[back + 1] : numbers(p, false, c->weight, c->layout, classes);
    call.out   = result(p, dtype, back ? input : c->reduction == LOSS_NONE ? targets : scalar);
    call.dim   = c->reduction;
    call.start = c->ignored;
    call.step  = c->weight != DTYPE_COUNT;
    call.alpha = c->smoothing;
    compare(p, p->kernel, &call);
}

static void
nll_reductions(struct play *p, enum dtype dtype, struct nll_case c)
{
    static const double smoothing[] = { 0, 0.1 };
    for (int i = 0; i < 2; i++) {
        c.smoothing = smoothing[i];
        for (int r = LOSS_MEAN; r <= LOSS_NONE; r++) {
            c.reduction = (enum reduction)r;
            nll_case(p, dtype, &c);
        }
    }
}

static void
nll_each(struct play *p)
{
    static const enum dtype weights[] = { DTYPE_COUNT, DTYPE_F32, DTYPE_F64, DTYPE_F16, DTYPE_I64 };
    for (int t = 0; t < REAL_TYPES; t++)
        for (int l = 0; l < ROW_LAYOUTS; l++)
            for (int w = 0; w < (l == 0 ? 5 : 2); w++) {
                struct nll_case c = { .samples = 6, .classes = 5, .layout = row_layouts[l], .weight = weights[w],
                                      .ignored = 2 };
                nll_reductions(p, real_types[t], c);
                c.places = 4;
                nll_reductions(p, real_types[t], c);
                c.alone = true;
                nll_reductions(p, real_types[t], c);
            }
}

static void
nll_many_samples(struct play *p)
{
    for (int t = 0; t < REAL_TYPES; t++)
        for (int i = 0; i < LENGTHS; i++) {
            struct nll_case c = { .samples = lengths[i], .classes = 10, .layout = LAYOUT_PLAIN, .weight = DTYPE_F32,
                                  .ignored = 7, .reduction = LOSS_MEAN };
            nll_case(p, real_types[t], &c);
            c.reduction = LOSS_SUM;
            nll_case(p, real_types[t], &c);
        }
}

static void
nll_bad_targets(struct play *p)
{
    for (int t = 0; t < REAL_TYPES; t++)
        for (int r = LOSS_MEAN; r <= LOSS_NONE; r++) {
            struct nll_case c = { .samples = 40, .classes = 5, .layout = LAYOUT_PLAIN, .weight = DTYPE_F64,
                                  .ignored = -100, .low = -2, .beyond = 2, .reduction = (enum reduction)r };
            nll_case(p, real_types[t], &c);
            c.low     = -1;          /* the only ones are ignored */
            c.beyond  = 0;
            c.ignored = -1;
            nll_case(p, real_types[t], &c);
        }
}

/* ---- cells ---- */

static void
cell_case(struct play *p, bool odd, enum dtype dtype, enum layout layout, int64_t rows, int64_t wide)
{
    struct sizes    state = { 2, { rows, wide } }, both = { 3, { 2, rows, wide } };
    struct sizes    four = { 2, { rows, 4 * wide } }, three = { 2, { rows, 3 * wide } };
    struct sizes    lstm[] = { four, state }, lstm_back[] = { both, four, state };
    struct sizes    gru[] = { three, three, state }, gru_back[] = { state, three, three, state };
    struct { enum kernel kernel; int inputs; const struct sizes *in; struct sizes out; } of[] = {
        { KERNEL_cpu_lstm_cell, 2, lstm, both },
        { KERNEL_cpu_lstm_cell_backward, 3, lstm_back, { 2, { rows, 5 * wide } } },
        { KERNEL_cpu_gru_cell, 3, gru, state },
        { KERNEL_cpu_gru_cell_backward, 4, gru_back, { 2, { rows, 7 * wide } } },
    };
    for (size_t k = 0; k < sizeof of / sizeof *of; k++) {
        if (of[k].kernel != p->kernel)
            continue;
        struct cpu_call call = rows_call(p, of[k].inputs, dtype);
        for (int i = 0; i < of[k].inputs; i++)
            call.in[i] = numbers(p, odd, dtype, layout, of[k].in[i]);
        call.out = result(p, dtype, of[k].out);
        compare(p, p->kernel, &call);
    }
}

static void
cells_shapes(struct play *p)
{
    for (int t = 0; t < REAL_TYPES; t++) {
        for (int i = 0; i < LENGTHS - 1; i++)
            cell_case(p, false, real_types[t], LAYOUT_PLAIN, 3, lengths[i]);
        for (int l = 0; l < ROW_LAYOUTS; l++) {
            cell_case(p, false, real_types[t], row_layouts[l], 17, 5);
            cell_case(p, true, real_types[t], row_layouts[l], 9, 33);
        }
        cell_case(p, false, real_types[t], LAYOUT_PLAIN, 0, 4);
    }
}

const struct play_case play_rows[] = {
    { "rows of any length agree", softmax_rows, KERNEL_cpu_softmax },
    { "rows of any length agree", softmax_rows, KERNEL_cpu_softmax_backward },
    { "rows of any length agree", softmax_rows, KERNEL_cpu_log_softmax },
    { "rows of any length agree", softmax_rows, KERNEL_cpu_log_softmax_backward },
    { "each dimension of each layout agrees", softmax_along_each, KERNEL_cpu_softmax },
    { "each dimension of each layout agrees", softmax_along_each, KERNEL_cpu_softmax_backward },
    { "each dimension of each layout agrees", softmax_along_each, KERNEL_cpu_log_softmax },
    { "each dimension of each layout agrees", softmax_along_each, KERNEL_cpu_log_softmax_backward },
    { "rows with infinities and NaN agree", softmax_odd_rows, KERNEL_cpu_softmax },
    { "rows with infinities and NaN agree", softmax_odd_rows, KERNEL_cpu_softmax_backward },
    { "rows with infinities and NaN agree", softmax_odd_rows, KERNEL_cpu_log_softmax },
    { "rows with infinities and NaN agree", softmax_odd_rows, KERNEL_cpu_log_softmax_backward },
    { "a gradient may be a number of the host's", softmax_backward_by_constant, KERNEL_cpu_softmax_backward },
    { "a gradient may be a number of the host's", softmax_backward_by_constant, KERNEL_cpu_log_softmax_backward },
    { "weights of any type, smoothing and each reduction agree", nll_each, KERNEL_cpu_nll_loss },
    { "weights of any type, smoothing and each reduction agree", nll_each, KERNEL_cpu_nll_loss_backward },
    { "any number of samples agrees", nll_many_samples, KERNEL_cpu_nll_loss },
    { "any number of samples agrees", nll_many_samples, KERNEL_cpu_nll_loss_backward },
    { "targets that are no class are told, ignored ones are not", nll_bad_targets, KERNEL_cpu_nll_loss },
    { "targets that are no class are told, ignored ones are not", nll_bad_targets, KERNEL_cpu_nll_loss_backward },
    { "any number of samples and elements agrees", batch_shapes, KERNEL_cpu_batch_norm_stats },
    { "any number of ranks agrees", batch_shapes, KERNEL_cpu_batch_norm_gather_stats },
    { "each of its flags agrees", batch_shapes, KERNEL_cpu_batch_norm },
    { "each of its flags agrees", batch_shapes, KERNEL_cpu_batch_norm_sums },
    { "each of its flags agrees", batch_shapes, KERNEL_cpu_batch_norm_terms },
    { "each of its flags agrees", batch_shapes, KERNEL_cpu_batch_norm_backward },
    { "infinities and NaN agree", batch_odd, KERNEL_cpu_batch_norm_stats },
    { "infinities and NaN agree", batch_odd, KERNEL_cpu_batch_norm_gather_stats },
    { "infinities and NaN agree", batch_odd, KERNEL_cpu_batch_norm },
    { "infinities and NaN agree", batch_odd, KERNEL_cpu_batch_norm_sums },
    { "infinities and NaN agree", batch_odd, KERNEL_cpu_batch_norm_terms },
    { "infinities and NaN agree", batch_odd, KERNEL_cpu_batch_norm_backward },
    { "rows of any length agree, with weight and bias or not", lines_layer, KERNEL_cpu_layer_norm },
    { "rows of any length agree, with weight and bias or not", lines_layer, KERNEL_cpu_layer_norm_backward },
    { "any number of rows agrees", lines_layer_sums, KERNEL_cpu_layer_norm_sums },
    { "groups of any size agree, with weight and bias or not", lines_group, KERNEL_cpu_group_norm },
    { "groups of any size agree, with weight and bias or not", lines_group, KERNEL_cpu_group_norm_backward },
    { "any number of samples agrees", lines_group_sums, KERNEL_cpu_group_norm_sums },
    { "infinities and NaN agree", lines_odd, KERNEL_cpu_layer_norm },
    { "infinities and NaN agree", lines_odd, KERNEL_cpu_layer_norm_backward },
    { "infinities and NaN agree", lines_odd, KERNEL_cpu_group_norm },
    { "infinities and NaN agree", lines_odd, KERNEL_cpu_group_norm_backward },
    { "states of any width agree", cells_shapes, KERNEL_cpu_lstm_cell },
    { "states of any width agree", cells_shapes, KERNEL_cpu_lstm_cell_backward },
    { "states of any width agree", cells_shapes, KERNEL_cpu_gru_cell },
    { "states of any width agree", cells_shapes, KERNEL_cpu_gru_cell_backward },
    { "windows over the edges, with gaps and beside each other agree", pool_windows, KERNEL_cpu_max_pool2d_indices },
    { "windows over the edges, beside each other, adaptive ones agree", pool_windows, KERNEL_cpu_avg_pool2d },
    { "what windows share is added in their order", pool_spread, KERNEL_cpu_avg_pool2d_backward },
    { "elements by their places agree", pool_places, KERNEL_cpu_max_pool2d },
    { "places that several windows chose are added in the order of the windows", pool_places,
      KERNEL_cpu_max_pool2d_backward },
    { NULL, NULL, KERNEL_COUNT },
};
