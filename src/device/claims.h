/* Claims: what a collective or an irecv has in its hands. Between its call and the wait for it, elements are read or
 * changed at a moment that nobody can tell; until then the rank leaves them alone. Who reads what is being changed, or
 * changes what is being read, is told so, in both executors and whatever the clock did.
 *
 * A claim is over when the rank has waited for its claimer or, where claimers end in line, for a later one; no task and
 * no clock is asked. Claims lie at their storage, which in most moments has none: that is one look at one number.
 *
 * Order of use: claim_line_new once a process group; claimer_new for a work, claims_add for each of its tensors,
 * claimer_issue, claimer_waited by who waits, claimer_unref. Every access asks claims_allow (storage.h does). */
#ifndef DEVICE_CLAIMS_H
#define DEVICE_CLAIMS_H
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include "device/storage.h"

struct task; struct sched;

/* Claimers that end one after the other, in the order of their numbers. */
struct claim_line { atomic_int references; atomic_int_least64_t waited; /* for all below this number */ };
struct claim_line *claim_line_new(void);                          /* one reference; NULL: no memory */
void claim_line_unref(struct claim_line *line);                   /* NULL: nothing */
void claim_line_waited(struct claim_line *line, int64_t below);

enum { CLAIMER_DETAIL = 44 };
struct claimer {
    atomic_int           references;
    atomic_bool          over;
    struct claim_line   *line;        /* NULL: it ends by itself */
    atomic_int_least64_t number;      /* INT64_MAX: not issued yet; -1: it has none */
    const char          *name;        /* "all_reduce", "irecv" */
    char                 detail[CLAIMER_DETAIL];  /* " of group 1", " from rank 3"; may be empty */
    uint32_t             lesson_line; /* of the call */
    bool                 yields;      /* to writes: somebody else tells of them */
};
/* One reference; `line` is shared. NULL: failed. */
struct claimer *claimer_new(struct task *me, struct claim_line *line, const char *name);
struct claimer *claimer_ref(struct claimer *claimer);             /* NULL: NULL */
void claimer_unref(struct task *me, struct claimer *claimer); /* NULL: nothing */
void claimer_issue(struct claimer *claimer, int64_t number);      /* NULL: nothing */
void claimer_waited(struct claimer *claimer);                     /* the rank has, for it and those before it */
void claimer_over(struct claimer *claimer);                       /* it touches nothing any more; NULL: nothing */

/* Somebody has claimed bytes of it, or had. */
static inline bool
storage_is_claimed(const struct storage *storage)
{
    return atomic_load_explicit(&storage->claimed, memory_order_relaxed) > 0;
}
/* No claim is in the way of the accesses of one op. false: failed, it was told. */
bool claims_allow(struct task *me, const struct access *accesses, int count) __attribute__((warn_unused_result));
/* Claims these bytes, to be read or written. false: failed, another one's claim is in the way, or no memory. */
bool claims_add(struct task *me, struct claimer *claimer, const struct access *access)
    __attribute__((warn_unused_result));
void claims_free(struct storage *storage);                        /* of a storage that goes */

/* How messages call the tensor of an access; false: it has no name. It looks, and makes no event. */
struct access_names { bool (*find)(struct task *me, const struct access *access, char *out, size_t room); };
void claims_name_by(struct sched *sched, const struct access_names *names);   /* outlives the run */
#endif
