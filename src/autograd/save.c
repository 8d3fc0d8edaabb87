/* What the nodes of functions, reductions and picking ops remember: which operands get gradients, which tensors are
 * saved where their gradient functions look for them, which numbers. record.c asks here for what it does not know. */
#include <string.h>
#include "autograd/internal.h"

/* How a row's gradient function finds its tensors. */
enum saving { SAVE_NOTHING, SAVE_RESULT, SAVE_INPUT, SAVE_INPUT_RESULT, SAVE_SECOND, SAVE_TWO, SAVE_TWO_RESULT,
              SAVE_THREE,
              SAVE_FIRST_OF_THREE, SAVE_PRODUCT };

static enum saving
saving_of(enum op op)
{
    switch (op) {
    case OP_exp: case OP_exp2: case OP_expm1: case OP_sqrt: case OP_rsqrt: case OP_reciprocal: case OP_tan:
    case OP_tanh: case OP_sigmoid: case OP_rpow_scalar: return SAVE_RESULT;
    case OP_log: case OP_log2: case OP_log10: case OP_log1p: case OP_sin: case OP_cos: case OP_asin: case OP_acos:
    case OP_atan: case OP_sinh: case OP_cosh: case OP_erf: case OP_square: case OP_pow_scalar: case OP_var:
        return SAVE_INPUT;
    case OP_prod: case OP_amax: case OP_amin: case OP_max: case OP_min: case OP_std: case OP_cumprod:
    case OP_norm: case OP_logsumexp:
        return SAVE_INPUT_RESULT;
    case OP_gather: case OP_max_dim: case OP_min_dim: case OP_sort: case OP_topk: case OP_scatter: case OP_scatter_add:
    case OP_index_select: case OP_index: case OP_index_put: case OP_index_add: case OP_masked_fill: return SAVE_SECOND;
    case OP_tanh_backward: case OP_sigmoid_backward: case OP_atan2: case OP_bce: case OP_maximum: case OP_minimum:
    case OP_remainder: case OP_fmod: return SAVE_TWO;
    case OP_pow: return SAVE_TWO_RESULT;
    case OP_clamp: return SAVE_THREE;
    case OP_where: return SAVE_FIRST_OF_THREE;
    case OP_bmm: case OP_dot: case OP_mv: return SAVE_PRODUCT;
    default: return SAVE_NOTHING;
    }
}

/* Edges in the order of the operands that may get gradients. */
void
save_operands(enum op op, const struct op_args *args, struct tensor **own, int *count)
{
    switch (op) {
    case OP_where:
        own[0] = args->in[1];
        own[1] = args->in[2];
        *count = 2;
        break;
    case OP_scatter: case OP_scatter_add: case OP_index_put: case OP_index_add:
        own[1] = args->in[2];
        *count = 2;
        break;
    case OP_gather: case OP_max_dim: case OP_min_dim: case OP_sort: case OP_topk: case OP_index_select: case OP_index:
    case OP_masked_fill: case OP_clamp: *count = 1; break;
    default: break;
    }
}

static bool
wants(const struct node *node, int edge)
{
    return edge < node->edge_count && node->edges[edge].node != NULL;
}

static bool
save_two(struct task *me, struct node *node, struct tensor *a, struct tensor *b)
{
    return node_save(me, node, a, false) && node_save(me, node, b, false);
}

bool
save_more(struct task *me, struct node *node, enum op op, const struct op_args *args, struct tensor *result)
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
    case SAVE_PRODUCT: return save_two(me, node, wants(node, 0) ? in[1] : NULL, wants(node, 1) ? in[0] : NULL);
    }
    return true;
}

void
save_more_numbers(struct node *node, enum op op, const struct op_args *args)
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

/* In place such an op would overwrite what it saves. */
bool
op_saves_self(enum op op, const struct op_args *args)
{
    switch (op) {
    case OP_abs: return true;
    case OP_mul: case OP_div: return args->in[1]->requires_grad || args->in[1]->grad_fn != NULL;
    default: break;
    }
    switch (saving_of(op)) {
    case SAVE_INPUT: case SAVE_INPUT_RESULT: case SAVE_TWO: case SAVE_TWO_RESULT: case SAVE_THREE: return true;
    default: return false;
    }
}
