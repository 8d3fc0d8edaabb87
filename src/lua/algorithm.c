/* All-reduces that a lesson writes, of send and recv: dist.register_algorithm gives one a name, dist.all_reduce(t,
 * {algorithm = name}) runs it on the rank's comm task, inside of the collective's stage. Those that the lesson itself
 * registers travel to the ranks with the spawn. PyTorch has no such thing: gloo's and NCCL's are compiled in.
 *
 * Order of use: lua/rank.h; algorithm_begin, group_all_reduce with its custom_algorithm, algorithm_issued. */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include "autograd/node.h"
#include "base/vec.h"
#include "c10d/backend.h"
#include "device/cells.h"
#include "lua/dispatch.h"
#include "lua/futures.h"
#include "lua/rank.h"
#include "sched/task.h"

enum { NAME_BYTES = 24 };

static const char ALGORITHMS[] = "ringside.algorithms";

/* One call of it: from the issue until the work has ended. */
struct algorithm_run {
    struct custom_algorithm custom;
    struct work_listener    listener;
    struct script_object   *function;
    struct script          *script;
    struct futures         *futures;   /* held, so that the script waits for us at its end */
    struct process_group   *group;
    char                    name[NAME_BYTES];
};

/* ---- on the comm task ---- */

struct algorithm_call { const struct algorithm_run *run; struct tensor *tensor; enum reduce_op op; };

static int
algorithm_body(lua_State *L)
{
    const struct algorithm_call *call = lua_touserdata(L, 1);
    object_push(L, call->run->function);
    push_tensor(L, call->tensor);
    lua_pushstring(L, reduce_op_title(call->op));
    push_group(L, call->run->group);
    lua_call(L, 3, 0);
    return 0;
}

/* Who waits for the work reads this: which rank, which line. Errors about several ranks say so themselves. */
static void
name_failure(struct task *me, const struct algorithm_run *run)
{
    struct error *error = &me->error;
    char          text[sizeof error->message], line[32] = "";
    if (error->kind >= E_DEADLOCK || strncmp(error->message, "rank ", 5) == 0)
        return;
    if (error->lesson_line > 0)
        snprintf(line, sizeof line, " (line %" PRIu32 ")", error->lesson_line);
    snprintf(text, sizeof text, "algorithm '%s' on rank %d%s: %.1900s", run->name, me->rank, line, error->message);
    memcpy(error->message, text, sizeof text);
    error->payload = NULL;
}

/* Elements move, nothing is recorded. */
static bool
algorithm_run(struct task *me, void *context, struct tensor *tensor, enum reduce_op op)
{
    const struct algorithm_run *run  = context;
    struct algorithm_call       call = { run, tensor, op };
    bool before = grad_enabled(me);
    if (!object_open(run->function))
        return failed(me, E_RUNTIME, "the script of algorithm '%s' has ended", run->name);
    grad_set_enabled(me, false);
    bool ok = script_visit(me, run->script, algorithm_body, &call);
    grad_set_enabled(me, before);
    if (!ok)
        name_failure(me, run);
    return ok;
}

static void
algorithm_over(struct task *me, void *context, const struct error *unused)
{
    struct algorithm_run *run = context;
    (void)unused;
    bool open = object_open(run->function);
    object_free(me, run->function);
    if (open)                           /* a run that is stopped may have left us behind */
        script_visited(run->script);
    futures_release(me, run->futures);
    host_return(me, run, sizeof *run);
}

/* ---- on the rank's ---- */

struct algorithm_run *
algorithm_begin(lua_State *L, const char *name, struct process_group *group)
{
    struct task *me = script_task(L);
    if (name == NULL)
        return NULL;
    luaL_getsubtable(L, LUA_REGISTRYINDEX, ALGORITHMS);
    bool known = lua_getfield(L, -1, name) == LUA_TFUNCTION;
    if (!known) {
        lua_pop(L, 2);
        return NULL;
    }
    struct futures       *futures = futures_here(L);
    struct algorithm_run *run     = host_take(me, sizeof *run);
    if (run != NULL)
        *run = (struct algorithm_run){ .function = object_new(L, me, -1, name), .script = script_of(L),
                                       .futures = futures, .group = group };
    if (run == NULL || run->function == NULL) {
        host_return(me, run, sizeof *run);
        raise(L, me);
        return NULL;
    }
    lua_pop(L, 2);
    snprintf(run->name, sizeof run->name, "%s", name);
    run->custom   = (struct custom_algorithm){ .run = algorithm_run, .context = run, .name = run->name };
    run->listener = (struct work_listener){ .done = algorithm_over, .context = run };
    futures_hold(me, futures);
    script_expect(me, run->script);
    return run;
}

const struct custom_algorithm *
algorithm_custom(const struct algorithm_run *run)
{
    return run != NULL ? &run->custom : NULL;
}

void
algorithm_issued(struct task *me, struct algorithm_run *run, struct work *work)
{
    if (run != NULL && work != NULL)
        work_when_done(me, work, &run->listener);
    else if (run != NULL)
        algorithm_over(me, run, NULL);
}

/* dist.register_algorithm(name, function(tensor, op, group) ... end) */
static int
l_register_algorithm(lua_State *L)
{
    struct arguments a;
    script_task(L);
    take_arguments(L, &a);
    const char *name = a.at[0].text;
    if (name[0] == '\0' || strlen(name) >= NAME_BYTES)
        raise_error(L, "ValueError", "an algorithm's name has 1 to %d bytes", NAME_BYTES - 1);
    if (backend_local.has_algorithm(name))
        raise_error(L, "ValueError", "'%s' is built in: give yours another name", name);
    luaL_getsubtable(L, LUA_REGISTRYINDEX, ALGORITHMS);
    lua_pushvalue(L, (int)a.at[1].integer[0]);
    lua_setfield(L, -2, name);
    return 0;
}

/* A copy: what is in the registry itself every script has by name. */
void
push_algorithms(lua_State *L)
{
    lua_newtable(L);
    luaL_getsubtable(L, LUA_REGISTRYINDEX, ALGORITHMS);
    for (lua_pushnil(L); lua_next(L, -2) != 0;) {
        lua_pushvalue(L, -2);
        lua_insert(L, -2);
        lua_rawset(L, -5);
    }
    lua_pop(L, 1);
}

void
take_algorithms(lua_State *L)
{
    lua_setfield(L, LUA_REGISTRYINDEX, ALGORITHMS);
}

static const struct lua_entry entries[] = {
    { "register_algorithm", l_register_algorithm, "dist.register_algorithm(str name, function f) -> any",
      "f(tensor, op, group) all-reduces in place, by send and recv; dist.all_reduce(t, {algorithm = name}) runs it on "
      "the rank's comm task" },
};

void
lua_open_algorithms(lua_State *L)
{
    fill_namespace(L, "distributed", entries, countof(entries));
}
