/* A hash map from text or from a number to a number. Iteration is in the order of insertion, so that nothing
 * depends on the hash. Keys are copied. Zero-initialised is empty. */
#ifndef BASE_MAP_H
#define BASE_MAP_H
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct map_entry {
    char    *text;   /* NULL for a number key */
    uint64_t number; /* the key when text is NULL */
    uint64_t value;
};

/* Where a map's arrays come from. Zero: the system. */
struct map_source {
    void *(*take)(void *owner, size_t bytes); /* not cleared; NULL: no memory */
    void  (*give)(void *owner, void *block, size_t bytes);
    void   *owner;
};

struct map {
    struct map_entry *entries; /* in order of insertion; removed ones are closed up */
    uint32_t         *slots;   /* index + 1 into entries, 0 empty */
    size_t            count, room, slot_count;
    struct map_source source;
};

bool map_set_text(struct map *map, const char *key, uint64_t value);  /* false: no memory */
bool map_set(struct map *map, uint64_t key, uint64_t value);
bool map_get_text(const struct map *map, const char *key, uint64_t *value); /* false: absent; value may be NULL */
bool map_get(const struct map *map, uint64_t key, uint64_t *value);
bool map_remove(struct map *map, uint64_t key);
void map_free(struct map *map);

uint64_t hash_bytes(uint64_t seed, const void *bytes, size_t count); /* FNV-1a, 64 bits; seed 0 to begin */
#endif
