/* More activations, made from other functions: values and gradients are PyTorch's, also where their pieces meet. In
 * PyTorch: torch/nn/modules/activation.py. */
#include "autograd/call.h"
#include "base/number.h"
#include "functional/functional.h"
#include "nn/layer.h"
#include "sched/task.h"
#include "tensor/op.h"

/* One op with its numbers, in place if the layer is. */
static struct tensor *
bent(struct task *me, const struct module *self, enum op op, struct tensor *x, struct activation how)
{
    how.in_place = self->integers[LAYER_INPLACE];
    return activated(me, op, x, &how);
}

static struct tensor *
apply_hardtanh(struct task *me, struct module *self, struct tensor *const *in)
{
    return bent(me, self, OP_hardtanh, in[0], (struct activation){ self->numbers[0], self->numbers[1], false });
}

static struct tensor *
apply_relu6(struct task *me, struct module *self, struct tensor *const *in)
{
    return bent(me, self, OP_hardtanh, in[0], (struct activation){ 0, 6, false });
}

/* An elu with two numbers of its own. */
static struct tensor *
apply_selu(struct task *me, struct module *self, struct tensor *const *in)
{
    return bent(me, self, OP_elu, in[0], (struct activation){ 1.6732632423543772848170429916717,
                                                             1.0507009873554804934193349852946, false });
}

static struct tensor *
apply_celu(struct task *me, struct module *self, struct tensor *const *in)
{
    return bent(me, self, OP_celu, in[0], (struct activation){ self->numbers[0], 0, false });
}

static struct tensor *
apply_log_sigmoid(struct task *me, struct module *self, struct tensor *const *in)
{
    return bent(me, self, OP_log_sigmoid, in[0], (struct activation){ 0, 0, false });
}

static struct tensor *
apply_softsign(struct task *me, struct module *self, struct tensor *const *in)
{
    (void)self;
    return tensor_div(me, in[0], tensor_add_number(me, op_on(me, OP_abs, in[0], NULL, 0), 1));
}

static struct tensor *
apply_tanhshrink(struct task *me, struct module *self, struct tensor *const *in)
{
    (void)self;
    return tensor_sub(me, in[0], op_on(me, OP_tanh, in[0], NULL, 0));
}

static struct tensor *
apply_softshrink(struct task *me, struct module *self, struct tensor *const *in)
{
    return bent(me, self, OP_softshrink, in[0], (struct activation){ self->numbers[0], 0, false });
}

static struct tensor *
apply_hardshrink(struct task *me, struct module *self, struct tensor *const *in)
{
    return bent(me, self, OP_hardshrink, in[0], (struct activation){ self->numbers[0], 0, false });
}

static struct tensor *
apply_threshold(struct task *me, struct module *self, struct tensor *const *in)
{
    return bent(me, self, OP_threshold, in[0], (struct activation){ self->numbers[0], self->numbers[1], false });
}

static struct tensor *
apply_hardsigmoid(struct task *me, struct module *self, struct tensor *const *in)
{
    return bent(me, self, OP_hardsigmoid, in[0], (struct activation){ 0, 0, false });
}

static struct tensor *
apply_hardswish(struct task *me, struct module *self, struct tensor *const *in)
{
    return bent(me, self, OP_hardswish, in[0], (struct activation){ 0, 0, false });
}

static struct tensor *
apply_mish(struct task *me, struct module *self, struct tensor *const *in)
{
    return bent(me, self, OP_mish, in[0], (struct activation){ 0, 0, false });
}

static struct tensor *
apply_softmin(struct task *me, struct module *self, struct tensor *const *in)
{
    return softmax(me, tensor_neg(me, in[0]), int_of_int64(self->integers[0]));
}

static struct tensor *
apply_glu(struct task *me, struct module *self, struct tensor *const *in)
{
    const struct tensor *x = in[0];
    int                  dim = int_of_int64(self->integers[0]) + (self->integers[0] < 0 ? x->dims : 0);
    if (dim < 0 || dim >= x->dims || x->size[dim] % 2 != 0)
        return failed_null(me, E_RUNTIME, "Halving dimension must be even, but dimension %d is size %lld", dim,
                           (long long)(dim >= 0 && dim < x->dims ? x->size[dim] : 0));
    int64_t        half = x->size[dim] / 2;
    struct tensor *first = tensor_narrow(me, in[0], dim, 0, half), *second = tensor_narrow(me, in[0], dim, half, half);
    struct tensor *gate = second != NULL ? op_on(me, OP_sigmoid, second, NULL, 0) : NULL;
    return tensor_mul(me, first, gate);
}

static struct tensor *
apply_softmax2d(struct task *me, struct module *self, struct tensor *const *in)
{
    (void)self;
    if (in[0]->dims != 3 && in[0]->dims != 4)
        return failed_null(me, E_VALUE, "Softmax2d: expected input to be 3D or 4D, got %dD instead", in[0]->dims);
    return softmax(me, in[0], in[0]->dims - 3);
}

/* ---- what they show, and their types ---- */

static void
describe_lambd(const struct module *self, struct str *out)
{
    layer_add_number(out, "", self->numbers[0]);
}

static const struct module_attribute alpha_shown[] = { { "alpha", ATTRIBUTE_NUMBER, 0 }, { .name = NULL } };
static const struct module_attribute lambd_shown[] = { { "lambd", ATTRIBUTE_NUMBER, 0 }, { .name = NULL } };
static const struct module_attribute dim_shown[]   = { { "dim", ATTRIBUTE_INTEGER, 0 }, { .name = NULL } };
static const struct module_attribute hardtanh_shown[] = {
    { "min_val", ATTRIBUTE_NUMBER, 0 }, { "max_val", ATTRIBUTE_NUMBER, 1 }, { .name = NULL },
};
static const struct module_attribute threshold_shown[] = {
    { "threshold", ATTRIBUTE_NUMBER, 0 }, { "value", ATTRIBUTE_NUMBER, 1 }, { .name = NULL },
};

const struct layer_type piecewise_types[] = {
    { { "Hardtanh", layer_forward, &module_plain, layer_describe_attributes, hardtanh_shown }, 1, apply_hardtanh },
    { { "ReLU6", layer_forward, &module_plain, layer_describe_attributes, NULL }, 1, apply_relu6 },
    { { "SELU", layer_forward, &module_plain, layer_describe_attributes, NULL }, 1, apply_selu },
    { { "CELU", layer_forward, &module_plain, layer_describe_attributes, alpha_shown }, 1, apply_celu },
    { { "LogSigmoid", layer_forward, &module_plain, layer_describe_attributes, NULL }, 1, apply_log_sigmoid },
    { { "Softsign", layer_forward, &module_plain, layer_describe_attributes, NULL }, 1, apply_softsign },
    { { "Tanhshrink", layer_forward, &module_plain, layer_describe_attributes, NULL }, 1, apply_tanhshrink },
    { { "Softshrink", layer_forward, &module_plain, describe_lambd, lambd_shown }, 1, apply_softshrink },
    { { "Hardshrink", layer_forward, &module_plain, describe_lambd, lambd_shown }, 1, apply_hardshrink },
    { { "Threshold", layer_forward, &module_plain, layer_describe_attributes, threshold_shown }, 1, apply_threshold },
    { { "Hardsigmoid", layer_forward, &module_plain, layer_describe_attributes, NULL }, 1, apply_hardsigmoid },
    { { "Hardswish", layer_forward, &module_plain, layer_describe_attributes, NULL }, 1, apply_hardswish },
    { { "Mish", layer_forward, &module_plain, layer_describe_attributes, NULL }, 1, apply_mish },
    { { "Softmin", layer_forward, &module_plain, layer_describe_attributes, dim_shown }, 1, apply_softmin },
    { { "GLU", layer_forward, &module_plain, layer_describe_attributes, dim_shown }, 1, apply_glu },
    { { "Softmax2d", layer_forward, &module_plain, layer_describe_attributes, NULL }, 1, apply_softmax2d },
    { .type.name = NULL },
};
