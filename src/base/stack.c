/* A thread has the stack that is asked for, whatever the limit; the first one's cannot be changed any more.
 *
 * Interface: stack_run. */
#include "base/stack.h"
#include <pthread.h>
#include <signal.h>
#include <stdbool.h>
#include <sys/resource.h>

enum { STACK_NEEDED = 1 << 20, STACK_TAKEN = 4 << 20 };

struct start { int (*run)(int argc, char **argv); int argc; char **argv; int status; };

static void *
run_on_thread(void *argument)
{
    struct start *start = argument;
    start->status       = start->run(start->argc, start->argv);
    return NULL;
}

static bool
stack_is_small(void)
{
    struct rlimit limit;
    return getrlimit(RLIMIT_STACK, &limit) == 0 && limit.rlim_cur != RLIM_INFINITY && limit.rlim_cur < STACK_NEEDED;
}

/* Threads that name no size get the limit's: these, too, need more. */
static bool
run_on_large_stack(struct start *start)
{
    pthread_attr_t attributes;
    pthread_t      thread;
    sigset_t       all;
    pthread_attr_init(&attributes);
    bool ok = pthread_attr_setstacksize(&attributes, STACK_TAKEN) == 0;
#ifdef __GLIBC__
    ok = ok && pthread_setattr_default_np(&attributes) == 0;
#endif
    ok = ok && pthread_create(&thread, &attributes, run_on_thread, start) == 0;
    pthread_attr_destroy(&attributes);
    if (!ok)
        return false;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, NULL); /* they are for the thread */
    return pthread_join(thread, NULL) == 0;
}

int
stack_run(int (*run)(int argc, char **argv), int argc, char **argv)
{
    struct start start = { run, argc, argv, -1 };
    if (!stack_is_small())
        return run(argc, argv);
    return run_on_large_stack(&start) ? start.status : -1;
}
