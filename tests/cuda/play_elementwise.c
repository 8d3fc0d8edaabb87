/* Cases for the kernels of maps, functions, activations, copies, updates, collectives' elements
 * (rows_elementwise.def), and of the losses' gradients, which are elementwise too. */
#include <string.h>
#include "c10d/group.h"
#include "play_kernels.h"
#include "tensor/cpu/elements.h"
#include "tensor/cpu/update.h"

/* ---- every elementwise kernel: how many inputs, whether of fractions only ---- */

struct about { int inputs; bool fractions; };
static const struct about abouts[KERNEL_COUNT] = {
#define MAP(name, inputs, ...) [KERNEL_cpu_##name] = { inputs, false },
#define SCALE MAP
#define COMPARE(name, ...) [KERNEL_cpu_##name] = { 2, false },
#include "tensor/cpu/elementwise.def"
#undef MAP
#undef SCALE
#undef COMPARE
#define FUN(name, inputs, ...) [KERNEL_map_##name] = { inputs, false },
#include "tensor/cpu/functions.def"
#define ACTIVATION(name, inputs, ...) [KERNEL_activate_##name] = { inputs, true },
#include "tensor/cpu/activation.def"
#undef ACTIVATION
#define LOSS(name, inputs, ...)
#define LOSS_BACKWARD(name, inputs, ...) [KERNEL_loss_##name] = { inputs, true },
#include "tensor/cpu/loss.def"
#undef LOSS
#undef LOSS_BACKWARD
    [KERNEL_map_add] = { 2, false }, [KERNEL_map_sub] = { 2, false },
    [KERNEL_cpu_gelu] = { 1, true }, [KERNEL_cpu_gelu_backward] = { 2, true },
};

enum { NUMBERS = 2 };
static const double alphas[NUMBERS] = { 0.75, -3 }, betas[NUMBERS] = { 6, 0.1 };

static const enum dtype wide[] = { DTYPE_F32, DTYPE_F64, DTYPE_I64 };

static int
wide_count(const struct play *p)
{
    return abouts[p->kernel].fractions ? 2 : 3;
}

static void
compare_numbers(struct play *p, struct cpu_call *call)
{
    for (int n = 0; n < NUMBERS; n++) {
        call->alpha = alphas[n];
        call->beta  = betas[n];
        call->start = n;
        compare(p, p->kernel, call);
    }
}

static void
any_length(struct play *p)
{
    for (int w = 0; w < wide_count(p); w++) {
        for (size_t i = 0; i < LENGTHS; i++) {
            struct cpu_call call = call_of(abouts[p->kernel].inputs, wide[w]);
            for (int v = 0; v < call.inputs; v++)
                call.in[v] = view_row(p, wide[w], lengths[i]);
            call.out = view_row(p, wide[w], lengths[i]);
            call.alpha = alphas[i % NUMBERS];
            call.beta  = betas[i % NUMBERS];
            call.start = (int64_t)(i % NUMBERS);
            compare(p, p->kernel, &call);
        }
    }
}

/* Inputs and result lie in different ways; out of float16 as well, whose numbers are rounded first. */
static void
any_layout(struct play *p)
{
    const struct sizes sizes = { 3, { 3, 5, 37 } };
    const enum layout  outs[] = { LAYOUT_TRANSPOSED, LAYOUT_STRIDED, LAYOUT_OFFSET, LAYOUT_PLAIN };
    const enum dtype   dtypes[] = { DTYPE_F32, DTYPE_F16, DTYPE_F64, DTYPE_I32 };
    for (int d = 0; d < (abouts[p->kernel].fractions ? 3 : 4); d++) {
        for (int k = 0; k < LAYOUTS; k++) {
            struct cpu_call call = call_of(abouts[p->kernel].inputs, dtypes[d]);
            for (int v = 0; v < call.inputs; v++)
                call.in[v] = view_new(p, dtypes[d], (enum layout)((k + v) % LAYOUTS), sizes);
            call.out = view_new(p, dtypes[d], outs[k % 4], sizes);
            call.alpha = alphas[k % NUMBERS];
            call.beta  = betas[k % NUMBERS];
            compare(p, p->kernel, &call);
        }
    }
}

/* The result in the place of the first operand; and in one piece of some other way of lying, which both share. */
static void
in_place(struct play *p)
{
    const enum layout layouts[] = { LAYOUT_PLAIN, LAYOUT_OFFSET, LAYOUT_TRANSPOSED };
    for (int w = 0; w < wide_count(p); w++) {
        for (int k = 0; k < 3; k++) {
            struct cpu_call call = call_of(abouts[p->kernel].inputs, wide[w]);
            for (int v = 0; v < call.inputs; v++)
                call.in[v] = view_new(p, wide[w], layouts[k], (struct sizes){ 2, { 33, 65 } });
            call.out = call.inputs > 0 ? call.in[0] : view_new(p, wide[w], layouts[k], (struct sizes){ 2, { 33, 65 } });
            compare_numbers(p, &call);
        }
    }
}

/* What plans make of operands of one type: calculated in its wide type, the result as it is and as bool; integers also
 * in fractions of each type, which are the default ones. */
static void
any_type(struct play *p)
{
    for (int d = 0; d < DTYPE_COUNT; d++) {
        enum dtype dtype = (enum dtype)d;
        for (int c = 0; c < DTYPE_COUNT; c++) {
            enum dtype      common = (enum dtype)c;
            struct cpu_call call = call_of(abouts[p->kernel].inputs, common);
            if (c != d && (!dtype_is_float(common) || dtype_is_float(dtype)))
                continue;
            if (abouts[p->kernel].fractions && !dtype_is_float(common))
                continue;
            for (int v = 0; v < call.inputs; v++)
                call.in[v] = view_row(p, dtype, 300);
            call.out = view_row(p, common, 300);
            compare_numbers(p, &call);
            call.out = view_row(p, DTYPE_BOOL, 300);
            compare_numbers(p, &call);
        }
    }
}

/* ---- operands of different types ---- */

static void
each_pair(struct play *p, int inputs)
{
    for (int a = 0; a < DTYPE_COUNT; a++) {
        for (int b = 0; b < DTYPE_COUNT; b++) {
            enum dtype      common = dtype_promote((enum dtype)a, (enum dtype)b);
            struct cpu_call call = call_of(inputs, common);
            for (int v = 0; v < inputs; v++)
                call.in[v] = view_row(p, (enum dtype)(v == inputs - 1 ? b : a), 65);
            if (inputs == 3)
                call.in[0] = view_row(p, DTYPE_BOOL, 65);
            call.out   = view_row(p, common, 65);
            call.alpha = 0.75;
            compare(p, p->kernel, &call);
            if (!dtype_can_cast(common, (enum dtype)a))
                continue;
            call.out = view_row(p, (enum dtype)a, 65);
            compare(p, p->kernel, &call);
        }
    }
}

static void
pairs_of_types(struct play *p)
{
    each_pair(p, abouts[p->kernel].inputs);
}

/* A 0-dim operand decides only by a higher kind: as an element of the device, and as a number of the host. */
static void
numbers_beside(struct play *p)
{
    const struct sizes sizes = { 2, { 7, 19 } };
    for (int a = 0; a < DTYPE_COUNT; a++) {
        for (int b = 0; b < DTYPE_COUNT; b++) {
            enum dtype      common = dtype_over((enum dtype)a, (enum dtype)b);
            struct cpu_call call = call_of(2, common);
            struct cpu_view one = view_new(p, (enum dtype)b, LAYOUT_PLAIN, (struct sizes){ 0, { 0 } });
            call.in[0] = view_new(p, (enum dtype)a, LAYOUT_PLAIN, sizes);
            fill_value(one, dtype_is_float((enum dtype)b) ? 0.1 : 1);
            call.in[1] = view_expand(&one, sizes.dims, sizes.size);
            call.out   = view_new(p, common, LAYOUT_PLAIN, sizes);
            call.alpha = 0.3;
            compare(p, p->kernel, &call);
            constant_set(&call, 1, (enum dtype)b, dtype_is_float((enum dtype)b) ? 2.7 : 1, sizes);
            compare(p, p->kernel, &call);
            struct cpu_view swap = call.in[0];
            constant_set(&call, 0, (enum dtype)b, dtype_is_float((enum dtype)b) ? -0.7 : 1, sizes);
            call.in[1] = swap;
            compare(p, p->kernel, &call);
        }
    }
}

/* Many: packs and what is left behind them; of mixed types; two that lie turned. */
static void
many_elements(struct play *p)
{
    enum { MANY = 70001 };
    struct cpu_call call = call_of(2, DTYPE_F32);
    call.in[0] = view_row(p, DTYPE_F32, MANY);
    call.in[1] = view_row(p, DTYPE_F32, MANY);
    call.out   = view_row(p, DTYPE_F32, MANY);
    compare(p, p->kernel, &call);
    call.in[1] = view_row(p, DTYPE_F16, MANY);
    compare(p, p->kernel, &call);
    const struct sizes sizes = { 3, { 2, 353, 101 } };
    call.in[0] = view_new(p, DTYPE_F32, LAYOUT_TRANSPOSED, sizes);
    call.in[1] = view_new(p, DTYPE_F32, LAYOUT_PLAIN, sizes);
    call.out   = view_new(p, DTYPE_F32, LAYOUT_TRANSPOSED, sizes);
    compare(p, p->kernel, &call);
}

/* More dimensions than most have, some of size 1, and none. */
static void
many_dimensions(struct play *p)
{
    const struct sizes sizes[] = { { 0, { 0 } }, { 8, { 2, 1, 3, 2, 1, 2, 3, 2 } }, { 3, { 1, 1, 1 } },
                                   { 3, { 4, 0, 5 } }, { 5, { 1, 64, 1, 3, 1 } } };
    for (size_t s = 0; s < sizeof sizes / sizeof *sizes; s++) {
        for (int k = 0; k < LAYOUT_EXPANDED; k++) {
            struct cpu_call call = call_of(2, DTYPE_F32);
            call.in[0] = view_new(p, DTYPE_F32, (enum layout)k, sizes[s]);
            call.in[1] = view_new(p, DTYPE_BF16, LAYOUT_TRANSPOSED, sizes[s]);
            call.out   = view_new(p, DTYPE_F32, (enum layout)((k + 1) % LAYOUT_EXPANDED), sizes[s]);
            compare(p, p->kernel, &call);
        }
    }
}

/* ---- copies ---- */

static void
copies_between(struct play *p)
{
    const struct sizes sizes = { 2, { 9, 41 } };
    for (int a = 0; a < DTYPE_COUNT; a++) {
        for (int b = 0; b < DTYPE_COUNT; b++) {
            for (int k = 0; k < LAYOUTS; k++) {
                struct cpu_call call = call_of(1, (enum dtype)a);
                call.in[0] = view_new(p, (enum dtype)a, (enum layout)k, sizes);
                call.out   = view_new(p, (enum dtype)b, (enum layout)((a + k) % LAYOUT_EXPANDED), sizes);
                compare(p, KERNEL_cpu_copy, &call);
            }
        }
    }
}

static void
copies_of_any_length(struct play *p)
{
    const enum dtype dtypes[] = { DTYPE_U8, DTYPE_BF16, DTYPE_F32, DTYPE_F64 };
    for (int d = 0; d < 4; d++) {
        for (size_t i = 0; i < LENGTHS; i++) {
            for (int k = 0; k < LAYOUT_EXPANDED; k++) {
                struct cpu_call call = call_of(1, dtypes[d]);
                call.in[0] = view_new(p, dtypes[d], (enum layout)k, (struct sizes){ 1, { lengths[i] } });
                call.out   = view_row(p, dtypes[d], lengths[i]);
                compare(p, KERNEL_cpu_copy, &call);
            }
        }
    }
}

/* Turned either way, both, or with dimensions around; sizes that are no multiple of a tile's, and small ones. */
static void
copies_turned(struct play *p)
{
    const enum dtype   dtypes[] = { DTYPE_U8, DTYPE_BF16, DTYPE_F32, DTYPE_F64 };
    const struct sizes sizes[] = { { 2, { 70, 300 } }, { 2, { 32, 64 } }, { 3, { 3, 33, 65 } }, { 4, { 2, 3, 40, 9 } },
                                   { 2, { 1, 500 } }, { 2, { 7, 300 } }, { 3, { 2, 0, 70 } } };
    for (int d = 0; d < 4; d++) {
        for (size_t s = 0; s < sizeof sizes / sizeof *sizes; s++) {
            struct cpu_call call = call_of(1, dtypes[d]);
            call.in[0] = view_new(p, dtypes[d], LAYOUT_TRANSPOSED, sizes[s]);
            call.out   = view_new(p, dtypes[d], LAYOUT_PLAIN, sizes[s]);
            compare(p, KERNEL_cpu_copy, &call);
            struct cpu_view swap = call.in[0];
            call.in[0] = call.out;
            call.out   = swap;
            compare(p, KERNEL_cpu_copy, &call);
            call.in[0] = view_new(p, dtypes[d], LAYOUT_TRANSPOSED, sizes[s]);
            compare(p, KERNEL_cpu_copy, &call);
        }
    }
}

static void
copies_of_many(struct play *p)
{
    struct cpu_call call = call_of(1, DTYPE_F32);
    call.in[0] = view_new(p, DTYPE_F32, LAYOUT_TRANSPOSED, (struct sizes){ 2, { 311, 257 } });
    call.out   = view_new(p, DTYPE_F32, LAYOUT_PLAIN, (struct sizes){ 2, { 311, 257 } });
    compare(p, KERNEL_cpu_copy, &call);
    call.in[0] = view_row(p, DTYPE_F32, 80003);
    call.out   = view_row(p, DTYPE_F32, 80003);
    compare(p, KERNEL_cpu_copy, &call);
    call.out   = view_row(p, DTYPE_F16, 80003);
    compare(p, KERNEL_cpu_copy, &call);
    call.out   = call.in[0];
    compare(p, KERNEL_cpu_copy, &call);
}

/* ---- updates ---- */

static struct update_job
job_of(enum update_kind kind, int views, enum dtype compute)
{
    return (struct update_job){ .kind = kind, .views = views, .compute = compute,
                                .rule = { .lr = 0.01, .beta1 = 0.9, .beta2 = 0.999, .eps = 1e-8, .step_size = 0.0123,
                                          .correction = 0.0316, .momentum = 0.9 } };
}

static void
update_fill(struct play *p, struct update_job *job, bool odd)
{
    for (int v = 0; v < job->views && !odd; v++)
        fill_between(p, job->view[v], v < UPDATE_BUFFERS + (job->kind == UPDATE_ADAM) ? -1 : 0, 1);
}

/* The rule's switches, one by one and some together. */
static void
update_switches(struct play *p, struct update_job *job)
{
    for (int s = 0; s < 6; s++) {
        job->rule.weight_decay = s & 1 ? 0.1 : 0;
        job->rule.maximize     = s == 2;
        job->rule.nesterov     = s == 3;
        job->rule.first        = s == 4;
        job->rule.decoupled    = s == 1 || s == 5;
        job->rule.dampening    = s == 5 ? 0.3 : 0;
        job->rule.beta1        = s == 3 ? 0.2 : 0.9;       /* the mean goes from the gradient's end */
        compare(p, KERNEL_update, job);
    }
}

static const struct { enum update_kind kind; int views; } updates[] = {
    { UPDATE_SGD, 2 }, { UPDATE_SGD, 3 }, { UPDATE_ADAM, 4 }, { UPDATE_ADAM, 5 }, { UPDATE_ADAGRAD, 3 },
};

static void
updates_in_one_piece(struct play *p)
{
    for (size_t u = 0; u < sizeof updates / sizeof *updates; u++) {
        for (int w = 0; w < 2; w++) {
            for (size_t i = 0; i < LENGTHS; i++) {
                struct update_job job = job_of(updates[u].kind, updates[u].views, wide[w]);
                for (int v = 0; v < job.views; v++)
                    job.view[v] = view_row(p, wide[w], lengths[i]);
                update_fill(p, &job, i % 2 == 0);
                update_switches(p, &job);
            }
        }
    }
}

static void
updates_of_any_view(struct play *p)
{
    const enum dtype dtypes[] = { DTYPE_F32, DTYPE_F64, DTYPE_F16, DTYPE_BF16 };
    for (size_t u = 0; u < sizeof updates / sizeof *updates; u++) {
        for (int d = 0; d < 4; d++) {
            for (int k = 0; k < LAYOUT_EXPANDED; k++) {
                struct update_job job = job_of(updates[u].kind, updates[u].views, dtype_wide(dtypes[d]));
                for (int v = 0; v < job.views; v++)
                    job.view[v] = view_new(p, v == UPDATE_GRAD && k == 0 ? DTYPE_F32 : dtypes[d],
                                           (enum layout)((k + v) % LAYOUT_EXPANDED), (struct sizes){ 2, { 17, 29 } });
                update_fill(p, &job, false);
                update_switches(p, &job);
            }
        }
    }
}

/* ---- what collectives do ---- */

static void
elements_of(struct play *p, enum elements_work work)
{
    for (int d = 0; d < DTYPE_COUNT; d++) {
        enum dtype dtype = (enum dtype)d;
        for (int op = 0; op <= (work == ELEMENTS_REDUCE ? REDUCE_PREMUL_SUM : 0); op++) {
            for (size_t i = 0; i < LENGTHS; i++) {
                const size_t        count = (size_t)lengths[i];
                struct elements_job job = { .work = work, .op = op, .dtype = dtype, .bytes = count * dtype_size(dtype),
                                            .ranks = 3, .factor = dtype_is_float(dtype) ? 0.37 : 3 };
                const size_t        odd = i % 2 == 0 ? 0 : dtype_size(dtype);
                job.into = (char *)memory_new(p, dtype, count + 1) + odd;
                job.from = memory_new(p, dtype, count + 1);
                compare(p, KERNEL_reduce, &job);
            }
        }
    }
}

static void
elements_reduced(struct play *p)
{
    elements_of(p, ELEMENTS_REDUCE);
}

static void
elements_averaged(struct play *p)
{
    elements_of(p, ELEMENTS_AVERAGE);
}

static void
elements_multiplied(struct play *p)
{
    elements_of(p, ELEMENTS_MULTIPLY);
}

static void
all_reduced(struct play *p)
{
    for (int d = 0; d < DTYPE_COUNT; d++) {
        for (int op = 0; op <= REDUCE_PREMUL_SUM; op++) {
            for (size_t i = 0; i < LENGTHS; i++) {
                const enum dtype      dtype = (enum dtype)d;
                const int             ranks[] = { 2, 3, 8 };
                struct all_reduce_job job = { .op = op, .dtype = dtype, .ranks = ranks[(d + op) % 3],
                                              .bytes = (size_t)lengths[i] * dtype_size(dtype) };
                const size_t          odd = i % 2 == 0 ? 0 : dtype_size(dtype);
                job.factor = dtype_is_float(dtype) ? 0.37 : 3;
                job.work   = op == REDUCE_PREMUL_SUM ? ELEMENTS_MULTIPLY
                             : op == REDUCE_AVG && dtype_is_float(dtype) ? ELEMENTS_AVERAGE : ELEMENTS_REDUCE;
                for (int r = 0; r < job.ranks; r++)
                    job.data[r] = (char *)memory_new(p, dtype, (size_t)lengths[i] + 1) + (r == 0 ? 0 : odd);
                compare(p, KERNEL_all_reduce, &job);
            }
        }
    }
}

static void
all_reduced_by_many(struct play *p)
{
    struct all_reduce_job job = { .dtype = DTYPE_F32, .ranks = ALL_REDUCE_RANKS, .bytes = 1000 * sizeof(float) };
    for (int r = 0; r < job.ranks; r++)
        job.data[r] = memory_new(p, DTYPE_F32, 1000);
    compare(p, KERNEL_all_reduce, &job);
}

/* ---- all ---- */

#define EVERY(name)                                                                                                \
    { "elements of any number", any_length, KERNEL_##name }, { "elements lying anyhow", any_layout, KERNEL_##name },   \
    { "elements in place", in_place, KERNEL_##name }, { "elements of any type", any_type, KERNEL_##name },
#define PAIRS(name)                                                                                                \
    { "operands of two types", pairs_of_types, KERNEL_##name },                                           \
    { "a tensor beside a number", numbers_beside, KERNEL_##name },

const struct play_case play_elementwise[] = {
#define MAP(name, ...) EVERY(cpu_##name)
#define SCALE MAP
#define COMPARE MAP
#include "tensor/cpu/elementwise.def"
#undef MAP
#undef SCALE
#undef COMPARE
#define FUN(name, ...) EVERY(map_##name)
#include "tensor/cpu/functions.def"
#define ACTIVATION(name, ...) EVERY(activate_##name)
#include "tensor/cpu/activation.def"
#undef ACTIVATION
#define LOSS(name, ...)
#define LOSS_BACKWARD(name, ...) EVERY(loss_##name)
#include "tensor/cpu/loss.def"
#undef LOSS
#undef LOSS_BACKWARD
    EVERY(map_add) EVERY(map_sub) EVERY(cpu_gelu) EVERY(cpu_gelu_backward)
    PAIRS(map_add) PAIRS(map_sub) PAIRS(cpu_mul) PAIRS(cpu_div) PAIRS(cpu_eq) PAIRS(cpu_lt) PAIRS(map_maximum)
    PAIRS(map_le) PAIRS(map_pow) PAIRS(map_floor_divide) PAIRS(map_logical_and)
    { "where, its choices of two types", pairs_of_types, KERNEL_map_where },
    { "clamp, its bounds of two types", pairs_of_types, KERNEL_map_clamp },
    { "many elements", many_elements, KERNEL_map_add },
    { "many dimensions, or none", many_dimensions, KERNEL_cpu_mul },
    { "copies from any type to any other", copies_between, KERNEL_cpu_copy },
    { "copies of any length", copies_of_any_length, KERNEL_cpu_copy },
    { "copies of turned matrices", copies_turned, KERNEL_cpu_copy },
    { "copies of many elements", copies_of_many, KERNEL_cpu_copy },
    { "optimizers' updates in one piece", updates_in_one_piece, KERNEL_update },
    { "optimizers' updates of any type, lying anyhow", updates_of_any_view, KERNEL_update },
    { "elements reduced by each operation", elements_reduced, KERNEL_reduce },
    { "elements divided by the ranks", elements_averaged, KERNEL_reduce },
    { "elements multiplied", elements_multiplied, KERNEL_reduce },
    { "all-reduces by each operation", all_reduced, KERNEL_all_reduce },
    { "an all-reduce of 64 ranks", all_reduced_by_many, KERNEL_all_reduce },
    { NULL, NULL, KERNEL_COUNT },
};
