/* The recorder: one file, any number of buffers. Each buffer belongs to one thread and fills chunks of its own, so
 * an event costs its stores and nothing else; the mutex is taken once per chunk. In a `free` run a preparing thread
 * makes the next chunk of each buffer ready, because a page's first touch costs more than hundred events.
 *
 * Interface in order of use: writer_create (for most trace_create, in create.c), trace_buffer_new, trace_append (in the
 * header), trace_buffer_more, trace_buffer_free, trace_warning, trace_close. Texts, lanes and the like are in
 * record_writer.c.
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
    struct trace_place place;
    pthread_mutex_lock(&writer->mutex);
    buffer->preparing = spares_ready(buffer) < buffer->lead && chunk_take(writer, &place);
    bool taken = buffer->preparing;
    pthread_mutex_unlock(&writer->mutex);
    if (!taken)
        return false;

    bool ready = space_prepare(&writer->space, &place);
    pthread_mutex_lock(&writer->mutex);
    if (ready) {
        buffer->spares[buffer->spares_made % TRACE_SPARES] = place;
        __atomic_store_n(&buffer->spares_made, buffer->spares_made + 1, __ATOMIC_RELEASE);
    } else {
        space_release(&place);
        atomic_store(&writer->full, true);
    }
    buffer->preparing = false;
    pthread_cond_broadcast(&writer->prepared);
    pthread_mutex_unlock(&writer->mutex);
    return ready;
}

/* Unmapping a full chunk takes as long as recording a thousand events: not a matter for the thread that records. */
static void
release_full(struct trace_writer *writer, struct trace_buffer *buffer)
{
    uint32_t made = __atomic_load_n(&buffer->full_made, __ATOMIC_ACQUIRE);
    for (uint32_t at = buffer->full_taken; at != made; at++) {
        chunk_finish(writer, &buffer->full[at % TRACE_SPARES]);
        __atomic_store_n(&buffer->full_taken, at + 1, __ATOMIC_RELEASE);
    }
}

/* The buffer's own thread is done with that chunk. */
static void
leave_full(struct trace_writer *writer, struct trace_buffer *buffer, struct trace_place *full)
{
    uint32_t waiting = buffer->full_made - __atomic_load_n(&buffer->full_taken, __ATOMIC_ACQUIRE);
    if (!writer->prepare || writer->hashing || waiting == TRACE_SPARES) {
        chunk_finish(writer, full);
        return;
    }
    buffer->full[buffer->full_made % TRACE_SPARES] = *full;
    __atomic_store_n(&buffer->full_made, buffer->full_made + 1, __ATOMIC_RELEASE);
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
        for (size_t i = 0; (buffer = buffer_at(writer, i)) != NULL; i++) {
            while (prepare_spare(writer, buffer))
                continue;
            release_full(writer, buffer);
        }
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
release_spares(struct trace_buffer *buffer)
{
    for (; spares_ready(buffer) > 0; buffer->spares_taken++)
        space_release(&buffer->spares[buffer->spares_taken % TRACE_SPARES]);
}

static void
free_writer(struct trace_writer *writer, size_t end)
{
    if (writer->head != NULL)
        space_unmap_head(writer->head);
    space_close(&writer->space, end);
    writer->hashing = false;
    chunk_finish(writer, &writer->record_place);
    for (size_t i = 0; i < writer->buffer_count; i++) {
        release_spares(writer->buffers[i]);
        release_full(writer, writer->buffers[i]);
        chunk_finish(writer, &writer->buffers[i]->place);
        free(writer->buffers[i]);
    }
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

static struct trace_writer *
begin_preparing(struct trace_writer *writer, const struct trace_options *options)
{
    writer->hashing = options->hash; /* from now on: room must be there for the beginning */
    writer->prepare = options->prepare && options->clock != CLOCK_VIRTUAL_PS && start_preparer(writer);
    return writer;
}

struct trace_writer *
writer_create(const struct trace_options *options, bool (*declare)(struct trace_writer *writer), char *why,
              size_t why_size)
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
    if (writer->head == NULL || (declare != NULL && !declare(writer)))
        snprintf(why, why_size, "cannot create %s: no room for it, on the disk or in memory", name);
    else if (!space_publish(&writer->space))
        snprintf(why, why_size, "cannot create %s: %s", name, strerror(errno));
    else
        return begin_preparing(writer, options);
    free_writer(writer, 0);
    return NULL;
}

/* Where what was recorded in that chunk ends; 0: in no file. */
static size_t
end_in(const struct trace_place *place, const void *next)
{
    return place->offset > 0 ? place->offset + (size_t)((const unsigned char *)next - place->chunk) : 0;
}

/* The end of what was recorded: every buffer fills its chunks in the order of the file, so its current place is
 * its last one, unless it goes on outside of the file: then the file is full. */
static size_t
used_end(const struct trace_writer *writer)
{
    size_t end = end_in(&writer->record_place, writer->records);
    bool outside = writer->record_place.offset == 0;
    for (size_t i = 0; i < writer->buffer_count; i++) {
        const struct trace_buffer *buffer = writer->buffers[i];
        size_t at = end_in(&buffer->place, buffer->next);
        outside = outside || (buffer->place.chunk != NULL && buffer->place.offset == 0);
        if (at > end)
            end = at;
    }
    return outside ? writer->space.handed : end;
}

/* The events of a chunk outside of the file; its first was counted when it was begun. */
static void
count_outside(struct trace_writer *writer, const struct trace_buffer *buffer)
{
    if (buffer->place.chunk == NULL || buffer->place.offset > 0)
        return;
    uint64_t more = CHUNK_EVENTS_ROOM - (uint64_t)(buffer->end - buffer->next) - 1;
    uint64_t lost = atomic_fetch_add(&writer->lost, more) + more;
    __atomic_store_n(&writer->head->lost, lost, __ATOMIC_RELAXED);
}

bool
trace_hash(const struct trace_writer *writer, uint32_t *hash)
{
    uint64_t sum = atomic_load(&writer->sum);
    if (writer->record_place.chunk != NULL)
        sum += chunk_sum(writer->record_place.chunk, writer->lesson);
    for (size_t i = 0; i < writer->buffer_count; i++)
        if (writer->buffers[i]->place.chunk != NULL)
            sum += chunk_sum(writer->buffers[i]->place.chunk, writer->lesson);
    *hash = sum_digits(sum);
    return writer->hashing && !atomic_load(&writer->unsummed);
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
    for (size_t i = 0; i < writer->buffer_count; i++)
        count_outside(writer, writer->buffers[i]);
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

struct trace_moment
trace_moment(const struct trace_writer *writer)
{
    if (writer->clock == CLOCK_VIRTUAL_PS)
        return (struct trace_moment){ 0 };
    uint64_t ticks = trace_wall_now(writer->clock);
    uint64_t ns = writer->clock == CLOCK_TSC ? trace_raw_ns() - writer->raw_base : ticks - writer->head->tick_base;
    return (struct trace_moment){ ticks, (int64_t)ns };
}

void
trace_refuse(struct trace_writer *writer, bool (*refuses)(void *context), void *context)
{
    if (writer == NULL)
        return;
    pthread_mutex_lock(&writer->mutex);
    writer->refuses         = refuses;
    writer->refuses_context = context;
    pthread_mutex_unlock(&writer->mutex);
}

const char *
trace_warning(struct trace_writer *writer)
{
    const char *warning = NULL;
    pthread_mutex_lock(&writer->mutex);
    if (!writer->warned && atomic_load(&writer->full)) {
        bool memory = writer->space.unmapped || (!writer->space.named && writer->space.spill < 0);
        const char *what = memory ? "there is no more memory for the trace" : "the disk is full";
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

/* The first one lost comes behind a full chunk that no next one will ever count (but one outside of the file). */
static void
count_lost(struct trace_writer *writer, const struct trace_buffer *buffer)
{
    uint64_t before = atomic_fetch_add(&writer->lost, 1);
    if (before == 0 && buffer->chunks > 0 && !writer->hashing)
        atomic_fetch_add(&writer->recorded, CHUNK_EVENTS_ROOM);
    __atomic_store_n(&writer->head->lost, before + 1, __ATOMIC_RELAXED);
}

static bool
take_spare(struct trace_buffer *buffer, struct trace_place *place)
{
    if (spares_ready(buffer) == 0)
        return false;
    *place = buffer->spares[buffer->spares_taken % TRACE_SPARES];
    __atomic_store_n(&buffer->spares_taken, buffer->spares_taken + 1, __ATOMIC_RELEASE);
    return true;
}

/* false: no room. */
static bool
next_chunk(struct trace_buffer *buffer, struct trace_place *place)
{
    struct trace_writer *writer = buffer->writer;
    const struct chunk_head head = { .kind = CHUNK_EVENTS, .writer = buffer->number, .sequence = buffer->chunks };
    bool spare = take_spare(buffer, place), taken = spare;
    if (!spare && (writer->hashing || !atomic_load_explicit(&writer->full, memory_order_relaxed))) {
        pthread_mutex_lock(&writer->mutex);
        if (buffer->chunks > 0 && buffer->lead < TRACE_SPARES)
            buffer->lead *= 2;
        while (buffer->preparing)
            pthread_cond_wait(&writer->prepared, &writer->mutex);
        spare = take_spare(buffer, place);
        taken = spare || writer_chunk(writer, place, &head);
        pthread_mutex_unlock(&writer->mutex);
    }
    if (spare)
        chunk_begin(place->chunk, &head);
    return taken;
}

bool
trace_buffer_more(struct trace_buffer *buffer)
{
    struct trace_writer *writer = buffer->writer;
    struct trace_place place, full = buffer->place;
    if (!next_chunk(buffer, &place)) {
        count_lost(writer, buffer);
        return false;
    }
    atomic_fetch_add_explicit(&writer->recorded, full.offset > 0 ? CHUNK_EVENTS_ROOM : 0, memory_order_relaxed);
    count_outside(writer, buffer);
    leave_full(writer, buffer, &full);
    if (place.offset == 0)
        count_lost(writer, buffer);
    buffer->chunks++;
    buffer->place = place;
    buffer->next = (struct trace_event *)(void *)(place.chunk + sizeof(struct chunk_head));
    buffer->end = buffer->next + CHUNK_EVENTS_ROOM;
    if (writer->prepare)
        wake_preparer(writer, false);
    return true;
}
