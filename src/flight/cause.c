/* The report's second line: why. Whoever reads no more than these two must know what to mend: which rank, which call,
 * which number, which line. Each is said at length where the line has room for it, else in short. Of calls that differ
 * cause_calls.c tells. */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include "flight/internal.h"
#include "base/str.h"
#include "base/vec.h"

/* What the culprit does instead, behind "and": "waits in barrier #4 (line 9)", "has returned". */
static void
say_instead(const struct teller *teller, int rank, struct str *out)
{
    const struct waiting *waiting = wait_of(teller, rank);
    if (waiting != NULL) {
        str_add(out, "waits in ");
        say_waiting(teller->flight, rank, waiting, 0, out);
        return;
    }
    switch (rank_in(teller->flight, rank)->now) {
    case FLIGHT_RETURNED: str_add(out, "has returned"); break;
    case FLIGHT_THREW: str_add(out, "threw"); break;
    case FLIGHT_KILLED: str_add(out, "was killed"); break;
    case FLIGHT_ABSENT: str_add(out, "left no dump"); break;
    case FLIGHT_RUNNING: str_addf(out, "is at line %" PRIu32, rank_in(teller->flight, rank)->line); break;
    case FLIGHT_UNKNOWN:
    case FLIGHT_WAITING: str_add(out, "waits in no call"); break;
    }
}

/* ---- sends and receives ---- */

static void
cause_tag(struct teller *teller, struct saying *saying)
{
    const struct hang         *hang = teller->hang;
    bool                       culprit_sends = entry_is_send(hang->of_culprit);
    const struct flight_entry *send = culprit_sends ? hang->of_culprit : hang->of_victim;
    const struct flight_entry *recv = culprit_sends ? hang->of_victim : hang->of_culprit;
    struct str                *out  = &saying->way[0];
    str_addf(out, "rank %d sends tag %" PRId64, culprit_sends ? hang->culprit : hang->victim, send->tag);
    say_place(send->file, send->line, out);
    str_addf(out, ", rank %d receives tag %" PRId64, culprit_sends ? hang->victim : hang->culprit, recv->tag);
    say_place(recv->file, recv->line, out);
    out = &saying->way[1];
    str_addf(out, "%" PRId64 " in rank %d's send", send->tag, culprit_sends ? hang->culprit : hang->victim);
    say_place(send->file, send->line, out);
    str_addf(out, ", %" PRId64 " in rank %d's recv", recv->tag, culprit_sends ? hang->victim : hang->culprit);
    say_place(recv->file, recv->line, out);
}

static void
say_circle_ranks(const struct teller *teller, struct str *out)
{
    const struct hang *hang = teller->hang;
    if (hang->circle_length > hang->circle_count) {
        str_addf(out, "%d ranks", hang->circle_length);
        return;
    }
    memcpy(teller->ranks, hang->circle, (size_t)hang->circle_count * sizeof *hang->circle);
    sort_ranks(teller->ranks, hang->circle_count);
    say_ranks(teller->ranks, hang->circle_count, out);
}

/* Where they stand: in one place, or the two of them in two. */
static void
say_circle_place(const struct teller *teller, struct str *out)
{
    const struct hang    *hang = teller->hang;
    const struct waiting *one = wait_of(teller, hang->circle[0]), *other = wait_of(teller, hang->circle[1]);
    const char           *file = NULL, *other_file = NULL;
    uint32_t              line = one != NULL ? waiting_line(teller->flight, hang->circle[0], one, &file) : 0;
    uint32_t other_line = other != NULL ? waiting_line(teller->flight, hang->circle[1], other, &other_file) : 0;
    if (line == other_line && texts_equal(file, other_file))
        say_place(file, line, out);
    else if (hang->circle_length == 2 && file == NULL && other_file == NULL)
        str_addf(out, " (lines %" PRIu32 " and %" PRIu32 ")", line, other_line);
    else
        say_place(file, line, out);
}

static void
cause_sends_crossed(struct teller *teller, struct saying *saying)
{
    const struct hang    *hang  = teller->hang;
    const struct waiting *first = wait_of(teller, hang->circle[0]);
    bool                  sends = first != NULL && first->kind == WAIT_SEND;
    struct str           *out   = &saying->way[0];
    if (hang->circle_length == 1) {
        str_addf(out, "rank %d %s itself", hang->circle[0], sends ? "sends to" : "receives from");
        return;
    }
    say_circle_ranks(teller, out);
    str_addf(out, " %s %s first", hang->circle_length == 2 ? "both" : "all", sends ? "send" : "receive");
    if (teller->bare)
        say_circle_place(teller, out);
    fork_saying(saying);
    str_addf(out, ", and %s %s", hang->circle_length == 2 ? "neither" : "nobody", sends ? "receives" : "sends");
}

static void
cause_unmatched(struct teller *teller, struct saying *saying)
{
    const struct hang    *hang    = teller->hang;
    const struct waiting *waiting = wait_of(teller, hang->victim);
    bool                  sends   = waiting != NULL && waiting->kind == WAIT_SEND;
    const char           *file    = NULL;
    uint32_t              line    = waiting != NULL ? waiting_line(teller->flight, hang->victim, waiting, &file) : 0;
    struct str           *out     = &saying->way[0];
    if (waiting != NULL && waiting->peer < 0)
        str_addf(out, "nobody sends what rank %d receives", hang->victim);
    else
        str_addf(out, "rank %d does not %s what rank %d %s", hang->culprit, sends ? "receive" : "send", hang->victim,
                 sends ? "sends" : "receives");
    str_add(&saying->way[2], str_text(out));
    if (waiting != NULL && waiting->tag > 0)
        str_addf(out, ", tag %" PRId64, waiting->tag);
    say_place(file, line, out);
    fork_saying(saying);
    if (hang->culprit >= 0 && (waiting == NULL || waiting->peer >= 0)) {
        str_add(out, wait_of(teller, hang->culprit) != NULL ? ", it " : ": it ");
        say_instead(teller, hang->culprit, out);
    }
}

/* ---- groups, locks ---- */

/* "rank 1 calls all_reduce (line 9) in group 2, rank 0 in group 1" */
static void
cause_group(struct teller *teller, struct saying *saying)
{
    const struct hang         *hang = teller->hang;
    const struct flight_entry *one = hang->of_culprit, *other = hang->of_victim;
    struct str                *out  = &saying->way[0];
    bool                       same = !other_place(one, other);
    str_addf(out, "rank %d calls %s", hang->culprit, one->operation != NULL ? one->operation : "it");
    say_place(one->file, one->line, out);
    str_add(out, " in ");
    say_group(teller->flight, one->group, out);
    fork_saying(saying);
    str_addf(out, ", rank %d in ", hang->victim);
    say_group(teller->flight, other->group, out);
    if (!same)
        say_place(other->file, other->line, out);
    str_add(&saying->way[1], ", not in ");
    say_group(teller->flight, other->group, &saying->way[1]);
    out = &saying->way[2];
    str_addf(out, "rank %d calls it", hang->culprit);
    say_place(one->file, one->line, out);
    str_add(out, " in ");
    say_group(teller->flight, one->group, out);
    str_add(out, ", not in ");
    say_group(teller->flight, other->group, out);
}

/* "rank 1 calls group 2 first (line 11), rank 0 group 1 (line 8)" */
static void
cause_groups_crossed(struct teller *teller, struct saying *saying)
{
    const struct hang    *hang = teller->hang;
    const struct waiting *one = wait_of(teller, hang->culprit), *other = wait_of(teller, hang->victim);
    struct str           *out = &saying->way[0];
    const char           *file;
    if (one == NULL || other == NULL)
        return;
    uint32_t line = waiting_line(teller->flight, hang->culprit, one, &file);
    str_addf(out, "rank %d calls ", hang->culprit);
    say_group(teller->flight, one->group, out);
    str_add(out, " first");
    say_place(file, line, out);
    line = waiting_line(teller->flight, hang->victim, other, &file);
    str_addf(out, ", rank %d ", hang->victim);
    say_group(teller->flight, other->group, out);
    say_place(file, line, out);
    if (teller->bare)
        return;
    out = &saying->way[1];
    str_addf(out, "rank %d calls ", hang->culprit);
    say_group(teller->flight, one->group, out);
    str_add(out, " first, ");
    str_addf(out, "rank %d ", hang->victim);
    say_group(teller->flight, other->group, out);
}

static void
cause_no_new_group(struct teller *teller, struct saying *saying)
{
    const struct hang *hang = teller->hang;
    struct str        *out  = &saying->way[0];
    str_addf(out, "rank %d did not call ", hang->culprit);
    if (wait_of(teller, hang->victim) != NULL)
        say_waiting(teller->flight, hang->victim, wait_of(teller, hang->victim), 0, out);
    fork_saying(saying);
    str_add(out, " and ");
    say_instead(teller, hang->culprit, out);
}

static void
cause_locks(struct teller *teller, struct saying *saying)
{
    const struct hang *hang = teller->hang;
    struct str        *out  = &saying->way[0];
    bool               all  = true;
    for (int i = 0; i < hang->circle_count; i++)
        all = all && wait_of(teller, hang->circle[i]) != NULL && wait_of(teller, hang->circle[i])->kind == WAIT_LOCK;
    if (all && hang->circle_length > 1) {
        say_circle_ranks(teller, out);
        str_addf(out, " each hold a lock that %s wants", hang->circle_length == 2 ? "the other" : "the one before");
        if (!teller->bare)
            return;
        str_clear(out);
        say_circle_ranks(teller, out);
        str_addf(out, " each want %s's lock", hang->circle_length == 2 ? "the other" : "the next one");
        say_circle_place(teller, out);
        return;
    }
    const char *file = NULL;
    uint32_t    line = waiting_line(teller->flight, hang->victim, wait_of(teller, hang->victim), &file);
    str_addf(out, "rank %d keeps the lock that rank %d wants", hang->culprit, hang->victim);
    say_place(file, line, out);
    fork_saying(saying);
    str_add(out, " and ");
    say_instead(teller, hang->culprit, out);
}

/* ---- gone, busy, late ---- */

/* Who was killed may have been in the midst of its last call. */
static void
say_after(struct teller *teller, struct str *out)
{
    const struct flight_entry *last = teller->hang->of_culprit;
    if (last == NULL)
        return;
    bool within = teller->hang->cause == HANG_KILLED && !entry_is_over(&teller->survey, last);
    str_add(out, within ? " in " : " after ");
    say_call_at(teller->flight, last, out);
}

/* The call that they did not make, without its place: the first line says it. */
static void
say_without(const struct teller *teller, struct str *out)
{
    const struct waiting *waiting = wait_of(teller, teller->hang->victim);
    if (waiting == NULL || waiting->what == NULL)
        return;
    str_addf(out, " without %s", waiting->what);
    if (waiting->sequence >= 0)
        str_addf(out, " #%" PRId64, waiting->sequence);
    say_of_group(teller->flight, waiting->group, out);
}

static void
cause_ended(struct teller *teller, struct saying *saying)
{
    const struct hang *hang = teller->hang;
    struct str        *full = &saying->way[0];
    int                count = 1;
    teller->ranks[0] = hang->culprit;
    if (wait_of(teller, hang->victim) != NULL)
        count = targets_like(teller, hang->victim, hang->culprit, teller->ranks);
    say_ranks(teller->ranks, count, full);
    str_add(full, " returned");
    if (count == 1 && hang->of_culprit != NULL) {
        str_add(&saying->way[2], str_text(full));
        say_without(teller, &saying->way[2]);
        say_after(teller, full);
        fork_saying(saying);
        str_add(full, ",");
    }
    say_without(teller, full);
}

static void
cause_threw(struct teller *teller, struct saying *saying)
{
    const struct flight_rank *rank = rank_in(teller->flight, teller->hang->culprit);
    struct str               *out  = &saying->way[0];
    str_addf(out, "rank %d threw", teller->hang->culprit);
    if (rank->line > 0)
        str_addf(out, " at line %" PRIu32, rank->line);
    if (rank->detail != NULL)
        str_addf(out, ": %.*s", (int)strcspn(rank->detail, "\n"), rank->detail);
}

/* Of a rank that is a process it is known how it went: "was killed by signal 9 (Killed) after all_reduce #8". */
static bool
is_of_process(const char *detail)
{
    return detail != NULL && (strncmp(detail, "was killed by ", 14) == 0 || strncmp(detail, "ended with", 10) == 0);
}

static void
cause_killed(struct teller *teller, struct saying *saying)
{
    const struct flight_rank *rank = rank_in(teller->flight, teller->hang->culprit);
    struct str               *out  = &saying->way[0];
    if (is_of_process(rank->detail)) {
        str_addf(out, "rank %d %s", teller->hang->culprit, rank->detail);
        str_addf(&saying->way[1], "rank %d was killed", teller->hang->culprit);
        return;
    }
    str_addf(out, "rank %d was killed", teller->hang->culprit);
    fork_saying(saying);
    if (rank->line > 0)
        str_addf(out, " at line %" PRIu32, rank->line);
    say_after(teller, out);
    if (rank->detail != NULL)
        str_addf(out, ": %s", rank->detail);
    say_after(teller, &saying->way[1]);
}

static void
cause_outside(struct teller *teller, struct saying *saying)
{
    const struct hang        *hang = teller->hang;
    const struct flight_rank *rank = rank_in(teller->flight, hang->culprit);
    struct str               *full = &saying->way[0];
    if (rank->now != FLIGHT_RUNNING && wait_of(teller, hang->culprit) == NULL) {
        int count = wait_of(teller, hang->victim) != NULL
                        ? targets_like(teller, hang->victim, hang->culprit, teller->ranks) : 0;
        if (count > 1)
            say_ranks(teller->ranks, count, full);
        else
            str_addf(full, "rank %d", hang->culprit);
        str_add(full, count > 1 ? " are busy or gone" : " is busy or gone");
        if (!teller->bare)
            str_add(&saying->way[2], str_text(full));
        fork_saying(saying);
        say_after(teller, full);
        if (hang->of_culprit != NULL) {
            str_addf(&saying->way[1], " after #%" PRId64, hang->of_culprit->sequence);
            say_place(hang->of_culprit->file, hang->of_culprit->line, &saying->way[1]);
        }
        return;
    }
    str_addf(full, "rank %d ", hang->culprit);
    if (wait_of(teller, hang->culprit) != NULL) {
        str_add(full, "waits in ");
        say_waiting(teller->flight, hang->culprit, wait_of(teller, hang->culprit), WITH_DETAIL, full);
        fork_saying(saying);
        str_add(full, ", and nothing says for whom");
        return;
    }
    str_add(full, rank->since_ps > 0 ? "has been " : "is busy ");
    if (rank->line > 0)
        str_addf(full, "at line %" PRIu32, rank->line);
    else
        str_add(full, "in its own code");
    if (rank->since_ps > 0) {
        str_add(full, " for ");
        say_seconds(rank->since_ps, full);
    }
    fork_saying(saying);
    str_add(full, hang->of_culprit != NULL ? "," : "");
    say_after(teller, full);
}

static void
cause_late(struct teller *teller, struct saying *saying)
{
    const struct hang    *hang    = teller->hang;
    const struct waiting *waiting = wait_of(teller, hang->culprit), *other = wait_of(teller, hang->victim);
    if (waiting != NULL && other != NULL && waiting->kind == WAIT_COLLECTIVE && waiting->group == other->group &&
        waiting->sequence == other->sequence) {
        str_addf(&saying->way[0], "rank %d enqueued it", hang->culprit);
        const char *file;
        uint32_t    line = waiting_line(teller->flight, hang->culprit, waiting, &file);
        say_place(file, line, &saying->way[0]);
        str_add(&saying->way[0], ", but its device has not begun it");
        return;
    }
    str_addf(&saying->way[0], "rank %d is still in ", hang->culprit);
    if (waiting != NULL)
        say_waiting(teller->flight, hang->culprit, waiting, 0, &saying->way[0]);
    fork_saying(saying);
    if (waiting != NULL && waiting->kind == WAIT_COLLECTIVE)
        str_add(&saying->way[0], ", which all have come to");
}

/* "rank 2 was killed, and ": who could have done it. Answers how many these are. */
static int
say_gone(struct teller *teller, struct str *out)
{
    static const struct { enum flight_now now; const char *one, *many; } fates[] = {
        { FLIGHT_KILLED, " was killed, and ", " were killed, and " },
        { FLIGHT_THREW, " threw, and ", " threw, and " },
        { FLIGHT_RETURNED, " returned, and ", " returned, and " },
    };
    int count = 0;
    for (size_t fate = 0; fate < countof(fates) && count == 0; fate++) {
        for (int rank = 0; rank < teller->flight->rank_count; rank++)
            if (rank_in(teller->flight, rank)->now == fates[fate].now)
                teller->ranks[count++] = rank;
        if (count > 0) {
            say_ranks(teller->ranks, count, out);
            str_add(out, count == 1 ? fates[fate].one : fates[fate].many);
        }
    }
    return count;
}

/* "rank 2 returned, and nobody sets 'vocabulary' (line 9)" */
static void
cause_unset_key(struct teller *teller, struct saying *saying)
{
    const struct hang    *hang    = teller->hang;
    const struct waiting *waiting = wait_of(teller, hang->culprit);
    const char           *key     = rank_in(teller->flight, hang->culprit)->detail, *file = NULL;
    struct str           *out     = &saying->way[0];
    int                   gone    = say_gone(teller, out);
    if (key != NULL)
        str_addf(out, "nobody sets '%s'", key);
    else
        str_add(out, "nobody sets its key");
    if (gone == 0) {
        fork_saying(saying);
        str_addf(out, ", for which rank %d waits", hang->culprit);
    }
    uint32_t line = waiting != NULL ? waiting_line(teller->flight, hang->culprit, waiting, &file) : 0;
    say_place(file, line, out);
}

static void
cause_absent(struct teller *teller, struct saying *saying)
{
    const struct hang *hang  = teller->hang;
    int                count = 1;
    teller->ranks[0] = hang->culprit;
    if (hang->culprit < teller->flight->rank_count && wait_of(teller, hang->victim) != NULL)
        count = targets_like(teller, hang->victim, hang->culprit, teller->ranks);
    say_ranks(teller->ranks, count, &saying->way[0]);
    const char *detail = rank_in(teller->flight, hang->culprit)->detail;
    if (detail != NULL)
        str_addf(&saying->way[0], count == 1 ? " does not answer: %s" : " do not answer: %s", detail);
    else
        str_add(&saying->way[0], count == 1 ? " left none: it was killed, or its file is missing"
                                            : " left none: killed, or their files are missing");
}

static void
cause_unknown(struct teller *teller, struct saying *saying)
{
    const struct hang        *hang    = teller->hang;
    const struct waiting     *waiting = wait_of(teller, hang->victim);
    const struct flight_rank *rank    = rank_in(teller->flight, hang->victim);
    struct str               *out     = &saying->way[0];
    if (hang->cause == HANG_LOST || hang->cause == HANG_NONE || waiting == NULL) {
        const char *other = hang->cause == HANG_NONE ? "every call is over, or goes on" : "too little is known";
        str_add(out, hang->cause == HANG_LOST ? rank->detail : other);
        return;
    }
    if (waiting->kind == WAIT_COLLECTIVE) {
        str_add(out, "all have come to ");
        say_waiting(teller->flight, hang->victim, waiting, WITHOUT_PLACE, out);
        str_add(out, " alike, and it does not end");
        return;
    }
    str_addf(out, "nothing says for whom rank %d waits in ", hang->victim);
    say_waiting(teller->flight, hang->victim, waiting, 0, out);
    fork_saying(saying);
    if (rank->detail != NULL)
        str_addf(out, ", %s", rank->detail);
}

void
say_cause(struct teller *teller, struct saying *saying)
{
    static void (*const say[])(struct teller *, struct saying *) = {
        [HANG_NONE] = cause_unknown, [HANG_UNKNOWN] = cause_unknown, [HANG_SKIPPED] = cause_skipped,
        [HANG_ORDER] = cause_order, [HANG_OPERATION] = cause_operation, [HANG_SHAPE] = cause_value,
        [HANG_DTYPE] = cause_value, [HANG_ROOT] = cause_value, [HANG_REDUCE_OP] = cause_value,
        [HANG_DETAILS] = cause_value, [HANG_TAG] = cause_tag, [HANG_GROUP] = cause_group,
        [HANG_GROUPS_CROSSED] = cause_groups_crossed, [HANG_NO_NEW_GROUP] = cause_no_new_group,
        [HANG_SENDS_CROSSED] = cause_sends_crossed, [HANG_UNMATCHED] = cause_unmatched,
        [HANG_LOCKS_CROSSED] = cause_locks, [HANG_ENDED] = cause_ended, [HANG_THREW] = cause_threw,
        [HANG_KILLED] = cause_killed, [HANG_LOST] = cause_unknown,
        [HANG_OUTSIDE] = cause_outside, [HANG_LATE] = cause_late,
        [HANG_UNSET_KEY] = cause_unset_key, [HANG_ABSENT] = cause_absent,
    };
    const struct hang *hang  = teller->hang;
    bool               known = (size_t)hang->cause < countof(say);
    if (known && (hang->cause == HANG_SHAPE || hang->cause == HANG_DTYPE) && is_p2p_call(hang->of_culprit))
        cause_value_sent(teller, saying);
    else
        (known ? say[hang->cause] : cause_unknown)(teller, saying);
}
