/* The recorder: one file, any number of buffers. Each buffer belongs to one thread and fills chunks of its own, so
 * an event costs its stores and nothing else; the mutex is taken once per chunk. In a `free` run a preparing thread
 * makes the next chunk of each buffer ready, because a page's first touch costs more than hundred events.
 *
 * Interface in order of use: trace_create, trace_buffer_new, trace_append (in the header), trace_buffer_more,
 * trace_buffer_free, trace_warning, trace_close. Texts, lanes and the like are in record_writer.c.
 * PyTorch's counterpart is torch.profiler with its per-thread queues (torch/csrc/profiler/collection.cpp). */
#include "trace/writer.h"

#include <errno.h>
#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/vec.h"
#include "trace/clock.h"
#include "trace/internal.h"

/* ---- the preparing thread ---- */

/* The buffers never move and live as long as the writer; only the list of them needs the mutex. */
static struct trace_buffer *
buffer_at(struct trace_writer *writer, size_t index)
{
    pthread_mutex_lock(&writer->mutex);
    struct trace_buffer *buffer = index < writer->buffer_count ? writer->buffers[index] : NULL;
    pthread_mutex_unlock(&writer->mutex);
    return buffer;
}

static uint32_t
spares_ready(const struct trace_buffer *buffer)
{
    return __atomic_load_n(&buffer->spares_made, __ATOMIC_ACQUIRE) -
           __atomic_load_n(&buffer->spares_taken, __ATOMIC_ACQUIRE);
}

/* Chunks of one buffer follow each other in the file: whoever runs out meanwhile waits for this one. false: it has
 * enough of them, or there are no more. */
static bool
prepare_spare(struct trace_writer *writer, struct trace_buffer *buffer)
{
    size_t offset;
    pthread_mutex_lock(&writer->mutex);
    bool wanted = spares_ready(buffer) < buffer->lead;
    unsigned char *chunk = wanted ? chunk_take(writer, &offset) : NULL;
    buffer->preparing = chunk != NULL;
    pthread_mutex_unlock(&writer->mutex);
    if (chunk == NULL)
        return false;

    bool ready = space_prepare(&writer->space, chunk, offset);
    void *events = chunk + sizeof(struct chunk_head);
    pthread_mutex_lock(&writer->mutex);
    if (ready) {
        buffer->spares[buffer->spares_made % TRACE_SPARES] = events;
        __atomic_store_n(&buffer->spares_made, buffer->spares_made + 1, __ATOMIC_RELEASE);
    } else {
        atomic_store(&writer->full, true);
    }
    buffer->preparing = false;
    pthread_cond_broadcast(&writer->prepared);
    pthread_mutex_unlock(&writer->mutex);
    return ready;
}

static bool
wait_for_work(struct trace_writer *writer)
{
    pthread_mutex_lock(&writer->wake_mutex);
    while (!writer->wanted && !writer->stopping)
        pthread_cond_wait(&writer->wake, &writer->wake_mutex);
    writer->wanted = false;
    bool stopping = writer->stopping;
    pthread_mutex_unlock(&writer->wake_mutex);
    return !stopping;
}

static void *
preparing_thread(void *argument)
{
    struct trace_writer *writer = argument;
    while (wait_for_work(writer)) {
        struct trace_buffer *buffer;
        for (size_t i = 0; (buffer = buffer_at(writer, i)) != NULL; i++)
            while (prepare_spare(writer, buffer))
                continue;
    }
    return NULL;
}

static void
wake_preparer(struct trace_writer *writer, bool stop)
{
    pthread_mutex_lock(&writer->wake_mutex);
    writer->wanted = true;
    writer->stopping |= stop;
    pthread_cond_signal(&writer->wake);
    pthread_mutex_unlock(&writer->wake_mutex);
}

/* Signals belong to the threads that expect them, so the preparing thread takes none. */
static bool
start_preparer(struct trace_writer *writer)
{
    sigset_t all, before;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    int error = pthread_create(&writer->preparer, NULL, preparing_thread, writer);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    return error == 0;
}

/* ---- the file ---- */

static void
write_head(struct trace_writer *writer)
{
    struct trace_head *head = writer->head;
    head->version = TRACE_VERSION;
    head->event_bytes = sizeof(struct trace_event);
    head->chunk_bytes = TRACE_CHUNK;
    head->clock = writer->clock;
    head->valid_bytes = TRACE_PAGE;
    if (writer->clock != CLOCK_VIRTUAL_PS) {
        head->ticks_per_ms = trace_wall_rate(writer->clock);
        writer->raw_base = trace_raw_ns();
        head->tick_base = trace_wall_now(writer->clock);
    }
    memcpy(head->magic + 1, &TRACE_MAGIC[1], sizeof TRACE_MAGIC - 1);
    __atomic_store_n(&head->magic[0], TRACE_MAGIC[0], __ATOMIC_RELEASE); /* last: now it is a trace */
}

static void
free_writer(struct trace_writer *writer, size_t end)
{
    if (writer->head != NULL)
        space_unmap_head(writer->head);
    space_close(&writer->space, end);
    for (size_t i = 0; i < writer->buffer_count; i++)
        free(writer->buffers[i]);
    free(writer->buffers);
    free(writer->idle);
    map_free(&writer->texts);
    str_free(&writer->scratch);
    pthread_mutex_destroy(&writer->mutex);
    pthread_mutex_destroy(&writer->wake_mutex);
    pthread_cond_destroy(&writer->wake);
    pthread_cond_destroy(&writer->prepared);
    free(writer);
}

struct trace_writer *
trace_create(const struct trace_options *options, char *why, size_t why_size)
{
    struct trace_writer *writer = calloc(1, sizeof *writer);
    if (writer == NULL) {
        snprintf(why, why_size, "no memory for the trace");
        return NULL;
    }
    pthread_mutex_init(&writer->mutex, NULL);
    pthread_mutex_init(&writer->wake_mutex, NULL);
    pthread_cond_init(&writer->wake, NULL);
    pthread_cond_init(&writer->prepared, NULL);
    writer->clock = options->clock;
    if (!space_open(&writer->space, options->path, why, why_size)) {
        free_writer(writer, 0);
        return NULL;
    }
    const char *name = options->path != NULL ? options->path : "a trace in memory";
    writer->head = space_head(&writer->space);
    if (writer->head != NULL)
        write_head(writer);
    if (writer->head == NULL || !writer_kinds(writer)) {
        snprintf(why, why_size, "cannot create %s: no room for it", name);
        free_writer(writer, 0);
        return NULL;
    }
    writer->prepare = options->prepare && options->clock != CLOCK_VIRTUAL_PS && start_preparer(writer);
    return writer;
}

/* The end of what was recorded: every buffer fills its chunks in the order of the file, so its current place is
 * its last one. */
static size_t
used_end(const struct trace_writer *writer)
{
    size_t end = writer->records != NULL ? space_offset(&writer->space, writer->records) : TRACE_PAGE;
    for (size_t i = 0; i < writer->buffer_count; i++) {
        const struct trace_buffer *buffer = writer->buffers[i];
        size_t at = buffer->next != NULL ? space_offset(&writer->space, buffer->next) : 0;
        if (at > end)
            end = at;
    }
    return end;
}

void
trace_close(struct trace_writer *writer)
{
    if (writer == NULL)
        return;
    if (writer->prepare) {
        wake_preparer(writer, true);
        pthread_join(writer->preparer, NULL);
    }
    struct trace_head *head = writer->head;
    uint64_t passed = writer->clock == CLOCK_TSC ? trace_raw_ns() - writer->raw_base : 0;
    if (passed >= 2000000) { /* longer than the first measurement, thus better */
        unsigned __int128 ticks = trace_wall_now(CLOCK_TSC) - head->tick_base;
        __atomic_store_n(&head->ticks_per_ms, (uint64_t)(ticks * 1000000u / passed), __ATOMIC_RELAXED);
    }
    size_t end = used_end(writer);
    __atomic_store_n(&head->lost, atomic_load(&writer->lost), __ATOMIC_RELAXED);
    __atomic_store_n(&head->valid_bytes, end, __ATOMIC_RELEASE);
    __atomic_store_n(&head->complete, 1, __ATOMIC_RELEASE);
    free_writer(writer, end);
}

int
trace_fd(const struct trace_writer *writer)
{
    return writer->space.fd;
}

uint64_t
trace_lost(const struct trace_writer *writer)
{
    return atomic_load(&writer->lost);
}

uint64_t
trace_elapsed_ps(const struct trace_writer *writer, uint64_t time)
{
    if (writer->clock == CLOCK_VIRTUAL_PS)
        return time;
    return trace_wall_ps(writer->head->tick_base, time, writer->head->ticks_per_ms);
}

const char *
trace_warning(struct trace_writer *writer)
{
    const char *warning = NULL;
    pthread_mutex_lock(&writer->mutex);
    if (!writer->warned && atomic_load(&writer->full)) {
        const char *what = writer->space.in_memory ? "there is no more memory for the trace" : "the disk is full";
        writer->warned = true;
        if (atomic_load(&writer->lost) > 0)
            snprintf(writer->warning, sizeof writer->warning,
                     "%s: the trace ends at event %" PRIu64 ", the run goes on", what, atomic_load(&writer->recorded));
        else
            snprintf(writer->warning, sizeof writer->warning, "%s: the trace ends soon, the run goes on", what);
        warning = writer->warning;
    }
    pthread_mutex_unlock(&writer->mutex);
    return warning;
}

/* ---- buffers ---- */

/* A thread that ended left its buffer with most of a chunk free: the next one goes on there, later in time. */
struct trace_buffer *
trace_buffer_new(struct trace_writer *writer)
{
    struct trace_buffer *buffer = NULL;
    pthread_mutex_lock(&writer->mutex);
    if (writer->idle_count > 0) {
        buffer = writer->idle[--writer->idle_count];
    } else if (vec_room(&writer->buffers, &writer->buffer_room, writer->buffer_count + 1, sizeof *writer->buffers) &&
               vec_room(&writer->idle, &writer->idle_room, writer->buffer_count + 1, sizeof *writer->idle) &&
               (buffer = calloc(1, sizeof *buffer)) != NULL) {
        buffer->writer = writer;
        buffer->number = (uint32_t)writer->buffer_count;
        buffer->lead = 1;
        writer->buffers[writer->buffer_count++] = buffer;
    }
    pthread_mutex_unlock(&writer->mutex);
    if (buffer != NULL && writer->prepare)
        wake_preparer(writer, false);
    return buffer;
}

void
trace_buffer_free(struct trace_buffer *buffer)
{
    if (buffer == NULL)
        return;
    struct trace_writer *writer = buffer->writer;
    pthread_mutex_lock(&writer->mutex);
    writer->idle[writer->idle_count++] = buffer; /* trace_buffer_new made room for all there are */
    pthread_mutex_unlock(&writer->mutex);
}

/* The first one lost comes behind a full chunk that no next one will ever count. */
static void
count_lost(struct trace_writer *writer, const struct trace_buffer *buffer)
{
    uint64_t before = atomic_fetch_add(&writer->lost, 1);
    if (before == 0 && buffer->chunks > 0)
        atomic_fetch_add(&writer->recorded, CHUNK_EVENTS_ROOM);
    __atomic_store_n(&writer->head->lost, before + 1, __ATOMIC_RELAXED);
}

static struct trace_event *
take_spare(struct trace_buffer *buffer)
{
    if (spares_ready(buffer) == 0)
        return NULL;
    struct trace_event *events = buffer->spares[buffer->spares_taken % TRACE_SPARES];
    __atomic_store_n(&buffer->spares_taken, buffer->spares_taken + 1, __ATOMIC_RELEASE);
    return events;
}

/* NULL: no room. */
static struct trace_event *
next_events(struct trace_buffer *buffer)
{
    struct trace_writer *writer = buffer->writer;
    struct trace_event *events = take_spare(buffer);
    unsigned char *chunk = NULL;
    if (events == NULL && !atomic_load_explicit(&writer->full, memory_order_relaxed)) {
        pthread_mutex_lock(&writer->mutex);
        if (buffer->chunks > 0 && buffer->lead < TRACE_SPARES)
            buffer->lead *= 2;
        while (buffer->preparing)
            pthread_cond_wait(&writer->prepared, &writer->mutex);
        events = take_spare(buffer);
        if (events == NULL)
            chunk = writer_chunk(writer, CHUNK_EVENTS, buffer->number, buffer->chunks);
        pthread_mutex_unlock(&writer->mutex);
    }
    if (events != NULL)
        chunk_begin((unsigned char *)events - sizeof(struct chunk_head), CHUNK_EVENTS, buffer->number, buffer->chunks);
    else if (chunk != NULL)
        events = (struct trace_event *)(void *)(chunk + sizeof(struct chunk_head));
    return events;
}

bool
trace_buffer_more(struct trace_buffer *buffer)
{
    struct trace_writer *writer = buffer->writer;
    struct trace_event *events = next_events(buffer);
    if (events == NULL) {
        count_lost(writer, buffer);
        return false;
    }
    atomic_fetch_add_explicit(&writer->recorded, buffer->chunks > 0 ? CHUNK_EVENTS_ROOM : 0, memory_order_relaxed);
    buffer->chunks++;
    buffer->next = events;
    buffer->end = events + CHUNK_EVENTS_ROOM;
    if (writer->prepare)
        wake_preparer(writer, false);
    return true;
}
