/* Bytes that the processes of a job tell each other, and the waits for them. What is told is of the lesson, not of
 * the ranks: no event tells of it, so that a trace has what it has without a job.
 *
 * Interface in order of use: share_job, share_new, share_of, share_put, share_take, share_look, share_meet,
 * share_ended, share_forget, share_free. */
#include "lua/share.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "c10d/job.h"
#include "lua/internal.h"
#include "sched/sched.h"

enum { PATIENCE_MS = 50, TEXT_MOST = 1 << 20 };
#define REASON_PS UINT64_C(1500000000000)

struct job *
share_job(const struct task *me)
{
    struct job *job = job_of(me->sched);
    return job != NULL && job_size(job) > 1 ? job : NULL;
}

void
share_free(struct task *me, void *share_)
{
    struct share *share = share_;
    if (share == NULL)
        return;
    store_drop(me, share->store);
    free(share->ends);
    free(share);
}

struct share *
share_new(struct task *me, struct job *job)
{
    if (!job_join(me, job))
        return NULL;
    struct share *share = calloc(1, sizeof *share);
    if (share != NULL)
        share->ends = calloc((size_t)job_size(job), sizeof *share->ends);
    if (share == NULL || share->ends == NULL) {
        free(share);
        return failed_null(me, E_MEMORY, "out of memory for a job of %d processes", job_size(job));
    }
    share->job   = job;
    share->store = store_clone(me, job_store(job));
    if (share->store != NULL)
        return share;
    share_free(me, share);
    return NULL;
}

struct share *
share_of(struct task *me, struct script *script, struct job *job)
{
    if (script->parts[SCRIPT_SHARE] == NULL) {
        script->parts[SCRIPT_SHARE]     = share_new(me, job);
        script->drop_part[SCRIPT_SHARE] = share_free;
    }
    return script->parts[SCRIPT_SHARE];
}

/* A connection that broke is told a moment before the log says who died or went: that says more. */
static bool
explained(struct task *me, bool ok)
{
    struct wait_reason reason = { .what = "the job", .sequence = -1, .peer = -1, .join = true };
    if (ok || me->error.kind != E_DIST_NETWORK)
        return ok;
    struct error error = me->error;
    uint64_t     end   = sched_now(me) + REASON_PS;
    task_clear_error(me);
    while (!sched_is_stopping(me) && sched_now(me) < end && sched_poll(me, REASON_PS / 100, &reason))
        ;
    if (!task_failed(me) && sched_goes_on(me))
        task_take_error(me, &error);
    return false;
}

bool
share_put(struct task *me, const struct share *share, const char *key, const struct str *value)
{
    struct store_text text = { str_text(value), value->len };
    if (!str_ok(value))
        return failed(me, E_MEMORY, "out of memory for what the other processes are told");
    return explained(me, store_multi_set(me, share->store, &key, &text, 1));
}

void
share_forget(struct task *me, const struct share *share, const char *key)
{
    bool was_there = false;
    if (!task_failed(me))
        (void)!store_delete_key(me, share->store, key, &was_there);
}

enum share_got
share_look(struct task *me, const struct share *share, const char *key, struct store_text *out)
{
    bool there = false;
    if (!explained(me, store_peek(me, share->store, key, out, &there)))
        return SHARE_FAILED;
    return there ? SHARE_TAKEN : SHARE_GONE;
}

const struct job_end *
share_ended(struct task *me, const struct share *share, int rank)
{
    size_t count = job_ends(me, share->job, -1, share->ends, (size_t)job_size(share->job));
    for (size_t i = 0; i < count; i++)
        if (share->ends[i].rank == rank)
            return &share->ends[i];
    return NULL;
}

/* A process that has never joined cannot be told from one that was never started. */
static bool
is_late(struct task *me, const struct share *share, int from, uint64_t since)
{
    uint64_t limit = sched_timeout(me->sched) < STORE_USUAL_PS ? sched_timeout(me->sched) : STORE_USUAL_PS;
    if (share->met || sched_now(me) - since < limit)
        return false;
    failed(me, E_DIST_STORE, "waited %g s for rank %d of this job of %d processes, which has not come",
           (double)limit / 1e12, from, job_size(share->job));
    return true;
}

/* Who has ended may have said it before: so the look comes after the question who has ended. */
enum share_got
share_take(struct task *me, const struct share *share, int from, const char *key, struct store_text *out)
{
    struct wait_reason reason = { .what = "the job", .sequence = -1, .peer = from, .join = true, .detail = key };
    for (uint64_t since = sched_now(me);;) {
        bool           ended = share_ended(me, share, from) != NULL, there = false;
        enum share_got got   = share_look(me, share, key, out);
        if (got != SHARE_GONE || ended)
            return got;
        if (!explained(me, store_check_within(me, share->store, key, PATIENCE_MS, &there)) ||
            (!there && (is_late(me, share, from, since) || !sched_poll(me, 0, &reason))))
            return SHARE_FAILED;
    }
}

/* Each tells the first that it has come; the first tells all that all have. */
bool
share_meet(struct task *me, struct share *share, const char *key)
{
    struct str        nothing = { 0 };
    struct store_text text;
    char              come[STORE_KEY_BYTES];
    int               own = job_rank(share->job), size = job_size(share->job);
    snprintf(come, sizeof come, "%.200s/%d", key, own);
    bool ok = own == 0 || (share_put(me, share, come, &nothing) &&
                           share_take(me, share, 0, key, &text) != SHARE_FAILED);
    for (int rank = 1; ok && own == 0 && rank < size; rank++) {
        snprintf(come, sizeof come, "%.200s/%d", key, rank);
        ok = share_take(me, share, rank, come, &text) != SHARE_FAILED;
        if (ok)
            share_forget(me, share, come);
    }
    share->met = share->met || ok;
    return ok && (own > 0 || share_put(me, share, key, &nothing));
}

/* ---- as bytes ---- */

void
share_add_number(struct str *out, int64_t number)
{
    unsigned char bytes[8];
    for (int i = 0; i < 8; i++)
        bytes[i] = (unsigned char)((uint64_t)number >> (8 * i));
    str_add_bytes(out, bytes, sizeof bytes);
}

void
share_add_block(struct str *out, const void *bytes, size_t count)
{
    share_add_number(out, (int64_t)count);
    if (count > 0)
        str_add_bytes(out, bytes, count);
}

/* With the NUL, so that it is read where it stands. */
void
share_add_text(struct str *out, const char *text)
{
    share_add_block(out, text, text != NULL ? strlen(text) + 1 : 0);
}

void
share_add_error(struct str *out, const struct error *error)
{
    share_add_number(out, error->kind);
    share_add_number(out, error->lesson_line);
    share_add_number(out, error->rank);
    share_add_number(out, error->hung);
    share_add_text(out, error->message);
}

int64_t
share_read_number(struct reader *in)
{
    return (int64_t)read_u64(in);
}

const void *
share_read_block(struct reader *in, size_t *count)
{
    int64_t size = share_read_number(in);
    *count       = 0;
    if (in->broken || size < 0 || (uint64_t)size > in->size - in->at) {
        in->broken = true;
        return NULL;
    }
    *count = (size_t)size;
    return read_bytes(in, *count);
}

const char *
share_read_text(struct reader *in)
{
    size_t      count;
    const char *text = share_read_block(in, &count);
    bool        whole = text != NULL && count > 0 && count <= TEXT_MOST && text[count - 1] == '\0';
    return whole ? text : NULL;
}

void
share_read_error(struct reader *in, struct error *out)
{
    int64_t kind = share_read_number(in), line = share_read_number(in), rank = share_read_number(in);
    bool    hung = share_read_number(in) != 0;
    const char *message = share_read_text(in);
    *out = (struct error){ .kind = kind > E_NONE && kind <= E_STOPPED ? (enum error_kind)kind : E_NONE, .hung = hung,
                           .lesson_line = (uint32_t)line, .rank = (int)rank, .function = __func__ };
    snprintf(out->message, sizeof out->message, "%s", message != NULL ? message : "");
}
