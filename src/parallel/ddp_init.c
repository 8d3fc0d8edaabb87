/* The construction of a DistributedDataParallel: DistributedDataParallel.__init__ of torch/nn/parallel/distributed.py.
 * Checks, the comparison of the ranks' models (verify_params.c), rank 0's state for all (state_sync.c), the reducer. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "c10d/group.h"
#include "device/cells.h"
#include "nn/layers.h"
#include "nn/name.h"
#include "parallel/check_ranks.h"
#include "parallel/ddp_internal.h"
#include "parallel/delayed_params.h"
#include "parallel/logger.h"
#include "parallel/reducer.h"
#include "parallel/state_sync.h"
#include "parallel/sync_batch_norm.h"
#include "parallel/verify_params.h"
#include "sched/stage.h"
#include "tensor/tensor.h"

enum { MIB = 1 << 20, DEFAULT_FIRST_BUCKET_BYTES = MIB, DEFAULT_BUCKET_CAP_MB = 25 };

/* ---- checks ---- */

/* sparse[i]: the module that has params[i], at first sight, is an Embedding with sparse gradients. */
static bool
find_sparse(struct task *me, struct module *module, const struct named_tensors *params, bool *sparse)
{
    struct named_modules modules = { 0 };
    bool done = module_named_modules(me, module, &modules);
    for (int m = modules.count; done && m-- > 0;)
        for (int p = 0; p < modules.modules[m]->parameters.count; p++)
            for (int i = 0; i < params->count; i++)
                if (params->tensors[i] == modules.modules[m]->parameters.entries[p].tensor)
                    sparse[i] = nn_makes_sparse_gradients(modules.modules[m]);
    named_modules_free(me, &modules);
    return done;
}

static bool
check_trained(struct task *me, const struct named_tensors *params, const struct ddp_options *options)
{
    for (int i = 0; i < params->count; i++)
        if (params->tensors[i]->requires_grad)
            return true;
    return options->delayed.count > 0 ||
           failed(me, E_RUNTIME, "DistributedDataParallel is not needed when a module doesn't have any parameters "
                                 "that require a gradient");
}

static bool
devices_not_wanted(struct task *me, const struct ddp_options *options, const char *place)
{
    char ids[24] = "nil", output[24] = "nil";
    if (options->device_ids.count > 0)
        snprintf(ids, sizeof ids, "{%d}", options->device_ids.ids[0]);
    if (options->has_output_device)
        snprintf(output, sizeof output, "%d", options->output_device);
    return failed(me, E_VALUE, "DistributedDataParallel device_ids and output_device arguments only work with "
                               "single-device GPU modules, but got device_ids %s, output_device %s, and the module's "
                               "parameters are on %s: leave both out", ids, output, place);
}

/* A lazy module has no shapes before its first forward. */
static bool
check_initialized(struct task *me, const struct named_tensors *params)
{
    for (int i = 0; i < params->count; i++)
        if (tensor_uninitialized(params->tensors[i]))
            return failed(me, E_RUNTIME, "Modules with uninitialized parameters can't be used with "
                                         "`DistributedDataParallel`: '%s' has no shape yet. Run a dummy forward pass "
                                         "first to initialize it.", params->names[i]);
    return true;
}

static bool
check_devices(struct task *me, const struct named_tensors *params, const struct ddp_options *options)
{
    bool several = false, asked = options->device_ids.count > 0 || options->has_output_device;
    if (options->device_ids.count > 1)
        return failed(me, E_VALUE, "device_ids can only be nil or contain a single element, not %d: "
                                   "DistributedDataParallel has one rank for each device", options->device_ids.count);
    if (params->count == 0)
        return failed(me, E_VALUE, "DistributedDataParallel's modules must be on the same type of device, but no "
                                   "parameter is left to look at: delay_all_reduce_named_params has them all");
    int first = tensor_device(params->tensors[0]);
    for (int i = 1; i < params->count; i++) {
        int device = tensor_device(params->tensors[i]);
        several    = several || device != first;
        if ((device < 0) != (first < 0))
            return failed(me, E_VALUE, "DistributedDataParallel's modules must be on the same type of device, but "
                                       "'%s' is on the CPU and '%s' is not or the other way round", params->names[0],
                          params->names[i]);
    }
    if (asked && (several || first < 0))
        return devices_not_wanted(me, options, several ? "several devices" : "the CPU");
    if (options->device_ids.count == 1 && options->device_ids.ids[0] != first)
        return failed(me, E_VALUE, "device_ids names device:%d, but the module's parameters are on device:%d: move "
                                   "it there first, as module:to(\"device:%d\")", options->device_ids.ids[0], first,
                      options->device_ids.ids[0]);
    return true;
}

/* ---- construction ---- */

/* Equal from the first step: rank 0's parameters (also the frozen ones) and buffers replace everybody's. Never again
 * after this: from here on equal gradients keep the parameters equal. */
static bool
ddp_sync_module_states(struct task *me, struct process_group *group,
                       const struct named_tensors *states)
{
    STAGE(me, ddp_sync_module_states, states->count, named_bytes(states), 0);
    const struct state_sync sync = { .tensors = states->tensors, .count = states->count };
    return broadcast_coalesced(me, group, &sync);
}

static bool
ddp_sync_states(struct task *me, struct process_group *group, struct module *module, const struct ddp_options *options)
{
    struct named_tensors states;
    return ddp_wanted_states(me, module, options, !options->no_init_sync_buffers, &states) &&
           ddp_sync_module_states(me, group, &states);
}

static size_t
mib_to_bytes(double mib)
{
    double bytes = mib * MIB;
    return bytes < (double)(SIZE_MAX / 2) ? (size_t)bytes : SIZE_MAX / 2;
}

static size_t
bucket_cap_bytes(const struct ddp_options *options)
{
    double cap = options->has_bucket_cap ? options->bucket_cap_mb : DEFAULT_BUCKET_CAP_MB;
    for (int i = 0; i < options->bucket_cap_count; i++)
        cap = i == 0 || options->bucket_caps_mb[i] > cap ? options->bucket_caps_mb[i] : cap;
    return mib_to_bytes(cap);
}

/* Small by default, so that the wire gets work early. Who names a cap means it for all buckets (PR 121640; until then
 * the first one's was 1 MiB all the same). */
static size_t
first_bucket_bytes(const struct ddp_options *options)
{
    if (options->has_bucket_cap || options->bucket_cap_count > 0)
        return bucket_cap_bytes(options);
    return options->default_first_bucket_bytes != 0 ? options->default_first_bucket_bytes : DEFAULT_FIRST_BUCKET_BYTES;
}

static struct reducer *
ddp_reducer_new(struct task *me, const struct ddp *ddp, const struct named_tensors *params,
                const struct ddp_options *options)
{
    bool   *sparse = scratch_new(me, (size_t)params->count + 1, sizeof *sparse);
    size_t *limits = scratch_new(me, (size_t)options->bucket_cap_count + 1, sizeof *limits);
    if (sparse == NULL || limits == NULL || !find_sparse(me, ddp->module, params, sparse))
        return NULL;
    for (int i = 0; i < options->bucket_cap_count; i++)
        limits[i] = mib_to_bytes(options->bucket_caps_mb[i]);
    struct reducer_options of_reducer = {
        .first_bucket_bytes            = first_bucket_bytes(options),
        .bucket_bytes                  = bucket_cap_bytes(options),
        .bucket_limits                 = limits,
        .bucket_limit_count            = options->bucket_cap_count,
        .find_unused_parameters        = options->find_unused_parameters,
        .gradient_as_bucket_view       = options->gradient_as_bucket_view,
        .static_graph                  = options->static_graph,
        .skip_all_reduce_unused_params = options->skip_all_reduce_unused_params,
        .batched_grad_copy             = options->batched_grad_copy,
        .lazy_bucket_allocation        = options->lazy_bucket_allocation,
        .names                         = (const char *const *)params->names,
        .sparse                        = sparse,
        .replica                       = ddp->replica,
    };
    return reducer_new(me, params->tensors, params->count, ddp->group, &of_reducer);
}

static bool
ddp_keep_ignored(struct task *me, struct ddp *ddp, const struct ddp_options *options)
{
    if (options->ignored_count == 0)
        return true;
    ddp->ignored = calloc((size_t)options->ignored_count, sizeof *ddp->ignored);
    if (ddp->ignored == NULL)
        return failed(me, E_MEMORY, "out of memory for DistributedDataParallel");
    for (; ddp->ignored_count < options->ignored_count; ddp->ignored_count++) {
        ddp->ignored[ddp->ignored_count] = name_new(me, options->ignored[ddp->ignored_count]);
        if (ddp->ignored[ddp->ignored_count] == NULL)
            return false;
    }
    return true;
}

static struct module *
ddp_wrap(struct task *me, struct module *module, struct process_group *group, const struct ddp_options *options)
{
    struct module *wrapper = module_new(me, &ddp_type);
    struct ddp    *ddp     = wrapper != NULL ? calloc(1, sizeof *ddp) : NULL;
    if (ddp == NULL)
        return wrapper != NULL ? failed_null(me, E_MEMORY, "out of memory for DistributedDataParallel") : NULL;
    *ddp = (struct ddp){
        .module                     = module_ref(module),
        .group                      = group,
        .device                     = options->device_ids.count > 0 ? options->device_ids.ids[0] : DEVICE_CPU,
        .has_output_device          = options->has_output_device || options->device_ids.count > 0,
        .output_device              = options->output_device,
        .bucket_bytes_cap           = bucket_cap_bytes(options),
        .find_unused_parameters     = options->find_unused_parameters,
        .gradient_as_bucket_view    = options->gradient_as_bucket_view,
        .forward_sync_buffers       = !options->no_forward_sync_buffers,
        .sink_clone                 = true,
        .require_backward_grad_sync = true,
        .require_forward_param_sync = true,
        .authoritative_rank         = -1,
    };
    if (ddp->device >= 0 && !options->has_output_device)
        ddp->output_device = ddp->device;
    wrapper->script = ddp;
    ddp->link       = host_take(me, sizeof *ddp->link);
    if (ddp->link == NULL)
        return NULL;
    ddp->link->ddp = ddp;
    atomic_init(&ddp->link->references, 1);
    return ddp_keep_ignored(me, ddp, options) && module_add_child(me, wrapper, "module", module) ? wrapper : NULL;
}

/* What all ranks have alike from here on. */
static bool
ddp_watch(struct task *me, struct ddp *ddp, const struct ddp_options *options)
{
    struct named_tensors params = { 0 }, buffers = { 0 };
    bool with_buffers = !options->no_init_sync_buffers;
    bool done = ddp_wanted_parameters(me, ddp->module, options, &params) &&
                (!with_buffers || ddp_wanted_buffers(me, ddp->module, options, &buffers));
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

static bool
ddp_start_logging(struct task *me, struct ddp *ddp)
{
    const struct logger_construction wrapper = {
        .module            = ddp->module,
        .device_ids        = &ddp->device,
        .device_count      = ddp->device >= 0,
        .output_device     = ddp->has_output_device ? ddp->output_device : DEVICE_CPU,
        .broadcast_buffers = ddp->forward_sync_buffers,
    };
    ddp->logger = logger_new(me);
    return ddp->logger != NULL && reducer_set_logger(me, ddp->reducer, ddp->logger, &wrapper);
}

/* SyncBatchNorm runs on devices alone, so in a module of the host its first forward would fail. */
static bool
check_sync_batch_norm(struct task *me, struct module *module, const struct named_tensors *params)
{
    struct named_modules list  = { 0 };
    const char          *found = NULL;
    bool                 done  = true;
    if (tensor_device(params->tensors[0]) != DEVICE_CPU)
        return true;
    done = module_named_modules(me, module, &list);
    for (int i = 0; i < list.count && done && found == NULL; i++)
        if (module_is_sync_batch_norm(list.modules[i]))
            found = list.names[i];
    if (found != NULL)
        done = failed(me, E_VALUE, "SyncBatchNorm layers only work with GPU modules, and the parameters are on the "
                                   "cpu%s%s%s: move the module to a device first, as module:to(\"device:0\")",
                      found[0] == '\0' ? "" : ", those of '", found, found[0] == '\0' ? "" : "' too");
    named_modules_free(me, &list);
    return done;
}

static struct module *
ddp_build(struct task *me, struct module *module, struct process_group *group, const struct ddp_options *options,
          const struct named_tensors *params)
{
    struct module *wrapper = ddp_wrap(me, module, group, options);
    struct ddp    *ddp     = wrapper != NULL ? wrapper->script : NULL;
    if (ddp == NULL)
        return NULL;
    if (options->delayed.count > 0 && (ddp->delayed = delayed_new(me, wrapper, group, &options->delayed)) == NULL)
        return NULL;
    if (params->count == 0)
        return wrapper;
    if (!ddp_begin_alike(me, module, group, options, params) || !ddp_watch(me, ddp, options))
        return NULL;
    ddp->reducer = ddp_reducer_new(me, ddp, params, options);
    if (ddp->reducer == NULL)
        return NULL;
    reducer_set_owner(ddp->reducer, wrapper);
    bool done = ddp_start_logging(me, ddp) && check_sync_batch_norm(me, module, params) &&
                (!options->static_graph || ddp_set_static_graph(me, wrapper));
    return done ? wrapper : NULL;
}

static bool
ddp_check(struct task *me, const struct process_group *group, const struct named_tensors *params,
          const struct ddp_options *options)
{
    if (group == NULL)
        return failed(me, E_VALUE, "Default process group has not been initialized: call init_process_group first");
    return check_trained(me, params, options) && check_devices(me, params, options) && check_initialized(me, params);
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
    if (ddp_wanted_parameters(me, module, options, &params) &&
        ddp_check(me, group, &params, options)) {
        ddp_keep_wanted(me, &params, options, true);
        stage_set(&stage_, 0, params.count);
        wrapper = ddp_build(me, module, group, options, &params);
    }
    named_tensors_free(me, &params);
    return hand_up(me, wrapper);
}

