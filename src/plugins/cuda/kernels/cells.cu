/* LSTM's and GRU's cells and their gradients: a thread for each element of the state; the arithmetic is that of
 * tensor/cpu/cell_type.def, the operands are those of tensor/cpu/recurrent.c.
 *
 * In PyTorch: ATen/native/cuda/RNN.cu. */
#include "plugins/cuda/kernels/places.h"
#include "plugins/cuda/kernels/reals.h"

#define SIGMOID real_sigmoid
#define TANH real_tanh
#define CELL(part) part
template <typename Real> struct Cell;
template <> struct Cell<float> {
#define T float
#include "tensor/cpu/cell_type.def"
#undef T
};
template <> struct Cell<double> {
#define T double
#include "tensor/cpu/cell_type.def"
#undef T
};

/* in: gates [rows, 4 wide], cell. The result's first part is the state, its second the cell. */
template <typename Real> ON_DEVICE void
lstm(const struct cpu_call &call)
{
    Elements<Real> gates = elements<Real>(call, 0), c = elements<Real>(call, 1);
    int64_t        rows = call.out.size[1], wide = call.out.size[2], count = rows * wide;
    Real          *out = static_cast<Real *>(call.out.data);
    for (int64_t i = first_item(); i < count; i += item_step()) {
        int64_t gate = i + 3 * wide * quotient(i, wide); /* of i; those of f, g, o are `wide` apart */
        Real    next = Cell<Real>::lstm_next(gates[gate], gates[gate + wide], gates[gate + 2 * wide], c[i]);
        out[i]         = Cell<Real>::lstm_state(gates[gate + 3 * wide], next);
        out[count + i] = next;
    }
}

/* in: gradient [2, rows, wide], gates, cell. The result: rows of the gates' gradients and, behind them, the old
 * cell's. */
template <typename Real> ON_DEVICE void
lstm_back(const struct cpu_call &call)
{
    Elements<Real> grad = elements<Real>(call, 0), gates = elements<Real>(call, 1), c = elements<Real>(call, 2);
    int64_t        rows = call.in[2].size[0], wide = call.in[2].size[1], count = rows * wide;
    for (int64_t i = first_item(); i < count; i += item_step()) {
        int64_t row = quotient(i, wide), gate = i + 3 * wide * row;
        auto    d = Cell<Real>::lstm_back_one(gates[gate], gates[gate + wide], gates[gate + 2 * wide],
                                              gates[gate + 3 * wide], c[i], grad[i], grad[count + i]);
        Real   *out = static_cast<Real *>(call.out.data) + i + 4 * wide * row;
        out[0]        = d.i;
        out[wide]     = d.f;
        out[2 * wide] = d.g;
        out[3 * wide] = d.o;
        out[4 * wide] = d.c;
    }
}

/* in: gates from the input, gates from the state (rows of r, z, n), state. */
template <typename Real> ON_DEVICE void
gru(const struct cpu_call &call)
{
    Elements<Real> xs = elements<Real>(call, 0), hs = elements<Real>(call, 1), h = elements<Real>(call, 2);
    int64_t        rows = call.out.size[0], wide = call.out.size[1];
    for (int64_t i = first_item(); i < rows * wide; i += item_step()) {
        int64_t gate = i + 2 * wide * quotient(i, wide);
        static_cast<Real *>(call.out.data)[i] =
            Cell<Real>::gru_next(xs[gate], xs[gate + wide], xs[gate + 2 * wide], hs[gate], hs[gate + wide],
                                 hs[gate + 2 * wide], h[i]);
    }
}

/* in: gradient, and those three. The result: rows of the gradients of both kinds of gates and of the state. */
template <typename Real> ON_DEVICE void
gru_back(const struct cpu_call &call)
{
    Elements<Real> grad = elements<Real>(call, 0), xs = elements<Real>(call, 1), hs = elements<Real>(call, 2);
    Elements<Real> h = elements<Real>(call, 3);
    int64_t        rows = call.in[3].size[0], wide = call.in[3].size[1];
    for (int64_t i = first_item(); i < rows * wide; i += item_step()) {
        int64_t row = quotient(i, wide), gate = i + 2 * wide * row;
        auto    d = Cell<Real>::gru_back_one(xs[gate], xs[gate + wide], xs[gate + 2 * wide], hs[gate], hs[gate + wide],
                                             hs[gate + 2 * wide], h[i], grad[i]);
        Real   *out = static_cast<Real *>(call.out.data) + i + 6 * wide * row;
        out[0] = out[3 * wide] = d.r;
        out[wide] = out[4 * wide] = d.z;
        out[2 * wide] = d.n;
        out[5 * wide] = d.inner;
        out[6 * wide] = d.h;
    }
}

KERNEL_OF(lstm_cell, struct cpu_call)
{
    if (call.compute == DTYPE_F32)
        lstm<float>(call);
    else
        lstm<double>(call);
}

KERNEL_OF(lstm_cell_backward, struct cpu_call)
{
    if (call.compute == DTYPE_F32)
        lstm_back<float>(call);
    else
        lstm_back<double>(call);
}

KERNEL_OF(gru_cell, struct cpu_call)
{
    if (call.compute == DTYPE_F32)
        gru<float>(call);
    else
        gru<double>(call);
}

KERNEL_OF(gru_cell_backward, struct cpu_call)
{
    if (call.compute == DTYPE_F32)
        gru_back<float>(call);
    else
        gru_back<double>(call);
}
