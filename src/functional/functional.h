/* torch.nn.functional: what layers and losses do, recorded. Results are in me's scope; a NULL operand gives NULL unless
 * it is said to be optional. */
#ifndef FUNCTIONAL_FUNCTIONAL_H
#define FUNCTIONAL_FUNCTIONAL_H
#include <stdbool.h>
#include <stdint.h>
#include "tensor/op.h"

struct task; struct tensor; struct generator;

/* ---- reductions, orders, places ---- */
/* The p-norm over dimensions. */
struct fold_options;
struct tensor *tensor_norm(struct task *me, struct tensor *a, double p, const struct fold_options *options);
struct tensor *tensor_argsort(struct task *me, struct tensor *a, int64_t dim, bool descending);
/* The least and the largest of whole numbers; 0 and -1 of none. Waits for the tensor's device. false: failed. */
bool           tensor_ends(struct task *me, struct tensor *indices, int64_t *least, int64_t *largest);

/* ---- linear maps, rows ---- */
/* functional.linear: 2-D with bias is one addmm over weight.t(); other ranks are flattened to 2-D. */
struct tensor *linear(struct task *me, struct tensor *input, struct tensor *weight, struct tensor *bias);
/* Where PyTorch takes int32 indices beside int64: those as int64. */
struct tensor *whole_indices(struct task *me, struct tensor *indices);
/* padding_idx -1: none. */
struct tensor *embedding(struct task *me, struct tensor *weight, struct tensor *indices, int64_t padding_idx);
struct tensor *mse_loss(struct task *me, struct tensor *input, struct tensor *target);
/* Classes by index; they lie in dimension 1, in 0 of a 1-D input. */
struct tensor *cross_entropy(struct task *me, struct tensor *input, struct tensor *target);

/* One row of places for each element that is not 0, in row-major order. Reads the tensor: waits for its device. */
struct tensor *tensor_nonzero(struct task *me, struct tensor *tensor);

/* ---- activations ---- */
struct tensor *softmax(struct task *me, struct tensor *x, int dim);
struct tensor *log_softmax(struct task *me, struct tensor *x, int dim);
struct tensor *gelu(struct task *me, struct tensor *x, bool by_tanh);
/* An op of tensor/cpu/activation.def with its numbers. */
struct activation { double a, b; bool in_place; };
struct tensor *activated(struct task *me, enum op op, struct tensor *x, const struct activation *how);
struct tensor *silu(struct task *me, struct tensor *x);
struct tensor *leaky_relu(struct task *me, struct tensor *x, double slope);
struct tensor *elu(struct task *me, struct tensor *x, double alpha);
struct tensor *softplus(struct task *me, struct tensor *x, double beta, double threshold); /* 1, 20 in PyTorch */
struct tensor *prelu(struct task *me, struct tensor *x, struct tensor *weight); /* one slope, or one a channel */

/* ---- convolutions and pooling; heights first ---- */
struct conv_options { int64_t stride[2], padding[2], dilation[2], groups, output_padding[2]; bool row; };
struct tensor *conv2d(struct task *me, struct tensor *x, struct tensor *weight, struct tensor *bias,
                      const struct conv_options *options);                /* bias optional; [N, C, H, W] or [C, H, W] */
struct tensor *conv_transpose2d(struct task *me, struct tensor *x, struct tensor *weight, struct tensor *bias,
                                const struct conv_options *options);
struct tensor *conv1d(struct task *me, struct tensor *x, struct tensor *weight, struct tensor *bias,
                      const struct conv_options *options);                /* the second of each pair counts */
struct pool_options { int64_t kernel[2], stride[2], padding[2], dilation[2]; bool ceil, inside, row; }; /* row: told so */
struct tensor *max_pool2d(struct task *me, struct tensor *x, const struct pool_options *options);
struct tensor *avg_pool2d(struct task *me, struct tensor *x, const struct pool_options *options);
struct tensor *adaptive_avg_pool2d(struct task *me, struct tensor *x, const int64_t *sizes, bool row);

/* ---- padding: rows put before and behind those of a dimension ---- */
enum pad_mode { PAD_CONSTANT, PAD_REFLECT, PAD_REPLICATE, PAD_CIRCULAR };
bool           pad_mode_parse(struct task *me, const char *name, enum pad_mode *out);  /* false: failed */
struct padding { int64_t before, behind; enum pad_mode mode; double value; }; /* negative (constant): rows less */
struct tensor *pad_along(struct task *me, struct tensor *x, int dim, const struct padding *padding);

/* ---- normalisation ---- */
struct batch_norm_options {
    struct tensor *running_mean, *running_var, *weight, *bias;            /* all optional */
    bool           training;                                              /* by the batch's statistics */
    double         momentum, eps;
};
struct tensor *batch_norm(struct task *me, struct tensor *x, const struct batch_norm_options *options);
/* running = (1 - momentum) running + momentum batch; the variance without bias. `stats`: rows of mean, of 1 / sqrt(variance
 * + eps) and of variance, of so many values a channel. Grad mode is off. */
bool batch_norm_update_running(struct task *me, const struct batch_norm_options *options, struct tensor *stats, double count);
/* layer_norm: over the last `dims`. */
struct norm_options { struct tensor *weight, *bias /* both optional */; double eps; };
bool layer_norm_fits(struct task *me, const struct tensor *x, int dims, const int64_t *sizes); /* normalized_shape */
struct tensor *layer_norm(struct task *me, struct tensor *x, int dims, const struct norm_options *options);
struct tensor *group_norm(struct task *me, struct tensor *x, int64_t groups, const struct norm_options *options);

/* ---- dropout: `shape` dimensions are drawn, the others share a draw; DROP_ALL: every element ---- */
enum dropout_kind { DROP_ELEMENTS, DROP_CHANNELS, DROP_ALPHA };
struct tensor *dropout(struct task *me, struct tensor *x, double p, enum dropout_kind kind, bool training);

/* ---- losses ---- */
enum { IGNORE_INDEX = -100 };                                             /* what PyTorch ignores if nobody says */
struct loss_options {
    enum reduction reduction;
    struct tensor *weight, *pos_weight;                                   /* optional */
    int64_t        ignore_index;
    double         label_smoothing;
};
struct tensor *nll_loss(struct task *me, struct tensor *input, struct tensor *target,
        const struct loss_options *options);
/* Class indices, or as many probabilities as there are inputs. */
struct tensor *cross_entropy_loss(struct task *me, struct tensor *input, struct tensor *target,
                                  const struct loss_options *options);
struct tensor *bce_with_logits(struct task *me, struct tensor *input, struct tensor *target,
                               const struct loss_options *options);
/* Whether input and target stretch to one shape; false, too: one of them is NULL. */
bool           loss_fits(struct task *me, const char *name, const struct tensor *input, const struct tensor *target);
struct tensor *mean_square(struct task *me, struct tensor *input, struct tensor *target, enum reduction reduction);
struct tensor *l1_loss(struct task *me, struct tensor *input, struct tensor *target, enum reduction reduction);
struct tensor *huber_loss(struct task *me, struct tensor *input, struct tensor *target, enum reduction reduction,
                          double delta);
struct tensor *smooth_l1_loss(struct task *me, struct tensor *input, struct tensor *target, enum reduction reduction,
                              double beta);
struct tensor *binary_cross_entropy(struct task *me, struct tensor *input, struct tensor *target,
                                    struct tensor *weight, enum reduction reduction); /* weight optional */
struct tensor *soft_margin_loss(struct task *me, struct tensor *input, struct tensor *target,
                                enum reduction reduction);
/* Those from here on: distance.c. */
struct tensor *kl_div(struct task *me, struct tensor *input, struct tensor *target, bool log_target); /* elements */
struct tensor *kl_reduced(struct task *me, struct tensor *losses, enum reduction reduction, bool batch_mean);
struct tensor *hinge_embedding_loss(struct task *me, struct tensor *input, struct tensor *target,
                                    enum reduction reduction, double margin);
struct poisson_options { bool log_input, full; double eps; enum reduction reduction; };
struct tensor *poisson_nll_loss(struct task *me, struct tensor *input, struct tensor *target,
                                const struct poisson_options *options);
struct tensor *reduced(struct task *me, struct tensor *losses, enum reduction reduction);
bool           reduction_parse(struct task *me, const char *name, enum reduction *out); /* false: failed */

/* ---- embedding with everything ---- */
struct embedding_options {
    int64_t padding_idx;                                                  /* -1: none */
    bool    scale_grad_by_freq, sparse;
    double  max_norm, norm_type;                                          /* max_norm 0: none */
};
struct tensor *embedding_with(struct task *me, struct tensor *weight, struct tensor *indices,
                              const struct embedding_options *options);

/* ---- attention: attention.c ---- */
struct scaled_dot_product {
    struct tensor *mask;                                                  /* optional; true allows */
    double         dropout, scale;
    bool           causal, scaled, grouped;                               /* scaled: by `scale`, else by the width */
};
/* qkv: queries, keys, values, [..., length, width]. */
struct tensor *scaled_dot_product(struct task *me, struct tensor *const qkv[3],
                                  const struct scaled_dot_product *options);

/* ---- attention with heads: q, k, v are [L, N, E], [S, N, E] ---- */
struct attention {
    int64_t        heads;
    struct tensor *in_weight, *q_weight, *k_weight, *v_weight;            /* in_weight, or the three */
    struct tensor *in_bias, *out_weight, *out_bias, *bias_k, *bias_v;     /* biases optional */
    /* [L, S] or [N * heads, L, S]; [N, S]; optional */
    struct tensor *mask, *padding;
    double         dropout;
    bool           training, want_weights, per_head, zero;                /* zero: a key and a value of zeros more */
};
/* qkv: queries, keys, values. The output [L, N, E]; *weights: [N, L, S], averaged over heads, if wanted. */
struct tensor *attend(struct task *me, struct tensor *const qkv[3], const struct attention *options,
                      struct tensor **weights);
#endif
