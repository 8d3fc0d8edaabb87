/* The first call that differs, and how: of the calls that bear one number in one group most ranks' counts as right, and
 * what the odd one out calls from there on is laid beside theirs: one changed, one left out, one too many, or the same
 * in another order. */
#include <stdlib.h>
#include <string.h>
#include "flight/internal.h"

/* How far behind the difference is looked, and how many calls may have been left out or moved. */
enum { WINDOW = 256, MOST_EDITS = 16, MOST_MOVED = 64 };

/* What does not fit costs: another call, a call made elsewhere in the source, one that nothing is beside. */
enum { OTHER_CALL = 4, OTHER_PLACE = 3, NO_CALL = 4, ONE_EDIT = 4 };

struct calls { const struct flight_entry *const *at; size_t count; };

/* ---- the first number at which a group's members differ ---- */

struct column {
    int    *places;      /* members that have this number */
    size_t *first;       /* by place in the group: where it begins in the roll */
    size_t *next;        /* and where the next number begins */
    int     count;
    int64_t sequence;
};

static size_t
end_of_number(const struct roll *roll, size_t at)
{
    int64_t sequence = roll->calls[at]->sequence;
    while (at < roll->count && roll->calls[at]->sequence == sequence)
        at++;
    return at;
}

/* The lowest number that is left, and who has it; false: none is. */
static bool
next_column(const struct roll *rolls, int size, struct column *column)
{
    bool any = false;
    column->count = 0;
    for (int place = 0; place < size; place++) {
        const struct roll *roll = &rolls[place];
        if (column->next[place] >= roll->count)
            continue;
        int64_t sequence = roll->calls[column->next[place]]->sequence;
        if (!any || sequence < column->sequence) {
            column->count    = 0;
            column->sequence = sequence;
        }
        any = true;
        if (sequence == column->sequence)
            column->places[column->count++] = place;
    }
    for (int i = 0; i < column->count; i++) {
        int place = column->places[i];
        column->first[place] = column->next[place];
        column->next[place]  = end_of_number(&rolls[place], column->first[place]);
    }
    return any;
}

/* Of what two members call under one number, the first that differs; *at: which of a coalesced group's. */
static enum hang_cause
numbers_differ(const struct roll *rolls, const struct column *column, int a, int b, size_t *at)
{
    size_t count_a = column->next[a] - column->first[a], count_b = column->next[b] - column->first[b];
    for (*at = 0; *at < count_a && *at < count_b; ++*at) {
        enum hang_cause differs = calls_differ(rolls[a].calls[column->first[a] + *at],
                                               rolls[b].calls[column->first[b] + *at]);
        if (differs != HANG_NONE)
            return differs;
    }
    *at = 0;
    return count_a == count_b ? HANG_NONE : HANG_OPERATION;
}

/* A call that came to its end everywhere did no harm there. */
static bool
came_to_end(const struct roll *rolls, const struct column *column)
{
    for (int i = 0; i < column->count; i++)
        if (rolls[column->places[i]].calls[column->first[column->places[i]]]->state != FLIGHT_COMPLETED)
            return false;
    return true;
}

static bool
column_differs(const struct roll *rolls, const struct column *column)
{
    size_t at;
    for (int i = 1; i < column->count; i++)
        if (numbers_differ(rolls, column, column->places[0], column->places[i], &at) != HANG_NONE)
            return true;
    return false;
}

/* Members whose call is like that of `place`. */
static int
agree_with(const struct roll *rolls, const struct column *column, int place)
{
    int    count = 0;
    size_t at;
    for (int i = 0; i < column->count; i++)
        count += numbers_differ(rolls, column, place, column->places[i], &at) == HANG_NONE;
    return count;
}

/* What most members call, of calls that equal one of the first few; in a tie what the lowest of them calls. */
static int
majority(const struct roll *rolls, const struct column *column)
{
    int best = column->places[0], most = 0;
    for (int i = 0, kinds = 0; i < column->count && kinds < MOST_EDITS; i++) {
        bool seen = false;
        for (int j = 0; j < i && !seen && j < MOST_EDITS; j++) {
            size_t at;
            seen = numbers_differ(rolls, column, column->places[j], column->places[i], &at) == HANG_NONE;
        }
        int agree = seen ? 0 : agree_with(rolls, column, column->places[i]);
        kinds += !seen;
        if (agree > most) {
            best = column->places[i];
            most = agree;
        }
    }
    return best;
}

/* ---- how two ranks' calls differ from one on ---- */

/* One call changed, `left` of a's left out, `more` of b's too many, or the first `moved` of both in another order. */
struct edit {
    enum { CHANGED, LEFT_OUT, TOO_MANY, MOVED } kind;
    size_t count;
    bool   unsure;    /* what comes behind is not known: it may have been moved */
    size_t cost;      /* fewer is likelier */
};

static size_t
distance(size_t a, size_t b)
{
    return a > b ? a - b : b - a;
}

/* Adds up what does not fit when a's calls from `from_a` on lie beside b's from `from_b` on. *fit: how many do. */
static size_t
cost_beside(struct calls a, struct calls b, size_t from_a, size_t from_b, size_t *fit)
{
    size_t cost = 0, left_a = a.count > from_a ? a.count - from_a : 0, left_b = b.count > from_b ? b.count - from_b : 0;
    size_t both = left_a < left_b ? left_a : left_b;
    *fit = 0;
    for (size_t i = 0; i < both && i < WINDOW; i++) {
        const struct flight_entry *of_a = a.at[from_a + i], *of_b = b.at[from_b + i];
        bool same = calls_differ(of_a, of_b) == HANG_NONE;
        *fit += same;
        cost += (same ? 0 : OTHER_CALL) + (other_place(of_a, of_b) ? OTHER_PLACE : 0);
    }
    size_t over = distance(left_a, left_b);
    return cost + NO_CALL * (over < 2 ? over : 2);
}

/* The fewest calls from the first on that are the same ones in another order; 0: not so. */
static size_t
moved_calls(struct calls a, struct calls b)
{
    uint64_t difference = 0;
    for (size_t i = 0; i < a.count && i < b.count && i < MOST_MOVED; i++) {
        difference += call_hash(a.at[i]) - call_hash(b.at[i]);
        if (difference == 0 && i > 0)
            return i + 1;
    }
    return 0;
}

static struct edit
cheaper(struct edit a, struct edit b)
{
    return b.cost < a.cost ? b : a;
}

static struct edit
likeliest_edit(struct calls a, struct calls b)
{
    size_t      fit;
    struct edit best = { CHANGED, 1, false, ONE_EDIT + cost_beside(a, b, 1, 1, &fit) };
    best.cost += other_place(a.at[0], b.at[0]) ? OTHER_PLACE : 0;
    size_t moved = moved_calls(a, b);
    if (moved > 0)
        best = cheaper(best, (struct edit){ MOVED, moved, false, ONE_EDIT + cost_beside(a, b, moved, moved, &fit) });
    for (size_t count = 1; count <= MOST_EDITS; count++) {
        struct edit left_out = { LEFT_OUT, count, false, ONE_EDIT * count + cost_beside(a, b, count, 0, &fit) };
        if (fit > 0)
            best = cheaper(best, left_out);
        struct edit too_many = { TOO_MANY, count, false, ONE_EDIT * count + cost_beside(a, b, 0, count, &fit) };
        if (fit > 0)
            best = cheaper(best, too_many);
    }
    return best;
}

/* ---- where nothing is known of what would have come behind ---- */

/* The same statement of the program, perhaps. */
static bool
call_again(const struct flight_entry *a, const struct flight_entry *b)
{
    return calls_differ(a, b) == HANG_NONE && !other_place(a, b);
}

/* Of the calls before, which were equal on both: what came behind the one that was like the last of them. */
static const struct flight_entry *
expected_call(const struct flight_entry *const *before, size_t count, const struct flight_entry **then)
{
    *then = NULL;
    for (size_t i = count - 1; i-- > 0;)
        if (call_again(before[i], before[count - 1])) {
            *then = i + 2 < count ? before[i + 2] : NULL;
            return before[i + 1];
        }
    return NULL;
}

/* Both stand still in calls that differ. A loop shows what should have come; else the lines tell who is ahead. */
static struct edit
guess_edit(const struct flight_entry *const *before, size_t count, const struct flight_entry *a,
           const struct flight_entry *b)
{
    const struct flight_entry *then, *expected = count > 1 ? expected_call(before, count, &then) : NULL;
    if (expected != NULL && call_again(expected, a) && (then == NULL ? other_place(a, b) : call_again(then, b)))
        return (struct edit){ .kind = LEFT_OUT, .count = 1 };
    if (expected != NULL && call_again(expected, b) && (then == NULL ? other_place(a, b) : call_again(then, a)))
        return (struct edit){ .kind = TOO_MANY, .count = 1 };
    if (calls_differ(a, b) != HANG_OPERATION || !other_place(a, b) || !texts_equal(a->file, b->file) ||
        !texts_equal(a->function, b->function))
        return (struct edit){ .kind = CHANGED, .count = 1 };
    return (struct edit){ .kind = a->line < b->line ? LEFT_OUT : TOO_MANY, .count = 1, .unsure = true };
}

/* ---- one group ---- */

static void
name_edit(const struct edit *edit, const struct calls *a, const struct calls *b, struct hang *hang)
{
    hang->of_victim  = a->at[0];
    hang->of_culprit = b->at[0];
    hang->cause      = edit->kind == MOVED ? HANG_ORDER : edit->kind == CHANGED ? calls_differ(a->at[0], b->at[0])
                                                                               : HANG_SKIPPED;
    hang->extra      = edit->kind == TOO_MANY;
    hang->unsure     = edit->unsure;
    hang->left_out   = edit->kind == LEFT_OUT || edit->kind == TOO_MANY ? (int)edit->count : 0;
    if (hang->cause == HANG_NONE)       /* a coalesced group with fewer calls in it */
        hang->cause = HANG_OPERATION;
}

static void
explain_difference(const struct roll *rolls, const struct column *column, int victim, int culprit, struct hang *hang)
{
    size_t at, from_a = column->first[victim], from_b = column->first[culprit];
    numbers_differ(rolls, column, victim, culprit, &at);
    struct calls a = { rolls[victim].calls + from_a + at, rolls[victim].count - from_a - at };
    struct calls b = { rolls[culprit].calls + from_b + at, rolls[culprit].count - from_b - at };
    struct edit  edit = likeliest_edit(a, b);
    if (edit.kind == CHANGED && (a.count == 1 || b.count == 1))
        edit = guess_edit(rolls[victim].calls, from_a + at, a.at[0], b.at[0]);
    if (edit.kind == TOO_MANY && agree_with(rolls, column, victim) == agree_with(rolls, column, culprit)) {
        edit.kind     = LEFT_OUT;        /* one against one: it is the victim who left out what the other one calls */
        int other     = hang->culprit;
        hang->culprit = hang->victim;
        hang->victim  = other;
        name_edit(&edit, &b, &a, hang);
        return;
    }
    name_edit(&edit, &a, &b, hang);
}

static bool
differs_in_group(struct survey *survey, int at, struct column *column, bool known_over, struct hang *hang)
{
    const struct flight_group *group = &survey->flight->groups[at];
    const struct roll         *rolls = survey->rolls[at];
    memset(column->next, 0, (size_t)group->size * sizeof *column->next);
    while (next_column(rolls, group->size, column)) {
        if (!column_differs(rolls, column) || (!known_over && came_to_end(rolls, column)))
            continue;
        int    victim = majority(rolls, column), culprit = -1;
        size_t within;
        for (int i = 0; i < column->count && culprit < 0; i++)
            if (numbers_differ(rolls, column, victim, column->places[i], &within) != HANG_NONE)
                culprit = column->places[i];
        *hang = (struct hang){ .group = at, .sequence = column->sequence,
                               .culprit = group->ranks[culprit], .victim = group->ranks[victim] };
        explain_difference(rolls, column, victim, culprit, hang);
        return true;
    }
    return false;
}

/* Of differences in two groups: on one rank the one that it came to first, else by the clock, else by how many calls
 * the ranks had made. */
static bool
came_before(const struct hang *a, const struct hang *b)
{
    const struct flight_entry *of_a = a->of_victim, *of_b = b->of_victim;
    if (a->culprit == b->culprit)
        return a->of_culprit->record < b->of_culprit->record;
    if (a->victim != b->victim && of_a->created_ns > 0 && of_b->created_ns > 0)
        return of_a->created_ns < of_b->created_ns;
    return of_a->record < of_b->record;
}

bool
find_difference(struct survey *survey, bool known_over, struct hang *hang)
{
    size_t largest = 1;
    bool   found   = false;
    for (int i = 0; i < survey->flight->group_count; i++)
        if ((size_t)survey->flight->groups[i].size > largest)
            largest = (size_t)survey->flight->groups[i].size;
    struct column column = { .places = malloc(largest * sizeof *column.places),
                             .first = malloc(largest * sizeof *column.first),
                             .next = malloc(largest * sizeof *column.next) };
    survey->broken = survey->broken || column.places == NULL || column.first == NULL || column.next == NULL;
    for (int i = 0; !survey->broken && i < survey->flight->group_count; i++) {
        struct hang here;
        if (differs_in_group(survey, i, &column, known_over, &here) && (!found || came_before(&here, hang))) {
            *hang = here;
            found = true;
        }
    }
    free(column.places);
    free(column.first);
    free(column.next);
    return found;
}

/* ---- a call left out that was not missed at once ---- */

/* From `from` on each of b's calls is made where a's is that stands `left` further on. */
static bool
runs_ahead(const struct roll *a, const struct roll *b, size_t from, size_t left)
{
    for (size_t i = from; i < b->count; i++)
        if (i + left >= a->count || !same_place(a->calls[i + left], b->calls[i]))
            return false;
    return from < b->count;
}

bool
find_silent_skip(struct survey *survey, struct hang *hang)
{
    const struct flight_group *group = group_in(survey->flight, hang->group);
    int victim = group != NULL ? flight_group_rank(group, hang->victim) : -1;
    int place  = group != NULL ? flight_group_rank(group, hang->culprit) : -1;
    if (victim < 0 || place < 0)
        return false;
    const struct roll *a = &survey->rolls[hang->group][victim], *b = &survey->rolls[hang->group][place];
    if (b->count == 0 || a->count <= b->count || a->count - b->count > MOST_EDITS ||
        a->calls[0]->sequence != b->calls[0]->sequence)
        return false;
    size_t from = 0;
    while (from < b->count && same_place(a->calls[from], b->calls[from]))
        from++;
    size_t left = a->count - b->count;
    int    came = arrived(survey, &(struct waiting){ .group = hang->group, .sequence = hang->sequence });
    if (!runs_ahead(a, b, from, left))
        return false;
    hang->cause      = HANG_SKIPPED;
    hang->left_out   = (int)left;
    hang->of_victim  = a->calls[from];
    hang->of_culprit = b->calls[from];
    hang->sequence   = a->calls[from]->sequence;
    if (2 * came < group->size) {       /* most left it out: then one made a call too many */
        hang->extra      = true;
        hang->of_victim  = b->calls[from];
        hang->of_culprit = a->calls[from];
        int other        = hang->victim;
        hang->victim     = hang->culprit;
        hang->culprit    = other;
    }
    return true;
}
