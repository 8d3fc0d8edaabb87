/* The player's store: a file per key in a folder. Written beside and renamed, so that nobody reads half of it.
 *
 * In use: play_store_init, then the transport; play_flag, play_flag_wait and play_meet for the player itself. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include "play.h"

static void
path_of(const struct play *p, const char *key, char *path, size_t size)
{
    int at = snprintf(path, size, "%s/", p->folder);
    for (; *key != '\0' && (size_t)at + 3 < size; key++)
        at += snprintf(path + at, size - (size_t)at, "%02x", (unsigned char)*key);
}

static bool
store_set(void *context, const char *key, const void *bytes, size_t count)
{
    struct play *p = context;
    static atomic_int serial;
    char path[1000], beside[1100];
    path_of(p, key, path, sizeof path);
    snprintf(beside, sizeof beside, "%s/new.%d.%d.%d", p->folder, p->rank, (int)getpid(), atomic_fetch_add(&serial, 1));
    FILE *file = fopen(beside, "wb");
    if (file == NULL)
        return false;
    bool fine = fwrite(bytes, 1, count, file) == count;
    return fclose(file) == 0 && fine && rename(beside, path) == 0;
}

static int
store_get(void *context, const char *key, void **out, size_t *count)
{
    char path[1000];
    path_of(context, key, path, sizeof path);
    FILE *file = fopen(path, "rb");
    if (file == NULL)
        return 0;
    size_t room = 1 << 16;
    *out   = play_memory(room);
    *count = fread(*out, 1, room, file);
    fclose(file);
    return 1;
}

void
play_store_init(struct play *p)
{
    p->store = (struct transport_store){ .context = p, .set = store_set, .get = store_get };
}

void
play_flag(struct play *p, const char *key)
{
    if (!store_set(p, key, "1", 1))
        play_wrong(p, "the store takes no '%s'", key);
}

bool
play_flagged(struct play *p, const char *key)
{
    char path[1000];
    path_of(p, key, path, sizeof path);
    return access(path, F_OK) == 0;
}

/* A process that hangs is ended by its alarm. */
void
play_flag_wait(struct play *p, const char *key)
{
    while (!play_flagged(p, key))
        usleep(500);
}

void
play_meet(struct play *p, const char *what)
{
    char key[200];
    snprintf(key, sizeof key, "meet/%s/%s/%d", p->part, what, p->rank);
    play_flag(p, key);
    for (int r = 0; r < p->size; r++) {
        snprintf(key, sizeof key, "meet/%s/%s/%d", p->part, what, r);
        play_flag_wait(p, key);
    }
}
