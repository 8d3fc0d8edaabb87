/* What time it is. */
#ifndef BASE_NOW_H
#define BASE_NOW_H
#include <stdint.h>
#include <time.h>

/* Never set back; from some moment of this host's past. */
static inline int64_t
now_ms(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (int64_t)now.tv_sec * 1000 + now.tv_nsec / 1000000;
}

/* Since 1970, as all processes of a host see it: it may be set back. */
static inline int64_t
wall_ns(void)
{
    struct timespec now;
    clock_gettime(CLOCK_REALTIME, &now);
    return (int64_t)now.tv_sec * 1000000000 + now.tv_nsec;
}
#endif
