/* The timeline: a row per lane, the selected lane unfolded where rows allow, the flow of the selected event. */
#ifndef VIEWER_TIMELINE_H
#define VIEWER_TIMELINE_H
#include "canvas.h"
#include "view.h"

int  timeline_wanted(const struct model *model, const struct view *view); /* rows it would like */
void timeline_draw(const struct model *model, const struct view *view, struct canvas *pane,
                   const struct capabilities *capabilities);
/* The first lane to show so that the selected one is among `rows`. */
int  timeline_top(const struct model *model, const struct view *view, int rows);
/* The lane in that row of a timeline of so many; -1 none. */
int  timeline_lane_at(const struct model *model, const struct view *view, int rows, int row);

void ruler_draw(const struct model *model, const struct view *view, struct canvas *pane,
                const struct capabilities *capabilities);
void minimap_draw(const struct model *model, const struct view *view, struct canvas *pane,
                  const struct capabilities *capabilities);
#endif
