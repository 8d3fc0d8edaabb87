/* Autograd functions of the lesson's own, as torch.autograd.Function:
 *
 *     local Square = rs.autograd.Function("Square")
 *     function Square.forward(ctx, x) ctx:save_for_backward(x) return x * x end
 *     function Square.backward(ctx, grad) return grad * ctx.saved_tensors[1] * 2 end
 *     local y = Square.apply(x)
 *
 * forward runs without recording; the node that stands for it calls backward, which answers one gradient (or nil) per
 * argument of forward. */
#include "lua/internal.h"
#include <stdlib.h>
#include <string.h>
#include "autograd/call.h"
#include "autograd/node.h"
#include "base/vec.h"
#include "device/cells.h"
#include "sched/task.h"

static const char CTX[] = "ringside.ctx";

/* What the node holds: the table ctx and the function class, with the versions of the saved tensors. */
struct function {
    struct script_object *ctx, *class;
    char                  name[80];
    int                   saved;
    uint32_t             *versions;
    bool                  packed;        /* the node has what ctx saved: a checkpoint is around the call */
};

static void
function_drop(struct task *me, void *context)
{
    struct function *function = context;
    object_free(me, function->ctx);
    object_free(me, function->class);
    free(function->versions);
    free(function);
}

/* ---- backward ---- */

struct backing { struct node *node; struct tensor *const *grad_out; struct tensor **grad_in, **saved; };

/* What the checkpoint had kept is ctx.saved_tensors for as long as backward runs. */
static void
lend_saved(lua_State *L, int ctx, const struct function *function, struct tensor *const *saved)
{
    lua_createtable(L, function->saved, 0);
    for (int i = 0; i < function->saved; i++) {
        push_tensor(L, saved[i]);
        lua_rawseti(L, -2, i + 1);
    }
    lua_setfield(L, ctx, "saved_tensors");
}

static void
take_saved(lua_State *L, const struct function *function)
{
    object_push(L, function->ctx);
    lua_pushnil(L);
    lua_setfield(L, -2, "saved_tensors");
    lua_pop(L, 1);
}

static void
check_saved(lua_State *L, int ctx, const struct function *function)
{
    if (lua_getfield(L, ctx, "saved_tensors") == LUA_TTABLE)
        for (int i = 0; i < function->saved; i++) {
            lua_rawgeti(L, -1, i + 1);
            const struct tensor *tensor = test_tensor(L, -1);
            if (tensor != NULL && tensor_version(tensor) != function->versions[i])
                raise_error(L, "RuntimeError",
                            "one of the variables needed for gradient computation has been modified by an inplace "
                            "operation: saved tensor %d of %s is at version %u; expected version %u instead", i,
                            function->name, tensor_version(tensor), function->versions[i]);
            lua_pop(L, 1);
        }
    lua_pop(L, 1);
}

static int
function_backward_body(lua_State *L)
{
    struct backing  *backing  = lua_touserdata(L, 1);
    struct node     *node     = backing->node;
    struct function *function = node->context;
    struct task     *me       = script_of(L)->holder;
    luaL_checkstack(L, node->output_count + node->edge_count + 10, "too many gradients");
    object_push(L, function->class);
    if (!lua_istable(L, 2) || lua_getfield(L, 2, "backward") != LUA_TFUNCTION)
        raise_error(L, "NotImplementedError", "%s has no function backward", function->name);
    object_push(L, function->ctx);
    if (function->packed)
        lend_saved(L, 4, function, backing->saved);
    else
        check_saved(L, 4, function);
    for (int i = 0; i < node->output_count; i++)
        push_tensor(L, backing->grad_out[i]);
    lua_call(L, node->output_count + 1, LUA_MULTRET);
    int count = lua_gettop(L) - 2;
    while (count > node->edge_count && lua_isnil(L, count + 2))
        count--; /* surplus nils are allowed */
    if (count != node->edge_count)
        raise_error(L, "RuntimeError", "function %s returned an incorrect number of gradients (expected %d, got %d)",
                    function->name, node->edge_count, count);
    for (int i = 0; i < count; i++) {
        struct tensor *grad = test_tensor(L, i + 3);
        if (grad == NULL && !lua_isnil(L, i + 3))
            raise_error(L, "TypeError", "%s: gradient %d is %s, not a Tensor or nil", function->name, i,
                        luaL_typename(L, i + 3));
        backing->grad_in[i] = grad != NULL ? tensor_born(me, tensor_ref(grad)) : NULL;
    }
    if (function->packed)
        take_saved(L, function);
    return 0;
}

static bool
function_backward(struct task *me, struct node *node, struct tensor *const *grad_out, struct tensor **grad_in)
{
    struct function *function = node->context;
    struct backing   backing  = { .node = node, .grad_out = grad_out, .grad_in = grad_in };
    if (!object_open(function->ctx))
        return failed(me, E_RUNTIME, "the script of %s has ended", function->name);
    if (function->saved > 0 && !node_keeps_saved(me, node))
        return false;
    backing.saved = function->packed ? scratch_new(me, (size_t)function->saved, sizeof *backing.saved) : NULL;
    for (int i = 0; backing.saved != NULL && i < function->saved && !task_failed(me); i++)
        backing.saved[i] = node_saved(me, node, i);
    return !task_failed(me) &&
           script_visit(me, function->ctx->script, function_backward_body, &backing) && !task_failed(me);
}

/* ---- forward ---- */

static struct function *
function_new(lua_State *L, struct task *me, int class, int ctx, const char *name)
{
    struct function *function = calloc(1, sizeof *function);
    if (function == NULL)
        return failed_null(me, E_MEMORY, "out of memory");
    snprintf(function->name, sizeof function->name, "%.60sBackward", name);
    function->class = object_new(L, me, class, NULL);
    function->ctx   = object_new(L, me, ctx, NULL);
    if (lua_getfield(L, ctx, "saved_tensors") == LUA_TTABLE)
        function->saved = (int)lua_rawlen(L, -1);
    function->versions = calloc((size_t)function->saved + 1, sizeof *function->versions);
    for (int i = 0; i < function->saved && function->versions != NULL; i++) {
        lua_rawgeti(L, -1, i + 1);
        function->versions[i] = tensor_version(test_tensor(L, -1));
        lua_pop(L, 1);
    }
    lua_pop(L, 1);
    if (function->class != NULL && function->ctx != NULL && function->versions != NULL)
        return function;
    function_drop(me, function);
    return failed_null(me, E_MEMORY, "out of memory");
}

/* Arguments or results of a call; NULL: no tensor. */
struct passed_tensors { struct tensor **tensors; int count; };

/* Inside of a checkpoint the node saves as any other does, so that the checkpoint gets to see it. */
static bool
save_in_node(struct task *me, struct node *node, struct passed_tensors saved)
{
    struct function *function = node->context;
    bool             ok       = true;
    function->packed = saved.count > 0;
    for (int i = 0; i < saved.count && ok; i++)
        ok = node_save(me, node, saved.tensors[i], saved.tensors[i]->grad_fn == node);
    return ok;
}

/* Middle part: the node with an edge per argument; an output that is an argument becomes another tensor first. */
static bool
record(struct task *me, struct function *function, struct passed_tensors in, struct passed_tensors out,
       struct passed_tensors saved)
{
    struct node_room room = { in.count, out.count, saved.count };
    struct node     *node = node_new_with(me, function->name, function_backward, &room);
    if (node == NULL) {
        function_drop(me, function);
        return false;
    }
    node->context      = function;
    node->drop_context = function_drop;
    node->fill_missing = true;
    for (int i = 0; i < in.count; i++)
        if (in.tensors[i] != NULL && (in.tensors[i]->requires_grad || in.tensors[i]->grad_fn != NULL))
            node_connect(me, node, i, in.tensors[i]);
    bool ok = !task_failed(me);
    for (int i = 0; i < out.count && ok; i++) {
        if (out.tensors[i] == NULL)
            continue;
        for (int j = 0; j < in.count; j++)
            if (out.tensors[i] == in.tensors[j])
                out.tensors[i] = tensor_detach(me, out.tensors[i]);
        ok = out.tensors[i] != NULL;
        if (ok && dtype_is_float(out.tensors[i]->dtype))
            node_output(me, node, out.tensors[i], i);
    }
    ok = ok && save_in_node(me, node, saved);
    node_unref(me, node);
    return ok && !task_failed(me);
}

/* What ctx saved, if the node is to keep it; the table holds it. */
static struct passed_tensors
saved_for_node(lua_State *L, const struct task *me, int ctx)
{
    struct passed_tensors saved = { NULL, 0 };
    if (me->slots[SLOT_SAVING] == 0 || lua_getfield(L, ctx, "saved_tensors") != LUA_TTABLE)
        return saved;
    int table     = lua_gettop(L);
    saved.count   = (int)lua_rawlen(L, table);
    saved.tensors = lua_newuserdatauv(L, (size_t)(saved.count + 1) * sizeof *saved.tensors, 0);
    for (int i = 0; i < saved.count; i++) {
        lua_rawgeti(L, table, i + 1);
        saved.tensors[i] = test_tensor(L, -1);
        lua_pop(L, 1);
    }
    return saved;
}

static struct tensor **
tensors_from(lua_State *L, int first, int count)
{
    struct tensor **tensors = lua_newuserdatauv(L, (size_t)(count + 1) * sizeof *tensors, 0);
    for (int i = 0; i < count; i++)
        tensors[i] = test_tensor(L, first + i);
    return tensors;
}

static void
push_ctx(lua_State *L, struct tensor *const *inputs, int count)
{
    lua_createtable(L, 0, 4);
    lua_createtable(L, count, 0);
    for (int i = 0; i < count; i++) {
        lua_pushboolean(L, inputs[i] != NULL && (inputs[i]->requires_grad || inputs[i]->grad_fn != NULL));
        lua_rawseti(L, -2, i + 1);
    }
    lua_setfield(L, -2, "needs_input_grad");
    luaL_setmetatable(L, CTX);
}

/* Upvalue 1: the function class. Stack: arguments, their tensors, ctx, then forward's results. */
static int
function_apply_call(lua_State *L)
{
    struct task    *me     = script_task(L);
    int             count  = lua_gettop(L);
    struct tensor **inputs = tensors_from(L, 1, count);
    bool            wanted = any_requires_grad(me, inputs, count), before = grad_enabled(me);
    int             ctx    = count + 2;
    stack_room(L, 2 * count + 20);
    push_ctx(L, inputs, count);
    if (lua_getfield(L, lua_upvalueindex(1), "forward") != LUA_TFUNCTION)
        raise_error(L, "NotImplementedError", "this autograd function has no function forward");
    lua_pushvalue(L, ctx);
    for (int i = 1; i <= count; i++)
        lua_pushvalue(L, i);
    grad_set_enabled(me, false);
    bool ok = lua_pcall(L, count + 1, LUA_MULTRET, 0) == LUA_OK;
    grad_set_enabled(me, before);
    if (!ok)
        return lua_error(L);
    int first = ctx + 1, results = lua_gettop(L) - ctx;
    if (!wanted || results == 0)
        return results;
    struct tensor **outputs = tensors_from(L, first, results);
    lua_getfield(L, lua_upvalueindex(1), "__name");
    struct function *function = function_new(L, me, lua_upvalueindex(1), ctx,
                                             lua_type(L, -1) == LUA_TSTRING ? lua_tostring(L, -1) : "Function");
    struct passed_tensors saved = saved_for_node(L, me, ctx);
    struct call call = call_open(L, me, CALL_PLAIN);
    call_end(&call, function != NULL && record(me, function, (struct passed_tensors){ inputs, count },
                                              (struct passed_tensors){ outputs, results }, saved));
    if (saved.count > 0) {
        lua_pushnil(L);
        lua_setfield(L, ctx, "saved_tensors");
    }
    for (int i = 0; i < results; i++) {
        if (outputs[i] != NULL)
            push_tensor(L, outputs[i]);
        else
            lua_pushvalue(L, first + i);
    }
    return call_leave(&call, results);
}

static int
save_for_backward(lua_State *L)
{
    check_table(L, 1);
    int count = lua_gettop(L);
    lua_createtable(L, count, 0);
    for (int i = 2; i <= count; i++) {
        check_tensor(L, i);
        lua_pushvalue(L, i);
        lua_rawseti(L, -2, i - 1);
    }
    lua_setfield(L, 1, "saved_tensors");
    return 0;
}

static int
call_class(lua_State *L)
{
    lua_getfield(L, 1, "apply");
    lua_replace(L, 1);
    lua_call(L, lua_gettop(L) - 1, LUA_MULTRET);
    return lua_gettop(L);
}

/* rs.autograd.Function("Name"): a table to give forward and backward to. */
static int
function_class(lua_State *L)
{
    const char *name = check_text(L, 1);
    lua_createtable(L, 0, 4);
    set_text(L, -1, "__name", name);
    lua_pushvalue(L, -1);
    lua_pushcclosure(L, function_apply_call, 1);
    lua_setfield(L, -2, "apply");
    luaL_setmetatable(L, "ringside.function");
    return 1;
}

static const struct lua_entry entries[] = {
    { "Function", function_class, "rs.autograd.Function(name)",
      "an operator of one's own: give it forward(ctx, ...) and backward(ctx, ...), use it by F.apply(...)" },
};
static const struct lua_entry ctx_methods[] = {
    { "save_for_backward", save_for_backward, "ctx:save_for_backward(tensors...)",
      "keeps them, with their versions, for backward: ctx.saved_tensors" },
};

void
lua_open_function(lua_State *L)
{
    luaL_newmetatable(L, "ringside.function");
    lua_pushcfunction(L, call_class);
    lua_setfield(L, -2, "__call");
    lua_pop(L, 1);
    open_class(L, CTX, ctx_methods, countof(ctx_methods), (const luaL_Reg[]){ { NULL, NULL } });
    fill_namespace(L, "autograd", entries, countof(entries));
}
