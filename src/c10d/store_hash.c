/* HashStore: keys in the memory of this process, for ranks that are its tasks; the world's own store is one. Who waits
 * is woken by who sets. c10d::HashStore. */
#include <stdlib.h>
#include <string.h>
#include "c10d/internal.h"
#include "c10d/store_table.h"

/* Who took a text out of a queue: a queue with one text in it is a lock, and that rank holds it. The last few. */
struct taken { uint64_t key; int rank; };
enum { TAKEN_MOST = 16 };

struct hash_store {
    struct store          store;
    struct world *_Atomic world;      /* NULL: anybody may set a key */
    struct monitor        monitor;
    struct store_table    table;
    struct taken          taken[TAKEN_MOST];   /* a ring */
    size_t                taken_count;
};

static void
hash_close(struct task *me, struct store *store)
{
    struct hash_store *hash = (struct hash_store *)store;
    (void)me;
    store_table_close(&hash->table);
    monitor_destroy(&hash->monitor);
    free(hash);
}

static void
note_taken(struct hash_store *hash, const char *key, int rank)
{
    hash->taken[hash->taken_count++ % TAKEN_MOST] = (struct taken){ hash_bytes(0, key, strlen(key)), rank };
}

/* -1: nobody, or long ago. */
static int
taker_of(const struct hash_store *hash, const char *key)
{
    uint64_t wanted = hash_bytes(0, key, strlen(key));
    for (size_t back = 1; back <= TAKEN_MOST && back <= hash->taken_count; back++) {
        const struct taken *taken = &hash->taken[(hash->taken_count - back) % TAKEN_MOST];
        if (taken->key == wanted)
            return taken->rank;
    }
    return -1;
}

static bool
is_rendezvous(const char *key)
{
    return strncmp(key, "default_pg/", strlen("default_pg/")) == 0;
}

static bool
op_reads(enum store_op op)
{
    return op == STORE_GET || op == STORE_CHECK || op == STORE_COUNT || op == STORE_LIST || op == STORE_LENGTH ||
           op == STORE_CLOCK;
}

/* Keys are shared by the ranks of its world; without one, within the rank. Those of the rendezvous commute, and changes
 * of several keys do unless somebody counts or lists them all. */
static void
keys_meet(struct task *me, const struct hash_store *hash, const struct store_request *request)
{
    const int64_t where[3] = { hash->world != NULL ? -1 : me->rank };
    bool          reads = op_reads(request->op), all = request->op == STORE_COUNT || request->op == STORE_LIST;
    if (request->key_count > 0 && is_rendezvous(request->keys[0]))
        return;
    for (int i = 0; i < request->key_count; i++)
        sched_touch(me, reads ? TOUCH_READ : TOUCH_CHANGE, request->keys[i], where);
    if (all || !reads)
        sched_touch(me, all ? TOUCH_CHANGE : TOUCH_READ, "all keys", where);
}

static bool
hash_ask(struct task *me, struct store *store, const struct store_request *request, struct store_reply *reply)
{
    struct hash_store *hash = (struct hash_store *)store;
    keys_meet(me, hash, request);
    monitor_enter(me, &hash->monitor);
    store_table_answer(&hash->table, request, reply);
    if (reply->status == STORE_DONE && request->op == STORE_POP)
        note_taken(hash, request->keys[0], me->rank);
    if (reply->status == STORE_DONE && request->op != STORE_GET && request->op != STORE_CHECK)
        monitor_wake(me, &hash->monitor);
    monitor_leave(me, &hash->monitor);
    return true;
}

/* ---- waiting ---- */

/* A key of the rendezvous never comes when a rank has ended before joining; any key when nobody else is left, unless a
 * limit was `asked` for: then that is what the lesson wants to see. */
static bool
key_is_hopeless(const struct world *world, const char *key, bool asked, int *lost)
{
    if (world == NULL || atomic_load(&world->ended_count) == 0)
        return false;
    bool rendezvous = is_rendezvous(key);
    int  generation = rendezvous ? atoi(key + strlen("default_pg/")) : 0;
    for (int rank = 0; rank < world->size; rank++) {
        *lost = rank;
        if (rendezvous && atomic_load(&world->ranks[rank].ended) &&
            atomic_load(&world->ranks[rank].joined) <= generation)
            return true;
    }
    *lost = -1;
    return !asked && atomic_load(&world->ended_count) >= world->size - 1;
}

static bool
key_is_lost(struct task *me, struct world *world, const char *key, int lost)
{
    struct wait_reason reason = { .what = lost >= 0 ? "init_process_group" : "store.wait", .sequence = -1, .peer = lost,
                                  .detail = lost >= 0 ? NULL : key };
    if (lost >= 0)
        return hang_in_vain(me, world, &reason, "rank %d waits in init_process_group for rank %d, which %s "
                            "without calling it", me->rank, lost, world_rank_fate(world, lost));
    return hang_in_vain(me, world, &reason, "rank %d waits for the store's key '%s', but all other ranks have ended",
                        me->rank, key);
}

static const char *
missing_key(const struct store_table *table, const struct store_request *check)
{
    struct store_reply reply;
    for (int i = 0; i < check->key_count; i++) {
        struct store_request one = *check;
        one.keys      = &check->keys[i];
        one.key_count = 1;
        store_table_answer((struct store_table *)table, &one, &reply);
        if (reply.number == 0)
            return check->keys[i];
    }
    return NULL;
}

/* In `stepped` a wait without a limit of the lesson's own ends when nobody can set the key any more, and says so. */
static bool
hash_wait(struct task *me, struct store *store, const struct store_request *check, uint64_t limit_ps, bool asked)
{
    struct hash_store *hash  = (struct hash_store *)store;
    uint64_t           begin = sched_now(me), end = limit_ps < UINT64_MAX - begin ? begin + limit_ps : UINT64_MAX;
    bool               timed = asked || !sched_is_stepped(me->sched), hopeless = false, late = false, goes_on = true;
    int                lost = -1;
    const char        *key;
    bool               queue = check->what == STORE_QUEUES;
    struct wait_reason reason = { .what = queue ? "store.queue_pop" : "store.wait", .sequence = -1, .peer = -1,
                                  .until = timed ? end : 0 };
    if (hash->world != NULL && is_rendezvous(check->keys[0]))
        reason.what = "init_process_group";      /* its keys are nobody's concern */
    monitor_enter(me, &hash->monitor);
    while ((key = missing_key(&hash->table, check)) != NULL) {
        late     = timed && sched_now(me) >= end;
        hopeless = key_is_hopeless(hash->world, key, asked, &lost);
        if (late || hopeless)
            break;
        reason.detail = is_rendezvous(key) ? NULL : key;
        reason.peer   = queue ? taker_of(hash, key) : -1;
        goes_on       = monitor_wait(me, &hash->monitor, &reason);
        if (!goes_on)
            break;
    }
    monitor_leave(me, &hash->monitor);
    if (late)
        return store_late(me, store, check, limit_ps);
    return hopeless ? key_is_lost(me, hash->world, key, lost) : goes_on;
}

/* ---- making ---- */

static struct store *
hash_clone(struct task *me, struct store *store)
{
    (void)me;
    return store_ref(store);
}

static const struct store_kind hash_kind = {
    .name = "HashStore", .extended = true, .late = E_DIST_STORE, .ask = hash_ask, .wait = hash_wait,
    .clone = hash_clone, .close = hash_close,
};

struct store *
store_hash_new(struct task *me, struct world *world)
{
    struct hash_store *hash = task_failed(me) ? NULL : calloc(1, sizeof *hash);
    if (hash == NULL || !monitor_init(&hash->monitor)) {
        free(hash);
        return failed_null(me, E_MEMORY, "out of memory for a store");
    }
    store_begin(me, &hash->store, &hash_kind);
    store_table_open(&hash->table, me->sched, 0);
    hash->world = world;
    if (world != NULL && world->timeout_ps > 0)
        hash->store.timeout_ps = world->timeout_ps;
    return &hash->store;
}

void
store_hash_leave_world(struct store *store)
{
    ((struct hash_store *)store)->world = NULL;
}

void
store_hash_wake(struct task *me, struct store *store)
{
    struct hash_store *hash = (struct hash_store *)store;
    monitor_enter(me, &hash->monitor);
    monitor_wake(me, &hash->monitor);
    monitor_leave(me, &hash->monitor);
}
