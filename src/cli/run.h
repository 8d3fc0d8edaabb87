/* Runs one lesson, headless; with a debugger attached it is the engine of a session. */
#ifndef CLI_RUN_H
#define CLI_RUN_H

#include <stddef.h>

struct run_options; struct debugger; struct debugger_edit;

/* Answers the exit status; what went wrong has been said on stderr. `debugger` may be NULL; it is told of the end. */
int run_lesson(const struct run_options *options, struct debugger *debugger);
/* The same as the engine of a session, whose struct session_engine has the options as context. */
int run_in_session(void *options, int fd, const char *trace, const struct debugger_edit *edits, size_t edit_count);
/* Whether a run of it could begin: it can be read and is Lua. -1: go on; else the exit status, and what is wrong has been
 * said, as a run says it. */
int lesson_precheck(const struct run_options *options);
#endif
