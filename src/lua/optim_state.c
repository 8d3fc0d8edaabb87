/* opt.state, opt:state_dict() and opt:load_state_dict(), shaped as in PyTorch: {state = {[0] = {step, exp_avg, ...}},
 * param_groups = {{lr, ..., params = {0, 1}}}}. Parameters are numbered from 0 in the order of the groups. */
#include "lua/optim.h"
#include <string.h>
#include "lua/internal.h"
#include "sched/task.h"
#include "tensor/tensor.h"

/* {momentum_buffer = t} or {step = t, exp_avg = t, ...}: the very tensors, not copies. Raises. */
static void
push_parameter_state(lua_State *L, const struct optimizer *optimizer, int index)
{
    struct task              *me    = script_task(L);
    enum optim_kind           kind  = optimizer_kind(optimizer);
    const struct optim_state *state = optimizer_state(optimizer, index);
    lua_createtable(L, 0, 4);
    for (int slot = 0; slot < OPTIM_SLOTS; slot++) {
        if (state->slot[slot] == NULL)
            continue;
        push_tensor(L, state->slot[slot]);
        lua_setfield(L, -2, optim_slot(kind, slot));
    }
    if (kind == OPTIM_SPARSE_ADAM)
        set_integer(L, -1, "step", state->steps); /* PyTorch's has a plain number here */
    if (kind == OPTIM_SGD || kind == OPTIM_SPARSE_ADAM)
        return;
    struct call call = call_open(L, me, CALL_PLAIN);
    call_tensor(&call, tensor_number(me, DTYPE_F32, DEVICE_CPU, (double)state->steps));
    lua_setfield(L, -2, "step");
}

/* SGD without momentum has no state at all, Adagrad has one from the beginning, as in PyTorch. */
static bool
remembers(const struct optimizer *optimizer, int index)
{
    const struct optim_state *state = optimizer_state(optimizer, index);
    if (optimizer_kind(optimizer) == OPTIM_ADAGRAD)
        return state->slot[0] != NULL;
    return state->steps > 0 && (optimizer_kind(optimizer) != OPTIM_SGD || state->slot[0] != NULL);
}

int
push_optim_state(lua_State *L, int index)
{
    struct optimizer *optimizer = box_check(L, index, BOX_OPTIMIZER);
    lua_newtable(L);
    for (int i = 0; i < optimizer_count(optimizer); i++) {
        if (!remembers(optimizer, i))
            continue;
        push_tensor(L, optimizer_state(optimizer, i)->param);
        push_parameter_state(L, optimizer, i);
        lua_rawset(L, -3);
    }
    return 1;
}

/* A group's table without its parameters; those become their numbers from `first` on. Answers how many. */
static int
push_group(lua_State *L, int group, int first)
{
    lua_newtable(L);
    int copy = lua_gettop(L);
    copy_optim_options(L, group);
    int count = lua_getfield(L, group, "params") == LUA_TTABLE ? (int)lua_rawlen(L, -1) : 0;
    lua_pop(L, 1);
    lua_createtable(L, count, 0);
    for (int i = 0; i < count; i++) {
        lua_pushinteger(L, first + i);
        lua_rawseti(L, -2, i + 1);
    }
    lua_setfield(L, copy, "params");
    return count;
}

int
optim_state_dict(lua_State *L)
{
    struct optimizer *optimizer = box_check(L, 1, BOX_OPTIMIZER);
    lua_settop(L, 1);
    apply_param_groups(L, 1);
    lua_createtable(L, 0, 2);
    lua_newtable(L);
    for (int i = 0; i < optimizer_count(optimizer); i++) {
        if (!remembers(optimizer, i))
            continue;
        push_parameter_state(L, optimizer, i);
        lua_rawseti(L, -2, i);
    }
    lua_setfield(L, 2, "state");
    push_param_groups(L, 1);
    lua_newtable(L);
    int first = 0;
    for (int i = 0; i < optimizer_groups(optimizer); i++) {
        lua_rawgeti(L, 3, i + 1);
        first += push_group(L, 5, first);
        lua_rawseti(L, 4, i + 1);
        lua_settop(L, 4);
    }
    lua_setfield(L, 2, "param_groups");
    lua_settop(L, 2);
    return 1;
}

/* ---- loading ---- */

static void
check_field(lua_State *L, int table, const char *name)
{
    if (lua_getfield(L, table, name) != LUA_TTABLE)
        raise_error(L, "KeyError", "'%s': this is no optimizer's state_dict", name);
}

static size_t
length_of_params(lua_State *L, int group)
{
    if (!lua_istable(L, group))
        raise_error(L, "ValueError", "this is no optimizer's state_dict: a group is no table");
    size_t count = lua_getfield(L, group, "params") == LUA_TTABLE ? lua_rawlen(L, -1) : 0;
    lua_pop(L, 1);
    return count;
}

/* Both lists of groups must have the same shape. Indices of the loaded and of the own list. */
static void
compare_groups(lua_State *L, int loaded, int own)
{
    if (lua_rawlen(L, loaded) != lua_rawlen(L, own))
        raise_error(L, "ValueError", "loaded state dict has a different number of parameter groups");
    for (lua_Integer i = 1; i <= (lua_Integer)lua_rawlen(L, own); i++) {
        lua_rawgeti(L, loaded, i);
        lua_rawgeti(L, own, i);
        int top = lua_gettop(L);
        if (length_of_params(L, top - 1) != length_of_params(L, top))
            raise_error(L, "ValueError", "loaded state dict contains a parameter group that doesn't match the size of "
                                         "optimizer's group");
        lua_settop(L, top - 2);
    }
}

static int64_t
read_step(lua_State *L, int table)
{
    struct task *me   = script_task(L);
    double       step = 1;
    if (lua_getfield(L, table, "step") == LUA_TNUMBER)
        step = lua_tonumber(L, -1);
    else if (test_tensor(L, -1) != NULL && !tensor_item(me, test_tensor(L, -1), &step))
        raise(L, me);
    lua_pop(L, 1);
    if (!(step >= 0 && step < 0x1p53))
        raise_error(L, "ValueError", "the state's step is %f: expected a count of steps", step);
    return (int64_t)step;
}

/* The state at the top of the stack (a table, or nil: none) into parameter `index`. */
static void
load_parameter_state(lua_State *L, struct optimizer *optimizer, int index)
{
    struct task   *me = script_task(L);
    int            table = lua_gettop(L);
    int64_t        steps = 0;
    struct tensor *slots[OPTIM_SLOTS] = { NULL };
    if (lua_istable(L, table)) {
        steps = read_step(L, table);
        for (int slot = 0; slot < OPTIM_SLOTS; slot++) {
            const char *name = optim_slot(optimizer_kind(optimizer), slot);
            if (name == NULL)
                break;
            lua_getfield(L, table, name);
            slots[slot] = test_tensor(L, -1);
        }
    }
    struct call call = call_open(L, me, CALL_PLAIN);
    call_done(&call, optimizer_load_state(me, optimizer, index, steps, slots));
    lua_settop(L, table);
}

/* Under the key that the saved group gives the parameter. */
static void
load_group_state(lua_State *L, struct optimizer *optimizer, int state, int group, int first)
{
    lua_getfield(L, group, "params");
    int params = lua_gettop(L);
    for (lua_Integer i = 1; i <= (lua_Integer)lua_rawlen(L, params); i++) {
        lua_rawgeti(L, params, i);
        if (lua_isnil(L, -1))
            raise_error(L, "ValueError", "this is no optimizer's state_dict: a group has holes");
        lua_rawget(L, state);
        load_parameter_state(L, optimizer, first + (int)i - 1);
        lua_settop(L, params);
    }
    lua_settop(L, params - 1);
}

int
optim_load_state_dict(lua_State *L)
{
    struct optimizer *optimizer = box_check(L, 1, BOX_OPTIMIZER);
    check_table(L, 2);
    lua_settop(L, 2);
    check_field(L, 2, "state");
    check_field(L, 2, "param_groups");
    push_param_groups(L, 1);
    compare_groups(L, 4, 5);
    int first = 0;
    for (int i = 0; i < optimizer_groups(optimizer); i++) {
        lua_rawgeti(L, 4, i + 1);
        lua_rawgeti(L, 5, i + 1);
        copy_optim_options(L, 6);
        load_group_state(L, optimizer, 3, 6, first);
        first += (int)length_of_params(L, 7);
        lua_settop(L, 5);
    }
    apply_param_groups(L, 1);
    return 0;
}
