/* optim.SGD, Adam, AdamW, Adagrad and SparseAdam in Lua: opt:step(), opt:zero_grad(), opt.param_groups[1].lr. A group
 * is a plain table that the lesson (and a scheduler) may change; step reads what stands there. User value 1 of a box:
 * the groups, 2: the defaults for groups that come later. */
#include "lua/optim.h"
#include <stdio.h>
#include <string.h>
#include "base/str.h"
#include "base/vec.h"
#include "lua/shelf.h"
#include "sched/task.h"

/* foreach, fused and capturable say how PyTorch's loops are written: they are kept, and mean nothing here. */
#define KNOWN_ALL   "lr weight_decay maximize foreach differentiable fused initial_lr params "
#define KNOWN_SGD   KNOWN_ALL "momentum dampening nesterov"
#define KNOWN_ADAMW KNOWN_ALL "betas eps amsgrad capturable"
#define KNOWN_ADAM  KNOWN_ADAMW " decoupled_weight_decay"
#define KNOWN_ADAGRAD KNOWN_ALL "lr_decay initial_accumulator_value eps"
#define KNOWN_SPARSE  "lr betas eps maximize initial_lr params"

static const char *const known_options[OPTIM_KINDS] = {
    [OPTIM_SGD] = KNOWN_SGD, [OPTIM_ADAM] = KNOWN_ADAM, [OPTIM_ADAMW] = KNOWN_ADAMW,
    [OPTIM_ADAGRAD] = KNOWN_ADAGRAD, [OPTIM_SPARSE_ADAM] = KNOWN_SPARSE,
};
static const char *const known_in_group[OPTIM_KINDS] = {
    [OPTIM_SGD] = KNOWN_SGD, [OPTIM_ADAM] = KNOWN_ADAM, [OPTIM_ADAMW] = KNOWN_ADAM,
    [OPTIM_ADAGRAD] = KNOWN_ADAGRAD, [OPTIM_SPARSE_ADAM] = KNOWN_SPARSE,
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

static void
check_loop_options(lua_State *L, int table)
{
    bool foreach = option_bool(L, table, "foreach", false), fused = option_bool(L, table, "fused", false);
    option_bool(L, table, "capturable", false);
    if (option_bool(L, table, "differentiable", false))
        raise_error(L, "NotImplementedError", "differentiable optimizers are not here: a step records no gradients");
    if (foreach && fused)
        raise_error(L, "RuntimeError", "`fused` and `foreach` cannot be `True` together.");
}

/* Fields of the table at `table` over `otherwise`. Raises TypeError for what is no number or flag. */
static struct optim_options
read_optim_options(lua_State *L, enum optim_kind kind, int table, struct optim_options otherwise)
{
    struct optim_options options = otherwise;
    check_loop_options(L, table);
    options.lr           = option_number(L, table, "lr", otherwise.lr);
    options.weight_decay = option_number(L, table, "weight_decay", otherwise.weight_decay);
    options.maximize     = option_bool(L, table, "maximize", otherwise.maximize);
    if (kind == OPTIM_SGD) {
        options.momentum  = option_number(L, table, "momentum", otherwise.momentum);
        options.dampening = option_number(L, table, "dampening", otherwise.dampening);
        options.nesterov  = option_bool(L, table, "nesterov", otherwise.nesterov);
        return options;
    }
    options.eps = option_number(L, table, "eps", otherwise.eps);
    if (kind == OPTIM_ADAGRAD) {
        options.lr_decay = option_number(L, table, "lr_decay", otherwise.lr_decay);
        options.initial_accumulator_value =
            option_number(L, table, "initial_accumulator_value", otherwise.initial_accumulator_value);
        return options;
    }
    read_betas(L, table, &options);
    options.amsgrad = option_bool(L, table, "amsgrad", otherwise.amsgrad);
    options.decoupled_weight_decay =
        option_bool(L, table, "decoupled_weight_decay", otherwise.decoupled_weight_decay);
    return options;
}

static void
set_betas(lua_State *L, const struct optim_options *defaults)
{
    lua_createtable(L, 2, 0);
    lua_pushnumber(L, defaults->beta1);
    lua_rawseti(L, -2, 1);
    lua_pushnumber(L, defaults->beta2);
    lua_rawseti(L, -2, 2);
    lua_setfield(L, -2, "betas");
}

/* A table of what is taken where nothing is said; what is 0 is an integer, as in PyTorch's signatures. */
static void
push_optim_defaults(lua_State *L, enum optim_kind kind)
{
    struct optim_options defaults = optim_defaults(kind);
    lua_createtable(L, 0, 12);
    set_number(L, -1, "lr", defaults.lr);
    set_flag(L, -1, "maximize", false);
    if (kind != OPTIM_SGD)
        set_number(L, -1, "eps", defaults.eps);
    if (kind != OPTIM_SGD && kind != OPTIM_ADAGRAD)
        set_betas(L, &defaults);
    if (kind == OPTIM_SPARSE_ADAM)
        return;
    if (defaults.weight_decay != 0)
        set_number(L, -1, "weight_decay", defaults.weight_decay);
    else
        set_integer(L, -1, "weight_decay", 0);
    set_flag(L, -1, "differentiable", false);
    if (kind == OPTIM_SGD) {
        set_integer(L, -1, "momentum", 0);
        set_integer(L, -1, "dampening", 0);
        set_flag(L, -1, "nesterov", false);
    } else if (kind == OPTIM_ADAGRAD) {
        set_integer(L, -1, "lr_decay", 0);
        set_integer(L, -1, "initial_accumulator_value", 0);
    } else {
        set_flag(L, -1, "amsgrad", false);
        set_flag(L, -1, "capturable", false);
        set_flag(L, -1, "decoupled_weight_decay", defaults.decoupled_weight_decay);
    }
}

void
copy_optim_options(lua_State *L, int from)
{
    int to = lua_gettop(L);
    for (lua_pushnil(L); from != 0 && lua_next(L, from) != 0;) {
        bool text = lua_type(L, -2) == LUA_TSTRING;
        if (text && strcmp(lua_tostring(L, -2), "params") == 0) {
            lua_pop(L, 1);
            continue;
        }
        if (text && strcmp(lua_tostring(L, -2), "betas") == 0 && lua_istable(L, -1)) {
            lua_createtable(L, 2, 0);
            for (int i = 1; i <= 2; i++) {
                lua_rawgeti(L, -2, i);
                lua_rawseti(L, -2, i);
            }
            lua_remove(L, -2);
        }
        lua_pushvalue(L, -2);
        lua_insert(L, -2);
        lua_rawset(L, to);
    }
    lua_settop(L, to);
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

/* The parameters at the top of the stack become a group of the box at `index`, with what the table at `given` (0: none)
 * says over the optimizer's defaults. */
static void
add_group(lua_State *L, int index, int given)
{
    struct task      *me        = script_task(L);
    struct optimizer *optimizer = box_check(L, index, BOX_OPTIMIZER);
    enum optim_kind   kind      = optimizer_kind(optimizer);
    int               params_at = lua_gettop(L), count = 0;
    lua_newtable(L);
    int group = lua_gettop(L);
    lua_getiuservalue(L, index, 2);
    lua_insert(L, group);
    copy_optim_options(L, group++);
    copy_optim_options(L, given);
    struct optim_options options = read_optim_options(L, kind, group, optim_defaults(kind));
    struct tensor      **params  = check_tensors(L, params_at, &count);
    struct call          call    = call_open(L, me, CALL_PLAIN);
    call_done(&call, optimizer_add_group(me, optimizer, params, count, &options));
    lua_createtable(L, count, 0);
    for (int i = 0; i < count; i++) {
        push_tensor(L, params[i]);
        lua_rawseti(L, -2, i + 1);
    }
    lua_setfield(L, group, "params");
    push_param_groups(L, index);
    lua_pushvalue(L, group);
    lua_rawseti(L, -2, optimizer_groups(optimizer));
    lua_settop(L, params_at - 1);
}

/* A table like {params = {...}, lr = 0.1} at the top of the stack. */
static void
add_table_group(lua_State *L, int index, enum optim_kind kind)
{
    int table = lua_gettop(L);
    if (!is_plain_table(L, table))
        raise_error(L, "TypeError", "a parameter group is a table: {params = {...}, lr = 0.1}");
    option_known(L, table, known_in_group[kind]);
    if (!option_push(L, table, "params"))
        raise_error(L, "KeyError", "'params': a parameter group is a table: {params = {...}, lr = 0.1}");
    add_group(L, index, table);
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
    int first = lua_gettop(L);
    lua_getfield(L, first, "params");
    bool groups = !lua_isnil(L, -1);
    lua_pushnil(L);
    groups = groups || (lua_next(L, first) != 0 && lua_rawlen(L, first) == 0);
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
    bool groups = lists_groups(L);
    box_push(L, BOX_OPTIMIZER, 2);
    struct call       call      = call_open(L, me, CALL_PLAIN);
    struct optimizer *optimizer = optimizer_new(me, kind);
    call_done(&call, optimizer != NULL);
    box_fill(L, optimizer, drop_optimizer, false);
    lua_newtable(L);
    lua_setiuservalue(L, 3, 1);
    push_optim_defaults(L, kind);
    copy_optim_options(L, table);
    read_optim_options(L, kind, lua_gettop(L), optim_defaults(kind));
    lua_setiuservalue(L, 3, 2);
    int count = groups ? (int)lua_rawlen(L, 1) : 1;
    for (int i = 0; i < count; i++) {
        if (groups) {
            lua_rawgeti(L, 1, i + 1);
            add_table_group(L, 3, kind);
        } else {
            lua_pushvalue(L, 1);
            add_group(L, 3, 0);
        }
        lua_settop(L, 3);
    }
    return 1;
}

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
adagrad(lua_State *L)
{
    return make(L, OPTIM_ADAGRAD);
}

static int
sparse_adam(lua_State *L)
{
    return make(L, OPTIM_SPARSE_ADAM);
}

int
optim_kind_of(lua_State *L, int index)
{
    static const lua_CFunction makers[OPTIM_KINDS] = { [OPTIM_SGD] = sgd, [OPTIM_ADAM] = adam, [OPTIM_ADAMW] = adamw,
                                                       [OPTIM_ADAGRAD] = adagrad, [OPTIM_SPARSE_ADAM] = sparse_adam };
    for (int kind = 0; kind < OPTIM_KINDS; kind++)
        if (lua_tocfunction(L, index) == makers[kind])
            return kind;
    return -1;
}

struct optim_options
check_optim_options(lua_State *L, enum optim_kind kind, int table)
{
    option_known(L, table, known_options[kind]);
    return read_optim_options(L, kind, table, optim_defaults(kind));
}

static int
add_param_group(lua_State *L)
{
    struct optimizer *optimizer = box_check(L, 1, BOX_OPTIMIZER);
    enum optim_kind   kind      = optimizer_kind(optimizer);
    check_table(L, 2);
    lua_settop(L, 2);
    add_table_group(L, 1, kind);
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
    bool              none      = flag_or_option(L, 2, "set_to_none", true);
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

enum { OPTION_TEXT = 2 * FLOAT_TEXT + 8 };

static void
betas_text(lua_State *L, char text[OPTION_TEXT])
{
    char first[FLOAT_TEXT], second[FLOAT_TEXT];
    lua_rawgeti(L, -1, 1);
    lua_rawgeti(L, -2, 2);
    float_text(lua_tonumber(L, -2), first);
    float_text(lua_tonumber(L, -1), second);
    snprintf(text, OPTION_TEXT, "(%s, %s)", first, second);
    lua_pop(L, 2);
}

/* None, True, 0.1, (0.9, 0.999): the value at the top of the stack, which it takes. */
static void
option_value_text(lua_State *L, char text[OPTION_TEXT])
{
    strcpy(text, "None");
    if (lua_istable(L, -1))
        betas_text(L, text);
    else if (lua_isboolean(L, -1))
        strcpy(text, lua_toboolean(L, -1) ? "True" : "False");
    else if (lua_isinteger(L, -1))
        snprintf(text, OPTION_TEXT, "%lld", (long long)lua_tointeger(L, -1));
    else if (lua_type(L, -1) == LUA_TNUMBER)
        float_text(lua_tonumber(L, -1), text);
    lua_pop(L, 1);
}

static void
add_group_text(lua_State *L, luaL_Buffer *out, int group, enum optim_kind kind)
{
    enum { SGD = 1 << OPTIM_SGD, ADAMS = 1 << OPTIM_ADAM | 1 << OPTIM_ADAMW, ADAGRAD = 1 << OPTIM_ADAGRAD,
           SPARSE = 1 << OPTIM_SPARSE_ADAM, DENSE = SGD | ADAMS | ADAGRAD };
    static const struct { const char *name; unsigned kinds; bool if_there; } keys[] = { /* as Python sorts them */
        { "amsgrad", ADAMS, false },          { "betas", ADAMS | SPARSE, false },
        { "capturable", ADAMS, false },       { "dampening", SGD, false },
        { "decoupled_weight_decay", ADAMS, false },
        { "differentiable", DENSE, false },   { "eps", ADAMS | ADAGRAD | SPARSE, false },
        { "foreach", DENSE, false },          { "fused", DENSE, false },
        { "initial_accumulator_value", ADAGRAD, false },
        { "initial_lr", DENSE | SPARSE, true }, { "lr", DENSE | SPARSE, false },
        { "lr_decay", ADAGRAD, false },       { "maximize", DENSE | SPARSE, false },
        { "momentum", SGD, false },           { "nesterov", SGD, false },
        { "weight_decay", DENSE, false },
    };
    char text[OPTION_TEXT];
    for (size_t i = 0; i < countof(keys); i++) {
        bool there = lua_getfield(L, group, keys[i].name) != LUA_TNIL;
        option_value_text(L, text);
        if (!(keys[i].kinds >> kind & 1) || (!there && keys[i].if_there))
            continue;
        luaL_addstring(out, "    ");
        luaL_addstring(out, keys[i].name);
        luaL_addstring(out, ": ");
        luaL_addstring(out, text);
        luaL_addstring(out, "\n");
    }
}

/* PyTorch's: a line for each option of each group, in the order of the alphabet. */
static int
optimizer_tostring(lua_State *L)
{
    struct optimizer *optimizer = box_check(L, 1, BOX_OPTIMIZER);
    enum optim_kind   kind      = optimizer_kind(optimizer);
    luaL_Buffer       out;
    lua_settop(L, 1);
    push_param_groups(L, 1);
    lua_createtable(L, 0, 0); /* where the group's table stands, whatever the lesson left in the list */
    luaL_buffinit(L, &out);
    luaL_addstring(&out, optim_name(kind));
    luaL_addstring(&out, " (");
    for (int i = 0; i < optimizer_groups(optimizer); i++) {
        char head[48];
        if (lua_rawgeti(L, 2, i + 1) == LUA_TTABLE)
            lua_copy(L, -1, 3);
        lua_pop(L, 1);
        snprintf(head, sizeof head, "\nParameter Group %d\n", i);
        luaL_addstring(&out, head);
        add_group_text(L, &out, 3, kind);
    }
    luaL_addstring(&out, ")");
    luaL_pushresult(&out);
    return 1;
}

static const struct lua_entry methods[] = {
    { "step", optimizer_step_closure, "opt:step(closure)", "changes every parameter that has a gradient" },
    { "zero_grad", optimizer_zero, "opt:zero_grad{set_to_none = true}",
      "gradients become none, or zeros where that is false; before PyTorch 2.0 zeros was the default" },
    { "add_param_group", add_param_group, "opt:add_param_group{params = {...}, lr}",
      "more parameters, with options of their own" },
    { "state_dict", optim_state_dict, "opt:state_dict()", "state by number of the parameter (from 0), and the groups" },
    { "load_state_dict", optim_load_state_dict, "opt:load_state_dict(dict)", "copies such a table in" },
};
#define LOOPS "foreach, fused, differentiable"
static const struct lua_entry entries[] = {
    { "SGD", sgd, "optim.SGD(params, {lr = 0.001, momentum, dampening, weight_decay, nesterov, maximize, " LOOPS "})",
      "gradient descent; opt.param_groups[1].lr may be changed" },
    { "Adam", adam,
      "optim.Adam(params, {lr = 0.001, betas = {0.9, 0.999}, eps = 1e-8, weight_decay, amsgrad, maximize, capturable, "
      LOOPS ", decoupled_weight_decay})",
      "steps by the gradient's running mean over its running size" },
    { "AdamW", adamw,
      "optim.AdamW(params, {lr = 0.001, betas = {0.9, 0.999}, eps = 1e-8, weight_decay = 0.01, amsgrad, maximize, "
      "capturable, " LOOPS "})",
      "Adam whose weights decay by themselves: Adam with decoupled_weight_decay" },
    { "Adagrad", adagrad,
      "optim.Adagrad(params, {lr = 0.01, lr_decay, weight_decay, initial_accumulator_value, eps = 1e-10, maximize, "
      LOOPS "})",
      "steps by the gradient over the root of all its squares so far; of a sparse one only its rows" },
    { "SparseAdam", sparse_adam,
      "optim.SparseAdam(params, {lr = 0.001, betas = {0.9, 0.999}, eps = 1e-8, maximize})",
      "Adam for sparse gradients: means and parameters move where a row was looked up, and wait elsewhere" },
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
