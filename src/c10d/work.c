/* Works: one collective of one rank, from the call to its end. The rank issues it and goes on; the comm task runs it;
 * whoever needs the result waits. A work is recycled, so that a steady iteration takes nothing from the system.
 * Order of use: work_new, work_issue (or work_discard), work_wait, work_free. PyTorch: c10d::Work. */
#include <inttypes.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "c10d/debug_level.h"
#include "c10d/internal.h"
#include "c10d/job.h"
#include "device/cells.h"
#include "device/stream.h"
#include "sched/faults.h"
#include "sched/stage.h"

static int64_t
work_name_id(struct task *me, const struct work *work)
{
    return stage_text_id(me, operation_name(work->call.operation));
}

/* The host touches elements directly, so it must know when the tensor's device has written them: `event` marks how far
 * the current stream has come. */
bool
work_tensor_ready(struct task *me, struct tensor *tensor, struct event **event, bool *on_device)
{
    *on_device = false;
    if (task_failed(me) || tensor == NULL)
        return failed(me, E_TYPE, "a collective needs a tensor");
    int device = tensor_device(tensor);
    if (device < 0)
        return true;
    if (*event == NULL && (*event = event_new(me)) == NULL)
        return false;
    struct stream *stream = stream_current(me, device);
    *on_device = stream != NULL && stream_record(me, stream, *event);
    return *on_device;
}

/* A collective costs about a microsecond: two kilobytes of the last error's text are worth leaving alone. */
static void
work_clear(struct work *work)
{
    memset(work, 0, offsetof(struct work, error));
    work->error.kind       = E_NONE;
    work->error.message[0] = '\0';
    memset(&work->error.function, 0, sizeof work->error - offsetof(struct error, function));
}

struct work *
work_new(struct task *me, struct process_group *group, enum operation operation, struct tensor *tensor)
{
    if (task_failed(me))
        return NULL;
    monitor_enter(me, &group->monitor);
    struct work *work = group->spare;
    int64_t number    = group->works++;
    if (work != NULL)
        group->spare = work->next;
    monitor_leave(me, &group->monitor);
    struct event *event = work != NULL ? work->event : NULL;
    if (work == NULL && (work = malloc(sizeof *work)) == NULL)
        return failed_null(me, E_MEMORY, "out of memory for %s", operation_name(operation));
    work_clear(work);
    work->group     = group;
    work->event     = event;
    work->is_owned  = true;
    work->line      = me->line;
    work->iteration = me->iteration;
    work->number    = number;
    work->call = (struct collective){ .work = work, .channel = group->communicator->channel, .operation = operation,
                                      .sequence = -1, .rank = group->rank, .ranks = group->communicator->size,
                                      .tensor = tensor_ref(tensor), .bytes = tensor_bytes(tensor),
                                      .elements = tensor_count(tensor) };
    return work;
}

static void
drop_pieces(struct task *me, struct tensor ***pieces, int count)
{
    for (int i = 0; *pieces != NULL && i < count; i++)
        tensor_drop(me, &(*pieces)[i]);
    host_return(me, *pieces, (size_t)count * sizeof **pieces);
    *pieces = NULL;
}

static void
work_drop_tensors(struct task *me, struct work *work)
{
    struct collective *call = &work->call;
    tensor_drop(me, &call->tensor);
    tensor_drop(me, &call->gathered);
    drop_pieces(me, &call->inputs, call->ranks);
    drop_pieces(me, &call->outputs, call->ranks);
    work_drop_stand_ins(me, work);
}

void
work_recycle(struct task *me, struct work *work)
{
    claimer_unref(me, work->claimer);
    work->claimer      = NULL;
    work->next         = work->group->spare;
    work->group->spare = work;
}

/* In the group's monitor, which is left meanwhile. */
static void
work_tell(struct task *me, struct work *work)
{
    while (work->listeners != NULL) {
        struct work_listener *listener = work->listeners;
        work->listeners = listener->next;
        monitor_leave(me, &work->group->monitor);
        listener->done(me, listener->context, work->error.kind != E_NONE ? &work->error : NULL);
        monitor_enter(me, &work->group->monitor);
    }
}

/* Who was killed has no part in it, nor in what it called later. */
static void
work_stays_undone(struct task *me, struct work *work)
{
    struct process_group *group  = work->group;
    atomic_int_least64_t *issued = &group->communicator->issued[group->rank];
    if (atomic_load(issued) > work->call.sequence)
        atomic_store(issued, work->call.sequence);
    world_wake_all(me, group->world);
}

/* It never began, or never will: a run that is stopped leaves some. */
void
work_discard(struct task *me, struct work *work)
{
    if (task_is_killed(me) && work->entry != NULL)
        work_stays_undone(me, work);
    work_drop_tensors(me, work);
    if (work->listeners != NULL)
        work->error = (struct error){ .kind = E_STOPPED, .message = "the run is over" };
    monitor_enter(me, &work->group->monitor);
    work_tell(me, work);
    claimer_over(work->claimer);
    work_recycle(me, work);
    monitor_leave(me, &work->group->monitor);
}

bool
work_is_lost(const struct work *work)
{
    const struct communicator *communicator = work->group->communicator;
    return world_stands(work->group->world) || ledger_is_broken(&communicator->ledger, work->call.sequence) ||
           communicator_lost_rank(communicator, work->call.sequence) >= 0;
}

/* Says why it is. */
bool
work_say_lost(struct task *me, struct work *work)
{
    const struct communicator *communicator = work->group->communicator;
    if (world_stands(work->group->world))
        return world_say_standstill(me, work->group->world);
    bool broken = ledger_is_broken(&communicator->ledger, work->call.sequence);
    int  lost   = communicator_lost_rank(communicator, work->call.sequence);
    const struct error *error = broken ? ledger_error(&communicator->ledger, work->call.sequence) : NULL;
    if (error != NULL && (lost < 0 || error->kind == E_MISMATCH))
        return failed(me, error->kind, "%s", error->message);
    struct wait_reason reason = work_reason(work, communicator_rank_of(communicator, lost));
    int64_t issued = atomic_load(&communicator->issued[communicator_rank_of(communicator, lost)]);
    bool    dead   = world_rank_was_killed(work->group->world, lost);
    char    line[32] = "", last[40] = "without calling any collective", of[32] = "";
    if (dead)
        snprintf(last, sizeof last, "before its first collective was over");
    if (work->line > 0)
        snprintf(line, sizeof line, " (line %" PRIu32 ")", work->line);
    if (issued > 0)
        snprintf(last, sizeof last, "after #%" PRId64, issued - 1);
    if (communicator->number > 0)
        snprintf(of, sizeof of, " of group %d", communicator->number);
    return hang_in_vain(me, work->group->world, &reason,
                        "rank %d waits in %s #%" PRId64 "%s%s, but rank %d %s %s",
                        work->group->global_rank, reason.what, work->call.sequence, of, line, lost,
                        world_rank_fate(work->group->world, lost), last);
}

bool
work_has_lost_members(const struct work *work)
{
    return communicator_is_lost(work->group->communicator);
}

bool
work_say_ended(struct task *me, const struct work *work)
{
    const struct world *world = work->group->world;
    struct wait_reason  reason = work_reason(work, -1);
    int                 lost  = 0;
    while (lost + 1 < world->size && !world_rank_has_ended(world, lost))
        lost++;
    return hang_in_vain(me, work->group->world, &reason,
                        "rank %d waits in %s #%" PRId64 " (line %" PRIu32 "), but rank %d %s, and what it sent for it "
                        "does not come", work->group->global_rank, reason.what, work->call.sequence, work->line, lost,
                        world_rank_fate(world, lost));
}

/* Says why the group takes no more collectives. */
static bool
work_refuse(struct task *me, struct work *work, enum ledger_answer answer)
{
    if (answer == LEDGER_NO_MEMORY)
        return failed(me, E_MEMORY, "out of memory for %s", operation_name(work->call.operation));
    if (answer == LEDGER_DIFFERS) {
        ledger_announce_mismatch(me, &work->group->communicator->ledger, work->call.sequence);
        world_wake_all(me, work->group->world);
    } else if (work->group->is_gone) {
        int number = work->group->communicator->number;
        if (number > 0)
            return failed(me, E_RUNTIME, "group %d was destroyed: call new_group again", number);
        return failed(me, E_RUNTIME, "the process group was destroyed: call init_process_group again");
    } else if (ledger_missed_report(me, work)) {
        return false;
    }
    return work_say_lost(me, work);
}

/* In the group's monitor. Where nothing is queued or under way and the caller would only wait, threads need not hand
 * over: it runs its collective itself. What somebody else wrote expects the comm task. */
static bool
work_may_run_here(struct task *me, const struct work *work)
{
    const struct process_group *group = work->group;
    return work->call.options.at_once && !sched_is_stepped(me->sched) && group->first == NULL && !group->busy &&
           work->call.options.custom == NULL;
}

static void
work_queue(struct task *me, struct work *work)
{
    struct process_group *group = work->group;
    work->is_here = work_may_run_here(me, work);
    if (work->is_here) {
        group->busy = true;
        return;
    }
    if (group->last != NULL)
        group->last->next = work;
    else
        group->first = work;
    group->last = work;
    monitor_wake(me, &group->monitor);
}

/* For a millisecond. */
static bool
wait_for_callers(struct task *me, struct work *work)
{
    struct monitor    *monitor = &work->group->world->monitor;
    struct wait_reason slice   = work_reason(work, -1);
    if (work_is_lost(work))
        return work_say_lost(me, work);
    if (slice.timeout_ps == 0)
        slice.timeout_ps = sched_timeout(me->sched);
    slice.since = work->begun_at;
    slice.until = sched_now(me) + UINT64_C(1000000000);
    monitor_enter(me, monitor);
    bool goes_on = monitor_wait(me, monitor, &slice);
    monitor_leave(me, monitor);
    return goes_on;
}

/* The rank of the group that has not called it yet; -1: all have. */
static int
work_missing_rank(const struct work *work)
{
    const struct communicator *communicator = work->group->communicator;
    int rank = 0;
    while (rank < communicator->size && atomic_load(&communicator->issued[rank]) > work->call.sequence)
        rank++;
    return rank < communicator->size ? rank : -1;
}

/* At DETAIL nobody begins before all have called the same: else a root may have sent, and gone on, before another rank
 * calls something else. PyTorch: ProcessGroupWrapper, a monitored barrier in front of each collective. */
static bool
work_meet_all(struct task *me, struct work *work)
{
    struct monitor *monitor = &work->group->world->monitor;
    if (!work->meets_all)
        return true;
    if (work->group->world->job != NULL) {
        bool all = ledger_meet_in_store(me, work, wait_for_callers);
        sched_wait_over(me);
        return all;
    }
    monitor_enter(me, monitor);
    for (int rank; (rank = work_missing_rank(work)) >= 0;)
        if (!work_await(me, work, monitor, rank))
            return false;
    monitor_leave(me, monitor);
    return !work_is_lost(work) || work_say_lost(me, work);
}

/* The number is taken, entered in the ledger and queued in one go: the queue's order is the numbers' order. */
bool
work_issue(struct task *me, struct work *work)
{
    struct process_group *group   = work->group;
    int64_t               text_id = work_name_id(me, work);
    if (me == group->comm)
        return failed(me, E_RUNTIME, "%s inside of an all-reduce's own algorithm would wait for itself: an algorithm "
                                     "is made of send and recv", operation_name(work->call.operation));
    work->issued_at = sched_now(me);
    work->meets_all = debug_level(me) == DEBUG_DETAIL;
    if (work->meets_all)
        atomic_store(&group->communicator->meets_all, true);
    monitor_enter(me, &group->monitor);
    work->call.sequence = process_group_sequence(group);
    claimer_issue(work->claimer, work->call.sequence);
    bool               deaf   = group->is_deaf && !group->is_gone;
    enum ledger_answer answer = group->is_gone || deaf ? LEDGER_BROKEN : ledger_join(me, work);
    if (answer == LEDGER_JOINED && !sched_is_stepped(me->sched)) /* who takes it may begin before this task goes on */
        POINT(me, c10d_issue, text_id, work->call.sequence, work->call.bytes, group->communicator->number);
    if (answer == LEDGER_JOINED)
        work_queue(me, work);
    monitor_leave(me, &group->monitor);
    if (deaf)
        return sched_goes_on(me) && failed(me, E_STOPPED, "the run is over");
    if (sched_is_stepped(me->sched)) /* in free it is the comm task's by now */
        tensor_announce(me, work->call.tensor, "tensor");
    if (answer != LEDGER_JOINED || sched_is_stepped(me->sched))
        POINT(me, c10d_issue, text_id, work->call.sequence, work->call.bytes, group->communicator->number);
    if (answer == LEDGER_JOINED && atomic_load(&group->communicator->meets_all))
        world_wake_all(me, group->world);
    return answer == LEDGER_JOINED || work_refuse(me, work, answer);
}

void
work_wait_lost(struct work *work, const char *words)
{
    work->lost = words;
}

bool
work_await(struct task *me, struct work *work, struct monitor *monitor, int peer)
{
    struct wait_reason reason = work_reason(work, peer);
    if (work->lost != NULL) {
        reason.detail = work->lost;
        reason.lost   = true;
    }
    bool lost = work_is_lost(work);
    if (!lost && monitor_wait(me, monitor, &reason))
        return true;
    monitor_leave(me, monitor);
    return lost && work_say_lost(me, work);
}

/* Messages of a collective that somebody else wrote are sent by the comm task, which is in it. */
bool
group_gives_up(const struct process_group *group, int64_t tag)
{
    return world_stands(group->world) ||
           (tag < 0 && ledger_is_broken(&group->communicator->ledger, atomic_load(&group->running)));
}

bool
group_rank_is_through(const struct process_group *group, int rank, int64_t tag)
{
    const struct communicator *communicator = group->communicator;
    int64_t running = atomic_load(&group->running);
    bool    ended   = group_rank_has_ended(group, rank);
    if (tag >= 0)
        return ended;
    return atomic_load(&communicator->through[rank]) > running ||
           (ended && atomic_load(&communicator->issued[rank]) <= running);
}

bool
group_say_why(struct task *me, const struct process_group *group)
{
    if (world_stands(group->world))
        return world_say_standstill(me, group->world);
    const struct error *error = ledger_error(&group->communicator->ledger, atomic_load(&group->running));
    return failed(me, error->kind, "%s", error->message);
}

/* The others wait for data that will not come: they learn who failed, and why. What fails after that, while a result is
 * written, is this rank's alone, and the group goes on. */
static void
work_break_group(struct task *me, struct work *work)
{
    struct ledger *ledger = &work->group->communicator->ledger;
    struct error   error  = work->error;
    if (error.kind == E_KILLED)
        work_stays_undone(me, work);
    if (error.kind == E_KILLED || error.kind == E_STOPPED || ledger_is_broken(ledger, work->call.sequence))
        return;
    snprintf(error.message, sizeof error.message, "rank %d failed in %s #%" PRId64 ": %.1800s",
             work->group->global_rank, operation_name(work->call.operation), work->call.sequence, work->error.message);
    ledger_break(me, ledger, work->call.sequence, &error);
    world_wake_all(me, work->group->world);
}

/* Of an algorithm that somebody else wrote: whoever waits for a message of this rank in it waits in vain. */
static void
work_is_through(struct task *me, struct work *work)
{
    struct process_group *group = work->group;
    atomic_store(&group->communicator->through[group->rank], work->call.sequence + 1);
    group->world->backend->wake(me, group->world->transport);
}

/* On the job's page: what this process is in, for whoever finds it dead. */
static void
work_note(const struct work *work, bool inside)
{
    const struct process_group *group = work->group;
    const struct communicator  *communicator = group->communicator;
    if (group->world->job == NULL || work->entry == NULL)
        return;
    job_note_call(group->world->job, &(struct job_call){
        .id = communicator->id, .issued = process_group_sequence(group), .sequence = work->call.sequence,
        .operation = operation_name(work->call.operation), .group = communicator->number, .line = work->line,
        .over = work->call.sequence + !inside, .inside = inside });
}

/* Who asks whether it has ended, and its end. */
static void
work_meets(struct task *me, const struct work *work, enum touch touch)
{
    const int64_t where[3] = { work->group->communicator->number, work->group->global_rank, work->number };
    sched_touch(me, touch, "work", where);
}

/* The tensors are let go before the work counts as done: who waits may be the last to hold them. */
void
work_finish(struct task *me, struct work *work)
{
    struct process_group *group = work->group;
    work_meets(me, work, TOUCH_CHANGE);
    if (task_failed(me)) {
        work->error = me->error;
        task_clear_error(me);
        if (work->entry != NULL && !work->is_moved)
            work_break_group(me, work);
    }
    bool is_collective = work->entry != NULL;
    if (work->error.kind == E_NONE) {
        recorder_reach(group, work->recorded, FLIGHT_COMPLETED, sched_now(me));
        work_note(work, false);
    }
    if (is_collective)
        completion_tell(me, work);
    ledger_leave(me, work);
    if (work->call.options.custom != NULL)
        work_is_through(me, work);
    if (!work->post.is_later)
        work_drop_tensors(me, work);
    monitor_enter(me, &group->monitor);
    work->done        = true;
    work->finished_at = sched_is_stepped(me->sched) ? sched_now(me) : 0;
    if (work->call.sequence >= 0)
        group->busy = false;
    work_tell(me, work);
    work->told = true;
    group->finished += is_collective;
    if (!work->is_owned && !work->post.is_later)
        work_recycle(me, work);
    bool alone = work->is_here && group->waiting == 0 && group->first == NULL; /* but for the idle comm task */
    if (!alone || group->stopping)
        monitor_wake(me, &group->monitor);
    monitor_leave(me, &group->monitor);
}

/* Before and after: what is given is the collective's own until it ends. */
static void
announce_call(struct task *me, const struct collective *call)
{
    bool gives = call->inputs != NULL, takes = call->outputs != NULL;
    if (call->operation != OPERATION_ALL_TO_ALL)
        tensor_announce(me, call->tensor, "tensor");
    if (gives)
        tensor_announce_all(me, call->inputs, call->ranks, "input");
    if (takes)
        tensor_announce_all(me, call->outputs, call->ranks, "output");
    tensor_announce(me, call->gathered, "gathered");
}

static bool
work_move(struct task *me, const struct work *work)
{
    const struct collective *call = &work->call;
    announce_call(me, call);
    if (call->operation == OPERATION_ALL_REDUCE && tensor_is_sparse(call->tensor))
        return sparse_all_reduce(me, call);
    return mirrored_move(me, call);
}

/* Who watches a tensor that the others have written into is told. */
static bool
work_tell_changes(struct task *me, const struct work *work)
{
    const struct collective *call = &work->call;
    const char              *what = operation_name(call->operation);
    bool ok = tensor_changed(me, call->tensor, what) && tensor_changed(me, call->gathered, what);
    for (int i = 0; call->outputs != NULL && i < call->ranks && ok; i++)
        ok = tensor_changed(me, call->outputs[i], what);
    return ok;
}

/* What its caller runs at once it has just issued: a clock costs as much as an event. */
static uint64_t
work_begin_time(struct task *me, const struct work *work)
{
    return work->is_here && work->call.options.at_once ? work->issued_at : sched_now(me);
}

void
work_run(struct task *me, struct work *work)
{
    task_set_line(me, work->line);
    me->iteration = work->iteration;
    atomic_store(&work->group->running, work->call.sequence);
    sched_advance_to(me, work->issued_at);
    work->begun_at = work_begin_time(me, work);
    recorder_reach(work->group, work->recorded, FLIGHT_STARTED, work->begun_at);
    work_note(work, true);
    if (!task_failed(me) && mirrored_await(me, work) && work_meet_all(me, work) && work_move(me, work)) {
        work->is_moved = true;
        (void)(work_tell_changes(me, work) && work_paste(me, work)); /* what failed is in me */
    }
    work_finish(me, work);
}

static bool
work_await_done(struct task *me, struct work *work, uint64_t timeout_ps)
{
    struct process_group *group  = work->group;
    struct wait_reason    reason = { .what = operation_name(work->call.operation), .sequence = work->call.sequence,
                                     .group = group->communicator->index, .peer = -1,
                                     .holder = work->task != NULL ? work->task : group->comm,
                                     .timeout_ps = timeout_ps, .join = timeout_ps == 0 };
    uint64_t begin = sched_now(me);
    bool     waits = true;
    monitor_enter(me, &group->monitor);
    group->waiting++;
    while (!work->told && waits) {
        waits = monitor_wait(me, &group->monitor, &reason);
        uint64_t spent = sched_now(me) - begin;
        reason.timeout_ps = timeout_ps > spent ? timeout_ps - spent : timeout_ps > 0;
    }
    bool done = work->told;
    group->waiting--;
    monitor_leave(me, &group->monitor);
    return done;
}

/* Where the comm task has not come to it yet, who waits runs it: that saves handing over and back. What somebody else
 * wrote, hooks and messages have tasks of their own. */
static bool
work_take_over(struct task *me, struct work *work)
{
    struct process_group *group = work->group;
    if (sched_is_stepped(me->sched) || work->task != NULL || work->call.options.custom != NULL)
        return false;
    monitor_enter(me, &group->monitor);
    bool is_mine = group->first == work && !group->busy && group->hook.run == NULL;
    if (is_mine) { /* else the comm task may be reading it */
        work->is_here = true;
        group->first  = work->next;
        group->last   = group->first != NULL ? group->last : NULL;
        work->next    = NULL;
        group->busy   = true;
    }
    monitor_leave(me, &group->monitor);
    return is_mine;
}

/* As on the comm task: what it has in flight it may touch. */
static void
work_run_for_comm(struct task *me, struct work *work)
{
    uint32_t line = me->line, iteration = me->iteration;
    bool     was_carrier = me->is_carrier;
    size_t   mark = scope_mark(me);
    me->is_carrier = true;
    work_run(me, work);
    scope_release(me, mark);
    me->is_carrier = was_carrier;
    me->iteration  = iteration;
    task_set_line(me, line);
}

void
work_release_tensor(struct task *me, struct work *work)
{
    monitor_enter(me, &work->group->monitor);
    struct tensor *tensor = work->call.tensor;
    work->call.tensor     = NULL;
    monitor_leave(me, &work->group->monitor);
    tensor_drop(me, &tensor);
}

/* The host waits until the collective has ended; its failure becomes the waiting task's. Tensors on a device are in
 * order again: what is launched from here on comes after the last message. */
bool
work_wait_within(struct task *me, struct work *work, uint64_t timeout_ps)
{
    STAGE(me, c10d_wait, work_name_id(me, work), work->call.sequence,
          work->group->communicator->number);
    if (work->is_here)
        work_run(me, work);
    else if (timeout_ps == 0 && !task_failed(me) && work_take_over(me, work))
        work_run_for_comm(me, work);
    else if (task_failed(me) || !work_await_done(me, work, timeout_ps))
        return false;
    in_flight_waited(work);
    sched_advance_to(me, work->finished_at);
    if (work->post.is_later && work->error.kind == E_NONE)
        reuse_check(me, work);
    if (work->post.is_later)
        work_release_tensor(me, work);
    if (work->error.kind == E_NONE)
        return true;
    struct error error = work->error;
    task_take_error(me, &error);
    return false;
}

bool
work_wait(struct task *me, struct work *work)
{
    return work_wait_within(me, work, 0);
}

void
work_when_done(struct task *me, struct work *work, struct work_listener *listener)
{
    monitor_enter(me, &work->group->monitor);
    bool done = work->done;
    if (!done) {
        listener->next  = work->listeners;
        work->listeners = listener;
    }
    monitor_leave(me, &work->group->monitor);
    if (done)
        listener->done(me, listener->context, work->error.kind != E_NONE ? &work->error : NULL);
}

/* Who hears that it has ended needs no other wait. */
bool
work_done(struct task *me, struct work *work)
{
    struct monitor *monitor = &work->group->monitor;
    work_meets(me, work, TOUCH_READ);
    monitor_enter(me, monitor);
    bool done = work->done;
    monitor_leave(me, monitor);
    if (done)
        in_flight_waited(work);
    return done;
}

struct claimer *
work_claimer(const struct work *work)
{
    return work->claimer;
}

int64_t
work_sequence(const struct work *work)
{
    return work->call.sequence;
}

bool
work_failure(struct task *me, struct work *work, struct error *out)
{
    if (!work_done(me, work) || work->error.kind == E_NONE)
        return false;
    *out = work->error;
    return true;
}
