/* Which rank runs first: a list over the timeline, of which one is chosen by its digit or by the arrows. Only a running
 * engine can let another go first.
 * Order of use: chooser_open, chooser_key while view->chooses, chooser_draw for each frame. */
#ifndef VIEWER_CHOOSER_H
#define VIEWER_CHOOSER_H
#include "panes.h"

void chooser_open(struct model *model, struct view *view);
void chooser_key(struct model *model, struct view *view, const char *key);
void chooser_draw(const struct scene *scene, struct canvas *timeline);
#endif
