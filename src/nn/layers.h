/* The built-in modules. Constructors draw their initial values from the default generator in PyTorch's order.
 * Results are in me's scope; NULL: failed (sizes must be positive, padding_idx within the table ...). */
#ifndef NN_LAYERS_H
#define NN_LAYERS_H
#include "nn/module.h"

struct layer_options {
    bool    no_bias, has_padding, by_frequency, sparse;
    bool    out_proj;                  /* a Linear: the one in an attention */
    int64_t padding_idx;
    int     dtype;                     /* enum dtype: F32 or F64 */
    double  max_norm, norm_type;       /* max_norm 0: none */
};

struct module *nn_linear(struct task *me, int64_t in_features, int64_t out_features,
                         const struct layer_options *options);
struct module *nn_embedding(struct task *me, int64_t rows, int64_t width, const struct layer_options *options);
/* An Embedding with sparse=True: the gradient of its weight is a sparse tensor. */
bool nn_makes_sparse_gradients(const struct module *module);
struct module *nn_relu(struct task *me);
struct module *nn_sequential(struct task *me, struct module *const *children, int count);
/* Any layer that a script can make, nn.NAME(...): whole numbers for its first `count` parameters, the others' defaults. */
struct module *nn_layer(struct task *me, const char *name, const int64_t *numbers, int count);
#endif
