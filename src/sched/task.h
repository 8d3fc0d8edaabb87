/* A task is one thread of one rank: identity, clock, error, scope. It is the first argument (`me`) of everything
 * that can fail, wait or be seen. There is no "current" anything outside it. */
#ifndef SCHED_TASK_H
#define SCHED_TASK_H
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include "sched/happens.h"

struct sched; struct trace_buffer; struct monitor; struct task; struct cost_model;

/* How much is lost grows downwards; error_name gives Lua's and PyTorch's word for it. */
enum error_kind {
    E_NONE,
    E_RUNTIME, E_VALUE, E_TYPE, E_INDEX, E_KEY, E_ATTRIBUTE, E_NOT_IMPLEMENTED, E_ASSERTION, E_PERMISSION, /* RuntimeError, ValueError ... */
    E_SHAPE, E_DTYPE, E_DEVICE,                                    /* RuntimeError too */
    E_SCRIPT,                                                      /* an error raised in Lua */
    E_CHECKPOINT,                                                  /* a recomputation differs from its forward */
    E_ENOUGH,                                                      /* a recomputation may stop: nobody is told */
    E_QUEUE_EMPTY,                                                 /* of a store, asked not to wait */
    E_BUDGET,                                                      /* memory or instructions of a lesson: exit status 2 */
    E_MEMORY, E_OUT_OF_MEMORY /* of a device */, E_DEADLOCK, E_TIMEOUT,
    E_DIST_STORE, E_DIST_NETWORK,      /* a store: nobody set the key in time; its server cannot be reached */
    E_MISMATCH, E_DIVERGENCE, E_RACE,
    E_KILLED,                          /* its rank is gone on purpose: no script may catch it (faults.h) */
    E_STOPPED /* exit status 3 */
};
const char *error_name(enum error_kind kind);        /* "RuntimeError", "DeadlockError" ... */

struct error {
    enum error_kind kind;
    char            message[2048]; /* for the user: what happened and what to do; no C names */
    const char     *function;      /* where it was found */
    int             line;
    uint32_t        lesson_line;
    int             rank;
    unsigned        order;         /* among all errors of the run, as they happened */
    bool            hung;          /* others waited in vain because of it: exit status 3 */
    void           *payload;       /* E_SCRIPT: the Lua error object's reference, owned by src/lua */
};

bool error_is_of_hang(const struct error *error);    /* it says that ranks wait in vain, or for what */
int error_exit_status(const struct error *error); /* 2 or 3 */

/* Typed accessors live in the module that owns the slot. A new task starts with zeros. */
enum task_slot {
    SLOT_NO_GRAD,      /* autograd: > 0 means grad mode is off */
    SLOT_SEQUENCE_NR,  /* autograd: next node's sequence number, per task as in PyTorch */
    SLOT_GRAPH,        /* autograd: the backward this task works for */
    SLOT_STREAM,       /* device: current streams, see device/stream.h */
    SLOT_RANK,         /* c10d: struct rank_context of this rank */
    SLOT_GENERATORS,   /* tensor: this rank's random generators */
    SLOT_LUA,          /* lua: the rank's state */
    SLOT_MODULE,       /* nn: the module whose forward runs, for names and prices */
    SLOT_PRICE,        /* autograd: the named price that covers the ops of a module's forward or of a node */
    SLOT_DYING,        /* autograd: nodes that an unfinished teardown has still to free */
    SLOT_SAVING,       /* autograd: where saved tensors go instead, see autograd/node.h */
    SLOT_BACKWARDS,    /* autograd: how many this task has begun */
    SLOT_COUNT
};

struct wait_reason {
    const char        *what;      /* "broadcast", "lock", "join", "recv": the operation as the user knows it */
    int64_t            sequence;  /* its sequence number in its group, -1 none */
    int                group;     /* of a collective's number: the group's number; -1: another kind of number */
    int64_t            tag;       /* of a send or receive */
    int                peer;      /* the rank waited for, -1 unknown or many */
    const atomic_int  *peer_now;  /* the same, where it changes during the wait; -1 likewise. Outlives it; NULL: peer */
    const struct task *holder;    /* the task waited for (lock holder, joined task), NULL unknown */
    const char        *detail;    /* e.g. "of group 0, 2 of 4 ranks have come"; NULL none. Must outlive the wait */
    uint64_t           timeout_ps;/* 0: none. In `stepped` it never fires while a deadlock can be told */
    uint64_t           since;     /* `free`: when a wait began of which this is but a slice: it goes on when the slice
                                     has ended, until sched_wait_over; 0: it begins now and ends by itself */
    uint64_t           until;     /* 0: never. At this time by sched_now the wait answers true: look again */
    bool               idle;      /* a server with nothing to do: not counted as stuck */
    bool               join;      /* ends by itself once others fail: not failed in a deadlock */
    bool               lost;      /* for a message that was lost on purpose: `detail` says which */
};
static inline int
wait_reason_peer(const struct wait_reason *reason)
{
    return reason->peer_now != NULL ? atomic_load(reason->peer_now) : reason->peer;
}

/* Small blocks at hand, by size, so that a temporary costs no lock; device/cells.c owns what lies in them. */
enum { TASK_CELLS = 20, TASK_TEXTS = 64 };
struct cell_list { void *first; uint32_t count; };
struct text_id { const char *text; uint32_t id; };

/* KILLED_TELLS: that of its rank's tasks whose error is an event. */
enum task_killed { NOT_KILLED, KILLED, KILLED_TELLS };

struct scope_item { void *object; void (*drop)(struct task *me, void *object); bool handed; };

struct task {
    struct sched        *sched;
    struct trace_buffer *buffer;      /* NULL: nothing is recorded */
    const bool          *off;         /* by enum kind: categories that are not recorded */
    uint64_t             clock;       /* ps, virtual; in `free` unused (the wall clock is read) */
    uint32_t             lane, line, iteration;
    int16_t              rank, device;/* -1: none, host */
    uint8_t              depth;       /* open stages */
    uint16_t             stage;       /* kind of the innermost one that is no op; 0: none */
    uint32_t             departing;   /* flow of its next begin or instant event, 0 none */
    bool                 dead;        /* set for a task whose run is over */
    bool                 is_carrier;  /* moves elements for collectives and messages: their claims (device/claims.h) are its own */
    atomic_uchar         killed;      /* enum task_killed */
    int                  number;      /* in order of creation, from 0 */
    struct scope_item   *scope;
    size_t               scope_count, scope_room;
    struct error         error;
    uint64_t             slots[SLOT_COUNT];
    struct actor         actor;       /* happens-before */
    char                 name[48];    /* "r0 main", "dp worker 2" */
    struct cell_list     cells[TASK_CELLS];
    void               (*drop_cells)(struct task *me); /* when the task is freed; NULL: it took none */
    struct text_id       texts[TASK_TEXTS]; /* ids of static texts, by their address */
    uint64_t             work;        /* steps of work not yet told to the account (account.h) */
    const struct wait_reason *waiting;/* NULL: it does not wait */
    uint64_t             since;       /* ps: it has waited, or `free`: been seen in this line, from then on; 0: not known */
    void                *machine;     /* the executor's own: fiber or thread */
};

/* The line is read by others, too: who explains where a task is. */
static inline void     task_set_line(struct task *me, uint32_t line) { __atomic_store_n(&me->line, line, __ATOMIC_RELAXED); }
static inline uint32_t task_line(const struct task *task) { return __atomic_load_n(&task->line, __ATOMIC_RELAXED); }

/* Records the error once (the first one wins), emits a fault event, answers false. `failed_null` answers NULL. */
struct code_place { const char *function; int line; };
bool task_fail(struct task *me, struct code_place found, enum error_kind kind, const char *format, ...)
    __attribute__((format(printf, 4, 5)));
#define failed(me, kind, ...)      task_fail((me), (struct code_place){ __func__, __LINE__ }, (kind), __VA_ARGS__)
#define failed_null(me, kind, ...) (failed((me), (kind), __VA_ARGS__), NULL)
static inline bool task_failed(const struct task *me) { return me->error.kind != E_NONE; }
void task_clear_error(struct task *me);                      /* the Lua door and task_join only */
void task_take_error(struct task *me, struct error *from);   /* becomes me's error unless me has one */

/* Ownership: `born` gives a new object to the current scope (NULL in: NULL out; no memory: dropped, failed, NULL).
 * `hand_up` moves it to the caller's scope when this stage ends; evaluated before the stage's cleanup.
 * Both answer the object, so `return hand_up(me, tensor_add(me, a, b))` reads well. */
void *born(struct task *me, void *object, void (*drop)(struct task *me, void *object));
void *hand_up(struct task *me, void *object);
/* A scope without a stage, for the doors (Lua calls, task bodies): what is born between the two dies at the second. */
static inline size_t scope_mark(struct task *me) { return me->scope_count; }
void   scope_release(struct task *me, size_t mark);

/* Starting and joining. The child begins at me's clock with me's rank, device, line and iteration. */
struct task_options {
    const char *name;       /* copied */
    int         rank;       /* TASK_INHERIT: me's */
    int         device;
    bool        lua;        /* needs the large stack */
    bool        idle_ok;    /* a server: the run may end while it idles */
    int         lane_kind;  /* enum lane_kind; 0: LANE_HOST */
    const char *lane;       /* name of its lane; NULL: reuse or make one called `name`, by (rank, name) */
};
#define TASK_INHERIT (-1000)

/* NULL: could not start (failed). `run`'s answer is ignored: failure is what it recorded in its task. */
struct task *task_spawn(struct task *me, const struct task_options *options, bool (*run)(struct task *me, void *argument),
                        void *argument);
/* me is a rank from here on, in a process that is one as a whole: what it does stands in a lane of its own. */
void task_becomes_rank(struct task *me, int rank, int device);
/* Waits for its end, moves its failure to me (unless `error` is given: then there), frees it. */
bool task_join(struct task *me, struct task *child, struct error *error);
#endif
