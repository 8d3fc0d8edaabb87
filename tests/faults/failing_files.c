/* Loaded before the program: the call number $FAIL_AT of those that open, write, take room, map or connect fails, once
 * or ($FAIL_ON) with every later one, by $FAIL_ERRNO; without that number a write is cut short instead. What stdio
 * writes goes by calls of its own, which nobody can stand before. Calls count in the process that was started, or also
 * in its children ($FAIL_CHILDREN). At exit the count goes to $FAIL_COUNT's file. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <unistd.h>

static atomic_long seen;
static long        fail_at = -1;
static int         fail_on, fail_errno;
static pid_t       counted;

__attribute__((constructor)) static void
begin(void)
{
    const char *at = getenv("FAIL_AT"), *on = getenv("FAIL_ON"), *number = getenv("FAIL_ERRNO");
    fail_on    = on != NULL && atoi(on) != 0;
    fail_errno = number != NULL ? atoi(number) : 0;
    counted    = getenv("FAIL_CHILDREN") != NULL ? 0 : getpid();
    seen       = 0;
    fail_at    = at != NULL ? atol(at) : 0;
}

__attribute__((destructor)) static void
end(void)
{
    const char *path = getenv("FAIL_COUNT");
    fail_at          = -1;
    FILE *file       = path != NULL && (counted == 0 || counted == getpid()) ? fopen(path, "w") : NULL;
    if (file == NULL)
        return;
    fprintf(file, "%ld\n", (long)seen);
    fclose(file);
}

static int
turn(void)
{
    if (fail_at < 0 || (counted != 0 && counted != getpid()))
        return 0;
    long now = atomic_fetch_add(&seen, 1) + 1;
    return fail_at > 0 && (now == fail_at || (fail_on && now > fail_at));
}

/* True: the call fails. */
static int
fails(void)
{
    if (!turn() || fail_errno == 0)
        return 0;
    errno = fail_errno;
    return 1;
}

static void *
next(const char *name)
{
    return dlsym(RTLD_NEXT, name);
}

/* ---- what opens ---- */

static mode_t
mode_of(int flags, va_list list)
{
    return (flags & O_CREAT) != 0 || (flags & O_TMPFILE) == O_TMPFILE ? va_arg(list, mode_t) : 0;
}

int
open(const char *path, int flags, ...)
{
    va_list list;
    va_start(list, flags);
    mode_t mode = mode_of(flags, list);
    va_end(list);
    int (*real)(const char *, int, ...) = next("open");
    return fails() ? -1 : real(path, flags, mode);
}

int
open64(const char *path, int flags, ...)
{
    va_list list;
    va_start(list, flags);
    mode_t mode = mode_of(flags, list);
    va_end(list);
    int (*real)(const char *, int, ...) = next("open64");
    return fails() ? -1 : real(path, flags, mode);
}

int
openat(int folder, const char *path, int flags, ...)
{
    va_list list;
    va_start(list, flags);
    mode_t mode = mode_of(flags, list);
    va_end(list);
    int (*real)(int, const char *, int, ...) = next("openat");
    return fails() ? -1 : real(folder, path, flags, mode);
}

FILE *
fopen(const char *path, const char *mode)
{
    FILE *(*real)(const char *, const char *) = next("fopen");
    return fails() ? NULL : real(path, mode);
}

char *
mkdtemp(char *pattern)
{
    char *(*real)(char *) = next("mkdtemp");
    return fails() ? NULL : real(pattern);
}

int
mkostemp(char *pattern, int flags)
{
    int (*real)(char *, int) = next("mkostemp");
    return fails() ? -1 : real(pattern, flags);
}

int
memfd_create(const char *name, unsigned flags)
{
    int (*real)(const char *, unsigned) = next("memfd_create");
    return fails() ? -1 : real(name, flags);
}

/* ---- what writes ---- */

/* How much of it is written; -1: it fails. */
static ssize_t
allowed(size_t bytes)
{
    if (!turn())
        return (ssize_t)bytes;
    errno = fail_errno;
    return fail_errno != 0 ? -1 : (ssize_t)(bytes > 1 ? bytes / 2 : bytes);
}

ssize_t
write(int fd, const void *from, size_t bytes)
{
    ssize_t (*real)(int, const void *, size_t) = next("write");
    ssize_t room = allowed(bytes);
    return room < 0 ? -1 : real(fd, from, (size_t)room);
}

ssize_t
pwrite(int fd, const void *from, size_t bytes, off_t offset)
{
    ssize_t (*real)(int, const void *, size_t, off_t) = next("pwrite");
    ssize_t room = allowed(bytes);
    return room < 0 ? -1 : real(fd, from, (size_t)room, offset);
}

ssize_t
pread(int fd, void *into, size_t bytes, off_t offset)
{
    ssize_t (*real)(int, void *, size_t, off_t) = next("pread");
    ssize_t room = allowed(bytes);
    return room < 0 ? -1 : real(fd, into, (size_t)room, offset);
}

ssize_t
send(int fd, const void *from, size_t bytes, int flags)
{
    ssize_t (*real)(int, const void *, size_t, int) = next("send");
    ssize_t room = allowed(bytes);
    return room < 0 ? -1 : real(fd, from, (size_t)room, flags);
}

/* ---- what takes room, maps and names ---- */

int
posix_fallocate(int fd, off_t offset, off_t bytes)
{
    int (*real)(int, off_t, off_t) = next("posix_fallocate");
    return fails() ? errno : real(fd, offset, bytes);
}

int
ftruncate(int fd, off_t bytes)
{
    int (*real)(int, off_t) = next("ftruncate");
    return fails() ? -1 : real(fd, bytes);
}

void *
mmap(void *at, size_t bytes, int protection, int flags, int fd, off_t offset)
{
    void *(*real)(void *, size_t, int, int, int, off_t) = next("mmap");
    return fails() ? MAP_FAILED : real(at, bytes, protection, flags, fd, offset);
}

int
fsync(int fd)
{
    int (*real)(int) = next("fsync");
    return fails() ? -1 : real(fd);
}

int
renameat(int from_folder, const char *from, int to_folder, const char *to)
{
    int (*real)(int, const char *, int, const char *) = next("renameat");
    return fails() ? -1 : real(from_folder, from, to_folder, to);
}

int
fstat(int fd, struct stat *about)
{
    int (*real)(int, struct stat *) = next("fstat");
    return fails() ? -1 : real(fd, about);
}

/* ---- what connects ---- */

int
socket(int domain, int type, int protocol)
{
    int (*real)(int, int, int) = next("socket");
    return fails() ? -1 : real(domain, type, protocol);
}

int
socketpair(int domain, int type, int protocol, int ends[2])
{
    int (*real)(int, int, int, int[2]) = next("socketpair");
    return fails() ? -1 : real(domain, type, protocol, ends);
}

int
pipe2(int ends[2], int flags)
{
    int (*real)(int[2], int) = next("pipe2");
    return fails() ? -1 : real(ends, flags);
}
