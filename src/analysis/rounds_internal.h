/* What the files of rounds share: rounds_find.c finds the collective and who takes part, rounds.c follows its messages,
 * rounds_words.c says it. */
#ifndef ANALYSIS_ROUNDS_INTERNAL_H
#define ANALYSIS_ROUNDS_INTERNAL_H
#include "analysis/rounds.h"
#include "trace/format.h"

/* Events that are looked at on each side to find a collective, and between its beginning and the event. */
enum { ROUNDS_NEAR = 1 << 16, ROUNDS_BETWEEN = 1 << 18 };
#define ROUNDS_NOWHERE SIZE_MAX

/* Kinds by their numbers in this trace; -1: it has none. */
struct rounds_kinds { int hop, receive, numbers, algorithm, rendezvous, send, recv; };
struct rounds_kinds rounds_kinds(const struct trace *trace);

/* An argument by name; `absent` if the kind has none of it. */
int64_t rounds_argument(const struct trace *trace, const struct trace_event *event, const char *name, int64_t absent);
/* A stage of c10d in which ranks meet or messages go. */
bool    rounds_is_collective(const struct trace *trace, const struct trace_event *event);
/* Fills in when, begin, kind, sequence, group, bucket and members. false: no memory. */
bool    rounds_find(struct rounds *rounds, const struct state *state);
#endif
