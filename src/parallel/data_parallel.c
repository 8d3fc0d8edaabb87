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

/* The wrapper's options, with its own list of devices; shared by a wrapper and its replicas. */
struct data_parallel {
    atomic_int references, forwards;
    int        output_device, dim, device_count;
    int        device_ids[];
};

/* ---- forward ---- */

/* The module lives on the first device: from there it is copied. Checked at each forward, for it may
 * have been moved since the wrapper was made. */
static bool
data_parallel_check(struct task *me, struct module *module, int device)
{
    STAGE(me, dp_check, device);
    struct named_tensors lists[2] = { { 0 } };
    char                 wanted[24], found[24];
    bool done = module_named_parameters(me, module, &lists[0]) &&
                module_named_buffers(me, module, &lists[1]);
    for (int which = 0; which < 2; which++) {
        for (int i = 0; i < lists[which].count && done; i++) {
            if (tensor_device(lists[which].tensors[i]) == device)
                continue;
            comm_device_name(device, wanted);
            comm_device_name(tensor_device(lists[which].tensors[i]), found);
            done = failed(me, E_RUNTIME,
                          "module must have its parameters and buffers on device %s "
                          "(device_ids[0]) but found one of them on device: %s",
                          wanted, found);
        }
        named_tensors_free(&lists[which]);
    }
    return done;
}

/* What scatter, replicate, apply and gather hand to one another: one entry per replica. */
struct replicas {
    int             count;
    struct value  **inputs, **kwargs, **outputs;
    struct module **modules;
};

static bool
replicas_room(struct task *me, struct arena *plain, int count, struct replicas *out)
{
    size_t bytes = (size_t)count * sizeof(void *);
    out->inputs = comm_take(me, plain, bytes);
    out->kwargs = comm_take(me, plain, bytes);
    out->outputs = comm_take(me, plain, bytes);
    out->modules = comm_take(me, plain, bytes);
    return out->inputs != NULL && out->kwargs != NULL && out->outputs != NULL && out->modules != NULL;
}

/* device_ids, or all devices; *output_device too is made explicit. NULL: failed. */
static const int *
devices_of(struct task *me, struct arena *plain, const struct data_parallel_options *options, int *count,
           int *output_device)
{
    *count = options->device_ids != NULL ? options->device_count : device_count(me);
    int *devices = comm_take(me, plain, (size_t)(*count > 0 ? *count : 1) * sizeof *devices);
    if (devices == NULL)
        return NULL;
    for (int i = 0; i < *count; i++) {
        devices[i] = options->device_ids != NULL ? options->device_ids[i] : i;
        if (devices[i] == DEVICE_CPU)
            return failed_null(me, E_DEVICE, "device_ids[%d] is the cpu: DataParallel runs on devices", i);
        if (!device_check(me, devices[i]))
            return NULL;
    }
    *output_device = options->output_device == -2 && *count > 0 ? devices[0] : options->output_device;
    bool exists = *count == 0 || *output_device == DEVICE_CPU || device_check(me, *output_device);
    return exists ? devices : NULL;
}

/* With no argument at all there is still one call, on the first device. */
static bool
scatter_inputs(struct task *me, struct value *inputs, struct value *kwargs, const int *devices, int device_count,
               int dim, struct replicas *out)
{
    out->count = dp_scatter(me, inputs, kwargs, devices, device_count, dim, out->inputs, out->kwargs);
    if (out->count > 0 || task_failed(me))
        return out->count > 0;
    out->count = 1;
    out->inputs[0] = value_container(me, VALUE_TUPLE, 0, NULL, NULL, NULL);
    out->kwargs[0] = value_container(me, VALUE_DICT, 0, NULL, NULL, NULL);
    return out->inputs[0] != NULL && out->kwargs[0] != NULL;
}

/* One forward. The module itself is never called when there is more than one device: only its
 * replicas are, which live until their part of the graph is gone. A batch too small for all devices
 * uses the first of them; with a single device there is nothing to copy and nothing to gather. */
struct value *
data_parallel_forward(struct task *me, struct module *module, struct value *inputs,
                      struct value *kwargs, const struct data_parallel_options *options)
{
    struct arena    plain PLAIN = { 0 };
    int             count = 0, output_device = 0;
    const int      *devices = devices_of(me, &plain, options, &count, &output_device);
    struct replicas replicas;
    STAGE(me, dp_forward, count);
    if (devices == NULL || !replicas_room(me, &plain, count, &replicas))
        return NULL;
    if (inputs == NULL || inputs->kind == VALUE_NONE)
        inputs = value_container(me, VALUE_TUPLE, 0, NULL, NULL, NULL);
    else if (inputs->kind != VALUE_TUPLE)
        inputs = value_container(me, VALUE_TUPLE, 1, &inputs, NULL, NULL);
    if (inputs == NULL)
        return NULL;
    if (count == 0)
        return hand_up(me, module_forward(me, module, inputs, kwargs));

    if (!data_parallel_check(me, module, devices[0]))
        return NULL;
    if (!scatter_inputs(me, inputs, kwargs, devices, count, options->dim, &replicas))
        return NULL;
    if (count == 1)
        return hand_up(me, module_forward(me, module, replicas.inputs[0],
                                          replicas.kwargs[0]));
    if (!dp_replicate(me, module, devices, replicas.count, replicas.modules))
        return NULL;
    if (!dp_parallel_apply(me, replicas.modules, replicas.inputs, replicas.kwargs,
                           devices, replicas.count, replicas.outputs))
        return NULL;
    return hand_up(me, dp_gather(me, replicas.outputs, replicas.count, output_device,
                                 options->dim));
}

/* ---- the wrapper ---- */

static struct value *
wrapper_forward(struct task *me, struct module *self, struct value *args, struct value *kwargs)
{
    struct data_parallel              *own = self->script;
    const struct data_parallel_options options = {
        .device_ids = own->device_ids, .device_count = own->device_count, .output_device = own->output_device,
        .dim = own->dim,
    };
    struct module *module = module_child(self, "module");
    if (module == NULL)
        return failed_null(me, E_RUNTIME, "this DataParallel has lost its module");
    me->iteration = (uint32_t)atomic_fetch_add(&own->forwards, 1);
    return data_parallel_forward(me, module, args, kwargs, &options);
}

static struct module *
wrapper_copy(struct task *me, struct module *self)
{
    struct module *copy = module_plain_copy(me, self);
    if (copy == NULL)
        return NULL;
    struct data_parallel *own = self->script;
    atomic_fetch_add(&own->references, 1);
    copy->script = own;
    return copy;
}

static void
wrapper_drop(struct task *me, struct module *self)
{
    struct data_parallel *own = self->script;
    self->script = NULL;
    if (own != NULL && atomic_fetch_sub(&own->references, 1) == 1)
        free(own);
    module_plain_drop(me, self);
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
    .copy = wrapper_copy,
    .rewired = module_plain_rewired,
    .drop = wrapper_drop,
    .describe = wrapper_describe,
};

struct module *
data_parallel_new(struct task *me, struct module *module, const struct data_parallel_options *options)
{
    struct arena plain PLAIN = { 0 };
    int          count = 0, output_device = 0;
    const int   *devices = devices_of(me, &plain, options, &count, &output_device);
    if (devices == NULL || (count == 1 && !module_to(me, module, devices[0])))
        return NULL;
    struct module *wrapper = module_new(me, &wrapper_type);
    if (wrapper == NULL || !module_add_child(me, wrapper, "module", module))
        return NULL;
    struct data_parallel *own = malloc(sizeof *own + (size_t)count * sizeof(int));
    if (own == NULL)
        return failed_null(me, E_MEMORY, "out of memory");
    *own = (struct data_parallel){ .output_device = output_device, .dim = options->dim, .device_count = count };
    atomic_init(&own->references, 1);
    atomic_init(&own->forwards, 0);
    memcpy(own->device_ids, devices, (size_t)count * sizeof(int));
    wrapper->script = own;
    return wrapper;
}

struct module *
data_parallel_module(const struct module *wrapper)
{
    return wrapper != NULL && wrapper->type == &wrapper_type ? module_child(wrapper, "module") : NULL;
}

bool
data_parallel_imbalanced(double one, double other)
{
    double least = one < other ? one : other, most = one < other ? other : one;
    return most > 0 && least / most < 0.75;
}
