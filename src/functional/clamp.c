/* Numbers kept between bounds. A bound beside integers that none of them can pass is no bound; one that none can
 * reach is refused. PyTorch: torch.clamp, clamp_min, clamp_max. */
#include <math.h>
#include "autograd/call.h"
#include "device/device.h"
#include "functional/functions.h"
#include "sched/task.h"

/* What a bound makes of the type that x and the other bound made. */
static enum dtype
bounded_type(struct task *me, const struct tensor *x, enum dtype type, const struct argument *bound)
{
    if (bound->none)
        return type;
    if (bound->tensor == NULL)
        return dtype_over(type, bound->whole ? DTYPE_I64 : default_dtype(me));
    bool spread = bound->tensor->dims > 0;
    if (spread == (x->dims > 0))
        return dtype_promote(type, bound->tensor->dtype);
    return spread ? dtype_over(bound->tensor->dtype, type) : dtype_over(type, bound->tensor->dtype);
}

/* A whole number beside integers; what lies beyond the type's ends on the side of `low` bounds nothing. */
static struct tensor *
whole_bound(struct task *me, enum dtype type, double number, bool low)
{
    int64_t least, most, element = 0;
    dtype_ends(type, &least, &most);
    if (low ? number > (double)most : number < (double)least)
        return failed_null(me, E_RUNTIME, "Clamp %s value %g is outside the representable range of %s",
                           low ? "min" : "max", number, dtype_title(type));
    int64_t whole = number <= (double)least ? least : number >= (double)most ? most : (int64_t)number;
    dtype_put_whole(type, &element, whole);
    return tensor_from(me, type, 0, NULL, &element);
}

/* A bound that is not given is the farthest number there is. */
static struct tensor *
bound_tensor(struct task *me, enum dtype type, const struct argument *bound, bool low)
{
    double farthest = low ? -INFINITY : INFINITY;
    if (bound->tensor != NULL)
        return bound->tensor;
    if (!dtype_is_float(type))
        return whole_bound(me, type, bound->none ? farthest : bound->number, low);
    return tensor_number(me, type, DEVICE_CPU, bound->none ? farthest : bound->number);
}

static struct tensor *
clamped(struct task *me, struct arguments *a, const struct argument *low, const struct argument *high,
        const struct recorded_as *as)
{
    struct tensor *x    = a->at[0].tensor;
    enum dtype     type = bounded_type(me, x, bounded_type(me, x, x->dtype, low), high);
    struct op_args args = { .in = { x, bound_tensor(me, type, low, true) }, .as = as };
    args.in[2] = bound_tensor(me, type, high, false);
    return function_apply(me, a, OP_clamp, &args);
}

struct tensor *
fn_clamp(struct task *me, struct arguments *a)
{
    static const struct recorded_as between_tensors = { "ClampBackward0", 3 };
    const struct argument          *low = &a->at[1], *high = &a->at[2];
    if (low->none && high->none)
        return failed_null(me, E_RUNTIME, "clamp: at least one of min and max must be given");
    return clamped(me, a, low, high, low->tensor != NULL || high->tensor != NULL ? &between_tensors : NULL);
}

/* The op is OP_maximum (clamp_min) or OP_minimum (clamp_max). */
struct tensor *
fn_clamp_one(struct task *me, struct arguments *a)
{
    static const struct recorded_as of_number[] = { { "ClampMaxBackward0", 1 }, { "ClampMinBackward0", 1 } };
    const struct argument           none = { .none = true };
    enum op                         op   = a->function->row->op;
    bool                            low  = op == OP_maximum;
    if (a->at[1].tensor != NULL)
        return op_on(me, op, a->at[0].tensor, a->at[1].tensor, 1);
    return clamped(me, a, low ? &a->at[1] : &none, low ? &none : &a->at[1], &of_number[low]);
}
