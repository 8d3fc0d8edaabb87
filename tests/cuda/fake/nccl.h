/* A NCCL of the tests' own: the functions of plugins/cuda/nccl_api.h for communicators that are threads of one
 * process, made of the CUDA runtime's public calls, so it does its work on whatever runtime is linked: the tests'
 * own too. What a rank gives is copied to the host in its stream, added up behind all of them, and copied back. As
 * with NCCL a call answers "in progress" until the others have called as well, waits for nobody, and never ends if
 * somebody does not come.
 *
 * It calls the profiler, as NCCL 2.28 does, when NCCL_PROFILER_PLUGIN is set. */
#ifndef FAKE_NCCL_H
#define FAKE_NCCL_H
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum fake_nccl_trouble {
    FAKE_NCCL_FINE,
    FAKE_NCCL_SLOW,        /* its next `count` looks are answered "in progress" */
    FAKE_NCCL_ASYNC,       /* after `count` looks it has failed with `result` */
    FAKE_NCCL_REFUSED      /* its next operation is answered with `result` at once */
};
struct fake_nccl_fault { enum fake_nccl_trouble trouble; int rank, count, result; const char *text; };

void fake_nccl_break(const struct fake_nccl_fault *fault);     /* of the communicators that live and come; NULL: none */
/* communicators that were neither destroyed nor aborted */
int  fake_nccl_living(void);
int  fake_nccl_aborted(void);                                  /* how many were, ever */
/* false: ranks may share one, which NCCL does not allow */
void fake_nccl_same_gpu(bool refused);

/* ---- nccl_player.c: what NCCL calls of a profiler ---- */

struct fake_ring {         /* a ring all-reduce over the network, as one rank sees it */
    int         rank, ranks, channels, steps;
    uint64_t    sequence, bytes;        /* of all elements together */
    const char *function, *dtype, *algorithm, *protocol;
    size_t      count;
    uint64_t    stamp;                  /* the GPU's clock when the kernel began; it runs 1000 ns for each step */
};
enum fake_profiler { FAKE_PROFILER_V4 = 4, FAKE_PROFILER_V5 = 5, FAKE_PROFILER_V6 = 6 };
void *fake_profiler_open(enum fake_profiler version, uint64_t comm, const char *name, int ranks, int rank);
void  fake_profiler_ring(enum fake_profiler version, void *context, const struct fake_ring *ring);
void  fake_profiler_close(enum fake_profiler version, void *context);
#endif
