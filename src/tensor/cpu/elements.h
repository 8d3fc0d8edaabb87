/* What collectives do to elements that lie in one piece: two become one, a sum is divided by the ranks, or each is
 * multiplied first. c10d/reduce.c says what each means; a device's kernel KERNEL_reduce takes the same job. */
#ifndef TENSOR_CPU_ELEMENTS_H
#define TENSOR_CPU_ELEMENTS_H
#include <stddef.h>
#include "base/dtype.h"

enum elements_work { ELEMENTS_REDUCE, ELEMENTS_AVERAGE, ELEMENTS_MULTIPLY };

struct elements_job {
    enum elements_work work;
    int                op;         /* enum reduce_op; REDUCE: into = into op from */
    enum dtype         dtype;
    void              *into;
    const void        *from;
    size_t             bytes;
    int                ranks;      /* AVERAGE: into / ranks */
    double             factor;     /* MULTIPLY: into * factor */
};
#endif
