/* The state as of an event: one fold over the trace, used by the viewer, `info`, `back`'s texts and rs.trace.
 * state_seek moves it to "just after event seq"; forwards it goes on from where it is, backwards it starts from the
 * nearest checkpoint (some thousand at most, evenly spread). Everything it says comes from events, nothing is guessed.
 * Who must not wait for millions of events goes there in slices: until it is there every question is answered as of the
 * event that state_seq names, which lies on the way. */
#ifndef ANALYSIS_STATE_H
#define ANALYSIS_STATE_H
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include "analysis/memory.h"

struct trace; struct state;

struct state *state_new(struct trace *trace);          /* NULL: no memory. Borrows the trace */
void          state_free(struct state *state);
bool          state_seek(struct state *state, size_t seq); /* false: no memory, or seq past the end */
/* Looks at `budget` events at most. STATE_GOES_ON: the same again, or another event instead. */
enum state_progress { STATE_FAILED, STATE_THERE, STATE_GOES_ON }; /* failed: as state_seek's false */
enum state_progress state_seek_some(struct state *state, size_t seq, size_t budget);
size_t        state_seq(const struct state *state);

/* Open spans of a lane, outermost first: seq of their begin events. Answers how many there are (may exceed room). */
size_t state_open(const struct state *state, uint32_t lane, size_t *seqs, size_t room);
/* Memory of a device in bytes of its blocks, of the host (-1) in bytes as asked for; by what they are for. */
struct state_memory { uint64_t allocated, peak, blocks, reserved, role[MEMORY_ROLES]; };
struct state_memory state_memory(const struct state *state, int device);
/* The last snapshot of a storage (its id for trace_snapshot_at) at or before the event; 0: not recorded. `seq` (may
 * be NULL) gets the event that holds it. */
int64_t state_snapshot(const struct state *state, int64_t storage, size_t *seq);
/* The same of an earlier moment: before event `before`, of those that the state has come by so far. */
int64_t state_snapshot_before(const struct state *state, int64_t storage, size_t before, size_t *seq);
/* Buckets of a rank as DDP announced and filled them. */
struct state_bucket {
    int64_t     index, bytes, params, ready;
    int64_t     copied;                    /* gradients that it was copied back to */
    int64_t     sequence;                  /* of its all-reduce, if has_sequence */
    uint64_t    ready_bits, unused_bits;   /* of its first 64 parameters, in the order of `indices` */
    bool        launched, reduced, has_sequence, finalized, rebuilt;
    const char *indices;
};
size_t state_buckets(const struct state *state, int rank, struct state_bucket *out, size_t room);
/* Locks: who holds them. */
struct state_lock { const char *name; int holder_lane; size_t waiting; }; /* holder_lane -1: free */
size_t state_locks(const struct state *state, struct state_lock *out, size_t room);
/* Keys of a store, those set last first; how many there are. */
struct state_key { const char *name; int rank; size_t seq; uint32_t times; };
size_t state_keys(const struct state *state, struct state_key *out, size_t room);
int    state_iteration(const struct state *state);
#endif
