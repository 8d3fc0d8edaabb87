/* What the kernels of rows_products.def have code for, and the workspace that they want: of convolutions, all samples'
 * gradients of the weight.
 *
 * Interface: limits_products. */
#include "limits.h"
#include "plugins/cuda/kernels/conv.h"
#include "plugins/cuda/kernels/matrix.h"

/* A number of the host's in place of a tensor has no dimensions and lies in the call. */
static bool
is_here(const struct cpu_view *view)
{
    return view->data != NULL || view->dims > 0;
}

static bool
is_alike(const struct cpu_call *call, int first, int count)
{
    bool alike = call->out.dtype == call->compute;
    for (int i = first; i < first + count; i++)
        alike = alike && call->in[i].dtype == call->compute && is_here(&call->in[i]);
    return alike;
}

static bool
has_product(enum kernel kernel, const struct cpu_call *call)
{
    bool is_calculated = call->compute == DTYPE_F32 || call->compute == DTYPE_F64 ||
                         (call->compute == DTYPE_I64 && kernel != KERNEL_cpu_mm_add);
    return is_calculated && is_alike(call, 0, kernel == KERNEL_cpu_addmm ? 3 : 2);
}

/* ---- convolutions ---- */

static struct conv
shape_of(enum kernel kernel, const struct cpu_call *call)
{
    const struct cpu_view *image = &call->in[0], *weight = &call->in[1], *result = &call->out;
    if (kernel == KERNEL_cpu_conv_transpose2d)
        image = &call->out, result = &call->in[0];
    else if (kernel == KERNEL_cpu_conv2d_weight)
        image = &call->in[1], weight = &call->out, result = &call->in[0];
    return conv_shape(call->sizes, image->size, weight->size, result->size);
}

/* All numbers of one place, and of one plane, as an int: kernels divide by them. */
static bool
is_small(const struct conv *c)
{
    const double most = INT32_MAX;
    const double high = (double)(c->h > c->oh ? c->h : c->oh) * (double)c->sh + (double)c->ph +
                        (double)c->kh * (double)c->dh;
    const double wide = (double)(c->w > c->ow ? c->w : c->ow) * (double)c->sw + (double)c->pw +
                        (double)c->kw * (double)c->dw;
    return high < most && wide < most && (double)c->h * (double)c->w < most && (double)c->oh * (double)c->ow < most &&
           (double)c->depth < most && (double)c->n < most && (double)c->groups * (double)c->ins < most &&
           (double)c->groups * (double)c->outs < most;
}

static bool
has_conv(enum kernel kernel, const struct cpu_call *call)
{
    const struct conv shape = shape_of(kernel, call);
    bool              has_bias = kernel == KERNEL_cpu_conv2d && call->start != 1;
    return (call->compute == DTYPE_F32 || call->compute == DTYPE_F64) && is_alike(call, 0, has_bias ? 3 : 2) &&
           is_small(&shape);
}

bool
limits_products(enum kernel kernel, const void *params, size_t *room)
{
    struct product_form form;
    if (kernel == KERNEL_lstm_forward || kernel == KERNEL_lstm_backward)
        return true;
    if (product_form_of(kernel, &form))
        return has_product(kernel, params);
    if (kernel == KERNEL_cpu_conv2d_weight)
        *room = conv_parts_bytes(params);
    return has_conv(kernel, params);
}
