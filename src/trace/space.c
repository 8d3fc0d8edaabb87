/* The space a trace is written to: a file, or memory, taken in growing segments that are mapped and handed out in
 * chunks. Blocks are taken from the system before they are mapped, because a page that finds the disk full is a
 * SIGBUS, while posix_fallocate and pwrite say so.
 *
 * Interface in order of use: space_open, space_head, space_chunk, space_prepare, space_close. */
#include "trace/internal.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/vec.h"

enum { FIRST_SEGMENT = 1 << 20, LARGEST_SEGMENT = 16 << 20 };

#if defined(__linux__)
static int
memory_file(void)
{
    return memfd_create("ringside-trace", MFD_CLOEXEC);
}

/* Memory that was taken is there: zeros written into it would only be written twice. */
static bool
born_written(const struct space *space)
{
    return space->in_memory;
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
born_written(const struct space *space)
{
    (void)space;
    return false;
}

static bool
take_blocks(int fd, size_t offset, size_t bytes)
{
    (void)fd, (void)offset, (void)bytes;
    return true;
}
#endif

/* A trace that somebody looks at is mapped there: it is replaced, never cut. */
static int
trace_file(const char *path)
{
    struct stat about;
    if (lstat(path, &about) == 0 && S_ISREG(about.st_mode) && access(path, W_OK) == 0)
        unlink(path);
    return open(path, O_RDWR | O_CREAT | O_TRUNC | O_CLOEXEC | O_NOCTTY, 0666);
}

bool
space_open(struct space *space, const char *path, char *why, size_t why_size)
{
    *space = (struct space){ .handed = TRACE_PAGE, .taken = TRACE_PAGE, .growth = FIRST_SEGMENT };
    space->in_memory = path == NULL;
    space->fd = path != NULL ? trace_file(path) : memory_file();
    if (space->fd < 0) {
        snprintf(why, why_size, "cannot create %s: %s", path != NULL ? path : "a trace in memory", strerror(errno));
        return false;
    }
    struct stat about;
    if (fstat(space->fd, &about) != 0 || !S_ISREG(about.st_mode)) {
        snprintf(why, why_size, "cannot create %s: it is not a regular file", path != NULL ? path : "a trace");
        close(space->fd);
        space->fd = -1;
        return false;
    }
    return true;
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

static bool
take_segment(struct space *space, size_t bytes)
{
    if (!vec_room(&space->segments, &space->room, space->count + 1, sizeof *space->segments) ||
        !take_blocks(space->fd, space->taken, bytes))
        return false;
    void *base = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, space->fd, (off_t)space->taken);
    if (base == MAP_FAILED)
        return false;
    space->segments[space->count++] = (struct segment){ base, space->taken, bytes };
    space->taken += bytes;
    return true;
}

unsigned char *
space_chunk(struct space *space, size_t *offset)
{
    if (space->handed == space->taken) {
        if (take_segment(space, space->growth)) {
            if (space->growth < LARGEST_SEGMENT)
                space->growth *= 2;
        } else if (!take_segment(space, TRACE_CHUNK)) {
            return NULL; /* nearly full disks still have room for one */
        }
    }
    const struct segment *last = &space->segments[space->count - 1];
    *offset = space->handed;
    space->handed += TRACE_CHUNK;
    return last->base + (*offset - last->offset);
}

bool
space_prepare(const struct space *space, unsigned char *chunk, size_t offset)
{
    if (!born_written(space) && !write_zeros(space->fd, offset, TRACE_CHUNK))
        return false;
#ifdef MADV_POPULATE_WRITE
    madvise(chunk, TRACE_CHUNK, MADV_POPULATE_WRITE); /* older kernels refuse: the first touch costs more there */
#endif
    (void)chunk;
    return true;
}

size_t
space_offset(const struct space *space, const void *at)
{
    const unsigned char *place = at;
    for (size_t i = space->count; i > 0; i--) {
        const struct segment *segment = &space->segments[i - 1];
        if (place > segment->base && place <= segment->base + segment->bytes)
            return segment->offset + (size_t)(place - segment->base);
    }
    return 0;
}

/* Whoever reads the running trace maps no more than what was recorded, so the cut takes nothing from under it. */
void
space_close(struct space *space, size_t end)
{
    for (size_t i = 0; i < space->count; i++)
        munmap(space->segments[i].base, space->segments[i].bytes);
    free(space->segments);
    if (space->fd >= 0) {
        int cut = end > 0 ? ftruncate(space->fd, (off_t)end) : 0;
        (void)cut; /* an uncut file reads the same: its head says where it ends */
        close(space->fd);
    }
}
