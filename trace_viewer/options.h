/* The screen's part of `set`, and `bind`: for command lines and for the config file. */
#ifndef VIEWER_OPTIONS_H
#define VIEWER_OPTIONS_H
#include <stdbool.h>
#include <stddef.h>

struct model; struct view;

/* `set` with nothing behind it, an option of settings.def, or a command of the viewer that takes one of several words.
 * A name with [ is the lesson's, and so is `rank R NAME`. */
bool options_own(const char *rest);
bool options_set(struct view *view, struct model *model, const char *rest, char *why, size_t why_size);
bool options_bind(struct view *view, const char *rest, char *why, size_t why_size);
#endif
