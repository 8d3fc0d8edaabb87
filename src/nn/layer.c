/* What built-in layers share; see layer.h. In PyTorch: torch/nn/modules/module.py, torch/nn/init.py. */
#include "nn/layer.h"
#include <math.h>
#include <stdio.h>
#include <string.h>
#include "autograd/call.h"
#include "base/str.h"
#include "sched/task.h"

struct value *
forward_argument(struct task *me, const struct module *self, const struct value *args, const struct value *kwargs,
                 int index, const char *name, bool needed)
{
    for (int i = 0; kwargs != NULL && i < kwargs->count; i++) {
        if (strcmp(kwargs->keys[i], name) != 0)
            continue;
        if (index < args->count)
            return failed_null(me, E_TYPE, "%s: forward() got multiple values for argument '%s'", self->type->name,
                               name);
        return kwargs->items[i];
    }
    if (index < args->count)
        return args->items[index];
    if (needed)
        failed(me, E_TYPE, "%s: forward() missing a required positional argument: '%s'", self->type->name, name);
    return NULL;
}

bool
forward_tensor(struct task *me, const struct module *self, const struct value *args, const struct value *kwargs,
               int index, const char *name, struct tensor **out)
{
    struct value *value = forward_argument(me, self, args, kwargs, index, name, false);
    *out = NULL;
    if (value == NULL || value->kind == VALUE_NONE)
        return !task_failed(me);
    if (value->kind != VALUE_TENSOR)
        return failed(me, E_TYPE, "%s: forward() argument '%s' must be a tensor", self->type->name, name);
    *out = value->tensor;
    return true;
}

static bool
only_these(struct task *me, const struct module *self, const struct value *args, const struct value *kwargs,
           const char *const *names, int count)
{
    if (args->count > count)
        return failed(me, E_TYPE, "%s: forward() takes %d positional argument%s but %d were given", self->type->name,
                      count, count == 1 ? "" : "s", args->count);
    for (int i = 0; kwargs != NULL && i < kwargs->count; i++) {
        bool known = false;
        for (int j = 0; j < count; j++)
            known |= strcmp(kwargs->keys[i], names[j]) == 0;
        if (!known)
            return failed(me, E_TYPE, "%s: forward() got an unexpected keyword argument '%s'", self->type->name,
                          kwargs->keys[i]);
    }
    return true;
}

bool
forward_tensors(struct task *me, const struct module *self, const struct value *args, const struct value *kwargs,
                const char *const *names, int needed, int count, struct tensor **out)
{
    if (!only_these(me, self, args, kwargs, names, count))
        return false;
    for (int i = 0; i < count; i++) {
        if (i < needed && forward_argument(me, self, args, kwargs, i, names[i], true) == NULL)
            return false;
        if (!forward_tensor(me, self, args, kwargs, i, names[i], &out[i]))
            return false;
        if (i < needed && out[i] == NULL)
            return failed(me, E_TYPE, "%s: forward() argument '%s' must be a tensor", self->type->name, names[i]);
    }
    return true;
}

struct value *
layer_forward(struct task *me, struct module *self, struct value *args, struct value *kwargs)
{
    static const char *const names[LAYER_INPUTS] = { "input", "target" };
    const struct layer_type *layer = (const struct layer_type *)self->type;
    struct tensor           *in[LAYER_INPUTS] = { NULL };
    if (!forward_tensors(me, self, args, kwargs, names, layer->inputs, layer->inputs, in))
        return NULL;
    if (self->integers[LAYER_INPLACE] != INPLACE_BY_COPY)
        return value_tensor(me, layer->apply(me, self, in));
    struct tensor *copy = tensor_copied(me, in[0]);
    struct tensor *result = copy != NULL ? layer->apply(me, self, &copy) : NULL;
    return value_tensor(me, result != NULL ? tensor_copy_(me, in[0], result) : NULL);
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

/* Python's repr of a float: what is whole keeps its .0. */
static void
add_number(struct str *out, double number)
{
    char text[40];
    snprintf(text, sizeof text, "%.12g", number);
    str_addf(out, "%s%s", text, strpbrk(text, ".en") == NULL ? ".0" : "");
}

void
layer_describe_attributes(const struct module *self, struct str *out)
{
    size_t before = out->len;
    for (const struct module_attribute *a = self->type->attributes; a != NULL && a->name != NULL; a++) {
        str_addf(out, "%s%s=", a == self->type->attributes ? "" : ", ", a->name);
        if (a->kind == ATTRIBUTE_NUMBER)
            add_number(out, self->numbers[a->at]);
        else
            str_addf(out, "%lld", (long long)self->integers[a->at]);
    }
    if (self->integers[LAYER_INPLACE])
        str_add(out, out->len > before ? ", inplace=True" : "inplace=True");
}

/* A leaf that wants a gradient. */
struct tensor *
layer_parameter(struct task *me, struct module *module, const char *name, enum dtype dtype, int dims,
                const int64_t *sizes, double bound)
{
    struct tensor *tensor = tensor_empty(me, dtype, DEVICE_CPU, dims, sizes);
    if (tensor == NULL)
        return NULL;
    tensor->requires_grad = true;
    tensor->is_parameter  = true;
    if (!module_add_parameter(me, module, name, tensor))
        return NULL;
    return bound < 0 || tensor_uniform(me, tensor, -bound, bound, default_generator(me)) ? tensor : NULL;
}

bool
layer_constant(struct task *me, struct module *module, const char *name, enum dtype dtype, int64_t size, double value,
               bool buffer)
{
    struct tensor *tensor = tensor_filled(me, tensor_empty(me, dtype, DEVICE_CPU, size < 0 ? 0 : 1, &size), value);
    if (tensor == NULL)
        return false;
    tensor->requires_grad = tensor->is_parameter = !buffer;
    return buffer ? module_add_buffer(me, module, name, tensor) : module_add_parameter(me, module, name, tensor);
}

bool
layer_no_parameter(struct task *me, struct module *module, const char *name)
{
    return module_add_parameter(me, module, name, NULL);
}

/* The bound in double, by these operations in this order. */
double
kaiming_bound(int64_t fan_in)
{
    double a    = sqrt(5.0);
    double gain = sqrt(2.0 / (1 + a * a));
    double std  = gain / sqrt((double)fan_in);
    return sqrt(3.0) * std;
}

bool
layer_positive(struct task *me, const char *module, const char *what, int64_t size)
{
    return size > 0 || failed(me, E_VALUE, "%s: %s must be positive, got %lld", module, what, (long long)size);
}

struct tensor *
module_buffer(const struct module *module, const char *name)
{
    for (int i = 0; i < module->buffers.count; i++)
        if (strcmp(module->buffers.entries[i].name, name) == 0)
            return module->buffers.entries[i].tensor;
    return NULL;
}
