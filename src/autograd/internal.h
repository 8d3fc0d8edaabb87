/* What the files of autograd/ share beyond their headers. They stand on each other in this order, each calling only
 * those before it; what a low one needs of a high one it finds as the backward function of a node:
 *
 *   hook_list  node  history       the graph: nodes, edges, which node a gradient goes to next
 *   save_layers  save  record      what an op's node remembers
 *   call                           an op: run, then recorded
 *   shaping  arrange  sparse  sparse_rules  operators  inplace  matmul  lstm      ops as PyTorch names them
 *   functions*                     gradients, made of these operators
 *   hooks  accumulate  graph  engine                          a backward
 *   checkpoint                     a call whose saved tensors are recomputed
 */
#ifndef AUTOGRAD_INTERNAL_H
#define AUTOGRAD_INTERNAL_H
#include <stdbool.h>
#include "autograd/call.h"
#include "autograd/node.h"

/* ---- node.c ---- */
void tensor_leave_history(struct task *me, struct tensor *tensor); /* it is no result any more */
void tensor_has_history(struct tensor *tensor);           /* it tells autograd when it dies */
/* A tensor without history becomes output `nr` of a node that has described that output already. */
void tensor_set_history(struct task *me, struct tensor *tensor, struct node *node, int nr);

/* ---- history.c ---- */
#define VIEW_WITHOUT_GRAD UINT32_MAX         /* view_version of a view made while grad mode was off */
void view_of(struct task *me, struct tensor *view, struct tensor *base);   /* sets base and view_version */
bool view_is_stale(const struct tensor *tensor);          /* its base was changed in place since it was made */
/* `node` is what happened to the tensor in place. */
bool history_rebase(struct task *me, struct tensor *tensor, struct node *node);
/* May one element be met at two indices? Stretched dimensions do not count if `stretched_too` is unset. */
bool strides_overlap(const struct strided *at, bool stretched_too);
/* The context of AsStrided and CopySlices: a view's place within its base. Gradients of a base are made as a vector of
 * `span` elements, as long as its memory, in which both are views. */
struct slice_place {
    struct strided view, base;
    int64_t        span;
    struct node   *inner; /* CopySlices: the node of the op that changed the slice; a reference */
};

/* ---- save.c, save_layers.c (layers, losses) ---- */
/* What an op takes gradients to, in the order of its node's edges. PyTorch counts a number as an operand, too. */
struct operands { struct tensor *own[OP_INPUTS]; struct tensor *const *tensors; int count; };
void op_operands(enum op op, const struct op_args *args, struct operands *operands);
bool save_tensors(struct task *me, struct node *node, enum op op, const struct op_args *args, struct tensor *result);
void save_numbers(struct node *node, enum op op, const struct op_args *args);
bool op_saves_self(enum op op, const struct op_args *args); /* in place it would overwrite what it saves */
bool op_is_layer(enum op op);
void layer_operands(enum op op, const struct op_args *args, struct tensor **own, int *count);
bool layer_save(struct task *me, struct node *node, enum op op, const struct op_args *args, struct tensor *result);
bool save_lstm_layer(struct task *me, struct node *node, const struct op_args *args, struct tensor *result);
void layer_numbers(struct node *node, enum op op, const struct op_args *args);

/* The node of an LSTM's layer: its outputs; what it saves: its operands, its result, what the walk left. */
enum { LSTM_OUTPUTS = 3, LSTM_OUT = LSTM_INPUTS, LSTM_SAVED_CELLS, LSTM_SAVED_GATES, LSTM_SAVED };

/* ---- record.c ---- */
/* Records `op` if any operand wants a gradient. kept: of op_keep_self; result: new, or args->out. false: failed. */
bool op_record(struct task *me, enum op op, const struct op_args *args, struct tensor *kept, struct tensor *result);
struct tensor *op_keep_self(struct task *me, enum op op, const struct op_args *args); /* before it runs: `kept` */
bool op_is_view(enum op op);
bool op_in_place(enum op op, const struct op_args *args);

/* ---- shaping.c ---- */
struct tensor *tensor_sum_to(struct task *me, struct tensor *a, int dims, const int64_t *sizes);

/* ---- sparse.c ---- */
struct tensor *sparse_embedding_grad(struct task *me, struct tensor *grad, struct tensor *indices, int64_t rows,
                                     int64_t padding);
struct tensor *sparse_sum(struct task *me, struct tensor *a, struct tensor *b, double alpha);  /* a + alpha * b */
struct rows_added { double alpha; bool in_place; const struct recorded_as *as; };
struct tensor *sparse_added_to(struct task *me, struct tensor *dense, struct tensor *sparse,
                               const struct rows_added *how);

/* ---- sparse_rules.c: what an op does with sparse operands, by sparse_rules.def; others refuse them (op_run) ---- */
typedef struct tensor *sparse_rule(struct task *me, enum op op, const struct op_args *args);
#define SPARSE(op, rule) sparse_rule rule;
#include "autograd/sparse_rules.def"
#undef SPARSE

/* ---- functions*.c: one gradient function a row of ops.def, and those of views ---- */
#define OP(name, inputs, node, module, gradient, help) node_backward gradient;
#include "tensor/ops.def"
#undef OP
node_backward as_strided_backward, copy_slices_backward;

/* ---- accumulate.c ---- */
node_backward accumulate_backward;

/* ---- hooks.c: false: a hook failed. Gradients that hooks replace are given to me's scope ---- */
bool node_hook_run(struct task *me, const struct hook *hook, struct node *node, struct tensor **grads, int count);
bool hooks_run(struct task *me, struct hook_list *list, struct node *node, struct tensor **grads, int count);
bool leaf_hooks_run_after(struct task *me, struct tensor *leaf, struct node *node);
bool tensor_hooks_run(struct task *me, struct node *node, struct tensor **grads); /* by output; then retain_grad */
#endif
