/* A job is made when the program starts, joined when ranks are first needed, left at the end. See job.h. */
#include "c10d/job.h"
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include "base/now.h"
#include "base/vec.h"
#include "c10d/job_internal.h"
#include "c10d/own_host.h"
#include "c10d/store.h"

#define SECOND_PS UINT64_C(1000000000000)

/* ---- made and freed ---- */

struct job *
job_new(const struct job_options *options, char *why, size_t why_size)
{
    struct job *job = calloc(1, sizeof *job);
    if (job == NULL || !monitor_init(&job->monitor)) {
        free(job);
        snprintf(why, why_size, "out of memory");
        return NULL;
    }
    job->options = *options;
    snprintf(job->host, sizeof job->host, "%s", options->host);
    snprintf(job->backend, sizeof job->backend, "%s", options->backend);
    job->options.host    = job->host;
    job->options.backend = job->backend;
    if (job_page_open(job, why, why_size))
        return job;
    job_free(job);
    return NULL;
}

void
job_free(struct job *job)
{
    if (job == NULL)
        return;
    job_pages_end(job);
    job_page_close(job);
    job_free_ends(job);
    monitor_destroy(&job->monitor);
    free(job);
}

/* ---- asked ---- */

struct job *
job_of(const struct sched *sched)
{
    return sched_part((struct sched *)(uintptr_t)sched, PART_JOB);
}

int
job_rank(const struct job *job)
{
    return job->options.rank;
}

int
job_size(const struct job *job)
{
    return job->options.size;
}

int
job_local_rank(const struct job *job)
{
    return job->options.local_rank;
}

int
job_local_size(const struct job *job)
{
    return job->options.local_size;
}

bool
job_is_launched(const struct job *job)
{
    return job->page_is_shared && job->page_fd < 0;
}

const char *
job_backend(const struct job *job)
{
    return job->backend;
}

bool
job_has_joined(const struct job *job)
{
    return job->store != NULL;
}

struct store *
job_store(const struct job *job)
{
    return job->store;
}

const struct transport *
job_transport_table(const struct job *job)
{
    return job->options.transport;
}

/* ---- joined ---- */

/* A process of another job, or of an earlier one that used the address, has the place already. */
static bool
claim_place(struct task *me, struct job *job)
{
    char              key[48], mine[64];
    struct store_text now, pair[2] = { { "", 0 }, { mine, 0 } };
    struct timespec   time;
    clock_gettime(CLOCK_REALTIME, &time);
    snprintf(key, sizeof key, "job/rank/%d", job->options.rank);
    pair[1].count = (size_t)snprintf(mine, sizeof mine, "%lld.%09ld.%p", (long long)time.tv_sec, time.tv_nsec,
                                     (void *)job);
    if (!store_compare_set(me, job->store, key, pair, &now))
        return false;
    job->is_claimed = now.count == pair[1].count && memcmp(now.bytes, mine, now.count) == 0;
    return job->is_claimed ||
           failed(me, E_VALUE, "rank %d of the job at %s:%d is there already: two jobs use one address, or two "
                  "processes have RANK=%d", job->options.rank, job->host, job->options.port, job->options.rank);
}

static bool
agree_on_size(struct task *me, struct job *job)
{
    char              mine[24];
    struct store_text now, pair[2] = { { "", 0 }, { mine, 0 } };
    pair[1].count = (size_t)snprintf(mine, sizeof mine, "%d", job->options.size);
    if (!store_compare_set(me, job->store, "job/size", pair, &now))
        return false;
    return (now.count == pair[1].count && memcmp(now.bytes, mine, now.count) == 0) ||
           failed(me, E_VALUE, "this process has WORLD_SIZE=%d, but the job at %s:%d has %.*s ranks: all must say the "
                  "same", job->options.size, job->host, job->options.port, (int)(now.count < 20 ? now.count : 20),
                  (const char *)now.bytes);
}

static bool
open_store(struct task *me, struct job *job)
{
    uint64_t limit = sched_timeout(me->sched);
    struct store_tcp_options tcp = { .host = job->host, .port = job->options.port, .world_size = -1, .trusted = true,
                                     .is_master = job->options.rank == 0 && !job->options.is_hosted,
                                     .timeout_ps = limit < STORE_USUAL_PS ? limit : STORE_USUAL_PS };
    job->store = store_tcp_new(me, &tcp);
    return job->store != NULL && claim_place(me, job) && agree_on_size(me, job);
}

/* What to look after, in the words of who starts processes. */
static const char *
advice(const struct job *job)
{
    if (job->options.is_hosted)
        return "the launcher of the first machine serves the job's store";
    if (job->options.rank > 0)
        return "rank 0 serves the job's store";
    return "rank 0 serves the job's store: another does so there, or MASTER_ADDR and MASTER_PORT are wrong";
}

/* The error stays in me, with who serves the store: whoever has begun to look for this process learns that it is not
 * there. */
static void
give_up(struct task *me, struct job *job)
{
    struct error error = me->error;
    if (job->is_claimed)
        job_say_end(me, job, -1, &error, NULL); /* to those that wait for this process, which does not come */
    job_watch_end(me, job);
    job_close(job);
    task_clear_error(me);
    if (error.kind == E_DIST_NETWORK)
        failed(me, E_DIST_NETWORK, "%s; %s", error.message, advice(job));
    else
        task_take_error(me, &error);
}

bool
job_join(struct task *me, struct job *job)
{
    if (job->store != NULL || task_failed(me))
        return !task_failed(me);
    size_t mark = scope_mark(me);
    bool   ok   = open_store(me, job) && job_watch_start(me, job) && job_clock_begin(me, job);
    scope_release(me, mark);
    if (ok)
        atomic_store(&job->page->joined, true);
    else
        give_up(me, job);
    return ok;
}

/* ---- the transport ---- */

void *
job_transport(struct task *me, struct job *job)
{
    const struct transport *table = job->options.transport;
    struct transport_why    why   = { "" };
    if (job->transport != NULL)
        return job->transport;
    if (table == NULL)
        return failed_null(me, E_RUNTIME, "%s", job->options.missing != NULL ? job->options.missing
                                                : "this ringside has no back-end for several processes");
    const struct transport_options options = { .rank = job->options.rank, .size = job->options.size,
                                               .host = own_host(job->host, job->own_host, sizeof job->own_host) };
    job->transport = table->open(&options, &why);
    return job->transport != NULL ? job->transport : failed_null(me, E_RUNTIME, "%s: %s", table->name, why.text);
}

/* ---- left ---- */

static struct job_end
end_with(const struct job *job, int world, const struct error *error)
{
    struct job_end end = { .rank = job->options.rank, .world = world, .how = JOB_RETURNED, .exact = true,
                           .ns = wall_ns() };
    if (error != NULL && error->kind != E_NONE) {
        end.how     = JOB_THREW;
        end.line    = error->lesson_line;
        end.of_hang = error_is_of_hang(error);
        snprintf(end.kind, sizeof end.kind, "%s", error_name(error->kind));
        snprintf(end.why, sizeof end.why, "%s", error->message);
    }
    job_fill_groups(job, &end);
    return end;
}

void
job_note_error(struct job *job, const struct error *error)
{
    struct job_end end = end_with(job, -1, error);
    job_note_failure(job, &end);
}

/* Over a connection of its own: whatever became of the run, this is still said. */
void
job_say_end(struct task *me, struct job *job, int world, const struct error *error, const struct str *dump)
{
    struct job_end end = end_with(job, world, error);
    char           why[200];
    (void)me;
    job_note_failure(job, &end);
    if (job->store == NULL || job->is_lost)
        return;
    if (dump == NULL || job_post_last(job->host, job->options.port, &end, dump))
        (void)job_post_end(job->host, job->options.port, &end, why, sizeof why);
    /* who cannot be told knows by himself */
}

/* One that was asked who this process is (mpirun's) wants its end, even if no rank has needed it. */
static void
close_transport(struct job *job)
{
    const struct transport        *table   = job->options.transport;
    const struct transport_options options = { .rank = job->options.rank, .size = job->options.size };
    struct transport_why           why     = { "" };
    if (job->transport == NULL && table != NULL && table->tell_all != NULL)
        job->transport = table->open(&options, &why);
    if (job->transport != NULL)
        table->close(job->transport);
    job->transport = NULL;
}

/* A store that is served by this process is served until the others have gone, for a while if something went wrong. */
void
job_close(struct job *job)
{
    if (job != NULL && job->store != NULL)
        store_drop(NULL, job->store);
    if (job != NULL)
        job->store = NULL;
}

void
job_leave(struct task *me, struct job *job, const struct error *error)
{
    struct error before = me->error, *told = task_failed(me) ? &before : NULL;
    if (error == NULL && told != NULL)
        error = told;
    task_clear_error(me);
    bool well    = error == NULL || error->kind == E_NONE;
    bool answers = error == NULL || (error->kind != E_TIMEOUT && error->kind != E_DIST_NETWORK);
    if (job->watcher != NULL && answers)
        job_clock_end(me, job); /* whom nobody answers measures nothing */
    if (well)
        atomic_store(&job->page->failed_ns, 0); /* what ranks of its spawns failed with, the lesson has caught */
    job_say_end(me, job, -1, error, NULL);
    job_watch_end(me, job);
    close_transport(job);
    if (job->store != NULL)
        store_tcp_linger(job->store, well ? sched_timeout(me->sched) / 1000000000 : 10000);
    atomic_store(&job->page->left, true);
    task_clear_error(me);
    if (told != NULL)
        task_take_error(me, &before);
}
