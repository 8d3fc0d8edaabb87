/* What the files of bench train_step, dp_step, ddp_step and trace_cost share: a case's models and a measurement of it. */
#ifndef CLI_BENCH_TRAIN_H
#define CLI_BENCH_TRAIN_H
#include "cli/bench.h"
#include "tensor/blas.h"

enum { TRAIN_PHASES = 50 };   /* steps with a clock between their phases */

struct task; struct tensor; struct module; struct optimizer;

/* One measurement: samples are means over a window, phases means over steps with a clock between them. */
struct train {
    const struct bench_options *options;
    const char                 *name;              /* "embed6", "mlp64" ... */
    int                         data_seed;         /* of the batch, drawn after the model; 0: the draws go on */
    struct blas                *blas;              /* NULL: the exact product */
    struct module              *model;
    struct tensor              *input, *target;    /* target NULL: the loss is the sum; classes: cross entropy; else squares */
    struct optimizer           *optimizer;
    double                      samples[BENCH_SAMPLES];
    double                      phase_us[3];       /* forward with zero_grad, backward, step */
    double                      first_loss, last_loss;
    double                      allocations;       /* calls to the system's allocator a step; -1: nobody counted */
};

/* A run in `free` on this thread: `measure` as its task 0. Events are recorded if `traced`. */
bool train_run(struct train *train, bool traced, bool (*measure)(struct task *me, void *argument), void *argument);
bool train_build(struct task *me, struct train *train);  /* the case's model, input, target and optimizer */
void train_free(struct task *me, struct train *train);   /* what outlives a task's scope */
struct tensor *train_forward(struct task *me, struct train *train);    /* the loss */
bool train_step(struct task *me, struct train *train, double *loss);   /* loss NULL: not asked for */
bool train_time_steps(struct task *me, struct train *train, int steps, double *us);
bool train_steps_per_window(struct task *me, struct train *train, int *steps); /* after the caches are warm */
bool train_learnt(const struct train *train);           /* the loss fell */
bool train_measure(struct task *me, void *train);       /* from C */
bool train_measure_lesson(struct task *me, void *train); /* the same from a Lua lesson */

double train_window(const struct bench_options *options); /* seconds a sample */
long   bench_allocations(void);                           /* so far; -1: not counted */
#endif
