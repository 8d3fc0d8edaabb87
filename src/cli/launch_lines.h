/* What processes say, a line at a time: read from their pipes, put behind their rank, given out where there is room.
 * Nobody blocks: who is read to does not hold up who watches over the processes.
 * Order of use: stream_read when poll says so, stream_finish at its end; sink_write when poll says so. */
#ifndef CLI_LAUNCH_LINES_H
#define CLI_LAUNCH_LINES_H
#include <stdbool.h>
#include <stddef.h>
#include "base/str.h"

/* Standard output, or error. */
struct sink {
    int        fd;
    struct str queue;
    size_t     sent;      /* of the queue */
    bool       gone;      /* nobody reads it any more: what comes is dropped */
    bool       lost;      /* there was no memory for some of it */
    int        error;     /* errno of a write that failed; 0: none, or nobody reads */
};
void sink_mend(struct sink *sink);             /* after lines were put in: notes whether some found no memory */
bool sink_waits(const struct sink *sink);      /* it has something to write */
bool sink_is_crowded(const struct sink *sink); /* so much that nothing more should be read */
void sink_write(struct sink *sink);            /* some of it; once poll says that there is room */
void sink_free(struct sink *sink);

struct stream {
    int        fd;        /* a pipe that does not block; -1: it has ended */
    int        rank;
    bool       prefixed;  /* "[R] " stands before each line that does not say "rank R" by itself */
    bool       raw;       /* a trusted lesson's own narration: goes out as it is */
    struct str line;      /* of one that has no end yet */
};
/* Reads once; whole lines go to `out`. false: there was nothing, or it has ended. */
bool stream_read(struct stream *stream, struct str *out);
/* The rest, as a line; closes. */
void stream_finish(struct stream *stream, struct str *out);
#endif
