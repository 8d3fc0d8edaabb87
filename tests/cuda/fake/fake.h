/* A CUDA runtime on the host's memory. The plug-in's own objects are linked against it instead of NVIDIA's, so that all of
 * its host code runs where no GPU is; kernels run through the emulator (emulate.h). What it looks for:
 *
 * - Order. Queued work runs on the calling thread, as late as the interface allows, at once, or at points that a seed
 *   draws; the same calls in the same order give the same run.
 * - Memory. A device's is closed to the host: who reads it faults. Fresh and freed memory is 0xff, which no fraction is.
 * - Misuse: the default stream, a stream while another GPU is current, kernels that touch another GPU's memory or memory
 *   that is nobody's, what was freed twice or while queued work uses it, wrong launches. Told on stderr and by an error.
 * - Values. Beside each kernel the CPU's own function runs on the same memory; the bits have to be equal. A difference
 *   is told on stderr, and breaks all later calls, as a real error of a kernel does.
 *
 * RINGSIDE_FAKE_CUDA sets it, words with commas between them:
 *     order=lazy|eager|seed:N      lazy
 *     devices=N                    GPUs: 1 (up to 16)
 *     memory=MiB                   of each: 1024
 *     processors=N                 multiprocessors of each: 4
 *     check=on|off                 the CPU's functions beside the kernels: on
 *     guard=on|off                 devices' memory is closed to the host between operations: on
 *     peer=on|off                  straight ways between GPUs: on
 *     mode=shared|exclusive|prohibited     compute mode of each: shared
 *     fail=no-driver|old-driver|no-gpu|wrong-architecture
 *     fail=count:ERROR             asking for GPUs answers the error of that number: 802
 *     fail=memory:N, pinned:N      the N-th time that such memory is asked for there is none
 *     fail=illegal:N               the N-th kernel that runs touches what it must not (700): for good
 *     fail=launch:N                the N-th launch is refused (701)
 *     fail=never:N                 the N-th event that is recorded is never reached
 * Several `fail` may stand beside each other. Words that it does not know end the process.
 *
 * runtime.c has GPUs, errors, settings; runtime_memory.c memory; runtime_queue.c streams and events; runtime_work.c what
 * is queued; runtime_params.c what kernels touch; runtime_check.c compares. One lock is held throughout each call. */
#ifndef TESTS_CUDA_FAKE_H
#define TESTS_CUDA_FAKE_H
#include <cuda_runtime_api.h>
#include <pthread.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include "plugins/cuda/kernels/table.h"

enum { FAKE_DEVICES = 16, FAKE_RANGES = 64 };
enum fake_order { ORDER_LAZY, ORDER_EAGER, ORDER_SEED };

struct fake_settings {
    enum fake_order order;
    uint64_t        random;             /* of ORDER_SEED */
    int             devices, processors;
    size_t          memory;             /* bytes of each */
    bool            check, peer, guard, wrong_architecture;
    int             driver, count_error;
    int             mode;               /* enum cudaComputeMode */
    uint64_t        fail_memory, fail_pinned, fail_illegal, fail_launch, fail_never;     /* how many more; 0: never */
};

/* ---- runtime.c ---- */
extern struct fake_settings fake;       /* after the first call */
cudaError_t fake_enter(const char *call);        /* takes the lock; what a broken or absent GPU answers to all calls */
cudaError_t fake_leave(cudaError_t error);       /* lets go; keeps the error for cudaGetLastError */
pthread_mutex_t *fake_lock(void);                /* that lock, for who has to let go midway */
cudaError_t fake_misuse(cudaError_t error, const char *format, ...) __attribute__((format(printf, 2, 3)));
void        fake_break(cudaError_t error);       /* all later calls answer this */
cudaError_t fake_broken(void);                   /* that, or success */
int         fake_current(void);                  /* the thread's GPU */
uint64_t    fake_random(void);
bool        fake_strikes(uint64_t *countdown);   /* true at the N-th time */

/* ---- runtime_memory.c ---- */
enum fake_place { PLACE_PINNED = -1, PLACE_PAGEABLE = -2, PLACE_NOWHERE = -3 };   /* else: a GPU's number */
int  fake_place(const void *memory, size_t bytes);    /* NOWHERE: on a GPU, and no one piece that was given out */
void *fake_reach(const void *memory);                 /* where an operation finds it; the host's where it is */
void fake_open(void);                                 /* devices' memory at its own addresses, for other libraries' work */
void fake_close(void);

/* ---- runtime_params.c: the memory that a kernel's parameters name ---- */
struct fake_range {
    char      *at;
    size_t     bytes;
    enum dtype dtype;                    /* DTYPE_COUNT: a workspace, or not of elements */
    bool       is_undefined;             /* afterwards: the kernel may leave anything there */
    const char *what;                    /* "in[1]" */
};
int  fake_ranges(enum kernel kernel, const void *params, struct fake_range *ranges);
void fake_reach_params(enum kernel kernel, void *params);     /* all pointers in them to where the kernel finds it */

/* ---- runtime_queue.c ---- */
enum op_kind { OP_COPY, OP_SET, OP_KERNEL, OP_WAIT, OP_MARK, OP_HOST, OP_WORK };
struct op {
    struct op    *next;
    enum op_kind  kind;
    int           keepers;
    bool          is_done, is_never;
    uint64_t      when;                      /* on the fake's clock, once done */
    unsigned      asked;                     /* how often somebody asked whether it is done */
    void         *to;                        /* to, from, params: to where fake_reach says */
    const void   *from;
    size_t        bytes;
    int           value;
    const struct gpu_kernel *row;
    void         *params;
    unsigned      blocks;
    struct op    *target;                    /* OP_WAIT: of `target_stream` */
    struct CUstream_st *target_stream;
    cudaHostFn_t  function;
    void         *context;
};
struct fake_check;
/* Neither a stream nor an event is ever given back: who uses one afterwards is told. */
struct CUstream_st {
    struct CUstream_st *next;
    int                 device, priority;
    bool                is_closed, is_busy;  /* busy: a host function runs, without the lock */
    struct op          *head, *tail;
    struct fake_check  *check;               /* of a kernel whose rows have not all run */
    const struct gpu_kernel *last;           /* that was launched: a row that kernels share is of the one that it goes on */
};
struct CUevent_st {
    struct CUevent_st  *next;
    int                 device;
    bool                is_closed, takes_time;
    struct op          *mark;                /* where it was recorded last */
    struct CUstream_st *stream;
};

cudaError_t fake_stream_wrong(cudaStream_t stream);   /* misuse of a stream that something is to be put into */
struct op  *fake_queue(cudaStream_t stream, enum op_kind kind);
void        fake_queued(cudaStream_t stream);         /* behind fake_queue and filling: it may run now */
cudaError_t fake_run_until(cudaStream_t stream, const struct op *op);  /* NULL: all of it */
cudaError_t fake_run_all(int device);                 /* -1: of all */
void        fake_run_some(void);                      /* as the order allows */
bool        fake_is_used(const void *memory, size_t bytes, const char **by);     /* by what is queued */
/* For stand-ins of other libraries: `function` runs when its turn comes in the stream, with devices' memory open and the
 * lock held, so it calls nothing of this. */
cudaError_t fake_queue_work(cudaStream_t stream, void (*function)(void *context), void *context);

/* ---- runtime_work.c ---- */
void fake_run(struct CUstream_st *stream, struct op *op);   /* all kinds but host functions */
bool fake_op_uses(const struct op *op, const void *memory, size_t bytes, const char **by);

/* ---- runtime_check.c: around each kernel's run, and before anything else that a stream runs ---- */
const void *fake_check_begin(struct CUstream_st *stream, const struct op *op);   /* the params to run with */
void        fake_check_row_done(struct CUstream_st *stream, const struct op *op);
void        fake_check_end(struct CUstream_st *stream);
#endif
