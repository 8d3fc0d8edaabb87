/* Waits until a file is saved, however its editor does that: written in place, or written beside and renamed over it.
 * Order of use: saved_open, then saved_wait again and again, saved_close. */
#ifndef CLI_SAVED_H
#define CLI_SAVED_H
#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

/* One state of the file; zeros: it is not there. */
struct saved_state { uint64_t node, size, nanoseconds; };

struct saved {
    const char        *path;       /* of the caller, who keeps it */
    int                notifier;   /* -1: the file is looked at several times a second instead */
    struct saved_state last;       /* what saved_wait answered for, or saved_open found */
};

enum saved_event { SAVED, SAVED_GONE, SAVED_ENDED };

void saved_open(struct saved *saved, const char *path);
/* Waits for the file's next state. GONE: it was deleted; the next wait is for its return. ENDED: nobody can tell any
 * more, the folder itself is gone. */
enum saved_event saved_wait(struct saved *saved);
void saved_close(struct saved *saved);
#endif
