/* When real devices did what: the records of a back-end become begin and end on the lanes of the streams.
 *
 * At a launch nothing is written on the lane, because nobody knows yet when the device will come to it: the launch is
 * noted under a ticket, which travels with it. The back-end hands finished records out late, several of one ticket,
 * in any order between streams, and loses some; each span is written once the stream has passed it, in the order of
 * the launches, with the device's own times. A lane has a trace buffer of its own, since a buffer is sorted by time
 * and what is written here lies behind what tasks write meanwhile.
 *
 * Order of use: timeline_new, timeline_host (for the back-end's `open`), timeline_lane_new for each stream;
 * timeline_note for each launch, timeline_passed and timeline_collect where the host has waited; timeline_finish when
 * all streams are finished and still open; then they are closed, for the back-end asks for the time until then;
 * timeline_free. NULL is fine as timeline and as lane: nothing is recorded.
 *
 * In PyTorch: torch/csrc/profiler/kineto_shim.h, which leaves the same work to libkineto. */
#ifndef DEVICE_TIMELINE_H
#define DEVICE_TIMELINE_H
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include "device/backend.h"

struct sched; struct task; struct lane_event; struct timeline; struct timeline_lane;

/* Launches of a stream that wait for their times, at most. From half of it on a launch collects by itself. */
enum { TIMELINE_SPANS = 4096 };

struct timeline_counts {
    uint64_t written;   /* spans on their lanes */
    uint64_t moved;     /* of those: a time lay before the lane's last one or after now, and gave way */
    uint64_t without;   /* launches that no record told of, or that found no room to wait for one */
    uint64_t lost;      /* records that the back-end says it has dropped */
    uint64_t strange;   /* records of no launch that waits: too late, or nobody's */
};

/* NULL: no trace is written, or its time is not the wall's (`stepped`), or (then me has failed) out of memory. */
struct timeline      *timeline_new(struct task *me, const struct device_backend *backend);
/* The run's clock in ns, and whether records are wanted; valid until timeline_free. */
struct backend_host   timeline_host(struct timeline *timeline);
/* A time of that clock as events of the trace hold it. */
uint64_t              timeline_ticks(const struct timeline *timeline, uint64_t ns);
/* `lane`: the trace's. NULL: failed, unless timeline is NULL. From any thread. */
struct timeline_lane *timeline_lane_new(struct task *me, struct timeline *timeline, uint32_t lane,
                                        const struct backend_stream *stream);

/* What is launched next on that stream: its kind, args, line, iteration, flow, rank and device (phase, time and lane do
 * not count). Answers the ticket for the back-end; 0: it is not recorded, as what has no bytes to write, for devices do
 * not even begin with that. One thread at a time for each lane, in the order of the launches: under the stream's mutex,
 * which timeline_collect never takes. */
uint64_t timeline_note(struct task *me, struct timeline_lane *lane, const struct lane_event *what);
/* The last ticket so far, read before the host waits ... */
uint64_t timeline_last(const struct timeline_lane *lane);
/* ... and told when it has waited: the stream has done all up to that one. From any thread. */
void     timeline_passed(struct timeline_lane *lane, uint64_t ticket);
/* Takes what the back-end has and writes what is complete. From any thread; does not wait for the device. */
void     timeline_collect(struct timeline *timeline);

/* The last time: all streams are finished. true: `text` is one sentence about what has no times. */
bool     timeline_finish(struct timeline *timeline, char *text, size_t size);
struct timeline_counts timeline_counts(struct timeline *timeline);
/* Before the devices of the run and its trace go. */
void     timeline_free(struct timeline *timeline);
#endif
