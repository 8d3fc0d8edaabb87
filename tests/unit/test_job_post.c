/* A store's server without a run, as the launcher has it, and what is said to its log from outside of one. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <arpa/inet.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#include "c10d/job_end.h"
#include "c10d/store_server.h"
#include "c10d/store_table.h"
#include "c10d/store_wire.h"

static struct store_server *
serve(int *port)
{
    struct sockaddr_in at   = { .sin_family = AF_INET, .sin_addr = { htonl(INADDR_LOOPBACK) } };
    socklen_t          size = sizeof at;
    char               why[200];
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    assert_true(fd >= 0);
    assert_int_equal(bind(fd, (struct sockaddr *)&at, sizeof at), 0);
    assert_int_equal(listen(fd, SOMAXCONN), 0);
    assert_int_equal(getsockname(fd, (struct sockaddr *)&at, &size), 0);
    *port = ntohs(at.sin_port);
    struct store_server *server = store_server_start(NULL, fd, why, sizeof why);
    assert_non_null(server);
    return server;
}

static int
connect_to(int port)
{
    struct sockaddr_in at = { .sin_family = AF_INET, .sin_port = htons((uint16_t)port),
                              .sin_addr = { htonl(INADDR_LOOPBACK) } };
    char hello[WIRE_HELLO], answer[WIRE_HELLO];
    int  fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    assert_int_equal(connect(fd, (struct sockaddr *)&at, sizeof at), 0);
    wire_hello(hello);
    assert_int_equal(send(fd, hello, sizeof hello, MSG_NOSIGNAL), sizeof hello);
    assert_int_equal(recv(fd, answer, sizeof answer, MSG_WAITALL), sizeof answer);
    assert_memory_equal(hello, answer, sizeof hello);
    return fd;
}

enum { ANSWER_MOST = 8192 };

static enum store_status
tell(int fd, const struct store_request *request, char bytes[ANSWER_MOST])
{
    struct str         message = { 0 };
    uint32_t           length  = 0;
    struct store_reply reply;
    wire_add_request(&message, request, "/");
    assert_int_equal(send(fd, message.text, message.len, MSG_NOSIGNAL), message.len);
    str_free(&message);
    assert_int_equal(recv(fd, &length, sizeof length, MSG_WAITALL), sizeof length);
    assert_true(length <= ANSWER_MOST);
    assert_int_equal(recv(fd, bytes, length, MSG_WAITALL), length);
    assert_true(wire_read_reply(bytes, length, &reply));
    return reply.status;
}

/* The value of one key, as text. */
static void
ask(int fd, const char *key, char *text, size_t room)
{
    struct store_request request = { .op = STORE_GET, .keys = &key, .key_count = 1 };
    struct store_text    value;
    char                 bytes[ANSWER_MOST];
    assert_int_equal(tell(fd, &request, bytes), STORE_DONE);
    store_reply_value(bytes + WIRE_REPLY_HEAD, &value);
    snprintf(text, room, "%.*s", (int)value.count, (const char *)value.bytes);
}

static void
what_is_posted_stands_in_the_log_in_its_order(void **state)
{
    static struct job_page page = { .line = 13, .inside = true, .operation = "all_reduce", .sequence = 8, .group_count = 1,
                                    .groups = { { 0, 9, 8 } } };
    int                  port   = 0;
    struct store_server *server = serve(&port);
    struct job_end       end, read;
    char                 text[4096], why[300];
    (void)state;
    for (int rank = 0; rank < 2; rank++) {
        job_end_of_page(&page, rank, "was killed by signal 9 (Killed)", &end);
        assert_true(job_post_end("127.0.0.1", port, &end, why, sizeof why));
    }
    int fd = connect_to(port);
    ask(fd, JOB_LOG_COUNT, text, sizeof text);
    assert_string_equal(text, "2");
    ask(fd, JOB_LOG "1", text, sizeof text);
    assert_true(job_end_parse(text, &read));
    assert_int_equal(read.rank, 1);
    assert_int_equal(read.how, JOB_KILLED);
    assert_int_equal(read.line, 13);
    assert_true(read.exact && read.inside);
    assert_string_equal(read.call, "all_reduce #8");
    assert_string_equal(read.why, "was killed by signal 9 (Killed)");
    assert_int_equal(read.groups[0].issued, 9);
    close(fd);
    store_server_stop(server, 0);
}

static void
a_server_knows_how_many_are_connected(void **state)
{
    int                  port   = 0;
    struct store_server *server = serve(&port);
    (void)state;
    assert_int_equal(store_server_peers(server), 0);
    int fds[2] = { connect_to(port), connect_to(port) };
    while (store_server_peers(server) != 2)
        nanosleep(&(struct timespec){ .tv_nsec = 1000000 }, NULL);
    close(fds[0]);
    close(fds[1]);
    while (store_server_peers(server) != 0)
        nanosleep(&(struct timespec){ .tv_nsec = 1000000 }, NULL);
    store_server_stop(server, 0);
}

static enum store_status
post(int fd, const char *text, int64_t patience_ms)
{
    const char          *log     = JOB_LOG;
    struct store_text    entry   = { text, strlen(text) };
    struct store_request request = { .op = STORE_POST, .keys = &log, .key_count = 1, .values = &entry, .value_count = 1,
                                     .number = patience_ms };
    char                 bytes[ANSWER_MOST];
    return tell(fd, &request, bytes);
}

static void
a_will_is_carried_out_however_long_its_patience(void **state)
{
    int                  port   = 0;
    struct store_server *server = serve(&port);
    int                  dying = connect_to(port), living = connect_to(port);
    char                 text[64];
    (void)state;
    assert_int_equal(post(dying, "an earlier one", INT64_MAX), STORE_DONE);
    assert_int_equal(post(dying, "gone", INT64_MAX), STORE_DONE);
    close(dying);
    while (store_server_peers(server) != 1)
        nanosleep(&(struct timespec){ .tv_nsec = 1000000 }, NULL);
    ask(living, JOB_LOG "0", text, sizeof text);
    assert_string_equal(text, "gone");
    ask(living, JOB_LOG_COUNT, text, sizeof text);
    assert_string_equal(text, "1");
    close(living);
    store_server_stop(server, 0);
}

static void
a_counter_that_counts_no_entries_takes_none(void **state)
{
    static const char *const counts[] = { "9223372036854775807", "-3", "many" };
    int                      port   = 0;
    struct store_server     *server = serve(&port);
    (void)state;
    for (size_t i = 0; i < sizeof counts / sizeof *counts; i++) {
        const char          *key     = JOB_LOG_COUNT;
        struct store_text    count   = { counts[i], strlen(counts[i]) };
        struct store_request request = { .op = STORE_SET, .keys = &key, .key_count = 1, .values = &count, .value_count = 1 };
        char                 bytes[ANSWER_MOST];
        int                  fd = connect_to(port);
        assert_int_equal(tell(fd, &request, bytes), STORE_DONE);
        assert_int_equal(post(fd, "an end", 0), STORE_NO_NUMBER);
        close(fd);
    }
    store_server_stop(server, 0);
}

static void
a_store_that_is_not_there_is_told(void **state)
{
    struct job_end end  = { .rank = 0, .world = -1, .how = JOB_KILLED };
    int            port = 0;
    char           why[300];
    (void)state;
    store_server_stop(serve(&port), 0);
    assert_false(job_post_end("127.0.0.1", port, &end, why, sizeof why));
    assert_non_null(strstr(why, "cannot be reached"));
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_is_posted_stands_in_the_log_in_its_order),
        cmocka_unit_test(a_server_knows_how_many_are_connected),
        cmocka_unit_test(a_will_is_carried_out_however_long_its_patience),
        cmocka_unit_test(a_counter_that_counts_no_entries_takes_none),
        cmocka_unit_test(a_store_that_is_not_there_is_told),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
