/* First with the core, if each thread may have one; then giving it away at each look; 50 us at most. */
#include "c10d/spin.h"
#include <sched.h>
#include <stdint.h>
#include <time.h>
#include <unistd.h>

enum { PAUSES = 4000, YIELD_NS = 50000 };

static inline void
pause_thread(void)
{
#if defined(__x86_64__) || defined(__i386__)
    __builtin_ia32_pause();
#elif defined(__aarch64__)
    __asm__ volatile("yield");
#endif
}

static int64_t
nanoseconds(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (int64_t)now.tv_sec * 1000000000 + now.tv_nsec;
}

static inline bool
is_so(const atomic_uint *at, bool is, unsigned value)
{
    return (atomic_load_explicit(at, memory_order_acquire) == value) == is;
}

int
spin_pauses(int threads)
{
    return threads <= (int)sysconf(_SC_NPROCESSORS_ONLN) ? PAUSES : 0;
}

bool
spin_until(const atomic_uint *at, bool is, unsigned value, int pauses)
{
    for (int i = 0; i < pauses; i++) {
        if (is_so(at, is, value))
            return true;
        pause_thread();
    }
    if (is_so(at, is, value))
        return true;
    for (int64_t begin = nanoseconds(); nanoseconds() - begin < YIELD_NS;) {
        sched_yield();
        if (is_so(at, is, value))
            return true;
    }
    return false;
}
