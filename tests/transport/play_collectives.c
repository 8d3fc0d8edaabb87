/* Collectives against what each rank works out by itself: small whole numbers, so no order of sums matters. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "play.h"

static const size_t sizes[] = { 0, 1, 7, 1000, 300000 };
enum { SIZES = 5, BIG = 4, DTYPES = TRANSPORT_I8 + 1, REDUCES = TRANSPORT_BXOR + 1 };

static double
folded(const struct line *l, enum transport_dtype d, enum transport_reduce op, size_t i)
{
    double x = number_of(d, 0, i);
    for (int r = 1; r < l->size; r++)
        x = number_fold(d, op, x, number_of(d, r, i));
    return x;
}

static void
holds_folded(struct line *l, const struct transport_call *call, struct transport_span s, size_t first)
{
    for (size_t i = 0; i < s.bytes / dtype_size(call->dtype); i++) {
        double is = number_get(call->dtype, s.data, i), want = folded(l, call->dtype, call->op, first + i);
        if (is != want) {
            play_wrong(l->play, "%s: element %zu is %g, not %g", l->play->at, i, is, want);
            return;
        }
    }
}

static void
one_all_reduce(struct line *l, enum transport_dtype d, enum transport_reduce op, size_t n)
{
    struct transport_call call = { .operation = TRANSPORT_ALL_REDUCE, .dtype = d, .op = op, .span = room_new(d, n) };
    play_at(l->play, "all_reduce of %zu %s, %s", n, dtype_text(d), reduce_text(op));
    room_fill(call.span, d, l->rank, 0);
    if (line_run(l, &call, &l->play->patience))
        holds_folded(l, &call, call.span, 0);
    room_free(l->play, call.span, "the span");
}

static void
one_reduce(struct line *l, enum transport_dtype d, enum transport_reduce op, size_t n, int root)
{
    struct transport_call call = { .operation = TRANSPORT_REDUCE, .dtype = d, .op = op, .root = root, .span = room_new(d, n) };
    play_at(l->play, "reduce of %zu %s to %d, %s", n, dtype_text(d), root, reduce_text(op));
    room_fill(call.span, d, l->rank, 0);
    if (line_run(l, &call, &l->play->patience)) {
        if (l->rank == root)
            holds_folded(l, &call, call.span, 0);
        else
            room_holds(l->play, call.span, d, l->rank, 0);
    }
    room_free(l->play, call.span, "the span");
}

static void
one_broadcast(struct line *l, enum transport_dtype d, size_t n, int root)
{
    struct transport_call call = { .operation = TRANSPORT_BROADCAST, .dtype = d, .root = root, .span = room_new(d, n) };
    play_at(l->play, "broadcast of %zu %s from %d", n, dtype_text(d), root);
    room_fill(call.span, d, l->rank, 0);
    if (line_run(l, &call, &l->play->patience))
        room_holds(l->play, call.span, d, root, 0);
    room_free(l->play, call.span, "the span");
}

/* Rooms for one a rank: rank r's has n + r * uneven elements; in one block where `together`. */
static void
rooms_new(struct line *l, struct transport_span *rooms, enum transport_dtype d, size_t n, size_t uneven, bool together,
          struct transport_span *block)
{
    size_t total = 0;
    *block = (struct transport_span){ 0 };
    for (int r = 0; r < l->size; r++)
        total += n + (size_t)r * uneven;
    if (together)
        *block = room_new(d, total);
    char *at = block->data;
    for (int r = 0; r < l->size; r++) {
        size_t elements = n + (size_t)r * uneven;
        rooms[r] = together ? (struct transport_span){ elements > 0 ? at : NULL, elements * dtype_size(d) } : room_new(d, elements);
        if (at != NULL)
            at += elements * dtype_size(d);
    }
}

static void
rooms_free(struct line *l, struct transport_span *rooms, bool together, struct transport_span block)
{
    for (int r = 0; r < l->size && !together; r++)
        room_free(l->play, rooms[r], "a rank's part");
    room_free(l->play, block, "the block");
}

static void
one_all_gather(struct line *l, enum transport_dtype d, size_t n, size_t uneven, bool together)
{
    struct transport_span rooms[64], block;
    rooms_new(l, rooms, d, n, uneven, together, &block);
    struct transport_call call = { .operation = TRANSPORT_ALL_GATHER, .dtype = d, .outputs = rooms,
                                   .span = room_new(d, n + (size_t)l->rank * uneven) };
    play_at(l->play, "all_gather of %zu (+ %zu a rank) %s%s", n, uneven, dtype_text(d), together ? " into one block" : "");
    room_fill(call.span, d, l->rank, 5);
    if (line_run(l, &call, &l->play->patience))
        for (int r = 0; r < l->size; r++)
            room_holds(l->play, rooms[r], d, r, 5);
    room_holds(l->play, call.span, d, l->rank, 5);
    room_free(l->play, call.span, "the span");
    rooms_free(l, rooms, together, block);
}

static void
one_gather(struct line *l, enum transport_dtype d, size_t n, int root, bool together)
{
    struct transport_span rooms[64], block;
    struct transport_call call = { .operation = TRANSPORT_GATHER, .dtype = d, .root = root, .span = room_new(d, n) };
    play_at(l->play, "gather of %zu %s to %d%s", n, dtype_text(d), root, together ? " into one block" : "");
    rooms_new(l, rooms, d, n, 0, together, &block);
    if (l->rank == root)
        call.outputs = rooms;
    room_fill(call.span, d, l->rank, 2);
    if (line_run(l, &call, &l->play->patience))
        for (int r = 0; r < l->size && l->rank == root; r++)
            room_holds(l->play, rooms[r], d, r, 2);
    room_free(l->play, call.span, "the span");
    rooms_free(l, rooms, together, block);
}

static void
one_scatter(struct line *l, enum transport_dtype d, size_t n, int root, bool together)
{
    struct transport_span rooms[64], block;
    struct transport_call call = { .operation = TRANSPORT_SCATTER, .dtype = d, .root = root, .span = room_new(d, n) };
    play_at(l->play, "scatter of %zu %s from %d%s", n, dtype_text(d), root, together ? " out of one block" : "");
    rooms_new(l, rooms, d, n, 0, together, &block);
    for (int r = 0; r < l->size; r++)
        room_fill(rooms[r], d, root + r, 1);
    if (l->rank == root)
        call.inputs = rooms;
    if (line_run(l, &call, &l->play->patience))
        room_holds(l->play, call.span, d, root + l->rank, 1);
    for (int r = 0; r < l->size; r++)
        room_holds(l->play, rooms[r], d, root + r, 1);
    room_free(l->play, call.span, "the span");
    rooms_free(l, rooms, together, block);
}

static void
one_reduce_scatter(struct line *l, enum transport_dtype d, enum transport_reduce op, size_t n, size_t uneven)
{
    struct transport_span rooms[64], block;
    struct transport_call call = { .operation = TRANSPORT_REDUCE_SCATTER, .dtype = d, .op = op, .inputs = rooms,
                                   .span = room_new(d, n + (size_t)l->rank * uneven) };
    play_at(l->play, "reduce_scatter of %zu (+ %zu a rank) %s, %s", n, uneven, dtype_text(d), reduce_text(op));
    rooms_new(l, rooms, d, n, uneven, false, &block);
    for (int r = 0; r < l->size; r++)
        room_fill(rooms[r], d, l->rank, (size_t)r);
    if (line_run(l, &call, &l->play->patience))
        holds_folded(l, &call, call.span, (size_t)l->rank);
    for (int r = 0; r < l->size; r++)
        room_holds(l->play, rooms[r], d, l->rank, (size_t)r);
    room_free(l->play, call.span, "the span");
    rooms_free(l, rooms, false, block);
}

/* What `from` sends to `to`: nothing, n, or more. */
static size_t
share(size_t n, int from, int to, bool uneven)
{
    return uneven ? n * (size_t)((from * 2 + to) % 4) : n;
}

static void
one_all_to_all(struct line *l, enum transport_dtype d, size_t n, bool uneven)
{
    struct transport_span in[64], out[64];
    play_at(l->play, "all_to_all of %zu %s%s", n, dtype_text(d), uneven ? ", uneven" : "");
    for (int r = 0; r < l->size; r++) {
        in[r]  = room_new(d, share(n, l->rank, r, uneven));
        out[r] = room_new(d, share(n, r, l->rank, uneven));
        room_fill(in[r], d, l->rank, (size_t)r);
    }
    struct transport_call call = { .operation = TRANSPORT_ALL_TO_ALL, .dtype = d, .inputs = in, .outputs = out };
    if (line_run(l, &call, &l->play->patience))
        for (int r = 0; r < l->size; r++)
            room_holds(l->play, out[r], d, r, (size_t)l->rank);
    for (int r = 0; r < l->size; r++) {
        room_holds(l->play, in[r], d, l->rank, (size_t)r);
        room_free(l->play, in[r], "what is sent");
        room_free(l->play, out[r], "what comes");
    }
}

/* Whether the transport does anything of it; one that reduces, with any dtype and op. */
static bool
does(struct play *p, enum transport_operation operation, enum transport_dtype d, enum transport_reduce op)
{
    return p->transport->has(operation, d, op);
}

/* Every dtype with every op that fits; big ones with the first op of a dtype alone. */
static int
reducing(struct play *p, enum transport_operation operation, void (*one)(struct line *l, enum transport_dtype d,
         enum transport_reduce op, size_t n))
{
    struct line l;
    int         done = 0, left = 0;
    if (!line_open_all(&l, p, "g"))
        return PLAY_WRONG;
    for (int d = 0; d < DTYPES; d++)
        for (int op = 0; op < REDUCES; op++) {
            if (!dtype_takes((enum transport_dtype)d, (enum transport_reduce)op))
                continue;
            if (!does(p, operation, (enum transport_dtype)d, (enum transport_reduce)op)) {
                left++;
                continue;
            }
            done++;
            for (int k = 0; k < (op == TRANSPORT_SUM ? SIZES : BIG); k++)
                one(&l, (enum transport_dtype)d, (enum transport_reduce)op, sizes[k]);
        }
    if (left > 0)
        play_note(p, "%d pairs of dtype and op done, %d are not the transport's", done, left);
    if (done > 0 && p->size > 1 && strcmp(p->transport->name, "gloo") == 0 && (p->patience.sends == 0 || p->patience.recvs == 0))
        play_wrong(p, "%lu sends and %lu receives were told as hops", p->patience.sends, p->patience.recvs);
    line_close(&l, false);
    return done > 0 ? PLAY_FINE : PLAY_SKIPPED;
}

int
part_all_reduce(struct play *p)
{
    return reducing(p, TRANSPORT_ALL_REDUCE, one_all_reduce);
}

static void
reduce_roots(struct line *l, enum transport_dtype d, enum transport_reduce op, size_t n)
{
    for (int root = 0; root < l->size; root++)
        if (n < 300000 || root == l->size - 1)
            one_reduce(l, d, op, n, root);
}

int
part_reduce(struct play *p)
{
    return reducing(p, TRANSPORT_REDUCE, reduce_roots);
}

static void
reduce_scatters(struct line *l, enum transport_dtype d, enum transport_reduce op, size_t n)
{
    one_reduce_scatter(l, d, op, n, 0);
    one_reduce_scatter(l, d, op, n, 3);
}

int
part_reduce_scatter(struct play *p)
{
    return reducing(p, TRANSPORT_REDUCE_SCATTER, reduce_scatters);
}

/* Moves elements: each dtype that the transport takes, each size. */
static int
moving(struct play *p, enum transport_operation operation, void (*all)(struct line *l, enum transport_dtype d, size_t n))
{
    struct line l;
    bool        any = false;
    if (!line_open_all(&l, p, "g"))
        return PLAY_WRONG;
    for (int d = 0; d < DTYPES; d++)
        for (int k = 0; k < SIZES && does(p, operation, (enum transport_dtype)d, TRANSPORT_SUM); k++) {
            any = true;
            if (k < BIG || d % 4 == 0)
                all(&l, (enum transport_dtype)d, sizes[k]);
        }
    line_close(&l, false);
    return any ? PLAY_FINE : PLAY_SKIPPED;
}

static void
broadcasts(struct line *l, enum transport_dtype d, size_t n)
{
    for (int root = 0; root < l->size; root++)
        one_broadcast(l, d, n, root);
}

static void
all_gathers(struct line *l, enum transport_dtype d, size_t n)
{
    for (int together = 0; together < 2; together++) {
        one_all_gather(l, d, n, 0, together != 0);
        one_all_gather(l, d, n, 3, together != 0);
    }
}

static void
gathers(struct line *l, enum transport_dtype d, size_t n)
{
    for (int root = 0; root < l->size; root++)
        one_gather(l, d, n, root, root % 2 == 0);
}

static void
scatters(struct line *l, enum transport_dtype d, size_t n)
{
    for (int root = 0; root < l->size; root++)
        one_scatter(l, d, n, root, root % 2 == 0);
}

static void
all_to_alls(struct line *l, enum transport_dtype d, size_t n)
{
    one_all_to_all(l, d, n, false);
    one_all_to_all(l, d, n, true);
}

int part_broadcast(struct play *p)  { return moving(p, TRANSPORT_BROADCAST, broadcasts); }
int part_all_gather(struct play *p) { return moving(p, TRANSPORT_ALL_GATHER, all_gathers); }
int part_gather(struct play *p)     { return moving(p, TRANSPORT_GATHER, gathers); }
int part_scatter(struct play *p)    { return moving(p, TRANSPORT_SCATTER, scatters); }
int part_all_to_all(struct play *p) { return moving(p, TRANSPORT_ALL_TO_ALL, all_to_alls); }

/* Nobody leaves before the last has come: rank k says so just before it enters the k-th. */
int
part_barrier(struct play *p)
{
    struct line l;
    if (!does(p, TRANSPORT_BARRIER, TRANSPORT_F32, TRANSPORT_SUM))
        return PLAY_SKIPPED;
    if (!line_open_all(&l, p, "g"))
        return PLAY_WRONG;
    for (int k = 0; k < 3 * p->size; k++) {
        struct transport_call call = { .operation = TRANSPORT_BARRIER };
        char                  key[100];
        snprintf(key, sizeof key, "%s/%d", p->part, k);
        play_at(p, "barrier %d", k);
        if (k % p->size == p->rank)
            play_flag(p, key);
        if (line_run(&l, &call, &p->patience) && !play_flagged(p, key))
            play_wrong(p, "barrier %d was left before rank %d came", k, k % p->size);
    }
    line_close(&l, false);
    return PLAY_FINE;
}
