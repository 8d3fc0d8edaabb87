/* Random numbers: those that PyTorch draws after the same manual_seed. PyTorch: torch.rand, torch.bernoulli ... */
#include "autograd/call.h"
#include "device/device.h"
#include "functional/create.h"
#include "functional/functions.h"
#include "sched/task.h"

/* ---- new tensors ---- */

/* Nothing is made where there is no generator. */
static struct tensor *
undrawn(struct task *me, struct making *making)
{
    if (making->generator == NULL)
        making->generator = default_generator(me);
    return making->generator != NULL ? making_empty(me, making) : NULL;
}

static struct tensor *
drawn_evenly(struct task *me, struct making *making)
{
    struct tensor *out = undrawn(me, making);
    return out != NULL && tensor_uniform(me, out, 0, 1, making->generator) ? making_done(me, out, making) : NULL;
}

static struct tensor *
drawn_normally(struct task *me, struct making *making, double mean, double std)
{
    struct tensor *out = undrawn(me, making);
    return out != NULL && tensor_normal(me, out, mean, std, making->generator) ? making_done(me, out, making) : NULL;
}

struct tensor *
fn_rand(struct task *me, struct arguments *a)
{
    struct making making = making_of(a, a->dtype, DEVICE_CPU);
    return making_sized(me, &a->at[0], &making) ? drawn_evenly(me, &making) : NULL;
}

struct tensor *
fn_randn(struct task *me, struct arguments *a)
{
    struct making making = making_of(a, a->dtype, DEVICE_CPU);
    return making_sized(me, &a->at[0], &making) ? drawn_normally(me, &making, 0, 1) : NULL;
}

struct tensor *
fn_normal(struct task *me, struct arguments *a)
{
    struct making making = making_of(a, a->dtype, DEVICE_CPU);
    double        mean = a->at[0].number, std = a->at[1].number;
    if (std < 0)
        return failed_null(me, E_RUNTIME, "normal expects a standard deviation of 0 or more, got %g", std);
    return making_sized(me, &a->at[2], &making) ? drawn_normally(me, &making, mean, std) : NULL;
}

struct tensor *
fn_rand_like(struct task *me, struct arguments *a)
{
    struct making making = making_like(a);
    return drawn_evenly(me, &making);
}

struct tensor *
fn_randn_like(struct task *me, struct arguments *a)
{
    struct making making = making_like(a);
    return drawn_normally(me, &making, 0, 1);
}

/* ---- whole numbers ---- */

/* randint(high, size) stands in the places of randint(low, high, size). `size` NULL: there is none. */
struct sized_range { int64_t low, high; const struct argument *size; };

static struct sized_range
sized_range_of(const struct arguments *a)
{
    const struct argument *low = &a->at[0], *high = &a->at[1], *size = &a->at[2];
    if (high->none)
        return (struct sized_range){ 0, low->integer[0], size->none ? NULL : size };
    if (size->none && !high->whole)
        return (struct sized_range){ 0, low->integer[0], high };
    return (struct sized_range){ low->integer[0], high->integer[0], size->none ? NULL : size };
}

struct tensor *
fn_randint(struct task *me, struct arguments *a)
{
    struct sized_range range = sized_range_of(a);
    struct making      making = making_of(a, DTYPE_I64, DEVICE_CPU);
    if (range.size == NULL)
        return failed_null(me, E_TYPE, "argument %d of randint: expected a shape such as {2, 3}, got nothing",
                           a->at[1].none ? 2 : 3);
    if (range.low >= range.high)
        return failed_null(me, E_RUNTIME, "randint expects low < high, got %lld and %lld", (long long)range.low,
                           (long long)range.high);
    struct tensor *out = making_sized(me, range.size, &making) ? undrawn(me, &making) : NULL;
    struct whole_range whole = { .low = range.low, .high = range.high };
    bool           ok = out != NULL && tensor_random(me, out, whole, making.generator);
    return ok ? making_done(me, out, &making) : NULL;
}

struct tensor *
fn_randperm(struct task *me, struct arguments *a)
{
    int64_t       count = a->at[0].integer[0];
    struct making making = making_of(a, DTYPE_I64, DEVICE_CPU);
    if (count < 0 || count > 1 << 30)
        return failed_null(me, E_RUNTIME, "randperm expects a count of 0 or more, and not too large a one: got %lld",
                           (long long)count);
    making.dims        = 1;
    making.sizes[0]    = count;
    struct tensor *out = undrawn(me, &making);
    return out != NULL && tensor_randperm(me, out, making.generator) ? making_done(me, out, &making) : NULL;
}

/* ---- by the elements of others ---- */

static struct generator *
generator_or_own(struct task *me, const struct argument *given)
{
    return given->generator != NULL ? given->generator : default_generator(me);
}

/* bernoulli(P), bernoulli(t, p): of t only the shape counts. */
struct tensor *
fn_bernoulli(struct task *me, struct arguments *a)
{
    struct tensor    *x = a->at[0].tensor;
    struct generator *generator = generator_or_own(me, &a->at[2]);
    if (generator == NULL)
        return NULL;
    if (a->at[1].none)
        return tensor_bernoulli_of(me, x, generator);
    struct tensor *out = tensor_empty(me, x->dtype, tensor_device(x), x->dims, x->size);
    return out != NULL && tensor_bernoulli(me, out, a->at[1].number, generator) ? out : NULL;
}

struct tensor *
fn_multinomial(struct task *me, struct arguments *a)
{
    struct generator *generator = generator_or_own(me, &a->at[3]);
    return tensor_multinomial(me, a->at[0].tensor, a->at[1].integer[0], a->at[2].integer[0], generator);
}

struct tensor *
fn_exponential_(struct task *me, struct arguments *a)
{
    struct tensor    *x = a->at[0].tensor;
    struct generator *generator = generator_or_own(me, &a->at[2]);
    bool              allowed = generator != NULL && inplace_allowed(me, x);
    return allowed && tensor_exponential(me, x, a->at[1].number, generator) ? x : NULL;
}
