/* Comm hooks: ddp:register_comm_hook(state, hook), as DistributedDataParallel.register_comm_hook. The hook sees a
 * GradBucket and answers a Future; DDP waits for that at the end of the backward. A bucket's box has in user values its
 * buffer and the list of its parameters.
 *
 * And buffer hooks: ddp:_register_buffer_comm_hook(state, hook, location).
 *
 * The library's own hooks are in ddp_comm_hooks.c.
 *
 * Interface: l_register_comm_hook, l_register_buffer_hook, lua_open_comm_hook; comm_hook.h. */
#include "lua/comm_hook.h"

#include <string.h>
#include <strings.h>
#include "base/vec.h"
#include "device/cells.h"
#include "lua/futures.h"
#include "lua/internal.h"
#include "lua/rank.h"
#include "parallel/ddp_inspect.h"
#include "parallel/distributed_data_parallel.h"
#include "parallel/reducer.h"
#include "sched/task.h"
#include "tensor/op.h"

/* What the reducer keeps. */
struct lua_hook { struct script *script; struct script_object *state, *function; };

/* What the hook has answered for one bucket. */
struct hook_answer { struct script_object *box; struct future *future; };

/* ---- buckets ---- */

enum { HAS_BUFFER = 1, HAS_PARAMETERS };

/* Its box holds no memory: "is it the last" and its number, plus one. */
static void
push_bucket(lua_State *L, const struct grad_bucket *bucket)
{
    uintptr_t what = ((uintptr_t)bucket->index << 1 | bucket->is_last) + 1;
    box_push(L, BOX_BUCKET, HAS_PARAMETERS);
    box_fill(L, (void *)what, NULL, false);
    push_tensor(L, bucket->buffer);
    lua_setiuservalue(L, -2, HAS_BUFFER);
    lua_createtable(L, bucket->count, 0);
    for (int i = 0; i < bucket->count; i++) {
        push_tensor(L, bucket->params[i]);
        lua_rawseti(L, -2, i + 1);
    }
    lua_setiuservalue(L, -2, HAS_PARAMETERS);
}

static uintptr_t
check_bucket(lua_State *L)
{
    return (uintptr_t)box_check(L, 1, BOX_BUCKET) - 1;
}

static int
l_bucket_index(lua_State *L)
{
    lua_pushinteger(L, (lua_Integer)(check_bucket(L) >> 1));
    return 1;
}

static int
l_bucket_is_last(lua_State *L)
{
    lua_pushboolean(L, (int)(check_bucket(L) & 1));
    return 1;
}

static int
l_bucket_buffer(lua_State *L)
{
    check_bucket(L);
    lua_getiuservalue(L, 1, HAS_BUFFER);
    return 1;
}

static int
l_bucket_set_buffer(lua_State *L)
{
    check_bucket(L);
    check_tensor(L, 2);
    arg_most(L, 2);
    lua_setiuservalue(L, 1, HAS_BUFFER);
    return 0;
}

static int
l_bucket_parameters(lua_State *L)
{
    check_bucket(L);
    lua_getiuservalue(L, 1, HAS_PARAMETERS);
    lua_Integer count = (lua_Integer)lua_rawlen(L, -1);
    lua_createtable(L, (int)count, 0);
    for (lua_Integer i = 1; i <= count; i++) {
        lua_rawgeti(L, -2, i);
        lua_rawseti(L, -2, i);
    }
    return 1;
}

struct grad_bucket
bucket_at(lua_State *L, int index)
{
    uintptr_t what = (uintptr_t)box_check(L, index, BOX_BUCKET) - 1;
    lua_getiuservalue(L, index, HAS_BUFFER);
    lua_getiuservalue(L, index, HAS_PARAMETERS);
    struct grad_bucket bucket = { .index = (int)(what >> 1), .is_last = what & 1, .buffer = check_tensor(L, -2),
                                  .count = (int)lua_rawlen(L, -1) };
    struct tensor **params = lua_newuserdatauv(L, (size_t)(bucket.count + 1) * sizeof(struct tensor *), 0);
    for (int i = 0; i < bucket.count; i++) {
        lua_rawgeti(L, -2, i + 1);
        params[i] = check_tensor(L, -1);
        lua_pop(L, 1);
    }
    bucket.params = params;
    return bucket;
}

/* Views of the buffer, shaped like the parameters. */
static int
l_bucket_gradients(lua_State *L)
{
    struct task *me   = script_task(L);
    size_t       mark = scope_mark(me);
    int64_t      used = 0;
    check_bucket(L);
    lua_settop(L, 1);
    lua_getiuservalue(L, 1, HAS_BUFFER);
    lua_getiuservalue(L, 1, HAS_PARAMETERS);
    struct tensor *buffer = check_tensor(L, 2);
    lua_Integer    count  = (lua_Integer)lua_rawlen(L, 3);
    lua_createtable(L, (int)count, 0);
    for (lua_Integer i = 1; i <= count; i++) {
        lua_rawgeti(L, 3, i);
        const struct tensor *param = check_tensor(L, -1);
        used += tensor_count(param);
        if (!tensor_is_contiguous(buffer) || used > tensor_count(buffer))
            raise_error(L, "RuntimeError", "the bucket's buffer has no room for parameter %d's gradient", (int)i - 1);
        struct call    call = call_open(L, me, CALL_KEEP);
        struct tensor *view = tensor_piece(me, buffer, param->dims, param->size,
                                           buffer->offset + used - tensor_count(param));
        call_end(&call, view != NULL);
        lua_pop(L, 1);
        push_tensor(L, view);
        lua_rawseti(L, 4, i);
    }
    scope_release(me, mark);
    return 1;
}

static const struct lua_entry methods[] = {
    { "index", l_bucket_index, "bucket:index()", "its number, from 0" },
    { "is_last", l_bucket_is_last, "bucket:is_last()", "whether it is the last one of this backward" },
    { "buffer", l_bucket_buffer, "bucket:buffer()", "its gradients in a row: one flat Tensor" },
    { "gradients", l_bucket_gradients, "bucket:gradients()", "a list: views of the buffer, shaped as the parameters" },
    { "parameters", l_bucket_parameters, "bucket:parameters()", "the list of its parameters" },
    { "set_buffer", l_bucket_set_buffer, "bucket:set_buffer(buffer)", "another Tensor becomes its buffer" },
};

/* ---- the reducer's side ---- */

struct hook_call { const struct lua_hook *hook; const struct grad_bucket *bucket; struct hook_answer *answer;
                   struct tensor *result; };

/* Of the value at the top: its type's name. */
static const char *
push_what(lua_State *L)
{
    if (luaL_getmetafield(L, -1, "__name") != LUA_TSTRING)
        lua_pushstring(L, luaL_typename(L, -1));
    return lua_tostring(L, -1);
}

static int
start_body(lua_State *L)
{
    struct hook_call *call = lua_touserdata(L, 1);
    struct task      *me   = script_of(L)->holder;
    object_push(L, call->hook->function);
    object_push(L, call->hook->state);
    push_bucket(L, call->bucket);
    lua_call(L, 2, 1);
    struct future *future  = box_test(L, -1, BOX_FUTURE);
    bool           is_work = box_test(L, -1, BOX_WORK) != NULL;
    if (future == NULL)
        raise_error(L, "RuntimeError", "DDP communication hook's callback must return a torch.futures.Future object, "
                                       "but got %s%s", push_what(L), is_work ? "; return work:get_future()" : "");
    call->answer->box = object_new(L, me, -1, NULL);
    if (call->answer->box == NULL)
        raise(L, me);
    call->answer->future = future_ref(me, future);
    return 0;
}

static void
forget_answer(struct task *me, void *context, void *started)
{
    struct hook_answer *answer = started;
    (void)context;
    if (answer->future != NULL)
        future_unref(me, answer->future);
    object_free(me, answer->box);
    host_return(me, answer, sizeof *answer);
}

static void *
start_hook(struct task *me, void *context, const struct grad_bucket *bucket)
{
    struct lua_hook    *hook   = context;
    struct hook_answer *answer = host_take(me, sizeof *answer);
    struct hook_call    call   = { .hook = hook, .bucket = bucket, .answer = answer };
    if (answer != NULL && script_visit(me, hook->script, start_body, &call))
        return answer;
    if (answer != NULL)
        forget_answer(me, NULL, answer);
    return NULL;
}

/* A tensor; of a collective's own future the first of its list. */
static int
finish_body(lua_State *L)
{
    struct hook_call *call = lua_touserdata(L, 1);
    struct task      *me   = script_of(L)->holder;
    object_push(L, call->answer->box);
    push_future_value(L, 2);
    if (lua_istable(L, 3) && future_has_work(call->answer->future))
        lua_rawgeti(L, 3, 1);
    struct tensor *result = test_tensor(L, -1);
    if (result == NULL)
        raise_error(L, "RuntimeError", "Unable to cast %s to Tensor: a comm hook's Future holds one Tensor, the "
                    "bucket's gradients", push_what(L));
    call->result = tensor_born(me, tensor_ref(result));
    return 0;
}

/* The hook may have called the library's, whose futures somebody must end. */
static int
due_body(lua_State *L)
{
    struct hook_call *call = lua_touserdata(L, 1);
    object_push(L, call->answer->box);
    end_due_futures(L, -1);
    return 0;
}

static struct tensor *
finish_hook(struct task *me, void *context, void *started)
{
    struct lua_hook *hook = context;
    struct hook_call call = { .hook = hook, .answer = started };
    bool ok = (!futures_are_due(hook->script) || script_visit(me, hook->script, due_body, &call)) &&
              future_wait(me, call.answer->future) && script_visit(me, hook->script, finish_body, &call);
    forget_answer(me, NULL, started);
    return ok ? call.result : NULL;
}

static void
drop_hook(struct task *me, void *context)
{
    struct lua_hook *hook = context;
    object_free(me, hook->state);
    object_free(me, hook->function);
    host_return(me, hook, sizeof *hook);
}

/* The hook at `function` with its state at `state`; NULL: failed. */
static struct lua_hook *
hook_new(lua_State *L, struct task *me, int state, int function)
{
    struct lua_hook *hook = host_take(me, sizeof *hook);
    if (hook == NULL)
        return NULL;
    *hook = (struct lua_hook){ .script = script_of(L), .state = object_new(L, me, state, NULL),
                               .function = object_new(L, me, function, NULL) };
    if (hook->state != NULL && hook->function != NULL)
        return hook;
    drop_hook(me, hook);
    return NULL;
}

/* Of the function whose local variables `ar` is about, the one that holds the hook at `hook`; NULL: none. */
static const char *
local_name(lua_State *L, lua_Debug *ar, int hook)
{
    const char *name, *found = NULL;
    for (int i = 1; (name = lua_getlocal(L, ar, i)) != NULL; i++, lua_pop(L, 1))
        found = lua_rawequal(L, -1, hook) ? name : found;
    if (found != NULL || lua_getinfo(L, "f", ar) == 0)
        return found;
    for (int i = 1; found == NULL && (name = lua_getupvalue(L, -1, i)) != NULL; i++, lua_pop(L, 1))
        found = lua_rawequal(L, -1, hook) ? name : NULL;
    lua_pop(L, 1);
    return found;
}

/* What the logging data call the hook at `hook`: its name in rs, the variable of the caller that holds it, or its line.
 * Pushed. */
static const char *
push_hook_name(lua_State *L, int hook)
{
    const char *help, *found = NULL;
    lua_Debug   ar;
    lua_pushvalue(L, hook);
    if (push_noted(L, &help)) {
        const char *signature = lua_tostring(L, -1), *begin = signature;
        for (const char *at = signature; *at != '\0' && *at != '('; at++)
            begin = *at == '.' || *at == ':' ? at + 1 : begin;
        return lua_pushlstring(L, begin, strcspn(begin, "("));
    }
    if (lua_getstack(L, 1, &ar))
        found = local_name(L, &ar, hook);
    if (found != NULL && found[0] != '(')
        return lua_pushstring(L, found);
    lua_pushvalue(L, hook);
    lua_getinfo(L, ">S", &ar);
    return lua_pushfstring(L, "the function of line %d", ar.linedefined);
}

/* The reducer is there already, so its logging data have this error, too. */
static int
refuse_hook(lua_State *L, struct task *me, const struct module *wrapper)
{
    struct ddp_inside inside;
    struct call       call = call_open(L, me, CALL_KEEP);
    ddp_look_inside(wrapper, &inside);
    failed(me, E_TYPE, "Communication hook must be callable: give a state, or nil, and then the hook, as "
                       "ddp:register_comm_hook(nil, hook)");
    return call_done(&call, ddp_tell_error(me, &inside));
}

void
register_comm_hook(lua_State *L, int index, int state, int function)
{
    struct task    *me      = script_task(L);
    struct module  *wrapper = check_module(L, index);
    struct reducer *reducer = ddp_reducer(wrapper);
    if (reducer == NULL)
        raise_error(L, "TypeError", "this is a method of DistributedDataParallel");
    state = lua_absindex(L, state);
    if (!lua_isfunction(L, function)) {
        refuse_hook(L, me, wrapper);
        return;
    }
    function = lua_absindex(L, function);
    const char      *name = push_hook_name(L, function);
    struct comm_hook hook = take_comm_hook(L, me, state, function);
    if (hook.name == NULL)
        hook.name = name;
    struct call call = call_open(L, me, CALL_KEEP);
    call_done(&call, hook.start != NULL && reducer_register_comm_hook(me, reducer, &hook));
}

int
l_register_comm_hook(lua_State *L)
{
    arg_most(L, 3);
    lua_settop(L, 3);
    register_comm_hook(L, 1, 2, 3);
    return 0;
}

struct comm_hook
lesson_comm_hook(lua_State *L, struct task *me, int state, int function)
{
    struct lua_hook *hook = hook_new(L, me, state, function);
    return (struct comm_hook){ .start = hook != NULL ? start_hook : NULL, .finish = finish_hook,
                               .forget = forget_answer, .drop = drop_hook, .context = hook };
}

/* ---- buffer hooks ---- */

struct buffer_call { const struct lua_hook *hook; struct reducer *reducer; const struct named_tensors *buffers; };

/* A Future's, or a list of them; nil: none. */
static void
install_futures(lua_State *L, struct task *me, struct reducer *reducer)
{
    struct future *future = box_test(L, -1, BOX_FUTURE);
    if (future != NULL) {
        if (!reducer_install_future(me, reducer, future_ref(me, future)))
            raise(L, me);
        return;
    }
    if (lua_isnil(L, -1))
        return;
    if (!lua_istable(L, -1))
        raise_error(L, "RuntimeError", "a buffer hook answers a list of Futures or nil, but got %s", push_what(L));
    for (lua_Integer i = 1, count = (lua_Integer)lua_rawlen(L, -1); i <= count; i++) {
        if (lua_rawgeti(L, -1, i) != LUA_TUSERDATA || box_test(L, -1, BOX_FUTURE) == NULL)
            raise_error(L, "RuntimeError", "a buffer hook answers a list of Futures or nil, but element %d is %s",
                        (int)i, push_what(L));
        install_futures(L, me, reducer);
        lua_pop(L, 1);
    }
}

static int
buffer_body(lua_State *L)
{
    struct buffer_call *call = lua_touserdata(L, 1);
    object_push(L, call->hook->function);
    object_push(L, call->hook->state);
    lua_createtable(L, 0, call->buffers->count);
    for (int i = 0; i < call->buffers->count; i++) {
        push_tensor(L, call->buffers->tensors[i]);
        lua_setfield(L, -2, call->buffers->names[i]);
    }
    lua_call(L, 2, 1);
    install_futures(L, script_of(L)->holder, call->reducer);
    return 0;
}

static bool
run_buffer_hook(struct task *me, void *context, struct reducer *reducer, const struct named_tensors *buffers)
{
    struct lua_hook   *hook = context;
    struct buffer_call call = { hook, reducer, buffers };
    return script_visit(me, hook->script, buffer_body, &call);
}

int
l_register_buffer_hook(lua_State *L)
{
    struct task   *me      = script_task(L);
    struct module *wrapper = check_module(L, 1);
    if (ddp_reducer(wrapper) == NULL)
        raise_error(L, "TypeError", "this is a method of DistributedDataParallel");
    arg_most(L, 4);
    if (!lua_isfunction(L, 3))
        raise_error(L, "TypeError", "Buffer communication hook must be callable.");
    const char *where = lua_isnoneornil(L, 4) ? "post_forward" : check_text(L, 4);
    bool before = strcasecmp(where, "pre_forward") == 0;
    if (!before && strcasecmp(where, "post_forward") != 0)
        raise_error(L, "ValueError", "a buffer hook runs at \"pre_forward\" or \"post_forward\", not \"%s\"", where);
    struct lua_hook *hook = hook_new(L, me, 2, 3);
    if (hook == NULL)
        raise(L, me);
    const struct buffer_hook own = { run_buffer_hook, drop_hook, hook, before };
    ddp_register_buffer_hook(me, wrapper, &own);
    return 0;
}

void
lua_open_comm_hook(lua_State *L)
{
    box_class(L, BOX_BUCKET, methods, countof(methods));
    lua_pop(L, 1);
    lua_open_ddp_comm_hooks(L);
}
