/* Tasks: starting, running to the end, joining. A worker's failure moves to whoever joins it: that is how
 * nn.parallel.parallel_apply raises in the caller. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "sched/faults.h"
#include "sched/internal.h"
#include "sched/stage.h"

/* What a living task takes beside what it asks for: its stack, and in `free` two chunks of the trace, one of them ready
 * for what follows. */
enum { STEPPED_BYTES = 32 << 10, FREE_BYTES = 576 << 10 };

/* How many ended tasks are kept for the next ones, and with how many places in their scopes. */
enum { SPARES = 64, SPARE_SCOPE = 4096 };

/* Tasks of one rank and name share a lane, so that the workers of every forward stand in the same row. */
static uint32_t
lane_of(struct sched *sched, const struct task *task, const struct task_options *options)
{
    const char *name = options->lane != NULL ? options->lane : task->name;
    char        key[80];
    snprintf(key, sizeof key, "%d/%s", task->rank, name);
    uint64_t lane = 0;
    if (map_get_text(&sched->lanes, key, &lane))
        return (uint32_t)lane;
    int kind = options->lane_kind != 0 ? options->lane_kind : LANE_HOST;
    lane     = trace_lane(sched->writer, task->rank, task->device, (enum lane_kind)kind, name);
    if (!map_set_text(&sched->lanes, key, lane))
        return (uint32_t)lane; /* the next task of that name gets a lane of its own: no harm */
    return (uint32_t)lane;
}

void
task_becomes_rank(struct task *me, int rank, int device)
{
    struct task_options options = { .rank = rank, .device = device };
    pthread_mutex_lock(&me->sched->registry);
    me->rank   = (int16_t)rank;
    me->device = (int16_t)device;
    snprintf(me->name, sizeof me->name, "r%d main", rank);
    if (me->sched->writer != NULL)
        me->lane = lane_of(me->sched, me, &options);
    pthread_mutex_unlock(&me->sched->registry);
}

static bool
machine_equip(struct sched *sched, struct machine *machine, struct task *parent, const struct task_options *options)
{
    struct task *task = &machine->task;
    if (!monitor_init(&machine->ended))
        return false;
    if (sched->writer != NULL) {
        task->buffer = sched_is_stepped(sched) ? sched->buffer : trace_buffer_new(sched->writer);
        if (task->buffer == NULL) {
            monitor_destroy(&machine->ended);
            return false;
        }
        pthread_mutex_lock(&sched->registry);
        task->lane = lane_of(sched, task, options);
        pthread_mutex_unlock(&sched->registry);
    }
    if (sched_actor_new(sched, &task->actor, parent != NULL ? &parent->actor : NULL))
        return true;
    if (!sched_is_stepped(sched))
        trace_buffer_free(task->buffer);
    monitor_destroy(&machine->ended);
    return false;
}

/* Zero but for its scope's room: one that served before, or a new one. NULL: no memory. */
static struct machine *
machine_blank(struct sched *sched)
{
    pthread_mutex_lock(&sched->registry);
    struct machine *machine = sched->spare;
    if (machine != NULL) {
        sched->spare = machine->next;
        sched->spare_count--;
    }
    pthread_mutex_unlock(&sched->registry);
    if (machine == NULL)
        return calloc(1, sizeof *machine);
    struct scope_item *scope = machine->task.scope;
    size_t             room  = machine->task.scope_room;
    memset(machine, 0, sizeof *machine);
    machine->task.scope      = scope;
    machine->task.scope_room = room;
    return machine;
}

/* Its task is over, or never began. */
static void
machine_spare(struct sched *sched, struct machine *machine)
{
    pthread_mutex_lock(&sched->registry);
    bool kept = sched->spare_count < SPARES && machine->task.scope_room <= SPARE_SCOPE;
    if (kept) {
        machine->next = sched->spare;
        sched->spare  = machine;
        sched->spare_count++;
    }
    pthread_mutex_unlock(&sched->registry);
    if (kept)
        return;
    free(machine->task.scope);
    free(machine);
}

void
machine_free_spares(struct sched *sched)
{
    for (struct machine *machine = sched->spare, *next; machine != NULL; machine = next) {
        next = machine->next;
        free(machine->task.scope);
        free(machine);
    }
    sched->spare = NULL;
}

struct machine *
machine_new(struct sched *sched, struct task *parent, const struct task_options *options)
{
    struct machine *machine = machine_blank(sched);
    if (machine == NULL)
        return NULL;
    struct task *task = &machine->task;
    task->sched       = sched;
    task->machine     = machine;
    task->off         = sched->off;
    task->rank        = -1;
    task->device      = -1;
    if (parent != NULL) {
        task->clock     = parent->clock;
        task->rank      = parent->rank;
        task->device    = parent->device;
        task->line      = parent->line;
        task->iteration = parent->iteration;
        atomic_store(&task->killed, task_is_killed(parent) ? KILLED : NOT_KILLED);
    }
    if (options->rank != TASK_INHERIT)
        task->rank = (int16_t)options->rank;
    if (options->device != TASK_INHERIT)
        task->device = (int16_t)options->device;
    snprintf(task->name, sizeof task->name, "%s", options->name);
    machine->lua = options->lua;
    if (!machine_equip(sched, machine, parent, options)) {
        machine_spare(sched, machine);
        return NULL;
    }
    pthread_mutex_lock(&sched->registry);
    task->number      = sched->next_number++;
    machine->previous = sched->last;
    if (sched->last != NULL)
        sched->last->next = machine;
    else
        sched->first = machine;
    sched->last = machine;
    sched->living++;
    pthread_mutex_unlock(&sched->registry);
    return machine;
}

void
machine_unlink(struct sched *sched, struct machine *machine)
{
    pthread_mutex_lock(&sched->registry);
    if (machine->previous != NULL)
        machine->previous->next = machine->next;
    else
        sched->first = machine->next;
    if (machine->next != NULL)
        machine->next->previous = machine->previous;
    else
        sched->last = machine->previous;
    sched->living--;
    pthread_mutex_unlock(&sched->registry);
}

void
machine_free(struct machine *machine)
{
    struct sched *sched = machine->task.sched;
    machine_unlink(sched, machine);
    sched_actor_free(sched, &machine->task.actor, machine->done);
    if (!sched_is_stepped(sched))
        trace_buffer_free(machine->task.buffer);
    monitor_destroy(&machine->ended);
    if (machine->task.drop_cells != NULL)
        machine->task.drop_cells(&machine->task);
    account_give(sched, machine->charged);
    machine_spare(sched, machine);
}

/* A task begins: the lesson, a rank, a replica's worker, a device's backward. */
static void
task_announce_start(struct task *me)
{
    int64_t name = stage_text_id(me, me->name);
    POINT(me, task_start, me->number, name);
}

/* A task ends, with or without an error. */
static void
task_announce_end(struct task *me)
{
    POINT(me, task_end, me->number, task_failed(me));
}

void
machine_body(struct machine *machine)
{
    struct task *me = &machine->task;
    sched_point(me);
    task_announce_start(me);
    machine->run(me, machine->argument);
    scope_release(me, 0);
    sched_point(me);
    task_announce_end(me);
    monitor_enter(me, &machine->ended);
    machine->done = true;
    __atomic_store_n(&me->dead, true, __ATOMIC_RELEASE);
    monitor_wake(me, &machine->ended);
    monitor_leave(me, &machine->ended);
}

struct task *
task_spawn(struct task *me, const struct task_options *options, bool (*run)(struct task *me, void *argument),
           void *argument)
{
    if (task_failed(me))
        return NULL;
    size_t bytes = sched_is_stepped(me->sched) ? STEPPED_BYTES : FREE_BYTES;
    if (!account_take(me->sched, bytes) && !(account_collect(me) && account_take(me->sched, bytes))) {
        (void)memory_failed(me, bytes, "the host");
        return NULL;
    }
    struct machine *child = machine_new(me->sched, me, options);
    if (child == NULL) {
        account_give(me->sched, bytes);
        return failed_null(me, E_MEMORY, "out of memory while starting the task %s", options->name);
    }
    child->charged  = bytes;
    child->run      = run;
    child->argument = argument;
    if (!actor_tick(&me->actor) || !me->sched->executor->start(me, child)) {
        machine_free(child);
        return failed_null(me, E_MEMORY, "cannot start the task %s: no memory for its stack, or no more threads are "
                           "allowed", options->name);
    }
    return &child->task;
}

/* Waits until `child` is over. false: the wait was broken and the child may still live. */
bool
machine_await(struct task *me, struct machine *child, const struct wait_reason *reason)
{
    bool ok = true;
    monitor_enter(me, &child->ended);
    while (!child->done && ok)
        ok = monitor_wait(me, &child->ended, reason);
    monitor_leave(me, &child->ended);
    return ok || child->done;
}

/* Who waits for a thread's end takes over its failure: an exception of a worker is raised by its
 * joiner, after the worker's stages have closed and its temporaries are gone. */
bool
task_join(struct task *me, struct task *child, struct error *error)
{
    STAGE(me, task_join, child->number);
    struct machine    *machine = machine_of(child);
    struct wait_reason reason  = { .what = "join", .sequence = -1, .peer = -1 };
    reason.holder = child;
    reason.join   = true;
    if (!machine_await(me, machine, &reason))
        return false; /* the run's end frees it */
    if (error != NULL)
        *error = child->error;
    else
        task_take_error(me, &child->error);
    me->sched->executor->reap(machine);
    machine_free(machine);
    return !task_failed(me);
}
