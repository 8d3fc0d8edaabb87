/* What a quantity was over time: bytes in use per device, reserved bytes, collectives in the queue of a rank, bytes in
 * flight from a rank. Told by events alone, and grown with the trace a slice at a time, never event by event in a frame.
 *
 * Bounded: each has QUANTITY_STEPS steps at most. When they are used up two become one, of which the greatest and the
 * last value are kept: no peak is lost, but when in its stretch of time it was is not known any more.
 *
 * Order of use: quantities_new, quantities_grow until it answers false (again whenever the trace has grown), then the
 * questions, each in the time of two searches and the steps between; quantities_free. */
#ifndef ANALYSIS_QUANTITIES_H
#define ANALYSIS_QUANTITIES_H
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct trace; struct quantities;

enum quantity_of {
    QUANTITY_MEMORY,    /* bytes allocated; who: the device, -1 the host */
    QUANTITY_RESERVED,  /* bytes that a device's cache has of it; who: the device */
    QUANTITY_QUEUE,     /* collectives that were issued and have not ended; who: the rank */
    QUANTITY_FLIGHT     /* bytes of messages under way; who: the rank that sends */
};

enum { QUANTITY_STEPS = 16384 };

struct quantity_step {
    uint64_t time;           /* ps, of its first change; it lasts until the next step */
    uint64_t most, last;     /* of its values */
};

struct quantity {
    enum quantity_of      of;
    int                who;
    struct quantity_step *steps;
    size_t             count, room;
    size_t             grain, changes;  /* changes that make a step now; those in the last one */
    uint64_t           most;            /* of all of it */
    size_t             most_seq;        /* the event at which it was reached */
};

/* What a quantity was in a stretch of time. */
struct quantity_span { uint64_t first, most, last; bool changed; };

struct quantities *quantities_new(struct trace *trace);       /* NULL: no memory. Borrows the trace */
void           quantities_free(struct quantities *quantities);
/* Takes in `slice` more events at most. true: there are more; false: all are in (or there is no memory for them). */
bool           quantities_grow(struct quantities *quantities, size_t slice);
size_t         quantities_seen(const struct quantities *quantities); /* events that are in */

size_t              quantities_count(const struct quantities *quantities);
const struct quantity *quantities_at(const struct quantities *quantities, size_t index); /* sorted by of, then who */
const struct quantity *quantities_find(const struct quantities *quantities, enum quantity_of of,
                                       int who);              /* NULL: nothing was told */

/* From `from` (included) to `to` (not included), both in ps. NULL: zeros. */
struct quantity_span quantity_over(const struct quantity *quantity, uint64_t from, uint64_t to);
#endif
