/* How an index lies in memory and in its file. Arrays have a first part of fixed room, mostly mapped from a file, and a
 * second that grows as the trace does. */
#ifndef ANALYSIS_INDEX_INTERNAL_H
#define ANALYSIS_INDEX_INTERNAL_H
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include "analysis/index.h"
#include "trace/identity.h"
#include "trace/mapped.h"

struct trace_event;

struct list {
    unsigned char *base, *tail;
    size_t         fixed, room, count; /* `fixed` items have room in base, `room` in tail */
};

static inline void *
list_at(const struct list *list, size_t i, size_t size)
{
    return i < list->fixed ? list->base + i * size : list->tail + (i - list->fixed) * size;
}

static inline uint32_t
list_seq(const struct list *list, size_t i)
{
    return *(const uint32_t *)list_at(list, i, sizeof(uint32_t));
}

#define OPEN_END UINT32_MAX  /* seq of an end that has not come */
enum { LOOK_WORK = 15, LOOK_SHIFT = 4 }; /* of a span's look: its class; above it its length, rounded up */

/* One level of a lane. */
struct track {
    struct list begin, end;       /* u32: seq */
    struct list look;             /* u16 */
    struct list nodes[INDEX_HEIGHTS];
    int         heights;
};

struct lane_index {
    struct track *levels[LEVELS];
    int           depth;
    size_t        events;
    struct list   marks, mark_works;      /* u32: seq; u8 */
    struct list   mark_nodes[INDEX_HEIGHTS];
    int           mark_heights;
    struct list   deep;                   /* u32: seq of begins and ends below the last level */
    uint32_t      open;                   /* spans open now, those too deep counted */
    uint16_t      open_kind[LEVELS];
    uint8_t       open_work[LEVELS];
    uint64_t      open_begin[LEVELS];     /* ps */
};

/* What 64 events are in sum, or 16 nodes below. */
struct seq_node { uint64_t kinds[2]; uint32_t iteration, starts; }; /* bits by kind % 128 (no ends); the highest; */
                                                                    /* iterations that begin in it */
struct flow_end { uint32_t here, there; };                          /* seq; OPEN_END: not there (yet) */

/* Of a kind, looked up once. */
struct index_kind { uint8_t work; int8_t ok; bool nests; };         /* ok: where a check says how it went; -1: no check */

struct seqs { uint32_t *items; size_t count, room; };

enum index_stage { STAGE_COUNT, STAGE_FILL, STAGE_WHOLE };

struct index {
    struct trace      *trace;
    size_t             file_from;     /* events: below, all of it is in memory, at once */
    uint64_t           version;
    enum index_stage   stage;
    bool               bulk;          /* heights above 0 are summed up at the end */
    bool               starved;
    struct index_kind *kinds;
    size_t             kind_count;
    struct lane_index *lanes;
    size_t             lane_count, lane_room;
    size_t             count, target; /* events taken in; as many as are being arranged now */
    uint64_t           end;
    uint32_t           iteration;     /* of the last event */
    struct list        seq_nodes[INDEX_HEIGHTS];
    int                seq_heights;
    struct seqs        faults, lessons;
    struct list        flows_from, flows_to;   /* struct flow_end, in order of `here` */
    uint32_t         (*flows)[2];              /* [flow]: place + 1 in flows_from, place + 1 in flows_to */
    size_t             flow_count, flow_room;

    size_t             counted;                /* STAGE_COUNT: events */
    struct tally      *tallies;                /* of each lane */
    struct tally_flows { size_t from, to; } flow_tally;
    size_t             fault_tally, lesson_tally;
    struct node       *samples;                /* [lane][sample] */
    size_t             sample_count, sample_lanes;

    unsigned char     *memory;                 /* mapped for writing; NULL: it is not */
    size_t             memory_bytes, head_bytes;
    int                fd;                     /* of the file in `memory`; -1 none */
    char              *beside, *path;          /* its name until it is whole, and then; NULL: it has none */
    struct mapped      mapped;                 /* for reading; bytes 0: nothing is */
};

/* How many spans and marks a lane has: enough to know where everything of it lies. */
struct tally { uint32_t spans[LEVELS], marks, deep, events, unused; };

/* index_list.c */
void *list_add(struct list *list, size_t size);                 /* the new item, zeroed; NULL: no memory */
void  list_free(struct list *list);
struct track *track_take(struct lane_index *lane, int level);   /* NULL: no memory */
void  lanes_free(struct index *index);
bool  seqs_add(struct seqs *seqs, size_t seq);
/* Gives every list its fixed part in `base`, of as many items as were counted (tallies, counted, flow_tally); base
 * NULL: only how many bytes that takes. `full`: the items are there. Tracks were taken before. */
size_t index_lay(struct index *index, unsigned char *base, bool full);
bool   index_take_tracks(struct index *index);                  /* of all levels that were counted */

/* index_sum.c: the pyramids */
bool track_begins(struct track *track, size_t i, const struct node *span);  /* from, kinds, works of the new span */
void track_ends(struct track *track, size_t i, const struct span *span);
bool lane_marks(struct lane_index *lane, size_t i, const struct mark_node *mark);
bool seqs_take(struct index *index, size_t seq, const struct seq_node *event);
bool track_raise(struct track *track);       /* heights that are missing; in bulk only once everything is there */
bool marks_raise(struct lane_index *lane);
bool seqs_raise(struct index *index);
unsigned length_look(uint64_t length);                          /* twelve bits */
uint64_t look_length(unsigned look);                            /* at least the length; 0 for 0 */

/* index_take.c */
enum turn { TURN_SPAN, TURN_END, TURN_MARK, TURN_DEEP };
bool index_learn(struct index *index);                          /* lanes and kinds; false: no memory */
enum turn lane_turn(struct lane_index *lane, const struct index_kind *kind, const struct trace_event *event, int *level,
                    int *open);
bool index_take(struct index *index, size_t seq);               /* false: no memory */
bool event_is_fault(const struct index *index, const struct trace_event *event);

/* index_file.c */
#define INDEX_MAGIC "ringside-index\n"
enum { INDEX_VERSION = 1 };

struct index_head {
    char                  magic[16];
    uint64_t              version, lanes, events, end, meaning;
    struct trace_identity trace;
    struct tally_flows    flow_room, flows;
    uint64_t              faults, lessons, bytes;
    uint64_t              sum;                 /* of all the rest */
};

uint64_t index_file_sum(const struct index_head *head, const unsigned char *file); /* of all but `sum` */
bool index_load(struct index *index);         /* false: there is none that fits */
bool index_place(struct index *index);        /* once all is counted: every list has room; false: no memory */
void index_keep(struct index *index);         /* it is whole: its file gets its name, if it has one */
void index_unplace(struct index *index);      /* lists are emptied before */
#endif
