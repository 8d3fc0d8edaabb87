/* nn.DataParallel and the functions it is made of, on one page each:
 *   scatter_gather.c  dp_scatter, dp_gather and their nodes      comm.c  the four copies
 *   replicate.c       dp_replicate (Broadcast node)              parallel_apply.c  one thread per replica
 *   data_parallel.c   the forward that strings them together */
#ifndef PARALLEL_DATA_PARALLEL_H
#define PARALLEL_DATA_PARALLEL_H
#include <stddef.h>
#include "nn/module.h"

struct task; struct tensor; struct value; struct module;

struct data_parallel_options {
    const int *device_ids;      /* NULL: all devices */
    int        device_count;
    int        output_device;   /* -2: device_ids[0]; -1: the CPU */
    int        dim;
};
/* The wrapper is itself a module with one child "module"; in me's scope; NULL: failed. */
struct module *data_parallel_new(struct task *me, struct module *module, const struct data_parallel_options *options);
struct module *data_parallel_module(const struct module *wrapper);        /* NULL: not a DataParallel */
/* Do two devices differ so much (in memory, in multiprocessors) that DataParallel warns? Below 3 to 4, not at it. All
 * virtual devices are equal. */
bool data_parallel_imbalanced(double one, double other);
/* nn.parallel.data_parallel: the functional form (and the wrapper's forward). inputs: a TUPLE; another value counts as
 * a tuple of one, NULL and None as an empty one. */
struct value *data_parallel_forward(struct task *me, struct module *module, struct value *inputs, struct value *kwargs,
                                    const struct data_parallel_options *options);

/* nn.parallel.scatter: what each replica gets: out[r] (a TUPLE) and kwargs_out[r] (a DICT), counts made equal as
 * scatter_kwargs does. Answers the number of replicas; 0: failed or, when the task has not failed, there was no argument
 * to scatter. Arrays have room for device_count. */
int dp_scatter(struct task *me, struct value *inputs, struct value *kwargs, const int *devices, int device_count, int dim,
               struct value **out, struct value **kwargs_out);
struct value *dp_gather(struct task *me, struct value *const *outputs, int count, int device, int dim);
/* replicas[r]: new modules in me's scope. */
bool dp_replicate(struct task *me, struct module *module, const int *devices, int device_count, struct module **replicas);
bool dp_parallel_apply(struct task *me, struct module *const *modules, struct value *const *inputs,
                       struct value *const *kwargs, const int *devices, int count, struct value **outputs);

/* comm: without gradients. out[d * count + i]. buffer_bytes 0: 10 MiB. Results are in me's scope. */
bool comm_broadcast_coalesced(struct task *me, struct tensor *const *tensors, int count, const int *devices,
                              int device_count, size_t buffer_bytes, struct tensor **out);
bool comm_reduce_add_coalesced(struct task *me, struct tensor *const *tensors /* [d * count + i] */, int count,
                               const int *devices, int device_count, int destination, size_t buffer_bytes,
                               struct tensor **out);
#endif
