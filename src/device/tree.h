/* Blocks and segments of a caching allocator, and the tree in which free blocks are found: by stream, then size, then
 * the order of their segments, then offset. */
#ifndef DEVICE_TREE_H
#define DEVICE_TREE_H
#include "device/caching.h"

struct segment {
    struct segment     *before, *after;
    struct cache_block *first;
    char               *base;
    size_t              bytes, reach;       /* as far as the account was charged */
    uint64_t            address;
    uint32_t            number;
    int                 stream;
    enum cache_pool     pool;
};

struct cache_block {
    struct segment     *segment;
    size_t              offset, bytes, requested;
    struct cache_block *before, *after;     /* its neighbours in the segment */
    struct cache_block *left, *right;       /* in the tree */
    uint32_t            priority;           /* no less than that of those below it */
    enum block_state    state;
    struct recorded    *recorded;
    struct cache_holder holder;
};

void                tree_add(struct cache_block **root, struct cache_block *block);
void                tree_remove(struct cache_block **root, struct cache_block *block);
struct cache_block *tree_best(struct cache_block *root, int stream, size_t bytes); /* NULL: none is large enough */
#endif
