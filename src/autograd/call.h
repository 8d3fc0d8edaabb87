/* Calling an op: op_call runs it inside its `op` stage and records its node. Results are in me's scope. Who calls ops
 * from elsewhere includes this and gets the operators with their names as well. */
#ifndef AUTOGRAD_CALL_H
#define AUTOGRAD_CALL_H
#include "autograd/history.h"
#include "autograd/inplace.h"
#include "autograd/operators.h"
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
/* The same, unless one of args.in that the op takes is NULL: then NULL. */
struct tensor *op_call_checked(struct task *me, enum op op, const struct op_args *args);
/* Any op of one or two operands and a number; NULL where it lacks one. */
struct tensor *op_on(struct task *me, enum op op, struct tensor *a, struct tensor *b, double alpha);
#endif
