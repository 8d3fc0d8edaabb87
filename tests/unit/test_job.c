/* What the processes of a job tell each other: ends of ranks as text, pages in shared memory, logs and last wills of a
 * TCP store, a store that outlives its own process's use of it. */
#include "ranks_rig.h"

#include <pthread.h>
#include <unistd.h>

#include "c10d/job_end.h"
#include "c10d/store.h"
#include "c10d/store_plain.h"
#include "sched/account.h"

/* ---- ends as text ---- */

static struct job_end
some_end(void)
{
    struct job_end end = { .rank = 3, .world = 2, .how = JOB_THREW, .exact = true, .ns = INT64_C(1769000000123456789),
                           .line = 17, .call = "all_reduce #8 of group 2", .inside = true, .kind = "RuntimeError",
                           .of_hang = true, .group_count = 2,
                           .groups = { { UINT64_MAX, 9, 8 }, { 1, INT64_MAX, 0 } },
                           .why = "boom\nwhy in a line of its own\nrank 1" };
    return end;
}

static void
an_end_is_read_as_it_was_printed(void **state)
{
    (void)state;
    struct job_end end = some_end(), read;
    struct str     text = { 0 };
    job_end_print(&end, &text);
    assert_true(job_end_parse(str_text(&text), &read));
    assert_int_equal(read.rank, 3);
    assert_int_equal(read.world, 2);
    assert_int_equal(read.how, JOB_THREW);
    assert_true(read.exact && read.inside && read.of_hang);
    assert_true(read.ns == end.ns && read.line == 17);
    assert_string_equal(read.call, end.call);
    assert_string_equal(read.kind, end.kind);
    assert_string_equal(read.why, end.why);
    assert_int_equal(read.group_count, 2);
    assert_memory_equal(read.groups, end.groups, 2 * sizeof end.groups[0]);
    str_free(&text);
}

static void
what_is_no_end_is_refused_and_words_of_the_future_are_passed_over(void **state)
{
    (void)state;
    static const char *const none[] = {
        "", "why", "why x", "rank 1", "rank -1\nwhy x", "rank 1\nhow eaten\nwhy x", "rank 99999999999\nwhy x", "rank\nwhy x",
        "rank 1\ngroup 1 2\nwhy x", "rank 1\ngroup 1 2 3 4\nwhy x", "rank 1\nline -4\nwhy x", "rank 1x\nwhy x",
        "rank 1\nworld -2\nwhy x", "rank 1\nexact 2\nwhy x", "ask", "stop 0\nreport",
    };
    struct job_end end;
    for (size_t i = 0; i < sizeof none / sizeof none[0]; i++)
        assert_false(job_end_parse(none[i], &end));
    assert_true(job_end_parse("rank 1\ncolour blue\nwhy ", &end));
    assert_string_equal(end.why, "");
    char *much = malloc(6000);
    assert_non_null(much);
    memset(much, 'x', 5999);
    memcpy(much, "rank 1\nwhy ", 11);
    much[5999] = '\0';
    assert_true(job_end_parse(much, &end));
    assert_int_equal(strlen(end.why), sizeof end.why - 1);
    memcpy(much, "rank 1\ninside ", 14);
    assert_false(job_end_parse(much, &end));
    free(much);
}

/* ---- pages ---- */

static void
of_a_page_the_last_call_is_known_though_its_writer_died_in_the_middle(void **state)
{
    (void)state;
    struct job_page *page = calloc(1, JOB_PAGE_BYTES);
    struct job_end   end;
    assert_non_null(page);
    memcpy(page->operation, "barrier", 8);
    page->sequence    = 4;
    page->line        = 9;
    page->inside      = true;
    page->group_count = 1000; /* a page that somebody has scribbled on */
    page->groups[0]   = (struct job_page_group){ 5, 5, 4 };
    atomic_store(&page->turn, 7);
    job_end_of_page(page, 2, "was killed by signal 9 (Killed)", &end);
    assert_string_equal(end.call, "barrier #4");
    assert_int_equal(end.rank, 2);
    assert_int_equal(end.line, 9);
    assert_int_equal(end.how, JOB_KILLED);
    assert_true(end.inside && end.exact);
    assert_int_equal(end.group_count, JOB_PAGE_GROUPS);
    page->of_group = 2;
    job_end_of_page(page, 2, "", &end);
    assert_string_equal(end.call, "barrier #4 of group 2");
    memset(page->operation, 'x', sizeof page->operation);
    page->sequence = -1;
    job_end_of_page(page, 2, "", &end);
    assert_int_equal(strlen(end.call), sizeof page->operation - 1);
    free(page);
}

/* ---- logs and wills ---- */

static struct store *
serve(struct task *me)
{
    struct store_tcp_options tcp = { .host = "127.0.0.1", .world_size = -1, .is_master = true,
                                     .timeout_ps = STORE_TIMEOUT };
    return store_tcp_new(me, &tcp);
}

/* A wait without a limit of its own: the store's is long. */
static bool
comes(struct task *me, struct store *store, const char *key, const char *text)
{
    void  *bytes = NULL;
    size_t count = 0;
    return store_get(me, store, key, &bytes, &count) && count == strlen(text) && memcmp(bytes, text, count) == 0;
}

static bool
posts(struct task *me, struct store *store, const char *text)
{
    return store_post(me, store, "log/", &(struct store_text){ text, strlen(text) });
}

static bool
wills(struct task *me, struct store *store, const char *text, int64_t patience_ms)
{
    struct store_text entry = { text, text != NULL ? strlen(text) : 0 };
    return store_will(me, store, "log/", text != NULL ? &entry : NULL, patience_ms);
}

/* Two connections end, of which one has taken back its will; a third says nothing any more. */
static bool
keep_logs(struct task *me, struct process_group *group, struct ranks *ranks)
{
    (void)group;
    struct store *store = serve(me), *first = store_clone(me, store), *second = store_clone(me, store);
    struct store *third = store_clone(me, store);
    bool there = true;
    bool ok = expect(me, ranks, first != NULL && second != NULL && third != NULL, "stores are made") &&
              expect(me, ranks, posts(me, store, "zero") && posts(me, first, "one"), "entries are appended") &&
              expect(me, ranks, comes(me, store, "log/0", "zero") && comes(me, store, "log/1", "one") &&
                                comes(me, store, "log/count", "2"), "and numbered") &&
              expect(me, ranks, wills(me, first, "draft", 60000) && wills(me, first, "first's last words", 60000) &&
                                wills(me, second, "not this", 60000) && wills(me, second, NULL, 0) &&
                                wills(me, third, "third is silent", 150), "wills are made") &&
              expect(me, ranks, store_check(me, store, &(const char *){ "log/2" }, 1, &there) && !there,
                     "and wait for the end");
    store_drop(me, second);
    ok = ok && expect(me, ranks, comes(me, store, "log/2", "third is silent"), "silence ends a connection");
    store_drop(me, first);
    ok = ok && expect(me, ranks, comes(me, store, "log/3", "first's last words"), "the newest will is carried out") &&
         expect(me, ranks, posts(me, store, "last") && comes(me, store, "log/4", "last"), "one that was taken back is not");
    store_drop(me, third);
    store_drop(me, store);
    return ok;
}

static void
a_stores_log_is_numbered_and_a_connection_that_ends_has_its_will_done(void **state)
{
    (void)state;
    struct ranks ranks = { .size = 1, .body = keep_logs };
    ranks_run(&ranks, EXECUTOR_FREE);
    assert_no_errors(&ranks);
    ranks_free(&ranks);
}

/* ---- a store that stays ---- */

/* Connects before the master lets go, asks after it, then goes. */
struct visitor { int port; atomic_int came; bool served; };

static void *
visit(void *argument)
{
    struct visitor      *visitor = argument;
    const char          *key     = "k";
    struct store_request get     = { .op = STORE_GET, .keys = &key, .key_count = 1 };
    struct store_reply   reply   = { .bytes = NULL };
    int                  fd      = store_plain_open("127.0.0.1", visitor->port, 5);
    atomic_store(&visitor->came, 1);
    while (atomic_load(&visitor->came) == 1)
        usleep(1000);
    visitor->served = fd >= 0 && store_plain_ask(fd, &get, &reply) && reply.status == STORE_DONE;
    free(reply.bytes);
    store_plain_close(fd);
    return NULL;
}

static bool
linger(struct task *me, struct process_group *group, struct ranks *ranks)
{
    (void)group;
    struct store  *store   = serve(me);
    struct visitor visitor = { .port = store != NULL ? store_tcp_port(store) : 0 };
    pthread_t      thread;
    if (!expect(me, ranks, store != NULL && store_set(me, store, "k", "v", 1), "a store is made") ||
        !expect(me, ranks, pthread_create(&thread, NULL, visit, &visitor) == 0, "a thread is made"))
        return false;
    while (atomic_load(&visitor.came) == 0)
        usleep(1000);
    store_tcp_linger(store, 60000);
    atomic_store(&visitor.came, 2);
    store_drop(me, store); /* returns when the visitor has gone */
    pthread_join(thread, NULL);
    return expect(me, ranks, visitor.served, "who was there is served to the end");
}

static void
a_store_that_lingers_serves_those_that_are_still_there(void **state)
{
    (void)state;
    struct ranks ranks = { .size = 1, .body = linger };
    ranks_run(&ranks, EXECUTOR_FREE);
    assert_no_errors(&ranks);
    ranks_free(&ranks);
}

/* ---- from outside of a run ---- */

static bool
post_from_outside(struct task *me, struct process_group *group, struct ranks *ranks)
{
    (void)group;
    struct store  *store = serve(me);
    struct job_end end   = some_end(), read;
    void          *bytes = NULL;
    size_t         count = 0;
    char           why[200] = "";
    int            port  = store != NULL ? store_tcp_port(store) : 0;
    bool ok = expect(me, ranks, port > 0, "a store is made") &&
              expect(me, ranks, job_post_end("127.0.0.1", port, &end, why, sizeof why), "an end is posted") &&
              expect(me, ranks, store_get(me, store, JOB_LOG "0", &bytes, &count) && job_end_parse(bytes, &read) &&
                                read.rank == 3 && strcmp(read.why, end.why) == 0, "and read");
    store_drop(me, store);
    return ok && expect(me, ranks, !job_post_end("127.0.0.1", port, &end, why, sizeof why) &&
                                   strstr(why, "cannot be reached") != NULL, "a store that is gone is told");
}

static void
how_a_rank_ended_is_posted_without_a_task(void **state)
{
    (void)state;
    struct ranks ranks = { .size = 1, .body = post_from_outside };
    ranks_run(&ranks, EXECUTOR_FREE);
    assert_no_errors(&ranks);
    ranks_free(&ranks);
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(an_end_is_read_as_it_was_printed),
        cmocka_unit_test(what_is_no_end_is_refused_and_words_of_the_future_are_passed_over),
        cmocka_unit_test(of_a_page_the_last_call_is_known_though_its_writer_died_in_the_middle),
        cmocka_unit_test(a_stores_log_is_numbered_and_a_connection_that_ends_has_its_will_done),
        cmocka_unit_test(a_store_that_lingers_serves_those_that_are_still_there),
        cmocka_unit_test(how_a_rank_ended_is_posted_without_a_task),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
