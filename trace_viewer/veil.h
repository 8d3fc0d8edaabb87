/* What the screen keeps back: events of kinds that a question hides, behind it, as long as it is open. A question is
 * open until its event has been passed or its answer was given or asked for. Order of use: veil_update whenever the
 * cursor, the answers or the model may have changed; veil_hides; veil_free. */
#ifndef VIEWER_VEIL_H
#define VIEWER_VEIL_H
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include "model.h"

struct veil {
    uint32_t *from;        /* of each kind: the first open question that hides it; UINT32_MAX none */
    size_t    kinds, room;
    bool      draws;       /* any of them hides something */
    uint64_t  mask;        /* a bit for each hidden kind, by kind % 64: what has none of them can be taken whole */
    uint64_t  sum;         /* of what is hidden: as long as it is the same, so is what is shown */
    size_t    question;    /* the first open one that does */
    uint32_t  rest;        /* of kinds without a place in `from`: there was no memory */
};

/* Where one stands: questions before `cursor` have been passed, those in the list were answered. */
struct veil_place { size_t cursor; const uint32_t *answered; int count; };

void veil_update(struct veil *veil, const struct model *model, const struct veil_place *place);
bool veil_hides(const struct veil *veil, const struct model *model, size_t seq);
bool veil_hides_lane(const struct veil *veil, const struct model *model, size_t lane); /* all of it */
void veil_free(struct veil *veil);
#endif
