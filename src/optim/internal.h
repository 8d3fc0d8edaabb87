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

/* sparse.c: a step by a sparse gradient (SGD: or with a sparse momentum buffer). The state's slots are there but for a
 * momentum buffer; counting the step is the caller's. false: failed. */
bool sparse_sgd(struct task *me, const struct optim_options *options, struct optim_state *state);
bool sparse_adagrad(struct task *me, const struct optim_options *options, struct optim_state *state);
bool sparse_adam(struct task *me, const struct optim_options *options, struct optim_state *state);
double adagrad_rate(const struct optim_options *options, const struct optim_state *state);
#endif
