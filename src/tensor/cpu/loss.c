/* The mean square of differences. In PyTorch: ATen/native/Loss.cpp. */
#include "tensor/cpu/convert.h"
#include "tensor/cpu/kernels.h"
#include "tensor/cpu/loop.h"

static void
square_f32(float *x, const float *y, int64_t count)
{
    for (int64_t i = 0; i < count; i++)
        x[i] = (x[i] - y[i]) * (x[i] - y[i]);
}

static void
square_f64(double *x, const double *y, int64_t count)
{
    for (int64_t i = 0; i < count; i++)
        x[i] = (x[i] - y[i]) * (x[i] - y[i]);
}

void
cpu_mse_loss(const struct cpu_call *call)
{
    const struct cpu_view *views[2] = { &call->in[0], &call->in[1] };
    double             x[LOOP_CHUNK], buffer[LOOP_CHUNK];
    struct running_sum sum;
    struct loop        loop;
    double             elements = 1;
    bool               single = call->compute == DTYPE_F32;
    sum.chunks = 0;
    for (int d = 0; d < call->in[0].dims; d++)
        elements *= (double)call->in[0].size[d];
    for (loop_begin(&loop, views, 2); loop.more; loop_next(&loop)) {
        for (int64_t done = 0; done < loop.run; done += LOOP_CHUNK) {
            int64_t count = loop.run - done < LOOP_CHUNK ? loop.run - done : LOOP_CHUNK;
            struct run run[2] = { loop_part(&loop, 0, done, count), loop_part(&loop, 1, done, count) };
            run_convert(x, call->compute, &run[0]);
            const void *y = run_load(buffer, call->compute, &run[1]);
            if (single)
                square_f32((float *)x, y, count);
            else
                square_f64(x, y, count);
            sum_add(&sum, single ? (double)lanes_f32((float *)x, count) : lanes_f64(x, count), single);
        }
    }
    double total = sum_total(&sum, single);
    double mean = single ? (double)((float)total / (float)elements) : total / elements;
    cpu_convert_one(call->out.data, call->out.dtype, &mean, DTYPE_F64);
}
