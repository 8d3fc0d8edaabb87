/* How every subcommand speaks of what went wrong: one line on stderr that begins with "ringside: " (an error of a lesson
 * may have more), and a name that was nearly right is answered with the one that was meant. What would make it two lines, or steer the terminal, is
 * spelled out. */
#ifndef CLI_MESSAGE_H
#define CLI_MESSAGE_H
#include <stdbool.h>
#include <stdint.h>
#include "base/nearest.h"

enum { STATUS_DONE = 0, STATUS_CHECK = 1, STATUS_USAGE = 2, STATUS_FAILED = 3 }; /* exit statuses, see design */

/* Prints the line; answers `status`, so that `return message(2, ...)` reads well. */
int message(int status, const char *format, ...) __attribute__((format(printf, 2, 3)));
/* What an uncaught error says: `where` and the first line of `text` in one line, its other lines below, indented, so that
 * none of them can pass for a message of ours. */
void message_error(const char *where, const char *text);
/* What ended a run: "FILE:LINE: KIND: WHO TEXT", of a report "KIND: TEXT" and the place last. `one_line`: spelled out in one. */
struct failure { const char *file; uint32_t line; const char *kind, *who, *text; };
void message_failure(const struct failure *failure, bool one_line);
/* A line of an answer on stdout: our label, and text that comes from outside, spelled out in the same way. */
void answer_line(const char *label, const char *text);
/* A trace's hash, as run and events print it; of a free run it says that no other run has it. */
void hash_line(uint32_t hash, bool repeats);
/* The last thing main does: what was printed is out, or one line says why not. A pipe that nobody reads any more is no
 * error; a status that a line was said about stays. */
int output_finish(int status);
#endif
