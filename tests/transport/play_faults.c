/* Waiters that give up, requests that nobody waits for, processes that are killed. */
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include "play.h"

static void
asked_seldom_after(struct play *p, const struct patience *w)
{
    if (!w->gave_up)
        play_wrong(p, "%s: it ended before anybody gave up", p->at);
    if (w->pauses_after > 3)
        play_wrong(p, "%s: asked %lu times more after giving up", p->at, w->pauses_after);
}

/* Rank 0 never comes. */
int
part_impatient(struct play *p)
{
    struct line     l;
    struct patience w;
    if (!line_open_all(&l, p, "g"))
        return PLAY_WRONG;
    struct transport_call warm = { .operation = TRANSPORT_ALL_REDUCE, .span = room_new(TRANSPORT_F32, 10) };
    room_fill(warm.span, TRANSPORT_F32, 0, 0);
    line_run(&l, &warm, &p->patience);
    room_free(p, warm.span, "the span");
    patience_init(&w, p, 60, NULL);
    play_at(p, "an all_reduce that rank 0 never enters");
    if (p->rank > 0) {
        struct transport_why  why  = { "" };
        struct transport_call call = { .operation = TRANSPORT_ALL_REDUCE, .span = room_new(TRANSPORT_F32, 300000),
                                       .element = 4, .number = l.number, .reduce = play_reduce, .waiter = &w.waiter };
        room_fill(call.span, TRANSPORT_F32, 0, 0);
        if (p->transport->run(l.channel, &call, &why))
            play_wrong(p, "%s is done", p->at);
        if (why.text[0] != '\0')
            play_wrong(p, "%s: given up, and it says '%s'", p->at, why.text);
        asked_seldom_after(p, &w);
        play_meet(p, "gave up");
        line_close(&l, true);
        room_free(p, call.span, "the span");
    } else {
        play_meet(p, "gave up");
        line_close(&l, true);
    }
    return PLAY_FINE;
}

/* Rank 0 never connects; a channel of another name still works afterwards. */
int
part_unmet(struct play *p)
{
    struct line     l;
    struct patience w;
    int             ranks[64];
    for (int i = 0; i < p->size; i++)
        ranks[i] = i;
    patience_init(&w, p, 60, NULL);
    play_at(p, "connecting where rank 0 never comes");
    if (p->rank > 0) {
        if (line_open(&l, p, "never", ranks, p->size, &w)) {
            play_wrong(p, "it connected without rank 0");
            line_close(&l, true);
        }
        asked_seldom_after(p, &w);
    }
    play_meet(p, "gave up");
    play_at(p, "connecting after that");
    if (!line_open_all(&l, p, "g"))
        return PLAY_WRONG;
    struct transport_call call = { .operation = TRANSPORT_BARRIER };
    line_run(&l, &call, &p->patience);
    line_close(&l, false);
    return PLAY_FINE;
}

/* Receives that never come, and a long send that nobody takes, are cancelled; then their memory is nobody's. */
int
part_cancelled(struct play *p)
{
    struct line              l;
    struct transport_request r[3] = { 0 };
    unsigned char           *memory = play_memory(3 << 20);
    int                      peer   = (p->rank + 1) % p->size;
    if (!line_open_all(&l, p, "g"))
        return PLAY_WRONG;
    play_at(p, "requests that are cancelled");
    memset(memory, 0xa5, 3 << 20);
    p->transport->recv(l.channel, peer, 1, memory, 1 << 20, &r[0]);
    p->transport->recv(l.channel, TRANSPORT_ANY, 2, memory + (1 << 20), 1 << 20, &r[1]);
    for (int i = 0; i < 2; i++)
        if (p->transport->test(l.channel, &r[i]) != TRANSPORT_PENDING)
            play_wrong(p, "request %d is not pending: %s", i, r[i].why.text);
    play_meet(p, "asked");
    p->transport->cancel(l.channel, &r[0]);
    p->transport->cancel(l.channel, &r[1]);
    play_meet(p, "cancelled");
    line_send(&l, peer, 3, "abc", 3);
    line_recv(&l, (p->rank + p->size - 1) % p->size, 3, memory, 3, 3);
    p->transport->send(l.channel, peer, 1, memory, 3 << 20, &r[2]);
    p->transport->test(l.channel, &r[2]);
    p->transport->cancel(l.channel, &r[2]);
    for (size_t i = 3; i < 3 << 20; i++)
        if (memory[i] != 0xa5) {
            play_wrong(p, "a receive that was cancelled wrote");
            break;
        }
    free(memory);
    play_meet(p, "done");
    line_close(&l, true);
    return PLAY_FINE;
}

static void *
killer_run(void *argument)
{
    play_flag_wait(argument, "killed/now");
    usleep(3000);
    kill(getpid(), SIGKILL);
    return NULL;
}

/* The last rank is killed in a stream of all_reduces. The others' run fails, or ends with their patience, which learns of it
 * a while later, as from the store of a job. */
int
part_killed(struct play *p)
{
    struct line           l;
    struct patience       w;
    pthread_t             killer;
    struct transport_why  why  = { "" };
    struct transport_call call = { .operation = TRANSPORT_ALL_REDUCE, .span = room_new(TRANSPORT_F32, 300000), .element = 4,
                                   .reduce = play_reduce, .waiter = &w.waiter };
    if (!line_open_all(&l, p, "g"))
        return PLAY_WRONG;
    if (p->rank == p->size - 1)
        pthread_create(&killer, NULL, killer_run, p);
    patience_init(&w, p, 0, "killed/now");
    play_at(p, "all_reduces whose last rank is killed");
    for (;; call.number++) {
        memset(call.span.data, 0, call.span.bytes);
        if (!p->transport->run(l.channel, &call, &why))
            break;
        if (call.number == 3 && p->rank == 0)
            play_flag(p, "killed/now");
    }
    if (why.text[0] == '\0' && !w.gave_up)
        play_wrong(p, "run failed without a word, and nobody gave up");
    play_note(p, "run %s: %s", w.gave_up ? "was given up" : "failed", why.text);
    line_close(&l, true);
    room_free(p, call.span, "the span");
    return PLAY_FINE;
}

/* The last rank is killed while others wait for its message, and send to it. */
int
part_killed_peer(struct play *p)
{
    struct line              l;
    struct patience          w;
    struct transport_request r[3]   = { 0 };
    unsigned char           *memory = play_memory(8 << 20);
    int                      victim = p->size - 1;
    memset(memory, 0, 8 << 20);
    if (!line_open_all(&l, p, "g"))
        return PLAY_WRONG;
    patience_init(&w, p, 0, "killed/now");
    play_at(p, "messages of a rank that is killed");
    play_meet(p, "open");
    if (p->rank == victim) {
        play_flag(p, "killed/now");
        kill(getpid(), SIGKILL);
    }
    bool began[3];
    began[0] = p->transport->recv(l.channel, victim, 1, memory, 1 << 20, &r[0]);
    began[1] = p->transport->send(l.channel, victim, 1, memory + (1 << 20), 6 << 20, &r[1]);
    began[2] = p->transport->recv(l.channel, TRANSPORT_ANY, 2, memory + (7 << 20), 100, &r[2]);
    for (int i = 0; i < 3; i++) {
        if (!began[i] && r[i].why.text[0] == '\0')
            play_wrong(p, "request %d failed without a word", i);
        if (!began[i])
            continue;
        enum transport_state state = line_wait(&l, &r[i], &w);
        if (state == TRANSPORT_DONE && i != 1)
            play_wrong(p, "request %d came from a rank that never sent it", i);
        if (state == TRANSPORT_FAILED && r[i].why.text[0] == '\0')
            play_wrong(p, "request %d failed without a word", i);
        play_note(p, "request %d: %s", i, state == TRANSPORT_PENDING ? "was given up" : r[i].why.text);
        if (state == TRANSPORT_PENDING)
            p->transport->cancel(l.channel, &r[i]);
    }
    line_close(&l, true);
    free(memory);
    return PLAY_FINE;
}

/* Rank 0 reduces more than the others do. What becomes of it is the library's; that it comes back is not. */
int
part_unequal(struct play *p)
{
    struct line     l;
    struct patience w;
    if (!line_open_all(&l, p, "g"))
        return PLAY_WRONG;
    patience_init(&w, p, 300, NULL);
    play_at(p, "an all_reduce of unequal sizes");
    struct transport_why  why  = { "" };
    struct transport_call call = { .operation = TRANSPORT_ALL_REDUCE, .span = room_new(TRANSPORT_F32, p->rank == 0 ? 50000 : 1000),
                                   .element = 4, .reduce = play_reduce, .waiter = &w.waiter };
    memset(call.span.data, 0, call.span.bytes);
    bool fine = p->transport->run(l.channel, &call, &why);
    if (!fine && why.text[0] == '\0' && !w.gave_up)
        play_wrong(p, "run failed without a word");
    play_note(p, "run %s: %s", fine ? "is done" : w.gave_up ? "was given up" : "failed", why.text);
    play_meet(p, "done");
    line_close(&l, true);
    room_free(p, call.span, "the span");
    return PLAY_FINE;
}
