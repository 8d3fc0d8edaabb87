/* The watcher: a task that follows the log of ends, so that every process learns at once who died, and that keeps the
 * process's own last will up to date. It has a connection of its own, whose end means this process's.
 * Order of use: job_watch_start, meanwhile job_add_world, job_ends; job_watch_end. PyTorch: the NCCL watchdog and
 * torchrun's agent, of which neither tells the other ranks who it was. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "base/str.h"
#include "base/vec.h"
#include "c10d/job_internal.h"
#include "c10d/store.h"

enum { ROUND_MS = 50, SHORT_MS = 5, SILENCE_MS = 30000 };
#define GRACE_PS UINT64_C(1000000000000)   /* for the launcher to say more than a lost connection does */

/* ---- what is known; in the monitor ---- */

bool
job_process_ended(const struct job *job, int rank)
{
    for (size_t i = 0; i < job->end_count; i++)
        if (job->ends[i].rank == rank && job->ends[i].world < 0)
            return true;
    return false;
}

static bool
is_known(const struct job *job, const struct job_end *end)
{
    for (size_t i = 0; i < job->end_count; i++)
        if (job->ends[i].rank == end->rank && job->ends[i].world == end->world)
            return true;
    return false;
}

static void
tell_worlds(struct task *me, struct job *job, const struct job_end *end)
{
    for (struct job_world *world = job->worlds; world != NULL; world = world->next)
        if (end->world < 0 || end->world == world->number)
            world->kind->gone(me, world->world, end);
}

/* Without memory the worlds are told all the same. */
static void
keep_end(struct task *me, struct job *job, const struct job_end *end)
{
    if (is_known(job, end))
        return;
    if (vec_room(&job->ends, &job->end_room, job->end_count + 1, sizeof *job->ends))
        job->ends[job->end_count++] = *end;
    tell_worlds(me, job, end);
}

/* What a last will says may be said better within a second, where a launcher looks after its processes. */
static bool
put_off(struct task *me, struct job *job, const struct job_end *end)
{
    if (end->exact || !job->options.is_hosted || is_known(job, end))
        return false;
    job->wills[end->rank]      = *end;
    job->will_until[end->rank] = sched_now(me) + GRACE_PS;
    return true;
}

void
job_note_end(struct task *me, struct job *job, const struct job_end *given)
{
    struct job_end seen = *given, *end = &seen;
    if (end->rank < 0 || end->rank >= job->options.size)
        return;
    job_pages_fill(job, end);
    monitor_enter(me, &job->monitor);
    if (!put_off(me, job, end)) {
        keep_end(me, job, end);
        if (end->world < 0)
            job->will_until[end->rank] = 0;
    }
    monitor_wake(me, &job->monitor);
    monitor_leave(me, &job->monitor);
}

static void
carry_out_wills(struct task *me, struct job *job)
{
    monitor_enter(me, &job->monitor);
    for (int rank = 0; rank < job->options.size; rank++)
        if (job->will_until[rank] > 0 && sched_now(me) >= job->will_until[rank]) {
            job->will_until[rank] = 0;
            keep_end(me, job, &job->wills[rank]);
        }
    monitor_leave(me, &job->monitor);
}

size_t
job_ends(struct task *me, struct job *job, int world, struct job_end *out, size_t room)
{
    size_t count = 0;
    monitor_enter(me, &job->monitor);
    for (size_t i = 0; i < job->end_count && count < room; i++)
        if (job->ends[i].world == world || job->ends[i].world < 0)
            out[count++] = job->ends[i];
    monitor_leave(me, &job->monitor);
    return count;
}

bool
job_has_lost(struct task *me, struct job *job, const int *ranks, int count)
{
    bool lost = false;
    monitor_enter(me, &job->monitor);
    for (size_t i = 0; i < job->end_count && !lost; i++)
        for (int k = 0; k < count; k++)
            lost = lost || (ranks[k] == job->ends[i].rank && job->ends[i].world < 0 &&
                            job->ends[i].how != JOB_RETURNED);
    monitor_leave(me, &job->monitor);
    return lost;
}

int
job_number_world(struct task *me, struct job *job)
{
    monitor_enter(me, &job->monitor);
    int number = job->worlds_made++;
    monitor_leave(me, &job->monitor);
    return number;
}

void
job_add_world(struct task *me, struct job *job, struct job_world *world)
{
    monitor_enter(me, &job->monitor);
    world->next = job->worlds;
    job->worlds = world;
    for (size_t i = 0; i < job->end_count; i++)
        if (job->ends[i].world < 0 || job->ends[i].world == world->number)
            world->kind->gone(me, world->world, &job->ends[i]);
    monitor_leave(me, &job->monitor);
}

void
job_remove_world(struct task *me, struct job *job, struct job_world *world)
{
    monitor_enter(me, &job->monitor);
    struct job_world **place = &job->worlds;
    while (*place != NULL && *place != world)
        place = &(*place)->next;
    if (*place != NULL)
        *place = world->next;
    monitor_leave(me, &job->monitor);
}

void
job_free_ends(struct job *job)
{
    free(job->ends);
    free(job->wills);
    free(job->will_until);
}

/* ---- the log ---- */

static bool
read_entry(struct task *me, struct job *job)
{
    char              key[48];
    struct store_text text;
    struct job_end    end;
    bool              there = false;
    snprintf(key, sizeof key, JOB_LOG "%" PRId64, job->next_entry);
    if (!store_peek(me, job->watched, key, &text, &there))
        return false;
    if (!there)
        return true;
    job->next_entry++;
    if (job_is_ask(text.bytes))
        return job_answer(me, job, text.bytes, job->next_entry - 1);
    if (job_is_stop(text.bytes))
        job_stop(me, job, text.bytes);
    else if (job_end_parse(text.bytes, &end))
        job_note_end(me, job, &end);
    return true;
}

static bool
read_log(struct task *me, struct job *job)
{
    char key[48];
    bool there = false;
    snprintf(key, sizeof key, JOB_LOG "%" PRId64, job->next_entry);
    if (!store_check_within(me, job->watched, key, job_pages_wait(job) ? SHORT_MS : ROUND_MS, &there))
        return false;
    return !there || read_entry(me, job);
}

/* ---- the own will ---- */

static bool
print_own(struct task *me, const struct job *job, struct str *out)
{
    struct job_page own;
    struct job_end  end;
    job_page_own(job, &own);
    job_end_of_page(&own, job->options.rank, "ended without a word", &end);
    end.how   = JOB_LOST;
    end.exact = false;
    end.ns    = 0;
    job_end_print(&end, out);
    return str_ok(out) || failed(me, E_MEMORY, "out of memory");
}

/* Rank 0 tells it beforehand where it serves the store: with it goes who could say it afterwards. */
static bool
renew_will(struct task *me, struct job *job)
{
    unsigned turn = atomic_load(&job->page->turn);
    uint64_t limit = sched_timeout(me->sched) / 1000000000;
    if (job->has_will && turn == job->page_turn)
        return true;
    struct str text = { 0 };
    bool       ok   = print_own(me, job, &text);
    struct store_text entry = { str_text(&text), text.len };
    ok = ok && store_will(me, job->watched, JOB_LOG, &entry, (int64_t)(limit < SILENCE_MS ? limit : SILENCE_MS));
    if (ok && job->options.rank == 0 && !job->options.is_hosted)
        ok = store_multi_set(me, job->watched, &(const char *){ "job/now/0" }, &entry, 1);
    str_free(&text);
    job->page_turn = turn;
    job->has_will  = true;
    return ok;
}

static bool
look_at_host(struct task *me, struct job *job)
{
    struct store_text text;
    struct job_end    end;
    bool              there = false;
    if (job->options.rank == 0 || job->options.is_hosted)
        return true;
    if (!store_peek(me, job->watched, "job/now/0", &text, &there))
        return false;
    if (there && job_end_parse(text.bytes, &end))
        job->of_host = end;
    return true;
}

/* ---- the task ---- */

static bool
is_stopping(struct task *me, struct job *job)
{
    monitor_enter(me, &job->monitor);
    bool stopping = job->stopping;
    monitor_leave(me, &job->monitor);
    return stopping;
}

/* Who served the store is gone. */
static void
store_is_gone(struct task *me, struct job *job)
{
    char           words[400];
    struct job_end end = job->of_host;
    task_clear_error(me);
    job->is_lost = true;
    if (job->options.rank == 0 || job->options.is_hosted) {
        snprintf(words, sizeof words, "the job's store at %s:%d is gone: %s", job->host, job->options.port,
                 job->options.is_hosted ? "its launcher has ended, or this process has stood still for long"
                                        : "its server has ended");
        sched_stop(me->sched, E_DIST_NETWORK, words);
        return;
    }
    end.rank  = 0;
    end.world = -1;
    end.how   = JOB_LOST;
    end.exact = true;
    snprintf(end.why, sizeof end.why, "ended without a word");
    job_note_end(me, job, &end);
}

static bool
watch(struct task *me, void *argument)
{
    struct job *job = argument;
    me->is_carrier  = true;
    while (!is_stopping(me, job)) {
        size_t mark = scope_mark(me);
        bool   ok   = job_pages_look(me, job) && renew_will(me, job) && read_log(me, job) && look_at_host(me, job) &&
                      job_look_for_standstill(me, job);
        scope_release(me, mark);
        carry_out_wills(me, job);
        if (ok)
            continue;
        if (!is_stopping(me, job) && !sched_is_stopping(me))
            store_is_gone(me, job);
        break;
    }
    task_clear_error(me);
    return true;
}

bool
job_watch_start(struct task *me, struct job *job)
{
    size_t size     = (size_t)job->options.size;
    job->wills      = calloc(size, sizeof *job->wills);
    job->will_until = calloc(size, sizeof *job->will_until);
    if (job->wills == NULL || job->will_until == NULL)
        return failed(me, E_MEMORY, "out of memory for a job of %d ranks", job->options.size);
    job->watched = store_clone(me, job->store);
    /* The will first: who has joined may be gone before the task has begun. */
    if (job->watched == NULL || !renew_will(me, job) || !job_pages_begin(me, job))
        return false;
    struct task_options options = { .name = "job", .rank = -1, .device = -1, .idle_ok = true };
    job->watcher = task_spawn(me, &options, watch, job);
    return job->watcher != NULL;
}

void
job_watch_end(struct task *me, struct job *job)
{
    struct error discarded;
    monitor_enter(me, &job->monitor);
    job->stopping = true;
    monitor_leave(me, &job->monitor);
    if (job->watcher != NULL)
        task_join(me, job->watcher, &discarded);
    job->watcher = NULL;
    store_drop(me, job->watched);
    job->watched = NULL;
}
