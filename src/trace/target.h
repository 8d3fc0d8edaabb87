/* Where a trace that somebody asked for by name comes to lie. It begins in a file beside the target and takes the
 * target's name once it can be read as a trace; until then an older trace is there, untouched. Whoever writes a trace
 * holds a lock on the open file as long as it writes; who begins one holds the folder's lock meanwhile, so of two that
 * begin at the same moment one is refused.
 * Order of use: target_begin; then target_publish or target_abandon. */
#ifndef TRACE_TARGET_H
#define TRACE_TARGET_H
#include <stdbool.h>
#include <stddef.h>

struct trace_target {
    int  folder;      /* -1: nothing is begun */
    char name[256];   /* in the folder */
    char beside[256];
};

/* The open file, locked and empty; -1: `why` says in one sentence what is in the way, and nothing was changed. A symbolic
 * link is followed. What a killed run left beside the target goes. */
int  target_begin(struct trace_target *target, const char *path, char *why, size_t why_size);
bool target_publish(struct trace_target *target); /* the file has its name; false: errno says why, it is still beside */
void target_abandon(struct trace_target *target); /* as if it had never begun; harmless after target_publish */
#endif
