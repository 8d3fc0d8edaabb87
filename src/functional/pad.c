/* torch.nn.functional.pad: rows put before and behind those of a dimension. */
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include "autograd/call.h"
#include "functional/functional.h"
#include "sched/sched.h"

bool
pad_mode_parse(struct task *me, const char *name, enum pad_mode *out)
{
    static const char *const names[] = { [PAD_CONSTANT] = "constant", [PAD_REFLECT] = "reflect",
                                         [PAD_REPLICATE] = "replicate", [PAD_CIRCULAR] = "circular" };
    for (int i = 0; i < 4; i++)
        if (strcmp(name, names[i]) == 0) {
            *out = (enum pad_mode)i;
            return true;
        }
    return failed(me, E_NOT_IMPLEMENTED, "Unrecognised padding mode %s", name);
}

static struct tensor *
constant_rows(struct task *me, const struct tensor *x, int dim, int64_t rows, double value)
{
    int64_t sizes[TENSOR_DIMS];
    memcpy(sizes, x->size, sizeof sizes);
    sizes[dim]           = rows;
    struct tensor *plain = tensor_empty(me, x->dtype, tensor_device(x), x->dims, sizes);
    return plain != NULL && tensor_fill(me, plain, value) ? plain : NULL;
}

/* Negative counts take rows away. */
static struct tensor *
constant_padded(struct task *me, struct tensor *x, int dim, const struct padding *padding)
{
    int64_t before = padding->before, behind = padding->behind, rows = x->size[dim];
    int64_t first = before < 0 ? before : 0, last = behind < 0 ? behind : 0;
    if (first < -rows || last < -rows - first)
        return failed_null(me, E_RUNTIME, "pad: %lld rows cannot lose %lld and %lld", (long long)rows,
                           (long long)before, (long long)behind);
    int64_t        cut = -first, left = rows + first + last;
    struct tensor *parts[3];
    int            count = 0;
    if (before > 0)
        parts[count++] = constant_rows(me, x, dim, before, padding->value);
    parts[count++] = left < x->size[dim] ? tensor_narrow(me, x, dim, cut, left) : x;
    if (behind > 0)
        parts[count++] = constant_rows(me, x, dim, behind, padding->value);
    for (int i = 0; i < count; i++)
        if (parts[i] == NULL)
            return NULL;
    return count > 1 ? tensor_cat(me, parts, count, dim) : parts[0];
}

/* The row of x that stands at place `at` of the padded one, counted from x's first. */
static int64_t
row_at(int64_t at, int64_t rows, enum pad_mode mode)
{
    if (mode == PAD_CIRCULAR)
        return ((at % rows) + rows) % rows;
    if (mode == PAD_REPLICATE)
        return at < 0 ? 0 : at >= rows ? rows - 1 : at;
    return at < 0 ? -at : at >= rows ? 2 * (rows - 1) - at : at;
}

struct tensor *
pad_along(struct task *me, struct tensor *x, int dim, const struct padding *padding)
{
    int64_t       before = padding->before, behind = padding->behind;
    enum pad_mode mode = padding->mode;
    if (x == NULL || (before == 0 && behind == 0))
        return x;
    if (mode == PAD_CONSTANT)
        return constant_padded(me, x, dim, padding);
    int64_t rows = x->size[dim], most = mode == PAD_REFLECT ? rows - 1 : mode == PAD_CIRCULAR ? rows : INT64_MAX;
    if (before < 0 || behind < 0 || before > most || behind > most || rows < 1)
        return failed_null(me, E_RUNTIME, "Padding size should be less than %s the corresponding input dimension, but "
                                          "got: padding (%lld, %lld) at dimension %d of size %lld",
                           mode == PAD_CIRCULAR ? "or equal to" : "that of", (long long)before, (long long)behind, dim,
                           (long long)rows);
    int64_t count = 0;
    if (__builtin_add_overflow(before, rows, &count) || __builtin_add_overflow(count, behind, &count))
        count = INT64_MAX;
    int64_t *places = scratch_new(me, (size_t)count, sizeof *places);
    if (places == NULL)
        return NULL;
    for (int64_t i = 0; i < count; i++)
        places[i] = row_at(i - before, rows, mode);
    struct tensor *host = tensor_from(me, DTYPE_I64, 1, &count, places);
    struct tensor *index = host != NULL ? tensor_to(me, host, tensor_device(x), DTYPE_I64) : NULL;
    return index != NULL ? tensor_index_select(me, OP_index_select, x, dim, index) : NULL;
}
