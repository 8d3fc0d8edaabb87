/* The stepped executor: one OS thread, fibers, a virtual clock. Who has the earliest clock goes on; ties as the policy
 * says. A task keeps the baton until it waits or somebody else is earlier at a scheduling point.
 *
 * A deadlock is known when nothing is ready and no stream has anything due: then the waits of all who are stuck
 * (leaves) answer false, their stages close, and the joins above them end by themselves. */
#include <assert.h>
#include <stdlib.h>
#include "sched/faults.h"
#include "sched/internal.h"
#include "sched/stage.h"

/* A stack costs only the pages that were touched. Lua's parser and gsub need the larger one. */
enum { STACK_BYTES = 256 * 1024, STACK_BYTES_LUA = 1024 * 1024 };

static uint64_t
next_tie(struct machine *machine)
{
    struct policy *policy = &machine->task.sched->policy;
    uint64_t       tie    = policy->tie(policy, machine->task.number) + 2;
    return machine->preferred && machine->task.clock == machine->preferred_at ? 1 : tie;
}

static struct heap_item
item_of(struct machine *machine, uint64_t tie)
{
    return (struct heap_item){ machine->task.clock, tie, machine->task.number, { .machine = machine } };
}

/* Room for everybody who can be ready was reserved when he was started. */
static void
make_ready(struct machine *machine)
{
    machine->state = MACHINE_READY;
    machine->task.clock += machine->pending_delay;
    machine->pending_delay = 0;
    heap_push(machine->task.sched, item_of(machine, next_tie(machine)));
}

static void
fire(struct sched *sched, struct sched_source *source)
{
    struct task *lender = &sched->source_task;
    if (source->clock < sched->now)
        source->clock = sched->now; /* others were chosen before it */
    lender->clock       = source->clock;
    source->fire(lender, source);
    scope_release(lender, 0);
    if (task_failed(lender) && sched->main != NULL) {
        task_take_error(&sched->main->task, &lender->error);
        task_clear_error(lender);
    }
}

static void
fiber_entry(void *argument)
{
    struct machine *machine = argument;
    struct sched   *sched   = machine->task.sched;
    fiber_entered(&machine->fiber, sched->leaving != NULL ? &sched->leaving->fiber : NULL);
    machine_body(machine);
    sched->executor->finished(machine);
}

static void
pass_baton(struct machine *from, struct machine *to)
{
    if (from == to) {
        to->state = MACHINE_RUNNING;
        return;
    }
    struct sched *sched = from->task.sched;
    sched->leaving      = from;
    sched->running      = to;
    to->state           = MACHINE_RUNNING;
    fiber_switch(&from->fiber, &to->fiber, from->state == MACHINE_ENDED);
}

static bool
is_stuck(const struct machine *machine, bool joins_too)
{
    return machine->state == MACHINE_WAITING && !machine->wait_broken && !machine->reason.idle &&
           (joins_too || !machine->reason.join);
}

static void
unlink_waiter(struct machine *machine)
{
    struct monitor *monitor  = machine->queue;
    struct machine *waiter   = (struct machine *)monitor->first, *previous = NULL;
    for (; waiter != machine; waiter = waiter->next_waiter)
        previous = waiter;
    if (previous == NULL)
        monitor->first = (struct task *)machine->next_waiter;
    else
        previous->next_waiter = machine->next_waiter;
    if (machine->next_waiter == NULL)
        monitor->last = (struct task *)previous;
    machine->queue = NULL;
}

static void
break_wait(struct machine *machine)
{
    unlink_waiter(machine);
    if (machine->task.clock < machine->task.sched->now)
        machine->task.clock = machine->task.sched->now;
    machine->wait_broken = true;
    make_ready(machine);
}

/* Who joins a task that is stuck itself, or was until now, learns more from that task's end; and what it lent the task
 * must stay until then. */
static bool
may_hope(const struct machine *machine)
{
    if (!machine->reason.join || machine->reason.holder == NULL)
        return false;
    struct machine *holder = machine_of((struct task *)machine->reason.holder);
    return holder->state == MACHINE_READY || is_stuck(holder, true);
}

/* Breaks the waits of the leaves; of joins only when nothing else is left, the innermost first. Answers how many. */
static int
break_waits(struct sched *sched)
{
    enum { LEAVES, INNERMOST_JOINS, ALL_JOINS };
    int broken = 0;
    for (int round = LEAVES; round <= ALL_JOINS && broken == 0; round++) {
        for (struct machine *machine = sched->first; machine != NULL; machine = machine->next) {
            if (!is_stuck(machine, round != LEAVES) || (round == INNERMOST_JOINS && may_hope(machine)))
                continue;
            break_wait(machine);
            broken++;
        }
    }
    return broken;
}

/* Nothing can go on: who waits for whom. */
static void
explain_deadlock(struct sched *sched, struct task *me)
{
    int waiting = 0;
    for (struct machine *machine = sched->first; machine != NULL; machine = machine->next)
        waiting += is_stuck(machine, true);
    str_clear(&sched->report);
    sched_explain(sched, &(struct stop){ .cause = STOP_DEADLOCK }, &sched->report);
    sched->deadlocks++;
    if (me->clock < sched->now)
        me->clock = sched->now;
    sched_announce_deadlock(me, waiting, str_text(&sched->report));
}

/* Nothing is ready. Somebody must be stuck, or the run is over and idle servers are told to end. */
static void
nobody_can_run(struct sched *sched, struct task *me)
{
    if (me->clock > sched->now)
        sched->now = me->clock;
    if (!atomic_load(&sched->stopping))
        explain_deadlock(sched, me);
    if (break_waits(sched) > 0)
        return;
    for (struct machine *machine = sched->first; machine != NULL; machine = machine->next)
        if (machine->state == MACHINE_WAITING && !machine->wait_broken)
            break_wait(machine);
    assert(sched->heap_count > sched->limits);
}

/* ---- with a chooser ---- */

/* Who was picked goes on at `moment`: what streams and alarms do until then comes first. */
static void
fire_until(struct sched *sched, uint64_t moment)
{
    for (;;) {
        size_t due = 0; /* a place: index + 1 */
        for (size_t i = 0; i < sched->heap_count; i++) {
            const struct heap_item *item = &sched->heap[i];
            if (heap_item_is_source(*item) && item->clock <= moment &&
                (due == 0 || item->clock < sched->heap[due - 1].clock))
                due = i + 1;
        }
        if (due == 0)
            break;
        struct sched_source *source = sched->heap[due - 1].source;
        heap_remove(sched, due);
        sched->now = source->clock > sched->now ? source->clock : sched->now;
        fire(sched, source);
    }
    sched->now = moment;
}

/* The chooser's pick, out of the heap; a clock that lies behind is held up until now. */
static struct machine *
take_chosen(struct machine *from)
{
    struct sched *sched = from->task.sched;
    for (;;) {
        if (sched->heap_count == sched->limits)
            nobody_can_run(sched, &from->task);
        if (!heap_item_is_source(sched->heap[0]))
            break;
        struct heap_item next = heap_pop(sched);
        sched->now            = next.clock > sched->now ? next.clock : sched->now;
        fire(sched, next.source);
    }
    struct machine *next = chooser_pick(sched->chooser, sched, from);
    heap_remove(sched, (size_t)(heap_find(sched, next) - sched->heap) + 1);
    if (next->task.clock < sched->now)
        next->task.clock = sched->now;
    fire_until(sched, next->task.clock);
    return next;
}

static void
chosen_point(struct machine *machine)
{
    machine->state = MACHINE_READY;
    heap_push(machine->task.sched, item_of(machine, next_tie(machine)));
    pass_baton(machine, take_chosen(machine));
}

static void
stepped_touch(struct task *me, uint64_t key, enum touch touch)
{
    struct machine *machine = machine_of(me);
    if (machine == NULL)
        return;
    machine->choice.stands = chooser_stands(me->sched->chooser, machine, key, touch);
    machine->choice.touch  = touch;
    machine->choice.key    = key;
    chosen_point(machine);
    machine->choice.stands = false;
}

/* ---- who goes on ---- */

/* Gives the baton to whoever is next; answers when `me` has it again. `me` is waiting, ready or ended. */
static void
dispatch(struct machine *from)
{
    struct sched *sched = from->task.sched;
    if (sched->chooser != NULL) {
        pass_baton(from, take_chosen(from));
        return;
    }
    for (;;) {
        if (sched->heap_count == sched->limits)
            nobody_can_run(sched, &from->task);
        struct heap_item next = heap_pop(sched);
        sched->now            = next.clock;
        if (heap_item_is_source(next)) {
            fire(sched, next.source);
            continue;
        }
        pass_baton(from, next.machine);
        return;
    }
}

static bool
stepped_start(struct task *me, struct machine *child)
{
    struct sched *sched = me->sched;
    if (!heap_reserve(sched, sched->heap_count + (size_t)sched->living + 1) ||
        !fiber_start(&child->fiber, child->lua ? STACK_BYTES_LUA : STACK_BYTES, fiber_entry, child))
        return false;
    if (sched->chooser != NULL)
        chooser_meet(sched->chooser, child);
    make_ready(child);
    return true;
}

static void
stepped_point(struct task *me)
{
    struct sched   *sched   = me->sched;
    struct machine *machine = machine_of(me);
    if (machine == NULL)
        return; /* a source that fires */
    me->clock += machine->pending_delay;
    machine->pending_delay = 0;
    if (sched->chooser != NULL) {
        chosen_point(machine);
        return;
    }
    while (sched->heap_count > 0) {
        const struct heap_item *top = &sched->heap[0];
        if (top->clock > me->clock)
            break;
        uint64_t tie = next_tie(machine);
        if (top->clock == me->clock && top->tie > tie)
            break;
        struct heap_item next = heap_pop(sched);
        sched->now            = next.clock;
        if (heap_item_is_source(next)) {
            fire(sched, next.source);
            continue;
        }
        machine->state = MACHINE_READY;
        heap_push(sched, item_of(machine, tie));
        pass_baton(machine, next.machine);
        return;
    }
    sched->now = me->clock;
}

static uint64_t
stepped_now(struct task *me)
{
    return me->clock;
}

static void
know_monitor(struct task *me, struct monitor *monitor)
{
    if (me->actor.on && monitor->knows.count > 0 && !vclock_join(&me->actor.knows, &monitor->knows))
        failed(me, E_MEMORY, "out of memory");
}

static void
tell_monitor(struct task *me, struct monitor *monitor)
{
    if (me->actor.on && (!vclock_join(&monitor->knows, &me->actor.knows) || !actor_tick(&me->actor)))
        failed(me, E_MEMORY, "out of memory");
}

/* Wakes who waits in a monitor, at a time. A limit ends one wait, and is no reason to believe that anybody goes on. */
struct alarm { struct sched_source source; struct monitor *monitor; };
struct limit { struct sched_source source; struct machine *machine; };

static void
alarm_rings(struct task *me, struct sched_source *source)
{
    struct alarm *alarm = (struct alarm *)source;
    monitor_enter(me, alarm->monitor);
    monitor_wake(me, alarm->monitor);
    monitor_leave(me, alarm->monitor);
}

/* A wait for a task of its own rank ends with that one. */
static bool
dies_in(const struct task *task, const struct wait_reason *reason)
{
    bool inside = reason->holder != NULL && reason->holder->rank == task->rank;
    return task_is_killed(task) && !reason->join && !reason->idle && !inside;
}

static void
stepped_killed(struct sched *sched, int rank)
{
    for (struct machine *machine = sched->first; machine != NULL; machine = machine->next) {
        bool waits = machine->state == MACHINE_WAITING && !machine->wait_broken;
        if (waits && machine->task.rank == rank && dies_in(&machine->task, &machine->reason))
            break_wait(machine);
    }
}

static void
limit_reached(struct task *me, struct sched_source *source)
{
    struct machine *machine = ((struct limit *)source)->machine;
    me->sched->limits--;
    if (machine->state != MACHINE_WAITING || machine->wait_broken)
        return;
    machine->timed_out = true;
    break_wait(machine);
}

static void
limit_set(struct limit *limit, struct task *me, const struct wait_reason *reason)
{
    *limit = (struct limit){ .source = { .fire = limit_reached }, .machine = machine_of(me) };
    if (reason->timeout_ps == 0 || reason->timeout_ps > UINT64_MAX / 2 - me->clock)
        return;
    me->sched->limits++;
    sched_arm(me->sched, &limit->source, me->clock + reason->timeout_ps);
}

static void
limit_lift(struct limit *limit, struct sched *sched)
{
    sched->limits -= limit->source.place != 0;
    sched_disarm(sched, &limit->source);
}

/* Puts me into the monitor's queue and gives the baton away until somebody wakes it or breaks its wait. */
static void
wait_in_queue(struct task *me, struct monitor *monitor, const struct wait_reason *reason)
{
    struct machine *machine = machine_of(me);
    struct alarm    alarm   = { .source = { .fire = alarm_rings }, .monitor = monitor };
    struct limit    limit;
    if (monitor->first == NULL)
        monitor->first = me;
    else
        machine_of(monitor->last)->next_waiter = machine;
    monitor->last  = me;
    machine->state = MACHINE_WAITING;
    limit_set(&limit, me, reason);
    if (reason->until > 0)
        sched_arm(me->sched, &alarm.source, reason->until > me->clock ? reason->until : me->clock);
    dispatch(machine);
    sched_disarm(me->sched, &alarm.source);
    limit_lift(&limit, me->sched);
}

/* Who waits to no avail. */
static bool
wait_failed(struct task *me, const struct wait_reason *reason, bool timed_out)
{
    if (task_is_killed(me))
        return task_die(me);
    if (timed_out && !atomic_load(&me->sched->stopping))
        return sched_timed_out(me, reason->timeout_ps);
    if (reason->idle || atomic_load(&me->sched->stopping))
        return sched_goes_on(me) && failed(me, E_STOPPED, "the run is over");
    return failed(me, E_DEADLOCK, "%s", str_text(&me->sched->report));
}

static bool
stepped_wait(struct task *me, struct monitor *monitor, const struct wait_reason *reason)
{
    struct machine *machine = machine_of(me);
    tell_monitor(me, monitor);
    machine->preferred   = false;
    machine->reason      = *reason;
    machine->queue       = monitor;
    machine->next_waiter = NULL;
    machine->wait_broken = (atomic_load(&me->sched->stopping) && reason->idle) || dies_in(me, reason);
    machine->timed_out   = false;
    me->waiting          = &machine->reason;
    me->since            = me->clock;
    if (!machine->wait_broken)
        wait_in_queue(me, monitor, reason);
    bool ok     = !machine->wait_broken || wait_failed(me, reason, machine->timed_out);
    me->waiting = NULL;
    know_monitor(me, monitor);
    return ok;
}

static void
stepped_wake(struct task *me, struct monitor *monitor)
{
    tell_monitor(me, monitor);
    struct machine *waiter = (struct machine *)monitor->first;
    monitor->first         = NULL;
    while (waiter != NULL) {
        struct machine *next = waiter->next_waiter;
        waiter->queue        = NULL;
        if (waiter->task.clock < me->clock)
            waiter->task.clock = me->clock;
        make_ready(waiter);
        waiter = next;
    }
}

/* Real time for others outside: as much as passes here, shared by all who poll. */
static void
stepped_poll(struct task *me, uint64_t ps, const struct wait_reason *reason)
{
    struct sched   *sched   = me->sched;
    struct machine *machine = machine_of(me);
    uint64_t        real_ns = ps / 1000 / (sched->pollers + 1);
    machine->preferred = false;
    machine->reason    = *reason;
    me->waiting        = &machine->reason;
    if (sched->heap_count == sched->pollers + sched->limits)
        nanosleep(&(struct timespec){ (time_t)(real_ns / 1000000000), (long)(real_ns % 1000000000) }, NULL);
    sched->pollers++;
    machine->choice.polls = true;
    sched_advance(me, ps);
    machine->choice.polls = false;
    sched->pollers--;
    me->waiting = NULL;
}

static void
stepped_finished(struct machine *machine)
{
    machine->state = MACHINE_ENDED;
    dispatch(machine);
    abort();
}

static void
stepped_reap(struct machine *machine)
{
    fiber_free(&machine->fiber);
}

static void
stepped_drain(struct task *me)
{
    struct sched *sched = me->sched;
    for (struct machine *machine = sched->first; machine != NULL; machine = machine->next)
        if (machine->state == MACHINE_WAITING && !machine->wait_broken)
            break_wait(machine);
    struct wait_reason reason = { .what = "join", .sequence = -1, .peer = -1, .join = true };
    for (struct machine *machine = sched->first, *next; machine != NULL; machine = next) {
        next = machine->next;
        if (machine == machine_of(me))
            continue;
        reason.holder = &machine->task;
        while (!machine_await(me, machine, &reason))
            task_clear_error(me);
        next = machine->next;
        fiber_free(&machine->fiber);
        machine_free(machine);
    }
    while (sched->heap_count > 0) {
        struct heap_item item = heap_pop(sched);
        assert(heap_item_is_source(item));
        fire(sched, item.source);
    }
}

static void
stepped_late(struct task *me, uint64_t ps)
{
    if (sched_delay_rank(me->sched, me->rank, ps))
        stepped_point(me);
}

const struct executor executor_stepped = {
    .name = "stepped",         .start = stepped_start,       .point = stepped_point, .now = stepped_now,
    .enter = know_monitor,     .leave = tell_monitor,        .wait = stepped_wait,   .wake = stepped_wake,
    .poll = stepped_poll,      .late = stepped_late,         .killed = stepped_killed,
    .touch = stepped_touch,
    .finished = stepped_finished, .reap = stepped_reap,      .drain = stepped_drain,
};

void
sched_arm(struct sched *sched, struct sched_source *source, uint64_t clock)
{
    sched_disarm(sched, source);
    source->clock = clock;
    if (!heap_reserve(sched, sched->heap_count + (size_t)sched->living + 2)) {
        fire(sched, source);
        return;
    }
    heap_push(sched, (struct heap_item){ clock, 0, -1, { .source = source } });
}

void
sched_disarm(struct sched *sched, struct sched_source *source)
{
    if (source->place != 0)
        heap_remove(sched, source->place);
}

/* Until it waits or its clock moves on: one event would be over before anybody saw a difference. */
bool
sched_prefer_rank(struct sched *sched, int rank)
{
    bool any = false;
    for (struct machine *machine = sched->first; machine != NULL; machine = machine->next) {
        bool ready = machine->state == MACHINE_READY || machine->state == MACHINE_RUNNING;
        if (machine->task.rank != rank || !ready || rank < 0 || machine->task.clock > sched->now)
            continue;
        machine->preferred    = true;
        machine->preferred_at = machine->task.clock;
        struct heap_item *item = heap_find(sched, machine);
        if (item != NULL)
            item->tie = 1;
        any = true;
    }
    heap_rebuild(sched);
    return any;
}

/* Who runs or is ready is moved on; a rank all of whose tasks wait is held up when it wakes. */
bool
sched_delay_rank(struct sched *sched, int rank, uint64_t ps)
{
    bool any = false, moved = false;
    for (struct machine *machine = sched->first; machine != NULL; machine = machine->next) {
        if (machine->task.rank != rank || machine->state == MACHINE_ENDED)
            continue;
        any = true;
        if (machine->state == MACHINE_WAITING)
            continue;
        moved = true;
        struct heap_item *item = heap_find(sched, machine);
        if (item != NULL)
            item->clock = machine->task.clock += ps;
        else
            machine->pending_delay += ps; /* it runs: from its next scheduling point on */
    }
    for (struct machine *machine = sched->first; any && !moved && machine != NULL; machine = machine->next)
        if (machine->task.rank == rank && machine->state == MACHINE_WAITING && !machine->reason.idle)
            machine->pending_delay = ps;
    heap_rebuild(sched);
    return any;
}
