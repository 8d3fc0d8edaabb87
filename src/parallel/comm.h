/* What the files of DataParallel share with one another: the copies between devices, all without gradients. */
#ifndef PARALLEL_COMM_H
#define PARALLEL_COMM_H
#include "autograd/node.h"
#include "parallel/plain.h"
#include "tensor/tensor.h"

struct task; struct coalesced;

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

/* One piece of comm.scatter: rows start .. start + length along dim, on `device`. Where the tensor already lies there
 * it is a view of it, else a copy. */
struct comm_rows { int dim; int64_t start, length; };
struct tensor *comm_scatter_piece(struct task *me, struct tensor *tensor, struct comm_rows rows, int device);
/* comm.gather: one new tensor on `device` (DEVICE_CPU: the host), each piece copied into its slice along dim. */
struct tensor *comm_gather(struct task *me, struct tensor *const *pieces, int count, int device, int dim);
/* The bytes of those tensors that do not lie on `device`. */
int64_t comm_bytes_elsewhere(struct tensor *const *tensors, int count, int device);
/* 0 .. dims - 1 for a dim that may count from the end; -1: failed(E_INDEX). */
int comm_dim(struct task *me, const struct tensor *tensor, int dim);
void comm_device_name(int device, char name[24]);   /* "cpu", "device:2" */

/* Which tensors of one device travel together, one type a group, in the order in which the groups close. Broadcast
 * closes a group after the tensor that reaches buffer_bytes, reduce before the one that would exceed them. */
enum comm_rule { COMM_BROADCAST, COMM_REDUCE };
struct comm_groups { int *members, *starts, count; };  /* group g: members[starts[g]] .. members[starts[g + 1] - 1] */
bool comm_group(struct task *me, struct arena *plain, const struct coalesced *given, enum comm_rule rule,
                struct comm_groups *out);
#endif
