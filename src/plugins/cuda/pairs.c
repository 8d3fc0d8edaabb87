/* Times without CUPTI: an event before each operation and one after it. They tell how long the GPU took from one to the
 * other; when that was, an anchor tells: an event on a stream of its own whose moment the run's clock knows, as the
 * tightest of several readings around it. Half a microsecond fine, and dearer than CUPTI: two events an operation.
 *
 * Anchors grow old: elapsed times are floats of milliseconds, and two clocks drift apart. So a GPU gets a new one every
 * tenth of a second; pairs keep the one that was new when they were queued.
 *
 * Interface: timeline_pairs. In PyTorch: torch/csrc/profiler/stubs/cuda.cpp, the profiler without Kineto. */
#include "plugins/cuda/timeline.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { PAIRS = 4096, ANCHORS = 8, BRACKETS = 5, ANCHOR_NS = 100000000 };

struct anchor { cudaEvent_t event; uint64_t ns; uint32_t users; };
struct pair { uint64_t ticket; cudaEvent_t begin, end; struct anchor *anchor; };

/* A ring that begins anew whenever it is empty, so that it has as many events as were ever needed at a time. */
struct pairs {
    struct pair ring[PAIRS];
    uint32_t    head, tail, made;       /* made: this many of the ring have their events */
    bool        is_begun;               /* between before and after */
};

/* Of a GPU, whoever uses it: one clock, one context of the process. */
struct gpu {
    cudaStream_t  stream;
    cudaEvent_t   spare;
    struct anchor anchors[ANCHORS], *newest;
    uint32_t      streams;
};
static struct { pthread_mutex_t mutex; struct gpu gpus[PROBE_DEVICES]; } all = { .mutex = PTHREAD_MUTEX_INITIALIZER };

/* ---- anchors; all under the mutex, on the GPU of the calling thread ---- */

/* How long the run's clock went on around the event; UINT64_MAX: it failed. */
static uint64_t
bracket(const struct gpu *gpu, cudaEvent_t event, uint64_t *middle)
{
    uint64_t before = timeline_now();
    if (cudaEventRecord(event, gpu->stream) != cudaSuccess || cudaEventSynchronize(event) != cudaSuccess)
        return UINT64_MAX;
    uint64_t after = timeline_now();
    *middle = before + (after - before) / 2;
    return after - before;
}

static bool
anchor_set(struct gpu *gpu, struct anchor *anchor)
{
    uint64_t best = UINT64_MAX;
    for (int i = 0; i < BRACKETS; i++) {
        uint64_t middle = 0, width = bracket(gpu, gpu->spare, &middle);
        if (width >= best)
            continue;
        cudaEvent_t tighter = gpu->spare;
        gpu->spare    = anchor->event;
        anchor->event = tighter;
        anchor->ns    = middle;
        best          = width;
    }
    return best != UINT64_MAX;
}

/* An old one that pairs still wait for stays; then the newest has to do for a while longer. */
static struct anchor *
anchor_take(struct gpu *gpu)
{
    struct anchor *next = &gpu->anchors[(gpu->newest - gpu->anchors + 1) % ANCHORS];
    if (timeline_now() - gpu->newest->ns > ANCHOR_NS && next->users == 0 && anchor_set(gpu, next))
        gpu->newest = next;
    gpu->newest->users++;
    return gpu->newest;
}

static void
gpu_close(struct gpu *gpu)
{
    for (int i = 0; i < ANCHORS; i++) {
        if (gpu->anchors[i].event != NULL)
            (void)cudaEventDestroy(gpu->anchors[i].event);
    }
    if (gpu->spare != NULL)
        (void)cudaEventDestroy(gpu->spare);
    if (gpu->stream != NULL)
        (void)cudaStreamDestroy(gpu->stream);
    *gpu = (struct gpu){ 0 };
}

static bool
gpu_open(struct gpu *gpu)
{
    bool made = cudaStreamCreateWithPriority(&gpu->stream, cudaStreamNonBlocking, 0) == cudaSuccess &&
                cudaEventCreateWithFlags(&gpu->spare, cudaEventDefault) == cudaSuccess;
    for (int i = 0; i < ANCHORS && made; i++)
        made = cudaEventCreateWithFlags(&gpu->anchors[i].event, cudaEventDefault) == cudaSuccess;
    gpu->newest = &gpu->anchors[0];
    made = made && anchor_set(gpu, gpu->newest);
    if (!made)
        gpu_close(gpu);
    return made;
}

static struct gpu *
gpu_of(const struct timed *timed)
{
    return &all.gpus[timed->stream->device->physical % PROBE_DEVICES];
}

/* ---- streams ---- */

static bool
pairs_open(char *why, size_t size)
{
    (void)why;
    (void)size;
    return true;
}

static void
pairs_close(void)
{
}

static bool
pairs_stream(struct timed *timed)
{
    struct gpu *gpu = gpu_of(timed);
    timed->pairs = calloc(1, sizeof *timed->pairs);
    if (timed->pairs == NULL)
        return false;
    pthread_mutex_lock(&all.mutex);
    bool is_open = gpu->streams > 0 || gpu_open(gpu);
    gpu->streams += is_open;
    pthread_mutex_unlock(&all.mutex);
    if (!is_open) {
        (void)cudaGetLastError();
        free(timed->pairs);
        timed->pairs = NULL;
    }
    return is_open;
}

static void
pairs_stream_close(struct timed *timed)
{
    struct pairs      *pairs = timed->pairs;
    struct backend_why why;
    (void)cuda_enter(timed->stream->device, &why);
    for (uint32_t i = 0; i < pairs->made; i++) {
        (void)cudaEventDestroy(pairs->ring[i].begin);
        (void)cudaEventDestroy(pairs->ring[i].end);
    }
    pthread_mutex_lock(&all.mutex);
    for (uint32_t at = pairs->head; at != pairs->tail; at++)
        pairs->ring[at % PAIRS].anchor->users--;
    struct gpu *gpu = gpu_of(timed);
    if (--gpu->streams == 0)
        gpu_close(gpu);
    pthread_mutex_unlock(&all.mutex);
    free(pairs);
    timed->pairs = NULL;
}

/* ---- pairs; under the stream's mutex ---- */

static struct anchor *
anchor_of(const struct timed *timed)
{
    pthread_mutex_lock(&all.mutex);
    struct anchor *anchor = anchor_take(gpu_of(timed));
    pthread_mutex_unlock(&all.mutex);
    return anchor;
}

static void
anchor_drop(struct anchor *anchor)
{
    pthread_mutex_lock(&all.mutex);
    anchor->users--;
    pthread_mutex_unlock(&all.mutex);
}

static uint64_t
ns_of(float ms)
{
    return ms > 0 ? (uint64_t)((double)ms * 1e6 + 0.5) : 0;
}

/* The end is past, so the begin is. */
static void
pair_told(struct timed *timed, const struct pair *pair)
{
    float since = 0, lasted = 0;
    if (cudaEventElapsedTime(&since, pair->anchor->event, pair->begin) != cudaSuccess ||
        cudaEventElapsedTime(&lasted, pair->begin, pair->end) != cudaSuccess) {
        (void)cudaGetLastError();
        timeline_lost(1);
        return;
    }
    struct backend_record record = { .ticket = pair->ticket, .stream = timed->stream };
    record.begin = pair->anchor->ns + ns_of(since);
    record.end   = record.begin + ns_of(lasted);
    timeline_add(timed, &record);
}

static void
pairs_poll(struct timed *timed)
{
    struct pairs *pairs = timed->pairs;
    for (; pairs->head != pairs->tail; pairs->head++) {
        struct pair *pair  = &pairs->ring[pairs->head % PAIRS];
        cudaError_t  error = cudaEventQuery(pair->end);
        if (error == cudaErrorNotReady) {
            (void)cudaGetLastError();
            return;
        }
        if (error == cudaSuccess)
            pair_told(timed, pair);
        else
            timeline_lost(1);
        anchor_drop(pair->anchor);
    }
    if (!pairs->is_begun)
        pairs->head = pairs->tail = 0;
}

/* The next one of the ring, with its events. NULL: the GPU is that far behind, or has no more events. */
static struct pair *
pair_next(struct timed *timed)
{
    struct pairs *pairs = timed->pairs;
    if (pairs->tail - pairs->head == PAIRS || pairs->tail >= pairs->made)
        pairs_poll(timed);
    if (pairs->tail - pairs->head == PAIRS)
        return NULL;
    uint32_t     place = pairs->tail % PAIRS;
    struct pair *pair  = &pairs->ring[place];
    if (place < pairs->made)
        return pair;
    if (cudaEventCreateWithFlags(&pair->begin, cudaEventDefault) != cudaSuccess)
        return NULL;
    if (cudaEventCreateWithFlags(&pair->end, cudaEventDefault) != cudaSuccess) {
        (void)cudaEventDestroy(pair->begin);
        return NULL;
    }
    pairs->made = place + 1;
    return pair;
}

/* The anchor first: an event must not lie before it. */
static void
pairs_before(struct timed *timed, uint64_t ticket)
{
    if (ticket == 0)
        return;
    pthread_mutex_lock(&timed->mutex);
    struct pairs *pairs = timed->pairs;
    struct pair  *pair  = pair_next(timed);
    if (pair != NULL) {
        pair->ticket = ticket;
        pair->anchor = anchor_of(timed);
        pairs->is_begun = cudaEventRecord(pair->begin, timed->stream->stream) == cudaSuccess;
        if (!pairs->is_begun)
            anchor_drop(pair->anchor);
    }
    if (!pairs->is_begun) {
        (void)cudaGetLastError();
        timeline_lost(1);
    }
    pthread_mutex_unlock(&timed->mutex);
}

/* Whatever became of what was to be queued: the pair is whole again. */
static void
pairs_after(struct timed *timed, uint64_t ticket)
{
    if (ticket == 0)
        return;
    pthread_mutex_lock(&timed->mutex);
    struct pairs *pairs = timed->pairs;
    struct pair  *pair  = &pairs->ring[pairs->tail % PAIRS];
    if (pairs->is_begun && cudaEventRecord(pair->end, timed->stream->stream) == cudaSuccess) {
        pairs->tail++;
    } else if (pairs->is_begun) {
        (void)cudaGetLastError();
        timeline_lost(1);
        anchor_drop(pair->anchor);
    }
    pairs->is_begun = false;
    pthread_mutex_unlock(&timed->mutex);
}

static void
pairs_flush(bool forced)
{
    (void)forced; /* each stream is asked by itself */
}

static bool
pairs_describe(char *text, size_t size)
{
    snprintf(text, size, "pairs of events around each operation");
    return true;
}

const struct timeline_source timeline_pairs = {
    .name = "pairs", .open = pairs_open, .close = pairs_close, .stream = pairs_stream,
    .stream_close = pairs_stream_close,
    .before = pairs_before, .after = pairs_after, .flush = pairs_flush, .poll = pairs_poll, .describe = pairs_describe,
};
