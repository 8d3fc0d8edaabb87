/* Sums, means and extremes. The order of a sum follows from the shape alone: along the last dimension in sixteen
 * lanes and a tree, across rows one row after the other, a column at a time.
 *
 * In PyTorch: ATen/native/cpu/SumKernel.cpp, ReduceOpsKernel.cpp. */
#include <math.h>
#include <string.h>
#include "tensor/cpu/reduce.h"
#include "tensor/cpu/convert.h"
#include "tensor/cpu/kernels.h"

struct parts
take_apart(const struct cpu_call *call)
{
    const struct cpu_view *in = &call->in[0], *out = &call->out;
    struct parts parts = { .kept = { .data = in->data, .dtype = in->dtype },
                           .out = { .data = out->data, .dtype = out->dtype },
                           .summed = { .data = in->data, .dtype = in->dtype } };
    for (int d = 0; d < in->dims; d++) {
        bool kept = out->dims == in->dims && out->size[d] == in->size[d];
        if (kept) {
            view_put_dim(&parts.kept, in->size[d], in->stride[d]);
            view_put_dim(&parts.out, in->size[d], out->stride[d]);
        } else {
            view_put_dim(&parts.summed, in->size[d], in->stride[d]);
        }
        if (in->size[d] != 1)
            parts.by_column = kept;
    }
    return parts;
}

static void
store_total(const struct cpu_call *call, char *at, double value, int64_t whole)
{
    if (call->compute == DTYPE_I64)
        cpu_convert_one(at, call->out.dtype, &whole, DTYPE_I64);
    else
        cpu_convert_one(at, call->out.dtype, &value, DTYPE_F64);
}

/* All elements of `view` into one. */
static void
sum_all(const struct cpu_call *call, struct cpu_view *view, char *to)
{
    const struct cpu_view *views[1] = { view };
    double             buffer[LOOP_CHUNK];
    struct running_sum sum;
    uint64_t           whole = 0;
    bool               single = call->compute == DTYPE_F32;
    struct loop        loop;
    sum.chunks = 0;
    for (loop_begin(&loop, views, 1); loop.more; loop_next(&loop)) {
        for (int64_t done = 0; done < loop.run; done += LOOP_CHUNK) {
            int64_t     count = loop.run - done < LOOP_CHUNK ? loop.run - done : LOOP_CHUNK;
            struct run  run = loop_part(&loop, 0, done, count);
            const void *x = run_load(buffer, call->compute, &run);
            for (int64_t i = 0; call->compute == DTYPE_I64 && i < count; i++)
                whole += (uint64_t)((const int64_t *)x)[i];
            if (call->compute != DTYPE_I64)
                sum_add(&sum, single ? (double)lanes_f32(x, count) : lanes_f64(x, count), single);
        }
    }
    store_total(call, to, sum_total(&sum, single), (int64_t)whole);
}

static void
add_columns(enum dtype compute, void *into, const void *row, int64_t count)
{
    if (compute == DTYPE_F32)
        add_run_f32(into, row, count);
    if (compute == DTYPE_F64)
        add_run_f64(into, row, count);
    for (int64_t i = 0; compute == DTYPE_I64 && i < count; i++)
        ((uint64_t *)into)[i] += ((const uint64_t *)row)[i];
}

/* Neighbouring columns, of which `top` is the first row, each over all that is summed. */
static void
sum_columns(const struct cpu_call *call, const struct cpu_view *summed, const struct run *top, const struct run *to)
{
    int64_t step = top->step, count = top->count;
    const struct cpu_view *views[1] = { summed };
    double      total[LOOP_CHUNK], buffer[LOOP_CHUNK]; /* room for the largest type */
    struct loop loop;
    memset(total, 0, (size_t)count * sizeof *total);
    bool        plain = call->compute == DTYPE_F32 && summed->dtype == DTYPE_F32 && step == (int64_t)sizeof(float);
    for (loop_begin(&loop, views, 1); loop.more; loop_next(&loop)) {
        if (plain) {
            add_rows_f32((float *)total, (const float *)(void *)loop.at[0], loop.step[0] / step, loop.run, count);
            continue;
        }
        struct run  columns = { loop.at[0], step, count, summed->dtype };
        const void *row = run_load(buffer, call->compute, &columns);
        if (loop.step[0] == 0 && call->compute == DTYPE_F32) { /* an expanded gradient is one row again and again */
            add_rows_f32((float *)total, row, 0, loop.run, count);
            continue;
        }
        for (int64_t i = 0; i < loop.run; i++) {
            if (i > 0 && loop.step[0] != 0) {
                columns.at = loop.at[0] + i * loop.step[0];
                row        = run_load(buffer, call->compute, &columns);
            }
            add_columns(call->compute, total, row, count);
        }
    }
    run_store(to, total, call->compute);
}

static void
reduce_sum(const struct cpu_call *call)
{
    struct parts           parts = take_apart(call);
    const struct cpu_view *views[2] = { &parts.out, &parts.kept };
    struct loop            loop;
    for (loop_begin(&loop, views, 2); loop.more; loop_next(&loop)) {
        int64_t wide = parts.by_column ? LOOP_CHUNK : 1;
        for (int64_t done = 0; done < loop.run; done += wide) {
            int64_t    count = loop.run - done < wide ? loop.run - done : wide;
            struct run to = loop_part(&loop, 0, done, count), top = loop_part(&loop, 1, done, count);
            parts.summed.data = top.at;
            if (parts.by_column)
                sum_columns(call, &parts.summed, &top, &to);
            else
                sum_all(call, &parts.summed, to.at);
        }
    }
}

void
cpu_sum(const struct cpu_call *call)
{
    reduce_sum(call);
}

void
cpu_sum_dim(const struct cpu_call *call)
{
    reduce_sum(call);
}

void
cpu_sum_to(const struct cpu_call *call)
{
    reduce_sum(call);
}


void
divide_all(const struct cpu_view *view, int64_t count, double by)
{
    for (int64_t i = 0; i < count; i++) {
        void *at = (char *)view->data + i * (int64_t)dtype_size(view->dtype);
        if (view->dtype == DTYPE_F64)
            *(double *)at /= by;
        else
            dtype_put_fraction(view->dtype, at, (double)((float)dtype_fraction(view->dtype, at) / (float)by));
    }
}

/* The mean of nothing is NaN. */
void
cpu_mean(const struct cpu_call *call)
{
    double count = 1;
    for (int d = 0; d < call->in[0].dims; d++)
        count *= (double)call->in[0].size[d];
    reduce_sum(call);
    divide_all(&call->out, 1, count);
}

/* NaN wins over everything. */
static bool
is_beyond(double x, double best, bool largest)
{
    return x != x || (best == best && (largest ? x > best : x < best));
}

static void
extreme_of_all(const struct cpu_call *call, bool largest)
{
    const struct cpu_view *views[1] = { &call->in[0] };
    double      buffer[LOOP_CHUNK], best = largest ? -INFINITY : INFINITY;
    int64_t     best_whole = largest ? INT64_MIN : INT64_MAX;
    bool        whole = call->compute == DTYPE_I64;
    struct loop loop;
    for (loop_begin(&loop, views, 1); loop.more; loop_next(&loop)) {
        for (int64_t done = 0; done < loop.run; done += LOOP_CHUNK) {
            int64_t     count = loop.run - done < LOOP_CHUNK ? loop.run - done : LOOP_CHUNK;
            enum dtype  as = whole ? DTYPE_I64 : DTYPE_F64;
            struct run  run = loop_part(&loop, 0, done, count);
            const void *x = run_load(buffer, as, &run);
            for (int64_t i = 0; i < count; i++) {
                int64_t n = whole ? ((const int64_t *)x)[i] : 0;
                if (whole && (largest ? n > best_whole : n < best_whole))
                    best_whole = n;
                if (!whole && is_beyond(((const double *)x)[i], best, largest))
                    best = ((const double *)x)[i];
            }
        }
    }
    store_total(call, call->out.data, best, best_whole);
}

void
cpu_max(const struct cpu_call *call)
{
    extreme_of_all(call, true);
}

void
cpu_min(const struct cpu_call *call)
{
    extreme_of_all(call, false);
}
