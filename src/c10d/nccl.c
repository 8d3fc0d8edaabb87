/* The back-end nccl: see nccl.h. This file is the run's part of it, its table, and what the members of a group
 * share. */
#include "c10d/nccl_internal.h"
#include <dlfcn.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "base/place.h"
#include "c10d/job.h"
#include "c10d/nccl_events.h"
#include "device/device.h"
#include "device/real.h"

/* ---- the plug-in's table ---- */

static const struct nccl_table *
missing(struct backend_why *why, const char *text)
{
    why->trouble = TROUBLE_MISSING;
    snprintf(why->text, sizeof why->text, "%s", text);
    return NULL;
}

/* The same file that --device opens: once a process. */
const struct nccl_table *
nccl_table_open(struct backend_why *why)
{
    char file[PATH_MAX + 64];
    if (!plugin_file(getenv("RINGSIDE_FAKE_CUDA") != NULL ? "fake_cuda" : "cuda", file, sizeof file))
        return missing(why, "built without CUDA: install the CUDA toolkit (nvcc), then run make");
    if (!plugin_is_whole(file))
        return missing(why, "the CUDA plug-in's file is cut short: run make again");
    void *library = dlopen(file, RTLD_NOW | RTLD_LOCAL | RTLD_NODELETE);
    const struct nccl_table *table = library != NULL ? dlsym(library, NCCL_TABLE_SYMBOL) : NULL;
    if (library == NULL)
        return missing(why, "the CUDA plug-in cannot be opened: 'ringside devices' says why");
    if (table == NULL || table->abi != NCCL_TABLE_ABI || table->size != sizeof *table)
        return missing(why, "the CUDA plug-in belongs to another version of ringside: run make again");
    return table->version(why) != NULL ? table : NULL;
}

/* ---- the run ---- */

bool
nccl_begin(struct task *me, const struct nccl_table *table)
{
    struct backend_why why = { 0 };
    if (sched_is_stepped(me->sched))
        return failed(me, E_RUNTIME,
                      "--backend nccl: GPUs keep their own time, so ranks run by themselves: --executor free only");
    if (table == NULL && (table = nccl_table_open(&why)) == NULL)
        return failed(me, E_DEVICE, "--backend nccl: %s", why.text);
    if (!table->on_host && !devices_are_real(me->sched))
        return failed(me, E_DEVICE, "--backend nccl moves what lies on GPUs: it needs --device cuda");
    struct nccl *nccl = calloc(1, sizeof *nccl);
    if (nccl == NULL)
        return failed(me, E_MEMORY, "out of memory for NCCL");
    nccl->table  = table;
    nccl->events = nccl_events_new(me, table, devices_timeline(me->sched));
    sched_set_part(me->sched, PART_NCCL, nccl);
    return true;
}

void
nccl_tell(struct task *me)
{
    const struct nccl *nccl = sched_part(me->sched, PART_NCCL);
    if (nccl != NULL)
        nccl_events_tell(nccl->events);
}

bool
nccl_is_on(const struct sched *sched)
{
    return sched_part((struct sched *)(uintptr_t)sched, PART_NCCL) != NULL;
}

void
nccl_end(struct task *me)
{
    struct nccl *nccl = sched_part(me->sched, PART_NCCL);
    if (nccl == NULL)
        return;
    nccl_events_free(me, nccl->events);
    sched_set_part(me->sched, PART_NCCL, NULL);
    free(nccl);
}

/* NCCL wants a GPU for each rank of this machine. */
const struct group_backend *
nccl_backend(struct task *me, const struct world_options *options)
{
    struct nccl *nccl = sched_part(me->sched, PART_NCCL);
    if (nccl == NULL || options->backend != NULL)
        return NULL;
    int ranks = options->job != NULL ? job_local_size(options->job) : options->size, gpus = nccl->table->gpus();
    if (ranks <= gpus)
        return &backend_nccl;
    if (!atomic_exchange(&nccl->told, true)) {
        char text[160];
        snprintf(text, sizeof text, "%d ranks on %d GPU%s: NCCL wants one GPU per rank; using Ringside's ring", ranks,
                 gpus, gpus == 1 ? "" : "s");
        task_warn(me, text);
    }
    return NULL;
}

/* ---- worlds: tasks of one process, or processes ---- */

static bool
is_remote(const void *transport)
{
    const struct local *local = transport;
    return local->job != NULL;
}

/* Between processes what lies in the host's memory goes by Gloo; where that is missing, such tensors are refused. */
static void *
open_world(struct task *me, const struct world_options *options)
{
    bool  by_gloo = options->job != NULL && options->size > 1 && job_transport_table(options->job) != NULL;
    void *transport = (by_gloo ? &backend_remote : &backend_local)->open(me, options);
    struct local *local = transport;
    if (local != NULL && options->job != NULL && options->size > 1)
        local->job = options->job;
    return transport;
}

/* ---- groups ---- */

static bool
has_gloo(const struct local *local)
{
    return local->job != NULL && job_transport_table(local->job) != NULL;
}

static const struct group_backend *
beside(const struct local *local)
{
    return has_gloo(local) ? &backend_remote : &backend_local;
}

static void *
connect(struct task *me, void *transport, const int *ranks, int size)
{
    struct channel      *channel = beside(transport)->connect(me, transport, ranks, size);
    struct nccl_channel *nccl    = channel != NULL ? calloc(1, sizeof *nccl) : NULL;
    if (nccl != NULL)
        nccl->ends = calloc((size_t)size, sizeof *nccl->ends);
    if (channel != NULL && (nccl == NULL || nccl->ends == NULL)) {
        free(nccl);
        beside(transport)->disconnect(me, channel);
        return failed_null(me, E_MEMORY, "out of memory for a group of %d ranks", size);
    }
    if (channel == NULL)
        return NULL;
    nccl->nccl    = sched_part(me->sched, PART_NCCL);
    channel->nccl = nccl;
    return channel;
}

/* Whoever is left alone in a communicator would wait for the others: then it is aborted. */
static void
disconnect(struct task *me, void *channel_)
{
    struct channel      *channel = channel_;
    struct nccl_channel *nccl    = channel->nccl;
    struct local        *local   = channel->local;
    bool broken = atomic_load(&local->nccl_broken) ||
                  (is_remote(local) && job_has_lost(me, local->job, channel->ranks, channel->size));
    for (int i = 0; i < channel->size; i++)
        nccl_close_end(nccl->nccl, &nccl->ends[i], broken);
    for (struct nccl_way *way = nccl->ways, *next; way != NULL; way = next) {
        next = way->next;
        for (int side = 0; side < 2; side++)
            nccl_close_end(nccl->nccl, &way->side[side].end, broken);
        free(way);
    }
    nccl_events_collect(me, nccl->nccl->events);
    free(nccl->ends);
    free(nccl);
    channel->nccl = NULL;
    beside(local)->disconnect(me, channel);
}

static int
device_of_rank(struct task *me, int rank)
{
    int count = device_count(me);
    return me->device >= 0 && me->device < count ? me->device : count > 0 ? rank % count : -1;
}

/* NCCL finds that, too, when all have come; here the sentence has the lesson's words. */
static bool
has_own_gpu(struct task *me, struct channel *channel, int rank)
{
    struct nccl_channel     *nccl  = channel->nccl;
    const struct nccl_table *table = nccl->nccl->table;
    const struct nccl_end   *mine  = &nccl->ends[rank];
    int                      other = -1;
    monitor_enter(me, &channel->monitor);
    for (int i = 0; i < channel->size && !table->on_host; i++)
        if (i != rank && nccl->ends[i].stream != NULL &&
            table->physical(stream_backend(nccl->ends[i].stream)) == table->physical(stream_backend(mine->stream)))
            other = i;
    monitor_leave(me, &channel->monitor);
    return other < 0 || failed(me, E_DEVICE,
                               "rank %d is on device:%d and rank %d on device:%d, which are one GPU: NCCL "
                               "wants one GPU per rank", channel->ranks[rank], mine->device, channel->ranks[other],
                               nccl->ends[other].device);
}

static bool
take_device(struct task *me, struct channel *channel, int rank)
{
    struct nccl_channel *nccl = channel->nccl;
    struct nccl_end      end  = { NULL, NULL, -1 };
    if (!nccl_equip(me, nccl->nccl, device_of_rank(me, channel->ranks[rank]), &end))
        return false;
    monitor_enter(me, &channel->monitor);
    nccl->ends[rank] = end;
    monitor_leave(me, &channel->monitor);
    return has_own_gpu(me, channel, rank);
}

/* All members have come, or will. */
static bool
meet(struct task *me, void *channel_, const struct group_meeting *given)
{
    struct channel      *channel = channel_;
    struct nccl_channel *nccl    = channel->nccl;
    const struct wait_reason reason = { .what = given->what, .sequence = -1, .group = -1, .peer = -1,
                                        .timeout_ps = given->timeout_ps };
    struct remote_wait  wait;
    char                key[48];
    if (!beside(channel->local)->meet(me, channel, given) || !take_device(me, channel, given->rank))
        return false;
    nccl->meeting = given->id;
    nccl->number  = communicator_number(given->communicator);
    nccl->store   = given->store;
    snprintf(key, sizeof key, "nccl/%016llx", (unsigned long long)given->id);
    remote_wait_begin(&wait, me, channel, &reason);
    wait.vain = &remote_meeting_vain;
    wait.what = given;
    const struct nccl_meeting meeting = { key, &nccl->id, &nccl->has_id, given->rank, channel->size, nccl->number,
                                          channel->ranks };
    return nccl_join(me, nccl, &meeting, &nccl->ends[given->rank], &wait);
}

static bool
has_algorithm(const char *name)
{
    return strcmp(name, "auto") == 0 || algorithm_is_built_in(name);
}

static bool
stays(struct task *me, const struct collective *call)
{
    (void)me, (void)call;
    return true;
}

const struct group_backend backend_nccl = {
    .abi        = GROUP_BACKEND_ABI,
    .on_devices = true,
    .name       = "nccl",
    .open       = open_world,
    .close      = local_close,
    .wake       = local_wake,
    .connect    = connect,
    .meet       = meet,
    .disconnect = disconnect,
    .accepts    = nccl_accepts,
    .stays      = stays,
    .has_algorithm = has_algorithm,
    .all_reduce = local_all_reduce,
    .broadcast  = local_broadcast,
    .reduce     = local_reduce,
    .all_gather = local_all_gather,
    .gather     = local_gather,
    .scatter    = local_scatter,
    .reduce_scatter = local_reduce_scatter,
    .all_to_all = local_all_to_all,
    .barrier    = local_barrier,
    .post       = local_post,
    .send       = local_send,
    .recv       = local_recv,
    .withdraw   = local_withdraw,
};
