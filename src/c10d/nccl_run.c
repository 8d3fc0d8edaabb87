/* Collectives of the back-end nccl, made of NCCL's own operations as ProcessGroupNCCL makes them: lists of tensors
 * are a broadcast or a reduction for each rank, or sends and receives, all in one group; what a rank has for itself
 * it sends to itself. A mean is NCCL's own.
 *
 * Interface: nccl_takes, nccl_run; nccl_accepts before a call has a number. */
#include <string.h>
#include "base/dtype.h"
#include "c10d/nccl_internal.h"
#include "c10d/nccl_events.h"
#include "device/cells.h"
#include "device/stream.h"

_Static_assert((int)NCCL_F32 == (int)DTYPE_F32 && (int)NCCL_BOOL == (int)DTYPE_BOOL &&
               (int)NCCL_F16 == (int)DTYPE_F16 &&
               (int)NCCL_I8 == (int)DTYPE_I8 && (int)NCCL_DTYPES == (int)DTYPE_COUNT, "types are numbered alike");

void *
nccl_elements(const struct tensor *tensor)
{
    char *data = tensor->storage->data;
    return data == NULL ? NULL : data + (size_t)tensor->offset * dtype_size(tensor->dtype);
}

static const struct tensor *
first_of(const struct collective *call)
{
    return call->tensor != NULL ? call->tensor : call->inputs != NULL ? call->inputs[0] : NULL;
}

/* What lies on a GPU, and barriers. An all-reduce that a lesson wrote is made of messages. */
bool
nccl_takes(const struct collective *call)
{
    const struct channel *channel = call->channel;
    const struct tensor  *first   = first_of(call);
    bool on_device = first == NULL || tensor_device(first) >= 0;
    return channel->nccl != NULL && on_device && call->options.custom == NULL;
}

/* ---- may it? ---- */

static bool
reduction_fits(struct task *me, const struct collective *call)
{
    enum reduce_op op = call->options.op;
    bool reduces = call->operation == OPERATION_ALL_REDUCE || call->operation == OPERATION_REDUCE ||
                   call->operation == OPERATION_REDUCE_SCATTER;
    bool bits = op == REDUCE_BAND || op == REDUCE_BOR || op == REDUCE_BXOR;
    if (reduces && bits)
        return failed(me, E_VALUE, "Cannot use ReduceOp.%s with NCCL", reduce_op_title(op));
    if (call->options.custom != NULL && (op == REDUCE_AVG || op == REDUCE_PREMUL_SUM))
        return failed(me, E_NOT_IMPLEMENTED,
                      "ReduceOp.%s with an algorithm of one's own and tensors on GPUs: take SUM, and "
                      "scale the tensor", reduce_op_title(op));
    return true;
}

/* NCCL chooses by itself. */
static bool
algorithm_fits(struct task *me, const struct collective *call)
{
    const char *name = call->options.algorithm;
    if (name == NULL || strcmp(name, "auto") == 0)
        return true;
    return failed(me, E_VALUE,
                  "all_reduce: NCCL chooses its algorithm by itself, so there is no '%.40s' here: the environment "
                  "variable NCCL_ALGO (Ring, Tree) tells it, or --backend local has ours", name);
}

static bool
device_fits(struct task *me, const struct collective *call, const struct tensor *tensor)
{
    const struct channel *channel = call->channel;
    const struct local   *local   = channel->local;
    int device = tensor_device(tensor), own = channel->nccl->ends[call->rank].device;
    if (device < 0)
        return local->job == NULL || channel->remote != NULL ||
               failed(me, E_DEVICE,
                      "this tensor lies in the host's memory, which goes between processes by Gloo, and that is "
                      "not here: move it to the GPU (t:cuda()), or install Gloo ('ringside devices')");
    return device == own || failed(me, E_DEVICE,
                                   "the tensor is on device:%d, but this rank's NCCL is on device:%d: a rank "
                                   "has one GPU", device, own);
}

bool
nccl_accepts(struct task *me, const struct collective *call)
{
    const struct tensor *first = first_of(call);
    if (first != NULL && !device_fits(me, call, first))
        return false;
    if (first == NULL || tensor_device(first) < 0)
        return first == NULL || backend_local.accepts(me, call);
    return reduction_fits(me, call) && algorithm_fits(me, call);
}

/* ---- NCCL's operations ---- */

struct list { struct nccl_operation *at; int count; };

/* What is empty does not travel: both ends see that. */
static void
add(struct list *list, enum nccl_kind kind, const struct tensor *send, const struct tensor *recv, int peer)
{
    const struct tensor *counted = send != NULL ? send : recv;
    int64_t              count   = tensor_count(counted);
    if (count > 0)
        list->at[list->count++] = (struct nccl_operation){ kind, send != NULL ? nccl_elements(send) : NULL,
                                                           recv != NULL ? nccl_elements(recv) : NULL, (size_t)count,
                                                               peer };
}

static void
add_all_gather(struct list *list, const struct collective *call)
{
    if (call->gathered != NULL) {
        add(list, NCCL_ALL_GATHER, call->tensor, call->gathered, 0);
        return;
    }
    for (int r = 0; r < call->ranks; r++)
        add(list, NCCL_BROADCAST, r == call->rank ? call->tensor : call->outputs[r], call->outputs[r], r);
}

/* One after the other in memory, and equally long. */
static bool
lie_in_a_row(const struct collective *call)
{
    const char *first = nccl_elements(call->inputs[0]);
    int64_t     bytes = tensor_bytes(call->inputs[0]);
    for (int r = 1; r < call->ranks; r++)
        if (tensor_bytes(call->inputs[r]) != bytes || (const char *)nccl_elements(call->inputs[r]) != first + bytes * r)
            return false;
    return true;
}

static void
add_reduce_scatter(struct list *list, const struct collective *call)
{
    if (lie_in_a_row(call)) {
        add(list, NCCL_REDUCE_SCATTER, call->inputs[0], call->tensor, 0);
        return;
    }
    for (int r = 0; r < call->ranks; r++)
        add(list, NCCL_REDUCE, call->inputs[r], r == call->rank ? call->tensor : NULL, r);
}

static void
add_messages(struct list *list, const struct collective *call)
{
    int  root   = call->options.root;
    bool gather = call->operation == OPERATION_GATHER, scatter = call->operation == OPERATION_SCATTER;
    if (gather)
        add(list, NCCL_SEND, call->tensor, NULL, root);
    for (int r = 0; r < call->ranks; r++) {
        if (call->inputs != NULL)
            add(list, NCCL_SEND, call->inputs[r], NULL, r);
        if (call->outputs != NULL)
            add(list, NCCL_RECV, NULL, call->outputs[r], r);
    }
    if (scatter)
        add(list, NCCL_RECV, NULL, call->tensor, root);
}

static void
add_operations(struct list *list, const struct collective *call)
{
    switch (call->operation) {
    case OPERATION_ALL_REDUCE: add(list, NCCL_ALL_REDUCE, call->tensor, call->tensor, 0); break;
    case OPERATION_BROADCAST: add(list, NCCL_BROADCAST, call->tensor, call->tensor, call->options.root); break;
    case OPERATION_REDUCE: add(list, NCCL_REDUCE, call->tensor, call->tensor, call->options.root); break;
    case OPERATION_ALL_GATHER: add_all_gather(list, call); break;
    case OPERATION_REDUCE_SCATTER: add_reduce_scatter(list, call); break;
    case OPERATION_GATHER:
    case OPERATION_SCATTER:
    case OPERATION_ALL_TO_ALL: add_messages(list, call); break;
    case OPERATION_BARRIER: list->at[list->count++] = (struct nccl_operation){ .kind = NCCL_BARRIER }; break;
    case OPERATION_SEND:
    case OPERATION_RECV: break;
    }
}

static enum nccl_reduce
reduction_of(enum reduce_op op)
{
    switch (op) {
    case REDUCE_AVG: return NCCL_AVG;
    case REDUCE_PRODUCT: return NCCL_PRODUCT;
    case REDUCE_MIN: return NCCL_MIN;
    case REDUCE_MAX: return NCCL_MAX;
    case REDUCE_PREMUL_SUM: return NCCL_PREMUL_SUM;
    default: return NCCL_SUM;
    }
}

static bool
reduces(const struct collective *call)
{
    return call->operation == OPERATION_ALL_REDUCE || call->operation == OPERATION_REDUCE ||
           call->operation == OPERATION_REDUCE_SCATTER;
}

static void
describe_reduction(struct nccl_launch *launch, const struct collective *call)
{
    const struct tensor *first = first_of(call);
    launch->dtype = first != NULL ? (enum nccl_dtype)first->dtype : NCCL_F32;
    if (reduces(call))
        launch->reduce = reduction_of(call->options.op);
    if (launch->reduce == NCCL_PREMUL_SUM)
        dtype_put_fraction(first->dtype, &launch->factor, call->options.factor);
}

/* ---- after ---- */

static void
changed(struct tensor *tensor)
{
    if (tensor != NULL)
        tensor_bump(tensor);
}

/* A new version of what NCCL has written into. */
static void
tell_outcome(const struct collective *call)
{
    bool root = call->rank == call->options.root;
    switch (call->operation) {
    case OPERATION_BROADCAST: changed(root ? NULL : call->tensor); break;
    case OPERATION_REDUCE: changed(root ? call->tensor : NULL); break;
    case OPERATION_ALL_REDUCE:
    case OPERATION_SCATTER:
    case OPERATION_REDUCE_SCATTER: changed(call->tensor); break;
    default: break;
    }
    changed(call->gathered);
    for (int r = 0; call->outputs != NULL && r < call->ranks; r++)
        changed(call->outputs[r]);
}

static bool
touch_all(struct task *me, const struct collective *call, struct tensor *const *tensors, bool write)
{
    for (int r = 0; tensors != NULL && r < call->ranks; r++)
        if (!tensor_touch(me, tensors[r], write, "NCCL"))
            return false;
    return true;
}

/* NCCL's stream comes after what made the tensors. */
static bool
follow(struct task *me, const struct collective *call, const struct nccl_end *end)
{
    const struct tensor *first = first_of(call);
    if (call->ready != NULL)
        return stream_wait_event(me, end->stream, call->ready);
    struct stream *made_on = first != NULL ? stream_current(me, end->device) : NULL;
    return first == NULL || (made_on != NULL && stream_wait_stream(me, end->stream, made_on));
}

bool
nccl_run(struct task *me, const struct collective *call)
{
    struct channel          *channel = call->channel;
    struct nccl_channel     *nccl    = channel->nccl;
    struct remote_wait       wait;
    struct nccl_launch       launch  = { .count = 0 };
    struct list              list    = { scratch_new(me, 2 * (size_t)call->ranks + 1, sizeof *list.at), 0 };
    const struct wait_reason reason  = work_reason(call->work, -1);
    if (list.at == NULL || !touch_all(me, call, call->inputs, false) || !touch_all(me, call, call->outputs, true) ||
        !follow(me, call, &nccl->ends[call->rank]))
        return false;
    add_operations(&list, call);
    describe_reduction(&launch, call);
    launch.operations = list.at;
    launch.count      = list.count;
    remote_wait_begin(&wait, me, channel, &reason);
    wait.vain = &remote_work_vain;
    wait.what = call->work;
    if (launch.count > 0 && !nccl_launch(me, nccl, &nccl->ends[call->rank], &launch, &wait))
        return false;
    tell_outcome(call);
    nccl_events_collect(me, nccl->nccl->events);
    return true;
}
