/* Layers without a state: activations, dropout, shapes. In PyTorch:
 * torch/nn/modules/{activation,dropout,flatten}.py. */
#include "autograd/call.h"
#include "functional/functional.h"
#include "base/number.h"
#include "base/str.h"
#include "nn/layer.h"
#include "sched/task.h"
#include "tensor/op.h"

/* ---- what they do ---- */

static struct tensor *
apply_identity(struct task *me, struct module *self, struct tensor *const *in)
{
    (void)me, (void)self;
    return in[0];
}

static struct tensor *
apply_relu(struct task *me, struct module *self, struct tensor *const *in)
{
    return self->integers[LAYER_INPLACE] ? tensor_relu_(me, in[0]) : tensor_relu(me, in[0]);
}

static struct tensor *
apply_tanh(struct task *me, struct module *self, struct tensor *const *in)
{
    (void)self;
    return op_on(me, OP_tanh, in[0], NULL, 0);
}

static struct tensor *
apply_sigmoid(struct task *me, struct module *self, struct tensor *const *in)
{
    (void)self;
    return op_on(me, OP_sigmoid, in[0], NULL, 0);
}

static struct tensor *
apply_gelu(struct task *me, struct module *self, struct tensor *const *in)
{
    return gelu(me, in[0], self->integers[0]);
}

static struct tensor *
apply_silu(struct task *me, struct module *self, struct tensor *const *in)
{
    return activated(me, OP_silu, in[0], &(struct activation){ .in_place = self->integers[LAYER_INPLACE] });
}

static struct tensor *
apply_softmax(struct task *me, struct module *self, struct tensor *const *in)
{
    return softmax(me, in[0], int_of_int64(self->integers[0]));
}

static struct tensor *
apply_log_softmax(struct task *me, struct module *self, struct tensor *const *in)
{
    return log_softmax(me, in[0], int_of_int64(self->integers[0]));
}

static struct tensor *
apply_leaky_relu(struct task *me, struct module *self, struct tensor *const *in)
{
    return activated(me, OP_leaky_relu, in[0],
                     &(struct activation){ .a = self->numbers[0], .in_place = self->integers[LAYER_INPLACE] });
}

static struct tensor *
apply_elu(struct task *me, struct module *self, struct tensor *const *in)
{
    return activated(me, OP_elu, in[0],
                     &(struct activation){ .a = self->numbers[0], .b = 1, .in_place = self->integers[LAYER_INPLACE] });
}

static struct tensor *
apply_softplus(struct task *me, struct module *self, struct tensor *const *in)
{
    return softplus(me, in[0], self->numbers[0], self->numbers[1]);
}

static struct tensor *
apply_prelu(struct task *me, struct module *self, struct tensor *const *in)
{
    return prelu(me, in[0], module_parameter(self, "weight"));
}

/* In place only where something is dropped: on a copy of x, which goes into x. */
static struct tensor *
apply_dropout(struct task *me, struct module *self, struct tensor *const *in)
{
    bool           inplace = self->training && self->integers[LAYER_INPLACE];
    struct tensor *x = inplace ? tensor_copied(me, in[0]) : in[0];
    struct tensor *result = dropout(me, x, self->numbers[0], (enum dropout_kind)self->integers[0], self->training);
    return inplace && result != NULL ? tensor_copy_(me, in[0], result) : result;
}

/* Dimensions from start to end become one. */
static struct tensor *
apply_flatten(struct task *me, struct module *self, struct tensor *const *in)
{
    const struct tensor *x = in[0];
    int64_t              from = self->integers[0], to = self->integers[1], sizes[TENSOR_DIMS + 1], run = 1;
    int                  dims = x->dims > 0 ? x->dims : 1, at = 0;
    from += from < 0 ? dims : 0;
    to += to < 0 ? dims : 0;
    if (from < 0 || to >= dims || from > to)
        return failed_null(me, E_INDEX, "Flatten: dimensions %lld to %lld of a tensor of %d dimensions",
                           (long long)self->integers[0], (long long)self->integers[1], x->dims);
    for (int d = 0; d < x->dims; d++) {
        run = d > from && d <= to ? run * x->size[d] : x->size[d];
        if (d <= from || d > to)
            at++;
        sizes[at - 1] = run;
    }
    if (x->dims == 0)
        sizes[at++] = 1;
    return tensor_reshape(me, in[0], at, sizes);
}

static struct tensor *
apply_unflatten(struct task *me, struct module *self, struct tensor *const *in)
{
    const struct tensor *x = in[0];
    int64_t              dim = self->integers[0], count = self->integers[1], sizes[2 * TENSOR_DIMS];
    int                  at = 0;
    dim += dim < 0 ? x->dims : 0;
    if (dim < 0 || dim >= x->dims || x->dims - 1 + count > TENSOR_DIMS)
        return failed_null(me, E_INDEX, "Unflatten: dimension %lld of a tensor of %d dimensions",
                           (long long)self->integers[0], x->dims);
    for (int d = 0; d < x->dims; d++) {
        for (int64_t i = 0; d == dim && i < count; i++)
            sizes[at++] = self->integers[2 + i];
        if (d != dim)
            sizes[at++] = x->size[d];
    }
    return tensor_reshape(me, in[0], at, sizes);
}

/* ---- what they show ---- */

static void
describe_dim(const struct module *self, struct str *out)
{
    str_addf(out, "dim=%lld", (long long)self->integers[0]);
}

static void
describe_unflatten(const struct module *self, struct str *out)
{
    describe_dim(self, out);
    str_add(out, ", unflattened_size=(");
    for (int64_t i = 0; i < self->integers[1]; i++)
        str_addf(out, "%s%lld", i > 0 ? ", " : "", (long long)self->integers[2 + i]);
    str_add(out, self->integers[1] == 1 ? ",)" : ")");
}

static void
describe_slope(const struct module *self, struct str *out)
{
    str_addf(out, "negative_slope=%g%s", self->numbers[0], self->integers[LAYER_INPLACE] ? ", inplace=True" : "");
}

static void
describe_alpha(const struct module *self, struct str *out)
{
    str_addf(out, "alpha=%.1f%s", self->numbers[0], self->integers[LAYER_INPLACE] ? ", inplace=True" : "");
}

static void
describe_softplus(const struct module *self, struct str *out)
{
    layer_add_number(out, "beta=", self->numbers[0]);
    layer_add_number(out, ", threshold=", self->numbers[1]);
}

static void
describe_gelu(const struct module *self, struct str *out)
{
    str_addf(out, "approximate='%s'", self->integers[0] ? "tanh" : "none");
}

static void
describe_dropout(const struct module *self, struct str *out)
{
    str_addf(out, "p=%g, inplace=%s", self->numbers[0], self->integers[LAYER_INPLACE] ? "True" : "False");
}

static void
describe_prelu(const struct module *self, struct str *out)
{
    str_addf(out, "num_parameters=%lld", (long long)self->integers[0]);
}

static void
describe_flatten(const struct module *self, struct str *out)
{
    str_addf(out, "start_dim=%lld, end_dim=%lld", (long long)self->integers[0], (long long)self->integers[1]);
}

/* ---- their types: those that keep their settings as given, and those with a maker ---- */

const struct layer_type activation_types[] = {
    { { "Identity", layer_forward, &module_plain, layer_describe_nothing, NULL }, 1, apply_identity },
    { { "Tanh", layer_forward, &module_plain, layer_describe_nothing, NULL }, 1, apply_tanh },
    { { "Sigmoid", layer_forward, &module_plain, layer_describe_nothing, NULL }, 1, apply_sigmoid },
    { { "SiLU", layer_forward, &module_plain, layer_describe_attributes, NULL }, 1, apply_silu },
    { { "Softmax", layer_forward, &module_plain, describe_dim, NULL }, 1, apply_softmax },
    { { "LogSoftmax", layer_forward, &module_plain, describe_dim, NULL }, 1, apply_log_softmax },
    { { "LeakyReLU", layer_forward, &module_plain, describe_slope, NULL }, 1, apply_leaky_relu },
    { { "ELU", layer_forward, &module_plain, describe_alpha, NULL }, 1, apply_elu },
    { { "Softplus", layer_forward, &module_plain, describe_softplus, NULL }, 1, apply_softplus },
    { { "Flatten", layer_forward, &module_plain, describe_flatten, NULL }, 1, apply_flatten },
    { { "Unflatten", layer_forward, &module_plain, describe_unflatten, NULL }, 1, apply_unflatten },
    { .type.name = NULL },
};

enum made { RELU, GELU, PRELU, DROPOUT, DROPOUT2D, ALPHA_DROPOUT };
static const struct layer_type made_types[] = {
    [RELU]          = { { "ReLU", layer_forward, &module_plain, layer_describe_attributes, NULL }, 1, apply_relu },
    [GELU]          = { { "GELU", layer_forward, &module_plain, describe_gelu, NULL }, 1, apply_gelu },
    [PRELU]         = { { "PReLU", layer_forward, &module_plain, describe_prelu, NULL }, 1, apply_prelu },
    [DROPOUT]       = { { "Dropout", layer_forward, &module_plain, describe_dropout, NULL }, 1, apply_dropout },
    [DROPOUT2D]     = { { "Dropout2d", layer_forward, &module_plain, describe_dropout, NULL }, 1, apply_dropout },
    [ALPHA_DROPOUT] = { { "AlphaDropout", layer_forward, &module_plain, describe_dropout, NULL }, 1, apply_dropout },
};

/* ---- makers ---- */

static struct module *
made(struct task *me, enum made which, int64_t integer, double number)
{
    struct module *module = module_new(me, &made_types[which].type);
    if (module != NULL) {
        module->integers[0] = integer;
        module->numbers[0]  = number;
    }
    return module;
}

static struct module *
with_inplace(struct module *module, const struct argument *inplace)
{
    if (module != NULL)
        module->integers[LAYER_INPLACE] = inplace->integer[0];
    return module;
}

struct module *
nn_relu(struct task *me)
{
    return made(me, RELU, 0, 0);
}

struct module *
make_relu(struct task *me, const struct arguments *a)
{
    return with_inplace(nn_relu(me), &a->at[0]);
}

struct module *
make_gelu(struct task *me, const struct arguments *a)
{
    return made(me, GELU, a->at[0].text[0] == 't', 0);
}

struct module *
make_prelu(struct task *me, const struct arguments *a)
{
    int64_t count = a->at[0].integer[0];
    if (!layer_positive(me, "PReLU", "num_parameters", count))
        return NULL;
    struct module *module = made(me, PRELU, count, 0);
    const struct layer_shape slopes = { a->dtype, 1, &count };
    return module != NULL && layer_constant(me, module, "weight", &slopes, a->at[1].number) ? module : NULL;
}

static struct module *
dropping(struct task *me, const struct arguments *a, enum made which, enum dropout_kind kind)
{
    double p = a->at[0].number;
    if (!(p >= 0 && p <= 1))
        return failed_null(me, E_VALUE, "dropout probability has to be between 0 and 1, but got %g", p);
    return with_inplace(made(me, which, kind, p), &a->at[1]);
}

struct module *
make_dropout(struct task *me, const struct arguments *a)
{
    return dropping(me, a, DROPOUT, DROP_ELEMENTS);
}

struct module *
make_dropout2d(struct task *me, const struct arguments *a)
{
    return dropping(me, a, DROPOUT2D, DROP_CHANNELS);
}

struct module *
make_alpha_dropout(struct task *me, const struct arguments *a)
{
    return dropping(me, a, ALPHA_DROPOUT, DROP_ALPHA);
}
