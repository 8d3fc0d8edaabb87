/* Who stops a run from outside of it: an interrupt, and the limits on what nobody can count beforehand, the CPU seconds
 * of the process and the memory that it really holds. What a run may count by itself is in its account (sched/account.h);
 * this is the net below it, for code that does not come back.
 *
 * Order of use: watch_start, sched_run, watch_end; watch_add_signal for who waits for signals himself. */
#ifndef CLI_WATCH_H
#define CLI_WATCH_H
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>

struct sched;

struct watch_limits {
    bool   signals;      /* an interrupt ends the run */
    double cpu_seconds;  /* of the process from now on; waiting takes none. 0: no limit */
    size_t memory;       /* bytes that only this process has in memory; 0: no limit */
};

struct watch {
    struct sched       *sched;
    struct watch_limits limits;
    double              started;     /* CPU seconds of the process */
    pthread_t           thread;
    sigset_t            signals, before;
    bool                running;
    atomic_bool         ended;       /* the run is over: SIGUSR2 says so to the thread */
    atomic_bool         lesson_over; /* the result is known: freeing it has no limit */
};

/* Blocks the signals in every thread that is made from now on. Without a thread to watch nothing is limited. */
void watch_start(struct watch *watch, struct sched *sched, const struct watch_limits *limits);
void watch_end(struct watch *watch);
void watch_add_signal(sigset_t *signals, int number); /* unless whoever started the program had it ignored */
#endif
