/* What NCCL tells of itself, on lanes of its own: collectives with NCCL's algorithm and protocol, the kernel's work
 * on each channel, each message over the network as a hop. Records come late and in the order of their ends
 * (nccl_table.h), so they are gathered, and written in the order of time into a trace buffer of their own.
 *
 * Order of use: nccl_events_new before the first communicator, nccl_events_group for each of a rank,
 * nccl_events_collect now and then, nccl_events_free. NULL is fine as events: nobody asked for a trace. */
#ifndef C10D_NCCL_EVENTS_H
#define C10D_NCCL_EVENTS_H
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include "c10d/nccl_table.h"

struct nccl_events; struct task; struct timeline;

/* Of a communicator: what its records are told with. */
struct nccl_events_group {
    int        number, size;       /* the group's number; its members */
    const int *ranks;              /* of the world, copied */
    int        device;             /* this rank's */
};

/* NULL: nothing will be told, and the run is warned if somebody wanted it. */
struct nccl_events *nccl_events_new(struct task *me, const struct nccl_table *table, struct timeline *timeline);
/* Answers the number that records will carry (struct nccl_member); without events the group's. */
int  nccl_events_group(struct nccl_events *events, const struct nccl_events_group *group);
void nccl_events_collect(struct task *me, struct nccl_events *events);
/* Collects, and holds nothing back: what comes later, of a time before, is told as of now. */
void nccl_events_tell(struct nccl_events *events);
void nccl_events_free(struct task *me, struct nccl_events *events);    /* writes what is left */
/* All members of that number have joined, this rank as the first: NCCL has written what it found. */
void nccl_events_joined(struct task *me, struct nccl_events *events, int number);

/* ---- nccl_rings.c: NCCL's dump of its graphs ---- */

/* The GPUs of channel `channel` of the first graph that is a ring, in their order, as NCCL numbers them; answers how
 * many, at most `most`. 0: there is no such channel, or the text is none of NCCL's. */
int nccl_rings_read(const char *text, size_t length, int channel, int *gpus, int most);
#endif
