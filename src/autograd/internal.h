/* What the files of autograd/ share: gradient functions by name, the history of views, hooks that run. */
#ifndef AUTOGRAD_INTERNAL_H
#define AUTOGRAD_INTERNAL_H
#include <stdbool.h>
#include "autograd/call.h"
#include "autograd/node.h"

/* functions.c: one function a row of ops.def. */
#define OP(name, inputs, node, module, gradient, help) node_backward gradient;
#include "tensor/ops.def"
#undef OP
/* Records `op` if any operand wants a gradient; result: new, or args->out. false: failed. */
bool op_record(struct task *me, enum op op, const struct op_args *args, struct tensor *kept, struct tensor *result);
struct tensor *op_keep_self(struct task *me, enum op op, const struct op_args *args); /* before it runs: `kept` */
/* A tensor without history becomes output `nr` of a node that has described that output already. */
void tensor_set_history(struct task *me, struct tensor *tensor, struct node *node, int nr);
bool op_is_view(enum op op);
bool op_in_place(enum op op, const struct op_args *args);

/* save.c */
void save_operands(enum op op, const struct op_args *args, struct tensor **own, int *count);
bool save_more(struct task *me, struct node *node, enum op op, const struct op_args *args, struct tensor *result);
void save_more_numbers(struct node *node, enum op op, const struct op_args *args);
bool op_is_layer(enum op op);                                          /* save_layers.c */
void layer_operands(enum op op, const struct op_args *args, struct tensor **own, int *count);
bool layer_save(struct task *me, struct node *node, enum op op, const struct op_args *args, struct tensor *result);
void layer_numbers(struct node *node, enum op op, const struct op_args *args);
bool op_saves_self(enum op op, const struct op_args *args);

/* view.c */
#define VIEW_WITHOUT_GRAD UINT32_MAX         /* view_version of a view made while grad mode was off */
void view_of(struct task *me, struct tensor *view, struct tensor *base);   /* sets base and view_version */
bool view_is_stale(const struct tensor *tensor);          /* its base was changed in place since it was made */
/* `node` is what happened to the tensor in place. */
bool history_rebase(struct task *me, struct tensor *tensor, struct node *node);

/* node.c */
void tensor_has_history(struct tensor *tensor);           /* it tells autograd when it dies */

/* shaping.c */
struct tensor *tensor_sum_to(struct task *me, struct tensor *a, int dims, const int64_t *sizes);

/* sparse.c */
struct tensor *sparse_embedding_grad(struct task *me, struct tensor *grad, struct tensor *indices, int64_t rows,
                                     int64_t padding);
struct tensor *sparse_sum(struct task *me, struct tensor *a, struct tensor *b);
void           sparse_assign(struct task *me, struct tensor *tensor, const struct tensor *from);
struct tensor *sparse_cleared(struct task *me, struct tensor *tensor);

/* accumulate.c */
node_backward accumulate_backward;

/* hooks.c: false: a hook failed. Gradients that hooks replace are given to me's scope. */
bool node_hook_run(struct task *me, const struct hook *hook, struct node *node, struct tensor **grads, int count);
bool hooks_run(struct task *me, struct hook_list *list, struct node *node, struct tensor **grads, int count);
bool leaf_hooks_run_after(struct task *me, struct tensor *leaf, struct node *node);
bool tensor_hooks_run(struct task *me, struct node *node, struct tensor **grads); /* by output; then retain_grad */
#endif
