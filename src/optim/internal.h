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
#endif
