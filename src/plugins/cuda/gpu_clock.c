/* The GPU's own clock, globaltimer, in nanoseconds of the host's. Both count nanoseconds from moments of their own,
 * so what is sought is one distance. Each kernel bounds it from both sides: it began after the host had asked for it
 * and was over before the host saw that. The bounds of many kernels are intersected. The clocks also drift apart, a
 * few microseconds a second: bounds that contradict each other are of another time, and the newest are taken.
 *
 * Interface: gpu_clock_learn, gpu_clock_host. */
#include "plugins/cuda/profiler.h"

/* How fast what is known gets less sure: 1 / 131072, 8 us a second. */
enum { DRIFT_SHIFT = 17 };

void
gpu_clock_learn(struct gpu_clock *clock, uint64_t after, uint64_t first, uint64_t last, uint64_t before)
{
    if (first == 0 || last < first || before < after || before - after < last - first)
        return;
    int64_t most = (int64_t)(first - after), least = (int64_t)(last - before);
    if (clock->is_known) {
        int64_t slack = (int64_t)((before > clock->at ? before - clock->at : 0) >> DRIFT_SHIFT);
        int64_t kept_least = clock->least - slack, kept_most = clock->most + slack;
        bool    agrees = kept_least <= most && least <= kept_most;
        if (agrees) {
            least = kept_least > least ? kept_least : least;
            most  = kept_most < most ? kept_most : most;
        }
    }
    *clock = (struct gpu_clock){ .least = least, .most = most, .at = before, .is_known = true };
}

uint64_t
gpu_clock_host(const struct gpu_clock *clock, uint64_t stamp)
{
    if (!clock->is_known)
        return 0;
    int64_t distance = clock->least + (clock->most - clock->least) / 2;
    return stamp - (uint64_t)distance;
}
