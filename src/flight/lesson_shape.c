/* Sizes and types of recorded tensors, as a lesson has them.
 *
 * Interface: lesson_shape, lesson_note_sizes, lesson_size, lesson_dtype. */
#include <stdlib.h>
#include <string.h>
#include "base/vec.h"
#include "flight/lesson_parts.h"

enum { LARGE_NUMEL = 4096, SMALL_SIZE = 8, MOST_TENSORS = 64 };

bool
lesson_shape(const char *sizes, int index, struct lesson_shape *shape)
{
    const char *at = sizes != NULL && *sizes == '[' ? sizes + 1 : "";
    *shape         = (struct lesson_shape){ 0 };
    for (int i = 0; *at != '\0'; i++) {
        at = strchr(at, '[');
        if (at == NULL)
            return false;
        const char *end = at + strcspn(at, "]");
        for (at++; i == index && at < end && shape->dims < LESSON_DIMS;) {
            char *behind = NULL;
            shape->sizes[shape->dims] = strtoll(at, &behind, 10);
            if (behind == at || shape->sizes[shape->dims] < 0)
                return false;
            shape->dims++;
            at = behind + strspn(behind, ", ");
        }
        if (i == index)
            return true;
        at = end;
    }
    return false;
}

static bool
is_large(const struct lesson_shape *shape)
{
    int64_t numel = 1;
    for (int i = 0; i < shape->dims && numel <= LARGE_NUMEL; i++)
        numel = shape->sizes[i] > LARGE_NUMEL ? LARGE_NUMEL + 1 : numel * shape->sizes[i];
    return numel > LARGE_NUMEL;
}

static bool
add_large(struct lesson_plan *plan, int64_t size)
{
    size_t at = 0;
    while (at < plan->large_count && plan->large[at] < size)
        at++;
    if (at < plan->large_count && plan->large[at] == size)
        return true;
    if (!vec_room(&plan->large, &plan->large_room, plan->large_count + 1, sizeof *plan->large))
        return false;
    memmove(plan->large + at + 1, plan->large + at, (plan->large_count - at) * sizeof *plan->large);
    plan->large[at] = size;
    plan->large_count++;
    return true;
}

/* Sizes of other calls, small ones too, move with it once one is large: so that what is equal stays equal. */
bool
lesson_note_sizes(struct lesson_plan *plan, const char *sizes)
{
    struct lesson_shape shape;
    bool                good = true;
    for (int index = 0; good && index < MOST_TENSORS && lesson_shape(sizes, index, &shape); index++)
        for (int i = 0; good && is_large(&shape) && i < shape.dims; i++)
            good = shape.sizes[i] <= SMALL_SIZE || add_large(plan, shape.sizes[i]);
    return good;
}

/* Sizes that no large tensor has stay, unless they were taken for another: those move behind all. */
int64_t
lesson_size(const struct lesson_plan *plan, int64_t size)
{
    for (size_t i = 0; i < plan->large_count; i++)
        if (plan->large[i] == size)
            return SMALL_SIZE + 1 + (int64_t)i;
    bool taken = size > SMALL_SIZE && size <= SMALL_SIZE + (int64_t)plan->large_count;
    return taken ? size + (int64_t)plan->large_count + LARGE_NUMEL : size;
}

const char *
lesson_dtype(const char *dtypes)
{
    static const struct { const char *name, *dtype; } names[] = {
        { "Float", "float32" }, { "Double", "float64" }, { "Half", "float16" }, { "BFloat16", "bfloat16" },
        { "Long", "int64" }, { "Int", "int32" }, { "Short", "int32" }, { "Char", "int8" }, { "Byte", "uint8" },
        { "Bool", "bool" }, { "float32", "float32" }, { "float64", "float64" }, { "float16", "float16" },
        { "bfloat16", "bfloat16" }, { "int64", "int64" }, { "int32", "int32" }, { "int8", "int8" },
        { "uint8", "uint8" }, { "bool", "bool" }, { "ComplexFloat", "float64" }, { "ComplexDouble", "float64" },
    };
    const char *name   = dtypes != NULL ? dtypes + strspn(dtypes, "[") : "";
    size_t      length = strcspn(name, ",]");
    for (size_t i = 0; i < countof(names); i++)
        if (strlen(names[i].name) == length && strncmp(names[i].name, name, length) == 0)
            return names[i].dtype;
    return strncmp(name, "Float8", 6) == 0 ? "uint8" : "float32";
}
