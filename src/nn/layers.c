/* The built-in modules. Parameters are drawn when a module is made, in PyTorch's order and with its bounds, so that
 * the same seed gives the same weights. In PyTorch: torch/nn/modules/{linear,sparse,activation,container,loss}.py and
 * torch/nn/init.py. */
#include "nn/layer.h"
#include <math.h>
#include <stdio.h>
#include <string.h>
#include "autograd/call.h"
#include "functional/functional.h"
#include "base/str.h"
#include "sched/task.h"
#include "tensor/tensor.h"

/* ---- arguments of a forward ---- */

static bool
too_many(struct task *me, const struct module *self, int takes, int given)
{
    return failed(me, E_TYPE, "%s: forward() takes %d positional argument%s but %d %s given", self->type->name, takes,
                  takes == 1 ? "" : "s", given, given == 1 ? "was" : "were");
}

static bool
keywords_known(struct task *me, const struct module *self, const struct value *kwargs, const char *const *names,
               int count)
{
    for (int i = 0; kwargs != NULL && i < kwargs->count; i++) {
        bool known = false;
        for (int j = 0; j < count; j++)
            known |= strcmp(kwargs->keys[i], names[j]) == 0;
        if (!known)
            return failed(me, E_TYPE, "%s: forward() got an unexpected keyword argument '%s'", self->type->name,
                          kwargs->keys[i]);
    }
    return true;
}

/* Argument `index`, positional or by its name. */
static struct value *
argument_named(struct task *me, const struct module *self, const struct value *args, const struct value *kwargs,
               int index, const char *name)
{
    for (int i = 0; kwargs != NULL && i < kwargs->count; i++) {
        if (strcmp(kwargs->keys[i], name) != 0)
            continue;
        if (index < args->count)
            return failed_null(me, E_TYPE, "%s: forward() got multiple values for argument '%s'", self->type->name,
                               name);
        return kwargs->items[i];
    }
    if (index >= args->count)
        return failed_null(me, E_TYPE, "%s: forward() missing a required positional argument: '%s'", self->type->name,
                           name);
    return args->items[index];
}

/* All arguments as tensors. */
static bool
tensors_of(struct task *me, const struct module *self, const struct value *args, const struct value *kwargs,
           const char *const *names, int count, struct tensor **out)
{
    if (args->count > count)
        return too_many(me, self, count, args->count);
    if (!keywords_known(me, self, kwargs, names, count))
        return false;
    for (int i = 0; i < count; i++) {
        struct value *value = argument_named(me, self, args, kwargs, i, names[i]);
        if (value == NULL)
            return false;
        if (value->kind != VALUE_TENSOR)
            return failed(me, E_TYPE, "%s: forward() argument '%s' must be a tensor", self->type->name, names[i]);
        out[i] = value->tensor;
    }
    return true;
}

static void
describe_no_options(const struct module *self, struct str *out)
{
    (void)self, (void)out;
}

static const char *const input_name[]  = { "input" };
static const char *const losses_name[] = { "input", "target" };

/* ---- parameters ---- */

/* A leaf that wants a gradient, registered under `name`; its elements are undefined as yet. */
static struct tensor *
parameter_new(struct task *me, struct module *module, const char *name, int dtype, int dims, const int64_t *sizes)
{
    struct tensor *tensor = tensor_empty(me, (enum dtype)dtype, DEVICE_CPU, dims, sizes);
    if (tensor == NULL)
        return NULL;
    tensor->requires_grad = true;
    tensor->is_parameter  = true;
    return module_add_parameter(me, module, name, tensor) ? tensor : NULL;
}

static bool
positive(struct task *me, const char *module, const char *what, int64_t size)
{
    return size > 0 || failed(me, E_VALUE, "%s: %s must be positive, got %lld", module, what, (long long)size);
}

/* ---- Linear ---- */

static struct value *
linear_forward(struct task *me, struct module *self, struct value *args, struct value *kwargs)
{
    struct tensor *input;
    if (!tensors_of(me, self, args, kwargs, input_name, 1, &input))
        return NULL;
    return value_tensor(me, linear(me, input, module_parameter(self, "weight"), module_parameter(self, "bias")));
}

static void
linear_describe(const struct module *self, struct str *out)
{
    str_addf(out, "in_features=%lld, out_features=%lld, bias=%s", (long long)self->integers[0],
             (long long)self->integers[1], self->integers[2] ? "True" : "False");
}

static const struct module_attribute linear_attributes[] = {
    { "in_features", ATTRIBUTE_INTEGER, 0 }, { "out_features", ATTRIBUTE_INTEGER, 1 }, { NULL, ATTRIBUTE_INTEGER, 0 },
};
static const struct module_attribute embedding_attributes[] = {
    { "num_embeddings", ATTRIBUTE_INTEGER, 0 }, { "embedding_dim", ATTRIBUTE_INTEGER, 1 },
    { "padding_idx", ATTRIBUTE_INTEGER, 2 },    { NULL, ATTRIBUTE_INTEGER, 0 },
};
static const struct module_type linear_type = {
    .name = "Linear", .forward = linear_forward, .copy = module_plain_copy, .rewired = module_plain_rewired,
    .drop = module_plain_drop, .describe = linear_describe, .attributes = linear_attributes,
};

struct module *
nn_linear(struct task *me, int64_t in_features, int64_t out_features, const struct layer_options *options)
{
    bool bias = options == NULL || !options->no_bias;
    int  dtype = options != NULL ? options->dtype : DTYPE_F32;
    if (!positive(me, "Linear", "in_features", in_features) || !positive(me, "Linear", "out_features", out_features))
        return NULL;
    struct module *module = module_new(me, &linear_type);
    if (module == NULL)
        return NULL;
    module->integers[0] = in_features;
    module->integers[1] = out_features;
    module->integers[2] = bias;
    int64_t        sizes[] = { out_features, in_features };
    struct tensor *weight  = parameter_new(me, module, "weight", dtype, 2, sizes);
    double         bound   = kaiming_bound(in_features);
    if (weight == NULL || !tensor_uniform(me, weight, -bound, bound, default_generator(me)))
        return NULL;
    if (!bias)
        return module_add_parameter(me, module, "bias", NULL) ? module : NULL;
    struct tensor *offset = parameter_new(me, module, "bias", dtype, 1, &out_features);
    bound = 1 / sqrt((double)in_features);
    return offset != NULL && tensor_uniform(me, offset, -bound, bound, default_generator(me)) ? module : NULL;
}

/* ---- Embedding ---- */

static struct value *
embedding_forward(struct task *me, struct module *self, struct value *args, struct value *kwargs)
{
    struct tensor *input;
    if (!tensors_of(me, self, args, kwargs, input_name, 1, &input))
        return NULL;
    struct embedding_options options = { .padding_idx = self->integers[2], .scale_grad_by_freq = self->integers[3],
                                         .sparse = self->integers[4], .max_norm = self->numbers[0],
                                         .norm_type = self->numbers[1] };
    return value_tensor(me, embedding_with(me, module_parameter(self, "weight"), input, &options));
}

static void
embedding_describe(const struct module *self, struct str *out)
{
    str_addf(out, "%lld, %lld", (long long)self->integers[0], (long long)self->integers[1]);
    if (self->integers[2] >= 0)
        str_addf(out, ", padding_idx=%lld", (long long)self->integers[2]);
}

static const struct module_type embedding_type = {
    .name = "Embedding", .forward = embedding_forward, .copy = module_plain_copy, .rewired = module_plain_rewired,
    .drop = module_plain_drop, .describe = embedding_describe, .attributes = embedding_attributes,
};

/* padding_idx may count from the end; -1 from here on means none. */
static bool
padding_of(struct task *me, int64_t rows, const struct layer_options *options, int64_t *padding)
{
    *padding = -1;
    if (options == NULL || !options->has_padding)
        return true;
    if (options->padding_idx >= rows || options->padding_idx < -rows)
        return failed(me, E_VALUE, "Embedding: padding_idx must be within num_embeddings (%lld), got %lld",
                      (long long)rows, (long long)options->padding_idx);
    *padding = options->padding_idx < 0 ? options->padding_idx + rows : options->padding_idx;
    return true;
}

/* All rows are drawn; the padding row is zeroed afterwards, its draws are used up. */
static bool
embedding_draw(struct task *me, struct tensor *weight, int64_t padding)
{
    if (weight == NULL || !tensor_normal(me, weight, 0, 1, default_generator(me)))
        return false;
    if (padding < 0)
        return true;
    const struct view_place place = { 1, &weight->size[1], &weight->stride[1], padding * weight->stride[0] };
    struct tensor          *row = tensor_view(me, weight, &place);
    return row != NULL && tensor_fill(me, row, 0);
}

struct module *
nn_embedding(struct task *me, int64_t rows, int64_t width, const struct layer_options *options)
{
    int64_t padding;
    int     dtype = options != NULL ? options->dtype : DTYPE_F32;
    if (!positive(me, "Embedding", "num_embeddings", rows) || !positive(me, "Embedding", "embedding_dim", width) ||
        !padding_of(me, rows, options, &padding))
        return NULL;
    struct module *module = module_new(me, &embedding_type);
    if (module == NULL)
        return NULL;
    module->integers[0] = rows;
    module->integers[1] = width;
    module->integers[2] = padding;
    if (options != NULL) {
        module->integers[3] = options->by_frequency;
        module->integers[4] = options->sparse;
        module->numbers[0]  = options->max_norm;
        module->numbers[1]  = options->norm_type;
    }
    struct tensor *weight = parameter_new(me, module, "weight", dtype, 2, (const int64_t[]){ rows, width });
    return embedding_draw(me, weight, padding) ? module : NULL;
}

/* ---- ReLU ---- */

static struct value *
relu_forward(struct task *me, struct module *self, struct value *args, struct value *kwargs)
{
    struct tensor *input;
    if (!tensors_of(me, self, args, kwargs, input_name, 1, &input))
        return NULL;
    if (!self->integers[LAYER_INPLACE])
        return value_tensor(me, tensor_relu(me, input));
    return value_tensor(me, tensor_relu_(me, input));
}

static void
relu_describe(const struct module *self, struct str *out)
{
    if (self->integers[LAYER_INPLACE])
        str_add(out, "inplace=True");
}

static const struct module_type relu_type = {
    .name = "ReLU", .forward = relu_forward, .copy = module_plain_copy, .rewired = module_plain_rewired,
    .drop = module_plain_drop, .describe = relu_describe,
};

struct module *
nn_relu(struct task *me)
{
    return module_new(me, &relu_type);
}

/* ---- Sequential ---- */

/* What one child gives is the only argument of the next. */
static struct value *
sequential_forward(struct task *me, struct module *self, struct value *args, struct value *kwargs)
{
    if (args->count > 1 || !keywords_known(me, self, kwargs, input_name, 1)) {
        too_many(me, self, 1, args->count);
        return NULL;
    }
    struct value *value = argument_named(me, self, args, kwargs, 0, "input");
    for (int i = 0; value != NULL && i < self->children.count; i++) {
        struct module *child = self->children.entries[i].module;
        struct value  *only  = value_container(me, VALUE_TUPLE, 1, &value, NULL, NULL);
        value = module_forward(me, child, only, NULL);
    }
    return value;
}

static const struct module_type sequential_type = {
    .name = "Sequential", .forward = sequential_forward, .copy = module_plain_copy, .rewired = module_plain_rewired,
    .drop = module_plain_drop, .describe = describe_no_options,
};

struct module *
nn_sequential(struct task *me, struct module *const *children, int count)
{
    struct module *module = module_new(me, &sequential_type);
    for (int i = 0; module != NULL && i < count; i++) {
        char name[16];
        snprintf(name, sizeof name, "%d", i);
        if (children[i] == NULL || !module_add_child(me, module, name, children[i]))
            return NULL;
    }
    return module;
}

/* ---- losses ---- */

static struct value *
mse_loss_forward(struct task *me, struct module *self, struct value *args, struct value *kwargs)
{
    struct tensor *both[2];
    if (!tensors_of(me, self, args, kwargs, losses_name, 2, both))
        return NULL;
    return value_tensor(me, mse_loss(me, both[0], both[1]));
}

static const struct module_type mse_loss_type = {
    .name = "MSELoss", .forward = mse_loss_forward, .copy = module_plain_copy, .rewired = module_plain_rewired,
    .drop = module_plain_drop, .describe = describe_no_options,
};

struct module *
nn_mse_loss(struct task *me)
{
    return module_new(me, &mse_loss_type);
}

static struct value *
cross_entropy_forward(struct task *me, struct module *self, struct value *args, struct value *kwargs)
{
    struct tensor *both[2];
    if (!tensors_of(me, self, args, kwargs, losses_name, 2, both))
        return NULL;
    return value_tensor(me, cross_entropy(me, both[0], both[1]));
}

static const struct module_type cross_entropy_type = {
    .name = "CrossEntropyLoss", .forward = cross_entropy_forward, .copy = module_plain_copy,
    .rewired = module_plain_rewired, .drop = module_plain_drop, .describe = describe_no_options,
};

struct module *
nn_cross_entropy_loss(struct task *me)
{
    return module_new(me, &cross_entropy_type);
}
