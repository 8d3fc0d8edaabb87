/* What the files above the back-end's door (backend.h) share. The world is what all ranks have in common: the store, the
 * back-end's transport, the communicators. A communicator is what the members of one group have in common: their ranks,
 * the ledger, the back-end's channel. A process group is one rank's membership: its comm task and the works that wait.
 *
 *   world.c  made and freed     communicator.c  made, met, freed    group.c        rendezvous, new_group, the comm task
 *   ranks.c  their ends         collectives.c   checks and issues   work.c         issue, wait, free
 *   single.c  one tensor for a list    coalesced.c  many as one    stand_in.c  tensors with gaps    sparse.c  sparse ones
 *   monitored.c  the barrier that names the missing
 *   p2p.c    send, recv ...     ledger.c  who called what           fingerprint.c  a call to be compared and printed
 *   in_flight.c  what nobody touches before the wait    reuse.c  buffers in use
 *   store*.c keys and values
 *
 * Monitors nest in this order only: a group's, the ledger's. The world's is never held with another. None is held when
 * a back-end moves elements. */
#ifndef C10D_INTERNAL_H
#define C10D_INTERNAL_H
#include <stdatomic.h>
#include "base/map.h"
#include "base/str.h"
#include "c10d/backend.h"
#include "c10d/fingerprint.h"
#include "c10d/group.h"
#include "c10d/job.h"
#include "c10d/recorder.h"
#include "c10d/store.h"
#include "device/claims.h"
#include "sched/sched.h"
#include "tensor/tensor.h"

/* ---- the ledger ---- */

struct ledger_entry {
    struct ledger_entry *next;
    int64_t              sequence;
    struct fingerprint   first;    /* of the rank that came first */
    atomic_int           left;     /* whose part in it is done */
};

/* Why collectives from a number on cannot end. Never changed once it is in the list. */
struct ledger_break { struct ledger_break *older; int64_t from; struct error error; };

struct ledger {
    struct monitor       monitor;
    struct ledger_entry *first, *last, *spare;   /* in order of sequence */
    /* Collectives from this number on cannot end, and `breaks` say why; INT64_MAX: all is well.
     * Earlier ones go on: all that a rank sends for them it has sent before it fails in a later one. */
    atomic_int_least64_t broken_from;
    struct ledger_break *_Atomic breaks;         /* the last one first: each from a lower number than those before it */
};

enum ledger_answer { LEDGER_JOINED, LEDGER_DIFFERS /* and is broken now */, LEDGER_BROKEN, LEDGER_NO_MEMORY };
/* The work's rank calls it as its group's collective number work->call.sequence. In no monitor but the group's. */
enum ledger_answer ledger_join(struct task *me, struct work *work);
void ledger_leave(struct task *me, struct work *work);
/* Ends the group's collectives from `sequence` on, with `error` unless somebody was first; who waits is not woken. */
void ledger_break(struct task *me, struct ledger *ledger, int64_t sequence, const struct error *error);
bool ledger_is_broken(const struct ledger *ledger, int64_t sequence);
const struct error *ledger_error(const struct ledger *ledger, int64_t sequence);   /* why that one cannot end */
/* A rank that came to a call after its mismatch was told: fails with the report and with what this rank calls. */
bool ledger_missed_report(struct task *me, const struct work *work);
void ledger_announce_mismatch(struct task *me, const struct ledger *ledger, int64_t sequence);
bool ledger_init(struct ledger *ledger);         /* false: no memory */
void ledger_free(struct ledger *ledger);

/* ---- communicators ---- */

struct communicator {
    struct communicator  *next;           /* in the world's list */
    struct world         *world;
    struct communicator  *parent;         /* whose members call new_group for it; NULL: a default group */
    int                   number;         /* in its generation, in order of making; 0: the default group's */
    int                   index;          /* in the world, in order of making */
    int                   generation;     /* how often init_process_group had been called before */
    int                   size;
    int                  *ranks;          /* in the world, by rank in the group */
    atomic_int_least64_t *issued;         /* by rank in the group: how many collectives it has called */
    atomic_int_least64_t *through;        /* by rank in the group: and how many are over, of those that others wrote */
    struct ledger         ledger;
    atomic_bool           meets_all;      /* a rank waits, or has waited, for all to call what it has called */
    void                 *channel;        /* the back-end's */
    /* How it is met; in the world's monitor. */
    const char           *what;           /* "new_group", "split_group" */
    int                   call;           /* which of the parent's it is, counted by each rank; -1: local_sync */
    int                   expected, come; /* ranks that must call: members, or all the parent's; that have */
    atomic_int            missing;        /* the first in the world that has still to come; -1: none */
    bool                 *here;           /* by rank in the world: it has, member or not */
    bool                  differs;        /* nobody waits in it any more, since a rank called that number for others: `why` */
    char                  why[400];
    int                   lowest;         /* the lowest rank that has called it, */
    uint32_t              line;           /* and where */
    struct monitored_state *monitored;    /* monitored.c; NULL: never called */
    uint64_t              id;             /* the same in all processes of a job */
    int                   present;        /* members that are tasks of this process */
};

/* The communicator that this rank's next call of new_group in the parent is about: made when it is the first to come.
 * Counts it as come. NULL: failed. */
struct communicator *communicator_enter(struct task *me, struct process_group *parent,
                                        const struct group_options *options);
/* The default group's; `ranks` of the world each call it once a generation. It is not waited for. */
struct communicator *communicator_default(struct task *me, struct world *world, int generation);
/* If `rank` is a member, waits until all members have come, or under a world's init_barrier all for all; timeout_ps: 0:
 * the run's. */
bool communicator_meet(struct task *me, struct communicator *communicator, int rank, uint64_t timeout_ps);
int  communicator_rank_of(const struct communicator *communicator, int global); /* -1: no member */
/* Why a wait for its collective `sequence` is in vain; -1: it is not, else the rank, in the world, that has ended before
 * calling it. */
int  communicator_lost_rank(const struct communicator *communicator, int64_t sequence);
void communicator_free(struct task *me, struct communicator *communicator);

/* ---- mirrored.c ---- */
bool mirrored_await(struct task *me, struct work *work);   /* until its tensors are written; before mirrored_run */
bool mirrored_run(struct task *me, const struct collective *call,
                  bool (*run)(struct task *me, const struct collective *call));
/* The same, whatever the back-end and the call. */
bool mirrored_around(struct task *me, const struct collective *call,
                     bool (*run)(struct task *me, const struct collective *call));
bool mirrored_move(struct task *me, const struct collective *call);  /* the one of its operation */
bool mirrored_post(struct task *me, const struct post *post);
bool mirrored_received(struct task *me, const struct post *post);   /* the message has; of a send: true */

/* ---- the world ---- */

/* What the others know of a rank without asking: whether it is over. */
/* How a rank came to its end; written before `ended`. */
struct rank_end { enum flight_now now; uint32_t line; char why[200]; };

struct rank_state {
    struct rank_end end;
    atomic_uint_least64_t calls; /* how many its recorders have seen */
    atomic_uint_least64_t worked; /* steps of work of the run when it made the last one */
    atomic_bool told;            /* its lesson has been told of a wait in vain, and it has called nothing since */
    atomic_bool ended;
    atomic_int  joined;          /* how many generations it has joined: all that the others need from it is in the store */
    int         generation;      /* how often it has called init_process_group; its own task's */
    const struct communicator *outside; /* the last new one of which it is no member; its own task's */
};

/* Why a wait was in vain; `order`: how many errors the run had seen by then. */
struct report { struct report *older; unsigned order; char text[]; };

struct world {
    int                         size;
    struct job                 *job;            /* NULL: all ranks are tasks of this process */
    struct job_world            in_job;
    struct error *_Atomic       standstill;     /* all its ranks wait: what each of them is told; NULL: they do not. Its own */
    int                         here;           /* the rank that this process is; -1: none of them. Without a job -1, too */
    struct group_backend        own_backend;    /* a job's: backend_remote by the transport's name */
    uint64_t                    timeout_ps;
    bool                        init_barrier;   /* all ranks wait for all in new_group, members or not */
    const struct group_backend *backend;
    void                       *transport;      /* the back-end's */
    struct store               *store;
    struct check_ranks         *check;
    struct monitor              monitor;        /* of what follows */
    struct rank_state          *ranks;
    struct communicator *_Atomic communicators;  /* all ever made; freed with the world */
    int                         communicator_count;  /* of the last generation */
    int                         communicators_made;
    struct process_group *_Atomic groups;        /* the same */
    struct sched               *sched;          /* whose explainer this is */
    struct explainer            explainer;      /* hang.c */
    const struct explainer     *before;         /* whose place it took */
    struct report *_Atomic      report;         /* the last one; NULL: nobody has waited in vain */
    atomic_bool                 goes_on;        /* a rank caught what it was told, and called more: the report is of the past */
    atomic_int                  ended_count;
    atomic_bool                 strides_told;   /* warn_of_strides */
    atomic_bool                 stuck;          /* a rank was cut off in its own code */
    atomic_uint_least64_t       failed_at;      /* 1 + when the first rank failed, by sched_time; 0: none has */
};

/* A rank that is no task of this process has ended, as the job's log says. On the watcher's task, or the spawner's. */
void world_rank_gone(struct task *me, struct world *world, const struct job_end *end);
void world_end_waits(struct task *me, struct world *world, enum error_kind kind, const char *report);
bool world_say_standstill(struct task *me, const struct world *world);   /* records why all waits have ended; answers false */
static inline bool
world_stands(const struct world *world)
{
    return atomic_load(&world->standstill) != NULL;
}
static inline bool
world_has_rank(const struct world *world, int rank)
{
    return world->job == NULL || rank == world->here;
}

static inline bool
world_rank_has_ended(const struct world *world, int rank)
{
    return atomic_load(&world->ranks[rank].ended);
}

static inline bool
world_rank_was_killed(const struct world *world, int rank)
{
    return world_rank_has_ended(world, rank) && world->ranks[rank].end.now == FLIGHT_KILLED;
}

/* It makes another call: what it was told, it has caught. */
static inline void
world_rank_calls(struct world *world, int rank)
{
    if (atomic_load_explicit(&world->ranks[rank].told, memory_order_relaxed) &&
        atomic_exchange(&world->ranks[rank].told, false))
        atomic_store(&world->goes_on, true);
}

static inline const char *
world_rank_fate(const struct world *world, int rank)
{
    return world_rank_was_killed(world, rank) ? "was killed" : "has ended";
}

/* ---- why nobody goes on (hang.c) ---- */

void hang_watch(struct sched *sched, struct world *world);      /* from now on stops are explained by this world's calls */
void hang_unwatch(struct world *world);
/* The ranks' calls differ, as me finds in the one that it makes: the report to `out`. false: it would say less than the
 * ledger. In any monitor. */
bool hang_of_mismatch(struct task *me, const struct work *work, struct str *out);
/* Its calls differ as the report says, and what others wait for in vain follows from that. Records the error, answers
 * false. */
bool hang_differs(struct task *me, struct world *world, const char *report);
/* me waits in vain: nobody who could end the wait will. The first in the world to find so tells the run with the report,
 * the others with these words. Records the error, answers false. In no monitor but those that `reason` belongs to. */
bool hang_in_vain(struct task *me, struct world *world, const struct wait_reason *reason, const char *format, ...)
    __attribute__((format(printf, 4, 5)));
void world_wake_all(struct task *me, struct world *world);
/* For hang_job.c: this process's part of a flight; it in words, false: what is known explains nothing. */
void hang_fill(struct sched *sched, struct world *world, bool all, struct flight *flight);
void hang_add_groups(const struct world *world, struct flight *flight);
void hang_look_at_ranks(struct sched *sched, const struct world *world, struct flight *flight);
bool hang_tell(const struct flight *flight, struct str *out);
/* hang_job.c: with the ranks that live elsewhere, whatever this process has noted so far; and those that have ended. */
void hang_complete(const struct world *world, struct flight *flight);
void hang_look_at_ends(const struct world *world, struct flight *flight);
/* hang_stand.c: slots of struct job_world_kind (job.h). */
bool     hang_write_own(struct task *me, const struct world *world, struct str *out);
uint64_t hang_own_wait(struct task *me, struct world *world);
bool     hang_stands(struct task *me, struct world *world, struct standstill *found, struct str *report);

void store_hash_wake(struct task *me, struct store *store);   /* who waits in it looks again whether it is in vain */

/* ---- groups and works ---- */

/* What the back-end sees instead of a tensor of the caller's. Both are references. */
struct stand_in { struct tensor *tensor, *copy; bool asks; /* before its tensor is written: inplace_allowed */ };

struct work {
    struct work          *next;
    struct process_group *group;
    struct collective     call;          /* its tensors are references, until it is done; isend, irecv: the tensor alone */
    struct ledger_entry  *entry;
    struct stand_in      *stand_ins;     /* whose copies become the tensors at the end, in the host's cells */
    size_t                stand_in_count, stand_in_room;
    struct claimer       *claimer;       /* what it has in flight; NULL: its caller waits at once. A reference */
    struct event         *event;         /* made once, used when `on_device` */
    bool                  on_device, is_owned;
    bool                  done, told;    /* it has ended; and those who listen know */
    bool                  is_moved;      /* all that the other ranks need of this one has left */
    bool                  is_here;       /* it runs on the task that waits for it */
    bool                  meets_all;     /* it begins when every rank has called it: DEBUG_DETAIL */
    const char           *lost;          /* work_wait_lost */
    uint32_t              line, iteration;
    int64_t               number;        /* of its group's, in the order of their making */
    uint64_t              issued_at, begun_at, finished_at;
    char                  algorithm[48]; /* what its options name */
    uint64_t              recorded;      /* its number in the group's recorder; 0: it is not there */
    struct work_listener *listeners;     /* the last one first */
    struct post           post;          /* isend, irecv */
    struct task          *task;          /* theirs */
    /* reuse.c: of the tensor when it was posted; the checksum only where others share its version. */
    uint64_t              checksum;
    bool                  version_is_alone, reuse_told, reuse_warned;
    struct error          error;         /* the last field: its text is not cleared when the work is used again */
};

struct process_group {
    struct process_group *next;
    struct world         *world;
    struct communicator  *communicator;
    int                   rank;          /* in the group */
    int                   global_rank;
    atomic_uint_least64_t timeout_ps;    /* of one wait; 0: the run's */
    int64_t               works;         /* how many were made; in the monitor */
    int                   calls;         /* of new_group in it, by this rank; in the world's monitor */
    struct monitor        monitor;
    struct task          *comm;          /* NULL: not started or ended */
    struct claim_line    *line;          /* of its collectives: for which the rank has waited */
    struct work          *first, *last;  /* the queue */
    bool                  busy;          /* a collective is under way, here or on the comm task */
    int                   waiting;       /* tasks in the monitor, the comm task excepted */
    struct work          *spare;
    atomic_int_least64_t  running;       /* the collective that its comm task is in */
    struct work          *left;          /* isends and irecvs that nobody waits for any more, with their tasks */
    struct recorder        recorder;
    struct completion_hook hook;         /* completion.c */
    bool                  in_hook;
    int64_t               finished;      /* how many collectives have ended; in the monitor */
    bool                  stopping;
    bool                  is_deaf;       /* the run is over and with it the comm task: nobody would run what is issued */
    atomic_bool           is_gone;
};

struct work *work_new(struct task *me, struct process_group *group, enum operation operation, struct tensor *tensor);
void         work_discard(struct task *me, struct work *work);
void         work_recycle(struct task *me, struct work *work);      /* in the group's monitor */
/* Issues the work as the group's next collective and queues it for the comm task. */
bool         work_issue(struct task *me, struct work *work);
void         work_run(struct task *me, struct work *work);
/* `wait`: a moment; false: failed. */
bool         ledger_meet_in_store(struct task *me, struct work *work, bool (*wait)(struct task *me, struct work *work));
void         work_finish(struct task *me, struct work *work);
void         completion_tell(struct task *me, struct work *work);   /* no monitor is held, me has no error */
/* Of isend and irecv: whoever waits for it, or its task's end, lets go of the tensor, once. */
void         work_release_tensor(struct task *me, struct work *work);
/* in_flight.c. Before its tensors are taken: it will claim them. */
bool         work_claims(struct task *me, struct work *work);
bool         work_claim(struct task *me, struct work *work, const struct tensor *tensor, bool write);
void         in_flight_waited(struct work *work);        /* the rank has, or knows that it has ended */
/* Joins the tasks of works that nobody waits for: those that have ended, or all. */
void         works_left_join(struct task *me, struct process_group *group, bool all);
/* reuse.c: the tensor of an isend or irecv, which the host should leave alone until its wait; who changes it is told
 * once. In this order, the last as often as one likes. */
void         reuse_watch(struct work *work);                  /* it was posted */
void         reuse_moved(struct task *me, struct work *work); /* the message has left, or has come */
void         reuse_check(struct task *me, struct work *work);

/* ---- from a call to a work (collectives.c): begin, take its tensors, issue ---- */

struct work *group_begin(struct task *me, struct process_group *group, enum operation operation,
                         const struct collective_options *options);    /* NULL: failed */
struct work *group_issue(struct task *me, struct work *work);           /* NULL: failed, and discarded */
struct work *group_issue_if(struct task *me, struct work *work, bool taken);  /* else it is discarded */
bool         group_take(struct task *me, struct work *work, struct tensor *tensor, unsigned use);  /* call.tensor */
/* A tensor for each rank. */
struct taken_list {
    struct tensor      *const *tensors;
    const struct tensor *first, *like;    /* whose dtype and device all have; whose shape. NULL: the list's first; any */
    unsigned             use;
};
bool group_take_list(struct task *me, struct work *work, struct tensor ***place, const struct taken_list *list);
/* Of all_to_all's inputs, `count` as the outputs: what shares elements with an output is read before that changes. */
unsigned group_input_use(struct task *me, struct tensor *const *outputs, struct tensor *const *inputs, int count);
bool group_keeps_own(struct task *me, const struct work *work);     /* all_to_all's lists */
bool group_only_root(struct task *me, const struct work *work, const void *list, const char *name);

/* What the back-end gets for a tensor of the caller's: itself, or a contiguous stand-in if it has gaps. A reference;
 * NULL: failed. An outcome is pasted back at the end; what is no input is not copied at the beginning. USE_APART: always
 * a stand-in. USE_COPY_: PyTorch's gloo writes it by copy_, which a leaf that requires grad refuses. */
enum tensor_use { USE_INPUT = 1, USE_OUTCOME = 2, USE_APART = 4, USE_COPY_ = 8 };
/* Of a tensor with gaps, once a world: PyTorch's gloo would take its memory as it lies. Not of a result whose elements
 * share memory: that one is refused. */
void           warn_of_strides(struct task *me, const struct work *work, const struct tensor *tensor, unsigned use);
/* Some of these share elements. false, too: failed. */
bool           tensors_share(struct task *me, struct tensor *const *tensors, int count);
struct tensor *work_take(struct task *me, struct work *work, struct tensor *tensor, unsigned use);
/* The same, with this contiguous tensor of the same shape as the stand-in. */
bool           work_stand_in(struct task *me, struct work *work, struct stand_in stand_in, unsigned use);
bool           work_paste(struct task *me, struct work *work);          /* at the end: all that are outcomes */
void           work_drop_stand_ins(struct task *me, struct work *work);
bool           sparse_all_reduce(struct task *me, const struct collective *call);
bool         work_tensor_ready(struct task *me, struct tensor *tensor, struct event **event, bool *on_device);
void         group_free(struct task *me, struct process_group *group);
#endif
