/* What the files of DataParallel share with one another: the copies between devices, all without gradients. */
#ifndef PARALLEL_COMM_H
#define PARALLEL_COMM_H
#include "base/arena.h"
#include "tensor/tensor.h"

struct task; struct node;

/* Plain memory that dies with a stage: struct arena plain PLAIN = { 0 }. */
#define PLAIN __attribute__((cleanup(arena_free)))
void *comm_take(struct task *me, struct arena *plain, size_t bytes); /* NULL: failed */

/* A shape with its type: what a missing gradient is made of. */
struct comm_shape { enum dtype dtype; int dims; int64_t size[TENSOR_DIMS]; };
struct comm_shape comm_shape_of(const struct tensor *tensor);
struct tensor *comm_zeros(struct task *me, const struct comm_shape *shape, int device);
/* The backward of `node` works where the forward did: on the device's current stream. false: failed. */
bool comm_place_node(struct task *me, struct node *node, int device);
struct tensor *comm_alias(struct task *me, struct tensor *tensor); /* a view of all of it: storage and version shared */

/* One piece of comm.scatter: rows start .. start + length along dim, on `device`. Where the tensor already lies there
 * it is a view of it, else a copy. */
struct tensor *comm_scatter_piece(struct task *me, struct tensor *tensor, int dim, int64_t start, int64_t length,
                                  int device);
/* comm.gather: one new tensor on `device` (DEVICE_CPU: the host), each piece copied into its slice along dim. */
struct tensor *comm_gather(struct task *me, struct tensor *const *pieces, int count, int device, int dim);
/* The bytes of those tensors that do not lie on `device`. */
int64_t comm_bytes_elsewhere(struct tensor *const *tensors, int count, int device);
/* 0 .. dims - 1 for a dim that may count from the end; -1: failed(E_INDEX). */
int comm_dim(struct task *me, const struct tensor *tensor, int dim);
void comm_device_name(int device, char name[24]);   /* "cpu", "device:2" */

/* Which tensors travel together, one type a group, in the order in which the groups close. Broadcast closes a group
 * after the tensor that reaches the limit, reduce before the one that would exceed it. */
enum comm_rule { COMM_BROADCAST, COMM_REDUCE };
struct comm_groups { int *members, *starts, count; };  /* group g: members[starts[g]] .. members[starts[g + 1] - 1] */
bool comm_group(struct task *me, struct arena *plain, struct tensor *const *tensors, int count, size_t limit,
                enum comm_rule rule, struct comm_groups *out);
#endif
