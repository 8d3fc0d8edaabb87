/* A TCP store asked without a task. See store_plain.h. */
#include <arpa/inet.h>
#include <errno.h>
#include <netdb.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <unistd.h>
#include "c10d/store_plain.h"
#include "c10d/store_wire.h"

static int
connect_to(const char *host, int port, int patience_s)
{
    struct addrinfo hints = { .ai_socktype = SOCK_STREAM }, *list = NULL;
    struct timeval  limit = { .tv_sec = patience_s };
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

int
store_plain_open(const char *host, int port, int patience_s)
{
    char hello[WIRE_HELLO], answer[WIRE_HELLO];
    int  fd = connect_to(host, port, patience_s);
    wire_hello(hello);
    if (fd >= 0 && send_all(fd, hello, sizeof hello) && read_all(fd, answer, sizeof answer) &&
        memcmp(hello, answer, sizeof hello) == 0)
        return fd;
    store_plain_close(fd);
    return -1;
}

void
store_plain_close(int fd)
{
    if (fd >= 0)
        close(fd);
}

/* The store's own keys have no slash before them, those that stores are asked for have. */
bool
store_plain_ask(int fd, const struct store_request *request, struct store_reply *reply)
{
    struct str message = { 0 };
    char       head[WIRE_HEAD + WIRE_REPLY_HEAD];
    uint32_t   length = 0;
    *reply            = (struct store_reply){ .status = STORE_NO_MEMORY };
    wire_add_request(&message, request, "/");
    bool said = str_ok(&message) && send_all(fd, message.text, message.len) && read_all(fd, head, sizeof head);
    str_free(&message);
    if (!said)
        return false;
    memcpy(&length, head, WIRE_HEAD);
    if (length > WIRE_MESSAGE || !wire_read_reply(head + WIRE_HEAD, length, reply))
        return false;
    reply->need  = length - WIRE_REPLY_HEAD;
    reply->bytes = malloc(reply->need + 1);
    int64_t values = request->op == STORE_GET && reply->status == STORE_DONE ? request->key_count : 0;
    if (reply->bytes != NULL && read_all(fd, reply->bytes, reply->need) &&
        wire_are_values(reply->bytes, reply->need, values))
        return true;
    free(reply->bytes);
    reply->bytes = NULL;
    return false;
}
