/* Temporary folders that go when their owner does, at the latest when the next one comes.
 *
 * Interface: runtime_folder_make, runtime_folder_remove. Removing believes nothing: only folders of this user with our
 * name and mode, only files of our names in them, and no link is followed. */
#include "base/runtime_folder.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/vec.h"

static const char pattern[] = "ringside-XXXXXX", lock_name[] = "lock";

enum {
    TRIES = 8,       /* a folder may be taken for a dead one between its making and its lock */
    SOCKET_BASE = 80 /* a socket's whole path has about a hundred characters */
};

static const char *
folder_of_environment(const char *name)
{
    const char *folder = getenv(name);
    return folder != NULL && folder[0] != '\0' ? folder : NULL;
}

/* ---- what others left ---- */

static bool
is_our_name(const char *name)
{
    size_t prefix = sizeof pattern - 1 - 6;
    return strlen(name) == sizeof pattern - 1 && strncmp(name, pattern, prefix) == 0 &&
           strspn(name + prefix, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789") == 6;
}

static bool
is_our_file(const char *name)
{
    return strcmp(name, RUNTIME_CONTROL) == 0 || strncmp(name, RUNTIME_RECORD, strlen(RUNTIME_RECORD)) == 0 ||
           strncmp(name, "." RUNTIME_RECORD, strlen("." RUNTIME_RECORD)) == 0;
}

/* The lock last: as long as it is there and held, nobody else begins to clear. */
static void
clear_folder(int folder)
{
    int  listed = dup(folder);
    DIR *list   = listed >= 0 ? fdopendir(listed) : NULL;
    if (list == NULL && listed >= 0)
        close(listed);
    struct dirent *entry;
    while (list != NULL && (entry = readdir(list)) != NULL) {
        if (is_our_file(entry->d_name))
            unlinkat(folder, entry->d_name, 0);
    }
    if (list != NULL)
        closedir(list);
    unlinkat(folder, lock_name, 0);
}

/* True: nobody's, and its lock is ours now (`lock`, -1 where it has none: then only an empty folder goes). */
static bool
is_left_alone(int folder, int *lock)
{
    struct stat about;
    *lock = -1;
    if (fstat(folder, &about) != 0 || about.st_uid != geteuid() || (about.st_mode & 07777) != 0700)
        return false;
    *lock = openat(folder, lock_name, O_RDWR | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
    return *lock < 0 ? errno == ENOENT : flock(*lock, LOCK_EX | LOCK_NB) == 0;
}

static void
remove_if_left(int base, const char *name)
{
    int lock, folder = openat(base, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    if (folder < 0)
        return;
    if (is_left_alone(folder, &lock)) {
        if (lock >= 0)
            clear_folder(folder);
        unlinkat(base, name, AT_REMOVEDIR);
    }
    if (lock >= 0)
        close(lock);
    close(folder);
}

static void
remove_left_in(const char *base)
{
    DIR           *list = opendir(base);
    struct dirent *entry;
    while (list != NULL && (entry = readdir(list)) != NULL) {
        if (is_our_name(entry->d_name))
            remove_if_left(dirfd(list), entry->d_name);
    }
    if (list != NULL)
        closedir(list);
}

/* ---- our own ---- */

/* -1 with errno: somebody took the folder for a dead one before its lock was held, or there is no room. */
static int
take_lock(const char *folder)
{
    char        path[300];
    struct stat about;
    snprintf(path, sizeof path, "%s/%s", folder, lock_name);
    int lock = open(path, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
    if (lock < 0)
        return -1;
    bool held = flock(lock, LOCK_EX | LOCK_NB) == 0 && fstat(lock, &about) == 0;
    if (held && about.st_nlink > 0)
        return lock;
    int reason = held || errno == EWOULDBLOCK ? ENOENT : errno;
    close(lock);
    errno = reason;
    return -1;
}

static void
remove_file(const char *folder, const char *name)
{
    char path[300];
    snprintf(path, sizeof path, "%s/%s", folder, name);
    unlink(path);
}

static bool
make_in(struct runtime_folder *folder, const char *base)
{
    for (int i = 0; i < TRIES; i++) {
        if (snprintf(folder->path, sizeof folder->path, "%s/%s", base, pattern) >= (int)sizeof folder->path) {
            errno = ENAMETOOLONG;
            break;
        }
        if (mkdtemp(folder->path) == NULL)
            break;
        folder->lock = take_lock(folder->path);
        if (folder->lock >= 0)
            return true;
        int reason = errno;
        if (reason != ENOENT)
            remove_file(folder->path, lock_name);
        rmdir(folder->path);
        errno = reason;
        if (reason != ENOENT)
            break;
    }
    folder->path[0] = '\0';
    return false;
}

/* Somebody else's is not to be trusted with what should be private. */
static bool
is_ours(const char *base)
{
    struct stat about;
    return stat(base, &about) == 0 && S_ISDIR(about.st_mode) && about.st_uid == geteuid();
}

bool
runtime_folder_make(struct runtime_folder *folder, enum runtime_use use, char *why, size_t why_size)
{
    const char *own = folder_of_environment("XDG_RUNTIME_DIR"), *named = folder_of_environment("TMPDIR");
    if (own != NULL && !is_ours(own))
        own = NULL;
    const char *bases[2][5] = {
        [RUNTIME_SOCKET] = { own, named, "/tmp", "/var/tmp", "." },
        [RUNTIME_RECORDS] = { named, "/tmp", "/var/tmp", own, "." },
    };
    *folder = (struct runtime_folder){ .lock = -1 };
    for (size_t i = 0; i < countof(bases[use]); i++)
        if (bases[use][i] != NULL)
            remove_left_in(bases[use][i]);
    for (size_t i = 0; i < countof(bases[use]); i++) {
        const char *base = bases[use][i];
        bool        fits = base != NULL && (use != RUNTIME_SOCKET || strlen(base) <= SOCKET_BASE);
        if (fits && make_in(folder, base))
            return true;
    }
    snprintf(why, why_size, "no folder for the session: neither $TMPDIR, /tmp, /var/tmp, $XDG_RUNTIME_DIR nor the "
             "current folder takes one: %s", strerror(errno));
    return false;
}

void
runtime_folder_remove(struct runtime_folder *folder)
{
    if (folder->path[0] == '\0')
        return;
    int fd = open(folder->path, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    if (fd >= 0) {
        clear_folder(fd);
        close(fd);
    } else { /* out of descriptors: what there is as long as no run was killed in its first moments */
        remove_file(folder->path, RUNTIME_CONTROL);
        remove_file(folder->path, lock_name);
    }
    rmdir(folder->path);
    close(folder->lock);
    *folder = (struct runtime_folder){ .lock = -1 };
}
