/* Gradients in Lua: t:backward(), rs.autograd.grad, hooks, rs.no_grad(f), and the graph itself as t.grad_fn.
 * Functions of
 * the lesson's own are in function.c. */
#include "lua/shelf.h"
#include <stdlib.h>
#include <string.h>
#include "autograd/call.h"
#include "autograd/engine.h"
#include "autograd/node.h"
#include "base/vec.h"
#include "sched/task.h"

/* ---- backward ---- */

/* The gradients that a backward begins with: NULL where the list has none. `count` of them, on the stack. */
static struct tensor **
check_grads(lua_State *L, int index, int count)
{
    struct tensor **grads = lua_newuserdatauv(L, (size_t)(count + 1) * sizeof *grads, 0);
    memset(grads, 0, (size_t)(count + 1) * sizeof *grads);
    if (lua_isnoneornil(L, index))
        return grads;
    if (test_tensor(L, index) != NULL) {
        grads[0] = test_tensor(L, index);
        return grads;
    }
    if (!lua_istable(L, index))
        arg_error(L, index, "Tensor or a list of tensors");
    for (int i = 0; i < count; i++) {
        lua_rawgeti(L, index, i + 1);
        grads[i] = test_tensor(L, -1);
        lua_pop(L, 1);
    }
    return grads;
}

static struct backward_options
check_backward_options(lua_State *L, int table)
{
    struct backward_options options = { .create_graph = option_bool(L, table, "create_graph", false) };
    options.keep_graph              = option_bool(L, table, "retain_graph", options.create_graph);
    options.allow_unused            = option_bool(L, table, "allow_unused", false);
    return options;
}

/* Under create_graph a leaf's .grad may lead back to the leaf: such leaves lose their .grad when the script ends, else
 * they would never die. (PyTorch warns of this cycle.) */
struct cycles { struct tensor **leaves; size_t count, room; };

static bool
note_leaf(struct task *me, void *context, struct tensor *leaf)
{
    struct cycles *cycles = context;
    if (!vec_room(&cycles->leaves, &cycles->room, cycles->count + 1, sizeof *cycles->leaves))
        return failed(me, E_MEMORY, "out of memory in backward");
    cycles->leaves[cycles->count++] = tensor_ref(leaf);
    return true;
}

static void
cycles_drop(struct task *me, void *part)
{
    struct cycles *cycles = part;
    for (size_t i = 0; i < cycles->count; i++) {
        tensor_drop(me, &cycles->leaves[i]->grad);
        tensor_unref(me, cycles->leaves[i]);
    }
    free(cycles->leaves);
    free(cycles);
}

/* With the lock: what one backward has found joins the rest. Takes over the references. */
static bool
keep_cycles(struct task *me, struct script *script, struct cycles *found)
{
    struct cycles *all = script->parts[SCRIPT_CYCLES];
    bool           ok  = true;
    if (all == NULL && found->count > 0) {
        all = script->parts[SCRIPT_CYCLES] = calloc(1, sizeof *all);
        script->drop_part[SCRIPT_CYCLES] = cycles_drop;
        ok = all != NULL || failed(me, E_MEMORY, "out of memory in backward");
    }
    for (size_t i = 0; i < found->count; i++) {
        bool known = false;
        for (size_t j = 0; all != NULL && j < all->count && !known; j++)
            known = all->leaves[j] == found->leaves[i];
        ok = ok && (known || note_leaf(me, all, found->leaves[i]));
        tensor_unref(me, found->leaves[i]);
    }
    free(found->leaves);
    return ok;
}

/* The last part of a backward. */
static int
backward_done(struct call *call, bool ok, struct cycles *found)
{
    struct task   *me     = call->me;
    struct script *script = script_of(call->L);
    call_close(call);
    ok = keep_cycles(me, script, found) && ok;
    scope_release(me, call->mark);
    return ok && !task_failed(me) ? 0 : raise(call->L, me);
}

/* t:backward(), t:backward(gradient), t:backward(gradient, {retain_graph = true}), t:backward{retain_graph = true} */
static int
backward(lua_State *L)
{
    struct task   *me    = script_task(L);
    struct tensor *root  = check_tensor(L, 1);
    int            table = option_table(L, is_plain_table(L, 2) ? 2 : 3);
    option_known(L, table, "retain_graph create_graph gradient");
    struct tensor *grad = test_tensor(L, 2);
    if (grad == NULL && !lua_isnoneornil(L, 2) && table != 2)
        arg_error(L, 2, "Tensor or options");
    struct backward_options options = check_backward_options(L, table);
    struct cycles           found   = { NULL, 0, 0 };
    options.reached = note_leaf;
    options.context = &found;
    if (option_push(L, table, "gradient"))
        grad = check_tensor(L, -1);
    struct call call = call_open(L, me, CALL_BACK);
    return backward_done(&call, autograd_backward(me, &root, &grad, 1, &options), &found);
}

/* rs.autograd.backward(tensors, gradients, options) */
static int
backward_of(lua_State *L)
{
    struct task *me    = script_task(L);
    int          count = 0;
    lua_settop(L, 3);
    option_known(L, option_table(L, 3), "retain_graph create_graph");
    struct tensor         **roots   = check_tensors(L, 1, &count);
    struct tensor         **grads   = check_grads(L, 2, count);
    struct backward_options options = check_backward_options(L, option_table(L, 3));
    struct cycles           found   = { NULL, 0, 0 };
    options.reached = note_leaf;
    options.context = &found;
    struct call             call    = call_open(L, me, CALL_BACK);
    return backward_done(&call, autograd_backward(me, roots, grads, count, &options), &found);
}

/* rs.autograd.grad(outputs, inputs, {grad_outputs = ...}): one result an input. */
static int
grad_of(lua_State *L)
{
    struct task *me    = script_task(L);
    int          count = 0, inputs = 0;
    lua_settop(L, 3);
    int table = option_table(L, 3);
    option_known(L, table, "grad_outputs retain_graph create_graph allow_unused");
    struct tensor         **roots   = check_tensors(L, 1, &count);
    struct backward_options options = check_backward_options(L, table);
    options.inputs                  = check_tensors(L, 2, &inputs);
    options.input_count             = inputs;
    luaL_checkstack(L, inputs + 10, "too many inputs");
    options.results                 = lua_newuserdatauv(L, (size_t)(inputs + 1) * sizeof *options.results, 0);
    memset(options.results, 0, (size_t)(inputs + 1) * sizeof *options.results);
    if (!option_push(L, table, "grad_outputs"))
        lua_pushnil(L);
    struct tensor **grads = check_grads(L, lua_gettop(L), count);
    struct call     call  = call_open(L, me, CALL_BACK);
    call_end(&call, autograd_backward(me, roots, grads, count, &options));
    for (int i = 0; i < inputs; i++)
        push_tensor(L, options.results[i]);
    return call_leave(&call, inputs);
}

/* ---- hooks ---- */

struct hook_run { struct script_object *function; struct tensor **grads; int count; bool list; };

/* One gradient for a tensor's hook; a list of them for a node's. What it returns takes their place. */
static int
hook_body(lua_State *L)
{
    struct hook_run *run = lua_touserdata(L, 1);
    struct task     *me  = script_of(L)->holder;
    object_push(L, run->function);
    if (!run->list) {
        push_tensor(L, run->grads[0]);
        lua_call(L, 1, 1);
        struct tensor *changed = test_tensor(L, -1);
        if (changed != NULL)
            run->grads[0] = tensor_born(me, tensor_ref(changed));
        else if (!lua_isnil(L, -1))
            raise_error(L, "TypeError", "a hook returns a tensor or nothing, not %s", luaL_typename(L, -1));
        return 0;
    }
    lua_createtable(L, run->count, 0);
    for (int i = 0; i < run->count; i++) {
        push_tensor(L, run->grads[i]);
        if (lua_isnil(L, -1)) {
            lua_pop(L, 1);
            lua_getfield(L, LUA_REGISTRYINDEX, "ringside.None");
        }
        lua_rawseti(L, -2, i + 1);
    }
    lua_call(L, 1, 1);
    for (int i = 0; i < run->count && lua_istable(L, -1); i++) {
        lua_rawgeti(L, -1, i + 1);
        if (test_tensor(L, -1) != NULL)
            run->grads[i] = tensor_born(me, tensor_ref(test_tensor(L, -1)));
        lua_pop(L, 1);
    }
    return 0;
}

static bool
run_hook(struct task *me, struct script_object *function, struct tensor **grads, int count, bool list)
{
    struct hook_run run = { function, grads, count, list };
    if (!object_open(function))
        return true; /* its script has ended */
    return script_visit(me, function->script, hook_body, &run) && !task_failed(me);
}

static bool
run_tensor_hook(struct task *me, void *function, struct node *node, struct tensor **grads, int count)
{
    (void)node;
    (void)count;
    return run_hook(me, function, grads, 1, false);
}

static bool
run_node_hook(struct task *me, void *function, struct node *node, struct tensor **grads, int count)
{
    (void)node;
    return run_hook(me, function, grads, count, true);
}

/* A handle keeps its tensor, its node or its module's table of hooks in user value 1; `object` is the number of the
 * hook plus one. */
static void
push_handle(lua_State *L, int owner, int id)
{
    box_push(L, BOX_HANDLE, 1);
    box_fill(L, (void *)(uintptr_t)(id + 1), NULL, false);
    lua_pushvalue(L, owner);
    lua_setiuservalue(L, -2, 1);
}

static int
handle_remove(lua_State *L)
{
    struct task *me = script_task(L);
    int          id = (int)(uintptr_t)box_check(L, 1, BOX_HANDLE) - 1;
    lua_getiuservalue(L, 1, 1);
    struct tensor *tensor = test_tensor(L, -1);
    struct node   *node   = box_test(L, lua_gettop(L), BOX_NODE);
    if (lua_istable(L, -1))
        module_hook_remove(L, id);
    struct call    call   = call_open(L, me, CALL_KEEP);
    if (tensor != NULL)
        tensor_remove_hook(me, tensor, id);
    else if (node != NULL)
        hook_list_remove(me, node->post_hooks, id);
    return call_done(&call, true);
}

static struct hook
check_hook(lua_State *L, struct task *me, int index, bool (*run)(struct task *me, void *context, struct node *node,
                                                                struct tensor **grads, int count))
{
    check_function(L, index);
    struct hook hook = { .run = run, .drop = object_free, .context = object_new(L, me, index, NULL) };
    if (hook.context == NULL)
        raise(L, me);
    return hook;
}

static int
register_on(lua_State *L, bool after)
{
    struct task   *me     = script_task(L);
    struct tensor *tensor = check_tensor(L, 1);
    struct hook    hook   = check_hook(L, me, 2, run_tensor_hook);
    int            id     = 0;
    struct call    call   = call_open(L, me, CALL_KEEP);
    bool           ok     = (after ? tensor_add_post_accumulate_hook : tensor_add_hook)(me, tensor, &hook, &id);
    if (!ok)
        object_free(me, hook.context);
    call_end(&call, ok);
    push_handle(L, 1, id);
    return call_leave(&call, 1);
}

static int
tensor_register_hook(lua_State *L)
{
    return register_on(L, false);
}

static int
tensor_register_post_accumulate_grad_hook(lua_State *L)
{
    return register_on(L, true);
}

static int
retain_grad(lua_State *L)
{
    struct task   *me     = script_task(L);
    struct tensor *tensor = check_tensor(L, 1);
    struct call    call   = call_open(L, me, CALL_PLAIN);
    return call_done(&call, tensor_retain_grad(me, tensor));
}

/* ---- callbacks at the end of a backward: functions in the registry, under a number ---- */

static const char CALLBACKS[] = "ringside.callbacks";

static int
callback_body(lua_State *L)
{
    lua_Integer number = (lua_Integer)(uintptr_t)lua_touserdata(L, 1);
    luaL_getsubtable(L, LUA_REGISTRYINDEX, CALLBACKS);
    lua_rawgeti(L, -1, number);
    luaL_unref(L, -2, (int)number);
    lua_call(L, 0, 0);
    return 0;
}

static bool
run_callback(struct task *me, void *number)
{
    struct script *script = task_script(me);
    return script == NULL || (script_visit(me, script, callback_body, number) && !task_failed(me));
}

/* rs.autograd.queue_callback(f): after the last node, before backward returns. */
static int
queue_callback(lua_State *L)
{
    struct task *me = script_task(L);
    check_function(L, 1);
    luaL_getsubtable(L, LUA_REGISTRYINDEX, CALLBACKS);
    lua_pushvalue(L, 1);
    int         number = luaL_ref(L, -2);
    struct call call   = call_open(L, me, CALL_KEEP);
    return call_done(&call, autograd_queue_callback(me, run_callback, (void *)(uintptr_t)number));
}

/* ---- the graph ---- */

static int
node_name(lua_State *L)
{
    const struct node *node = box_check(L, 1, BOX_NODE);
    lua_pushstring(L, node->name);
    return 1;
}

static int
node_tostring(lua_State *L)
{
    const struct node *node = box_check(L, 1, BOX_NODE);
    const char        *scope = strrchr(node->name, ':');
    lua_pushfstring(L, "<%s>", scope != NULL ? scope + 1 : node->name);
    return 1;
}

/* Of an AccumulateGrad nil: PyTorch has the largest number there is. */
static int
node_sequence_nr(lua_State *L)
{
    const struct node *node = box_check(L, 1, BOX_NODE);
    if (node->sequence_nr == UINT64_MAX)
        return 0;
    lua_pushinteger(L, (lua_Integer)node->sequence_nr);
    return 1;
}

static void
push_next_functions(lua_State *L, const struct node *node)
{
    lua_createtable(L, node->edge_count, 0);
    for (int i = 0; i < node->edge_count; i++) {
        lua_createtable(L, 2, 0);
        if (node->edges[i].node != NULL)
            push_node(L, node->edges[i].node);
        else
            lua_getfield(L, LUA_REGISTRYINDEX, "ringside.None");
        lua_rawseti(L, -2, 1);
        lua_pushinteger(L, node->edges[i].input_nr);
        lua_rawseti(L, -2, 2);
        lua_rawseti(L, -2, i + 1);
    }
}

static int
node_register_hook(lua_State *L)
{
    struct task *me   = script_task(L);
    struct node *node = box_check(L, 1, BOX_NODE);
    struct hook  hook = check_hook(L, me, 2, run_node_hook);
    int          id   = 0;
    struct call  call = call_open(L, me, CALL_KEEP);
    bool         ok   = node_add_post_hook(me, node, &hook, &id);
    if (!ok)
        object_free(me, hook.context);
    call_end(&call, ok);
    push_handle(L, 1, id);
    return call_leave(&call, 1);
}

/* Upvalue 1: the methods. */
static int
node_index(lua_State *L)
{
    struct node *node = box_check(L, 1, BOX_NODE);
    const char  *name = lua_type(L, 2) == LUA_TSTRING ? lua_tostring(L, 2) : "";
    if (strcmp(name, "next_functions") == 0) {
        push_next_functions(L, node);
    } else if (strcmp(name, "variable") == 0) {
        push_tensor(L, node->variable);
    } else {
        lua_pushvalue(L, 2);
        shelf_get(L, lua_upvalueindex(1));
    }
    return 1;
}

/* ---- grad mode ---- */

static int
with_grad_mode(lua_State *L, bool enabled)
{
    struct task *me = script_task(L);
    check_function(L, 1);
    bool before = grad_enabled(me);
    grad_set_enabled(me, enabled);
    bool ok = lua_pcall(L, lua_gettop(L) - 1, LUA_MULTRET, 0) == LUA_OK;
    grad_set_enabled(me, before);
    return ok ? lua_gettop(L) : lua_error(L);
}

static int
no_grad(lua_State *L)
{
    return with_grad_mode(L, false);
}

static int
enable_grad(lua_State *L)
{
    return with_grad_mode(L, true);
}

static int
set_grad_enabled(lua_State *L)
{
    grad_set_enabled(script_task(L), check_flag(L, 1));
    return 0;
}

static int
is_grad_enabled(lua_State *L)
{
    lua_pushboolean(L, grad_enabled(script_task(L)));
    return 1;
}

static const struct lua_entry tensor_methods[] = {
    { "backward", backward, "t:backward(gradient, {retain_graph = true, create_graph = true})",
      "adds gradients to the .grad of the leaves" },
    { "register_hook", tensor_register_hook, "t:register_hook(f)",
      "f(grad) sees, and may replace, its gradient; answers a handle with remove()" },
    { "register_post_accumulate_grad_hook", tensor_register_post_accumulate_grad_hook,
      "t:register_post_accumulate_grad_hook(f)",
      "f(leaf) runs after the leaf's .grad was updated: it may step; answers a handle" },
    { "retain_grad", retain_grad, "t:retain_grad()", "keep .grad of a tensor that is no leaf" },
};
static const struct lua_entry node_methods[] = {
    { "name", node_name, "fn:name()", "PyTorch's name of this node: AddmmBackward0" },
    { "sequence_nr", node_sequence_nr, "fn:sequence_nr()",
      "its number in the order of recording; fn.next_functions lists {node, input}" },
    { "register_hook", node_register_hook, "fn:register_hook(f)", "f({gradients}) runs after the node" },
};
static const struct lua_entry handle_methods[] = {
    { "remove", handle_remove, "handle:remove()", "takes the hook away" },
};
static const struct lua_entry entries[] = {
    { "no_grad", no_grad, "rs.no_grad(f, ...)", "calls f without recording, answers its results" },
    { "enable_grad", enable_grad, "rs.enable_grad(f, ...)", "calls f with recording" },
    { "set_grad_enabled", set_grad_enabled, "rs.set_grad_enabled(on)", "from now on" },
    { "is_grad_enabled", is_grad_enabled, "rs.is_grad_enabled()", "is recording on?" },
};
static const struct lua_entry autograd_entries[] = {
    { "backward", backward_of, "rs.autograd.backward(tensors, gradients, options)",
      "backward of several roots at once" },
    { "queue_callback", queue_callback, "rs.autograd.queue_callback(f)",
      "during a backward, from a hook: f runs after the last node" },
    { "grad", grad_of, "rs.autograd.grad(outputs, inputs, {grad_outputs, retain_graph, create_graph, allow_unused})",
      "the gradients of the inputs, one result each; .grad stays as it is" },
};

void
lua_open_autograd(lua_State *L)
{
    add_methods(L, BOX_TENSOR, tensor_methods, countof(tensor_methods));
    box_class(L, BOX_HANDLE, handle_methods, countof(handle_methods));
    lua_pop(L, 1);
    box_class(L, BOX_NODE, node_methods, countof(node_methods));
    lua_pushcfunction(L, node_tostring);
    lua_setfield(L, -2, "__tostring");
    lua_getfield(L, -1, "__index");
    lua_pushcclosure(L, node_index, 1);
    lua_setfield(L, -2, "__index");
    lua_pop(L, 1);
    fill_namespace(L, "", entries, countof(entries));
    fill_namespace(L, "autograd", autograd_entries, countof(autograd_entries));
}
