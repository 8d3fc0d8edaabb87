/* Flights: made, asked, freed. Texts that are equal are kept once. */
#include "flight/flight.h"

#include <stdlib.h>
#include <string.h>
#include "base/vec.h"

struct flight_text { struct flight_text *next, *same_hash; char text[]; };

static const struct flight_rank nothing_known = { .sequence = -1, .group = -1, .peer = -1, .tag = -1 };

void
flight_size(struct flight *flight, int count)
{
    if (flight->broken || count <= flight->rank_count)
        return;
    struct flight_rank *ranks = realloc(flight->ranks, (size_t)count * sizeof *ranks);
    flight->broken            = ranks == NULL;
    if (flight->broken)
        return;
    flight->ranks = ranks;
    while (flight->rank_count < count)
        ranks[flight->rank_count++] = nothing_known;
}

int
flight_group(struct flight *flight, const char *name, const char *description, const int *ranks, int size)
{
    if (flight->broken || !vec_room(&flight->groups, &flight->group_room, (size_t)flight->group_count + 1,
                                    sizeof *flight->groups)) {
        flight->broken = true;
        return -1;
    }
    struct flight_group *group = &flight->groups[flight->group_count];
    *group = (struct flight_group){ .name = flight_text(flight, name), .size = size,
                                    .description = flight_text(flight, description),
                                    .ranks = calloc((size_t)size + 1, sizeof *group->ranks),
                                    .progress = calloc((size_t)size + 1, sizeof *group->progress) };
    flight->group_count++;
    flight->broken = flight->broken || group->ranks == NULL || group->progress == NULL;
    if (flight->broken)
        return -1;
    for (int i = 0; i < size; i++) {
        group->ranks[i]    = ranks[i];
        group->progress[i] = (struct flight_progress){ -1, -1, -1 };
    }
    return flight->group_count - 1;
}

int
flight_group_rank(const struct flight_group *group, int rank)
{
    if (rank >= 0 && rank < group->size && group->ranks[rank] == rank)   /* a world of all ranks */
        return rank;
    for (int i = 0; i < group->size; i++)
        if (group->ranks[i] == rank)
            return i;
    return -1;
}

static void
move_on(struct flight_progress *progress, const struct flight_entry *entry)
{
    int64_t *reached[] = { &progress->enqueued, &progress->started, &progress->completed };
    for (int state = FLIGHT_SCHEDULED; state <= (int)entry->state; state++)
        if (*reached[state] < entry->sequence)
            *reached[state] = entry->sequence;
}

static void
keep_texts(struct flight *flight, struct flight_entry *entry)
{
    const char **texts[] = { &entry->operation, &entry->backend, &entry->input_sizes, &entry->output_sizes,
                             &entry->input_dtypes, &entry->output_dtypes, &entry->reduce_op, &entry->details,
                             &entry->file, &entry->function };
    for (size_t i = 0; i < countof(texts); i++)
        *texts[i] = flight_text(flight, *texts[i]);
}

struct flight_entry *
flight_enter(struct flight *flight, int rank, const struct flight_entry *entry)
{
    if (rank < 0 || rank == INT32_MAX)
        return NULL;
    flight_size(flight, rank + 1);
    if (flight->broken)
        return NULL;
    struct flight_rank *of = &flight->ranks[rank];
    flight->broken = !vec_room(&of->entries, &of->room, of->count + 1, sizeof *of->entries);
    if (flight->broken)
        return NULL;
    struct flight_entry *kept = &of->entries[of->count++];
    *kept = *entry;
    keep_texts(flight, kept);
    struct flight_group *group = entry->group >= 0 && entry->group < flight->group_count
                                     ? &flight->groups[entry->group] : NULL;
    int                  place = group != NULL ? flight_group_rank(group, rank) : -1;
    if (place >= 0 && !entry->is_p2p)
        move_on(&group->progress[place], entry);
    return kept;
}

const char *
flight_text(struct flight *flight, const char *text)
{
    uint64_t known = 0;
    if (text == NULL || flight->broken)
        return NULL;
    size_t   size = strlen(text) + 1;
    uint64_t hash = hash_bytes(0, text, size);
    map_get(&flight->texts, hash, &known);
    struct flight_text *same = (struct flight_text *)(uintptr_t)known;
    for (struct flight_text *at = same; at != NULL; at = at->same_hash)
        if (strcmp(at->text, text) == 0)
            return at->text;
    struct flight_text *kept = malloc(sizeof *kept + size);
    flight->broken           = kept == NULL || !map_set(&flight->texts, hash, (uintptr_t)kept);
    if (flight->broken) {
        free(kept);
        return NULL;
    }
    memcpy(kept->text, text, size);
    kept->same_hash    = same;
    kept->next         = flight->first_text;
    flight->first_text = kept;
    return kept->text;
}

void
flight_free(struct flight *flight)
{
    for (int i = 0; i < flight->rank_count; i++)
        free(flight->ranks[i].entries);
    for (int i = 0; i < flight->group_count; i++) {
        free(flight->groups[i].ranks);
        free(flight->groups[i].progress);
    }
    for (struct flight_text *at = flight->first_text, *next; at != NULL; at = next) {
        next = at->next;
        free(at);
    }
    free(flight->ranks);
    free(flight->groups);
    map_free(&flight->texts);
    *flight = (struct flight){ 0 };
}
