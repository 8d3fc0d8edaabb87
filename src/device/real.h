/* Devices whose memory is not the host's. Who must look into it, or put something there, and is no entry of a stream, comes
 * by here; the functions wait for the device and tell the trace nothing. Virtual devices: plain copies of memory.
 *
 * A mirror is host memory, as large as a storage, in which collectives that the host does find and leave its elements: as
 * ProcessGroupGloo does with tensors on GPUs. Order of use: mirror_fetch, the collective works at mirror_data,
 * mirror_store. */
#ifndef DEVICE_REAL_H
#define DEVICE_REAL_H
#include <stdbool.h>
#include <stddef.h>
#include "device/storage.h"

struct task; struct stream; struct backend_stream; struct timeline;

bool devices_are_real(struct sched *sched);
/* For people: the physical device's own name, or "virtual device:N". */
void device_name(struct sched *sched, int device, char *name, size_t size);
/* Elements of `storage` at `from`, which lies in its memory or in its mirror, into the host's. false: failed. */
bool device_peek(struct task *me, const struct storage *storage, void *to, const void *from, size_t bytes)
    __attribute__((warn_unused_result));
/* Workspace that a kernel wants on the run's devices beside the CPU's; `kernel`, `params` as backend.h says. */
size_t devices_room(struct sched *sched, int kernel, const void *params);
/* Two of the run's devices have one memory: the same physical one. Virtual ones all do. */
bool   devices_share(struct sched *sched, int a, int b);
/* Of real devices, where a trace is written; NULL. */
struct timeline *devices_timeline(struct sched *sched);
/* The real stream behind a stream; NULL: it has none. */
struct backend_stream *stream_backend(struct stream *stream);

/* Makes the mirror; what it holds nobody knows. */
bool mirror_make(struct task *me, const struct access *access) __attribute__((warn_unused_result));
/* Bytes of an access, from the device into the mirror, which is made if there is none. Virtual devices, and the host: true. */
bool mirror_fetch(struct task *me, const struct access *access) __attribute__((warn_unused_result));
/* The same from the mirror into the device. */
bool mirror_store(struct task *me, const struct access *access) __attribute__((warn_unused_result));
/* Where the host finds the storage's bytes: its memory, or its mirror. */
static inline char *
mirror_data(const struct storage *storage)
{
    return storage->mirror != NULL ? storage->mirror : storage->data;
}
#endif
