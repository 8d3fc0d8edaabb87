/* Messages between two ranks: tags, orders, lengths; and several channels at once. */
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "play.h"

/* A byte of message `number` of rank `from` at i. */
static unsigned char
letter(int from, int number, size_t i)
{
    return (unsigned char)((size_t)from * 31 + (size_t)number * 7 + i * 13 + (i >> 8));
}

static unsigned char *
message_new(int from, int number, size_t bytes)
{
    unsigned char *data = play_memory(bytes + 1);
    for (size_t i = 0; i < bytes; i++)
        data[i] = letter(from, number, i);
    return data;
}

static void
message_check(struct play *p, const unsigned char *data, int from, int number, size_t bytes)
{
    for (size_t i = 0; i < bytes; i++)
        if (data[i] != letter(from, number, i)) {
            play_wrong(p, "%s: byte %zu of message %d of rank %d is %d, not %d", p->at, i, number, from, data[i],
                       letter(from, number, i));
            return;
        }
}

/* The lengths of the messages: nothing, short, about where a transport may change its way, long. */
static const size_t lengths[] = { 0, 1, 100, 4000, 4096, 5000, 70000, 0, 1000000 };
enum { MESSAGES = 9 };

struct flight { struct transport_request request; unsigned char *data; };

static void
flight_send(struct line *l, struct flight *f, int peer, uint32_t tag, int number, size_t bytes)
{
    *f = (struct flight){ .data = message_new(l->rank, number, bytes) };
    if (!l->play->transport->send(l->channel, peer, tag, bytes > 0 ? f->data : NULL, bytes, &f->request))
        play_wrong(l->play, "%s: send: %s", l->play->at, f->request.why.text);
}

static void
flight_recv(struct line *l, struct flight *f, int peer, uint32_t tag, size_t room)
{
    *f = (struct flight){ .data = play_memory(room + 1) };
    memset(f->data, 0xa5, room + 1);
    if (!l->play->transport->recv(l->channel, peer, tag, room > 0 ? f->data : NULL, room, &f->request))
        play_wrong(l->play, "%s: recv: %s", l->play->at, f->request.why.text);
}

static void
flight_end(struct line *l, struct flight *f)
{
    if (line_wait(l, &f->request, l->patience) != TRANSPORT_DONE)
        play_wrong(l->play, "%s: %s", l->play->at, f->request.why.text);
}

/* Message k of all kinds to the next rank and from the one before; `order` permutes the receives; tags all differ or are all equal. */
static void
ring_of_messages(struct line *l, int order, bool one_tag)
{
    struct flight out[MESSAGES], in[MESSAGES];
    int           next = (l->rank + 1) % l->size, last = (l->rank + l->size - 1) % l->size;
    play_at(l->play, "messages in order %d%s", order, one_tag ? " with one tag" : "");
    for (int k = 0; k < MESSAGES && order != 2; k++)
        flight_send(l, &out[k], next, one_tag ? 5 : (uint32_t)k * 1000003 % (1u << 30), k, lengths[k]);
    for (int i = 0; i < MESSAGES; i++) {
        int k = one_tag ? i : order == 1 ? MESSAGES - 1 - i : (i * 4 + order) % MESSAGES;
        flight_recv(l, &in[k], last, one_tag ? 5 : (uint32_t)k * 1000003 % (1u << 30), lengths[k] + (k % 3 == 0 ? 50 : 0));
    }
    for (int k = 0; k < MESSAGES && order == 2; k++)
        flight_send(l, &out[k], next, one_tag ? 5 : (uint32_t)k * 1000003 % (1u << 30), k, lengths[k]);
    for (int k = 0; k < MESSAGES; k++) {
        flight_end(l, &in[k]);
        if (in[k].request.bytes != lengths[k] || in[k].request.peer != last)
            play_wrong(l->play, "%s: message %d came as %zu bytes of %d, not %zu of %d", l->play->at, k,
                       in[k].request.bytes, in[k].request.peer, lengths[k], last);
        message_check(l->play, in[k].data, last, k, lengths[k]);
        if (in[k].data[in[k].request.bytes] != 0xa5)
            play_wrong(l->play, "%s: memory behind message %d was changed", l->play->at, k);
        free(in[k].data);
    }
    for (int k = 0; k < MESSAGES; k++) {
        flight_end(l, &out[k]);
        free(out[k].data);
    }
}

int
part_messages(struct play *p)
{
    struct line l;
    if (!line_open_all(&l, p, "g"))
        return PLAY_WRONG;
    for (int order = 0; order < 3; order++) {
        ring_of_messages(&l, order, false);
        ring_of_messages(&l, order, true);
    }
    for (int i = 0; i < 300; i++) {       /* to and fro */
        unsigned char a = 0;
        int           other = p->rank ^ 1;
        play_at(p, "ping %d", i);
        if (other < p->size && p->rank % 2 == 0) {
            line_send(&l, other, 1, "x", 1);
            line_recv(&l, other, 1, &a, 1, 1);
        } else if (other < p->size) {
            line_recv(&l, other, 1, &a, 1, 1);
            line_send(&l, other, 1, &a, 1);
        }
    }
    line_close(&l, false);
    return PLAY_FINE;
}

/* Rank 0 receives from anyone: two of each, in each rank's own order; then one that was there before it was asked for. */
int
part_any(struct play *p)
{
    struct line l;
    int         next[64] = { 0 };
    if (!line_open_all(&l, p, "g"))
        return PLAY_WRONG;
    for (int i = 0; i < 6 && p->rank > 0; i++) {
        unsigned char *data = message_new(p->rank, i, i % 2 != 0 ? 20000 : 20);
        play_at(p, "sending %d to whoever asks", i);
        line_send(&l, 0, 9, data, i % 2 != 0 ? 20000 : 20);
        free(data);
    }
    for (int i = 0; i < 6 * (p->size - 1) && p->rank == 0; i++) {
        struct flight f;
        play_at(p, "receiving %d from anyone", i);
        flight_recv(&l, &f, TRANSPORT_ANY, 9, 20000);
        flight_end(&l, &f);
        int from = f.request.peer;
        if (from < 1 || from >= p->size)
            play_wrong(p, "a message came from %d", from);
        else if (f.request.bytes != (next[from] % 2 != 0 ? 20000 : 20))
            play_wrong(p, "message %d of %d has %zu bytes", next[from], from, f.request.bytes);
        else
            message_check(p, f.data, from, next[from], f.request.bytes);
        if (from >= 0 && from < p->size)
            next[from]++;
        free(f.data);
    }
    play_meet(p, "all came");
    line_close(&l, false);
    return PLAY_FINE;
}

/* 8 MiB to everybody and from everybody at once. */
int
part_large(struct play *p)
{
    struct line   l;
    struct flight out[64], in[64];
    const size_t  bytes = 8u << 20;
    if (!line_open_all(&l, p, "g"))
        return PLAY_WRONG;
    play_at(p, "8 MiB both ways");
    for (int r = 0; r < p->size; r++)
        if (r != p->rank) {
            flight_send(&l, &out[r], r, 3, r, bytes);
            flight_recv(&l, &in[r], r, 3, bytes);
        }
    for (int r = 0; r < p->size; r++)
        if (r != p->rank) {
            flight_end(&l, &in[r]);
            message_check(p, in[r].data, r, p->rank, bytes);
            flight_end(&l, &out[r]);
            free(in[r].data);
            free(out[r].data);
        }
    line_close(&l, false);
    return PLAY_FINE;
}

/* One that is too long fails, says so, and the next comes all the same. */
int
part_too_long(struct play *p)
{
    struct line l;
    static const size_t sent[] = { 10, 5000, 100000 }, room[] = { 9, 10, 99999 };
    if (!line_open_all(&l, p, "g"))
        return PLAY_WRONG;
    for (int i = 0; i < 3 && p->rank < 2; i++) {
        struct flight f, g;
        play_at(p, "%zu bytes for a room of %zu", sent[i], room[i]);
        if (p->rank == 0) {
            flight_send(&l, &f, 1, 4, i, sent[i]);
            flight_send(&l, &g, 1, 4, i, 30);
            line_wait(&l, &f.request, &p->patience);
            flight_end(&l, &g);
        } else {
            flight_recv(&l, &f, 0, 4, room[i]);
            if (line_wait(&l, &f.request, &p->patience) != TRANSPORT_FAILED)
                play_wrong(p, "%s did not fail", p->at);
            else if (f.request.why.text[0] == '\0')
                play_wrong(p, "%s failed without a word", p->at);
            else if (i == 0)
                play_note(p, "%s: %s", p->at, f.request.why.text);
            if (f.data[room[i]] != 0xa5)
                play_wrong(p, "%s: memory behind the room was changed", p->at);
            flight_recv(&l, &g, 0, 4, 30);
            flight_end(&l, &g);
            message_check(p, g.data, 0, i, 30);
        }
        free(f.data);
        free(g.data);
    }
    play_meet(p, "done");
    line_close(&l, false);
    return PLAY_FINE;
}

/* Many that nobody asks for yet, then asked for the other way round. */
int
part_unread(struct play *p)
{
    struct line   l;
    struct flight f[200];
    if (!line_open_all(&l, p, "g"))
        return PLAY_WRONG;
    play_at(p, "200 messages that wait to be asked for");
    for (int i = 0; i < 200 && p->rank == 1; i++)
        flight_send(&l, &f[i], 0, (uint32_t)i, i, 3000);
    for (int i = 199; i >= 0 && p->rank == 0; i--) {
        struct flight in;
        flight_recv(&l, &in, 1, (uint32_t)i, 3000);
        flight_end(&l, &in);
        message_check(p, in.data, 1, i, 3000);
        free(in.data);
    }
    for (int i = 0; i < 200 && p->rank == 1; i++) {
        flight_end(&l, &f[i]);
        free(f[i].data);
    }
    line_close(&l, false);
    return PLAY_FINE;
}

/* A thread with a channel of its own. */
struct busy { struct play *play; const char *name; int ranks[64], size; int64_t rounds; };

static void
busy_round(struct line *l, struct patience *w, int round)
{
    size_t                n    = (size_t)(round % 5 == 4 ? 30000 : round * 7);
    struct transport_call call = { .operation = TRANSPORT_ALL_REDUCE, .span = room_new(TRANSPORT_F32, n) };
    room_fill(call.span, TRANSPORT_F32, l->rank, 0);
    if (line_run(l, &call, w))
        for (size_t i = 0; i < n; i++) {
            double want = 0;
            for (int r = 0; r < l->size; r++)
                want += number_of(TRANSPORT_F32, r, i);
            if (number_get(TRANSPORT_F32, call.span.data, i) != want) {
                play_wrong(l->play, "%s, round %d: element %zu is wrong", l->name, round, i);
                break;
            }
        }
    room_free(l->play, call.span, "the span");
    if (l->rank < 2 && l->size > 1) {
        struct flight out, in;
        flight_send(l, &out, 1 - l->rank, 8, round, (size_t)round * 100);
        flight_recv(l, &in, 1 - l->rank, 8, (size_t)round * 100);
        flight_end(l, &in);
        flight_end(l, &out);
        message_check(l->play, in.data, 1 - l->rank, round, (size_t)round * 100);
        free(in.data);
        free(out.data);
    }
}

static void *
busy_run(void *argument)
{
    struct busy    *b = argument;
    struct line     l;
    struct patience w;
    patience_init(&w, b->play, 0, NULL);
    if (!line_open(&l, b->play, b->name, b->ranks, b->size, &w))
        return NULL;
    for (int i = 0; i < b->rounds; i++)
        busy_round(&l, &w, i);
    if (w.strangers > 0 || w.open_hops != 0)
        play_wrong(b->play, "%s: hops on another thread, or not ended", b->name);
    line_close(&l, false);
    return NULL;
}

/* All ranks; the last and the first, turned round; the odd ones and rank 0 after them: one thread each. */
int
part_channels(struct play *p)
{
    struct busy all  = { .play = p, .name = "all", .size = p->size, .rounds = 60 };
    struct busy pair = { .play = p, .name = "pair", .ranks = { p->size - 1, 0 }, .size = 2, .rounds = 120 };
    struct busy odd  = { .play = p, .name = "odd", .rounds = 60 };
    bool        is_odd = p->rank % 2 == 1 || p->rank == 0, is_pair = p->rank == 0 || p->rank == p->size - 1;
    pthread_t   threads[3];
    for (int r = 0; r < p->size; r++)
        all.ranks[r] = r;
    for (int r = 1; r < p->size; r += 2)
        odd.ranks[odd.size++] = r;
    odd.ranks[odd.size++] = 0;
    play_at(p, "three channels at once");
    pthread_create(&threads[0], NULL, busy_run, &all);
    if (is_pair)
        pthread_create(&threads[1], NULL, busy_run, &pair);
    if (is_odd)
        pthread_create(&threads[2], NULL, busy_run, &odd);
    pthread_join(threads[0], NULL);
    if (is_pair)
        pthread_join(threads[1], NULL);
    if (is_odd)
        pthread_join(threads[2], NULL);
    return PLAY_FINE;
}
