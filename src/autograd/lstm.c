/* An LSTM's layer as one node with three outputs; see operators.h. Its gradient is in functions_recurrent.c. */
#include "autograd/internal.h"
#include "sched/task.h"

/* Step `at` of several, with a version of its own: it is no view for autograd. */
static struct tensor *
step_of(struct task *me, struct tensor *steps, int64_t at)
{
    if (steps == NULL)
        return NULL;
    int64_t        sizes[2] = { steps->size[1], steps->size[2] };
    struct tensor *view = tensor_piece(me, steps, 2, sizes, steps->offset + at * sizes[0] * sizes[1]);
    return tensor_own_version(me, view);
}

bool
lstm_layer(struct task *me, struct tensor *const *in, bool turned, struct tensor **out)
{
    struct tensor *more[OP_MORE] = { NULL };
    struct op_args args = { .list = (struct tensor **)(uintptr_t)in, .list_count = LSTM_INPUTS, .start = turned,
                            .flag = any_requires_grad(me, in, LSTM_INPUTS), .more = more };
    out[0] = op_call(me, OP_lstm_layer, &args);
    if (out[0] == NULL)
        return false;
    out[1] = step_of(me, out[0], turned ? 0 : out[0]->size[0] - 1);
    out[2] = step_of(me, more[LSTM_MORE_CELLS], more[LSTM_MORE_CELLS]->size[0] - 1);
    for (int i = 1; i < LSTM_OUTPUTS && !task_failed(me); i++)
        if (out[0]->grad_fn != NULL)
            node_output(me, out[0]->grad_fn, out[i], i);
    return !task_failed(me);
}
