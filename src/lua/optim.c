/* optim.SGD, Adam and AdamW in Lua: opt:step(), opt:zero_grad(), opt.param_groups[1].lr. A group is a plain table that
 * the lesson (and a scheduler) may change; step reads what stands there. User value 1 of a box: the groups, 2: the
 * defaults for groups that come later. */
#include "lua/optim.h"
#include <math.h>
#include <string.h>
#include "base/vec.h"
#include "lua/shelf.h"
#include "sched/task.h"

static const char *const known_options[OPTIM_KINDS] = {
    [OPTIM_SGD]   = "lr momentum dampening weight_decay nesterov maximize initial_lr params",
    [OPTIM_ADAM]  = "lr betas eps weight_decay amsgrad maximize initial_lr params",
    [OPTIM_ADAMW] = "lr betas eps weight_decay amsgrad maximize initial_lr params",
};

static void
drop_optimizer(struct task *me, void *optimizer)
{
    optimizer_free(me, optimizer);
}

/* ---- options ---- */

static void
read_betas(lua_State *L, int table, struct optim_options *options)
{
    if (!option_push(L, table, "betas"))
        return;
    if (!lua_istable(L, -1))
        raise_error(L, "TypeError", "option betas: expected two numbers such as {0.9, 0.999}, got %s",
                    luaL_typename(L, -1));
    lua_rawgeti(L, -1, 1);
    lua_rawgeti(L, -2, 2);
    if (lua_type(L, -1) != LUA_TNUMBER || lua_type(L, -2) != LUA_TNUMBER)
        raise_error(L, "TypeError", "option betas: expected two numbers such as {0.9, 0.999}");
    options->beta1 = lua_tonumber(L, -2);
    options->beta2 = lua_tonumber(L, -1);
    lua_pop(L, 3);
}

/* Fields of the table at `table` (0: none) over `otherwise`. Raises TypeError for what is no number or flag. */
static struct optim_options
read_optim_options(lua_State *L, enum optim_kind kind, int table, struct optim_options otherwise)
{
    struct optim_options options = otherwise;
    options.lr           = option_number(L, table, "lr", otherwise.lr);
    options.weight_decay = option_number(L, table, "weight_decay", otherwise.weight_decay);
    options.maximize     = option_bool(L, table, "maximize", otherwise.maximize);
    if (kind == OPTIM_SGD) {
        options.momentum  = option_number(L, table, "momentum", otherwise.momentum);
        options.dampening = option_number(L, table, "dampening", otherwise.dampening);
        options.nesterov  = option_bool(L, table, "nesterov", otherwise.nesterov);
        return options;
    }
    read_betas(L, table, &options);
    options.eps     = option_number(L, table, "eps", otherwise.eps);
    options.amsgrad = option_bool(L, table, "amsgrad", otherwise.amsgrad);
    return options;
}

static void
write_optim_options(lua_State *L, int table, enum optim_kind kind, const struct optim_options *options)
{
    table = lua_absindex(L, table);
    set_number(L, table, "lr", options->lr);
    set_number(L, table, "weight_decay", options->weight_decay);
    set_flag(L, table, "maximize", options->maximize);
    if (kind == OPTIM_SGD) {
        set_number(L, table, "momentum", options->momentum);
        set_number(L, table, "dampening", options->dampening);
        set_flag(L, table, "nesterov", options->nesterov);
        return;
    }
    lua_createtable(L, 2, 0);
    lua_pushnumber(L, options->beta1);
    lua_rawseti(L, -2, 1);
    lua_pushnumber(L, options->beta2);
    lua_rawseti(L, -2, 2);
    lua_setfield(L, table, "betas");
    set_number(L, table, "eps", options->eps);
    set_flag(L, table, "amsgrad", options->amsgrad);
}

/* ---- groups ---- */

void
push_param_groups(lua_State *L, int optimizer)
{
    if (lua_getiuservalue(L, optimizer, 1) != LUA_TTABLE)
        raise_error(L, "RuntimeError", "this optimizer has no groups");
}

void
apply_param_groups(lua_State *L, int index)
{
    struct optimizer *optimizer = box_check(L, index, BOX_OPTIMIZER);
    push_param_groups(L, index);
    for (int i = 0; i < optimizer_groups(optimizer); i++) {
        if (lua_rawgeti(L, -1, i + 1) != LUA_TTABLE)
            raise_error(L, "TypeError", "param_groups[%d] must stay a table", i + 1);
        struct optim_options options = read_optim_options(L, optimizer_kind(optimizer), lua_gettop(L),
                                                          *optimizer_options(optimizer, i));
        optimizer_set_options(optimizer, i, &options);
        lua_pop(L, 1);
    }
    lua_pop(L, 1);
}

/* The parameters at the top of the stack and `options` become a group of the box at `index`. */
static void
add_group(lua_State *L, int index, const struct optim_options *options)
{
    struct task      *me        = script_task(L);
    struct optimizer *optimizer = box_check(L, index, BOX_OPTIMIZER);
    int               count     = 0;
    struct tensor   **params    = check_tensors(L, lua_gettop(L), &count);
    struct call       call      = call_open(L, me, CALL_PLAIN);
    call_done(&call, optimizer_add_group(me, optimizer, params, count, options));
    push_param_groups(L, index);
    lua_createtable(L, 0, 8);
    write_optim_options(L, -1, optimizer_kind(optimizer), options);
    lua_createtable(L, count, 0);
    for (int i = 0; i < count; i++) {
        push_tensor(L, params[i]);
        lua_rawseti(L, -2, i + 1);
    }
    lua_setfield(L, -2, "params");
    lua_rawseti(L, -2, optimizer_groups(optimizer));
    lua_pop(L, 3); /* the groups, what check_tensors left, the parameters */
}

/* A table like {params = {...}, lr = 0.1} at the top of the stack. */
static void
add_table_group(lua_State *L, int index, enum optim_kind kind, const struct optim_options *defaults)
{
    int table = lua_gettop(L);
    if (!is_plain_table(L, table))
        raise_error(L, "TypeError", "a parameter group is a table: {params = {...}, lr = 0.1}");
    option_known(L, table, known_options[kind]);
    struct optim_options options = read_optim_options(L, kind, table, *defaults);
    if (isnan(options.lr))
        raise_error(L, "ValueError", "parameter group didn't specify a value of required optimization parameter lr");
    if (!option_push(L, table, "params"))
        raise_error(L, "TypeError", "a parameter group is a table: {params = {...}, lr = 0.1}");
    add_group(L, index, &options);
    lua_settop(L, table);
}

/* Is argument 1 a list of groups? */
static bool
lists_groups(lua_State *L)
{
    if (!lua_istable(L, 1) || lua_rawgeti(L, 1, 1) != LUA_TTABLE) {
        lua_settop(L, 2);
        return false;
    }
    lua_getfield(L, -1, "params");
    bool groups = !lua_isnil(L, -1);
    lua_settop(L, 2);
    return groups;
}

/* ---- making ---- */

static int
make(lua_State *L, enum optim_kind kind)
{
    struct task *me = script_task(L);
    lua_settop(L, 2);
    int table = option_table(L, 2);
    option_known(L, table, known_options[kind]);
    if (!lua_istable(L, 1) && test_tensor(L, 1) == NULL)
        arg_error(L, 1, "a list of tensors");
    bool                 groups   = lists_groups(L);
    struct optim_options defaults = read_optim_options(L, kind, table, optim_defaults(kind));
    if (isnan(defaults.lr) && !groups)
        raise_error(L, "TypeError", "SGD needs a learning rate: optim.SGD(params, {lr = 0.1})");
    box_push(L, BOX_OPTIMIZER, 2);
    struct call       call      = call_open(L, me, CALL_PLAIN);
    struct optimizer *optimizer = optimizer_new(me, kind);
    call_done(&call, optimizer != NULL);
    box_fill(L, optimizer, drop_optimizer, false);
    lua_newtable(L);
    lua_setiuservalue(L, 3, 1);
    lua_newtable(L);
    write_optim_options(L, -1, kind, &defaults);
    lua_setiuservalue(L, 3, 2);
    int count = groups ? (int)lua_rawlen(L, 1) : 1;
    for (int i = 0; i < count; i++) {
        if (groups)
            lua_rawgeti(L, 1, i + 1);
        else
            lua_pushvalue(L, 1);
        if (groups)
            add_table_group(L, 3, kind, &defaults);
        else
            add_group(L, 3, &defaults);
        lua_settop(L, 3);
    }
    return 1;
}

/* optim.SGD(params, {lr = 0.1, momentum = 0, dampening = 0, weight_decay = 0, nesterov = false, maximize = false}) */
static int
sgd(lua_State *L)
{
    return make(L, OPTIM_SGD);
}

static int
adam(lua_State *L)
{
    return make(L, OPTIM_ADAM);
}

static int
adamw(lua_State *L)
{
    return make(L, OPTIM_ADAMW);
}

static int
add_param_group(lua_State *L)
{
    struct optimizer *optimizer = box_check(L, 1, BOX_OPTIMIZER);
    enum optim_kind   kind      = optimizer_kind(optimizer);
    check_table(L, 2);
    lua_settop(L, 2);
    lua_getiuservalue(L, 1, 2);
    struct optim_options defaults = read_optim_options(L, kind, 3, optim_defaults(kind));
    lua_pushvalue(L, 2);
    add_table_group(L, 1, kind, &defaults);
    return 0;
}

/* ---- methods ---- */

/* opt:step(), or opt:step(closure): the closure is called first, its loss is answered. */
static int
optimizer_step_closure(lua_State *L)
{
    struct optimizer *optimizer = box_check(L, 1, BOX_OPTIMIZER);
    bool              closure   = !lua_isnoneornil(L, 2);
    lua_settop(L, 2);
    if (closure) {
        check_function(L, 2);
        lua_call(L, 0, 1);
        lua_settop(L, 2);
    }
    apply_param_groups(L, 1);
    struct task *me   = script_task(L);
    struct call  call = call_open(L, me, CALL_PLAIN);
    call_done(&call, optimizer_step(me, optimizer));
    return closure ? 1 : 0;
}

/* A counted point of collection: the graph of the step before is dead. */
static int
optimizer_zero(lua_State *L)
{
    struct task      *me        = script_task(L);
    struct optimizer *optimizer = box_check(L, 1, BOX_OPTIMIZER);
    bool              none      = flag_or_option(L, 2, "set_to_none");
    struct call       call      = call_open(L, me, CALL_PLAIN);
    call_done(&call, optimizer_zero_grad(me, optimizer, none));
    script_collect_if_due(L, me);
    return 0;
}

/* Upvalue 1: the methods. */
static int
optimizer_index(lua_State *L)
{
    box_check(L, 1, BOX_OPTIMIZER);
    const char *name = lua_type(L, 2) == LUA_TSTRING ? lua_tostring(L, 2) : "";
    if (strcmp(name, "param_groups") == 0 || strcmp(name, "defaults") == 0) {
        lua_getiuservalue(L, 1, name[0] == 'p' ? 1 : 2);
        return 1;
    }
    if (strcmp(name, "state") == 0)
        return push_optim_state(L, 1);
    lua_pushvalue(L, 2);
    if (shelf_get(L, lua_upvalueindex(1)) == LUA_TNIL && lua_type(L, 2) == LUA_TSTRING)
        return no_attribute(L, "an optimizer", name, lua_upvalueindex(1), "param_groups defaults state");
    return 1;
}

static int
optimizer_tostring(lua_State *L)
{
    struct optimizer *optimizer = box_check(L, 1, BOX_OPTIMIZER);
    push_param_groups(L, 1);
    lua_rawgeti(L, -1, 1);
    struct optim_options first = { 0 };
    if (lua_istable(L, -1))
        first = read_optim_options(L, optimizer_kind(optimizer), lua_gettop(L), first);
    lua_pushfstring(L, "%s(groups: %d, parameters: %d, lr: %f)", optim_name(optimizer_kind(optimizer)),
                    optimizer_groups(optimizer), optimizer_count(optimizer), first.lr);
    return 1;
}

static const struct lua_entry methods[] = {
    { "step", optimizer_step_closure, "opt:step(closure)", "changes every parameter that has a gradient" },
    { "zero_grad", optimizer_zero, "opt:zero_grad{set_to_none = false}", "gradients become zeros, or none" },
    { "add_param_group", add_param_group, "opt:add_param_group{params = {...}, lr}",
      "more parameters, with options of their own" },
    { "state_dict", optim_state_dict, "opt:state_dict()", "state by number of the parameter (from 0), and the groups" },
    { "load_state_dict", optim_load_state_dict, "opt:load_state_dict(dict)", "copies such a table in" },
};
static const struct lua_entry entries[] = {
    { "SGD", sgd, "optim.SGD(params, {lr, momentum, dampening, weight_decay, nesterov, maximize})",
      "gradient descent; opt.param_groups[1].lr may be changed" },
    { "Adam", adam, "optim.Adam(params, {lr = 0.001, betas = {0.9, 0.999}, eps, weight_decay, amsgrad, maximize})",
      "steps by the gradient's running mean over its running size" },
    { "AdamW", adamw, "optim.AdamW(params, {lr = 0.001, betas, eps, weight_decay = 0.01, amsgrad, maximize})",
      "Adam whose weights decay by themselves" },
};

void
lua_open_optim(lua_State *L)
{
    box_class(L, BOX_OPTIMIZER, methods, countof(methods));
    lua_getfield(L, -1, "__index");
    lua_pushcclosure(L, optimizer_index, 1);
    lua_setfield(L, -2, "__index");
    lua_pushcfunction(L, optimizer_tostring);
    lua_setfield(L, -2, "__tostring");
    lua_pop(L, 1);
    fill_namespace(L, "optim", entries, countof(entries));
    lua_open_lr_scheduler(L);
    lua_open_clip(L);
}
