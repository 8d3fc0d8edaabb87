/* The timeline: lanes in rows, the flows between them, the cursor. The ruler, the measure and the minimap above it. */
#ifndef VIEWER_TIMELINE_H
#define VIEWER_TIMELINE_H
#include "canvas.h"
#include "view.h"

int  timeline_wanted(const struct model *model, const struct view *view); /* rows it would like */
void timeline_draw(const struct model *model, const struct view *view, struct canvas *pane,
                   const struct capabilities *capabilities);
/* The lane in that row of a timeline of so many; -1 none. */
int  timeline_lane_at(const struct model *model, const struct view *view, int rows, int row);

/* In one row the ruler; where there is a second, what is measured, or how long squeezed gaps are. */
void ruler_draw(const struct model *model, const struct view *view, struct canvas *pane,
                const struct capabilities *capabilities);
void minimap_draw(const struct model *model, const struct view *view, struct canvas *pane,
                  const struct capabilities *capabilities);
#endif
