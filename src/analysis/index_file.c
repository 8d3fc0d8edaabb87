/* Where a large index lies: in TRACE.index beside its trace; where that folder takes nothing, in the folder for what
 * can be made anew (XDG_CACHE_HOME or ~/.cache, ringside/); else in a file without a name, or in memory. It is written
 * beside its name, which it takes once it is whole. Only a finished trace's index is kept.
 *
 * The file: struct index_head, a tally for each lane, faults, lessons, then the lists as index_lay lays them. It is
 * used if it says that it was made of this very trace by this very program, and if its sum is right. Who writes a file
 * that passes all this can still have put anything into it: its numbers are places in lists of known lengths and
 * times, and whoever uses one holds it within bounds (index_query.c).
 *
 * Interface: index_load; or index_place, then index_keep; index_unplace. */
#include "analysis/index_internal.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/map.h"
#include "trace/identity.h"
#include "trace/nameless.h"
#include "trace/reader.h"

static size_t
head_bytes(size_t lanes, size_t faults, size_t lessons)
{
    size_t bytes = sizeof(struct index_head) + lanes * sizeof(struct tally) + (faults + lessons) * sizeof(uint32_t);
    return (bytes + 63) / 64 * 64;
}

/* What the numbers mean: the kinds with their classes, and how this program was built. */
static uint64_t
meaning(const struct index *index)
{
    uint64_t sum = sizeof(struct node) << 16 | sizeof(struct tally);
    for (size_t i = 0; i < index->kind_count; i++) {
        const char *name = trace_kind(index->trace, (unsigned)i)->name;
        sum = hash_bytes(sum, name, strlen(name) + 1);
        sum = hash_bytes(sum, &index->kinds[i], sizeof index->kinds[i]);
    }
    return sum;
}

/* Four sums side by side, as fast as memory. `bytes`: a multiple of 8. */
static uint64_t
sum_of(const unsigned char *at, size_t bytes)
{
    uint64_t sums[4] = { 1, 2, 3, 4 };
    for (size_t i = 0; i + 8 <= bytes; i += 8) {
        uint64_t word;
        memcpy(&word, at + i, sizeof word);
        sums[i / 8 % 4] = (sums[i / 8 % 4] ^ word) * 0x9e3779b97f4a7c15u;
        sums[i / 8 % 4] ^= sums[i / 8 % 4] >> 29;
    }
    return hash_bytes(0, sums, sizeof sums);
}

uint64_t
index_file_sum(const struct index_head *head, const unsigned char *file)
{
    return sum_of((const void *)head, offsetof(struct index_head, sum)) ^
           sum_of(file + sizeof *head, head->bytes - sizeof *head);
}

/* ---- names ---- */

static char *
name_beside(const char *path)
{
    char *out;
    return path[0] != '\0' && asprintf(&out, "%s.index", path) >= 0 ? out : NULL;
}

/* By the trace's whole path, so that another of the same name has another. `make`: the folders too. */
static char *
name_in_cache(const char *path, bool make)
{
    const char *cache = getenv("XDG_CACHE_HOME"), *home = getenv("HOME");
    char *whole = realpath(path, NULL), *folder = NULL, *out = NULL;
    bool  named = cache != NULL && cache[0] == '/';
    bool  good  = whole != NULL && (named || (home != NULL && home[0] == '/')) &&
                 asprintf(&folder, "%s%s", named ? cache : home, named ? "" : "/.cache") >= 0;
    if (good && make)
        mkdir(folder, 0700);
    if (good && asprintf(&out, "%s/ringside", folder) < 0)
        out = NULL;
    if (out != NULL && make)
        mkdir(out, 0700);
    free(out);
    out = NULL;
    if (good && asprintf(&out, "%s/ringside/%016llx.index", folder,
                         (unsigned long long)hash_bytes(0, whole, strlen(whole))) < 0)
        out = NULL;
    free(folder);
    free(whole);
    return out;
}

/* ---- loading ---- */

static bool
fits(const struct index *index, const struct index_head *head, size_t size)
{
    struct trace_identity trace;
    uint64_t most = trace_count(index->trace);
    return memcmp(head->magic, INDEX_MAGIC, sizeof head->magic) == 0 && head->version == INDEX_VERSION &&
           trace_identity(index->trace, &trace) && memcmp(&trace, &head->trace, sizeof trace) == 0 &&
           head->meaning == meaning(index) && head->bytes == size && size % 8 == 0 && head->events == most &&
           most < UINT32_MAX && head->lanes == index->lane_count && head->faults <= most && head->lessons <= most &&
           head->flow_room.from <= most && head->flow_room.to <= most && head->flows.from <= head->flow_room.from &&
           head->flows.to <= head->flow_room.to &&
           head_bytes((size_t)head->lanes, (size_t)head->faults, (size_t)head->lessons) <= size;
}

/* No lane has more than the trace: then no sum of sizes can overflow. */
static bool
tallies_fit(const struct index *index, const struct index_head *head)
{
    for (size_t i = 0; i < index->lane_count; i++) {
        const struct tally *tally = &index->tallies[i];
        uint64_t all = (uint64_t)tally->marks + tally->deep;
        for (int level = 0; level < LEVELS; level++)
            all += tally->spans[level];
        if (all > head->events || tally->events > head->events)
            return false;
    }
    return true;
}

static bool
take_seqs(struct seqs *seqs, const unsigned char *at, size_t count)
{
    seqs->items = malloc((count + 1) * sizeof *seqs->items);
    if (seqs->items == NULL)
        return false;
    memcpy(seqs->items, at, count * sizeof *seqs->items);
    seqs->count = count;
    seqs->room = count + 1;
    return true;
}

static bool
take_file(struct index *index, const struct index_head *head, unsigned char *file)
{
    size_t lanes = index->lane_count * sizeof(struct tally), faults = (size_t)head->faults * sizeof(uint32_t);
    index->tallies = malloc(lanes + 1);
    if (index->tallies == NULL)
        return false;
    memcpy(index->tallies, file + sizeof *head, lanes);
    index->counted = (size_t)head->events;
    index->flow_tally = head->flow_room;
    size_t above = head_bytes(index->lane_count, (size_t)head->faults, (size_t)head->lessons);
    if (!tallies_fit(index, head) || index_lay(index, NULL, true) != head->bytes - above || !index_take_tracks(index))
        return false;
    index_lay(index, file + above, true);
    index->flows_from.count = (size_t)head->flows.from;
    index->flows_to.count = (size_t)head->flows.to;
    for (size_t i = 0; i < index->lane_count; i++)
        index->lanes[i].events = index->tallies[i].events;
    index->count = index->target = (size_t)head->events;
    index->end = head->end;
    return take_seqs(&index->faults, file + sizeof *head + lanes, (size_t)head->faults) &&
           take_seqs(&index->lessons, file + sizeof *head + lanes + faults, (size_t)head->lessons);
}

static void
forget_file(struct index *index)
{
    lanes_free(index);
    free(index->tallies);
    free(index->faults.items);
    free(index->lessons.items);
    index->tallies = NULL;
    index->faults = index->lessons = (struct seqs){ 0 };
    index->count = index->counted = 0;
    index->end = 0;
    index->flow_tally = (struct tally_flows){ 0 };
    index->seq_heights = 0;
    if (index->mapped.bytes > 0)
        mapped_close(&index->mapped);
    index->mapped = (struct mapped){ 0 };
}

static bool
load_from(struct index *index, const char *path)
{
    struct stat about;
    struct index_head head;
    int fd = path != NULL ? open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY) : -1;
    if (fd < 0)
        return false;
    bool good = fstat(fd, &about) == 0 && S_ISREG(about.st_mode) && about.st_size >= (off_t)sizeof head &&
                pread(fd, &head, sizeof head, 0) == (ssize_t)sizeof head && fits(index, &head, (size_t)about.st_size) &&
                mapped_open(&index->mapped, fd, 0, (size_t)about.st_size);
    close(fd);
    if (!good)
        return false;
    if (index_file_sum(&head, index->mapped.base) == head.sum && take_file(index, &head, index->mapped.base))
        return true;
    forget_file(index);
    return false;
}

bool
index_load(struct index *index)
{
    const char *path = trace_path(index->trace);
    if (path[0] == '\0' || !trace_is_finished(index->trace))
        return false;
    char *beside = name_beside(path), *cache = name_in_cache(path, false);
    bool good = load_from(index, beside) || load_from(index, cache);
    free(beside);
    free(cache);
    return good;
}

/* ---- making ---- */

/* The blocks are taken before anything is written through the mapping: a full disk says so here. */
static bool
take_room(struct index *index, int fd)
{
    if (fd < 0)
        return false;
    if (posix_fallocate(fd, 0, (off_t)index->memory_bytes) == 0) {
        void *memory = mmap(NULL, index->memory_bytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
        if (memory != MAP_FAILED) {
            index->memory = memory;
            index->fd = fd;
            return true;
        }
    }
    close(fd);
    return false;
}

/* In a file beside `path`, which it takes over. */
static bool
begin_at(struct index *index, char *path)
{
    char *beside = NULL, *slash = path != NULL ? strrchr(path, '/') : NULL;
    int folder = slash != NULL ? (int)(slash + 1 - path) : 0;
    if (path == NULL || asprintf(&beside, "%.*s.%s.XXXXXX", folder, path, path + folder) < 0) {
        free(path);
        return false;
    }
    int fd = mkostemp(beside, O_CLOEXEC);
    bool made = fd >= 0;
    if (take_room(index, fd)) {
        index->path = path;
        index->beside = beside;
        return true;
    }
    if (made)
        unlink(beside);
    free(beside);
    free(path);
    return false;
}

bool
index_place(struct index *index)
{
    struct trace_identity identity;
    const char *path = trace_path(index->trace);
    size_t above = head_bytes(index->lane_count, index->fault_tally, index->lesson_tally);
    index->head_bytes = above;
    index->memory_bytes = above + index_lay(index, NULL, false);
    bool kept = trace_identity(index->trace, &identity);
    if (!(kept && (begin_at(index, name_beside(path)) || begin_at(index, name_in_cache(path, true)))) &&
        !take_room(index, nameless_file())) {
        void *memory = mmap(NULL, index->memory_bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
        if (memory == MAP_FAILED)
            return false;
        index->memory = memory;
    }
    index_lay(index, index->memory + above, false);
    return true;
}

static void
write_head(struct index *index)
{
    unsigned char *at = index->memory + sizeof(struct index_head);
    struct index_head head = {
        .magic = INDEX_MAGIC, .version = INDEX_VERSION, .lanes = index->lane_count, .events = index->count,
        .end = index->end, .meaning = meaning(index), .flow_room = index->flow_tally,
        .flows = { index->flows_from.count, index->flows_to.count }, .faults = index->faults.count,
        .lessons = index->lessons.count, .bytes = index->memory_bytes
    };
    trace_identity(index->trace, &head.trace);
    memcpy(at, index->tallies, index->lane_count * sizeof(struct tally));
    at += index->lane_count * sizeof(struct tally);
    if (index->faults.count > 0)
        memcpy(at, index->faults.items, index->faults.count * sizeof(uint32_t));
    at += index->faults.count * sizeof(uint32_t);
    if (index->lessons.count > 0)
        memcpy(at, index->lessons.items, index->lessons.count * sizeof(uint32_t));
    head.sum = index_file_sum(&head, index->memory);
    memcpy(index->memory, &head, sizeof head);
}

/* The trace may have been written anew meanwhile: then this is about nothing that has a name. */
void
index_keep(struct index *index)
{
    bool fits_head = index->faults.count <= index->fault_tally && index->lessons.count <= index->lesson_tally;
    if (index->path == NULL)
        return;
    size_t above = head_bytes(index->lane_count, index->faults.count, index->lessons.count);
    bool good = fits_head && index->head_bytes == above;
    if (good)
        write_head(index);
    if (!good || rename(index->beside, index->path) != 0)
        unlink(index->beside);
    free(index->beside);
    free(index->path);
    index->beside = index->path = NULL;
}

void
index_unplace(struct index *index)
{
    if (index->mapped.bytes > 0)
        mapped_close(&index->mapped);
    if (index->memory != NULL)
        munmap(index->memory, index->memory_bytes);
    if (index->beside != NULL)
        unlink(index->beside);
    if (index->fd >= 0)
        close(index->fd);
    free(index->beside);
    free(index->path);
    index->beside = index->path = NULL;
    index->mapped = (struct mapped){ 0 };
    index->memory = NULL;
    index->fd = -1;
}
