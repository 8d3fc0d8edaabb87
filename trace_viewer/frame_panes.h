/* The panes of a frame: their borders, titles, tabs, bodies, and the marks of what is new in them. */
#ifndef VIEWER_FRAME_PANES_H
#define VIEWER_FRAME_PANES_H
#include "layout.h"

/* The body of a pane without its first `skip` rows, those that are new since the last step marked. */
void pane_draw_body(const struct scene *scene, enum pane pane, int skip, struct canvas *body);
void panes_draw(const struct scene *scene, const struct layout *layout, struct canvas *canvas);
/* The pane whose tab stands in that column of the slot's title; the slot's own where there is none. */
enum pane panes_tab_at(const struct scene *scene, const struct layout *layout, const struct slot *slot, int column);
#endif
