/* optimizer_overlap_hooks: a comm hook, then a step of the bucket's parameters; and the optimizers for it, which are
 * given one parameter and its gradient: rs.distributed.optim.as_functional_optim(optim.AdamW, {lr = 0.01}). A lesson's
 * own has a method step_param(param, grad).
 *
 * Interface: lua_open_optimizer_hooks; l_register_fused_optim. */
#include "lua/comm_hook.h"

#include "base/vec.h"
#include "device/cells.h"
#include "lua/optim.h"
#include "lua/rank.h"
#include "sched/task.h"

/* ---- functional optimizers ---- */

static int
l_step_param(lua_State *L)
{
    struct task       *me    = script_task(L);
    struct hook_state *state = box_check(L, 1, BOX_HOOK_STATE);
    struct tensor     *param = check_tensor(L, 2);
    struct tensor     *grad  = lua_isnil(L, 3) ? NULL : check_tensor(L, 3);
    arg_most(L, 3);
    struct call call = call_open(L, me, CALL_PLAIN);
    return call_done(&call, grad == NULL || functional_optimizer_step(me, state, param, grad));
}

static const struct lua_entry functional_methods[] = {
    { "step_param", l_step_param, "functional:step_param(param, grad)",
      "moves that parameter by that gradient: what hook_then_optimizer does with each of a bucket's" },
};

#define FUNCTIONAL_FIELD(name, field) \
    { name, FIELD_NUMBER, offsetof(struct functional_optimizer, options.field), false, NULL }

static const struct state_field functional_fields[] = { FUNCTIONAL_FIELD("lr", lr) };

/* Adagrad steps all its parameters at once only, as PyTorch's. */
static const struct state_class functional_classes[OPTIM_KINDS] = {
    [OPTIM_SGD]     = { "_FunctionalSGD", functional_fields, 1, functional_methods, countof(functional_methods) },
    [OPTIM_ADAM]    = { "_FunctionalAdam", functional_fields, 1, functional_methods, countof(functional_methods) },
    [OPTIM_ADAMW]   = { "_FunctionalAdamW", functional_fields, 1, functional_methods, countof(functional_methods) },
    [OPTIM_ADAGRAD] = { "_FunctionalAdagrad", functional_fields, 1, NULL, 0 },
};

static bool
is_functional(lua_State *L, int index)
{
    const struct state_class *class = state_class_at(L, index);
    return class != NULL && class->methods == functional_methods;
}

/* Of the optimizer at `optimizer` with the options at `table` (0: none), pushed. */
static void
push_functional(lua_State *L, int optimizer, int table)
{
    struct task *me   = script_task(L);
    int          kind = optim_kind_of(L, optimizer);
    if (kind < 0 || functional_classes[kind].name == NULL)
        raise_error(L, "ValueError", "this optimizer does not have a functional counterpart: optim.SGD, optim.Adam and "
                                     "optim.AdamW have one");
    struct optim_options options = check_optim_options(L, (enum optim_kind)kind, table);
    push_state_box(L, &functional_classes[kind]);
    struct functional_optimizer *functional = functional_optimizer_new(me, (enum optim_kind)kind, &options);
    if (functional == NULL)
        raise(L, me);
    fill_state_box(L, &functional->head);
}

static int
l_as_functional_optim(lua_State *L)
{
    arg_most(L, 2);
    lua_settop(L, 2);
    push_functional(L, 1, option_table(L, 2));
    return 1;
}

/* ---- the hook's state ---- */

static const struct state_class state_class = { "_OptimizerHookState", NULL, 0, NULL, 0 };

/* An optimizer that the lesson has written. */
struct lesson_optimizer { struct script *script; struct script_object *object; };
struct step_call { const struct lesson_optimizer *optimizer; struct tensor *param, *grad; };

static int
step_body(lua_State *L)
{
    const struct step_call *call = lua_touserdata(L, 1);
    object_push(L, call->optimizer->object);
    lua_getfield(L, -1, "step_param");
    lua_insert(L, -2);
    push_tensor(L, call->param);
    push_tensor(L, call->grad);
    lua_call(L, 3, 0);
    return 0;
}

static bool
step_lesson(struct task *me, void *context, struct tensor *param, struct tensor *grad)
{
    struct lesson_optimizer *optimizer = context;
    struct step_call         call      = { optimizer, param, grad };
    return script_visit(me, optimizer->script, step_body, &call);
}

static void
drop_lesson(struct task *me, void *context)
{
    struct lesson_optimizer *optimizer = context;
    object_free(me, optimizer->object);
    host_return(me, optimizer, sizeof *optimizer);
}

static bool
steps_params(lua_State *L, int index)
{
    if (!lua_istable(L, index))
        return false;
    bool steps = lua_getfield(L, index, "step_param") == LUA_TFUNCTION;
    lua_pop(L, 1);
    return steps;
}

/* Whose step it is: the optimizer at `index`. false: failed. */
static bool
set_step(lua_State *L, struct task *me, struct optimizer_hook_state *state, int index)
{
    if (is_functional(L, index)) {
        state->step    = functional_optimizer_step;
        state->drop    = hook_state_unref;
        state->context = hook_state_ref(box_check(L, index, BOX_HOOK_STATE));
        return true;
    }
    struct lesson_optimizer *optimizer = host_take(me, sizeof *optimizer);
    if (optimizer == NULL)
        return false;
    optimizer->script = script_of(L);
    optimizer->object = object_new(L, me, index, NULL);
    state->step       = step_lesson;
    state->drop       = drop_lesson;
    state->context    = optimizer;
    return optimizer->object != NULL;
}

/* Of the optimizer at `functional`, for the parameters in the list at `params` (0: all), pushed. */
static void
push_optimizer_state(lua_State *L, int functional, int params)
{
    struct task    *me    = script_task(L);
    int             count = 0;
    struct tensor **only  = NULL;
    if (!is_functional(L, functional) && !steps_params(L, functional)) {
        const struct state_class *class = state_class_at(L, functional);
        bool named = class == NULL && luaL_getmetafield(L, functional, "__name") == LUA_TSTRING;
        raise_error(L, "ValueError", "Class %s must implement method step_param.",
                    class != NULL ? class->name : named ? lua_tostring(L, -1) : luaL_typename(L, functional));
    }
    if (params != 0)
        only = check_tensors(L, params, &count);
    push_state_box(L, &state_class);
    struct optimizer_hook_state *state = optimizer_hook_state_new(me, only, count);
    if (state == NULL)
        raise(L, me);
    fill_state_box(L, &state->head);
    if (!set_step(L, me, state, functional))
        raise(L, me);
}

static int
l_optimizer_state(lua_State *L)
{
    arg_most(L, 2);
    lua_settop(L, 2);
    push_optimizer_state(L, 1, lua_isnil(L, 2) ? 0 : 2);
    return 1;
}

/* ---- the hook ---- */

static struct comm_hook
wrap_optimizer(lua_State *L, struct task *me, const struct comm_hook *inner, int more)
{
    return hook_then_optimizer(me, inner, box_test(L, more, BOX_HOOK_STATE));
}

static const struct hook_wrapper optimizer_wrapper = { wrap_optimizer };

static int
l_hook_then_optimizer(lua_State *L)
{
    arg_most(L, 2);
    check_state(L, 2, &state_class, "hook_then_optimizer");
    return push_wrapped_hook(L, &optimizer_wrapper, 1, 2);
}

/* ddp:_register_fused_optim(optim.SGD, {lr = 0.1, optim_params = {...}}) */
int
l_register_fused_optim(lua_State *L)
{
    arg_most(L, 3);
    lua_settop(L, 3);
    int table = option_table(L, 3), params = 0;
    if (table != 0 && option_push(L, table, "optim_params"))
        params = lua_gettop(L);
    lua_newtable(L);
    int options = lua_gettop(L);
    for (lua_pushnil(L); table != 0 && lua_next(L, table) != 0;) {
        lua_pushvalue(L, -2);
        lua_insert(L, -2);
        lua_rawset(L, options);
    }
    lua_pushnil(L);
    lua_setfield(L, options, "optim_params");
    push_functional(L, 2, options);
    push_optimizer_state(L, lua_gettop(L), params);
    int state = lua_gettop(L);
    push_allreduce_hook(L);
    push_wrapped_hook(L, &optimizer_wrapper, -1, state);
    lua_pushnil(L);
    register_comm_hook(L, 1, -1, -2);
    return 0;
}

#define HOOKS "dist.algorithms.ddp_comm_hooks.optimizer_overlap_hooks."

static const struct lua_entry entries[] = {
    { "_OptimizerHookState", l_optimizer_state,
      HOOKS "_OptimizerHookState(functional_optim, params)",
      "for hook_then_optimizer: whose step_param(param, grad) is called, and for which parameters, unless for all" },
    { "_hook_then_optimizer", l_hook_then_optimizer,
      HOOKS "_hook_then_optimizer(hook, optimizer_state)",
      "a comm hook: hook, then a step of the bucket's parameters with what it answers" },
    { "hook_then_optimizer", l_hook_then_optimizer,
      HOOKS "hook_then_optimizer(hook, optimizer_state)",
      "_hook_then_optimizer, by another name" },
};

static const struct lua_entry optim_entries[] = {
    { "as_functional_optim", l_as_functional_optim, "dist.optim.as_functional_optim(optim_cls, options)",
      "of optim.SGD, Adam or AdamW one that steps a parameter at a time: functional:step_param(param, grad)" },
};

void
lua_open_optimizer_hooks(lua_State *L)
{
    fill_namespace(L, "distributed.algorithms.ddp_comm_hooks.optimizer_overlap_hooks", entries, countof(entries));
    fill_namespace(L, "distributed.optim", optim_entries, countof(optim_entries));
}
