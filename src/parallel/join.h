/* Join: ranks with unequally many inputs train together. A rank whose inputs have run out stays: as long as others go on
 * it makes the collectives of their iterations, with zeros. torch.distributed.algorithms.join.
 *
 * A joinable is whatever makes collectives in each iteration: a DistributedDataParallel (ddp_join.c), or what a lesson
 * writes. Order of use, on each rank:
 *
 *   join_check                      what takes part fits together
 *   join_config_of                  given to each joinable, until the body is over
 *   the body; at the beginning of each iteration's collectives a joinable calls
 *     join_notify_context           "I am not done": the first joinable speaks for all
 *   join_exit                       my inputs have run out: shadows the others' iterations until the last has ended */
#ifndef PARALLEL_JOIN_H
#define PARALLEL_JOIN_H
#include <stdbool.h>

struct task; struct tensor; struct process_group; struct work;

/* What shadows one joinable's collectives. Each answers false if it has failed. */
struct joinable {
    struct process_group *group;
    int                   device;       /* where the numbers lie that the ranks exchange for Join itself */
    bool (*main_hook)(struct task *me, void *context);            /* one iteration of the ranks that go on */
    bool (*post_hook)(struct task *me, void *context, bool is_last_joiner);    /* all have ended */
    void *context;
};

/* How a joinable takes part at present; zeros: not at all. */
struct join_config { bool enable, throw_on_early_termination, is_first_joinable; };

struct join {
    const struct joinable *joinables;
    int                    count;
    bool                   enable;
    bool                   throw_on_early_termination;   /* the first rank that ends ends all, by an error */
};

bool join_check(struct task *me, const struct join *join);      /* false: failed */
struct join_config join_config_of(const struct join *join, int index);
bool join_exit(struct task *me, const struct join *join);       /* false: failed */

/* How many ranks are in this iteration: the sum of ones from those that have not ended. Zeros at first. */
struct live_ranks {
    struct work   *work;                /* under way; NULL: `count` holds */
    struct tensor *ones;
    int            count;               /* 0: nobody has asked */
};
/* Nothing but for the first joinable of an enabled Join. `live` may be NULL: then the sum is not kept. false: failed, if
 * throw_on_early_termination is set also since another rank has ended. */
bool join_notify_context(struct task *me, const struct join_config *config, const struct joinable *joinable,
                         struct live_ranks *live);
bool live_ranks_count(struct task *me, struct live_ranks *live, int *count);   /* waits; 0: nobody has asked */
void live_ranks_forget(struct task *me, struct live_ranks *live);

/* The largest rank of those that are candidates; false: failed. */
bool join_find_common_rank(struct task *me, const struct joinable *joinable, bool is_candidate, int *rank);
/* The sum of `number` over all ranks, waited for; false: failed. */
bool join_sum(struct task *me, const struct joinable *joinable, double number, double *sum);
#endif
