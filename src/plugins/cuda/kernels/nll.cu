/* The negative log likelihood of class indices: weighted classes, targets that do not count, smoothed labels. A thread
 * works out a sample; the sums over the samples are one block's, in the order of the samples, in double, as in
 * tensor/cpu/nll.c. The call's numbers are told there.
 *
 * In PyTorch: ATen/native/cuda/Loss.cu, NLLLoss2d.cu. */
#include "plugins/cuda/kernels/places.h"
#include "plugins/cuda/kernels/team.h"

struct classes {
    int64_t count, places;   /* of the classes; of what lies behind them */
    int     dim, weight;     /* where they lie in the input; the operand that has the weights */
    int     target;          /* the operand that has the targets */
};

ON_DEVICE struct classes
classes_of(const struct cpu_view &input, int target)
{
    struct classes of = {};
    of.dim    = input.dims > 1 ? 1 : 0;
    of.count  = input.size[of.dim];
    of.places = 1;
    for (int d = 2; d < input.dims; d++)
        of.places *= input.size[d];
    of.target = target;
    of.weight = target + 1;
    return of;
}

ON_DEVICE int64_t
target_of(const struct cpu_call &call, const struct classes &of, int64_t i)
{
    return static_cast<const int64_t *>(operand(call, of.target))[place_of(call.in[of.target], i)];
}

/* Whether the target counts; a class that does not exist does not. */
ON_DEVICE bool
counts(const struct cpu_call &call, const struct classes &of, int64_t target)
{
    return target != call.start && target >= 0 && target < of.count;
}

ON_DEVICE void
report(const struct cpu_call &call, const struct classes &of, int64_t target)
{
    if (target != call.start && !counts(call, of, target))
        raise_fault(call.fault, target, of.count);
}

template <typename T> ON_DEVICE double
weight_of(const struct cpu_call &call, const struct classes &of, int64_t c)
{
    const struct cpu_view &view = call.in[of.weight];
    return call.step == 1 ? (double)load<T>(operand(call, of.weight), view.dtype, place_of(view, c)) : 1;
}

/* The loss of sample i. */
template <typename T> ON_DEVICE double
sample_loss(const struct cpu_call &call, const struct classes &of, int64_t i, int64_t target)
{
    const struct cpu_view &view = call.in[0];
    const T *x = static_cast<const T *>(operand(call, 0)) + place_beside(view, of.dim, i);
    int64_t  step = view.stride[of.dim];
    double   smoothing = call.alpha, all = 0;
    double   loss = -weight_of<T>(call, of, target) * (double)x[target * step];
    if (smoothing == 0)
        return loss;
    for (int64_t c = 0; c < of.count; c++)
        all -= weight_of<T>(call, of, c) * (double)x[c * step];
    return (1 - smoothing) * loss + smoothing / (double)of.count * all;
}

template <typename T> ON_DEVICE void
samples(const struct cpu_call &call)
{
    struct classes of = classes_of(call.in[0], 1);
    int64_t        count = elements_of(call.in[1]);
    double        *losses = static_cast<double *>(call.workspace), *weights = losses + count;
    for (int64_t i = first_item(); i < count; i += item_step()) {
        int64_t target = target_of(call, of, i);
        bool    takes_part = counts(call, of, target);
        double  loss = takes_part ? sample_loss<T>(call, of, i, target) : 0;
        report(call, of, target);
        if (call.dim == LOSS_NONE) {
            static_cast<T *>(call.out.data)[i] = (T)loss;
            continue;
        }
        losses[i]  = loss;
        weights[i] = takes_part ? weight_of<T>(call, of, target) : 0;
    }
}

template <typename T> ON_DEVICE void
total(const struct cpu_call &call)
{
    int64_t       count = elements_of(call.in[1]);
    const double *losses = static_cast<const double *>(call.workspace), *weights = losses + count;
    for (struct teams at = teams_first(1, count); teams_more(at); teams_next(at)) {
        double sum = team_sum<double, 1>(at, count, [&](int64_t i) { return losses[i]; });
        if (call.dim == LOSS_MEAN)
            sum /= team_sum<double, 1>(at, count, [&](int64_t i) { return weights[i]; });
        if (at.works && at.member == 0)
            *static_cast<T *>(call.out.data) = (T)sum;
    }
}

/* A loss and a weight for each sample, to the workspace; without a reduction to the result. */
KERNEL_OF(nll_samples, struct cpu_call)
{
    if (call.compute == DTYPE_F32)
        samples<float>(call);
    else
        samples<double>(call);
}

KERNEL_OF(nll_total, struct cpu_call)
{
    if (call.dim == LOSS_NONE)
        return;
    if (call.compute == DTYPE_F32)
        total<float>(call);
    else
        total<double>(call);
}

/* ---- the gradient; in: gradient, input, target, weight ---- */

template <typename T> ON_DEVICE void
weights(const struct cpu_call &call)
{
    struct classes of = classes_of(call.in[1], 2);
    int64_t        count = elements_of(call.in[2]);
    for (struct teams at = teams_first(1, count); teams_more(at); teams_next(at)) {
        double sum = team_sum<double, 1>(at, count, [&](int64_t i) {
            int64_t target = target_of(call, of, i);
            return counts(call, of, target) ? weight_of<T>(call, of, target) : 0.0;
        });
        if (at.works && at.member == 0)
            *static_cast<double *>(call.workspace) = sum;
    }
}

/* Of class c of a sample, whose loss has the gradient `grad`. */
template <typename T> ON_DEVICE T
class_gradient(const struct cpu_call &call, const struct classes &of, int64_t c, int64_t target, double grad)
{
    double smoothing = call.alpha;
    T      here = c == target ? (T)(-(1 - smoothing) * weight_of<T>(call, of, target) * grad) : (T)0;
    if (smoothing != 0)
        here -= (T)(smoothing / (double)of.count * weight_of<T>(call, of, c) * grad);
    return here;
}

template <typename T> ON_DEVICE void
gradients(const struct cpu_call &call)
{
    struct classes         of = classes_of(call.in[1], 2);
    const struct cpu_view &grads = call.in[0];
    int64_t                all = elements_of(call.out);
    for (int64_t e = first_item(); e < all; e += item_step()) {
        int64_t row = quotient(e, of.places), place = e - row * of.places, n = quotient(row, of.count);
        int64_t c = row - n * of.count, i = n * of.places + place, target = target_of(call, of, i);
        T       here = 0;
        if (c == 0)
            report(call, of, target);
        if (counts(call, of, target)) {
            int64_t at = call.dim == LOSS_NONE ? place_of(grads, i) : 0;
            double  grad = (double)load<T>(operand(call, 0), grads.dtype, at);
            if (call.dim == LOSS_MEAN)
                grad /= *static_cast<const double *>(call.workspace);
            here = class_gradient<T>(call, of, c, target, grad);
        }
        static_cast<T *>(call.out.data)[e] = here;
    }
}

/* The weight of all samples together, to the workspace, by which a mean was divided. */
KERNEL_OF(nll_weights, struct cpu_call)
{
    if (call.dim != LOSS_MEAN)
        return;
    if (call.compute == DTYPE_F32)
        weights<float>(call);
    else
        weights<double>(call);
}

KERNEL_OF(nll_loss_backward, struct cpu_call)
{
    if (call.compute == DTYPE_F32)
        gradients<float>(call);
    else
        gradients<double>(call);
}
