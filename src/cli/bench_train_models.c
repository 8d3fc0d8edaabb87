/* The models of bench train_step, exactly those of its peer: layers, sizes, the order of draws, SGD's options.
 *
 * Interface: train_build. */
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include "autograd/call.h"
#include "functional/functional.h"
#include "base/rng.h"
#include "base/vec.h"
#include "cli/bench_train.h"
#include "nn/layers.h"
#include "optim/optimizer.h"
#include "sched/task.h"
#include "tensor/tensor.h"

static bool
is_kind(const struct train *train, const char *kind)
{
    return strncmp(train->name, kind, strlen(kind)) == 0;
}

static struct module *
layer(struct task *me, const char *name, int64_t a, int64_t b)
{
    const int64_t numbers[2] = { a, b };
    return nn_layer(me, name, numbers, b != 0 ? 2 : a != 0);
}

/* Ranks have one model and batches of their own. */
static void
begin_data(struct task *me, const struct train *train)
{
    if (train->data_seed != 0)
        generator_seed(default_generator(me), (uint64_t)train->data_seed);
}

static bool
draw_input(struct task *me, struct train *train, int dims, const int64_t *sizes)
{
    begin_data(me, train);
    train->input = tensor_empty(me, DTYPE_F32, DEVICE_CPU, dims, sizes);
    return train->input != NULL && tensor_normal(me, train->input, 0, 1, default_generator(me));
}

static bool
draw_classes(struct task *me, struct train *train, int64_t batch)
{
    train->target = tensor_empty(me, DTYPE_I64, DEVICE_CPU, 1, &batch);
    const struct whole_range classes = { 0, 10, false };
    return train->target != NULL && tensor_random(me, train->target, classes, default_generator(me));
}

static bool
build_embed(struct task *me, struct train *train)
{
    struct module *rows     = layer(me, "Embedding", 1000, 10);
    struct module *parts[2] = { rows, layer(me, "Linear", 10, 10) };
    int64_t        batch = atoll(train->name + strlen("embed"));
    train->model = nn_sequential(me, parts, countof(parts));
    train->input = tensor_empty(me, DTYPE_I64, DEVICE_CPU, 1, &batch);
    begin_data(me, train);
    return train->model != NULL && train->input != NULL &&
           tensor_random(me, train->input, (struct whole_range){ 0, 1000, false }, default_generator(me));
}

static bool
build_mlp(struct task *me, struct train *train)
{
    struct module *parts[5];
    bool           wide  = is_kind(train, "mlpwide");
    int64_t        batch = atoll(train->name + strlen(wide ? "mlpwide" : "mlp")), hidden = wide ? 2048 : 512;
    parts[0] = layer(me, "Linear", 784, hidden);
    parts[1] = layer(me, "ReLU", 0, 0);
    parts[2] = layer(me, "Linear", hidden, hidden);
    parts[3] = layer(me, "ReLU", 0, 0);
    parts[4] = layer(me, "Linear", hidden, 10);
    train->model = nn_sequential(me, parts, countof(parts));
    return train->model != NULL && draw_input(me, train, 2, (const int64_t[]){ batch, 784 }) &&
           draw_classes(me, train, batch);
}

/* 3 x 3, as large a plane comes out as goes in. */
static struct module *
convolution(struct task *me, int64_t in, int64_t out)
{
    return nn_layer(me, "Conv2d", (const int64_t[]){ in, out, 3, 1, 1 }, 5);
}

static bool
build_cnn(struct task *me, struct train *train)
{
    struct module *parts[8];
    int64_t        batch = atoll(train->name + strlen("cnn"));
    parts[0] = convolution(me, 1, 16);
    parts[1] = layer(me, "ReLU", 0, 0);
    parts[2] = layer(me, "MaxPool2d", 2, 0);
    parts[3] = convolution(me, 16, 32);
    parts[4] = layer(me, "ReLU", 0, 0);
    parts[5] = layer(me, "MaxPool2d", 2, 0);
    parts[6] = layer(me, "Flatten", 0, 0);
    parts[7] = layer(me, "Linear", 32 * 7 * 7, 10);
    train->model = nn_sequential(me, parts, countof(parts));
    return train->model != NULL && draw_input(me, train, 4, (const int64_t[]){ batch, 1, 28, 28 }) &&
           draw_classes(me, train, batch);
}

/* ---- a transformer's block: normalised first, causal, without dropout, in single operators ---- */

enum { TIMES = 64, WIDE = 128, HEADS = 4 };

static void
describe_no_options(const struct module *self, struct str *out)
{
    (void)self, (void)out;
}

static struct tensor *
forward_through(struct task *me, const struct module *self, const char *child, struct tensor *x)
{
    return module_forward_tensor(me, module_child(self, child), x);
}

static struct tensor *
attention(struct task *me, const struct module *self, struct tensor *x)
{
    int64_t        batch = tensor_size(x, 0), each = WIDE / HEADS;
    struct tensor *qkv = forward_through(me, self, "qkv", forward_through(me, self, "ln1", x)), *part[3];
    qkv = tensor_reshape(me, qkv, 5, (const int64_t[]){ batch, TIMES, 3, HEADS, each });
    qkv = tensor_permute(me, qkv, 5, (const int64_t[]){ 2, 0, 3, 1, 4 });
    if (!tensor_unbind(me, qkv, 0, part))
        return NULL;
    struct tensor *scores = tensor_matmul(me, part[0], tensor_transpose(me, part[1], -2, -1));
    scores = tensor_mul_number(me, scores, 1 / sqrt((double)each));
    scores = softmax(me, tensor_add(me, scores, self->buffers.entries[0].tensor), -1);
    struct tensor *mixed = tensor_transpose(me, tensor_matmul(me, scores, part[2]), 1, 2);
    return forward_through(me, self, "proj", tensor_reshape(me, mixed, 3, (const int64_t[]){ batch, TIMES, WIDE }));
}

static struct value *
block_forward(struct task *me, struct module *self, struct value *args, struct value *kwargs)
{
    (void)kwargs;
    struct tensor *x = args->items[0]->tensor;
    x = tensor_add(me, x, attention(me, self, x));
    struct tensor *wide = gelu(me, forward_through(me, self, "up", forward_through(me, self, "ln2", x)), false);
    return value_tensor(me, tensor_add(me, x, forward_through(me, self, "down", wide)));
}

static const struct module_type block_type = {
    .name = "Block", .forward = block_forward, .life = &module_plain, .describe = describe_no_options,
};

static bool
add(struct task *me, struct module *module, const char *name, struct module *child)
{
    return module != NULL && child != NULL && module_add_child(me, module, name, child);
}

/* Minus infinity above the diagonal. */
static bool
add_mask(struct task *me, struct module *block)
{
    struct tensor *mask = tensor_zeros(me, DTYPE_F32, DEVICE_CPU, 2, (const int64_t[]){ TIMES, TIMES });
    for (int64_t row = 0; row < TIMES - 1; row++) {
        struct tensor *later = tensor_narrow(me, tensor_select(me, mask, 0, row), 0, row + 1, TIMES - 1 - row);
        if (!tensor_fill(me, later, -INFINITY))
            return false;
    }
    return mask != NULL && module_add_buffer(me, block, "mask", mask);
}

static bool
build_block(struct task *me, struct train *train)
{
    struct module *block = train->model = module_new(me, &block_type);
    const int64_t  sizes[3] = { 8, TIMES, WIDE };
    train->target = tensor_empty(me, DTYPE_F32, DEVICE_CPU, 3, sizes);
    return train->target != NULL && add(me, block, "ln1", layer(me, "LayerNorm", WIDE, 0)) &&
           add(me, block, "ln2", layer(me, "LayerNorm", WIDE, 0)) &&
           add(me, block, "qkv", layer(me, "Linear", WIDE, 3 * WIDE)) &&
           add(me, block, "proj", layer(me, "Linear", WIDE, WIDE)) &&
           add(me, block, "up", layer(me, "Linear", WIDE, 4 * WIDE)) &&
           add(me, block, "down", layer(me, "Linear", 4 * WIDE, WIDE)) && add_mask(me, block) &&
           draw_input(me, train, 3, sizes) && tensor_normal(me, train->target, 0, 1, default_generator(me));
}

/* ---- an LSTM of which the last output counts ---- */

static struct value *
lstm_forward(struct task *me, struct module *self, struct value *args, struct value *kwargs)
{
    struct value *both = module_forward(me, module_child(self, "lstm"), args, kwargs);
    if (both == NULL)
        return NULL;
    return value_tensor(me, forward_through(me, self, "fc", tensor_select(me, both->items[0]->tensor, 0, -1)));
}

static const struct module_type lstm_type = {
    .name = "L", .forward = lstm_forward, .life = &module_plain, .describe = describe_no_options,
};

static bool
build_lstm(struct task *me, struct train *train)
{
    train->model = module_new(me, &lstm_type);
    return add(me, train->model, "lstm", layer(me, "LSTM", 128, 128)) &&
           add(me, train->model, "fc", layer(me, "Linear", 128, 10)) &&
           draw_input(me, train, 3, (const int64_t[]){ 32, 32, 128 }) && draw_classes(me, train, 32);
}

bool
train_build(struct task *me, struct train *train)
{
    struct named_tensors params = { 0 };
    bool                 embed = is_kind(train, "embed");
    struct sgd_options   sgd = { .lr = embed ? 1e-6 : 0.01, .momentum = embed ? 0 : 0.9 };
    generator_seed(default_generator(me), 0);
    bool ok = (embed ? build_embed : is_kind(train, "mlp") ? build_mlp : is_kind(train, "cnn") ? build_cnn
               : is_kind(train, "tfm") ? build_block : build_lstm)(me, train);
    ok = ok && module_named_parameters(me, train->model, &params);
    if (ok)
        train->optimizer = optim_sgd(me, params.tensors, params.count, &sgd);
    named_tensors_free(me, &params);
    return ok && train->optimizer != NULL;
}
