/* Where a kernel tells of a number that it cannot use. Kernels fail in no other way; who launched one looks here after it
 * has run: the host at once, of a stream the next synchronisation. */
#ifndef BASE_FAULT_H
#define BASE_FAULT_H
#include <stdbool.h>
#include <stdint.h>

struct kernel_fault {
    int     raised;       /* the last that is written */
    int64_t index, limit; /* an index that is none of `limit` rows; limit -1: an integer divisor of 0 */
    bool    zeros;        /* divisors of 0 are faults too */
};

static inline void
fault_raise(struct kernel_fault *fault, int64_t index, int64_t limit)
{
    fault->index = index;
    fault->limit = limit;
    __atomic_store_n(&fault->raised, 1, __ATOMIC_SEQ_CST);
}

/* True once for what has been raised. */
static inline bool
fault_take(struct kernel_fault *fault)
{
    return __atomic_exchange_n(&fault->raised, 0, __ATOMIC_SEQ_CST) != 0;
}
#endif
