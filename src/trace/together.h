/* The running traces of a job as one, asked again and again: this process's own and the files of the others, on
 * the same machine. Everything up to a cut (join.h) that the job has come to is the same in all its processes and
 * keeps its place for good. Behind it comes what this process has recorded since, which is the lesson's own doing
 * and thus the same in all of them, too. Order of use: together_new when the job has met; together_come_to at each
 * cut; together_trace at each question; together_free before the writer is closed. */
#ifndef TRACE_TOGETHER_H
#define TRACE_TOGETHER_H
#include <stdbool.h>
#include <stddef.h>

struct together; struct trace; struct trace_writer;

/* paths: of rank's trace, of `size`; copied. NULL: it is elsewhere, and missing. The own one's is never opened.
 * NULL: no memory. */
struct together *together_new(const struct trace_writer *own, int rank, const char *const *paths, int size);
void             together_free(struct together *together);
/* All have noted this cut (JOB_CUT) in their traces, and nobody has gone on before they had. Counts up from 1. */
void             together_come_to(struct together *together, unsigned cut);
/* As of now; its own until the next call, which may answer another one. *is_new: this is another one than before.
 * NULL: `why`. What the own reader says (trace_starved, trace_gone) is the caller's to ask: together_own. */
struct trace    *together_trace(struct together *together, bool *is_new, char *why, size_t why_size);
struct trace    *together_own(struct together *together, char *why, size_t why_size);   /* refreshed; NULL: `why` */
#endif
