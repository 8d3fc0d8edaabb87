/* Changes in place: each asks whether PyTorch would allow it (inplace_allowed), rewrites the history of views and bumps
 * the version. Each answers the tensor itself, NULL: failed. */
#ifndef AUTOGRAD_INPLACE_H
#define AUTOGRAD_INPLACE_H
#include "tensor/op.h"

struct tensor *tensor_in_place(struct task *me, enum op op, const struct op_args *args); /* into in[0] */
struct tensor *tensor_add_(struct task *me, struct tensor *a, struct tensor *b, double alpha);
struct tensor *tensor_mul_(struct task *me, struct tensor *a, double number);
struct tensor *tensor_div_(struct task *me, struct tensor *a, double number);
struct tensor *tensor_relu_(struct task *me, struct tensor *a);
struct tensor *tensor_fill_(struct task *me, struct tensor *a, double number);
bool           tensor_stretches_to(const struct tensor *from, const struct tensor *to); /* by expand */
struct tensor *tensor_copy_(struct task *me, struct tensor *a, struct tensor *from);
#endif
