/* Flows between lanes: who sent what to whom, as lines that go under the spans. */
#ifndef VIEWER_FLOWS_H
#define VIEWER_FLOWS_H
#include "axis.h"
#include "canvas.h"
#include "rows.h"

/* Over rows that have been drawn. At most 64 routes; how many more there are stands beside the receivers' rows. */
void flows_draw(const struct model *model, const struct view *view, const struct rows *rows, const struct axis *axis,
                struct canvas *body);
#endif
