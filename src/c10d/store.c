/* The store: keys and bytes that all ranks of a world see; how they find each other. c10d::Store, in one process.
 * Order of use: store_set and store_add on one rank; store_wait, which is c10d's get, blocks until the key is there.
 * Keys of the rendezvous begin with default_pg/. */
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "base/vec.h"
#include "c10d/internal.h"
#include "device/cells.h"
#include "sched/account.h"
#include "sched/stage.h"

struct store_value { void *bytes; size_t count; };

struct store {
    struct world       *world;
    struct sched       *sched;
    struct monitor      monitor;
    struct map          keys;          /* to places in values */
    struct store_value *values;
    size_t              count, room;
};

struct store *
store_new(struct task *me, struct world *world)
{
    struct store *store = calloc(1, sizeof *store);
    if (store == NULL || !monitor_init(&store->monitor)) {
        free(store);
        return failed_null(me, E_MEMORY, "out of memory");
    }
    store->world = world;
    store->sched = me->sched;
    return store;
}

/* What a value stands for in the run's account: its key and place too. */
static size_t
value_bytes(size_t count)
{
    enum { KEY_BYTES = 256 };
    return count < SIZE_MAX - KEY_BYTES ? count + KEY_BYTES : SIZE_MAX;
}

static void *
value_new(struct store *store, size_t count)
{
    if (!account_take(store->sched, value_bytes(count)))
        return NULL;
    void *bytes = malloc(count + 1);
    if (bytes == NULL)
        account_give(store->sched, value_bytes(count));
    return bytes;
}

static void
value_free(struct store *store, struct store_value *value)
{
    free(value->bytes);
    account_give(store->sched, value_bytes(value->count));
}

void
store_free(struct store *store)
{
    if (store == NULL)
        return;
    for (size_t i = 0; i < store->count; i++)
        value_free(store, &store->values[i]);
    free(store->values);
    map_free(&store->keys);
    monitor_destroy(&store->monitor);
    free(store);
}

void
store_wake(struct task *me, struct store *store)
{
    monitor_enter(me, &store->monitor);
    monitor_wake(me, &store->monitor);
    monitor_leave(me, &store->monitor);
}

static struct store_value *
store_find(struct store *store, const char *key)
{
    uint64_t place = 0;
    return map_get_text(&store->keys, key, &place) ? &store->values[place] : NULL;
}

/* In the monitor. false: no memory, nothing changed. */
static bool
store_put(struct store *store, const char *key, const void *bytes, size_t count)
{
    void *copy = value_new(store, count);
    if (copy == NULL)
        return false;
    memcpy(copy, count > 0 ? bytes : "", count);
    ((char *)copy)[count] = '\0';
    struct store_value *value = store_find(store, key);
    if (value != NULL) {
        value_free(store, value);
        *value = (struct store_value){ copy, count };
        return true;
    }
    if (!vec_room(&store->values, &store->room, store->count + 1, sizeof *store->values) ||
        !map_set_text(&store->keys, key, store->count)) {
        value_free(store, &(struct store_value){ copy, count });
        return false;
    }
    store->values[store->count++] = (struct store_value){ copy, count };
    return true;
}

/* The key is there for everybody from now on; who waits for it wakes. */
bool
store_set(struct task *me, struct store *store, const char *key, const void *bytes,
          size_t count)
{
    STAGE(me, c10d_store_set, stage_text_id(me, key));
    if (task_failed(me))
        return false;
    monitor_enter(me, &store->monitor);
    bool done = store_put(store, key, bytes, count);
    monitor_wake(me, &store->monitor);
    monitor_leave(me, &store->monitor);
    return done || memory_failed(me, value_bytes(count), "the store");
}

/* A key of the rendezvous never comes when a rank has ended before joining; any key when nobody else is left. */
static bool
store_is_hopeless(const struct store *store, const char *key, int *lost)
{
    struct world *world = store->world;
    if (atomic_load(&world->ended_count) == 0)
        return false;
    bool rendezvous = strncmp(key, "default_pg/", 11) == 0;
    for (int rank = 0; rank < world->size; rank++) {
        *lost = rank;
        if (rendezvous && atomic_load(&world->ranks[rank].ended) && !atomic_load(&world->ranks[rank].joined))
            return true;
    }
    *lost = -1;
    return atomic_load(&world->ended_count) >= world->size - 1;
}

static bool
store_lost(struct task *me, const char *key, int lost)
{
    if (lost >= 0)
        return failed(me, E_RANK_LOST, "rank %d waits in init_process_group for rank %d, which has ended without "
                                       "calling it", me->rank, lost);
    return failed(me, E_RANK_LOST, "rank %d waits for the store's key '%s', but all other ranks have ended",
                  me->rank, key);
}

/* Why a key never comes: `rank` has ended without joining; -1: all others have ended. */
struct hopeless { bool is; int rank; };

/* In the store's monitor: the key's value, as soon as somebody has set it. NULL: it is hopeless, or the wait failed. */
static struct store_value *
await_value(struct task *me, struct store *store, const char *key, struct hopeless *hopeless)
{
    struct wait_reason reason = { .what = "store.wait", .sequence = -1, .peer = -1,
                                  .detail = key, .timeout_ps = store->world->timeout_ps };
    struct store_value *value;
    while ((value = store_find(store, key)) == NULL) {
        hopeless->is = store_is_hopeless(store, key, &hopeless->rank);
        if (hopeless->is || !monitor_wait(me, &store->monitor, &reason))
            return NULL;
    }
    return value;
}

/* Memory is asked for outside of the monitor: others may have to let go of theirs. */
bool
store_wait(struct task *me, struct store *store, const char *key, void **bytes,
           size_t *count)
{
    STAGE(me, c10d_store_wait, stage_text_id(me, key));
    void  *copy = NULL;
    size_t room = 0;
    struct hopeless     hopeless = { false, -1 };
    struct store_value *value = NULL;
    if (task_failed(me))
        return false;
    monitor_enter(me, &store->monitor);
    while ((value = await_value(me, store, key, &hopeless)) != NULL && bytes != NULL &&
           room <= value->count) {
        room = value->count + 1;
        monitor_leave(me, &store->monitor);
        copy = scratch_new(me, room, 1);
        if (copy == NULL)
            return false;
        monitor_enter(me, &store->monitor);
    }
    if (value != NULL && bytes != NULL) {
        memcpy(copy, value->bytes, value->count + 1);
        *bytes = hand_up(me, copy);
        *count = value->count;
    }
    monitor_leave(me, &store->monitor);
    return hopeless.is ? store_lost(me, key, hopeless.rank) : value != NULL;
}

/* As in c10d the number is kept as decimal text; an absent key counts as 0. */
int64_t
store_add(struct task *me, struct store *store, const char *key, int64_t amount)
{
    if (task_failed(me))
        return 0;
    int64_t number = 0;
    bool    stored = false, is_number = true;
    char    text[24];
    monitor_enter(me, &store->monitor);
    struct store_value *value = store_find(store, key);
    if (value != NULL) {
        char *end = NULL;
        errno     = 0;
        number    = strtoll(value->bytes, &end, 10);
        is_number = value->count > 0 && errno == 0 && end == (char *)value->bytes + value->count;
    }
    if (is_number) {
        number = (int64_t)((uint64_t)number + (uint64_t)amount);
        int length = snprintf(text, sizeof text, "%" PRId64, number);
        stored     = store_put(store, key, text, (size_t)length);
        monitor_wake(me, &store->monitor);
    }
    monitor_leave(me, &store->monitor);
    if (!is_number)
        failed(me, E_RUNTIME, "the store's key '%s' holds no number to add to", key);
    else if (!stored)
        (void)memory_failed(me, value_bytes(sizeof text), "the store");
    return number;
}
