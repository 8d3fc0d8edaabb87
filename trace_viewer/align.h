/* Ranks side by side: by how much each is shown later or earlier, so that the iteration, or the end of the collective,
 * at which one stands comes at the same moment on all. Order of use: align_settle before a frame, align_shift,
 * align_late; align_free. */
#ifndef VIEWER_ALIGN_H
#define VIEWER_ALIGN_H
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct model;

enum align_by { ALIGN_WALL, ALIGN_ITERATION, ALIGN_COLLECTIVE };

struct aligned_rank { bool found; uint64_t anchor, arrival; };

struct align {
    enum align_by        by;
    struct aligned_rank *ranks;
    size_t               count, room;
    uint64_t             early, late; /* the first anchor and the last: that rank is not moved */
    uint64_t             first;       /* when the first arrives, as it is shown */
    int                  last;        /* the rank that came last to the collective; -1 none, or none alone */
    size_t               cursor;      /* as of this event */
    size_t               seen;
    uint32_t             iteration;   /* what they are aligned by */
    int64_t              sequence;
    uint16_t             kind;
};

void     align_settle(struct align *align, const struct model *model, size_t cursor);
uint64_t align_shift(const struct align *align, int rank);                /* ps by which its times are shown later */
uint64_t align_most(const struct align *align);                           /* of any rank */
/* By how much it came to the iteration behind the first one; to a collective, by the clock on which all end together.
 * false: it was not there. */
bool     align_late(const struct align *align, int rank, uint64_t *late);
void     align_free(struct align *align);
#endif
