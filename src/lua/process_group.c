/* A group of ranks as lessons see it: the object, and what is asked about one. As torch.distributed.ProcessGroup,
 * get_rank, get_world_size, get_group_rank and their like.
 *
 * Interface: push_group, check_group, group_given, take_rank_call, peer_of, lua_open_process_group. */
#include <math.h>
#include <string.h>
#include "base/vec.h"
#include "c10d/job.h"
#include "lua/dispatch.h"
#include "lua/rank.h"
#include "lua/share.h"
#include "lua/shelf.h"
#include "lua/spawned.h"
#include "sched/sched.h"
#include "sched/task.h"

/* What a rank that is no member gets for the group: calls in it warn and do nothing. */
static const char no_member[] = "NON_GROUP_MEMBER";
static const double ps_of_second = 1e12;
enum { DESCRIPTION = 1 };   /* the box's user value: group_desc */

void
push_group(lua_State *L, struct process_group *group)
{
    if (group == NULL) {
        lua_pushliteral(L, "NON_GROUP_MEMBER");
        return;
    }
    box_push(L, BOX_GROUP, 1);
    lua_pushstring(L, process_group_number(group) == 0 ? "default_pg" : "undefined");
    lua_setiuservalue(L, -2, DESCRIPTION);
    box_fill(L, group, NULL, true);
}

static bool
is_no_member(lua_State *L, int index)
{
    return lua_type(L, index) == LUA_TSTRING && strcmp(lua_tostring(L, index), no_member) == 0;
}

struct process_group *
check_group(lua_State *L, int index)
{
    if (is_no_member(L, index))
        return NULL;
    struct process_group *group = box_check(L, index, BOX_GROUP);
    if (process_group_is_gone(group) && !process_group_runs_on(group, script_task(L)))
        raise_error(L, "ValueError", "Invalid process group specified: group %d was destroyed",
                    process_group_number(group));
    return group;
}

struct process_group *
group_given(lua_State *L, const struct argument *given)
{
    return given == NULL || given->none ? group_here(L) : check_group(L, (int)given->integer[0]);
}

bool
take_rank_call(lua_State *L, struct rank_call *out, int place)
{
    out->me = script_task(L);
    take_arguments(L, &out->a);
    group_here(L);
    out->group = group_given(L, place >= 0 ? &out->a.at[place] : NULL);
    if (out->group == NULL)
        task_warn(out->me, "this rank is no member of the group: the call does nothing here");
    return out->group != NULL;
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

/* ---- time ---- */

uint64_t
check_timeout(lua_State *L, double seconds)
{
    static const double most = 1e7;   /* seconds; picoseconds of it fit 64 bits */
    if (!(seconds > 0 && seconds <= most))
        raise_error(L, "ValueError", "timeout is a number of seconds, more than 0 and at most %.0f", most);
    return (uint64_t)ceil(seconds * ps_of_second);
}

uint64_t
timeout_given(lua_State *L, const struct argument *seconds, const struct argument *pg_options)
{
    uint64_t timeout = seconds->none ? 0 : check_timeout(L, seconds->number);
    if (pg_options->none)
        return timeout;
    int table = (int)pg_options->integer[0];
    check_table(L, table);
    option_known(L, table, "_timeout");
    if (!option_push(L, table, "_timeout"))
        return timeout;
    timeout = check_timeout(L, check_number(L, -1));
    lua_pop(L, 1);
    return timeout;
}

static void
push_timeout(lua_State *L, const struct process_group *group)
{
    uint64_t ps      = process_group_timeout(group);
    double   seconds = (double)(ps != 0 ? ps : sched_timeout(script_of(L)->sched)) / ps_of_second;
    if (seconds == floor(seconds))
        lua_pushinteger(L, (lua_Integer)seconds);
    else
        lua_pushnumber(L, seconds);
}

/* ---- questions ---- */

/* One question: the arguments, and the group of the one at `place`. */
static struct process_group *
take_question(lua_State *L, struct arguments *a, int place)
{
    script_task(L);
    take_arguments(L, a);
    return group_given(L, place < 0 ? NULL : &a->at[place]);
}

/* The same where who is no member may not ask. */
static struct process_group *
take_member_question(lua_State *L, struct arguments *a, int place)
{
    struct process_group *group = take_question(L, a, place);
    if (group == NULL)
        raise_error(L, "ValueError", "Invalid process group specified: this rank is no member of it");
    return group;
}

static int
l_get_rank(lua_State *L)
{
    struct arguments            a;
    const struct process_group *group = take_question(L, &a, 0);
    lua_pushinteger(L, group != NULL ? process_group_rank(group) : -1);
    return 1;
}

static int
l_get_world_size(lua_State *L)
{
    struct arguments            a;
    const struct process_group *group = take_question(L, &a, 0);
    lua_pushinteger(L, group != NULL ? process_group_size(group) : -1);
    return 1;
}

static int
l_get_backend(lua_State *L)
{
    struct arguments a;
    lua_pushstring(L, process_group_backend(take_member_question(L, &a, 0)));
    return 1;
}

static int
l_get_backend_config(lua_State *L)
{
    struct arguments a;
    const char      *name = process_group_backend(take_member_question(L, &a, 0));
    lua_pushfstring(L, "cpu:%s,cuda:%s", name, name);
    return 1;
}

/* The ranks of a group in the world; of NON_GROUP_MEMBER those of the last group that this rank is not in, as PyTorch
 * has it. */
static const int *
ranks_of(lua_State *L, const struct process_group *group, int *count)
{
    const struct rank_context *here  = &rank_here(L)->context;
    const int                 *ranks = group != NULL ? process_group_ranks(group) : NULL;
    *count = group != NULL ? process_group_size(group) : world_outside_ranks(here->world, here->rank, &ranks);
    return ranks;
}

static void
push_ranks(lua_State *L, const int *ranks, int count)
{
    lua_createtable(L, count, 0);
    for (int i = 0; i < count; i++) {
        lua_pushinteger(L, ranks[i]);
        lua_rawseti(L, -2, i + 1);
    }
}

static int
l_get_process_group_ranks(lua_State *L)
{
    struct arguments a;
    int              count;
    const int       *ranks = ranks_of(L, take_question(L, &a, 0), &count);
    push_ranks(L, ranks, count);
    return 1;
}

static int
l_get_global_rank(lua_State *L)
{
    struct arguments a;
    int              count;
    const int       *ranks = ranks_of(L, take_question(L, &a, 0), &count);
    int64_t          wanted = a.at[1].integer[0];
    if (wanted < 0 || wanted >= count)
        return raise_error(L, "ValueError", "Group rank %lld is not part of the group: it has ranks 0 to %d",
                           (long long)wanted, count - 1);
    lua_pushinteger(L, ranks[wanted]);
    return 1;
}

static int
l_get_group_rank(lua_State *L)
{
    struct arguments a;
    int              count, at = 0;
    const int       *ranks = ranks_of(L, take_question(L, &a, 0), &count);
    int64_t          wanted = a.at[1].integer[0];
    while (at < count && ranks[at] != wanted)
        at++;
    if (at == count)
        return raise_error(L, "ValueError", "Global rank %lld is not part of the group", (long long)wanted);
    lua_pushinteger(L, at);
    return 1;
}

/* All ranks of a spawn live on one node, but for a job's processes. */
static int
l_get_node_local_rank(lua_State *L)
{
    const struct rank *rank = script_of(L)->parts[SCRIPT_DISTRIBUTED];
    struct arguments   a;
    struct task       *me = script_task(L);
    take_arguments(L, &a);
    if (rank == NULL && a.at[0].none)
        return raise_error(L, "RuntimeError", "there are no ranks here, so no local one: give fallback_rank");
    const struct job *job = rank != NULL && (rank->spawn == NULL || rank->spawn->split) ? share_job(me) : NULL;
    lua_pushinteger(L, job != NULL ? job_local_rank(job) : rank != NULL ? rank->context.rank : a.at[0].integer[0]);
    return 1;
}

static int
l_set_timeout(lua_State *L)
{
    struct arguments      a;
    struct process_group *group = take_member_question(L, &a, 1);
    process_group_set_timeout(group, check_timeout(L, a.at[0].number));
    return 0;
}

static int
l_get_default_group(lua_State *L)
{
    script_task(L);
    push_group(L, group_here(L));
    return 1;
}

static int
l_get_process_group_name(lua_State *L)
{
    struct arguments            a;
    const struct process_group *group = take_question(L, &a, 0);
    if (group == NULL)
        lua_pushliteral(L, "None");
    else
        lua_pushfstring(L, "%d", process_group_number(group));
    return 1;
}

static const struct lua_entry entries[] = {
    { "get_rank", l_get_rank, "dist.get_rank(any? group=None) -> any", "this rank's number in the group" },
    { "get_world_size", l_get_world_size, "dist.get_world_size(any? group=None) -> any",
      "how many ranks the group has" },
    { "get_backend", l_get_backend, "dist.get_backend(any? group=None) -> any",
      "the group's back-end: local, or gloo or mpi in a job" },
    { "get_backend_config", l_get_backend_config, "dist.get_backend_config(any? group=None) -> any",
      "the back-end of each kind of device" },
    { "get_process_group_ranks", l_get_process_group_ranks, "dist.get_process_group_ranks(any? group=None) -> any",
      "the members' ranks in the world, by their ranks in the group" },
    { "get_global_rank", l_get_global_rank, "dist.get_global_rank(any group, int group_rank) -> any",
      "the rank in the world of a rank in the group" },
    { "get_group_rank", l_get_group_rank, "dist.get_group_rank(any group, int global_rank) -> any",
      "the rank in the group of a rank in the world" },
    { "get_node_local_rank", l_get_node_local_rank, "dist.get_node_local_rank(int? fallback_rank=None) -> any",
      "this rank's number on its node" },
    { "set_timeout", l_set_timeout, "dist.set_timeout(float timeout, any? group=None) -> any",
      "how long the group's calls wait from now on, in seconds" },
    { "_set_pg_timeout", l_set_timeout, "dist._set_pg_timeout(float timeout, any? group=None) -> any",
      "the older name of set_timeout" },
    { "_get_default_group", l_get_default_group, "dist._get_default_group()", "the group of all ranks" },
    { "_get_process_group_name", l_get_process_group_name, "dist._get_process_group_name(any group) -> any",
      "the group's name" },
};

/* ---- the object ---- */

static struct process_group *
check_self(lua_State *L)
{
    script_task(L);
    return box_check(L, 1, BOX_GROUP);
}

static int
l_rank(lua_State *L)
{
    lua_pushinteger(L, process_group_rank(check_self(L)));
    return 1;
}

static int
l_size(lua_State *L)
{
    lua_pushinteger(L, process_group_size(check_self(L)));
    return 1;
}

static int
l_name(lua_State *L)
{
    lua_pushstring(L, process_group_backend(check_self(L)));
    return 1;
}

static int
l_sequence(lua_State *L)
{
    lua_pushinteger(L, process_group_sequence(check_self(L)));
    return 1;
}

static int
l_set_own_timeout(lua_State *L)
{
    struct process_group *group = check_self(L);
    arg_most(L, 2);
    process_group_set_timeout(group, check_timeout(L, check_number(L, 2)));
    return 0;
}

static const struct lua_entry methods[] = {
    { "rank", l_rank, "group:rank()", "this rank's number in the group" },
    { "size", l_size, "group:size()", "how many ranks it has" },
    { "name", l_name, "group:name()", "its back-end's name" },
    { "set_timeout", l_set_own_timeout, "group:set_timeout(seconds)", "how long its calls wait from now on" },
    { "_set_default_timeout", l_set_own_timeout, "group:_set_default_timeout(seconds)", "the same" },
    { "_get_sequence_number_for_group", l_sequence, "group:_get_sequence_number_for_group()",
      "how many collectives this rank has called in it" },
    { "_register_on_completion_hook", l_register_on_completion_hook, "group:_register_on_completion_hook(f)",
      "calls f({op_type, seq, time_started, time_finished, active_duration}) when one of its collectives has ended" },
    { "_wait_for_pending_works", l_wait_for_pending_works, "group:_wait_for_pending_works()",
      "waits until all that was called in it has ended, hooks too" },
};

/* group.options: what it was made with, and the time limit as it is now. */
static void
push_group_options(lua_State *L, const struct process_group *group)
{
    lua_createtable(L, 0, 4);
    push_timeout(L, group);
    lua_setfield(L, -2, "_timeout");
    set_text(L, -1, "backend", process_group_backend(group));
    lua_pushfstring(L, "%d", process_group_number(group));
    lua_setfield(L, -2, "group_name");
    push_ranks(L, process_group_ranks(group), process_group_size(group));
    lua_setfield(L, -2, "global_ranks_in_group");
}

/* Upvalue 1: the methods. */
static int
group_index(lua_State *L)
{
    struct process_group *group = check_self(L);
    const char           *name  = lua_type(L, 2) == LUA_TSTRING ? lua_tostring(L, 2) : "";
    if (strcmp(name, "options") == 0)
        push_group_options(L, group);
    else if (strcmp(name, "group_name") == 0)
        lua_pushfstring(L, "%d", process_group_number(group));
    else if (strcmp(name, "group_desc") == 0)
        lua_getiuservalue(L, 1, DESCRIPTION);
    else if (lua_pushvalue(L, 2), shelf_get(L, lua_upvalueindex(1)) == LUA_TNIL)
        return no_attribute(L, "a ProcessGroup", name, lua_upvalueindex(1), "options group_name group_desc");
    return 1;
}

static int
group_tostring(lua_State *L)
{
    struct process_group *group = check_self(L);
    luaL_Buffer           text;
    luaL_buffinit(L, &text);
    lua_pushfstring(L, "ProcessGroup(%d, rank %d of %d, ranks {", process_group_number(group),
                    process_group_rank(group), process_group_size(group));
    luaL_addvalue(&text);
    for (int i = 0; i < process_group_size(group); i++) {
        lua_pushfstring(L, i > 0 ? ", %d" : "%d", process_group_ranks(group)[i]);
        luaL_addvalue(&text);
    }
    luaL_addstring(&text, process_group_is_gone(group) ? "}, destroyed)" : "})");
    luaL_pushresult(&text);
    return 1;
}

/* ---- dist.group, dist.GroupMember ---- */

/* Upvalue 1: the table's name. WORLD is the default group of the moment. */
static int
member_index(lua_State *L)
{
    const struct rank *rank = script_of(L)->parts[SCRIPT_DISTRIBUTED];
    const char        *name = lua_type(L, 2) == LUA_TSTRING ? lua_tostring(L, 2) : "";
    if (strcmp(name, "NON_GROUP_MEMBER") == 0)
        push_group(L, NULL);
    else if (strcmp(name, "WORLD") != 0)
        return no_attribute(L, lua_tostring(L, lua_upvalueindex(1)), name, 0, "WORLD NON_GROUP_MEMBER");
    else if (rank == NULL || rank->context.group == NULL)
        lua_pushnil(L);
    else
        push_group(L, rank->context.group);
    return 1;
}

static void
open_members(lua_State *L, const char *name)
{
    lua_newtable(L);
    lua_createtable(L, 0, 1);
    lua_pushfstring(L, "rs.distributed.%s", name);
    lua_pushcclosure(L, member_index, 1);
    lua_setfield(L, -2, "__index");
    lua_setmetatable(L, -2);
    lua_setfield(L, -2, name);
}

void
lua_open_process_group(lua_State *L)
{
    box_class(L, BOX_GROUP, methods, countof(methods));
    lua_getfield(L, -1, "__index");
    lua_pushcclosure(L, group_index, 1);
    lua_setfield(L, -2, "__index");
    lua_pushcfunction(L, group_tostring);
    lua_setfield(L, -2, "__tostring");
    lua_pop(L, 1);
    open_namespace(L, "distributed", entries, countof(entries));
    open_members(L, "group");
    open_members(L, "GroupMember");
    lua_pop(L, 1);
}
