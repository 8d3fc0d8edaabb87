/* optim.SGD in Lua: opt:step(), opt:zero_grad(), opt.param_groups[1].lr. The group is a plain table that the lesson may
 * change; step reads the learning rate from it. */
#include "lua/internal.h"
#include <math.h>
#include <string.h>
#include "base/vec.h"
#include "optim/optimizer.h"
#include "sched/task.h"

static void
drop_optimizer(struct task *me, void *optimizer)
{
    optimizer_free(me, optimizer);
}

static void
push_groups(lua_State *L, const struct sgd_options *options)
{
    lua_createtable(L, 1, 0);
    lua_createtable(L, 0, 8);
    lua_pushvalue(L, 1);
    lua_setfield(L, -2, "params");
    lua_pushnumber(L, options->lr);
    lua_setfield(L, -2, "lr");
    lua_pushnumber(L, options->momentum);
    lua_setfield(L, -2, "momentum");
    lua_pushnumber(L, options->dampening);
    lua_setfield(L, -2, "dampening");
    lua_pushnumber(L, options->weight_decay);
    lua_setfield(L, -2, "weight_decay");
    lua_pushboolean(L, options->nesterov);
    lua_setfield(L, -2, "nesterov");
    lua_pushboolean(L, options->maximize);
    lua_setfield(L, -2, "maximize");
    lua_rawseti(L, -2, 1);
}

/* optim.SGD(params, {lr = 0.1, momentum = 0, dampening = 0, weight_decay = 0, nesterov = false, maximize = false}) */
static int
sgd(lua_State *L)
{
    struct task *me    = script_task(L);
    int          count = 0;
    lua_settop(L, 2);
    int table = option_table(L, 2);
    option_known(L, table, "lr momentum dampening weight_decay nesterov maximize");
    struct sgd_options options = {
        .lr           = option_number(L, table, "lr", NAN),
        .momentum     = option_number(L, table, "momentum", 0),
        .dampening    = option_number(L, table, "dampening", 0),
        .weight_decay = option_number(L, table, "weight_decay", 0),
        .nesterov     = option_bool(L, table, "nesterov", false),
        .maximize     = option_bool(L, table, "maximize", false),
    };
    if (isnan(options.lr))
        raise_error(L, "TypeError", "SGD needs a learning rate: optim.SGD(params, {lr = 0.1})");
    struct tensor **params = check_tensors(L, 1, &count);
    box_push(L, BOX_OPTIMIZER, 1);
    struct call       call      = call_open(L, me, CALL_PLAIN);
    struct optimizer *optimizer = optim_sgd(me, params, count, &options);
    call_end(&call, optimizer != NULL);
    box_fill(L, optimizer, drop_optimizer, false);
    push_groups(L, &options);
    lua_setiuservalue(L, -2, 1);
    return call_leave(&call, 1);
}

static double
group_lr(lua_State *L)
{
    double lr = NAN;
    int    top = lua_gettop(L);
    if (lua_getiuservalue(L, 1, 1) == LUA_TTABLE && lua_rawgeti(L, -1, 1) == LUA_TTABLE &&
        lua_getfield(L, -1, "lr") == LUA_TNUMBER)
        lr = lua_tonumber(L, -1);
    lua_settop(L, top);
    if (!(lr >= 0))
        raise_error(L, "ValueError", "param_groups[1].lr must be a number of 0 or more");
    return lr;
}

static int
step(lua_State *L)
{
    struct task      *me        = script_task(L);
    struct optimizer *optimizer = box_check(L, 1, BOX_OPTIMIZER);
    double            lr        = group_lr(L);
    struct call       call      = call_open(L, me, CALL_PLAIN);
    optimizer_set_lr(optimizer, lr);
    return call_done(&call, optimizer_step(me, optimizer));
}

/* A counted point of collection: the graph of the step before is dead. */
static int
zero_grad(lua_State *L)
{
    struct task      *me        = script_task(L);
    struct optimizer *optimizer = box_check(L, 1, BOX_OPTIMIZER);
    bool              none = lua_istable(L, 2) ? option_bool(L, 2, "set_to_none", false) : lua_toboolean(L, 2);
    struct call       call = call_open(L, me, CALL_PLAIN);
    call_done(&call, optimizer_zero_grad(me, optimizer, none));
    script_collect(L, me);
    return 0;
}

/* Upvalue 1: the methods. */
static int
optimizer_index(lua_State *L)
{
    box_check(L, 1, BOX_OPTIMIZER);
    if (lua_type(L, 2) == LUA_TSTRING && strcmp(lua_tostring(L, 2), "param_groups") == 0) {
        lua_getiuservalue(L, 1, 1);
        return 1;
    }
    lua_pushvalue(L, 2);
    lua_rawget(L, lua_upvalueindex(1));
    return 1;
}

static const struct lua_entry methods[] = {
    { "step", step, "opt:step()", "changes every parameter that has a gradient" },
    { "zero_grad", zero_grad, "opt:zero_grad{set_to_none = false}", "gradients become zeros, or none" },
};
static const struct lua_entry entries[] = {
    { "SGD", sgd, "optim.SGD(params, {lr, momentum, dampening, weight_decay, nesterov, maximize})",
      "gradient descent; opt.param_groups[1].lr may be changed" },
};

void
lua_open_optim(lua_State *L)
{
    box_class(L, BOX_OPTIMIZER, methods, countof(methods));
    lua_getfield(L, -1, "__index");
    lua_pushcclosure(L, optimizer_index, 1);
    lua_setfield(L, -2, "__index");
    lua_pop(L, 1);
    open_namespace(L, "optim", entries, countof(entries));
    lua_pop(L, 1);
}
