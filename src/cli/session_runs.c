/* The runs of a session. A change of the past makes one, going back past an edit leads to the run without it; each that
 * was left is kept with its record, so that one can look at it again and go on from any of its events.
 *
 * Interface: session_run_begin; session_run_edited, session_run_undo; session_runs, the commands; session_runs_free. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include "analysis/diff.h"
#include "base/vec.h"
#include "cli/session.h"
#include "trace/join.h"
#include "trace/reader.h"

/* Of kept runs, and of what their records take on the disk. */
enum { RUNS_MOST = 32 };
static const uint64_t BYTES_MOST = (uint64_t)2 << 30;

static struct session_run *
find_run(struct session *session, int number)
{
    for (size_t i = 0; i < session->run_count; i++)
        if (session->runs[i].number == number)
            return &session->runs[i];
    return NULL;
}

/* NULL: no memory. Its edits are copies. */
static struct session_run *
add_run(struct session *session, const struct debugger_edit *edits, size_t count)
{
    struct session_run run = { .number = session->last_run + 1 };
    if (!vec_room(&session->runs, &session->run_room, session->run_count + 1, sizeof *session->runs) ||
        !vec_room(&run.edits, &run.edit_room, count + 1, sizeof *run.edits))
        return NULL;
    if (count > 0)
        memcpy(run.edits, edits, count * sizeof *edits);
    run.edit_count = count;
    session->last_run++;
    session->runs[session->run_count] = run;
    return &session->runs[session->run_count++];
}

/* ---- the present one ---- */

/* The session's own fields go where they are kept. Before its last edit it is not this run. */
static void
leave_run(struct session *session)
{
    struct session_run *run  = find_run(session, session->run);
    uint64_t            from = session->edit_count > 0 ? session->edits[session->edit_count - 1].seq : 0;
    snprintf(run->trace_path, sizeof run->trace_path, "%s", session->trace_path);
    run->edits      = session->edits;
    run->edit_count = session->edit_count;
    run->edit_room  = session->edit_room;
    run->head       = session->head;
    run->cursor     = session->cursor > from ? session->cursor : from;
    run->ended      = session->ended;
    run->died       = session->died;
    run->status     = session->status;
}

static void
enter_run(struct session *session, const struct session_run *run)
{
    session->run        = run->number;
    snprintf(session->trace_path, sizeof session->trace_path, "%s", run->trace_path);
    session->edits      = run->edits;
    session->edit_count = run->edit_count;
    session->edit_room  = run->edit_room;
    session->head       = run->head;
    session->cursor     = run->cursor;
    session->ended      = run->ended;
    session->died       = run->died;
    session->status     = run->status;
}

bool
session_run_begin(struct session *session)
{
    struct session_run *run = add_run(session, NULL, 0);
    if (run != NULL)
        enter_run(session, run);
    return run != NULL;
}

void
session_runs_free(struct session *session)
{
    if (session->run_count > 0)
        leave_run(session);
    for (size_t i = 0; i < session->run_count; i++) {
        session_forget_file(session, session->runs[i].trace_path);
        free(session->runs[i].edits);
    }
    free(session->runs);
    session->runs      = NULL;
    session->edits     = NULL;
    session->run_count = 0;
}

static bool
show_run(struct session *session, struct str *out)
{
    char why[400];
    if (session_show(session, why, sizeof why))
        return true;
    str_addf(out, "%s\n", why);
    return false;
}

static bool
go_to_run(struct session *session, struct session_run *run, struct str *out)
{
    leave_run(session);
    enter_run(session, run);
    return show_run(session, out);
}

/* ---- how many ---- */

static uint64_t
bytes_of(const char *path)
{
    struct stat about;
    return path[0] != '\0' && stat(path, &about) == 0 ? (uint64_t)about.st_blocks * 512 : 0;
}

static bool
has_branches(const struct session *session, int number)
{
    bool has = false;
    for (size_t i = 0; i < session->run_count && !has; i++)
        has = session->runs[i].parent == number;
    return has;
}

/* The oldest that nobody stands in and no other came from; else the oldest but this one. */
static struct session_run *
oldest_run(struct session *session)
{
    struct session_run *oldest = NULL;
    for (size_t i = 0; i < session->run_count; i++) {
        struct session_run *run = &session->runs[i];
        if (run->number == session->run)
            continue;
        if (!has_branches(session, run->number))
            return run;
        oldest = oldest != NULL ? oldest : run;
    }
    return oldest;
}

static void
drop_run(struct session *session, struct session_run *run, const char *reason, struct str *out)
{
    str_addf(out, "run %d was dropped: %s\n", run->number, reason);
    for (size_t i = 0; i < session->run_count; i++)
        if (session->runs[i].parent == run->number)
            session->runs[i].parent = 0;
    session_forget_file(session, run->trace_path);
    free(run->edits);
    size_t behind = session->run_count - (size_t)(run - session->runs) - 1;
    memmove(run, run + 1, behind * sizeof *run);
    session->run_count--;
}

/* A run whose record found no room is none that one could go to. */
static void
keep_few(struct session *session, struct str *out)
{
    uint64_t bytes = bytes_of(session->trace_path);
    for (size_t i = session->run_count; i-- > 0;) {
        struct session_run *run = &session->runs[i];
        if (run->number != session->run && run->trace_path[0] == '\0')
            drop_run(session, run, "there was no room to keep its record", out);
        else if (run->number != session->run)
            bytes += bytes_of(run->trace_path);
    }
    while (session->run_count > RUNS_MOST || (bytes > BYTES_MOST && session->run_count > 1)) {
        struct session_run *oldest = oldest_run(session);
        char                reason[80];
        bytes -= bytes_of(oldest->trace_path);
        snprintf(reason, sizeof reason, "%d runs are kept, with records of 2 GiB together", RUNS_MOST);
        drop_run(session, oldest, reason, out);
    }
}

/* ---- branches ---- */

/* The engine stands at the cursor: what it records from here on is another run's, which has the first `count` of this
 * one's edits. */
static bool
branch_off(struct session *session, size_t count, struct str *out)
{
    struct session_run *run = add_run(session, session->edits, count);
    if (run == NULL) {
        str_add(out, "out of memory\n");
        return false;
    }
    int      parent = session->run;
    uint64_t cursor = session->cursor;
    run->parent     = parent;
    run->inherited  = count;
    leave_run(session);
    enter_run(session, run);
    snprintf(session->trace_path, sizeof session->trace_path, "%s", session->engine_path);
    session->engine_run = session->run;
    session->cursor = session->head = cursor;
    keep_few(session, out);
    return show_run(session, out);
}

static bool
add_edit(struct session *session, const char *request, struct str *out)
{
    if (!vec_room(&session->edits, &session->edit_room, session->edit_count + 1, sizeof *session->edits)) {
        str_add(out, "out of memory\n");
        return false;
    }
    struct debugger_edit *edit = &session->edits[session->edit_count++];
    edit->seq                  = session->cursor;
    snprintf(edit->line, sizeof edit->line, "%s", request);
    return true;
}

/* At the end of its record a run is changed itself: it has no other future yet. */
bool
session_run_edited(struct session *session, const char *request, struct str *out)
{
    bool branches = session->head > session->cursor;
    if (branches && !branch_off(session, session->edit_count, out))
        return false;
    if (branches)
        str_addf(out, "this is run %d now, from event %" PRIu64 " on; runs lists them\n", session->run,
                 session->cursor);
    return add_edit(session, request, out);
}

static bool
has_edits(const struct session_run *run, const struct debugger_edit *edits, size_t count)
{
    bool same = run->edit_count == count;
    for (size_t i = 0; i < count && same; i++)
        same = run->edits[i].seq == edits[i].seq && strcmp(run->edits[i].line, edits[i].line) == 0;
    return same;
}

/* Behind the cursor lies another future: that of the run without those edits, which is kept, or made now. */
bool
session_run_undo(struct session *session, struct str *out)
{
    size_t              kept = session->edit_count, undone;
    uint64_t            cursor = session->cursor;
    struct session_run *other = NULL;
    while (kept > 0 && session->edits[kept - 1].seq > cursor)
        kept--;
    if (kept == session->edit_count)
        return true;
    undone = session->edit_count - kept;
    for (size_t i = 0; i < session->run_count && other == NULL; i++) {
        struct session_run *run = &session->runs[i];
        if (run->number != session->run && run->head >= cursor && has_edits(run, session->edits, kept))
            other = run;
    }
    if (other != NULL) {
        if (!go_to_run(session, other, out))
            return false;
        session->cursor = cursor;
    } else {
        size_t count = session->edit_count;
        bool   died  = session->died;
        session->edit_count = kept;
        session->engine_run = -1; /* it has the edits */
        session->died       = false;
        bool there = session_wind(session, out);
        session->died       = died;
        session->edit_count = count;
        if (!there || !branch_off(session, kept, out))
            return false;
    }
    str_addf(out, "%zu edit%s undone: this is run %d\n", undone, undone > 1 ? "s" : "", session->run);
    return true;
}

/* ---- commands ---- */

static void
tell_run(const struct session *session, const struct session_run *run, struct str *out)
{
    str_addf(out, "%c %d: ", run->number == session->run ? '*' : ' ', run->number);
    if (run->parent > 0)
        str_addf(out, "as run %d", run->parent);
    else
        str_add(out, run->inherited < run->edit_count ? "from the beginning" : "as the lesson is");
    size_t from = run->parent > 0 ? run->inherited : 0;
    for (size_t i = from; i < run->edit_count; i++)
        str_addf(out, "%s at event %" PRIu64 ": %s", i == from ? "," : ";", run->edits[i].seq, run->edits[i].line);
    if (run->parent > 0 && from == run->edit_count)
        str_add(out, ", without its later edits");
    str_addf(out, "; %" PRIu64 " events, ", run->head + 1);
    if (run->died)
        str_add(out, "the engine died\n");
    else if (!run->ended)
        str_add(out, "not at its end\n");
    else if (run->status == 0)
        str_add(out, "finished\n");
    else
        str_addf(out, "failed (exit status %d)\n", run->status);
}

void
session_tell_branches(struct session *session, struct str *out)
{
    leave_run(session);
    for (size_t i = 0; i < session->run_count; i++) {
        const struct session_run   *run = &session->runs[i];
        const struct debugger_edit *own = run->inherited < run->edit_count ? &run->edits[run->inherited] : NULL;
        const char *how = run->died ? "died" : !run->ended ? "paused" : run->status == 0 ? "finished" : "failed";
        str_addf(out, "branch %d of %d from %" PRIu64 " to %" PRIu64 " %s %s%s\n", run->number, run->parent,
                 own != NULL ? own->seq : 0, run->head, how, run->number == session->run ? "*" : "-",
                 own != NULL ? own->line : "");
    }
}

enum { DIFFERENCES_TOLD = 12, STAGES_TOLD = 8 };

static void
tell_diff(const struct trace *trace, const struct diff *diff, struct str *out)
{
    size_t                   count, all, stages;
    const struct difference *list  = diff_list(diff, &count, &all);
    const struct diff_stage *stage = diff_stages(diff, &stages);
    str_addf(out, "%zu difference%s%s\n", all, all == 1 ? "" : "s", all > 0 ? ", in order:" : "");
    for (size_t i = 0; i < count && i < DIFFERENCES_TOLD; i++) {
        str_add(out, "  ");
        diff_print(diff, &list[i], diff_number(diff, list[i].seq), out);
        str_add(out, "\n");
    }
    str_add(out, "time in stages:\n");
    for (size_t i = 0; i < stages && i < STAGES_TOLD; i++) {
        str_addf(out, "  %s  ", trace_kind(trace, stage[i].kind)->name);
        trace_print_time(stage[i].ps[0], out);
        str_add(out, ", in B ");
        trace_print_time(stage[i].ps[1], out);
        str_add(out, "\n");
    }
}

/* The other run's record first: what changed since is then what B has. */
static bool
compare_with(struct session *session, const struct session_run *run, struct str *out)
{
    char             why[400];
    struct join_part parts[2] = { { run->trace_path, trace_open(run->trace_path, why, sizeof why) },
                                  { session->trace_path, session->trace } };
    struct trace    *both = NULL;
    struct diff     *diff = NULL;
    if (parts[0].trace != NULL)
        both = trace_join(parts, 2, &(struct join_wish){ .clock = JOIN_ITERATION }, why, sizeof why);
    if (both != NULL)
        diff = diff_new(both, why, sizeof why);
    if (diff != NULL) {
        str_addf(out, "A is run %d, B this one, run %d: ", run->number, session->run);
        tell_diff(both, diff, out);
    } else {
        str_addf(out, "%s\n", why);
    }
    bool good = diff != NULL;
    diff_free(diff);
    trace_release(both);
    trace_release(parts[0].trace);
    return good;
}

bool
session_runs(struct session *session, const struct command_line *line, struct str *out)
{
    if (line->command == CMD_runs) {
        leave_run(session);
        for (size_t i = 0; i < session->run_count; i++)
            tell_run(session, &session->runs[i], out);
        return true;
    }
    if (!line->has_count) {
        str_addf(out, "%s takes a number, e.g. %s 1; runs lists them\n", command_info(line->command)->name,
                 command_info(line->command)->name);
        return false;
    }
    struct session_run *run = find_run(session, line->count > 0 && line->count < INT32_MAX ? (int)line->count : 0);
    if (run == NULL) {
        str_addf(out, "there is no run %" PRId64 ": see runs\n", line->count);
        return false;
    }
    if (line->command == CMD_compare) {
        leave_run(session);
        return compare_with(session, run, out);
    }
    if (run->number != session->run && !go_to_run(session, run, out))
        return false;
    str_addf(out, "run %d, at event %" PRIu64 "\n", session->run, session->cursor);
    return true;
}
