/* When the GPU did what: chooses who measures, keeps the finished records of each stream until the engine fetches them.
 *
 * RINGSIDE_CUDA_TIMELINE is `cupti`, `pairs` or `off`; without it CUPTI is tried, then pairs. Where the engine wants no
 * timeline a stream has no `timed`, and each of these functions is one branch.
 *
 * Two mutexes, for CUPTI calls back from threads of its own: `life` is held while a source is opened and closed and
 * is never taken by a callback; `list` guards the streams and is never held while CUPTI is called.
 *
 * Interface in order of use: timeline_open, timeline_stream; timeline_before, timeline_after, timeline_records;
 * timeline_stream_close. timeline_probe at any time. Ranges are in ranges.c.
 * In PyTorch: libkineto's CuptiActivityProfiler, and torch/csrc/profiler/standalone. */
#include "plugins/cuda/timeline.h"
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

/* CUPTI knows one process, not runs: so there is one of these. */
static struct {
    pthread_mutex_t life;
    bool            is_open;
    char            why_not[300];                  /* CUPTI was tried first; "": it was not, or it measures */
    pthread_mutex_t list;
    struct timed   *first;
    struct timed   *by_number[TIMED_STREAMS];
    uint32_t        count, next;
    _Atomic(const struct timeline_source *) source; /* NULL: nobody measures */
    atomic_uint_fast64_t lost;
} times = { .life = PTHREAD_MUTEX_INITIALIZER, .list = PTHREAD_MUTEX_INITIALIZER };

/* ---- the clock: CUPTI asks for it without saying for whom, also when the run is over ---- */

static struct {
    pthread_mutex_t     mutex;
    struct backend_host host;
    int64_t             offset;                     /* to the system's clock, when there is no run */
} run_clock = { .mutex = PTHREAD_MUTEX_INITIALIZER };

static uint64_t
system_ns(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}

uint64_t
timeline_now(void)
{
    pthread_mutex_lock(&run_clock.mutex);
    const struct backend_host *host = &run_clock.host;
    uint64_t now = host->clock != NULL ? host->clock(host->run) : system_ns() + (uint64_t)run_clock.offset;
    pthread_mutex_unlock(&run_clock.mutex);
    return now;
}

static void
clock_of(const struct backend_host *host)
{
    pthread_mutex_lock(&run_clock.mutex);
    run_clock.host = *host;
    pthread_mutex_unlock(&run_clock.mutex);
}

static void
clock_of_nobody(void)
{
    uint64_t now = timeline_now();
    pthread_mutex_lock(&run_clock.mutex);
    run_clock.host   = (struct backend_host){ 0 };
    run_clock.offset = (int64_t)(now - system_ns());
    pthread_mutex_unlock(&run_clock.mutex);
}

/* ---- who measures ---- */

static bool
is_known(const char *asked)
{
    return strcmp(asked, "cupti") == 0 || strcmp(asked, "pairs") == 0 || strcmp(asked, "off") == 0;
}

static bool
is_asked_for(const char *asked, const struct timeline_source *source)
{
    return !is_known(asked) || strcmp(asked, source->name) == 0;
}

/* Under `life`. */
static bool
source_open(void)
{
    const struct timeline_source *both[2] = { &timeline_cupti, &timeline_pairs };
    const char *asked = getenv("RINGSIDE_CUDA_TIMELINE");
    times.why_not[0]  = '\0';
    for (int i = 0; i < 2 && !times.is_open; i++) {
        char why[200] = "";
        if (!is_asked_for(asked != NULL ? asked : "", both[i]))
            continue;
        times.is_open = both[i]->open(why, sizeof why);
        if (times.is_open)
            atomic_store(&times.source, both[i]);
        else
            snprintf(times.why_not, sizeof times.why_not, "%s", why);
    }
    return times.is_open;
}

/* The run may end without any stream: its clock is kept in step with, and asked again when there is one. */
bool
timeline_open(const struct backend_host *host)
{
    if (!host->timeline)
        return false;
    pthread_mutex_lock(&times.life);
    if (times.count == 0)
        clock_of(host);
    bool is_open = times.is_open || source_open();
    if (times.count == 0)
        clock_of_nobody();
    pthread_mutex_unlock(&times.life);
    return is_open;
}

/* Under `life`: the last stream has gone. The next run may ask for another source, or for none. */
static void
source_close(void)
{
    const struct timeline_source *source = atomic_load(&times.source);
    if (!times.is_open)
        return;
    source->flush(true);
    source->close();
    atomic_store(&times.source, NULL);
    atomic_store(&times.lost, 0);
    times.is_open = false;
    clock_of_nobody();
}

static const struct timeline_source *
source_now(void)
{
    return atomic_load_explicit(&times.source, memory_order_acquire);
}

/* ---- streams ---- */

/* 0: there are too many. A number comes again as late as can be: late records of a closed stream are nobody's. */
static uint32_t
number_free(void)
{
    for (uint32_t tried = 0; tried < TIMED_STREAMS; tried++) {
        times.next = (times.next + 1) % TIMED_STREAMS;
        if (times.next != 0 && times.by_number[times.next] == NULL)
            return times.next;
    }
    return 0;
}

static bool
list_add(struct timed *timed)
{
    pthread_mutex_lock(&times.list);
    timed->number = number_free();
    if (timed->number != 0) {
        times.by_number[timed->number] = timed;
        timed->next = times.first;
        times.first = timed;
        times.count++;
    }
    pthread_mutex_unlock(&times.list);
    return timed->number != 0;
}

/* Answers how many are left. */
static uint32_t
list_remove(struct timed *timed)
{
    pthread_mutex_lock(&times.list);
    struct timed **link = &times.first;
    while (*link != timed)
        link = &(*link)->next;
    *link = timed->next;
    times.by_number[timed->number] = NULL;
    uint32_t left = --times.count;
    pthread_mutex_unlock(&times.list);
    return left;
}

static void
timed_free(struct timed *timed)
{
    pthread_mutex_destroy(&timed->mutex);
    free(timed->records);
    free(timed);
}

static struct timed *
timed_new(struct backend_stream *stream)
{
    struct timed *timed = calloc(1, sizeof *timed);
    if (timed == NULL)
        return NULL;
    pthread_mutex_init(&timed->mutex, NULL);
    timed->stream  = stream;
    timed->records = calloc(TIMED_RECORDS, sizeof *timed->records);
    if (timed->records != NULL && source_now()->stream(timed)) {
        if (list_add(timed))
            return timed;
        source_now()->stream_close(timed);
    }
    timed_free(timed);
    return NULL;
}

/* Without memory for it the stream works all the same: it has no times. */
void
timeline_stream(struct backend_stream *stream)
{
    stream->timed = NULL;
    if (!stream->device->host.timeline)
        return;
    pthread_mutex_lock(&times.life);
    if (times.count == 0)
        clock_of(&stream->device->host);
    if (times.is_open || source_open())
        stream->timed = timed_new(stream);
    if (times.count == 0)
        clock_of_nobody();
    pthread_mutex_unlock(&times.life);
}

void
timeline_stream_close(struct backend_stream *stream)
{
    struct timed *timed = stream->timed;
    if (timed == NULL)
        return;
    stream->timed = NULL;
    pthread_mutex_lock(&times.life);
    uint32_t left = list_remove(timed);
    source_now()->stream_close(timed);
    timed_free(timed);
    if (left == 0)
        source_close();
    pthread_mutex_unlock(&times.life);
}

/* ---- records ---- */

void
timeline_before(struct backend_stream *stream, uint64_t ticket)
{
    struct timed *timed = stream->timed;
    if (timed == NULL)
        return;
    if (ticket != 0) {
        pthread_mutex_lock(&timed->mutex);
        timed->last = ticket;
        pthread_mutex_unlock(&timed->mutex);
    }
    source_now()->before(timed, ticket);
}

void
timeline_after(struct backend_stream *stream, uint64_t ticket)
{
    if (stream->timed != NULL)
        source_now()->after(stream->timed, ticket);
}

void
timeline_lost(uint64_t records)
{
    atomic_fetch_add(&times.lost, records);
}

void
timeline_add(struct timed *timed, const struct backend_record *record)
{
    if (record->ticket > timed->newest)
        timed->newest = record->ticket;
    if (timed->count == TIMED_RECORDS)
        timeline_lost(1);
    else
        timed->records[timed->count++] = *record;
}

void
timeline_add_to(uint32_t number, struct backend_record *record)
{
    pthread_mutex_lock(&times.list);
    struct timed *timed = number < TIMED_STREAMS ? times.by_number[number] : NULL;
    if (timed != NULL) {
        pthread_mutex_lock(&timed->mutex);
        record->stream = timed->stream;
        timeline_add(timed, record);
        pthread_mutex_unlock(&timed->mutex);
    }
    pthread_mutex_unlock(&times.list);
}

static int
by_time(const void *left, const void *right)
{
    const struct backend_record *a = left, *b = right;
    if (a->begin != b->begin)
        return a->begin < b->begin ? -1 : 1;
    return (a->ticket > b->ticket) - (a->ticket < b->ticket);
}

/* What does not fit stays, in order. */
static size_t
timed_take(struct timed *timed, struct backend_record *out, size_t room)
{
    pthread_mutex_lock(&timed->mutex);
    source_now()->poll(timed);
    qsort(timed->records, timed->count, sizeof *timed->records, by_time);
    size_t taken = timed->count < room ? timed->count : room;
    memcpy(out, timed->records, taken * sizeof *out);
    timed->count -= taken;
    memmove(timed->records, timed->records + taken, timed->count * sizeof *timed->records);
    pthread_mutex_unlock(&timed->mutex);
    return taken;
}

static bool
is_behind(void)
{
    bool behind = false;
    pthread_mutex_lock(&times.list);
    for (struct timed *timed = times.first; timed != NULL && !behind; timed = timed->next) {
        pthread_mutex_lock(&timed->mutex);
        behind = timed->newest < timed->last;
        pthread_mutex_unlock(&timed->mutex);
    }
    pthread_mutex_unlock(&times.list);
    return behind;
}

/* The next open one behind that number, which moves on to its; false: that was the last. */
static bool
stream_after(uint32_t *number, cudaStream_t *stream, const struct backend_device **device)
{
    bool found = false;
    pthread_mutex_lock(&times.list);
    while (!found && ++*number < TIMED_STREAMS) {
        found = times.by_number[*number] != NULL;
        if (found) {
            *stream = times.by_number[*number]->stream->stream;
            *device = times.by_number[*number]->stream->device;
        }
    }
    pthread_mutex_unlock(&times.list);
    return found;
}

/* CUPTI looks at each of CUDA's calls: so they are made without the list. "Not ready" is no error that anybody is to
 * meet later. */
static bool
is_idle(void)
{
    const struct backend_device *device = NULL;
    struct backend_why           why;
    cudaStream_t                 stream = NULL;
    for (uint32_t number = 0; stream_after(&number, &stream, &device);) {
        if (!cuda_enter(device, &why) || cudaStreamQuery(stream) != cudaSuccess) {
            (void)cudaGetLastError();
            return false;
        }
    }
    return true;
}

/* Where all streams have done all and some have no records of it, these lie in a buffer that something unfinished
 * holds, and are taken out by force; at any other time that would lose what is under way. The source cannot be closed
 * meanwhile: whoever asks for records has streams open. */
size_t
timeline_records(struct backend_record *out, size_t room, uint64_t *lost)
{
    const struct timeline_source *source = source_now();
    size_t count = 0;
    *lost = 0;
    if (source == NULL)
        return 0;
    source->flush(false);
    if (is_behind() && is_idle())
        source->flush(true);
    pthread_mutex_lock(&times.list);
    for (struct timed *timed = times.first; timed != NULL && count < room; timed = timed->next)
        count += timed_take(timed, out + count, room - count);
    pthread_mutex_unlock(&times.list);
    *lost = atomic_exchange(&times.lost, 0);
    return count;
}

/* ---- for people ---- */

/* Whether CUPTI would measure; it was refused the last time: that says more than its version. */
static bool
describe_cupti(char *text, size_t size)
{
    if (times.why_not[0] == '\0')
        return timeline_cupti.describe(text, size);
    snprintf(text, size, "%s", times.why_not);
    return false;
}

/* Who would measure, when nobody does. */
static void
describe_next(const char *asked, char *text, size_t size)
{
    char cupti[300] = "", pairs[100] = "";
    bool usable = is_asked_for(asked, &timeline_cupti) && describe_cupti(cupti, sizeof cupti);
    (void)timeline_pairs.describe(pairs, sizeof pairs);
    if (strcmp(asked, "off") == 0)
        snprintf(text, size, "none, RINGSIDE_CUDA_TIMELINE is off");
    else if (usable)
        snprintf(text, size, "%s", cupti);
    else if (is_asked_for(asked, &timeline_pairs))
        snprintf(text, size, cupti[0] != '\0' ? "%s (%s)" : "%s", pairs, cupti);
    else
        snprintf(text, size, "none (%s)", cupti);
}

/* Under `life`. */
static void
describe(char *text, size_t size)
{
    const char *asked = getenv("RINGSIDE_CUDA_TIMELINE");
    const struct timeline_source *source = source_now();
    char measures[500] = "";
    asked = asked != NULL ? asked : "";
    if (source != NULL)
        (void)source->describe(measures, sizeof measures);
    else
        describe_next(asked, measures, sizeof measures);
    if (!is_known(asked) && asked[0] != '\0')
        snprintf(text, size, "timelines: %s; RINGSIDE_CUDA_TIMELINE can be cupti, pairs or off", measures);
    else if (source != NULL && times.why_not[0] != '\0')
        snprintf(text, size, "timelines: %s (%s)", measures, times.why_not);
    else
        snprintf(text, size, "timelines: %s", measures);
}

void
timeline_probe(struct backend_probe *probe)
{
    if (probe->part_count >= (int)(sizeof probe->parts / sizeof probe->parts[0]))
        return;
    pthread_mutex_lock(&times.life);
    describe(probe->parts[probe->part_count], sizeof probe->parts[0]);
    pthread_mutex_unlock(&times.life);
    probe->part_count++;
}
