/* MultiheadAttention and TransformerEncoderLayer. In PyTorch: torch/nn/modules/{activation,transformer}.py. */
#include <math.h>
#include <string.h>
#include "autograd/call.h"
#include "autograd/functional.h"
#include "base/str.h"
#include "nn/layer.h"
#include "sched/task.h"

/* Places in module->integers. */
enum { EMBED, HEADS, BATCH_FIRST, KEYS, VALUES };

/* ---- MultiheadAttention ---- */

static bool
truth(struct task *me, const struct module *self, const struct value *args, const struct value *kwargs, int index,
      const char *name, bool otherwise)
{
    struct value *value = forward_argument(me, self, args, kwargs, index, name, false);
    return value == NULL || value->kind == VALUE_NONE ? otherwise : value->kind != VALUE_BOOL || value->integer != 0;
}

static struct attention
attention_of(const struct module *self)
{
    const struct module *out = module_child(self, "out_proj");
    return (struct attention){
        .heads = self->integers[HEADS], .dropout = self->numbers[0], .training = self->training,
        .in_weight = module_parameter(self, "in_proj_weight"), .q_weight = module_parameter(self, "q_proj_weight"),
        .k_weight = module_parameter(self, "k_proj_weight"), .v_weight = module_parameter(self, "v_proj_weight"),
        .in_bias = module_parameter(self, "in_proj_bias"), .out_weight = module_parameter(out, "weight"),
        .out_bias = module_parameter(out, "bias"), .bias_k = module_parameter(self, "bias_k"),
        .bias_v = module_parameter(self, "bias_v"),
    };
}

/* The three as [T, N, E]; the same tensor stays the same. */
static bool
timed(struct task *me, const struct module *self, struct tensor **in, bool *single)
{
    struct tensor *given[3] = { in[0], in[1], in[2] };
    *single = given[0]->dims == 2;
    for (int i = 0; i < 3; i++) {
        for (int j = 0; j < i; j++)
            if (given[j] == given[i]) {
                in[i] = in[j];
                goto next;
            }
        if (given[i]->dims == 2)
            in[i] = tensor_unsqueeze(me, given[i], 1);
        else if (given[i]->dims == 3 && self->integers[BATCH_FIRST])
            in[i] = tensor_transpose(me, given[i], 0, 1);
    next:
        if (in[i] == NULL)
            return false;
    }
    return true;
}

static struct value *
attention_answer(struct task *me, const struct module *self, struct tensor *output, struct tensor *weights, bool single)
{
    if (single) {
        output  = tensor_squeeze(me, output, 1);
        weights = weights != NULL ? tensor_squeeze(me, weights, 0) : NULL;
    } else if (self->integers[BATCH_FIRST]) {
        output = tensor_transpose(me, output, 0, 1);
    }
    struct value *items[2] = { value_tensor(me, output), weights != NULL ? value_tensor(me, weights) : value_none(me) };
    if (items[0] == NULL || items[1] == NULL || task_failed(me))
        return NULL;
    return value_container(me, VALUE_TUPLE, 2, items, NULL, NULL);
}

/* query, key, value, key_padding_mask, need_weights, attn_mask, average_attn_weights */
static struct value *
attention_forward(struct task *me, struct module *self, struct value *args, struct value *kwargs)
{
    static const char *const names[3] = { "query", "key", "value" };
    struct attention         o = attention_of(self);
    struct tensor           *in[3], *weights = NULL;
    bool                     single = false;
    for (int i = 0; i < 3; i++) {
        if (!forward_tensor(me, self, args, kwargs, i, names[i], &in[i]))
            return NULL;
        if (in[i] == NULL)
            return failed_null(me, E_TYPE, "MultiheadAttention: forward() argument '%s' must be a tensor", names[i]);
    }
    if (!forward_tensor(me, self, args, kwargs, 3, "key_padding_mask", &o.padding) ||
        !forward_tensor(me, self, args, kwargs, 5, "attn_mask", &o.mask))
        return NULL;
    o.want_weights = truth(me, self, args, kwargs, 4, "need_weights", true);
    o.per_head     = !truth(me, self, args, kwargs, 6, "average_attn_weights", true);
    if (task_failed(me) || !timed(me, self, in, &single))
        return NULL;
    if (in[0]->dims != 3 || tensor_size(in[0], -1) != self->integers[EMBED])
        return failed_null(me, E_RUNTIME, "was expecting embedding dimension of %lld, but got %lld",
                           (long long)self->integers[EMBED], (long long)tensor_size(in[0], -1));
    if (single && o.padding != NULL && o.padding->dims == 1)
        o.padding = tensor_unsqueeze(me, o.padding, 0);
    struct tensor *output = attend(me, in[0], in[1], in[2], &o, &weights);
    return output != NULL ? attention_answer(me, self, output, weights, single) : NULL;
}

static const struct module_attribute attributes[] = {
    { "embed_dim", ATTRIBUTE_INTEGER, EMBED }, { "num_heads", ATTRIBUTE_INTEGER, HEADS },
    { "batch_first", ATTRIBUTE_FLAG, BATCH_FIRST }, { "dropout", ATTRIBUTE_NUMBER, 0 }, { NULL, ATTRIBUTE_INTEGER, 0 },
};
static const struct module_type attention_type = {
    "MultiheadAttention", attention_forward, module_plain_copy, module_plain_rewired, module_plain_drop,
    layer_describe_nothing, attributes,
};

/* Weights without numbers yet: PyTorch lists them before out_proj, but draws them after it. */
static bool
attention_parameters(struct task *me, struct module *module, bool bias, bool bias_kv, enum dtype dtype)
{
    int64_t wide = module->integers[EMBED], keys = module->integers[KEYS], values = module->integers[VALUES];
    bool    one = keys == wide && values == wide;
    const struct { const char *name; int dims; int64_t size[3]; bool there; } parts[] = {
        { "q_proj_weight", 2, { wide, wide, 0 }, !one },   { "k_proj_weight", 2, { wide, keys, 0 }, !one },
        { "v_proj_weight", 2, { wide, values, 0 }, !one }, { "in_proj_weight", 2, { 3 * wide, wide, 0 }, one },
        { "in_proj_bias", 1, { 3 * wide, 0, 0 }, bias },   { "bias_k", 3, { 1, 1, wide }, bias_kv },
        { "bias_v", 3, { 1, 1, wide }, bias_kv },
    };
    for (size_t i = 0; i < sizeof parts / sizeof *parts; i++) {
        bool ok = parts[i].there ? layer_parameter(me, module, parts[i].name, dtype, parts[i].dims, parts[i].size,
                                                   -1) != NULL
                                 : layer_no_parameter(me, module, parts[i].name);
        if (!ok)
            return false;
    }
    return true;
}

/* xavier_uniform_, xavier_normal_ by the tensor's own shape. */
static bool
draw_xavier(struct task *me, struct tensor *tensor, bool normal)
{
    if (tensor == NULL)
        return true;
    double area = 1;
    for (int d = 2; d < tensor->dims; d++)
        area *= (double)tensor->size[d];
    double fans = (double)tensor->size[0] * area + (double)tensor->size[1] * area, std = sqrt(2.0 / fans);
    if (normal)
        return tensor_normal(me, tensor, 0, std, default_generator(me));
    return tensor_uniform(me, tensor, -(sqrt(3.0) * std), sqrt(3.0) * std, default_generator(me));
}

static bool
attention_draw(struct task *me, struct module *module)
{
    static const char *const uniform[] = { "in_proj_weight", "q_proj_weight", "k_proj_weight", "v_proj_weight" };
    struct tensor *bias = module_parameter(module, "in_proj_bias");
    struct tensor *out_bias = module_parameter(module_child(module, "out_proj"), "bias");
    for (int i = 0; i < 4; i++)
        if (!draw_xavier(me, module_parameter(module, uniform[i]), false))
            return false;
    if (bias != NULL && (!tensor_fill(me, bias, 0) || !tensor_fill(me, out_bias, 0)))
        return false;
    return draw_xavier(me, module_parameter(module, "bias_k"), true) &&
           draw_xavier(me, module_parameter(module, "bias_v"), true);
}

struct heads { int64_t embed, heads, keys, values; bool bias, bias_kv, batch_first; double dropout; enum dtype dtype; };

static struct module *
attention(struct task *me, const struct heads *o)
{
    if (!layer_positive(me, "MultiheadAttention", "embed_dim", o->embed) ||
        !layer_positive(me, "MultiheadAttention", "num_heads", o->heads) ||
        !layer_positive(me, "MultiheadAttention", "kdim", o->keys) ||
        !layer_positive(me, "MultiheadAttention", "vdim", o->values))
        return NULL;
    if (o->embed % o->heads != 0)
        return failed_null(me, E_VALUE, "embed_dim must be divisible by num_heads");
    struct module *module = module_new(me, &attention_type);
    if (module == NULL)
        return NULL;
    module->integers[EMBED]       = o->embed;
    module->integers[HEADS]       = o->heads;
    module->integers[BATCH_FIRST] = o->batch_first;
    module->integers[KEYS]        = o->keys;
    module->integers[VALUES]      = o->values;
    module->numbers[0]            = o->dropout;
    if (!attention_parameters(me, module, o->bias, o->bias_kv, o->dtype))
        return NULL;
    struct layer_options linear = { .no_bias = !o->bias, .dtype = o->dtype };
    struct module       *out = nn_linear(me, o->embed, o->embed, &linear);
    return out != NULL && module_add_child(me, module, "out_proj", out) && attention_draw(me, module) ? module : NULL;
}

/* embed_dim, num_heads, dropout, bias, add_bias_kv, add_zero_attn, kdim, vdim, batch_first */
struct module *
make_attention(struct task *me, const struct arguments *a)
{
    if (a->at[5].integer[0])
        return failed_null(me, E_NOT_IMPLEMENTED, "MultiheadAttention: add_zero_attn is not implemented");
    int64_t embed = a->at[0].integer[0];
    return attention(me, &(struct heads){
        .embed = embed, .heads = a->at[1].integer[0], .dropout = a->at[2].number, .bias = a->at[3].integer[0],
        .bias_kv = a->at[4].integer[0], .keys = a->at[6].none ? embed : a->at[6].integer[0],
        .values = a->at[7].none ? embed : a->at[7].integer[0], .batch_first = a->at[8].integer[0], .dtype = a->dtype });
}

/* ---- TransformerEncoderLayer ---- */

enum { NORM_FIRST, BY_GELU };

static struct tensor *
through(struct task *me, const struct module *self, const char *child, struct tensor *x)
{
    return x != NULL ? module_forward_tensor(me, module_child(self, child), x) : NULL;
}

/* Attention of x to itself, dropped. `masks`: attn_mask, key_padding_mask, or NULL. */
static struct tensor *
attended(struct task *me, const struct module *self, struct tensor *x, struct tensor *const *masks)
{
    struct value *item = value_tensor(me, x), *none = value_none(me), *no = value_bool(me, false);
    if (item == NULL || none == NULL || no == NULL)
        return NULL;
    struct value *items[6] = { item, item, item, masks[1] != NULL ? value_tensor(me, masks[1]) : none, no,
                               masks[0] != NULL ? value_tensor(me, masks[0]) : none };
    struct value *args = value_container(me, VALUE_TUPLE, 6, items, NULL, NULL);
    struct value *result = args != NULL ? module_forward(me, module_child(self, "self_attn"), args, NULL) : NULL;
    return result != NULL ? through(me, self, "dropout1", result->items[0]->tensor) : NULL;
}

static struct tensor *
fed_forward(struct task *me, const struct module *self, struct tensor *x)
{
    struct tensor *inner = through(me, self, "linear1", x);
    inner = inner == NULL ? NULL : self->integers[BY_GELU] ? gelu(me, inner, false) : tensor_relu(me, inner);
    return through(me, self, "dropout2", through(me, self, "linear2", through(me, self, "dropout", inner)));
}

/* src, src_mask, src_key_padding_mask */
static struct value *
encoder_layer_forward(struct task *me, struct module *self, struct value *args, struct value *kwargs)
{
    struct tensor *x, *masks[2];
    if (forward_argument(me, self, args, kwargs, 0, "src", true) == NULL ||
        !forward_tensor(me, self, args, kwargs, 0, "src", &x) ||
        !forward_tensor(me, self, args, kwargs, 1, "src_mask", &masks[0]) ||
        !forward_tensor(me, self, args, kwargs, 2, "src_key_padding_mask", &masks[1]))
        return NULL;
    if (x == NULL)
        return failed_null(me, E_TYPE, "TransformerEncoderLayer: forward() argument 'src' must be a tensor");
    if (self->integers[NORM_FIRST]) {
        x = tensor_add(me, x, attended(me, self, through(me, self, "norm1", x), masks));
        x = tensor_add(me, x, fed_forward(me, self, through(me, self, "norm2", x)));
    } else {
        x = through(me, self, "norm1", tensor_add(me, x, attended(me, self, x, masks)));
        x = through(me, self, "norm2", tensor_add(me, x, fed_forward(me, self, x)));
    }
    return value_tensor(me, x);
}

static const struct module_type encoder_layer_type = {
    "TransformerEncoderLayer", encoder_layer_forward, module_plain_copy, module_plain_rewired, module_plain_drop,
    layer_describe_nothing, NULL,
};

static struct module *
norm_of(struct task *me, int64_t wide, double eps, enum dtype dtype)
{
    struct arguments a = { .dtype = dtype };
    a.at[0].count      = 1;
    a.at[0].integer[0] = wide;
    a.at[1].number     = eps;
    a.at[2].integer[0] = 1;
    return make_layer_norm(me, &a);
}

static struct module *
dropout_of(struct task *me, double p)
{
    struct arguments a = { .dtype = DTYPE_F32 };
    a.at[0].number = p;
    return make_dropout(me, &a);
}

/* d_model, nhead, dim_feedforward, dropout, activation, layer_norm_eps, batch_first, norm_first */
struct module *
make_encoder_layer(struct task *me, const struct arguments *a)
{
    int64_t              wide = a->at[0].integer[0], inner = a->at[2].integer[0];
    double               p = a->at[3].number, eps = a->at[5].number;
    struct layer_options linear = { .dtype = a->dtype };
    const char          *activation = a->at[4].text;
    if (strcmp(activation, "relu") != 0 && strcmp(activation, "gelu") != 0)
        return failed_null(me, E_RUNTIME, "activation should be relu/gelu, not %s", activation);
    struct module *module = module_new(me, &encoder_layer_type);
    if (module == NULL)
        return NULL;
    module->integers[NORM_FIRST] = a->at[7].integer[0];
    module->integers[BY_GELU]    = activation[0] == 'g';
    struct heads heads = { .embed = wide, .heads = a->at[1].integer[0], .keys = wide, .values = wide, .bias = true,
                           .batch_first = a->at[6].integer[0], .dropout = p, .dtype = a->dtype };
    bool ok = module_add_child(me, module, "self_attn", attention(me, &heads)) && !task_failed(me) &&
              module_add_child(me, module, "linear1", nn_linear(me, wide, inner, &linear)) && !task_failed(me) &&
              module_add_child(me, module, "dropout", dropout_of(me, p)) && !task_failed(me) &&
              module_add_child(me, module, "linear2", nn_linear(me, inner, wide, &linear)) && !task_failed(me) &&
              module_add_child(me, module, "norm1", norm_of(me, wide, eps, a->dtype)) && !task_failed(me) &&
              module_add_child(me, module, "norm2", norm_of(me, wide, eps, a->dtype)) && !task_failed(me) &&
              module_add_child(me, module, "dropout1", dropout_of(me, p)) && !task_failed(me) &&
              module_add_child(me, module, "dropout2", dropout_of(me, p));
    return ok && !task_failed(me) ? module : NULL;
}
