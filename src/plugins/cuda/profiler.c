/* What NCCL tells of its work: its profiler interface, versions 4 to 6, by which NCCL calls us whenever something of
 * its own begins, changes or ends: on the thread that asked, on its network ("proxy") thread. What has ended becomes
 * a record for the engine to take.
 *
 * A handle is a number and no address: NCCL may ask about what was forgotten, and about what never was. A collective
 * "ends" when it was queued, before the work on its channels begins that names it as its parent, so what has ended
 * is remembered until its place is needed.
 *
 * All this is the process's: NCCL opens one profiler for all communicators. After a fork, or in NCCL's network
 * thread of another process, numbers are of another process: NCCL says which, and they are left alone.
 *
 * Interface: profiler_open, profiler_records, profiler_name; ncclProfiler_v4, _v5, _v6 are NCCL's to call. */
#include <dlfcn.h>
#include <limits.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include "plugins/cuda/nccl_api.h"
#include "plugins/cuda/profiler.h"

enum { EVENTS = 8192, RECORDS = 16384, COMMS = 256, PATH_LONGEST = 254 };

struct comm { uint64_t id, hash; int number, rank, ranks; struct gpu_clock clock; };

struct event {
    uint64_t           id, comm;         /* 0: free; its communicator's id */
    bool               is_over;
    struct nccl_record record;
    uint64_t           asked;            /* of a channel: when the collective was */
    uint64_t           first, last;      /* and the GPU's stamps */
    int                state;            /* of a message: what it waits for, since: */
    uint64_t           since;
};

static struct {
    pthread_mutex_t      mutex;
    struct backend_host  host;
    bool                 is_on;
    uint64_t             next_event, next_comm;
    struct comm          comms[COMMS];
    struct event        *events;         /* EVENTS; the one with number n at n % EVENTS */
    struct nccl_record  *records;        /* RECORDS, a ring */
    size_t               first, count;
    uint64_t             lost;
} profiler = { .mutex = PTHREAD_MUTEX_INITIALIZER };

/* ---- names ---- */

void
profiler_name(int number, char out[NCCL_NAME])
{
    snprintf(out, NCCL_NAME, "ringside %d", number);
}

static int
number_of(const char *name)
{
    int number = -1;
    return name != NULL && sscanf(name, "ringside %d", &number) == 1 && number >= 0 ? number : -1;
}

static void
copy_text(char *out, size_t room, const char *text)
{
    snprintf(out, room, "%s", text != NULL ? text : "");
}

static size_t
dtype_bytes(const char *dtype)
{
    static const struct { const char *name; size_t bytes; } sizes[] = {
        { "ncclInt8", 1 },     { "ncclChar", 1 },    { "ncclUint8", 1 },    { "ncclInt32", 4 },    { "ncclInt", 4 },
        { "ncclUint32", 4 },   { "ncclInt64", 8 },   { "ncclUint64", 8 },   { "ncclFloat16", 2 },  { "ncclHalf", 2 },
        { "ncclFloat32", 4 },  { "ncclFloat", 4 },   { "ncclFloat64", 8 },  { "ncclDouble", 8 },
            { "ncclBfloat16", 2 },
        { "ncclFloat8e4m3", 1 }, { "ncclFloat8e5m2", 1 },
    };
    for (size_t i = 0; dtype != NULL && i < sizeof sizes / sizeof *sizes; i++)
        if (strcmp(dtype, sizes[i].name) == 0)
            return sizes[i].bytes;
    return 0;
}

/* ---- in the mutex ---- */

static uint64_t
now(void)
{
    return profiler.host.clock(profiler.host.run);
}

static struct comm *
comm_of(uint64_t id)
{
    struct comm *comm = &profiler.comms[id % COMMS];
    return id != 0 && comm->id == id ? comm : NULL;
}

static struct event *
event_of(const void *handle)
{
    uint64_t      id    = (uint64_t)(uintptr_t)handle;
    struct event *event = profiler.events != NULL ? &profiler.events[id % EVENTS] : NULL;
    return id != 0 && event != NULL && event->id == id ? event : NULL;
}

static void
put_record(const struct nccl_record *record)
{
    if (profiler.count == RECORDS) {
        profiler.lost++;
        return;
    }
    profiler.records[(profiler.first + profiler.count++) % RECORDS] = *record;
}

/* The GPU's stamps; before they can be told in our clock, when NCCL's thread saw them. */
static void
settle_channel(struct event *event, uint64_t seen)
{
    struct comm *comm = comm_of(event->comm);
    if (comm == NULL || event->first == 0)
        return;
    if (event->last != 0)
        gpu_clock_learn(&comm->clock, event->asked, event->first, event->last, seen);
    uint64_t begin = gpu_clock_host(&comm->clock, event->first), end = gpu_clock_host(&comm->clock, event->last);
    if (begin == 0 || event->last == 0)
        return;
    event->record.begin = begin;
    event->record.end   = end;
}

/* The time in this state is what it waited for. */
static void
leave_state(struct event *event, uint64_t time)
{
    uint64_t spent = time > event->since ? time - event->since : 0;
    switch (event->state) {
    case STATE_SEND_GPU:
    case STATE_RECV_GPU:
    case STATE_RECV_FLUSH: event->record.wait_gpu += spent; break;
    case STATE_SEND_PEER: event->record.wait_peer += spent; break;
    case STATE_SEND_NET:
    case STATE_RECV_NET: event->record.wait_net += spent; break;
    default: break;
    }
    event->since = time;
}

static void
end_event(struct event *event, bool is_cut)
{
    uint64_t time = now();
    event->is_over       = true;
    event->record.end    = time;
    event->record.is_cut = is_cut;
    if (event->record.kind == NCCL_RECORD_STEP)
        leave_state(event, time);
    if (event->record.kind == NCCL_RECORD_CHANNEL)
        settle_channel(event, time);
    put_record(&event->record);
}

/* What takes the place of something that never ended: that is lost. */
static struct event *
begin_event(const struct comm *comm, enum nccl_record_kind kind)
{
    uint64_t      id    = ++profiler.next_event;
    struct event *event = &profiler.events[id % EVENTS];
    profiler.lost += event->id != 0 && !event->is_over;
    *event = (struct event){ .id = id, .comm = comm->id,
                             .record = { .kind = kind, .comm = comm->hash, .number = comm->number, .rank = comm->rank,
                                         .ranks = comm->ranks, .channels = -1, .channel = -1, .peer = -1, .step = -1,
                                         .begin = now() } };
    event->asked = event->since = event->record.begin;
    return event;
}

/* What belongs to something says what that was. */
static void
take_from_parent(struct event *event, const struct event *parent)
{
    const struct nccl_record *from = &parent->record;
    struct nccl_record       *to   = &event->record;
    if (parent->comm != event->comm)
        return;
    to->sequence = from->sequence;
    to->channels = from->channels;
    memcpy(to->function, from->function, sizeof to->function);
    memcpy(to->dtype, from->dtype, sizeof to->dtype);
    memcpy(to->algorithm, from->algorithm, sizeof to->algorithm);
    memcpy(to->protocol, from->protocol, sizeof to->protocol);
    event->asked = parent->asked;
    to->channel  = from->channel;
    to->is_send  = from->is_send;
    to->peer     = from->peer;
    if (to->kind == NCCL_RECORD_CHANNEL)
        to->bytes = from->bytes;
}

/* ---- kinds of events ---- */

static void
describe_collective(struct nccl_record *record, const struct event_collective *from)
{
    record->sequence = from->sequence;
    record->channels = from->channels;
    record->bytes    = (uint64_t)from->count * dtype_bytes(from->dtype);
    copy_text(record->function, sizeof record->function, from->function);
    copy_text(record->dtype, sizeof record->dtype, from->dtype);
    copy_text(record->algorithm, sizeof record->algorithm, from->algorithm);
    copy_text(record->protocol, sizeof record->protocol, from->protocol);
}

static void
describe_p2p(struct nccl_record *record, const struct event_p2p *from)
{
    record->channels = from->channels;
    record->peer     = from->peer;
    record->bytes    = (uint64_t)from->count * dtype_bytes(from->dtype);
    copy_text(record->function, sizeof record->function, from->function);
    copy_text(record->dtype, sizeof record->dtype, from->dtype);
    record->is_send  = strcmp(record->function, "Send") == 0;
}

static void
describe_copy_engine(struct nccl_record *record, const struct event_copy_engine *from)
{
    record->sequence = from->sequence;
    record->bytes    = (uint64_t)from->count * dtype_bytes(from->dtype);
    copy_text(record->function, sizeof record->function, from->function);
    copy_text(record->dtype, sizeof record->dtype, from->dtype);
    copy_text(record->algorithm, sizeof record->algorithm, "COPY ENGINE");
}

static bool
kind_of(uint64_t type, enum nccl_record_kind *kind)
{
    switch (type) {
    case EVENT_GROUP: *kind = NCCL_RECORD_GROUP; return true;
    case EVENT_COLLECTIVE: *kind = NCCL_RECORD_COLLECTIVE; return true;
    case EVENT_P2P: *kind = NCCL_RECORD_P2P; return true;
    case EVENT_PROXY: *kind = NCCL_RECORD_PROXY; return true;
    case EVENT_STEP: *kind = NCCL_RECORD_STEP; return true;
    case EVENT_CHANNEL: *kind = NCCL_RECORD_CHANNEL; return true;
    case EVENT_COPY_ENGINE: *kind = NCCL_RECORD_COPY_ENGINE; return true;
    default: return false;
    }
}

static void
describe(struct event *event, const struct event_description *from)
{
    struct nccl_record *record = &event->record;
    switch (record->kind) {
    case NCCL_RECORD_COLLECTIVE: describe_collective(record, &from->collective); break;
    case NCCL_RECORD_P2P: describe_p2p(record, &from->p2p); break;
    case NCCL_RECORD_COPY_ENGINE: describe_copy_engine(record, &from->copy_engine); break;
    case NCCL_RECORD_PROXY:
        record->channel = from->proxy.channel;
        record->peer    = from->proxy.peer;
        record->is_send = from->proxy.is_send != 0;
        break;
    case NCCL_RECORD_STEP: record->step = from->step.step; break;
    case NCCL_RECORD_CHANNEL:
        record->channel = from->channel.channel;
        event->first    = from->channel.stamp;
        break;
    case NCCL_RECORD_GROUP: break;
    }
}

/* A parent may live in another process, whose network thread works for this one. */
static const struct event *
parent_of(const struct event_description *from, uint64_t type)
{
    bool is_foreign = type == EVENT_PROXY && from->proxy.pid != getpid();
    return is_foreign ? NULL : event_of(from->parent);
}

static uint64_t
start(void *context, uint64_t type, const struct event_description *from)
{
    enum nccl_record_kind kind;
    uint64_t              id = 0;
    pthread_mutex_lock(&profiler.mutex);
    const struct comm *comm = comm_of((uint64_t)(uintptr_t)context);
    if (profiler.is_on && comm != NULL && kind_of(type, &kind)) {
        const struct event *parent = parent_of(from, type);
        /* its place may be the next */
        struct event        before = parent != NULL ? *parent : (struct event){ .id = 0 };
        struct event       *event  = begin_event(comm, kind);
        if (parent != NULL && kind != NCCL_RECORD_COLLECTIVE && kind != NCCL_RECORD_P2P)
            take_from_parent(event, &before);
        describe(event, from);
        id = event->id;
    }
    pthread_mutex_unlock(&profiler.mutex);
    return id;
}

/* ---- what NCCL calls ---- */

enum { FINE = 0 };   /* ncclSuccess: who looks on does not end the work */

static void
open_comm(void **context, int *mask, const struct comm *given)
{
    *mask    = EVENT_MASK;
    *context = NULL;
    pthread_mutex_lock(&profiler.mutex);
    for (int i = 0; i < COMMS && *context == NULL; i++) {
        uint64_t     id   = ++profiler.next_comm;
        struct comm *comm = &profiler.comms[id % COMMS];
        if (comm->id != 0)
            continue;
        *comm    = *given;
        comm->id = id;
        *context = (void *)(uintptr_t)id;
    }
    pthread_mutex_unlock(&profiler.mutex);
}

static int
init_v4(void **context, int *mask, const char *name, uint64_t hash, int nodes, int ranks, int rank, void *log)
{
    (void)nodes;
    (void)log;
    open_comm(context, mask, &(struct comm){ .hash = hash, .number = number_of(name), .rank = rank, .ranks = ranks });
    return FINE;
}

static int
init_v5(void **context, uint64_t hash, int *mask, const char *name, int nodes, int ranks, int rank, void *log)
{
    return init_v4(context, mask, name, hash, nodes, ranks, rank, log);
}

static int
start_v4(void *context, void **handle, struct event_description *description)
{
    uint8_t type;
    memcpy(&type, description, sizeof type);
    *handle = (void *)(uintptr_t)start(context, type, description);
    return FINE;
}

static int
start_v5(void *context, void **handle, struct event_description *description)
{
    *handle = (void *)(uintptr_t)start(context, description->type, description);
    return FINE;
}

static int
stop(void *handle)
{
    pthread_mutex_lock(&profiler.mutex);
    struct event *event = event_of(handle);
    if (event != NULL && !event->is_over && profiler.is_on)
        end_event(event, false);
    pthread_mutex_unlock(&profiler.mutex);
    return FINE;
}

static void
change_step(struct event *event, int state, const union event_change *change)
{
    leave_state(event, now());
    event->state = state;
    if (change != NULL && change->step.bytes > event->record.bytes)
        event->record.bytes = change->step.bytes;
}

static int
change(void *handle, int state, union event_change *change)
{
    pthread_mutex_lock(&profiler.mutex);
    struct event *event = event_of(handle);
    if (event != NULL && !event->is_over && profiler.is_on) {
        if (event->record.kind == NCCL_RECORD_STEP)
            change_step(event, state, change);
        else if (event->record.kind == NCCL_RECORD_CHANNEL && state == STATE_CHANNEL_STOP && change != NULL)
            event->last = change->channel.stamp;
    }
    pthread_mutex_unlock(&profiler.mutex);
    return FINE;
}

/* What of it has not ended never will. */
static int
finalize(void *context)
{
    pthread_mutex_lock(&profiler.mutex);
    struct comm *comm = comm_of((uint64_t)(uintptr_t)context);
    for (int i = 0; comm != NULL && profiler.events != NULL && i < EVENTS; i++) {
        struct event *event = &profiler.events[i];
        if (event->id != 0 && event->comm == comm->id && !event->is_over && profiler.is_on)
            end_event(event, true);
    }
    if (comm != NULL)
        comm->id = 0;
    pthread_mutex_unlock(&profiler.mutex);
    return FINE;
}

#define SEEN __attribute__((visibility("default")))
SEEN const struct profiler_v4 ncclProfiler_v4 = { "ringside", init_v4, start_v4, stop, change, finalize };
SEEN const struct profiler_v5 ncclProfiler_v5 = { "ringside", init_v5, start_v5, stop, change, finalize };
SEEN const struct profiler_v5 ncclProfiler_v6 = { "ringside", init_v5, start_v5, stop, change, finalize };

/* ---- for the engine ---- */

static bool
refuse(struct backend_why *why, const char *text)
{
    why->trouble = TROUBLE_FAILED;
    snprintf(why->text, sizeof why->text, "NCCL's own events are not recorded: %s", text);
    return false;
}

/* NCCL opens the library that the environment names, once, before its first communicator: this one. */
static bool
name_ourselves(struct backend_why *why)
{
    const char *given = getenv("NCCL_PROFILER_PLUGIN");
    Dl_info     self;
    char        path[PATH_MAX];
    if (dladdr(&ncclProfiler_v5, &self) == 0 || self.dli_fname == NULL || realpath(self.dli_fname, path) == NULL)
        return refuse(why, "the system does not say where the plug-in lies");
    if (given != NULL && given[0] != '\0' && strcmp(given, path) != 0)
        return refuse(why, "NCCL_PROFILER_PLUGIN names another profiler; unset it");
    if (strlen(path) > PATH_LONGEST)
        return refuse(why, "the path of the plug-in is longer than the 254 characters that NCCL reads; install it in a "
                           "folder with a shorter one");
    return setenv("NCCL_PROFILER_PLUGIN", path, 1) == 0 || refuse(why, "the environment is full");
}

static bool
make_room(struct backend_why *why)
{
    if (profiler.events == NULL)
        profiler.events = calloc(EVENTS, sizeof *profiler.events);
    if (profiler.records == NULL)
        profiler.records = calloc(RECORDS, sizeof *profiler.records);
    return (profiler.events != NULL && profiler.records != NULL) || refuse(why, "out of memory");
}

bool
profiler_open(const struct backend_host *host, struct backend_why *why)
{
    pthread_mutex_lock(&profiler.mutex);
    profiler.is_on = host != NULL && make_room(why) && name_ourselves(why);
    bool on = profiler.is_on;
    if (on)
        profiler.host = *host;
    pthread_mutex_unlock(&profiler.mutex);
    return on || host == NULL;
}

size_t
profiler_records(struct nccl_record *out, size_t room, uint64_t *lost)
{
    size_t taken = 0;
    pthread_mutex_lock(&profiler.mutex);
    while (taken < room && profiler.count > 0) {
        out[taken++]   = profiler.records[profiler.first];
        profiler.first = (profiler.first + 1) % RECORDS;
        profiler.count--;
    }
    *lost         = profiler.lost;
    profiler.lost = 0;
    pthread_mutex_unlock(&profiler.mutex);
    return taken;
}
