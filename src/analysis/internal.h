/* What state.c and fold.c share: the facts as of one moment, small enough to be copied at checkpoints, and the
 * histories that are kept once and searched by seq. */
#ifndef ANALYSIS_INTERNAL_H
#define ANALYSIS_INTERNAL_H
#include "analysis/state.h"
#include "base/map.h"
#include "trace/format.h"

/* Rows sorted by their key, which is two numbers at the front of each. */
struct trace_kind;

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

/* What the ranks called and what became of them (fold_calls.c). Where `seq` is 0 it has not been: a number is kept as
 * seq + 1. */
struct call_row {                                                                  /* (rank, group) */
    struct row_key key;
    int64_t        sequence, operation, bytes, done, done_operation;               /* the last call; the last one over */
    uint32_t       seq, line;                                                      /* of the last call */
};
struct rank_row { struct row_key key; uint32_t lane, ended, raised, killed; bool failed; };  /* (rank, 0) */
struct task_row { struct row_key key; uint32_t lane; };                            /* (task, 0) */
struct store_row { struct row_key key; uint32_t seq, times; int32_t rank; };       /* (text of the key, 0): set last by */

/* What has begun and not ended. A lane's spans are a chain from the innermost outwards; places that ended are in a
 * chain of their own, to be taken again. */
struct open_span { uint32_t seq, around; uint16_t kind; };         /* around: place + 1 of the next one of the chain */
struct open_spans {
    struct open_span *spans;
    uint32_t         *innermost;                                   /* [lane]: place + 1; 0: nothing is open */
    size_t            count, room, lanes, lane_room;
    uint32_t          spare;                                       /* place + 1 */
};

/* The memory that is taken and not given back, by its storage: a table with linear probing. */
struct storage { int64_t number; uint64_t bytes; int16_t device; uint8_t role; bool used; };
struct storages { struct storage *slots; size_t count, slot_count; };

struct moment {
    size_t            next;      /* the first event that is not in it */
    struct open_spans open;
    struct storages   storages;
    size_t            untold;    /* storages for which the table had no place */
    struct rows       memory, buckets, locks, calls, ranks, tasks, stores;
    uint32_t          iteration;
};

/* Which kinds mean something, found by name once. */
enum fact {
    FACT_NONE, FACT_ALLOC, FACT_FREE, FACT_SNAPSHOT, FACT_BUCKET, FACT_READY, FACT_PREPARE, FACT_LAUNCH, FACT_ISSUE,
    FACT_REDUCED, FACT_LOCK_WAIT, FACT_LOCK_HOLD, FACT_SEGMENT, FACT_ROLE, FACT_GRADIENT,
    FACT_UNUSED, FACT_COPIED, FACT_FINALIZED, FACT_REBUILD
};
enum call_fact {
    CALL_NONE, CALL_ISSUE, CALL_WAITED, CALL_OVER, CALL_MEET, CALL_ERROR, CALL_INJECTED, CALL_TASK_START, CALL_TASK_END,
    CALL_STORE_SET
};
struct meaning {
    uint8_t fact;   /* enum fact */
    uint8_t says;   /* of memory taken in it */
    int8_t  arg[4]; /* where the arguments stand that the fact needs; -1 nowhere */
    bool    nests;  /* its ends belong to the innermost begin of that kind; else the first argument must agree, too */
    uint8_t call;   /* enum call_fact, and where its arguments stand */
    int8_t  call_arg[4];
};

/* Contents are a history: each snapshot knows the one before it of the same storage, and one further back, so that any
 * moment is found in few steps. */
struct content { uint32_t seq, before, leap, depth; };            /* place + 1; 0: none; depth: how many are before */
struct latest { int64_t storage; uint32_t place; };               /* place + 1 of its last snapshot; 0: an empty slot */
struct contents {
    struct content *contents;
    size_t          count, room;
    struct latest  *slots;
    size_t          storages, slot_count;
};

struct state {
    struct trace         *trace;
    uint64_t              version;
    struct meaning       *meanings; /* [kind] */
    size_t                kind_count;
    struct moment         now;
    struct moment        *checkpoints; /* in order */
    size_t                checkpoint_count, checkpoint_room, checkpoint_bytes;
    size_t                checkpoint_step, checkpoint_due; /* events from one to the next; where the next one is */

    size_t                noted;       /* events that are in the history */
    struct contents       contents;
};

bool  state_learn_kinds(struct state *state);                     /* false: no memory */
bool  state_fold(struct state *state, size_t seq);                /* event `seq` into `now`; false: no memory */
bool  calls_fold(struct state *state, const struct meaning *meaning, const struct trace_event *event, size_t seq);
void  calls_learn(const struct trace_kind *kind, struct meaning *meaning);
void *rows_take(struct rows *rows, int64_t first, int64_t second, size_t size); /* new and zero if there was none; NULL: no memory */
void *rows_range(const struct rows *rows, int64_t first, size_t *count); /* those whose key begins with `first` */
void  rows_drop(struct rows *rows, int64_t first);                  /* all whose key begins so */
void *rows_find(const struct rows *rows, int64_t first, int64_t second, size_t *place); /* NULL: it would be there */

/* open.c */
bool   open_begin(struct open_spans *open, const struct open_span *span, uint32_t lane);     /* false: no memory */
/* The innermost of that kind on the lane ends; of kinds that do not nest, that with the same first argument. */
void   open_end(struct open_spans *open, const struct trace *trace, const struct trace_event *event, bool nests);
bool   open_copy(struct open_spans *to, const struct open_spans *from); /* `to` is empty; false: no memory */
size_t open_bytes(const struct open_spans *open);
void   open_free(struct open_spans *open);

/* storages.c */
struct storage *storage_find(const struct storages *storages, int64_t number);                  /* NULL: none */
struct storage *storage_take(struct storages *storages, int64_t number, bool *full); /* NULL: no memory, or `full` */
void            storage_give(struct storages *storages, struct storage *storage);
bool            storages_copy(struct storages *to, const struct storages *from);
size_t          storages_bytes(const struct storages *storages);
void            storages_free(struct storages *storages);

/* contents.c */
bool   contents_add(struct contents *contents, int64_t storage, size_t seq);   /* in order; false: no memory */
size_t contents_before(const struct contents *contents, int64_t storage, size_t seq); /* SIZE_MAX: none */
void   contents_free(struct contents *contents);
#endif
