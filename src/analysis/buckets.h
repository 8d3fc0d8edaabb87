/* DDP's buckets on all ranks as of an event, in words: for the pane and for `info buckets`. The facts are the state's
 * (state_buckets); names of parameters are those that the events near by have told.
 * Order of use: buckets_ranks; bucket_status, bucket_name, buckets_parties, buckets_next; buckets_print. */
#ifndef ANALYSIS_BUCKETS_H
#define ANALYSIS_BUCKETS_H
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include "analysis/state.h"

struct trace; struct str;

enum { BUCKETS_MOST = 256 };

/* Names of a rank's parameters by their index, as texts of the trace; 0: not told. */
struct bucket_names { int64_t texts[BUCKETS_MOST]; };

int  buckets_ranks(const struct trace *trace);                   /* how many there are */
/* "pending", "ready", "sent", "reduced", "copying back", "done": how far it is. */
const char *bucket_status(const struct state_bucket *bucket);
/* The first that was not sent yet, as an index into the list; -1: all were. */
int  buckets_next(const struct state_bucket *buckets, size_t count);
/* Ranks that stand alike, in one word group each, as many as there are: "r0 done  r1-r3 b1 2 left". `here` is marked.
 * Without memory `out` is broken. */
void buckets_parties(const struct state *state, int ranks, int here, struct str *out);
void bucket_names(const struct trace *trace, int rank, size_t seq, struct bucket_names *names);
/* "fc2.weight fc2.bias", of those without a name the index. */
void bucket_params(const struct trace *trace, const struct state_bucket *bucket, const struct bucket_names *names,
                   struct str *out);
/* What the events just before `seq` have told of a bucket of that event's rank: its bytes (-1: not near), and the names of
 * its gradients that came in this iteration, the first few as texts of the trace. */
enum { BUCKET_NEAR_NAMES = 3 };
struct bucket_near { int64_t bytes, names[BUCKET_NEAR_NAMES]; int count; };
void bucket_look_near(const struct trace *trace, int64_t bucket, size_t seq, struct bucket_near *near);
/* Lines for `info buckets`; without memory `out` is broken. */
void buckets_print(const struct trace *trace, const struct state *state, size_t seq, struct str *out);
#endif
