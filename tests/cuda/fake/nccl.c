/* See nccl.h. Ranks meet in two places: all of them in the rounds of collectives, counted by each; two in line for a
 * send and a receive. Whoever comes last puts the work into the streams of all, whose ranks meanwhile only ask
 * whether it goes on.
 *
 * Interface: nccl_load, which answers the table of these functions; fake_nccl_break, _living, _aborted, _same_gpu. */
#include "nccl.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "nccl_sum.h"
#include "plugins/cuda/nccl_api.h"

enum { RANKS = 16, GROUPED = 256 };

enum verb { VERB_ALL_REDUCE, VERB_BROADCAST, VERB_REDUCE, VERB_ALL_GATHER, VERB_REDUCE_SCATTER, VERB_SEND, VERB_RECV };

struct asked {
    struct ncclComm *comm;
    enum verb        verb;
    const void      *send;
    void            *recv;
    size_t           count;
    int              type, op, root;      /* root: of a message, the peer */
    cudaStream_t     stream;
    struct asked    *next;                /* waits for its mate */
};

/* One collective of all ranks; it stays until its meeting is over, since the streams read it late. */
struct round {
    struct round *older;
    int64_t       number;
    int           come, ranks;
    struct asked  asked[RANKS];
    unsigned char *given[RANKS], *made[RANKS];   /* on the host */
    size_t        give, make;                    /* bytes of each rank */
};

struct meeting {
    struct meeting  *next;
    struct nccl_id   id;
    int              ranks, joined, left;
    struct ncclComm *member[RANKS];
    struct round    *rounds;
    struct asked    *waiting;                    /* sends and receives */
};

struct ncclComm {
    struct meeting *meeting;
    int             rank, device, pending, looks, result;
    int64_t         next;
    char            last_error[200];
    cudaStream_t    stream;                      /* the last one that it was asked in */
    double          factor;
    int             factors;                     /* made, and not given back */
    const char     *name;                        /* where the config had it, as in NCCL */
    void           *profiler;
};

/* As NCCL's, all of this is the process's; its groups are the thread's. */
static struct {
    pthread_mutex_t        mutex;
    struct meeting        *meetings;
    uint64_t               ids;
    int                    living, aborted;
    bool                   same_gpu_refused;
    struct fake_nccl_fault fault;
} fake = { .mutex = PTHREAD_MUTEX_INITIALIZER, .same_gpu_refused = true };

static _Thread_local struct { int depth, count; struct asked asked[GROUPED]; } group;

static size_t
bytes_of(int type, size_t count)
{
    return fake_sum_size(type) * count;
}

/* ---- the work of a round, in the streams of its ranks ---- */

/* What each rank gives, and what it gets. */
static void
measure(struct round *round)
{
    const struct asked *first = &round->asked[0];
    size_t              one   = bytes_of(first->type, first->count), all = one * (size_t)round->ranks;
    round->give = first->verb == VERB_REDUCE_SCATTER ? all : one;
    round->make = first->verb == VERB_ALL_GATHER ? all : one;
}

static void
reduce_round(struct round *round)
{
    const struct asked *first = &round->asked[0];
    const unsigned char *given[RANKS];
    size_t               count = round->give / fake_sum_size(first->type);
    unsigned char       *sum   = malloc(round->give + 1);
    for (int i = 0; i < round->ranks; i++)
        given[i] = round->given[i];
    fake_sum(&(struct fake_sum){ .type = first->type, .op = first->op, .factor = first->comm->factor, .count = count,
                                 .ranks = round->ranks, .given = given, .out = sum });
    for (int i = 0; i < round->ranks; i++)
        memcpy(round->made[i], sum + (first->verb == VERB_REDUCE_SCATTER ? round->make * (size_t)i : 0), round->make);
    free(sum);
}

/* On the stream of the last to come, behind all that is given. */
static void CUDART_CB
make_round(void *given)
{
    struct round       *round = given;
    const struct asked *first = &round->asked[0];
    bool reduces = first->verb == VERB_ALL_REDUCE || first->verb == VERB_REDUCE || first->verb == VERB_REDUCE_SCATTER;
    if (reduces)
        reduce_round(round);
    for (int i = 0; !reduces && i < round->ranks; i++) {
        for (int from = 0; first->verb == VERB_ALL_GATHER && from < round->ranks; from++)
            memcpy(round->made[i] + round->give * (size_t)from, round->given[from], round->give);
        if (first->verb == VERB_BROADCAST)
            memcpy(round->made[i], round->given[first->root], round->give);
    }
}

static bool
gives(const struct asked *asked)
{
    return asked->verb != VERB_BROADCAST || asked->comm->rank == asked->root;
}

static bool
takes(const struct asked *asked)
{
    return asked->verb != VERB_REDUCE || asked->comm->rank == asked->root;
}

static cudaEvent_t
mark(cudaStream_t stream)
{
    cudaEvent_t event = NULL;
    (void)cudaEventCreateWithFlags(&event, cudaEventDisableTiming);
    (void)cudaEventRecord(event, stream);
    return event;
}

static void
follow(cudaStream_t stream, cudaEvent_t event)
{
    (void)cudaStreamWaitEvent(stream, event, 0);
    (void)cudaEventDestroy(event);
}

static void
profile(const struct round *round)
{
    for (int i = 0; i < round->ranks; i++) {
        const struct asked    *asked = &round->asked[i];
        const struct fake_ring ring = {
            .rank = i, .ranks = round->ranks, .channels = 2, .steps = 2 * (round->ranks - 1),
                .sequence = (uint64_t)round->number,
            .bytes = round->give, .function = asked->verb == VERB_ALL_REDUCE ? "AllReduce" : "Broadcast",
                .dtype = "ncclUint8",
            .algorithm = "RING", .protocol = "SIMPLE", .count = round->give,
                .stamp = 1000000 + (uint64_t)round->number * 100000,
        };
        if (asked->comm->profiler != NULL)
            fake_profiler_ring(FAKE_PROFILER_V5, asked->comm->profiler, &ring);
    }
}

/* From here on that one's GPU is current. */
static void
follow_there(const struct asked *asked, cudaEvent_t event)
{
    (void)cudaSetDevice(asked->comm->device);
    follow(asked->stream, event);
}

static void
launch_round(struct round *round)
{
    const struct asked *last = &round->asked[round->ranks - 1];
    measure(round);
    for (int i = 0; i < round->ranks; i++) {
        struct asked *asked = &round->asked[i];
        (void)cudaSetDevice(asked->comm->device);
        (void)cudaHostAlloc((void **)&round->given[i], round->give + 1, cudaHostAllocPortable);
        (void)cudaHostAlloc((void **)&round->made[i], round->make + 1, cudaHostAllocPortable);
        if (gives(asked) && round->give > 0)
            (void)cudaMemcpyAsync(round->given[i], asked->send, round->give, cudaMemcpyDeviceToHost, asked->stream);
        if (i < round->ranks - 1)
            follow_there(last, mark(asked->stream));
    }
    (void)cudaLaunchHostFunc(last->stream, make_round, round);
    for (int i = 0; i < round->ranks; i++) {
        struct asked *asked = &round->asked[i];
        (void)cudaSetDevice(last->comm->device);
        if (i < round->ranks - 1)
            follow_there(asked, mark(last->stream));
        if (takes(asked) && round->make > 0)
            (void)cudaMemcpyAsync(asked->recv, round->made[i], round->make, cudaMemcpyHostToDevice, asked->stream);
        asked->comm->pending--;
    }
    profile(round);
}

/* ---- meeting ---- */

static int
fail(struct ncclComm *comm, int result, const char *text)
{
    comm->result = result;
    snprintf(comm->last_error, sizeof comm->last_error, "%s", text);
    return result;
}

static struct round *
round_of(struct meeting *meeting, int64_t number)
{
    struct round *round = meeting->rounds;
    while (round != NULL && round->number != number)
        round = round->older;
    if (round != NULL || (round = calloc(1, sizeof *round)) == NULL)
        return round;
    *round = (struct round){ .older = meeting->rounds, .number = number, .ranks = meeting->ranks };
    return meeting->rounds = round;
}

static void
join_round(const struct asked *asked)
{
    struct ncclComm *comm  = asked->comm;
    struct round    *round = round_of(comm->meeting, comm->next++);
    round->asked[comm->rank] = *asked;
    comm->pending++;
    if (++round->come < round->ranks || comm->meeting->left > 0)
        return;     /* who has left comes no more */
    for (int i = 1; i < round->ranks; i++)
        if (round->asked[i].verb != round->asked[0].verb || round->asked[i].count != round->asked[0].count)
            return;     /* as NCCL: nobody notices, and nobody ends */
    launch_round(round);
}

static void
carry(const struct asked *send, const struct asked *receive)
{
    void  *between = NULL;
    size_t bytes   = bytes_of(send->type, send->count);
    (void)cudaSetDevice(send->comm->device);
    (void)cudaHostAlloc(&between, bytes + 1, cudaHostAllocPortable);
    (void)cudaMemcpyAsync(between, send->send, bytes, cudaMemcpyDeviceToHost, send->stream);
    if (send->stream != receive->stream)
        follow_there(receive, mark(send->stream));
    (void)cudaMemcpyAsync(receive->recv, between, bytes, cudaMemcpyHostToDevice, receive->stream);
    if (send->stream != receive->stream)
        follow_there(send, mark(receive->stream));
    send->comm->pending--;
    receive->comm->pending--;
}

static void
join_line(const struct asked *asked)
{
    struct asked **place = &asked->comm->meeting->waiting;
    asked->comm->pending++;
    for (; *place != NULL; place = &(*place)->next) {
        struct asked *other = *place;
        if (other->verb == asked->verb || other->comm->rank != asked->root || other->root != asked->comm->rank)
            continue;
        *place = other->next;
        if (asked->verb == VERB_SEND)
            carry(asked, other);
        else
            carry(other, asked);
        free(other);
        return;
    }
    struct asked *waits = calloc(1, sizeof *waits);
    *waits = *asked;
    *place = waits;
}

/* In the mutex. The calling thread's GPU stays what it was. */
static int
submit(const struct asked *asked)
{
    struct ncclComm *comm = asked->comm;
    int              before = 0;
    (void)cudaGetDevice(&before);
    if (comm->result == RESULT_SUCCESS && fake.fault.trouble == FAKE_NCCL_REFUSED && fake.fault.rank == comm->rank)
        (void)fail(comm, fake.fault.result, fake.fault.text);
    if (comm->result != RESULT_SUCCESS)
        return comm->result;
    comm->stream = asked->stream;
    if (asked->verb == VERB_SEND || asked->verb == VERB_RECV)
        join_line(asked);
    else
        join_round(asked);
    (void)cudaSetDevice(before);
    return RESULT_IN_PROGRESS;
}

static int
ask(const struct asked *asked)
{
    if (group.depth > 0) {
        if (group.count == GROUPED)
            return RESULT_INTERNAL;
        group.asked[group.count++] = *asked;
        return RESULT_SUCCESS;
    }
    pthread_mutex_lock(&fake.mutex);
    int result = submit(asked);
    pthread_mutex_unlock(&fake.mutex);
    return result;
}

/* ---- NCCL's functions ---- */

static int
group_start(void)
{
    group.depth++;
    return RESULT_SUCCESS;
}

static int
group_end(void)
{
    int result = RESULT_SUCCESS;
    if (group.depth == 0)
        return RESULT_USAGE;
    if (--group.depth > 0)
        return result;
    pthread_mutex_lock(&fake.mutex);
    for (int i = 0; i < group.count; i++) {
        int one = submit(&group.asked[i]);
        result  = result == RESULT_SUCCESS || result == RESULT_IN_PROGRESS ? one : result;
    }
    pthread_mutex_unlock(&fake.mutex);
    group.count = 0;
    return result;
}

static int
all_reduce(const void *send, void *recv, size_t count, int type, int op, nccl_handle comm, cudaStream_t stream)
{
    return ask(&(struct asked){ comm, VERB_ALL_REDUCE, send, recv, count, type, op, 0, stream, NULL });
}

static int
broadcast(const void *send, void *recv, size_t count, int type, int root, nccl_handle comm, cudaStream_t stream)
{
    return ask(&(struct asked){ comm, VERB_BROADCAST, send, recv, count, type, 0, root, stream, NULL });
}

static int
reduce(const void *send, void *recv, size_t count, int type, int op, int root, nccl_handle comm, cudaStream_t stream)
{
    return ask(&(struct asked){ comm, VERB_REDUCE, send, recv, count, type, op, root, stream, NULL });
}

static int
all_gather(const void *send, void *recv, size_t count, int type, nccl_handle comm, cudaStream_t stream)
{
    return ask(&(struct asked){ comm, VERB_ALL_GATHER, send, recv, count, type, 0, 0, stream, NULL });
}

static int
reduce_scatter(const void *send, void *recv, size_t count, int type, int op, nccl_handle comm, cudaStream_t stream)
{
    return ask(&(struct asked){ comm, VERB_REDUCE_SCATTER, send, recv, count, type, op, 0, stream, NULL });
}

static int
send_to(const void *send, size_t count, int type, int peer, nccl_handle comm, cudaStream_t stream)
{
    return ask(&(struct asked){ comm, VERB_SEND, send, NULL, count, type, 0, peer, stream, NULL });
}

static int
recv_from(void *recv, size_t count, int type, int peer, nccl_handle comm, cudaStream_t stream)
{
    return ask(&(struct asked){ comm, VERB_RECV, NULL, recv, count, type, 0, peer, stream, NULL });
}

static int
premul(int *op, void *factor, int type, int residence, nccl_handle comm)
{
    if (residence != SCALAR_HOST)
        return RESULT_ARGUMENT;
    pthread_mutex_lock(&fake.mutex);
    comm->factor = fake_sum_read(type, factor);
    comm->factors++;
    pthread_mutex_unlock(&fake.mutex);
    *op = FAKE_OP_PREMUL;
    return RESULT_SUCCESS;
}

static int
premul_free(int op, nccl_handle comm)
{
    pthread_mutex_lock(&fake.mutex);
    int left = op == FAKE_OP_PREMUL ? comm->factors-- : 0;
    pthread_mutex_unlock(&fake.mutex);
    return left > 0 ? RESULT_SUCCESS : RESULT_ARGUMENT;
}

static int
version(int *out)
{
    *out = 22809;
    return RESULT_SUCCESS;
}

static int
unique_id(struct nccl_id *id)
{
    memset(id, 0, sizeof *id);
    pthread_mutex_lock(&fake.mutex);
    snprintf((char *)id->bytes, sizeof id->bytes, "fake nccl %llu", (unsigned long long)++fake.ids);
    pthread_mutex_unlock(&fake.mutex);
    return RESULT_SUCCESS;
}

static struct meeting *
meeting_of(const struct nccl_id *id, int ranks)
{
    struct meeting *meeting = fake.meetings;
    while (meeting != NULL && memcmp(&meeting->id, id, sizeof *id) != 0)
        meeting = meeting->next;
    if (meeting != NULL || (meeting = calloc(1, sizeof *meeting)) == NULL)
        return meeting;
    *meeting = (struct meeting){ .next = fake.meetings, .id = *id, .ranks = ranks };
    return fake.meetings = meeting;
}

/* When all are there NCCL compares where they are. */
static void
compare_gpus(struct meeting *meeting)
{
    for (int i = 0; i < meeting->ranks; i++)
        for (int j = 0; j < i && fake.same_gpu_refused; j++) {
            char text[120];
            if (meeting->member[i]->device != meeting->member[j]->device)
                continue;
            snprintf(text, sizeof text, "Duplicate GPU detected : rank %d and rank %d both on CUDA device %x", i, j,
                     0x1000);
            for (int k = 0; k < meeting->ranks; k++)
                (void)fail(meeting->member[k], RESULT_USAGE, text);
            return;
        }
}

/* What NCCL writes when all have joined: what it found, and the rings that it made of that. */
static void
dump(const char *variable, const struct meeting *meeting, bool is_graph)
{
    const char *path = getenv(variable);
    FILE       *file = path != NULL ? fopen(path, "w") : NULL;
    if (file == NULL)
        return;
    fprintf(file, is_graph ? "<graphs version=\"1\">\n  <graph id=\"0\" pattern=\"4\" nchannels=\"1\">\n    <channel>\n"
                           : "<system version=\"1\">\n");
    for (int i = 0; i < meeting->ranks; i++)
        fprintf(file, is_graph ? "      <gpu dev=\"%d\"/>\n" : "  <cpu numaid=\"%d\"/>\n", meeting->member[i]->device);
    fprintf(file, is_graph ? "    </channel>\n  </graph>\n</graphs>\n" : "</system>\n");
    fclose(file);
}

static int
join(nccl_handle *out, int ranks, struct nccl_id id, int rank, struct nccl_config *config)
{
    bool fits = config->magic == (unsigned)CONFIG_MAGIC && config->blocking == 0 && config->size <= sizeof *config &&
                ranks <= RANKS && rank >= 0 && rank < ranks && id.bytes[0] != 0;
    struct ncclComm *comm = fits ? calloc(1, sizeof *comm) : NULL;
    if (comm == NULL)
        return RESULT_ARGUMENT;
    (void)cudaGetDevice(&comm->device);
    comm->rank = rank;
    comm->name = config->name;
    pthread_mutex_lock(&fake.mutex);
    struct meeting *meeting = comm->meeting = meeting_of(&id, ranks);
    meeting->member[rank]   = comm;
    fake.living++;
    if (++meeting->joined == ranks) {
        compare_gpus(meeting);
        dump("NCCL_TOPO_DUMP_FILE", meeting, false);
        dump("NCCL_GRAPH_DUMP_FILE", meeting, true);
    }
    pthread_mutex_unlock(&fake.mutex);
    *out = comm;
    return RESULT_IN_PROGRESS;
}

/* Of a communicator that does not block NCCL does it in a thread of its own, when the call that joins has come back. */
static void
open_profiler(struct ncclComm *comm)
{
    const struct meeting *meeting = comm->meeting;
    if (comm->profiler == NULL && meeting->joined == meeting->ranks && getenv("NCCL_PROFILER_PLUGIN") != NULL)
        comm->profiler = fake_profiler_open(FAKE_PROFILER_V5,
                                            (uint64_t)strtoull((const char *)meeting->id.bytes + 10, NULL, 10),
                                            comm->name, meeting->ranks, comm->rank);
}

static int
async_error(nccl_handle comm, int *result)
{
    const struct fake_nccl_fault *fault = &fake.fault;
    pthread_mutex_lock(&fake.mutex);
    open_profiler(comm);
    bool strikes = fault->rank == comm->rank && comm->result == RESULT_SUCCESS;
    bool is_slow = fault->trouble == FAKE_NCCL_SLOW && strikes && comm->looks++ < fault->count;
    if (fault->trouble == FAKE_NCCL_ASYNC && strikes && comm->looks++ >= fault->count)
        (void)fail(comm, fault->result, fault->text);
    bool waits = comm->pending > 0 || comm->meeting->joined < comm->meeting->ranks;
    *result = comm->result != RESULT_SUCCESS ? comm->result : waits || is_slow ? RESULT_IN_PROGRESS : RESULT_SUCCESS;
    pthread_mutex_unlock(&fake.mutex);
    return RESULT_SUCCESS;
}

static void
free_meeting(struct meeting *meeting)
{
    for (struct round *round = meeting->rounds, *older; round != NULL; round = older) {
        older = round->older;
        for (int i = 0; i < round->ranks; i++) {
            (void)cudaFreeHost(round->given[i]);
            (void)cudaFreeHost(round->made[i]);
        }
        free(round);
    }
    for (struct asked *asked = meeting->waiting, *next; asked != NULL; asked = next) {
        next = asked->next;
        free(asked);
    }
    free(meeting);
}

/* The last rank to go takes all with it, when the streams are through with it. */
static int
leave(nccl_handle comm, bool is_abort)
{
    struct meeting *over = NULL;
    if (comm->profiler != NULL)
        fake_profiler_close(FAKE_PROFILER_V5, comm->profiler);
    pthread_mutex_lock(&fake.mutex);
    fake.living--;
    fake.aborted += is_abort;
    struct meeting *meeting = comm->meeting;
    for (struct round *round = meeting->rounds; round != NULL; round = round->older)
        round->ranks = round->come < round->ranks ? 0 : round->ranks;     /* what nobody launched never will be */
    if (++meeting->left == meeting->joined) {
        struct meeting **place = &fake.meetings;
        while (*place != meeting)
            place = &(*place)->next;
        *place = meeting->next;
        over   = meeting;
    }
    pthread_mutex_unlock(&fake.mutex);
    if (over != NULL)
        free_meeting(over);
    free(comm);
    return RESULT_SUCCESS;
}

static int
destroy(nccl_handle comm)
{
    return leave(comm, false);
}

/* What is in the stream ends, since whatever waits for a rank never came there. */
static int
abort_comm(nccl_handle comm)
{
    if (comm->stream != NULL)
        (void)cudaStreamSynchronize(comm->stream);
    return leave(comm, true);
}

static const char *
text(int result)
{
    (void)result;
    return "a result of the tests' own";
}

static const char *
last_error(nccl_handle comm)
{
    return comm != NULL ? comm->last_error : "";
}

const struct nccl_api *
nccl_load(struct backend_why *why)
{
    static const struct nccl_api api = {
        "NCCL 2.28.9",
        version, unique_id, join, async_error, destroy, abort_comm, text, last_error, group_start, group_end,
            all_reduce,
        broadcast, reduce, all_gather, reduce_scatter, send_to, recv_from, premul, premul_free,
    };
    (void)why;
    return &api;
}

/* ---- for the tests ---- */

void
fake_nccl_break(const struct fake_nccl_fault *fault)
{
    pthread_mutex_lock(&fake.mutex);
    fake.fault = fault != NULL ? *fault : (struct fake_nccl_fault){ .trouble = FAKE_NCCL_FINE };
    pthread_mutex_unlock(&fake.mutex);
}

static int
read_count(const int *count)
{
    pthread_mutex_lock(&fake.mutex);
    int value = *count;
    pthread_mutex_unlock(&fake.mutex);
    return value;
}

int
fake_nccl_living(void)
{
    return read_count(&fake.living);
}

int
fake_nccl_aborted(void)
{
    return read_count(&fake.aborted);
}

void
fake_nccl_same_gpu(bool refused)
{
    pthread_mutex_lock(&fake.mutex);
    fake.same_gpu_refused = refused;
    pthread_mutex_unlock(&fake.mutex);
}
