/* Reading safetensors files. The layout: u64 length of the header, little-endian; the header, a JSON object of
 * {"name": {"dtype": "F32", "shape": [2, 3], "data_offsets": [begin, end]}}, texts in "__metadata__"; then the
 * elements, without gaps, row-major and little-endian.
 *
 * Interface: safetensors_open, safetensors_count, safetensors_name, safetensors_tensor, safetensors_close. In Rust:
 * safetensors/src/tensor.rs (huggingface). */
#include "data/safetensors.h"
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include "base/json_text.h"
#include "base/reader.h"
#include "data/safetensors_dtype.h"
#include "sched/task.h"
#include "tensor/tensor.h"

enum { HEADER_MOST = 100000000 };

struct entry {
    const char *name;                /* the header's */
    enum dtype  dtype;
    int         dims;
    int64_t     size[TENSOR_DIMS];
    uint64_t    begin, end;
};

struct safetensors {
    FILE         *file;
    char         *path;
    json_t       *header;
    struct entry *entries;           /* by place in the file */
    size_t        count;
    uint64_t      data_at, data_bytes;
};

void
safetensors_close(struct safetensors *file)
{
    if (file == NULL)
        return;
    if (file->file != NULL)
        fclose(file->file);
    json_decref(file->header);
    free(file->entries);
    free(file->path);
    free(file);
}

/* ---- the header ---- */

/* A tensor's name is the file's: it makes no second line of a message. */
static void
in_one_line(const char *name, char out[81])
{
    snprintf(out, 81, "%s", name);
    for (char *c = out; *c != '\0'; c++)
        if ((unsigned char)*c < 0x20 || *c == 0x7f)
            *c = '?';
}

static bool
safetensors_refuse(struct task *me, const struct safetensors *file, const char *why, const char *name)
{
    char shown[81];
    if (name == NULL)
        return failed(me, E_VALUE, "%s: not a safetensors file: %s", file->path, why);
    in_one_line(name, shown);
    return failed(me, E_VALUE, "%s: tensor \"%s\": %s", file->path, shown, why);
}

static bool
read_length(struct task *me, struct safetensors *file, uint64_t *header)
{
    unsigned char bytes[8];
    if (fseeko(file->file, 0, SEEK_END) != 0)
        return safetensors_refuse(me, file, "it is no plain file", NULL);
    off_t whole = ftello(file->file);
    rewind(file->file);
    if (whole < 8 || fread(bytes, 1, 8, file->file) != 8)
        return safetensors_refuse(me, file, "it is too short for a header", NULL);
    struct reader reader = reader_of(bytes, sizeof bytes);
    *header              = read_u64(&reader);
    if (*header > HEADER_MOST || *header > (uint64_t)whole - 8)
        return safetensors_refuse(me, file, "the header's length is more than there is", NULL);
    file->data_at    = 8 + *header;
    file->data_bytes = (uint64_t)whole - file->data_at;
    return true;
}

static bool
read_header(struct task *me, struct safetensors *file)
{
    uint64_t          length = 0;
    struct json_wrong wrong;
    if (!read_length(me, file, &length))
        return false;
    char *text = malloc((size_t)length + 1);
    if (text == NULL)
        return failed(me, E_MEMORY, "out of memory while reading %s", file->path);
    bool whole = fread(text, 1, (size_t)length, file->file) == length;
    if (whole)
        file->header = json_text_parse(text, (size_t)length, JSON_REJECT_DUPLICATES, &wrong);
    free(text);
    if (!whole)
        return safetensors_refuse(me, file, "it ends within the header", NULL);
    if (file->header == NULL && wrong.why == NULL)
        return failed(me, E_MEMORY, "out of memory while reading %s", file->path);
    return json_is_object(file->header) ||
           safetensors_refuse(me, file, file->header == NULL ? wrong.why : "the header is no object", NULL);
}

/* The shape's elements; false: no such shape. */
static bool
take_shape(const json_t *shape, struct entry *entry, uint64_t *count)
{
    *count = 1;
    if (!json_is_array(shape) || json_array_size(shape) > TENSOR_DIMS)
        return false;
    entry->dims = (int)json_array_size(shape);
    for (int i = 0; i < entry->dims; i++) {
        const json_t *size = json_array_get(shape, (size_t)i);
        if (!json_is_integer(size) || json_integer_value(size) < 0)
            return false;
        entry->size[i] = json_integer_value(size);
        if (__builtin_mul_overflow(*count, (uint64_t)entry->size[i], count) || *count > (uint64_t)1 << 48)
            return false;
    }
    return true;
}

static bool
take_offsets(const json_t *offsets, struct entry *entry)
{
    if (!json_is_array(offsets) || json_array_size(offsets) != 2)
        return false;
    const json_t *begin = json_array_get(offsets, 0), *end = json_array_get(offsets, 1);
    if (!json_is_integer(begin) || !json_is_integer(end) || json_integer_value(begin) < 0 ||
        json_integer_value(end) < json_integer_value(begin))
        return false;
    entry->begin = (uint64_t)json_integer_value(begin);
    entry->end   = (uint64_t)json_integer_value(end);
    return true;
}

static bool
take_entry(struct task *me, struct safetensors *file, const char *name, const json_t *value)
{
    struct entry *entry = &file->entries[file->count];
    const char   *dtype = json_string_value(json_object_get(value, "dtype"));
    uint64_t      count = 0;
    *entry = (struct entry){ .name = name };
    if (dtype == NULL || !safetensors_dtype(dtype, &entry->dtype))
        return safetensors_refuse(me, file, "its dtype is not one that there is here", name);
    if (!take_shape(json_object_get(value, "shape"), entry, &count))
        return safetensors_refuse(me, file, "its shape is not one that can be", name);
    if (!take_offsets(json_object_get(value, "data_offsets"), entry) || entry->end > file->data_bytes)
        return safetensors_refuse(me, file, "its data_offsets lie outside the file", name);
    if (entry->end - entry->begin != count * dtype_size(entry->dtype))
        return safetensors_refuse(me, file, "its data_offsets do not fit its shape", name);
    file->count++;
    return true;
}

static int
by_place(const void *left, const void *right)
{
    const struct entry *a = left, *b = right;
    if (a->begin != b->begin)
        return a->begin < b->begin ? -1 : 1;
    return a->end != b->end ? (a->end < b->end ? -1 : 1) : strcmp(a->name, b->name);
}

/* No gaps, no overlaps: no byte can mean two things, or none. */
static bool
covers_all(const struct safetensors *file)
{
    uint64_t at = 0;
    for (size_t i = 0; i < file->count; i++) {
        if (file->entries[i].begin != at)
            return false;
        at = file->entries[i].end;
    }
    return at == file->data_bytes;
}

static bool
texts_only(const json_t *metadata)
{
    const char *key;
    json_t     *text;
    if (!json_is_object(metadata))
        return false;
    json_object_foreach ((json_t *)metadata, key, text)
        if (!json_is_string(text))
            return false;
    return true;
}

static bool
take_entries(struct task *me, struct safetensors *file)
{
    const char *name;
    json_t     *value;
    file->entries = calloc(json_object_size(file->header) + 1, sizeof *file->entries);
    if (file->entries == NULL)
        return failed(me, E_MEMORY, "out of memory while reading %s", file->path);
    json_object_foreach (file->header, name, value) {
        if (strcmp(name, "__metadata__") != 0 && !take_entry(me, file, name, value))
            return false;
        if (strcmp(name, "__metadata__") == 0 && !texts_only(value))
            return safetensors_refuse(me, file, "its metadata are not texts", NULL);
    }
    qsort(file->entries, file->count, sizeof *file->entries, by_place);
    return covers_all(file) || safetensors_refuse(me, file, "the tensors overlap or leave gaps", NULL);
}

static FILE *
open_stream(struct task *me, const char *path)
{
    const char *why    = NULL;
    int         fd     = file_open(path, &why);
    FILE       *stream = fd >= 0 ? fdopen(fd, "rb") : NULL;
    if (fd < 0)
        return failed_null(me, E_RUNTIME, "%s: %s", path, why);
    if (stream != NULL)
        return stream;
    close(fd);
    return failed_null(me, E_MEMORY, "out of memory while reading %s", path);
}

struct safetensors *
safetensors_open(struct task *me, const char *path)
{
    struct safetensors *file = calloc(1, sizeof *file);
    if (file != NULL)
        file->path = strdup(path);
    if (file == NULL || file->path == NULL) {
        safetensors_close(file);
        return failed_null(me, E_MEMORY, "out of memory while reading %s", path);
    }
    file->file = open_stream(me, path);
    if (file->file != NULL && read_header(me, file) && take_entries(me, file))
        return file;
    safetensors_close(file);
    return NULL;
}

/* ---- its content ---- */

size_t
safetensors_count(const struct safetensors *file)
{
    return file->count;
}

const char *
safetensors_name(const struct safetensors *file, size_t index)
{
    return file->entries[index].name;
}

struct tensor *
safetensors_tensor(struct task *me, struct safetensors *file, size_t index)
{
    const struct entry *entry = &file->entries[index];
    size_t              bytes = (size_t)(entry->end - entry->begin);
    unsigned char      *data  = malloc(bytes + 1);
    struct tensor      *made  = NULL;
    if (data == NULL)
        return failed_null(me, E_MEMORY, "out of memory while reading %s", file->path);
    if (fseeko(file->file, (off_t)(file->data_at + entry->begin), SEEK_SET) != 0 ||
        fread(data, 1, bytes, file->file) != bytes) {
        safetensors_refuse(me, file, "the file ends within it", entry->name);
    } else {
        for (size_t i = 0; entry->dtype == DTYPE_BOOL && i < bytes; i++)
            data[i] = data[i] != 0;
        made = tensor_from(me, entry->dtype, entry->dims, entry->size, data);
    }
    free(data);
    return made;
}

size_t
safetensors_metadata(const struct safetensors *file, size_t index, const char **key, const char **text)
{
    json_t *metadata = json_object_get(file->header, "__metadata__");
    void   *at       = json_object_iter(metadata);
    for (size_t i = 0; i < index && at != NULL; i++)
        at = json_object_iter_next(metadata, at);
    if (at != NULL) {
        *key  = json_object_iter_key(at);
        *text = json_string_value(json_object_iter_value(at));
    }
    return json_object_size(metadata);
}
