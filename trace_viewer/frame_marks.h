/* A person's marks, as their letters, over the ruler and the minimap. */
#ifndef VIEWER_FRAME_MARKS_H
#define VIEWER_FRAME_MARKS_H
#include "layout.h"

void marks_draw(const struct scene *scene, const struct layout *layout, struct canvas *canvas);
#endif
