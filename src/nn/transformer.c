/* TransformerEncoder, TransformerDecoder, their layers, and Transformer, as PyTorch computes them step by step (its
 * fast path for inference gives the same numbers in another order). In PyTorch: torch/nn/modules/transformer.py. */
#include <string.h>
#include "autograd/call.h"
#include "functional/functional.h"
#include "nn/attention.h"
#include "nn/container.h"
#include "sched/task.h"

/* Places in module->integers. */
enum { NORM_FIRST, BY_GELU };

static struct tensor *
through_child(struct task *me, const struct module *self, const char *child, struct tensor *x)
{
    return x != NULL ? module_forward_tensor(me, module_child(self, child), x) : NULL;
}

/* One of a layer's parts: its children (attention NULL: the feed-forward net), and what the attention looks at; masks
 * may be NULL. */
struct sublayer {
    const char    *norm, *attention, *dropout;
    struct tensor *memory /* NULL: x itself */, *mask, *padding;
};

/* Attention of x to itself or to the memory, dropped. */
static struct tensor *
attended(struct task *me, const struct module *self, struct tensor *x, const struct sublayer *look)
{
    struct value *query = x != NULL ? value_tensor(me, x) : NULL;
    struct value *key = look->memory != NULL ? value_tensor(me, look->memory) : query;
    struct value *none = value_none(me), *no = value_bool(me, false);
    if (query == NULL || key == NULL || none == NULL || no == NULL)
        return NULL;
    struct value *items[6] = { query, key, key, look->padding != NULL ? value_tensor(me, look->padding) : none, no,
                               look->mask != NULL ? value_tensor(me, look->mask) : none };
    struct value *args = value_tuple(me, 6, items);
    struct value *result = args != NULL ? module_forward(me, module_child(self, look->attention), args, NULL) : NULL;
    return result != NULL ? through_child(me, self, look->dropout, result->items[0]->tensor) : NULL;
}

static struct tensor *
fed_forward(struct task *me, const struct module *self, struct tensor *x, const char *last_dropout)
{
    struct tensor *inner = through_child(me, self, "linear1", x);
    inner = inner == NULL ? NULL : self->integers[BY_GELU] ? gelu(me, inner, false) : tensor_relu(me, inner);
    inner = through_child(me, self, "linear2", through_child(me, self, "dropout", inner));
    return through_child(me, self, last_dropout, inner);
}

/* x + part(x): normalised before the part, or the sum after it. */
static struct tensor *
residual(struct task *me, const struct module *self, struct tensor *x, const struct sublayer *s)
{
    bool           first = self->integers[NORM_FIRST];
    struct tensor *in = first ? through_child(me, self, s->norm, x) : x;
    struct tensor *part = s->attention != NULL ? attended(me, self, in, s) : fed_forward(me, self, in, s->dropout);
    struct tensor *sum = x != NULL && part != NULL ? tensor_add(me, x, part) : NULL;
    return first ? sum : through_child(me, self, s->norm, sum);
}

static struct value *
encoder_layer_forward(struct task *me, struct module *self, struct value *args, struct value *kwargs)
{
    static const struct forward_names names = { 3, 1, { "src", "src_mask", "src_key_padding_mask" } };
    struct tensor *in[3];
    if (!forward_tensors(me, &(struct forward_call){ self, args, kwargs }, &names, in))
        return NULL;
    const struct sublayer itself = { "norm1", "self_attn", "dropout1", NULL, in[1], in[2] };
    const struct sublayer fed = { .norm = "norm2", .dropout = "dropout2" };
    return value_tensor(me, residual(me, self, residual(me, self, in[0], &itself), &fed));
}

/* Of a decoder and of its layers. */
static const struct forward_names decoder_names = {
    6, 2, { "tgt", "memory", "tgt_mask", "memory_mask", "tgt_key_padding_mask", "memory_key_padding_mask" },
};

static struct value *
decoder_layer_forward(struct task *me, struct module *self, struct value *args, struct value *kwargs)
{
    struct tensor *in[6];
    if (!forward_tensors(me, &(struct forward_call){ self, args, kwargs }, &decoder_names, in))
        return NULL;
    const struct sublayer itself = { "norm1", "self_attn", "dropout1", NULL, in[2], in[4] };
    const struct sublayer memory = { "norm2", "multihead_attn", "dropout2", in[1], in[3], in[5] };
    const struct sublayer fed = { .norm = "norm3", .dropout = "dropout3" };
    struct tensor        *x = residual(me, self, residual(me, self, in[0], &itself), &memory);
    return value_tensor(me, residual(me, self, x, &fed));
}

static const struct module_type encoder_layer_type = {
    "TransformerEncoderLayer", encoder_layer_forward, &module_plain,
    layer_describe_nothing, NULL,
};
static const struct module_type decoder_layer_type = {
    "TransformerDecoderLayer", decoder_layer_forward, &module_plain,
    layer_describe_nothing, NULL,
};

/* ---- making layers ---- */

static struct module *
layer_norm_for(struct task *me, int64_t wide, double eps, enum dtype dtype)
{
    struct arguments a = { .dtype = dtype };
    a.at[0].count      = 1;
    a.at[0].integer[0] = wide;
    a.at[1].number     = eps;
    a.at[2].integer[0] = 1;
    a.at[3].integer[0] = 1;
    return make_layer_norm(me, &a);
}

static struct module *
dropout_of(struct task *me, double p)
{
    struct arguments a = { .dtype = DTYPE_F32 };
    a.at[0].number = p;
    return make_dropout(me, &a);
}

struct recipe { struct heads heads; int64_t inner; double eps; const char *activation; bool norm_first; };

static struct module *
recipe_part(struct task *me, const struct recipe *r, const char *name)
{
    struct layer_options linear = { .dtype = r->heads.dtype };
    if (strcmp(name, "linear1") == 0)
        return nn_linear(me, r->heads.embed, r->inner, &linear);
    if (strcmp(name, "linear2") == 0)
        return nn_linear(me, r->inner, r->heads.embed, &linear);
    if (strncmp(name, "norm", 4) == 0)
        return layer_norm_for(me, r->heads.embed, r->eps, r->heads.dtype);
    if (strncmp(name, "dropout", 7) == 0)
        return dropout_of(me, r->heads.dropout);
    return nn_attention(me, &r->heads);
}

/* Its parts in the order in which PyTorch makes, draws and lists them. */
static struct module *
layer_of(struct task *me, const struct recipe *r, bool decoder)
{
    static const char *const encoder_parts[] = { "self_attn", "linear1", "dropout", "linear2", "norm1", "norm2",
                                                 "dropout1", "dropout2", NULL };
    static const char *const decoder_parts[] = { "self_attn", "multihead_attn", "linear1", "dropout", "linear2",
                                                 "norm1", "norm2", "norm3", "dropout1", "dropout2", "dropout3", NULL };
    if (strcmp(r->activation, "relu") != 0 && strcmp(r->activation, "gelu") != 0)
        return failed_null(me, E_RUNTIME, "activation should be relu/gelu, not %s", r->activation);
    struct module *module = module_new(me, decoder ? &decoder_layer_type : &encoder_layer_type);
    if (module == NULL)
        return NULL;
    module->integers[NORM_FIRST] = r->norm_first;
    module->integers[BY_GELU]    = r->activation[0] == 'g';
    for (const char *const *name = decoder ? decoder_parts : encoder_parts; *name != NULL; name++) {
        struct module *part = recipe_part(me, r, *name);
        if (part == NULL || !module_add_child(me, module, *name, part))
            return NULL;
    }
    return module;
}

/* d_model, nhead, dim_feedforward, dropout, activation, layer_norm_eps, batch_first, norm_first */
static struct recipe
recipe_of(const struct arguments *a)
{
    int64_t wide = a->at[0].integer[0];
    return (struct recipe){
        .heads = { .embed = wide, .heads = a->at[1].integer[0], .keys = wide, .values = wide, .bias = true,
                   .batch_first = a->at[6].integer[0], .dropout = a->at[3].number, .dtype = a->dtype },
        .inner = a->at[2].integer[0], .eps = a->at[5].number, .activation = a->at[4].text,
        .norm_first = a->at[7].integer[0] };
}

struct module *
make_encoder_layer(struct task *me, const struct arguments *a)
{
    struct recipe r = recipe_of(a);
    return layer_of(me, &r, false);
}

struct module *
make_decoder_layer(struct task *me, const struct arguments *a)
{
    struct recipe r = recipe_of(a);
    return layer_of(me, &r, true);
}

/* ---- stacks of layers ---- */

/* One layer after the other; the masks, all that follows x, go to each. `given`: x and what goes with it. */
static struct value *
through_layers(struct task *me, struct module *self, struct tensor *const *given, int count)
{
    struct module *layers = module_child(self, "layers"), *norm = module_child(self, "norm");
    struct value  *items[6], *none = value_none(me), *x = value_tensor(me, given[0]);
    for (int i = 1; i < count && none != NULL; i++)
        items[i] = given[i] != NULL ? value_tensor(me, given[i]) : none;
    for (int i = 0; i < layers->children.count && x != NULL && !task_failed(me); i++) {
        items[0]           = x;
        struct value *args = value_tuple(me, count, items);
        x = args != NULL ? module_forward(me, layers->children.entries[i].module, args, NULL) : NULL;
    }
    if (x == NULL || task_failed(me) || norm == NULL)
        return task_failed(me) ? NULL : x;
    struct value *only = value_tuple(me, 1, &x);
    return only != NULL ? module_forward(me, norm, only, NULL) : NULL;
}

static struct value *
encoder_forward(struct task *me, struct module *self, struct value *args, struct value *kwargs)
{
    static const struct forward_names names = { 3, 1, { "src", "mask", "src_key_padding_mask" } };
    struct tensor *in[3];
    if (!forward_tensors(me, &(struct forward_call){ self, args, kwargs }, &names, in))
        return NULL;
    return through_layers(me, self, in, names.count);
}

static struct value *
decoder_forward(struct task *me, struct module *self, struct value *args, struct value *kwargs)
{
    struct tensor *in[6];
    if (!forward_tensors(me, &(struct forward_call){ self, args, kwargs }, &decoder_names, in))
        return NULL;
    return through_layers(me, self, in, decoder_names.count);
}

static const struct module_type encoder_type = {
    "TransformerEncoder", encoder_forward, &module_plain,
    layer_describe_nothing, NULL,
};
static const struct module_type decoder_type = {
    "TransformerDecoder", decoder_forward, &module_plain,
    layer_describe_nothing, NULL,
};

enum { MOST_LAYERS = 4096 };

static struct module *
stack_of(struct task *me, const struct module_type *type, struct module *layer, int64_t count, struct module *norm)
{
    struct module *stack = module_new(me, type), *layers = nn_module_list(me);
    if (stack == NULL || layers == NULL || layer == NULL)
        return NULL;
    if (count > MOST_LAYERS)
        return failed_null(me, E_VALUE, "%s: at most %d layers", type->name, MOST_LAYERS);
    for (int64_t i = 0; i < count; i++)
        if (!module_append(me, layers, module_clone(me, layer)))
            return NULL;
    if (!module_add_child(me, stack, "layers", layers))
        return NULL;
    return norm == NULL || module_add_child(me, stack, "norm", norm) ? stack : NULL;
}

struct module *
nn_transformer_encoder(struct task *me, struct module *layer, int64_t count, struct module *norm)
{
    return stack_of(me, &encoder_type, layer, count, norm);
}

struct module *
nn_transformer_decoder(struct task *me, struct module *layer, int64_t count, struct module *norm)
{
    return stack_of(me, &decoder_type, layer, count, norm);
}

/* ---- Transformer ---- */

static struct value *
call_stack(struct task *me, struct module *self, const char *child, struct tensor *const *given, int count)
{
    struct value *items[6], *none = value_none(me);
    for (int i = 0; i < count && none != NULL; i++)
        items[i] = given[i] != NULL ? value_tensor(me, given[i]) : none;
    struct value *args = task_failed(me) ? NULL : value_tuple(me, count, items);
    return args != NULL ? module_forward(me, module_child(self, child), args, NULL) : NULL;
}

static struct value *
transformer_forward(struct task *me, struct module *self, struct value *args, struct value *kwargs)
{
    static const struct forward_names names = { 8, 2, { "src", "tgt", "src_mask", "tgt_mask", "memory_mask",
        "src_key_padding_mask", "tgt_key_padding_mask", "memory_key_padding_mask" } };
    struct tensor *in[8];
    if (!forward_tensors(me, &(struct forward_call){ self, args, kwargs }, &names, in))
        return NULL;
    struct value *memory = call_stack(me, self, "encoder", (struct tensor *[]){ in[0], in[2], in[5] }, 3);
    if (memory == NULL)
        return NULL;
    return call_stack(me, self, "decoder",
                      (struct tensor *[]){ in[1], memory->tensor, in[3], in[4], in[6], in[7] }, 6);
}

static const struct module_type transformer_type = {
    "Transformer", transformer_forward, &module_plain,
    layer_describe_nothing, NULL,
};

/* Every parameter of more than one dimension is drawn anew. */
static bool
draw_again(struct task *me, struct module *module)
{
    struct named_tensors list = { 0 };
    bool                 ok = module_named_parameters(me, module, &list);
    for (int i = 0; ok && i < list.count; i++)
        ok = list.tensors[i]->dims < 2 || draw_xavier(me, list.tensors[i], false);
    named_tensors_free(me, &list);
    return ok;
}

/* d_model, nhead, num_encoder_layers, num_decoder_layers, dim_feedforward, dropout, activation, layer_norm_eps,
 * batch_first, norm_first */
struct module *
make_transformer(struct task *me, const struct arguments *a)
{
    struct arguments layer = { .dtype = a->dtype };
    layer.at[0] = a->at[0];
    layer.at[1] = a->at[1];
    memcpy(layer.at + 2, a->at + 4, 6 * sizeof *layer.at);
    struct recipe  r = recipe_of(&layer);
    struct module *module = module_new(me, &transformer_type);
    struct module *one = module != NULL ? layer_of(me, &r, false) : NULL;
    struct module *norm = one != NULL ? layer_norm_for(me, r.heads.embed, r.eps, a->dtype) : NULL;
    struct module *part = norm != NULL ? nn_transformer_encoder(me, one, a->at[2].integer[0], norm) : NULL;
    if (part == NULL || !module_add_child(me, module, "encoder", part))
        return NULL;
    one  = layer_of(me, &r, true);
    norm = one != NULL ? layer_norm_for(me, r.heads.embed, r.eps, a->dtype) : NULL;
    part = norm != NULL ? nn_transformer_decoder(me, one, a->at[3].integer[0], norm) : NULL;
    return part != NULL && module_add_child(me, module, "decoder", part) && draw_again(me, module) ? module : NULL;
}
