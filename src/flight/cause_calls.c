/* The report's second line where two ranks' calls differ: left out, in another order, another operation, or one call
 * with two values, which are both told. */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include "flight/internal.h"

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
    str_addf(full, count > 1 ? "rank %d alone calls " : "rank %d calls ", hang->culprit);
    say_call_at(teller->flight, hang->of_culprit, full);
    say_more(hang->left_out, full);
    str_add(&saying->way[count > 1 ? 1 : 2], str_text(full));
    if (count == 1)
        str_addf(&saying->way[1], "%s, rank %d does not", str_text(full), hang->victim);
    str_add(full, ", which ");
    say_ranks(teller->ranks, count, full);
    str_add(full, " left out");
}

void
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
    fork_saying(saying);
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

void
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
    if (teller->bare)
        say_place(odd->file, odd->line, brief);
    str_add(brief, " before ");
    say_that(usual, odd, brief);
    if (teller->bare) {
        say_place(usual->file, usual->line, brief);
        return;
    }
    str_add(&saying->way[2], str_text(brief));
    str_addf(brief, ", rank %d after it", hang->victim);
}

static const char *
name_of(const struct flight_entry *entry)
{
    return entry->operation != NULL ? entry->operation : "another one";
}

void
cause_operation(struct teller *teller, struct saying *saying)
{
    const struct hang         *hang = teller->hang;
    const struct flight_entry *one = hang->of_culprit, *other = hang->of_victim;
    struct str                *brief = &saying->way[1];
    if (calls_differ(one, other) == HANG_NONE) {
        str_addf(&saying->way[0], "of call #%" PRId64 " rank %d makes other parts than rank %d", hang->sequence,
                 hang->culprit, hang->victim);
        return;
    }
    str_addf(&saying->way[0], "rank %d calls ", hang->culprit);
    say_call_at(teller->flight, one, &saying->way[0]);
    str_addf(&saying->way[0], " where rank %d calls ", hang->victim);
    say_operation_at(teller, other, &saying->way[0]);
    if (!teller->bare) {
        str_addf(brief, "rank %d calls %s where rank %d calls %s", hang->culprit, name_of(one), hang->victim,
                 name_of(other));
        return;
    }
    bool same = !other_place(one, other);
    str_addf(brief, "#%" PRId64, one->sequence);
    if (same)
        say_place(one->file, one->line, brief);
    str_addf(brief, " is %s on rank %d", name_of(one), hang->culprit);
    if (!same)
        say_place(one->file, one->line, brief);
    str_addf(brief, ", %s on rank %d", name_of(other), hang->victim);
    if (!same)
        say_place(other->file, other->line, brief);
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

/* Elements of the tensor at place `at` of "[[2, 3], [4]]"; a single one stands for all. -1: not known. */
static int64_t
elements_at(const char *sizes, int at)
{
    const char *size = sizes != NULL && sizes[0] == '[' ? strchr(sizes + 1, '[') : NULL;
    const bool  alone = size != NULL && strchr(size + 1, '[') == NULL;
    int64_t     count = 1;
    for (int i = 0; i < at && !alone && size != NULL; i++)
        size = strchr(size + 1, '[');
    if (size == NULL)
        return -1;
    for (size++; *size != ']' && *size != '\0'; size += strspn(size, ", ")) {
        char   *end = NULL;
        int64_t one = strtoll(size, &end, 10);
        if (end == size || __builtin_mul_overflow(count, one, &count))
            return -1;
        size = end;
    }
    return count;
}

/* The first place at which the lists of an all_gather disagree, one of which is uneven; -1: they are no such lists. */
static int
list_differs_at(const struct flight_entry *one, const struct flight_entry *other, int count)
{
    int  found = -1;
    bool uneven = false;
    if (one->operation == NULL || strcmp(one->operation, "all_gather") != 0)
        return -1;
    for (int i = 0; i < count; i++) {
        int64_t a = elements_at(one->output_sizes, i), b = elements_at(other->output_sizes, i);
        if (a < 0 || b < 0)
            return -1;
        found  = found < 0 && a != b ? i : found;
        uneven = uneven || a != elements_at(one->output_sizes, 0) || b != elements_at(other->output_sizes, 0);
    }
    return uneven ? found : -1;
}

/* "all_gather #0 (line 5): rank 0's list has 3 elements for rank 2, whose tensor has 4"; false: it is not that. */
static bool
say_list(const struct teller *teller, bool places, struct str *out)
{
    const struct hang         *hang = teller->hang;
    const struct flight_entry *wrong = hang->of_culprit, *other = hang->of_victim;
    const struct flight_group *group = &teller->flight->groups[wrong->group];
    const int                  at = list_differs_at(wrong, other, group->size);
    int                        rank = hang->culprit, second = hang->victim;
    if (at < 0)
        return false;
    if (group->ranks[at] == rank) { /* its own tensor's size it knows */
        wrong  = hang->of_victim;
        other  = hang->of_culprit;
        rank   = hang->victim;
        second = hang->culprit;
    }
    say_call(teller->flight, wrong, out);
    if (places)
        say_place(wrong->file, wrong->line, out);
    str_addf(out, ": rank %d's list has %" PRId64 " elements for rank %d, ", rank, elements_at(wrong->output_sizes, at),
             group->ranks[at]);
    if (group->ranks[at] == second)
        str_addf(out, "whose tensor has %" PRId64, elements_at(other->output_sizes, at));
    else
        str_addf(out, "rank %d's has %" PRId64, second, elements_at(other->output_sizes, at));
    return true;
}

void
cause_value(struct teller *teller, struct saying *saying)
{
    struct str  value[2] = { 0 }, which = { 0 };
    if (teller->hang->cause == HANG_SHAPE && say_list(teller, true, &saying->way[0])) {
        if (!teller->bare)
            (void)say_list(teller, false, &saying->way[1]);
        return;
    }
    const char *word = say_values(teller->hang->cause, teller->hang->of_culprit, teller->hang->of_victim, &value[0],
                                  &value[1], &which);
    say_value(teller, value, word, str_text(&which), true, &saying->way[0]);
    if (!teller->bare)
        say_value(teller, value, word, str_text(&which), false, &saying->way[1]);
    str_free(&value[0]);
    str_free(&value[1]);
    str_free(&which);
}

/* A send and a receive that meet with other sizes or types. */
void
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
