/* RNNCell, LSTMCell and GRUCell: one step. In PyTorch: torch/nn/modules/rnn.py. */
#include <string.h>
#include "autograd/call.h"
#include "base/str.h"
#include "nn/recurrent.h"
#include "sched/task.h"

/* `place`: 0 is the state, 1 an LSTM's cell. `dims`: the input's. */
static bool
state_fits(struct task *me, const struct module *self, const struct tensor *h, int place, const struct tensor *rows,
           int dims)
{
    const bool two = self->integers[R_KIND] == KIND_LSTM;
    if (h->dims < 1 || h->dims > 2)
        return failed(me, E_VALUE, "%s: Expected %s to be 1D or 2D, got %dD instead", self->type->name,
                      !two ? "hidden" : place == 0 ? "hx[0]" : "hx[1]", h->dims);
    if (h->dims != dims)
        return failed(me, E_RUNTIME, "%s: Expected %dD hidden%d, as the input is, but got %dD tensor", self->type->name,
                      dims, place, h->dims);
    if (dims == 2 && h->size[0] != rows->size[0])
        return failed(me, E_RUNTIME, "%s: Input batch size %lld doesn't match hidden%d batch size %lld",
                      self->type->name, (long long)rows->size[0], place, (long long)h->size[0]);
    return tensor_size(h, -1) == self->integers[R_HIDDEN] ||
           failed(me, E_RUNTIME, "%s: hidden%d has inconsistent hidden_size: got %lld, expected %lld", self->type->name,
                  place, (long long)tensor_size(h, -1), (long long)self->integers[R_HIDDEN]);
}

static struct tensor *
given_state(struct task *me, const struct module *self, struct value *value, int place, const struct tensor *rows,
            int dims)
{
    int64_t sizes[2] = { rows->size[0], self->integers[R_HIDDEN] };
    if (value == NULL || value->kind == VALUE_NONE)
        return tensor_zeros(me, rows->dtype, tensor_device(rows), 2, sizes);
    struct tensor *h = value->kind == VALUE_TENSOR ? value->tensor : NULL;
    if (h == NULL)
        return failed_null(me, E_TYPE, "%s: hidden%d must be a tensor", self->type->name, place);
    if (!state_fits(me, self, h, place, rows, dims))
        return NULL;
    return dims == 1 ? tensor_unsqueeze(me, h, 0) : h;
}

static bool
input_fits(struct task *me, const struct module *self, const struct tensor *x)
{
    if (x->dims < 1 || x->dims > 2)
        return failed(me, E_VALUE, "%s: Expected input to be 1D or 2D, got %dD instead", self->type->name, x->dims);
    return tensor_size(x, -1) == self->integers[R_INPUT] ||
           failed(me, E_RUNTIME, "%s: input has inconsistent input_size: got %lld expected %lld", self->type->name,
                  (long long)tensor_size(x, -1), (long long)self->integers[R_INPUT]);
}

static struct value *
cell_forward(struct task *me, struct module *self, struct value *args, struct value *kwargs)
{
    struct tensor *x;
    const struct forward_call call = { self, args, kwargs };
    struct value  *given = forward_argument(me, &call, 1, "hx", false), *parts[2] = { given, NULL };
    bool           lstm = self->integers[R_KIND] == KIND_LSTM;
    if (task_failed(me) || !forward_tensor(me, &call, 0, "input", &x))
        return NULL;
    if (x == NULL)
        return failed_null(me, E_TYPE, "%s: the input must be a tensor", self->type->name);
    if (!input_fits(me, self, x))
        return NULL;
    if (lstm && given != NULL && given->kind != VALUE_NONE) {
        if ((given->kind != VALUE_TUPLE && given->kind != VALUE_LIST) || given->count != 2)
            return failed_null(me, E_TYPE, "the state of an LSTMCell is a pair: state and cell");
        memcpy(parts, given->items, sizeof parts);
    }
    bool                single = x->dims == 1;
    struct tensor      *rows = single ? tensor_unsqueeze(me, x, 0) : x;
    enum recurrent_kind kind = (enum recurrent_kind)self->integers[R_KIND];
    struct cell_weights w = { module_parameter(self, "weight_ih"), module_parameter(self, "weight_hh"),
                              module_parameter(self, "bias_ih"), module_parameter(self, "bias_hh"), NULL, NULL };
    w.hh_turned = kind != KIND_GRU ? tensor_t(me, w.hh) : NULL;
    if (rows == NULL)
        return NULL;
    struct cell_state state = { given_state(me, self, parts[0], 0, rows, x->dims), NULL };
    if (lstm)
        state.c = given_state(me, self, parts[1], 1, rows, x->dims);
    state = recurrent_step(me, kind, &w, recurrent_gates(me, kind, &w, rows), state);
    struct value *h = value_tensor(me, single ? tensor_squeeze(me, state.h, 0) : state.h);
    if (!lstm || h == NULL)
        return h;
    struct value *c = value_tensor(me, single ? tensor_squeeze(me, state.c, 0) : state.c);
    return c != NULL ? value_tuple(me, 2, (struct value *[]){ h, c }) : NULL;
}

static void
describe_cell(const struct module *self, struct str *out)
{
    str_addf(out, "%lld, %lld", (long long)self->integers[R_INPUT], (long long)self->integers[R_HIDDEN]);
    if (!self->integers[R_BIAS])
        str_add(out, ", bias=False");
    if (self->integers[R_KIND] == KIND_RELU)
        str_add(out, ", nonlinearity=relu");
}

static const struct module_type cell_types[] = {
    { "RNNCell", cell_forward, &module_plain, describe_cell, NULL },
    { "LSTMCell", cell_forward, &module_plain, describe_cell, NULL },
    { "GRUCell", cell_forward, &module_plain, describe_cell, NULL },
};

/* input_size, hidden_size, bias */
static struct module *
cell_module(struct task *me, const struct arguments *a, int type, enum recurrent_kind kind)
{
    const char *name = cell_types[type].name;
    if (!layer_positive(me, name, "input_size", a->at[0].integer[0]) ||
        !layer_positive(me, name, "hidden_size", a->at[1].integer[0]))
        return NULL;
    struct module *module = module_new(me, &cell_types[type]);
    if (module == NULL)
        return NULL;
    module->integers[R_KIND]   = kind;
    module->integers[R_INPUT]  = a->at[0].integer[0];
    module->integers[R_HIDDEN] = a->at[1].integer[0];
    module->integers[R_BIAS]   = a->at[2].integer[0];
    return recurrent_weights(me, module, "", a->dtype, a->at[0].integer[0]) ? module : NULL;
}

struct module *
make_rnn_cell(struct task *me, const struct arguments *a)
{
    const char *name = a->at[3].text;
    if (strcmp(name, "tanh") != 0 && strcmp(name, "relu") != 0)
        return failed_null(me, E_VALUE, "Unknown nonlinearity: %s", name);
    return cell_module(me, a, 0, name[0] == 't' ? KIND_TANH : KIND_RELU);
}

struct module *
make_lstm_cell(struct task *me, const struct arguments *a)
{
    return cell_module(me, a, 1, KIND_LSTM);
}

struct module *
make_gru_cell(struct task *me, const struct arguments *a)
{
    return cell_module(me, a, 2, KIND_GRU);
}
