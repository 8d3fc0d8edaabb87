/* Futures: see future.h. All of one rank share a monitor and a line of those that are done and have callbacks. */
#include "c10d/future.h"

#include <stdio.h>
#include <stdlib.h>
#include "c10d/group.h"
#include "device/cells.h"
#include "device/claims.h"
#include "sched/stage.h"

struct futures {
    struct monitor        monitor;     /* of what follows and of all its futures */
    int                   references;  /* the owner's, and one of each future */
    struct futures_runner runner;
    struct task          *server;      /* NULL: nobody has awaited a work's future */
    struct future        *first, *last;
    int                   held;
    int64_t               made;
    bool                  stopping;
    struct error          broken;      /* callbacks run no more */
};

struct future {
    struct future       *next;         /* in the line */
    struct futures      *all;
    int                  references;
    int64_t              number;
    bool                 done, awaited, has_work;
    struct claimer      *claimer;      /* what its work has in flight; NULL: it has no work. A reference */
    uint64_t             done_at;
    struct error        *error;        /* NULL: none */
    struct work_listener listener;
};

/* A future that found no memory for its error. */
static const struct error no_memory = { .kind = E_MEMORY, .message = "out of memory for a future's error" };

/* ---- made and let go ---- */

struct futures *
futures_new(struct task *me, const struct futures_runner *runner)
{
    struct futures *futures = calloc(1, sizeof *futures);
    if (futures == NULL || !monitor_init(&futures->monitor)) {
        free(futures);
        return failed_null(me, E_MEMORY, "out of memory for futures");
    }
    futures->references = 1;
    futures->runner     = *runner;
    return futures;
}

static void
futures_drop(struct task *me, struct futures *futures)
{
    monitor_enter(me, &futures->monitor);
    bool last = --futures->references == 0;
    monitor_leave(me, &futures->monitor);
    if (!last)
        return;
    monitor_destroy(&futures->monitor);
    free(futures);
}

struct future *
future_new(struct task *me, struct futures *futures)
{
    struct future *future = host_take(me, sizeof *future);
    if (future == NULL)
        return NULL;
    future->all        = futures;
    future->references = 1;
    monitor_enter(me, &futures->monitor);
    futures->references++;
    future->number = futures->made++;
    monitor_leave(me, &futures->monitor);
    return future;
}

struct future *
future_ref(struct task *me, struct future *future)
{
    monitor_enter(me, &future->all->monitor);
    future->references++;
    monitor_leave(me, &future->all->monitor);
    return future;
}

void
future_unref(struct task *me, void *object)
{
    struct future  *future = object;
    struct futures *all    = future->all;
    monitor_enter(me, &all->monitor);
    bool last = --future->references == 0;
    monitor_leave(me, &all->monitor);
    if (!last)
        return;
    claimer_unref(me, future->claimer);
    if (future->error != &no_memory)
        host_return(me, future->error, sizeof *future->error);
    host_return(me, future, sizeof *future);
    futures_drop(me, all);
}

int64_t
future_number(const struct future *future)
{
    return future->number;
}

bool
future_has_work(const struct future *future)
{
    return future->has_work;
}

/* ---- the end of one ---- */

/* In the monitor: it stands in the line, which holds a reference. */
static void
line_up(struct futures *all, struct future *future)
{
    future->references++;
    future->next = NULL;
    if (all->last != NULL)
        all->last->next = future;
    else
        all->first = future;
    all->last = future;
}

static struct future *
line_next(struct futures *all)
{
    struct future *future = all->first;
    if (future != NULL)
        all->first = future->next;
    if (all->first == NULL)
        all->last = NULL;
    return future;
}

/* The host's pool may say no: then the error is one that says so. */
static struct error *
copy_error(struct task *me, const struct error *error)
{
    struct error *copy = cell_take(me, sizeof *copy);
    if (copy == NULL)
        return (struct error *)&no_memory;
    *copy = *error;
    return copy;
}

/* Who asks whether it is done, and its end. */
static void
future_meets(struct task *me, const struct future *future, enum touch touch)
{
    sched_touch(me, touch, "future", (const int64_t[3]){ me->rank, future->number });
}

bool
future_finish(struct task *me, struct future *future, const struct error *error)
{
    struct futures *all  = future->all;
    struct error   *copy = error != NULL ? copy_error(me, error) : NULL;
    future_meets(me, future, TOUCH_CHANGE);
    monitor_enter(me, &all->monitor);
    bool ended = future->done;
    if (!ended) {
        future->done    = true;
        future->done_at = sched_now(me);
        future->error   = copy;
        if (future->awaited && !all->stopping)
            line_up(all, future);
        monitor_wake(me, &all->monitor);
    }
    monitor_leave(me, &all->monitor);
    if (ended && copy != NULL && copy != &no_memory)
        host_return(me, copy, sizeof *copy);
    return !ended;
}

static void
finish_with_work(struct task *me, void *object, const struct error *error)
{
    future_finish(me, object, error);
    future_unref(me, object);
}

void
future_of_work(struct task *me, struct future *future, struct work *work)
{
    future->has_work = true;
    future->claimer  = claimer_ref(work_claimer(work));
    future->listener = (struct work_listener){ .done = finish_with_work, .context = future_ref(me, future) };
    work_when_done(me, work, &future->listener);
}

/* Who hears that its work has ended has waited for it. */
bool
future_done(struct task *me, const struct future *future)
{
    future_meets(me, future, TOUCH_READ);
    monitor_enter(me, &future->all->monitor);
    bool done = future->done;
    monitor_leave(me, &future->all->monitor);
    if (done && future->claimer != NULL)
        claimer_waited(future->claimer);
    return done;
}

const struct error *
future_error(const struct future *future)
{
    return future->error;
}

/* ---- callbacks of works' futures ---- */

/* What went wrong here went wrong in no callback: nobody runs the others. */
static void
run_callbacks(struct task *me, struct futures *all, struct future *future)
{
    size_t mark = scope_mark(me);
    if (future->claimer != NULL)
        claimer_waited(future->claimer);
    if (!all->runner.run(me, all->runner.context, future)) {
        monitor_enter(me, &all->monitor);
        if (all->broken.kind == E_NONE)
            all->broken = me->error;
        monitor_wake(me, &all->monitor);
        monitor_leave(me, &all->monitor);
    }
    scope_release(me, mark);
    future_unref(me, future);
}

static bool
serve_callbacks(struct task *me, void *futures)
{
    struct futures    *all    = futures;
    struct wait_reason reason = { .what = "futures", .sequence = -1, .peer = -1, .idle = true };
    bool               waits  = true;
    while (waits && !task_failed(me)) {
        monitor_enter(me, &all->monitor);
        while (all->first == NULL && !all->stopping && waits)
            waits = monitor_wait(me, &all->monitor, &reason);
        struct future *future = line_next(all);
        monitor_leave(me, &all->monitor);
        if (future == NULL)
            break;
        run_callbacks(me, all, future);
    }
    return !task_failed(me);
}

static bool
start_server(struct task *me, struct futures *all)
{
    char name[32];
    if (all->server != NULL)
        return true;
    snprintf(name, sizeof name, "r%d futures", me->rank);
    struct task_options options = { .name = name, .rank = TASK_INHERIT, .device = TASK_INHERIT, .lua = true,
                                    .idle_ok = true };
    struct task *server = task_spawn(me, &options, serve_callbacks, all);
    monitor_enter(me, &all->monitor);
    all->server = server;
    monitor_leave(me, &all->monitor);
    return server != NULL;
}

enum future_answer
future_await_run(struct task *me, struct future *future)
{
    struct futures *all = future->all;
    if (task_failed(me) || !start_server(me, all))
        return FUTURE_FAILED;
    monitor_enter(me, &all->monitor);
    bool done = future->done;
    future->awaited = !done;
    monitor_leave(me, &all->monitor);
    return done ? FUTURE_DONE : FUTURE_AWAITED;
}

/* ---- waiting ---- */

/* In the monitor; one turn of a wait. The task of the callbacks may be the one that the future waits for. */
static bool
await_turn(struct task *me, struct futures *all)
{
    struct wait_reason reason = { .what = "a future", .sequence = -1, .peer = -1 };
    if (all->broken.kind != E_NONE) {
        struct error broken = all->broken;
        task_take_error(me, &broken);
        return false;
    }
    if (me != all->server || all->first == NULL)
        return monitor_wait(me, &all->monitor, &reason);
    struct future *next = line_next(all);
    monitor_leave(me, &all->monitor);
    run_callbacks(me, all, next);
    monitor_enter(me, &all->monitor);
    return !task_failed(me);
}

/* The host waits until somebody has ended the future: a work, a callback, set_result. */
bool
future_wait(struct task *me, struct future *future)
{
    STAGE(me, c10d_future_wait, future->number);
    struct futures *all  = future->all;
    bool            goes = !task_failed(me);
    monitor_enter(me, &all->monitor);
    while (!future->done && goes)
        goes = await_turn(me, all);
    bool done = goes && future->done;
    monitor_leave(me, &all->monitor);
    if (done)
        sched_advance_to(me, future->done_at);
    if (done && future->claimer != NULL)
        claimer_waited(future->claimer);
    return done;
}

/* ---- the end of all ---- */

void
futures_hold(struct task *me, struct futures *futures)
{
    monitor_enter(me, &futures->monitor);
    futures->held++;
    futures->references++;
    monitor_leave(me, &futures->monitor);
}

void
futures_release(struct task *me, struct futures *futures)
{
    monitor_enter(me, &futures->monitor);
    futures->held--;
    monitor_wake(me, &futures->monitor);
    monitor_leave(me, &futures->monitor);
    futures_drop(me, futures);
}

/* Also in a task that has failed: whoever visits the script must be gone before the script is. */
void
futures_close(struct task *me, struct futures *futures)
{
    struct wait_reason reason = { .what = "join", .sequence = -1, .peer = -1, .join = true };
    struct error       saved  = me->error, discarded;
    me->error.kind = E_NONE;
    bool waits = true;
    monitor_enter(me, &futures->monitor);
    while (futures->held > 0 && waits)
        waits = monitor_wait(me, &futures->monitor, &reason);
    futures->stopping = true;
    monitor_wake(me, &futures->monitor);
    monitor_leave(me, &futures->monitor);
    if (futures->server != NULL)
        task_join(me, futures->server, &discarded);
    for (struct future *left; (left = line_next(futures)) != NULL;)
        future_unref(me, left);
    if (saved.kind != E_NONE)
        me->error = saved;
    futures_drop(me, futures);
}
