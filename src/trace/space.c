/* The space a trace is written to: chunks of a file, taken ahead in growing stretches and mapped one by one while they
 * are filled. A trace that nobody named begins in memory and goes on in a nameless file on a disk. Blocks are taken
 * before they are mapped, because a page that finds the disk full is a SIGBUS, while posix_fallocate and pwrite say
 * so.
 *
 * Interface in order of use: space_open, space_head, space_publish, space_chunk, space_prepare, space_release,
 * space_close. */
#include "trace/internal.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "trace/nameless.h"

enum { FIRST_STRETCH = 1 << 20, LARGEST_STRETCH = 16 << 20 };

/* Where no disk takes a trace that nobody named, memory does, up to here. */
static const size_t memory_limit = (size_t)256 << 20;

static int
file_at(const struct space *space, size_t offset)
{
    return space->spill >= 0 && offset >= TRACE_BORDER ? space->spill : space->fd;
}

#if defined(__linux__)
static int
memory_file(void)
{
    return memfd_create("ringside-trace", MFD_CLOEXEC);
}

/* Memory that was taken is there: zeros written into it would only be written twice. */
static bool
born_written(const struct space *space, size_t offset)
{
    return !space->named && file_at(space, offset) == space->fd;
}

static bool
take_blocks(int fd, size_t offset, size_t bytes)
{
    int error;
    do {
        error = posix_fallocate(fd, (off_t)offset, (off_t)bytes);
    } while (error == EINTR);
    /* Not every file system can take space ahead; writing the zeros of each chunk does the same later. */
    return error == 0 || error == EINVAL || error == EOPNOTSUPP || error == ENOSYS;
}
#else
static int
memory_file(void)
{
    char name[] = "/tmp/ringside-trace-XXXXXX";
    int fd = mkstemp(name);
    if (fd >= 0) {
        unlink(name);
        fcntl(fd, F_SETFD, FD_CLOEXEC);
    }
    return fd;
}

static bool
born_written(const struct space *space, size_t offset)
{
    (void)space, (void)offset;
    return false;
}

static bool
take_blocks(int fd, size_t offset, size_t bytes)
{
    (void)fd, (void)offset, (void)bytes;
    return true;
}
#endif

bool
space_open(struct space *space, const char *path, char *why, size_t why_size)
{
    *space = (struct space){ .spill = -1, .named = path != NULL, .handed = TRACE_PAGE, .taken = TRACE_PAGE,
                             .growth = FIRST_STRETCH, .target = { .folder = -1 } };
    space->fd = path != NULL ? target_begin(&space->target, path, why, why_size) : memory_file();
    if (space->fd < 0 && path == NULL)
        snprintf(why, why_size, "cannot create a trace in memory: %s", strerror(errno));
    return space->fd >= 0;
}

bool
space_publish(struct space *space)
{
    return !space->named || target_publish(&space->target);
}

/* Writes them although the blocks are taken: blocks that were never written cost more at their first touch. */
static bool
write_zeros(int fd, size_t offset, size_t bytes)
{
    static const unsigned char zeros[64 * 1024];
    while (bytes > 0) {
        ssize_t wrote = pwrite(fd, zeros, bytes < sizeof zeros ? bytes : sizeof zeros, (off_t)offset);
        if (wrote < 0 && errno == EINTR)
            continue;
        if (wrote <= 0)
            return false;
        offset += (size_t)wrote;
        bytes -= (size_t)wrote;
    }
    return true;
}

struct trace_head *
space_head(struct space *space)
{
    if (!take_blocks(space->fd, 0, TRACE_PAGE) || !write_zeros(space->fd, 0, TRACE_PAGE))
        return NULL;
    void *page = mmap(NULL, TRACE_PAGE, PROT_READ | PROT_WRITE, MAP_SHARED, space->fd, 0);
    return page != MAP_FAILED ? page : NULL;
}

void
space_unmap_head(struct trace_head *head)
{
    munmap(head, TRACE_PAGE);
}

/* false: whatever lies behind here stays in memory. */
static bool
spill_over(struct space *space)
{
    space->spilled = true;
    int fd = nameless_file();
    __atomic_store_n(&space->spill, fd, __ATOMIC_RELEASE); /* readers of the running trace look for it */
    return fd >= 0;
}

/* Nobody asked for this trace: neither the disk nor memory may suffer by it. */
static bool
may_take(const struct space *space, size_t bytes)
{
    if (space->named)
        return true;
    if (file_at(space, space->taken) == space->fd)
        return space->taken + bytes <= TRACE_PAGE + memory_limit;
    return nameless_room(space->spill, bytes);
}

static bool
take_stretch(struct space *space, size_t bytes)
{
    if (!space->named && space->taken == TRACE_BORDER && !space->spilled)
        spill_over(space);
    if (!space->named && space->taken < TRACE_BORDER && space->taken + bytes > TRACE_BORDER)
        bytes = TRACE_BORDER - space->taken;
    if (!may_take(space, bytes) || !take_blocks(file_at(space, space->taken), space->taken, bytes))
        return false;
    space->taken += bytes;
    return true;
}

bool
space_chunk(struct space *space, struct trace_place *place)
{
    if (space->handed == space->taken) {
        if (take_stretch(space, space->growth)) {
            if (space->growth < LARGEST_STRETCH)
                space->growth *= 2;
        } else if (!take_stretch(space, TRACE_CHUNK)) {
            return false; /* nearly full disks still have room for one */
        }
    }
    void *base = mmap(NULL, TRACE_CHUNK, PROT_READ | PROT_WRITE, MAP_SHARED, file_at(space, space->handed),
                      (off_t)space->handed);
    space->unmapped = base == MAP_FAILED;
    if (space->unmapped)
        return false;
    *place = (struct trace_place){ base, space->handed };
    space->handed += TRACE_CHUNK;
    return true;
}

bool
space_prepare(const struct space *space, const struct trace_place *place)
{
    if (!born_written(space, place->offset) &&
        !write_zeros(file_at(space, place->offset), place->offset, TRACE_CHUNK))
        return false;
#ifdef MADV_POPULATE_WRITE
    madvise(place->chunk, TRACE_CHUNK, MADV_POPULATE_WRITE); /* older kernels refuse: the first touch costs more */
#endif
    return true;
}

void
space_release(const struct trace_place *place)
{
    if (place->chunk != NULL)
        munmap(place->chunk, TRACE_CHUNK);
}

/* Whoever reads the running trace touches no more than what was recorded, so the cut takes nothing from under it. */
void
space_close(struct space *space, size_t end)
{
    target_abandon(&space->target);
    if (space->fd >= 0) {
        int cut = end > 0 && space->spill < 0 ? ftruncate(space->fd, (off_t)end) : 0;
        (void)cut; /* an uncut file reads the same: its head says where it ends */
        close(space->fd);
    }
    if (space->spill >= 0)
        close(space->spill);
}
