/* Sums of the tests' own NCCL: element by element, in the order of the ranks, rounded to the type after each step. */
#ifndef FAKE_NCCL_SUM_H
#define FAKE_NCCL_SUM_H
#include <stddef.h>

enum { FAKE_OP_PREMUL = 100 };   /* beside NCCL's own numbers */

struct fake_sum {
    int                         type, op;        /* NCCL's numbers */
    double                      factor;          /* FAKE_OP_PREMUL */
    size_t                      count;
    int                         ranks;
    const unsigned char *const *given;           /* one a rank */
    void                       *out;
};
void   fake_sum(const struct fake_sum *sum);
size_t fake_sum_size(int type);
double fake_sum_read(int type, const void *element);
#endif
