/* Arithmetic and products as PyTorch spells them. */
#include "autograd/call.h"

struct tensor *
tensor_add(struct task *me, struct tensor *a, struct tensor *b)
{
    return op_on(me, OP_add, a, b, 1);
}

struct tensor *
tensor_add_scaled(struct task *me, struct tensor *a, struct tensor *b, double alpha)
{
    return op_on(me, OP_add, a, b, alpha);
}

struct tensor *
tensor_sub(struct task *me, struct tensor *a, struct tensor *b)
{
    return op_on(me, OP_sub, a, b, 1);
}

struct tensor *
tensor_mul(struct task *me, struct tensor *a, struct tensor *b)
{
    return op_on(me, OP_mul, a, b, 1);
}

struct tensor *
tensor_div(struct task *me, struct tensor *a, struct tensor *b)
{
    return op_on(me, OP_div, a, b, 1);
}

struct tensor *
tensor_add_number(struct task *me, struct tensor *a, double number)
{
    return op_on(me, OP_add_scalar, a, NULL, number);
}

struct tensor *
tensor_mul_number(struct task *me, struct tensor *a, double number)
{
    return op_on(me, OP_mul_scalar, a, NULL, number);
}

struct tensor *
tensor_div_number(struct task *me, struct tensor *a, double number)
{
    return op_on(me, OP_div_scalar, a, NULL, number);
}

struct tensor *
tensor_neg(struct task *me, struct tensor *a)
{
    return op_on(me, OP_neg, a, NULL, 0);
}

struct tensor *
tensor_relu(struct task *me, struct tensor *a)
{
    return op_on(me, OP_relu, a, NULL, 0);
}

struct tensor *
tensor_abs(struct task *me, struct tensor *a)
{
    return op_on(me, OP_abs, a, NULL, 0);
}

struct tensor *
tensor_mean(struct task *me, struct tensor *a)
{
    return op_on(me, OP_mean, a, NULL, 0);
}

struct tensor *
tensor_mm(struct task *me, struct tensor *a, struct tensor *b)
{
    return op_on(me, OP_mm, a, b, 1);
}
