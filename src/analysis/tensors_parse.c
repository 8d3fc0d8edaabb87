/* What a memory.tensor event says in words: "input 2 = 0.weight: float32 [4, 3] strides [1, 4] requires_grad".
 *
 * Interface: seen_parse, seen_count. */
#include "analysis/tensors_internal.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/dtype.h"

static const char *
read_numbers(const char *at, int64_t out[TENSOR_DIMS], int *count)
{
    *count = 0;
    if (*at != '[')
        return NULL;
    for (at++; *at != ']'; at += strspn(at, ", ")) {
        char *end;
        if (*count == TENSOR_DIMS)
            return NULL;
        out[(*count)++] = strtoll(at, &end, 10);
        if (end == at)
            return NULL;
        at = end;
    }
    return at + 1;
}

static const char *
last_colon(const char *text)
{
    const char *found = NULL;
    for (const char *at = strstr(text, ": "); at != NULL; at = strstr(at + 1, ": "))
        found = at;
    return found;
}

/* No machine has more elements, nor any that lie farther apart. */
static bool
is_possible(int dims, const int64_t *size, const int64_t *stride)
{
    const int64_t most = (int64_t)1 << 44;
    int64_t       count = 1, reach = 0, step;
    for (int i = 0; i < dims; i++) {
        if (size[i] < 0 || size[i] > most || __builtin_mul_overflow(count, size[i] > 0 ? size[i] : 1, &count))
            return false;
        if (stride == NULL)
            continue;
        if (stride[i] < 0 || stride[i] > most || __builtin_mul_overflow(size[i], stride[i], &step) ||
            __builtin_add_overflow(reach, step, &reach))
            return false;
    }
    return count <= most && reach <= most;
}

/* "float32 [4, 3] strides [1, 4] requires_grad" */
static bool
parse_layout(const char *at, struct seen_tensor *out)
{
    char   type[16];
    size_t length = strcspn(at, " ");
    enum dtype dtype;
    int    strides = 0;
    if (length >= sizeof type)
        return false;
    memcpy(type, at, length);
    type[length] = '\0';
    if (!dtype_parse(type, &dtype) || at[length] != ' ')
        return false;
    at = read_numbers(at + length + 1, out->size, &out->dims);
    if (at == NULL)
        return false;
    out->dtype = (int)dtype;
    if (!is_possible(out->dims, out->size, NULL))
        return false;
    row_major_strides(out->dims, out->size, out->stride);
    if (strncmp(at, " strides ", 9) == 0)
        at = read_numbers(at + 9, out->stride, &strides);
    if (at == NULL || (strides != 0 && strides != out->dims) || !is_possible(out->dims, out->size, out->stride))
        return false;
    out->requires_grad = strcmp(at, " requires_grad") == 0;
    out->shaped = true;
    return true;
}

/* A gradient is called by its parameter; what has no name of its own but is one of a kind, by its role. */
static void
take_name(const char *name, size_t length, struct seen_tensor *out)
{
    bool gradient = strcmp(out->role, "gradient") == 0, slot = strcmp(out->role, "slot") == 0;
    snprintf(out->name, sizeof out->name, "%.*s%s", (int)(length < 120 ? length : 120), name,
             gradient ? ".grad" : slot ? ".grad in its bucket" : "");
    if (length == 0)
        out->name[0] = '\0';
    if (length == 0 && strncmp(out->role, "bucket ", 7) == 0)
        snprintf(out->name, sizeof out->name, "%s", out->role);
}

bool
seen_parse(const char *text, struct seen_tensor *out)
{
    *out = (struct seen_tensor){ .version = -1 };
    const char *colon = last_colon(text), *equal = strstr(text, " = ");
    if (colon == NULL)
        return false;
    equal = equal != NULL && equal < colon ? equal : colon;
    size_t role = (size_t)(equal - text);
    snprintf(out->role, sizeof out->role, "%.*s", (int)(role < 47 ? role : 47), text);
    take_name(equal + 3, equal < colon ? (size_t)(colon - equal) - 3 : 0, out);
    return parse_layout(colon + 2, out);
}

int64_t
seen_count(const struct seen_tensor *tensor)
{
    int64_t count = 1;
    for (int i = 0; i < tensor->dims; i++)
        if (__builtin_mul_overflow(count, tensor->size[i], &count))
            return 0;
    return tensor->shaped ? count : 0;
}
