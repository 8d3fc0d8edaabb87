/* The report's second line: why. Whoever reads no more than these two must know what to mend: which rank, which call,
 * which number, which line, and where something differs, both values. Each is said at length where the line has room
 * for it, else in short. */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include "flight/internal.h"
#include "base/str.h"
#include "base/vec.h"

static int
by_number(const void *left, const void *right)
{
    int a = *(const int *)left, b = *(const int *)right;
    return a < b ? -1 : a > b;
}

/* The next shorter way begins as this one does so far. */
static void
fork_here(struct saying *saying)
{
    str_add(&saying->way[1], str_text(&saying->way[0]));
}

/* "barrier (line 9)": the number was said. */
static void
say_operation_at(const struct teller *teller, const struct flight_entry *entry, struct str *out)
{
    if (is_p2p_call(entry))
        say_call(teller->flight, entry, out);
    else
        str_add(out, entry->operation != NULL ? entry->operation : "a call");
    say_place(entry->file, entry->line, out);
}

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

/* "broadcast #3 of group 1 (line 8)": of what is waited for, known or not. */
static void
say_awaited(const struct teller *teller, struct str *out)
{
    const struct hang *hang = teller->hang;
    if (hang->of_victim != NULL)
        say_call_at(teller->flight, hang->of_victim, out);
    else if (wait_of(teller, hang->victim) != NULL)
        say_waiting(teller->flight, hang->victim, wait_of(teller, hang->victim), 0, out);
    else
        str_add(out, "a call");
}

/* ---- the order of calls ---- */

static void
say_more(int left_out, struct str *out)
{
    if (left_out > 1)
        str_addf(out, " and %d more", left_out - 1);
}

/* "rank 0 calls broadcast #1 (line 8), which ranks 1-3 left out" */
static void
cause_extra(struct teller *teller, struct saying *saying)
{
    const struct hang *hang  = teller->hang;
    struct str        *full  = &saying->way[0];
    int                count = ranks_alike(teller, hang->of_victim, hang->victim, teller->ranks);
    if (count == 1) {                   /* one against one: shorter the other way round */
        str_addf(full, "rank %d left out ", hang->victim);
        say_call_at(teller->flight, hang->of_culprit, full);
        say_more(hang->left_out, full);
        return;
    }
    str_addf(full, "rank %d alone calls ", hang->culprit);
    say_call_at(teller->flight, hang->of_culprit, full);
    say_more(hang->left_out, full);
    fork_here(saying);
    str_add(full, ", which ");
    say_ranks(teller->ranks, count, full);
    str_add(full, " left out");
}

static void
cause_skipped(struct teller *teller, struct saying *saying)
{
    const struct hang *hang = teller->hang;
    struct str        *full = &saying->way[0];
    if (hang->extra) {
        cause_extra(teller, saying);
        return;
    }
    str_addf(full, "rank %d left out ", hang->culprit);
    say_awaited(teller, full);
    say_more(hang->left_out, full);
    fork_here(saying);
    if (hang->of_culprit != NULL) {
        str_add(full, " and goes on with ");
        say_operation_at(teller, hang->of_culprit, full);
    }
}

/* A call, told from another of the same name: "all_reduce of [4]". */
static void
say_told_apart(const struct flight_entry *entry, const struct flight_entry *other, struct str *out)
{
    str_add(out, entry->operation != NULL ? entry->operation : "a call");
    switch (calls_differ(entry, other)) {
    case HANG_SHAPE:
        str_add(out, " of ");
        say_sizes(either(entry->input_sizes, entry->output_sizes), out);
        break;
    case HANG_DTYPE:
        str_add(out, " of ");
        say_dtypes(either(entry->input_dtypes, entry->output_dtypes), out);
        break;
    case HANG_ROOT: str_addf(out, " with root %d", entry->root); break;
    case HANG_REDUCE_OP: str_addf(out, " with %s", entry->reduce_op); break;
    case HANG_DETAILS: str_addf(out, " %s", entry->details); break;
    default: break;
    }
}

/* "that of [3]" behind "all_reduce of [4]" */
static void
say_that(const struct flight_entry *usual, const struct flight_entry *odd, struct str *out)
{
    struct str whole = { 0 };
    say_told_apart(usual, odd, &whole);
    size_t name = usual->operation != NULL ? strlen(usual->operation) : 0;
    bool   that = name > 0 && whole.len > name && calls_differ(usual, odd) != HANG_OPERATION;
    str_addf(out, that ? "that%s" : "%s", str_text(&whole) + (that ? name : 0));
    str_free(&whole);
}

static void
cause_order(struct teller *teller, struct saying *saying)
{
    const struct hang         *hang = teller->hang;
    const struct flight_entry *odd = hang->of_culprit, *usual = hang->of_victim;
    struct str                *full = &saying->way[0], *brief = &saying->way[1];
    str_addf(full, "rank %d calls ", hang->culprit);
    say_told_apart(odd, usual, full);
    str_addf(full, " #%" PRId64, odd->sequence);
    say_of_group(teller->flight, odd->group, full);
    say_place(odd->file, odd->line, full);
    str_add(full, " before ");
    say_that(usual, odd, full);
    str_addf(full, ", rank %d after it", hang->victim);
    say_place(usual->file, usual->line, full);
    str_addf(brief, "rank %d calls ", hang->culprit);
    say_told_apart(odd, usual, brief);
    str_add(brief, " before ");
    say_that(usual, odd, brief);
    str_add(&saying->way[2], str_text(brief));
    str_addf(brief, ", rank %d after it", hang->victim);
}

static void
cause_operation(struct teller *teller, struct saying *saying)
{
    const struct hang *hang = teller->hang;
    if (calls_differ(hang->of_culprit, hang->of_victim) == HANG_NONE) {
        str_addf(&saying->way[0], "of call #%" PRId64 " rank %d makes other parts than rank %d", hang->sequence,
                 hang->culprit, hang->victim);
        return;
    }
    str_addf(&saying->way[0], "rank %d calls ", hang->culprit);
    say_call_at(teller->flight, hang->of_culprit, &saying->way[0]);
    str_addf(&saying->way[0], " where rank %d calls ", hang->victim);
    say_operation_at(teller, hang->of_victim, &saying->way[0]);
    str_addf(&saying->way[1], "rank %d calls %s where rank %d calls %s", hang->culprit,
             hang->of_culprit->operation != NULL ? hang->of_culprit->operation : "another one", hang->victim,
             hang->of_victim->operation != NULL ? hang->of_victim->operation : "another one");
}

/* ---- one call, two values ---- */

/* Lists of tensors: which is the first that differs, and it alone; -1: all of them, or there is but one. */
static int
first_that_differs(const char *a, const char *b, struct str *of_a, struct str *of_b, int *count)
{
    const char *ends[2] = { a + 1, b + 1 };
    int         found   = -1;
    *count = 0;
    while (ends[0][0] == '[' && ends[1][0] == '[') {
        const char *begin[2] = { ends[0], ends[1] };
        for (int i = 0; i < 2; i++) {
            ends[i] = strchr(begin[i], ']');
            if (ends[i] == NULL)
                return -1;
            ends[i]++;
        }
        size_t size[2] = { (size_t)(ends[0] - begin[0]), (size_t)(ends[1] - begin[1]) };
        if (found < 0 && (size[0] != size[1] || strncmp(begin[0], begin[1], size[0]) != 0)) {
            found = *count;
            str_add_bytes(of_a, begin[0], size[0]);
            str_add_bytes(of_b, begin[1], size[1]);
        }
        ++*count;
        for (int i = 0; i < 2; i++)
            ends[i] += strspn(ends[i], ", ");
    }
    return found >= 0 && *count > 1 && ends[0][0] == ends[1][0] ? found : -1;
}

static bool
both_say(const char *a, const char *b)
{
    return !texts_equal(a, b) && either(a, NULL) != NULL && either(b, NULL) != NULL;
}

static void
say_shapes(const struct flight_entry *one, const struct flight_entry *other, struct str *of_one, struct str *of_other,
           struct str *which)
{
    bool        inputs = both_say(one->input_sizes, other->input_sizes);
    const char *a = inputs ? one->input_sizes : one->output_sizes;
    const char *b = inputs ? other->input_sizes : other->output_sizes;
    int         count, at = -1;
    a  = a != NULL ? a : "?";
    b  = b != NULL ? b : "?";
    at = a[0] == '[' && b[0] == '[' ? first_that_differs(a, b, of_one, of_other, &count) : -1;
    if (at >= 0) {
        str_addf(which, "tensor %d of %d", at + 1, count);
        return;
    }
    str_clear(of_one);
    str_clear(of_other);
    say_sizes(a, of_one);
    say_sizes(b, of_other);
}

static void
say_dtypes_of(const struct flight_entry *one, const struct flight_entry *other, struct str *of_one,
              struct str *of_other)
{
    bool inputs = both_say(one->input_dtypes, other->input_dtypes);
    say_dtypes(inputs ? one->input_dtypes : one->output_dtypes, of_one);
    say_dtypes(inputs ? other->input_dtypes : other->output_dtypes, of_other);
}

static void
say_detail(const struct flight_entry *entry, struct str *out)
{
    str_add(out, entry->details != NULL && entry->details[0] != '\0' ? entry->details : "plain");
}

/* The value on each of the two; answers the word before it. */
static const char *
say_values(enum hang_cause cause, const struct flight_entry *one, const struct flight_entry *other, struct str *of_one,
           struct str *of_other, struct str *which)
{
    switch (cause) {
    case HANG_SHAPE: say_shapes(one, other, of_one, of_other, which); return "gets";
    case HANG_DTYPE: say_dtypes_of(one, other, of_one, of_other); return "gets";
    case HANG_ROOT:
        str_addf(of_one, "root %d", one->root);
        str_addf(of_other, "root %d", other->root);
        return "has";
    case HANG_REDUCE_OP:
        str_add(of_one, one->reduce_op != NULL ? one->reduce_op : "?");
        str_add(of_other, other->reduce_op != NULL ? other->reduce_op : "?");
        return "has";
    default:
        say_detail(one, of_one);
        say_detail(other, of_other);
        return "goes";
    }
}

/* "all_reduce #3 gets [4] on rank 1 (line 9), [3] on rank 0 (line 8)"; `which` is one of several tensors. */
static void
say_value(struct teller *teller, const struct str value[2], const char *word, const char *which, bool places,
          struct str *out)
{
    const struct hang         *hang = teller->hang;
    const struct flight_entry *one = hang->of_culprit, *other = hang->of_victim;
    bool                       same = !other_place(one, other);
    str_addf(out, which[0] != '\0' ? "%s of " : "%s", which);
    say_call(teller->flight, one, out);
    if (same && places)
        say_place(one->file, one->line, out);
    str_addf(out, " %s %s on rank %d", which[0] != '\0' ? "is" : word, str_text(&value[0]), hang->culprit);
    if (!same && places)
        say_place(one->file, one->line, out);
    str_addf(out, ", %s on rank %d", str_text(&value[1]), hang->victim);
    if (!same && places)
        say_place(other->file, other->line, out);
}

static void
cause_value(struct teller *teller, struct saying *saying)
{
    struct str  value[2] = { 0 }, which = { 0 };
    const char *word = say_values(teller->hang->cause, teller->hang->of_culprit, teller->hang->of_victim, &value[0],
                                  &value[1], &which);
    say_value(teller, value, word, str_text(&which), true, &saying->way[0]);
    say_value(teller, value, word, str_text(&which), false, &saying->way[1]);
    str_free(&value[0]);
    str_free(&value[1]);
    str_free(&which);
}

/* A send and a receive that meet with other sizes or types. */
static void
cause_value_sent(struct teller *teller, struct saying *saying)
{
    const struct hang         *hang = teller->hang;
    bool                       culprit_sends = entry_is_send(hang->of_culprit);
    const struct flight_entry *send = culprit_sends ? hang->of_culprit : hang->of_victim;
    const struct flight_entry *recv = culprit_sends ? hang->of_victim : hang->of_culprit;
    const char *taken = hang->cause == HANG_DTYPE ? either(recv->output_dtypes, recv->input_dtypes)
                                                  : either(recv->output_sizes, recv->input_sizes);
    str_addf(&saying->way[0], "rank %d sends ", culprit_sends ? hang->culprit : hang->victim);
    say_sizes(hang->cause == HANG_DTYPE ? send->input_dtypes : send->input_sizes, &saying->way[0]);
    say_place(send->file, send->line, &saying->way[0]);
    str_addf(&saying->way[0], ", rank %d receives ", culprit_sends ? hang->victim : hang->culprit);
    say_sizes(taken, &saying->way[0]);
    say_place(recv->file, recv->line, &saying->way[0]);
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
    qsort(teller->ranks, (size_t)hang->circle_count, sizeof *teller->ranks, by_number);
    say_ranks(teller->ranks, hang->circle_count, out);
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
    str_addf(out, " %s %s first, and %s %s", hang->circle_length == 2 ? "both" : "all", sends ? "send" : "receive",
             hang->circle_length == 2 ? "neither" : "nobody", sends ? "receives" : "sends");
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
    fork_here(saying);
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
    fork_here(saying);
    str_addf(out, ", rank %d in ", hang->victim);
    say_group(teller->flight, other->group, out);
    if (!same)
        say_place(other->file, other->line, out);
    str_add(&saying->way[1], ", not in ");
    say_group(teller->flight, other->group, &saying->way[1]);
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
    if (one->sequence != other->sequence || !texts_equal(one->what, other->what) || file != NULL)
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
    fork_here(saying);
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
        return;
    }
    const char *file = NULL;
    uint32_t    line = waiting_line(teller->flight, hang->victim, wait_of(teller, hang->victim), &file);
    str_addf(out, "rank %d keeps the lock that rank %d wants", hang->culprit, hang->victim);
    say_place(file, line, out);
    fork_here(saying);
    str_add(out, " and ");
    say_instead(teller, hang->culprit, out);
}

/* ---- gone, busy, late ---- */

static void
say_after(const struct teller *teller, struct str *out)
{
    const struct flight_entry *last = teller->hang->of_culprit;
    if (last == NULL)
        return;
    str_add(out, " after ");
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
        fork_here(saying);
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

static void
cause_killed(struct teller *teller, struct saying *saying)
{
    const struct flight_rank *rank = rank_in(teller->flight, teller->hang->culprit);
    struct str               *out  = &saying->way[0];
    str_addf(out, "rank %d was killed", teller->hang->culprit);
    fork_here(saying);
    if (rank->line > 0)
        str_addf(out, " at line %" PRIu32, rank->line);
    say_after(teller, out);
    if (rank->detail != NULL)
        str_addf(out, ": %s", rank->detail);
    say_after(teller, &saying->way[1]);
}

static void
cause_lost(struct teller *teller, struct saying *saying)
{
    str_add(&saying->way[0], rank_in(teller->flight, teller->hang->victim)->detail);
}

static void
cause_outside(struct teller *teller, struct saying *saying)
{
    const struct hang        *hang = teller->hang;
    const struct flight_rank *rank = rank_in(teller->flight, hang->culprit);
    struct str               *full = &saying->way[0];
    if (rank->now != FLIGHT_RUNNING) {
        int count = wait_of(teller, hang->victim) != NULL
                        ? targets_like(teller, hang->victim, hang->culprit, teller->ranks) : 0;
        if (count > 1)
            say_ranks(teller->ranks, count, full);
        else
            str_addf(full, "rank %d", hang->culprit);
        str_add(full, count > 1 ? " are busy or gone" : " is busy or gone");
        fork_here(saying);
        say_after(teller, full);
        return;
    }
    str_addf(full, "rank %d ", hang->culprit);
    str_add(full, rank->since_ps > 0 ? "has been " : "is ");
    if (rank->line > 0)
        str_addf(full, "at line %" PRIu32, rank->line);
    else
        str_add(full, "in its own code");
    if (rank->since_ps > 0) {
        str_add(full, " for ");
        say_seconds(rank->since_ps, full);
    }
    fork_here(saying);
    str_add(full, hang->of_culprit != NULL ? "," : "");
    say_after(teller, full);
}

static void
cause_late(struct teller *teller, struct saying *saying)
{
    const struct hang    *hang    = teller->hang;
    const struct waiting *waiting = wait_of(teller, hang->culprit);
    str_addf(&saying->way[0], "rank %d is still in ", hang->culprit);
    if (waiting != NULL)
        say_waiting(teller->flight, hang->culprit, waiting, 0, &saying->way[0]);
    fork_here(saying);
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
    str_addf(out, key != NULL ? "nobody sets '%s'" : "nobody sets the key", key);
    if (gone == 0) {
        fork_here(saying);
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
    if (hang->cause == HANG_NONE || waiting == NULL) {
        str_add(out, hang->cause == HANG_NONE ? "every call is over, or goes on" : "too little is known");
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
    fork_here(saying);
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
        [HANG_KILLED] = cause_killed, [HANG_LOST] = cause_lost, [HANG_OUTSIDE] = cause_outside, [HANG_LATE] = cause_late,
        [HANG_UNSET_KEY] = cause_unset_key, [HANG_ABSENT] = cause_absent,
    };
    const struct hang *hang  = teller->hang;
    bool               known = (size_t)hang->cause < countof(say);
    if (known && (hang->cause == HANG_SHAPE || hang->cause == HANG_DTYPE) && is_p2p_call(hang->of_culprit))
        cause_value_sent(teller, saying);
    else
        (known ? say[hang->cause] : cause_unknown)(teller, saying);
}
