/* Times from CUPTI: the driver writes a record of each kernel, copy and setting of memory, with the GPU's own begin and
 * end in the run's clock, into buffers that come back here when they are full or somebody flushes.
 *
 * Whose record it is: around each operation its ticket and its stream's number are pushed as an "external correlation
 * id". CUPTI writes that beside the record of the call that queued it (so calls that queue work are recorded, and no
 * others), and call and kernel bear the same correlation id: two small records are joined over it. The kernel's may
 * come first; then it waits in a ring. What was queued outside of any ticket (a library's own) never finds one.
 *
 * Buffers are of the process and in the order of writing, not one set a thread: who joins needs little memory then.
 *
 * Interface: timeline_cupti. In PyTorch: libkineto's CuptiActivityApi. */
#include "plugins/cuda/cupti.h"
#include "plugins/cuda/timeline.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#ifdef HAVE_CUPTI

/* The structs of this header, newest first; all fields that are used here lie at the same place in later ones. */
#if CUPTI_API_VERSION >= 130000
typedef CUpti_ActivityKernel10   kernel_record;
typedef CUpti_ActivityMemcpy6    copy_record;
typedef CUpti_ActivityMemcpyPtoP4 peer_record;
typedef CUpti_ActivityMemset4    set_record;
#else
typedef CUpti_ActivityKernel8    kernel_record;     /* 11.8 and 12 */
typedef CUpti_ActivityMemcpy5    copy_record;
typedef CUpti_ActivityMemcpyPtoP4 peer_record;
typedef CUpti_ActivityMemset4    set_record;
#endif

enum {
    BUFFERS = 16, BUFFER_BYTES = 2 << 20,   /* 8: what CUPTI wants them aligned to */
    NUMBER_BITS = 12,                       /* of an external id; the ticket is above */
    SETS = 8192, WAYS = 4,                  /* of correlation ids whose work may not have ended */
    PENDING = 4096, PATIENCE = 8,           /* records that wait for their ticket, for so many buffers */
    PER_THREAD_BUFFERS = 9                  /* an attribute that older headers have no name for */
};
_Static_assert(1 << NUMBER_BITS >= TIMED_STREAMS, "a stream's number fits");
#if CUPTI_API_VERSION >= 130000
_Static_assert((int)PER_THREAD_BUFFERS == (int)CUPTI_ACTIVITY_ATTR_PER_THREAD_ACTIVITY_BUFFER, "as the header has it");
#endif

struct link { uint32_t correlation; uint64_t external; };
struct link_set { struct link ways[WAYS]; uint32_t oldest; };
struct activity { uint32_t correlation, grid, block; uint64_t begin, end, buffer; };

/* CUPTI is the process's; its callbacks know nobody. */
static struct {
    pthread_mutex_t    mutex;               /* guards buffers and joins; not held while CUPTI is called for anything but
                                               the walk through a buffer, which is ours then */
    struct cupti_table table;
    bool               is_loaded, is_set_up;
    char               why_not[200];        /* it could not be loaded: asked once */
    uint8_t           *buffers[BUFFERS];
    bool               is_out[BUFFERS];
    uint64_t           completed;           /* buffers */
    struct link_set   *links;
    struct activity    pending[PENDING];
    uint32_t           pending_count;
} cupti = { .mutex = PTHREAD_MUTEX_INITIALIZER };

static const CUpti_ActivityKind kinds[] = {
    CUPTI_ACTIVITY_KIND_EXTERNAL_CORRELATION, CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL, CUPTI_ACTIVITY_KIND_MEMCPY,
    CUPTI_ACTIVITY_KIND_MEMCPY2, CUPTI_ACTIVITY_KIND_MEMSET,
};
enum { KINDS = sizeof kinds / sizeof kinds[0] };

/* Calls that queue work, ours and those of cuBLAS. Others are not recorded: each costs a microsecond. */
static const CUpti_CallbackId runtime_calls[] = {
    CUPTI_RUNTIME_TRACE_CBID_cudaLaunchKernel_v7000,   CUPTI_RUNTIME_TRACE_CBID_cudaLaunchKernelExC_v11060,
    CUPTI_RUNTIME_TRACE_CBID_cudaMemcpyAsync_v3020,    CUPTI_RUNTIME_TRACE_CBID_cudaMemcpyPeerAsync_v4000,
    CUPTI_RUNTIME_TRACE_CBID_cudaMemsetAsync_v3020,
#if CUPTI_API_VERSION >= 130000
    CUPTI_RUNTIME_TRACE_CBID___cudaLaunchKernel_v13000,
#endif
};
static const CUpti_CallbackId driver_calls[] = { CUPTI_DRIVER_TRACE_CBID_cuLaunchKernel,
                                                 CUPTI_DRIVER_TRACE_CBID_cuLaunchKernelEx };

/* ---- joining ---- */

static struct link_set *
links_of(uint32_t correlation)
{
    return &cupti.links[(correlation * 2654435761u) >> 19];     /* 2^32 / 2^19: SETS */
}
_Static_assert(SETS == 1 << (32 - 19), "links_of");

static void
link_add(uint32_t correlation, uint64_t external)
{
    struct link_set *set = links_of(correlation);
    for (int i = 0; i < WAYS; i++) { /* a driver's call inside of a runtime's says the same again */
        if (set->ways[i].correlation == correlation) {
            set->ways[i].external = external;
            return;
        }
    }
    set->ways[set->oldest] = (struct link){ correlation, external };
    set->oldest = (set->oldest + 1) % WAYS;
}

/* It stays: a call may queue several. */
static const struct link *
link_of(uint32_t correlation)
{
    const struct link_set *set = links_of(correlation);
    for (int i = 0; i < WAYS; i++) {
        if (set->ways[i].correlation == correlation)
            return &set->ways[i];
    }
    return NULL;
}

/* false: its ticket is not known yet. */
static bool
activity_told(const struct activity *activity)
{
    const struct link *link = link_of(activity->correlation);
    if (link == NULL)
        return false;
    struct backend_record record = { .ticket = link->external >> NUMBER_BITS, .begin = activity->begin,
                                     .end = activity->end, .grid = activity->grid, .block = activity->block };
    uint32_t number = (uint32_t)(link->external & ((1u << NUMBER_BITS) - 1));
    if (record.ticket != 0)
        timeline_add_to(number, &record);
    return true;
}

/* Without both times it is as good as lost. */
static void
activity_take(const struct activity *activity)
{
    if (activity->begin == 0 || activity->end == 0) {
        timeline_lost(1);
        return;
    }
    if (activity_told(activity))
        return;
    if (cupti.pending_count == PENDING) {
        cupti.pending_count--;
        memmove(cupti.pending, cupti.pending + 1, cupti.pending_count * sizeof cupti.pending[0]);
    }
    cupti.pending[cupti.pending_count] = *activity;
    cupti.pending[cupti.pending_count++].buffer = cupti.completed;
}

static void
pending_told(void)
{
    uint32_t kept = 0;
    for (uint32_t i = 0; i < cupti.pending_count; i++) {
        const struct activity *activity = &cupti.pending[i];
        if (!activity_told(activity) && cupti.completed - activity->buffer < PATIENCE)
            cupti.pending[kept++] = *activity;
    }
    cupti.pending_count = kept;
}

/* ---- records ---- */

static uint32_t
product(int32_t x, int32_t y, int32_t z)
{
    return (uint32_t)x * (uint32_t)y * (uint32_t)z;
}

/* How much of a record is read here; 0: it is of no use. */
static size_t
bytes_read(CUpti_ActivityKind kind)
{
    switch (kind) {
    case CUPTI_ACTIVITY_KIND_KERNEL:
    case CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL:
        return offsetof(kernel_record, correlationId) + sizeof(uint32_t);
    case CUPTI_ACTIVITY_KIND_MEMCPY:
        return offsetof(copy_record, correlationId) + sizeof(uint32_t);
    case CUPTI_ACTIVITY_KIND_MEMCPY2:
        return offsetof(peer_record, correlationId) + sizeof(uint32_t);
    case CUPTI_ACTIVITY_KIND_MEMSET:
        return offsetof(set_record, correlationId) + sizeof(uint32_t);
    case CUPTI_ACTIVITY_KIND_EXTERNAL_CORRELATION:
        return offsetof(CUpti_ActivityExternalCorrelation, correlationId) + sizeof(uint32_t);
    default:
        return 0;
    }
}

static void
kernel_take(const kernel_record *kernel)
{
    activity_take(&(struct activity){ .correlation = kernel->correlationId, .begin = kernel->start, .end = kernel->end,
                                      .grid = product(kernel->gridX, kernel->gridY, kernel->gridZ),
                                      .block = product(kernel->blockX, kernel->blockY, kernel->blockZ) });
}

static void
transfer_take(uint32_t correlation, uint64_t begin, uint64_t end)
{
    activity_take(&(struct activity){ .correlation = correlation, .begin = begin, .end = end });
}

static void
external_take(const CUpti_ActivityExternalCorrelation *external)
{
    if (external->externalKind == CUPTI_EXTERNAL_CORRELATION_KIND_CUSTOM0)
        link_add(external->correlationId, external->externalId);
}

static void
record_take(const CUpti_Activity *record)
{
    const void *bytes = record;
    const copy_record *copy = bytes;
    const peer_record *peer = bytes;
    const set_record  *set  = bytes;
    switch (record->kind) {
    case CUPTI_ACTIVITY_KIND_KERNEL:
    case CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL:
        kernel_take(bytes);
        break;
    case CUPTI_ACTIVITY_KIND_MEMCPY:
        transfer_take(copy->correlationId, copy->start, copy->end);
        break;
    case CUPTI_ACTIVITY_KIND_MEMCPY2:
        transfer_take(peer->correlationId, peer->start, peer->end);
        break;
    case CUPTI_ACTIVITY_KIND_MEMSET:
        transfer_take(set->correlationId, set->start, set->end);
        break;
    case CUPTI_ACTIVITY_KIND_EXTERNAL_CORRELATION:
        external_take(bytes);
        break;
    default:
        break;
    }
}

/* A record ends where the next one begins: one that is shorter than what is read of it is not of these structs. */
static void
record_check(const CUpti_Activity *record, const uint8_t *end)
{
    size_t bytes = (size_t)(end - (const uint8_t *)record), wanted = bytes_read(record->kind);
    if (wanted > bytes)
        timeline_lost(1);
    else if (wanted > 0)
        record_take(record);
}

static void
buffer_walk(uint8_t *buffer, size_t bytes)
{
    CUpti_Activity *record = NULL, *last = NULL;
    while (cupti.table.next(buffer, bytes, &record) == CUPTI_SUCCESS) {
        if (last != NULL)
            record_check(last, (const uint8_t *)record);
        last = record;
    }
    if (last != NULL)
        record_check(last, buffer + bytes);
}

/* ---- what CUPTI calls, from any thread ---- */

/* CUPTI is told that they are zeroed: it would do so in the thread that launches. None left: it drops, and counts. */
static void CUPTIAPI
buffer_wanted(uint8_t **buffer, size_t *size, size_t *most)
{
    *buffer = NULL;
    *size   = BUFFER_BYTES;
    *most   = 0;
    pthread_mutex_lock(&cupti.mutex);
    for (int i = 0; i < BUFFERS && *buffer == NULL; i++) {
        if (cupti.is_out[i])
            continue;
        if (cupti.buffers[i] == NULL)
            cupti.buffers[i] = calloc(1, BUFFER_BYTES);
        if (cupti.buffers[i] == NULL)
            break;
        cupti.is_out[i] = true;
        *buffer = cupti.buffers[i];
    }
    pthread_mutex_unlock(&cupti.mutex);
}

static void CUPTIAPI
buffer_done(CUcontext context, uint32_t stream, uint8_t *buffer, size_t size, size_t valid)
{
    size_t dropped = 0;
    (void)size;
    pthread_mutex_lock(&cupti.mutex);
    cupti.completed++;
    if (buffer != NULL && valid > 0) {
        buffer_walk(buffer, valid);
        pending_told();
        memset(buffer, 0, valid);
    }
    for (int i = 0; i < BUFFERS; i++) {
        if (cupti.buffers[i] == buffer)
            cupti.is_out[i] = false;
    }
    pthread_mutex_unlock(&cupti.mutex);
    if (cupti.table.dropped(context, stream, &dropped) == CUPTI_SUCCESS && dropped > 0)
        timeline_lost(dropped);
}

static uint64_t CUPTIAPI
clock_wanted(void)
{
    return timeline_now();
}

/* ---- on and off ---- */

static bool
cupti_load(char *why, size_t size)
{
    if (!cupti.is_loaded && cupti.why_not[0] == '\0')
        cupti.is_loaded = cupti_table_open(&cupti.table, cupti.why_not, sizeof cupti.why_not);
    if (!cupti.is_loaded)
        snprintf(why, size, "%s", cupti.why_not);
    return cupti.is_loaded;
}

/* What its number means for who runs this, in one phrase. false. */
static bool
cupti_refuses(CUptiResult result, char *why, size_t size)
{
    const char *text = NULL;
    if (result == CUPTI_ERROR_MULTIPLE_SUBSCRIBERS_NOT_SUPPORTED)
        snprintf(why, size, "CUPTI serves another profiler already, as under nsys or ncu");
    else if (result == CUPTI_ERROR_INSUFFICIENT_PRIVILEGES)
        snprintf(why, size, "CUPTI may not: the driver keeps profiling for administrators");
    else if (result == CUPTI_ERROR_UNKNOWN)
        snprintf(why, size, "CUPTI answers 999, as it does where there is no driver");
    else if (cupti.table.text(result, &text) == CUPTI_SUCCESS && text != NULL)
        snprintf(why, size, "CUPTI answers %d, %s", (int)result, text);
    else
        snprintf(why, size, "CUPTI answers %d", (int)result);
    return false;
}

/* Once a process, and before anything is enabled: records would be in another clock. */
static CUptiResult
set_up(void)
{
    uint8_t yes = 1, no = 0;
    size_t  bytes = sizeof yes;
    (void)cupti.table.set_attribute(CUPTI_ACTIVITY_ATTR_ZEROED_OUT_ACTIVITY_BUFFER, &bytes, &yes);
    (void)cupti.table.set_attribute((CUpti_ActivityAttribute)PER_THREAD_BUFFERS, &bytes, &no);
    CUptiResult result = cupti.table.clock(clock_wanted);
    if (result == CUPTI_SUCCESS)
        result = cupti.table.buffers(buffer_wanted, buffer_done);
    cupti.is_set_up = result == CUPTI_SUCCESS;
    return result;
}

/* The single calls; where CUPTI does not let one choose, all of them. */
static CUptiResult
calls_enable(bool on)
{
    bool        chooses = cupti.table.enable_runtime != NULL && cupti.table.enable_driver != NULL;
    CUptiResult result = chooses ? CUPTI_SUCCESS : CUPTI_ERROR_NOT_SUPPORTED;
    for (size_t i = 0; i < sizeof runtime_calls / sizeof runtime_calls[0] && result == CUPTI_SUCCESS; i++)
        result = cupti.table.enable_runtime(runtime_calls[i], on);
    for (size_t i = 0; i < sizeof driver_calls / sizeof driver_calls[0] && result == CUPTI_SUCCESS; i++)
        result = cupti.table.enable_driver(driver_calls[i], on);
    if (on && result != CUPTI_SUCCESS)
        result = cupti.table.enable(CUPTI_ACTIVITY_KIND_RUNTIME);
    else if (!on)
        (void)cupti.table.disable(CUPTI_ACTIVITY_KIND_RUNTIME);
    return result;
}

static void
cupti_close(void)
{
    (void)calls_enable(false);
    for (int i = 0; i < KINDS; i++)
        (void)cupti.table.disable(kinds[i]);
}

static bool
cupti_open(char *why, size_t size)
{
    if (!cupti_load(why, size))
        return false;
    if (cupti.links == NULL && (cupti.links = calloc(SETS, sizeof *cupti.links)) == NULL) {
        snprintf(why, size, "there is no memory for CUPTI's records");
        return false;
    }
    CUptiResult result = cupti.is_set_up ? CUPTI_SUCCESS : set_up();
    for (int i = 0; i < KINDS && result == CUPTI_SUCCESS; i++)
        result = cupti.table.enable(kinds[i]);
    if (result == CUPTI_SUCCESS)
        result = calls_enable(true);
    if (result == CUPTI_SUCCESS)
        return true;
    if (cupti.is_set_up)
        cupti_close();
    return cupti_refuses(result, why, size);
}

static bool
cupti_describe(char *text, size_t size)
{
    uint32_t version = 0;
    if (!cupti_load(text, size))
        return false;
    (void)cupti.table.version(&version);
    if (version >= 130000)
        snprintf(text, size, "CUPTI %u.%u.%u", version / 10000, version / 100 % 100, version % 100);
    else
        snprintf(text, size, "CUPTI (version %u of its interface)", version);
    return true;
}

/* ---- operations ---- */

static bool
cupti_stream(struct timed *timed)
{
    (void)timed;
    return true;
}

static void
cupti_stream_close(struct timed *timed)
{
    (void)timed;
}

/* Without a ticket, too: then it is known to be nobody's, and waits for nothing. */
static void
cupti_before(struct timed *timed, uint64_t ticket)
{
    (void)cupti.table.push(CUPTI_EXTERNAL_CORRELATION_KIND_CUSTOM0, ticket << NUMBER_BITS | timed->number);
}

static void
cupti_after(struct timed *timed, uint64_t ticket)
{
    uint64_t last = 0;
    (void)timed;
    (void)ticket;
    (void)cupti.table.pop(CUPTI_EXTERNAL_CORRELATION_KIND_CUSTOM0, &last);
}

static void
cupti_flush(bool forced)
{
    (void)cupti.table.flush(forced ? CUPTI_ACTIVITY_FLAG_FLUSH_FORCED : 0);
}

static void
cupti_poll(struct timed *timed)
{
    (void)timed; /* its records came with the flush */
}

const struct timeline_source timeline_cupti = {
    .name = "cupti", .open = cupti_open, .close = cupti_close, .stream = cupti_stream,
    .stream_close = cupti_stream_close,
    .before = cupti_before, .after = cupti_after, .flush = cupti_flush, .poll = cupti_poll, .describe = cupti_describe,
};

#else /* no cupti.h: the plug-in was built without it */

static bool
nothing_open(char *why, size_t size)
{
    snprintf(why, size, "the plug-in was built where there was no cupti.h");
    return false;
}

/* Nobody comes to the others: nothing was opened. */
const struct timeline_source timeline_cupti = { .name = "cupti", .open = nothing_open, .describe = nothing_open };
#endif
