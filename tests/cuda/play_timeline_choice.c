/* play_timeline: who measures, where CUPTI does not want to, and where nobody is asked. */
#include "play_timeline.h"

static void
falls_back(const char *words)
{
    uint64_t lost = 0;
    open_all("");
    CHECK(says("pairs of events") && says(words));
    CHECK(fake_cupti.enabled == 0 && fake_cupti.runtime_calls == 0);
    queue_copy(0, 1, 4096);
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

const struct play_test play_choice[] = {
    { under_a_profiler, "under another profiler pairs measure, and that is said", NULL },
    { without_a_driver, "where enabling fails pairs measure, and nothing stays enabled", NULL },
    { clock_refused, "where CUPTI does not take the clock pairs measure", NULL },
    { other_answer, "another answer of CUPTI is told by its name", NULL },
    { no_library, "without CUPTI's library pairs measure", NULL },
    { only_cupti, "asked for CUPTI alone nothing else measures", NULL },
    { switched_off, "switched off nothing measures, and CUPTI is not asked", NULL },
    { unknown_word, "an unknown word is told and changes nothing", NULL },
    { nobody_asks, "where nobody wants a timeline nothing is called", NULL },
    { NULL, NULL, NULL },
};
