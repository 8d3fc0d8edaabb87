/* nn.DataParallel and the functions it is made of, on one page each:
 *   scatter_gather.c  dp_scatter, dp_gather and their nodes      comm.c  the four copies
 *   replicate.c       dp_replicate (Broadcast node)              parallel_apply.c  one thread per replica
 *   data_parallel.c   the forward that strings them together */
#ifndef PARALLEL_DATA_PARALLEL_H
#define PARALLEL_DATA_PARALLEL_H
#include <stddef.h>
#include "nn/module.h"

struct task; struct tensor; struct value; struct module;

/* Which devices, replica by replica. The list is borrowed. */
struct device_list { const int *ids; int count; };
/* What one call of a module is given: a TUPLE; a DICT or NULL. */
struct call_arguments { struct value *inputs, *kwargs; };

struct data_parallel_options {
    struct device_list devices; /* ids NULL: all there are */
    int                output_device; /* -2: the first of devices; -1: the CPU */
    int                dim;
};
/* The wrapper is itself a module with one child "module"; in me's scope; NULL: failed. */
struct module *data_parallel_new(struct task *me, struct module *module, const struct data_parallel_options *options);
struct module *data_parallel_module(const struct module *wrapper);        /* NULL: not a DataParallel */
const struct data_parallel_options *data_parallel_options(const struct module *wrapper); /* NULL: not one */
/* false: failed, for a parameter or buffer of the module lies elsewhere than on `device`. */
bool data_parallel_check(struct task *me, struct module *module, int device);
/* Do devices differ so much in memory that DataParallel warns? Below 3 to 4, not at it; which two: the first of equal
 * ones. PyTorch compares their multiprocessors, too, of which all virtual devices have as many. */
bool data_parallel_imbalance(struct task *me, struct device_list devices, int *smallest, int *largest);
/* nn.parallel.data_parallel: the functional form (and the wrapper's forward). Inputs that are no TUPLE count as a tuple
 * of one, NULL and None as an empty one. */
struct value *data_parallel_forward(struct task *me, struct module *module, struct call_arguments given,
                                    const struct data_parallel_options *options);

/* nn.parallel.scatter: what each replica gets, out[r], counts made equal as scatter_kwargs does; out has room for all
 * devices. Answers the number of replicas; 0: failed or, when the task has not failed, no argument to scatter. */
int dp_scatter(struct task *me, struct call_arguments given, struct device_list devices, int dim,
               struct call_arguments *out);
struct value *dp_gather(struct task *me, struct value *const *outputs, int count, int device, int dim);
/* replicas[r]: new modules in me's scope, one per device. */
bool dp_replicate(struct task *me, struct module *module, struct device_list devices, struct module **replicas);
/* One call per device; ids NULL: each on the device of its first tensor. Inputs that are no TUPLE count as one. */
bool dp_parallel_apply(struct task *me, struct module *const *modules, const struct call_arguments *given,
                       struct device_list devices, struct value **outputs);

/* Many tensors that cross to, or come from, several devices in few flat buffers; without gradients. */
struct coalesced {
    struct tensor *const *tensors;
    int                   count;        /* of one device */
    struct device_list    devices;
    size_t                buffer_bytes; /* 0: 10 MiB */
};
/* tensors[i], which lie on the first device, reach all: out[d * count + i]. Results are in me's scope. */
bool comm_broadcast_coalesced(struct task *me, const struct coalesced *given, struct tensor **out);
/* The sums of tensors[d * count + i] over d, on `destination`, one of the devices: out[i], in me's scope. */
bool comm_reduce_add_coalesced(struct task *me, const struct coalesced *given, int destination, struct tensor **out);
#endif
