/* What the files of tensor/ share: tensors as the views that kernels work on, and the plan of an op. */
#ifndef TENSOR_INTERNAL_H
#define TENSOR_INTERNAL_H
#include "base/philox.h"
#include "device/storage.h"
#include "device/stream.h"
#include "sched/task.h"
#include "tensor/blas.h"
#include "tensor/cpu/draw.h"
#include "tensor/cpu/kernels.h"
#include "tensor/cpu/view.h"
#include "tensor/op.h"
#include "tensor/tensor.h"

/* What is known of an op before it runs. */
struct plan {
    enum op    op;
    enum kernel kernel;
    int        device;
    enum dtype dtype, compute, common;        /* of the result; of the calculation; what operands become before it */
    int        dims, loop_dims;               /* of the result, of the loop */
    bool       broadcast;                     /* inputs are stretched to `loop` */
    bool       onto;                          /* in place the kernel touches only what changes */
    unsigned   reduced;                       /* bit d: dimension d of input 0 is summed away */
    size_t     workspace;                     /* bytes */
    double     products;                      /* multiplications (or as much) beyond one for each element; 0: none */
    double     alpha;
    int64_t    dim;
    int64_t    size[TENSOR_DIMS];             /* the result's shape; from here on not cleared */
    int64_t    loop[TENSOR_DIMS];
};
typedef bool op_plan(struct task *me, struct plan *plan, const struct op_args *args);

/* ---- tensor.c ---- */
bool            shape_count(struct task *me, int dims, const int64_t *sizes, int64_t *count); /* false: failed */
void            tensor_look(const struct tensor *tensor, struct cpu_view *view); /* as many sizes as there are */
struct cpu_view tensor_raw(const struct tensor *tensor);
size_t          tensor_pack_bytes(const struct tensor *tensor, enum dtype compute); /* see cpu/pack.h */
void            tensor_memory_order(const struct tensor *tensor, int order[TENSOR_DIMS]); /* largest strides first */
struct access   tensor_access(const struct tensor *tensor, bool write, const char *what);
void            tensor_snapshot(struct task *me, const struct tensor *tensor);
/* The host has written the tensor: the trace's snapshot, and a word to who watches the storage. false: failed. */
static inline bool
tensor_wrote(struct task *me, const struct tensor *tensor, const char *what)
{
    tensor_snapshot(me, tensor);
    if (__builtin_expect(tensor->storage->watches == NULL, 1))
        return true;
    struct access access = tensor_access(tensor, true, what);
    return storage_changed(me, &access, true);
}
struct stream_written tensor_written(const struct tensor *tensor);
bool            tensor_is_writable(struct task *me, const struct tensor *tensor); /* false: elements share memory */
struct access   storage_access(struct storage *storage, bool write, const char *what);

/* ---- shape.c ---- */
bool shape_wrap(struct task *me, const char *op, int dims, int64_t dim, int *out); /* negative dims; false: failed */
/* Stretches `dims` sizes so that `tensor` fits too; false: they do not fit. */
bool shape_broadcast(int *dims, int64_t *sizes, const struct tensor *tensor);
/* The loop runs over the broadcast shape of all inputs from `from` on, which is the result's too. */
bool plan_stretch(struct task *me, struct plan *plan, const struct op_args *args, int from);
bool shape_mismatch(struct task *me, enum op op, const struct tensor *a, const struct tensor *b, const char *why);
enum dtype dtype_promoted(struct tensor *const *tensors, int count);
bool number_fits(struct task *me, const struct plan *plan, enum dtype dtype); /* its alpha, as an element */
/* The operands' common type, which is that of the result too, and what to calculate in for it. */
void plan_promote(struct plan *plan, enum dtype dtype);
/* The type that the operands from `first` on make; false: there is none for a new tensor. */
bool plan_common(struct task *me, struct plan *plan, const struct op_args *args, int first);
bool dtype_exists(struct task *me, enum op op, struct tensor *const *tensors, int count); /* what they make */
void plan_like(struct plan *plan, const struct tensor *tensor);     /* the result has this one's shape */
/* Fails. */
bool plan_wrong_dtype(struct task *me, const struct plan *plan, const struct tensor *tensor, const char *wanted);
/* The same as a NotImplementedError: there is no kernel for that type. */
bool plan_no_kernel(struct task *me, const struct plan *plan, const struct tensor *tensor, const char *wanted);

/* ---- views.c, copy.c, plan.c ---- */
typedef struct tensor *op_special(struct task *me, enum op op, const struct op_args *args);
op_special view_view, view_expanded, view_t, view_transpose, view_narrow, view_select, view_unsqueeze, view_squeeze;
op_special run_copy, run_clone, run_cat;
op_special run_norm, run_logsumexp, run_trace, run_stack, run_repeat, run_roll;   /* compose.c */
op_special run_attention_weights, run_attention, run_safe_softmax, run_baddbmm;   /* attention.c */
op_special run_update;                           /* update.c: sgd, adam, adagrad */
op_special run_lstm_layer, run_lstm_layer_backward; /* lstm.c */
op_plan plan_add, plan_divide, plan_scalar, plan_divide_scalar, plan_unary, plan_compare, plan_mm, plan_addmm,
        plan_embedding, plan_embedding_backward, plan_add_rows, plan_threshold, plan_sum, plan_sum_dim, plan_mean, plan_sum_to,
        plan_extreme, plan_softmax, plan_softmax_backward, plan_nll, plan_nll_backward, plan_loss, plan_loss_backward,
        plan_mse_backward, plan_activation, plan_fill;

op_plan plan_function, plan_arithmetic, plan_power, plan_where, plan_masked_fill, plan_truth, plan_bits, plan_sum_dims,
        plan_mean_dims, plan_fold, plan_arg_fold, plan_truth_fold, plan_var, plan_running, plan_argsort, plan_gather,
        plan_scatter, plan_index, plan_index_put, plan_flip, plan_triangle, plan_bmm, plan_vector;
op_special view_permute, view_diagonal;

op_plan plan_gelu, plan_conv2d, plan_conv_transpose2d, plan_conv2d_weight, plan_max_pool2d_indices, plan_max_pool2d,
        plan_avg_pool2d, plan_avg_pool2d_backward, plan_batch_norm_stats, plan_batch_norm_gather_stats, plan_batch_norm,
        plan_batch_norm_sums, plan_batch_norm_terms, plan_batch_norm_backward, plan_layer_norm, plan_layer_norm_sums,
        plan_lstm_cell, plan_gru_cell, plan_bce, plan_group_norm, plan_group_norm_sums, plan_embedding_renorm;

/* The elements in one piece, as `like`'s type, in hidden host memory: of a device tensor after waiting for it. A new
 * reference; NULL: failed. */
struct storage *tensor_fetch(struct task *me, const struct tensor *like, struct tensor *from, int64_t told);
/* Packed elements in the order of `to`'s dimensions go into it; on a device by a copy of the current stream. */
bool            tensor_deliver(struct task *me, struct tensor *to, struct storage *packed, const char *what);

/* ---- philox.c: random fills that a real device does by itself ---- */
struct philox_fill { enum draw_kind kind; double a, b; struct philox at; };   /* low, high; mean, deviation; p */
/* Whether that is so; then at `at`, whose turn is over. NULL as the generator: the rank's own. */
bool            philox_turn(struct task *me, const struct tensor *tensor, struct generator *generator, struct philox *at);
bool            philox_fill(struct task *me, struct tensor *tensor, const struct philox_fill *fill, const char *what);

/* ---- info.c ---- */
extern const struct op_info op_infos[OP_COUNT];

/* ---- price.c ---- */
/* What an op costs: the host's part, and the work: the kernel's on a device, on the CPU only if it has a named price. */
struct price { uint64_t host, kernel, work; bool covered; };
struct price op_price(struct task *me, enum op op, const char *module);
void         op_pay_host(struct task *me, enum op op, const char *module); /* what it costs where the host does it */

/* ---- narrow.c: an op that has no kernel for its operands' type, by way of wider copies ---- */
struct op_args widened(struct task *me, const struct plan *plan, const struct op_args *args); /* without out */
struct tensor *narrowed(struct task *me, const struct plan *plan, struct tensor *out, struct tensor *made);

/* ---- op.c: the device of the operands; a 0-dim one on the host may meet any. false: failed ---- */
bool common_device(struct task *me, enum op op, struct tensor *const *tensors, int count, int *device);

/* ---- compute.c ---- */
bool op_compute(struct task *me, const struct plan *plan, const struct op_args *args, struct tensor *result);
#endif
