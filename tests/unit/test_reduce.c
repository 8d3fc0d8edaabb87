/* What a reduction makes of elements, one dtype and operation at a time. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <math.h>
#include "base/dtype.h"
#include "base/vec.h"
#include "c10d/local.h"

/* As Gloo's: who is asked whether it is less than NaN says no, and ours stays. */
static void
minimum_and_maximum_keep_ours_beside_what_is_no_number(void **state)
{
    (void)state;
    for (int op = REDUCE_MIN; op <= REDUCE_MAX; op++) {
        float  f32[] = { NAN, 1 }, f32_from[] = { 1, NAN };
        double f64[] = { NAN, 1 }, f64_from[] = { 1, NAN };
        reduce_elements(&(struct reduction){ true, (enum reduce_op)op, DTYPE_F32 }, f32, f32_from, sizeof f32);
        reduce_elements(&(struct reduction){ true, (enum reduce_op)op, DTYPE_F64 }, f64, f64_from, sizeof f64);
        assert_true(isnan(f32[0]) && f32[1] == 1);
        assert_true(isnan(f64[0]) && f64[1] == 1);
    }
}

static void
truth_values_stay_truth_values(void **state)
{
    (void)state;
    static const struct { enum reduce_op op; unsigned char both; } cases[] = {
        { REDUCE_SUM, 1 }, { REDUCE_PRODUCT, 0 }, { REDUCE_MIN, 0 }, { REDUCE_MAX, 1 },
    };
    for (size_t i = 0; i < countof(cases); i++) {
        unsigned char into[] = { 1, 1, 0 }, from[] = { 1, 0, 0 };
        reduce_elements(&(struct reduction){ true, cases[i].op, DTYPE_BOOL }, into, from, sizeof into);
        assert_int_equal(into[0], 1);
        assert_int_equal(into[1], cases[i].both);
        assert_int_equal(into[2], 0);
    }
}

static void
a_premultiplied_integer_is_multiplied(void **state)
{
    (void)state;
    int64_t whole[] = { 3, -5 };
    reduce_multiply(DTYPE_I64, whole, sizeof whole, 7);
    assert_int_equal(whole[0], 21);
    assert_int_equal(whole[1], -35);
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(minimum_and_maximum_keep_ours_beside_what_is_no_number),
        cmocka_unit_test(truth_values_stay_truth_values),
        cmocka_unit_test(a_premultiplied_integer_is_multiplied),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
