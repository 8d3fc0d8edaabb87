/* Convolutions and pooling. In PyTorch: torch/nn/modules/{conv,pooling}.py. */
#include <math.h>
#include <string.h>
#include "functional/functional.h"
#include "base/str.h"
#include "nn/layer.h"
#include "sched/task.h"

/* Places in module->integers. */
enum { INS, OUTS, KERNEL, STRIDE = 4, PADDING = 6, DILATION = 8, GROUPS = 10, BIAS, EXTRA, MODE = 14, PADDED };
/* integers[PADDED]: by numbers, or by one of two words. */
enum { PADDED_BY_NUMBERS, PADDED_SAME, PADDED_VALID };

static struct conv_options
conv_options_of(const struct module *self)
{
    const int64_t      *n = self->integers;
    struct conv_options options = { .groups = n[GROUPS], .output_padding = { n[EXTRA], n[EXTRA + 1] } };
    memcpy(options.stride, n + STRIDE, sizeof options.stride);
    memcpy(options.padding, n + PADDING, sizeof options.padding);
    memcpy(options.dilation, n + DILATION, sizeof options.dilation);
    return options;
}

/* What the convolution cannot pad by itself is put around x, the last dimension first: other things than zeros, and
 * where padding = "same" wants one more behind than before. `sides`: 1 or 2. */
static struct tensor *
conv_padded(struct task *me, const struct module *self, struct tensor *x, int sides, struct conv_options *options)
{
    const int64_t *n = self->integers;
    if (x == NULL || x->dims < sides + 1)
        return x;
    for (int side = 1; side > 1 - sides; side--) {
        int64_t wanted = n[PADDED] == PADDED_SAME ? n[DILATION + side] * (n[KERNEL + side] - 1) : 2 * n[PADDING + side];
        int64_t before = wanted / 2, behind = wanted - before;
        if (n[MODE] == PAD_CONSTANT && before == behind) {
            options->padding[side] = before;
            continue;
        }
        x = pad_along(me, x, x->dims - 2 + side, &(struct padding){ before, behind, (enum pad_mode)n[MODE], 0 });
        options->padding[side] = 0;
        if (x == NULL)
            return NULL;
    }
    return x;
}

static struct tensor *
apply_conv2d(struct task *me, struct module *self, struct tensor *const *in)
{
    struct conv_options options = conv_options_of(self);
    struct tensor      *x = conv_padded(me, self, in[0], 2, &options);
    return conv2d(me, x, module_parameter(self, "weight"), module_parameter(self, "bias"), &options);
}

static struct tensor *
apply_conv1d(struct task *me, struct module *self, struct tensor *const *in)
{
    struct conv_options options = conv_options_of(self);
    struct tensor      *x = conv_padded(me, self, in[0], 1, &options);
    return conv1d(me, x, module_parameter(self, "weight"), module_parameter(self, "bias"), &options);
}

static struct tensor *
apply_transpose(struct task *me, struct module *self, struct tensor *const *in)
{
    struct conv_options options = conv_options_of(self);
    return conv_transpose2d(me, in[0], module_parameter(self, "weight"), module_parameter(self, "bias"), &options);
}

static void
describe_pair(struct str *out, const char *name, const int64_t *pair, bool one)
{
    if (one)
        str_addf(out, ", %s=(%lld,)", name, (long long)pair[1]);
    else
        str_addf(out, ", %s=(%lld, %lld)", name, (long long)pair[0], (long long)pair[1]);
}

static void
describe_conv(const struct module *self, struct str *out)
{
    const int64_t *n = self->integers;
    bool           one = strcmp(self->type->name, "Conv1d") == 0;
    str_addf(out, "%lld, %lld", (long long)n[INS], (long long)n[OUTS]);
    describe_pair(out, "kernel_size", n + KERNEL, one);
    describe_pair(out, "stride", n + STRIDE, one);
    if (n[PADDED] != PADDED_BY_NUMBERS)
        str_addf(out, ", padding=%s", n[PADDED] == PADDED_SAME ? "same" : "valid");
    else if (n[PADDING] != 0 || n[PADDING + 1] != 0)
        describe_pair(out, "padding", n + PADDING, one);
    if (n[DILATION + 1] != 1 || (!one && n[DILATION] != 1))
        describe_pair(out, "dilation", n + DILATION, one);
    if (n[EXTRA] != 0 || n[EXTRA + 1] != 0)
        describe_pair(out, "output_padding", n + EXTRA, one);
    if (n[GROUPS] != 1)
        str_addf(out, ", groups=%lld", (long long)n[GROUPS]);
    if (!n[BIAS])
        str_add(out, ", bias=False");
    if (n[MODE] != PAD_CONSTANT)
        str_addf(out, ", padding_mode=%s", n[MODE] == PAD_REFLECT ? "reflect" : n[MODE] == PAD_REPLICATE ? "replicate"
                                                                                                        : "circular");
}

static const struct module_attribute conv_attributes[] = {
    { "in_channels", ATTRIBUTE_INTEGER, INS },  { "out_channels", ATTRIBUTE_INTEGER, OUTS },
    { "kernel_size", ATTRIBUTE_PAIR, KERNEL },  { "stride", ATTRIBUTE_PAIR, STRIDE },
    { "padding", ATTRIBUTE_PAIR, PADDING },     { "dilation", ATTRIBUTE_PAIR, DILATION },
    { "groups", ATTRIBUTE_INTEGER, GROUPS },    { .name = NULL },
};

static const struct layer_type conv1d_type = {
    { "Conv1d", layer_forward, &module_plain, describe_conv, conv_attributes }, 1, apply_conv1d,
};
static const struct layer_type conv2d_type = {
    { "Conv2d", layer_forward, &module_plain, describe_conv, conv_attributes }, 1, apply_conv2d,
};
static const struct layer_type transpose_type = {
    { "ConvTranspose2d", layer_forward, &module_plain, describe_conv, conv_attributes }, 1, apply_transpose,
};

static bool
sizes_fit(struct task *me, const struct module *module)
{
    const int64_t *n = module->integers;
    const char    *name = module->type->name;
    if (!layer_positive(me, name, "in_channels", n[INS]) || !layer_positive(me, name, "out_channels", n[OUTS]) ||
        !layer_positive(me, name, "groups", n[GROUPS]))
        return false;
    for (int side = 0; side < 2; side++) {
        if (!layer_positive(me, name, "kernel_size", n[KERNEL + side]) ||
            !layer_positive(me, name, "stride", n[STRIDE + side]) ||
            !layer_positive(me, name, "dilation", n[DILATION + side]))
            return false;
        if (n[PADDING + side] < 0 || n[EXTRA + side] < 0)
            return failed(me, E_VALUE, "%s: padding must not be negative", name);
        int64_t most = n[EXTRA + side];
        for (int at = KERNEL + side; at < GROUPS; at += 2)
            most = n[at] > most ? n[at] : most;
        if (most >= INT32_MAX)
            return failed(me, E_VALUE, "%s: a kernel, stride, padding or dilation of %lld is too large", name,
                          (long long)most);
    }
    if (n[INS] % n[GROUPS] != 0)
        return failed(me, E_VALUE, "in_channels must be divisible by groups, got %lld and %lld", (long long)n[INS],
                      (long long)n[GROUPS]);
    return n[OUTS] % n[GROUPS] == 0 ||
           failed(me, E_VALUE, "out_channels must be divisible by groups, got %lld and %lld", (long long)n[OUTS],
                  (long long)n[GROUPS]);
}

/* The weight's fan_in is counted from its own shape, as PyTorch does it for the transposed one, too. */
static bool
draw_conv(struct task *me, struct module *module, enum dtype dtype, int dims, const int64_t *sizes)
{
    int64_t *outs = &module->integers[OUTS];
    double   fan_in = (double)sizes[1];
    for (int d = 2; d < dims; d++)
        fan_in *= (double)sizes[d];
    const struct layer_shape kernels = { dtype, dims, sizes }, row = { dtype, 1, outs };
    if (layer_parameter(me, module, "weight", &kernels, kaiming_bound(fan_in)) == NULL)
        return false;
    if (!module->integers[BIAS])
        return layer_no_parameter(me, module, "bias");
    return layer_parameter(me, module, "bias", &row, 1 / sqrt(fan_in)) != NULL;
}

static void
put_pair(struct module *module, int at, const struct argument *argument)
{
    module->integers[at]     = argument->integer[0];
    module->integers[at + 1] = argument->integer[1];
}

/* Numbers, "valid" or "same". */
static bool
put_padding(struct task *me, struct module *module, const struct argument *padding)
{
    const int64_t *n = module->integers;
    if (padding->text == NULL) {
        put_pair(module, PADDING, padding);
        return true;
    }
    if (strcmp(padding->text, "same") != 0 && strcmp(padding->text, "valid") != 0)
        return failed(me, E_VALUE, "Invalid padding string '%s', should be one of {'valid', 'same'}", padding->text);
    module->integers[PADDED] = padding->text[0] == 's' ? PADDED_SAME : PADDED_VALID;
    if (n[PADDED] == PADDED_SAME && (n[STRIDE] != 1 || n[STRIDE + 1] != 1))
        return failed(me, E_VALUE, "padding='same' is not supported for strided convolutions");
    return true;
}

static bool
put_mode(struct task *me, struct module *module, const char *name)
{
    enum pad_mode mode = PAD_CONSTANT;
    if (strcmp(name, "constant") == 0 || (strcmp(name, "zeros") != 0 && !pad_mode_parse(me, name, &mode))) {
        task_clear_error(me);
        return failed(me, E_VALUE, "padding_mode must be one of {'zeros', 'reflect', 'replicate', 'circular'}, but got "
                                   "padding_mode='%s'", name);
    }
    module->integers[MODE] = mode;
    return true;
}

/* in, out, kernel, stride, padding, dilation, groups, bias, padding_mode */
static struct module *
conv_module(struct task *me, const struct layer_type *type, const struct arguments *a)
{
    struct module *module = module_new(me, &type->type);
    if (module == NULL)
        return NULL;
    module->integers[INS]  = a->at[0].integer[0];
    module->integers[OUTS] = a->at[1].integer[0];
    put_pair(module, KERNEL, &a->at[2]);
    put_pair(module, STRIDE, &a->at[3]);
    put_pair(module, DILATION, &a->at[5]);
    module->integers[GROUPS] = a->at[6].integer[0];
    module->integers[BIAS]   = a->at[7].integer[0];
    return put_padding(me, module, &a->at[4]) && put_mode(me, module, a->at[8].text) && sizes_fit(me, module) ? module
                                                                                                             : NULL;
}

struct module *
make_conv2d(struct task *me, const struct arguments *a)
{
    struct module *module = conv_module(me, &conv2d_type, a);
    if (module == NULL)
        return NULL;
    const int64_t *n = module->integers;
    int64_t        sizes[] = { n[OUTS], n[INS] / n[GROUPS], n[KERNEL], n[KERNEL + 1] };
    return draw_conv(me, module, a->dtype, 4, sizes) ? module : NULL;
}

struct module *
make_conv1d(struct task *me, const struct arguments *a)
{
    struct module *module = conv_module(me, &conv1d_type, a);
    if (module == NULL)
        return NULL;
    const int64_t *n = module->integers;
    int64_t        sizes[] = { n[OUTS], n[INS] / n[GROUPS], n[KERNEL + 1] };
    return draw_conv(me, module, a->dtype, 3, sizes) ? module : NULL;
}

/* in, out, kernel, stride, padding, output_padding, groups, bias, dilation, padding_mode */
struct module *
make_conv_transpose2d(struct task *me, const struct arguments *a)
{
    struct arguments ordered = *a;
    ordered.at[5] = a->at[8];
    ordered.at[8] = a->at[9];
    if (strcmp(a->at[9].text, "zeros") != 0)
        return failed_null(me, E_VALUE, "Only \"zeros\" padding mode is supported for ConvTranspose2d");
    struct module *module = conv_module(me, &transpose_type, &ordered);
    if (module == NULL)
        return NULL;
    put_pair(module, EXTRA, &a->at[5]);
    const int64_t *n = module->integers;
    int64_t        sizes[] = { n[INS], n[OUTS] / n[GROUPS], n[KERNEL], n[KERNEL + 1] };
    return sizes_fit(me, module) && draw_conv(me, module, a->dtype, 4, sizes) ? module : NULL;
}

/* ---- pooling: kernel, stride, padding, dilation, flags ---- */

enum { POOL_KERNEL, POOL_STRIDE = 2, POOL_PADDING = 4, POOL_DILATION = 6, POOL_CEIL = 8, POOL_INSIDE };

static struct pool_options
pool_options_of(const struct module *self)
{
    const int64_t      *n = self->integers;
    struct pool_options o = { .ceil = n[POOL_CEIL], .inside = n[POOL_INSIDE] };
    memcpy(o.kernel, n + POOL_KERNEL, sizeof o.kernel);
    memcpy(o.stride, n + POOL_STRIDE, sizeof o.stride);
    memcpy(o.padding, n + POOL_PADDING, sizeof o.padding);
    memcpy(o.dilation, n + POOL_DILATION, sizeof o.dilation);
    return o;
}

static struct tensor *
apply_max_pool2d(struct task *me, struct module *self, struct tensor *const *in)
{
    struct pool_options options = pool_options_of(self);
    return max_pool2d(me, in[0], &options);
}

static struct tensor *
apply_avg_pool2d(struct task *me, struct module *self, struct tensor *const *in)
{
    struct pool_options options = pool_options_of(self);
    return avg_pool2d(me, in[0], &options);
}

static struct tensor *
apply_adaptive(struct task *me, struct module *self, struct tensor *const *in)
{
    int64_t sizes[2];
    for (int side = 0; side < 2; side++)
        sizes[side] = self->integers[side] < 0 && in[0]->dims > 1 ? tensor_size(in[0], side - 2) : self->integers[side];
    return adaptive_avg_pool2d(me, in[0], sizes, false);
}

static void
add_pair(struct str *out, const char *name, const int64_t *pair)
{
    if (pair[0] == pair[1])
        str_addf(out, "%s=%lld", name, (long long)pair[0]);
    else
        str_addf(out, "%s=(%lld, %lld)", name, (long long)pair[0], (long long)pair[1]);
}

static void
describe_pool(const struct module *self, struct str *out)
{
    const int64_t *n = self->integers;
    add_pair(out, "kernel_size", n + POOL_KERNEL);
    add_pair(out, ", stride", n + POOL_STRIDE);
    add_pair(out, ", padding", n + POOL_PADDING);
    if (strcmp(self->type->name, "MaxPool2d") == 0) {
        add_pair(out, ", dilation", n + POOL_DILATION);
        str_addf(out, ", ceil_mode=%s", n[POOL_CEIL] ? "True" : "False");
    }
}

static void
describe_adaptive(const struct module *self, struct str *out)
{
    const int64_t *size = self->integers;
    if (size[0] >= 0 && size[1] >= 0)
        add_pair(out, "output_size", size);
    else if (size[0] == size[1])
        str_add(out, "output_size=None");
    else if (size[0] < 0)
        str_addf(out, "output_size=(None, %lld)", (long long)size[1]);
    else
        str_addf(out, "output_size=(%lld, None)", (long long)size[0]);
}

static const struct module_attribute pool_attributes[] = {
    { "kernel_size", ATTRIBUTE_PAIR, POOL_KERNEL }, { "stride", ATTRIBUTE_PAIR, POOL_STRIDE },
    { "padding", ATTRIBUTE_PAIR, POOL_PADDING },    { .name = NULL },
};
static const struct layer_type max_pool2d_type = {
    { "MaxPool2d", layer_forward, &module_plain, describe_pool, pool_attributes }, 1, apply_max_pool2d,
};
static const struct layer_type avg_pool2d_type = {
    { "AvgPool2d", layer_forward, &module_plain, describe_pool, pool_attributes }, 1, apply_avg_pool2d,
};
static const struct layer_type adaptive_type = {
    { "AdaptiveAvgPool2d", layer_forward, &module_plain, describe_adaptive, NULL }, 1, apply_adaptive,
};

/* kernel, stride (none: the kernel), padding; then dilation, ceil_mode or ceil_mode, count_include_pad */
static struct module *
pool_module(struct task *me, const struct layer_type *type, const struct arguments *a)
{
    struct module *module = module_new(me, &type->type);
    if (module == NULL)
        return NULL;
    put_pair(module, POOL_KERNEL, &a->at[0]);
    put_pair(module, POOL_STRIDE, a->at[1].none ? &a->at[0] : &a->at[1]);
    put_pair(module, POOL_PADDING, &a->at[2]);
    module->integers[POOL_DILATION] = module->integers[POOL_DILATION + 1] = 1;
    return module;
}

struct module *
make_max_pool2d(struct task *me, const struct arguments *a)
{
    struct module *module = pool_module(me, &max_pool2d_type, a);
    if (module != NULL) {
        put_pair(module, POOL_DILATION, &a->at[3]);
        module->integers[POOL_CEIL] = a->at[4].integer[0];
    }
    return module;
}

struct module *
make_avg_pool2d(struct task *me, const struct arguments *a)
{
    struct module *module = pool_module(me, &avg_pool2d_type, a);
    if (module != NULL) {
        module->integers[POOL_CEIL]   = a->at[3].integer[0];
        module->integers[POOL_INSIDE] = !a->at[4].integer[0];
    }
    return module;
}

struct module *
make_adaptive_avg_pool2d(struct task *me, const struct arguments *a)
{
    struct module *module = module_new(me, &adaptive_type.type);
    if (module != NULL)
        put_pair(module, 0, &a->at[0]);
    return module;
}
