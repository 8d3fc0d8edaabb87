/* The storages of a moment, found by their number. Those that were given back are not in it, so it is as large as what
 * a program holds at once, not as all that it ever took.
 *
 * Interface: storage_take, storage_find, storage_give; storages_copy, storages_bytes, storages_free. */
#include <stdlib.h>
#include <string.h>

#include "analysis/internal.h"

enum { SLOTS_LEAST = 16, SLOTS_MOST = 1 << 20 };

static size_t
slot_for(const struct storages *storages, int64_t number)
{
    uint64_t hash = (uint64_t)number * 11400714819323198485u;
    return (size_t)(hash ^ hash >> 32) & (storages->slot_count - 1);
}

/* Where it is, or the empty slot where it belongs. */
static struct storage *
look_up(const struct storages *storages, int64_t number)
{
    size_t at = slot_for(storages, number);
    while (storages->slots[at].used && storages->slots[at].number != number)
        at = (at + 1) & (storages->slot_count - 1);
    return &storages->slots[at];
}

struct storage *
storage_find(const struct storages *storages, int64_t number)
{
    struct storage *found = storages->count > 0 ? look_up(storages, number) : NULL;
    return found != NULL && found->used ? found : NULL;
}

static bool
grow(struct storages *storages)
{
    struct storages grown = { .slot_count = storages->slot_count > 0 ? storages->slot_count * 2 : SLOTS_LEAST };
    grown.slots = calloc(grown.slot_count, sizeof *grown.slots);
    if (grown.slots == NULL)
        return false;
    for (size_t i = 0; i < storages->slot_count; i++)
        if (storages->slots[i].used)
            *look_up(&grown, storages->slots[i].number) = storages->slots[i];
    grown.count = storages->count;
    free(storages->slots);
    *storages = grown;
    return true;
}

struct storage *
storage_take(struct storages *storages, int64_t number, bool *full)
{
    if ((storages->count + 1) * 4 > storages->slot_count * 3) {
        *full = storages->slot_count == SLOTS_MOST;
        if (*full || !grow(storages))
            return NULL;
    }
    struct storage *taken = look_up(storages, number);
    storages->count++;
    *taken = (struct storage){ .number = number, .used = true };
    return taken;
}

/* Those behind it that were pushed past it are pulled back. */
void
storage_give(struct storages *storages, struct storage *storage)
{
    size_t mask = storages->slot_count - 1, hole = (size_t)(storage - storages->slots);
    for (size_t at = (hole + 1) & mask; storages->slots[at].used; at = (at + 1) & mask) {
        size_t home = slot_for(storages, storages->slots[at].number);
        if (((at - home) & mask) >= ((at - hole) & mask)) {
            storages->slots[hole] = storages->slots[at];
            hole = at;
        }
    }
    storages->slots[hole] = (struct storage){ 0 };
    storages->count--;
}

bool
storages_copy(struct storages *to, const struct storages *from)
{
    *to = (struct storages){ 0 };
    if (from->slot_count == 0)
        return true;
    to->slots = malloc(from->slot_count * sizeof *to->slots);
    if (to->slots == NULL)
        return false;
    memcpy(to->slots, from->slots, from->slot_count * sizeof *to->slots);
    to->slot_count = from->slot_count;
    to->count = from->count;
    return true;
}

size_t
storages_bytes(const struct storages *storages)
{
    return storages->slot_count * sizeof *storages->slots;
}

void
storages_free(struct storages *storages)
{
    free(storages->slots);
    *storages = (struct storages){ 0 };
}
