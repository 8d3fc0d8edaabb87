/* Elementwise kernels made from functions.def: functions of one number, and what is other code for float, double and
 * integers. The loops are those of elementwise.c. In PyTorch: ATen/native/cpu/UnaryOpsKernel.cpp. */
#include <math.h>
#include "base/math.h"
#include "tensor/cpu/blocks.h"
#include "tensor/cpu/elementwise.h"
#include "tensor/cpu/kernels.h"
#include "tensor/cpu/functions_bodies.h"

static bool
are_near(const float *x, int64_t count)
{
    int far = 0;
    for (int64_t i = 0; i < count; i++)
        far |= !(fabsf(x[i]) < NEAR_TURNS);
    return !far;
}

#define RUN(name, suffix, type, expression)                                                                        \
    static void name##_##suffix(void *result, const void *const *in, int64_t count, type a, type b)                \
    {                                                                                                              \
        const type *px = in[0], *py = in[1], *pz = in[2];                                                          \
        type       *out = result;                                                                                  \
        for (int64_t i = 0; i < count; i++) {                                                                      \
            type x = px[i], y = py[i], z = pz[i];                                                                  \
            (void)x, (void)y, (void)z, (void)a, (void)b;                                                           \
            out[i] = (type)(expression);                                                                           \
        }                                                                                                          \
    }
#define FUN(name, inputs, floats, doubles, integers)                                                               \
    RUN(name, f32, float, floats)                                                                                  \
    RUN(name, f64, double, doubles)                                                                                \
    RUN(name, i64, int64_t, integers)
#define VECTOR(name, inputs, floats, doubles, integers)                                                            \
    BLOCKED_RUN(name##_f32, float, floats)                                                                         \
    RUN(name, f64, double, doubles)                                                                                \
    RUN(name, i64, int64_t, integers)
#define TURN(name, inputs, floats, doubles, integers)                                                              \
    RUN(far_##name, f32, float, floats)                                                                            \
    RUN(name, f64, double, doubles)                                                                                \
    RUN(name, i64, int64_t, integers)                                                                              \
    BLOCKED_RUN(near_##name##_f32, float, near_##name(x))                                                          \
    static void name##_f32(void *result, const void *const *in, int64_t count, float a, float b)                   \
    {                                                                                                              \
        (are_near(in[0], count) ? near_##name##_f32 : far_##name##_f32)(result, in, count, a, b);                  \
    }
#include "tensor/cpu/functions.def"

/* Integers by 0: the host is told, as in PyTorch; on devices the result means nothing. */
static void
look_for_zeros(const struct cpu_call *call)
{
    const struct cpu_view *views[1] = { &call->in[1] };
    struct loop            loop;
    if (call->compute != DTYPE_I64 || call->fault == NULL || !call->fault->zeros)
        return;
    for (loop_begin(&loop, views, 1); loop.more; loop_next(&loop)) {
        for (int64_t i = 0; i < loop.run; i++) {
            if (dtype_whole(views[0]->dtype, loop.at[0] + i * loop.step[0]) != 0)
                continue;
            fault_raise(call->fault, 0, -1);
            return;
        }
    }
}

#define FUN(name, inputs, floats, doubles, integers)                                                               \
    void map_##name(const struct cpu_call *call)                                                                   \
    {                                                                                                              \
        elementwise(call, inputs, &(const struct runs){ name##_f32, name##_f64, name##_i64, false });              \
    }
#define QUOTIENT(name, inputs, floats, doubles, integers)                                                          \
    void map_##name(const struct cpu_call *call)                                                                   \
    {                                                                                                              \
        look_for_zeros(call);                                                                                      \
        elementwise(call, inputs, &(const struct runs){ name##_f32, name##_f64, name##_i64, false });              \
    }
#include "tensor/cpu/functions.def"

void
map_add(const struct cpu_call *call)
{
    if (call->alpha == 1 || call->compute == DTYPE_I64)
        cpu_add(call);
    else
        map_add_scaled(call);
}

void
map_sub(const struct cpu_call *call)
{
    if (call->alpha == 1 || call->compute == DTYPE_I64)
        cpu_sub(call);
    else
        map_sub_scaled(call);
}
