/* A trace's way to its name: begun beside it, locked, renamed. Everything is done within the folder that was opened
 * first, so that no renamed folder leads elsewhere meanwhile.
 *
 * Interface in order of use: target_begin, target_publish, target_abandon. */
#include "trace/target.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "trace/format.h"

enum { LOCK_TRIES = 500, LOCK_PAUSE_NS = 20 * 1000 * 1000 }; /* ten seconds: others hold it for milliseconds */

/* A folder that cannot be listed may still be written to; it then goes without its lock. */
#ifdef O_PATH
enum { FOLDER_UNLISTED = O_PATH };
#else
enum { FOLDER_UNLISTED = O_RDONLY };
#endif

static const char A_FOLDER[] = "it is a directory: name a file in it";

static int
refuse(char *why, size_t why_size, const char *path, const char *reason)
{
    snprintf(why, why_size, "cannot create %s: %s", path, reason);
    return -1;
}

/* false: somebody else holds the lock. File systems without locks let everybody in. */
static bool
lock_now(int fd)
{
    while (flock(fd, LOCK_EX | LOCK_NB) != 0) {
        if (errno != EINTR)
            return errno != EWOULDBLOCK;
    }
    return true;
}

static bool
lock_folder(int folder)
{
    const struct timespec pause = { .tv_nsec = LOCK_PAUSE_NS };
    for (int i = 0; i < LOCK_TRIES; i++) {
        if (lock_now(folder))
            return true;
        nanosleep(&pause, NULL);
    }
    return false;
}

/* Opens the folder that holds `path` and splits off the name. Answers the folder's descriptor, -1 with errno. */
static int
open_folder(struct trace_target *target, const char *path)
{
    const char *slash = strrchr(path, '/');
    const char *name  = slash != NULL ? slash + 1 : path;
    char        folder[PATH_MAX];
    size_t      length = slash != NULL ? (size_t)(slash - path) : 0;
    if (name[0] == '\0' || strcmp(name, ".") == 0 || strcmp(name, "..") == 0)
        errno = EISDIR;
    else if (length >= sizeof folder || strlen(name) >= sizeof target->name)
        errno = ENAMETOOLONG;
    else {
        snprintf(folder, sizeof folder, "%.*s", (int)length, path);
        if (length == 0)
            snprintf(folder, sizeof folder, "%s", slash != NULL ? "/" : ".");
        snprintf(target->name, sizeof target->name, "%s", name);
        snprintf(target->beside, sizeof target->beside, ".%.240s.beginning", name);
        int fd = open(folder, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
        return fd >= 0 || errno != EACCES ? fd : open(folder, FOLDER_UNLISTED | O_DIRECTORY | O_CLOEXEC);
    }
    return -1;
}

/* What is in the way of a trace named `name`; NULL: nothing, or an older trace that nobody writes. An empty file holds
 * nothing that could be lost. */
static const char *
what_is_there(int folder, const char *name)
{
    struct stat about;
    char        magic[sizeof TRACE_MAGIC];
    if (fstatat(folder, name, &about, AT_SYMLINK_NOFOLLOW) != 0)
        return errno == ENOENT ? NULL : strerror(errno);
    if (S_ISDIR(about.st_mode))
        return A_FOLDER;
    if (!S_ISREG(about.st_mode))
        return "it is not a regular file";
    if (faccessat(folder, name, R_OK | W_OK, 0) != 0)
        return strerror(errno);
    int fd = openat(folder, name, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY | O_NOFOLLOW);
    if (fd < 0)
        return strerror(errno);
    ssize_t     got     = pread(fd, magic, sizeof magic, 0);
    const char *trouble = NULL;
    if (!lock_now(fd))
        trouble = "another run is writing it";
    else if (got != 0 && (got != sizeof magic || memcmp(magic, TRACE_MAGIC, sizeof magic) != 0))
        trouble = "it exists and is no Ringside trace, so it is left as it is";
    close(fd);
    return trouble;
}

/* What a killed run left: only a trace, or one whose first bytes are not all written, and nobody's by now. */
static bool
remove_leftover(int folder, const char *beside)
{
    char        magic[sizeof TRACE_MAGIC];
    struct stat about;
    int         fd = openat(folder, beside, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY | O_NOFOLLOW);
    if (fd < 0)
        return false;
    bool    ours = fstat(fd, &about) == 0 && S_ISREG(about.st_mode) && lock_now(fd);
    ssize_t got  = pread(fd, magic, sizeof magic, 0);
    for (ssize_t i = 0; i < got; i++)
        ours = ours && (magic[i] == '\0' || magic[i] == TRACE_MAGIC[i]);
    bool removed = ours && got >= 0 && unlinkat(folder, beside, 0) == 0;
    close(fd);
    return removed;
}

static int
open_beside(const struct trace_target *target)
{
    const int flags = O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC;
    int       fd    = openat(target->folder, target->beside, flags, 0666);
    if (fd < 0 && errno == EEXIST && remove_leftover(target->folder, target->beside))
        fd = openat(target->folder, target->beside, flags, 0666);
    if (fd >= 0 && !lock_now(fd)) {
        close(fd);
        fd    = -1;
        errno = EBUSY;
    }
    return fd;
}

static int
begin_in_folder(struct trace_target *target, const char *path, char *why, size_t why_size)
{
    target->folder = open_folder(target, path);
    if (target->folder < 0)
        return refuse(why, why_size, path, errno == EISDIR ? A_FOLDER : strerror(errno));
    int         fd      = -1;
    const char *trouble = lock_folder(target->folder) ? what_is_there(target->folder, target->name)
                                                      : "another program holds its folder's lock";
    if (trouble == NULL && (fd = open_beside(target)) < 0)
        trouble = errno == EEXIST || errno == EBUSY ? "a file that is not ours lies beside it" : strerror(errno);
    if (fd >= 0)
        return fd;
    close(target->folder);
    target->folder = -1;
    return refuse(why, why_size, path, trouble);
}

int
target_begin(struct trace_target *target, const char *path, char *why, size_t why_size)
{
    struct stat about;
    *target = (struct trace_target){ .folder = -1 };
    if (lstat(path, &about) != 0 || !S_ISLNK(about.st_mode))
        return begin_in_folder(target, path, why, why_size);
    char *real = realpath(path, NULL);
    if (real == NULL)
        return refuse(why, why_size, path,
                      errno == ENOENT ? "it is a symbolic link that leads nowhere" : strerror(errno));
    int fd = begin_in_folder(target, real, why, why_size);
    free(real);
    return fd;
}

bool
target_publish(struct trace_target *target)
{
    if (renameat(target->folder, target->beside, target->folder, target->name) != 0)
        return false;
    close(target->folder);
    target->folder = -1;
    return true;
}

void
target_abandon(struct trace_target *target)
{
    if (target->folder < 0)
        return;
    unlinkat(target->folder, target->beside, 0);
    close(target->folder);
    target->folder = -1;
}
