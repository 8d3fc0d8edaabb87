/* inotify on the folder, since a rename gives the file's name to another file; where there is none the clock.
 *
 * Interface: saved_open, saved_wait, saved_close. */
#include "cli/saved.h"

#include <errno.h>
#include <limits.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/inotify.h>
#include <sys/stat.h>
#include <unistd.h>

/* A network's file changes without a notice: so it is looked at now and then in any case. */
enum { LOOK_MS = 400, LOOK_NOTIFIED_MS = 2000, SETTLE_MS = 30 };

static struct saved_state
look(const char *path)
{
    struct stat about;
    if (stat(path, &about) != 0 || S_ISDIR(about.st_mode))
        return (struct saved_state){ 0 };
    return (struct saved_state){ (uint64_t)about.st_ino, (uint64_t)about.st_size,
                                 (uint64_t)about.st_mtim.tv_sec * 1000000000u + (uint64_t)about.st_mtim.tv_nsec };
}

static bool
is_gone(struct saved_state state)
{
    return state.node == 0;
}

static bool
same_state(struct saved_state a, struct saved_state b)
{
    return a.node == b.node && a.size == b.size && a.nanoseconds == b.nanoseconds;
}

/* "folder/name" -> "folder"; "name" -> ".". */
static void
folder_of(const char *path, char *out, size_t size)
{
    const char *slash  = strrchr(path, '/');
    int         length = slash == path ? 1 : slash != NULL ? (int)(slash - path) : 0;
    snprintf(out, size, "%.*s", slash != NULL ? length : 1, slash != NULL ? path : ".");
}

static void
watch_folder(int notifier, const char *path)
{
    char folder[PATH_MAX];
    folder_of(path, folder, sizeof folder);
    inotify_add_watch(notifier, folder, IN_CLOSE_WRITE | IN_MOVED_TO | IN_MOVED_FROM | IN_DELETE | IN_ATTRIB |
                                            IN_DELETE_SELF | IN_MOVE_SELF);
}

void
saved_open(struct saved *saved, const char *path)
{
    char *target = realpath(path, NULL); /* behind a link the file changes in another folder */
    *saved       = (struct saved){ .path = path, .notifier = inotify_init1(IN_CLOEXEC | IN_NONBLOCK) };
    if (saved->notifier >= 0)
        watch_folder(saved->notifier, path);
    if (saved->notifier >= 0 && target != NULL)
        watch_folder(saved->notifier, target);
    free(target);
    saved->last = look(path);
}

/* Waits for something to happen in the folder, at most so long; what it was is not asked. */
static void
wait_a_while(struct saved *saved, int milliseconds)
{
    struct pollfd notice = { .fd = saved->notifier, .events = POLLIN };
    char          notices[4096];
    poll(&notice, saved->notifier >= 0 ? 1 : 0, milliseconds);
    while (saved->notifier >= 0 && read(saved->notifier, notices, sizeof notices) > 0)
        continue;
}

static bool
folder_is_there(const char *path)
{
    char        folder[PATH_MAX];
    struct stat about;
    folder_of(path, folder, sizeof folder);
    return stat(folder, &about) == 0;
}

/* An editor may take the file away and put another there at once, or write in pieces: the state that stays counts. */
static struct saved_state
settle(struct saved *saved, struct saved_state state)
{
    for (;;) {
        wait_a_while(saved, SETTLE_MS);
        struct saved_state next = look(saved->path);
        if (same_state(next, state))
            return state;
        state = next;
    }
}

enum saved_event
saved_wait(struct saved *saved)
{
    for (;;) {
        struct saved_state state = look(saved->path);
        if (!same_state(state, saved->last)) {
            state = settle(saved, state);
            if (!same_state(state, saved->last)) {
                saved->last = state;
                return is_gone(state) ? SAVED_GONE : SAVED;
            }
        }
        if (!folder_is_there(saved->path))
            return SAVED_ENDED;
        wait_a_while(saved, saved->notifier >= 0 ? LOOK_NOTIFIED_MS : LOOK_MS);
    }
}

void
saved_close(struct saved *saved)
{
    if (saved->notifier >= 0)
        close(saved->notifier);
    saved->notifier = -1;
}
