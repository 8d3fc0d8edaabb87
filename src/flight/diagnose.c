/* Why nobody goes on. First the calls: where two ranks called different things under one number, that is why. Where all
 * agree, somebody is waited for: who threw or was killed explains those that wait for it; then sends and receives that
 * miss each other, circles, and at last whoever stands at the end of the chain of those that wait. */
#include <stdlib.h>
#include <string.h>
#include "flight/internal.h"
#include "base/vec.h"

const char *
hang_cause_name(enum hang_cause cause)
{
    static const char *const names[] = {
        [HANG_NONE] = "none",               [HANG_UNKNOWN] = "unknown",
        [HANG_SKIPPED] = "skipped call",    [HANG_ORDER] = "other order",
        [HANG_OPERATION] = "different calls",
        [HANG_SHAPE] = "shape",             [HANG_DTYPE] = "dtype",
        [HANG_ROOT] = "root",               [HANG_REDUCE_OP] = "reduce op",
        [HANG_DETAILS] = "details",         [HANG_TAG] = "tag",
        [HANG_GROUP] = "group",             [HANG_GROUPS_CROSSED] = "crossed groups",
        [HANG_NO_NEW_GROUP] = "skipped new_group", [HANG_SENDS_CROSSED] = "crossed sends",
        [HANG_UNMATCHED] = "unmatched",     [HANG_LOCKS_CROSSED] = "crossed locks",
        [HANG_ENDED] = "ended early",       [HANG_THREW] = "threw",
        [HANG_KILLED] = "killed",           [HANG_LOST] = "lost message",
        [HANG_OUTSIDE] = "stuck outside",   [HANG_LATE] = "late",
        [HANG_UNSET_KEY] = "unset key",     [HANG_ABSENT] = "no dump",
    };
    return (size_t)cause < countof(names) ? names[cause] : "unknown";
}

static bool
is_p2p(const struct waiting *waiting)
{
    return waiting->kind == WAIT_SEND || waiting->kind == WAIT_RECV;
}

/* What the victim waits in, and of the culprit its own wait, else its last call, in the same group if it made one. */
static void
name_waits(const struct survey *survey, const struct graph *graph, struct hang *hang)
{
    const struct waiting     *waiting = hang->victim >= 0 ? &graph->waits[hang->victim] : NULL;
    const struct flight_rank *culprit = rank_in(survey->flight, hang->culprit);
    if (waiting != NULL) {
        hang->group     = waiting->group;
        hang->sequence  = waiting->sequence;
        hang->of_victim = waiting->entry;
    }
    if (hang->culprit >= 0 && hang->culprit < graph->rank_count && graph->wait[hang->culprit] >= 0) {
        hang->of_culprit = graph->waits[hang->culprit].entry;
        return;
    }
    for (size_t i = culprit->count; i-- > 0;)
        if (waiting == NULL || waiting->kind != WAIT_COLLECTIVE || culprit->entries[i].group == hang->group) {
            hang->of_culprit = &culprit->entries[i];
            return;
        }
    hang->of_culprit = culprit->count > 0 ? &culprit->entries[culprit->count - 1] : NULL;
}

/* ---- sends and receives that miss each other ---- */

/* Of a send and a receive that name each other: why they do not meet; HANG_NONE: they do. */
static enum hang_cause
meeting(const struct flight_entry *send, const struct flight_entry *recv)
{
    if (send->group != recv->group)
        return send->tag == recv->tag || send->tag < 0 || recv->tag < 0 ? HANG_GROUP : HANG_UNMATCHED;
    if (send->tag >= 0 && recv->tag >= 0 && send->tag != recv->tag)
        return HANG_TAG;
    const char *sent  = either(send->input_sizes, NULL), *from = either(send->input_dtypes, NULL);
    const char *taken = either(recv->output_sizes, either(recv->input_sizes, NULL));
    const char *into  = either(recv->output_dtypes, either(recv->input_dtypes, NULL));
    if (sent != NULL && taken != NULL && !texts_equal(sent, taken))
        return HANG_SHAPE;
    return from != NULL && into != NULL && !texts_equal(from, into) ? HANG_DTYPE : HANG_NONE;
}

/* A rank that does nothing more, or waits in this very call, will not post another one. */
static bool
is_final(const struct survey *survey, const struct graph *graph, int rank, const struct flight_entry *entry)
{
    enum flight_now now = rank_in(survey->flight, rank)->now;
    return graph->wait[rank] >= 0 ? graph->waits[rank].entry == entry : now == FLIGHT_RETURNED || now == FLIGHT_UNKNOWN;
}

/* The other's open send or receive that was meant for `rank`'s, and why it misses it. */
static enum hang_cause
missed(struct survey *survey, const struct graph *graph, int rank, int other, const struct flight_entry **met)
{
    const struct flight_rank  *there   = rank_in(survey->flight, other);
    const struct flight_entry *mine    = graph->waits[rank].entry;
    bool                       is_send = graph->waits[rank].kind == WAIT_SEND;
    enum hang_cause            why     = HANG_NONE;
    for (size_t i = there->count; mine != NULL && i-- > 0;) {
        const struct flight_entry *entry = &there->entries[i];
        if (!(is_send ? entry_is_recv(entry) : entry_is_send(entry)) || (entry->peer != rank && entry->peer >= 0) ||
            entry_is_over(survey, entry))
            continue;
        enum hang_cause here = is_send ? meeting(mine, entry) : meeting(entry, mine);
        if (here == HANG_NONE)
            return HANG_NONE;
        if (here != HANG_UNMATCHED && is_final(survey, graph, other, entry)) {
            why  = here;
            *met = entry;
        }
    }
    return why;
}

static bool
explain_missed(struct survey *survey, const struct graph *graph, struct hang *hang)
{
    for (int rank = 0; rank < graph->rank_count; rank++) {
        const struct waiting *waiting = &graph->waits[rank];
        if (graph->wait[rank] < 0 || !is_p2p(waiting) || graph->open[graph->wait[rank]])
            continue;
        for (size_t i = graph->first[graph->wait[rank]]; i < graph->first[graph->wait[rank] + 1]; i++) {
            int                        other = graph->targets[i];
            const struct flight_entry *met   = NULL;
            enum hang_cause            why   = other != rank ? missed(survey, graph, rank, other, &met) : HANG_NONE;
            if (why == HANG_NONE)
                continue;
            bool first = rank < other;
            *hang = (struct hang){ .cause = why, .culprit = first ? other : rank, .victim = first ? rank : other,
                                   .group = waiting->group, .sequence = -1,
                                   .of_culprit = first ? met : waiting->entry,
                                   .of_victim = first ? waiting->entry : met };
            return true;
        }
    }
    return false;
}

/* ---- circles ---- */

/* `culprit` is waited for by `victim`. */
static void
blame(struct hang *hang, enum hang_cause cause, int culprit, int victim)
{
    hang->cause   = cause;
    hang->culprit = culprit;
    hang->victim  = victim;
}

/* Calls of two groups: one call that went to two, or two calls in two orders. */
static void
blame_groups(struct survey *survey, const struct graph *graph, int one, int other, struct hang *hang)
{
    const struct waiting *a = &graph->waits[one], *b = &graph->waits[other];
    bool same = a->entry != NULL && b->entry != NULL && calls_differ(a->entry, b->entry) == HANG_NONE &&
                same_place(a->entry, b->entry);
    bool first_is_odd = arrived(survey, a) < arrived(survey, b);
    blame(hang, same ? HANG_GROUP : HANG_GROUPS_CROSSED, first_is_odd ? one : other, first_is_odd ? other : one);
}

/* A collective that waits for a rank in a send or receive which waits for one in the collective: most ranks' word
 * counts, in a tie the lowest one's. */
static void
blame_mixed(struct survey *survey, const struct graph *graph, const int *circle, int length, struct hang *hang)
{
    for (int i = 0; i < length; i++) {
        int before = circle[(i + length - 1) % length], at = circle[i], next = circle[(i + 1) % length];
        if (graph->waits[at].kind != WAIT_COLLECTIVE || !is_p2p(&graph->waits[before]))
            continue;
        const struct flight_group *group = group_in(survey->flight, graph->waits[at].group);
        int came = arrived(survey, &graph->waits[at]), missing = group != NULL ? group->size - came : 0;
        if ((came > missing || (came == missing && at < next)) && graph->waits[next].kind != WAIT_COLLECTIVE)
            blame(hang, HANG_SKIPPED, next, at);
        else
            blame(hang, HANG_UNMATCHED, at, before);
        hang->left_out = hang->cause == HANG_SKIPPED;
        return;
    }
    blame(hang, HANG_UNKNOWN, circle[1 % length], circle[0]);
}

static void
explain_circle(struct survey *survey, const struct graph *graph, const int *circle, int length, struct hang *hang)
{
    int kinds[WAIT_OTHER + 1] = { 0 }, group = graph->waits[circle[0]].group, other_group = -1;
    for (int i = 0; i < length; i++) {
        const struct waiting *waiting = &graph->waits[circle[i]];
        int                   next    = circle[(i + 1) % length];
        kinds[waiting->kind]++;
        if (waiting->kind == WAIT_COLLECTIVE && waiting->group != group)
            other_group = i;
        if (waiting->kind == WAIT_LOCK && kinds[WAIT_LOCK] == 1)
            blame(hang, HANG_LOCKS_CROSSED, next, circle[i]);
    }
    for (int i = 0; i < length && kinds[WAIT_LOCK] == 0; i++)
        if (graph->waits[circle[i]].kind == WAIT_NEW_GROUP) {
            blame(hang, HANG_NO_NEW_GROUP, circle[(i + 1) % length], circle[i]);
            hang->unsure = true;
            return;
        }
    if (kinds[WAIT_LOCK] > 0)
        return;
    if (kinds[WAIT_SEND] == length || kinds[WAIT_RECV] == length)
        blame(hang, HANG_SENDS_CROSSED, circle[1 % length], circle[0]);
    else if (kinds[WAIT_SEND] + kinds[WAIT_RECV] == length)
        blame(hang, HANG_UNMATCHED, circle[1], circle[0]);
    else if (kinds[WAIT_COLLECTIVE] == length && other_group > 0)
        blame_groups(survey, graph, circle[other_group - 1], circle[other_group], hang);
    else
        blame_mixed(survey, graph, circle, length, hang);
}

/* ---- the end of the chain ---- */

/* Who explains more comes first. */
enum end {
    END_THREW, END_KILLED, END_RETURNED, END_RUNNING, END_IDLE, END_LATE, END_ELSEWHERE, END_ABSENT, END_STUCK,
    END_NOWHERE
};

struct chain_end { enum end end; int rank; uint64_t since; };

static enum end
end_of(const struct survey *survey, int rank)
{
    switch (rank_in(survey->flight, rank)->now) {
    case FLIGHT_THREW: return END_THREW;
    case FLIGHT_KILLED: return END_KILLED;
    case FLIGHT_RETURNED: return END_RETURNED;
    case FLIGHT_RUNNING: return END_RUNNING;
    case FLIGHT_ABSENT: return END_ABSENT;
    case FLIGHT_UNKNOWN:
    case FLIGHT_WAITING: break;
    }
    return END_IDLE;
}

/* Of equals whoever has been there for longest, then the lowest. */
static void
prefer(struct chain_end *best, struct chain_end other)
{
    if (other.end < best->end || (other.end == best->end && (other.since > best->since ||
                                                             (other.since == best->since && other.rank < best->rank))))
        *best = other;
}

/* A rank that waits for nobody: its call can end, or something unknown keeps it. */
static enum end
end_of_wait(const struct graph *graph, int rank, const bool *awaited)
{
    const struct waiting *waiting = &graph->waits[rank];
    if (waiting->kind == WAIT_OTHER && !texts_equal(waiting->what, "sleep"))
        return END_ELSEWHERE;
    return awaited[rank] && (waiting->kind == WAIT_COLLECTIVE || waiting->kind == WAIT_OTHER) ? END_LATE : END_STUCK;
}

static struct chain_end
find_end(struct survey *survey, const struct graph *graph)
{
    struct chain_end best    = { .end = END_NOWHERE, .rank = -1 };
    bool            *awaited = calloc((size_t)graph->rank_count + 1, sizeof *awaited);
    survey->broken = survey->broken || awaited == NULL;
    for (size_t i = 0; awaited != NULL && i < graph->target_count; i++) {
        int target = graph->targets[i];
        uint64_t since = rank_in(survey->flight, target)->since_ps;
        if (graph->wait[target] < 0 && !awaited[target])
            prefer(&best, (struct chain_end){ end_of(survey, target), target, since });
        awaited[target] = true;
    }
    for (int rank = 0; awaited != NULL && rank < graph->rank_count; rank++) {
        int wait = graph->wait[rank];
        if (wait < 0 || graph->first[wait] < graph->first[wait + 1])
            continue;
        if (graph->outside[wait] >= 0)
            prefer(&best, (struct chain_end){ END_ABSENT, graph->outside[wait], 0 });
        else
            prefer(&best, (struct chain_end){ end_of_wait(graph, rank, awaited), rank, 0 });
    }
    free(awaited);
    return best;
}

/* The lowest rank that waits for it, one in a collective before others; `kind`: only one that waits in such. */
static int
waiter_of(const struct graph *graph, int rank, enum wait_kind kind)
{
    int found = -1;
    for (int i = 0; i < graph->rank_count; i++) {
        int  wait = graph->wait[i];
        bool waits = wait >= 0 && graph->outside[wait] == rank && graph->outside[wait] >= 0;
        if (wait < 0 || (kind != WAIT_NONE && graph->waits[i].kind != kind))
            continue;
        for (size_t at = graph->first[wait]; at < graph->first[wait + 1] && !waits; at++)
            waits = graph->targets[at] == rank;
        if (waits && graph->waits[i].kind == WAIT_COLLECTIVE)
            return i;
        if (waits && found < 0)
            found = i;
    }
    return found;
}

/* Whoever came to an end, or does something else, without what another one waits for. */
static enum hang_cause
cause_of_gone(const struct graph *graph, int victim, enum hang_cause otherwise)
{
    if (victim >= 0 && graph->waits[victim].kind == WAIT_NEW_GROUP)
        return HANG_NO_NEW_GROUP;
    return victim >= 0 && is_p2p(&graph->waits[victim]) ? HANG_UNMATCHED : otherwise;
}

static bool
waits_in_store(const struct graph *graph, int rank)
{
    const char *what = graph->wait[rank] >= 0 ? graph->waits[rank].what : NULL;
    return what != NULL && graph->waits[rank].kind == WAIT_OTHER && strncmp(what, "store.", strlen("store.")) == 0;
}

/* How many wait for the key that `rank` waits for; of two such keys the one whose waiter is waited for itself. */
static int
weight_of_key(const struct survey *survey, const struct graph *graph, int rank)
{
    int count = 0;
    for (int other = 0; other < graph->rank_count; other++)
        count += waits_in_store(graph, other) && same_detail(survey->flight, rank, other);
    return 2 * count - (waiter_of(graph, rank, WAIT_NONE) >= 0);
}

/* Of all who wait for a key the one whose key the fewest wait for: the others may well wait for it. In a tie `rank`. */
static int
odd_key(const struct survey *survey, const struct graph *graph, int rank)
{
    int odd = rank, least = weight_of_key(survey, graph, rank);
    for (int i = 0; i < graph->rank_count; i++) {
        int weight = waits_in_store(graph, i) ? weight_of_key(survey, graph, i) : least;
        if (weight < least) {
            odd   = i;
            least = weight;
        }
    }
    return odd;
}

static void
explain_end(struct survey *survey, const struct graph *graph, struct chain_end at, struct hang *hang)
{
    static const enum hang_cause causes[] = {
        [END_THREW] = HANG_THREW, [END_KILLED] = HANG_KILLED, [END_RETURNED] = HANG_ENDED, [END_RUNNING] = HANG_OUTSIDE,
        [END_IDLE] = HANG_OUTSIDE, [END_LATE] = HANG_LATE, [END_ELSEWHERE] = HANG_OUTSIDE, [END_ABSENT] = HANG_ABSENT,
        [END_STUCK] = HANG_UNKNOWN, [END_NOWHERE] = HANG_NONE,
    };
    blame(hang, causes[at.end], at.rank, at.end == END_NOWHERE ? -1 : waiter_of(graph, at.rank, WAIT_NONE));
    if (at.end == END_RETURNED || at.end == END_IDLE)
        hang->cause = cause_of_gone(graph, hang->victim, hang->cause);
    if (hang->cause == HANG_UNMATCHED && graph->waits[hang->victim].peer < 0)
        hang->culprit = -1;
    if (at.end == END_ELSEWHERE) {
        bool key = waits_in_store(graph, at.rank);
        int  odd = key ? odd_key(survey, graph, at.rank) : at.rank, waiter = waiter_of(graph, odd, WAIT_NONE);
        blame(hang, key ? HANG_UNSET_KEY : HANG_OUTSIDE, odd, waiter >= 0 ? waiter : odd);
    }
    name_waits(survey, graph, hang);
    if (at.end == END_STUCK) {
        const struct waiting *stuck = &graph->waits[at.rank];
        bool any = stuck->kind == WAIT_RECV;
        blame(hang, any ? HANG_UNMATCHED : HANG_UNKNOWN, any || stuck->kind == WAIT_COLLECTIVE ? -1 : at.rank, at.rank);
        hang->group     = stuck->group;
        hang->sequence  = stuck->sequence;
        hang->of_victim = stuck->entry;
    }
    if (hang->victim >= 0 && (at.end == END_RETURNED || at.end == END_RUNNING || at.end == END_IDLE))
        find_silent_skip(survey, hang);
}

/* ---- all of it ---- */

static void
keep_circle(struct hang *hang, const int *circle, int length)
{
    hang->circle_length = length;
    hang->circle_count  = length < (int)countof(hang->circle) ? length : (int)countof(hang->circle);
    for (int i = 0; i < hang->circle_count; i++)
        hang->circle[i] = circle[i];
}

/* Whatever else it may look like: who waits for it waits in vain. */
static bool
find_lost(const struct survey *survey, const struct graph *graph, struct hang *hang)
{
    for (int i = 0; i < survey->flight->rank_count; i++) {
        const struct flight_rank *rank = &survey->flight->ranks[i];
        if (rank->now != FLIGHT_WAITING || !rank->lost || rank->detail == NULL)
            continue;
        blame(hang, HANG_LOST, rank->peer, i);
        name_waits(survey, graph, hang);
        return true;
    }
    return false;
}

/* The killed one was to take part in what `rank` waits in. */
static bool
waits_with_killed(const struct flight *flight, int rank, int killed)
{
    const struct flight_rank  *waiter = &flight->ranks[rank];
    const struct flight_group *group  = group_in(flight, waiter->group);
    int place = group != NULL && waiter->sequence >= 0 ? flight_group_rank(group, killed) : -1;
    return waiter->now == FLIGHT_WAITING && place >= 0 && group->progress[place].completed < waiter->sequence;
}

/* A rank that waits for it, or else with it; -1: none. */
static int
victim_of_killed(const struct flight *flight, int killed)
{
    int victim = -1;
    for (int rank = flight->rank_count; rank-- > 0;)
        if (waits_with_killed(flight, rank, killed))
            victim = rank;
    for (int rank = flight->rank_count; rank-- > 0;)
        if (flight->ranks[rank].now == FLIGHT_WAITING && flight->ranks[rank].peer == killed)
            victim = rank;
    return victim;
}

/* Nobody is killed because of a hang: it comes before all that follows from it. */
static bool
find_killed(const struct survey *survey, const struct graph *graph, struct hang *hang)
{
    const struct flight *flight = survey->flight;
    for (int killed = 0; killed < flight->rank_count; killed++) {
        int victim = flight->ranks[killed].now == FLIGHT_KILLED ? victim_of_killed(flight, killed) : -1;
        if (victim < 0)
            continue;
        blame(hang, HANG_KILLED, killed, victim);
        name_waits(survey, graph, hang);
        return true;
    }
    return false;
}

/* Who knows that it waits in vain knows more than can be seen of ranks that may still be on their way. */
static bool
end_in_vain(const struct survey *survey, struct chain_end *end)
{
    for (int i = 0; i < survey->flight->rank_count; i++) {
        const struct flight_rank *rank = &survey->flight->ranks[i];
        bool vain = rank->now == FLIGHT_WAITING && rank->in_vain && rank_in(survey->flight, rank->peer) != NULL;
        if (vain && end_of(survey, rank->peer) <= END_RETURNED) {
            *end = (struct chain_end){ end_of(survey, rank->peer), rank->peer, 0 };
            return true;
        }
    }
    return false;
}

/* A send and the receive that takes it: they do not wait for each other, they are under way. */
static bool
they_meet(const struct graph *graph, const int *circle, int length)
{
    const struct waiting *one = length == 2 ? &graph->waits[circle[0]] : NULL;
    const struct waiting *two = length == 2 ? &graph->waits[circle[1]] : NULL;
    if (length != 2 || one->entry == NULL || two->entry == NULL)
        return false;
    if (!is_p2p(one) || !is_p2p(two) || one->kind == two->kind)
        return false;
    return (one->kind == WAIT_SEND ? meeting(one->entry, two->entry) : meeting(two->entry, one->entry)) == HANG_NONE;
}

static void
explain_waits(struct survey *survey, const struct graph *graph, const int *circle, int length, struct hang *hang)
{
    struct chain_end end   = find_end(survey, graph);
    bool             known = end_in_vain(survey, &end);
    if (!known && end.end > END_KILLED && explain_missed(survey, graph, hang))
        return;
    if (!known && end.end > END_KILLED && length > 0 && !(end.end < END_STUCK && they_meet(graph, circle, length))) {
        explain_circle(survey, graph, circle, length, hang);
        name_waits(survey, graph, hang);
        return;
    }
    explain_end(survey, graph, end, hang);
}

/* Nobody waits: who threw or was killed is told nevertheless, and after a time-out who is still busy. */
static void
explain_gone(const struct survey *survey, struct hang *hang)
{
    struct chain_end best = { .end = END_NOWHERE, .rank = -1 };
    for (int rank = 0; rank < survey->flight->rank_count; rank++) {
        struct chain_end own = { end_of(survey, rank), rank, survey->flight->ranks[rank].since_ps };
        if (own.end <= END_KILLED || (own.end == END_RUNNING && survey->flight->why == FLIGHT_TIMEOUT))
            prefer(&best, own);
    }
    if (best.rank < 0)
        return;
    enum hang_cause gone = best.end == END_THREW ? HANG_THREW : HANG_KILLED;
    blame(hang, best.end == END_RUNNING ? HANG_OUTSIDE : gone, best.rank, -1);
    const struct flight_rank *rank = rank_in(survey->flight, best.rank);
    hang->of_culprit = rank->count > 0 ? &rank->entries[rank->count - 1] : NULL;
}

void
flight_diagnose(const struct flight *flight, struct hang *hang)
{
    static const struct hang nothing = { .culprit = -1, .victim = -1, .group = -1, .sequence = -1 };
    struct survey survey;
    struct graph  graph  = { 0 };
    int          *circle = malloc(((size_t)flight->rank_count + 1) * sizeof *circle), length = 0;
    *hang = nothing;
    bool known = survey_open(&survey, flight) && circle != NULL && survey_rolls(&survey) && graph_open(&graph, &survey);
    if (known) {
        length = graph_circle(&graph, circle);
        if (!find_lost(&survey, &graph, hang) && !find_killed(&survey, &graph, hang) &&
            !find_difference(&survey, false, hang))
            explain_waits(&survey, &graph, circle, length, hang);
        if (hang->cause == HANG_NONE)
            explain_gone(&survey, hang);
        if (hang->cause == HANG_NONE || hang->cause == HANG_UNKNOWN)
            find_difference(&survey, true, hang);
        keep_circle(hang, circle, length);
    }
    if ((survey.broken || !known || graph.wait_count > 0) && hang->cause == HANG_NONE)
        hang->cause = HANG_UNKNOWN;
    graph_close(&graph);
    survey_close(&survey);
    free(circle);
}
