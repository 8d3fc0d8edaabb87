/* Writing safetensors files: the largest element types first, as the reference implementation does, so that all lie
 * aligned; within a type by name.
 *
 * Interface: safetensors_save; safetensors_dtype and its inverse. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include "base/json_text.h"
#include "base/str.h"
#include "base/vec.h"
#include "base/visible.h"
#include "data/safetensors.h"
#include "data/safetensors_dtype.h"
#include "sched/faults.h"
#include "sched/task.h"
#include "tensor/tensor.h"

static const struct { const char *name, *dtype; } types[] = {
    { "F32", "float32" },  { "F64", "float64" },   { "F16", "float16" }, { "BF16", "bfloat16" },
    { "I64", "int64" },    { "I32", "int32" },     { "U8", "uint8" },    { "I8", "int8" },
    { "BOOL", "bool" },
};

bool
safetensors_dtype(const char *name, enum dtype *out)
{
    for (size_t i = 0; i < countof(types); i++)
        if (strcmp(types[i].name, name) == 0)
            return dtype_parse(types[i].dtype, out);
    return false;
}

const char *
safetensors_dtype_name(enum dtype dtype)
{
    for (size_t i = 0; i < countof(types); i++)
        if (strcmp(types[i].dtype, dtype_name(dtype)) == 0)
            return types[i].name;
    return NULL;
}

struct saved_tensor { const char *name; struct tensor *tensor; };

static int
by_type(const void *left, const void *right)
{
    const struct saved_tensor *a = left, *b = right;
    size_t             x = dtype_size(a->tensor->dtype), y = dtype_size(b->tensor->dtype);
    return x != y ? (x > y ? -1 : 1) : strcmp(a->name, b->name);
}

static struct saved_tensor *
sorted_items(struct task *me, const struct safetensors_content *content)
{
    struct saved_tensor *items = calloc(content->count + 1, sizeof *items);
    if (items == NULL)
        return failed_null(me, E_MEMORY, "out of memory while saving");
    for (size_t i = 0; i < content->count; i++)
        items[i] = (struct saved_tensor){ content->names[i], content->tensors[i] };
    qsort(items, content->count, sizeof *items, by_type);
    return items;
}

/* ---- the header ---- */

static bool
is_utf8(const char *text)
{
    uint32_t code = 0;
    size_t   left = strlen(text), step = 1;
    for (; left > 0 && step > 0; text += step, left -= step)
        step = utf8_take(text, left, &code);
    return step > 0;
}

static json_t *
shape_of(const struct tensor *tensor)
{
    json_t *shape = json_array();
    for (int i = 0; i < tensor->dims; i++)
        if (json_array_append_new(shape, json_integer(tensor->size[i])) != 0) {
            json_decref(shape);
            return NULL;
        }
    return shape;
}

static bool
add_item(struct task *me, json_t *header, const struct saved_tensor *item, int64_t *at)
{
    const char *dtype = safetensors_dtype_name(item->tensor->dtype);
    int64_t     begin = *at;
    *at += tensor_bytes(item->tensor);
    if (!is_utf8(item->name))
        return failed(me, E_VALUE, "the name \"%.80s\" is not UTF-8 text", item->name);
    if (dtype == NULL)
        return failed(me, E_DTYPE, "safetensors files have no dtype for %s", dtype_name(item->tensor->dtype));
    if (strcmp(item->name, "__metadata__") == 0)
        return failed(me, E_VALUE, "no tensor of a safetensors file can be called __metadata__");
    json_t *entry = json_pack("{s:s, s:o, s:[I, I]}", "dtype", dtype, "shape", shape_of(item->tensor), "data_offsets",
                              (json_int_t)begin, (json_int_t)*at);
    if (entry == NULL)
        return failed(me, E_MEMORY, "out of memory while saving");
    return json_object_set_new_nocheck(header, item->name, entry) == 0 ||
           failed(me, E_MEMORY, "out of memory while saving");
}

static bool
add_metadata(struct task *me, json_t *header, const struct safetensors_content *content)
{
    if (content->metadata_count == 0)
        return true;
    json_t *metadata = json_object();
    bool    ok       = metadata != NULL, utf8 = true;
    for (size_t i = 0; ok && utf8 && i < content->metadata_count; i++) {
        utf8 = is_utf8(content->keys[i]) && is_utf8(content->texts[i]);
        ok   = utf8 && json_object_set_new_nocheck(metadata, content->keys[i],
                                                   json_string_nocheck(content->texts[i])) == 0;
    }
    if (ok && utf8)
        return json_object_set_new(header, "__metadata__", metadata) == 0 ||
               failed(me, E_MEMORY, "out of memory while saving");
    json_decref(metadata);
    return utf8 ? failed(me, E_MEMORY, "out of memory while saving") : failed(me, E_VALUE, "metadata are UTF-8 texts");
}

/* Padded with blanks, so that the elements begin aligned. */
static bool
add_header(struct task *me, const struct saved_tensor *items, const struct safetensors_content *content,
           struct str *text)
{
    json_t *header = json_object();
    int64_t at     = 0;
    bool    ok     = header != NULL && add_metadata(me, header, content);
    for (size_t i = 0; ok && i < content->count; i++)
        ok = add_item(me, header, &items[i], &at);
    ok = ok && json_text_write(header, text);
    json_decref(header);
    str_add_bytes(text, "       ", -text->len % 8);
    if (task_failed(me))
        return false;
    return (ok && str_ok(text)) || failed(me, E_MEMORY, "out of memory while saving");
}

/* ---- the file ---- */

static bool
write_tensor(struct task *me, FILE *file, struct tensor *tensor)
{
    size_t bytes = (size_t)tensor_bytes(tensor);
    void  *data  = malloc(bytes + 1);
    if (data == NULL)
        return failed(me, E_MEMORY, "out of memory while saving");
    bool read = tensor_read(me, tensor, data), ok = read && fwrite(data, 1, bytes, file) == bytes;
    free(data);
    return ok;
}

/* false without an error of me's: the disk refused. */
static bool
write_all(struct task *me, FILE *file, const struct saved_tensor *items, const struct safetensors_content *content)
{
    struct str    header = { 0 };
    unsigned char bytes[8];
    bool          ok = add_header(me, items, content, &header);
    for (int i = 0; i < 8; i++)
        bytes[i] = (unsigned char)((uint64_t)header.len >> (8 * i));
    ok = ok && fwrite(bytes, 1, 8, file) == 8 && fwrite(header.text, 1, header.len, file) == header.len;
    str_free(&header);
    for (size_t i = 0; ok && i < content->count; i++)
        ok = write_tensor(me, file, items[i].tensor);
    return ok;
}

static bool
write_file(struct task *me, const char *path, const char *beside, const struct saved_tensor *items,
           const struct safetensors_content *content)
{
    FILE *file = fopen(beside, "wb");
    if (file == NULL)
        return failed(me, E_RUNTIME, "%s: %s", path, strerror(errno));
    errno       = 0;
    bool ok     = !fault_fills_disk(me->sched) && write_all(me, file, items, content);
    bool closed = fclose(file) == 0;
    if (ok && closed && rename(beside, path) == 0)
        return true;
    int error = errno;
    unlink(beside);
    return task_failed(me) ? false : failed(me, E_RUNTIME, "%s: %s", path, strerror(error));
}

bool
safetensors_save(struct task *me, const char *path, const struct safetensors_content *content)
{
    struct saved_tensor *items  = sorted_items(me, content);
    struct str           beside = { 0 };
    str_addf(&beside, "%s.part%d", path, me->rank); /* ranks that save at once do not meet in it */
    bool ok = items != NULL && str_ok(&beside);
    if (ok)
        ok = write_file(me, path, str_text(&beside), items, content);
    else if (!task_failed(me))
        failed(me, E_MEMORY, "out of memory while saving");
    str_free(&beside);
    free(items);
    return ok;
}
