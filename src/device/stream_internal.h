/* What the files that move streams share: stream.c (queues, and how a virtual device works through them), current.c
 * (which stream a task's work goes to), real_stream.c (a real device behind the same streams). */
#ifndef DEVICE_STREAM_INTERNAL_H
#define DEVICE_STREAM_INTERNAL_H
#include "base/fault.h"
#include "device/backend.h"
#include "device/internal.h"
#include "trace/format.h"

struct queued {
    struct queued      *next;
    struct stream      *after;      /* a wait: until that stream has done `sequence` entries. NULL: work */
    uint64_t            sequence;
    uint64_t            launched;   /* ps */
    struct stream_entry entry;
    uint32_t            line, iteration;
    uint16_t            stage;
    int                 rank;
    const char         *by_host;    /* the kernel that a real device has not */
    _Alignas(16) unsigned char context[STREAM_CONTEXT];
};

struct stream {
    struct sched_source source;     /* first: the scheduler hands it back */
    struct devices     *devices;
    int                 device, number;
    uint32_t            lane;
    char                name[48];
    struct actor        actor;
    pthread_mutex_t     mutex;      /* `free` */
    struct kernel_fault own_fault, *fault; /* fault: where its kernels tell; of a real device memory that both see */
    struct backend_stream *real;    /* NULL: a virtual device's */
    struct timeline_lane *timeline; /* when the real one did what; NULL: nobody asks */
    struct real_marks  *marks;      /* real_stream.c's: how far the real one has come (`free`) */
    struct queued      *head, *tail;
    bool                running;    /* the head has begun */
    uint64_t            ready;      /* when the last entry ended */
    struct stream_progress progress; /* entries, waits included */
    struct stream      *blocked;    /* streams whose heads wait for this one */
    struct stream      *next_blocked;
    bool                is_blocked;
};

struct event {
    struct stream *stream;          /* NULL: never recorded */
    struct backend_mark *mark;      /* of a real stream, in `free`; NULL: none yet */
    int            mark_device;
    uint64_t       sequence;        /* entries that must be done */
    uint32_t       number;
    struct vclock  knows;
};


/* What the trace is told of an entry; its kind is missing. */
static inline struct lane_event
event_of(const struct stream *stream, const struct queued *queued, int phase, uint64_t time)
{
    struct lane_event event = {
        .phase = phase, .time = time, .lane = stream->lane, .line = queued->line,
        .iteration = queued->iteration, .rank = queued->rank, .device = stream->device,
    };
    memcpy(event.args, queued->entry.args, sizeof event.args);
    return event;
}

/* ---- real_stream.c: streams of real devices; each function fails with the back-end's words ---- */
bool real_stream_open(struct task *me, struct stream *stream);
void real_stream_close(struct stream *stream);
/* `free`: the entry is queued on the real stream; in the stream's mutex, which it takes. */
bool real_launch(struct task *me, struct stream *stream, struct queued *queued);
/* `stepped`: at the moment when its time has come; waits until the device has done it, so that whoever looks sees it. */
bool real_run(struct stream *stream, struct queued *queued, struct backend_why *why);
bool real_record(struct task *me, struct stream *stream, struct event *event);
bool real_wait(struct task *me, struct stream *stream, const struct event *event);
bool real_finish(struct task *me, struct stream *stream);               /* the host waits for all that is in it */
bool real_await(struct task *me, const struct event *event);            /* the host waits */
bool real_is_past(struct task *me, const struct event *event);
void real_mark_free(struct devices *devices, struct event *event);
#endif
