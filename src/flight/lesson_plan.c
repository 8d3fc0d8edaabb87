/* What a lesson repeats of a hang: which ranks, which of their calls, and in which lines they stand.
 *
 * Interface: lesson_plan, lesson_plan_free, lesson_rank, lesson_members. */
#include <stdlib.h>
#include <string.h>
#include "base/vec.h"
#include "flight/lesson_parts.h"

/* ---- from which call on ---- */

/* By group: a rank's first call that is not over, and its last one; -1: none. */
struct reach { int64_t open, last; };

static struct reach
reach_of(const struct flight_rank *of, int group)
{
    struct reach reach = { -1, -1 };
    for (size_t i = 0; i < of->count; i++) {
        const struct flight_entry *entry = &of->entries[i];
        if (entry->group != group || entry->is_p2p)
            continue;
        if (entry->state != FLIGHT_COMPLETED && reach.open < 0)
            reach.open = entry->sequence;
        reach.last = entry->sequence > reach.last ? entry->sequence : reach.last;
    }
    return reach;
}

static int64_t
smaller(int64_t a, int64_t b)
{
    return a < b ? a : b;
}

/* The first call that a member has not come to, or that is not over there. */
static int64_t
start_of(const struct flight *flight, int group)
{
    const struct flight_group *of    = &flight->groups[group];
    int64_t                    start = INT64_MAX, last = -1;
    for (int i = 0; i < of->size; i++) {
        int          rank  = of->ranks[i];
        struct reach reach = { -1, -1 };
        if (rank < flight->rank_count)
            reach = reach_of(&flight->ranks[rank], group);
        if (reach.open >= 0)
            start = smaller(start, reach.open);
        if (reach.last >= 0)
            start = smaller(start, reach.last + 1);
        last = reach.last > last ? reach.last : last;
    }
    return start <= last ? start : INT64_MAX;
}

static bool
find_starts(struct lesson_plan *plan)
{
    const struct hang *hang = plan->hang;
    plan->starts = calloc((size_t)plan->flight->group_count + 1, sizeof *plan->starts);
    for (int i = 0; plan->starts != NULL && i < plan->flight->group_count; i++)
        plan->starts[i] = start_of(plan->flight, i);
    if (plan->starts != NULL && hang->group >= 0 && hang->sequence >= 0) {
        int64_t start = smaller(plan->starts[hang->group], hang->sequence);
        plan->starts[hang->group] = start > 0 ? start - 1 : start; /* one that went well */
    }
    return plan->starts != NULL;
}

/* ---- which calls ---- */

static bool
is_repeated(const struct lesson_plan *plan, const struct flight_entry *entry)
{
    if (entry->group < 0)
        return false;
    if (entry->is_p2p)
        return entry->state != FLIGHT_COMPLETED;
    int64_t start = plan->starts[entry->group];
    return entry->sequence >= start && entry->sequence - start < LESSON_CALLS;
}

/* Up to `room`; answers how many. */
static int
repeated_calls(const struct lesson_plan *plan, int rank, const struct flight_entry **at, int room)
{
    const struct flight_rank *of    = &plan->flight->ranks[rank];
    int                       count = 0;
    for (size_t i = 0; i < of->count && count < room; i++)
        if (is_repeated(plan, &of->entries[i]))
            at[count++] = &of->entries[i];
    return count;
}

/* ---- which ranks ---- */

/* Where each rank has sizes of its own, only those count that a lesson takes. */
static bool
same_sizes(const struct flight_entry *a, const struct flight_entry *b)
{
    if (strstr(a->operation, "to_all") != NULL || strstr(a->operation, "toall") != NULL)
        return true;
    if (strcmp(a->operation, "scatter") == 0)
        return a->output_sizes == b->output_sizes;
    if (strcmp(a->operation, "gather") == 0 || strcmp(a->operation, "reduce") == 0)
        return a->input_sizes == b->input_sizes && a->input_dtypes == b->input_dtypes;
    return a->input_sizes == b->input_sizes && a->output_sizes == b->output_sizes && a->input_dtypes == b->input_dtypes;
}

static bool
same_call(const struct flight_entry *a, const struct flight_entry *b)
{
    return a->operation == b->operation && a->group == b->group && same_sizes(a, b) && a->root == b->root &&
           a->peer == b->peer && a->tag == b->tag && a->reduce_op == b->reduce_op && a->details == b->details &&
           a->file == b->file && a->line == b->line;
}

/* Did two ranks do the same, as far as it is repeated? */
static bool
same_calls(const struct lesson_plan *plan, int a, int b)
{
    const struct flight_entry *of_a[4 * LESSON_CALLS], *of_b[4 * LESSON_CALLS];
    int count = repeated_calls(plan, a, of_a, countof(of_a));
    if (repeated_calls(plan, b, of_b, countof(of_b)) != count ||
        plan->flight->ranks[a].now != plan->flight->ranks[b].now)
        return false;
    for (int i = 0; i < count; i++)
        if (!same_call(of_a[i], of_b[i]) || of_a[i]->state != of_b[i]->state)
            return false;
    return true;
}

static void
keep_rank(struct lesson_plan *plan, int rank)
{
    if (rank < 0 || rank >= plan->flight->rank_count || plan->world == LESSON_RANKS || lesson_rank(plan, rank) >= 0)
        return;
    plan->ranks[plan->world++] = rank;
}

static int
compare_ranks(const void *a, const void *b)
{
    return *(const int *)a - *(const int *)b;
}

/* Whom the hang names, one of each kind, and more of the victim's kind: most ranks' word counts in a diagnosis. */
static void
choose_ranks(struct lesson_plan *plan)
{
    const struct hang *hang  = plan->hang;
    int                count = plan->flight->rank_count;
    if (count <= LESSON_RANKS) {
        for (int rank = 0; rank < count; rank++)
            keep_rank(plan, rank);
        return;
    }
    keep_rank(plan, hang->culprit);
    keep_rank(plan, hang->victim);
    for (int i = 0; i < hang->circle_count; i++)
        keep_rank(plan, hang->circle[i]);
    int named = plan->world;
    for (int rank = 0; rank < count && plan->world < LESSON_RANKS; rank++) {
        bool known = false;
        for (int i = 0; i < plan->world && !known; i++)
            known = same_calls(plan, plan->ranks[i], rank);
        if (!known && (named == 0 || plan->flight->ranks[rank].count > 0))
            keep_rank(plan, rank);
    }
    for (int rank = 0; rank < count && hang->victim >= 0; rank++)
        if (same_calls(plan, hang->victim, rank))
            keep_rank(plan, rank);
    qsort(plan->ranks, (size_t)plan->world, sizeof *plan->ranks, compare_ranks);
}

int
lesson_rank(const struct lesson_plan *plan, int rank)
{
    for (int i = 0; i < plan->world; i++)
        if (plan->ranks[i] == rank)
            return i;
    return -1;
}

unsigned
lesson_members(const struct lesson_plan *plan, int group)
{
    unsigned members = 0;
    for (int i = 0; i < plan->world; i++)
        if (flight_group_rank(&plan->flight->groups[group], plan->ranks[i]) >= 0)
            members |= 1u << i;
    return members;
}

/* Calls whose other end is left out would make a hang of their own. */
static void
choose_calls(struct lesson_plan *plan, int place)
{
    struct lesson_calls *calls = &plan->calls[place];
    int                  kept  = 0;
    calls->count = repeated_calls(plan, plan->ranks[place], calls->at, countof(calls->at));
    for (int i = 0; i < calls->count; i++) {
        const struct flight_entry *entry = calls->at[i];
        if (entry->is_p2p && entry->peer >= 0 && lesson_rank(plan, entry->peer) < 0)
            continue;
        calls->open += entry->state != FLIGHT_COMPLETED;
        calls->at[kept++] = entry;
    }
    calls->count = kept;
}

static bool
makes_call(const struct flight_rank *of, int group, int64_t sequence)
{
    for (size_t i = 0; i < of->count; i++)
        if (of->entries[i].group == group && of->entries[i].sequence == sequence && !of->entries[i].is_p2p)
            return true;
    return false;
}

/* The one that went well is repeated only where all members are known to have made it. */
static void
check_context(struct lesson_plan *plan)
{
    int group = plan->hang->group;
    if (group < 0 || plan->hang->sequence < 0)
        return;
    unsigned members = lesson_members(plan, group);
    for (int place = 0; place < plan->world; place++)
        if ((members >> place & 1) != 0 && plan->starts[group] < plan->hang->sequence &&
            !makes_call(&plan->flight->ranks[plan->ranks[place]], group, plan->starts[group]))
            plan->starts[group]++;
}

/* ---- in which lines ---- */

static const struct flight_entry *
head_of(const struct lesson_calls *calls)
{
    return calls->next < calls->count ? calls->at[calls->next] : NULL;
}

/* How many ranks come to such a call only after another one. */
static int
still_behind(const struct lesson_plan *plan, const struct flight_entry *call)
{
    int behind = 0;
    for (int place = 0; place < plan->world; place++) {
        const struct lesson_calls *calls = &plan->calls[place];
        bool                       found = head_of(calls) != NULL && same_call(head_of(calls), call);
        for (int i = calls->next + 1; i < calls->count && !found; i++)
            if (same_call(calls->at[i], call)) {
                behind++;
                found = true;
            }
    }
    return behind;
}

/* The one that was left out stands before the one that was called instead, so that the lines tell it. */
static bool
comes_before(const struct lesson_plan *plan, const struct flight_entry *a, const struct flight_entry *b)
{
    const struct hang *hang = plan->hang;
    if (hang->cause == HANG_SKIPPED && hang->of_victim != NULL && hang->of_culprit != NULL) {
        const struct flight_entry *first = hang->extra ? hang->of_culprit : hang->of_victim;
        if (same_call(a, first) != same_call(b, first))
            return same_call(a, first);
    }
    return a->file == b->file && a->line > 0 && a->line < b->line;
}

static const struct flight_entry *
next_call(const struct lesson_plan *plan)
{
    const struct flight_entry *best = NULL;
    int                        least = 0;
    for (int place = 0; place < plan->world; place++) {
        const struct flight_entry *head = head_of(&plan->calls[place]);
        if (head == NULL)
            continue;
        int behind = still_behind(plan, head);
        if (best == NULL || behind < least || (behind == least && comes_before(plan, head, best))) {
            best  = head;
            least = behind;
        }
    }
    return best;
}

/* All who stand at such a call go on behind it. */
static unsigned
take_calls(struct lesson_plan *plan, const struct flight_entry *call, struct lesson_line *line)
{
    unsigned ranks = 0;
    for (int place = 0; place < plan->world; place++) {
        struct lesson_calls       *calls = &plan->calls[place];
        const struct flight_entry *head  = head_of(calls);
        unsigned                   bit   = 1u << place;
        if (head == NULL || !same_call(head, call))
            continue;
        calls->next++;
        ranks |= bit;
        if (head->state != FLIGHT_COMPLETED && calls->open > 1)
            line->async |= bit;
        bool context = !head->is_p2p && head->group == plan->hang->group && head->sequence < plan->hang->sequence;
        if (head->state == FLIGHT_COMPLETED && !context) {
            line->async |= bit;
            line->passed |= bit;
        }
    }
    return ranks;
}

/* Different calls in one statement, where that is the cause: in lines of their own one would seem to come before. */
static const struct flight_entry *
called_instead(const struct lesson_plan *plan, const struct flight_entry *call)
{
    const struct hang *hang = plan->hang;
    bool differ = hang->cause == HANG_OPERATION || hang->cause == HANG_GROUP ||
                  (hang->cause >= HANG_SHAPE && hang->cause <= HANG_DETAILS);
    if (!differ || hang->of_victim == NULL || hang->of_culprit == NULL || call->is_p2p ||
        (!same_call(call, hang->of_victim) && !same_call(call, hang->of_culprit)))
        return NULL;
    const struct flight_entry *other = same_call(call, hang->of_victim) ? hang->of_culprit : hang->of_victim;
    for (int place = 0; place < plan->world; place++)
        if (head_of(&plan->calls[place]) != NULL && same_call(head_of(&plan->calls[place]), other))
            return other;
    return NULL;
}

/* What the culprit calls instead is what the others would have called next: they never come to it. */
static void
share_with_victims(const struct lesson_plan *plan, struct lesson_line *line)
{
    const struct hang *hang   = plan->hang;
    int                victim = hang->victim >= 0 ? lesson_rank(plan, hang->victim) : -1;
    if (hang->cause != HANG_SKIPPED || hang->extra || hang->of_culprit == NULL || line->async != 0 || victim < 0 ||
        hang->of_culprit->is_p2p || !same_call(line->call, hang->of_culprit))
        return;
    for (int place = 0; place < plan->world; place++)
        if (plan->calls[place].open != 1 || head_of(&plan->calls[place]) != NULL)
            return;
    line->ranks |= lesson_members(plan, line->call->group);
}

static void
lay_out(struct lesson_plan *plan)
{
    for (const struct flight_entry *call; (call = next_call(plan)) != NULL;) {
        struct lesson_line *line = &plan->lines[plan->line_count++];
        *line       = (struct lesson_line){ .call = call, .other = called_instead(plan, call) };
        line->ranks = take_calls(plan, call, line);
        if (line->other != NULL)
            line->other_ranks = take_calls(plan, line->other, line);
        share_with_victims(plan, line);
    }
}

bool
lesson_plan(struct lesson_plan *plan, const struct flight *flight, const struct hang *hang)
{
    plan->flight = flight;
    plan->hang   = hang;
    bool good    = find_starts(plan);
    if (good) {
        choose_ranks(plan);
        check_context(plan);
    }
    for (int place = 0; good && place < plan->world; place++) {
        choose_calls(plan, place);
        for (int i = 0; good && i < plan->calls[place].count; i++)
            good = lesson_note_sizes(plan, plan->calls[place].at[i]->input_sizes) &&
                   lesson_note_sizes(plan, plan->calls[place].at[i]->output_sizes);
    }
    if (good)
        lay_out(plan);
    return good;
}

void
lesson_plan_free(struct lesson_plan *plan)
{
    free(plan->starts);
    free(plan->large);
    *plan = (struct lesson_plan){ 0 };
}
