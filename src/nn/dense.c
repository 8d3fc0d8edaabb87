/* Linear, Embedding and Bilinear as a script makes them. In PyTorch: torch/nn/modules/{linear,sparse}.py. */
#include <math.h>
#include "functional/functional.h"
#include "autograd/call.h"
#include "base/str.h"
#include "nn/layer.h"
#include "sched/task.h"

struct module *
make_linear(struct task *me, const struct arguments *a)
{
    struct layer_options options = { .no_bias = !a->at[2].integer[0], .dtype = a->dtype };
    return nn_linear(me, a->at[0].integer[0], a->at[1].integer[0], &options);
}

struct module *
make_embedding(struct task *me, const struct arguments *a)
{
    struct layer_options options = { .has_padding = !a->at[2].none, .padding_idx = a->at[2].integer[0],
                                     .dtype = a->dtype, .max_norm = a->at[3].none ? 0 : a->at[3].number,
                                     .norm_type = a->at[4].number, .by_frequency = a->at[5].integer[0],
                                     .sparse = a->at[6].integer[0] };
    return nn_embedding(me, a->at[0].integer[0], a->at[1].integer[0], &options);
}

/* ---- Bilinear: x1 A x2 + b, one matrix for each output ---- */

static struct tensor *
apply_bilinear(struct task *me, struct module *self, struct tensor *const *in)
{
    struct tensor *weight = module_parameter(self, "weight"), *bias = module_parameter(self, "bias");
    int64_t        outs = self->integers[2], left = self->integers[0], right = self->integers[1];
    if (in[0]->dims < 1 || in[0]->dims != in[1]->dims)
        return failed_null(me, E_SHAPE, "Bilinear: expected input1 and input2 of as many dimensions, got %s and %s",
                           shape_text(in[0]).text, shape_text(in[1]).text);
    for (int i = 0; i < 2; i++)
        if (tensor_size(in[i], -1) != self->integers[i])
            return failed_null(me, E_SHAPE, "Bilinear: input%d size does not match weight size: got %lld but expected "
                               "%lld", i + 1, (long long)tensor_size(in[i], -1), (long long)self->integers[i]);
    struct tensor *rows = tensor_reshape(me, weight, 2, (const int64_t[]){ outs * left, right });
    struct tensor *inner = linear(me, in[1], rows, NULL); /* [..., outs * left] */
    int64_t        sizes[TENSOR_DIMS];
    int            dims = in[0]->dims;
    if (dims >= TENSOR_DIMS)
        return failed_null(me, E_SHAPE, "Bilinear: expected inputs of at most %d dimensions, got %d", TENSOR_DIMS - 1,
                           dims);
    for (int d = 0; d < dims - 1; d++)
        sizes[d] = in[0]->size[d];
    sizes[dims - 1] = outs;
    sizes[dims]     = left;
    struct tensor *apart = tensor_reshape(me, inner, dims + 1, sizes);
    struct tensor *sum = tensor_sum_dim(me, tensor_mul(me, apart, tensor_unsqueeze(me, in[0], -2)), -1, false);
    return bias != NULL ? tensor_add(me, sum, bias) : sum;
}

static void
bilinear_describe(const struct module *self, struct str *out)
{
    str_addf(out, "in1_features=%lld, in2_features=%lld, out_features=%lld, bias=%s", (long long)self->integers[0],
             (long long)self->integers[1], (long long)self->integers[2], self->integers[3] ? "True" : "False");
}

static const struct layer_type bilinear_type = {
    { "Bilinear", layer_forward, &module_plain, bilinear_describe, NULL }, 2, apply_bilinear,
};

struct module *
make_bilinear(struct task *me, const struct arguments *a)
{
    int64_t left = a->at[0].integer[0], right = a->at[1].integer[0], outs = a->at[2].integer[0];
    if (!layer_positive(me, "Bilinear", "in1_features", left) ||
        !layer_positive(me, "Bilinear", "in2_features", right) ||
        !layer_positive(me, "Bilinear", "out_features", outs))
        return NULL;
    struct module *module = module_new(me, &bilinear_type.type);
    double         bound = 1 / sqrt((double)left);
    if (module == NULL)
        return NULL;
    module->integers[0] = left;
    module->integers[1] = right;
    module->integers[2] = outs;
    module->integers[3] = a->at[3].integer[0];
    const struct layer_shape matrices = { a->dtype, 3, (const int64_t[]){ outs, left, right } };
    const struct layer_shape row = { a->dtype, 1, &outs };
    if (layer_parameter(me, module, "weight", &matrices, bound) == NULL)
        return NULL;
    if (!a->at[3].integer[0])
        return layer_no_parameter(me, module, "bias") ? module : NULL;
    return layer_parameter(me, module, "bias", &row, bound) != NULL ? module : NULL;
}
