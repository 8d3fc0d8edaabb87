/* Learning-rate schedules as arithmetic: from one epoch's rate to the next, as torch.optim.lr_scheduler does it (so a
 * rate that the user changes is carried on), and the rate of an epoch by itself, which SequentialLR begins with. */
#ifndef OPTIM_SCHEDULE_H
#define OPTIM_SCHEDULE_H
#include <stdint.h>

enum schedule_kind { SCHEDULE_STEP, SCHEDULE_MULTI_STEP, SCHEDULE_EXPONENTIAL, SCHEDULE_COSINE, SCHEDULE_LINEAR };
struct schedule {
    enum schedule_kind kind;
    int64_t            length;              /* step_size, T_max or total_iters: 1 or more */
    double             gamma, eta_min, start_factor, end_factor;
    const int64_t     *milestones;          /* ascending; borrowed */
    int                milestone_count;
};

/* `epoch` counts the scheduler's steps; its first rate is that of epoch 0. */
double schedule_next(const struct schedule *schedule, double lr, double base_lr, int64_t epoch);
double schedule_at(const struct schedule *schedule, double base_lr, int64_t epoch);
#endif
