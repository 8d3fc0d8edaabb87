/* Running sgd, adam and adagrad: unlike other ops they write more than one tensor, so they arrange themselves. The
 * caller bumps the buffers' versions.
 *
 * Interface: run_update (rules.def). In PyTorch: torch/optim/sgd.py, adam.py, adamw.py, adagrad.py. */
#include "tensor/cpu/update.h"
#include <string.h>
#include "device/claims.h"
#include "sched/sched.h"
#include "sched/stage.h"
#include "tensor/internal.h"
#include "tensor/queued.h"

/* Travels in a stream's entry. */
_Static_assert(sizeof(struct update_job) <= STREAM_CONTEXT, "a job fits into an entry");

static enum op
update_op(const struct update_job *job)
{
    static const enum op ops[] = { [UPDATE_SGD] = OP_sgd, [UPDATE_ADAM] = OP_adam, [UPDATE_ADAGRAD] = OP_adagrad };
    return ops[job->kind];
}

/* The tensors in the order of the views; answers how many. */
static int
take_tensors(enum op op, const struct op_args *args, struct tensor **tensors)
{
    int count = op == OP_sgd && args->in[UPDATE_BUFFERS] == NULL ? UPDATE_BUFFERS : op_info(op)->inputs;
    if (op == OP_sgd && args->in[UPDATE_BUFFERS] != NULL)
        count = UPDATE_BUFFERS + 1;
    memcpy(tensors, args->in, (size_t)count * sizeof *tensors);
    if (op == OP_adam && args->list_count > 0)
        tensors[count++] = args->list[0];
    return count;
}

static bool
tensors_fit(struct task *me, enum op op, struct tensor *const *tensors, int count)
{
    struct tensor *param = tensors[UPDATE_PARAM];
    if (!dtype_is_float(param->dtype))
        return failed(me, E_DTYPE, "%s: expected fractions, got a tensor of %s", op_info(op)->name,
                      dtype_name(param->dtype));
    for (int i = 0; i < count; i++) {
        if (!tensor_same_shape(param, tensors[i]))
            return shape_mismatch(me, op, param, tensors[i], "a parameter, its gradient and its state are alike");
        if (tensor_device(tensors[i]) != tensor_device(param))
            return failed(me, E_DEVICE, "%s: expected the parameter, its gradient and its state on one device",
                          op_info(op)->name);
        if (i != UPDATE_GRAD && !tensor_is_writable(me, tensors[i]))
            return false;
    }
    return true;
}

static bool
update_on_host(struct task *me, const struct op_args *args, struct update_job *job, struct tensor *const *tensors)
{
    op_pay_host(me, update_op(job), args->module);
    for (int i = 0; i < job->views; i++) {
        if (!me->actor.on && !storage_is_claimed(tensors[i]->storage))
            continue;
        struct access access = tensor_access(tensors[i], i != UPDATE_GRAD, op_info(update_op(job))->name);
        if (!storage_access_by_host(me, &access))
            return false;
    }
    cpu_update(job);
    for (int i = 0; i < job->views; i++)
        if (i != UPDATE_GRAD && !tensor_wrote(me, tensors[i], op_info(update_op(job))->name))
            return false;
    return true;
}

static bool
update_on_device(struct task *me, const struct op_args *args, struct update_job *job, struct tensor *const *tensors)
{
    struct tensor *param  = tensors[UPDATE_PARAM];
    struct stream *stream = stream_current(me, tensor_device(param));
    if (stream == NULL)
        return false;
    int64_t             name  = stage_name_id(me, op_info(update_op(job))->name);
    struct price        price = op_price(me, update_op(job), args->module);
    struct stream_entry entry = {
        .kind = KIND_kernel, .args = { name, param->storage->number, tensor_bytes(param) },
        .price = price.kernel, .covered = price.covered, .access_count = job->views,
        .effect = cpu_update, .enqueue = update_queue, .context = job, .context_bytes = sizeof *job,
        .written = tensor_written(param),
    };
    /* The first that is written is what the snapshot shows: the parameter. */
    for (int i = 0; i < job->views; i++)
        entry.accesses[i] = tensor_access(tensors[i], i != UPDATE_GRAD, op_info(update_op(job))->name);
    return stream_launch(me, stream, &entry);
}

struct tensor *
run_update(struct task *me, enum op op, const struct op_args *args)
{
    struct tensor *tensors[UPDATE_VIEWS], *param = args->in[UPDATE_PARAM];
    struct update_job job; /* of the views only as many as there are */
    job.kind  = op == OP_adam ? UPDATE_ADAM : op == OP_adagrad ? UPDATE_ADAGRAD : UPDATE_SGD;
    job.views = take_tensors(op, args, tensors);
    job.rule  = args->update != NULL ? *args->update : (struct update_rule){ .lr = args->alpha };
    if (!tensors_fit(me, op, tensors, job.views))
        return NULL;
    job.compute = param->dtype == DTYPE_F64 ? DTYPE_F64 : DTYPE_F32;
    for (int i = 0; i < job.views; i++)
        tensor_look(tensors[i], &job.view[i]);
    if (!tensor_work(me, param))
        return NULL;
    bool on_host = tensor_device(param) == DEVICE_CPU;
    bool done    = on_host ? update_on_host(me, args, &job, tensors) : update_on_device(me, args, &job, tensors);
    return done ? param : NULL;
}
