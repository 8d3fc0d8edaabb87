/* What memory a kernel's parameters name: to see that it is this GPU's, and to compare what is written there. See
 * fake.h. */
#include "fake.h"
#include <stddef.h>
#include "tensor/cpu/draw.h"
#include "tensor/cpu/elements.h"
#include "tensor/cpu/lstm.h"
#include "tensor/cpu/update.h"

struct list { struct fake_range *ranges; int count; };

static void
add(struct list *list, const void *at, int64_t bytes, enum dtype dtype, const char *what)
{
    if (at == NULL || bytes <= 0)
        return;
    list->ranges[list->count++] = (struct fake_range){ (char *)(uintptr_t)at, (size_t)bytes, dtype, false, what };
}

/* From its first byte in memory to its last: strides may lead downwards. */
static void
add_view(struct list *list, const struct cpu_view *view, const char *what)
{
    int64_t element = (int64_t)dtype_size(view->dtype), low = 0, high = element;
    for (int d = 0; d < view->dims; d++) {
        int64_t reach = (view->size[d] - 1) * view->stride[d] * element;
        if (view->size[d] <= 0)
            return;
        low += reach < 0 ? reach : 0;
        high += reach > 0 ? reach : 0;
    }
    if (view->data != NULL)
        add(list, (const char *)view->data + low, high - low, view->dtype, what);
}

/* Some kernels write operands too: all of them are looked at. How long the workspace is nobody says. */
static void
add_call(struct list *list, const struct cpu_call *call)
{
    static const char *const names[CALL_INPUTS] = { "in[0]", "in[1]", "in[2]", "in[3]" };
    for (int i = 0; i < call->inputs; i++)
        add_view(list, &call->in[i], names[i]);
    add_view(list, &call->out, "out");
    add(list, call->workspace, 1, DTYPE_COUNT, "workspace");
    add(list, call->fault, sizeof *call->fault, DTYPE_COUNT, "fault");
}

static void
add_update(struct list *list, const struct update_job *job)
{
    static const char *const names[UPDATE_VIEWS] = { "view[0]", "view[1]", "view[2]", "view[3]", "view[4]" };
    for (int v = 0; v < job->views; v++)
        add_view(list, &job->view[v], names[v]);
}

static void
add_elements(struct list *list, const struct elements_job *job)
{
    add(list, job->into, (int64_t)job->bytes, job->dtype, "into");
    if (job->work == ELEMENTS_REDUCE)
        add(list, job->from, (int64_t)job->bytes, job->dtype, "from");
}

static void
add_draw(struct list *list, const struct draw_job *job)
{
    add(list, job->out, job->count * (int64_t)dtype_size(job->dtype), job->dtype, "out");
}

static void
add_all_reduce(struct list *list, const struct all_reduce_job *job)
{
    for (int r = 0; r < job->ranks; r++)
        add(list, job->data[r], (int64_t)job->bytes, job->dtype, "data");
}

static void
add_floats(struct list *list, const float *at, int64_t count, const char *what)
{
    add(list, at, count * (int64_t)sizeof *at, DTYPE_F32, what);
}

static void
add_steps(struct list *list, const struct lstm_steps *s)
{
    add_floats(list, s->weight, 4 * s->wide * s->wide, "weight");
    add(list, s->room, s->blas == NULL ? (int64_t)1 : 0, DTYPE_COUNT, "room");
}

static void
add_lstm_forward(struct list *list, const struct lstm_forward *job)
{
    int64_t state = job->s.rows * job->s.wide;
    add_steps(list, &job->s);
    add_floats(list, job->bias, 4 * job->s.wide, "bias");
    add_floats(list, job->h, state, "h");
    add_floats(list, job->c, state, "c");
    add_floats(list, job->gates, job->s.steps * 4 * state, "gates");
    add_floats(list, job->cells, (job->last_only ? 1 : job->s.steps + 1) * state, "cells");
    add_floats(list, job->out, job->s.steps * state, "out");
}

static void
add_lstm_backward(struct list *list, const struct lstm_backward *job)
{
    int64_t state = job->s.rows * job->s.wide;
    add_steps(list, &job->s);
    add_floats(list, job->grad, job->s.steps * state, "grad");
    add_floats(list, job->gates, job->s.steps * 4 * state, "gates");
    add_floats(list, job->cells, (job->s.steps + 1) * state, "cells");
    add_floats(list, job->grad_gates, job->s.steps * 4 * state, "grad_gates");
    add_floats(list, job->state, 2 * state, "state");
    if (state > 0)
        list->ranges[list->count - 1].is_undefined = job->skip_first;
}

int
fake_ranges(enum kernel kernel, const void *params, struct fake_range *ranges)
{
    struct list list = { ranges, 0 };
    switch ((int)kernel) {
    case KERNEL_update:        add_update(&list, params); break;
    case KERNEL_reduce:        add_elements(&list, params); break;
    case KERNEL_lstm_forward:  add_lstm_forward(&list, params); break;
    case KERNEL_lstm_backward: add_lstm_backward(&list, params); break;
    case KERNEL_draw:          add_draw(&list, params); break;
    case KERNEL_all_reduce:    add_all_reduce(&list, params); break;
    default:                   add_call(&list, params); break;
    }
    return list.count;
}

/* ---- the same pointers, moved ---- */

static void
reach_call(struct cpu_call *call)
{
    for (int i = 0; i < call->inputs; i++)
        call->in[i].data = fake_reach(call->in[i].data);
    call->out.data  = fake_reach(call->out.data);
    call->workspace = fake_reach(call->workspace);
    call->fault     = fake_reach(call->fault);
}

static void
reach_floats(const float **at)
{
    *at = fake_reach(*at);
}

static void
reach_steps(struct lstm_steps *s)
{
    s->room = fake_reach(s->room);
    reach_floats(&s->weight);
}

static void
reach_lstm_forward(struct lstm_forward *job)
{
    reach_steps(&job->s);
    reach_floats(&job->bias);
    reach_floats(&job->h);
    reach_floats(&job->c);
    job->gates = fake_reach(job->gates);
    job->cells = fake_reach(job->cells);
    job->out   = fake_reach(job->out);
}

static void
reach_lstm_backward(struct lstm_backward *job)
{
    reach_steps(&job->s);
    reach_floats(&job->grad);
    reach_floats(&job->gates);
    reach_floats(&job->cells);
    job->grad_gates = fake_reach(job->grad_gates);
    job->state      = fake_reach(job->state);
}

void
fake_reach_params(enum kernel kernel, void *params)
{
    struct update_job   *update   = params;
    struct elements_job *elements = params;
    struct draw_job     *draw     = params;
    struct all_reduce_job *all    = params;
    switch ((int)kernel) {
    case KERNEL_update:
        for (int v = 0; v < update->views; v++)
            update->view[v].data = fake_reach(update->view[v].data);
        break;
    case KERNEL_reduce:
        elements->into = fake_reach(elements->into);
        elements->from = fake_reach(elements->from);
        break;
    case KERNEL_lstm_forward:  reach_lstm_forward(params); break;
    case KERNEL_lstm_backward: reach_lstm_backward(params); break;
    case KERNEL_draw:          draw->out = fake_reach(draw->out); break;
    case KERNEL_all_reduce:
        for (int r = 0; r < all->ranks; r++)
            all->data[r] = fake_reach(all->data[r]);
        break;
    default:                   reach_call(params); break;
    }
}
