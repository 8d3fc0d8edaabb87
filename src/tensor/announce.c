/* Which tensors an event is about: a point before it says where they lie, of what shape they are, and what for.
 * Nobody who reads the trace needs to guess it, and nobody is told of it but in `stepped`.
 *
 * Interface: tensor_announce, tensor_announce_named, tensor_announce_all,
 * tensor_announce_narrow, tensor_announce_part. */
#include "tensor/tensor.h"
#include <stdio.h>
#include <string.h>
#include "base/shape.h"
#include "sched/sched.h"
#include "sched/stage.h"

enum { MOST = 8, TEXT = 400 };

struct layout { const char *role, *name; int dims; const int64_t *size, *stride; int64_t offset; };

static bool
is_announced(const struct task *me, const struct tensor *tensor)
{
    return tensor != NULL && sched_is_stepped(me->sched) && stage_enabled(me, KIND_memory_tensor) &&
           !tensor_is_sparse(tensor) && tensor->storage->number != 0;
}

/* "[2, 3]" behind what is there. */
static int
print_numbers(char *text, int at, int count, const int64_t *numbers)
{
    at += snprintf(text + at, (size_t)(TEXT - at), "[");
    for (int i = 0; i < count && at < TEXT; i++)
        at += snprintf(text + at, (size_t)(TEXT - at), i > 0 ? ", %lld" : "%lld", (long long)numbers[i]);
    at += at < TEXT ? snprintf(text + at, (size_t)(TEXT - at), "]") : 0;
    return at < TEXT ? at : TEXT - 1;
}

/* "input 2 = 0.weight: float32 [4, 3] strides [1, 4] requires_grad". */
static void
tensor_announce_layout(struct task *me, const struct tensor *tensor, const struct layout *layout)
{
    char text[TEXT];
    bool named = layout->name != NULL && layout->name[0] != '\0';
    int  at = snprintf(text, TEXT, "%.40s%s%.200s: %s ", layout->role, named ? " = " : "", named ? layout->name : "",
                       dtype_name(tensor->dtype));
    at = print_numbers(text, at, layout->dims, layout->size);
    if (!is_row_major(layout->dims, layout->size, layout->stride)) {
        at += snprintf(text + at, (size_t)(TEXT - at), " strides ");
        at = print_numbers(text, at < TEXT ? at : TEXT - 1, layout->dims, layout->stride);
    }
    snprintf(text + at, (size_t)(TEXT - at), "%s", tensor->requires_grad ? " requires_grad" : "");
    uint32_t departing = me->departing; /* what leaves does so with the stage that comes, not with what is told of it */
    me->departing = 0;
    POINT_ON(me, tensor_device(tensor), memory_tensor, tensor->storage->number, layout->offset,
             tensor_version(tensor), stage_text_id(me, text));
    me->departing = departing;
}

void
tensor_announce_named(struct task *me, const struct tensor *tensor, const char *role, const char *name)
{
    if (!is_announced(me, tensor))
        return;
    const struct layout layout = { role, name, tensor->dims, tensor->size, tensor->stride, tensor->offset };
    tensor_announce_layout(me, tensor, &layout);
}

void
tensor_announce(struct task *me, const struct tensor *tensor, const char *role)
{
    tensor_announce_named(me, tensor, role, tensor != NULL ? tensor->name : NULL);
}

void
tensor_announce_all(struct task *me, struct tensor *const *tensors, int count, const char *role)
{
    if (!sched_is_stepped(me->sched))
        return;
    for (int i = 0; i < count && i < MOST; i++) {
        char numbered[48];
        snprintf(numbered, sizeof numbered, "%.36s %d", role, i);
        tensor_announce(me, tensors[i], count > 1 ? numbered : role);
    }
}

void
tensor_announce_part(struct task *me, const struct tensor *tensor, int64_t first, int64_t count, const char *role)
{
    const int64_t stride = 1;
    if (!is_announced(me, tensor))
        return;
    const struct layout layout = { role, tensor->name, 1, &count, &stride, tensor->offset + first };
    tensor_announce_layout(me, tensor, &layout);
}

void
tensor_announce_narrow(struct task *me, const struct tensor *tensor, int dim, int64_t start, int64_t length,
                       const char *role)
{
    int64_t size[TENSOR_DIMS];
    if (!is_announced(me, tensor))
        return;
    memcpy(size, tensor->size, sizeof size);
    size[dim] = length;
    const struct layout layout = { role, tensor->name, tensor->dims, size, tensor->stride,
                                   tensor->offset + start * tensor->stride[dim] };
    tensor_announce_layout(me, tensor, &layout);
}
