/* One row of the timeline, or a linear stretch of it: the spans and marks of a lane, painted into cells. What was
 * painted is kept on the model's shelf, so that a frame costs what is new in it. Order of use: shelf_begin before a
 * frame, for each row (each stretch, with cells and scale of its own) strip_paint, strip_draw; then shelf_is_rough. */
#ifndef VIEWER_STRIP_H
#define VIEWER_STRIP_H
#include <stddef.h>
#include "canvas.h"
#include "model.h"
#include "scale.h"
#include "veil.h"

/* What a cell of the row contains. A cell is blank only if nothing touches it. */
struct strip_cell {
    const struct span *left, *right;  /* pieces before and behind `cut` eighths; equal: one span covers it all */
    uint64_t busy, longest;           /* ps of the spans that do not cover it all, of the longest of them */
    uint16_t tiny, marks;             /* spans that begin and end in it; marks */
    uint16_t works, mark_works;       /* a bit for each class of those that do not cover it all; of its marks */
    uint8_t  cut, work, mark_work;    /* the longest one's class; the marks' */
    bool     mixed, fault;            /* of several classes */
};

/* Spans and marks for which `hides` holds are passed over; NULL: none are. `sum`: as long as it is the same, so is
 * what is hidden. */
struct sieve { bool (*hides)(const void *what, const struct model *model, size_t seq); const void *what; uint64_t sum; };

struct strip {
    const struct model *model;
    size_t              lane;
    const struct veil  *veil;         /* what is not shown */
    struct sieve        sieve;        /* what else is not */
    struct scale        scale;
    int                 first, last;  /* levels shown; those behind the first as far as they are legible */
    size_t              selected;     /* seq of the begin event of the selected span, or of the selected mark */
    bool                cursor_here;  /* this row holds the selection */
    int                 cursor;       /* its column, -1 none */
    const struct span  *chosen;       /* the selected span, once it was painted; NULL none */
    struct span         chosen_span;  /* where `chosen` points */
    struct strip_cell  *cells;        /* scale.columns of them */
    bool                rough;        /* painted in proportion, or from a sample */
    bool                starved;      /* there was no memory for all of it */
};

struct shelf *shelf_new(void);                 /* NULL: no memory */
void          shelf_free(struct shelf *shelf);
/* A frame begins: at most so many spans are looked at one by one before rows are painted in proportion; SIZE_MAX: all. */
enum { SHELF_HASTY = 4000, SHELF_PATIENT = 8000 }; /* for a frame that answers a key, and where nobody waits */
void          shelf_begin(struct shelf *shelf, size_t spans);
bool          shelf_is_rough(const struct shelf *shelf); /* something in this frame was painted in proportion */

void strip_paint(struct strip *strip);
void strip_draw(const struct strip *strip, struct canvas *canvas, int row, const struct capabilities *capabilities);
#endif
