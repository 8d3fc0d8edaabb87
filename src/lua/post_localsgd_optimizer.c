/* rs.distributed.optim.PostLocalSGDOptimizer: an optimizer whose step is followed by a model averager's turn. It is a
 * table (optim, averager, param_groups) that hands on what it is asked; either may be a lesson's own object. As
 * torch/distributed/optim/post_localSGD_optimizer.py.
 *
 * Interface: lua_open_post_localsgd_optimizer, push_wrapped_optimizer. */
#include <string.h>
#include "base/vec.h"
#include "lua/dispatch.h"
#include "lua/optim.h"
#include "lua/rank.h"
#include "sched/task.h"

static const char WRAPPER[] = "ringside.post_localsgd_optimizer";

static void
check_wrapper(lua_State *L)
{
    if (!has_class(L, 1, WRAPPER))
        arg_error(L, 1, "a PostLocalSGDOptimizer");
}

/* The field at `part` of the wrapper at 1, and its method of that name below it. */
static void
push_method(lua_State *L, const char *part, const char *name)
{
    lua_getfield(L, 1, part);
    lua_getfield(L, -1, name);
    lua_insert(L, -2);
}

/* Hands arguments 2 to `count` on to the optimizer's method; answers its results. */
static int
hand_on(lua_State *L, const char *name, int count)
{
    check_wrapper(L);
    arg_most(L, count);
    int given = lua_gettop(L);
    push_method(L, "optim", name);
    for (int i = 2; i <= given; i++)
        lua_pushvalue(L, i);
    lua_call(L, given, LUA_MULTRET);
    return lua_gettop(L) - given;
}

bool
push_wrapped_optimizer(lua_State *L, int index)
{
    if (!has_class(L, index, WRAPPER))
        return false;
    lua_getfield(L, index, "optim");
    return true;
}

static int
l_step(lua_State *L)
{
    hand_on(L, "step", 1);
    lua_settop(L, 1);
    push_method(L, "averager", "average_parameters");
    lua_getfield(L, 1, "param_groups");
    lua_call(L, 2, 0);
    return 0;
}

static int l_zero_grad(lua_State *L) { return hand_on(L, "zero_grad", 2); }
static int l_add_param_group(lua_State *L) { return hand_on(L, "add_param_group", 2); }

static int
l_state_dict(lua_State *L)
{
    hand_on(L, "state_dict", 1);
    lua_settop(L, 2);
    check_table(L, 2);
    lua_getfield(L, 1, "averager");
    lua_getfield(L, -1, "step");
    lua_setfield(L, 2, "step");
    lua_settop(L, 2);
    return 1;
}

static int
l_load_state_dict(lua_State *L)
{
    check_wrapper(L);
    check_table(L, 2);
    lua_settop(L, 2);
    hand_on(L, "load_state_dict", 2);
    lua_settop(L, 2);
    lua_getfield(L, 1, "averager");
    if (lua_getfield(L, 2, "step") == LUA_TNIL) {
        lesson_warn(L, "Loaded state dict does not contain a step counter for an averager. Setting step counter to 0.");
        lua_pop(L, 1);
        lua_pushinteger(L, 0);
    }
    lua_setfield(L, 3, "step");
    return 0;
}

static int
l_tostring(lua_State *L)
{
    check_wrapper(L);
    lua_getfield(L, 1, "optim");
    luaL_tolstring(L, -1, NULL);
    return 1;
}

/* Upvalue 1: the methods. `state` is the optimizer's. */
static int
l_index(lua_State *L)
{
    const char *name = lua_type(L, 2) == LUA_TSTRING ? lua_tostring(L, 2) : "";
    if (strcmp(name, "state") == 0) {
        lua_getfield(L, 1, "optim");
        lua_getfield(L, -1, "state");
        return 1;
    }
    lua_pushvalue(L, 2);
    if (lua_gettable(L, lua_upvalueindex(1)) == LUA_TNIL && name[0] != '\0')
        return no_attribute(L, "'PostLocalSGDOptimizer' object", name, lua_upvalueindex(1),
                            "optim averager param_groups state");
    return 1;
}

static int
l_post_localsgd_optimizer(lua_State *L)
{
    struct arguments a;
    take_arguments(L, &a);
    int optim = (int)a.at[0].integer[0], averager = (int)a.at[1].integer[0];
    if (box_test(L, optim, BOX_OPTIMIZER) == NULL && !lua_istable(L, optim))
        return arg_error(L, 1, "an optimizer");
    if (!lua_istable(L, averager))
        return arg_error(L, 2, "a model averager");
    lua_createtable(L, 0, 3);
    luaL_setmetatable(L, WRAPPER);
    lua_pushvalue(L, optim);
    lua_setfield(L, -2, "optim");
    lua_pushvalue(L, averager);
    lua_setfield(L, -2, "averager");
    lua_getfield(L, optim, "param_groups");
    lua_setfield(L, -2, "param_groups");
    return 1;
}

static const struct lua_entry methods[] = {
    { "step", l_step, "PostLocalSGDOptimizer.step(opt)", "the optimizer's step, then the averager's" },
    { "zero_grad", l_zero_grad, "PostLocalSGDOptimizer.zero_grad(opt, set_to_none)", "the optimizer's" },
    { "add_param_group", l_add_param_group, "PostLocalSGDOptimizer.add_param_group(opt, param_group)",
      "the optimizer's; the averager averages that group, too" },
    { "state_dict", l_state_dict, "PostLocalSGDOptimizer.state_dict(opt)",
      "the optimizer's, and step: the averager's, so that a run that goes on has no second warm-up" },
    { "load_state_dict", l_load_state_dict, "PostLocalSGDOptimizer.load_state_dict(opt, dict)",
      "copies such a table in; without a step the averager begins at 0, and a warning says so" },
};
static const struct lua_entry entries[] = {
    { "PostLocalSGDOptimizer", l_post_localsgd_optimizer,
      "dist.optim.PostLocalSGDOptimizer(any optim, any averager) -> any",
      "an optimizer whose steps are each rank's own, and an averager that brings the ranks together; use it with "
      "post_localSGD_hook, whose start_localSGD_iter is the averager's warmup_steps" },
};

void
lua_open_post_localsgd_optimizer(lua_State *L)
{
    static const luaL_Reg none[] = { { "__tostring", l_tostring }, { NULL, NULL } };
    open_class(L, WRAPPER, methods, countof(methods), none);
    luaL_getmetatable(L, WRAPPER);
    lua_getfield(L, -1, "__index");
    lua_pushcclosure(L, l_index, 1);
    lua_setfield(L, -2, "__index");
    lua_pop(L, 1);
    fill_namespace(L, "distributed.optim", entries, countof(entries));
}
