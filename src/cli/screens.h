/* The screens that look at a session: one at least, others as they come (`trace_viewer --attach`). Any of them may give
 * commands; each is answered, and the others are told where the session stands now. */
#ifndef CLI_SCREENS_H
#define CLI_SCREENS_H
#include "cli/session.h"

/* Serves whoever connects to the listener, until the last one has left or one of them has quit the session. Until the
 * first has come somebody holds the other end of `ready`: when that is closed nobody will. Closes the listener. */
void screens_serve(struct session *session, int listener, int ready);
#endif
