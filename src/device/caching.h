/* The memory of one device: segments, taken whole from the system and kept, and the blocks that they are cut into, by
 * the rules of PyTorch's caching allocator.
 *
 * A request is rounded up to 512 bytes. Up to 1 MiB it comes from a small segment of 2 MiB; below 10 MiB from one of
 * 20 MiB; larger ones get a segment of their own, rounded up to 2 MiB. Of the free blocks of its stream and kind that
 * are large enough the smallest is taken, among equals that of the oldest segment, then the lowest. What remains of it
 * becomes a free block if it has 512 bytes (small) or more than 1 MiB (large). A freed block joins its free
 * neighbours. A block belongs to the stream that was current when it was taken: there its bytes are used in order, so
 * it may be handed out again at once; other streams that used it are waited for if they were recorded.
 *
 * The lists lie outside of the memory, which nobody here reads or writes. Order is by segment number and offset, never
 * by address, so that runs repeat. All functions are thread-safe. */
#ifndef DEVICE_CACHING_H
#define DEVICE_CACHING_H
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct sched; struct cache; struct cache_block;

/* Where segments come from; outlives the cache. NULL in its place: cache_system, whose pages cost nothing until they are
 * touched (virtual.c). `counted`: they are the host's memory, and charged to the run's account as far as blocks reach. */
struct cache_source {
    void *(*take)(void *owner, size_t bytes);   /* NULL: it has no more */
    void  (*give)(void *owner, void *segment, size_t bytes);
    void   *owner;
    bool    counted;
};
extern const struct cache_source cache_system;

/* How far a stream is: entries that were launched and that are done. */
struct stream_progress { uint64_t launched, done; };

enum cache_pool { CACHE_SMALL, CACHE_LARGE, CACHE_POOLS };

/* Who took a block, for those who ask where the memory has gone. */
struct cache_holder { uint32_t storage, line; uint16_t stage; char module[26]; };

struct cache *cache_new(struct sched *sched, uint64_t limit, const struct cache_source *source); /* NULL: no memory */
void          cache_free(struct cache *cache);
void          cache_set_limit(struct cache *cache, uint64_t limit);
uint64_t      cache_limit(struct cache *cache);

/* REFUSED: the run's account, or the system, has no more; FULL: the device's limit stands in the way. */
enum cache_answer { CACHE_TAKEN, CACHE_REFUSED, CACHE_FULL };
struct cache_request {
    size_t              bytes;      /* 0 needs no block */
    int                 stream;
    struct cache_holder holder;
    bool                again;      /* it was refused before: counts as a retry if it needs a segment */
};
enum cache_answer cache_take(struct cache *cache, const struct cache_request *request, struct cache_block **block);
/* `used`: work that was queued before still uses the bytes. */
void   cache_give(struct cache *cache, struct cache_block *block, bool used);
/* What `stream` does now must be done before others get the block. false: no memory. */
bool   cache_record(struct cache *cache, struct cache_block *block, int number, const struct stream_progress *stream);
/* Gives segments back that hold no block; nothing queued may use them any more. Answers how many bytes. */
size_t cache_release(struct cache *cache);
/* What has to be reserved for a block of so many bytes where no free block holds it. */
size_t cache_segment_bytes(size_t bytes);
void   cache_note_full(struct cache *cache);                  /* nothing helped: one more out of memory */

void  *block_data(const struct cache_block *block);
size_t block_bytes(const struct cache_block *block);
uint64_t block_place(const struct cache_block *block);    /* a number of our own: its segment's address and offset */
bool   block_is_recorded(const struct cache_block *block);

/* ---- what there is ---- */

struct cache_count { uint64_t current, peak, allocated, freed; };
enum cache_stat {
    STAT_ALLOCATION, STAT_SEGMENT, STAT_ACTIVE, STAT_INACTIVE_SPLIT, STAT_ALLOCATED_BYTES, STAT_RESERVED_BYTES,
    STAT_ACTIVE_BYTES, STAT_INACTIVE_SPLIT_BYTES, STAT_REQUESTED_BYTES, CACHE_STATS
};
struct cache_stats {
    struct cache_count of[CACHE_STATS][CACHE_POOLS + 1]; /* small, large, all */
    uint64_t           retries, ooms;
};
struct cache_stats cache_stats(struct cache *cache);
uint64_t           cache_allocated(const struct cache *cache); /* bytes of blocks that are held; takes no lock */
uint64_t           cache_reserved(const struct cache *cache);  /* bytes of segments; takes no lock */
void               cache_reset_peak(struct cache *cache);
/* Segments that were taken, given back, and bytes held since the last time it was asked; false: no change. */
struct cache_change { uint64_t taken, given, reserved; int64_t bytes; };
bool               cache_changed(struct cache *cache, struct cache_change *change);

/* The blocks, by segment and offset. */
enum block_state { BLOCK_FREE, BLOCK_HELD, BLOCK_WAITS };      /* WAITS: given, but a recorded stream is not done */
struct cache_view {
    uint64_t            address, segment_bytes, offset;        /* address of the segment: a number of our own */
    size_t              bytes, requested;
    uint32_t            segment;
    int                 stream;
    enum cache_pool     pool;
    enum block_state    state;
    struct cache_holder holder;
};
size_t cache_look(struct cache *cache, struct cache_view *out, size_t room); /* answers how many there are */
#endif
