/* Groups of ranks as lessons see them. As torch.distributed.new_group and what asks about groups.
 *
 * Interface: push_group, lua_open_groups; take_rank_call reads what push_group made. */
#include <string.h>
#include "base/vec.h"
#include "lua/dispatch.h"
#include "lua/rank.h"
#include "sched/task.h"

/* What a rank that is no member gets for the group: calls in it warn and do nothing. */
static const char no_member[] = "NON_GROUP_MEMBER";

void
push_group(lua_State *L, struct process_group *group)
{
    if (group == NULL) {
        lua_pushliteral(L, "NON_GROUP_MEMBER");
        return;
    }
    box_push(L, BOX_GROUP, 0);
    box_fill(L, group, NULL, true);
}

bool
take_rank_call(lua_State *L, struct rank_call *out, int place)
{
    out->me    = script_task(L);
    out->group = group_here(L);
    take_arguments(L, &out->a);
    const struct argument *group = place >= 0 ? &out->a.at[place] : NULL;
    if (group == NULL || group->none)
        return true;
    int index = (int)group->integer[0];
    if (lua_type(L, index) == LUA_TSTRING && strcmp(lua_tostring(L, index), no_member) == 0) {
        task_warn(out->me, "this rank is no member of the group: the call does nothing here");
        return false;
    }
    out->group = box_check(L, index, BOX_GROUP);
    return true;
}

int
peer_of(lua_State *L, const struct argument *rank, const struct process_group *group)
{
    int64_t global = rank->integer[0];
    int     peer   = global < 0 || global > INT32_MAX ? -1 : process_group_group_rank(group, (int)global);
    if (peer < 0 && process_group_number(group) == 0)
        raise_error(L, "ValueError", "rank %lld is not in the group: it has ranks 0 to %d", (long long)global,
                    process_group_size(group) - 1);
    if (peer < 0)
        raise_error(L, "ValueError", "rank %lld is not in group %d", (long long)global, process_group_number(group));
    return peer;
}

/* ---- made ---- */

static int
l_new_group(lua_State *L)
{
    struct task          *me   = script_task(L);
    struct rank          *rank = rank_here(L);
    struct group_options  options = { .sort_ranks = true };
    struct process_group *group = NULL;
    struct arguments      a;
    group_here(L);
    take_arguments(L, &a);
    if (!a.at[0].none) {
        int  list = (int)a.at[0].integer[0];
        options.count = (int)lua_rawlen(L, list);
        int *ranks = lua_newuserdatauv(L, ((size_t)options.count + 1) * sizeof *ranks, 0);
        for (int i = 0; i < options.count; i++) {
            lua_rawgeti(L, list, i + 1);
            if (!lua_isinteger(L, -1))
                return raise_error(L, "TypeError", "new_group: rank %d of the list is no integer", i);
            ranks[i] = (int)lua_tointeger(L, -1);
            lua_pop(L, 1);
        }
        options.ranks = ranks;
    }
    options.local_sync = a.at[1].integer[0] != 0;
    struct call call = call_open(L, me, CALL_BACK);
    bool        ok   = process_group_new(me, rank->context.world, rank->context.rank, &options, &group);
    call_end(&call, ok);
    push_group(L, group);
    return call_leave(&call, 1);
}

static const struct lua_entry entries[] = {
    { "new_group", l_new_group, "dist.new_group(table? ranks=None, *, bool use_local_synchronization=False) -> any",
      "a group of some ranks; all ranks of the world call it in the same order" },
};

void
lua_open_groups(lua_State *L)
{
    box_class(L, BOX_GROUP, NULL, 0);
    lua_pop(L, 1);
    fill_namespace(L, "distributed", entries, countof(entries));
}
