/* Hooks of modules: register_forward_pre_hook(f(module, args)), register_forward_hook(f(module, args, output)),
 * register_full_backward_hook(f(module, grad_input, grad_output)). What they return, if anything, takes the place
 * of the arguments, the output, the input's gradients. A module's hooks are one Lua table of three lists, its replicas'
 * too. Who goes through a list goes through a copy: others may register and remove meanwhile.
 *
 * For backward hooks the tensors that go in and come out pass through a node each: the one behind hands the
 * gradients of the outputs over, the one before calls the hooks when those of the inputs are there. In PyTorch:
 * torch/utils/hooks.py. */
#include "lua/internal.h"
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include "autograd/call.h"
#include "autograd/engine.h"
#include "autograd/node.h"
#include "base/vec.h"
#include "nn/value.h"
#include "sched/task.h"

enum { MOST_TENSORS = 32 };

/* One forward with hooks; two nodes may hold it. */
struct hook_turn {
    atomic_int            references;
    struct script_object *backward;     /* the list of its backward hooks; NULL: none */
    struct module        *module;
    struct tensor        *grad_out[MOST_TENSORS];
    int                   out_count;
    bool                  has_inputs;   /* a node stands before the module */
};

static void
turn_drop(struct task *me, void *context)
{
    struct hook_turn *turn = context;
    if (atomic_fetch_sub(&turn->references, 1) != 1)
        return;
    for (int i = 0; i < turn->out_count; i++)
        tensor_drop(me, &turn->grad_out[i]);
    object_free(me, turn->backward);
    module_unref(me, turn->module);
    free(turn);
}

/* ---- in Lua: the lists are called in order of registration ---- */

/* Puts the hooks of that kind that are registered now in the place of the module's table at the top: a list. */
static void
copy_hook_list(lua_State *L, const char *kind)
{
    lua_getfield(L, -1, "next");
    int last = (int)lua_tointeger(L, -1), count = 0;
    lua_pop(L, 1);
    lua_getfield(L, -1, kind);
    lua_newtable(L);
    for (int i = 1; lua_istable(L, -2) && i <= last; i++) {
        if (lua_rawgeti(L, -2, i) == LUA_TFUNCTION)
            lua_rawseti(L, -2, ++count);
        else
            lua_pop(L, 1);
    }
    lua_replace(L, -3);
    lua_pop(L, 1);
}

struct hook_pass {
    struct script_object *table;                 /* forward hooks: the module's; backward hooks: the list */
    struct module        *module;
    struct value         *args, *result;         /* forward hooks; replaced */
    struct script_object *backward;              /* found before the forward; NULL: none */
    bool                  any;
    struct tensor *const *grad_out;
    struct tensor       **grads;                 /* backward hooks; replaced */
    int                   out_count, count;
};

static void
push_items(lua_State *L, const struct value *tuple)
{
    lua_createtable(L, tuple->count, 0);
    for (int i = 0; i < tuple->count; i++) {
        push_value(L, tuple->items[i]);
        lua_rawseti(L, -2, i + 1);
    }
}

/* What a pre-hook returned, as a tuple: a list stands for several arguments. */
static struct value *
arguments_at_top(lua_State *L, struct task *me)
{
    struct value *items[MOST_TENSORS];
    int           count = 1;
    bool          list  = is_plain_table(L, -1) && lua_rawlen(L, -1) > 0;
    if (list && (count = (int)lua_rawlen(L, -1)) > MOST_TENSORS)
        raise_error(L, "ValueError", "a pre-hook may return %d arguments at most", MOST_TENSORS);
    for (int i = 0; i < count; i++) {
        if (list)
            lua_rawgeti(L, -1, i + 1);
        else
            lua_pushvalue(L, -1);
        items[i] = value_from_lua(L, me, lua_gettop(L), true);
        lua_pop(L, 1);
        if (items[i] == NULL)
            raise(L, me);
    }
    struct value *tuple = value_tuple(me, count, items);
    if (tuple == NULL)
        raise(L, me);
    return tuple;
}

/* The list at 2, called one by one. */
static void
call_forward_hooks(lua_State *L, struct hook_pass *pass)
{
    struct task *me    = script_of(L)->holder;
    bool         after = pass->result != NULL;
    lua_Integer  count = (lua_Integer)lua_rawlen(L, 2);
    for (lua_Integer i = 1; i <= count; i++) {
        lua_rawgeti(L, 2, i);
        push_module(L, pass->module);
        push_items(L, pass->args);
        if (after)
            push_value(L, pass->result);
        lua_call(L, after ? 3 : 2, 1);
        if (!lua_isnil(L, -1) && !after) {
            pass->args = arguments_at_top(L, me);
        } else if (!lua_isnil(L, -1)) {
            pass->result = value_from_lua(L, me, lua_gettop(L), true);
            if (pass->result == NULL)
                raise(L, me);
        }
        lua_settop(L, 2);
    }
}

/* What is registered when a forward begins decides whether it has hooks at all, and which backward hooks. */
static int
hooks_before_body(lua_State *L)
{
    struct hook_pass *pass = lua_touserdata(L, 1);
    object_push(L, pass->table);
    if (!lua_istable(L, 2))
        return 0;
    lua_pushvalue(L, 2);
    copy_hook_list(L, "post");
    lua_pushvalue(L, 2);
    copy_hook_list(L, "backward");
    if (lua_rawlen(L, 4) > 0)
        pass->backward = object_new(L, script_of(L)->holder, 4, NULL);
    pass->any = lua_rawlen(L, 3) > 0 || lua_rawlen(L, 4) > 0;
    lua_settop(L, 2);
    copy_hook_list(L, "pre");
    pass->any |= lua_rawlen(L, 2) > 0;
    call_forward_hooks(L, pass);
    return 0;
}

static int
hooks_after_body(lua_State *L)
{
    struct hook_pass *pass = lua_touserdata(L, 1);
    object_push(L, pass->table);
    if (!lua_istable(L, 2))
        return 0;
    copy_hook_list(L, "post");
    call_forward_hooks(L, pass);
    return 0;
}

static void
push_grads(lua_State *L, struct tensor *const *grads, int count)
{
    lua_createtable(L, count, 0);
    for (int i = 0; i < count; i++) {
        if (grads[i] != NULL)
            push_tensor(L, grads[i]);
        else
            lua_getfield(L, LUA_REGISTRYINDEX, "ringside.None");
        lua_rawseti(L, -2, i + 1);
    }
}

static int
hook_backward_body(lua_State *L)
{
    struct hook_pass *pass = lua_touserdata(L, 1);
    struct task *me   = script_of(L)->holder;
    object_push(L, pass->table);
    lua_Integer count = lua_istable(L, 2) ? (lua_Integer)lua_rawlen(L, 2) : 0;
    for (lua_Integer i = 1; i <= count; i++) {
        lua_rawgeti(L, 2, i);
        push_module(L, pass->module);
        push_grads(L, pass->grads, pass->count);
        push_grads(L, pass->grad_out, pass->out_count);
        lua_call(L, 3, 1);
        struct tensor *one = test_tensor(L, -1);
        if (one != NULL && pass->count > 0)
            pass->grads[0] = tensor_born(me, tensor_ref(one));
        for (int j = 0; one == NULL && lua_istable(L, -1) && j < pass->count; j++) {
            lua_rawgeti(L, -1, j + 1);
            if (test_tensor(L, -1) != NULL)
                pass->grads[j] = tensor_born(me, tensor_ref(test_tensor(L, -1)));
            lua_pop(L, 1);
        }
        lua_settop(L, 2);
    }
    return 0;
}

static bool
visit_hooks(struct task *me, struct hook_pass *pass, lua_CFunction body)
{
    if (!object_open(pass->table))
        return true; /* the script has ended */
    return script_visit(me, pass->table->script, body, pass) && !task_failed(me);
}

/* ---- backward hooks: the nodes before and behind ---- */

/* The identity; `turn` learns what came. */
static bool
pass_on(struct task *me, struct node *node, struct tensor *const *grad_out, struct tensor **grad_in)
{
    (void)me;
    for (int i = 0; i < node->edge_count; i++)
        grad_in[i] = grad_out[i];
    return true;
}

static bool
note_outputs(struct task *me, void *context, struct node *node, struct tensor **grads, int count)
{
    struct hook_turn *turn = context;
    (void)node;
    turn->out_count = count;
    for (int i = 0; i < count; i++)
        tensor_keep(me, &turn->grad_out[i], grads[i]);
    struct hook_pass pass = { .table = turn->backward, .module = turn->module, .grad_out = turn->grad_out,
                              .out_count = count };
    return turn->has_inputs || visit_hooks(me, &pass, hook_backward_body);
}

static bool
call_hooks(struct task *me, void *context, struct node *node, struct tensor **grads, int count)
{
    struct hook_turn *turn = context;
    struct hook_pass  pass = { .table = turn->backward, .module = turn->module, .grads = grads, .count = count,
                               .grad_out = turn->grad_out, .out_count = turn->out_count };
    (void)node;
    return visit_hooks(me, &pass, hook_backward_body);
}

/* The tensors of a value (itself, or the items of a tuple) that want gradients pass through one node. */
static struct value *
through_node(struct task *me, struct hook_turn *turn, struct value *value,
             bool (*run)(struct task *me, void *context, struct node *node, struct tensor **grads, int count),
    bool *any)
{
    struct value *own[1] = { value }, **items = value->kind == VALUE_TUPLE ? value->items : own, *made[MOST_TENSORS];
    int           count = value->kind == VALUE_TUPLE ? value->count : 1, wanted = 0, id = 0;
    if (count > MOST_TENSORS)
        return value;
    for (int i = 0; i < count; i++)
        wanted += items[i]->kind == VALUE_TENSOR && any_requires_grad(me, &items[i]->tensor, 1);
    *any = wanted > 0;
    if (wanted == 0)
        return value;
    struct node *node = node_new(me, "BackwardHookFunctionBackward", pass_on, wanted, wanted);
    struct hook  hook = { .run = run, .drop = turn_drop, .context = turn };
    bool         ok   = node != NULL;
    wanted = 0;
    for (int i = 0; ok && i < count; i++) {
        made[i] = items[i];
        if (items[i]->kind != VALUE_TENSOR || !any_requires_grad(me, &items[i]->tensor, 1))
            continue;
        struct tensor *same = tensor_detach(me, items[i]->tensor);
        node->device = tensor_device(items[i]->tensor);
        node_connect(me, node, wanted, items[i]->tensor);
        if (same != NULL)
            node_output(me, node, same, wanted++);
        made[i] = value_tensor(me, same);
        ok      = made[i] != NULL && !task_failed(me);
    }
    if (ok) {
        atomic_fetch_add(&turn->references, 1);
        ok = node_add_post_hook(me, node, &hook, &id);
        if (!ok)
            turn_drop(me, turn);
    }
    node_unref(me, node);
    if (!ok)
        return NULL;
    return value->kind == VALUE_TUPLE ? value_tuple(me, count, made) : made[0];
}

/* Takes the list of backward hooks over. In me's scope; NULL: failed. */
static struct hook_turn *
turn_new(struct task *me, struct script_object *backward, struct module *module)
{
    struct hook_turn *turn = calloc(1, sizeof *turn);
    if (turn == NULL) {
        object_free(me, backward);
        return failed_null(me, E_MEMORY, "out of memory");
    }
    turn->references = 1;
    turn->backward   = backward;
    turn->module     = module_ref(module);
    return born(me, turn, turn_drop);
}

/* ---- around a forward ---- */

static struct value *
before_forward(struct task *me, void *context, struct module *module, struct value *args, void **token)
{
    struct hook_pass pass = { .table = context, .module = module, .args = args };
    bool             done = visit_hooks(me, &pass, hooks_before_body);
    if (!done || !pass.any) {
        object_free(me, pass.backward);
        return done ? args : NULL;
    }
    struct hook_turn *turn = turn_new(me, pass.backward, module);
    *token = turn;
    if (turn == NULL)
        return NULL;
    return turn->backward != NULL && grad_enabled(me) ?
               through_node(me, turn, pass.args, call_hooks, &turn->has_inputs) : pass.args;
}

static struct value *
after_forward(struct task *me, void *context, struct module *module, struct value *args, struct value *result,
              void *token)
{
    struct hook_turn *turn = token;
    struct hook_pass  pass = { .table = context, .module = module, .args = args, .result = result };
    bool              any  = false;
    if (!visit_hooks(me, &pass, hooks_after_body))
        return NULL;
    return turn->backward != NULL && grad_enabled(me) ? through_node(me, turn, pass.result, note_outputs, &any)
                                                      : pass.result;
}

static const struct module_hook_calls script_hooks = { before_forward, after_forward, object_free };

/* ---- registering ---- */

/* Upvalue 1: "pre", "post" or "backward". */
static int
register_hook(lua_State *L)
{
    struct task         *me    = script_task(L);
    struct module_hooks *hooks = module_hooks(check_module(L, 1));
    struct script_object *known = atomic_load(&hooks->context);
    check_function(L, 2);
    lua_settop(L, 2);
    if (known == NULL) {
        lua_newtable(L);
        struct script_object *table = object_new(L, me, 3, NULL);
        if (table == NULL)
            return raise(L, me);
        hooks->calls = &script_hooks;
        atomic_store(&hooks->context, table);
    } else {
        object_push(L, known);
        check_table(L, 3);
    }
    lua_getfield(L, 3, "next");
    lua_Integer number = lua_tointeger(L, -1) + 1;
    set_integer(L, 3, "next", number);
    luaL_getsubtable(L, 3, lua_tostring(L, lua_upvalueindex(1)));
    lua_pushvalue(L, 2);
    lua_rawseti(L, -2, number);
    box_push(L, BOX_HANDLE, 1);
    box_fill(L, (void *)(uintptr_t)(number + 1), NULL, false);
    lua_pushvalue(L, 3);
    lua_setiuservalue(L, -2, 1);
    return 1;
}

/* handle:remove() of a module's hook, whose table is at the top; its number is in none of the other lists. */
void
module_hook_remove(lua_State *L, int number)
{
    static const char *const kinds[] = { "pre", "post", "backward" };
    for (size_t i = 0; i < countof(kinds); i++) {
        if (lua_getfield(L, -1, kinds[i]) == LUA_TTABLE) {
            lua_pushnil(L);
            lua_rawseti(L, -2, number);
        }
        lua_pop(L, 1);
    }
}

static const struct { const char *name, *kind, *signature, *help; } methods[] = {
    { "register_forward_pre_hook", "pre", "module:register_forward_pre_hook(f)",
      "f(module, {args}) before each forward; what it returns takes the arguments' place" },
    { "register_forward_hook", "post", "module:register_forward_hook(f)",
      "f(module, {args}, output) after each forward; what it returns takes the output's place" },
    { "register_full_backward_hook", "backward", "module:register_full_backward_hook(f)",
      "f(module, {grad_input}, {grad_output}) once the inputs' gradients are there; may replace them" },
};

/* Into the table of methods at the top. */
void
add_module_hooks(lua_State *L)
{
    for (size_t i = 0; i < countof(methods); i++) {
        lua_pushstring(L, methods[i].kind);
        lua_pushcclosure(L, register_hook, 1);
        note_help(L, methods[i].signature, methods[i].help);
        lua_setfield(L, -2, methods[i].name);
    }
}
