/* See fake_cupti.h. Records lie one behind the other in the plug-in's own buffers, as CUPTI's do. */
#include "fake_cupti.h"
#include <stdio.h>
#include <string.h>

enum { RECORDS = 65536, DEPTH = 8 };

struct fake_cupti fake_cupti;

static struct {
    CUpti_BuffersCallbackCompleteFunc done;
    uint64_t external[DEPTH];
    uint32_t correlation;
    uint8_t *buffer;
    size_t   size, used;
    uint32_t bytes[RECORDS], count;     /* of the records in the buffer */
} inside;

/* ---- records ---- */

void
fake_cupti_deliver(void)
{
    uint8_t *buffer = inside.buffer;
    if (buffer == NULL)
        return;
    inside.buffer = NULL;
    inside.done(NULL, 0, buffer, inside.size, inside.used);
    inside.count = 0;
}

static void
append(const void *record, size_t bytes)
{
    size_t most = 0;
    if (inside.buffer != NULL && (inside.used + bytes > inside.size || inside.count == RECORDS))
        fake_cupti_deliver();
    if (inside.buffer == NULL) {
        inside.used = 0;
        fake_cupti.wanted(&inside.buffer, &inside.size, &most);
    }
    if (inside.buffer == NULL) {
        fake_cupti.dropped++;
        return;
    }
    for (size_t i = 0; i < bytes; i++) {
        if (inside.buffer[inside.used + i] != 0)
            fake_cupti.wrong = "a buffer that was said to be zeroed is not";
    }
    memcpy(inside.buffer + inside.used, record, bytes);
    inside.bytes[inside.count++] = (uint32_t)bytes;
    inside.used += bytes;
}

void
fake_cupti_external(uint32_t correlation, uint64_t external)
{
    const CUpti_ActivityExternalCorrelation record = {
        .kind = CUPTI_ACTIVITY_KIND_EXTERNAL_CORRELATION, .externalKind = CUPTI_EXTERNAL_CORRELATION_KIND_CUSTOM0,
        .externalId = external, .correlationId = correlation,
    };
    append(&record, sizeof record);
}

uint32_t
fake_cupti_silent_call(uint64_t *external)
{
    *external = fake_cupti.depth > 0 ? inside.external[fake_cupti.depth - 1] : 0;
    return ++inside.correlation;
}

uint32_t
fake_cupti_call(void)
{
    uint64_t external = 0;
    uint32_t correlation = fake_cupti_silent_call(&external);
    if (fake_cupti.depth > 0)
        fake_cupti_external(correlation, external);
    return correlation;
}

void
fake_cupti_kernel(uint32_t correlation, uint64_t begin, uint64_t end)
{
    const CUpti_ActivityKernel10 record = {
        .kind = CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL, .correlationId = correlation, .start = begin, .end = end,
        .gridX = 2, .gridY = 3, .gridZ = 4, .blockX = 32, .blockY = 2, .blockZ = 1,
    };
    append(&record, sizeof record);
}

void
fake_cupti_short_kernel(uint32_t correlation)
{
    const CUpti_ActivityKernel10 record = { .kind = CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL, .correlationId = correlation,
                                            .start = 1, .end = 2 };
    append(&record, offsetof(CUpti_ActivityKernel10, gridX) + 4);
}

void
fake_cupti_work(CUpti_ActivityKind kind, uint32_t correlation, uint64_t begin, uint64_t end)
{
    const CUpti_ActivityMemcpy6     copy = { .kind = kind, .correlationId = correlation, .start = begin, .end = end };
    const CUpti_ActivityMemcpyPtoP4 peer = { .kind = kind, .correlationId = correlation, .start = begin, .end = end };
    const CUpti_ActivityMemset4     set  = { .kind = kind, .correlationId = correlation, .start = begin, .end = end };
    if (kind == CUPTI_ACTIVITY_KIND_MEMCPY)
        append(&copy, sizeof copy);
    else if (kind == CUPTI_ACTIVITY_KIND_MEMCPY2)
        append(&peer, sizeof peer);
    else
        append(&set, sizeof set);
}

/* ---- the table ---- */

static CUptiResult CUPTIAPI
fake_version(uint32_t *version)
{
    *version = CUPTI_API_VERSION;
    return CUPTI_SUCCESS;
}

static CUptiResult CUPTIAPI
fake_text(CUptiResult result, const char **text)
{
    (void)result;
    *text = "CUPTI_ERROR_OF_A_TEST";
    return CUPTI_SUCCESS;
}

static CUptiResult CUPTIAPI
fake_set_attribute(CUpti_ActivityAttribute attribute, size_t *size, void *value)
{
    (void)attribute;
    (void)value;
    fake_cupti.calls++;
    return *size == 1 ? CUPTI_SUCCESS : CUPTI_ERROR_PARAMETER_SIZE_NOT_SUFFICIENT;
}

static CUptiResult CUPTIAPI
fake_clock(CUpti_TimestampCallbackFunc clock)
{
    fake_cupti.calls++;
    if (fake_cupti.enabled > 0)
        fake_cupti.wrong = "the clock comes after something was enabled";
    if (fake_cupti.clock_answer == CUPTI_SUCCESS)
        fake_cupti.clock = clock;
    return fake_cupti.clock_answer;
}

static CUptiResult CUPTIAPI
fake_buffers(CUpti_BuffersCallbackRequestFunc wanted, CUpti_BuffersCallbackCompleteFunc done)
{
    fake_cupti.calls++;
    fake_cupti.wanted = wanted;
    inside.done       = done;
    return CUPTI_SUCCESS;
}

static CUptiResult CUPTIAPI
fake_enable(CUpti_ActivityKind kind)
{
    fake_cupti.calls++;
    if (fake_cupti.clock == NULL || fake_cupti.wanted == NULL)
        fake_cupti.wrong = "something is enabled before there are a clock and buffers";
    if (kind == CUPTI_ACTIVITY_KIND_KERNEL)
        fake_cupti.wrong = "kernels are recorded in the way that lets only one run at a time";
    if (fake_cupti.enable_answer != CUPTI_SUCCESS && fake_cupti.enabled == 2)
        return fake_cupti.enable_answer; /* midway */
    if (kind == CUPTI_ACTIVITY_KIND_RUNTIME)
        fake_cupti.all_calls = true;
    else
        fake_cupti.enabled++;
    return CUPTI_SUCCESS;
}

static CUptiResult CUPTIAPI
fake_disable(CUpti_ActivityKind kind)
{
    fake_cupti.calls++;
    if (kind == CUPTI_ACTIVITY_KIND_RUNTIME)
        fake_cupti.all_calls = false;
    else if (fake_cupti.enabled > 0)
        fake_cupti.enabled--;
    return CUPTI_SUCCESS;
}

static CUptiResult CUPTIAPI
fake_call_enable(CUpti_CallbackId call, uint8_t on)
{
    (void)call;
    fake_cupti.calls++;
    if (on && fake_cupti.call_answer == CUPTI_SUCCESS)
        fake_cupti.runtime_calls++;
    else if (!on && fake_cupti.runtime_calls > 0)
        fake_cupti.runtime_calls--;
    return fake_cupti.call_answer;
}

static CUptiResult CUPTIAPI
fake_push(CUpti_ExternalCorrelationKind kind, uint64_t id)
{
    (void)kind;
    fake_cupti.calls++;
    if (fake_cupti.depth == DEPTH)
        fake_cupti.wrong = "more is pushed than popped";
    else
        inside.external[fake_cupti.depth++] = id;
    return CUPTI_SUCCESS;
}

static CUptiResult CUPTIAPI
fake_pop(CUpti_ExternalCorrelationKind kind, uint64_t *last)
{
    (void)kind;
    fake_cupti.calls++;
    if (fake_cupti.depth == 0)
        return CUPTI_ERROR_QUEUE_EMPTY;
    *last = inside.external[--fake_cupti.depth];
    return CUPTI_SUCCESS;
}

static CUptiResult CUPTIAPI
fake_flush(uint32_t flag)
{
    bool forced = (flag & CUPTI_ACTIVITY_FLAG_FLUSH_FORCED) != 0;
    fake_cupti.calls++;
    fake_cupti.flushes++;
    fake_cupti.forced += forced;
    if (forced || !fake_cupti.is_held)
        fake_cupti_deliver();
    return CUPTI_SUCCESS;
}

static CUptiResult CUPTIAPI
fake_next(uint8_t *buffer, size_t valid, CUpti_Activity **record)
{
    size_t   at = 0;
    uint32_t i = 0;
    for (; *record != NULL && i < inside.count; i++) {
        bool here = (uint8_t *)*record == buffer + at;
        at += inside.bytes[i];
        if (here)
            break;
    }
    if (at >= valid)
        return CUPTI_ERROR_MAX_LIMIT_REACHED;
    *record = (CUpti_Activity *)(void *)(buffer + at);
    return CUPTI_SUCCESS;
}

static CUptiResult CUPTIAPI
fake_dropped(CUcontext context, uint32_t stream, size_t *dropped)
{
    (void)context;
    (void)stream;
    *dropped = fake_cupti.dropped;
    fake_cupti.dropped = 0;
    return CUPTI_SUCCESS;
}

bool
cupti_table_open(struct cupti_table *table, char *why, size_t size)
{
    if (fake_cupti.absent != NULL) {
        snprintf(why, size, "%s", fake_cupti.absent);
        return false;
    }
    *table = (struct cupti_table){
        .version = fake_version, .text = fake_text, .set_attribute = fake_set_attribute, .clock = fake_clock,
        .buffers = fake_buffers, .enable = fake_enable, .disable = fake_disable,
        .enable_runtime = fake_cupti.lacks_calls ? NULL : fake_call_enable,
        .enable_driver = fake_cupti.lacks_calls ? NULL : fake_call_enable,
        .push = fake_push, .pop = fake_pop, .flush = fake_flush, .next = fake_next, .dropped = fake_dropped,
    };
    return true;
}
