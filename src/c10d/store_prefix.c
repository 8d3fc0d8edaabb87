/* PrefixStore: the keys of another store that begin with "prefix/", without it. c10d::PrefixStore. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "c10d/store_table.h"
#include "device/cells.h"

struct prefix_store { struct store store; char prefix[]; /* with its slash */ };

static void
prefix_close(struct task *me, struct store *store)
{
    store_drop(me, store->under);
    free(store);
}

/* The request with the whole keys. NULL: failed. */
static const struct store_request *
whole_keys(struct task *me, struct store *store, const struct store_request *request, struct store_request *whole)
{
    const char *prefix = ((struct prefix_store *)store)->prefix;
    size_t      length = strlen(prefix), bytes = 0, count = (size_t)request->key_count;
    *whole = *request;
    if (count == 0)
        return whole;
    for (size_t i = 0; i < count; i++)
        bytes += length + strlen(request->keys[i]) + 1;
    const char **keys = scratch_new(me, count, sizeof *keys);
    char        *at   = keys != NULL ? scratch_new(me, bytes, 1) : NULL;
    if (at == NULL)
        return NULL;
    for (size_t i = 0; i < count; i++) {
        size_t rest = strlen(request->keys[i]) + 1;
        keys[i]     = at;
        memcpy(at, prefix, length);
        memcpy(at + length, request->keys[i], rest);
        at += length + rest;
    }
    whole->keys = keys;
    return whole;
}

static bool
prefix_ask(struct task *me, struct store *store, const struct store_request *request, struct store_reply *reply)
{
    struct store_request whole;
    if (whole_keys(me, store, request, &whole) == NULL || !store->under->kind->ask(me, store->under, &whole, reply))
        return false;
    if (request->op == STORE_LIST && reply->status == STORE_DONE)
        store_reply_keep(reply, ((struct prefix_store *)store)->prefix);
    return true;
}

static bool
prefix_wait(struct task *me, struct store *store, const struct store_request *check, uint64_t limit_ps, bool asked)
{
    struct store_request whole;
    return whole_keys(me, store, check, &whole) != NULL &&
           store->under->kind->wait(me, store->under, &whole, limit_ps, asked);
}

static struct store *prefix_clone(struct task *me, struct store *store);

/* What it can and how it ends waits is the store's below. */
static const struct store_kind prefix_kind = {
    .name = "PrefixStore", .late = E_DIST_STORE, .ask = prefix_ask, .wait = prefix_wait, .clone = prefix_clone,
    .close = prefix_close,
};

static struct store *
prefix_new(struct task *me, const char *prefix, struct store *inner)
{
    struct prefix_store *store = inner != NULL ? calloc(1, sizeof *store + strlen(prefix) + 1) : NULL;
    if (store == NULL)
        return inner != NULL ? failed_null(me, E_MEMORY, "out of memory for a store") : NULL;
    store_begin(me, &store->store, &prefix_kind);
    store->store.under = store_ref(inner);
    memcpy(store->prefix, prefix, strlen(prefix) + 1);
    return &store->store;
}

static struct store *
prefix_clone(struct task *me, struct store *store)
{
    struct store *under = store_clone(me, store->under);
    struct store *clone = prefix_new(me, ((struct prefix_store *)store)->prefix, under);
    store_drop(me, under);
    return clone;
}

struct store *
store_prefix_new(struct task *me, const char *prefix, struct store *inner)
{
    enum { NESTED = 64 };
    int depth = 0;
    if (task_failed(me) || inner == NULL)
        return NULL;
    for (const struct store *at = inner; at != NULL; at = store_underlying(at))
        depth++;
    if (strlen(prefix) > STORE_KEY_BYTES || depth > NESTED)
        return failed_null(me, E_VALUE, "a PrefixStore's prefix of %zu bytes over %d stores: at most %d over %d are "
                           "possible", strlen(prefix), depth, STORE_KEY_BYTES, NESTED);
    char whole[STORE_KEY_BYTES + 2];
    snprintf(whole, sizeof whole, "%s/", prefix);
    return prefix_new(me, whole, inner);
}
