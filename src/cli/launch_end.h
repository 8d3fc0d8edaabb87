/* How processes of a job came to their ends: who was first, what is said of it, to people and to the other ranks.
 * Order of use: worker_note_end when one has ended, worker_post_end to the others; ends_in_order, end_words and held_words when all
 * that is held may be said; job_words and job_status at the end. */
#ifndef CLI_LAUNCH_END_H
#define CLI_LAUNCH_END_H
#include <stdbool.h>
#include "base/str.h"
#include "cli/launch_start.h"

/* `wait_status` is waitpid's; `ended`: the launcher had asked it to go, or somebody the launcher. */
void worker_note_end(struct worker *worker, int wait_status, bool ended);
/* It has gone without taking leave of the others, so they have to be told. */
bool worker_left_others(const struct worker *worker);
/* Tells them. false: their store is gone. */
bool worker_post_end(const struct launch_plan *plan, const struct worker *worker);

/* Those that have failed, the first in time first; answers how many. */
int  ends_in_order(const struct worker *workers, int count, const struct worker **out);
/* "rank 2 was killed by signal 9 (Killed) in all_reduce #8 (line 13)" */
void end_words(const struct worker *worker, struct str *out);
/* What it has said since it failed. A report of a hang, of which each rank says the same, is cut to its head and its cause
 * where another was `reported` before it. Answers whether one is by now. */
bool held_words(const struct worker *worker, bool reported, struct str *out);
/* How the job ended, a line; nothing if it ended well. `by`: the signal that has stopped it, 0: none. `ordered`: those
 * that failed, in their order. */
void job_words(const struct worker *workers, int count, const struct worker *const *ordered, int failed, int by,
               struct str *out);
int  job_status(const struct worker *workers, int count, const struct worker *const *ordered, int failed, int by);
#endif
