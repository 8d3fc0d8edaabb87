/* What optimizers do to a parameter, a thread an element, in the arithmetic of update_type.def. In PyTorch:
 * ATen/native/cuda/fused_adam_impl.cu and its like. */
#include <math.h>
#include "plugins/cuda/kernels/walk.h"
#include "tensor/cpu/update.h"

#undef WIDE_FUSED
#ifdef __CUDACC__
#define WIDE_FUSED __device__
#else
#define WIDE_FUSED
#endif
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
#undef NAME
#undef REAL
#undef SQRT
#undef FUSED

/* One element of each view. */
typedef void update_one(void *const *at, int64_t count, const struct update_rule *rule);

template <typename T, update_one *one, int views> ON_DEVICE void
update_plain(const struct update_job &job, int64_t count)
{
    ROLLED for (int64_t i = first_item(); i < count; i += item_step()) {
        void *at[UPDATE_VIEWS] = {};
        for (int v = 0; v < views; v++)
            at[v] = static_cast<T *>(job.view[v].data) + i;
        one(at, 1, &job.rule);
    }
}

/* Scattered elements, or such of another type, pass through places of their own. */
template <typename T, update_one *one, int views> ON_DEVICE void
update_any(const struct update_job &job, const struct walk<views> *walk)
{
    ROLLED for (int64_t i = first_item(); i < walk->count; i += item_step()) {
        struct places<views> places = walk_at<views>(walk, i);
        T                    element[views];
        void                *at[UPDATE_VIEWS] = {};
        for (int v = 0; v < views; v++) {
            element[v] = load<T>(job.view[v].data, job.view[v].dtype, places.at[v]);
            at[v]      = &element[v];
        }
        one(at, 1, &job.rule);
        for (int v = 0; v < views; v++)
            if (v != UPDATE_GRAD)
                store<T>(job.view[v].data, job.view[v].dtype, places.at[v], element[v]);
    }
}

template <typename T, update_one *one, int views> ON_DEVICE void
update_views(const struct update_job &job)
{
    struct walk<views> walk;
    bool               same = true;
    for (int v = 0; v < views; v++) {
        walk.view[v] = &job.view[v];
        same = same && job.view[v].dtype == job.compute;
    }
    walk_begin<views>(&walk);
    if (same && walk.is_plain)
        update_plain<T, one, views>(job, walk.count);
    else
        update_any<T, one, views>(job, &walk);
}

/* sgd: with momentum a view more; adam: with amsgrad. */
template <typename T, update_one *sgd, update_one *adam, update_one *adagrad> ON_DEVICE void
update_as(const struct update_job &job)
{
    if (job.kind == UPDATE_ADAGRAD)
        update_views<T, adagrad, UPDATE_BUFFERS + 1>(job);
    else if (job.kind == UPDATE_SGD && job.views == UPDATE_BUFFERS)
        update_views<T, sgd, UPDATE_BUFFERS>(job);
    else if (job.kind == UPDATE_SGD)
        update_views<T, sgd, UPDATE_BUFFERS + 1>(job);
    else if (job.views == UPDATE_BUFFERS + 2)
        update_views<T, adam, UPDATE_BUFFERS + 2>(job);
    else
        update_views<T, adam, UPDATE_BUFFERS + 3>(job);
}

KERNEL_OF(update, struct update_job)
{
    const struct update_job &job = call;
    if (job.compute == DTYPE_F64)
        update_as<double, sgd_f64, adam_f64, adagrad_f64>(job);
    else
        update_as<float, sgd_f32, adam_f32, adagrad_f32>(job);
}
