/* A frame: a pure function of the model, the view, the size and the capabilities, into a canvas. */
#ifndef VIEWER_FRAME_H
#define VIEWER_FRAME_H
#include "canvas.h"
#include "view.h"

/* Draws the whole screen. `model` has been moved to the cursor (model_seek). */
void frame_draw(const struct model *model, const struct view *view, struct canvas *canvas,
                const struct capabilities *capabilities);
#endif
