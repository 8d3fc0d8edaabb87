/* nn.init: fills with PyTorch's numbers, unrecorded; each answers its tensor. In PyTorch: torch/nn/init.py. */
#include "lua/internal.h"
#include <math.h>
#include <string.h>
#include "autograd/call.h"
#include "autograd/node.h"
#include "base/vec.h"
#include "sched/task.h"
#include "tensor/tensor.h"

/* ---- gains and fans ---- */

static double
gain_of(lua_State *L, const char *name, double slope)
{
    static const char *const plain[] = { "linear", "conv1d", "conv2d", "conv3d", "conv_transpose1d",
                                         "conv_transpose2d", "conv_transpose3d", "sigmoid" };
    for (size_t i = 0; i < countof(plain); i++)
        if (strcmp(plain[i], name) == 0)
            return 1;
    if (strcmp(name, "tanh") == 0)
        return 5.0 / 3;
    if (strcmp(name, "relu") == 0)
        return sqrt(2.0);
    if (strcmp(name, "leaky_relu") == 0)
        return sqrt(2.0 / (1 + slope * slope));
    if (strcmp(name, "selu") == 0)
        return 3.0 / 4;
    raise_error(L, "ValueError", "Unsupported nonlinearity %s", name);
    return 0;
}

struct fans { double in, out; };

static struct fans
fans_of(lua_State *L, const struct tensor *tensor)
{
    double area = 1;
    if (tensor->dims < 2)
        raise_error(L, "ValueError", "Fan in and fan out can not be computed for tensor with fewer than 2 dimensions");
    for (int d = 2; d < tensor->dims; d++)
        area *= (double)tensor->size[d];
    return (struct fans){ (double)tensor->size[1] * area, (double)tensor->size[0] * area };
}

/* ---- filling ---- */

enum fill { FILL_UNIFORM, FILL_NORMAL, FILL_CONSTANT };

static int
filled(lua_State *L, enum fill fill, double a, double b)
{
    struct task   *me = script_task(L);
    struct tensor *tensor = check_tensor(L, 1);
    bool           before = grad_enabled(me);
    struct call    call = call_open(L, me, CALL_PLAIN);
    grad_set_enabled(me, false);
    bool ok = inplace_allowed(me, tensor);
    if (ok && fill == FILL_CONSTANT)
        ok = tensor_fill_(me, tensor, a) != NULL;
    else if (ok)
        ok = (fill == FILL_UNIFORM ? tensor_uniform : tensor_normal)(me, tensor, a, b, default_generator(me));
    grad_set_enabled(me, before);
    return call_self(&call, ok);
}

/* A number by place, or by its name in a trailing table of options. */
static double
setting(lua_State *L, int index, const char *name, double otherwise)
{
    int table = lua_istable(L, lua_gettop(L)) ? lua_gettop(L) : 0;
    if (index < (table != 0 ? table : lua_gettop(L) + 1))
        return opt_number(L, index, otherwise);
    return option_number(L, table, name, otherwise);
}

static const char *
word(lua_State *L, int index, const char *name, const char *otherwise)
{
    int table = lua_istable(L, lua_gettop(L)) ? lua_gettop(L) : 0;
    if (index < (table != 0 ? table : lua_gettop(L) + 1) && !lua_isnil(L, index))
        return check_text(L, index);
    return option_text(L, table, name, otherwise);
}

static int
uniform_(lua_State *L)
{
    return filled(L, FILL_UNIFORM, setting(L, 2, "a", 0), setting(L, 3, "b", 1));
}

static int
normal_(lua_State *L)
{
    return filled(L, FILL_NORMAL, setting(L, 2, "mean", 0), setting(L, 3, "std", 1));
}

static int
constant_(lua_State *L)
{
    return filled(L, FILL_CONSTANT, setting(L, 2, "val", 0), 0);
}

static int
ones_(lua_State *L)
{
    return filled(L, FILL_CONSTANT, 1, 0);
}

static int
zeros_(lua_State *L)
{
    return filled(L, FILL_CONSTANT, 0, 0);
}

/* 1 where row and column agree. */
static int
eye_(lua_State *L)
{
    struct task   *me = script_task(L);
    struct tensor *tensor = check_tensor(L, 1);
    if (tensor->dims != 2)
        raise_error(L, "ValueError", "Only tensors with 2 dimensions are supported");
    bool        before = grad_enabled(me);
    struct call call = call_open(L, me, CALL_PLAIN);
    grad_set_enabled(me, false);
    bool           ok = inplace_allowed(me, tensor) && tensor_fill_(me, tensor, 0) != NULL;
    struct op_args args = { .in = { tensor }, .dim = 0, .start = 1 };
    struct tensor *diagonal = ok ? op_call(me, OP_diagonal, &args) : NULL;
    ok = diagonal != NULL && tensor_fill_(me, diagonal, 1) != NULL;
    grad_set_enabled(me, before);
    return call_self(&call, ok);
}

static double
xavier_std(lua_State *L)
{
    struct fans fans = fans_of(L, check_tensor(L, 1));
    return setting(L, 2, "gain", 1) * sqrt(2.0 / (fans.in + fans.out));
}

static int
xavier_uniform_(lua_State *L)
{
    double bound = sqrt(3.0) * xavier_std(L);
    return filled(L, FILL_UNIFORM, -bound, bound);
}

static int
xavier_normal_(lua_State *L)
{
    return filled(L, FILL_NORMAL, 0, xavier_std(L));
}

/* kaiming_*_(tensor, a, mode, nonlinearity) */
static double
kaiming_std(lua_State *L)
{
    struct fans fans = fans_of(L, check_tensor(L, 1));
    const char *mode = word(L, 3, "mode", "fan_in"), *nonlinearity = word(L, 4, "nonlinearity", "leaky_relu");
    if (strcmp(mode, "fan_in") != 0 && strcmp(mode, "fan_out") != 0)
        raise_error(L, "ValueError", "Mode %s not supported, please use one of fan_in, fan_out", mode);
    double gain = gain_of(L, nonlinearity, setting(L, 2, "a", 0));
    return gain / sqrt(strcmp(mode, "fan_in") == 0 ? fans.in : fans.out);
}

static int
kaiming_uniform_(lua_State *L)
{
    if (tensor_count(check_tensor(L, 1)) == 0)
        return filled(L, FILL_CONSTANT, 0, 0);
    double bound = sqrt(3.0) * kaiming_std(L);
    return filled(L, FILL_UNIFORM, -bound, bound);
}

static int
kaiming_normal_(lua_State *L)
{
    if (tensor_count(check_tensor(L, 1)) == 0)
        return filled(L, FILL_CONSTANT, 0, 0);
    return filled(L, FILL_NORMAL, 0, kaiming_std(L));
}

static int
calculate_gain(lua_State *L)
{
    lua_pushnumber(L, gain_of(L, check_text(L, 1), opt_number(L, 2, 0.01)));
    return 1;
}

static const struct lua_entry entries[] = {
    { "uniform_", uniform_, "nn.init.uniform_(t, a, b)", "drawn evenly from [a, b)" },
    { "normal_", normal_, "nn.init.normal_(t, mean, std)", "drawn from a normal distribution" },
    { "constant_", constant_, "nn.init.constant_(t, val)", "every element becomes val" },
    { "ones_", ones_, "nn.init.ones_(t)", "every element becomes 1" },
    { "eye_", eye_, "nn.init.eye_(t)", "1 on the diagonal of a matrix, 0 elsewhere" },
    { "zeros_", zeros_, "nn.init.zeros_(t)", "every element becomes 0" },
    { "xavier_uniform_", xavier_uniform_, "nn.init.xavier_uniform_(t, gain)", "bounds from both fans" },
    { "xavier_normal_", xavier_normal_, "nn.init.xavier_normal_(t, gain)", "deviation from both fans" },
    { "kaiming_uniform_", kaiming_uniform_, "nn.init.kaiming_uniform_(t, a, mode, nonlinearity)",
      "bounds from one fan and the gain" },
    { "kaiming_normal_", kaiming_normal_, "nn.init.kaiming_normal_(t, a, mode, nonlinearity)",
      "deviation from one fan and the gain" },
    { "calculate_gain", calculate_gain, "nn.init.calculate_gain(nonlinearity, slope)",
            "what a nonlinearity takes away" },
};

void
lua_open_initial(lua_State *L)
{
    open_namespace(L, "nn.init", entries, countof(entries));
    lua_pop(L, 1);
}
