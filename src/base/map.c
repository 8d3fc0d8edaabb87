/* A hash map: entries lie in an array in the order of insertion, a table of slots with linear probing finds them.
 *
 * Interface in order of use: map_set, map_set_text; map_get, map_get_text, or a walk over entries[0 .. count);
 * map_remove; map_free. hash_bytes also serves whoever needs a hash that is equal on every machine. */
#include "base/map.h"

#include "base/vec.h"

#include <stdlib.h>
#include <string.h>

/* What the slots are probed for. A text key never equals a number key. */
struct map_key {
    const char *text; /* NULL: a number */
    uint64_t    number;
    uint64_t    hash;
};

uint64_t
hash_bytes(uint64_t seed, const void *bytes, size_t count)
{
    const unsigned char *byte = bytes;
    uint64_t hash = seed != 0 ? seed : 14695981039346656037u;
    for (size_t i = 0; i < count; i++)
        hash = (hash ^ byte[i]) * 1099511628211u;
    return hash;
}

static struct map_key
text_key(const char *text)
{
    return (struct map_key){ .text = text, .hash = hash_bytes(0, text, strlen(text)) };
}

static struct map_key
number_key(uint64_t number)
{
    /* Fibonacci hashing, then the high half folded down: the slots use the low bits. */
    uint64_t hash = number * 11400714819323198485u;
    return (struct map_key){ .number = number, .hash = hash ^ hash >> 32 };
}

static struct map_key
entry_key(const struct map_entry *entry)
{
    return entry->text != NULL ? text_key(entry->text) : number_key(entry->number);
}

static bool
entry_is(const struct map_entry *entry, const struct map_key *key)
{
    if (key->text == NULL)
        return entry->text == NULL && entry->number == key->number;
    return entry->text != NULL && strcmp(entry->text, key->text) == 0;
}

/* The slot that holds the key, or the empty one where it belongs. slot_count is a power of two and never full. */
static size_t
find_slot(const struct map *map, const struct map_key *key)
{
    size_t mask = map->slot_count - 1;
    size_t slot = key->hash & mask;
    while (map->slots[slot] != 0 && !entry_is(&map->entries[map->slots[slot] - 1], key))
        slot = (slot + 1) & mask;
    return slot;
}

static const struct map_entry *
entry_of(const struct map *map, const struct map_key *key)
{
    if (map->slot_count == 0)
        return NULL;
    uint32_t index = map->slots[find_slot(map, key)];
    return index != 0 ? &map->entries[index - 1] : NULL;
}

static void
fill_slots(struct map *map)
{
    memset(map->slots, 0, map->slot_count * sizeof *map->slots);
    for (size_t i = 0; i < map->count; i++) {
        struct map_key key = entry_key(&map->entries[i]);
        map->slots[find_slot(map, &key)] = (uint32_t)(i + 1);
    }
}

static void *
map_take(const struct map *map, size_t bytes)
{
    return map->source.take != NULL ? map->source.take(map->source.owner, bytes) : malloc(bytes);
}

static void
map_give(const struct map *map, void *block, size_t bytes)
{
    if (map->source.give == NULL)
        free(block);
    else if (block != NULL)
        map->source.give(map->source.owner, block, bytes);
}

static bool
entries_room(struct map *map)
{
    if (map->source.take == NULL)
        return vec_room(&map->entries, &map->room, map->count + 1, sizeof *map->entries);
    if (map->count < map->room)
        return true;
    size_t            more  = map->room == 0 ? 8 : map->room * 2;
    struct map_entry *grown = map_take(map, more * sizeof *grown);
    if (grown == NULL)
        return false;
    if (map->count > 0)
        memcpy(grown, map->entries, map->count * sizeof *grown);
    map_give(map, map->entries, map->room * sizeof *grown);
    map->entries = grown;
    map->room    = more;
    return true;
}

/* Room for one more entry; the slots stay at most three quarters full. */
static bool
map_room(struct map *map)
{
    if (map->count >= UINT32_MAX / 2 || !entries_room(map))
        return false;
    if ((map->count + 1) * 4 <= map->slot_count * 3)
        return true;

    size_t slot_count = map->slot_count == 0 ? 16 : map->slot_count * 2;
    uint32_t *slots = map_take(map, slot_count * sizeof *slots);
    if (slots == NULL)
        return false;
    map_give(map, map->slots, map->slot_count * sizeof *slots);
    map->slots = slots;
    map->slot_count = slot_count;
    fill_slots(map);
    return true;
}

static bool
set(struct map *map, const struct map_key *key, uint64_t value)
{
    const struct map_entry *found = entry_of(map, key);
    if (found != NULL) {
        map->entries[found - map->entries].value = value;
        return true;
    }
    if (!map_room(map))
        return false;
    char *text = NULL;
    if (key->text != NULL && (text = strdup(key->text)) == NULL)
        return false;

    map->entries[map->count] = (struct map_entry){ .text = text, .number = key->number, .value = value };
    map->slots[find_slot(map, key)] = (uint32_t)++map->count;
    return true;
}

bool
map_set_text(struct map *map, const char *key, uint64_t value)
{
    struct map_key wanted = text_key(key);
    return set(map, &wanted, value);
}

bool
map_set(struct map *map, uint64_t key, uint64_t value)
{
    struct map_key wanted = number_key(key);
    return set(map, &wanted, value);
}

bool
map_get_text(const struct map *map, const char *key, uint64_t *value)
{
    struct map_key wanted = text_key(key);
    const struct map_entry *entry = entry_of(map, &wanted);
    if (entry != NULL && value != NULL)
        *value = entry->value;
    return entry != NULL;
}

bool
map_get(const struct map *map, uint64_t key, uint64_t *value)
{
    struct map_key wanted = number_key(key);
    const struct map_entry *entry = entry_of(map, &wanted);
    if (entry != NULL && value != NULL)
        *value = entry->value;
    return entry != NULL;
}

/* Empties one slot and pulls back those behind it that were pushed past it. */
static void
empty_slot(struct map *map, size_t hole)
{
    size_t mask = map->slot_count - 1;
    for (size_t slot = (hole + 1) & mask; map->slots[slot] != 0; slot = (slot + 1) & mask) {
        size_t home = entry_key(&map->entries[map->slots[slot] - 1]).hash & mask;
        if (((slot - home) & mask) >= ((slot - hole) & mask)) {
            map->slots[hole] = map->slots[slot];
            hole = slot;
        }
    }
    map->slots[hole] = 0;
}

/* The last entry goes at once (a stack's order of use); any other costs a walk, because the order must stay. */
bool
map_remove(struct map *map, uint64_t key)
{
    struct map_key wanted = number_key(key);
    if (map->slot_count == 0)
        return false;
    size_t slot = find_slot(map, &wanted);
    if (map->slots[slot] == 0)
        return false;

    size_t index = map->slots[slot] - 1;
    empty_slot(map, slot);
    map->count--;
    if (index < map->count) {
        memmove(&map->entries[index], &map->entries[index + 1], (map->count - index) * sizeof *map->entries);
        for (size_t i = 0; i < map->slot_count; i++)
            map->slots[i] -= map->slots[i] > index + 1;
    }
    return true;
}

void
map_free(struct map *map)
{
    for (size_t i = 0; i < map->count; i++)
        free(map->entries[i].text);
    map_give(map, map->entries, map->room * sizeof *map->entries);
    map_give(map, map->slots, map->slot_count * sizeof *map->slots);
    *map = (struct map){ .source = map->source };
}
