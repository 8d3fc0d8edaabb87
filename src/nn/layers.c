/* Linear, Embedding and Sequential. Parameters are drawn when a module is made, in PyTorch's order and with its
 * bounds, so that the same seed gives the same weights. In PyTorch: torch/nn/modules/{linear,sparse,container}.py and
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

/* ---- Linear ---- */

static struct tensor *
apply_linear(struct task *me, struct module *self, struct tensor *const *in)
{
    return linear(me, in[0], module_parameter(self, "weight"), module_parameter(self, "bias"));
}

static void
linear_describe(const struct module *self, struct str *out)
{
    str_addf(out, "in_features=%lld, out_features=%lld, bias=%s", (long long)self->integers[0],
             (long long)self->integers[1], self->integers[2] ? "True" : "False");
}

static const struct module_attribute linear_attributes[] = {
    { "in_features", ATTRIBUTE_INTEGER, 0 }, { "out_features", ATTRIBUTE_INTEGER, 1 }, { .name = NULL },
};
static const struct module_attribute embedding_attributes[] = {
    { "num_embeddings", ATTRIBUTE_INTEGER, 0 }, { "embedding_dim", ATTRIBUTE_INTEGER, 1 },
    { "padding_idx", ATTRIBUTE_INTEGER, 2 },    { .name = NULL },
};
static const struct layer_type linear_type = {
    { "Linear", layer_forward, &module_plain, linear_describe, linear_attributes }, 1, apply_linear,
};
/* The same under the name that PyTorch prints for an attention's. */
static const struct layer_type out_proj_type = {
    { "NonDynamicallyQuantizableLinear", layer_forward, &module_plain, linear_describe, linear_attributes }, 1,
    apply_linear,
};

/* PyTorch makes a layer without inputs or outputs, too. */
static bool
feature_count(struct task *me, const char *what, int64_t count)
{
    return count == 0 || layer_positive(me, "Linear", what, count);
}

struct module *
nn_linear(struct task *me, int64_t in_features, int64_t out_features, const struct layer_options *options)
{
    bool bias = options == NULL || !options->no_bias;
    enum dtype dtype = options != NULL ? (enum dtype)options->dtype : DTYPE_F32;
    if (!feature_count(me, "in_features", in_features) || !feature_count(me, "out_features", out_features))
        return NULL;
    bool           out_proj = options != NULL && options->out_proj;
    struct module *module = module_new(me, out_proj ? &out_proj_type.type : &linear_type.type);
    if (module == NULL)
        return NULL;
    module->integers[0] = in_features;
    module->integers[1] = out_features;
    module->integers[2] = bias;
    const struct layer_shape matrix = { dtype, 2, (const int64_t[]){ out_features, in_features } };
    double fan_in = (double)(in_features > 0 ? in_features : 1);
    if (layer_parameter(me, module, "weight", &matrix, kaiming_bound(fan_in)) == NULL)
        return NULL;
    if (!bias)
        return layer_no_parameter(me, module, "bias") ? module : NULL;
    const struct layer_shape row = { dtype, 1, &out_features };
    return layer_parameter(me, module, "bias", &row, in_features > 0 ? 1 / sqrt(fan_in) : 0) != NULL ? module : NULL;
}

/* ---- LazyLinear: a Linear from its first forward on ---- */

/* Drawn from U(-bound, bound), unless it has been loaded. */
static bool
draw_lazy(struct task *me, struct tensor *tensor, const struct layer_shape *shape, double bound)
{
    if (!tensor_uninitialized(tensor))
        return true;
    if (!tensor_materialize(me, tensor, shape->dims, shape->size))
        return false;
    tensor_announce_role(me, tensor, "parameter");
    return tensor_uniform(me, tensor, -bound, bound, default_generator(me));
}

static bool
draw_linear(struct task *me, struct module *self)
{
    int64_t in = self->integers[0], out = self->integers[1];
    double  fan_in = (double)(in > 0 ? in : 1);
    const struct layer_shape matrix = { 0, 2, (const int64_t[]){ out, in } }, row = { 0, 1, &out };
    return draw_lazy(me, module_parameter(self, "weight"), &matrix, kaiming_bound(fan_in)) &&
           draw_lazy(me, module_parameter(self, "bias"), &row, in > 0 ? 1 / sqrt(fan_in) : 0);
}

static struct value *
forward_lazy(struct task *me, struct module *self, struct value *args, struct value *kwargs)
{
    static const struct forward_names input = { 1, 1, { "input" } };
    struct tensor *in = NULL;
    if (!forward_tensors(me, &(struct forward_call){ self, args, kwargs }, &input, &in))
        return NULL;
    if (in->dims == 0)
        return failed_null(me, E_INDEX, "LazyLinear: an input without dimensions does not tell in_features");
    int64_t        features = tensor_size(in, -1);
    struct tensor *weight   = module_parameter(self, "weight");
    if (!tensor_uninitialized(weight) && tensor_size(weight, -1) != features)
        return failed_null(me, E_ASSERTION, "LazyLinear: the input has %lld features, the loaded weight takes %lld",
                           (long long)features, (long long)tensor_size(weight, -1));
    self->integers[0] = features;
    if (!draw_linear(me, self))
        return NULL;
    self->type = &linear_type.type;
    return layer_forward(me, self, args, kwargs);
}

static const struct layer_type lazy_linear_type = {
    { "LazyLinear", forward_lazy, &module_plain, linear_describe, linear_attributes }, 1, apply_linear,
};

struct module *
make_lazy_linear(struct task *me, const struct arguments *a)
{
    int64_t        out_features = a->at[0].integer[0];
    bool           bias = a->at[1].integer[0];
    struct module *module = NULL;
    if (feature_count(me, "out_features", out_features))
        module = module_new(me, &lazy_linear_type.type);
    if (module == NULL)
        return NULL;
    module->integers[1] = out_features;
    module->integers[2] = bias;
    if (!layer_uninitialized(me, module, "weight", a->dtype))
        return NULL;
    bool done = bias ? layer_uninitialized(me, module, "bias", a->dtype) : layer_no_parameter(me, module, "bias");
    return done ? module : NULL;
}

/* ---- Embedding ---- */

static struct tensor *
apply_embedding(struct task *me, struct module *self, struct tensor *const *in)
{
    struct embedding_options options = { .padding_idx = self->integers[2], .scale_grad_by_freq = self->integers[3],
                                         .sparse = self->integers[4], .max_norm = self->numbers[0],
                                         .norm_type = self->numbers[1] };
    return embedding_with(me, module_parameter(self, "weight"), in[0], &options);
}

static void
embedding_describe(const struct module *self, struct str *out)
{
    str_addf(out, "%lld, %lld", (long long)self->integers[0], (long long)self->integers[1]);
    if (self->integers[2] >= 0)
        str_addf(out, ", padding_idx=%lld", (long long)self->integers[2]);
    if (self->numbers[0] != 0)
        layer_add_number(out, ", max_norm=", self->numbers[0]);
    if (self->numbers[1] != 2)
        layer_add_number(out, ", norm_type=", self->numbers[1]);
    str_add(out, self->integers[3] ? ", scale_grad_by_freq=True" : "");
    str_add(out, self->integers[4] ? ", sparse=True" : "");
}

static const struct layer_type embedding_type = {
    { "Embedding", layer_forward, &module_plain, embedding_describe, embedding_attributes }, 1, apply_embedding,
};

bool
nn_makes_sparse_gradients(const struct module *module)
{
    return module->type == &embedding_type.type && module->integers[4] != 0;
}

/* padding_idx may count from the end; -1 from here on means none. */
static bool
padding_of(struct task *me, int64_t rows, const struct layer_options *options, int64_t *padding)
{
    *padding = -1;
    if (options == NULL || !options->has_padding)
        return true;
    if (options->padding_idx >= rows || options->padding_idx < -rows)
        return failed(me, E_ASSERTION, "Embedding: padding_idx must be within num_embeddings (%lld), got %lld",
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
    enum dtype dtype = options != NULL ? (enum dtype)options->dtype : DTYPE_F32;
    if (!layer_positive(me, "Embedding", "num_embeddings", rows) ||
        !layer_positive(me, "Embedding", "embedding_dim", width) || !padding_of(me, rows, options, &padding))
        return NULL;
    struct module *module = module_new(me, &embedding_type.type);
    if (module == NULL)
        return NULL;
    module->integers[0] = rows;
    module->integers[1] = width;
    module->integers[2] = padding;
    module->numbers[1]  = 2;
    if (options != NULL && options->norm_type != 0)
        module->numbers[1] = options->norm_type;
    if (options != NULL) {
        module->integers[3] = options->by_frequency;
        module->integers[4] = options->sparse;
        module->numbers[0]  = options->max_norm;
    }
    const struct layer_shape table = { dtype, 2, (const int64_t[]){ rows, width } };
    return embedding_draw(me, layer_parameter(me, module, "weight", &table, -1), padding) ? module : NULL;
}

/* ---- Sequential ---- */

/* What one child gives is the only argument of the next. */
static struct value *
sequential_forward(struct task *me, struct module *self, struct value *args, struct value *kwargs)
{
    const struct forward_call call = { self, args, kwargs };
    if (!forward_only(me, &call, &(const struct forward_names){ 1, 1, { "input" } }))
        return NULL;
    struct value *value = forward_argument(me, &call, 0, "input", true);
    for (int i = 0; value != NULL && i < self->children.count; i++) {
        struct module *child = self->children.entries[i].module;
        struct value  *only  = value_tuple(me, 1, &value);
        value = module_forward(me, child, only, NULL);
    }
    return value;
}

static const struct module_type sequential_type = {
    "Sequential", sequential_forward, &module_plain, layer_describe_nothing, NULL,
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
