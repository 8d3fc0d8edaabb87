/* Saying how a rank ended from outside of a run: the launcher has no task, so it speaks the store's language by itself. */
#include <arpa/inet.h>
#include <errno.h>
#include <netdb.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <unistd.h>
#include "c10d/job_end.h"
#include "c10d/store_wire.h"

enum { PATIENCE_S = 5 };

static int
connect_to(const char *host, int port)
{
    struct addrinfo hints = { .ai_socktype = SOCK_STREAM }, *list = NULL;
    struct timeval  limit = { .tv_sec = PATIENCE_S };
    char            service[16];
    int             fd = -1;
    snprintf(service, sizeof service, "%d", port);
    if (getaddrinfo(host, service, &hints, &list) != 0)
        return -1;
    for (struct addrinfo *at = list; at != NULL && fd < 0; at = at->ai_next) {
        fd = socket(at->ai_family, SOCK_STREAM | SOCK_CLOEXEC, 0);
        if (fd < 0)
            continue;
        setsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &limit, sizeof limit); /* of connect, too */
        setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof limit);
        if (connect(fd, at->ai_addr, at->ai_addrlen) == 0)
            continue;
        close(fd);
        fd = -1;
    }
    freeaddrinfo(list);
    return fd;
}

static bool
send_all(int fd, const char *bytes, size_t count)
{
    while (count > 0) {
        ssize_t sent = send(fd, bytes, count, MSG_NOSIGNAL);
        if (sent < 0 && errno == EINTR)
            continue;
        if (sent <= 0)
            return false;
        bytes += sent;
        count -= (size_t)sent;
    }
    return true;
}

static bool
read_all(int fd, char *bytes, size_t count)
{
    while (count > 0) {
        ssize_t taken = recv(fd, bytes, count, 0);
        if (taken < 0 && errno == EINTR)
            continue;
        if (taken <= 0)
            return false;
        bytes += taken;
        count -= (size_t)taken;
    }
    return true;
}

/* The store's own keys have no slash before them, those that stores are asked for have. */
static bool
exchange(int fd, const struct job_end *end)
{
    struct str           text = { 0 }, message = { 0 };
    char                 hello[WIRE_HELLO], answer[WIRE_HELLO], head[WIRE_HEAD + WIRE_REPLY_HEAD];
    const char          *log   = JOB_LOG;
    struct store_reply   reply = { .status = STORE_NO_MEMORY };
    job_end_print(end, &text);
    struct store_text    entry   = { str_text(&text), text.len };
    struct store_request request = { .op = STORE_POST, .keys = &log, .key_count = 1, .values = &entry, .value_count = 1 };
    wire_hello(hello);
    wire_add_request(&message, &request, "/");
    bool said = str_ok(&text) && str_ok(&message) && send_all(fd, hello, sizeof hello) &&
                read_all(fd, answer, sizeof answer) && memcmp(hello, answer, sizeof hello) == 0 &&
                send_all(fd, message.text, message.len) && read_all(fd, head, sizeof head) &&
                wire_read_reply(head + WIRE_HEAD, WIRE_REPLY_HEAD, &reply) && reply.status == STORE_DONE;
    str_free(&text);
    str_free(&message);
    return said;
}

bool
job_post_end(const char *host, int port, const struct job_end *end, char *why, size_t why_size)
{
    int  fd   = connect_to(host, port);
    bool said = fd >= 0 && exchange(fd, end);
    if (!said)
        snprintf(why, why_size, "the job's store at %s:%d %s", host, port,
                 fd < 0 ? "cannot be reached" : "has not taken how a rank ended");
    if (fd >= 0)
        close(fd);
    return said;
}
