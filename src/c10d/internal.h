/* What the files above the back-end's door (backend.h) share. The world is what ranks have in common: the store, the
 * ledger, the back-end's transport.
 *
 *   world.c  made and freed     group.c  rendezvous and the comm task     work.c    issue, wait, check, free
 *   ranks.c  their ends         p2p.c    send, recv, isend, irecv         ledger.c  who called what, and what is wrong
 *   store*.c keys and values    fingerprint.c  a call that can be compared and printed
 *
 * Monitors nest in this order only: a group's, the ledger's. None is held when a back-end is called. */
#ifndef C10D_INTERNAL_H
#define C10D_INTERNAL_H
#include <stdatomic.h>
#include "base/map.h"
#include "base/str.h"
#include "c10d/backend.h"
#include "c10d/group.h"
#include "c10d/store.h"
#include "sched/sched.h"
#include "tensor/tensor.h"

const char *operation_name(enum operation operation);     /* "allreduce" ... as in c10d's kinds */

/* ---- the ledger ---- */

/* What a rank called as collective number `sequence`: equal on all ranks, but for `line` and `rank`. */
struct fingerprint {
    enum operation operation;
    int            dtype;          /* -1: no tensor */
    int            dims, root;
    int64_t        size[TENSOR_DIMS];
    enum reduce_op op;
    bool           ring_backwards;
    uint32_t       line;
    int            rank;
};
struct fingerprint fingerprint_of(const struct collective *call, uint32_t line);
bool               fingerprint_equal(const struct fingerprint *a, const struct fingerprint *b);
void               fingerprint_print(const struct fingerprint *print, bool with_details, struct str *out);

struct ledger_entry {
    struct ledger_entry *next;
    int64_t              sequence;
    struct fingerprint   first;    /* of the rank that came first */
    int                  joined;   /* ranks that have issued it */
    int                  users;    /* works that still point here */
};

struct ledger {
    struct monitor       monitor;
    struct ledger_entry *first, *last, *spare;   /* in order of sequence */
    /* Collectives from this number on cannot end, and `error`, written once before, says why; INT64_MAX: all is well.
     * Earlier ones go on: all that a rank sends for them it has sent before it fails in a later one. */
    atomic_int_least64_t broken_from;
    struct error         error;
};

enum ledger_answer { LEDGER_JOINED, LEDGER_DIFFERS /* and is broken now */, LEDGER_BROKEN, LEDGER_NO_MEMORY };
/* The work's rank calls it as its collective number work->call.sequence. In no monitor but the group's. */
enum ledger_answer ledger_join(struct task *me, struct world *world, struct work *work);
void ledger_leave(struct task *me, struct world *world, struct work *work);
/* Ends the world's collectives from `sequence` on, with `error` unless somebody was first; who waits is not woken. */
void ledger_break(struct task *me, struct ledger *ledger, int64_t sequence, const struct error *error);
bool ledger_is_broken(const struct ledger *ledger, int64_t sequence);
void ledger_announce_mismatch(struct task *me, const struct ledger *ledger, int64_t sequence);
void ledger_free(struct ledger *ledger);

/* ---- the world ---- */

/* What the others know of a rank without asking: how many collectives it has issued, and whether it is over. */
struct rank_state {
    atomic_bool          ended, joined;
    atomic_int_least64_t issued;
    int                  generation;     /* how often it has called init_process_group; its own task's */
};

struct world {
    int                         size;
    uint64_t                    timeout_ps;
    const struct group_backend *backend;
    void                       *transport;      /* the back-end's */
    struct store               *store;
    struct ledger               ledger;         /* its monitor also guards groups */
    struct rank_state          *ranks;
    struct process_group       *groups;         /* all ever made; freed with the world */
    atomic_int                  ended_count;
};

/* Why a wait for collective `sequence` is in vain; -1: it is not, else the rank that has ended before calling it. */
int  world_lost_rank(const struct world *world, int64_t sequence);
void world_wake_all(struct task *me, struct world *world);

void store_hash_wake(struct task *me, struct store *store);   /* who waits in it looks again whether it is in vain */

/* ---- groups and works ---- */

struct work {
    struct work          *next;
    struct process_group *group;
    struct collective     call;          /* its tensors are references, until it is done; isend, irecv: the tensor alone */
    struct ledger_entry  *entry;
    struct event         *event;         /* made once, used when `on_device` */
    bool                  on_device, done, is_owned;
    uint32_t              line, iteration;
    uint64_t              issued_at, finished_at;
    struct error          error;
    struct post           post;          /* isend, irecv */
    struct task          *task;          /* theirs */
};

struct process_group {
    struct process_group *next;
    struct world         *world;
    int                   rank;
    struct monitor        monitor;
    struct task          *comm;          /* NULL: not started or ended */
    struct work          *first, *last;  /* the queue */
    struct work          *spare;
    bool                  stopping, is_gone;
};

struct work *work_new(struct task *me, struct process_group *group, enum operation operation, struct tensor *tensor);
void         work_discard(struct task *me, struct work *work);
/* Issues the work as the group's next collective and queues it for the comm task. */
bool         work_issue(struct task *me, struct work *work);
void         work_run(struct task *me, struct work *work);
void         work_finish(struct task *me, struct work *work);
bool         work_tensor_ready(struct task *me, struct tensor *tensor, struct event **event, bool *on_device);
void         group_free(struct task *me, struct process_group *group);
#endif
