/* What is certain, whatever clocks say: a message arrives after it left; nobody is done with an all-reduce before
 * everybody has begun it. Each such thing is a rule, s[from] - s[to] <= slack, about how far two clocks are moved
 * (s), and so is each error: a clock is moved by no more than its offset may be wrong. Such rules are solved by
 * relaxing them until they hold (Bellman and Ford); the result lies half-way between the least that moves clocks
 * on and the least that moves them back, which keeps all rules too. Each clock is moved at JOB_KNOTS moments,
 * evenly in between; a rule holds for the knots on both sides of its moment.
 *
 * Interface: arrows_mend. */
#include <stdlib.h>
#include <string.h>

#include "base/vec.h"
#include "trace/join_internal.h"

enum {
    MARGIN     = 2000,           /* ps: the whole's times are ns, and an arrow has a length ... */
    ROUNDED    = 500,            /* ... so what halves lose does not matter */
    COMPARED   = 4096,           /* collectives of a part and an epoch */
    PAIRS_MOST = 64,             /* ranks of a collective of which each is compared with each */
    WORK_MOST  = 50 * 1000 * 1000,
    STEPS      = 200,            /* of bringing near what does not go together ... */
    PASSES     = 12              /* ... and how often that is looked at again */
};

struct rule  { uint32_t from, to; int64_t slack; };
struct place { struct part *part; int64_t own; };
struct arrival { uint32_t flow; struct place place; };
struct meet  { uint64_t key; struct place begin; int64_t end, world; };   /* end: -1: none */

/* One epoch. */
struct mending {
    struct whole   *whole;
    size_t          epoch;
    struct rule    *rules;
    size_t          rule_count, rule_room;
    struct map      known;                  /* (from, to) -> its rule */
    struct map      leaves;                 /* flow -> its place in `left` */
    struct place   *left;
    struct arrival *arrivals;
    struct meet    *meets;
    size_t          left_count, left_room, arrival_count, arrival_room, meet_count, meet_room;
    size_t          count;                  /* of what is moved: [part * JOB_KNOTS + knot], and the job's clock */
    bool            broken, starved;        /* broken: a rule does not hold yet */
};

static int64_t
own_of(const struct trace *trace, size_t seq)
{
    uint64_t time = trace_time(trace, seq);
    return time < FARTHEST ? (int64_t)time : FARTHEST;
}

/* ---- what is met in an epoch ---- */

static void
take_flow(struct mending *m, const struct trace_event *event, struct place place)
{
    if (event->phase == PHASE_END) {
        if (!vec_room(&m->arrivals, &m->arrival_room, m->arrival_count + 1, sizeof *m->arrivals))
            m->starved = true;
        else
            m->arrivals[m->arrival_count++] = (struct arrival){ event->flow, place };
        return;
    }
    if (map_get(&m->leaves, event->flow, NULL))
        return;
    if (!vec_room(&m->left, &m->left_room, m->left_count + 1, sizeof *m->left) ||
        !map_set(&m->leaves, event->flow, m->left_count))
        m->starved = true;
    else
        m->left[m->left_count++] = place;
}

/* The place of an argument of that kind; -1: it has none. */
static int
argument_of(const struct trace_kind *kind, const char *name)
{
    for (int i = 0; i < kind->arg_count; i++)
        if (strcmp(kind->arg_name[i], name) == 0)
            return i;
    return -1;
}

/* All of its ranks wait for all. */
static bool
is_meeting(const struct trace_kind *kind)
{
    static const char *const meetings[] = { "allreduce", "allreduce_sparse", "allgather", "reduce_scatter", "alltoall",
                                            "barrier" };
    if (strncmp(kind->name, "c10d.", 5) != 0)
        return false;
    for (size_t i = 0; i < countof(meetings); i++)
        if (strcmp(kind->name + 5, meetings[i]) == 0)
            return argument_of(kind, "sequence") >= 0 && argument_of(kind, "world") >= 0;
    return false;
}

/* Of one part: how often each collective was met (a later world counts from 0 again), and which is open on a lane. */
struct meeting { struct map times, open; size_t count; };

static void
take_meeting(struct mending *m, struct meeting *meeting, const struct trace_event *event, struct place place)
{
    const struct trace_kind *kind = trace_kind(place.part->trace, event->kind);
    uint64_t                 open, times = 0, lane = (uint64_t)event->lane << 16 | event->kind;
    if (event->phase == PHASE_END) {
        if (map_get(&meeting->open, lane, &open) && m->meets[open].end < 0)
            m->meets[open].end = place.own;
        return;
    }
    if (event->phase != PHASE_BEGIN || meeting->count == COMPARED)
        return;
    int64_t  world  = event->args[argument_of(kind, "world")];
    int64_t  own[2] = { event->args[argument_of(kind, "sequence")], world };
    uint64_t name   = hash_bytes(0, kind->name, strlen(kind->name)), key = hash_bytes(name, own, sizeof own);
    map_get(&meeting->times, key, &times);
    if (!map_set(&meeting->times, key, times + 1) || !map_set(&meeting->open, lane, m->meet_count) ||
        !vec_room(&m->meets, &m->meet_room, m->meet_count + 1, sizeof *m->meets)) {
        m->starved = true;
        return;
    }
    m->meets[m->meet_count++] = (struct meet){ hash_bytes(key, &times, sizeof times), place, -1, world };
    meeting->count++;
}

static void
take_part(struct mending *m, struct part *part)
{
    struct meeting meeting = { .count = 0 };
    struct bend   *bend    = &part->bends[m->epoch];
    size_t         from    = m->epoch > 0 ? part->ends[m->epoch - 1] : 0, to = part->ends[m->epoch];
    size_t         kinds   = trace_kinds(part->trace);
    bool          *meets   = calloc(kinds, sizeof *meets);
    m->starved |= meets == NULL;
    for (size_t i = 0; i < kinds && meets != NULL; i++)
        meets[i] = is_meeting(trace_kind(part->trace, (unsigned)i));
    if (from < to) {
        bend->from = own_of(part->trace, from);
        bend->to   = own_of(part->trace, to - 1);
    }
    for (size_t seq = from; seq < to && !m->starved; seq++) {
        const struct trace_event *event = trace_event(part->trace, seq);
        if (event->flow >= JOB_FLOW)
            take_flow(m, event, (struct place){ part, own_of(part->trace, seq) });
        if (event->kind < kinds && meets[event->kind])
            take_meeting(m, &meeting, event, (struct place){ part, own_of(part->trace, seq) });
    }
    free(meets);
    map_free(&meeting.times);
    map_free(&meeting.open);
}

/* ---- rules ---- */

static void
add_rule(struct mending *m, uint32_t from, uint32_t to, int64_t slack)
{
    uint64_t key = (uint64_t)from << 32 | to, at;
    if (map_get(&m->known, key, &at)) {
        m->rules[at].slack = slack < m->rules[at].slack ? slack : m->rules[at].slack;
        return;
    }
    if (!vec_room(&m->rules, &m->rule_room, m->rule_count + 1, sizeof *m->rules) ||
        !map_set(&m->known, key, m->rule_count))
        m->starved = true;
    else
        m->rules[m->rule_count++] = (struct rule){ from, to, slack };
}

/* The knots on both sides of a moment. */
static void
knots_around(const struct mending *m, struct place place, uint32_t knots[2])
{
    const struct bend *bend   = &place.part->bends[m->epoch];
    __int128           length = (__int128)bend->to - bend->from;
    uint32_t           first  = (uint32_t)(place.part - m->whole->parts) * JOB_KNOTS;
    uint32_t knot = length > 0 ? (uint32_t)(((__int128)place.own - bend->from) * (JOB_KNOTS - 1) / length) : 0;
    knots[0] = first + (knot < JOB_KNOTS - 1 ? knot : JOB_KNOTS - 2);
    knots[1] = knots[0] + 1;
}

/* What happened at `a` came before what happened at `b`. Where no error allows for that, it is said instead. */
static void
add_order(struct mending *m, struct place a, struct place b)
{
    int64_t slack  = offsets_time(b.part, b.own) - offsets_time(a.part, a.own) - MARGIN;
    int64_t errors = offsets_error(a.part, a.own) + offsets_error(b.part, b.own);
    if (a.part == b.part || slack >= errors)
        return;
    if (slack < -errors) {
        if (m->whole->worst == NULL || slack + errors < m->whole->worst_by) {
            m->whole->worst    = a.part;
            m->whole->worst_to = b.part;
            m->whole->worst_by = slack + errors;
        }
        return;
    }
    uint32_t from[2], to[2];
    slack = offsets_mended(b.part, m->epoch, b.own) - offsets_mended(a.part, m->epoch, a.own) - MARGIN;
    m->broken |= slack < -ROUNDED;
    knots_around(m, a, from);
    knots_around(m, b, to);
    for (int i = 0; i < 4; i++)
        add_rule(m, from[i / 2], to[i % 2], slack);
}

static int
by_key(const void *a, const void *b)
{
    const struct meet *one = a, *other = b;
    if (one->key != other->key)
        return one->key < other->key ? -1 : 1;
    return one->begin.part < other->begin.part ? -1 : one->begin.part > other->begin.part;
}

/* Only where all ranks of the group are known: what else has that number is another group's. */
static void
add_meeting(struct mending *m, const struct meet *meets, size_t count)
{
    bool is_one = count >= 2;
    for (size_t i = 0; i < count; i++)
        is_one = is_one && meets[i].world == (int64_t)count &&
                 (i == 0 || meets[i].begin.part != meets[i - 1].begin.part);
    for (size_t i = 0; i < count && is_one; i++)
        for (size_t k = 0; k < count; k++)
            if (i != k && meets[k].end >= 0 && (count <= PAIRS_MOST || i == 0 || k == 0))
                add_order(m, meets[i].begin, (struct place){ meets[k].begin.part, meets[k].end });
}

/* As the clocks are mended by now. */
static void
make_rules(struct mending *m)
{
    uint64_t at;
    m->rule_count = 0;
    m->broken     = false;
    map_free(&m->known);
    for (size_t i = 0; i < m->arrival_count; i++)
        if (map_get(&m->leaves, m->arrivals[i].flow, &at))
            add_order(m, m->left[at], m->arrivals[i].place);
    for (size_t from = 0, to; from < m->meet_count; from = to) {
        for (to = from; to < m->meet_count && m->meets[to].key == m->meets[from].key; to++)
            continue;
        add_meeting(m, &m->meets[from], to - from);
    }
}

static int64_t
knot_time(const struct bend *bend, int knot)
{
    return bend->from + (int64_t)(((__int128)bend->to - bend->from) * knot / (JOB_KNOTS - 1));
}

/* What an offset may be wrong by; and a clock that is moved never stands still. */
static void
add_bounds(struct mending *m)
{
    const uint32_t still = (uint32_t)m->count - 1;
    for (size_t i = 0; i < m->whole->part_count; i++) {
        const struct part *part = &m->whole->parts[i];
        const struct bend *bend = &part->bends[m->epoch];
        int64_t            half = (bend->to - bend->from) / (JOB_KNOTS - 1) / 2;
        for (int knot = 0; knot < JOB_KNOTS; knot++) {
            uint32_t at    = (uint32_t)i * JOB_KNOTS + (uint32_t)knot;
            int64_t  error = offsets_error(part, knot_time(bend, knot)), moved = bend->moved[knot];
            if (part->mark_count > 0) {
                add_rule(m, at, still, error - moved);
                add_rule(m, still, at, error + moved);
            }
            if (knot + 1 < JOB_KNOTS) {
                add_rule(m, at, at + 1, half - moved + bend->moved[knot + 1]);
                add_rule(m, at + 1, at, half + moved - bend->moved[knot + 1]);
            }
        }
    }
}

/* ---- solving ---- */

/* The least that moves clocks on (or back) so that all rules hold; false: they do not go together. */
static bool
relax(const struct mending *m, int64_t *moved, bool back)
{
    size_t rounds = WORK_MOST / (m->rule_count + 1) + 2;
    bool   changed = true;
    memset(moved, 0, m->count * sizeof *moved);
    for (size_t round = 0; changed && round <= m->count && round < rounds; round++) {
        changed = false;
        for (size_t i = 0; i < m->rule_count; i++) {
            const struct rule *rule = &m->rules[i];
            int64_t            over = moved[rule->from] - moved[rule->to] - rule->slack;
            if (over <= 0)
                continue;
            changed = true;
            moved[rule->from] -= back ? over : 0;
            moved[rule->to] += back ? 0 : over;
            if (moved[rule->from] < -2 * FARTHEST || moved[rule->to] > 2 * FARTHEST)
                return false;
        }
    }
    return !changed;
}

static int64_t
limited(int64_t moved)
{
    return moved > FARTHEST ? FARTHEST : moved < -FARTHEST ? -FARTHEST : moved;
}

/* Rules that do not go together are brought near: each pulls at both of its clocks. Errors come last and have the
 * last word. */
static void
approach(const struct mending *m, int64_t *moved)
{
    const size_t still = m->count - 1, steps = WORK_MOST / (m->rule_count + 1) + 1;
    memset(moved, 0, m->count * sizeof *moved);
    for (size_t step = 0; step < STEPS && step < steps; step++)
        for (size_t i = 0; i < m->rule_count; i++) {
            const struct rule *rule = &m->rules[i];
            int64_t            over = moved[rule->from] - moved[rule->to] - rule->slack;
            if (over <= 0)
                continue;
            if (rule->from != still)
                moved[rule->from] = limited(moved[rule->from] - (rule->to == still ? over : over / 2));
            if (rule->to != still)
                moved[rule->to] = limited(moved[rule->to] + (rule->from == still ? over : over / 2));
        }
}

/* One step nearer, or all the way. false: no memory. */
static bool
solve(struct mending *m)
{
    int64_t *on = calloc(2 * m->count, sizeof *on);
    if (on == NULL)
        return false;
    int64_t *back = on + m->count;
    if (relax(m, on, false) && relax(m, back, true)) {
        for (size_t i = 0; i < m->count; i++)
            on[i] = (on[i] - on[m->count - 1]) / 2 + (back[i] - back[m->count - 1]) / 2;
    } else {
        approach(m, on);
    }
    for (size_t i = 0; i < m->whole->part_count; i++)
        for (size_t knot = 0; knot < JOB_KNOTS; knot++) {
            int64_t *moved = &m->whole->parts[i].bends[m->epoch].moved[knot];
            *moved = limited(*moved + on[i * JOB_KNOTS + knot]);
        }
    free(on);
    return true;
}

/* A rule holds for the knots around its moment, which is more than it says: where a clock drifts between them by
 * more than a message takes, rules contradict each other that do not. They do so less the nearer the clocks are,
 * so it is done again. */
static bool
mend_epoch(struct mending *m)
{
    struct whole *whole = m->whole;
    m->count = whole->part_count * JOB_KNOTS + 1;
    for (size_t i = 0; i < whole->part_count; i++)
        take_part(m, &whole->parts[i]);
    if (m->meet_count > 0)
        qsort(m->meets, m->meet_count, sizeof *m->meets, by_key);
    make_rules(m);
    for (int pass = 0; pass < PASSES && m->broken && !m->starved; pass++) {
        add_bounds(m);
        if (m->starved || !solve(m))
            return false;
        make_rules(m);
    }
    whole->forced |= m->broken;
    return !m->starved;
}

static void
free_mending(struct mending *m)
{
    free(m->rules);
    free(m->left);
    free(m->arrivals);
    free(m->meets);
    map_free(&m->known);
    map_free(&m->leaves);
}

bool
arrows_mend(struct whole *whole)
{
    bool good = true;
    for (size_t epoch = 0; epoch < whole->epochs && good; epoch++) {
        struct mending m = { .whole = whole, .epoch = epoch };
        good = mend_epoch(&m);
        free_mending(&m);
    }
    if (whole->worst != NULL)
        job_note(whole, "what rank %d sent rank %d arrives %.3g us too early for what their clocks may be wrong by",
                 whole->worst->rank, whole->worst_to->rank, (double)-whole->worst_by / 1e6);
    else if (whole->forced)
        job_note(whole, "the ranks' clocks contradict each other: some messages arrive before they leave");
    return good;
}
