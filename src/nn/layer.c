/* What built-in layers share; see layer.h. In PyTorch: torch/nn/modules/module.py, torch/nn/init.py. */
#include "nn/layer.h"
#include <math.h>
#include <stdio.h>
#include <string.h>
#include "autograd/call.h"
#include "base/str.h"
#include "sched/task.h"

struct value *
forward_argument(struct task *me, const struct forward_call *call, int index, const char *name, bool needed)
{
    const struct value *args = call->args, *kwargs = call->kwargs;
    const char         *type = call->self->type->name;
    for (int i = 0; kwargs != NULL && i < kwargs->count; i++) {
        if (strcmp(kwargs->keys[i], name) != 0)
            continue;
        if (index < args->count)
            return failed_null(me, E_TYPE, "%s: forward() got multiple values for argument '%s'", type, name);
        return kwargs->items[i];
    }
    if (index < args->count)
        return args->items[index];
    if (needed)
        failed(me, E_TYPE, "%s: forward() missing a required positional argument: '%s'", type, name);
    return NULL;
}

static bool
no_tensor(struct task *me, const struct forward_call *call, const char *name)
{
    return failed(me, E_TYPE, "%s: forward() argument '%s' must be a tensor", call->self->type->name, name);
}

bool
forward_tensor(struct task *me, const struct forward_call *call, int index, const char *name, struct tensor **out)
{
    struct value *value = forward_argument(me, call, index, name, false);
    *out = NULL;
    if (value == NULL || value->kind == VALUE_NONE)
        return !task_failed(me);
    *out = value->tensor;
    return value->kind == VALUE_TENSOR || no_tensor(me, call, name);
}

bool
forward_only(struct task *me, const struct forward_call *call, const struct forward_names *names)
{
    const struct value *kwargs = call->kwargs;
    const char         *type = call->self->type->name;
    if (call->args->count > names->count)
        return failed(me, E_TYPE, "%s: forward() takes %d positional argument%s but %d were given", type,
                      names->count, names->count == 1 ? "" : "s", call->args->count);
    for (int i = 0; kwargs != NULL && i < kwargs->count; i++) {
        bool known = false;
        for (int j = 0; j < names->count; j++)
            known |= strcmp(kwargs->keys[i], names->at[j]) == 0;
        if (!known)
            return failed(me, E_TYPE, "%s: forward() got an unexpected keyword argument '%s'", type,
                          kwargs->keys[i]);
    }
    return true;
}

bool
forward_tensors(struct task *me, const struct forward_call *call, const struct forward_names *names,
                struct tensor **out)
{
    if (!forward_only(me, call, names))
        return false;
    for (int i = 0; i < names->count; i++) {
        bool needed = i < names->needed;
        if (needed && forward_argument(me, call, i, names->at[i], true) == NULL)
            return false;
        if (!forward_tensor(me, call, i, names->at[i], &out[i]))
            return false;
        if (needed && out[i] == NULL)
            return no_tensor(me, call, names->at[i]);
    }
    return true;
}

struct value *
layer_forward(struct task *me, struct module *self, struct value *args, struct value *kwargs)
{
    static const struct forward_names inputs[] = {
        [1] = { 1, 1, { "input" } },
        [2] = { 2, 2, { "input", "target" } },
    };
    const struct layer_type *layer = (const struct layer_type *)self->type;
    struct tensor           *in[LAYER_INPUTS] = { NULL };
    if (!forward_tensors(me, &(struct forward_call){ self, args, kwargs }, &inputs[layer->inputs], in))
        return NULL;
    return value_tensor(me, layer->apply(me, self, in));
}

struct value *
layer_no_forward(struct task *me, struct module *self, struct value *args, struct value *kwargs)
{
    (void)args, (void)kwargs;
    return failed_null(me, E_NOT_IMPLEMENTED, "Module [%s] is missing the required \"forward\" function",
                       self->type->name);
}

void
layer_describe_nothing(const struct module *self, struct str *out)
{
    (void)self, (void)out;
}

void
layer_add_number(struct str *out, const char *name, double number)
{
    char text[FLOAT_TEXT];
    float_text(number, text);
    str_addf(out, "%s%s", name, text);
}

void
layer_describe_attributes(const struct module *self, struct str *out)
{
    size_t before = out->len;
    for (const struct module_attribute *a = self->type->attributes; a != NULL && a->name != NULL; a++) {
        str_addf(out, "%s%s=", a == self->type->attributes ? "" : ", ", a->name);
        if (a->kind == ATTRIBUTE_NUMBER)
            layer_add_number(out, "", self->numbers[a->at]);
        else
            str_addf(out, "%lld", (long long)self->integers[a->at]);
    }
    if (self->integers[LAYER_INPLACE])
        str_add(out, out->len > before ? ", inplace=True" : "inplace=True");
}

/* A leaf that wants a gradient. */
static struct tensor *
added_parameter(struct task *me, struct module *module, const char *name, struct tensor *tensor)
{
    if (tensor == NULL)
        return NULL;
    tensor->requires_grad = true;
    tensor->is_parameter  = true;
    return module_add_parameter(me, module, name, tensor) ? tensor : NULL;
}

static struct tensor *
shaped(struct task *me, const struct layer_shape *shape)
{
    return tensor_empty(me, shape->dtype, DEVICE_CPU, shape->dims, shape->size);
}

struct tensor *
layer_parameter(struct task *me, struct module *module, const char *name, const struct layer_shape *shape,
                double bound)
{
    struct tensor *tensor = added_parameter(me, module, name, shaped(me, shape));
    if (tensor == NULL || bound < 0)
        return tensor;
    return tensor_uniform(me, tensor, -bound, bound, default_generator(me)) ? tensor : NULL;
}

bool
layer_constant(struct task *me, struct module *module, const char *name, const struct layer_shape *shape, double value)
{
    struct tensor *tensor = tensor_filled(me, shaped(me, shape), value);
    tensor_bump(tensor); /* PyTorch fills in place: a new parameter or buffer is at version 1 */
    return added_parameter(me, module, name, tensor) != NULL;
}

bool
layer_buffer(struct task *me, struct module *module, const char *name, const struct layer_shape *shape, double value)
{
    struct tensor *tensor = tensor_filled(me, shaped(me, shape), value);
    tensor_bump(tensor);
    return tensor != NULL && module_add_buffer(me, module, name, tensor);
}

/* A parameter whose shape is not known yet. */
bool
layer_uninitialized(struct task *me, struct module *module, const char *name, enum dtype dtype)
{
    const struct layer_shape none = { dtype, 1, (const int64_t[]){ 0 } };
    struct tensor           *tensor = added_parameter(me, module, name, shaped(me, &none));
    if (tensor != NULL)
        tensor->uninitialized = true;
    return tensor != NULL;
}

bool
layer_no_parameter(struct task *me, struct module *module, const char *name)
{
    return module_add_parameter(me, module, name, NULL);
}

/* The bound in double, by these operations in this order. */
double
kaiming_bound(double fan_in)
{
    double a    = sqrt(5.0);
    double gain = sqrt(2.0 / (1 + a * a));
    double std  = gain / sqrt(fan_in);
    return sqrt(3.0) * std;
}

bool
layer_positive(struct task *me, const char *module, const char *what, int64_t size)
{
    if (size > LAYER_SIZE)
        return failed(me, E_VALUE, "%s: %s of %lld is too large", module, what, (long long)size);
    return size > 0 || failed(me, E_VALUE, "%s: %s must be positive, got %lld", module, what, (long long)size);
}
