/* What LSTM and GRU do with their gates, in one pass, and its gradient. In PyTorch: ATen/native/RNN.cpp. */
#include <math.h>
#include <string.h>
#include "base/both.h"
#include "base/math.h"
#include "tensor/cpu/approximate.h"
#include "tensor/cpu/kernels.h"
#include "tensor/cpu/pack.h"
#include "tensor/cpu/wide.h"

static inline double
sigmoid(double x)
{
    return 1 / (1 + math_exp(-x));
}

/* Of a whole block without a call. */
static inline void
move(void *to, const void *from, int64_t count, size_t element)
{
    if (count == BLOCK)
        memcpy(to, from, BLOCK * element);
    else
        memcpy(to, from, (size_t)count * element);
}

/* What a cell reads, as much of it as it has. gates: an LSTM's; xs, hs: a GRU's, from the input and the state. */
struct cells { const void *grad, *gates, *c, *xs, *hs, *h; int64_t rows, wide; };

#define T float
#define CELL(part) f32_##part
#define SIGMOID near_sigmoid
#define TANH near_tanh
#include "tensor/cpu/recurrent_type.def"
#define T double
#define CELL(part) f64_##part
#define SIGMOID sigmoid
#define TANH math_tanh
#include "tensor/cpu/recurrent_type.def"

/* in: gates [rows, 4 wide], cell. */
void
cpu_lstm_cell(const struct cpu_call *call)
{
    char        *room = call->workspace;
    struct cells in = { .rows = call->out.size[1], .wide = call->out.size[2] };
    in.gates = pack_input(call, 0, &room);
    in.c     = pack_input(call, 1, &room);
    if (call->compute == DTYPE_F32)
        f32_lstm(call->out.data, &in);
    else
        f64_lstm(call->out.data, &in);
}

/* in: gradient [2, rows, wide], gates, cell. */
void
cpu_lstm_cell_backward(const struct cpu_call *call)
{
    char        *room = call->workspace;
    struct cells in = { .rows = call->in[2].size[0], .wide = call->in[2].size[1] };
    in.grad  = pack_input(call, 0, &room);
    in.gates = pack_input(call, 1, &room);
    in.c     = pack_input(call, 2, &room);
    if (call->compute == DTYPE_F32)
        f32_lstm_back(call->out.data, &in);
    else
        f64_lstm_back(call->out.data, &in);
}

/* in: gates from the input, gates from the state, state. */
void
cpu_gru_cell(const struct cpu_call *call)
{
    char        *room = call->workspace;
    struct cells in = { .rows = call->out.size[0], .wide = call->out.size[1] };
    in.xs = pack_input(call, 0, &room);
    in.hs = pack_input(call, 1, &room);
    in.h  = pack_input(call, 2, &room);
    if (call->compute == DTYPE_F32)
        f32_gru(call->out.data, &in);
    else
        f64_gru(call->out.data, &in);
}

/* in: gradient, and those three. */
void
cpu_gru_cell_backward(const struct cpu_call *call)
{
    char        *room = call->workspace;
    struct cells in = { .rows = call->in[3].size[0], .wide = call->in[3].size[1] };
    in.grad = pack_input(call, 0, &room);
    in.xs   = pack_input(call, 1, &room);
    in.hs   = pack_input(call, 2, &room);
    in.h    = pack_input(call, 3, &room);
    if (call->compute == DTYPE_F32)
        f32_gru_back(call->out.data, &in);
    else
        f64_gru_back(call->out.data, &in);
}
