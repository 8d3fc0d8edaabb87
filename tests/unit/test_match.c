/* Predicates over events: a table of expressions and the events that they match, and what is said about wrong ones. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <stdio.h>
#include <string.h>

#include "base/rng.h"
#include "trace/match.h"
#include "trace/schema.h"

static int
kinds(void *context)
{
    return KIND_COUNT;
}

static const char *
kind_name(void *context, int kind)
{
    return kind_table[kind].name;
}

static const char *
kind_args(void *context, int kind)
{
    return kind_table[kind].args;
}

static const char *
text(void *context, int64_t id)
{
    return id == 1 ? "add" : id == 2 ? "fc1.weight" : "?";
}

static const char *
lane(void *context, uint32_t number)
{
    return number == 0 ? "r0 main" : "r1 comm";
}

static const struct match_names names = { NULL, kinds, kind_name, kind_args, text, lane };

/* The events that the table speaks of, as letters. */
static const struct trace_event events[] = {
    { .kind = KIND_dp_scatter, .phase = PHASE_BEGIN, .rank = 0, .device = -1, .args = { 4, 0, 3 }, .time = 1000 },
    { .kind = KIND_dp_scatter_chunk, .phase = PHASE_INSTANT, .rank = 0, .device = 2, .args = { 1, 2, 16, 2 },
      .time = 2500, .line = 17 },
    { .kind = KIND_dp_scatter, .phase = PHASE_END, .rank = 0, .device = -1, .args = { 4, 0, 3 }, .time = 3000 },
    { .kind = KIND_op, .phase = PHASE_BEGIN, .rank = 1, .device = 1, .args = { 1, 7, 4000000 }, .lane = 1,
      .iteration = 3, .depth = 2, .flow = 9, .time = 60004800 },
    { .kind = KIND_ddp_mark_variable_ready, .phase = PHASE_END, .rank = 1, .device = 1, .args = { 0, 1, 0, 2 },
      .lane = 1, .time = UINT64_MAX },
    { .kind = KIND_lesson_check, .phase = PHASE_INSTANT, .rank = -1, .device = -1, .args = { 1, 1 } },
};

static void
the_grammar_means_what_it_says(void **state)
{
    static const struct { const char *expression, *letters; } cases[] = {
        { "dp.scatter", "a" }, { "dp.scatter.*", "ab" }, { "dp", "ab" }, { "dp.*", "ab" }, { "op", "d" },
        { "lesson", "f" }, { "dp.scatter and phase = end", "c" }, { "dp and phase != begin", "bc" },
        { "phase=end", "ce" }, { "kind = dp.scatter", "ac" }, { "kind != dp", "def" }, { "kind ~ scatter", "abc" },
        { "kind = dp.scatter.*", "abc" }, { "rank 1", "de" }, { "rank = 1", "de" }, { "rank -1", "f" },
        { "rank >= 0", "abcde" }, { "device host", "acf" }, { "device 2", "b" }, { "device < 0", "acf" },
        { "lane 'r1 comm'", "de" }, { "lane ~ main", "abcf" }, { "lane = \"r0 main\"", "abcf" },
        { "bytes > 10", "bd" }, { "bytes > 1e6", "d" }, { "bytes = 16", "b" }, { "bytes != 16", "d" },
        { "op = add", "d" }, { "op ~ d", "d" }, { "op != add", "" }, { "name ~ fc1 and phase = end", "e" },
        { "ok = 1", "f" }, { "ok = true", "f" }, { "ok = false", "" }, { "t = 60004.8", "d" }, { "t < 2.6", "abf" },
        { "t >= 2.5 and t <= 3", "bc" }, { "seq = 3", "d" }, { "seq > 3", "ef" }, { "iter = 3", "d" },
        { "line = 17", "b" }, { "flow != 0", "d" }, { "depth 2", NULL }, { "depth > 1", "d" },
        { "not rank 0", "def" }, { "not not rank 0", "abc" }, { "rank 0 and device 2 or op", "bd" },
        { "rank 0 and (device 2 or op)", "b" }, { "op or dp or lesson", "abdf" }, { "(((op)))", "d" },
        { "not (op or rank 0)", "ef" }, { "alias = 1", "b" }, { "no.such", NULL }, { "", NULL }, { "(", NULL },
        { "op)", NULL }, { "op and", NULL }, { "and op", NULL }, { "rank", NULL }, { "rank x", NULL }, { "t", NULL },
        { "bytes > ten", NULL }, { "bytes > op", NULL }, { "bytes = bytes", "bd" }, { "devices > chunks", "ac" }, { "rows = offset", "b" },
        { "devices < bucket", "" }, { "bytes ~ 1", NULL }, { "phase = later", NULL }, { "op op", NULL },
        { "'op'", NULL }, { "lane 'open", NULL }, { "!", NULL }, { "rank = nan", NULL }, { "rank = inf", NULL },
        { "rank 1 if op", NULL }, { "op =", NULL }, { "= op", NULL },
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        char why[300] = "", letters[16] = "";
        struct match *match = match_compile(cases[i].expression, &names, why, sizeof why);
        if ((match == NULL) != (cases[i].letters == NULL))
            fail_msg("'%s': %s", cases[i].expression, match == NULL ? why : "compiles");
        if (match == NULL) {
            assert_true(why[0] != '\0');
            continue;
        }
        for (size_t at = 0; at < sizeof events / sizeof events[0]; at++) {
            if (match_event(match, &events[at], at, events[at].time))
                strcat(letters, (char[2]){ (char)('a' + at), '\0' });
        }
        if (strcmp(letters, cases[i].letters) != 0)
            fail_msg("'%s' matches '%s', not '%s'", cases[i].expression, letters, cases[i].letters);
        assert_string_equal(match_text(match), cases[i].expression);
        match_free(match);
    }
}

static void
a_break_takes_a_rank_and_a_condition(void **state)
{
    static const struct { const char *text; unsigned matched; } cases[] = {
        { "op", 1u << 3 }, { "op rank 1", 1u << 3 }, { "op rank 0", 0 }, { "dp rank 0 if bytes > 10", 1u << 1 },
        { "dp if bytes > 100", 0 }, { "op rank 1 device 1 if bytes > 10 and op = add", 1u << 3 },
        { "rank 1 and op or dp.scatter", 1u << 3 | 1u << 0 },
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        char why[300] = "";
        struct match *match = match_compile_break(cases[i].text, &names, why, sizeof why);
        if (match == NULL)
            fail_msg("'%s': %s", cases[i].text, why);
        unsigned matched = 0;
        for (size_t at = 0; at < sizeof events / sizeof events[0]; at++)
            matched |= (unsigned)match_event(match, &events[at], at, events[at].time) << at;
        assert_int_equal(matched, cases[i].matched);
        match_free(match);
    }
    char why[300];
    assert_null(match_compile_break("op if", &names, why, sizeof why));
    assert_null(match_compile_break("op rank 1 op", &names, why, sizeof why));
}

static void
a_wrong_name_is_answered_with_the_right_one(void **state)
{
    static const struct { const char *expression, *why; } cases[] = {
        { "dp.sctter", "unknown kind 'dp.sctter'; did you mean dp.scatter?" },
        { "ddp.mark_bucket_raedy", "unknown kind 'ddp.mark_bucket_raedy'; did you mean ddp.mark_bucket_ready?" },
        { "byts > 3", "unknown field 'byts'; did you mean bytes?" },
        { "rnak = 3", "unknown field 'rnak'; did you mean rank?" },
        { "xyzzyxyzzy", "unknown kind 'xyzzyxyzzy'" },
        { "bytes > ten", "bytes needs a number, not 'ten'" },
        { "rank", "a value is missing behind 'rank'" },
        { "iter", "a comparison is missing behind 'iter'" },
        { "op rank 1", "and, or, or the end is expected at 'rank'" },
        { "(op", "a ')' is missing" },
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        char why[300] = "";
        assert_null(match_compile(cases[i].expression, &names, why, sizeof why));
        assert_string_equal(why, cases[i].why);
    }
}

static void
hostile_expressions_are_refused(void **state)
{
    char deep[9000], why[300];
    memset(deep, '(', 5000);
    deep[5000] = '\0';
    assert_null(match_compile(deep, &names, why, sizeof why));
    assert_string_equal(why, "the expression is nested too deeply");
    for (int i = 0; i < 2000; i++)
        memcpy(deep + 4 * i, "not ", 4);
    strcpy(deep + 8000, "op");
    assert_null(match_compile(deep, &names, why, sizeof why));
    memset(deep, 'a', 5000);
    deep[5000] = '\0';
    assert_null(match_compile(deep, &names, why, sizeof why));
    deep[0] = '\0';
    for (int i = 0; i < 1000; i++)
        memcpy(deep + 6 * i, "op or ", 6);
    strcpy(deep + 6000, "op");
    struct match *match = match_compile(deep, &names, why, sizeof why); /* long is not deep */
    assert_non_null(match);
    assert_true(match_event(match, &events[3], 3, 0));
    match_free(match);

    static const char *const words[] = { "op", "(", ")", "and", "or", "not", "rank", "=", "!=", "~", "1", "'x'", "if",
                                         "phase", "end", "bytes", "dp.*", "lane", "<", "-", ".", "kind", "\"" };
    uint64_t random = 1;
    for (int i = 0; i < 20000; i++) {
        deep[0] = '\0';
        for (uint64_t k = splitmix(&random) % 12; k > 0; k--) {
            strcat(deep, words[splitmix(&random) % (sizeof words / sizeof words[0])]);
            strcat(deep, " ");
        }
        match = i % 2 == 0 ? match_compile(deep, &names, why, sizeof why)
                           : match_compile_break(deep, &names, why, sizeof why);
        for (size_t at = 0; match != NULL && at < sizeof events / sizeof events[0]; at++)
            match_event(match, &events[at], at, 0);
        match_free(match);
    }
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_grammar_means_what_it_says),
        cmocka_unit_test(a_break_takes_a_rank_and_a_condition),
        cmocka_unit_test(a_wrong_name_is_answered_with_the_right_one),
        cmocka_unit_test(hostile_expressions_are_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
