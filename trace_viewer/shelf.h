/* Rows that were painted, so that they are painted again only when something in them is new. Order of use: shelf_find;
 * where it has none, shelf_take and paint into it, painted_keep for each span that cells point to; shelf_note for the
 * frame. */
#ifndef VIEWER_SHELF_H
#define VIEWER_SHELF_H
#include "strip.h"

struct slab;

struct painted {
    /* What it is of. */
    size_t             lane, events;
    int                first, last;
    struct scale       scale;
    uint64_t           veil, sieve, end;       /* end: of the trace, where the lane has an open span */
    bool               whole;           /* else from a sample */

    struct strip_cell *cells;
    struct slab       *slabs;           /* the spans that cells point to */
    bool               rough;
    bool               starved;         /* there was no memory for all of it */
    uint64_t           used;            /* the last frame that showed it */
};

struct painted    *shelf_find(const struct strip *strip);  /* NULL: it was not painted, or something changed */
struct painted    *shelf_take(const struct strip *strip);  /* an empty one; stays until the frame is drawn. NULL: no memory */
const struct span *painted_keep(struct painted *painted, const struct span *span); /* NULL: no memory */
/* Whether that many spans more may be looked at in this frame; where there is time, the first row always may. */
bool               shelf_affords(const struct shelf *shelf, size_t spans);
void               shelf_spend(struct shelf *shelf, size_t spans);
void               shelf_note(struct shelf *shelf, bool rough);
#endif
