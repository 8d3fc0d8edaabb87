/* Process groups: what ranks do together. Every collective of a group is numbered as it is issued; the numbers are how ranks pair their calls, and the ledger compares what they called before anything
 * moves, so a mismatch is known at once. A rank's collectives run one after the other on its comm task ("r1 comm"),
 * so that they overlap with what the rank does meanwhile. */
#ifndef C10D_GROUP_H
#define C10D_GROUP_H
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct str; struct task; struct tensor; struct process_group; struct work; struct world; struct store;
struct group_backend; struct error; struct job; struct claimer; struct check_ranks;

/* ---- the world: shared by the ranks that one spawn starts ---- */
struct world_options {
    int      size;
    uint64_t timeout_ps;   /* 0: the run's */
    bool     trace_hops;   /* comm.hop events also in a world of more than 64 ranks */
    const struct group_backend *backend;   /* backend.h; NULL: local */
    struct check_ranks         *check;     /* parallel/check_ranks.h; NULL: replicas are not compared. Outlives the world */
    struct job                 *job;       /* job.h, joined: each rank is a process, rank r the job's rank r; NULL: they are
                                              tasks of this process. All processes of a job make its worlds in one order */
};
struct world *world_new(struct task *me, const struct world_options *options);       /* NULL: failed */
void          world_free(struct task *me, struct world *world);                      /* after all ranks were joined */
int           world_size(const struct world *world);
int           world_number(const struct world *world);     /* over a job: of its worlds, from 0 */
struct job   *world_job(const struct world *world);        /* NULL: all ranks are here */
struct store *world_store(struct world *world);
struct check_ranks *world_check(const struct world *world);   /* NULL: none */
/* Told by the spawner's wrapper when a rank's function has returned or failed: peers who wait for it learn it. Before
 * process_group_destroy, which waits for what is queued: peers may wait for this rank meanwhile. */
void          world_rank_ended(struct task *me, struct world *world, int rank);   /* me's error says how */
/* `free`: waits until all ranks have ended; false: one failed, and so long after it another still runs. */
bool          world_await_ends(struct task *me, struct world *world, uint64_t grace_ps);
/* "rank 1: boom": the first of the ranks that have ended by an error. */
void          world_say_failure(const struct world *world, struct str *out);
/* The run was stopped while this rank did (a limit, an interrupt). `stepped`: whether it was stuck in its own code; who
 * waits for it then, or will, does so in vain. */
bool          world_rank_cut_off(struct task *me, struct world *world);
/* Why the first wait in vain was in vain, who waits for whom included: lines; NULL: nobody waited in vain. Where a lesson
 * catches that and its ranks go on, the next one is a first again. Of errors up to number `order` (struct error). */
const char   *world_report(const struct world *world, unsigned order);
void          world_rank_told(struct task *me);   /* a rank's lesson gets the error of a wait in vain: it may catch it */
struct flight;
/* What the ranks called, as far as their recorders go, and what they do now; into a zeroed flight. */
void          flight_of_world(struct task *me, struct world *world, struct flight *flight);

/* This rank's membership (SLOT_RANK); NULL outside a spawn. */
struct rank_context {
    struct world         *world;
    int                   rank;
    struct process_group *group;         /* default group, after init */
    int                   debug_level;   /* enum debug_level (debug_level.h) */
};
struct rank_context *rank_context(const struct task *me);
void                 rank_context_set(struct task *me, struct rank_context *context);

/* ---- groups: one rank's membership each, until destroyed; the memory stays until the world is freed ---- */

/* dist.init_process_group: meets the others at the store. NULL: failed. The rank context knows it. */
struct process_group *process_group_rendezvous(struct task *me, struct world *world, int rank);
/* The same; before, all ranks meet at a store that the lesson has given. */
struct process_group *process_group_rendezvous_at(struct task *me, struct world *world, int rank, struct store *store);

struct group_options {
    const int  *ranks;         /* of the world, in the order of their ranks in the group; NULL: all */
    int         count;
    bool        local_sync;    /* only the members call it, and it is not counted: use_local_synchronization */
    bool        sort_ranks;    /* the order of the world instead */
    uint64_t    timeout_ps;    /* of its waits, this one too; 0: the run's */
    const char *what;          /* the call, for messages; outlives the group; NULL: "new_group" */
};
/* dist.new_group: returns when all members have called it, each as its parent's call number n, where the rank is one of
 * them; else at once, and *group is NULL. Ranks that are no members have to call it, too: a rank that does not has other
 * numbers from then on. With TORCH_DIST_INIT_BARRIER=1 all ranks wait for all. false: failed, perhaps because a rank
 * called that number for other members. */
bool process_group_new(struct task *me, struct process_group *parent, const struct group_options *options,
                       struct process_group **group);
/* Ends the comm task, when what was issued is done; of the default group: all of the rank's others first. */
bool process_group_destroy(struct task *me, struct process_group *group);
int  process_group_rank(const struct process_group *group);                /* mine, in the group */
int  process_group_size(const struct process_group *group);
int  process_group_number(const struct process_group *group);              /* 0: the default group's */
const int  *process_group_ranks(const struct process_group *group);        /* of the world, by rank in the group */
const char *process_group_backend(const struct process_group *group);      /* "local" */
/* The ranks of the last new group of which `rank` is no member; answers how many, 0: there is none. */
int  world_outside_ranks(const struct world *world, int rank, const int **ranks);
bool process_group_is_gone(const struct process_group *group);             /* it was destroyed */
bool process_group_runs_on(const struct process_group *group, const struct task *me);  /* me is its comm task */
struct world *process_group_world(const struct process_group *group);
int  process_group_global_rank(const struct process_group *group, int rank);   /* of a member in the world; -1: none */
int  process_group_group_rank(const struct process_group *group, int global);  /* -1: no member */
int64_t process_group_sequence(const struct process_group *group);         /* how many collectives were called here */
void process_group_set_timeout(struct process_group *group, uint64_t timeout_ps);
uint64_t process_group_timeout(const struct process_group *group);         /* ps; 0: the run's */

/* ---- collectives. Asynchronous: issue now, wait for the Work. The tensor is kept until then. NULL: failed. ---- */
enum reduce_op {
    REDUCE_SUM, REDUCE_AVG, REDUCE_PRODUCT, REDUCE_MIN, REDUCE_MAX, REDUCE_BAND, REDUCE_BOR, REDUCE_BXOR,
    REDUCE_PREMUL_SUM
};
const char *reduce_op_title(enum reduce_op op);  /* "SUM" ... */
/* An all-reduce that somebody else wrote, of sends and receives: a lesson. Called on the rank's comm task, inside the
 * stage of the collective; all ranks call theirs with the same number. */
struct custom_algorithm {
    bool (*run)(struct task *me, void *context, struct tensor *tensor, enum reduce_op op);
    void  *context;
    const char *name;              /* outlives the work */
};
struct collective_options {
    enum reduce_op op;
    double         factor;         /* REDUCE_PREMUL_SUM */
    int            root;           /* of the group */
    const char    *algorithm;      /* a name of the back-end's, copied; NULL: its choice */
    const struct custom_algorithm *custom;  /* instead of a name; outlives the work; NULL: none */
    bool           at_once;        /* the caller waits for it right away: in `free` it runs on its own task */
    bool           ring_forwards;  /* sends to rank + 1, in NCCL's order; else to rank - 1, in Gloo's: its sums' order */
    uint64_t       timeout_ps;     /* of each wait; 0: the group's */
};
/* Of no options NULL. Lists hold a tensor for each rank; a list that only the root has is NULL elsewhere. Tensors may
 * have gaps, lists unequal lengths, where all ranks agree on them. */
struct work *group_all_reduce(struct task *me, struct process_group *group, struct tensor *tensor,
                              const struct collective_options *options);   /* a sparse one too */
struct work *group_broadcast(struct task *me, struct process_group *group, struct tensor *tensor, int root);
struct work *group_reduce(struct task *me, struct process_group *group, struct tensor *tensor,
                          const struct collective_options *options);       /* to options->root */
struct work *group_all_gather(struct task *me, struct process_group *group, struct tensor *const *outputs,
                              struct tensor *input);
struct work *group_gather(struct task *me, struct process_group *group, struct tensor *const *outputs,
                          struct tensor *input, int root);
struct work *group_scatter(struct task *me, struct process_group *group, struct tensor *output,
                           struct tensor *const *inputs, int root);
struct work *group_reduce_scatter(struct task *me, struct process_group *group, struct tensor *output,
                                  struct tensor *const *inputs, const struct collective_options *options);
struct work *group_all_to_all(struct task *me, struct process_group *group, struct tensor *const *outputs,
                              struct tensor *const *inputs);
struct work *group_barrier(struct task *me, struct process_group *group);
struct work *group_barrier_within(struct task *me, struct process_group *group, uint64_t timeout_ps);  /* 0: the group's */
/* One tensor instead of a list: cut in equal parts, in order, whatever its shape is. */
struct work *group_all_gather_into_tensor(struct task *me, struct process_group *group, struct tensor *output,
                                          struct tensor *input);   /* output: ranks times as many elements */
struct work *group_gather_single(struct task *me, struct process_group *group, struct tensor *output,
                                 struct tensor *input, int root);
struct work *group_reduce_scatter_single(struct task *me, struct process_group *group, struct tensor *output,
                                         struct tensor *input, const struct collective_options *options);
/* Cut along dimension 0 in pieces of so many rows, one for each rank; NULL: in equal ones. */
struct splits { const int64_t *output, *input; };
struct work *group_all_to_all_single(struct task *me, struct process_group *group, struct tensor *output,
                                     struct tensor *input, const struct splits *splits);
/* Many tensors as one. */
struct group_tensors { struct tensor *const *tensors; int count; };
struct work *group_all_reduce_coalesced(struct task *me, struct process_group *group, const struct group_tensors *list,
                                        const struct collective_options *options);
/* `outputs` begin with those of rank 0, as many as there are inputs. */
struct work *group_all_gather_coalesced(struct task *me, struct process_group *group, struct tensor *const *outputs,
                                        const struct group_tensors *inputs);
/* Waits for all, on the calling task; names who does not come: the first, or all. */
struct monitored { uint64_t timeout_ps; bool all; };
bool group_monitored_barrier(struct task *me, struct process_group *group, const struct monitored *options);
bool work_wait(struct task *me, struct work *work) __attribute__((warn_unused_result)); /* moves its failure to me */
bool work_wait_within(struct task *me, struct work *work, uint64_t timeout_ps) /* 0: as work_wait; `stepped`: the same */
    __attribute__((warn_unused_result));
bool work_done(struct task *me, struct work *work);   /* true is as good as a wait: nobody changes its tensors any more */
bool work_failure(struct task *me, struct work *work, struct error *out);  /* false: none, or not done */
int64_t work_sequence(const struct work *work);
struct claimer *work_claimer(const struct work *work);   /* device/claims.h: what it has in flight */
void work_free(struct task *me, struct work *work);   /* a collective goes on; an isend or irecv is waited for */
/* Told once, on the task that ends the work and before those who wait for it, or at once if it has ended; the caller's
 * until then. `error` is NULL if all is well. */
struct work_listener {
    struct work_listener *next;
    void                (*done)(struct task *me, void *context, const struct error *error);
    void                 *context;
};
void work_when_done(struct task *me, struct work *work, struct work_listener *listener);
void work_forget(struct task *me, struct work *work);     /* does not wait; a collective's only. NULL: nothing */
bool work_complete(struct task *me, struct work *work);   /* waits and frees; false: failed, or it was NULL */
/* issue + wait + free */
bool group_all_reduce_now(struct task *me, struct process_group *group, struct tensor *tensor, const struct collective_options *options);
bool group_broadcast_now(struct task *me, struct process_group *group, struct tensor *tensor, int root);
bool group_all_gather_now(struct task *me, struct process_group *group, struct tensor *const *outputs, struct tensor *input);
bool group_all_gather_into_tensor_now(struct task *me, struct process_group *group, struct tensor *output, struct tensor *input);
bool group_barrier_now(struct task *me, struct process_group *group);

/* A look at each collective of this rank in the group, on its comm task when it has ended and before who waits for it
 * knows; false: what the hook failed with becomes that collective's error. One hook a group. */
struct completion {
    struct process_group *group;
    const char           *operation;
    int64_t               number;                  /* from 1, as PyTorch counts them here */
    uint64_t              issued_at, begun_at, finished_at;   /* ps */
};
struct completion_hook { bool (*run)(struct task *me, void *context, const struct completion *completion); void *context; };
bool process_group_on_completion(struct task *me, struct process_group *group, const struct completion_hook *hook);
/* Of all groups of the rank, when nobody can run them any more; waits for one that runs. Answers how many. */
int  process_group_forget_hooks(struct task *me, struct world *world, int rank);
bool process_group_wait_for_pending(struct task *me, struct process_group *group);  /* all that was issued, hooks too */

/* ---- point to point: unbuffered, matched per (peer, tag) in the order of posting; run in the calling task. isend and
 * irecv: a task each. Not to oneself, but in a batch. ---- */
enum { ANY_SOURCE = -1 };      /* as the peer of a receive */
bool group_send(struct task *me, struct process_group *group, struct tensor *tensor, int peer, int64_t tag);
bool group_recv(struct task *me, struct process_group *group, struct tensor *tensor, int peer, int64_t tag);
int  group_recv_any(struct task *me, struct process_group *group, struct tensor *tensor, int64_t tag);  /* from whom; -1:
                                                                                                          failed */
struct work *group_isend(struct task *me, struct process_group *group, struct tensor *tensor, int peer, int64_t tag);
struct work *group_irecv(struct task *me, struct process_group *group, struct tensor *tensor, int peer, int64_t tag);
/* All of them or none: an isend or irecv each, posted in order. false: failed; none was posted. */
struct p2p_op { bool is_send; struct tensor *tensor; int peer; int64_t tag; };
bool group_batch_isend_irecv(struct task *me, struct process_group *group, const struct p2p_op *ops, int count,
                             struct work **works);
int  work_source_rank(struct task *me, struct work *work);   /* of an irecv that has ended, in the group; -1: of no other work */
#endif
