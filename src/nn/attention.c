/* MultiheadAttention. In PyTorch: torch/nn/modules/activation.py. */
#include "nn/attention.h"
#include <math.h>
#include "autograd/call.h"
#include "functional/functional.h"
#include "base/str.h"
#include "nn/layer.h"
#include "sched/task.h"

/* Places in module->integers. */
enum { EMBED, HEADS, BATCH_FIRST, KEYS, VALUES, ZERO };

/* ---- MultiheadAttention ---- */

static bool
truth(struct task *me, const struct forward_call *call, int index, const char *name, bool otherwise)
{
    struct value *value = forward_argument(me, call, index, name, false);
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
        .bias_v = module_parameter(self, "bias_v"), .zero = self->integers[ZERO],
    };
}

/* The three as [T, N, E]; the same tensor stays the same, unless it gets its dimension of samples only now. */
static bool
timed(struct task *me, const struct module *self, struct tensor **in, bool *single)
{
    struct tensor *given[3] = { in[0], in[1], in[2] };
    *single = given[0]->dims == 2;
    for (int i = 0; i < 3; i++) {
        for (int j = 0; j < i && !*single; j++)
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

static int64_t
width_of(const struct module *self, const char *name)
{
    const struct tensor *weight = module_parameter(self, name);
    return weight != NULL ? weight->size[1] : self->integers[EMBED];
}

static bool
dims_fit(struct task *me, struct tensor *const *in)
{
    int q = in[0]->dims, k = in[1]->dims, v = in[2]->dims;
    if (q != 2 && q != 3)
        return failed(me, E_ASSERTION, "query should be unbatched 2D or batched 3D tensor but received %d-D query "
                      "tensor", q);
    return (k == q && v == q) ||
           failed(me, E_ASSERTION, "For %s (%d-D) `query`, expected `key` and `value` to be %d-D but found %d-D and "
                  "%d-D tensors respectively", q == 2 ? "unbatched" : "batched", q, q, k, v);
}

/* PyTorch asserts it, but where a product of matrices is the first to find it. */
static bool
widths_fit(struct task *me, const struct module *self, const struct tensor *key, const struct tensor *value)
{
    const int64_t is[2] = { tensor_size(key, -1), tensor_size(value, -1) };
    const int64_t wanted[2] = { width_of(self, "k_proj_weight"), width_of(self, "v_proj_weight") };
    const bool    product = is[0] == is[1] && module_parameter(self, "in_proj_weight") != NULL;
    for (int i = 0; i < 2; i++)
        if (is[i] != wanted[i])
            return failed(me, product ? E_SHAPE : E_ASSERTION, "%s was expecting embedding dimension of %lld, but got "
                          "%lld", i == 0 ? "key" : "value", (long long)wanted[i], (long long)is[i]);
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
    return value_tuple(me, 2, items);
}

/* query, key, value, key_padding_mask, need_weights, attn_mask, average_attn_weights */
static struct value *
attention_forward(struct task *me, struct module *self, struct value *args, struct value *kwargs)
{
    static const char *const names[3] = { "query", "key", "value" };
    const struct forward_call call = { self, args, kwargs };
    struct attention         o = attention_of(self);
    struct tensor           *in[3], *weights = NULL;
    bool                     single = false;
    for (int i = 0; i < 3; i++) {
        if (!forward_tensor(me, &call, i, names[i], &in[i]))
            return NULL;
        if (in[i] == NULL)
            return failed_null(me, E_TYPE, "MultiheadAttention: forward() argument '%s' must be a tensor", names[i]);
    }
    if (!forward_tensor(me, &call, 3, "key_padding_mask", &o.padding) ||
        !forward_tensor(me, &call, 5, "attn_mask", &o.mask))
        return NULL;
    o.want_weights = truth(me, &call, 4, "need_weights", true);
    o.per_head     = !truth(me, &call, 6, "average_attn_weights", true);
    if (task_failed(me) || !dims_fit(me, in) || !timed(me, self, in, &single))
        return NULL;
    if (tensor_size(in[0], -1) != self->integers[EMBED])
        return failed_null(me, E_ASSERTION, "query was expecting embedding dimension of %lld, but got %lld",
                           (long long)self->integers[EMBED], (long long)tensor_size(in[0], -1));
    if (!widths_fit(me, self, in[1], in[2]))
        return NULL;
    if (single && o.padding != NULL && o.padding->dims == 1)
        o.padding = tensor_unsqueeze(me, o.padding, 0);
    struct tensor *output = attend(me, in, &o, &weights);
    return output != NULL ? attention_answer(me, self, output, weights, single) : NULL;
}

static const struct module_attribute attributes[] = {
    { "embed_dim", ATTRIBUTE_INTEGER, EMBED }, { "num_heads", ATTRIBUTE_INTEGER, HEADS },
    { "batch_first", ATTRIBUTE_FLAG, BATCH_FIRST }, { "dropout", ATTRIBUTE_NUMBER, 0 }, { .name = NULL },
};
static const struct module_type attention_type = {
    "MultiheadAttention", attention_forward, &module_plain,
    layer_describe_nothing, attributes,
};

/* Weights without numbers yet: PyTorch lists them before out_proj, but draws them after it. */
static bool
attention_parameters(struct task *me, struct module *module, const struct heads *o)
{
    int64_t wide = o->embed, keys = o->keys, values = o->values;
    bool    one = keys == wide && values == wide;
    const struct { const char *name; int dims; int64_t size[3]; bool there; } parts[] = {
        { "q_proj_weight", 2, { wide, wide, 0 }, !one },   { "k_proj_weight", 2, { wide, keys, 0 }, !one },
        { "v_proj_weight", 2, { wide, values, 0 }, !one }, { "in_proj_weight", 2, { 3 * wide, wide, 0 }, one },
        { "in_proj_bias", 1, { 3 * wide, 0, 0 }, o->bias }, { "bias_k", 3, { 1, 1, wide }, o->bias_kv },
        { "bias_v", 3, { 1, 1, wide }, o->bias_kv },
    };
    for (size_t i = 0; i < sizeof parts / sizeof *parts; i++) {
        const struct layer_shape shape = { o->dtype, parts[i].dims, parts[i].size };
        bool ok = parts[i].there ? layer_parameter(me, module, parts[i].name, &shape, -1) != NULL
                                 : layer_no_parameter(me, module, parts[i].name);
        if (!ok)
            return false;
    }
    return true;
}

bool
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

struct module *
nn_attention(struct task *me, const struct heads *o)
{
    if (!layer_positive(me, "MultiheadAttention", "embed_dim", o->embed) ||
        !layer_positive(me, "MultiheadAttention", "num_heads", o->heads) ||
        !layer_positive(me, "MultiheadAttention", "kdim", o->keys) ||
        !layer_positive(me, "MultiheadAttention", "vdim", o->values))
        return NULL;
    if (o->embed % o->heads != 0)
        return failed_null(me, E_ASSERTION, "embed_dim must be divisible by num_heads, got %lld and %lld",
                           (long long)o->embed, (long long)o->heads);
    struct module *module = module_new(me, &attention_type);
    if (module == NULL)
        return NULL;
    module->integers[EMBED]       = o->embed;
    module->integers[HEADS]       = o->heads;
    module->integers[BATCH_FIRST] = o->batch_first;
    module->integers[KEYS]        = o->keys;
    module->integers[VALUES]      = o->values;
    module->integers[ZERO]        = o->zero;
    module->numbers[0]            = o->dropout;
    if (!attention_parameters(me, module, o))
        return NULL;
    struct layer_options linear = { .no_bias = !o->bias, .dtype = o->dtype, .out_proj = true };
    struct module       *out = nn_linear(me, o->embed, o->embed, &linear);
    return out != NULL && module_add_child(me, module, "out_proj", out) && attention_draw(me, module) ? module : NULL;
}

/* embed_dim, num_heads, dropout, bias, add_bias_kv, add_zero_attn, kdim, vdim, batch_first */
struct module *
make_attention(struct task *me, const struct arguments *a)
{
    int64_t embed = a->at[0].integer[0];
    return nn_attention(me, &(struct heads){
        .embed = embed, .heads = a->at[1].integer[0], .dropout = a->at[2].number, .bias = a->at[3].integer[0],
        .bias_kv = a->at[4].integer[0], .zero = a->at[5].integer[0],
        .keys = a->at[6].none ? embed : a->at[6].integer[0],
        .values = a->at[7].none ? embed : a->at[7].integer[0], .batch_first = a->at[8].integer[0], .dtype = a->dtype });
}
