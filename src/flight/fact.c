/* The report's first line: what happened. Who waits, in which call, for whom; or the two calls that differ. */
#include <inttypes.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include "flight/internal.h"
#include "base/str.h"

bool
teller_open(struct teller *teller, const struct flight *flight, const struct hang *hang)
{
    *teller = (struct teller){ .flight = flight, .hang = hang };
    teller->ranks = malloc(((size_t)flight->rank_count + 2) * 2 * sizeof *teller->ranks);
    return teller->ranks != NULL && survey_open(&teller->survey, flight) && graph_open(&teller->graph, &teller->survey);
}

void
teller_close(struct teller *teller)
{
    graph_close(&teller->graph);
    if (teller->survey.flight != NULL)
        survey_close(&teller->survey);
    free(teller->ranks);
}

/* Two calls of one number that differ, and not one that was left out long before. */
static bool
is_difference(const struct hang *hang)
{
    const struct flight_entry *a = hang->of_culprit, *b = hang->of_victim;
    return a != NULL && b != NULL && !is_p2p_call(a) && !is_p2p_call(b) && a->group == b->group &&
           a->sequence == b->sequence && hang->cause >= HANG_SKIPPED && hang->cause <= HANG_DETAILS &&
           (calls_differ(a, b) != HANG_NONE || hang->cause == HANG_OPERATION);
}

const struct waiting *
wait_of(const struct teller *teller, int rank)
{
    return rank >= 0 && rank < teller->graph.rank_count && teller->graph.wait[rank] >= 0 ? &teller->graph.waits[rank]
                                                                                         : NULL;
}

/* Ranks of the group that called the same as `rank` did, from the same place; that one alone where it is not the first
 * of a coalesced group. */
int
ranks_alike(const struct teller *teller, const struct flight_entry *entry, int rank, int *ranks)
{
    const struct flight_group *group = group_in(teller->flight, entry->group);
    int                        count = 0;
    if (group == NULL || call_of(teller->flight, rank, entry->group, entry->sequence) != entry) {
        ranks[0] = rank;
        return 1;
    }
    for (int place = 0; place < group->size && count < teller->flight->rank_count; place++) {
        const struct flight_entry *other = call_of(teller->flight, group->ranks[place], entry->group, entry->sequence);
        if (other != NULL && calls_differ(entry, other) == HANG_NONE && !other_place(entry, other))
            ranks[count++] = group->ranks[place];
    }
    sort_ranks(ranks, count);
    return count;
}

/* No collectives, but in the same thing for the same rank. */
static bool
waits_alike(const struct teller *teller, int one, int other)
{
    const struct waiting *a = &teller->graph.waits[one], *b = &teller->graph.waits[other];
    if (!texts_equal(rank_in(teller->flight, one)->detail, rank_in(teller->flight, other)->detail))
        return false;
    return a->kind == b->kind && (a->kind == WAIT_NEW_GROUP || a->kind == WAIT_OTHER) && a->peer == b->peer &&
           texts_equal(a->what, b->what) && a->sequence == b->sequence && a->group == b->group;
}

/* Ranks that wait in what `rank` waits in. */
static int
ranks_waiting(const struct teller *teller, int rank, int *ranks)
{
    int count = 0;
    for (int i = 0; i < teller->graph.rank_count; i++)
        if (teller->graph.wait[i] == teller->graph.wait[rank] ||
            waits_alike(teller, i, rank))
            ranks[count++] = i;
    return count;
}

/* Of whom `rank` waits for, those who do what `like` does now; all of them where that is -1. */
int
targets_like(const struct teller *teller, int rank, int like, int *ranks)
{
    const struct graph *graph = &teller->graph;
    int                 count = 0, wait = graph->wait[rank];
    for (size_t i = graph->first[wait]; i < graph->first[wait + 1]; i++)
        if (like < 0 || (rank_in(teller->flight, graph->targets[i])->now == rank_in(teller->flight, like)->now &&
                         (graph->wait[graph->targets[i]] < 0) == (like >= graph->rank_count || graph->wait[like] < 0)))
            ranks[count++] = graph->targets[i];
    if (count == 0 && like >= 0)
        ranks[count++] = like;
    sort_ranks(ranks, count);
    return count;
}

/* "which has returned": what keeps a rank that others wait for. */
static void
say_state(const struct teller *teller, int rank, bool many, struct str *out)
{
    const struct flight_rank *own = rank_in(teller->flight, rank);
    switch (own->now) {
    case FLIGHT_ABSENT: str_add(out, "left no dump"); break;
    case FLIGHT_RETURNED: str_add(out, many ? "have returned" : "has returned"); break;
    case FLIGHT_THREW: str_add(out, "threw"); break;
    case FLIGHT_KILLED: str_add(out, many ? "were killed" : "was killed"); break;
    case FLIGHT_RUNNING:
        if (own->line > 0 && !many)
            str_addf(out, "is at line %" PRIu32, own->line);
        else
            str_add(out, many ? "run their own code" : "runs its own code");
        break;
    case FLIGHT_UNKNOWN:
    case FLIGHT_WAITING: str_add(out, wait_of(teller, rank) != NULL ? "did not begin it" : "did not come"); break;
    }
}

/* The ranks, or if they are more than `most` how many. */
static void
say_ranks_or_count(const int *ranks, int count, int most, struct str *out)
{
    if (count > most)
        str_addf(out, "%d ranks", count);
    else
        say_ranks(ranks, count, out);
}

static void
say_whom(const struct teller *teller, int victim, int culprit, int most, struct str *out)
{
    const struct waiting *waiting = &teller->graph.waits[victim];
    int                   count   = targets_like(teller, victim, -1, teller->ranks);
    if (count == 0 && culprit >= teller->flight->rank_count)
        teller->ranks[count++] = culprit;
    if (count == 0 || waiting->kind == WAIT_SEND || waiting->kind == WAIT_RECV)
        return;
    str_add(out, " for ");
    say_ranks_or_count(teller->ranks, count, most, out);
}

static void
say_victims(struct teller *teller, int victim, const char *one, const char *many, int without, struct str *out)
{
    int count = ranks_waiting(teller, victim, teller->ranks);
    say_ranks(teller->ranks, count, out);
    str_add(out, count == 1 ? one : many);
    say_waiting(teller->flight, victim, &teller->graph.waits[victim], without, out);
}

/* ", rank 1 in recv from rank 0 (line 9)"; of the same call of another group the group alone. */
static void
say_other(struct teller *teller, int victim, int culprit, int without, struct str *out)
{
    const struct waiting *one = wait_of(teller, culprit), *other = wait_of(teller, victim);
    const char           *file;
    str_addf(out, ", rank %d in ", culprit);
    if (one->kind == WAIT_COLLECTIVE && other->kind == WAIT_COLLECTIVE && one->group != other->group &&
        one->sequence == other->sequence && texts_equal(one->what, other->what)) {
        uint32_t line = waiting_line(teller->flight, culprit, one, &file);
        say_group(teller->flight, one->group, out);
        if ((without & WITHOUT_PLACE) == 0)
            say_place(file, line, out);
    } else
        say_waiting(teller->flight, culprit, one, without, out);
}

/* Both came to it; it has begun on one alone. */
static bool
same_call(const struct teller *teller, int one, int other)
{
    const struct waiting *a = wait_of(teller, one), *b = wait_of(teller, other);
    return a != NULL && b != NULL && a->kind == WAIT_COLLECTIVE && b->kind == WAIT_COLLECTIVE && a->group == b->group &&
           a->sequence == b->sequence;
}

static void
fact_of_waits(struct teller *teller, int victim, int culprit, struct saying *saying)
{
    struct str *way  = saying->way;
    int      without = teller->hang->cause == HANG_TAG ? WITHOUT_TAG : 0;
    say_victims(teller, victim, " waits in ", " wait in ", without | WITH_DETAIL, &way[0]);
    if (culprit == victim || culprit < 0)
        return;
    say_whom(teller, victim, culprit, INT_MAX, &way[0]);
    if (wait_of(teller, culprit) == NULL || same_call(teller, culprit, victim)) {
        int all = targets_like(teller, victim, -1, teller->ranks);
        str_add(&way[1], str_text(&way[0]));
        bool alike = all == targets_like(teller, victim, culprit, teller->ranks) &&
                     (all != 1 || teller->ranks[0] == culprit);
        if (alike)
            str_add(&way[0], ", which ");
        else
            str_addf(&way[0], "; rank %d ", culprit);
        say_state(teller, culprit, alike && all > 1, &way[0]);
        int count = ranks_waiting(teller, victim, teller->ranks);
        say_ranks_or_count(teller->ranks, count, 2, &way[2]);
        str_add(&way[2], count == 1 ? " waits in " : " wait in ");
        say_waiting(teller->flight, victim, &teller->graph.waits[victim], without, &way[2]);
        say_whom(teller, victim, culprit, 2, &way[2]);
        saying->bare = 3;
        say_victims(teller, victim, " waits in ", " wait in ", WITHOUT_TAG | WITHOUT_PLACE, &way[3]);
        say_whom(teller, victim, culprit, INT_MAX, &way[3]);
        return;
    }
    say_other(teller, victim, culprit, without | WITH_DETAIL, &way[0]);
    say_victims(teller, victim, " waits in ", " wait in ", without, &way[1]);
    say_other(teller, victim, culprit, without, &way[1]);
    say_victims(teller, victim, " in ", " in ", without, &way[2]);
    say_other(teller, victim, culprit, without, &way[2]);
    str_addf(&way[3], "rank %d in ", victim);
    say_waiting(teller->flight, victim, &teller->graph.waits[victim], without, &way[3]);
    say_other(teller, victim, culprit, without, &way[3]);
    saying->bare = 4;
    say_victims(teller, victim, " waits in ", " wait in ", WITHOUT_TAG | WITHOUT_PLACE, &way[4]);
    say_other(teller, victim, culprit, WITHOUT_TAG | WITHOUT_PLACE, &way[4]);
    say_victims(teller, victim, " in ", " in ", WITHOUT_TAG | WITHOUT_PLACE, &way[5]);
    say_other(teller, victim, culprit, WITHOUT_TAG | WITHOUT_PLACE, &way[5]);
    say_victims(teller, victim, " waits in ", " wait in ", WITHOUT_TAG | WITHOUT_PLACE, &way[6]);
}

static bool
in_circle(const struct hang *hang, int rank)
{
    for (int i = 0; i < hang->circle_count; i++)
        if (hang->circle[i] == rank)
            return true;
    return false;
}

/* "each waits for the next in send (line 4): 0 -> 1 -> 2 -> 0" */
static void
fact_of_circle(struct teller *teller, struct saying *saying)
{
    const struct hang    *hang  = teller->hang;
    const struct waiting *first = wait_of(teller, hang->circle[0]);
    const char           *file, *other_file;
    uint32_t              line  = waiting_line(teller->flight, hang->circle[0], first, &file);
    bool                  alike = true;
    for (int i = 1; i < hang->circle_count; i++) {
        const struct waiting *next = wait_of(teller, hang->circle[i]);
        alike = alike && next != NULL && texts_equal(next->what, first->what) &&
                waiting_line(teller->flight, hang->circle[i], next, &other_file) == line &&
                texts_equal(file, other_file);
    }
    if (!alike) {
        fact_of_waits(teller, hang->victim, hang->culprit, saying);
        return;
    }
    saying->bare = 1;
    for (int i = 0; i < 3; i++) {
        struct str *way = &saying->way[i];
        str_add(way, "each waits for the next");
        if (i < 2)
            str_addf(way, " in %s", first->what != NULL ? first->what : "a call");
        if (i == 0)
            say_place(file, line, way);
        str_add(way, ": ");
        say_circle(hang, way);
    }
}

/* It waits in that call, or one of its coalesced group. */
static bool
stands_in(const struct teller *teller, int rank, const struct flight_entry *entry)
{
    const struct waiting *waiting = wait_of(teller, rank);
    return waiting != NULL && waiting->entry != NULL && waiting->entry->group == entry->group &&
           waiting->entry->sequence == entry->sequence;
}

static const char *
verb_of(bool waits, bool many)
{
    return !waits ? "called" : many ? "wait in" : "waits in";
}

/* "rank 1 waits in broadcast #4 (line 17), rank 0 in barrier #4 (line 12)" */
static void
say_difference(struct teller *teller, int most, struct str *line)
{
    const struct hang *hang = teller->hang;
    int  odd   = ranks_alike(teller, hang->of_culprit, hang->culprit, teller->ranks);
    int  rest  = ranks_alike(teller, hang->of_victim, hang->victim, teller->ranks + odd);
    bool waits = stands_in(teller, hang->culprit, hang->of_culprit);
    bool also  = stands_in(teller, hang->victim, hang->of_victim);
    say_ranks_or_count(teller->ranks, odd, most, line);
    str_addf(line, " %s ", verb_of(waits, odd > 1));
    say_call_at(teller->flight, hang->of_culprit, line);
    str_add(line, ", ");
    say_ranks_or_count(teller->ranks + odd, rest, most, line);
    str_addf(line, " %s", waits != also ? verb_of(also, rest > 1) : waits ? "in" : "");
    str_add(line, waits == also && !waits ? "" : " ");
    say_call_at(teller->flight, hang->of_victim, line);
}

/* Both called it by one name at one place: "ranks 0-3 wait in all_reduce #3 (line 9)" */
static void
say_alike(struct teller *teller, struct str *line)
{
    const struct hang *hang  = teller->hang;
    int                count = ranks_alike(teller, hang->of_culprit, hang->culprit, teller->ranks);
    count += ranks_alike(teller, hang->of_victim, hang->victim, teller->ranks + count);
    sort_ranks(teller->ranks, count);
    bool wait = stands_in(teller, hang->culprit, hang->of_culprit) && stands_in(teller, hang->victim, hang->of_victim);
    say_ranks(teller->ranks, count, line);
    str_addf(line, " %s ", verb_of(wait, true));
    say_call_at(teller->flight, hang->of_victim, line);
}

static void
fact_of_difference(struct teller *teller, struct saying *saying)
{
    const struct hang *hang = teller->hang;
    struct str         one = { 0 }, other = { 0 };
    say_call_at(teller->flight, hang->of_culprit, &one);
    say_call_at(teller->flight, hang->of_victim, &other);
    if (strcmp(str_text(&one), str_text(&other)) == 0)
        say_alike(teller, &saying->way[0]);
    else {
        say_difference(teller, INT_MAX, &saying->way[0]);
        say_difference(teller, 1, &saying->way[1]);
        int odd  = ranks_alike(teller, hang->of_culprit, hang->culprit, teller->ranks);
        int rest = ranks_alike(teller, hang->of_victim, hang->victim, teller->ranks + odd);
        say_ranks_or_count(teller->ranks, odd, 1, &saying->way[2]);
        str_addf(&saying->way[2], " in %s, ", str_text(&one));
        say_ranks_or_count(teller->ranks + odd, rest, 1, &saying->way[2]);
        if (texts_equal(hang->of_culprit->operation, hang->of_victim->operation)) {
            str_add(&saying->way[2], " in it");
            say_place(hang->of_victim->file, hang->of_victim->line, &saying->way[2]);
        } else
            str_addf(&saying->way[2], " in %s", str_text(&other));
        saying->bare = 3;
        say_ranks_or_count(teller->ranks, odd, 1, &saying->way[3]);
        str_add(&saying->way[3], " in ");
        say_call(teller->flight, hang->of_culprit, &saying->way[3]);
        str_add(&saying->way[3], ", ");
        say_ranks_or_count(teller->ranks + odd, rest, 1, &saying->way[3]);
        str_add(&saying->way[3], " in ");
        say_call(teller->flight, hang->of_victim, &saying->way[3]);
    }
    str_free(&one);
    str_free(&other);
}

void
say_fact(struct teller *teller, struct saying *saying)
{
    const struct hang *hang = teller->hang;
    if (is_difference(hang))
        fact_of_difference(teller, saying);
    else if (wait_of(teller, hang->victim) != NULL && hang->circle_length > 2 && in_circle(hang, hang->victim))
        fact_of_circle(teller, saying);
    else if (wait_of(teller, hang->victim) != NULL)
        fact_of_waits(teller, hang->victim, hang->culprit, saying);
    else if (wait_of(teller, hang->culprit) != NULL)
        fact_of_waits(teller, hang->culprit, hang->victim, saying);
    else if (hang->culprit >= 0) {
        str_addf(&saying->way[0], "nobody waits; rank %d ", hang->culprit);
        say_state(teller, hang->culprit, false, &saying->way[0]);
    } else
        str_add(&saying->way[0], "nobody waits");
}
