/* One row of the timeline: the spans and marks of a lane, painted into cells. */
#ifndef VIEWER_STRIP_H
#define VIEWER_STRIP_H
#include <stddef.h>
#include "canvas.h"
#include "filter.h"
#include "model.h"
#include "scale.h"
#include "veil.h"

/* What a cell of the row contains. A cell is blank only if nothing touches it. */
struct strip_cell {
    const struct span *left, *right;  /* pieces before and behind `cut` eighths; equal: one span covers it all */
    uint64_t busy, longest;           /* ps of the spans that do not cover it all, of the longest of them */
    uint16_t tiny, marks;             /* spans that begin and end in it; marks */
    uint8_t  cut, work, mark_work;    /* the longest one's class; the marks' */
    bool     mixed, fault;            /* of several classes */
};

struct strip {
    const struct model *model;
    const struct lane  *lane;
    const struct veil  *veil;         /* what is not shown */
    const struct filter *filter;      /* what else is not; NULL: everything is */
    struct scale        scale;
    int                 first, last;  /* levels shown; those behind the first as far as they are legible */
    size_t              selected;     /* seq of the begin event of the selected span, or of the selected mark */
    bool                cursor_here;  /* this row holds the selection */
    int                 cursor;       /* its column, -1 none */
    const struct span  *chosen;       /* the selected span, once it was painted */
    struct strip_cell  *cells;        /* scale.columns of them */
};

void strip_paint(struct strip *strip);
void strip_draw(const struct strip *strip, struct canvas *canvas, int row, const struct capabilities *capabilities);
#endif
