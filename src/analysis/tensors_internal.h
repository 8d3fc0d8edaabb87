/* What the files of tensors share: the index itself. */
#ifndef ANALYSIS_TENSORS_INTERNAL_H
#define ANALYSIS_TENSORS_INTERNAL_H
#include "analysis/tensors.h"
#include "base/map.h"

enum told { TOLD_NOTHING, TOLD_ALLOC, TOLD_FREE, TOLD_ROLE, TOLD_ALIAS, TOLD_TENSOR, TOLD_SNAPSHOT, TOLD_EDGES,
            TOLD_WRITE, TOLD_MEMORY };

/* What a kind tells of a storage, and where its arguments stand; -1 nowhere. */
struct telling { uint8_t told; bool stage; int8_t storage, a, b, c; };

/* Every event that tells something of a storage, in order. `stage`, `born`, `freed`: seq + 1, 0 none. */
struct storage_line { uint32_t *seqs; uint32_t count, room, born, freed, stage; };

struct told_group { uint32_t seq, first, count; };         /* memory.tensor events that belong to an event */
struct named_list { uint32_t *seqs; size_t count, room; }; /* memory.tensor events of one name */

struct tensor_lane {
    uint32_t  pending[TENSORS_OF_EVENT];
    int       pending_count;
    uint32_t *open;                                         /* begins of stages */
    size_t    open_count, open_room;
};

enum { LIVE_BLOCK = 256 };

struct tensors {
    struct trace        *trace;
    uint64_t             version;
    struct telling      *tellings;      /* [kind] */
    size_t               kind_count;
    size_t               seen;
    struct storage_line *storages;      /* [number] */
    size_t               storage_count, storage_room;
    uint32_t            *block_freed;   /* the latest end of LIVE_BLOCK storages; UINT32_MAX: one still lives */
    size_t               block_room;
    struct told_group   *groups;        /* in order of seq */
    size_t               group_count, group_room;
    uint32_t            *told;
    size_t               told_count, told_room;
    struct tensor_lane  *lanes;
    size_t               lane_count, lane_room;
    struct map           name_of_text;  /* id of a text -> index into named + 1, 0 none */
    struct map           names;         /* name -> index into named */
    struct named_list   *named;
    size_t               named_count, named_room;
};

/* The parts of "input 2 = 0.weight: float32 [4, 3] strides [1, 4] requires_grad". false: it says something else. */
bool seen_parse(const char *text, struct seen_tensor *out);
/* The tensor that a memory.tensor event tells of. */
bool seen_at(const struct tensors *tensors, size_t seq, struct seen_tensor *out);
const struct storage_line *line_of(const struct tensors *tensors, int64_t storage);   /* NULL: unknown */
size_t line_place(const struct storage_line *line, size_t seq);   /* how many of its events are at or before seq */
const struct telling *telling_of(const struct tensors *tensors, size_t seq);
size_t groups_until(const struct tensors *tensors, size_t seq);    /* how many are of events at or before seq */
const struct told_group *group_of_event(const struct tensors *tensors, size_t seq);    /* NULL: none */
#endif
