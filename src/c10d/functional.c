/* Collectives with a backward, each an autograd Function: NAME runs the collective on copies and records one node,
 * whose backward calls another of them, so that gradients of gradients work too.
 *
 *     all_reduce          its backward is  all_reduce by the same op
 *     broadcast                            reduce to the root by SUM; zeros elsewhere
 *     reduce                               broadcast from the root
 *     gather, scatter                      each the other
 *     all_gather                           all_to_all, and the sum of what comes
 *     reduce_scatter                       all_gather
 *     all_to_all                           all_to_all, the other way round
 *
 * Order of use: functional.h. PyTorch: torch/distributed/nn/functional.py; functional_collectives.c has the others. */
#include "c10d/functional_record.h"

#include "autograd/call.h"
#include "tensor/op.h"

static node_backward all_reduce_back, broadcast_back, reduce_back, gather_back, scatter_back, reduce_scatter_back,
    all_gather_back, all_to_all_back, all_to_all_single_back;

/* ---- what is recorded ---- */

static void
recall_drop(struct task *me, void *context)
{
    struct recall *recall = context;
    host_return(me, recall, recall->bytes);
}

/* Of all_to_all the inputs' shapes, of all_to_all_single its splits. */
static struct recall *
recall_of(struct task *me, const struct recording *r)
{
    int            parts  = r->parts;
    size_t         bytes  = sizeof(struct recall) + (size_t)parts * sizeof(struct part);
    struct recall *recall = host_take(me, bytes);
    if (recall == NULL)
        return NULL;
    *recall = (struct recall){ .call = *r->call, .bytes = bytes, .count = parts, .dim_split = r->splits != NULL };
    recall->call.options.algorithm = NULL;
    recall->call.options.custom    = NULL;
    for (int i = 0; i < parts; i++) {
        const struct tensor *input = r->in[i < r->in_count ? i : 0];
        recall->parts[i].dims = input->dims;
        for (int d = 0; d < input->dims; d++)
            recall->parts[i].size[d] = input->size[d];
        recall->parts[i].input  = r->splits != NULL ? r->splits->input[i] : 0;
        recall->parts[i].output = r->splits != NULL ? r->splits->output[i] : 0;
    }
    return recall;
}

bool
functional_record(struct task *me, const struct recording *r)
{
    if (task_failed(me) || !any_requires_grad(me, r->in, r->in_count))
        return !task_failed(me);
    struct recall *recall = recall_of(me, r);
    struct node   *node   = recall != NULL ? node_new(me, r->name, r->backward, r->in_count, r->out_count) : NULL;
    if (node == NULL && recall != NULL)
        recall_drop(me, recall);
    if (node == NULL)
        return false;
    node->context      = recall;
    node->drop_context = recall_drop;
    node->fill_missing = true;
    for (int i = 0; i < r->in_count; i++)
        node_connect(me, node, i, r->in[i]);
    for (int i = 0; i < r->out_count; i++)
        node_output(me, node, r->out[i], i);
    bool saved = !r->save || (node_save(me, node, r->in[0], false) && node_save(me, node, r->out[0], true));
    node_unref(me, node);
    return saved && !task_failed(me);
}

/* Another tensor like the others of a rank's list. */
static struct tensor *
empty_like(struct task *me, const struct tensor *like, int dims, const int64_t *size)
{
    return tensor_empty(me, like->dtype, tensor_device(like), dims, size);
}

static int
ranks_of(const struct functional *call)
{
    return process_group_size(call->group);
}

static bool
is_root(const struct functional *call)
{
    return process_group_rank(call->group) == call->options.root;
}

/* ---- one tensor ---- */

struct tensor *
functional_all_reduce(struct task *me, const struct functional *call, struct tensor *tensor)
{
    struct tensor *sum = tensor_clone(me, tensor);
    if (sum == NULL || !work_complete(me, group_all_reduce(me, call->group, sum, &call->options)))
        return NULL;
    const struct recording r = { .name = "_AllReduceBackward", .backward = all_reduce_back, .call = call,
                                 .in = &tensor, .in_count = 1, .out = &sum, .out_count = 1 };
    return functional_record(me, &r) ? sum : NULL;
}

static bool
all_reduce_back(struct task *me, struct node *node, struct tensor *const *grad_out, struct tensor **grad_in)
{
    const struct recall *recall = node->context;
    grad_in[0] = functional_all_reduce(me, &recall->call, grad_out[0]);
    return grad_in[0] != NULL;
}

struct tensor *
functional_broadcast(struct task *me, const struct functional *call, struct tensor *tensor)
{
    struct tensor *copy = tensor_clone(me, tensor);
    if (copy == NULL || !work_complete(me, group_broadcast(me, call->group, copy, call->options.root)))
        return NULL;
    const struct recording r = { .name = "_BroadcastBackward", .backward = broadcast_back, .call = call,
                                 .in = &tensor, .in_count = 1, .out = &copy, .out_count = 1 };
    return functional_record(me, &r) ? copy : NULL;
}

static bool
broadcast_back(struct task *me, struct node *node, struct tensor *const *grad_out, struct tensor **grad_in)
{
    struct functional call = ((const struct recall *)node->context)->call;
    call.options.op = REDUCE_SUM;
    struct tensor *grad = functional_reduce(me, &call, grad_out[0]);
    if (grad != NULL && !is_root(&call))
        grad = zeros_of(me, grad, grad->dims, grad->size);
    grad_in[0] = grad;
    return grad != NULL;
}

struct tensor *
functional_reduce(struct task *me, const struct functional *call, struct tensor *tensor)
{
    struct tensor *sum = tensor_clone(me, tensor);
    if (sum == NULL || !work_complete(me, group_reduce(me, call->group, sum, &call->options)))
        return NULL;
    const struct recording r = { .name = "_ReduceBackward", .backward = reduce_back, .call = call,
                                 .in = &tensor, .in_count = 1, .out = &sum, .out_count = 1 };
    return functional_record(me, &r) ? sum : NULL;
}

static bool
reduce_back(struct task *me, struct node *node, struct tensor *const *grad_out, struct tensor **grad_in)
{
    const struct recall *recall = node->context;
    grad_in[0] = functional_broadcast(me, &recall->call, grad_out[0]);
    return grad_in[0] != NULL;
}

/* ---- to one, from one ---- */

bool
functional_gather(struct task *me, const struct functional *call, struct tensor *tensor, struct tensor **out)
{
    int  ranks = ranks_of(call);
    bool ok    = tensor != NULL;
    for (int i = 0; i < ranks && ok; i++)
        ok = (out[i] = zeros_of(me, tensor, tensor->dims, tensor->size)) != NULL;
    const struct recording r = { .name = "_GatherBackward", .backward = gather_back, .call = call,
                                 .in = &tensor, .in_count = 1, .out = out, .out_count = ranks };
    return ok && work_complete(me, group_gather(me, call->group, is_root(call) ? out : NULL, tensor,
                                                call->options.root)) && functional_record(me, &r);
}

static bool
gather_back(struct task *me, struct node *node, struct tensor *const *grad_out, struct tensor **grad_in)
{
    const struct recall *recall = node->context;
    grad_in[0] = functional_scatter(me, &recall->call, grad_out);
    return grad_in[0] != NULL;
}

struct tensor *
functional_scatter(struct task *me, const struct functional *call, struct tensor *const *inputs)
{
    int ranks = ranks_of(call);
    for (int i = 1; i < ranks; i++)
        if (!tensor_same_shape(inputs[i], inputs[0]))
            return failed_null(me, E_ASSERTION, "scatter: expected tensor %d of the first's shape %s, got %s", i,
                               shape_text(inputs[0]).text, shape_text(inputs[i]).text);
    struct tensor *mine = zeros_of(me, inputs[0], inputs[0]->dims, inputs[0]->size);
    if (mine == NULL || !work_complete(me, group_scatter(me, call->group, mine, is_root(call) ? inputs : NULL,
                                                         call->options.root)))
        return NULL;
    const struct recording r = { .name = "_ScatterBackward", .backward = scatter_back, .call = call,
                                 .in = inputs, .in_count = ranks, .out = &mine, .out_count = 1 };
    return functional_record(me, &r) ? mine : NULL;
}

static bool
scatter_back(struct task *me, struct node *node, struct tensor *const *grad_out, struct tensor **grad_in)
{
    const struct recall *recall = node->context;
    return functional_gather(me, &recall->call, grad_out[0], grad_in);
}

/* ---- from all, to all ---- */

bool
functional_all_gather(struct task *me, const struct functional *call, struct tensor *tensor, struct tensor **out)
{
    int  ranks = ranks_of(call);
    bool ok    = tensor != NULL;
    for (int i = 0; i < ranks && ok; i++)
        ok = (out[i] = empty_like(me, tensor, tensor->dims, tensor->size)) != NULL;
    const struct recording r = { .name = "_AllGatherBackward", .backward = all_gather_back, .call = call,
                                 .in = &tensor, .in_count = 1, .out = out, .out_count = ranks };
    return ok && work_complete(me, group_all_gather(me, call->group, out, tensor)) && functional_record(me, &r);
}

/* Each rank gets what all others' losses say of its tensor, and adds that up in the order of the ranks. */
static bool
all_gather_back(struct task *me, struct node *node, struct tensor *const *grad_out, struct tensor **grad_in)
{
    const struct recall *recall = node->context;
    int                  ranks  = ranks_of(&recall->call);
    struct tensor      **mine   = scratch_new(me, 2 * (size_t)ranks, sizeof *mine), **got = mine + ranks;
    bool                 ok     = mine != NULL;
    for (int i = 0; i < ranks && ok; i++)
        ok = (mine[i] = empty_like(me, grad_out[i], grad_out[i]->dims, grad_out[i]->size)) != NULL;
    if (!ok || !functional_all_to_all(me, &recall->call, mine, grad_out, got))
        return false;
    grad_in[0] = tensor_sum_dim(me, tensor_stack(me, got, ranks, 0), 0, false);
    return grad_in[0] != NULL;
}

struct tensor *
functional_reduce_scatter(struct task *me, const struct functional *call, struct tensor *output,
                          struct tensor *const *inputs)
{
    if (!work_complete(me, group_reduce_scatter(me, call->group, output, inputs, &call->options)))
        return NULL;
    struct tensor         *mine = tensor_detach(me, output);
    const struct recording r    = { .name = "_Reduce_ScatterBackward", .backward = reduce_scatter_back,
                                    .call = call, .in = inputs, .in_count = ranks_of(call), .out = &mine,
                                    .out_count = 1 };
    return mine != NULL && functional_record(me, &r) ? mine : NULL;
}

static bool
reduce_scatter_back(struct task *me, struct node *node, struct tensor *const *grad_out, struct tensor **grad_in)
{
    const struct recall *recall = node->context;
    return functional_all_gather(me, &recall->call, grad_out[0], grad_in);
}

bool
functional_all_to_all(struct task *me, const struct functional *call, struct tensor *const *outputs,
                      struct tensor *const *inputs, struct tensor **out)
{
    int ranks = ranks_of(call);
    if (!work_complete(me, group_all_to_all(me, call->group, outputs, inputs)))
        return false;
    for (int i = 0; i < ranks; i++)
        if ((out[i] = tensor_detach(me, outputs[i])) == NULL)
            return false;
    const struct recording r = { .name = "_AlltoAllBackward", .backward = all_to_all_back, .call = call,
                                 .in = inputs, .in_count = ranks, .out = out, .out_count = ranks, .parts = ranks };
    return functional_record(me, &r);
}

static bool
all_to_all_back(struct task *me, struct node *node, struct tensor *const *grad_out, struct tensor **grad_in)
{
    const struct recall *recall = node->context;
    struct tensor      **back   = scratch_new(me, (size_t)recall->count, sizeof *back);
    bool                 ok     = back != NULL;
    for (int i = 0; i < recall->count && ok; i++)
        ok = (back[i] = empty_like(me, grad_out[0], recall->parts[i].dims, recall->parts[i].size)) != NULL;
    return ok && functional_all_to_all(me, &recall->call, back, grad_out, grad_in);
}

struct tensor *
functional_all_to_all_single(struct task *me, const struct functional *call, struct tensor *output,
                             struct tensor *input, const struct splits *splits)
{
    bool even = splits->input == NULL && splits->output == NULL;
    if (!work_complete(me, group_all_to_all_single(me, call->group, output, input, splits)))
        return NULL;
    struct tensor   *mine = tensor_detach(me, output);
    struct recording r    = { .name = "_AlltoAllSingleBackward", .backward = all_to_all_single_back, .call = call,
                              .in = &input, .in_count = 1, .out = &mine, .out_count = 1, .parts = ranks_of(call) };
    struct splits    both = *splits;
    int64_t         *rows = scratch_new(me, (size_t)r.parts, sizeof *rows);
    if (mine == NULL || rows == NULL)
        return NULL;
    for (int i = 0; i < r.parts; i++)
        rows[i] = tensor_size(splits->input == NULL ? input : output, 0) / r.parts;
    if (splits->input == NULL)
        both.input = rows;
    if (splits->output == NULL)
        both.output = rows;
    r.splits = even ? NULL : &both;
    return functional_record(me, &r) ? mine : NULL;
}

static bool
all_to_all_single_back(struct task *me, struct node *node, struct tensor *const *grad_out, struct tensor **grad_in)
{
    const struct recall *recall = node->context;
    struct splits        splits = { NULL, NULL };
    struct tensor       *grad   = tensor_contiguous(me, grad_out[0]);
    struct tensor       *back   = empty_like(me, grad, recall->parts[0].dims, recall->parts[0].size);
    if (back == NULL || !recall_splits(me, recall, &splits))
        return false;
    grad_in[0] = functional_all_to_all_single(me, &recall->call, back, grad, &splits);
    return grad_in[0] != NULL;
}

bool
recall_splits(struct task *me, const struct recall *recall, struct splits *out)
{
    *out = (struct splits){ NULL, NULL };
    if (!recall->dim_split)
        return true;
    int64_t *rows = scratch_new(me, 2 * (size_t)recall->count, sizeof *rows);
    if (rows == NULL)
        return false;
    for (int i = 0; i < recall->count; i++) {
        rows[i]                 = recall->parts[i].input;
        rows[recall->count + i] = recall->parts[i].output;
    }
    *out = (struct splits){ .output = rows, .input = rows + recall->count };
    return true;
}
