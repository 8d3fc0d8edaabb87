/* Stepping through a recorded trace, forwards and back: the debugger's commands where no engine runs. */
#ifndef VIEWER_BROWSE_H
#define VIEWER_BROWSE_H
#include "view.h"

/* Carries out a command of the session's scope on the trace alone; says in view->message why it stopped. A search
 * that takes longer is under way then (view->moving). */
void browse(struct model *model, struct view *view, const struct command_line *line);
bool browse_on(struct model *model, struct view *view);    /* a slice of it; false: it is done, or there is none */
void browse_pause(struct model *model, struct view *view); /* stands where it has come to */
/* Goes there; forwards, the first question that was not answered yet stops. false: it did. */
bool browse_move(struct model *model, struct view *view, size_t seq);
#endif
