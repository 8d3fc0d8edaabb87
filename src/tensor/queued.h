/* What travels in the entries of streams, and how a real device does it (stream_entry.enqueue). */
#ifndef TENSOR_QUEUED_H
#define TENSOR_QUEUED_H
#include "device/queue.h"
#include "tensor/cpu/kernels.h"

struct kernel_job { enum kernel kernel; size_t workspace; struct cpu_call call; };

/* How elements get from one memory to another on real devices; virtual ones have one memory.
 *     COPY_PLAIN       one piece of one type on both sides: bytes
 *     COPY_BY_KERNEL   a kernel of the device sees both: its own memory, another's on the same GPU, or pinned host memory
 *     COPY_OF_SPAN     from another GPU: the bytes between its first and last element, then a kernel */
enum copy_way { COPY_PLAIN, COPY_BY_KERNEL, COPY_OF_SPAN };
struct copy_job {
    struct cpu_call call;                 /* out and in[0] */
    enum copy_way   way;
    int             to_device, from_device;
    size_t          bytes;                /* PLAIN: all; OF_SPAN: of the span */
    void           *span, *room;          /* OF_SPAN: where it begins, and where it goes */
};

/* Contexts: a struct kernel_job, update_job (cpu/update.h), draw_job (cpu/draw.h), copy_job. */
bool kernel_queue(const struct device_queue *queue, void *context);
bool update_queue(const struct device_queue *queue, void *context);
bool draw_queue(const struct device_queue *queue, void *context);
bool transfer_queue(const struct device_queue *queue, void *context);
#endif
