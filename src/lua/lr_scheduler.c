/* optim.lr_scheduler: objects are tables (kind, optimizer, last_epoch, base_lrs and their options), so that a lesson
 * can look at all of it. Making one sets the first rate; each scheduler:step() after opt:step() the next. The
 * arithmetic is optim/schedule.c's. */
#include <limits.h>
#include <string.h>
#include "base/vec.h"
#include "lua/dispatch.h"
#include "lua/lesson.h"
#include "lua/optim.h"
#include "lua/spawn.h"
#include "optim/schedule.h"
#include "sched/task.h"

static const char SCHEDULER[] = "ringside.lr_scheduler";
enum { MILESTONES = 4096 };

static const struct { const char *name; enum schedule_kind kind; } kinds[] = {
    { "StepLR", SCHEDULE_STEP },           { "MultiStepLR", SCHEDULE_MULTI_STEP },
    { "ExponentialLR", SCHEDULE_EXPONENTIAL }, { "CosineAnnealingLR", SCHEDULE_COSINE },
    { "LinearLR", SCHEDULE_LINEAR },
};

static void
check_scheduler(lua_State *L, int index)
{
    if (!has_class(L, index, SCHEDULER))
        arg_error(L, index, "a scheduler");
}

/* ---- fields ---- */

static double
number_field(lua_State *L, int table, const char *name)
{
    if (lua_getfield(L, table, name) != LUA_TNUMBER)
        raise_error(L, "TypeError", "the scheduler's %s must stay a number", name);
    double number = lua_tonumber(L, -1);
    lua_pop(L, 1);
    return number;
}

static int64_t
scheduler_count(lua_State *L, int table, const char *name)
{
    double number = number_field(L, table, name);
    if (!(number >= -1 && number < 0x1p50))
        raise_error(L, "ValueError", "the scheduler's %s is %f", name, number);
    return (int64_t)number;
}

static const char *
kind_field(lua_State *L, int table)
{
    if (lua_getfield(L, table, "kind") != LUA_TSTRING)
        raise_error(L, "TypeError", "the scheduler's kind must stay a string");
    const char *kind = lua_tostring(L, -1);
    lua_pop(L, 1); /* the table keeps it */
    return kind;
}

/* The list field at the top of the stack in an array that the stack keeps in its place. */
static int64_t *
read_milestones(lua_State *L, int table, int *count)
{
    if (lua_getfield(L, table, "milestones") != LUA_TTABLE || lua_rawlen(L, -1) > MILESTONES)
        raise_error(L, "TypeError", "milestones: expected a list of epochs such as {30, 80}");
    list_only(L, -1);
    *count              = (int)lua_rawlen(L, -1);
    int64_t *milestones = lua_newuserdatauv(L, (size_t)(*count + 1) * sizeof *milestones, 0);
    for (int i = 0; i < *count; i++) {
        lua_rawgeti(L, -2, i + 1);
        if (!lua_isinteger(L, -1))
            raise_error(L, "TypeError", "milestones: expected a list of epochs such as {30, 80}");
        milestones[i] = lua_tointeger(L, -1);
        lua_pop(L, 1);
    }
    lua_remove(L, -2);
    return milestones;
}

/* Leaves the milestones' memory on the stack. false: no such arithmetic (LambdaLR). */
static bool
read_schedule(lua_State *L, int table, struct schedule *schedule)
{
    const char *name = kind_field(L, table);
    size_t      at   = 0;
    while (at < countof(kinds) && strcmp(kinds[at].name, name) != 0)
        at++;
    if (at == countof(kinds))
        return false;
    *schedule = (struct schedule){ .kind = kinds[at].kind, .length = 1 };
    switch (schedule->kind) {
    case SCHEDULE_STEP: schedule->length = scheduler_count(L, table, "step_size"); break;
    case SCHEDULE_COSINE:
        schedule->length  = scheduler_count(L, table, "T_max");
        schedule->eta_min = number_field(L, table, "eta_min");
        break;
    case SCHEDULE_LINEAR:
        schedule->length       = scheduler_count(L, table, "total_iters");
        schedule->start_factor = number_field(L, table, "start_factor");
        schedule->end_factor   = number_field(L, table, "end_factor");
        break;
    case SCHEDULE_MULTI_STEP: schedule->milestones = read_milestones(L, table, &schedule->milestone_count); break;
    case SCHEDULE_EXPONENTIAL: break;
    }
    if (schedule->kind <= SCHEDULE_EXPONENTIAL)
        schedule->gamma = number_field(L, table, "gamma");
    if (schedule->length < 1)
        raise_error(L, "ValueError", "%s: a schedule's length is 1 or more", name);
    return true;
}

/* ---- rates ---- */

/* The optimizer's groups go onto the stack. */
static void
push_groups(lua_State *L, int table)
{
    lua_getfield(L, table, "optimizer");
    box_check(L, -1, BOX_OPTIMIZER);
    push_param_groups(L, lua_gettop(L));
    lua_remove(L, -2);
}

/* lr_lambda may be one function or a list of one a group. */
static double
lambda_rate(lua_State *L, int table, int group, double base_lr, int64_t epoch)
{
    if (lua_getfield(L, table, "lr_lambda") == LUA_TTABLE) {
        lua_rawgeti(L, -1, group);
        lua_remove(L, -2);
    }
    lua_pushinteger(L, epoch);
    lua_call(L, 1, 1);
    if (lua_type(L, -1) != LUA_TNUMBER)
        raise_error(L, "TypeError", "LambdaLR: the function must answer a number, it answered %s",
                    luaL_typename(L, -1));
    double factor = lua_tonumber(L, -1);
    lua_pop(L, 1);
    return base_lr * factor;
}

/* Writes the rates of `epoch` into the groups. `afresh`: by that epoch alone, not from the rates before. */
static void
set_rates(lua_State *L, int table, int64_t epoch, bool afresh)
{
    struct schedule schedule;
    int             top = lua_gettop(L);
    bool            known = read_schedule(L, table, &schedule);
    push_groups(L, table);
    int groups = lua_gettop(L), count = (int)lua_rawlen(L, groups);
    lua_getfield(L, table, "base_lrs");
    check_table(L, -1);
    for (int i = 1; i <= count; i++) {
        lua_rawgeti(L, groups + 1, i);
        double base_lr = lua_tonumber(L, -1);
        lua_pop(L, 1);
        lua_rawgeti(L, groups, i);
        check_table(L, -1);
        double lr = option_number(L, lua_gettop(L), "lr", base_lr);
        if (!known)
            lr = lambda_rate(L, table, i, base_lr, epoch);
        else
            lr = afresh ? schedule_at(&schedule, base_lr, epoch) : schedule_next(&schedule, lr, base_lr, epoch);
        set_number(L, -1, "lr", lr);
        lua_pop(L, 1);
    }
    lua_settop(L, top);
}

static void
set_scheduler_epoch(lua_State *L, int table, int64_t epoch)
{
    set_integer(L, table, "last_epoch", epoch);
}

/* ---- stepping ---- */

/* Once: a scheduler that steps before its optimizer skips the first rate. */
static void
warn_order(lua_State *L, int table, int64_t epoch)
{
    lua_getfield(L, table, "optimizer");
    struct optimizer *optimizer = box_check(L, -1, BOX_OPTIMIZER);
    lua_pop(L, 1);
    struct script *script = script_of(L);
    struct lesson *lesson = lesson_of(script->holder);
    if (epoch == 1 && optimizer_steps(optimizer) == 0 && lesson != NULL)
        lesson_note(lesson, script_rank(script), "warning",
                    "scheduler:step() came before opt:step(): the first value of the schedule is skipped");
}

static void
sequential_step(lua_State *L, int table, int64_t epoch)
{
    int      count = 0, at = 0;
    int64_t *milestones = read_milestones(L, table, &count);
    while (at < count && milestones[at] <= epoch)
        at++;
    lua_getfield(L, table, "schedulers");
    check_table(L, -1);
    lua_rawgeti(L, -1, at + 1);
    int part = lua_gettop(L);
    check_scheduler(L, part);
    bool    begins = at > 0 && milestones[at - 1] == epoch;
    int64_t own    = begins ? 0 : scheduler_count(L, part, "last_epoch") + 1;
    set_rates(L, part, own, begins);
    set_scheduler_epoch(L, part, own);
}

static int
scheduler_step(lua_State *L)
{
    check_scheduler(L, 1);
    lua_settop(L, 1);
    int64_t epoch = scheduler_count(L, 1, "last_epoch") + 1;
    warn_order(L, 1, epoch);
    if (strcmp(kind_field(L, 1), "SequentialLR") == 0)
        sequential_step(L, 1, epoch);
    else
        set_rates(L, 1, epoch, false);
    set_scheduler_epoch(L, 1, epoch);
    return 0;
}

static int
get_last_lr(lua_State *L)
{
    check_scheduler(L, 1);
    push_groups(L, 1);
    int groups = lua_gettop(L), count = (int)lua_rawlen(L, groups);
    lua_createtable(L, count, 0);
    for (int i = 1; i <= count; i++) {
        lua_rawgeti(L, groups, i);
        lua_getfield(L, -1, "lr");
        lua_rawseti(L, groups + 1, i);
        lua_pop(L, 1);
    }
    return 1;
}

/* All but the optimizer and functions. */
static int
scheduler_state(lua_State *L)
{
    check_scheduler(L, 1);
    lua_settop(L, 1);
    lua_newtable(L);
    for (lua_pushnil(L); lua_next(L, 1) != 0;) {
        const char *name = lua_type(L, -2) == LUA_TSTRING ? lua_tostring(L, -2) : "";
        if (strcmp(name, "optimizer") == 0 || strcmp(name, "lr_lambda") == 0 || strcmp(name, "schedulers") == 0) {
            lua_pop(L, 1);
            continue;
        }
        lua_pushvalue(L, -2);
        lua_insert(L, -2);
        lua_rawset(L, 2);
    }
    if (strcmp(kind_field(L, 1), "SequentialLR") != 0)
        return 1;
    lua_getfield(L, 1, "schedulers");
    lua_newtable(L);
    for (int i = 1; i <= (int)lua_rawlen(L, 3); i++) {
        lua_pushcfunction(L, scheduler_state);
        lua_rawgeti(L, 3, i);
        lua_call(L, 1, 1);
        lua_rawseti(L, 4, i);
    }
    lua_setfield(L, 2, "schedulers");
    lua_settop(L, 2);
    return 1;
}

static int
scheduler_load(lua_State *L)
{
    check_scheduler(L, 1);
    check_table(L, 2);
    lua_settop(L, 2);
    bool sequential = strcmp(kind_field(L, 1), "SequentialLR") == 0;
    for (lua_pushnil(L); lua_next(L, 2) != 0;) {
        bool parts = lua_type(L, -2) == LUA_TSTRING && strcmp(lua_tostring(L, -2), "schedulers") == 0;
        if (parts) {
            lua_pop(L, 1);
            continue;
        }
        lua_pushvalue(L, -2);
        lua_insert(L, -2);
        lua_rawset(L, 1);
    }
    if (!sequential)
        return 0;
    lua_getfield(L, 1, "schedulers");
    lua_getfield(L, 2, "schedulers");
    check_table(L, 4);
    for (int i = 1; i <= (int)lua_rawlen(L, 3); i++) {
        lua_pushcfunction(L, scheduler_load);
        lua_rawgeti(L, 3, i);
        lua_rawgeti(L, 4, i);
        lua_call(L, 2, 0);
    }
    return 0;
}

/* ---- making ---- */

/* Argument 1 becomes the optimizer that has the rates. */
static void
unwrap_optimizer(lua_State *L)
{
    while (push_wrapped_optimizer(L, 1))
        lua_replace(L, 1);
}

/* A new object of the optimizer at argument 1, at the top: with base_lrs, the groups with initial_lr. */
static int
begin_scheduler(lua_State *L, const char *kind)
{
    unwrap_optimizer(L);
    box_check(L, 1, BOX_OPTIMIZER);
    lua_createtable(L, 0, 10);
    int self = lua_gettop(L);
    luaL_setmetatable(L, SCHEDULER);
    set_text(L, self, "kind", kind);
    lua_pushvalue(L, 1);
    lua_setfield(L, self, "optimizer");
    push_param_groups(L, 1);
    int groups = lua_gettop(L), count = (int)lua_rawlen(L, groups);
    lua_createtable(L, count, 0);
    for (int i = 1; i <= count; i++) {
        lua_rawgeti(L, groups, i);
        check_table(L, -1);
        double lr      = option_number(L, lua_gettop(L), "lr", 0);
        double initial = option_number(L, lua_gettop(L), "initial_lr", lr);
        set_number(L, -1, "initial_lr", initial);
        lua_pop(L, 1);
        lua_pushnumber(L, initial);
        lua_rawseti(L, groups + 1, i);
    }
    lua_setfield(L, self, "base_lrs");
    lua_settop(L, self);
    return self;
}

/* A scheduler with a field for each argument of its signature but the first, the optimizer. */
static int
begin_with(lua_State *L, const char *kind, struct arguments *a)
{
    const struct signature *signature = take_arguments(L, a);
    int self = begin_scheduler(L, kind);
    for (int i = 1; i < signature->count; i++) {
        const struct parameter *p = &signature->parameters[i];
        if (p->type == ARG_INT && (a->at[i].integer[0] < 1 || a->at[i].integer[0] > INT_MAX))
            raise_error(L, "ValueError", "%s is %lld: a schedule's length is 1 or more", p->name,
                        (long long)a->at[i].integer[0]);
    }
    set_arguments(L, self, a, 1);
    return self;
}

static int
finish_scheduler(lua_State *L, int self)
{
    set_rates(L, self, 0, false);
    set_scheduler_epoch(L, self, 0);
    lua_settop(L, self);
    return 1;
}

static int
step_lr(lua_State *L)
{
    struct arguments a;
    return finish_scheduler(L, begin_with(L, "StepLR", &a));
}

static int
multi_step_lr(lua_State *L)
{
    struct arguments a;
    return finish_scheduler(L, begin_with(L, "MultiStepLR", &a));
}

static int
exponential_lr(lua_State *L)
{
    struct arguments a;
    return finish_scheduler(L, begin_with(L, "ExponentialLR", &a));
}

static int
cosine_annealing_lr(lua_State *L)
{
    struct arguments a;
    return finish_scheduler(L, begin_with(L, "CosineAnnealingLR", &a));
}

static int
linear_lr(lua_State *L)
{
    struct arguments a;
    int              self  = begin_with(L, "LinearLR", &a);
    double           start = a.at[1].number, end = a.at[2].number;
    if (!(start > 0 && start <= 1))
        raise_error(L, "ValueError", "Starting multiplicative factor expected to be greater than 0 and less or equal "
                                     "to 1, got %f", start);
    if (!(end >= 0 && end <= 1))
        raise_error(L, "ValueError", "Ending multiplicative factor expected to be between 0 and 1, got %f", end);
    return finish_scheduler(L, self);
}

static int
lambda_lr(lua_State *L)
{
    struct arguments a;
    int              self = begin_with(L, "LambdaLR", &a), f = (int)a.at[1].integer[0];
    push_param_groups(L, 1);
    if (!lua_istable(L, f))
        check_function(L, f);
    else if (lua_rawlen(L, f) != lua_rawlen(L, -1))
        raise_error(L, "ValueError", "Expected %d lr_lambdas, but got %d", (int)lua_rawlen(L, -1),
                    (int)lua_rawlen(L, f));
    lua_settop(L, self);
    return finish_scheduler(L, self);
}

/* Making its parts has set rates, one after the other: all that is undone, then the first one begins. */
static void
begin_parts(lua_State *L, int self)
{
    push_groups(L, self);
    int groups = lua_gettop(L);
    for (int i = 1; i <= (int)lua_rawlen(L, groups); i++) {
        lua_rawgeti(L, groups, i);
        lua_getfield(L, -1, "initial_lr");
        lua_setfield(L, -2, "lr");
        lua_pop(L, 1);
    }
    lua_getfield(L, self, "schedulers");
    int parts = lua_gettop(L), count = (int)lua_rawlen(L, parts);
    for (int i = 1; i <= count; i++) {
        lua_rawgeti(L, parts, i);
        set_scheduler_epoch(L, lua_gettop(L), -1);
        if (i == 1) {
            set_rates(L, lua_gettop(L), 0, false);
            set_scheduler_epoch(L, lua_gettop(L), 0);
        }
        lua_pop(L, 1);
    }
    lua_settop(L, self);
}

/* SequentialLR(optimizer, {first, second, ...}, {milestones}) */
static int
sequential_lr(lua_State *L)
{
    check_table(L, 2);
    check_table(L, 3);
    lua_settop(L, 3);
    unwrap_optimizer(L);
    if (lua_getfield(L, 3, "milestones") == LUA_TTABLE)
        lua_replace(L, 3);
    lua_settop(L, 3);
    int count = (int)lua_rawlen(L, 2);
    if (count < 1 || (int)lua_rawlen(L, 3) != count - 1)
        raise_error(L, "ValueError", "Sequential Schedulers expects number of schedulers provided to be one more than "
                                     "the number of milestone points, but got number of schedulers %d and the number "
                                     "of milestones to be equal to %d", count, (int)lua_rawlen(L, 3));
    for (int i = 1; i <= count; i++) {
        lua_rawgeti(L, 2, i);
        check_scheduler(L, 4);
        lua_getfield(L, 4, "optimizer");
        if (!lua_rawequal(L, -1, 1) || strcmp(kind_field(L, 4), "SequentialLR") == 0)
            raise_error(L, "ValueError", "Sequential Schedulers expects all schedulers to belong to the same "
                                         "optimizer");
        lua_settop(L, 3);
    }
    int self = begin_scheduler(L, "SequentialLR");
    lua_pushvalue(L, 2);
    lua_setfield(L, self, "schedulers");
    lua_pushvalue(L, 3);
    lua_setfield(L, self, "milestones");
    begin_parts(L, self);
    set_scheduler_epoch(L, self, 0);
    return 1;
}

static const struct lua_entry methods[] = {
    { "step", scheduler_step, "scheduler:step()", "the next epoch's learning rate, after opt:step()" },
    { "get_last_lr", get_last_lr, "scheduler:get_last_lr()", "the rates in use, one a group" },
    { "state_dict", scheduler_state, "scheduler:state_dict()", "where it stands" },
    { "load_state_dict", scheduler_load, "scheduler:load_state_dict(dict)", "goes on from there" },
};
static const struct lua_entry entries[] = {
    { "StepLR", step_lr, "optim.lr_scheduler.StepLR(any opt, int step_size, float gamma=0.1) -> any",
      "times gamma every step_size epochs" },
    { "MultiStepLR", multi_step_lr, "optim.lr_scheduler.MultiStepLR(any opt, table milestones, float gamma=0.1) -> any",
      "times gamma at each milestone" },
    { "ExponentialLR", exponential_lr, "optim.lr_scheduler.ExponentialLR(any opt, float gamma) -> any",
      "times gamma every epoch" },
    { "CosineAnnealingLR", cosine_annealing_lr,
      "optim.lr_scheduler.CosineAnnealingLR(any opt, int T_max, float eta_min=0) -> any",
      "down along half a cosine in T_max epochs, then up again" },
    { "LinearLR", linear_lr, "optim.lr_scheduler.LinearLR(any opt, float start_factor=0.33333333333333331, "
      "float end_factor=1, int total_iters=5) -> any",
      "a straight line of factors" },
    { "LambdaLR", lambda_lr, "optim.lr_scheduler.LambdaLR(any opt, any lr_lambda) -> any",
      "the first rate times what the function answers" },
    { "SequentialLR", sequential_lr, "optim.lr_scheduler.SequentialLR(opt, {first, second}, {milestones})",
      "one scheduler after the other" },
};

void
lua_open_lr_scheduler(lua_State *L)
{
    open_class(L, SCHEDULER, methods, countof(methods), (const luaL_Reg[]){ { NULL, NULL } });
    fill_namespace(L, "optim.lr_scheduler", entries, countof(entries));
}
