/* What the tests of DataParallel stand on: a run in each executor, what it told the trace, a few values. */
#ifndef DATA_PARALLEL_RIG_H
#define DATA_PARALLEL_RIG_H
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

#include "base/vec.h"
#include "hw/cost.h"
#include "nn/value.h"
#include "parallel/data_parallel.h"
#include "sched/stage.h"
#include "tensor/op.h"
#include "trace/writer.h"

enum { DEVICES = 8, SEEN = 4096 };

/* What DataParallel told the trace: its begin and instant events, in order. */
struct seen {
    struct observer    observer;
    pthread_mutex_t    mutex;
    struct trace_event events[SEEN];
    int                count;
};

struct rig {
    struct seen *seen;
    bool       (*body)(struct task *me, struct seen *seen);
};

static inline void
note(struct observer *self, struct task *me, const struct trace_event *event, uint64_t seq)
{
    struct seen *seen = (struct seen *)self;
    (void)me;
    (void)seq;
    if (event->phase == PHASE_END || strncmp(kind_table[event->kind].name, "dp.", 3) != 0)
        return;
    pthread_mutex_lock(&seen->mutex);
    if (seen->count < SEEN)
        seen->events[seen->count++] = *event;
    pthread_mutex_unlock(&seen->mutex);
}

static inline bool
run_rig(struct task *me, void *argument)
{
    struct rig *rig = argument;
    return devices_ready(me, DEVICES) && rig->body(me, rig->seen);
}

/* Runs `body` as the one rank of a run, in each executor. */
static inline void
in_both(bool (*body)(struct task *me, struct seen *seen))
{
    for (int kind = EXECUTOR_STEPPED; kind <= EXECUTOR_FREE; kind++) {
        struct seen *seen = calloc(1, sizeof *seen);
        char         why[256] = "";
        struct error error;
        struct cost_model cost;
        assert_non_null(seen);
        seen->observer.event = note;
        pthread_mutex_init(&seen->mutex, NULL);
        assert_true(cost_preset(&cost, "classroom"));
        const struct trace_options traced = {
            .clock = kind == EXECUTOR_STEPPED ? CLOCK_VIRTUAL_PS : CLOCK_MONOTONIC_NS
        };
        struct trace_writer *writer = trace_create(&traced, why, sizeof why);
        assert_non_null(writer);
        const struct sched_options options = {
            .executor = (enum executor_kind)kind, .writer = writer, .cost = &cost, .observer = &seen->observer
        };
        struct sched *sched = sched_new(&options, why, sizeof why);
        assert_non_null(sched);
        struct rig rig = { seen, body };
        bool done = sched_run(sched, run_rig, &rig, &error);
        devices_free(sched);
        sched_free(sched);
        trace_close(writer);
        pthread_mutex_destroy(&seen->mutex);
        free(seen);
        if (!done)
            fail_msg("%s: %s", kind == EXECUTOR_STEPPED ? "stepped" : "free", error.message);
    }
}

/* Assertions would jump out of a task, so a body answers false instead. */
static inline bool
holds(struct task *me, bool condition, const char *sentence)
{
    return condition || failed(me, E_RUNTIME, "does not hold: %s", sentence);
}

/* `me` failed in this way; the error is cleared. */
static inline bool
was(struct task *me, enum error_kind kind, const char *text)
{
    struct error error = me->error;
    task_clear_error(me);
    if (error.kind == kind && strstr(error.message, text) != NULL)
        return true;
    return failed(me, E_RUNTIME, "expected an error with \"%s\", got %d \"%s\"", text, (int)error.kind, error.message);
}

static inline int
count_of(struct seen *seen, enum kind kind)
{
    int count = 0;
    pthread_mutex_lock(&seen->mutex);
    for (int i = 0; i < seen->count; i++)
        count += seen->events[i].kind == kind;
    pthread_mutex_unlock(&seen->mutex);
    return count;
}

/* The n-th event of that kind; one with arguments of -99 if there is none. */
static inline struct trace_event
nth(struct seen *seen, enum kind kind, int n)
{
    struct trace_event found = { .args = { -99, -99, -99, -99 } };
    pthread_mutex_lock(&seen->mutex);
    for (int i = 0; i < seen->count; i++)
        if (seen->events[i].kind == kind && n-- == 0)
            found = seen->events[i];
    pthread_mutex_unlock(&seen->mutex);
    return found;
}

static inline int64_t
sum_of(struct seen *seen, enum kind kind, int argument)
{
    int64_t sum = 0;
    pthread_mutex_lock(&seen->mutex);
    for (int i = 0; i < seen->count; i++)
        if (seen->events[i].kind == kind)
            sum += seen->events[i].args[argument];
    pthread_mutex_unlock(&seen->mutex);
    return sum;
}

/* ---- tensors and values ---- */

/* first, first + 1, ... */
static inline struct tensor *
counting(struct task *me, int device, int dims, const int64_t *sizes, double first)
{
    int64_t count = 1;
    for (int i = 0; i < dims; i++)
        count *= sizes[i];
    float *elements = malloc((size_t)count * sizeof *elements + 1);
    for (int64_t i = 0; elements != NULL && i < count; i++)
        elements[i] = (float)(first + (double)i);
    struct tensor *tensor = tensor_from(me, DTYPE_F32, dims, sizes, elements);
    free(elements);
    return tensor != NULL ? tensor_to(me, tensor, device, DTYPE_F32) : NULL;
}

static inline struct value *
rows(struct task *me, int64_t count, int64_t width, double first)
{
    return value_tensor(me, counting(me, DEVICE_CPU, 2, (const int64_t[]){ count, width }, first));
}

static inline bool
reads(struct task *me, struct tensor *tensor, int count, const double *expected)
{
    if (tensor == NULL || tensor_count(tensor) != count)
        return holds(me, false, "a tensor has the expected number of elements");
    float *got = calloc((size_t)count + 1, sizeof *got);
    bool   same = got != NULL && tensor_read(me, tensor, got);
    for (int i = 0; i < count && same; i++)
        same = fabs((double)got[i] - expected[i]) <= 1e-5 + 1e-4 * fabs(expected[i]) ||
               failed(me, E_RUNTIME, "element %d is %g, expected %g", i, (double)got[i], expected[i]);
    free(got);
    return same;
}

static inline struct value *
tuple(struct task *me, int count, struct value *const *items)
{
    return value_tuple(me, count, items);
}
#endif
