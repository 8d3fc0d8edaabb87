/* What a run may take: memory asked for where it is taken, garbage first, and work that is counted before it is done. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <cmocka.h>
#include "autograd/engine.h"
#include "autograd/operators.h"
#include "device/device.h"
#include "device/storage.h"
#include "hw/cost.h"
#include "nn/layers.h"
#include "nn/module.h"
#include "optim/optimizer.h"
#include "sched/account.h"
#include "sched/internal.h"
#include "tensor/op.h"
#include "tensor/tensor.h"

enum { MIB = 1 << 20 };

struct rig {
    void   (*body)(struct task *me, struct rig *rig);
    size_t   memory_limit, left;
    uint64_t work_limit;
};

static bool
run_body(struct task *me, void *argument)
{
    struct rig *rig = argument;
    if (devices_ready(me, 2))
        rig->body(me, rig);
    return !task_failed(me);
}

static struct error
run_in(enum executor_kind executor, struct rig *rig)
{
    char         why[256];
    struct error error = { .kind = E_NONE };
    struct cost_model cost;
    assert_true(cost_preset(&cost, "classroom"));
    const struct sched_options options = { .executor = executor, .cost = &cost, .memory_limit = rig->memory_limit,
                                           .work_limit = rig->work_limit };
    struct sched *sched = sched_new(&options, why, sizeof why);
    assert_non_null(sched);
    sched_run(sched, run_body, rig, &error);
    devices_free(sched);
    rig->left = account_taken(sched);
    sched_free(sched);
    return error;
}

/* ---- memory ---- */

static void
takes_three_quarters_twice(struct task *me, struct rig *rig)
{
    size_t          most  = rig->memory_limit / 4 * 3;
    struct storage *first = storage_new(me, DEVICE_CPU, most);
    assert_non_null(first);
    assert_true(account_taken(me->sched) >= most && account_presses(me->sched));
    assert_null(storage_new(me, 1, most));
    storage_unref(me, first);
}

static void
devices_and_host_share_one_limit(void **state)
{
    (void)state;
    for (int executor = EXECUTOR_STEPPED; executor <= EXECUTOR_FREE; executor++) {
        struct rig   rig   = { .body = takes_three_quarters_twice, .memory_limit = 64 * MIB };
        struct error error = run_in((enum executor_kind)executor, &rig);
        assert_int_equal(error.kind, E_BUDGET);
        assert_non_null(strstr(error.message, "48.0 MiB more would exceed the limit of 64 MiB"));
        assert_int_equal(rig.left, 0);
    }
}

static void
gives_and_takes_elsewhere(struct task *me, struct rig *rig)
{
    (void)rig;
    for (int i = 0; i < 20; i++) {
        struct storage *block = storage_new(me, i % 2 == 0 ? DEVICE_CPU : i % 3 - 1, (size_t)(20 + i) * MIB);
        assert_non_null(block);
        storage_unref(me, block);
    }
}

static void
what_a_pool_keeps_goes_before_anything_is_refused(void **state)
{
    (void)state;
    struct rig rig = { .body = gives_and_takes_elsewhere, .memory_limit = 48 * MIB };
    assert_int_equal(run_in(EXECUTOR_STEPPED, &rig).kind, E_NONE);
}

struct hoarder { struct collector collector; struct storage *kept; int asked; };

static bool
let_go(struct task *me, struct collector *self)
{
    struct hoarder *hoarder = (struct hoarder *)(void *)self;
    hoarder->asked++;
    assert_false(account_collect(me)); /* who lets go is not asked again meanwhile */
    storage_unref(me, hoarder->kept);
    hoarder->kept = NULL;
    return true;
}

static void
asks_for_garbage(struct task *me, struct rig *rig)
{
    struct hoarder hoarder = { .collector = { .collect = let_go } };
    account_add_collector(me->sched, &hoarder.collector);
    hoarder.kept = storage_new(me, DEVICE_CPU, rig->memory_limit / 4 * 3);
    struct storage *more = storage_new(me, 0, rig->memory_limit / 2);
    assert_non_null(more);
    assert_int_equal(hoarder.asked, 1);
    storage_unref(me, more);
    more = storage_new(me, 0, rig->memory_limit / 2);
    assert_int_equal(hoarder.asked, 1);
    storage_unref(me, more);
    account_remove_collector(me->sched, &hoarder.collector);
}

static void
garbage_is_collected_once_before_memory_is_refused(void **state)
{
    (void)state;
    struct rig rig = { .body = asks_for_garbage, .memory_limit = 64 * MIB };
    assert_int_equal(run_in(EXECUTOR_STEPPED, &rig).kind, E_NONE);
}

static void
takes_small_things(struct task *me, struct rig *rig)
{
    (void)rig;
    while (scratch_new(me, 100, 1) != NULL)
        continue;
}

static void
small_structs_and_scratch_count_too(void **state)
{
    (void)state;
    struct rig rig = { .body = takes_small_things, .memory_limit = 4 * MIB };
    assert_int_equal(run_in(EXECUTOR_STEPPED, &rig).kind, E_BUDGET);
    assert_int_equal(rig.left, 0);
}

static bool
trains(struct task *me, struct module *net, struct optimizer *optimizer)
{
    size_t         mark = scope_mark(me);
    struct tensor *x    = tensor_filled(me, tensor_empty(me, DTYPE_F32, DEVICE_CPU, 2, (const int64_t[]){ 40, 30 }), 1);
    struct tensor *loss = tensor_sum(me, module_forward_tensor(me, net, x));
    bool           ok   = loss != NULL && autograd_backward(me, &loss, NULL, 1, NULL) && optimizer_step(me, optimizer) &&
              optimizer_zero_grad(me, optimizer, true);
    scope_release(me, mark);
    return ok;
}

/* With nothing at hand, and so much more than what there is. */
static bool
trains_with(struct task *me, struct module *net, struct optimizer *optimizer, size_t more)
{
    struct account *account = &me->sched->account;
    if (me->drop_cells != NULL)
        me->drop_cells(me);
    devices_trim(me->sched);
    account->memory_limit = account_taken(me->sched) + more;
    bool ok = trains(me, net, optimizer);
    account->memory_limit = (size_t)1 << 40;
    return ok;
}

static void
is_refused_step_by_step(struct task *me, struct rig *rig)
{
    int                  refused   = 0;
    struct module       *net       = nn_linear(me, 30, 20, NULL);
    struct optimizer    *optimizer = optimizer_new(me, OPTIM_ADAM);
    struct optim_options options   = optim_defaults(OPTIM_ADAM);
    struct tensor       *params[]  = { module_parameter(net, "weight"), module_parameter(net, "bias") };
    assert_true(optimizer_add_group(me, optimizer, params, 2, &options));
    (void)rig;
    for (size_t more = 1; !trains_with(me, net, optimizer, more); more += 48) {
        assert_int_equal(me->error.kind, E_BUDGET);
        task_clear_error(me);
        assert_true(trains(me, net, optimizer));
        refused++;
    }
    assert_true(refused > 100);
    optimizer_free(me, optimizer);
}

/* Whatever was half done: the next step works, and at the end nothing is left. */
static void
a_step_may_be_refused_anywhere(void **state)
{
    (void)state;
    struct rig rig = { .body = is_refused_step_by_step, .memory_limit = (size_t)1 << 40 };
    assert_int_equal(run_in(EXECUTOR_STEPPED, &rig).kind, E_NONE);
    assert_int_equal(rig.left, 0);
}

static void
asks_for_absurd_sizes(struct task *me, struct rig *rig)
{
    (void)rig;
    assert_null(scratch_new(me, SIZE_MAX, 8));
}

static void
a_size_beyond_all_numbers_is_refused(void **state)
{
    (void)state;
    struct rig rig = { .body = asks_for_absurd_sizes, .memory_limit = 4 * MIB };
    assert_int_equal(run_in(EXECUTOR_STEPPED, &rig).kind, E_BUDGET);
    rig.memory_limit = 0;
    assert_int_equal(run_in(EXECUTOR_STEPPED, &rig).kind, E_MEMORY);
}

/* ---- work ---- */

static void
works_in_small_steps(struct task *me, struct rig *rig)
{
    uint64_t done = 0;
    while (task_work(me, 100))
        done += 100;
    assert_true(done <= rig->work_limit + WORK_BATCH && done + 2 * WORK_BATCH > rig->work_limit);
    assert_true(account_exhausted(me->sched));
    task_clear_error(me);
    assert_false(task_work(me, WORK_BATCH)); /* nobody gets on by not listening */
}

static void
work_ends_at_the_limit_and_stays_ended(void **state)
{
    (void)state;
    struct rig   rig   = { .body = works_in_small_steps, .work_limit = 1000000 };
    struct error error = run_in(EXECUTOR_STEPPED, &rig);
    assert_int_equal(error.kind, E_BUDGET);
    assert_non_null(strstr(error.message, "1e+06 steps"));
}

static void
wants_endless_work(struct task *me, struct rig *rig)
{
    (void)rig;
    assert_true(task_work(me, UINT64_MAX / 4));
    assert_false(task_work(me, UINT64_MAX));
}

static void
sums_of_work_do_not_wrap(void **state)
{
    (void)state;
    struct rig rig = { .body = wants_endless_work, .work_limit = UINT64_MAX / 4 };
    assert_int_equal(run_in(EXECUTOR_STEPPED, &rig).kind, E_BUDGET);
}

/* One element, seen 2^40 times. */
static void
sums_a_stretched_number(struct task *me, struct rig *rig)
{
    (void)rig;
    struct tensor *one = tensor_empty(me, DTYPE_F32, DEVICE_CPU, 1, (const int64_t[]){ 1 });
    struct tensor *all = tensor_expand(me, one, 1, (const int64_t[]){ (int64_t)1 << 40 });
    assert_non_null(all);
    assert_null(op_run(me, OP_sum, &(struct op_args){ .in = { all } }));
}

static void
an_op_is_refused_before_it_begins(void **state)
{
    (void)state;
    struct rig rig = { .body = sums_a_stretched_number, .work_limit = 1000000 };
    assert_int_equal(run_in(EXECUTOR_STEPPED, &rig).kind, E_BUDGET);
}

static void
multiplies(struct task *me, struct rig *rig)
{
    const int64_t  side[2] = { 512, 512 };
    struct tensor *a = tensor_empty(me, DTYPE_F32, DEVICE_CPU, 2, side);
    uint64_t       before = account_done(me->sched);
    assert_true(tensor_fill(me, a, 1));
    assert_non_null(op_run(me, OP_mm, &(struct op_args){ .in = { a, a } }));
    rig->left = account_done(me->sched) - before;
    assert_in_range(rig->left, 512 * 512 * 512 / WORK_PRODUCTS, 512 * 512 * 512 / WORK_PRODUCTS + 64 * WORK_BATCH);
}

static void
a_product_counts_its_multiplications(void **state)
{
    (void)state;
    struct rig rig = { .body = multiplies };
    assert_int_equal(run_in(EXECUTOR_STEPPED, &rig).kind, E_NONE);
}

/* ---- being stopped ---- */

static void
is_stopped(struct task *me, struct rig *rig)
{
    (void)rig;
    assert_true(task_work(me, WORK_BATCH));
    sched_stop(me->sched, E_BUDGET, "enough");
    sched_stop(me->sched, E_STOPPED, "too late");
    assert_false(task_work(me, WORK_BATCH));
}

static void
who_stops_first_says_why(void **state)
{
    (void)state;
    struct rig   rig   = { .body = is_stopped };
    struct error error = run_in(EXECUTOR_FREE, &rig);
    assert_int_equal(error.kind, E_BUDGET);
    assert_string_equal(error.message, "enough");
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(devices_and_host_share_one_limit),
        cmocka_unit_test(what_a_pool_keeps_goes_before_anything_is_refused),
        cmocka_unit_test(garbage_is_collected_once_before_memory_is_refused),
        cmocka_unit_test(small_structs_and_scratch_count_too),
        cmocka_unit_test(a_step_may_be_refused_anywhere),
        cmocka_unit_test(a_size_beyond_all_numbers_is_refused),
        cmocka_unit_test(work_ends_at_the_limit_and_stays_ended),
        cmocka_unit_test(sums_of_work_do_not_wrap),
        cmocka_unit_test(an_op_is_refused_before_it_begins),
        cmocka_unit_test(a_product_counts_its_multiplications),
        cmocka_unit_test(who_stops_first_says_why),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
