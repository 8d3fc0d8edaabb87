/* Keys, their values and queues, as a store keeps them: knows no task and no lock. A HashStore has one behind its monitor,
 * a TCP store's server one for itself, a FileStore one that says what is in the file.
 *
 * Order of use: store_table_open; store_table_answer for each request; store_table_close. What it holds is counted in
 * the run's account, from any thread; outside of a run (`sched` NULL) `limit` alone bounds it. */
#ifndef C10D_STORE_TABLE_H
#define C10D_STORE_TABLE_H
#include <stdbool.h>
#include <stddef.h>
#include "base/map.h"
#include "c10d/store.h"

struct store_value { struct store_value *next; size_t count; char bytes[]; };    /* with a NUL behind */
struct store_entry {
    char               *key;           /* NULL: it was removed, its place is free */
    struct store_value *value;         /* NULL: only a queue */
    struct store_value *first, *last;  /* the queue */
    int64_t             waiting;       /* how many are in it */
};
struct store_table {
    struct sched       *sched;
    struct map          places;        /* key -> entry */
    struct store_entry *entries;
    size_t              count, room;
    size_t              values;        /* keys with a value */
    size_t              charged, limit; /* bytes; limit 0: the account's alone */
};

void store_table_open(struct store_table *table, struct sched *sched, size_t limit);
void store_table_close(struct store_table *table);
void store_table_answer(struct store_table *table, const struct store_request *request, struct store_reply *reply);
/* One value of a reply; answers where the next one begins. The caller knows how many there are. */
const char *store_reply_value(const char *at, struct store_text *value);
/* Of a list of keys those that begin with the prefix, without it. */
void store_reply_keep(struct store_reply *reply, const char *prefix);
/* The number that the text begins with, as C++'s stoll reads it. false: there is none. */
bool store_number(const char *text, int64_t *number);
#endif
