/* Tests of base/math.h, base/draw_math.h, tensor/cpu/rounded.h and tensor/cpu/approximate.h: against the C library's
 * functions of long double, whose last digits are 2^-11 of a double's. Where long double is no wider, as on Apple's
 * machines, they are skipped. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <cmocka.h>

#include <float.h>
#include <math.h>
#include <stdlib.h>
#include "base/draw_math.h"
#include "base/math.h"
#include "base/math_tables.h"
#include "base/number.h"
#include "base/rng.h"
#include "base/vec.h"
#include "tensor/cpu/approximate.h"
#include "tensor/cpu/rounded.h"

enum { VALUES = 200000 };

static void
want_wide_numbers(void)
{
    if (LDBL_MANT_DIG < 64)
        skip();
}

static double
fraction(uint64_t *seed)
{
    return (double)(splitmix(seed) >> 11) * 0x1p-53;
}

/* From low to high; of_sizes: all powers of two alike, with either sign. */
struct range { double low, high; bool of_sizes; };

static double
draw(const struct range *range, uint64_t *seed)
{
    if (!range->of_sizes)
        return range->low + (range->high - range->low) * fraction(seed);
    double power = log2(range->low) + (log2(range->high) - log2(range->low)) * fraction(seed);
    double size  = ldexp(1 + fraction(seed), (int)floor(power));
    size = size < range->low ? range->low : size > range->high ? range->high : size;
    return splitmix(seed) & 1 ? -size : size;
}

/* In units of the last place of a double of the size of `truth`. */
static double
error_of(double got, long double truth)
{
    int exponent;
    frexpl(truth, &exponent);
    int unit = exponent - DBL_MANT_DIG < -1074 ? -1074 : exponent - DBL_MANT_DIG;
    if ((long double)got == truth)
        return 0;
    return (double)ldexpl(fabsl((long double)got - truth), -unit);
}

/* ---- functions of one number ---- */

struct one {
    const char  *name;
    double     (*function)(double x);
    long double (*truth)(long double x);
    struct range range[3];
    double       bound;
};

static const struct one ones[] = {
    { "exp",   math_exp,   expl,   { { -708, 709, false }, { 1e-20, 1, true }, { -1, 1, false } },        0.51 },
    { "exp2",  math_exp2,  exp2l,  { { -1022, 1023, false }, { 1e-20, 1, true }, { -1, 1, false } },      0.51 },
    { "expm1", math_expm1, expm1l, { { 1e-20, 700, true }, { -1, 1, false }, { -40, 40, false } },        0.6 },
    { "log",   math_log,   logl,   { { 0, 1, false }, { 0.99, 1.01, false }, { 0x1p-1022, 1e308, false } }, 0.51 },
    { "log2",  math_log2,  log2l,  { { 0, 1, false }, { 0.99, 1.01, false }, { 0, 1e300, false } },       0.51 },
    { "log10", math_log10, log10l, { { 0, 1, false }, { 0.99, 1.01, false }, { 0, 1e300, false } },       0.51 },
    { "log1p", math_log1p, log1pl, { { -1, 1, false }, { 1e-20, 0.999, true }, { 0, 1e300, false } },     0.51 },
    { "sin",   math_sin,   sinl,   { { -7, 7, false }, { 1e-9, 1e6, true }, { 1e6, 1e300, true } },       0.51 },
    { "cos",   math_cos,   cosl,   { { -7, 7, false }, { 1e-9, 1e6, true }, { 1e6, 1e300, true } },       0.51 },
    { "tan",   math_tan,   tanl,   { { -7, 7, false }, { 1e-9, 1e6, true }, { 1e6, 1e300, true } },       0.51 },
    { "asin",  math_asin,  asinl,  { { -1, 1, false }, { 1e-9, 1, true }, { 0.99, 1, false } },           0.7 },
    { "acos",  math_acos,  acosl,  { { -1, 1, false }, { 1e-9, 1, true }, { 0.99, 1, false } },           0.7 },
    { "atan",  math_atan,  atanl,  { { -5, 5, false }, { 1e-9, 1e9, true }, { 0.4, 0.5, false } },        0.7 },
    { "sinh",  math_sinh,  sinhl,  { { -5, 5, false }, { 1e-9, 710, true }, { -710, 710, false } },       0.51 },
    { "cosh",  math_cosh,  coshl,  { { -5, 5, false }, { 1e-9, 710, true }, { -710, 710, false } },       0.51 },
    { "tanh",  math_tanh,  tanhl,  { { -5, 5, false }, { 1e-9, 30, true }, { -0.01, 0.01, false } },      0.51 },
    { "erf",   math_erf,   erfl,   { { -3, 3, false }, { 1e-9, 6, true }, { 0.9, 1.1, false } },          0.7 },
    { "draw_log",   draw_log,   logl,   { { 0x1p-53, 1, false }, { 0.9, 1, false }, { 0.93, 0.94, false } }, 0.53 },
    { "draw_log1p", draw_log1p, log1pl, { { -0.9999999999, 0, false }, { 1e-9, 0.9, true }, { 0, 1e9, false } }, 0.81 },
};

static void
functions_of_one_number_keep_their_bounds(void **state)
{
    want_wide_numbers();
    for (const struct one *one = ones; one < ones + countof(ones); one++) {
        uint64_t seed = 1;
        double   worst = 0, where = 0;
        for (int i = 0; i < VALUES; i++) {
            double x = draw(&one->range[i % 3], &seed), error = error_of(one->function(x), one->truth(x));
            if (!(error <= worst)) {
                worst = error;
                where = x;
            }
        }
        if (!(worst <= one->bound))
            fail_msg("%s errs by %.4f at %a", one->name, worst, where);
    }
}

/* Where nearly all digits cancel: the doubles next to multiples of pi/2, and the one that is nearest of all. */
static double
worst_near_multiples(double (*function)(double x), long double (*truth)(long double x))
{
    const double nearest = 0x1.6ac5b262ca1ffp+849;
    double       worst = error_of(function(nearest), truth(nearest));
    for (int n = 1; n < 3 * VALUES; n++) {
        double x = (double)(n * 0xc.90fdaa22168c235p-3L);
        worst = fmax(worst, error_of(function(x), truth(x)));
    }
    return worst;
}

static void
circles_keep_their_bounds_next_to_multiples_of_a_quarter(void **state)
{
    want_wide_numbers();
    assert_true(worst_near_multiples(math_sin, sinl) <= 0.51);
    assert_true(worst_near_multiples(math_cos, cosl) <= 0.51);
    assert_true(worst_near_multiples(math_tan, tanl) <= 0.51);
}

/* Below the normal numbers a result is rounded twice. */
static void
results_below_the_normal_numbers_err_by_less_than_one(void **state)
{
    want_wide_numbers();
    uint64_t     seed = 2;
    double       worst = 0;
    struct range powers = { -745, -708, false }, bases = { 1e-300, 0.9, false }, sizes = { 0x1p-1073, 0x1p-1022, true };
    for (int i = 0; i < VALUES; i++) {
        double x = draw(&powers, &seed), base = draw(&bases, &seed), y = x / log(base), least = draw(&sizes, &seed);
        worst = fmax(worst, error_of(math_exp(x), expl(x)));
        worst = fmax(worst, error_of(math_exp2(x * 1.442), exp2l((long double)(x * 1.442))));
        worst = fmax(worst, error_of(math_pow(base, y), powl(base, y)));
        worst = fmax(worst, error_of(math_erf(least), erfl(least)));
    }
    if (!(worst <= 0.76))
        fail_msg("below the normal numbers one errs by %.4f", worst);
}

static void
pow_keeps_its_bound(void **state)
{
    want_wide_numbers();
    uint64_t seed = 3;
    double   worst = 0;
    for (int i = 0; i < VALUES; i++) {
        struct range bases = { i & 1 ? 0.9 : 1e-300, i & 1 ? 1.1 : 1e300, false };
        bases.of_sizes = !(i & 1);
        double x = fabs(draw(&bases, &seed)), most = fmin(700, 700 / fabs(log(x)));
        double y = (2 * fraction(&seed) - 1) * most, whole = trunc(y);
        worst = fmax(worst, error_of(math_pow(x, y), powl(x, y)));
        worst = fmax(worst, error_of(math_pow(-x, whole), powl(-x, whole)));
    }
    if (!(worst <= 0.52))
        fail_msg("pow errs by %.4f", worst);
}

static void
atan2_keeps_its_bound(void **state)
{
    want_wide_numbers();
    uint64_t seed = 4;
    double   worst = 0;
    for (int i = 0; i < VALUES; i++) {
        struct range range = { i & 1 ? -3 : 1e-300, i & 1 ? 3 : 1e300, !(i & 1) };
        double y = draw(&range, &seed), x = draw(&range, &seed);
        if (fabs(y / x) < 0x1p-1000)
            continue;
        double error = error_of(math_atan2(y, x), atan2l(y, x));
        worst = error > worst ? error : worst;
    }
    if (!(worst <= 0.71))
        fail_msg("atan2 errs by %.4f", worst);
}

static void
draws_sine_and_cosine_keep_their_bound(void **state)
{
    want_wide_numbers();
    uint64_t     seed = 6;
    double       worst = 0;
    struct range turn = { 0, 6.283185307179586, false }, far = { 0, 0x1p26, false };
    for (int i = 0; i < VALUES; i++) {
        double sine, cosine, x = draw(i % 4 ? &turn : &far, &seed);
        draw_sincos(x, &sine, &cosine);
        worst = fmax(worst, fmax(error_of(sine, sinl(x)), error_of(cosine, cosl(x))));
    }
    if (!(worst <= 0.56))
        fail_msg("the sine of draws errs by %.4f", worst);
}

/* glibc 2.36's on a CPU that fuses gave this sum of bits; the goldens of random numbers hold a few by themselves. */
static void
draws_have_the_bits_of_the_library_under_pytorch(void **state)
{
    uint64_t seed = 7, sum = 0;
    for (int i = 0; i < VALUES; i++) {
        double u = fraction(&seed), sine, cosine;
        draw_sincos(6.283185307179586 * u, &sine, &cosine);
        sum = sum * 31 + bits_of_double(draw_log(1 - u));
        sum = sum * 31 + bits_of_double(draw_log1p(-u));
        sum = sum * 31 + bits_of_double(sine);
        sum = sum * 31 + bits_of_double(cosine);
    }
    assert_int_equal(sum, 0x02cb507ecddbb5f8);
}

/* ---- what has no digits ---- */

struct special { double (*function)(double x); double x, result; };

static void
special_numbers_answer_as_in_c(void **state)
{
    const double inf = INFINITY, least = 0x1p-1074, pi = 3.141592653589793;
    const struct special specials[] = {
        { math_exp, 0, 1 },          { math_exp, -0.0, 1 },       { math_exp, -inf, 0 },       { math_exp, inf, inf },
        { math_exp, 710, inf },      { math_exp, -746, 0 },       { math_exp, NAN, NAN },      { math_exp, least, 1 },
        { math_exp2, 10, 1024 },     { math_exp2, -1074, least }, { math_exp2, 1024, inf },    { math_exp2, -inf, 0 },
        { math_expm1, -0.0, -0.0 },  { math_expm1, -inf, -1 },    { math_expm1, inf, inf },    { math_expm1, least, least },
        { math_log, 0, -inf },       { math_log, -0.0, -inf },    { math_log, 1, 0 },          { math_log, -1, NAN },
        { math_log, inf, inf },      { math_log, -inf, NAN },     { math_log, NAN, NAN },      { math_log2, 8, 3 },
        { math_log2, least, -1074 }, { math_log10, 1000, 3 },     { math_log10, 1e22, 22 },    { math_log1p, -1, -inf },
        { math_log1p, -0.0, -0.0 },  { math_log1p, -2, NAN },     { math_log1p, inf, inf },    { math_log1p, least, least },
        { math_sin, -0.0, -0.0 },    { math_sin, inf, NAN },      { math_cos, inf, NAN },      { math_cos, 0, 1 },
        { math_tan, -0.0, -0.0 },    { math_tan, -inf, NAN },     { math_asin, 1, pi / 2 },    { math_asin, 1.1, NAN },
        { math_asin, -0.0, -0.0 },   { math_acos, 1, 0 },         { math_acos, -1, pi },       { math_acos, 0, pi / 2 },
        { math_atan, inf, pi / 2 },  { math_atan, -inf, -pi / 2 }, { math_atan, -0.0, -0.0 },  { math_sinh, -inf, -inf },
        { math_sinh, -0.0, -0.0 },   { math_cosh, -inf, inf },    { math_cosh, 0, 1 },         { math_tanh, inf, 1 },
        { math_tanh, -inf, -1 },     { math_tanh, -0.0, -0.0 },   { math_erf, inf, 1 },        { math_erf, -inf, -1 },
        { math_erf, -0.0, -0.0 },    { math_erf, NAN, NAN },      { math_sinh, NAN, NAN },     { math_cosh, NAN, NAN },
    };
    for (const struct special *s = specials; s < specials + countof(specials); s++) {
        double got = s->function(s->x);
        if (!(isnan(s->result) ? isnan(got) : got == s->result && signbit(got) == signbit(s->result)))
            fail_msg("special %zu: of %a came %a, not %a", (size_t)(s - specials), s->x, got, s->result);
    }
}

/* To the last digits; the sign of zeros counts. */
static bool
are_one(double a, double b)
{
    return isnan(b) ? isnan(a) : signbit(a) == signbit(b) && (a == b || fabs(a / b - 1) < 1e-15);
}

static void
special_powers_and_angles_answer_as_in_c(void **state)
{
    static const double numbers[] = { 0,   -0.0, 1, -1, INFINITY, -INFINITY, NAN,    0x1p-1074,  -0x1p-1074, 2,      -2,
                                      0.5, -0.5, 3, -3, 1e308,    -1e308,    0x1p53, 0x1p53 - 1, 1e-300,     0x1.fp-1, 7.5 };
    for (size_t i = 0; i < countof(numbers); i++)
        for (size_t j = 0; j < countof(numbers); j++) {
            double x = numbers[i], y = numbers[j], p = math_pow(x, y), a = math_atan2(x, y);
            double wanted = (double)powl(x, y), angle = (double)atan2l(x, y);
            assert_true(are_one(p, wanted) && are_one(a, angle));
        }
}

/* ---- tables ---- */

static bool
holds(double part, double rest, long double truth)
{
    return fabsl((long double)part + (long double)rest - truth) <= ldexpl(1, -63) * (fabsl(truth) + ldexpl(1, -10)) &&
           part == (double)((long double)part) && (bits_of_double(part) & ((1u << 27) - 1)) == 0;
}

static void
tables_hold_what_they_say(void **state)
{
    want_wide_numbers();
    for (int j = 0; j < 32; j++)
        assert_true(holds(power_row(j)[0], power_row(j)[1], exp2l(j / 32.0L)));
    for (int j = 0; j < 110; j++) {
        const double *row = turn_row(j);
        assert_true(holds(row[0], row[1], sinl(j / 128.0L)) && holds(row[2], row[3], cosl(j / 128.0L)));
    }
    for (int j = 0; j < 128; j++) {
        const double *row = log_row(j);
        assert_true(row[1] * 0x1p43 == rint(row[1] * 0x1p43) && fabs(row[2]) <= 0x1p-44);
        assert_true(fabsl((long double)row[1] + row[2] + logl(row[0])) < 0x1p-64L);
    }
}

/* ---- float32 ---- */

struct of_float { const char *name; float (*function)(float x); double (*truth)(double x); };

static float sine_of(float x) { return rounded_sin(x); }
static float cosine_of(float x) { return rounded_cos(x); }
static float exp_of(float x) { return rounded_exp(x); }
static float log_of(float x) { return rounded_log(x); }
static float tanh_of(float x) { return rounded_tanh(x); }

/* Those of double are right to 0.51 units, 2^-29 of a float's: which float is the nearest they tell but for ties. */
static void
functions_of_float_are_the_nearest_float(void **state)
{
    static const struct of_float functions[] = {
        { "exp", exp_of, math_exp }, { "log", log_of, math_log },      { "tanh", tanh_of, math_tanh },
        { "sin", sine_of, math_sin }, { "cos", cosine_of, math_cos },
    };
    uint64_t step = getenv("RINGSIDE_LONG") != NULL ? 1 : 21001;
    for (const struct of_float *f = functions; f < functions + countof(functions); f++) {
        for (uint64_t bits = 0; bits <= UINT32_MAX; bits += step) {
            float  x = float_of_bits((uint32_t)bits), got = f->function(x);
            double truth = f->truth((double)x);
            float  nearest = (float)truth;
            if (got == nearest ? signbit(got) == signbit(nearest) : isnan(got) && isnan(nearest))
                continue;
            float other = nextafterf(nearest, truth > (double)nearest ? INFINITY : -INFINITY);
            double half = fabs((double)other - truth) / fabs((double)other - (double)nearest);
            if (!(got == other && half <= 0.5001))
                fail_msg("%s of %a is %a, not %a", f->name, (double)x, (double)got, (double)nearest);
        }
    }
}

/* In units of the last place of a float. */
static double
float_error(float got, double truth)
{
    int exponent;
    frexp(truth, &exponent);
    return ldexp(fabs((double)got - truth), FLT_MANT_DIG - exponent);
}

static void
approximate_functions_keep_their_bounds(void **state)
{
    uint64_t seed = 8;
    double   of_exp = 0, of_tanh = 0, of_sigmoid = 0, of_erf = 0;
    for (int i = 0; i < VALUES; i++) {
        float far = (float)(160 * fraction(&seed) - 80), x = (float)(12 * fraction(&seed) - 6);
        of_exp     = fmax(of_exp, float_error(near_exp(far), math_exp((double)far)));
        of_sigmoid = fmax(of_sigmoid, float_error(near_sigmoid(far), 1 / (1 + math_exp(-(double)far))));
        of_tanh    = fmax(of_tanh, float_error(near_tanh(x), math_tanh((double)x)));
        of_erf     = fmax(of_erf, fabs((double)near_erf(x, near_exp(-x * x)) - math_erf((double)x)));
    }
    if (!(of_exp <= 1 && of_tanh <= 1.3 && of_sigmoid <= 2.5 && of_erf <= 6e-7))
        fail_msg("exp errs by %.3f, tanh by %.3f, sigmoid by %.3f units, erf by %g", of_exp, of_tanh, of_sigmoid, of_erf);
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(functions_of_one_number_keep_their_bounds),
        cmocka_unit_test(circles_keep_their_bounds_next_to_multiples_of_a_quarter),
        cmocka_unit_test(results_below_the_normal_numbers_err_by_less_than_one),
        cmocka_unit_test(pow_keeps_its_bound),
        cmocka_unit_test(atan2_keeps_its_bound),
        cmocka_unit_test(draws_sine_and_cosine_keep_their_bound),
        cmocka_unit_test(draws_have_the_bits_of_the_library_under_pytorch),
        cmocka_unit_test(special_numbers_answer_as_in_c),
        cmocka_unit_test(special_powers_and_angles_answer_as_in_c),
        cmocka_unit_test(tables_hold_what_they_say),
        cmocka_unit_test(functions_of_float_are_the_nearest_float),
        cmocka_unit_test(approximate_functions_keep_their_bounds),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
