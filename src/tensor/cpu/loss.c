/* Losses of each element by itself, and their mean or sum in one pass; the gradients are elementwise. From loss.def. In
 * PyTorch: ATen/native/Loss.cpp. */
#include <math.h>
#include "base/math.h"
#include "tensor/cpu/blocks.h"
#include "tensor/cpu/convert.h"
#include "tensor/cpu/elementwise.h"
#include "tensor/cpu/kernels.h"
#include "tensor/cpu/loss.h"
#include "tensor/cpu/loss_bodies.h"

#define LOSS(name, inputs, fractions)                                                                              \
    BLOCKED_RUN(name##_f32, float, fractions)                                                                      \
    BLOCKED_RUN(name##_f64, double, fractions)
#define LOSS_BACKWARD LOSS
#include "tensor/cpu/loss.def"
#undef LOSS_BACKWARD
#undef LOSS

/* The next losses of a run in one piece. */
static const void *
losses_of(const struct cpu_call *call, const struct loop *loop, const struct runs *runs, int64_t done, int64_t count,
          double buffer[LOOP_VIEWS][LOOP_CHUNK])
{
    const void *in[3] = { buffer[0], buffer[0], buffer[0] };
    for (int v = 0; v < loop->views; v++) {
        struct run run = loop_part(loop, v, done, count);
        in[v] = run_load(buffer[v + 1], call->compute, &run);
    }
    if (call->compute == DTYPE_F32)
        runs->f32(buffer[0], in, count, (float)call->alpha, (float)call->beta);
    else
        runs->f64(buffer[0], in, count, call->alpha, call->beta);
    return buffer[0];
}

void
loss_store(const struct cpu_call *call, const struct running_sum *sum, double elements)
{
    bool   single = call->compute == DTYPE_F32;
    double total = sum_total(sum, single);
    if (call->dim == LOSS_MEAN)
        total = single ? (double)((float)total / (float)elements) : total / elements;
    cpu_convert_one(call->out.data, call->out.dtype, &total, DTYPE_F64);
}

static void
reduced_loss(const struct cpu_call *call, int inputs, const struct runs *runs)
{
    const struct cpu_view *views[3] = { &call->in[0], &call->in[1], &call->in[2] };
    double             buffer[LOOP_VIEWS][LOOP_CHUNK], elements = 1;
    struct running_sum sum;
    struct loop        loop;
    bool               single = call->compute == DTYPE_F32;
    sum.chunks = 0;
    for (int d = 0; d < call->in[0].dims; d++)
        elements *= (double)call->in[0].size[d];
    for (loop_begin(&loop, views, inputs); loop.more; loop_next(&loop)) {
        for (int64_t done = 0; done < loop.run; done += LOOP_CHUNK) {
            int64_t     count = loop.run - done < LOOP_CHUNK ? loop.run - done : LOOP_CHUNK;
            const void *losses = losses_of(call, &loop, runs, done, count, buffer);
            sum_add(&sum, single ? (double)lanes_f32(losses, count) : lanes_f64(losses, count), single);
        }
    }
    loss_store(call, &sum, elements);
}

#define LOSS(name, inputs, fractions)                                                                              \
    void loss_##name(const struct cpu_call *call)                                                                  \
    {                                                                                                              \
        const struct runs runs = { name##_f32, name##_f64, NULL, false };                                          \
        (call->dim == LOSS_NONE ? elementwise : reduced_loss)(call, inputs, &runs);                                \
    }
#define LOSS_BACKWARD(name, inputs, fractions)                                                                     \
    void loss_##name(const struct cpu_call *call)                                                                  \
    {                                                                                                              \
        elementwise(call, inputs, &(const struct runs){ name##_f32, name##_f64, NULL, false });                    \
    }
#include "tensor/cpu/loss.def"
#undef LOSS_BACKWARD
#undef LOSS

/* Of probabilities x for targets y; start 1: without the weights z. */
void
cpu_bce(const struct cpu_call *call)
{
    (call->start == 1 ? loss_bce : loss_weighted_bce)(call);
}
