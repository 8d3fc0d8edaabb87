/* What sgd, adam and adagrad are told beside their tensors, and the kernel behind them: a parameter is changed in one pass, with
 * its buffers. */
#ifndef TENSOR_CPU_UPDATE_H
#define TENSOR_CPU_UPDATE_H
#include "tensor/cpu/kernel.h"

/* adagrad: lr is what lr_decay has left of it. adam: step_size is lr / (1 - beta1^t), correction the root of 1 - beta2^t; decoupled: AdamW. */
struct update_rule {
    double lr, weight_decay, momentum, dampening, beta1, beta2, eps, step_size, correction;
    bool   nesterov, maximize, decoupled;
    bool   first;                      /* the momentum buffer is fresh: it takes the gradient as it is */
};

/* In the order of the views: param, grad, then momentum; or exp_avg, exp_avg_sq and, with amsgrad, its maximum; or sum. */
enum update_kind { UPDATE_SGD, UPDATE_ADAM, UPDATE_ADAGRAD };
enum { UPDATE_PARAM, UPDATE_GRAD, UPDATE_BUFFERS, UPDATE_VIEWS = 5 };

struct update_job {
    enum update_kind   kind;
    int                views;
    enum dtype         compute;
    struct cpu_view    view[UPDATE_VIEWS];
    struct update_rule rule;
};
void cpu_update(void *job);            /* a struct update_job, as it travels in a stream's entry */
#endif
