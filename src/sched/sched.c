/* What everybody asks of a run: its clock, its monitors, its actors. What differs between the executors goes through
 * their table. */
#include "sched/sched.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "base/rng.h"
#include "base/vec.h"
#include "sched/faults.h"
#include "sched/internal.h"

/* Beyond this many actors vector clocks would cost more than they tell: the checker goes quiet for the run. */
enum { MAX_ACTORS = 256 };

struct cost_model *
sched_cost(struct sched *sched)
{
    return sched->cost;
}

struct trace_writer *
sched_writer(struct sched *sched)
{
    return sched->writer;
}

void *
sched_part(struct sched *sched, enum sched_part part)
{
    return sched->parts[part];
}

void
sched_set_part(struct sched *sched, enum sched_part part, void *value)
{
    sched->parts[part] = value;
}

uint64_t
sched_timeout(const struct sched *sched)
{
    return sched->timeout_ps;
}

void
sched_set_observer(struct sched *sched, struct observer *observer)
{
    sched->observer = observer;
}

uint64_t
sched_now(struct task *me)
{
    return me->sched->executor->now(me);
}

uint64_t
sched_timeout_ps(const struct sched *sched)
{
    return sched->timeout_ps;
}

uint32_t
sched_next_flow(struct task *me)
{
    return atomic_fetch_add(&me->sched->next_flow, 1) + 1;
}

uint64_t
sched_random(struct task *me)
{
    pthread_mutex_lock(&me->sched->registry);
    uint64_t number = splitmix(&me->sched->random);
    pthread_mutex_unlock(&me->sched->registry);
    return number;
}

void
sched_point(struct task *me)
{
    me->sched->executor->point(me);
    if (sched_has_faults(me->sched))
        fault_point(me);
}

void
sched_touch_at(struct task *me, enum touch touch, const char *what, const int64_t where[3])
{
    uint64_t key = hash_bytes(hash_bytes(0, what, strlen(what)), where, 3 * sizeof where[0]);
    me->sched->executor->touch(me, key, touch);
}

void
sched_advance(struct task *me, uint64_t ps)
{
    if (sched_is_stepped(me->sched))
        me->clock = me->clock > UINT64_MAX / 2 ? me->clock : me->clock + ps;
    sched_point(me);
}

void
sched_advance_to(struct task *me, uint64_t ps)
{
    if (sched_is_stepped(me->sched) && ps > me->clock)
        me->clock = ps;
    sched_point(me);
}

bool
sched_is_stopping(const struct task *me)
{
    return task_is_killed(me) || atomic_load_explicit(&me->sched->stopping, memory_order_relaxed);
}

void
sched_stop(struct sched *sched, enum error_kind kind, const char *message)
{
    pthread_mutex_lock(&sched->registry);
    if (sched->stop_kind == E_NONE) {
        snprintf(sched->stop_message, sizeof sched->stop_message, "%s", message);
        atomic_store(&sched->stop_kind, (int)kind);
    }
    pthread_mutex_unlock(&sched->registry);
    atomic_store(&sched->stopping, true);
}

bool
sched_was_stopped(const struct sched *sched)
{
    return atomic_load_explicit(&sched->stop_kind, memory_order_acquire) != E_NONE;
}

bool
sched_goes_on(struct task *me)
{
    if (task_is_killed(me))
        return task_die(me);
    int kind = atomic_load_explicit(&me->sched->stop_kind, memory_order_acquire);
    return kind == E_NONE || failed(me, (enum error_kind)kind, "%s", me->sched->stop_message);
}

void
sched_each_task(struct sched *sched, void (*visit)(void *context, const struct task *task), void *context)
{
    pthread_mutex_lock(&sched->registry);
    for (struct machine *machine = sched->first; machine != NULL; machine = machine->next)
        visit(context, &machine->task);
    pthread_mutex_unlock(&sched->registry);
}

/* ---- monitors ---- */

/* A monitor is held for so short that it is better to look again a few times than to sleep. */
static void
mutex_init_short(pthread_mutex_t *mutex)
{
    pthread_mutexattr_t attributes;
    pthread_mutexattr_init(&attributes);
#ifdef __GLIBC__
    pthread_mutexattr_settype(&attributes, PTHREAD_MUTEX_ADAPTIVE_NP);
#endif
    pthread_mutex_init(mutex, &attributes);
    pthread_mutexattr_destroy(&attributes);
}

bool
monitor_init(struct monitor *monitor)
{
    *monitor = (struct monitor){ .ready = true };
    pthread_condattr_t attributes;
    pthread_condattr_init(&attributes);
    pthread_condattr_setclock(&attributes, CLOCK_MONOTONIC);
    mutex_init_short(&monitor->mutex);
    pthread_cond_init(&monitor->cond, &attributes);
    pthread_condattr_destroy(&attributes);
    return true;
}

void
monitor_destroy(struct monitor *monitor)
{
    if (!monitor->ready)
        return;
    pthread_mutex_destroy(&monitor->mutex);
    pthread_cond_destroy(&monitor->cond);
    vclock_free(&monitor->knows);
    monitor->ready = false;
}

void
monitor_enter(struct task *me, struct monitor *monitor)
{
    me->sched->executor->enter(me, monitor);
}

void
monitor_leave(struct task *me, struct monitor *monitor)
{
    me->sched->executor->leave(me, monitor);
}

bool
monitor_wait(struct task *me, struct monitor *monitor, const struct wait_reason *reason)
{
    return me->sched->executor->wait(me, monitor, reason);
}

void
monitor_wake(struct task *me, struct monitor *monitor)
{
    me->sched->executor->wake(me, monitor);
}

bool
sched_poll(struct task *me, uint64_t ps, const struct wait_reason *reason)
{
    me->sched->executor->poll(me, ps, reason);
    if (!sched_is_stopping(me))
        return true;
    return sched_goes_on(me) && failed(me, E_STOPPED, "the run is over");
}

bool
sched_sleep(struct task *me, uint64_t ps)
{
    if (sched_is_stepped(me->sched))
        sched_advance(me, ps);
    else
        me->sched->executor->late(me, ps);
    if (sched_is_stepped(me->sched) || !sched_is_stopping(me))
        return !task_failed(me);
    return sched_goes_on(me) && failed(me, E_STOPPED, "the run is over");
}

/* ---- warnings ---- */

void
sched_set_warning(struct sched *sched, void (*warn)(struct task *me, const char *text))
{
    __atomic_store_n(&sched->warn, warn, __ATOMIC_RELEASE); /* each rank's script sets the same */
}

void
sched_show_stages(struct sched *sched, const struct stage_ranges *ranges)
{
    sched->facts.ranges = ranges;
}

void
task_warn(struct task *me, const char *text)
{
    void (*warn)(struct task *me, const char *text) = __atomic_load_n(&me->sched->warn, __ATOMIC_ACQUIRE);
    if (warn != NULL && !task_failed(me))
        warn(me, text);
}

/* ---- actors ---- */

static void
races_off(struct sched *sched)
{
    sched->races = false;
    for (size_t i = 0; i < sched->actor_count; i++)
        sched->actors[i]->on = false;
}

/* A seat may be taken again by somebody who knows all that its last holder did: then no order is made up. */
static uint32_t
take_seat(struct sched *sched, const struct actor *parent)
{
    for (size_t i = 0; parent != NULL && i < sched->free_count; i++) {
        struct actor_seat seat = sched->free_seats[i];
        if (!actor_knows(parent, (struct epoch){ seat.index, seat.tick }))
            continue;
        sched->free_seats[i] = sched->free_seats[--sched->free_count];
        return seat.index;
    }
    return sched->next_seat++;
}

bool
sched_actor_new(struct sched *sched, struct actor *actor, const struct actor *parent)
{
    *actor = (struct actor){ 0 };
    if (!sched->races)
        return true;
    if (!vec_room(&sched->actors, &sched->actor_room, sched->actor_count + 1, sizeof *sched->actors))
        return false;
    actor->index = take_seat(sched, parent);
    actor->on    = true;
    if ((parent != NULL && !vclock_join(&actor->knows, &parent->knows)) || !actor_tick(actor)) {
        vclock_free(&actor->knows);
        actor->on = false;
        return false;
    }
    sched->actors[sched->actor_count++] = actor;
    if (sched->next_seat > MAX_ACTORS)
        races_off(sched);
    return true;
}

void
sched_actor_free(struct sched *sched, struct actor *actor, bool told)
{
    for (size_t i = 0; i < sched->actor_count; i++) {
        if (sched->actors[i] != actor)
            continue;
        sched->actors[i] = sched->actors[--sched->actor_count];
        break;
    }
    struct epoch last = actor_epoch(actor);
    last.tick -= told; /* nobody can ever know of the tick that follows the telling */
    if (actor->on && vec_room(&sched->free_seats, &sched->free_room, sched->free_count + 1, sizeof *sched->free_seats))
        sched->free_seats[sched->free_count++] = (struct actor_seat){ last.index, last.tick };
    vclock_free(&actor->knows);
}
