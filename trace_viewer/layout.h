/* Where each part of the frame stands, for any size: rows are dealt out by priority, then columns. */
#ifndef VIEWER_LAYOUT_H
#define VIEWER_LAYOUT_H
#include <stdbool.h>
#include "view.h"

struct box { int row, column, height, width; }; /* height 0: not shown */

struct layout {
    struct box title, ruler, minimap, timeline, lesson, source, inspector, event, message, keys;
    struct box more[2];      /* below the inspector on tall screens: the pages after the open one */
    bool       words_only;   /* too small for a timeline: the event in words */
    bool       source_apart; /* the source has a pane beside the inspector's, not one of its tabs */
};

struct layout layout_of(const struct model *model, const struct view *view, int width, int height);
#endif
