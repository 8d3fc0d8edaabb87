/* How groups are made and end: new_group, its relatives that make several at once, destroy_process_group. All of them
 * are calls that every rank makes in the same order, for a rank's calls are counted. As torch.distributed's functions
 * of these names.
 *
 * Interface: lua_open_groups; process_group.c has the object. */
#include <string.h>
#include "base/vec.h"
#include "lua/dispatch.h"
#include "lua/rank.h"
#include "sched/task.h"

/* What all of them say of a group to be made, but its ranks. */
struct making {
    struct task          *me;
    struct process_group *parent;     /* whose ranks call: the default group, or the one that is divided */
    struct group_options  options;
    int                   description; /* where group_desc is; 0: nothing was given */
};

/* `at` in new_group's order: timeout, backend, pg_options. */
static void
take_making(lua_State *L, struct making *out, const struct argument *at)
{
    *out = (struct making){ .me = script_task(L), .parent = group_here(L), .options = { .sort_ranks = true } };
    out->options.timeout_ps = timeout_given(L, &at[0], &at[2]);
    check_backend(L, out->me, at[1].none ? NULL : at[1].text);
}

static void
note_description(lua_State *L, struct making *making, const struct argument *text)
{
    if (text->none)
        return;
    lua_pushstring(L, text->text);
    making->description = lua_gettop(L);
}

/* How many keys the table at `list` has. */
static size_t
count_keys(lua_State *L, int list)
{
    size_t count = 0;
    for (lua_pushnil(L); lua_next(L, list) != 0; lua_pop(L, 1))
        count++;
    return count;
}

/* Integers of the list at `list`, each within an int; `what` is the call. They stay on the stack. */
static int *
read_ranks(lua_State *L, const char *what, int list, int most, int *count)
{
    size_t length = lua_rawlen(L, list);
    list          = lua_absindex(L, list);
    list_only(L, list);
    if (length > (size_t)most)
        raise_error(L, "ValueError", "%s: a list of %zu ranks, but the world has %d", what, length, most);
    if (count_keys(L, list) != length)
        raise_error(L, "TypeError", "%s: the list of ranks has a hole", what);
    int *ranks = lua_newuserdatauv(L, (length + 1) * sizeof *ranks, 0);
    for (size_t i = 0; i < length; i++) {
        if (lua_rawgeti(L, list, (lua_Integer)i + 1) != LUA_TNUMBER || !lua_isinteger(L, -1))
            raise_error(L, "TypeError", "%s: rank %zu of the list is no integer", what, i);
        lua_Integer rank = lua_tointeger(L, -1);
        if (rank < INT32_MIN || rank > INT32_MAX)
            raise_error(L, "ValueError", "%s: rank %lld is outside the world of %d, which has ranks 0 to %d", what,
                        (long long)rank, most, most - 1);
        ranks[i] = (int)rank;
        lua_pop(L, 1);
    }
    *count = (int)length;
    return ranks;
}

/* Makes the group of making->options and pushes it. */
static void
make_group(lua_State *L, const struct making *making)
{
    struct process_group *group = NULL;
    struct call           call  = call_open(L, making->me, CALL_BACK);
    bool                  ok    = process_group_new(making->me, making->parent, &making->options, &group);
    call_end(&call, ok);
    push_group(L, group);
    if (group != NULL && making->description != 0) {
        lua_pushvalue(L, making->description);
        lua_setiuservalue(L, -2, 1);
    }
    call_leave(&call, 1);
}

static bool
is_empty_list(lua_State *L, int index)
{
    if (!is_plain_table(L, index) || (lua_pushnil(L), lua_next(L, index) == 0))
        return lua_istable(L, index);
    lua_pop(L, 2);
    return false;
}

static int
l_new_group(lua_State *L)
{
    struct arguments a;
    struct making    making;
    if (is_empty_list(L, 1))
        return raise_error(L, "ValueError", "new_group needs at least one rank");
    take_arguments(L, &a);
    take_making(L, &making, &a.at[1]);
    struct group_options *options = &making.options;
    int                   world   = process_group_size(making.parent);
    if (!a.at[0].none)
        options->ranks = read_ranks(L, "new_group", (int)a.at[0].integer[0], world, &options->count);
    options->local_sync = a.at[4].integer[0] != 0;
    options->sort_ranks = a.at[7].integer[0] != 0;
    check_device_id(L, making.me, &a.at[6]);
    note_description(L, &making, &a.at[5]);
    make_group(L, &making);
    return 1;
}

/* ---- several at once ---- */

/* Makes one group more, and knows of it afterwards: on the stack are the answer so far and the list of all. */
static void
add_subgroup(lua_State *L, const struct making *making)
{
    int current = lua_gettop(L) - 1, list = current + 1;
    make_group(L, making);
    if (box_test(L, -1, BOX_GROUP) != NULL) {
        lua_pushvalue(L, -1);
        lua_replace(L, current);
    }
    lua_rawseti(L, list, (lua_Integer)lua_rawlen(L, list) + 1);
}

static int
l_new_subgroups(lua_State *L)
{
    struct arguments a;
    struct making    making;
    take_arguments(L, &a);
    take_making(L, &making, &a.at[2]);
    note_description(L, &making, &a.at[5]);
    struct process_group *group = making.parent = group_given(L, &a.at[1]);
    if (group == NULL)
        return raise_error(L, "ValueError", "new_subgroups divides a group of which this rank is a member");
    int     world = process_group_size(group);
    int64_t size  = a.at[0].integer[0];
    if (a.at[0].none)
        return raise_error(L, "ValueError", "new_subgroups needs group_size: how many ranks each subgroup has");
    if (size <= 0)
        return raise_error(L, "ValueError", "The arg 'group_size' (%lld) must be positive", (long long)size);
    if (size > world)
        return raise_error(L, "ValueError", "The arg 'group_size' (%lld) must not exceed the world size (%d)",
                           (long long)size, world);
    if (world % size != 0)
        return raise_error(L, "ValueError", "The world size (%d) must be divisible by 'group_size=%lld'", world,
                           (long long)size);
    making.options.count = (int)size;
    push_group(L, NULL);
    lua_createtable(L, world / (int)size, 0);
    for (int first = 0; first < world; first += (int)size) {
        making.options.ranks = process_group_ranks(group) + first;
        add_subgroup(L, &making);
    }
    return 2;
}

/* The lists of the argument at `lists`, flat: `ends` says where each ends. Raises for a rank that is in two of them.
 * They stay on the stack. */
struct rank_lists { int *ranks, *ends; int count; };

static void
read_rank_lists(lua_State *L, const char *what, int lists, int world, struct rank_lists *out)
{
    size_t count = lua_rawlen(L, lists);
    list_only(L, lists);
    if (count == 0)
        raise_error(L, "ValueError", "%s: the list of lists of ranks is empty", what);
    if (count > (size_t)world)
        raise_error(L, "ValueError", "%s: %zu lists, but the world has %d ranks and none may be in two", what, count,
                    world);
    int *owner = lua_newuserdatauv(L, (size_t)world * sizeof *owner, 0);
    memset(owner, 0, (size_t)world * sizeof *owner);
    out->ranks = lua_newuserdatauv(L, (size_t)world * sizeof *out->ranks, 0);
    out->ends  = lua_newuserdatauv(L, count * sizeof *out->ends, 0);
    out->count = (int)count;
    for (int i = 0, used = 0; i < out->count; i++) {
        int length;
        if (lua_rawgeti(L, lists, i + 1) != LUA_TTABLE)
            raise_error(L, "TypeError", "%s: element %d of the list is no list of ranks", what, i);
        const int *ranks = read_ranks(L, what, -1, world, &length);
        if (length == 0)
            raise_error(L, "ValueError", "%s: list %d is empty", what, i);
        for (int k = 0; k < length; k++) {
            if (ranks[k] < 0 || ranks[k] >= world)
                raise_error(L, "ValueError", "%s: rank %d is outside the group, which has ranks 0 to %d", what,
                            ranks[k], world - 1);
            if (owner[ranks[k]] != 0)
                raise_error(L, "ValueError", "%s: rank %d is in list %d and in list %d", what, ranks[k],
                            owner[ranks[k]] - 1, i);
            owner[ranks[k]] = i + 1;
            out->ranks[used++] = ranks[k];
        }
        out->ends[i] = used;
        lua_pop(L, 2);
    }
}

/* Below the list of all it leaves the one that this rank is in, in the place of what was at the top. */
static void
make_subgroups(lua_State *L, struct making *making, const struct rank_lists *lists)
{
    lua_createtable(L, lists->count, 0);
    for (int i = 0, first = 0; i < lists->count; first = lists->ends[i++]) {
        making->options.ranks = lists->ranks + first;
        making->options.count = lists->ends[i] - first;
        add_subgroup(L, making);
    }
}

static int
l_new_subgroups_by_enumeration(lua_State *L)
{
    struct arguments  a;
    struct making     making;
    struct rank_lists lists;
    take_arguments(L, &a);
    take_making(L, &making, &a.at[1]);
    note_description(L, &making, &a.at[4]);
    read_rank_lists(L, "new_subgroups_by_enumeration", (int)a.at[0].integer[0], process_group_size(making.parent),
                    &lists);
    lua_pushnil(L);
    make_subgroups(L, &making, &lists);
    return 2;
}

/* Ranks here are those of the parent, in the order in which they are listed. */
static int
l_split_group(lua_State *L)
{
    struct arguments  a;
    struct making     making;
    struct rank_lists lists;
    take_arguments(L, &a);
    if (a.at[1].none)
        return raise_error(L, "ValueError", "split_group: split_ranks cannot be nil");
    const struct argument in_order[] = { a.at[2], a.at[5], a.at[3] };
    take_making(L, &making, in_order);
    note_description(L, &making, &a.at[4]);
    making.parent = group_given(L, &a.at[0]);
    if (making.parent == NULL)
        return raise_error(L, "ValueError", "split_group divides a group of which this rank is a member");
    making.options.sort_ranks = false;
    making.options.what       = "split_group";
    read_rank_lists(L, "split_group", (int)a.at[1].integer[0], process_group_size(making.parent), &lists);
    for (int i = 0; i < lists.ends[lists.count - 1]; i++)
        lists.ranks[i] = process_group_global_rank(making.parent, lists.ranks[i]);
    push_group(L, NULL);
    make_subgroups(L, &making, &lists);
    lua_pop(L, 1);
    return 1;
}

/* ---- the end ---- */

static int
l_destroy_process_group(lua_State *L)
{
    struct task     *me   = script_task(L);
    struct rank     *rank = rank_here(L);
    struct arguments a;
    take_arguments(L, &a);
    struct process_group *group = group_given(L, &a.at[0]);
    if (group == NULL)
        return 0;
    struct call call = call_open(L, me, CALL_BACK);
    bool        ok   = process_group_destroy(me, group);
    if (ok && group == rank->context.group)
        rank->context.group = NULL;
    return call_done(&call, ok);
}

static const struct lua_entry entries[] = {
    { "new_group", l_new_group,
      "dist.new_group(table? ranks=None, float? timeout=None, str? backend=None, any? pg_options=None, "
      "bool use_local_synchronization=False, str? group_desc=None, device? device_id=None, bool sort_ranks=True) "
      "-> any",
      "a group of some ranks; all ranks of the world call it in the same order, members or not: the number of the call "
      "is its name. The members wait for each other, the others for nobody" },
    { "new_subgroups", l_new_subgroups,
      "dist.new_subgroups(int? group_size=None, any? group=None, float? timeout=None, str? backend=None, "
      "any? pg_options=None, str? group_desc=None) -> any",
      "groups of neighbours, group_size ranks each: the one that this rank is in, and the list of all" },
    { "new_subgroups_by_enumeration", l_new_subgroups_by_enumeration,
      "dist.new_subgroups_by_enumeration(table ranks_per_subgroup_list, float? timeout=None, str? backend=None, "
      "any? pg_options=None, str? group_desc=None) -> any",
      "a group for each list of ranks: the one that this rank is in, and the list of all" },
    { "split_group", l_split_group,
      "dist.split_group(any? parent_pg=None, table? split_ranks=None, float? timeout=None, any? pg_options=None, "
      "str? group_desc=None, str? backend=None) -> any",
      "the part of a group that this rank falls to; all ranks of that group call it" },
    { "destroy_process_group", l_destroy_process_group, "dist.destroy_process_group(any? group=None) -> any",
      "ends a group when what was issued in it is done; the default group takes all others with it" },
};

void
lua_open_groups(lua_State *L)
{
    fill_namespace(L, "distributed", entries, countof(entries));
}
