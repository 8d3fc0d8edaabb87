/* What the node of an op remembers: which operands get gradients, which tensors are saved where its gradient function
 * (functions*.c) looks for them, which numbers. Nothing more than that is kept: an operand of mul only if the other one
 * wants a gradient, relu its result, add nothing. Layers and losses are a table of their own (save_layers.c). */
#include <string.h>
#include "autograd/internal.h"
#include "device/device.h"
#include "sched/task.h"

/* How a row's gradient function finds its tensors. */
enum saving { SAVE_NOTHING, SAVE_RESULT, SAVE_INPUT, SAVE_INPUT_RESULT, SAVE_SECOND, SAVE_TWO, SAVE_TWO_RESULT,
              SAVE_THREE, SAVE_FIRST_OF_THREE, SAVE_PRODUCT };

static enum saving
saving_of(enum op op)
{
    switch (op) {
    case OP_exp: case OP_exp2: case OP_expm1: case OP_sqrt: case OP_rsqrt: case OP_reciprocal: case OP_tan:
    case OP_tanh: case OP_sigmoid: case OP_rpow_scalar: case OP_relu: case OP_log_softmax: return SAVE_RESULT;
    case OP_log: case OP_log2: case OP_log10: case OP_log1p: case OP_sin: case OP_cos: case OP_asin: case OP_acos:
    case OP_atan: case OP_sinh: case OP_cosh: case OP_erf: case OP_square: case OP_pow_scalar: case OP_var:
    case OP_abs: case OP_silu: case OP_leaky_relu: case OP_elu: case OP_celu: case OP_softplus: case OP_mish:
    case OP_log_sigmoid: case OP_hardtanh: case OP_hardsigmoid: case OP_hardswish: case OP_softshrink:
    case OP_hardshrink: case OP_threshold:
        return SAVE_INPUT;
    case OP_prod: case OP_amax: case OP_amin: case OP_max: case OP_min: case OP_std: case OP_cumprod:
    case OP_norm: case OP_logsumexp:
        return SAVE_INPUT_RESULT;
    case OP_gather: case OP_max_dim: case OP_min_dim: case OP_sort: case OP_topk: case OP_scatter: case OP_scatter_add:
    case OP_index_select: case OP_index: case OP_index_put: case OP_index_add: case OP_add_rows: case OP_masked_fill:
    case OP_embedding: case OP_embedding_backward: case OP_threshold_backward: return SAVE_SECOND;
    case OP_tanh_backward: case OP_sigmoid_backward: case OP_atan2: case OP_maximum: case OP_minimum:
    case OP_remainder: case OP_fmod: case OP_mse_loss: case OP_huber_loss: case OP_smooth_l1_loss:
    case OP_soft_margin_loss: case OP_log_softmax_backward: return SAVE_TWO;
    case OP_pow: return SAVE_TWO_RESULT;
    case OP_clamp: case OP_mse_loss_backward: return SAVE_THREE;
    case OP_where: return SAVE_FIRST_OF_THREE;
    case OP_bmm: case OP_dot: case OP_mv: return SAVE_PRODUCT;
    default: return SAVE_NOTHING;
    }
}

/* Of ops that pick: indices and masks get no gradients. */
static void
picked_operands(enum op op, const struct op_args *args, struct tensor **own, int *count)
{
    switch (op) {
    case OP_where:
        own[0] = args->in[1];
        own[1] = args->in[2];
        *count = 2;
        break;
    case OP_scatter: case OP_scatter_add: case OP_index_put: case OP_index_add: case OP_add_rows:
        own[1] = args->in[2];
        *count = 2;
        break;
    case OP_gather: case OP_max_dim: case OP_min_dim: case OP_sort: case OP_topk: case OP_index_select: case OP_index:
    case OP_masked_fill: case OP_clamp: case OP_embedding: case OP_soft_margin_loss: *count = 1; break;
    default: break;
    }
}

void
op_operands(enum op op, const struct op_args *args, struct operands *operands)
{
    memcpy(operands->own, args->in, sizeof operands->own);
    operands->tensors = operands->own;
    operands->count   = op_info(op)->inputs;
    switch (op) {
    case OP_cat: case OP_stack: case OP_lstm_layer:
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
    case OP_add_scalar: case OP_sub_scalar: case OP_mul_scalar: case OP_div_scalar:
        operands->own[1] = NULL;
        operands->count  = 2;
        break;
    default:
        if (op_is_layer(op))
            layer_operands(op, args, operands->own, &operands->count);
        else
            picked_operands(op, args, operands->own, &operands->count);
        break;
    }
}

static bool
save_two(struct task *me, struct node *node, struct tensor *a, struct tensor *b)
{
    return node_save(me, node, a, false) && node_save(me, node, b, false);
}

static bool
is_column_major(const struct tensor *matrix)
{
    return matrix->dims == 2 && matrix->stride[0] == 1 && matrix->stride[1] == matrix->size[0];
}

/* The operands of a product: the one is needed for the other's gradient. */
static bool
save_product(struct task *me, struct node *node, int edge, struct tensor *left, struct tensor *right)
{
    if (left->dims == 2)
        node->numbers[0] = is_column_major(left);
    if (right->dims == 2)
        node->numbers[1] = is_column_major(right);
    return save_two(me, node, node_wants(node, edge) ? right : NULL, node_wants(node, edge + 1) ? left : NULL);
}

/* Of what cat joined; the first number says how many numbers there are. */
static void
lengths_drop(struct task *me, void *context)
{
    int64_t *lengths = context;
    host_return(me, lengths, (size_t)lengths[0] * sizeof *lengths);
}

static int
most_dims(const struct op_args *args)
{
    int most = 0;
    for (int i = 0; i < args->list_count; i++)
        most = args->list[i]->dims > most ? args->list[i]->dims : most;
    return most;
}

static bool
save_lengths(struct task *me, struct node *node, const struct op_args *args)
{
    int64_t *lengths = host_take(me, (size_t)(args->list_count + 1) * sizeof *lengths);
    int      most    = most_dims(args);
    if (lengths == NULL)
        return false;
    lengths[0] = args->list_count + 1;
    for (int i = 0; i < args->list_count; i++) {
        bool skipped   = most > 1 && args->list[i]->dims == 1; /* as long ago: no elements, among any others */
        lengths[i + 1] = skipped ? -1 : tensor_size(args->list[i], (int)args->dim);
    }
    node->numbers[0]   = args->dim;
    node->context      = lengths;
    node->drop_context = lengths_drop;
    return true;
}

static bool
save_as_listed(struct task *me, struct node *node, enum op op, const struct op_args *args, struct tensor *result)
{
    struct tensor *const *in = args->in;
    switch (saving_of(op)) {
    case SAVE_NOTHING: return true;
    case SAVE_RESULT: return node_save(me, node, result, true);
    case SAVE_INPUT: case SAVE_FIRST_OF_THREE: return node_save(me, node, in[0], false);
    case SAVE_INPUT_RESULT: return node_save(me, node, in[0], false) && node_save(me, node, result, true);
    case SAVE_SECOND: return node_save(me, node, in[1], false);
    case SAVE_TWO: return save_two(me, node, in[0], in[1]);
    case SAVE_TWO_RESULT: return save_two(me, node, in[0], in[1]) && node_save(me, node, result, true);
    case SAVE_THREE: return save_two(me, node, in[0], in[1]) && node_save(me, node, in[2], false);
    case SAVE_PRODUCT:
        return save_two(me, node, node_wants(node, 0) ? in[1] : NULL, node_wants(node, 1) ? in[0] : NULL);
    }
    return true;
}

/* Saved tensors stand where the gradient function of the op looks for them. */
bool
save_tensors(struct task *me, struct node *node, enum op op, const struct op_args *args, struct tensor *result)
{
    struct tensor *const *in = args->in;
    switch (op) {
    case OP_mul: case OP_mm: return save_product(me, node, 0, in[0], in[1]);
    case OP_addmm: return save_product(me, node, 1, in[1], in[2]);
    case OP_div: return save_two(me, node, in[1], node_wants(node, 1) ? in[0] : NULL);
    case OP_cat: return save_lengths(me, node, args);
    case OP_lstm_layer: return save_lstm_layer(me, node, args, result);
    default: return (op_is_layer(op) ? layer_save : save_as_listed)(me, node, op, args, result);
    }
}

static void
save_arguments(struct node *node, enum op op, const struct op_args *args)
{
    int dims = node->in_dims > 0 ? node->in_dims : 1;
    switch (op) {
    case OP_sum_dims: case OP_mean_dims: case OP_prod: case OP_amax: case OP_amin: case OP_var: case OP_std:
    case OP_max: case OP_min: case OP_norm: case OP_logsumexp:
        node->numbers[0] = args->dims == 0 ? (1 << node->in_dims) - 1 : 0;
        node->numbers[1] = args->keepdim;
        for (int i = 0; i < args->dims; i++) /* negative ones count from the end */
            node->numbers[0] |= (int64_t)1 << (args->sizes[i] < 0 ? args->sizes[i] + dims : args->sizes[i]);
        break;
    case OP_roll:
        memcpy(node->numbers, args->sizes, sizeof node->numbers);
        break;
    case OP_permute: case OP_repeat:
        for (int i = 0; i < args->dims && i < TENSOR_DIMS; i++)
            node->numbers[i] = args->sizes[i];
        break;
    default:
        node->numbers[0] = args->dim;
        node->numbers[1] = args->start;
        node->numbers[2] = args->length;
        break;
    }
}

void
save_numbers(struct node *node, enum op op, const struct op_args *args)
{
    const struct tensor *first = args->in[0];
    int64_t             *numbers = node->numbers;
    node->scalar = args->alpha;
    node->beta   = args->beta;
    if (first != NULL) {
        node->in_dims = first->dims;
        memcpy(node->in_size, first->size, sizeof node->in_size);
    }
    switch (op) {
    case OP_sum_dim: case OP_log_softmax: case OP_log_softmax_backward:
        numbers[0] = args->dim;
        numbers[1] = args->keepdim;
        break;
    case OP_embedding: case OP_embedding_backward:
        numbers[0] = op == OP_embedding ? tensor_size(first, 0) : args->length;
        numbers[1] = args->start;
        numbers[2] = args->step;
        numbers[3] = args->flag;
        break;
    case OP_copy:
        numbers[0] = first->dtype;
        numbers[1] = tensor_device(first);
        break;
    case OP_transpose: case OP_narrow: case OP_select:
        numbers[0] = args->dim;
        numbers[1] = args->start;
        numbers[2] = args->length;
        numbers[3] = args->step;
        break;
    case OP_unsqueeze: numbers[0] = args->dim; break;
    case OP_squeeze:
        numbers[0] = args->dim;
        numbers[1] = !args->flag && first->dims > 0 && first->size[args->dim] == 1;
        numbers[2] = args->flag;
        break;
    default: (op_is_layer(op) ? layer_numbers : save_arguments)(node, op, args); break;
    }
}

bool
op_saves_self(enum op op, const struct op_args *args)
{
    if (op == OP_mul || op == OP_div)
        return args->in[1]->requires_grad || args->in[1]->grad_fn != NULL;
    switch (saving_of(op)) {
    case SAVE_INPUT: case SAVE_INPUT_RESULT: case SAVE_TWO: case SAVE_TWO_RESULT: case SAVE_THREE: return true;
    default: return false;
    }
}
