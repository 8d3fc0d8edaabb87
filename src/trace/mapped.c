/* Mappings that outlive the file under them. Why not pread into buffers of our own: events and texts are handed out by
 * address, in the thousands and for as long as the trace is open, so each would have to be copied and kept; a mapping
 * costs nothing until it is looked at, and the system takes it back when it needs the memory.
 *
 * Interface in order of use: mapped_open, mapped_gone, mapped_close. */
#include "trace/mapped.h"

#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdint.h>
#include <sys/mman.h>
#include <unistd.h>

enum { MOST = 8192 }; /* a thousand ranks that each look at the trace, with a few stretches each */

/* A signal handler gets no argument of ours, so what it must know lies here. `base` 0: free, 1: about to be filled
 * in. */
static struct {
    pthread_once_t   once;
    struct sigaction before;
    size_t           page;
    atomic_int       used;         /* none behind has ever been filled in */
    struct {
        _Atomic uintptr_t base;
        size_t            bytes;
        atomic_bool       gone;
    } stretch[MOST];
} all = { .once = PTHREAD_ONCE_INIT };

/* Zeros over the rest of the stretch, not over the page alone: what was cut off is gone, also if others write there
 * anew. */
static bool
cover(uintptr_t address)
{
    for (int i = 0, used = atomic_load(&all.used); i < used; i++) {
        uintptr_t base = atomic_load(&all.stretch[i].base);
        if (base <= 1 || address < base || address - base >= all.stretch[i].bytes)
            continue;
        uintptr_t from = address - address % all.page;
        void     *rest = (void *)from; /* NOLINT: the address of a fault is a number */
        atomic_store(&all.stretch[i].gone, true);
        return mmap(rest, base + all.stretch[i].bytes - from, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1,
                    0) != MAP_FAILED;
    }
    return false;
}

/* Any other bus error is the program's end, as it was before: it comes again at once. */
static void
bus_error(int number, siginfo_t *info, void *context)
{
    (void)context;
    int kept = errno;
    if (!cover((uintptr_t)info->si_addr))
        sigaction(number, &all.before, NULL);
    errno = kept;
}

static void
listen_for_bus_errors(void)
{
    struct sigaction action = { .sa_sigaction = bus_error, .sa_flags = SA_SIGINFO };
    sigemptyset(&action.sa_mask);
    all.page = (size_t)sysconf(_SC_PAGESIZE);
    sigaction(SIGBUS, &action, &all.before);
}

/* -1: all are taken. */
static int
take_place(void)
{
    for (int i = 0; i < MOST; i++) {
        uintptr_t free_one = 0;
        if (!atomic_compare_exchange_strong(&all.stretch[i].base, &free_one, 1))
            continue;
        int used = atomic_load(&all.used);
        while (used <= i && !atomic_compare_exchange_weak(&all.used, &used, i + 1))
            continue;
        return i;
    }
    return -1;
}

bool
mapped_open(struct mapped *mapped, int fd, size_t offset, size_t bytes)
{
    pthread_once(&all.once, listen_for_bus_errors);
    int place = take_place();
    if (place < 0) {
        errno = ENOMEM;
        return false;
    }
    void *base = mmap(NULL, bytes, PROT_READ, MAP_SHARED, fd, (off_t)offset);
    if (base == MAP_FAILED) {
        atomic_store(&all.stretch[place].base, 0);
        return false;
    }
    all.stretch[place].bytes = bytes;
    atomic_store(&all.stretch[place].gone, false);
    atomic_store(&all.stretch[place].base, (uintptr_t)base);
    *mapped = (struct mapped){ base, bytes, place };
    return true;
}

void
mapped_close(struct mapped *mapped)
{
    atomic_store(&all.stretch[mapped->place].base, 0); /* first: the addresses may be somebody else's at once */
    munmap(mapped->base, mapped->bytes);
}

bool
mapped_gone(const struct mapped *mapped)
{
    return atomic_load(&all.stretch[mapped->place].gone);
}
