/* What the tests of autograd, nn and optim stand on: a run in each executor and the order in which nodes ran. Checks
 * inside a task go through expect, which notes the first that fails; cmocka must not jump out of a task. */
#ifndef AUTOGRAD_RIG_H
#define AUTOGRAD_RIG_H
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <cmocka.h>

#include <math.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "autograd/call.h"
#include "autograd/engine.h"
#include "device/device.h"
#include "device/storage.h"
#include "device/stream.h"
#include "hw/cost.h"
#include "sched/stage.h"
#include "trace/writer.h"

enum { RIG_DEVICES = 4, RIG_EVENTS = 512 };

struct rig {
    struct observer    observer;
    pthread_mutex_t    mutex;
    struct cost_model  cost;
    struct trace_event nodes[RIG_EVENTS];  /* begin of autograd.node, in order */
    struct trace_event others[RIG_EVENTS]; /* ends of accumulate, begin and end of node, op, module.forward, hook */
    int                node_count, other_count;
    bool               stepped;
    char               broken[600];        /* the first check that failed */
    bool             (*body)(struct task *me, struct rig *rig);
};

static inline void
rig_note(struct observer *self, struct task *me, const struct trace_event *event, uint64_t seq)
{
    struct rig *rig = (struct rig *)self;
    (void)me, (void)seq;
    pthread_mutex_lock(&rig->mutex);
    if (event->kind == KIND_autograd_node && event->phase == PHASE_BEGIN && rig->node_count < RIG_EVENTS)
        rig->nodes[rig->node_count++] = *event;
    bool kept = event->kind == KIND_autograd_node || event->kind == KIND_autograd_accumulate ||
                event->kind == KIND_module_forward || event->kind == KIND_autograd_hook || event->kind == KIND_op;
    if (kept && rig->other_count < RIG_EVENTS)
        rig->others[rig->other_count++] = *event;
    pthread_mutex_unlock(&rig->mutex);
}

static inline bool
expect(struct task *me, struct rig *rig, bool holds, const char *what)
{
    if (!holds && rig->broken[0] == '\0')
        snprintf(rig->broken, sizeof rig->broken, "%.200s (%.300s)", what, me->error.message);
    return holds;
}

static inline bool
rig_main(struct task *me, void *argument)
{
    struct rig *rig = argument;
    return devices_ready(me, RIG_DEVICES) && rig->body(me, rig);
}

static inline void
rig_forget(struct rig *rig)
{
    rig->node_count = rig->other_count = 0;
}

/* In one executor. `setup` may change prices. */
static inline void
rig_run(bool (*body)(struct task *me, struct rig *rig), enum executor_kind kind)
{
    struct rig  *rig = calloc(1, sizeof *rig);
    char         why[256] = "";
    struct error error = { 0 };
    assert_non_null(rig);
    rig->observer.event = rig_note;
    rig->body    = body;
    rig->stepped = kind == EXECUTOR_STEPPED;
    pthread_mutex_init(&rig->mutex, NULL);
    assert_true(cost_preset(&rig->cost, "classroom"));
    struct trace_options traced = { .clock = rig->stepped ? CLOCK_VIRTUAL_PS : CLOCK_MONOTONIC_NS };
    struct trace_writer *writer = trace_create(&traced, why, sizeof why);
    assert_non_null(writer);
    struct sched_options options = { .executor = kind, .writer = writer, .cost = &rig->cost,
           .observer = &rig->observer };
    struct sched *sched = sched_new(&options, why, sizeof why);
    assert_non_null(sched);
    bool done = sched_run(sched, rig_main, rig, &error);
    devices_free(sched);
    sched_free(sched);
    trace_close(writer);
    pthread_mutex_destroy(&rig->mutex);
    if (rig->broken[0] != '\0' || !done)
        fail_msg("%s: %s %s", kind == EXECUTOR_STEPPED ? "stepped" : "free", rig->broken, error.message);
    free(rig);
}

static inline void
in_both(bool (*body)(struct task *me, struct rig *rig))
{
    rig_run(body, EXECUTOR_STEPPED);
    rig_run(body, EXECUTOR_FREE);
}

/* ---- tensors ---- */

static inline struct tensor *
leaf(struct task *me, enum dtype dtype, int dims, const int64_t *sizes, const double *values)
{
    struct tensor *made = tensor_from(me, DTYPE_F64, dims, sizes, values);
    made = tensor_copy_to(me, made, DEVICE_CPU, dtype);
    if (made != NULL)
        made->requires_grad = dtype_is_float(dtype);
    return made;
}

static inline struct tensor *
vector(struct task *me, int64_t count, const double *values)
{
    return leaf(me, DTYPE_F32, 1, &count, values);
}

/* The element at row-major `index`, as a double; NaN: it could not be read. */
static inline double
at(struct task *me, struct tensor *tensor, int64_t index)
{
    int64_t        count = tensor_count(tensor);
    bool           enabled = grad_enabled(me);
    size_t         mark = scope_mark(me);
    double         value = NAN, *all = malloc(((size_t)count + 1) * sizeof *all);
    grad_set_enabled(me, false);
    struct tensor *wide = tensor != NULL ? tensor_copy_to(me, tensor, DEVICE_CPU, DTYPE_F64) : NULL;
    if (all != NULL && wide != NULL && index < count && tensor_read(me, wide, all))
        value = all[index];
    grad_set_enabled(me, enabled);
    free(all);
    scope_release(me, mark);
    return value;
}

static inline bool
holds(struct task *me, struct tensor *tensor, int64_t count, const double *values)
{
    if (tensor == NULL || tensor_count(tensor) != count)
        return false;
    for (int64_t i = 0; i < count; i++)
        if (!(fabs(at(me, tensor, i) - values[i]) <= 1e-5 + 1e-4 * fabs(values[i])))
            return false;
    return true;
}

static inline bool
backward(struct task *me, struct tensor *root)
{
    return autograd_backward(me, &root, NULL, 1, NULL);
}

/* The nodes ran in this order of sequence numbers; -1 is an AccumulateGrad. */
static inline bool
ran(const struct rig *rig, int count, const int *numbers)
{
    if (rig->node_count != count)
        return false;
    for (int i = 0; i < count; i++)
        if (rig->nodes[i].args[1] != numbers[i])
            return false;
    return true;
}

/* The error is there and begins so; it is cleared. */
static inline bool
raised(struct task *me, const char *start)
{
    bool is = task_failed(me) && strncmp(me->error.message, start, strlen(start)) == 0;
    if (is)
        task_clear_error(me);
    return is;
}
#endif
