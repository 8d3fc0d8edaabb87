/* NCCL for the back-end nccl: the table of c10d/nccl_table.h. Communicators do not block: a call of NCCL's may
 * answer "in progress" and goes on in NCCL's own threads, and nothing else may be asked of the communicator until
 * that is over; only then is what was launched in the stream, so only then an event behind it says when the GPU has
 * done it. `poll` takes these steps one after the other.
 *
 * Interface: ringside_nccl_1. In PyTorch: torch/csrc/distributed/c10d/NCCLUtils.cpp, ProcessGroupNCCL.cpp. */
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "plugins/cuda/cuda.h"
#include "plugins/cuda/nccl_api.h"

/* NCCL works by itself; then what it launched is in the stream, and the GPU works; nothing is under way. */
enum step { STEP_JOINING, STEP_LAUNCHING, STEP_RUNNING, STEP_IDLE, STEP_FAILED };

struct nccl_comm {
    const struct nccl_api *api;
    nccl_handle            handle;      /* NULL: it never came so far */
    struct backend_stream *stream;
    struct backend_mark   *done;        /* behind the last launch */
    float                 *one;         /* a barrier's element, the GPU's */
    enum step              step;
    const char            *what;        /* under way, for messages */
    char                   name[NCCL_NAME];     /* NCCL keeps its address and reads it in threads of its own */
    int                    premul;      /* NCCL's number of the factor that is in use; -1: none */
    struct backend_why     why;         /* FAILED */
};

static const int types[NCCL_DTYPES] = {
    [NCCL_F32] = TYPE_FLOAT32, [NCCL_F64] = TYPE_FLOAT64, [NCCL_I64] = TYPE_INT64, [NCCL_BOOL] = TYPE_UINT8,
    [NCCL_I32] = TYPE_INT32,   [NCCL_U8] = TYPE_UINT8,    [NCCL_F16] = TYPE_FLOAT16, [NCCL_BF16] = TYPE_BFLOAT16,
    [NCCL_I8] = TYPE_INT8,
};

static const char *
title_of(enum nccl_kind kind)
{
    static const char *const titles[] = {
        [NCCL_ALL_REDUCE] = "all_reduce", [NCCL_BROADCAST] = "broadcast", [NCCL_REDUCE] = "reduce",
        [NCCL_ALL_GATHER] = "all_gather", [NCCL_REDUCE_SCATTER] = "reduce_scatter", [NCCL_SEND] = "send",
        [NCCL_RECV] = "recv", [NCCL_BARRIER] = "barrier",
    };
    return titles[kind];
}

/* The first failure's words stay: later ones only follow from it. */
static bool
fail(struct nccl_comm *comm, const struct backend_why *why)
{
    comm->step = STEP_FAILED;
    comm->why  = *why;
    return false;
}

/* Done, or going on in NCCL's own threads. */
static bool
nccl_goes_on(struct nccl_comm *comm, int result, struct backend_why *why)
{
    if (result == RESULT_SUCCESS || result == RESULT_IN_PROGRESS)
        return true;
    nccl_failed(comm->api, result, comm->handle, comm->what, why);
    return fail(comm, why);
}

/* ---- before ---- */

static const char *
library_version(struct backend_why *why)
{
    const struct nccl_api *api = nccl_load(why);
    return api != NULL ? api->title : NULL;
}

static int
gpus(void)
{
    struct backend_why why;
    return cuda_is_here(&why) ? cuda_physical_count() : 0;
}

static int
physical(const struct backend_stream *stream)
{
    return stream->device->physical;
}

static bool
make_id(struct nccl_id *id, struct backend_why *why)
{
    const struct nccl_api *api = nccl_load(why);
    if (api == NULL)
        return false;
    int result = api->unique_id(id);
    return result == RESULT_SUCCESS || nccl_failed(api, result, NULL, "opening a place to meet", why);
}

/* ---- joining ---- */

static void
free_comm(struct nccl_comm *comm)
{
    struct backend_why why;
    (void)cuda_finish(comm->stream, &why);     /* of the communicator nothing is left in it that could hang */
    if (comm->done != NULL)
        cuda_mark_free(comm->done);
    if (comm->one != NULL && cuda_enter(comm->stream->device, &why))
        (void)cudaFree(comm->one);
    free(comm);
}

static bool
equip(struct nccl_comm *comm, struct backend_why *why)
{
    return cuda_enter(comm->stream->device, why) && (comm->done = cuda_mark(comm->stream->device, why)) != NULL &&
           cuda_done(cudaMalloc((void **)&comm->one, sizeof *comm->one), "making room for a barrier's element", why) &&
           cuda_done(cudaMemsetAsync(comm->one, 0, sizeof *comm->one, comm->stream->stream),
                     "setting a barrier's element", why);
}

static int
begin_joining(struct nccl_comm *comm, const struct nccl_member *member)
{
    int                version = 0;
    struct nccl_config config  = { .size = offsetof(struct nccl_config, cluster), .magic = (unsigned)CONFIG_MAGIC,
                                   .version = CONFIG_OLD, .blocking = 0, .cluster = INT_MIN, .least_blocks = INT_MIN,
                                   .most_blocks = INT_MIN, .split_share = INT_MIN, .traffic = INT_MIN,
                                   .name = comm->name };
    profiler_name(member->number, comm->name);
    if (comm->api->version(&version) == RESULT_SUCCESS && version >= CONFIG_NAMED) {
        config.size    = sizeof config;
        config.version = CONFIG_NAMED;
    }
    return comm->api->join(&comm->handle, member->size, *member->id, member->rank, &config);
}

static struct nccl_comm *
join(const struct nccl_member *member, struct backend_why *why)
{
    const struct nccl_api *api  = nccl_load(why);
    struct nccl_comm      *comm = api != NULL ? calloc(1, sizeof *comm) : NULL;
    if (comm == NULL) {
        if (api != NULL)
            *why = (struct backend_why){ TROUBLE_MEMORY, "out of memory for a communicator of NCCL" };
        return NULL;
    }
    comm->api    = api;
    comm->stream = member->stream;
    comm->premul = -1;
    comm->what   = "joining the group";
    bool begun   = equip(comm, why) && nccl_goes_on(comm, begin_joining(comm, member), why);
    if (begun) {
        comm->step = STEP_JOINING;
        return comm;
    }
    if (comm->handle != NULL)
        (void)api->abort(comm->handle);
    free_comm(comm);
    return NULL;
}

/* ---- launching ---- */

static int
reduction_of(struct nccl_comm *comm, const struct nccl_launch *launch, int *op)
{
    static const int ops[] = { [NCCL_SUM] = OP_SUM, [NCCL_PRODUCT] = OP_PRODUCT, [NCCL_MIN] = OP_MIN,
                              [NCCL_MAX] = OP_MAX,
                               [NCCL_AVG] = OP_AVG };
    uint64_t         factor = launch->factor;
    if (launch->reduce != NCCL_PREMUL_SUM) {
        /* Bytes that are truths stay 0 or 1: some is true, all are. */
        bool is_truth = launch->dtype == NCCL_BOOL;
        *op = is_truth && launch->reduce == NCCL_SUM ? OP_MAX : is_truth && launch->reduce == NCCL_PRODUCT ? OP_MIN
            : ops[launch->reduce];
        return RESULT_SUCCESS;
    }
    int result = comm->api->premul(&comm->premul, &factor, types[launch->dtype], SCALAR_HOST, comm->handle);
    *op = comm->premul;
    return result;
}

static int
launch_one(struct nccl_comm *comm, const struct nccl_operation *o, int type, int op)
{
    const struct nccl_api *api    = comm->api;
    cudaStream_t           stream = comm->stream->stream;
    nccl_handle            to     = comm->handle;
    comm->what = title_of(o->kind);
    switch (o->kind) {
    case NCCL_ALL_REDUCE: return api->all_reduce(o->send, o->recv, o->count, type, op, to, stream);
    case NCCL_BROADCAST: return api->broadcast(o->send, o->recv, o->count, type, o->peer, to, stream);
    case NCCL_REDUCE: return api->reduce(o->send, o->recv, o->count, type, op, o->peer, to, stream);
    case NCCL_ALL_GATHER: return api->all_gather(o->send, o->recv, o->count, type, to, stream);
    case NCCL_REDUCE_SCATTER: return api->reduce_scatter(o->send, o->recv, o->count, type, op, to, stream);
    case NCCL_SEND: return api->send(o->send, o->count, type, o->peer, to, stream);
    case NCCL_RECV: return api->recv(o->recv, o->count, type, o->peer, to, stream);
    case NCCL_BARRIER: return api->all_reduce(comm->one, comm->one, 1, TYPE_FLOAT32, OP_MAX, to, stream);
    }
    return RESULT_ARGUMENT;
}

/* The group is closed whatever happens in it: it is the thread's, and an open one would swallow all that follows. */
static int
launch_all(struct nccl_comm *comm, const struct nccl_launch *launch, int op)
{
    const struct nccl_api *api   = comm->api;
    bool                   group = launch->count > 1;
    int                    first = group ? api->group_start() : RESULT_SUCCESS;
    bool                   open  = group && first == RESULT_SUCCESS;
    for (int i = 0; i < launch->count && (first == RESULT_SUCCESS || first == RESULT_IN_PROGRESS); i++) {
        int result = launch_one(comm, &launch->operations[i], types[launch->dtype], op);
        first = result != RESULT_SUCCESS ? result : first;
    }
    int end = open ? api->group_end() : RESULT_SUCCESS;
    return first == RESULT_SUCCESS || first == RESULT_IN_PROGRESS ? (end != RESULT_SUCCESS ? end : first) : first;
}

static bool
launch(struct nccl_comm *comm, const struct nccl_launch *launch, struct backend_why *why)
{
    int op = OP_SUM;
    if (comm->step != STEP_IDLE) {
        *why = comm->step == STEP_FAILED ? comm->why
                                         : (struct backend_why){ TROUBLE_FAILED,
                                                                "NCCL is asked for two things at once" };
        return false;
    }
    if (!cuda_enter(comm->stream->device, why))
        return fail(comm, why);
    comm->what = title_of(launch->operations[0].kind);
    comm->step = STEP_LAUNCHING;
    return nccl_goes_on(comm, reduction_of(comm, launch, &op), why) &&
           nccl_goes_on(comm, launch_all(comm, launch, op), why);
}

/* ---- looking ---- */

static enum nccl_state
tell_failure(const struct nccl_comm *comm, struct backend_why *why)
{
    *why = comm->why;
    return NCCL_FAILED;
}

/* What NCCL does by itself is over: the factor may go, and behind the launch comes the event. */
static bool
mark_end(struct nccl_comm *comm, struct backend_why *why)
{
    if (comm->premul >= 0) {
        int premul   = comm->premul;
        comm->premul = -1;
        if (!nccl_goes_on(comm, comm->api->premul_free(premul, comm->handle), why))
            return false;
    }
    journal_add(comm->stream->journal, "a collective of NCCL", 0);
    return cuda_put(comm->done, comm->stream, why) || fail(comm, why);
}

static void
step_on(struct nccl_comm *comm, struct backend_why *why)
{
    if (comm->step == STEP_JOINING)
        comm->step = STEP_IDLE;
    if (comm->step == STEP_LAUNCHING && mark_end(comm, why))
        comm->step = STEP_RUNNING;
    if (comm->step != STEP_RUNNING)
        return;
    int is_past = cuda_is_past(comm->done, why);
    if (is_past > 0)
        comm->step = STEP_IDLE;
    else if (is_past < 0)
        (void)fail(comm, why);
}

/* NCCL's error comes first: a kernel that waits for a rank that is gone never ends by itself. */
static enum nccl_state
poll(struct nccl_comm *comm, struct backend_why *why)
{
    int state = RESULT_SUCCESS;
    if (comm->step == STEP_FAILED)
        return tell_failure(comm, why);
    if (!cuda_enter(comm->stream->device, why)) {
        (void)fail(comm, why);
        return NCCL_FAILED;
    }
    int result = comm->api->async_error(comm->handle, &state);
    if (!nccl_goes_on(comm, result, why) || !nccl_goes_on(comm, state, why))
        return NCCL_FAILED;
    if (state == RESULT_SUCCESS)
        step_on(comm, why);
    return comm->step == STEP_IDLE ? NCCL_READY : comm->step == STEP_FAILED ? NCCL_FAILED : NCCL_BUSY;
}

/* ---- after ---- */

static void
abort_comm(struct nccl_comm *comm)
{
    struct backend_why why;
    if (cuda_enter(comm->stream->device, &why) && comm->handle != NULL)
        (void)comm->api->abort(comm->handle);
    free_comm(comm);
}

static void
destroy(struct nccl_comm *comm)
{
    struct backend_why why;
    if (comm->step != STEP_IDLE) {
        abort_comm(comm);
        return;
    }
    if (cuda_enter(comm->stream->device, &why) && comm->handle != NULL)
        (void)comm->api->destroy(comm->handle);
    free_comm(comm);
}

extern const struct nccl_table ringside_nccl_1;
__attribute__((visibility("default"))) const struct nccl_table ringside_nccl_1 = {
    .abi = NCCL_TABLE_ABI, .size = sizeof(struct nccl_table), .version = library_version, .gpus = gpus,
        .physical = physical,
    .profile = profiler_open, .records = profiler_records, .make_id = make_id, .join = join, .poll = poll,
        .launch = launch,
    .abort = abort_comm, .destroy = destroy,
};
