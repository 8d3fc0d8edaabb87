/* The back-end nccl above a table of the tests' own, which works on the memory of virtual devices: which of NCCL's
 * operations a collective becomes, deadlines and who is named, what NCCL does not do, and what it tells on its
 * lanes. */
#include "ranks_rig.h"

#include <pthread.h>
#include <unistd.h>
#include "c10d/backend.h"
#include "c10d/nccl.h"
#include "c10d/nccl_events.h"
#include "device/timeline.h"
#include "sched/sched.h"
#include "tensor/op.h"
#include "trace/clock.h"

/* ---- a NCCL of the tests' own: whoever comes last does the work of all ---- */

enum { MEMBERS = 8, OPERATIONS = 32, KINDS = 8 };

struct nccl_comm {
    struct meeting       *meeting;
    int                   rank;
    int64_t               launched;
    struct nccl_operation operations[OPERATIONS];
    struct nccl_launch    launch;
};

struct meeting { struct meeting *next; uint64_t id; int size, joined, left,
                launched; int64_t done; struct nccl_comm *member[MEMBERS]; };

/* Of one test: cleared by `begin`. */
static struct {
    pthread_mutex_t mutex;
    struct meeting *meetings;
    uint64_t        ids;
    int             living, aborted, kinds[KINDS], gpus;
    /* this rank's communicators fail when they are looked at after a launch; -1: none */
    int             failing;
    const char     *words;
} fake = { .mutex = PTHREAD_MUTEX_INITIALIZER };

static const char *
fake_version(struct backend_why *why)
{
    (void)why;
    return "NCCL of the tests";
}

static int
fake_gpus(void)
{
    return fake.gpus;
}

static int
fake_physical(const struct backend_stream *stream)
{
    (void)stream;
    return 0;
}

static bool
fake_profile(const struct backend_host *host, struct backend_why *why)
{
    (void)host;
    (void)why;
    return true;
}

static const struct nccl_record *told;
static size_t                    told_count;

static size_t
fake_records(struct nccl_record *out, size_t room, uint64_t *lost)
{
    size_t count = told_count < room ? told_count : room;
    memcpy(out, told, count * sizeof *out);
    told += count;
    told_count -= count;
    *lost = 0;
    return count;
}

static bool
fake_make_id(struct nccl_id *id, struct backend_why *why)
{
    (void)why;
    pthread_mutex_lock(&fake.mutex);
    memset(id, 0, sizeof *id);
    uint64_t number = ++fake.ids;
    memcpy(id->bytes, &number, sizeof number);
    pthread_mutex_unlock(&fake.mutex);
    return true;
}

static struct nccl_comm *
fake_join(const struct nccl_member *member, struct backend_why *why)
{
    struct nccl_comm *comm = calloc(1, sizeof *comm);
    uint64_t          id;
    (void)why;
    memcpy(&id, member->id->bytes, sizeof id);
    pthread_mutex_lock(&fake.mutex);
    struct meeting *meeting = fake.meetings;
    while (meeting != NULL && meeting->id != id)
        meeting = meeting->next;
    if (meeting == NULL) {
        meeting  = calloc(1, sizeof *meeting);
        *meeting = (struct meeting){ .next = fake.meetings, .id = id, .size = member->size };
        fake.meetings = meeting;
    }
    comm->meeting = meeting;
    comm->rank    = member->rank;
    meeting->member[member->rank] = comm;
    meeting->joined++;
    fake.living++;
    pthread_mutex_unlock(&fake.mutex);
    return comm;
}

static float
fold(enum nccl_reduce reduce, float a, float b)
{
    switch (reduce) {
    case NCCL_PRODUCT: return a * b;
    case NCCL_MIN: return a < b ? a : b;
    case NCCL_MAX: return a > b ? a : b;
    default: return a + b;
    }
}

static float
folded(const struct meeting *meeting, int position, size_t element)
{
    const struct nccl_launch *launch = &meeting->member[0]->launch;
    float total = 0, factor = 1;
    if (launch->reduce == NCCL_PREMUL_SUM)
        memcpy(&factor, &launch->factor, sizeof factor);
    for (int r = 0; r < meeting->size; r++) {
        float one = ((const float *)meeting->member[r]->operations[position].send)[element] * factor;
        total = r == 0 ? one : fold(launch->reduce, total, one);
    }
    return launch->reduce == NCCL_AVG ? total / (float)meeting->size : total;
}

static void
reduce_all(struct meeting *meeting, int position)
{
    const struct nccl_operation *o = &meeting->member[0]->operations[position];
    bool   scatter = o->kind == NCCL_REDUCE_SCATTER;
    size_t all = o->count * (size_t)(scatter ? meeting->size : 1);
    float *sum = malloc(all * sizeof *sum + 1);
    for (size_t i = 0; i < all; i++)
        sum[i] = folded(meeting, position, i);
    for (int r = 0; r < meeting->size; r++)
        if (o->kind != NCCL_REDUCE || r == o->peer)
            memcpy(meeting->member[r]->operations[position].recv, sum + (scatter ? o->count * (size_t)r : 0),
                   o->count * sizeof *sum);
    free(sum);
}

static void
gather_all(struct meeting *meeting, int position)
{
    const struct nccl_operation *o = &meeting->member[0]->operations[position];
    size_t bytes = o->count * sizeof(float);
    for (int r = 0; r < meeting->size; r++)
        for (int from = 0; from < meeting->size; from++) {
            const struct nccl_operation *given = &meeting->member[from]->operations[position];
            if (o->kind == NCCL_ALL_GATHER)
                memcpy((char *)meeting->member[r]->operations[position].recv + bytes * (size_t)from, given->send,
                       bytes);
            else if (from == o->peer)
                memmove(meeting->member[r]->operations[position].recv, given->send, bytes);
        }
}

static void
deliver(struct meeting *meeting, int rank)
{
    struct nccl_comm *comm = meeting->member[rank];
    for (int i = 0; i < comm->launch.count; i++) {
        const struct nccl_operation *send = &comm->operations[i];
        if (send->kind != NCCL_SEND)
            continue;
        struct nccl_comm *other = meeting->member[send->peer];
        for (int j = 0; j < other->launch.count; j++)
            if (other->operations[j].kind == NCCL_RECV && other->operations[j].peer == rank)
                memcpy(other->operations[j].recv, send->send, send->count * sizeof(float));
    }
}

static void
do_all(struct meeting *meeting)
{
    const struct nccl_comm *first = meeting->member[0];
    for (int r = 0; r < meeting->size; r++)
        deliver(meeting, r);
    for (int i = 0; i < first->launch.count; i++) {
        enum nccl_kind kind = first->operations[i].kind;
        if (kind == NCCL_ALL_REDUCE || kind == NCCL_REDUCE || kind == NCCL_REDUCE_SCATTER)
            reduce_all(meeting, i);
        else if (kind == NCCL_ALL_GATHER || kind == NCCL_BROADCAST)
            gather_all(meeting, i);
    }
    meeting->launched = 0;
    meeting->done++;
}

static bool
fake_launch(struct nccl_comm *comm, const struct nccl_launch *launch, struct backend_why *why)
{
    (void)why;
    pthread_mutex_lock(&fake.mutex);
    comm->launch = *launch;
    memcpy(comm->operations, launch->operations, (size_t)launch->count * sizeof *comm->operations);
    for (int i = 0; comm->rank == 0 && i < launch->count; i++)
        fake.kinds[launch->operations[i].kind]++;
    comm->launched++;
    if (++comm->meeting->launched == comm->meeting->size)
        do_all(comm->meeting);
    pthread_mutex_unlock(&fake.mutex);
    return true;
}

static enum nccl_state
fake_poll(struct nccl_comm *comm, struct backend_why *why)
{
    pthread_mutex_lock(&fake.mutex);
    bool fails = comm->launched > 0 && fake.failing == comm->rank;
    bool waits = comm->meeting->joined < comm->meeting->size || comm->meeting->done < comm->launched;
    if (fails)
        snprintf(why->text, sizeof why->text, "%s", fake.words);
    pthread_mutex_unlock(&fake.mutex);
    return fails ? NCCL_FAILED : waits ? NCCL_BUSY : NCCL_READY;
}

static void
leave(struct nccl_comm *comm, bool is_abort)
{
    pthread_mutex_lock(&fake.mutex);
    struct meeting *meeting = comm->meeting, **place = &fake.meetings;
    fake.living--;
    fake.aborted += is_abort;
    if (++meeting->left == meeting->joined) {
        while (*place != meeting)
            place = &(*place)->next;
        *place = meeting->next;
        free(meeting);
    }
    free(comm);
    pthread_mutex_unlock(&fake.mutex);
}

static void
fake_abort(struct nccl_comm *comm)
{
    leave(comm, true);
}

static void
fake_destroy(struct nccl_comm *comm)
{
    leave(comm, false);
}

static const struct nccl_table table = {
    .abi = NCCL_TABLE_ABI, .size = sizeof table, .on_host = true, .version = fake_version, .gpus = fake_gpus,
    .physical = fake_physical, .profile = fake_profile, .records = fake_records, .make_id = fake_make_id,
        .join = fake_join,
    .poll = fake_poll, .launch = fake_launch, .abort = fake_abort, .destroy = fake_destroy,
};

/* ---- a run ---- */

static char warned[400];

static void
note_warning(struct task *me, const char *text)
{
    (void)me;
    snprintf(warned + strlen(warned), sizeof warned - strlen(warned), "%s\n", text);
}

static bool
nccl_main(struct task *me, void *argument)
{
    sched_set_warning(me->sched, note_warning);
    if (!devices_ready(me, 1) || !nccl_begin(me, &table))
        return false;
    bool done = ranks_main(me, argument);
    nccl_end(me);
    return done;
}

static void
run(struct ranks *ranks, enum executor_kind executor, struct error *error)
{
    char why[256] = "";
    memset(fake.kinds, 0, sizeof fake.kinds);
    fake.aborted = 0;
    warned[0]    = '\0';
    memset(ranks->error, 0, sizeof ranks->error);
    memset(ranks->failed_check, 0, sizeof ranks->failed_check);
    assert_true(cost_preset(&ranks->cost, "classroom"));
    const struct sched_options options = { .executor = executor, .cost = &ranks->cost };
    struct sched *sched = sched_new(&options, why, sizeof why);
    assert_non_null(sched);
    *error = (struct error){ .kind = E_NONE };
    (void)sched_run(sched, nccl_main, ranks, error);
    devices_free(sched);
    sched_free(sched);
    for (int rank = 0; rank < ranks->size; rank++) {
        if (ranks->failed_check[rank][0] != '\0')
            print_message("# %s\n", ranks->failed_check[rank]);
        assert_string_equal(ranks->failed_check[rank], "");
    }
    assert_int_equal(fake.living, 0);
}

static void
run_free(struct ranks *ranks)
{
    struct error error;
    fake.gpus    = fake.gpus > 0 ? fake.gpus : MEMBERS;
    run(ranks, EXECUTOR_FREE, &error);
    assert_string_equal(error.message, "");
}

static int
begin(void **state)
{
    (void)state;
    fake.gpus    = MEMBERS;
    fake.failing = -1;
    return 0;
}

/* ---- values ---- */

static struct tensor *
made(struct task *me, int device, int64_t count, double value)
{
    return tensor_filled(me, tensor_empty(me, DTYPE_F32, device, 1, &count), value);
}

static bool
has(struct task *me, struct tensor *tensor, double value)
{
    float   read[64];
    int64_t count = tensor_count(tensor);
    if (!tensor_read(me, tensor, read))
        return false;
    for (int64_t i = 0; i < count; i++)
        if (read[i] != (float)value)
            return false;
    return true;
}

static bool
reductions(struct task *me, struct process_group *group, struct ranks *ranks)
{
    int    n = ranks->size;
    double sum = n * (n + 1) / 2.0;
    struct tensor *t = made(me, me->rank, 5, me->rank + 1);
    int64_t        version = tensor_version(t);
    bool ok = expect(me, ranks, group_all_reduce_now(me, group, t, NULL) && has(me, t, sum), "the sum of all");
    ok = ok && expect(me, ranks, tensor_version(t) == version + 1, "a new version");
    t  = made(me, me->rank, 5, me->rank + 1);
    ok = ok && expect(me, ranks, group_all_reduce_now(me, group, t, &(struct collective_options){ .op = REDUCE_AVG }) &&
                                     has(me, t, sum / n), "the mean");
    t  = made(me, me->rank, 5, me->rank + 1);
    const struct collective_options premul = { .op = REDUCE_PREMUL_SUM, .factor = 2 };
    ok = ok && expect(me, ranks, group_all_reduce_now(me, group, t, &premul) && has(me, t, 2 * sum),
                      "times two before");
    t  = made(me, me->rank, 5, me->rank + 1);
    const struct collective_options to_one = { .op = REDUCE_MAX, .root = 1 };
    ok = ok && expect(me, ranks, work_complete(me, group_reduce(me, group, t, &to_one)) &&
                                     has(me, t, me->rank == 1 ? n : me->rank + 1),
                                         "the root's maximum, the others' own");
    t  = made(me, me->rank, 5, me->rank + 1);
    return ok && expect(me, ranks, group_broadcast_now(me, group, t, 1) && has(me, t, 2), "what the root has") &&
           expect(me, ranks, group_barrier_now(me, group), "a barrier");
}

static bool
lists(struct task *me, struct process_group *group, struct ranks *ranks)
{
    struct tensor *in[MEMBERS] = { NULL }, *out[MEMBERS] = { NULL };
    int            n = ranks->size;
    double         sum = n * (n - 1) / 2.0;
    for (int r = 0; r < n; r++) {
        in[r]  = made(me, me->rank, 3, 10 * me->rank + r);
        out[r] = made(me, me->rank, 3, -1);
    }
    bool ok = group_all_gather_now(me, group, out, in[0]);
    for (int r = 0; r < n && ok; r++)
        ok = expect(me, ranks, has(me, out[r], 10 * r), "each rank's tensor");
    ok = ok && work_complete(me, group_all_to_all(me, group, out, in));
    for (int r = 0; r < n && ok; r++)
        ok = expect(me, ranks, has(me, out[r], 10 * r + me->rank), "what each rank has for this one");
    struct tensor *mine = made(me, me->rank, 3, -1);
    ok = ok && expect(me, ranks, work_complete(me, group_reduce_scatter(me, group, mine, in, NULL)) &&
                                     has(me, mine, 10 * sum + n * me->rank), "this rank's sum");
    ok = ok && work_complete(me, group_gather(me, group, me->rank == 1 ? out : NULL, in[1], 1));
    for (int r = 0; r < n && ok && me->rank == 1; r++)
        ok = expect(me, ranks, has(me, out[r], 10 * r + 1), "gathered at the root");
    ok = ok && expect(me, ranks, work_complete(me, group_scatter(me, group, mine, me->rank == 0 ? in : NULL, 0)) &&
                                     has(me, mine, me->rank), "the root's piece for this rank");
    int64_t        all = 3 * n;
    struct tensor *one = tensor_filled(me, tensor_empty(me, DTYPE_F32, me->rank, 1, &all), me->rank + 1);
    ok = ok && expect(me, ranks, work_complete(me, group_reduce_scatter_single(me, group, mine, one, NULL)) &&
                                     has(me, mine, n * (n + 1) / 2.0), "a piece of one tensor's sum");
    struct tensor *whole = tensor_filled(me, tensor_empty(me, DTYPE_F32, me->rank, 1, &all), 0);
    return ok && expect(me, ranks, group_all_gather_into_tensor_now(me, group, whole, mine) &&
                                       has(me, whole, n * (n + 1) / 2.0), "all in one tensor");
}

static void
collectives_bring_plain_sums(void **state)
{
    (void)state;
    static const int sizes[] = { 2, 4, 8 };
    for (size_t i = 0; i < 3; i++) {
        run_free(&(struct ranks){ .size = sizes[i], .body = reductions });
        assert_int_equal(fake.kinds[NCCL_ALL_REDUCE], 3);
        assert_int_equal(fake.kinds[NCCL_BARRIER], 1);
        run_free(&(struct ranks){ .size = sizes[i], .body = lists });
        assert_int_equal(fake.kinds[NCCL_BROADCAST], sizes[i]);
        assert_int_equal(fake.kinds[NCCL_REDUCE], sizes[i]);
        assert_int_equal(fake.kinds[NCCL_REDUCE_SCATTER], 1);
        assert_int_equal(fake.kinds[NCCL_ALL_GATHER], 1);
    }
}

static bool
on_the_host(struct task *me, struct process_group *group, struct ranks *ranks)
{
    struct tensor *t = made(me, DEVICE_CPU, 5, 1);
    return expect(me, ranks, group_all_reduce_now(me, group, t, NULL) && has(me, t, ranks->size), "the sum of all");
}

static void
what_lies_in_the_hosts_memory_goes_as_in_local(void **state)
{
    (void)state;
    run_free(&(struct ranks){ .size = 2, .body = on_the_host });
    assert_int_equal(fake.kinds[NCCL_ALL_REDUCE], 0);
}

/* ---- messages ---- */

static bool
messages(struct task *me, struct process_group *group, struct ranks *ranks)
{
    int            other = 1 - me->rank;
    struct tensor *out[3], *in[3];
    struct work   *works[6];
    struct p2p_op  ops[6];
    for (int i = 0; i < 3; i++) {
        out[i]     = made(me, me->rank, 4, 10 * me->rank + i);
        in[i]      = made(me, me->rank, 4, -1);
        ops[2 * i] = (struct p2p_op){ true, out[i], other, i };
        ops[2 * i + 1] = (struct p2p_op){ false, in[i], other, i };
    }
    bool ok = expect(me, ranks, group_batch_isend_irecv(me, group, ops, 6, works), "both ways at once");
    for (int i = 0; i < 6 && ok; i++)
        ok = work_complete(me, works[i]);
    for (int i = 0; i < 3 && ok; i++)
        ok = expect(me, ranks, has(me, in[i], 10 * other + i), "in the order of the calls");
    if (!ok)
        return false;
    if (me->rank == 0)
        return expect(me, ranks, group_send(me, group, out[0], 1, 0), "a send");
    return expect(me, ranks, group_recv(me, group, in[0], 0, 0) && has(me, in[0], 0), "a receive");
}

static void
messages_go_both_ways_in_the_order_of_their_calls(void **state)
{
    (void)state;
    struct ranks ranks = { .size = 2, .body = messages };
    run_free(&ranks);
    assert_string_equal(ranks.error[0].message, "");
    assert_string_equal(ranks.error[1].message, "");
}

/* ---- what NCCL does not do ---- */

static bool
says(struct task *me, struct ranks *ranks, const char *words)
{
    bool found = strstr(me->error.message, words) != NULL;
    expect(me, ranks, found, words);
    task_clear_error(me);
    return found;
}

static bool
refusals(struct task *me, struct process_group *group, struct ranks *ranks)
{
    struct tensor *t = made(me, me->rank, 4, 1), *elsewhere = made(me, 1 - me->rank, 4, 1);
    int64_t        four = 4;
    struct tensor *bits = tensor_filled(me, tensor_empty(me, DTYPE_I32, me->rank, 1, &four), 1);
    bool refused = !group_all_reduce_now(me, group, bits, &(struct collective_options){ .op = REDUCE_BAND });
    bool ok = expect(me, ranks, refused, "refused") && says(me, ranks, "Cannot use ReduceOp.BAND with NCCL");
    refused = !group_all_reduce_now(me, group, t, &(struct collective_options){ .algorithm = "tree" });
    ok = ok && expect(me, ranks, refused, "refused") && says(me, ranks, "NCCL chooses its algorithm by itself");
    refused = !group_all_reduce_now(me, group, elsewhere, NULL);
    ok = ok && expect(me, ranks, refused, "refused") && says(me, ranks, "a rank has one GPU");
    refused = group_recv_any(me, group, t, 0) < 0;
    return ok && expect(me, ranks, refused, "refused") && says(me, ranks, "NCCL has no such receive");
}

static void
what_nccl_does_not_do_is_refused_before_it_is_called(void **state)
{
    (void)state;
    run_free(&(struct ranks){ .size = 2, .body = refusals });
    assert_int_equal(fake.kinds[NCCL_ALL_REDUCE], 0);
}

static void
stepped_refuses_it_in_one_sentence(void **state)
{
    (void)state;
    struct error error;
    struct ranks ranks = { .size = 0, .body = reductions };
    run(&ranks, EXECUTOR_STEPPED, &error);
    assert_string_equal(error.message,
                        "--backend nccl: GPUs keep their own time, so ranks run by themselves: --executor free only");
}

static bool
by_the_ring(struct task *me, struct process_group *group, struct ranks *ranks)
{
    struct tensor *t = made(me, me->rank, 5, 1);
    return expect(me, ranks, strcmp(process_group_backend(group), "local") == 0, "the back-end says that it is ours") &&
           expect(me, ranks, group_all_reduce_now(me, group, t, NULL) && has(me, t, ranks->size), "the sum of all");
}

static void
more_ranks_than_gpus_use_our_ring_and_the_run_says_so_once(void **state)
{
    (void)state;
    fake.gpus = 1;
    run_free(&(struct ranks){ .size = 8, .body = by_the_ring });
    assert_string_equal(warned, "8 ranks on 1 GPU: NCCL wants one GPU per rank; using Ringside's ring\n");
    assert_int_equal(fake.kinds[NCCL_ALL_REDUCE], 0);
    fake.gpus = 3;
    run_free(&(struct ranks){ .size = 4, .body = by_the_ring });
    assert_string_equal(warned, "4 ranks on 3 GPUs: NCCL wants one GPU per rank; using Ringside's ring\n");
}

/* ---- what goes wrong ---- */

static bool
without_rank_2(struct task *me, struct process_group *group, struct ranks *ranks)
{
    struct tensor *t = made(me, me->rank, 5, 1);
    if (me->rank == 2)
        return true;
    bool done = t != NULL && group_all_reduce_now(me, group, t, NULL);
    return !expect(me, ranks, !done, "in vain");
}

static void
a_rank_that_never_comes_is_named_on_every_rank(void **state)
{
    (void)state;
    struct ranks ranks = { .size = 4, .body = without_rank_2 };
    run_free(&ranks);
    for (int rank = 0; rank < 4; rank++) {
        bool named = rank == 2 || strstr(ranks.error[rank].message, "rank 2") != NULL;
        if (!named)
            print_message("# rank %d: %s\n", rank, ranks.error[rank].message);
        assert_true(named);
    }
    assert_int_equal(fake.aborted, 4);
}

/* It lives, and waits for something else: only a deadline ends that. */
static bool
rank_2_is_elsewhere(struct task *me, struct process_group *group, struct ranks *ranks)
{
    struct tensor *t = made(me, me->rank, 5, 1);
    process_group_set_timeout(group, UINT64_C(300000000000));
    if (me->rank == 2) {
        while (sched_sleep(me, UINT64_C(1000000000)) && !*(volatile bool *)&ranks->trace_hops)
            continue;
        return true;
    }
    bool done = t != NULL && group_all_reduce_now(me, group, t, NULL);
    if (me->rank == 0) {
        expect(me, ranks, !done, "in vain");
        ranks->trace_hops = true;
    }
    return false;
}

static void
a_deadline_ends_the_wait_and_names_who_is_missing(void **state)
{
    (void)state;
    struct ranks ranks = { .size = 4, .body = rank_2_is_elsewhere };
    run_free(&ranks);
    int named = 0;
    for (int rank = 0; rank < 4; rank++)
        if (rank != 2 && strstr(ranks.error[rank].message, "rank 2") != NULL)
            named++;
        else if (rank != 2)
            print_message("# rank %d: %s\n", rank, ranks.error[rank].message);
    assert_int_equal(named, 3);
    assert_int_equal(fake.aborted, 4);
}

static bool
all_come(struct task *me, struct process_group *group, struct ranks *ranks)
{
    struct tensor *t = made(me, me->rank, 5, 1);
    bool first  = t != NULL && group_all_reduce_now(me, group, t, NULL);
    bool second = first && me->rank != 1 && group_barrier_now(me, group);
    return !expect(me, ranks, !second, "in vain");
}

static void
an_error_of_one_ranks_nccl_reaches_all(void **state)
{
    (void)state;
    struct ranks ranks = { .size = 4, .body = all_come };
    fake.failing = 1;
    fake.words   = "NCCL failed in all_reduce: ncclRemoteError (6): connection closed";
    run_free(&ranks);
    assert_non_null(strstr(ranks.error[1].message, "ncclRemoteError (6): connection closed"));
    for (int rank = 0; rank < 4; rank++) {
        if (strstr(ranks.error[rank].message, "rank 1") == NULL)
            print_message("# rank %d: %s\n", rank, ranks.error[rank].message);
        assert_non_null(strstr(ranks.error[rank].message, "rank 1"));
    }
    assert_int_equal(fake.aborted, 4);
}

static bool
in_a_second_group(struct task *me, struct process_group *group, struct ranks *ranks)
{
    struct group_options  all    = { .ranks = NULL };
    struct process_group *second = NULL;
    struct tensor        *t      = made(me, me->rank, 5, 1);
    if (!expect(me, ranks, process_group_new(me, group, &all, &second), "a second group"))
        return false;
    bool done = group_all_reduce_now(me, second, t, NULL) && me->rank != 1 && group_barrier_now(me, second);
    return !expect(me, ranks, !done, "in vain");
}

static void
what_fails_in_one_group_aborts_the_communicators_of_all(void **state)
{
    (void)state;
    struct ranks ranks = { .size = 2, .body = in_a_second_group };
    fake.failing = 1;
    fake.words   = "NCCL failed";
    run_free(&ranks);
    assert_int_equal(fake.aborted, 4);
}

/* ---- what NCCL tells ---- */

static size_t
no_records(struct backend_record *out, size_t room, uint64_t *lost)
{
    (void)out;
    (void)room;
    *lost = 0;
    return 0;
}

static struct nccl_record
record_of(enum nccl_record_kind kind, uint64_t begin, uint64_t end)
{
    return (struct nccl_record){ .kind = kind, .number = 0, .rank = 1, .ranks = 2, .sequence = 4,
                                .function = "AllReduce",
                                 .algorithm = "RING", .protocol = "LL", .bytes = 800, .channels = 2, .channel = 1,
                                     .peer = 0,
                                 .step = 3, .is_send = true, .begin = begin, .end = end, .wait_gpu = 2, .wait_peer = 3,
                                 .wait_net = 5 };
}

/* Messages that overlap, told in the order of their ends; a kernel's channel that began before all that. */
static bool
events_main(struct task *me, void *argument)
{
    static const struct device_backend nothing = { .records = no_records };
    static const int                   ranks[] = { 4, 6 };
    (void)argument;
    if (!devices_ready(me, 1))
        return false;
    struct timeline     *timeline = timeline_new(me, &nothing);
    struct backend_host  host     = timeline_host(timeline);
    struct nccl_events  *events   = nccl_events_new(me, &table, timeline);
    int number = nccl_events_group(events, &(struct nccl_events_group){ .number = 9, .size = 2, .ranks = ranks,
                                                                       .device = 0 });
    uint64_t t = host.clock(host.run);
    struct nccl_record records[6] = {
        record_of(NCCL_RECORD_STEP, t + 1000, t + 2000),  record_of(NCCL_RECORD_STEP, t + 1500, t + 2500),
        record_of(NCCL_RECORD_STEP, t + 2100, t + 3000),  record_of(NCCL_RECORD_COLLECTIVE, t + 100, t + 200),
        record_of(NCCL_RECORD_CHANNEL, t + 300, t + 4000), record_of(NCCL_RECORD_STEP, t + 1, t + 2),
    };
    records[5].number = 77;    /* of a group that nobody knows */
    told       = records;
    told_count = 6;
    bool right = number == 0 && events != NULL;
    nccl_events_collect(me, events);
    nccl_events_free(me, events);
    timeline_free(timeline);
    return right || failed(me, E_RUNTIME, "no events");
}

static size_t
count_of(struct trace *trace, const char *kind, int phase)
{
    size_t count = 0;
    for (size_t seq = 0; seq < trace_count(trace); seq++) {
        const struct trace_event *event = trace_event(trace, seq);
        count += event->phase == phase && strcmp(trace_kind(trace, event->kind)->name, kind) == 0;
    }
    return count;
}

static void
what_nccl_tells_stands_on_lanes_in_the_order_of_time(void **state)
{
    (void)state;
    char         why[256] = "";
    struct error error    = { .kind = E_NONE };
    struct trace_options traced = { .clock = trace_wall_clock() };
    struct trace_writer *writer = trace_create(&traced, why, sizeof why);
    struct sched_options options = { .executor = EXECUTOR_FREE, .writer = writer };
    struct sched        *sched = sched_new(&options, why, sizeof why);
    assert_true(sched_run(sched, events_main, NULL, &error));
    devices_free(sched);
    sched_free(sched);
    struct trace *trace = trace_open_fd(trace_fd(writer), why, sizeof why);
    trace_close(writer);
    assert_non_null(trace);
    assert_int_equal(count_of(trace, "comm.hop", PHASE_BEGIN), 3);
    assert_int_equal(count_of(trace, "comm.hop", PHASE_END), 3);
    assert_int_equal(count_of(trace, "comm.nccl.waits", PHASE_INSTANT), 3);
    assert_int_equal(count_of(trace, "comm.nccl.collective", PHASE_END), 1);
    assert_int_equal(count_of(trace, "comm.nccl.channel", PHASE_BEGIN), 1);
    uint64_t last = 0;
    uint32_t first_lane = 0, second_lane = 0;
    for (size_t seq = 0, hop = 0; seq < trace_count(trace); seq++) {
        const struct trace_event *event = trace_event(trace, seq);
        assert_true(event->time >= last);
        last = event->time;
        if (strcmp(trace_kind(trace, event->kind)->name, "comm.hop") != 0)
            continue;
        assert_int_equal(event->rank, 6);
        assert_int_equal(event->args[1], 800);
        assert_int_equal(event->args[2], 4);
        first_lane  = hop == 0 ? event->lane : first_lane;
        second_lane = hop == 1 ? event->lane : second_lane;
        hop++;
    }
    assert_int_not_equal(first_lane, second_lane);    /* they were under way together */
    trace_release(trace);
}

static void
rings_are_read_from_ncclsgraphs(void **state)
{
    (void)state;
    static const char text[] =
        "<graphs version=\"1\">\n  <graph id=\"1\" pattern=\"1\" nchannels=\"1\">\n    <channel>\n      <gpu dev=\"7\"/>\n"
        "    </channel>\n  </graph>\n  <graph id=\"0\" pattern=\"4\" crossnic=\"0\" nchannels=\"2\" speedintra=\"12\">\n"
        "    <channel>\n      <net dev=\"0\"/>\n      <gpu dev=\"0\"/>\n      <gpu dev=\"3\"/>\n      <gpu dev=\"2\"/>\n"
        "    </channel>\n    <channel>\n      <gpu dev=\"2\"/>\n      <gpu dev=\"0\"/>\n    </channel>\n  </graph>\n</graphs>\n";
    int gpus[8];
    assert_int_equal(nccl_rings_read(text, sizeof text - 1, 0, gpus, 8), 3);
    assert_int_equal(gpus[0], 0);
    assert_int_equal(gpus[1], 3);
    assert_int_equal(gpus[2], 2);
    assert_int_equal(nccl_rings_read(text, sizeof text - 1, 1, gpus, 8), 2);
    assert_int_equal(gpus[0], 2);
    assert_int_equal(nccl_rings_read(text, sizeof text - 1, 2, gpus, 8), 0);
    assert_int_equal(nccl_rings_read(text, sizeof text - 1, 0, gpus, 2), 2);
    for (size_t cut = 0; cut < sizeof text; cut++)
        assert_true(nccl_rings_read(text, cut, 1, gpus, 8) <= 2);
    assert_int_equal(nccl_rings_read("no XML at all < <<>", 19, 0, gpus, 8), 0);
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup(collectives_bring_plain_sums, begin),
        cmocka_unit_test_setup(what_lies_in_the_hosts_memory_goes_as_in_local, begin),
        cmocka_unit_test_setup(messages_go_both_ways_in_the_order_of_their_calls, begin),
        cmocka_unit_test_setup(what_nccl_does_not_do_is_refused_before_it_is_called, begin),
        cmocka_unit_test_setup(stepped_refuses_it_in_one_sentence, begin),
        cmocka_unit_test_setup(more_ranks_than_gpus_use_our_ring_and_the_run_says_so_once, begin),
        cmocka_unit_test_setup(a_rank_that_never_comes_is_named_on_every_rank, begin),
        cmocka_unit_test_setup(a_deadline_ends_the_wait_and_names_who_is_missing, begin),
        cmocka_unit_test_setup(an_error_of_one_ranks_nccl_reaches_all, begin),
        cmocka_unit_test_setup(what_fails_in_one_group_aborts_the_communicators_of_all, begin),
        cmocka_unit_test_setup(what_nccl_tells_stands_on_lanes_in_the_order_of_time, begin),
        cmocka_unit_test_setup(rings_are_read_from_ncclsgraphs, begin),
    };
    cmocka_set_message_output(CM_OUTPUT_TAP);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
