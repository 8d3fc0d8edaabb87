/* Calling an op: its stage, its price, its result, its node. All operators that PyTorch names (operators.c, shaping.c
 * ...) come through here. In PyTorch: c10::Dispatcher::call and what the Autograd key does there. */
#include "autograd/call.h"
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

static sparse_rule *const sparse_rules[OP_COUNT] = {
#define SPARSE(op, rule) [OP_##op] = rule,
#include "autograd/sparse_rules.def"
#undef SPARSE
};

static bool
meets_sparse(enum op op, const struct op_args *args)
{
    bool sparse = tensor_is_sparse(args->out);
    for (int i = 0; i < op_info(op)->inputs; i++)
        sparse = sparse || tensor_is_sparse(args->in[i]);
    return sparse;
}

static struct tensor *
told(struct stage *stage, struct tensor *result)
{
    stage_set(stage, 1, result->storage->number);
    stage_set(stage, 2, tensor_bytes(result));
    return result;
}

/* The dispatcher: run, then record. A result that is not the target is the caller's from here on. */
struct tensor *
op_call(struct task *me, enum op op, const struct op_args *args)
{
    tensor_announce_all(me, args->in, op_info(op)->inputs, "input");
    STAGE(me, op, stage_name_id(me, op_info(op)->name));
    if (meets_sparse(op, args) && sparse_rules[op] != NULL) {
        struct tensor *made = sparse_rules[op](me, op, args);
        bool           fresh = made != NULL && made != args->out;
        return fresh ? hand_up(me, told(&stage_, made)) : made;
    }
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
    for (int i = 0; args->more != NULL && i < OP_MORE; i++) {
        if (args->more[i] != NULL)
            hand_up(me, args->more[i]);
    }
    told(&stage_, result);
    if (result != args->in[0])
        tensor_announce(me, result, "result");
    return result == args->out ? result : hand_up(me, result);
}

struct tensor *
op_call_checked(struct task *me, enum op op, const struct op_args *args)
{
    for (int i = 0; i < op_info(op)->inputs; i++)
        if (args->in[i] == NULL)
            return NULL;
    return op_call(me, op, args);
}

struct tensor *
op_on(struct task *me, enum op op, struct tensor *a, struct tensor *b, double alpha)
{
    return op_call_checked(me, op, &(struct op_args){ .in = { a, b }, .alpha = alpha });
}
