/* Layers that pad, shuffle and measure, and pooling of rows. In PyTorch: torch/nn/modules/{padding,pixelshuffle,
 * distance,pooling}.py. */
#include <string.h>
#include "autograd/call.h"
#include "functional/functional.h"
#include "base/str.h"
#include "nn/layer.h"
#include "sched/task.h"
#include "tensor/op.h"

/* ---- padding: integers: how many were given, then those; the name tells the dimensions ---- */

static struct tensor *
pad_layer(struct task *me, struct module *self, struct tensor *x, enum pad_mode mode)
{
    const int64_t *given = self->integers + 1;
    int            dims = self->type->name[strlen(self->type->name) - 2] - '0';
    if (self->integers[0] != 1 && self->integers[0] != 2 * dims)
        return failed_null(me, E_RUNTIME, "%s: padding is one number or %d, got %lld", self->type->name, 2 * dims,
                           (long long)self->integers[0]);
    if (x->dims < dims)
        return failed_null(me, E_RUNTIME, "%s: expected an input of %d dimensions or more, got %d", self->type->name,
                           dims, x->dims);
    for (int d = 0; d < dims && x != NULL; d++) {
        bool           one = self->integers[0] == 1;
        struct padding padding = { given[one ? 0 : 2 * d], given[one ? 0 : 2 * d + 1], mode, self->numbers[0] };
        x = pad_along(me, x, x->dims - 1 - d, &padding);
    }
    return x;
}

static void
describe_padding(const struct module *self, struct str *out)
{
    int  dims = self->type->name[strlen(self->type->name) - 2] - '0';
    bool one = self->integers[0] == 1, named = strncmp(self->type->name, "Constant", 8) == 0;
    str_add(out, named ? "padding=(" : "(");
    for (int i = 0; i < 2 * dims; i++)
        str_addf(out, "%s%lld", i > 0 ? ", " : "", (long long)self->integers[one ? 1 : 1 + i]);
    str_add(out, ")");
    if (named)
        str_addf(out, ", value=%g", self->numbers[0]);
}

static struct tensor *
apply_constant(struct task *me, struct module *self, struct tensor *const *in)
{
    return pad_layer(me, self, in[0], PAD_CONSTANT);
}

static struct tensor *
apply_reflection(struct task *me, struct module *self, struct tensor *const *in)
{
    return pad_layer(me, self, in[0], PAD_REFLECT);
}

static struct tensor *
apply_replication(struct task *me, struct module *self, struct tensor *const *in)
{
    return pad_layer(me, self, in[0], PAD_REPLICATE);
}

/* ---- rows: planes of height 1 ---- */

enum { ROW_KERNEL, ROW_STRIDE, ROW_PADDING, ROW_DILATION, ROW_CEIL };

static void
describe_rows(const struct module *self, struct str *out)
{
    const int64_t *n = self->integers;
    int64_t        stride = n[ROW_STRIDE] < 0 ? n[ROW_KERNEL] : n[ROW_STRIDE];
    if (self->type->name[0] == 'M')
        str_addf(out, "kernel_size=%lld, stride=%lld, padding=%lld, dilation=%lld, ceil_mode=%s",
                 (long long)n[ROW_KERNEL], (long long)stride, (long long)n[ROW_PADDING], (long long)n[ROW_DILATION],
                 n[ROW_CEIL] ? "True" : "False");
    else
        str_addf(out, "kernel_size=(%lld,), stride=(%lld,), padding=(%lld,)", (long long)n[ROW_KERNEL],
                 (long long)stride, (long long)n[ROW_PADDING]);
}

static struct pool_options
row_pool_options(const struct module *self)
{
    const int64_t *n = self->integers;
    int64_t        stride = n[ROW_STRIDE] < 0 ? n[ROW_KERNEL] : n[ROW_STRIDE];
    return (struct pool_options){ .kernel = { 1, n[ROW_KERNEL] }, .stride = { 1, stride },
                                  .padding = { 0, n[ROW_PADDING] }, .dilation = { 1, 1 }, .row = true };
}

static struct tensor *
flat_again(struct task *me, struct tensor *plane)
{
    return plane != NULL ? tensor_squeeze(me, plane, -2) : NULL;
}

static struct tensor *
apply_max_pool1d(struct task *me, struct module *self, struct tensor *const *in)
{
    struct pool_options o = row_pool_options(self);
    o.dilation[1] = self->integers[ROW_DILATION];
    o.ceil        = self->integers[ROW_CEIL];
    return flat_again(me, max_pool2d(me, tensor_unsqueeze(me, in[0], -2), &o));
}

/* ceil_mode, count_include_pad */
static struct tensor *
apply_avg_pool1d(struct task *me, struct module *self, struct tensor *const *in)
{
    struct pool_options o = row_pool_options(self);
    o.ceil   = self->integers[3];
    o.inside = !self->integers[4];
    return flat_again(me, avg_pool2d(me, tensor_unsqueeze(me, in[0], -2), &o));
}

static struct tensor *
apply_adaptive1d(struct task *me, struct module *self, struct tensor *const *in)
{
    return flat_again(me, adaptive_avg_pool2d(me, tensor_unsqueeze(me, in[0], -2),
                                              (const int64_t[]){ 1, self->integers[0] }, true));
}

static const struct module_attribute size_shown[] = { { "output_size", ATTRIBUTE_INTEGER, 0 }, { .name = NULL } };

/* ---- shuffling of pixels: [.., C r r, H, W] and [.., C, H r, W r] ---- */

/* The last three dimensions apart as five, these in another `order`, and together as `whole`. */
static struct tensor *
shuffled(struct task *me, struct tensor *x, const int64_t apart[5], const int64_t order[6], const int64_t whole[3])
{
    int64_t six[6] = { 1, apart[0], apart[1], apart[2], apart[3], apart[4] }, sizes[TENSOR_DIMS];
    for (int d = 0; d < x->dims - 3; d++)
        six[0] *= x->size[d];
    memcpy(sizes, x->size, sizeof sizes);
    memcpy(sizes + x->dims - 3, whole, 3 * sizeof *whole);
    struct tensor *split = tensor_reshape(me, x, 6, six);
    struct tensor *mixed = split != NULL ? tensor_permute(me, split, 6, order) : NULL;
    return mixed != NULL ? tensor_reshape(me, mixed, x->dims, sizes) : NULL;
}

static struct tensor *
apply_pixel_shuffle(struct task *me, struct module *self, struct tensor *const *in)
{
    int64_t        r = self->integers[0];
    struct tensor *x = in[0];
    if (x->dims < 3 || r < 1 || x->size[x->dims - 3] % r != 0 || x->size[x->dims - 3] / r % r != 0)
        return failed_null(me, E_RUNTIME, "pixel_shuffle expects its input's 'channel' dimension to be divisible by "
                           "the square of upscale_factor (%lld), but got input of size %s", (long long)r,
                           shape_text(x).text);
    int64_t c = x->size[x->dims - 3] / r / r, h = x->size[x->dims - 2], w = x->size[x->dims - 1];
    return shuffled(me, x, (const int64_t[]){ c, r, r, h, w }, (const int64_t[]){ 0, 1, 4, 2, 5, 3 },
                    (const int64_t[]){ c, h * r, w * r });
}

enum { LARGEST_FACTOR = 1 << 20 };   /* its square is a number too */

static struct tensor *
apply_pixel_unshuffle(struct task *me, struct module *self, struct tensor *const *in)
{
    int64_t        r = self->integers[0];
    struct tensor *x = in[0];
    if (x->dims < 3 || r < 1 || r > LARGEST_FACTOR || x->size[x->dims - 2] % r != 0 || x->size[x->dims - 1] % r != 0)
        return failed_null(me, E_RUNTIME, "pixel_unshuffle expects height and width to be divisible by "
                           "downscale_factor (%lld), but got input of size %s", (long long)r, shape_text(x).text);
    int64_t c = x->size[x->dims - 3], h = x->size[x->dims - 2] / r, w = x->size[x->dims - 1] / r;
    return shuffled(me, x, (const int64_t[]){ c, h, r, w, r }, (const int64_t[]){ 0, 1, 3, 5, 2, 4 },
                    (const int64_t[]){ c * r * r, h, w });
}

static const struct module_attribute up_shown[] = { { "upscale_factor", ATTRIBUTE_INTEGER, 0 }, { .name = NULL } };
static const struct module_attribute down_shown[] = {
    { "downscale_factor", ATTRIBUTE_INTEGER, 0 }, { .name = NULL },
};

const struct layer_type shaping_types[] = {
    { { "ZeroPad2d", layer_forward, &module_plain, describe_padding, NULL }, 1, apply_constant },
    { { "ConstantPad1d", layer_forward, &module_plain, describe_padding, NULL }, 1, apply_constant },
    { { "ConstantPad2d", layer_forward, &module_plain, describe_padding, NULL }, 1, apply_constant },
    { { "ConstantPad3d", layer_forward, &module_plain, describe_padding, NULL }, 1, apply_constant },
    { { "ReflectionPad1d", layer_forward, &module_plain, describe_padding, NULL }, 1, apply_reflection },
    { { "ReflectionPad2d", layer_forward, &module_plain, describe_padding, NULL }, 1, apply_reflection },
    { { "ReflectionPad3d", layer_forward, &module_plain, describe_padding, NULL }, 1, apply_reflection },
    { { "ReplicationPad1d", layer_forward, &module_plain, describe_padding, NULL }, 1, apply_replication },
    { { "ReplicationPad2d", layer_forward, &module_plain, describe_padding, NULL }, 1, apply_replication },
    { { "ReplicationPad3d", layer_forward, &module_plain, describe_padding, NULL }, 1, apply_replication },
    { { "MaxPool1d", layer_forward, &module_plain, describe_rows, NULL }, 1, apply_max_pool1d },
    { { "AvgPool1d", layer_forward, &module_plain, describe_rows, NULL }, 1, apply_avg_pool1d },
    { { "AdaptiveAvgPool1d", layer_forward, &module_plain, layer_describe_attributes, size_shown },
      1, apply_adaptive1d },
    { { "PixelShuffle", layer_forward, &module_plain, layer_describe_attributes, up_shown },
      1, apply_pixel_shuffle },
    { { "PixelUnshuffle", layer_forward, &module_plain, layer_describe_attributes, down_shown },
      1, apply_pixel_unshuffle },
    { .type.name = NULL },
};
