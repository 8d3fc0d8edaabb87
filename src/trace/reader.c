/* The reader: maps a trace, finished, cut or growing, and puts the events of all writers into one order of time.
 * Nothing in the file is believed: places are checked when they are met, events when they are asked for.
 *
 * Interface in order of use: trace_open, trace_count, trace_event, trace_time ..., trace_refresh, trace_release.
 * What records say is in record_reader.c, the order of several writers in merge.c, what one event is in events.c, ends
 * and flows in pairs.c.
 *
 * Of a file that may still change, what is not known to be written is read with pread and never through the
 * mapping: its writer cuts the file when it closes it. Where somebody else cuts it, what is gone reads as zeros
 * (trace/mapped.h), which are no event; texts were copied when they were met, since they must end somewhere. */
#include "trace/reader.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/vec.h"
#include "trace/clock.h"
#include "trace/internal.h"

/* ---- the file ---- */

static int
file_at(const struct trace *trace, size_t offset)
{
    return trace->spill >= 0 && offset >= TRACE_BORDER ? trace->spill : trace->fd;
}

/* How many bytes there are at `offset`, at most `bytes`. Nobody asks across the border. */
static size_t
read_at(struct trace *trace, void *into, size_t bytes, size_t offset)
{
    size_t have = 0;
    int fd = file_at(trace, offset);
    while (have < bytes) {
        ssize_t got = pread(fd, (char *)into + have, bytes - have, (off_t)(offset + have));
        if (got < 0 && errno == EINTR)
            continue;
        if (got < 0)
            trace->unreadable = true;
        if (got <= 0)
            break;
        have += (size_t)got;
    }
    return have;
}

/* What the file is instead, by how it begins. */
static const char *
stranger(const char *begin, size_t bytes)
{
    size_t blanks = 0;
    while (blanks < bytes && strchr(" \t\r\n", begin[blanks]) != NULL && begin[blanks] != '\0')
        blanks++;
    if (blanks < bytes && (begin[blanks] == '{' || begin[blanks] == '['))
        return "a Chrome trace; import is not there yet";
    return "not a Ringside trace";
}

/* NULL: it can be read as a trace; else what it is instead. A head that was cut off says nothing wrong. */
static const char *
head_trouble(const struct trace_head *head, size_t bytes)
{
    if (bytes < sizeof head->magic || memcmp(head->magic, TRACE_MAGIC, sizeof head->magic) != 0)
        return stranger((const char *)head, bytes);
    if (bytes < sizeof *head)
        return NULL;
    if (head->version > TRACE_VERSION)
        return "made by a newer Ringside, which can open it";
    if (head->version == 0 || head->event_bytes != sizeof(struct trace_event) || head->chunk_bytes != TRACE_CHUNK ||
        head->clock > CLOCK_MONOTONIC_NS)
        return "its head is damaged";
    return NULL;
}

/* Where the last of what was taken in ends. A writer that closes its file cuts it there, nobody cuts before. */
static size_t
known_end(const struct trace *trace)
{
    size_t end = 0;
    for (size_t i = 0; i < trace->chunk_count; i++) {
        const struct chunk *chunk = &trace->chunks[i];
        size_t events = chunk->events > 0 ? sizeof(struct chunk_head) + chunk->events * sizeof(struct trace_event) : 0;
        size_t used = events > chunk->used ? events : chunk->used;
        if (used > 0)
            end = TRACE_PAGE + i * TRACE_CHUNK + used;
    }
    return end;
}

/* The running trace may have gone on in a file of its own meanwhile. */
static void
find_spill(struct trace *trace)
{
    if (trace->live == NULL || trace->spill >= 0)
        return;
    int spill = __atomic_load_n(&trace->live->space.spill, __ATOMIC_ACQUIRE);
    if (spill >= 0)
        trace->spill = fcntl(spill, F_DUPFD_CLOEXEC, 3);
}

/* The head as of now, and how much of the file counts. */
static const char *
read_head(struct trace *trace)
{
    struct stat about;
    struct trace_head head = { 0 };
    size_t bytes = read_at(trace, &head, sizeof head, 0);
    const char *trouble = head_trouble(&head, bytes);
    if (trouble != NULL)
        return trouble;
    find_spill(trace);
    if (fstat(trace->spill >= 0 ? trace->spill : trace->fd, &about) != 0)
        return strerror(errno);

    size_t size = about.st_size > 0 ? (size_t)about.st_size : 0;
    size_t valid = head.valid_bytes != 0 && head.valid_bytes < size ? (size_t)head.valid_bytes : size;
    if (valid > (size_t)UINT32_MAX * sizeof(struct trace_event))
        valid = (size_t)UINT32_MAX * sizeof(struct trace_event); /* slots are 32 bits wide: 256 GiB */
    if (size < trace->size && size < known_end(trace))
        trace->lost_ground = true;
    trace->head = head;
    trace->size = size;
    trace->limit = valid;
    return NULL;
}

/* A file that grows is mapped further than it reaches, so that few mappings do. */
static bool
map_window(struct trace *trace, size_t need)
{
    const size_t border = (TRACE_BORDER - TRACE_PAGE) / TRACE_CHUNK;
    size_t count = need - trace->mapped, offset = TRACE_PAGE + trace->mapped * TRACE_CHUNK;
    if (trace->head.complete == 0) {
        size_t ahead = trace->mapped > 256 ? trace->mapped : 256;
        count = count > ahead ? count : ahead;
    }
    if (trace->live != NULL && trace->mapped < border && trace->mapped + count > border)
        count = border - trace->mapped;
    if (!vec_room(&trace->windows, &trace->window_room, trace->window_count + 1, sizeof *trace->windows) ||
        !mapped_open(&trace->windows[trace->window_count], file_at(trace, offset), offset, count * TRACE_CHUNK))
        return false;
    trace->window_count++;
    trace->mapped += count;
    return true;
}

static bool
map_chunks(struct trace *trace, size_t need)
{
    while (trace->mapped < need)
        if (!map_window(trace, need))
            return false;
    return true;
}

static const unsigned char *
chunk_base(const struct trace *trace, size_t index)
{
    for (size_t i = 0; i < trace->window_count; i++) {
        size_t count = trace->windows[i].bytes / TRACE_CHUNK;
        if (index < count)
            return (const unsigned char *)trace->windows[i].base + index * TRACE_CHUNK;
        index -= count;
    }
    return NULL;
}

/* Every chunk that the file has by now is in the list, and in the list of those to look at. */
static bool
find_chunks(struct trace *trace)
{
    size_t count = trace->limit > TRACE_PAGE ? (trace->limit - TRACE_PAGE + TRACE_CHUNK - 1) / TRACE_CHUNK : 0;
    if (count <= trace->chunk_count)
        return true;
    size_t fresh = count - trace->chunk_count;
    if (!map_chunks(trace, count) || !vec_room(&trace->chunks, &trace->chunk_room, count, sizeof *trace->chunks) ||
        !vec_room(&trace->pending, &trace->pending_room, trace->pending_count + fresh, sizeof *trace->pending))
        return false;
    while (trace->chunk_count < count) {
        size_t index = trace->chunk_count++;
        trace->chunks[index] = (struct chunk){ .base = chunk_base(trace, index) };
        trace->pending[trace->pending_count++] = (uint32_t)index;
    }
    return true;
}

/* ---- what is in the chunks ---- */

/* The bytes [from, from + *bytes) of a chunk, fewer where the file ends; from the mapping once nothing can change. */
static const unsigned char *
chunk_bytes(struct trace *trace, size_t index, size_t from, size_t *bytes)
{
    size_t begin = TRACE_PAGE + index * TRACE_CHUNK + from;
    size_t left = begin < trace->limit ? trace->limit - begin : 0;
    size_t room = TRACE_CHUNK - from;
    left = left < room ? left : room;
    *bytes = *bytes < left ? *bytes : left;
    if (trace->head.complete != 0) {
        if (!trace->chunks[index].touched)
            chunk_touch(trace->touched, trace->chunks, index);
        return trace->chunks[index].base + from;
    }
    *bytes = read_at(trace, trace->scratch, *bytes, begin);
    return trace->scratch;
}

static void
look_at_head(struct trace *trace, size_t index)
{
    struct chunk *chunk = &trace->chunks[index];
    struct chunk_head head;
    size_t bytes = sizeof head;
    const unsigned char *at = chunk_bytes(trace, index, 0, &bytes);
    if (bytes < sizeof head)
        return;
    memcpy(&head, at, sizeof head);
    if (head.magic == 0)
        return;
    chunk->kind = head.kind;
    chunk->writer = head.writer;
    chunk->used = sizeof head;
    chunk->state = CHUNK_OPEN;
    if (head.magic != CHUNK_MAGIC || (head.kind != CHUNK_EVENTS && head.kind != CHUNK_RECORDS)) {
        chunk->state = CHUNK_DONE;
        chunk->kind = 0;
        trace->damaged_chunks++;
    }
}

static bool
last_is_there(struct trace *trace, size_t index)
{
    size_t bytes = sizeof(struct trace_event);
    const struct trace_event *last = (const void *)chunk_bytes(trace, index, TRACE_CHUNK - bytes, &bytes);
    return bytes == sizeof *last && __atomic_load_n(&last->kind, __ATOMIC_ACQUIRE) != 0;
}

/* Events are written from front to back, so those of a file that grows end at the first that is not there. In a
 * finished one they end behind the last that is: a damaged event in between hides no other. */
static void
count_written_events(struct trace *trace, size_t index)
{
    struct chunk *chunk = &trace->chunks[index];
    const size_t size = sizeof(struct trace_event);
    uint32_t before;
    if (last_is_there(trace, index))
        chunk->events = CHUNK_EVENTS_ROOM;
    do {
        size_t bytes = trace->head.complete != 0 ? TRACE_CHUNK : 64 * size;
        before = chunk->events;
        const struct trace_event *event =
            (const void *)chunk_bytes(trace, index, sizeof(struct chunk_head) + before * size, &bytes);
        uint32_t count = (uint32_t)(bytes / size);
        if (trace->head.complete != 0) {
            while (count > 0 && event[count - 1].kind == 0)
                count--;
        } else {
            uint32_t whole = 0;
            while (whole < count && __atomic_load_n(&event[whole].kind, __ATOMIC_ACQUIRE) != 0)
                whole++;
            count = whole;
        }
        chunk->events += count;
    } while (chunk->events > before && trace->head.complete == 0);
    if (chunk->events == CHUNK_EVENTS_ROOM)
        chunk->state = CHUNK_DONE;
}

/* NULL: no memory. */
static const unsigned char *
copy_record(struct trace *trace, const unsigned char *payload, size_t bytes)
{
    unsigned char *copy = arena_take(&trace->arena, bytes + 1);
    if (copy != NULL)
        memcpy(copy, payload, bytes);
    return copy;
}

/* false: no memory. */
static bool
read_records(struct trace *trace, size_t index)
{
    struct chunk *chunk = &trace->chunks[index];
    size_t start = chunk->used, bytes = TRACE_CHUNK;
    const unsigned char *at = chunk_bytes(trace, index, start, &bytes);
    for (size_t from = 0; bytes - from >= 8;) {
        uint16_t type = __atomic_load_n((const uint16_t *)(const void *)(at + from), __ATOMIC_ACQUIRE);
        uint32_t length;
        memcpy(&length, at + from + 4, sizeof length);
        if (type == 0)
            return true;
        size_t padded = ((size_t)length + 7) / 8 * 8;
        if (length > bytes - from - 8) { /* cut off, or nonsense: what follows cannot be found */
            if (start + from + 8 + padded > TRACE_CHUNK) {
                trace->damaged_chunks++;
                chunk->state = CHUNK_DONE;
            }
            return true;
        }
        /* Snapshots are many and say how long they are: they stay in the file. Texts are kept, and end at their NUL;
         * of a file that has no name they can stay where they are. */
        struct record_bytes taken = { type, at + from + 8, length,
                                      TRACE_PAGE + index * TRACE_CHUNK + start + from + 8 };
        if (type != RECORD_SNAPSHOT && trace->live != NULL)
            taken.payload = chunk->base + start + from + 8;
        else if (type != RECORD_SNAPSHOT)
            taken.payload = copy_record(trace, at + from + 8, length);
        if (taken.payload == NULL || !records_take(trace, &taken))
            return false;
        from += 8 + (padded < bytes - from - 8 ? padded : bytes - from - 8);
        chunk->used = (uint32_t)(start + from);
    }
    if (chunk->used + 8 > TRACE_CHUNK)
        chunk->state = CHUNK_DONE;
    return true;
}

/* Events first, then records: whatever these events refer to was written before them. */
static bool
scan_pending(struct trace *trace)
{
    struct run_list *fresh = &trace->fresh;
    if (!vec_room(&fresh->runs, &fresh->room, fresh->count + trace->pending_count, sizeof *fresh->runs))
        return false;
    for (size_t i = 0; i < trace->pending_count; i++) {
        size_t index = trace->pending[i];
        struct chunk *chunk = &trace->chunks[index];
        if (chunk->state == CHUNK_WAITING)
            look_at_head(trace, index);
        uint32_t before = chunk->events;
        if (chunk->state == CHUNK_OPEN && chunk->kind == CHUNK_EVENTS)
            count_written_events(trace, index);
        if (chunk->events > before)
            run_add(fresh, index, before, chunk);
    }
    size_t kept = 0;
    bool ok = true;
    for (size_t i = 0; i < trace->pending_count; i++) {
        size_t index = trace->pending[i];
        struct chunk *chunk = &trace->chunks[index];
        if (chunk->state == CHUNK_OPEN && chunk->kind == CHUNK_RECORDS)
            ok = read_records(trace, index) && ok;
        if (chunk->state != CHUNK_DONE)
            trace->pending[kept++] = (uint32_t)index;
    }
    trace->pending_count = kept;
    return ok;
}

static void
write_note(struct trace *trace)
{
    char *note = trace->note;
    size_t room = sizeof trace->note;
    *note = '\0';
    if (trace->lost_ground)
        snprintf(note, room, "cut short while it was open: nothing more can be read");
    else if (trace->head.lost > 0)
        snprintf(note, room, "cut short: the disk was full, %" PRIu64 " events were lost", trace->head.lost);
    else if (trace->head.complete == 0 || trace->head.valid_bytes > trace->size)
        snprintf(note, room, "cut short at event %zu: its run was killed or goes on, or the file was cut",
                 trace->count);
    else if (trace->damaged_chunks > 0)
        snprintf(note, room, "damaged: %zu of %zu chunks cannot be read", trace->damaged_chunks, trace->chunk_count);
}

/* false: no memory. */
static bool
take_what_is_there(struct trace *trace)
{
    bool ok = find_chunks(trace) && scan_pending(trace) && merge_runs(trace);
    write_note(trace);
    return ok;
}

bool
trace_refresh(struct trace *trace)
{
    if (trace->lost_ground || trace->head.complete != 0)
        return false;
    size_t before = trace->count;
    if (read_head(trace) != NULL)
        trace->lost_ground = true;
    if (!trace->lost_ground)
        trace->starved = !take_what_is_there(trace); /* the rest comes with the next refresh */
    if (trace->lost_ground || trace->unreadable) {
        trace->lost_ground = true;
        trace->count = 0;
        trace->version++;
        write_note(trace);
    }
    return trace->count > before;
}

/* ---- open and release ---- */

static const char *
open_trouble(struct trace *trace)
{
    struct stat about;
    if (trace->scratch == NULL || trace->touched == NULL)
        return "no memory";
    if (fstat(trace->fd, &about) != 0 || !S_ISREG(about.st_mode))
        return S_ISDIR(about.st_mode) ? "is a folder" : "not a Ringside trace";
    const char *trouble = read_head(trace);
    if (trouble == NULL && !take_what_is_there(trace))
        trouble = "no memory to open it";
    if (trouble == NULL && trace->unreadable)
        trouble = "cannot be read to its end";
    return trouble;
}

static struct trace *
open_file(int fd, const struct trace_writer *live, const char *name, char *why, size_t why_size)
{
    struct trace *trace = fd >= 0 ? calloc(1, sizeof *trace) : NULL;
    if (trace == NULL) {
        snprintf(why, why_size, "%.400s: %s", name, strerror(fd < 0 ? errno : ENOMEM));
        if (fd >= 0)
            close(fd);
        return NULL;
    }
    trace->fd = fd;
    trace->spill = -1;
    trace->live = live;
    trace->scratch = aligned_alloc(64, TRACE_CHUNK);
    trace->touched = touched_new(TOUCHED_MOST);
    const char *trouble = open_trouble(trace);
    if (trouble == NULL)
        return trace;
    snprintf(why, why_size, "%.400s: %s", name, trouble);
    trace_release(trace);
    return NULL;
}

struct trace *
trace_open(const char *path, char *why, size_t why_size)
{
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
    struct trace *trace = open_file(fd, NULL, path, why, why_size);
    if (trace != NULL)
        trace->path = strdup(path); /* without it nothing is kept beside the trace */
    return trace;
}

struct trace *
trace_open_fd(int fd, char *why, size_t why_size)
{
    return open_file(fcntl(fd, F_DUPFD_CLOEXEC, 3), NULL, "the trace", why, why_size);
}

struct trace *
trace_open_live(const struct trace_writer *writer, char *why, size_t why_size)
{
    const struct trace_writer *live = writer->space.named ? NULL : writer;
    return open_file(fcntl(writer->space.fd, F_DUPFD_CLOEXEC, 3), live, "the trace", why, why_size);
}

bool
trace_file_hash(struct trace *trace, uint32_t *hash)
{
    uint64_t    sum = 0;
    const char *lesson;
    trace_source_text(trace, &lesson);
    for (size_t i = 0; i < trace->chunk_count; i++) {
        size_t from = TRACE_PAGE + i * TRACE_CHUNK, left = trace->limit - from;
        errno = 0;
        size_t got = read_at(trace, trace->scratch, TRACE_CHUNK, from);
        if (got < (left < TRACE_CHUNK ? left : TRACE_CHUNK))
            return false;
        memset(trace->scratch + got, 0, TRACE_CHUNK - got);
        sum += chunk_sum(trace->scratch, lesson);
    }
    *hash = sum_digits(sum);
    return true;
}

void
trace_release(struct trace *trace)
{
    if (trace == NULL)
        return;
    for (size_t i = 0; i < trace->window_count; i++)
        mapped_close(&trace->windows[i]);
    close(trace->fd);
    if (trace->spill >= 0)
        close(trace->spill);
    records_free(trace);
    pairs_free(&trace->pairs);
    free(trace->path);
    free(trace->windows);
    free(trace->chunks);
    free(trace->pending);
    free(trace->scratch);
    free(trace->touched);
    free(trace->fresh.runs);
    free(trace->order);
    free(trace->row);
    free(trace);
}
