/* Replicas: new modules that share nothing with the original but what shallow copies share:
 * torch.nn.parallel.replicate.
 *
 *     dp_replicate   parameters through one Broadcast node, buffers by a plain copy, then the modules and their wiring
 *
 * All parameters hang on one node, so its backward (reduce-add) waits for every gradient of every replica: that is
 * why DataParallel cannot sum early. On a replica a parameter is the node's output and no leaf; replica 0's shares the
 * original's memory. Without gradients replica 0 has the very parameters. Replicas live for one forward. */
#include "autograd/node.h"
#include "base/map.h"
#include "parallel/comm.h"
#include "parallel/data_parallel.h"
#include "parallel/functions.h"
#include "sched/stage.h"

/* ---- what is to be copied ---- */

struct replication {
    struct task         *me;
    struct named_tensors params, buffers;
    struct named_modules modules;
    struct map           places;  /* address of a parameter, buffer or module: its place */
    struct device_list   devices;
    int                  total;
    struct tensor      **copies;  /* [d * total + place], parameters first */
    struct module      **modules_of_one;
};

static void
replication_free(struct replication *plan)
{
    struct task *me = plan->me;
    named_tensors_free(me, &plan->params);
    named_tensors_free(me, &plan->buffers);
    named_modules_free(me, &plan->modules);
    map_free(&plan->places);
}

static bool
replication_remember(struct task *me, struct replication *plan, const void *thing, int place)
{
    return map_set(&plan->places, (uintptr_t)thing, (uint64_t)place) || failed(me, E_MEMORY, "out of memory");
}

/* Walks the module: shared tensors and modules once, in the order of registration. */
static bool
replication_plan(struct task *me, struct module *module, struct replication *plan)
{
    if (!module_named_parameters(me, module, &plan->params) || !module_named_buffers(me, module, &plan->buffers) ||
        !module_named_modules(me, module, &plan->modules))
        return false;
    for (int i = 0; i < plan->params.count; i++)
        if (tensor_uninitialized(plan->params.tensors[i]))
            return failed(me, E_RUNTIME, "Modules with uninitialized parameters can't be used with `DataParallel`: %s "
                          "has no shape yet; run a forward of the bare module first", plan->params.names[i]);
    plan->total = plan->params.count + plan->buffers.count;
    for (int i = 0; i < plan->params.count; i++)
        if (!replication_remember(me, plan, plan->params.tensors[i], i))
            return false;
    for (int i = 0; i < plan->buffers.count; i++)
        if (!replication_remember(me, plan, plan->buffers.tensors[i], plan->params.count + i))
            return false;
    for (int i = 0; i < plan->modules.count; i++)
        if (!replication_remember(me, plan, plan->modules.modules[i], i))
            return false;
    size_t tensors = (size_t)plan->total * (size_t)plan->devices.count;
    plan->copies = scratch_new(me, tensors, sizeof *plan->copies);
    plan->modules_of_one = scratch_new(me, (size_t)plan->modules.count, sizeof *plan->modules_of_one);
    return plan->copies != NULL && plan->modules_of_one != NULL;
}

/* ---- tensors ---- */

/* Copies `tensors`, whose places are in places[], to all devices: recorded, or plainly when `detach` is set. */
static bool
replicate_tensors(struct task *me, struct replication *plan, struct tensor *const *tensors, int count, bool detach)
{
    if (count == 0 && !detach)
        return true;
    size_t          total = (size_t)count * (size_t)plan->devices.count;
    struct tensor **out = scratch_new(me, total, sizeof *out);
    if (out == NULL)
        return false;
    const struct coalesced given = { tensors, count, plan->devices, 0 };
    bool done = detach ? comm_broadcast_coalesced(me, &given, out) : broadcast_apply(me, &given, out);
    for (size_t at = 0; at < total && done; at++) {
        uint64_t place = 0;
        map_get(&plan->places, (uintptr_t)tensors[at % (size_t)count], &place);
        plan->copies[at / (size_t)count * (size_t)plan->total + place] = out[at];
    }
    return done;
}

static bool
replicate_parameters(struct task *me, struct replication *plan, bool detach)
{
    return replicate_tensors(me, plan, plan->params.tensors, plan->params.count, detach);
}

/* Buffers that want a gradient go through Broadcast too; the others, mostly all, have no part in the graph. They are
 * broadcast even when there are none, as in PyTorch. */
static bool
replicate_buffers(struct task *me, struct replication *plan, bool detach)
{
    const int       count = plan->buffers.count;
    struct tensor **wanting = scratch_new(me, (size_t)count, sizeof *wanting);
    struct tensor **others = scratch_new(me, (size_t)count, sizeof *others);
    int             wanting_count = 0, other_count = 0;
    if (wanting == NULL || others == NULL)
        return false;
    for (int i = 0; i < count; i++) {
        struct tensor *buffer = plan->buffers.tensors[i];
        if (buffer->requires_grad && !detach)
            wanting[wanting_count++] = buffer;
        else
            others[other_count++] = buffer;
    }
    return (detach || replicate_tensors(me, plan, wanting, wanting_count, false)) &&
           replicate_tensors(me, plan, others, other_count, true);
}

/* ---- modules ---- */

static void
drop_replica(struct task *me, void *module)
{
    module_unref(me, module);
}

/* Each entry gets this replica's copy; what is none in the original stays none. */
static void
replica_rewire_tensors(struct task *me, const struct replication *plan, struct module_table *table, int replica)
{
    for (int i = 0; i < table->count; i++) {
        uint64_t place = 0;
        struct tensor **field = &table->entries[i].tensor;
        if (*field != NULL && map_get(&plan->places, (uintptr_t)*field, &place))
            tensor_keep(me, field, plan->copies[(size_t)replica * (size_t)plan->total + place]);
    }
}

static void
replica_rewire_children(struct task *me, const struct replication *plan, struct module_table *table)
{
    for (int i = 0; i < table->count; i++) {
        uint64_t place = 0;
        struct module *child = table->entries[i].module;
        if (child == NULL || !map_get(&plan->places, (uintptr_t)child, &place))
            continue;
        table->entries[i].module = module_ref(plan->modules_of_one[place]);
        module_unref(me, child);
    }
}

/* One replica: all modules are copied before any is wired, for a child may have several parents. */
static struct module *
replicate_modules(struct task *me, struct replication *plan, int replica)
{
    struct module **copies = plan->modules_of_one;
    for (int i = 0; i < plan->modules.count; i++) {
        struct module *original = plan->modules.modules[i];
        copies[i] = born(me, original->type->life->copy(me, original), drop_replica);
        if (copies[i] == NULL)
            return NULL;
        copies[i]->is_replica = true;
    }
    for (int i = 0; i < plan->modules.count; i++) {
        replica_rewire_tensors(me, plan, &copies[i]->parameters, replica);
        replica_rewire_tensors(me, plan, &copies[i]->buffers, replica);
        replica_rewire_children(me, plan, &copies[i]->children);
        if (!copies[i]->type->life->rewired(me, copies[i]))
            return NULL;
    }
    return copies[0];
}

/* New modules for one forward: first all parameters cross to all devices through one Broadcast
 * node, then the buffers, then each replica's modules are copied and wired to their copies. */
bool
dp_replicate(struct task *me, struct module *module, struct device_list devices,
             struct module **replicas)
{
    struct replication plan __attribute__((cleanup(replication_free))) = {
        .me = me, .devices = devices, .places = { .source = host_source(me) }
    };
    bool planned = replication_plan(me, module, &plan);
    STAGE(me, dp_replicate, devices.count, plan.params.count, plan.buffers.count);
    bool detach = !grad_enabled(me);
    if (!planned || !replicate_parameters(me, &plan, detach))
        return false;
    if (!replicate_buffers(me, &plan, detach))
        return false;

    for (int r = 0; r < devices.count; r++) {
        replicas[r] = replicate_modules(me, &plan, r);
        if (replicas[r] == NULL)
            return false;
        hand_up(me, replicas[r]);
    }
    return true;
}
