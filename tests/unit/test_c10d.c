/* Process groups: the ring to the picosecond, every collective's result, the store, groups that come and go. */
#include "ranks_rig.h"
#include "c10d/store.h"

#include <math.h>

#include "base/vec.h"
#include "tensor/op.h"

/* ---- the ring ---- */

static bool
ring_by_hand(struct task *me, struct process_group *group, struct ranks *ranks)
{
    struct collective_options options = { .ring_forwards = true };
    struct tensor *tensor = numbers(me, 8, 10.0 * me->rank, 1);
    bool done = tensor != NULL && group_all_reduce_now(me, group, tensor, &options);
    double sum = 10.0 * ranks->size * (ranks->size - 1) / 2;
    return expect(me, ranks, done && holds(me, tensor, 8, sum, ranks->size), "all ranks hold the sum");
}

static void
a_ring_of_four_takes_six_hops_of_eight_bytes(void **state)
{
    (void)state;
    for (int executor = EXECUTOR_STEPPED; executor <= EXECUTOR_FREE; executor++) {
        struct ranks ranks = { .size = 4, .body = ring_by_hand, .free_costs = true };
        ranks_run(&ranks, (enum executor_kind)executor);
        assert_no_errors(&ranks);
        assert_int_equal(count_events(&ranks, "comm.hop"), 24);
        assert_int_equal(count_events(&ranks, "comm.hop and reduce = 1"), 12);
        assert_int_equal(count_events(&ranks, "comm.hop and reduce = 0"), 12);
        for (int rank = 0; rank < 4; rank++) {
            char filter[64];
            snprintf(filter, sizeof filter, "comm.hop and rank = %d", rank);
            assert_int_equal(sum_of(&ranks, filter, 1), 48);
            snprintf(filter, sizeof filter, "c10d.allreduce and rank = %d", rank);
            if (ranks.stepped)
                assert_int_equal(duration_of(&ranks, filter), 60004800);
        }
        for (size_t seq = next_match(&ranks, "comm.hop", 0); seq != SIZE_MAX;
             seq = next_match(&ranks, "comm.hop", seq + 1)) {
            assert_true(trace_event(ranks.trace, seq)->flow != 0);
            size_t end = trace_flow_end(ranks.trace, seq);
            assert_true(end != SIZE_MAX);
            assert_int_equal(trace_event(ranks.trace, end)->rank, trace_event(ranks.trace, seq)->args[2]);
        }
        ranks_free(&ranks);
    }
}

static void
a_ring_of_three_waits_for_the_longest_chunk(void **state)
{
    (void)state;
    struct ranks ranks = { .size = 3, .body = ring_by_hand, .free_costs = true };
    ranks_run(&ranks, EXECUTOR_STEPPED);
    assert_no_errors(&ranks);
    assert_int_equal(duration_of(&ranks, "c10d.allreduce and rank = 0"), 40004800);
    assert_int_equal(sum_of(&ranks, "comm.hop", 1), 4 * 32);
    ranks_free(&ranks);
}

static void
a_ring_of_eight_sends_56_bytes_a_rank(void **state)
{
    (void)state;
    struct ranks ranks = { .size = 8, .body = ring_by_hand, .free_costs = true };
    ranks_run(&ranks, EXECUTOR_STEPPED);
    assert_no_errors(&ranks);
    assert_int_equal(sum_of(&ranks, "comm.hop and rank = 3", 1), 56);
    ranks_free(&ranks);
}

static bool
straggle(struct task *me, struct process_group *group, struct ranks *ranks)
{
    int64_t        count = 10000;
    struct tensor *tensor = tensor_zeros(me, DTYPE_F32, DEVICE_CPU, 1, &count);
    uint64_t       start = sched_now(me);
    sched_advance(me, cost_us(me->rank == 2 ? 1300 : 1000));
    bool done = tensor != NULL && group_all_reduce_now(me, group, tensor, NULL);
    return expect(me, ranks, done && sched_now(me) == start + cost_us(1366), "the step ends after 1366 us");
}

static void
who_comes_last_waits_least(void **state)
{
    (void)state;
    struct ranks ranks = { .size = 4, .body = straggle, .free_costs = true };
    ranks_run(&ranks, EXECUTOR_STEPPED);
    assert_no_errors(&ranks);
    for (int rank = 0; rank < 4; rank++) {
        char filter[64];
        snprintf(filter, sizeof filter, "c10d.allreduce and rank = %d", rank);
        assert_int_equal(duration_of(&ranks, filter), cost_us(rank == 2 ? 66 : 366));
    }
    ranks_free(&ranks);
}

/* ---- every length, every operation ---- */

static double
expected(enum reduce_op op, int size, double first)
{
    double value = first;
    for (int rank = 1; rank < size; rank++) {
        double other = first + rank;
        if (op == REDUCE_PRODUCT)
            value *= other;
        else if (op == REDUCE_MAX)
            value = other;
        else if (op != REDUCE_MIN)
            value += other;
    }
    return op == REDUCE_AVG ? value / size : value;
}

static bool
reduce_one(struct task *me, struct process_group *group, const struct ranks *ranks, int64_t count, enum dtype dtype,
           const struct collective_options *options)
{
    double         want = expected(options->op, ranks->size, 1);
    struct tensor *tensor = tensor_filled(me, tensor_empty(me, dtype, DEVICE_CPU, 1, &count), 1 + me->rank);
    double         f64[32];
    int64_t        i64[32];
    float          f32[32];
    void          *into[] = { f32, f64, i64 };
    if (tensor == NULL || !group_all_reduce_now(me, group, tensor, options) || !tensor_read(me, tensor, into[dtype]))
        return false;
    for (int64_t i = 0; i < count; i++) {
        double got = dtype == DTYPE_F32 ? f32[i] : dtype == DTYPE_F64 ? f64[i] : (double)i64[i];
        if (got != (double)(dtype == DTYPE_F32 ? (float)want : want))
            return false;
    }
    return true;
}

static bool
reduce_all(struct task *me, struct process_group *group, struct ranks *ranks)
{
    static const int64_t lengths[] = { 0, 1, 2, 7, 8, 13 };
    for (size_t i = 0; i < countof(lengths); i++)
        for (int op = REDUCE_SUM; op <= REDUCE_MAX; op++)
            for (int dtype = DTYPE_F32; dtype <= (op == REDUCE_AVG ? DTYPE_F64 : DTYPE_I64); dtype++)
                for (int forwards = 0; forwards < 2; forwards++) {
                    struct collective_options options = { .op = (enum reduce_op)op, .ring_forwards = forwards };
                    if (!expect(me, ranks, reduce_one(me, group, ranks, lengths[i], (enum dtype)dtype, &options),
                                "an all-reduce is right"))
                        return false;
                }
    return true;
}

static void
all_reduces_are_right_for_every_size_length_operation_and_dtype(void **state)
{
    (void)state;
    static const int sizes[] = { 1, 2, 3, 5, 8 };
    for (int executor = EXECUTOR_STEPPED; executor <= EXECUTOR_FREE; executor++)
        for (size_t i = 0; i < countof(sizes); i++) {
            struct ranks ranks = { .size = sizes[i], .body = reduce_all };
            ranks_run(&ranks, (enum executor_kind)executor);
            assert_no_errors(&ranks);
            ranks_free(&ranks);
        }
}

/* gloo: chunk k is ((x[k-1] + x[k-2]) + ...) + x[k]. */
static bool
gloos_order(struct task *me, struct process_group *group, struct ranks *ranks)
{
    static const float x[3] = { 1e8F, 1.0F, -1e8F };
    int64_t            count = 6;
    struct collective_options options = { .op = REDUCE_SUM };
    struct tensor     *empty = tensor_empty(me, DTYPE_F32, DEVICE_CPU, 1, &count);
    struct tensor     *tensor = tensor_filled(me, empty, (double)x[me->rank]);
    float              out[6];
    bool done = tensor != NULL && group_all_reduce_now(me, group, tensor, &options) && tensor_read(me, tensor, out);
    for (int k = 0; k < 3 && done; k++) {
        float want = x[(k + 2) % 3] + x[(k + 1) % 3];
        want += x[k];
        done = out[2 * k] == want && out[2 * k + 1] == want;
    }
    return expect(me, ranks, done, "the additions have Gloo's order");
}

static void
the_ring_adds_in_gloos_order(void **state)
{
    (void)state;
    struct ranks ranks = { .size = 3, .body = gloos_order };
    ranks_run(&ranks, EXECUTOR_STEPPED);
    assert_no_errors(&ranks);
    ranks_free(&ranks);
}

/* ---- the other collectives ---- */

static bool
send_around(struct task *me, struct process_group *group, struct ranks *ranks)
{
    for (int root = 0; root < ranks->size; root++) {
        struct tensor *tensor = numbers(me, 5, 100 * me->rank, 1);
        bool done = tensor != NULL && group_broadcast_now(me, group, tensor, root);
        if (!expect(me, ranks, done && holds(me, tensor, 5, 100 * root, 1), "the root's tensor is everywhere"))
            return false;
    }
    struct tensor *outputs[RANKS_MAX], *input = numbers(me, 3, me->rank, 0);
    for (int i = 0; i < ranks->size; i++)
        outputs[i] = numbers(me, 3, -1, 0);
    bool done = group_all_gather_now(me, group, outputs, input);
    for (int i = 0; i < ranks->size && done; i++)
        done = holds(me, outputs[i], 3, i, 0);
    struct tensor *whole = numbers(me, 3 * ranks->size, -1, 0);
    float          all[3 * RANKS_MAX];
    bool parts = group_all_gather_into_tensor_now(me, group, whole, input) && tensor_read(me, whole, all);
    for (int i = 0; i < 3 * ranks->size && parts; i++)
        parts = all[i] == (float)(i / 3);
    return expect(me, ranks, done, "outputs[r] is rank r's") && expect(me, ranks, parts, "part r is rank r's") &&
           group_barrier_now(me, group);
}

static void
broadcasts_and_gathers_reach_everybody(void **state)
{
    (void)state;
    for (int executor = EXECUTOR_STEPPED; executor <= EXECUTOR_FREE; executor++)
        for (int size = 1; size <= 7; size++) {
            struct ranks ranks = { .size = size, .body = send_around };
            ranks_run(&ranks, (enum executor_kind)executor);
            assert_no_errors(&ranks);
            assert_int_equal(count_events(&ranks, "comm.hop and bytes = 20"), size * (size - 1));
            ranks_free(&ranks);
        }
}

static bool
late_barrier(struct task *me, struct process_group *group, struct ranks *ranks)
{
    uint64_t start = sched_now(me);
    if (me->rank == 1)
        sched_advance(me, cost_us(700));
    bool met = group_barrier_now(me, group);
    return expect(me, ranks, met && sched_now(me) == start + cost_us(710), "everybody leaves one latency later");
}

static void
a_barrier_opens_one_latency_after_the_last_one_came(void **state)
{
    (void)state;
    struct ranks ranks = { .size = 4, .body = late_barrier };
    ranks_run(&ranks, EXECUTOR_STEPPED);
    assert_no_errors(&ranks);
    ranks_free(&ranks);
}

static bool
late_monitored(struct task *me, struct process_group *group, struct ranks *ranks)
{
    uint64_t start = sched_now(me);
    if (me->rank == 1)
        sched_advance(me, cost_us(700));
    bool met = group_monitored_barrier(me, group, &(struct monitored){ 0 });
    return expect(me, ranks, met && sched_now(me) == start + cost_us(710), "everybody leaves one latency later");
}

static void
so_does_a_monitored_one(void **state)
{
    (void)state;
    struct ranks ranks = { .size = 4, .body = late_monitored };
    ranks_run(&ranks, EXECUTOR_STEPPED);
    assert_no_errors(&ranks);
    ranks_free(&ranks);
}

/* Two tensors of different lengths travel as one; of different dtypes they do not. */
static bool
coalesced(struct task *me, struct process_group *group, struct ranks *ranks)
{
    int64_t        two = 2;
    struct tensor *list[] = { numbers(me, 2, me->rank, 1), numbers(me, 3, 10 * me->rank, 1) };
    struct tensor *mixed[] = { list[0], tensor_zeros(me, DTYPE_F64, DEVICE_CPU, 1, &two) };
    struct work   *work = group_all_reduce_coalesced(me, group, &(struct group_tensors){ list, 2 }, NULL);
    bool           done = work_complete(me, work) && holds(me, list[0], 2, 1, 2) && holds(me, list[1], 3, 10, 2);
    if (!expect(me, ranks, done, "each has its own sum"))
        return false;
    bool refused = group_all_reduce_coalesced(me, group, &(struct group_tensors){ mixed, 2 }, NULL) == NULL &&
                   me->error.kind == E_VALUE;
    task_clear_error(me);
    return expect(me, ranks, refused, "two dtypes are refused");
}

static void
coalesced_tensors_are_reduced_as_one(void **state)
{
    (void)state;
    struct ranks ranks = { .size = 2, .body = coalesced };
    ranks_run(&ranks, EXECUTOR_STEPPED);
    assert_no_errors(&ranks);
    assert_int_equal(count_events(&ranks, "c10d.allreduce"), 2);
    ranks_free(&ranks);
}

static bool
overlap(struct task *me, struct process_group *group, struct ranks *ranks)
{
    struct tensor *tensors[3];
    struct work   *works[3];
    bool           done = true;
    for (int i = 0; i < 3; i++) {
        tensors[i] = numbers(me, 4, i, 0);
        works[i]   = group_all_reduce(me, group, tensors[i], NULL);
        done       = done && works[i] != NULL && work_sequence(works[i]) == i;
    }
    uint64_t issued = sched_now(me);
    for (int i = 2; i >= 0 && done; i--) {
        done = work_wait(me, works[i]) && work_done(me, works[i]) && holds(me, tensors[i], 4, 2.0 * i, 0);
        work_free(me, works[i]);
    }
    if (ranks->stepped)
        done = done && sched_now(me) > issued + cost_us(50);
    return expect(me, ranks, done, "three in flight, waited for in reverse");
}

static void
works_run_behind_the_rank_in_the_order_of_issue(void **state)
{
    (void)state;
    for (int executor = EXECUTOR_STEPPED; executor <= EXECUTOR_FREE; executor++) {
        struct ranks ranks = { .size = 2, .body = overlap };
        ranks_run(&ranks, (enum executor_kind)executor);
        assert_no_errors(&ranks);
        assert_int_equal(count_events(&ranks, "c10d.issue"), 6);
        ranks_free(&ranks);
    }
}

static bool
send_to_eight(struct task *me, struct process_group *group, struct ranks *ranks)
{
    uint64_t       start = sched_now(me), price = cost_copy(&ranks->cost, 4 * sizeof(float));
    struct tensor *tensor = numbers(me, 4, 0, 0);
    bool           done = group_broadcast_now(me, group, tensor, 0);
    return expect(me, ranks, done && sched_now(me) <= start + 3 * price, "three transfers one after the other are enough") &&
           expect(me, ranks, me->rank != 7 || sched_now(me) == start + 3 * price, "the farthest needs all three");
}

static void
a_broadcast_sends_to_the_farthest_first(void **state)
{
    (void)state;
    struct ranks ranks = { .size = 8, .body = send_to_eight, .free_costs = true };
    ranks_run(&ranks, EXECUTOR_STEPPED);
    assert_no_errors(&ranks);
    ranks_free(&ranks);
}

/* A backward that saved the tensor before must learn that it has changed: by its version. */
static bool
change_versions(struct task *me, struct process_group *group, struct ranks *ranks)
{
    struct tensor *tensor = numbers(me, 4, 0, 0), *gathered[2] = { numbers(me, 4, 0, 0), numbers(me, 4, 0, 0) };
    uint32_t       before = tensor_version(tensor), other = tensor_version(gathered[1]);
    bool reduced = group_all_reduce_now(me, group, tensor, NULL) && tensor_version(tensor) == before + 1;
    bool sent    = group_broadcast_now(me, group, tensor, 0) && tensor_version(tensor) == before + 1 + (me->rank == 1);
    bool shown   = group_all_gather_now(me, group, gathered, tensor) && tensor_version(gathered[1]) == other + 1;
    struct tensor *whole = numbers(me, 8, 0, 0);
    other  = tensor_version(whole);
    shown  = shown && group_all_gather_into_tensor_now(me, group, whole, tensor) && tensor_version(whole) == other + 1;
    before = tensor_version(tensor);
    bool moved = me->rank == 0 ? group_send(me, group, tensor, 1, 0) : group_recv(me, group, tensor, 0, 0);
    moved = moved && tensor_version(tensor) == before + (me->rank == 1);
    return expect(me, ranks, reduced, "all-reduce changes it") && expect(me, ranks, sent, "broadcast where it arrives") &&
           expect(me, ranks, shown, "all-gather changes its outputs") && expect(me, ranks, moved, "recv changes it");
}

static void
what_is_received_has_another_version(void **state)
{
    (void)state;
    struct ranks ranks = { .size = 2, .body = change_versions };
    ranks_run(&ranks, EXECUTOR_STEPPED);
    assert_no_errors(&ranks);
    ranks_free(&ranks);
}

static bool
worlds_of_65(struct task *me, struct process_group *group, struct ranks *ranks)
{
    (void)group;
    struct world_options options = { .size = 65 };
    struct world *world  = world_new(me, &options);
    bool          silent = world != NULL && !stage_enabled(me, KIND_comm_hop);
    world_free(me, world);
    bool again         = stage_enabled(me, KIND_comm_hop);
    options.trace_hops = true;
    world     = world_new(me, &options);
    bool told = world != NULL && stage_enabled(me, KIND_comm_hop);
    world_free(me, world);
    options = (struct world_options){ .size = 64 };
    world   = world_new(me, &options);
    told    = told && world != NULL && stage_enabled(me, KIND_comm_hop);
    world_free(me, world);
    return expect(me, ranks, silent, "65 ranks tell no hops") && expect(me, ranks, again, "the next world does") &&
           expect(me, ranks, told, "64 do, and who asks");
}

static void
hops_are_told_up_to_64_ranks(void **state)
{
    (void)state;
    struct ranks ranks = { .size = 1, .body = worlds_of_65 };
    ranks_run(&ranks, EXECUTOR_STEPPED);
    assert_no_errors(&ranks);
    ranks_free(&ranks);
}

/* ---- devices ---- */

static bool
on_devices(struct task *me, struct process_group *group, struct ranks *ranks)
{
    int64_t        count = 6;
    struct tensor *tensor = tensor_filled(me, tensor_empty(me, DTYPE_F32, me->rank, 1, &count), 1 + me->rank);
    bool done = tensor != NULL && tensor_fill(me, tensor, 3 + me->rank) && group_all_reduce_now(me, group, tensor, NULL);
    return expect(me, ranks, done && holds(me, tensor, 6, 7, 0), "what the stream wrote before is in the sum");
}

static void
a_collective_waits_for_the_stream_that_writes_its_tensor(void **state)
{
    (void)state;
    for (int executor = EXECUTOR_STEPPED; executor <= EXECUTOR_FREE; executor++) {
        struct ranks ranks = { .size = 2, .body = on_devices };
        ranks_run(&ranks, (enum executor_kind)executor);
        assert_no_errors(&ranks);
        ranks_free(&ranks);
    }
}

static bool
changes_too_early(struct task *me, struct process_group *group, struct ranks *ranks)
{
    (void)ranks;
    struct tensor *tensor = numbers(me, 4, 1, 0);
    struct work   *work   = group_all_reduce(me, group, tensor, NULL);
    bool           done   = work != NULL && (me->rank == 1 || tensor_fill(me, tensor, 5));
    work_free(me, work);
    return done;
}

static void
changing_a_tensor_before_the_wait_is_a_race(void **state)
{
    (void)state;
    struct ranks ranks = { .size = 2, .body = changes_too_early };
    ranks_run(&ranks, EXECUTOR_STEPPED);
    assert_true(count_events(&ranks, "fault.race") > 0);
    ranks_free(&ranks);
}

/* ---- arguments ---- */

static bool
bad_calls(struct task *me, struct process_group *group, struct ranks *ranks)
{
    static const enum error_kind want[] = { E_VALUE, E_VALUE, E_RUNTIME, E_VALUE, E_RUNTIME, E_RUNTIME, E_RUNTIME };
    int64_t two[2] = { 2, 2 };
    struct tensor *tensor = numbers(me, 4, 0, 0);
    struct collective_options star = { .algorithm = "star" }, mean = { .op = REDUCE_AVG }, bits = { .op = REDUCE_BAND };
    for (size_t i = 0; i < countof(want); i++) {
        struct work *work = NULL;
        if (i == 0)
            group_send(me, group, tensor, ranks->size, 0);
        else if (i == 1)
            group_recv(me, group, tensor, me->rank, 0);
        else if (i == 2)
            work = group_broadcast(me, group, tensor, -1);
        else if (i == 3)
            work = group_all_reduce(me, group, tensor, &star);
        else if (i == 4)
            work = group_all_reduce(me, group, tensor, &bits);
        else if (i == 5)
            group_send(me, group, tensor, 1 - me->rank, -1);
        else
            work = group_all_reduce(me, group, tensor_zeros(me, DTYPE_BOOL, DEVICE_CPU, 2, two), &mean);
        if (!expect(me, ranks, work == NULL && me->error.kind == want[i], "it is refused"))
            return false;
        task_clear_error(me);
    }
    return true;
}

static bool
bad_calls_body(struct task *me, struct process_group *group, struct ranks *ranks)
{
    return bad_calls(me, group, ranks) && expect(me, ranks, group_barrier_now(me, group), "and nobody else noticed");
}

static void
bad_arguments_are_refused_before_anything_moves(void **state)
{
    (void)state;
    struct ranks ranks = { .size = 2, .body = bad_calls_body };
    ranks_run(&ranks, EXECUTOR_STEPPED);
    assert_no_errors(&ranks);
    ranks_free(&ranks);
}

/* ---- the store ---- */

static bool
use_store(struct task *me, struct process_group *group, struct ranks *ranks)
{
    (void)group;
    struct store *store = world_store(ranks->world);
    void         *bytes = NULL;
    size_t        count = 0;
    if (me->rank == 0 && !store_set(me, store, "greeting", "hello", 5))
        return false;
    bool done = store_get(me, store, "greeting", &bytes, &count) && count == 5 && strcmp(bytes, "hello") == 0;
    const char             *keys[] = { "nobody's", "greeting" };
    const struct store_text pair[] = { { "hell", 4 }, { "other", 5 } };
    struct store_text       now;
    bool                    there = true;
    done = done && store_check(me, store, keys, 2, &there) && !there && store_check(me, store, keys + 1, 1, &there) && there;
    done = done && store_compare_set(me, store, "greeting", pair, &now) && now.count == 5 && memcmp(now.bytes, "hello", 5) == 0;
    store_add(me, store, "sum", me->rank + 1);
    done = done && group_barrier_now(me, group) && store_add(me, store, "sum", 0) == 6;
    if (!expect(me, ranks, done, "keys are shared and added up"))
        return false;
    store_add(me, store, "greeting", 1);
    bool refused = me->error.kind == E_VALUE;
    task_clear_error(me);
    return expect(me, ranks, refused, "a text is no number");
}

static void
the_store_is_seen_by_all(void **state)
{
    (void)state;
    for (int executor = EXECUTOR_STEPPED; executor <= EXECUTOR_FREE; executor++) {
        struct ranks ranks = { .size = 3, .body = use_store };
        ranks_run(&ranks, (enum executor_kind)executor);
        assert_no_errors(&ranks);
        ranks_free(&ranks);
    }
}

/* Rank 1 leaves while rank 0 waits. */
static bool
wait_for_a_key(struct task *me, struct process_group *group, struct ranks *ranks)
{
    (void)group;
    void  *bytes = NULL;
    size_t count = 0;
    if (me->rank == 1)
        sched_advance(me, cost_us(100));
    return me->rank == 1 || store_get(me, world_store(ranks->world), "answer", &bytes, &count);
}

static void
who_waits_for_a_key_learns_that_nobody_is_left(void **state)
{
    (void)state;
    struct ranks ranks = { .size = 2, .body = wait_for_a_key };
    ranks_run(&ranks, EXECUTOR_STEPPED);
    assert_int_equal(ranks.error[0].kind, E_DEADLOCK);
    assert_non_null(strstr(ranks.error[0].message, "unset key: rank 1 returned, and nobody sets 'answer'"));
    ranks_free(&ranks);
}

static bool
wait_for_each_other(struct task *me, struct process_group *group, struct ranks *ranks)
{
    void  *bytes = NULL;
    size_t count = 0;
    return me->rank == 0 ? store_get(me, world_store(ranks->world), "answer", &bytes, &count)
                         : group_recv(me, group, numbers(me, 1, 0, 0), 0, 0);
}

static void
a_deadlock_names_the_key(void **state)
{
    (void)state;
    struct ranks ranks = { .size = 2, .body = wait_for_each_other };
    ranks_run(&ranks, EXECUTOR_STEPPED);
    assert_int_equal(ranks.error[0].kind, E_DEADLOCK);
    assert_non_null(strstr(ranks.error[0].message, "unset key"));
    ranks_free(&ranks);
}

static bool
begin_again(struct task *me, struct process_group *group, struct ranks *ranks)
{
    struct tensor *tensor = numbers(me, 2, 1, 0);
    if (!expect(me, ranks, group_all_reduce_now(me, group, tensor, NULL), "first group") ||
        !expect(me, ranks, process_group_rendezvous(me, ranks->world, me->rank) == NULL, "twice is refused"))
        return false;
    task_clear_error(me);
    process_group_destroy(me, group);
    bool refused = group_barrier(me, group) == NULL;
    task_clear_error(me);
    refused = refused && !group_send(me, group, tensor, (me->rank + 1) % ranks->size, 0) &&
              strstr(me->error.message, "was destroyed") != NULL;
    task_clear_error(me);
    struct process_group *again = process_group_rendezvous(me, ranks->world, me->rank);
    bool done = refused && again != NULL && rank_context(me)->group == again && group_barrier_now(me, again) &&
                process_group_destroy(me, again);
    return expect(me, ranks, done, "a second group works");
}

static void
a_group_can_be_destroyed_and_made_again(void **state)
{
    (void)state;
    for (int executor = EXECUTOR_STEPPED; executor <= EXECUTOR_FREE; executor++) {
        struct ranks ranks = { .size = 3, .body = begin_again };
        ranks_run(&ranks, (enum executor_kind)executor);
        assert_no_errors(&ranks);
        ranks_free(&ranks);
    }
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_ring_of_four_takes_six_hops_of_eight_bytes),
        cmocka_unit_test(a_ring_of_three_waits_for_the_longest_chunk),
        cmocka_unit_test(a_ring_of_eight_sends_56_bytes_a_rank),
        cmocka_unit_test(who_comes_last_waits_least),
        cmocka_unit_test(all_reduces_are_right_for_every_size_length_operation_and_dtype),
        cmocka_unit_test(the_ring_adds_in_gloos_order),
        cmocka_unit_test(broadcasts_and_gathers_reach_everybody),
        cmocka_unit_test(a_barrier_opens_one_latency_after_the_last_one_came),
        cmocka_unit_test(so_does_a_monitored_one),
        cmocka_unit_test(coalesced_tensors_are_reduced_as_one),
        cmocka_unit_test(works_run_behind_the_rank_in_the_order_of_issue),
        cmocka_unit_test(a_collective_waits_for_the_stream_that_writes_its_tensor),
        cmocka_unit_test(changing_a_tensor_before_the_wait_is_a_race),
        cmocka_unit_test(bad_arguments_are_refused_before_anything_moves),
        cmocka_unit_test(the_store_is_seen_by_all),
        cmocka_unit_test(a_group_can_be_destroyed_and_made_again),
        cmocka_unit_test(a_broadcast_sends_to_the_farthest_first),
        cmocka_unit_test(what_is_received_has_another_version),
        cmocka_unit_test(hops_are_told_up_to_64_ranks),
        cmocka_unit_test(who_waits_for_a_key_learns_that_nobody_is_left),
        cmocka_unit_test(a_deadlock_names_the_key),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
