/* Operators with gradients, as PyTorch spells them: op_call behind checked arguments. All give their result to me's
 * scope and answer NULL to a NULL operand. Dimensions may count from the end. */
#ifndef AUTOGRAD_OPERATORS_H
#define AUTOGRAD_OPERATORS_H
#include "tensor/op.h"

/* ---- copies (shaping.c) ---- */
struct tensor *tensor_copied(struct task *me, struct tensor *a);                                /* t:clone() */
struct tensor *tensor_copy_to(struct task *me, struct tensor *a, int device, enum dtype dtype); /* t:to(): recorded */
struct tensor *tensor_detach(struct task *me, struct tensor *a);           /* shares storage and version */
struct tensor *tensor_detach_(struct task *me, struct tensor *a);          /* itself, a leaf (inplace.c) */
/* Zeros of the dtype and on the device of `like`. */
struct tensor *zeros_of(struct task *me, const struct tensor *like, int dims, const int64_t *sizes);

/* ---- shapes (shaping.c) ---- */
struct tensor *tensor_sum(struct task *me, struct tensor *a);
struct tensor *tensor_sum_dim(struct task *me, struct tensor *a, int dim, bool keepdim);
struct tensor *tensor_t(struct task *me, struct tensor *a);
struct tensor *tensor_transpose(struct task *me, struct tensor *a, int dim0, int dim1);
/* One -1 is inferred. A view when the strides allow it, else a clone and a view of that. */
struct tensor *tensor_reshape(struct task *me, struct tensor *a, int dims, const int64_t *sizes);
/* Sizes that surely fit, under the name of that kind of view. */
struct tensor *tensor_view_as(struct task *me, struct tensor *a, int dims, const int64_t *sizes, enum view_kind kind);
struct tensor *tensor_narrow(struct task *me, struct tensor *a, int dim, int64_t start, int64_t length);
struct tensor *tensor_select(struct task *me, struct tensor *a, int dim, int64_t index);
struct tensor *tensor_unsqueeze(struct task *me, struct tensor *a, int dim);
struct tensor *tensor_squeeze(struct task *me, struct tensor *a, int dim);
struct tensor *tensor_expand(struct task *me, struct tensor *a, int dims, const int64_t *sizes);
struct tensor *tensor_cat(struct task *me, struct tensor *const *parts, int count, int dim);
struct tensor *tensor_stack(struct task *me, struct tensor **parts, int count, int dim);
/* torch.chunk's rule: pieces of ceil(size / chunks); fewer than asked for when that fills up sooner; `size` 0 gives
 * `chunks` empty ones. Writes at most `chunks` lengths, answers how many; 0: failed (chunks < 1 or 0-dim). */
int chunk_lengths(struct task *me, const struct tensor *tensor, int64_t chunks, int dim, int64_t *lengths);

/* ---- other arrangements (arrange.c) ---- */
struct tensor *tensor_permute(struct task *me, struct tensor *a, int dims, const int64_t *order);
/* Reductions (sum_dims, mean_dims, prod, amax ... std) over `dims` dimensions, over all if that is 0. */
struct fold_options { int dims; int64_t dim[TENSOR_DIMS]; bool keepdim, any; double correction; };
struct tensor *tensor_fold(struct task *me, enum op op, struct tensor *a, const struct fold_options *options);
/* index, index_select: rows of a dimension; index_put, index_add: `from` in their places. */
struct tensor *tensor_index_select(struct task *me, enum op op, struct tensor *a, int64_t dim, struct tensor *index);
struct indexed_rows { int64_t dim; struct tensor *index, *from; };
struct tensor *tensor_index_put(struct task *me, enum op op, struct tensor *a, const struct indexed_rows *rows);
/* `count` views that follow each other, one node for all; in me's scope. false: failed. */
struct pieces { int dim, count; const int64_t *lengths; bool listed /* by a list of lengths */; };
bool tensor_split(struct task *me, struct tensor *a, const struct pieces *pieces, struct tensor **out);
bool tensor_unbind(struct task *me, struct tensor *a, int dim, struct tensor **out); /* one view for each index */

/* ---- arithmetic and products (operators.c, matmul.c) ---- */
struct tensor *tensor_add(struct task *me, struct tensor *a, struct tensor *b);  /* sparse: both, or b alone */
struct tensor *tensor_add_scaled(struct task *me, struct tensor *a, struct tensor *b, double alpha);
struct tensor *tensor_sub(struct task *me, struct tensor *a, struct tensor *b);
struct tensor *tensor_mul(struct task *me, struct tensor *a, struct tensor *b);
struct tensor *tensor_div(struct task *me, struct tensor *a, struct tensor *b);
struct tensor *tensor_add_number(struct task *me, struct tensor *a, double number);
struct tensor *tensor_mul_number(struct task *me, struct tensor *a, double number);
struct tensor *tensor_div_number(struct task *me, struct tensor *a, double number);
struct tensor *tensor_neg(struct task *me, struct tensor *a);
struct tensor *tensor_relu(struct task *me, struct tensor *a);
struct tensor *tensor_abs(struct task *me, struct tensor *a);
struct tensor *tensor_mean(struct task *me, struct tensor *a);
struct tensor *tensor_mm(struct task *me, struct tensor *a, struct tensor *b);
struct tensor *tensor_matmul(struct task *me, struct tensor *a, struct tensor *b);  /* of all ranks */

/* ---- recurrent layers (lstm.c) ---- */
/* All steps of an LSTM's layer in one direction (turned: from the last step), float32: in as enum lstm_input says; out:
 * the output of all steps, the last state, the last cell. The last two share the memory of what the layer keeps, and so
 * are for being copied out of at once. false: failed. */
bool lstm_layer(struct task *me, struct tensor *const *in, bool turned, struct tensor **out);

/* ---- sparse gradients (sparse.c) ---- */
struct tensor *tensor_to_dense(struct task *me, struct tensor *a);               /* itself unless it is sparse */
struct tensor *tensor_to_sparse(struct task *me, struct tensor *a);              /* rows that are not all 0 */
struct tensor *sparse_coalesced(struct task *me, struct tensor *a);              /* each row once, in rising order */
struct tensor *sparse_empty_like(struct task *me, struct tensor *a, enum dtype dtype, int device); /* no rows */
#endif
