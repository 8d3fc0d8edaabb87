/* Running an operator: its plan, the result, then the kernel: at once by the task (CPU) or as an entry of the current
 * stream (device). No gradients here.
 *
 * Interface: op_info, op_find, op_run. In PyTorch: c10/core/Dispatcher.h, ATen/native/TensorIterator.cpp. */
#include "tensor/op.h"
#include <string.h>
#include "hw/cost.h"
#include "sched/sched.h"
#include "sched/stage.h"
#include "tensor/internal.h"

static const struct op_info infos[OP_COUNT] = {
#define OP(name, inputs, node, module, gradient, help) { #name, node, module, inputs, help },
#include "tensor/ops.def"
#undef OP
};

struct rule { op_special *special; op_plan *plan; cpu_kernel *kernel; };

static const struct rule rules[] = {
#define RULE(name, plan, kernel) { NULL, plan, kernel },
#define NO_KERNEL(name, special) { special, NULL, NULL },
#include "tensor/rules.def"
#undef RULE
#undef NO_KERNEL
};

/* The two tables have the same rows. */
enum {
#define RULE(name, plan, kernel) RULE_##name,
#define NO_KERNEL(name, special) RULE_##name,
#include "tensor/rules.def"
#undef RULE
#undef NO_KERNEL
    RULE_COUNT
};
#define OP(name, inputs, node, module, gradient, help) _Static_assert((int)RULE_##name == (int)OP_##name, #name);
#include "tensor/ops.def"
#undef OP
_Static_assert((int)RULE_COUNT == (int)OP_COUNT, "a rule for each op");

/* What travels in a stream's entry. */
struct job { cpu_kernel *kernel; struct cpu_call call; };
_Static_assert(sizeof(struct job) <= STREAM_CONTEXT, "a job fits into an entry");

const struct op_info *
op_info(enum op op)
{
    return &infos[op];
}

int
op_find(const char *name)
{
    for (int i = 0; i < OP_COUNT; i++) {
        if (strcmp(infos[i].name, name) == 0)
            return i;
    }
    return -1;
}

const char *
task_module(const struct task *me)
{
    return (const char *)(uintptr_t)me->slots[SLOT_MODULE];
}

void
task_set_module(struct task *me, const char *name)
{
    me->slots[SLOT_MODULE] = (uintptr_t)name;
}

void
blas_use(struct sched *sched, const struct blas *blas)
{
    sched_set_part(sched, PART_PRODUCTS, (void *)(uintptr_t)blas);
}

bool
prices_named(const struct task *me)
{
    const struct cost_model *cost = sched_cost(me->sched);
    return sched_is_stepped(me->sched) && cost != NULL && cost->item_count > 0;
}

static struct price
priced(const struct cost_model *cost, uint64_t kernel, bool found)
{
    return (struct price){ .host = cost_host(cost), .kernel = kernel, .work = found ? kernel : 0 };
}

/* A module's price is taken once, by the first of its ops; "" says that it was. */
struct price
op_price(struct task *me, enum op op, const char *module)
{
    if (!sched_is_stepped(me->sched))
        return (struct price){ 0 }; /* the wall clock has no prices */
    struct cost_model *cost = sched_cost(me->sched);
    bool               of_task = module == NULL, found = false;
    if (of_task)
        module = task_module(me);
    if (module != NULL && module[0] == '\0')
        return (struct price){ .covered = true };
    uint64_t price = cost_kernel(cost, infos[op].name, NULL, &found);
    if (found)
        return priced(cost, price, true);
    if (module != NULL)
        price = cost_kernel(cost, NULL, module, &found);
    if (found && of_task)
        task_set_module(me, "");
    if (!found)
        price = cost_kernel(cost, NULL, infos[op].module[0] != '\0' ? infos[op].module : NULL, &found);
    return priced(cost, price, found);
}

/* ---- operands ---- */

/* The device of the operands; a 0-dim one on the host may meet any. */
static bool
find_device(struct task *me, enum op op, struct tensor *const *tensors, int count, int *device)
{
    *device = DEVICE_CPU;
    bool known = false;
    for (int i = 0; i < count; i++) {
        int  at = tensor_device(tensors[i]);
        bool free = at == DEVICE_CPU && tensors[i]->dims == 0;
        if (known && !free && at != *device) {
            int a = *device < at ? *device : at, b = *device < at ? at : *device;
            if (a == DEVICE_CPU)
                return failed(me, E_DEVICE, "%s: expected all tensors on one device, found cpu and device:%d",
                              infos[op].name, b);
            return failed(me, E_DEVICE, "%s: expected all tensors on one device, found device:%d and device:%d",
                          infos[op].name, a, b);
        }
        if (!free) {
            *device = at;
            known = true;
        }
    }
    return true;
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
stretch(struct cpu_view *view, int dims, const int64_t *sizes)
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
    call->inputs    = infos[plan->op].inputs;
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
            !take_constant(me, call, i, tensor, infos[plan->op].name))
            return false;
        if (plan->broadcast)
            stretch(&call->in[i], plan->loop_dims, plan->loop);
    }
    if (plan->reduced != 0)
        look_reduced(result, args->in[0], plan->reduced, &call->out);
    else
        tensor_look(result, &call->out);
    return true;
}

/* What the kernel touches: operands of its own device, the result, the workspace. */
static int
list_accesses(struct access *accesses, const struct plan *plan, const struct op_args *args, struct tensor *result,
              struct storage *workspace)
{
    int         count = 0;
    const char *what = infos[plan->op].name;
    for (int i = 0; i < infos[plan->op].inputs; i++) {
        if (tensor_device(args->in[i]) == plan->device)
            accesses[count++] = tensor_access(args->in[i], false, what);
    }
    accesses[count++] = tensor_access(result, true, what);
    if (workspace != NULL)
        accesses[count++] = storage_access(workspace, true, what);
    return count;
}

/* ---- running ---- */

/* The number in place of a tensor lies in the copy of the call that the stream keeps. */
static void
job_run(void *context)
{
    struct job *job = context;
    for (int i = 0; i < job->call.inputs; i++) {
        if (job->call.in[i].data == NULL)
            job->call.in[i].data = &job->call.constant[i];
    }
    job->kernel(&job->call);
}

static bool
run_on_host(struct task *me, const struct plan *plan, const struct op_args *args, struct tensor *result,
            struct job *job, struct storage *workspace)
{
    struct access       accesses[STREAM_ACCESSES];
    struct kernel_fault fault = { .zeros = true };
    struct price        price = op_price(me, plan->op, args->module);
    sched_advance(me, price.host + price.work);

    int count = me->actor.on ? list_accesses(accesses, plan, args, result, workspace) : 0;
    for (int i = 0; i < count; i++) {
        if (!storage_access_by_host(me, &accesses[i]))
            return false;
    }
    job->call.fault = &fault;
    job_run(job);
    tensor_snapshot(me, result);
    if (fault.raised && fault.limit < 0)
        return failed(me, E_RUNTIME, "ZeroDivisionError: %s: integers cannot be divided by 0", infos[plan->op].name);
    bool along = plan->op == OP_gather || plan->op == OP_scatter || plan->op == OP_scatter_add;
    if (fault.raised) /* PyTorch's kinds: one for picking along a dimension, one for rows */
        return failed(me, along ? E_RUNTIME : E_INDEX, "%s: index %lld is out of range: there are %lld rows",
                      infos[plan->op].name, (long long)fault.index, (long long)fault.limit);
    return true;
}

static bool
run_on_device(struct task *me, const struct plan *plan, const struct op_args *args, struct tensor *result,
              struct job *job, struct storage *workspace)
{
    struct stream *stream = stream_current(me, plan->device);
    if (stream == NULL)
        return false;
    int64_t      name = stage_name_id(me, infos[plan->op].name);
    struct price price = op_price(me, plan->op, args->module);
    struct stream_entry entry = {
        .kind = KIND_kernel,
        .args = { name, result->storage->number, tensor_bytes(result) },
        .price = price.kernel, .covered = price.covered,
        .effect = job_run, .context = job, .context_bytes = sizeof *job,
        .written = tensor_written(result),
    };
    entry.access_count = list_accesses(entry.accesses, plan, args, result, workspace);
    job->call.fault = stream_fault(stream);
    return stream_launch(me, stream, &entry);
}

bool
op_compute(struct task *me, const struct plan *plan, const struct op_args *args, struct tensor *result)
{
    struct job      job;
    struct storage *workspace = NULL;
    job.kernel = rules[plan->op].kernel; /* the views of absent operands stay as they are: nobody looks at them */
    if (!fill_call(me, &job.call, plan, args, result))
        return false;
    if (plan->workspace > 0) {
        workspace = storage_new_hidden(me, plan->device, plan->workspace);
        if (workspace == NULL)
            return false;
        job.call.workspace = workspace->data;
    }
    bool done = plan->device == DEVICE_CPU ? run_on_host(me, plan, args, result, &job, workspace)
                                           : run_on_device(me, plan, args, result, &job, workspace);
    storage_unref(me, workspace);
    return done;
}

static bool
overlaps(const struct tensor *input, const struct tensor *out)
{
    if (input->storage != out->storage || tensor_count(out) == 0)
        return false;
    struct access a = tensor_access(input, false, NULL), b = tensor_access(out, true, NULL);
    if (a.begin >= b.end || b.begin >= a.end)
        return false;
    return (int64_t)(a.end - a.begin) == tensor_bytes(input) && (int64_t)(b.end - b.begin) == tensor_bytes(out);
}

bool
overlaps_badly(const struct tensor *input, const struct tensor *out)
{
    bool one_view = input->offset == out->offset && tensor_same_shape(input, out) &&
                    memcmp(input->stride, out->stride, (size_t)out->dims * sizeof *out->stride) == 0;
    return !one_view && overlaps(input, out);
}

/* Ops that read an operand at other indices than they write: not even the target itself will do. */
static bool
reads_elsewhere(enum op op, int operand)
{
    return operand > 0 && (op == OP_scatter || op == OP_scatter_add || op == OP_index_put || op == OP_index_add);
}

static bool
out_fits(struct task *me, const struct plan *plan, const struct op_args *args)
{
    struct tensor *out = args->out;
    struct tensor  wanted = { .dims = plan->dims };
    memcpy(wanted.size, plan->size, sizeof wanted.size);
    if (!tensor_same_shape(out, &wanted))
        return shape_mismatch(me, plan->op, out, &wanted, "the first is to take the second's place");
    if (!dtype_can_cast(plan->dtype, out->dtype))
        return failed(me, E_DTYPE, "%s: result type %s can't be cast to the desired output type %s",
                      infos[plan->op].name, dtype_title(plan->dtype), dtype_title(out->dtype));
    if (tensor_device(out) != plan->device)
        return failed(me, E_DEVICE, "%s: the operands and the tensor for the result are on different devices",
                      infos[plan->op].name);
    for (int i = 0; i < infos[plan->op].inputs; i++) {
        bool strict = reads_elsewhere(plan->op, i);
        if (strict ? overlaps(args->in[i], out) : overlaps_badly(args->in[i], out))
            return failed(me, E_RUNTIME, "%s: an operand and the tensor that is written to share some of their "
                                         "memory; clone the operand first", infos[plan->op].name);
    }
    return tensor_is_writable(me, out);
}

/* A kernel that is not elementwise writes a tensor of its own, which is then copied to where it was wanted. */
static struct tensor *
run_into(struct task *me, const struct plan *plan, const struct op_args *args)
{
    if (!out_fits(me, plan, args))
        return NULL;
    if (plan->broadcast && memcmp(plan->loop, plan->size, (size_t)plan->dims * sizeof *plan->loop) == 0 &&
        plan->dims == plan->loop_dims)
        return op_compute(me, plan, args, args->out) ? args->out : NULL;
    struct tensor *made = tensor_empty(me, plan->dtype, plan->device, plan->dims, plan->size);
    if (made == NULL || !op_compute(me, plan, args, made) || !tensor_copy(me, args->out, made))
        return NULL;
    return args->out;
}

/* None is missing (false without a word) and none is sparse. */
static bool
operands_allowed(struct task *me, enum op op, const struct op_args *args)
{
    bool sparse = tensor_is_sparse(args->out);
    for (int i = 0; i < infos[op].inputs; i++) {
        if (args->in[i] == NULL)
            return false;
        sparse = sparse || tensor_is_sparse(args->in[i]);
    }
    for (int i = 0; i < args->list_count; i++)
        sparse = sparse || tensor_is_sparse(args->list[i]);
    return !sparse || failed(me, E_NOT_IMPLEMENTED, "%s is not implemented for sparse tensors: use t:to_dense()",
                             infos[op].name);
}

struct tensor *
op_run(struct task *me, enum op op, const struct op_args *args)
{
    if (task_failed(me) || !operands_allowed(me, op, args))
        return NULL;
    if (rules[op].special != NULL)
        return rules[op].special(me, op, args);

    struct plan plan;
    memset(&plan, 0, offsetof(struct plan, size)); /* the sizes are written with the dimensions */
    plan.op    = op;
    plan.alpha = args->alpha;
    if (!find_device(me, op, args->in, infos[op].inputs, &plan.device) || !rules[op].plan(me, &plan, args))
        return NULL;
    if ((plan.compute > DTYPE_BOOL || plan.common > DTYPE_BOOL) && narrow_is_refused(me, &plan))
        return NULL;
    if (plan.compute > DTYPE_BOOL)
        return run_wide(me, &plan, args);
    if (args->out != NULL)
        return run_into(me, &plan, args);
    struct tensor *result = tensor_empty(me, plan.dtype, plan.device, plan.dims, plan.size);
    return result != NULL && op_compute(me, &plan, args, result) ? result : NULL;
}

bool
tensor_fill(struct task *me, struct tensor *tensor, double value)
{
    return tensor != NULL && op_run(me, OP_fill, &(struct op_args){ .out = tensor, .alpha = value }) != NULL;
}
