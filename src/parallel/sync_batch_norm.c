/* SyncBatchNorm: the module, its conversion, and its Function, which is one node.
 *
 *     sync_batch_norm_forward    this rank's statistics, everybody's by one all-gather, the output
 *     sync_batch_norm_backward   this rank's sums, everybody's by one all-reduce, the input's gradient
 *
 * The gradients of weight and bias stay this rank's own: DistributedDataParallel averages them with all others. */
#include "parallel/sync_batch_norm.h"

#include "autograd/call.h"
#include "autograd/node.h"
#include "base/vec.h"
#include "c10d/group.h"
#include "functional/functional.h"
#include "nn/layer.h"
#include "nn/norm.h"
#include "parallel/comm.h"
#include "sched/stage.h"
#include "tensor/tensor.h"

/* Of an op's `start`; where a module keeps that its rank is outside. */
enum { HAS_WEIGHT = 1, HAS_BIAS = 2, OF_BATCH = 4, CENTERED_SUMS = 8, OUTSIDE = 6 };
/* A node's saved tensors and numbers. */
enum { SAVED_INPUT, SAVED_STATS, SAVED_WEIGHT };
enum { TOTAL, WEIGHT_EDGE, BIAS_EDGE };

/* One forward's: rows of mean, 1 / sqrt(variance + eps) and variance, of all ranks' `total` values a channel. */
struct shared_stats { struct process_group *group; struct tensor *stats; int64_t total; };

static int64_t
values_of_channel(const struct tensor *input)
{
    return tensor_count(input) / input->size[1];
}

/* Statistics of 16-bit numbers, and how many there are, would be too coarse in 16 bits. */
static bool
is_narrow(const struct tensor *input)
{
    return input->dtype == DTYPE_F16 || input->dtype == DTYPE_BF16;
}

static enum dtype
stats_dtype(const struct tensor *input)
{
    return is_narrow(input) ? DTYPE_F32 : input->dtype;
}

static struct tensor *
widened(struct task *me, struct tensor *tensor, const struct tensor *input)
{
    return is_narrow(input) ? tensor_copy_to(me, tensor, tensor_device(tensor), DTYPE_F32) : tensor;
}

/* ---- forward ---- */

/* Means, scales and how many values they are of, in a row. All zeros: no values. */
static struct tensor *
local_stats(struct task *me, struct tensor *input, double eps)
{
    const int64_t both = 2 * input->size[1], wide = both + 1, one = 1, count = values_of_channel(input);
    enum dtype    dtype = stats_dtype(input);
    int           device = tensor_device(input);
    if (count == 0)
        return tensor_zeros(me, dtype, device, 1, &wide);
    struct op_args args = { .in = { widened(me, input, input) }, .alpha = eps };
    struct tensor *stats = op_call_checked(me, OP_batch_norm_stats, &args);
    struct tensor *parts[2] = { tensor_reshape(me, tensor_narrow(me, stats, 0, 0, 2), 1, &both) };
    parts[1] = tensor_filled(me, tensor_empty(me, dtype, device, 1, &one), (double)count);
    return tensor_cat(me, parts, 2, 0);
}

/* The last column's sum. Reading it waits for the device. */
static bool
total_count(struct task *me, struct tensor *gathered, int64_t *total)
{
    struct tensor *counts = tensor_select(me, gathered, 1, tensor_size(gathered, 1) - 1);
    struct tensor *mine   = tensor_copy_to(me, counts, DEVICE_CPU, DTYPE_F64);
    double         sum    = 0;
    struct tensor *all    = tensor_sum(me, mine);
    bool           done   = all != NULL && tensor_item(me, all, &sum);
    *total = (int64_t)sum;
    return done;
}

static struct tensor *
normalised(struct task *me, struct tensor *input, struct tensor *stats, const struct batch_norm_options *o)
{
    int            has    = (o->weight != NULL ? HAS_WEIGHT : 0) | (o->bias != NULL ? HAS_BIAS : 0);
    struct tensor *weight = o->weight != NULL ? widened(me, o->weight, input) : stats;
    struct tensor *bias   = o->bias != NULL ? widened(me, o->bias, input) : stats;
    struct op_args args   = { .in = { widened(me, input, input), stats, weight, bias }, .start = has | OF_BATCH,
                              .alpha = o->eps };
    struct tensor *output = op_call_checked(me, OP_batch_norm, &args);
    return output != NULL ? tensor_copy_to(me, output, tensor_device(input), input->dtype) : NULL;
}

/* Each rank tells the mean, the scale and the number of its values; from all of them
 * follows what one process would have found in all rows. An all-reduce of means would not
 * do: the ranks' batches may differ in length. */
static struct tensor *
sync_batch_norm_forward(struct task *me, struct tensor *input,
                        const struct batch_norm_options *o, struct shared_stats *shared)
{
    const int64_t ranks = process_group_size(shared->group);
    const int64_t wide  = 2 * input->size[1] + 1;
    STAGE(me, sync_batch_norm, input->size[1], values_of_channel(input), 0,
          wide * (int64_t)dtype_size(stats_dtype(input)));
    const int64_t  sizes[2] = { ranks, wide };
    struct tensor *mine = local_stats(me, input, o->eps), *gathered;
    gathered = tensor_empty(me, stats_dtype(input), tensor_device(input), 2, sizes);
    if (mine == NULL || gathered == NULL ||
        !group_all_gather_into_tensor_now(me, shared->group, gathered, mine) ||
        !total_count(me, gathered, &shared->total))
        return NULL;
    stage_set(&stage_, 2, shared->total);

    struct op_args args = { .in = { gathered }, .alpha = o->eps };
    shared->stats = hand_up(me, op_call(me, OP_batch_norm_gather_stats, &args));
    if (shared->stats == NULL ||
        !batch_norm_update_running(me, o, shared->stats, (double)shared->total))
        return NULL;
    return hand_up(me, normalised(me, input, shared->stats, o));
}

/* ---- backward ---- */

/* Rows: the sums of the gradient, and of gradient * (input - mean). */
static struct tensor *
local_sums(struct task *me, struct tensor *grad, struct tensor *input, struct tensor *stats)
{
    const int64_t sizes[2] = { 2, input->size[1] };
    if (tensor_count(input) == 0)
        return tensor_zeros(me, stats_dtype(input), tensor_device(input), 2, sizes);
    struct tensor *g    = widened(me, grad, input);
    struct op_args args = { .in = { g, widened(me, input, input), stats }, .start = CENTERED_SUMS };
    return op_call_checked(me, OP_batch_norm_sums, &args);
}

static struct tensor *
input_grad(struct task *me, const struct node *node, struct tensor *grad, struct tensor *const *saved,
           struct tensor *sums)
{
    struct tensor *input = saved[SAVED_INPUT], *stats = saved[SAVED_STATS], *weight = saved[SAVED_WEIGHT];
    struct op_args of_terms = { .in = { sums, stats, weight != NULL ? widened(me, weight, input) : stats },
                                .start = OF_BATCH | CENTERED_SUMS | (weight != NULL ? HAS_WEIGHT : 0),
                                .length = node->numbers[TOTAL] };
    struct op_args args = { .in = { widened(me, grad, input), NULL, stats } };
    args.in[1] = widened(me, input, input);
    args.in[3] = op_call_checked(me, OP_batch_norm_terms, &of_terms);
    return op_call_checked(me, OP_batch_norm_backward, &args);
}

/* The gradients of weight and bias, where they are wanted. */
static bool
affine_grads(struct task *me, const struct node *node, struct tensor *sums, struct tensor *stats,
             struct tensor **grad_in)
{
    int weight = (int)node->numbers[WEIGHT_EDGE], bias = (int)node->numbers[BIAS_EDGE];
    struct tensor *products = tensor_select(me, sums, 0, 1), *scale = tensor_select(me, stats, 0, 1);
    if (weight >= 0 && node_wants(node, weight))
        grad_in[weight] = tensor_mul(me, products, scale);
    if (bias >= 0 && node_wants(node, bias))
        grad_in[bias] = tensor_copied(me, tensor_select(me, sums, 0, 0));
    return !task_failed(me);
}

static bool
read_saved(struct task *me, struct node *node, struct tensor **saved)
{
    for (int i = 0; i <= SAVED_WEIGHT; i++) {
        saved[i] = i < node->saved_count ? node_saved(me, node, i) : NULL;
        if (i < node->saved_count && saved[i] == NULL)
            return false;
    }
    return true;
}

/* Every value has moved the mean and the variance that all ranks used, so the input's
 * gradient needs both sums of all ranks. Who had no rows has no gradient to give, but adds
 * his zeros: the others wait for him. */
static bool
sync_batch_norm_backward(struct task *me, struct node *node,
                         struct tensor *const *grad_out, struct tensor **grad_in)
{
    struct process_group *group = node->context;
    struct tensor        *saved[SAVED_WEIGHT + 1];
    if (!read_saved(me, node, saved))
        return false;
    struct tensor *input = saved[SAVED_INPUT], *stats = saved[SAVED_STATS];
    int64_t        count = values_of_channel(input), bytes = 0;
    if (node_wants(node, 0))
        bytes = 2 * input->size[1] * (int64_t)dtype_size(stats_dtype(input));
    STAGE(me, sync_batch_norm_backward, input->size[1], count, node->numbers[TOTAL],
          bytes);

    struct tensor *sums = local_sums(me, grad_out[0], input, stats);
    if (sums == NULL || (count > 0 && !affine_grads(me, node, sums, stats, grad_in)))
        return false;
    if (node_wants(node, 0)) {
        struct tensor *all = tensor_copied(me, tensor_detach(me, sums));
        if (all == NULL || !group_all_reduce_now(me, group, all, NULL))
            return false;
        if (count > 0)
            grad_in[0] = input_grad(me, node, grad_out[0], saved, all);
    }
    for (int i = 0; i < node->edge_count; i++)
        grad_in[i] = hand_up(me, grad_in[i]);
    return !task_failed(me);
}

/* ---- the Function ---- */

/* An edge for each tensor that was given, running ones included, as PyTorch's Function has them. */
static bool
record(struct task *me, struct tensor *input, const struct batch_norm_options *o, const struct shared_stats *shared,
       struct tensor *output)
{
    struct tensor *given[] = { input, o->weight, o->bias, o->running_mean, o->running_var };
    int            edges   = 0, weight = -1, bias = -1;
    for (size_t i = 0; i < countof(given); i++) {
        if (given[i] == NULL)
            continue;
        weight = i == 1 ? edges : weight;
        bias   = i == 2 ? edges : bias;
        given[edges++] = given[i];
    }
    struct node *node = node_new(me, "SyncBatchNormBackward", sync_batch_norm_backward, edges, 1);
    if (node == NULL)
        return false;
    node->context              = shared->group;
    node->fill_missing         = true;
    node->numbers[TOTAL]       = shared->total;
    node->numbers[WEIGHT_EDGE] = weight;
    node->numbers[BIAS_EDGE]   = bias;
    for (int i = 0; i < edges; i++)
        node_connect(me, node, i, given[i]);
    bool done = comm_place_node(me, node, tensor_device(input)) && node_save(me, node, input, false) &&
                node_save(me, node, shared->stats, false) &&
                (o->weight == NULL || node_save(me, node, o->weight, false));
    node_output(me, node, output, 0);
    node_unref(me, node);
    return done && !task_failed(me);
}

static struct tensor *
sync_batch_norm(struct task *me, struct tensor *input, const struct batch_norm_options *o, struct process_group *group)
{
    struct shared_stats shared = { .group = group };
    struct tensor      *differ[] = { input, o->weight, o->bias };
    bool                on = grad_enabled(me);
    grad_set_enabled(me, false);
    struct tensor *output = sync_batch_norm_forward(me, input, o, &shared);
    grad_set_enabled(me, on);
    if (output == NULL || !any_requires_grad(me, differ, 3))
        return output;
    return record(me, input, o, &shared, output) ? output : NULL;
}

/* ---- the module ---- */

struct sync_group
sync_batch_norm_group(const struct module *module)
{
    return (struct sync_group){ module->script, module->integers[OUTSIDE] != 0 };
}

/* The group to share statistics with, NULL: there is nobody. false: failed. */
static bool
group_for(struct task *me, const struct module *self, const struct tensor *input, struct process_group **out)
{
    const struct rank_context *rank = rank_context(me);
    struct sync_group          own  = sync_batch_norm_group(self);
    *out = NULL;
    if (!self->training || rank == NULL || rank->group == NULL)
        return true;
    if (tensor_device(input) == DEVICE_CPU)
        return failed(me, E_VALUE, "SyncBatchNorm expected input tensor to be on GPU, and it is on the cpu: move the "
                                   "module and its input to a device, as module:to(\"device:0\")");
    struct process_group *group = own.group != NULL ? own.group : rank->group;
    if (process_group_is_gone(group))
        return failed(me, E_VALUE, "SyncBatchNorm: invalid process group specified: group %d was destroyed",
                      process_group_number(group));
    if (!own.outside && process_group_size(group) > 1)
        *out = group;
    return true;
}

static struct tensor *
apply_sync_batch_norm(struct task *me, struct module *self, struct tensor *const *in)
{
    struct tensor            *input = in[0];
    struct process_group     *group;
    struct batch_norm_options o;
    if (input->dims < 2)
        return failed_null(me, E_VALUE, "expected at least 2D input (got %dD input)", input->dims);
    if (input->size[1] == 0)
        return failed_null(me, E_VALUE, "SyncBatchNorm number of input channels should be non-zero");
    if (!batch_norm_check_channels(me, self, input) || !batch_norm_begin(me, self, &o) ||
        !group_for(me, self, input, &group))
        return NULL;
    return group != NULL ? sync_batch_norm(me, input, &o, group) : batch_norm(me, input, &o);
}

static const struct layer_type sync_batch_norm_type = {
    { "SyncBatchNorm", layer_forward, &module_plain, batch_norm_describe, batch_norm_attributes }, 1,
    apply_sync_batch_norm,
};

bool
module_is_sync_batch_norm(const struct module *module)
{
    return module->type == &sync_batch_norm_type.type;
}

static struct module *
in_group(struct module *module, const struct sync_group *group)
{
    if (module == NULL)
        return NULL;
    module->script            = group->group;
    module->integers[OUTSIDE] = group->outside;
    return module;
}

struct module *
sync_batch_norm_new(struct task *me, const struct batch_norm_settings *settings, const struct sync_group *group)
{
    return in_group(batch_norm_new(me, &sync_batch_norm_type.type, settings), group);
}

/* ---- conversion ---- */

/* A child under two names of one parent is a child once, by the first of them: so PyTorch lists children, and the other
 * name keeps the BatchNorm. */
static bool
listed_before(const struct module_table *children, const struct module *const *originals, int index)
{
    for (int i = 0; i < index; i++)
        if (originals[i] == children->entries[index].module)
            return true;
    return false;
}

static struct module *
convert(struct task *me, struct module *module, const struct sync_group *group, int depth)
{
    struct module *result = module;
    if (depth > MODULE_DEEPEST)
        return failed_null(me, E_RUNTIME, "convert_sync_batchnorm: modules are nested deeper than %d", MODULE_DEEPEST);
    if (module_is_batch_norm(module))
        result = in_group(batch_norm_sharing(me, &sync_batch_norm_type.type, module), group);
    const struct module_table *children = &module->children;
    const struct module **originals = scratch_new(me, (size_t)children->count + 1, sizeof *originals);
    if (result == NULL || originals == NULL)
        return NULL;
    for (int i = 0; i < children->count; i++) {
        struct module *child = children->entries[i].module;
        originals[i] = child;
        if (child == NULL || listed_before(children, originals, i))
            continue;
        child = convert(me, child, group, depth + 1);
        bool there = child == originals[i] && result == module;
        if (child == NULL || (!there && !module_add_child(me, result, children->entries[i].name, child)))
            return NULL;
    }
    return result;
}

struct module *
sync_batch_norm_convert(struct task *me, struct module *module, const struct sync_group *group)
{
    return convert(me, module, group, 0);
}
