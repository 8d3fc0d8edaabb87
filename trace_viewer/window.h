/* The window in time: where it stands and how one comes back to where it stood. All of it with squeezed idle time and
 * aligned ranks taken into account. */
#ifndef VIEWER_WINDOW_H
#define VIEWER_WINDOW_H
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include "axis.h"

struct model; struct view;

struct scale window_scale(const struct view *view, const struct model *model, int columns);
/* Which moment each of so many columns of time shows. Times on it are as they are shown: window_shown. */
void     window_axis(const struct model *model, const struct view *view, int columns, struct axis *axis);
uint64_t window_shown(const struct model *model, const struct view *view, size_t seq);

void window_fix(struct view *view, const struct model *model);       /* from "all" to a zoom that can be changed */
/* That moment, as it is shown, stands in that column. */
void window_place(struct view *view, const struct model *model, uint64_t shown, int column);
/* The smallest zoom that shows all of it, in the middle. */
void window_show(struct view *view, const struct model *model, uint64_t from, uint64_t to);
void window_show_all(struct view *view, const struct model *model);
/* By whole columns, only if the cursor's event left the window's middle. */
void window_follow_cursor(struct view *view, const struct model *model);
void window_zoom(struct view *view, const struct model *model, bool in);  /* the cursor keeps its column */
void window_pan(struct view *view, const struct model *model, int columns);
void window_keep(struct view *view);                                 /* to come back to by window_back */
bool window_back(struct view *view);                                 /* false: nothing was kept */
#endif
