/* Works as lessons see them: what a collective with async_op, isend and irecv answer. As torch.distributed.Work.
 *
 * Interface: push_work_box and call_work for who issues one, lua_open_work. */
#include "base/vec.h"
#include "lua/dispatch.h"
#include "lua/rank.h"

static void
drop_work(struct task *me, void *work)
{
    work_free(me, work);
}

void
push_work_box(lua_State *L, int index)
{
    box_push(L, BOX_WORK, 1);
    lua_pushvalue(L, index);
    lua_setiuservalue(L, -2, 1);
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
    struct task *me   = script_task(L);
    struct work *work = box_check(L, 1, BOX_WORK);
    struct call  call = call_open(L, me, CALL_BACK);
    bool         ok   = work_wait(me, work);
    call_end(&call, ok);
    lua_pushboolean(L, 1);
    return call_leave(&call, 1);
}

static int
l_work_is_completed(lua_State *L)
{
    struct task *me   = script_task(L);
    struct work *work = box_check(L, 1, BOX_WORK);
    struct call  call = call_open(L, me, CALL_PLAIN);
    bool         done = work_done(me, work);
    call_end(&call, true);
    lua_pushboolean(L, done);
    return call_leave(&call, 1);
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
    { "wait", l_work_wait, "work:wait()", "waits for the operation; its failure is raised here" },
    { "source_rank", l_work_source_rank, "work:source_rank()", "of an irecv that has ended: who sent it (a rank of the "
      "group)" },
    { "_source_rank", l_work_source_rank, "work:_source_rank()", "the same, by PyTorch's name" },
    { "is_completed", l_work_is_completed, "work:is_completed()", "whether it has ended" },
};

void
lua_open_work(lua_State *L)
{
    box_class(L, BOX_WORK, work_entries, countof(work_entries));
    lua_pop(L, 1);
}
