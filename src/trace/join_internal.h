/* What the files of join share: a part with its tables, and the whole that is made of them. */
#ifndef TRACE_JOIN_INTERNAL_H
#define TRACE_JOIN_INTERNAL_H
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include "base/map.h"
#include "trace/join.h"
#include "trace/reader.h"
#include "trace/writer.h"

/* From this iteration on a part's times are moved by so much. */
struct piece { uint32_t iteration; int64_t shift; };

struct part {
    struct trace *trace;
    size_t        next;            /* the event that comes next, and its time on the whole's clock */
    uint64_t      time;
    uint16_t     *kinds;           /* [its kind]: the whole's */
    struct map    texts, snapshots; /* its id -> the whole's */
    uint32_t      first_lane, first_flow;
    int64_t       first_storage;
    int           first_device;
    struct piece *pieces;          /* by iteration; none: `shift` is for all */
    size_t        piece_count, piece_room;
    int64_t       shift;           /* ps */
};

struct whole {
    struct part               *parts;
    size_t                     part_count;
    bool                       is_virtual, lettered, starved;
    struct trace_writer       *writer;
    struct trace_buffer       *buffer;
    const struct trace_kind  **kinds;  /* [number - 1], of the part that had it first */
    size_t                     kind_count, kind_room;
    uint32_t                   lanes;
};

/* join_clock.c: how far each part is moved. false: `why` says why it cannot be known. */
bool     join_set_clocks(struct whole *whole, enum join_clock clock, char *why, size_t why_size);
uint64_t join_time(const struct part *part, size_t seq);   /* of one of its events, on the whole's clock, in ps */
#endif
