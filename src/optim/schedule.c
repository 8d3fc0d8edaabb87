/* The schedules of torch/optim/lr_scheduler.py: get_lr and _get_closed_form_lr, operation by operation.
 *
 * Interface: schedule_next, schedule_at. */
#include "optim/schedule.h"
#include "base/math.h"
#include "optim/internal.h"

static const double pi = 3.141592653589793;

static int64_t
milestones_at(const struct schedule *schedule, int64_t epoch)
{
    int64_t count = 0;
    for (int i = 0; i < schedule->milestone_count; i++)
        count += schedule->milestones[i] == epoch;
    return count;
}

static int64_t
milestones_until(const struct schedule *schedule, int64_t epoch)
{
    int64_t count = 0;
    for (int i = 0; i < schedule->milestone_count; i++)
        count += schedule->milestones[i] <= epoch;
    return count;
}

static double
cosine_next(const struct schedule *schedule, double lr, double base_lr, int64_t epoch)
{
    double eta = schedule->eta_min, length = (double)schedule->length;
    if (epoch == 0)
        return lr;
    if ((epoch - 1 - schedule->length) % (2 * schedule->length) == 0)
        return lr + (base_lr - eta) * (1 - math_cos(pi / length)) / 2; /* up again: there is nothing to multiply */
    double now = 1 + math_cos(pi * (double)epoch / length), before = 1 + math_cos(pi * (double)(epoch - 1) / length);
    return now / before * (lr - eta) + eta;
}

static double
linear_next(const struct schedule *schedule, double lr, int64_t epoch)
{
    double start = schedule->start_factor, span = schedule->end_factor - start, length = (double)schedule->length;
    if (epoch == 0)
        return lr * start;
    if (epoch > schedule->length)
        return lr;
    return lr * (1 + span / (length * start + (double)(epoch - 1) * span));
}

double
schedule_next(const struct schedule *schedule, double lr, double base_lr, int64_t epoch)
{
    switch (schedule->kind) {
    case SCHEDULE_STEP:        return epoch == 0 || epoch % schedule->length != 0 ? lr : lr * schedule->gamma;
    case SCHEDULE_MULTI_STEP:  return lr * math_pow(schedule->gamma, (double)milestones_at(schedule, epoch));
    case SCHEDULE_EXPONENTIAL: return epoch == 0 ? lr : lr * schedule->gamma;
    case SCHEDULE_COSINE:      return cosine_next(schedule, lr, base_lr, epoch);
    case SCHEDULE_LINEAR:      return linear_next(schedule, lr, epoch);
    }
    return lr;
}

double
schedule_at(const struct schedule *schedule, double base_lr, int64_t epoch)
{
    double eta = schedule->eta_min, length = (double)schedule->length;
    double start = schedule->start_factor, span = schedule->end_factor - start;
    switch (schedule->kind) {
    case SCHEDULE_STEP:        return base_lr * math_pow(schedule->gamma, (double)(epoch / schedule->length));
    case SCHEDULE_MULTI_STEP:  return base_lr * math_pow(schedule->gamma, (double)milestones_until(schedule, epoch));
    case SCHEDULE_EXPONENTIAL: return base_lr * math_pow(schedule->gamma, (double)epoch);
    case SCHEDULE_COSINE:      return eta + (base_lr - eta) * (1 + math_cos(pi * (double)epoch / length)) / 2;
    case SCHEDULE_LINEAR:
        return base_lr * (start + span * (double)(epoch < schedule->length ? epoch : schedule->length) / length);
    }
    return base_lr;
}
