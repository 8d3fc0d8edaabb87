/* The names at the left of the timeline's rows. */
#ifndef VIEWER_GUTTER_H
#define VIEWER_GUTTER_H
#include "canvas.h"
#include "rows.h"

/* The name of row number `at`. Answers how many columns it took, which for the row of the rest may be more than the
 * gutter has: then the row's body begins behind it. */
int gutter_draw(const struct model *model, const struct view *view, const struct rows *rows, int at,
                struct canvas *gutter, struct canvas *pane);
/* "1.2ms", "340us": a time in six columns. */
void gutter_print_short(uint64_t ps, char *out, size_t size);
#endif
