/* What optimizers do to a parameter, in one pass over the parameter, its gradient and the buffers. In PyTorch:
 * _single_tensor_sgd, _single_tensor_adam, _single_tensor_adamw and _single_tensor_adagrad (torch/optim), there one
 * pass for each operation.
 *
 * Interface: cpu_update. */
#include "tensor/cpu/update.h"
#include <math.h>
#include <string.h>
#include "tensor/cpu/loop.h"
#include "tensor/cpu/wide.h"

_Static_assert((int)UPDATE_VIEWS <= (int)LOOP_VIEWS, "the loop walks all of them");

#define NAME(name) name##_f32
#define REAL       float
#define SQRT       sqrtf
#define FUSED      fmaf
#include "tensor/cpu/update_type.def"
#undef NAME
#undef REAL
#undef SQRT
#undef FUSED
#define NAME(name) name##_f64
#define REAL       double
#define SQRT       sqrt
#define FUSED      fma
#include "tensor/cpu/update_type.def"

/* Elements in one piece, at[] in the order of the views. */
static void
update_run(const struct update_job *job, char *const *at, int64_t count)
{
    void *t[UPDATE_VIEWS] = { NULL };
    for (int v = 0; v < job->views; v++)
        t[v] = at[v];
    const bool wide = job->compute == DTYPE_F64;
    switch (job->kind) {
    case UPDATE_SGD: (wide ? sgd_f64 : sgd_f32)(t, count, &job->rule); break;
    case UPDATE_ADAM: (wide ? adam_f64 : adam_f32)(t, count, &job->rule); break;
    case UPDATE_ADAGRAD: (wide ? adagrad_f64 : adagrad_f32)(t, count, &job->rule); break;
    }
}

static bool
lies_plain(const struct update_job *job, const struct loop *loop)
{
    for (int v = 0; v < job->views; v++)
        if (job->view[v].dtype != job->compute || loop->step[v] != (int64_t)dtype_size(job->compute))
            return false;
    return true;
}

/* Scattered elements, or such of another type, pass through buffers. */
static void
update_in_chunks(const struct update_job *job, const struct loop *loop)
{
    double buffer[LOOP_VIEWS][LOOP_CHUNK];
    char  *at[LOOP_VIEWS];
    for (int64_t done = 0; done < loop->run; done += LOOP_CHUNK) {
        int64_t count = loop->run - done < LOOP_CHUNK ? loop->run - done : LOOP_CHUNK;
        for (int v = 0; v < job->views; v++) {
            struct run elements = loop_part(loop, v, done, count);
            at[v]               = (char *)buffer[v];
            run_convert(buffer[v], job->compute, &elements);
        }
        update_run(job, at, count);
        for (int v = 0; v < job->views; v++) {
            struct run elements = loop_part(loop, v, done, count);
            if (v != UPDATE_GRAD)
                run_store(&elements, buffer[v], job->compute);
        }
    }
}

void
cpu_update(void *context)
{
    const struct update_job *job = context;
    const struct cpu_view   *views[LOOP_VIEWS];
    struct loop              loop;
    for (int v = 0; v < job->views; v++)
        views[v] = &job->view[v];
    for (loop_begin(&loop, views, job->views); loop.more; loop_next(&loop)) {
        if (lies_plain(job, &loop))
            update_run(job, loop.at, loop.run);
        else
            update_in_chunks(job, &loop);
    }
}
