/* ModuleList, ModuleDict, ParameterList. In PyTorch: torch/nn/modules/container.py. */
#include "nn/container.h"
#include <stdio.h>
#include <string.h>
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
static const struct module_type parameters_type = {
    "ParameterList", layer_no_forward, &module_plain,
    layer_describe_nothing, NULL,
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

bool
module_is_list(const struct module *module)
{
    return module->type == &list_type || strcmp(module->type->name, "Sequential") == 0;
}

bool
module_is_dict(const struct module *module)
{
    return module->type == &dict_type;
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
