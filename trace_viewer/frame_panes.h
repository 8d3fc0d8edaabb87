/* The panes of a frame: their borders, titles, tabs, bodies, and the marks of what is new in them. */
#ifndef VIEWER_FRAME_PANES_H
#define VIEWER_FRAME_PANES_H
#include "layout.h"

void panes_draw(const struct scene *scene, const struct layout *layout, struct canvas *canvas);
#endif
