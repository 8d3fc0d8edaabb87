/* The negative log likelihood of class indices: weighted classes, targets that do not count, smoothed labels.
 *
 * start: the target that does not count; dim: enum reduction; step 1: there are weights; alpha: how much of the label
 * goes to all classes. The classes lie in dimension 1, in 0 of a single sample. In PyTorch: ATen/native/LossNLL.cpp. */
#include <string.h>
#include "tensor/cpu/kernels.h"
#include "tensor/cpu/pack.h"

struct nll {
    const struct cpu_call *call;
    int64_t                samples, classes, places, ignored, reduction;
    double                 smoothing;
};

/* Whether the target counts; a class that does not exist is reported and does not. */
static bool
is_class(const struct nll *s, int64_t target)
{
    if (target == s->ignored)
        return false;
    if (target >= 0 && target < s->classes)
        return true;
    fault_raise(s->call->fault, target, s->classes);
    return false;
}

#define T float
#define NLL(part) f32_##part
#include "tensor/cpu/nll_type.def"
#define T double
#define NLL(part) f64_##part
#include "tensor/cpu/nll_type.def"

static struct nll
nll_of(const struct cpu_call *call, const struct cpu_view *input)
{
    struct nll s = { .call = call, .samples = 1, .classes = input->size[0], .places = 1, .ignored = call->start,
                     .reduction = call->dim, .smoothing = call->alpha };
    if (input->dims > 1) {
        s.samples = input->size[0];
        s.classes = input->size[1];
    }
    for (int d = 2; d < input->dims; d++)
        s.places *= input->size[d];
    return s;
}

/* in: input, target, weight. */
void
cpu_nll_loss(const struct cpu_call *call)
{
    char          *room = call->workspace;
    struct nll     s = nll_of(call, &call->in[0]);
    const void    *x = pack_input(call, 0, &room);
    const int64_t *target = pack_as(call, 1, DTYPE_I64, &room);
    const void    *weight = call->step == 1 ? pack_input(call, 2, &room) : NULL;
    if (call->compute == DTYPE_F32)
        f32_forward(call->out.data, x, target, weight, &s);
    else
        f64_forward(call->out.data, x, target, weight, &s);
}

/* in: gradient, input, target, weight. */
void
cpu_nll_loss_backward(const struct cpu_call *call)
{
    char          *room = call->workspace;
    struct nll     s = nll_of(call, &call->in[1]);
    const void    *grad = pack_input(call, 0, &room);
    const int64_t *target = pack_as(call, 2, DTYPE_I64, &room);
    const void    *weight = call->step == 1 ? pack_input(call, 3, &room) : NULL;
    if (call->compute == DTYPE_F32)
        f32_backward(call->out.data, grad, target, weight, &s);
    else
        f64_backward(call->out.data, grad, target, weight, &s);
}
