/* What the parts share: channels that are opened and asked, rooms with a rim, numbers of every dtype.
 *
 * In use: line_open, line_run or line_send, line_recv, line_wait, line_close. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "play.h"

bool
line_open(struct line *l, struct play *p, const char *name, const int *ranks, int size, struct patience *w)
{
    *l = (struct line){ .play = p, .patience = w, .size = size, .rank = -1 };
    snprintf(l->name, sizeof l->name, "%s/%s", p->part, name);
    for (int i = 0; i < size; i++) {
        l->ranks[i] = ranks[i];
        if (ranks[i] == p->rank)
            l->rank = i;
    }
    struct transport_why            why     = { "" };
    struct transport_channel_options options = { .name = l->name, .ranks = l->ranks, .size = size, .rank = l->rank,
        .waiter = &w->waiter, .store = &p->store, .timeout_ms = 60000 };
    l->channel = p->transport->connect(p->opened, &options, &why);
    if (l->channel == NULL && !w->gave_up)
        play_wrong(p, "connecting %s: %s", l->name, why.text);
    return l->channel != NULL;
}

bool
line_open_all(struct line *l, struct play *p, const char *name)
{
    int ranks[64];
    for (int i = 0; i < p->size; i++)
        ranks[i] = i;
    return line_open(l, p, name, ranks, p->size, &p->patience);
}

void
line_close(struct line *l, bool broken)
{
    if (l->channel != NULL)
        l->play->transport->disconnect(l->channel, broken);
    l->channel = NULL;
}

bool
line_run(struct line *l, struct transport_call *call, struct patience *w)
{
    struct transport_why why = { "" };
    call->number  = l->number++;
    call->waiter  = &w->waiter;
    call->element = dtype_size(call->dtype);
    call->reduce  = play_reduce;
    bool fine = l->play->transport->run(l->channel, call, &why);
    if (!fine && !w->gave_up)
        play_wrong(l->play, "run: %s", why.text);
    if (fine && why.text[0] != '\0')
        play_wrong(l->play, "run is well and still says '%s'", why.text);
    return fine;
}

enum transport_state
line_wait(struct line *l, struct transport_request *r, struct patience *w)
{
    for (uint64_t looks = 0;; looks++) {
        enum transport_state state = l->play->transport->test(l->channel, r);
        if (state != TRANSPORT_PENDING || !w->waiter.pause(w, looks))
            return state;
    }
}

void
line_send(struct line *l, int peer, uint32_t tag, const void *data, size_t bytes)
{
    struct transport_request r = { .peer = -7 };
    if (!l->play->transport->send(l->channel, peer, tag, data, bytes, &r) ||
        line_wait(l, &r, l->patience) != TRANSPORT_DONE)
        play_wrong(l->play, "sending %zu bytes with tag %u to %d: %s", bytes, tag, peer, r.why.text);
}

/* `bytes` are to come into `room`. */
void
line_recv(struct line *l, int peer, uint32_t tag, void *data, size_t room, size_t bytes)
{
    struct transport_request r = { 0 };
    if (!l->play->transport->recv(l->channel, peer, tag, data, room, &r) ||
        line_wait(l, &r, l->patience) != TRANSPORT_DONE)
        play_wrong(l->play, "receiving %zu bytes with tag %u from %d: %s", bytes, tag, peer, r.why.text);
    else if (r.bytes != bytes)
        play_wrong(l->play, "with tag %u from %d came %zu bytes, not %zu", tag, peer, r.bytes, bytes);
    else if (peer >= 0 && r.peer != peer)
        play_wrong(l->play, "what %d sent is said to be of %d", peer, r.peer);
}

size_t
dtype_size(enum transport_dtype d)
{
    static const size_t sizes[] = { 4, 8, 8, 1, 4, 1, 2, 2, 1 };
    return sizes[d];
}

const char *
dtype_text(enum transport_dtype d)
{
    static const char *const texts[] = { "f32", "f64", "i64", "bool", "i32", "u8", "f16", "bf16", "i8" };
    return texts[d];
}

const char *
reduce_text(enum transport_reduce op)
{
    static const char *const texts[] = { "sum", "avg", "product", "min", "max", "band", "bor", "bxor" };
    return texts[op];
}

bool
dtype_takes(enum transport_dtype d, enum transport_reduce op)
{
    bool is_float = d == TRANSPORT_F32 || d == TRANSPORT_F64 || d == TRANSPORT_F16 || d == TRANSPORT_BF16;
    return op != TRANSPORT_AVG && (op < TRANSPORT_BAND || !is_float);
}

/* Numbers from 0 to 255 without a fraction, which all that is played with is: exact in every dtype but i8. */
static double
half_to_double(uint16_t h)
{
    int exponent = (h >> 10 & 31);
    return exponent == 0 ? 0 : ldexp(1024 + (h & 1023), exponent - 25);
}

static uint16_t
double_to_half(double x)
{
    int exponent;
    if (x == 0)
        return 0;
    double fraction = frexp(x, &exponent);
    return (uint16_t)((exponent + 14) << 10 | ((int)(fraction * 2048) & 1023));
}

double
number_get(enum transport_dtype d, const void *at, size_t i)
{
    const char *from = (const char *)at + i * dtype_size(d);
    union { float f32; double f64; int64_t i64; int32_t i32; uint32_t u32; uint16_t u16; uint8_t u8; int8_t i8; } v = { .i64 = 0 };
    memcpy(&v, from, dtype_size(d));
    switch (d) {
    case TRANSPORT_F32:  return (double)v.f32;
    case TRANSPORT_F64:  return v.f64;
    case TRANSPORT_I64:  return (double)v.i64;
    case TRANSPORT_I32:  return v.i32;
    case TRANSPORT_F16:  return half_to_double(v.u16);
    case TRANSPORT_BF16: v.u32 = (uint32_t)v.u16 << 16; return (double)v.f32;
    case TRANSPORT_I8:   return v.i8;
    default:             return v.u8;
    }
}

void
number_put(enum transport_dtype d, void *at, size_t i, double x)
{
    char *to = (char *)at + i * dtype_size(d);
    union { float f32; double f64; int64_t i64; int32_t i32; uint32_t u32; uint16_t u16; uint8_t u8; int8_t i8; } v = { .i64 = 0 };
    switch (d) {
    case TRANSPORT_F32:  v.f32 = (float)x; break;
    case TRANSPORT_F64:  v.f64 = x; break;
    case TRANSPORT_I64:  v.i64 = (int64_t)x; break;
    case TRANSPORT_I32:  v.i32 = (int32_t)x; break;
    case TRANSPORT_F16:  v.u16 = double_to_half(x); break;
    case TRANSPORT_BF16: v.f32 = (float)x; v.u16 = (uint16_t)(v.u32 >> 16); break;
    case TRANSPORT_I8:   v.i8 = (int8_t)x; break;
    case TRANSPORT_BOOL: v.u8 = x != 0; break;
    default:             v.u8 = (uint8_t)x; break;
    }
    memcpy(to, &v, dtype_size(d));
}

double
number_fold(enum transport_dtype d, enum transport_reduce op, double a, double b)
{
    if (d == TRANSPORT_BOOL) {
        a = a != 0;
        b = b != 0;
    }
    double x = 0;
    switch (op) {
    case TRANSPORT_PRODUCT: x = a * b; break;
    case TRANSPORT_MIN:     x = a < b ? a : b; break;
    case TRANSPORT_MAX:     x = a > b ? a : b; break;
    case TRANSPORT_BAND:    x = (double)((int64_t)a & (int64_t)b); break;
    case TRANSPORT_BOR:     x = (double)((int64_t)a | (int64_t)b); break;
    case TRANSPORT_BXOR:    x = (double)((int64_t)a ^ (int64_t)b); break;
    default:                x = a + b; break;
    }
    return d == TRANSPORT_BOOL ? x != 0 : x;
}

double
number_of(enum transport_dtype d, int rank, size_t i)
{
    double x = (double)(((size_t)rank * 2 + i) % 3 + 1);
    return d == TRANSPORT_BOOL ? x != 2 : x;
}

void
play_reduce(const struct transport_call *call, void *into, const void *from, size_t bytes)
{
    size_t    n = bytes / call->element;
    float    *f = into;
    const float *g = from;
    if (call->dtype == TRANSPORT_F32 && call->op == TRANSPORT_SUM)
        for (size_t i = 0; i < n; i++)
            f[i] += g[i];
    else
        for (size_t i = 0; i < n; i++)
            number_put(call->dtype, into, i, number_fold(call->dtype, call->op, number_get(call->dtype, into, i),
                                                         number_get(call->dtype, from, i)));
}

enum { RIM = 64 };

struct transport_span
room_new(enum transport_dtype d, size_t elements)
{
    struct transport_span s = { .data = NULL, .bytes = elements * dtype_size(d) };
    if (s.bytes == 0)
        return s;
    char *block = play_memory(s.bytes + 2 * RIM);
    memset(block, 0xa5, s.bytes + 2 * RIM);
    s.data = block + RIM;
    return s;
}

void
room_fill(struct transport_span s, enum transport_dtype d, int rank, size_t first)
{
    for (size_t i = 0; i < s.bytes / dtype_size(d); i++)
        number_put(d, s.data, i, number_of(d, rank, first + i));
}

void
room_check(struct play *p, struct transport_span s, const char *what)
{
    const unsigned char *data = s.data;
    for (size_t i = 0; i < RIM && data != NULL; i++)
        if (data[(ptrdiff_t)i - RIM] != 0xa5 || data[s.bytes + i] != 0xa5) {
            play_wrong(p, "%s: memory beside %s was changed", p->at, what);
            return;
        }
}

bool
room_holds(struct play *p, struct transport_span s, enum transport_dtype d, int rank, size_t first)
{
    for (size_t i = 0; i < s.bytes / dtype_size(d); i++) {
        double want = number_of(d, rank, first + i);
        if (number_get(d, s.data, i) != want) {
            play_wrong(p, "%s: element %zu of rank %d's is %g, not %g", p->at, i, rank, number_get(d, s.data, i), want);
            return false;
        }
    }
    return true;
}

void
room_free(struct play *p, struct transport_span s, const char *what)
{
    room_check(p, s, what);
    if (s.data != NULL)
        free((char *)s.data - RIM);
}
