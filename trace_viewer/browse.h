/* Stepping through a recorded trace, forwards and back: the debugger's commands where no engine runs. */
#ifndef VIEWER_BROWSE_H
#define VIEWER_BROWSE_H
#include "view.h"

/* Carries out a command of the session's scope on the trace alone; says in view->message why it stopped. */
void browse(struct model *model, struct view *view, const struct command_line *line);
/* Goes there; forwards, the first question that was not answered yet stops. false: it did. */
bool browse_move(struct model *model, struct view *view, size_t seq);
/* The event that `finish` (or, backwards, `rfinish`) goes to; NO_EVENT: none. */
size_t browse_finish(struct model *model, size_t seq, bool backwards);
#endif
