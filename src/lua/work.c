/* Works as lessons see them: what a collective with async_op, isend and irecv answer. As torch.distributed.Work.
 *
 * Interface: push_work_box and call_work for who issues one, lua_open_work. */
#include "base/vec.h"
#include "lua/dispatch.h"
#include "lua/futures.h"
#include "lua/rank.h"

/* User values of a box. */
enum { HAS_TENSORS = 1, HAS_FUTURE };

static void
drop_work(struct task *me, void *work)
{
    work_free(me, work);
}

void
push_work_box(lua_State *L, int index)
{
    index = lua_absindex(L, index);
    box_push(L, BOX_WORK, HAS_FUTURE);
    lua_pushvalue(L, index);
    lua_setiuservalue(L, -2, HAS_TENSORS);
}

void
push_tensor_work(lua_State *L, struct tensor *tensor)
{
    push_tensor(L, tensor);
    push_work_box(L, lua_gettop(L));
}

void
fill_work_box(lua_State *L, struct work *work)
{
    box_fill(L, work, drop_work, false);
}

int
call_work(lua_State *L, struct call *call, struct work *work)
{
    call_end(call, work != NULL);
    fill_work_box(L, work);
    return call_leave(call, 1);
}

static int
l_work_wait(lua_State *L)
{
    struct task *me      = script_task(L);
    struct work *work    = box_check(L, 1, BOX_WORK);
    uint64_t     timeout = lua_isnoneornil(L, 2) ? 0 : check_timeout(L, check_number(L, 2));
    arg_most(L, 2);
    struct call call = call_open(L, me, CALL_BACK);
    bool        ok   = work_wait_within(me, work, timeout);
    call_end(&call, ok);
    lua_pushboolean(L, 1);
    return call_leave(&call, 1);
}

static bool
work_is_done(lua_State *L)
{
    struct task *me   = script_task(L);
    struct work *work = box_check(L, 1, BOX_WORK);
    struct call  call = call_open(L, me, CALL_PLAIN);
    bool         done = work_done(me, work);
    call_done(&call, true);
    return done;
}

static int
l_work_is_completed(lua_State *L)
{
    lua_pushboolean(L, work_is_done(L));
    return 1;
}

static int
l_work_is_success(lua_State *L)
{
    struct error error;
    bool         done = work_is_done(L);
    lua_pushboolean(L, done && !work_failure(script_task(L), box_check(L, 1, BOX_WORK), &error));
    return 1;
}

static int
l_work_exception(lua_State *L)
{
    struct error error;
    if (work_failure(script_task(L), box_check(L, 1, BOX_WORK), &error))
        push_error(L, error_name(error.kind), error.message, error.lesson_line);
    else
        lua_pushnil(L);
    return 1;
}

/* A list of the tensors that the work fills: the lesson's own objects. */
static void
push_tensors(lua_State *L, int box)
{
    int kind = lua_getiuservalue(L, box, HAS_TENSORS), given = lua_gettop(L);
    lua_newtable(L);
    if (kind == LUA_TUSERDATA && test_tensor(L, given) != NULL) {
        lua_pushvalue(L, given);
        lua_rawseti(L, -2, 1);
    }
    for (lua_Integer i = 1; kind == LUA_TTABLE && i <= (lua_Integer)lua_rawlen(L, given); i++) {
        lua_rawgeti(L, given, i);
        lua_rawseti(L, -2, i);
    }
    lua_remove(L, given);
}

static int
l_work_result(lua_State *L)
{
    if (!work_is_done(L))
        raise_error(L, "RuntimeError", "Work needs to be completed before calling result(). Should call wait() before "
                                       "result().");
    push_tensors(L, 1);
    return 1;
}

static int
l_work_get_sequence_number(lua_State *L)
{
    lua_pushinteger(L, work_sequence(box_check(L, 1, BOX_WORK)));
    return 1;
}

/* The same one each time. */
static int
l_work_get_future(lua_State *L)
{
    struct task *me   = script_task(L);
    struct work *work = box_check(L, 1, BOX_WORK);
    lua_settop(L, 1);
    if (lua_getiuservalue(L, 1, HAS_FUTURE) != LUA_TNIL)
        return 1;
    struct future *future = push_future(L);
    push_tensors(L, 1);
    set_future_value(L, 3);
    lua_pushvalue(L, 3);
    lua_setiuservalue(L, 1, HAS_FUTURE);
    future_of_work(me, future, work);
    return 1;
}

/* As PyTorch's _source_rank: a rank of the group. */
static int
l_work_source_rank(lua_State *L)
{
    struct task *me   = script_task(L);
    int          rank = work_source_rank(me, box_check(L, 1, BOX_WORK));
    if (rank < 0)
        return raise_error(L, "RuntimeError", "only an irecv that was waited for has a source_rank");
    lua_pushinteger(L, rank);
    return 1;
}

static const struct lua_entry work_entries[] = {
    { "wait", l_work_wait, "work:wait(timeout)",
      "waits for the operation, in free for so many seconds at most; its failure is raised here" },
    { "synchronize", l_work_wait, "work:synchronize()", "waits as wait does" },
    { "source_rank", l_work_source_rank, "work:source_rank()", "of an irecv that has ended: who sent it (a rank of the "
      "group)" },
    { "_source_rank", l_work_source_rank, "work:_source_rank()", "the same, by PyTorch's name" },
    { "is_completed", l_work_is_completed, "work:is_completed()", "whether it has ended" },
    { "is_success", l_work_is_success, "work:is_success()", "whether it has ended well" },
    { "exception", l_work_exception, "work:exception()", "the error that it has ended with, nil if none" },
    { "result", l_work_result, "work:result()", "of one that has ended: the list of the tensors that it filled" },
    { "get_future", l_work_get_future, "work:get_future()", "a Future whose value is the list of its tensors" },
    { "_get_sequence_number", l_work_get_sequence_number, "work:_get_sequence_number()",
      "the collective's number in its group, from 0" },
};

void
lua_open_work(lua_State *L)
{
    box_class(L, BOX_WORK, work_entries, countof(work_entries));
    lua_pop(L, 1);
}
