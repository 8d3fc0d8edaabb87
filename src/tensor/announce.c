/* Which tensors an event is about: a point before it says where they lie, of what shape they are, and what for.
 * Nobody who reads the trace needs to guess it, and nobody is told of it but in `stepped`.
 *
 * Interface: tensor_announce, tensor_announce_named, tensor_announce_numbered, tensor_announce_all,
 * tensor_announce_narrow, tensor_announce_part. */
#include "tensor/tensor.h"
#include <string.h>
#include "base/shape.h"
#include "sched/sched.h"
#include "sched/stage.h"

enum { MOST = 8, TEXT = 400, ROLE = 40, NAME = 200 };

/* number: which of several in that role; -1 the only one. */
struct layout { const char *role, *name; int number, dims; const int64_t *size, *stride; int64_t offset; };

struct words { size_t length; char text[TEXT]; };

static bool
is_announced(const struct task *me, const struct tensor *tensor)
{
    return tensor != NULL && sched_is_stepped(me->sched) && stage_enabled(me, KIND_memory_tensor) &&
           !tensor_is_sparse(tensor) && tensor->storage->number != 0;
}

/* By hand: it is said of every tensor of every stage, and printf would take most of a step's time. */
static void
say(struct words *words, const char *text, size_t most)
{
    for (size_t i = 0; i < most && text[i] != '\0' && words->length < TEXT - 1; i++)
        words->text[words->length++] = text[i];
}

static void
say_number(struct words *words, int64_t number)
{
    char     digits[24];
    size_t   at = sizeof digits - 1;
    uint64_t rest = number < 0 ? 0 - (uint64_t)number : (uint64_t)number;
    digits[at] = '\0';
    do
        digits[--at] = (char)('0' + rest % 10);
    while ((rest /= 10) > 0);
    if (number < 0)
        digits[--at] = '-';
    say(words, digits + at, TEXT);
}

/* "[2, 3]". */
static void
say_numbers(struct words *words, int count, const int64_t *numbers)
{
    say(words, "[", TEXT);
    for (int i = 0; i < count; i++) {
        say(words, i > 0 ? ", " : "", TEXT);
        say_number(words, numbers[i]);
    }
    say(words, "]", TEXT);
}

/* "input 2 = 0.weight: float32 [4, 3] strides [1, 4] requires_grad". */
static void
tensor_announce_layout(struct task *me, const struct tensor *tensor, const struct layout *layout)
{
    struct words words;
    words.length = 0;
    say(&words, layout->role, ROLE);
    if (layout->number >= 0) {
        say(&words, " ", TEXT);
        say_number(&words, layout->number);
    }
    if (layout->name != NULL && layout->name[0] != '\0') {
        say(&words, " = ", TEXT);
        say(&words, layout->name, NAME);
    }
    say(&words, ": ", TEXT);
    say(&words, dtype_name(tensor->dtype), TEXT);
    say(&words, " ", TEXT);
    say_numbers(&words, layout->dims, layout->size);
    if (!is_row_major(layout->dims, layout->size, layout->stride)) {
        say(&words, " strides ", TEXT);
        say_numbers(&words, layout->dims, layout->stride);
    }
    say(&words, tensor->requires_grad ? " requires_grad" : "", TEXT);
    words.text[words.length] = '\0';
    uint32_t departing = me->departing; /* what leaves does so with the stage that comes, not with what is told of it */
    me->departing = 0;
    POINT_ON(me, tensor_device(tensor), memory_tensor, tensor->storage->number, layout->offset,
             tensor_version(tensor), stage_text_id(me, words.text));
    me->departing = departing;
}

static void
announce_one(struct task *me, const struct tensor *tensor, const char *role, int number, const char *name)
{
    const struct layout layout = { role, name, number, tensor->dims, tensor->size, tensor->stride, tensor->offset };
    tensor_announce_layout(me, tensor, &layout);
}

void
tensor_announce_named(struct task *me, const struct tensor *tensor, const char *role, const char *name)
{
    if (is_announced(me, tensor))
        announce_one(me, tensor, role, -1, name);
}

void
tensor_announce(struct task *me, const struct tensor *tensor, const char *role)
{
    tensor_announce_named(me, tensor, role, tensor != NULL ? tensor->name : NULL);
}

void
tensor_announce_numbered(struct task *me, const struct tensor *tensor, const char *role, int number)
{
    if (is_announced(me, tensor))
        announce_one(me, tensor, role, number, tensor->name);
}

void
tensor_announce_all(struct task *me, struct tensor *const *tensors, int count, const char *role)
{
    for (int i = 0; i < count && i < MOST && sched_is_stepped(me->sched); i++)
        tensor_announce_numbered(me, tensors[i], role, count > 1 ? i : -1);
}

void
tensor_announce_part(struct task *me, const struct tensor *tensor, int64_t first, int64_t count, const char *role)
{
    const int64_t stride = 1;
    if (!is_announced(me, tensor))
        return;
    const struct layout layout = { role, tensor->name, -1, 1, &count, &stride, tensor->offset + first };
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
    const struct layout layout = { role, tensor->name, -1, tensor->dims, size, tensor->stride,
                                   tensor->offset + start * tensor->stride[dim] };
    tensor_announce_layout(me, tensor, &layout);
}
