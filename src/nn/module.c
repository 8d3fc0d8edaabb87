/* The module tree: registering, walking, calling, printing. In PyTorch: torch/nn/modules/module.py.
 *
 * Interface in order of use: module_new, module_add_parameter, _buffer, _child; module_forward; module_named_*;
 * module_convert.c's module_to, module_train, module_zero_grad; module_print; module_unref at the end. */
#include "nn/module.h"
#include <stdlib.h>
#include <string.h>
#include "autograd/call.h"
#include "autograd/node.h"
#include "base/map.h"
#include "device/cells.h"
#include "device/storage.h"
#include "hw/cost.h"
#include "nn/name.h"
#include "sched/stage.h"
#include "tensor/tensor.h"

enum { DEEPEST = MODULE_DEEPEST, LONGEST_NAME = 1000 };

static bool
module_no_memory(struct task *me)
{
    return failed(me, E_MEMORY, "out of memory");
}

static bool
too_deep(struct task *me)
{
    return failed(me, E_MEMORY, "out of memory, or modules nested deeper than %d", DEEPEST);
}

const char *
module_class_name(const struct module *module)
{
    return module->class_name != NULL ? module->class_name : module->type->name;
}

/* ---- life ---- */

static void
drop_new_module(struct task *me, void *module)
{
    module_unref(me, module);
}

struct module *
module_new(struct task *me, const struct module_type *type)
{
    struct module *module = host_take(me, sizeof *module);
    if (module == NULL)
        return NULL;
    module->references = 1;
    module->holders    = 1;
    module->type       = type;
    module->training   = true;
    return born(me, module, drop_new_module);
}

struct module *
module_ref(struct module *module)
{
    if (module != NULL)
        atomic_fetch_add_explicit(&module->references, 1, memory_order_relaxed);
    return module;
}

static void
table_free(struct task *me, struct module_table *table)
{
    for (int i = 0; i < table->count; i++) {
        tensor_unref(me, table->entries[i].tensor);
        module_unref(me, table->entries[i].module);
        name_unref(me, table->entries[i].name);
    }
    host_return(me, table->entries, table->room * sizeof *table->entries);
    *table = (struct module_table){ 0 };
}

/* The last holder takes the hooks with it, which replicas call after the module itself is gone. */
static void
module_let_go(struct task *me, struct module *module)
{
    if (module == NULL || atomic_fetch_sub_explicit(&module->holders, 1, memory_order_acq_rel) != 1)
        return;
    void *context = atomic_load(&module->hooks.context);
    if (context != NULL)
        module->hooks.calls->drop(me, context);
    host_return(me, module, sizeof *module);
}

void
module_set_original(struct task *me, struct module *replica, struct module *original)
{
    struct module *old = replica->original;
    if (original != NULL)
        atomic_fetch_add_explicit(&original->holders, 1, memory_order_relaxed);
    replica->original = original;
    module_let_go(me, old);
}

void
module_unref(struct task *me, struct module *module)
{
    if (module == NULL || atomic_fetch_sub_explicit(&module->references, 1, memory_order_acq_rel) != 1)
        return;
    module->type->life->drop(me, module);
    table_free(me, &module->parameters);
    table_free(me, &module->buffers);
    table_free(me, &module->children);
    module_set_original(me, module, NULL);
    name_unref(me, module->name);
    module->name = NULL;
    module_let_go(me, module);
}

/* ---- tables ---- */

static struct module_entry *
table_find(const struct module_table *table, const char *name)
{
    for (int i = 0; i < table->count; i++)
        if (strcmp(table->entries[i].name, name) == 0)
            return &table->entries[i];
    return NULL;
}

/* Replaces the entry of that name or adds one; takes references. */
static bool
table_set(struct task *me, struct module_table *table, const char *name, struct tensor *tensor, struct module *module)
{
    struct module_entry *entry = table_find(table, name);
    if (entry == NULL) {
        char *copy = name_new(me, name);
        if (copy == NULL || !host_room(me, &table->entries, &table->room, (size_t)table->count + 1, sizeof *entry)) {
            name_unref(me, copy);
            return module_no_memory(me);
        }
        entry = &table->entries[table->count++];
        *entry = (struct module_entry){ .name = copy };
    }
    struct module *old = entry->module;
    entry->module = module_ref(module);
    module_unref(me, old);
    tensor_keep(me, &entry->tensor, tensor);
    return true;
}

/* Names stay the original's. */
static bool
table_copy(struct task *me, struct module_table *to, const struct module_table *from)
{
    if (!host_room(me, &to->entries, &to->room, (size_t)from->count, sizeof *to->entries))
        return module_no_memory(me);
    for (; to->count < from->count; to->count++) {
        const struct module_entry *entry = &from->entries[to->count];
        to->entries[to->count] = (struct module_entry){ name_ref(entry->name), tensor_ref(entry->tensor),
                                                        module_ref(entry->module) };
    }
    return true;
}

static bool
name_allowed(struct task *me, const char *what, const char *name)
{
    if (name[0] == '\0')
        return failed(me, E_KEY, "%s name can't be empty string \"\"", what);
    if (strchr(name, '.') != NULL)
        return failed(me, E_KEY, "%s name can't contain \".\", got: \"%s\"", what, name);
    return strlen(name) <= LONGEST_NAME || failed(me, E_KEY, "%s name can't be longer than %d", what, LONGEST_NAME);
}

static bool
tensor_rename(struct task *me, struct tensor *tensor, const char *prefix, const char *name)
{
    char *joined = tensor != NULL ? name_join(me, prefix, name) : NULL;
    char *copy   = joined != NULL ? strdup(joined) : NULL;
    name_unref(me, joined);
    if (tensor == NULL)
        return true;
    if (copy == NULL)
        return module_no_memory(me);
    free(tensor->name);
    tensor->name = copy;
    atomic_store(&tensor->name_id, 0);
    return true;
}

/* What its bytes are for, which their birth does not show. */
/* What a tensor's bytes are for, which their birth does not show. */
void
tensor_announce_role(struct task *me, const struct tensor *tensor, const char *role)
{
    if (stage_enabled(me, KIND_memory_role) && !tensor_is_sparse(tensor))
        POINT_ON(me, tensor_device(tensor), memory_role, tensor->storage->number, stage_name_id(me, role));
}

/* A replica's belong to its original. */
static bool
module_add_tensor(struct task *me, struct module *module, bool buffer, const char *name, struct tensor *tensor)
{
    if (!table_set(me, buffer ? &module->buffers : &module->parameters, name, tensor, NULL) ||
        !tensor_rename(me, tensor, module->name, name))
        return false;
    if (tensor != NULL && !module->is_replica)
        tensor_announce_role(me, tensor, buffer ? "buffer" : "parameter");
    return true;
}

bool
module_add_parameter(struct task *me, struct module *module, const char *name, struct tensor *tensor)
{
    if (module == NULL || !name_allowed(me, "parameter", name))
        return false;
    if (tensor != NULL && tensor->grad_fn != NULL && !module->is_replica)
        return failed(me, E_VALUE, "Cannot assign non-leaf Tensor to parameter '%s'. Model parameters must be created "
                      "explicitly.", name);
    return module_add_tensor(me, module, false, name, tensor);
}

bool
module_add_buffer(struct task *me, struct module *module, const char *name, struct tensor *tensor)
{
    if (module == NULL || !name_allowed(me, "buffer", name))
        return false;
    return module_add_tensor(me, module, true, name, tensor);
}

struct tensor *
module_parameter(const struct module *module, const char *name)
{
    struct module_entry *entry = module != NULL ? table_find(&module->parameters, name) : NULL;
    return entry != NULL ? entry->tensor : NULL;
}

struct tensor *
module_buffer(const struct module *module, const char *name)
{
    struct module_entry *entry = module != NULL ? table_find(&module->buffers, name) : NULL;
    return entry != NULL ? entry->tensor : NULL;
}

struct module *
module_child(const struct module *module, const char *name)
{
    struct module_entry *entry = module != NULL ? table_find(&module->children, name) : NULL;
    return entry != NULL ? entry->module : NULL;
}

/* ---- walking ---- */

/* Depth first, itself before its children, each module once. `seen` remembers which. */
static bool
collect(struct task *me, struct named_modules *list, struct map *seen, struct module *module, char *name, int depth)
{
    if (map_get(seen, (uintptr_t)module, NULL))
        return true;
    const size_t need = (size_t)list->count + 1;
    if (depth > DEEPEST || !map_set(seen, (uintptr_t)module, 1) ||
        !host_room(me, &list->modules, &list->room, need, sizeof *list->modules) ||
        !host_room(me, &list->names, &list->names_room, need, sizeof *list->names))
        return false;
    list->modules[list->count] = module;
    list->names[list->count++] = name_ref(name);
    for (int i = 0; i < module->children.count; i++) {
        const struct module_entry *entry = &module->children.entries[i];
        if (entry->module == NULL)
            continue;
        char *its = name_join(me, name, entry->name);
        bool  ok  = its != NULL && collect(me, list, seen, entry->module, its, depth + 1);
        name_unref(me, its);
        if (!ok)
            return false;
    }
    return true;
}

static bool
named_modules_from(struct task *me, struct module *module, const char *prefix, struct named_modules *out)
{
    struct map seen = { .source = host_source(me) };
    char      *name = name_new(me, prefix);
    *out = (struct named_modules){ 0 };
    bool ok = name != NULL && collect(me, out, &seen, module, name, 0);
    name_unref(me, name);
    map_free(&seen);
    if (!ok)
        named_modules_free(me, out);
    return ok;
}

bool
module_named_modules(struct task *me, struct module *module, struct named_modules *out)
{
    *out = (struct named_modules){ 0 };
    if (module == NULL)
        return false;
    return named_modules_from(me, module, "", out) || too_deep(me);
}

static void
names_free(struct task *me, char **names, int count, size_t room)
{
    for (int i = 0; i < count; i++)
        name_unref(me, names[i]);
    host_return(me, names, room * sizeof *names);
}

void
named_modules_free(struct task *me, struct named_modules *list)
{
    names_free(me, list->names, list->count, list->names_room);
    host_return(me, list->modules, list->room * sizeof *list->modules);
    *list = (struct named_modules){ 0 };
}

/* Takes the name over, also when it fails. */
static bool
named_push(struct task *me, struct named_tensors *list, struct tensor *tensor, char *name)
{
    const size_t need = (size_t)list->count + 1;
    if (name == NULL || !host_room(me, &list->tensors, &list->room, need, sizeof *list->tensors) ||
        !host_room(me, &list->names, &list->names_room, need, sizeof *list->names)) {
        name_unref(me, name);
        return false;
    }
    list->tensors[list->count] = tensor;
    list->names[list->count++] = name;
    return true;
}

/* `former`: of a replica's table, whose tensors are Broadcast's copies and no parameters any more, unless grad mode was
 * off: then replica 0 has the very parameters. */
static bool
push_table(struct task *me, struct named_tensors *out, struct map *seen, const struct module_table *table,
           const char *prefix, bool former)
{
    for (int i = 0; i < table->count; i++) {
        struct tensor *tensor = table->entries[i].tensor;
        if (tensor == NULL || (former && !tensor->is_parameter) ||
            (seen != NULL && map_get(seen, (uintptr_t)tensor, NULL)))
            continue;
        if ((seen != NULL && !map_set(seen, (uintptr_t)tensor, 1)) ||
            !named_push(me, out, tensor, name_join(me, prefix, table->entries[i].name)))
            return false;
    }
    return true;
}

static bool
collect_tensors(struct task *me, struct module *module, const char *prefix, bool buffers, struct named_tensors *out)
{
    struct named_modules modules;
    struct map           seen = { .source = host_source(me) };
    *out = (struct named_tensors){ 0 };
    if (module == NULL)
        return false;
    bool ok = named_modules_from(me, module, prefix, &modules);
    for (int i = 0; ok && i < modules.count; i++) {
        const struct module *at = modules.modules[i];
        ok = push_table(me, out, &seen, buffers ? &at->buffers : &at->parameters, modules.names[i],
                        at->is_replica && !buffers);
    }
    named_modules_free(me, &modules);
    if (!ok)
        named_tensors_free(me, out);
    map_free(&seen);
    return ok || too_deep(me);
}

bool
module_named_parameters(struct task *me, struct module *module, struct named_tensors *out)
{
    return collect_tensors(me, module, "", false, out);
}

bool
module_named_buffers(struct task *me, struct module *module, struct named_tensors *out)
{
    return collect_tensors(me, module, "", true, out);
}

static bool
state_from(struct task *me, struct named_tensors *out, struct module *module, const char *prefix, int depth)
{
    if (depth > DEEPEST || !push_table(me, out, NULL, &module->parameters, prefix, module->is_replica) ||
        !push_table(me, out, NULL, &module->buffers, prefix, false))
        return false;
    for (int i = 0; i < module->children.count; i++) {
        struct module *child = module->children.entries[i].module;
        char          *name = child != NULL ? name_join(me, prefix, module->children.entries[i].name) : NULL;
        bool           ok = child == NULL || (name != NULL && state_from(me, out, child, name, depth + 1));
        name_unref(me, name);
        if (!ok)
            return false;
    }
    return true;
}

bool
module_named_state(struct task *me, struct module *module, struct named_tensors *out)
{
    *out = (struct named_tensors){ 0 };
    if (module == NULL)
        return false;
    if (state_from(me, out, module, "", 0))
        return true;
    named_tensors_free(me, out);
    return too_deep(me);
}

void
named_tensors_free(struct task *me, struct named_tensors *list)
{
    names_free(me, list->names, list->count, list->names_room);
    host_return(me, list->tensors, list->room * sizeof *list->tensors);
    *list = (struct named_tensors){ 0 };
}

int64_t
named_bytes(const struct named_tensors *list)
{
    int64_t bytes = 0;
    for (int i = 0; i < list->count; i++)
        bytes += tensor_bytes(list->tensors[i]);
    return bytes;
}

/* ---- names ---- */

static bool
rename_tensors(struct task *me, struct module *module, const char *prefix, bool buffers)
{
    struct named_tensors list;
    bool                 ok = collect_tensors(me, module, prefix, buffers, &list);
    for (int i = 0; ok && i < list.count; i++)
        ok = tensor_rename(me, list.tensors[i], NULL, list.names[i]);
    named_tensors_free(me, &list);
    return ok;
}

bool
module_name_tensors(struct task *me, struct module *module, const char *prefix)
{
    struct named_modules list;
    if (module == NULL || !named_modules_from(me, module, prefix != NULL ? prefix : "", &list))
        return module == NULL ? false : too_deep(me);
    for (int i = 0; i < list.count; i++) {
        name_unref(me, list.modules[i]->name);
        list.modules[i]->name = name_ref(list.names[i]);
        atomic_store(&list.modules[i]->name_id, 0);
    }
    named_modules_free(me, &list);
    return rename_tensors(me, module, prefix != NULL ? prefix : "", false) &&
           rename_tensors(me, module, prefix != NULL ? prefix : "", true);
}

static bool
contains(struct task *me, struct module *tree, const struct module *wanted, bool *found)
{
    struct named_modules list;
    *found = false;
    if (!module_named_modules(me, tree, &list))
        return false;
    for (int i = 0; i < list.count; i++)
        *found |= list.modules[i] == wanted;
    named_modules_free(me, &list);
    return true;
}

/* The child's tensors learn what they are called from here on. A replica's are called as its original's. */
bool
module_add_child(struct task *me, struct module *module, const char *name, struct module *child)
{
    bool cycle = false;
    if (module == NULL || !name_allowed(me, "module", name))
        return false;
    if (child != NULL && !contains(me, child, module, &cycle))
        return false;
    if (cycle)
        return failed(me, E_VALUE, "the module '%s' cannot be a child of itself", name);
    if (!table_set(me, &module->children, name, NULL, child))
        return false;
    if (child == NULL || module->is_replica)
        return true;
    char *joined = name_join(me, module->name, name);
    bool  ok     = joined != NULL ? module_name_tensors(me, child, joined) : module_no_memory(me);
    name_unref(me, joined);
    return ok;
}

/* ---- calling ---- */

static void
cover_of(struct task *me, const struct module *module, struct price_cover *cover)
{
    const struct cost_model *model = sched_cost(me->sched);
    *cover = (struct price_cover){ .name = module_class_name(module) };
    if (prices_named(me))
        cost_kernel(model, NULL, cover->name, &cover->found);
}

static int64_t
class_id(struct task *me, const struct module *module)
{
    return module->class_name != NULL ? stage_text_id(me, module->class_name) : stage_name_id(me, module->type->name);
}

static void
drop_result(struct task *me, void *value)
{
    value_unref(me, value);
}

/* As in PyTorch, where a replica is a shallow copy: its tables of hooks are the module's very own. */
struct module_hooks *
module_hooks(struct module *module)
{
    return module->is_replica && module->original != NULL ? &module->original->hooks : &module->hooks;
}

static struct value *
forward_with_hooks(struct task *me, struct module *module, struct value *args, struct value *kwargs)
{
    struct module_hooks *hooks   = module_hooks(module);
    void                *context = atomic_load(&hooks->context), *token = NULL;
    if (context == NULL)
        return module->type->forward(me, module, args, kwargs);
    args = hooks->calls->before(me, context, module, args, &token);
    struct value *result = args != NULL ? module->type->forward(me, module, args, kwargs) : NULL;
    return result != NULL && token != NULL ? hooks->calls->after(me, context, module, args, result, token) : result;
}

/* nn.Module.__call__. Ops below know by the module's name what they are priced as. */
struct value *
module_forward(struct task *me, struct module *module, struct value *args,
               struct value *kwargs)
{
    if (module == NULL || args == NULL || task_failed(me))
        return NULL;
    const char *called = module->name != NULL ? module->name : "";
    int64_t     name   = stage_kept_id(me, &module->name_id, called);
    value_announce(me, args, "input");
    STAGE(me, module_forward, class_id(me, module), name);
    struct price_cover cover;
    cover_of(me, module, &cover);
    struct price_cover *outer       = price_cover_set(me, &cover);
    const char         *outer_class = task_module(me);
    task_set_module(me, cover.name);
    struct value *result = forward_with_hooks(me, module, args, kwargs);
    task_set_module(me, outer_class);
    price_cover_restore(me, outer);
    value_announce(me, result, "output");
    return hand_up(me, born(me, value_ref(me, result), drop_result));
}

struct tensor *
module_forward_tensor(struct task *me, struct module *module, struct tensor *input)
{
    struct value *item   = value_tensor(me, input);
    struct value *args   = item != NULL ? value_tuple(me, 1, &item) : NULL;
    struct value *result = module_forward(me, module, args, NULL);
    if (result == NULL)
        return NULL;
    if (result->kind != VALUE_TENSOR)
        return failed_null(me, E_TYPE, "the forward of %s did not give a tensor", module_class_name(module));
    return tensor_born(me, tensor_ref(result->tensor));
}

/* ---- the plain answers of a module type ---- */

struct module *
module_plain_copy(struct task *me, struct module *self)
{
    struct module *copy = host_take(me, sizeof *copy);
    if (copy == NULL)
        return NULL;
    copy->references = 1;
    copy->holders    = 1;
    copy->type       = self->type;
    copy->training   = self->training;
    module_set_original(me, copy, self->original != NULL ? self->original : self);
    copy->script     = self->script;
    copy->class_name = self->class_name;
    memcpy(copy->integers, self->integers, sizeof copy->integers);
    memcpy(copy->numbers, self->numbers, sizeof copy->numbers);
    copy->name = name_ref(self->name);
    if (table_copy(me, &copy->parameters, &self->parameters) && table_copy(me, &copy->buffers, &self->buffers) &&
        table_copy(me, &copy->children, &self->children))
        return copy;
    copy->script = NULL; /* it is the original's */
    module_unref(me, copy);
    return NULL;
}

bool
module_plain_rewired(struct task *me, struct module *self)
{
    (void)me, (void)self;
    return true;
}

static void
holds_nothing(struct task *me, struct module *self)
{
    (void)me, (void)self;
}

const struct module_life module_plain = { module_plain_copy, module_plain_rewired, holds_nothing };
