/* Communicators of the back-end nccl: how their members find each other, and how whoever waits for NCCL does so,
 * with the run's deadlines, since NCCL has none. Whatever fails is told as every other back-end's failures are; then
 * the communicator is aborted, and so are, as they learn of it, those of the other ranks.
 *
 * Order of use: nccl_equip, nccl_join, nccl_launch ..., nccl_close_end. */
#include <stdio.h>
#include <string.h>
#include "c10d/nccl_internal.h"
#include "c10d/nccl_events.h"
#include "c10d/store.h"
#include "device/device.h"
#include "device/real.h"
#include "device/stream.h"

/* ---- ends ---- */

/* Its name makes the stream urgent: what is reduced is what others wait for. */
bool
nccl_equip(struct task *me, const struct nccl *nccl, int device, struct nccl_end *end)
{
    char name[32];
    if (device < 0)
        return failed(me, E_DEVICE, "the back-end nccl needs a device for rank %d, and this run has none: "
                      "rs.lesson { devices = ... } makes them", me->rank);
    snprintf(name, sizeof name, "device:%d comm", device);
    struct stream *stream = stream_new(me, device, name);
    if (stream == NULL)
        return false;
    if (stream_backend(stream) == NULL && !nccl->table->on_host)
        return failed(me, E_DEVICE, "the back-end nccl moves what lies on GPUs, and device:%d is virtual", device);
    *end = (struct nccl_end){ .stream = stream, .device = device };
    return true;
}

void
nccl_close_end(const struct nccl *nccl, struct nccl_end *end, bool is_broken)
{
    const struct nccl_table *table = nccl->table;
    if (end->comm != NULL)
        (is_broken ? table->abort : table->destroy)(end->comm);
    end->comm = NULL;
}

/* ---- waiting ---- */

static bool
give_up(struct task *me, struct nccl_channel *nccl, struct nccl_end *end, struct remote_wait *wait, const char *words)
{
    struct transport_why why;
    snprintf(why.text, sizeof why.text, "%.*s", (int)sizeof why.text - 1, words);
    atomic_store(&wait->channel->local->nccl_broken, true);
    (void)remote_failed(wait, &why);             /* what each rank was doing is told before anything is aborted */
    nccl_close_end(nccl->nccl, end, true);
    nccl_events_collect(me, nccl->nccl->events);
    return task_failed(me) ? false : failed(me, E_STOPPED, "the run is over");
}

bool
nccl_await(struct task *me, struct nccl_channel *nccl, struct nccl_end *end, struct remote_wait *wait)
{
    const struct nccl_table *table = nccl->nccl->table;
    struct backend_why       why   = { 0 };
    enum nccl_state          state;
    for (uint64_t looks = 0; (state = table->poll(end->comm, &why)) == NCCL_BUSY; looks++)
        if (!remote_pause(wait, looks))
            break;
    if (state != NCCL_READY)
        return give_up(me, nccl, end, wait, state == NCCL_FAILED ? why.text : "");
    remote_wait_end(wait);
    return true;
}

bool
nccl_launch(struct task *me, struct nccl_channel *nccl, struct nccl_end *end, const struct nccl_launch *launch,
            struct remote_wait *wait)
{
    struct backend_why why = { 0 };
    if (end->comm == NULL)
        return failed(me, E_RUNTIME, "%s: NCCL's communicator was given up after an earlier failure of this group",
                      wait->reason.what);
    if (!nccl->nccl->table->launch(end->comm, launch, &why))
        return give_up(me, nccl, end, wait, why.text);
    return nccl_await(me, nccl, end, wait);
}

/* ---- the id ---- */

static bool
make_id(struct nccl_channel *nccl, struct nccl_id *id, struct backend_why *why)
{
    return nccl->nccl->table->make_id(id, why);
}

/* Of members that share memory the first to come makes it. */
static bool
id_from_memory(struct task *me, struct nccl_channel *nccl, const struct nccl_meeting *meeting, struct remote_wait *wait,
               struct nccl_id *id, struct backend_why *why)
{
    struct monitor *monitor = &wait->channel->monitor;
    monitor_enter(me, monitor);
    if (!*meeting->has_id)
        *meeting->has_id = make_id(nccl, meeting->id, why);
    bool has = *meeting->has_id;
    *id      = *meeting->id;
    monitor_leave(me, monitor);
    return has;
}

/* 1: there, 0: not yet, -1: failed. */
static int
look_for_id(struct task *me, struct store *store, const char *key, struct nccl_id *id)
{
    struct store_text value = { NULL, 0 };
    bool              there = false;
    size_t            mark  = scope_mark(me);
    bool              ok    = store_peek(me, store, key, &value, &there);
    bool              whole = ok && there && value.count == sizeof *id;
    if (whole)
        memcpy(id, value.bytes, sizeof *id);
    scope_release(me, mark);
    return !ok ? -1 : whole ? 1 : 0;
}

/* Of processes rank 0 makes it, and the others find it in the store. */
static bool
id_from_store(struct task *me, struct nccl_channel *nccl, const struct nccl_meeting *meeting, struct remote_wait *wait,
              struct nccl_id *id, struct backend_why *why)
{
    if (meeting->rank == 0) {
        const struct store_text value = { (const char *)id->bytes, sizeof id->bytes };
        return make_id(nccl, id, why) && store_multi_set(me, nccl->store, &meeting->key, &value, 1);
    }
    for (uint64_t looks = 0;; looks++) {
        bool goes_on = remote_pause(wait, looks);
        int  got     = look_for_id(me, nccl->store, meeting->key, id);
        if (got != 0 || !goes_on)
            return got > 0;
    }
}

/* ---- joining ---- */

bool
nccl_join(struct task *me, struct nccl_channel *nccl, const struct nccl_meeting *meeting, struct nccl_end *end,
          struct remote_wait *wait)
{
    struct nccl_id     id  = { { 0 } };
    struct backend_why why = { 0 };
    bool (*find)(struct task *, struct nccl_channel *, const struct nccl_meeting *, struct remote_wait *,
                 struct nccl_id *,
                 struct backend_why *) = nccl->store != NULL ? id_from_store : id_from_memory;
    if (!find(me, nccl, meeting, wait, &id, &why))
        return give_up(me, nccl, end, wait, why.text);
    int number = nccl_events_group(nccl->nccl->events, &(struct nccl_events_group){
                     .number = meeting->number, .size = meeting->size, .ranks = meeting->ranks,
                         .device = end->device });
    const struct nccl_member member = { &id, meeting->rank, meeting->size, number, stream_backend(end->stream) };
    end->comm = nccl->nccl->table->join(&member, &why);
    if (end->comm == NULL)
        return give_up(me, nccl, end, wait, why.text);
    if (!nccl_await(me, nccl, end, wait))
        return false;
    if (meeting->rank == 0)
        nccl_events_joined(me, nccl->nccl->events, number);
    return true;
}
