/* play_timeline: records of CUPTI, its buffers and its clock. */
#include "play_timeline.h"

/* A kernel queued and finished, as CUPTI sees it. */
static void
kernel(int stream, uint64_t ticket, uint64_t begin, uint64_t end)
{
    timeline_before(&streams[stream], ticket);
    uint32_t call = fake_cupti_call();
    timeline_after(&streams[stream], ticket);
    fake_cupti_kernel(call, begin, end);
}

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
    for (uint64_t i = 0; i < 3; i++)
        CHECK(records[i].ticket == 5 && records[i].stream == &streams[2] && records[i].begin == 100 + 200 * i);
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
    queue_copy(1, 0, 4096);
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

const struct play_test play_cupti[] = {
    { kinds_of_work, "kernels, copies and settings bear the ticket and the stream they were queued under", NULL },
    { several_of_a_ticket, "each kernel of a ticket has a record", NULL },
    { late_correlation, "a record that comes before its call's waits for it", NULL },
    { nobodys_work, "what was queued under no ticket is told to nobody", NULL },
    { order_and_room, "records come by stream in order of time, what finds no room later", NULL },
    { lost_records, "records that were dropped, have no times or another layout are counted", NULL },
    { full_queue, "a stream that nobody asks keeps so many records and counts the rest", NULL },
    { no_more_buffers, "CUPTI gets so many buffers and no more", NULL },
    { held_buffer, "a buffer that something unfinished holds is taken by force once all streams are idle", NULL },
    { clock_of_the_run, "CUPTI's clock is the run's, and goes on when the run is over", NULL },
    { clock_without_streams, "a run that ends before its first stream is not asked for the time", NULL },
    { off_and_on_again, "CUPTI is off when the last stream has gone, and on again for the next", NULL },
    { closed_stream, "nobody hears of a closed stream", NULL },
    { old_cupti, "where CUPTI cannot choose calls all are recorded", NULL },
    { calls_refused, "where CUPTI refuses to choose calls all are recorded", NULL },
    { NULL, NULL, NULL },
};
