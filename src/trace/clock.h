/* The wall clock of traces: the time-stamp counter where it is constant (a third of a system clock's price), else the
 * system's monotonic clock. Order of use: trace_wall_clock once; trace_wall_now per event; trace_wall_ps to turn
 * the distance from a start into picoseconds, at `ticks_per_ms` as trace_wall_rate measured it. */
#ifndef TRACE_CLOCK_H
#define TRACE_CLOCK_H
#include <stdint.h>
#include <time.h>
#include "trace/format.h"
#if defined(__x86_64__)
#include <x86intrin.h>
#endif

enum trace_clock trace_wall_clock(void);                  /* CLOCK_TSC or CLOCK_MONOTONIC_NS */
uint64_t         trace_wall_rate(enum trace_clock clock); /* ticks per millisecond; takes 2 ms for CLOCK_TSC */
uint64_t         trace_wall_ps(uint64_t from, uint64_t to, uint64_t ticks_per_ms); /* 0 when `to` lies before */
uint64_t         trace_raw_ns(void);                      /* what the counter is measured against */

static inline uint64_t
trace_wall_now(enum trace_clock clock)
{
    if (clock == CLOCK_TSC) {
#if defined(__x86_64__)
        return __rdtsc();
#elif defined(__aarch64__)
        uint64_t ticks;
        __asm__ volatile("mrs %0, cntvct_el0" : "=r"(ticks));
        return ticks;
#endif
    }
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}
#endif
