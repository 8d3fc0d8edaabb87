/* Recording: after an op has run, its node is made if anybody wants a gradient. An edge per differentiable operand;
 * what the node remembers is save.c's business. In PyTorch: the generated VariableType functions. */
#include <stdio.h>
#include <string.h>
#include "autograd/internal.h"
#include "device/stream.h"
#include "hw/cost.h"
#include "sched/sched.h"

static node_backward *const gradient_table[OP_COUNT] = {
#define OP(name, inputs, node, module, gradient, help) gradient,
#include "tensor/ops.def"
#undef OP
};

bool
op_is_view(enum op op)
{
    switch (op) {
    case OP_view:
    case OP_expand:
    case OP_t:
    case OP_transpose:
    case OP_narrow:
    case OP_select:
    case OP_unsqueeze:
    case OP_squeeze:
    case OP_permute:
    case OP_diagonal: return true;
    default: return false;
    }
}

/* An op with a target changes it in place; only copy may also fill a fresh one. */
bool
op_in_place(enum op op, const struct op_args *args)
{
    return args->out != NULL && (op != OP_copy || args->flag);
}

static bool
has_backward_price(struct task *me, const char *module)
{
    const struct cost_model *model = sched_cost(me->sched);
    char                     name[64];
    bool                     found = false;
    if (!sched_is_stepped(me->sched))
        return false; /* no prices on the wall clock */
    snprintf(name, sizeof name, "%s_backward", module);
    if (model != NULL)
        cost_kernel(model, NULL, name, &found);
    return found;
}

/* A price like Linear_backward is paid once for all nodes of a forward: the first node carries the module's name, the
 * later ones none. Where no module around has such a price an op carries the name of the module that it belongs to. */
static void
node_name_module(struct task *me, struct node *node, enum op op)
{
    struct price_cover *innermost = (struct price_cover *)(uintptr_t)me->slots[SLOT_PRICE];
    const char         *module    = op_info(op)->module;
    node->op = op_info(op)->name;
    if (op_is_view(op) || !prices_named(me))
        return;
    for (struct price_cover *cover = innermost; cover != NULL; cover = cover->outer) {
        if (!has_backward_price(me, cover->name))
            continue;
        snprintf(node->module, sizeof node->module, "%s", cover->recorded ? "" : cover->name);
        cover->recorded = true;
        return;
    }
    if (module[0] == '\0' && innermost != NULL)
        module = innermost->name;
    snprintf(node->module, sizeof node->module, "%s", module);
}

static bool
node_fill(struct task *me, struct node *node, enum op op, const struct op_args *args, struct tensor *result)
{
    node_name_module(me, node, op);
    node->device = tensor_device(result);
    if (node->device >= 0) {
        node->stream = stream_current(me, node->device);
        if (node->stream == NULL)
            return false;
    }
    save_numbers(node, op, args);
    return save_tensors(me, node, op, args, result);
}

/* An op that would overwrite what it saves: the copy that takes that one's place, with its history. NULL: none is
 * needed, or failed. */
struct tensor *
op_keep_self(struct task *me, enum op op, const struct op_args *args)
{
    struct operands operands;
    if (args->out == NULL || args->out != args->in[0] || !grad_enabled(me) || !op_saves_self(op, args))
        return NULL;
    op_operands(op, args, &operands);
    if (!dtype_is_float(args->out->dtype) || !any_requires_grad(me, operands.tensors, operands.count))
        return NULL;
    int            nr   = 0;
    struct tensor *kept = tensor_clone(me, args->in[0]);
    struct node   *from = kept != NULL ? gradient_edge(me, args->in[0], &nr) : NULL;
    if (from != NULL)
        tensor_set_history(me, kept, from, nr);
    node_unref(me, from);
    return kept;
}

/* In place: what was saved of the target's own storage had the version before the change, and so is not what it was. */
static void
date_back(struct node *node, const struct tensor *target)
{
    for (int i = 0; i < node->saved_count; i++) {
        struct saved *saved = &node->saved[i];
        if (saved->tensor != NULL && !saved->is_output && saved->tensor->version == target->version)
            saved->version--;
    }
}

/* Where PyTorch has several functions for what is one op here. */
static const char *
node_name_of(enum op op, const struct op_args *args)
{
    static const char *const views[] = { "ViewBackward0", "ReshapeAliasBackward0", "UnsafeViewBackward0" };
    if (args->as != NULL)
        return args->as->node;
    switch (op) {
    case OP_view: return views[args->start];
    case OP_squeeze: return args->flag ? "SqueezeBackward0" : "SqueezeBackward1";
    case OP_prod: return args->dims > 0 ? "ProdBackward1" : "ProdBackward0";
    case OP_copy: return args->flag ? "CopyBackwards" : "ToCopyBackward0";
    default: return op_info(op)->node[0] != '\0' ? op_info(op)->node : "NotImplemented";
    }
}

bool
op_record(struct task *me, enum op op, const struct op_args *args, struct tensor *kept, struct tensor *result)
{
    struct operands operands;
    if (!grad_enabled(me) || !dtype_is_float(result->dtype))
        return true;
    op_operands(op, args, &operands);
    if (args->as != NULL && args->as->edges > 0)
        operands.count = args->as->edges;
    if (!any_requires_grad(me, operands.tensors, operands.count))
        return true;
    bool               lstm = op == OP_lstm_layer;
    struct node_room   room = { operands.count, lstm ? LSTM_OUTPUTS : 1, lstm ? LSTM_SAVED : NODE_SAVED };
    struct node       *node = node_new_with(me, node_name_of(op, args), gradient_table[op], &room);
    if (node == NULL)
        return false;
    for (int i = 0; i < operands.count; i++)
        node_connect(me, node, i, operands.tensors[i]);
    struct op_args saving = *args;
    if (kept != NULL)
        saving.in[0] = kept;
    bool ok = !task_failed(me) && node_fill(me, node, op, &saving, result);
    if (ok && op_in_place(op, args)) {
        date_back(node, result);
        ok = history_rebase(me, result, node);
    } else if (ok)
        node_output(me, node, result, 0);
    node_unref(me, node);
    return ok;
}
