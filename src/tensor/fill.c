/* Random fills. Numbers are drawn on the host in the order of PyTorch's kernels, which walk memory: dimensions sorted
 * by stride, the smallest innermost. What a real device draws by itself is philox.c's.
 *
 * In PyTorch: ATen/native/Distributions.cpp, native/DistributionTemplates.h, torch/nn/init.py (trunc_normal_). */
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include "base/math.h"
#include "base/rng.h"
#include "device/cells.h"
#include "sched/account.h"
#include "tensor/cpu/convert.h"
#include "tensor/internal.h"

/* What is drawn; `draw` writes `count` elements one after the other. */
struct filling {
    struct generator *generator;
    double            a, b;
    struct whole_range range;
    bool              contiguous;
    enum dtype        dtype;
    enum draw_kind    kind;        /* as a real device draws it; NOTHING: none does */
    void            (*draw)(const struct filling *filling, void *out, size_t count);
};

enum { DRAWS_A_STEP = 2, STEPS_A_CHANCE = 4 }; /* a random number takes some 5 ns, a logarithm with the rest 40 */

/* The numbers for `tensor`, packed in the order of its memory. A new reference; NULL: failed. */
static struct storage *
drawn_for(struct task *me, const struct tensor *tensor, struct filling *filling)
{
    if (tensor == NULL || task_failed(me) || !tensor_is_writable(me, tensor))
        return NULL;
    if (filling->generator == NULL)
        filling->generator = default_generator(me);
    if (!task_work(me, (uint64_t)tensor_count(tensor) / DRAWS_A_STEP))
        return NULL;
    struct storage *packed = storage_new_hidden(me, DEVICE_CPU, (size_t)tensor_bytes(tensor));
    if (packed == NULL || filling->generator == NULL) {
        storage_unref(me, packed);
        return NULL;
    }
    filling->dtype      = tensor->dtype;
    filling->contiguous = tensor_is_contiguous(tensor);
    filling->draw(filling, packed->data, (size_t)tensor_count(tensor));
    return packed;
}

static bool
put_drawn(struct task *me, struct tensor *tensor, struct storage *packed, const char *what)
{
    int order[TENSOR_DIMS];
    tensor_memory_order(tensor, order);
    struct tensor sorted = *tensor; /* not counted: it lives here */
    for (int d = 0; d < tensor->dims; d++) {
        sorted.size[d]   = tensor->size[order[d]];
        sorted.stride[d] = tensor->stride[order[d]];
    }
    bool done = tensor_deliver(me, &sorted, packed, what);
    tensor_bump(tensor);
    return done;
}

static bool
fill_random(struct task *me, struct tensor *tensor, struct filling *filling, const char *what)
{
    struct philox_fill fill = { filling->kind, filling->a, filling->b, { 0 } };
    if (filling->kind != DRAW_NOTHING && philox_turn(me, tensor, filling->generator, &fill.at))
        return philox_fill(me, tensor, &fill, what);
    struct storage *packed = drawn_for(me, tensor, filling);
    if (packed == NULL)
        return false;
    bool done = put_drawn(me, tensor, packed, what);
    storage_unref(me, packed);
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

static bool
bounds_fit(struct task *me, const struct tensor *tensor, double low, double high)
{
    if (!(low <= high))
        return failed(me, E_RUNTIME, "uniform_: nothing lies from %g to %g", low, high);
    bool holds = tensor == NULL || (dtype_holds(tensor->dtype, low, false) && dtype_holds(tensor->dtype, high, false) &&
                                    isfinite(high - low) && dtype_holds(tensor->dtype, high - low, false));
    return holds || failed(me, E_RUNTIME, "uniform_: %g to %g is too far for %s", low, high, dtype_name(tensor->dtype));
}

bool
tensor_uniform(struct task *me, struct tensor *tensor, double low, double high, struct generator *generator)
{
    if (!fills_fractions(me, tensor, "uniform_") || !bounds_fit(me, tensor, low, high))
        return false;
    struct filling filling = { .generator = generator, .a = low, .b = high, .kind = DRAW_UNIFORM,
                               .draw = draw_uniform };
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

static bool
deviation_fits(struct task *me, double std)
{
    return std >= 0 || failed(me, E_RUNTIME, "normal_: a standard deviation of %g cannot be", std);
}

bool
tensor_normal(struct task *me, struct tensor *tensor, double mean, double std, struct generator *generator)
{
    if (!fills_fractions(me, tensor, "normal_") || !deviation_fits(me, std))
        return false;
    struct filling filling = { .generator = generator, .a = mean, .b = std, .kind = DRAW_NORMAL,
                               .draw = draw_normals };
    return fill_random(me, tensor, &filling, "normal_");
}

static void
draw_exponentials(const struct filling *filling, void *out, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        double drawn = draw_exponential(filling->generator, filling->a);
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
    struct filling filling = { .generator = generator, .a = rate, .draw = draw_exponentials };
    return fill_random(me, tensor, &filling, "exponential_");
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
    if (!(p >= 0 && p <= 1))
        return failed(me, E_RUNTIME, "bernoulli_: a probability of %g cannot be", p);
    struct filling filling = { .generator = generator, .a = p, .kind = DRAW_COINS, .draw = draw_coins };
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
    case DTYPE_I8:   return generator_u32(filling->generator) & INT8_MAX;
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

/* What a whole number becomes as an element. */
static int64_t
as_element(enum dtype dtype, int64_t whole)
{
    uint64_t element = 0;
    dtype_put_whole(dtype, &element, whole);
    return dtype_whole(dtype, &element);
}

/* From one element of so many digits to the next, as large as `whole`. */
static int64_t
element_step(enum dtype dtype, int64_t whole)
{
    int digits = dtype == DTYPE_F64 ? 53 : dtype == DTYPE_F32 ? 24 : dtype == DTYPE_F16 ? 11 : 8;
    int bits   = 64 - __builtin_clzll((uint64_t)llabs(whole) | 1);
    return (int64_t)1 << (bits > digits ? bits - digits : 0);
}

/* The ends move inwards to elements, so that what is drawn does not round to `high` or out of the range. */
static struct whole_range
range_of_elements(enum dtype dtype, struct whole_range range)
{
    int64_t first = as_element(dtype, range.low + 1), last = as_element(dtype, range.high - 1);
    if (first < range.low)
        range.low = first + element_step(dtype, range.low + 1);
    if (last >= range.high)
        range.high = last - element_step(dtype, range.high - 1);
    return range;
}

bool
tensor_random(struct task *me, struct tensor *tensor, struct whole_range range, struct generator *generator)
{
    if (!range.all && range.low >= range.high)
        return failed(me, E_RUNTIME, "random_: no number lies from %lld to below %lld", (long long)range.low,
                      (long long)range.high);
    if (tensor != NULL && !range.all && dtype_is_float(tensor->dtype))
        range = range_of_elements(tensor->dtype, range);
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
    return n == 0 || dtype_holds(dtype, (double)(n - 1), true) ||
           failed(me, E_RUNTIME, "randperm: value cannot be converted to type %s without overflow: %lld",
                  dtype_c_type(dtype), (long long)n);
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

/* ---- the truncated normal ---- */

/* A number beside elements of the type: floats calculate with floats. */
static double
as_scalar(enum dtype dtype, double number)
{
    return dtype == DTYPE_F64 ? number : (double)(float)number;
}

/* As the type holds it. What two floats make in double rounds to what they make in float. */
static double
rounded_to(enum dtype dtype, double value)
{
    uint64_t element = 0;
    dtype_put_fraction(dtype, &element, as_scalar(dtype, value));
    return dtype_fraction(dtype, &element);
}

/* The elements, `count` of them, and what is drawn for them in the next round. */
struct rounds {
    struct filling filling;
    size_t         count, size;           /* of an element: its bytes */
    char          *elements, *next;
};

static bool
lies_outside(const struct rounds *r, size_t i, double low, double high)
{
    double value = dtype_fraction(r->filling.dtype, r->elements + i * r->size);
    return value < low || value > high;
}

static bool
draw_next(struct task *me, const struct rounds *r)
{
    if (!task_work(me, r->count / DRAWS_A_STEP + 1))
        return false;
    r->filling.draw(&r->filling, r->next, r->count);
    return true;
}

/* What lies outside is drawn again, each time with numbers for all. */
static bool
redraw_outside(struct task *me, const struct rounds *r, const struct truncated *t)
{
    double low = rounded_to(r->filling.dtype, t->low), high = rounded_to(r->filling.dtype, t->high);
    for (;;) {
        size_t outside = 0;
        for (size_t i = 0; i < r->count; i++)
            outside += lies_outside(r, i, low, high);
        if (outside == 0)
            return true;
        if (!draw_next(me, r))
            return false;
        for (size_t i = 0; i < r->count; i++) {
            if (lies_outside(r, i, low, high))
                memcpy(r->elements + i * r->size, r->next + i * r->size, r->size);
        }
    }
}

/* A candidate is taken if the logarithm of an even draw lies below the normal's there, counted from its peak. How many
 * are still open. */
static size_t
refused(const struct rounds *r, const struct truncated *t, const char *candidates, char *chances, bool *open)
{
    enum dtype     dtype = r->filling.dtype;
    double         mean = as_scalar(dtype, t->mean), std = as_scalar(dtype, t->std);
    double         mode = fmax(t->low, fmin(t->mean, t->high)), distance = (mode - t->mean) / t->std;
    double         peak = as_scalar(dtype, -0.5 * (distance * distance));
    struct filling even = { .generator = r->filling.generator, .b = 1, .dtype = dtype };
    size_t         count = 0;
    draw_uniform(&even, chances, r->count);
    for (size_t i = 0; i < r->count; i++) {
        double x = rounded_to(dtype, dtype_fraction(dtype, candidates + i * r->size) - mean);
        x = rounded_to(dtype, x / std);
        x = rounded_to(dtype, rounded_to(dtype, x * x) * -0.5);
        x = rounded_to(dtype, x - peak);
        open[i] = open[i] && rounded_to(dtype, math_log(dtype_fraction(dtype, chances + i * r->size))) > x;
        count += open[i];
    }
    return count;
}

/* Even draws between the bounds, taken as often as the normal's height there says. */
static bool
redraw_refused(struct task *me, const struct rounds *r, const struct truncated *t)
{
    char *chances = scratch_new(me, r->count, r->size);
    bool *open = scratch_new(me, r->count, sizeof *open);
    if (chances == NULL || open == NULL)
        return false;
    memset(open, true, r->count);
    const char *candidates = r->elements;
    while (refused(r, t, candidates, chances, open) > 0) {
        if (!task_work(me, r->count * STEPS_A_CHANCE) || !draw_next(me, r))
            return false;
        for (size_t i = 0; i < r->count; i++) {
            if (open[i])
                memcpy(r->elements + i * r->size, r->next + i * r->size, r->size);
        }
        candidates = r->next;
    }
    return true;
}

static double
normal_below(double x)
{
    return (1 + math_erf(x / sqrt(2.0))) / 2;
}

/* Does the normal have enough of itself between the bounds to be drawn until it falls there? */
static bool
mostly_inside(const struct truncated *t)
{
    return normal_below((t->high - t->mean) / t->std) - normal_below((t->low - t->mean) / t->std) > 0.3;
}

/* Further rounds fill a tensor like this one, which has no gaps. */
static bool
like_is_contiguous(const struct tensor *tensor)
{
    int order[TENSOR_DIMS], last = -1;
    tensor_memory_order(tensor, order);
    for (int d = 0; d < tensor->dims; d++) {
        if (tensor->size[order[d]] == 1)
            continue;
        if (order[d] < last)
            return false;
        last = order[d];
    }
    return true;
}

/* PyTorch 1.13 took the inverse of the distribution of even draws. */
bool
tensor_trunc_normal(struct task *me, struct tensor *tensor, const struct truncated *t, struct generator *generator)
{
    if (tensor == NULL || !fills_fractions(me, tensor, "trunc_normal_"))
        return false;
    if (t->std == 0)
        return failed(me, E_RUNTIME, "ZeroDivisionError: trunc_normal_: std is 0");
    bool inside = mostly_inside(t);
    if (inside ? !deviation_fits(me, t->std) : !bounds_fit(me, tensor, t->low, t->high))
        return false;
    struct rounds r = {
        .filling = { .generator = generator, .a = inside ? t->mean : t->low, .b = inside ? t->std : t->high,
                     .draw = inside ? draw_normals : draw_uniform },
        .count = (size_t)tensor_count(tensor), .size = dtype_size(tensor->dtype),
    };
    struct storage *packed = drawn_for(me, tensor, &r.filling);
    if (packed == NULL)
        return false;
    r.elements           = packed->data;
    r.next               = scratch_new(me, r.count, r.size);
    r.filling.contiguous = like_is_contiguous(tensor);
    bool ok = r.next != NULL && (inside ? redraw_outside(me, &r, t) : redraw_refused(me, &r, t));
    ok      = ok && put_drawn(me, tensor, packed, "trunc_normal_");
    storage_unref(me, packed);
    return ok;
}
