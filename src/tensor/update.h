/* The ops sgd and adam: what they are told beside their tensors, and the kernel behind them. A parameter is changed in
 * one pass, with its buffers. */
#ifndef TENSOR_UPDATE_H
#define TENSOR_UPDATE_H
#include "tensor/internal.h"

/* In the order of the views: param, grad, then momentum; or exp_avg, exp_avg_sq and, with amsgrad, its maximum. */
enum { UPDATE_PARAM, UPDATE_GRAD, UPDATE_BUFFERS, UPDATE_VIEWS = 5 };

/* Travels in a stream's entry. */
struct update_job {
    enum op            op;
    int                views;
    enum dtype         compute;
    struct cpu_view    view[UPDATE_VIEWS];
    struct update_rule rule;
};
_Static_assert(sizeof(struct update_job) <= STREAM_CONTEXT, "a job fits into an entry");

void       cpu_update(void *job);
#endif
