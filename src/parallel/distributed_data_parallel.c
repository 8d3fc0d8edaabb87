/* nn.parallel.DistributedDataParallel: torch/nn/parallel/distributed.py. Every rank has the whole model and a share of
 * the data; construction makes the models equal, the reducer keeps them so. ddp_new checks, verifies that all ranks
 * build the same model (verify_params.c), sends rank 0's state to the others and makes the reducer; then each call of
 * the module is ddp_forward. What happens during the backward is in reducer.c. */
#include <stdlib.h>
#include <string.h>
#include "autograd/node.h"
#include "base/str.h"
#include "c10d/group.h"
#include "nn/name.h"
#include "parallel/buckets.h"
#include "parallel/check_ranks.h"
#include "parallel/distributed_data_parallel.h"
#include "parallel/flat.h"
#include "parallel/reducer.h"
#include "parallel/verify_params.h"
#include "sched/stage.h"
#include "tensor/op.h"

enum { COALESCED_BYTES = 250 << 20, MIB = 1 << 20, DEFAULT_FIRST_BUCKET_BYTES = MIB, DEFAULT_BUCKET_CAP_MB = 25 };

struct ddp {
    struct module        *module;                     /* a reference */
    struct process_group *group;
    struct reducer       *reducer;
    struct replica       *replica;                    /* --check-ranks; else NULL */
    bool                  find_unused_parameters, forward_sync_buffers, sink_clone;
    bool                  require_backward_grad_sync; /* false inside no_sync */
    bool                  require_forward_param_sync; /* buffers: false after a forward that did not synchronise */
};

/* ---- sending tensors from rank 0, many in one message ---- */

/* What is written out of the flat tensor is a change of the tensor, but for buffers in front of a forward: two forwards
 * and then one backward shall not find them "modified by an inplace operation", as they were in PyTorch 1.13 (issue
 * 22095, PR 175851). */
enum flat_direction { INTO_FLAT, OUT_OF_FLAT, OUT_OF_FLAT_KEEPING_VERSIONS };

static bool
flat_copy(struct task *me, struct tensor *flat, const struct flat_members *members, enum flat_direction direction)
{
    struct flat_walk walk = { .flat = flat };
    for (int i = 0; i < members->count; i++) {
        struct tensor *tensor = members->tensors[members->indices[i]], *piece = flat_piece(me, &walk, tensor);
        bool in = direction == INTO_FLAT;
        if (piece == NULL || !tensor_copy(me, in ? piece : tensor, in ? tensor : piece))
            return false;
        if (direction == OUT_OF_FLAT)
            tensor_bump(tensor);
    }
    return true;
}

static bool
broadcast_flat(struct task *me, struct process_group *group, const struct flat_members *members,
               enum flat_direction back)
{
    size_t         mark = scope_mark(me);
    struct tensor *flat = flat_empty(me, members);
    bool done = flat != NULL && flat_copy(me, flat, members, INTO_FLAT) && group_broadcast_now(me, group, flat, 0) &&
                flat_copy(me, flat, members, back);
    scope_release(me, mark);
    return done;
}

/* dist._broadcast_coalesced: grouped by dtype and device, flattened, sent, unflattened. */
static bool
broadcast_coalesced(struct task *me, struct process_group *group, const struct named_tensors *list,
                    enum flat_direction back)
{
    struct tensor *const *tensors = list->tensors;
    int                   count   = list->count;
    if (count == 0)
        return true;
    struct bucket_input *inputs = malloc((size_t)count * sizeof *inputs);
    if (inputs == NULL)
        return failed(me, E_MEMORY, "out of memory for a broadcast");
    for (int i = 0; i < count; i++)
        inputs[i] = bucket_input_of(tensors[i]);
    size_t             limit = COALESCED_BYTES;
    struct bucket_list buckets;
    const struct bucket_assignment wanted = { .inputs = inputs, .count = count, .limits = &limit, .limit_count = 1 };
    bool done = buckets_assign(me, &wanted, &buckets);
    free(inputs);
    for (int i = 0; i < buckets.count && done; i++) {
        const struct flat_members members = { tensors, buckets.indices[i], buckets.sizes[i] };
        done = broadcast_flat(me, group, &members, back);
    }
    buckets_free(&buckets);
    return done;
}

static int64_t
bytes_of(const struct named_tensors *list)
{
    int64_t bytes = 0;
    for (int i = 0; i < list->count; i++)
        bytes += tensor_bytes(list->tensors[i]);
    return bytes;
}

/* ---- construction ---- */

/* Equal from the first step: rank 0's parameters (also the frozen ones) and buffers replace everybody's. Never again
 * after this: from here on equal gradients keep the parameters equal. */
static bool
ddp_sync_module_states(struct task *me, struct process_group *group,
                       const struct named_tensors *states)
{
    STAGE(me, ddp_sync_module_states, states->count, bytes_of(states), 0);
    return broadcast_coalesced(me, group, states, OUT_OF_FLAT);
}

static bool
states_add(struct task *me, struct named_tensors *states, const struct named_tensors *more)
{
    int             count   = states->count + more->count;
    struct tensor **tensors = realloc(states->tensors, (size_t)(count > 0 ? count : 1) * sizeof *tensors);
    if (tensors == NULL)
        return failed(me, E_MEMORY, "out of memory for %d tensors", count);
    states->tensors = tensors;
    for (int i = 0; i < more->count; i++)
        tensors[states->count++] = more->tensors[i];
    return true;
}

/* Those that the reducer looks after: they require a gradient; a shared one counts once, at first sight. */
static bool
ddp_params(struct task *me, struct module *module, struct named_tensors *params)
{
    if (!module_named_parameters(me, module, params))
        return false;
    int kept = 0;
    for (int i = 0; i < params->count; i++) {
        if (!params->tensors[i]->requires_grad) {
            name_unref(me, params->names[i]);
            continue;
        }
        params->tensors[kept] = params->tensors[i];
        params->names[kept++] = params->names[i];
    }
    params->count = kept;
    if (kept == 0)
        return failed(me, E_RUNTIME, "DistributedDataParallel is not needed when a module doesn't have any parameters "
                                     "that require a gradient");
    for (int i = 1; i < kept; i++)
        if ((tensor_device(params->tensors[i]) < 0) != (tensor_device(params->tensors[0]) < 0))
            return failed(me, E_VALUE, "DistributedDataParallel's modules must be on the same type of device, but "
                                       "'%s' is on the CPU and '%s' is not or the other way round", params->names[0],
                          params->names[i]);
    return true;
}

static bool
ddp_sync_states(struct task *me, struct process_group *group, struct module *module, const struct ddp_options *options)
{
    struct named_tensors states = { 0 }, params = { 0 }, buffers = { 0 };
    bool done = module_named_parameters(me, module, &params) &&
                (options->no_init_sync_buffers || module_named_buffers(me, module, &buffers)) &&
                states_add(me, &states, &params) && states_add(me, &states, &buffers) &&
                ddp_sync_module_states(me, group, &states);
    free(states.tensors);
    named_tensors_free(me, &params);
    named_tensors_free(me, &buffers);
    return done;
}

static size_t
bucket_cap_bytes(const struct ddp_options *options)
{
    double bytes = (options->has_bucket_cap ? options->bucket_cap_mb : DEFAULT_BUCKET_CAP_MB) * MIB;
    return bytes < 0x1p62 ? (size_t)bytes : (size_t)1 << 62;
}

/* Small by default, so that the wire gets work early. Who names a cap means it for all buckets (PR 121640; until then
 * the first one's was 1 MiB all the same). */
static size_t
first_bucket_bytes(const struct ddp_options *options)
{
    if (options->has_bucket_cap)
        return bucket_cap_bytes(options);
    return options->default_first_bucket_bytes != 0 ? options->default_first_bucket_bytes : DEFAULT_FIRST_BUCKET_BYTES;
}

static struct reducer *
ddp_reducer_new(struct task *me, const struct ddp *ddp, const struct named_tensors *params,
                const struct ddp_options *options)
{
    struct reducer_options of_reducer = {
        .first_bucket_bytes     = first_bucket_bytes(options),
        .bucket_bytes           = bucket_cap_bytes(options),
        .find_unused_parameters = options->find_unused_parameters,
        .names                  = (const char *const *)params->names,
        .replica                = ddp->replica,
    };
    return reducer_new(me, params->tensors, params->count, ddp->group, &of_reducer);
}

static void
ddp_drop(struct task *me, struct module *self)
{
    struct ddp *ddp = self->script;
    if (ddp == NULL)
        return;
    self->script = NULL;
    reducer_free(me, ddp->reducer);
    replica_free(me, ddp->replica);
    module_unref(me, ddp->module);
    free(ddp);
}

static struct module *
ddp_copy(struct task *me, struct module *self)
{
    (void)self;
    return failed_null(me, E_RUNTIME, "a DistributedDataParallel cannot be replicated: wrap the inner module instead");
}

static void
ddp_describe(const struct module *self, struct str *out)
{
    (void)self, (void)out;
}

static struct value *ddp_forward(struct task *me, struct module *self, struct value *args, struct value *kwargs);

static const struct module_type ddp_type = {
    .name = "DistributedDataParallel", .forward = ddp_forward, .describe = ddp_describe,
    .life = &(const struct module_life){ ddp_copy, module_plain_rewired, ddp_drop },
};

static struct module *
ddp_wrap(struct task *me, struct module *module, struct process_group *group, const struct ddp_options *options)
{
    struct module *wrapper = module_new(me, &ddp_type);
    struct ddp    *ddp     = wrapper != NULL ? calloc(1, sizeof *ddp) : NULL;
    if (ddp == NULL)
        return wrapper != NULL ? failed_null(me, E_MEMORY, "out of memory for DistributedDataParallel") : NULL;
    ddp->module = module_ref(module);
    ddp->group  = group;
    ddp->find_unused_parameters     = options->find_unused_parameters;
    ddp->forward_sync_buffers       = !options->no_forward_sync_buffers;
    ddp->sink_clone                 = true;
    ddp->require_backward_grad_sync = true;
    ddp->require_forward_param_sync = true;
    wrapper->script = ddp;
    return module_add_child(me, wrapper, "module", module) ? wrapper : NULL;
}

/* What all ranks have alike from here on. */
static bool
ddp_watch(struct task *me, struct ddp *ddp, const struct ddp_options *options)
{
    struct named_tensors params = { 0 }, buffers = { 0 };
    bool with_buffers = !options->no_init_sync_buffers;
    bool done = module_named_parameters(me, ddp->module, &params) &&
                (!with_buffers || module_named_buffers(me, ddp->module, &buffers));
    const struct replica_tensors tensors = { &params, with_buffers ? &buffers : NULL };
    done = done && replica_new(me, ddp->group, &tensors, &ddp->replica);
    named_tensors_free(me, &params);
    named_tensors_free(me, &buffers);
    return done;
}

static bool
ddp_begin_alike(struct task *me, struct module *module, struct process_group *group, const struct ddp_options *options,
                const struct named_tensors *params)
{
    if (options->no_init_sync)
        return true;
    return ddp_verify_params(me, group, params) && ddp_sync_states(me, group, module, options);
}

static struct module *
ddp_build(struct task *me, struct module *module, struct process_group *group, const struct ddp_options *options,
          const struct named_tensors *params)
{
    if (group == NULL)
        return failed_null(me, E_VALUE, "Default process group has not been initialized: call init_process_group "
                                        "first");
    if (!ddp_begin_alike(me, module, group, options, params))
        return NULL;
    struct module *wrapper = ddp_wrap(me, module, group, options);
    struct ddp    *ddp     = wrapper != NULL ? wrapper->script : NULL;
    if (ddp == NULL || !ddp_watch(me, ddp, options))
        return NULL;
    ddp->reducer = ddp_reducer_new(me, ddp, params, options);
    return ddp->reducer != NULL ? wrapper : NULL;
}

/* Checks, verification and broadcast come before the reducer: it lays out its buckets by a model that is known to be
 * the same on all ranks. */
struct module *
ddp_new(struct task *me, struct module *module, struct process_group *group,
        const struct ddp_options *options)
{
    int world = group != NULL ? process_group_size(group) : 0;
    STAGE(me, ddp_init, 0, world, (int64_t)bucket_cap_bytes(options));
    struct named_tensors params = { 0 };
    struct module *wrapper = NULL;
    if (task_failed(me) || module == NULL)
        return NULL;
    if (ddp_params(me, module, &params)) {
        stage_set(&stage_, 0, params.count);
        wrapper = ddp_build(me, module, group, options, &params);
    }
    named_tensors_free(me, &params);
    return hand_up(me, wrapper);
}

/* ---- forward ---- */

/* Rank 0's running statistics replace those of the others, before the forward: after a step they differ again. */
static bool
ddp_sync_buffers(struct task *me, const struct ddp *ddp,
                 const struct named_tensors *buffers)
{
    STAGE(me, ddp_sync_buffers, buffers->count, bytes_of(buffers));
    replica_watch_buffers(me, ddp->replica, buffers);
    return broadcast_coalesced(me, ddp->group, buffers, OUT_OF_FLAT_KEEPING_VERSIONS);
}

static bool
sync_buffers_if_due(struct task *me, const struct ddp *ddp)
{
    if (!ddp->require_forward_param_sync || !ddp->forward_sync_buffers)
        return true;
    struct named_tensors buffers = { 0 };
    bool done = module_named_buffers(me, ddp->module, &buffers);
    if (done && buffers.count > 0)
        done = ddp_sync_buffers(me, ddp, &buffers);
    named_tensors_free(me, &buffers);
    return done;
}

struct tensor_list { struct tensor **tensors; int count, room; };

static bool
list_tensor(void *context, struct tensor *tensor)
{
    struct tensor_list *list = context;
    if (tensor->grad_fn == NULL)
        return true;
    if (list->count == list->room) {
        int             room = list->room > 0 ? 2 * list->room : 8;
        struct tensor **more = realloc(list->tensors, (size_t)room * sizeof *more);
        if (more == NULL)
            return false;
        list->tensors = more;
        list->room    = room;
    }
    list->tensors[list->count++] = tensor;
    return true;
}

/* Undefined gradients pass unchanged: what only an unused output needs is not filled with zeros. */
static bool
ddp_sink_backward(struct task *me, struct node *node, struct tensor *const *grad_out, struct tensor **grad_in)
{
    (void)me;
    for (int i = 0; i < node->edge_count; i++)
        grad_in[i] = grad_out[i];
    return true;
}

static struct value *sink_value(struct task *me, struct value *value, struct tensor *const *clones, int *next);

static struct value *
sink_items(struct task *me, struct value *value, struct tensor *const *clones, int *next)
{
    struct value **items  = calloc((size_t)(value->count > 0 ? value->count : 1), sizeof *items);
    struct value  *result = NULL;
    bool           done   = items != NULL || failed(me, E_MEMORY, "out of memory for outputs");
    for (int i = 0; i < value->count && done; i++)
        done = (items[i] = sink_value(me, value->items[i], clones, next)) != NULL;
    if (done)
        result = value_like(me, value, value->count, items);
    free(items);
    return result;
}

/* The same structure, with each tensor that has a history replaced by its clone, in the order of value_each_tensor. */
static struct value *
sink_value(struct task *me, struct value *value, struct tensor *const *clones, int *next)
{
    if (value == NULL)
        return NULL;
    if (value->kind == VALUE_TENSOR)
        return value->tensor->grad_fn != NULL ? value_tensor(me, clones[(*next)++]) : value;
    if (value->kind == VALUE_TUPLE || value->kind == VALUE_LIST || value->kind == VALUE_DICT ||
        value->kind == VALUE_NAMEDTUPLE)
        return sink_items(me, value, clones, next);
    return value;
}

/* _DDPSink: with find_unused_parameters all outputs go through one node, so that a backward from some of them reaches
 * the parameters of the others too, with no gradient, and their hooks run. */
static struct value *
ddp_sink(struct task *me, const struct ddp *ddp, struct value *output, const struct tensor_list *list)
{
    if (list->count == 0)
        return output;
    struct tensor **clones = calloc((size_t)list->count, sizeof *clones);
    if (clones == NULL)
        return failed_null(me, E_MEMORY, "out of memory for outputs");
    struct node *node = node_new(me, "_DDPSinkBackward", ddp_sink_backward, list->count, list->count);
    bool done = node != NULL;
    for (int i = 0; i < list->count && done; i++) {
        node_connect(me, node, i, list->tensors[i]);
        clones[i] = ddp->sink_clone ? tensor_clone(me, list->tensors[i]) : tensor_alias(me, list->tensors[i]);
        done = clones[i] != NULL;
        if (done)
            node_output(me, node, clones[i], i);
    }
    int next = 0;
    struct value *result = done ? sink_value(me, output, clones, &next) : NULL;
    if (node != NULL)
        node_unref(me, node);
    free(clones);
    return result;
}

/* The reducer learns which outputs the backward may begin from; answers what forward returns. */
static struct value *
ddp_prepare_backward(struct task *me, struct ddp *ddp, struct value *output)
{
    if (!ddp->find_unused_parameters)
        return reducer_prepare_for_backward(me, ddp->reducer, NULL, 0) ? output : NULL;
    struct tensor_list list   = { 0 };
    struct value      *result = NULL;
    if (!value_each_tensor(output, list_tensor, &list))
        failed(me, E_MEMORY, "out of memory for outputs");
    else if (reducer_prepare_for_backward(me, ddp->reducer, list.tensors, list.count))
        result = ddp_sink(me, ddp, output, &list);
    free(list.tensors);
    return result;
}

static bool
ddp_before_forward(struct task *me, struct ddp *ddp)
{
    if (!grad_enabled(me))
        return true;
    if (!reducer_ensure_prior_reduction_finished(me, ddp->reducer))
        return false;
    return !reducer_should_rebuild_buckets(ddp->reducer) || reducer_rebuild_buckets(me, ddp->reducer);
}

/* The number of this forward; one that does not synchronise has that of the next that does. */
static int64_t
ddp_count_iteration(struct task *me, struct ddp *ddp, bool syncs)
{
    if (!syncs)
        return reducer_iterations(ddp->reducer);
    int64_t iteration = reducer_prepare_for_forward(ddp->reducer);
    me->iteration = (uint32_t)iteration;
    return iteration;
}

/* Whether the coming backward reduces is decided here, by the forward: grad mode on and not inside no_sync. The last
 * iteration's forgotten gradients surface here too, before anything is computed. */
static struct value *
ddp_forward(struct task *me, struct module *self, struct value *args,
            struct value *kwargs)
{
    struct ddp *ddp = self->script;
    bool syncs = grad_enabled(me) && ddp->require_backward_grad_sync;
    int64_t iteration = ddp_count_iteration(me, ddp, syncs);
    STAGE(me, ddp_forward, iteration);
    if (!ddp_before_forward(me, ddp) || !sync_buffers_if_due(me, ddp))
        return NULL;

    struct value *output = module_forward(me, ddp->module, args, kwargs);

    ddp->require_forward_param_sync = syncs;
    if (output == NULL || !syncs)
        return hand_up(me, output);
    return hand_up(me, ddp_prepare_backward(me, ddp, output));
}

/* ---- questions ---- */

static struct ddp *
ddp_of(const struct module *wrapper)
{
    return wrapper != NULL && wrapper->type == &ddp_type ? wrapper->script : NULL;
}

struct module *
ddp_module(const struct module *wrapper)
{
    const struct ddp *ddp = ddp_of(wrapper);
    return ddp != NULL ? ddp->module : NULL;
}

struct reducer *
ddp_reducer(const struct module *wrapper)
{
    const struct ddp *ddp = ddp_of(wrapper);
    return ddp != NULL ? ddp->reducer : NULL;
}

void
ddp_set_sync(struct module *wrapper, bool sync)
{
    struct ddp *ddp = ddp_of(wrapper);
    if (ddp != NULL)
        ddp->require_backward_grad_sync = sync;
}

void
ddp_set_sink_clone(struct module *wrapper, bool clone)
{
    struct ddp *ddp = ddp_of(wrapper);
    if (ddp != NULL)
        ddp->sink_clone = clone;
}
