/* What a quantity was over time: bytes in use per device, reserved bytes, collectives in the queue of a rank, bytes in
 * flight from a rank. Told by events alone, and grown with the trace, a slice at a time, never event by event in a frame.
 *
 * Bounded: a curve has CURVE_STEPS steps at most. When they are used up two become one, of which the greatest and the last
 * value are kept, so that no peak is lost; where such a step lies in a window its first value is not known any more.
 *
 * Order of use: curves_new, curves_grow until it answers false (again whenever the trace has grown), then the
 * questions, each in the time of two searches and the steps between; curves_free. */
#ifndef ANALYSIS_CURVE_H
#define ANALYSIS_CURVE_H
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct trace; struct curves;

enum curve_of {
    CURVE_MEMORY,    /* bytes allocated; who: the device, -1 the host */
    CURVE_RESERVED,  /* bytes that a device's cache has of it; who: the device */
    CURVE_QUEUE,     /* collectives that were issued and have not ended; who: the rank */
    CURVE_FLIGHT     /* bytes of messages under way; who: the rank that sends */
};

enum { CURVE_STEPS = 16384 };

struct curve_step {
    uint64_t time;           /* ps, of its first change; it lasts until the next step */
    uint64_t most, last;     /* of its values */
};

struct curve {
    enum curve_of      of;
    int                who;
    struct curve_step *steps;
    size_t             count, room;
    size_t             grain, changes;  /* changes that make a step now; those in the last one */
    uint64_t           most;            /* of all of it */
    size_t             most_seq;        /* the event at which it was reached */
};

/* What a curve was in a stretch of time. */
struct curve_span { uint64_t first, most, last; bool changed; };

struct curves *curves_new(struct trace *trace);       /* NULL: no memory. Borrows the trace */
void           curves_free(struct curves *curves);
/* Takes in `slice` more events at most. true: there are more; false: all are in (or there is no memory for them). */
bool           curves_grow(struct curves *curves, size_t slice);
size_t         curves_seen(const struct curves *curves); /* events that are in */

size_t              curves_count(const struct curves *curves);
const struct curve *curves_at(const struct curves *curves, size_t index); /* sorted by what they are of, then who */
const struct curve *curves_find(const struct curves *curves, enum curve_of of, int who); /* NULL: nothing was told */

/* From `from` (included) to `to` (not included), both in ps. NULL: zeros. */
struct curve_span curve_over(const struct curve *curve, uint64_t from, uint64_t to);
const char       *curve_name(enum curve_of of);         /* "memory", "reserved", "queue", "in flight" */
bool              curve_is_bytes(enum curve_of of);
#endif
