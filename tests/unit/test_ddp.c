/* DDP beyond the plain case: what hooks of one's own see, unused parameters in one bucket with used ones, the live ranks
 * of a Join, gradients that are there when buckets are rebuilt. */
#include "ranks_rig.h"

#include <math.h>
#include "autograd/call.h"
#include "autograd/engine.h"
#include "base/vec.h"
#include "nn/layers.h"
#include "parallel/comm_hooks.h"
#include "parallel/distributed_data_parallel.h"
#include "parallel/join.h"
#include "parallel/logger.h"
#include "parallel/reducer.h"
#include "tensor/op.h"

/* Two Linear(2, 2), of which the second runs alone or behind the first; all weights are 1, all biases 0. */
static struct value *
pair_forward(struct task *me, struct module *self, struct value *args, struct value *kwargs)
{
    struct tensor *x = args->items[0]->tensor;
    (void)kwargs;
    if (self->integers[0] != 0)
        x = module_forward_tensor(me, module_child(self, "first"), x);
    return value_tensor(me, module_forward_tensor(me, module_child(self, "second"), x));
}

static void
describe_nothing(const struct module *self, struct str *out)
{
    (void)self, (void)out;
}

static const struct module_type pair_type = {
    .name = "Pair", .forward = pair_forward, .life = &module_plain, .describe = describe_nothing,
};

static struct module *
pair_new(struct task *me, bool both)
{
    static const char *const names[] = { "first", "second" };
    struct module *module = module_new(me, &pair_type);
    for (size_t i = 0; i < countof(names) && module != NULL; i++) {
        struct module *child = nn_linear(me, 2, 2, &(struct layer_options){ 0 });
        if (child == NULL || !tensor_fill(me, module_parameter(child, "weight"), 1) ||
            !tensor_fill(me, module_parameter(child, "bias"), 0) || !module_add_child(me, module, names[i], child))
            return NULL;
    }
    if (module != NULL)
        module->integers[0] = both;
    return module;
}

/* A row of two such numbers in, the sum out, and backward. */
static bool
step(struct task *me, struct module *ddp, double number)
{
    struct tensor *row  = tensor_filled(me, tensor_empty(me, DTYPE_F32, DEVICE_CPU, 2, (int64_t[]){ 1, 2 }), number);
    struct tensor *loss = tensor_sum(me, module_forward_tensor(me, ddp, row));
    return loss != NULL && autograd_backward(me, &loss, NULL, 1, NULL);
}

/* Of a weight's gradient the first element; NaN: there is none. */
static double
grad_of(struct task *me, struct module *module, const char *child)
{
    struct tensor *grad = module_parameter(module_child(module, child), "weight")->grad;
    float          elements[4];
    return grad != NULL && tensor_read(me, grad, elements) ? (double)elements[0] : (double)NAN;
}

static void
run(rank_body *body, int size)
{
    for (int executor = EXECUTOR_STEPPED; executor <= EXECUTOR_FREE; executor++) {
        struct ranks ranks = { .size = size, .body = body };
        ranks_run(&ranks, (enum executor_kind)executor);
        assert_no_errors(&ranks);
        ranks_free(&ranks);
    }
}

/* ---- hooks ---- */

struct seen { int buckets, last; bool in_order, is_short; double sent; };

static void *
seen_start(struct task *me, void *context, const struct grad_bucket *bucket)
{
    struct seen *seen = context;
    float        first[16];
    if (!tensor_read(me, bucket->buffer, first))
        return NULL;
    seen->in_order = seen->buckets++ == bucket->index;
    seen->last    += bucket->is_last;
    seen->sent     = (double)first[0];
    return bucket->buffer;
}

static struct tensor *
seen_finish(struct task *me, void *context, void *started)
{
    struct seen *seen = context;
    return seen->is_short ? tensor_zeros(me, DTYPE_F32, DEVICE_CPU, 1, (int64_t[]){ 1 }) : started;
}

static void
seen_forget(struct task *me, void *context, void *started)
{
    (void)me, (void)context, (void)started;
}

static bool
sees_buckets(struct task *me, struct process_group *group, struct ranks *ranks)
{
    static const double caps[] = { 1e-6 };
    struct module *module = pair_new(me, true);
    struct module *ddp    = ddp_new(me, module, group, &(struct ddp_options){ .find_unused_parameters = true,
                                    .bucket_caps_mb = caps, .bucket_cap_count = 1 });
    struct seen    seen   = { 0 };
    const struct comm_hook hook = { seen_start, seen_finish, seen_forget, hook_keeps_nothing, &seen, "seen" };
    struct log_entry       reduced = { 0 };
    bool done = ddp != NULL && reducer_register_comm_hook(me, ddp_reducer(ddp), &hook) && step(me, ddp, 1 + me->rank);
    return expect(me, ranks, done && seen.buckets == 4 && seen.in_order, "each parameter has a bucket of its own") &&
           expect(me, ranks, seen.last == 1, "one of them is the last") &&
           expect(me, ranks, seen.sent == 2 * (1 + me->rank) && grad_of(me, module, "first") == seen.sent,
                  "nobody has divided what the hook gets") &&
           expect(me, ranks, step(me, ddp, 1) && logger_find(ddp_logger(ddp), "num_buckets_reduced", &reduced) &&
                  reduced.number == 4, "the next forward logs all of them");
}

static bool
answers_too_little(struct task *me, struct process_group *group, struct ranks *ranks)
{
    struct module *module = pair_new(me, true);
    struct module *ddp    = ddp_new(me, module, group, &(struct ddp_options){ 0 });
    struct seen    seen   = { .is_short = true };
    const struct comm_hook hook = { seen_start, seen_finish, seen_forget, hook_keeps_nothing, &seen, "short" };
    bool told = ddp != NULL && reducer_register_comm_hook(me, ddp_reducer(ddp), &hook) && !step(me, ddp, 1) &&
                strstr(me->error.message, "has 1 elements, but the bucket has 12") != NULL;
    task_clear_error(me);
    return expect(me, ranks, told, "what a hook answers fills its bucket");
}

/* A penalty on the gradient: as this rank's own share it goes on being differentiable. */
static bool
grad_of_grad(struct task *me, struct process_group *group, struct ranks *ranks)
{
    struct backward_options create = { .create_graph = true };
    struct module *module = pair_new(me, true), *second = module_child(module, "second");
    struct module *ddp    = ddp_new(me, module, group, &(struct ddp_options){ 0 });
    struct tensor *row    = tensor_filled(me, tensor_empty(me, DTYPE_F32, DEVICE_CPU, 2, (int64_t[]){ 1, 2 }), 1);
    struct tensor *loss   = ddp != NULL ? tensor_sum(me, module_forward_tensor(me, ddp, row)) : NULL;
    bool done = loss != NULL && autograd_backward(me, &loss, NULL, 1, &create) && grad_of(me, module, "second") == 2;
    struct tensor *penalty = done ? tensor_sum(me, module_parameter(second, "weight")->grad) : NULL;
    done = penalty != NULL && module_zero_grad(me, module, true) && autograd_backward(me, &penalty, NULL, 1, NULL);
    return expect(me, ranks, done && grad_of(me, module, "first") == 1, "half of the whole: 2 of 2 ranks");
}

static bool
sparse_rows(struct task *me, struct process_group *group, struct ranks *ranks)
{
    const int64_t          index = 1, one = 1;
    struct module         *table = nn_embedding(me, 3, 2, &(struct layer_options){ .sparse = true });
    struct module         *ddp   = ddp_new(me, table, group, &(struct ddp_options){ 0 });
    const struct comm_hook hook  = noop_hook();
    struct tensor         *input = tensor_from(me, DTYPE_I64, 1, &one, &index);
    bool done = ddp != NULL && reducer_register_comm_hook(me, ddp_reducer(ddp), &hook);
    struct tensor *loss = done ? tensor_sum(me, module_forward_tensor(me, ddp, input)) : NULL;
    float          rows[6] = { 0 };
    done = loss != NULL && autograd_backward(me, &loss, NULL, 1, NULL) &&
           tensor_read(me, tensor_to_dense(me, module_parameter(table, "weight")->grad), rows);
    return expect(me, ranks, done && (double)rows[2] == 1 && (double)rows[0] == 0, "a sparse gradient neither");
}

static void
a_hook_gets_each_bucket_once_and_undivided(void **state)
{
    (void)state;
    run(sees_buckets, 2);
    run(sparse_rows, 2);
    run(answers_too_little, 2);
}

/* ---- buffers ---- */

static bool
notes_mode(struct task *me, void *context, struct reducer *reducer, const struct named_tensors *buffers)
{
    bool *recorded = context;
    (void)reducer, (void)buffers;
    *recorded = grad_enabled(me);
    return true;
}

static void
drop_nothing(struct task *me, void *context)
{
    (void)me, (void)context;
}

static bool
quiet_buffers(struct task *me, struct process_group *group, struct ranks *ranks)
{
    struct module *module = pair_new(me, true);
    struct tensor *buffer = tensor_filled(me, tensor_empty(me, DTYPE_F32, DEVICE_CPU, 1, (int64_t[]){ 1 }), me->rank);
    bool           recorded = true;
    struct module *ddp = module_add_buffer(me, module, "count", buffer)
                             ? ddp_new(me, module, group, &(struct ddp_options){ 0 }) : NULL;
    uint32_t version = tensor_version(buffer);
    if (!expect(me, ranks, version > 0, "construction's is one"))
        return false;
    bool done = ddp != NULL && step(me, ddp, 1);
    if (!expect(me, ranks, done && tensor_version(buffer) == version, "a forward's broadcast is no change of a buffer"))
        return false;
    const struct buffer_hook hook = { notes_mode, drop_nothing, &recorded, true };
    ddp_register_buffer_hook(me, ddp, &hook);
    return expect(me, ranks, step(me, ddp, 1) && !recorded && grad_enabled(me), "a hook of one's own records nothing");
}

static void
buffers_are_synced_behind_autograds_back(void **state)
{
    (void)state;
    run(quiet_buffers, 2);
}

/* ---- unused parameters ---- */

static bool
half_used(struct task *me, struct process_group *group, struct ranks *ranks)
{
    struct module *module = pair_new(me, false);
    struct module *ddp    = ddp_new(me, module, group, &(struct ddp_options){ .find_unused_parameters = true,
                                    .skip_all_reduce_unused_params = true });
    bool done = ddp != NULL && step(me, ddp, 1 + me->rank);
    return expect(me, ranks, done && grad_of(me, module, "second") == 1.5, "a bucket that is half used is reduced") &&
           expect(me, ranks, isnan(grad_of(me, module, "first")), "and who is not used gets nothing");
}

static void
a_gradient_with_a_history_stays_this_ranks_share(void **state)
{
    (void)state;
    run(grad_of_grad, 2);
}

static void
a_bucket_is_skipped_only_where_all_of_it_is_unused(void **state)
{
    (void)state;
    run(half_used, 2);
}

/* ---- gradients that stay ---- */

static bool
three_steps(struct task *me, struct process_group *group, struct ranks *ranks)
{
    for (int views = 0; views < 2; views++) {
        struct module *module = pair_new(me, true);
        struct module *ddp = ddp_new(me, module, group, &(struct ddp_options){ .gradient_as_bucket_view = views == 1 });
        bool           done = ddp != NULL;
        for (int i = 1; i <= 3; i++)
            done = done && step(me, ddp, 1 + me->rank) && grad_of(me, module, "first") == 3 * i;
        if (!expect(me, ranks, done, "each step adds its mean to what is there, the one after the rebuild, too"))
            return false;
    }
    return true;
}

static void
gradients_add_up_over_the_rebuild(void **state)
{
    (void)state;
    run(three_steps, 2);
}

/* ---- Join ---- */

/* Rank 0 has one input, rank 1 two. */
static bool
uneven(struct task *me, struct process_group *group, struct ranks *ranks)
{
    for (int initial = 0; initial < 2; initial++) {
        struct module  *module = pair_new(me, false);
        struct module  *ddp    = ddp_new(me, module_child(module, "second"), group, &(struct ddp_options){ 0 });
        struct joinable self;
        if (ddp == NULL || !ddp_joinable(ddp, &self))
            return false;
        const struct join join   = { &self, 1, true, false };
        struct join_config config = join_config_of(&join, 0), over = { 0 };
        bool done = join_check(me, &join);
        ddp_set_join(me, ddp, &config);
        ddp_divide_by_initial_world_size(ddp, initial == 1);
        for (int i = 0; i <= me->rank; i++)
            done = done && module_zero_grad(me, module, true) && step(me, ddp, 1 + me->rank);
        double last = grad_of(me, module, "second");
        done = done && join_exit(me, &join);
        ddp_set_join(me, ddp, &over);
        double want = me->rank == 0 ? 1.5 : initial == 1 ? 1 : 2;
        if (!expect(me, ranks, done && last == want, "divided by all ranks, or by those that have inputs"))
            return false;
    }
    return true;
}

static void
in_a_join_gradients_are_divided_by_the_ranks_that_go_on(void **state)
{
    (void)state;
    run(uneven, 2);
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_hook_gets_each_bucket_once_and_undivided),
        cmocka_unit_test(buffers_are_synced_behind_autograds_back),
        cmocka_unit_test(a_gradient_with_a_history_stays_this_ranks_share),
        cmocka_unit_test(a_bucket_is_skipped_only_where_all_of_it_is_unused),
        cmocka_unit_test(gradients_add_up_over_the_rebuild),
        cmocka_unit_test(in_a_join_gradients_are_divided_by_the_ranks_that_go_on),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
