/* rs.futures, as torch.futures: Future, collect_all, wait_all. A future's box has in user values what it answers, the
 * error object that it failed with, and the callbacks that wait for it: a list of functions, each with the box of the
 * future that it makes, or false. Who ends a future runs its callbacks; those of a work's future run on the task of the
 * callbacks, which visits the script: until then the main task keeps to the script's lock.
 *
 * Interface: lua/futures.h. */
#include "lua/futures.h"

#include <stdio.h>
#include "base/vec.h"
#include "lua/dispatch.h"
#include "sched/stage.h"

enum { HAS_VALUE = 1, HAS_ERROR, HAS_CALLBACKS };

/* Boxes of works' futures that have callbacks: nobody else may have them. */
static const char AWAITED[] = "ringside.futures";

static bool visit_callbacks(struct task *me, void *script, struct future *future);

/* ---- made ---- */

static void
close_futures(struct task *me, void *futures)
{
    struct call call = call_open(task_script(me)->L, me, CALL_BACK);
    futures_close(me, futures);
    call_close(&call);
}

struct futures *
futures_here(lua_State *L)
{
    struct script *script = script_of(L);
    if (script->parts[SCRIPT_FUTURES] != NULL)
        return script->parts[SCRIPT_FUTURES];
    struct task          *me     = script_task(L);
    struct futures_runner runner = { .run = visit_callbacks, .context = script };
    script->parts[SCRIPT_FUTURES] = futures_new(me, &runner);
    if (script->parts[SCRIPT_FUTURES] == NULL)
        raise(L, me);
    script->drop_part[SCRIPT_FUTURES] = close_futures;
    return script->parts[SCRIPT_FUTURES];
}

struct future *
push_future(lua_State *L)
{
    struct task    *me  = script_task(L);
    struct futures *all = futures_here(L);
    box_push(L, BOX_FUTURE, HAS_CALLBACKS);
    struct future *future = future_new(me, all);
    if (future == NULL)
        raise(L, me);
    box_fill(L, future, future_unref, true);
    return future;
}

void
set_future_value(lua_State *L, int box)
{
    lua_setiuservalue(L, box, HAS_VALUE);
}

/* ---- callbacks ---- */

/* What a callback gets is the future that is done. Function and future lie at the top. */
static bool
future_callback(lua_State *L, struct task *me, const struct future *future)
{
    STAGE(me, c10d_future_then, future_number(future));
    return script_call(L, me, 1, 1);
}

/* me's error, which a callback raised, is over; what is pushed says so to who waits for the callback's future. An end
 * of the whole run goes on. It is as old as what it was: who caused a wait without end comes before who waited. */
static struct error
push_callback_error(lua_State *L, struct task *me)
{
    struct error error = me->error;
    const char  *kind  = error_name(error.kind);
    if (script_of(L)->fatal || error.kind == E_STOPPED || error.kind == E_KILLED)
        raise(L, me);
    task_clear_error(me);
    struct error told = { .kind = E_RUNTIME, .function = __func__, .line = __LINE__, .lesson_line = error.lesson_line,
                          .rank = me->rank, .order = error.order };
    snprintf(told.message, sizeof told.message, "Got the following error when running the callback: %s%s%.1900s",
             error.kind == E_SCRIPT ? "" : kind, error.kind == E_SCRIPT ? "" : ": ", error.message);
    push_error(L, error_name(told.kind), told.message, told.lesson_line);
    lua_pushinteger(L, told.order);
    lua_setfield(L, -2, "order");
    return told;
}

/* The box at `child` (0: none, the error is only warned of) ends as the callback at the top did with the future at
 * `parent`. Pops the callback. */
static void
run_callback(lua_State *L, struct task *me, int parent, int child)
{
    struct error error = { .kind = E_NONE };
    lua_pushvalue(L, parent);
    if (!future_callback(L, me, box_check(L, parent, BOX_FUTURE)))
        error = push_callback_error(L, me);
    if (child != 0)
        lua_setiuservalue(L, child, error.kind == E_NONE ? HAS_VALUE : HAS_ERROR);
    else
        lua_pop(L, 1);
    if (child != 0)
        future_finish(me, box_check(L, child, BOX_FUTURE), error.kind != E_NONE ? &error : NULL);
    else if (error.kind != E_NONE)
        lesson_warn(L, error.message);
}

/* The callbacks of the box at `parent`, in order; the futures that they end join the list at `line`, `last` long.
 * Answers how long it is then. */
static lua_Integer
run_callbacks_of(lua_State *L, struct task *me, int parent, int line, lua_Integer last)
{
    if (lua_getiuservalue(L, parent, HAS_CALLBACKS) == LUA_TTABLE) {
        int         list  = lua_gettop(L);
        lua_Integer count = (lua_Integer)lua_rawlen(L, list);
        lua_pushnil(L);
        lua_setiuservalue(L, parent, HAS_CALLBACKS);
        for (lua_Integer i = 1; i < count; i += 2) {
            bool has_child = lua_rawgeti(L, list, i + 1) == LUA_TUSERDATA;
            int  child     = has_child ? lua_gettop(L) : 0;
            lua_rawgeti(L, list, i);
            run_callback(L, me, parent, child);
            if (has_child)
                lua_rawseti(L, line, ++last);
            lua_settop(L, list);
        }
    }
    lua_settop(L, line);
    return last;
}

/* The future at `box` is done: its callbacks run, those of the futures that they end, and so on. No recursion: chains
 * may be long. */
static void
run_callbacks(lua_State *L, struct task *me, int box)
{
    luaL_checkstack(L, 20, "too many callbacks");
    int kept = lua_gettop(L);
    box = lua_absindex(L, box);
    lua_newtable(L);
    int line = lua_gettop(L);
    lua_pushvalue(L, box);
    lua_rawseti(L, line, 1);
    for (lua_Integer at = 1, last = 1; at <= last; at++) {
        lua_rawgeti(L, line, at);
        lua_insert(L, line);                             /* the future, then the line */
        last = run_callbacks_of(L, me, line, line + 1, last);
        lua_remove(L, line);
    }
    lua_settop(L, kept);
}

/* In the task of the callbacks; argument 1: the future. */
static int
visit_body(lua_State *L)
{
    struct future *future = lua_touserdata(L, 1);
    luaL_getsubtable(L, LUA_REGISTRYINDEX, AWAITED);
    lua_rawgetp(L, 2, future);
    lua_pushnil(L);
    lua_rawsetp(L, 2, future);
    run_callbacks(L, script_of(L)->holder, 3);
    return 0;
}

static bool
visit_callbacks(struct task *me, void *script, struct future *future)
{
    bool ok = script_visit(me, script, visit_body, future);
    script_visited(script);
    return ok;
}

/* The box at `parent` has a first callback: when its work is done, somebody visits the script. false: it is done. */
static bool
await_work(lua_State *L, struct task *me, int parent, struct future *future)
{
    struct script *script = script_of(L);
    script_expect(me, script);
    enum future_answer answer = future_await_run(me, future);
    if (answer == FUTURE_AWAITED) {
        luaL_getsubtable(L, LUA_REGISTRYINDEX, AWAITED);
        lua_pushvalue(L, parent);
        lua_rawsetp(L, -2, future);
        lua_pop(L, 1);
        return true;
    }
    script_visited(script);
    if (answer == FUTURE_FAILED)
        raise(L, me);
    return false;
}

/* The function at `callback` is called when the future at `parent` is done; the box at `child` (0: none) is what it
 * makes. */
static void
add_callback(lua_State *L, int parent, int callback, int child)
{
    struct task   *me     = script_task(L);
    struct future *future = box_check(L, parent, BOX_FUTURE);
    bool           first  = lua_getiuservalue(L, parent, HAS_CALLBACKS) != LUA_TTABLE;
    if (first) {
        lua_pop(L, 1);
        lua_createtable(L, 2, 0);
        lua_pushvalue(L, -1);
        lua_setiuservalue(L, parent, HAS_CALLBACKS);
    }
    lua_Integer count = (lua_Integer)lua_rawlen(L, -1);
    lua_pushvalue(L, callback);
    lua_rawseti(L, -2, count + 1);
    if (child != 0)
        lua_pushvalue(L, child);
    else
        lua_pushboolean(L, 0);
    lua_rawseti(L, -2, count + 2);
    lua_pop(L, 1);
    bool later = future_has_work(future) && (!first || await_work(L, me, parent, future));
    if (!later && future_done(me, future))
        run_callbacks(L, me, parent);
}

/* ---- methods ---- */

/* fut:then_(f) */
static int
l_future_then(lua_State *L)
{
    box_check(L, 1, BOX_FUTURE);
    check_function(L, 2);
    arg_most(L, 2);
    lua_settop(L, 2);
    push_future(L);
    add_callback(L, 1, 2, 3);
    return 1;
}

static int
l_future_add_done_callback(lua_State *L)
{
    box_check(L, 1, BOX_FUTURE);
    check_function(L, 2);
    arg_most(L, 2);
    add_callback(L, 1, 2, 0);
    return 0;
}

void
push_future_value(lua_State *L, int box)
{
    struct task        *me    = script_task(L);
    const struct error *error = future_error(box_check(L, box, BOX_FUTURE));
    if (lua_getiuservalue(L, box, HAS_ERROR) != LUA_TNIL)
        lua_error(L);
    lua_pop(L, 1);
    if (error != NULL) {
        struct error own = *error;
        task_take_error(me, &own);
        raise(L, me);
    }
    lua_getiuservalue(L, box, HAS_VALUE);
}

/* ---- futures that are due: nobody ends them but who waits ---- */

/* A list of functions, each with the box of the future of what it answers. */
static const char DUE[] = "ringside.futures.due";

struct future *
push_due_future(lua_State *L, int function)
{
    struct script *script = script_of(L);
    function = lua_absindex(L, function);
    struct future *future = push_future(L);
    luaL_getsubtable(L, LUA_REGISTRYINDEX, DUE);
    lua_Integer last = (lua_Integer)lua_rawlen(L, -1);
    lua_pushvalue(L, function);
    lua_rawseti(L, -2, last + 1);
    lua_pushvalue(L, -2);
    lua_rawseti(L, -2, last + 2);
    lua_pop(L, 1);
    script->due++;
    return future;
}

bool
futures_are_due(const struct script *script)
{
    return script->due > 0;
}

/* The first of the list, which is one shorter then: its function and its box, pushed. */
static void
take_due(lua_State *L)
{
    luaL_getsubtable(L, LUA_REGISTRYINDEX, DUE);
    int         list = lua_gettop(L);
    lua_Integer last = (lua_Integer)lua_rawlen(L, list);
    lua_rawgeti(L, list, 1);
    lua_rawgeti(L, list, 2);
    for (lua_Integer i = 1; i <= last; i++) {
        lua_rawgeti(L, list, i + 2);
        lua_rawseti(L, list, i);
    }
    lua_remove(L, list);
    script_of(L)->due--;
}

/* Of function and box, as taken. What the function raises is the future's error; the end of the whole run goes on. */
static void
end_due(lua_State *L, struct task *me)
{
    int            box    = lua_gettop(L);
    struct future *future = box_check(L, box, BOX_FUTURE);
    if (future_done(me, future)) {
        lua_settop(L, box - 2);
        return;
    }
    lua_pushvalue(L, box - 1);
    bool ok = script_call(L, me, 0, 1);
    struct error error = me->error;
    if (!ok && (script_of(L)->fatal || error.kind == E_STOPPED || error.kind == E_KILLED))
        raise(L, me);
    if (ok)
        lua_setiuservalue(L, box, HAS_VALUE);
    else
        task_clear_error(me);
    future_finish(me, future, ok ? NULL : &error);
    run_callbacks(L, me, box);
    lua_settop(L, box - 2);
}

void
end_due_futures(lua_State *L, int box)
{
    struct task *me = script_task(L);
    luaL_checkstack(L, 20, "too many futures");
    box = lua_absindex(L, box);
    while (script_of(L)->due > 0 && !future_done(me, box_check(L, box, BOX_FUTURE))) {
        take_due(L);
        end_due(L, me);
    }
}

static void
wait_for(lua_State *L, int box)
{
    struct task   *me     = script_task(L);
    struct future *future = box_check(L, box, BOX_FUTURE);
    end_due_futures(L, box);
    if (future_done(me, future))
        return;
    struct call call = call_open(L, me, CALL_BACK);
    bool        ok   = future_wait(me, future);
    call_done(&call, ok);
}

static int
l_future_wait(lua_State *L)
{
    wait_for(L, 1);
    push_future_value(L, 1);
    return 1;
}

static int
l_future_value(lua_State *L)
{
    if (!future_done(script_task(L), box_check(L, 1, BOX_FUTURE)))
        raise_error(L, "RuntimeError", "this future is not done yet: wait() waits for its value");
    push_future_value(L, 1);
    return 1;
}

static int
l_future_done(lua_State *L)
{
    lua_pushboolean(L, future_done(script_task(L), box_check(L, 1, BOX_FUTURE)));
    return 1;
}

/* Who completes it by hand: its value or error lies at the top. */
static void
finish_by_hand(lua_State *L, int has, const struct error *error)
{
    struct task   *me     = script_task(L);
    struct future *future = box_check(L, 1, BOX_FUTURE);
    if (future_has_work(future))
        raise_error(L, "RuntimeError", "a work's future is completed by its work, by nobody else");
    if (future_done(me, future))
        raise_error(L, "RuntimeError", "Attempting to mark a completed Future as complete again. Note that a Future "
                                       "can only be marked completed once.");
    lua_setiuservalue(L, 1, has);
    future_finish(me, future, error);
    run_callbacks(L, me, 1);
}

static int
l_future_set_result(lua_State *L)
{
    box_check(L, 1, BOX_FUTURE);
    arg_most(L, 2);
    lua_settop(L, 2);
    finish_by_hand(L, HAS_VALUE, NULL);
    return 0;
}

/* fut:set_exception(e), what pcall caught; fut:set_exception("ValueError", "boom"), as rs.error */
static int
l_future_set_exception(lua_State *L)
{
    struct task *me    = script_task(L);
    struct error error = { .kind = E_SCRIPT, .function = __func__, .line = __LINE__, .rank = me->rank,
                           .lesson_line = me->line };
    box_check(L, 1, BOX_FUTURE);
    arg_most(L, 3);
    if (lua_type(L, 2) == LUA_TSTRING && lua_type(L, 3) == LUA_TSTRING)
        push_error(L, lua_tostring(L, 2), lua_tostring(L, 3), me->line);
    else if (lua_istable(L, 2))
        lua_settop(L, 2);
    else
        raise_error(L, "AssertionError", "%s is no error: give what pcall caught, or a kind and a message",
                    luaL_typename(L, 2));
    error_of_object(L, -1, &error);
    finish_by_hand(L, HAS_ERROR, &error);
    return 0;
}

/* ---- several ---- */

enum { COLLECT_FUTURES = 1, COLLECT_LEFT, COLLECT_FUTURE };

/* Those at list are all done: the future at `box` answers them, or fails as the first that failed. */
static void
finish_collection(lua_State *L, struct task *me, int list, int box)
{
    const struct error *error = NULL;
    int                 top   = lua_gettop(L);
    for (lua_Integer i = 1; i <= (lua_Integer)lua_rawlen(L, list) && error == NULL; i++) {
        lua_rawgeti(L, list, i);
        error = future_error(box_check(L, lua_gettop(L), BOX_FUTURE));
        if (error != NULL && lua_getiuservalue(L, -1, HAS_ERROR) != LUA_TNIL)
            lua_setiuservalue(L, box, HAS_ERROR);
        lua_settop(L, top);
    }
    lua_pushvalue(L, list);
    lua_setiuservalue(L, box, HAS_VALUE);
    future_finish(me, box_check(L, box, BOX_FUTURE), error);
    run_callbacks(L, me, box);
}

/* A callback of each: upvalues are the list, how many are left (in a list of one), the future of all. */
static int
collect_one(lua_State *L)
{
    lua_settop(L, 0);
    lua_rawgeti(L, lua_upvalueindex(COLLECT_LEFT), 1);
    lua_Integer left = lua_tointeger(L, -1) - 1;
    lua_pushinteger(L, left);
    lua_rawseti(L, lua_upvalueindex(COLLECT_LEFT), 1);
    lua_pushvalue(L, lua_upvalueindex(COLLECT_FUTURES));
    lua_pushvalue(L, lua_upvalueindex(COLLECT_FUTURE));
    if (left == 0)
        finish_collection(L, script_task(L), 2, 3);
    return 0;
}

/* The future of all those in the list at `given`, pushed. The list is copied: it is the answer. */
static void
push_collection(lua_State *L, int given)
{
    check_table(L, given);
    lua_Integer count = (lua_Integer)lua_rawlen(L, given);
    lua_createtable(L, (int)count, 0);
    int list = lua_gettop(L);
    for (lua_Integer i = 1; i <= count; i++) {
        lua_rawgeti(L, given, i);
        if (box_test(L, -1, BOX_FUTURE) == NULL)
            raise_error(L, "TypeError", "element %d of the list: expected a Future, got %s", (int)i,
                        luaL_typename(L, -1));
        lua_rawseti(L, list, i);
    }
    push_future(L);
    lua_createtable(L, 1, 0);
    lua_pushinteger(L, count);
    lua_rawseti(L, -2, 1);
    lua_pushvalue(L, list);
    lua_insert(L, -2);
    lua_pushvalue(L, list + 1);
    lua_pushcclosure(L, collect_one, 3);                 /* list, future, callback */
    for (lua_Integer i = 1; i <= count; i++) {
        lua_rawgeti(L, list, i);
        add_callback(L, list + 3, list + 2, 0);
        lua_settop(L, list + 2);
    }
    lua_settop(L, list + 1);
    if (count == 0)
        finish_collection(L, script_task(L), list, list + 1);
}

static int
l_collect_all(lua_State *L)
{
    struct arguments a;
    take_arguments(L, &a);
    push_collection(L, (int)a.at[0].integer[0]);
    return 1;
}

/* Answers a list of what they answer. */
static int
l_wait_all(lua_State *L)
{
    struct arguments a;
    take_arguments(L, &a);
    push_collection(L, (int)a.at[0].integer[0]);
    int box = lua_gettop(L);
    wait_for(L, box);
    push_future_value(L, box);
    lua_Integer count = (lua_Integer)lua_rawlen(L, box + 1);
    lua_createtable(L, (int)count, 0);
    for (lua_Integer i = 1; i <= count; i++) {
        lua_rawgeti(L, box + 1, i);
        push_future_value(L, box + 3);
        lua_rawseti(L, box + 2, i);
        lua_settop(L, box + 2);
    }
    return 1;
}

static int
l_future(lua_State *L)
{
    struct arguments a;
    take_arguments(L, &a);
    push_future(L);
    return 1;
}

static const struct lua_entry methods[] = {
    { "wait", l_future_wait, "fut:wait()", "waits until it is done; answers its value, raises its error" },
    { "value", l_future_value, "fut:value()", "the value of one that is done; raises its error" },
    { "done", l_future_done, "fut:done()",
      "whether it is done; that of a library's comm hook is when somebody has waited" },
    { "then_", l_future_then, "fut:then_(f)",
      "f(fut) is called when it is done; answers a Future of what f answers. Also fut[\"then\"](fut, f)" },
    { "then", l_future_then, "fut.then(fut, f)", "fut:then_(f), as PyTorch spells it: \"then\" is a word of Lua's" },
    { "add_done_callback", l_future_add_done_callback, "fut:add_done_callback(f)",
      "f(fut) is called when it is done; what it raises is only warned of" },
    { "set_result", l_future_set_result, "fut:set_result(value)", "it is done, with that value" },
    { "set_exception", l_future_set_exception, "fut:set_exception(e)",
      "it is done, and has failed with what pcall caught, or with a kind and a message" },
};

static const struct lua_entry entries[] = {
    { "Future", l_future, "futures.Future(*, table? devices=None) -> any",
      "something that will be there; set_result says what" },
    { "collect_all", l_collect_all, "futures.collect_all(table futures) -> any",
      "a Future that is done when all in the list are; its value is the list of them" },
    { "wait_all", l_wait_all, "futures.wait_all(table futures) -> any",
      "waits for all in the list; answers the list of their values" },
};

void
lua_open_futures(lua_State *L)
{
    box_class(L, BOX_FUTURE, methods, countof(methods));
    lua_pop(L, 1);
    fill_namespace(L, "futures", entries, countof(entries));
}
