/* Copies of a tensor, elsewhere or in another type, what is put into one in place, and what may be asked of one without
 * looking at its elements. */
#include "autograd/call.h"
#include "base/rng.h"
#include "device/device.h"
#include "functional/functions.h"
#include "sched/task.h"

/* ---- copies ---- */

struct tensor *
fn_clone(struct task *me, struct arguments *a)
{
    return tensor_copied(me, a->at[0].tensor);
}

struct tensor *
fn_contiguous(struct task *me, struct arguments *a)
{
    struct tensor *x = a->at[0].tensor;
    if (tensor_is_sparse(x))
        return failed_null(me, E_RUNTIME, "contiguous: a sparse tensor has no memory format");
    return tensor_is_contiguous(x) ? x : tensor_copied(me, x);
}

struct tensor *
fn_detach(struct task *me, struct arguments *a)
{
    return tensor_detach(me, a->at[0].tensor);
}

struct tensor *
fn_detach_(struct task *me, struct arguments *a)
{
    return tensor_detach_(me, a->at[0].tensor);
}

struct tensor *
fn_cpu(struct task *me, struct arguments *a)
{
    return tensor_copy_to(me, a->at[0].tensor, DEVICE_CPU, a->at[0].tensor->dtype);
}

/* Without a device on the one of this rank; a rank without one uses the first. */
struct tensor *
fn_cuda(struct task *me, struct arguments *a)
{
    int device = a->at[1].none ? me->device : (int)a->at[1].integer[0];
    return tensor_copy_to(me, a->at[0].tensor, device < 0 ? 0 : device, a->at[0].tensor->dtype);
}

/* t:float(), t:long(): the function's name is that of the type. */
static enum dtype
dtype_named(const struct arguments *a)
{
    enum dtype dtype = a->at[0].tensor->dtype;
    dtype_parse(a->function->signature.name, &dtype);
    return dtype;
}

struct tensor *
fn_cast(struct task *me, struct arguments *a)
{
    return tensor_cast(me, a->at[0].tensor, dtype_named(a));
}

struct tensor *
fn_type_as(struct task *me, struct arguments *a)
{
    return tensor_copy_to(me, a->at[0].tensor, tensor_device(a->at[1].tensor), a->at[1].tensor->dtype);
}

/* ---- in place ---- */

struct tensor *
fn_fill_(struct task *me, struct arguments *a)
{
    if (tensor_is_sparse(a->at[0].tensor))
        return sparse_refused(me, "fill_", a->at[0].tensor), NULL;
    return tensor_fill_(me, a->at[0].tensor, a->at[1].number);
}

struct tensor *
fn_zero_(struct task *me, struct arguments *a)
{
    return tensor_fill_(me, a->at[0].tensor, 0);
}

struct tensor *
fn_copy_(struct task *me, struct arguments *a)
{
    return tensor_copy_(me, a->at[0].tensor, a->at[1].tensor);
}

/* The generator to fill the input from, this rank's own unless one is given; NULL: failed. */
static struct generator *
filling_generator(struct task *me, const struct arguments *a, const struct argument *given)
{
    struct generator *generator = given->none ? default_generator(me) : given->generator;
    return generator != NULL && inplace_allowed(me, a->at[0].tensor) ? generator : NULL;
}

struct tensor *
fn_uniform_(struct task *me, struct arguments *a)
{
    struct tensor    *x         = a->at[0].tensor;
    struct generator *generator = filling_generator(me, a, &a->at[3]);
    return generator != NULL && tensor_uniform(me, x, a->at[1].number, a->at[2].number, generator) ? x : NULL;
}

struct tensor *
fn_normal_(struct task *me, struct arguments *a)
{
    struct tensor *x = a->at[0].tensor;
    if (a->at[2].number < 0)
        return failed_null(me, E_RUNTIME, "normal_ expects a standard deviation of 0 or more, got %g",
                           a->at[2].number);
    struct generator *generator = filling_generator(me, a, &a->at[3]);
    return generator != NULL && tensor_normal(me, x, a->at[1].number, a->at[2].number, generator) ? x : NULL;
}

struct tensor *
fn_bernoulli_(struct task *me, struct arguments *a)
{
    struct tensor *x = a->at[0].tensor;
    if (!(a->at[1].number >= 0 && a->at[1].number <= 1))
        return failed_null(me, E_RUNTIME, "bernoulli_ expects a probability of 0 to 1, got %g", a->at[1].number);
    struct generator *generator = filling_generator(me, a, &a->at[2]);
    return generator != NULL && tensor_bernoulli(me, x, a->at[1].number, generator) ? x : NULL;
}

/* random_(), random_(to), random_(from, to): integers, `to` excluded. */
struct tensor *
fn_random_(struct task *me, struct arguments *a)
{
    struct tensor *x = a->at[0].tensor;
    bool           alone = a->at[1].given && a->at[2].none, whole = !a->at[1].given && a->at[2].none;
    int64_t        low = alone ? 0 : a->at[1].integer[0], high = a->at[alone ? 1 : 2].integer[0];
    if (!whole && low >= high)
        return failed_null(me, E_RUNTIME, "random_ expects low < high, got %lld and %lld", (long long)low,
                           (long long)high);
    struct generator *generator = filling_generator(me, a, &a->at[3]);
    return generator != NULL && tensor_random(me, x, (struct whole_range){ low, high, whole }, generator) ? x : NULL;
}

/* ---- questions ---- */

#define QUESTION(name, answer) \
    struct tensor *fn_##name(struct task *me, struct arguments *a) \
    { \
        const struct tensor *x = a->at[0].tensor; \
        (void)me; \
        a->number = (double)(answer); \
        return NULL; \
    }
QUESTION( dim, x->dims )
QUESTION( numel, tensor_count(x) )
QUESTION( storage_offset, x->offset )
QUESTION( is_contiguous, tensor_is_contiguous(x) )
QUESTION( element_size, dtype_size(x->dtype) )
QUESTION( is_same_size, tensor_same_shape(x, a->at[1].tensor) )
QUESTION( is_floating_point, dtype_is_float(x->dtype) )
#undef QUESTION

/* What lies in memory: of a sparse tensor there is only its parts'. */
struct tensor *
fn_storage_id(struct task *me, struct arguments *a)
{
    const struct tensor *x = a->at[0].tensor;
    if (tensor_is_sparse(x))
        return failed_null(me, E_NOT_IMPLEMENTED, "a sparse tensor has no storage: ask its _indices() and _values()");
    a->number = (double)x->storage->number;
    return NULL;
}

struct tensor *
fn_nbytes(struct task *me, struct arguments *a)
{
    const struct tensor *x = a->at[0].tensor;
    if (tensor_is_sparse(x))
        return failed_null(me, E_RUNTIME, "nbytes is not defined for sparse tensors: add those of _indices() and "
                                          "_values()");
    a->number = (double)tensor_bytes(x);
    return NULL;
}

/* ---- types ---- */

struct tensor *
fn_promote_types(struct task *me, struct arguments *a)
{
    enum dtype one = a->at[0].dtype, other = a->at[1].dtype;
    a->dtype = dtype_promote(one, other);
    if (a->dtype == DTYPE_I32 && one != DTYPE_I32 && other != DTYPE_I32)
        int16_missing(me, "promote_types");
    return NULL;
}

struct tensor *
fn_can_cast(struct task *me, struct arguments *a)
{
    (void)me;
    a->number = dtype_can_cast(a->at[0].dtype, a->at[1].dtype);
    return NULL;
}

struct tensor *
fn_set_default_dtype(struct task *me, struct arguments *a)
{
    default_dtype_set(me, a->at[0].dtype);
    return NULL;
}

struct tensor *
fn_get_default_dtype(struct task *me, struct arguments *a)
{
    a->dtype = default_dtype(me);
    return NULL;
}
