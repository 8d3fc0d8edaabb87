/* play_timeline: pairs of events, and the anchors that their times hang on. */
#include <pthread.h>
#include "fake/fake.h"
#include "play_timeline.h"

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
    for (uint64_t i = 101; i <= 140; i++)      /* from now on there are events enough: nobody looks what has ended */
        queue_copy(0, i, 1600);
    CHECK(cudaStreamSynchronize(streams[0].stream) == cudaSuccess);
    CHECK(fetch(&lost) == 40);
    start = run.now;
    for (uint64_t i = 1; i <= 20; i++) {       /* none of them has ended when the anchors run out */
        queue_copy(0, i, 1600);
        run.now += 200 * (uint64_t)MS;
    }
    CHECK(cudaStreamSynchronize(streams[0].stream) == cudaSuccess);
    CHECK(fetch(&lost) == 20 && lost == 0);
    CHECK(records[0].ticket == 1 && records[0].begin >= start && records[0].begin < start + MS);
    CHECK(records[6].ticket == 7 && records[6].begin >= start + 1200 * (uint64_t)MS);
    queue_copy(0, 21, 1600);                   /* now there are new ones */
    CHECK(cudaStreamSynchronize(streams[0].stream) == cudaSuccess);
    CHECK(fetch(&lost) == 1 && records[0].begin >= run.now && records[0].begin < run.now + MS);
    close_all();
}

static void
pair_between(void)
{
    uint64_t lost = 0;
    open_all("pairs");
    for (uint64_t i = 101; i <= 104; i++)      /* from now on there are events enough: nobody looks what has ended */
        queue_copy(0, i, 1600);
    CHECK(cudaStreamSynchronize(streams[0].stream) == cudaSuccess);
    CHECK(fetch(&lost) == 4);
    queue_copy(0, 1, 1600);
    CHECK(cudaStreamSynchronize(streams[0].stream) == cudaSuccess);
    timeline_before(&streams[0], 2);
    CHECK(fetch(&lost) == 1 && records[0].ticket == 1);
    timeline_after(&streams[0], 2);
    CHECK(cudaStreamSynchronize(streams[0].stream) == cudaSuccess);
    CHECK(fetch(&lost) == 1 && lost == 0 && records[0].ticket == 2);
    CHECK(records[0].end - records[0].begin < 1000);   /* from one event to the next, nothing between them */
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
    CHECK(cudaHostAlloc((void **)&pinned, 1 << 20, cudaHostAllocPortable) == cudaSuccess);
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

enum { THREAD_COPIES = 2000 };

static void *
copier(void *argument)
{
    int stream = (int)(intptr_t)argument;
    CHECK(cudaSetDevice(0) == cudaSuccess);
    for (uint64_t i = 0; i < THREAD_COPIES; i++) {
        queue_copy(stream, 1 + i * STREAMS + (uint64_t)stream, 16);
        if (i % 50 == 0)
            CHECK(cudaStreamSynchronize(streams[stream].stream) == cudaSuccess);
    }
    CHECK(cudaStreamSynchronize(streams[stream].stream) == cudaSuccess);
    return NULL;
}

static void
many_threads(void)
{
    static uint64_t last[STREAMS], count[STREAMS];
    pthread_t threads[STREAMS];
    uint64_t  lost = 0, got = 0;
    open_all("pairs");
    for (int i = 0; i < STREAMS; i++)
        CHECK(pthread_create(&threads[i], NULL, copier, (void *)(intptr_t)i) == 0);
    while (got < STREAMS * THREAD_COPIES) {    /* meanwhile */
        size_t fetched = fetch(&lost);
        CHECK(lost == 0);
        for (size_t i = 0; i < fetched; i++) {
            int stream = (int)(records[i].stream - streams);
            CHECK(records[i].ticket > last[stream] && (records[i].ticket - 1) % STREAMS == (uint64_t)stream);
            last[stream] = records[i].ticket;
            count[stream]++;
        }
        got += fetched;
    }
    for (int i = 0; i < STREAMS; i++) {
        CHECK(pthread_join(threads[i], NULL) == 0);
        CHECK(count[i] == THREAD_COPIES);
    }
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

const struct play_test play_pairs[] = {
    { pair_times, "a pair of events tells when an operation ran and how long", NULL },
    { pair_anchors, "times follow the run's clock from one anchor to the next", NULL },
    { pair_keeps_its_anchor, "a pair is told from the anchor it was queued under", NULL },
    { pair_between, "who fetches between the two events of a pair takes nothing from it", NULL },
    { pair_tightest, "an anchor is the tightest of its readings", NULL },
    { pair_never_ends, "pairs that never end are counted once there are too many", "fail=never:6" },
    { many_pairs, "many operations in one stream are all told, in order", NULL },
    { many_threads, "threads queue while another fetches: nothing is lost, and all is in order", NULL },
    { broken_gpu, "a broken GPU's records are counted as lost", NULL },
    { NULL, NULL, NULL },
};
