/* nn.Linear and its like, nn.Parameter and nn.functional. Built-in modules draw their initial values when they are
 * made,
 * in PyTorch's order. */
#include "lua/internal.h"
#include "autograd/call.h"
#include "base/vec.h"
#include "device/device.h"
#include "nn/layers.h"
#include "sched/task.h"

/* ---- modules ---- */

static struct layer_options
check_layer_options(lua_State *L, int table, const char *known)
{
    struct layer_options options = { .no_bias = false };
    option_known(L, table, known);
    options.no_bias     = !option_bool(L, table, "bias", true);
    options.padding_idx = option_integer(L, table, "padding_idx", 0);
    if (option_push(L, table, "padding_idx")) {
        options.has_padding = true;
        lua_pop(L, 1);
    }
    options.dtype = option_dtype(L, table, DTYPE_F32);
    return options;
}

/* The option device moves what was made on the CPU: the draws are the same. */
static int
call_layer(struct call *call, struct module *module, int device)
{
    if (module != NULL && device != DEVICE_CPU && !module_to(call->me, module, device))
        module = NULL;
    return call_module(call, module);
}

static int
linear_(lua_State *L)
{
    struct task *me = script_task(L);
    int64_t      in = check_integer(L, 1), out = check_integer(L, 2);
    int          table = option_table(L, 3);
    struct layer_options options = check_layer_options(L, table, "bias dtype device");
    int                  device  = option_device(L, table, DEVICE_CPU);
    script_reserve(L, me, (double)in * (double)out * 8);
    struct call call = call_open(L, me, CALL_PLAIN);
    return call_layer(&call, nn_linear(me, in, out, &options), device);
}

static int
embedding_(lua_State *L)
{
    struct task *me   = script_task(L);
    int64_t      rows = check_integer(L, 1), width = check_integer(L, 2);
    int          table = option_table(L, 3);
    struct layer_options options = check_layer_options(L, table, "padding_idx dtype device");
    int                  device  = option_device(L, table, DEVICE_CPU);
    script_reserve(L, me, (double)rows * (double)width * 8);
    struct call call = call_open(L, me, CALL_PLAIN);
    return call_layer(&call, nn_embedding(me, rows, width, &options), device);
}

static int
relu_(lua_State *L)
{
    struct task *me   = script_task(L);
    struct call  call = call_open(L, me, CALL_PLAIN);
    return call_module(&call, nn_relu(me));
}

/* nn.Sequential{a, b} or nn.Sequential(a, b) */
static int
sequential(lua_State *L)
{
    struct task *me = script_task(L);
    if (!is_plain_table(L, 1)) {
        int count = lua_gettop(L);
        lua_createtable(L, count, 0);
        lua_insert(L, 1);
        for (int i = count; i >= 1; i--)
            lua_rawseti(L, 1, i);
    }
    int             count    = (int)lua_rawlen(L, 1);
    struct module **children = lua_newuserdatauv(L, (size_t)(count + 1) * sizeof *children, 0);
    for (int i = 0; i < count; i++) {
        lua_rawgeti(L, 1, i + 1);
        children[i] = test_module(L, -1);
        if (children[i] == NULL)
            raise_error(L, "TypeError", "element %d of Sequential: expected Module, got %s",
                        i + 1, luaL_typename(L, -1));
        lua_pop(L, 1);
    }
    struct call call = call_open(L, me, CALL_PLAIN);
    return call_module(&call, nn_sequential(me, children, count));
}

static int
mse_loss_module(lua_State *L)
{
    struct task *me   = script_task(L);
    struct call  call = call_open(L, me, CALL_PLAIN);
    return call_module(&call, nn_mse_loss(me));
}

static int
cross_entropy_module(lua_State *L)
{
    struct task *me   = script_task(L);
    struct call  call = call_open(L, me, CALL_PLAIN);
    return call_module(&call, nn_cross_entropy_loss(me));
}

/* nn.Parameter(tensor), nn.Parameter(tensor, {requires_grad = false}): shares the tensor's elements. */
static int
parameter(lua_State *L)
{
    struct task   *me     = script_task(L);
    struct tensor *tensor = check_tensor(L, 1);
    bool           wanted = lua_istable(L, 2) ? option_bool(L, 2, "requires_grad", true)
                                              : lua_isnoneornil(L, 2) || lua_toboolean(L, 2);
    if (wanted && !dtype_is_float(tensor->dtype))
        raise_error(L, "RuntimeError", "only tensors of fractions can require gradients, this one is %s",
                    dtype_name(tensor->dtype));
    struct call    call   = call_open(L, me, CALL_PLAIN);
    struct tensor *result = tensor_detach(me, tensor);
    if (result != NULL) {
        result->is_parameter  = true;
        result->requires_grad = wanted;
    }
    return call_tensor(&call, result);
}

/* ---- functions ---- */

static struct tensor *
opt_tensor(lua_State *L, int index)
{
    return lua_isnoneornil(L, index) ? NULL : check_tensor(L, index);
}

static int
f_linear(lua_State *L)
{
    struct task   *me    = script_task(L);
    struct tensor *input = check_tensor(L, 1), *weight = check_tensor(L, 2), *bias = opt_tensor(L, 3);
    struct call    call  = call_open(L, me, CALL_PLAIN);
    return call_tensor(&call, linear(me, input, weight, bias));
}

static int
f_relu(lua_State *L)
{
    struct task   *me    = script_task(L);
    struct tensor *input = check_tensor(L, 1);
    struct call    call  = call_open(L, me, CALL_PLAIN);
    return call_tensor(&call, tensor_relu(me, input));
}

/* nn.functional.embedding(indices, weight, {padding_idx = 0}) */
static int
f_embedding(lua_State *L)
{
    struct task   *me      = script_task(L);
    struct tensor *indices = check_tensor(L, 1), *weight = check_tensor(L, 2);
    int            table   = lua_istable(L, 3) ? option_table(L, 3) : 0;
    int64_t        padding = option_integer(L, table, "padding_idx", table == 0 ? opt_integer(L, 3, -1) : -1);
    struct call    call    = call_open(L, me, CALL_PLAIN);
    return call_tensor(&call, embedding(me, weight, indices, padding));
}

static int
f_mse_loss(lua_State *L)
{
    struct task   *me    = script_task(L);
    struct tensor *input = check_tensor(L, 1), *target = check_tensor(L, 2);
    struct call    call  = call_open(L, me, CALL_PLAIN);
    return call_tensor(&call, mse_loss(me, input, target));
}

static int
f_cross_entropy(lua_State *L)
{
    struct task   *me    = script_task(L);
    struct tensor *input = check_tensor(L, 1), *target = check_tensor(L, 2);
    struct call    call  = call_open(L, me, CALL_PLAIN);
    return call_tensor(&call, cross_entropy(me, input, target));
}

static const struct lua_entry modules[] = {
    { "Linear", linear_, "nn.Linear(in_features, out_features, {bias = true, dtype, device})",
      "input @ weight.t() + bias" },
    { "Embedding", embedding_, "nn.Embedding(rows, width, {padding_idx, dtype, device})",
      "rows of its weight, by index" },
    { "ReLU", relu_, "nn.ReLU()", "max(input, 0)" },
    { "Sequential", sequential, "nn.Sequential{a, b, ...}", "one after the other; seq[0] is the first" },
    { "MSELoss", mse_loss_module, "nn.MSELoss()", "mean of squared differences" },
    { "CrossEntropyLoss", cross_entropy_module, "nn.CrossEntropyLoss()", "for classes given by index" },
    { "Parameter", parameter, "nn.Parameter(tensor, {requires_grad = true})",
      "a tensor that a module registers when it is assigned" },
};
static const struct lua_entry functions[] = {
    { "linear", f_linear, "nn.functional.linear(input, weight, bias)", "input @ weight.t() + bias" },
    { "relu", f_relu, "nn.functional.relu(input)", "max(input, 0)" },
    { "embedding", f_embedding, "nn.functional.embedding(indices, weight, {padding_idx})",
      "rows of the weight, by index" },
    { "mse_loss", f_mse_loss, "nn.functional.mse_loss(input, target)", "mean of squared differences" },
    { "cross_entropy", f_cross_entropy, "nn.functional.cross_entropy(input, target)",
      "classes by index, over dimension 1" },
};

void
lua_open_layers(lua_State *L)
{
    open_namespace(L, "nn", modules, countof(modules));
    lua_pop(L, 1);
    open_namespace(L, "nn.functional", functions, countof(functions));
    push_ringside(L);
    lua_getfield(L, -1, "log_softmax");
    lua_setfield(L, -3, "log_softmax");
    lua_pop(L, 2);
}
