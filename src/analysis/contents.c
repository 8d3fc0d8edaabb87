/* Which snapshot a storage had at any moment: all of them in one row, each linked to the one before it of the same
 * storage and to one further back (a skew-binary chain), so that the way to any of them is as short as in a tree.
 *
 * Interface in order of use: contents_add in order of seq; contents_before; contents_free. */
#include <stdlib.h>
#include <string.h>

#include "analysis/internal.h"

enum { SLOTS_LEAST = 64, ROOM_LEAST = 256 };

static struct latest *
look_up(const struct contents *contents, int64_t storage)
{
    uint64_t hash = (uint64_t)storage * 11400714819323198485u;
    size_t   mask = contents->slot_count - 1, at = (size_t)(hash ^ hash >> 32) & mask;
    while (contents->slots[at].place != 0 && contents->slots[at].storage != storage)
        at = (at + 1) & mask;
    return &contents->slots[at];
}

static bool
slots_room(struct contents *contents)
{
    if ((contents->storages + 1) * 4 <= contents->slot_count * 3)
        return true;
    struct contents grown = { .slot_count = contents->slot_count > 0 ? contents->slot_count * 2 : SLOTS_LEAST };
    grown.slots = calloc(grown.slot_count, sizeof *grown.slots);
    if (grown.slots == NULL)
        return false;
    for (size_t i = 0; i < contents->slot_count; i++)
        if (contents->slots[i].place != 0)
            *look_up(&grown, contents->slots[i].storage) = contents->slots[i];
    free(contents->slots);
    contents->slots = grown.slots;
    contents->slot_count = grown.slot_count;
    return true;
}

/* By an eighth at a time: half of a row of millions should not lie idle. */
static bool
content_room(struct contents *contents)
{
    if (contents->count < contents->room)
        return true;
    if (contents->count >= UINT32_MAX - 1)
        return false;
    size_t          room = contents->room < ROOM_LEAST ? ROOM_LEAST : contents->room + contents->room / 8;
    struct content *grown = realloc(contents->contents, room * sizeof *grown);
    if (grown == NULL)
        return false;
    contents->contents = grown;
    contents->room = room;
    return true;
}

bool
contents_add(struct contents *contents, int64_t storage, size_t seq)
{
    if (!slots_room(contents) || !content_room(contents))
        return false;
    struct latest *latest = look_up(contents, storage);
    struct content fresh = { .seq = (uint32_t)seq, .before = latest->place, .leap = latest->place };
    if (latest->place != 0) {
        const struct content *before = &contents->contents[latest->place - 1];
        fresh.depth = before->depth + 1;
        if (before->leap != 0) {
            const struct content *leap = &contents->contents[before->leap - 1];
            uint32_t beyond = leap->leap != 0 ? contents->contents[leap->leap - 1].depth : UINT32_MAX;
            if (beyond != UINT32_MAX && before->depth - leap->depth == leap->depth - beyond)
                fresh.leap = leap->leap;
        }
    } else {
        contents->storages++;
    }
    contents->contents[contents->count++] = fresh;
    *latest = (struct latest){ storage, (uint32_t)contents->count };
    return true;
}

size_t
contents_before(const struct contents *contents, int64_t storage, size_t seq)
{
    uint32_t place = contents->slot_count > 0 ? look_up(contents, storage)->place : 0;
    while (place != 0 && contents->contents[place - 1].seq >= seq) {
        const struct content *content = &contents->contents[place - 1];
        bool far = content->leap != 0 && contents->contents[content->leap - 1].seq >= seq;
        place = far ? content->leap : content->before;
    }
    return place != 0 ? contents->contents[place - 1].seq : SIZE_MAX;
}

void
contents_free(struct contents *contents)
{
    free(contents->contents);
    free(contents->slots);
    *contents = (struct contents){ 0 };
}
