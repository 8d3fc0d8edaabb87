/* dist.spawn where several processes run the lesson, as a job: each runs the function of its own rank, or, where
 * there are more ranks than processes, the first runs them all. Then every process tells the others how that went,
 * and what it answered, and the first says what the lesson is told, so that all processes go on the same way.
 *
 * In the job's store, K counts the lesson's spawns: "lesson/K/part/P" is what process P has to tell (a `part`
 * below), "lesson/K/outcome" the error that all raise.
 *
 * Interface: spawn_in_job. */
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "base/vec.h"
#include "c10d/job.h"
#include "device/device.h"
#include "lua/lesson.h"
#include "lua/share.h"
#include "lua/spawned.h"
#include "lua/trace_job.h"
#include "sched/sched.h"

enum { KEY = 64 };

static void
part_key(unsigned number, int process, char key[KEY])
{
    snprintf(key, KEY, "lesson/%u/part/%d", number, process);
}

/* ---- what this process tells: how many ranks are spawned, then each of its ranks; the checks ---- */

static void
write_rank(const struct rank *rank, struct str *out)
{
    share_add_number(out, rank->context.rank);
    share_add_number(out, rank->stuck);
    share_add_number(out, rank->error.order);
    share_add_error(out, &rank->error);
    share_add_block(out, rank->pickled, rank->pickled_size);
}

/* Of a task that has failed in other ways than by a rank: `own`, for all ranks that it has. */
static bool
tell_part(struct task *me, struct spawn *spawn, const struct share *share, const struct error *own)
{
    struct str out = { 0 };
    char       key[KEY];
    int        mine = 0;
    for (int i = 0; i < spawn->count; i++)
        mine += spawn->ranks[i].spawn != NULL;
    share_add_number(&out, spawn->count);
    share_add_error(&out, own);
    share_add_number(&out, mine);
    for (int i = 0; i < spawn->count; i++)
        if (spawn->ranks[i].spawn != NULL)
            write_rank(&spawn->ranks[i], &out);
    if (spawn->lesson != NULL)
        lesson_write_checks(me, spawn->lesson, &out);
    part_key(spawn->number, job_rank(spawn->job), key);
    bool ok = share_put(me, share, key, &out);
    str_free(&out);
    return ok;
}

/* ---- what the others tell ---- */

static bool
read_rank(struct task *me, struct spawn *spawn, struct reader *in)
{
    int64_t       number = share_read_number(in), stuck = share_read_number(in), order = share_read_number(in);
    struct error  error;
    size_t        size;
    share_read_error(in, &error);
    const void *pickled = share_read_block(in, &size);
    if (in->broken || number < 0 || number >= spawn->count)
        return failed(me, E_RUNTIME, "another process of the job told nonsense about a rank");
    struct rank *rank = &spawn->ranks[number];
    rank->context.rank = (int)number;
    rank->stuck        = stuck != 0;
    rank->error        = error;
    rank->error.order  = (unsigned)order;
    free(rank->pickled);
    rank->pickled      = malloc(size + 1);
    rank->pickled_size = size;
    if (rank->pickled == NULL)
        return failed(me, E_MEMORY, "out of memory");
    if (size > 0)
        memcpy(rank->pickled, pickled, size);
    return true;
}

/* A process that fails outside of its ranks has lost them. */
static void
blame_part(struct spawn *spawn, int process, const struct error *own)
{
    if (own->kind == E_NONE || !spawn->split || process >= spawn->count ||
        spawn->ranks[process].error.kind != E_NONE)
        return;
    spawn->ranks[process].error       = *own;
    spawn->ranks[process].error.rank  = process;
    spawn->ranks[process].error.order = UINT_MAX - 1;
}

static bool
read_part(struct task *me, struct spawn *spawn, int process, const struct store_text *text)
{
    struct reader in    = reader_of(text->bytes, text->count);
    int64_t       count = share_read_number(&in);
    struct error  own;
    share_read_error(&in, &own);
    if (count != spawn->count)
        return failed(me, E_RUNTIME, "the processes of the job go different ways: here the lesson spawns %d rank%s, in "
                      "process %d it spawns %lld", spawn->count, spawn->count == 1 ? "" : "s", process,
                      (long long)count);
    bool ok = true;
    for (int64_t left = share_read_number(&in); ok && left > 0; left--)
        ok = read_rank(me, spawn, &in);
    if (ok)
        blame_part(spawn, process, &own);
    return ok && (spawn->lesson == NULL || lesson_read_checks(me, spawn->lesson, &in));
}

/* "rank 1: its process was killed by signal 9 (Killed), in all_reduce #8" */
static void
mourn(struct task *me, struct spawn *spawn, const struct share *share, int process)
{
    const struct job_end *end = share_ended(me, share, process);
    if (!spawn->split || process >= spawn->count)
        return;
    struct error *error = &spawn->ranks[process].error;
    *error = (struct error){ .kind = E_RUNTIME, .rank = process, .hung = true, .order = UINT_MAX - 1,
                             .function = __func__, .lesson_line = end != NULL ? end->line : 0 };
    snprintf(error->message, sizeof error->message, "rank %d: its process %s%s%s", process,
             end != NULL && end->why[0] != '\0' ? end->why : "ended in the middle of it",
             end == NULL || end->call[0] == '\0' ? "" : end->inside ? ", in " : ", after ",
             end != NULL ? end->call : "");
}

static bool
take_parts(struct task *me, struct spawn *spawn, const struct share *share)
{
    for (int process = 0; process < job_size(spawn->job); process++) {
        struct store_text text;
        char              key[KEY];
        part_key(spawn->number, process, key);
        enum share_got got = share_take(me, share, process, key, &text);
        if (got == SHARE_GONE)
            mourn(me, spawn, share, process);
        if (got == SHARE_FAILED || (got == SHARE_TAKEN && !read_part(me, spawn, process, &text)))
            return false;
    }
    return true;
}

/* Each process counts its own errors: the log of the job has all of them in one order. */
static bool
order_errors(struct task *me, struct spawn *spawn, int world)
{
    struct job_end *ends = calloc((size_t)spawn->count, sizeof *ends);
    if (ends == NULL)
        return failed(me, E_MEMORY, "out of memory");
    size_t count = job_ends(me, spawn->job, world, ends, (size_t)spawn->count);
    for (int i = 0; i < spawn->count; i++)
        if (spawn->ranks[i].error.order != UINT_MAX - 1)
            spawn->ranks[i].error.order = UINT_MAX - 2;
    for (size_t i = count; i-- > 0;)
        if (ends[i].rank >= 0 && ends[i].rank < spawn->count)
            spawn->ranks[ends[i].rank].error.order = (unsigned)i;
    free(ends);
    return true;
}

/* ---- what all are told ---- */

static void
outcome_key(unsigned number, char key[KEY])
{
    snprintf(key, KEY, "lesson/%u/outcome", number);
}

static void
forget_spawn(struct task *me, const struct spawn *spawn, const struct share *share, unsigned number)
{
    static const char *const places[] = { "begin", "begun", "ended", "outcome" };
    char key[KEY];
    for (int i = 0; i < job_size(spawn->job); i++) {
        part_key(number, i, key);
        share_forget(me, share, key);
    }
    for (size_t i = 0; i < countof(places); i++) {
        snprintf(key, sizeof key, "lesson/%u/%s", number, places[i]);
        share_forget(me, share, key);
    }
}

/* The first process says it; of the spawn before this one nobody asks any more. */
static bool
tell_outcome(struct task *me, const struct spawn *spawn, const struct share *share)
{
    struct error outcome = me->error;
    struct str   out     = { 0 };
    char         key[KEY];
    task_clear_error(me);
    share_add_error(&out, &outcome);
    outcome_key(spawn->number, key);
    bool ok = share_put(me, share, key, &out);
    str_free(&out);
    if (ok && spawn->number > 0)
        forget_spawn(me, spawn, share, spawn->number - 1);
    if (outcome.kind != E_NONE)
        me->error = outcome;
    return outcome.kind == E_NONE && ok;
}

/* Where the first process is gone, this one knows as well what has happened. */
static bool
take_outcome(struct task *me, struct spawn *spawn, const struct share *share)
{
    struct store_text text;
    struct error      outcome;
    char              key[KEY];
    outcome_key(spawn->number, key);
    enum share_got got = share_take(me, share, 0, key, &text);
    if (got == SHARE_FAILED)
        return false;
    if (got == SHARE_GONE) {
        spawn_raise_first(me, spawn);
        return !task_failed(me) && failed(me, E_RUNTIME, "the process of rank 0 ended in the middle of a spawn");
    }
    struct reader in = reader_of(text.bytes, text.count);
    share_read_error(&in, &outcome);
    if (outcome.kind != E_NONE && spawn->lesson != NULL)
        lesson_share_error(spawn->lesson, &outcome);
    if (outcome.kind != E_NONE)
        spawn_fail_as(me, &outcome);
    return !task_failed(me);
}

/* ---- the ranks ---- */

/* Once in a lesson: whoever started four processes for two ranks may have meant something else. */
static void
note_idle(const struct spawn *spawn, struct share *share)
{
    char text[200];
    int  count = spawn->count, last = job_size(spawn->job) - 1;
    if (spawn->lesson == NULL || count > last || share->idle_told)
        return;
    share->idle_told = true;
    const char *ranks = count == 1 ? "rank" : "ranks";
    if (count == last)
        snprintf(text, sizeof text, "%d %s: process %d of this job has no part", count, ranks, last);
    else
        snprintf(text, sizeof text, "%d %s: processes %d %s %d of this job have no part", count, ranks, count,
                 count + 1 == last ? "and" : "to", last);
    lesson_note(spawn->lesson, -1, "note", text);
}

static bool
run_own_rank(struct task *me, struct spawn *spawn, int *number)
{
    const struct lesson_head *head    = spawn->lesson != NULL ? lesson_head(spawn->lesson) : NULL;
    struct world_options      options = { .size = spawn->count, .trace_hops = head != NULL && head->hops,
                                          .job = spawn->job };
    int                       own     = job_rank(spawn->job);
    spawn->world                      = world_new(me, &options);
    if (spawn->world == NULL)
        return false;
    bool started = own < spawn->count && spawn_start_rank(me, spawn, own);
    if (own < spawn->count && !started)
        world_rank_ended(me, spawn->world, own);
    if (!world_await_ends(me, spawn->world, sched_timeout(me->sched)))
        spawn_stop_stragglers(me, spawn);
    bool ok = !task_failed(me);
    if (started)
        (void)!task_join(me, spawn->ranks[own].task, &spawn->ranks[own].error);
    flight_of_world(me, spawn->world, spawn->flight);
    *number = world_number(spawn->world);
    world_free(me, spawn->world);
    spawn->world = NULL;
    return ok;
}

static bool
run_all_ranks(struct task *me, struct spawn *spawn)
{
    char text[200];
    int  processes = job_size(spawn->job);
    if (job_rank(spawn->job) > 0)
        return true;
    snprintf(text, sizeof text, "%d ranks are more than this job's %d processes: they run as tasks of the first",
             spawn->count, processes);
    if (spawn->lesson != NULL)
        lesson_note(spawn->lesson, -1, "note", text);
    return spawn_run(me, spawn);
}

/* All processes stand at one place of the lesson: their traces are cut there. */
static bool
cut_traces(struct task *me, const struct spawn *spawn, struct share *share, const char *place)
{
    char key[KEY];
    trace_job_cut(me, spawn->script);
    snprintf(key, sizeof key, "lesson/%u/%s", spawn->number, place);
    return share_meet(me, share, key);
}

static bool
begin_together(struct task *me, struct spawn *spawn, struct share *share)
{
    char key[KEY];
    snprintf(key, sizeof key, "lesson/%u/begin", spawn->number);
    return trace_job_tell(me, spawn->script, share) && share_meet(me, share, key) &&
           cut_traces(me, spawn, share, "begun");
}

/* What fails here is told like the failure of a rank, so that the others do not wait for it. */
static bool
end_together(struct task *me, struct spawn *spawn, struct share *share, int world)
{
    struct error own = me->error;
    task_clear_error(me);
    return tell_part(me, spawn, share, &own) && take_parts(me, spawn, share) &&
           (!spawn->split || order_errors(me, spawn, world)) && trace_job_send(me, spawn->script, share) &&
           cut_traces(me, spawn, share, "ended");
}

bool
spawn_in_job(struct task *me, struct spawn *spawn)
{
    struct share *share = share_of(me, spawn->script, spawn->job);
    int           world = -1;
    bool          first = job_rank(spawn->job) == 0;
    if (spawn->lesson != NULL)
        lesson_set_prints(spawn->lesson, PRINTS_DROPPED);
    if (share == NULL || !begin_together(me, spawn, share))
        return false;
    spawn->split = spawn->count <= job_size(spawn->job);
    note_idle(spawn, share);
    (void)!(spawn->split ? run_own_rank(me, spawn, &world) : run_all_ranks(me, spawn));
    struct error all = me->error; /* not split: what the first process's ranks come to */
    bool         ok  = end_together(me, spawn, share, world);
    if (ok && first && spawn->split)
        spawn_raise_first(me, spawn);
    else if (ok && first)
        me->error = all;
    if (spawn->lesson != NULL)
        lesson_join(me, spawn->lesson);
    trace_job_forget(me, spawn->script, share);
    ok = ok && (first ? tell_outcome(me, spawn, share) : take_outcome(me, spawn, share));
    return ok && !task_failed(me);
}
