/* Workers of a loader, and the queues between them and it. */
#include "data/workers.h"
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "data/batch.h"
#include "sched/sched.h"
#include "sched/stage.h"

struct load_queue { struct load_order *first, *last; };
struct load_worker {
    struct load_pool *pool;
    int               id;
    struct task      *task;        /* NULL: not started */
    struct monitor    monitor;     /* guards what follows */
    bool              has_monitor, closed, gone;
    struct load_queue orders, loaded;
};

/* Shared by the owner and its workers. Whoever leaves last frees it: when a run is stopped the owner may be first. */
struct load_pool {
    atomic_int             references;
    struct load_pool_options options;
    struct load_worker     workers[];
};

/* ---- orders ---- */

struct load_order *
load_order_new(int64_t batch, int64_t count, const int64_t *indices)
{
    size_t             listed = indices != NULL && count > 0 ? (size_t)count : 0;
    struct load_order *order  = calloc(1, sizeof *order + listed * sizeof(int64_t));
    if (order == NULL)
        return NULL;
    *order = (struct load_order){ .batch = batch, .count = count, .stream = indices == NULL };
    if (listed > 0)
        memcpy(order->indices, indices, listed * sizeof(int64_t));
    return order;
}

void
load_order_free(struct load_pool *pool, struct load_order *order)
{
    if (order == NULL)
        return;
    if (order->data != NULL)
        pool->options.work->drop(order->data);
    free(order->error);
    free(order);
}

static void
queue_put(struct load_queue *queue, struct load_order *order)
{
    order->next = NULL;
    *(queue->first != NULL ? &queue->last->next : &queue->first) = order;
    queue->last = order;
}

static struct load_order *
queue_take(struct load_queue *queue)
{
    struct load_order *order = queue->first;
    if (order != NULL)
        queue->first = order->next;
    return order;
}

/* ---- the pool ---- */

static void
pool_unref(struct task *me, struct load_pool *pool)
{
    if (atomic_fetch_sub(&pool->references, 1) > 1)
        return;
    for (int i = 0; i < pool->options.count; i++) {
        struct load_worker *worker = &pool->workers[i];
        struct load_order  *order;
        while ((order = queue_take(&worker->orders)) != NULL || (order = queue_take(&worker->loaded)) != NULL)
            load_order_free(pool, order);
        if (worker->has_monitor)
            monitor_destroy(&worker->monitor);
    }
    pool->options.work->leave(me, pool->options.context);
    free(pool);
}

struct load_pool *
load_pool_new(struct task *me, const struct load_pool_options *options)
{
    struct load_pool *pool = calloc(1, sizeof *pool + (size_t)options->count * sizeof(struct load_worker));
    bool              ok   = pool != NULL;
    if (!ok)
        options->work->leave(me, options->context);
    else
        *pool = (struct load_pool){ .references = 1, .options = *options };
    for (int i = 0; ok && i < options->count; i++) {
        struct load_worker *worker = &pool->workers[i];
        worker->pool        = pool;
        worker->id          = i;
        worker->has_monitor = ok = monitor_init(&worker->monitor);
    }
    if (!ok && pool != NULL)
        pool_unref(me, pool);
    return ok ? pool : failed_null(me, E_MEMORY, "out of memory for the workers of a DataLoader");
}

/* ---- in the worker ---- */

static struct load_order *
next_order(struct task *me, struct load_worker *worker)
{
    struct wait_reason reason = { .what = "batches to load", .sequence = -1, .group = -1, .peer = -1, .idle = true };
    bool               ok     = true;
    monitor_enter(me, &worker->monitor);
    while (ok && worker->orders.first == NULL && !worker->closed)
        ok = monitor_wait(me, &worker->monitor, &reason);
    struct load_order *order = ok && !worker->closed ? queue_take(&worker->orders) : NULL;
    monitor_leave(me, &worker->monitor);
    return order;
}

/* What me has recorded goes with the order, what was loaded in part does not; me may go on. */
static void
send_error(struct task *me, const struct load_work *work, struct load_order *order)
{
    if (order->data != NULL)
        work->drop(order->data);
    order->data  = NULL;
    order->error = malloc(sizeof *order->error);
    if (order->error != NULL) {
        *order->error         = me->error;
        order->error->payload = NULL; /* of this worker's script */
    }
    task_clear_error(me);
}

/* One batch is loaded by a worker, ahead of the one who trains: samples are read, then collated.
 * Stripes of data.load beside a backward are time that nobody had to wait. */
static bool
worker_load(struct task *me, struct load_worker *worker, struct load_order *order)
{
    const struct load_pool_options *options = &worker->pool->options;
    STAGE(me, data_load, order->batch, order->count, worker->id);
    if (!order->stream)
        data_index(me, order->batch, order->indices, order->count);
    return options->work->load(me, options->context, worker->id, order);
}

/* A worker that could not begin says so with each order. */
static void
carry_out(struct task *me, struct load_worker *worker, struct load_order *order, const struct error *begun)
{
    const struct load_pool_options *options = &worker->pool->options;
    bool                            ok      = true;
    if (begun->kind != E_NONE) {
        struct error again = *begun;
        task_take_error(me, &again);
        ok = false;
    } else if (order->count >= 0) {
        ok = worker_load(me, worker, order);
    } else {
        ok = options->work->load(me, options->context, worker->id, order);
    }
    if (!ok || task_failed(me))
        send_error(me, options->work, order);
    monitor_enter(me, &worker->monitor);
    queue_put(&worker->loaded, order);
    monitor_wake(me, &worker->monitor);
    monitor_leave(me, &worker->monitor);
}

static bool
worker_serve(struct task *me, void *argument)
{
    struct load_worker             *worker  = argument;
    const struct load_pool_options *options = &worker->pool->options;
    struct error                    begun   = { .kind = E_NONE };
    struct load_order              *order;
    if (!options->work->begin(me, options->context, worker->id)) {
        begun         = me->error;
        begun.payload = NULL;
        task_clear_error(me);
    }
    while ((order = next_order(me, worker)) != NULL)
        carry_out(me, worker, order, &begun);
    options->work->end(me, options->context, worker->id);
    monitor_enter(me, &worker->monitor);
    worker->gone = true;
    monitor_wake(me, &worker->monitor);
    monitor_leave(me, &worker->monitor);
    pool_unref(me, worker->pool);
    return !task_failed(me);
}

/* ---- the owner ---- */

static bool
worker_start(struct task *me, struct load_worker *worker)
{
    struct load_pool *pool = worker->pool;
    char              name[48], rank[16] = "", number[24] = "";
    if (me->rank >= 0)
        snprintf(rank, sizeof rank, "r%d ", me->rank);
    if (pool->options.pool > 0)
        snprintf(number, sizeof number, " of loader %d", pool->options.pool);
    snprintf(name, sizeof name, "%sworker %d%s", rank, worker->id, number);
    const struct task_options options = { .name = name, .rank = TASK_INHERIT, .device = TASK_INHERIT, .lua = true,
                                          .idle_ok = true };
    atomic_fetch_add(&pool->references, 1);
    worker->task = task_spawn(me, &options, worker_serve, worker);
    if (worker->task == NULL)
        pool_unref(me, pool);
    return worker->task != NULL;
}

bool
load_pool_start(struct task *me, struct load_pool *pool)
{
    bool ok = true;
    for (int i = 0; ok && i < pool->options.count; i++)
        ok = worker_start(me, &pool->workers[i]);
    return ok;
}

void
load_pool_send(struct task *me, struct load_pool *pool, int id, struct load_order *order)
{
    struct load_worker *worker = &pool->workers[id];
    monitor_enter(me, &worker->monitor);
    queue_put(&worker->orders, order);
    monitor_wake(me, &worker->monitor);
    monitor_leave(me, &worker->monitor);
}

/* Who trains needs a batch that is not there yet. A stage of its own, so that a loader which keeps
 * up shows nothing: stripes of data.wait are what more workers, or batches ahead, could save. */
static bool
load_wait(struct task *me, struct load_worker *worker, int64_t batch, uint64_t until)
{
    STAGE(me, data_wait, batch, worker->id);
    struct wait_reason reason = { .what = "batch", .sequence = batch, .peer = -1 };
    bool               ok     = true;
    reason.group              = -1;
    reason.holder             = worker->task;
    reason.until              = until;
    monitor_enter(me, &worker->monitor);
    while (ok && worker->loaded.first == NULL && !worker->gone &&
           (until == 0 || sched_now(me) < until))
        ok = monitor_wait(me, &worker->monitor, &reason);
    monitor_leave(me, &worker->monitor);
    return ok;
}

static bool
is_loaded(struct task *me, struct load_worker *worker)
{
    monitor_enter(me, &worker->monitor);
    bool loaded = worker->loaded.first != NULL;
    monitor_leave(me, &worker->monitor);
    return loaded;
}

struct load_order *
load_pool_take(struct task *me, struct load_pool *pool, const struct load_wanted *wanted)
{
    struct load_worker *worker = &pool->workers[wanted->worker];
    const double        most   = 1e6;   /* seconds: farther away than any run lasts */
    double              limit  = wanted->timeout < most ? wanted->timeout : most;
    uint64_t            until  = limit > 0 ? sched_now(me) + (uint64_t)(limit * 1e12) : 0;
    bool                ok     = is_loaded(me, worker) || load_wait(me, worker, wanted->batch, until);
    monitor_enter(me, &worker->monitor);
    struct load_order *order = ok ? queue_take(&worker->loaded) : NULL;
    bool               gone  = worker->gone;
    monitor_leave(me, &worker->monitor);
    if (ok && order == NULL && gone)
        failed(me, E_RUNTIME, "DataLoader worker %d exited unexpectedly", worker->id);
    else if (ok && order == NULL)
        failed(me, E_RUNTIME, "DataLoader timed out after %g seconds", wanted->timeout);
    return order;
}

void
load_pool_dismiss(struct task *me, struct load_pool *pool, int id)
{
    struct load_worker *worker = &pool->workers[id];
    monitor_enter(me, &worker->monitor);
    worker->closed = true;
    monitor_wake(me, &worker->monitor);
    monitor_leave(me, &worker->monitor);
}

void
load_pool_close(struct task *me, struct load_pool *pool)
{
    for (int i = 0; i < pool->options.count; i++)
        load_pool_dismiss(me, pool, i);
}

void
load_pool_free(struct task *me, struct load_pool *pool)
{
    if (pool == NULL)
        return;
    load_pool_close(me, pool);
    for (int i = 0; i < pool->options.count; i++) {
        struct error ignored;
        if (pool->workers[i].task != NULL)
            (void)task_join(me, pool->workers[i].task, &ignored); /* what went wrong went back with an order */
    }
    pool_unref(me, pool);
}
