/* RNNCell, LSTMCell and GRUCell: one step. In PyTorch: torch/nn/modules/rnn.py. */
#include <string.h>
#include "autograd/call.h"
#include "base/str.h"
#include "nn/recurrent.h"
#include "sched/task.h"

static struct tensor *
given_state(struct task *me, const struct module *self, struct value *value, const struct tensor *x)
{
    int64_t sizes[2] = { x->size[0], self->integers[R_HIDDEN] };
    if (value == NULL || value->kind == VALUE_NONE)
        return tensor_zeros(me, x->dtype, tensor_device(x), 2, sizes);
    struct tensor *h = value->kind == VALUE_TENSOR ? value->tensor : NULL;
    if (h != NULL && h->dims == 1)
        h = tensor_unsqueeze(me, h, 0);
    if (h != NULL && h->dims == 2 && h->size[0] == sizes[0] && h->size[1] == sizes[1])
        return h;
    return failed_null(me, E_RUNTIME, "%s: the state must be a tensor of shape [%lld, %lld]", self->type->name,
                       (long long)sizes[0], (long long)sizes[1]);
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
    if (x == NULL || x->dims < 1 || x->dims > 2 || tensor_size(x, -1) != self->integers[R_INPUT])
        return failed_null(me, E_RUNTIME, "%s: the input must be a tensor of 1 or 2 dimensions, the last of size %lld",
                           self->type->name, (long long)self->integers[R_INPUT]);
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
    struct cell_state state = { given_state(me, self, parts[0], rows), NULL };
    if (lstm)
        state.c = given_state(me, self, parts[1], rows);
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
