/* Runs the viewer in a child, so that whatever happens to it the terminal is put back as it was. */
#ifndef VIEWER_GUARD_H
#define VIEWER_GUARD_H

/* Answers the status to exit with: the child's, or 128 + the signal that ended it. */
int guard_run(int (*run)(void *argument), void *argument);
#endif
