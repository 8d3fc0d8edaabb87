/* Scatter and gather: the batch goes out along dim, the outputs come back: torch.nn.parallel.scatter_gather.
 *
 *     dp_scatter   arguments and keyword arguments, one set per replica (scatter_kwargs)
 *     dp_gather    the replicas' outputs, put together again
 *
 * Tensors are cut wherever they hide in tuples, lists, dicts and namedtuples (functions.h); everything else is the same
 * object for all replicas. */
#include "base/str.h"
#include "parallel/comm.h"
#include "parallel/data_parallel.h"
#include "parallel/functions.h"
#include "sched/stage.h"
#include "tensor/tensor.h"

#include <string.h>

/* How deep containers may lie in each other. */
enum { NESTING = 100 };

/* ---- scatter: through the containers ---- */

struct scattering {
    struct device_list devices;
    int                dim;
};

static int scatter_map(struct task *me, struct scattering *scatter, struct value *value, int depth, struct value **out);

/* Anything but a tensor and a filled container: the same object for each device, not only for those that get rows. */
static int
scatter_shared(struct task *me, struct scattering *scatter, struct value *value, struct value **out)
{
    POINT(me, dp_scatter_shared, scatter->devices.count);
    for (int r = 0; r < scatter->devices.count; r++)
        out[r] = value;
    return scatter->devices.count;
}

/* Pieces of ceil(rows / devices): the last is shorter, and there may be fewer pieces than devices. */
static int
scatter_tensor(struct task *me, struct scattering *scatter, struct tensor *tensor, struct value **out)
{
    struct tensor **chunks = scratch_new(me, (size_t)scatter->devices.count, sizeof *chunks);
    int count = chunks != NULL ? scatter_apply(me, tensor, scatter->devices, scatter->dim, chunks) : 0;
    for (int i = 0; i < count; i++) {
        out[i] = value_tensor(me, chunks[i]);
        if (out[i] == NULL)
            return 0;
    }
    return count;
}

/* Elements are scattered one by one and zipped: the shortest decides, what the others have more is dropped. */
static int
scatter_container(struct task *me, struct scattering *scatter, struct value *value, int depth, struct value **out)
{
    const size_t    room = (size_t)scatter->devices.count;
    struct value  **parts = scratch_new(me, (size_t)value->count * room, sizeof *parts);
    struct value  **items = scratch_new(me, (size_t)value->count, sizeof *items);
    int             shortest = scatter->devices.count;
    if (parts == NULL || items == NULL)
        return 0;
    for (int i = 0; i < value->count; i++) {
        int count = scatter_map(me, scatter, value->items[i], depth + 1, &parts[(size_t)i * room]);
        if (count == 0)
            return 0;
        if (count < shortest)
            shortest = count;
    }
    for (int r = 0; r < shortest; r++) {
        for (int i = 0; i < value->count; i++)
            items[i] = parts[(size_t)i * room + (size_t)r];
        out[r] = value_like(me, value, value->count, items);
        if (out[r] == NULL)
            return 0;
    }
    return shortest;
}

/* Writes what each replica gets; answers for how many there is something. 0: failed. */
static int
scatter_map(struct task *me, struct scattering *scatter, struct value *value, int depth, struct value **out)
{
    if (depth > NESTING)
        return failed(me, E_VALUE, "the containers to scatter lie more than %d deep in each other", NESTING), 0;
    switch (value->kind) {
    case VALUE_TENSOR:
        return scatter_tensor(me, scatter, value->tensor, out);
    case VALUE_TUPLE:
    case VALUE_LIST:
    case VALUE_DICT:
    case VALUE_NAMEDTUPLE:
        return value->count > 0 ? scatter_container(me, scatter, value, depth, out)
                                : scatter_shared(me, scatter, value, out);
    default:
        return scatter_shared(me, scatter, value, out);
    }
}

/* A replica that got nothing from one of the two lists is called without: with an empty tuple, or an empty dict. */
static bool
scatter_pad(struct task *me, enum value_kind kind, int from, int to, struct value **out)
{
    for (int r = from; r < to; r++) {
        out[r] = value_container(me, &(struct value_form){ kind, NULL, NULL }, 0, NULL);
        if (out[r] == NULL)
            return false;
    }
    return true;
}

/* Cuts the batch: one set of arguments per replica. Positional and keyword arguments are scattered
 * apart, then the shorter list is padded. No arguments at all: 0 replicas, and no failure. */
int
dp_scatter(struct task *me, struct call_arguments given, struct device_list devices,
           int dim, struct call_arguments *out)
{
    value_announce(me, given.inputs, "input");
    STAGE(me, dp_scatter, devices.count, dim);
    struct scattering scatter = { devices, dim };
    int args = 0, words = 0;
    if (devices.count < 1)
        return failed(me, E_RUNTIME, "Expected at least one device to scatter to"), 0;
    const size_t   most = (size_t)devices.count;
    struct value **inputs = scratch_new(me, most, sizeof *inputs);
    struct value **kwargs = scratch_new(me, most, sizeof *kwargs);
    if (inputs == NULL || kwargs == NULL)
        return 0;
    if (given.inputs != NULL && given.inputs->count > 0)
        args = scatter_map(me, &scatter, given.inputs, 0, inputs);
    if (!task_failed(me) && given.kwargs != NULL && given.kwargs->count > 0)
        words = scatter_map(me, &scatter, given.kwargs, 0, kwargs);

    int replicas = args > words ? args : words;
    if (task_failed(me) || !scatter_pad(me, VALUE_TUPLE, args, replicas, inputs) ||
        !scatter_pad(me, VALUE_DICT, words, replicas, kwargs))
        return 0;
    for (int r = 0; r < replicas; r++) {
        value_announce(me, inputs[r], "chunk");
        out[r].inputs = hand_up(me, inputs[r]);
        out[r].kwargs = hand_up(me, kwargs[r]);
    }
    stage_set(&stage_, 2, replicas);
    return replicas;
}

/* ---- gather: through the containers ---- */

struct gathering {
    int           device, dim;
    int64_t       moved;  /* bytes that came from other devices */
};

/* Where in replica 0's output it is: element `at` of `container`, which lies in the one above. */
struct gather_place {
    const struct gather_place *above;     /* NULL: the output itself, which lies in no container */
    const struct value        *container;
    int                        at, depth;
};

static struct value *gather_map(struct task *me, struct gathering *gather, struct value *const *outputs, int count,
                                const struct gather_place *place);

static const char *
value_kind_name(enum value_kind kind)
{
    static const char *const names[] = {
        [VALUE_NONE] = "NoneType", [VALUE_TENSOR] = "Tensor", [VALUE_INTEGER] = "int",
        [VALUE_NUMBER] = "float",  [VALUE_BOOL] = "bool",     [VALUE_TEXT] = "str",
        [VALUE_TUPLE] = "tuple",   [VALUE_LIST] = "list",     [VALUE_DICT] = "dict",
        [VALUE_NAMEDTUPLE] = "namedtuple", [VALUE_OBJECT] = "object",
    };
    return names[kind];
}

/* "outputs[2].scale of replica 0", as a lesson would write it: lists count from 1. */
static void
add_place(struct str *out, const struct gather_place *place)
{
    const struct value *container = place->container;
    if (place->above == NULL) {
        str_add(out, "outputs");
        return;
    }
    add_place(out, place->above);
    if (container->kind == VALUE_DICT || container->kind == VALUE_NAMEDTUPLE)
        str_addf(out, ".%s", container->keys[place->at]);
    else
        str_addf(out, "[%d]", place->at + 1);
}

/* What is no tensor and no container of tensors cannot be put together. */
static struct value *
refuse_output(struct task *me, const struct value *output, const struct gather_place *place)
{
    static const char *const told[] = { [VALUE_INTEGER] = "a number", [VALUE_NUMBER] = "a number",
                                        [VALUE_BOOL] = "true or false", [VALUE_TEXT] = "a text" };
    bool        object = output->kind == VALUE_OBJECT && output->type != NULL;
    struct str  where  = { 0 };
    if (place->above != NULL)
        add_place(&where, place);
    else
        str_add(&where, "the output");
    failed(me, E_TYPE, "'%s' object is not iterable: %s of replica 0 is %s%s, but it must be made of tensors",
           object ? output->type : value_kind_name(output->kind), str_ok(&where) ? str_text(&where) : "an output",
           output->kind != VALUE_OBJECT ? "" : object ? "of type " : "an object",
           output->kind != VALUE_OBJECT ? told[output->kind] : object ? output->type : "");
    str_free(&where);
    return NULL;
}

static struct value *
gather_tensors(struct task *me, struct gathering *gather, struct value *const *outputs, int count)
{
    struct tensor **pieces = scratch_new(me, (size_t)count, sizeof *pieces);
    if (pieces == NULL)
        return NULL;
    for (int r = 0; r < count; r++) {
        if (outputs[r]->kind != VALUE_TENSOR)
            return failed_null(me, E_TYPE, "replica 0 gave a tensor, but replica %d a %s: they cannot be gathered", r,
                               value_kind_name(outputs[r]->kind));
        pieces[r] = outputs[r]->tensor;
    }
    gather->moved += comm_bytes_elsewhere(pieces, count, gather->device);
    return value_tensor(me, gather_apply(me, pieces, count, gather->device, gather->dim));
}

/* The element of `dict` with that key; NULL: failed. */
static struct value *
dict_item(struct task *me, const struct value *dict, const char *key)
{
    for (int i = 0; i < dict->count; i++)
        if (strcmp(dict->keys[i], key) == 0)
            return dict->items[i];
    return failed_null(me, E_KEY, "'%s'", key);
}

/* How many elements the result has: as many as each of the replicas gave. -1: failed. (Until PyTorch 2 the shortest
 * sequence decided, and what the others had more was lost without a word.) */
static int
gathered_count(struct task *me, struct value *const *outputs, int count)
{
    bool dict = outputs[0]->kind == VALUE_DICT;
    int  elements = outputs[0]->count;
    for (int r = 1; r < count; r++) {
        enum value_kind kind = outputs[r]->kind;
        bool sequence = kind == VALUE_TUPLE || kind == VALUE_LIST || kind == VALUE_NAMEDTUPLE;
        if (dict ? kind != VALUE_DICT : !sequence) {
            failed(me, E_TYPE, "replica 0 gave a %s, but replica %d a %s: they cannot be gathered",
                   value_kind_name(outputs[0]->kind), r, value_kind_name(kind));
            return -1;
        }
        if (outputs[r]->count == elements)
            continue;
        if (dict)
            failed(me, E_VALUE, "All dicts must have the same number of keys");
        else
            failed(me, E_VALUE, "replica 0 gave a %s of %d, but replica %d one of %d: they cannot be gathered",
                   value_kind_name(outputs[0]->kind), elements, r, outputs[r]->count);
        return -1;
    }
    return elements;
}

static struct value *
gather_container(struct task *me, struct gathering *gather, struct value *const *outputs, int count,
                 const struct gather_place *place)
{
    const struct value *first = outputs[0];
    int elements = gathered_count(me, outputs, count);
    if (elements < 0)
        return NULL;
    struct value **items = scratch_new(me, (size_t)elements, sizeof *items);
    struct value **column = scratch_new(me, (size_t)count, sizeof *column);
    if (items == NULL || column == NULL)
        return NULL;
    for (int i = 0; i < elements; i++) {
        for (int r = 0; r < count; r++) {
            column[r] = first->kind == VALUE_DICT ? dict_item(me, outputs[r], first->keys[i]) : outputs[r]->items[i];
            if (column[r] == NULL)
                return NULL;
        }
        items[i] = gather_map(me, gather, column, count,
                              &(struct gather_place){ place, first, i, place->depth + 1 });
        if (items[i] == NULL)
            return NULL;
    }
    return value_like(me, first, elements, items);
}

/* What replica 0 gave decides what the others must have given. */
static struct value *
gather_map(struct task *me, struct gathering *gather, struct value *const *outputs, int count,
           const struct gather_place *place)
{
    if (place->depth > NESTING)
        return failed_null(me, E_VALUE, "the outputs to gather lie more than %d deep in each other", NESTING);
    switch (outputs[0]->kind) {
    case VALUE_TENSOR:
        return gather_tensors(me, gather, outputs, count);
    case VALUE_NONE:
        return value_none(me);
    case VALUE_TUPLE:
    case VALUE_LIST:
    case VALUE_DICT:
    case VALUE_NAMEDTUPLE:
        return gather_container(me, gather, outputs, count, place);
    default:
        return refuse_output(me, outputs[0], place);
    }
}

/* Puts the replicas' outputs together on one device, in the order of the replicas: tensors are
 * joined along dim, containers element by element. So the loss is computed there, on the whole
 * batch, while the other devices wait. */
struct value *
dp_gather(struct task *me, struct value *const *outputs, int count, int device, int dim)
{
    for (int r = 0; r < count; r++)
        value_announce(me, outputs[r], "part");
    STAGE(me, dp_gather, count, dim, device);
    struct gathering gather = { .device = device, .dim = dim };
    if (count < 1)
        return failed_null(me, E_RUNTIME, "gather needs at least one replica's output");
    if (device != DEVICE_CPU && !device_check(me, device))
        return NULL;

    const struct gather_place top = { 0 };
    struct value *result = gather_map(me, &gather, outputs, count, &top);
    stage_set(&stage_, 3, gather.moved);
    value_announce(me, result, "result");
    return hand_up(me, result);
}
