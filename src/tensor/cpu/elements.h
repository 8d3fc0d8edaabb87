/* What collectives do to elements that lie in one piece: two become one, a sum is divided by the ranks, or each is
 * multiplied first. c10d/reduce.c says what each means; a device's kernel KERNEL_reduce takes the same job. */
#ifndef TENSOR_CPU_ELEMENTS_H
#define TENSOR_CPU_ELEMENTS_H
#include <stdbool.h>
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

/* What one rank does of an all-reduce where one device sees everybody's memory, KERNEL_all_reduce: the sum begins with
 * data[0], the others are added in turn, each time rounding to the type, and all get the outcome. c10d/fused.c has the
 * order. */
enum { ALL_REDUCE_RANKS = 64 };
struct all_reduce_job {
    enum elements_work work;       /* AVERAGE: the outcome is divided by the ranks; MULTIPLY: what is added is multiplied
                                      by the factor first, rounding to the type */
    int                op;         /* enum reduce_op: sum = data[i] op sum */
    enum dtype         dtype;
    int                ranks;
    size_t             bytes;
    double             factor;
    void              *data[ALL_REDUCE_RANKS];
};
/* As an entry of a stream queues it (stream_entry.enqueue); tensor/queued.c. */
struct device_queue;
bool all_reduce_queue(const struct device_queue *queue, void *job);
#endif
