/* Ends in order and in words.
 *
 * Interface: worker_note_end, worker_left_others, worker_post_end; ends_in_order, end_words, held_words; job_words,
 * job_status. */
#include "cli/launch_end.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include "base/now.h"
#include "base/vec.h"
#include "base/visible.h"
#include "c10d/job_end.h"
#include "cli/launch_plan.h"
#include "cli/message.h"

/* A death is seen a little later than by those whose connections it cuts. */
#define SEEN_LATE_NS UINT64_C(250000000)

static enum worker_end
judge(const struct worker *worker, bool ended)
{
    bool said = worker->last.failed_ns != 0;
    if (WIFSIGNALED(worker->status))
        return ended ? WORKER_ENDED : WORKER_KILLED;
    int status = WEXITSTATUS(worker->status);
    if (status == STATUS_DONE)
        return WORKER_WELL;
    if (status == STATUS_CHECK && !said)
        return WORKER_CHECKS;
    return ended && !said ? WORKER_ENDED : WORKER_FAILED;
}

void
worker_note_end(struct worker *worker, int wait_status, bool ended)
{
    worker->pid    = 0;
    worker->status = wait_status;
    if (worker->page != NULL)
        job_page_read(worker->page, &worker->last);
    worker->end = judge(worker, ended);
    if (worker->last.failed_ns != 0)
        worker->failed_ns = worker->last.failed_ns;
    else if (worker->end == WORKER_KILLED || worker->end == WORKER_FAILED)
        worker->failed_ns = (uint64_t)wall_ns() - SEEN_LATE_NS;
}

/* ---- to the others ---- */

static void
print_cause(const struct worker *worker, char *text, size_t size)
{
    int number = WIFSIGNALED(worker->status) ? WTERMSIG(worker->status) : 0;
    if (number > 0)
        snprintf(text, size, "was killed by signal %d (%s)", number, strsignal(number));
    else
        snprintf(text, size, "ended with status %d without a word", WEXITSTATUS(worker->status));
}

bool
worker_left_others(const struct worker *worker)
{
    return !atomic_load(&worker->last.left);
}

/* One that never met the others and ended well is no loss, but nobody needs to wait for it. */
bool
worker_post_end(const struct launch_plan *plan, const struct worker *worker)
{
    char           cause[128], why[300];
    struct job_end end;
    print_cause(worker, cause, sizeof cause);
    job_end_of_page(&worker->last, worker->rank, cause, &end);
    if (worker->last.failed_ns != 0) {
        end.how  = JOB_THREW;
        end.line = worker->last.failed_line;
        end.ns   = (int64_t)worker->last.failed_ns;
        snprintf(end.kind, sizeof end.kind, "%s", worker->last.failed_kind);
        snprintf(end.why, sizeof end.why, "%s", worker->last.why);
    } else if (worker->end == WORKER_WELL && !atomic_load(&worker->last.joined)) {
        end.how = JOB_RETURNED;
    }
    return job_post_end(plan->host, plan->port, &end, why, sizeof why);
}

/* ---- who was first ---- */

static int
compare_ends(const void *a, const void *b)
{
    const struct worker *first = *(const struct worker *const *)a, *second = *(const struct worker *const *)b;
    if (first->failed_ns != second->failed_ns)
        return first->failed_ns < second->failed_ns ? -1 : 1;
    return first->rank - second->rank;
}

int
ends_in_order(const struct worker *workers, int count, const struct worker **out)
{
    int failed = 0;
    for (int i = 0; i < count; i++)
        if (workers[i].failed_ns != 0)
            out[failed++] = &workers[i];
    qsort(out, (size_t)failed, sizeof *out, compare_ends);
    return failed;
}

/* ---- in words ---- */

static void
add_visible(struct str *out, const char *text)
{
    visible_add(out, text, strlen(text), VISIBLE_LINE);
}

/* What it was in, or had been in last: " in all_reduce #8 (line 13)". */
static void
add_place(const struct job_page *page, bool line, struct str *out)
{
    if (page->call[0] == '\0')
        return;
    str_add(out, page->inside ? " in " : " after ");
    add_visible(out, page->call);
    if (line && page->line > 0)
        str_addf(out, " (line %u)", (unsigned)page->line);
}

void
end_words(const struct worker *worker, struct str *out)
{
    const struct job_page *page = &worker->last;
    str_addf(out, "rank %d ", worker->rank);
    if (worker->pid > 0)
        str_add(out, "has failed");
    else if (WIFSIGNALED(worker->status))
        str_addf(out, "was killed by signal %d (%s)", WTERMSIG(worker->status), strsignal(WTERMSIG(worker->status)));
    else
        str_addf(out, "ended with status %d", WEXITSTATUS(worker->status));
    add_place(page, page->failed_ns == 0, out);
    if (page->failed_ns == 0)
        return;
    str_add(out, ": ");
    add_visible(out, page->failed_kind[0] != '\0' ? page->failed_kind : "an error");
    if (page->failed_line > 0)
        str_addf(out, " at line %u", (unsigned)page->failed_line);
}

/* ---- reports of a hang ---- */

/* Line `text` behind "[2] "; NULL: it is no line of that rank's. */
static const char *
own_line(const struct worker *worker, const char *text)
{
    char   mark[16];
    size_t length = (size_t)snprintf(mark, sizeof mark, "[%d] ", worker->rank);
    if (!worker->err.prefixed)
        return text;
    return strncmp(text, mark, length) == 0 ? text + length : NULL;
}

static const char *
next_line(const char *text)
{
    const char *feed = strchr(text, '\n');
    return feed != NULL ? feed + 1 : text + strlen(text);
}

static bool
is_head(const char *line)
{
    static const char *const heads[] = { "ringside: DeadlockError: ", "ringside: MismatchError: ",
                                         "ringside: TimeoutError: " };
    for (size_t i = 0; line != NULL && i < countof(heads); i++)
        if (strncmp(line, heads[i], strlen(heads[i])) == 0)
            return true;
    return false;
}

/* The end of the report that `text` begins with, its head and indented lines, and in `cut` where its third line begins.
 * NULL: it begins with none, or one so short that it is said again. */
static const char *
report_end(const struct worker *worker, const char *text, const char **cut)
{
    const char *line, *at = next_line(text);
    int         count = 1;
    if (!is_head(own_line(worker, text)))
        return NULL;
    for (; (line = own_line(worker, at)) != NULL && strncmp(line, "  ", 2) == 0; at = next_line(at))
        if (++count == 3)
            *cut = at;
    return count > 3 ? at : NULL;
}

bool
held_words(const struct worker *worker, bool reported, struct str *out)
{
    const char *text = str_text(&worker->held), *cut = text, *end = report_end(worker, text, &cut);
    if (reported && end != NULL) {
        str_add_bytes(out, text, (size_t)(cut - text));
        if (worker->err.prefixed)
            str_addf(out, "[%d] ", worker->rank);
        str_add(out, "  (the rest as above)\n");
        text = end;
    }
    str_add(out, text); /* what is held has no NUL: it was spelled out */
    return reported || end != NULL;
}

/* ---- the job ---- */

/* "ranks 0, 3", "12 ranks"; but `but`. Answers whether there is any. */
static bool
add_ranks(const struct worker *workers, int count, const struct worker *but, unsigned ends, struct str *out)
{
    enum { NAMED = 8 };
    int found = 0, said = 0;
    for (int i = 0; i < count; i++)
        found += &workers[i] != but && (ends >> workers[i].end & 1) != 0;
    if (found > NAMED)
        str_addf(out, "%d ranks", found);
    else if (found > 0)
        str_add(out, found > 1 ? "ranks" : "rank");
    for (int i = 0; i < count && found <= NAMED; i++)
        if (&workers[i] != but && (ends >> workers[i].end & 1) != 0)
            str_addf(out, "%s %d", said++ > 0 ? "," : "", workers[i].rank);
    return found > 0;
}

/* What became of all but the first. */
static void
add_others(const struct worker *workers, int count, const struct worker *first, struct str *out)
{
    static const struct { unsigned ends; const char *words; } parts[] = {
        { 1u << WORKER_FAILED | 1u << WORKER_KILLED, " failed after it" },
        { 1u << WORKER_ENDED, " had to be ended" },
        { 1u << WORKER_WELL | 1u << WORKER_CHECKS, " ended without an error" },
    };
    for (size_t i = 0; i < countof(parts); i++) {
        struct str ranks = { 0 };
        if (add_ranks(workers, count, first, parts[i].ends, &ranks))
            str_enclose(out, "; ", &ranks, parts[i].words);
        str_free(&ranks);
    }
}

void
job_words(const struct worker *workers, int count, const struct worker *const *ordered, int failed, int by,
          struct str *out)
{
    struct str words = { 0 };
    if (by > 0) {
        str_addf(&words, "stopped by signal %d (%s)", by, strsignal(by));
    } else if (failed > 0) {
        end_words(ordered[0], &words);
        add_others(workers, count, ordered[0], &words);
    } else if (job_status(workers, count, ordered, failed, by) == STATUS_CHECK) {
        str_add(&words, "checks failed"); /* no rank's name: rank 0 ends as if others' failed checks were its own */
    }
    if (words.len > 0)
        str_enclose(out, "ringside launch: ", &words, "\n");
    str_free(&words);
}

int
job_status(const struct worker *workers, int count, const struct worker *const *ordered, int failed, int by)
{
    int status = by > 0 ? STATUS_FAILED : STATUS_DONE;
    if (failed > 0)
        return WIFEXITED(ordered[0]->status) ? WEXITSTATUS(ordered[0]->status) : STATUS_FAILED;
    for (int i = 0; i < count; i++)
        if (workers[i].end == WORKER_CHECKS && status == STATUS_DONE)
            status = STATUS_CHECK;
        else if (workers[i].end == WORKER_ENDED)
            status = STATUS_FAILED;
    return status;
}
