/* How built-in layers are made and called: a layer_kind is what a script may write, nn.NAME(...) with its parameters; a
 * layer_type is a module type whose forward takes tensors and answers one. All kinds are in catalog.c. */
#ifndef NN_LAYER_H
#define NN_LAYER_H
#include "base/dtype.h"
#include "nn/layers.h"
#include "nn/module.h"
#include "tensor/tensor.h"

/* One parameter of a constructor or a function, in PyTorch's order. Without PARAMETER_NEEDED it is `otherwise`. */
enum parameter_kind { P_INTEGER, P_NUMBER, P_FLAG, P_PAIR, P_SHAPE, P_TEXT, P_TENSOR, P_PADDING /* PAIR or TEXT */ };
enum { PARAMETERS = 14, P_NEEDED = 1, P_NONE = 2 /* nil means none, not `otherwise` */ };
struct parameter { const char *name; enum parameter_kind kind; int how; double otherwise; const char *text; };

/* What was given: of a PAIR two integers (-1: none, where the parameter's text is "none"), of a SHAPE `count`, 2 at
 * least filled. `none`: nothing, and there is no `otherwise`. */
struct argument {
    bool           none;
    int64_t        integer[TENSOR_DIMS];
    int            count;
    double         number;
    const char    *text;
    struct tensor *tensor;
};
struct arguments { struct argument at[PARAMETERS]; enum dtype dtype; };

struct layer_kind {
    const char      *name, *help;
    struct module *(*make)(struct task *me, const struct arguments *arguments);   /* NULL: layer_plain makes it */
    struct parameter parameters[PARAMETERS];
};
const struct layer_kind *layer_kinds(int *count);
/* A module without parameters: its numbers are the kind's NUMBERs, its integers the others, none as -1, of a SHAPE the
 * count first. */
struct module *layer_plain(struct task *me, const struct layer_kind *kind, const struct arguments *arguments);

/* Functions of tensors: nn.functional.NAME(...). */
struct function_kind {
    const char      *name, *help;
    struct tensor *(*call)(struct task *me, const struct arguments *arguments);
    struct parameter parameters[PARAMETERS];
};
struct tensor *call_smooth_l1_loss(struct task *me, const struct arguments *a);   /* loss_more.c */
struct tensor *call_bce_loss(struct task *me, const struct arguments *a);
struct tensor *call_kl_div_loss(struct task *me, const struct arguments *a);
struct tensor *call_soft_margin_loss(struct task *me, const struct arguments *a);
struct tensor *call_hinge_embedding_loss(struct task *me, const struct arguments *a);
struct tensor *call_poisson_nll_loss(struct task *me, const struct arguments *a);
const struct function_kind *function_kinds(int *count);

/* ---- module types of tensors ---- */
enum { LAYER_INPUTS = 2, LAYER_INPLACE = MODULE_INTEGERS - 1 /* where `inplace` is kept */ };
/* How a layer works in place: its own apply sees to it, or layer_forward by way of a copy. */
enum { INPLACE_BY_ITSELF = 1, INPLACE_BY_COPY };
struct layer_type {
    struct module_type type;           /* first: a module's type leads here */
    int                inputs;
    struct tensor   *(*apply)(struct task *me, struct module *self, struct tensor *const *in);
};
struct value *layer_forward(struct task *me, struct module *self, struct value *args, struct value *kwargs);
/* A forward that is not there says so, with what the module is for. */
struct value *layer_no_forward(struct task *me, struct module *self, struct value *args, struct value *kwargs);
void          layer_describe_nothing(const struct module *self, struct str *out);
void          layer_describe_attributes(const struct module *self, struct str *out);   /* "dim=1, alpha=1.0" */
/* activation_more.c, shaping.c */
extern const struct layer_type layer_hardtanh, layer_relu6, layer_selu, layer_celu, layer_log_sigmoid, layer_softsign,
    layer_tanhshrink, layer_softshrink, layer_hardshrink, layer_threshold, layer_hardsigmoid, layer_hardswish,
    layer_mish, layer_softmin, layer_glu, layer_softmax2d, layer_zero_pad2d, layer_constant_pad1d, layer_constant_pad2d,
    layer_constant_pad3d, layer_reflection_pad1d, layer_reflection_pad2d, layer_reflection_pad3d,
    layer_replication_pad1d, layer_replication_pad2d, layer_replication_pad3d, layer_max_pool1d, layer_avg_pool1d,
    layer_adaptive_avg_pool1d, layer_pixel_shuffle, layer_pixel_unshuffle;

/* ---- for constructors ---- */
struct tensor *layer_parameter(struct task *me, struct module *module, const char *name, enum dtype dtype, int dims,
                               const int64_t *sizes, double bound);        /* drawn from U(-bound, bound); < 0: not */
bool layer_constant(struct task *me, struct module *module, const char *name, enum dtype dtype, int64_t size,
                    double value, bool buffer);
bool   layer_no_parameter(struct task *me, struct module *module, const char *name);
double kaiming_bound(int64_t fan_in);                                      /* a = sqrt(5) */
bool   layer_positive(struct task *me, const char *module, const char *what, int64_t size);
struct tensor *module_buffer(const struct module *module, const char *name);

/* ---- arguments of a forward (layers.c) ---- */
/* The value of argument `index`, positional or by name; NULL and no failure: absent (`needed`: failed). */
struct value  *forward_argument(struct task *me, const struct module *self, const struct value *args,
                                const struct value *kwargs, int index, const char *name, bool needed);
/* Optional tensor; false: failed. */
bool forward_tensor(struct task *me, const struct module *self, const struct value *args, const struct value *kwargs,
                    int index, const char *name, struct tensor **out);

/* All `count` of them, absent ones NULL, and no others; the first `needed` must be there. false: failed. */
bool forward_tensors(struct task *me, const struct module *self, const struct value *args, const struct value *kwargs,
                     const char *const *names, int needed, int count, struct tensor **out);

/* ---- makers, by file ---- */
typedef struct module *layer_make(struct task *me, const struct arguments *arguments);
layer_make make_linear, make_embedding, make_bilinear;                                     /* dense.c */
layer_make make_relu, make_identity, make_tanh, make_sigmoid, make_gelu, make_silu, make_softmax, make_log_softmax,
           make_leaky_relu, make_elu, make_softplus, make_prelu, make_flatten, make_unflatten; /* activation.c */
layer_make make_dropout, make_dropout2d, make_alpha_dropout;
layer_make make_conv1d, make_conv2d, make_conv_transpose2d, make_max_pool2d, make_avg_pool2d,
           make_adaptive_avg_pool2d;                                                       /* conv.c */
layer_make make_batch_norm1d, make_batch_norm2d, make_batch_norm3d, make_layer_norm,
           make_group_norm;                                                                /* norm.c */
layer_make make_rnn, make_lstm, make_gru, make_rnn_cell, make_lstm_cell, make_gru_cell;    /* recurrent.c, cell.c */
layer_make make_attention;                                                                 /* attention.c */
layer_make make_encoder_layer, make_decoder_layer, make_transformer;                       /* transformer.c */
layer_make make_smooth_l1_loss, make_bce_loss, make_kl_div_loss, make_soft_margin_loss, make_hinge_embedding_loss,
        make_poisson_nll_loss, make_mse_loss, make_l1_loss, make_huber_loss, make_nll_loss, make_cross_entropy_loss,
           make_bce_with_logits_loss;                                                      /* loss.c */
#endif
