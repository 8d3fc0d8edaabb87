/* The checks of processes that are ranks as a whole, as under torchrun: at the end they go to the first, which
 * prints them. The lesson's own script fails the same way in all processes, as a rule: then the first alone tells
 * it.
 *
 * Interface: lesson_gather, lesson_compare_error. */
#include <stdio.h>
#include <string.h>
#include "c10d/job.h"
#include "lua/lesson.h"
#include "lua/share.h"
#include "sched/sched.h"

enum { KEY = 64 };

static bool
send_checks(struct task *me, struct lesson *lesson, const struct share *share)
{
    struct str out = { 0 };
    char       key[KEY];
    snprintf(key, sizeof key, "lesson/checks/%d", job_rank(share->job));
    lesson_write_checks(me, lesson, &out);
    bool          ok = share_put(me, share, key, &out);
    struct reader in = reader_of(str_text(&out), out.len);
    ok = ok && lesson_read_checks(me, lesson, &in); /* they count here, too */
    str_free(&out);
    return ok;
}

/* Who has not come to the end is waited for only where this one did. */
static bool
take_checks(struct task *me, struct lesson *lesson, const struct share *share, bool completed)
{
    bool ok = true;
    for (int rank = 1; ok && rank < job_size(share->job); rank++) {
        struct store_text text = { 0 };
        char              key[KEY];
        snprintf(key, sizeof key, "lesson/checks/%d", rank);
        enum share_got got = completed ? share_take(me, share, rank, key, &text) : share_look(me, share, key, &text);
        struct reader  in  = reader_of(text.bytes, text.count);
        ok = got != SHARE_FAILED && (got == SHARE_GONE || lesson_read_checks(me, lesson, &in));
    }
    return ok;
}

void
lesson_gather(struct task *me, struct lesson *lesson, bool completed)
{
    struct job  *job    = share_job(me);
    struct error before = me->error;
    struct share *share = NULL;
    size_t       mark = scope_mark(me);
    if (job == NULL)
        return;
    task_clear_error(me);
    share   = share_new(me, job);
    if (share != NULL)
        share->met = true;
    bool ok = share != NULL && (job_rank(job) > 0 ? send_checks(me, lesson, share)
                                                  : take_checks(me, lesson, share, completed));
    scope_release(me, mark);
    share_free(me, share);
    if (!ok)
        task_clear_error(me); /* who ended the job said why */
    if (before.kind != E_NONE)
        me->error = before;
}

/* Who is stopped asks nobody any more. */
void
lesson_compare_error(struct task *me, struct lesson *lesson)
{
    const uint64_t        step_ps = 20 * UINT64_C(1000000000), most_ps = 100 * step_ps;
    struct job           *job     = share_job(me);
    struct error          error   = me->error;
    const struct job_end *end     = NULL;
    if (job == NULL || job_rank(job) == 0 || !job_has_joined(job) || lesson_is_rank(lesson) ||
        lesson_is_told(lesson, &error) || error.kind == E_STOPPED)
        return;
    task_clear_error(me);
    struct share *share = share_new(me, job);
    bool          goes  = share != NULL;
    for (uint64_t waited = 0; goes && waited < most_ps && end == NULL; waited += step_ps) {
        end  = share_ended(me, share, 0);
        goes = end != NULL || sched_sleep(me, step_ps);
    }
    if (end != NULL && end->how == JOB_THREW && strcmp(end->why, error.message) == 0)
        lesson_share_error(lesson, &error);
    share_free(me, share);
    task_clear_error(me);
    me->error = error;
}
