/* Values: what a forward takes and gives. A value is never changed after it was made, so replicas may share one.
 * In Python these are just objects; torch.nn.parallel.scatter_gather tells them apart by type as we do by kind. */
#include "nn/value.h"
#include "device/cells.h"
#include "device/device.h"
#include "nn/name.h"
#include "sched/count.h"
#include "sched/sched.h"
#include "sched/stage.h"
#include "tensor/tensor.h"

static void
value_free(struct task *me, struct value *value)
{
    for (int i = 0; i < value->count; i++) {
        if (value->items != NULL)
            value_unref(me, value->items[i]);
        if (value->keys != NULL)
            name_unref(me, value->keys[i]);
    }
    if (value->drop_object != NULL)
        value->drop_object(me, value->object);
    tensor_unref(me, value->tensor);
    host_return(me, value->items, ((size_t)value->count + 1) * sizeof *value->items);
    host_return(me, value->keys, ((size_t)value->count + 1) * sizeof *value->keys);
    name_unref(me, value->text);
    host_return(me, value, sizeof *value);
}

static void
drop_value(struct task *me, void *value)
{
    value_unref(me, value);
}

/* One reference, not yet anybody's. */
static struct value *
value_new(struct task *me, enum value_kind kind)
{
    struct value *value = host_take(me, sizeof *value);
    if (value == NULL)
        return NULL;
    value->references = 1;
    value->kind       = kind;
    return value;
}

struct value *
value_none(struct task *me)
{
    return born(me, value_new(me, VALUE_NONE), drop_value);
}

struct value *
value_tensor(struct task *me, struct tensor *tensor)
{
    struct value *value = tensor != NULL ? value_new(me, VALUE_TENSOR) : NULL;
    if (value != NULL)
        value->tensor = tensor_ref(tensor);
    return born(me, value, drop_value);
}

struct value *
value_integer(struct task *me, int64_t integer)
{
    struct value *value = value_new(me, VALUE_INTEGER);
    if (value != NULL)
        value->integer = integer;
    return born(me, value, drop_value);
}

struct value *
value_number(struct task *me, double number)
{
    struct value *value = value_new(me, VALUE_NUMBER);
    if (value != NULL)
        value->number = number;
    return born(me, value, drop_value);
}

struct value *
value_bool(struct task *me, bool flag)
{
    struct value *value = value_new(me, VALUE_BOOL);
    if (value != NULL)
        value->integer = flag;
    return born(me, value, drop_value);
}

struct value *
value_text(struct task *me, const char *text)
{
    struct value *value = value_new(me, VALUE_TEXT);
    if (value != NULL && (value->text = name_new(me, text)) == NULL) {
        value_free(me, value);
        return NULL;
    }
    return born(me, value, drop_value);
}

static bool
fill_container(struct task *me, struct value *value, int count, struct value *const *items, const char *const *keys)
{
    value->count = count;
    value->items = host_take(me, ((size_t)count + 1) * sizeof *value->items);
    value->keys  = keys != NULL ? host_take(me, ((size_t)count + 1) * sizeof *value->keys) : NULL;
    if (value->items == NULL || (keys != NULL && value->keys == NULL))
        return failed(me, E_MEMORY, "out of memory");
    for (int i = 0; i < count; i++) {
        if (items[i] == NULL)
            return false;
        value->items[i] = value_ref(me, items[i]);
        if (keys != NULL && (value->keys[i] = name_new(me, keys[i])) == NULL)
            return false;
    }
    return true;
}

struct value *
value_container(struct task *me, const struct value_form *form, int count, struct value *const *items)
{
    struct value *value = value_new(me, form->kind);
    if (value == NULL)
        return NULL;
    if ((form->name != NULL && (value->text = name_new(me, form->name)) == NULL) ||
        !fill_container(me, value, count, items, form->keys)) {
        value_free(me, value);
        return NULL;
    }
    return born(me, value, drop_value);
}

struct value *
value_tuple(struct task *me, int count, struct value *const *items)
{
    return value_container(me, &(const struct value_form){ .kind = VALUE_TUPLE }, count, items);
}

struct value *
value_like(struct task *me, const struct value *like, int count, struct value *const *items)
{
    const struct value_form form = { like->kind, (const char *const *)like->keys, like->text };
    struct value *value = value_container(me, &form, count, items);
    if (value != NULL)
        value->whole = like->whole;
    return value;
}

struct value *
value_object(struct task *me, void *object, const char *type, void (*drop)(struct task *me, void *object))
{
    struct value *value = value_new(me, VALUE_OBJECT);
    if (value == NULL) {
        if (drop != NULL)
            drop(me, object);
        return NULL;
    }
    value->object      = object;
    value->type        = type;
    value->drop_object = drop;
    return born(me, value, drop_value);
}

struct value *
value_ref(struct task *me, struct value *value)
{
    if (value != NULL)
        count_up(me->sched, &value->references);
    return value;
}

void
value_unref(struct task *me, struct value *value)
{
    if (value != NULL && count_down(me->sched, &value->references))
        value_free(me, value);
}

void
value_keep(struct task *me, struct value **field, struct value *value)
{
    struct value *old = *field;
    *field = value_ref(me, value);
    value_unref(me, old);
}

static bool
stop_at_first(void *context, struct tensor *tensor)
{
    *(struct tensor **)context = tensor;
    return false;
}

struct tensor *
value_first_tensor(const struct value *value)
{
    struct tensor *first = NULL;
    value_each_tensor(value, stop_at_first, &first);
    return first;
}

bool
value_each_tensor(const struct value *value, bool (*visit)(void *context, struct tensor *tensor), void *context)
{
    if (value == NULL)
        return true;
    if (value->kind == VALUE_TENSOR)
        return visit(context, value->tensor);
    for (int i = 0; i < value->count; i++)
        if (!value_each_tensor(value->items[i], visit, context))
            return false;
    return true;
}

struct value *
value_map(struct task *me, struct value *value,
          struct tensor *(*map)(struct task *me, void *context, struct tensor *tensor), void *context)
{
    if (value == NULL)
        return NULL;
    if (value->kind == VALUE_TENSOR) {
        struct tensor *tensor = map(me, context, value->tensor);
        return tensor == value->tensor ? value : value_tensor(me, tensor);
    }
    if (value->count == 0 || value->kind == VALUE_OBJECT)
        return value;
    struct value **items = scratch_new(me, (size_t)value->count, sizeof *items);
    for (int i = 0; items != NULL && i < value->count; i++)
        if ((items[i] = value_map(me, value->items[i], map, context)) == NULL)
            return NULL;
    return items != NULL ? value_like(me, value, value->count, items) : NULL;
}

/* ---- the trace is told ---- */

struct announcing { struct task *me; const char *role; int left; };

static bool
announce_one(void *context, struct tensor *tensor)
{
    struct announcing *announcing = context;
    tensor_announce(announcing->me, tensor, announcing->role);
    return --announcing->left > 0;
}

void
value_announce(struct task *me, const struct value *value, const char *role)
{
    struct announcing announcing = { me, role, 4 };
    if (value != NULL && sched_is_stepped(me->sched) && stage_enabled(me, KIND_memory_tensor))
        value_each_tensor(value, announce_one, &announcing);
}
