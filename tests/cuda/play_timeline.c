/* Plays the timelines of the CUDA plug-in without a GPU: its own objects against a CUPTI whose records are written here
 * (fake_cupti.c, in the place of cupti_open.c) and against the events of the fake runtime. TAP; each test is a process
 * of its own, because CUPTI and what the plug-in knows of it are a process's.
 *
 * To be linked: play_timeline, fake_cupti, the fake runtime with all that it needs; of the plug-in timeline, cupti, pairs,
 * ranges, trouble, journal. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>
#include "fake/fake.h"
#include "fake_cupti.h"
#include "plugins/cuda/timeline.h"
#if __has_include(<nvtx3/nvToolsExt.h>)
#include <nvtx3/nvToolsExt.h>
#endif

enum { STREAMS = 3, ROOM = 2 * TIMED_RECORDS, MS = 1000000 };

static void
check(bool holds, const char *what, int line)
{
    if (holds)
        return;
    fprintf(stderr, "# line %d: %s\n", line, what);
    exit(1);
}
#define CHECK(holds) check((holds), #holds, __LINE__)

/* ---- a run ---- */

/* Answers `now`, or, while there are `steps`, the next of them. */
static struct { uint64_t now, asked; uint64_t steps[16]; int step_count, step; bool is_over; } run;

static uint64_t
run_ns(void *context)
{
    CHECK(context == &run && !run.is_over);
    run.asked++;
    return run.step < run.step_count ? run.steps[run.step++] : run.now;
}

static struct backend_device device;
static struct backend_stream streams[STREAMS];
static struct backend_record records[ROOM];
static void *pinned;

static bool
device_open(bool timeline)
{
    const struct backend_host host = { run_ns, &run, timeline };
    run.now = 1000 * (uint64_t)MS;
    CHECK(cudaSetDevice(0) == cudaSuccess);
    device = (struct backend_device){ .host = host };
    device.host.timeline = host.timeline && timeline_open(&host);
    return device.host.timeline;
}

static void
stream_open(int index)
{
    streams[index] = (struct backend_stream){ .device = &device };
    CHECK(cudaStreamCreateWithPriority(&streams[index].stream, cudaStreamNonBlocking, 0) == cudaSuccess);
    timeline_stream(&streams[index]);
}

static void
open_all(const char *source)
{
    setenv("RINGSIDE_CUDA_TIMELINE", source, 1);
    CHECK(device_open(true));
    CHECK(cudaHostAlloc(&pinned, 1 << 20, cudaHostAllocPortable) == cudaSuccess);
    for (int i = 0; i < STREAMS; i++) {
        stream_open(i);
        CHECK(streams[i].timed != NULL);
    }
}

static void
stream_close(int index)
{
    CHECK(cudaStreamSynchronize(streams[index].stream) == cudaSuccess);
    timeline_stream_close(&streams[index]);
    CHECK(cudaStreamDestroy(streams[index].stream) == cudaSuccess);
}

static void
close_all(void)
{
    for (int i = 0; i < STREAMS; i++)
        stream_close(i);
    run.is_over = true;
    CHECK(fake_cupti.wrong == NULL && fake_cupti.depth == 0);
}

static size_t
fetch(uint64_t *lost)
{
    return timeline_records(records, ROOM, lost);
}

/* A kernel queued and finished, as CUPTI sees it. */
static void
kernel(int stream, uint64_t ticket, uint64_t begin, uint64_t end)
{
    timeline_before(&streams[stream], ticket);
    uint32_t call = fake_cupti_call();
    timeline_after(&streams[stream], ticket);
    fake_cupti_kernel(call, begin, end);
}

static const char *
probe_line(void)
{
    static struct backend_probe probe;
    probe.part_count = 0;
    timeline_probe(&probe);
    CHECK(probe.part_count == 1);
    return probe.parts[0];
}

static bool
says(const char *words)
{
    const char *line = probe_line();
    if (strstr(line, words) == NULL)
        fprintf(stderr, "# says: %s\n", line);
    return strstr(line, words) != NULL;
}

/* ---- CUPTI ---- */

static void
kinds_of_work(void)
{
    uint64_t lost = 0;
    open_all("cupti");
    kernel(1, 7, 1000, 2000);
    const CUpti_ActivityKind kinds[] = { CUPTI_ACTIVITY_KIND_MEMCPY, CUPTI_ACTIVITY_KIND_MEMCPY2,
                                         CUPTI_ACTIVITY_KIND_MEMSET };
    for (uint64_t i = 0; i < 3; i++) {
        timeline_before(&streams[0], 8 + i);
        uint32_t call = fake_cupti_call();
        timeline_after(&streams[0], 8 + i);
        fake_cupti_work(kinds[i], call, 3000 + 1000 * i, 3500 + 1000 * i);
    }
    CHECK(fetch(&lost) == 4 && lost == 0);
    for (size_t i = 0; i < 4; i++) {
        uint64_t ticket = records[i].ticket;
        CHECK(ticket >= 7 && ticket <= 10);
        CHECK(records[i].stream == &streams[ticket == 7 ? 1 : 0]);
        CHECK(records[i].begin == (ticket == 7 ? 1000 : 3000 + 1000 * (ticket - 8)));
        CHECK(records[i].end == records[i].begin + (ticket == 7 ? 1000 : 500));
        CHECK(records[i].grid == (ticket == 7 ? 24 : 0) && records[i].block == (ticket == 7 ? 64 : 0));
    }
    CHECK(fetch(&lost) == 0 && lost == 0);
    close_all();
}

static void
several_of_a_ticket(void)
{
    uint64_t lost = 0;
    open_all("cupti");
    timeline_before(&streams[2], 5);
    uint32_t first = fake_cupti_call(), second = fake_cupti_call();
    fake_cupti_external(second, (uint64_t)5 << 12 | 3); /* a driver's call inside says it again */
    timeline_after(&streams[2], 5);
    fake_cupti_kernel(first, 100, 200);
    fake_cupti_kernel(second, 300, 400);
    fake_cupti_kernel(second, 500, 600);    /* one call that queues two */
    CHECK(fetch(&lost) == 3 && lost == 0);
    for (int i = 0; i < 3; i++)
        CHECK(records[i].ticket == 5 && records[i].stream == &streams[2] && records[i].begin == 100 + 200u * (unsigned)i);
    close_all();
}

static void
late_correlation(void)
{
    uint64_t lost = 0, external = 0;
    open_all("cupti");
    timeline_before(&streams[0], 9);
    uint32_t call = fake_cupti_silent_call(&external);
    timeline_after(&streams[0], 9);
    fake_cupti_kernel(call, 100, 200);
    CHECK(fetch(&lost) == 0 && lost == 0);
    fake_cupti_external(call, external);
    CHECK(fetch(&lost) == 1 && records[0].ticket == 9 && records[0].begin == 100);
    close_all();
}

static void
nobodys_work(void)
{
    uint64_t lost = 0;
    open_all("cupti");
    timeline_before(&streams[0], 0);
    uint32_t inside = fake_cupti_call();
    timeline_after(&streams[0], 0);
    fake_cupti_kernel(inside, 100, 200);
    for (uint64_t i = 0; i < 6000; i++)       /* a library's own, more than can wait for a ticket */
        fake_cupti_kernel(fake_cupti_call(), 300 + i, 301 + i);
    kernel(0, 3, 400, 500);
    CHECK(fetch(&lost) == 1 && lost == 0 && records[0].ticket == 3);
    close_all();
}

static void
order_and_room(void)
{
    uint64_t lost = 0;
    open_all("cupti");
    for (uint64_t i = 0; i < 50; i++) {
        for (int stream = 0; stream < STREAMS; stream++)
            kernel(stream, 1 + i * STREAMS + (uint64_t)stream, 100000 - 1000 * i, 100000 - 1000 * i + 500);
    }
    size_t got = 0, count;
    while ((count = timeline_records(records + got, 7, &lost)) > 0) {
        CHECK(count <= 7);
        got += count;
    }
    CHECK(got == 50 * STREAMS);
    for (size_t i = 1; i < got; i++) {
        if (records[i].stream == records[i - 1].stream)
            CHECK(records[i].begin >= records[i - 1].begin);
        for (size_t j = i; j < got && records[i].stream != records[i - 1].stream; j++)
            CHECK(records[j].stream != records[i - 1].stream); /* by stream: none comes again */
    }
    close_all();
}

static void
lost_records(void)
{
    uint64_t lost = 0;
    open_all("cupti");
    kernel(0, 1, 100, 200);
    kernel(0, 2, 0, 0);                        /* no times could be had */
    kernel(0, 3, 300, 0);                      /* unfinished, and taken out by force */
    timeline_before(&streams[0], 4);
    uint32_t call = fake_cupti_call();
    timeline_after(&streams[0], 4);
    fake_cupti_short_kernel(call);
    kernel(0, 5, 500, 600);
    fake_cupti.dropped = 10;
    CHECK(fetch(&lost) == 2 && records[0].ticket == 1 && records[1].ticket == 5);
    CHECK(lost == 13);
    CHECK(fetch(&lost) == 0 && lost == 0);
    close_all();
}

static void
full_queue(void)
{
    uint64_t lost = 0, count = TIMED_RECORDS + 100;
    open_all("cupti");
    for (uint64_t i = 0; i < count; i++)
        kernel(0, 1 + i, 1000 + i, 1001 + i);
    kernel(1, 1 + count, 1, 2);
    CHECK(fetch(&lost) == TIMED_RECORDS + 1 && lost == 100);
    CHECK(fake_cupti.wrong == NULL);
    close_all();
}

static void
no_more_buffers(void)
{
    uint8_t *buffer = NULL, *taken[64];
    size_t   size = 0, most = 1, count = 0;
    uint64_t lost = 0;
    open_all("cupti");
    for (; count < 64; count++) {
        fake_cupti.wanted(&buffer, &size, &most);
        if (buffer == NULL)
            break;
        CHECK(size >= 1 << 20 && size <= 8 << 20 && most == 0 && (uintptr_t)buffer % 8 == 0);
        for (size_t i = 0; i < count; i++)
            CHECK(taken[i] != buffer);
        taken[count] = buffer;
    }
    CHECK(count >= 2 && count < 64);
    kernel(0, 1, 100, 200);                    /* its two records find no buffer */
    fake_cupti.is_held = true;
    CHECK(fetch(&lost) == 0);
    close_all();
}

static void
held_buffer(void)
{
    uint64_t lost = 0;
    open_all("cupti");
    fake_cupti.is_held = true;
    kernel(0, 1, 100, 200);
    CHECK(cudaMemcpyAsync(pinned, (char *)pinned + 4096, 4096, cudaMemcpyHostToHost, streams[1].stream) == cudaSuccess);
    CHECK(fetch(&lost) == 0 && fake_cupti.forced == 0 && fake_cupti.flushes == 1); /* stream 1 is at work */
    CHECK(cudaStreamSynchronize(streams[1].stream) == cudaSuccess);
    CHECK(fetch(&lost) == 1 && fake_cupti.forced == 1);
    CHECK(fetch(&lost) == 0 && fake_cupti.forced == 1);                            /* nothing is missing */
    close_all();
}

static void
clock_of_the_run(void)
{
    open_all("cupti");
    run.now = 123456789;
    CHECK(fake_cupti.clock() == 123456789);
    uint64_t asked = run.asked;
    close_all();                               /* from here on run_ns must not be called */
    CHECK(run.asked > asked);
    uint64_t later = fake_cupti.clock();
    CHECK(later >= 123456789 && later < 123456789 + 3600ull * 1000 * MS);
    CHECK(fake_cupti.clock() >= later);
}

static void
clock_without_streams(void)
{
    setenv("RINGSIDE_CUDA_TIMELINE", "cupti", 1);
    CHECK(device_open(true));
    run.is_over = true;                        /* the run ended before there was a stream */
    CHECK(fake_cupti.clock() >= 1000 * (uint64_t)MS);
}

static void
off_and_on_again(void)
{
    uint64_t lost = 0;
    open_all("cupti");
    CHECK(fake_cupti.enabled == 5 && fake_cupti.runtime_calls >= 6 && !fake_cupti.all_calls);
    close_all();
    CHECK(fake_cupti.enabled == 0 && fake_cupti.runtime_calls == 0 && fake_cupti.forced == 1);
    run.is_over = false;
    open_all("cupti");
    CHECK(fake_cupti.enabled == 5);
    kernel(0, 1, 100, 200);
    CHECK(fetch(&lost) == 1 && records[0].stream == &streams[0]);
    close_all();
    CHECK(fake_cupti.enabled == 0);
}

static void
closed_stream(void)
{
    uint64_t lost = 0;
    open_all("cupti");
    kernel(0, 1, 100, 200);
    kernel(1, 2, 100, 200);
    stream_close(0);
    CHECK(fetch(&lost) == 1 && lost == 0 && records[0].ticket == 2);
    CHECK(fake_cupti.enabled == 5);
    stream_open(0);
    kernel(0, 3, 300, 400);
    CHECK(fetch(&lost) == 1 && records[0].ticket == 3 && records[0].stream == &streams[0]);
    close_all();
}

static void
old_cupti(void)
{
    uint64_t lost = 0;
    fake_cupti.lacks_calls = true;
    open_all("cupti");
    CHECK(fake_cupti.all_calls && fake_cupti.runtime_calls == 0);
    kernel(0, 1, 100, 200);
    CHECK(fetch(&lost) == 1);
    close_all();
    CHECK(!fake_cupti.all_calls);
}

static void
calls_refused(void)
{
    fake_cupti.call_answer = CUPTI_ERROR_INVALID_PARAMETER;
    open_all("cupti");
    CHECK(fake_cupti.all_calls);
    close_all();
}

/* ---- who measures ---- */

static void
falls_back(const char *words)
{
    uint64_t lost = 0;
    open_all("");
    CHECK(says("pairs of events") && says(words));
    CHECK(fake_cupti.enabled == 0 && fake_cupti.runtime_calls == 0);
    timeline_before(&streams[0], 1);
    CHECK(cudaMemcpyAsync(pinned, (char *)pinned + 4096, 4096, cudaMemcpyHostToHost, streams[0].stream) == cudaSuccess);
    timeline_after(&streams[0], 1);
    CHECK(cudaStreamSynchronize(streams[0].stream) == cudaSuccess);
    CHECK(fetch(&lost) == 1 && records[0].ticket == 1);
    close_all();
}

static void
under_a_profiler(void)
{
    fake_cupti.enable_answer = CUPTI_ERROR_MULTIPLE_SUBSCRIBERS_NOT_SUPPORTED;
    falls_back("nsys");
}

static void
without_a_driver(void)
{
    fake_cupti.enable_answer = CUPTI_ERROR_UNKNOWN;
    falls_back("999");
}

static void
clock_refused(void)
{
    fake_cupti.clock_answer = CUPTI_ERROR_UNKNOWN;
    falls_back("999");
    CHECK(fake_cupti.wanted == NULL);          /* nothing else was tried */
}

static void
other_answer(void)
{
    fake_cupti.enable_answer = CUPTI_ERROR_NOT_INITIALIZED;
    falls_back("CUPTI_ERROR_OF_A_TEST");
}

static void
no_library(void)
{
    fake_cupti.absent = "no libcupti here";
    falls_back("no libcupti here");
}

static void
only_cupti(void)
{
    fake_cupti.enable_answer = CUPTI_ERROR_UNKNOWN;
    setenv("RINGSIDE_CUDA_TIMELINE", "cupti", 1);
    CHECK(!device_open(true));
    CHECK(says("timelines: none (CUPTI answers 999"));
    stream_open(0);
    CHECK(streams[0].timed == NULL);
}

static void
switched_off(void)
{
    setenv("RINGSIDE_CUDA_TIMELINE", "off", 1);
    CHECK(!device_open(true));
    CHECK(fake_cupti.calls == 0);
    CHECK(says("RINGSIDE_CUDA_TIMELINE is off"));
}

static void
unknown_word(void)
{
    setenv("RINGSIDE_CUDA_TIMELINE", "nvtx", 1);
    CHECK(device_open(true));
    CHECK(says("CUPTI 13") && says("can be cupti, pairs or off"));
}

static void
nobody_asks(void)
{
    uint64_t lost = 1;
    unsetenv("RINGSIDE_CUDA_TIMELINE");
    CHECK(!device_open(false));
    stream_open(0);
    CHECK(streams[0].timed == NULL);
    timeline_before(&streams[0], 1);
    timeline_after(&streams[0], 1);
    CHECK(fetch(&lost) == 0 && lost == 0);
    timeline_stream_close(&streams[0]);
    CHECK(fake_cupti.calls == 0 && run.asked == 0);
}

/* ---- pairs ---- */

static void
queue_copy(int stream, uint64_t ticket, size_t bytes)
{
    timeline_before(&streams[stream], ticket);
    CHECK(cudaMemcpyAsync(pinned, (char *)pinned + (1 << 19), bytes, cudaMemcpyHostToHost, streams[stream].stream)
          == cudaSuccess);
    timeline_after(&streams[stream], ticket);
}

static void
pair_times(void)
{
    uint64_t lost = 0;
    open_all("pairs");
    CHECK(says("pairs of events") && fake_cupti.calls == 0);
    queue_copy(0, 1, 16000);
    queue_copy(0, 2, 160000);
    queue_copy(0, 0, 16000);                   /* of no ticket */
    CHECK(fetch(&lost) == 0);
    CHECK(cudaStreamSynchronize(streams[0].stream) == cudaSuccess);
    CHECK(fetch(&lost) == 2 && lost == 0);
    for (size_t i = 0; i < 2; i++) {           /* the fake's clock: 2 us and a byte in 16 ns; 0.5 us for the event */
        uint64_t lasted = records[i].end - records[i].begin, copied = 2500 + (i == 0 ? 1000 : 10000);
        CHECK(records[i].ticket == i + 1 && records[i].stream == &streams[0]);
        CHECK(lasted >= copied - 2 && lasted <= copied + 2);
        CHECK(records[i].begin >= run.now && records[i].begin < run.now + MS);
    }
    CHECK(records[1].begin > records[0].end);
    close_all();
}

static void
pair_anchors(void)
{
    uint64_t lost = 0, before = 0;
    open_all("pairs");
    for (uint64_t i = 1; i <= 20; i++) {       /* more than there are anchors at a time */
        queue_copy(0, i, 1600);
        CHECK(cudaStreamSynchronize(streams[0].stream) == cudaSuccess);
        CHECK(fetch(&lost) == 1 && lost == 0 && records[0].ticket == i);
        CHECK(records[0].begin > before && records[0].begin >= run.now && records[0].begin < run.now + MS);
        before = records[0].begin;
        run.now += 200 * (uint64_t)MS;         /* the fake's own clock stands: an old anchor would be off by this */
    }
    close_all();
}

static void
pair_keeps_its_anchor(void)
{
    uint64_t lost = 0, start;
    open_all("pairs");
    start = run.now;
    for (uint64_t i = 1; i <= 20; i++) {       /* none of them has ended when the anchors run out */
        queue_copy(0, i, 1600);
        run.now += 200 * (uint64_t)MS;
    }
    CHECK(cudaStreamSynchronize(streams[0].stream) == cudaSuccess);
    CHECK(fetch(&lost) == 20 && lost == 0);
    CHECK(records[0].ticket == 1 && records[0].begin >= start && records[0].begin < start + MS);
    queue_copy(0, 21, 1600);                   /* now there are new ones */
    CHECK(cudaStreamSynchronize(streams[0].stream) == cudaSuccess);
    CHECK(fetch(&lost) == 1 && records[0].begin >= run.now && records[0].begin < run.now + MS);
    close_all();
}

static void
pair_tightest(void)
{
    uint64_t lost = 0;
    /* the clock before and after each of five readings: 900, 500, 40, 800, 60 apart */
    const uint64_t steps[] = { 1000, 1900, 2000, 2500, 3000, 3040, 4000, 4800, 5000, 5060 };
    setenv("RINGSIDE_CUDA_TIMELINE", "pairs", 1);
    CHECK(device_open(true));
    CHECK(cudaHostAlloc(&pinned, 1 << 20, cudaHostAllocPortable) == cudaSuccess);
    memcpy(run.steps, steps, sizeof steps);
    run.step_count = sizeof steps / sizeof steps[0];
    run.step = 0;
    run.now  = 6000;
    stream_open(0);
    queue_copy(0, 1, 16);
    CHECK(cudaStreamSynchronize(streams[0].stream) == cudaSuccess);
    CHECK(fetch(&lost) == 1);
    /* The third: its event is two others and this pair's first before the copy, half a microsecond each. */
    CHECK(records[0].begin >= 3020 + 1500 - 2 && records[0].begin <= 3020 + 1500 + 2);
    stream_close(0);
}

static void
pair_never_ends(void)
{
    uint64_t lost = 0;
    open_all("pairs");
    struct backend_stream *first = &streams[0];
    timeline_before(first, 1);                 /* nothing behind this is ever reached */
    timeline_after(first, 1);
    CHECK(fetch(&lost) == 0);
    for (uint64_t i = 2; i <= 5000; i++) {
        timeline_before(first, i);
        timeline_after(first, i);
    }
    (void)fetch(&lost);
    CHECK(lost > 800 && lost < 1000);          /* 4096 wait */
    queue_copy(1, 6000, 16);
    CHECK(cudaStreamSynchronize(streams[1].stream) == cudaSuccess);
    CHECK(fetch(&lost) == 1 && records[0].ticket == 6000 && records[0].stream == &streams[1]);
}

static void
many_pairs(void)
{
    uint64_t lost = 0, all_lost = 0;
    size_t   got = 0;
    open_all("pairs");
    for (uint64_t i = 1; i <= 20000; i++) {
        queue_copy(0, i, 16);
        if (i % 100 == 0)
            CHECK(cudaStreamSynchronize(streams[0].stream) == cudaSuccess);
        if (i % 1000 == 0) {
            size_t count = fetch(&lost);
            for (size_t j = 0; j < count; j++)
                CHECK(records[j].ticket == got + j + 1 && (j == 0 || records[j].begin > records[j - 1].end));
            got += count;
            all_lost += lost;
        }
    }
    CHECK(got == 20000 && all_lost == 0);
    close_all();
}

static void
broken_gpu(void)
{
    uint64_t lost = 0;
    open_all("pairs");
    queue_copy(0, 1, 16);
    fake_break(cudaErrorIllegalAddress);
    CHECK(fetch(&lost) == 0 && lost == 1);
    timeline_before(&streams[0], 2);
    timeline_after(&streams[0], 2);
    CHECK(fetch(&lost) == 0 && lost == 1);
    for (int i = 0; i < STREAMS; i++)
        timeline_stream_close(&streams[i]);
}

/* ---- ranges ---- */

#if __has_include(<nvtx3/nvToolsExt.h>)
static struct { int domains, strings, depth; char text[64]; uint64_t payload; bool is_registered; } seen;
static int some_domain, some_string;

static nvtxDomainHandle_t NVTX_API
seen_domain(const char *name)
{
    CHECK(strcmp(name, "ringside") == 0);
    seen.domains++;
    return (nvtxDomainHandle_t)(void *)&some_domain;
}

static nvtxStringHandle_t NVTX_API
seen_string(nvtxDomainHandle_t domain, const char *text)
{
    CHECK(domain == (nvtxDomainHandle_t)(void *)&some_domain);
    seen.strings++;
    snprintf(seen.text, sizeof seen.text, "%s", text);
    return (nvtxStringHandle_t)(void *)&some_string;
}

static int NVTX_API
seen_push(nvtxDomainHandle_t domain, const nvtxEventAttributes_t *range)
{
    CHECK(domain == (nvtxDomainHandle_t)(void *)&some_domain && range->payloadType == NVTX_PAYLOAD_TYPE_UNSIGNED_INT64);
    CHECK(range->version == NVTX_VERSION && range->size == NVTX_EVENT_ATTRIB_STRUCT_SIZE);
    seen.payload       = range->payload.ullValue;
    seen.is_registered = range->messageType == NVTX_MESSAGE_TYPE_REGISTERED;
    return seen.depth++;
}

static int NVTX_API
seen_pop(nvtxDomainHandle_t domain)
{
    CHECK(domain == (nvtxDomainHandle_t)(void *)&some_domain);
    return --seen.depth;
}

/* How a profiler hooks itself in: it overwrites entries of the table that NVTX shows it. */
static int NVTX_API
profiler_comes(NvtxGetExportTableFunc_t tables)
{
    NvtxFunctionTable functions = NULL;
    unsigned          count = 0;
    const NvtxExportTableCallbacks *hooks = tables(NVTX_ETID_CALLBACKS);
    if (getenv("PLAY_NVTX") == NULL || hooks == NULL ||
        hooks->GetModuleFunctionTable(NVTX_CB_MODULE_CORE2, &functions, &count) == 0)
        return 0;
    *functions[NVTX_CBID_CORE2_DomainCreateA]         = (NvtxFunctionPointer)seen_domain;
    *functions[NVTX_CBID_CORE2_DomainRegisterStringA] = (NvtxFunctionPointer)seen_string;
    *functions[NVTX_CBID_CORE2_DomainRangePushEx]     = (NvtxFunctionPointer)seen_push;
    *functions[NVTX_CBID_CORE2_DomainRangePop]        = (NvtxFunctionPointer)seen_pop;
    return 1;
}
NvtxInitializeInjectionNvtxFunc_t InitializeInjectionNvtx2_fnptr = profiler_comes;

static void
ranges_seen(void)
{
    setenv("PLAY_NVTX", "1", 1);
    timeline_range_begin("op", 41);
    timeline_range_begin("backward", 42);
    CHECK(seen.domains == 1 && seen.depth == 2 && seen.payload == 42 && seen.is_registered);
    CHECK(strcmp(seen.text, "backward") == 0 && seen.strings == 2);
    timeline_range_end();
    char again[] = "op";                       /* the same text elsewhere */
    timeline_range_begin(again, 43);
    CHECK(seen.strings == 2 && seen.payload == 43 && seen.domains == 1);
    timeline_range_end();
    timeline_range_end();
    CHECK(seen.depth == 0);
}

static void
ranges_of_too_many_names(void)
{
    setenv("PLAY_NVTX", "1", 1);
    char name[32];
    bool all = true;
    for (int i = 0; i < 3000; i++) {
        snprintf(name, sizeof name, "name %d", i);
        timeline_range_begin(name, (uint64_t)i);
        all = all && seen.is_registered;
        CHECK(seen.payload == (uint64_t)i);
        timeline_range_end();
    }
    CHECK(!all && seen.strings > 500 && seen.strings <= 1024);
}

static void
ranges_unseen(void)
{
    timeline_range_begin("op", 1);
    timeline_range_end();
    timeline_range_end();
    CHECK(seen.domains == 0 && seen.strings == 0 && seen.depth == 0);
}
#endif

/* ---- all of them ---- */

static const struct test { void (*run)(void); const char *name, *fake; } tests[] = {
    { kinds_of_work, "kernels, copies and settings bear the ticket and the stream they were queued under", "" },
    { several_of_a_ticket, "each kernel of a ticket has a record", "" },
    { late_correlation, "a record that comes before its call's waits for it", "" },
    { nobodys_work, "what was queued under no ticket is told to nobody", "" },
    { order_and_room, "records come by stream in order of time, what finds no room later", "" },
    { lost_records, "records that were dropped, have no times or another layout are counted", "" },
    { full_queue, "a stream that nobody asks keeps so many records and counts the rest", "" },
    { no_more_buffers, "CUPTI gets so many buffers and no more", "" },
    { held_buffer, "a buffer that something unfinished holds is taken by force once all streams are idle", "" },
    { clock_of_the_run, "CUPTI's clock is the run's, and goes on when the run is over", "" },
    { clock_without_streams, "a run that ends before its first stream is not asked for the time", "" },
    { off_and_on_again, "CUPTI is off when the last stream has gone, and on again for the next", "" },
    { closed_stream, "nobody hears of a closed stream", "" },
    { old_cupti, "where CUPTI cannot choose calls all are recorded", "" },
    { calls_refused, "where CUPTI refuses to choose calls all are recorded", "" },
    { under_a_profiler, "under another profiler pairs measure, and that is said", "" },
    { without_a_driver, "where enabling fails pairs measure, and nothing stays enabled", "" },
    { clock_refused, "where CUPTI does not take the clock pairs measure", "" },
    { other_answer, "another answer of CUPTI is told by its name", "" },
    { no_library, "without CUPTI's library pairs measure", "" },
    { only_cupti, "asked for CUPTI alone nothing else measures", "" },
    { switched_off, "switched off nothing measures, and CUPTI is not asked", "" },
    { unknown_word, "an unknown word is told and changes nothing", "" },
    { nobody_asks, "where nobody wants a timeline nothing is called", "" },
    { pair_times, "a pair of events tells when an operation ran and how long", "" },
    { pair_anchors, "times follow the run's clock from one anchor to the next", "" },
    { pair_keeps_its_anchor, "a pair is told from the anchor it was queued under", "" },
    { pair_tightest, "an anchor is the tightest of its readings", "" },
    { pair_never_ends, "pairs that never end are counted once there are too many", "fail=never:6" },
    { many_pairs, "many operations in one stream are all told, in order", "" },
    { broken_gpu, "a broken GPU's records are counted as lost", "" },
#if __has_include(<nvtx3/nvToolsExt.h>)
    { ranges_seen, "a profiler sees stages as ranges with the numbers of their events", "" },
    { ranges_of_too_many_names, "names that find no room are told in full", "" },
    { ranges_unseen, "without a profiler a range is nothing", "" },
#endif
};

static bool
passes(const struct test *test)
{
    int   status = 0;
    fflush(stdout);
    pid_t child = fork();
    if (child == 0) {
        setenv("RINGSIDE_FAKE_CUDA", test->fake, 1);
        test->run();
        exit(0);
    }
    return child > 0 && waitpid(child, &status, 0) == child && WIFEXITED(status) && WEXITSTATUS(status) == 0;
}

int
main(void)
{
    int count = (int)(sizeof tests / sizeof tests[0]), bad = 0;
    printf("1..%d\n", count);
    for (int i = 0; i < count; i++) {
        bool good = passes(&tests[i]);
        bad += !good;
        printf("%s %d - %s\n", good ? "ok" : "not ok", i + 1, tests[i].name);
    }
    return bad > 0;
}
