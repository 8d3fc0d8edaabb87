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
#include "base/str.h"
#include "base/vec.h"
#include "device/cells.h"
#include "device/storage.h"
#include "hw/cost.h"
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
        free(table->entries[i].name);
    }
    free(table->entries);
    *table = (struct module_table){ 0 };
}

/* The last holder takes the hooks with it, which replicas call after the module itself is gone. */
static void
module_let_go(struct task *me, struct module *module)
{
    if (module == NULL || atomic_fetch_sub_explicit(&module->holders, 1, memory_order_acq_rel) != 1)
        return;
    if (module->hooks.context != NULL)
        module->hooks.drop(me, module->hooks.context);
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
    free(module->name);
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
        size_t room = (size_t)table->room;
        char  *copy = strdup(name);
        if (copy == NULL || !vec_room(&table->entries, &room, (size_t)table->count + 1, sizeof *table->entries)) {
            free(copy);
            return module_no_memory(me);
        }
        table->room = (int)room;
        entry = &table->entries[table->count++];
        *entry = (struct module_entry){ .name = copy };
    }
    struct module *old = entry->module;
    entry->module = module_ref(module);
    module_unref(me, old);
    tensor_keep(me, &entry->tensor, tensor);
    return true;
}

static bool
table_copy(struct task *me, struct module_table *to, const struct module_table *from)
{
    for (int i = 0; i < from->count; i++)
        if (!table_set(me, to, from->entries[i].name, from->entries[i].tensor, from->entries[i].module))
            return false;
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

static char *
join_names(const char *prefix, const char *name)
{
    struct str text = { 0 };
    str_addf(&text, "%s%s%s", prefix != NULL ? prefix : "", prefix != NULL && prefix[0] != '\0' ? "." : "", name);
    if (str_ok(&text))
        return text.text;
    str_free(&text);
    return NULL;
}

static bool
tensor_rename(struct task *me, struct tensor *tensor, const char *prefix, const char *name)
{
    char *joined = tensor != NULL ? join_names(prefix, name) : NULL;
    if (tensor == NULL)
        return true;
    if (joined == NULL)
        return module_no_memory(me);
    free(tensor->name);
    tensor->name = joined;
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
collect(struct named_modules *list, struct map *seen, struct module *module, const char *prefix, int depth)
{
    if (map_get(seen, (uintptr_t)module, NULL))
        return true;
    size_t room = (size_t)list->room, names = (size_t)list->room;
    if (depth > DEEPEST || !map_set(seen, (uintptr_t)module, 1) ||
        !vec_room(&list->modules, &room, (size_t)list->count + 1, sizeof *list->modules) ||
        !vec_room(&list->names, &names, (size_t)list->count + 1, sizeof *list->names))
        return false;
    list->room = (int)(room < names ? room : names);
    list->modules[list->count] = module;
    list->names[list->count]   = strdup(prefix);
    if (list->names[list->count] == NULL)
        return false;
    list->count++;
    for (int i = 0; i < module->children.count; i++) {
        struct module_entry *entry = &module->children.entries[i];
        char *name = entry->module != NULL ? join_names(prefix, entry->name) : NULL;
        bool  ok   = entry->module == NULL || (name != NULL && collect(list, seen, entry->module, name, depth + 1));
        free(name);
        if (!ok)
            return false;
    }
    return true;
}

static bool
named_modules_from(struct module *module, const char *prefix, struct named_modules *out)
{
    struct map seen = { 0 };
    *out = (struct named_modules){ 0 };
    bool ok = collect(out, &seen, module, prefix, 0);
    map_free(&seen);
    if (!ok)
        named_modules_free(out);
    return ok;
}

bool
module_named_modules(struct task *me, struct module *module, struct named_modules *out)
{
    *out = (struct named_modules){ 0 };
    if (module == NULL)
        return false;
    return named_modules_from(module, "", out) || too_deep(me);
}

void
named_modules_free(struct named_modules *list)
{
    for (int i = 0; i < list->count; i++)
        free(list->names[i]);
    free(list->names);
    free(list->modules);
    *list = (struct named_modules){ 0 };
}

static bool
named_push(struct named_tensors *list, struct tensor *tensor, char *name)
{
    size_t room = (size_t)list->room, names = (size_t)list->room;
    if (name == NULL || !vec_room(&list->tensors, &room, (size_t)list->count + 1, sizeof *list->tensors) ||
        !vec_room(&list->names, &names, (size_t)list->count + 1, sizeof *list->names)) {
        free(name);
        return false;
    }
    list->room = (int)(room < names ? room : names);
    list->tensors[list->count] = tensor;
    list->names[list->count++] = name;
    return true;
}

/* `former`: of a replica's table, whose tensors are Broadcast's copies and no parameters any more, unless grad mode was
 * off: then replica 0 has the very parameters. */
static bool
push_table(struct named_tensors *out, struct map *seen, const struct module_table *table, const char *prefix,
           bool former)
{
    for (int i = 0; i < table->count; i++) {
        struct tensor *tensor = table->entries[i].tensor;
        if (tensor == NULL || (former && !tensor->is_parameter) ||
            (seen != NULL && map_get(seen, (uintptr_t)tensor, NULL)))
            continue;
        if ((seen != NULL && !map_set(seen, (uintptr_t)tensor, 1)) ||
            !named_push(out, tensor, join_names(prefix, table->entries[i].name)))
            return false;
    }
    return true;
}

static bool
collect_tensors(struct task *me, struct module *module, const char *prefix, bool buffers, struct named_tensors *out)
{
    struct named_modules modules;
    struct map           seen = { 0 };
    *out = (struct named_tensors){ 0 };
    if (module == NULL)
        return false;
    bool ok = named_modules_from(module, prefix, &modules);
    for (int i = 0; ok && i < modules.count; i++) {
        const struct module *at = modules.modules[i];
        ok = push_table(out, &seen, buffers ? &at->buffers : &at->parameters, modules.names[i],
                        at->is_replica && !buffers);
    }
    named_modules_free(&modules);
    if (!ok)
        named_tensors_free(out);
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
state_from(struct named_tensors *out, struct module *module, const char *prefix, int depth)
{
    if (depth > DEEPEST || !push_table(out, NULL, &module->parameters, prefix, module->is_replica) ||
        !push_table(out, NULL, &module->buffers, prefix, false))
        return false;
    for (int i = 0; i < module->children.count; i++) {
        struct module *child = module->children.entries[i].module;
        char          *name = child != NULL ? join_names(prefix, module->children.entries[i].name) : NULL;
        bool           ok = child == NULL || (name != NULL && state_from(out, child, name, depth + 1));
        free(name);
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
    if (state_from(out, module, "", 0))
        return true;
    named_tensors_free(out);
    return too_deep(me);
}

void
named_tensors_free(struct named_tensors *list)
{
    for (int i = 0; i < list->count; i++)
        free(list->names[i]);
    free(list->names);
    free(list->tensors);
    *list = (struct named_tensors){ 0 };
}

/* ---- names ---- */

static bool
rename_tensors(struct task *me, struct module *module, const char *prefix, bool buffers)
{
    struct named_tensors list;
    bool                 ok = collect_tensors(me, module, prefix, buffers, &list);
    for (int i = 0; ok && i < list.count; i++)
        ok = tensor_rename(me, list.tensors[i], NULL, list.names[i]);
    named_tensors_free(&list);
    return ok;
}

bool
module_name_tensors(struct task *me, struct module *module, const char *prefix)
{
    struct named_modules list;
    if (module == NULL || !named_modules_from(module, prefix != NULL ? prefix : "", &list))
        return module == NULL ? false : too_deep(me);
    for (int i = 0; i < list.count; i++) {
        free(list.modules[i]->name);
        list.modules[i]->name = list.names[i];
        atomic_store(&list.modules[i]->name_id, 0);
        list.names[i] = NULL;
    }
    named_modules_free(&list);
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
    named_modules_free(&list);
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
    char *joined = join_names(module->name, name);
    bool  ok     = joined != NULL ? module_name_tensors(me, child, joined) : module_no_memory(me);
    free(joined);
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

static struct value *
forward_with_hooks(struct task *me, struct module *module, struct value *args, struct value *kwargs)
{
    struct module       *owner = module->is_replica && module->original != NULL ? module->original : module;
    struct module_hooks *hooks = &owner->hooks;
    void                *token = NULL;
    if (hooks->context == NULL)
        return module->type->forward(me, module, args, kwargs);
    args = hooks->before(me, hooks->context, module, args, &token);
    struct value *result = args != NULL ? module->type->forward(me, module, args, kwargs) : NULL;
    return result != NULL ? hooks->after(me, hooks->context, module, args, result, token) : NULL;
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
    STAGE(me, module_forward, class_id(me, module), name);
    struct price_cover cover;
    cover_of(me, module, &cover);
    struct price_cover *outer       = price_cover_set(me, &cover);
    const char         *outer_class = task_module(me);
    task_set_module(me, cover.name);
    struct value *result = forward_with_hooks(me, module, args, kwargs);
    task_set_module(me, outer_class);
    price_cover_restore(me, outer);
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
    copy->name = self->name != NULL ? strdup(self->name) : NULL;
    if ((self->name == NULL || copy->name != NULL || module_no_memory(me)) &&
        table_copy(me, &copy->parameters, &self->parameters) && table_copy(me, &copy->buffers, &self->buffers) &&
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
