/* The libraries' products beside a plain sum in double: every layout, both types, shapes on both sides of the choice
 * between them, in pieces where an operand has to be packed; and what is refused. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>
#include "base/dtype.h"
#include "tensor/cpu/convert.h"
#include "tensor/internal.h"

enum layout { ROWS, COLUMNS, SPACED, EXPANDED, REPEATED, LAYOUTS }; /* one element; one row again and again */

static double
value_at(const struct cpu_view *view, int64_t i, int64_t j)
{
    int64_t at = i * view->stride[0] + j * view->stride[1];
    return view->dtype == DTYPE_F32 ? (double)((float *)view->data)[at] : ((double *)view->data)[at];
}

static struct cpu_view
matrix_new(enum dtype dtype, enum layout layout, int64_t rows, int64_t columns)
{
    struct cpu_view view = { .dtype = dtype, .dims = 2, .size = { rows, columns } };
    size_t          room = (size_t)(rows * columns) * 2 + 2;
    bool            one_row = layout == EXPANDED || layout == REPEATED;
    view.stride[0] = layout == COLUMNS ? 1 : layout == SPACED ? 2 * columns : one_row ? 0 : columns;
    view.stride[1] = layout == COLUMNS ? rows : layout == SPACED ? 2 : layout == EXPANDED ? 0 : 1;
    view.data      = calloc(room, dtype_size(dtype));
    assert_non_null(view.data);
    for (size_t i = 0; i < room; i++) {
        double x = (double)((i * 7919 + 13) % 17) - 8;
        cpu_convert_one((char *)view.data + i * dtype_size(dtype), dtype, &x, DTYPE_F64);
    }
    return view;
}

/* Small whole numbers: the sums are exact in either type. */
static void
compare(struct blas *blas, enum dtype dtype, enum layout left, enum layout right, const int64_t size[3], bool add)
{
    struct cpu_view a = matrix_new(dtype, left, size[0], size[1]), b = matrix_new(dtype, right, size[1], size[2]);
    struct cpu_view out = matrix_new(dtype, ROWS, size[0], size[2]), old = matrix_new(dtype, ROWS, size[0], size[2]);
    if (dtype == DTYPE_F64 && blas->dgemm == NULL)
        assert_false(blas_mm(blas, &a, &b, &out, add));
    else
        assert_true(blas_mm(blas, &a, &b, &out, add));
    for (int64_t i = 0; i < size[0] && (dtype == DTYPE_F32 || blas->dgemm != NULL); i++)
        for (int64_t j = 0; j < size[2]; j++) {
            double sum = add ? value_at(&old, i, j) : 0;
            for (int64_t p = 0; p < size[1]; p++)
                sum += value_at(&a, i, p) * value_at(&b, p, j);
            if (value_at(&out, i, j) != sum)
                fail_msg("%lld x %lld x %lld, layouts %d and %d: %g instead of %g", (long long)size[0],
                         (long long)size[1], (long long)size[2], (int)left, (int)right, value_at(&out, i, j), sum);
        }
    free(a.data);
    free(b.data);
    free(out.data);
    free(old.data);
}

static void
every_layout_and_shape_is_right(void **state)
{
    static const int64_t sizes[][3] = { { 1, 1, 1 }, { 6, 10, 10 }, { 1, 10, 1 }, { 64, 128, 10 }, { 10, 384, 10 },
                                        { 130, 70, 101 }, { 3, 1500, 120 } };
    struct blas blas;
    if (!blas_open(&blas))
        skip();
    struct blas only_openblas = blas, only_onednn = blas;
    only_openblas.dnnl = NULL;
    only_onednn.sgemm = NULL;
    only_onednn.dgemm = NULL;
    for (size_t i = 0; i < sizeof sizes / sizeof sizes[0]; i++)
        for (int mix = 0; mix < LAYOUTS * LAYOUTS; mix++) {
            compare(&blas, DTYPE_F32, (enum layout)(mix / LAYOUTS), (enum layout)(mix % LAYOUTS), sizes[i], mix & 1);
            compare(&blas, DTYPE_F64, (enum layout)(mix / LAYOUTS), (enum layout)(mix % LAYOUTS), sizes[i], !(mix & 1));
            if (only_openblas.sgemm != NULL)
                compare(&only_openblas, DTYPE_F32, (enum layout)(mix / LAYOUTS), (enum layout)(mix % LAYOUTS), sizes[i],
                        false);
            if (only_onednn.dnnl != NULL)
                compare(&only_onednn, DTYPE_F32, (enum layout)(mix / LAYOUTS), (enum layout)(mix % LAYOUTS), sizes[i],
                        false);
        }
}

/* The exact product, with and without what is there; more than one panel wide and deep. */
static void
exact_sums_begin_at_nothing_or_at_what_is_there(void **state)
{
    static const int64_t sizes[][3] = { { 1, 1, 1 }, { 5, 3, 7 }, { 4, 64, 64 }, { 3, 600, 70 }, { 9, 256, 129 } };
    (void)state;
    for (size_t i = 0; i < 4 * sizeof sizes / sizeof sizes[0]; i++) {
        const int64_t  *n = sizes[i / 4];
        enum dtype      dtype = i & 1 ? DTYPE_F64 : DTYPE_F32;
        bool            add = i & 2;
        struct cpu_call call = { .in = { matrix_new(dtype, ROWS, n[0], n[1]), matrix_new(dtype, COLUMNS, n[1], n[2]) },
                                 .out = matrix_new(dtype, ROWS, n[0], n[2]), .inputs = 2, .compute = dtype };
        struct cpu_view old = matrix_new(dtype, ROWS, n[0], n[2]);
        call.workspace = calloc(1, cpu_mm_workspace(dtype, n[1]));
        (add ? cpu_mm_add : cpu_mm)(&call);
        for (int64_t at = 0; at < n[0] * n[2]; at++) {
            double sum = add ? value_at(&old, at / n[2], at % n[2]) : 0;
            for (int64_t p = 0; p < n[1]; p++)
                sum += value_at(&call.in[0], at / n[2], p) * value_at(&call.in[1], p, at % n[2]);
            assert_true(value_at(&call.out, at / n[2], at % n[2]) == sum);
        }
        free(call.in[0].data);
        free(call.in[1].data);
        free(call.out.data);
        free(call.workspace);
        free(old.data);
    }
}

static void
refuse(struct blas *blas, struct cpu_view a, struct cpu_view b, struct cpu_view out)
{
    assert_false(blas_takes(blas, &a, &b, &out));
    assert_false(blas_mm(blas, &a, &b, &out, false));
    free(a.data);
    free(b.data);
    free(out.data);
}

static void
what_no_library_can_do_is_refused(void **state)
{
    struct blas blas;
    if (!blas_open(&blas))
        skip();
    refuse(&blas, matrix_new(DTYPE_I64, ROWS, 2, 2), matrix_new(DTYPE_I64, ROWS, 2, 2), matrix_new(DTYPE_I64, ROWS, 2, 2));
    refuse(&blas, matrix_new(DTYPE_F32, ROWS, 2, 2), matrix_new(DTYPE_F64, ROWS, 2, 2), matrix_new(DTYPE_F32, ROWS, 2, 2));
    refuse(&blas, matrix_new(DTYPE_F32, ROWS, 2, 0), matrix_new(DTYPE_F32, ROWS, 0, 2), matrix_new(DTYPE_F32, ROWS, 2, 2));
    refuse(&blas, matrix_new(DTYPE_F32, SPACED, 2, 5000), matrix_new(DTYPE_F32, ROWS, 5000, 2),
           matrix_new(DTYPE_F32, ROWS, 2, 2));
    refuse(&blas, matrix_new(DTYPE_F32, ROWS, 2, 3), matrix_new(DTYPE_F32, ROWS, 3, 4),
           matrix_new(DTYPE_F32, COLUMNS, 2, 4));
}

static void
what_is_there_has_a_name(void **state)
{
    char        text[128];
    struct blas blas, none = { 0 };
    bool        any = blas_open(&blas);
    blas_describe(&blas, text, sizeof text);
    assert_int_equal(any, strcmp(text, "none") != 0);
    blas_describe(&none, text, sizeof text);
    assert_string_equal(text, "none");
    assert_string_equal(getenv("OPENBLAS_NUM_THREADS"), "1");
    assert_string_equal(getenv("OMP_NUM_THREADS"), "1");
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_layout_and_shape_is_right),
        cmocka_unit_test(exact_sums_begin_at_nothing_or_at_what_is_there),
        cmocka_unit_test(what_no_library_can_do_is_refused),
        cmocka_unit_test(what_is_there_has_a_name),
    };
    return cmocka_run_group_tests_name("products", tests, NULL, NULL);
}
