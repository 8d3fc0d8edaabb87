/* Quantities over time: what they hold, what they forget, and that they grow alike in slices of any size. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "analysis/quantities.h"
#include "trace/reader.h"
#include "trace/schema.h"
#include "trace/writer.h"

struct rig {
    struct trace_writer *writer;
    struct trace_buffer *buffer;
    struct trace        *trace;
    struct quantities       *quantities;
};

static struct rig
begin(void)
{
    char why[200];
    const struct trace_options options = { .clock = CLOCK_VIRTUAL_PS };
    struct rig rig = { .writer = trace_create(&options, why, sizeof why) };
    assert_non_null(rig.writer);
    rig.buffer = trace_buffer_new(rig.writer);
    trace_lane(rig.writer, 0, 0, LANE_HOST, "r0 main");
    return rig;
}

static void
emit(struct rig *rig, uint64_t time, struct trace_event event)
{
    event.time = time;
    if (event.phase == 0)
        event.phase = PHASE_INSTANT;
    assert_true(trace_append(rig->buffer, &event));
}

static void
allocated(struct rig *rig, uint64_t time, int device, int64_t now)
{
    emit(rig, time, (struct trace_event){ .kind = KIND_memory_alloc, .device = (int16_t)device,
                                          .args = { 1, 4, 4, now } });
}

static void
look(struct rig *rig, size_t slice)
{
    char why[200];
    rig->trace = trace_open_live(rig->writer, why, sizeof why);
    assert_non_null(rig->trace);
    rig->quantities = quantities_new(rig->trace);
    assert_non_null(rig->quantities);
    while (quantities_grow(rig->quantities, slice))
        assert_true(quantities_seen(rig->quantities) % slice == 0);
    assert_int_equal(quantities_seen(rig->quantities), trace_count(rig->trace));
}

static void
end(struct rig *rig)
{
    quantities_free(rig->quantities);
    trace_release(rig->trace);
    trace_close(rig->writer);
}

static void
memory_is_what_the_events_say_was_allocated(void **state)
{
    (void)state;
    struct rig rig = begin();
    allocated(&rig, 10, 0, 512);
    allocated(&rig, 20, 1, 99);
    allocated(&rig, 30, 0, 2048);
    emit(&rig, 40, (struct trace_event){ .kind = KIND_memory_free, .device = 0, .args = { 1, 4, 4, 1024 } });
    look(&rig, 1);
    const struct quantity *quantity = quantities_find(rig.quantities, QUANTITY_MEMORY, 0);
    assert_non_null(quantity);
    struct quantity_span all = quantity_over(quantity, 0, 100);
    assert_int_equal(all.first, 0);
    assert_int_equal(all.most, 2048);
    assert_int_equal(all.last, 1024);
    struct quantity_span between = quantity_over(quantity, 15, 30);
    assert_int_equal(between.most, 512);
    assert_false(between.changed);
    assert_int_equal(quantity_over(quantity, 30, 31).last, 2048);
    assert_int_equal(quantity_over(quantity, 0, 10).most, 0);
    assert_int_equal(quantity->most_seq, 2);
    assert_int_equal(quantity_over(quantities_find(rig.quantities, QUANTITY_MEMORY, 1), 0, 100).last, 99);
    assert_null(quantities_find(rig.quantities, QUANTITY_MEMORY, -1));
    assert_int_equal(quantities_count(rig.quantities), 2);
    end(&rig);
}

static void
a_queue_counts_collectives_from_issue_to_end_and_bytes_are_in_flight_while_a_hop_lasts(void **state)
{
    (void)state;
    struct rig rig = begin();
    emit(&rig, 1, (struct trace_event){ .kind = KIND_c10d_issue, .rank = 3, .args = { 0, 7, 64 } });
    emit(&rig, 2, (struct trace_event){ .kind = KIND_c10d_issue, .rank = 3, .args = { 0, 8, 64 } });
    emit(&rig, 3, (struct trace_event){ .kind = KIND_c10d_allreduce, .rank = 3, .args = { 7 }, .phase = PHASE_BEGIN });
    emit(&rig, 4, (struct trace_event){ .kind = KIND_comm_hop, .rank = 3, .args = { 0, 32 }, .phase = PHASE_BEGIN });
    emit(&rig, 5, (struct trace_event){ .kind = KIND_comm_hop, .rank = 3, .args = { 0, 32 }, .phase = PHASE_END });
    emit(&rig, 6, (struct trace_event){ .kind = KIND_c10d_allreduce, .rank = 3, .args = { 7 }, .phase = PHASE_END });
    look(&rig, 2);
    const struct quantity *queue = quantities_find(rig.quantities, QUANTITY_QUEUE, 3);
    assert_int_equal(quantity_over(queue, 0, 9).most, 2);
    assert_int_equal(quantity_over(queue, 0, 9).last, 1);
    const struct quantity *flight = quantities_find(rig.quantities, QUANTITY_FLIGHT, 3);
    assert_int_equal(quantity_over(flight, 4, 5).last, 32);
    assert_int_equal(quantity_over(flight, 5, 9).last, 0);
    end(&rig);
}

static void
a_long_one_is_bounded_and_loses_no_peak(void **state)
{
    (void)state;
    struct rig rig = begin();
    enum { MANY = 5 * QUANTITY_STEPS };
    for (uint64_t i = 0; i < MANY; i++)
        allocated(&rig, 10 * i, 0, i == 12345 ? 1000000 : (int64_t)(i % 100));
    look(&rig, 777);
    const struct quantity *quantity = quantities_find(rig.quantities, QUANTITY_MEMORY, 0);
    assert_true(quantity->count <= QUANTITY_STEPS);
    assert_int_equal(quantity->most, 1000000);
    assert_int_equal(quantity->most_seq, 12345);
    assert_int_equal(quantity_over(quantity, 0, 10 * (uint64_t)MANY).most, 1000000);
    assert_int_equal(quantity_over(quantity, 0, 10 * (uint64_t)MANY).last, (MANY - 1) % 100);
    assert_int_equal(quantity_over(quantity, 123000, 124000).most, 1000000);
    end(&rig);
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(memory_is_what_the_events_say_was_allocated),
        cmocka_unit_test(a_queue_counts_collectives_from_issue_to_end_and_bytes_are_in_flight_while_a_hop_lasts),
        cmocka_unit_test(a_long_one_is_bounded_and_loses_no_peak),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
