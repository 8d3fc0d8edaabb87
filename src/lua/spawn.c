/* dist.spawn: each rank is a task with a Lua state of its own. The function travels in a parcel, what it returns
 * travels back in another. As torch.multiprocessing.spawn.
 *
 * Interface: l_spawn (rs.distributed.spawn), script_rank. */
#include "lua/spawn.h"

#include <limits.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "base/rng.h"
#include "base/str.h"
#include "device/device.h"
#include "lua/data.h"
#include "lua/dispatch.h"
#include "lua/lesson.h"
#include "lua/pickle.h"
#include "lua/rank.h"
#include "lua/share.h"
#include "lua/spawned.h"
#include "parallel/check_ranks.h"
#include "sched/account.h"
#include "sched/sched.h"
#include "tensor/tensor.h"

int
script_rank(const struct script *script)
{
    const struct rank *rank = script->parts[SCRIPT_DISTRIBUTED];
    if (script_worker(script) >= 0)
        return script->rank;
    return rank != NULL && rank->spawn != NULL ? rank->context.rank : -1;
}

void
refuse_in_rank(lua_State *L, const char *name)
{
    int rank = script_rank(script_of(L)), worker = script_worker(script_of(L));
    if (worker >= 0)
        raise_error(L, "RuntimeError", "%s belongs to the lesson itself, but DataLoader worker %d called it", name,
                    worker);
    if (rank >= 0)
        raise_error(L, "RuntimeError", "%s belongs to the lesson itself, but rank %d called it", name, rank);
}

static void
forget_result(struct spawn *spawn, int number)
{
    parcel_free(spawn->ranks[number].result);
    free(spawn->ranks[number].pickled);
}

static int
spawn_gc(lua_State *L)
{
    struct spawn *spawn = lua_touserdata(L, 1);
    for (int i = 0; spawn->ranks != NULL && i < spawn->count; i++)
        forget_result(spawn, i);
    free(spawn->ranks);
    parcel_free(spawn->parcel);
    spawn->ranks  = NULL;
    spawn->parcel = NULL;
    return 0;
}

/* ---- in the rank ---- */

/* What the rank answers, at the top, as bytes. */
static void
pickle_result(lua_State *L, struct rank *rank)
{
    rank->pickled_size = pickle_size(L, -1);
    rank->pickled      = malloc(rank->pickled_size + 1);
    if (rank->pickled == NULL)
        raise_error(L, "MemoryError", "out of memory");
    pickle(L, -1, rank->pickled, rank->pickled_size);
}

/* Argument 1: the rank. Unpacks f, arguments and the lesson's algorithms, calls f(rank, ...), packs what it answers;
 * of several values a list. */
static int
run_rank(lua_State *L)
{
    struct rank *rank = lua_touserdata(L, 1);
    int          count = parcel_unpack(L, rank->spawn->parcel) - 1;
    take_algorithms(L);
    lua_pushinteger(L, rank->context.rank);
    lua_insert(L, 3);
    lua_call(L, count, LUA_MULTRET);
    int results = lua_gettop(L) - 1;
    if (results == 0)
        lua_pushnil(L);
    if (results > 1)
        gather_values(L, 2);
    if (rank->spawn->job != NULL) {
        pickle_result(L, rank);
        return 0;
    }
    rank->result = parcel_new(script_of(L)->sched);
    if (rank->result == NULL)
        return raise_error(L, "MemoryError", "out of memory");
    parcel_pack(L, rank->result, 2, 1, false);
    return 0;
}

/* Every rank starts with the lesson's seed; what it draws stays in it. */
static bool
seed_rank(struct task *me, const struct spawn *spawn)
{
    const struct lesson_head *head = spawn->lesson != NULL ? lesson_head(spawn->lesson) : NULL;
    if (head == NULL || !head->has_seed)
        return true;
    struct generator *generator = default_generator(me);
    if (generator != NULL)
        generator_seed(generator, head->seed);
    return generator != NULL;
}

static bool
meet(struct task *me, struct rank *rank)
{
    if (rank->spawn->by_hand)
        return true;
    rank->context.group = process_group_rendezvous(me, rank->context.world, rank->context.rank);
    rank->implicit      = true;
    return rank->context.group != NULL;
}

static bool
run_in_script(struct task *me, struct rank *rank)
{
    struct spawn *spawn = rank->spawn;
    rank->script        = script_new(me, &spawn->options);
    if (rank->script == NULL)
        return false;
    struct script *script = rank->script;
    snprintf(script->name, sizeof script->name, "%s", spawn->name);
    script->parts[SCRIPT_DISTRIBUTED] = rank;
    bool listed = spawn->lesson == NULL || lesson_add_script(spawn->lesson, rank->context.rank, script) ||
                  failed(me, E_MEMORY, "out of memory");
    size_t mark = scope_mark(me);
    bool   ok   = listed && script_visit(me, script, run_rank, rank);
    scope_release(me, mark);
    return ok;
}

/* The order of the end matters: peers learn that this rank is gone before anything waits for them; what the script
 * holds (works, DDP's reducers) goes before the group does. */
static bool
rank_body(struct task *me, void *argument)
{
    struct rank *rank = argument;
    rank_context_set(me, &rank->context);
    bool ok = seed_rank(me, rank->spawn) && meet(me, rank) && run_in_script(me, rank) &&
              check_ranks_end(me, rank->spawn->check, rank->context.rank);
    if (account_closed(me->sched) && (me->error.kind == E_BUDGET || me->error.kind == E_STOPPED))
        rank->stuck = world_rank_cut_off(me, rank->context.world);
    world_rank_ended(me, rank->context.world, rank->context.rank);
    if (rank->script != NULL && rank->spawn->lesson != NULL)
        lesson_remove_script(rank->spawn->lesson, rank->script);
    script_free(me, rank->script);
    if (rank->context.group != NULL)
        ok = process_group_destroy(me, rank->context.group) && ok;
    rank->context.group = NULL;
    rank->script        = NULL;
    return ok;
}

/* ---- in the spawner ---- */

/* The script of the lesson decides what a rank may do. */
static struct spawn *
spawn_new(lua_State *L, struct task *me, int count, bool by_hand)
{
    struct script *script = script_of(L);
    struct spawn  *spawn  = push_owned(L, sizeof *spawn, "ringside.spawn", spawn_gc);
    *spawn                = (struct spawn){ .count = count, .by_hand = by_hand, .options = script->options,
                                            .script = script, .debug_level = debug_level_here(L) };
    spawn->lesson            = lesson_of(me);
    spawn->job               = share_job(me);
    spawn->number            = script->spawns++;
    spawn->options.catalogue = script->catalogue;
    spawn->options.layers    = script->layers;
    snprintf(spawn->name, sizeof spawn->name, "%s", script->name);
    spawn->parcel = parcel_new(script->sched);
    spawn->ranks  = calloc((size_t)count, sizeof *spawn->ranks);
    if (spawn->parcel == NULL || spawn->ranks == NULL)
        raise_error(L, "MemoryError", "out of memory");
    return spawn;
}

bool
spawn_start_rank(struct task *me, struct spawn *spawn, int number)
{
    struct rank *rank = &spawn->ranks[number];
    *rank = (struct rank){ .context = { .world = spawn->world, .rank = number, .debug_level = spawn->debug_level },
                           .spawn   = spawn };
    snprintf(rank->name, sizeof rank->name, "r%d main", number);
    struct task_options options = { .name = rank->name, .rank = number, .lua = true,
                                    .device = number < device_count(me) ? number : DEVICE_CPU };
    rank->task                  = task_spawn(me, &options, rank_body, rank);
    return rank->task != NULL;
}

/* One has failed, and another does not come back: the run ends with it. */
void
spawn_stop_stragglers(struct task *me, struct spawn *spawn)
{
    const char *report = world_report(spawn->world, UINT_MAX);
    struct str  text   = { 0 };
    if (report != NULL) {
        str_add(&text, report);
    } else {
        world_say_failure(spawn->world, &text);
        str_add(&text, "\nand another rank does not end: ");
        sched_explain(me->sched, &(struct stop){ .cause = STOP_INTERRUPT }, &text);
    }
    sched_stop(me->sched, E_DEADLOCK, str_ok(&text) ? str_text(&text) : "a rank has failed, another does not end");
    str_free(&text);
}

bool
spawn_run(struct task *me, struct spawn *spawn)
{
    const struct lesson_head *head = spawn->lesson != NULL ? lesson_head(spawn->lesson) : NULL;
    if (head != NULL && head->check_ranks && (spawn->check = check_ranks_new(me, spawn->count)) == NULL)
        return false;
    struct world_options options = { .size = spawn->count, .trace_hops = head != NULL && head->hops,
                                     .check = spawn->check };
    spawn->world                 = world_new(me, &options);
    if (spawn->world == NULL) {
        check_ranks_free(me, spawn->check);
        return false;
    }
    int  started = 0;
    bool ok      = true;
    while (ok && started < spawn->count) {
        ok = spawn_start_rank(me, spawn, started);
        started += ok;
    }
    for (int i = started; i < spawn->count; i++) /* could not be started: the others must not wait for them */
        world_rank_ended(me, spawn->world, i);
    if (!sched_is_stepped(me->sched) && !world_await_ends(me, spawn->world, sched_timeout(me->sched)))
        spawn_stop_stragglers(me, spawn);
    for (int i = 0; i < started; i++)
        ok = task_join(me, spawn->ranks[i].task, &spawn->ranks[i].error) && ok;
    if (!task_failed(me))
        spawn_raise_first(me, spawn);
    flight_of_world(me, spawn->world, spawn->flight);
    world_free(me, spawn->world);
    check_ranks_free(me, spawn->check);
    spawn->world = NULL;
    spawn->check = NULL;
    if (spawn->lesson != NULL && spawn->job == NULL)
        lesson_join(me, spawn->lesson);
    return ok && !task_failed(me);
}

static int
check_world(lua_State *L, struct task *me, const struct argument *given)
{
    struct lesson *lesson = lesson_of(me);
    int            usual  = lesson != NULL ? lesson_head(lesson)->world : 0;
    int64_t        world  = given->none ? usual : given->integer[0];
    if (world == 0)
        raise_error(L, "ValueError", "how many ranks? dist.spawn(f, { world = 2 })");
    if (world < 0 || world > 1024)
        raise_error(L, "ValueError", "world = %lld: 1 to 1024 ranks", (long long)world);
    return (int)world;
}

/* The arguments behind the rank: the list at `list`. Pushes them, answers how many. */
static int
push_args(lua_State *L, int list)
{
    int count = (int)lua_rawlen(L, list);
    stack_room(L, count + 10);
    for (int i = 1; i <= count; i++)
        lua_rawgeti(L, list, i);
    return count;
}

/* Pushes the table of what the ranks answered. */
static void
push_results_of(lua_State *L, const struct spawn *spawn)
{
    lua_createtable(L, spawn->count, 1);
    int results = lua_gettop(L);
    for (int i = 0; i < spawn->count; i++) {
        const struct rank *rank = &spawn->ranks[i];
        if (spawn->job != NULL)
            unpickle(L, rank->pickled, rank->pickled_size);
        else
            parcel_unpack(L, rank->result);
        lua_rawseti(L, results, i);
    }
    lua_settop(L, results);
}

/* dist.spawn(f, { world =, args = { ... }, init = true }) */
int
l_spawn(lua_State *L)
{
    struct task     *me = script_task(L);
    struct arguments a;
    take_arguments(L, &a);
    if (script_rank(script_of(L)) >= 0 || script_worker(script_of(L)) >= 0)
        return raise_error(L, "RuntimeError", "a rank cannot spawn ranks, nor can its DataLoader's workers");
    if (share_job(me) != NULL && script_of(L)->lone != NULL)
        return raise_error(L, "RuntimeError", "this process is rank %d of a job since init_process_group: it cannot "
                           "spawn ranks", script_of(L)->lone->context.rank);
    struct spawn *spawn = spawn_new(L, me, check_world(L, me, &a.at[1]), a.at[3].integer[0] == 0);
    int           first = lua_gettop(L) + 1;
    lua_pushvalue(L, (int)a.at[0].integer[0]);
    int count = 1 + (a.at[2].none ? 0 : push_args(L, (int)a.at[2].integer[0]));
    push_algorithms(L);
    parcel_pack(L, spawn->parcel, first, count + 1, true);

    spawn->flight = flight_keep(L);
    struct call call = call_open(L, me, CALL_BACK);
    bool        ok   = spawn->job != NULL ? spawn_in_job(me, spawn) : spawn_run(me, spawn);
    call_done(&call, ok);

    push_results_of(L, spawn);
    return 1;
}
