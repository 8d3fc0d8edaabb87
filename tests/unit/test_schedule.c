/* Schedules as text: what is written is read again, and what is none is refused with its line. */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>
#include <string.h>
#include "base/str.h"
#include "sched/schedule.h"

static struct schedule
read_good(const char *text)
{
    struct schedule schedule;
    char            why[200] = "";
    bool            good     = schedule_read(&schedule, text, why, sizeof why);
    assert_string_equal(why, "");
    assert_true(good);
    return schedule;
}

static void
refuse(const char *text, const char *reason)
{
    struct schedule schedule;
    char            why[200] = "";
    assert_false(schedule_read(&schedule, text, why, sizeof why));
    assert_non_null(strstr(why, reason));
}

static void
what_is_written_is_read_again(void **state)
{
    (void)state;
    struct str            text = { 0 };
    struct schedule       schedule = { .lesson = "12-two-senders" };
    struct schedule_step  first = { .from = "r0 main", .run = "r1 isend#2", .point = 12, .line = 7 };
    struct schedule_step  second = { .from = "dp worker 1#3", .run = "main", .point = UINT64_MAX };
    struct fault          fault = { .kind = FAULT_LATE, .rank = 1, .peer = -1, .at = 3, .ps = 5000000 };
    assert_true(schedule_add(&schedule, &first) && schedule_add(&schedule, &second));
    assert_true(fault_plan_add(&schedule.faults, &fault));
    schedule_print(&schedule, &text);
    assert_string_equal(str_text(&text), "ringside schedule 1\nlesson 12-two-senders\nfault late 1 at 3 by 5 us\n"
                                         "at 12 of \"r0 main\" run \"r1 isend#2\"  # line 7\n"
                                         "at 18446744073709551615 of \"dp worker 1#3\" run \"main\"\n");
    struct schedule again = read_good(str_text(&text));
    assert_string_equal(again.lesson, "12-two-senders");
    assert_int_equal(again.count, 2);
    assert_string_equal(again.steps[0].run, "r1 isend#2");
    assert_int_equal(again.steps[0].point, 12);
    assert_true(again.steps[1].point == UINT64_MAX);
    assert_int_equal(again.faults.count, 1);
    assert_int_equal(again.faults.faults[0].ps, 5000000);
    schedule_free(&again);
    schedule_free(&schedule);
    str_free(&text);
}

static void
words_for_people_are_passed_over(void **state)
{
    (void)state;
    struct schedule schedule = read_good("ringside schedule 1\n\n# found by hand\n"
                                         "at 1 of \"a\" run \"b\"   # because\nlesson x");
    assert_int_equal(schedule.count, 1);
    assert_string_equal(schedule.lesson, "x");
    schedule_free(&schedule);
    schedule = read_good("ringside schedule 1");
    assert_int_equal(schedule.count + schedule.faults.count, 0);
    schedule_free(&schedule);
}

static void
what_is_no_schedule_is_refused(void **state)
{
    (void)state;
    refuse("", "it is empty");
    refuse("ringside schedule 2\n", "its first line is not 'ringside schedule 1'");
    refuse("ringside schedule 1\nat 1 of \"a\" run \"b\" twice\n", "its line 2");
    refuse("ringside schedule 1\nat 1 of \"a\" run \"b\"# near\n", "its line 2");
    refuse("ringside schedule 1\n\nat 1 of \"a\"\n", "its line 3");
    refuse("ringside schedule 1\nat -x of \"a\" run \"b\"\n", "its line 2");
    refuse("ringside schedule 1\nfault flood 1\n", "its line 2");
    char line[900] = "ringside schedule 1\nat 1 of \"";
    memset(line + strlen(line), 'n', 600);
    strcat(line, "\" run \"b\"\n");
    refuse(line, "its line 2");
}

static void
a_copy_lets_go_of_what_it_held(void **state)
{
    (void)state;
    struct schedule from = read_good("ringside schedule 1\nlesson a\nfault kill 2 at 40\nat 1 of \"a\" run \"b\"\n");
    struct schedule copy = read_good("ringside schedule 1\nlesson b\nat 2 of \"c\" run \"d\"\nat 3 of \"c\" run \"d\"\n");
    assert_true(schedule_copy(&copy, &from));
    assert_int_equal(copy.count, 1);
    assert_string_equal(copy.steps[0].from, "a");
    assert_string_equal(copy.lesson, "a");
    assert_int_equal(copy.faults.count, 1);
    schedule_free(&from);
    assert_int_equal(copy.faults.faults[0].at, 40);
    schedule_free(&copy);
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_is_written_is_read_again),
        cmocka_unit_test(words_for_people_are_passed_over),
        cmocka_unit_test(what_is_no_schedule_is_refused),
        cmocka_unit_test(a_copy_lets_go_of_what_it_held),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
