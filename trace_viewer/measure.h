/* What is measured: from where v was pressed to the cursor; without that the stage at which one stands. */
#ifndef VIEWER_MEASURE_H
#define VIEWER_MEASURE_H
#include "axis.h"
#include "canvas.h"
#include "view.h"

/* The row under the ruler: its ends, how long it is, how many events, which share of it the selected lane works. */
void measure_draw(const struct model *model, const struct view *view, const struct axis *axis, struct canvas *row);
/* The nearest edge of the lane's spans within `reach` ps of a moment: its event; NO_EVENT: there is none so near. */
size_t measure_edge(const struct model *model, int lane, uint64_t time, uint64_t reach);
#endif
