/* Workers of a DataLoader: each is a task with a script of its own, into which the data set, collate_fn and
 * worker_init_fn are copied as a rank's function is. What it changes stays there; batches come back as copies. So it is
 * a process in PyTorch. A worker is no rank and narrates as the one that has it; get_worker_info tells it who it is.
 *
 * A crew ends when its pass is over, when the loop `for x in loader:iter()` is left, when its loader is gone, or with
 * the script. Whoever finds that it is not needed only closes it (that may be a collection in one of its own workers);
 * its workers are waited for by the script's task, at the next pass or at the end.
 *
 * Interface: push_crew, crew_base_seed, crew_count, crew_again, crew_send, crew_receive, crew_open, crew_dismiss,
 * crew_end; script_worker. */
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "base/rng.h"
#include "base/vec.h"
#include "data/workers.h"
#include "lua/copy.h"
#include "lua/data.h"
#include "lua/dispatch.h"
#include "lua/spawn.h"
#include "sched/sched.h"
#include "sched/task.h"
#include "tensor/tensor.h"

static const char CREW[] = "ringside.crew", FETCH[] = "ringside.worker.fetch", INFO[] = "ringside.worker.info";

struct crew_worker { struct hiring *hiring; int id; struct script *script; struct generator_fork *numbers; };

/* What the workers need; it lives as long as one of them. */
struct hiring {
    struct crew_options   options;
    struct script_options script;
    struct parcel        *parcel;       /* data set, collate_fn, worker_init_fn */
    char                  name[128];    /* the lesson's file */
    struct crew_worker    workers[];
};

/* The owner's side, listed by its script. */
struct crew {
    struct crew       *next;
    struct load_pool  *pool;
    struct load_order *at_hand;    /* received, not opened */
    struct crew      **box;        /* where Lua keeps it; NULL: not any more */
    double             timeout;
    int64_t            base_seed;
    int                count, number;
    int64_t            passes;     /* that were begun again */
    bool               closed;
};
/* By the script: every crew whose workers were not waited for yet. */
struct crews { struct crew *first; };

/* ---- in a worker ---- */

int
script_worker(const struct script *script)
{
    const struct crew_worker *worker = script->parts[SCRIPT_WORKER];
    return worker != NULL ? worker->id : -1;
}

/* Keeps `field` of registry[FETCH] for the batches to come; the value is at the top and is popped. */
static void
keep_for_fetch(lua_State *L, const char *field)
{
    luaL_getsubtable(L, LUA_REGISTRYINDEX, FETCH);
    lua_insert(L, -2);
    lua_setfield(L, -2, field);
    lua_pop(L, 1);
}

static void
open_stream_again(lua_State *L, const struct crew_worker *worker)
{
    if (!worker->hiring->options.stream)
        return;
    luaL_getsubtable(L, LUA_REGISTRYINDEX, FETCH);
    fetch_open_stream(L, lua_gettop(L));
    lua_setfield(L, -2, "next");
    set_flag(L, -1, "ended", false);
    lua_pop(L, 1);
}

/* Wraps around, as a lesson's own sum would. */
static int64_t
seed_of(const struct crew_worker *worker)
{
    return (int64_t)((uint64_t)worker->hiring->options.base_seed + (uint64_t)worker->id);
}

/* Argument 1: the worker. As _worker_loop begins: who it is, then worker_init_fn, then the stream. */
static int
begin_in_script(lua_State *L)
{
    const struct crew_worker *worker = lua_touserdata(L, 1);
    const struct hiring      *hiring = worker->hiring;
    parcel_unpack(L, hiring->parcel);
    lua_createtable(L, 0, 4);
    set_integer(L, 5, "id", worker->id);
    set_integer(L, 5, "num_workers", hiring->options.count);
    set_integer(L, 5, "seed", seed_of(worker));
    lua_pushvalue(L, 2);
    lua_setfield(L, 5, "dataset");
    lua_setfield(L, LUA_REGISTRYINDEX, INFO);
    lua_pushvalue(L, 2);
    keep_for_fetch(L, "dataset");
    lua_pushvalue(L, 3);
    keep_for_fetch(L, "collate_fn");
    if (!lua_isnil(L, 4)) {
        lua_pushinteger(L, worker->id);
        lua_call(L, 1, 0);
    }
    open_stream_again(L, worker);
    return 0;
}

static bool
worker_begin(struct task *me, void *context, int id)
{
    struct hiring      *hiring = context;
    struct crew_worker *worker = &hiring->workers[id];
    struct generator    seeded;
    generator_seed(&seeded, (uint64_t)seed_of(worker));
    worker->numbers = generator_fork(me, &seeded); /* what it draws is not the rank's */
    if (worker->numbers == NULL)
        return false;
    struct script_options options = hiring->script;
    options.seed   = (uint64_t)seed_of(worker);
    worker->script = script_new(me, &options);
    if (worker->script == NULL)
        return false;
    snprintf(worker->script->name, sizeof worker->script->name, "%s", hiring->name);
    worker->script->parts[SCRIPT_WORKER] = worker;
    size_t mark = scope_mark(me);
    bool   ok   = script_visit(me, worker->script, begin_in_script, worker);
    scope_release(me, mark);
    return ok;
}

struct loading_job { const struct crew_worker *worker; struct load_order *order; };

/* The batch as results; 0: the stream has ended. registry[FETCH] stands at 2. Whoever persists may be asked for batches
 * by a loader that had none when it was hired. */
static int
fetch_order(lua_State *L, const struct crew_worker *worker, struct load_order *order)
{
    const struct crew_options *options = &worker->hiring->options;
    if (!order->stream && (options->batched || order->count != 1))
        return fetch_batch(L, 2, order->indices, order->count);
    if (!order->stream)
        return fetch_sample(L, 2, order->indices[0]);
    struct fetch fetch = options->fetch;
    fetch.ended        = option_bool(L, 2, "ended", false);
    if (fetch.ended)
        return 0;
    lua_getfield(L, 2, "next");
    int results = fetch_of_stream(L, 2, 3, &fetch);
    set_flag(L, 2, "ended", fetch.ended);
    return results;
}

/* Argument 1: the job. */
static int
load_in_script(lua_State *L)
{
    const struct loading_job *job   = lua_touserdata(L, 1);
    struct load_order        *order = job->order;
    if (order->count < 0) {
        open_stream_again(L, job->worker);
        return 0;
    }
    luaL_getsubtable(L, LUA_REGISTRYINDEX, FETCH);
    int results  = fetch_order(L, job->worker, order);
    order->ended = results == 0 && order->stream;
    if (order->ended)
        return 0;
    struct parcel *parcel = parcel_new(script_of(L)->sched);
    if (parcel == NULL)
        return raise_error(L, "MemoryError", "out of memory");
    order->data  = parcel;
    parcel->into = "the loader's task";
    parcel_pack(L, parcel, lua_gettop(L) - results + 1, results, false);
    return 0;
}

static bool
worker_load_order(struct task *me, void *context, int id, struct load_order *order)
{
    struct hiring     *hiring = context;
    struct loading_job job    = { &hiring->workers[id], order };
    size_t             mark   = scope_mark(me);
    bool               ok     = script_visit(me, job.worker->script, load_in_script, &job);
    scope_release(me, mark);
    return ok;
}

static void
worker_end(struct task *me, void *context, int id)
{
    struct hiring *hiring = context;
    script_free(me, hiring->workers[id].script);
    generator_join(me, hiring->workers[id].numbers);
    hiring->workers[id].script = NULL;
}

static void
drop_parcel(void *parcel)
{
    parcel_free(parcel);
}

static void
leave_hiring(struct task *me, void *context)
{
    struct hiring *hiring = context;
    (void)me;
    parcel_free(hiring->parcel);
    free(hiring);
}

static const struct load_work loading_work = { worker_begin, worker_load_order, worker_end, drop_parcel, leave_hiring };

/* ---- crews of a script ---- */

static void
crew_free(struct task *me, struct crew *crew)
{
    if (crew->box != NULL)
        *crew->box = NULL;
    load_order_free(crew->pool, crew->at_hand);
    load_pool_free(me, crew->pool);
    free(crew);
}

/* Closed ones, whose workers are waited for now. */
static void
crews_settle(struct task *me, struct crews *crews, bool all)
{
    for (struct crew **at = &crews->first, *crew; (crew = *at) != NULL;) {
        if (!crew->closed && !all) {
            at = &crew->next;
            continue;
        }
        *at = crew->next;
        crew_free(me, crew);
    }
}

static void
drop_crews(struct task *me, void *part)
{
    crews_settle(me, part, true);
    free(part);
}

static struct crews *
crews_here(lua_State *L)
{
    struct script *script = script_of(L);
    if (script->parts[SCRIPT_CREWS] == NULL) {
        script->parts[SCRIPT_CREWS] = calloc(1, sizeof(struct crews));
        if (script->parts[SCRIPT_CREWS] == NULL)
            raise_error(L, "MemoryError", "out of memory");
        script->drop_part[SCRIPT_CREWS] = drop_crews;
    }
    return script->parts[SCRIPT_CREWS];
}

/* The first that no living crew has: lanes of those that live at a time differ. */
static int
free_number(const struct crews *crews)
{
    for (int number = 0;; number++) {
        const struct crew *crew = crews->first;
        while (crew != NULL && crew->number != number)
            crew = crew->next;
        if (crew == NULL)
            return number;
    }
}

/* Waits for nobody: the collector may do so in any task. */
static int
crew_close(lua_State *L)
{
    struct crew **box = lua_touserdata(L, 1), *crew = *box;
    *box = NULL;
    if (crew == NULL)
        return 0;
    crew->box    = NULL;
    crew->closed = true;
    load_pool_close(script_of(L)->holder, crew->pool);
    return 0;
}

/* ---- hiring ---- */

/* Data set, collate_fn and worker_init_fn of the loader go into the parcel, and what they reach. */
static void
pack_loader(lua_State *L, int loader, struct parcel *parcel)
{
    int first = lua_gettop(L) + 1;
    lua_getfield(L, loader, "dataset");
    lua_getfield(L, loader, "collate_fn");
    lua_getfield(L, loader, "worker_init_fn");
    parcel->into = "a DataLoader worker";
    parcel_pack(L, parcel, first, 3, true);
    lua_settop(L, first - 1);
}

static int
free_hiring(lua_State *L)
{
    struct hiring **box = lua_touserdata(L, 1);
    if (*box != NULL)
        leave_hiring(script_of(L)->holder, *box);
    *box = NULL;
    return 0;
}

/* In a box that frees it if anything raises on the way. */
static struct hiring **
push_hiring(lua_State *L, int loader, const struct crew_options *options)
{
    struct script  *script = script_of(L);
    struct hiring **box    = push_owned(L, sizeof(struct hiring *), "ringside.hiring", free_hiring);
    struct hiring  *hiring = calloc(1, sizeof *hiring + (size_t)options->count * sizeof(struct crew_worker));
    if (hiring == NULL)
        raise_error(L, "MemoryError", "out of memory");
    *box                     = hiring;
    hiring->options          = *options;
    hiring->script           = script->options;
    hiring->script.catalogue = script->catalogue;
    hiring->script.layers    = script->layers;
    hiring->script.text      = NULL;
    snprintf(hiring->name, sizeof hiring->name, "%s", script->name);
    for (int i = 0; i < options->count; i++)
        hiring->workers[i] = (struct crew_worker){ .hiring = hiring, .id = i };
    hiring->parcel = parcel_new(script->sched);
    if (hiring->parcel == NULL)
        raise_error(L, "MemoryError", "out of memory");
    pack_loader(L, loader, hiring->parcel);
    return box;
}

/* Empty; closed where a loop is left, or by the collector. */
static struct crew **
push_crew_box(lua_State *L)
{
    struct crew **box = push_owned(L, sizeof(struct crew *), CREW, crew_close);
    lua_getmetatable(L, -1);
    lua_pushcfunction(L, crew_close);
    lua_setfield(L, -2, "__close");
    lua_pop(L, 1);
    return box;
}

/* The hiring becomes the pool's. false: failed. */
static bool
crew_start(struct task *me, struct crews *crews, struct hiring *hiring, struct crew **box)
{
    const struct load_pool_options options = { .work = &loading_work, .context = hiring,
                                               .count = hiring->options.count, .pool = free_number(crews) };
    struct load_pool *pool = load_pool_new(me, &options);
    struct crew      *crew = pool != NULL ? calloc(1, sizeof *crew) : NULL;
    if (crew == NULL) {
        load_pool_free(me, pool);
        return failed(me, E_MEMORY, "out of memory for the workers of a DataLoader"); /* the first error stays */
    }
    *crew = (struct crew){ .next = crews->first, .pool = pool, .box = box, .timeout = hiring->options.timeout,
                           .base_seed = hiring->options.base_seed, .count = options.count, .number = options.pool };
    crews->first = crew;
    *box         = crew;
    return load_pool_start(me, pool);
}

struct crew **
push_crew(lua_State *L, int loader, const struct crew_options *options)
{
    struct task    *me     = script_task(L);
    struct crews   *crews  = crews_here(L);
    struct crew   **box    = push_crew_box(L);
    struct hiring **hired  = push_hiring(L, loader, options), *hiring = *hired;
    struct call     call   = call_open(L, me, CALL_PLAIN);
    *hired = NULL;
    crews_settle(me, crews, false);
    call_done(&call, crew_start(me, crews, hiring, box));
    lua_pop(L, 1);
    return box;
}

int64_t
crew_base_seed(const struct crew *crew)
{
    return crew->base_seed;
}

int
crew_count(const struct crew *crew)
{
    return crew->count;
}

/* ---- orders and what comes back ---- */

void
crew_send(lua_State *L, struct crew *crew, int worker, const struct crew_order *wanted)
{
    struct task       *me    = script_task(L);
    struct load_order *order = load_order_new(wanted->batch, wanted->count, wanted->indices);
    if (order == NULL)
        raise_error(L, "MemoryError", "out of memory");
    struct call call = call_open(L, me, CALL_PLAIN);
    load_pool_send(me, crew->pool, worker, order);
    call_done(&call, true);
}

/* The next one of that worker is at hand. */
static const struct load_order *
receive(lua_State *L, struct crew *crew, int worker, int64_t batch)
{
    struct task             *me     = script_task(L);
    const struct load_wanted wanted = { .worker = worker, .batch = batch, .timeout = crew->timeout };
    load_order_free(crew->pool, crew->at_hand);
    crew->at_hand    = NULL;
    struct call call = call_open(L, me, CALL_PLAIN);
    crew->at_hand    = load_pool_take(me, crew->pool, &wanted);
    call_done(&call, crew->at_hand != NULL);
    return crew->at_hand;
}

bool
crew_receive(lua_State *L, struct crew *crew, int worker, int64_t batch)
{
    return receive(L, crew, worker, batch)->ended;
}

/* What comes of the pass before is thrown away: in the order of sending the last one says that the worker has begun
 * again. It is known by its number, since a wait for an earlier one may have been given up. */
void
crew_again(lua_State *L, struct crew *crew)
{
    const struct crew_order  again = { .batch = ++crew->passes, .count = -1 };
    const struct load_order *order;
    for (int i = 0; i < crew->count; i++)
        crew_send(L, crew, i, &again);
    for (int i = 0; i < crew->count; i++)
        do
            order = receive(L, crew, i, -1);
        while (order->count >= 0 || order->batch != again.batch);
}

/* Says in the error which worker failed. The kind stays. */
static int
raise_caught(lua_State *L, struct error *error, int worker)
{
    struct task *me = script_task(L);
    char         original[sizeof error->message];
    memcpy(original, error->message, sizeof original);
    bool own = error->kind != E_KILLED && error->kind != E_STOPPED && error->kind != E_BUDGET;
    if (own)
        snprintf(error->message, sizeof error->message,
                 "Caught %s in DataLoader worker process %d.\nOriginal message: %.*s", error_name(error->kind), worker,
                 (int)(sizeof original - 128), original);
    task_take_error(me, error);
    return raise(L, me);
}

int
crew_open(lua_State *L, struct crew *crew, int worker)
{
    const struct load_order *order = crew->at_hand;
    if (order->error != NULL)
        return raise_caught(L, order->error, worker);
    if (order->data == NULL)
        return raise_error(L, "MemoryError", "out of memory in DataLoader worker process %d", worker);
    return parcel_unpack(L, order->data);
}

void
crew_dismiss(lua_State *L, struct crew *crew, int worker)
{
    load_pool_dismiss(script_task(L), crew->pool, worker);
}

void
crew_end(lua_State *L, struct crew *crew)
{
    struct task *me = script_task(L);
    crew->closed    = true;
    struct call call = call_open(L, me, CALL_PLAIN);
    crews_settle(me, crews_here(L), false);
    call_done(&call, !task_failed(me));
}

/* ---- who am I ---- */

static int
get_worker_info(lua_State *L)
{
    arg_most(L, 0);
    lua_getfield(L, LUA_REGISTRYINDEX, INFO);
    return 1;
}

static const struct lua_entry entries[] = {
    { "get_worker_info", get_worker_info, "utils.data.get_worker_info()",
      "in a DataLoader's worker: {id, num_workers, seed, dataset}, its own copy; elsewhere nil" },
};

void
lua_open_workers(lua_State *L)
{
    fill_namespace(L, "utils.data", entries, countof(entries));
}
