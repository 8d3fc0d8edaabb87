/* A private folder for as long as a session lives: its socket, or its records. What a killed session left goes when
 * the next one makes its own: a session holds the lock of a file in its folder, and a folder without a live lock is nobody's.
 * Order of use: runtime_folder_make, then whatever is kept in it by the names below, runtime_folder_remove. */
#ifndef BASE_RUNTIME_FOLDER_H
#define BASE_RUNTIME_FOLDER_H
#include <stdbool.h>
#include <stddef.h>

enum runtime_use { RUNTIME_SOCKET, RUNTIME_RECORDS };

struct runtime_folder {
    char path[256]; /* "" : none */
    int  lock;      /* the open file that holds the lock; who forks and lets the child live on closes it there */
};

/* What lies in it: RUNTIME_CONTROL, or files whose names begin with RUNTIME_RECORD. */
#define RUNTIME_CONTROL "control"
#define RUNTIME_RECORD  "run-"

/* In the first folder that can be written to: for a socket $XDG_RUNTIME_DIR, which is this user's alone, then $TMPDIR,
 * /tmp, /var/tmp and the current folder; for records $XDG_RUNTIME_DIR, often small and in memory, comes last but one.
 * false: `why` says so in one sentence. */
bool runtime_folder_make(struct runtime_folder *folder, enum runtime_use use, char *why, size_t why_size);
void runtime_folder_remove(struct runtime_folder *folder); /* with what is in it; harmless when there is none */
#endif
