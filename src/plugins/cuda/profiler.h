/* NCCL's profiler interface as NCCL calls it, declared here from its public description: the plug-in needs no header of
 * NCCL's. Versions 4 (NCCL 2.27), 5 (2.28) and 6 (2.29) agree in all that is read; 4 counts the type as one byte and
 * ends eight bytes earlier. The numbers are NCCL's. */
#ifndef CUDA_PROFILER_H
#define CUDA_PROFILER_H
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

/* Kinds of events, one bit each. */
enum {
    EVENT_GROUP = 1 << 0, EVENT_COLLECTIVE = 1 << 1, EVENT_P2P = 1 << 2, EVENT_PROXY = 1 << 3, EVENT_STEP = 1 << 4,
    EVENT_CONTROL = 1 << 5, EVENT_CHANNEL = 1 << 6, EVENT_NET = 1 << 7, EVENT_COPY_ENGINE = 1 << 12
};
/* What is asked for, always: NCCL keeps one number for the whole process, the one that came last. */
enum { EVENT_MASK = EVENT_GROUP | EVENT_COLLECTIVE | EVENT_P2P | EVENT_PROXY | EVENT_STEP | EVENT_CHANNEL |
                    EVENT_COPY_ENGINE };

/* Through which an event goes. A message that is sent waits for the kernel, for its receiver's credit, for the network;
 * one that is received for the network, for a flush, for the kernel. */
enum {
    STATE_SEND_GPU = 8, STATE_SEND_NET = 9, STATE_RECV_NET = 10, STATE_RECV_FLUSH = 11, STATE_RECV_GPU = 12,
    STATE_PROXY_GOES = 19, STATE_SEND_PEER = 20, STATE_CHANNEL_STOP = 22
};

struct event_collective {
    uint64_t    sequence;
    const char *function;
    const void *send;
    void       *recv;
    size_t      count;
    int         root;
    const char *dtype;
    uint8_t     channels, warps;
    const char *algorithm, *protocol;
    void       *group;                       /* from 5 on */
};
struct event_p2p { const char *function; void *data; const char *dtype; size_t count; int peer; uint8_t channels; };
struct event_proxy { pid_t pid; uint8_t channel; int peer, steps, chunk, is_send; };
struct event_channel { uint8_t channel; uint64_t stamp; };
struct event_copy_engine {
    uint64_t    sequence;
    const char *function;
    const void *send;
    void       *recv;
    size_t      count;
    int         root;
    const char *dtype, *synchronises;
    bool        within;
    uint32_t    batch, batches, number;
    void       *stream;
};

struct event_description {
    uint64_t type;                           /* in 4: one byte */
    void    *parent;
    int      rank;
    union {
        struct event_collective  collective;
        struct event_p2p         p2p;
        struct event_proxy       proxy;
        struct { int step; }     step;
        struct event_channel     channel;
        struct event_copy_engine copy_engine;
    };
};
union event_change { struct { size_t bytes; } step; struct { uint64_t stamp; } channel; void *data; };

_Static_assert(sizeof(struct event_description) == 112, "5 and 6; 4 has 104 and ends before `group`");
_Static_assert(offsetof(struct event_description, parent) == 8 && offsetof(struct event_description, rank) == 16,
               "head");
_Static_assert(offsetof(struct event_description, collective.sequence) == 24, "collective");
_Static_assert(offsetof(struct event_description, collective.count) == 56, "collective");
_Static_assert(offsetof(struct event_description, collective.algorithm) == 88, "collective");
_Static_assert(offsetof(struct event_description, collective.group) == 104, "where 4 ends");
_Static_assert(offsetof(struct event_description, p2p.count) == 48 && offsetof(struct event_description,
                                                                               p2p.peer) == 56, "p2p");
_Static_assert(offsetof(struct event_description, proxy.peer) == 32, "proxy");
_Static_assert(offsetof(struct event_description, proxy.steps) == 36, "proxy");
_Static_assert(offsetof(struct event_description, proxy.chunk) == 40, "proxy");
_Static_assert(offsetof(struct event_description, channel.channel) == 24, "channel");
_Static_assert(offsetof(struct event_description, channel.stamp) == 32, "channel");
_Static_assert(offsetof(struct event_description, copy_engine.synchronises) == 80, "copy engine");
_Static_assert(sizeof(union event_change) == 8, "changes");

/* What NCCL looks up by the names ncclProfiler_v4 to _v6. All answer NCCL's ncclSuccess. */
struct profiler_v4 {
    const char *name;
    int (*init)(void **context, int *mask, const char *name, uint64_t comm, int nodes, int ranks, int rank, void *log);
    int (*start)(void *context, void **handle, struct event_description *description);
    int (*stop)(void *handle);
    int (*change)(void *handle, int state, union event_change *change);
    int (*finalize)(void *context);
};
struct profiler_v5 {                         /* 6 is the same */
    const char *name;
    int (*init)(void **context, uint64_t comm, int *mask, const char *name, int nodes, int ranks, int rank, void *log);
    int (*start)(void *context, void **handle, struct event_description *description);
    int (*stop)(void *handle);
    int (*change)(void *handle, int state, union event_change *change);
    int (*finalize)(void *context);
};
_Static_assert(sizeof(struct profiler_v4) == 48 && sizeof(struct profiler_v5) == 48, "the interface");

extern const struct profiler_v4 ncclProfiler_v4;
extern const struct profiler_v5 ncclProfiler_v5, ncclProfiler_v6;

/* ---- gpu_clock.c: a GPU's nanoseconds (globaltimer) in the host's ---- */

/* How far the GPU's clock is ahead of the host's: somewhere from `least` to `most`. */
struct gpu_clock { int64_t least, most; uint64_t at; bool is_known; };   /* learned at that time of the host */
/* What began after the host's `after` and was over before its `before` had these stamps of the GPU. */
void     gpu_clock_learn(struct gpu_clock *clock, uint64_t after, uint64_t first, uint64_t last, uint64_t before);
uint64_t gpu_clock_host(const struct gpu_clock *clock, uint64_t stamp);    /* 0: not known yet */
#endif
