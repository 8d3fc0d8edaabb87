/* Which clock a free run is traced with, and how fast it ticks.
 *
 * Interface in order of use: trace_wall_clock, trace_wall_rate; trace_wall_now (in the header), trace_wall_ps. */
#include "trace/clock.h"

#if defined(__x86_64__)
#include <cpuid.h>
#endif

enum trace_clock
trace_wall_clock(void)
{
#if defined(__x86_64__)
    /* "Invariant TSC": constant_tsc and nonstop_tsc in one bit. Without it the counter's rate follows the CPU's. */
    unsigned a, b, c, d;
    if (__get_cpuid(0x80000007u, &a, &b, &c, &d) && (d & 1u << 8) != 0)
        return CLOCK_TSC;
#elif defined(__aarch64__)
    return CLOCK_TSC;
#endif
    return CLOCK_MONOTONIC_NS;
}

uint64_t
trace_raw_ns(void)
{
#ifdef CLOCK_MONOTONIC_RAW
    const clockid_t raw = CLOCK_MONOTONIC_RAW;
#else
    const clockid_t raw = CLOCK_MONOTONIC;
#endif
    struct timespec now;
    clock_gettime(raw, &now);
    return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}

uint64_t
trace_wall_rate(enum trace_clock clock)
{
    if (clock != CLOCK_TSC)
        return 1000000;
    uint64_t start = trace_raw_ns(), first = trace_wall_now(clock), passed;
    do {
        passed = trace_raw_ns() - start;
    } while (passed < 2000000);
    uint64_t ticks = trace_wall_now(clock) - first;
    uint64_t rate = (uint64_t)((unsigned __int128)ticks * 1000000u / passed);
    return rate > 0 ? rate : 1;
}

uint64_t
trace_wall_ps(uint64_t from, uint64_t to, uint64_t ticks_per_ms)
{
    if (to <= from || ticks_per_ms == 0)
        return 0;
    unsigned __int128 ps = (unsigned __int128)(to - from) * 1000000000u / ticks_per_ms;
    return ps > UINT64_MAX ? UINT64_MAX : (uint64_t)ps;
}
