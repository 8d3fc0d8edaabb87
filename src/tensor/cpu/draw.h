/* Random fills that a device does, KERNEL_draw: the same numbers from where Philox stands, whatever the grid.
 *
 * As PyTorch's kernels do while one grid of theirs covers the tensor (on an H200: up to 270336 elements; of masks up to
 * four times as many), where threads draw once. Longer tensors go on in the same way here, with a new subsequence for each
 * element or each four; PyTorch's threads come round for a second block.
 *
 *     coins     element i: word i mod 4 of subsequence i / 4. 1 where u < p. Masks of dropout are PyTorch's where the
 *               number of elements is a multiple of four; PyTorch's bernoulli_, and its masks of other lengths, lie
 *               otherwise (there element i has a subsequence, or half of one, to itself). A p of 1 gives 1 alone, where
 *               PyTorch has a 0 in 2^25 elements
 *     uniform   element i: the first word of subsequence i. u (high - low) + low in one rounding, then rounded to the type;
 *               what is `high` then becomes `low`. PyTorch's
 *     normal    element i: the sine of Box and Muller, from the first two words of subsequence i. Within 1e-5 of PyTorch's,
 *               whose sine is a quick one of the hardware
 *     float64   two words a fraction: uniform the first two, normal all four. Uniform ones are PyTorch's; normal ones are
 *               within 1e-14. Coins are as of the others
 *
 * u is in (0, 1]: (word + 1/2) 2^-32 in float. */
#ifndef TENSOR_CPU_DRAW_H
#define TENSOR_CPU_DRAW_H
#include <stdint.h>
#include "base/both.h"
#include "base/dtype.h"

enum draw_kind { DRAW_NOTHING, DRAW_UNIFORM, DRAW_NORMAL, DRAW_COINS };

/*          a                  b                        limit
 * uniform  low, as an element high - low, as an element high, as an element
 * normal   the mean           the standard deviation   -
 * coins    p                  -                        -
 * These two as what is calculated in: double for float64, else float. */
struct draw_job {
    uint64_t       seed, block;        /* which block of each subsequence */
    enum draw_kind kind;
    enum dtype     dtype;              /* a type of fractions */
    double         a, b, limit;
    void          *out;                /* in one piece */
    int64_t        count;
};

/* How many elements share a block of four words. */
BOTH int64_t
draw_width(enum draw_kind kind)
{
    return kind == DRAW_COINS ? 4 : 1;
}

void cpu_draw(void *job);              /* a struct draw_job, as it travels in a stream's entry */
#endif
