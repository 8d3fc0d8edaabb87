/* The config file: lines of `set` and `bind`, read before the first frame. $XDG_CONFIG_HOME/ringside/viewer.conf, or
 * ~/.config/ringside/viewer.conf. */
#ifndef VIEWER_CONFIG_H
#define VIEWER_CONFIG_H
#include <stdbool.h>
#include "view.h"

/* What is wrong in it is said, with its line; the rest of it holds. No such file: nothing is said. */
void config_read(struct view *view, struct model *model);
bool config_read_file(struct view *view, struct model *model, const char *path); /* false: it cannot be read */
#endif
