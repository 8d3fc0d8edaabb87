/* What a plan of faults does in a run: it counts points, messages, allocations and writes, and strikes. Where there is
 * no plan, nothing of it is paid for but a branch.
 *
 * Interface, where it would happen: fault_point, fault_message, fault_strikes; fault_kill, at once; fault_expect for
 * one more. */
#include "sched/faults.h"
#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include "base/str.h"
#include "base/vec.h"
#include "sched/internal.h"
#include "sched/stage.h"
#include "trace/writer.h"

/* ---- the plan ---- */

enum fault_progress { FAULT_EXPECTED, FAULT_DUE /* it strikes, but nobody was told */, FAULT_STRUCK, FAULT_OVER };

struct expected { struct fault fault; uint64_t seen; enum fault_progress progress; };

struct faults {
    struct expected *expected;
    size_t           count, room;
    bool             has_messages;
    struct map       counts;          /* by kind, rank, peer */
};

static bool
is_about_message(enum fault_kind kind)
{
    return kind >= FAULT_LOSE && kind <= FAULT_CUT;
}

/* What is counted alike: a late rank and a killed one, all that befalls messages. */
static enum fault_kind
counted_as(enum fault_kind kind)
{
    return kind == FAULT_LATE ? FAULT_KILL : is_about_message(kind) ? FAULT_LOSE : kind;
}

static uint64_t
count_key(enum fault_kind kind, int rank, int peer)
{
    return ((uint64_t)kind << 32) | ((uint64_t)(uint16_t)(rank + 1) << 16) | (uint16_t)(peer + 1);
}

/* The mutex is held, and in it nothing else is taken. */
static uint64_t
count_one(struct faults *faults, enum fault_kind kind, int rank, int peer)
{
    uint64_t key = count_key(kind, rank, peer), before = 0;
    map_get(&faults->counts, key, &before);
    (void)!map_set(&faults->counts, key, before + 1); /* no memory: the total is short, each fault counts for itself */
    return before;
}

uint64_t
fault_count(struct sched *sched, enum fault_kind kind, int rank, int peer)
{
    uint64_t count = 0;
    pthread_mutex_lock(&sched->fault_mutex);
    if (sched->faults != NULL)
        map_get(&sched->faults->counts, count_key(counted_as(kind), rank, peer), &count);
    pthread_mutex_unlock(&sched->fault_mutex);
    return count;
}

static void
print_unstruck(const struct expected *expected, struct str *out)
{
    const struct fault *fault = &expected->fault;
    str_add(out, "the fault '");
    fault_print(fault, out);
    str_addf(out, "' did not strike: this run has %" PRIu64 " ", expected->seen);
    if (counted_as(fault->kind) == FAULT_KILL)
        str_addf(out, "points of rank %d", fault->rank);
    else if (is_about_message(fault->kind))
        str_addf(out, "messages from rank %d to rank %d", fault->rank, fault->peer);
    else
        str_add(out, fault->kind == FAULT_WRITE ? "writes" : "allocations");
    str_add(out, ", counted from 0");
}

bool
fault_unstruck(struct sched *sched, size_t *next, struct str *out)
{
    bool found = false;
    pthread_mutex_lock(&sched->fault_mutex);
    for (; sched->faults != NULL && *next < sched->faults->count && !found; ++*next) {
        found = sched->faults->expected[*next].progress == FAULT_EXPECTED;
        if (found)
            print_unstruck(&sched->faults->expected[*next], out);
    }
    pthread_mutex_unlock(&sched->fault_mutex);
    return found;
}

/* The trace's writer asks it for each chunk. */
static bool
refuses_chunk(void *sched)
{
    return fault_fills_disk(sched);
}

/* From now on they are counted. */
static void
faults_watch(struct sched *sched)
{
    atomic_store(&sched->facts.faults, true);
    trace_refuse(sched->writer, refuses_chunk, sched);
}

bool
faults_open(struct sched *sched, const struct fault_plan *plan)
{
    sched->faults = calloc(1, sizeof *sched->faults);
    if (sched->faults == NULL)
        return false;
    faults_watch(sched);
    for (size_t i = 0; plan != NULL && i < plan->count; i++)
        if (!fault_expect(sched, &plan->faults[i]))
            return false;
    return true;
}

void
faults_close(struct sched *sched)
{
    if (sched->faults == NULL)
        return;
    trace_refuse(sched->writer, NULL, NULL);
    free(sched->faults->expected);
    map_free(&sched->faults->counts);
    free(sched->faults);
}

bool
fault_expect(struct sched *sched, const struct fault *fault)
{
    pthread_mutex_lock(&sched->fault_mutex);
    struct faults *faults = sched->faults;
    if (faults == NULL)
        faults = sched->faults = calloc(1, sizeof *faults);
    bool ok = faults != NULL && vec_room(&faults->expected, &faults->room, faults->count + 1, sizeof *faults->expected);
    if (ok) {
        faults->expected[faults->count++] = (struct expected){ .fault = *fault };
        faults->has_messages = faults->has_messages || is_about_message(fault->kind);
    }
    pthread_mutex_unlock(&sched->fault_mutex);
    if (ok)
        faults_watch(sched);
    return ok;
}

void
fault_new_world(struct sched *sched)
{
    pthread_mutex_lock(&sched->fault_mutex);
    for (size_t i = 0; sched->faults != NULL && i < sched->faults->count; i++)
        if (sched->faults->expected[i].progress == FAULT_STRUCK)
            sched->faults->expected[i].progress = FAULT_OVER;
    pthread_mutex_unlock(&sched->fault_mutex);
}

bool
fault_has_messages(struct sched *sched)
{
    bool has = false;
    if (!atomic_load(&sched->facts.faults))
        return false;
    pthread_mutex_lock(&sched->fault_mutex);
    has = sched->faults != NULL && sched->faults->has_messages;
    pthread_mutex_unlock(&sched->fault_mutex);
    return has;
}

/* ---- strikes ---- */

/* A fault on purpose: a rank is held up or killed, a message lost, delayed or doubled, memory or a disk refused. Its
 * number says which point, message, request or write that was, counted from when the fault was asked for. */
static void
fault_announce(struct task *me, const struct fault *fault)
{
    static const char *const names[FAULT_KINDS] = { "late", "kill", "lose", "delay", "double", "cut", "allocation",
                                                    "write" };
    int64_t name = stage_text_id(me, names[fault->kind]);
    POINT(me, fault_injected, name, fault->rank, fault->peer, (int64_t)fault->at);
}

/* The mutex is held: it is asked once more; true: this is the time. */
static bool
comes_now(struct expected *expected)
{
    return expected->progress == FAULT_EXPECTED && expected->seen++ == expected->fault.at;
}

static bool
next_due(struct task *me, struct fault *fault)
{
    struct faults *faults = me->sched->faults;
    bool           found  = false;
    for (size_t i = 0; faults != NULL && i < faults->count && !found; i++) {
        struct expected *expected = &faults->expected[i];
        bool mine = counted_as(expected->fault.kind) != FAULT_KILL || expected->fault.rank == me->rank;
        found = expected->progress == FAULT_DUE && mine;
        if (!found)
            continue;
        *fault = expected->fault;
        expected->progress = FAULT_STRUCK;
    }
    return found;
}

static void
count_point(struct task *me)
{
    struct faults *faults = me->sched->faults;
    if (faults == NULL || me->rank < 0)
        return;
    count_one(faults, FAULT_KILL, me->rank, -1);
    for (size_t i = 0; i < faults->count; i++) {
        struct expected *expected = &faults->expected[i];
        if (counted_as(expected->fault.kind) == FAULT_KILL && expected->fault.rank == me->rank && comes_now(expected))
            expected->progress = FAULT_DUE;
    }
}

static void
strike(struct task *me, const struct fault *fault)
{
    fault_announce(me, fault);
    if (fault->kind == FAULT_KILL)
        fault_kill(me->sched, NULL, fault->rank);
    else if (fault->kind == FAULT_LATE)
        me->sched->executor->late(me, fault->ps);
}

void
fault_point(struct task *me)
{
    struct sched *sched = me->sched;
    struct fault  fault;
    if (machine_of(me) == NULL) /* a source that fires */
        return;
    if (task_is_killed(me)) {
        (void)task_die(me);
        return;
    }
    pthread_mutex_lock(&sched->fault_mutex);
    count_point(me);
    while (next_due(me, &fault)) {
        pthread_mutex_unlock(&sched->fault_mutex);
        strike(me, &fault);
        pthread_mutex_lock(&sched->fault_mutex);
    }
    pthread_mutex_unlock(&sched->fault_mutex);
    if (task_is_killed(me))
        (void)task_die(me);
}

struct fault_message
fault_message(struct task *me, int from, int to)
{
    struct fault_message  message = { 0 };
    struct fault          told[FAULT_KINDS];
    size_t                told_count = 0;
    struct sched         *sched  = me->sched;
    pthread_mutex_lock(&sched->fault_mutex);
    struct faults *faults = sched->faults;
    if (faults != NULL)
        message.number = count_one(faults, FAULT_LOSE, from, to);
    for (size_t i = 0; faults != NULL && i < faults->count; i++) {
        struct expected *expected = &faults->expected[i];
        struct fault    *fault    = &expected->fault;
        if (!is_about_message(fault->kind) || fault->rank != from || fault->peer != to)
            continue;
        bool now = comes_now(expected), dead = fault->kind == FAULT_CUT && expected->progress == FAULT_STRUCK;
        if (!now && !dead)
            continue;
        message.is_lost    = message.is_lost || fault->kind == FAULT_LOSE || fault->kind == FAULT_CUT;
        message.is_cut     = message.is_cut || fault->kind == FAULT_CUT;
        message.is_doubled = message.is_doubled || fault->kind == FAULT_DOUBLE;
        message.delay_ps  += fault->kind == FAULT_DELAY ? fault->ps : 0;
        message.number     = fault->at;
        expected->progress = FAULT_STRUCK;
        if (now && told_count < countof(told))
            told[told_count++] = *fault;
    }
    pthread_mutex_unlock(&sched->fault_mutex);
    for (size_t i = 0; i < told_count; i++)
        fault_announce(me, &told[i]);
    return message;
}

bool
fault_strikes(struct sched *sched, enum fault_kind kind)
{
    bool struck = false;
    pthread_mutex_lock(&sched->fault_mutex);
    struct faults *faults = sched->faults;
    if (faults != NULL)
        count_one(faults, kind, -1, -1);
    for (size_t i = 0; faults != NULL && i < faults->count; i++) {
        struct expected *expected = &faults->expected[i];
        if (expected->fault.kind != kind || !comes_now(expected))
            continue;
        expected->progress = FAULT_DUE;
        struck = true;
    }
    pthread_mutex_unlock(&sched->fault_mutex);
    return struck;
}

bool
fault_fills_disk(struct sched *sched)
{
    if (sched == NULL || !atomic_load(&sched->facts.faults) || !fault_strikes(sched, FAULT_WRITE))
        return false;
    errno = ENOSPC;
    return true;
}

/* ---- a rank is gone ---- */

/* The oldest of its tasks tells it as an error, the others end without a word. */
static bool
mark_killed(struct sched *sched, int rank)
{
    bool any = false;
    pthread_mutex_lock(&sched->registry);
    for (struct machine *machine = sched->first; machine != NULL; machine = machine->next) {
        struct task *task = &machine->task;
        if (task->rank != rank || __atomic_load_n(&task->dead, __ATOMIC_ACQUIRE) || task_is_killed(task))
            continue;
        atomic_store(&task->killed, any ? KILLED : KILLED_TELLS);
        any = true;
    }
    pthread_mutex_unlock(&sched->registry);
    return any;
}

bool
fault_kill(struct sched *sched, struct task *me, int rank)
{
    struct fault fault = { .kind = FAULT_KILL, .rank = rank, .peer = -1 };
    if (rank < 0 || !mark_killed(sched, rank))
        return false;
    atomic_store(&sched->facts.faults, true);
    if (me != NULL)
        fault_announce(me, &fault);
    sched->executor->killed(sched, rank);
    return true;
}

/* A process that is killed while an exception travels up in it tells nobody of that. The end of the whole run goes
 * on. */
bool
task_die(struct task *me)
{
    if (me->error.kind != E_KILLED && me->error.kind != E_STOPPED && me->error.kind != E_ENOUGH)
        task_clear_error(me);
    return failed(me, E_KILLED, "rank %d was killed", me->rank);
}
