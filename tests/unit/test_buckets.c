/* Which gradients travel together: the assignments that PyTorch made, and the rule's corners. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <cmocka.h>

#include <jansson.h>
#include <stdlib.h>
#include <string.h>

#include "base/vec.h"
#include "parallel/buckets.h"
#include "sched/sched.h"

#define GOLDEN "tests/golden/first-light/ddp-buckets.json"

struct case_input {
    struct bucket_input inputs[128];
    size_t              limits[16];
    int                 order[128];
    int                 count, limit_count, order_count;
};

static int
dtype_key(const char *name)
{
    static const char *const names[] = { "f32", "f64", "f16", "bf16", "i64", "i32" };
    for (int i = 0; i < (int)countof(names); i++)
        if (strcmp(name, names[i]) == 0)
            return i;
    return -1;
}

static size_t
dtype_bytes(int key)
{
    static const size_t bytes[] = { 4, 8, 2, 2, 8, 4 };
    return bytes[key];
}

static struct case_input
read_case(const json_t *one)
{
    struct case_input in = { .count = (int)json_array_size(json_object_get(one, "numel")),
                             .limit_count = (int)json_array_size(json_object_get(one, "limits")),
                             .order_count = (int)json_array_size(json_object_get(one, "indices")) };
    assert_in_range(in.count, 0, (int)countof(in.inputs));
    const json_t *sparse = json_object_get(one, "sparse");
    for (int i = 0; i < in.count; i++) {
        int key = dtype_key(json_string_value(json_array_get(json_object_get(one, "dtype"), (size_t)i)));
        assert_true(key >= 0);
        in.inputs[i] = (struct bucket_input){
            .bytes  = (size_t)json_integer_value(json_array_get(json_object_get(one, "numel"), (size_t)i)) * dtype_bytes(key),
            .key    = key,
            .sparse = json_is_true(json_array_get(sparse, (size_t)i)),
        };
    }
    for (int i = 0; i < in.limit_count; i++)
        in.limits[i] = (size_t)json_integer_value(json_array_get(json_object_get(one, "limits"), (size_t)i));
    for (int i = 0; i < in.order_count; i++)
        in.order[i] = (int)json_integer_value(json_array_get(json_object_get(one, "indices"), (size_t)i));
    return in;
}

static bool
same_bucket(const struct bucket_list *list, int at, const json_t *bucket, size_t limit)
{
    bool same = list->sizes[at] == (int)json_array_size(bucket) && list->limits[at] == limit;
    for (int i = 0; same && i < list->sizes[at]; i++)
        same = list->indices[at][i] == (int)json_integer_value(json_array_get(bucket, (size_t)i));
    return same;
}

static bool
assign(struct task *me, const struct case_input *in, struct bucket_list *out)
{
    const struct bucket_assignment wanted = {
        .inputs = in->inputs, .count = in->count, .limits = in->limits, .limit_count = in->limit_count,
        .order = in->order_count > 0 ? in->order : NULL, .order_count = in->order_count,
    };
    return buckets_assign(me, &wanted, out);
}

static bool
check_goldens(struct task *me, void *argument)
{
    json_t *cases = json_object_get(argument, "assignment");
    size_t  right = 0, number;
    json_t *one;
    json_array_foreach(cases, number, one) {
        struct case_input  in = read_case(one);
        struct bucket_list list;
        json_t *buckets = json_object_get(one, "buckets"), *limits = json_object_get(one, "bucket_limits");
        bool    same    = assign(me, &in, &list) && list.count == (int)json_array_size(buckets);
        for (int i = 0; same && i < list.count; i++)
            same = same_bucket(&list, i, json_array_get(buckets, (size_t)i),
                               (size_t)json_integer_value(json_array_get(limits, (size_t)i)));
        if (!same)
            print_message("# %s differs\n", json_string_value(json_object_get(one, "name")));
        right += same;
    }
    json_object_set_new(argument, "right", json_integer((json_int_t)right));
    return true;
}

static void
run_task(bool (*run)(struct task *me, void *argument), void *argument)
{
    char why[200];
    struct error         error;
    struct sched_options options = { .executor = EXECUTOR_STEPPED };
    struct sched        *sched   = sched_new(&options, why, sizeof why);
    assert_non_null(sched);
    assert_true(sched_run(sched, run, argument, &error));
    sched_free(sched);
}

static void
assignments_are_those_of_pytorch(void **state)
{
    (void)state;
    json_t *golden = json_load_file(GOLDEN, 0, NULL);
    assert_non_null(golden);
    run_task(check_goldens, golden);
    assert_int_equal(json_array_size(json_object_get(golden, "assignment")), 58);
    assert_int_equal(json_integer_value(json_object_get(golden, "right")), 58);
    json_decref(golden);
}

static bool
check_refusals(struct task *me, void *argument)
{
    bool *refused = argument;
    struct bucket_input inputs[2] = { { 4, 0, false }, { 4, 0, false } };
    size_t limit = 8;
    int    outside[2] = { 0, 2 };
    struct bucket_list list;
    const struct bucket_assignment good = { .inputs = inputs, .count = 2, .limits = &limit, .limit_count = 1 };
    struct bucket_assignment       bad  = good;
    bad.limit_count = 0;
    refused[0]      = !buckets_assign(me, &bad, &list) && me->error.kind == E_VALUE;
    task_clear_error(me);
    bad             = good;
    bad.order       = outside;
    bad.order_count = 2;
    refused[1]      = !buckets_assign(me, &bad, &list) && me->error.kind == E_INDEX;
    task_clear_error(me);
    bad.order_count = 1;
    refused[2]      = !buckets_assign(me, &bad, &list) && me->error.kind == E_VALUE;
    task_clear_error(me);
    bad        = good;
    bad.count  = 0;
    refused[3] = buckets_assign(me, &bad, &list) && list.count == 0;
    return true;
}

static void
indices_from_outside_are_checked(void **state)
{
    (void)state;
    bool refused[4] = { false };
    run_task(check_refusals, refused);
    for (size_t i = 0; i < countof(refused); i++)
        assert_true(refused[i]);
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(assignments_are_those_of_pytorch),
        cmocka_unit_test(indices_from_outside_are_checked),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
