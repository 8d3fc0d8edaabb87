/* Which node a tensor's gradient goes to, and what becomes of that when the tensor, or one that it shares memory with,
 * is changed in place. */
#ifndef AUTOGRAD_HISTORY_H
#define AUTOGRAD_HISTORY_H
#include <stdbool.h>
#include <stdint.h>
#include "tensor/tensor.h"

struct node;

/* What the backward of a tensor begins with: its grad_fn (brought up to date when it is a view whose base was changed
 * in place) or the accumulator of a leaf. A new reference, NULL without failure: it needs no gradient. */
struct node *gradient_edge(struct task *me, struct tensor *tensor, int *output_nr);
/* The node's next edge is that of `input`; may fail. */
void node_connect(struct task *me, struct node *node, int edge, struct tensor *input);
bool any_requires_grad(const struct task *me, struct tensor *const *tensors, int count); /* and grad mode is on */
/* PyTorch's rules (a leaf that requires grad, one of several views); false: failed. For ops and random fills. */
bool inplace_allowed(struct task *me, struct tensor *tensor);

/* Where the elements of a tensor lie in a storage. */
struct strided { int dims; int64_t size[TENSOR_DIMS], stride[TENSOR_DIMS], offset; };
struct strided strides_of(const struct tensor *tensor);
/* Any sizes and strides over a's storage; `offset` counts from its first element. */
struct tensor *tensor_as_strided(struct task *me, struct tensor *a, const struct strided *at);
#endif
