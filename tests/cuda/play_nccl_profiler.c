/* What NCCL tells its profiler, played as NCCL 2.27 to 2.29 do, becomes records: all of them, in order, with what they
 * belong to, their bytes and times. What makes no sense is harmless. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include "fake/nccl.h"
#include "play_nccl.h"
#include "plugins/cuda/profiler.h"

enum { RANKS = 4, CHANNELS = 2, STEPS = 2 * (RANKS - 1), BYTES = 4096, MOST = 20000 };
/* collective, group; operations, their steps, the channel */
enum { OF_ONE_RING = 1 + 1 + CHANNELS * (2 + 2 * STEPS + 1) };

static struct nccl_record *records;
static size_t              count;

static uint64_t
take(void)
{
    uint64_t lost = 0;
    count = ringside_nccl_1.records(records, MOST, &lost);
    return lost;
}

static size_t
count_of(enum nccl_record_kind kind)
{
    size_t n = 0;
    for (size_t i = 0; i < count; i++)
        n += records[i].kind == kind;
    return n;
}

static struct fake_ring
ring_of(int rank, uint64_t sequence, uint64_t stamp)
{
    return (struct fake_ring){ .rank = rank, .ranks = RANKS, .channels = CHANNELS, .steps = STEPS, .sequence = sequence,
                               .bytes = BYTES, .function = "AllReduce", .dtype = "ncclFloat32", .algorithm = "RING",
                               .protocol = "LL128", .count = BYTES / 4, .stamp = stamp };
}

/* ---- what is right of every record ---- */

static bool
is_whole(const struct nccl_record *r, uint64_t sequence)
{
    bool belongs = r->comm == 0xabcd && r->number == 7 && r->rank == 2 && r->ranks == RANKS && !r->is_cut;
    if (r->kind == NCCL_RECORD_GROUP)
        return belongs && r->end > r->begin;
    bool names = strcmp(r->function, "AllReduce") == 0 && strcmp(r->algorithm, "RING") == 0 &&
                 strcmp(r->protocol, "LL128") == 0 && strcmp(r->dtype, "ncclFloat32") == 0 && r->channels == CHANNELS;
    return belongs && names && r->sequence == sequence && r->end > r->begin;
}

static bool
is_hop(const struct nccl_record *r)
{
    int      peer  = r->is_send ? 3 : 1;
    uint64_t waits = r->wait_gpu + r->wait_peer + r->wait_net;
    bool     split = r->is_send ? r->wait_peer > 0 : r->wait_peer == 0;
    return r->peer == peer && r->bytes == BYTES / (RANKS * CHANNELS) && r->step >= 0 && r->step < STEPS &&
        r->channel >= 0 &&
           r->channel < CHANNELS && r->wait_gpu > 0 && r->wait_net > 0 && split && waits <= r->end - r->begin;
}

static bool
all_are(bool (*is)(const struct nccl_record *), enum nccl_record_kind kind)
{
    for (size_t i = 0; i < count; i++)
        if (records[i].kind == kind && !is(&records[i])) {
            play_note("record %zu: peer %d bytes %llu step %d channel %d waits %llu %llu %llu", i, records[i].peer,
                      (unsigned long long)records[i].bytes, records[i].step, records[i].channel,
                      (unsigned long long)records[i].wait_gpu, (unsigned long long)records[i].wait_peer,
                      (unsigned long long)records[i].wait_net);
            return false;
        }
    return true;
}

/* In the order of their ends, as NCCL's threads saw them; the GPU's stamps may lie before. */
static bool
in_order(void)
{
    uint64_t last = 0;
    for (size_t i = 0; i < count; i++) {
        if (records[i].kind == NCCL_RECORD_CHANNEL)
            continue;
        if (records[i].end <= last)
            return false;
        last = records[i].end;
    }
    return true;
}

static void
plays(enum fake_profiler version)
{
    void            *context = fake_profiler_open(version, 0xabcd, "ringside 7", RANKS, 2);
    struct fake_ring ring    = ring_of(2, 5, 50000000);
    bool             whole   = true;
    fake_profiler_ring(version, context, &ring);
    uint64_t lost = take();
    for (size_t i = 0; i < count; i++)
        whole = is_whole(&records[i], 5) && whole;
    play_ok(context != NULL && lost == 0 && count == OF_ONE_RING, "version %d: a record of everything that ended",
            version);
    play_ok(whole, "version %d: each says its group, rank, collective, algorithm and protocol", version);
    play_ok(count_of(NCCL_RECORD_STEP) == 2 * STEPS * CHANNELS && all_are(is_hop, NCCL_RECORD_STEP),
            "version %d: each message says its peer, channel, step, bytes and what it waited for", version);
    play_ok(in_order(), "version %d: in the order of their ends", version);
    fake_profiler_close(version, context);
}

/* ---- the GPU's clock ---- */

static void
clocks(void)
{
    struct gpu_clock clock = { .is_known = false };
    play_ok(gpu_clock_host(&clock, 123) == 0, "the GPU's clock is not known before a kernel has told of itself");
    gpu_clock_learn(&clock, 1000, 7000100, 7000300, 2000);      /* 6998300 to 6999100 ahead */
    gpu_clock_learn(&clock, 3000, 7002200, 7002900, 4200);      /* 6998700 to 6999200 */
    uint64_t host = gpu_clock_host(&clock, 7002200);
    play_ok(clock.least == 6998700 && clock.most == 6999100, "bounds of the distance are intersected");
    play_ok(host >= 3000 && host + 700 <= 4200, "a kernel lies between what the host saw of it");
    gpu_clock_learn(&clock, 9000, 8000, 7000, 9100);
    gpu_clock_learn(&clock, 9000, 7002200, 7012200, 9100);
    play_ok(clock.least == 6998700 && clock.most == 6999100, "stamps that cannot be are left alone");
    gpu_clock_learn(&clock, 10000, 9000000, 9000100, 11000);
    play_ok(clock.least == 8989100 && clock.most == 8990000, "bounds that contradict the old ones take their place");
}

static bool
channel_fits(const struct nccl_record *r)
{
    return r->end - r->begin == 1000 * STEPS || r->end > r->begin;
}

/* ---- what makes no sense ---- */

static void
nonsense(void)
{
    void                    *context = fake_profiler_open(FAKE_PROFILER_V5, 1, "somebody's", RANKS, 0), *handle = NULL;
    union event_change       change  = { .step = { 77 } };
    struct event_description unknown = { .type = 1 << 20, .parent = (void *)(uintptr_t)0xdeadbeef };
    struct event_description orphan  = { .type = EVENT_STEP, .parent = (void *)(uintptr_t)0x12345678, .step = { 3 } };
    struct event_description foreign = { .type = EVENT_PROXY, .proxy = { .pid = getpid() + 1, .peer = 1,
                                                                        .is_send = 1 } };
    (void)take();
    ncclProfiler_v5.stop(NULL);
    ncclProfiler_v5.stop((void *)(uintptr_t)0x7fffffffffff);
    ncclProfiler_v5.change((void *)(uintptr_t)99999999, STATE_SEND_NET, &change);
    ncclProfiler_v5.change(NULL, 1234, NULL);
    ncclProfiler_v5.start((void *)(uintptr_t)4242, &handle, &orphan);
    play_ok(handle == NULL, "an event of a communicator that was never opened has no handle");
    ncclProfiler_v5.start(context, &handle, &unknown);
    play_ok(handle == NULL, "a kind of event that nobody knows has no handle");
    ncclProfiler_v5.finalize((void *)(uintptr_t)4242);
    take();
    play_ok(count == 0, "calls about nothing record nothing");

    ncclProfiler_v5.start(context, &handle, &orphan);
    ncclProfiler_v5.change(handle, STATE_CHANNEL_STOP, NULL);
    ncclProfiler_v5.change(handle, -1, &change);
    ncclProfiler_v5.stop(handle);
    ncclProfiler_v5.stop(handle);
    ncclProfiler_v5.change(handle, STATE_SEND_NET, &change);
    take();
    play_ok(count == 1 && records[0].step == 3 && records[0].function[0] == '\0' && records[0].number == -1,
            "a message without its operation is recorded once, and says what it knows");
    void *collective = NULL;
    struct event_description d = { .type = EVENT_COLLECTIVE, .collective = { .function = "AllReduce", .sequence = 9 } };
    ncclProfiler_v5.start(context, &collective, &d);
    foreign.parent = collective;
    ncclProfiler_v5.start(context, &handle, &foreign);
    ncclProfiler_v5.stop(handle);
    take();
    play_ok(count == 1 && records[0].function[0] == '\0',
            "what another process's network thread does has no parent here");
    ncclProfiler_v5.finalize(context);
    take();
    play_ok(count == 1 && records[0].is_cut && records[0].sequence == 9, "what never ended is recorded as cut");
    ncclProfiler_v5.stop(collective);
    ncclProfiler_v5.finalize(context);
    take();
    play_ok(count == 0, "a communicator that is closed records nothing");
}

/* ---- more than there is room for ---- */

static void
floods(void)
{
    void *context = fake_profiler_open(FAKE_PROFILER_V5, 2, NULL, RANKS, 1);
    int   rings   = 1 + 16384 / OF_ONE_RING;
    for (int i = 0; i < rings; i++) {
        struct fake_ring ring = ring_of(1, (uint64_t)i, 0);
        fake_profiler_ring(FAKE_PROFILER_V5, context, &ring);
    }
    uint64_t lost = take();
    play_ok(count == 16384 && lost == (uint64_t)rings * OF_ONE_RING - 16384, "what finds no room is counted");
    struct fake_ring ring = ring_of(1, 1, 0);
    fake_profiler_ring(FAKE_PROFILER_V5, context, &ring);
    lost = take();
    play_ok(count == OF_ONE_RING && lost == 0, "when there is room again all is recorded");
    void                    *first = NULL, *handle = NULL;
    struct event_description d = { .type = EVENT_COLLECTIVE, .collective = { .function = "AllReduce" } };
    ncclProfiler_v5.start(context, &first, &d);
    for (int i = 0; i < 8192; i++) {
        ncclProfiler_v5.start(context, &handle, &d);
        ncclProfiler_v5.stop(handle);
    }
    ncclProfiler_v5.stop(first);
    lost = take();
    play_ok(count == 8192 && lost == 1, "what never ends gives way to what comes, and counts as lost");
    fake_profiler_close(FAKE_PROFILER_V5, context);
}

/* ---- switching it on ---- */

static void
switches(void)
{
    struct backend_host host = play_host();
    struct backend_why  why  = { 0 };
    void               *context = fake_profiler_open(FAKE_PROFILER_V6, 3, NULL, RANKS, 0);
    struct fake_ring    ring = ring_of(0, 0, 0);
    fake_profiler_ring(FAKE_PROFILER_V6, context, &ring);
    (void)take();
    play_ok(count == 0, "nothing is recorded before somebody asks for it");
    setenv("NCCL_PROFILER_PLUGIN", "/somebody/elses.so", 1);
    play_ok(!ringside_nccl_1.profile(&host, &why) && strstr(why.text, "NCCL_PROFILER_PLUGIN") != NULL,
            "another profiler that the user has named stays, and that is said");
    unsetenv("NCCL_PROFILER_PLUGIN");
    bool on = ringside_nccl_1.profile(&host, &why);
    play_ok(on && getenv("NCCL_PROFILER_PLUGIN") != NULL && getenv("NCCL_PROFILER_PLUGIN")[0] == '/',
            "NCCL is told where its profiler lies");
    fake_profiler_close(FAKE_PROFILER_V6, context);
}

/* The tests' NCCL calls the profiler as NCCL does: what a rank launches is recorded under its group's number. */
static bool
barrier_of(struct play_rank *rank)
{
    static const struct nccl_operation one = { .kind = NCCL_BARRIER };
    bool done = play_join(rank) && play_await(rank) == NCCL_READY &&
                play_launch(rank, &(struct nccl_launch){ &one, 1, NCCL_F32, NCCL_SUM, 0 });
    play_meet(rank);
    play_leave(rank, false);
    return done;
}

static void
together(void)
{
    int of[2] = { 0, 0 };
    play_ranks(2, "a collective with the profiler on works as without", barrier_of);
    take();
    for (size_t i = 0; i < count; i++)
        if (records[i].kind == NCCL_RECORD_COLLECTIVE && records[i].number == 3 && records[i].rank < 2)
            of[records[i].rank]++;
    play_ok(of[0] == 1 && of[1] == 1, "each rank's collective is recorded under the number of its group");
    play_ok(all_are(channel_fits, NCCL_RECORD_CHANNEL) && count_of(NCCL_RECORD_CHANNEL) == 4,
            "channels of the kernel have a length");
}

void
play_profiler(void)
{
    records = calloc(MOST, sizeof *records);
    switches();
    plays(FAKE_PROFILER_V4);
    plays(FAKE_PROFILER_V5);
    plays(FAKE_PROFILER_V6);
    clocks();
    nonsense();
    floods();
    together();
    struct backend_why why;
    play_ok(ringside_nccl_1.profile(NULL, &why), "it can be switched off");
    free(records);
}
