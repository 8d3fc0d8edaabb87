/* Tensors in PyTorch's print layout: numbers share a width and, if one needs it, scientific notation; rows stand under
 * each other; of more than 1000 elements three at each end are shown. tensor_print reads memory as it is and waits for
 * nobody; tensor_show is the host that reads.
 * In PyTorch: torch/_tensor_str.py. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "base/str.h"
#include "tensor/cpu/convert.h"
#include "device/real.h"
#include "tensor/internal.h"

enum { LINE_WIDTH = 80, EDGE = 3, SUMMARY = 1000, NUMBER_ROOM = 64 };

/* What the elements that are shown have in common. */
struct format {
    const struct tensor *tensor;
    bool   summarize, whole, scientific;
    double least, most;      /* of the finite ones that are not 0, without sign */
    int    width;
    bool   some;             /* there are such */
};

typedef void visit_element(struct format *format, const char *at);

static const char *
element_at(const struct format *format, int64_t offset)
{
    return mirror_data(format->tensor->storage) + offset * (int64_t)dtype_size(format->tensor->dtype);
}

static double
fraction_at(const struct format *format, const char *at)
{
    double value = 0;
    cpu_convert_one(&value, DTYPE_F64, at, format->tensor->dtype);
    return value;
}

/* The i-th index shown of a dimension, or -1 for the dots between the ends. Answers how many there are. */
static int64_t
shown(const struct format *format, int dim)
{
    int64_t size = format->tensor->size[dim];
    return format->summarize && size > 2 * EDGE ? 2 * EDGE + 1 : size;
}

static int64_t
shown_index(const struct format *format, int dim, int64_t i)
{
    int64_t size = format->tensor->size[dim];
    if (!format->summarize || size <= 2 * EDGE || i < EDGE)
        return i;
    return i == EDGE ? -1 : size - 2 * EDGE - 1 + i;
}

static void
visit_shown(struct format *format, int dim, int64_t offset, visit_element *visit)
{
    if (dim == format->tensor->dims) {
        visit(format, element_at(format, offset));
        return;
    }
    for (int64_t i = 0, count = shown(format, dim); i < count; i++) {
        int64_t index = shown_index(format, dim, i);
        if (index >= 0)
            visit_shown(format, dim + 1, offset + index * format->tensor->stride[dim], visit);
    }
}

static void
look_at_value(struct format *format, const char *at)
{
    double value = fabs(fraction_at(format, at));
    if (value == 0 || !(value <= 0x1.fffffffffffffp1023))
        return;
    format->whole = format->whole && ceil(value) == value;
    format->least = !format->some || value < format->least ? value : format->least;
    format->most  = !format->some || value > format->most ? value : format->most;
    format->some  = true;
}

/* Writes one number without padding; answers its length. */
static int
number_text(const struct format *format, const char *at, char text[NUMBER_ROOM])
{
    if (format->tensor->dtype == DTYPE_BOOL)
        return snprintf(text, NUMBER_ROOM, "%s", *at != 0 ? "True" : "False");
    if (!dtype_is_float(format->tensor->dtype))
        return snprintf(text, NUMBER_ROOM, "%lld", (long long)dtype_whole(format->tensor->dtype, at));
    double value = fraction_at(format, at);
    if (value != value)
        return snprintf(text, NUMBER_ROOM, "nan");
    if (value - value != 0)
        return snprintf(text, NUMBER_ROOM, value > 0 ? "inf" : "-inf");
    if (format->scientific)
        return snprintf(text, NUMBER_ROOM, "%.4e", value);
    return snprintf(text, NUMBER_ROOM, format->whole ? "%.0f." : "%.4f", value);
}

static void
look_at_width(struct format *format, const char *at)
{
    char text[NUMBER_ROOM];
    if (dtype_is_float(format->tensor->dtype)) {
        double value = fraction_at(format, at);
        if (value == 0 || value - value != 0)
            return;
    }
    int width = number_text(format, at, text);
    format->width = width > format->width ? width : format->width;
}

static void
choose_format(struct format *format)
{
    format->whole = true;
    format->width = 1;
    if (dtype_is_float(format->tensor->dtype)) {
        visit_shown(format, 0, format->tensor->offset, look_at_value);
        if (format->some)
            format->scientific = format->most / format->least > 1000 || format->most > 1e8 ||
                                 (!format->whole && format->least < 1e-4);
    }
    visit_shown(format, 0, format->tensor->offset, look_at_width);
}

static void
print_number(const struct format *format, int64_t offset, struct str *out)
{
    char text[NUMBER_ROOM];
    number_text(format, element_at(format, offset), text);
    str_addf(out, "%*s", format->width, text);
}

/* The innermost dimension: as many numbers to a line as fit. */
static void
print_row(const struct format *format, int dim, int64_t offset, int indent, struct str *out)
{
    int     room = (LINE_WIDTH - indent) / (format->width + 2);
    int64_t per_line = room < 1 ? 1 : room;
    str_add(out, "[");
    for (int64_t i = 0, count = shown(format, dim); i < count; i++) {
        int64_t index = shown_index(format, dim, i);
        if (i > 0 && i % per_line == 0)
            str_addf(out, ",\n%*s", indent + 1, "");
        else if (i > 0)
            str_add(out, ", ");
        if (index < 0)
            str_add(out, " ...");
        else
            print_number(format, offset + index * format->tensor->stride[dim], out);
    }
    str_add(out, "]");
}

static void
print_dim(const struct format *format, int dim, int64_t offset, int indent, struct str *out)
{
    int left = format->tensor->dims - dim;
    if (left == 0) {
        print_number(format, offset, out);
        return;
    }
    if (left == 1) {
        print_row(format, dim, offset, indent, out);
        return;
    }
    str_add(out, "[");
    for (int64_t i = 0, count = shown(format, dim); i < count; i++) {
        int64_t index = shown_index(format, dim, i);
        if (i > 0) {
            str_add(out, ",");
            for (int line = 1; line < left; line++)
                str_add(out, "\n");
            str_addf(out, "%*s", indent + 1, "");
        }
        if (index < 0)
            str_add(out, "...");
        else
            print_dim(format, dim + 1, offset + index * format->tensor->stride[dim], indent + 1, out);
    }
    str_add(out, "]");
}

/* Behind a comma, or on a line of its own if this one is full. */
static void
add_suffix(struct str *out, size_t begin, const char *suffix)
{
    const char *text = str_text(out) + begin, *line = strrchr(text, '\n');
    size_t      used = line != NULL ? strlen(line) + 1 : strlen(text) + 2;
    if (used + strlen(suffix) + 2 > LINE_WIDTH)
        str_addf(out, ",\n%*s%s", 7, "", suffix);
    else
        str_addf(out, ", %s", suffix);
}

/* (2, 3), as Python writes a tuple. */
static void
add_size(const struct tensor *tensor, const char *before, struct str *out)
{
    str_addf(out, "%s(", before);
    for (int d = 0; d < tensor->dims; d++)
        str_addf(out, "%s%lld", d > 0 ? ", " : "", (long long)tensor->size[d]);
    str_add(out, tensor->dims == 1 ? ",)" : ")");
}

static void
add_suffixes(const struct tensor *tensor, enum dtype fractions, struct str *out, size_t begin)
{
    char       text[48];
    bool       empty = tensor_count(tensor) == 0;
    bool       known = tensor->dtype == DTYPE_I64 || tensor->dtype == DTYPE_BOOL;
    enum dtype usual = empty || !known ? fractions : tensor->dtype;
    if (tensor->storage->device != DEVICE_CPU) {
        snprintf(text, sizeof text, "device='device:%d'", tensor->storage->device);
        add_suffix(out, begin, text);
    }
    if (tensor->dtype != usual) {
        snprintf(text, sizeof text, "dtype=torch.%s", dtype_name(tensor->dtype));
        add_suffix(out, begin, text);
    }
    if (tensor->requires_grad && tensor->grad_fn == NULL)
        add_suffix(out, begin, "requires_grad=True");
}

/* The numbers, whose rows stand `indent` places to the right; "[], size=..." if there are none. */
static void
print_body(struct task *me, const struct tensor *tensor, int indent, struct str *out)
{
    struct format format = { .tensor = tensor, .summarize = tensor_count(tensor) > SUMMARY };
    if (tensor_count(tensor) == 0) {
        str_add(out, "[]");
        if (tensor->dims != 1)
            add_size(tensor, ", size=", out);
        return;
    }
    struct access all = tensor_access(tensor, false, "print");
    if (!mirror_fetch(me, &all)) { /* why is in me's error */
        str_add(out, "[...]");
        return;
    }
    choose_format(&format);
    print_dim(&format, 0, tensor->offset, indent, out);
}

/* PyTorch's indices are a matrix of a row for each sparse dimension: of our one, for there are rows alone. */
static void
print_sparse(struct task *me, const struct tensor *tensor, struct str *out)
{
    enum dtype    fractions = default_dtype(me);
    struct tensor indices = *tensor->indices;
    indices.dims      = 2;
    indices.size[1]   = indices.size[0];
    indices.stride[1] = indices.stride[0];
    indices.size[0]   = 1;
    str_add(out, "tensor(indices=tensor(");
    print_body(me, &indices, 22, out);
    str_add(out, "),\n       values=tensor(");
    print_body(me, tensor->values, 21, out);
    str_add(out, "),\n       ");
    if (tensor_device(tensor) != DEVICE_CPU)
        str_addf(out, "device='device:%d', ", tensor_device(tensor));
    add_size(tensor, "size=", out);
    str_addf(out, ", nnz=%lld", (long long)indices.size[1]);
    if (tensor->dtype != fractions && tensor->dtype != DTYPE_I64 && tensor->dtype != DTYPE_BOOL)
        str_addf(out, ", dtype=torch.%s", dtype_name(tensor->dtype));
    str_add(out, ", layout=torch.sparse_coo)");
}

void
tensor_print(struct task *me, struct tensor *tensor, struct str *out)
{
    if (tensor == NULL) {
        str_add(out, "None");
        return;
    }
    if (tensor_is_sparse(tensor)) {
        print_sparse(me, tensor, out);
        return;
    }
    size_t begin = out->len;
    str_add(out, "tensor(");
    print_body(me, tensor, 7, out);
    if (!str_ok(out))
        return;
    add_suffixes(tensor, default_dtype(me), out, begin);
    str_add(out, ")");
}

/* A sparse tensor's elements are those of its parts. */
static bool
may_be_shown(struct task *me, const struct tensor *tensor)
{
    if (tensor_is_sparse(tensor))
        return may_be_shown(me, tensor->indices) && may_be_shown(me, tensor->values);
    struct access read = tensor_access(tensor, false, "print");
    return storage_access_by_host(me, &read);
}

bool
tensor_show(struct task *me, struct tensor *tensor, struct str *out)
{
    int device = tensor_device(tensor);
    if (tensor == NULL || task_failed(me))
        return false;
    if (device != DEVICE_CPU) {
        struct stream *stream = stream_current(me, device);
        if (stream == NULL || !stream_synchronize(me, stream))
            return false;
    }
    if (!may_be_shown(me, tensor))
        return false;
    tensor_print(me, tensor, out);
    return true;
}
