/* The steps of an LSTM's layer in one direction, forwards and backwards: all that cannot be done for all steps at once.
 * Matrices in one piece, float32. Steps and rows as they lie in time; a layer that is turned begins with the last. */
#ifndef TENSOR_CPU_LSTM_H
#define TENSOR_CPU_LSTM_H
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct blas;

struct lstm_steps {
    struct blas *blas;          /* NULL: products are exact */
    void        *room;          /* lstm_room bytes, for those */
    int64_t      steps, rows, wide;
    bool         turned;
    const float *weight;        /* weight_hh, [4 wide, wide] */
};
size_t lstm_room(int64_t wide);

struct lstm_forward {
    struct lstm_steps s;
    const float *bias;          /* of both, [4 wide]; NULL: none */
    const float *h, *c;         /* the first state, [rows, wide] */
    float       *gates;         /* [steps, rows, 4 wide]: what the input gives to i, f, g, o; afterwards what they are */
    float       *cells;         /* [steps + 1, rows, wide]: the first, then in order of the walk */
    bool         last_only;     /* cells is [rows, wide]: nobody will go back */
    float       *out;           /* [steps, rows, wide] */
};

struct lstm_backward {
    struct lstm_steps s;
    const float *grad;          /* of out; NULL: none came */
    const float *gates, *cells; /* as the forward left them */
    float       *grad_gates;    /* of the gates before their functions, [steps, rows, 4 wide] */
    float       *state;         /* [2, rows, wide]: gradients of the last state and cell, afterwards of the first */
    bool         skip_first;    /* nobody wants the first state's: it is left undefined */
};

/* A struct lstm_forward or lstm_backward, as it travels in a stream's entry. */
void cpu_lstm_forward(void *job);
void cpu_lstm_backward(void *job);
#endif
