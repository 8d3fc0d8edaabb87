/* Gathering rows. On the host without a gradient they are copied in one go, at the price of one operation; else each is
 * selected and all are joined, as PyTorch's default_collate does. In PyTorch: torch/utils/data/_utils/collate.py.
 *
 * Interface: data_rows, data_stack, data_index. */
#include "data/batch.h"
#include <stdio.h>
#include <string.h>
#include "autograd/call.h"
#include "autograd/node.h"
#include "device/storage.h"
#include "hw/cost.h"
#include "sched/sched.h"
#include "sched/stage.h"

enum { BATCH_LARGEST = 1 << 24, TOLD = 200 };

static bool
indices_fit(struct task *me, const struct tensor *source, const int64_t *indices, int64_t count)
{
    if (source->dims == 0)
        return failed(me, E_INDEX, "a 0-dim tensor has no samples");
    for (int64_t i = 0; i < count; i++)
        if (indices[i] < -source->size[0] || indices[i] >= source->size[0])
            return failed(me, E_INDEX, "index %lld is out of range: the data set has %lld samples",
                          (long long)indices[i], (long long)source->size[0]);
    return count <= BATCH_LARGEST || failed(me, E_VALUE, "a batch of %lld samples is too large", (long long)count);
}

static int64_t
row_counted(const struct tensor *source, int64_t index)
{
    return index < 0 ? index + source->size[0] : index;
}

static struct tensor *
batch_copy_rows(struct task *me, struct tensor *source, const int64_t *indices, int64_t count)
{
    int64_t       sizes[TENSOR_DIMS];
    size_t        row    = (size_t)(source->size[0] > 0 ? tensor_bytes(source) / source->size[0] : 0);
    const char   *data   = (const char *)source->storage->data + (size_t)source->offset * dtype_size(source->dtype);
    struct access access = { .storage = source->storage, .what = "data.index",
                             .begin = (uint64_t)source->offset * dtype_size(source->dtype) };
    access.end           = access.begin + (uint64_t)tensor_bytes(source);
    if (!storage_access_by_host(me, &access))
        return NULL;
    struct storage *packed = storage_new_hidden(me, DEVICE_CPU, row * (size_t)count + 1);
    if (packed == NULL)
        return NULL;
    for (int64_t i = 0; i < count; i++)
        memcpy((char *)packed->data + (size_t)i * row, data + (size_t)row_counted(source, indices[i]) * row, row);
    memcpy(sizes, source->size, sizeof sizes);
    sizes[0] = count;
    sched_advance(me, cost_host(sched_cost(me->sched)));
    struct tensor *rows = tensor_from(me, source->dtype, source->dims, sizes, packed->data);
    storage_unref(me, packed);
    return rows;
}

struct tensor *
data_stack(struct task *me, struct tensor *const *samples, int count)
{
    struct storage *room = storage_new_hidden(me, DEVICE_CPU, ((size_t)count + 1) * sizeof(struct tensor *));
    if (room == NULL)
        return NULL;
    struct tensor **parts = room->data, *stacked = NULL;
    bool            ok = true;
    for (int i = 0; ok && i < count; i++) {
        parts[i] = tensor_unsqueeze(me, samples[i], 0);
        ok       = parts[i] != NULL && (tensor_same_shape(samples[i], samples[0]) ||
                                  failed(me, E_RUNTIME, "stack expects each tensor to be equal size, but got %s at "
                                         "entry 0 and %s at entry %d", shape_text(samples[0]).text,
                                         shape_text(samples[i]).text, i));
    }
    if (ok)
        stacked = tensor_cat(me, parts, count, 0);
    storage_unref(me, room);
    return stacked;
}

struct tensor *
data_rows(struct task *me, struct tensor *source, const int64_t *indices, int64_t count)
{
    if (!indices_fit(me, source, indices, count))
        return NULL;
    bool recorded = any_requires_grad(me, &source, 1);
    if (!recorded && tensor_device(source) == DEVICE_CPU && tensor_is_contiguous(source))
        return batch_copy_rows(me, source, indices, count);
    struct storage *room = storage_new_hidden(me, DEVICE_CPU, ((size_t)count + 1) * sizeof(struct tensor *));
    if (room == NULL)
        return NULL;
    struct tensor **samples = room->data, *rows = NULL;
    bool            ok = true;
    for (int64_t i = 0; ok && i < count; i++) {
        samples[i] = tensor_select(me, source, 0, row_counted(source, indices[i]));
        ok         = samples[i] != NULL;
    }
    if (ok)
        rows = data_stack(me, samples, (int)count);
    storage_unref(me, room);
    return rows;
}

/* The first indices, as one text. */
void
data_index(struct task *me, int64_t batch, const int64_t *indices, int64_t count)
{
    char   text[TOLD + 32] = "";
    size_t used = 0;
    if (me->buffer == NULL || !stage_enabled(me, KIND_data_index))
        return;
    for (int64_t i = 0; i < count && used < TOLD; i++)
        used += (size_t)snprintf(text + used, sizeof text - used, "%s%lld", i > 0 ? " " : "", (long long)indices[i]);
    if (used >= TOLD)
        memcpy(text + TOLD, " ...", 5);
    int64_t told = stage_text_id(me, text);
    POINT(me, data_index, batch, count, told);
}
