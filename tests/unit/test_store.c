/* Stores: all kinds run one table of operations; waiting, timeouts, clones and prefixes; what a file or a wire may hold;
 * addresses of a rendezvous. */
#include "ranks_rig.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include "c10d/rendezvous.h"
#include "c10d/store.h"
#include "c10d/store_table.h"
#include "c10d/store_wire.h"
#include "c10d/url.h"
#include "sched/account.h"

#define SECOND UINT64_C(1000000000000)

/* ---- kinds ---- */

enum store_sort { HASH, FILE_STORE, TCP, HASH_PREFIX, FILE_PREFIX, TCP_PREFIX, KINDS };

static void
fresh_path(char *path, size_t size)
{
    static const char form[] = "/tmp/ringside-test-store-XXXXXX";
    snprintf(path, size, "%s", form);
    int fd = mkstemp(path);
    assert_true(fd >= 0);
    close(fd);
    unlink(path);
}

static struct store *
make(struct task *me, enum store_sort kind)
{
    char                      path[64];
    struct store_file_options file = { .path = path, .world_size = 1 };
    struct store_tcp_options  tcp  = { .host = "localhost", .world_size = 1, .is_master = true, .wait_for_workers = true,
                                       .timeout_ps = STORE_TIMEOUT };
    if (kind >= HASH_PREFIX) {
        struct store *inner = make(me, kind - HASH_PREFIX), *store = store_prefix_new(me, "pre", inner);
        store_drop(me, inner);
        return store;
    }
    fresh_path(path, sizeof path);
    return kind == HASH ? store_hash_new(me, NULL) : kind == TCP ? store_tcp_new(me, &tcp) : store_file_new(me, &file);
}

/* ---- the table of operations ---- */

static bool
has(struct task *me, struct store *store, const char *key, const char *text)
{
    void  *bytes = NULL;
    size_t count = 0;
    return store_get(me, store, key, &bytes, &count) && count == strlen(text) && strcmp(bytes, text) == 0;
}

static bool
puts_text(struct task *me, struct store *store, const char *key, const char *text)
{
    return store_set(me, store, key, text, strlen(text));
}

/* The error was of that kind; it is gone. */
static bool
failed_with(struct task *me, enum error_kind kind)
{
    bool is = me->error.kind == kind;
    task_clear_error(me);
    return is;
}

static bool
sets_and_gets(struct task *me, struct store *store)
{
    void  *bytes = NULL;
    size_t count = 0;
    return puts_text(me, store, "k", "one") && has(me, store, "k", "one") && puts_text(me, store, "k", "two") &&
           has(me, store, "k", "two") && puts_text(me, store, "", "") && has(me, store, "", "") &&
           store_set(me, store, "nul", "a\0b", 3) && store_get(me, store, "nul", &bytes, &count) && count == 3 &&
           memcmp(bytes, "a\0b", 4) == 0;
}

static bool
adds(struct task *me, struct store *store)
{
    bool sums = store_add(me, store, "n", 5) == 5 && store_add(me, store, "n", -7) == -2 && has(me, store, "n", "-2");
    bool from = puts_text(me, store, "m", "7") && store_add(me, store, "m", 1) == 8;
    return sums && from && store_add(me, store, "wraps", INT64_MAX) == INT64_MAX &&
           store_add(me, store, "wraps", 1) == INT64_MIN;
}

static bool
compares_and_sets(struct task *me, struct store *store)
{
    struct store_text now;
    const struct { const char *key, *expected, *desired, *after; } rows[] = {
        { "c", "", "first", "first" }, { "c", "wrong", "x", "first" }, { "c", "first", "second", "second" },
        { "d", "something", "x", "something" },
    };
    bool there = true;
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        struct store_text pair[2] = { { rows[i].expected, strlen(rows[i].expected) },
                                      { rows[i].desired, strlen(rows[i].desired) } };
        if (!store_compare_set(me, store, rows[i].key, pair, &now) || strcmp(now.bytes, rows[i].after) != 0)
            return false;
    }
    return store_check(me, store, &(const char *){ "d" }, 1, &there) && !there;
}

static bool
appends_and_takes_several(struct task *me, struct store *store)
{
    const char       *keys[]   = { "a", "b" }, *absent[] = { "a", "gone" };
    struct store_text values[] = { { "1", 1 }, { "22", 2 } }, got[2];
    bool              all = false, some = true;
    return store_multi_set(me, store, keys, values, 2) && store_append(me, store, "b", "3", 1) &&
           store_append(me, store, "fresh", "4", 1) && has(me, store, "fresh", "4") &&
           store_multi_get(me, store, keys, 2, got) && got[0].count == 1 && strcmp(got[1].bytes, "223") == 0 &&
           store_check(me, store, keys, 2, &all) && all && store_check(me, store, absent, 2, &some) && !some;
}

static bool
deletes_counts_and_lists(struct task *me, struct store *store)
{
    struct store_text *keys = NULL;
    int64_t            before = 0, after = 0;
    int                count = 0;
    bool               was = false, there = true;
    return store_num_keys(me, store, &before) && puts_text(me, store, "z", "1") && puts_text(me, store, "y", "1") &&
           store_num_keys(me, store, &after) && after == before + 2 && store_list_keys(me, store, &keys, &count) &&
           count >= 2 && strcmp(keys[count - 1].bytes, "z") == 0 && strcmp(keys[count - 2].bytes, "y") == 0 &&
           store_delete_key(me, store, "z", &was) && was && store_check(me, store, &(const char *){ "z" }, 1, &there) &&
           !there && store_num_keys(me, store, &after) && after == before + 1 && puts_text(me, store, "z", "2") &&
           has(me, store, "z", "2");
}

static bool
queues(struct task *me, struct store *store)
{
    struct store_text value;
    int64_t           count = -1;
    if (!store_has_extended_api(store))
        return !store_queue_push(me, store, "q", "1", 1) && failed_with(me, E_NOT_IMPLEMENTED);
    return store_queue_push(me, store, "q", "1", 1) && store_queue_push(me, store, "q", "2", 1) &&
           store_queue_len(me, store, "q", &count) && count == 2 && store_queue_pop(me, store, "q", true, &value) &&
           strcmp(value.bytes, "1") == 0 && store_queue_pop(me, store, "q", false, &value) &&
           strcmp(value.bytes, "2") == 0 && !store_queue_pop(me, store, "q", false, &value) &&
           failed_with(me, E_QUEUE_EMPTY);
}

static bool
clones(struct task *me, struct store *store)
{
    struct store *clone = store_clone(me, store);
    bool          ok    = clone != NULL && puts_text(me, store, "old", "1") && has(me, clone, "old", "1") &&
                          puts_text(me, clone, "new", "2") && has(me, store, "new", "2");
    store_drop(me, clone);
    return ok && has(me, store, "new", "2");
}

static bool
gives_up_in_time(struct task *me, struct store *store)
{
    uint64_t begin = sched_now(me);
    if (store_wait(me, store, &(const char *){ "never" }, 1, SECOND / 4) ||
        (me->error.kind != E_DIST_STORE && me->error.kind != E_RUNTIME) || strstr(me->error.message, "0.25 s") == NULL)
        return false;
    task_clear_error(me);
    uint64_t took = sched_now(me) - begin;
    store_set_timeout(store, SECOND / 10);
    void  *bytes = NULL;
    size_t count = 0;
    bool   late  = !store_get(me, store, "never", &bytes, &count);
    task_clear_error(me);
    return late && took >= SECOND / 4 && took < 3 * SECOND && store_timeout_ps(store) == SECOND / 10 &&
           puts_text(me, store, "never", "now") && has(me, store, "never", "now");
}

static bool
refuses_what_it_cannot_take(struct task *me, struct store *store)
{
    char *key = calloc(1, STORE_KEY_BYTES + 2);
    memset(key, 'x', STORE_KEY_BYTES + 1);
    bool long_key = !puts_text(me, store, key, "1") && failed_with(me, E_VALUE);
    free(key);
    return long_key && puts_text(me, store, "fine", "1");
}

static bool
meets_at_a_barrier(struct task *me, struct store *store)
{
    bool            met   = store_barrier(me, store, "b", 1, SECOND / 10);
    bool            alone = !store_barrier(me, store, "b2", 2, SECOND / 10);
    enum error_kind kind  = me->error.kind;
    task_clear_error(me);
    return met && alone && (kind == E_DIST_STORE || kind == E_RUNTIME);
}

static const struct { const char *name; bool (*run)(struct task *me, struct store *store); } operations[] = {
    { "set, get", sets_and_gets }, { "add", adds }, { "compare_set", compares_and_sets },
    { "append, multi_set, multi_get, check", appends_and_takes_several },
    { "delete_key, num_keys, list_keys", deletes_counts_and_lists }, { "queues", queues }, { "clone", clones },
    { "timeouts", gives_up_in_time }, { "keys that are too long", refuses_what_it_cannot_take },
    { "barrier", meets_at_a_barrier },
};

static bool
run_operations(struct task *me, struct process_group *group, struct ranks *ranks)
{
    for (enum store_sort kind = HASH; kind < KINDS; kind++)
        for (size_t i = 0; i < sizeof operations / sizeof *operations; i++) {
            char          what[120];
            size_t        taken = account_taken(me->sched), mark = scope_mark(me);
            struct store *store = make(me, kind);
            snprintf(what, sizeof what, "%s of kind %d", operations[i].name, (int)kind);
            bool good = store != NULL && operations[i].run(me, store);
            if (!expect(me, ranks, good, what))
                return false;
            store_drop(me, store);
            scope_release(me, mark);
            if (!expect(me, ranks, account_taken(me->sched) <= taken + (1 << 20), "memory is given back"))
                return false;
        }
    return true;
}

static void
each_kind_of_store_does_the_same(void **state)
{
    (void)state;
    for (int executor = EXECUTOR_STEPPED; executor <= EXECUTOR_FREE; executor++) {
        struct ranks ranks = { .size = 1, .body = run_operations };
        ranks_run(&ranks, (enum executor_kind)executor);
        assert_no_errors(&ranks);
        ranks_free(&ranks);
    }
}

/* ---- ranks at one store ---- */

/* Rank 0 makes the store; the world's own tells the others where. */
static bool
share(struct task *me, struct process_group *group, struct ranks *ranks)
{
    struct store *meeting = world_store(ranks->world), *store = NULL;
    enum store_sort     kind    = (enum store_sort)ranks->number;
    void         *bytes   = NULL;
    size_t        count   = 0;
    char          where[64];
    if (me->rank == 0) {
        store = make(me, kind);
        if (!expect(me, ranks, store != NULL, "the store is made"))
            return false;
        if (kind == TCP)
            snprintf(where, sizeof where, "%d", store_tcp_port(store));
        else
            snprintf(where, sizeof where, "%s", store_file_path(store));
        puts_text(me, meeting, "where", where);
    } else if (store_get(me, meeting, "where", &bytes, &count)) {
        struct store_tcp_options  tcp  = { .host = "127.0.0.1", .port = atoi(bytes), .world_size = -1,
                                           .timeout_ps = STORE_TIMEOUT };
        struct store_file_options file = { .path = bytes, .world_size = 1 };
        store = kind == TCP ? store_tcp_new(me, &tcp) : store_file_new(me, &file);
    }
    char mine[16], next[16];
    snprintf(mine, sizeof mine, "from %d", me->rank);
    snprintf(next, sizeof next, "from %d", (me->rank + 1) % ranks->size);
    sched_advance(me, (uint64_t)me->rank * SECOND / 20);
    bool good = store != NULL && puts_text(me, store, mine, mine) && has(me, store, next, next) &&
                store_add(me, store, "sum", me->rank) >= 0 &&
                store_barrier(me, store, "end", ranks->size, STORE_TIMEOUT) && has(me, store, "sum", "6");
    group_barrier_now(me, group);
    store_drop(me, store);
    return expect(me, ranks, good, "ranks see each other's keys");
}

static void
ranks_of_one_process_share_a_store(void **state)
{
    (void)state;
    const enum store_sort kinds[] = { TCP, FILE_STORE };
    for (int i = 0; i < 4; i++) {
        struct ranks ranks = { .size = 4, .body = share, .number = kinds[i % 2] };
        ranks_run(&ranks, i < 2 ? EXECUTOR_STEPPED : EXECUTOR_FREE);
        assert_no_errors(&ranks);
        ranks_free(&ranks);
    }
}

/* In virtual time a limit that was asked for is met to the picosecond, and a key that comes before is seen at once. */
static bool
wait_by_the_clock(struct task *me, struct process_group *group, struct ranks *ranks)
{
    struct store *store = world_store(ranks->world);
    uint64_t      begin = sched_now(me);
    if (me->rank == 1) {
        sched_advance(me, SECOND);
        puts_text(me, store, "late", "1");
        return group_barrier_now(me, group);
    }
    bool missed = !store_wait(me, store, &(const char *){ "late" }, 1, SECOND / 2) && failed_with(me, E_DIST_STORE);
    bool good   = expect(me, ranks, missed && sched_now(me) - begin == SECOND / 2, "half a second, no more") &&
                  expect(me, ranks, store_wait(me, store, &(const char *){ "late" }, 1, SECOND) &&
                                    sched_now(me) - begin >= SECOND && sched_now(me) - begin < SECOND + SECOND / 100,
                         "then it is there");
    return group_barrier_now(me, group) && good;
}

static void
limits_are_met_in_virtual_time(void **state)
{
    (void)state;
    struct ranks ranks = { .size = 2, .body = wait_by_the_clock };
    ranks_run(&ranks, EXECUTOR_STEPPED);
    assert_no_errors(&ranks);
    ranks_free(&ranks);
}

/* ---- files ---- */

static bool
opens(struct task *me, const char *path, bool trusted)
{
    struct store_file_options options = { .path = path, .world_size = 1, .trusted = trusted };
    struct store             *store   = store_file_new(me, &options);
    store_drop(me, store);
    return store != NULL;
}

static void
spill(const char *path, const char *bytes, size_t count)
{
    FILE *file = fopen(path, "w");
    assert_non_null(file);
    assert_int_equal(fwrite(bytes, 1, count, file), count);
    fclose(file);
}

static bool
guard_files(struct task *me, struct process_group *group, struct ranks *ranks)
{
    char path[64], link_path[80], inside[80];
    struct stat about;
    fresh_path(path, sizeof path);
    snprintf(link_path, sizeof link_path, "%s.link", path);
    snprintf(inside, sizeof inside, "%s/inside", path);
    if (!expect(me, ranks, opens(me, path, false) && stat(path, &about) != 0, "the last user removes the file"))
        return false;
    spill(path, "precious", 8);
    bool refused = !opens(me, path, false) && failed_with(me, E_PERMISSION) && !opens(me, path, true) &&
                   failed_with(me, E_RUNTIME) && stat(path, &about) == 0 && about.st_size == 8;
    unlink(path);
    if (!expect(me, ranks, refused, "a file that is no store is left alone"))
        return false;
    assert_int_equal(symlink(path, link_path), 0);
    refused = !opens(me, link_path, false) && failed_with(me, E_PERMISSION) && stat(path, &about) != 0;
    unlink(link_path);
    if (!expect(me, ranks, refused, "no link is followed"))
        return false;
    assert_int_equal(mkdir(path, 0700), 0);
    refused = !opens(me, inside, false) && failed_with(me, E_PERMISSION) && !opens(me, "here", false) &&
              failed_with(me, E_PERMISSION) && !opens(me, "/tmp/../tmp/x", false) && failed_with(me, E_PERMISSION) &&
              !opens(me, path, false) && task_failed(me);
    task_clear_error(me);
    bool trusted = opens(me, inside, true);
    rmdir(path);
    return expect(me, ranks, refused && trusted, "only files of the temporary folder itself, unless trusted");
}

/* A writer that was killed in the middle of a record, and bytes that no writer makes. */
static bool
read_damaged_files(struct task *me, struct process_group *group, struct ranks *ranks)
{
    char                      path[64];
    struct store_file_options options = { .path = path, .world_size = 100, .trusted = true };
    static const char         torn[]  = "ringside store 1\n\2\0\0\0/a\1\0\0\0001\2\0\0\0/b\xff\xff\0\0half";
    fresh_path(path, sizeof path);
    spill(path, torn, sizeof torn - 1);
    struct store *store = store_file_new(me, &options);
    bool          there = true;
    bool good = store != NULL && has(me, store, "a", "1") && store_check(me, store, &(const char *){ "b" }, 1, &there) &&
                !there && puts_text(me, store, "b", "2") && has(me, store, "b", "2");
    struct store *again = store_file_new(me, &options);
    good = good && again != NULL && has(me, again, "b", "2");
    unlink(path);
    void  *bytes = NULL;
    size_t count = 0;
    good = good && !store_get(me, store, "a", &bytes, &count) && failed_with(me, E_RUNTIME);
    store_drop(me, again);
    store_drop(me, store);
    return expect(me, ranks, good, "a record that is not whole is none, and a removed file is told");
}

static void
run_alone(rank_body *body)
{
    struct ranks ranks = { .size = 1, .body = body };
    ranks_run(&ranks, EXECUTOR_STEPPED);
    assert_no_errors(&ranks);
    ranks_free(&ranks);
}

static void
a_lesson_cannot_reach_other_files(void **state)
{
    (void)state;
    run_alone(guard_files);
}

static void
a_damaged_file_is_read_as_far_as_it_is_whole(void **state)
{
    (void)state;
    run_alone(read_damaged_files);
}

/* ---- tables ---- */

static bool
churn(struct task *me, struct process_group *group, struct ranks *ranks)
{
    struct store_table table;
    size_t             before = account_taken(me->sched);
    store_table_open(&table, me->sched, 100000);
    struct store_text    value   = { "v", 1 };
    const char          *key     = NULL;
    struct store_reply   reply   = { 0 };
    struct store_request request = { .keys = &key, .key_count = 1, .values = &value, .value_count = 1 };
    for (int i = 0; i < 20000; i++) {
        char name[24];
        snprintf(name, sizeof name, "key %d", i);
        key        = name;
        request.op = STORE_SET;
        store_table_answer(&table, &request, &reply);
        request.op = STORE_DELETE;
        store_table_answer(&table, &request, &reply);
    }
    bool small = table.count < 1000 && table.values == 0 && table.charged == 0;
    key        = "large";
    value      = (struct store_text){ NULL, 200000 };
    request.op = STORE_APPEND;
    store_table_answer(&table, &request, &reply);
    store_table_close(&table);
    return expect(me, ranks, small && reply.status == STORE_FULL && account_taken(me->sched) == before,
                  "removed keys leave nothing behind, and a limit is one");
}

static void
a_table_does_not_grow_by_what_is_removed(void **state)
{
    (void)state;
    run_alone(churn);
}

/* ---- the wire ---- */

/* Every message cut short is refused; whatever byte is changed, it is read or refused, never believed blindly. */
static void
a_message_is_checked_before_it_is_believed(void **state)
{
    (void)state;
    const char          *keys[]   = { "first", "second" };
    struct store_text    values[] = { { "1", 1 }, { "", 0 } };
    struct store_request request  = { .op = STORE_SET, .keys = keys, .key_count = 2, .values = values, .value_count = 2 };
    struct store_request read;
    struct str           message = { 0 };
    wire_add_request(&message, &request, "/");
    assert_true(str_ok(&message));
    const char *body  = message.text + WIRE_HEAD;
    size_t      count = message.len - WIRE_HEAD;
    assert_int_equal(wire_read_request(body, count, &read), STORE_DONE);
    assert_string_equal(read.keys[1], "/second");
    assert_int_equal(read.values[0].count, 1);
    wire_free_lists(&read);
    for (size_t cut = 0; cut < count; cut++) {
        char *exact = malloc(cut + 1); /* so that a sanitizer sees a byte too many */
        memcpy(exact, body, cut);
        assert_int_equal(wire_read_request(exact, cut, &read), STORE_UNSUPPORTED);
        free(exact);
    }
    for (size_t at = 0; at < count; at++)
        for (int byte = 0; byte < 256; byte++) {
            char *changed = malloc(count);
            memcpy(changed, body, count);
            changed[at] = (char)byte;
            if (wire_read_request(changed, count, &read) == STORE_DONE) {
                for (int i = 0; i < read.key_count; i++)
                    assert_true(strlen(read.keys[i]) < count);
                wire_free_lists(&read);
            }
            free(changed);
        }
    str_free(&message);
}

/* ---- addresses ---- */

static void
addresses_are_cut_into_their_parts(void **state)
{
    (void)state;
    static const struct { const char *text, *scheme, *host, *path, *query; int port; } good[] = {
        { "tcp://10.1.2.3:29500?rank=0", "tcp", "10.1.2.3", "", "rank=0", 29500 },
        { "tcp://[::1]:80?rank=0", "tcp", "::1", "", "rank=0", 80 },
        { "file:///tmp/a%20b", "file", "", "/tmp/a%20b", "", -1 },
        { "env://", "env", "", "", "", -1 },
        { "env://?rank=1&world_size=2", "env", "", "", "rank=1&world_size=2", -1 },
        { "tcp://host/path/of?x=1", "tcp", "host", "/path/of", "x=1", -1 },
    };
    static const char *const bad[] = { "", "tcp", "://x", "tcp://h:x", "tcp://h:70000", "tcp://h:-1", "tcp://[::1:80",
                                       "tcp://::1:80", "tcp://h:" };
    struct url url;
    char       why[300], value[16];
    for (size_t i = 0; i < sizeof good / sizeof *good; i++) {
        assert_true(url_parse(good[i].text, &url, why, sizeof why));
        assert_string_equal(url.scheme, good[i].scheme);
        assert_string_equal(url.host, good[i].host);
        assert_string_equal(url.path, good[i].path);
        assert_string_equal(url.query, good[i].query);
        assert_int_equal(url.port, good[i].port);
    }
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++)
        assert_false(url_parse(bad[i], &url, why, sizeof why));
    assert_true(url_parse("env://?rank=1&world_size=22", &url, why, sizeof why));
    assert_true(url_option(&url, "world_size", value, sizeof value));
    assert_string_equal(value, "22");
    assert_false(url_option(&url, "size", value, sizeof value));
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(each_kind_of_store_does_the_same),
        cmocka_unit_test(ranks_of_one_process_share_a_store),
        cmocka_unit_test(limits_are_met_in_virtual_time),
        cmocka_unit_test(a_lesson_cannot_reach_other_files),
        cmocka_unit_test(a_damaged_file_is_read_as_far_as_it_is_whole),
        cmocka_unit_test(a_table_does_not_grow_by_what_is_removed),
        cmocka_unit_test(a_message_is_checked_before_it_is_believed),
        cmocka_unit_test(addresses_are_cut_into_their_parts),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
