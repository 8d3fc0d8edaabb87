/* What the files of optim/ share. */
#ifndef OPTIM_INTERNAL_H
#define OPTIM_INTERNAL_H
#include <stddef.h>
#include "optim/optimizer.h"

struct optimizer {
    enum optim_kind       kind;
    int64_t               steps;
    struct optim_options *groups;
    size_t                group_count, group_room;
    struct optim_state   *states;     /* references; in the order of the groups */
    size_t                count, room;
};

/* Squaring: the same bits everywhere, which the C library does not promise of pow. */
static inline double
whole_power(double base, int64_t exponent)
{
    double result = 1;
    for (; exponent > 0; exponent >>= 1, base *= base)
        if (exponent & 1)
            result *= base;
    return result;
}
#endif
