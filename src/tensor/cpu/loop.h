/* Walking several views of one shape together: dimensions that lie in one piece for all of them are joined, and the
 * innermost comes as a run. Used by every kernel that is not a product. */
#ifndef TENSOR_CPU_LOOP_H
#define TENSOR_CPU_LOOP_H
#include <string.h>
#include "tensor/cpu/kernel.h"

enum { LOOP_VIEWS = 5, LOOP_CHUNK = 256 };

struct loop {
    int     views, dims;
    int64_t size[TENSOR_DIMS], index[TENSOR_DIMS]; /* the innermost first: that one is the run */
    int64_t stride[LOOP_VIEWS][TENSOR_DIMS];   /* bytes */
    char   *at[LOOP_VIEWS];                    /* where the present run begins */
    int64_t run;                               /* its elements */
    int64_t step[LOOP_VIEWS];                  /* their distance, bytes */
    enum dtype dtype[LOOP_VIEWS];
    bool    more;
};

/* All views have the same sizes. `for (loop_begin(&l, v, n); l.more; loop_next(&l))` visits the runs in order. */
void loop_begin(struct loop *loop, const struct cpu_view *const *views, int count);
void loop_next(struct loop *loop);

/* `count` elements of one view, `step` bytes apart. */
struct run { char *at; int64_t step, count; enum dtype dtype; };
/* Those of the loop's present run from number `first` on. */
static inline struct run
loop_part(const struct loop *loop, int view, int64_t first, int64_t count)
{
    return (struct run){ loop->at[view] + first * loop->step[view], loop->step[view], count, loop->dtype[view] };
}

/* The elements as `dtype` in one piece: in place if they lie so, else in `buffer`. */
const void *run_load(void *buffer, enum dtype dtype, const struct run *run);
void        run_convert(void *buffer, enum dtype dtype, const struct run *run);     /* always there */
void        run_store(const struct run *run, const void *from, enum dtype dtype);   /* the other way */


/* A sum whose order does not depend on the machine: sixteen lanes, a tree over them, chunks added pairwise. */
struct running_sum { double level[64]; uint64_t chunks; };
void   sum_add(struct running_sum *sum, double chunk, bool single);   /* single: round to float32 */
double sum_total(const struct running_sum *sum, bool single);
/* A row of a few elements, without a call; element sizes are powers of two. */
static inline void
copy_row(char *to, const char *from, size_t bytes)
{
    if (bytes > 256) {
        memcpy(to, from, bytes);
        return;
    }
    for (; bytes >= 16; bytes -= 16, to += 16, from += 16)
        memcpy(to, from, 16);
    for (; bytes >= 4; bytes -= 4, to += 4, from += 4)
        memcpy(to, from, 4);
    for (; bytes > 0; bytes--)
        *to++ = *from++;
}

/* The first of `rows` rows, which follow each other, becomes the others too. */
void    repeat_row(void *first, size_t bytes, int64_t rows);
/* to += from, element by element; both in one piece and apart. */
void    add_run_f32(float *restrict to, const float *restrict from, int64_t count);
void    add_run_f64(double *restrict to, const double *restrict from, int64_t count);
/* The same with rows that lie `step` elements apart (0: one row again and again), one after the other. */
void    add_rows_f32(float *restrict to, const float *restrict from, int64_t step, int64_t rows, int64_t count);
float   lanes_f32(const float *x, int64_t count);
double  lanes_f64(const double *x, int64_t count);
#endif
