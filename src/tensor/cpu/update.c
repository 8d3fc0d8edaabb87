/* What optimizers do to a parameter, in one pass over the parameter, its gradient and the buffers. In PyTorch:
 * _single_tensor_sgd, _single_tensor_adam and _single_tensor_adamw (torch/optim), there one pass for each operation.
 *
 * Interface: cpu_update. */
#include "tensor/update.h"
#include <math.h>
#include <string.h>
#include "tensor/cpu/loop.h"

enum { BLOCK = 16 };
_Static_assert((int)UPDATE_VIEWS <= (int)LOOP_VIEWS, "the loop walks all of them");

#define TARGET
#define BYTES      16
#define NAME(name) name##_f32
#define REAL       float
#define SQRT       sqrtf
#include "tensor/cpu/update_type.def"
#undef NAME
#undef REAL
#undef SQRT
#define NAME(name) name##_f64
#define REAL       double
#define SQRT       sqrt
#include "tensor/cpu/update_type.def"
#undef NAME
#undef REAL
#undef SQRT
#undef TARGET
#undef BYTES

#if defined(__x86_64__)
#define TARGET     __attribute__((target("avx2")))
#define BYTES      32
#define NAME(name) name##_f32_wide
#define REAL       float
#define SQRT       sqrtf
#include "tensor/cpu/update_type.def"
#undef NAME
#undef REAL
#undef SQRT
#define NAME(name) name##_f64_wide
#define REAL       double
#define SQRT       sqrt
#include "tensor/cpu/update_type.def"
#undef NAME
#undef REAL
#undef SQRT
#undef TARGET
#undef BYTES
#define WIDEST(name) (__builtin_cpu_supports("avx2") ? name##_wide : name)
#else
#define WIDEST(name) name
#endif

/* Whole blocks. */
static void
run_blocks(const struct update_job *job, char *const *at, int64_t count)
{
    float  *f32[LOOP_VIEWS + 1] = { NULL };
    double *f64[LOOP_VIEWS + 1] = { NULL };
    for (int v = 0; v < job->views; v++) {
        f32[v] = (float *)(void *)at[v];
        f64[v] = (double *)(void *)at[v];
    }
    if (job->compute == DTYPE_F64)
        (job->op == OP_sgd ? WIDEST(sgd_f64) : WIDEST(adam_f64))(f64, count, &job->rule);
    else
        (job->op == OP_sgd ? WIDEST(sgd_f32) : WIDEST(adam_f32))(f32, count, &job->rule);
}

/* Any number of elements in one piece: whole blocks where they lie, the rest aside. */
static void
run(const struct update_job *job, char *const *at, int64_t count)
{
    size_t  element = dtype_size(job->compute);
    int64_t whole = count / BLOCK * BLOCK;
    double  rest[LOOP_VIEWS][BLOCK] = { { 0 } };
    char   *beside[LOOP_VIEWS];
    if (whole > 0)
        run_blocks(job, at, whole);
    if (whole == count)
        return;
    for (int v = 0; v < job->views; v++) {
        beside[v] = (char *)rest[v];
        memcpy(rest[v], at[v] + (size_t)whole * element, (size_t)(count - whole) * element);
    }
    run_blocks(job, beside, BLOCK);
    for (int v = 0; v < job->views; v++)
        if (v != UPDATE_GRAD)
            memcpy(at[v] + (size_t)whole * element, rest[v], (size_t)(count - whole) * element);
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
run_in_chunks(const struct update_job *job, const struct loop *loop)
{
    double buffer[LOOP_VIEWS][LOOP_CHUNK];
    char  *at[LOOP_VIEWS];
    for (int64_t done = 0; done < loop->run; done += LOOP_CHUNK) {
        int64_t count = loop->run - done < LOOP_CHUNK ? loop->run - done : LOOP_CHUNK;
        for (int v = 0; v < job->views; v++) {
            enum dtype dtype = job->view[v].dtype;
            at[v]            = (char *)buffer[v];
            cpu_convert(buffer[v], job->compute, 1, loop->at[v] + done * loop->step[v], dtype,
                        loop->step[v] / (int64_t)dtype_size(dtype), count);
        }
        run(job, at, count);
        for (int v = 0; v < job->views; v++) {
            enum dtype dtype = job->view[v].dtype;
            if (v != UPDATE_GRAD)
                cpu_convert(loop->at[v] + done * loop->step[v], dtype, loop->step[v] / (int64_t)dtype_size(dtype),
                            buffer[v], job->compute, 1, count);
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
            run(job, loop.at, loop.run);
        else
            run_in_chunks(job, &loop);
    }
}
