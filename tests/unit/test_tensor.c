/* Tensors: shapes, types, views, the exact product, sums, losses, copies between devices, printing. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <math.h>
#include <cmocka.h>
#include "base/rng.h"
#include "base/str.h"
#include "base/vec.h"
#include "device/stream.h"
#include "hw/cost.h"
#include "sched/sched.h"
#include "tensor/cpu/convert.h"
#include "base/math.h"
#include "tensor/internal.h"
#include "trace/writer.h"

struct rig { bool (*body)(struct task *me); struct error error; bool succeeded; };

static bool
run_body(struct task *me, void *argument)
{
    struct rig *rig = argument;
    return devices_ready(me, 2) && rig->body(me);
}

static void
run_as(struct rig *rig, enum executor_kind executor, bool (*body)(struct task *me))
{
    char              why[256] = "";
    struct cost_model cost;
    memset(rig, 0, sizeof *rig);
    rig->body = body;
    assert_true(cost_preset(&cost, "classroom"));
    struct trace_options trace = { .clock = executor == EXECUTOR_STEPPED ? CLOCK_VIRTUAL_PS : CLOCK_MONOTONIC_NS };
    struct trace_writer *writer = trace_create(&trace, why, sizeof why);
    assert_non_null(writer);
    struct sched_options options = { .executor = executor, .writer = writer, .cost = &cost };
    struct sched *sched = sched_new(&options, why, sizeof why);
    assert_non_null(sched);
    rig->succeeded = sched_run(sched, run_body, rig, &rig->error);
    devices_free(sched);
    sched_free(sched);
    trace_close(writer);
}

static void
run(bool (*body)(struct task *me))
{
    struct rig rig;
    for (int executor = EXECUTOR_STEPPED; executor <= EXECUTOR_FREE; executor++) {
        run_as(&rig, (enum executor_kind)executor, body);
        if (!rig.succeeded)
            fail_msg("%s", rig.error.message);
    }
}

#define SIZES(...) (int)(sizeof((const int64_t[]){ __VA_ARGS__ }) / sizeof(int64_t)), (const int64_t[]){ __VA_ARGS__ }
#define F32(...) (const float[]){ __VA_ARGS__ }
#define I64(...) (const int64_t[]){ __VA_ARGS__ }
#define RUN(op, ...) op_run(me, OP_##op, &(const struct op_args){ __VA_ARGS__ })

static void
assert_f32(struct task *me, struct tensor *tensor, int count, const float *wanted)
{
    float got[64] = { 0 };
    assert_non_null(tensor);
    assert_int_equal(tensor->dtype, DTYPE_F32);
    assert_int_equal(tensor_count(tensor), count);
    assert_true(tensor_read(me, tensor, got));
    for (int i = 0; i < count; i++) {
        if (got[i] != wanted[i] && !(got[i] != got[i] && wanted[i] != wanted[i]))
            fail_msg("element %d is %.9g, not %.9g", i, (double)got[i], (double)wanted[i]);
    }
}

static void
assert_fails(struct task *me, struct tensor *result, enum error_kind kind, const char *word)
{
    assert_null(result);
    assert_int_equal(me->error.kind, kind);
    if (strstr(me->error.message, word) == NULL)
        fail_msg("\"%s\" is not in: %s", word, me->error.message);
    task_clear_error(me);
}

static void
assert_printed(struct task *me, struct tensor *tensor, const char *wanted)
{
    struct str text = { 0 };
    tensor_print(me, tensor, &text);
    assert_string_equal(str_text(&text), wanted);
    str_free(&text);
}

/* ---- arithmetic ---- */

static bool
adds(struct task *me)
{
    struct tensor *a = tensor_from(me, DTYPE_F32, SIZES(2, 3), F32(1, 2, 3, 4, 5, 6));
    struct tensor *row = tensor_from(me, DTYPE_F32, SIZES(3), F32(10, 20, 30));
    struct tensor *column = tensor_from(me, DTYPE_F32, SIZES(2, 1), F32(100, 200));
    assert_f32(me, RUN(add, .in = { a, row }, .alpha = 1), 6, F32(11, 22, 33, 14, 25, 36));
    assert_f32(me, RUN(sub, .in = { row, column }, .alpha = 1), 6, F32(-90, -80, -70, -190, -180, -170));
    assert_f32(me, RUN(mul, .in = { a, RUN(t, .in = { RUN(t, .in = { a }) }) }), 6, F32(1, 4, 9, 16, 25, 36));
    assert_f32(me, RUN(rsub_scalar, .in = { row }, .alpha = 60), 3, F32(50, 40, 30));
    assert_f32(me, RUN(relu, .in = { RUN(neg, .in = { a }) }), 6, F32(0, 0, 0, 0, 0, 0));
    struct tensor *nothing = tensor_filled(me, tensor_empty(me, DTYPE_F32, DEVICE_CPU, SIZES(1)), NAN);
    assert_f32(me, RUN(relu, .in = { nothing }), 1, F32(NAN));
    assert_fails(me, RUN(add, .in = { a, tensor_zeros(me, DTYPE_F32, DEVICE_CPU, SIZES(2, 2)) }), E_SHAPE,
                 "[2, 3] and [2, 2]");
    assert_null(RUN(add, .in = { a, NULL }));
    assert_false(task_failed(me));

    assert_ptr_equal(RUN(add, .in = { a, row }, .out = a, .alpha = -1), a);
    assert_f32(me, a, 6, F32(-9, -18, -27, -6, -15, -24));
    assert_fails(me, RUN(add, .in = { row, a }, .out = row, .alpha = 1), E_SHAPE, "[3]");
    struct tensor *wide = RUN(expand, .in = { column }, .dims = 2, .sizes = { 2, 3 });
    assert_fails(me, RUN(add_scalar, .in = { wide }, .out = wide, .alpha = 1), E_RUNTIME, "expanded");
    struct tensor *square = tensor_zeros(me, DTYPE_F32, DEVICE_CPU, SIZES(2, 2));
    assert_fails(me, RUN(add, .in = { square, RUN(t, .in = { square }) }, .out = square, .alpha = 1), E_RUNTIME,
                 "share");
    return true;
}

static void
operands_are_stretched_to_one_shape(void **state)
{
    run(adds);
}

static bool
promotes(struct task *me)
{
    struct tensor *f32 = tensor_from(me, DTYPE_F32, SIZES(2), F32(1.5f, 2.5f));
    struct tensor *i64 = tensor_from(me, DTYPE_I64, SIZES(2), I64(1, 2));
    struct tensor *flags = tensor_from(me, DTYPE_BOOL, SIZES(2), (const unsigned char[]){ 1, 0 });
    struct tensor *f64_0 = tensor_number(me, DTYPE_F64, DEVICE_CPU, 2);
    struct tensor *f64 = tensor_filled(me, tensor_empty(me, DTYPE_F64, DEVICE_CPU, SIZES(2)), 2);
    assert_f32(me, RUN(add, .in = { f32, i64 }, .alpha = 1), 2, F32(2.5f, 4.5f));
    assert_f32(me, RUN(mul, .in = { f32, f64_0 }), 2, F32(3, 5));
    assert_int_equal(RUN(mul, .in = { f32, f64 })->dtype, DTYPE_F64);
    assert_int_equal(RUN(mul, .in = { i64, f64_0 })->dtype, DTYPE_F64);
    assert_int_equal(RUN(add, .in = { i64, flags }, .alpha = 1)->dtype, DTYPE_I64);
    assert_int_equal(RUN(add, .in = { flags, flags }, .alpha = 1)->dtype, DTYPE_BOOL);
    assert_f32(me, RUN(div, .in = { i64, i64 }), 2, F32(1, 1));
    assert_int_equal(RUN(add_scalar, .in = { i64 }, .alpha = 1)->dtype, DTYPE_I64);
    assert_f32(me, RUN(add_scalar, .in = { i64 }, .alpha = 1, .flag = true), 2, F32(2, 3));
    assert_f32(me, RUN(mul_scalar, .in = { i64 }, .alpha = 0.5), 2, F32(0.5f, 1));
    assert_int_equal(RUN(add_scalar, .in = { flags }, .alpha = 2)->dtype, DTYPE_I64);
    assert_int_equal(RUN(add_scalar, .in = { flags }, .alpha = 0.5)->dtype, DTYPE_F32);
    assert_int_equal(RUN(gt, .in = { f32, i64 })->dtype, DTYPE_BOOL);
    assert_fails(me, RUN(add_scalar, .in = { i64 }, .out = i64, .alpha = 0.5), E_DTYPE, "desired output type Long");
    assert_fails(me, RUN(sub, .in = { flags, flags }, .alpha = 1), E_NOT_IMPLEMENTED, "bool");
    assert_fails(me, RUN(mean, .in = { i64 }), E_NOT_IMPLEMENTED, "int64");
    assert_int_equal(RUN(sum, .in = { flags })->dtype, DTYPE_I64);
    return true;
}

static void
types_are_promoted_as_in_pytorch(void **state)
{
    run(promotes);
}

/* ---- products ---- */

static struct tensor *
random_matrix(struct task *me, enum dtype dtype, int64_t rows, int64_t columns, bool transposed)
{
    struct tensor *made = tensor_empty(me, dtype, DEVICE_CPU, SIZES(transposed ? columns : rows,
                                                                    transposed ? rows : columns));
    assert_true(tensor_normal(me, made, 0, 1, NULL));
    return transposed ? RUN(t, .in = { made }) : made;
}

static double
element(const struct tensor *tensor, int64_t i, int64_t j)
{
    double          value = 0;
    struct cpu_view view = tensor_raw(tensor);
    char           *at = (char *)view.data +
                         (i * view.stride[0] + j * view.stride[1]) * (int64_t)dtype_size(view.dtype);
    cpu_convert_one(&value, DTYPE_F64, at, view.dtype);
    return value;
}

/* The sum over k in order, rounded after each step. */
static double
naive(const struct tensor *a, const struct tensor *b, int64_t i, int64_t j)
{
    float  single = 0;
    double both = 0;
    for (int64_t k = 0; k < a->size[1]; k++) {
        single += (float)element(a, i, k) * (float)element(b, k, j);
        both += element(a, i, k) * element(b, k, j);
    }
    return a->dtype == DTYPE_F32 ? (double)single : both;
}

static void
check_product(struct task *me, enum dtype dtype, int64_t m, int64_t k, int64_t n, int transposed)
{
    struct tensor *a = random_matrix(me, dtype, m, k, transposed & 1), *b = random_matrix(me, dtype, k, n,
                                                                                           transposed & 2);
    struct tensor *bias = tensor_filled(me, tensor_empty(me, dtype, DEVICE_CPU, SIZES(n)), 0.25);
    struct tensor *c = RUN(mm, .in = { a, b }), *d = RUN(addmm, .in = { bias, a, b });
    assert_non_null(d);
    for (int64_t i = 0; i < m; i++) {
        for (int64_t j = 0; j < n; j++) {
            double wanted = naive(a, b, i, j);
            double biased = dtype == DTYPE_F32 ? (double)((float)wanted + 0.25f) : wanted + 0.25;
            if (element(c, i, j) != wanted || element(d, i, j) != biased)
                fail_msg("%lldx%lldx%lld (%d) differs at %lld, %lld", (long long)m, (long long)k, (long long)n,
                         transposed, (long long)i, (long long)j);
        }
    }
}

static bool
multiplies(struct task *me)
{
    static const int64_t shapes[][3] = { { 1, 1, 1 }, { 4, 3, 64 }, { 5, 300, 70 }, { 9, 256, 33 }, { 3, 513, 129 },
                                         { 2, 0, 3 } };
    for (size_t i = 0; i < countof(shapes); i++) {
        for (int transposed = 0; transposed < 4; transposed++) {
            check_product(me, DTYPE_F32, shapes[i][0], shapes[i][1], shapes[i][2], transposed);
            check_product(me, DTYPE_F64, shapes[i][0], shapes[i][1], shapes[i][2], transposed);
        }
    }
    struct tensor *a = tensor_from(me, DTYPE_I64, SIZES(2, 2), I64(1, 2, 3, 4));
    struct tensor *b = RUN(mm, .in = { a, a });
    assert_int_equal(element(b, 1, 1), 22);
    assert_fails(me, RUN(mm, .in = { a, tensor_zeros(me, DTYPE_F32, DEVICE_CPU, SIZES(2, 2)) }), E_DTYPE, "int64");
    assert_fails(me, RUN(mm, .in = { a, tensor_zeros(me, DTYPE_I64, DEVICE_CPU, SIZES(3, 2)) }), E_SHAPE,
                 "(2x2 and 3x2)");
    return true;
}

static void
the_product_is_the_sum_over_k_in_order_bit_for_bit(void **state)
{
    run(multiplies);
}

/* ---- sums ---- */

static bool
sums(struct task *me)
{
    float many[1000];
    struct tensor *a = tensor_from(me, DTYPE_F32, SIZES(2, 3), F32(1, 2, 3, 4, 5, 6));
    assert_f32(me, RUN(sum, .in = { a }), 1, F32(21));
    assert_f32(me, RUN(mean, .in = { a }), 1, F32(3.5f));
    assert_f32(me, RUN(sum_dim, .in = { a }, .dim = 0), 3, F32(5, 7, 9));
    assert_f32(me, RUN(sum_dim, .in = { a }, .dim = -1), 2, F32(6, 15));
    assert_f32(me, RUN(sum_dim, .in = { RUN(t, .in = { a }) }, .dim = 0), 2, F32(6, 15));
    struct tensor *kept = RUN(sum_dim, .in = { a }, .dim = 1, .keepdim = true);
    assert_int_equal(kept->dims, 2);
    assert_int_equal(kept->size[1], 1);
    assert_f32(me, RUN(sum_to, .in = { a }, .dims = 1, .sizes = { 3 }), 3, F32(5, 7, 9));
    assert_f32(me, RUN(sum_to, .in = { a }, .dims = 2, .sizes = { 2, 1 }), 2, F32(6, 15));
    assert_f32(me, RUN(sum_to, .in = { a }, .dims = 0), 1, F32(21));
    assert_f32(me, RUN(sum, .in = { tensor_empty(me, DTYPE_F32, DEVICE_CPU, SIZES(0, 3)) }), 1, F32(0));
    assert_f32(me, RUN(mean, .in = { tensor_empty(me, DTYPE_F32, DEVICE_CPU, SIZES(0)) }), 1, F32(NAN));
    assert_f32(me, RUN(sum_dim, .in = { tensor_empty(me, DTYPE_F32, DEVICE_CPU, SIZES(0, 3)) }, .dim = 0), 3,
               F32(0, 0, 0));
    assert_f32(me, RUN(max, .in = { a }), 1, F32(6));
    assert_f32(me, RUN(min, .in = { RUN(neg, .in = { a }) }), 1, F32(-6));
    assert_fails(me, RUN(max, .in = { tensor_empty(me, DTYPE_F32, DEVICE_CPU, SIZES(0)) }), E_RUNTIME, "max");
    assert_fails(me, RUN(sum_dim, .in = { a }, .dim = 2), E_INDEX, "2");

    double exact = 0;
    for (int i = 0; i < 1000; i++)
        exact += (double)(many[i] = 0.1f * (float)i);
    double got = 0;
    assert_true(tensor_item(me, RUN(sum, .in = { tensor_from(me, DTYPE_F32, SIZES(1000), many) }), &got));
    assert_true(fabs(got - exact) < 0.01);
    return true;
}

static void
sums_go_over_any_dimensions(void **state)
{
    run(sums);
}

/* ---- losses ---- */

static bool
losses(struct task *me)
{
    struct tensor *x = tensor_from(me, DTYPE_F32, SIZES(2, 3), F32(1, 2, 3, 1, 1, 1));
    struct tensor *y = RUN(log_softmax, .in = { x }, .dim = 1);
    float got[6];
    assert_true(tensor_read(me, y, got));
    assert_true(fabsf(got[0] + 2.4076059f) < 1e-6f);
    assert_true(fabsf(got[5] + 1.0986123f) < 1e-6f);
    struct tensor *target = tensor_from(me, DTYPE_I64, SIZES(2), I64(2, -100));
    struct tensor *loss = RUN(nll_loss, .in = { y, target, target }, .start = -100);
    assert_f32(me, loss, 1, F32(-got[2]));
    struct tensor *one = tensor_number(me, DTYPE_F32, DEVICE_CPU, 1);
    assert_f32(me, RUN(nll_loss_backward, .in = { one, y, target, target }, .start = -100), 6,
               F32(0, 0, -1, 0, 0, 0));
    target = tensor_from(me, DTYPE_I64, SIZES(2), I64(-100, -100));
    assert_f32(me, RUN(nll_loss, .in = { y, target, target }, .start = -100), 1, F32(NAN));
    target = tensor_from(me, DTYPE_I64, SIZES(2), I64(0, 3));
    assert_fails(me, RUN(nll_loss, .in = { y, target, target }, .start = -100), E_INDEX, "3");

    struct tensor *a = tensor_from(me, DTYPE_F32, SIZES(2), F32(1, 4));
    struct tensor *b = tensor_from(me, DTYPE_F32, SIZES(2), F32(0, 1));
    assert_f32(me, RUN(mse_loss, .in = { a, b }), 1, F32(5));
    assert_f32(me, RUN(mse_loss_backward, .in = { one, a, b }), 2, F32(1, 3));
    assert_f32(me, RUN(threshold_backward, .in = { a, b }), 2, F32(0, 4));
    for (double v = -40; v < 40; v += 0.37) {
        assert_true(fabs(math_exp(v) - exp(v)) <= 2.3e-16 * exp(v));
        assert_true(fabs(math_log(exp(v)) - log(exp(v))) <= 4.5e-16 * fabs(v));
    }
    assert_true(math_exp(-800) == 0 && isinf(math_exp(800)) && isinf(math_log(0)) && isnan(math_log(-1)));
    return true;
}

static void
losses_are_pytorchs(void **state)
{
    run(losses);
}

static bool
embeds(struct task *me)
{
    struct tensor *weight = tensor_from(me, DTYPE_F32, SIZES(3, 2), F32(1, 2, 3, 4, 5, 6));
    struct tensor *indices = tensor_from(me, DTYPE_I64, SIZES(2, 2), I64(2, 0, 2, 1));
    struct tensor *rows = RUN(embedding, .in = { weight, indices });
    assert_int_equal(rows->dims, 3);
    assert_f32(me, rows, 8, F32(5, 6, 1, 2, 5, 6, 3, 4));
    assert_f32(me, RUN(embedding_backward, .in = { rows, indices }, .length = 3, .start = 1), 6,
               F32(1, 2, 0, 0, 10, 12));
    indices = tensor_from(me, DTYPE_I64, SIZES(1), I64(7));
    assert_fails(me, RUN(embedding, .in = { weight, indices }), E_INDEX, "index 7");
    struct tensor *far = RUN(embedding, .in = { tensor_to(me, weight, 0, DTYPE_F32),
                                                tensor_to(me, indices, 0, DTYPE_I64) });
    assert_non_null(far);
    double value = 0;
    assert_false(tensor_item(me, RUN(sum, .in = { far }), &value));
    assert_fails(me, NULL, E_INDEX, "device:0");
    return true;
}

static void
an_index_that_is_no_row_is_named_on_a_device_at_the_next_synchronisation(void **state)
{
    run(embeds);
}

/* ---- views ---- */

static bool
views(struct task *me)
{
    struct tensor *a = tensor_arange(me, DTYPE_F32, 0, 12, 1);
    struct tensor *b = RUN(view, .in = { a }, .dims = 2, .sizes = { 3, -1 });
    assert_ptr_equal(b->storage, a->storage);
    assert_ptr_equal(b->version, a->version);
    tensor_bump(b);
    assert_int_equal(tensor_version(a), 1);
    assert_int_equal(tensor_size(b, -1), 4);
    assert_f32(me, RUN(select, .in = { b }, .dim = 0, .start = -1), 4, F32(8, 9, 10, 11));
    assert_f32(me, RUN(narrow, .in = { b }, .dim = 1, .start = 1, .length = 2), 6, F32(1, 2, 5, 6, 9, 10));
    assert_f32(me, RUN(narrow, .in = { a }, .dim = 0, .start = 1, .length = 3, .step = 5), 3, F32(1, 6, 11));
    struct tensor *c = RUN(transpose, .in = { b }, .dim = 0, .start = -1);
    assert_f32(me, RUN(select, .in = { c }, .dim = 0, .start = 1), 3, F32(1, 5, 9));
    assert_false(tensor_is_contiguous(c));
    assert_fails(me, RUN(view, .in = { c }, .dims = 1, .sizes = { 12 }), E_RUNTIME, "reshape");
    assert_int_equal(RUN(view, .in = { c }, .dims = 3, .sizes = { 2, 2, 3 })->stride[0], 2);
    assert_fails(me, RUN(view, .in = { a }, .dims = 1, .sizes = { 5 }), E_SHAPE, "[5]");
    assert_fails(me, RUN(select, .in = { b }, .dim = 0, .start = 3), E_INDEX, "index 3");
    assert_fails(me, RUN(narrow, .in = { b }, .dim = 0, .start = 2, .length = 2), E_INDEX, "size 3");
    struct tensor *d = RUN(unsqueeze, .in = { b }, .dim = 1);
    assert_int_equal(d->dims, 3);
    assert_int_equal(RUN(squeeze, .in = { d }, .dim = 1)->dims, 2);
    assert_int_equal(RUN(squeeze, .in = { d }, .dim = 0)->dims, 3);
    struct tensor *e = RUN(expand, .in = { RUN(unsqueeze, .in = { a }, .dim = 0) }, .dims = 2, .sizes = { 2, -1 });
    assert_int_equal(e->stride[0], 0);
    assert_null(tensor_view(me, a, &(struct view_place){ 1, (const int64_t[]){ 12 }, (const int64_t[]){ 2 }, 0 }));
    task_clear_error(me);
    assert_null(tensor_view(me, a, &(struct view_place){ 1, (const int64_t[]){ 1 }, (const int64_t[]){ 1 }, 12 }));
    task_clear_error(me);
    assert_f32(me, tensor_contiguous(me, c), 12, F32(0, 4, 8, 1, 5, 9, 2, 6, 10, 3, 7, 11));
    struct tensor *none = tensor_empty(me, DTYPE_F32, DEVICE_CPU, SIZES(0, 6));
    assert_int_equal(tensor_count(RUN(narrow, .in = { none }, .dim = 0, .start = 0, .length = 0)), 0);
    assert_int_equal(RUN(view, .in = { none }, .dims = 2, .sizes = { 3, 0 })->size[0], 3);
    struct tensor *own = tensor_own_version(me, b);
    tensor_bump(own);
    assert_int_equal(tensor_version(b), 1);
    struct tensor *top = RUN(narrow, .in = { b }, .dim = 0, .start = 0, .length = 1);
    assert_f32(me, RUN(cat, .list = (struct tensor *[]){ b, top }, .list_count = 2, .dim = 0), 16,
               F32(0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 0, 1, 2, 3));
    assert_f32(me, RUN(cat, .list = (struct tensor *[]){ c, c }, .list_count = 2, .dim = -1), 24,
               F32(0, 4, 8, 0, 4, 8, 1, 5, 9, 1, 5, 9, 2, 6, 10, 2, 6, 10, 3, 7, 11, 3, 7, 11));
    return true;
}

/* Where the elements of views and of new tensors lie: PyTorch's strides and offsets. */
static bool
places(struct task *me)
{
    struct tensor *flat = tensor_arange(me, DTYPE_F32, 0, 12, 1);
    struct tensor *a = RUN(view, .in = { flat }, .dims = 2, .sizes = { 3, 4 });
    struct tensor *rows = RUN(narrow, .in = { a }, .dim = 0, .start = 1, .length = 2);
    assert_int_equal(rows->offset, 4);
    assert_f32(me, rows, 8, F32(4, 5, 6, 7, 8, 9, 10, 11));
    assert_f32(me, RUN(narrow, .in = { rows }, .dim = 1, .start = -1, .length = 1), 2, F32(7, 11));
    assert_int_equal(RUN(unsqueeze, .in = { a }, .dim = 0)->stride[0], 12);
    assert_int_equal(RUN(unsqueeze, .in = { a }, .dim = 1)->stride[1], 4);
    assert_int_equal(RUN(unsqueeze, .in = { a }, .dim = 2)->stride[2], 1);
    struct tensor *top = RUN(narrow, .in = { a }, .dim = 0, .start = 0, .length = 1);
    assert_true(tensor_is_contiguous(top));
    assert_int_equal(RUN(expand, .in = { top }, .dims = 2, .sizes = { 1, -1 })->stride[0], 4);
    assert_int_equal(RUN(expand, .in = { top }, .dims = 2, .sizes = { 3, -1 })->stride[0], 0);
    assert_f32(me, RUN(diagonal, .in = { a }, .dim = 0, .start = 1, .length = 1), 3, F32(1, 6, 11));
    assert_f32(me, RUN(diagonal, .in = { a }, .dim = 0, .start = 1, .length = -1), 2, F32(4, 9));
    assert_f32(me, RUN(diagonal, .in = { a }, .dim = 1, .start = 0, .length = -2), 2, F32(2, 7));
    struct tensor *empty = tensor_empty(me, DTYPE_F32, DEVICE_CPU, SIZES(2, 0, 3));
    assert_true(empty->stride[0] == 3 && empty->stride[1] == 3 && empty->stride[2] == 1);
    assert_true(tensor_is_contiguous(empty) && tensor_is_contiguous(RUN(transpose, .in = { empty }, .start = 2)));
    struct tensor *piece = tensor_piece(me, flat, 2, (const int64_t[]){ 2, 3 }, 5);
    assert_int_equal(piece->stride[0], 3);
    assert_f32(me, piece, 6, F32(5, 6, 7, 8, 9, 10));
    assert_null(tensor_piece(me, flat, 2, (const int64_t[]){ 2, 3 }, 7));
    task_clear_error(me);
    return true;
}

static void
views_and_pieces_lie_where_pytorchs_lie(void **state)
{
    run(places);
}

static void
views_share_storage_and_version(void **state)
{
    run(views);
}

static bool
replaces(struct task *me)
{
    struct tensor *x = tensor_zeros(me, DTYPE_F32, DEVICE_CPU, SIZES(100));
    uint64_t       least = device_memory(me, DEVICE_CPU).allocated;
    size_t         items = me->scope_count;
    for (int i = 0; i < 10; i++)
        tensor_replace(me, &x, RUN(add_scalar, .in = { x }, .alpha = 1));
    assert_int_equal(device_memory(me, DEVICE_CPU).allocated, least);
    assert_int_equal(me->scope_count, items);
    assert_true(element(RUN(view, .in = { x }, .dims = 2, .sizes = { 1, 100 }), 0, 5) == 10);
    return true;
}

static void
a_loops_temporary_dies_when_it_is_replaced(void **state)
{
    run(replaces);
}

/* ---- devices ---- */

static bool
computes_late(struct task *me)
{
    struct tensor *a = tensor_filled(me, tensor_empty(me, DTYPE_F32, DEVICE_CPU, SIZES(2)), 3);
    a = tensor_to(me, a, 0, DTYPE_F32);
    struct tensor *b = RUN(add, .in = { a, tensor_number(me, DTYPE_F32, DEVICE_CPU, 4) }, .alpha = 1);
    assert_int_equal(tensor_device(b), 0);
    if (sched_is_stepped(me->sched))
        assert_printed(me, b, "tensor([0., 0.], device='device:0')");
    assert_f32(me, b, 2, F32(7, 7));
    assert_printed(me, b, "tensor([7., 7.], device='device:0')");
    struct tensor *c = tensor_to(me, b, 1, DTYPE_F64);
    assert_int_equal(c->dtype, DTYPE_F64);
    assert_f32(me, tensor_to(me, c, DEVICE_CPU, DTYPE_F32), 2, F32(7, 7));
    assert_fails(me, RUN(add, .in = { b, c }, .alpha = 1), E_DEVICE, "device:0 and device:1");
    assert_fails(me, RUN(add, .in = { b, tensor_zeros(me, DTYPE_F32, DEVICE_CPU, SIZES(2)) }, .alpha = 1), E_DEVICE,
                 "cpu and device:0");
    assert_fails(me, tensor_to(me, b, 2, DTYPE_F32), E_DEVICE, "device:2");
    assert_ptr_equal(tensor_to(me, b, 0, DTYPE_F32), b);
    struct tensor *twos = tensor_filled(me, tensor_empty(me, DTYPE_F32, 0, SIZES(2, 3)), 2);
    struct tensor *fives = tensor_filled(me, tensor_empty(me, DTYPE_F32, 0, SIZES(3, 2)), 5);
    struct tensor *d = RUN(mm, .in = { twos, fives });
    assert_f32(me, d, 4, F32(30, 30, 30, 30));
    assert_f32(me, RUN(cat, .list = (struct tensor *[]){ b, b }, .list_count = 2), 4, F32(7, 7, 7, 7));
    assert_true(tensor_write(me, b, F32(1, 2)));
    assert_int_equal(tensor_version(b), 1);
    assert_f32(me, RUN(sgd, .in = { b, b }, .alpha = 0.5), 2, F32(0.5f, 1));
    assert_true(tensor_copy(me, b, tensor_number(me, DTYPE_I64, 1, 9)));
    assert_f32(me, b, 2, F32(9, 9));
    return true;
}

static void
a_devices_work_is_seen_when_it_is_done(void **state)
{
    run(computes_late);
}

static bool
prices(struct task *me)
{
    if (!sched_is_stepped(me->sched))
        return true;
    struct tensor *a = tensor_filled(me, tensor_empty(me, DTYPE_F32, DEVICE_CPU, SIZES(2)), 3), *b = NULL;
    uint64_t       begin = me->clock;
    b = RUN(add, .in = { a, a }, .alpha = 1);
    assert_int_equal(me->clock - begin, cost_us(1));
    assert_true(cost_set(sched_cost(me->sched), "add", 5));
    b = RUN(add, .in = { b, b }, .alpha = 1);
    assert_int_equal(me->clock - begin, cost_us(7));
    assert_true(cost_set(sched_cost(me->sched), "Net", 100));
    task_set_module(me, "Net");
    b = RUN(mul, .in = { b, b });
    assert_int_equal(me->clock - begin, cost_us(108));
    b = RUN(mul, .in = { b, b });
    assert_int_equal(me->clock - begin, cost_us(108));
    task_set_module(me, NULL);
    begin = me->clock;
    b = RUN(mul, .in = { b, b }, .module = "");
    assert_non_null(tensor_clone(me, b));
    begin = me->clock;
    struct tensor *host = b;
    b = tensor_to_async(me, host, 0, DTYPE_F32);
    assert_int_equal(me->clock - begin, cost_us(1));
    assert_true(device_synchronize(me, 0));
    assert_int_equal(me->clock - begin, cost_us(1 + 10 + 8e-4));
    begin = me->clock;
    b = tensor_to(me, host, 0, DTYPE_F32);
    assert_int_equal(me->clock - begin, cost_us(1 + 10 + 8e-4));
    return true;
}

static void
an_op_costs_what_the_model_says(void **state)
{
    run(prices);
}

/* ---- random fills ---- */

static bool
fills(struct task *me)
{
    struct generator g, h;
    float flat[6], seen[6], turned[6];
    generator_seed(&g, 5);
    fill_uniform_f32(&g, flat, 6, -1, 1);
    generator_seed(&h, 5);
    struct tensor *a = tensor_empty(me, DTYPE_F32, DEVICE_CPU, SIZES(2, 3));
    assert_true(tensor_uniform(me, a, -1, 1, &h));
    assert_true(tensor_read(me, a, seen));
    assert_memory_equal(flat, seen, sizeof flat);
    assert_int_equal(tensor_version(a), 1);
    generator_seed(&h, 5);
    struct tensor *b = tensor_empty(me, DTYPE_F32, 1, SIZES(3, 2)), *t = RUN(t, .in = { b });
    assert_true(tensor_uniform(me, t, -1, 1, &h));
    assert_true(tensor_read(me, b, turned));
    assert_memory_equal(flat, turned, sizeof flat);
    struct generator *mine = default_generator(me);
    assert_int_equal(mine->seed, 67280421310721);
    assert_ptr_equal(default_generator(me), mine);
    struct tensor *p = tensor_empty(me, DTYPE_I64, DEVICE_CPU, SIZES(5));
    generator_seed(mine, 42);
    assert_true(tensor_randperm(me, p, NULL));
    int64_t order[5], got[5];
    generator_seed(&g, 42);
    fill_randperm(&g, order, 5);
    assert_true(tensor_read(me, p, got));
    assert_memory_equal(order, got, sizeof order);
    assert_false(tensor_uniform(me, p, 0, 1, NULL));
    task_clear_error(me);
    assert_false(tensor_bernoulli(me, a, 2, NULL));
    task_clear_error(me);
    return true;
}

static void
random_fills_walk_memory(void **state)
{
    run(fills);
}

/* ---- printing ---- */

static bool
prints(struct task *me)
{
    assert_printed(me, tensor_from(me, DTYPE_F32, SIZES(2, 2), F32(0.1234f, -1, 2, 3.5f)),
                   "tensor([[ 0.1234, -1.0000],\n        [ 2.0000,  3.5000]])");
    assert_printed(me, tensor_from(me, DTYPE_F32, SIZES(3), F32(1, 2, -30)), "tensor([  1.,   2., -30.])");
    assert_printed(me, tensor_number(me, DTYPE_F64, DEVICE_CPU, 0.5), "tensor(0.5000, dtype=torch.float64)");
    assert_printed(me, tensor_from(me, DTYPE_F32, SIZES(2), F32(1e-5f, 1)), "tensor([1.0000e-05, 1.0000e+00])");
    assert_printed(me, tensor_from(me, DTYPE_F32, SIZES(3), F32(NAN, INFINITY, 0.5f)),
                   "tensor([   nan,    inf, 0.5000])");
    assert_printed(me, tensor_from(me, DTYPE_BOOL, SIZES(2), (const unsigned char[]){ 1, 0 }),
                   "tensor([ True, False])");
    assert_printed(me, tensor_zeros(me, DTYPE_F32, DEVICE_CPU, SIZES(2)), "tensor([0., 0.])");
    assert_printed(me, tensor_empty(me, DTYPE_F32, DEVICE_CPU, SIZES(0)), "tensor([])");
    assert_printed(me, tensor_empty(me, DTYPE_I64, DEVICE_CPU, SIZES(0, 3)),
                   "tensor([], size=(0, 3), dtype=torch.int64)");
    assert_printed(me, tensor_arange(me, DTYPE_I64, 0, 30, 1),
                   "tensor([ 0,  1,  2,  3,  4,  5,  6,  7,  8,  9, 10, 11, 12, 13, 14, 15, 16, 17,\n"
                   "        18, 19, 20, 21, 22, 23, 24, 25, 26, 27, 28, 29])");
    assert_printed(me, RUN(view, .in = { tensor_arange(me, DTYPE_I64, 0, 8, 1) }, .dims = 3, .sizes = { 2, 2, 2 }),
                   "tensor([[[0, 1],\n         [2, 3]],\n\n        [[4, 5],\n         [6, 7]]])");
    assert_printed(me, tensor_arange(me, DTYPE_I64, 0, 1001, 1), "tensor([   0,    1,    2,  ...,  998,  999, 1000])");
    struct tensor *leaf = tensor_zeros(me, DTYPE_F32, DEVICE_CPU, SIZES(1));
    leaf->requires_grad = true;
    assert_printed(me, leaf, "tensor([0.], requires_grad=True)");
    return true;
}

static void
tensors_print_as_in_pytorch(void **state)
{
    run(prints);
}

static bool
refuses(struct task *me)
{
    const int64_t huge[] = { (int64_t)1 << 40, (int64_t)1 << 40 }, negative[] = { -1 };
    assert_fails(me, tensor_empty(me, DTYPE_F32, DEVICE_CPU, 2, huge), E_SHAPE, "too large");
    assert_fails(me, tensor_empty(me, DTYPE_F32, DEVICE_CPU, 1, negative), E_RUNTIME, "-1");
    assert_fails(me, tensor_arange(me, DTYPE_F32, 0, 1, 0), E_RUNTIME, "arange");
    assert_fails(me, tensor_arange(me, DTYPE_F32, 0, NAN, 1), E_RUNTIME, "arange");
    double value = 0;
    assert_false(tensor_item(me, tensor_zeros(me, DTYPE_F32, DEVICE_CPU, SIZES(2)), &value));
    assert_fails(me, NULL, E_RUNTIME, "2 elements");
    assert_int_equal(op_find("addmm"), OP_addmm);
    assert_int_equal(op_find("nothing"), -1);
    assert_string_equal(op_info(OP_mm)->node, "MmBackward0");
    struct tensor *turns = tensor_from(me, DTYPE_I64, SIZES(2), I64(1, 0)), *rows = tensor_clone(me, turns);
    assert_fails(me, RUN(scatter, .in = { turns, turns, rows }, .out = turns), E_RUNTIME, "share some of their memory");
    assert_fails(me, RUN(scatter, .in = { turns, rows, turns }, .out = turns), E_RUNTIME, "share some of their memory");
    return true;
}

static void
what_cannot_be_is_refused(void **state)
{
    run(refuses);
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(operands_are_stretched_to_one_shape),
        cmocka_unit_test(types_are_promoted_as_in_pytorch),
        cmocka_unit_test(the_product_is_the_sum_over_k_in_order_bit_for_bit),
        cmocka_unit_test(sums_go_over_any_dimensions),
        cmocka_unit_test(losses_are_pytorchs),
        cmocka_unit_test(an_index_that_is_no_row_is_named_on_a_device_at_the_next_synchronisation),
        cmocka_unit_test(views_and_pieces_lie_where_pytorchs_lie),
        cmocka_unit_test(views_share_storage_and_version),
        cmocka_unit_test(a_loops_temporary_dies_when_it_is_replaced),
        cmocka_unit_test(a_devices_work_is_seen_when_it_is_done),
        cmocka_unit_test(an_op_costs_what_the_model_says),
        cmocka_unit_test(random_fills_walk_memory),
        cmocka_unit_test(tensors_print_as_in_pytorch),
        cmocka_unit_test(what_cannot_be_is_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
