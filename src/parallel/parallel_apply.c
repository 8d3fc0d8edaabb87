/* nn.parallel.parallel_apply: one task per replica, started in order and joined in order. A single module runs in the
 * calling task.
 *
 * Grad mode and each device's current stream are the caller's. Every worker runs to its end, whatever happens to the
 * others; then the lowest-numbered failure is raised in the caller, even if another one came first. */
#include "autograd/node.h"
#include "device/cells.h"
#include "device/stream.h"
#include "parallel/comm.h"
#include "parallel/data_parallel.h"
#include "sched/lock.h"
#include "sched/stage.h"

#include <stdio.h>
#include <string.h>

struct replica_jobs;
struct replica_job {
    struct replica_jobs  *apply;
    int            replica, device;
    bool           nowhere;        /* no device was given, and no input names one */
    struct module *module;
    struct value  *input, *kwargs; /* a TUPLE; a DICT or NULL */
    struct value  *output;         /* NULL until the worker is done */
    struct stream *stream;         /* NULL: the host */
    struct task   *worker;
    struct error   error;
};

/* Shared by the caller and its workers. Whoever leaves last frees it: when a run is stopped the caller may be first. */
struct replica_jobs {
    atomic_int  references;
    bool        grad;
    struct lock results;
    int         count;
    struct replica_job  jobs[];
};

static size_t
jobs_bytes(int count)
{
    return sizeof(struct replica_jobs) + (size_t)count * sizeof(struct replica_job);
}

static void
apply_unref(struct task *me, struct replica_jobs *apply)
{
    if (atomic_fetch_sub(&apply->references, 1) > 1)
        return;
    for (int r = 0; r < apply->count; r++) {
        struct replica_job *job = &apply->jobs[r];
        if (job->module != NULL)
            module_unref(me, job->module);
        value_keep(me, &job->input, NULL);
        value_keep(me, &job->kwargs, NULL);
        value_keep(me, &job->output, NULL);
    }
    lock_destroy(&apply->results);
    host_return(me, apply, jobs_bytes(apply->count));
}

static struct replica_jobs *
apply_new(struct task *me, int count)
{
    struct replica_jobs *apply = host_take(me, jobs_bytes(count));
    if (apply == NULL)
        return NULL;
    if (!lock_init(me, &apply->results, "results")) {
        host_return(me, apply, jobs_bytes(count));
        return NULL;
    }
    atomic_init(&apply->references, 1);
    apply->grad = grad_enabled(me);
    apply->count = count;
    return apply;
}

/* The device of a job for which the caller names none: that of the first tensor among its inputs. A replica with
 * neither is that replica's failure, not the caller's: the others run. */
static bool
job_device(struct task *me, struct replica_job *job, const int *ids)
{
    const struct tensor *first = ids == NULL ? value_first_tensor(job->input) : NULL;
    job->nowhere = ids == NULL && first == NULL;
    job->device  = ids != NULL ? ids[job->replica] : first != NULL ? tensor_device(first) : DEVICE_CPU;
    if (job->device == DEVICE_CPU)
        return true;
    job->stream = device_check(me, job->device) ? stream_current(me, job->device) : NULL;
    return job->stream != NULL;
}

/* An input that is no tuple becomes a tuple of one. */
static bool
job_fill(struct task *me, struct replica_job *job, struct module *module, const struct call_arguments *given,
         const int *ids)
{
    struct value *input = given->inputs;
    job->module = module_ref(module);
    value_keep(me, &job->kwargs, given->kwargs);
    if (input->kind == VALUE_LIST)
        input = value_tuple(me, input->count, input->items);
    else if (input->kind != VALUE_TUPLE)
        input = value_tuple(me, 1, &input);
    if (input == NULL)
        return false;
    value_keep(me, &job->input, input);
    return job_device(me, job, ids);
}

/* The workers write side by side, so one lock guards what they write. */
static bool
job_store(struct task *me, struct replica_job *job, struct value *output)
{
    if (output == NULL || !lock_acquire(me, &job->apply->results))
        return false;
    value_keep(me, &job->output, output);
    lock_release(me, &job->apply->results);
    return true;
}

static bool
job_has_no_device(struct task *me)
{
    return failed(me, E_RUNTIME, "no device was provided and no tensor input was found; device cannot be resolved");
}

/* One replica's forward, on its device, in the caller's grad mode. It records its part of the graph
 * here: the sequence numbers of its nodes begin anew, for they are counted per task. */
static bool
parallel_apply_worker(struct task *me, struct replica_job *job)
{
    STAGE(me, dp_worker, job->replica, job->device);
    grad_set_enabled(me, job->apply->grad);
    if (job->nowhere)
        return job_has_no_device(me);
    if (job->stream != NULL && !stream_make_current(me, job->stream))
        return false;
    struct value *output = module_forward(me, job->module, job->input, job->kwargs);
    return job_store(me, job, output);
}

static bool
worker_run(struct task *me, void *argument)
{
    struct replica_job   *job = argument;
    struct replica_jobs *apply = job->apply;
    bool          done = parallel_apply_worker(me, job);
    apply_unref(me, apply);
    return done;
}

static bool
replica_worker_start(struct task *me, struct replica_job *job)
{
    char name[32];
    snprintf(name, sizeof name, "dp worker %d", job->replica);
    const struct task_options options = { .name = name, .rank = TASK_INHERIT, .device = job->device, .lua = true };
    atomic_fetch_add(&job->apply->references, 1);
    job->worker = task_spawn(me, &options, worker_run, job);
    if (job->worker == NULL)
        apply_unref(me, job->apply);
    return job->worker != NULL;
}

/* Says in the error which replica failed. The kind stays; a script's own error object, which does not say so, goes. */
static void
caught(struct task *me, const struct replica_job *job)
{
    char original[sizeof me->error.message], device[24];
    memcpy(original, me->error.message, sizeof original);
    comm_device_name(job->device, device);
    const char *where = strncmp(device, "device:", 7) == 0 ? device + 7 : device;
    snprintf(me->error.message, sizeof me->error.message,
             "Caught %s in replica %d%s%s.\nOriginal message: %.*s", error_name(me->error.kind), job->replica,
             job->nowhere ? "" : " on device ", job->nowhere ? "" : where, (int)(sizeof original - 128), original);
    me->error.payload = NULL;
}

/* One module needs no second task. */
static bool
apply_here(struct task *me, struct replica_jobs *apply)
{
    struct replica_job *job = &apply->jobs[0];
    int16_t     mine = me->device;
    me->device = (int16_t)job->device;
    bool done = parallel_apply_worker(me, job);
    me->device = mine;
    if (!done)
        caught(me, job);
    return done;
}

/* Starts all, then waits for all: also when one could not be started, or failed. */
static bool
apply_in_tasks(struct task *me, struct replica_jobs *apply)
{
    for (int r = 0; r < apply->count; r++)
        if (!replica_worker_start(me, &apply->jobs[r]))
            break;
    bool started = !task_failed(me);
    for (int r = 0; r < apply->count; r++) /* all of them, whatever became of one */
        if (apply->jobs[r].worker != NULL && !task_join(me, apply->jobs[r].worker, &apply->jobs[r].error))
            started = started && !task_failed(me);
    for (int r = 0; r < apply->count && started; r++) {
        struct replica_job *job = &apply->jobs[r];
        if (job->error.kind == E_NONE)
            continue;
        task_take_error(me, &job->error);
        caught(me, job);
        return false;
    }
    return started;
}

static void
drop_output(struct task *me, void *value)
{
    value_unref(me, value);
}

/* All replicas' forwards side by side. It ends when the slowest has ended; only then is the first
 * failure, by replica, raised here. */
bool
dp_parallel_apply(struct task *me, struct module *const *modules,
                  const struct call_arguments *given, struct device_list devices,
                  struct value **outputs)
{
    const int count = devices.count;
    STAGE(me, dp_parallel_apply, count);
    struct replica_jobs *apply = apply_new(me, count);
    bool          done = apply != NULL;
    for (int r = 0; r < count && done; r++) {
        struct replica_job *job = &apply->jobs[r];
        *job = (struct replica_job){ .apply = apply, .replica = r };
        done = job_fill(me, job, modules[r], &given[r], devices.ids);
    }
    if (done)
        done = count == 1 ? apply_here(me, apply) : apply_in_tasks(me, apply);

    for (int r = 0; r < count && done; r++) {
        outputs[r] = born(me, value_ref(me, apply->jobs[r].output), drop_output);
        done = hand_up(me, outputs[r]) != NULL;
    }
    if (apply != NULL)
        apply_unref(me, apply);
    return done;
}
