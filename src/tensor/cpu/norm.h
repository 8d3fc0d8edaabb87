/* What the kernels of normalisation are told and work out alike on every device; see norm.c. */
#ifndef TENSOR_CPU_NORM_H
#define TENSOR_CPU_NORM_H
#include "base/both.h"

/* Bits of a call's `start`: there is a weight; a bias; the statistics are the batch's (they depend on the input); the
 * second row of sums is of gradient * (input - mean), not yet times 1 / sqrt(variance + eps). */
enum { HAS_WEIGHT = 1, HAS_BIAS = 2, OF_BATCH = 4, CENTERED_SUMS = 8, LANES = 8 };

struct moments { double mean, scale; };
struct channel_terms { double a, slope, shift; };   /* the input's gradient is a * g + slope * (x - mean) + shift */

BOTH double
sum_of_lanes(double *lane)
{
    for (int half = LANES / 2; half > 0; half /= 2) {
        for (int j = 0; j < half; j++)
            lane[j] += lane[j + half];
    }
    return lane[0];
}

/* What a rank adds to the squares of all: its own variance, which 1 / sqrt(variance + eps) tells, and how far its mean
 * lies from the mean of all. */
BOTH double
rank_squares(double count, double scale, double eps, double apart)
{
    return count * (1 / (scale * scale) - eps + apart * apart);
}

/* sum, products: a channel's sums of the gradient; count: its elements, 0 of statistics that stand fixed. */
BOTH struct channel_terms
terms_of_channel(double scale, double weight, int centered, double sum, double products, double count)
{
    double a = scale * weight, slope = centered ? -a * scale * scale : -a * scale;
    struct channel_terms terms = { a, count > 0 ? slope * products / count : 0, count > 0 ? -a * sum / count : 0 };
    return terms;
}

/* Of a row of `wide` elements that was normalised by itself; sum, products: of its gradient. */
BOTH struct channel_terms
terms_of_row(const struct moments *m, double sum, double products, double wide)
{
    struct channel_terms terms = { m->scale, -products * m->scale * m->scale * m->scale / wide,
                                   -sum * m->scale / wide };
    return terms;
}
#endif
