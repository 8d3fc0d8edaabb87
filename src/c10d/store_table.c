/* A store's keys in memory. */
#include "c10d/store_table.h"
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include "base/vec.h"
#include "sched/account.h"

void
store_table_open(struct store_table *table, struct sched *sched, size_t limit)
{
    *table = (struct store_table){ .sched = sched, .limit = limit };
}

/* ---- memory ---- */

/* What a value stands for in the run's account: its key and place too. */
static size_t
value_bytes(size_t count)
{
    enum { KEY_BYTES = 256 };
    return count < SIZE_MAX - KEY_BYTES ? count + KEY_BYTES : SIZE_MAX;
}

static void
give_back(const struct store_table *table, size_t bytes)
{
    if (table->sched != NULL)
        account_give(table->sched, bytes);
}

/* The value is not filled yet. NULL: `status` says why. */
static struct store_value *
value_new(struct store_table *table, size_t count, enum store_status *status)
{
    size_t bytes = value_bytes(count);
    *status      = STORE_FULL;
    if (count > INT32_MAX || (table->limit > 0 && (bytes > table->limit || table->charged > table->limit - bytes)))
        return NULL;
    *status = STORE_NO_MEMORY;
    if (table->sched != NULL && !account_take(table->sched, bytes))
        return NULL;
    struct store_value *value = malloc(sizeof *value + count + 1);
    if (value == NULL) {
        give_back(table, bytes);
        return NULL;
    }
    *status             = STORE_DONE;
    value->next         = NULL;
    value->count        = count;
    value->bytes[count] = '\0';
    table->charged += bytes;
    return value;
}

static struct store_value *
value_of(struct store_table *table, const struct store_text *text, enum store_status *status)
{
    struct store_value *value = value_new(table, text->count, status);
    if (value != NULL && text->count > 0)
        memcpy(value->bytes, text->bytes, text->count);
    return value;
}

static void
value_free(struct store_table *table, struct store_value *value)
{
    if (value == NULL)
        return;
    size_t bytes = value_bytes(value->count);
    give_back(table, bytes);
    table->charged -= bytes;
    free(value);
}

void
store_table_close(struct store_table *table)
{
    for (size_t i = 0; i < table->count; i++) {
        struct store_entry *entry = &table->entries[i];
        for (struct store_value *value = entry->first, *next; value != NULL; value = next) {
            next = value->next;
            value_free(table, value);
        }
        value_free(table, entry->value);
        free(entry->key);
    }
    free(table->entries);
    map_free(&table->places);
    *table = (struct store_table){ .sched = table->sched };
}

/* ---- entries ---- */

static struct store_entry *
table_find(const struct store_table *table, const char *key)
{
    uint64_t place = 0;
    if (!map_get_text(&table->places, key, &place))
        return NULL;
    return table->entries[place].key != NULL ? &table->entries[place] : NULL;
}

static struct store_value *
table_value(const struct store_table *table, const char *key)
{
    const struct store_entry *entry = table_find(table, key);
    return entry != NULL ? entry->value : NULL;
}

/* Removed keys keep their place in the map until they are half of it: then it is made anew, in the same order. */
static bool
table_compact(struct store_table *table)
{
    struct map places = { 0 };
    size_t     live   = 0;
    for (size_t i = 0; i < table->count; i++)
        if (table->entries[i].key != NULL && !map_set_text(&places, table->entries[i].key, live++)) {
            map_free(&places);
            return false;
        }
    live = 0;
    for (size_t i = 0; i < table->count; i++)
        if (table->entries[i].key != NULL)
            table->entries[live++] = table->entries[i];
    table->count = live;
    map_free(&table->places);
    table->places = places;
    return true;
}

static bool
table_crowded(const struct store_table *table)
{
    enum { FEW = 64 };
    size_t live = 0;
    if (table->count < FEW || table->count < table->room)
        return false;
    for (size_t i = 0; i < table->count; i++)
        live += table->entries[i].key != NULL;
    return live < table->count / 2;
}

/* The key's entry, made if need be; NULL: no memory. */
static struct store_entry *
table_entry(struct store_table *table, const char *key)
{
    uint64_t            place = table->count;
    struct store_entry *entry = table_find(table, key);
    if (entry != NULL)
        return entry;
    if (table_crowded(table) && !table_compact(table))
        return NULL;
    place      = table->count;
    bool known = map_get_text(&table->places, key, &place);
    if (!known && !vec_room(&table->entries, &table->room, table->count + 1, sizeof *table->entries))
        return NULL;
    char *copy = strdup(key);
    if (copy == NULL || (!known && !map_set_text(&table->places, key, place))) {
        free(copy);
        return NULL;
    }
    table->count += !known;
    table->entries[place] = (struct store_entry){ .key = copy };
    return &table->entries[place];
}

static void
entry_settle(struct store_entry *entry)
{
    if (entry->value != NULL || entry->first != NULL)
        return;
    free(entry->key);
    entry->key = NULL;
}

static enum store_status
table_put(struct store_table *table, const char *key, struct store_value *value)
{
    struct store_entry *entry = table_entry(table, key);
    if (entry == NULL) {
        value_free(table, value);
        return STORE_NO_MEMORY;
    }
    table->values += entry->value == NULL;
    value_free(table, entry->value);
    entry->value = value;
    return STORE_DONE;
}

static enum store_status
table_set(struct store_table *table, const char *key, const struct store_text *text)
{
    enum store_status   status;
    struct store_value *value = value_of(table, text, &status);
    return value != NULL ? table_put(table, key, value) : status;
}

/* ---- replies ---- */

enum { REPLY_HEAD = 4, REPLY_MORE = REPLY_HEAD + 1 };

/* Room for a reply of so many bytes; false: there is not. */
static bool
reply_fits(struct store_reply *reply, size_t need)
{
    reply->need   = need;
    reply->status = need <= reply->room ? STORE_DONE : STORE_SHORT;
    return reply->status == STORE_DONE;
}

static char *
reply_put(char *at, const void *bytes, size_t count)
{
    uint32_t length = (uint32_t)count;
    memcpy(at, &length, REPLY_HEAD);
    if (count > 0)
        memcpy(at + REPLY_HEAD, bytes, count);
    at[REPLY_HEAD + count] = '\0';
    return at + REPLY_MORE + count;
}

const char *
store_reply_value(const char *at, struct store_text *value)
{
    uint32_t length = 0;
    memcpy(&length, at, REPLY_HEAD);
    *value = (struct store_text){ at + REPLY_HEAD, length };
    return at + REPLY_MORE + length;
}

/* In place: what is kept only gets shorter. */
void
store_reply_keep(struct store_reply *reply, const char *prefix)
{
    size_t      length = strlen(prefix);
    char       *to     = reply->bytes;
    const char *from   = reply->bytes;
    int64_t     count  = reply->number;
    reply->number      = 0;
    for (int64_t i = 0; i < count; i++) {
        struct store_text key;
        from = store_reply_value(from, &key);
        if (key.count < length || memcmp(key.bytes, prefix, length) != 0)
            continue;
        uint32_t rest = (uint32_t)(key.count - length);
        memmove(to + REPLY_HEAD, (const char *)key.bytes + length, (size_t)rest + 1);
        memcpy(to, &rest, REPLY_HEAD);
        to += REPLY_MORE + rest;
        reply->number++;
    }
}

/* ---- what is asked ---- */

static void
answer_set(struct store_table *table, const struct store_request *request, struct store_reply *reply)
{
    for (int i = 0; i < request->key_count && reply->status == STORE_DONE; i++)
        reply->status = table_set(table, request->keys[i], &request->values[i]);
}

static void
answer_get(const struct store_table *table, const struct store_request *request, struct store_reply *reply)
{
    size_t need = 0;
    reply->status = STORE_ABSENT;
    for (int i = 0; i < request->key_count; i++) {
        const struct store_value *value = table_value(table, request->keys[i]);
        if (value == NULL)
            return;
        need += REPLY_MORE + value->count;
    }
    if (!reply_fits(reply, need))
        return;
    char *at = reply->bytes;
    for (int i = 0; i < request->key_count; i++) {
        const struct store_value *value = table_value(table, request->keys[i]);
        at = reply_put(at, value->bytes, value->count);
    }
}

static void
answer_check(const struct store_table *table, const struct store_request *request, struct store_reply *reply)
{
    reply->number = 1;
    for (int i = 0; i < request->key_count; i++) {
        const struct store_entry *entry = table_find(table, request->keys[i]);
        bool value = entry != NULL && entry->value != NULL && request->what != STORE_QUEUES;
        bool queue = entry != NULL && entry->first != NULL && request->what != STORE_VALUES;
        reply->number = reply->number != 0 && (value || queue);
    }
}

bool
store_number(const char *text, int64_t *number)
{
    char *end = NULL;
    errno     = 0;
    *number   = strtoll(text, &end, 10);
    return errno == 0 && end != text;
}

/* As in c10d the number is kept as decimal text; an absent key counts as 0. */
static void
answer_add(struct store_table *table, const struct store_request *request, struct store_reply *reply)
{
    const struct store_value *value = table_value(table, request->keys[0]);
    int64_t                   number = 0;
    char                      text[24];
    if (value != NULL && !store_number(value->bytes, &number)) {
        reply->status = STORE_NO_NUMBER;
        return;
    }
    number        = (int64_t)((uint64_t)number + (uint64_t)request->number);
    int length    = snprintf(text, sizeof text, "%" PRId64, number);
    reply->status = table_set(table, request->keys[0], &(struct store_text){ text, (size_t)length });
    reply->number = number;
}

static bool
same_bytes(const struct store_value *value, const struct store_text *text)
{
    return value->count == text->count && (text->count == 0 || memcmp(value->bytes, text->bytes, text->count) == 0);
}

/* The reply's number: whether it was set, for who has to note it. */
static void
answer_compare_set(struct store_table *table, const struct store_request *request, struct store_reply *reply)
{
    const struct store_text  *expected = &request->values[0], *desired = &request->values[1], *now = desired;
    const struct store_value *value    = table_value(table, request->keys[0]);
    bool                      sets     = value == NULL ? expected->count == 0 : same_bytes(value, expected);
    struct store_text         present  = { value != NULL ? value->bytes : NULL, value != NULL ? value->count : 0 };
    if (!sets)
        now = value != NULL ? &present : expected;
    if (!reply_fits(reply, REPLY_MORE + now->count))
        return;
    if (sets)
        reply->status = table_set(table, request->keys[0], desired);
    reply->number = sets;
    if (reply->status == STORE_DONE)
        reply_put(reply->bytes, now->bytes, now->count);
}

static void
answer_append(struct store_table *table, const struct store_request *request, struct store_reply *reply)
{
    const struct store_text  *more = &request->values[0];
    const struct store_value *old  = table_value(table, request->keys[0]);
    size_t                    had  = old != NULL ? old->count : 0;
    struct store_value *value = value_new(table, more->count < SIZE_MAX - had ? had + more->count : SIZE_MAX,
                                          &reply->status);
    if (value == NULL)
        return;
    if (had > 0)
        memcpy(value->bytes, old->bytes, had);
    if (more->count > 0)
        memcpy(value->bytes + had, more->bytes, more->count);
    reply->status = table_put(table, request->keys[0], value);
}

/* Whether it was there. */
static bool
table_delete(struct store_table *table, const char *key)
{
    struct store_entry *entry = table_find(table, key);
    if (entry == NULL || entry->value == NULL)
        return false;
    value_free(table, entry->value);
    entry->value = NULL;
    table->values--;
    entry_settle(entry);
    return true;
}

static void
answer_list(const struct store_table *table, struct store_reply *reply)
{
    size_t need = 0;
    for (size_t i = 0; i < table->count; i++)
        if (table->entries[i].key != NULL && table->entries[i].value != NULL)
            need += REPLY_MORE + strlen(table->entries[i].key);
    reply->number = (int64_t)table->values;
    if (!reply_fits(reply, need))
        return;
    char *at = reply->bytes;
    for (size_t i = 0; i < table->count; i++) {
        const struct store_entry *entry = &table->entries[i];
        if (entry->key != NULL && entry->value != NULL)
            at = reply_put(at, entry->key, strlen(entry->key));
    }
}

static void
answer_push(struct store_table *table, const struct store_request *request, struct store_reply *reply)
{
    struct store_value *value = value_of(table, &request->values[0], &reply->status);
    struct store_entry *entry = value != NULL ? table_entry(table, request->keys[0]) : NULL;
    if (entry == NULL) {
        reply->status = value != NULL ? STORE_NO_MEMORY : reply->status;
        value_free(table, value);
        return;
    }
    if (entry->first == NULL)
        entry->first = value;
    else
        entry->last->next = value;
    entry->last = value;
    entry->waiting++;
}

static void
answer_pop(struct store_table *table, const struct store_request *request, struct store_reply *reply)
{
    struct store_entry *entry = table_find(table, request->keys[0]);
    struct store_value *value = entry != NULL ? entry->first : NULL;
    reply->status             = STORE_EMPTY;
    if (value == NULL || !reply_fits(reply, REPLY_MORE + value->count))
        return;
    reply_put(reply->bytes, value->bytes, value->count);
    entry->first = value->next;
    entry->waiting--;
    value_free(table, value);
    entry_settle(entry);
}

static void
answer_length(const struct store_table *table, const struct store_request *request, struct store_reply *reply)
{
    const struct store_entry *entry = table_find(table, request->keys[0]);
    reply->number                   = entry != NULL ? entry->waiting : 0;
}

/* The counter stands for the next entry's number only when the entry is there. */
static void
answer_post(struct store_table *table, const struct store_request *request, struct store_reply *reply)
{
    char                     key[STORE_KEY_BYTES + 32], counter[STORE_KEY_BYTES + 32], count[32];
    const char              *log = request->keys[0];
    snprintf(counter, sizeof counter, "%.*scount", STORE_KEY_BYTES, log);
    const struct store_value *known = table_value(table, counter);
    int64_t                   next  = 0;
    if (known != NULL && (!store_number(known->bytes, &next) || next < 0 || next == INT64_MAX)) {
        reply->status = STORE_NO_NUMBER;
        return;
    }
    int length = snprintf(count, sizeof count, "%" PRId64, next + 1);
    snprintf(key, sizeof key, "%.*s%" PRId64, STORE_KEY_BYTES, log, next);
    reply->number = next;
    reply->status = table_set(table, key, &request->values[0]);
    if (reply->status != STORE_DONE)
        return;
    reply->status = table_set(table, counter, &(struct store_text){ count, (size_t)length });
    if (reply->status != STORE_DONE)
        (void)table_delete(table, key);
}

static int64_t
clock_ns(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (int64_t)now.tv_sec * 1000000000 + now.tv_nsec;
}

void
store_table_answer(struct store_table *table, const struct store_request *request, struct store_reply *reply)
{
    reply->status = STORE_DONE;
    reply->number = 0;
    reply->need   = 0;
    switch (request->op) {
    case STORE_SET: answer_set(table, request, reply); break;
    case STORE_GET: answer_get(table, request, reply); break;
    case STORE_CHECK: answer_check(table, request, reply); break;
    case STORE_ADD: answer_add(table, request, reply); break;
    case STORE_COMPARE_SET: answer_compare_set(table, request, reply); break;
    case STORE_APPEND: answer_append(table, request, reply); break;
    case STORE_DELETE: reply->number = table_delete(table, request->keys[0]); break;
    case STORE_COUNT: reply->number = (int64_t)table->values; break;
    case STORE_LIST: answer_list(table, reply); break;
    case STORE_PUSH: answer_push(table, request, reply); break;
    case STORE_POP: answer_pop(table, request, reply); break;
    case STORE_LENGTH: answer_length(table, request, reply); break;
    case STORE_POST: answer_post(table, request, reply); break;
    case STORE_CLOCK: reply->number = clock_ns(); break;
    case STORE_OPS: break;
    }
}
