/* The first page of ?: the few keys that are enough to go through a lesson, and what stands for what on the screen. */
#ifndef VIEWER_LEGEND_H
#define VIEWER_LEGEND_H
#include "canvas.h"

struct view;

void legend_draw(const struct view *view, struct canvas *canvas, struct lines *lines);
#endif
