/* RNN, LSTM and GRU, over sequences of equal length and over packed ones. The input's part of the gates is one product
 * for all steps; each step adds the state's. In PyTorch: torch/nn/modules/rnn.py, ATen/native/RNN.cpp. */
#include "nn/recurrent.h"
#include <math.h>
#include <stdio.h>
#include <string.h>
#include "autograd/call.h"
#include "functional/functional.h"
#include "base/str.h"
#include "device/device.h"
#include "sched/task.h"

/* ---- one step ---- */

struct cell_state
recurrent_step(struct task *me, enum recurrent_kind kind, const struct cell_weights *w, struct tensor *gates,
               struct cell_state state)
{
    struct tensor *h = state.h;
    if (gates == NULL || h == NULL)
        return (struct cell_state){ NULL, NULL };
    if (kind == KIND_GRU) {
        struct op_args args = { .in = { gates, linear(me, h, w->hh, w->hh_bias), h } };
        return (struct cell_state){ args.in[1] != NULL ? op_call(me, OP_gru_cell, &args) : NULL, NULL };
    }
    struct op_args sum = { .in = { gates, h, w->hh_turned }, .alpha = 1, .beta = 1 };
    struct tensor *all = w->hh_turned != NULL ? op_call(me, OP_addmm, &sum) : NULL;
    if (all == NULL)
        return (struct cell_state){ NULL, NULL };
    if (kind != KIND_LSTM)
        return (struct cell_state){ op_on(me, kind == KIND_TANH ? OP_tanh : OP_relu, all, NULL, 0), NULL };
    struct op_args args = { .in = { all, state.c } };
    struct tensor *both = state.c != NULL ? op_call(me, OP_lstm_cell, &args) : NULL, *part[2];
    if (!tensor_unbind(me, both, 0, part))
        return (struct cell_state){ NULL, NULL };
    return (struct cell_state){ w->hr != NULL ? linear(me, part[0], w->hr, NULL) : part[0], part[1] };
}

/* What the input gives to the gates; where the state's bias may be added at once, with it. */
struct tensor *
recurrent_gates(struct task *me, enum recurrent_kind kind, const struct cell_weights *w, struct tensor *input)
{
    struct tensor *gates = linear(me, input, w->ih, w->ih_bias);
    return kind != KIND_GRU && w->hh_bias != NULL ? tensor_add(me, gates, w->hh_bias) : gates;
}

/* ---- a layer in one direction ---- */

/* Sequences lie one step after the other; step t has rows[t] of them, never more than the one before. */
struct sequence_steps { const int64_t *rows; int64_t count; };

static struct tensor *
first_rows(struct task *me, struct tensor *tensor, int64_t from, int64_t count)
{
    if (tensor == NULL || (from == 0 && tensor->size[0] == count))
        return tensor;
    return tensor_narrow(me, tensor, 0, from, count);
}

static struct tensor *
below(struct task *me, struct tensor *upper, struct tensor *lower)
{
    return tensor_cat(me, (struct tensor *[]){ upper, lower }, 2, 0);
}

struct sequence_walk {
    enum recurrent_kind          kind;
    bool                         back;
    struct cell_weights          w;
    const struct sequence_steps *steps;
    struct tensor              **outputs, **gates;  /* by step; gates: what the input gives to them */
    struct cell_state            first, state;      /* at the start, of all rows; now */
    struct cell_state           *ended;             /* final states of sequences that have ended, shortest last */
    int64_t                      ended_count, rows;
};

static struct cell_state
state_rows(struct task *me, struct cell_state state, int64_t from, int64_t count)
{
    struct tensor *h = first_rows(me, state.h, from, count), *c = first_rows(me, state.c, from, count);
    return (struct cell_state){ h, c };
}

/* Forwards: sequences end, their state is put aside. */
static bool
let_end(struct task *me, struct sequence_walk *walk, int64_t rows)
{
    int64_t over = walk->rows - rows;
    if (over > 0) {
        walk->ended[walk->ended_count++] = state_rows(me, walk->state, rows, over);
        walk->state = state_rows(me, walk->state, 0, rows);
    }
    walk->rows = rows;
    return !task_failed(me);
}

/* Backwards: sequences begin, with their first state. */
static bool
let_begin(struct task *me, struct sequence_walk *walk, int64_t rows)
{
    int64_t more = rows - walk->rows;
    if (walk->rows == 0) {
        walk->state = state_rows(me, walk->first, 0, rows);
    } else if (more > 0) {
        walk->state.h = below(me, walk->state.h, first_rows(me, walk->first.h, walk->rows, more));
        if (walk->state.c != NULL)
            walk->state.c = below(me, walk->state.c, first_rows(me, walk->first.c, walk->rows, more));
    }
    walk->rows = rows;
    return !task_failed(me);
}

static bool
walk_steps(struct task *me, struct sequence_walk *walk)
{
    const struct sequence_steps *steps = walk->steps;
    for (int64_t i = 0; i < steps->count; i++) {
        int64_t t = walk->back ? steps->count - 1 - i : i;
        if (!(walk->back ? let_begin : let_end)(me, walk, steps->rows[t]))
            return false;
        walk->state = recurrent_step(me, walk->kind, &walk->w, walk->gates[t], walk->state);
        if (walk->state.h == NULL)
            return false;
        walk->outputs[t] = walk->state.h;
    }
    return true;
}

/* A list of pointers or numbers, zeroed, as long as me's scope. */
struct list { size_t bytes; void *items[]; };

static void
drop_list(struct task *me, void *list)
{
    host_return(me, list, ((struct list *)list)->bytes);
}

static void *
list_new(struct task *me, int64_t count)
{
    size_t       bytes = sizeof(struct list) + (size_t)count * sizeof(void *);
    struct list *list  = host_take(me, bytes);
    if (list != NULL)
        list->bytes = bytes;
    list = born(me, list, drop_list);
    return list != NULL ? list->items : NULL;
}

/* In order of rows: the longest first. */
static struct cell_state
final_state(struct task *me, struct sequence_walk *walk)
{
    struct cell_state state = walk->state;
    for (int64_t i = walk->ended_count; i-- > 0 && !task_failed(me);) {
        state.h = below(me, state.h, walk->ended[i].h);
        if (state.c != NULL)
            state.c = below(me, state.c, walk->ended[i].c);
    }
    return state;
}

/* The outputs of all steps below each other; walk->state: the final states. */
static struct tensor *
run_direction(struct task *me, struct sequence_walk *walk, struct tensor *data)
{
    const struct sequence_steps *steps = walk->steps;
    walk->state   = walk->first;
    walk->rows    = walk->back ? 0 : steps->rows[0];
    walk->outputs = list_new(me, steps->count);
    walk->gates   = list_new(me, steps->count);
    walk->ended   = list_new(me, 2 * steps->count);
    if (walk->outputs == NULL || walk->gates == NULL || walk->ended == NULL)
        return NULL;
    walk->w.hh_turned = walk->kind != KIND_GRU ? tensor_t(me, walk->w.hh) : NULL;
    struct tensor *gates = recurrent_gates(me, walk->kind, &walk->w, data);
    const struct pieces each = { .count = (int)steps->count, .lengths = steps->rows };
    if (!tensor_split(me, gates, &each, walk->gates) ||
        !walk_steps(me, walk))
        return NULL;
    walk->state = final_state(me, walk);
    return tensor_cat(me, walk->outputs, (int)steps->count, 0);
}

/* ---- all layers ---- */

static struct tensor *
weight_of(const struct module *self, const char *what, int layer, bool back)
{
    char name[48];
    snprintf(name, sizeof name, "%s_l%d%s", what, layer, back ? "_reverse" : "");
    return module_parameter(self, name);
}

static struct cell_weights
weights_of(const struct module *self, int layer, bool back)
{
    return (struct cell_weights){ weight_of(self, "weight_ih", layer, back), weight_of(self, "weight_hh", layer, back),
                                  weight_of(self, "bias_ih", layer, back), weight_of(self, "bias_hh", layer, back),
                                  weight_of(self, "weight_hr", layer, back), NULL };
}

struct whole { struct tensor *output, *h, *c; };

static struct whole
run_layers(struct task *me, const struct module *self, struct tensor *data, const struct sequence_steps *steps,
           struct cell_state first)
{
    const int64_t      *n = self->integers;
    enum recurrent_kind kind = (enum recurrent_kind)n[R_KIND];
    int                 layers = (int)n[R_LAYERS], directions = n[R_BOTH] ? 2 : 1, at = 0;
    struct tensor      *last_h[2 * R_MOST_LAYERS], *last_c[2 * R_MOST_LAYERS];
    for (int layer = 0; layer < layers; layer++) {
        struct tensor *sides[2] = { NULL, NULL };
        for (int side = 0; side < directions; side++, at++) {
            struct sequence_walk walk = { .kind = kind, .back = side == 1, .w = weights_of(self, layer, side),
                                          .steps = steps, .first.h = tensor_select(me, first.h, 0, at) };
            if (first.c != NULL)
                walk.first.c = tensor_select(me, first.c, 0, at);
            sides[side] = run_direction(me, &walk, data);
            if (sides[side] == NULL)
                return (struct whole){ NULL, NULL, NULL };
            last_h[at] = tensor_unsqueeze(me, walk.state.h, 0);
            last_c[at] = walk.state.c != NULL ? tensor_unsqueeze(me, walk.state.c, 0) : NULL;
        }
        data = directions == 2 ? tensor_cat(me, sides, 2, 1) : sides[0];
        if (layer < layers - 1)
            data = dropout(me, data, self->numbers[0], DROP_ELEMENTS, self->training);
    }
    struct tensor *h = tensor_cat(me, last_h, at, 0);
    return (struct whole){ data, h, kind == KIND_LSTM ? tensor_cat(me, last_c, at, 0) : NULL };
}

/* ---- LSTM, float32, no projection, sequences of equal length: a layer and direction is one op ---- */

static bool
is_one_op(const struct module *self, const struct tensor *x)
{
    struct cell_weights w = weights_of(self, 0, false);
    return self->integers[R_KIND] == KIND_LSTM && w.hr == NULL && x->dtype == DTYPE_F32 && w.ih->dtype == DTYPE_F32;
}

/* timed: [steps, rows, input], in one piece. */
static struct whole
run_layers_whole(struct task *me, const struct module *self, struct tensor *timed, struct cell_state first)
{
    int            layers = (int)self->integers[R_LAYERS], directions = self->integers[R_BOTH] ? 2 : 1, at = 0;
    struct tensor *last_h[2 * R_MOST_LAYERS], *last_c[2 * R_MOST_LAYERS];
    for (int layer = 0; layer < layers; layer++) {
        struct tensor *sides[2] = { NULL, NULL };
        for (int side = 0; side < directions; side++, at++) {
            struct cell_weights w = weights_of(self, layer, side);
            struct tensor      *in[LSTM_INPUTS] = { timed, w.ih, w.hh, w.ih_bias, w.hh_bias }, *out[3];
            in[LSTM_H] = tensor_select(me, first.h, 0, at);
            in[LSTM_C] = tensor_select(me, first.c, 0, at);
            if (!lstm_layer(me, in, side == 1, out))
                return (struct whole){ NULL, NULL, NULL };
            sides[side] = out[0];
            last_h[at]  = out[1];
            last_c[at]  = out[2];
        }
        timed = directions == 2 ? tensor_cat(me, sides, 2, 2) : sides[0];
        if (layer < layers - 1)
            timed = dropout(me, timed, self->numbers[0], DROP_ELEMENTS, self->training);
    }
    struct tensor *h = tensor_stack(me, last_h, at, 0);
    return (struct whole){ timed, h, tensor_stack(me, last_c, at, 0) };
}

/* ---- the state that is given ---- */

static struct tensor *
zero_state(struct task *me, const struct module *self, const struct tensor *like, int64_t rows, int64_t wide)
{
    int64_t sizes[3] = { self->integers[R_LAYERS] * (self->integers[R_BOTH] ? 2 : 1), rows, wide };
    return tensor_zeros(me, like->dtype, tensor_device(like), 3, sizes);
}

/* What was given, one tensor, of an LSTM two; answers how many. 0: failed. */
static int
state_parts(struct task *me, const struct module *self, struct value *given, struct tensor **parts)
{
    bool two = self->integers[R_KIND] == KIND_LSTM;
    if (two && ((given->kind != VALUE_TUPLE && given->kind != VALUE_LIST) || given->count != 2))
        return failed(me, E_TYPE, "the state of an LSTM is a pair: state and cell");
    for (int i = 0; i < 1 + two; i++) {
        const struct value *part = two ? given->items[i] : given;
        if (part == NULL || part->kind != VALUE_TENSOR)
            return failed(me, E_TYPE, "the state of a recurrent layer must be a tensor, of an LSTM two of them");
        parts[i] = part->tensor;
    }
    return 1 + two;
}

static bool
state_dims_fit(struct task *me, struct tensor *const *parts, int count, int dims)
{
    const char *input = dims == 3 ? "batched 3-D" : "unbatched 2-D";
    if (parts[0]->dims == dims && parts[count - 1]->dims == dims)
        return true;
    if (count == 1)
        return failed(me, E_RUNTIME, "For %s input, hx should also be %d-D but got %d-D tensor", input, dims,
                      parts[0]->dims);
    return failed(me, E_RUNTIME, "For %s input, hx and cx should also be %d-D but got (%d-D, %d-D) tensors", input,
                  dims, parts[0]->dims, parts[1]->dims);
}

/* One without a batch gets one of 1. */
static struct tensor *
state_sized(struct task *me, struct tensor *tensor, const int64_t *size, const char *name)
{
    if (tensor == NULL || (tensor->dims == 3 && memcmp(tensor->size, size, 3 * sizeof *size) == 0))
        return tensor;
    return failed_null(me, E_RUNTIME, "Expected %s size (%lld, %lld, %lld), got %s", name, (long long)size[0],
                       (long long)size[1], (long long)size[2], shape_text(tensor).text);
}

/* For what runs as `rows` sequences; `dims`: the input's, 0: it is packed. LSTM: (h, c). h NULL: failed. */
static struct cell_state
take_state(struct task *me, const struct module *self, struct value *given, const struct tensor *like, int64_t rows,
           int dims)
{
    const struct cell_state none = { NULL, NULL };
    const int64_t *n     = self->integers;
    int64_t        shown = n[R_PROJECTED] > 0 ? n[R_PROJECTED] : n[R_HIDDEN];
    bool           two   = n[R_KIND] == KIND_LSTM;
    if (given == NULL || given->kind == VALUE_NONE) {
        struct cell_state zeros = { zero_state(me, self, like, rows, shown), NULL };
        if (two)
            zeros.c = zero_state(me, self, like, rows, n[R_HIDDEN]);
        return two && zeros.c == NULL ? none : zeros;
    }
    struct tensor *parts[2] = { NULL, NULL };
    int            count    = state_parts(me, self, given, parts);
    if (count == 0 || (dims != 0 && !state_dims_fit(me, parts, count, dims)))
        return none;
    int64_t size[3] = { n[R_LAYERS] * (n[R_BOTH] ? 2 : 1), rows, shown };
    for (int i = 0; i < count; i++) {
        if (dims == 2)
            parts[i] = tensor_unsqueeze(me, parts[i], 1);
        size[2]  = i == 0 ? shown : n[R_HIDDEN];
        parts[i] = state_sized(me, parts[i], size, !two ? "hidden" : i == 0 ? "hidden[0]" : "hidden[1]");
        if (parts[i] == NULL)
            return none;
    }
    return (struct cell_state){ parts[0], parts[1] };
}

/* ---- forward ---- */

static struct value *
recurrent_answer(struct task *me, struct value *output, struct tensor *h, struct tensor *c)
{
    struct value *items[2] = { value_tensor(me, h), c != NULL ? value_tensor(me, c) : NULL };
    struct value *last = c != NULL ? value_tuple(me, 2, items) : items[0];
    if (output == NULL || h == NULL || last == NULL)
        return NULL;
    return value_tuple(me, 2, (struct value *[]){ output, last });
}

static int64_t *
equal_rows(struct task *me, int64_t steps, int64_t rows)
{
    int64_t *list = list_new(me, steps);
    for (int64_t t = 0; list != NULL && t < steps; t++)
        list[t] = rows;
    return list;
}

static bool
input_is_wide(struct task *me, const struct module *self, const struct tensor *x)
{
    return tensor_size(x, -1) == self->integers[R_INPUT] ||
           failed(me, E_RUNTIME, "%s: input.size(-1) must be equal to input_size. Expected %lld, got %lld",
                  self->type->name, (long long)self->integers[R_INPUT], (long long)tensor_size(x, -1));
}

static bool
input_fits(struct task *me, const struct module *self, const struct tensor *x)
{
    const struct tensor *weight = module_parameter(self, "weight_ih_l0");
    if (x->dims < 2 || x->dims > 3)
        return failed(me, E_VALUE, "%s: Expected input to be 2D or 3D, got %dD instead", self->type->name, x->dims);
    if (weight != NULL && weight->dtype != x->dtype)
        return failed(me, E_VALUE, "%s: the input is %s and the weights are %s: convert one of them", self->type->name,
                      dtype_name(x->dtype), dtype_name(weight->dtype));
    return input_is_wide(me, self, x);
}

static struct tensor *
in_one_piece(struct task *me, struct tensor *tensor)
{
    return tensor == NULL || tensor_is_contiguous(tensor) ? tensor : tensor_copied(me, tensor);
}

static struct whole
run_layers_flat(struct task *me, const struct module *self, struct tensor *timed, struct cell_state first)
{
    int64_t length = tensor_size(timed, 0), rows = tensor_size(timed, 1);
    struct sequence_steps steps = { equal_rows(me, length, rows), length };
    struct tensor *flat = tensor_reshape(me, timed, 2, (const int64_t[]){ length * rows, tensor_size(timed, 2) });
    if (steps.rows == NULL || flat == NULL)
        return (struct whole){ NULL, NULL, NULL };
    struct whole whole = run_layers(me, self, flat, &steps, first);
    int64_t      sizes[3] = { length, rows, tensor_size(whole.output, 1) };
    whole.output = tensor_reshape(me, whole.output, 3, sizes);
    return whole;
}

static struct value *
dense_forward(struct task *me, struct module *self, struct tensor *x, struct value *state)
{
    bool single = x->dims == 2, swapped = self->integers[R_BATCH_FIRST] && !single;
    if (!input_fits(me, self, x))
        return NULL;
    struct tensor *timed = single ? tensor_unsqueeze(me, x, 1) : swapped ? tensor_transpose(me, x, 0, 1) : x;
    int64_t        length = tensor_size(timed, 0), rows = tensor_size(timed, 1);
    if (length < 1)
        return failed_null(me, E_RUNTIME, "Expected sequence length to be larger than 0 in RNN");
    struct cell_state first = take_state(me, self, state, x, rows, x->dims);
    if (first.h == NULL)
        return NULL;
    struct whole   whole = is_one_op(self, x) ? run_layers_whole(me, self, in_one_piece(me, timed), first)
                                              : run_layers_flat(me, self, timed, first);
    struct tensor *output = whole.output;
    if (single) {
        output  = tensor_squeeze(me, output, 1);
        whole.h = tensor_squeeze(me, whole.h, 1);
        whole.c = tensor_squeeze(me, whole.c, 1);
    }
    if (swapped)
        output = tensor_transpose(me, output, 0, 1);
    return recurrent_answer(me, value_tensor(me, output), whole.h, whole.c);
}

static struct tensor *
reordered(struct task *me, struct tensor *tensor, struct value *order)
{
    if (tensor == NULL || order->kind != VALUE_TENSOR)
        return tensor;
    return tensor_index_select(me, OP_index_select, tensor, 1, order->tensor);
}

/* What pack_padded_sequence made: data, batch_sizes, sorted_indices, unsorted_indices. */
static struct value *
packed_forward(struct task *me, struct module *self, struct value *packed, struct value *state)
{
    struct tensor *data = packed->items[0]->tensor, *sizes = packed->items[1]->tensor;
    if (packed->items[0]->kind != VALUE_TENSOR || packed->items[1]->kind != VALUE_TENSOR || data->dims != 2 ||
        sizes->dims != 1 || sizes->dtype != DTYPE_I64 || sizes->size[0] < 1)
        return failed_null(me, E_TYPE, "%s: this is no packed sequence", self->type->name);
    int64_t              *rows = equal_rows(me, sizes->size[0], 0), total = 0;
    struct sequence_steps steps = { rows, sizes->size[0] };
    if (rows == NULL || !tensor_read(me, sizes, rows))
        return NULL;
    for (int64_t t = 0; t < steps.count; t++) {
        if (rows[t] < 1 || (t > 0 && rows[t] > rows[t - 1]))
            return failed_null(me, E_RUNTIME, "batch sizes of a packed sequence must not grow and not be 0");
        total += rows[t];
    }
    if (total != data->size[0])
        return failed_null(me, E_RUNTIME, "%s: expected packed data of %lld rows, as its batch sizes say, got %s",
                           self->type->name, (long long)total, shape_text(data).text);
    if (!input_is_wide(me, self, data))
        return NULL;
    struct cell_state first = take_state(me, self, state, data, rows[0], 0);
    if (first.h == NULL)
        return NULL;
    first.h = reordered(me, first.h, packed->items[2]);
    first.c = reordered(me, first.c, packed->items[2]);
    struct whole  whole = run_layers(me, self, data, &steps, first);
    struct value *items[4] = { value_tensor(me, whole.output), packed->items[1], packed->items[2], packed->items[3] };
    struct value *output = items[0] != NULL ? value_like(me, packed, 4, items) : NULL;
    whole.h = reordered(me, whole.h, packed->items[3]);
    return recurrent_answer(me, output, whole.h, reordered(me, whole.c, packed->items[3]));
}

static struct value *
recurrent_forward(struct task *me, struct module *self, struct value *args, struct value *kwargs)
{
    const struct forward_call call = { self, args, kwargs };
    struct value *input = forward_argument(me, &call, 0, "input", true);
    struct value *state = forward_argument(me, &call, 1, "hx", false);
    if (input == NULL || task_failed(me))
        return NULL;
    if (input->kind == VALUE_TENSOR)
        return dense_forward(me, self, input->tensor, state);
    if (input->kind == VALUE_NAMEDTUPLE && input->count == 4 && strcmp(input->text, "PackedSequence") == 0)
        return packed_forward(me, self, input, state);
    return failed_null(me, E_TYPE, "%s: the input must be a tensor or a packed sequence", self->type->name);
}

/* ---- making ---- */

static void
describe_recurrent(const struct module *self, struct str *out)
{
    const int64_t *n = self->integers;
    str_addf(out, "%lld, %lld", (long long)n[R_INPUT], (long long)n[R_HIDDEN]);
    if (n[R_PROJECTED] > 0)
        str_addf(out, ", proj_size=%lld", (long long)n[R_PROJECTED]);
    if (n[R_LAYERS] != 1)
        str_addf(out, ", num_layers=%lld", (long long)n[R_LAYERS]);
    if (!n[R_BIAS])
        str_add(out, ", bias=False");
    if (n[R_BATCH_FIRST])
        str_add(out, ", batch_first=True");
    if (self->numbers[0] != 0)
        str_addf(out, ", dropout=%g", self->numbers[0]);
    if (n[R_BOTH])
        str_add(out, ", bidirectional=True");
}

static const struct module_attribute attributes[] = {
    { "input_size", ATTRIBUTE_INTEGER, R_INPUT },  { "hidden_size", ATTRIBUTE_INTEGER, R_HIDDEN },
    { "num_layers", ATTRIBUTE_INTEGER, R_LAYERS }, { "bias", ATTRIBUTE_FLAG, R_BIAS },
    { "batch_first", ATTRIBUTE_FLAG, R_BATCH_FIRST }, { "bidirectional", ATTRIBUTE_FLAG, R_BOTH },
    { .name = NULL },
};
static const struct module_type recurrent_types[] = {
    { "RNN", recurrent_forward, &module_plain, describe_recurrent, attributes },
    { "LSTM", recurrent_forward, &module_plain, describe_recurrent, attributes },
    { "GRU", recurrent_forward, &module_plain, describe_recurrent, attributes },
};

/* In the order in which PyTorch draws and lists them. */
bool
recurrent_weights(struct task *me, struct module *module, const char *suffix, enum dtype dtype, int64_t input)
{
    const int64_t *n = module->integers;
    int64_t        gates = n[R_KIND] == KIND_LSTM ? 4 : n[R_KIND] == KIND_GRU ? 3 : 1;
    int64_t        rows = gates * n[R_HIDDEN], shown = n[R_PROJECTED] > 0 ? n[R_PROJECTED] : n[R_HIDDEN];
    double         bound = 1 / sqrt((double)n[R_HIDDEN]);
    const struct { const char *name; int dims; int64_t size[2]; bool there; } parts[] = {
        { "weight_ih", 2, { rows, input }, true },          { "weight_hh", 2, { rows, shown }, true },
        { "bias_ih", 1, { rows, 0 }, n[R_BIAS] != 0 },      { "bias_hh", 1, { rows, 0 }, n[R_BIAS] != 0 },
        { "weight_hr", 2, { shown, n[R_HIDDEN] }, n[R_PROJECTED] > 0 },
    };
    for (size_t i = 0; i < sizeof parts / sizeof *parts; i++) {
        char name[64];
        snprintf(name, sizeof name, "%s%s", parts[i].name, suffix);
        const struct layer_shape shape = { dtype, parts[i].dims, parts[i].size };
        if (parts[i].there && layer_parameter(me, module, name, &shape, bound) == NULL)
            return false;
    }
    return true;
}

static bool
recurrent_fits(struct task *me, const struct module *module)
{
    const int64_t *n = module->integers;
    const char    *name = module->type->name;
    if (!layer_positive(me, name, "input_size", n[R_INPUT]) || !layer_positive(me, name, "hidden_size", n[R_HIDDEN]) ||
        !layer_positive(me, name, "num_layers", n[R_LAYERS]))
        return false;
    if (n[R_LAYERS] > R_MOST_LAYERS)
        return failed(me, E_VALUE, "%s: at most %d layers", name, R_MOST_LAYERS);
    if (n[R_PROJECTED] < 0 || n[R_PROJECTED] >= n[R_HIDDEN])
        return failed(me, E_VALUE, "proj_size has to be smaller than hidden_size, got %lld and %lld",
                      (long long)n[R_PROJECTED], (long long)n[R_HIDDEN]);
    double p = module->numbers[0];
    return (p >= 0 && p <= 1) || failed(me, E_VALUE, "dropout should be a number in range [0, 1], got %g", p);
}

/* input_size, hidden_size, num_layers, bias, batch_first, dropout, bidirectional; then the kind's own */
static struct module *
recurrent(struct task *me, const struct arguments *a, int type, enum recurrent_kind kind, int64_t projected)
{
    struct module *module = module_new(me, &recurrent_types[type]);
    if (module == NULL)
        return NULL;
    int64_t *n = module->integers;
    n[R_KIND]        = kind;
    n[R_INPUT]       = a->at[0].integer[0];
    n[R_HIDDEN]      = a->at[1].integer[0];
    n[R_LAYERS]      = a->at[2].integer[0];
    n[R_BIAS]        = a->at[3].integer[0];
    n[R_BATCH_FIRST] = a->at[4].integer[0];
    n[R_BOTH]        = a->at[6].integer[0];
    n[R_PROJECTED]   = projected;
    module->numbers[0] = a->at[5].number;
    if (!recurrent_fits(me, module))
        return NULL;
    int64_t shown = projected > 0 ? projected : n[R_HIDDEN];
    for (int layer = 0; layer < n[R_LAYERS]; layer++) {
        for (int side = 0; side < (n[R_BOTH] ? 2 : 1); side++) {
            char suffix[32];
            snprintf(suffix, sizeof suffix, "_l%d%s", layer, side ? "_reverse" : "");
            int64_t input = layer == 0 ? n[R_INPUT] : shown * (n[R_BOTH] ? 2 : 1);
            if (!recurrent_weights(me, module, suffix, a->dtype, input))
                return NULL;
        }
    }
    return module;
}

struct module *
make_rnn(struct task *me, const struct arguments *a)
{
    const char *name = a->at[7].text;
    if (strcmp(name, "tanh") != 0 && strcmp(name, "relu") != 0)
        return failed_null(me, E_VALUE, "Unknown nonlinearity '%s'", name);
    return recurrent(me, a, 0, name[0] == 't' ? KIND_TANH : KIND_RELU, 0);
}

struct module *
make_lstm(struct task *me, const struct arguments *a)
{
    return recurrent(me, a, 1, KIND_LSTM, a->at[7].integer[0]);
}

struct module *
make_gru(struct task *me, const struct arguments *a)
{
    return recurrent(me, a, 2, KIND_GRU, 0);
}
