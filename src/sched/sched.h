/* The executor: who runs, at what time, in what order. Two of them behind one table: `stepped` (fibers on a virtual
 * clock, one OS thread, deterministic) and `free` (threads on the wall clock). Nobody above knows which one runs.
 *
 * Time moves only through sched_advance. Waiting has one door, monitor_wait. Order of use of a monitor:
 *     monitor_enter(me, &m); while (!ready) if (!monitor_wait(me, &m, &reason)) {leave; return false;}
 *     ... change what it guards ...; monitor_wake(me, &m); monitor_leave(me, &m);
 * Between enter and leave: no stage, no advance, no other wait (in `stepped` it is free; in `free` a mutex). */
#ifndef SCHED_SCHED_H
#define SCHED_SCHED_H
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include "sched/task.h"

struct sched; struct str; struct trace_writer; struct trace_event; struct policy; struct cost_model; struct choosing;
struct fault_plan;

enum executor_kind { EXECUTOR_STEPPED, EXECUTOR_FREE };

/* One part of a run per module above that needs one (devices, lua, ...): set once, freed by its owner. */
enum sched_part { PART_DEVICES, PART_NAMES, PART_C10D, PART_MODULES, PART_LESSON, PART_PRODUCTS, PART_JOB, PART_NCCL, PART_COUNT };

/* What a debugger sees. Called after each event was appended, by the task that caused it. */
struct observer {
    void (*event)(struct observer *self, struct task *me, const struct trace_event *event, uint64_t seq);
};

struct sched_options {
    enum executor_kind   executor;
    struct trace_writer *writer;        /* borrowed */
    struct cost_model   *cost;          /* borrowed; the lesson may change it before work begins */
    const char          *policy;        /* "order", "random", "round-robin"; NULL: order */
    uint64_t             seed;          /* the policy's */
    const struct choosing *choosing;    /* stepped: other interleavings (chooser.h), borrowed; NULL: none */
    uint64_t             timeout_ps;    /* of waits that set none, `free` only; 0: 30 minutes */
    bool                 no_race_check; /* stepped checks by default */
    struct observer     *observer;      /* may be NULL */
    size_t               memory_limit;  /* bytes, of all tasks together; 0: none (account.h) */
    uint64_t             work_limit;    /* steps of work; 0: none */
    const struct fault_plan *faults;    /* copied; NULL: none (faults.h) */
    bool                 count_faults;  /* also where there is no plan, for who draws one (fault_count) */
};

struct sched *sched_new(const struct sched_options *options, char *why, size_t why_size); /* NULL: `why` */
/* Runs `run` as task 0 to its end, with everything it started. false: task 0 failed; its error in `error`. */
bool sched_run(struct sched *sched, bool (*run)(struct task *me, void *argument), void *argument, struct error *error);
void sched_free(struct sched *sched);

/* What everybody asks all the time; struct sched begins with it. */
/* Shows stages to a profiler that watches the process, as ranges of the calling thread: the kind's name, and the time of
 * its begin event in the trace (0: no trace). */
struct stage_ranges { void (*begin)(const char *name, uint64_t time); void (*end)(void); };

struct run_facts {
    const struct stage_ranges *ranges; /* NULL: nobody watches; outlives the run */
    bool stepped;
    bool chooses;   /* every point is counted: see chooser.h */
    bool threads;   /* more than one thread runs tasks, or did; never false again */
    atomic_bool faults; /* some are expected, or have struck; never false again */
};
static inline bool
sched_is_stepped(const struct sched *sched)
{
    return ((const struct run_facts *)(const void *)sched)->stepped;
}
void sched_show_stages(struct sched *sched, const struct stage_ranges *ranges);   /* before a second thread runs */
static inline bool
sched_has_threads(const struct sched *sched)
{
    return ((const struct run_facts *)(const void *)sched)->threads;
}

static inline bool
sched_has_faults(const struct sched *sched)
{
    const struct run_facts *facts = (const struct run_facts *)(const void *)sched;
    return __builtin_expect(atomic_load_explicit(&facts->faults, memory_order_relaxed), 0);
}

struct cost_model   *sched_cost(struct sched *sched);
struct trace_writer *sched_writer(struct sched *sched);
void                *sched_part(struct sched *sched, enum sched_part part);
void                 sched_set_part(struct sched *sched, enum sched_part part, void *value);
uint64_t             sched_timeout(const struct sched *sched);   /* ps: of waits that set none */
void                 sched_set_observer(struct sched *sched, struct observer *observer);
uint64_t             sched_now(struct task *me);   /* ps: virtual clock, or wall since the run's start */
uint64_t             sched_timeout_ps(const struct sched *sched);   /* of waits that set none */
uint32_t             sched_next_flow(struct task *me);    /* an id for trace_event.flow, never 0 */
uint64_t             sched_random(struct task *me);       /* from the policy's generator */

void sched_point(struct task *me);                    /* another task may get the baton here */
void sched_advance(struct task *me, uint64_t ps);     /* host work: moves me's clock on; `free`: nothing */
void sched_advance_to(struct task *me, uint64_t ps);  /* to a moment, if it lies ahead */
bool sched_is_stopping(const struct task *me);        /* the run is over, or was asked to end; or me is killed */
/* From any thread: waits, scripts and ops end with this error. The first reason stands. */
void sched_stop(struct sched *sched, enum error_kind kind, const char *message);
bool sched_was_stopped(const struct sched *sched);    /* so, whoever has heard of it */
bool sched_goes_on(struct task *me) __attribute__((warn_unused_result)); /* false: failed with the reason of sched_stop */

/* Lets `ps` pass, as time.sleep does: of virtual time in `stepped`, of real time in `free`. false: failed, the run is
 * over, or was asked to end. */
bool sched_sleep(struct task *me, uint64_t ps) __attribute__((warn_unused_result));

/* For the debugger: all tasks of `rank` get the first place among equals / are moved on by ps from now on. */
bool sched_prefer_rank(struct sched *sched, int rank);          /* false: that rank cannot run now */
bool sched_delay_rank(struct sched *sched, int rank, uint64_t ps);

/* What follows meets others in the order of its coming, not by name: explore tries other orders there. Where is a word
 * and three numbers that are the same in each run, no addresses. A scheduling point where a run has a chooser, nothing
 * elsewhere. */
enum touch {
    TOUCH_READ,     /* commutes with other reads */
    TOUCH_CHANGE,
    TOUCH_GIVE,     /* a message: the order counts if somebody takes from any source there */
    TOUCH_TAKE_ANY  /* he does */
};
void sched_touch_at(struct task *me, enum touch touch, const char *what, const int64_t where[3]);
static inline void
sched_touch(struct task *me, enum touch touch, const char *what, const int64_t where[3])
{
    if (__builtin_expect(((const struct run_facts *)(const void *)me->sched)->chooses, 0))
        sched_touch_at(me, touch, what, where);
}

struct monitor {
    pthread_mutex_t mutex;
    pthread_cond_t  cond;
    struct task    *first, *last; /* stepped: who waits, in order; `last` counts while there is a first */
    struct vclock   knows;      /* what the wakers and leavers knew */
    bool            ready;
    uint64_t        wakes;      /* free: how often it was woken, so that no wake is lost at the end of a slice */
};
bool monitor_init(struct monitor *monitor);           /* false: no memory */
void monitor_destroy(struct monitor *monitor);
void monitor_enter(struct task *me, struct monitor *monitor);
void monitor_leave(struct task *me, struct monitor *monitor);
bool monitor_wait(struct task *me, struct monitor *monitor, const struct wait_reason *reason)
    __attribute__((warn_unused_result));              /* false: failed (deadlock, timeout, stopping) */
void monitor_wake(struct task *me, struct monitor *monitor); /* all; their clocks rise to me's */

/* The wait whose slices had a `since` is over. In `free` alone. */
void sched_wait_over(struct task *me);

/* The other door to wait: for what happens outside of this run (a file, a socket), which nobody can wake us for. Lets
 * `ps` pass, then the caller looks again. In `stepped` that is virtual time, in which the others run; where they only
 * poll, too, as much real time passes, which no trace shows. In no monitor. false: failed, the run is over. */
bool sched_poll(struct task *me, uint64_t ps, const struct wait_reason *reason) __attribute__((warn_unused_result));

/* Something with a clock but without a stack: a stream. `stepped` fires it when it is the earliest. */
struct sched_source {
    uint64_t clock;
    size_t   place;   /* in the heap + 1; 0: not armed */
    uint64_t tie;
    void   (*fire)(struct task *me, struct sched_source *self); /* `me`: whoever lends its stack; must not wait */
};
void sched_arm(struct sched *sched, struct sched_source *source, uint64_t clock); /* clock >= now; false on no memory is fatal: fires at once */
void sched_disarm(struct sched *sched, struct sched_source *source);
/* Another way to get on: in `stepped`, waits until `source` has nothing before `clock` (host synchronisation). */

/* Why nobody goes on, in words: asked of the explainer if there is one and it knows more, else the wait-for graph, one
 * sentence per waiting task and a last one that says why. */
enum stop_cause { STOP_DEADLOCK, STOP_TIMEOUT, STOP_INTERRUPT };
struct stop { enum stop_cause cause; uint64_t limit_ps; };   /* limit_ps: of the wait that took too long */
struct explainer {
    void  *context;
    bool (*explain)(void *context, const struct stop *stop, struct str *out);   /* false: it knows nothing of it */
};
/* Borrowed; NULL: none. Answers the one before. */
const struct explainer *sched_set_explainer(struct sched *sched, const struct explainer *explainer);
unsigned sched_errors(const struct sched *sched); /* how many tasks have recorded */
uint64_t sched_time(const struct sched *sched);   /* ps: of whoever ran last, or of the wall; needs no task */
void sched_explain(struct sched *sched, const struct stop *stop, struct str *out); /* in no wait of the registry */
void sched_announce_deadlock(struct task *me, int waiting, const char *text);   /* how many wait in vain, and why */
/* `free`: notes since when each task has been where it is, for who explains. From any thread, now and then. */
void sched_look_at_lines(struct sched *sched);
/* Visits all living tasks in order of their number (debugger's `info tasks`). */
void sched_each_task(struct sched *sched, void (*visit)(void *context, const struct task *task), void *context);

/* What the engine warns of, for who tells the lesson's words; NULL: for nobody. */
void sched_set_warning(struct sched *sched, void (*warn)(struct task *me, const char *text));
void task_warn(struct task *me, const char *text);

/* A new actor for the race checker (streams); task actors are made by task_spawn. false: no memory. */
bool sched_actor_new(struct sched *sched, struct actor *actor, const struct actor *parent);
/* `told`: it has done nothing since it last told somebody what it knows. */
void sched_actor_free(struct sched *sched, struct actor *actor, bool told);
#endif
