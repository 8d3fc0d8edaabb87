/* What the files of join share: a part with its tables, and the whole that is made of them.
 * Order of use: job_find, job_take_lanes; join_set_clocks; join_time as events are taken. */
#ifndef TRACE_JOIN_INTERNAL_H
#define TRACE_JOIN_INTERNAL_H
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include "base/map.h"
#include "base/str.h"
#include "trace/join.h"
#include "trace/reader.h"
#include "trace/writer.h"

/* From this iteration on a part's times are moved by so much. */
struct piece { uint32_t iteration; int64_t shift; };

/* At `own` of the part's time the job's clock is `job`, give or take `error`. All in ps. */
struct mark { int64_t own, job, error; };

/* How far a part's clock is moved in one epoch: at JOB_KNOTS moments, evenly from `from` to `to` of its time. */
enum { JOB_KNOTS = 9 };
struct bend { int64_t from, to, moved[JOB_KNOTS]; };

/* Times, offsets and errors of a job, in ps: so far that a few of them can be added. Six days. */
#define FARTHEST (INT64_MAX / 16)

enum { LANE_NONE = UINT32_MAX };   /* a lane that is not in the whole */

struct part {
    const char   *path;
    struct trace *trace;
    size_t        next, limit;     /* the event that comes next; up to where they go now */
    uint64_t      time;            /* of the next, on the whole's clock */
    uint16_t     *kinds;           /* [its kind]: the whole's */
    struct map    texts, snapshots, flows; /* its id -> the whole's; flows: of a job */
    uint32_t     *lanes;           /* [its lane]: the whole's */
    uint32_t      lanes_said, first_flow;
    int64_t       first_storage;
    int           first_device;
    struct piece *pieces;          /* by iteration; none: `shift` is for all */
    size_t        piece_count, piece_room;
    int64_t       shift, start;    /* ps; start: the same for all parts, so that none begins before 0 */
    /* Of a job. */
    int           rank;
    bool          is_copy;         /* of the lesson, which another part has already ... */
    size_t        copy_end;        /* ... up to this event */
    struct mark  *marks;           /* in order of time */
    size_t        mark_count, mark_room;
    size_t       *ends;            /* [epoch]: behind its last event */
    struct bend  *bends;           /* [epoch] */
    size_t        epoch;           /* of `next` */
};

struct whole {
    struct part               *parts;
    size_t                     part_count, epochs;
    const struct join_wish    *wish;
    bool                       is_virtual, is_job, lettered, starved;
    struct trace_writer       *writer;
    struct trace_buffer       *buffer;
    const struct trace_kind  **kinds;  /* [number - 1], of the part that had it first */
    size_t                     kind_count, kind_room;
    uint32_t                   lanes, flow_count;
    struct map                 flows;  /* the job's id -> the whole's */
    struct map                 common; /* lanes of no rank by their names: join_job.c's */
    struct str                 note;
    const struct part         *worst, *worst_to;   /* an arrow that no error allows for, and by how much not */
    int64_t                    worst_by;
    bool                       forced;             /* rules about clocks did not go together */
};

/* join_job.c: whether the parts are a job's, and then their order, epochs and what is missing. false: no memory. */
bool     job_find(struct whole *whole);
bool     job_has(const struct part *part, size_t seq);   /* the event is no copy */
/* The lanes of the whole that a part's become, which are declared. false: no memory. */
bool     job_declare_lanes(struct whole *whole, struct part *part);
const char *job_file(const struct part *part);           /* its name without folders */
void     job_note(struct whole *whole, const char *format, ...) __attribute__((format(printf, 2, 3)));

/* join_clock.c: how far each part is moved. false: `why` says why it cannot be known. */
bool     join_set_clocks(struct whole *whole, char *why, size_t why_size);
uint64_t join_time(const struct part *part, size_t seq);   /* of one of its events, on the whole's clock, in ps */

/* join_offsets.c: the clocks of a job. false: no memory. */
bool     offsets_find(struct whole *whole);
int64_t  offsets_time(const struct part *part, int64_t own);     /* by its marks alone, in ps */
int64_t  offsets_error(const struct part *part, int64_t own);
int64_t  offsets_mended(const struct part *part, size_t epoch, int64_t own);   /* and by what was mended */

/* join_arrows.c: what is certain in each epoch mends the clocks. false: no memory. */
bool     arrows_mend(struct whole *whole);
#endif
