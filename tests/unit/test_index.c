/* A trace arranged by lane: its answers beside those of a walk over all events, its file, and files that are not its. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
#include <cmocka.h>
#include "analysis/index_internal.h"
#include "base/rng.h"
#include "trace/reader.h"
#include "trace/schema.h"
#include "trace/writer.h"

enum { LANES = 5, DEEPEST = 30 };

struct scene {
    char                 folder[64], path[400];
    struct trace_writer *writer;
    struct trace_buffer *buffer;
    struct trace        *trace;
    uint64_t             random, now;
    uint32_t             flow;
    int                  depth[LANES];
    uint16_t             open[LANES][DEEPEST];
};

static uint64_t
dice(struct scene *scene, uint64_t sides)
{
    return splitmix(&scene->random) % sides;
}

static void
put(struct scene *scene, int phase, int kind, uint32_t lane, uint32_t flow)
{
    struct trace_event event = { .time = scene->now, .args = { 1, (int64_t)dice(scene, 2) }, .flow = flow, .lane = lane,
                                 .iteration = (uint32_t)(scene->now / 3000000), .rank = -1, .device = -1,
                                 .phase = (uint8_t)phase, .kind = (uint16_t)kind };
    assert_true(trace_append(scene->buffer, &event));
}

/* Stages of all lengths in stages, some so deep that they have no level, ends that are missing or too many, marks,
 * faults, locks, flows that are never received. */
static void
put_random(struct scene *scene, int events)
{
    static const int stages[] = { KIND_dp_forward, KIND_op, KIND_autograd_node, KIND_lock_wait, KIND_kernel,
                                  KIND_optim_step, KIND_dp_scatter, KIND_lock_hold };
    static const int points[] = { KIND_memory_alloc, KIND_lesson_say, KIND_lesson_check, KIND_stream_record };
    static const uint64_t decades[] = { 1, 3000, 90000, 2000000 };
    for (int i = 0; i < events; i++) {
        uint32_t lane = (uint32_t)dice(scene, LANES), flow = dice(scene, 10) == 0 ? ++scene->flow : 0;
        int *depth = &scene->depth[lane];
        uint64_t what = dice(scene, 20);
        scene->now += dice(scene, decades[dice(scene, 4)]);
        if (what == 0)
            put(scene, PHASE_INSTANT, dice(scene, 20) == 0 ? KIND_fault_race : points[dice(scene, 4)], lane,
                dice(scene, 2) == 0 ? scene->flow : 0);
        else if (what == 1)
            put(scene, PHASE_END, stages[dice(scene, 8)], lane, 0); /* of nothing, or of an outer one */
        else if (what < 11 && *depth < DEEPEST && (lane == 4 || *depth < 6)) {
            scene->open[lane][*depth] = (uint16_t)stages[dice(scene, 7)];
            put(scene, PHASE_BEGIN, scene->open[lane][(*depth)++], lane, flow);
        } else if (*depth > 0)
            put(scene, PHASE_END, scene->open[lane][--*depth], lane, dice(scene, 5) == 0 ? scene->flow : 0);
    }
}

static void
begin(struct scene *scene, uint64_t seed, const char *name)
{
    char why[300];
    *scene = (struct scene){ .folder = "/tmp/ringside-index-XXXXXX", .random = seed };
    assert_non_null(mkdtemp(scene->folder));
    snprintf(scene->path, sizeof scene->path, "%s/%s", scene->folder, name);
    struct trace_options options = { .clock = CLOCK_VIRTUAL_PS, .path = scene->path };
    scene->writer = trace_create(&options, why, sizeof why);
    assert_non_null(scene->writer);
    scene->buffer = trace_buffer_new(scene->writer);
    for (uint32_t i = 0; i < LANES; i++)
        trace_lane(scene->writer, -1, -1, LANE_HOST, "lane");
}

static struct trace *
opened(const struct scene *scene)
{
    char why[300];
    struct trace *trace = trace_open(scene->path, why, sizeof why);
    assert_non_null(trace);
    return trace;
}

static void
finish(struct scene *scene)
{
    trace_close(scene->writer);
    scene->writer = NULL;
    scene->trace = opened(scene);
}

static void
end(struct scene *scene)
{
    char command[160];
    trace_release(scene->trace);
    if (scene->writer != NULL)
        trace_close(scene->writer);
    snprintf(command, sizeof command, "rm -rf %s", scene->folder);
    assert_int_equal(system(command), 0);
}

static struct index *
built(struct trace *trace, size_t from)
{
    struct index *index = index_open_from(trace, from);
    assert_non_null(index);
    while (index_build(index, 777))
        continue;
    assert_true(index_is_whole(index));
    return index;
}

/* ---- beside a walk ---- */

/* All heights of a level say of the spans below what those say themselves. */
static void
check_pyramid(const struct index *index, size_t lane, int level)
{
    size_t size = INDEX_BLOCK;
    for (int height = 0; height < index_heights(index, lane, level); height++, size *= INDEX_FAN) {
        const struct node *node;
        for (size_t i = 0; (node = index_node(index, lane, level, height, i)) != NULL; i++) {
            struct node sum = { 0 };
            struct span span;
            for (size_t at = i * size; at < (i + 1) * size && index_span(index, lane, level, at, &span); at++) {
                uint64_t length = span.end == STILL_OPEN ? 0 : span.end - span.begin;
                if (sum.count++ == 0)
                    sum.from = span.begin;
                sum.last = span.end == STILL_OPEN ? STILL_OPEN : length > 0 ? span.end - 1 : span.begin;
                sum.busy[span.work - 1] += length;
                sum.works |= (uint16_t)(1 << span.work);
                sum.longest = length > sum.longest ? length : sum.longest;
                assert_true(span.end == STILL_OPEN || index_length(index, lane, level, at) >= length);
                assert_true(index_length(index, lane, level, at) <= length + length / 32 + 1 || span.end == STILL_OPEN);
            }
            assert_int_equal(node->count, sum.count);
            assert_true(node->from == sum.from && node->last == sum.last && node->longest == sum.longest);
            assert_memory_equal(node->busy, sum.busy, sizeof sum.busy);
            assert_int_equal(node->works, sum.works);
        }
        assert_null(index_node(index, lane, level, height, (index_spans(index, lane, level) + size - 1) / size));
    }
}

/* What is open on a lane, by a stack that keeps everything. */
struct stack { size_t begin[DEEPEST * 4]; uint16_t kind[DEEPEST * 4]; int count; };

/* The next span of that level: it begins and ends where the walk says. */
static void
check_span(const struct index *index, uint32_t lane, int level, size_t place, size_t begin, size_t ended)
{
    struct span span, found;
    int at;
    if (level >= LEVELS)
        return;
    assert_true(index_span(index, lane, level, place, &span));
    assert_int_equal(span.seq, begin);
    assert_true(span.begin == trace_time(index->trace, begin));
    assert_true(span.end == (ended == NO_EVENT ? STILL_OPEN : trace_time(index->trace, ended)));
    assert_true(index_span_of(index, begin, &found, &at) && at == level && found.end == span.end);
}

static void
walk_lane(const struct index *index, uint32_t lane)
{
    struct stack stack = { .count = 0 };
    size_t places[LEVELS] = { 0 }, marks = 0, events = 0, last = NO_EVENT;
    for (size_t seq = 0; seq < trace_count(index->trace); seq++) {
        const struct trace_event *event = trace_event(index->trace, seq);
        if (event->lane != lane)
            continue;
        assert_int_equal(index_next_on_lane(index, lane, last, 1), seq);
        assert_int_equal(index_next_on_lane(index, lane, seq, -1), last);
        last = seq;
        events++;
        bool nests = event->phase != PHASE_INSTANT && event->kind != KIND_lock_hold;
        int open = stack.count - 1;
        while (event->phase == PHASE_END && stack.count <= LEVELS && open >= 0 && stack.kind[open] != event->kind)
            open--;
        if (nests && event->phase == PHASE_BEGIN) {
            stack.begin[stack.count] = seq;
            stack.kind[stack.count++] = event->kind;
        } else if (nests && event->phase == PHASE_END && open >= 0) {
            for (int level = stack.count - 1; level >= open && level < LEVELS; level--)
                check_span(index, lane, level, places[level]++, stack.begin[level], seq);
            stack.count = open;
        } else {
            struct mark mark;
            assert_true(index_mark(index, lane, marks++, &mark) && mark.seq == seq);
        }
    }
    for (int level = 0; level < stack.count && level < LEVELS; level++)
        check_span(index, lane, level, places[level]++, stack.begin[level], NO_EVENT);
    for (int level = 0; level < LEVELS; level++)
        assert_int_equal(index_spans(index, lane, level), places[level]);
    assert_int_equal(index_marks(index, lane), marks);
    assert_int_equal(index_events(index, lane), events);
    assert_int_equal(index_next_on_lane(index, lane, last, 1), NO_EVENT);
    assert_int_equal(index_next_on_lane(index, lane, NO_EVENT, -1), last);
}

static void
each_event_is_counted_once_and_busy_time_is_exact(void **state)
{
    for (uint64_t seed = 1; seed <= 6; seed++)
        for (int filed = 0; filed < 2; filed++) {
            struct scene scene;
            begin(&scene, seed, "a.trace");
            put_random(&scene, seed == 6 ? 30000 : 2000);
            finish(&scene);
            struct index *index = built(scene.trace, filed ? 1 : SIZE_MAX);
            for (uint32_t lane = 0; lane < LANES; lane++) {
                walk_lane(index, lane);
                for (int level = 0; level < index_depth(index, lane); level++)
                    check_pyramid(index, lane, level);
            }
            index_close(index);
            end(&scene);
        }
}

static void
what_is_at_a_time_is_what_a_walk_finds(void **state)
{
    struct scene scene;
    begin(&scene, 7, "a.trace");
    put_random(&scene, 20000);
    finish(&scene);
    struct index *index = built(scene.trace, SIZE_MAX);
    for (int round = 0; round < 200; round++) {
        size_t lane = dice(&scene, LANES), i = 0;
        int level = (int)dice(&scene, 4);
        uint64_t time = dice(&scene, index_end(index) + 2);
        struct span span;
        struct mark mark;
        while (index_span(index, lane, level, i, &span) && span.end <= time && span.begin < time)
            i++;
        assert_int_equal(index_find_span(index, lane, level, time), i);
        for (i = 0; index_mark(index, lane, i, &mark) && mark.time < time; i++)
            continue;
        assert_int_equal(index_find_mark(index, lane, time), i);
        for (i = 0; i < trace_count(scene.trace) && trace_time(scene.trace, i) < time; i++)
            continue;
        assert_int_equal(index_seq_at(index, time), i);
    }
    index_close(index);
    end(&scene);
}

static size_t
walk_to(const struct index *index, size_t seq, int direction, int what, size_t lane)
{
    const struct trace_event *here = trace_event(index->trace, seq);
    for (;;) {
        if (direction > 0 ? seq + 1 >= trace_count(index->trace) : seq == 0)
            return NO_EVENT;
        seq = direction > 0 ? seq + 1 : seq - 1;
        const struct trace_event *event = trace_event(index->trace, seq);
        bool wait = event->lane == lane && event->phase == PHASE_BEGIN && event->kind == KIND_lock_wait;
        struct span span;
        int level;
        bool starts = seq == 0 || event->iteration > trace_event(index->trace, seq - 1)->iteration;
        if ((what == 0 && event->kind == here->kind && event->phase != PHASE_END) ||
            (what == 1 && wait && index_span_of(index, seq, &span, &level)) ||
            (what == 2 && (direction > 0 ? event->iteration > here->iteration : starts)))
            return seq;
    }
}

static void
what_is_next_is_what_a_walk_finds(void **state)
{
    struct scene scene;
    begin(&scene, 8, "a.trace");
    put_random(&scene, 20000);
    finish(&scene);
    struct index *index = built(scene.trace, SIZE_MAX);
    for (int round = 0; round < 150; round++) {
        size_t seq = dice(&scene, trace_count(scene.trace)), lane = dice(&scene, LANES);
        int direction = round % 2 == 0 ? 1 : -1;
        assert_int_equal(index_next_of_kind(index, trace_event(scene.trace, seq)->kind, seq, direction),
                         walk_to(index, seq, direction, 0, lane));
        assert_int_equal(index_next_of_work(index, lane, WORK_WAIT, seq, direction),
                         walk_to(index, seq, direction, 1, lane));
        assert_int_equal(index_next_iteration(index, seq, direction), walk_to(index, seq, direction, 2, lane));
    }
    index_close(index);
    end(&scene);
}

/* ---- other ends ---- */

static void
ends_and_flows_have_each_other(void **state)
{
    struct scene scene;
    begin(&scene, 9, "a.trace");
    put_random(&scene, 8000);
    finish(&scene);
    struct index *index = built(scene.trace, SIZE_MAX);
    size_t pairs = 0, flows = 0;
    for (size_t seq = 0; seq < trace_count(scene.trace); seq++) {
        const struct trace_event *event = trace_event(scene.trace, seq);
        size_t other = index_partner(index, seq), far = index_flow_end(index, seq);
        if (other != NO_EVENT) {
            assert_int_equal(index_partner(index, other), seq);
            assert_int_equal(trace_event(scene.trace, other)->lane, event->lane);
            assert_int_equal(other > seq, event->phase == PHASE_BEGIN);
            pairs++;
        }
        size_t known = trace_flow_end(scene.trace, seq);
        if (known == NO_EVENT || known < seq || event->phase != PHASE_END) /* it cannot arrive before it leaves */
            assert_int_equal(far, known);
        flows += far != NO_EVENT;
    }
    assert_true(pairs > 1000 && flows > 20);
    index_close(index);
    end(&scene);
}

static void
flows_of_a_window_are_those_with_an_end_in_it(void **state)
{
    struct scene scene;
    begin(&scene, 10, "a.trace");
    put_random(&scene, 8000);
    finish(&scene);
    struct index *index = built(scene.trace, SIZE_MAX);
    static struct flow found[8000];
    for (int round = 0; round < 50; round++) {
        size_t from = dice(&scene, trace_count(scene.trace)), to = from + dice(&scene, 600), ends = 0;
        size_t count = index_flows(index, from, to, found, 8000);
        for (size_t i = 0; i < count; i++) {
            assert_true((found[i].from >= from && found[i].from < to) || (found[i].to >= from && found[i].to < to));
            ends += found[i].from >= from && found[i].from < to;
            ends += found[i].to >= from && found[i].to < to;
        }
        size_t known = 0;
        for (size_t i = 0; i < index->flows_from.count; i++)
            known += list_seq(&index->flows_from, 2 * i) >= from && list_seq(&index->flows_from, 2 * i) < to;
        assert_true(ends >= known);
        assert_true(index_flows(index, from, to, found, count / 2) >= count);
    }
    index_close(index);
    end(&scene);
}

/* ---- growth ---- */

static void
assert_same(const struct index *one, const struct index *other)
{
    assert_int_equal(index_count(one), index_count(other));
    assert_true(index_end(one) == index_end(other));
    assert_int_equal(one->faults.count, other->faults.count);
    assert_int_equal(one->lessons.count, other->lessons.count);
    for (size_t lane = 0; lane < LANES; lane++) {
        assert_int_equal(index_events(one, lane), index_events(other, lane));
        assert_int_equal(index_depth(one, lane), index_depth(other, lane));
        assert_int_equal(index_marks(one, lane), index_marks(other, lane));
        for (int level = 0; level < index_depth(one, lane); level++) {
            assert_int_equal(index_spans(one, lane, level), index_spans(other, lane, level));
            assert_int_equal(index_heights(one, lane, level), index_heights(other, lane, level));
            for (int height = 0; height < index_heights(one, lane, level); height++) {
                const struct node *a, *b;
                for (size_t i = 0; (a = index_node(one, lane, level, height, i)) != NULL; i++) {
                    b = index_node(other, lane, level, height, i);
                    assert_non_null(b);
                    assert_memory_equal(a, b, sizeof *a);
                }
            }
        }
    }
    for (size_t seq = 0; seq < index_count(one); seq += 37) {
        assert_int_equal(index_partner(one, seq), index_partner(other, seq));
        assert_int_equal(index_flow_end(one, seq), index_flow_end(other, seq));
    }
}

static void
an_index_that_grew_is_that_of_the_grown_trace(void **state)
{
    for (int filed = 0; filed < 2; filed++) {
        struct scene scene;
        begin(&scene, 11, "a.trace");
        put_random(&scene, 5000);
        scene.trace = opened(&scene);
        struct index *grown = built(scene.trace, filed ? 1 : SIZE_MAX);
        for (int round = 0; round < 40; round++) {
            put_random(&scene, (int)dice(&scene, 500));
            trace_refresh(scene.trace);
            assert_true(index_refresh(grown));
        }
        assert_true(index_count(grown) > 8000);
        struct index *fresh = built(scene.trace, SIZE_MAX);
        assert_same(grown, fresh);
        index_close(grown);
        index_close(fresh);
        end(&scene);
    }
}

/* ---- the file ---- */

static const char *
index_path(const struct scene *scene)
{
    static char path[420];
    snprintf(path, sizeof path, "%s.index", scene->path);
    return path;
}

static void
an_index_is_kept_beside_its_trace_and_found_there(void **state)
{
    struct scene scene;
    struct stat about;
    begin(&scene, 12, "a.trace");
    put_random(&scene, 5000);
    finish(&scene);
    struct index *made = built(scene.trace, 1);
    assert_int_equal(stat(index_path(&scene), &about), 0);
    struct index *found = index_open_from(scene.trace, 1);
    assert_true(index_is_whole(found)); /* at once: nothing had to be built */
    assert_true(found->mapped.bytes > 0);
    assert_same(made, found);
    index_close(found);
    index_close(made);
    end(&scene);
}

/* A name so long that nothing can lie beside it. */
static const char long_name[] =
    "0123456789012345678901234567890123456789012345678901234567890123456789012345678901234567890123456789"
    "0123456789012345678901234567890123456789012345678901234567890123456789012345678901234567890123456789"
    "01234567890123456789012345678901234567890123456789.trace";

static void
where_nothing_can_lie_beside_the_trace_it_lies_in_the_cache(void **state)
{
    struct scene scene;
    begin(&scene, 13, "a.trace");
    char cache[200], moved[500];
    snprintf(cache, sizeof cache, "%s/cache", scene.folder);
    setenv("XDG_CACHE_HOME", cache, 1);
    put_random(&scene, 5000);
    trace_close(scene.writer);
    scene.writer = NULL;
    snprintf(moved, sizeof moved, "%s/%.250s", scene.folder, long_name);
    assert_int_equal(rename(scene.path, moved), 0);
    snprintf(scene.path, sizeof scene.path, "%.390s", moved);
    scene.trace = opened(&scene);
    struct index *made = built(scene.trace, 1), *found = index_open_from(scene.trace, 1);
    assert_true(index_is_whole(found) && found->mapped.bytes > 0);
    assert_same(made, found);
    index_close(found);
    index_close(made);
    end(&scene);
}

static void
where_it_can_lie_nowhere_it_is_made_each_time(void **state)
{
    struct scene scene;
    begin(&scene, 14, "a.trace");
    char moved[500];
    setenv("XDG_CACHE_HOME", "/dev/null/none", 1);
    put_random(&scene, 5000);
    trace_close(scene.writer);
    scene.writer = NULL;
    snprintf(moved, sizeof moved, "%s/%.250s", scene.folder, long_name);
    assert_int_equal(rename(scene.path, moved), 0);
    snprintf(scene.path, sizeof scene.path, "%.390s", moved);
    scene.trace = opened(&scene);
    struct index *made = built(scene.trace, 1), *again = index_open_from(scene.trace, 1);
    assert_false(index_is_whole(again));
    index_close(again);
    again = built(scene.trace, SIZE_MAX);
    assert_same(made, again);
    index_close(again);
    index_close(made);
    end(&scene);
}

static unsigned char *
slurp(const char *path, size_t *bytes)
{
    FILE *file = fopen(path, "r");
    assert_non_null(file);
    fseek(file, 0, SEEK_END);
    *bytes = (size_t)ftell(file);
    rewind(file);
    unsigned char *text = malloc(*bytes + 1);
    assert_int_equal(fread(text, 1, *bytes, file), *bytes);
    fclose(file);
    return text;
}

static void
spit(const char *path, const unsigned char *text, size_t bytes)
{
    FILE *file = fopen(path, "w");
    assert_non_null(file);
    assert_int_equal(fwrite(text, 1, bytes, file), bytes);
    fclose(file);
}

/* Every question, with numbers that make no sense too. */
static void
ask_everything(struct scene *scene, const struct index *index)
{
    struct span span;
    struct mark mark;
    struct flow flows[8];
    int level;
    for (int round = 0; round < 300; round++) {
        size_t seq = dice(scene, index_count(index) + 2), lane = dice(scene, LANES + 1);
        uint64_t time = dice(scene, 2) == 0 ? splitmix(&scene->random) : dice(scene, index_end(index) / 2 + 2) * 2;
        size_t answers[] = { index_partner(index, seq), index_flow_end(index, seq), index_next_on_lane(index, lane, seq, 1),
                             index_next_on_lane(index, lane, seq, -1), index_next_of_kind(index, 7, seq, 1),
                             index_next_of_work(index, lane, WORK_WAIT, seq, -1), index_next_iteration(index, seq, 1) };
        for (size_t i = 0; i < sizeof answers / sizeof *answers; i++)
            assert_true(answers[i] == NO_EVENT || answers[i] < index_count(index));
        index_span_of(index, seq, &span, &level);
        index_flows(index, seq, seq + 100, flows, 8);
        level = (int)dice(scene, LEVELS + 1);
        size_t found = index_find_span(index, lane, level, time);
        if (index_span(index, lane, level, found, &span))
            assert_true(span.seq < index_count(index) && span.work < WORK_COUNT && span.end >= span.begin);
        if (index_mark(index, lane, index_find_mark(index, lane, time), &mark))
            assert_true(mark.seq < index_count(index) && mark.work < WORK_COUNT);
        index_node(index, lane, level, (int)dice(scene, INDEX_HEIGHTS + 1), dice(scene, 100));
    }
}

static void
a_damaged_foreign_or_stale_index_is_made_anew(void **state)
{
    struct scene scene;
    size_t bytes;
    begin(&scene, 15, "a.trace");
    put_random(&scene, 3000);
    finish(&scene);
    index_close(built(scene.trace, 1));
    unsigned char *good = slurp(index_path(&scene), &bytes), *bad = malloc(bytes + 64);
    for (int round = 0; round < 200; round++) {
        size_t size = bytes;
        memcpy(bad, good, bytes);
        switch (round % 4) {
        case 0: size = dice(&scene, bytes); break;
        case 1: bad[dice(&scene, bytes)] ^= (unsigned char)(1 + dice(&scene, 255)); break;
        case 2: memset(bad + dice(&scene, bytes - 64), (int)dice(&scene, 256), 64); break;
        default: bad[dice(&scene, sizeof(struct index_head))] ^= (unsigned char)(1 + dice(&scene, 255)); break;
        }
        bool same = size == bytes && memcmp(bad, good, bytes) == 0;
        spit(index_path(&scene), bad, size);
        struct index *index = index_open_from(scene.trace, 1);
        assert_int_equal(index_is_whole(index), same);
        index_close(index);
    }
    spit(index_path(&scene), good, bytes);
    trace_release(scene.trace);
    assert_int_equal(truncate(scene.path, 4096 + 256 * 1024), 0); /* as many events or not, it is another file */
    scene.trace = opened(&scene);
    struct index *index = index_open_from(scene.trace, 1);
    assert_true(index->mapped.bytes == 0);
    index_close(index);
    free(good);
    free(bad);
    end(&scene);
}

static void
an_index_that_lies_with_a_right_sum_leads_nowhere_beyond_the_trace(void **state)
{
    struct scene scene;
    size_t bytes;
    begin(&scene, 16, "a.trace");
    put_random(&scene, 3000);
    finish(&scene);
    index_close(built(scene.trace, 1));
    unsigned char *good = slurp(index_path(&scene), &bytes), *bad = malloc(bytes + 8);
    int taken = 0;
    for (int round = 0; round < 150; round++) {
        memcpy(bad, good, bytes);
        struct index_head head;
        size_t first = round % 3 == 0 ? 0 : sizeof head;
        for (uint64_t i = 1 + dice(&scene, 20); i > 0; i--)
            bad[first + dice(&scene, bytes - first)] = (unsigned char)(dice(&scene, 3) == 0 ? 255 : dice(&scene, 256));
        memcpy(&head, bad, sizeof head);
        if (head.bytes == bytes) {
            head.sum = index_file_sum(&head, bad);
            memcpy(bad, &head, sizeof head);
        }
        spit(index_path(&scene), bad, bytes);
        struct index *index = index_open_from(scene.trace, 1);
        taken += index_is_whole(index);
        if (index_is_whole(index))
            ask_everything(&scene, index);
        index_close(index);
    }
    assert_true(taken > 30);
    free(good);
    free(bad);
    end(&scene);
}

static void
until_it_is_whole_a_sample_says_where_lanes_are_busy(void **state)
{
    struct scene scene;
    begin(&scene, 17, "a.trace");
    for (int i = 0; i < 3000; i++, scene.now += 1000) {
        put(&scene, PHASE_BEGIN, KIND_dp_forward, 0, 0);
        scene.now += 3000;
        put(&scene, PHASE_END, KIND_dp_forward, 0, 0);
    }
    finish(&scene);
    unlink(index_path(&scene));
    struct index *index = index_open_from(scene.trace, 1);
    uint64_t busy = 0;
    const struct node *node;
    for (size_t i = 0; (node = index_sample(index, 0, i)) != NULL; i++)
        busy += node->busy[WORK_FORWARD - 1];
    assert_in_range(busy, index_end(index) / 100 * 60, index_end(index) / 100 * 90);
    assert_int_equal(index_sample(index, 1, 0)->works, 0);
    assert_int_equal(index_partner(index, 10), 11); /* looked for nearby */
    assert_int_equal(index_next_on_lane(index, 0, 10, 1), 11);
    index_close(index);
    end(&scene);
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(each_event_is_counted_once_and_busy_time_is_exact),
        cmocka_unit_test(what_is_at_a_time_is_what_a_walk_finds),
        cmocka_unit_test(what_is_next_is_what_a_walk_finds),
        cmocka_unit_test(ends_and_flows_have_each_other),
        cmocka_unit_test(flows_of_a_window_are_those_with_an_end_in_it),
        cmocka_unit_test(an_index_that_grew_is_that_of_the_grown_trace),
        cmocka_unit_test(an_index_is_kept_beside_its_trace_and_found_there),
        cmocka_unit_test(where_nothing_can_lie_beside_the_trace_it_lies_in_the_cache),
        cmocka_unit_test(where_it_can_lie_nowhere_it_is_made_each_time),
        cmocka_unit_test(a_damaged_foreign_or_stale_index_is_made_anew),
        cmocka_unit_test(an_index_that_lies_with_a_right_sum_leads_nowhere_beyond_the_trace),
        cmocka_unit_test(until_it_is_whole_a_sample_says_where_lanes_are_busy),
    };
    return cmocka_run_group_tests_name("index", tests, NULL, NULL);
}
