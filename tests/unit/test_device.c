/* Streams keep their order and their clock, races are found without looking at time, memory is handed round. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>
#include "base/vec.h"
#include "device/caching.h"
#include "device/device.h"
#include "device/storage.h"
#include "device/stream.h"
#include "hw/cost.h"
#include "sched/sched.h"
#include "sched/stage.h"
#include "trace/writer.h"

enum { EVENTS = 4096, HOST_US = 1, KERNEL_US = 10 };

/* A run of one body under an executor, and the events that it caused. */
struct rig {
    struct observer    observer;    /* first */
    bool             (*body)(struct task *me, struct rig *rig);
    struct trace_event events[EVENTS];
    size_t             count;
    struct error       error;
    bool               succeeded;
    int                devices;
};

static void
note_event(struct observer *self, struct task *me, const struct trace_event *event, uint64_t seq)
{
    struct rig *rig = (struct rig *)self;
    if (rig->count < EVENTS)
        rig->events[rig->count++] = *event;
}

static bool
run_body(struct task *me, void *argument)
{
    struct rig *rig = argument;
    return devices_ready(me, rig->devices) && rig->body(me, rig);
}

static void
rig_run(struct rig *rig, enum executor_kind executor, int devices, bool (*body)(struct task *me, struct rig *rig))
{
    char              why[256] = "";
    struct cost_model cost;
    memset(rig, 0, sizeof *rig);
    rig->observer.event = note_event;
    rig->devices        = devices;
    rig->body           = body;
    assert_true(cost_preset(&cost, "classroom"));
    struct trace_options trace = { .clock = executor == EXECUTOR_STEPPED ? CLOCK_VIRTUAL_PS : CLOCK_MONOTONIC_NS };
    struct trace_writer *writer = trace_create(&trace, why, sizeof why);
    assert_non_null(writer);
    struct sched_options options = { .executor = executor, .writer = writer, .cost = &cost,
                                     .observer = &rig->observer };
    struct sched *sched = sched_new(&options, why, sizeof why);
    assert_non_null(sched);
    rig->succeeded = sched_run(sched, run_body, rig, &rig->error);
    devices_free(sched);
    sched_free(sched);
    trace_close(writer);
}

static size_t
events_of(const struct rig *rig, enum kind kind, int phase)
{
    size_t found = 0;
    for (size_t i = 0; i < rig->count; i++)
        found += rig->events[i].kind == kind && rig->events[i].phase == phase;
    return found;
}

/* Time in us of the n-th event of a kind and phase, from 0. */
static double
time_of(const struct rig *rig, enum kind kind, int phase, size_t n)
{
    for (size_t i = 0; i < rig->count; i++) {
        if (rig->events[i].kind == kind && rig->events[i].phase == phase && n-- == 0)
            return (double)rig->events[i].time * 1e-6;
    }
    return -1;
}

/* A kernel that writes a number, or copies one. */
struct step { int *to; const int *from; int number; };

static void
step_run(void *context)
{
    struct step *step = context;
    *step->to = step->from != NULL ? *step->from : step->number;
}

static bool
launch(struct task *me, struct stream *stream, const char *what, struct storage *to, struct storage *from, int number)
{
    struct step         step = { to->data, from != NULL ? from->data : NULL, number };
    struct stream_entry entry = { .kind = KIND_kernel, .price = cost_us(KERNEL_US), .effect = step_run,
                                  .context = &step, .context_bytes = sizeof step };
    entry.accesses[entry.access_count++] = (struct access){ to, 0, sizeof(int), true, false, what };
    if (from != NULL)
        entry.accesses[entry.access_count++] = (struct access){ from, 0, sizeof(int), false, false, what };
    return stream_launch(me, stream, &entry);
}

static int
value_of(const struct storage *storage)
{
    return *(const int *)storage->data;
}

static bool
two_kernels(struct task *me, struct rig *rig)
{
    struct stream  *stream = stream_current(me, 0);
    struct storage *a = storage_new(me, 0, sizeof(int)), *b = storage_new(me, 0, sizeof(int));
    assert_non_null(stream);
    assert_true(launch(me, stream, "seven", a, NULL, 7));
    assert_true(launch(me, stream, "copy", b, a, 0));
    assert_int_equal(me->clock, cost_us(2 * HOST_US));
    assert_int_equal(value_of(a), 0);
    sched_advance(me, cost_us(9));
    assert_int_equal(value_of(a), 7);
    assert_int_equal(value_of(b), 0);
    assert_true(stream_synchronize(me, stream));
    assert_int_equal(value_of(b), 7);
    assert_int_equal(me->clock, cost_us(21));
    storage_unref(me, a);
    storage_unref(me, b);
    return true;
}

static void
a_stream_runs_in_order_and_memory_changes_when_the_kernel_ends(void **state)
{
    struct rig *rig = *state;
    rig_run(rig, EXECUTOR_STEPPED, 1, two_kernels);
    assert_true(rig->succeeded);
    assert_int_equal(events_of(rig, KIND_kernel, PHASE_BEGIN), 2);
    assert_true(time_of(rig, KIND_kernel, PHASE_BEGIN, 0) == 1);
    assert_true(time_of(rig, KIND_kernel, PHASE_END, 0) == 11);
    assert_true(time_of(rig, KIND_kernel, PHASE_BEGIN, 1) == 11);
    assert_true(time_of(rig, KIND_kernel, PHASE_END, 1) == 21);
    assert_true(time_of(rig, KIND_stream_synchronize, PHASE_BEGIN, 0) == 11);
    assert_true(time_of(rig, KIND_stream_synchronize, PHASE_END, 0) == 21);
    assert_int_equal(events_of(rig, KIND_memory_alloc, PHASE_INSTANT), 2);
    assert_int_equal(events_of(rig, KIND_memory_free, PHASE_INSTANT), 2);
}

static bool
two_streams(struct task *me, bool waits)
{
    struct stream  *one = stream_current(me, 0), *two = stream_new(me, 0, "side");
    struct storage *a = storage_new(me, 0, sizeof(int)), *b = storage_new(me, 0, sizeof(int));
    struct event   *event = event_new(me);
    assert_non_null(one);
    assert_non_null(two);
    me->line = 11;
    assert_true(launch(me, one, "seven", a, NULL, 7));
    assert_true(stream_record(me, one, event));
    assert_false(event_query(me, event));
    if (waits)
        assert_true(stream_wait_event(me, two, event));
    me->line = 13;
    bool launched = launch(me, two, "copy", b, a, 0);
    bool done = launched && stream_synchronize(me, two);
    if (done) {
        assert_int_equal(value_of(b), 7);
        assert_true(event_query(me, event));
        assert_int_equal(me->clock, cost_us(21));
    }
    event_free(me, event);
    storage_unref(me, a);
    storage_unref(me, b);
    return done;
}

static bool
with_the_wait(struct task *me, struct rig *rig)
{
    return two_streams(me, true);
}

static bool
without_the_wait(struct task *me, struct rig *rig)
{
    return two_streams(me, false);
}

static void
a_wait_orders_two_streams(void **state)
{
    struct rig *rig = *state;
    rig_run(rig, EXECUTOR_STEPPED, 1, with_the_wait);
    assert_true(rig->succeeded);
    assert_int_equal(events_of(rig, KIND_fault_race, PHASE_INSTANT), 0);
    assert_int_equal(events_of(rig, KIND_stream_wait, PHASE_INSTANT), 1);
    assert_true(time_of(rig, KIND_kernel, PHASE_BEGIN, 1) == 11);
}

static void
a_missing_wait_is_a_race_that_names_both_places(void **state)
{
    struct rig *rig = *state;
    rig_run(rig, EXECUTOR_STEPPED, 1, without_the_wait);
    assert_false(rig->succeeded);
    assert_int_equal(rig->error.kind, E_RACE);
    assert_non_null(strstr(rig->error.message, "copy by side (line 13)"));
    assert_non_null(strstr(rig->error.message, "line 13"));
    assert_non_null(strstr(rig->error.message, "seven by device:0 compute"));
    assert_non_null(strstr(rig->error.message, "line 11"));
    assert_int_equal(events_of(rig, KIND_fault_race, PHASE_INSTANT), 1);
}

static bool
reads_too_early(struct task *me, struct rig *rig)
{
    struct stream  *stream = stream_current(me, 0);
    struct storage *a = storage_new(me, 0, sizeof(int));
    struct access   read = { a, 0, sizeof(int), false, false, "read" };
    assert_true(launch(me, stream, "seven", a, NULL, 7));
    bool allowed = storage_access_by_host(me, &read);
    storage_unref(me, a);
    return allowed;
}

static void
a_host_that_does_not_synchronise_races(void **state)
{
    struct rig *rig = *state;
    rig_run(rig, EXECUTOR_STEPPED, 1, reads_too_early);
    assert_false(rig->succeeded);
    assert_int_equal(rig->error.kind, E_RACE);
    assert_non_null(strstr(rig->error.message, "read by"));
}

static bool
writes_behind_readers(struct task *me, struct rig *rig)
{
    struct stream  *one = stream_current(me, 0), *two = stream_new(me, 0, NULL);
    struct storage *a = storage_new(me, 0, sizeof(int)), *b = storage_new(me, 0, sizeof(int));
    assert_true(launch(me, one, "copy", b, a, 0));
    bool allowed = launch(me, two, "seven", a, NULL, 7); /* write after read */
    storage_unref(me, a);
    storage_unref(me, b);
    return allowed;
}

static void
a_write_must_wait_for_readers_too(void **state)
{
    struct rig *rig = *state;
    rig_run(rig, EXECUTOR_STEPPED, 1, writes_behind_readers);
    assert_false(rig->succeeded);
    assert_int_equal(rig->error.kind, E_RACE);
}

static bool
disjoint_writers(struct task *me, struct rig *rig)
{
    struct stream  *one = stream_current(me, 0), *two = stream_new(me, 0, NULL);
    struct storage *a = storage_new(me, 0, 2 * sizeof(int));
    struct stream_entry entry = { .kind = KIND_kernel, .accesses = { { a, 0, 4, true, false, "left" } }, .access_count = 1 };
    assert_true(stream_launch(me, one, &entry));
    entry.accesses[0] = (struct access){ a, 4, 8, true, false, "right" };
    assert_true(stream_launch(me, two, &entry));
    entry.accesses[0] = (struct access){ a, 0, 8, false, false, "both" };
    bool allowed = stream_launch(me, two, &entry);
    storage_unref(me, a);
    return allowed;
}

static void
the_checker_knows_bytes(void **state)
{
    struct rig *rig = *state;
    rig_run(rig, EXECUTOR_STEPPED, 1, disjoint_writers);
    assert_false(rig->succeeded);
    assert_non_null(strstr(rig->error.message, "both"));
    assert_non_null(strstr(rig->error.message, "left"));
}

static bool
gives_a_block_back_before_it_was_used(struct task *me, struct rig *rig)
{
    struct stream  *stream = stream_current(me, 0);
    struct storage *a = storage_new(me, 0, sizeof(int)), *b = storage_new(me, 0, sizeof(int));
    void           *block = a->data;
    assert_true(launch(me, stream, "seven", a, NULL, 7));
    assert_true(launch(me, stream, "copy", b, a, 0));
    assert_int_equal(device_memory(me, 0).allocated, 1024);
    storage_unref(me, a);
    assert_int_equal(device_memory(me, 0).allocated, 512);
    struct storage *c = storage_new(me, 0, sizeof(int));
    assert_ptr_equal(c->data, block);
    assert_true(launch(me, stream, "eight", c, NULL, 8));
    assert_true(stream_synchronize(me, stream));
    assert_int_equal(value_of(b), 7);
    assert_int_equal(value_of(c), 8);
    assert_int_equal(device_memory(me, 0).peak, 1024);
    storage_unref(me, b);
    storage_unref(me, c);
    return true;
}

static void
a_block_is_free_with_its_last_reference_and_used_in_the_order_of_its_stream(void **state)
{
    struct rig *rig = *state;
    rig_run(rig, EXECUTOR_STEPPED, 1, gives_a_block_back_before_it_was_used);
    assert_true(rig->succeeded);
    assert_true(time_of(rig, KIND_memory_free, PHASE_INSTANT, 0) == 2);
}

/* A segment may not go back to the system while something queued uses it, whoever else wants memory. */
static bool
wants_memory_meanwhile(struct task *me, struct rig *rig)
{
    struct stream  *stream = stream_current(me, 0);
    struct storage *a = storage_new(me, 0, sizeof(int));
    assert_true(launch(me, stream, "seven", a, NULL, 7));
    storage_unref(me, a);
    devices_trim(me->sched);
    assert_int_equal(cache_reserved(device_cache(me, 0)), 2 << 20);
    assert_true(device_empty_cache(me)); /* waits */
    assert_int_equal(cache_reserved(device_cache(me, 0)), 0);
    return true;
}

static void
a_segment_stays_while_queued_work_uses_it(void **state)
{
    struct rig *rig = *state;
    rig_run(rig, EXECUTOR_STEPPED, 1, wants_memory_meanwhile);
    assert_true(rig->succeeded);
}

/* The copy on `other` reads block a; `a` goes at once. Recorded, its block is not handed out before that copy ran. */
static bool
records_a_stream(struct task *me, struct rig *rig)
{
    struct stream  *stream = stream_current(me, 0), *other = stream_new(me, 0, NULL);
    struct event   *event = event_new(me);
    struct storage *a = storage_new(me, 0, sizeof(int)), *b = storage_new(me, 0, sizeof(int));
    void           *block = a->data;
    assert_true(launch(me, stream, "seven", a, NULL, 7));
    assert_true(stream_record(me, stream, event) && stream_wait_event(me, other, event));
    assert_true(launch(me, other, "copy", b, a, 0));
    assert_true(storage_record_stream(me, a, other));
    storage_unref(me, a);
    struct storage *c = storage_new(me, 0, sizeof(int));
    assert_ptr_not_equal(c->data, block);
    assert_true(launch(me, stream, "eight", c, NULL, 8));
    assert_true(stream_synchronize(me, other) && stream_synchronize(me, stream));
    assert_int_equal(value_of(b), 7);
    struct storage *d = storage_new(me, 0, sizeof(int));
    assert_ptr_equal(d->data, block);
    storage_unref(me, b);
    storage_unref(me, c);
    storage_unref(me, d);
    event_free(me, event);
    return true;
}

static void
a_recorded_stream_has_run_before_the_block_is_used_again(void **state)
{
    struct rig *rig = *state;
    rig_run(rig, EXECUTOR_STEPPED, 1, records_a_stream);
    assert_true(rig->succeeded);
}

/* The same without telling: the new tensor's kernel may write before the copy has read, so that is a race. */
static bool
forgets_to_record(struct task *me, struct rig *rig)
{
    struct stream  *stream = stream_current(me, 0), *other = stream_new(me, 0, NULL);
    struct event   *event = event_new(me);
    struct storage *a = storage_new(me, 0, 8), *b = storage_new(me, 0, 8);
    assert_true(launch(me, stream, "seven", a, NULL, 7));
    assert_true(stream_record(me, stream, event) && stream_wait_event(me, other, event));
    assert_true(launch(me, other, "copy", b, a, 0));
    storage_unref(me, a);
    struct storage *c = storage_new(me, 0, 8);
    assert_false(launch(me, stream, "eight", c, NULL, 8));
    assert_int_equal(me->error.kind, E_RACE);
    assert_non_null(strstr(me->error.message, "record_stream"));
    task_clear_error(me);
    assert_true(stream_record(me, other, event) && stream_wait_event(me, stream, event));
    assert_true(launch(me, stream, "eight", c, NULL, 8));
    storage_unref(me, b);
    storage_unref(me, c);
    event_free(me, event);
    return true;
}

static void
a_stream_that_was_not_recorded_races_with_the_next_tensor(void **state)
{
    struct rig *rig = *state;
    rig_run(rig, EXECUTOR_STEPPED, 1, forgets_to_record);
    assert_true(rig->succeeded);
}

/* A full device waits for what is queued and gives segments back before it refuses, and then says who holds what. */
static bool
fills_a_device(struct task *me, struct rig *rig)
{
    enum { MIB = 1 << 20 };
    assert_true(device_set_total(me, 0, 40 * MIB));
    assert_int_equal(device_total_memory(me, 0), 40 * MIB);
    me->line = 12;
    struct storage *a = storage_new(me, 0, 20 * MIB), *b = storage_new(me, 0, 20 * MIB);
    storage_unref(me, a);
    me->line = 13;
    a = storage_new(me, 0, 12 * MIB);
    assert_int_equal(cache_reserved(device_cache(me, 0)), 40 * MIB);
    storage_unref(me, a);
    a = storage_new(me, 0, 512);
    assert_non_null(a);
    assert_int_equal(cache_reserved(device_cache(me, 0)), 22 * MIB);
    assert_int_equal(cache_stats(device_cache(me, 0)).retries, 1);
    assert_null(storage_new(me, 0, 30 * MIB));
    assert_int_equal(me->error.kind, E_OUT_OF_MEMORY);
    assert_non_null(strstr(me->error.message, "30.00 MiB were asked for on device:0, which may use 40.00 MiB: "
                           "20.00 MiB are allocated, 22.00 MiB reserved. The block of 30.00 MiB fits into no free one, and needs "
                           "a new segment of 30.00 MiB."));
    assert_non_null(strstr(me->error.message, "\n  20.00 MiB in 1 block: outside of any stage, line 12\n"));
    assert_non_null(strstr(me->error.message, "\n  512 bytes in 1 block: outside of any stage, line 13"));
    task_clear_error(me);
    assert_true(device_set_fraction(me, 0, 0.5));
    assert_null(storage_new(me, 0, 2 * MIB));
    task_clear_error(me);
    assert_false(device_set_fraction(me, 0, 1.5));
    task_clear_error(me);
    storage_unref(me, a);
    storage_unref(me, b);
    return true;
}

static void
a_full_device_says_who_holds_what(void **state)
{
    for (int executor = EXECUTOR_STEPPED; executor <= EXECUTOR_FREE; executor++) {
        struct rig *rig = *state;
        rig_run(rig, (enum executor_kind)executor, 1, fills_a_device);
        assert_true(rig->succeeded);
    }
}

static bool
hands_round(struct task *me, struct rig *rig)
{
    struct storage *a = storage_new(me, 1, 1000);
    assert_int_equal(a->block_bytes, 1024);
    void *block = a->data;
    storage_unref(me, a);
    a = storage_new(me, 1, 900);
    assert_ptr_equal(a->data, block);
    assert_int_equal((uintptr_t)a->data % 64, 0);
    assert_int_equal(a->number, 2);
    storage_unref(me, a);
    assert_null(storage_new(me, 2, 4));
    assert_int_equal(me->error.kind, E_DEVICE);
    task_clear_error(me);
    assert_null(storage_new(me, 0, SIZE_MAX / 2));
    assert_int_equal(me->error.kind, E_OUT_OF_MEMORY);
    task_clear_error(me);
    assert_int_equal(device_memory(me, 1).allocated, 0);
    return true;
}

static void
blocks_are_handed_round(void **state)
{
    struct rig *rig = *state;
    rig_run(rig, EXECUTOR_STEPPED, 2, hands_round);
    assert_true(rig->succeeded);
}

static bool
current_streams(struct task *me, struct rig *rig)
{
    struct stream *default0 = stream_current(me, 0), *default1 = stream_current(me, 1);
    struct stream *side0 = stream_new(me, 0, NULL), *side1 = stream_new(me, 1, NULL);
    assert_true(stream_make_current(me, side0));
    assert_true(stream_make_current(me, side1));
    assert_ptr_equal(stream_current(me, 0), side0);
    assert_ptr_equal(stream_current(me, 1), side1);
    assert_true(stream_make_current(me, default0));
    assert_ptr_equal(stream_current(me, 0), default0);
    assert_ptr_equal(stream_current(me, 1), side1);
    assert_int_equal(stream_device(side1), 1);
    assert_true(stream_make_current(me, default1));
    assert_int_equal(me->slots[SLOT_STREAM], 0);
    assert_null(stream_current(me, DEVICE_CPU));
    task_clear_error(me);
    return true;
}

static void
each_device_has_a_current_stream(void **state)
{
    struct rig *rig = *state;
    rig_run(rig, EXECUTOR_STEPPED, 2, current_streams);
    assert_true(rig->succeeded);
}

/* A chain of waits over three streams, told from the last to the first; the host asks for the last. */
static bool
chained(struct task *me, struct rig *rig)
{
    struct stream  *stream[3] = { stream_current(me, 0), stream_current(me, 1), stream_current(me, 2) };
    struct storage *cell = storage_new(me, 0, sizeof(int));
    struct event   *event = event_new(me);
    for (int i = 0; i < 3; i++) {
        if (i > 0)
            assert_true(stream_wait_event(me, stream[i], event));
        assert_true(launch(me, stream[i], "number", cell, NULL, i + 1));
        assert_true(stream_record(me, stream[i], event));
    }
    assert_true(event_synchronize(me, event));
    assert_int_equal(value_of(cell), 3);
    assert_int_equal(me->clock, cost_us(31));
    assert_true(device_synchronize(me, 0));
    event_free(me, event);
    storage_unref(me, cell);
    return true;
}

static void
the_host_follows_a_chain_of_waits(void **state)
{
    struct rig *rig = *state;
    rig_run(rig, EXECUTOR_STEPPED, 3, chained);
    assert_true(rig->succeeded);
}

static bool
never_recorded(struct task *me, struct rig *rig)
{
    struct stream *stream = stream_current(me, 0);
    struct event  *event = event_new(me);
    bool           done = stream_wait_event(me, stream, event) && event_synchronize(me, event) &&
                          event_query(me, event);
    event_free(me, event);
    return done;
}

static void
an_event_that_was_never_recorded_is_waited_for_by_nobody(void **state)
{
    struct rig *rig = *state;
    rig_run(rig, EXECUTOR_STEPPED, 1, never_recorded);
    assert_true(rig->succeeded);
}

static bool
unfinished(struct task *me, struct rig *rig)
{
    struct storage *a = storage_new(me, 0, sizeof(int));
    bool            done = launch(me, stream_current(me, 0), "seven", a, NULL, 7);
    storage_unref(me, a);
    return done;
}

static void
work_in_flight_at_the_end_is_let_go(void **state)
{
    struct rig *rig = *state;
    rig_run(rig, EXECUTOR_STEPPED, 1, unfinished);
    assert_true(rig->succeeded);
}

static bool
free_body(struct task *me, struct rig *rig)
{
    struct stream  *one = stream_current(me, 0), *two = stream_current(me, 1);
    struct storage *a = storage_new(me, 0, sizeof(int));
    struct event   *event = event_new(me);
    assert_true(launch(me, one, "seven", a, NULL, 7));
    assert_true(stream_record(me, one, event));
    assert_true(stream_wait_event(me, two, event));
    assert_true(event_query(me, event));
    assert_int_equal(value_of(a), 7);
    assert_true(stream_synchronize(me, one));
    event_free(me, event);
    storage_unref(me, a);
    return true;
}

static void
on_threads_work_is_done_inside_the_launch(void **state)
{
    struct rig *rig = *state;
    rig_run(rig, EXECUTOR_FREE, 2, free_body);
    assert_true(rig->succeeded);
}

static int
set_up(void **state)
{
    *state = calloc(1, sizeof(struct rig));
    return *state == NULL;
}

static int
tear_down(void **state)
{
    free(*state);
    return 0;
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_stream_runs_in_order_and_memory_changes_when_the_kernel_ends),
        cmocka_unit_test(a_wait_orders_two_streams),
        cmocka_unit_test(a_missing_wait_is_a_race_that_names_both_places),
        cmocka_unit_test(a_host_that_does_not_synchronise_races),
        cmocka_unit_test(a_write_must_wait_for_readers_too),
        cmocka_unit_test(the_checker_knows_bytes),
        cmocka_unit_test(a_block_is_free_with_its_last_reference_and_used_in_the_order_of_its_stream),
        cmocka_unit_test(a_segment_stays_while_queued_work_uses_it),
        cmocka_unit_test(a_recorded_stream_has_run_before_the_block_is_used_again),
        cmocka_unit_test(a_stream_that_was_not_recorded_races_with_the_next_tensor),
        cmocka_unit_test(a_full_device_says_who_holds_what),
        cmocka_unit_test(blocks_are_handed_round),
        cmocka_unit_test(each_device_has_a_current_stream),
        cmocka_unit_test(the_host_follows_a_chain_of_waits),
        cmocka_unit_test(an_event_that_was_never_recorded_is_waited_for_by_nobody),
        cmocka_unit_test(work_in_flight_at_the_end_is_let_go),
        cmocka_unit_test(on_threads_work_is_done_inside_the_launch),
    };
    return cmocka_run_group_tests(tests, set_up, tear_down);
}
