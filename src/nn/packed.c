/* Sequences of different lengths one step below the other: pack_padded_sequence and back. In PyTorch:
 * torch/nn/utils/rnn.py, ATen/native/PackedSequence.cpp. */
#include <string.h>
#include "autograd/call.h"
#include "device/cells.h"
#include "nn/container.h"
#include "sched/account.h"
#include "sched/task.h"

static void *
array_of(struct task *me, int64_t count, size_t size)
{
    return scratch_new(me, (size_t)count + 1, size);
}

static struct tensor *
integers(struct task *me, const int64_t *values, int64_t count)
{
    return tensor_from(me, DTYPE_I64, 1, &count, values);
}

/* Which row comes where: longest first, equal ones in their order. */
static bool
sort_rows(struct task *me, const struct integer_list *list, int64_t *order, int64_t *back)
{
    enum { MOVES_A_STEP = 8 };
    const int64_t *lengths = list->at, count = list->count;
    if (!task_work(me, (uint64_t)count * (uint64_t)count / MOVES_A_STEP))
        return false;
    for (int64_t i = 0; i < count; i++) {
        int64_t at = i;
        for (; at > 0 && lengths[order[at - 1]] < lengths[i]; at--)
            order[at] = order[at - 1];
        order[at] = i;
    }
    for (int64_t i = 0; i < count; i++)
        back[order[i]] = i;
    return true;
}

static bool
lengths_fit(struct task *me, const struct integer_list *given, const struct tensor *timed, bool sorted)
{
    const int64_t *lengths = given->at, count = given->count;
    if (timed->size[1] != count)
        return failed(me, E_RUNTIME, "Expected `len(lengths)` to be equal to batch_size, but got %lld "
                      "(batch_size=%lld)", (long long)count, (long long)timed->size[1]);
    for (int64_t i = 0; i < count; i++) {
        if (lengths[i] < 1)
            return failed(me, E_RUNTIME, "Length of all samples has to be greater than 0, but found an element in "
                          "'lengths' that is <= 0");
        if (lengths[i] > timed->size[0])
            return failed(me, E_RUNTIME, "Expected lengths of at most %lld, but found %lld",
                          (long long)timed->size[0], (long long)lengths[i]);
        if (sorted && i > 0 && lengths[i] > lengths[i - 1])
            return failed(me, E_RUNTIME, "`lengths` array must be sorted in decreasing order when `enforce_sorted` is "
                          "True. You can pass `enforce_sorted=False` to pack_padded_sequence and/or "
                          "pack_sequence to sidestep this requirement if you do not need ONNX exportability.");
    }
    return count > 0 || failed(me, E_RUNTIME, "Cannot pack empty tensors.");
}

/* `lengths` fall. Step t keeps the rows that are longer than t. */
static struct value *
packed_value(struct task *me, struct tensor *timed, const struct integer_list *lengths, struct value *order,
             struct value *back)
{
    static const char *const keys[4] = { "data", "batch_sizes", "sorted_indices", "unsorted_indices" };
    int64_t         steps = lengths->at[0], rows = lengths->count;
    struct tensor **parts = array_of(me, steps, sizeof *parts);
    int64_t        *sizes = array_of(me, steps, sizeof *sizes);
    if (parts == NULL || sizes == NULL)
        return NULL;
    for (int64_t t = 0; t < steps; t++) {
        while (rows > 0 && lengths->at[rows - 1] <= t)
            rows--;
        sizes[t] = rows;
        parts[t] = tensor_narrow(me, tensor_select(me, timed, 0, t), 0, 0, rows);
        if (parts[t] == NULL)
            return NULL;
    }
    struct tensor *data     = tensor_cat(me, parts, (int)steps, 0), *batch_sizes = integers(me, sizes, steps);
    struct value  *items[4] = { value_tensor(me, data), value_tensor(me, batch_sizes), order, back };
    if (items[0] == NULL || items[1] == NULL || order == NULL || back == NULL)
        return NULL;
    return value_container(me, &(struct value_form){ VALUE_NAMEDTUPLE, keys, "PackedSequence" }, 4, items);
}

/* On the device of the data that they order. */
static struct tensor *
integers_beside(struct task *me, const int64_t *numbers, int64_t count, const struct tensor *data)
{
    struct tensor *made = integers(me, numbers, count);
    return made != NULL ? tensor_to(me, made, tensor_device(data), DTYPE_I64) : NULL;
}

struct value *
pack_padded(struct task *me, struct tensor *x, const struct integer_list *lengths, const struct padded_form *form)
{
    int64_t count = lengths->count;
    if (x->dims < 2)
        return failed_null(me, E_SHAPE, "pack_padded_sequence: expected an input of 2 dimensions or more, got %s",
                           shape_text(x).text);
    struct tensor *timed = form->batch_first ? tensor_transpose(me, x, 0, 1) : x;
    if (timed == NULL || !lengths_fit(me, lengths, timed, form->sorted))
        return NULL;
    if (form->sorted)
        return packed_value(me, timed, lengths, value_none(me), value_none(me));
    int64_t *order = array_of(me, count, sizeof *order), *back = array_of(me, count, sizeof *back);
    int64_t *falling = array_of(me, count, sizeof *falling);
    if (order == NULL || back == NULL || falling == NULL || !sort_rows(me, lengths, order, back))
        return NULL;
    for (int64_t i = 0; i < count; i++)
        falling[i] = lengths->at[order[i]];
    struct tensor *index = integers_beside(me, order, count, timed);
    struct tensor *ordered = index != NULL ? tensor_index_select(me, OP_index_select, timed, 1, index) : NULL;
    if (ordered == NULL)
        return NULL;
    struct tensor *unsorted = integers_beside(me, back, count, timed);
    return packed_value(me, ordered, &(struct integer_list){ falling, count }, value_tensor(me, index),
                        value_tensor(me, unsorted));
}

/* ---- and back ---- */

static bool
is_packed(const struct value *packed)
{
    if (packed->kind != VALUE_NAMEDTUPLE || packed->count != 4 || strcmp(packed->text, "PackedSequence") != 0 ||
        packed->items[0]->kind != VALUE_TENSOR || packed->items[1]->kind != VALUE_TENSOR)
        return false;
    const struct tensor *data = packed->items[0]->tensor, *sizes = packed->items[1]->tensor;
    return data->dims >= 1 && data->dims < TENSOR_DIMS && sizes->dims == 1 && sizes->dtype == DTYPE_I64 &&
            sizes->size[0] > 0;
}

static struct tensor *
padding_like(struct task *me, const struct tensor *like, const int64_t *sizes, double padding)
{
    return tensor_filled(me, tensor_empty(me, like->dtype, tensor_device(like), like->dims, sizes), padding);
}

/* A step of `rows` rows, filled up to `all` of them. */
static struct tensor *
filled_up(struct task *me, struct tensor *part, int64_t all, double padding)
{
    int64_t sizes[TENSOR_DIMS];
    if (part == NULL || part->size[0] == all)
        return part;
    memcpy(sizes, part->size, sizeof sizes);
    sizes[0] = all - part->size[0];
    struct tensor *rest = padding_like(me, part, sizes, padding);
    return rest != NULL ? tensor_cat(me, (struct tensor *[]){ part, rest }, 2, 0) : NULL;
}

/* [steps, rows, ...] */
static struct tensor *
padded_steps(struct task *me, struct tensor *data, const struct integer_list *steps, int64_t total, double padding)
{
    const int64_t  *sizes = steps->at;
    struct tensor **parts = array_of(me, total, sizeof *parts);
    int64_t         at = 0, shape[TENSOR_DIMS];
    if (parts == NULL)
        return NULL;
    memcpy(shape, data->size, sizeof shape);
    shape[0] = sizes[0];
    for (int64_t t = 0; t < total; t++) {
        int64_t rows = t < steps->count ? sizes[t] : 0;
        if (rows < 0 || rows > sizes[0] || at + rows > data->size[0])
            return failed_null(me, E_RUNTIME, "the packed data, of shape %s, does not fit its batch sizes: step "
                               "%lld of %lld rows", shape_text(data).text, (long long)t, (long long)rows);
        struct tensor *part = rows > 0 ? filled_up(me, tensor_narrow(me, data, 0, at, rows), sizes[0], padding)
                                       : padding_like(me, data, shape, padding);
        parts[t] = tensor_unsqueeze(me, part, 0);
        if (parts[t] == NULL)
            return NULL;
        at += rows;
    }
    return tensor_cat(me, parts, (int)total, 0);
}

struct value *
pad_packed(struct task *me, struct value *packed, bool batch_first, double padding, int64_t total_length)
{
    if (!is_packed(packed))
        return failed_null(me, E_TYPE, "pad_packed_sequence expects what pack_padded_sequence made");
    struct tensor *data = packed->items[0]->tensor;
    int64_t        steps = packed->items[1]->tensor->size[0], total = total_length < 0 ? steps : total_length;
    int64_t       *sizes = array_of(me, steps, sizeof *sizes);
    if (sizes == NULL || !tensor_read(me, packed->items[1]->tensor, sizes))
        return NULL;
    if (total < steps)
        return failed_null(me, E_VALUE, "Expected total_length to be at least the length of the longest sequence in "
                           "input, but got total_length=%lld and max sequence length being %lld", (long long)total,
                           (long long)steps);
    int64_t *lengths = sizes[0] >= 0 && sizes[0] <= data->size[0] ? array_of(me, sizes[0], sizeof *lengths) : NULL;
    const struct integer_list rows = { sizes, steps };
    struct tensor *output = lengths != NULL ? padded_steps(me, data, &rows, total, padding) : NULL;
    if (output == NULL)
        return task_failed(me) ? NULL : failed_null(me, E_RUNTIME, "the packed data, of shape %s, does not fit its "
                                                    "batch sizes: step 0 of %lld rows", shape_text(data).text,
                                                    (long long)sizes[0]);
    for (int64_t t = 0; t < steps; t++)
        for (int64_t i = 0; i < sizes[t]; i++)
            lengths[i]++;
    struct tensor *counts = integers(me, lengths, sizes[0]);
    if (packed->items[3]->kind == VALUE_TENSOR && counts != NULL) {
        output = tensor_index_select(me, OP_index_select, output, 1, packed->items[3]->tensor);
        struct tensor *order = tensor_to(me, packed->items[3]->tensor, DEVICE_CPU, DTYPE_I64);
        counts = order != NULL ? tensor_index_select(me, OP_index_select, counts, 0, order) : NULL;
    }
    if (output != NULL && batch_first)
        output = tensor_transpose(me, output, 0, 1);
    struct value *items[2] = { value_tensor(me, output), value_tensor(me, counts) };
    return items[0] != NULL && items[1] != NULL ? value_tuple(me, 2, items) : NULL;
}
