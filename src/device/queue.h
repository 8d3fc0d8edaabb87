/* The queue of a real device, as an entry of a stream finds it when its work is to be queued (stream_entry.enqueue). What
 * an entry does may take several operations: they follow each other in the stream, and its event spans all of them.
 * false: `why` has the reason, and whoever launched fails with it. */
#ifndef DEVICE_QUEUE_H
#define DEVICE_QUEUE_H
#include "device/backend.h"

struct device_queue {
    const struct device_backend *backend;
    struct backend_stream       *stream;
    int                          device;     /* of the run */
    uint64_t                     ticket;
    struct backend_why          *why;
    const char                 **by_host;    /* set where the host did it, since the device has no such kernel: whose */
};

static inline bool
queue_launch(const struct device_queue *queue, int kernel, const void *params, size_t bytes)
{
    return queue->backend->launch(queue->stream, kernel, params, bytes, queue->ticket, queue->why);
}

static inline bool
queue_copy(const struct device_queue *queue, const struct backend_copy *copy)
{
    return copy->bytes == 0 || queue->backend->copy(queue->stream, copy, queue->ticket, queue->why);
}

/* The host waits until the device has done what is in the queue. */
static inline bool
queue_finish(const struct device_queue *queue)
{
    return queue->backend->finish(queue->stream, queue->why);
}
#endif
