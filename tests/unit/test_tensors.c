/* The index of tensors, on small records written by hand: what events are about, values as of a moment, names on ranks. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <math.h>
#include <string.h>

#include "analysis/state.h"
#include "analysis/tensors.h"
#include "base/dtype.h"
#include "trace/reader.h"
#include "trace/schema.h"
#include "trace/writer.h"

struct rig {
    struct trace_writer *writer;
    struct trace_buffer *buffer;
    struct trace        *trace;
    struct state        *state;
    struct tensors      *tensors;
    size_t               count;
};

static struct rig
begin(void)
{
    char why[200];
    const struct trace_options options = { .clock = CLOCK_VIRTUAL_PS };
    struct rig rig = { .writer = trace_create(&options, why, sizeof why) };
    assert_non_null(rig.writer);
    rig.buffer = trace_buffer_new(rig.writer);
    trace_lane(rig.writer, 0, -1, LANE_HOST, "r0 main");
    trace_lane(rig.writer, 1, -1, LANE_HOST, "r1 main");
    return rig;
}

#define ARGS(...) ((const int64_t[4]){ __VA_ARGS__ })

/* Answers its number. The lane is the rank. */
static size_t
emit(struct rig *rig, enum kind kind, int phase, uint32_t lane, const int64_t args[4])
{
    struct trace_event event = { .kind = kind, .phase = (uint8_t)phase, .lane = lane, .rank = (int16_t)lane,
                                 .device = -1 };
    memcpy(event.args, args, sizeof event.args);
    assert_true(trace_append(rig->buffer, &event));
    return rig->count++;
}

static size_t
announce(struct rig *rig, uint32_t lane, int64_t storage, int64_t offset, const char *what)
{
    return emit(rig, KIND_memory_tensor, PHASE_INSTANT, lane, ARGS(storage, offset, 3, trace_text(rig->writer, what)));
}

static size_t
snapshot(struct rig *rig, int64_t storage, const float *values, int64_t count, int64_t at)
{
    const struct trace_snapshot content = { .dtype = DTYPE_F32, .dims = 1, .sizes = { count }, .elements = values,
                                            .bytes = (size_t)count * sizeof *values };
    return emit(rig, KIND_memory_snapshot, PHASE_INSTANT, 0,
                ARGS(storage, trace_snapshot(rig->writer, &content), (int64_t)content.bytes, at));
}

static void
look(struct rig *rig, size_t slice)
{
    char why[200];
    rig->trace = trace_open_live(rig->writer, why, sizeof why);
    assert_non_null(rig->trace);
    rig->state = state_new(rig->trace);
    rig->tensors = tensors_new(rig->trace);
    assert_non_null(rig->tensors);
    while (tensors_grow(rig->tensors, slice))
        continue;
    assert_int_equal(tensors_seen(rig->tensors), rig->count);
}

static void
end(struct rig *rig)
{
    tensors_free(rig->tensors);
    state_free(rig->state);
    trace_release(rig->trace);
    trace_close(rig->writer);
}

static size_t
of_event(struct rig *rig, size_t seq, struct seen_tensor *out, size_t *of)
{
    assert_true(state_seek(rig->state, seq));
    return tensors_of_event(rig->tensors, rig->state, seq, out, of);
}

static double
value(const struct seen_tensor *tensor, const struct tensor_values *values, int64_t index)
{
    const void *element = seen_element(tensor, values, index);
    return element != NULL ? dtype_fraction((enum dtype)tensor->dtype, element) : NAN;
}

static void
what_is_told_before_an_event_on_its_lane_is_what_it_is_about(void **state)
{
    (void)state;
    struct rig rig = begin();
    struct seen_tensor seen[TENSORS_OF_EVENT];
    size_t of;
    announce(&rig, 0, 1, 0, "input 0 = fc.weight: float32 [2, 3] strides [1, 2] requires_grad");
    announce(&rig, 1, 9, 4, "input: int64 [5]");
    announce(&rig, 0, 2, 0, "input 1: float32 []");
    size_t first = emit(&rig, KIND_op, PHASE_BEGIN, 0, ARGS(0));
    size_t other = emit(&rig, KIND_op, PHASE_BEGIN, 1, ARGS(0));
    size_t inner = emit(&rig, KIND_lock_hold, PHASE_INSTANT, 0, ARGS(0));
    announce(&rig, 0, 3, 0, "result: float32 [2]");
    size_t last = emit(&rig, KIND_op, PHASE_END, 0, ARGS(0));
    size_t alone = emit(&rig, KIND_lesson_say, PHASE_INSTANT, 0, ARGS(0));
    look(&rig, 2);
    assert_int_equal(of_event(&rig, first, seen, &of), 2);
    assert_string_equal(seen[0].role, "input 0");
    assert_string_equal(seen[0].name, "fc.weight");
    assert_true(seen[0].requires_grad && seen[0].shaped && !seen[1].requires_grad);
    assert_int_equal(seen[0].stride[1], 2);
    assert_int_equal(seen[0].version, 3);
    assert_int_equal(seen[1].dims, 0);
    assert_int_equal(seen_count(&seen[1]), 1);
    assert_int_equal(of_event(&rig, other, seen, &of), 1);
    assert_int_equal(seen[0].storage, 9);
    assert_int_equal(seen[0].offset, 4);
    assert_int_equal(of_event(&rig, last, seen, &of), 3);
    assert_string_equal(seen[0].role, "result");
    assert_int_equal(of_event(&rig, inner, seen, &of), 2); /* the stage around it */
    assert_int_equal(of, first);
    assert_int_equal(of_event(&rig, alone, seen, &of), 0);
    end(&rig);
}

static void
values_are_those_of_the_latest_snapshots_that_hold_them(void **state)
{
    (void)state;
    struct rig rig = begin();
    struct seen_tensor seen[TENSORS_OF_EVENT];
    struct tensor_values values;
    size_t of;
    emit(&rig, KIND_memory_alloc, PHASE_INSTANT, 0, ARGS(1, 16, 16));
    size_t early = snapshot(&rig, 1, (const float[]){ 1, 2, 3, 4 }, 4, 0);
    snapshot(&rig, 1, (const float[]){ 9, NAN }, 2, 8);
    announce(&rig, 0, 1, 1, "input: float32 [3]");
    size_t at = emit(&rig, KIND_op, PHASE_BEGIN, 0, ARGS(0));
    look(&rig, 100);
    assert_int_equal(of_event(&rig, at, seen, &of), 1);
    tensors_values(rig.tensors, &seen[0], at, &values);
    assert_true(value(&seen[0], &values, 0) == 2 && value(&seen[0], &values, 1) == 9);
    assert_true(isnan(value(&seen[0], &values, 2)));
    assert_null(seen_element(&seen[0], &values, 3));
    struct value_summary summary = seen_summary(&seen[0], &values, 100);
    assert_int_equal(summary.known, 3);
    assert_int_equal(summary.nans, 1);
    assert_true(summary.least == 2 && summary.most == 9 && summary.mean == 5.5);
    tensors_values(rig.tensors, &seen[0], early, &values);
    assert_true(value(&seen[0], &values, 1) == 3);
    assert_int_equal(values.seq, early);
    tensors_values(rig.tensors, &seen[0], 0, &values);
    assert_int_equal(values.seq, SIZE_MAX);
    end(&rig);
}

static void
of_edges_the_first_and_the_last_are_known_and_a_write_without_a_snapshot_is_told(void **state)
{
    (void)state;
    struct rig rig = begin();
    struct seen_tensor seen[TENSORS_OF_EVENT];
    struct tensor_values values;
    const struct trace_snapshot content = { .dtype = DTYPE_F32, .dims = 2, .sizes = { 2, 2 }, .bytes = 16,
                                            .elements = (const float[]){ 1, 2, 99, 100 } };
    size_t of;
    emit(&rig, KIND_memory_alloc, PHASE_INSTANT, 0, ARGS(1, 8000, 8192));
    emit(&rig, KIND_memory_edges, PHASE_INSTANT, 0, ARGS(1, trace_snapshot(rig.writer, &content), 8000));
    announce(&rig, 0, 1, 0, "input: float32 [20, 100]");
    size_t at = emit(&rig, KIND_op, PHASE_BEGIN, 0, ARGS(0));
    emit(&rig, KIND_kernel, PHASE_BEGIN, 1, ARGS(0, 1, 8000));
    size_t write = emit(&rig, KIND_kernel, PHASE_END, 1, ARGS(0, 1, 8000));
    look(&rig, 1);
    of_event(&rig, at, seen, &of);
    tensors_values(rig.tensors, &seen[0], at, &values);
    assert_true(values.edges && values.written_since == SIZE_MAX);
    assert_true(value(&seen[0], &values, 1) == 2 && value(&seen[0], &values, 1998) == 99);
    assert_null(seen_element(&seen[0], &values, 2));
    assert_int_equal(seen_summary(&seen[0], &values, 4096).known, 4);
    tensors_values(rig.tensors, &seen[0], write, &values);
    assert_int_equal(values.written_since, write);
    end(&rig);
}

static void
one_name_on_two_ranks_is_one_tensor_and_a_collective_knows_its_peers_by_its_number(void **state)
{
    (void)state;
    struct rig rig = begin();
    struct seen_tensor seen[TENSORS_OF_EVENT], peers[4], named;
    size_t of;
    announce(&rig, 0, 1, 0, "gradient = fc.weight: float32 [2]");
    size_t mine = emit(&rig, KIND_autograd_accumulate, PHASE_BEGIN, 0, ARGS(0));
    announce(&rig, 1, 2, 0, "gradient = fc.weight: float32 [2]");
    size_t theirs = emit(&rig, KIND_autograd_accumulate, PHASE_BEGIN, 1, ARGS(0));
    announce(&rig, 0, 5, 0, "tensor: float32 [2]");
    emit(&rig, KIND_c10d_allreduce, PHASE_BEGIN, 0, ARGS(7));
    announce(&rig, 1, 6, 0, "tensor: float32 [2]");
    size_t seventh = emit(&rig, KIND_c10d_allreduce, PHASE_BEGIN, 1, ARGS(7));
    look(&rig, 3);
    assert_int_equal(of_event(&rig, theirs, seen, &of), 1);
    assert_string_equal(seen[0].name, "fc.weight.grad");
    assert_int_equal(tensors_of_peers(rig.tensors, &seen[0], of, theirs, peers, 4), 2);
    assert_int_equal(peers[0].storage, 1);
    assert_int_equal(peers[1].storage, 2);
    of_event(&rig, mine, seen, &of);
    assert_int_equal(tensors_of_peers(rig.tensors, &seen[0], of, mine, peers, 4), 1); /* the other came later */
    of_event(&rig, seventh, seen, &of);
    assert_int_equal(tensors_of_peers(rig.tensors, &seen[0], of, seventh, peers, 4), 2);
    assert_int_equal(peers[0].storage, 5);
    assert_true(tensors_named(rig.tensors, "fc.weight.grad", 0, seventh, &named));
    assert_int_equal(named.storage, 1);
    assert_false(tensors_named(rig.tensors, "fc.weight.grad", 1, mine, &named));
    end(&rig);
}

static void
storages_have_extents_names_and_an_end(void **state)
{
    (void)state;
    struct rig rig = begin();
    struct extent extents[8];
    struct storage_facts largest[2];
    char name[160];
    emit(&rig, KIND_ddp_init, PHASE_BEGIN, 0, ARGS(0));
    size_t born = emit(&rig, KIND_memory_alloc, PHASE_INSTANT, 0, ARGS(1, 40, 512));
    emit(&rig, KIND_memory_alloc, PHASE_INSTANT, 0, ARGS(2, 4000, 4096));
    announce(&rig, 0, 1, 0, "input = fc.weight: float32 [2, 3]");
    announce(&rig, 0, 1, 6, "input: float32 [4]");
    emit(&rig, KIND_op, PHASE_BEGIN, 0, ARGS(0));
    size_t before = emit(&rig, KIND_memory_alias, PHASE_INSTANT, 0, ARGS(1, 6, 4));
    size_t freed = emit(&rig, KIND_memory_free, PHASE_INSTANT, 0, ARGS(2, 4000, 4096));
    look(&rig, 5);
    assert_int_equal(tensors_extents(rig.tensors, 1, freed, extents, 8), 2);
    assert_int_equal(extents[0].end, 6);
    assert_string_equal(extents[0].label, "fc.weight");
    assert_string_equal(extents[1].label, "input");
    tensors_storage_name(rig.tensors, 1, freed, name);
    assert_string_equal(name, "fc.weight");
    assert_int_equal(tensors_largest(rig.tensors, -1, before, largest, 2), 2);
    assert_int_equal(largest[0].storage, 2);
    assert_int_equal(largest[1].born, born);
    assert_int_equal(largest[1].stage, 0);
    assert_int_equal(tensors_largest(rig.tensors, -1, freed, largest, 2), 1);
    assert_int_equal(tensors_largest(rig.tensors, 0, freed, largest, 2), 0);
    assert_false(tensors_storage(rig.tensors, 1, 0).known); /* not yet */
    assert_int_equal(tensors_storage(rig.tensors, 2, freed).freed, freed);
    end(&rig);
}

static void
texts_and_numbers_that_mean_nothing_are_no_tensors(void **state)
{
    (void)state;
    struct rig rig = begin();
    struct seen_tensor seen[TENSORS_OF_EVENT];
    size_t of;
    static const char *const wrong[] = { "", ": ", "input", "input: float32", "input: float32 [", "input: float32 [1, x]",
        "input: floaty [1]", "input: float32 [-1]", "input: float32 [1] strides [1, 2]", "a = b = c",
        "input: float32 [1,1,1,1,1,1,1,1,1,1]", "input: float32 [99999999999999999999]" };
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++)
        announce(&rig, 0, (int64_t)1 << 60, INT64_MIN, wrong[i]);
    announce(&rig, 0, INT64_MIN, INT64_MAX, "input: float32 [4]");
    announce(&rig, 0, 1, 1, "input: float32 [17592186044416, 17592186044416]");
    size_t at = emit(&rig, KIND_op, PHASE_BEGIN, 0, ARGS(0, INT64_MAX, 5));
    look(&rig, 100);
    size_t count = of_event(&rig, at, seen, &of);
    for (size_t i = 0; i < count; i++) {
        struct tensor_values values;
        tensors_values(rig.tensors, &seen[i], at, &values);
        assert_int_equal(seen_summary(&seen[i], &values, 100).known, 0);
    }
    end(&rig);
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_is_told_before_an_event_on_its_lane_is_what_it_is_about),
        cmocka_unit_test(values_are_those_of_the_latest_snapshots_that_hold_them),
        cmocka_unit_test(of_edges_the_first_and_the_last_are_known_and_a_write_without_a_snapshot_is_told),
        cmocka_unit_test(one_name_on_two_ranks_is_one_tensor_and_a_collective_knows_its_peers_by_its_number),
        cmocka_unit_test(storages_have_extents_names_and_an_end),
        cmocka_unit_test(texts_and_numbers_that_mean_nothing_are_no_tensors),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
