/* Runs one lesson, headless; with a debugger attached it is the engine of a session. */
#ifndef CLI_RUN_H
#define CLI_RUN_H

struct run_options; struct debugger;

/* Answers the exit status; what went wrong has been said on stderr. `debugger` may be NULL; it is told of the end. */
int run_lesson(const struct run_options *options, struct debugger *debugger);
/* Whether a run of it could begin: it can be read and is Lua. -1: go on; else the exit status, and what is wrong has been
 * said, as a run says it. */
int lesson_precheck(const struct run_options *options);
#endif
