/* Convolutions of planes by columns and matrix products, group by group and sample by sample: forward, the one that
 * leads back to the input (which is also conv_transpose2d), and the weight's gradient.
 *
 * sizes: stride, padding, dilation (height and width each), groups. length and step: the height and width of the
 * result of conv_transpose2d, of the kernel in conv2d_weight.
 * In PyTorch: ATen/native/ConvolutionMM2d.cpp, NaiveConvolutionTranspose2d.cpp. */
#include "tensor/cpu/conv.h"
#include <string.h>
#include "tensor/cpu/kernels.h"
#include "tensor/cpu/loop.h"
#include "tensor/cpu/pack.h"

struct filters { const void *weight, *bias; }; /* bias NULL: none */

/* A matrix in memory: of rows and columns, and how far apart they are. */
struct factor { const void *data; int64_t rows, columns, row_step, column_step; };

static struct cpu_view
view_of_factor(const struct factor *factor, enum dtype dtype)
{
    return (struct cpu_view){ .data = (void *)(uintptr_t)factor->data, .dtype = dtype, .dims = 2,
                              .size = { factor->rows, factor->columns },
                              .stride = { factor->row_step, factor->column_step } };
}

/* out, row-major: a @ b. */
static void
multiply_factors(const struct cpu_call *call, struct factor a, struct factor b, void *out, char *panel)
{
    struct factor   result = { out, a.rows, b.columns, b.columns, 1 };
    struct cpu_call product = { .inputs = 2, .compute = call->compute, .blas = call->blas, .workspace = panel };
    product.in[0] = view_of_factor(&a, call->compute);
    product.in[1] = view_of_factor(&b, call->compute);
    product.out   = view_of_factor(&result, call->compute);
    cpu_mm(&product);
}

static void
f32_add_run(float *to, const float *from, int64_t count)
{
    add_run_f32(to, from, count);
}

static void
f64_add_run(double *to, const double *from, int64_t count)
{
    add_run_f64(to, from, count);
}

#define T float
#define CONV(part) f32_##part
#include "tensor/cpu/conv_type.def"
#define T double
#define CONV(part) f64_##part
#include "tensor/cpu/conv_type.def"

size_t
conv_workspace(const struct conv *c, enum dtype dtype, bool weight)
{
    size_t  element = dtype_size(dtype);
    int64_t places = c->oh * c->ow;
    size_t  most = cpu_mm_workspace(dtype, c->depth), other = cpu_mm_workspace(dtype, weight ? places : c->outs);
    size_t  bytes = pack_round((size_t)(c->depth * places) * element) + (most > other ? most : other);
    return bytes + (weight ? pack_round((size_t)(c->outs * c->depth) * element) : 0) + PACK_ALIGN;
}

/* in: input, weight, bias (start 1: there is none). */
void
cpu_conv2d(const struct cpu_call *call)
{
    char       *room = call->workspace;
    struct conv c = conv_shape(call->sizes, call->in[0].size, call->in[1].size, call->out.size);
    const void *x = pack_input(call, 0, &room);
    struct filters filters = { .weight = pack_input(call, 1, &room) };
    filters.bias = call->start == 1 ? NULL : pack_input(call, 2, &room);
    if (call->compute == DTYPE_F32)
        f32_forward(call, &c, x, filters, room);
    else
        f64_forward(call, &c, x, filters, room);
}

/* in: what the forward of these sizes gave (or its gradient), weight. */
void
cpu_conv_transpose2d(const struct cpu_call *call)
{
    char       *room = call->workspace;
    struct conv c = conv_shape(call->sizes, call->out.size, call->in[1].size, call->in[0].size);
    const void *grad = pack_input(call, 0, &room), *weight = pack_input(call, 1, &room);
    if (call->compute == DTYPE_F32)
        f32_transposed(call, &c, grad, weight, room);
    else
        f64_transposed(call, &c, grad, weight, room);
}

/* in: gradient of the forward's result, input. */
void
cpu_conv2d_weight(const struct cpu_call *call)
{
    char       *room = call->workspace;
    struct conv c = conv_shape(call->sizes, call->in[1].size, call->out.size, call->in[0].size);
    const void *grad = pack_input(call, 0, &room), *x = pack_input(call, 1, &room);
    if (call->compute == DTYPE_F32)
        f32_weights(call, &c, grad, x, room);
    else
        f64_weights(call, &c, grad, x, room);
}
