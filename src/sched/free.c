/* The free executor: a thread per task, the wall clock. A monitor is a mutex and a condition; waits look up every
 * 50 ms whether the run is stopping. Nothing here is deterministic but the numbers. */
#include <errno.h>
#include <stdlib.h>
#include "sched/faults.h"
#include "sched/internal.h"
#include "sched/stage.h"

enum { SLICE_NS = 50 * 1000 * 1000, STACK_BYTES_FREE = 2 * 1024 * 1024 };

static uint64_t
since(const struct timespec *start)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    int64_t ns = (int64_t)(now.tv_sec - start->tv_sec) * 1000000000 + (now.tv_nsec - start->tv_nsec);
    return (uint64_t)ns * 1000;
}

static uint64_t
free_now(struct task *me)
{
    return since(&me->sched->started);
}

static void
free_point(struct task *me)
{
    (void)me;
}

static void *
thread_body(void *argument)
{
    struct machine *machine = argument;
    machine_body(machine);
    return NULL;
}

static bool
free_start(struct task *me, struct machine *child)
{
    if (!me->sched->facts.threads)   /* before the first one lives: later nobody writes it */
        me->sched->facts.threads = true;
    pthread_attr_t attributes;
    pthread_attr_init(&attributes);
    pthread_attr_setstacksize(&attributes, STACK_BYTES_FREE);
    child->has_thread = pthread_create(&child->thread, &attributes, thread_body, child) == 0;
    pthread_attr_destroy(&attributes);
    return child->has_thread;
}

static void
free_enter(struct task *me, struct monitor *monitor)
{
    (void)me;
    pthread_mutex_lock(&monitor->mutex);
}

static void
free_leave(struct task *me, struct monitor *monitor)
{
    (void)me;
    pthread_mutex_unlock(&monitor->mutex);
}

static void
note_waiting(struct task *me, const struct wait_reason *reason)
{
    struct machine *machine = machine_of(me);
    pthread_mutex_lock(&me->sched->registry);
    if (reason != NULL)
        machine->reason = *reason;
    me->waiting = reason != NULL ? &machine->reason : NULL;
    me->since   = reason == NULL ? 0 : reason->since > 0 ? reason->since : free_now(me);
    pthread_mutex_unlock(&me->sched->registry);
}

/* One turn of the caller's loop: answers true after any wake-up, its own or a stranger's. */
static bool
free_wait(struct task *me, struct monitor *monitor, const struct wait_reason *reason)
{
    struct sched *sched = me->sched;
    uint64_t      limit = reason->timeout_ps != 0 ? reason->timeout_ps : sched->timeout_ps;
    uint64_t      begin = reason->since > 0 ? reason->since : free_now(me), wakes = monitor->wakes;
    int           state = ETIMEDOUT;
    bool          late  = false, due = false;
    note_waiting(me, reason);
    while (monitor->wakes == wakes && !late && !due && (reason->join || !sched_is_stopping(me))) {
        struct timespec until;
        clock_gettime(CLOCK_MONOTONIC, &until);
        uint64_t now = free_now(me), left = reason->until > now ? (reason->until - now) / 1000 + 1 : 0;
        until.tv_nsec += reason->until > 0 && left < SLICE_NS ? (long)left : SLICE_NS;
        if (until.tv_nsec >= 1000000000) {
            until.tv_nsec -= 1000000000;
            until.tv_sec++;
        }
        state = pthread_cond_timedwait(&monitor->cond, &monitor->mutex, &until);
        late  = state == ETIMEDOUT && !reason->idle && !reason->join && free_now(me) - begin >= limit;
        due   = reason->until > 0 && free_now(me) >= reason->until;
    }
    bool woken = monitor->wakes != wakes || (due && !late);
    bool ok    = woken || !late || sched_timed_out(me, limit);
    if (reason->since == 0)
        note_waiting(me, NULL);
    if (ok && !woken && !reason->join)
        return sched_goes_on(me) && failed(me, E_STOPPED, "the run is over");
    return ok;
}

void
sched_wait_over(struct task *me)
{
    if (me->waiting != NULL)
        note_waiting(me, NULL);
}

static void
free_wake(struct task *me, struct monitor *monitor)
{
    (void)me;
    monitor->wakes++;
    pthread_cond_broadcast(&monitor->cond);
}

static void
sleep_slice(uint64_t ps)
{
    uint64_t ns = ps / 1000 < SLICE_NS ? ps / 1000 : SLICE_NS;
    nanosleep(&(struct timespec){ 0, (long)ns }, NULL);
}

static void
free_poll(struct task *me, uint64_t ps, const struct wait_reason *reason)
{
    note_waiting(me, reason);
    sleep_slice(ps);
    if (reason->since == 0)
        note_waiting(me, NULL);
}

/* A slice at a time, so that it hears soon that the run ends. */
static void
free_late(struct task *me, uint64_t ps)
{
    static const struct wait_reason reason = { .what = "sleep", .sequence = -1, .peer = -1 };
    note_waiting(me, &reason);
    for (uint64_t now = free_now(me), end = now + ps; now < end && !sched_is_stopping(me); now = free_now(me))
        sleep_slice(end - now);
    note_waiting(me, NULL);
}

/* Who waits looks up by himself. */
static void
free_killed(struct sched *sched, int rank)
{
    (void)sched;
    (void)rank;
}

static void
free_finished(struct machine *machine)
{
    (void)machine;
}

static void
free_reap(struct machine *machine)
{
    if (machine->has_thread)
        pthread_join(machine->thread, NULL);
    machine->has_thread = false;
}

static void
free_drain(struct task *me)
{
    struct sched *sched = me->sched;
    for (;;) {
        pthread_mutex_lock(&sched->registry);
        struct machine *machine = sched->first;
        if (machine == machine_of(me))
            machine = machine->next;
        pthread_mutex_unlock(&sched->registry);
        if (machine == NULL)
            return;
        free_reap(machine);
        machine_free(machine);
    }
}

const struct executor executor_free = {
    .name = "free",    .start = free_start, .point = free_point, .now = free_now,           .enter = free_enter,
    .leave = free_leave, .wait = free_wait, .wake = free_wake,   .finished = free_finished, .reap = free_reap,
    .drain = free_drain, .poll = free_poll, .late = free_late, .killed = free_killed,
};
