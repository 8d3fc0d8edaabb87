/* rs.distributed.algorithms.ddp_comm_hooks.powerSGD_hook: PowerSGDState and its two hooks. As PyTorch's module of that
 * name. Interface: powersgd_hooks, lua_open_powersgd. */
#include <stddef.h>
#include "base/vec.h"
#include "device/cells.h"
#include "lua/comm_hook.h"
#include "lua/dispatch.h"
#include "lua/rank.h"
#include "parallel/powersgd.h"
#include "sched/task.h"

static const struct state_class state_class;

static struct powersgd *
check_powersgd(lua_State *L, int index, const char *what)
{
    return (struct powersgd *)check_state(L, index, &state_class, what);
}

/* ---- what it remembers, by bucket from 0 ---- */

/* A table of what lies at `offset` in the memory of each bucket that has it. */
static void
push_memory(lua_State *L, struct hook_state *head, size_t offset)
{
    const struct powersgd *state = (const struct powersgd *)head;
    lua_newtable(L);
    for (size_t i = 0; i < state->memory_count; i++) {
        struct tensor *const *tensor = (struct tensor *const *)(const void *)((const char *)&state->memory[i] + offset);
        push_tensor(L, *tensor);
        lua_rawseti(L, -2, (lua_Integer)i);
    }
}

static void
push_errors(lua_State *L, struct hook_state *state)
{
    push_memory(L, state, offsetof(struct powersgd_memory, error));
}

static void
push_ps(lua_State *L, struct hook_state *state)
{
    push_memory(L, state, offsetof(struct powersgd_memory, p));
}

static void
push_qs(lua_State *L, struct hook_state *state)
{
    push_memory(L, state, offsetof(struct powersgd_memory, q));
}

/* ---- the state ---- */

#define OPTION(name, type, field) { name, type, offsetof(struct powersgd, options.field), false, NULL }
#define COUNT(name, field) { name, FIELD_INTEGER, offsetof(struct powersgd, field), false, NULL }
static const struct state_field fields[] = {
    OPTION("process_group", FIELD_GROUP, group),
    OPTION("matrix_approximation_rank", FIELD_INTEGER, matrix_approximation_rank),
    OPTION("start_powerSGD_iter", FIELD_INTEGER, start_iter),
    OPTION("min_compression_rate", FIELD_NUMBER, min_compression_rate),
    OPTION("orthogonalization_epsilon", FIELD_NUMBER, orthogonalization_epsilon),
    OPTION("use_error_feedback", FIELD_FLAG, use_error_feedback),
    OPTION("warm_start", FIELD_FLAG, warm_start),
    OPTION("batch_tensors_with_same_shape", FIELD_FLAG, batch_tensors_with_same_shape),
    { "error_dict", FIELD_OWN, 0, true, push_errors },
    { "p_memory_dict", FIELD_OWN, 0, true, push_ps },
    { "q_memory_dict", FIELD_OWN, 0, true, push_qs },
    COUNT("iter", iter),
    COUNT("total_numel_before_compression", numel_before),
    COUNT("total_numel_after_compression", numel_after),
    OPTION("compression_stats_logging_frequency", FIELD_INTEGER, logging_frequency),
    COUNT("next_stats_report", next_stats_report),
};

/* Rate, before, after. */
static int
l_compression_stats(lua_State *L)
{
    const struct powersgd *state = check_powersgd(L, 1, "compression_stats");
    arg_most(L, 1);
    if (state->numel_after > 0)
        lua_pushnumber(L, (double)state->numel_before / (double)state->numel_after);
    else
        lua_pushinteger(L, 0);
    lua_pushinteger(L, state->numel_before);
    lua_pushinteger(L, state->numel_after);
    return 3;
}

static int
l_set_random_q(lua_State *L)
{
    struct task     *me    = script_task(L);
    struct powersgd *state = check_powersgd(L, 1, "set_random_q");
    struct tensor  **given = NULL;
    int              count = 0;
    arg_most(L, 2);
    if (!lua_isnoneornil(L, 2))
        given = check_tensors(L, 2, &count);
    struct call call = call_open(L, me, CALL_PLAIN);
    return call_done(&call, powersgd_give_q(me, state, given, (size_t)count));
}

static const struct lua_entry methods[] = {
    { "compression_stats", l_compression_stats, "PowerSGDState.compression_stats(state)",
      "how many times less travelled, how many elements there were in all buckets so far, how many travelled" },
    { "set_random_q", l_set_random_q, "PowerSGDState.set_random_q(state, given)",
      "where a random Q would be drawn the next of this list of Tensors is taken, before it is made orthogonal; nil: "
      "they are drawn again" },
};

static const struct state_class state_class = {
    .name = "PowerSGDState", .fields = fields, .field_count = countof(fields),
    .methods = methods, .method_count = countof(methods),
};

static int
l_powersgd_state(lua_State *L)
{
    struct task     *me = script_task(L);
    struct arguments a;
    take_arguments(L, &a);
    struct process_group *group = a.at[0].none ? NULL : group_given(L, &a.at[0]);
    if (group == NULL && !a.at[0].none)
        return raise_error(L, "ValueError", "PowerSGDState: this rank is no member of the process group");
    const struct powersgd_options options = {
        .group                         = group,
        .matrix_approximation_rank     = a.at[1].integer[0],
        .start_iter                    = a.at[2].integer[0],
        .min_compression_rate          = a.at[3].number,
        .use_error_feedback            = a.at[4].integer[0] != 0,
        .warm_start                    = a.at[5].integer[0] != 0,
        .orthogonalization_epsilon     = a.at[6].number,
        .random_seed                   = a.at[7].integer[0],
        .logging_frequency             = a.at[8].integer[0],
        .batch_tensors_with_same_shape = a.at[9].integer[0] != 0,
    };
    push_state_box(L, &state_class);
    struct call      call  = call_open(L, me, CALL_PLAIN);
    struct powersgd *state = powersgd_new(me, &options);
    call_done(&call, state != NULL);
    fill_state_box(L, &state->head);
    return 1;
}

/* ---- the hooks ---- */

static int l_powersgd_hook(lua_State *L) { return l_call_library_hook(L); }
static int l_batched_powersgd_hook(lua_State *L) { return l_call_library_hook(L); }

static struct comm_hook
make_powersgd(lua_State *L, struct task *me, int state)
{
    (void)me;
    return powersgd_hook(check_powersgd(L, state, "powerSGD_hook"));
}

static struct comm_hook
make_batched_powersgd(lua_State *L, struct task *me, int state)
{
    (void)me;
    return batched_powersgd_hook(check_powersgd(L, state, "batched_powerSGD_hook"));
}

const struct library_hook powersgd_hooks[] = {
    { l_powersgd_hook, make_powersgd },
    { l_batched_powersgd_hook, make_batched_powersgd },
    { NULL, NULL },
};

#define HOOKS "dist.algorithms.ddp_comm_hooks.powerSGD_hook."
static const struct lua_entry entries[] = {
    { "PowerSGDState", l_powersgd_state,
      HOOKS "PowerSGDState(any? process_group=None, int matrix_approximation_rank=1, "
      "int start_powerSGD_iter=1000, float min_compression_rate=2, bool use_error_feedback=True, bool warm_start=True, "
      "float orthogonalization_epsilon=0, int random_seed=0, int compression_stats_logging_frequency=10000, "
      "bool batch_tensors_with_same_shape=False) -> any",
      "the state of powerSGD_hook: its options, and what it remembers: iter, error_dict, p_memory_dict and "
      "q_memory_dict by bucket" },
    { "powerSGD_hook", l_powersgd_hook, HOOKS "powerSGD_hook(state, bucket)",
      "a comm hook: a matrix of gradients travels as two thin ones, P and Q, whose product is the best guess of that "
      "rank; what is lost comes back with the next gradient" },
    { "batched_powerSGD_hook", l_batched_powersgd_hook, HOOKS "batched_powerSGD_hook(state, bucket)",
      "a comm hook: the same with the whole bucket as one square matrix: fewer, larger products, a worse guess" },
};

void
lua_open_powersgd(lua_State *L)
{
    lua_createtable(L, 0, countof(methods)); /* so that help knows them */
    add_entries(L, -1, methods, countof(methods));
    lua_pop(L, 1);
    fill_namespace(L, "distributed.algorithms.ddp_comm_hooks.powerSGD_hook", entries, countof(entries));
}
