/* The back-end of ranks that are processes. See remote.h. */
#include "c10d/remote.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "base/map.h"
#include "c10d/job.h"
#include "c10d/store.h"
#include "c10d/spin.h"
#include "device/cells.h"

uint32_t
remote_flow(const struct channel *channel, int from, int to, uint64_t number)
{
    const uint64_t words[3] = { channel->remote->id, (uint64_t)from << 32 | (uint64_t)to, number };
    return (uint32_t)(hash_bytes(0, words, sizeof words) >> 33) | 0x80000000u;
}

uint32_t
remote_tag(int64_t tag)
{
    return tag >= 0 ? (uint32_t)tag : (uint32_t)(REMOTE_TAGS - 1 - tag);
}

/* ---- the table's own slots ---- */

static void *
remote_open(struct task *me, const struct world_options *options)
{
    if (sched_is_stepped(me->sched))
        return failed_null(me, E_RUNTIME, "ranks that are processes run in the free executor alone: --executor free");
    if (job_transport(me, options->job) == NULL)
        return NULL;
    struct local *local = backend_local.open(me, options);
    if (local != NULL) {
        local->job         = options->job;
        local->by_messages = true;
    }
    return local;
}

static void *
remote_connect(struct task *me, void *transport, const int *ranks, int size)
{
    struct local   *local   = transport;
    struct channel *channel = backend_local.connect(me, transport, ranks, size);
    if (channel == NULL)
        return NULL;
    channel->remote = calloc(1, sizeof *channel->remote);
    if (channel->remote == NULL) {
        backend_local.disconnect(me, channel);
        return failed_null(me, E_MEMORY, "out of memory for a group of %d ranks", size);
    }
    *channel->remote = (struct remote_channel){ .job = local->job, .table = job_transport_table(local->job) };
    channel->carrier = &carrier_remote;
    channel->pauses  = spin_pauses(job_local_size(local->job));
    return channel;
}

static void
remote_disconnect(struct task *me, void *channel_)
{
    struct channel        *channel = channel_;
    struct remote_channel *remote  = channel->remote;
    for (struct link *link = channel->first_link; link != NULL; link = link->next)
        carrier_remote.withdraw(me, link);
    bool broken = atomic_load(&remote->is_broken) || job_has_lost(me, remote->job, channel->ranks, channel->size);
    if (remote->own != NULL)
        remote->table->disconnect(remote->own, broken);
    map_free(&channel->hop_counts);
    map_free(&channel->post_counts);
    backend_local.disconnect(me, channel);
    free(remote);
}

/* ---- meeting ---- */

struct meeting { struct task *me; struct store *store; };

static bool
meeting_set(void *context, const char *key, const void *bytes, size_t count)
{
    struct meeting    *meeting = context;
    struct store_text  value   = { bytes, count };
    size_t             mark    = scope_mark(meeting->me);
    bool               ok      = store_multi_set(meeting->me, meeting->store, &key, &value, 1);
    scope_release(meeting->me, mark);
    return ok;
}

static int
meeting_get(void *context, const char *key, void **out, size_t *count)
{
    struct meeting   *meeting = context;
    struct store_text value   = { NULL, 0 };
    bool              there   = false;
    size_t            mark    = scope_mark(meeting->me);
    bool              ok      = store_peek(meeting->me, meeting->store, key, &value, &there);
    *out = ok && there ? malloc(value.count + 1) : NULL;
    if (*out != NULL) {
        memcpy(*out, value.bytes, value.count);
        *count = value.count;
    }
    scope_release(meeting->me, mark);
    return !ok ? -1 : *out != NULL ? 1 : there ? -1 : 0;
}

/* Whether the key is there; waits for it. The last look comes after the news that its rank has ended. */
static bool
await_key(struct meeting *meeting, struct remote_wait *wait, const char *key)
{
    for (uint64_t looks = 0;; looks++) {
        void  *bytes   = NULL;
        size_t count   = 0;
        bool   goes_on = remote_pause(wait, looks);
        int    got     = meeting_get(meeting, key, &bytes, &count);
        free(bytes);
        if (got != 0 || !goes_on)
            return got > 0;
    }
}

/* Who is connected may end, which would look to the others, who are not yet, as if it would never come. */
static bool
await_connected(struct meeting *meeting, struct remote_wait *wait, const char *name)
{
    const struct channel *channel = wait->channel;
    char                  key[80];
    snprintf(key, sizeof key, "%s/connected/%d", name, channel->remote->rank);
    bool ok = meeting_set(meeting, key, "", 0);
    for (int rank = 0; ok && rank < channel->size; rank++) {
        snprintf(key, sizeof key, "%s/connected/%d", name, rank);
        ok = rank == channel->remote->rank || await_key(meeting, wait, key);
    }
    return ok;
}

static enum remote_hope
meeting_hope(const void *given)
{
    return communicator_is_lost(((const struct group_meeting *)given)->communicator) ? LITTLE_HOPE : HOPE;
}

static bool
say_gone(struct task *me, const void *given)
{
    return communicator_say_lost(me, ((const struct group_meeting *)given)->communicator);
}

const struct remote_vain remote_meeting_vain = { meeting_hope, say_gone, NULL };

/* All members have come, or will: see communicator_meet. */
static bool
remote_meet(struct task *me, void *channel_, const struct group_meeting *given)
{
    struct channel          *channel = channel_;
    struct remote_channel   *remote  = channel->remote;
    struct meeting           context = { me, given->store };
    struct remote_wait       wait;
    struct transport_why     why     = { "" };
    const struct wait_reason reason  = { .what = given->what, .sequence = -1, .group = -1, .peer = -1,
                                         .timeout_ps = given->timeout_ps };
    char                     name[40];
    const struct transport_store store = { .context = &context, .set = meeting_set, .get = meeting_get };
    remote->id   = given->id;
    remote->rank = given->rank;
    if (channel->size < 2 || remote->own != NULL)
        return true;
    remote_wait_begin(&wait, me, channel, &reason);
    wait.vain = &remote_meeting_vain;
    wait.what = given;
    snprintf(name, sizeof name, "group/%016llx", (unsigned long long)given->id);
    const struct transport_channel_options options = {
        .name = name, .ranks = channel->ranks, .size = channel->size, .rank = given->rank, .waiter = &wait.waiter,
        .store = &store, .timeout_ms = wait.reason.timeout_ps / 1000000000,
    };
    remote->own = remote->table->connect(job_transport(me, remote->job), &options, &why);
    if (remote->own == NULL || !await_connected(&context, &wait, name))
        return remote_failed(&wait, &why);
    remote_wait_end(&wait);
    return true;
}

/* ---- what the transport does itself ---- */

static enum transport_operation
operation_of(const struct collective *call)
{
    static const enum transport_operation operations[] = {
        [OPERATION_ALL_REDUCE] = TRANSPORT_ALL_REDUCE, [OPERATION_BROADCAST] = TRANSPORT_BROADCAST,
        [OPERATION_REDUCE] = TRANSPORT_REDUCE, [OPERATION_ALL_GATHER] = TRANSPORT_ALL_GATHER,
        [OPERATION_GATHER] = TRANSPORT_GATHER, [OPERATION_SCATTER] = TRANSPORT_SCATTER,
        [OPERATION_REDUCE_SCATTER] = TRANSPORT_REDUCE_SCATTER, [OPERATION_ALL_TO_ALL] = TRANSPORT_ALL_TO_ALL,
        [OPERATION_BARRIER] = TRANSPORT_BARRIER,
    };
    return operations[call->operation];
}

static enum dtype
dtype_of(const struct collective *call)
{
    const struct tensor *tensor = call->tensor != NULL ? call->tensor : call->inputs != NULL ? call->inputs[0] : NULL;
    return tensor != NULL ? tensor->dtype : DTYPE_U8;
}

/* Whether what is listed is a piece of one length for each rank: what a transport could misunderstand is left to
 * messages of ours, whose lengths are compared. */
static bool
is_even(const struct collective *call)
{
    for (int i = 1; i < call->ranks; i++)
        if ((call->inputs != NULL && tensor_bytes(call->inputs[i]) != tensor_bytes(call->inputs[0])) ||
            (call->outputs != NULL && tensor_bytes(call->outputs[i]) != tensor_bytes(call->outputs[0])))
            return false;
    return true;
}

/* Reductions to one rank add in Gloo's order, piece by piece, so they are made of messages. */
bool
remote_takes(const struct collective *call)
{
    const struct channel        *channel = call->channel;
    const struct remote_channel *remote  = channel->remote;
    bool named = call->options.algorithm != NULL || call->options.custom != NULL || call->options.ring_forwards;
    if (remote == NULL || call->ranks < 2 || named || call->operation == OPERATION_REDUCE ||
        call->operation == OPERATION_REDUCE_SCATTER || !is_even(call))
        return false;
    return remote->table->has(operation_of(call), (enum transport_dtype)dtype_of(call),
                              (enum transport_reduce)call->options.op);
}

/* As the transport sees it, and how its elements are added. */
struct remote_call { struct transport_call call; struct reduction reduction; };

static void
reduce_for_transport(const struct transport_call *call, void *into, const void *from, size_t bytes)
{
    const struct remote_call *remote = (const struct remote_call *)(const void *)call;
    reduce_elements(&remote->reduction, into, from, bytes);
}

static struct transport_span
span_of(const struct tensor *tensor)
{
    return tensor != NULL ? (struct transport_span){ tensor_elements(tensor), (size_t)tensor_bytes(tensor) }
                          : (struct transport_span){ NULL, 0 };
}

/* One a rank, in scratch memory; of one tensor that is gathered into, its parts. */
static bool
list_spans(struct task *me, const struct collective *call, struct tensor *const *tensors, const struct tensor *whole,
           const struct transport_span **out)
{
    if (tensors == NULL && whole == NULL)
        return true;
    struct transport_span *spans = scratch_new(me, (size_t)call->ranks, sizeof *spans);
    for (int i = 0; spans != NULL && i < call->ranks; i++) {
        size_t part = whole != NULL ? (size_t)call->bytes : 0;
        spans[i] = whole == NULL ? span_of(tensors[i])
                                 : (struct transport_span){ (char *)tensor_elements(whole) + (size_t)i * part, part };
    }
    *out = spans;
    return spans != NULL;
}

/* The collective as a whole, by the transport. */
bool
remote_run(struct task *me, const struct collective *call)
{
    struct channel        *channel = call->channel;
    struct remote_channel *remote  = channel->remote;
    struct remote_wait     wait;
    struct transport_why   why    = { "" };
    enum dtype             dtype  = dtype_of(call);
    const struct wait_reason reason = work_reason(call->work, -1);
    struct remote_call     made   = {
        .call = { .operation = operation_of(call), .dtype = (enum transport_dtype)dtype, .element = dtype_size(dtype),
                  .op = (enum transport_reduce)call->options.op, .root = call->options.root,
                  .number = (uint64_t)call->sequence, .span = span_of(call->tensor), .reduce = reduce_for_transport,
                  .waiter = &wait.waiter },
        .reduction = { .on = true, .op = call->options.op, .dtype = (int)dtype },
    };
    if (!list_spans(me, call, call->inputs, NULL, &made.call.inputs) ||
        !list_spans(me, call, call->outputs, call->gathered, &made.call.outputs))
        return false;
    remote_wait_begin(&wait, me, channel, &reason);
    wait.vain = &remote_work_vain;
    wait.what = call->work;
    wait.call = call;
    bool done = remote->table->run(remote->own, &made.call, &why);
    if (wait.in_stage)
        stage_leave(&wait.stage);
    if (!done)
        return remote_failed(&wait, &why);
    remote_wait_end(&wait);
    return true;
}

static bool
transport_all_reduce(struct task *me, const struct collective *call)
{
    return remote_run(me, call);
}

const struct algorithm algorithm_transport = {
    "transport", transport_all_reduce, NULL, false, "the transport's", "the transport's",
    "what Gloo or MPI does by itself; only where ranks are processes"
};

const struct group_backend backend_remote = {
    .abi        = GROUP_BACKEND_ABI,
    .name       = "remote",
    .open       = remote_open,
    .close      = local_close,
    .wake       = local_wake,
    .connect    = remote_connect,
    .meet       = remote_meet,
    .disconnect = remote_disconnect,
    .accepts    = local_accepts,
    .stays      = local_stays,
    .has_algorithm = algorithm_is_built_in,
    .all_reduce = local_all_reduce,
    .broadcast  = local_broadcast,
    .reduce     = local_reduce,
    .all_gather = local_all_gather,
    .gather     = local_gather,
    .scatter    = local_scatter,
    .reduce_scatter = local_reduce_scatter,
    .all_to_all = local_all_to_all,
    .barrier    = local_barrier,
    .post       = local_post,
    .send       = local_send,
    .recv       = local_recv,
    .withdraw   = local_withdraw,
};
