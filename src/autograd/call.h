/* Operators with gradients: op_call runs an op inside its `op` stage and records the node; the named functions spell
 * it as PyTorch does. All give their result to me's scope and answer NULL to a NULL operand. */
#ifndef AUTOGRAD_CALL_H
#define AUTOGRAD_CALL_H
#include "tensor/op.h"

/* A price by name that covers all ops of a module's forward or of a node's backward: the first kernel takes it, the
 * others are free. A module without a price is covered by the one around it. Whoever opens one puts the old one
 * back. */
struct price_cover {
    const char *name;            /* "Linear", "Linear_backward" */
    bool        found;           /* the cost model knows that name */
    bool        taken;           /* nothing more to pay */
    bool        recorded;        /* a node of this module's forward carries its name already */
    struct price_cover *outer;   /* set by price_cover_set */
};
struct price_cover *price_cover_set(struct task *me, struct price_cover *cover); /* the old one */
void                price_cover_restore(struct task *me, struct price_cover *old);

/* args.out set: in place, the version is bumped; but copy with flag unset fills a fresh tensor. */
struct tensor *op_call(struct task *me, enum op op, const struct op_args *args);

/* Any op of one or two operands and a number. */
struct tensor *op_on(struct task *me, enum op op, struct tensor *a, struct tensor *b, double alpha);
struct tensor *tensor_add(struct task *me, struct tensor *a, struct tensor *b);
struct tensor *tensor_add_scaled(struct task *me, struct tensor *a, struct tensor *b, double alpha);
struct tensor *tensor_sub(struct task *me, struct tensor *a, struct tensor *b);
struct tensor *tensor_mul(struct task *me, struct tensor *a, struct tensor *b);
struct tensor *tensor_div(struct task *me, struct tensor *a, struct tensor *b);
struct tensor *tensor_add_number(struct task *me, struct tensor *a, double number);
struct tensor *tensor_mul_number(struct task *me, struct tensor *a, double number);
struct tensor *tensor_div_number(struct task *me, struct tensor *a, double number);
struct tensor *tensor_neg(struct task *me, struct tensor *a);
struct tensor *tensor_mm(struct task *me, struct tensor *a, struct tensor *b);
struct tensor *tensor_matmul(struct task *me, struct tensor *a, struct tensor *b);  /* of all ranks */
struct tensor *tensor_relu(struct task *me, struct tensor *a);
struct tensor *tensor_abs(struct task *me, struct tensor *a);
struct tensor *tensor_sum(struct task *me, struct tensor *a);
struct tensor *tensor_sum_dim(struct task *me, struct tensor *a, int dim, bool keepdim);
struct tensor *tensor_mean(struct task *me, struct tensor *a);
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
struct tensor *tensor_as_strided(struct task *me, struct tensor *a, int dims, const int64_t *sizes,
                                 const int64_t *strides, int64_t offset);
struct tensor *tensor_permute(struct task *me, struct tensor *a, int dims, const int64_t *order);
/* Reductions (sum_dims, mean_dims, prod, amax ... std) over `dims` dimensions, over all if that is 0. */
struct fold_options { int dims; int64_t dim[TENSOR_DIMS]; bool keepdim, any; double correction; };
struct tensor *tensor_fold(struct task *me, enum op op, struct tensor *a, const struct fold_options *options);
/* index, index_select: rows of a dimension; index_put, index_add: `from` in their places. */
struct tensor *tensor_index_select(struct task *me, enum op op, struct tensor *a, int64_t dim, struct tensor *index);
struct tensor *tensor_index_put(struct task *me, enum op op, struct tensor *a, int64_t dim, struct tensor *index,
                                struct tensor *from, double alpha);
/* `count` views that follow each other, one node for all; in me's scope. false: failed. */
bool tensor_split(struct task *me, struct tensor *a, int dim, const int64_t *lengths, int count, struct tensor **out);
bool tensor_unbind(struct task *me, struct tensor *a, int dim, struct tensor **out); /* one view for each index */
/* Zeros of the dtype and on the device of `like`. */
struct tensor *zeros_of(struct task *me, const struct tensor *like, int dims, const int64_t *sizes);
struct tensor *tensor_expand(struct task *me, struct tensor *a, int dims, const int64_t *sizes);
struct tensor *tensor_cat(struct task *me, struct tensor *const *parts, int count, int dim);
struct tensor *tensor_copy_to(struct task *me, struct tensor *a, int device, enum dtype dtype); /* t:to(): recorded */
struct tensor *tensor_copied(struct task *me, struct tensor *a);                                /* t:clone() */
struct tensor *tensor_to_dense(struct task *me, struct tensor *a);   /* sparse.c: itself unless it is sparse */
struct tensor *sparse_coalesced(struct task *me, struct tensor *a);  /* each row once */
struct tensor *tensor_detach(struct task *me, struct tensor *a);           /* shares storage and version */
/* torch.chunk's rule: pieces of ceil(size / chunks); fewer than asked for when that fills up sooner; `size` 0 gives
 * `chunks` empty ones. Writes at most `chunks` lengths, answers how many; 0: failed (chunks < 1 or 0-dim). */
int chunk_lengths(struct task *me, const struct tensor *tensor, int64_t chunks, int dim, int64_t *lengths);
/* In place: checks PyTorch's rules (a leaf that requires grad, multi-output views), rebases views' history, bumps
 * versions. Each answers the tensor itself, NULL: failed. */
struct tensor *tensor_in_place(struct task *me, enum op op, const struct op_args *args); /* into in[0] */
struct tensor *tensor_add_(struct task *me, struct tensor *a, struct tensor *b, double alpha);
struct tensor *tensor_mul_(struct task *me, struct tensor *a, double number);
struct tensor *tensor_div_(struct task *me, struct tensor *a, double number);
struct tensor *tensor_relu_(struct task *me, struct tensor *a);
struct tensor *tensor_fill_(struct task *me, struct tensor *a, double number);
struct tensor *tensor_copy_(struct task *me, struct tensor *a, struct tensor *from);
bool inplace_allowed(struct task *me, struct tensor *tensor); /* for random fills: uniform_, normal_ ... */
#endif
