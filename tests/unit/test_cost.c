/* What things cost: the presets, the lesson's own prices, rounding, hostile values. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <cmocka.h>

#include <math.h>
#include <string.h>

#include "hw/cost.h"
#include "hw/presets.h"

static void
the_classroom_prices_are_round(void **state)
{
    struct cost_model model;
    bool named = true;
    assert_true(cost_preset(&model, "classroom"));
    assert_int_equal(cost_host(&model), 1000000);
    assert_int_equal(cost_kernel(&model, "mm", "Linear", &named), 10000000);
    assert_false(named);
    assert_int_equal(cost_copy(&model, 0), 10000000);
    assert_int_equal(cost_copy(&model, 16), 10001600);
    assert_int_equal(cost_copy(&model, 25000000), (uint64_t)2510 * 1000000);
}

static void
an_op_is_found_before_its_module(void **state)
{
    struct cost_model model;
    bool named = false;
    assert_true(cost_preset(&model, "classroom"));
    assert_true(cost_set(&model, "Linear", 20));
    assert_true(cost_set(&model, "mm", 0.25));
    assert_int_equal(cost_kernel(&model, "mm", "Linear", &named), 250000);
    assert_true(named);
    assert_int_equal(cost_kernel(&model, "add", "Linear", NULL), 20000000);
    assert_int_equal(cost_kernel(&model, NULL, NULL, &named), 10000000);
    assert_false(named);
    assert_true(cost_set(&model, "mm", 3));
    assert_int_equal(model.item_count, 2);
    assert_int_equal(cost_kernel(&model, "mm", NULL, NULL), 3000000);
}

static void
prices_that_make_no_sense_are_refused(void **state)
{
    struct cost_model model;
    assert_false(cost_preset(&model, "abacus"));
    assert_true(cost_preset(&model, "classroom"));
    assert_false(cost_set(&model, "host", -1));
    assert_false(cost_set(&model, "host", NAN));
    assert_false(cost_set(&model, "host", INFINITY));
    assert_false(cost_set(&model, "host", 1.1e12));
    assert_false(cost_set(&model, "bandwidth", 0));
    assert_false(cost_set(&model, "", 1));
    assert_false(cost_set(&model, "a_name_that_is_as_long_as_the_field_for_names_is_", 1));
    for (int i = 0; i < 64; i++) {
        char name[16];
        snprintf(name, sizeof name, "op%d", i);
        assert_true(cost_set(&model, name, i));
    }
    assert_false(cost_set(&model, "op64", 1));
    assert_true(cost_set(&model, "op63", 1));
}

static void
prices_are_rounded_half_up_once_and_saturate(void **state)
{
    assert_int_equal(cost_us(0.0000005), 1);
    assert_int_equal(cost_us(0.0000004), 0);
    assert_int_equal(cost_us(125.0624), 125062400);
    assert_int_equal(cost_us(-3), 0);
    assert_int_equal(cost_us(NAN), 0);
    assert_true(cost_us(1e300) == (uint64_t)1 << 62);
    struct cost_model model;
    assert_true(cost_preset(&model, "classroom"));
    assert_true(cost_set(&model, "bandwidth", 1e-9));
    assert_true(cost_copy(&model, UINT64_MAX) == (uint64_t)1 << 62);
}

static void
the_model_says_what_it_is_and_never_writes_past_the_end(void **state)
{
    struct cost_model model;
    char text[200], small[20];
    assert_true(cost_preset(&model, "classroom"));
    assert_true(cost_set(&model, "Linear_backward", 500));
    cost_print(&model, text, sizeof text);
    assert_string_equal(text, "classroom: host 1 us, kernel 10 us, hop 10 us + bytes / (10000 B/us), "
                              "Linear_backward 500 us");
    memset(small, 'x', sizeof small);
    cost_print(&model, small, 10);
    assert_string_equal(small, "classroom");
    assert_int_equal(small[10], 'x');
    cost_print(&model, small, 0);
}

static void
every_preset_is_listed_and_dearer_than_nothing(void **state)
{
    const char *const *names = cost_presets();
    size_t count = 0;
    for (; names[count] != NULL; count++) {
        struct cost_model model;
        assert_true(cost_preset(&model, names[count]));
        assert_string_equal(preset_at(count)->name, names[count]);
        assert_true(cost_copy(&model, 1 << 20) > cost_copy(&model, 0));
    }
    assert_int_equal(count, preset_count());
    assert_null(preset_at(count));
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_classroom_prices_are_round),
        cmocka_unit_test(an_op_is_found_before_its_module),
        cmocka_unit_test(prices_that_make_no_sense_are_refused),
        cmocka_unit_test(prices_are_rounded_half_up_once_and_saturate),
        cmocka_unit_test(the_model_says_what_it_is_and_never_writes_past_the_end),
        cmocka_unit_test(every_preset_is_listed_and_dearer_than_nothing),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
