/* A deep copy of a module. In PyTorch: copy.deepcopy, as torch/nn/modules/transformer.py uses it. */
#include <stdlib.h>
#include "nn/module.h"
#include "nn/name.h"
#include "sched/task.h"
#include "tensor/op.h"
#include "tensor/tensor.h"

/* What there is of each kind, once, and its copies by place. */
struct cloning { struct named_modules modules; struct named_tensors parameters, buffers; void **copies; };

static void
free_cloning(struct task *me, void *place)
{
    struct cloning *c = place;
    named_modules_free(me, &c->modules);
    named_tensors_free(me, &c->parameters);
    named_tensors_free(me, &c->buffers);
    free(c->copies);
    free(c);
}

static void
drop_clone(struct task *me, void *module)
{
    module_unref(me, module);
}

static struct cloning *
cloning_of(struct task *me, struct module *module)
{
    struct cloning *c = born(me, calloc(1, sizeof *c), free_cloning);
    if (c == NULL)
        return task_failed(me) ? NULL : failed_null(me, E_MEMORY, "out of memory while copying a module");
    if (!module_named_modules(me, module, &c->modules) || !module_named_parameters(me, module, &c->parameters) ||
        !module_named_buffers(me, module, &c->buffers))
        return NULL;
    size_t count = (size_t)c->modules.count + (size_t)c->parameters.count + (size_t)c->buffers.count;
    c->copies    = calloc(count, sizeof *c->copies);
    return c->copies != NULL ? c : failed_null(me, E_MEMORY, "out of memory while copying a module");
}

static bool
clone_tensors(struct task *me, const struct named_tensors *from, void **out)
{
    for (int i = 0; i < from->count; i++) {
        const struct tensor *original = from->tensors[i];
        struct tensor       *plain = tensor_empty(me, original->dtype, tensor_device(original), original->dims,
                                                  original->size);
        if (plain == NULL || !tensor_copy(me, plain, from->tensors[i]))
            return false;
        plain->requires_grad = original->requires_grad;
        plain->is_parameter  = original->is_parameter;
        plain->uninitialized = original->uninitialized;
        out[i]               = plain;
    }
    return true;
}

static bool
clone_modules(struct task *me, struct cloning *c)
{
    for (int i = 0; i < c->modules.count; i++) {
        struct module *original = c->modules.modules[i];
        struct module *copy = born(me, original->type->life->copy(me, original), drop_clone);
        if (copy == NULL)
            return false;
        module_set_original(me, copy, NULL);
        name_unref(me, copy->name);
        copy->name   = NULL;
        c->copies[i] = copy;
    }
    return true;
}

static void
clone_rewire_tensors(struct task *me, const struct named_tensors *from, void *const *copies, struct module_table *table)
{
    for (int i = 0; i < table->count; i++)
        for (int j = 0; j < from->count; j++)
            if (table->entries[i].tensor == from->tensors[j]) {
                tensor_keep(me, &table->entries[i].tensor, copies[j]);
                break;
            }
}

static void
clone_rewire_children(struct task *me, const struct cloning *c, struct module_table *table)
{
    for (int i = 0; i < table->count; i++)
        for (int j = 0; j < c->modules.count; j++)
            if (table->entries[i].module == c->modules.modules[j]) {
                table->entries[i].module = module_ref(c->copies[j]);
                module_unref(me, c->modules.modules[j]);
                break;
            }
}

struct module *
module_clone(struct task *me, struct module *module)
{
    struct cloning *c = module != NULL ? cloning_of(me, module) : NULL;
    if (c == NULL)
        return NULL;
    void **parameters = c->copies + c->modules.count, **buffers = parameters + c->parameters.count;
    if (!clone_modules(me, c) || !clone_tensors(me, &c->parameters, parameters) ||
        !clone_tensors(me, &c->buffers, buffers))
        return NULL;
    for (int i = 0; i < c->modules.count; i++) {
        struct module *copy = c->copies[i];
        clone_rewire_tensors(me, &c->parameters, parameters, &copy->parameters);
        clone_rewire_tensors(me, &c->buffers, buffers, &copy->buffers);
        clone_rewire_children(me, c, &copy->children);
        if (!copy->type->life->rewired(me, copy))
            return NULL;
    }
    return c->copies[0];
}
