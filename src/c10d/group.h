/* Process groups: what ranks do together. Every collective of a group is numbered as it is issued; the numbers are how ranks pair their calls, and the ledger compares what they called before anything
 * moves, so a mismatch is known at once. A rank's collectives run one after the other on its comm task ("r1 comm"),
 * so that they overlap with what the rank does meanwhile. */
#ifndef C10D_GROUP_H
#define C10D_GROUP_H
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct task; struct tensor; struct process_group; struct work; struct world; struct store; struct group_backend;

/* ---- the world: shared by the ranks that one spawn starts ---- */
struct world_options {
    int      size;
    uint64_t timeout_ps;   /* 0: the run's */
    bool     trace_hops;   /* comm.hop events also in a world of more than 64 ranks */
    const struct group_backend *backend;   /* backend.h; NULL: local */
};
struct world *world_new(struct task *me, const struct world_options *options);       /* NULL: failed */
void          world_free(struct task *me, struct world *world);                      /* after all ranks were joined */
int           world_size(const struct world *world);
struct store *world_store(struct world *world);
/* Told by the spawner's wrapper when a rank's function has returned or failed: peers who wait for it learn it. Before
 * process_group_destroy, which waits for what is queued: peers may wait for this rank meanwhile. */
void          world_rank_ended(struct task *me, struct world *world, int rank);

/* This rank's membership (SLOT_RANK); NULL outside a spawn. */
struct rank_context { struct world *world; int rank; struct process_group *group; /* default group, after init */ };
struct rank_context *rank_context(const struct task *me);
void                 rank_context_set(struct task *me, struct rank_context *context);

/* dist.init_process_group: meets the others at the store. NULL: failed. Owned by the rank context. */
struct process_group *process_group_rendezvous(struct task *me, struct world *world, int rank);
bool process_group_destroy(struct task *me, struct process_group *group);  /* ends the comm task */
int  process_group_rank(const struct process_group *group);
int  process_group_size(const struct process_group *group);

/* ---- collectives. Asynchronous: issue now, wait for the Work. The tensor is kept until then. NULL: failed. ---- */
enum reduce_op { REDUCE_SUM, REDUCE_AVG, REDUCE_PRODUCT, REDUCE_MIN, REDUCE_MAX };
struct collective_options {
    enum reduce_op op;
    int            root;
    const char    *algorithm;      /* NULL or "ring" */
    bool           ring_backwards; /* sends to rank - 1 as Gloo does; the order of its sums */
};
struct work *group_all_reduce(struct task *me, struct process_group *group, struct tensor *tensor,
                              const struct collective_options *options);
struct work *group_broadcast(struct task *me, struct process_group *group, struct tensor *tensor, int root);
struct work *group_all_gather(struct task *me, struct process_group *group, struct tensor *const *outputs,
                              struct tensor *input);   /* outputs: one per rank, like input */
struct work *group_barrier(struct task *me, struct process_group *group);
bool work_wait(struct task *me, struct work *work) __attribute__((warn_unused_result)); /* moves its failure to me */
bool work_done(struct task *me, const struct work *work);
int64_t work_sequence(const struct work *work);
void work_free(struct task *me, struct work *work);   /* waits for it first if it still runs */
/* issue + wait + free */
bool group_all_reduce_now(struct task *me, struct process_group *group, struct tensor *tensor, const struct collective_options *options);
bool group_broadcast_now(struct task *me, struct process_group *group, struct tensor *tensor, int root);
bool group_all_gather_now(struct task *me, struct process_group *group, struct tensor *const *outputs, struct tensor *input);
bool group_barrier_now(struct task *me, struct process_group *group);

/* ---- point to point: unbuffered, matched per (peer, tag) in order; run in the calling task. isend/irecv: a task each. */
bool group_send(struct task *me, struct process_group *group, struct tensor *tensor, int peer, int64_t tag);
bool group_recv(struct task *me, struct process_group *group, struct tensor *tensor, int peer, int64_t tag);
struct work *group_isend(struct task *me, struct process_group *group, struct tensor *tensor, int peer, int64_t tag);
struct work *group_irecv(struct task *me, struct process_group *group, struct tensor *tensor, int peer, int64_t tag);
#endif
