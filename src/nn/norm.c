/* BatchNorm, LayerNorm, GroupNorm. In PyTorch: torch/nn/modules/{batchnorm,normalization}.py. */
#include <math.h>
#include <string.h>
#include "autograd/call.h"
#include "functional/functional.h"
#include "autograd/node.h"
#include "base/str.h"
#include "base/vec.h"
#include "nn/layer.h"
#include "nn/name.h"
#include "nn/norm.h"
#include "sched/task.h"

/* Places in integers and numbers. */
enum { FEATURES, LEAST_DIMS, MOST_DIMS, AFFINE, TRACKED, CUMULATIVE };
enum { EPS, MOMENTUM };

/* Counts the batch; the momentum, which is 1 / batches so far where it is cumulative. */
static bool
count_batch(struct task *me, struct module *self, double *momentum)
{
    struct tensor *batches = module_buffer(self, "num_batches_tracked");
    struct tensor *one = tensor_number(me, DTYPE_I64, DEVICE_CPU, 1);
    int64_t        count = 0;
    if (batches == NULL)
        return true;
    if (one == NULL || tensor_add_(me, batches, one, 1) == NULL)
        return false;
    if (!self->integers[CUMULATIVE])
        return true;
    if (!tensor_item_i64(me, batches, &count))
        return false;
    *momentum = count > 0 ? 1 / (double)count : 0;
    return true;
}

static bool
channels_fit(struct task *me, const struct module *self, const struct tensor *input, int64_t wanted)
{
    int64_t channels = input->size[1];
    return channels == wanted || failed(me, E_RUNTIME, "%s: expected an input of %lld channels, got %lld in an input "
                                        "of shape %s", self->type->name, (long long)wanted, (long long)channels,
                                        shape_text(input).text);
}

bool
batch_norm_check_channels(struct task *me, const struct module *self, const struct tensor *input)
{
    return channels_fit(me, self, input, self->integers[FEATURES]);
}

bool
batch_norm_begin(struct task *me, struct module *self, struct batch_norm_options *out)
{
    *out = (struct batch_norm_options){
        .running_mean = module_buffer(self, "running_mean"), .running_var = module_buffer(self, "running_var"),
        .weight = module_parameter(self, "weight"), .bias = module_parameter(self, "bias"),
        .momentum = self->numbers[MOMENTUM], .eps = self->numbers[EPS],
    };
    out->training = self->training || out->running_mean == NULL;
    return !self->training || !self->integers[TRACKED] || count_batch(me, self, &out->momentum);
}

static struct tensor *
apply_batch_norm(struct task *me, struct module *self, struct tensor *const *in)
{
    const struct tensor      *x = in[0];
    struct batch_norm_options o;
    if (x->dims < self->integers[LEAST_DIMS] || x->dims > self->integers[MOST_DIMS]) {
        if (self->integers[LEAST_DIMS] == self->integers[MOST_DIMS])
            return failed_null(me, E_VALUE, "expected %lldD input (got %dD input)",
                               (long long)self->integers[LEAST_DIMS], x->dims);
        return failed_null(me, E_VALUE, "expected 2D or 3D input (got %dD input)", x->dims);
    }
    if (!batch_norm_check_channels(me, self, x) || !batch_norm_begin(me, self, &o))
        return NULL;
    return batch_norm(me, in[0], &o);
}

static void
describe_flag(struct str *out, const char *name, bool flag)
{
    str_addf(out, ", %s=%s", name, flag ? "True" : "False");
}

void
batch_norm_describe(const struct module *self, struct str *out)
{
    str_addf(out, "%lld", (long long)self->integers[FEATURES]);
    layer_add_number(out, ", eps=", self->numbers[EPS]);
    if (self->integers[CUMULATIVE])
        str_add(out, ", momentum=None");
    else
        layer_add_number(out, ", momentum=", self->numbers[MOMENTUM]);
    describe_flag(out, "affine", self->integers[AFFINE]);
    describe_flag(out, "bias", module_parameter(self, "bias") != NULL);
    describe_flag(out, "track_running_stats", self->integers[TRACKED]);
}

const struct module_attribute batch_norm_attributes[] = {
    { "num_features", ATTRIBUTE_INTEGER, FEATURES }, { "eps", ATTRIBUTE_NUMBER, EPS },
    { "momentum", ATTRIBUTE_NUMBER, MOMENTUM },      { "affine", ATTRIBUTE_FLAG, AFFINE },
    { "track_running_stats", ATTRIBUTE_FLAG, TRACKED }, { .name = NULL },
};

bool
module_is_batch_norm(const struct module *module)
{
    return module->type->attributes == batch_norm_attributes;
}

static const struct layer_type batch_norm1d_type = {
    { "BatchNorm1d", layer_forward, &module_plain, batch_norm_describe, batch_norm_attributes }, 1, apply_batch_norm,
};
static const struct layer_type batch_norm2d_type = {
    { "BatchNorm2d", layer_forward, &module_plain, batch_norm_describe, batch_norm_attributes }, 1, apply_batch_norm,
};
static const struct layer_type batch_norm3d_type = {
    { "BatchNorm3d", layer_forward, &module_plain, batch_norm_describe, batch_norm_attributes }, 1, apply_batch_norm,
};

/* A weight and, unless the bias is left out, a bias; without the weight neither. */
struct affine { bool weight, bias; };

static bool
affine_pair(struct task *me, struct module *module, struct affine affine, const struct layer_shape *shape)
{
    bool done = affine.weight ? layer_constant(me, module, "weight", shape, 1)
                              : layer_no_parameter(me, module, "weight");
    if (!done)
        return false;
    return affine.weight && affine.bias ? layer_constant(me, module, "bias", shape, 0)
                                        : layer_no_parameter(me, module, "bias");
}

static bool
batch_tensors(struct task *me, struct module *module, enum dtype dtype, bool bias)
{
    const struct layer_shape row = { dtype, 1, &module->integers[FEATURES] }, one = { DTYPE_I64, 0, NULL };
    if (!affine_pair(me, module, (struct affine){ module->integers[AFFINE], bias }, &row))
        return false;
    if (!module->integers[TRACKED])
        return module_add_buffer(me, module, "running_mean", NULL) &&
               module_add_buffer(me, module, "running_var", NULL) &&
               module_add_buffer(me, module, "num_batches_tracked", NULL);
    return layer_buffer(me, module, "running_mean", &row, 0) && layer_buffer(me, module, "running_var", &row, 1) &&
           layer_buffer(me, module, "num_batches_tracked", &one, 0);
}

struct module *
batch_norm_new(struct task *me, const struct module_type *type, const struct batch_norm_settings *settings)
{
    if (!layer_positive(me, type->name, "num_features", settings->num_features))
        return NULL;
    struct module *module = module_new(me, type);
    if (module == NULL)
        return NULL;
    module->integers[FEATURES]   = settings->num_features;
    module->integers[AFFINE]     = settings->affine;
    module->integers[TRACKED]    = settings->track_running_stats;
    module->integers[CUMULATIVE] = settings->cumulative;
    module->numbers[EPS]         = settings->eps;
    module->numbers[MOMENTUM]    = settings->cumulative ? NAN : settings->momentum;
    return batch_tensors(me, module, settings->dtype, settings->bias) ? module : NULL;
}

struct module *
batch_norm_sharing(struct task *me, const struct module_type *type, const struct module *from)
{
    static const char *const parameters[] = { "weight", "bias" };
    static const char *const buffers[]    = { "running_mean", "running_var", "num_batches_tracked" };
    struct module           *module = module_new(me, type);
    bool                     done = module != NULL;
    if (!done)
        return NULL;
    memcpy(module->integers, from->integers, sizeof module->integers);
    memcpy(module->numbers, from->numbers, sizeof module->numbers);
    module->training = from->training;
    module->name     = name_ref(from->name);
    for (size_t i = 0; i < countof(parameters) && done; i++)
        done = module_add_parameter(me, module, parameters[i], module_parameter(from, parameters[i]));
    for (size_t i = 0; i < countof(buffers) && done; i++)
        done = module_add_buffer(me, module, buffers[i], module_buffer(from, buffers[i]));
    return done ? module : NULL;
}

/* num_features, eps, momentum (none: cumulative), affine, track_running_stats, bias */
static struct module *
batch_module(struct task *me, const struct layer_type *type, const struct arguments *a, int least, int most)
{
    const struct batch_norm_settings settings = {
        .num_features = a->at[0].integer[0], .eps = a->at[1].number, .momentum = a->at[2].number,
        .cumulative = a->at[2].none, .affine = a->at[3].integer[0], .track_running_stats = a->at[4].integer[0],
        .bias = a->at[5].integer[0], .dtype = a->dtype,
    };
    struct module *module = batch_norm_new(me, &type->type, &settings);
    if (module != NULL) {
        module->integers[LEAST_DIMS] = least;
        module->integers[MOST_DIMS]  = most;
    }
    return module;
}

struct module *
make_batch_norm1d(struct task *me, const struct arguments *a)
{
    return batch_module(me, &batch_norm1d_type, a, 2, 3);
}

struct module *
make_batch_norm2d(struct task *me, const struct arguments *a)
{
    return batch_module(me, &batch_norm2d_type, a, 4, 4);
}

struct module *
make_batch_norm3d(struct task *me, const struct arguments *a)
{
    return batch_module(me, &batch_norm3d_type, a, 5, 5);
}

/* ---- LayerNorm: integers: how many dimensions, then their sizes ---- */

static struct norm_options
norm_options_of(const struct module *self)
{
    return (struct norm_options){ .weight = module_parameter(self, "weight"), .bias = module_parameter(self, "bias"),
                                  .eps = self->numbers[EPS] };
}

static struct tensor *
apply_layer_norm(struct task *me, struct module *self, struct tensor *const *in)
{
    int dims = (int)self->integers[0];
    if (!layer_norm_fits(me, in[0], dims, self->integers + 1))
        return NULL;
    const struct norm_options options = norm_options_of(self);
    return layer_norm(me, in[0], dims, &options);
}

static void
describe_layer_norm(const struct module *self, struct str *out)
{
    str_add(out, "(");
    for (int d = 0; d < self->integers[0]; d++)
        str_addf(out, "%s%lld", d > 0 ? ", " : "", (long long)self->integers[1 + d]);
    str_add(out, self->integers[0] == 1 ? ",)" : ")");
    layer_add_number(out, ", eps=", self->numbers[EPS]);
    describe_flag(out, "elementwise_affine", self->integers[1 + TENSOR_DIMS]);
    describe_flag(out, "bias", module_parameter(self, "bias") != NULL);
}

static const struct module_attribute norm_attributes[] = { { "eps", ATTRIBUTE_NUMBER, EPS },
                                                           { .name = NULL } };
static const struct layer_type layer_norm_type = {
    { "LayerNorm", layer_forward, &module_plain, describe_layer_norm, norm_attributes }, 1, apply_layer_norm,
};

/* normalized_shape, eps, elementwise_affine, bias */
struct module *
make_layer_norm(struct task *me, const struct arguments *a)
{
    int dims = a->at[0].count;
    for (int d = 0; d < dims; d++)
        if (!layer_positive(me, "LayerNorm", "normalized_shape", a->at[0].integer[d]))
            return NULL;
    if (dims < 1)
        return failed_null(me, E_VALUE, "LayerNorm: expected a normalized_shape of 1 dimension or more, got %d", dims);
    struct module *module = module_new(me, &layer_norm_type.type);
    if (module == NULL)
        return NULL;
    module->integers[0] = dims;
    memcpy(module->integers + 1, a->at[0].integer, (size_t)dims * sizeof *module->integers);
    module->integers[1 + TENSOR_DIMS] = a->at[2].integer[0];
    module->numbers[EPS] = a->at[1].number;
    const struct layer_shape shape = { a->dtype, dims, a->at[0].integer };
    const struct affine affine = { a->at[2].integer[0], a->at[3].integer[0] };
    return affine_pair(me, module, affine, &shape) ? module : NULL;
}

/* ---- GroupNorm ---- */

static struct tensor *
apply_group_norm(struct task *me, struct module *self, struct tensor *const *in)
{
    if (self->integers[2] && in[0]->dims > 1 && !channels_fit(me, self, in[0], self->integers[1]))
        return NULL;
    const struct norm_options options = norm_options_of(self);
    return group_norm(me, in[0], self->integers[0], &options);
}

static void
describe_group_norm(const struct module *self, struct str *out)
{
    str_addf(out, "%lld, %lld", (long long)self->integers[0], (long long)self->integers[1]);
    layer_add_number(out, ", eps=", self->numbers[EPS]);
    describe_flag(out, "affine", self->integers[2]);
    describe_flag(out, "bias", module_parameter(self, "bias") != NULL);
}

static const struct layer_type group_norm_type = {
    { "GroupNorm", layer_forward, &module_plain, describe_group_norm, norm_attributes }, 1, apply_group_norm,
};

/* num_groups, num_channels, eps, affine, bias */
struct module *
make_group_norm(struct task *me, const struct arguments *a)
{
    int64_t groups = a->at[0].integer[0], channels = a->at[1].integer[0];
    if (!layer_positive(me, "GroupNorm", "num_groups", groups) ||
        !layer_positive(me, "GroupNorm", "num_channels", channels))
        return NULL;
    if (channels % groups != 0)
        return failed_null(me, E_VALUE, "num_channels (%lld) must be divisible by num_groups (%lld)",
                           (long long)channels, (long long)groups);
    struct module *module = module_new(me, &group_norm_type.type);
    if (module == NULL)
        return NULL;
    module->integers[0]  = groups;
    module->integers[1]  = channels;
    module->integers[2]  = a->at[3].integer[0];
    module->numbers[EPS] = a->at[2].number;
    const struct layer_shape row = { a->dtype, 1, &channels };
    const struct affine affine = { a->at[3].integer[0], a->at[4].integer[0] };
    return affine_pair(me, module, affine, &row) ? module : NULL;
}
