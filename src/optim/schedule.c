/* The schedules of torch/optim/lr_scheduler.py: get_lr and _get_closed_form_lr, operation by operation.
 *
 * Interface: schedule_next, schedule_at. */
#include "optim/schedule.h"
#include "optim/internal.h"

/* Cosines of our own: the C library's last bits differ between machines. */
static const double pi = 3.141592653589793;

/* Within 45 degrees, by Sun's polynomials (fdlibm's k_sin.c and k_cos.c). */
static double
small_sine(double x)
{
    double z = x * x;
    double r = 8.33333333332248946124e-03 +
               z * (-1.98412698298579493134e-04 +
                    z * (2.75573137070700676789e-06 +
                         z * (-2.50507602534068634195e-08 + z * 1.58969099521155010221e-10)));
    return x + z * x * (-1.66666666666666324348e-01 + z * r);
}

static double
small_cosine(double x)
{
    double z = x * x, half = 0.5 * z, whole = 1 - half;
    double r = z * (4.16666666666666019037e-02 +
                    z * (-1.38888888888741095749e-03 +
                         z * (2.48015872894767294178e-05 +
                              z * (-2.75573143513906633035e-07 +
                                   z * (2.08757232129817482790e-09 + z * -1.13596475577881948265e-11)))));
    return whole + ((1 - whole - half) + z * r);
}

/* Quarter turns are taken off in two parts, the first of 33 bits: exact for any number of epochs that ends. */
static double
cosine(double x)
{
    int64_t turns = (int64_t)(x * (2 / pi) + (x < 0 ? -0.5 : 0.5));
    double  rest  = (x - (double)turns * 1.57079632673412561417e+00) - (double)turns * 6.07710050650619224932e-11;
    switch (turns & 3) {
    case 0:  return small_cosine(rest);
    case 1:  return -small_sine(rest);
    case 2:  return -small_cosine(rest);
    default: return small_sine(rest);
    }
}

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
        return lr + (base_lr - eta) * (1 - cosine(pi / length)) / 2; /* up again: there is nothing to multiply */
    double now = 1 + cosine(pi * (double)epoch / length), before = 1 + cosine(pi * (double)(epoch - 1) / length);
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
    case SCHEDULE_MULTI_STEP:  return lr * whole_power(schedule->gamma, milestones_at(schedule, epoch));
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
    case SCHEDULE_STEP:        return base_lr * whole_power(schedule->gamma, epoch / schedule->length);
    case SCHEDULE_MULTI_STEP:  return base_lr * whole_power(schedule->gamma, milestones_until(schedule, epoch));
    case SCHEDULE_EXPONENTIAL: return base_lr * whole_power(schedule->gamma, epoch);
    case SCHEDULE_COSINE:      return eta + (base_lr - eta) * (1 + cosine(pi * (double)epoch / length)) / 2;
    case SCHEDULE_LINEAR:
        return base_lr * (start + span * (double)(epoch < schedule->length ? epoch : schedule->length) / length);
    }
    return base_lr;
}
