/* The server of a TCP store. PyTorch: c10d::detail::TCPStoreMasterDaemon. */
#include "c10d/store_server.h"
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>
#include "base/vec.h"
#include "c10d/store_table.h"
#include "c10d/store_wire.h"

enum {
    TABLE_BYTES = 256 << 20, BUFFER_BYTES = 192 << 20, /* of all keys and values; of all messages on their way */
    HELLO_MS = 5000, MESSAGE_MS = 30000,               /* how long a peer may take */
    PEERS_MOST = 4096, SPARE_FILES = 64,               /* peers; descriptors that stay free for others */
    READ_BYTES = 64 << 10
};

struct peer {
    int        fd;
    bool       greeted, over;  /* over: closed once what it gets was sent */
    int64_t    due;            /* when its patience, or ours with it, ends; 0: never */
    bool       waits;          /* its CHECK stands at the front of `in` and waits for a key */
    uint64_t   seen;           /* changes when it was last looked at */
    char      *in;
    size_t     in_count, in_room;
    struct str out;
    size_t     sent, promised; /* of `out`; what it stands for in `buffered` */
    char      *will;           /* a message, POST: carried out when the connection ends; NULL: none */
    size_t     will_count;
    int64_t    patience;       /* ms of silence that end it, too; 0: any */
};

struct store_server {
    pthread_t          thread;
    int                listener, stop[2], spare; /* spare: a descriptor that can be given up */
    struct store_table table;
    struct peer       *peers;      /* in the order in which they came */
    size_t             count, room, limit;
    atomic_size_t      here;       /* count, for other threads */
    struct pollfd     *polls;
    size_t             poll_room;
    size_t             buffered;   /* bytes of all messages */
    uint64_t           changes;    /* of the table, that somebody may wait for */
    int64_t            deaf_until; /* no descriptor at all: accepting waits */
    atomic_uint_least64_t linger_ms; /* written before `stop` is */
    int64_t            ends_at;    /* it lingers until then; 0: it does not */
};

static int64_t
now_ms(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (int64_t)now.tv_sec * 1000 + now.tv_nsec / 1000000 + 1;
}

/* ---- peers ---- */

/* What it wanted said when it can say nothing any more. Its message was good when it came. */
static void
carry_out(struct store_server *server, const struct peer *peer)
{
    struct store_request request;
    struct store_reply   reply = { 0 };
    if (peer->will == NULL || wire_read_request(peer->will, peer->will_count, &request) != STORE_DONE)
        return;
    store_table_answer(&server->table, &request, &reply);
    wire_free_lists(&request);
    server->changes++;
}

static void
peer_forget_will(struct store_server *server, struct peer *peer)
{
    server->buffered -= peer->will_count;
    free(peer->will);
    peer->will       = NULL;
    peer->will_count = 0;
    peer->patience   = 0;
}

static void
peer_close(struct store_server *server, struct peer *peer)
{
    close(peer->fd);
    carry_out(server, peer);
    peer_forget_will(server, peer);
    server->buffered -= peer->in_room + peer->promised;
    free(peer->in);
    str_free(&peer->out);
    *peer = (struct peer){ .fd = -1 };
}

static void
forget_closed(struct store_server *server)
{
    size_t kept = 0;
    for (size_t i = 0; i < server->count; i++)
        if (server->peers[i].fd >= 0)
            server->peers[kept++] = server->peers[i];
    server->count = kept;
}

static bool
make_room(struct store_server *server)
{
    for (size_t i = 0; i < server->count; i++)
        if (server->peers[i].fd >= 0 && !server->peers[i].greeted) {
            peer_close(server, &server->peers[i]);
            forget_closed(server);
            return true;
        }
    return false;
}

/* Nothing was read from it: what is said arrives. */
static void
turn_away(int fd)
{
    char full[WIRE_HELLO];
    wire_no_room(full);
    if (fd < 0)
        return;
    (void)!send(fd, full, sizeof full, MSG_NOSIGNAL);
    close(fd);
}

/* accept says that there is no descriptor even where nobody waits for one. */
static bool
somebody_waits(const struct store_server *server)
{
    struct pollfd listener = { .fd = server->listener, .events = POLLIN };
    return poll(&listener, 1, 0) > 0;
}

static int
accept_one(const struct store_server *server)
{
    return accept4(server->listener, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);
}

/* No descriptor is left: the spare one serves to tell it. */
static void
turn_away_one(struct store_server *server)
{
    enum { PAUSE_MS = 50 };
    if (server->spare >= 0)
        close(server->spare);
    turn_away(accept_one(server));
    server->spare      = open("/dev/null", O_RDONLY | O_CLOEXEC);
    server->deaf_until = server->spare < 0 ? now_ms() + PAUSE_MS : 0;
}

/* Who cannot be served is told so at once rather than left waiting. */
static void
accept_peers(struct store_server *server)
{
    while (server->deaf_until <= now_ms() && somebody_waits(server)) {
        int fd = accept_one(server);
        if (fd < 0 && (errno == EMFILE || errno == ENFILE)) {
            if (!make_room(server))
                turn_away_one(server);
            continue;
        }
        if (fd < 0)
            return;
        bool room = server->count < server->limit || make_room(server);
        if (!room || !vec_room(&server->peers, &server->room, server->count + 1, sizeof *server->peers) ||
            !vec_room(&server->polls, &server->poll_room, server->count + 3, sizeof *server->polls)) {
            turn_away(fd);
            continue;
        }
        server->peers[server->count++] = (struct peer){ .fd = fd, .due = now_ms() + HELLO_MS };
    }
}

/* By when it must have said more. */
static int64_t
peer_due(const struct peer *peer)
{
    if (peer->in_count > 0)
        return now_ms() + MESSAGE_MS;
    return peer->patience > 0 ? now_ms() + peer->patience : 0;
}

/* ---- what a peer says ---- */

/* Its last words from us. */
static void
refuse_peer(struct peer *peer, enum store_status status)
{
    struct store_reply reply = { .status = status };
    if (peer->greeted)
        wire_add_reply(&peer->out, &reply, "", 0);
    peer->over     = true;
    peer->in_count = 0;
}

static void
consume(struct store_server *server, struct peer *peer, size_t count)
{
    enum { KEPT = 64 << 10 };
    peer->in_count -= count;
    memmove(peer->in, peer->in + count, peer->in_count);
    peer->due   = peer_due(peer);
    peer->waits = false;
    if (peer->in_count == 0 && peer->in_room > KEPT) {
        server->buffered -= peer->in_room;
        free(peer->in);
        peer->in      = NULL;
        peer->in_room = 0;
    }
}

static void
read_hello(struct store_server *server, struct peer *peer)
{
    char   hello[WIRE_HELLO];
    size_t count = peer->in_count < WIRE_HELLO ? peer->in_count : WIRE_HELLO;
    wire_hello(hello);
    if (memcmp(peer->in, hello, count) != 0) {
        peer->over = true;
        return;
    }
    if (count < WIRE_HELLO)
        return;
    peer->greeted = true;
    peer->over    = send(peer->fd, hello, WIRE_HELLO, MSG_NOSIGNAL) != WIRE_HELLO; /* the first bytes: there is room */
    consume(server, peer, WIRE_HELLO);
}

/* Twice, if the first one says how much room the answer needs. */
static void
answer_request(struct store_server *server, struct peer *peer, const struct store_request *request)
{
    struct store_reply reply = { 0 };
    store_table_answer(&server->table, request, &reply);
    bool room = reply.need <= WIRE_MESSAGE - WIRE_REPLY_HEAD && server->buffered + 2 * reply.need <= BUFFER_BYTES;
    if (reply.status == STORE_SHORT && room) {
        reply.room  = reply.need;
        reply.bytes = malloc(reply.room);
        if (reply.bytes != NULL)
            store_table_answer(&server->table, request, &reply);
    }
    if (reply.status == STORE_SHORT)
        reply.status = STORE_NO_MEMORY;
    bool asks = request->op == STORE_GET || request->op == STORE_CHECK || request->op == STORE_COUNT ||
                request->op == STORE_CLOCK;
    if (reply.status == STORE_DONE && !asks)
        server->changes++;
    wire_add_reply(&peer->out, &reply, reply.bytes != NULL && reply.status == STORE_DONE ? reply.bytes : "",
                   reply.status == STORE_DONE ? reply.need : 0);
    free(reply.bytes);
    peer->promised = peer->out.room;
    server->buffered += peer->promised;
    if (reply.status == STORE_NO_NUMBER)
        peer->over = true; /* as PyTorch's server, which then ends this client's connection */
}

/* A POST with a number above 0 is kept, with -1 the one that was kept is let go. Answers whether it was one of
 * these. */
static bool
keeps_will(struct store_server *server, struct peer *peer, const struct store_request *request, size_t count)
{
    struct store_reply reply = { .status = STORE_DONE };
    if (request->op != STORE_POST || request->number == 0)
        return false;
    peer_forget_will(server, peer);
    if (request->number > 0) {
        bool room = server->buffered + count <= BUFFER_BYTES && (peer->will = malloc(count)) != NULL;
        if (room) {
            memcpy(peer->will, peer->in + WIRE_HEAD, count);
            peer->will_count = count;
            peer->patience   = request->number < INT32_MAX ? request->number : INT32_MAX;
            server->buffered += count;
        }
        reply.status = room ? STORE_DONE : STORE_NO_MEMORY;
    }
    wire_add_reply(&peer->out, &reply, "", 0);
    peer->promised = peer->out.room;
    server->buffered += peer->promised;
    return true;
}

/* Whether a CHECK is to be answered later: a key is missing, and its time is not over. */
static bool
puts_off(struct store_server *server, struct peer *peer, const struct store_request *request)
{
    enum { LONGEST_MS = 1000 };
    struct store_reply reply = { 0 };
    if (request->op != STORE_CHECK || request->number <= 0)
        return false;
    store_table_answer(&server->table, request, &reply);
    if (reply.number != 0)
        return false;
    if (!peer->waits)
        peer->due = now_ms() + (request->number < LONGEST_MS ? request->number : LONGEST_MS);
    peer->waits = true;
    peer->seen  = server->changes;
    return now_ms() < peer->due;
}

/* One message, if it is there whole. false: nothing more to do now. */
static bool
read_message(struct store_server *server, struct peer *peer)
{
    uint32_t             length = 0;
    struct store_request request;
    if (peer->in_count < WIRE_HEAD)
        return false;
    memcpy(&length, peer->in, WIRE_HEAD);
    if (length > WIRE_MESSAGE) {
        refuse_peer(peer, STORE_FULL);
        return false;
    }
    if (peer->in_count - WIRE_HEAD < length)
        return false;
    enum store_status status = wire_read_request(peer->in + WIRE_HEAD, length, &request);
    if (status != STORE_DONE) {
        refuse_peer(peer, status);
        return false;
    }
    bool later = puts_off(server, peer, &request);
    if (!later && !keeps_will(server, peer, &request, length))
        answer_request(server, peer, &request);
    wire_free_lists(&request);
    if (!later)
        consume(server, peer, WIRE_HEAD + length);
    return !later && !peer->over;
}

static void
send_replies(struct store_server *server, struct peer *peer)
{
    char none[WIRE_NO_MEMORY];
    if (!str_ok(&peer->out)) { /* a part of a reply is none */
        wire_no_memory(none);
        if (peer->greeted && peer->sent == 0)
            (void)!send(peer->fd, none, sizeof none, MSG_NOSIGNAL);
        peer_close(server, peer);
        return;
    }
    while (peer->sent < peer->out.len) {
        ssize_t sent = send(peer->fd, peer->out.text + peer->sent, peer->out.len - peer->sent, MSG_NOSIGNAL);
        if (sent < 0 && errno == EINTR)
            continue;
        if (sent < 0 && (errno == EAGAIN || errno == EWOULDBLOCK)) {
            peer->due = peer->due > 0 ? peer->due : now_ms() + MESSAGE_MS;
            return;
        }
        if (sent <= 0) {
            peer_close(server, peer);
            return;
        }
        peer->sent += (size_t)sent;
    }
    if (peer->sent > 0 && !peer->waits)
        peer->due = peer_due(peer);
    str_free(&peer->out);
    server->buffered -= peer->promised;
    peer->promised = peer->sent = 0;
    if (peer->over)
        peer_close(server, peer);
}

/* One reply at a time: who does not read gets no second one. */
static void
serve(struct store_server *server, struct peer *peer)
{
    if (peer->fd >= 0 && !peer->greeted && peer->in_count > 0)
        read_hello(server, peer);
    while (peer->fd >= 0 && peer->greeted && !peer->over && peer->out.len == 0 && read_message(server, peer))
        send_replies(server, peer);
    if (peer->fd >= 0 && (peer->out.len > 0 || peer->over || !str_ok(&peer->out)))
        send_replies(server, peer);
}

/* Twice what has come, as far as all peers together may. */
static bool
grow_buffer(struct store_server *server, struct peer *peer)
{
    size_t room = peer->in_room > 0 ? 2 * peer->in_room : 512, more = room - peer->in_room;
    if (peer->in_count < peer->in_room)
        return true;
    if (server->buffered + more > BUFFER_BYTES || peer->in_count > WIRE_MESSAGE + WIRE_HEAD)
        return false;
    char *in = realloc(peer->in, room);
    if (in == NULL)
        return false;
    peer->in      = in;
    peer->in_room = room;
    server->buffered += more;
    return true;
}

static void
read_peer(struct store_server *server, struct peer *peer)
{
    size_t taken = 0;
    if (peer->out.len > 0)
        send_replies(server, peer);
    while (peer->fd >= 0 && !peer->over && peer->out.len == 0 && taken < READ_BYTES) {
        if (!grow_buffer(server, peer)) {
            peer->out.broken = true;
            send_replies(server, peer);
            return;
        }
        ssize_t count = recv(peer->fd, peer->in + peer->in_count, peer->in_room - peer->in_count, 0);
        if (count < 0 && errno == EINTR)
            continue;
        if (count < 0 && (errno == EAGAIN || errno == EWOULDBLOCK))
            break;
        if (count <= 0) {
            peer_close(server, peer);
            return;
        }
        if (peer->greeted && peer->in_count == 0)
            peer->due = now_ms() + MESSAGE_MS;
        peer->in_count += (size_t)count;
        taken += (size_t)count;
        serve(server, peer);
    }
    if (peer->fd >= 0)
        serve(server, peer);
}

/* ---- the thread ---- */

/* Fills the list, which has room; answers how long to wait. */
static int
prepare_polls(struct store_server *server)
{
    int64_t now = now_ms(), next = -1;
    bool    deaf = server->deaf_until > now;
    server->polls[0] = (struct pollfd){ .fd = server->ends_at > 0 ? -1 : server->stop[0], .events = POLLIN };
    server->polls[1] = (struct pollfd){ .fd = deaf ? -1 : server->listener, .events = POLLIN };
    if (deaf)
        next = server->deaf_until;
    if (server->ends_at > 0 && (next < 0 || server->ends_at < next))
        next = server->ends_at;
    for (size_t i = 0; i < server->count; i++) {
        const struct peer *peer = &server->peers[i];
        server->polls[i + 2] = (struct pollfd){ .fd = peer->fd, .events = peer->out.len > 0 ? POLLOUT : POLLIN };
        if (peer->due > 0 && (next < 0 || peer->due < next))
            next = peer->due;
    }
    return next < 0 ? -1 : next <= now ? 0 : (int)(next - now);
}

/* Whose time is over: a waiting CHECK is answered, anybody else has said too little for too long. */
static void
serve_the_late(struct store_server *server)
{
    int64_t now = now_ms();
    for (size_t i = 0; i < server->count; i++) {
        struct peer *peer = &server->peers[i];
        bool         late = peer->fd >= 0 && peer->due > 0 && peer->due <= now;
        if (peer->fd >= 0 && peer->waits && (late || peer->seen != server->changes))
            serve(server, peer);
        else if (late)
            peer_close(server, peer);
    }
}

/* Whether it is to end now; else it may linger. */
static bool
ends_now(struct store_server *server, bool told)
{
    uint64_t linger = told ? atomic_load(&server->linger_ms) : 0;
    if (told)
        server->ends_at = now_ms() + (int64_t)(linger < INT32_MAX ? linger : INT32_MAX);
    return server->ends_at > 0 && (server->count == 0 || server->ends_at <= now_ms());
}

static void *
serve_peers(void *argument)
{
    struct store_server *server = argument;
    while (!ends_now(server, false)) {
        size_t count = server->count;
        int    ready = poll(server->polls, count + 2, prepare_polls(server));
        if (ready < 0 && errno != EINTR)
            break;
        if (ready > 0 && server->polls[0].revents != 0 && ends_now(server, true))
            break;
        for (size_t i = 0; ready > 0 && i < count; i++) {
            short events = server->polls[i + 2].revents;
            if (events != 0)
                read_peer(server, &server->peers[i]);
        }
        uint64_t changes;
        do {
            changes = server->changes;
            serve_the_late(server);
        } while (changes != server->changes);
        forget_closed(server);
        if (ready > 0 && server->polls[1].revents != 0)
            accept_peers(server);
        atomic_store(&server->here, server->count);
    }
    return NULL;
}

/* Signals belong to the threads of the run. */
static bool
start_thread(struct store_server *server)
{
    sigset_t all, old;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &old);
    bool ok = pthread_create(&server->thread, NULL, serve_peers, server) == 0;
    pthread_sigmask(SIG_SETMASK, &old, NULL);
    return ok;
}

/* Half of the descriptors that this process may have: clients of its own need as many. */
static size_t
peer_limit(void)
{
    struct rlimit files;
    if (getrlimit(RLIMIT_NOFILE, &files) != 0 || files.rlim_cur == RLIM_INFINITY)
        return PEERS_MOST;
    size_t most = files.rlim_cur > 2 * SPARE_FILES ? (size_t)files.rlim_cur - SPARE_FILES : SPARE_FILES;
    return most < PEERS_MOST ? most : PEERS_MOST;
}

struct store_server *
store_server_start(struct sched *sched, int listener, char *why, size_t why_size)
{
    struct store_server *server = calloc(1, sizeof *server);
    if (server != NULL) {
        server->listener = listener;
        server->limit    = peer_limit();
        store_table_open(&server->table, sched, TABLE_BYTES);
        bool room = vec_room(&server->polls, &server->poll_room, 4, sizeof *server->polls) &&
                    vec_room(&server->peers, &server->room, 2, sizeof *server->peers);
        if (room && pipe2(server->stop, O_CLOEXEC) == 0) {
            server->spare = open("/dev/null", O_RDONLY | O_CLOEXEC);
            if (start_thread(server))
                return server;
            if (server->spare >= 0)
                close(server->spare);
            close(server->stop[0]);
            close(server->stop[1]);
        }
    }
    snprintf(why, why_size, "cannot start a store's server: %s", strerror(errno));
    if (server != NULL) {
        free(server->polls);
        free(server->peers);
    }
    free(server);
    close(listener);
    return NULL;
}

size_t
store_server_peers(const struct store_server *server)
{
    return atomic_load(&server->here);
}

void
store_server_stop(struct store_server *server, uint64_t linger_ms)
{
    ssize_t told = 0;
    if (server == NULL)
        return;
    server->linger_ms = linger_ms;
    do
        told = write(server->stop[1], "", 1);
    while (told < 0 && errno == EINTR);
    pthread_join(server->thread, NULL);
    for (size_t i = 0; i < server->count; i++)
        peer_close(server, &server->peers[i]);
    if (server->spare >= 0)
        close(server->spare);
    close(server->listener);
    close(server->stop[0]);
    close(server->stop[1]);
    store_table_close(&server->table);
    free(server->peers);
    free(server->polls);
    free(server);
}
