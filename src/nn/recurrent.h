/* What recurrent layers (recurrent.c) and cells (cell.c) share. */
#ifndef NN_RECURRENT_H
#define NN_RECURRENT_H
#include "nn/layer.h"

enum recurrent_kind { KIND_TANH, KIND_RELU, KIND_LSTM, KIND_GRU };
/* Places in module->integers. */
enum { R_KIND, R_INPUT, R_HIDDEN, R_LAYERS, R_BIAS, R_BATCH_FIRST, R_BOTH, R_PROJECTED };
enum { R_MOST_LAYERS = 64 };

/* hh_turned: hh.t(), not of GRU */
struct cell_weights { struct tensor *ih, *hh, *ih_bias, *hh_bias, *hr, *hh_turned; };
struct cell_state   { struct tensor *h, *c; };                                        /* c: LSTM's */

struct tensor    *recurrent_gates(struct task *me, enum recurrent_kind kind, const struct cell_weights *weights,
                                  struct tensor *input);
/* `gates` is what recurrent_gates gave for these rows. h NULL: failed. */
struct cell_state recurrent_step(struct task *me, enum recurrent_kind kind, const struct cell_weights *weights,
                                 struct tensor *gates, struct cell_state state);
/* The kind and what a layer gives must be in module->integers. */
bool recurrent_weights(struct task *me, struct module *module, const char *suffix, enum dtype dtype, int64_t input);
#endif
