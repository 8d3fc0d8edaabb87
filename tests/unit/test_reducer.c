/* DDP: equal from the first step, buckets in the order of use, gradients that are means, and the words for what a rank
 * forgot. The numbers are those of PyTorch and of the lessons on DDP. */
#include "ranks_rig.h"

#include <jansson.h>
#include <math.h>

#include "autograd/call.h"
#include "autograd/engine.h"
#include "base/str.h"
#include "base/vec.h"
#include "nn/layers.h"
#include "parallel/distributed_data_parallel.h"
#include "parallel/logger.h"
#include "parallel/reducer.h"
#include "tensor/op.h"

#define GOLDEN "tests/golden/first-light/ddp-buckets.json"

static struct tensor *
filled(struct task *me, int64_t rows, int64_t columns, double value)
{
    return tensor_filled(me, tensor_empty(me, DTYPE_F32, DEVICE_CPU, 2, (int64_t[]){ rows, columns }), value);
}

static bool
backward_of_sum(struct task *me, struct tensor *output)
{
    struct tensor *loss = tensor_sum(me, output);
    return loss != NULL && autograd_backward(me, &loss, NULL, 1, NULL);
}

static struct tensor *
parameter(struct module *module, const char *child, const char *name)
{
    return module_parameter(child != NULL ? module_child(module, child) : module, name);
}

/* Element 0 of a gradient; NaN: none. */
static double
grad0(struct task *me, struct tensor *tensor)
{
    float one[4096];
    if (tensor->grad == NULL || tensor_count(tensor->grad) > 4096 || !tensor_read(me, tensor->grad, one))
        return (double)NAN;
    return (double)one[0];
}

/* A module whose children run in an order of the test's own. */
enum { PICK_A, PICK_B, PICK_A_THEN_B, PICK_B_INSIDE_A };

static struct value *
picker_forward(struct task *me, struct module *self, struct value *args, struct value *kwargs)
{
    (void)kwargs;
    struct tensor *x = args->items[0]->tensor;
    struct module *a = module_child(self, "a"), *b = module_child(self, "b");
    int64_t        pick = self->integers[0];
    if (pick == PICK_A_THEN_B)
        return value_tensor(me, module_forward_tensor(me, b, module_forward_tensor(me, a, x)));
    if (pick == PICK_B_INSIDE_A)
        return value_tensor(me, module_forward_tensor(me, a, module_forward_tensor(me, b, x)));
    return value_tensor(me, module_forward_tensor(me, pick == PICK_A ? a : b, x));
}

static void
describe_nothing(const struct module *self, struct str *out)
{
    (void)self, (void)out;
}

static const struct module_type picker_type = {
    .name = "Picker", .forward = picker_forward, .life = &module_plain, .describe = describe_nothing,
};

static struct module *
picker(struct task *me, int64_t width, int children, int64_t pick)
{
    static const char *const names[] = { "a", "b", "c" };
    struct module *module = module_new(me, &picker_type);
    for (int i = 0; i < children && module != NULL; i++) {
        struct module *child = nn_linear(me, width, width, &(struct layer_options){ 0 });
        if (child == NULL || !module_add_child(me, module, names[i], child))
            return NULL;
    }
    if (module != NULL)
        module->integers[0] = pick;
    return module;
}

/* ---- hooks and order ---- */

static bool
order_of_use(struct task *me, struct process_group *group, struct ranks *ranks)
{
    struct module *module = picker(me, 512, 2, PICK_B_INSIDE_A);
    struct module *ddp = ddp_new(me, module, group, &(struct ddp_options){ .has_bucket_cap = true, .bucket_cap_mb = 1 });
    bool           done = ddp != NULL;
    for (int i = 0; i < 2 && done; i++) {
        size_t mark = scope_mark(me);
        done = backward_of_sum(me, module_forward_tensor(me, ddp, filled(me, 2, 512, me->rank + 1))) &&
               module_zero_grad(me, module, true);
        scope_release(me, mark);
    }
    struct log_entry entry = { 0 };
    done = done && module_forward_tensor(me, ddp, filled(me, 2, 512, 1)) != NULL &&
           logger_find(ddp_logger(ddp), "rebuilt_per_bucket_param_indices", &entry) &&
           strcmp(entry.text, "1 0, 3 2") == 0;
    return expect(me, ranks, done, "the rebuilt order follows use");
}

static void
the_rebuild_follows_use_and_launches_before_the_backward_ends(void **state)
{
    (void)state;
    for (int executor = EXECUTOR_STEPPED; executor <= EXECUTOR_FREE; executor++) {
        struct ranks ranks = { .size = 2, .body = order_of_use };
        ranks_run(&ranks, (enum executor_kind)executor);
        assert_no_errors(&ranks);
        assert_int_equal(count_events(&ranks, "ddp.bucket and rank = 0 and iter = 0"), 1);
        assert_int_equal(sum_of(&ranks, "ddp.bucket and rank = 0 and iter = 0", 1), 2101248);
        assert_int_equal(count_events(&ranks, "ddp.bucket and rank = 0 and iter = 1 and bytes = 1050624"), 2);
        assert_int_equal(count_events(&ranks, "ddp.bucket and rank = 1 and indices = \"1 0\""), 1);
        assert_int_equal(count_events(&ranks, "ddp.bucket and rank = 1 and indices = \"3 2\""), 1);
        assert_int_equal(count_events(&ranks, "ddp.mark_variable_ready and rank = 0"), 8);
        assert_int_equal(count_events(&ranks, "ddp.all_reduce_bucket and rank = 0"), 3);
        size_t backward = next_match(&ranks, "autograd.backward and rank = 0 and iter = 1", 0);
        assert_true(backward != SIZE_MAX);
        size_t end      = trace_partner(ranks.trace, backward);
        size_t launch   = next_match(&ranks, "c10d.allreduce and rank = 0 and iter = 1", 0);
        size_t finalize = next_match(&ranks, "ddp.finalize_backward and rank = 0 and iter = 1", 0);
        assert_true(backward < launch && launch < end && finalize < end);
        if (ranks.stepped)
            assert_true(launch < finalize);
        for (size_t wait = next_match(&ranks, "c10d.wait and rank = 0 and iter = 1", backward); wait != SIZE_MAX;
             wait = next_match(&ranks, "c10d.wait and rank = 0 and iter = 1", wait + 1))
            assert_true(wait > finalize && wait < trace_partner(ranks.trace, finalize));
        ranks_free(&ranks);
    }
}

/* ---- means ---- */

static bool
mean_of_ranks(struct task *me, struct process_group *group, struct ranks *ranks)
{
    bool           find_unused = ranks->number != 0;
    struct module *module = nn_linear(me, 1, 1, &(struct layer_options){ .no_bias = true });
    struct module *ddp = ddp_new(me, module, group, &(struct ddp_options){ .find_unused_parameters = find_unused });
    bool           done = ddp != NULL;
    for (int i = 0; i < 3 && done; i++) {
        struct tensor *output = module_forward_tensor(me, ddp, filled(me, 1, 1, me->rank + 1));
        done = backward_of_sum(me, output) && grad0(me, parameter(module, NULL, "weight")) == 1.5 * (i + 1) &&
               (i > 0 || module_zero_grad(me, module, false));
        if (i == 0)
            done = done && backward_of_sum(me, module_forward_tensor(me, ddp, filled(me, 1, 1, me->rank + 1)));
    }
    return expect(me, ranks, done, "gradients are means over the ranks");
}

static void
gradients_are_means_over_the_ranks(void **state)
{
    (void)state;
    for (int executor = EXECUTOR_STEPPED; executor <= EXECUTOR_FREE; executor++)
        for (int find = 0; find < 2; find++) {
            struct ranks ranks = { .size = 2, .body = mean_of_ranks, .number = find };
            ranks_run(&ranks, (enum executor_kind)executor);
            assert_no_errors(&ranks);
            ranks_free(&ranks);
        }
}

/* ---- construction ---- */

static bool
equal_from_the_start(struct task *me, struct process_group *group, struct ranks *ranks)
{
    struct module *module = nn_linear(me, 3, 2, &(struct layer_options){ 0 });
    if (module == NULL || !tensor_fill(me, parameter(module, NULL, "weight"), me->rank + 1))
        return false;
    struct module *ddp = ddp_new(me, module, group, &(struct ddp_options){ 0 });
    float          weight[6];
    bool done = ddp != NULL && tensor_read(me, parameter(module, NULL, "weight"), weight) && weight[5] == 1.0F;
    return expect(me, ranks, done && ddp_module(ddp) == module && ddp_module(module) == NULL, "rank 0's weights win");
}

static void
rank_zeros_weights_win(void **state)
{
    (void)state;
    for (int executor = EXECUTOR_STEPPED; executor <= EXECUTOR_FREE; executor++) {
        struct ranks ranks = { .size = 3, .body = equal_from_the_start };
        ranks_run(&ranks, (enum executor_kind)executor);
        assert_no_errors(&ranks);
        assert_int_equal(sum_of(&ranks, "ddp.ctor.broadcast and rank = 0", 1), 32);
        ranks_free(&ranks);
    }
}

static bool
other_shape(struct task *me, struct process_group *group, struct ranks *ranks)
{
    struct module *module = nn_linear(me, 3, me->rank == 1 ? 3 : 2, &(struct layer_options){ 0 });
    struct module *ddp = ddp_new(me, module, group, &(struct ddp_options){ 0 });
    (void)ranks;
    return ddp != NULL && backward_of_sum(me, module_forward_tensor(me, ddp, filled(me, 1, 3, 1)));
}

static void
another_shape_is_named_with_its_index_and_rank_on_both(void **state)
{
    (void)state;
    for (int executor = EXECUTOR_STEPPED; executor <= EXECUTOR_FREE; executor++) {
        struct ranks ranks = { .size = 2, .body = other_shape };
        ranks_run(&ranks, (enum executor_kind)executor);
        for (int rank = 0; rank < 2; rank++) {
            assert_int_equal(ranks.error[rank].kind, E_RUNTIME);
            assert_non_null(strstr(ranks.error[rank].message, "params[0] (weight) of rank 1 with sizes [3, 3]"));
        }
        ranks_free(&ranks);
    }
}

static bool
other_count(struct task *me, struct process_group *group, struct ranks *ranks)
{
    struct module *module = nn_linear(me, 3, 2, &(struct layer_options){ .no_bias = me->rank == 1 });
    (void)ranks;
    return ddp_new(me, module, group, &(struct ddp_options){ 0 }) != NULL;
}

static void
another_number_of_parameters_is_told_to_both(void **state)
{
    (void)state;
    struct ranks ranks = { .size = 2, .body = other_count };
    ranks_run(&ranks, EXECUTOR_STEPPED);
    assert_int_equal(ranks.error[0].kind, E_RUNTIME);
    assert_int_equal(ranks.error[1].kind, E_RUNTIME);
    assert_non_null(strstr(ranks.error[0].message, "rank 0 has 2 params, while rank 1 has 1"));
    assert_non_null(strstr(ranks.error[1].message, "rank 1 has 1 params, while rank 0 has 2"));
    ranks_free(&ranks);
}

static bool
nothing_to_train(struct task *me, struct process_group *group, struct ranks *ranks)
{
    struct module *module = nn_relu(me);
    bool refused = ddp_new(me, module, group, &(struct ddp_options){ 0 }) == NULL && me->error.kind == E_RUNTIME;
    task_clear_error(me);
    module  = nn_linear(me, 1, 1, &(struct layer_options){ 0 });
    refused = refused && ddp_new(me, module, NULL, &(struct ddp_options){ 0 }) == NULL && me->error.kind == E_VALUE;
    bool named = strstr(me->error.message, "init_process_group") != NULL;
    task_clear_error(me);
    return expect(me, ranks, refused && named, "both are refused");
}

static void
a_module_without_parameters_or_a_group_is_refused(void **state)
{
    (void)state;
    struct ranks ranks = { .size = 1, .body = nothing_to_train };
    ranks_run(&ranks, EXECUTOR_STEPPED);
    assert_no_errors(&ranks);
    ranks_free(&ranks);
}

/* ---- unused parameters ---- */

static bool
forgotten_branch(struct task *me, struct process_group *group, struct ranks *ranks)
{
    struct module *module = picker(me, 2, 3, PICK_A);
    struct module *ddp = ddp_new(me, module, group, &(struct ddp_options){ 0 });
    bool first = ddp != NULL && backward_of_sum(me, module_forward_tensor(me, ddp, filled(me, 1, 2, me->rank + 1)));
    if (!expect(me, ranks, first, "the first iteration passes"))
        return false;
    return module_forward_tensor(me, ddp, filled(me, 1, 2, 1)) != NULL;
}

static void
a_forgotten_branch_is_told_at_the_next_forward(void **state)
{
    (void)state;
    for (int executor = EXECUTOR_STEPPED; executor <= EXECUTOR_FREE; executor++) {
        struct ranks ranks = { .size = 2, .body = forgotten_branch };
        ranks_run(&ranks, (enum executor_kind)executor);
        for (int rank = 0; rank < 2; rank++) {
            char want[80];
            snprintf(want, sizeof want, "did not receive grad for rank %d: 2 3 4 5.", rank);
            assert_int_equal(ranks.error[rank].kind, E_RUNTIME);
            assert_non_null(strstr(ranks.error[rank].message, "find_unused_parameters"));
            assert_non_null(strstr(ranks.error[rank].message, want));
        }
        assert_int_equal(count_events(&ranks, "c10d.allreduce"), 0);
        ranks_free(&ranks);
    }
}

/* As if one parameter's gradient came twice in a backward: checkpoints inside of each other do that. */
static bool
twice(struct task *me, struct process_group *group, struct ranks *ranks)
{
    (void)ranks;
    struct module *module = picker(me, 2, 2, PICK_A_THEN_B);
    struct module *ddp = ddp_new(me, module, group, &(struct ddp_options){ 0 });
    return ddp != NULL && module_forward_tensor(me, ddp, filled(me, 1, 2, 1)) != NULL &&
           reducer_mark_variable_ready(me, ddp_reducer(ddp), 2) && reducer_mark_variable_ready(me, ddp_reducer(ddp), 2);
}

static void
a_parameter_marked_ready_twice_is_named(void **state)
{
    (void)state;
    struct ranks ranks = { .size = 1, .body = twice };
    ranks_run(&ranks, EXECUTOR_STEPPED);
    assert_int_equal(ranks.error[0].kind, E_RUNTIME);
    assert_non_null(strstr(ranks.error[0].message, "parameter 2 (b.weight) was marked ready twice"));
    ranks_free(&ranks);
}

/* A branch that only a backward without synchronisation used: the next reduction averages it too. */
static bool
used_without_sync(struct task *me, struct process_group *group, struct ranks *ranks)
{
    struct module *module = picker(me, 2, 2, PICK_B);
    struct module *ddp = ddp_new(me, module, group, &(struct ddp_options){ .find_unused_parameters = true });
    if (ddp == NULL)
        return false;
    struct tensor *x = filled(me, 1, 2, me->rank + 1);
    ddp_set_sync(ddp, false);
    bool done = backward_of_sum(me, module_forward_tensor(me, ddp, x)) &&
                grad0(me, parameter(module, "b", "weight")) == me->rank + 1;
    ddp_set_sync(ddp, true);
    module->integers[0] = PICK_A;
    done = done && backward_of_sum(me, module_forward_tensor(me, ddp, x)) &&
           grad0(me, parameter(module, "a", "weight")) == 1.5 && grad0(me, parameter(module, "b", "weight")) == 1.5;
    return expect(me, ranks, done, "both branches are means");
}

static void
what_only_no_sync_used_is_averaged_by_the_next_reduction(void **state)
{
    (void)state;
    for (int executor = EXECUTOR_STEPPED; executor <= EXECUTOR_FREE; executor++) {
        struct ranks ranks = { .size = 2, .body = used_without_sync };
        ranks_run(&ranks, (enum executor_kind)executor);
        assert_no_errors(&ranks);
        ranks_free(&ranks);
    }
}

static bool
different_branches(struct task *me, struct process_group *group, struct ranks *ranks)
{
    struct module *module = picker(me, 2, 3, me->rank == 0 ? PICK_A : PICK_B);
    struct module *ddp = ddp_new(me, module, group, &(struct ddp_options){ .find_unused_parameters = true });
    bool           done = ddp != NULL;
    for (int i = 0; i < 2 && done; i++) {
        done = backward_of_sum(me, module_forward_tensor(me, ddp, filled(me, 1, 2, me->rank + 1)));
        done = done && grad0(me, parameter(module, "a", "weight")) == 0.5 &&
               grad0(me, parameter(module, "b", "weight")) == 1.0 && parameter(module, "c", "weight")->grad == NULL &&
               module_zero_grad(me, module, true);
    }
    return expect(me, ranks, done, "a 0.5, b 1.0, c none on both ranks");
}

static void
unused_parameters_get_what_other_ranks_used(void **state)
{
    (void)state;
    for (int executor = EXECUTOR_STEPPED; executor <= EXECUTOR_FREE; executor++) {
        struct ranks ranks = { .size = 2, .body = different_branches };
        ranks_run(&ranks, (enum executor_kind)executor);
        assert_no_errors(&ranks);
        assert_int_equal(count_events(&ranks, "ddp.all_reduce_bucket and rank = 0"), 2);
        assert_int_equal(count_events(&ranks, "c10d.allreduce and rank = 0 and bytes = 24"), 2);
        assert_int_equal(count_events(&ranks, "ddp.rebuild_buckets"), 0);
        ranks_free(&ranks);
    }
}

/* Two outputs of which the loss takes one: the other's parameters get no gradient, and nobody waits for it. */
static struct value *
two_outputs_forward(struct task *me, struct module *self, struct value *args, struct value *kwargs)
{
    (void)kwargs;
    struct tensor *x = args->items[0]->tensor;
    struct value  *items[2] = { value_tensor(me, module_forward_tensor(me, module_child(self, "a"), x)),
                                value_tensor(me, module_forward_tensor(me, module_child(self, "b"), x)) };
    return items[0] != NULL && items[1] != NULL ? value_tuple(me, 2, items) : NULL;
}

static const struct module_type two_outputs_type = {
    .name = "TwoOutputs", .forward = two_outputs_forward, .life = &module_plain, .describe = describe_nothing,
};

static bool
unused_output(struct task *me, struct process_group *group, struct ranks *ranks)
{
    struct module *module = module_new(me, &two_outputs_type);
    static const char *const names[] = { "a", "b" };
    for (int i = 0; i < 2; i++)
        module_add_child(me, module, names[i], nn_linear(me, 2, 2, &(struct layer_options){ 0 }));
    struct module *ddp = ddp_new(me, module, group, &(struct ddp_options){ .find_unused_parameters = true });
    bool           done = ddp != NULL;
    for (int i = 0; i < 2 && done; i++) {
        struct value *x    = value_tensor(me, filled(me, 1, 2, me->rank + 1));
        struct value *args = value_tuple(me, 1, &x);
        struct value *out  = module_forward(me, ddp, args, NULL);
        done = out != NULL && backward_of_sum(me, out->items[0]->tensor) &&
               grad0(me, parameter(module, "a", "weight")) == 1.5 && parameter(module, "b", "weight")->grad == NULL &&
               module_zero_grad(me, module, true);
    }
    return expect(me, ranks, done, "an output outside the loss harms nobody");
}

static void
an_output_outside_the_loss_is_found_through_the_sink(void **state)
{
    (void)state;
    for (int executor = EXECUTOR_STEPPED; executor <= EXECUTOR_FREE; executor++) {
        struct ranks ranks = { .size = 2, .body = unused_output };
        ranks_run(&ranks, (enum executor_kind)executor);
        assert_no_errors(&ranks);
        ranks_free(&ranks);
    }
}

/* ---- no_sync ---- */

static bool
accumulate(struct task *me, struct process_group *group, struct ranks *ranks)
{
    int            way = (int)ranks->number;
    struct module *module = nn_linear(me, 4, 2, &(struct layer_options){ 0 });
    struct module *ddp = ddp_new(me, module, group, &(struct ddp_options){ 0 });
    bool           done = ddp != NULL;
    for (int i = 0; i < 4 && done; i++) {
        bool inside = i < 3;
        ddp_set_sync(ddp, !(inside && (way == 1 || way == 3)));
        struct tensor *output = module_forward_tensor(me, ddp, filled(me, 1, 4, 4 * me->rank + i));
        ddp_set_sync(ddp, !(inside && (way == 1 || way == 2)));
        done = backward_of_sum(me, output);
    }
    return expect(me, ranks, done && grad0(me, parameter(module, NULL, "weight")) == 14, "the gradient is 14");
}

static void
the_forward_decides_whether_a_backward_reduces(void **state)
{
    (void)state;
    static const int reduced[] = { 4, 1, 4, 1 };
    for (int way = 0; way < 4; way++) {
        struct ranks ranks = { .size = 2, .body = accumulate, .number = way };
        ranks_run(&ranks, EXECUTOR_STEPPED);
        assert_no_errors(&ranks);
        assert_int_equal(count_events(&ranks, "c10d.allreduce and rank = 0"), reduced[way]);
        assert_int_equal(sum_of(&ranks, "c10d.allreduce and rank = 0", 1), 40 * reduced[way]);
        assert_int_equal(count_events(&ranks, "ddp.prepare_for_backward and rank = 0"), reduced[way]);
        ranks_free(&ranks);
    }
}

/* ---- buffers ---- */

static bool
buffers_follow_rank_zero(struct task *me, struct process_group *group, struct ranks *ranks)
{
    int64_t        two    = 2;
    struct module *module = nn_linear(me, 2, 2, &(struct layer_options){ 0 });
    struct tensor *buffer = tensor_filled(me, tensor_empty(me, DTYPE_I64, DEVICE_CPU, 1, &two), me->rank);
    int64_t        seen[2];
    if (!module_add_buffer(me, module, "count", buffer))
        return false;
    struct module *ddp = ddp_new(me, module, group, &(struct ddp_options){ 0 });
    bool done = ddp != NULL && tensor_read(me, buffer, seen) && seen[1] == 0 && tensor_fill(me, buffer, 5 + me->rank);
    done = done && module_forward_tensor(me, ddp, filled(me, 1, 2, 1)) != NULL && tensor_read(me, buffer, seen);
    return expect(me, ranks, done && seen[0] == 5, "rank 0's buffer replaces the others' before the forward");
}

static void
buffers_are_rank_zeros_before_each_forward(void **state)
{
    (void)state;
    struct ranks ranks = { .size = 3, .body = buffers_follow_rank_zero };
    ranks_run(&ranks, EXECUTOR_STEPPED);
    assert_no_errors(&ranks);
    assert_int_equal(count_events(&ranks, "ddp.sync_buffers"), 3);
    ranks_free(&ranks);
}

/* ---- on devices ---- */

static bool
on_devices(struct task *me, struct process_group *group, struct ranks *ranks)
{
    struct module *module = nn_linear(me, 1, 1, &(struct layer_options){ .no_bias = true });
    bool           done = module != NULL && module_to(me, module, me->rank);
    struct module *ddp  = done ? ddp_new(me, module, group, &(struct ddp_options){ 0 }) : NULL;
    done = ddp != NULL;
    for (int i = 0; i < 2 && done; i++) {
        struct tensor *input = tensor_to(me, filled(me, 1, 1, me->rank + 1), me->rank, DTYPE_F32);
        done = backward_of_sum(me, module_forward_tensor(me, ddp, input)) &&
               grad0(me, parameter(module, NULL, "weight")) == 1.5 && module_zero_grad(me, module, true);
    }
    return expect(me, ranks, done, "gradients on devices are means too");
}

static void
each_rank_may_have_a_device_of_its_own(void **state)
{
    (void)state;
    for (int executor = EXECUTOR_STEPPED; executor <= EXECUTOR_FREE; executor++) {
        struct ranks ranks = { .size = 2, .body = on_devices };
        ranks_run(&ranks, (enum executor_kind)executor);
        assert_no_errors(&ranks);
        assert_int_equal(count_events(&ranks, "fault"), 0);
        ranks_free(&ranks);
    }
}

/* ---- several devices in one rank ---- */

enum { LAYERS = 12 };

/* As many layers on each of two devices, side by side: both workers of the backward bring gradients at the same time. */
static struct value *
two_devices_forward(struct task *me, struct module *self, struct value *args, struct value *kwargs)
{
    (void)kwargs;
    struct tensor *sums[2] = { NULL, NULL };
    for (int i = 0; i < 2 * LAYERS; i++) {
        struct tensor *x   = tensor_to(me, args->items[0]->tensor, i % 2, DTYPE_F32);
        struct tensor *out = module_forward_tensor(me, self->children.entries[i].module, x);
        sums[i % 2]        = sums[i % 2] == NULL ? out : tensor_add(me, sums[i % 2], out);
    }
    struct value *items[2] = { value_tensor(me, sums[0]), value_tensor(me, sums[1]) };
    return items[0] != NULL && items[1] != NULL ? value_tuple(me, 2, items) : NULL;
}

static const struct module_type two_devices_type = {
    .name = "TwoDevices", .forward = two_devices_forward, .life = &module_plain, .describe = describe_nothing,
};

static struct module *
two_devices(struct task *me)
{
    struct module *module = module_new(me, &two_devices_type);
    for (int i = 0; i < 2 * LAYERS && module != NULL; i++) {
        char           name[8];
        struct module *child = nn_linear(me, 1, 1, &(struct layer_options){ .no_bias = true });
        snprintf(name, sizeof name, "l%d", i);
        if (child == NULL || !module_to(me, child, i % 2) || !module_add_child(me, module, name, child))
            return NULL;
    }
    return module;
}

static bool
both_devices_bring_gradients(struct task *me, struct process_group *group, struct ranks *ranks)
{
    struct module *module = two_devices(me);
    struct module *ddp    = module != NULL ? ddp_new(me, module, group, &(struct ddp_options){ 0 }) : NULL;
    bool           done   = ddp != NULL;
    for (int step = 0; step < 3 && done; step++) {
        struct value  *x    = value_tensor(me, filled(me, 1, 1, me->rank + 1));
        struct value  *out  = module_forward(me, ddp, value_tuple(me, 1, &x), NULL);
        struct tensor *roots[2];
        for (int i = 0; i < 2 && out != NULL; i++)
            roots[i] = tensor_sum(me, out->items[i]->tensor);
        done = out != NULL && autograd_backward(me, roots, NULL, 2, NULL);
        for (int i = 0; i < 2 * LAYERS && done; i++)
            done = grad0(me, parameter(module->children.entries[i].module, NULL, "weight")) == 1.5;
        done = done && module_zero_grad(me, module, true);
    }
    return expect(me, ranks, done, "every gradient is the mean");
}

static void
gradients_of_several_devices_come_one_at_a_time(void **state)
{
    (void)state;
    for (int executor = EXECUTOR_STEPPED; executor <= EXECUTOR_FREE; executor++) {
        struct ranks ranks = { .size = 2, .body = both_devices_bring_gradients };
        ranks_run(&ranks, (enum executor_kind)executor);
        assert_no_errors(&ranks);
        assert_int_equal(count_events(&ranks, "lock.hold and lock = \"reducer\""), 2 * 3 * 2 * LAYERS);
        ranks_free(&ranks);
    }
}

/* A gradient that another rank alone computed is written over: who saved the old one is told. */
static bool
saved_gradient(struct task *me, struct process_group *group, struct ranks *ranks)
{
    struct module *module = picker(me, 2, 2, me->rank == 0 ? PICK_A : PICK_B);
    struct module *ddp = ddp_new(me, module, group, &(struct ddp_options){ .find_unused_parameters = true });
    bool           done = ddp != NULL && backward_of_sum(me, module_forward_tensor(me, ddp, filled(me, 1, 2, 1)));
    struct tensor *other = done ? parameter(module, me->rank == 0 ? "b" : "a", "weight") : NULL;
    struct tensor *saved = other != NULL ? tensor_mul(me, other->grad, other) : NULL;
    done = saved != NULL && backward_of_sum(me, module_forward_tensor(me, ddp, filled(me, 1, 2, 2)));
    if (!expect(me, ranks, done, "two iterations pass"))
        return false;
    bool told = !backward_of_sum(me, saved) && strstr(me->error.message, "modified by an inplace operation") != NULL;
    task_clear_error(me);
    return expect(me, ranks, told, "the backward of what was saved is told");
}

static void
a_mean_written_over_a_gradient_is_a_change_of_it(void **state)
{
    (void)state;
    struct ranks ranks = { .size = 2, .body = saved_gradient };
    ranks_run(&ranks, EXECUTOR_STEPPED);
    assert_no_errors(&ranks);
    ranks_free(&ranks);
}

/* ---- what PyTorch logs ---- */

struct logged { struct ranks ranks; const json_t *one; };

static bool
says(struct task *me, struct ranks *ranks, const struct module *ddp, const char *key, const char *want)
{
    struct log_entry entry = { 0 };
    char             number[32];
    bool             there = logger_find(ddp_logger(ddp), key, &entry);
    snprintf(number, sizeof number, "%lld", (long long)entry.number);
    const char *found = !there ? "" : entry.text != NULL ? entry.text : number;
    bool        same  = strcmp(found, want) == 0;
    if (!same)
        print_message("# %s: '%s', not '%s'\n", key, found, want);
    return expect(me, ranks, same, key);
}

static struct module *
chain(struct task *me, const json_t *widths)
{
    struct module *children[128];
    int            count = 0;
    for (size_t i = 0; i + 1 < json_array_size(widths); i++) {
        if (i > 0)
            children[count++] = nn_relu(me);
        int64_t from = json_integer_value(json_array_get(widths, i)), to = json_integer_value(json_array_get(widths, i + 1));
        children[count++] = nn_linear(me, from, to, &(struct layer_options){ 0 });
    }
    return nn_sequential(me, children, count);
}

static bool
log_three_iterations(struct task *me, struct process_group *group, struct ranks *ranks)
{
    const json_t  *one = ((struct logged *)ranks)->one, *widths = json_object_get(one, "widths");
    struct module *module = chain(me, widths);
    struct ddp_options options = {
        .has_bucket_cap = json_is_number(json_object_get(one, "bucket_cap_mb")),
        .bucket_cap_mb = json_number_value(json_object_get(one, "bucket_cap_mb")),
        .find_unused_parameters = json_is_true(json_object_get(one, "find_unused_parameters")),
    };
    struct module *ddp = ddp_new(me, module, group, &options);
    bool           done = ddp != NULL;
    for (int i = 0; i < 3 && done; i++) {
        size_t mark = scope_mark(me);
        done = backward_of_sum(me, module_forward_tensor(me, ddp, filled(me, 1, json_integer_value(json_array_get(widths, 0)), 1)));
        scope_release(me, mark);
    }
    if (!expect(me, ranks, done && module_forward_tensor(me, ddp, filled(me, 1, json_integer_value(json_array_get(widths, 0)), 1)) != NULL,
                "three iterations and the forward of a fourth"))
        return false;
    char cap[32];
    snprintf(cap, sizeof cap, "%lld", (long long)json_integer_value(json_object_get(one, "bucket_cap_bytes")));
    const char *rebuilt = json_integer_value(json_object_get(one, "has_rebuilt_buckets")) != 0 ? "1" : "0";
    const char *sizes = json_string_value(json_object_get(one, "rebuilt_bucket_sizes"));
    const char *indices = json_string_value(json_object_get(one, "rebuilt_per_bucket_param_indices"));
    return says(me, ranks, ddp, "bucket_sizes", json_string_value(json_object_get(one, "bucket_sizes"))) &&
           says(me, ranks, ddp, "bucket_cap_bytes", cap) && says(me, ranks, ddp, "has_rebuilt_buckets", rebuilt) &&
           says(me, ranks, ddp, "rebuilt_bucket_sizes", sizes != NULL ? sizes : "") &&
           says(me, ranks, ddp, "rebuilt_per_bucket_param_indices", indices != NULL ? indices : "") &&
           says(me, ranks, ddp, "prev_iteration_grad_ready_order_indices",
                json_string_value(json_object_get(one, "ready_order")));
}

static void
logging_data_are_those_of_pytorch(void **state)
{
    (void)state;
    json_t *golden = json_load_file(GOLDEN, 0, NULL), *one;
    size_t  number, done = 0;
    assert_non_null(golden);
    json_array_foreach(json_object_get(golden, "logging"), number, one) {
        if (json_array_size(json_object_get(one, "widths")) == 0)
            continue;
        struct logged logged = { .ranks = { .size = 2, .body = log_three_iterations }, .one = one };
        ranks_run(&logged.ranks, EXECUTOR_STEPPED);
        assert_no_errors(&logged.ranks);
        ranks_free(&logged.ranks);
        done++;
    }
    assert_true(done >= 6);
    json_decref(golden);
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_rebuild_follows_use_and_launches_before_the_backward_ends),
        cmocka_unit_test(gradients_are_means_over_the_ranks),
        cmocka_unit_test(rank_zeros_weights_win),
        cmocka_unit_test(another_shape_is_named_with_its_index_and_rank_on_both),
        cmocka_unit_test(another_number_of_parameters_is_told_to_both),
        cmocka_unit_test(a_module_without_parameters_or_a_group_is_refused),
        cmocka_unit_test(a_forgotten_branch_is_told_at_the_next_forward),
        cmocka_unit_test(a_parameter_marked_ready_twice_is_named),
        cmocka_unit_test(what_only_no_sync_used_is_averaged_by_the_next_reduction),
        cmocka_unit_test(unused_parameters_get_what_other_ranks_used),
        cmocka_unit_test(an_output_outside_the_loss_is_found_through_the_sink),
        cmocka_unit_test(the_forward_decides_whether_a_backward_reduces),
        cmocka_unit_test(buffers_are_rank_zeros_before_each_forward),
        cmocka_unit_test(each_rank_may_have_a_device_of_its_own),
        cmocka_unit_test(gradients_of_several_devices_come_one_at_a_time),
        cmocka_unit_test(a_mean_written_over_a_gradient_is_a_change_of_it),
        cmocka_unit_test(logging_data_are_those_of_pytorch),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
