/* The door to stores: keys and bytes that all ranks see; how they find each other. c10d::Store.
 *
 * A kind of store is a struct store_kind with every slot filled: HashStore (store_hash.c) lies in this process, FileStore
 * (store_file.c) in a file that grows, TCPStore (store_tcp.c) with a server thread (store_server.c), PrefixStore
 * (store_prefix.c) within another. All that a store is asked is one struct store_request; what keeps keys itself lets a
 * struct store_table (store_table.h) answer it. Waiting, timeouts and messages are said here, once for all kinds.
 *
 * Order of use: store_*_new; store_set, store_get ... on any task; store_drop. Errors are recorded in `me`, the answer is
 * false or NULL. What is answered lies in me's scope, values with a NUL behind that is not counted. */
#ifndef C10D_STORE_H
#define C10D_STORE_H
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include "sched/task.h"

struct sched; struct world; struct store;
struct store_text { const void *bytes; size_t count; };

/* ---- making and letting go ---- */
struct store *store_hash_new(struct task *me, struct world *world);  /* world: whose ranks set the keys; NULL: anybody */
/* The world is gone: from now on anybody may set a key. */
void          store_hash_leave_world(struct store *store);
struct store *store_prefix_new(struct task *me, const char *prefix, struct store *inner);
struct store_file_options {
    const char *path;
    int64_t     world_size;  /* so many users have to come and go before the last one removes the file; < 0: nobody does */
    bool        trusted;     /* any path; else only the folders for temporary files, and only files of this kind */
};
struct store *store_file_new(struct task *me, const struct store_file_options *options);
struct store_tcp_options {
    const char *host;
    int64_t     port;             /* 0 at the master: any */
    int64_t     world_size;       /* < 0: not known; else wait_for_workers counts to it */
    bool        is_master;        /* its server runs here, as long as the store and its clones */
    bool        wait_for_workers; /* the master waits until so many have come */
    bool        multi_tenant;     /* the master may share a server that listens there already */
    bool        trusted;          /* other hosts, too */
    uint64_t    timeout_ps;       /* STORE_TIMEOUT: 300 s */
};
struct store *store_tcp_new(struct task *me, const struct store_tcp_options *options);
const char   *store_tcp_host(const struct store *store);             /* NULL: it is another kind */
int           store_tcp_port(const struct store *store);
/* The master's server goes on serving its clients for so long, once its own store is closed, or until they have gone. */
void          store_tcp_linger(struct store *store, uint64_t ms);
const char   *store_file_path(const struct store *store);            /* NULL: it is another kind */
struct store *store_underlying(const struct store *store);           /* of a PrefixStore; NULL: it is another kind */
const char   *store_name(const struct store *store);                 /* "HashStore" */

struct store *store_ref(struct store *store);
void          store_drop(struct task *me, void *store);              /* NULL is fine */
struct store *store_clone(struct task *me, struct store *store);     /* another way to the same keys */

/* ---- asking ---- */
enum { STORE_KEY_BYTES = 4096, STORE_KEYS = 65536 };                 /* the longest key; the most in one call */
#define STORE_TIMEOUT UINT64_MAX                                     /* as a timeout: the store's own */
#define STORE_USUAL_PS (300 * UINT64_C(1000000000000))
bool    store_set(struct task *me, struct store *store, const char *key, const void *bytes, size_t count);
bool    store_get(struct task *me, struct store *store, const char *key, void **bytes, size_t *count); /* waits */
bool    store_wait(struct task *me, struct store *store, const char *const *keys, int count, uint64_t timeout_ps);
int64_t store_add(struct task *me, struct store *store, const char *key, int64_t amount); /* failed: task_failed(me) */
bool    store_append(struct task *me, struct store *store, const char *key, const void *bytes, size_t count);
/* Absent: nothing expected sets it. Present: what is expected sets it. *now: the value after that; of an absent one what
 * was expected. */
bool    store_compare_set(struct task *me, struct store *store, const char *key, const struct store_text pair[2],
                          struct store_text *now);                   /* pair: expected, desired */
bool    store_check(struct task *me, struct store *store, const char *const *keys, int count, bool *there);
/* The same of one key, with so much patience, if the kind has any; for who looks again and again: no event tells of it. */
bool    store_check_within(struct task *me, struct store *store, const char *key, int64_t patience_ms, bool *there);
/* Its value, if it is there now. No event tells of it. */
bool    store_peek(struct task *me, struct store *store, const char *key, struct store_text *value, bool *there);
/* CLOCK_MONOTONIC where a TCP store's server runs, in ns; of other kinds here. */
bool    store_clock(struct task *me, struct store *store, int64_t *ns);
bool    store_delete_key(struct task *me, struct store *store, const char *key, bool *was_there);
bool    store_num_keys(struct task *me, struct store *store, int64_t *count);
bool    store_list_keys(struct task *me, struct store *store, struct store_text **keys, int *count); /* sorted */
bool    store_multi_get(struct task *me, struct store *store, const char *const *keys, int count,
                        struct store_text *values);                  /* waits */
bool    store_multi_set(struct task *me, struct store *store, const char *const *keys, const struct store_text *values,
                        int count);
bool    store_queue_push(struct task *me, struct store *store, const char *key, const void *bytes, size_t count);
bool    store_queue_pop(struct task *me, struct store *store, const char *key, bool block, struct store_text *value);
bool    store_queue_len(struct task *me, struct store *store, const char *key, int64_t *count);
/* Returns when `world_size` have called it with this key. */
bool    store_barrier(struct task *me, struct store *store, const char *key, int64_t world_size, uint64_t timeout_ps);
/* A log of numbered entries: appends one, as key "LOG0", "LOG1" ...; "LOGcount" says how many there are. */
bool     store_post(struct task *me, struct store *store, const char *log, const struct store_text *entry);
/* A TCP store's: its server appends the entry when this connection ends or is silent for `patience_ms`: the last will of
 * a process. The newest one counts; NULL: none any more. Of other kinds: nothing happens, true. */
bool     store_will(struct task *me, struct store *store, const char *log, const struct store_text *entry,
                    int64_t patience_ms);
bool     store_has_extended_api(const struct store *store);          /* append, multi_get, multi_set, queues at one go */
uint64_t store_timeout_ps(const struct store *store);
void     store_set_timeout(struct store *store, uint64_t timeout_ps);

/* ---- for the kinds ---- */
enum store_op {
    STORE_SET, STORE_GET, STORE_CHECK, STORE_ADD, STORE_COMPARE_SET, STORE_APPEND, STORE_DELETE, STORE_COUNT, STORE_LIST,
    STORE_PUSH, STORE_POP, STORE_LENGTH, STORE_POST, STORE_CLOCK, STORE_OPS
};
enum store_what { STORE_VALUES, STORE_QUEUES /* with something in them */, STORE_ANY };
struct store_request {
    enum store_op            op;
    const char *const       *keys;       /* SET, GET, CHECK: any number; COUNT, LIST: none; else one */
    int                      key_count;
    const struct store_text *values;     /* SET: one a key; COMPARE_SET: expected, desired; APPEND, PUSH: one */
    int                      value_count;
    int64_t                  number;     /* ADD: the amount; CHECK: ms that a patient kind may take to say no; POST: see store_will */
    enum store_what          what;       /* CHECK */
};
enum store_status {
    STORE_DONE, STORE_ABSENT /* GET */, STORE_EMPTY /* POP */, STORE_NO_NUMBER /* ADD */, STORE_NO_MEMORY,
    STORE_FULL /* more than it may hold */, STORE_SHORT /* `need` does not fit in `room`: nothing was done */,
    STORE_UNSUPPORTED, STORE_STATUSES
};
/* Values stand in `bytes` one behind the other: 4 bytes of length, the value, a NUL. */
struct store_reply {
    enum store_status status;
    int64_t           number;            /* ADD: the sum; CHECK, DELETE: 1 or 0; COUNT, LIST, LENGTH: how many */
    char             *bytes;
    size_t            room, need;
};

struct store_kind {
    const char     *name;
    bool            extended;            /* has_extended_api */
    bool            has_wills;           /* POST with a number is one */
    bool            patient;             /* in `free` a CHECK takes the time that it is given */
    enum error_kind late;                /* what a wait ends with when nobody has set the key in time */
    /* Does it at once: waits for nobody but the store itself. false: failed; else see reply->status. */
    bool          (*ask)(struct task *me, struct store *store, const struct store_request *request,
                         struct store_reply *reply);
    /* Until a CHECK would say yes, or `limit_ps` are over: then store_late. `asked`: the lesson has set this limit; in
     * `stepped` a limit that nobody has asked for may give way to a deadlock that can be told. */
    bool          (*wait)(struct task *me, struct store *store, const struct store_request *check, uint64_t limit_ps,
                          bool asked);
    struct store *(*clone)(struct task *me, struct store *store);
    void          (*close)(struct task *me, struct store *store);        /* the last one let go; frees it */
};

/* What every store begins with. */
struct store {
    const struct store_kind *kind;
    struct sched            *sched;
    struct store            *under;      /* a PrefixStore's; a reference */
    atomic_int               references;
    atomic_uint_least64_t    timeout_ps;
    atomic_bool              timeout_asked;
};
void store_begin(struct task *me, struct store *store, const struct store_kind *kind);
/* The slot `wait` of kinds that nobody can wake: asks again every 10 ms, as PyTorch's FileStore does. */
bool store_poll(struct task *me, struct store *store, const struct store_request *check, uint64_t limit_ps, bool asked);
bool store_late(struct task *me, const struct store *store, const struct store_request *check, uint64_t limit_ps);
#endif
