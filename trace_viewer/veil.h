/* What the screen keeps back: everything behind the first question that holds (asking.h), the horizon; and behind one that
 * was put off events of the kinds that it hides, until it is answered. Order of use: veil_update whenever the cursor, the
 * answers or the model may have changed; veil_hides; veil_free. */
#ifndef VIEWER_VEIL_H
#define VIEWER_VEIL_H
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include "model.h"

struct asking;

struct veil {
    uint32_t *from;        /* of each kind: the first question that hides it; UINT32_MAX none */
    size_t    kinds, room;
    bool      draws;       /* a question that was put off hides something */
    uint64_t  whole;       /* up to this time nothing at all is kept back; UINT64_MAX: nothing is anywhere */
    size_t    horizon;     /* behind this event all is hidden; NO_EVENT: nothing is */
    size_t    stamp;       /* another one whenever something else is kept back */
    uint64_t  until;       /* its time: no span is drawn beyond; UINT64_MAX: all are */
    uint64_t  mask;        /* a bit for each hidden kind, by kind % 64: what has none of them can be taken whole */
    uint64_t  sum;         /* of what is hidden: as long as it is the same, so is what is shown */
    uint32_t  rest;        /* of kinds without a place in `from`: there was no memory */
};

/* `limit`: nothing behind it is shown either; NO_EVENT: no limit. */
void veil_update(struct veil *veil, const struct model *model, const struct asking *asking, size_t limit);
bool veil_hides(const struct veil *veil, const struct model *model, size_t seq);
/* The last question that was put off and hides that event; NO_EVENT: none does. */
size_t veil_question(const struct model *model, const struct asking *asking, size_t seq);
/* Whether events of that kind, or of one that its name begins, are kept back somewhere: what a pane counts of them would
 * tell. */
bool veil_hides_kind(const struct veil *veil, const struct model *model, const char *name);
bool veil_hides_lane(const struct veil *veil, const struct model *model, size_t lane); /* all of it */
/* Something of these kinds (a bit each, by kind % 64), or up to that time, may be hidden. */
bool veil_meets(const struct veil *veil, uint64_t kinds, uint64_t last);
void veil_free(struct veil *veil);
#endif
