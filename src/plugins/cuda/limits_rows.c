/* What the kernels of rows_rows.def have code for, and the workspace that they want: for what a first pass tells a
 * second. They read operands where they lie, so nothing of the CPU's packing.
 *
 * Interface: limits_rows. */
#include "limits.h"
#include "tensor/cpu/norm.h"
#include "tensor/cpu/view.h"

/* The numbers of rows are those that the kernels work out (kernels/layer_norm.cu). */
static int64_t
layer_rows(const struct cpu_call *call)
{
    const struct cpu_view *view = &call->in[0];
    int64_t                wide = 1;
    for (int d = view->dims - (int)call->dim; d < view->dims; d++)
        wide *= view->size[d];
    return wide > 0 ? view_count(view) / wide : 0;
}

/* Everything that a plan lets through; of every type, since they calculate in float32 or float64. */
bool
limits_rows(enum kernel kernel, const void *params, size_t *room)
{
    const struct cpu_call *call = params;
    switch (kernel) {
    case KERNEL_cpu_nll_loss:          *room = 2 * sizeof(double) * (size_t)view_count(&call->in[1]); break;
    case KERNEL_cpu_nll_loss_backward: *room = sizeof(double); break;
    case KERNEL_cpu_layer_norm_sums:   *room = sizeof(struct moments) * (size_t)layer_rows(call); break;
    case KERNEL_cpu_group_norm_sums:
        *room = sizeof(struct moments) * (size_t)(call->in[0].size[0] * call->dim);
        break;
    default:                           break;
    }
    return true;
}
