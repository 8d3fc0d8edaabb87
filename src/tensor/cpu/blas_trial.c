/* What is asked before the libraries of blas.h are opened. OpenBLAS tries for ever to get its buffer; the Fortran and
 * OpenMP libraries below exit from their constructors; oneDNN's exceptions abort. None of that can be caught here.
 *
 * Interface: address_space_fits, memory_is_guarded, child_survives, run_silent. */
#include "tensor/cpu/blas_trial.h"
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>
#include "base/vec.h"

bool
address_space_fits(size_t bytes)
{
    void *room = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (room == MAP_FAILED)
        return false;
    munmap(room, bytes);
    return true;
}

static bool
is_limited(int resource)
{
    struct rlimit limit;
    return getrlimit(resource, &limit) == 0 && limit.rlim_cur != RLIM_INFINITY;
}

bool
memory_is_guarded(void)
{
    Dl_info allocator = { 0 }, library = { 0 };
    void   *malloc_found = dlsym(RTLD_DEFAULT, "malloc"), *qsort_found = dlsym(RTLD_DEFAULT, "qsort");
    bool    counts = dlsym(RTLD_DEFAULT, "allocations_seen") != NULL; /* bench's own, which never fails by itself */
    bool    own = !counts && malloc_found != NULL && qsort_found != NULL && dladdr(malloc_found, &allocator) != 0 &&
               dladdr(qsort_found, &library) != 0 && allocator.dli_fbase != library.dli_fbase;
    return own || is_limited(RLIMIT_AS) || is_limited(RLIMIT_DATA);
}

void
run_silent(bool (*attempt)(struct blas *blas), struct blas *blas)
{
    int null = open("/dev/null", O_RDWR | O_CLOEXEC), out = dup(STDOUT_FILENO), err = dup(STDERR_FILENO);
    if (null >= 0 && out >= 0 && err >= 0 && dup2(null, STDOUT_FILENO) >= 0 && dup2(null, STDERR_FILENO) >= 0)
        attempt(blas);
    if (out >= 0)
        dup2(out, STDOUT_FILENO);
    if (err >= 0)
        dup2(err, STDERR_FILENO);
    int opened[] = { null, out, err };
    for (size_t i = 0; i < countof(opened); i++)
        if (opened[i] >= 0)
            close(opened[i]);
}

bool
child_survives(bool (*attempt)(struct blas *blas), struct blas *blas)
{
    fflush(NULL); /* a library that gives up by exit() would write it a second time */
    pid_t child = fork();
    if (child == 0) {
        struct rlimit no_core = { 0, 0 };
        setrlimit(RLIMIT_CORE, &no_core);
        run_silent(attempt, blas);
        _exit(EXIT_SUCCESS);
    }
    int   status = 0;
    pid_t ended;
    do {
        ended = child > 0 ? waitpid(child, &status, 0) : -1;
    } while (ended < 0 && child > 0 && errno == EINTR);
    return ended == child && WIFEXITED(status) && WEXITSTATUS(status) == EXIT_SUCCESS;
}
