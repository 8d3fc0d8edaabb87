/* Join in Lua: rs.distributed.algorithms, and ddp:join. The body is a function; Join.__exit__ follows its last line.
 *
 *     algorithms.Join({ ddp, counter }, function() for _, x in ipairs(inputs) do ... end end)
 *     ddp:join({ divide_by_initial_world_size = false }, function() ... end)
 *
 * A joinable of the lesson's own is an object with join_hook(self, kwargs), join_device and join_process_group (fields,
 * as PyTorch's properties, or functions); its class may come from algorithms.Joinable. What join_hook answers has
 * main_hook(self) and post_hook(self, is_last_joiner), either of which may be missing.
 *
 * Interface: l_ddp_join, push_ddp_join_config, lua_open_join. */
#include <string.h>
#include "base/vec.h"
#include "lua/internal.h"
#include "lua/rank.h"
#include "parallel/distributed_data_parallel.h"
#include "parallel/join.h"
#include "sched/task.h"

static const char JOINABLE[] = "ringside.joinable_class", JOIN_HOOK[] = "ringside.join_hook_class";
static const char JOINABLE_OBJECT[] = "ringside.joinable", JOIN_HOOK_OBJECT[] = "ringside.join_hook";
static const char JOIN[] = "ringside.join", CONFIG[] = "_join_config";

/* ---- classes that a lesson writes ---- */

static int
class_call(lua_State *L, const char *object)
{
    lua_newtable(L);
    luaL_setmetatable(L, object);
    lua_pushliteral(L, "__class");
    lua_pushvalue(L, 1);
    lua_rawset(L, -3);
    lua_insert(L, 2); /* class, object, arguments */
    return init_object(L);
}

static int
joinable_class_call(lua_State *L)
{
    return class_call(L, JOINABLE_OBJECT);
}

static int
join_hook_class_call(lua_State *L)
{
    return class_call(L, JOIN_HOOK_OBJECT);
}

static int
l_joinable(lua_State *L)
{
    return declare_class(L, JOINABLE, "a class made by algorithms.Joinable");
}

static int
l_join_hook(lua_State *L)
{
    return declare_class(L, JOIN_HOOK, "a class made by algorithms.JoinHook");
}

static int
object_index(lua_State *L)
{
    lua_pushliteral(L, "__class");
    if (lua_rawget(L, 1) != LUA_TTABLE)
        return 0;
    lua_pushvalue(L, 2);
    lua_gettable(L, -2);
    return 1;
}

/* object(...) calls its class's function forward, as a module's does. */
static int
object_call(lua_State *L)
{
    if (lua_getfield(L, 1, "forward") != LUA_TFUNCTION)
        raise_error(L, "TypeError", "this joinable cannot be called: its class has no function \"forward\"");
    lua_insert(L, 1);
    lua_call(L, lua_gettop(L) - 1, LUA_MULTRET);
    return lua_gettop(L);
}

/* ---- how a joinable takes part ---- */

static void
push_config(lua_State *L, const struct join_config *config)
{
    lua_createtable(L, 0, 3);
    set_flag(L, -1, "enable", config->enable);
    set_flag(L, -1, "throw_on_early_termination", config->throw_on_early_termination);
    set_flag(L, -1, "is_first_joinable", config->is_first_joinable);
}

bool
push_ddp_join_config(lua_State *L, const struct module *module)
{
    struct join_config config;
    if (!ddp_join_config(module, &config))
        return false;
    push_config(L, &config);
    return true;
}

static struct module *
test_ddp(lua_State *L, int index)
{
    struct module *module = test_module(L, index);
    return ddp_module(module) != NULL ? module : NULL;
}

static void
set_config(lua_State *L, int joinable, const struct join_config *config)
{
    struct module *ddp = test_ddp(L, joinable);
    if (ddp != NULL) {
        ddp_set_join(script_task(L), ddp, config);
        return;
    }
    joinable = lua_absindex(L, joinable);
    push_config(L, config);
    lua_setfield(L, joinable, CONFIG);
}

/* What the joinable at the index has under `name`: a value, or a function that answers it. Pushed. */
static void
push_property(lua_State *L, int index, const char *name)
{
    index = lua_absindex(L, index);
    if (lua_getfield(L, index, name) == LUA_TFUNCTION) {
        lua_pushvalue(L, index);
        lua_call(L, 1, 1);
    }
    if (lua_isnil(L, -1))
        raise_error(L, "NotImplementedError", "this joinable has no %s: set it, or write a function that answers it",
                    name);
}

static struct joinable
joinable_place(lua_State *L, int index)
{
    struct joinable place = { .device = DEVICE_CPU };
    push_property(L, index, "join_device");
    place.device = check_device(L, -1);
    push_property(L, index, "join_process_group");
    place.group = check_group(L, -1);
    if (place.group == NULL)
        raise_error(L, "ValueError", "join_process_group: this rank is no member of that group");
    lua_pop(L, 2);
    return place;
}

/* ---- hooks of the lesson's own ---- */

struct lua_join_hook { struct script *script; struct script_object *hook; };

struct hook_visit { const struct lua_join_hook *hook; const char *name; int arguments; bool is_last_joiner; };

static int
hook_body(lua_State *L)
{
    const struct hook_visit *visit = lua_touserdata(L, 1);
    object_push(L, visit->hook->hook);
    if (lua_getfield(L, -1, visit->name) == LUA_TNIL)
        return 0;
    lua_insert(L, -2);
    if (visit->arguments > 0)
        lua_pushboolean(L, visit->is_last_joiner);
    lua_call(L, 1 + visit->arguments, 0);
    return 0;
}

static bool
lua_main_hook(struct task *me, void *context)
{
    struct lua_join_hook *hook  = context;
    struct hook_visit     visit = { hook, "main_hook", 0, false };
    return script_visit(me, hook->script, hook_body, &visit);
}

static bool
lua_post_hook(struct task *me, void *context, bool is_last_joiner)
{
    struct lua_join_hook *hook  = context;
    struct hook_visit     visit = { hook, "post_hook", 1, is_last_joiner };
    return script_visit(me, hook->script, hook_body, &visit);
}

/* ---- a Join ---- */

/* Lua's memory, as the stack holds it. */
struct lua_join {
    struct join           join;
    struct joinable      *joinables;
    struct lua_join_hook *hooks;
};

static int
drop_join(lua_State *L)
{
    struct lua_join *own = lua_touserdata(L, 1);
    for (int i = 0; i < own->join.count; i++)
        object_free(script_of(L)->holder, own->hooks[i].hook);
    own->join.count = 0;
    return 0;
}

static struct lua_join *
push_join(lua_State *L, int count)
{
    size_t           bytes = sizeof(struct lua_join) + (size_t)count * (sizeof(struct joinable) +
                                                                        sizeof(struct lua_join_hook));
    struct lua_join *own   = push_owned(L, bytes, JOIN, drop_join);
    own->joinables      = (struct joinable *)(own + 1);
    own->hooks          = (struct lua_join_hook *)(own->joinables + count);
    own->join.joinables = own->joinables;
    return own;
}

/* join_hook(self, kwargs) of the joinable at the top is called; what it answers is kept. */
static void
take_lua_hook(lua_State *L, struct lua_join *own, int kwargs)
{
    struct lua_join_hook *hook = &own->hooks[own->join.count];
    int                   self = lua_gettop(L);
    if (!lua_istable(L, self) && test_module(L, self) == NULL)
        raise_error(L, "TypeError", "a joinable is a DistributedDataParallel or an object with join_hook, join_device "
                                    "and join_process_group, not %s", luaL_typename(L, self));
    if (lua_getfield(L, self, "join_hook") != LUA_TFUNCTION)
        raise_error(L, "NotImplementedError", "joinable %d has no function join_hook(self, kwargs)",
                    own->join.count + 1);
    lua_pushvalue(L, self);
    lua_pushvalue(L, kwargs);
    lua_call(L, 2, 1);
    if (!lua_istable(L, -1))
        raise_error(L, "TypeError", "join_hook answers a JoinHook, an object with main_hook and post_hook, not %s",
                    luaL_typename(L, -1));
    struct joinable place = joinable_place(L, self);
    place.main_hook = lua_main_hook;
    place.post_hook = lua_post_hook;
    place.context   = hook;
    *hook = (struct lua_join_hook){ .script = script_of(L), .hook = object_new(L, script_task(L), -1, NULL) };
    own->joinables[own->join.count++] = place;
    if (hook->hook == NULL)
        raise(L, script_task(L));
    lua_pop(L, 1);
}

static void
take_ddp(lua_State *L, struct lua_join *own, struct module *ddp, int kwargs)
{
    bool initial = true;
    if (kwargs != 0)
        initial = option_bool(L, kwargs, "divide_by_initial_world_size", true);
    ddp_joinable(ddp, &own->joinables[own->join.count++]);
    ddp_divide_by_initial_world_size(ddp, initial);
}

/* The joinables in the list at `list` with their hooks. */
static struct lua_join *
take_joinables(lua_State *L, int list, int kwargs)
{
    int              count = (int)lua_rawlen(L, list);
    struct lua_join *own   = push_join(L, count);
    for (int i = 0; i < count; i++) {
        lua_rawgeti(L, list, i + 1);
        struct module *ddp = test_ddp(L, -1);
        if (ddp != NULL)
            take_ddp(L, own, ddp, kwargs);
        else
            take_lua_hook(L, own, kwargs);
        lua_pop(L, 1);
    }
    return own;
}

static void
set_configs(lua_State *L, int list, const struct join *join)
{
    const struct join_config over = { 0 };
    for (int i = 0; i < join->count; i++) {
        const struct join_config config = join->enable ? join_config_of(join, i) : over;
        lua_rawgeti(L, list, i + 1);
        set_config(L, -1, &config);
        lua_pop(L, 1);
    }
}

/* The body is called; if it ends well, the rest is join_exit's. An error of the body skips that: the ranks that wait
 * for this one are told when it ends. PyTorch leaves the joinables as they are; here the Join is over for them. */
static int
run_join(lua_State *L, struct lua_join *own, int list, int body)
{
    struct join over  = own->join;
    int         first = lua_gettop(L) + 1;
    set_configs(L, list, &own->join);
    lua_pushvalue(L, body);
    bool ok = lua_pcall(L, 0, LUA_MULTRET, 0) == LUA_OK;
    over.enable = false;
    if (!ok) {
        set_configs(L, list, &over);
        return lua_error(L);
    }
    struct task *me   = script_task(L);
    struct call  call = call_open(L, me, CALL_BACK);
    bool         done = join_exit(me, &own->join);
    call_close(&call);
    set_configs(L, list, &over);
    call_leave(&call, 0);
    if (!done)
        return raise(L, me);
    return lua_gettop(L) - first + 1;
}

/* What follows `from`: flags by their place, a table of options, the body. The table of all options is pushed. */
static int
take_options(lua_State *L, int from, const char *const *names, int *body)
{
    int last = lua_gettop(L), flags = 0, given = 0;
    *body = 0;
    for (int i = from; i <= last; i++) {
        if (lua_isfunction(L, i) && *body == 0)
            *body = i;
        else if (is_plain_table(L, i) && given == 0)
            given = i;
        else if (lua_isboolean(L, i) && names[flags] != NULL && given == 0 && *body == 0)
            flags++;
        else if (!lua_isnil(L, i))
            arg_error(L, i, "a flag, a table of options or the function that is the body");
    }
    if (*body == 0)
        raise_error(L, "TypeError", "a Join needs its body: give the function that goes through the inputs, "
                                   "as ddp:join(function() ... end)");
    lua_newtable(L);
    for (int i = 0; i < flags; i++) {
        lua_pushvalue(L, from + i);
        lua_setfield(L, -2, names[i]);
    }
    for (lua_pushnil(L); given != 0 && lua_next(L, given) != 0;) {
        lua_pushvalue(L, -2);
        lua_insert(L, -2);
        lua_rawset(L, last + 1);
    }
    return last + 1;
}

static int
join_with(lua_State *L, int list, int options, int body)
{
    struct task *me        = script_task(L);
    bool         enable    = option_bool(L, options, "enable", true);
    bool         throws    = option_bool(L, options, "throw_on_early_termination", false);
    const char  *not_kwargs[] = { "enable", "throw_on_early_termination" };
    for (size_t i = 0; i < countof(not_kwargs); i++) {
        lua_pushnil(L);
        lua_setfield(L, options, not_kwargs[i]);
    }
    struct lua_join *own = take_joinables(L, list, options);
    own->join.enable                     = enable;
    own->join.throw_on_early_termination = throws;
    struct call call = call_open(L, me, CALL_KEEP);
    call_done(&call, join_check(me, &own->join));
    return run_join(L, own, list, body);
}

/* The list at the index gives way to a copy: what the body does to the lesson's own is no business of this Join, which
 * holds its joinables until it is over. */
static void
own_list(lua_State *L, int index)
{
    lua_Integer count = (lua_Integer)lua_rawlen(L, index);
    lua_createtable(L, (int)count, 0);
    for (lua_Integer i = 1; i <= count; i++) {
        lua_rawgeti(L, index, i);
        lua_rawseti(L, -2, i);
    }
    lua_replace(L, index);
}

/* algorithms.Join(joinables [, enable [, throw_on_early_termination]] [, options], f) */
static int
l_join(lua_State *L)
{
    static const char *const names[] = { "enable", "throw_on_early_termination", NULL };
    int body;
    check_table(L, 1);
    list_only(L, 1);
    own_list(L, 1);
    int options = take_options(L, 2, names, &body);
    return join_with(L, 1, options, body);
}

/* ddp:join([divide_by_initial_world_size [, enable [, throw_on_early_termination]]] [, options], f) */
int
l_ddp_join(lua_State *L)
{
    static const char *const names[] = { "divide_by_initial_world_size", "enable", "throw_on_early_termination", NULL };
    int body;
    if (test_ddp(L, 1) == NULL)
        raise_error(L, "TypeError", "this is a method of DistributedDataParallel");
    int options = take_options(L, 2, names, &body);
    option_known(L, options, "divide_by_initial_world_size enable throw_on_early_termination");
    lua_createtable(L, 1, 0);
    lua_pushvalue(L, 1);
    lua_rawseti(L, -2, 1);
    return join_with(L, lua_gettop(L), options, body);
}

/* ---- Join.notify_join_context ---- */

static struct join_config
check_config(lua_State *L, int index)
{
    struct join_config config = { 0 };
    struct module     *ddp    = test_ddp(L, index);
    if (ddp != NULL) {
        ddp_join_config(ddp, &config);
        return config;
    }
    if (has_class(L, index, JOINABLE_OBJECT) && lua_getfield(L, index, CONFIG) == LUA_TNIL)
        return config;
    if ((!lua_istable(L, index) && test_module(L, index) == NULL) || lua_getfield(L, index, CONFIG) != LUA_TTABLE)
        raise_error(L, "AssertionError", "Check that the %s constructor calls the Joinable constructor: it is no "
                                         "joinable, nor was it given to a Join", luaL_typename(L, index));
    int table = lua_gettop(L);
    config.enable                     = option_bool(L, table, "enable", false);
    config.throw_on_early_termination = option_bool(L, table, "throw_on_early_termination", false);
    config.is_first_joinable          = option_bool(L, table, "is_first_joinable", false);
    return config;
}

/* A Work for the first joinable in an enabled Join, nil for all others. */
static int
l_notify(lua_State *L)
{
    struct task *me = script_task(L);
    arg_most(L, 1);
    const struct join_config config = check_config(L, 1);
    if (!config.enable || !config.is_first_joinable)
        return 0;
    struct joinable place;
    struct module  *ddp  = test_ddp(L, 1);
    struct live_ranks live = { 0 };
    if (ddp == NULL)
        place = joinable_place(L, 1);
    else
        ddp_joinable(ddp, &place);
    lua_pushnil(L);
    push_work_box(L, lua_gettop(L));
    struct call call = call_open(L, me, CALL_BACK);
    bool        done = join_notify_context(me, &config, &place, &live);
    if (!done)
        live_ranks_forget(me, &live);
    call_end(&call, done);
    fill_work_box(L, live.work);
    live.work = NULL;
    push_tensor(L, live.ones);
    lua_setiuservalue(L, -2, 1);
    live_ranks_forget(me, &live);
    return call_leave(&call, 1);
}

/* ---- their names ---- */

static const struct lua_entry entries[] = {
    { "Join", l_join,
      "dist.algorithms.Join(joinables [, enable [, throw_on_early_termination]] [, {enable, "
      "throw_on_early_termination, ...}], f)",
      "calls f, in which each rank goes through its own number of inputs; a rank whose f is done makes the others' "
      "collectives with them until all are. Answers f's results" },
    { "Joinable", l_joinable, "dist.algorithms.Joinable(name, base)",
      "a class of what makes collectives in each iteration: give it join_hook(self, kwargs), join_device and "
      "join_process_group, and call Join.notify_join_context(self) before an iteration's first collective" },
    { "JoinHook", l_join_hook, "dist.algorithms.JoinHook(name, base)",
      "a class of what join_hook answers: give it main_hook(self), which makes one iteration's collectives for a rank "
      "without inputs, and post_hook(self, is_last_joiner)" },
};

static const struct lua_entry statics[] = {
    { "notify_join_context", l_notify, "dist.algorithms.Join.notify_join_context(joinable)",
      "tells the ranks without inputs that this one begins an iteration; answers a Work of the first joinable, nil of "
      "others and outside of a Join" },
};

static void
open_objects(lua_State *L, const char *name, lua_CFunction call)
{
    luaL_newmetatable(L, name);
    lua_pushcfunction(L, object_index);
    lua_setfield(L, -2, "__index");
    if (call != NULL) {
        lua_pushcfunction(L, call);
        lua_setfield(L, -2, "__call");
    }
    lua_pop(L, 1);
}

void
lua_open_join(lua_State *L)
{
    open_class_family(L, JOINABLE, joinable_class_call);
    open_class_family(L, JOIN_HOOK, join_hook_class_call);
    open_objects(L, JOINABLE_OBJECT, object_call);
    open_objects(L, JOIN_HOOK_OBJECT, NULL);
    open_namespace(L, "distributed.algorithms", entries, countof(entries));
    make_class(L, "rs.distributed.algorithms.Join", statics, countof(statics));
    lua_pop(L, 1);
}
