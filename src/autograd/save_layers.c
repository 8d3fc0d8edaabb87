/* What the nodes of layers and losses remember. A row says how many operands may get gradients and which tensors are
 * saved, in the order in which the gradient function (functions_nn.c) looks for them: '0' to '3' an operand, 'r' the
 * result. Kernels of gradients are not listed where functions_nn.c spells a second gradient in plain ops. */
#include <string.h>
#include "autograd/internal.h"

struct memory { const char *saved; int edges; bool sizes; };

static const struct memory memories[OP_COUNT] = {
    [OP_softmax] = { "r", 1, false },          [OP_softmax_backward] = { "01", 2, false },
    [OP_gelu] = { "0", 1, false },             [OP_conv2d] = { "01", 3, true },
    [OP_conv_transpose2d] = { "01", 2, true }, [OP_conv2d_weight] = { "01", 2, true },
    [OP_max_pool2d] = { "1", 1, true },        [OP_max_pool2d_backward] = { "1", 1, true },
    [OP_avg_pool2d] = { "", 1, true },         [OP_avg_pool2d_backward] = { "", 1, true },
    [OP_batch_norm] = { "012", 3, false },     [OP_layer_norm] = { "01", 3, false },
    [OP_lstm_cell] = { "01", 2, false },       [OP_gru_cell] = { "012", 3, false },
    [OP_nll_loss] = { "012", 1, false },       [OP_nll_loss_backward] = { "23", 1, false },
    [OP_bce_with_logits] = { "0123", 2, false }, [OP_bce] = { "012", 2, false },
    [OP_group_norm] = { "01", 3, false },           [OP_attention] = { "0123", 3, false },
    [OP_safe_softmax] = { "r", 1, false },           [OP_baddbmm] = { "12", 3, false },
};

bool
op_is_layer(enum op op)
{
    return memories[op].saved != NULL;
}

/* Operands that stand in for absent ones get no edge. */
void
layer_operands(enum op op, const struct op_args *args, struct tensor **own, int *count)
{
    *count = memories[op].edges;
    switch (op) {
    case OP_conv2d:
        own[2] = args->start == 1 ? NULL : args->in[2];
        break;
    case OP_batch_norm:
        own[1] = args->start & 1 ? args->in[2] : NULL;
        own[2] = args->start & 2 ? args->in[3] : NULL;
        break;
    case OP_layer_norm: case OP_group_norm:
        own[1] = args->start & 1 ? args->in[1] : NULL;
        own[2] = args->start & 2 ? args->in[2] : NULL;
        break;
    default: break;
    }
}

bool
layer_save(struct task *me, struct node *node, enum op op, const struct op_args *args, struct tensor *result)
{
    for (const char *at = memories[op].saved; *at != '\0'; at++) {
        struct tensor *tensor = *at == 'r' ? result : args->in[*at - '0'];
        if (!node_save(me, node, tensor, *at == 'r'))
            return false;
    }
    return op != OP_attention || args->list_count == 0 || node_save(me, node, args->list[0], false);
}

/* In the order of enum lstm_input; then the rest. */
bool
save_lstm_layer(struct task *me, struct node *node, const struct op_args *args, struct tensor *result)
{
    for (int i = 0; i < LSTM_INPUTS; i++)
        if (!node_save(me, node, args->list[i], false))
            return false;
    return node_save(me, node, result, true) && node_save(me, node, args->more[LSTM_MORE_CELLS], false) &&
           node_save(me, node, args->more[LSTM_MORE_GATES], false);
}

void
layer_numbers(struct node *node, enum op op, const struct op_args *args)
{
    if (memories[op].sizes) {
        memcpy(node->numbers, args->sizes, sizeof node->numbers);
        if (op == OP_conv2d || op == OP_avg_pool2d || op == OP_avg_pool2d_backward)
            node->numbers[7] = args->start;
        return;
    }
    node->numbers[0] = op == OP_attention ? args->flag : args->dim;
    node->numbers[1] = args->start;
    node->numbers[2] = args->length;
    node->numbers[3] = args->step;
}
