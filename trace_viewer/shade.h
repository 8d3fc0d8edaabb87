/* Rows that are no lane: how busy several lanes are together, and numbers over time. */
#ifndef VIEWER_SHADE_H
#define VIEWER_SHADE_H
#include "axis.h"
#include "canvas.h"
#include "view.h"

/* Lanes side by side in one row: the share of them that works, of the time, in a shade; where nothing is drawn yet.
 * Their faults are seen everywhere. */
void shade_lanes(const struct model *model, const struct view *view, const struct axis *axis, const int *lanes,
                 int count, struct canvas *body, int row);
/* A curve in eighth blocks; answers its largest value in the window. */
int64_t shade_curve(const struct curve *curve, const struct axis *axis, uint64_t limit, struct canvas *body, int row);
#endif
