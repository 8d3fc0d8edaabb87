/* Which collective an event belongs to, and when each rank began it. Looks at the stages that are open, then at events
 * near by: never at all of them.
 * Interface: rounds_find, rounds_is_collective, rounds_argument, rounds_kinds. */
#include "analysis/rounds_internal.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "analysis/state.h"
#include "base/vec.h"
#include "trace/reader.h"

struct rounds_kinds
rounds_kinds(const struct trace *trace)
{
    return (struct rounds_kinds){
        .hop        = trace_kind_id(trace, "comm.hop"),
        .receive    = trace_kind_id(trace, "comm.receive"),
        .numbers    = trace_kind_id(trace, "comm.numbers"),
        .algorithm  = trace_kind_id(trace, "c10d.algorithm"),
        .rendezvous = trace_kind_id(trace, "c10d.rendezvous"),
        .send       = trace_kind_id(trace, "c10d.send"),
        .recv       = trace_kind_id(trace, "c10d.recv"),
    };
}

int64_t
rounds_argument(const struct trace *trace, const struct trace_event *event, const char *name, int64_t absent)
{
    const struct trace_kind *kind = trace_kind(trace, event->kind);
    for (int i = 0; i < kind->arg_count && i < 4; i++)
        if (strcmp(kind->arg_name[i], name) == 0)
            return event->args[i];
    return absent;
}

static bool
is_named(const struct trace *trace, const struct trace_event *event, const char *const *names, size_t count)
{
    const char *kind = trace_kind(trace, event->kind)->name;
    if (strncmp(kind, "c10d.", 5) != 0)
        return false;
    for (size_t i = 0; i < count; i++)
        if (strcmp(kind + 5, names[i]) == 0)
            return true;
    return false;
}

bool
rounds_is_collective(const struct trace *trace, const struct trace_event *event)
{
    static const char *const meetings[] = {
        "allreduce", "broadcast", "allgather", "allreduce_sparse", "reduce", "gather", "scatter", "reduce_scatter",
        "alltoall", "barrier", "send", "recv",
    };
    return is_named(trace, event, meetings, countof(meetings));
}

static bool
is_message(const struct trace *trace, const struct trace_event *event)
{
    static const char *const messages[] = { "send", "recv" };
    return is_named(trace, event, messages, countof(messages));
}

/* ---- groups: the comm task of rank 3 in group 2 has the lane "r3 comm 2" ---- */

/* Of a lane; -1: it is no comm task's. */
static int
group_of(const struct trace *trace, uint32_t lane)
{
    const struct trace_lane_info *info = trace_lane_at(trace, lane);
    int  rank, number = 0;
    char end = '\0';
    if (info->kind != LANE_COMM || sscanf(info->name, "r%d comm%c", &rank, &end) < 1 || (end != '\0' && end != ' '))
        return -1;
    const char *behind = strstr(info->name, "comm");
    return behind != NULL && sscanf(behind, "comm %d", &number) == 1 ? number : 0;
}

/* ---- the stage ---- */

static size_t
nearest(struct trace *trace, size_t seq, int way, bool (*is)(struct trace *, size_t, const void *), const void *context)
{
    size_t count = trace_count(trace);
    for (size_t steps = 0; steps < ROUNDS_NEAR && seq < count; steps++, seq += (size_t)way)
        if (is(trace, seq, context))
            return seq;
    return ROUNDS_NOWHERE;
}

/* The collective stage around the event that is open on its lane, from the outside: what a collective is made of counts
 * as that collective. */
static size_t
open_collective(struct trace *trace, const struct state *state, size_t seq)
{
    const struct trace_event *event = trace_event(trace, seq);
    size_t open[64], depth = state_open(state, event->lane, open, countof(open));
    for (size_t i = 0; i < depth && i < countof(open); i++)
        if (rounds_is_collective(trace, trace_event(trace, open[i])))
            return open[i];
    return rounds_is_collective(trace, event) && event->phase == PHASE_END ? trace_partner(trace, seq)
                                                                           : ROUNDS_NOWHERE;
}

/* What a call asks for: the work of that rank, name and number. */
struct call { int rank; const char *operation; int64_t sequence; };

static bool
is_operation(const char *kind, const char *operation)
{
    if (strncmp(kind, "c10d.", 5) != 0)
        return false;
    for (kind += 5; *kind != '\0' || *operation != '\0'; kind++, operation++) {
        operation += *operation == '_' && *kind != '_';
        if (*kind != *operation)
            return false;
    }
    return true;
}

static bool
begins_call(struct trace *trace, size_t seq, const void *context)
{
    const struct call        *call  = context;
    const struct trace_event *event = trace_event(trace, seq);
    return event->phase == PHASE_BEGIN && event->rank == call->rank && rounds_is_collective(trace, event) &&
           rounds_argument(trace, event, "sequence", -1) == call->sequence &&
           is_operation(trace_kind(trace, event->kind)->name, call->operation);
}

static bool
issues_call(struct trace *trace, size_t seq, const void *context)
{
    const struct call        *call  = context;
    const struct trace_event *event = trace_event(trace, seq);
    return event->rank == call->rank && strcmp(trace_kind(trace, event->kind)->name, "c10d.issue") == 0 &&
           rounds_argument(trace, event, "sequence", -1) == call->sequence;
}

/* c10d.issue and c10d.wait name their work; it begins behind the issue. */
static size_t
called_collective(struct trace *trace, size_t seq)
{
    const struct trace_event *event = trace_event(trace, seq);
    const char *kind = trace_kind(trace, event->kind)->name;
    if (strcmp(kind, "c10d.issue") != 0 && strcmp(kind, "c10d.wait") != 0)
        return ROUNDS_NOWHERE;
    int64_t     id   = rounds_argument(trace, event, "operation", 0);
    struct call call = { event->rank, trace_text_at(trace, id), rounds_argument(trace, event, "sequence", -1) };
    size_t      from = nearest(trace, seq, -1, issues_call, &call);
    return call.sequence >= 0 && from != ROUNDS_NOWHERE ? nearest(trace, from, 1, begins_call, &call) : ROUNDS_NOWHERE;
}

struct near { uint32_t iteration; bool messages; };

static bool
begins_near(struct trace *trace, size_t seq, const void *context)
{
    const struct near        *near  = context;
    const struct trace_event *event = trace_event(trace, seq);
    return event->phase == PHASE_BEGIN && event->iteration == near->iteration && rounds_is_collective(trace, event) &&
           (near->messages || !is_message(trace, event));
}

/* The last one of the iteration, else the next. */
static size_t
near_collective(struct rounds *rounds)
{
    const struct near near = { trace_event(rounds->trace, rounds->seq)->iteration, true };
    size_t found = nearest(rounds->trace, rounds->seq, -1, begins_near, &near);
    rounds->when = ROUNDS_LAST;
    if (found == ROUNDS_NOWHERE) {
        found = nearest(rounds->trace, rounds->seq, 1, begins_near, &near);
        rounds->when = ROUNDS_NEXT;
    }
    return found;
}

/* ---- who takes part ---- */

static int
compare_members(const void *a_, const void *b_)
{
    const struct rounds_member *a = a_, *b = b_;
    return a->rank < b->rank ? -1 : a->rank > b->rank;
}

static bool
add_member(struct rounds *rounds, size_t *room, int rank)
{
    if (!vec_room(&rounds->members, room, (size_t)rounds->member_count + 1, sizeof *rounds->members))
        return false;
    rounds->members[rounds->member_count++] =
        (struct rounds_member){ .rank = rank, .lane = UINT32_MAX, .begin = ROUNDS_NOWHERE, .end = ROUNDS_NOWHERE,
                                .sending = -1, .elements = -1 };
    return true;
}

static bool
has_member(const struct rounds *rounds, int rank)
{
    for (int i = 0; i < rounds->member_count; i++)
        if (rounds->members[i].rank == rank)
            return true;
    return false;
}

/* All ranks of the world, or those whose comm tasks for that group there are. */
static bool
name_members(struct rounds *rounds, int world)
{
    size_t room = 0;
    for (int rank = 0; rounds->group == 0 && rank < world; rank++)
        if (!add_member(rounds, &room, rank))
            return false;
    for (size_t lane = 0; rounds->group > 0 && lane < trace_lanes(rounds->trace); lane++) {
        int rank = trace_lane_at(rounds->trace, lane)->rank;
        if (group_of(rounds->trace, (uint32_t)lane) == rounds->group && !has_member(rounds, rank) &&
            rounds->member_count < world && !add_member(rounds, &room, rank))
            return false;
    }
    while (rounds->member_count < world)
        if (!add_member(rounds, &room, INT32_MAX))
            return false;
    qsort(rounds->members, (size_t)rounds->member_count, sizeof *rounds->members, compare_members);
    for (int i = 0; i < rounds->member_count; i++)
        if (rounds->members[i].rank == INT32_MAX)
            rounds->members[i].rank = -1;
    return true;
}

static struct rounds_member *
member_of_rank(struct rounds *rounds, int rank)
{
    int low = 0, high = rounds->member_count;
    if (rounds->group == 0)
        return rank >= 0 && rank < high ? &rounds->members[rank] : NULL;
    for (int i = low; i < high; i++)
        if (rounds->members[i].rank == rank)
            return &rounds->members[i];
    return NULL;
}

/* Backwards from the event: where each rank began it. A rank's search is over with an earlier collective of the group,
 * or with the rendezvous before which there was no group. */
static bool
find_beginnings(struct rounds *rounds, const struct rounds_kinds *kinds)
{
    struct trace *trace = rounds->trace;
    const struct trace_event *found = trace_event(trace, rounds->begin);
    int    left = rounds->member_count;
    size_t steps = 0, seq = rounds->when == ROUNDS_NEXT ? ROUNDS_NOWHERE : rounds->seq;
    char  *over  = calloc((size_t)rounds->member_count + 1, 1);
    for (; over != NULL && left > 0 && seq < trace_count(trace) && steps < ROUNDS_BETWEEN; seq--, steps++) {
        const struct trace_event *event = trace_event(trace, seq);
        bool meets = seq < rounds->begin && event->phase == PHASE_BEGIN && event->kind == kinds->rendezvous;
        if (event->phase != PHASE_BEGIN || (!meets && !rounds_is_collective(trace, event)))
            continue;
        struct rounds_member *member = member_of_rank(rounds, event->rank);
        if (member == NULL || over[member - rounds->members])
            continue;
        int64_t sequence = rounds_argument(trace, event, "sequence", -1);
        bool same = !meets && group_of(trace, event->lane) == rounds->group && sequence >= 0;
        if (same && sequence == rounds->sequence && event->kind == found->kind) {
            member->begin = seq;
            member->lane  = event->lane;
        }
        if (meets || (same && sequence <= rounds->sequence)) {
            over[member - rounds->members] = true;
            left--;
        }
    }
    rounds->cut_off |= left > 0 && steps >= ROUNDS_BETWEEN;
    bool good = over != NULL;
    free(over);
    return good;
}

static int
bucket_of(const struct rounds *rounds, const struct state *state)
{
    struct state_bucket buckets[64];
    int    rank  = trace_event(rounds->trace, rounds->begin)->rank;
    size_t count = rounds->when == ROUNDS_NEXT ? 0 : state_buckets(state, rank, buckets, countof(buckets));
    for (size_t i = 0; i < count && i < countof(buckets); i++)
        if (rounds->group == 0 && buckets[i].has_sequence && buckets[i].sequence == rounds->sequence)
            return (int)buckets[i].index;
    return -1;
}

bool
rounds_find(struct rounds *rounds, const struct state *state)
{
    struct trace *trace = rounds->trace;
    size_t found = open_collective(trace, state, rounds->seq);
    rounds->when = ROUNDS_NOW;
    if (found == ROUNDS_NOWHERE) {
        found = called_collective(trace, rounds->seq);
        if (found != ROUNDS_NOWHERE && found > rounds->seq)
            rounds->when = ROUNDS_NEXT;
    }
    if (found == ROUNDS_NOWHERE)
        found = near_collective(rounds);
    rounds->begin = found;
    if (found == ROUNDS_NOWHERE) {
        rounds->when = ROUNDS_NONE;
        return true;
    }
    const struct trace_event *event = trace_event(trace, found);
    struct rounds_kinds       kinds = rounds_kinds(trace);
    int64_t                   world = rounds_argument(trace, event, "world", 0);
    rounds->kind     = trace_kind(trace, event->kind)->name + strlen("c10d.");
    rounds->sequence = rounds_argument(trace, event, "sequence", -1);
    rounds->bytes    = rounds_argument(trace, event, "bytes", -1);
    rounds->elements = rounds_argument(trace, event, "elements", -1);
    rounds->group    = group_of(trace, event->lane);
    rounds->root     = (int)rounds_argument(trace, event, "root", -1);
    if (rounds->group < 0 || world <= 0 || world > 1 << 16)
        return true; /* messages between two ranks */
    if (!name_members(rounds, (int)world))
        return false;
    if (!find_beginnings(rounds, &kinds))
        return false;
    rounds->bucket = bucket_of(rounds, state);
    return true;
}
