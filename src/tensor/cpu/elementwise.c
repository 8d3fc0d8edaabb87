/* Elementwise kernels, made from elementwise.def for float32, float64 and int64. Runs go through in blocks of sixteen
 * so that any compiler makes vectors of them; what lies scattered or has another type passes through a small
 * buffer. In PyTorch: ATen/native/cpu/BinaryOpsKernel.cpp, Loops.h. */
#include "tensor/cpu/elementwise.h"
#include "tensor/cpu/blocks.h"
#include "tensor/cpu/convert.h"
#include "tensor/cpu/kernels.h"

#define MAP(name, inputs, fractions, integers)                                                                     \
    BLOCKED_RUN(name##_f32, float, fractions)                                                                      \
    BLOCKED_RUN(name##_f64, double, fractions)                                                                     \
    BLOCKED_RUN(name##_i64, int64_t, integers)
#define COMPARE(name, expression)                                                                                  \
    BLOCKED_RUN(name##_f32, float, expression)                                                                     \
    BLOCKED_RUN(name##_f64, double, expression)                                                                    \
    BLOCKED_RUN(name##_i64, int64_t, expression)
#define SCALE MAP
#include "tensor/cpu/elementwise.def"
#undef MAP
#undef SCALE
#undef COMPARE

/* One run: where it is written, what it reads, the op's numbers. */
struct run_args { void *out; const void *in[3]; int64_t count; double alpha, beta; };

static void
run_of(const struct runs *runs, enum dtype compute, const struct run_args *pass)
{
    if (compute == DTYPE_F32) {
        runs->f32(pass->out, pass->in, pass->count, (float)pass->alpha, (float)pass->beta);
    } else if (compute == DTYPE_F64) {
        runs->f64(pass->out, pass->in, pass->count, pass->alpha, pass->beta);
    } else {
        int64_t whole = 0;
        cpu_convert_one(&whole, DTYPE_I64, &pass->alpha, DTYPE_F64);
        runs->i64(pass->out, pass->in, pass->count, whole, 0);
    }
}

/* All the loop's views in one piece and of the type calculated in: no buffers, one run. */
static bool
is_plain(const struct loop *loop, enum dtype compute)
{
    for (int v = 0; v < loop->views; v++) {
        if (loop->dtype[v] != compute || loop->step[v] != (int64_t)dtype_size(compute))
            return false;
    }
    return true;
}

/* A run's next elements as what is calculated in. A 0-dim operand of a wider type becomes the common one first. */
static const void *
load_common(void *buffer, const struct cpu_call *call, const struct run *run)
{
    bool narrow = call->common != call->compute && dtype_wide(call->common) == call->compute;
    if (!narrow || run->dtype == call->common)
        return run_load(buffer, call->compute, run);
    double rounded[LOOP_CHUNK];
    run_convert(rounded, call->common, run);
    cpu_convert(buffer, every(call->compute, 1), rounded, every(call->common, 1), run->count);
    return buffer;
}

/* A number of the op as PyTorch has it: one of the common type, unless it scales. */
static double
common_number(const struct cpu_call *call, double number)
{
    double element;
    if (call->compute != DTYPE_F32 || call->common == DTYPE_F32 || dtype_wide(call->common) != DTYPE_F32)
        return number;
    dtype_put_fraction(call->common, &element, number);
    return dtype_fraction(call->common, &element);
}

/* Whether y, which scales, has no dimensions: the same element is read for all. */
static bool
is_one_scale(const struct cpu_call *call, int views, const struct runs *runs)
{
    if (views != 3 || !runs->scales)
        return false;
    for (int d = 0; d < call->out.dims; d++)
        if (call->in[1].stride[d] != 0)
            return false;
    return true;
}

static void
run_in_chunks(const struct loop *loop, const struct runs *runs, const struct cpu_call *call)
{
    double buffer[LOOP_VIEWS][LOOP_CHUNK]; /* room for the largest type */
    double alpha = runs->scales ? call->alpha : common_number(call, call->alpha);
    double beta  = common_number(call, call->beta);
    bool   scale = is_one_scale(call, loop->views, runs);
    for (int64_t done = 0; done < loop->run; done += LOOP_CHUNK) {
        int64_t     count = loop->run - done < LOOP_CHUNK ? loop->run - done : LOOP_CHUNK;
        struct run_args pass = { buffer[0], { buffer[0], buffer[0], buffer[0] }, count, alpha, beta };
        for (int v = 1; v < loop->views; v++) {
            struct run run = loop_part(loop, v, done, count);
            pass.in[v - 1] = v == 2 && scale ? run_load(buffer[v], call->compute, &run)
                                             : load_common(buffer[v], call, &run);
        }
        run_of(runs, call->compute, &pass);
        struct run out = loop_part(loop, 0, done, count);
        run_store(&out, buffer[0], call->compute);
    }
}

static void
swap_dims(struct cpu_view *view, int d)
{
    int64_t size = view->size[d], stride = view->stride[d];
    view->size[d]       = view->size[d + 1];
    view->stride[d]     = view->stride[d + 1];
    view->size[d + 1]   = size;
    view->stride[d + 1] = stride;
}

/* The result's dimensions as they lie in memory, the smallest steps last: all go along. */
static void
as_they_lie(struct cpu_view *sorted, const struct cpu_view **views, int count)
{
    for (int v = 0; v < count; v++) {
        sorted[v] = *views[v];
        views[v]  = &sorted[v];
    }
    for (int end = sorted[0].dims; end > 1; end--) {
        for (int d = 0; d + 1 < end; d++) {
            if (sorted[0].stride[d] >= sorted[0].stride[d + 1])
                continue;
            for (int v = 0; v < count; v++)
                swap_dims(&sorted[v], d);
        }
    }
}

void
elementwise(const struct cpu_call *call, int inputs, const struct runs *runs)
{
    const struct cpu_view *views[LOOP_VIEWS] = { &call->out, &call->in[0], &call->in[1], &call->in[2] };
    struct cpu_view        sorted[LOOP_VIEWS];
    struct loop            loop;
    if (call->out.dims > 1 && call->out.stride[call->out.dims - 1] != 1)
        as_they_lie(sorted, views, inputs + 1);
    for (loop_begin(&loop, views, inputs + 1); loop.more; loop_next(&loop)) {
        if (!is_plain(&loop, call->compute)) {
            run_in_chunks(&loop, runs, call);
            continue;
        }
        struct run_args pass = { loop.at[0], { loop.at[0], loop.at[0], loop.at[0] }, loop.run, call->alpha,
                                 call->beta };
        for (int v = 1; v < loop.views; v++)
            pass.in[v - 1] = loop.at[v];
        run_of(runs, call->compute, &pass);
    }
}

#define KERNEL(name, inputs, scales)                                                                               \
    void cpu_##name(const struct cpu_call *call)                                                                   \
    {                                                                                                              \
        elementwise(call, inputs, &(const struct runs){ name##_f32, name##_f64, name##_i64, scales });             \
    }
#define MAP(name, inputs, fractions, integers) KERNEL(name, inputs, false)
#define SCALE(name, inputs, fractions, integers) KERNEL(name, inputs, true)
#define COMPARE(name, expression) KERNEL(name, 2, false)
#include "tensor/cpu/elementwise.def"
#undef KERNEL
#undef MAP
#undef SCALE
#undef COMPARE
