/* Plays the timelines of the CUDA plug-in without a GPU: its own objects against a CUPTI whose records are written here
 * (fake_cupti.c, in the place of cupti_open.c) and against the events of the fake runtime. TAP; each test is a process
 * of its own, because CUPTI and what the plug-in knows of it are a process's.
 *
 * To be linked: play_timeline*, fake_cupti, the fake runtime with all that it needs; of the plug-in timeline, cupti,
 * pairs, ranges, trouble, journal. */
#include "play_timeline.h"
#include <sys/wait.h>
#include <unistd.h>

void
check(bool holds, const char *what, int line)
{
    if (holds)
        return;
    fprintf(stderr, "# line %d: %s\n", line, what);
    exit(1);
}

/* ---- a run ---- */

struct play_run       run;
struct backend_stream streams[STREAMS];
struct backend_record records[ROOM];
char                 *pinned;
static struct backend_device device;

static uint64_t
run_ns(void *context)
{
    CHECK(context == &run && !run.is_over);
    run.asked++;
    return run.step < run.step_count ? run.steps[run.step++] : run.now;
}

bool
device_open(bool timeline)
{
    const struct backend_host host = { run_ns, &run, timeline };
    run.now = 1000 * (uint64_t)MS;
    CHECK(cudaSetDevice(0) == cudaSuccess);
    device = (struct backend_device){ .host = host };
    device.host.timeline = host.timeline && timeline_open(&host);
    return device.host.timeline;
}

void
stream_open(int index)
{
    streams[index] = (struct backend_stream){ .device = &device };
    CHECK(cudaStreamCreateWithPriority(&streams[index].stream, cudaStreamNonBlocking, 0) == cudaSuccess);
    timeline_stream(&streams[index]);
}

void
open_all(const char *source)
{
    setenv("RINGSIDE_CUDA_TIMELINE", source, 1);
    CHECK(device_open(true));
    CHECK(cudaHostAlloc((void **)&pinned, 1 << 20, cudaHostAllocPortable) == cudaSuccess);
    for (int i = 0; i < STREAMS; i++) {
        stream_open(i);
        CHECK(streams[i].timed != NULL);
    }
}

void
stream_close(int index)
{
    CHECK(cudaStreamSynchronize(streams[index].stream) == cudaSuccess);
    timeline_stream_close(&streams[index]);
    CHECK(cudaStreamDestroy(streams[index].stream) == cudaSuccess);
}

void
close_all(void)
{
    for (int i = 0; i < STREAMS; i++)
        stream_close(i);
    run.is_over = true;
    CHECK(fake_cupti.wrong == NULL && fake_cupti.depth == 0);
}

size_t
fetch(uint64_t *lost)
{
    return timeline_records(records, ROOM, lost);
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

bool
says(const char *words)
{
    const char *line = probe_line();
    if (strstr(line, words) == NULL)
        fprintf(stderr, "# says: %s\n", line);
    return strstr(line, words) != NULL;
}

void
queue_copy(int stream, uint64_t ticket, size_t bytes)
{
    timeline_before(&streams[stream], ticket);
    CHECK(cudaMemcpyAsync(pinned, pinned + (1 << 19), bytes, cudaMemcpyHostToHost, streams[stream].stream) ==
          cudaSuccess);
    timeline_after(&streams[stream], ticket);
}

/* ---- all of them ---- */

static bool
passes(const struct play_test *test)
{
    int status = 0;
    fflush(stdout);
    pid_t child = fork();
    if (child == 0) {
        setenv("RINGSIDE_FAKE_CUDA", test->fake != NULL ? test->fake : "", 1);
        test->run();
        exit(0);
    }
    return child > 0 && waitpid(child, &status, 0) == child && WIFEXITED(status) && WEXITSTATUS(status) == 0;
}

int
main(void)
{
    const struct play_test *parts[] = { play_cupti, play_choice, play_pairs, play_ranges };
    int number = 0, bad = 0;
    for (size_t i = 0; i < sizeof parts / sizeof parts[0]; i++) {
        for (const struct play_test *test = parts[i]; test->run != NULL; test++) {
            bool good = passes(test);
            bad += !good;
            printf("%s %d - %s\n", good ? "ok" : "not ok", ++number, test->name);
        }
    }
    printf("1..%d\n", number);
    return bad > 0;
}
