/* What the files of sched/ share: the run, a task's machine, and the table of an executor. */
#ifndef SCHED_INTERNAL_H
#define SCHED_INTERNAL_H
#include <pthread.h>
#include <stdatomic.h>
#include <stdint.h>
#include <time.h>
#include "base/map.h"
#include "base/str.h"
#include "sched/account.h"
#include "sched/chooser.h"
#include "sched/fiber.h"
#include "sched/policy.h"
#include "sched/sched.h"
#include "trace/schema.h"
#include "trace/writer.h"

enum machine_state { MACHINE_NEW, MACHINE_READY, MACHINE_RUNNING, MACHINE_WAITING, MACHINE_ENDED };

/* What a chooser knows of a task. */
struct choice_state {
    uint64_t   identity, priority, points;   /* points: how many it has passed */
    unsigned   twin;                         /* the how manieth of its name */
    bool       polls, stands;                /* stands: before a touch */
    enum touch touch;
    uint64_t   key;
};

/* A task and what its executor needs to run it. */
struct machine {
    struct task    task;              /* first: task and machine convert by a cast */
    bool         (*run)(struct task *me, void *argument);
    void          *argument;
    struct machine *previous, *next;  /* all living ones, by number */
    struct monitor ended;
    bool           done, lua, joined;
    enum machine_state state;
    struct fiber   fiber;             /* stepped */
    struct monitor *queue;            /* stepped: the monitor it waits in */
    struct machine *next_waiter;
    bool           wait_broken;       /* stepped: its wait answers false */
    bool           timed_out;         /* stepped: because it has lasted too long */
    uint32_t       seen_lines[4];     /* free: where it was lately; a loop comes back to them */
    unsigned       seen_count;
    bool           preferred;         /* stepped: goes first among equals while its clock is preferred_at */
    uint64_t       preferred_at;
    uint64_t       pending_delay;
    struct wait_reason reason;        /* a copy while it waits, guarded by the registry */
    pthread_t      thread;            /* free */
    bool           has_thread;
    size_t         registered;        /* its actor's place */
    size_t         charged;           /* bytes in the run's account */
    struct choice_state choice;
};

static inline struct machine *machine_of(struct task *task) { return (struct machine *)task->machine; }

struct executor {
    const char *name;
    bool     (*start)(struct task *me, struct machine *child);      /* false: could not (nothing was started) */
    void     (*point)(struct task *me);
    uint64_t (*now)(struct task *me);                               /* ps */
    void     (*enter)(struct task *me, struct monitor *monitor);
    void     (*leave)(struct task *me, struct monitor *monitor);
    bool     (*wait)(struct task *me, struct monitor *monitor, const struct wait_reason *reason);
    void     (*poll)(struct task *me, uint64_t ps, const struct wait_reason *reason);
    void     (*touch)(struct task *me, uint64_t key, enum touch touch); /* NULL: nobody chooses */
    void     (*wake)(struct task *me, struct monitor *monitor);
    void     (*late)(struct task *me, uint64_t ps);                 /* me's rank stands still for so long */
    void     (*killed)(struct sched *sched, int rank);              /* its tasks are marked: their waits end */
    void     (*finished)(struct machine *machine);                  /* last thing a task does; may not return */
    void     (*reap)(struct machine *machine);                      /* its stack or thread, after the end */
    void     (*drain)(struct task *me);                             /* task 0 is done: everybody else has to end */
};
extern const struct executor executor_stepped, executor_free;

/* What decides who is earlier lies in the item: with a thousand tasks each look at a machine would be a cache miss. */
struct heap_item {
    uint64_t clock, tie;              /* tie: 0 sources, 1 preferred, 2 + the policy's */
    int64_t  number;                  /* the task's; -1: a source */
    union { struct machine *machine; struct sched_source *source; };
};
static inline bool heap_item_is_source(struct heap_item item) { return item.number < 0; }

struct chooser;
struct actor_seat { uint32_t index, tick; };

struct sched {
    struct run_facts       facts;     /* first: sched_is_stepped looks there */
    const struct executor *executor;
    struct trace_writer   *writer;
    struct trace_buffer   *buffer;    /* stepped: the only one */
    struct cost_model     *cost;
    struct policy          policy;
    struct chooser        *chooser;   /* NULL: the usual order */
    uint64_t               random, timeout_ps;
    struct observer       *observer;
    enum trace_clock       clock;     /* of the wall, `free` */
    struct timespec        started;
    void                  *parts[PART_COUNT];
    bool                   off[KIND_COUNT];
    atomic_bool            stopping;
    atomic_int             stop_kind; /* E_NONE: nobody asked; written after the message */
    char                   stop_message[2048];
    atomic_uint            next_flow, errors;   /* errors: how many were recorded */
    const struct explainer *explainer;
    pthread_rwlock_t explaining;      /* read while the explainer is asked, which stays as long; guards it */
    struct account         account;
    pthread_mutex_t        fault_mutex;     /* guards what follows */
    struct faults         *faults;          /* NULL: nobody ever expected one */

    pthread_mutex_t registry;         /* guards what follows, in `free` */
    struct machine *first, *last;
    struct machine *spare;            /* of tasks that ended, for the next ones: by next */
    int             spare_count;
    int             next_number, living;
    void          (*warn)(struct task *me, const char *text);
    struct map      lanes;            /* "rank/name" -> lane */
    struct str      report;           /* the last deadlock's or timeout's */

    struct heap_item *heap;           /* stepped */
    size_t            heap_count, heap_room;
    size_t            pollers;        /* of those in the heap: they wait in sched_poll */
    size_t            limits;         /* of those in the heap: ends of waits, which nobody waits for */
    struct machine   *running, *main, *leaving;
    struct task       source_task;    /* lends its name to sources that fire */
    uint64_t          deadlocks, now; /* now: the clock of whoever ran last */

    bool               races;         /* the checker is on */
    struct actor     **actors;
    size_t             actor_count, actor_room;
    struct actor_seat *free_seats;
    size_t             free_count, free_room;
    uint32_t           next_seat;
};

/* heap.c */
bool heap_reserve(struct sched *sched, size_t need) __attribute__((warn_unused_result));
void heap_push(struct sched *sched, struct heap_item item);     /* room was reserved */
struct heap_item heap_pop(struct sched *sched);
void heap_remove(struct sched *sched, size_t place);            /* place: index + 1 */
struct heap_item *heap_find(struct sched *sched, const struct machine *machine); /* NULL: it is not ready */
void heap_rebuild(struct sched *sched);

/* chooser.c */
struct chooser *chooser_new(const struct choosing *how);        /* NULL: no memory */
void chooser_free(struct chooser *chooser);
void chooser_meet(struct chooser *chooser, struct machine *machine);    /* a new task */
struct machine *chooser_pick(struct chooser *chooser, struct sched *sched, struct machine *from);
bool chooser_stands(struct chooser *chooser, const struct machine *machine, uint64_t key, enum touch touch);

/* faults.c */
bool faults_open(struct sched *sched, const struct fault_plan *plan);   /* false: no memory */
void faults_close(struct sched *sched);

/* explain.c: the wait has lasted longer than it may; tells why, answers false. In no monitor's registry. */
bool sched_timed_out(struct task *me, uint64_t limit_ps);

/* task.c */
struct machine *machine_new(struct sched *sched, struct task *parent, const struct task_options *options);
void machine_unlink(struct sched *sched, struct machine *machine);
void machine_free(struct machine *machine);     /* kept for the next task, where few are */
void machine_free_spares(struct sched *sched);
void machine_body(struct machine *machine);                     /* what every task runs, in either executor */
bool machine_await(struct task *me, struct machine *child, const struct wait_reason *reason);
#endif
