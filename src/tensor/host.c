/* Reading and writing by the host, and random fills.
 *
 * Reading a device tensor copies it and waits, as .item() does. Random numbers are drawn on the host in the order
 * of PyTorch's kernels, which walk memory: dimensions sorted by stride, the smallest innermost.
 *
 * In PyTorch: ATen/native/Scalar.cpp, ATen/native/Distributions.cpp, TensorIterator.cpp (reorder_dimensions). */
#include <math.h>
#include <string.h>
#include "base/rng.h"
#include "sched/account.h"
#include "tensor/cpu/convert.h"
#include "tensor/internal.h"

bool
tensor_read(struct task *me, struct tensor *tensor, void *out)
{
    if (tensor == NULL || task_failed(me))
        return false;
    struct storage *packed = tensor_fetch(me, tensor, tensor, 0);
    if (packed == NULL)
        return false;
    if (tensor_bytes(tensor) > 0)
        memcpy(out, packed->data, (size_t)tensor_bytes(tensor));
    storage_unref(me, packed);
    return true;
}

static bool
read_one(struct task *me, struct tensor *tensor, enum dtype as, void *out)
{
    uint64_t element = 0;
    if (tensor == NULL)
        return false;
    if (tensor_count(tensor) != 1)
        return failed(me, E_RUNTIME, "item: a tensor of %lld elements is not one number",
                      (long long)tensor_count(tensor));
    if (!tensor_read(me, tensor, &element))
        return false;
    cpu_convert_one(out, as, &element, tensor->dtype);
    return true;
}

bool
tensor_item(struct task *me, struct tensor *tensor, double *value)
{
    return read_one(me, tensor, DTYPE_F64, value);
}

bool
tensor_item_i64(struct task *me, struct tensor *tensor, int64_t *value)
{
    return read_one(me, tensor, DTYPE_I64, value);
}

bool
tensor_write(struct task *me, struct tensor *tensor, const void *in)
{
    if (tensor == NULL || task_failed(me) || !tensor_is_writable(me, tensor))
        return false;
    struct storage *packed = storage_new_hidden(me, DEVICE_CPU, (size_t)tensor_bytes(tensor));
    if (packed == NULL)
        return false;
    if (tensor_bytes(tensor) > 0)
        memcpy(packed->data, in, (size_t)tensor_bytes(tensor));
    bool done = tensor_deliver(me, tensor, packed, "write");
    storage_unref(me, packed);
    tensor_bump(tensor);
    return done;
}

/* ---- random fills ---- */

/* What is drawn; `draw` writes `count` elements one after the other. */
struct filling {
    struct generator *generator;
    double            a, b;
    struct whole_range range;
    bool              contiguous;
    enum dtype        dtype;
    void            (*draw)(const struct filling *filling, void *out, size_t count);
};

/* The same elements with dimensions in the order of memory. Not counted: it lives on the caller's stack. */
static struct tensor
in_memory_order(const struct tensor *tensor)
{
    struct tensor sorted = *tensor;
    for (int i = 1; i < sorted.dims; i++) {
        for (int j = i; j > 0 && sorted.stride[j - 1] < sorted.stride[j]; j--) {
            int64_t size = sorted.size[j], stride = sorted.stride[j];
            sorted.size[j]       = sorted.size[j - 1];
            sorted.stride[j]     = sorted.stride[j - 1];
            sorted.size[j - 1]   = size;
            sorted.stride[j - 1] = stride;
        }
    }
    return sorted;
}

enum { DRAWS_A_STEP = 2 };      /* a random number takes some 5 ns */

static bool
fill_random(struct task *me, struct tensor *tensor, struct filling *filling, const char *what)
{
    if (tensor == NULL || task_failed(me) || !tensor_is_writable(me, tensor))
        return false;
    if (filling->generator == NULL)
        filling->generator = default_generator(me);
    if (!task_work(me, (uint64_t)tensor_count(tensor) / DRAWS_A_STEP))
        return false;
    struct storage *packed = storage_new_hidden(me, DEVICE_CPU, (size_t)tensor_bytes(tensor));
    if (packed == NULL || filling->generator == NULL) {
        storage_unref(me, packed);
        return false;
    }
    struct tensor sorted = in_memory_order(tensor);
    filling->dtype      = tensor->dtype;
    filling->contiguous = tensor_is_contiguous(tensor);
    filling->draw(filling, packed->data, (size_t)tensor_count(tensor));
    bool done = tensor_deliver(me, &sorted, packed, what);
    storage_unref(me, packed);
    tensor_bump(tensor);
    return done;
}

static bool
fills_fractions(struct task *me, const struct tensor *tensor, const char *what)
{
    return tensor == NULL || dtype_is_float(tensor->dtype) ||
           failed(me, E_NOT_IMPLEMENTED, "%s: expected a tensor of fractions, got one of %s", what,
                  dtype_name(tensor->dtype));
}

static void
draw_uniform(const struct filling *filling, void *out, size_t count)
{
    if (filling->dtype == DTYPE_F32)
        fill_uniform_f32(filling->generator, out, count, filling->a, filling->b);
    else if (filling->dtype != DTYPE_F64)
        fill_uniform_half(filling->generator, out, count, (struct uniform){ filling->a, filling->b },
                          filling->dtype == DTYPE_BF16);
    else
        fill_uniform_f64(filling->generator, out, count, filling->a, filling->b);
}

bool
tensor_uniform(struct task *me, struct tensor *tensor, double low, double high, struct generator *generator)
{
    if (!fills_fractions(me, tensor, "uniform_"))
        return false;
    if (!(low <= high))
        return failed(me, E_RUNTIME, "uniform_: nothing lies from %g to %g", low, high);
    struct filling filling = { .generator = generator, .a = low, .b = high, .draw = draw_uniform };
    return fill_random(me, tensor, &filling, "uniform_");
}

static void
draw_normals(const struct filling *filling, void *out, size_t count)
{
    struct normal normal = { filling->a, filling->b, filling->contiguous };
    if (filling->dtype == DTYPE_F32)
        fill_normal_f32(filling->generator, out, count, normal);
    else if (filling->dtype != DTYPE_F64)
        fill_normal_half(filling->generator, out, count, normal, filling->dtype == DTYPE_BF16);
    else
        fill_normal_f64(filling->generator, out, count, normal);
}

bool
tensor_normal(struct task *me, struct tensor *tensor, double mean, double std, struct generator *generator)
{
    if (!fills_fractions(me, tensor, "normal_"))
        return false;
    if (!(std >= 0))
        return failed(me, E_RUNTIME, "normal_: a standard deviation of %g cannot be", std);
    struct filling filling = { .generator = generator, .a = mean, .b = std, .draw = draw_normals };
    return fill_random(me, tensor, &filling, "normal_");
}

/* -log(1 - u) / rate, in double. */
static void
draw_exponential(const struct filling *filling, void *out, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        double drawn = -1 / filling->a * log(1 - generator_f64(filling->generator));
        cpu_convert_one((char *)out + i * dtype_size(filling->dtype), filling->dtype, &drawn, DTYPE_F64);
    }
}

bool
tensor_exponential(struct task *me, struct tensor *tensor, double rate, struct generator *generator)
{
    if (!fills_fractions(me, tensor, "exponential_"))
        return false;
    if (!(rate > 0))
        return failed(me, E_RUNTIME, "exponential_ expects lambda > 0.0, but found lambda=%g", rate);
    struct filling filling = { .generator = generator, .a = rate, .draw = draw_exponential };
    return fill_random(me, tensor, &filling, "exponential_");
}

/* PyTorch's CPU draws no coins of float16. */
bool
half_is_drawn(struct task *me, const struct tensor *tensor, const char *kernel)
{
    return tensor->dtype != DTYPE_F16 || tensor_device(tensor) != DEVICE_CPU ||
           failed(me, E_NOT_IMPLEMENTED, "\"%s\" not implemented for 'Half'", kernel);
}

static void
draw_coins(const struct filling *filling, void *out, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        int64_t coin = draw_bernoulli(filling->generator, filling->a);
        cpu_convert_one((char *)out + i * dtype_size(filling->dtype), filling->dtype, &coin, DTYPE_I64);
    }
}

bool
tensor_bernoulli(struct task *me, struct tensor *tensor, double p, struct generator *generator)
{
    if (tensor != NULL && !half_is_drawn(me, tensor, "bernoulli_scalar_cpu_"))
        return false;
    if (!(p >= 0 && p <= 1))
        return failed(me, E_RUNTIME, "bernoulli_: a probability of %g cannot be", p);
    struct filling filling = { .generator = generator, .a = p, .draw = draw_coins };
    return fill_random(me, tensor, &filling, "bernoulli_");
}

static int64_t
draw_whole(const struct filling *filling)
{
    if (!filling->range.all)
        return draw_randint(filling->generator, filling->range.low, filling->range.high);
    switch (filling->dtype) {
    case DTYPE_F32:  return draw_random_f32(filling->generator);
    case DTYPE_F64:  return (int64_t)(generator_u64(filling->generator) % (((uint64_t)1 << 53) + 1));
    case DTYPE_BOOL: return draw_random_bool(filling->generator);
    case DTYPE_I32:  return generator_u32(filling->generator) & INT32_MAX;
    case DTYPE_U8:   return generator_u32(filling->generator) & 0xff;
    case DTYPE_F16:  return generator_u32(filling->generator) % ((1u << 11) + 1);
    case DTYPE_BF16: return generator_u32(filling->generator) % ((1u << 8) + 1);
    default:         return draw_random_i64(filling->generator);
    }
}

static void
draw_wholes(const struct filling *filling, void *out, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        int64_t whole = draw_whole(filling);
        cpu_convert_one((char *)out + i * dtype_size(filling->dtype), filling->dtype, &whole, DTYPE_I64);
    }
}

/* Both ends as elements: a byte has no -1 here. */
static bool
range_fits(struct task *me, enum dtype dtype, int64_t low, int64_t last)
{
    bool byte = dtype == DTYPE_U8, truth = dtype == DTYPE_BOOL;
    bool from = dtype_holds(dtype, (double)low, !byte) && !(truth && (low < 0 || low > 1));
    bool to = dtype_holds(dtype, (double)last, !byte) && !(truth && (last < 0 || last > 1));
    return (from || failed(me, E_RUNTIME, "from is out of bounds for %s: %lld", dtype_name(dtype), (long long)low)) &&
           (to || failed(me, E_RUNTIME, "to - 1 is out of bounds for %s: %lld", dtype_name(dtype), (long long)last));
}

bool
tensor_random(struct task *me, struct tensor *tensor, struct whole_range range, struct generator *generator)
{
    if (!range.all && range.low >= range.high)
        return failed(me, E_RUNTIME, "random_: no number lies from %lld to below %lld", (long long)range.low,
                      (long long)range.high);
    if (tensor != NULL && !range.all && !range_fits(me, tensor->dtype, range.low, range.high - 1))
        return false;
    struct filling filling = { .generator = generator, .range = range, .draw = draw_wholes };
    return fill_random(me, tensor, &filling, "random_");
}

static void
draw_permutation(const struct filling *filling, void *out, size_t count)
{
    fill_randperm(filling->generator, out, count);
}

/* Are all numbers below n different in this type? */
static bool
counts_to(struct task *me, enum dtype dtype, int64_t n)
{
    int64_t most = dtype == DTYPE_F16 ? 2049 : dtype == DTYPE_BF16 ? 257 : dtype == DTYPE_F32 ? 0x1000001 : INT64_MAX;
    if (dtype_is_float(dtype) && n > most)
        return failed(me, E_RUNTIME, "n cannot be greater than %lld for %s type.", (long long)most, dtype_title(dtype));
    return dtype_holds(dtype, (double)n, true) ||
           failed(me, E_RUNTIME, "randperm: value cannot be converted to type %s without overflow: %lld",
                  dtype_name(dtype), (long long)n);
}

bool
tensor_randperm(struct task *me, struct tensor *tensor, struct generator *generator)
{
    struct filling filling = { .generator = generator, .draw = draw_permutation };
    if (tensor == NULL)
        return false;
    if (tensor->dims != 1 || tensor->dtype == DTYPE_BOOL)
        return failed(me, E_DTYPE, "randperm: expected a vector of numbers, not of %s", dtype_name(tensor->dtype));
    if (!counts_to(me, tensor->dtype, tensor->size[0]))
        return false;
    if (tensor->dtype == DTYPE_I64)
        return fill_random(me, tensor, &filling, "randperm");
    struct tensor *whole = tensor_empty(me, DTYPE_I64, DEVICE_CPU, 1, tensor->size);
    return fill_random(me, whole, &filling, "randperm") && tensor_copy(me, tensor, whole);
}

/* ---- the rank's generator ---- */

/* What each rank has: the generator first, slots point to it. */
struct rank_numbers { struct generator generator; enum dtype dtype; };

static void
fresh_numbers(void *memory)
{
    struct rank_numbers *numbers = memory;
    generator_seed(&numbers->generator, 67280421310721); /* c10::detail::default_rng_seed_val */
    numbers->dtype = DTYPE_F32;
}

struct generator *
default_generator(struct task *me)
{
    if (me->slots[SLOT_GENERATORS] == 0) {
        void *memory = device_rank_memory(me, me->rank, sizeof(struct rank_numbers), fresh_numbers);
        me->slots[SLOT_GENERATORS] = (uintptr_t)memory;
    }
    return (struct generator *)(uintptr_t)me->slots[SLOT_GENERATORS];
}

enum dtype
default_dtype(struct task *me)
{
    const struct rank_numbers *numbers = (const void *)default_generator(me);
    return numbers != NULL ? numbers->dtype : DTYPE_F32;
}

bool
default_dtype_set(struct task *me, enum dtype dtype)
{
    struct rank_numbers *numbers = (void *)default_generator(me);
    if (numbers == NULL)
        return false;
    if (!dtype_is_float(dtype))
        return failed(me, E_TYPE, "only floating-point types are supported as the default type, got %s",
                      dtype_name(dtype));
    numbers->dtype = dtype;
    return true;
}
