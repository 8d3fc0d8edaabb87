/* The doors between Lua and the engine, and the lock at each of them. From Lua: call_open, the work, call_close (or one
 * of the call_* that also hand over). Into Lua: script_visit, script_call. In Python the lock is the GIL, the first
 * door is what pybind11's gil_scoped_release guards, the second gil_scoped_acquire. */
#include "lua/internal.h"
#include <assert.h>
#include <stdatomic.h>
#include <string.h>
#include "base/vec.h"
#include "sched/sched.h"
#include "sched/task.h"

struct script *
script_of(lua_State *L)
{
    return *(struct script **)lua_getextraspace(L);
}

static struct visit *
visit_of(const struct task *me)
{
    return (struct visit *)(uintptr_t)me->slots[SLOT_LUA];
}

struct script *
task_script(const struct task *me)
{
    return visit_of(me) != NULL ? visit_of(me)->script : NULL;
}

bool
task_holds_script(const struct task *me, const struct script *script)
{
    const struct visit *visit = visit_of(me);
    return visit != NULL && visit->script == script && !visit->away;
}

lua_State *
task_lua(const struct task *me)
{
    const struct visit *visit = visit_of(me);
    return visit != NULL && !visit->away ? visit->L : NULL;
}

/* A line of an exercise is none of the lesson that has loaded it. */
static bool
is_own_function(lua_State *L, lua_Debug *ar)
{
    const struct script *script = script_of(L);
    if (!script->options.guests)
        return true;
    lua_getinfo(L, "S", ar);
    return ar->source[0] == '@' && strcmp(ar->source + 1, script->name) == 0;
}

uint32_t
script_line(lua_State *L)
{
    lua_Debug ar;
    for (int level = 0; lua_getstack(L, level, &ar); level++) {
        lua_getinfo(L, "l", &ar);
        if (ar.currentline > 0 && is_own_function(L, &ar))
            return (uint32_t)ar.currentline;
    }
    return 0;
}

struct task *
script_task(lua_State *L)
{
    struct task *me   = script_of(L)->holder;
    uint32_t     line = script_line(L);
    if (line > 0)
        task_set_line(me, line);
    return me;
}

void
script_note_line(struct script *script)
{
    const struct visit *visit = script->holder != NULL ? visit_of(script->holder) : NULL;
    if (visit != NULL && visit->script == script && visit->L != NULL)
        script_task(visit->L);
}

/* ---- letting Lua go, and taking it again ---- */

static void
let_go(struct task *me, struct visit *visit)
{
    struct script *script = visit->script;
    visit->away           = true;
    if (visit->main && atomic_load(&script->mode) == MODE_ALONE) {
        atomic_store(&script->mode, MODE_AWAY);
        return;
    }
    script->holder = NULL;
    lock_release(me, &script->lock);
}

/* Waiting for the lock must work in a task that has failed (it is on its way to say so in Lua), and even a wait that
 * was broken ends in Lua: the error can only be raised there. In a deadlock all others are on their way out too. */
static void
take_lock(struct task *me, struct script *script)
{
    struct error saved = me->error;
    me->error.kind     = E_NONE;
    if (!lock_acquire(me, &script->lock))
        script->lock.holder = me; /* `stepped`, where one task runs at a time */
    if (saved.kind != E_NONE)
        me->error = saved;
}

static void
take_again(struct task *me, struct visit *visit)
{
    struct script *script = visit->script;
    int            away   = MODE_AWAY;
    visit->away           = false;
    if (visit->main && atomic_compare_exchange_strong(&script->mode, &away, MODE_ALONE))
        return;
    if (visit->main && atomic_load(&script->visitors) == 0)
        atomic_store(&script->mode, MODE_ALONE); /* they have all left: nobody holds the lock */
    else
        take_lock(me, script);
    script->holder = me;
    refs_settle(script->door, script->refs);
}

/* ---- from Lua into the engine ---- */

struct call
call_open(lua_State *L, struct task *me, enum call_kind kind)
{
    struct visit *visit = visit_of(me);
    struct call   call  = { .L = L, .me = me, .outer = visit->L, .mark = scope_mark(me), .line = me->line,
                            .depth = me->depth };
    visit->L            = L;
    call.released       = kind != CALL_KEEP &&
                          (kind == CALL_BACK || !visit->main || atomic_load(&visit->script->mode) != MODE_ALONE);
    if (call.released)
        let_go(me, visit);
    return call;
}

void
call_close(struct call *call)
{
    struct task  *me    = call->me;
    struct visit *visit = visit_of(me);
    assert(me->depth == call->depth);
    if (call->released)
        take_again(me, visit);
    call->released = false;
    visit->L       = call->outer;
    task_set_line(me, call->line);
}

void
call_end(struct call *call, bool ok)
{
    call_close(call);
    if (ok && !task_failed(call->me))
        return;
    scope_release(call->me, call->mark);
    failed(call->me, E_RUNTIME, "the call failed without saying why"); /* the first error stays */
    raise(call->L, call->me);
}

int
call_leave(struct call *call, int results)
{
    scope_release(call->me, call->mark);
    return results;
}

int
call_done(struct call *call, bool ok)
{
    call_end(call, ok);
    return call_leave(call, 0);
}

int
call_self(struct call *call, bool ok)
{
    call_end(call, ok);
    lua_pushvalue(call->L, 1);
    return call_leave(call, 1);
}

int
call_tensor(struct call *call, struct tensor *result)
{
    call_end(call, result != NULL);
    push_tensor(call->L, result);
    return call_leave(call, 1);
}

int
call_value(struct call *call, struct value *result)
{
    call_end(call, result != NULL);
    push_value(call->L, result);
    return call_leave(call, 1);
}

int
call_module(struct call *call, struct module *result)
{
    call_end(call, result != NULL);
    push_module(call->L, result);
    return call_leave(call, 1);
}

int
call_integer(struct call *call, bool ok, int64_t integer)
{
    call_end(call, ok);
    lua_pushinteger(call->L, integer);
    return call_leave(call, 1);
}

/* ---- from the engine into Lua ---- */

bool
script_call(lua_State *L, struct task *me, int arguments, int results)
{
    uint8_t  depth = me->depth;
    uint32_t line  = me->line;
    int      base  = lua_gettop(L) - arguments;
    lua_pushcfunction(L, error_handler);
    lua_insert(L, base);
    bool ok = lua_pcall(L, arguments, results, base) == LUA_OK;
    assert(me->depth == depth);
    if (!ok)
        fail_from_lua(L, me);
    lua_remove(L, base);
    task_set_line(me, line);
    return ok;
}

static bool
run_body(struct task *me, struct visit *visit, lua_CFunction body, void *context)
{
    lua_State *L = visit->L;
    if (!lua_checkstack(L, LUA_MINSTACK))
        return failed(me, E_MEMORY, "out of memory for Lua's stack");
    lua_pushcfunction(L, body);
    lua_pushlightuserdata(L, context);
    return script_call(L, me, 1, 0);
}

/* A function below one that was called by Lua calls back in the same task. */
static bool
visit_again(struct task *me, struct visit *visit, lua_CFunction body, void *context)
{
    bool           away   = visit->away;
    lua_State     *L      = visit->L;
    struct module *direct = visit->direct;
    if (away)
        take_again(me, visit);
    bool ok       = run_body(me, visit, body, context);
    visit->L      = L;
    visit->direct = direct;
    if (away)
        let_go(me, visit);
    return ok;
}

static int
make_thread(lua_State *L)
{
    struct visitor_thread *thread = lua_touserdata(L, 1);
    thread->L                     = lua_newthread(L);
    luaL_ref(L, LUA_REGISTRYINDEX);
    return 0;
}

/* With the lock held. Making a thread can raise, and a raise without a protected call on this very Lua thread would
 * land in the main task's: so it happens behind the door. -1: failed. */
static int
thread_take(struct task *me, struct script *script)
{
    for (size_t i = 0; i < script->thread_count; i++)
        if (!script->threads[i].busy) {
            script->threads[i].busy = true;
            return (int)i;
        }
    if (!vec_room(&script->threads, &script->thread_room, script->thread_count + 1, sizeof *script->threads)) {
        failed(me, E_MEMORY, "out of memory");
        return -1;
    }
    struct visitor_thread thread = { NULL, true };
    lua_pushcfunction(script->door, make_thread);
    lua_pushlightuserdata(script->door, &thread);
    if (!script_call(script->door, me, 1, 0))
        return -1;
    script->threads[script->thread_count] = thread;
    return (int)script->thread_count++;
}

static bool
visit_inside(struct task *me, struct visit *visit, lua_CFunction body, void *context)
{
    struct script *script = visit->script;
    int            thread = thread_take(me, script);
    if (thread < 0)
        return false;
    uint64_t outer      = me->slots[SLOT_LUA];
    visit->L            = script->threads[thread].L;
    me->slots[SLOT_LUA] = (uint64_t)(uintptr_t)visit;
    bool ok             = run_body(me, visit, body, context);
    me->slots[SLOT_LUA] = outer;
    lua_settop(script->threads[thread].L, 0);
    script->threads[thread].busy = false;
    return ok;
}

/* ---- visits of tasks that nobody waits for ---- */

void
script_expect(struct task *me, struct script *script)
{
    atomic_fetch_add(&script->visitors, 1);
    if (atomic_load(&script->mode) != MODE_ALONE)
        return;
    take_lock(me, script);
    atomic_store(&script->mode, MODE_SHARED);
}

void
script_visited(struct script *script)
{
    atomic_fetch_sub(&script->visitors, 1);
}

/* The main task is away, else this task could not run: it was started by the very call that the main task is in. Or it
 * was expected, and the main task uses the lock. */
bool
script_visit(struct task *me, struct script *script, lua_CFunction body, void *context)
{
    struct visit *known = visit_of(me);
    if (task_failed(me))
        return false;
    if (known != NULL && known->script == script)
        return visit_again(me, known, body, context);
    atomic_fetch_add(&script->visitors, 1);
    int  away = MODE_AWAY;
    bool in   = atomic_compare_exchange_strong(&script->mode, &away, MODE_SHARED) || away == MODE_SHARED;
    bool ok   = false;
    if (!in)
        failed(me, E_RUNTIME, "a function of the lesson was called while the lesson itself runs");
    else if (lock_acquire(me, &script->lock)) {
        script->holder      = me;
        struct visit visit  = { .script = script };
        ok                  = visit_inside(me, &visit, body, context);
        script->holder      = NULL;
        lock_release(me, &script->lock);
    }
    atomic_fetch_sub(&script->visitors, 1);
    return ok;
}
