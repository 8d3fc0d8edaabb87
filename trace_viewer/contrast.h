/* The row between the lanes of two runs that are compared: in each column `<` where the first run's stage is shorter, `>` where
 * the second's is, `=` where neither is by more than a twentieth, `-` and `+` where only the first or the second has one. */
#ifndef VIEWER_CONTRAST_H
#define VIEWER_CONTRAST_H
#include "axis.h"
#include "canvas.h"
#include "strip.h"

struct contrast { size_t first, second; }; /* lanes */

/* Into row `at` of the body; `strip` is set up but for lane, levels and scale, and its cells are used. */
void contrast_draw(const struct contrast *contrast, const struct axis *axis, struct strip *strip, struct canvas *body,
                   int at);
#endif
