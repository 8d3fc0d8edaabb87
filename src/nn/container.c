/* ModuleList, ModuleDict, ParameterList, ParameterDict. In PyTorch: torch/nn/modules/container.py. */
#include "nn/container.h"
#include <stdio.h>
#include <string.h>
#include "base/str.h"
#include "nn/layer.h"
#include "sched/task.h"

static const struct module_type list_type = {
    "ModuleList", layer_no_forward, &module_plain, layer_describe_nothing,
    NULL,
};
static const struct module_type dict_type = {
    "ModuleDict", layer_no_forward, &module_plain, layer_describe_nothing,
    NULL,
};
/* "torch.float32" in a list, "torch.FloatTensor" in a dict. */
static void
describe_type(const struct tensor *tensor, bool named, struct str *out)
{
    if (tensor == NULL)
        str_add(out, "torch.none");
    else if (named)
        str_addf(out, "torch.%s%sTensor", tensor_device(tensor) != DEVICE_CPU ? "cuda." : "",
                 dtype_title(tensor->dtype));
    else
        str_addf(out, "torch.%s", dtype_name(tensor->dtype));
}

/* One parameter stands between the brackets, several stand below each other. */
static void
describe_parameters(const struct module *self, struct str *out)
{
    const struct module_table *table = &self->parameters;
    bool                       one = table->count == 1;
    str_add(out, one || table->count == 0 ? "" : "\n");
    for (int i = 0; i < table->count; i++) {
        const struct tensor *tensor = table->entries[i].tensor;
        str_addf(out, "%s(%s): Parameter containing: [", one ? "  " : "    ", table->entries[i].name);
        describe_type(tensor, module_is_dict(self), out);
        str_add(out, " of size ");
        for (int d = 0; tensor != NULL && d < tensor->dims; d++)
            str_addf(out, "%s%lld", d > 0 ? "x" : "", (long long)tensor->size[d]);
        if (tensor != NULL && tensor_device(tensor) != DEVICE_CPU)
            str_addf(out, " (GPU %d)", tensor_device(tensor));
        str_add(out, one ? "]" : "]\n");
    }
}

static const struct module_type parameters_type = {
    "ParameterList", layer_no_forward, &module_plain,
    describe_parameters, NULL,
};
static const struct module_type parameter_dict_type = {
    "ParameterDict", layer_no_forward, &module_plain, describe_parameters, NULL,
};

struct module *
nn_module_list(struct task *me)
{
    return module_new(me, &list_type);
}

struct module *
nn_module_dict(struct task *me)
{
    return module_new(me, &dict_type);
}

struct module *
nn_parameter_list(struct task *me)
{
    return module_new(me, &parameters_type);
}

struct module *
nn_parameter_dict(struct task *me)
{
    return module_new(me, &parameter_dict_type);
}

bool
module_is_list(const struct module *module)
{
    return module->type == &list_type || strcmp(module->type->name, "Sequential") == 0;
}

bool
module_is_dict(const struct module *module)
{
    return module->type == &dict_type || module->type == &parameter_dict_type;
}

bool
module_is_parameter_dict(const struct module *module)
{
    return module->type == &parameter_dict_type;
}

bool
module_is_parameter_list(const struct module *module)
{
    return module->type == &parameters_type;
}

bool
module_append(struct task *me, struct module *list, struct module *child)
{
    char name[16];
    snprintf(name, sizeof name, "%d", list->children.count);
    return child != NULL && module_add_child(me, list, name, child);
}

bool
parameter_append(struct task *me, struct module *list, struct tensor *parameter)
{
    char name[16];
    snprintf(name, sizeof name, "%d", list->parameters.count);
    return parameter != NULL && module_add_parameter(me, list, name, parameter);
}
