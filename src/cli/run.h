/* Runs one lesson, headless; with a debugger attached it is the engine of a session. */
#ifndef CLI_RUN_H
#define CLI_RUN_H

struct run_options; struct debugger;

/* Answers the exit status; what went wrong has been said on stderr. `debugger` may be NULL; it is told of the end. */
int run_lesson(const struct run_options *options, struct debugger *debugger);
#endif
