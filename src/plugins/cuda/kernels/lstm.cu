/* The steps of an LSTM's layer, all in one launch, with the bits of the CPU's exact ones (tensor/cpu/lstm.c). Rows of the
 * batch know nothing of each other: a block takes a few of them and walks through all steps alone, so that barriers of
 * the block are all the order there is. A step is the state's product with the weight, tile by tile through shared memory,
 * and the gates' functions.
 *
 * Kernels: lstm_forward, lstm_backward. In PyTorch: ATen/native/cudnn/RNN.cpp, whose library keeps all steps on the GPU
 * as well. */
#include "plugins/cuda/kernels/device.h"
#include "tensor/cpu/approximate.h"
#include "tensor/cpu/lstm.h"

/* LSTM_DEEP: how much of a sum passes through shared memory between two barriers. */
enum { LSTM_ROWS = 8, LSTM_DEEP = 32, LSTM_STEP = LSTM_DEEP + 1 };

/* Up to so many rows, a block has only one, two, four: there are multiprocessors for more blocks. */
enum { LSTM_ROWS_ALONE = 128 };

/* Where a block is: its first row and how many it has; the step's rows of the matrices that a product is of. */
struct lstm_rows { int64_t first; int count; };

/* The factors of the step: those of the rows, and (forwards) of the weight, a thread's column beside its neighbour's. */
struct lstm_room { float row[LSTM_ROWS][LSTM_DEEP], weight[BLOCK_THREADS * LSTM_STEP]; };

ON_DEVICE struct lstm_room *
lstm_shared(void)
{
    alignas(16) SHARED float room[sizeof(struct lstm_room) / sizeof(float)];
    return reinterpret_cast<struct lstm_room *>(room);
}

ON_DEVICE int64_t
time_of(const struct lstm_steps *s, int64_t at)
{
    return s->turned ? s->steps - 1 - at : at;
}

/* LSTM_DEEP columns from k0 on of the block's rows of a matrix of `depth` columns. */
ON_DEVICE void
fetch_rows(struct lstm_room *room, const float *matrix, struct lstm_rows rows, int64_t depth, int64_t k0)
{
    for (int e = (int)thread_index(); e < LSTM_ROWS * LSTM_DEEP; e += BLOCK_THREADS) {
        const int     r = e / LSTM_DEEP;
        const int64_t k = k0 + e % LSTM_DEEP;
        if (r < rows.count && k < depth)
            room->row[r][e % LSTM_DEEP] = matrix[(rows.first + r) * depth + k];
    }
}

/* Rows j0 to j0 + BLOCK_THREADS of the weight, LSTM_DEEP columns of each. */
ON_DEVICE void
fetch_weight(struct lstm_room *room, const struct lstm_steps *s, int64_t j0, int64_t k0)
{
    for (int e = (int)thread_index(); e < BLOCK_THREADS * LSTM_DEEP; e += BLOCK_THREADS) {
        const int64_t j = j0 + e / LSTM_DEEP, k = k0 + e % LSTM_DEEP;
        if (j < 4 * s->wide && k < s->wide)
            room->weight[e / LSTM_DEEP * LSTM_STEP + e % LSTM_DEEP] = s->weight[j * s->wide + k];
    }
}

ON_DEVICE int
deep_at(int64_t depth, int64_t k0)
{
    return depth - k0 < LSTM_DEEP ? (int)(depth - k0) : (int)LSTM_DEEP;
}

/* ---- forwards ---- */

/* gates += h @ weight turned, a column a thread; sums begin at what is there. */
template <int ROWS> ON_DEVICE void
gates_of_state(const struct lstm_steps *s, struct lstm_rows rows, const float *h, float *gates)
{
    struct lstm_room *room = lstm_shared();
    for (int64_t j0 = 0; j0 < 4 * s->wide; j0 += BLOCK_THREADS) {
        const int64_t j = j0 + thread_index();
        float         sum[ROWS];
        for (int r = 0; r < ROWS; r++)
            sum[r] = r < rows.count && j < 4 * s->wide ? gates[(rows.first + r) * 4 * s->wide + j] : 0;
        for (int64_t k0 = 0; k0 < s->wide; k0 += LSTM_DEEP) {
            block_barrier();
            fetch_rows(room, h, rows, s->wide, k0);
            fetch_weight(room, s, j0, k0);
            block_barrier();
            const int deep = deep_at(s->wide, k0);
            for (int k = 0; k < deep; k++)
                for (int r = 0; r < ROWS; r++)
                    sum[r] += room->row[r][k] * room->weight[thread_index() * LSTM_STEP + k];
        }
        for (int r = 0; r < ROWS; r++)
            if (r < rows.count && j < 4 * s->wide)
                gates[(rows.first + r) * 4 * s->wide + j] = sum[r];
    }
    block_barrier();
}

struct lstm_cells { const float *bias, *c; float *gates, *next, *h; };

/* c and next may be the same. */
ON_DEVICE void
cells_forward(const struct lstm_cells *in, struct lstm_rows rows, int64_t wide)
{
    for (int64_t e = thread_index(); e < rows.count * wide; e += BLOCK_THREADS) {
        const int64_t j = e % wide, at = rows.first * wide + e;
        float        *gate = in->gates + (rows.first + e / wide) * 4 * wide + j, bias[4];
        for (int part = 0; part < 4; part++)
            bias[part] = in->bias != NULL ? in->bias[part * wide + j] : 0;
        const float i = near_sigmoid(gate[0] + bias[0]), f = near_sigmoid(gate[wide] + bias[1]);
        const float g = near_tanh(gate[2 * wide] + bias[2]), o = near_sigmoid(gate[3 * wide] + bias[3]);
        const float next = f * in->c[at] + i * g;
        gate[0]        = i;
        gate[wide]     = f;
        gate[2 * wide] = g;
        gate[3 * wide] = o;
        in->h[at]      = o * near_tanh(next);
        in->next[at]   = next;
    }
    block_barrier();
}

template <int ROWS> ON_DEVICE void
walk_forward(const struct lstm_forward *job, struct lstm_rows rows)
{
    const struct lstm_steps *s = &job->s;
    const int64_t            part = s->rows * s->wide, step = job->last_only ? 0 : part;
    const float             *h = job->h;
    for (int64_t e = thread_index(); e < rows.count * s->wide; e += BLOCK_THREADS)
        job->cells[rows.first * s->wide + e] = job->c[rows.first * s->wide + e];
    for (int64_t at = 0; at < s->steps; at++) {
        const int64_t           t = time_of(s, at);
        const struct lstm_cells cells = { job->bias, job->cells + at * step, job->gates + t * 4 * part,
                                          job->cells + (at + 1) * step, job->out + t * part };
        gates_of_state<ROWS>(s, rows, h, cells.gates);
        cells_forward(&cells, rows, s->wide);
        h = cells.h;
    }
}

/* The rows of group number `group`, of at most `each`. */
ON_DEVICE struct lstm_rows
rows_of_group(const struct lstm_steps *s, int64_t group, int each)
{
    struct lstm_rows rows;
    rows.first = group * each;
    rows.count = s->rows - rows.first < each ? (int)(s->rows - rows.first) : each;
    return rows;
}

template <int ROWS> ON_DEVICE void
groups_forward(const struct lstm_forward *job)
{
    for (int64_t group = block_index(); group * ROWS < job->s.rows; group += block_count())
        walk_forward<ROWS>(job, rows_of_group(&job->s, group, ROWS));
}

KERNEL_OF(lstm_forward, struct lstm_forward)
{
    if (call.s.rows <= LSTM_ROWS_ALONE)
        groups_forward<1>(&call);
    else if (call.s.rows <= 2 * LSTM_ROWS_ALONE)
        groups_forward<2>(&call);
    else if (call.s.rows <= 4 * LSTM_ROWS_ALONE)
        groups_forward<4>(&call);
    else
        groups_forward<LSTM_ROWS>(&call);
}

/* ---- backwards ---- */

struct lstm_cells_back { const float *grad, *gates, *c, *next, *dh; float *dc, *grad_gates; };

/* dc: in, the new cell's gradient but for what h brings; out, the old one's. */
ON_DEVICE void
cells_backward(const struct lstm_cells_back *in, struct lstm_rows rows, int64_t wide)
{
    for (int64_t e = thread_index(); e < rows.count * wide; e += BLOCK_THREADS) {
        const int64_t at = rows.first * wide + e, first = (rows.first + e / wide) * 4 * wide + e % wide;
        const float  *gate = in->gates + first;
        float        *out = in->grad_gates + first;
        const float   i = gate[0], f = gate[wide], g = gate[2 * wide], o = gate[3 * wide], t = near_tanh(in->next[at]);
        const float   dh = in->dh[at] + (in->grad != NULL ? in->grad[at] : 0);     /* -0 + 0 is 0 */
        const float   dc = in->dc[at] + dh * o * (1 - t * t);
        out[0]        = dc * g * i * (1 - i);
        out[wide]     = dc * in->c[at] * f * (1 - f);
        out[2 * wide] = dc * i * (1 - g * g);
        out[3 * wide] = dh * t * o * (1 - o);
        in->dc[at]    = dc * f;
    }
    block_barrier();
}

/* dh = grad_gates @ weight, a column a thread. */
template <int ROWS> ON_DEVICE void
state_of_gates(const struct lstm_steps *s, struct lstm_rows rows, const float *grad_gates, float *dh)
{
    struct lstm_room *room = lstm_shared();
    for (int64_t j0 = 0; j0 < s->wide; j0 += BLOCK_THREADS) {
        const int64_t j = j0 + thread_index();
        float         sum[ROWS] = { 0 };
        for (int64_t k0 = 0; k0 < 4 * s->wide; k0 += LSTM_DEEP) {
            block_barrier();
            fetch_rows(room, grad_gates, rows, 4 * s->wide, k0);
            block_barrier();
            const int deep = j < s->wide ? deep_at(4 * s->wide, k0) : 0;
            for (int k = 0; k < deep; k++) {
                const float weight = s->weight[(k0 + k) * s->wide + j];
                for (int r = 0; r < ROWS; r++)
                    sum[r] += room->row[r][k] * weight;
            }
        }
        for (int r = 0; r < ROWS; r++)
            if (r < rows.count && j < s->wide)
                dh[(rows.first + r) * s->wide + j] = sum[r];
    }
    block_barrier();
}

template <int ROWS> ON_DEVICE void
walk_back(const struct lstm_backward *job, struct lstm_rows rows)
{
    const struct lstm_steps *s = &job->s;
    const int64_t            part = s->rows * s->wide;
    float                   *dh = job->state, *dc = job->state + part;
    for (int64_t at = s->steps; at-- > 0;) {
        const int64_t                t = time_of(s, at);
        const struct lstm_cells_back cells = { job->grad != NULL ? job->grad + t * part : NULL,
                                               job->gates + t * 4 * part, job->cells + at * part,
                                               job->cells + (at + 1) * part, dh, dc, job->grad_gates + t * 4 * part };
        cells_backward(&cells, rows, s->wide);
        if (at == 0 && job->skip_first)
            break;
        state_of_gates<ROWS>(s, rows, cells.grad_gates, dh);
    }
}

template <int ROWS> ON_DEVICE void
groups_back(const struct lstm_backward *job)
{
    for (int64_t group = block_index(); group * ROWS < job->s.rows; group += block_count())
        walk_back<ROWS>(job, rows_of_group(&job->s, group, ROWS));
}

KERNEL_OF(lstm_backward, struct lstm_backward)
{
    if (call.s.rows <= LSTM_ROWS_ALONE)
        groups_back<1>(&call);
    else if (call.s.rows <= 2 * LSTM_ROWS_ALONE)
        groups_back<2>(&call);
    else if (call.s.rows <= 4 * LSTM_ROWS_ALONE)
        groups_back<4>(&call);
    else
        groups_back<LSTM_ROWS>(&call);
}
