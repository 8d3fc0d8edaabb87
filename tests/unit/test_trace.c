/* The trace file: what is written is read again, also from a file that is cut anywhere, damaged anywhere, still
 * growing, or on a disk that is full. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <jansson.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include "analysis/state.h"
#include "base/dtype.h"
#include "base/rng.h"
#include "base/str.h"
#include "trace/clock.h"
#include "trace/reader.h"
#include "trace/schema.h"
#include "trace/writer.h"

enum { SMALL_EVENTS = 60, FLIPS = 5000 };

static struct trace_writer *
create(const char *path, enum trace_clock clock, bool prepare)
{
    char why[200] = "";
    const struct trace_options options = { .path = path, .clock = clock, .prepare = prepare };
    struct trace_writer *writer = trace_create(&options, why, sizeof why);
    if (writer == NULL)
        fail_msg("%s", why);
    return writer;
}

static struct trace *
open_trace(const char *path)
{
    char why[200] = "";
    struct trace *trace = trace_open(path, why, sizeof why);
    if (trace == NULL)
        fail_msg("%s", why);
    return trace;
}

static void
append(struct trace_buffer *buffer, enum kind kind, enum trace_phase phase, uint64_t time, int64_t arg)
{
    const struct trace_event event = { .time = time, .args = { arg, 1, 2, 3 }, .kind = kind, .phase = phase,
                                       .rank = -1, .device = -1 };
    trace_append(buffer, &event);
}

/* A little of everything. */
static void
write_small_trace(const char *path)
{
    struct trace_writer *writer = create(path, CLOCK_VIRTUAL_PS, false);
    trace_option(writer, "seed", "1");
    trace_option(writer, "seed", "7");
    trace_option(writer, STORY_PART "op", "scene");
    trace_option(writer, STORY_TELL "op", "An op ran.");
    trace_source(writer, "lessons/01.lua", "local rs = require \"ringside\"\n");
    uint32_t host = trace_lane(writer, 0, -1, LANE_HOST, "r0 main");
    uint32_t stream = trace_lane(writer, 0, 1, LANE_STREAM, "dev1 stream");
    uint32_t add = trace_text(writer, "add");
    assert_int_equal(trace_text(writer, "add"), add);
    const float elements[] = { 1, 2, 3, 4, 5, 6 };
    uint32_t snapshot = trace_snapshot(writer, &(struct trace_snapshot){ DTYPE_F32, 2, { 2, 3 }, elements,
                                                                         sizeof elements });

    const signed char bytes[] = { -128, 127, -1 };
    trace_snapshot(writer, &(struct trace_snapshot){ DTYPE_I8, 1, { 3 }, bytes, sizeof bytes });

    struct trace_buffer *buffer = trace_buffer_new(writer);
    for (uint32_t i = 0; i < SMALL_EVENTS; i += 3) {
        struct trace_event event = { .time = 1000 * i, .args = { add, i, 100 + i, 0 }, .iteration = i, .lane = host,
                                     .kind = KIND_op, .phase = PHASE_BEGIN, .device = -1, .line = 12, .flow = i + 1 };
        trace_append(buffer, &event);
        event.time += 100;
        event.phase = PHASE_END;
        event.flow = 0;
        trace_append(buffer, &event);
        event.kind = KIND_memory_snapshot;
        event.phase = PHASE_INSTANT;
        event.lane = stream;
        event.device = 1;
        event.flow = i + 1;
        event.args[0] = 5;
        event.args[1] = snapshot;
        trace_append(buffer, &event);
    }
    trace_buffer_free(buffer);
    trace_close(writer);
}

static void
what_is_written_is_read_again(void **state)
{
    const char *path = "/tmp/ringside-test-round.trace", *name;
    write_small_trace(path);
    struct trace *trace = open_trace(path);
    assert_string_equal(trace_note(trace), "");
    assert_int_equal(trace_count(trace), SMALL_EVENTS);
    assert_true(trace_is_virtual(trace));
    assert_string_equal(trace_option_of(trace, "seed"), "7");
    assert_string_equal(trace_option_of(trace, "none"), "");
    static const char *const options[][2] = { { "seed", "1" }, { "seed", "7" }, { "story:op", "scene" },
                                              { "tell:op", "An op ran." } };
    const char *key = NULL, *value = NULL;
    for (size_t i = 0; i < sizeof options / sizeof *options; i++) {
        assert_true(trace_option_at(trace, i, &key, &value));
        assert_string_equal(key, options[i][0]);
        assert_string_equal(value, options[i][1]);
    }
    assert_false(trace_option_at(trace, sizeof options / sizeof *options, &key, &value));
    assert_non_null(strstr(trace_source_text(trace, &name), "require"));
    assert_string_equal(name, "lessons/01.lua");
    assert_int_equal(trace_lanes(trace), 2);
    assert_string_equal(trace_lane_at(trace, 1)->name, "dev1 stream");
    assert_int_equal(trace_lane_at(trace, 1)->device, 1);
    assert_string_equal(trace_lane_at(trace, 99)->name, "?");
    assert_int_equal(trace_kinds(trace), KIND_COUNT);
    assert_int_equal(trace_kind_id(trace, "op"), KIND_op);
    assert_int_equal(trace_kind_id(trace, "no.such"), -1);
    const struct trace_kind *op = trace_kind(trace, KIND_op);
    assert_string_equal(op->function, kind_table[KIND_op].function);
    assert_int_equal(op->arg_count, 3);
    assert_string_equal(op->arg_name[0], "op");
    assert_string_equal(op->arg_type[0], "text");
    assert_string_equal(op->arg_name[2], "bytes");

    struct trace_snapshot snapshot;
    assert_true(trace_snapshot_at(trace, 1, &snapshot));
    assert_int_equal(snapshot.dims, 2);
    assert_int_equal(snapshot.sizes[1], 3);
    assert_int_equal(snapshot.bytes, 24);
    assert_true(trace_snapshot_at(trace, 2, &snapshot));
    assert_int_equal(snapshot.bytes, 3);
    assert_true(dtype_fraction((enum dtype)snapshot.dtype, snapshot.elements) == -128);
    assert_false(trace_snapshot_at(trace, 3, &snapshot));

    const struct trace_event *event = trace_event(trace, 3);
    assert_int_equal(event->args[1], 3);
    assert_int_equal(trace_time(trace, 3), 3000);
    assert_null(trace_event(trace, SMALL_EVENTS));
    assert_int_equal(trace_partner(trace, 3), 4);
    assert_int_equal(trace_partner(trace, 4), 3);
    assert_int_equal(trace_partner(trace, 5), SIZE_MAX);
    assert_int_equal(trace_flow_end(trace, 3), 5);
    assert_int_equal(trace_flow_end(trace, 5), 3);
    assert_int_equal(trace_flow_end(trace, 4), SIZE_MAX);
    trace_release(trace);
    unlink(path);
}

static void
the_same_calls_write_the_same_bytes(void **state)
{
    const char *paths[] = { "/tmp/ringside-test-a.trace", "/tmp/ringside-test-b.trace" };
    char *bytes[2];
    long size[2];
    for (int i = 0; i < 2; i++) {
        write_small_trace(paths[i]);
        FILE *file = fopen(paths[i], "rb");
        assert_non_null(file);
        fseek(file, 0, SEEK_END);
        size[i] = ftell(file);
        rewind(file);
        bytes[i] = malloc((size_t)size[i]);
        assert_int_equal(fread(bytes[i], 1, (size_t)size[i], file), size[i]);
        fclose(file);
        unlink(paths[i]);
    }
    assert_int_equal(size[0], size[1]);
    assert_memory_equal(bytes[0], bytes[1], (size_t)size[0]);
    free(bytes[0]);
    free(bytes[1]);
}

static void
an_event_reads_as_a_line_and_as_json(void **state)
{
    const char *path = "/tmp/ringside-test-print.trace";
    write_small_trace(path);
    struct trace *trace = open_trace(path);
    struct str line = { 0 };
    trace_print_event(trace, 5, &line);
    assert_int_equal(strncmp(str_text(&line), "5 memory.snapshot instant r0 dev1 3.1 ns storage=5 snapshot=1 bytes=103",
                             71), 0);
    str_clear(&line);
    trace_print_json(trace, 3, &line);
    json_error_t error;
    json_t *json = json_loads(str_text(&line), 0, &error);
    if (json == NULL)
        fail_msg("%s: %s", error.text, str_text(&line));
    assert_int_equal(json_integer_value(json_object_get(json, "seq")), 3);
    assert_int_equal(json_integer_value(json_object_get(json, "t")), 3);
    assert_string_equal(json_string_value(json_object_get(json, "phase")), "begin");
    assert_string_equal(json_string_value(json_object_get(json, "kind")), "op");
    assert_int_equal(json_integer_value(json_object_get(json, "rank")), 0);
    assert_true(json_is_null(json_object_get(json, "device")));
    assert_string_equal(json_string_value(json_object_get(json, "lane")), "r0 main");
    assert_string_equal(json_string_value(json_object_get(json_object_get(json, "args"), "op")), "add");
    assert_string_equal(json_string_value(json_object_get(json_object_get(json, "place"), "pytorch")),
                        "c10::Dispatcher::call");
    assert_int_equal(json_integer_value(json_object_get(json_object_get(json, "place"), "lesson_line")), 12);
    json_decref(json);
    str_free(&line);
    trace_release(trace);
    unlink(path);
}

static void
times_read_well(void **state)
{
    static const struct { uint64_t ps; const char *text; } cases[] = {
        { 0, "0 ns" }, { 1, "0.001 ns" }, { 500, "0.5 ns" }, { 150000, "150 ns" }, { 60004800, "60.0048 us" },
        { 1204000000, "1.204 ms" }, { 999999960, "1 ms" }, { 999999940, "999.9999 us" }, { 1000000000000, "1 s" },
        { 90000000000000, "90 s" }, { 1000000, "1 us" }, { 999999, "999.999 ns" }, { 12345678, "12.3457 us" },
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct str text = { 0 };
        trace_print_time(cases[i].ps, &text);
        assert_string_equal(str_text(&text), cases[i].text);
        str_free(&text);
    }
}

/* ---- cut, damaged ---- */

/* Asks everything there is to ask. */
static void
walk(struct trace *trace)
{
    struct str out = { 0 };
    struct trace_snapshot snapshot;
    for (size_t seq = 0; seq < trace_count(trace); seq++) {
        const struct trace_event *event = trace_event(trace, seq);
        assert_true(event->lane < trace_lanes(trace) && event->kind < trace_kinds(trace));
        str_clear(&out);
        trace_print_event(trace, seq, &out);
        trace_print_json(trace, seq, &out);
        trace_partner(trace, seq);
        trace_flow_end(trace, seq);
        trace_snapshot_at(trace, event->args[1], &snapshot);
    }
    struct state *state = state_new(trace);
    assert_non_null(state);
    if (trace_count(trace) > 0) {
        assert_true(state_seek(state, trace_count(trace) - 1));
        assert_true(state_seek(state, 0));
    }
    state_free(state);
    for (size_t kind = 0; kind < trace_kinds(trace); kind++)
        assert_non_null(trace_kind(trace, (unsigned)kind)->name);
    trace_option_of(trace, "seed");
    str_free(&out);
}

/* The small trace in memory that can be cut and changed at will. */
static int
small_trace_fd(size_t *size)
{
    const char *path = "/tmp/ringside-test-small.trace";
    write_small_trace(path);
    FILE *file = fopen(path, "rb");
    assert_non_null(file);
    int fd = memfd_create("cut", 0);
    char block[4096];
    size_t got;
    *size = 0;
    while ((got = fread(block, 1, sizeof block, file)) > 0) {
        assert_int_equal(write(fd, block, got), (ssize_t)got);
        *size += got;
    }
    fclose(file);
    unlink(path);
    return fd;
}

static void
open_cut(int fd, size_t size)
{
    char why[200];
    assert_int_equal(ftruncate(fd, (off_t)size), 0);
    struct trace *trace = trace_open_fd(fd, why, sizeof why);
    if (size < 16) {
        assert_null(trace);
        return;
    }
    assert_non_null(trace);
    size_t events_at = TRACE_PAGE + TRACE_CHUNK + sizeof(struct chunk_head);
    size_t whole = size > events_at ? (size - events_at) / sizeof(struct trace_event) : 0;
    assert_int_equal(trace_count(trace), whole);
    if (whole < SMALL_EVENTS)
        assert_int_equal(strncmp(trace_note(trace), "cut short", 9), 0);
    for (size_t seq = 0; seq < whole; seq++)
        assert_int_equal(trace_event(trace, seq)->iteration, seq / 3 * 3);
    if (whole % 8 == 1 || (whole == 0 && size % 4096 == 0))
        walk(trace);
    trace_release(trace);
}

static void
a_file_cut_anywhere_holds_all_whole_events(void **state)
{
    size_t size;
    int fd = small_trace_fd(&size);
    for (size_t at = size / 64 * 64; at > 0; at -= 64)
        open_cut(fd, at);
    open_cut(fd, 17);
    open_cut(fd, 3);
    open_cut(fd, 0);
    close(fd);
    fd = small_trace_fd(&size);
    uint64_t random = 5;
    for (int i = 0; i < 200; i++) {
        size_t less = splitmix(&random) % 100;
        size = size > less ? size - less : 0;
        open_cut(fd, size);
    }
    close(fd);
}

static void
a_damaged_file_never_crashes_the_reader(void **state)
{
    size_t size;
    int fd = small_trace_fd(&size), opened = 0;
    unsigned char *bytes = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    assert_true(bytes != MAP_FAILED);
    const size_t events = TRACE_PAGE + TRACE_CHUNK;
    const struct { size_t from, to; } regions[] = {
        { 0, sizeof(struct trace_head) }, { TRACE_PAGE, TRACE_PAGE + 1024 }, { TRACE_PAGE, events }, { events, size },
    };
    uint64_t random = 3;
    for (int i = 0; i < FLIPS; i++) {
        size_t at[6];
        unsigned char bit[6];
        size_t flips = 1 + splitmix(&random) % 6, region = splitmix(&random) % 4;
        for (size_t k = 0; k < flips; k++) {
            at[k] = regions[region].from + splitmix(&random) % (regions[region].to - regions[region].from);
            bit[k] = (unsigned char)(1u << splitmix(&random) % 8);
            bytes[at[k]] ^= bit[k];
        }
        char why[200] = "";
        struct trace *trace = trace_open_fd(fd, why, sizeof why);
        if (trace != NULL) {
            opened++;
            walk(trace);
            trace_release(trace);
        } else {
            assert_true(why[0] != '\0');
        }
        for (size_t k = 0; k < flips; k++)
            bytes[at[k]] ^= bit[k];
    }
    assert_true(opened > FLIPS / 2);
    munmap(bytes, size);
    close(fd);
}

static void
what_is_no_trace_is_told(void **state)
{
    char why[200];
    assert_null(trace_open("/tmp", why, sizeof why));
    assert_string_equal(why, "/tmp: is a folder");
    assert_null(trace_open("/dev/null", why, sizeof why));
    assert_string_equal(why, "/dev/null: not a Ringside trace");
    assert_null(trace_open("/tmp/there-is-no-such-file", why, sizeof why));
    assert_string_equal(why, "/tmp/there-is-no-such-file: No such file or directory");
    const struct trace_options options = { .path = "/no-such-folder/x.trace" };
    assert_null(trace_create(&options, why, sizeof why));
    assert_string_equal(why, "cannot create /no-such-folder/x.trace: No such file or directory");
}

/* ---- growing, several writers ---- */

static void
a_growing_trace_is_followed(void **state)
{
    char why[200];
    struct trace_writer *writer = create(NULL, CLOCK_VIRTUAL_PS, false);
    trace_lane(writer, -1, -1, LANE_HOST, "main");
    struct trace *trace = trace_open_fd(trace_fd(writer), why, sizeof why);
    assert_non_null(trace);
    assert_int_equal(trace_count(trace), 0);
    struct trace_buffer *buffer = trace_buffer_new(writer);
    size_t written = 0;
    for (int round = 0; round < 40; round++) {
        for (int i = 0; i < 500; i++, written++)
            append(buffer, KIND_op, written % 2 == 0 ? PHASE_BEGIN : PHASE_END, written, (int64_t)written);
        assert_true(trace_refresh(trace));
        assert_false(trace_refresh(trace));
        assert_int_equal(trace_count(trace), written);
        assert_int_equal(trace_event(trace, written - 1)->args[0], written - 1);
        assert_int_equal(trace_partner(trace, written - 1), written - 2);
    }
    assert_int_equal(strncmp(trace_note(trace), "cut short", 9), 0);
    trace_lane(writer, 3, 4, LANE_COMM, "late");
    append(buffer, KIND_op, PHASE_BEGIN, written, 0);
    trace_buffer_free(buffer);
    trace_close(writer);
    assert_true(trace_refresh(trace));
    assert_false(trace_refresh(trace));
    assert_int_equal(trace_count(trace), written + 1);
    assert_string_equal(trace_note(trace), "");
    assert_int_equal(trace_lanes(trace), 2);
    assert_int_equal(trace_order_version(trace), 0);
    for (size_t seq = 0; seq < written; seq++)
        assert_int_equal(trace_event(trace, seq)->args[0], seq);
    trace_release(trace);
}

static void
two_writers_become_one_order(void **state)
{
    char why[200];
    struct trace_writer *writer = create(NULL, CLOCK_MONOTONIC_NS, false);
    trace_lane(writer, -1, -1, LANE_HOST, "main");
    struct trace_buffer *a = trace_buffer_new(writer), *b = trace_buffer_new(writer);
    struct trace *trace = trace_open_fd(trace_fd(writer), why, sizeof why);
    uint64_t base = trace_wall_now(CLOCK_MONOTONIC_NS), random = 9, time_a = base, time_b = base;
    const int each = 10000;
    for (int i = 0; i < each; i++) {
        append(a, KIND_task_end, PHASE_INSTANT, time_a += splitmix(&random) % 5, i);
        append(b, KIND_task_end, PHASE_INSTANT, time_b += splitmix(&random) % 5, i);
        if (i % 1000 == 0)
            trace_refresh(trace);
    }
    append(a, KIND_task_end, PHASE_INSTANT, time_a + 100000, each);
    trace_refresh(trace);
    uint64_t version = trace_order_version(trace);
    append(b, KIND_task_end, PHASE_INSTANT, time_b, each);
    assert_true(trace_refresh(trace));
    assert_true(trace_order_version(trace) > version);
    trace_close(writer);
    trace_refresh(trace);
    assert_int_equal(trace_count(trace), 2 * each + 2);
    for (size_t seq = 1; seq < trace_count(trace); seq++)
        assert_true(trace_time(trace, seq - 1) <= trace_time(trace, seq));
    assert_int_equal(trace_event(trace, trace_count(trace) - 1)->args[0], each);
    assert_true(trace_time(trace, trace_count(trace) - 1) >= 100000000);
    trace_release(trace);
}

static void
a_buffer_given_back_is_used_again(void **state)
{
    struct trace_writer *writer = create(NULL, CLOCK_VIRTUAL_PS, false);
    struct trace_buffer *buffer = trace_buffer_new(writer);
    append(buffer, KIND_task_end, PHASE_INSTANT, 1, 0);
    trace_buffer_free(buffer);
    assert_ptr_equal(trace_buffer_new(writer), buffer);
    trace_close(writer);
}

static void
a_preparing_thread_stays_ahead(void **state)
{
    const char *path = "/tmp/ringside-test-prepare.trace";
    enum trace_clock clock = trace_wall_clock();
    struct trace_writer *writer = create(path, clock, true);
    trace_lane(writer, -1, -1, LANE_HOST, "main");
    struct trace_buffer *buffers[3];
    for (int k = 0; k < 3; k++)
        buffers[k] = trace_buffer_new(writer);
    const int each = 30000;
    for (int i = 0; i < each; i++) {
        for (int k = 0; k < 3; k++)
            append(buffers[k], KIND_task_end, PHASE_INSTANT, trace_wall_now(clock), i);
    }
    assert_null(trace_warning(writer));
    trace_close(writer);
    struct trace *trace = open_trace(path);
    assert_string_equal(trace_note(trace), "");
    assert_int_equal(trace_count(trace), 3 * each);
    for (size_t seq = 1; seq < trace_count(trace); seq++)
        assert_true(trace_time(trace, seq - 1) <= trace_time(trace, seq));
    trace_release(trace);
    unlink(path);
}

static void
a_full_disk_ends_the_trace_not_the_run(void **state)
{
    const char *path = "/tmp/ringside-test-full.trace";
    struct rlimit before, limit;
    getrlimit(RLIMIT_FSIZE, &before);
    limit = before;
    limit.rlim_cur = 2 << 20;
    signal(SIGXFSZ, SIG_IGN);
    setrlimit(RLIMIT_FSIZE, &limit);
    struct trace_writer *writer = create(path, CLOCK_VIRTUAL_PS, false);
    trace_lane(writer, -1, -1, LANE_HOST, "main");
    struct trace_buffer *buffer = trace_buffer_new(writer);
    assert_null(trace_warning(writer));
    for (uint64_t i = 0; i < 100000; i++)
        append(buffer, KIND_task_end, PHASE_INSTANT, i, (int64_t)i);
    setrlimit(RLIMIT_FSIZE, &before);

    uint64_t lost = trace_lost(writer);
    assert_true(lost > 0 && lost < 100000);
    char expected[160];
    snprintf(expected, sizeof expected, "the disk is full: the trace ends at event %d, the run goes on",
             (int)(100000 - lost));
    assert_string_equal(trace_warning(writer), expected);
    assert_null(trace_warning(writer));
    trace_close(writer);
    struct trace *trace = open_trace(path);
    assert_int_equal(trace_count(trace), 100000 - lost);
    assert_int_equal(strncmp(trace_note(trace), "cut short: the disk was full", 28), 0);
    trace_release(trace);
    unlink(path);
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_is_written_is_read_again),
        cmocka_unit_test(the_same_calls_write_the_same_bytes),
        cmocka_unit_test(an_event_reads_as_a_line_and_as_json),
        cmocka_unit_test(times_read_well),
        cmocka_unit_test(a_file_cut_anywhere_holds_all_whole_events),
        cmocka_unit_test(a_damaged_file_never_crashes_the_reader),
        cmocka_unit_test(what_is_no_trace_is_told),
        cmocka_unit_test(a_growing_trace_is_followed),
        cmocka_unit_test(two_writers_become_one_order),
        cmocka_unit_test(a_buffer_given_back_is_used_again),
        cmocka_unit_test(a_preparing_thread_stays_ahead),
        cmocka_unit_test(a_full_disk_ends_the_trace_not_the_run),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
