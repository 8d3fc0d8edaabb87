/* nn.DataParallel: a module that, at each forward, cuts the batch, copies the wrapped module to every device, runs the
 * copies side by side and puts the outputs together again: torch.nn.parallel.data_parallel.
 *
 *     data_parallel_new       the wrapper: chooses the devices; with one device, moves the module there
 *     data_parallel_forward   one forward, read from top to bottom; also the functional form
 *
 * The backward needs no function here: it is the graph that Scatter, Broadcast and Gather left behind. */
#include "parallel/data_parallel.h"

#include "base/str.h"
#include "parallel/comm.h"
#include "sched/stage.h"
#include "tensor/tensor.h"

#include <stdlib.h>
#include <string.h>

enum { TREE_TURNS = 1000 };

/* What a wrapper and its replicas share: the options, whose list of devices lies behind them. */
struct wrapper_options {
    atomic_int                   references, forwards;
    struct data_parallel_options options;
    int                          ids[];
};

/* ---- forward ---- */

/* A search of the tree for a tensor that lies elsewhere than on `device`: among the parameters, or the buffers. It
 * makes no lists, which would cost more than a small model's forward. `turns`: how many modules it may still enter, for
 * where many share their children there are more ways than modules. */
struct search { int device, turns; bool buffers; };

static struct tensor *
found_elsewhere(struct search *search, const struct module *module)
{
    const struct module_table *table = search->buffers ? &module->buffers : &module->parameters;
    struct tensor             *found = NULL;
    if (search->turns-- <= 0)
        return NULL;
    for (int i = 0; i < table->count; i++) {
        struct tensor *tensor = table->entries[i].tensor;
        bool former = module->is_replica && !search->buffers && tensor != NULL && !tensor->is_parameter;
        if (tensor != NULL && !former && tensor_device(tensor) != search->device)
            return tensor;
    }
    for (int i = 0; i < module->children.count && found == NULL; i++)
        if (module->children.entries[i].module != NULL)
            found = found_elsewhere(search, module->children.entries[i].module);
    return found;
}

/* The same by lists. false: failed. */
static bool
listed_elsewhere(struct task *me, struct module *module, const struct search *search, struct tensor **found)
{
    struct named_tensors list = { 0 };
    bool done = search->buffers ? module_named_buffers(me, module, &list) : module_named_parameters(me, module, &list);
    for (int i = 0; done && i < list.count && *found == NULL; i++)
        if (tensor_device(list.tensors[i]) != search->device)
            *found = list.tensors[i];
    named_tensors_free(me, &list);
    return done;
}

/* The module lives on the first device: from there it is copied. Checked at each forward, for it may
 * have been moved since the wrapper was made. */
static bool
data_parallel_check(struct task *me, struct module *module, int device)
{
    STAGE(me, dp_check, device);
    struct tensor *found = NULL;
    for (int buffers = 0; buffers < 2 && found == NULL; buffers++) {
        struct search search = { device, TREE_TURNS, buffers == 1 };
        found = found_elsewhere(&search, module);
        if (search.turns < 0 && !listed_elsewhere(me, module, &search, &found))
            return false;
    }
    if (found == NULL)
        return true;
    char wanted[24], other[24];
    comm_device_name(device, wanted);
    comm_device_name(tensor_device(found), other);
    return failed(me, E_RUNTIME,
                  "module must have its parameters and buffers on device %s "
                  "(device_ids[0]) but found one of them on device: %s", wanted, other);
}

/* What scatter, replicate, apply and gather hand to one another: one entry per replica. */
struct replicas {
    int               count;
    struct call_arguments *arguments;
    struct value    **outputs;
    struct module   **modules;
};

static bool
replicas_room(struct task *me, int count, struct replicas *out)
{
    out->arguments = scratch_new(me, (size_t)count, sizeof *out->arguments);
    out->outputs = scratch_new(me, (size_t)count, sizeof *out->outputs);
    out->modules = scratch_new(me, (size_t)count, sizeof *out->modules);
    return out->arguments != NULL && out->outputs != NULL && out->modules != NULL;
}

/* The options with nothing left to choose: device_ids or all, in me's scope; the first of them for the output. */
static bool
options_resolve(struct task *me, const struct data_parallel_options *given, struct data_parallel_options *out)
{
    struct device_list asked = given->devices;
    int  count = asked.ids != NULL ? asked.count : device_count(me);
    int *ids = scratch_new(me, (size_t)(count > 0 ? count : 1), sizeof *ids);
    if (ids == NULL)
        return false;
    for (int i = 0; i < count; i++) {
        ids[i] = asked.ids != NULL ? asked.ids[i] : i;
        if (ids[i] == DEVICE_CPU)
            return failed(me, E_DEVICE, "device_ids[%d] is the cpu: DataParallel runs on devices", i);
        if (!device_check(me, ids[i]))
            return false;
    }
    *out = *given;
    out->devices = (struct device_list){ ids, count };
    out->output_device = given->output_device == -2 && count > 0 ? ids[0] : given->output_device;
    return count == 0 || out->output_device == DEVICE_CPU || device_check(me, out->output_device);
}

/* With no argument at all there is still one call, on the first device. */
static bool
scatter_arguments(struct task *me, struct call_arguments given, const struct data_parallel_options *options,
                  struct replicas *out)
{
    out->count = dp_scatter(me, given, options->devices, options->dim, out->arguments);
    if (out->count > 0 || task_failed(me))
        return out->count > 0;
    out->count = 1;
    out->arguments[0].inputs = value_tuple(me, 0, NULL);
    out->arguments[0].kwargs = value_container(me, &(struct value_form){ VALUE_DICT, NULL, NULL }, 0, NULL);
    return out->arguments[0].inputs != NULL && out->arguments[0].kwargs != NULL;
}

static struct value *
inputs_as_tuple(struct task *me, struct value *inputs)
{
    if (inputs == NULL || inputs->kind == VALUE_NONE)
        return value_tuple(me, 0, NULL);
    return inputs->kind == VALUE_TUPLE ? inputs : value_tuple(me, 1, &inputs);
}

/* One forward. The module itself is never called when there is more than one device: only its
 * replicas are, which live until their part of the graph is gone. A batch too small for all devices
 * uses the first of them; with a single device there is nothing to copy and nothing to gather. */
struct value *
data_parallel_forward(struct task *me, struct module *module, struct call_arguments given,
                      const struct data_parallel_options *options)
{
    struct data_parallel_options all = { .dim = 0 };
    struct replicas              replicas;
    bool                         resolved = options_resolve(me, options, &all);
    struct device_list           devices = all.devices;
    STAGE(me, dp_forward, devices.count);
    if (!resolved || !replicas_room(me, devices.count, &replicas))
        return NULL;
    given.inputs = inputs_as_tuple(me, given.inputs);
    if (given.inputs == NULL)
        return NULL;
    if (devices.count == 0)
        return hand_up(me, module_forward(me, module, given.inputs, given.kwargs));

    if (!data_parallel_check(me, module, devices.ids[0]))
        return NULL;
    if (!scatter_arguments(me, given, &all, &replicas))
        return NULL;
    if (devices.count == 1)
        return hand_up(me, module_forward(me, module, replicas.arguments[0].inputs,
                                          replicas.arguments[0].kwargs));
    devices.count = replicas.count;
    if (!dp_replicate(me, module, devices, replicas.modules))
        return NULL;
    if (!dp_parallel_apply(me, replicas.modules, replicas.arguments, devices,
                           replicas.outputs))
        return NULL;
    return hand_up(me, dp_gather(me, replicas.outputs, replicas.count, all.output_device,
                                 all.dim));
}

/* ---- the wrapper ---- */

static struct value *
wrapper_forward(struct task *me, struct module *self, struct value *args, struct value *kwargs)
{
    struct wrapper_options *own = self->script;
    struct module *module = module_child(self, "module");
    if (module == NULL)
        return failed_null(me, E_RUNTIME, "this DataParallel has lost its module");
    me->iteration = (uint32_t)atomic_fetch_add(&own->forwards, 1);
    return data_parallel_forward(me, module, (struct call_arguments){ args, kwargs }, &own->options);
}

static struct module *
wrapper_copy(struct task *me, struct module *self)
{
    struct module *copy = module_plain_copy(me, self);
    if (copy == NULL)
        return NULL;
    struct wrapper_options *own = self->script;
    atomic_fetch_add(&own->references, 1);
    copy->script = own;
    return copy;
}

static void
wrapper_drop(struct task *me, struct module *self)
{
    (void)me;
    struct wrapper_options *own = self->script;
    self->script = NULL;
    if (own != NULL && atomic_fetch_sub(&own->references, 1) == 1)
        free(own);
}

static void
wrapper_describe(const struct module *self, struct str *out)
{
    (void)self;
    (void)out;
}

static const struct module_type wrapper_type = {
    .name = "DataParallel",
    .forward = wrapper_forward,
    .life = &(const struct module_life){ wrapper_copy, module_plain_rewired, wrapper_drop },
    .describe = wrapper_describe,
};

struct module *
data_parallel_new(struct task *me, struct module *module, const struct data_parallel_options *options)
{
    struct data_parallel_options all = { .dim = 0 };
    if (!options_resolve(me, options, &all))
        return NULL;
    if (all.devices.count == 1 && !module_to(me, module, all.devices.ids[0]))
        return NULL;
    struct module *wrapper = module_new(me, &wrapper_type);
    if (wrapper == NULL || !module_add_child(me, wrapper, "module", module))
        return NULL;
    size_t                  bytes = (size_t)all.devices.count * sizeof(int);
    struct wrapper_options *own = malloc(sizeof *own + bytes);
    if (own == NULL)
        return failed_null(me, E_MEMORY, "out of memory");
    *own = (struct wrapper_options){ .options = all };
    atomic_init(&own->references, 1);
    atomic_init(&own->forwards, 0);
    memcpy(own->ids, all.devices.ids, bytes);
    own->options.devices.ids = own->ids;
    wrapper->script = own;
    return wrapper;
}

struct module *
data_parallel_module(const struct module *wrapper)
{
    return wrapper != NULL && wrapper->type == &wrapper_type ? module_child(wrapper, "module") : NULL;
}

const struct data_parallel_options *
data_parallel_options(const struct module *wrapper)
{
    const struct wrapper_options *own = wrapper->type == &wrapper_type ? wrapper->script : NULL;
    return own != NULL ? &own->options : NULL;
}

bool
data_parallel_imbalance(struct task *me, struct device_list devices, int *smallest, int *largest)
{
    uint64_t least = 0, most = 0;
    for (int i = 0; i < devices.count; i++) {
        uint64_t bytes = device_total_memory(me, devices.ids[i]);
        if (i == 0 || bytes < least) {
            least     = bytes;
            *smallest = devices.ids[i];
        }
        if (i == 0 || bytes > most) {
            most     = bytes;
            *largest = devices.ids[i];
        }
    }
    return most > 0 && (double)least / (double)most < 0.75;
}
