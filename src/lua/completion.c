/* Hooks of a lesson on the collectives of a group: each is called with what ended, on the rank's comm task. As
 * ProcessGroup._register_on_completion_hook, whose WorkInfo is a table here; times are seconds.
 *
 * Interface: l_register_on_completion_hook, l_wait_for_pending_works (methods of a group, process_group.c). */
#include <ctype.h>
#include "c10d/group.h"
#include "lua/rank.h"
#include "sched/task.h"

/* Argument 1: the completion. The function lies in the registry under its group. */
static int
call_hook(lua_State *L)
{
    static const double        ps_of_second = 1e12;
    const struct completion   *completion = lua_touserdata(L, 1);
    char                       name[40] = "";
    for (size_t i = 0; i + 1 < sizeof name && completion->operation[i] != '\0'; i++)
        name[i] = (char)toupper((unsigned char)completion->operation[i]);
    lua_rawgetp(L, LUA_REGISTRYINDEX, completion->group);
    lua_createtable(L, 0, 5);
    set_text(L, -1, "op_type", name);
    set_integer(L, -1, "seq", completion->number);
    set_number(L, -1, "time_started", (double)completion->issued_at / ps_of_second);
    set_number(L, -1, "time_finished", (double)completion->finished_at / ps_of_second);
    set_number(L, -1, "active_duration", (double)(completion->finished_at - completion->begun_at) / ps_of_second);
    lua_call(L, 1, 0);
    return 0;
}

static bool
visit_hook(struct task *me, void *script, const struct completion *completion)
{
    return script_visit(me, script, call_hook, (void *)(uintptr_t)completion);
}

/* The script ends: no hook may run from here on. */
static void
forget_hooks(struct task *me, void *part)
{
    const struct rank *rank   = part;
    struct script     *script = task_script(me);
    struct call        call   = call_open(script->L, me, CALL_BACK);
    for (int left = process_group_forget_hooks(me, rank->context.world, rank->context.rank); left > 0; left--)
        script_visited(script);
    call_close(&call);
}

int
l_register_on_completion_hook(lua_State *L)
{
    struct task           *me     = script_task(L);
    struct script         *script = script_of(L);
    struct process_group  *group  = box_check(L, 1, BOX_GROUP);
    struct completion_hook hook   = { .run = visit_hook, .context = script };
    check_function(L, 2);
    arg_most(L, 2);
    check_group(L, 1);
    if (lua_rawgetp(L, LUA_REGISTRYINDEX, group) == LUA_TNIL) { /* makes room, so that nothing fails later */
        lua_pushboolean(L, 0);
        lua_rawsetp(L, LUA_REGISTRYINDEX, group);
    }
    struct call call = call_open(L, me, CALL_KEEP);
    bool        ok   = process_group_on_completion(me, group, &hook);
    if (ok) {
        script->drop_part[SCRIPT_DISTRIBUTED] = forget_hooks;
        script_expect(me, script);
    }
    call_done(&call, ok);
    lua_settop(L, 2);
    lua_rawsetp(L, LUA_REGISTRYINDEX, group);
    return 0;
}

int
l_wait_for_pending_works(lua_State *L)
{
    struct task          *me    = script_task(L);
    struct process_group *group = box_check(L, 1, BOX_GROUP);
    struct call           call  = call_open(L, me, CALL_BACK);
    bool                  ok    = process_group_wait_for_pending(me, group);
    return call_done(&call, ok);
}
