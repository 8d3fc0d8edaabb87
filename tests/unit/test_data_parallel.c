/* nn.DataParallel in both executors: replicas, forward, gradients, errors; and the golden steps of
 * tests/golden/first-light/dp_models.json. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <cmocka.h>

#include <jansson.h>

#include "autograd/call.h"
#include "autograd/engine.h"
#include "functional/functional.h"
#include "nn/layers.h"

#include "data_parallel_rig.h"

/* ---- modules for the tests ---- */

enum probe { PROBE_MEAN, PROBE_COUNT, PROBE_RAISE, PROBE_SCALE, PROBE_SQUARE, PROBE_MODE };

static struct value *
probe_forward(struct task *me, struct module *self, struct value *args, struct value *kwargs)
{
    (void)kwargs;
    if (args->count < 1)
        return failed_null(me, E_TYPE, "forward() is missing its argument");
    struct tensor *input = args->items[0]->tensor;
    struct tensor *scale = module_parameter(self, "scale");
    switch ((enum probe)self->integers[0]) {
    case PROBE_MEAN:
        return value_tensor(me, tensor_mean(me, tensor_mul(me, input, scale)));
    case PROBE_COUNT: {
        struct tensor *buffer = self->buffers.entries[0].tensor;
        struct tensor *one = tensor_number(me, DTYPE_F32, tensor_device(buffer), 1);
        return tensor_add_(me, buffer, one, 1) != NULL ? value_tensor(me, input) : NULL;
    }
    case PROBE_RAISE:
        if (me->device == 1)
            sched_advance(me, 1000000);
        if (me->device == 1 || me->device == 3) {
            failed(me, E_VALUE, "boom %d", me->device);
            me->error.payload = self; /* as a script's own error object */
            return NULL;
        }
        return value_tensor(me, input);
    case PROBE_SCALE:
        return value_tensor(me, tensor_mul(me, input, scale));
    case PROBE_SQUARE:
        return value_tensor(me, tensor_mul(me, tensor_mul(me, input, input), scale));
    case PROBE_MODE:
        return value_tensor(me, tensor_mul_number(me, input, grad_enabled(me) ? 2 : 1));
    }
    return NULL;
}

static void
probe_describe(const struct module *self, struct str *out)
{
    (void)self;
    (void)out;
}

static const struct module_type probe_type = {
    .name = "Probe", .forward = probe_forward, .life = &module_plain, .describe = probe_describe,
};

/* scale: a parameter of one element, 2; unused and frozen: two more; steps: a buffer of one. On device 0. */
static struct module *
probe_new(struct task *me, enum probe probe)
{
    static const char *const names[] = { "scale", "unused", "frozen" };
    struct module *module = module_new(me, &probe_type);
    if (module == NULL)
        return NULL;
    module->integers[0] = probe;
    for (size_t i = 0; i < countof(names); i++) {
        struct tensor *param = tensor_filled(me, tensor_empty(me, DTYPE_F32, 0, 1, (const int64_t[]){ 1 }), 2);
        if (param == NULL || !module_add_parameter(me, module, names[i], param))
            return NULL;
        param->is_parameter = true;
        param->requires_grad = i < 2;
    }
    struct tensor *steps = tensor_zeros(me, DTYPE_F32, 0, 1, (const int64_t[]){ 1 });
    return steps != NULL && module_add_buffer(me, module, "steps", steps) ? module : NULL;
}

static struct tensor *
forward(struct task *me, struct module *module, struct tensor *input, int device_count)
{
    static const int ids[DEVICES] = { 0, 1, 2, 3, 4, 5, 6, 7 };
    const struct data_parallel_options options = {
        .devices = { ids, device_count }, .output_device = -2
    };
    struct value *inputs = value_tensor(me, input);
    const struct call_arguments given = { inputs, NULL };
    struct value *output = inputs != NULL ? data_parallel_forward(me, module, given, &options) : NULL;
    return output != NULL ? output->tensor : NULL;
}

static bool
backward(struct task *me, struct tensor *root, bool create_graph)
{
    const struct backward_options options = { .keep_graph = create_graph, .create_graph = create_graph };
    return root != NULL && autograd_backward(me, &root, NULL, 1, &options);
}

/* ---- replicas ---- */

static bool
replicas(struct task *me, struct seen *seen)
{
    static const int ids[] = { 0, 1 };
    struct module *module = probe_new(me, PROBE_SCALE), *made[2];
    struct named_tensors params = { 0 };
    if (module == NULL || !module_add_parameter(me, module, "tied", module_parameter(module, "scale")) ||
        !dp_replicate(me, module, (struct device_list){ ids, 2 }, made) ||
        !module_named_parameters(me, made[1], &params))
        return false;
    int listed = params.count;
    named_tensors_free(me, &params);
    struct tensor *mine = module_parameter(module, "scale"), *frozen = module_parameter(module, "frozen");
    struct tensor *buffer = module->buffers.entries[0].tensor;
    struct tensor *first = module_parameter(made[0], "scale"), *second = module_parameter(made[1], "scale");
    return holds(me, listed == 0, "parameters() of a replica is empty") &&
           holds(me, first != mine && first->storage == mine->storage, "0 is a view") &&
           holds(me, first->version == mine->version, "with the same version") &&
           holds(me, second->storage != mine->storage && second->version != mine->version, "1 is a copy") &&
           holds(me, tensor_device(second) == 1, "on its device") &&
           holds(me, first->grad_fn != NULL && first->grad_fn == second->grad_fn, "all hang on one node") &&
           holds(me, strcmp(first->grad_fn->name, "BroadcastBackward") == 0, "it is a Broadcast") &&
           holds(me, second == module_parameter(made[1], "tied"), "tied parameters stay tied") &&
           holds(me, !module_parameter(made[1], "frozen")->requires_grad, "frozen ones stay frozen") &&
           holds(me, module_parameter(made[0], "frozen")->storage == frozen->storage, "and are aliased on 0") &&
           holds(me, made[0]->buffers.entries[0].tensor == buffer, "0 has the very buffer") &&
           holds(me, made[1]->buffers.entries[0].tensor != buffer, "1 has a copy of it") &&
           holds(me, made[1]->is_replica && made[1]->original == module, "a replica knows its original") &&
           holds(me, count_of(seen, KIND_dp_broadcast_coalesced) == 2, "parameters, then buffers") &&
           holds(me, sum_of(seen, KIND_dp_replicate_copy, 1) == 16, "16 bytes cross to device 1") &&
           (tensor_add_(me, first, first, 1) == NULL) && was(me, E_RUNTIME, "Output 0 of BroadcastBackward is a view");
}

static void
a_replica_shares_only_what_a_shallow_copy_shares(void **state)
{
    in_both(replicas);
}

static bool
replicas_of_a_wanting_buffer(struct task *me, struct seen *seen)
{
    static const int ids[] = { 0, 1 };
    struct module *module = probe_new(me, PROBE_SCALE), *made[2];
    struct tensor *steps = module != NULL ? module->buffers.entries[0].tensor : NULL;
    (void)seen;
    if (steps == NULL)
        return false;
    steps->requires_grad = true;
    if (!dp_replicate(me, module, (struct device_list){ ids, 2 }, made))
        return false;
    struct tensor *copy = made[1]->buffers.entries[0].tensor, *scale = module_parameter(made[1], "scale");
    return holds(me, copy->grad_fn != NULL && copy->grad_fn != scale->grad_fn, "it has a node of its own") &&
           backward(me, tensor_sum(me, copy), false) && reads(me, steps->grad, 1, (const double[]){ 1 });
}

static void
a_buffer_that_wants_a_gradient_gets_its_replicas(void **state)
{
    in_both(replicas_of_a_wanting_buffer);
}

static bool
replicas_without_gradients(struct task *me, struct seen *seen)
{
    static const int ids[] = { 0, 1 };
    struct module *module = probe_new(me, PROBE_SCALE), *made[2];
    struct named_tensors params[2] = { { 0 } };
    (void)seen;
    grad_set_enabled(me, false);
    bool done = module != NULL && dp_replicate(me, module, (struct device_list){ ids, 2 }, made);
    grad_set_enabled(me, true);
    for (int r = 0; r < 2 && done; r++)
        done = module_named_parameters(me, made[r], &params[r]);
    int listed[] = { params[0].count, params[1].count };
    named_tensors_free(me, &params[0]);
    named_tensors_free(me, &params[1]);
    return done && holds(me, listed[0] == 3 && listed[1] == 0, "parameters(): all on replica 0, none on 1") &&
           holds(me, module_parameter(made[0], "scale") == module_parameter(module, "scale"), "0 has the very one") &&
           holds(me, !module_parameter(made[1], "scale")->requires_grad, "1 has a plain copy");
}

static void
without_gradients_replica_0_has_the_very_parameters(void **state)
{
    in_both(replicas_without_gradients);
}

/* ---- forward and backward ---- */

static bool
inner_means(struct task *me, struct seen *seen)
{
    struct module *module = probe_new(me, PROBE_MEAN);
    struct tensor *input = counting(me, DEVICE_CPU, 2, (const int64_t[]){ 10, 1 }, 1);
    struct tensor *output = module != NULL ? forward(me, module, input, 4) : NULL;
    if (output == NULL || !reads(me, output, 4, (const double[]){ 4, 10, 16, 20 }) ||
        !backward(me, tensor_mean(me, output), false) ||
        !reads(me, module_parameter(module, "scale")->grad, 1, (const double[]){ 6.25 }))
        return false;
    return holds(me, count_of(seen, KIND_dp_worker) == 4, "four workers") &&
           holds(me, nth(seen, KIND_dp_gather_backward, 0).args[0] == 4, "the gradient is scattered to four") &&
           holds(me, nth(seen, KIND_dp_reduce_add_coalesced, 0).args[0] == 3, "all parameters are reduced at once") &&
           reads(me, module_parameter(module, "unused")->grad, 1, (const double[]){ 0 }) &&
           holds(me, module_parameter(module, "frozen")->grad == NULL, "a frozen parameter gets none");
}

static void
a_mean_inside_forward_weighs_replicas_not_rows(void **state)
{
    in_both(inner_means);
}

static bool
outer_mean(struct task *me, struct seen *seen)
{
    struct module *module = probe_new(me, PROBE_SCALE);
    struct tensor *input = counting(me, DEVICE_CPU, 2, (const int64_t[]){ 10, 1 }, 1);
    (void)seen;
    if (module == NULL || input == NULL)
        return false;
    input->requires_grad = true;
    struct tensor *output = forward(me, module, input, 4);
    return backward(me, tensor_mean(me, output), false) &&
           reads(me, module_parameter(module, "scale")->grad, 1, (const double[]){ 5.5 }) &&
           holds(me, tensor_device(input->grad) == DEVICE_CPU, "the input's gradient lies where the input does") &&
           reads(me, input->grad, 10, (const double[]){ .2, .2, .2, .2, .2, .2, .2, .2, .2, .2 });
}

static void
gradients_are_those_of_one_device(void **state)
{
    in_both(outer_mean);
}

/* f = sum(x^2 w), so df/dx = 2xw; the sum of its squares is 4 x^2 w^2, whose gradient for w is 8 x^2 w. */
static bool
penalty(struct task *me, struct seen *seen)
{
    struct module *module = probe_new(me, PROBE_SQUARE);
    struct tensor *input = counting(me, DEVICE_CPU, 2, (const int64_t[]){ 5, 1 }, 1), *grad = NULL;
    (void)seen;
    if (module == NULL || input == NULL)
        return false;
    input->requires_grad = true;
    struct tensor *total = tensor_sum(me, forward(me, module, input, 2));
    const struct backward_options options = {
        .keep_graph = true, .create_graph = true, .inputs = &input, .input_count = 1, .results = &grad
    };
    if (total == NULL || !autograd_backward(me, &total, NULL, 1, &options) ||
        !reads(me, grad, 5, (const double[]){ 4, 8, 12, 16, 20 }) ||
        !backward(me, tensor_sum(me, tensor_mul(me, grad, grad)), false))
        return false;
    return reads(me, module_parameter(module, "scale")->grad, 1, (const double[]){ 8 * 55 * 2 }) &&
           reads(me, input->grad, 5, (const double[]){ 32, 64, 96, 128, 160 });
}

static void
a_gradient_of_a_gradient_goes_through_all_nodes(void **state)
{
    in_both(penalty);
}

static bool
counts_steps(struct task *me, struct seen *seen)
{
    struct module *module = probe_new(me, PROBE_COUNT);
    struct tensor *input = counting(me, DEVICE_CPU, 2, (const int64_t[]){ 6, 1 }, 1);
    (void)seen;
    for (int i = 0; i < 3; i++)
        if (module == NULL || forward(me, module, input, 3) == NULL)
            return false;
    return reads(me, module->buffers.entries[0].tensor, 1, (const double[]){ 3 });
}

static void
only_replica_0_changes_a_buffer_for_good(void **state)
{
    in_both(counts_steps);
}

static bool
in_the_callers_mode(struct task *me, struct seen *seen)
{
    struct module *module = probe_new(me, PROBE_MODE);
    struct tensor *input = counting(me, DEVICE_CPU, 2, (const int64_t[]){ 3, 1 }, 1);
    (void)seen;
    if (module == NULL || !reads(me, forward(me, module, input, 3), 3, (const double[]){ 2, 4, 6 }))
        return false;
    grad_set_enabled(me, false);
    struct tensor *output = forward(me, module, input, 3);
    grad_set_enabled(me, true);
    return reads(me, output, 3, (const double[]){ 1, 2, 3 });
}

static void
replicas_run_in_the_callers_grad_mode(void **state)
{
    in_both(in_the_callers_mode);
}

/* Embedding(1000, 10), then Linear(10, 10): 10 110 parameters, six indices, four devices. */
static bool
six_indices(struct task *me, struct seen *seen)
{
    const struct layer_options plain = { 0 };
    const int64_t    indices[] = { 1, 2, 3, 4, 5, 6 }, six = 6;
    struct module   *children[] = { nn_embedding(me, 1000, 10, &plain), nn_linear(me, 10, 10, &plain) };
    struct module   *model = children[0] != NULL && children[1] != NULL ? nn_sequential(me, children, 2) : NULL;
    struct tensor   *input = tensor_from(me, DTYPE_I64, 1, &six, indices);
    if (model == NULL || input == NULL || !module_to(me, model, 0))
        return false;
    struct tensor *output = forward(me, model, input, 4);
    if (!backward(me, tensor_sum(me, output), false))
        return false;
    return holds(me, count_of(seen, KIND_dp_scatter_chunk) == 3, "three devices work") &&
           holds(me, sum_of(seen, KIND_dp_scatter_chunk, 2) == 48, "16 bytes of indices each") &&
           holds(me, sum_of(seen, KIND_dp_replicate_copy, 1) == 2 * 40440, "the whole model goes to two of them") &&
           holds(me, nth(seen, KIND_dp_replicate_copy, 0).args[2] == 1, "and is there already on device 0") &&
           holds(me, nth(seen, KIND_dp_broadcast_coalesced, 0).args[2] == 2 * 40440, "in one broadcast") &&
           reads(me, module_parameter(children[1], "bias")->grad, 10, (const double[]){ 6, 6, 6, 6, 6, 6, 6, 6, 6, 6 });
}

static void
six_indices_go_to_three_devices_and_the_whole_table_with_them(void **state)
{
    in_both(six_indices);
}

/* ---- errors ---- */

static bool
raises(struct task *me, struct seen *seen)
{
    struct module *module = probe_new(me, PROBE_RAISE);
    struct tensor *input = counting(me, DEVICE_CPU, 2, (const int64_t[]){ 4, 1 }, 1);
    if (module == NULL || forward(me, module, input, 4) != NULL)
        return false;
    int depth = me->depth;
    return was(me, E_VALUE, "Caught ValueError in replica 1 on device 1.\nOriginal message: boom 1") &&
           holds(me, count_of(seen, KIND_dp_worker) == 4, "every worker runs") &&
           holds(me, depth == 0, "every stage is closed") &&
           holds(me, count_of(seen, KIND_dp_gather) == 0, "nothing is gathered");
}

static void
the_lowest_failing_replica_raises_in_the_caller(void **state)
{
    in_both(raises);
}

/* The error object that a script raised says nothing of the replica: it stays behind. */
static bool
raises_without_payload(struct task *me, struct seen *seen)
{
    const struct data_parallel_options swapped = { .devices = { (const int[]){ 1, 0 }, 2 }, .output_device = -2 };
    struct module *module = probe_new(me, PROBE_RAISE);
    struct tensor *input = counting(me, DEVICE_CPU, 2, (const int64_t[]){ 4, 1 }, 1);
    (void)seen;
    if (module == NULL || forward(me, module, input, 4) != NULL)
        return false;
    if (!holds(me, me->error.payload == NULL, "of several replicas") ||
        !was(me, E_VALUE, "Caught ValueError in replica 1") || !module_to(me, module, 1))
        return false;
    const struct call_arguments row = { rows(me, 1, 1, 1), NULL };
    int16_t                     mine = me->device;
    if (data_parallel_forward(me, module, row, &swapped) != NULL)
        return false;
    void *payload = me->error.payload;
    return was(me, E_VALUE, "Caught ValueError in replica 0 on device 1.") &&
           holds(me, payload == NULL, "of one that runs in the caller") &&
           holds(me, me->device == mine, "which is on its own device again");
}

static void
a_replicas_error_leaves_its_payload_behind(void **state)
{
    in_both(raises_without_payload);
}

static bool
misplaced(struct task *me, struct seen *seen)
{
    struct module *module = probe_new(me, PROBE_SCALE);
    struct tensor *input = counting(me, DEVICE_CPU, 2, (const int64_t[]){ 4, 1 }, 1);
    static const int ids[] = { 1, 0 };
    const struct data_parallel_options options = { .devices = { ids, 2 }, .output_device = -2 };
    struct value *inputs = value_tensor(me, input);
    const struct call_arguments given = { inputs, NULL };
    if (module == NULL || inputs == NULL || data_parallel_forward(me, module, given, &options) != NULL)
        return false;
    if (!was(me, E_RUNTIME, "on device device:1 (device_ids[0]) but found one of them on device: device:0") ||
        !holds(me, count_of(seen, KIND_dp_scatter) == 0, "nothing is scattered"))
        return false;
    const struct data_parallel_options absent = { .devices = { (const int[]){ 0, 99 }, 2 } };
    if (data_parallel_new(me, module, &absent) != NULL)
        return false;
    task_clear_error(me);
    return true;
}

static void
a_module_on_another_device_is_refused_at_forward(void **state)
{
    in_both(misplaced);
}

/* A buffer on device 1: in the module itself, and behind one of twelve levels, each of which has its child twice, so that
 * there are more ways down than a search goes. */
static bool
misplaced_buffer(struct task *me, struct seen *seen)
{
    static const char why[] = "on device device:0 (device_ids[0]) but found one of them on device: device:1";
    struct module *wrong = probe_new(me, PROBE_SCALE), *deep = probe_new(me, PROBE_SCALE);
    struct tensor *input = counting(me, DEVICE_CPU, 2, (const int64_t[]){ 4, 1 }, 1);
    struct tensor *away = tensor_zeros(me, DTYPE_F32, 1, 1, (const int64_t[]){ 1 });
    (void)seen;
    if (wrong == NULL || away == NULL || !module_add_buffer(me, wrong, "away", away))
        return false;
    for (int level = 0; level < 12 && deep != NULL; level++)
        deep = nn_sequential(me, (struct module *[]){ deep, deep }, 2);
    if (deep == NULL || forward(me, wrong, input, 2) != NULL || !was(me, E_RUNTIME, why))
        return false;
    struct module *both = nn_sequential(me, (struct module *[]){ deep, wrong }, 2);
    return both != NULL && forward(me, both, input, 2) == NULL && was(me, E_RUNTIME, why);
}

static void
a_buffer_on_another_device_is_refused_wherever_it_hides(void **state)
{
    in_both(misplaced_buffer);
}

static bool
wraps(struct task *me, struct seen *seen)
{
    struct module *module = probe_new(me, PROBE_MEAN);
    const struct data_parallel_options one = {
        .devices = { (const int[]){ 2 }, 1 }, .output_device = -2
    };
    struct module *wrapper = module != NULL ? data_parallel_new(me, module, &one) : NULL;
    struct value  *item = rows(me, 4, 1, 1);
    if (wrapper == NULL || item == NULL || !holds(me, data_parallel_module(wrapper) == module, "module"))
        return false;
    struct value *output = module_forward(me, wrapper, tuple(me, 1, &item), NULL);
    return output != NULL && holds(me, tensor_dims(output->tensor) == 0, "with one device a scalar stays a scalar") &&
           holds(me, tensor_device(output->tensor) == 2, "the module moved to its device") &&
           holds(me, count_of(seen, KIND_dp_scatter_chunk) == 1, "scatter still runs") &&
           holds(me, count_of(seen, KIND_dp_replicate) == 0, "replicate does not") &&
           holds(me, count_of(seen, KIND_dp_gather) == 0, "gather does not") &&
           holds(me, data_parallel_module(module) == NULL, "a plain module is no wrapper");
}

static void
with_one_device_the_module_itself_is_called(void **state)
{
    in_both(wraps);
}

static bool
imbalance(struct task *me, struct seen *seen)
{
    static const int         ids[] = { 2, 0, 1 };
    const struct device_list three = { ids, 3 };
    int smallest = -1, largest = -1;
    (void)seen;
    for (int device = 0; device < 3; device++)
        if (!device_set_total(me, device, (uint64_t)100 << 20))
            return false;
    bool equal = data_parallel_imbalance(me, three, &smallest, &largest);
    if (!holds(me, !equal && smallest == 2 && largest == 2, "equal ones are balanced; the first is named") ||
        !device_set_total(me, 1, (uint64_t)75 << 20))
        return false;
    bool quarter = data_parallel_imbalance(me, three, &smallest, &largest);
    if (!holds(me, !quarter && smallest == 1, "three quarters are enough") ||
        !device_set_total(me, 1, (uint64_t)74 << 20))
        return false;
    bool less = data_parallel_imbalance(me, three, &smallest, &largest);
    return holds(me, less && smallest == 1 && largest == 2, "less is not; the smallest and the largest are named");
}

static void
devices_are_imbalanced_below_three_quarters(void **state)
{
    (void)state;
    in_both(imbalance);
}

/* ---- golden: the seed model ---- */

static const json_t *
field(const json_t *object, const char *name)
{
    return json_object_get(object, name);
}

/* A tensor of the golden file, on the CPU. */
static struct tensor *
golden_tensor(struct task *me, const json_t *json)
{
    int64_t sizes[TENSOR_DIMS], count = 1;
    int     dims = (int)json_array_size(field(json, "shape"));
    bool    whole = strcmp(json_string_value(field(json, "dtype")), "i64") == 0;
    for (int i = 0; i < dims; i++)
        count *= sizes[i] = json_integer_value(json_array_get(field(json, "shape"), (size_t)i));
    char *bytes = calloc((size_t)count + 1, 8);
    for (int64_t i = 0; bytes != NULL && i < count; i++) {
        const json_t *item = json_array_get(field(json, "data"), (size_t)i);
        if (whole)
            ((int64_t *)(void *)bytes)[i] = json_integer_value(item);
        else
            ((float *)(void *)bytes)[i] = (float)json_number_value(item);
    }
    struct tensor *tensor = tensor_from(me, whole ? DTYPE_I64 : DTYPE_F32, dims, sizes, bytes);
    free(bytes);
    return tensor;
}

/* Compares with a tensor of the file; of one with "rows" only those are given, the others are zero. */
static bool
golden_equals(struct task *me, struct tensor *tensor, const json_t *json)
{
    const json_t *given = field(json, "rows"), *data = field(json, "data");
    int64_t       count = tensor_count(tensor), width = given != NULL ? tensor_size(tensor, 1) : 1;
    double       *expected = calloc((size_t)count + 1, sizeof *expected);
    for (size_t i = 0; expected != NULL && i < json_array_size(data); i++) {
        size_t at = i;
        if (given != NULL)
            at = (size_t)(json_integer_value(json_array_get(given, i / (size_t)width)) * width) + i % (size_t)width;
        expected[at] = json_number_value(json_array_get(data, i));
    }
    bool same = expected != NULL && reads(me, tensor, (int)count, expected);
    free(expected);
    return same;
}

static struct module *
seed_model(struct task *me, const json_t *params)
{
    static const char *const names[] = { "embedding.weight", "linear.weight", "linear.bias" };
    const struct layer_options plain = { 0 };
    struct module *children[] = { nn_embedding(me, 1000, 10, &plain), nn_linear(me, 10, 10, &plain) };
    struct module *model = children[0] != NULL && children[1] != NULL ? nn_sequential(me, children, 2) : NULL;
    struct named_tensors list = { 0 };
    bool done = model != NULL && module_named_parameters(me, model, &list);
    for (int i = 0; i < 3 && done; i++) {
        struct tensor *values = golden_tensor(me, field(params, names[i]));
        done = values != NULL && tensor_copy(me, list.tensors[i], values);
    }
    named_tensors_free(me, &list);
    return done && module_to(me, model, 0) ? model : NULL;
}

static bool
golden_calls(struct task *me, struct seen *seen, const json_t *json, int replicas, int devices)
{
    for (int i = 0; i < replicas; i++) {
        int64_t length = json_integer_value(json_array_get(field(json, "chunk_sizes"), (size_t)i));
        if (!holds(me, nth(seen, KIND_dp_scatter_chunk, i).args[1] == length, "chunks are as PyTorch's"))
            return false;
    }
    struct trace_event params = nth(seen, KIND_dp_broadcast_coalesced, 0);
    struct trace_event buffers = nth(seen, KIND_dp_broadcast_coalesced, 1);
    struct trace_event reduce = nth(seen, KIND_dp_reduce_add_coalesced, 0);
    return holds(me, count_of(seen, KIND_dp_scatter_chunk) == replicas, "as many chunks as replicas") &&
           (devices == 1 ||
            (holds(me, params.args[0] == 3 && params.args[1] == replicas, "3 tensors are broadcast") &&
             holds(me, buffers.args[0] == 0 && buffers.args[1] == replicas, "then no buffers") &&
             holds(me, count_of(seen, KIND_dp_worker) == replicas, "each replica runs once") &&
             holds(me, count_of(seen, KIND_dp_gather) == 1, "one gather") &&
             holds(me, nth(seen, KIND_dp_gather_backward, 0).args[0] == replicas, "the gradient is scattered") &&
             holds(me, reduce.args[0] == 3 && reduce.args[1] == replicas, "3 tensors are reduced")));
}

static bool
golden_case(struct task *me, struct seen *seen, const json_t *params, const json_t *json, const json_t *inputs)
{
    int            devices = (int)json_integer_value(field(json, "devices"));
    struct module *model = seed_model(me, params);
    struct tensor *input = golden_tensor(me, field(inputs, "x")), *target = golden_tensor(me, field(inputs, "target"));
    if (model == NULL || input == NULL || target == NULL)
        return false;
    seen->count = 0;
    struct tensor *output = forward(me, model, input, devices);
    struct tensor *loss = mse_loss(me, output, tensor_to(me, target, 0, DTYPE_F32));
    if (!backward(me, loss, false) || !golden_equals(me, output, field(json, "output")) ||
        !golden_equals(me, loss, field(json, "loss")))
        return false;
    static const char *const names[] = { "embedding.weight", "linear.weight", "linear.bias" };
    struct named_tensors list = { 0 };
    bool same = module_named_parameters(me, model, &list);
    for (int i = 0; i < 3 && same; i++)
        same = golden_equals(me, list.tensors[i]->grad, field(field(json, "param_grads"), names[i]));
    named_tensors_free(me, &list);
    return same &&
           golden_calls(me, seen, json, (int)json_integer_value(field(json, "replicas_used")), devices);
}

static bool
golden_steps(struct task *me, struct seen *seen)
{
    json_error_t why;
    json_t       *file = json_load_file("tests/golden/first-light/dp_models.json", 0, &why);
    const json_t *params = field(field(field(file, "models"), "seed"), "params"), *inputs = NULL;
    bool          same = holds(me, file != NULL, "the golden file can be read (tests start in the project's folder)");
    int           tried = 0;
    for (size_t i = 0; same && i < json_array_size(field(file, "cases")); i++) {
        const json_t *json = json_array_get(field(file, "cases"), i);
        if (field(json, "calls_forward") == NULL)
            continue;
        if (json_is_object(field(json, "inputs")))
            inputs = field(json, "inputs");
        size_t mark = scope_mark(me);
        same = golden_case(me, seen, params, json, inputs);
        scope_release(me, mark);
        tried++;
    }
    json_decref(file);
    return same && holds(me, tried == 15, "15 golden steps are tried");
}

static void
golden_steps_give_pytorchs_outputs_gradients_and_calls(void **state)
{
    in_both(golden_steps);
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_replica_shares_only_what_a_shallow_copy_shares),
        cmocka_unit_test(a_buffer_that_wants_a_gradient_gets_its_replicas),
        cmocka_unit_test(without_gradients_replica_0_has_the_very_parameters),
        cmocka_unit_test(a_mean_inside_forward_weighs_replicas_not_rows),
        cmocka_unit_test(gradients_are_those_of_one_device),
        cmocka_unit_test(a_gradient_of_a_gradient_goes_through_all_nodes),
        cmocka_unit_test(only_replica_0_changes_a_buffer_for_good),
        cmocka_unit_test(replicas_run_in_the_callers_grad_mode),
        cmocka_unit_test(six_indices_go_to_three_devices_and_the_whole_table_with_them),
        cmocka_unit_test(the_lowest_failing_replica_raises_in_the_caller),
        cmocka_unit_test(a_replicas_error_leaves_its_payload_behind),
        cmocka_unit_test(a_module_on_another_device_is_refused_at_forward),
        cmocka_unit_test(a_buffer_on_another_device_is_refused_wherever_it_hides),
        cmocka_unit_test(with_one_device_the_module_itself_is_called),
        cmocka_unit_test(devices_are_imbalanced_below_three_quarters),
        cmocka_unit_test(golden_steps_give_pytorchs_outputs_gradients_and_calls),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
