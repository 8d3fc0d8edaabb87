/* What stands at a cell of the screen, and what a click, a drag or the wheel does there. */
#ifndef VIEWER_MOUSE_H
#define VIEWER_MOUSE_H
#include <stdbool.h>
#include <stdint.h>
#include "keys.h"
#include "layout.h"

enum hit_kind { HIT_NOTHING, HIT_LANE, HIT_MINIMAP, HIT_TITLE, HIT_TAB, HIT_PANE, HIT_CHOICE, HIT_KEY };

struct hit {
    enum hit_kind kind;
    int           lane;          /* HIT_LANE; -1 behind the last */
    uint64_t      from, to;      /* the time that the cell covers: HIT_LANE, HIT_MINIMAP */
    bool          timed;         /* false: it is the lane's name that stands there */
    enum pane     pane;          /* HIT_TITLE, HIT_TAB, HIT_PANE */
    int           row;           /* HIT_PANE: of its body, what is scrolled away counted too */
    int           choice;        /* HIT_CHOICE, from 0 */
    char          key[KEY_NAME]; /* HIT_KEY */
};

/* The one answer to what is where: from the layout that the frame is drawn by. Column and row from 0. */
struct hit hit_test(const struct model *model, const struct view *view, int column, int row);

struct driver;
bool mouse_is(const char *key);                             /* "Click 12,5" and its like */
/* true: it is that key of the last line, to be pressed. */
bool mouse_key(struct driver *driver, const char *key, char pressed[KEY_NAME]);
#endif
