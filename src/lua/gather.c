/* The checks of processes that are ranks as a whole, as under torchrun: at the end they go to the first, which prints them.
 *
 * Interface: lesson_gather. */
#include <stdio.h>
#include "c10d/job.h"
#include "lua/lesson.h"
#include "lua/share.h"

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
    bool ok = share != NULL && (job_rank(job) > 0 ? send_checks(me, lesson, share)
                                                  : take_checks(me, lesson, share, completed));
    scope_release(me, mark);
    share_free(me, share);
    if (!ok)
        task_clear_error(me); /* who ended the job said why */
    if (before.kind != E_NONE)
        me->error = before;
}
