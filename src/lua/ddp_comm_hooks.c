/* rs.distributed.algorithms.ddp_comm_hooks: PyTorch's communication hooks by their names. Each is a function of
 * (state, bucket) that answers a Future. ddp:register_comm_hook knows them and gives the reducer the C hook itself; a
 * lesson's own hook may call them and do something before or after.
 *
 * A call makes the hook, starts it with the bucket and answers a future that is due (futures.h): the hook's second half
 * runs where the lesson or the reducer waits.
 *
 * Interface: comm_hook.h. */
#include "lua/comm_hook.h"

#include <stddef.h>
#include "base/vec.h"
#include "device/cells.h"
#include "lua/dispatch.h"
#include "lua/futures.h"
#include "lua/rank.h"
#include "sched/task.h"

static const struct library_hook *const libraries[] = { plain_hooks, powersgd_hooks };

/* ---- which hook a function is ---- */

static const struct library_hook *
find_library_hook(lua_State *L, int function)
{
    lua_CFunction known = lua_tocfunction(L, function);
    for (size_t i = 0; known != NULL && i < countof(libraries); i++)
        for (const struct library_hook *hook = libraries[i]; hook->function != NULL; hook++)
            if (hook->function == known)
                return hook;
    return NULL;
}

enum { WRAPPER = 1, WRAPPED, MORE };      /* upvalues of a wrapper */
enum { WRAPPERS_MOST = 100 };             /* around one another */

static int l_call_wrapper(lua_State *L);

static struct comm_hook
take_wrapper(lua_State *L, struct task *me, int state, int function)
{
    luaL_checkstack(L, 8, "too many wrappers");
    lua_getupvalue(L, function, MORE);
    lua_getupvalue(L, function, WRAPPED);
    lua_getupvalue(L, function, WRAPPER);
    const struct hook_wrapper *wrapper = lua_touserdata(L, -1);
    int                        hook    = lua_gettop(L) - 1;
    struct comm_hook           inner   = take_comm_hook(L, me, state, hook);
    struct comm_hook           whole   = inner.start != NULL ? wrapper->wrap(L, me, &inner, hook - 1) : inner;
    lua_settop(L, hook - 2);
    return whole;
}

struct comm_hook
take_comm_hook(lua_State *L, struct task *me, int state, int function)
{
    state    = lua_absindex(L, state);
    function = lua_absindex(L, function);
    const struct library_hook *hook = find_library_hook(L, function);
    if (hook != NULL)
        return hook->make(L, me, state);
    if (lua_tocfunction(L, function) == l_call_wrapper)
        return take_wrapper(L, me, state, function);
    return lesson_comm_hook(L, me, state, function);
}

struct process_group *
hook_group(lua_State *L, int state)
{
    if (lua_isnil(L, state))
        return group_here(L);
    if (box_test(L, state, BOX_GROUP) == NULL)
        raise_error(L, "TypeError", "this hook takes a process group for its state, or nil for the default group, but "
                                    "got %s", luaL_typename(L, state));
    return check_group(L, state);
}

/* ---- a call of one ---- */

struct hook_run { struct comm_hook hook; void *started; };

static void
drop_run(struct task *me, void *object)
{
    struct hook_run *run = object;
    if (run->started != NULL)
        run->hook.forget(me, run->hook.context, run->started);
    if (run->hook.start != NULL)
        run->hook.drop(me, run->hook.context);
    host_return(me, run, sizeof *run);
}

/* What the due future calls: upvalue 1 is the run. */
static int
end_run(lua_State *L)
{
    struct task     *me      = script_task(L);
    struct hook_run *run     = box_check(L, lua_upvalueindex(1), BOX_HOOK_RUN);
    void            *started = run->started;
    run->started = NULL;
    struct call    call   = call_open(L, me, CALL_BACK);
    struct tensor *result = run->hook.finish(me, run->hook.context, started);
    call_end(&call, result != NULL);
    push_tensor(L, result);
    return call_leave(&call, 1);
}

/* The function at `function`, called with state and bucket, arguments 1 and 2. */
static int
run_hook(lua_State *L, int function)
{
    struct task *me = script_task(L);
    box_check(L, 2, BOX_BUCKET);
    box_push(L, BOX_HOOK_RUN, 0);
    struct hook_run *run = host_take(me, sizeof *run);
    if (run == NULL)
        raise(L, me);
    box_fill(L, run, drop_run, false);
    int box   = lua_gettop(L);
    run->hook = take_comm_hook(L, me, 1, function);
    if (run->hook.start == NULL)
        raise(L, me);
    struct grad_bucket bucket = bucket_at(L, 2);
    struct call        call   = call_open(L, me, CALL_BACK);
    run->started = run->hook.start(me, run->hook.context, &bucket);
    call_done(&call, run->started != NULL);
    lua_pushvalue(L, box);
    lua_pushcclosure(L, end_run, 1);
    push_due_future(L, -1);
    return 1;
}

/* The function that runs now, pushed. */
static void
push_running(lua_State *L)
{
    lua_Debug ar;
    lua_getstack(L, 0, &ar);
    lua_getinfo(L, "f", &ar);
}

int
l_call_library_hook(lua_State *L)
{
    arg_most(L, 2);
    lua_settop(L, 2);
    push_running(L);
    return run_hook(L, 3);
}

static int
l_call_wrapper(lua_State *L)
{
    return l_call_library_hook(L);
}

/* Around the hook at `hook`, from the outermost one inwards. */
static int
count_wrappers(lua_State *L, int hook)
{
    int top = lua_gettop(L), count = 0;
    lua_pushvalue(L, hook);
    for (; count < WRAPPERS_MOST && lua_tocfunction(L, -1) == l_call_wrapper; count++) {
        lua_getupvalue(L, -1, WRAPPED);
        lua_remove(L, -2);
    }
    lua_settop(L, top);
    return count;
}

int
push_wrapped_hook(lua_State *L, const struct hook_wrapper *wrapper, int hook, int more)
{
    hook = lua_absindex(L, hook);
    check_function(L, hook);
    if (count_wrappers(L, hook) == WRAPPERS_MOST)
        raise_error(L, "ValueError", "this hook has %d wrappers around it already", (int)WRAPPERS_MOST);
    if (more != 0)
        lua_pushvalue(L, more);
    else
        lua_pushnil(L);
    lua_pushlightuserdata(L, (void *)(uintptr_t)wrapper);
    lua_insert(L, -2);
    lua_pushvalue(L, hook);
    lua_insert(L, -2);
    lua_pushcclosure(L, l_call_wrapper, 3);
    return 1;
}

/* ---- hooks whose state is a group ---- */

static int l_allreduce_hook(lua_State *L) { return l_call_library_hook(L); }
static int l_fp16_compress_hook(lua_State *L) { return l_call_library_hook(L); }
static int l_bf16_compress_hook(lua_State *L) { return l_call_library_hook(L); }
static int l_pertensor_hook(lua_State *L) { return l_call_library_hook(L); }
static int l_perchannel_hook(lua_State *L) { return l_call_library_hook(L); }
static int l_noop_hook(lua_State *L) { return l_call_library_hook(L); }
static int l_post_local_hook(lua_State *L) { return l_call_library_hook(L); }

static struct comm_hook
hook_of_group(lua_State *L, struct task *me, int state, struct comm_hook (*hook)(struct process_group *group))
{
    struct process_group *group = hook_group(L, state);
    if (group != NULL)
        return hook(group);
    failed(me, E_VALUE, "this rank is no member of the hook's group");
    return (struct comm_hook){ 0 };
}

static struct comm_hook
make_allreduce(lua_State *L, struct task *me, int state)
{
    return hook_of_group(L, me, state, allreduce_hook);
}

static struct comm_hook
make_fp16_compress(lua_State *L, struct task *me, int state)
{
    return hook_of_group(L, me, state, fp16_compress_hook);
}

static struct comm_hook
make_bf16_compress(lua_State *L, struct task *me, int state)
{
    return hook_of_group(L, me, state, bf16_compress_hook);
}

static struct comm_hook
make_pertensor(lua_State *L, struct task *me, int state)
{
    return hook_of_group(L, me, state, quantization_pertensor_hook);
}

static struct comm_hook
make_perchannel(lua_State *L, struct task *me, int state)
{
    return hook_of_group(L, me, state, quantization_perchannel_hook);
}

static struct comm_hook
make_noop(lua_State *L, struct task *me, int state)
{
    (void)L, (void)me, (void)state;
    return noop_hook();
}

/* ---- post_localSGD_hook ---- */

#define LOCAL_FIELD(name, type, field) { name, type, offsetof(struct post_local_sgd_state, field), false, NULL }

static const struct state_field local_fields[] = {
    LOCAL_FIELD("process_group", FIELD_GROUP, group),
    LOCAL_FIELD("subgroup", FIELD_GROUP, subgroup),
    LOCAL_FIELD("start_localSGD_iter", FIELD_INTEGER, start_iter),
    LOCAL_FIELD("post_local_gradient_allreduce", FIELD_FLAG, post_local_allreduce),
    LOCAL_FIELD("iter", FIELD_INTEGER, iter),
};
static const struct state_class local_class = { "PostLocalSGDState", local_fields, countof(local_fields), NULL, 0 };

static struct process_group *
optional_group(lua_State *L, const struct argument *given)
{
    return given->none ? NULL : check_group(L, (int)given->integer[0]);
}

static int
l_post_local_state(lua_State *L)
{
    struct task     *me = script_task(L);
    struct arguments a;
    take_arguments(L, &a);
    struct process_group *group = optional_group(L, &a.at[0]), *subgroup = optional_group(L, &a.at[1]);
    push_state_box(L, &local_class);
    struct post_local_sgd_state *state = post_local_sgd_state_new(me);
    if (state == NULL)
        return raise(L, me);
    fill_state_box(L, &state->head);
    state->group                = group;
    state->subgroup             = subgroup;
    state->start_iter           = a.at[2].integer[0];
    state->post_local_allreduce = a.at[3].integer[0] != 0;
    return 1;
}

static struct comm_hook
make_post_local(lua_State *L, struct task *me, int state)
{
    struct hook_state           *head  = check_state(L, state, &local_class, "post_localSGD_hook");
    struct post_local_sgd_state *local = (struct post_local_sgd_state *)head;
    (void)me;
    local->world = group_here(L);
    return post_local_sgd_hook(local);
}

const struct library_hook plain_hooks[] = {
    { l_allreduce_hook, make_allreduce },
    { l_fp16_compress_hook, make_fp16_compress },
    { l_bf16_compress_hook, make_bf16_compress },
    { l_pertensor_hook, make_pertensor },
    { l_perchannel_hook, make_perchannel },
    { l_post_local_hook, make_post_local },
    { l_noop_hook, make_noop },
    { NULL, NULL },
};

/* ---- wrappers ---- */

static struct comm_hook
wrap_fp16(lua_State *L, struct task *me, const struct comm_hook *inner, int more)
{
    (void)L, (void)more;
    return fp16_compress_wrapper(me, inner);
}

static struct comm_hook
wrap_bf16(lua_State *L, struct task *me, const struct comm_hook *inner, int more)
{
    (void)L, (void)more;
    return bf16_compress_wrapper(me, inner);
}

static const struct hook_wrapper fp16_wrapper = { wrap_fp16 }, bf16_wrapper = { wrap_bf16 };

static int
l_fp16_compress_wrapper(lua_State *L)
{
    arg_most(L, 1);
    return push_wrapped_hook(L, &fp16_wrapper, 1, 0);
}

static int
l_bf16_compress_wrapper(lua_State *L)
{
    arg_most(L, 1);
    return push_wrapped_hook(L, &bf16_wrapper, 1, 0);
}

void
push_allreduce_hook(lua_State *L)
{
    lua_pushcfunction(L, l_allreduce_hook);
}

/* ---- names ---- */

#define LIBRARY "distributed.algorithms.ddp_comm_hooks."
#define HOOKS   "dist.algorithms.ddp_comm_hooks."

static const struct lua_entry default_entries[] = {
    { "allreduce_hook", l_allreduce_hook, HOOKS "default_hooks.allreduce_hook(process_group, bucket)",
      "a comm hook: the bucket divided by the ranks, then an all-reduce, which is what DDP does without a hook" },
    { "fp16_compress_hook", l_fp16_compress_hook, HOOKS "default_hooks.fp16_compress_hook(process_group, bucket)",
      "a comm hook: the bucket becomes float16, is divided and all-reduced so, and becomes what it was again" },
    { "bf16_compress_hook", l_bf16_compress_hook, HOOKS "default_hooks.bf16_compress_hook(process_group, bucket)",
      "a comm hook: the same in bfloat16, which has float32's range and some three digits" },
    { "fp16_compress_wrapper", l_fp16_compress_wrapper, HOOKS "default_hooks.fp16_compress_wrapper(hook)",
      "a comm hook: hook with a bucket that was cast to float16 before" },
    { "bf16_compress_wrapper", l_bf16_compress_wrapper, HOOKS "default_hooks.bf16_compress_wrapper(hook)",
      "a comm hook: hook with a bucket that was cast to bfloat16 before" },
};

static const struct lua_entry quantization_entries[] = {
    { "quantization_pertensor_hook", l_pertensor_hook,
      HOOKS "quantization_hooks.quantization_pertensor_hook(process_group, bucket)",
      "a comm hook: each rank's bucket in 8 bits, with one scale; two all-gathers, then the mean" },
    { "quantization_perchannel_hook", l_perchannel_hook,
      HOOKS "quantization_hooks.quantization_perchannel_hook(process_group, bucket)",
      "a comm hook: the same with a scale for each 512 elements" },
};

static const struct lua_entry local_entries[] = {
    { "PostLocalSGDState", l_post_local_state,
      HOOKS "post_localSGD_hook.PostLocalSGDState(any? process_group=None, any? subgroup=None, "
      "int start_localSGD_iter, bool post_local_gradient_allreduce=True) -> any",
      "the state of post_localSGD_hook: who averages gradients, and from which iteration on. state.iter counts" },
    { "post_localSGD_hook", l_post_local_hook, HOOKS "post_localSGD_hook.post_localSGD_hook(state, bucket)",
      "a comm hook: averages gradients over all ranks at first, then in state.subgroup only, or not at all" },
};

static const struct lua_entry debugging_entries[] = {
    { "noop_hook", l_noop_hook, HOOKS "debugging_hooks.noop_hook(_, bucket)",
      "a comm hook that does nothing: each rank keeps its own gradients, undivided. To measure what the others cost" },
};

void
lua_open_ddp_comm_hooks(lua_State *L)
{
    box_class(L, BOX_HOOK_RUN, NULL, 0);
    lua_pop(L, 1);
    lua_open_hook_states(L);
    fill_namespace(L, LIBRARY "default_hooks", default_entries, countof(default_entries));
    fill_namespace(L, LIBRARY "quantization_hooks", quantization_entries, countof(quantization_entries));
    fill_namespace(L, LIBRARY "post_localSGD_hook", local_entries, countof(local_entries));
    fill_namespace(L, LIBRARY "debugging_hooks", debugging_entries, countof(debugging_entries));
    lua_open_optimizer_hooks(L);
    lua_open_comm_hook_types(L);
    lua_open_powersgd(L);
}
