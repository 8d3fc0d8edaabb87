/* What a device did comes late, in pieces and not always: the lanes of a trace show it in order all the same. The
 * device is a script of records; the trace is read back. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include "device/device.h"
#include "device/timeline.h"
#include "sched/sched.h"
#include "sched/stage.h"
#include "trace/clock.h"
#include "trace/reader.h"
#include "trace/writer.h"

#define TRACE_PATH "/tmp/ringside-test-timeline.trace"
enum { STREAMS = 3, SCRIPT = 3 * TIMELINE_SPANS, MS = 1000000 };

/* The back-end: what `records` hands out, in this order, up to `open`; `take` of them in one call. */
static struct {
    pthread_mutex_t       mutex;
    struct backend_record script[SCRIPT];
    size_t                count, open, next, take;
    uint64_t              lost;
    bool                  finishes;     /* each launch is done at once: its record is added by `launch` */
} device = { .mutex = PTHREAD_MUTEX_INITIALIZER };

static char stream_places[STREAMS];     /* a back-end's streams are addresses to everybody else */

static const struct backend_stream *
stream_at(int index)
{
    return (const struct backend_stream *)(const void *)&stream_places[index];
}

static size_t
scripted_records(struct backend_record *out, size_t room, uint64_t *lost)
{
    pthread_mutex_lock(&device.mutex);
    size_t end = device.open < device.count ? device.open : device.count, count = end - device.next;
    count = count < room ? count : room;
    count = device.take > 0 && count > device.take ? device.take : count;
    memcpy(out, &device.script[device.next], count * sizeof *out);
    device.next += count;
    *lost = device.lost;
    device.lost = 0;
    pthread_mutex_unlock(&device.mutex);
    return count;
}

static const struct device_backend scripted = { .abi = DEVICE_BACKEND_ABI, .size = sizeof scripted, .name = "scripted",
                                                .records = scripted_records };

static void
done(int stream, uint64_t ticket, uint64_t begin, uint64_t end)
{
    pthread_mutex_lock(&device.mutex);
    assert_true(device.count < SCRIPT);
    device.script[device.count++] = (struct backend_record){ ticket, begin, end, stream_at(stream), 1, 1 };
    pthread_mutex_unlock(&device.mutex);
}

/* A run of one body in `free`, with a trace. */
struct rig {
    bool                 (*body)(struct task *me, struct rig *rig);
    struct task           *me;
    struct timeline       *timeline;
    struct timeline_lane  *lanes[STREAMS];
    uint32_t               numbers[STREAMS];
    uint64_t               start;        /* ns of the run's clock */
    struct timeline_counts counts;
    bool                   said, ran;
    char                   text[400];
    struct trace          *trace;
};

static bool
rig_body(struct task *me, void *argument)
{
    struct rig *rig = argument;
    rig->me = me;
    assert_true(devices_ready(me, 0));
    rig->timeline = timeline_new(me, &scripted);
    assert_non_null(rig->timeline);
    for (int i = 0; i < STREAMS; i++) {
        char name[32];
        snprintf(name, sizeof name, "gpu stream %d", i);
        rig->numbers[i] = trace_lane(sched_writer(me->sched), -1, i, LANE_STREAM, name);
        rig->lanes[i] = timeline_lane_new(me, rig->timeline, rig->numbers[i], stream_at(i));
        assert_non_null(rig->lanes[i]);
    }
    struct backend_host host = timeline_host(rig->timeline);
    assert_true(host.timeline);
    rig->start = host.clock(host.run);
    while (host.clock(host.run) < rig->start + MS)
        continue; /* times of the scripts lie in this millisecond */
    rig->ran  = rig->body(me, rig);
    rig->said = timeline_finish(rig->timeline, rig->text, sizeof rig->text);
    rig->counts = timeline_counts(rig->timeline);
    return true;
}

static void
rig_run(struct rig *rig, bool (*body)(struct task *me, struct rig *rig))
{
    char why[256] = "";
    memset(rig, 0, sizeof *rig);
    device.count = device.next = device.take = device.lost = 0;
    device.open = SCRIPT;
    rig->body = body;
    struct trace_options trace = { .path = TRACE_PATH, .clock = trace_wall_clock() };
    struct trace_writer *writer = trace_create(&trace, why, sizeof why);
    assert_non_null(writer);
    struct sched_options options = { .executor = EXECUTOR_FREE, .writer = writer };
    struct sched        *sched = sched_new(&options, why, sizeof why);
    struct error         error;
    assert_non_null(sched);
    assert_true(sched_run(sched, rig_body, rig, &error));
    assert_true(rig->ran);
    timeline_free(rig->timeline);
    devices_free(sched);
    sched_free(sched);
    trace_close(writer);
    rig->trace = trace_open(TRACE_PATH, why, sizeof why);
    unlink(TRACE_PATH);
    if (rig->trace == NULL)
        fail_msg("%s", why);
}

static void
rig_end(struct rig *rig)
{
    trace_release(rig->trace);
}

static uint64_t
launch(struct rig *rig, int stream, int64_t arg)
{
    const struct lane_event what = { .kind = arg % 2 == 0 ? KIND_kernel : KIND_memory_copy, .line = (uint32_t)arg + 1,
                                     .iteration = 7, .rank = stream, .device = stream,
                                     .args = { arg, arg + 1, arg + 2, arg + 3 } };
    return timeline_note(rig->me, rig->lanes[stream], &what);
}

/* Spans of one lane as the reader has them, in its order; each begin is followed by its own end. */
struct seen { uint64_t begin, end; struct trace_event event; };

static size_t
spans_of(const struct rig *rig, int stream, struct seen *out, size_t room)
{
    size_t count = 0;
    bool   open = false;
    for (size_t seq = 0; seq < trace_count(rig->trace); seq++) {
        const struct trace_event *event = trace_event(rig->trace, seq);
        if (event->lane != rig->numbers[stream])
            continue;
        assert_int_equal(event->phase, open ? PHASE_END : PHASE_BEGIN);
        assert_true(count < room);
        if (!open) {
            out[count] = (struct seen){ .begin = event->time, .event = *event };
            assert_true(count == 0 || out[count - 1].end <= event->time);
        } else {
            size_t partner = trace_partner(rig->trace, seq);
            assert_true(partner < seq);
            assert_int_equal(trace_event(rig->trace, partner)->time, out[count].begin);
            assert_memory_equal(event->args, out[count].event.args, sizeof event->args);
            out[count++].end = event->time;
            assert_true(out[count - 1].begin <= event->time);
        }
        open = !open;
    }
    assert_false(open);
    return count;
}

/* Events of the timeline's lanes so far, by what was written: nothing of them is in another buffer. */
static uint64_t
written(const struct rig *rig)
{
    return timeline_counts(rig->timeline).written;
}

/* ---- one lane ---- */

static uint64_t at_begin[4], at_end[4];     /* ticks: what a test expects */

static bool
late_body(struct task *me, struct rig *rig)
{
    uint64_t tickets[3];
    for (int i = 0; i < 3; i++)
        tickets[i] = launch(rig, 0, 10 + i);
    assert_true(tickets[0] > 0 && tickets[0] < tickets[1] && tickets[1] < tickets[2]);
    timeline_collect(rig->timeline);
    assert_int_equal(written(rig), 0);
    for (uint64_t i = 0; i < 3; i++) {
        uint64_t begin = rig->start + 100000 * i, end = begin + 70000;
        at_begin[i] = timeline_ticks(rig->timeline, begin);
        at_end[i]   = timeline_ticks(rig->timeline, end);
        done(0, tickets[i], begin, end);
    }
    timeline_collect(rig->timeline);
    assert_int_equal(written(rig), 2); /* the last one might have more records */
    timeline_passed(rig->lanes[0], timeline_last(rig->lanes[0]));
    timeline_collect(rig->timeline);
    assert_int_equal(written(rig), 3);
    return true;
}

static void
a_launch_is_on_its_lane_with_the_times_that_came_later(void **state)
{
    struct rig  rig;
    struct seen seen[4];
    rig_run(&rig, late_body);
    assert_int_equal(spans_of(&rig, 0, seen, 4), 3);
    for (int i = 0; i < 3; i++) {
        assert_int_equal(seen[i].begin, at_begin[i]);
        assert_int_equal(seen[i].end, at_end[i]);
        assert_int_equal(seen[i].event.kind, i % 2 == 0 ? KIND_kernel : KIND_memory_copy);
        assert_int_equal(seen[i].event.args[0], 10 + i);
        assert_int_equal(seen[i].event.args[3], 13 + i);
        assert_int_equal(seen[i].event.line, 11 + i);
        assert_int_equal(seen[i].event.iteration, 7);
        assert_int_equal(seen[i].event.rank, 0);
        assert_int_equal(seen[i].event.device, 0);
    }
    assert_false(rig.said);
    assert_int_equal(rig.counts.moved, 0);
    assert_int_equal(rig.counts.strange, 0);
    rig_end(&rig);
}

static bool
merged_body(struct task *me, struct rig *rig)
{
    uint64_t first = launch(rig, 1, 2), second = launch(rig, 1, 4), from = rig->start;
    at_begin[0] = timeline_ticks(rig->timeline, from + 1000);
    at_end[0]   = timeline_ticks(rig->timeline, from + 9000);
    done(1, first, from + 4000, from + 6000);
    timeline_collect(rig->timeline);
    done(1, first, from + 1000, from + 3000);
    done(1, first, from + 7000, from + 9000);
    timeline_collect(rig->timeline);
    assert_int_equal(written(rig), 0); /* there could be a fourth */
    done(1, second, from + 10000, from + 11000);
    timeline_collect(rig->timeline);
    assert_int_equal(written(rig), 1);
    return true;
}

static void
several_records_of_one_launch_are_one_span(void **state)
{
    struct rig  rig;
    struct seen seen[4];
    rig_run(&rig, merged_body);
    assert_int_equal(spans_of(&rig, 1, seen, 4), 2);
    assert_int_equal(seen[0].begin, at_begin[0]);
    assert_int_equal(seen[0].end, at_end[0]);
    assert_int_equal(seen[1].event.args[0], 4);
    rig_end(&rig);
}

static bool
backward_body(struct task *me, struct rig *rig)
{
    struct backend_host host = timeline_host(rig->timeline);
    uint64_t            from = rig->start, tickets[4];
    for (int i = 0; i < 4; i++)
        tickets[i] = launch(rig, 0, 2 * i);
    done(0, tickets[0], from + 1000, from + 5000);
    done(0, tickets[1], from + 3000, from + 8000);      /* begins before the last one's end */
    done(0, tickets[2], from + 9000, from + 8500);      /* ends before it begins */
    done(0, tickets[3], from + 10000, host.clock(host.run) + 3600ull * 1000 * MS);  /* ends in an hour */
    timeline_collect(rig->timeline);
    return true;
}

static void
times_that_go_back_or_lie_ahead_give_way(void **state)
{
    struct rig  rig;
    struct seen seen[4];
    uint64_t    before = trace_wall_now(trace_wall_clock());
    rig_run(&rig, backward_body);
    assert_int_equal(spans_of(&rig, 0, seen, 4), 4);
    assert_int_equal(seen[1].begin, seen[0].end);
    assert_true(seen[1].end > seen[1].begin);
    assert_int_equal(seen[2].end, seen[2].begin);
    assert_true(seen[3].end > before && seen[3].end <= trace_wall_now(trace_wall_clock()));
    assert_int_equal(rig.counts.moved, 3);
    rig_end(&rig);
}

/* ---- what gets lost ---- */

static bool
lost_body(struct task *me, struct rig *rig)
{
    uint64_t from = rig->start, tickets[6];
    for (int i = 0; i < 6; i++)
        tickets[i] = launch(rig, 0, 2 * i);
    device.lost = 1;
    done(0, tickets[0], from + 1000, from + 2000);
    done(0, tickets[2], from + 5000, from + 6000);
    timeline_collect(rig->timeline);
    assert_int_equal(written(rig), 1); /* the second one's may be on its way */
    timeline_collect(rig->timeline);
    timeline_collect(rig->timeline);
    assert_int_equal(written(rig), 1); /* nothing came: that proves nothing */
    done(0, tickets[3], from + 7000, from + 8000);
    timeline_collect(rig->timeline);
    done(0, tickets[4], from + 9000, from + 9500);
    timeline_collect(rig->timeline);
    assert_int_equal(written(rig), 3); /* given up: 0, 2 and 3 are there */
    done(0, tickets[1], from + 3000, from + 4000);
    timeline_collect(rig->timeline);
    assert_int_equal(timeline_counts(rig->timeline).strange, 1);
    return true;
}

static void
launches_whose_records_are_lost_are_counted_and_told(void **state)
{
    struct rig  rig;
    struct seen seen[6];
    rig_run(&rig, lost_body);
    assert_int_equal(spans_of(&rig, 0, seen, 6), 4);
    const int64_t left[] = { 0, 4, 6, 8 };
    for (int i = 0; i < 4; i++)
        assert_int_equal(seen[i].event.args[0], left[i]);
    assert_int_equal(rig.counts.without, 2);
    assert_true(rig.said);
    assert_string_equal(rig.text, "the devices' timelines have gaps: of 6 kernels and copies 2 have no times and are "
                                  "not on their lanes (the profiler says that it lost 1 records)");
    rig_end(&rig);
}

static bool
overtaken_body(struct task *me, struct rig *rig)
{
    uint64_t from = rig->start, first = launch(rig, 0, 2), second = launch(rig, 0, 4);
    done(0, second, from + 5000, from + 6000);
    timeline_collect(rig->timeline);
    assert_int_equal(written(rig), 0);
    done(0, first, from + 1000, from + 2000);
    timeline_collect(rig->timeline);
    return true;
}

static void
a_record_that_another_one_overtook_is_waited_for(void **state)
{
    struct rig  rig;
    struct seen seen[4];
    rig_run(&rig, overtaken_body);
    assert_int_equal(spans_of(&rig, 0, seen, 4), 2);
    assert_int_equal(seen[0].event.args[0], 2);
    assert_int_equal(seen[1].event.args[0], 4);
    assert_false(rig.said);
    assert_int_equal(rig.counts.moved, 0);
    rig_end(&rig);
}

static bool
strange_body(struct task *me, struct rig *rig)
{
    uint64_t from = rig->start, ticket = launch(rig, 0, 2);
    done(1, ticket, from + 1, from + 2);                /* another stream's */
    done(0, ticket + 1000, from + 3, from + 4);         /* nobody's */
    device.script[device.count++] = (struct backend_record){ ticket, from, from, NULL, 0, 0 };
    done(0, ticket, from + 5, from + 6);
    timeline_collect(rig->timeline);
    return true;
}

static void
records_of_no_launch_are_left_out(void **state)
{
    struct rig  rig;
    struct seen seen[4];
    rig_run(&rig, strange_body);
    assert_int_equal(spans_of(&rig, 0, seen, 4), 1);
    assert_int_equal(spans_of(&rig, 1, seen, 4), 0);
    assert_int_equal(rig.counts.strange, 3);
    rig_end(&rig);
}

/* ---- many ---- */

static bool
streams_body(struct task *me, struct rig *rig)
{
    enum { EACH = 200 };
    uint64_t tickets[STREAMS][EACH];
    for (int i = 0; i < EACH; i++) {
        for (int stream = 0; stream < STREAMS; stream++)
            tickets[stream][i] = launch(rig, stream, 2 * i);
    }
    device.take = 7;
    for (int stream = STREAMS - 1; stream >= 0; stream--) { /* the last stream's come first */
        for (uint64_t i = 0; i < EACH; i++)
            done(stream, tickets[stream][i], rig->start + 1000 * i + (uint64_t)stream, rig->start + 1000 * i + 900);
    }
    while (device.next < device.count)
        timeline_collect(rig->timeline);
    return true;
}

static void
streams_keep_their_own_order_whatever_comes_first(void **state)
{
    static struct seen seen[200];
    struct rig rig;
    rig_run(&rig, streams_body);
    for (int stream = 0; stream < STREAMS; stream++) {
        assert_int_equal(spans_of(&rig, stream, seen, 200), 200);
        for (int i = 0; i < 200; i++) {
            assert_int_equal(seen[i].event.args[0], 2 * i);
            assert_int_equal(seen[i].event.device, stream);
        }
    }
    assert_int_equal(rig.counts.moved, 0);
    assert_int_equal(rig.counts.without, 0);
    rig_end(&rig);
}

static bool
full_body(struct task *me, struct rig *rig)
{
    for (int i = 0; i < TIMELINE_SPANS; i++)
        assert_true(launch(rig, 0, 2 * i) > 0);
    assert_int_equal(launch(rig, 0, 0), 0);
    assert_int_equal(launch(rig, 0, 0), 0);
    assert_true(launch(rig, 1, 0) > 0);     /* another lane has room */
    return true;
}

static void
a_launch_that_finds_no_room_has_no_ticket_and_is_counted(void **state)
{
    struct rig rig;
    rig_run(&rig, full_body);
    assert_int_equal(rig.counts.without, TIMELINE_SPANS + 3);
    assert_int_equal(rig.counts.written, 0);
    assert_true(rig.said);
    rig_end(&rig);
}

static bool
half_body(struct task *me, struct rig *rig)
{
    uint64_t time = rig->start;
    for (int i = 0; i < 2 * TIMELINE_SPANS; i++) { /* nobody collects but the launches */
        uint64_t ticket = launch(rig, 0, 2 * i);
        assert_true(ticket > 0);
        done(0, ticket, time, time + 10);
        time += 20;
    }
    assert_true(written(rig) >= TIMELINE_SPANS);
    return true;
}

static void
launches_collect_by_themselves_when_half_of_the_room_is_taken(void **state)
{
    static struct seen seen[2 * TIMELINE_SPANS];
    struct rig rig;
    rig_run(&rig, half_body);
    assert_int_equal(spans_of(&rig, 0, seen, 2 * TIMELINE_SPANS), 2 * TIMELINE_SPANS);
    assert_int_equal(seen[2 * TIMELINE_SPANS - 1].event.args[0], 2 * (2 * TIMELINE_SPANS - 1));
    assert_int_equal(rig.counts.without, 0);
    rig_end(&rig);
}

static bool
crowded_body(struct task *me, struct rig *rig)
{
    uint64_t time = rig->start;
    launch(rig, 0, 0);                             /* its record never comes */
    for (int i = 1; i < 2 * TIMELINE_SPANS; i++) { /* all others come in one batch, when there is no room otherwise */
        uint64_t ticket = launch(rig, 0, 2 * i);
        assert_true(ticket > 0);
        device.open = i < TIMELINE_SPANS - 100 ? 0 : SCRIPT;
        done(0, ticket, time, time + 10);
        time += 20;
    }
    return true;
}

static void
a_lost_record_does_not_fill_the_lane(void **state)
{
    struct rig rig;
    rig_run(&rig, crowded_body);
    assert_int_equal(rig.counts.without, 1);
    assert_int_equal(rig.counts.written, 2 * TIMELINE_SPANS - 1);
    rig_end(&rig);
}

/* ---- threads ---- */

enum { THREAD_LAUNCHES = 3000 };

static bool
launcher(struct task *me, void *argument)
{
    struct rig *rig = argument;
    struct rig  mine = *rig;
    int         stream = me->rank;
    mine.me = me;
    for (int i = 0; i < THREAD_LAUNCHES; i++) {
        uint64_t ticket = launch(&mine, stream, 2 * i);
        assert_true(ticket > 0);
        done(stream, ticket, rig->start + (uint64_t)i * 100, rig->start + (uint64_t)i * 100 + 50);
        if (i % 500 == 0) {
            timeline_passed(rig->lanes[stream], timeline_last(rig->lanes[stream]));
            timeline_collect(rig->timeline);
        }
    }
    return true;
}

static bool
threads_body(struct task *me, struct rig *rig)
{
    struct task *tasks[STREAMS];
    for (int i = 0; i < STREAMS; i++) {
        struct task_options options = { .name = "launcher", .rank = i, .device = i };
        tasks[i] = task_spawn(me, &options, launcher, rig);
        assert_non_null(tasks[i]);
    }
    for (int i = 0; i < STREAMS; i++)
        assert_true(task_join(me, tasks[i], NULL));
    return true;
}

static void
threads_launch_and_collect_at_the_same_time(void **state)
{
    static struct seen seen[THREAD_LAUNCHES];
    struct rig rig;
    rig_run(&rig, threads_body);
    for (int stream = 0; stream < STREAMS; stream++) {
        assert_int_equal(spans_of(&rig, stream, seen, THREAD_LAUNCHES), THREAD_LAUNCHES);
        for (int i = 0; i < THREAD_LAUNCHES; i++)
            assert_int_equal(seen[i].event.args[0], 2 * i);
    }
    assert_false(rig.said);
    assert_int_equal(rig.counts.strange, 0);
    rig_end(&rig);
}

/* ---- none ---- */

static bool
off_body(struct task *me, struct rig *rig)
{
    stage_category(me->sched, KIND_kernel, false);
    assert_int_equal(launch(rig, 0, 0), 0);
    assert_true(launch(rig, 0, 1) > 0);
    stage_category(me->sched, KIND_kernel, true);
    assert_int_equal(timeline_note(me, NULL, &(struct lane_event){ .kind = KIND_kernel, .args = { 0, 0, 8 } }), 0);
    assert_int_equal(timeline_note(me, rig->lanes[0], &(struct lane_event){ .kind = KIND_kernel }), 0);
    assert_null(timeline_lane_new(me, NULL, 0, stream_at(0)));
    assert_false(timeline_host(NULL).timeline);
    timeline_passed(NULL, 1);
    timeline_collect(NULL);
    assert_false(timeline_finish(NULL, NULL, 0));
    assert_false(task_failed(me));
    return true;
}

static void
what_is_not_recorded_has_no_ticket(void **state)
{
    struct rig rig;
    rig_run(&rig, off_body);
    assert_int_equal(rig.counts.without, 1);
    rig_end(&rig);
}

static bool
stepped_body(struct task *me, void *argument)
{
    *(bool *)argument = timeline_new(me, &scripted) == NULL && !task_failed(me);
    return true;
}

static void
a_run_on_virtual_time_has_no_timeline(void **state)
{
    char why[256] = "";
    bool none = false;
    struct trace_writer *writer = trace_create(&(struct trace_options){ .clock = CLOCK_VIRTUAL_PS }, why, sizeof why);
    struct sched_options options = { .executor = EXECUTOR_STEPPED, .writer = writer };
    struct sched        *sched = sched_new(&options, why, sizeof why);
    struct error         error;
    assert_true(sched_run(sched, stepped_body, &none, &error));
    assert_true(none);
    devices_free(sched);
    sched_free(sched);
    trace_close(writer);
}

static bool
clock_body(struct task *me, struct rig *rig)
{
    struct backend_host host = timeline_host(rig->timeline);
    for (int i = 0; i < 1000; i++) {
        uint64_t before = trace_wall_now(trace_wall_clock()), ns = host.clock(host.run);
        uint64_t after = trace_wall_now(trace_wall_clock()), ticks = timeline_ticks(rig->timeline, ns);
        uint64_t one = timeline_ticks(rig->timeline, 1) + 1; /* what a rounded nanosecond may be off */
        assert_true(ticks + one >= before && ticks <= after + one);
    }
    return true;
}

static void
the_clock_of_back_ends_is_the_clock_of_the_trace(void **state)
{
    struct rig rig;
    rig_run(&rig, clock_body);
    rig_end(&rig);
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_launch_is_on_its_lane_with_the_times_that_came_later),
        cmocka_unit_test(several_records_of_one_launch_are_one_span),
        cmocka_unit_test(times_that_go_back_or_lie_ahead_give_way),
        cmocka_unit_test(launches_whose_records_are_lost_are_counted_and_told),
        cmocka_unit_test(a_record_that_another_one_overtook_is_waited_for),
        cmocka_unit_test(records_of_no_launch_are_left_out),
        cmocka_unit_test(streams_keep_their_own_order_whatever_comes_first),
        cmocka_unit_test(a_launch_that_finds_no_room_has_no_ticket_and_is_counted),
        cmocka_unit_test(launches_collect_by_themselves_when_half_of_the_room_is_taken),
        cmocka_unit_test(a_lost_record_does_not_fill_the_lane),
        cmocka_unit_test(threads_launch_and_collect_at_the_same_time),
        cmocka_unit_test(what_is_not_recorded_has_no_ticket),
        cmocka_unit_test(a_run_on_virtual_time_has_no_timeline),
        cmocka_unit_test(the_clock_of_back_ends_is_the_clock_of_the_trace),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
