/* Plays what NCCL 2.27 to 2.29 call of a profiler for a ring all-reduce over the network: the collective, which ends
 * when it is queued; then from the network thread, for each channel, an operation that sends and one that receives,
 * with a message a step; and the kernel's own channel with the GPU's stamps.
 *
 * Interface: fake_profiler_open, fake_profiler_ring, fake_profiler_close. */
#include "nccl.h"

#include <string.h>
#include <unistd.h>
#include "plugins/cuda/profiler.h"

static void *
begin(enum fake_profiler version, void *context, struct event_description *description)
{
    unsigned char cut[104];
    void         *handle = NULL;
    if (version != FAKE_PROFILER_V4) {
        (version == FAKE_PROFILER_V5 ? &ncclProfiler_v5 : &ncclProfiler_v6)->start(context, &handle, description);
        return handle;
    }
    memcpy(cut, description, sizeof cut);     /* 4 ends here, and around its one byte of a type anything may lie */
    memset(cut + 1, 0xa5, 7);
    ncclProfiler_v4.start(context, &handle, (struct event_description *)(void *)cut);
    return handle;
}

static void
end(void *handle)
{
    ncclProfiler_v5.stop(handle);
}

void *
fake_profiler_open(enum fake_profiler version, uint64_t comm, const char *name, int ranks, int rank)
{
    void *context = NULL;
    int   mask    = 0;
    if (version == FAKE_PROFILER_V4)
        ncclProfiler_v4.init(&context, &mask, name, comm, 1, ranks, rank, NULL);
    else
        ncclProfiler_v5.init(&context, comm, &mask, name, 1, ranks, rank, NULL);
    return mask == EVENT_MASK ? context : NULL;
}

void
fake_profiler_close(enum fake_profiler version, void *context)
{
    (version == FAKE_PROFILER_V4 ? ncclProfiler_v4.finalize : ncclProfiler_v5.finalize)(context);
}

/* A message is posted, waits for the kernel, for its receiver's credit and for the network; or the other way round. */
static void
play_step(enum fake_profiler version, void *context, void *operation, const struct fake_ring *ring, int step,
          bool is_send)
{
    static const int sends[] = { STATE_SEND_GPU, STATE_SEND_PEER, STATE_SEND_NET };
    static const int receives[] = { STATE_RECV_NET, STATE_RECV_FLUSH, STATE_RECV_GPU };
    union event_change       change = { .step = { ring->bytes / (uint64_t)(ring->ranks * ring->channels) } };
    struct event_description d = { .type = EVENT_STEP, .parent = operation, .rank = ring->rank, .step = { step } };
    void                    *handle = begin(version, context, &d);
    for (int i = 0; i < 3; i++)
        ncclProfiler_v5.change(handle, (is_send ? sends : receives)[i], &change);
    end(handle);
}

static void
play_operation(enum fake_profiler version, void *context, void *collective, const struct fake_ring *ring, int channel,
               bool is_send)
{
    int peer = (ring->rank + (is_send ? 1 : ring->ranks - 1)) % ring->ranks;
    struct event_description d = {
        .type = EVENT_PROXY, .parent = collective, .rank = ring->rank,
        .proxy = { .pid = getpid(), .channel = (uint8_t)channel, .peer = peer, .steps = ring->steps,
                   .chunk = (int)(ring->bytes / (uint64_t)ring->ranks), .is_send = is_send },
    };
    void *operation = begin(version, context, &d);
    ncclProfiler_v5.change(operation, STATE_PROXY_GOES, NULL);
    for (int step = 0; step < ring->steps; step++)
        play_step(version, context, operation, ring, step, is_send);
    end(operation);
}

static void
play_channel(enum fake_profiler version, void *context, void *collective, const struct fake_ring *ring, int channel)
{
    struct event_description d = { .type = EVENT_CHANNEL, .parent = collective, .rank = ring->rank,
                                   .channel = { (uint8_t)channel, ring->stamp } };
    union event_change change = { .channel = { ring->stamp + 1000 * (uint64_t)ring->steps } };
    void              *handle = begin(version, context, &d);
    ncclProfiler_v5.change(handle, STATE_CHANNEL_STOP, &change);
    end(handle);
}

void
fake_profiler_ring(enum fake_profiler version, void *context, const struct fake_ring *ring)
{
    struct event_description group = { .type = EVENT_GROUP, .rank = ring->rank };
    void                    *all   = begin(version, context, &group);
    struct event_description d = {
        .type = EVENT_COLLECTIVE, .parent = all, .rank = ring->rank,
        .collective = { .sequence = ring->sequence, .function = ring->function, .count = ring->count,
                       .dtype = ring->dtype,
                        .channels = (uint8_t)ring->channels, .warps = 16, .algorithm = ring->algorithm,
                        .protocol = ring->protocol, .group = all },
    };
    void *collective = begin(version, context, &d);
    end(collective);
    end(all);
    for (int channel = 0; channel < ring->channels; channel++) {
        play_operation(version, context, collective, ring, channel, true);
        play_operation(version, context, collective, ring, channel, false);
        play_channel(version, context, collective, ring, channel);
    }
}
