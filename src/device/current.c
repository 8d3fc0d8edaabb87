/* The stream that a task's work on a device goes to: the device's compute stream, unless another one was made current.
 * Four numbers + 1 of 16 bits in the task's slot, those that differ from the default.
 *
 * Interface: stream_current, stream_make_current; stream_borrow, stream_return. In PyTorch: c10/cuda/CUDAStream.cpp. */
#include "device/stream_internal.h"

static struct stream *
stream_in_slot(struct task *me, struct devices *devices, int place)
{
    unsigned number = me->slots[SLOT_STREAM] >> 16 * place & 0xffff;
    return number == 0 ? NULL : stream_numbered(devices, number - 1);
}

struct stream *
stream_current(struct task *me, int device)
{
    struct devices *devices = devices_of(me);
    if (devices == NULL || !device_check(me, device))
        return NULL;
    if (device == DEVICE_CPU)
        return failed_null(me, E_DEVICE, "the host has no streams");
    for (int place = 0; me->slots[SLOT_STREAM] != 0 && place < 4; place++) {
        struct stream *stream = stream_in_slot(me, devices, place);
        if (stream != NULL && stream->device == device)
            return stream;
    }
    return devices->all[device]->compute;
}

bool
stream_make_current(struct task *me, struct stream *stream)
{
    if (stream == NULL)
        return false;
    struct devices *devices = stream->devices;
    uint64_t        number = stream == devices->all[stream->device]->compute ? 0 : (uint64_t)stream->number + 1;
    int             room = -1;
    for (int place = 0; place < 4; place++) {
        struct stream *other = stream_in_slot(me, devices, place);
        if (other != NULL && other->device == stream->device)
            me->slots[SLOT_STREAM] &= ~((uint64_t)0xffff << 16 * place);
        if (room < 0 && (other == NULL || other->device == stream->device))
            room = place;
    }
    if (number == 0)
        return true;
    if (room < 0)
        return failed(me, E_RUNTIME, "at most four devices can have another current stream at a time");
    me->slots[SLOT_STREAM] |= number << 16 * room;
    return true;
}

uint64_t
stream_borrow(struct task *me, struct stream *stream)
{
    uint64_t before = me->slots[SLOT_STREAM];
    bool     full = true;
    for (int place = 0; place < 4; place++) {
        struct stream *other = stream_in_slot(me, stream->devices, place);
        full = full && other != NULL && other->device != stream->device;
    }
    if (full)
        me->slots[SLOT_STREAM] = 0;
    (void)stream_make_current(me, stream);
    return before;
}

void
stream_return(struct task *me, uint64_t borrowed)
{
    me->slots[SLOT_STREAM] = borrowed;
}
