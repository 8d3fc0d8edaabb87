/* TCPStore: keys at a server that anybody with its address may ask. The master's process runs the server
 * (store_server.c), and is a client of it like all others. A request waits for its reply and for nothing else: who
 * waits for a key asks again, in `free` with so much patience that the server may answer when the key comes.
 * c10d::TCPStore. */
#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>
#include "base/now.h"
#include "c10d/store_server.h"
#include "c10d/store_table.h"
#include "c10d/store_wire.h"
#include "device/cells.h"
#include "sched/account.h"
#include "sched/sched.h"

#define MS_PS UINT64_C(1000000000)
enum { SLICE_MS = 50, ADDRESSES = 8 };

/* A server and how many stores of this process it is kept for. */
struct shared_server { atomic_int references; struct store_server *server; uint64_t linger_ms; };

struct tcp_store {
    struct store          store;
    pthread_mutex_t       mutex;      /* one request at a time */
    char                  host[256];
    int                   port;
    bool                  trusted;
    int                   fd;         /* -1: the connection is lost */
    struct shared_server *shared;     /* NULL: its server is elsewhere */
};

/* ---- addresses ---- */

struct address { struct sockaddr_storage at; socklen_t size; };

static struct address
address_of(int family, const void *bytes, int port)
{
    struct address address = { .size = 0 };
    if (family == AF_INET) {
        struct sockaddr_in in = { .sin_family = AF_INET, .sin_port = htons((uint16_t)port) };
        memcpy(&in.sin_addr, bytes, sizeof in.sin_addr);
        memcpy(&address.at, &in, address.size = sizeof in);
    } else {
        struct sockaddr_in6 in = { .sin6_family = AF_INET6, .sin6_port = htons((uint16_t)port) };
        memcpy(&in.sin6_addr, bytes, sizeof in.sin6_addr);
        memcpy(&address.at, &in, address.size = sizeof in);
    }
    return address;
}

/* Those of this machine alone, without asking anybody. */
static int
loopback_addresses(const char *host, int port, struct address *out)
{
    struct in_addr  in  = { htonl(INADDR_LOOPBACK) };
    struct in6_addr in6 = IN6ADDR_LOOPBACK_INIT, given;
    bool            name = strcmp(host, "localhost") == 0;
    int             count = 0;
    if (name || (inet_pton(AF_INET, host, &in) == 1 && ntohl(in.s_addr) >> 24 == 127))
        out[count++] = address_of(AF_INET, &in, port);
    if (name || (inet_pton(AF_INET6, host, &given) == 1 && memcmp(&given, &in6, sizeof in6) == 0))
        out[count++] = address_of(AF_INET6, &in6, port);
    return count;
}

static int
find_addresses(const struct tcp_store *tcp, struct address *out)
{
    struct addrinfo hints = { .ai_socktype = SOCK_STREAM }, *list = NULL;
    int             count = loopback_addresses(tcp->host, tcp->port, out);
    char            port[16];
    snprintf(port, sizeof port, "%d", tcp->port);
    if (count > 0 || !tcp->trusted || getaddrinfo(tcp->host, port, &hints, &list) != 0)
        return count;
    for (struct addrinfo *at = list; at != NULL && count < ADDRESSES; at = at->ai_next) {
        memcpy(&out[count].at, at->ai_addr, at->ai_addrlen);
        out[count++].size = at->ai_addrlen;
    }
    freeaddrinfo(list);
    return count;
}

static bool
no_descriptor(struct task *me, const struct tcp_store *tcp)
{
    return failed(me, E_DIST_NETWORK, "no file descriptor is left for a TCP store at %s:%d: 'ulimit -n' says how many "
                  "a process may have", tcp->host, tcp->port);
}

/* ---- moving bytes ---- */

static bool
run_goes_on(struct task *me)
{
    if (!sched_is_stopping(me))
        return true;
    return sched_goes_on(me) && failed(me, E_STOPPED, "the run is over");
}

/* What is said after this is for nobody. */
static bool
lose(struct task *me, struct tcp_store *tcp, const char *why)
{
    if (tcp->fd >= 0)
        close(tcp->fd);
    tcp->fd = -1;
    return failed(me, E_DIST_NETWORK, "the connection to the store's server at %s:%d is lost: %s", tcp->host, tcp->port,
                  why);
}

/* Until the socket can be used, in slices, so that the end of the run ends it. A run that ends leaves a reply behind
 * that nobody may take for another's: the connection ends, too. */
static bool
socket_ready(struct task *me, struct tcp_store *tcp, short events, int64_t until)
{
    struct pollfd poll_fd = { .fd = tcp->fd, .events = events };
    for (;;) {
        int ready = poll(&poll_fd, 1, SLICE_MS);
        if (ready > 0)
            return true;
        if (ready < 0 && errno != EINTR)
            return lose(me, tcp, strerror(errno));
        if (!run_goes_on(me)) {
            close(tcp->fd);
            tcp->fd = -1;
            return false;
        }
        if (now_ms() >= until)
            return lose(me, tcp, "it does not answer");
    }
}

static bool
send_bytes(struct task *me, struct tcp_store *tcp, const char *bytes, size_t count, int64_t until)
{
    while (count > 0) {
        ssize_t sent = send(tcp->fd, bytes, count, MSG_NOSIGNAL);
        if (sent < 0 && errno == EINTR)
            continue;
        if (sent < 0 && (errno == EAGAIN || errno == EWOULDBLOCK)) {
            if (!socket_ready(me, tcp, POLLOUT, until))
                return false;
            continue;
        }
        if (sent <= 0)
            return lose(me, tcp, "the server has ended it: it is gone, or had no memory");
        bytes += sent;
        count -= (size_t)sent;
    }
    return true;
}

static bool
read_bytes(struct task *me, struct tcp_store *tcp, char *bytes, size_t count, int64_t until)
{
    while (count > 0) {
        ssize_t taken = recv(tcp->fd, bytes, count, 0);
        if (taken < 0 && errno == EINTR)
            continue;
        if (taken < 0 && (errno == EAGAIN || errno == EWOULDBLOCK)) {
            if (!socket_ready(me, tcp, POLLIN, until))
                return false;
            continue;
        }
        if (taken <= 0)
            return lose(me, tcp, "the server has ended it: it is gone, or had no memory");
        bytes += taken;
        count -= (size_t)taken;
    }
    return true;
}

/* ---- requests ---- */

static int64_t
values_of(const struct store_request *request, const struct store_reply *reply)
{
    if (reply->status != STORE_DONE)
        return 0;
    switch (request->op) {
    case STORE_GET: return request->key_count;
    case STORE_COMPARE_SET:
    case STORE_POP: return 1;
    case STORE_LIST: return reply->number;
    default: return 0;
    }
}

/* A reply for which there is no memory: the next one is another's. Answers false. */
static bool
pass_over(struct task *me, struct tcp_store *tcp, size_t count, int64_t until)
{
    char   some[4096];
    size_t part;
    for (; count > 0; count -= part) {
        part = count < sizeof some ? count : sizeof some;
        if (!read_bytes(me, tcp, some, part, until))
            return false;
    }
    return false;
}

static bool
read_reply(struct task *me, struct tcp_store *tcp, const struct store_request *request, struct store_reply *reply,
           int64_t until)
{
    char     head[WIRE_HEAD + WIRE_REPLY_HEAD];
    uint32_t length = 0;
    if (!read_bytes(me, tcp, head, sizeof head, until))
        return false;
    memcpy(&length, head, WIRE_HEAD);
    if (length > WIRE_MESSAGE || !wire_read_reply(head + WIRE_HEAD, length, reply))
        return lose(me, tcp, "what the server says is no reply");
    reply->need  = length - WIRE_REPLY_HEAD;
    reply->bytes = reply->need > 0 ? scratch_new(me, reply->need, 1) : NULL;
    if (reply->need > 0 && reply->bytes == NULL)
        return pass_over(me, tcp, reply->need, until);
    if (!read_bytes(me, tcp, reply->bytes, reply->need, until))
        return false;
    if (reply->status == STORE_SHORT || !wire_are_values(reply->bytes, reply->need, values_of(request, reply)))
        return lose(me, tcp, "what the server says is no reply");
    return true;
}

/* The server of PyTorch fails at a number that is none, and with it the connection: so does ours. */
static bool
number_was_none(struct task *me, struct tcp_store *tcp, const struct store_request *request)
{
    char why[160];
    snprintf(why, sizeof why, "the server has ended it, since the key '%.80s' holds no number to add to",
             request->keys[0]);
    return lose(me, tcp, why);
}

static bool
exchange(struct task *me, struct tcp_store *tcp, const char *prefix, const struct store_request *request,
         struct store_reply *reply)
{
    struct str message = { 0 };
    uint64_t   limit   = store_timeout_ps(&tcp->store) / MS_PS;
    int64_t    until   = now_ms() + (int64_t)(limit < 5000 ? 5000 : limit); /* a server takes no time of its own */
    if (tcp->fd < 0)
        return lose(me, tcp, "it was lost before");
    wire_add_request(&message, request, prefix);
    bool ok = str_ok(&message) || memory_failed(me, message.room, "the store");
    if (ok && message.len > WIRE_MESSAGE)
        ok = failed(me, E_VALUE, "%zu MiB at one go are too much for a TCPStore: at most %d", message.len >> 20,
                    WIRE_MESSAGE >> 20);
    ok = ok && send_bytes(me, tcp, message.text, message.len, until) && read_reply(me, tcp, request, reply, until);
    str_free(&message);
    if (ok && reply->status == STORE_UNSUPPORTED)
        return lose(me, tcp, "the server has not understood a request");
    return ok && (reply->status != STORE_NO_NUMBER || number_was_none(me, tcp, request));
}

/* In `free` other tasks may ask through the same store; whoever is before us may wait for long. */
static bool
take_turn(struct task *me, struct tcp_store *tcp)
{
    while (pthread_mutex_trylock(&tcp->mutex) != 0) {
        if (!run_goes_on(me))
            return false;
        nanosleep(&(struct timespec){ 0, 200000 }, NULL);
    }
    return true;
}

static bool
ask_with(struct task *me, struct tcp_store *tcp, const char *prefix, const struct store_request *request,
         struct store_reply *reply)
{
    if (task_failed(me) || !take_turn(me, tcp))
        return false;
    bool ok = exchange(me, tcp, prefix, request, reply);
    pthread_mutex_unlock(&tcp->mutex);
    return ok;
}

/* The store's own keys have no slash before them. */
static bool
tcp_ask(struct task *me, struct store *store, const struct store_request *request, struct store_reply *reply)
{
    bool ok = ask_with(me, (struct tcp_store *)store, "/", request, reply);
    if (ok && request->op == STORE_LIST && reply->status == STORE_DONE)
        store_reply_keep(reply, "/");
    return ok;
}

/* ---- connecting ---- */

static int
try_address(struct task *me, struct tcp_store *tcp, const struct address *address, bool was_there)
{
    enum { ATTEMPT_MS = 5000, AGAIN_MS = 1000 };
    int fd = socket(address->at.ss_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (fd < 0 && (errno == EMFILE || errno == ENFILE))
        no_descriptor(me, tcp);
    if (fd < 0)
        return -1;
    int     on = 1, error = 0;
    int64_t until = now_ms() + (was_there ? AGAIN_MS : ATTEMPT_MS);
    setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
    struct pollfd ready = { .fd = fd, .events = POLLOUT };
    socklen_t     size  = sizeof error;
    bool          done  = connect(fd, (const struct sockaddr *)&address->at, address->size) == 0;
    bool          open  = done || errno == EINPROGRESS || errno == EINTR;
    while (open && !done && now_ms() < until && run_goes_on(me))
        done = poll(&ready, 1, SLICE_MS) > 0;
    if (done && getsockopt(fd, SOL_SOCKET, SO_ERROR, &error, &size) == 0 && error == 0)
        return fd;
    close(fd);
    return -1;
}

static bool
say_hello(struct task *me, struct tcp_store *tcp)
{
    enum { HELLO_MS = 10000 };
    char     hello[WIRE_HELLO], answer[WIRE_HELLO];
    uint64_t limit = store_timeout_ps(&tcp->store) / MS_PS;
    int64_t  until = now_ms() + (limit < HELLO_MS ? (int64_t)limit : HELLO_MS);
    wire_hello(hello);
    if (!send_bytes(me, tcp, hello, WIRE_HELLO, until) || !read_bytes(me, tcp, answer, WIRE_HELLO, until))
        return false;
    if (memcmp(hello, answer, WIRE_HELLO) == 0)
        return true;
    wire_no_room(hello);
    return lose(me, tcp, memcmp(hello, answer, WIRE_HELLO) == 0
                             ? "the server has no file descriptor left for another client; 'ulimit -n' says how many "
                               "a process may have, or no memory" : "what listens there is no store of this kind");
}

/* A server that is not there yet may come: tried again every 10 ms. One that was there does not come again. */
static bool
tcp_connect(struct task *me, struct tcp_store *tcp, bool was_there)
{
    struct address     addresses[ADDRESSES];
    uint64_t           limit = store_timeout_ps(&tcp->store), begin = sched_now(me);
    struct wait_reason reason = { .what = "store.connect", .sequence = -1, .peer = -1 };
    for (;;) {
        int count = find_addresses(tcp, addresses);
        for (int i = 0; i < count && !task_failed(me); i++)
            if ((tcp->fd = try_address(me, tcp, &addresses[i], was_there)) >= 0)
                return say_hello(me, tcp);
        if (task_failed(me))
            return false;
        if (was_there)
            return failed(me, E_DIST_NETWORK, "the store's server at %s:%d is gone", tcp->host, tcp->port);
        if (sched_now(me) - begin >= limit && count == 0)
            return failed(me, E_DIST_NETWORK, "no host is known as '%s'", tcp->host);
        if (sched_now(me) - begin >= limit)
            return failed(me, E_DIST_NETWORK, "no store's server has answered at %s:%d within %g s", tcp->host,
                          tcp->port, (double)limit / 1e12);
        if (!sched_poll(me, 10 * MS_PS, &reason))
            return false;
    }
}

/* ---- the master ---- */

static int
listen_at(const struct address *address)
{
    int on = 1, fd = socket(address->at.ss_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (fd < 0)
        return -1;
    setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
    if (bind(fd, (const struct sockaddr *)&address->at, address->size) == 0 && listen(fd, SOMAXCONN) == 0)
        return fd;
    int error = errno;
    close(fd);
    errno = error;
    return -1;
}

static int
port_of(int fd)
{
    struct sockaddr_storage at;
    struct sockaddr_in      in;
    socklen_t               size = sizeof at;
    if (getsockname(fd, (struct sockaddr *)&at, &size) != 0)
        return 0;
    memcpy(&in, &at, sizeof in); /* a port lies at the same place in both families */
    return ntohs(in.sin_port);
}

/* Others on this machine alone; of a trusted lesson whoever can reach it, but at a loopback address. */
static int
open_listener(const struct tcp_store *tcp)
{
    struct address  addresses[ADDRESSES];
    struct in6_addr any6 = IN6ADDR_ANY_INIT;
    struct in_addr  any  = { htonl(INADDR_ANY) };
    if (loopback_addresses(tcp->host, tcp->port, addresses) > 0)
        return listen_at(&addresses[0]);
    addresses[0] = address_of(AF_INET6, &any6, tcp->port);
    addresses[1] = address_of(AF_INET, &any, tcp->port);
    int fd       = listen_at(&addresses[0]);
    return fd >= 0 || errno == EADDRINUSE ? fd : listen_at(&addresses[1]);
}

static bool
start_server(struct task *me, struct tcp_store *tcp, bool multi_tenant)
{
    char why[200];
    int  listener = open_listener(tcp);
    if (listener < 0 && errno == EADDRINUSE && multi_tenant)
        return true;
    if (listener < 0 && (errno == EMFILE || errno == ENFILE))
        return no_descriptor(me, tcp);
    if (listener < 0)
        return failed(me, E_DIST_NETWORK, "a TCP store's server cannot listen on port %d: %s", tcp->port,
                      strerror(errno));
    tcp->port   = port_of(listener);
    tcp->shared = calloc(1, sizeof *tcp->shared);
    if (tcp->shared == NULL) {
        close(listener);
        return failed(me, E_MEMORY, "out of memory for a store");
    }
    atomic_init(&tcp->shared->references, 1);
    tcp->shared->server = store_server_start(me->sched, listener, why, sizeof why);
    return tcp->shared->server != NULL || failed(me, E_DIST_NETWORK, "%s", why);
}

/* Each client counts itself; the master waits until world_size have come. */
static bool
meet_workers(struct task *me, struct tcp_store *tcp, const struct store_tcp_options *options)
{
    const char          *key    = "init/";
    struct store_request add    = { .op = STORE_ADD, .keys = &key, .key_count = 1, .number = 1 };
    struct store_reply   reply  = { 0 };
    uint64_t             limit  = store_timeout_ps(&tcp->store), begin = sched_now(me);
    struct wait_reason   reason = { .what = "store.wait_for_workers", .sequence = -1, .peer = -1 };
    for (bool again = false;; again = true) {
        add.number = again ? 0 : 1;
        if (!ask_with(me, tcp, "", &add, &reply))
            return false;
        if (reply.status != STORE_DONE)
            return memory_failed(me, strlen(key), "the store's server");
        if (!options->is_master || reply.number >= options->world_size)
            return true;
        if (sched_now(me) - begin >= limit)
            return failed(me, E_DIST_STORE, "timed out after %g s waiting for the store's clients: %lld of %lld have "
                          "come", (double)limit / 1e12, (long long)reply.number, (long long)options->world_size);
        if (!sched_poll(me, 10 * MS_PS, &reason))
            return false;
    }
}

/* ---- making ---- */

static void
tcp_close(struct task *me, struct store *store)
{
    struct tcp_store *tcp = (struct tcp_store *)store;
    (void)me;
    if (tcp->fd >= 0)
        close(tcp->fd);
    if (tcp->shared != NULL && atomic_fetch_sub(&tcp->shared->references, 1) == 1) {
        store_server_stop(tcp->shared->server, tcp->shared->linger_ms);
        free(tcp->shared);
    }
    pthread_mutex_destroy(&tcp->mutex);
    free(tcp);
}

static struct store *tcp_clone(struct task *me, struct store *store);

static const struct store_kind tcp_kind = {
    .name = "TCPStore",
    .extended = true,
    .patient = true,
    .has_wills = true,
    .late = E_DIST_STORE,
    .ask = tcp_ask,
    .wait = store_poll,
    .clone = tcp_clone,
    .close = tcp_close,
};

static struct tcp_store *
tcp_begin(struct task *me, const char *host, int port, bool trusted)
{
    struct tcp_store *tcp = calloc(1, sizeof *tcp);
    if (tcp == NULL)
        return failed_null(me, E_MEMORY, "out of memory for a store");
    store_begin(me, &tcp->store, &tcp_kind);
    pthread_mutex_init(&tcp->mutex, NULL);
    snprintf(tcp->host, sizeof tcp->host, "%s", host);
    tcp->port    = port;
    tcp->trusted = trusted;
    tcp->fd      = -1;
    return tcp;
}

static struct store *
tcp_clone(struct task *me, struct store *store)
{
    struct tcp_store *old = (struct tcp_store *)store, *tcp = tcp_begin(me, old->host, old->port, old->trusted);
    if (tcp == NULL)
        return NULL;
    tcp->shared = old->shared;
    if (tcp->shared != NULL)
        atomic_fetch_add(&tcp->shared->references, 1);
    tcp->store.timeout_ps = store_timeout_ps(store);
    if (tcp_connect(me, tcp, true))
        return &tcp->store;
    tcp_close(me, &tcp->store);
    return NULL;
}

static bool
tcp_allowed(struct task *me, const struct store_tcp_options *options)
{
    struct address none[ADDRESSES];
    if (options->world_size == 0)
        return failed(me, E_VALUE, "TCPStore world size cannot be 0");
    if (options->port < 0 || options->port > 65535 || (options->port == 0 && !options->is_master))
        return failed(me, E_VALUE, "a TCPStore's port is a number from %d to 65535, not %lld",
                      options->is_master ? 0 : 1, (long long)options->port);
    if (strlen(options->host) >= sizeof ((struct tcp_store *)NULL)->host || options->host[0] == '\0')
        return failed(me, E_VALUE, "a TCPStore's host has from 1 to 255 bytes");
    if (!options->trusted && loopback_addresses(options->host, 1, none) == 0)
        return failed(me, E_PERMISSION, "a lesson's TCPStore stays on this machine: its host is localhost, 127.0.0.1 "
                      "or ::1, not '%.100s'; --trust lets it out", options->host);
    return true;
}

struct store *
store_tcp_new(struct task *me, const struct store_tcp_options *options)
{
    if (task_failed(me) || !tcp_allowed(me, options))
        return NULL;
    struct tcp_store *tcp = tcp_begin(me, options->host, (int)options->port, options->trusted);
    if (tcp == NULL)
        return NULL;
    if (options->timeout_ps != STORE_TIMEOUT)
        tcp->store.timeout_ps = options->timeout_ps;
    if ((!options->is_master || start_server(me, tcp, options->multi_tenant)) && tcp_connect(me, tcp, false) &&
        (options->world_size < 0 || !options->wait_for_workers || meet_workers(me, tcp, options)))
        return &tcp->store;
    tcp_close(me, &tcp->store);
    return NULL;
}

const char *
store_tcp_host(const struct store *store)
{
    return store->kind == &tcp_kind ? ((const struct tcp_store *)store)->host : NULL;
}

int
store_tcp_port(const struct store *store)
{
    return ((const struct tcp_store *)store)->port;
}

void
store_tcp_linger(struct store *store, uint64_t ms)
{
    struct tcp_store *tcp = (struct tcp_store *)store;
    if (store->kind == &tcp_kind && tcp->shared != NULL)
        tcp->shared->linger_ms = ms;
}
