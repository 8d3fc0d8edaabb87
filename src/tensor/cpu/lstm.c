/* The steps of an LSTM's layer; see lstm.h. A step is one product into the gates, which the input's part is already in,
 * and one pass over them; on the way back one pass and one product. The gates stay as their functions left them, so
 * that the way back works out no sigmoid again; cells are kept, their tanh is not.
 *
 * Interface: lstm_room, cpu_lstm_forward, cpu_lstm_backward. In PyTorch: ATen/native/mkldnn/RNN.cpp. */
#include "tensor/cpu/lstm.h"
#include <string.h>
#include "tensor/cpu/approximate.h"
#include "tensor/cpu/kernels.h"
#include "tensor/cpu/wide.h"

size_t
lstm_room(int64_t wide)
{
    return cpu_mm_workspace(DTYPE_F32, 4 * wide);
}

static struct cpu_view
matrix(const float *data, int64_t rows, int64_t columns)
{
    return (struct cpu_view){ .data = (void *)(uintptr_t)data, .dtype = DTYPE_F32, .dims = 2,
                              .size = { rows, columns }, .stride = { columns, 1 } };
}

static struct cpu_view
turned_matrix(const float *data, int64_t rows, int64_t columns)
{
    return (struct cpu_view){ .data = (void *)(uintptr_t)data, .dtype = DTYPE_F32, .dims = 2,
                              .size = { columns, rows }, .stride = { 1, columns } };
}

static struct cpu_call
products_of(const struct lstm_steps *s)
{
    return (struct cpu_call){ .inputs = 2, .compute = DTYPE_F32, .common = DTYPE_F32, .blas = s->blas,
                              .workspace = s->room };
}

/* Which step of time is the walk's number `at`. */
static int64_t
time_of(const struct lstm_steps *s, int64_t at)
{
    return s->turned ? s->steps - 1 - at : at;
}

/* Up to a block of a row; of a whole block without a call. */
static inline void
move(float *to, const float *from, int64_t count)
{
    if (count == BLOCK)
        memcpy(to, from, BLOCK * sizeof *to);
    else
        memcpy(to, from, (size_t)count * sizeof *to);
}

struct cells { const float *bias, *c; float *gates, *next, *h; int64_t rows, wide; };

/* c and next may be the same. */
WIDE static void
cells_forward(const struct cells *in)
{
    const int64_t rows = in->rows, wide = in->wide;
    float         x[5][BLOCK] = { { 0 } }, bias[4][BLOCK] = { { 0 } }, y[2][BLOCK];
    for (int64_t r = 0; r < rows; r++) {
        float *gates = in->gates + r * 4 * wide;
        for (int64_t j = 0; j < wide; j += BLOCK) {
            int64_t count = wide - j < BLOCK ? wide - j : BLOCK;
            for (int part = 0; part < 4; part++) {
                move(x[part], gates + part * wide + j, count);
                if (in->bias != NULL)
                    move(bias[part], in->bias + part * wide + j, count);
            }
            move(x[4], in->c + r * wide + j, count);
            for (int k = 0; k < BLOCK; k++) {
                x[0][k] = near_sigmoid(x[0][k] + bias[0][k]);
                x[1][k] = near_sigmoid(x[1][k] + bias[1][k]);
                x[2][k] = near_tanh(x[2][k] + bias[2][k]);
                x[3][k] = near_sigmoid(x[3][k] + bias[3][k]);
                y[1][k] = x[1][k] * x[4][k] + x[0][k] * x[2][k];
                y[0][k] = x[3][k] * near_tanh(y[1][k]);
            }
            for (int part = 0; part < 4; part++)
                move(gates + part * wide + j, x[part], count);
            move(in->h + r * wide + j, y[0], count);
            move(in->next + r * wide + j, y[1], count);
        }
    }
}

void
cpu_lstm_forward(void *context)
{
    const struct lstm_forward *job = context;
    const struct lstm_steps   *s = &job->s;
    const int64_t              part = s->rows * s->wide, step = job->last_only ? 0 : part;
    const float               *h = job->h;
    struct cpu_call            product = products_of(s);
    product.in[1] = turned_matrix(s->weight, 4 * s->wide, s->wide);
    memcpy(job->cells, job->c, (size_t)part * sizeof *job->cells);
    for (int64_t at = 0; at < s->steps; at++) {
        int64_t t = time_of(s, at);
        struct cells cells = { .bias = job->bias, .c = job->cells + at * step, .next = job->cells + (at + 1) * step,
                               .gates = job->gates + t * 4 * part, .h = job->out + t * part, .rows = s->rows,
                               .wide = s->wide };
        product.in[0] = matrix(h, s->rows, s->wide);
        product.out   = matrix(cells.gates, s->rows, 4 * s->wide);
        cpu_mm_add(&product);
        cells_forward(&cells);
        h = cells.h;
    }
}

struct cells_back { const float *grad, *gates, *c, *next, *dh; float *dc, *grad_gates; int64_t rows, wide; };

/* dc: in, the new cell's gradient but for what h' brings; out, the old one's. */
WIDE static void
cells_backward(const struct cells_back *in)
{
    const int64_t rows = in->rows, wide = in->wide;
    float         x[9][BLOCK] = { { 0 } }, y[5][BLOCK];
    for (int64_t r = 0; r < rows; r++) {
        const float *gates = in->gates + r * 4 * wide;
        float       *out = in->grad_gates + r * 4 * wide;
        for (int64_t j = 0; j < wide; j += BLOCK) {
            int64_t count = wide - j < BLOCK ? wide - j : BLOCK, at = r * wide + j;
            for (int part = 0; part < 4; part++)
                move(x[part], gates + part * wide + j, count);
            move(x[4], in->c + at, count);
            move(x[5], in->next + at, count);
            move(x[6], in->dh + at, count);
            move(x[7], in->dc + at, count);
            if (in->grad != NULL)
                move(x[8], in->grad + at, count);
            for (int k = 0; k < BLOCK; k++) {
                float i = x[0][k], f = x[1][k], g = x[2][k], o = x[3][k], t = near_tanh(x[5][k]);
                float dh = x[6][k] + x[8][k], dc = x[7][k] + dh * o * (1 - t * t);
                y[0][k] = dc * g * i * (1 - i);
                y[1][k] = dc * x[4][k] * f * (1 - f);
                y[2][k] = dc * i * (1 - g * g);
                y[3][k] = dh * t * o * (1 - o);
                y[4][k] = dc * f;
            }
            for (int part = 0; part < 4; part++)
                move(out + part * wide + j, y[part], count);
            move(in->dc + at, y[4], count);
        }
    }
}

void
cpu_lstm_backward(void *context)
{
    const struct lstm_backward *job = context;
    const struct lstm_steps    *s = &job->s;
    const int64_t               part = s->rows * s->wide;
    float                      *dh = job->state, *dc = job->state + part;
    struct cpu_call             product = products_of(s);
    product.in[1] = matrix(s->weight, 4 * s->wide, s->wide);
    product.out   = matrix(dh, s->rows, s->wide);
    for (int64_t at = s->steps; at-- > 0;) {
        int64_t t = time_of(s, at);
        struct cells_back cells = { .grad = job->grad != NULL ? job->grad + t * part : NULL,
                                    .gates = job->gates + t * 4 * part, .c = job->cells + at * part,
                                    .next = job->cells + (at + 1) * part, .dh = dh, .dc = dc,
                                    .grad_gates = job->grad_gates + t * 4 * part, .rows = s->rows, .wide = s->wide };
        cells_backward(&cells);
        if (at == 0 && job->skip_first)
            break;
        product.in[0] = matrix(cells.grad_gates, s->rows, 4 * s->wide);
        cpu_mm(&product);
    }
}
