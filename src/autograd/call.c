/* Calling an op: its stage, its price, its result, its node. Then arithmetic and products as PyTorch spells them;
 * shapes are in shaping.c, layers and losses in functional.c, changes in place in inplace.c.
 * In PyTorch: c10::Dispatcher::call and what the Autograd key does there. */
#include "autograd/call.h"
#include <stdlib.h>
#include "autograd/internal.h"
#include "device/storage.h"
#include "sched/stage.h"

struct price_cover *
price_cover_set(struct task *me, struct price_cover *cover)
{
    struct price_cover *old = (struct price_cover *)(uintptr_t)me->slots[SLOT_PRICE];
    me->slots[SLOT_PRICE]   = (uintptr_t)cover;
    if (cover != NULL)
        cover->outer = old;
    return old;
}

void
price_cover_restore(struct task *me, struct price_cover *old)
{
    me->slots[SLOT_PRICE] = (uintptr_t)old;
}

/* The name under which this op is priced: the first kernel of a cover takes its price, the rest is free (""). */
static const char *
price_name(struct task *me, enum op op, const char *asked)
{
    struct price_cover *cover = (struct price_cover *)(uintptr_t)me->slots[SLOT_PRICE];
    while (cover != NULL && !cover->found)
        cover = cover->outer;
    if (cover == NULL)
        return asked;
    if (cover->taken)
        return "";
    if (op_is_view(op))
        return asked;
    cover->taken = true;
    return cover->name;
}

/* On virtual time an op may cost what its module does. */
static struct tensor *
run_priced(struct task *me, enum op op, const struct op_args *args)
{
    struct op_args priced = *args;
    priced.module = price_name(me, op, args->module);
    return op_run(me, op, &priced);
}

/* The dispatcher: run, then record. A result that is not the target is the caller's from here on. */
struct tensor *
op_call(struct task *me, enum op op, const struct op_args *args)
{
    STAGE(me, op, stage_name_id(me, op_info(op)->name));
    struct tensor *kept   = op_keep_self(me, op, args);
    struct tensor *result = sched_is_stepped(me->sched) ? run_priced(me, op, args)
                                                        : op_run(me, op, args);
    if (result == NULL)
        return NULL;
    if (op_in_place(op, args))
        tensor_bump(result);
    if (op_is_view(op))
        view_of(me, result, args->in[0]);
    if (!op_record(me, op, args, kept, result))
        return NULL;
    stage_set(&stage_, 1, result->storage->number);
    stage_set(&stage_, 2, tensor_bytes(result));
    return result == args->out ? result : hand_up(me, result);
}

static struct tensor *
call_two(struct task *me, enum op op, struct tensor *a, struct tensor *b, double alpha)
{
    struct op_args args = { .in = { a, b }, .alpha = alpha };
    return a != NULL && b != NULL ? op_call(me, op, &args) : NULL;
}

static struct tensor *
call_number(struct task *me, enum op op, struct tensor *a, double number)
{
    struct op_args args = { .in = { a }, .alpha = number };
    return a != NULL ? op_call(me, op, &args) : NULL;
}

struct tensor *
tensor_add(struct task *me, struct tensor *a, struct tensor *b)
{
    if (tensor_is_sparse(a) || tensor_is_sparse(b))
        return a != NULL && b != NULL ? sparse_sum(me, a, b) : NULL;
    return call_two(me, OP_add, a, b, 1);
}

struct tensor *
tensor_add_scaled(struct task *me, struct tensor *a, struct tensor *b, double alpha)
{
    return call_two(me, OP_add, a, b, alpha);
}

struct tensor *
tensor_sub(struct task *me, struct tensor *a, struct tensor *b)
{
    return call_two(me, OP_sub, a, b, 1);
}

struct tensor *
tensor_mul(struct task *me, struct tensor *a, struct tensor *b)
{
    return call_two(me, OP_mul, a, b, 1);
}

struct tensor *
tensor_div(struct task *me, struct tensor *a, struct tensor *b)
{
    return call_two(me, OP_div, a, b, 1);
}

struct tensor *
tensor_add_number(struct task *me, struct tensor *a, double number)
{
    return call_number(me, OP_add_scalar, a, number);
}

struct tensor *
tensor_mul_number(struct task *me, struct tensor *a, double number)
{
    return call_number(me, OP_mul_scalar, a, number);
}

struct tensor *
tensor_div_number(struct task *me, struct tensor *a, double number)
{
    return call_number(me, OP_div_scalar, a, number);
}

struct tensor *
tensor_neg(struct task *me, struct tensor *a)
{
    return call_number(me, OP_neg, a, 0);
}

struct tensor *
tensor_relu(struct task *me, struct tensor *a)
{
    return call_number(me, OP_relu, a, 0);
}

struct tensor *
tensor_abs(struct task *me, struct tensor *a)
{
    return call_number(me, OP_abs, a, 0);
}

struct tensor *
tensor_sum(struct task *me, struct tensor *a)
{
    return call_number(me, OP_sum, a, 0);
}

struct tensor *
tensor_mean(struct task *me, struct tensor *a)
{
    return call_number(me, OP_mean, a, 0);
}

struct tensor *
tensor_mm(struct task *me, struct tensor *a, struct tensor *b)
{
    return call_two(me, OP_mm, a, b, 1);
}

struct tensor *
tensor_copied(struct task *me, struct tensor *a)
{
    return call_number(me, OP_clone, a, 0);
}

struct tensor *
tensor_copy_to(struct task *me, struct tensor *a, int device, enum dtype dtype)
{
    if (a == NULL)
        return NULL;
    if (tensor_device(a) == device && a->dtype == dtype)
        return tensor_born(me, tensor_ref(a));
    struct op_args args = { .in = { a }, .out = tensor_empty(me, dtype, device, a->dims, a->size) };
    return args.out != NULL ? op_call(me, OP_copy, &args) : NULL;
}

struct tensor *
tensor_detach(struct task *me, struct tensor *a)
{
    return a != NULL ? tensor_alias(me, a) : NULL;
}
