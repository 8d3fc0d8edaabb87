/* Clipping gradients. The host reads them: the factor depends on all. In PyTorch: torch/nn/utils/clip_grad.py.
 *
 * Interface: clip_grad_norm, clip_grad_value. */
#include "optim/clip.h"
#include <math.h>
#include "autograd/call.h"
#include "autograd/node.h"
#include "base/math.h"
#include "device/storage.h"
#include "sched/task.h"

enum { LANES = 8 };

/* The gradient's elements as doubles, in hidden memory of the pool: a reference for the caller. NULL: failed. */
static struct storage *
read_grad(struct task *me, struct tensor *grad)
{
    size_t          count = (size_t)tensor_count(grad);
    struct storage *read  = storage_new_hidden(me, DEVICE_CPU, count * sizeof(double) + 8);
    if (read == NULL)
        return NULL;
    /* Floats are read into the upper half and spread from the front. */
    double *out = read->data;
    bool    ok  = false;
    if (grad->dtype == DTYPE_F64) {
        ok = tensor_read(me, grad, out);
    } else if (grad->dtype == DTYPE_F32) {
        float *narrow = (float *)out + count;
        ok            = tensor_read(me, grad, narrow);
        for (size_t i = 0; ok && i < count; i++)
            out[i] = narrow[i];
    } else {
        failed(me, E_DTYPE, "a gradient of %s cannot be clipped", dtype_name(grad->dtype));
    }
    if (ok)
        return read;
    storage_unref(me, read);
    return NULL;
}

/* One element's part of a norm before the root. */
static double
part_of_norm(double value, double order)
{
    double size = fabs(value);
    if (order == 2)
        return size * size;
    if (order == 0)
        return size != 0;
    return order == 1 ? size : math_pow(size, order);
}

/* The larger of two sizes for the order inf, the smaller one for -inf; what is no number stays. */
static double
further(double so_far, double size, double order)
{
    if (size != size || so_far != so_far)
        return size != size ? size : so_far;
    return order > 0 ? fmax(so_far, size) : fmin(so_far, size);
}

/* In fixed lanes, so that the sum does not depend on the machine. An infinite order asks for the furthest one. */
static double
norm_of_order(const double *values, size_t count, double order)
{
    double lane[LANES] = { 0 }, total = 0, furthest = order > 0 ? 0 : INFINITY;
    for (size_t i = 0; i < count; i++) {
        if (!isinf(order))
            lane[i % LANES] += part_of_norm(values[i], order);
        else
            furthest = further(furthest, fabs(values[i]), order);
    }
    if (isinf(order))
        return furthest;
    for (int i = 0; i < LANES; i++)
        total += lane[i];
    if (order == 2)
        return sqrt(total);
    return order == 1 || order == 0 ? total : math_pow(total, 1 / order);
}

/* The norm of the norms: the same as that of all elements, rounded where PyTorch rounds. */
static bool
total_norm(struct task *me, struct tensor *const *params, int count, double order, double *total)
{
    double lanes = 0, furthest = order > 0 ? 0 : INFINITY;
    int    seen = 0;
    for (int i = 0; i < count; i++) {
        struct tensor *grad = params[i]->grad;
        if (grad == NULL)
            continue;
        seen++;
        if (tensor_is_sparse(grad)) {
            grad = sparse_coalesced(me, grad);
            grad = grad != NULL ? grad->values : NULL;
        }
        struct storage *read = grad != NULL ? read_grad(me, grad) : NULL;
        if (read == NULL)
            return false;
        double norm = norm_of_order(read->data, (size_t)tensor_count(grad), order);
        norm        = grad->dtype == DTYPE_F64 ? norm : (double)(float)norm;
        storage_unref(me, read);
        lanes += isinf(order) ? 0 : part_of_norm(norm, order);
        furthest = further(furthest, norm, order);
    }
    if (seen == 0)
        *total = 0;
    else if (isinf(order))
        *total = furthest;
    else if (order == 2)
        *total = sqrt(lanes);
    else
        *total = order == 1 || order == 0 ? lanes : math_pow(lanes, 1 / order);
    return true;
}

static bool
scale_all(struct task *me, struct tensor *const *params, int count, double factor)
{
    bool enabled = grad_enabled(me), ok = true;
    grad_set_enabled(me, false);
    for (int i = 0; ok && i < count; i++)
        if (params[i]->grad != NULL)
            ok = tensor_mul_(me, params[i]->grad, factor) != NULL;
    grad_set_enabled(me, enabled);
    return ok;
}

struct tensor *
clip_grad_norm(struct task *me, struct tensor *const *params, int count, const struct norm_limit *limit)
{
    double     total = 0;
    enum dtype dtype = DTYPE_F32;
    for (int i = 0; i < count; i++)
        if (params[i]->grad != NULL && params[i]->grad->dtype == DTYPE_F64)
            dtype = DTYPE_F64;
    if (!total_norm(me, params, count, limit->norm_type, &total))
        return NULL;
    if (limit->strict && !isfinite(total))
        return failed_null(me, E_RUNTIME, "The total norm of order %g for gradients from `parameters` is non-finite, "
                                          "so it cannot be clipped. To disable this error and scale the gradients "
                                          "by the non-finite norm anyway, set error_if_nonfinite = false",
                           limit->norm_type);
    double factor = dtype == DTYPE_F64 ? limit->max_norm / (total + 1e-6)
                                       : (double)((float)limit->max_norm / ((float)total + 1e-6f));
    if (factor > 1)
        factor = 1;
    return scale_all(me, params, count, factor) ? tensor_number(me, dtype, DEVICE_CPU, total) : NULL;
}

static bool
clamp_grad(struct task *me, struct tensor *grad, double limit)
{
    if (tensor_is_sparse(grad))
        return sparse_refused(me, "clamp_", grad);
    struct storage *read = read_grad(me, grad);
    if (read == NULL)
        return false;
    double *value  = read->data;
    float  *narrow = read->data;
    int64_t count  = tensor_count(grad);
    for (int64_t i = 0; i < count; i++) {
        double clamped = value[i] > limit ? limit : value[i] < -limit ? -limit : value[i];
        if (grad->dtype == DTYPE_F64)
            value[i] = clamped;
        else
            narrow[i] = (float)clamped;
    }
    bool ok = tensor_write(me, grad, read->data);
    storage_unref(me, read);
    return ok;
}

bool
clip_grad_value(struct task *me, struct tensor *const *params, int count, double clip_value)
{
    bool ok = true;
    for (int i = 0; ok && i < count; i++)
        if (params[i]->grad != NULL)
            ok = clamp_grad(me, params[i]->grad, clip_value);
    return ok;
}
