/* The rings in NCCL's graph dump (NCCL_GRAPH_DUMP_FILE), an XML text of elements that NCCL itself writes:
 *     <graph id="0" pattern="4" ...> <channel> <net dev="0"/> <gpu dev="3"/> ... </channel> ... </graph>
 * Pattern 4 is a ring. Only tags and their attributes are read; whatever else stands there is passed over.
 *
 * Interface: nccl_rings_read. */
#include <stdlib.h>
#include <string.h>
#include "c10d/nccl_events.h"

enum { PATTERN_RING = 4 };

struct scan { const char *at, *end; };

/* The next tag, from behind its '<' to its '>'. false: there is none. */
static bool
next_tag(struct scan *scan, struct scan *tag)
{
    const char *open = scan->at < scan->end ? memchr(scan->at, '<', (size_t)(scan->end - scan->at)) : NULL;
    const char *close = open != NULL ? memchr(open, '>', (size_t)(scan->end - open)) : NULL;
    if (close == NULL)
        return false;
    *tag     = (struct scan){ open + 1, close };
    scan->at = close + 1;
    return true;
}

static bool
is_named(const struct scan *tag, const char *name)
{
    size_t length = strlen(name);
    return (size_t)(tag->end - tag->at) >= length && memcmp(tag->at, name, length) == 0 &&
           (tag->at + length == tag->end || tag->at[length] == ' ' || tag->at[length] == '/');
}

/* The whole number of an attribute; -1: it has none. */
static int
attribute(const struct scan *tag, const char *name)
{
    size_t length = strlen(name);
    for (const char *at = tag->at; at + length + 3 < tag->end; at++) {
        if (at[0] != ' ' || memcmp(at + 1, name, length) != 0 || at[length + 1] != '=' || at[length + 2] != '"')
            continue;
        int number = 0, digits = 0;
        for (at += length + 3; at < tag->end && *at >= '0' && *at <= '9' && digits < 6; at++, digits++)
            number = number * 10 + (*at - '0');
        return digits > 0 ? number : -1;
    }
    return -1;
}

int
nccl_rings_read(const char *text, size_t length, int channel, int *gpus, int most)
{
    struct scan scan = { text, text + length }, tag;
    bool        ring = false;
    int         at   = -1, count = 0;
    while (next_tag(&scan, &tag)) {
        if (is_named(&tag, "graph"))
            ring = attribute(&tag, "pattern") == PATTERN_RING;
        if (is_named(&tag, "/graph") && ring)
            return 0;
        if (ring && is_named(&tag, "channel"))
            at++;
        if (ring && at == channel && is_named(&tag, "/channel"))
            return count;
        if (ring && at == channel && is_named(&tag, "gpu") && count < most)
            gpus[count++] = attribute(&tag, "dev");
    }
    return 0;
}
