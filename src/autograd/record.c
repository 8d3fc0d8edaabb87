/* Recording: after an op has run, its node is made if anybody wants a gradient. An edge per differentiable operand;
 * what the gradient function (functions.c) needs is saved, and nothing else: an operand of mul only if the other
 * one wants a gradient, relu its result, add nothing. In PyTorch: the generated VariableType functions. */
#include <stdio.h>
#include <string.h>
#include "autograd/internal.h"
#include "device/device.h"
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

/* What an op takes gradients to, in the order of its node's edges. PyTorch counts a number as an operand, too. */
struct operands { struct tensor *own[OP_INPUTS]; struct tensor *const *tensors; int count; };

static void
operands_of(enum op op, const struct op_args *args, struct operands *operands)
{
    memcpy(operands->own, args->in, sizeof operands->own);
    operands->tensors = operands->own;
    operands->count   = op_info(op)->inputs;
    switch (op) {
    case OP_cat:
    case OP_stack:
        operands->tensors = args->list;
        operands->count   = args->list_count;
        break;
    case OP_fill:
        operands->own[0] = args->out;
        operands->count  = 1;
        break;
    case OP_copy:
        if (!args->flag)
            break;
        operands->own[0] = args->out;
        operands->own[1] = args->in[0];
        operands->count  = 2;
        break;
    case OP_rpow_scalar:
        operands->own[1] = args->in[0];
        operands->own[0] = NULL;
        operands->count  = 2;
        break;
    case OP_add_scalar:
    case OP_sub_scalar:
    case OP_mul_scalar:
    case OP_div_scalar:
        operands->own[1] = NULL;
        operands->count  = 2;
        break;
    case OP_embedding: operands->count = 1; break;
    default:
        if (op_is_layer(op))
            layer_operands(op, args, operands->own, &operands->count);
        else
            save_operands(op, args, operands->own, &operands->count);
        break;
    }
}

static bool
is_column_major(const struct tensor *matrix)
{
    return matrix->dims == 2 && matrix->stride[0] == 1 && matrix->stride[1] == matrix->size[0];
}

static bool
wants(const struct node *node, int edge)
{
    return node->edges[edge].node != NULL;
}

/* The operands of a product: the one is needed for the other's gradient. */
static bool
save_product(struct task *me, struct node *node, int edge, struct tensor *left, struct tensor *right)
{
    if (left->dims == 2)
        node->numbers[0] = is_column_major(left);
    if (right->dims == 2)
        node->numbers[1] = is_column_major(right);
    return node_save(me, node, wants(node, edge) ? right : NULL, false) &&
           node_save(me, node, wants(node, edge + 1) ? left : NULL, false);
}

/* Of what cat joined; the first number says how many numbers there are. */
static void
drop_lengths(struct task *me, void *context)
{
    int64_t *lengths = context;
    host_return(me, lengths, (size_t)lengths[0] * sizeof *lengths);
}

/* As long ago, a 1-D tensor without elements may stand among any others. */
static bool
skipped_by_cat(const struct op_args *args, int at)
{
    int most = 0;
    for (int i = 0; i < args->list_count; i++)
        most = args->list[i]->dims > most ? args->list[i]->dims : most;
    return most > 1 && args->list[at]->dims == 1;
}

static bool
save_lengths(struct task *me, struct node *node, const struct op_args *args)
{
    int64_t *lengths = host_take(me, (size_t)(args->list_count + 1) * sizeof *lengths);
    if (lengths == NULL)
        return false;
    lengths[0] = args->list_count + 1;
    for (int i = 0; i < args->list_count; i++)
        lengths[i + 1] = skipped_by_cat(args, i) ? -1 : tensor_size(args->list[i], (int)args->dim);
    node->numbers[0]   = args->dim;
    node->context      = lengths;
    node->drop_context = drop_lengths;
    return true;
}

/* Saved tensors stand where the gradient function of the op looks for them. */
static bool
save_tensors(struct task *me, struct node *node, enum op op, const struct op_args *args, struct tensor *result)
{
    struct tensor *const *in = args->in;
    switch (op) {
    case OP_mul:
    case OP_mm: return save_product(me, node, 0, in[0], in[1]);
    case OP_addmm: return save_product(me, node, 1, in[1], in[2]);
    case OP_div: return node_save(me, node, in[1], false) && node_save(me, node, wants(node, 1) ? in[0] : NULL, false);
    case OP_abs: return node_save(me, node, in[0], false);
    case OP_embedding:
    case OP_embedding_backward:
    case OP_threshold_backward: return node_save(me, node, in[1], false);
    case OP_relu:
    case OP_log_softmax: return node_save(me, node, result, true);
    case OP_log_softmax_backward:
    case OP_mse_loss: return node_save(me, node, in[0], false) && node_save(me, node, in[1], false);
    case OP_mse_loss_backward:
        return node_save(me, node, in[0], false) && node_save(me, node, in[1], false) &&
               node_save(me, node, in[2], false);
    case OP_cat: return save_lengths(me, node, args);
    default: return (op_is_layer(op) ? layer_save : save_more)(me, node, op, args, result);
    }
}

static void
save_numbers(struct node *node, enum op op, const struct op_args *args)
{
    const struct tensor *first = args->in[0];
    int64_t             *numbers = node->numbers;
    node->scalar = args->alpha;
    if (first != NULL) {
        node->in_dims = first->dims;
        memcpy(node->in_size, first->size, sizeof node->in_size);
    }
    switch (op) {
    case OP_sum_dim:
    case OP_log_softmax:
    case OP_log_softmax_backward:
        numbers[0] = args->dim;
        numbers[1] = args->keepdim;
        break;
    case OP_embedding:
    case OP_embedding_backward:
        numbers[0] = op == OP_embedding ? tensor_size(first, 0) : args->length;
        numbers[1] = args->start;
        numbers[2] = args->step;
        numbers[3] = args->flag;
        break;
    case OP_copy:
        numbers[0] = first->dtype;
        numbers[1] = tensor_device(first);
        break;
    case OP_transpose:
    case OP_narrow:
    case OP_select:
        numbers[0] = args->dim;
        numbers[1] = args->start;
        numbers[2] = args->length;
        numbers[3] = args->step;
        break;
    case OP_unsqueeze: numbers[0] = args->dim; break;
    case OP_squeeze:
        numbers[0] = args->dim;
        numbers[1] = first->dims > 0 && first->size[args->dim] == 1;
        break;
    default: (op_is_layer(op) ? layer_numbers : save_more_numbers)(node, op, args); break;
    }
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
    operands_of(op, args, &operands);
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
    switch (op) {
    case OP_view: return views[args->start];
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
    operands_of(op, args, &operands);
    if (!any_requires_grad(me, operands.tensors, operands.count))
        return true;
    struct node *node = node_new(me, node_name_of(op, args), gradient_table[op], operands.count, 1);
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
