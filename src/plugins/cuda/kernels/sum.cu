/* Sums and means, in the CPU's order (tensor/cpu/reduce.c): along the last dimension in lanes and trees (sum.h),
 * across rows one row after the other, a column at a time. In PyTorch: ATen/native/cuda/ReduceSumProdKernel.cu. */
#include "plugins/cuda/kernels/sum.h"

/* What becomes of a sum. */
struct finish { bool divides; double by; };

/* The sum becomes an element; of a mean it is divided when it has been rounded to the type. */
template <typename T> ON_DEVICE void
put_sum(const struct cpu_call &call, int64_t at, T sum, struct finish finish)
{
    const enum dtype dtype = call.out.dtype;
    store(call.out.data, dtype, at, (typename summed_as<T>::L)sum);
    if (!finish.divides)
        return;
    if (dtype == DTYPE_F64)
        static_cast<double *>(call.out.data)[at] /= finish.by;
    else
        store<float>(call.out.data, dtype, at, load<float>(call.out.data, dtype, at) / (float)finish.by);
}

template <typename T> ON_DEVICE struct joined_source<T>
source_of(const struct cpu_call &call, const struct apart *apart, int64_t output)
{
    struct joined_source<T> from = { &apart->summed, call.in[0].data, call.in[0].dtype,
                                     joined_place(&apart->kept, 1, output, 0) };
    return from;
}

/* ---- rows of few chunks: a group of sixteen threads for each ---- */

enum { FEW_CHUNKS = 16, FEW_LEVELS = 6 };

template <typename T> ON_DEVICE void
sum_few(const struct cpu_call &call, const struct apart *apart, struct finish finish)
{
    const int64_t chunks = chunks_of(&apart->summed), outputs = apart->kept.count, group = thread_index() / LANES;
    const int64_t step = (int64_t)block_count() * GROUPS;
    ROLLED for (int64_t first = (int64_t)block_index() * GROUPS; first < outputs; first += step) {
        const int64_t           output = first + group;
        const bool              is_there = output < outputs;
        struct joined_source<T> from = source_of<T>(call, apart, is_there ? output : 0);
        T                       level[FEW_LEVELS] = {}, total = 0;
        ROLLED for (int64_t c = 0; c < chunks; c++) {
            T   sum = chunk_sum<T>(&from, c, is_there);
            int at = 0;
            for (int64_t bits = c; bits & 1; bits >>= 1, at++)
                sum = level[at] + sum;
            level[at] = sum;
        }
        for (int at = 0; at < FEW_LEVELS; at++)
            if (chunks >> at & 1)
                total = level[at] + total;
        if (is_there && thread_index() % LANES == 0)
            put_sum<T>(call, joined_place(&apart->kept, 0, output, 0), total, finish);
    }
}

template <typename T> ON_DEVICE void
sum_many(const struct cpu_call &call, const struct apart *apart, struct sum_room<T> *room, struct finish finish)
{
    const int64_t chunks = chunks_of(&apart->summed);
    ROLLED for (int64_t output = block_index(); output < apart->kept.count; output += block_count()) {
        struct joined_source<T> from = source_of<T>(call, apart, output);
        T                       total = sum_by_block<T>(&from, chunks, room);
        if (thread_index() == 0)
            put_sum<T>(call, joined_place(&apart->kept, 0, output, 0), total, finish);
    }
}

/* ---- columns: rows come one after the other, whoever loads them ---- */

/* A warp's worth of columns and some rows of them; the other warps load while the first one adds. */
enum { COLUMNS = WARP, COLUMN_BYTES = 8192, FEW_ROWS = 64 };
template <typename T> struct column_room {
    enum { ROWS = COLUMN_BYTES / sizeof(T) / COLUMNS };
    T tile[2][ROWS][COLUMNS];
};

template <typename T> ON_DEVICE void
add_columns(const struct cpu_call &call, const struct apart *apart, struct column_room<T> *room, struct finish finish)
{
    enum { ROWS = column_room<T>::ROWS, AT_ONCE = BLOCK_THREADS / COLUMNS };
    const struct joined *summed = &apart->summed;
    const int            x = (int)thread_index() % COLUMNS, y = (int)thread_index() / COLUMNS;
    const int64_t step = (int64_t)block_count() * COLUMNS;
    ROLLED for (int64_t c = (int64_t)block_index() * COLUMNS; c < apart->kept.count; c += step) {
        const bool    is_there = c + x < apart->kept.count;
        const int64_t base = is_there ? joined_place(&apart->kept, 1, c + x, 0) : 0;
        T             total = 0;
        int           which = 0;
        ROLLED for (int64_t first = 0; first < summed->count; first += ROWS, which ^= 1) {
            int64_t rows = summed->count - first < (int64_t)ROWS ? summed->count - first : (int64_t)ROWS;
            for (int r = y; r < rows && is_there; r += AT_ONCE)
                room->tile[which][r][x] = (T)load<typename summed_as<T>::L>(
                    call.in[0].data, call.in[0].dtype, base + joined_place(summed, 0, first + r, 0));
            block_barrier();
            for (int r = 0; r < rows && y == 0; r++)
                total += room->tile[which][r][x];
        }
        block_barrier();
        if (y == 0 && is_there)
            put_sum<T>(call, joined_place(&apart->kept, 0, c + x, 0), total, finish);
    }
}

/* Few rows: a thread for each column. */
template <typename T> ON_DEVICE void
add_rows(const struct cpu_call &call, const struct apart *apart, struct finish finish)
{
    ROLLED for (int64_t c = first_item(); c < apart->kept.count; c += item_step()) {
        const int64_t base = joined_place(&apart->kept, 1, c, 0);
        T             total = 0;
        for (int64_t r = 0; r < apart->summed.count; r++)
            total += (T)load<typename summed_as<T>::L>(call.in[0].data, call.in[0].dtype,
                                                       base + joined_place(&apart->summed, 0, r, 0));
        put_sum<T>(call, joined_place(&apart->kept, 0, c, 0), total, finish);
    }
}

/* ---- all ---- */

union sum_memory {
    struct sum_room<double>    room;       /* the widest: of float there is more than enough, of integers as much */
    struct column_room<double> columns;
};

template <typename T> ON_DEVICE void
sum_as(const struct cpu_call &call, const struct apart *apart, union sum_memory *memory, struct finish finish)
{
    if (apart->by_column && apart->summed.count <= FEW_ROWS)
        add_rows<T>(call, apart, finish);
    else if (apart->by_column)
        add_columns<T>(call, apart, reinterpret_cast<struct column_room<T> *>(memory), finish);
    else if (chunks_of(&apart->summed) <= FEW_CHUNKS)
        sum_few<T>(call, apart, finish);
    else
        sum_many<T>(call, apart, reinterpret_cast<struct sum_room<T> *>(memory), finish);
}

ON_DEVICE void
sum_any(const struct cpu_call &call, const struct apart *apart, union sum_memory *memory, struct finish finish)
{
    if (call.compute == DTYPE_F32)
        sum_as<float>(call, apart, memory, finish);
    else if (call.compute == DTYPE_F64)
        sum_as<double>(call, apart, memory, finish);
    else
        sum_as<uint64_t>(call, apart, memory, finish);
}

/* The block's threads share what the first of them has found out about the views. */
ON_DEVICE void
share_apart(const struct cpu_call &call, struct apart *apart)
{
    if (thread_index() == 0)
        take_apart(apart, &call.in[0], &call.out);
    block_barrier();
}

#define SUM_OF_DIMS(name, divides, by)                                                                             \
    KERNEL_OF(name, struct cpu_call)                                                                               \
    {                                                                                                              \
        SHARED struct apart     apart;                                                                             \
        SHARED union sum_memory memory;                                                                            \
        share_apart(call, &apart);                                                                                 \
        sum_any(call, &apart, &memory, { divides, by });                                                           \
    }
SUM_OF_DIMS(sum_of_dims, false, 0)
/* alpha: how many there are to one mean. */
SUM_OF_DIMS(mean_of_dims, true, call.alpha)

/* ---- all elements into one: of many with a workspace by all blocks, in two kernels; else by one block ---- */

ON_DEVICE bool
is_spread(const struct cpu_call &call, const struct apart *apart)
{
    return call.workspace != NULL && pieces_room(chunks_of(&apart->summed)) > 0;
}

template <typename T> ON_DEVICE void
sum_whole_as(const struct cpu_call &call, const struct apart *apart, union sum_memory *memory, struct finish finish)
{
    struct sum_room<T>     *room = reinterpret_cast<struct sum_room<T> *>(memory);
    struct joined_source<T> from = source_of<T>(call, apart, 0);
    const int64_t           chunks = chunks_of(&apart->summed);
    if (is_spread(call, apart)) {
        sum_pieces<T>(&from, chunks, static_cast<T *>(call.workspace), room);
    } else if (block_index() == 0) {
        T total = sum_by_block<T>(&from, chunks, room);
        if (thread_index() == 0)
            put_sum<T>(call, 0, total, finish);
    }
}

ON_DEVICE void
sum_whole(const struct cpu_call &call, const struct apart *apart, union sum_memory *memory, struct finish finish)
{
    if (call.compute == DTYPE_F32)
        sum_whole_as<float>(call, apart, memory, finish);
    else if (call.compute == DTYPE_F64)
        sum_whole_as<double>(call, apart, memory, finish);
    else
        sum_whole_as<uint64_t>(call, apart, memory, finish);
}

template <typename T> ON_DEVICE void
gather_whole_as(const struct cpu_call &call, const struct apart *apart, union sum_memory *memory, struct finish finish)
{
    T total = sum_of_pieces<T>(static_cast<const T *>(call.workspace), chunks_of(&apart->summed),
                               &reinterpret_cast<struct sum_room<T> *>(memory)->counter);
    if (thread_index() == 0)
        put_sum<T>(call, 0, total, finish);
}

ON_DEVICE void
gather_whole(const struct cpu_call &call, const struct apart *apart, union sum_memory *memory, struct finish finish)
{
    bool is_empty = apart->summed.count == 0;   /* over a grid of no elements the first kernel has no blocks */
    if ((!is_empty && !is_spread(call, apart)) || block_index() > 0 || thread_index() >= WARP)
        return;
    if (call.compute == DTYPE_F32)
        gather_whole_as<float>(call, apart, memory, finish);
    else if (call.compute == DTYPE_F64)
        gather_whole_as<double>(call, apart, memory, finish);
    else
        gather_whole_as<uint64_t>(call, apart, memory, finish);
}

ON_DEVICE double
elements_of_input(const struct cpu_call &call)
{
    double count = 1;
    for (int d = 0; d < call.in[0].dims; d++)
        count *= (double)call.in[0].size[d];
    return count;
}

#define SUM_OF_ALL(name, step, divides, by)                                                                        \
    KERNEL_OF(name, struct cpu_call)                                                                               \
    {                                                                                                              \
        SHARED struct apart     apart;                                                                             \
        SHARED union sum_memory memory;                                                                            \
        share_apart(call, &apart);                                                                                 \
        step(call, &apart, &memory, { divides, by });                                                              \
    }
SUM_OF_ALL(sum_of_all, sum_whole, false, 0)
SUM_OF_ALL(sum_of_all_gathered, gather_whole, false, 0)
/* The mean of nothing is NaN. */
SUM_OF_ALL(mean_of_all, sum_whole, true, elements_of_input(call))
SUM_OF_ALL(mean_of_all_gathered, gather_whole, true, elements_of_input(call))
