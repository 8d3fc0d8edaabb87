/* What state.c and fold.c share: the facts as of one moment, small enough to be copied at checkpoints, and the
 * histories that are kept once and searched by seq. */
#ifndef ANALYSIS_INTERNAL_H
#define ANALYSIS_INTERNAL_H
#include "analysis/state.h"
#include "base/map.h"
#include "trace/format.h"

/* Rows sorted by their key, which is two numbers at the front of each. */
struct rows {
    unsigned char *items;
    size_t         count, room, size;
};
struct row_key { int64_t first, second; };

struct memory_row { struct row_key key; struct state_memory memory; };             /* (device, 0) */
struct bucket_row {                                                                /* (rank, index) */
    struct row_key key;
    int64_t        bytes, params, ready, indices, sequence, copied;
    uint64_t       ready_bits, unused_bits;                /* of its first 64 parameters */
    bool           launching, launched, reduced, has_sequence, marks_unused, finalized, rebuilding, rebuilt;
};
struct lock_row { struct row_key key; int64_t holder; uint64_t waiting; };         /* (rank, text); holder: lane + 1 */

struct open_span { uint32_t seq, lane; };

struct moment {
    size_t            next;    /* the first event that is not in it */
    struct open_span *open;    /* of all lanes, in order of their begin */
    size_t            open_count, open_room;
    struct rows       memory, buckets, locks;
    uint32_t          iteration;
};

/* Which kinds mean something, found by name once. */
enum fact {
    FACT_NONE, FACT_ALLOC, FACT_FREE, FACT_SNAPSHOT, FACT_BUCKET, FACT_READY, FACT_PREPARE, FACT_LAUNCH, FACT_ISSUE,
    FACT_REDUCED, FACT_LOCK_WAIT, FACT_LOCK_HOLD, FACT_SEGMENT, FACT_ROLE, FACT_GRADIENT,
    FACT_UNUSED, FACT_COPIED, FACT_FINALIZED, FACT_REBUILD
};
struct meaning { enum fact fact; uint8_t says; int8_t arg[4]; }; /* says: of memory taken in it; where the arguments stand that the fact needs; -1 nowhere */

/* A storage: what it was born as and what it became later, so that any moment can be asked. */
enum { ROLE_CHANGES = 2 };
struct storage_note {
    uint64_t bytes;
    uint32_t changed[ROLE_CHANGES];  /* seq */
    int16_t  device;
    uint8_t  born, changes, became[ROLE_CHANGES];
};

struct snapshot_note { uint32_t seq; int64_t id; };
struct snapshot_list { struct snapshot_note *notes; size_t count, room; };

struct state {
    struct trace         *trace;
    uint64_t              version;
    struct meaning       *meanings; /* [kind] */
    size_t                kind_count;
    struct moment         now;
    struct moment        *checkpoints; /* in order */
    size_t                checkpoint_count, checkpoint_room;

    size_t                noted;       /* events that are in the histories */
    struct map            storages;    /* storage -> index into notes */
    struct storage_note  *notes;
    size_t                note_count, note_room;
    struct map            snapshot_of; /* storage -> index into snapshots */
    struct snapshot_list *snapshots;
    size_t                snapshot_count, snapshot_room;
};

bool  state_learn_kinds(struct state *state);                     /* false: no memory */
bool  state_fold(struct state *state, size_t seq);                /* event `seq` into `now`; false: no memory */
void *rows_find(const struct rows *rows, int64_t first, int64_t second, size_t *place); /* NULL: it would be there */
#endif
