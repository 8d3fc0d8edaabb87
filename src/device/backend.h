/* What stands behind the devices of a run: the table that a kind of device fills. Virtual devices (device/virtual.c) are
 * host memory; a plug-in (src/plugins/cuda) fills the same table for real ones. Nothing above device/ and tensor/ knows
 * which it is, and nothing but these functions touches a device's memory, unless the table says that it is the host's.
 *
 * The pool, the order of streams, the race checker and all accounts are above this table, once for all kinds. A back-end
 * has memory in segments, queues, and marks in them. It calls nothing of the engine and may be called from any thread,
 * one stream by one thread at a time. Every function that can fail answers false or NULL and says why in one sentence,
 * which the caller makes an error of its task. After TROUBLE_BROKEN (a sticky error) every later call fails with the same
 * words: the process has to end.
 *
 * Order of use: probe; open for each device, stream; segment; copy, set, launch; mark, wait, is_past; close.
 *
 * In PyTorch: c10/core/impl/DeviceGuardImplInterface.h, c10/cuda/CUDAStream.h. */
#ifndef DEVICE_BACKEND_H
#define DEVICE_BACKEND_H
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#ifdef __cplusplus
extern "C" {
#endif

enum { DEVICE_BACKEND_ABI = 1, PROBE_DEVICES = 16 };
#define DEVICE_BACKEND_SYMBOL "ringside_device_backend_1"   /* a struct device_backend, of a plug-in */

enum backend_trouble {
    TROUBLE_NONE,
    TROUBLE_MISSING,     /* there is no such device here, or what it needs is not installed */
    TROUBLE_MEMORY,      /* the device, or the host, has no more */
    TROUBLE_FAILED,      /* this call failed; others may work */
    TROUBLE_BROKEN       /* an earlier operation failed for good: nothing works any more */
};
struct backend_why { enum backend_trouble trouble; char text[400]; };

/* What this machine has, for people: `ringside devices`. Texts are whole phrases. */
struct probed_device { char name[96]; uint64_t memory; int major, minor, processors; char note[96]; };
struct backend_probe {
    int                  count;                   /* physical devices that can be used; 0: `why` says why not */
    struct probed_device device[PROBE_DEVICES];
    char                 version[160];            /* "runtime 13.0, driver 13.0"; what was built in */
    char                 why[400];
    char                 parts[8][200];           /* other lines worth telling: products, collectives, timelines */
    int                  part_count;
};

struct backend_device; struct backend_stream; struct backend_mark;

/* `bytes` in one piece from one place to another. Devices as the engine counts them; -1: the host. Host memory must be of
 * `pinned`, or the call is not asynchronous. */
struct backend_copy { void *to; const void *from; size_t bytes; int to_device, from_device; };

/* What a device did, in its own order: finished work of a stream, of the launch or copy whose `ticket` it is. One
 * ticket may have several. Times are those of `clock` below. */
struct backend_record { uint64_t ticket, begin, end; const struct backend_stream *stream; uint32_t grid, block; };

/* What a back-end may ask of the run: nanoseconds of the clock that its records are to be told in. */
struct backend_host { uint64_t (*clock)(void *run); void *run; bool timeline; };

struct device_backend {
    uint32_t    abi, size;              /* DEVICE_BACKEND_ABI, sizeof(struct device_backend) */
    const char *name;                   /* "virtual", "cuda": as --device spells it */
    bool        on_host;                /* its memory is the host's, its work done by who launches: what follows is not
                                           asked but for probe, segment and segment_give */

    void (*probe)(struct backend_probe *probe);      /* never fails */

    /* device:N of the run. Several may be one physical device: N modulo their count. */
    struct backend_device *(*open)(int device, const struct backend_host *host, struct backend_why *why);
    void (*close)(struct backend_device *device);    /* its streams are closed, its segments given back */
    int  (*physical)(const struct backend_device *device);
    uint64_t (*memory)(const struct backend_device *device);     /* bytes that the physical one has */

    /* Aligned to 512 bytes at least. What a fresh segment holds nobody knows. */
    void *(*segment)(struct backend_device *device, size_t bytes, struct backend_why *why);
    void  (*segment_give)(struct backend_device *device, void *segment, size_t bytes); /* nothing queued uses it */
    /* Host memory that devices can read and write, too, at the same address. */
    void *(*pinned)(size_t bytes, struct backend_why *why);
    void  (*pinned_give)(void *memory, size_t bytes);

    struct backend_stream *(*stream)(struct backend_device *device, bool urgent, struct backend_why *why);
    void (*stream_close)(struct backend_stream *stream);         /* waits for what is in it */

    /* Queued behind what is in the stream; they return at once. `ticket`: what records of it are told under; 0: none. */
    bool (*copy)(struct backend_stream *stream, const struct backend_copy *copy, uint64_t ticket, struct backend_why *why);
    bool (*set)(struct backend_stream *stream, void *to, int value, size_t bytes, struct backend_why *why);
    /* `kernel`: enum kernel; `params`: what kernels.h says it takes. Pointers in it are to memory of this device, to
     * pinned memory, or to memory of another device on the same physical one. */
    bool (*launch)(struct backend_stream *stream, int kernel, const void *params, size_t bytes, uint64_t ticket,
                   struct backend_why *why);
    bool   (*has)(int kernel, const void *params);   /* there is a kernel for these types; else the host does it */
    size_t (*room)(int kernel, const void *params);  /* workspace that it wants at params' `workspace`, or 0 */

    /* A mark is where a stream stood when it was put there. One that was never put is past. */
    struct backend_mark *(*mark)(struct backend_device *device, struct backend_why *why);
    void (*mark_free)(struct backend_mark *mark);
    bool (*put)(struct backend_mark *mark, struct backend_stream *stream, struct backend_why *why);
    bool (*wait)(struct backend_stream *stream, struct backend_mark *mark, struct backend_why *why); /* of any device */
    /* 1: the stream is past it, 0: not yet, -1: failed. */
    int  (*is_past)(struct backend_mark *mark, struct backend_why *why);
    bool (*finish)(struct backend_stream *stream, struct backend_why *why); /* the caller's thread waits for all in it */

    /* Finished work that nobody was told of, by stream in order of time; answers how many. `lost`: records that were
     * dropped since the last call. */
    size_t (*records)(struct backend_record *out, size_t room, uint64_t *lost);
    /* Named ranges of the calling thread, for profilers of the device's maker; `event`: the time of its begin in the
     * trace. */
    void (*range_begin)(const char *name, uint64_t event);
    void (*range_end)(void);
};

extern const struct device_backend backend_virtual;
#ifdef __cplusplus
}
#endif
#endif
