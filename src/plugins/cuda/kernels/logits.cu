/* Binary cross entropy of logits, of each element or reduced, and its gradient (tensor/cpu/bce.c). The CPU packs the
 * operands first, so its chunks are cut from all elements in row-major order; here they are loaded from where they
 * lie. In PyTorch: ATen/native/Loss.cpp, binary_cross_entropy_with_logits. */
#include "plugins/cuda/kernels/elementwise.h"
#include "plugins/cuda/kernels/loss.h"
#include "plugins/cuda/kernels/math.h"
#include "tensor/cpu/loss_bodies.h"
#include "tensor/cpu/rounded.h"

enum { NO_POSITIVE = 1, NO_WEIGHT = 2 };   /* in start */

ON_DEVICE float logit_loss(float x, float t, float share) { return logit_loss_f32(x, t, share); }
ON_DEVICE double logit_loss(double x, double t, double share) { return logit_loss_f64(x, t, share); }
ON_DEVICE float
logit_slope(float g, float x, float t, float share)
{
    return logit_slope_f32(g, t, share, rounded_exp(x));
}
ON_DEVICE double
logit_slope(double g, double x, double t, double share)
{
    return logit_slope_f64(g, t, share, math_exp(x));
}

/* Input `v`, of which `at` is the place; an absent one is not looked at. */
template <typename T> ON_DEVICE T
logit_operand(const struct cpu_call &call, int v, int64_t at)
{
    return load<T>(operand(call, v), call.in[v].dtype, at);
}

/* What the weight of the positive, input `v`, makes of it. */
template <typename T> ON_DEVICE T
share_of(const struct cpu_call &call, int v, int64_t at, T target)
{
    return call.start & NO_POSITIVE ? 1 : 1 + (logit_operand<T>(call, v, at) - 1) * target;
}

/* at: the places of input, target, weight of the positive, weight. */
template <typename T> ON_DEVICE T
loss_of_logit(const struct cpu_call &call, const int64_t *at)
{
    T x = logit_operand<T>(call, 0, at[0]), target = logit_operand<T>(call, 1, at[1]);
    T loss = logit_loss(x, target, share_of<T>(call, 2, at[2], target));
    return call.start & NO_WEIGHT ? loss : loss * logit_operand<T>(call, 3, at[3]);
}

template <typename T> struct logit_source {
    const struct cpu_call *call;
    const struct walk<4>  *walk;

    ON_DEVICE_MEMBER struct chunk_place
    place(int64_t chunk) const
    {
        const int64_t      first = chunk * CHUNK, left = walk->count - first;
        struct chunk_place place = { { first }, left < CHUNK ? (int)left : (int)CHUNK };
        return place;
    }
    ON_DEVICE_MEMBER bool
    is_quick() const
    {
        return false;
    }
    ON_DEVICE_MEMBER T
    quick_value(const struct chunk_place &place, int i) const
    {
        return value(place, i);
    }
    ON_DEVICE_MEMBER T
    value(const struct chunk_place &place, int i) const
    {
        struct places<4> places = walk_at<4>(walk, place.at[0] + i);
        return loss_of_logit<T>(*call, places.at);
    }
};

template <typename T> ON_DEVICE void
logit_losses(const struct cpu_call &call)
{
    struct walk<5> walk;
    walk.view[0] = &call.out;
    for (int v = 0; v < 4; v++)
        walk.view[v + 1] = &call.in[v];
    walk_begin<5>(&walk);
    ROLLED for (int64_t i = first_item(); i < walk.count; i += item_step()) {
        struct places<5> places = walk_at<5>(&walk, i);
        store<T>(call.out.data, call.out.dtype, places.at[0], loss_of_logit<T>(call, &places.at[1]));
    }
}

template <typename T> ON_DEVICE void
reduced_logits(const struct cpu_call &call, const struct walk<4> *walk, struct sum_room<T> *room)
{
    struct logit_source<T> from = { &call, walk };
    sum_losses<T>(call, &from, (walk->count + CHUNK - 1) / CHUNK, (double)walk->count, room);
}

/* in: input, target, weight of the positive, weight. */
KERNEL_OF(cpu_bce_with_logits, struct cpu_call)
{
    SHARED struct sum_room<double> room;
    if (call.dim == LOSS_NONE && call.compute == DTYPE_F32) {
        logit_losses<float>(call);
    } else if (call.dim == LOSS_NONE) {
        logit_losses<double>(call);
    } else {
        struct walk<4> walk;
        for (int v = 0; v < 4; v++)
            walk.view[v] = &call.in[v];
        walk_in_order<4>(&walk);
        if (call.compute == DTYPE_F32)
            reduced_logits<float>(call, &walk, reinterpret_cast<struct sum_room<float> *>(&room));
        else
            reduced_logits<double>(call, &walk, &room);
    }
}

KERNEL_OF(cpu_bce_with_logits_gathered, struct cpu_call)
{
    SHARED struct sum_room<double> room;
    const int64_t                  count = elements_of(call.in[0]);
    gather_any(call, (count + CHUNK - 1) / CHUNK, (double)count, &room);
}

template <typename T> ON_DEVICE void
logit_slopes(const struct cpu_call &call)
{
    struct walk<5> walk;
    walk.view[0] = &call.out;
    for (int v = 0; v < 4; v++)
        walk.view[v + 1] = &call.in[v];
    walk_begin<5>(&walk);
    ROLLED for (int64_t i = first_item(); i < walk.count; i += item_step()) {
        struct places<5> places = walk_at<5>(&walk, i);
        T g = logit_operand<T>(call, 0, places.at[1]), x = logit_operand<T>(call, 1, places.at[2]);
        T target = logit_operand<T>(call, 2, places.at[3]), share = share_of<T>(call, 3, places.at[4], target);
        store<T>(call.out.data, call.out.dtype, places.at[0], logit_slope(g, x, target, share));
    }
}

/* in: gradient, and the first three of those. */
KERNEL_OF(cpu_bce_with_logits_backward, struct cpu_call)
{
    if (call.compute == DTYPE_F32)
        logit_slopes<float>(call);
    else
        logit_slopes<double>(call);
}
