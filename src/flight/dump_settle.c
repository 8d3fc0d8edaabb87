/* What only all dumps together say: who is a member of which group, who left no dump, which of gloo's calls failed.
 *
 * Interface: dump_settle. */
#include "flight/dump.h"

#include <stdlib.h>
#include <string.h>
#include "base/vec.h"
#include "flight/dump_parts.h"

/* ---- the world ---- */

static bool
settle_world(struct dumps *dumps)
{
    for (size_t i = 0; i < dumps->source_count; i++)
        if (dumps->sources[i].rank >= dumps->world)
            dumps->world = dumps->sources[i].rank + 1;
    flight_size(dumps->flight, dumps->world);
    if (dumps->flight->broken)
        return dump_wrong(dumps, "there is no memory for it");
    bool *there = calloc((size_t)dumps->world + 1, sizeof *there);
    for (size_t i = 0; there != NULL && i < dumps->source_count; i++)
        there[dumps->sources[i].rank] = true;
    for (int rank = 0; there != NULL && rank < dumps->world; rank++)
        if (!there[rank])
            dumps->flight->ranks[rank].now = FLIGHT_ABSENT;
    bool good = there != NULL;
    free(there);
    return good || dump_wrong(dumps, "there is no memory for it");
}

/* ---- groups ---- */

static bool
is_default(const struct flight_group *group)
{
    return strcmp(group->name, "0") == 0 || strcmp(group->name, "default_pg") == 0 ||
           (group->description != NULL && strcmp(group->description, "default_pg") == 0);
}

static bool
add_member(struct dump_members *members, int rank)
{
    if (!vec_room(&members->ranks, &members->room, (size_t)members->size + 1, sizeof *members->ranks))
        return false;
    members->ranks[members->size++] = rank;
    return true;
}

/* Where no dump names the members (gloo): all, of the default group; of others, who called something in it; with two
 * ranks both, since nobody waits for himself. `unknown`, `called`: by group. */
static bool
add_rank(struct dumps *dumps, int rank, const bool *unknown, bool *called)
{
    const struct flight      *flight = dumps->flight;
    const struct flight_rank *of     = &flight->ranks[rank];
    bool                      good   = true;
    memset(called, 0, (size_t)flight->group_count * sizeof *called);
    for (size_t i = 0; i < of->count; i++)
        called[of->entries[i].group] = true;
    for (int i = 0; i < flight->group_count; i++)
        if (unknown[i] && (called[i] || dumps->world == 2 || is_default(&flight->groups[i])))
            good = good && add_member(&dumps->members[i], rank);
    return good;
}

static bool
guess_members(struct dumps *dumps)
{
    size_t count   = (size_t)dumps->flight->group_count + 1;
    bool  *unknown = calloc(count, sizeof *unknown), *called = calloc(count, sizeof *called);
    bool   good    = unknown != NULL && called != NULL;
    for (int i = 0; good && i < dumps->flight->group_count; i++)
        unknown[i] = dumps->members[i].size == 0;
    for (int rank = 0; good && rank < dumps->world; rank++)
        good = add_rank(dumps, rank, unknown, called);
    free(unknown);
    free(called);
    return good || dump_wrong(dumps, "there is no memory for it");
}

static bool
settle_group(struct dumps *dumps, int index)
{
    struct flight_group       *group    = &dumps->flight->groups[index];
    const struct dump_members *said     = &dumps->members[index];
    int                       *ranks    = calloc((size_t)said->size + 1, sizeof *ranks);
    struct flight_progress    *progress = calloc((size_t)said->size + 1, sizeof *progress);
    if (ranks == NULL || progress == NULL) {
        free(ranks);
        free(progress);
        return dump_wrong(dumps, "there is no memory for it");
    }
    free(group->ranks);
    free(group->progress);
    group->ranks    = ranks;
    group->progress = progress;
    group->size     = said->size;
    for (int i = 0; i < group->size; i++) {
        ranks[i]    = said->ranks[i];
        progress[i] = (struct flight_progress){ -1, -1, -1 };
    }
    return true;
}

/* ---- peers ---- */

static void
settle_peers(struct flight *flight, int rank)
{
    struct flight_rank *of = &flight->ranks[rank];
    for (size_t i = 0; i < of->count; i++) {
        struct flight_entry       *entry = &of->entries[i];
        const struct flight_group *group = &flight->groups[entry->group];
        if (entry->peer >= 0)
            entry->peer = entry->peer < group->size ? group->ranks[entry->peer] : -1;
    }
}

/* ---- the state of gloo's calls ---- */

/* Who sends alone may be through before anybody else has come. */
static bool
ends_alone(const char *operation)
{
    static const char *const rooted[] = { "broadcast", "reduce", "gather", "scatter" };
    for (size_t i = 0; i < sizeof rooted / sizeof rooted[0]; i++)
        if (strcmp(operation, rooted[i]) == 0)
            return true;
    return false;
}

static bool
has_equal_inputs(const char *operation)
{
    static const char *const others[] = { "all_to_all", "all_to_all_single", "scatter", "all_gather_v", "coalesced" };
    for (size_t i = 0; i < sizeof others / sizeof others[0]; i++)
        if (strcmp(operation, others[i]) == 0)
            return false;
    return true;
}

static bool
text_differs(const char *a, const char *b)
{
    return a != NULL && b != NULL && strcmp(a, b) != 0;
}

/* The rank's call of this number; `*lost`: it may have been one that its ring has no more. */
static const struct flight_entry *
call_numbered(const struct flight_rank *of, int group, int64_t sequence, bool *lost)
{
    *lost = of->count > 0 && of->entries[0].record > 0;
    for (size_t i = of->count; i > 0; i--) {
        const struct flight_entry *entry = &of->entries[i - 1];
        if (entry->group != group || entry->is_p2p)
            continue;
        if (entry->sequence == sequence)
            return entry;
        if (entry->sequence < sequence) {
            *lost = false;
            return NULL;
        }
    }
    return NULL;
}

/* Whether the call cannot have ended well: a member never made it, or made another one. */
static bool
cannot_be_over(const struct dumps *dumps, int rank, const struct flight_entry *call)
{
    const struct flight_group *group = &dumps->flight->groups[call->group];
    for (int i = 0; i < group->size; i++) {
        int                       other = group->ranks[i];
        const struct flight_rank *of    = &dumps->flight->ranks[other];
        bool                      lost  = false;
        if (other == rank || of->now == FLIGHT_ABSENT)
            continue;
        const struct flight_entry *theirs = call_numbered(of, call->group, call->sequence, &lost);
        if (theirs == NULL && !lost && !ends_alone(call->operation))
            return true;
        if (theirs == NULL)
            continue;
        if (strcmp(theirs->operation, call->operation) != 0 || text_differs(theirs->input_dtypes, call->input_dtypes))
            return true;
        if (has_equal_inputs(call->operation) && text_differs(theirs->input_sizes, call->input_sizes))
            return true;
    }
    return false;
}

/* From a rank's last call of a group back to the first that can be over: those that cannot were begun, and given up. */
static bool
settle_states(struct dumps *dumps, const struct dump_source *source)
{
    struct flight_rank *of   = &dumps->flight->ranks[source->rank];
    bool               *over = calloc((size_t)dumps->flight->group_count + 1, sizeof *over);
    for (size_t i = of->count; over != NULL && !source->tracked && i > 0; i--) {
        struct flight_entry *entry = &of->entries[i - 1];
        if (entry->is_p2p || entry->state != FLIGHT_COMPLETED || over[entry->group])
            continue;
        over[entry->group] = !cannot_be_over(dumps, source->rank, entry);
        entry->state       = over[entry->group] ? FLIGHT_COMPLETED : FLIGHT_STARTED;
    }
    bool good = over != NULL;
    free(over);
    return good || dump_wrong(dumps, "there is no memory for it");
}

/* ---- progress ---- */

static void
raise_to(int64_t *reached, int64_t sequence)
{
    *reached = sequence > *reached ? sequence : *reached;
}

static void
settle_progress(struct dumps *dumps, const struct dump_source *source)
{
    struct flight      *flight = dumps->flight;
    struct flight_rank *of     = &flight->ranks[source->rank];
    for (int i = 0; i < flight->group_count && of->count == 0; i++) {
        int place = is_default(&flight->groups[i]) ? flight_group_rank(&flight->groups[i], source->rank) : -1;
        if (place >= 0)
            flight->groups[i].progress[place] = source->status;
    }
    for (size_t i = 0; i < of->count; i++) {
        const struct flight_entry *entry = &of->entries[i];
        int                        place = flight_group_rank(&flight->groups[entry->group], source->rank);
        if (place < 0 || entry->is_p2p)
            continue;
        struct flight_progress *progress = &flight->groups[entry->group].progress[place];
        raise_to(&progress->enqueued, entry->sequence);
        if (entry->state >= FLIGHT_STARTED)
            raise_to(&progress->started, entry->sequence);
        if (entry->state == FLIGHT_COMPLETED)
            raise_to(&progress->completed, entry->sequence);
    }
}

/* ---- what is odd ---- */

enum { APART_SECONDS = 600 };

/* "3", "1, 5-7": those that left no dump. */
static void
note_absent(struct dumps *dumps)
{
    struct str which  = { 0 };
    int        absent = 0, world = dumps->world;
    for (int rank = 0; rank < world; rank++) {
        if (dumps->flight->ranks[rank].now != FLIGHT_ABSENT)
            continue;
        int last = rank;
        while (last + 1 < world && dumps->flight->ranks[last + 1].now == FLIGHT_ABSENT)
            last++;
        str_addf(&which, last > rank ? "%s%d-%d" : "%s%d", which.len > 0 ? ", " : "", rank, last);
        absent += last - rank + 1;
        rank = last;
    }
    if (absent > 0)
        dump_note(dumps, "no dump of rank%s %.300s: the job has %d ranks at least, and %d left one",
                  absent > 1 ? "s" : "", str_text(&which), world, world - absent);
    str_free(&which);
}

static void
note_versions(struct dumps *dumps)
{
    const struct dump_source *first = &dumps->sources[0];
    for (size_t i = 1; i < dumps->source_count; i++) {
        const struct dump_source *other = &dumps->sources[i];
        if (text_differs(first->version, other->version)) {
            dump_note(dumps, "rank %d's dump is of version %.40s, rank %d's of %.40s: are they of one job?",
                      first->rank, first->version, other->rank, other->version);
            return;
        }
    }
}

/* Who calls nothing for hours while the others do was in the job all the same; but not longer than a call may wait. */
static void
note_times(struct dumps *dumps)
{
    const struct dump_source *early = NULL, *late = NULL;
    for (size_t i = 0; i < dumps->source_count; i++) {
        const struct dump_source *source = &dumps->sources[i];
        if (source->last_ns == 0)
            continue;
        early = early == NULL || source->last_ns < early->last_ns ? source : early;
        late  = late == NULL || source->first_ns > late->first_ns ? source : late;
    }
    if (early == NULL || late->first_ns <= early->last_ns)
        return;
    int64_t seconds = (late->first_ns - early->last_ns) / 1000000000;
    if (seconds > APART_SECONDS && seconds > late->patience_ms / 1000 && seconds > early->patience_ms / 1000)
        dump_note(dumps, "rank %d's first call is %lld s after rank %d's last one: are these dumps of one job?",
                  late->rank, (long long)seconds, early->rank);
}

bool
dump_settle(struct dumps *dumps)
{
    dumps->why[0] = '\0';
    if (dumps->source_count == 0)
        return dump_wrong(dumps, "there is no dump");
    bool good = settle_world(dumps) && guess_members(dumps);
    for (int i = 0; good && i < dumps->flight->group_count; i++)
        good = settle_group(dumps, i);
    for (int rank = 0; good && rank < dumps->world; rank++)
        settle_peers(dumps->flight, rank);
    for (size_t i = 0; good && i < dumps->source_count; i++)
        good = settle_states(dumps, &dumps->sources[i]);
    for (size_t i = 0; good && i < dumps->source_count; i++)
        settle_progress(dumps, &dumps->sources[i]);
    if (good) {
        note_absent(dumps);
        note_versions(dumps);
        note_times(dumps);
    }
    return good;
}
