/* Kernels with planted faults, and one without: all say that they are cpu_copy of one dimension of float32. */
#include "plugins/cuda/kernels/device.h"

namespace {

enum { LAST = BLOCK_THREADS - 1 };

const float *
source(const struct cpu_call &call)
{
    return static_cast<const float *>(call.in[0].data);
}

float *
target(const struct cpu_call &call)
{
    return static_cast<float *>(call.out.data);
}

/* A block loads its part from behind and stores it from before: each thread stores what another has loaded. */
template <bool IS_FILLED, bool IS_FREE> void
turned_copy(const struct cpu_call &call)
{
    SHARED float part[BLOCK_THREADS];
    int64_t      count = call.out.size[0], t = thread_index();
    for (int64_t first = (int64_t)block_index() * BLOCK_THREADS; first < count; first += item_step()) {
        if (first + LAST - t < count)
            part[LAST - t] = source(call)[first + LAST - t];
        if (IS_FILLED)
            block_barrier();
        if (first + t < count)
            target(call)[first + t] = part[t];
        if (IS_FREE)
            block_barrier();
    }
}

void
copy_from_to(const struct cpu_call &call, int64_t from, int64_t to)
{
    for (int64_t i = from + first_item(); i < to; i += item_step())
        target(call)[i * call.out.stride[0]] = source(call)[i * call.in[0].stride[0]];
}

}   /* namespace */

KERNEL_OF(faulty_none, struct cpu_call) { turned_copy<true, true>(call); }
KERNEL_OF(faulty_filled, struct cpu_call) { turned_copy<false, true>(call); }
KERNEL_OF(faulty_free, struct cpu_call) { turned_copy<true, false>(call); }
KERNEL_OF(faulty_short, struct cpu_call) { copy_from_to(call, 0, call.out.size[0] - 1); }
KERNEL_OF(faulty_past, struct cpu_call)
{
    copy_from_to(call, 0, call.out.size[0]);
    if (first_item() == 0)
        target(call)[call.out.size[0]] = 1;
}
KERNEL_OF(faulty_gap, struct cpu_call)
{
    copy_from_to(call, 0, call.out.size[0]);
    if (first_item() == 0 && call.out.size[0] > 1)
        target(call)[1] = 7;
}
KERNEL_OF(faulty_barrier, struct cpu_call)
{
    copy_from_to(call, 0, call.out.size[0]);
    if (thread_index() != 5)
        block_barrier();
}
KERNEL_OF(faulty_lane, struct cpu_call)
{
    copy_from_to(call, 0, call.out.size[0]);
    if (thread_index() != 40)
        lane_down(1.0f, 1);
}
/* Each lane hands down its number twice; that of the lane above it must come, not what a quicker one has handed
 * down since. */
KERNEL_OF(faulty_lanes_none, struct cpu_call)
{
    copy_from_to(call, 0, call.out.size[0]);
    unsigned lane = thread_index() % WARP;
    for (unsigned round = 0; round < 4; round++) {
        unsigned above = lane_down(lane * 8 + round, 1);
        if (lane + 1 < WARP && above != (lane + 1) * 8 + round && call.out.size[0] > 0)
            target(call)[0] = -1;
    }
}
