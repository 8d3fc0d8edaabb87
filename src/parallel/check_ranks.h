/* --check-ranks: the run ends with a DivergenceError at the first event that makes the replicas of a model differ, and
 * says whose, which tensor, which element, since which line. DistributedDataParallel makes ranks equal once and trusts
 * equal gradients from then on; what breaks that is silent otherwise.
 *
 * Parameters are compared whenever their bytes change, as change number n of each rank (replica_states.h), and again where
 * ranks have made different changes: at the next reduction and at the rank's end. Buffers after each broadcast, gradients
 * after each reduction, the names in the buckets when those are made, the orders of distributed samplers as a pass begins.
 * Equal is equal bits. Nobody waits for anybody, no time passes: who comes first leaves his bytes, the others compare.
 *
 * One check_ranks a world, made before its ranks begin and freed after they were joined (check_ranks_new, _free). A rank
 * has one replica for each DistributedDataParallel: replica_new, then what the reducer and the wrapper tell, replica_free.
 * Where nobody checks the replica is NULL, which all of these take. */
#ifndef PARALLEL_CHECK_RANKS_H
#define PARALLEL_CHECK_RANKS_H
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct task; struct tensor; struct process_group; struct named_tensors; struct check_ranks; struct replica;

struct check_ranks *check_ranks_new(struct task *me, int ranks);     /* NULL: failed */
void                check_ranks_free(struct task *me, struct check_ranks *check);   /* NULL is fine */
/* The rank's function has returned: what it leaves must be what the others leave. false: failed. */
bool                check_ranks_end(struct task *me, struct check_ranks *check, int rank);

/* All parameters of the module and its buffers (NULL: not those), which must be equal now. Takes references. *out is NULL
 * where nobody checks. false: failed. */
struct replica_tensors { const struct named_tensors *params, *buffers; };
bool replica_new(struct task *me, struct process_group *group, const struct replica_tensors *tensors,
                 struct replica **out);
void replica_free(struct task *me, struct replica *replica);

/* Each answers false if it has failed. */
bool replica_names(struct task *me, struct replica *replica, const char *lines, size_t bytes);  /* "bucket 0 ...\0": one
                                                    line for each gradient, when the buckets were laid out */
void replica_watch_buffers(struct task *me, struct replica *replica, const struct named_tensors *buffers); /* those that
                                                    are broadcast next */
bool replica_reduced(struct task *me, struct replica *replica);     /* the ranks have just met in a reduction */
/* A rank without inputs (join.h) has sent zeros to a reduction: it is not compared, nor does it wait to be, until Join has
 * made it equal again. used: by how many ranks each parameter was used; NULL: all were. */
bool replica_shadowed(struct task *me, struct replica *replica, const int32_t *used);
/* Parameter `index` of those that require a gradient has its reduced one. */
bool replica_grad(struct task *me, struct replica *replica, int index, struct tensor *grad);

/* A pass of a sampler that gives each of a world's ranks its part begins: what makes its order. `sampler` counts those
 * that the rank has made, `pass` the sampler's. */
struct sampler_order { int64_t length, shuffle, drop_last, seed; };
struct sampler_pass { int64_t sampler, pass; struct sampler_order order; };
bool check_sampler_pass(struct task *me, struct check_ranks *check, const struct sampler_pass *pass);
#endif
