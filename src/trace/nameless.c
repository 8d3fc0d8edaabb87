/* A file without a name, for what is too much for memory: it ends with its last descriptor, whatever happens to the
 * process.
 *
 * Interface: nameless_file, nameless_room. */
#include "trace/nameless.h"

#include <errno.h>
#include <fcntl.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/statvfs.h>
#include <unistd.h>
#ifdef __linux__
#include <sys/vfs.h>
#endif

#include "base/vec.h"

static const uint64_t reserve = (uint64_t)1 << 30; /* bytes that the disk keeps for everybody else */

#ifdef __linux__
enum { MEMORY_FILES = 0x01021994, MEMORY_FILES_OLD = (int)0x858458f6 }; /* tmpfs and ramfs, by statfs(2) */

static bool
on_disk(int fd)
{
    struct statfs about;
    return fstatfs(fd, &about) == 0 && (int)about.f_type != MEMORY_FILES && (int)about.f_type != MEMORY_FILES_OLD;
}

/* -1: that folder has no such files. */
static int
open_nameless(const char *folder)
{
    return open(folder, O_TMPFILE | O_RDWR | O_CLOEXEC, 0600);
}
#else
static bool
on_disk(int fd)
{
    (void)fd;
    return true;
}

static int
open_nameless(const char *folder)
{
    (void)folder;
    return -1;
}
#endif

static int
open_unlinked(const char *folder)
{
    char path[4096];
    if (snprintf(path, sizeof path, "%s/ringside-trace-XXXXXX", folder) >= (int)sizeof path)
        return -1;
    int fd = mkostemp(path, O_CLOEXEC);
    if (fd >= 0)
        unlink(path);
    return fd;
}

bool
nameless_room(int fd, size_t bytes)
{
    struct statvfs about;
    if (fstatvfs(fd, &about) != 0)
        return true;
    return (uint64_t)about.f_bavail * about.f_frsize >= reserve + bytes;
}

int
nameless_file(void)
{
    /* Who sets TMPDIR means it; /var/tmp is for what is large; /tmp is often memory, and passed over then. */
    const char *named     = getenv("TMPDIR");
    const char *folders[] = { named != NULL && named[0] != '\0' ? named : "/var/tmp", "/var/tmp", "/tmp", "." };
    for (size_t i = 0; i < countof(folders); i++) {
        int fd = open_nameless(folders[i]);
        if (fd < 0)
            fd = open_unlinked(folders[i]);
        if (fd >= 0 && on_disk(fd) && nameless_room(fd, 0))
            return fd;
        if (fd >= 0)
            close(fd);
    }
    return -1;
}
