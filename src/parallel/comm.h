/* torch.nn.parallel.comm: the copies between devices, all without gradients, a page each.
 *
 *     comm_scatter.c     comm_scatter, comm_gather: rows go out, and come back
 *     comm_broadcast.c   comm_broadcast, comm_broadcast_coalesced: the same tensors to all devices
 *     comm_reduce.c      comm_reduce_add, comm_reduce_add_coalesced: their sums on one device
 *     comm_groups.c      which tensors the coalesced ones send in one buffer
 *
 * The coalesced ones do not send tensor by tensor: small ones are laid side by side in one flat buffer, so that a model
 * of a hundred parameters costs one transfer per device and not a hundred. Every copy is queued on the destination's
 * stream and not waited for. In PyTorch: torch/nn/parallel/comm.py, torch/csrc/cuda/comm.cpp. */
#ifndef PARALLEL_COMM_H
#define PARALLEL_COMM_H
#include "autograd/node.h"
#include "device/cells.h"
#include "parallel/data_parallel.h"
#include "parallel/flat.h"
#include "tensor/tensor.h"

struct task; struct stream;

/* A shape with its type: what a missing gradient is made of. */
struct comm_shape { enum dtype dtype; int dims; int64_t size[TENSOR_DIMS]; };
struct comm_shape comm_shape_of(const struct tensor *tensor);
struct tensor *comm_zeros(struct task *me, const struct comm_shape *shape, int device);
/* The node of one of DataParallel's Functions. It takes `context` over, also when it fails; one without is failed as
 * memory that was missing. NULL: failed. One reference, the caller's. */
struct comm_function { const char *name; node_backward *backward; int edges, outputs; };
struct node *comm_node(struct task *me, const struct comm_function *function, void *context,
                       void (*drop_context)(struct task *me, void *context));
/* The backward of `node` works where the forward did: on the device's current stream. false: failed. */
bool comm_place_node(struct task *me, struct node *node, int device);
struct tensor *comm_alias(struct task *me, struct tensor *tensor); /* a view of all of it: storage and version shared */

/* Rows of the tensor along dim, a view. */
struct comm_rows { int dim; int64_t start, length; };
struct tensor *comm_narrowed(struct task *me, struct tensor *tensor, struct comm_rows rows);
struct tensor *comm_copy_to(struct task *me, struct tensor *tensor, int device); /* itself if it lies there */
int64_t        comm_bytes(const struct tensor *tensor);  /* what travels: of a sparse one its rows and their numbers */
/* The bytes of those tensors that do not lie on `device`. */
int64_t comm_bytes_elsewhere(struct tensor *const *tensors, int count, int device);
/* 0 .. dims - 1 for a dim that may count from the end; -1: failed(E_INDEX). */
int comm_dim(struct task *me, const struct tensor *tensor, int dim);
void comm_device_name(int device, char name[24]);   /* "cpu", "device:2" */

/* ---- scatter and gather ---- */

/* Rows of a tensor for a device. `stream` copies them; NULL: the device's current one. */
struct comm_piece { int64_t length; int device; struct stream *stream; };
/* out[i]: the rows of piece i along dim; where the tensor already lies a view of it, else a copy. false: failed. */
bool comm_scatter(struct task *me, struct tensor *tensor, int dim, const struct comm_piece *pieces, int count,
                  struct tensor **out);
/* Into tensors that are there, on devices, whose rows add up to the tensor's. Their versions go up. */
bool comm_scatter_into(struct task *me, struct tensor *tensor, int dim, struct tensor *const *out, int count,
                       struct stream *const *streams);
/* One new tensor on `device` (DEVICE_CPU: the host), each piece copied into its slice along dim. */
struct tensor *comm_gather(struct task *me, struct tensor *const *pieces, int count, int device, int dim);
struct tensor *comm_gather_into(struct task *me, struct tensor *const *pieces, int count, struct tensor *out, int dim);

/* ---- broadcast and reduce, one tensor ---- */

/* out[i]: the tensor itself where it lies, else a copy. */
bool comm_broadcast(struct task *me, struct tensor *tensor, struct device_list devices, struct tensor **out);
bool comm_broadcast_into(struct task *me, struct tensor *tensor, struct tensor *const *out, int count);
/* tensors[d] added up, on `destination`, where one of them lies; a single one is answered as it is. */
struct tensor *comm_reduce_add(struct task *me, struct tensor *const *tensors, int count, int destination);

/* ---- groups ---- */

/* Which tensors of one device travel together, one type a group, in the order in which the groups close. Broadcast
 * closes a group after the tensor that reaches buffer_bytes, reduce before the one that would exceed them. */
enum comm_rule { COMM_BROADCAST, COMM_REDUCE };
struct comm_groups { int *members, *starts, count; };  /* group g: members[starts[g]] .. members[starts[g + 1] - 1] */
bool comm_group(struct task *me, const struct coalesced *given, enum comm_rule rule, struct comm_groups *out);
struct flat_members comm_members(const struct coalesced *given, const struct comm_groups *groups, int g,
                                 int d);               /* group g's tensors of device d */
/* Cuts the buffer into tensors of the members' shapes. Each gets a version counter of its own: they only happen to lie
 * in one storage, and an in-place op on one must not make its neighbours look changed. */
bool comm_unflatten(struct task *me, struct tensor *flat, const struct flat_members *members, struct tensor **out);
#endif
