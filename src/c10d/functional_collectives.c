/* Functional collectives of one tensor, with the backward that PyTorch 2.15 gives them: the same as functional.c's but
 * for MIN and MAX, and along any dimension. PyTorch: torch/distributed/_functional_collectives.py. */
#include "autograd/call.h"
#include "c10d/functional_record.h"
#include "c10d/internal.h"
#include "tensor/op.h"

static node_backward reduced_backward, sent_backward, gathered_backward, scattered_backward, exchanged_backward;

static bool
is_extreme(enum reduce_op op)
{
    return op == REDUCE_MIN || op == REDUCE_MAX;
}

/* ---- all_reduce ---- */

struct tensor *
functional_reduced(struct task *me, const struct functional *call, struct tensor *tensor)
{
    struct tensor *sum = tensor_clone(me, tensor);
    if (sum == NULL || !work_complete(me, group_all_reduce(me, call->group, sum, &call->options)))
        return NULL;
    const struct recording r = { .name = "GeneratedBackwardFor__c10d_functional_all_reduce_defaultBackward",
                                 .backward = reduced_backward, .call = call, .in = &tensor, .in_count = 1,
                                 .out = &sum, .out_count = 1, .save = is_extreme(call->options.op) };
    return functional_record(me, &r) ? sum : NULL;
}

/* 1 where this rank had the extreme; a NaN is one only where the result is NaN. */
static struct tensor *
extreme_mask(struct task *me, struct tensor *in, struct tensor *out)
{
    struct tensor *in_nan  = op_on(me, OP_isnan, in, NULL, 0);
    struct tensor *out_nan = op_on(me, OP_isnan, out, NULL, 0);
    struct tensor *nan     = op_on(me, OP_logical_and, in_nan, out_nan, 1);
    struct tensor *equal   = op_on(me, OP_eq, in, out, 1);
    return op_on(me, OP_logical_or, equal, nan, 1);
}

/* The sum of all gradients is shared evenly by those who had the extreme, on whichever rank. The count is float32:
 * exact where the gradient's dtype would not be. */
static struct tensor *
share_evenly(struct task *me, struct node *node, const struct functional *sum, struct tensor *total)
{
    struct tensor *in = node_saved(me, node, 0), *out = node_saved(me, node, 1);
    if (in == NULL || out == NULL)
        return NULL;
    in  = tensor_detach(me, in);
    out = in != NULL ? tensor_detach(me, out) : NULL;
    struct tensor *mask  = out != NULL ? extreme_mask(me, in, out) : NULL;
    struct tensor *mine  = mask != NULL ? tensor_copy_to(me, mask, tensor_device(mask), DTYPE_F32) : NULL;
    struct tensor *count = mine != NULL ? functional_reduced(me, sum, mine) : NULL;
    struct tensor *share = count != NULL ? tensor_div(me, total, count) : NULL;
    if (share != NULL)
        share = tensor_copy_to(me, share, tensor_device(share), total->dtype);
    struct tensor *zero  = share != NULL ? tensor_number(me, share->dtype, tensor_device(share), 0) : NULL;
    struct op_args args  = { .in = { mask, share, zero } };
    return zero != NULL ? op_call(me, OP_where, &args) : NULL;
}

static bool
reduced_backward(struct task *me, struct node *node, struct tensor *const *grad_out, struct tensor **grad_in)
{
    struct functional call = ((const struct recall *)node->context)->call;
    enum reduce_op    op   = call.options.op;
    if (op != REDUCE_SUM && op != REDUCE_AVG && op != REDUCE_PREMUL_SUM && !is_extreme(op))
        return failed(me, E_RUNTIME, "all_reduce backward only supports `sum`, `premul_sum`, `avg`, `max`, `min` "
                                     "reductions, got '%s'", reduce_op_name(op));
    if (is_extreme(op))
        call.options.op = REDUCE_SUM;
    struct tensor *total = functional_reduced(me, &call, grad_out[0]);
    if (total != NULL && is_extreme(op))
        total = share_evenly(me, node, &call, total);
    grad_in[0] = total;
    return total != NULL;
}

/* ---- broadcast ---- */

struct tensor *
functional_sent(struct task *me, const struct functional *call, struct tensor *tensor)
{
    struct tensor *copy = tensor_clone(me, tensor);
    if (copy == NULL || !work_complete(me, group_broadcast(me, call->group, copy, call->options.root)))
        return NULL;
    const struct recording r = { .name = "GeneratedBackwardFor__c10d_functional__wrap_tensor_autograd_defaultBackward",
                                 .backward = sent_backward, .call = call, .in = &tensor, .in_count = 1,
                                 .out = &copy, .out_count = 1 };
    return functional_record(me, &r) ? copy : NULL;
}

static bool
sent_backward(struct task *me, struct node *node, struct tensor *const *grad_out, struct tensor **grad_in)
{
    (void)me, (void)node;
    grad_in[0] = tensor_born(me, tensor_ref(grad_out[0]));
    return grad_in[0] != NULL;
}

/* ---- all_gather, reduce_scatter ---- */

static struct tensor *
gathered_rows(struct task *me, const struct functional *call, struct tensor *tensor)
{
    int64_t size[TENSOR_DIMS] = { 1 };
    int     dims = tensor->dims > 0 ? tensor->dims : 1;
    for (int d = 0; d < tensor->dims; d++)
        size[d] = tensor->size[d];
    size[0] *= process_group_size(call->group);
    struct tensor *whole = tensor_empty(me, tensor->dtype, tensor_device(tensor), dims, size);
    if (whole == NULL || !work_complete(me, group_all_gather_into_tensor(me, call->group, whole, tensor)))
        return NULL;
    const struct recording r = { .name = "GeneratedBackwardFor__c10d_functional_all_gather_into_tensor_defaultBackward",
                                 .backward = gathered_backward, .call = call, .in = &tensor, .in_count = 1,
                                 .out = &whole, .out_count = 1, .parts = 1 };
    return functional_record(me, &r) ? whole : NULL;
}

static struct tensor *
scattered_rows(struct task *me, const struct functional *call, struct tensor *tensor)
{
    int64_t size[TENSOR_DIMS];
    for (int d = 0; d < tensor->dims; d++)
        size[d] = tensor->size[d];
    size[0] /= process_group_size(call->group);
    struct tensor *mine = tensor_empty(me, tensor->dtype, tensor_device(tensor), tensor->dims, size);
    if (mine == NULL ||
        !work_complete(me, group_reduce_scatter_single(me, call->group, mine, tensor, &call->options)))
        return NULL;
    const struct recording r = { .name = "GeneratedBackwardFor__c10d_functional_reduce_scatter_tensor_defaultBackward",
                                 .backward = scattered_backward, .call = call, .in = &tensor, .in_count = 1,
                                 .out = &mine, .out_count = 1 };
    return functional_record(me, &r) ? mine : NULL;
}

static bool
gathered_backward(struct task *me, struct node *node, struct tensor *const *grad_out, struct tensor **grad_in)
{
    const struct recall *recall = node->context;
    struct functional    call   = recall->call;
    call.options = (struct collective_options){ .op = REDUCE_SUM };
    struct tensor *mine = scattered_rows(me, &call, grad_out[0]);
    if (mine != NULL && recall->parts[0].dims == 0)
        mine = tensor_reshape(me, mine, 0, NULL);
    grad_in[0] = mine;
    return mine != NULL;
}

static bool
scattered_backward(struct task *me, struct node *node, struct tensor *const *grad_out, struct tensor **grad_in)
{
    const struct functional *call = &((const struct recall *)node->context)->call;
    if (call->options.op != REDUCE_SUM)
        return failed(me, E_RUNTIME, "reduce_scatter_tensor backward only supports 'sum' reduction, got '%s'",
                      reduce_op_name(call->options.op));
    grad_in[0] = gathered_rows(me, call, grad_out[0]);
    return grad_in[0] != NULL;
}

/* 0 .. dims - 1; -1: failed. A tensor without dimensions counts as one of one. */
static int
settle_dim(struct task *me, const struct tensor *tensor, int dim)
{
    int dims = tensor->dims > 0 ? tensor->dims : 1, settled = dim < 0 ? dim + dims : dim;
    if (settled >= 0 && settled < dims)
        return settled;
    return failed(me, E_INDEX, "Dimension out of range (expected to be in range of [%d, %d], but got %d)", -dims,
                  dims - 1, dim), -1;
}

/* As many equal pieces along `from` as there are ranks, joined along `to`. */
static struct tensor *
turn_pieces(struct task *me, struct tensor *tensor, int ranks, int from, int to)
{
    struct tensor **parts   = scratch_new(me, (size_t)ranks, sizeof(struct tensor *));
    int64_t        *lengths = scratch_new(me, (size_t)ranks, sizeof *lengths);
    if (tensor == NULL || parts == NULL || lengths == NULL)
        return NULL;
    for (int i = 0; i < ranks; i++)
        lengths[i] = tensor->size[from] / ranks;
    const struct pieces pieces = { .dim = from, .count = ranks, .lengths = lengths };
    return tensor_split(me, tensor, &pieces, parts) ? tensor_cat(me, parts, ranks, to) : NULL;
}

struct tensor *
functional_gathered(struct task *me, const struct functional *call, struct tensor *tensor, int dim)
{
    dim = settle_dim(me, tensor, dim);
    struct tensor *whole = dim >= 0 ? gathered_rows(me, call, tensor) : NULL;
    return dim > 0 ? turn_pieces(me, whole, process_group_size(call->group), 0, dim) : whole;
}

struct tensor *
functional_scattered(struct task *me, const struct functional *call, struct tensor *tensor, int dim)
{
    int ranks = process_group_size(call->group);
    if (tensor->dims == 0)
        return failed_null(me, E_INDEX, "reduce_scatter_tensor needs a tensor with dimensions");
    dim = settle_dim(me, tensor, dim);
    if (dim < 0)
        return NULL;
    if (tensor->size[dim] % ranks != 0)
        return failed_null(me, E_ASSERTION, "input dimension %d (%lld) must be a multiple of group_size %d", dim,
                           (long long)tensor->size[dim], ranks);
    if (dim > 0)
        tensor = turn_pieces(me, tensor, ranks, dim, 0);
    return tensor != NULL ? scattered_rows(me, call, tensor) : NULL;
}

/* ---- all_to_all ---- */

struct tensor *
functional_exchanged(struct task *me, const struct functional *call, struct tensor *tensor,
                     const struct splits *splits)
{
    int64_t size[TENSOR_DIMS] = { 0 };
    int     ranks             = process_group_size(call->group);
    if (tensor->dims == 0)
        return failed_null(me, E_INDEX, "all_to_all_single needs a tensor with dimensions");
    for (int d = 0; d < tensor->dims; d++)
        size[d] = tensor->size[d];
    for (int i = 0; splits->output != NULL && i < ranks; i++)
        size[0] = (i > 0 ? size[0] : 0) + splits->output[i];
    struct tensor *mine = tensor_empty(me, tensor->dtype, tensor_device(tensor), tensor->dims, size);
    struct tensor *row  = tensor_contiguous(me, tensor);
    if (mine == NULL || !work_complete(me, group_all_to_all_single(me, call->group, mine, row, splits)))
        return NULL;
    const struct recording r = { .name = "GeneratedBackwardFor__c10d_functional_all_to_all_single_defaultBackward",
                                 .backward = exchanged_backward, .call = call, .in = &tensor, .in_count = 1,
                                 .out = &mine, .out_count = 1, .parts = ranks,
                                 .splits = splits->output != NULL ? splits : NULL };
    return functional_record(me, &r) ? mine : NULL;
}

static bool
exchanged_backward(struct task *me, struct node *node, struct tensor *const *grad_out, struct tensor **grad_in)
{
    const struct recall *recall = node->context;
    struct splits        splits;
    if (!recall_splits(me, recall, &splits))
        return false;
    grad_in[0] = functional_exchanged(me, &recall->call, grad_out[0], &splits);
    return grad_in[0] != NULL;
}
