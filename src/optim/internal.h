/* What the files of optim/ share. */
#ifndef OPTIM_INTERNAL_H
#define OPTIM_INTERNAL_H
#include <math.h>
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

/* By squaring, with twice as many digits on the way: the same bits everywhere, which the C library does not promise of
 * pow, and those of its pow where that rounds well, as in Python's **. */
static inline double
whole_power(double base, int64_t exponent)
{
    struct { double high, low; } power = { 1, 0 }, square = { base, 0 };
    for (; exponent > 0; exponent >>= 1) {
        double product, rest;
        if (exponent & 1) {
            product    = power.high * square.high;
            rest       = fma(power.high, square.high, -product) + (power.high * square.low + power.low * square.high);
            power.high = product + rest;
            power.low  = rest - (power.high - product);
        }
        product     = square.high * square.high;
        rest        = fma(square.high, square.high, -product) + 2 * (square.high * square.low);
        square.high = product + rest;
        square.low  = rest - (square.high - product);
    }
    return power.high;
}
#endif
