/* Reductions that go element by element (tensor/cpu/fold.c): products, extremes and their places, all and any,
 * variances; running sums along one dimension; the extremes of a whole tensor (reduce.c). In double or int64_t, in
 * row-major order of what is folded. What does not depend on the order a block does together where there is much to
 * fold; products and variances are rounded at each element, so one thread goes through them. In PyTorch:
 * ATen/native/cuda/ReduceOps.cpp. */
#include <math.h>
#include "plugins/cuda/kernels/element.h"
#include "plugins/cuda/kernels/joined.h"

/* The elements of one fold: `base` is where it begins. */
struct folded { const struct joined *joined; const void *data; enum dtype dtype; int64_t base; };

ON_DEVICE struct folded
folded_of(const struct cpu_call &call, const struct apart *apart, int64_t output)
{
    struct folded folded = { &apart->summed, call.in[0].data, call.in[0].dtype,
                             joined_place(&apart->kept, 1, output, 0) };
    return folded;
}

ON_DEVICE void
share_apart(const struct cpu_call &call, struct apart *apart)
{
    if (thread_index() == 0)
        take_apart(apart, &call.in[0], &call.out);
    block_barrier();
}

/* Every element in order. N: double or int64_t. */
template <typename N, typename fold> ON_DEVICE void
fold_in_order(const struct folded &from, fold *into)
{
    const int64_t run = from.joined->run, step = joined_step(from.joined, 0);
    const int64_t runs = from.joined->count == 0 ? 0 : from.joined->count / run;
    ROLLED for (int64_t r = 0; r < runs; r++) {
        const int64_t at = from.base + joined_place(from.joined, 0, r, 1);
        ROLLED for (int64_t i = 0; i < run; i++)
            into->take(load<N>(from.data, from.dtype, at + i * step));
    }
}

/* ---- in order: a thread for each result ---- */

struct product {
    double   value;
    uint64_t whole;
    ON_DEVICE_MEMBER void take(double x) { value *= x; }
    ON_DEVICE_MEMBER void take(int64_t n) { whole *= (uint64_t)n; }
};

KERNEL_OF(fold_prod, struct cpu_call)
{
    SHARED struct apart apart;
    share_apart(call, &apart);
    ROLLED for (int64_t output = first_item(); output < apart.kept.count; output += item_step()) {
        struct product product = { 1, 1 };
        struct folded  from = folded_of(call, &apart, output);
        int64_t        to = joined_place(&apart.kept, 0, output, 0);
        if (call.compute == DTYPE_I64) {
            fold_in_order<int64_t>(from, &product);
            store<int64_t>(call.out.data, call.out.dtype, to, (int64_t)product.whole);
        } else {
            fold_in_order<double>(from, &product);
            store<double>(call.out.data, call.out.dtype, to, product.value);
        }
    }
}

/* Welford. */
struct spread {
    double  mean, squares;
    int64_t count;
    ON_DEVICE_MEMBER void
    take(double x)
    {
        double distance = x - mean;
        count++;
        mean += distance / (double)count;
        squares += distance * (x - mean);
    }
};

/* alpha: how many degrees of freedom are taken. */
ON_DEVICE void
variances(const struct cpu_call &call, const struct apart *apart, bool root)
{
    ROLLED for (int64_t output = first_item(); output < apart->kept.count; output += item_step()) {
        struct spread spread = { 0, 0, 0 };
        fold_in_order<double>(folded_of(call, apart, output), &spread);
        double freedom = (double)spread.count - call.alpha;
        double value = spread.count > 0 && freedom > 0      ? spread.squares / freedom
                       : spread.count > 0 && freedom != 0 ? (double)INFINITY
                                                            : (double)NAN;
        store<double>(call.out.data, call.out.dtype, joined_place(&apart->kept, 0, output, 0),
                      root ? sqrt(value) : value);
    }
}

KERNEL_OF(fold_var, struct cpu_call)
{
    SHARED struct apart apart;
    share_apart(call, &apart);
    variances(call, &apart, false);
}

KERNEL_OF(fold_std, struct cpu_call)
{
    SHARED struct apart apart;
    share_apart(call, &apart);
    variances(call, &apart, true);
}

/* ---- extremes: the first of equals wins, so it does not matter who finds it ---- */

/* NaN is beyond everything. */
template <bool largest> ON_DEVICE bool
is_beyond(double x, double best)
{
    return (largest ? x > best : x < best) || (x != x && best == best);
}

template <bool largest> ON_DEVICE bool
is_beyond(int64_t x, int64_t best)
{
    return largest ? x > best : x < best;
}

template <typename N> struct extreme { N value; int64_t at; };   /* at -1: none yet */

template <bool largest, typename N> ON_DEVICE struct extreme<N>
further(struct extreme<N> a, struct extreme<N> b)
{
    if (a.at < 0 || b.at < 0)
        return a.at < 0 ? b : a;
    if (is_beyond<largest>(b.value, a.value))
        return b;
    return !is_beyond<largest>(a.value, b.value) && b.at < a.at ? b : a;
}

/* Of the elements from number `first` on, every so many-th. */
template <bool largest, typename N> ON_DEVICE struct extreme<N>
extreme_of(const struct folded &from, int64_t first, int64_t end, int64_t every)
{
    struct extreme<N> best = { 0, -1 };
    ROLLED for (int64_t i = first; i < end; i += every) {
        struct extreme<N> x = { load<N>(from.data, from.dtype, from.base + joined_place(from.joined, 0, i, 0)), i };
        best = further<largest, N>(best, x);
    }
    return best;
}

template <typename N> struct extreme_room { N value[BLOCK_THREADS / WARP]; int64_t at[BLOCK_THREADS / WARP]; };

/* What the threads of a block have found; the first one's answer counts. */
template <bool largest, typename N> ON_DEVICE struct extreme<N>
extreme_of_block(struct extreme<N> mine, struct extreme_room<N> *room)
{
    const unsigned warp = thread_index() / WARP;
    for (unsigned by = WARP / 2; by > 0; by /= 2) {
        struct extreme<N> other = { lane_down(mine.value, by), lane_down(mine.at, by) };
        if (thread_index() % WARP + by < WARP)
            mine = further<largest, N>(mine, other);
    }
    if (thread_index() % WARP == 0) {
        room->value[warp] = mine.value;
        room->at[warp]    = mine.at;
    }
    block_barrier();
    for (unsigned w = 1; w < BLOCK_THREADS / WARP && thread_index() == 0; w++) {
        struct extreme<N> other = { room->value[w], room->at[w] };
        mine = further<largest, N>(mine, other);
    }
    block_barrier();
    return mine;
}

enum { MUCH = 512 };   /* elements of one fold from which on a block does it */

enum extreme_answer { EXTREME_VALUE, EXTREME_PLACE };

template <typename N> ON_DEVICE void
put_extreme(const struct cpu_call &call, int64_t to, struct extreme<N> found, enum extreme_answer answer)
{
    if (answer == EXTREME_PLACE)
        store<int64_t>(call.out.data, call.out.dtype, to, found.at < 0 ? 0 : found.at);
    else
        store<N>(call.out.data, call.out.dtype, to, found.value);
}

template <bool largest, typename N> ON_DEVICE void
extremes_as(const struct cpu_call &call, const struct apart *apart, struct extreme_room<N> *room,
            enum extreme_answer answer)
{
    const int64_t count = apart->summed.count, outputs = apart->kept.count;
    ROLLED for (int64_t o = first_item(); count < MUCH && o < outputs; o += item_step())
        put_extreme<N>(call, joined_place(&apart->kept, 0, o, 0),
                       extreme_of<largest, N>(folded_of(call, apart, o), 0, count, 1), answer);
    ROLLED for (int64_t o = block_index(); count >= MUCH && o < outputs; o += block_count()) {
        struct extreme<N> mine = extreme_of<largest, N>(folded_of(call, apart, o), thread_index(), count,
                                                        BLOCK_THREADS);
        mine = extreme_of_block<largest, N>(mine, room);
        if (thread_index() == 0)
            put_extreme<N>(call, joined_place(&apart->kept, 0, o, 0), mine, answer);
    }
}

union fold_memory { struct extreme_room<double> fractions; struct extreme_room<int64_t> integers; };

template <bool largest> ON_DEVICE void
extremes(const struct cpu_call &call, const struct apart *apart, union fold_memory *memory, enum extreme_answer answer)
{
    if (call.compute == DTYPE_I64)
        extremes_as<largest, int64_t>(call, apart, &memory->integers, answer);
    else
        extremes_as<largest, double>(call, apart, &memory->fractions, answer);
}

#define EXTREME(name, largest, answer)                                                                             \
    KERNEL_OF(name, struct cpu_call)                                                                               \
    {                                                                                                              \
        SHARED struct apart      apart;                                                                            \
        SHARED union fold_memory memory;                                                                           \
        share_apart(call, &apart);                                                                                 \
        extremes<largest>(call, &apart, &memory, answer);                                                          \
    }
EXTREME(fold_amax, true, EXTREME_VALUE)
EXTREME(fold_amin, false, EXTREME_VALUE)
EXTREME(fold_argmax, true, EXTREME_PLACE)
EXTREME(fold_argmin, false, EXTREME_PLACE)

/* ---- of a whole tensor: a share for each of SHARES blocks, then the best of the shares ---- */

template <bool largest, typename N> ON_DEVICE void
shares_as(const struct cpu_call &call, const struct apart *apart, struct extreme_room<N> *room)
{
    const int64_t count = apart->summed.count, each = (count + EXTREME_SHARES - 1) / EXTREME_SHARES;
    struct extreme<N> *shares = static_cast<struct extreme<N> *>(call.workspace);
    ROLLED for (int64_t s = block_index(); s < EXTREME_SHARES; s += block_count()) {
        const int64_t     end = (s + 1) * each < count ? (s + 1) * each : count;
        struct extreme<N> mine = extreme_of<largest, N>(folded_of(call, apart, 0), s * each + thread_index(), end,
                                                        BLOCK_THREADS);
        mine = extreme_of_block<largest, N>(mine, room);
        if (thread_index() == 0)
            shares[s] = mine;
    }
}

template <bool largest, typename N> ON_DEVICE void
best_share_as(const struct cpu_call &call, struct extreme_room<N> *room)
{
    static_assert((int)EXTREME_SHARES == (int)BLOCK_THREADS, "a thread for each");
    const struct extreme<N> *shares = static_cast<const struct extreme<N> *>(call.workspace);
    struct extreme<N>        best = extreme_of_block<largest, N>(shares[thread_index()], room);
    if (thread_index() == 0)
        put_extreme<N>(call, 0, best, EXTREME_VALUE);
}

template <bool largest> ON_DEVICE void
extreme_of_all(const struct cpu_call &call, const struct apart *apart, union fold_memory *memory)
{
    if (call.workspace == NULL || extreme_room_bytes(apart->summed.count) == 0)
        extremes<largest>(call, apart, memory, EXTREME_VALUE);
    else if (call.compute == DTYPE_I64)
        shares_as<largest, int64_t>(call, apart, &memory->integers);
    else
        shares_as<largest, double>(call, apart, &memory->fractions);
}

template <bool largest> ON_DEVICE void
best_share(const struct cpu_call &call, const struct apart *apart, union fold_memory *memory)
{
    if (call.workspace == NULL || extreme_room_bytes(apart->summed.count) == 0 || block_index() > 0)
        return;
    if (call.compute == DTYPE_I64)
        best_share_as<largest, int64_t>(call, &memory->integers);
    else
        best_share_as<largest, double>(call, &memory->fractions);
}

#define EXTREME_OF_ALL(name, step, largest)                                                                        \
    KERNEL_OF(name, struct cpu_call)                                                                               \
    {                                                                                                              \
        SHARED struct apart      apart;                                                                            \
        SHARED union fold_memory memory;                                                                           \
        share_apart(call, &apart);                                                                                 \
        step<largest>(call, &apart, &memory);                                                                      \
    }
EXTREME_OF_ALL(cpu_max, extreme_of_all, true)
EXTREME_OF_ALL(cpu_max_gathered, best_share, true)
EXTREME_OF_ALL(cpu_min, extreme_of_all, false)
EXTREME_OF_ALL(cpu_min_gathered, best_share, false)

/* ---- all and any ---- */

ON_DEVICE bool
is_true(const struct folded &from, int64_t i, bool integers)
{
    const int64_t at = from.base + joined_place(from.joined, 0, i, 0);
    return integers ? load<int64_t>(from.data, from.dtype, at) != 0 : load<double>(from.data, from.dtype, at) != 0;
}

/* Is one of the elements from `first` on, every so many-th, as wanted? */
ON_DEVICE bool
finds(const struct folded &from, int64_t first, int64_t every, bool wanted, bool integers)
{
    bool found = false;
    ROLLED for (int64_t i = first; i < from.joined->count && !found; i += every)
        found = is_true(from, i, integers) == wanted;
    return found;
}

/* start: any instead of all. */
KERNEL_OF(fold_truth, struct cpu_call)
{
    SHARED struct apart apart;
    SHARED int          found;
    const bool          any = call.start != 0, integers = call.compute == DTYPE_I64;
    share_apart(call, &apart);
    const bool much = apart.summed.count >= MUCH;
    ROLLED for (int64_t o = first_item(); !much && o < apart.kept.count; o += item_step())
        store<int64_t>(call.out.data, call.out.dtype, joined_place(&apart.kept, 0, o, 0),
                       finds(folded_of(call, &apart, o), 0, 1, any, integers) == any);
    ROLLED for (int64_t o = block_index(); much && o < apart.kept.count; o += block_count()) {
        if (thread_index() == 0)
            found = 0;
        block_barrier();
        if (finds(folded_of(call, &apart, o), thread_index(), BLOCK_THREADS, any, integers))
            found = 1;   /* whoever it is: they all write the same */
        block_barrier();
        if (thread_index() == 0)
            store<int64_t>(call.out.data, call.out.dtype, joined_place(&apart.kept, 0, o, 0), (found != 0) == any);
    }
}

/* ---- along one dimension: a thread for each line ---- */

template <typename N, typename total_type, bool product> ON_DEVICE void
run_along(const struct cpu_call &call, const struct joined *lines)
{
    const bool    scalar = call.in[0].dims == 0;
    const int64_t length = scalar ? 1 : call.in[0].size[call.dim];
    const int64_t from_step = scalar ? 0 : call.in[0].stride[call.dim];
    const int64_t to_step = scalar ? 0 : call.out.stride[call.dim];
    ROLLED for (int64_t line = first_item(); line < lines->count; line += item_step()) {
        const int64_t to = joined_place(lines, 0, line, 0), from = joined_place(lines, 1, line, 0);
        total_type    total = product;
        ROLLED for (int64_t j = 0; j < length; j++) {
            total_type x = (total_type)load<N>(call.in[0].data, call.in[0].dtype, from + j * from_step);
            total        = product ? total * x : total + x;
            store<N>(call.out.data, call.out.dtype, to + j * to_step, (N)total);
        }
    }
}

#define RUNNING(name, product)                                                                                     \
    KERNEL_OF(name, struct cpu_call)                                                                               \
    {                                                                                                              \
        SHARED struct joined lines;                                                                                \
        if (thread_index() == 0)                                                                                   \
            take_lines(&lines, &call.in[0], &call.out, (int)call.dim);                                             \
        block_barrier();                                                                                           \
        if (call.compute == DTYPE_I64)                                                                             \
            run_along<int64_t, uint64_t, product>(call, &lines);                                                   \
        else                                                                                                       \
            run_along<double, double, product>(call, &lines);                                                      \
    }
RUNNING(fold_cumsum, false)
RUNNING(fold_cumprod, true)
