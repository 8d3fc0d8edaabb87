/* The viewer's own commands: where one looks, not where the run stands. */
#ifndef VIEWER_LOOK_H
#define VIEWER_LOOK_H
#include "view.h"

/* Carries out a command of the viewer's scope (and `where`, `info`); false: quit was asked for and nothing was open. */
bool look(struct model *model, struct view *view, const struct command_line *line);
/* Somebody answers that question with one of its choices, counted from 0. */
void look_answer(struct view *view, const struct model *model, size_t question, int choice);
/* A slice of the search for words; false: nothing is to do. And what it says of where one stands, worked out anew. */
bool look_on(struct view *view, struct model *model);
void look_settle(struct view *view, const struct model *model);
#endif
