/* Fast products from libraries, for a run that wants them: blas_open of cpu/blas.h finds what there is. */
#ifndef TENSOR_BLAS_H
#define TENSOR_BLAS_H
#include "tensor/cpu/blas.h"

struct sched;

/* The run's products go through `blas` from here on; borrowed. */
void blas_use(struct sched *sched, struct blas *blas);
#endif
