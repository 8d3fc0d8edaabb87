/* What the files of this folder share. The world is what ranks have in common: the store, the links, the ledger.
 *
 *   store.c  keys and values        ledger.c  who called what, and what is wrong      link.c  messages between two ranks
 *   world.c  ranks and their ends   group.c   rendezvous and the comm task            work.c  issue, wait, check, free
 *   ring.c   all-reduce, all-gather  tree.c   broadcast and barrier                   reduce.c  elements   p2p.c  send, recv
 *
 * Monitors nest in this order only: a group's, the ledger's, a link's. */
#ifndef C10D_INTERNAL_H
#define C10D_INTERNAL_H
#include <stdatomic.h>
#include "base/map.h"
#include "base/str.h"
#include "c10d/group.h"
#include "sched/sched.h"
#include "tensor/tensor.h"

struct event;

enum operation {
    OPERATION_ALL_REDUCE, OPERATION_BROADCAST, OPERATION_ALL_GATHER, OPERATION_BARRIER, OPERATION_SEND, OPERATION_RECV
};
const char *operation_name(enum operation operation);     /* "allreduce" ... as in c10d's kinds */
const char *reduce_op_name(enum reduce_op op);            /* "sum" ... */

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

struct ledger_entry {
    struct ledger_entry *next;
    int64_t              sequence;
    struct fingerprint   first;    /* of the rank that came first */
    int                  joined;   /* ranks that have issued it */
    int                  users;    /* works that still point here */
    int                  arrived;  /* barrier: ranks at it */
    uint64_t             open_at;  /* barrier: its moment, once all have arrived */
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
/* The work's rank calls it as its collective number work->sequence. In no monitor but the group's. */
enum ledger_answer ledger_join(struct task *me, struct world *world, struct work *work);
void ledger_leave(struct task *me, struct world *world, struct work *work);
/* Ends the world's collectives from `sequence` on, with `error` unless somebody was first; wakes everybody. */
void ledger_break(struct task *me, struct world *world, int64_t sequence, const struct error *error);
bool ledger_is_broken(const struct ledger *ledger, int64_t sequence);
void ledger_announce_mismatch(struct task *me, struct world *world, int64_t sequence);   /* and wakes everybody */
void ledger_free(struct ledger *ledger);

/* ---- the world ---- */

/* What the others know of a rank without asking: how many collectives it has issued, and whether it is over. */
struct rank_state {
    atomic_bool          ended, joined;
    atomic_int_least64_t issued;
    int                  generation;     /* how often it has called init_process_group; its own task's */
};

struct world {
    int                    size;
    uint64_t               timeout_ps;
    struct store          *store;
    struct ledger          ledger;       /* its monitor also guards links and groups */
    struct link          **links;        /* [from * size + to], made when first used */
    struct link           *first_link;   /* those that were made */
    bool                   hops_off;     /* hop events are switched off as long as this world lives */
    struct rank_state     *ranks;
    struct process_group  *groups;       /* all ever made; freed with the world */
    atomic_int             ended_count;
};

/* Why a wait for collective `sequence` is in vain; -1: it is not, else the rank that has ended before calling it. */
int  world_lost_rank(const struct world *world, int64_t sequence);
void world_wake_all(struct task *me, struct world *world);

struct store *store_new(struct task *me, struct world *world);
void          store_free(struct store *store);
void          store_wake(struct task *me, struct store *store);

/* ---- links: one per ordered pair of ranks ---- */

/* One end of a send or recv: paired with the other end by the tag, in the order in which both were posted. */
struct post {
    struct post   *next, *mate;
    struct tensor *tensor;
    struct event  *event;            /* the tensor's device has come so far; NULL: host memory */
    bool           is_send, ready, done, abandoned, refused;
    int            rank, peer;
    int64_t        tag;
    uint32_t       line, flow;
    uint64_t       arrival;
    char           why[240];         /* refused: what does not fit */
};

struct link {
    struct link   *next;             /* in the world's list */
    struct monitor monitor;
    int            from, to;
    uint64_t       free_at;          /* ps: one transfer at a time */
    bool           full;             /* one message in flight */
    void          *data;
    size_t         bytes, room;
    uint64_t       arrival;
    uint32_t       flow;
    struct post   *posts[2];         /* without a mate yet: recvs, sends */
};

struct link *world_link(struct task *me, struct world *world, int from, int to);  /* NULL: failed */
void         link_free(struct link *link);
/* When a message of `bytes` that leaves now or as soon as the link is free arrives. In the link's monitor. */
uint64_t     link_depart(struct task *me, struct link *link, uint64_t bytes);

struct message { void *data; size_t bytes; uint32_t flow; uint64_t arrival; };
/* Hands a message to the link, as soon as the last one was taken; `arrival` is set. Does not wait for it to arrive. */
bool link_put(struct task *me, struct work *work, struct link *link, struct message *message);
/* Waits for the next message of just so many bytes; me's clock rises to its arrival; `flow` is set. Its elements
 * replace those at message->data, or are reduced into them. */
struct reduction { bool on; enum reduce_op op; int dtype; };
bool link_take(struct task *me, struct work *work, struct link *link, struct message *message,
               const struct reduction *reduction);

/* ---- groups and works ---- */

struct work {
    struct work          *next;
    struct process_group *group;
    enum operation        operation;
    int64_t               sequence;
    struct ledger_entry  *entry;
    int                   ranks;
    int64_t               bytes, elements;
    struct tensor        *tensor;        /* references, until it is done */
    struct tensor       **outputs;       /* all_gather */
    struct collective_options options;
    struct event         *event;         /* made once, used when `on_device` */
    bool                  on_device, done, in_use, is_owned;
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

bool comm_serve(struct task *me, void *group);
/* Issues `fingerprint` as the group's next collective and queues the work for the comm task. */
struct work *work_new(struct task *me, struct process_group *group, enum operation operation, struct tensor *tensor);
void         work_discard(struct task *me, struct work *work);
bool         work_issue(struct task *me, struct work *work);
void         work_run(struct task *me, struct work *work);
void         work_finish(struct task *me, struct work *work);
bool         work_tensor_ready(struct task *me, struct tensor *tensor, struct event **event, bool *on_device);
void         group_free(struct task *me, struct process_group *group);

/* Waits in `monitor` for what `peer` (-1: many) does in `work`; false: failed, and the monitor was left. */
bool work_await(struct task *me, struct work *work, struct monitor *monitor, int peer);
bool work_lost(struct task *me, struct work *work);   /* says why; false */

/* ---- algorithms: run by the comm task ---- */
bool local_all_reduce(struct task *me, struct work *work);
bool local_all_gather(struct task *me, struct work *work);
bool local_broadcast(struct task *me, struct work *work);
bool local_barrier(struct task *me, struct work *work);
bool local_send(struct task *me, struct process_group *group, struct post *post);
bool local_recv(struct task *me, struct process_group *group, struct post *post);

/* ---- elements ---- */
bool  reduce_supports(int dtype);
void  reduce_elements(const struct reduction *reduction, void *into, const void *from, size_t bytes);
void  reduce_average(int dtype, void *data, size_t bytes, int ranks);
void *tensor_elements(const struct tensor *tensor);                /* of a contiguous tensor */
/* The whole tensor is read, or written too, by the host: for the race checker. false: a race; failed. */
bool  tensor_touch(struct task *me, struct tensor *tensor, bool write, const char *what);
void  tensor_tell(struct task *me, struct tensor *tensor);         /* the trace learns its new elements */
void  tensor_paste(struct task *me, struct tensor *to, const struct tensor *from);
#endif
