/* The viewer's own commands: where one looks, not where the run stands. */
#ifndef VIEWER_LOOK_H
#define VIEWER_LOOK_H
#include "view.h"

/* Carries out a command of the viewer's scope (and `where`, `info`); false: quit was asked for and nothing was open. */
bool look(struct model *model, struct view *view, const struct command_line *line);
/* A slice of the search for words; false: nothing is to do. And what it says of where one stands, worked out anew. */
bool look_on(struct view *view, struct model *model);
void look_settle(struct view *view, const struct model *model);
#endif
