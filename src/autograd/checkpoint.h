/* Activation checkpointing: what a function saves for the backward is not kept; the backward calls the function again
 * and so gets it back. In PyTorch: torch/utils/checkpoint.py, whose two ways are both here.
 *
 * reentrant: the forward runs without grad mode; one node stands for the whole function. Its backward calls the function
 * with detached inputs and runs a backward inside of the backward.
 * not: the graph is recorded as ever, but each saved tensor is a place holder; the first that is asked for in a
 * backward has the function called again, until as many tensors were saved as in the forward.
 *
 * Order of use: checkpoint_new, checkpoint_forward, checkpoint_unref; the graph holds it as long as it needs it. */
#ifndef AUTOGRAD_CHECKPOINT_H
#define AUTOGRAD_CHECKPOINT_H
#include <stdbool.h>
#include <stddef.h>

struct task; struct tensor; struct checkpoint;

/* Tensors in the places of arguments or results; NULL where there is something else. References. */
struct passed { struct tensor **at; int count; size_t room; };
bool passed_add(struct task *me, struct passed *list, struct tensor *tensor);
void passed_clear(struct task *me, struct passed *list);

struct checkpointed {
    /* Calls the function with `inputs` in the places of its tensors. `outputs`: empty, to be filled. */
    bool (*run)(struct task *me, void *context, const struct passed *inputs, struct passed *outputs);
    void (*drop)(struct task *me, void *context);
    void  *context;
    bool   reentrant, keep_rng;
    bool   check;           /* the recomputed tensors have the shapes, types and devices of those of the forward */
    bool   early_stop;      /* as soon as all tensors are there again */
};

struct checkpoint *checkpoint_new(struct task *me, const struct checkpointed *what); /* NULL: failed, nothing is taken over */
void checkpoint_unref(struct task *me, struct checkpoint *checkpoint);
/* The function's own call. Results of a reentrant one take the places of those that the function gave. */
bool checkpoint_forward(struct task *me, struct checkpoint *checkpoint, const struct passed *inputs,
                        struct passed *outputs);
#endif
