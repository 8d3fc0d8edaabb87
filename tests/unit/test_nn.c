/* nn and optim: initial values, names, printing, forwards and their errors, prices by module,
 * SGD against its formula. */
#include "autograd_rig.h"
#include "base/rng.h"
#include "base/str.h"
#include "nn/layer.h"
#include "nn/layers.h"
#include "optim/optimizer.h"

static void
seed(struct task *me, uint64_t number)
{
    struct generator *generator = default_generator(me);
    if (generator != NULL)
        generator_seed(generator, number);
}

static bool
initial_values(struct task *me, struct rig *rig)
{
    seed(me, 0);
    struct module *linear_4_3 = nn_linear(me, 4, 3, NULL);
    expect(me, rig, holds(me, module_parameter(linear_4_3, "weight"), 12,
           (const double[]){ -0.00374341, 0.2682218, -0.41152257, -0.3679695, -0.19257718, 0.13407868, -0.00990659,
                             0.39644474, -0.044372022, 0.13230628, -0.15110654, -0.098282695 }),
                                    "Linear(4, 3) of seed 0");
    expect(me, rig, holds(me, module_parameter(linear_4_3, "bias"), 3,
           (const double[]){ -0.47767425, -0.33114105, -0.20611155 }), "the bias is drawn after the weight");
    seed(me, 42);
    struct layer_options plain = { .no_bias = true };
    struct module *no_bias = nn_linear(me, 6, 2, &plain);
    expect(me, rig, fabs(at(me, module_parameter(no_bias, "weight"), 0) - 0.31212157) < 1e-7 &&
           module_parameter(no_bias, "bias") == NULL, "Linear(6, 2, bias=False) of seed 42");
    struct tensor *after = tensor_empty(me, DTYPE_F32, DEVICE_CPU, 1, (const int64_t[]){ 1 });
    expect(me, rig, tensor_uniform(me, after, 0, 1, default_generator(me)) && fabs(at(me, after,
           0) - 0.86940444) < 1e-7,
           "twelve draws and no more");
    struct layer_options padded = { .padding_idx = -1, .has_padding = true };
    struct module *embedding_5_2 = nn_embedding(me, 5, 2, &padded);
    struct tensor *table = module_parameter(embedding_5_2, "weight");
    expect(me, rig, at(me, table, 8) == 0 && at(me, table, 9) == 0 && at(me, table, 7) != 0, "the padding row is zero");
    struct tensor *rows = tensor_from(me, DTYPE_I64, 1, (const int64_t[]){ 3 }, (const int64_t[]){ 4, 1, 1 });
    expect(me, rig, backward(me, tensor_sum(me, module_forward_tensor(me, embedding_5_2, rows))),
           "backward of Embedding");
    return expect(me, rig, holds(me, table->grad, 10, (const double[]){ 0, 0, 2, 2, 0, 0, 0, 0, 0, 0 }),
                  "repeats add, padding gets nothing");
}

static struct module *
mlp(struct task *me)
{
    struct module *inner[2] = { nn_relu(me), nn_linear(me, 3, 2, NULL) };
    struct module *outer[2] = { nn_linear(me, 4, 3, NULL), nn_sequential(me, inner, 2) };
    return nn_sequential(me, outer, 2);
}

static bool
names_and_text(struct task *me, struct rig *rig)
{
    struct module *net = mlp(me);
    struct str     text = { 0 };
    module_print(net, &text);
    expect(me, rig, strcmp(str_text(&text), "Sequential(\n"
                                            "  (0): Linear(in_features=4, out_features=3, bias=True)\n"
                                            "  (1): Sequential(\n"
                                            "    (0): ReLU()\n"
                                            "    (1): Linear(in_features=3, out_features=2, bias=True)\n"
                                            "  )\n"
                                            ")") == 0, str_text(&text));
    str_free(&text);
    struct named_tensors params;
    expect(me, rig, module_named_parameters(me, net, &params) && params.count == 4, "four parameters");
    const char *wanted[] = { "0.weight", "0.bias", "1.1.weight", "1.1.bias" };
    for (int i = 0; i < params.count; i++)
        expect(me, rig, strcmp(params.names[i], wanted[i]) == 0 && strcmp(params.tensors[i]->name, wanted[i]) == 0,
               wanted[i]);
    named_tensors_free(me, &params);
    struct named_modules modules;
    expect(me, rig, module_named_modules(me, net, &modules) && modules.count == 5, "five modules");
    expect(me, rig, modules.count == 5 && modules.names[0][0] == '\0' && strcmp(modules.names[4], "1.1") == 0,
           "itself first");
    named_modules_free(me, &modules);
    struct module *first = module_child(net, "0");
    expect(me, rig, module_add_parameter(me, module_child(module_child(net, "1"), "1"), "tied",
                                         module_parameter(first, "weight")), "a tied parameter");
    expect(me, rig, module_named_parameters(me, net, &params) && params.count == 4, "is listed once");
    named_tensors_free(me, &params);
    expect(me, rig, !module_add_child(me, module_child(net, "1"), "self", net) && raised(me, "the module 'self'"),
           "no cycles");
    return expect(me, rig, !module_add_child(me, net, "a.b", first) && raised(me,
           "module name can't contain \".\""), "no dots");
}

static bool
copies_and_moves(struct task *me, struct rig *rig)
{
    struct module *net = mlp(me), *first = module_child(net, "0");
    struct tensor *weight = module_parameter(first, "weight");
    double         value = at(me, weight, 5);
    expect(me, rig, module_to(me, net, 2), "to device 2");
    expect(me, rig, module_parameter(first, "weight") == weight && tensor_device(weight) == 2,
           "the same tensor, elsewhere");
    expect(me, rig, at(me, weight, 5) == value, "with the same elements");
    struct tensor *x = tensor_filled(me, tensor_empty(me, DTYPE_F32, 2, 2, (const int64_t[]){ 5, 4 }), 1);
    expect(me, rig, backward(me, tensor_mean(me, module_forward_tensor(me, net, x))), "a backward there");
    expect(me, rig, tensor_device(weight->grad) == 2 && tensor_same_shape(weight, weight->grad),
           "gradients lie there too");
    expect(me, rig, module_zero_grad(me, net, false) && at(me, weight->grad, 0) == 0, "zero_grad fills");
    expect(me, rig, module_zero_grad(me, net, true) && weight->grad == NULL, "or drops");
    struct module *copy = net->type->life->copy(me, net);
    expect(me, rig, copy != NULL && copy->children.count == 2 && module_child(copy, "0") == first, "a shallow copy");
    module_unref(me, copy);
    expect(me, rig, module_train(me, net, false), "eval");
    return expect(me, rig, !module_child(module_child(net, "1"), "0")->training, "eval reaches all");
}

static void
modules_are_pytorchs(void **state)
{
    (void)state;
    in_both(initial_values);
    in_both(names_and_text);
    in_both(copies_and_moves);
}

/* ---- forwards ---- */

static bool
forwards(struct task *me, struct rig *rig)
{
    struct module *net = mlp(me), *first = module_child(net, "0");
    struct tensor *x = tensor_filled(me, tensor_empty(me, DTYPE_F32, DEVICE_CPU, 2, (const int64_t[]){ 2, 4 }), 1);
    struct tensor *out = module_forward_tensor(me, net, x);
    expect(me, rig, tensor_dims(out) == 2 && tensor_size(out, 1) == 2 && out->requires_grad, "two rows of two");
    int forwards_seen = 0;
    for (int i = 0; i < rig->other_count; i++)
        if (rig->others[i].kind == KIND_module_forward && rig->others[i].phase == PHASE_BEGIN)
            forwards_seen++;
    expect(me, rig, forwards_seen == 5, "five module.forward");
    struct value *item = value_tensor(me, x), *none = value_tuple(me, 0, NULL);
    const char   *name = "input", *wrong = "inputs";
    struct value *kwargs = value_container(me, &(struct value_form){ VALUE_DICT, &name, NULL }, 1, &item);
    struct value *result = module_forward(me, first, none, kwargs);
    expect(me, rig, result != NULL && result->kind == VALUE_TENSOR, "the input by its name");
    expect(me, rig, module_forward(me, first, none, NULL) == NULL && me->error.kind == E_TYPE &&
           raised(me, "Linear: forward() missing"), "a missing argument");
    kwargs = value_container(me, &(struct value_form){ VALUE_DICT, &wrong, NULL }, 1, &item);
    expect(me, rig, module_forward(me, first, none, kwargs) == NULL &&
           raised(me, "Linear: forward() got an unexpected keyword argument 'inputs'"), "an unknown name");
    struct tensor *narrow = tensor_filled(me, tensor_empty(me, DTYPE_F32, DEVICE_CPU, 2, (const int64_t[]){ 2, 3 }), 1);
    expect(me, rig, module_forward_tensor(me, first, narrow) == NULL && me->error.kind == E_SHAPE && raised(me, ""),
           "a shape");
    expect(me, rig, nn_linear(me, -1, 3, NULL) == NULL && raised(me, ""), "fewer than no features");
    struct layer_options far = { .padding_idx = 5, .has_padding = true };
    return expect(me, rig, nn_embedding(me, 5, 2, &far) == NULL && me->error.kind == E_ASSERTION && raised(me, ""),
           "padding");
}

static bool
losses(struct task *me, struct rig *rig)
{
    struct tensor *x = leaf(me, DTYPE_F32, 2, (const int64_t[]){ 2, 3 }, (const double[]){ 1, 2, 3, 1, 1, 1 });
    struct tensor *t = tensor_from(me, DTYPE_I64, 1, (const int64_t[]){ 2 }, (const int64_t[]){ 2, -100 });
    struct value  *both[2] = { value_tensor(me, x), value_tensor(me, t) };
    struct value  *loss = module_forward(me, nn_layer(me, "CrossEntropyLoss", NULL, 0), value_tuple(me, 2, both), NULL);
    expect(me, rig, loss != NULL && fabs(at(me, loss->tensor, 0) - 0.40760595) < 1e-6, "an ignored row does not count");
    expect(me, rig, strcmp(loss->tensor->grad_fn->name, "NllLossBackward0") == 0 &&
           strcmp(loss->tensor->grad_fn->edges[0].node->name, "LogSoftmaxBackward0") == 0, "two nodes, as in PyTorch");
    struct tensor *y = tensor_filled(me, tensor_empty(me, DTYPE_F32, DEVICE_CPU, 2, (const int64_t[]){ 2, 3 }), 2);
    both[1] = value_tensor(me, y);
    loss = module_forward(me, nn_layer(me, "MSELoss", NULL, 0), value_tuple(me, 2, both), NULL);
    expect(me, rig, loss != NULL && fabs(at(me, loss->tensor, 0) - 5.0 / 6) < 1e-6, "the mean of squares");
    return expect(me, rig, loss != NULL && backward(me, loss->tensor) &&
                  holds(me, x->grad, 6, (const double[]){ -1 / 3., 0, 1 / 3., -1 / 3., -1 / 3., -1 / 3. }),
                         "its gradient");
}

static bool
values(struct task *me, struct rig *rig)
{
    struct tensor *x = tensor_number(me, DTYPE_F32, DEVICE_CPU, 1);
    struct value  *inner[3] = { value_text(me, "t"), value_integer(me, 7), value_tensor(me, x) };
    struct value  *list = value_container(me, &(struct value_form){ VALUE_LIST, NULL, NULL }, 3, inner);
    const char    *keys[2] = { "a", "b" };
    struct value  *outer[2] = { value_none(me), list };
    struct value  *dict = value_container(me, &(struct value_form){ VALUE_NAMEDTUPLE, keys, "Point" }, 2, outer);
    expect(me, rig, value_first_tensor(dict) == x && strcmp(dict->text, "Point") == 0, "the first tensor, depth first");
    expect(me, rig, value_first_tensor(outer[0]) == NULL && value_first_tensor(NULL) == NULL, "none");
    struct value *kept = NULL;
    value_keep(me, &kept, dict);
    value_keep(me, &kept, NULL);
    outer[0] = NULL;
    return expect(me, rig, value_tuple(me, 2, outer) == NULL && !task_failed(me),
           "poison");
}

static void
forwards_take_and_give_values(void **state)
{
    (void)state;
    in_both(forwards);
    in_both(losses);
    in_both(values);
}

/* ---- prices ---- */

/* Between the begin and the end of the n-th event pair of a kind on this lane, in us. */
static double
lasted(const struct rig *rig, enum kind kind, int64_t text)
{
    uint64_t begin = 0;
    for (int i = 0; i < rig->other_count; i++) {
        const struct trace_event *event = &rig->others[i];
        if (event->kind != (uint16_t)kind || event->args[0] != text)
            continue;
        if (event->phase == PHASE_BEGIN)
            begin = event->time;
        else
            return (double)(event->time - begin) / 1e6;
    }
    return -1;
}

static bool
prices(struct task *me, struct rig *rig)
{
    if (!rig->stepped)
        return true;
    cost_set(&rig->cost, "host", 1);
    cost_set(&rig->cost, "kernel", 10);
    cost_set(&rig->cost, "Linear", 200);
    cost_set(&rig->cost, "Linear_backward", 500);
    for (int device = -1; device < 1; device++) {
        struct module *layer = nn_linear(me, 4, 3, NULL);
        expect(me, rig, device < 0 || module_to(me, layer, device), "to the device");
        struct tensor *x = tensor_filled(me, tensor_empty(me, DTYPE_F32, device, 2, (const int64_t[]){ 2, 4 }), 1);
        struct tensor *loss = tensor_sum(me, module_forward_tensor(me, layer, x));
        expect(me, rig, device < 0 || device_synchronize(me, device), "forward done");
        rig_forget(rig);
        uint64_t before = sched_now(me);
        expect(me, rig, backward(me, loss) && (device < 0 || device_synchronize(me, device)), "backward");
        double node = lasted(rig, KIND_autograd_node, stage_text_id(me, "AddmmBackward0")),
               all = (double)(sched_now(me) - before) / 1e6;
        char   what[100];
        snprintf(what, sizeof what, "device %d: node %g us, all %g us", device, node, all);
        expect(me, rig, device >= 0 || node == 500, what);
        expect(me, rig, all >= 500 && all < 560, what);
    }
    return true;
}

static bool
forward_price(struct task *me, struct rig *rig)
{
    if (!rig->stepped)
        return true;
    cost_set(&rig->cost, "host", 0);
    cost_set(&rig->cost, "kernel", 0);
    cost_set(&rig->cost, "Linear", 200);
    cost_set(&rig->cost, "CrossEntropyLoss", 50);
    struct module *layer = nn_linear(me, 4, 3, NULL), *loss = nn_layer(me, "CrossEntropyLoss", NULL, 0);
    struct tensor *x = tensor_filled(me, tensor_empty(me, DTYPE_F32, DEVICE_CPU, 2, (const int64_t[]){ 2, 4 }), 1);
    struct tensor *t = tensor_filled(me, tensor_empty(me, DTYPE_I64, DEVICE_CPU, 1, (const int64_t[]){ 2 }), 1);
    rig_forget(rig);
    struct value  *both[2] = { value_tensor(me, module_forward_tensor(me, layer, x)), value_tensor(me, t) };
    struct value  *result = module_forward(me, loss, value_tuple(me, 2, both), NULL);
    expect(me, rig, result != NULL, "a loss");
    expect(me, rig, lasted(rig, KIND_module_forward, stage_text_id(me, "Linear")) == 200, "Linear costs what was said");
    return expect(me, rig, lasted(rig, KIND_module_forward, stage_text_id(me, "CrossEntropyLoss")) == 50,
           "once, not per op");
}

static void
a_named_price_is_paid_once(void **state)
{
    (void)state;
    in_both(prices);
    in_both(forward_price);
}

/* ---- SGD ---- */

struct sgd_model { double p[3], buffer[3]; bool begun; };

static void
model_step(struct sgd_model *model, const struct sgd_options *o, const double *grad)
{
    for (int i = 0; i < 3; i++) {
        double d = (o->maximize ? -grad[i] : grad[i]) + o->weight_decay * model->p[i];
        if (o->momentum != 0) {
            model->buffer[i] = model->begun ? o->momentum * model->buffer[i] + (1 - o->dampening) * d : d;
            d = o->nesterov ? d + o->momentum * model->buffer[i] : model->buffer[i];
        }
        model->p[i] -= o->lr * d;
    }
    model->begun = true;
}

static bool
sgd_steps(struct task *me, struct rig *rig)
{
    const struct sgd_options all[] = {
        { .lr = 0.1 }, { .lr = 0.1, .momentum = 0.9 }, { .lr = 0.1, .momentum = 0.9, .nesterov = true },
        { .lr = 0.05, .momentum = 0.8, .dampening = 0.3 }, { .lr = 0.1, .weight_decay = 0.01 },
        { .lr = 0.1, .momentum = 0.9, .weight_decay = 0.1, .nesterov = true }, { .lr = 0.1, .momentum = 0.5,
               .maximize = true },
    };
    for (size_t k = 0; k < sizeof all / sizeof *all; k++) {
        struct sgd_model  model = { { 1, -2, 0.5 }, { 0 }, false };
        struct tensor    *params[2] = { vector(me, 3, model.p), vector(me, 3, model.p) };
        struct optimizer *sgd = optim_sgd(me, params, 2, &all[k]);
        if (!expect(me, rig, sgd != NULL, "an optimizer"))
            return false;
        for (int step = 0; step < 5; step++) {
            const double   g[3] = { 0.3 * step - 0.5, 1.0 / (step + 1), -0.2 };
            struct tensor *x = vector(me, 3, g);
            x->requires_grad = false;
            expect(me, rig, optimizer_zero_grad(me, sgd, step % 2), "zero_grad");
            expect(me, rig, backward(me, tensor_sum(me, tensor_mul(me, params[0], x))) && optimizer_step(me, sgd),
                   "a step");
            model_step(&model, &all[k], g);
            expect(me, rig, holds(me, params[0], 3, model.p), "follows the formula");
        }
        expect(me, rig, at(me, params[1], 1) == -2 && tensor_version(params[1]) == 0,
               "without a gradient nothing moves");
        expect(me, rig, tensor_version(params[0]) == 5, "five versions");
        optimizer_free(me, sgd);
    }
    return true;
}

static bool
sgd_errors(struct task *me, struct rig *rig)
{
    struct tensor     *p = vector(me, 1, (const double[]){ 1 }), *twice[2] = { p, p };
    struct tensor     *inner = tensor_mul_number(me, p, 2);
    struct sgd_options plain = { .lr = 0.1 }, bad_lr = { .lr = -1 }, bad_nesterov = { .lr = 1, .nesterov = true };
    expect(me, rig, optim_sgd(me, &p, 1, &bad_lr) == NULL && raised(me, "Invalid learning rate: -1"), "lr");
    expect(me, rig, optim_sgd(me, &p, 1, &bad_nesterov) == NULL && raised(me, "Nesterov momentum requires"),
           "nesterov");
    expect(me, rig, optim_sgd(me, &p, 0, &plain) == NULL && raised(me, "optimizer got an empty parameter list"),
           "empty");
    expect(me, rig, optim_sgd(me, &inner, 1, &plain) == NULL && raised(me, "can't optimize a non-leaf Tensor"),
           "no leaf");
    return expect(me, rig, optim_sgd(me, twice, 2, &plain) == NULL && raised(me, "some parameters appear"), "twice");
}

static void
sgd_follows_its_formula(void **state)
{
    (void)state;
    in_both(sgd_steps);
    in_both(sgd_errors);
}

static const struct layer_kind *
find_kind(const struct layer_catalogue *catalogue, const char *name)
{
    size_t                   count;
    const struct layer_kind *kinds = layer_kinds(catalogue, &count);
    for (size_t i = 0; i < count; i++)
        if (strcmp(kinds[i].signature.name, name) == 0)
            return &kinds[i];
    return NULL;
}

static void
give_defaults(const struct layer_kind *kind, struct arguments *a)
{
    for (int i = 0; i < kind->signature.count; i++)
        argument_default(&kind->signature.parameters[i], &a->at[i]);
}

static bool
declared_layers(struct task *me, struct rig *rig)
{
    struct layer_catalogue  *catalogue = layer_catalogue_new();
    const struct layer_kind *linear = find_kind(catalogue, "Linear"), *pool = find_kind(catalogue, "MaxPool1d");
    const struct parameter  *p = linear->signature.parameters;
    struct arguments         a;
    expect(me, rig, linear->signature.positional == 3 && linear->signature.count == 5 && p[0].needed && !p[2].needed &&
           p[2].number == 1 && strcmp(p[3].name, "dtype") == 0 && p[3].by_name && strcmp(p[4].name, "device") == 0,
           "Linear(in_features, out_features, bias=True, *, dtype, device)");
    expect(me, rig, find_kind(catalogue, "AdaptiveAvgPool2d")->signature.parameters[0].type == ARG_PAIR_OR_NONE &&
           find_kind(catalogue, "Conv2d")->signature.parameters[4].type == ARG_PADDING, "the longest type is meant");
    give_defaults(linear, &a);
    a.at[0].integer[0] = 4;
    a.at[1].integer[0] = 3;
    a.at[3] = (struct argument){ .dtype = DTYPE_F64 };
    struct tensor *weight = module_parameter(layer_new(me, linear, &a), "weight");
    expect(me, rig, weight->dtype == DTYPE_F64 && weight->size[0] == 3, "a dtype");
    a.at[3].dtype = DTYPE_I64;
    expect(me, rig, layer_new(me, linear, &a) == NULL && raised(me, "nn.Linear: a layer's numbers are fractions"),
           "integers");
    give_defaults(pool, &a);
    a.at[0].integer[0] = 2;
    expect(me, rig, layer_new(me, pool, &a)->integers[1] == -1, "None is -1 in what a plain module keeps");
    layer_catalogue_free(catalogue);
    return expect(me, rig, nn_layer(me, "Line", NULL, 0) == NULL && raised(me, "nn has no layer 'Line'"), "unknown");
}

static void
layers_are_declared_as_functions_are(void **state)
{
    (void)state;
    in_both(declared_layers);
}

/* LSTM(5, 16)'s layer over 32 steps of 8 rows. */
static bool
run_lstm(struct task *me, struct module *lstm, bool turned, struct tensor **out)
{
    static const char *const names[] = { "weight_ih_l0", "weight_hh_l0", "bias_ih_l0", "bias_hh_l0" };
    struct tensor *in[LSTM_INPUTS] = { tensor_zeros(me, DTYPE_F32, DEVICE_CPU, 3, (const int64_t[]){ 32, 8, 5 }) };
    for (int i = 0; i < 4; i++)
        in[LSTM_IH + i] = module_parameter(lstm, names[i]);
    in[LSTM_H] = tensor_zeros(me, DTYPE_F32, DEVICE_CPU, 2, (const int64_t[]){ 8, 16 });
    in[LSTM_C] = in[LSTM_H];
    return lstm_layer(me, in, turned, out);
}

static bool
lstm_as_one_node(struct task *me, struct rig *rig)
{
    struct module *lstm = nn_layer(me, "LSTM", (const int64_t[]){ 5, 16 }, 2);
    struct tensor *out[3], *hh = module_parameter(lstm, "weight_hh_l0");
    expect(me, rig, run_lstm(me, lstm, true, out), "a layer from its last step");
    const struct node *node = out[0]->grad_fn;
    expect(me, rig, strcmp(node->name, "MkldnnRnnLayerBackward0") == 0 && node->edge_count == 7 &&
           node->output_count == 3, "one node, seven edges, three outputs");
    expect(me, rig, out[1]->grad_fn == node && out[1]->output_nr == 1 && out[2]->grad_fn == node &&
           out[2]->output_nr == 2, "the last state and cell are its outputs 1 and 2");
    expect(me, rig, node_wants(node, 4) && !node_wants(node, 0) && !node_wants(node, 5), "the input asks for nothing");
    expect(me, rig, at(me, out[1], 17) == at(me, out[0], 17), "it ended at step 0");
    expect(me, rig, backward(me, tensor_sum(me, out[2])) && hh->grad != NULL && tensor_same_shape(hh, hh->grad),
           "a gradient that comes for the cell alone");
    uint64_t before = device_memory(me, DEVICE_CPU).allocated;
    grad_set_enabled(me, false);
    bool ran = run_lstm(me, lstm, false, out);
    grad_set_enabled(me, true);
    uint64_t kept = device_memory(me, DEVICE_CPU).allocated - before;
    expect(me, rig, ran && out[0]->grad_fn == NULL && kept < 2 * (uint64_t)tensor_bytes(out[0]),
           "without gradients neither gates nor cells are kept");
    struct tensor *narrow[LSTM_INPUTS] = { hh, hh, hh, NULL, NULL, hh, hh };
    return expect(me, rig, !lstm_layer(me, narrow, false, out) && raised(me, "lstm_layer: expected an input of 3 dimensions"),
                  "operands that do not fit");
}

static void
an_lstms_layer_is_one_node(void **state)
{
    (void)state;
    in_both(lstm_as_one_node);
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(modules_are_pytorchs),
        cmocka_unit_test(layers_are_declared_as_functions_are),
        cmocka_unit_test(forwards_take_and_give_values),
        cmocka_unit_test(an_lstms_layer_is_one_node),
        cmocka_unit_test(a_named_price_is_paid_once),
        cmocka_unit_test(sgd_follows_its_formula),
    };
    cmocka_set_message_output(CM_OUTPUT_TAP);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
