/* Why nobody goes on: makes a flight of what a world's recorders and tasks say, and has it explained.
 * Order of use: hang_watch, then whoever stops asks (the scheduler through its explainer, a wait in vain, the ledger
 * where calls differ), hang_unwatch. PyTorch: the watchdog's desync report, the Flight Recorder's analyser. */
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "base/dtype.h"
#include "base/shape.h"
#include "c10d/internal.h"
#include "sched/account.h"

enum { COLUMNS = 80, CALLS_AT_LEAST = 64 };
static const char before_report[] = "ringside: MismatchError: ";

/* ---- groups and calls ---- */

/* All that were ever made: those of an earlier init_process_group have the numbers of later ones. */
void
hang_add_groups(const struct world *world, struct flight *flight)
{
    const struct communicator *newest = atomic_load(&world->communicators);
    int count = newest != NULL ? newest->index + 1 : 0;
    const struct communicator **list = calloc((size_t)count + 1, sizeof *list);
    flight->broken = flight->broken || list == NULL;
    for (const struct communicator *at = newest; list != NULL && at != NULL; at = at->next)
        list[at->index] = at;
    for (int i = 0; list != NULL && i < count; i++) {
        char name[24];
        snprintf(name, sizeof name, "%d", list[i]->number);
        flight_group(flight, name, list[i]->number == 0 ? "default_pg" : NULL, list[i]->ranks, list[i]->size);
    }
    free(list);
}

static void
print_sizes(const struct fingerprint *print, struct str *out)
{
    str_add(out, "[");
    for (int i = 0; i < print->lengths && i < FINGERPRINT_LENGTHS; i++)
        str_addf(out, "%s[%" PRId64 "]", i > 0 ? ", " : "", print->length[i]);
    if (print->lengths > FINGERPRINT_LENGTHS)
        str_add(out, ", ...");
    if (print->dims >= 0 && print->dtype >= 0)
        shape_print(print->dims, print->size, out);
    str_add(out, "]");
}

static void
print_details(const struct fingerprint *print, struct str *out)
{
    if (print->sparse)
        str_add(out, "sparse ");
    if (print->in_one)
        str_add(out, "in one tensor ");
    if (print->op == REDUCE_PREMUL_SUM && operation_reduces(print->operation))
        str_addf(out, "times %.9g ", print->factor);
    if (print->algorithm[0] != '\0')
        str_addf(out, "by %s ", print->algorithm);
    if (print->ring_forwards)
        str_add(out, "ring forwards ");
    if (out->len > 0)
        out->text[--out->len] = '\0';
}

static void
add_call(struct flight *flight, const struct process_group *group, const struct recorded *call)
{
    const struct fingerprint *print = &call->print;
    struct str sizes = { 0 }, details = { 0 };
    char       dtype[40] = "[]";
    print_sizes(print, &sizes);
    print_details(print, &details);
    if (print->dtype >= 0)
        snprintf(dtype, sizeof dtype, "[%s]", dtype_name((enum dtype)print->dtype));
    struct flight_entry entry = {
        .record = call->record, .sequence = call->sequence, .op = -1, .group = group->communicator->index,
        .is_p2p = call->is_p2p, .state = call->state, .retired = call->state == FLIGHT_COMPLETED,
        .operation = operation_name(print->operation), .backend = group->world->backend->name,
        .input_sizes = str_text(&sizes), .output_sizes = str_text(&sizes),
        .input_dtypes = dtype, .output_dtypes = dtype, .details = str_text(&details),
        .reduce_op = operation_reduces(print->operation) ? reduce_op_name(print->op) : NULL,
        .root = print->root, .peer = call->peer, .tag = call->is_p2p ? call->tag : -1, .line = call->line,
        .created_ns = (int64_t)(call->created_ps / 1000), .started_ns = (int64_t)(call->started_ps / 1000),
        .completed_ns = (int64_t)(call->completed_ps / 1000), .timeout_ms = (int64_t)(call->timeout_ps / 1000000000),
    };
    flight->broken = flight->broken || !str_ok(&sizes) || !str_ok(&details);
    flight_enter(flight, group->global_rank, &entry);
    str_free(&sizes);
    str_free(&details);
}

/* As many as the ranks of the group are apart, and some before them. */
static size_t
calls_worth(const struct communicator *communicator)
{
    int64_t most = 0, least = INT64_MAX;
    if (communicator->world->job != NULL) /* how far the others are nobody knows here */
        return CALLS_AT_LEAST;
    for (int i = 0; i < communicator->size; i++) {
        int64_t issued = atomic_load(&communicator->issued[i]);
        most  = issued > most ? issued : most;
        least = issued < least ? issued : least;
    }
    return (size_t)(most - least) + CALLS_AT_LEAST;
}

static void
add_calls(struct process_group *group, bool all, struct flight *flight)
{
    size_t           most  = all ? group->recorder.room : calls_worth(group->communicator);
    struct recorded *calls = NULL;
    most  = most < group->recorder.room ? most : group->recorder.room;
    calls = malloc(most * sizeof *calls);
    flight->broken = flight->broken || calls == NULL;
    size_t count = calls != NULL ? recorder_copy(&group->recorder, calls, most) : 0;
    for (size_t i = 0; i < count; i++)
        add_call(flight, group, &calls[i]);
    free(calls);
}

static int
compare_records(const void *a, const void *b)
{
    int64_t first = ((const struct flight_entry *)a)->record, second = ((const struct flight_entry *)b)->record;
    return (first > second) - (first < second);
}

/* ---- what each rank does now ---- */

#define WORTH_TELLING 100000000000ull   /* ps: a tenth of a second */

struct wait_reason
work_reason(const struct work *work, int peer)
{
    uint64_t own = work->call.options.timeout_ps;
    return (struct wait_reason){ .what = operation_name(work->call.operation), .sequence = work->call.sequence,
                                 .group = work->group->communicator->index,
                                 .peer  = process_group_global_rank(work->group, peer),
                                 .timeout_ps = own != 0 ? own : work->group->timeout_ps };
}


struct look { const struct world *world; struct flight *flight; bool *seen; };

/* What it waits for in the end: a wait for a task is that task's. In the registry. */
static const struct wait_reason *
innermost_wait(const struct task *task)
{
    enum { DEEP = 8 };
    const struct wait_reason *reason = task->waiting;
    for (int depth = 0; depth < DEEP && reason->join && reason->holder != NULL; depth++) {
        const struct wait_reason *further = reason->holder->waiting;
        if (further == NULL || further->idle)
            break;
        reason = further;
    }
    return reason;
}

/* What its detail says is in peer and tag. */
static bool
is_p2p(const struct wait_reason *reason)
{
    return strstr(reason->what, "send") != NULL || strstr(reason->what, "recv") != NULL;
}

/* All that wait for a member to come wait for the same: whose message each needs next is of no interest. */
static bool
waits_for_comers(const struct flight *flight, const struct flight_rank *rank)
{
    const struct flight_group *group = rank->group >= 0 ? &flight->groups[rank->group] : NULL;
    for (int i = 0; group != NULL && i < group->size; i++)
        if (group->progress[i].enqueued < rank->sequence)
            return true;
    return false;
}

static void
note_wait(struct flight *flight, struct flight_rank *rank, const struct wait_reason *reason)
{
    rank->now      = FLIGHT_WAITING;
    rank->waits_in = flight_text(flight, reason->what);
    rank->detail   = is_p2p(reason) && !reason->lost ? NULL : flight_text(flight, reason->detail);
    rank->lost     = reason->lost;
    bool collective = reason->sequence >= 0 && reason->group >= 0 && reason->group < flight->group_count;
    rank->sequence = collective ? reason->sequence : -1;
    rank->group    = collective ? reason->group : -1;
    rank->peer     = wait_reason_peer(reason);
    rank->tag      = reason->tag;
    if (!reason->lost && waits_for_comers(flight, rank))
        rank->peer = -1;
}

/* The first that has not come to init_process_group, where `rank` waits; -1: all have, so that it goes on. */
static int
not_joined(const struct world *world, int rank)
{
    int joined = atomic_load(&world->ranks[rank].joined);
    for (int other = 0; other < world->size; other++)
        if (atomic_load(&world->ranks[other].joined) < joined)
            return other;
    return -1;
}

/* Without a job a rank meets the others in the world's store: whom it waits for is not in its own reason. */
static void
note_rendezvous(const struct world *world, struct flight_rank *rank, int number)
{
    if (world->job != NULL || rank->waits_in == NULL || strcmp(rank->waits_in, "init_process_group") != 0)
        return;
    rank->peer = not_joined(world, number);
    if (rank->peer < 0)
        rank->now = FLIGHT_RUNNING;
}

/* The first task of a rank is its main one. */
static void
look_at_task(void *context, const struct task *task)
{
    struct look *look = context;
    if (task->rank < 0 || task->rank >= look->world->size || look->seen[task->rank])
        return;
    struct flight_rank *rank = &look->flight->ranks[task->rank];
    uint64_t            now  = sched_time(task->sched);
    look->seen[task->rank] = true;
    rank->line     = task_line(task);
    rank->since_ps = task->since > 0 && now >= task->since + WORTH_TELLING ? now - task->since : 0;
    rank->now      = FLIGHT_RUNNING;
    if (task->waiting == NULL || task->waiting->idle)
        return;
    note_wait(look->flight, rank, innermost_wait(task));
    note_rendezvous(look->world, rank, task->rank);
}

void
hang_look_at_ranks(struct sched *sched, const struct world *world, struct flight *flight)
{
    struct look look = { world, flight, calloc((size_t)world->size + 1, sizeof(bool)) };
    flight->broken   = flight->broken || look.seen == NULL;
    if (!flight->broken)
        sched_each_task(sched, look_at_task, &look);
    if (!flight->broken)
        hang_look_at_ends(world, flight);
    free(look.seen);
}

/* ---- the flight ---- */

void
hang_fill(struct sched *sched, struct world *world, bool all, struct flight *flight)
{
    flight_size(flight, world->size);
    flight->before = (int)strlen(before_report);
    hang_add_groups(world, flight);
    for (struct process_group *group = world->groups; group != NULL && !flight->broken; group = group->next)
        if (group->communicator->index < flight->group_count)
            add_calls(group, all, flight);
    for (int i = 0; i < flight->rank_count; i++)
        if (flight->ranks[i].count > 1)
            qsort(flight->ranks[i].entries, flight->ranks[i].count, sizeof *flight->ranks[i].entries, compare_records);
    if (!flight->broken)
        hang_look_at_ranks(sched, world, flight);
}

void
flight_of_world(struct task *me, struct world *world, struct flight *flight)
{
    hang_fill(me->sched, world, true, flight);
}

/* false: what is known explains nothing. */
bool
hang_tell(const struct flight *flight, struct str *out)
{
    struct hang hang;
    if (flight->broken)
        return false;
    flight_diagnose(flight, &hang);
    if (hang.cause == HANG_NONE || hang.cause == HANG_UNKNOWN)
        return false;
    hang_print(flight, &hang, COLUMNS, out);
    while (out->len > 0 && out->text[out->len - 1] == '\n')
        out->text[--out->len] = '\0';
    return str_ok(out);
}

/* An error's message holds so much. */
static void
clip_lines(struct str *out)
{
    str_clip_lines(out, sizeof((struct error *)NULL)->message - 4);
}

/* What comes now follows from what was told. */
static bool
report_stands(const struct world *world)
{
    return atomic_load(&world->report) != NULL && !atomic_load(&world->goes_on);
}

/* The first one is kept until the ranks go on; false: there is one. Those of the past are still read. */
static bool
keep_report(struct world *world, const struct str *text)
{
    struct report *older = atomic_load(&world->report);
    struct report *made  = report_stands(world) ? NULL : malloc(sizeof *made + text->len + 1);
    if (made == NULL)
        return false;
    *made = (struct report){ .older = older, .order = sched_errors(world->sched) };
    memcpy(made->text, str_text(text), text->len + 1);
    if (atomic_compare_exchange_strong(&world->report, &older, made)) {
        atomic_store(&world->goes_on, false);
        return true;
    }
    free(made);
    return false;
}

const char *
world_report(const struct world *world, unsigned order)
{
    const struct report *report = atomic_load(&world->report);
    while (report != NULL && report->older != NULL && report->order > order)
        report = report->older;
    return report != NULL ? report->text : NULL;
}

/* It did nothing but its own work for most of the run; who is stopped between two calls is no culprit. */
static bool
is_stuck_outside(const struct world *world, const struct flight *flight, int rank)
{
    if (rank < 0 || rank >= world->size)
        return false;
    if (!sched_is_stepped(world->sched))
        return flight->ranks[rank].since_ps > 0;
    uint64_t done = account_done(world->sched), before = atomic_load(&world->ranks[rank].worked);
    return done > before && (done - before) > done / 4 * 3;
}

/* A run that is stopped need not hang. */
static bool
is_worth_telling(const struct world *world, const struct flight *flight)
{
    struct hang hang;
    if (flight->broken || flight->why != FLIGHT_INTERRUPTED)
        return !flight->broken;
    flight_diagnose(flight, &hang);
    if (hang.cause == HANG_OUTSIDE)
        return is_stuck_outside(world, flight, hang.culprit);
    return hang.cause != HANG_LATE;
}

static bool
explain_world(void *context, const struct stop *stop, struct str *out)
{
    struct world *world  = context;
    struct flight flight = { .why = stop->cause == STOP_DEADLOCK ? FLIGHT_DEADLOCK
                                  : stop->cause == STOP_TIMEOUT ? FLIGHT_TIMEOUT : FLIGHT_INTERRUPTED,
                             .after_ps = stop->limit_ps };
    hang_fill(world->sched, world, false, &flight);
    hang_complete(world, &flight);
    bool busy = flight.why == FLIGHT_INTERRUPTED && !flight.broken && !is_worth_telling(world, &flight);
    bool told = !busy && hang_tell(&flight, out);
    flight_free(&flight);
    if (!told)
        return busy; /* then there is nothing to say */
    clip_lines(out);
    keep_report(world, out);
    return true;
}

void
hang_watch(struct sched *sched, struct world *world)
{
    world->sched     = sched;
    world->explainer = (struct explainer){ world, explain_world };
    world->before    = sched_set_explainer(sched, &world->explainer);
}

void
hang_unwatch(struct world *world)
{
    if (world->sched != NULL)
        sched_set_explainer(world->sched, world->before);
    for (struct report *report = world->report, *older; report != NULL; report = older) {
        older = report->older;
        free(report);
    }
    world->report = NULL;
}

bool
hang_of_mismatch(struct task *me, const struct work *work, struct str *out)
{
    struct world            *world  = work->group->world;
    const struct wait_reason reason = work_reason(work, -1);
    struct flight            flight = { .why = FLIGHT_MISMATCH };
    hang_fill(me->sched, world, false, &flight);
    if (!flight.broken && me->rank >= 0 && me->rank < flight.rank_count)
        note_wait(&flight, &flight.ranks[me->rank], &reason);
    bool told = hang_tell(&flight, out);
    flight_free(&flight);
    clip_lines(out);
    if (told)
        keep_report(world, out);
    return told;
}

/* As the rank's own task sees it: it is about to wait for this. */
static bool
report_in_vain(struct task *me, struct world *world, const struct wait_reason *reason, struct str *out)
{
    struct flight flight = { .why = FLIGHT_DEADLOCK };
    hang_fill(me->sched, world, false, &flight);
    struct flight_rank *rank = me->rank >= 0 && me->rank < flight.rank_count ? &flight.ranks[me->rank] : NULL;
    if (!flight.broken && rank != NULL && (rank->now == FLIGHT_RUNNING || reason->sequence >= 0 || reason->peer >= 0 ||
                                           rank->peer < 0))
        note_wait(&flight, rank, reason);
    hang_complete(world, &flight);
    rank = me->rank >= 0 && me->rank < flight.rank_count ? &flight.ranks[me->rank] : NULL;
    if (!flight.broken && rank != NULL && rank->now == FLIGHT_WAITING && wait_reason_peer(reason) >= 0) {
        rank->peer    = wait_reason_peer(reason);
        rank->in_vain = true;
    }
    bool told = hang_tell(&flight, out);
    flight_free(&flight);
    clip_lines(out);
    return told;
}

/* Somebody does already. */
static bool
waits_for(const struct flight *flight, int rank)
{
    struct hang hang;
    flight_diagnose(flight, &hang);
    return hang.cause == HANG_OUTSIDE && hang.culprit == rank && hang.victim >= 0;
}

bool
world_rank_cut_off(struct task *me, struct world *world)
{
    struct flight flight = { .why = FLIGHT_INTERRUPTED };
    struct str    report = { 0 };
    if (!sched_is_stepped(me->sched) || report_stands(world))
        return false;
    hang_fill(me->sched, world, false, &flight);
    if (!flight.broken) {
        flight.ranks[me->rank].line     = me->error.lesson_line;
        flight.ranks[me->rank].since_ps = 0;
    }
    bool stuck = !flight.broken && is_stuck_outside(world, &flight, me->rank);
    if (stuck)
        atomic_store(&world->stuck, true);
    if (stuck && waits_for(&flight, me->rank) && hang_tell(&flight, &report)) {
        clip_lines(&report);
        keep_report(world, &report);
    }
    flight_free(&flight);
    str_free(&report);
    return stuck;
}

bool
hang_differs(struct task *me, struct world *world, const char *report)
{
    struct str text = { 0 };
    str_add(&text, report);
    if (str_ok(&text) && !report_stands(world))
        keep_report(world, &text);
    str_free(&text);
    return failed(me, E_MISMATCH, "%s", report);
}

bool
hang_in_vain(struct task *me, struct world *world, const struct wait_reason *reason, const char *format, ...)
{
    char    words[1024];
    va_list args;
    va_start(args, format);
    vsnprintf(words, sizeof words, format, args);
    va_end(args);
    if (account_closed(me->sched) && (world == NULL || !atomic_load(&world->stuck))) /* over for all */
        return sched_goes_on(me) && failed(me, E_STOPPED, "the run is over");
    struct str report = { 0 };
    bool told = world != NULL && !report_stands(world) && report_in_vain(me, world, reason, &report) &&
                keep_report(world, &report);        /* of several that find it at once, one tells all of it */
    if (!told) {
        str_free(&report);
        return failed(me, E_DEADLOCK, "%s", words);
    }
    sched_announce_deadlock(me, 1, str_text(&report));
    failed(me, E_DEADLOCK, "%s", str_text(&report));
    str_free(&report);
    return false;
}
