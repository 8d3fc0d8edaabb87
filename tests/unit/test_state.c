/* The state as of an event: what the fold says, forwards, backwards and at random, against a second count. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <stdlib.h>
#include <string.h>

#include "analysis/state.h"
#include "base/dtype.h"
#include "base/map.h"
#include "base/rng.h"
#include "trace/reader.h"
#include "trace/schema.h"
#include "trace/writer.h"

struct rig {
    struct trace_writer *writer;
    struct trace_buffer *buffer;
    uint64_t             time;
    struct trace        *trace;
    struct state        *state;
};

static void
emit(struct rig *rig, enum kind kind, enum trace_phase phase, int lane, int rank, int device, const int64_t args[4])
{
    struct trace_event event = { .time = rig->time++, .kind = kind, .phase = phase, .lane = (uint32_t)lane,
                                 .rank = (int16_t)rank, .device = (int16_t)device, .iteration = 1 };
    memcpy(event.args, args, sizeof event.args);
    assert_true(trace_append(rig->buffer, &event));
}

#define ARGS(...) ((const int64_t[4]){ __VA_ARGS__ })

static struct rig
begin(void)
{
    struct rig rig = { 0 };
    char why[200];
    const struct trace_options options = { .clock = CLOCK_VIRTUAL_PS };
    rig.writer = trace_create(&options, why, sizeof why);
    assert_non_null(rig.writer);
    rig.buffer = trace_buffer_new(rig.writer);
    trace_lane(rig.writer, 0, -1, LANE_HOST, "r0 main");
    trace_lane(rig.writer, 0, 0, LANE_COMM, "r0 comm");
    return rig;
}

static void
look(struct rig *rig)
{
    char why[200];
    rig->trace = trace_open_live(rig->writer, why, sizeof why);
    assert_non_null(rig->trace);
    rig->state = state_new(rig->trace);
    assert_non_null(rig->state);
}

static void
end(struct rig *rig)
{
    state_free(rig->state);
    trace_release(rig->trace);
    trace_close(rig->writer);
}

static void
stages_are_open_until_they_end(void **state)
{
    struct rig rig = begin();
    emit(&rig, KIND_dp_forward, PHASE_BEGIN, 0, 0, -1, ARGS(0));  /* 0 */
    emit(&rig, KIND_dp_scatter, PHASE_BEGIN, 0, 0, -1, ARGS(0));  /* 1 */
    emit(&rig, KIND_comm_hop, PHASE_BEGIN, 1, 0, 0, ARGS(0));     /* 2 */
    emit(&rig, KIND_lock_hold, PHASE_BEGIN, 0, 0, -1, ARGS(1));   /* 3 */
    emit(&rig, KIND_dp_scatter, PHASE_END, 0, 0, -1, ARGS(0));    /* 4 */
    emit(&rig, KIND_lock_hold, PHASE_END, 0, 0, -1, ARGS(1));     /* 5: does not nest */
    emit(&rig, KIND_dp_forward, PHASE_END, 0, 0, -1, ARGS(0));    /* 6 */
    look(&rig);
    size_t open[8];
    assert_int_equal(state_seq(rig.state), SIZE_MAX);
    assert_true(state_seek(rig.state, 3));
    assert_int_equal(state_open(rig.state, 0, open, 8), 3);
    assert_int_equal(open[0], 0);
    assert_int_equal(open[1], 1);
    assert_int_equal(open[2], 3);
    assert_int_equal(state_open(rig.state, 1, open, 8), 1);
    assert_int_equal(open[0], 2);
    assert_true(state_seek(rig.state, 4));
    assert_int_equal(state_open(rig.state, 0, open, 1), 2);
    assert_true(state_seek(rig.state, 6));
    assert_int_equal(state_open(rig.state, 0, open, 8), 0);
    assert_int_equal(state_seq(rig.state), 6);
    assert_true(state_seek(rig.state, 0));
    assert_int_equal(state_open(rig.state, 0, open, 8), 1);
    assert_false(state_seek(rig.state, 7));
    assert_int_equal(state_iteration(rig.state), 1);
    end(&rig);
}

static void
buckets_fill_are_launched_and_reduced(void **state)
{
    struct rig rig = begin();
    int64_t indices = trace_text(rig.writer, "3 2"), rebuilt = trace_text(rig.writer, "0 1 2 3");
    emit(&rig, KIND_ddp_bucket, PHASE_INSTANT, 0, 0, 0, ARGS(0, 64, 2, indices));              /* 0 */
    emit(&rig, KIND_ddp_bucket, PHASE_INSTANT, 0, 0, 0, ARGS(1, 128, 2, rebuilt));             /* 1 */
    emit(&rig, KIND_ddp_bucket, PHASE_INSTANT, 0, 1, 1, ARGS(0, 64, 2, indices));              /* 2 */
    emit(&rig, KIND_ddp_prepare_for_backward, PHASE_BEGIN, 0, 0, 0, ARGS(2));                  /* 3 */
    emit(&rig, KIND_ddp_mark_variable_ready, PHASE_BEGIN, 0, 0, 0, ARGS(3, 0, 1));             /* 4 */
    emit(&rig, KIND_ddp_mark_variable_ready, PHASE_END, 0, 0, 0, ARGS(3, 0, 1));               /* 5 */
    emit(&rig, KIND_ddp_all_reduce_bucket, PHASE_BEGIN, 0, 0, 0, ARGS(0, 64));                 /* 6 */
    emit(&rig, KIND_c10d_issue, PHASE_INSTANT, 0, 0, 0, ARGS(0, 7, 64));                       /* 7 */
    emit(&rig, KIND_ddp_all_reduce_bucket, PHASE_END, 0, 0, 0, ARGS(0, 64));                   /* 8 */
    emit(&rig, KIND_c10d_allreduce, PHASE_BEGIN, 1, 0, 0, ARGS(7, 64));                        /* 9 */
    emit(&rig, KIND_c10d_allreduce, PHASE_END, 1, 0, 0, ARGS(7, 64));                          /* 10 */
    emit(&rig, KIND_ddp_prepare_for_backward, PHASE_BEGIN, 0, 0, 0, ARGS(2));                  /* 11 */
    emit(&rig, KIND_ddp_bucket, PHASE_INSTANT, 0, 0, 0, ARGS(0, 192, 4, rebuilt));             /* 12: rebuilt */
    look(&rig);
    struct state_bucket buckets[4];
    assert_true(state_seek(rig.state, 3));
    assert_int_equal(state_buckets(rig.state, 0, buckets, 4), 2);
    assert_int_equal(buckets[0].ready, 0);
    assert_string_equal(buckets[0].indices, "3 2");
    assert_int_equal(buckets[1].bytes, 128);
    assert_true(state_seek(rig.state, 4));
    state_buckets(rig.state, 0, buckets, 4);
    assert_int_equal(buckets[0].ready, 1);
    assert_true(state_seek(rig.state, 9));
    state_buckets(rig.state, 0, buckets, 4);
    assert_int_equal(buckets[0].ready, 1);
    assert_true(buckets[0].launched && !buckets[0].reduced && !buckets[1].launched);
    assert_true(state_seek(rig.state, 10));
    state_buckets(rig.state, 0, buckets, 4);
    assert_true(buckets[0].reduced);
    assert_true(state_seek(rig.state, 11));
    state_buckets(rig.state, 0, buckets, 4);
    assert_true(buckets[0].ready == 0 && !buckets[0].launched && !buckets[0].reduced);
    assert_true(state_seek(rig.state, 12));
    assert_int_equal(state_buckets(rig.state, 0, buckets, 4), 1);
    assert_int_equal(buckets[0].params, 4);
    assert_int_equal(state_buckets(rig.state, 1, buckets, 4), 1);
    assert_int_equal(state_buckets(rig.state, 2, buckets, 4), 0);
    end(&rig);
}

static void
locks_say_who_holds_them(void **state)
{
    struct rig rig = begin();
    int64_t name = trace_text(rig.writer, "the GIL");
    emit(&rig, KIND_lock_hold, PHASE_BEGIN, 0, 0, -1, ARGS(name, 0));
    emit(&rig, KIND_lock_wait, PHASE_BEGIN, 1, 0, -1, ARGS(name, 1));
    emit(&rig, KIND_lock_hold, PHASE_END, 0, 0, -1, ARGS(name, 0));
    emit(&rig, KIND_lock_wait, PHASE_END, 1, 0, -1, ARGS(name, 1));
    emit(&rig, KIND_lock_hold, PHASE_BEGIN, 1, 0, -1, ARGS(name, 1));
    look(&rig);
    static const struct { int holder; size_t waiting; } expected[] = { { 0, 0 }, { 0, 1 }, { -1, 1 }, { -1, 0 },
                                                                       { 1, 0 } };
    for (size_t seq = 5; seq-- > 0;) {
        struct state_lock lock;
        assert_true(state_seek(rig.state, seq));
        assert_int_equal(state_locks(rig.state, &lock, 1), 1);
        assert_string_equal(lock.name, "the GIL");
        assert_int_equal(lock.holder_lane, expected[seq].holder);
        assert_int_equal(lock.waiting, expected[seq].waiting);
    }
    end(&rig);
}

/* Thousands of allocations, frees and writes, looked at in any order, across checkpoints. */
static void
any_moment_can_be_asked_for_in_any_order(void **state)
{
    enum { EVENTS = 30000, STORAGES = 500 };
    struct rig rig = begin();
    int64_t *bytes = calloc(STORAGES * 100, sizeof *bytes), next = 1, live[STORAGES] = { 0 };
    uint64_t *allocated = calloc(EVENTS, sizeof *allocated), *contents = calloc(EVENTS, sizeof *contents);
    uint64_t random = 4, now = 0, last = 0;
    for (int i = 0; i < EVENTS; i++) {
        uint64_t slot = splitmix(&random) % STORAGES;
        if (live[slot] == 0) {
            live[slot] = next++;
            bytes[live[slot]] = (int64_t)(splitmix(&random) % 1000);
            now += (uint64_t)bytes[live[slot]];
            emit(&rig, KIND_memory_alloc, PHASE_INSTANT, 0, 0, 1, ARGS(live[slot], bytes[live[slot]]));
        } else if (slot == 0) {
            last++;
            emit(&rig, KIND_memory_snapshot, PHASE_INSTANT, 0, 0, 1, ARGS(live[0], (int64_t)last));
        } else {
            now -= (uint64_t)bytes[live[slot]];
            emit(&rig, KIND_memory_free, PHASE_INSTANT, 0, 0, -1, ARGS(live[slot], bytes[live[slot]]));
            live[slot] = 0;
        }
        allocated[i] = now;
        contents[i] = last;
    }
    look(&rig);
    for (int i = 0; i < 300; i++) {
        size_t seq = splitmix(&random) % EVENTS, at = SIZE_MAX;
        assert_true(state_seek(rig.state, seq));
        assert_int_equal(state_memory(rig.state, 1).allocated, allocated[seq]);
        assert_int_equal(state_memory(rig.state, -1).allocated, 0);
        assert_true(state_memory(rig.state, 1).peak >= allocated[seq]);
        assert_int_equal(state_snapshot(rig.state, live[0], &at), contents[seq]);
        assert_true(contents[seq] == 0 || at <= seq);
    }
    assert_int_equal(state_snapshot(rig.state, 999999, NULL), 0);
    end(&rig);
    free(bytes);
    free(allocated);
    free(contents);
}

/* ---- the same whatever the way ---- */

enum { WAY_EVENTS = 40000, WAY_STORAGES = 40, WAY_LANES = 2 };

/* Stages that nest, locks that do not, storages with roles and contents, buckets that fill. */
static void
emit_anything(struct rig *rig, uint64_t *random, int64_t roles[3])
{
    static const enum kind stages[] = { KIND_dp_forward, KIND_op, KIND_autograd_node, KIND_optim_step };
    uint64_t dice = splitmix(random);
    int      lane = (int)(dice >> 8 & 1), rank = (int)(dice >> 9 & 1);
    int64_t  storage = 1 + (int64_t)(dice >> 20) % WAY_STORAGES, bytes = (int64_t)(dice >> 32 & 4095);
    enum kind        stage = stages[dice >> 16 & 3];
    enum trace_phase phase = dice >> 10 & 1 ? PHASE_BEGIN : PHASE_END;
    switch (dice % 12) {
    case 0:
        emit(rig, KIND_memory_alloc, PHASE_INSTANT, lane, rank, rank, ARGS(storage, bytes, bytes + 100));
        break;
    case 1:
        emit(rig, KIND_memory_free, PHASE_INSTANT, lane, rank, -1, ARGS(storage, bytes));
        break;
    case 2:
        emit(rig, KIND_memory_role, PHASE_INSTANT, lane, rank, rank, ARGS(storage, roles[dice >> 12 & 1]));
        break;
    case 3:
        emit(rig, KIND_memory_snapshot, PHASE_INSTANT, lane, rank, rank, ARGS(storage, (int64_t)rig->time));
        break;
    case 4:
        emit(rig, KIND_lock_hold, phase, lane, rank, -1, ARGS(roles[2], 1));
        break;
    case 5:
        emit(rig, KIND_ddp_bucket, PHASE_INSTANT, lane, rank, rank, ARGS((int64_t)(dice >> 12 & 3), bytes, 2, roles[0]));
        break;
    case 6:
        emit(rig, KIND_ddp_mark_variable_ready, PHASE_BEGIN, lane, rank, rank, ARGS(1, (int64_t)(dice >> 12 & 3), 1));
        break;
    default:
        emit(rig, stage, phase, lane, rank, rank, ARGS(0));
    }
}

static uint64_t
add_word(uint64_t sum, uint64_t word)
{
    return hash_bytes(sum, &word, sizeof word);
}

/* Everything that can be asked, in one number. */
static uint64_t
digest(const struct state *state)
{
    uint64_t sum = add_word(0, state_seq(state));
    for (uint32_t lane = 0; lane <= WAY_LANES; lane++) {
        size_t open[64], count = state_open(state, lane, open, 64);
        sum = add_word(sum, count);
        for (size_t i = 0; i < count && i < 64; i++)
            sum = add_word(sum, open[i]);
    }
    for (int device = -1; device < 3; device++) {
        struct state_memory memory = state_memory(state, device);
        sum = hash_bytes(sum, &memory, sizeof memory);
    }
    for (int rank = 0; rank < 2; rank++) {
        struct state_bucket buckets[4] = { { 0 } };
        size_t count = state_buckets(state, rank, buckets, 4);
        for (size_t i = 0; i < count; i++)
            sum = add_word(add_word(sum, (uint64_t)buckets[i].bytes), (uint64_t)buckets[i].ready);
    }
    struct state_lock locks[4];
    for (size_t i = 0, count = state_locks(state, locks, 4); i < count; i++)
        sum = add_word(sum, (uint64_t)locks[i].holder_lane);
    for (int64_t storage = 0; storage <= WAY_STORAGES; storage++) {
        size_t at = 0;
        sum = add_word(sum, (uint64_t)state_snapshot(state, storage, &at));
        sum = add_word(sum, at);
    }
    return add_word(sum, (uint64_t)state_iteration(state));
}

static void
the_state_is_the_same_whatever_the_way_to_it(void **state)
{
    struct rig rig = begin();
    uint64_t   random = 7, *step = calloc(WAY_EVENTS, sizeof *step);
    int64_t    names[3] = { trace_text(rig.writer, "parameter"), trace_text(rig.writer, "gradient"),
                            trace_text(rig.writer, "the GIL") };
    for (int i = 0; i < WAY_EVENTS; i++)
        emit_anything(&rig, &random, names);
    look(&rig);
    for (size_t seq = 0; seq < WAY_EVENTS; seq++) {
        assert_true(state_seek(rig.state, seq));
        step[seq] = digest(rig.state);
    }
    for (int i = 0; i < 300; i++) {
        size_t seq = splitmix(&random) % WAY_EVENTS;
        assert_true(state_seek(rig.state, seq));
        assert_int_equal(digest(rig.state), step[seq]);
    }
    for (size_t seq = WAY_EVENTS; seq-- > WAY_EVENTS - 300;) {
        assert_true(state_seek(rig.state, seq));
        assert_int_equal(digest(rig.state), step[seq]);
    }
    state_free(rig.state);
    rig.state = state_new(rig.trace);
    for (int i = 0; i < 300; i++) {
        size_t seq = splitmix(&random) % WAY_EVENTS, budget = 1 + splitmix(&random) % 3000;
        enum state_progress progress;
        while ((progress = state_seek_some(rig.state, seq, budget)) == STATE_GOES_ON)
            assert_int_equal(digest(rig.state), step[state_seq(rig.state)]); /* on the way, too */
        assert_int_equal(progress, STATE_THERE);
        assert_int_equal(digest(rig.state), step[seq]);
    }
    assert_int_equal(state_seek_some(rig.state, WAY_EVENTS, 1), STATE_FAILED);
    end(&rig);
    free(step);
}

static void
a_slice_looks_at_no_more_events_than_it_may(void **state)
{
    struct rig rig = begin();
    for (int i = 0; i < 1000; i++)
        emit(&rig, KIND_op, PHASE_INSTANT, 0, 0, -1, ARGS(0));
    look(&rig);
    assert_int_equal(state_seek_some(rig.state, 999, 10), STATE_GOES_ON);
    assert_int_equal(state_seq(rig.state), 9);
    assert_int_equal(state_seek_some(rig.state, 999, 0), STATE_GOES_ON);
    assert_int_equal(state_seq(rig.state), 9);
    assert_int_equal(state_seek_some(rig.state, 19, 10), STATE_THERE); /* another wish meanwhile */
    assert_int_equal(state_seek_some(rig.state, 3, 4), STATE_THERE);
    assert_int_equal(state_seq(rig.state), 3);
    end(&rig);
}

/* Tens of thousands of moments at which a storage was written, asked for in any order. */
static void
earlier_contents_are_found_from_any_moment(void **state)
{
    enum { WRITES = 50000 };
    struct rig rig = begin();
    uint64_t   random = 3;
    for (int64_t i = 0; i < WRITES; i++)
        emit(&rig, KIND_memory_snapshot, PHASE_INSTANT, 0, 0, 0, ARGS(i % 3, i + 1));
    look(&rig);
    assert_true(state_seek(rig.state, WRITES - 1));
    for (int i = 0; i < 2000; i++) {
        size_t  before = 3 + splitmix(&random) % WRITES, at = 0;
        int64_t storage = (int64_t)(splitmix(&random) % 3);
        int64_t id = state_snapshot_before(rig.state, storage, before, &at);
        size_t  last = (before < WRITES ? before : WRITES) - 1;
        while ((int64_t)(last % 3) != storage)
            last--;
        assert_int_equal(at, last);
        assert_int_equal(id, (int64_t)last + 1);
    }
    assert_int_equal(state_snapshot_before(rig.state, 0, 0, NULL), 0);
    assert_int_equal(state_snapshot_before(rig.state, 1, 1, NULL), 0);
    end(&rig);
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(stages_are_open_until_they_end),
        cmocka_unit_test(buckets_fill_are_launched_and_reduced),
        cmocka_unit_test(locks_say_who_holds_them),
        cmocka_unit_test(any_moment_can_be_asked_for_in_any_order),
        cmocka_unit_test(the_state_is_the_same_whatever_the_way_to_it),
        cmocka_unit_test(a_slice_looks_at_no_more_events_than_it_may),
        cmocka_unit_test(earlier_contents_are_found_from_any_moment),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
