/* A lesson that repeats a hang: each rank's last calls, with the recorded groups, shapes, types, roots and tags, and
 * nothing else of the job. `ringside run` ends it with status 3 and the same cause.
 * Large worlds are folded: of ranks that did the same one or two stay. Large shapes are scaled down: equal ones stay
 * equal, others stay different. Both are said in the lesson. */
#ifndef FLIGHT_LESSON_H
#define FLIGHT_LESSON_H
#include <stdbool.h>

struct flight; struct hang; struct str;

enum { LESSON_RANKS = 8 };     /* that a folded world has */

/* The lesson's text. false: no memory, or nobody knows what should be repeated (`out` is empty then). */
bool flight_lesson(const struct flight *flight, const struct hang *hang, struct str *out);
#endif
