/* Traces of a job as one: clocks that were started at different times and drift come onto one, messages arrive after
 * they left, what was joined before stays as it is. */
#include "job_rig.h"
#include "trace/clock.h"

enum { MS = 1000 * 1000, CASES = 200 };

/* ---- offsets ---- */

static void
an_offset_lies_within_its_error(void **state)
{
    (void)state;
    struct job_rig rig = { .size = 0 };
    generator_seed(&rig.dice, 3);
    for (int i = 0; i < 2000; i++) {
        struct clock_exchange ways[4];
        struct clock_offset   found;
        int64_t               offset = rig_draw(&rig, 2 * (int64_t)MS * MS) - (int64_t)MS * MS;
        for (size_t k = 0; k < countof(ways); k++) {
            int64_t sent = rig_draw(&rig, MS), there = sent + rig_draw(&rig, 1000), back = there + rig_draw(&rig, 100);
            ways[k] = (struct clock_exchange){ sent, there + offset, back + offset, back + rig_draw(&rig, 1000), 1 };
        }
        assert_true(clock_offset_find(ways, countof(ways), &found));
        assert_in_range(found.offset - offset + found.error, 0, 2 * found.error);
        for (size_t k = 0; k < countof(ways); k++)
            assert_true(2 * found.error <= ways[k].received - ways[k].sent + 1);
    }
}

static void
of_exchanges_that_contradict_each_other_the_shortest_counts(void **state)
{
    (void)state;
    const struct clock_exchange ways[] = { { 0, 1000, 1000, 100, 5 }, { 200, 9000, 9000, 210, 7 },
                                           { 50, 40, 30, 20, 9 } };
    struct clock_offset found;
    assert_true(clock_offset_find(ways, countof(ways), &found));
    assert_int_equal(found.local, 210);
    assert_int_equal(found.ticks, 7);
    assert_int_equal(found.offset, 8795);
    assert_int_equal(found.error, 5);
    assert_false(clock_offset_find(ways + 2, 1, &found));
    assert_false(clock_offset_find(ways, 0, &found));
}

static void
an_offset_is_read_as_it_was_printed_and_nonsense_is_none(void **state)
{
    (void)state;
    const struct clock_offset offset = { 12, -34, 5, INT64_MAX };
    struct clock_offset       read;
    char                      text[CLOCK_OFFSET_TEXT];
    clock_offset_print(&offset, text);
    assert_true(clock_offset_parse(text, &read));
    assert_memory_equal(&read, &offset, sizeof read);
    assert_true(clock_offset_parse("1 2 3", &read));
    assert_int_equal(read.ticks, 0);
    static const char *const bad[] = { "", "1", "1 2", "1 2 3 4 5", "x", "1 2 3x", "-1 2 3", "1 2 -3",
                                       "1 9223372036854775807 3", "99999999999999999999999 1 1" };
    for (size_t i = 0; i < countof(bad); i++)
        assert_false(clock_offset_parse(bad[i], &read));
}

static void
the_newest_value_of_an_option_counts_however_late_it_comes(void **state)
{
    (void)state;
    struct job_rig rig;
    char           text[64];
    rig_new(&rig, 1, 1, 0, 1000);
    rig_option(&rig, 0, JOB_CLOCK_END, "1 2 3");
    for (int i = 0; i < 20000; i++) { /* some chunks of records */
        snprintf(text, sizeof text, "a text that nobody has said before, number %d", i);
        trace_text(rig.ranks[0].writer, text);
    }
    rig_write(&rig);
    assert_string_equal(trace_option_of(rig.ranks[0].trace, JOB_CLOCK_END), "1 2 3");
    rig_option(&rig, 0, JOB_CLOCK_END, "4 5 6");
    rig_close(&rig);
    assert_string_equal(trace_option_of(rig.ranks[0].trace, JOB_CLOCK_END), "4 5 6");
    rig_free(&rig);
}

static void
a_moment_is_on_the_clock_of_events(void **state)
{
    (void)state;
    const struct trace_options options = { .clock = trace_wall_clock() };
    char                       why[200] = "";
    struct trace_writer       *writer = trace_create(&options, why, sizeof why);
    assert_non_null(writer);
    struct trace_moment first = trace_moment(writer);
    uint64_t            now   = trace_wall_now(options.clock);
    struct trace_moment last  = trace_moment(writer);
    assert_true(first.ticks <= now && now <= last.ticks);
    assert_true(first.ns >= 0 && first.ns <= last.ns);
    trace_close(writer);
}

/* ---- arrows ---- */

static const struct join_wish as_job = { .clock = JOIN_JOB };

/* How many messages there are; each arrives later than it left. */
static size_t
forward_arrows(struct trace *whole)
{
    size_t count = 0;
    for (size_t seq = 0; seq < trace_count(whole); seq++) {
        const struct trace_event *event = trace_event(whole, seq);
        size_t                    other = event->flow != 0 ? trace_flow_end(whole, seq) : SIZE_MAX;
        if (event->flow == 0 || event->phase != PHASE_END)
            continue;
        assert_int_not_equal(other, SIZE_MAX);
        assert_true(other < seq);
        assert_true(trace_time(whole, other) < trace_time(whole, seq));
        count++;
    }
    return count;
}

/* Rank 0's clock at that true time. */
static void
check_times(const struct job_rig *rig, struct trace *whole, int64_t most, int64_t zero)
{
    uint64_t before = 0;
    for (size_t seq = 0; seq < trace_count(whole); seq++) {
        const struct trace_event *event = trace_event(whole, seq);
        uint64_t                  time  = trace_time(whole, seq);
        assert_true(time >= before);
        before = time;
        if (strncmp(trace_kind(whole, event->kind)->name, "comm.", 5) != 0)
            continue;
        int64_t wrong = (int64_t)(time / 1000) - (rig_local(rig, 0, event->args[1]) - zero);
        if (wrong > most || wrong < -most)
            fail_msg("event %zu of rank %d lies %lld ns from where it was, allowed are %lld", seq, event->rank,
                     (long long)wrong, (long long)most);
    }
}

/* A run of `length` ns from 300 ms on. */
static void
play(struct job_rig *rig, int messages, int64_t from, int64_t length)
{
    for (int i = 0; i < messages; i++) {
        int64_t leaves = from + (int64_t)i * (length / messages) + rig_draw(rig, length / messages);
        int     a = (int)rig_draw(rig, rig->size), b = (a + 1 + (int)rig_draw(rig, rig->size - 1)) % rig->size;
        rig_message(rig, a, b, leaves, leaves + 2000 + rig_draw(rig, 20 * 1000));
    }
}

static void
after_the_join_all_messages_arrive_after_they_left(void **state)
{
    (void)state;
    for (uint64_t seed = 1; seed <= CASES; seed++) {
        struct job_rig rig;
        struct generator dice;
        generator_seed(&dice, seed);
        int     size   = 2 + (int)(generator_u64(&dice) % 7);
        int64_t length = (int64_t)(50 + generator_u64(&dice) % 5000) * MS;
        rig_new(&rig, size, seed, 50, (int64_t)(10 + generator_u64(&dice) % 300) * 1000);
        int64_t begin = rig_measure(&rig, JOB_CLOCK_BEGIN, 250 * MS);
        play(&rig, 60, 300 * MS, length);
        rig_meeting(&rig, 0, 300 * MS + length / 2, 30 * 1000);
        int64_t end = rig_measure(&rig, JOB_CLOCK_END, 310 * MS + length);
        rig_close(&rig);
        struct trace *whole = rig_join(&rig, &as_job);
        assert_string_equal(trace_option_of(whole, JOIN_NOTE), "");
        assert_int_equal(forward_arrows(whole), 60);
        check_times(&rig, whole, 2 * (begin > end ? begin : end) + 1000, 0);
        trace_release(whole);
        rig_free(&rig);
    }
}

static void
sixty_four_ranks_go_together(void **state)
{
    (void)state;
    struct job_rig rig;
    rig_new(&rig, 64, 5, 50, 200 * 1000);
    rig_measure(&rig, JOB_CLOCK_BEGIN, 250 * MS);
    play(&rig, 2000, 300 * MS, 900 * MS);
    for (int i = 0; i < 20; i++)
        rig_meeting(&rig, i, 300 * MS + i * 40 * (int64_t)MS, 30 * 1000);
    rig_measure(&rig, JOB_CLOCK_END, 1250 * MS);
    rig_close(&rig);
    struct trace *whole = rig_join(&rig, &as_job);
    assert_string_equal(trace_option_of(whole, JOIN_NOTE), "");
    assert_int_equal(forward_arrows(whole), 2000);
    trace_release(whole);
    rig_free(&rig);
}

/* ---- what is left out, what is missing ---- */

/* The lesson's own doing in each process: at `at`, a saying; and a kernel on the device, of rank r. */
static void
say(struct job_rig *rig, int r, int64_t at)
{
    struct trace_event event = { .kind = KIND_lesson_say, .phase = PHASE_INSTANT, .rank = -1,
                                 .lane = rig->ranks[r].lanes[0] };
    rig_event(rig, r, at, event);
}

static void
compute(struct job_rig *rig, int r, int64_t at)
{
    struct trace_event event = { .kind = KIND_kernel, .phase = PHASE_INSTANT, .rank = (int16_t)r,
                                 .lane = rig->ranks[r].lanes[2] };
    rig_event(rig, r, at, event);
}

static size_t
count_kind(struct trace *whole, const char *kind)
{
    size_t count = 0;
    for (size_t seq = 0; seq < trace_count(whole); seq++)
        count += trace_event(whole, seq)->kind == (uint16_t)trace_kind_id(whole, kind);
    return count;
}

static int
lane_of(const struct trace *whole, const char *name)
{
    int found = -1;
    for (size_t i = 0; i < trace_lanes(whole); i++)
        if (strcmp(trace_lane_at(whole, i)->name, name) == 0) {
            assert_int_equal(found, -1);
            found = (int)i;
        }
    return found;
}

static void
what_the_lesson_does_is_rank_0_s_alone(void **state)
{
    (void)state;
    struct job_rig rig;
    rig_new(&rig, 3, 1, 0, 1000);
    rig_measure(&rig, JOB_CLOCK_BEGIN, 250 * MS);
    for (int r = 0; r < 3; r++)
        say(&rig, r, 300 * MS);
    compute(&rig, 1, 310 * MS);
    compute(&rig, 2, 311 * MS);
    rig_close(&rig);
    struct trace *whole = rig_join(&rig, &as_job), *copies = rig_join(&rig, &(struct join_wish){ .copies = true });
    assert_int_equal(count_kind(whole, "lesson.say"), 1);
    assert_int_equal(count_kind(copies, "lesson.say"), 3);
    assert_int_equal(trace_lanes(whole), 1 + 3 + 2);
    assert_int_not_equal(lane_of(whole, "main"), -1);
    assert_int_not_equal(lane_of(whole, "r2 main"), -1);
    assert_int_equal(lane_of(whole, "r2 main A"), -1);
    assert_int_not_equal(lane_of(whole, "device:0 compute"), -1);
    assert_int_not_equal(lane_of(whole, "device:0 compute (r2)"), -1);
    assert_int_not_equal(lane_of(copies, "main (r1)"), -1);
    assert_string_equal(trace_option_of(whole, JOIN_PART "0"), "rank0.trace");
    assert_string_equal(trace_option_of(whole, JOIN_PART "2"), "rank2.trace");
    trace_release(whole);
    trace_release(copies);
    rig_free(&rig);
}

/* Of a job of four: only what `has` says. */
static struct trace *
join_some(const struct job_rig *rig, const char *has)
{
    struct join_part parts[4];
    char             why[400] = "", names[4][32];
    size_t           count = strlen(has);
    for (size_t i = 0; i < count; i++) {
        snprintf(names[i], sizeof names[i], "rank%c.trace", has[i]);
        parts[i] = (struct join_part){ names[i], rig->ranks[has[i] - '0'].trace };
    }
    struct trace *whole = trace_join(parts, count, &as_job, why, sizeof why);
    if (whole == NULL)
        fail_msg("%s", why);
    return whole;
}

static void
what_is_missing_is_said(void **state)
{
    (void)state;
    struct job_rig rig;
    rig_new(&rig, 4, 1, 0, 1000);
    rig_measure(&rig, JOB_CLOCK_BEGIN, 250 * MS);
    rig_option(&rig, 1, JOB_CLOCK_BEGIN, "nonsense");
    play(&rig, 40, 300 * MS, 10 * MS);
    rig_close(&rig);
    static const struct { const char *has, *note; } cases[] = {
        { "0123", "rank 1's clock was not measured" },
        { "023", "rank 1's trace is not there" },
        { "32", "2 of 4 ranks' traces are not there, rank 0's the first" },
    };
    for (size_t i = 0; i < countof(cases); i++) {
        struct trace *whole = join_some(&rig, cases[i].has);
        assert_string_equal(trace_option_of(whole, JOIN_NOTE), cases[i].note);
        trace_release(whole);
    }
    rig_free(&rig);
}

static void
the_story_is_told_as_rank_0_s_lesson_says(void **state)
{
    (void)state;
    struct job_rig rig;
    rig_new(&rig, 3, 1, 0, 1000);
    rig_measure(&rig, JOB_CLOCK_BEGIN, 250 * MS);
    rig_option(&rig, 1, STORY_PART "kernel", "scene");
    rig_option(&rig, 2, STORY_PART "op", "silent");
    rig_option(&rig, 0, STORY_PART "op", "scene");
    rig_option(&rig, 0, STORY_TELL "comm.hop", "A message.");
    for (int r = 0; r < 3; r++)
        say(&rig, r, 300 * MS);
    rig_close(&rig);
    struct trace *job = rig_join(&rig, &as_job), *copies = rig_join(&rig, &(struct join_wish){ .copies = true });
    assert_string_equal(trace_option_of(job, "story:op"), "scene");
    assert_string_equal(trace_option_of(job, "tell:comm.hop"), "A message.");
    assert_string_equal(trace_option_of(job, "story:kernel"), "");
    assert_string_equal(trace_option_of(copies, "story:op"), "scene");
    trace_release(job);
    trace_release(copies);
    rig_free(&rig);
}

static void
a_clock_that_nobody_measured_is_set_by_messages(void **state)
{
    (void)state;
    struct job_rig rig;
    rig_new(&rig, 4, 9, 0, 1000);
    rig_measure(&rig, JOB_CLOCK_BEGIN, 250 * MS);
    rig_option(&rig, 2, JOB_CLOCK_BEGIN, "");
    play(&rig, 200, 300 * MS, 10 * MS);
    rig_close(&rig);
    struct trace *whole = rig_join(&rig, &as_job);
    assert_int_equal(forward_arrows(whole), 200);
    check_times(&rig, whole, 25 * 1000, 0);
    trace_release(whole);
    rig_free(&rig);
}

static void
what_no_error_allows_for_is_said(void **state)
{
    (void)state;
    struct job_rig rig;
    rig_new(&rig, 2, 1, 0, 1000);
    rig_measure(&rig, JOB_CLOCK_BEGIN, 250 * MS);
    rig_message(&rig, 0, 1, 300 * MS, 299 * MS);
    rig_close(&rig);
    struct trace *whole = rig_join(&rig, &as_job);
    assert_non_null(strstr(trace_option_of(whole, JOIN_NOTE), "what rank 0 sent rank 1 arrives"));
    trace_release(whole);
    rig_free(&rig);
}

static void
two_traces_that_are_no_job_s_keep_their_flows_and_starts_apart(void **state)
{
    (void)state;
    struct job_rig rig;
    rig_new(&rig, 2, 1, 0, 1000);
    rig_measure(&rig, JOB_CLOCK_BEGIN, 250 * MS);
    rig_message(&rig, 0, 1, 300 * MS, 301 * MS);
    rig_option(&rig, 1, JOB_ID, "another job");
    rig_close(&rig);
    struct trace *whole = rig_join(&rig, &as_job);
    assert_string_equal(trace_option_of(whole, JOB_ID), "");
    for (size_t seq = 0; seq < trace_count(whole); seq++)
        assert_int_equal(trace_flow_end(whole, seq), SIZE_MAX);
    assert_int_not_equal(lane_of(whole, "r1 main A"), -1);
    trace_release(whole);
    rig_free(&rig);
}

static void
times_of_free_runs_are_kept(void **state)
{
    (void)state;
    struct job_rig rig;
    rig_new(&rig, 1, 1, 0, 1000);
    rig_option(&rig, 0, JOB_ID, "");
    say(&rig, 0, rig.ranks[0].start + 1000);
    say(&rig, 0, rig.ranks[0].start + 5 * MS);
    rig_close(&rig);
    struct trace *whole = rig_join(&rig, &as_job);
    assert_int_equal(trace_time(whole, 1) / 1000, trace_time(rig.ranks[0].trace, 1) / 1000);
    assert_true(trace_time(whole, 1) > trace_time(whole, 0));
    trace_release(whole);
    rig_free(&rig);
}

static void
nonsense_about_clocks_ends_no_join(void **state)
{
    (void)state;
    static const char *const words[] = {
        "", "x", "0 0 0 0", "9223372036854775807 0 0", "0 2305843009213693951 0",
        "0 -2305843009213693951 2305843009213693951",
        "2305843009213693951 2305843009213693951 0 18446744073709551615", "5 0 0 1", "1", "18446744073709551615",
        "1000000 0 0", "2000000 -5000000 1",
    };
    static const char *const keys[] = { JOB_CLOCK_BEGIN, JOB_CLOCK_END, JOB_CUT "1", JOB_CUT "2", JOB_SIZE };
    for (uint64_t seed = 1; seed <= 60; seed++) {
        struct job_rig rig;
        rig_new(&rig, 3, seed, 50, 1000);
        play(&rig, 20, 300 * MS, 10 * MS);
        rig_meeting(&rig, 0, 305 * MS, 1000);
        for (int r = 0; r < 3; r++)
            for (size_t i = 0; i < countof(keys); i++)
                rig_option(&rig, r, keys[i], words[rig_draw(&rig, countof(words))]);
        rig_close(&rig);
        struct trace *whole = rig_join(&rig, &as_job);
        assert_int_equal(trace_count(whole), 20 * 4 + 6);
        uint64_t before = 0;
        for (size_t seq = 0; seq < trace_count(whole); seq++) {
            assert_true(trace_time(whole, seq) >= before);
            before = trace_time(whole, seq);
        }
        trace_release(whole);
        rig_free(&rig);
    }
}

/* ---- cuts ---- */

static void
assert_same_event(struct trace *a, struct trace *b, size_t seq)
{
    const struct trace_event *one = trace_event(a, seq), *other = trace_event(b, seq);
    assert_int_equal(trace_time(a, seq), trace_time(b, seq));
    assert_memory_equal(one->args, other->args, sizeof one->args);
    assert_int_equal(one->flow, other->flow);
    assert_int_equal(one->rank, other->rank);
    assert_int_equal(one->kind, other->kind);
    assert_string_equal(trace_lane_at(a, one->lane)->name, trace_lane_at(b, other->lane)->name);
}

/* Each process asks its own trace and the others' files; the job goes on from cut to cut. */
static void
what_lies_before_a_cut_keeps_its_place_in_every_process(void **state)
{
    (void)state;
    for (uint64_t seed = 1; seed <= 20; seed++) {
        struct job_rig rig;
        struct trace  *before = NULL;
        rig_new(&rig, 4, seed, 50, 100 * 1000);
        rig_measure(&rig, JOB_CLOCK_BEGIN, 250 * MS);
        for (int cut = 1; cut <= 5; cut++) {
            struct trace *whole[4];
            int64_t       from = (300 + 100 * cut) * (int64_t)MS;
            for (int r = 0; r < 4; r++)
                say(&rig, r, from + rig_draw(&rig, 1000));
            play(&rig, 30, from + MS, 20 * MS);
            rig_cut(&rig, cut, from + 50 * MS);
            for (int r = 0; r < 4; r++)
                say(&rig, r, from + 60 * MS + rig_draw(&rig, 1000));
            rig_write(&rig);
            for (int r = 0; r < 4; r++)
                whole[r] = rig_join(&rig, &(struct join_wish){ .is_cut = true, .cut = (unsigned)cut,
                                                               .own = rig.ranks[r].trace });
            assert_int_equal(forward_arrows(whole[0]), 30 * cut);
            for (int r = 1; r < 4; r++)
                assert_int_equal(trace_count(whole[r]), trace_count(whole[0]));
            for (size_t seq = 0; seq + 1 < trace_count(whole[0]); seq++)
                for (int r = 1; r < 4; r++)
                    assert_same_event(whole[0], whole[r], seq);
            for (size_t seq = 0; before != NULL && seq < trace_count(before); seq++)
                assert_same_event(before, whole[0], seq);
            trace_release(before);
            before = whole[0];
            for (int r = 1; r < 4; r++)
                trace_release(whole[r]);
        }
        trace_release(before);
        rig_free(&rig);
    }
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(an_offset_lies_within_its_error),
        cmocka_unit_test(of_exchanges_that_contradict_each_other_the_shortest_counts),
        cmocka_unit_test(an_offset_is_read_as_it_was_printed_and_nonsense_is_none),
        cmocka_unit_test(the_newest_value_of_an_option_counts_however_late_it_comes),
        cmocka_unit_test(a_moment_is_on_the_clock_of_events),
        cmocka_unit_test(after_the_join_all_messages_arrive_after_they_left),
        cmocka_unit_test(sixty_four_ranks_go_together),
        cmocka_unit_test(what_the_lesson_does_is_rank_0_s_alone),
        cmocka_unit_test(the_story_is_told_as_rank_0_s_lesson_says),
        cmocka_unit_test(what_is_missing_is_said),
        cmocka_unit_test(a_clock_that_nobody_measured_is_set_by_messages),
        cmocka_unit_test(what_no_error_allows_for_is_said),
        cmocka_unit_test(two_traces_that_are_no_job_s_keep_their_flows_and_starts_apart),
        cmocka_unit_test(nonsense_about_clocks_ends_no_join),
        cmocka_unit_test(times_of_free_runs_are_kept),
        cmocka_unit_test(what_lies_before_a_cut_keeps_its_place_in_every_process),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
