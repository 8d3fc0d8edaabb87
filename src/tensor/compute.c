/* One op whose plan stands: its kernel's call is filled, then the kernel runs, at once by the task (CPU) or as an entry
 * of the current stream (device).
 *
 * Interface: op_compute. */
#include <string.h>
#include "device/claims.h"
#include "sched/account.h"
#include "sched/sched.h"
#include "sched/stage.h"
#include "device/real.h"
#include "tensor/internal.h"
#include "tensor/queued.h"

_Static_assert(sizeof(struct kernel_job) <= STREAM_CONTEXT, "a job fits into an entry");

struct launch {
    const struct plan    *plan;
    const struct op_args *args;
    struct tensor        *result;
    struct storage       *workspace;   /* NULL: none */
    struct kernel_job     job;
};

void
blas_use(struct sched *sched, struct blas *blas)
{
    sched_set_part(sched, PART_PRODUCTS, blas);
}

/* A 0-dim tensor of the host as a kernel's number: the host reads it now. */
static bool
take_constant(struct task *me, struct cpu_call *call, int i, struct tensor *tensor, const char *what)
{
    struct access access = tensor_access(tensor, false, what);
    if (!storage_access_by_host(me, &access))
        return false;
    memcpy(&call->constant[i], call->in[i].data, dtype_size(tensor->dtype));
    call->in[i].data = NULL;
    return true;
}

/* What a reducing kernel writes: as many dimensions as the input has, 1 where it sums. */
static void
look_reduced(const struct tensor *result, const struct tensor *input, unsigned reduced, struct cpu_view *view)
{
    tensor_look(result, view);
    view->dims = input->dims;
    for (int i = 0; i < input->dims; i++)
        view->size[i] = reduced >> i & 1 ? 1 : input->size[i];
    row_major_strides(view->dims, view->size, view->stride);
}

static void
stretch_view(struct cpu_view *view, int dims, const int64_t *sizes)
{
    if (view->dims != dims || !sizes_equal(dims, view->size, sizes))
        *view = view_expand(view, dims, sizes);
}

static bool
fill_call(struct task *me, struct cpu_call *call, const struct plan *plan, const struct op_args *args,
          struct tensor *result)
{
    call->alpha     = plan->alpha;
    call->dim       = plan->dim;
    call->start     = args->start;
    call->inputs    = op_infos[plan->op].inputs;
    call->compute   = plan->compute;
    call->common    = plan->common;
    call->workspace = NULL;
    call->fault     = NULL;
    call->blas      = sched_part(me->sched, PART_PRODUCTS);
    call->length    = args->length;
    call->step      = args->step;
    call->beta      = args->beta;
    memcpy(call->sizes, args->sizes, sizeof call->sizes);
    for (int i = 0; i < call->inputs; i++) {
        struct tensor *tensor = args->in[i];
        tensor_look(tensor, &call->in[i]);
        if (plan->device != DEVICE_CPU && tensor_device(tensor) == DEVICE_CPU &&
            !take_constant(me, call, i, tensor, op_infos[plan->op].name))
            return false;
        if (plan->broadcast)
            stretch_view(&call->in[i], plan->loop_dims, plan->loop);
    }
    if (plan->reduced != 0)
        look_reduced(result, args->in[0], plan->reduced, &call->out);
    else
        tensor_look(result, &call->out);
    return true;
}

/* What the kernel touches: operands of its own device, the result, the workspace. */
static int
list_accesses(struct access *accesses, const struct launch *launch)
{
    int                   count = 0;
    const struct plan    *plan = launch->plan;
    const struct op_info *info = &op_infos[plan->op];
    for (int i = 0; i < info->inputs; i++) {
        struct tensor *tensor = launch->args->in[i];
        if (tensor_device(tensor) == plan->device)
            accesses[count++] = tensor_access(tensor, false, info->name);
    }
    accesses[count++] = tensor_access(launch->result, true, info->name);
    if (launch->workspace != NULL)
        accesses[count++] = storage_access(launch->workspace, true, info->name);
    return count;
}

/* ---- running ---- */

/* The number in place of a tensor lies in the copy of the call that the stream keeps. */
static void
job_run(void *context)
{
    struct kernel_job *job = context;
    for (int i = 0; i < job->call.inputs; i++) {
        if (job->call.in[i].data == NULL)
            job->call.in[i].data = &job->call.constant[i];
    }
    cpu_kernel_of(job->kernel)(&job->call);
}

/* PyTorch's kinds of errors: one for picking along a dimension, one for rows. */
static bool
fail_by(struct task *me, enum op op, const struct kernel_fault *fault)
{
    bool along = op == OP_gather || op == OP_scatter || op == OP_scatter_add;
    if (fault->limit < 0)
        return failed(me, E_RUNTIME, "ZeroDivisionError: %s: integers cannot be divided by 0", op_infos[op].name);
    if (op == OP_nll_loss)
        return failed(me, E_INDEX, "%s: target %lld is out of range: there are %lld classes, counted from 0",
                      op_infos[op].name, (long long)fault->index, (long long)fault->limit);
    return failed(me, along ? E_RUNTIME : E_INDEX,
                  "%s: index %lld is out of range: there are %lld rows, counted from 0", op_infos[op].name,
                  (long long)fault->index, (long long)fault->limit);
}

/* Somebody may mind what the host does: the race checker, or a collective that has a tensor of these in its hands. */
static bool
is_watched(const struct task *me, const struct launch *launch)
{
    bool watched = me->actor.on || storage_is_claimed(launch->result->storage);
    for (int i = 0; i < op_infos[launch->plan->op].inputs && !watched; i++)
        watched = storage_is_claimed(launch->args->in[i]->storage);
    return watched;
}

static bool
run_on_host(struct task *me, struct launch *launch)
{
    struct access       accesses[STREAM_ACCESSES];
    struct kernel_fault fault = { .zeros = true };
    op_pay_host(me, launch->plan->op, launch->args->module);

    if (is_watched(me, launch) && !storage_accesses_by_host(me, accesses, list_accesses(accesses, launch)))
        return false;
    launch->job.call.fault = &fault;
    job_run(&launch->job);
    if (!tensor_wrote(me, launch->result, op_infos[launch->plan->op].name))
        return false;
    return !fault.raised || fail_by(me, launch->plan->op, &fault);
}

static bool
run_on_device(struct task *me, struct launch *launch)
{
    enum op        op = launch->plan->op;
    struct tensor *result = launch->result;
    struct stream *stream = stream_current(me, launch->plan->device);
    if (stream == NULL)
        return false;
    int64_t      name = stage_name_id(me, op_infos[op].name);
    struct price price = op_price(me, op, launch->args->module);
    struct stream_entry entry = {
        .kind = KIND_kernel,
        .args = { name, result->storage->number, tensor_bytes(result) },
        .price = price.kernel, .covered = price.covered,
        .effect = job_run, .enqueue = kernel_queue, .context = &launch->job, .context_bytes = sizeof launch->job,
        .written = tensor_written(result),
    };
    entry.access_count = list_accesses(entry.accesses, launch);
    launch->job.call.fault = stream_fault(stream);
    return stream_launch(me, stream, &entry);
}

/* The largest tensor that the op goes over, its products, its workspace. */
static bool
charge_work(struct task *me, const struct plan *plan, const struct op_args *args, const struct tensor *result)
{
    int64_t most = tensor_count(result);
    for (int i = 0; i < op_infos[plan->op].inputs; i++) {
        int64_t count = tensor_count(args->in[i]);
        most = count > most ? count : most;
    }
    double steps = plan->products * (1.0 / WORK_PRODUCTS) +
                   (double)((uint64_t)most / WORK_ELEMENTS + plan->workspace / (WORK_ELEMENTS * sizeof(float)));
    return task_work(me, WORK_OP + (steps < 0x1p62 ? (uint64_t)steps : (uint64_t)1 << 62));
}

/* A real device's kernel may want more than the CPU's. */
static size_t
workspace_bytes(const struct task *me, const struct launch *launch)
{
    const struct plan *plan = launch->plan;
    size_t more = plan->device != DEVICE_CPU ? devices_room(me->sched, (int)plan->kernel, &launch->job.call) : 0;
    return more > plan->workspace ? more : plan->workspace;
}

bool
op_compute(struct task *me, const struct plan *plan, const struct op_args *args, struct tensor *result)
{
    struct launch launch; /* the views of absent operands stay as they are: nobody looks at them */
    launch.plan       = plan;
    launch.args       = args;
    launch.result     = result;
    launch.workspace  = NULL;
    launch.job.kernel = plan->kernel;
    if (!charge_work(me, plan, args, result) || !fill_call(me, &launch.job.call, plan, args, result))
        return false;
    size_t room = workspace_bytes(me, &launch);
    launch.job.workspace = room;
    if (room > 0) {
        launch.workspace = storage_new_hidden(me, plan->device, room);
        if (launch.workspace == NULL)
            return false;
        launch.job.call.workspace = launch.workspace->data;
    }
    bool done = plan->device == DEVICE_CPU ? run_on_host(me, &launch) : run_on_device(me, &launch);
    storage_unref(me, launch.workspace);
    return done;
}
