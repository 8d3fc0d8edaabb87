/* Losses of each element by itself, and their sum or mean in one pass, in the CPU's order (tensor/cpu/loss.c, bce.c);
 * the gradients are elementwise. In PyTorch: ATen/native/cuda/Loss.cu. */
#include "plugins/cuda/kernels/elementwise.h"
#include "plugins/cuda/kernels/loss.h"
#include "plugins/cuda/kernels/math.h"
#include "tensor/cpu/loss_bodies.h"

#define LOSS(name, inputs, fractions)                                                                              \
    EACH(name##_f32, float, fractions)                                                                             \
    EACH(name##_f64, double, fractions)
#define LOSS_BACKWARD LOSS
#include "tensor/cpu/loss.def"
#undef LOSS_BACKWARD
#undef LOSS

/* ---- of loss.def ---- */

template <typename T, typename each, int inputs> struct loss_source {
    const struct cpu_call *call;
    const struct joined   *joined;
    T                      a, b;

    ON_DEVICE_MEMBER struct chunk_place
    place(int64_t chunk) const
    {
        return place_of_chunk(joined, chunk);
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
        T x[3] = {};
        for (int v = 0; v < inputs; v++)
            x[v] = load<T>(operand(*call, v), call->in[v].dtype, place.at[v] + i * joined_step(joined, v));
        return each::of(x[0], x[1], x[2], a, b);
    }
};

ON_DEVICE void
share_joined(const struct cpu_call &call, struct joined *joined, int inputs)
{
    const struct cpu_view *views[JOINED_VIEWS] = { &call.in[0], &call.in[1], &call.in[2] };
    if (thread_index() == 0)
        join_views(joined, views, inputs);
    block_barrier();
}

template <typename T, typename each, int inputs> ON_DEVICE void
reduced_loss(const struct cpu_call &call, const struct joined *joined, struct sum_room<T> *room)
{
    struct loss_source<T, each, inputs> from = { &call, joined, (T)call.alpha, (T)call.beta };
    sum_losses<T>(call, &from, chunks_of(joined), elements_of_losses(call), room);
}

template <typename floats, typename doubles, int inputs> ON_DEVICE void
loss(const struct cpu_call &call, struct joined *joined, struct sum_room<double> *room)
{
    if (call.dim == LOSS_NONE) {
        elementwise_fractions<floats, doubles, inputs>(call);
        return;
    }
    share_joined(call, joined, inputs);
    if (call.compute == DTYPE_F32)
        reduced_loss<float, floats, inputs>(call, joined, reinterpret_cast<struct sum_room<float> *>(room));
    else
        reduced_loss<double, doubles, inputs>(call, joined, room);
}

#define LOSS(name, inputs, fractions)                                                                              \
    KERNEL_OF(loss_##name, struct cpu_call)                                                                        \
    {                                                                                                              \
        SHARED struct joined           joined;                                                                     \
        SHARED struct sum_room<double> room;                                                                       \
        loss<name##_f32, name##_f64, inputs>(call, &joined, &room);                                                \
    }                                                                                                              \
    KERNEL_OF(loss_##name##_gathered, struct cpu_call)                                                             \
    {                                                                                                              \
        SHARED struct joined           joined;                                                                     \
        SHARED struct sum_room<double> room;                                                                       \
        share_joined(call, &joined, inputs);                                                                       \
        gather_any(call, chunks_of(&joined), elements_of_losses(call), &room);                                     \
    }
#define LOSS_BACKWARD(name, inputs, fractions)                                                                     \
    KERNEL_OF(loss_##name, struct cpu_call)                                                                        \
    {                                                                                                              \
        elementwise_fractions<name##_f32, name##_f64, inputs>(call);                                               \
    }
#include "tensor/cpu/loss.def"
#undef LOSS_BACKWARD
#undef LOSS

/* Of probabilities x for targets y; start 1: without the weights z. */
KERNEL_OF(cpu_bce, struct cpu_call)
{
    SHARED struct joined           joined;
    SHARED struct sum_room<double> room;
    if (call.start == 1)
        loss<bce_f32, bce_f64, 2>(call, &joined, &room);
    else
        loss<weighted_bce_f32, weighted_bce_f64, 3>(call, &joined, &room);
}

KERNEL_OF(cpu_bce_gathered, struct cpu_call)
{
    SHARED struct joined           joined;
    SHARED struct sum_room<double> room;
    share_joined(call, &joined, call.start == 1 ? 2 : 3);
    gather_any(call, chunks_of(&joined), elements_of_losses(call), &room);
}
