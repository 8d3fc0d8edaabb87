/* Queues of GPUs, what is put into them beside kernels, and marks in them. All streams are "non-blocking": none
 * waits for CUDA's default stream, which nobody here uses. Marks take no time: timeline.c has those that do.
 *
 * Interface: cuda_stream; cuda_copy, cuda_set (cuda_launch: launch.c); cuda_mark, cuda_put, cuda_wait, cuda_is_past,
 * cuda_finish; cuda_mark_free, cuda_stream_close. In PyTorch: c10/cuda/CUDAStream.cpp, ATen/cuda/CUDAEvent.h. */
#include <stdio.h>
#include <stdlib.h>
#include "plugins/cuda/cuda.h"

static void
no_host_memory(struct backend_why *why)
{
    why->trouble = TROUBLE_MEMORY;
    snprintf(why->text, sizeof why->text, "the host has no memory for a stream's or a mark's bookkeeping");
}

/* Of `urgent` ones the GPU's free processors take blocks first. Lower numbers are more urgent. */
static cudaError_t
stream_create(cudaStream_t *stream, bool urgent)
{
    int         least = 0, most = 0;
    cudaError_t error = cudaDeviceGetStreamPriorityRange(&least, &most);
    if (error != cudaSuccess)
        return error;
    return cudaStreamCreateWithPriority(stream, cudaStreamNonBlocking, urgent ? most : least);
}

struct backend_stream *
cuda_stream(struct backend_device *device, bool urgent, struct backend_why *why)
{
    if (!cuda_enter(device, why))
        return NULL;
    struct backend_stream *stream = calloc(1, sizeof *stream);
    if (stream == NULL) {
        no_host_memory(why);
        return NULL;
    }
    stream->device = device;
    if (!cuda_done(stream_create(&stream->stream, urgent), "making a stream", why)) {
        free(stream);
        return NULL;
    }
    stream->journal = journal_new(device);
    timeline_stream(stream);
    return stream;
}

/* After a sticky error CUDA takes nothing back: the process ends, and the driver with it. */
void
cuda_stream_close(struct backend_stream *stream)
{
    struct backend_why why;
    if (stream == NULL)
        return;
    (void)cuda_finish(stream, &why);
    timeline_stream_close(stream);
    products_close(stream);
    if (cuda_enter(stream->device, &why))
        (void)cuda_done(cudaStreamDestroy(stream->stream), "closing a stream", &why);
    journal_drop(stream->journal);
    free(stream);
}

bool
cuda_finish(struct backend_stream *stream, struct backend_why *why)
{
    uint64_t upto = journal_mark(stream->journal);
    if (!cuda_enter(stream->device, why) ||
        !cuda_done(cudaStreamSynchronize(stream->stream), "waiting for a stream", why))
        return false;
    journal_reached(stream->journal, upto);
    return true;
}

/* ---- copies ---- */

static int
gpu_of(int device)
{
    return device < 0 ? -1 : device % cuda_physical_count();
}

/* Between two GPUs the driver takes the straight way if plugin.c could open it, else through the host's memory. */
static cudaError_t
copy_queue(cudaStream_t stream, const struct backend_copy *copy)
{
    static const enum cudaMemcpyKind kinds[2][2] = { { cudaMemcpyHostToHost, cudaMemcpyHostToDevice },
                                                     { cudaMemcpyDeviceToHost, cudaMemcpyDeviceToDevice } };
    int from = gpu_of(copy->from_device), to = gpu_of(copy->to_device);
    if (from >= 0 && to >= 0 && from != to)
        return cudaMemcpyPeerAsync(copy->to, to, copy->from, from, copy->bytes, stream);
    return cudaMemcpyAsync(copy->to, copy->from, copy->bytes, kinds[from >= 0][to >= 0], stream);
}

static const char *
copy_name(const struct backend_copy *copy)
{
    if (copy->from_device < 0)
        return "a copy from the host";
    return copy->to_device < 0 ? "a copy to the host" : "a copy between devices";
}

bool
cuda_copy(struct backend_stream *stream, const struct backend_copy *copy, uint64_t ticket, struct backend_why *why)
{
    if (!cuda_enter(stream->device, why))
        return false;
    if (copy->bytes == 0)
        return true;
    timeline_before(stream, ticket);
    journal_add(stream->journal, copy_name(copy), ticket);
    bool done = cuda_done(copy_queue(stream->stream, copy), "queueing a copy", why);
    timeline_after(stream, ticket);
    return done;
}

bool
cuda_set(struct backend_stream *stream, void *to, int value, size_t bytes, struct backend_why *why)
{
    if (!cuda_enter(stream->device, why))
        return false;
    if (bytes == 0)
        return true;
    journal_add(stream->journal, "setting memory", 0);
    return cuda_done(cudaMemsetAsync(to, value, bytes, stream->stream), "queueing a setting of memory", why);
}

/* ---- marks ---- */

struct backend_mark *
cuda_mark(struct backend_device *device, struct backend_why *why)
{
    if (!cuda_enter(device, why))
        return NULL;
    struct backend_mark *mark = calloc(1, sizeof *mark);
    if (mark == NULL) {
        no_host_memory(why);
        return NULL;
    }
    mark->device = device;
    if (cuda_done(cudaEventCreateWithFlags(&mark->event, cudaEventDisableTiming), "making a mark", why))
        return mark;
    free(mark);
    return NULL;
}

void
cuda_mark_free(struct backend_mark *mark)
{
    struct backend_why why;
    if (mark == NULL)
        return;
    if (cuda_enter(mark->device, &why))
        (void)cuda_done(cudaEventDestroy(mark->event), "giving back a mark", &why);
    journal_drop(mark->journal);
    free(mark);
}

/* An event belongs to one GPU, and stands in streams of that one alone. */
bool
cuda_put(struct backend_mark *mark, struct backend_stream *stream, struct backend_why *why)
{
    if (!cuda_enter(stream->device, why))
        return false;
    if (mark->device->physical != stream->device->physical) {
        why->trouble = TROUBLE_FAILED;
        snprintf(why->text, sizeof why->text, "a mark of cuda:%d (GPU %d) cannot stand in a stream of cuda:%d (GPU %d)",
                 mark->device->number, mark->device->physical, stream->device->number, stream->device->physical);
        return false;
    }
    if (!cuda_done(cudaEventRecord(mark->event, stream->stream), "putting a mark", why))
        return false;
    if (mark->journal != stream->journal) {
        journal_drop(mark->journal);
        mark->journal = journal_keep(stream->journal);
    }
    mark->upto   = journal_mark(stream->journal);
    mark->is_put = true;
    return true;
}

bool
cuda_wait(struct backend_stream *stream, struct backend_mark *mark, struct backend_why *why)
{
    if (!cuda_enter(stream->device, why))
        return false;
    return !mark->is_put || cuda_done(cudaStreamWaitEvent(stream->stream, mark->event, 0), "letting a stream wait",
                                      why);
}

int
cuda_is_past(struct backend_mark *mark, struct backend_why *why)
{
    if (!cuda_enter(mark->device, why))
        return -1;
    if (!mark->is_put)
        return 1;
    cudaError_t error = cudaEventQuery(mark->event);
    if (error == cudaErrorNotReady) {
        (void)cudaGetLastError();        /* some versions take it for an error and tell the next launch */
        return 0;
    }
    if (!cuda_done(error, "asking for a mark", why))
        return -1;
    journal_reached(mark->journal, mark->upto);
    return 1;
}
