/* What all stores have in common: what can be asked, waiting and its end, messages. c10d::Store.
 * Order of use: store.h. Keys of the rendezvous begin with default_pg/. */
#include "c10d/store.h"
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "c10d/store_table.h"
#include "device/cells.h"
#include "sched/account.h"
#include "sched/sched.h"
#include "sched/stage.h"

/* ---- making and letting go ---- */

void
store_begin(struct task *me, struct store *store, const struct store_kind *kind)
{
    store->kind  = kind;
    store->sched = me->sched;
    atomic_init(&store->references, 1);
    atomic_init(&store->timeout_ps, STORE_USUAL_PS);
    atomic_init(&store->timeout_asked, false);
}

struct store *
store_ref(struct store *store)
{
    if (store != NULL)
        atomic_fetch_add(&store->references, 1);
    return store;
}

void
store_drop(struct task *me, void *pointer)
{
    struct store *store = pointer;
    if (store != NULL && atomic_fetch_sub(&store->references, 1) == 1)
        store->kind->close(me, store);
}

struct store *
store_clone(struct task *me, struct store *store)
{
    return task_failed(me) ? NULL : store->kind->clone(me, store);
}

const char *
store_name(const struct store *store)
{
    return store->kind->name;
}

struct store *
store_underlying(const struct store *store)
{
    return store->under;
}

/* A PrefixStore's timeout is that of the store below it. */
static const struct store *
store_root(const struct store *store)
{
    while (store->under != NULL)
        store = store->under;
    return store;
}

uint64_t
store_timeout_ps(const struct store *store)
{
    return atomic_load(&store_root(store)->timeout_ps);
}

void
store_set_timeout(struct store *store, uint64_t timeout_ps)
{
    struct store *root = (struct store *)store_root(store);
    atomic_store(&root->timeout_ps, timeout_ps);
    atomic_store(&root->timeout_asked, true);
}

bool
store_has_extended_api(const struct store *store)
{
    return store_root(store)->kind->extended;
}

/* ---- asking ---- */

static bool
keys_are_good(struct task *me, const struct store_request *request)
{
    if (request->key_count > STORE_KEYS)
        return failed(me, E_VALUE, "%d keys in one call of a store: at most %d are possible", request->key_count,
                      STORE_KEYS);
    for (int i = 0; i < request->key_count; i++)
        if (strlen(request->keys[i]) > STORE_KEY_BYTES)
            return failed(me, E_VALUE, "a store's key of %zu bytes ('%.40s...'): at most %d are possible",
                          strlen(request->keys[i]), request->keys[i], STORE_KEY_BYTES);
    return true;
}

/* What a reply says of failure; what a caller may hope for (an absent key, an empty queue) is his to judge. */
static bool
reply_is_good(struct task *me, const struct store *store, const struct store_request *request,
              const struct store_reply *reply)
{
    const char *key   = request->key_count > 0 ? request->keys[0] : "";
    size_t      bytes = 0;
    for (int i = 0; i < request->value_count; i++)
        bytes += request->values[i].count;
    switch (reply->status) {
    case STORE_NO_NUMBER:
        return failed(me, E_VALUE, "the store's key '%s' holds no number to add to", key);
    case STORE_NO_MEMORY: return memory_failed(me, bytes, "the store");
    case STORE_FULL:
        return failed(me, E_RUNTIME, "the %s has no room for %zu bytes more (key '%s')", store->kind->name, bytes, key);
    case STORE_UNSUPPORTED:
        return failed(me, E_NOT_IMPLEMENTED, "a %s has no queues: HashStore and TCPStore have", store->kind->name);
    default: return true;
    }
}

/* Memory for the answer is taken where nobody is kept waiting: others may have to let go of theirs. */
static bool
store_ask(struct task *me, struct store *store, const struct store_request *request, struct store_reply *reply)
{
    *reply = (struct store_reply){ .status = STORE_SHORT };
    if (task_failed(me) || !keys_are_good(me, request))
        return false;
    while (reply->status == STORE_SHORT) {
        if (reply->need > reply->room) {
            reply->room  = reply->need;
            reply->bytes = scratch_new(me, reply->room, 1);
            if (reply->bytes == NULL)
                return false;
        }
        if (!store->kind->ask(me, store, request, reply))
            return false;
    }
    return reply_is_good(me, store, request, reply);
}

static bool
ask_one(struct task *me, struct store *store, enum store_op op, const char *key, const struct store_text *value,
        struct store_reply *reply)
{
    struct store_request request = { .op = op, .keys = &key, .key_count = key != NULL, .values = value,
                                     .value_count = value != NULL };
    return store_ask(me, store, &request, reply);
}

/* The key is there for everybody from now on; who waits for it wakes. */
bool
store_set(struct task *me, struct store *store, const char *key, const void *bytes,
          size_t count)
{
    STAGE(me, c10d_store_set, stage_text_id(me, key));
    struct store_text  value = { bytes, count };
    struct store_reply reply;
    return ask_one(me, store, STORE_SET, key, &value, &reply);
}

int64_t
store_add(struct task *me, struct store *store, const char *key, int64_t amount)
{
    struct store_reply   reply;
    struct store_request request = { .op = STORE_ADD, .keys = &key, .key_count = 1, .number = amount };
    return store_ask(me, store, &request, &reply) ? reply.number : 0;
}

bool
store_append(struct task *me, struct store *store, const char *key, const void *bytes, size_t count)
{
    struct store_reply reply;
    return ask_one(me, store, STORE_APPEND, key, &(struct store_text){ bytes, count }, &reply);
}

bool
store_compare_set(struct task *me, struct store *store, const char *key, const struct store_text pair[2],
                  struct store_text *now)
{
    struct store_reply   reply;
    struct store_request request = { .op = STORE_COMPARE_SET, .keys = &key, .key_count = 1, .values = pair,
                                     .value_count = 2 };
    if (!store_ask(me, store, &request, &reply))
        return false;
    store_reply_value(reply.bytes, now);
    return true;
}

bool
store_check(struct task *me, struct store *store, const char *const *keys, int count, bool *there)
{
    struct store_reply   reply;
    struct store_request request = { .op = STORE_CHECK, .keys = keys, .key_count = count, .what = STORE_ANY };
    bool                 ok      = store_ask(me, store, &request, &reply);
    *there                       = ok && reply.number != 0;
    return ok;
}

bool
store_check_within(struct task *me, struct store *store, const char *key, int64_t patience_ms, bool *there)
{
    struct store_reply   reply;
    struct store_request request = { .op = STORE_CHECK, .keys = &key, .key_count = 1, .what = STORE_ANY,
                                     .number = store_root(store)->kind->patient ? patience_ms : 0 };
    bool                 ok      = store_ask(me, store, &request, &reply);
    *there                       = ok && reply.number != 0;
    return ok;
}

bool
store_peek(struct task *me, struct store *store, const char *key, struct store_text *value, bool *there)
{
    struct store_reply reply;
    bool               ok = ask_one(me, store, STORE_GET, key, NULL, &reply);
    *there                = ok && reply.status == STORE_DONE;
    if (*there)
        store_reply_value(reply.bytes, value);
    return ok;
}

bool
store_clock(struct task *me, struct store *store, int64_t *ns)
{
    struct store_reply reply;
    bool               ok = ask_one(me, store, STORE_CLOCK, NULL, NULL, &reply);
    *ns                   = ok ? reply.number : 0;
    return ok;
}

bool
store_delete_key(struct task *me, struct store *store, const char *key, bool *was_there)
{
    struct store_reply reply;
    bool               ok = ask_one(me, store, STORE_DELETE, key, NULL, &reply);
    *was_there            = ok && reply.number != 0;
    return ok;
}

bool
store_num_keys(struct task *me, struct store *store, int64_t *count)
{
    struct store_reply reply;
    bool               ok = ask_one(me, store, STORE_COUNT, NULL, NULL, &reply);
    *count                = ok ? reply.number : 0;
    return ok;
}

static int
by_bytes(const void *left, const void *right)
{
    return strcmp(((const struct store_text *)left)->bytes, ((const struct store_text *)right)->bytes);
}

bool
store_list_keys(struct task *me, struct store *store, struct store_text **keys, int *count)
{
    struct store_reply reply;
    *count = 0;
    *keys  = NULL;
    if (!ask_one(me, store, STORE_LIST, NULL, NULL, &reply) || reply.number == 0)
        return !task_failed(me);
    *keys          = scratch_new(me, (size_t)reply.number, sizeof **keys);
    const char *at = reply.bytes;
    for (int64_t i = 0; *keys != NULL && i < reply.number; i++)
        at = store_reply_value(at, &(*keys)[i]);
    if (*keys == NULL)
        return false;
    *count = (int)reply.number;
    qsort(*keys, (size_t)*count, sizeof **keys, by_bytes);
    return true;
}

bool
store_multi_set(struct task *me, struct store *store, const char *const *keys, const struct store_text *values,
                int count)
{
    struct store_reply   reply;
    struct store_request request = { .op = STORE_SET, .keys = keys, .key_count = count, .values = values,
                                     .value_count = count };
    return store_ask(me, store, &request, &reply);
}

bool
store_queue_push(struct task *me, struct store *store, const char *key, const void *bytes, size_t count)
{
    struct store_reply reply;
    return ask_one(me, store, STORE_PUSH, key, &(struct store_text){ bytes, count }, &reply);
}

bool
store_queue_len(struct task *me, struct store *store, const char *key, int64_t *count)
{
    struct store_reply reply;
    bool               ok = ask_one(me, store, STORE_LENGTH, key, NULL, &reply);
    *count                = ok ? reply.number : 0;
    return ok;
}

bool
store_post(struct task *me, struct store *store, const char *log, const struct store_text *entry)
{
    struct store_reply reply;
    return ask_one(me, store, STORE_POST, log, entry, &reply);
}

bool
store_will(struct task *me, struct store *store, const char *log, const struct store_text *entry, int64_t patience_ms)
{
    const struct store_text none    = { "", 0 };
    struct store_request request = { .op = STORE_POST,
                                     .keys = &log,
                                     .key_count = 1,
                                     .values = entry != NULL ? entry : &none,
                                     .value_count = 1,
                                     .number = entry != NULL ? patience_ms : -1 };
    struct store_reply      reply;
    return !store_root(store)->kind->has_wills || store_ask(me, store, &request, &reply);
}

/* ---- waiting ---- */

bool
store_late(struct task *me, const struct store *store, const struct store_request *check, uint64_t limit_ps)
{
    char          rest[40] = "";
    if (check->key_count > 1)
        snprintf(rest, sizeof rest, " and %d more", check->key_count - 1);
    return failed(me, store->kind->late, "waited %g s for the store's key '%s'%s: nobody has set %s in time",
                  (double)limit_ps / 1e12, check->keys[0], rest, check->key_count > 1 ? "them all" : "it");
}

static uint64_t
time_after(uint64_t begin, uint64_t ps)
{
    return ps < UINT64_MAX - begin ? begin + ps : UINT64_MAX;
}

/* Of a `free` run --timeout ends any wait. */
static bool
run_is_late(struct task *me, uint64_t begin, const struct store_request *check)
{
    uint64_t limit = sched_timeout_ps(me->sched);
    if (sched_is_stepped(me->sched) || sched_now(me) - begin < limit)
        return false;
    return !failed(me, E_TIMEOUT, "timed out. Nobody has set the store's key '%s' within %g s", check->keys[0],
                   (double)limit / 1e12);
}

bool
store_poll(struct task *me, struct store *store, const struct store_request *check, uint64_t limit_ps, bool asked)
{
    const uint64_t       turn  = 10 * UINT64_C(1000000000), patience = 50;
    uint64_t             begin = sched_now(me), end = time_after(begin, limit_ps);
    bool                 waits = store->kind->patient && !sched_is_stepped(me->sched);
    struct store_request once  = *check;
    struct wait_reason   reason = { .what = "store.wait", .sequence = -1, .peer = -1,
                                    .detail = check->key_count > 0 ? check->keys[0] : NULL };
    struct store_reply   reply;
    (void)asked;
    for (;;) {
        uint64_t now  = sched_now(me), left = now < end ? end - now : 0;
        uint64_t left_ms = left / 1000000000;
        once.number   = !waits ? 0 : (int64_t)(left_ms < patience ? left_ms : patience);
        if (!store_ask(me, store, &once, &reply))
            return false;
        if (reply.number != 0)
            return true;
        if (left == 0)
            return store_late(me, store, check, limit_ps);
        if (run_is_late(me, begin, check))
            return false;
        if (!sched_poll(me, waits && once.number > 0 ? 0 : left < turn ? left : turn, &reason))
            return false;
    }
}

static bool
await_keys(struct task *me, struct store *store, const struct store_request *check, uint64_t timeout_ps)
{
    const struct store *root  = store_root(store);
    bool                asked = timeout_ps != STORE_TIMEOUT || atomic_load(&root->timeout_asked);
    uint64_t            limit = timeout_ps != STORE_TIMEOUT ? timeout_ps : atomic_load(&root->timeout_ps);
    return !task_failed(me) && keys_are_good(me, check) && store->kind->wait(me, store, check, limit, asked);
}

/* Returns once all of the keys are there, or fails: nobody has set them in time, or they never come. */
static bool
store_do_wait(struct task *me, struct store *store, const struct store_request *check,
              uint64_t timeout_ps)
{
    const char *key = check->key_count > 0 ? check->keys[0] : "";
    STAGE(me, c10d_store_wait, stage_text_id(me, key));
    if (check->key_count == 0)
        return !task_failed(me);
    return await_keys(me, store, check, timeout_ps);
}

bool
store_wait(struct task *me, struct store *store, const char *const *keys, int count, uint64_t timeout_ps)
{
    struct store_request check = { .op = STORE_CHECK, .keys = keys, .key_count = count, .what = STORE_ANY };
    return store_do_wait(me, store, &check, timeout_ps);
}

/* Somebody may remove a key between the two: then it is waited for again. */
static bool
wait_and_get(struct task *me, struct store *store, const char *const *keys, int count, struct store_reply *reply)
{
    struct store_request check = { .op = STORE_CHECK, .keys = keys, .key_count = count, .what = STORE_VALUES };
    struct store_request get   = { .op = STORE_GET, .keys = keys, .key_count = count };
    do
        if (!store_do_wait(me, store, &check, STORE_TIMEOUT) || !store_ask(me, store, &get, reply))
            return false;
    while (reply->status == STORE_ABSENT);
    return true;
}

bool
store_get(struct task *me, struct store *store, const char *key, void **bytes, size_t *count)
{
    struct store_reply reply;
    struct store_text  value;
    if (!wait_and_get(me, store, &key, 1, &reply))
        return false;
    store_reply_value(reply.bytes, &value);
    *bytes = (void *)value.bytes;
    *count = value.count;
    return true;
}

bool
store_multi_get(struct task *me, struct store *store, const char *const *keys, int count, struct store_text *values)
{
    struct store_reply reply;
    if (count == 0)
        return !task_failed(me);
    if (!wait_and_get(me, store, keys, count, &reply))
        return false;
    const char *at = reply.bytes;
    for (int i = 0; i < count; i++)
        at = store_reply_value(at, &values[i]);
    return true;
}

bool
store_queue_pop(struct task *me, struct store *store, const char *key, bool block, struct store_text *value)
{
    struct store_request check = { .op = STORE_CHECK, .keys = &key, .key_count = 1, .what = STORE_QUEUES };
    struct store_reply   reply;
    if (!ask_one(me, store, STORE_POP, key, NULL, &reply))
        return false;
    while (reply.status == STORE_EMPTY) {
        if (!block)
            return failed(me, E_QUEUE_EMPTY, "the store's queue '%s' is empty", key);
        if (!store_do_wait(me, store, &check, STORE_TIMEOUT) || !ask_one(me, store, STORE_POP, key, NULL, &reply))
            return false;
    }
    store_reply_value(reply.bytes, value);
    return true;
}

/* The last one to come opens the door. */
bool
store_barrier(struct task *me, struct store *store, const char *key, int64_t world_size, uint64_t timeout_ps)
{
    char        come[STORE_KEY_BYTES + 16], open[STORE_KEY_BYTES + 16];
    const char *door = open;
    snprintf(come, sizeof come, "%s/come", key);
    snprintf(open, sizeof open, "%s/open", key);
    int64_t number = store_add(me, store, come, 1);
    if (task_failed(me) || (number == world_size && !store_set(me, store, open, "1", 1)))
        return false;
    return store_wait(me, store, &door, 1, timeout_ps);
}
