/* nn.parallel.DistributedDataParallel: torch/nn/parallel/distributed.py. Every rank has the whole model and a share of
 * the data; construction makes the models equal (ddp_init.c), the reducer keeps them so. Each call of the module is
 * ddp_forward: read it first. What happens during the backward is in reducer.c. */
#include "parallel/distributed_data_parallel.h"
#include <stdlib.h>
#include "autograd/engine.h"
#include "autograd/node.h"
#include "autograd/operators.h"
#include "base/str.h"
#include "c10d/group.h"
#include "device/cells.h"
#include "nn/name.h"
#include "parallel/check_ranks.h"
#include "parallel/ddp_internal.h"
#include "parallel/ddp_sink.h"
#include "parallel/delayed_params.h"
#include "parallel/logger.h"
#include "parallel/reducer.h"
#include "parallel/state_sync.h"
#include "sched/stage.h"

/* ---- outputs ---- */

static bool
delay_callback(struct task *me, void *context)
{
    struct ddp_link *link = context;
    return link->ddp == NULL || reducer_delay_all_reduce(me, link->ddp->reducer);
}

/* A static graph's first backward has begun: at its end everything is reduced. */
static bool
ddp_enqueue_delay(struct task *me, void *context)
{
    struct ddp_link *link = context;
    if (link->ddp == NULL || link->ddp->delay_enqueued)
        return true;
    link->ddp->delay_enqueued = true;
    return reducer_hold(me, link->ddp->reducer) && autograd_queue_callback(me, delay_callback, link);
}

void
ddp_link_drop(struct task *me, struct ddp_link *link)
{
    if (atomic_fetch_sub(&link->references, 1) == 1)
        host_return(me, link, sizeof *link);
}

static void
sink_drop(struct task *me, void *context)
{
    ddp_link_drop(me, context);
}

/* What forward returns, through _DDPSink. In a static graph's first iteration that tells when the backward begins. */
static struct value *
ddp_through_sink(struct task *me, struct ddp *ddp, struct value *output, const struct tensor_list *list)
{
    struct ddp_sink sink = { .clone = ddp->sink_clone };
    if (ddp->static_graph) {
        atomic_fetch_add(&ddp->link->references, 1);
        sink = (struct ddp_sink){ ddp->sink_clone, ddp_enqueue_delay, sink_drop, ddp->link };
    }
    return ddp_sink(me, output, list, &sink);
}

/* The reducer learns which outputs the backward may begin from; answers what forward returns. */
static struct value *
ddp_prepare_backward(struct task *me, struct ddp *ddp, struct value *output, bool syncs)
{
    struct tensor_list list = { 0 };
    bool search = ddp->find_unused_parameters && !ddp->static_graph;
    bool sink   = search || (ddp->static_graph && !ddp->delay_enqueued);
    if (sink && !ddp_find_tensors(me, output, &list))
        return NULL;
    if (syncs && !reducer_prepare_for_backward(me, ddp->reducer, search ? list.tensors : NULL, search ? list.count : 0))
        return NULL;
    return sink && list.count > 0 ? ddp_through_sink(me, ddp, output, &list) : output;
}

/* ---- forward ---- */

/* The number of this forward; one that does not synchronise has that of the next that does. */
static int64_t
ddp_count_iteration(struct task *me, struct ddp *ddp, bool syncs)
{
    if (ddp->reducer == NULL)
        return 0;
    if (!syncs || !reducer_log_stats(me, ddp->reducer))
        return reducer_iterations(ddp->reducer);
    int64_t iteration = reducer_prepare_for_forward(me, ddp->reducer);
    me->iteration = (uint32_t)iteration;
    return iteration;
}

/* The last iteration's forgotten gradients surface here, before anything is computed; and here is the place for new
 * buckets, before activations take memory. In a Join also of a forward without gradients: a rank that only shadows it
 * cannot know that it is one (2.15 leaves it out there, and hangs). */
static bool
ddp_before_forward(struct task *me, struct ddp *ddp, bool syncs)
{
    if (!ddp_notify_join(me, ddp))
        return false;
    if (ddp->reducer != NULL && (grad_enabled(me) || ddp->join.enable)) {
        if (!reducer_ensure_prior_reduction_finished(me, ddp->reducer))
            return false;
        if (reducer_should_rebuild_buckets(ddp->reducer) && !reducer_rebuild_buckets(me, ddp->reducer))
            return false;
    }
    if (ddp->reducer != NULL && !ddp_sync_buffers_if_due(me, ddp, true))
        return false;
    return ddp_tell_backward_sync(me, ddp, syncs);
}

struct place { int device; };

static struct tensor *
tensor_placed(struct task *me, void *context, struct tensor *tensor)
{
    const struct place *place = context;
    return tensor_device(tensor) == place->device ? tensor : tensor_copy_to(me, tensor, place->device, tensor->dtype);
}

/* device_ids: inputs go where the module is. */
static bool
ddp_move_inputs(struct task *me, const struct ddp *ddp, struct value **args, struct value **kwargs)
{
    struct place place = { ddp->device };
    if (ddp->device == DEVICE_CPU)
        return true;
    if (*args != NULL && (*args = value_map(me, *args, tensor_placed, &place)) == NULL)
        return false;
    return *kwargs == NULL || (*kwargs = value_map(me, *kwargs, tensor_placed, &place)) != NULL;
}

static struct value *
ddp_after_forward(struct task *me, struct ddp *ddp, struct value *output, bool syncs)
{
    if (output == NULL || (ddp->delayed != NULL && !delayed_clear(me, ddp->delayed)))
        return NULL;
    if (ddp->reducer == NULL)
        return output;
    if (!ddp_sync_buffers_if_due(me, ddp, false))
        return NULL;
    ddp->require_forward_param_sync = syncs;
    return ddp_prepare_backward(me, ddp, output, syncs);
}

/* Whether the coming backward reduces is decided here, by the forward: grad mode on and not inside no_sync. */
static struct value *
ddp_forward(struct task *me, struct module *self, struct value *args,
            struct value *kwargs)
{
    struct ddp *ddp = self->script;
    bool syncs = grad_enabled(me) && ddp->require_backward_grad_sync;
    int64_t iteration = ddp_count_iteration(me, ddp, syncs);
    STAGE(me, ddp_forward, iteration);
    if (!ddp_before_forward(me, ddp, syncs) || !ddp_move_inputs(me, ddp, &args, &kwargs))
        return NULL;

    struct value *output = module_forward(me, ddp->module, args, kwargs);

    return hand_up(me, ddp_after_forward(me, ddp, output, syncs));
}

/* ---- the wrapper as a module ---- */

static void
drop_buffer_hook(struct task *me, struct ddp *ddp)
{
    if (ddp->buffer_hook.run != NULL)
        ddp->buffer_hook.drop(me, ddp->buffer_hook.context);
    ddp->buffer_hook = (struct buffer_hook){ 0 };
}

static void
ddp_drop(struct task *me, struct module *self)
{
    struct ddp *ddp = self->script;
    if (ddp == NULL)
        return;
    self->script = NULL;
    if (ddp->link != NULL) {
        ddp->link->ddp = NULL;
        ddp_link_drop(me, ddp->link);
    }
    reducer_free(me, ddp->reducer);
    logger_free(ddp->logger);
    replica_free(me, ddp->replica);
    delayed_free(me, ddp->delayed);
    live_ranks_forget(me, &ddp->live);
    drop_buffer_hook(me, ddp);
    named_tensors_free(me, &ddp->buffers);
    for (int i = 0; i < ddp->ignored_count; i++)
        name_unref(me, ddp->ignored[i]);
    free(ddp->ignored);
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

const struct module_type ddp_type = {
    .name = "DistributedDataParallel", .forward = ddp_forward, .describe = ddp_describe,
    .life = &(const struct module_life){ ddp_copy, module_plain_rewired, ddp_drop },
};

/* ---- questions ---- */

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

struct ddp_logger *
ddp_logger(const struct module *wrapper)
{
    const struct ddp *ddp = ddp_of(wrapper);
    return ddp != NULL ? ddp->logger : NULL;
}

bool
ddp_state(const struct module *wrapper, struct ddp_state *out)
{
    const struct ddp *ddp = ddp_of(wrapper);
    if (ddp == NULL)
        return false;
    *out = (struct ddp_state){
        .find_unused_parameters         = ddp->find_unused_parameters,
        .gradient_as_bucket_view        = ddp->gradient_as_bucket_view,
        .static_graph                   = ddp->static_graph,
        .require_forward_param_sync     = ddp->require_forward_param_sync,
        .forward_sync_buffers           = ddp->forward_sync_buffers,
        .require_backward_grad_sync     = ddp->require_backward_grad_sync,
        .sink_clone                     = ddp->sink_clone,
        .manual_finalization            = ddp->manual_finalization,
        .should_finalize_after_backward = ddp->reducer != NULL && reducer_should_finalize_after_backward(ddp->reducer),
        .has_output_device              = ddp->has_output_device,
        .output_device                  = ddp->output_device,
        .authoritative_rank             = ddp->authoritative_rank,
        .device_ids                     = { &ddp->device, ddp->device >= 0 },
        .bucket_bytes_cap               = ddp->bucket_bytes_cap,
    };
    return true;
}

void
ddp_set_sync(struct module *wrapper, bool sync)
{
    struct ddp *ddp = ddp_of(wrapper);
    if (ddp != NULL)
        ddp->require_backward_grad_sync = sync;
}

void
ddp_set_forward_sync_buffers(struct module *wrapper, bool sync)
{
    struct ddp *ddp = ddp_of(wrapper);
    if (ddp != NULL)
        ddp->forward_sync_buffers = sync;
}

void
ddp_set_sink_clone(struct module *wrapper, bool clone)
{
    struct ddp *ddp = ddp_of(wrapper);
    if (ddp != NULL)
        ddp->sink_clone = clone;
}

bool
ddp_set_static_graph(struct task *me, struct module *wrapper)
{
    struct ddp *ddp = ddp_of(wrapper);
    if (ddp->static_graph) {
        task_warn(me, "static_graph is set already");
        return true;
    }
    if (ddp->reducer == NULL || !reducer_set_static_graph(me, ddp->reducer))
        return ddp->reducer == NULL;
    ddp->static_graph = true;
    logger_set_static_graph(ddp->logger);
    if (ddp->find_unused_parameters)
        task_warn(me, "a static graph finds unused parameters in its first iteration: find_unused_parameters=true is "
                      "not needed beside static_graph=true, but the unused ones must stay the same");
    return true;
}

static bool
ddp_needs_reducer(struct task *me, const struct ddp *ddp)
{
    return ddp->reducer != NULL ||
           failed(me, E_RUNTIME, "Manual backward finalization is not supported when all DDP parameters use "
                                 "delay_all_reduce_named_params");
}

bool
ddp_set_manual_finalization(struct task *me, struct module *wrapper, bool required)
{
    struct ddp *ddp = ddp_of(wrapper);
    if (ddp->reducer == NULL && !required)
        return true;
    if (!ddp_needs_reducer(me, ddp) || !reducer_set_manual_finalization(me, ddp->reducer, required))
        return false;
    ddp->manual_finalization = required;
    return true;
}

bool
ddp_finalize_backward(struct task *me, struct module *wrapper)
{
    struct ddp *ddp = ddp_of(wrapper);
    return ddp_needs_reducer(me, ddp) && reducer_finalize_manually(me, ddp->reducer);
}

bool
ddp_update_process_group(struct task *me, struct module *wrapper, struct process_group *group)
{
    struct ddp *ddp = ddp_of(wrapper);
    if (ddp->reducer != NULL && !reducer_reset_state(me, ddp->reducer))
        return false;
    if (group == NULL)
        return true;
    ddp->group = group;
    delayed_update_process_group(ddp->delayed, group);
    if (ddp->reducer != NULL)
        reducer_update_process_group(ddp->reducer, group);
    return true;
}

void
ddp_register_buffer_hook(struct task *me, struct module *wrapper, const struct buffer_hook *hook)
{
    struct ddp *ddp = ddp_of(wrapper);
    drop_buffer_hook(me, ddp);
    ddp->buffer_hook = *hook;
}
