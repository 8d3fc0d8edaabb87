/* What the kernels of rows_reduce.def have code for: everything; and the workspace that they want: of whole tensors,
 * what the blocks of one kernel leave to the next (kernels/joined.h).
 *
 * Interface: limits_reduce. */
#include "limits.h"
#include "kernels/joined.h"

static size_t
room_of_sum(const struct cpu_call *call)
{
    struct apart apart;
    take_apart(&apart, &call->in[0], &call->out);
    return pieces_room(chunks_of(&apart.summed));
}

static size_t
room_of_extreme(const struct cpu_call *call)
{
    struct apart apart;
    take_apart(&apart, &call->in[0], &call->out);
    return extreme_room_bytes(apart.summed.count);
}

static size_t
room_of_loss(const struct cpu_call *call, int inputs)
{
    const struct cpu_view *views[JOINED_VIEWS] = { &call->in[0], &call->in[1], &call->in[2] };
    struct joined          joined;
    if (call->dim == LOSS_NONE)
        return 0;
    join_views(&joined, views, inputs);
    return pieces_room(chunks_of(&joined));
}

/* Its chunks do not end with runs. Few: the CPU's workspace, which the kernel does not look at. */
static size_t
room_of_logits(const struct cpu_call *call)
{
    int64_t count = 1;
    for (int d = 0; d < call->in[0].dims; d++)
        count *= call->in[0].size[d];
    return call->dim == LOSS_NONE ? 0 : pieces_room((count + CHUNK - 1) / CHUNK);
}

bool
limits_reduce(enum kernel kernel, const void *params, size_t *room)
{
    const struct cpu_call *call = params;
    switch (kernel) {
    case KERNEL_cpu_sum:
    case KERNEL_cpu_mean: *room = room_of_sum(call); break;
    case KERNEL_cpu_max:
    case KERNEL_cpu_min:  *room = room_of_extreme(call); break;
    case KERNEL_cpu_bce:  *room = room_of_loss(call, call->start == 1 ? 2 : 3); break;
    case KERNEL_cpu_bce_with_logits: *room = room_of_logits(call); break;
#define LOSS(name, inputs, each) case KERNEL_loss_##name: *room = room_of_loss(call, inputs); break;
#define LOSS_BACKWARD(name, inputs, each)
#include "tensor/cpu/loss.def"
#undef LOSS
#undef LOSS_BACKWARD
    default: break;
    }
    return true;
}
