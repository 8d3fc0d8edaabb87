/* Who has come how far, and what each rank waits in: told by itself where the flight is of a run of ours, else made of
 * the states of its entries. */
#include <stdlib.h>
#include <string.h>
#include "flight/internal.h"

static const struct flight_rank nowhere = { .now = FLIGHT_ABSENT, .sequence = -1, .group = -1, .peer = -1, .tag = -1 };

const struct flight_rank *
rank_in(const struct flight *flight, int rank)
{
    return rank >= 0 && rank < flight->rank_count ? &flight->ranks[rank] : &nowhere;
}

const struct flight_group *
group_in(const struct flight *flight, int group)
{
    return group >= 0 && group < flight->group_count ? &flight->groups[group] : NULL;
}

bool
survey_open(struct survey *survey, const struct flight *flight)
{
    size_t groups = (size_t)flight->group_count + 1;
    *survey = (struct survey){ .flight = flight, .reached = calloc(groups, sizeof *survey->reached),
                               .rolls = calloc(groups, sizeof *survey->rolls) };
    survey->broken = flight->broken || survey->reached == NULL || survey->rolls == NULL;
    return !survey->broken;
}

void
survey_close(struct survey *survey)
{
    for (int group = 0; group < survey->flight->group_count; group++) {
        if (survey->reached != NULL)
            free(survey->reached[group]);
        if (survey->rolls != NULL)
            free(survey->rolls[group]);
    }
    free(survey->reached);
    free(survey->rolls);
    free(survey->sorted);
    *survey = (struct survey){ 0 };
}

/* ---- how far ---- */

/* The highest number that the rank has; it has not lost its newest. What a dump says beside its entries counts only
 * where there are none: gloo counts sends there, too. */
static int64_t
last_sequence(const struct flight *flight, const struct flight_group *group, int place)
{
    const struct flight_rank *rank = rank_in(flight, group->ranks[place]);
    int                       at   = (int)(group - flight->groups);
    for (size_t i = rank->count; i-- > 0;)
        if (rank->entries[i].group == at && !rank->entries[i].is_p2p)
            return rank->entries[i].sequence;
    return group->progress[place].enqueued;
}

/* By rank in the group, and behind them the lowest of all. NULL: no memory. */
const int64_t *
survey_reached(struct survey *survey, int at)
{
    const struct flight_group *group = group_in(survey->flight, at);
    if (survey->broken || group == NULL || survey->reached[at] != NULL)
        return survey->broken || group == NULL ? NULL : survey->reached[at];
    int64_t *reached = malloc(((size_t)group->size + 1) * sizeof *reached);
    survey->broken   = reached == NULL;
    if (survey->broken)
        return NULL;
    reached[group->size] = INT64_MAX;
    for (int place = 0; place < group->size; place++) {
        reached[place] = last_sequence(survey->flight, group, place);
        if (reached[place] < reached[group->size])
            reached[group->size] = reached[place];
    }
    survey->reached[at] = reached;
    return reached;
}

/* ---- rolls ---- */

static int
by_sequence(const void *left, const void *right)
{
    const struct flight_entry *a = *(const struct flight_entry *const *)left;
    const struct flight_entry *b = *(const struct flight_entry *const *)right;
    if (a->sequence != b->sequence)
        return a->sequence < b->sequence ? -1 : 1;
    if (a->op != b->op)
        return a->op < b->op ? -1 : 1;
    return a->record < b->record ? -1 : a->record > b->record;
}

static bool
is_collective(const struct survey *survey, const struct flight_entry *entry)
{
    return !entry->is_p2p && group_in(survey->flight, entry->group) != NULL && !entry_is_send(entry) &&
           !entry_is_recv(entry);
}

/* Where the rank's calls of each group go: `at`, by group; NULL: it is no member. */
static void
fill_rolls(struct survey *survey, int rank, struct roll **at)
{
    const struct flight_rank *own = &survey->flight->ranks[rank];
    for (size_t i = 0; i < own->count; i++) {
        const struct flight_entry *entry = &own->entries[i];
        if (is_collective(survey, entry) && at[entry->group] != NULL)
            at[entry->group]->count++;
    }
    for (size_t i = 0; i < own->count; i++) {
        struct roll *roll = is_collective(survey, &own->entries[i]) ? at[own->entries[i].group] : NULL;
        if (roll == NULL)
            continue;
        if (roll->calls == NULL) {
            roll->calls = survey->sorted;
            survey->sorted += roll->count;
            roll->count = 0;
        }
        roll->calls[roll->count++] = &own->entries[i];
    }
}

static void
sort_roll(struct roll *roll)
{
    for (size_t i = 1; i < roll->count; i++)
        if (by_sequence(&roll->calls[i - 1], &roll->calls[i]) > 0) {
            qsort(roll->calls, roll->count, sizeof *roll->calls, by_sequence);
            return;
        }
}

/* Members by rank: which groups a rank is in, without asking each group. */
struct membership { int rank, group, place; };

static int
by_rank(const void *left, const void *right)
{
    const struct membership *a = left, *b = right;
    if (a->rank != b->rank)
        return a->rank < b->rank ? -1 : 1;
    return a->group < b->group ? -1 : a->group > b->group;
}

static struct membership *
memberships_of(const struct flight *flight, size_t *count)
{
    *count = 0;
    for (int i = 0; i < flight->group_count; i++)
        *count += (size_t)flight->groups[i].size;
    struct membership *members = malloc((*count + 1) * sizeof *members), *next = members;
    for (int i = 0; members != NULL && i < flight->group_count; i++)
        for (int place = 0; place < flight->groups[i].size; place++)
            *next++ = (struct membership){ flight->groups[i].ranks[place], i, place };
    if (members != NULL)
        qsort(members, *count, sizeof *members, by_rank);
    return members;
}

static bool
make_rolls(struct survey *survey, const struct membership *members, size_t count, struct roll **at)
{
    const struct flight *flight = survey->flight;
    size_t               next   = 0, entries = 0;
    for (int rank = 0; rank < flight->rank_count; rank++)
        entries += flight->ranks[rank].count;
    const struct flight_entry **sorted = malloc((entries + 1) * sizeof *sorted);
    survey->sorted = sorted;
    for (int i = 0; i < flight->group_count; i++) {
        survey->rolls[i] = calloc((size_t)flight->groups[i].size + 1, sizeof **survey->rolls);
        if (survey->rolls[i] == NULL || sorted == NULL)
            return false;
    }
    while (next < count && members[next].rank < 0)
        next++;
    for (int rank = 0; rank < flight->rank_count; rank++) {
        size_t first = next;
        for (; next < count && members[next].rank == rank; next++)
            at[members[next].group] = &survey->rolls[members[next].group][members[next].place];
        fill_rolls(survey, rank, at);
        for (size_t i = first; i < next; i++) {
            sort_roll(at[members[i].group] != NULL ? at[members[i].group] : &(struct roll){ 0 });
            at[members[i].group] = NULL;
        }
    }
    survey->sorted = sorted;
    return true;
}

bool
survey_rolls(struct survey *survey)
{
    size_t             count;
    struct membership *members = memberships_of(survey->flight, &count);
    struct roll      **at      = calloc((size_t)survey->flight->group_count + 1, sizeof *at);
    survey->broken = survey->broken || members == NULL || at == NULL || !make_rolls(survey, members, count, at);
    free(members);
    free(at);
    return !survey->broken;
}

/* ---- what a rank waits in ---- */

static bool
ends_in(const char *text, const char *end)
{
    size_t size = text != NULL ? strlen(text) : 0, tail = strlen(end);
    return size >= tail && strcmp(text + size - tail, end) == 0;
}

bool
entry_is_send(const struct flight_entry *entry)
{
    return ends_in(entry->operation, "send");
}

bool
entry_is_recv(const struct flight_entry *entry)
{
    return ends_in(entry->operation, "recv") || ends_in(entry->operation, "recv_any_source");
}

/* gloo never says that a call is over, only that nobody looks after it any longer ("retired"), which a time-out brings
 * about as well: so it is over if all have come to it. Of NCCL's calls the state is sure. */
bool
entry_is_over(struct survey *survey, const struct flight_entry *entry)
{
    if (entry->state == FLIGHT_COMPLETED || !entry->retired || entry->state == FLIGHT_STARTED)
        return entry->state == FLIGHT_COMPLETED;
    const struct flight_group *group   = group_in(survey->flight, entry->group);
    const int64_t             *reached = !entry->is_p2p && group != NULL ? survey_reached(survey, entry->group) : NULL;
    return reached == NULL || reached[group->size] >= entry->sequence;
}

/* The first of it: the others of a coalesced group come behind. */
const struct flight_entry *
call_of(const struct flight *flight, int rank, int group, int64_t sequence)
{
    const struct flight_rank  *own   = rank_in(flight, rank);
    const struct flight_entry *found = NULL;
    for (size_t i = own->count; i-- > 0;) {
        const struct flight_entry *entry = &own->entries[i];
        if (entry->is_p2p || entry->group != group)
            continue;
        if (entry->sequence == sequence)
            found = entry;
        else if (found != NULL)
            break;
    }
    return found;
}

static const struct flight_entry *
open_p2p(struct survey *survey, const struct flight_rank *rank, const struct waiting *waiting)
{
    const struct flight_entry *found = NULL;
    for (size_t i = rank->count; i-- > 0 && found == NULL;) {
        const struct flight_entry *entry = &rank->entries[i];
        bool same = waiting->kind == WAIT_SEND ? entry_is_send(entry) : entry_is_recv(entry);
        if (same && !entry_is_over(survey, entry) && (waiting->peer < 0 || entry->peer == waiting->peer) &&
            (waiting->tag < 0 || entry->tag < 0 || entry->tag == waiting->tag))
            found = entry;
    }
    return found;
}

static enum wait_kind
kind_of_wait(const struct flight_rank *rank)
{
    if (rank->waits_in == NULL)
        return WAIT_OTHER;
    if (ends_in(rank->waits_in, "_group") || strcmp(rank->waits_in, "new_subgroups") == 0)
        return WAIT_NEW_GROUP;
    if (rank->group >= 0 && rank->sequence >= 0)
        return WAIT_COLLECTIVE;
    if (ends_in(rank->waits_in, "send") || ends_in(rank->waits_in, "recv"))
        return ends_in(rank->waits_in, "send") ? WAIT_SEND : WAIT_RECV;
    /* A queue with one text in it is a lock: whoever took the text has it. */
    bool queue = strcmp(rank->waits_in, "store.queue_pop") == 0 && rank->peer >= 0;
    return queue || strcmp(rank->waits_in, "lock") == 0 ? WAIT_LOCK : WAIT_OTHER;
}

static struct waiting
told_waiting(struct survey *survey, int at)
{
    const struct flight_rank *rank    = rank_in(survey->flight, at);
    struct waiting            waiting = { .kind = kind_of_wait(rank), .what = rank->waits_in, .group = rank->group,
                                          .sequence = rank->sequence, .peer = rank->peer, .tag = rank->tag };
    if (waiting.kind == WAIT_COLLECTIVE)
        waiting.entry = call_of(survey->flight, at, waiting.group, waiting.sequence);
    else if (waiting.kind == WAIT_SEND || waiting.kind == WAIT_RECV)
        waiting.entry = open_p2p(survey, rank, &waiting);
    return waiting;
}

/* How many sends or receives (as `like` is one) to or from `peer` are open on the rank, before `end`; NULL: in all. */
static int
open_calls(struct survey *survey, int rank, int peer, const struct flight_entry *like, bool send,
           const struct flight_entry *end)
{
    const struct flight_rank *own   = rank_in(survey->flight, rank);
    int                       count = 0;
    for (size_t i = 0; i < own->count && &own->entries[i] != end; i++) {
        const struct flight_entry *entry = &own->entries[i];
        bool same = send ? entry_is_send(entry) : entry_is_recv(entry);
        count += same && entry->peer == peer && entry->group == like->group &&
                 (entry->tag == like->tag || entry->tag < 0 || like->tag < 0) &&
                 texts_equal(send ? entry->input_sizes : entry->output_sizes,
                             entry_is_send(like) ? like->input_sizes : like->output_sizes) &&
                 !entry_is_over(survey, entry);
    }
    return count;
}

/* A send or receive of a batch whose other end is open, too: what keeps the batch is another one of it. */
static bool
has_met(struct survey *survey, int rank, const struct flight_entry *entry)
{
    bool send = entry_is_send(entry);
    if ((!send && !entry_is_recv(entry)) || entry->peer < 0 || entry->peer == rank)
        return false;
    return open_calls(survey, rank, entry->peer, entry, send, entry) <
           open_calls(survey, entry->peer, rank, entry, !send, NULL);
}

enum { MOST_MET = 256 };   /* of a batch that are looked at */

/* The first call that is not over; where one has begun, that. `met`: also those that can end. */
static const struct flight_entry *
first_open(struct survey *survey, int at, bool met)
{
    const struct flight_rank  *rank  = rank_in(survey->flight, at);
    const struct flight_entry *first = NULL;
    int                        seen  = 0;
    for (size_t i = 0; i < rank->count && (first == NULL || first->state != FLIGHT_STARTED); i++) {
        const struct flight_entry *entry = &rank->entries[i];
        if (entry->state != FLIGHT_COMPLETED && (first == NULL || entry->state == FLIGHT_STARTED) &&
            !entry_is_over(survey, entry) && (met || seen++ >= MOST_MET || !has_met(survey, at, entry)))
            first = entry;
    }
    return first;
}

/* What a dump's rank waits in. Where all its calls have met, it is kept by a batch of the other rank's, which waits for
 * another call, if there is such a one. */
static struct waiting
likely_waiting(struct survey *survey, int at)
{
    const struct flight_entry *first = first_open(survey, at, false), *met = first_open(survey, at, true);
    if (first == NULL && met != NULL && first_open(survey, met->peer, false) == NULL)
        first = met;
    if (first == NULL)
        return (struct waiting){ .group = -1, .sequence = -1, .peer = -1, .tag = -1 };
    bool p2p = entry_is_send(first) || entry_is_recv(first);
    return (struct waiting){ .kind = entry_is_send(first) ? WAIT_SEND : entry_is_recv(first) ? WAIT_RECV
                                     : first->is_p2p || group_in(survey->flight, first->group) == NULL ? WAIT_OTHER
                                     : WAIT_COLLECTIVE,
                             .what = first->operation, .group = first->group, .entry = first,
                             .sequence = p2p ? -1 : first->sequence, .peer = p2p ? first->peer : -1,
                             .tag = p2p ? first->tag : -1 };
}

struct waiting
waiting_of(struct survey *survey, int at)
{
    const struct flight_rank *rank = rank_in(survey->flight, at);
    if (rank->now == FLIGHT_WAITING)
        return told_waiting(survey, at);
    if (rank->now == FLIGHT_UNKNOWN)
        return likely_waiting(survey, at);
    return (struct waiting){ .group = -1, .sequence = -1, .peer = -1, .tag = -1 };
}

/* ---- for whom ---- */

static int
await(const struct flight *flight, int target, int *out, int count, int *outside)
{
    if (target >= 0 && target < flight->rank_count)
        out[count++] = target;
    else if (*outside < 0 || (target >= 0 && target < *outside))
        *outside = target;
    return count;
}

/* They came with another call. */
static bool
called_otherwise(const struct survey *survey, int rank, const struct waiting *waiting)
{
    const struct flight_entry *entry = waiting->entry == NULL
        ? NULL : call_of(survey->flight, rank, waiting->group, waiting->sequence);
    return entry != NULL && calls_differ(waiting->entry, entry) != HANG_NONE;
}

static bool
has_not_begun(const struct flight_progress *progress, const struct waiting *waiting)
{
    return waiting->entry != NULL && waiting->entry->state == FLIGHT_STARTED &&
           progress->started < waiting->sequence && progress->completed < waiting->sequence;
}

/* Members that have not come; where all have, those that came with another call; where none did, those in whom it has
 * not begun though it has here. */
static int
missing_members(struct survey *survey, int rank, const struct waiting *waiting, int *out, int *outside)
{
    const struct flight_group *group   = group_in(survey->flight, waiting->group);
    const int64_t             *reached = survey_reached(survey, waiting->group);
    int                        count   = 0;
    for (int pass = 0; reached != NULL && pass < 3 && count == 0 && *outside < 0; pass++)
        for (int place = 0; place < group->size && count < survey->flight->rank_count; place++) {
            int other = group->ranks[place];
            if (other != rank && (pass == 0   ? reached[place] < waiting->sequence
                                  : pass == 1 ? called_otherwise(survey, other, waiting)
                                              : has_not_begun(&group->progress[place], waiting)))
                count = await(survey->flight, other, out, count, outside);
        }
    return count;
}

/* A receive from any rank: whoever of the others could still send. */
static int
any_sender(const struct survey *survey, int rank, const struct waiting *waiting, int *out)
{
    const struct flight_group *group = group_in(survey->flight, waiting->group);
    int                        count = 0, last = group != NULL ? group->size : survey->flight->rank_count;
    for (int place = 0; place < last && count < survey->flight->rank_count; place++) {
        int                       other = group != NULL ? group->ranks[place] : place, outside = -1;
        const struct flight_rank *there = rank_in(survey->flight, other);
        if (other != rank && there->now != FLIGHT_RETURNED && there->now != FLIGHT_ABSENT)
            count = await(survey->flight, other, out, count, &outside);
    }
    return count;
}

int
waited_for(struct survey *survey, int rank, const struct waiting *waiting, int *out, int *outside)
{
    *outside = -1;
    if (waiting->kind == WAIT_COLLECTIVE) {
        int missing = missing_members(survey, rank, waiting, out, outside);
        if (missing > 0 || *outside >= 0)
            return missing;
    }
    if (waiting->kind != WAIT_NONE && waiting->peer >= 0)
        return await(survey->flight, waiting->peer, out, 0, outside);
    return waiting->kind == WAIT_RECV ? any_sender(survey, rank, waiting, out) : 0;
}

int
arrived(struct survey *survey, const struct waiting *waiting)
{
    const struct flight_group *group   = group_in(survey->flight, waiting->group);
    const int64_t             *reached = survey_reached(survey, waiting->group);
    int                        count   = 0;
    for (int place = 0; reached != NULL && place < group->size; place++)
        count += reached[place] >= waiting->sequence;
    return count;
}

int
flight_awaits(const struct flight *flight, int rank, int *out)
{
    struct survey survey;
    int           count = 0, outside;
    if (survey_open(&survey, flight)) {
        struct waiting waiting = waiting_of(&survey, rank);
        count = waited_for(&survey, rank, &waiting, out, &outside);
    }
    survey_close(&survey);
    return count;
}

bool
same_detail(const struct flight *flight, int rank, int other)
{
    return texts_equal(rank_in(flight, rank)->detail, rank_in(flight, other)->detail);
}
