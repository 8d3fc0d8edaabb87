/* Running all steps of an LSTM's layer in one direction, forwards and backwards. What can be done for all steps at once
 * is a product of its own, free of charge; the walk over the steps (cpu/lstm.c) has the op's price. They write several
 * tensors, so they arrange themselves.
 *
 * Interface: run_lstm_layer, run_lstm_layer_backward (rules.def). In PyTorch: ATen/native/mkldnn/RNN.cpp. */
#include "tensor/cpu/lstm.h"
#include <string.h>
#include "device/claims.h"
#include "sched/account.h"
#include "sched/sched.h"
#include "sched/stage.h"
#include "tensor/internal.h"
#include "tensor/queued.h"

_Static_assert(sizeof(struct lstm_forward) <= STREAM_CONTEXT && sizeof(struct lstm_backward) <= STREAM_CONTEXT,
               "a job fits into an entry");

_Static_assert((int)LSTM_BACK_INPUTS <= (int)LSTM_INPUTS, "one list holds either");

/* ---- what it takes ---- */

static bool
want_sizes(struct task *me, enum op op, const struct tensor *tensor, int dims, const int64_t *sizes)
{
    struct tensor wanted = { .dims = dims };
    memcpy(wanted.size, sizes, (size_t)dims * sizeof *sizes);
    if (tensor->dtype != DTYPE_F32)
        return failed(me, E_DTYPE, "%s: expected tensors of float32, got one of %s", op_info(op)->name,
                      dtype_name(tensor->dtype));
    return tensor_same_shape(tensor, &wanted) ||
           shape_mismatch(me, op, tensor, &wanted, "the first must have the second's shape");
}

/* All there on one device. absent: bit i: in[i] may be NULL. false without a word: an operand was NULL. */
static bool
want_together(struct task *me, enum op op, struct tensor *const *in, int count, unsigned absent)
{
    struct tensor *there[LSTM_INPUTS];
    int            found = 0, device;
    for (int i = 0; i < count; i++) {
        if (in[i] != NULL)
            there[found++] = in[i];
        else if (!(absent >> i & 1))
            return false;
    }
    return common_device(me, op, there, found, &device);
}

static bool
layer_fits(struct task *me, struct tensor *const *in)
{
    const enum op op = OP_lstm_layer;
    if (!want_together(me, op, in, LSTM_INPUTS, 1u << LSTM_IH_BIAS | 1u << LSTM_HH_BIAS))
        return false;
    const struct tensor *x = in[LSTM_INPUT];
    if (x->dims != 3 || x->size[0] < 1 || in[LSTM_HH]->dims != 2)
        return failed(me, E_SHAPE, "lstm_layer: expected an input of 3 dimensions and a matrix for the state, got "
                      "%s and %s", shape_text(x).text, shape_text(in[LSTM_HH]).text);
    int64_t rows = x->size[1], wide = in[LSTM_HH]->size[1];
    for (int i = LSTM_IH_BIAS; i <= LSTM_HH_BIAS; i++)
        if (in[i] != NULL && !want_sizes(me, op, in[i], 1, (const int64_t[]){ 4 * wide }))
            return false;
    return want_sizes(me, op, x, 3, x->size) &&
           want_sizes(me, op, in[LSTM_IH], 2, (const int64_t[]){ 4 * wide, x->size[2] }) &&
           want_sizes(me, op, in[LSTM_HH], 2, (const int64_t[]){ 4 * wide, wide }) &&
           want_sizes(me, op, in[LSTM_H], 2, (const int64_t[]){ rows, wide }) &&
           want_sizes(me, op, in[LSTM_C], 2, (const int64_t[]){ rows, wide });
}

static bool
gradients_fit(struct task *me, struct tensor *const *in)
{
    const enum op op = OP_lstm_layer_backward;
    if (!want_together(me, op, in, LSTM_BACK_INPUTS, 1u << LSTM_GRAD | 1u << LSTM_GRAD_H | 1u << LSTM_GRAD_C))
        return false;
    const struct tensor *gates = in[LSTM_GATES];
    if (gates->dims != 3 || in[LSTM_BACK_HH]->dims != 2)
        return failed(me, E_SHAPE, "lstm_layer_backward: expected gates of 3 dimensions and a matrix for the state, "
                      "got %s and %s", shape_text(gates).text, shape_text(in[LSTM_BACK_HH]).text);
    int64_t steps = gates->size[0], rows = gates->size[1], wide = in[LSTM_BACK_HH]->size[1];
    if (in[LSTM_GRAD] != NULL && !want_sizes(me, op, in[LSTM_GRAD], 3, (const int64_t[]){ steps, rows, wide }))
        return false;
    for (int i = LSTM_GRAD_H; i <= LSTM_GRAD_C; i++)
        if (in[i] != NULL && !want_sizes(me, op, in[i], 2, (const int64_t[]){ rows, wide }))
            return false;
    return want_sizes(me, op, gates, 3, (const int64_t[]){ steps, rows, 4 * wide }) &&
           want_sizes(me, op, in[LSTM_BACK_HH], 2, (const int64_t[]){ 4 * wide, wide }) &&
           want_sizes(me, op, in[LSTM_CELLS], 3, (const int64_t[]){ steps + 1, rows, wide });
}

/* ---- the walk over the steps ---- */

enum { WALK_TENSORS = STREAM_ACCESSES - 1 }; /* and the room of exact products */

/* tensors: those that the job reads, then, from `written` on, those that it writes. */
struct walk {
    enum op        op;
    const char    *module;
    struct tensor *tensors[WALK_TENSORS];
    int            count, written;
    struct storage *room;
    void         (*effect)(void *job);
    bool         (*enqueue)(const struct device_queue *queue, void *job);
    void          *job;
    size_t         job_bytes;
};

/* NULL is passed over. */
static const float *
walk_takes(struct walk *walk, struct tensor *tensor)
{
    if (tensor == NULL)
        return NULL;
    walk->tensors[walk->count++] = tensor;
    return (const float *)tensor->storage->data + tensor->offset;
}

static float *
walk_writes(struct walk *walk, struct tensor *tensor)
{
    walk->tensors[walk->count++] = tensor;
    return (float *)tensor->storage->data + tensor->offset;
}

static bool
walk_on_host(struct task *me, struct walk *walk)
{
    op_pay_host(me, walk->op, walk->module);
    for (int i = 0; i < walk->count; i++) {
        if (!me->actor.on && !storage_is_claimed(walk->tensors[i]->storage))
            continue;
        struct access access = tensor_access(walk->tensors[i], i >= walk->written, op_info(walk->op)->name);
        if (!storage_access_by_host(me, &access))
            return false;
    }
    walk->effect(walk->job);
    for (int i = walk->written; i < walk->count; i++)
        if (!tensor_wrote(me, walk->tensors[i], op_info(walk->op)->name))
            return false;
    return true;
}

static bool
walk_on_device(struct task *me, struct walk *walk)
{
    struct tensor *result = walk->tensors[walk->written];
    struct stream *stream = stream_current(me, tensor_device(result));
    if (stream == NULL)
        return false;
    const char         *name  = op_info(walk->op)->name;
    struct price        price = op_price(me, walk->op, walk->module);
    struct stream_entry entry = {
        .kind = KIND_kernel,
        .args = { stage_name_id(me, name), result->storage->number, tensor_bytes(result) },
        .price = price.kernel, .covered = price.covered,
        .effect = walk->effect, .enqueue = walk->enqueue, .context = walk->job, .context_bytes = walk->job_bytes,
        .written = tensor_written(result),
    };
    for (int i = 0; i < walk->count; i++)
        entry.accesses[i] = tensor_access(walk->tensors[i], i >= walk->written, name);
    entry.accesses[walk->count] = storage_access(walk->room, true, name);
    entry.access_count = walk->count + 1;
    return stream_launch(me, stream, &entry);
}

/* The products of all steps, and one pass over the gates. */
static bool
charge_walk(struct task *me, const struct lstm_steps *s)
{
    double gates = 4.0 * (double)s->steps * (double)s->rows * (double)s->wide;
    double steps = gates * (double)s->wide / WORK_PRODUCTS + gates / WORK_ELEMENTS;
    return task_work(me, WORK_OP + (steps < 0x1p62 ? (uint64_t)steps : (uint64_t)1 << 62));
}

/* sizes: steps, rows, wide. */
static struct lstm_steps
steps_of(const struct op_args *args, const int64_t *sizes)
{
    return (struct lstm_steps){ .steps = sizes[0], .rows = sizes[1], .wide = sizes[2], .turned = args->start == 1 };
}

static bool
walk_run(struct task *me, struct walk *walk, struct lstm_steps *s)
{
    int device = tensor_device(walk->tensors[walk->written]);
    walk->room = charge_walk(me, s) ? storage_new_hidden(me, device, lstm_room(s->wide)) : NULL;
    if (walk->room == NULL)
        return false;
    s->room = walk->room->data;
    s->blas = sched_part(me->sched, PART_PRODUCTS);
    bool done = device == DEVICE_CPU ? walk_on_host(me, walk) : walk_on_device(me, walk);
    storage_unref(me, walk->room);
    return done;
}

/* ---- forwards ---- */

/* One free step of the op. */
static struct tensor *
applied(struct task *me, enum op op, struct tensor *a, struct tensor *b)
{
    struct op_args args = { .in = { a, b }, .alpha = 1, .module = "" };
    return op_run(me, op, &args);
}

static struct tensor *
in_one_piece(struct task *me, struct tensor *tensor)
{
    return tensor == NULL || tensor_is_contiguous(tensor) ? tensor : applied(me, OP_clone, tensor, NULL);
}

static struct tensor *
viewed(struct task *me, struct tensor *a, int dims, const int64_t *sizes)
{
    struct op_args args = { .in = { a }, .dims = dims };
    memcpy(args.sizes, sizes, (size_t)dims * sizeof *sizes);
    return op_run(me, OP_view, &args);
}

/* Of all steps. */
static struct tensor *
gates_of_input(struct task *me, struct tensor *x, struct tensor *weight)
{
    int64_t rows = x->size[0] * x->size[1];
    struct tensor *flat = viewed(me, in_one_piece(me, x), 2, (const int64_t[]){ rows, x->size[2] });
    struct tensor *gates = applied(me, OP_mm, flat, applied(me, OP_t, weight, NULL));
    return viewed(me, gates, 3, (const int64_t[]){ x->size[0], x->size[1], weight->size[0] });
}

static struct tensor *
bias_of_both(struct task *me, struct tensor *ih, struct tensor *hh)
{
    return ih != NULL && hh != NULL ? applied(me, OP_add, ih, hh) : ih != NULL ? ih : hh;
}

static bool
forward_queue(const struct device_queue *queue, void *job)
{
    return queue_launch(queue, KERNEL_lstm_forward, job, sizeof(struct lstm_forward));
}

/* list: enum lstm_input; start 1: turned; flag: there may be a way back, for which more[LSTM_MORE_CELLS] (else only the
 * last) and more[LSTM_MORE_GATES] (else NULL) are there. */
struct tensor *
run_lstm_layer(struct task *me, enum op op, const struct op_args *args)
{
    struct tensor *const *in = args->list;
    if (!layer_fits(me, in))
        return NULL;
    const struct tensor *x = in[LSTM_INPUT];
    int64_t        sizes[3] = { x->size[0], x->size[1], in[LSTM_HH]->size[1] };
    int64_t        kept[3] = { args->flag ? sizes[0] + 1 : 1, sizes[1], sizes[2] };
    struct tensor *gates = gates_of_input(me, in[LSTM_INPUT], in[LSTM_IH]);
    struct tensor *bias = bias_of_both(me, in[LSTM_IH_BIAS], in[LSTM_HH_BIAS]);
    struct tensor *cells = tensor_empty(me, DTYPE_F32, tensor_device(x), 3, kept);
    struct tensor *out = cells != NULL ? tensor_empty(me, DTYPE_F32, tensor_device(x), 3, sizes) : NULL;
    struct tensor *weight = in_one_piece(me, in[LSTM_HH]), *h = in_one_piece(me, in[LSTM_H]);
    struct tensor *c = in_one_piece(me, in[LSTM_C]);
    bias = in_one_piece(me, bias);
    if (gates == NULL || out == NULL || task_failed(me))
        return NULL;
    struct lstm_forward job = { .s = steps_of(args, sizes), .last_only = !args->flag };
    struct walk walk = { op, args->module, .effect = cpu_lstm_forward,
                         .enqueue = forward_queue, .job = &job, .job_bytes = sizeof job };
    job.s.weight = walk_takes(&walk, weight);
    job.bias     = walk_takes(&walk, bias);
    job.h        = walk_takes(&walk, h);
    job.c        = walk_takes(&walk, c);
    walk.written = walk.count;
    job.out      = walk_writes(&walk, out);
    job.gates    = walk_writes(&walk, gates);
    job.cells    = walk_writes(&walk, cells);
    args->more[LSTM_MORE_CELLS] = cells;
    args->more[LSTM_MORE_GATES] = args->flag ? gates : NULL;
    return walk_run(me, &walk, &job.s) ? out : NULL;
}

/* ---- backwards ---- */

/* What came for the last state and cell, zeros for what did not. */
static struct tensor *
state_gradient(struct task *me, const struct tensor *like, struct tensor *const *came, int64_t wide)
{
    struct tensor *state = tensor_empty(me, DTYPE_F32, tensor_device(like), 3,
                                        (const int64_t[]){ 2, like->size[1], wide });
    for (int i = 0; state != NULL && i < 2; i++) {
        struct tensor *part = op_run(me, OP_select, &(struct op_args){ .in = { state }, .dim = 0, .start = i });
        struct op_args args = { .in = { came[i] }, .out = part, .module = "" };
        if (part == NULL || op_run(me, came[i] != NULL ? OP_copy : OP_fill, &args) == NULL)
            return NULL;
    }
    return state;
}

static bool
backward_queue(const struct device_queue *queue, void *job)
{
    return queue_launch(queue, KERNEL_lstm_backward, job, sizeof(struct lstm_backward));
}

/* list: enum lstm_back_input; start 1: turned; flag: the first state's gradient is wanted, too. The result is the
 * gates', more[0] that of the first state and cell. */
struct tensor *
run_lstm_layer_backward(struct task *me, enum op op, const struct op_args *args)
{
    struct tensor *const *in = args->list;
    if (!gradients_fit(me, in))
        return NULL;
    const struct tensor *like = in[LSTM_GATES];
    int64_t        wide = in[LSTM_BACK_HH]->size[1];
    struct tensor *grad = in_one_piece(me, in[LSTM_GRAD]), *gates = in_one_piece(me, in[LSTM_GATES]);
    struct tensor *cells = in_one_piece(me, in[LSTM_CELLS]), *weight = in_one_piece(me, in[LSTM_BACK_HH]);
    struct tensor *state = state_gradient(me, like, in + LSTM_GRAD_H, wide);
    struct tensor *out = state != NULL ? tensor_empty(me, DTYPE_F32, tensor_device(like), 3, like->size) : NULL;
    if (out == NULL || task_failed(me))
        return NULL;
    struct lstm_backward job = { .s = steps_of(args, (const int64_t[]){ like->size[0], like->size[1], wide }),
                                 .skip_first = !args->flag };
    struct walk walk = { op, args->module, .effect = cpu_lstm_backward,
                         .enqueue = backward_queue, .job = &job, .job_bytes = sizeof job };
    job.s.weight   = walk_takes(&walk, weight);
    job.grad       = walk_takes(&walk, grad);
    job.gates      = walk_takes(&walk, gates);
    job.cells      = walk_takes(&walk, cells);
    walk.written   = walk.count;
    job.grad_gates = walk_writes(&walk, out);
    job.state      = walk_writes(&walk, state);
    args->more[0]  = state;
    return walk_run(me, &walk, &job.s) ? out : NULL;
}
