/* Operators: one row of ops.def each. op_run computes without recording gradients (autograd/call.h records).
 * On a virtual device the work is queued on the current stream; on the CPU it is done now by the task. */
#ifndef TENSOR_OP_H
#define TENSOR_OP_H
#include "tensor/cpu/kernel.h"
#include "tensor/cpu/update.h"
#include "tensor/tensor.h"

enum op {
#define OP(name, ...) OP_##name,
#include "tensor/ops.def"
#undef OP
    OP_COUNT
};

enum { OP_INPUTS = CALL_INPUTS, OP_MORE = 2 };
/* Operands of an LSTM's layer in PyTorch's order; what it leaves beside its result. The biases may be absent. */
enum lstm_input { LSTM_INPUT, LSTM_IH, LSTM_HH, LSTM_IH_BIAS, LSTM_HH_BIAS, LSTM_H, LSTM_C, LSTM_INPUTS };
enum lstm_more  { LSTM_MORE_CELLS, LSTM_MORE_GATES };
/* Of its gradient: what came for the three outputs (each may be absent), the weight, what the layer left. */
enum lstm_back_input { LSTM_GRAD, LSTM_GRAD_H, LSTM_GRAD_C, LSTM_BACK_HH, LSTM_CELLS, LSTM_GATES, LSTM_BACK_INPUTS };
enum view_kind { VIEW_PLAIN, VIEW_RESHAPED, VIEW_UNSAFE };   /* PyTorch's view, _reshape_alias, _unsafe_view */
/* How an op is recorded where PyTorch has several functions for what is one op here: its node's name, and how many of
 * its operands the node has edges for (0: as many as the op's row says). */
struct recorded_as { const char *node; int edges; };

/* What each op reads beside `in`:
 *     add, sub                   alpha: factor of the second (give 1)
 *     *_scalar, fill             alpha: the number; flag: it is a fraction in the script (1.0), so an
 *                                integer tensor becomes float32
 *     addmm                      in: bias, input, weight as a transposed view
 *     embedding                  in: weight, indices.  embedding_backward  in: gradient, indices; length: rows of the
 *                                weight; start: padding_idx, -1 none
 *     add_rows                   in: table, indices [pairs], rows [pairs, ...] in one piece; alpha
 *     threshold_backward         in: gradient, result
 *     sum_dim                    dim, keepdim.  sum_to  dims, sizes
 *     log_softmax, _backward     dim; in of the latter: gradient, result
 *     nll_loss                   in: input, target, weight of each class (step 0: there is none, give the target);
 *                                _backward: the gradient before them. dim: enum reduction; start: the target that
 *                                does not count; alpha: label smoothing
 *     mse_loss                   in: input, target; dim: enum reduction.  _backward  in: gradient, input, target
 *     embedding, _backward       step 1: gradients are divided by how often their row was looked up
 *     softmax, _backward  dim.  gelu, _backward  start: 1 by tanh.  layer_norm ... as cpu/norm.c says
 *     conv2d ...                 sizes: stride, padding, dilation (height, width), groups; see cpu/conv.c, cpu/pool.c;
 *                                start 1: no bias (give the weight in its place)
 *     silu ... threshold         alpha, beta: the numbers of cpu/activation.def, of gradients too (in: gradient, input)
 *     huber_loss ... bce         in: input, target; alpha: the loss's number; dim: enum reduction; bce: in[2]: weight
 *                                (start 1: none).  _backward  in: gradient, input, target; beta: 1 / elements of a mean
 *     group_norm ...             dim: groups; start: 1 a weight, 2 a bias; alpha: eps
 *     bce_with_logits            in: input, target, weight of the positive (start 1: none, give the target),
 *                                and weight (start 2: none, give the target); dim: enum reduction
 *     attention_weights          in: q, k, mask (start 0: none, give q); alpha: scale; flag: causal.  attention  in: q, k,
 *                                v, those weights; alpha, flag as there; list: the mask
 *     baddbmm                    in: added, a, b; alpha, beta.  safe_softmax  dim
 *     cat                        list, list_count, dim
 *     copy                       start: device, length: dtype; with out: into it, they are unused
 *     view, expand               dims, sizes (one -1: inferred; of expand: kept); view: start: enum view_kind
 *     transpose                  dim, start.  narrow  dim, start, length, step (0 is 1).  select  dim, start: index
 *     unsqueeze, squeeze         dim (squeeze: flag: all of size 1).  permute  dims, sizes.  diagonal  dim, start: dimensions; length: offset
 *     sum_dims, mean_dims, prod, amax, amin, argmax, argmin, all, var, std
 *                                dims, sizes: the dimensions folded (none: all); keepdim; all: start 1 means any;
 *                                var, std: alpha, degrees of freedom taken
 *     norm, logsumexp            dims, sizes, keepdim as above; norm: alpha is p
 *     stack                      list, list_count, dim.  repeat  dims, sizes: times.  trace  a matrix
 *     roll                       sizes: how far each dimension moves; alpha 1: all elements in one line, by sizes[0]
 *     cumsum, cumprod            dim.  argsort  dim; start: descending.  tril, triu  start: diagonal
 *     flip                       start: bit d turns dimension d
 *     gather, max_dim ... topk   in: input, indices; dim.  scatter, scatter_add  in: input, indices, source; dim
 *     index, index_select        in: input, indices; dim.  index_put, index_add  in: input, indices, rows; dim (alpha)
 *     clamp  in: input, low, high.  where  in: condition, yes, no.  masked_fill  in: input, mask; alpha
 *     lstm_layer                 list: enum lstm_input; start 1: from the last step; flag: gradients will be wanted;
 *                                more: cells [steps + 1, rows, wide] and gates (without flag: [1, rows, wide], NULL)
 *     lstm_layer_backward        list: enum lstm_back_input; start as above; flag: also to the first state; more: that
 *     sgd                        in: param, gradient, momentum buffer or NULL; update, NULL: alpha is the rate
 *     adam                       in: param, gradient, exp_avg, exp_avg_sq; list: with amsgrad the maximum; update
 *     adagrad                    in: param, gradient, sum of squares; update
 * With `out` the result goes there (the version is not bumped: the caller of in-place ops does that); sgd
 * writes into in[0]. */
struct op_args {
    struct tensor *in[OP_INPUTS];
    struct tensor *out;                /* in-place and out= : where the result goes; NULL: a new tensor */
    double         alpha, beta;        /* scalars of the op; each op's row says which it uses */
    int64_t        dim, start, length, step;
    bool           keepdim, flag;
    int            dims;               /* a shape argument */
    int64_t        sizes[TENSOR_DIMS];
    struct tensor **list;              /* cat, stack, lstm_layer: the inputs instead of `in` */
    int            list_count;
    struct tensor **more;              /* lstm_layer, _backward: room for OP_MORE results beside the first */
    const struct update_rule *update;  /* sgd, adam, adagrad */
    const char    *module;             /* the module that calls, for prices; NULL none */
    const struct recorded_as *as;      /* NULL: as its row says */
};

struct op_info {
    const char *name;                  /* "add" */
    const char *node;                  /* "AddBackward0" */
    const char *module;                /* whose price it takes: "Linear"; "" none */
    int         inputs;
    const char *help;
};
const struct op_info *op_info(enum op op);
int op_find(const char *name);         /* -1: no such op */
bool prices_named(const struct task *me); /* this run has prices for ops or modules by name: else nobody asks */

/* The result, given to me's scope; NULL: failed, or an operand was NULL. Operands on different devices, wrong dtypes
 * and shapes that do not fit are failed(E_DEVICE, E_DTYPE, E_SHAPE) with the op's name and both shapes. A 0-dim
 * CPU tensor may meet a device tensor. Type promotion is PyTorch's (bool < integers < floats). */
struct tensor *op_run(struct task *me, enum op op, const struct op_args *args);

/* Copies between devices and dtypes: `to` and `from` have the same shape (or from expands). Between devices it is
 * one entry of the destination's stream (the source's current stream has been waited for). */
bool tensor_copy(struct task *me, struct tensor *to, struct tensor *from) __attribute__((warn_unused_result));
/* .to(): the same one if nothing changes; from the host to a device it returns when the elements have arrived.
 * The other is non_blocking=True. */
struct tensor *tensor_to(struct task *me, struct tensor *tensor, int device, enum dtype dtype);
struct tensor *tensor_to_async(struct task *me, struct tensor *tensor, int device, enum dtype dtype);
/* Elements that are written must not be read at another index, unless input and result are one view. Of tensors with
 * gaps or stretched dimensions nothing is known: false, as in PyTorch. */
bool           overlaps_badly(const struct tensor *input, const struct tensor *out);
struct tensor *tensor_clone(struct task *me, struct tensor *tensor);        /* contiguous */
struct tensor *tensor_contiguous(struct task *me, struct tensor *tensor);   /* the same one if it is */
bool tensor_fill(struct task *me, struct tensor *tensor, double value) __attribute__((warn_unused_result));

/* The name of the module whose forward (or "Linear_backward": whose node) me is in; SLOT_MODULE. NULL: none. An op
 * takes its price by its own name, else by this module's, else by the module in its row, else the plain one. This
 * module's price is that of the whole: the first op takes it and the slot becomes "", which means that further ops
 * cost nothing (op_args.module "" says the same). Who sets a name restores the one before. Static or interned text. */
const char *task_module(const struct task *me);
void        task_set_module(struct task *me, const char *name);
#endif
