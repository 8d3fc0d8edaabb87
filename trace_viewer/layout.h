/* Where each part of the frame stands, for any size: rows are dealt out by priority, then columns. */
#ifndef VIEWER_LAYOUT_H
#define VIEWER_LAYOUT_H
#include <stdbool.h>
#include "panes.h"

struct box { int row, column, height, width; }; /* height 0: not shown */

/* A place for a pane. One of them changes with the event and has the tabs of all panes that are not on the screen. */
struct slot { struct box box; enum pane pane; bool changes; };

enum { SLOTS = 16 };

struct layout {
    struct box  title, ruler, minimap, timeline, event, message, keys;
    struct slot slots[SLOTS];
    int         slot_count;
    bool        words_only;   /* too small for a timeline: the event in words */
};

struct layout layout_of(const struct scene *scene, int width, int height);
/* The slot that shows the pane; NULL: it is not on the screen. */
const struct slot *layout_slot(const struct layout *layout, enum pane pane);
#endif
