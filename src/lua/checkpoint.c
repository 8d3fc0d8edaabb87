/* rs.utils.checkpoint: the engine's checkpoint around a function of the lesson's, with its arguments as Lua has them.
 * A trailing table that has one of the options' names holds options; everything before it goes to the function. */
#include "lua/internal.h"
#include <stdlib.h>
#include <string.h>
#include "autograd/checkpoint.h"
#include "autograd/node.h"
#include "base/nearest.h"
#include "base/vec.h"
#include "sched/task.h"
#include "tensor/tensor.h"

enum { SLIPS = 2 /* letters by which a misspelt option differs */ };
static const char OPTIONS[] = "use_reentrant preserve_rng_state determinism_check early_stop";

/* The function and its arguments, tensors among them left out. result: a table of what the function's own call
 * answered, n of them; NULL while it is called again. */
struct called {
    struct script_object *function, *arguments;
    struct script_object *result;
    int                   count;
    bool                  is_own_call;
};

static void
called_drop(struct task *me, void *context)
{
    struct called *called = context;
    object_free(me, called->function);
    object_free(me, called->arguments);
    object_free(me, called->result);
    free(called);
}

/* ---- into Lua ---- */

struct calling { struct called *called; const struct passed *inputs; struct passed *outputs; };

static int
call_body(lua_State *L)
{
    struct calling *calling = lua_touserdata(L, 1);
    struct called  *called  = calling->called;
    struct task    *me      = script_of(L)->holder;
    bool            is_own  = called->is_own_call; /* the first, and not one that a backward inside of it makes */
    called->is_own_call     = false;
    stack_room(L, called->count + 20);
    object_push(L, called->arguments);
    object_push(L, called->function);
    for (int i = 0; i < called->count; i++)
        if (calling->inputs->at[i] != NULL)
            push_tensor(L, calling->inputs->at[i]);
        else
            lua_rawgeti(L, 2, i + 1);
    lua_call(L, called->count, LUA_MULTRET);
    int results = lua_gettop(L) - 2;
    luaL_checkstack(L, 10, "too many results");
    for (int i = 0; i < results; i++)
        if (!passed_add(me, calling->outputs, test_tensor(L, 3 + i)))
            return 0; /* script_call's caller sees that me has failed */
    if (!is_own)
        return 0;
    lua_createtable(L, results, 1);
    for (int i = 0; i < results; i++) {
        lua_pushvalue(L, 3 + i);
        lua_rawseti(L, -2, i + 1);
    }
    set_integer(L, -1, "n", results);
    called->result = object_new(L, me, -1, NULL);
    return 0;
}

static bool
run_function(struct task *me, void *context, const struct passed *inputs, struct passed *outputs)
{
    struct called *called  = context;
    struct calling calling = { called, inputs, outputs };
    if (!object_open(called->function))
        return failed(me, E_RUNTIME, "the script of the checkpointed function has ended");
    return script_visit(me, called->function->script, call_body, &calling) && !task_failed(me);
}

/* ---- arguments ---- */

static bool
is_callable(lua_State *L, int index)
{
    if (lua_isfunction(L, index) || test_module(L, index) != NULL)
        return true;
    bool called = luaL_getmetafield(L, index, "__call") != LUA_TNIL;
    lua_pop(L, called ? 1 : 0);
    return called;
}

/* A misspelt one, too: what it says would go to the function, which may never look at it. Two letters and no more, as
 * a function may have an argument such as { context = c }. */
static bool
resembles_option(const char *name)
{
    char names[sizeof OPTIONS], *rest = NULL;
    snprintf(names, sizeof names, "%s", OPTIONS);
    for (char *option = strtok_r(names, " ", &rest); option != NULL; option = strtok_r(NULL, " ", &rest))
        if (word_distance(name, option) <= SLIPS)
            return true;
    return false;
}

/* The last argument, if it is a table with an option's name; it is left where it is. 0: there is none. */
static int
trailing_options(lua_State *L, int first)
{
    int  last  = lua_gettop(L);
    bool found = false;
    if (last < first || !is_plain_table(L, last))
        return 0;
    for (lua_pushnil(L); lua_next(L, last) != 0; lua_pop(L, 1))
        found |= lua_type(L, -2) == LUA_TSTRING && resembles_option(lua_tostring(L, -2));
    if (!found)
        return 0;
    option_known(L, last, OPTIONS);
    return last;
}

static bool
wants_reentrant(lua_State *L, int options, const char *function)
{
    if (option_push(L, options, "use_reentrant")) {
        bool wanted = check_flag(L, -1);
        lua_pop(L, 1);
        return wanted;
    }
    lua_pushfstring(L, "torch.utils.checkpoint%s: the use_reentrant parameter should be passed explicitly: "
                    "{use_reentrant = false} is recommended, {use_reentrant = true} is the default", function);
    lesson_warn(L, lua_tostring(L, -1));
    lua_pop(L, 1);
    return true;
}

static struct checkpointed
check_options(lua_State *L, int options, const char *function)
{
    struct checkpointed what  = { .run = run_function, .drop = called_drop };
    const char         *check = option_text(L, options, "determinism_check", "default");
    what.reentrant  = wants_reentrant(L, options, function);
    what.keep_rng   = option_bool(L, options, "preserve_rng_state", true);
    what.early_stop = option_bool(L, options, "early_stop", true);
    what.check      = strcmp(check, "default") == 0;
    if (!what.reentrant && !what.check && strcmp(check, "none") != 0)
        raise_error(L, "ValueError", "determinism_check should be one of 'default', 'none', but got '%s'", check);
    return what;
}

/* The arguments from `first` on: their tensors in a list, all else in a table. */
static struct called *
called_new(lua_State *L, struct task *me, int function, int count, struct passed *inputs)
{
    struct called *called = calloc(1, sizeof *called);
    bool           ok     = called != NULL || failed(me, E_MEMORY, "out of memory");
    lua_createtable(L, count, 0);
    for (int i = 0; i < count && ok; i++) {
        struct tensor *tensor = test_tensor(L, function + 1 + i);
        ok = passed_add(me, inputs, tensor);
        if (tensor == NULL) {
            lua_pushvalue(L, function + 1 + i);
            lua_rawseti(L, -2, i + 1);
        }
    }
    if (ok) {
        *called = (struct called){ .function = object_new(L, me, function, NULL), .count = count, .is_own_call = true,
                                   .arguments = object_new(L, me, -1, NULL) };
        ok = called->function != NULL && called->arguments != NULL;
    }
    lua_pop(L, 1);
    if (ok)
        return called;
    if (called != NULL)
        called_drop(me, called);
    return NULL;
}

static void
warn_of_inputs(lua_State *L, const struct passed *inputs)
{
    bool any = false;
    for (int i = 0; i < inputs->count; i++)
        any = any || (inputs->at[i] != NULL && (inputs->at[i]->requires_grad || inputs->at[i]->grad_fn != NULL));
    if (!any)
        lesson_warn(L, "None of the inputs have requires_grad=True. Gradients will be None");
}

static void
passed_drop(struct task *me, void *list)
{
    passed_clear(me, list);
}

static void
checkpoint_drop(struct task *me, void *checkpoint)
{
    checkpoint_unref(me, checkpoint);
}

/* What the function answered, with the tensors that stand for its own. */
static int
push_results_of(lua_State *L, struct called *called, const struct passed *outputs)
{
    int table = lua_gettop(L) + 1;
    object_push(L, called->result);
    luaL_checkstack(L, outputs->count + 10, "too many results");
    for (int i = 0; i < outputs->count; i++)
        if (outputs->at[i] != NULL)
            push_tensor(L, outputs->at[i]);
        else
            lua_rawgeti(L, table, i + 1);
    lua_remove(L, table);
    return outputs->count;
}

/* On the stack: the function at `function`, then `count` arguments. The lists live in userdata: Lua may raise. */
static int
checkpointed_call(lua_State *L, int function, int count, struct checkpointed *what)
{
    struct task   *me      = script_task(L);
    struct passed *inputs  = lua_newuserdatauv(L, sizeof *inputs, 0);
    struct passed *outputs = lua_newuserdatauv(L, sizeof *outputs, 0);
    size_t         mark    = scope_mark(me);
    *inputs = *outputs = (struct passed){ 0 };
    struct called *called = called_new(L, me, function, count, inputs);
    born(me, inputs, passed_drop);
    born(me, outputs, passed_drop);
    if (what->reentrant)
        warn_of_inputs(L, inputs);
    what->context                 = called;
    struct checkpoint *checkpoint = called != NULL ? checkpoint_new(me, what) : NULL;
    if (called != NULL && checkpoint == NULL)
        called_drop(me, called);
    born(me, checkpoint, checkpoint_drop);
    struct call call = call_open(L, me, CALL_BACK);
    call.mark        = mark;
    bool ok          = checkpoint != NULL && checkpoint_forward(me, checkpoint, inputs, outputs);
    call_end(&call, ok);
    int results = push_results_of(L, called, outputs);
    object_free(me, called->result);
    called->result = NULL;
    return call_leave(&call, results);
}

static int checkpoint(lua_State *L);

/* Upvalues: the function, the options. */
static int
call_wrapped(lua_State *L)
{
    lua_pushvalue(L, lua_upvalueindex(1));
    lua_insert(L, 1);
    lua_pushvalue(L, lua_upvalueindex(2));
    return checkpoint(L);
}

/* Upvalue 1: the options. */
static int
wrap_function(lua_State *L)
{
    if (!is_callable(L, 1))
        arg_error(L, 1, "a function or a module");
    lua_settop(L, 1);
    lua_pushvalue(L, lua_upvalueindex(1));
    lua_pushcclosure(L, call_wrapped, 2);
    return 1;
}

/* With options alone it answers a function that wraps others: checkpoint{use_reentrant = false}(f)(...). */
static int
checkpoint(lua_State *L)
{
    if (lua_gettop(L) == 1 && trailing_options(L, 1) == 1) {
        lua_pushcclosure(L, wrap_function, 1);
        return 1;
    }
    if (!is_callable(L, 1))
        arg_error(L, 1, "a function or a module");
    int                 options = trailing_options(L, 2);
    struct checkpointed what    = check_options(L, options, "");
    int                 count   = lua_gettop(L) - 1 - (options != 0);
    if (what.reentrant && count > 0 && has_class(L, 1 + count, "ringside.kw"))
        raise_error(L, "ValueError", "Unexpected keyword arguments: with use_reentrant = true all arguments are "
                    "positional");
    return checkpointed_call(L, 1, count, &what);
}

/* ---- checkpoint_sequential ---- */

/* Upvalues: the list of functions, the first and the last of them. */
static int
run_segment(lua_State *L)
{
    lua_Integer last = lua_tointeger(L, lua_upvalueindex(3));
    lua_settop(L, 1);
    for (lua_Integer i = lua_tointeger(L, lua_upvalueindex(2)); i <= last; i++) {
        lua_rawgeti(L, lua_upvalueindex(1), i);
        lua_insert(L, 1);
        lua_call(L, 1, 1);
    }
    return 1;
}

static void
push_segment(lua_State *L, int list, lua_Integer first, lua_Integer last)
{
    lua_pushvalue(L, list);
    lua_pushinteger(L, first);
    lua_pushinteger(L, last);
    lua_pushcclosure(L, run_segment, 3);
}

/* The children of a Sequential, or the list as it is; at the top of the stack. Answers how many. */
static lua_Integer
push_functions(lua_State *L)
{
    struct module *module = test_module(L, 1);
    if (module == NULL) {
        check_table(L, 1);
        lua_pushvalue(L, 1);
        return (lua_Integer)lua_rawlen(L, 1);
    }
    lua_createtable(L, module->children.count, 0);
    for (int i = 0; i < module->children.count; i++) {
        push_module(L, module->children.entries[i].module);
        lua_rawseti(L, -2, i + 1);
    }
    return module->children.count;
}

/* Every segment but the last is checkpointed. */
static int
checkpoint_sequential(lua_State *L)
{
    int64_t segments = check_integer(L, 2);
    int     options  = option_table(L, 4);
    lua_settop(L, 4);
    option_known(L, options, "use_reentrant preserve_rng_state");
    struct checkpointed what  = check_options(L, options, ".checkpoint_sequential");
    lua_Integer         count = push_functions(L), first = 1;
    if (segments < 1 || segments > count)
        raise_error(L, "ValueError", "checkpoint_sequential: %lld functions cannot be cut into %lld segments",
                    (long long)count, (long long)segments);
    lua_Integer size = count / segments;
    for (int64_t i = 0; i + 1 < segments; i++, first += size) {
        push_segment(L, 5, first, first + size - 1);
        lua_pushvalue(L, 3);
        checkpointed_call(L, 6, 1, &what);
        lua_replace(L, 3);
        lua_settop(L, 5);
    }
    push_segment(L, 5, first, count);
    lua_pushvalue(L, 3);
    lua_call(L, 1, 1);
    return 1;
}

/* The namespace itself is called as its function. */
static int
call_namespace(lua_State *L)
{
    lua_remove(L, 1);
    return checkpoint(L);
}

static const struct lua_entry entries[] = {
    { "checkpoint", checkpoint,
      "rs.utils.checkpoint.checkpoint(f, ..., {use_reentrant, preserve_rng_state, determinism_check, early_stop})",
      "f(...), of which nothing is kept for the backward: that calls f again; options alone make a wrapper of "
      "functions" },
    { "checkpoint_sequential", checkpoint_sequential,
      "rs.utils.checkpoint.checkpoint_sequential(functions, segments, input, {use_reentrant, preserve_rng_state})",
      "a Sequential or a list in segments, all but the last one checkpointed" },
};

void
lua_open_checkpoint(lua_State *L)
{
    open_namespace(L, "utils.checkpoint", entries, countof(entries));
    if (lua_getmetatable(L, -1)) {
        lua_pushcfunction(L, call_namespace);
        lua_setfield(L, -2, "__call");
        lua_pop(L, 1);
    }
    lua_pop(L, 1);
}
