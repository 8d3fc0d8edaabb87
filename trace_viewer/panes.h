/* What the panes say, all of it as of the cursor; what was not recorded is said not to be. Each draws its body only:
 * titles and tabs are the frame's. `model` has been moved to the cursor (model_seek). */
#ifndef VIEWER_PANES_H
#define VIEWER_PANES_H
#include "canvas.h"
#include "view.h"

void lesson_draw(const struct model *model, const struct view *view, struct canvas *pane,
                 const struct capabilities *capabilities);
void source_draw(const struct model *model, const struct view *view, struct canvas *pane);
void source_title(const struct model *model, const struct view *view, char *out, size_t size);
void inspector_draw(const struct model *model, const struct view *view, enum page page, struct canvas *pane,
                    const struct capabilities *capabilities);
void memory_draw(const struct model *model, const struct view *view, struct canvas *pane, int row,
                 const struct capabilities *capabilities);
void values_draw(const struct model *model, const struct view *view, struct canvas *pane, int skip);
const char *page_name(enum page page);

/* The line of the lesson that caused the event, or the last one before it; 0 unknown. */
uint32_t lesson_line(const struct model *model, size_t seq);
#endif
