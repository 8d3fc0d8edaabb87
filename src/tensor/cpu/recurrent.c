/* What LSTM and GRU do with their gates, in one pass, and its gradient. In PyTorch: ATen/native/RNN.cpp. */
#include <math.h>
#include <string.h>
#include "tensor/cpu/approximate.h"
#include "tensor/cpu/kernels.h"
#include "tensor/cpu/math.h"
#include "tensor/cpu/pack.h"
#include "tensor/cpu/wide.h"

static inline double
sigmoid(double x)
{
    return 1 / (1 + cpu_exp(-x));
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

#define T float
#define CELL(part) f32_##part
#define SIGMOID near_sigmoid
#define TANH near_tanh
#include "tensor/cpu/recurrent_type.def"
#define T double
#define CELL(part) f64_##part
#define SIGMOID sigmoid
#define TANH cpu_tanh
#include "tensor/cpu/recurrent_type.def"

/* in: gates [rows, 4 wide], cell. */
void
cpu_lstm_cell(const struct cpu_call *call)
{
    char       *room = call->workspace;
    const void *gates = pack_input(call, 0, &room), *c = pack_input(call, 1, &room);
    if (call->compute == DTYPE_F32)
        f32_lstm(call->out.data, gates, c, call->out.size[1], call->out.size[2]);
    else
        f64_lstm(call->out.data, gates, c, call->out.size[1], call->out.size[2]);
}

/* in: gradient [2, rows, wide], gates, cell. */
void
cpu_lstm_cell_backward(const struct cpu_call *call)
{
    char       *room = call->workspace;
    int64_t     rows = call->in[2].size[0], wide = call->in[2].size[1];
    const void *grad = pack_input(call, 0, &room), *gates = pack_input(call, 1, &room);
    const void *c = pack_input(call, 2, &room);
    if (call->compute == DTYPE_F32)
        f32_lstm_back(call->out.data, grad, gates, c, rows, wide);
    else
        f64_lstm_back(call->out.data, grad, gates, c, rows, wide);
}

/* in: gates from the input, gates from the state, state. */
void
cpu_gru_cell(const struct cpu_call *call)
{
    char       *room = call->workspace;
    const void *xs = pack_input(call, 0, &room), *hs = pack_input(call, 1, &room), *h = pack_input(call, 2, &room);
    if (call->compute == DTYPE_F32)
        f32_gru(call->out.data, xs, hs, h, call->out.size[0], call->out.size[1]);
    else
        f64_gru(call->out.data, xs, hs, h, call->out.size[0], call->out.size[1]);
}

/* in: gradient, and those three. */
void
cpu_gru_cell_backward(const struct cpu_call *call)
{
    char       *room = call->workspace;
    int64_t     rows = call->in[3].size[0], wide = call->in[3].size[1];
    const void *grad = pack_input(call, 0, &room), *xs = pack_input(call, 1, &room);
    const void *hs = pack_input(call, 2, &room), *h = pack_input(call, 3, &room);
    if (call->compute == DTYPE_F32)
        f32_gru_back(call->out.data, grad, xs, hs, h, rows, wide);
    else
        f64_gru_back(call->out.data, grad, xs, hs, h, rows, wide);
}
