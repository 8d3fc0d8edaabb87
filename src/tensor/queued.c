/* What ops do on a real device: the work that a virtual one does in host memory, as operations of its queue.
 *
 * A kernel that the device has not for these types is done by the host: what it reads is fetched, what it wrote is put
 * back, while the stream waits; the run says so once for each kernel.
 *
 * Interface: kernel_queue, update_queue, draw_queue, transfer_queue; all_reduce_queue. In PyTorch: ATen/native/cuda;
 * CPUFallback.cpp for what is not there. */
#include "tensor/queued.h"
#include <stdlib.h>
#include <string.h>
#include "tensor/cpu/elements.h"
#include "tensor/cpu/update.h"
#include "tensor/internal.h"

/* Memory of the device that a call names, without gaps, and the host's copy of it. */
struct span { char *begin, *end, *copy; bool written; };
enum { SPANS = CALL_INPUTS + 1 };
struct spans { struct span at[SPANS]; int count; };

static struct span
span_of(const struct cpu_view *view)
{
    int64_t element = (int64_t)dtype_size(view->dtype), last = 0;
    for (int d = 0; d < view->dims; d++) {
        if (view->size[d] == 0)
            return (struct span){ 0 };
        last += (view->size[d] - 1) * view->stride[d];
    }
    return (struct span){ view->data, (char *)view->data + (last + 1) * element, NULL, false };
}

/* Spans that overlap become one, so that an operand which is the result, too, is copied once. */
static void
spans_add(struct spans *spans, struct span span)
{
    for (int i = 0; i < spans->count;) {
        struct span *other = &spans->at[i];
        if (other->end <= span.begin || span.end <= other->begin) {
            i++;
            continue;
        }
        span.begin   = other->begin < span.begin ? other->begin : span.begin;
        span.end     = other->end > span.end ? other->end : span.end;
        span.written = span.written || other->written;
        *other       = spans->at[--spans->count];
        i            = 0;
    }
    if (span.begin < span.end)
        spans->at[spans->count++] = span;
}

static bool
spans_copy(const struct device_queue *queue, struct spans *spans, bool back)
{
    for (int i = 0; i < spans->count; i++) {
        struct span        *span = &spans->at[i];
        struct backend_copy copy = { span->copy, span->begin, (size_t)(span->end - span->begin), -1, queue->device };
        if (back)
            copy = (struct backend_copy){ span->begin, span->copy, copy.bytes, queue->device, -1 };
        if ((!back || span->written) && !queue_copy(queue, &copy))
            return false;
    }
    return queue_finish(queue);
}

static bool
spans_room(const struct device_queue *queue, struct spans *spans)
{
    bool ok = true;
    for (int i = 0; i < spans->count; i++) {
        spans->at[i].copy = malloc((size_t)(spans->at[i].end - spans->at[i].begin));
        ok = ok && spans->at[i].copy != NULL;
    }
    if (!ok)
        *queue->why = (struct backend_why){ TROUBLE_MEMORY, "out of memory for what the host does for a device" };
    return ok;
}

/* Where the host finds what lies at `data` on the device. */
static void *
span_copy(const struct spans *spans, void *data)
{
    for (int i = 0; i < spans->count; i++) {
        const struct span *span = &spans->at[i];
        if ((char *)data >= span->begin && (char *)data < span->end)
            return span->copy + ((char *)data - span->begin);
    }
    return data;
}

static void
run_on_copies(const struct kernel_job *job, const struct spans *spans, void *workspace)
{
    struct cpu_call call = job->call;
    for (int i = 0; i < call.inputs; i++)
        call.in[i].data = call.in[i].data != NULL ? span_copy(spans, call.in[i].data) : &call.constant[i];
    call.out.data  = span_copy(spans, call.out.data);
    call.workspace = workspace;
    cpu_kernel_of(job->kernel)(&call);
}

static bool
done_by_host(const struct device_queue *queue, const struct kernel_job *job)
{
    struct spans spans     = { .count = 0 };
    void        *workspace = malloc(job->workspace > 0 ? job->workspace : 1);
    for (int i = 0; i < job->call.inputs; i++)
        if (job->call.in[i].data != NULL)
            spans_add(&spans, span_of(&job->call.in[i]));
    struct span out = span_of(&job->call.out);
    out.written = true;
    spans_add(&spans, out);
    bool ok = spans_room(queue, &spans) && workspace != NULL && spans_copy(queue, &spans, false);
    if (ok)
        run_on_copies(job, &spans, workspace);
    ok = ok && spans_copy(queue, &spans, true);
    for (int i = 0; i < spans.count; i++)
        free(spans.at[i].copy);
    free(workspace);
    *queue->by_host = kernel_name(job->kernel);
    return ok;
}

bool
kernel_queue(const struct device_queue *queue, void *context)
{
    const struct kernel_job *job = context;
    if (!queue->backend->has((int)job->kernel, &job->call))
        return done_by_host(queue, job);
    return queue_launch(queue, (int)job->kernel, &job->call, sizeof job->call);
}

bool
update_queue(const struct device_queue *queue, void *context)
{
    return queue_launch(queue, KERNEL_update, context, sizeof(struct update_job));
}

bool
draw_queue(const struct device_queue *queue, void *context)
{
    return queue_launch(queue, KERNEL_draw, context, sizeof(struct draw_job));
}

bool
all_reduce_queue(const struct device_queue *queue, void *context)
{
    return queue_launch(queue, KERNEL_all_reduce, context, sizeof(struct all_reduce_job));
}

bool
transfer_queue(const struct device_queue *queue, void *context)
{
    const struct copy_job *job  = context;
    struct cpu_call        call = job->call;
    struct backend_copy    copy = { call.out.data, call.in[0].data, job->bytes, job->to_device, job->from_device };
    switch (job->way) {
    case COPY_PLAIN: return queue_copy(queue, &copy);
    case COPY_BY_KERNEL: return queue_launch(queue, KERNEL_cpu_copy, &call, sizeof call);
    case COPY_OF_SPAN:
        copy.to   = job->room;
        copy.from = job->span;
        call.in[0].data = (char *)job->room + ((char *)call.in[0].data - (char *)job->span);
        return queue_copy(queue, &copy) && queue_launch(queue, KERNEL_cpu_copy, &call, sizeof call);
    }
    return true;
}
