/* Gradients of every differentiable op, and the gradients of those gradients,
 * against central differences in float64. */
#include "autograd_rig.h"
#include "functional/functional.h"

enum { INPUTS = 3 };

struct shape { int dims; int64_t size[3]; };
struct gradient_case {
    const char    *name;
    int            inputs;
    struct shape   shapes[INPUTS];
    struct tensor *(*run)(struct task *me, struct tensor **in);
    bool           once;               /* no second gradient: it is zero, or not implemented */
};

static struct tensor *
numbers_like(struct task *me, const int64_t *values, int dims, const int64_t *sizes)
{
    return tensor_from(me, DTYPE_I64, dims, sizes, values);
}

static struct tensor *run_add(struct task *me, struct tensor **in) { return tensor_add(me, in[0], in[1]); }
static struct tensor *run_add_scaled(struct task *me, struct tensor **in) { return tensor_add_scaled(me, in[0],
       in[1], 3); }
static struct tensor *run_sub(struct task *me, struct tensor **in) { return tensor_sub(me, in[0], in[1]); }
static struct tensor *run_mul(struct task *me, struct tensor **in) { return tensor_mul(me, in[0], in[1]); }
static struct tensor *run_div(struct task *me, struct tensor **in) { return tensor_div(me, in[0], in[1]); }
static struct tensor *run_add_number(struct task *me, struct tensor **in) { return tensor_add_number(me, in[0], 2.5); }
static struct tensor *run_mul_number(struct task *me, struct tensor **in) { return tensor_mul_number(me, in[0], 2.5); }
static struct tensor *run_div_number(struct task *me, struct tensor **in) { return tensor_div_number(me, in[0], 2.5); }
static struct tensor *run_neg(struct task *me, struct tensor **in) { return tensor_neg(me, in[0]); }
static struct tensor *run_mm(struct task *me, struct tensor **in) { return tensor_mm(me, in[0], in[1]); }
static struct tensor *run_matmul(struct task *me, struct tensor **in) { return tensor_matmul(me, in[0], in[1]); }
static struct tensor *run_relu(struct task *me, struct tensor **in) { return tensor_relu(me, in[0]); }
static struct tensor *run_abs(struct task *me, struct tensor **in) { return tensor_abs(me, in[0]); }
static struct tensor *run_sum(struct task *me, struct tensor **in) { return tensor_sum(me, in[0]); }
static struct tensor *run_mean(struct task *me, struct tensor **in) { return tensor_mean(me, in[0]); }
static struct tensor *run_t(struct task *me, struct tensor **in) { return tensor_t(me, in[0]); }
static struct tensor *run_linear(struct task *me, struct tensor **in) { return linear(me, in[0], in[1], in[2]); }
static struct tensor *run_linear_plain(struct task *me, struct tensor **in) { return linear(me, in[0], in[1], NULL); }
static struct tensor *run_mse(struct task *me, struct tensor **in) { return mse_loss(me, in[0], in[1]); }
static struct tensor *run_clone(struct task *me, struct tensor **in) { return tensor_copied(me, in[0]); }
static struct tensor *run_narrow(struct task *me, struct tensor **in) { return tensor_narrow(me, in[0], 1, 1, 2); }
static struct tensor *run_select(struct task *me, struct tensor **in) { return tensor_select(me, in[0], 0, -1); }
static struct tensor *run_unsqueeze(struct task *me, struct tensor **in) { return tensor_unsqueeze(me, in[0], -1); }
static struct tensor *run_squeeze(struct task *me, struct tensor **in) { return tensor_squeeze(me, in[0], 1); }
static struct tensor *run_transpose(struct task *me, struct tensor **in) { return tensor_transpose(me, in[0], 0, 2); }
static struct tensor *run_cat(struct task *me, struct tensor **in) { return tensor_cat(me, in, 2, 1); }
static struct tensor *run_there_and_back(struct task *me, struct tensor **in)
{
    return tensor_copy_to(me, tensor_mul(me, tensor_copy_to(me, in[0], 1, DTYPE_F64), tensor_copy_to(me, in[1], 1,
           DTYPE_F64)),
                          DEVICE_CPU, DTYPE_F64);
}

static struct tensor *
run_rsub(struct task *me, struct tensor **in)
{
    return op_call(me, OP_rsub_scalar, &(struct op_args){ .in = { in[0] }, .alpha = 1.5 });
}

static struct tensor *
run_sum_dims(struct task *me, struct tensor **in)
{
    return tensor_sum_dim(me, tensor_sum_dim(me, in[0], 1, true), 0, false);
}

static struct tensor *
run_reshape(struct task *me, struct tensor **in)
{
    return tensor_reshape(me, tensor_transpose(me, in[0], 0, 1), 2, (const int64_t[]){ -1, 2 });
}

static struct tensor *
run_expand(struct task *me, struct tensor **in)
{
    return tensor_expand(me, in[0], 3, (const int64_t[]){ 2, 3, -1 });
}

static struct tensor *
run_embedding(struct task *me, struct tensor **in)
{
    const int64_t rows[4] = { 1, 0, 1, 3 };
    return embedding(me, tensor_mul(me, in[0], in[0]), numbers_like(me, rows, 2, (const int64_t[]){ 2, 2 }), 2);
}

static struct tensor *
run_log_softmax(struct task *me, struct tensor **in)
{
    return op_call(me, OP_log_softmax, &(struct op_args){ .in = { in[0] }, .dim = 1 });
}

static struct tensor *
run_cross_entropy(struct task *me, struct tensor **in)
{
    const int64_t classes[3] = { 2, -100, 0 };
    return cross_entropy(me, in[0], numbers_like(me, classes, 1, (const int64_t[]){ 3 }));
}

static struct tensor *
run_in_place(struct task *me, struct tensor **in)
{
    struct tensor *changed = tensor_mul(me, in[0], in[0]);
    tensor_mul_(me, tensor_select(me, changed, 0, 1), 3);
    tensor_add_(me, tensor_narrow(me, changed, 1, 0, 2), tensor_mul(me, in[1], in[1]), 2);
    return tensor_div_(me, changed, 4);
}

static const struct gradient_case cases[] = {
    { "add", 2, { { 2, { 2, 3 } }, { 1, { 3 } } }, run_add, true },
    { "add with alpha", 2, { { 2, { 2, 1 } }, { 2, { 2, 3 } } }, run_add_scaled, true },
    { "sub", 2, { { 2, { 2, 3 } }, { 0, { 0 } } }, run_sub, true },
    { "mul", 2, { { 2, { 2, 3 } }, { 2, { 1, 3 } } }, run_mul, false },
    { "div", 2, { { 1, { 3 } }, { 2, { 2, 3 } } }, run_div, false },
    { "add a number", 1, { { 1, { 3 } } }, run_add_number, true },
    { "mul by a number", 1, { { 1, { 3 } } }, run_mul_number, true },
    { "div by a number", 1, { { 1, { 3 } } }, run_div_number, true },
    { "number - a", 1, { { 1, { 3 } } }, run_rsub, true },
    { "neg", 1, { { 1, { 3 } } }, run_neg, true },
    { "mm", 2, { { 2, { 2, 3 } }, { 2, { 3, 2 } } }, run_mm, false },
    { "matmul of vectors", 2, { { 1, { 3 } }, { 1, { 3 } } }, run_matmul, false },
    { "matmul of a matrix and a vector", 2, { { 2, { 2, 3 } }, { 1, { 3 } } }, run_matmul, false },
    { "relu", 1, { { 2, { 2, 3 } } }, run_relu, true },
    { "abs", 1, { { 2, { 2, 3 } } }, run_abs, true },
    { "sum", 1, { { 2, { 2, 3 } } }, run_sum, true },
    { "sum over dimensions", 1, { { 3, { 2, 3, 2 } } }, run_sum_dims, true },
    { "mean", 1, { { 2, { 2, 3 } } }, run_mean, true },
    { "t", 1, { { 2, { 2, 3 } } }, run_t, true },
    { "transpose", 1, { { 3, { 2, 3, 2 } } }, run_transpose, true },
    { "reshape of a transposed", 1, { { 2, { 2, 3 } } }, run_reshape, true },
    { "narrow", 1, { { 2, { 2, 4 } } }, run_narrow, true },
    { "select", 1, { { 2, { 2, 4 } } }, run_select, true },
    { "unsqueeze", 1, { { 2, { 2, 3 } } }, run_unsqueeze, true },
    { "squeeze", 1, { { 3, { 2, 1, 3 } } }, run_squeeze, true },
    { "expand", 1, { { 2, { 1, 2 } } }, run_expand, true },
    { "cat", 2, { { 2, { 2, 3 } }, { 2, { 2, 1 } } }, run_cat, true },
    { "clone", 1, { { 1, { 3 } } }, run_clone, true },
    { "copies to a device and back", 2, { { 1, { 3 } }, { 1, { 3 } } }, run_there_and_back, false },
    { "linear", 3, { { 2, { 2, 3 } }, { 2, { 2, 3 } }, { 1, { 2 } } }, run_linear, false },
    { "linear of three dimensions", 3, { { 3, { 2, 2, 3 } }, { 2, { 2, 3 } }, { 1, { 2 } } }, run_linear, false },
    { "linear without bias", 2, { { 1, { 3 } }, { 2, { 2, 3 } } }, run_linear_plain, false },
    { "embedding", 1, { { 2, { 4, 2 } } }, run_embedding, false },
    { "mse_loss", 2, { { 2, { 2, 3 } }, { 2, { 2, 3 } } }, run_mse, false },
    { "log_softmax", 1, { { 2, { 2, 3 } } }, run_log_softmax, false },
    { "cross_entropy", 1, { { 2, { 3, 3 } } }, run_cross_entropy, false },
    { "in place through views", 2, { { 2, { 2, 3 } }, { 2, { 2, 2 } } }, run_in_place, false },
};

/* Numbers away from 0, where abs and relu have their kink. */
static double
number(int i)
{
    static const double some[] = { 0.7, -1.3, 0.4, 1.9, -0.6, 1.1, -2.2, 0.9, 1.6, -0.8, 0.5, -1.7, 1.2 };
    return some[(size_t)i % (sizeof some / sizeof *some)] + 0.01 * i;
}

static struct tensor *
filled(struct task *me, int dims, const int64_t *sizes, int from)
{
    struct tensor *made = tensor_empty(me, DTYPE_F64, DEVICE_CPU, dims, sizes);
    double         values[64];
    int64_t        count = tensor_count(made);
    for (int i = 0; i < count && i < 64; i++)
        values[i] = number(from + i);
    return made != NULL && tensor_write(me, made, values) ? made : NULL;
}

/* A number that hangs on all of the result. */
static struct tensor *
weighed(struct task *me, struct tensor *result, int from)
{
    if (result == NULL)
        return NULL;
    return tensor_sum(me, tensor_mul(me, result, filled(me, result->dims, result->size, from)));
}

/* level 1: the case's own number. level 2: a number that hangs on its gradients. */
static struct tensor *
value_of(struct task *me, const struct gradient_case *c, struct tensor **in, int level)
{
    struct tensor *value = weighed(me, c->run(me, in), 3);
    if (level == 1 || value == NULL)
        return value;
    struct tensor *grads[INPUTS] = { NULL }, *sum = NULL;
    struct backward_options options = { .create_graph = true, .inputs = in, .input_count = c->inputs,
           .results = grads };
    if (!autograd_backward(me, &value, NULL, 1, &options))
        return NULL;
    for (int i = 0; i < c->inputs; i++) {
        struct tensor *part = weighed(me, grads[i], 5 + i);
        sum = sum == NULL ? part : tensor_add(me, sum, part);
    }
    return sum;
}

static double
nudged(struct task *me, const struct gradient_case *c, struct tensor **in, int level, double *element, double by)
{
    size_t mark = scope_mark(me);
    double was = *element, value = NAN;
    *element = was + by;
    struct tensor *result = value_of(me, c, in, level);
    if (result != NULL)
        tensor_item(me, result, &value);
    *element = was;
    scope_release(me, mark);
    return value;
}

static bool
check_case(struct task *me, struct rig *rig, const struct gradient_case *c, int level)
{
    struct tensor *in[INPUTS] = { NULL }, *grads[INPUTS] = { NULL };
    char           what[200];
    snprintf(what, sizeof what, "%s, level %d", c->name, level);
    for (int i = 0; i < c->inputs; i++) {
        in[i] = filled(me, c->shapes[i].dims, c->shapes[i].size, 4 * i);
        if (!expect(me, rig, in[i] != NULL, what))
            return false;
        in[i]->requires_grad = true;
    }
    struct backward_options options = { .inputs = in, .input_count = c->inputs, .results = grads,
           .allow_unused = true };
    struct tensor *value = value_of(me, c, in, level);
    if (!expect(me, rig, value != NULL && autograd_backward(me, &value, NULL, 1, &options), what))
        return false;
    for (int i = 0; i < c->inputs; i++) {
        double *elements = in[i]->storage->data;
        for (int64_t j = 0; j < tensor_count(in[i]); j++) {
            double h = 1e-5, got = grads[i] != NULL ? at(me, grads[i], j) : 0;
            double wanted = (nudged(me, c, in, level, &elements[j], h) - nudged(me, c, in, level, &elements[j],
                   -h)) / (2 * h);
            snprintf(what, sizeof what, "%s, level %d, input %d, element %d: %g, not %g", c->name, level, i, (int)j,
                   got, wanted);
            if (!expect(me, rig, fabs(got - wanted) <= 1e-6 + 1e-5 * fabs(wanted), what))
                return false;
        }
    }
    return true;
}

static bool
all_cases(struct task *me, struct rig *rig)
{
    stage_category(me->sched, KIND_op, false);
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        for (int level = 1; level <= (cases[i].once ? 1 : 2); level++) {
            size_t mark = scope_mark(me);
            check_case(me, rig, &cases[i], level);
            scope_release(me, mark);
        }
    }
    return true;
}

static void
gradients_are_what_differences_say(void **state)
{
    (void)state;
    in_both(all_cases);
}

int
main(void)
{
    const struct CMUnitTest tests[] = { cmocka_unit_test(gradients_are_what_differences_say) };
    cmocka_set_message_output(CM_OUTPUT_TAP);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
