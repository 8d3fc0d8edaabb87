/* The player of kernels: each case has the CPU's function and the emulated kernel work on the same memory and
 * compares all that they wrote, bit by bit, for several grids and several orders of threads.
 *
 * A case of a family (play_FAMILY.c) is a function; struct play is its first argument everywhere:
 *
 *     static void
 *     transposed_rows(struct play *p)
 *     {
 *         for (size_t i = 0; i < LENGTHS; i++) {                     0 1 3 255 256 257 and a large one
 *             struct cpu_call call = call_of(1, DTYPE_F32);          inputs; compute as the dtype is worked out in
 *             call.in[0] = view_new(p, DTYPE_F32, LAYOUT_TRANSPOSED, (struct sizes){ 2, { 5, lengths[i] } });
 *             call.out   = view_new(p, DTYPE_F32, LAYOUT_PLAIN, (struct sizes){ 2, { 5, lengths[i] } });
 *             call.dim   = 1;
 *             compare(p, KERNEL_cpu_softmax, &call);                 p->kernel, if the case is in the list for several
 *         }
 *     }
 *
 *     const struct play_case play_rows[] = {
 *         { "softmax of transposed rows", transposed_rows, KERNEL_cpu_softmax },
 *         { NULL, NULL, KERNEL_COUNT },
 *     };
 *
 * Views are full of odd values; what the kernel needs otherwise is filled in before `compare` (fill_*). After
 * `compare` all memory is again as it was, so that one set of views can be compared several times. Memory is given
 * back at the end of the case. A case that compares nothing is wrong, and so is, at the end, a kernel with rows
 * that no case compared. */
#ifndef TESTS_CUDA_PLAY_KERNELS_H
#define TESTS_CUDA_PLAY_KERNELS_H
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include "tensor/cpu/kernels.h"
#include "tensor/cpu/view.h"

struct play; struct storage; struct gpu_kernel;

struct play_case { const char *sentence; void (*run)(struct play *p); enum kernel kernel; };
extern const struct play_case play_elementwise[], play_reduce[], play_rows[], play_pick[], play_products[], play_draws[];

struct play {
    enum kernel     kernel;          /* of the case that runs */
    uint64_t        random;
    struct storage *storages;        /* memory of the case that runs, the newest first */
    int             wrongs, compared;
    const struct gpu_kernel *instead; /* of planted faults: rows that run instead of the table's */
    bool            expect_wrong;    /* of planted faults: `compare` counts in `found` and says nothing */
    int             found;
    char            said[400];       /* the last that was found */
    int            *seen;            /* by kernel: how often it was compared */
};

/* ---- views ---- */

struct sizes { int dims; int64_t size[TENSOR_DIMS]; };
enum layout {
    LAYOUT_PLAIN,                    /* in one piece */
    LAYOUT_TRANSPOSED,               /* the last two dimensions the other way round in memory */
    LAYOUT_STRIDED,                  /* gaps between elements, along each dimension */
    LAYOUT_OFFSET,                   /* in one piece, an odd number of elements behind an aligned address */
    LAYOUT_EXPANDED,                 /* the first dimension has stride 0: an input only */
    LAYOUTS
};
enum { LENGTHS = 7 };
extern const int64_t lengths[LENGTHS];           /* 0 1 3 255 256 257 10007 */

struct cpu_view view_new(struct play *p, enum dtype dtype, enum layout layout, struct sizes sizes);
struct cpu_view view_row(struct play *p, enum dtype dtype, int64_t length);   /* one dimension, in one piece */
/* Bytes for pointers of other parameters (struct elements_job, lstm_forward ...). Compared as elements of `dtype`. */
void           *memory_new(struct play *p, enum dtype dtype, size_t elements);
/* For call.workspace: garbage before, not compared. The kernel gets as many bytes, or what its family says that it
 * wants. */
void           *workspace_new(struct play *p, size_t bytes);
/* For call.fault: `raised` and `limit` have to be equal afterwards; of several bad indices any may be told. After
 * a fault the outputs are not compared. */
struct kernel_fault *fault_new(struct play *p, bool zeros);

/* Fresh views hold fill_odd: NaN, infinities, -0, denormals, huge and tiny numbers, the ends of integers ... */
void fill_odd(struct play *p, struct cpu_view view);
void fill_between(struct play *p, struct cpu_view view, double low, double high); /* low <= x < high; integers whole */
void fill_indices(struct play *p, struct cpu_view view, int64_t limit);           /* 0 .. limit-1, some twice */
void fill_value(struct cpu_view view, double value);
void fill_list(struct cpu_view view, const double *values, size_t count);           /* round and round */
/* The element at a place of the row-major order, to be read or written by hand (dtype_put_fraction, _whole). */
void   *view_at(struct cpu_view view, int64_t i);

uint64_t play_draw(struct play *p, uint64_t limit);        /* 0 .. limit-1 */

/* ---- calls ---- */

/* compute: float32, float64 or int64, what `dtype` is worked out in; common: dtype. */
struct cpu_call call_of(int inputs, enum dtype dtype);
/* in[i] is a number of the host's, stretched over `sizes` (of an elementwise kernel: out's): its view has no data. */
void constant_set(struct cpu_call *call, int i, enum dtype dtype, double value, struct sizes sizes);

/* `params`: a struct cpu_call, or what kernels.h says of kernels that are no op's. Its pointers are to memory of
 * the case. */
void compare(struct play *p, enum kernel kernel, const void *params);
/* There is no code for these types on a GPU: `has` says no. */
void lacks(struct play *p, enum kernel kernel, const void *params);
/* The case is wrong: said behind a #, counted. */
void play_wrong(struct play *p, const char *format, ...) __attribute__((format(printf, 2, 3)));
#endif
