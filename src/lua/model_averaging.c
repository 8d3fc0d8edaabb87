/* rs.distributed.algorithms.model_averaging: averagers that give all ranks the mean of their parameters every so many
 * steps, and the functions that they are made of. An averager is a table (period, warmup_steps, step, process_group),
 * so that a lesson can look at all of it and write its own: whatever has a step and a method average_parameters will
 * do.
 * As torch/distributed/algorithms/model_averaging.
 *
 * Interface: lua_open_model_averaging. */
#include "parallel/model_averaging.h"
#include <stdlib.h>
#include <string.h>
#include "base/vec.h"
#include "lua/dispatch.h"
#include "lua/rank.h"
#include "nn/module.h"
#include "sched/task.h"
#include "tensor/tensor.h"

static const char PERIODIC[] = "ringside.periodic_averager", HIERARCHICAL[] = "ringside.hierarchical_averager";
enum { LEVELS = 64 };
#define TOO_OFTEN                                                                                                    \
    "because the communication cost of all-reducing parameters will be no less than the cost of all-reducing "       \
    "gradients by DistributedDataParallel in the backward pass. Therefore, only DistributedDataParallel should be "  \
    "used for this case."

/* ---- which parameters ---- */

/* The value at the top, a parameter, goes to the end of the list at `list` if it has a gradient; it is popped. */
static void
add_with_gradient(lua_State *L, int list)
{
    const struct tensor *param = test_tensor(L, -1);
    if (param == NULL || !param->is_parameter) {
        lua_pushstring(L, param != NULL ? "Tensor" : luaL_typename(L, -1));
        raise_error(L, "NotImplementedError", "Parameter input of type %s is not supported: give net:parameters() or "
                    "opt.param_groups", lua_tostring(L, -1));
    }
    if (param->grad != NULL)
        lua_rawseti(L, list, (lua_Integer)lua_rawlen(L, list) + 1);
    else
        lua_pop(L, 1);
}

/* The table at the top, a group of an optimizer, is popped. */
static void
add_group(lua_State *L, int list)
{
    int group = lua_gettop(L);
    if (lua_getfield(L, group, "params") != LUA_TTABLE)
        raise_error(L, "KeyError", "'params': a parameter group is a table: {params = {...}, lr = 0.1}");
    int params = lua_gettop(L), count = (int)lua_rawlen(L, params);
    for (int i = 1; i <= count; i++) {
        lua_rawgeti(L, params, i);
        add_with_gradient(L, list);
    }
    lua_settop(L, group - 1);
}

/* Of the list at `index`, of parameters or of groups, those that have a gradient: a list, pushed. */
static int
push_params_to_average(lua_State *L, int index)
{
    index = lua_absindex(L, index);
    if (!lua_istable(L, index))
        arg_error(L, index, "a list of parameters, or an optimizer's param_groups");
    lua_newtable(L);
    int list = lua_gettop(L), count = (int)lua_rawlen(L, index);
    for (int i = 1; i <= count; i++) {
        lua_rawgeti(L, index, i);
        if (is_plain_table(L, -1))
            add_group(L, list);
        else
            add_with_gradient(L, list);
    }
    return list;
}

/* The list at the top becomes the means. */
static void
average(lua_State *L, struct process_group *group)
{
    struct task    *me    = script_task(L);
    int             count = 0;
    struct tensor **params = lua_rawlen(L, -1) > 0 ? check_tensors(L, lua_gettop(L), &count) : NULL;
    struct call     call  = call_open(L, me, CALL_BACK);
    call_done(&call, average_parameters(me, params, count, group));
}

static int
l_average_parameters(lua_State *L)
{
    struct arguments a;
    take_arguments(L, &a);
    struct process_group *group = group_given(L, &a.at[1]);
    lua_pushvalue(L, (int)a.at[0].integer[0]);
    average(L, group);
    return 0;
}

static int
l_get_params_to_average(lua_State *L)
{
    arg_most(L, 1);
    push_params_to_average(L, 1);
    return 1;
}

static int
l_average_groups(lua_State *L)
{
    struct arguments a;
    take_arguments(L, &a);
    struct process_group *group = group_given(L, &a.at[1]);
    push_params_to_average(L, (int)a.at[0].integer[0]);
    average(L, group);
    return 0;
}

/* ---- averagers ---- */

/* A new averager at the top: its step, its group and its warm-up. */
static int
push_averager(lua_State *L, const char *class, const struct argument *group)
{
    lua_createtable(L, 0, 6);
    luaL_setmetatable(L, class);
    int self = lua_gettop(L);
    push_group(L, group_given(L, group));
    lua_setfield(L, self, "process_group");
    set_integer(L, self, "step", 0);
    return self;
}

static void
set_warmup(lua_State *L, int self, int64_t warmup_steps)
{
    if (warmup_steps < 0)
        raise_error(L, "ValueError", "Arg ``warmup_steps`` must be a non-negative number, not %lld.",
                    (long long)warmup_steps);
    set_integer(L, self, "warmup_steps", warmup_steps);
}

static int
l_model_averager(lua_State *L)
{
    return raise_error(L, "TypeError", "Can't instantiate abstract class ModelAverager with abstract method "
                       "average_parameters: an averager of your own is a table with step = 0 and a function "
                       "average_parameters(self, params)");
}

static int
l_periodic(lua_State *L)
{
    struct arguments a;
    take_arguments(L, &a);
    int64_t period = a.at[0].integer[0];
    int     self   = push_averager(L, PERIODIC, &a.at[2]);
    set_warmup(L, self, a.at[1].integer[0]);
    if (period < 1)
        return raise_error(L, "ValueError", "Arg ``period`` must be a positive value, not %lld.", (long long)period);
    if (period == 1)
        lesson_warn(L, "When period is 1, no need to use model averaging " TOO_OFTEN);
    set_integer(L, self, "period", period);
    lua_settop(L, self);
    return 1;
}

static int64_t
field(lua_State *L, const char *name, int64_t least)
{
    lua_getfield(L, 1, name);
    if (!lua_isinteger(L, -1) || lua_tointeger(L, -1) < least)
        raise_error(L, "ValueError", "the averager's %s must stay an integer of %lld or more", name, (long long)least);
    int64_t value = lua_tointeger(L, -1);
    lua_pop(L, 1);
    return value;
}

/* Of an averager at 1 and parameters at 2: the latter's mean over the group at the top. */
static void
average_over(lua_State *L)
{
    struct process_group *group = check_group(L, -1);
    push_params_to_average(L, 2);
    average(L, group);
}

/* Behind the largest number there is none that stays one of 0 or more: the next call says so. */
static void
count_step(lua_State *L, int64_t step)
{
    set_integer(L, 1, "step", (int64_t)((uint64_t)step + 1));
}

static int
l_periodic_average(lua_State *L)
{
    if (!has_class(L, 1, PERIODIC))
        arg_error(L, 1, "a PeriodicModelAverager");
    lua_settop(L, 2);
    int64_t step = field(L, "step", 0);
    if (averaging_is_due(step, field(L, "warmup_steps", 0), field(L, "period", 1))) {
        lua_getfield(L, 1, "process_group");
        average_over(L);
    }
    count_step(L, step);
    return 0;
}

/* ---- the hierarchy ---- */

struct level { int64_t period, size; };

static int
by_period(const void *a, const void *b)
{
    int64_t first = ((const struct level *)a)->period, second = ((const struct level *)b)->period;
    return (first > second) - (first < second);
}

static int64_t
number_at(lua_State *L, int index)
{
    int whole = 0;
    lua_Integer number = lua_tointegerx(L, index, &whole);
    if (!whole)
        raise_error(L, "TypeError", "period_group_size_dict: periods and group sizes are integers, "
                                    "{ [4] = 8, [16] = 16 }");
    return number;
}

static struct level
next_level(lua_State *L)
{
    if (lua_istable(L, -1)) { /* {period, size} of a list */
        lua_rawgeti(L, -1, 1);
        lua_rawgeti(L, -2, 2);
        struct level level = { .period = number_at(L, -2) };
        level.size = number_at(L, -1);
        lua_pop(L, 2);
        return level;
    }
    struct level level = { .period = number_at(L, -2) };
    level.size = number_at(L, -1);
    return level;
}

/* { [4] = 8, [16] = 16 }, by rising period since Lua's tables have no order; or { {4, 8}, {16, 16} }, in its own. */
static int
read_levels(lua_State *L, int table, struct level levels[LEVELS])
{
    int  count  = 0;
    bool listed = lua_istable(L, table) && lua_rawgeti(L, table, 1) == LUA_TTABLE;
    lua_settop(L, lua_istable(L, table) ? lua_gettop(L) - 1 : lua_gettop(L));
    if (!lua_istable(L, table) || (lua_pushnil(L), lua_next(L, table) == 0))
        raise_error(L, "ValueError", "Arg ``period_group_size_dict`` must not be empty.");
    lua_pop(L, 2);
    for (lua_pushnil(L); !listed && lua_next(L, table) != 0; lua_pop(L, 1)) {
        if (count == LEVELS)
            raise_error(L, "ValueError", "period_group_size_dict: more than %d levels", LEVELS);
        levels[count++] = next_level(L);
    }
    for (int i = 1; listed && i <= (int)lua_rawlen(L, table); i++, lua_pop(L, 1)) {
        if (count == LEVELS)
            raise_error(L, "ValueError", "period_group_size_dict: more than %d levels", LEVELS);
        lua_rawgeti(L, table, i);
        levels[count++] = next_level(L);
    }
    if (!listed)
        qsort(levels, (size_t)count, sizeof *levels, by_period);
    return count;
}

static void
check_levels(lua_State *L, const struct level *levels, int count, const struct process_group *group)
{
    for (int i = 0; i < count; i++)
        if (levels[i].period <= 0)
            raise_error(L, "ValueError", "The minimum period in arg ``period_group_size_dict`` must be a positive "
                        "value, not %lld.", (long long)levels[i].period);
    if (levels[count - 1].period == 1)
        lesson_warn(L, "When the maximum period in arg ``period_group_size_dict`` is 1, no need to use model averaging "
                       TOO_OFTEN);
    int whole = group != NULL ? process_group_size(group) : -1;
    if (levels[count - 1].size != whole)
        raise_error(L, "ValueError", "The last value in arg ``period_group_size_dict`` %lld must be equal to the "
                    "size of arg ``process_group`` %d.", (long long)levels[count - 1].size, whole);
}

/* dist.new_subgroups{group_size, group}: this rank's, pushed. All ranks of the group come here. */
static void
push_subgroup(lua_State *L, int self, int64_t size)
{
    int top = lua_gettop(L);
    push_ringside(L);
    lua_getfield(L, -1, "distributed");
    lua_getfield(L, -1, "new_subgroups");
    lua_createtable(L, 0, 2);
    set_integer(L, -1, "group_size", size);
    lua_getfield(L, self, "process_group");
    lua_setfield(L, -2, "group");
    lua_call(L, 1, 1);
    lua_replace(L, top + 1);
    lua_settop(L, top + 1);
}

static int
l_hierarchical(lua_State *L)
{
    struct arguments a;
    struct level     levels[LEVELS];
    take_arguments(L, &a);
    struct process_group *whole = group_given(L, &a.at[2]);
    int self = push_averager(L, HIERARCHICAL, &a.at[2]), count = 0;
    if (a.at[0].none)
        return raise_error(L, "ValueError", "Arg ``period_group_size_dict`` must not be empty.");
    count = read_levels(L, (int)a.at[0].integer[0], levels);
    check_levels(L, levels, count, whole);
    lua_newtable(L);
    int groups = lua_gettop(L);
    lua_createtable(L, count, 0);
    for (int i = 0; i < count; i++) {
        if (levels[i].size == process_group_size(whole))
            lua_getfield(L, self, "process_group");
        else
            push_subgroup(L, self, levels[i].size);
        lua_rawseti(L, groups, levels[i].period);
        lua_pushinteger(L, levels[i].period);
        lua_rawseti(L, groups + 1, i + 1);
    }
    lua_setfield(L, self, "_periods");
    lua_setfield(L, self, "period_process_group_dict");
    set_warmup(L, self, a.at[1].integer[0]);
    lua_settop(L, self);
    return 1;
}

/* The averager at 1: the group that averages after this step, pushed; false: none. */
static bool
push_group_of_step(lua_State *L, int64_t step, int64_t warmup_steps)
{
    int64_t periods[LEVELS];
    int     count = 0;
    lua_getfield(L, 1, "_periods");
    check_table(L, -1);
    for (; count < LEVELS && lua_rawgeti(L, -1, count + 1) != LUA_TNIL; lua_pop(L, 1), count++)
        if ((periods[count] = check_integer(L, -1)) < 1)
            raise_error(L, "ValueError", "the averager's periods must stay positive");
    int level = averaging_level(step, warmup_steps, periods, count);
    if (level < 0)
        return false;
    lua_getfield(L, 1, "period_process_group_dict");
    check_table(L, -1);
    lua_rawgeti(L, -1, periods[level]);
    return true;
}

static int
check_hierarchical(lua_State *L)
{
    if (!has_class(L, 1, HIERARCHICAL))
        arg_error(L, 1, "a HierarchicalModelAverager");
    return 1;
}

static int
l_find_process_group(lua_State *L)
{
    check_hierarchical(L);
    lua_settop(L, 1);
    return push_group_of_step(L, field(L, "step", 0), 0) ? 1 : 0;
}

static int
l_hierarchical_average(lua_State *L)
{
    check_hierarchical(L);
    lua_settop(L, 2);
    int64_t step = field(L, "step", 0);
    if (push_group_of_step(L, step, field(L, "warmup_steps", 0)))
        average_over(L);
    count_step(L, step);
    return 0;
}

/* ---- names ---- */

#define NAMED "dist.algorithms.model_averaging."
#define PARAMS_HELP "of a list of parameters, or of an optimizer's param_groups"
static const struct lua_entry utils_entries[] = {
    { "average_parameters", l_average_parameters,
      NAMED "utils.average_parameters(table params, any? process_group=None) -> any",
      "the parameters become their mean over the group's ranks, by one all-reduce" },
    { "get_params_to_average", l_get_params_to_average, NAMED "utils.get_params_to_average(params)",
      "those that have a gradient, " PARAMS_HELP },
    { "average_parameters_or_parameter_groups", l_average_groups,
      NAMED "utils.average_parameters_or_parameter_groups(table params, any? process_group=None) -> any",
      "those that have a gradient become their mean over the group's ranks, " PARAMS_HELP },
};
static const struct lua_entry averager_entries[] = {
    { "ModelAverager", l_model_averager, NAMED "averagers.ModelAverager(process_group)",
      "what averagers have in common: none is made of it" },
    { "PeriodicModelAverager", l_periodic,
      NAMED "averagers.PeriodicModelAverager(int period, int warmup_steps=0, any? process_group=None) -> any",
      "averages the parameters every period-th step from step warmup_steps on; averager.step counts the calls" },
};
static const struct lua_entry hierarchical_entries[] = {
    { "HierarchicalModelAverager", l_hierarchical,
      NAMED "hierarchical_model_averager.HierarchicalModelAverager(table? period_group_size_dict=None, "
      "int warmup_steps=0, any? process_group=None) -> any",
      "averages in small groups often and in large ones seldom: after a step the largest period that divides its "
      "number counts" },
};
static const struct lua_entry periodic_methods[] = {
    { "average_parameters", l_periodic_average, "PeriodicModelAverager.average_parameters(averager, params)",
      "after opt:step(): the means if this step is one for it, and counts the step" },
};
static const struct lua_entry hierarchical_methods[] = {
    { "average_parameters", l_hierarchical_average, "HierarchicalModelAverager.average_parameters(averager, params)",
      "after opt:step(): the means over the group whose turn it is, if any, and counts the step" },
    { "_find_process_group", l_find_process_group, "HierarchicalModelAverager._find_process_group(averager)",
      "the group of the largest period that divides the present step, or nil" },
};

#define AVERAGING "distributed.algorithms.model_averaging"

void
lua_open_model_averaging(lua_State *L)
{
    static const luaL_Reg none[] = { { NULL, NULL } };
    open_class(L, PERIODIC, periodic_methods, countof(periodic_methods), none);
    open_class(L, HIERARCHICAL, hierarchical_methods, countof(hierarchical_methods), none);
    fill_namespace(L, AVERAGING ".averagers", averager_entries, countof(averager_entries));
    fill_namespace(L, AVERAGING ".hierarchical_model_averager", hierarchical_entries, countof(hierarchical_entries));
    fill_namespace(L, AVERAGING ".utils", utils_entries, countof(utils_entries));
}
