/* Losses whose result is one number: the negative log likelihood of class indices, the mean square.
 * In PyTorch: ATen/native/LossNLL.cpp, Loss.cpp. */
#include <math.h>
#include <string.h>
#include "base/dtype.h"
#include "tensor/cpu/loop.h"

enum { IGNORED = -100 };

/* The input without its class dimension, shaped like the targets. */
static struct cpu_view
without_classes(const struct cpu_view *input)
{
    struct cpu_view view = { .data = input->data, .dtype = input->dtype };
    int             classes = input->dims > 1 ? 1 : 0;
    for (int d = 0; d < input->dims; d++) {
        if (d == classes)
            continue;
        view.size[view.dims]     = input->size[d];
        view.stride[view.dims++] = input->stride[d];
    }
    return view;
}

/* Whether the target counts; a class that does not exist is reported and does not. */
static bool
counts(const struct cpu_call *call, int64_t target, int64_t classes)
{
    if (target == IGNORED)
        return false;
    if (target >= 0 && target < classes)
        return true;
    call->fault->index = target;
    call->fault->limit = classes;
    atomic_store(&call->fault->raised, 1);
    return false;
}

/* Visits (place of the class's element in `scores`, target) of each sample. `visit` gets its byte address. */
struct nll { const struct cpu_call *call; struct running_sum sum; double number; uint64_t counted; };

static void
visit_targets(struct nll *nll, const struct cpu_view *scores, const struct cpu_view *targets,
              void (*visit)(struct nll *nll, char *at))
{
    struct cpu_view samples = without_classes(scores);
    const struct cpu_view *views[2] = { targets, &samples };
    int         dim = scores->dims > 1 ? 1 : 0;
    int64_t     step = scores->stride[dim] * (int64_t)dtype_size(scores->dtype);
    struct loop loop;
    for (loop_begin(&loop, views, 2); loop.more; loop_next(&loop)) {
        for (int64_t i = 0; i < loop.run; i++) {
            int64_t target = *(int64_t *)(loop.at[0] + i * loop.step[0]);
            if (counts(nll->call, target, scores->size[dim]))
                visit(nll, loop.at[1] + i * loop.step[1] + target * step);
        }
    }
}

static void
add_score(struct nll *nll, char *at)
{
    bool single = nll->call->compute == DTYPE_F32;
    sum_add(&nll->sum, single ? -(double)*(float *)at : -*(double *)at, single);
    nll->counted++;
}

static void
only_count(struct nll *nll, char *at)
{
    (void)at;
    nll->counted++;
}

static void
put_number(struct nll *nll, char *at)
{
    if (nll->call->compute == DTYPE_F32)
        *(float *)at = (float)nll->number;
    else
        *(double *)at = nll->number;
}

/* The mean over the samples that count; NaN if none does. */
void
cpu_nll_loss(const struct cpu_call *call)
{
    struct nll nll = { .call = call };
    visit_targets(&nll, &call->in[0], &call->in[1], add_score);
    bool   single = call->compute == DTYPE_F32;
    double sum = sum_total(&nll.sum, single);
    double mean = single ? (double)((float)sum / (float)nll.counted) : sum / (double)nll.counted;
    cpu_convert(call->out.data, call->out.dtype, 1, &mean, DTYPE_F64, 1, 1);
}

/* in: gradient of the loss, input, target. */
void
cpu_nll_loss_backward(const struct cpu_call *call)
{
    struct nll nll = { .call = call };
    double     grad = 0;
    int64_t    elements = 1;
    for (int d = 0; d < call->out.dims; d++)
        elements *= call->out.size[d];
    memset(call->out.data, 0, (size_t)elements * dtype_size(call->out.dtype));
    cpu_convert(&grad, DTYPE_F64, 1, call->in[0].data, call->in[0].dtype, 1, 1);
    visit_targets(&nll, &call->in[1], &call->in[2], only_count);
    nll.number = call->compute == DTYPE_F32 ? -(double)((float)grad / (float)nll.counted)
                                            : -(grad / (double)nll.counted);
    visit_targets(&nll, &call->out, &call->in[2], put_number);
}

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
            cpu_convert(x, call->compute, 1, loop.at[0] + done * loop.step[0], views[0]->dtype,
                        loop.step[0] / (int64_t)dtype_size(views[0]->dtype), count);
            const void *y = run_load(buffer, call->compute, loop.at[1] + done * loop.step[1], loop.step[1],
                                     views[1]->dtype, count);
            if (single)
                square_f32((float *)x, y, count);
            else
                square_f64(x, y, count);
            sum_add(&sum, single ? (double)lanes_f32((float *)x, count) : lanes_f64(x, count), single);
        }
    }
    double total = sum_total(&sum, single);
    double mean = single ? (double)((float)total / (float)elements) : total / elements;
    cpu_convert(call->out.data, call->out.dtype, 1, &mean, DTYPE_F64, 1, 1);
}
