/* The barrier that names who does not come. It is no collective with a number: who comes says so to the communicator
 * and waits there, on its own task, until all have come as often; who waits in vain tells the others, too.
 * Order of use: group_monitored_barrier. PyTorch: ProcessGroupGloo::monitoredBarrier, where the first rank alone knows
 * and the others wait for its word: they name it here, too. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include "c10d/internal.h"
#include "hw/cost.h"
#include "sched/stage.h"

/* In the world's monitor. */
struct monitored_state {
    int64_t      failed;      /* this one and those after it cannot end, and `why` says why; 0: none */
    struct error why;
    int64_t      come[];      /* by rank in the group: how often it has come */
};

static struct monitored_state *
state_of(struct communicator *communicator)
{
    if (communicator->monitored == NULL)
        communicator->monitored = calloc(1, sizeof *communicator->monitored +
                                                sizeof(int64_t) * (size_t)communicator->size);
    return communicator->monitored;
}

static bool
has_failed(const struct monitored_state *state, int64_t number)
{
    return state->failed != 0 && state->failed <= number;
}

static bool
is_missing(const struct communicator *communicator, int rank, int64_t number, bool ended)
{
    return communicator->monitored->come[rank] < number &&
           (!ended || world_rank_has_ended(communicator->world, communicator->ranks[rank]));
}

/* How many have not come as often, or of those how many have ended; their ranks in the world, the first or all, go to
 * `out` unless it is NULL. */
struct missing { int64_t number; bool ended, all; };
static int
list_missing(const struct communicator *communicator, struct missing which, struct str *out)
{
    int missing = 0;
    for (int rank = 0; rank < communicator->size; rank++) {
        if (!is_missing(communicator, rank, which.number, which.ended))
            continue;
        if (out != NULL && (missing == 0 || which.all))
            str_addf(out, "%s%d", missing == 0 ? "" : ", ", communicator->ranks[rank]);
        missing++;
    }
    return missing;
}

/* Whether waiting may help: the first who has not come has not ended, whatever became of those after it (PyTorch's
 * rank 0 asks them in order); or, where all shall be named, not all of them have. */
static bool
may_come(const struct communicator *communicator, int64_t number, bool all)
{
    bool missing = false;
    for (int rank = 0; rank < communicator->size; rank++) {
        if (!is_missing(communicator, rank, number, false))
            continue;
        bool ended = is_missing(communicator, rank, number, true);
        if (!all || !ended)
            return !ended;
        missing = true;
    }
    return !missing;
}

/* The first to know says it for all. */
static void
note_failure(struct task *me, struct process_group *group, int64_t number, const struct monitored *options)
{
    struct communicator    *communicator = group->communicator;
    struct monitored_state *state = communicator->monitored;
    struct str              ranks = { 0 };
    if (has_failed(state, number))
        return;
    bool ended   = !may_come(communicator, number, options->all);
    bool several = list_missing(communicator, (struct missing){ number, ended, options->all }, &ranks) > 1 &&
                   options->all;
    char within[48] = "";
    if (!ended && options->timeout_ps > 0)
        snprintf(within, sizeof within, " in %.9g ms", (double)options->timeout_ps / 1e9);
    state->failed = number;
    state->why    = (struct error){ .kind = E_RUNTIME, .function = __func__, .line = __LINE__,
                                    .lesson_line = me->line, .rank = group->global_rank };
    snprintf(state->why.message, sizeof state->why.message,
             "%s %.1500s failed to pass monitored_barrier%s%s", several ? "ranks" : "rank",
             str_ok(&ranks) ? str_text(&ranks) : "?", within,
             ended ? several ? ": they run no more" : ": it runs no more" : "");
    str_free(&ranks);
}

/* In the world's monitor. */
static bool
wait_for_all(struct task *me, struct process_group *group, int64_t number, const struct monitored *options)
{
    struct communicator    *communicator = group->communicator;
    struct monitored_state *state = communicator->monitored;
    struct wait_reason      reason = { .what = "monitored_barrier", .sequence = number - 1, .group = -1, .peer = -1,
                                       .timeout_ps = options->timeout_ps };
    if (reason.timeout_ps == 0)
        reason.timeout_ps = group->timeout_ps;
    bool waits = true;
    while (waits && !has_failed(state, number) &&
           list_missing(communicator, (struct missing){ .number = number }, NULL) > 0)
        waits = may_come(communicator, number, options->all) &&
                monitor_wait(me, &communicator->world->monitor, &reason);
    return waits && !has_failed(state, number);
}

/* ---- over a job: who comes says so in the store ---- */

static void
key_of(const struct communicator *communicator, int64_t number, int rank, char *out, size_t size)
{
    snprintf(out, size, "monitored/%016" PRIx64 "/%" PRId64 "/%d", communicator->id, number, rank);
}

static bool
read_comers(struct task *me, struct process_group *group, int64_t number)
{
    struct communicator *communicator = group->communicator;
    struct store_text    text;
    char                 key[80];
    bool                 there = false, ok = true;
    for (int rank = 0; rank < communicator->size && ok; rank++) {
        if (communicator->monitored->come[rank] >= number)
            continue;
        size_t mark = scope_mark(me);
        key_of(communicator, number, rank, key, sizeof key);
        ok = store_peek(me, group->world->store, key, &text, &there);
        scope_release(me, mark);
        if (there)
            communicator->monitored->come[rank] = number;
    }
    return ok;
}

/* Answers whether all have come. */
static bool
wait_in_store(struct task *me, struct process_group *group, int64_t number, const struct monitored *options)
{
    const struct communicator *communicator = group->communicator;
    struct wait_reason reason = { .what = "monitored_barrier", .sequence = number - 1, .group = -1, .peer = -1 };
    uint64_t limit = options->timeout_ps != 0 ? options->timeout_ps : group->timeout_ps, begin = sched_now(me);
    struct store_text here = { "1", 1 };
    char key[80];
    key_of(communicator, number, group->rank, key, sizeof key);
    limit = limit != 0 ? limit : sched_timeout(me->sched);
    if (!store_multi_set(me, group->world->store, &(const char *){ key }, &here, 1))
        return false;
    while (read_comers(me, group, number)) {
        if (list_missing(communicator, (struct missing){ .number = number }, NULL) == 0)
            return true;
        if (!may_come(communicator, number, options->all) || sched_now(me) - begin >= limit ||
            !sched_poll(me, UINT64_C(2000000000), &reason))
            return false;
    }
    return false;
}

static bool
barrier_lost(struct task *me, struct process_group *group)
{
    const struct error *why   = &group->communicator->monitored->why;
    int                 first = group->communicator->ranks[0];
    char                word[48] = "";
    if (task_failed(me) && me->error.kind != E_DEADLOCK && me->error.kind != E_TIMEOUT)
        return false;
    task_clear_error(me);
    world_wake_all(me, group->world);
    if (first != group->global_rank)
        snprintf(word, sizeof word, " for rank %d's word", first);
    return failed(me, why->kind, "%s; rank %d waits there%s (line %" PRIu32 ")", why->message, group->global_rank,
                  word, me->line);
}

/* dist.monitored_barrier: nobody leaves before all have come, a latency after the last. */
bool
group_monitored_barrier(struct task *me, struct process_group *group,
                        const struct monitored *options)
{
    STAGE(me, c10d_monitored_barrier, group->communicator->size);
    struct monitor *monitor = &group->world->monitor;
    if (task_failed(me))
        return false;
    if (group->is_gone)
        return failed(me, E_RUNTIME, "the process group was destroyed: init it again");
    monitor_enter(me, monitor);
    struct monitored_state *state = state_of(group->communicator);
    int64_t number = state != NULL ? ++state->come[group->rank] : 0;
    monitor_wake(me, monitor);
    bool in_store = group->world->job != NULL, all = false;
    if (state != NULL && in_store) {
        monitor_leave(me, monitor);
        all = wait_in_store(me, group, number, options);
        monitor_enter(me, monitor);
    } else if (state != NULL) {
        all = wait_for_all(me, group, number, options);
    }
    if (state != NULL && !all)
        note_failure(me, group, number, options);
    monitor_leave(me, monitor);
    if (state == NULL)
        return failed(me, E_MEMORY, "out of memory for monitored_barrier");
    if (!all)
        return barrier_lost(me, group);
    if (sched_is_stepped(me->sched))
        sched_advance(me, cost_copy(sched_cost(me->sched), 0));
    return true;
}
