/* See nccl_events.h. A span that overlaps another one of its lane goes to the next of a few lanes beside it:
 * messages of one channel are under way together.
 *
 * Interface: nccl_events_new, _group, _collect, _joined, _free. */
#include "c10d/nccl_events.h"
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include "base/map.h"
#include "base/vec.h"
#include "device/timeline.h"
#include "sched/sched.h"
#include "sched/stage.h"
#include "trace/writer.h"

/* Waiting to be written; at once; beside each other; of a dump of NCCL's that is read and kept; GPUs of a ring. */
enum { PENDING = 1 << 15, BATCH = 256, BESIDE = 8, DUMP = 48 * 1024, RING = 64, CHANNELS = 64 };

struct moment { struct trace_event event; uint64_t order; };
struct lane { uint32_t id; uint64_t last; };
struct group { struct nccl_events_group is; };

struct nccl_events {
    const struct nccl_table *table;
    struct timeline         *timeline;
    struct trace_writer     *writer;
    pthread_mutex_t          mutex;       /* of what follows */
    struct trace_buffer     *buffer;
    struct group            *groups;
    size_t                   group_count, group_room;
    struct map               lane_of;     /* by its name, to its place + 1 */
    struct lane             *lanes;
    size_t                   lane_count, lane_room;
    struct moment           *moments;
    size_t                   count, room;
    uint64_t                 order, lost;
    char                     folder[64];  /* where NCCL dumps what it finds; "": nowhere */
    bool                     dumped;
    struct nccl_record       batch[BATCH];
};

/* ---- lanes ---- */

/* What stands on a lane. */
struct place { int rank, group, channel, peer; bool is_send, is_kernel, is_net; int beside; };

static void
name_lane(const struct place *place, int rank, int peer, char *out, size_t size)
{
    char more[16] = "";
    if (place->beside > 0)
        snprintf(more, sizeof more, " (%d)", place->beside + 1);
    if (place->is_kernel)
        snprintf(out, size, "r%d nccl channel %d%s", rank, place->channel, more);
    else if (place->is_net)
        snprintf(out, size, "r%d nccl net %d %s r%d%s", rank, place->channel, place->is_send ? "to" : "from", peer,
                 more);
    else
        snprintf(out, size, "r%d nccl%s", rank, more);
}

static int
world_rank(const struct group *group, int rank)
{
    return rank >= 0 && rank < group->is.size ? group->is.ranks[rank] : -1;
}

static struct lane *
lane_at(struct nccl_events *events, const struct place *place)
{
    const struct group *group = &events->groups[place->group];
    int        rank  = world_rank(group, place->rank);
    uint64_t   found = 0;
    char       name[64];
    name_lane(place, rank, world_rank(group, place->peer), name, sizeof name);
    if (map_get_text(&events->lane_of, name, &found))
        return &events->lanes[found - 1];
    if (!vec_room(&events->lanes, &events->lane_room, events->lane_count + 1, sizeof *events->lanes) ||
        !map_set_text(&events->lane_of, name, events->lane_count + 1))
        return NULL;
    struct lane *lane = &events->lanes[events->lane_count++];
    *lane = (struct lane){ .id = trace_lane(events->writer, rank, place->is_kernel ? group->is.device : -1,
                                            place->is_kernel ? LANE_STREAM : LANE_COMM, name) };
    return lane;
}

/* The first that is free by then; if none is, the last, and the span begins when that one is. NULL: no memory. */
static struct lane *
free_lane(struct nccl_events *events, struct place *place, uint64_t begin)
{
    struct lane *lane = NULL;
    for (place->beside = 0; place->beside < BESIDE; place->beside++) {
        lane = lane_at(events, place);
        if (lane == NULL || lane->last <= begin)
            break;
    }
    return lane;
}

/* ---- moments ---- */

static void
add(struct nccl_events *events, const struct trace_event *event)
{
    if (!vec_room(&events->moments, &events->room, events->count + 1, sizeof *events->moments)) {
        events->lost++;
        return;
    }
    events->moments[events->count++] = (struct moment){ *event, events->order++ };
}

struct span { enum kind kind; int64_t args[4]; const struct nccl_record *record; struct place place; };

/* Answers its begin and end, as events hold time, and the event that ends it: for what happens at its end. */
static bool
lane_span(struct nccl_events *events, struct span *span, struct trace_event *event)
{
    const struct group *group = &events->groups[span->place.group];
    uint64_t begin = timeline_ticks(events->timeline, span->record->begin);
    uint64_t end   = timeline_ticks(events->timeline, span->record->end);
    struct lane *lane = free_lane(events, &span->place, begin);
    if (lane == NULL) {
        events->lost++;
        return false;
    }
    begin      = begin > lane->last ? begin : lane->last;
    end        = end > begin ? end : begin;
    lane->last = end;
    *event = (struct trace_event){ .time = begin, .lane = lane->id,
                                  .rank = (int16_t)world_rank(group, span->place.rank),
                                   .device = (int16_t)(span->place.is_kernel ? group->is.device : -1),
                                   .phase = PHASE_BEGIN, .kind = (uint16_t)span->kind };
    memcpy(event->args, span->args, sizeof event->args);
    add(events, event);
    event->time  = end;
    event->phase = PHASE_END;
    return true;
}

/* ---- kinds of records ---- */

/* As it was queued: "AllReduce RING/LL128". */
static void
nccl_tell_collective(struct nccl_events *events, const struct nccl_record *r)
{
    char               how[80];
    struct trace_event end;
    const struct place place = { .rank = r->rank, .group = r->number };
    struct span        span  = { KIND_comm_nccl_collective, { 0 }, r, place };
    snprintf(how, sizeof how, "%s%s%s%s%s", r->function,
             r->algorithm[0] != '\0' ? " " : "", r->algorithm,
             r->protocol[0] != '\0' ? "/" : "", r->protocol);
    span.args[0] = (int64_t)r->sequence;
    span.args[1] = (int64_t)r->bytes;
    span.args[2] = trace_text(events->writer, how);
    span.args[3] = r->channels;
    if (lane_span(events, &span, &end))
        add(events, &end);
}

/* Within the kernel, by the GPU's own clock. */
static void
nccl_tell_channel(struct nccl_events *events, const struct nccl_record *r)
{
    struct trace_event end;
    int64_t            group = events->groups[r->number].is.number;
    struct span        span  = { .kind = KIND_comm_nccl_channel, .record = r,
                                 .args = { r->channel, (int64_t)r->bytes,
                                           (int64_t)r->sequence, group },
                                 .place = { .rank = r->rank, .group = r->number,
                                            .channel = r->channel, .is_kernel = true } };
    if (lane_span(events, &span, &end))
        add(events, &end);
}

/* What a message waited for, in ps: the kernel, its receiver's credit, the network. */
static void
nccl_tell_waits(struct nccl_events *events, const struct nccl_record *r, const struct trace_event *end)
{
    struct trace_event waits = *end;
    const int64_t      args[4] = { (int64_t)r->wait_gpu * 1000, (int64_t)r->wait_peer * 1000,
                                  (int64_t)r->wait_net * 1000,
                                   r->channel };
    waits.phase = PHASE_INSTANT;
    waits.kind  = KIND_comm_nccl_waits;
    memcpy(waits.args, args, sizeof args);
    add(events, &waits);
}

static void
tell_hop(struct nccl_events *events, const struct nccl_record *r, const struct group *group)
{
    struct trace_event end;
    struct span        span = { .kind = r->is_send ? KIND_comm_hop : KIND_comm_receive, .record = r,
                                .args = { r->step, (int64_t)r->bytes, world_rank(group, r->peer), 0 },
                                .place = { .rank = r->rank, .group = r->number, .channel = r->channel, .peer = r->peer,
                                           .is_send = r->is_send, .is_net = true } };
    if (!lane_span(events, &span, &end))
        return;
    nccl_tell_waits(events, r, &end);
    add(events, &end);
}

static void
tell(struct nccl_events *events, const struct nccl_record *r)
{
    if (r->number < 0 || (size_t)r->number >= events->group_count || r->is_cut)
        return;
    const struct group *group = &events->groups[r->number];
    switch (r->kind) {
    case NCCL_RECORD_COLLECTIVE:
    case NCCL_RECORD_P2P:
    case NCCL_RECORD_COPY_ENGINE: nccl_tell_collective(events, r); break;
    case NCCL_RECORD_CHANNEL: nccl_tell_channel(events, r); break;
    case NCCL_RECORD_STEP: tell_hop(events, r, group); break;
    case NCCL_RECORD_GROUP:
    case NCCL_RECORD_PROXY: break;        /* their collectives and messages say more */
    }
}

/* ---- writing ---- */

static int
compare(const void *a, const void *b)
{
    const struct moment *x = a, *y = b;
    if (x->event.time != y->event.time)
        return x->event.time < y->event.time ? -1 : 1;
    return (x->order > y->order) - (x->order < y->order);
}

/* The older half, or all: what comes later than that, of a time before, is told as of now. */
static void
write_moments(struct nccl_events *events, bool all)
{
    size_t count = all ? events->count : events->count / 2;
    qsort(events->moments, events->count, sizeof *events->moments, compare);
    for (size_t i = 0; i < count; i++) {
        struct trace_event *event = &events->moments[i].event;
        event->time = event->time > events->buffer->last_time ? event->time : events->buffer->last_time;
        events->lost += !trace_append(events->buffer, event);
    }
    events->count -= count;
    memmove(events->moments, events->moments + count, events->count * sizeof *events->moments);
}

static void
collect(struct nccl_events *events)
{
    uint64_t lost;
    size_t   count;
    do {
        count = events->table->records(events->batch, BATCH, &lost);
        events->lost += lost;
        for (size_t i = 0; i < count; i++)
            tell(events, &events->batch[i]);
        if (events->count > PENDING)
            write_moments(events, false);
    } while (count == BATCH);
}

/* Whoever collects at this moment takes ours, too. */
void
nccl_events_collect(struct task *me, struct nccl_events *events)
{
    (void)me;
    if (events == NULL || pthread_mutex_trylock(&events->mutex) != 0)
        return;
    collect(events);
    pthread_mutex_unlock(&events->mutex);
}

void
nccl_events_tell(struct nccl_events *events)
{
    if (events == NULL)
        return;
    pthread_mutex_lock(&events->mutex);
    collect(events);
    write_moments(events, true);
    pthread_mutex_unlock(&events->mutex);
}

/* ---- what NCCL found ---- */

/* NCCL writes it when rank 0 of a communicator joins. Who has named files of his own keeps them. */
static void
ask_for_dumps(struct nccl_events *events)
{
    static const struct { const char *variable, *file; } dumps[] = {
        { "NCCL_TOPO_DUMP_FILE", "topology.xml" }, { "NCCL_GRAPH_DUMP_FILE", "graphs.xml" },
    };
    const char *folder = getenv("TMPDIR");
    char        path[100];
    snprintf(events->folder, sizeof events->folder, "%.40s/ringside-nccl-XXXXXX", folder != NULL ? folder : "/tmp");
    if (mkdtemp(events->folder) == NULL) {
        events->folder[0] = '\0';
        return;
    }
    for (size_t i = 0; i < countof(dumps); i++) {
        snprintf(path, sizeof path, "%s/%s", events->folder, dumps[i].file);
        (void)setenv(dumps[i].variable, path, 0);
    }
}

static void
remove_dumps(const struct nccl_events *events)
{
    static const struct { const char *variable, *file; } dumps[] = {
        { "NCCL_TOPO_DUMP_FILE", "topology.xml" }, { "NCCL_GRAPH_DUMP_FILE", "graphs.xml" },
    };
    char path[100];
    for (size_t i = 0; events->folder[0] != '\0' && i < countof(dumps); i++) {
        const char *named = getenv(dumps[i].variable);
        snprintf(path, sizeof path, "%s/%s", events->folder, dumps[i].file);
        (void)unlink(path);
        if (named != NULL && strcmp(named, path) == 0)
            (void)unsetenv(dumps[i].variable);
    }
    if (events->folder[0] != '\0')
        (void)rmdir(events->folder);
}

/* As much as is kept of it; NULL: there is none. The caller's to free. */
static char *
read_dump(const char *variable, size_t *length)
{
    const char *path = getenv(variable);
    FILE       *file = path != NULL ? fopen(path, "r") : NULL;
    char       *text = file != NULL ? malloc(DUMP + 1) : NULL;
    *length = text != NULL ? fread(text, 1, DUMP, file) : 0;
    if (text != NULL)
        text[*length] = '\0';
    if (file != NULL)
        fclose(file);
    return text;
}

/* "0 1 3 2": NCCL counts GPUs, of which each rank of this machine has one. */
static void
nccl_tell_ring(struct task *me, struct nccl_events *events, const struct group *group, int channel, const char *order)
{
    int64_t text = trace_text(events->writer, order);
    POINT(me, comm_nccl_ring, group->is.number, channel, text);
}

static void
tell_rings(struct task *me, struct nccl_events *events, const struct group *group, const char *text, size_t length)
{
    int gpus[RING];
    for (int channel = 0; channel < CHANNELS; channel++) {
        int count = nccl_rings_read(text, length, channel, gpus, RING);
        if (count == 0)
            return;
        char   order[RING * 8] = "";
        size_t used = 0;
        for (int i = 0; i < count && used + 8 < sizeof order; i++)
            used += (size_t)snprintf(order + used, sizeof order - used, "%s%d", i > 0 ? " " : "", gpus[i]);
        nccl_tell_ring(me, events, group, channel, order);
    }
}

/* Told, because which way NCCL's rings go is decided here, by what it found of links and GPUs. */
static void
nccl_tell_dump(struct task *me, struct nccl_events *events, const struct group *group, const char *what,
               const char *text)
{
    int64_t name = trace_text(events->writer, what), content = trace_text(events->writer, text);
    POINT(me, comm_nccl_dump, group->is.number, name, content);
}

void
nccl_events_joined(struct task *me, struct nccl_events *events, int number)
{
    if (events == NULL)
        return;
    pthread_mutex_lock(&events->mutex);
    bool first = !events->dumped;
    events->dumped = true;
    struct group group = events->groups[number];
    pthread_mutex_unlock(&events->mutex);
    if (!first)
        return;
    size_t length;
    char  *topology = read_dump("NCCL_TOPO_DUMP_FILE", &length);
    if (topology != NULL)
        nccl_tell_dump(me, events, &group, "topology", topology);
    free(topology);
    char *graphs = read_dump("NCCL_GRAPH_DUMP_FILE", &length);
    if (graphs != NULL) {
        nccl_tell_dump(me, events, &group, "graphs", graphs);
        tell_rings(me, events, &group, graphs, length);
    }
    free(graphs);
}

/* ---- made and freed ---- */

struct nccl_events *
nccl_events_new(struct task *me, const struct nccl_table *table, struct timeline *timeline)
{
    struct trace_writer *writer = sched_writer(me->sched);
    struct backend_why   why    = { 0 };
    if (writer == NULL || timeline == NULL)
        return NULL;
    struct nccl_events *events = calloc(1, sizeof *events);
    struct backend_host host   = timeline_host(timeline);
    if (events == NULL || pthread_mutex_init(&events->mutex, NULL) != 0) {
        free(events);
        return NULL;
    }
    *events = (struct nccl_events){ .table = table, .timeline = timeline, .writer = writer, .mutex = events->mutex,
                                    .buffer = trace_buffer_new(writer) };
    bool told = events->buffer != NULL && table->profile(&host, &why);
    if (told) {
        ask_for_dumps(events);
        return events;
    }
    if (why.text[0] != '\0')
        task_warn(me, why.text);
    if (events->buffer != NULL)
        trace_buffer_free(events->buffer);
    pthread_mutex_destroy(&events->mutex);
    free(events);
    return NULL;
}

static bool
is_same(const struct nccl_events_group *a, const struct nccl_events_group *b)
{
    return a->number == b->number && a->size == b->size && a->device == b->device &&
           memcmp(a->ranks, b->ranks, (size_t)a->size * sizeof *a->ranks) == 0;
}

int
nccl_events_group(struct nccl_events *events, const struct nccl_events_group *group)
{
    if (events == NULL)
        return group->number;
    pthread_mutex_lock(&events->mutex);
    size_t at    = 0;
    int   *ranks = malloc((size_t)group->size * sizeof *ranks);
    while (at < events->group_count && !is_same(&events->groups[at].is, group))
        at++;
    bool is_new = at == events->group_count && ranks != NULL &&
                  vec_room(&events->groups, &events->group_room, at + 1, sizeof *events->groups);
    if (is_new) {
        memcpy(ranks, group->ranks, (size_t)group->size * sizeof *ranks);
        events->groups[events->group_count++] = (struct group){ .is = *group };
        events->groups[at].is.ranks           = ranks;
    } else {
        free(ranks);
    }
    pthread_mutex_unlock(&events->mutex);
    return (int)at;
}

void
nccl_events_free(struct task *me, struct nccl_events *events)
{
    struct backend_why why;
    if (events == NULL)
        return;
    (void)events->table->profile(NULL, &why);
    collect(events);
    write_moments(events, true);
    if (events->lost > 0) {
        char text[160];
        snprintf(text, sizeof text, "NCCL's lanes have gaps: %llu of its events found no room",
                 (unsigned long long)events->lost);
        task_warn(me, text);
    }
    remove_dumps(events);
    for (size_t i = 0; i < events->group_count; i++)
        free((int *)(uintptr_t)events->groups[i].is.ranks);
    trace_buffer_free(events->buffer);
    pthread_mutex_destroy(&events->mutex);
    map_free(&events->lane_of);
    free(events->groups);
    free(events->lanes);
    free(events->moments);
    free(events);
}
