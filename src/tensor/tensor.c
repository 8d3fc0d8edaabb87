/* Tensors: references, making, raw views for kernels.
 *
 * A tensor is a small struct from the host's pool over a storage; views share storage and version. Who makes one gives
 * it to me's scope. Interface in order of use: tensor_empty and its sisters; accessors; tensor_keep and tensor_drop
 * for fields. In PyTorch: c10/core/TensorImpl.h, ATen/native/TensorFactories.cpp. */
#include "tensor/tensor.h"
#include <stdlib.h>
#include <math.h>
#include <string.h>
#include "base/str.h"
#include "base/vec.h"
#include "sched/account.h"
#include "sched/count.h"
#include "sched/sched.h"
#include "sched/stage.h"
#include "tensor/cpu/convert.h"
#include "tensor/cpu/pack.h"
#include "tensor/internal.h"

struct tensor *
tensor_ref(struct tensor *tensor)
{
    if (tensor != NULL)
        count_up(tensor->storage->sched, &tensor->references);
    return tensor;
}

static void
version_unref(struct task *me, struct version *version)
{
    if (version != NULL && count_down(me->sched, &version->references))
        host_return(me, version, sizeof *version);
}

static void
tensor_free(struct task *me, struct tensor *tensor)
{
    if (tensor->drop_autograd != NULL)
        tensor->drop_autograd(me, tensor);
    struct tensor *held[] = { tensor->grad, tensor->base, tensor->indices, tensor->values };
    for (size_t i = 0; i < countof(held); i++)
        if (held[i] != NULL)
            tensor_unref(me, held[i]);
    storage_unref(me, tensor->storage);
    version_unref(me, tensor->version);
    free(tensor->name);
    host_return(me, tensor, sizeof *tensor);
}

void
tensor_unref(struct task *me, struct tensor *tensor)
{
    if (tensor != NULL && count_down(me->sched, &tensor->references))
        tensor_free(me, tensor);
}

void
tensor_keep(struct task *me, struct tensor **field, struct tensor *tensor)
{
    struct tensor *old = *field;
    *field = tensor_ref(tensor);
    tensor_unref(me, old);
}

void
tensor_drop(struct task *me, struct tensor **field)
{
    struct tensor *old = *field;
    *field = NULL;
    tensor_unref(me, old);
}

static void
drop_born(struct task *me, void *object)
{
    tensor_unref(me, object);
}

struct tensor *
tensor_born(struct task *me, struct tensor *tensor)
{
    return born(me, tensor, drop_born);
}

/* Where in me's scope the newest reference on `tensor` lies; -1: nowhere. */
static ptrdiff_t
place_in_scope(const struct task *me, const struct tensor *tensor)
{
    for (size_t i = me->scope_count; tensor != NULL && i-- > 0;) {
        if (me->scope[i].object == tensor && me->scope[i].drop == drop_born)
            return (ptrdiff_t)i;
    }
    return -1;
}

/* The new one takes the old one's place in the scope, so that a loop leaves no trail. */
void
tensor_replace(struct task *me, struct tensor **local, struct tensor *tensor)
{
    struct tensor *old = *local;
    *local = tensor;
    ptrdiff_t was = place_in_scope(me, old), is = place_in_scope(me, tensor);
    if (old == tensor || was < 0 || is <= was)
        return;
    me->scope[was] = me->scope[is];
    me->scope_count--;
    memmove(me->scope + is, me->scope + is + 1, (me->scope_count - (size_t)is) * sizeof *me->scope);
    tensor_unref(me, old);
}

/* ---- making ---- */

bool
shape_count(struct task *me, int dims, const int64_t *sizes, int64_t *count)
{
    if (dims < 0 || dims > TENSOR_DIMS)
        return failed(me, E_VALUE, "a tensor has at most %d dimensions, not %d", TENSOR_DIMS, dims);
    int64_t product = 1;
    bool    empty = false;
    for (int i = 0; i < dims; i++) {
        if (sizes[i] < 0)
            return failed(me, E_RUNTIME, "a size cannot be negative: %lld", (long long)sizes[i]);
        empty = empty || sizes[i] == 0;
        if (sizes[i] != 0 && (__builtin_mul_overflow(product, sizes[i], &product) || product > (int64_t)1 << 44))
            return failed(me, E_SHAPE, "a tensor of so many elements is too large");
    }
    *count = empty ? 0 : product;
    return true;
}

/* The struct alone, over `storage` (its reference is taken over) with a version of its own or a share in one. */
static struct tensor *
tensor_over(struct task *me, struct storage *storage, struct version *version, enum dtype dtype)
{
    struct tensor *tensor = host_take(me, sizeof *tensor);
    if (tensor == NULL) {
        storage_unref(me, storage);
        return NULL;
    }
    if (version != NULL)
        count_up(me->sched, &version->references);
    else if ((version = host_take(me, sizeof *version)) != NULL)
        atomic_init(&version->references, 1);
    else {
        storage_unref(me, storage);
        host_return(me, tensor, sizeof *tensor);
        return NULL;
    }
    atomic_init(&tensor->references, 1);
    tensor->dtype   = dtype;
    tensor->storage = storage;
    tensor->version = version;
    return tensor;
}

struct tensor *
tensor_empty(struct task *me, enum dtype dtype, int device, int dims, const int64_t *sizes)
{
    int64_t count = 0;
    if (!shape_count(me, dims, sizes, &count))
        return NULL;
    struct storage *storage = storage_new(me, device, (size_t)count * dtype_size(dtype));
    if (storage == NULL)
        return NULL;
    struct tensor *tensor = tensor_over(me, storage, NULL, dtype);
    if (tensor == NULL)
        return NULL;
    tensor->dims = dims;
    for (int i = 0; i < dims; i++)
        tensor->size[i] = sizes[i];
    row_major_strides(dims, tensor->size, tensor->stride);
    return tensor_born(me, tensor);
}

/* As TensorIterator reorders dimensions: one of stride 0 (expanded) says nothing about its place. */
void
tensor_memory_order(const struct tensor *tensor, int order[TENSOR_DIMS])
{
    for (int d = 0; d < tensor->dims; d++)
        order[d] = d;
    for (int d = tensor->dims - 2; d >= 0; d--) {
        for (int at = d, i = d + 1; i < tensor->dims; i++) {
            int64_t outer = tensor->stride[order[at]], inner = tensor->stride[order[i]];
            if (outer == 0 || inner == 0)
                continue;
            if (outer > inner)
                break;
            if (outer < inner) {
                int moved = order[at];
                order[at] = order[i];
                order[i]  = moved;
                at        = i;
            }
        }
    }
}

struct tensor *
tensor_empty_like(struct task *me, enum dtype dtype, int device, const struct tensor *like)
{
    struct tensor *tensor = like != NULL ? tensor_empty(me, dtype, device, like->dims, like->size) : NULL;
    if (tensor == NULL)
        return NULL;
    int     order[TENSOR_DIMS];
    int64_t step = 1;
    tensor_memory_order(like, order);
    for (int d = like->dims - 1; d >= 0; d--) {
        tensor->stride[order[d]] = step;
        step *= like->size[order[d]] > 1 ? like->size[order[d]] : 1;
    }
    return tensor;
}

struct tensor *
tensor_from(struct task *me, enum dtype dtype, int dims, const int64_t *sizes, const void *elements)
{
    struct tensor *tensor = tensor_empty(me, dtype, DEVICE_CPU, dims, sizes);
    if (tensor == NULL)
        return NULL;
    struct access access = tensor_access(tensor, true, "tensor");
    if (!storage_access_by_host(me, &access))
        return NULL;
    if (tensor_bytes(tensor) > 0)
        memcpy(tensor->storage->data, elements, (size_t)tensor_bytes(tensor));
    tensor_snapshot(me, tensor);
    return tensor;
}

struct tensor *
tensor_arange(struct task *me, enum dtype dtype, double start, double end, double step)
{
    double length = (end - start) / step;
    if (!(step != 0) || !(length < 0x1p44) || !(length > -1))
        return failed_null(me, E_RUNTIME, "arange: from %g to %g in steps of %g leads nowhere", start, end, step);
    if (dtype == DTYPE_BOOL)
        return failed_null(me, E_NOT_IMPLEMENTED, "\"arange_cpu\" not implemented for 'Bool'");
    if (!dtype_is_float(dtype)) { /* as many as the fractions are, with what remains of the numbers */
        start = trunc(start);
        step  = trunc(step);
    }
    int64_t count = (int64_t)length;
    count += (double)count < length;
    struct tensor *tensor = tensor_empty(me, dtype, DEVICE_CPU, 1, &count);
    if (tensor == NULL)
        return NULL;
    struct access access = tensor_access(tensor, true, "arange");
    if (!storage_access_by_host(me, &access))
        return NULL;
    for (int64_t i = 0; i < count; i++) {
        double value = start + (double)i * step;
        cpu_convert_one((char *)tensor->storage->data + (size_t)i * dtype_size(dtype), dtype, &value, DTYPE_F64);
    }
    tensor_snapshot(me, tensor);
    return tensor;
}

/* ---- views ---- */

/* A view: another tensor over a storage that was there before. */
static void
tensor_announce_view(struct task *me, const struct tensor *view)
{
    POINT(me, memory_alias, view->storage->number, view->offset, tensor_count(view));
}

/* One past the highest element that a shape reaches from `offset`; 0: it has no elements. */
static int64_t
reach(int dims, const int64_t *size, const int64_t *stride, int64_t offset)
{
    int64_t last = offset;
    for (int i = 0; i < dims; i++) {
        if (size[i] == 0)
            return 0;
        last += (size[i] - 1) * stride[i];
    }
    return last + 1;
}

static bool
place_fits(struct task *me, const struct tensor *base, const struct view_place *place)
{
    int64_t count = 0;
    if (!shape_count(me, place->dims, place->size, &count))
        return false;
    int64_t room = (int64_t)(base->storage->bytes / dtype_size(base->dtype));
    bool    fits = place->offset >= 0 && (count == 0 || place->offset <= room);
    for (int i = 0; i < place->dims; i++)
        fits = fits && place->stride[i] >= 0 && (place->size[i] <= 1 || count == 0 || place->stride[i] <= room);
    fits = fits && reach(place->dims, place->size, place->stride, place->offset) <= room;
    return fits || failed(me, E_RUNTIME, "a view would reach outside its storage of %lld elements", (long long)room);
}

struct tensor *
tensor_view(struct task *me, struct tensor *base, const struct view_place *place)
{
    if (base == NULL || !place_fits(me, base, place))
        return NULL;
    struct tensor *view = tensor_over(me, storage_ref(base->storage), base->version, base->dtype);
    if (view == NULL)
        return NULL;
    view->dims   = place->dims;
    view->offset = place->offset;
    for (int i = 0; i < place->dims; i++) {
        view->size[i]   = place->size[i];
        view->stride[i] = place->stride[i];
    }
    tensor_announce_view(me, view);
    return tensor_born(me, view);
}

struct tensor *
tensor_piece(struct task *me, struct tensor *flat, int dims, const int64_t *size, int64_t offset)
{
    int64_t stride[TENSOR_DIMS];
    row_major_strides(dims, size, stride);
    return tensor_view(me, flat, &(struct view_place){ dims, size, stride, offset });
}

struct tensor *
tensor_alias(struct task *me, struct tensor *tensor)
{
    if (tensor == NULL)
        return NULL;
    struct tensor *alias = tensor_over(me, storage_ref(tensor->storage), tensor->version, tensor->dtype);
    if (alias == NULL)
        return NULL;
    alias->dims   = tensor->dims;
    alias->offset = tensor->offset;
    memcpy(alias->size, tensor->size, sizeof alias->size);
    memcpy(alias->stride, tensor->stride, sizeof alias->stride);
    alias->indices   = tensor_ref(tensor->indices);
    alias->values    = tensor_ref(tensor->values);
    alias->coalesced = tensor->coalesced;
    return tensor_born(me, alias);
}

struct tensor *
tensor_own_version(struct task *me, struct tensor *view)
{
    if (view == NULL)
        return NULL;
    struct tensor *own = tensor_over(me, storage_ref(view->storage), NULL, view->dtype);
    if (own == NULL)
        return NULL;
    own->dims   = view->dims;
    own->offset = view->offset;
    memcpy(own->size, view->size, sizeof own->size);
    memcpy(own->stride, view->stride, sizeof own->stride);
    own->indices   = tensor_ref(view->indices);
    own->values    = tensor_ref(view->values);
    own->coalesced = view->coalesced;
    return tensor_born(me, own);
}

/* ---- accessors ---- */

int
tensor_dims(const struct tensor *tensor)
{
    return tensor != NULL ? tensor->dims : 0;
}

int64_t
tensor_size(const struct tensor *tensor, int dim)
{
    if (tensor == NULL)
        return 0;
    int from = dim < 0 ? dim + tensor->dims : dim;
    return from >= 0 && from < tensor->dims ? tensor->size[from] : 0;
}

bool
tensor_work(struct task *me, const struct tensor *tensor)
{
    return task_work(me, WORK_OP + (uint64_t)tensor_count(tensor) / WORK_ELEMENTS);
}

int64_t
tensor_count(const struct tensor *tensor)
{
    if (tensor == NULL)
        return 0;
    int64_t count = 1;
    for (int i = 0; i < tensor->dims; i++)
        count *= tensor->size[i];
    return count;
}

int64_t
tensor_bytes(const struct tensor *tensor)
{
    return tensor != NULL ? tensor_count(tensor) * (int64_t)dtype_size(tensor->dtype) : 0;
}

bool
tensor_is_contiguous(const struct tensor *tensor)
{
    return tensor != NULL && !tensor_is_sparse(tensor) && is_row_major(tensor->dims, tensor->size, tensor->stride);
}

bool
tensor_has_no_gaps(const struct tensor *tensor)
{
    bool    done[TENSOR_DIMS] = { false };
    int64_t step = 1;
    for (int count = 0; count < tensor->dims; count++) {
        int next = -1;
        for (int d = 0; d < tensor->dims; d++)
            if (!done[d] && (tensor->size[d] == 1 || tensor->stride[d] == step))
                next = d;
        if (next < 0)
            return false;
        done[next] = true;
        step *= tensor->size[next];
    }
    return true;
}

bool
tensor_same_strides(const struct tensor *a, const struct tensor *b)
{
    for (int d = 0; d < a->dims; d++)
        if (a->size[d] > 1 && a->stride[d] != b->stride[d])
            return false;
    return true;
}

bool
tensor_same_shape(const struct tensor *a, const struct tensor *b)
{
    if (a == NULL || b == NULL || a->dims != b->dims)
        return false;
    for (int i = 0; i < a->dims; i++) {
        if (a->size[i] != b->size[i])
            return false;
    }
    return true;
}

uint32_t
tensor_version(const struct tensor *tensor)
{
    return tensor != NULL ? atomic_load_explicit(&tensor->version->counter, memory_order_relaxed) : 0;
}

void
tensor_bump(struct tensor *tensor)
{
    if (tensor != NULL)
        count_next(tensor->storage->sched, &tensor->version->counter);
}

void
tensor_preserve_version(struct tensor *tensor, uint32_t before)
{
    if (tensor != NULL)
        atomic_store_explicit(&tensor->version->counter, before, memory_order_relaxed);
}

/* ---- for kernels, checker and trace ---- */

void
tensor_look(const struct tensor *tensor, struct cpu_view *view)
{
    view->data  = (char *)tensor->storage->data + tensor->offset * (int64_t)dtype_size(tensor->dtype);
    view->dtype = tensor->dtype;
    view->dims  = tensor->dims;
    for (int i = 0; i < tensor->dims; i++) {
        view->size[i]   = tensor->size[i];
        view->stride[i] = tensor->stride[i];
    }
}

struct cpu_view
tensor_raw(const struct tensor *tensor)
{
    struct cpu_view view;
    tensor_look(tensor, &view);
    return view;
}

size_t
tensor_pack_bytes(const struct tensor *tensor, enum dtype compute)
{
    struct cpu_view view = tensor_raw(tensor);
    return pack_bytes(&view, compute);
}

struct access
tensor_access(const struct tensor *tensor, bool write, const char *what)
{
    uint64_t      element = dtype_size(tensor->dtype);
    int64_t       end = reach(tensor->dims, tensor->size, tensor->stride, tensor->offset);
    struct access access = { .storage = tensor->storage, .write = write, .what = what };
    if (end > 0) {
        access.begin = (uint64_t)tensor->offset * element;
        access.end   = (uint64_t)end * element;
    }
    return access;
}

struct access
storage_access(struct storage *storage, bool write, const char *what)
{
    return (struct access){ .storage = storage, .end = storage->bytes, .write = write, .what = what };
}

/* The tensor's shape where it fills its storage, else all that the storage holds, in a row. */
struct stream_written
tensor_written(const struct tensor *tensor)
{
    struct stream_written written = { .known = true, .dtype = (int)tensor->dtype, .dims = -1 };
    if (tensor_is_contiguous(tensor) && (uint64_t)tensor_bytes(tensor) == tensor->storage->bytes) {
        written.dims = tensor->dims;
        memcpy(written.sizes, tensor->size, sizeof written.sizes);
    }
    return written;
}

void
tensor_snapshot(struct task *me, const struct tensor *tensor)
{
    if (!sched_is_stepped(me->sched))
        return;
    struct stream_written written = tensor_written(tensor);
    struct storage       *storage = tensor->storage;
    int64_t               count = (int64_t)(storage->bytes / dtype_size(tensor->dtype));
    struct storage_content content = { written.dtype, 1, &count, storage->data, NULL };
    if (written.dims >= 0 || (storage_is_large(storage) && tensor_is_contiguous(tensor)))
        content = (struct storage_content){ written.dtype, tensor->dims, tensor->size, tensor_raw(tensor).data, NULL };
    storage_snapshot(me, storage, &content);
}

bool
tensor_changed(struct task *me, const struct tensor *tensor, const char *what)
{
    if (tensor == NULL || tensor->storage->watches == NULL)
        return true;
    struct access access = tensor_access(tensor, true, what);
    return storage_changed(me, &access, false);
}

bool
sparse_refused(struct task *me, const char *what, const struct tensor *tensor)
{
    return failed(me, E_NOT_IMPLEMENTED, "%s has no kernel for sparse tensors (Sparse%s): use t:to_dense()", what,
                  tensor_device(tensor) == DEVICE_CPU ? "CPU" : "CUDA");
}

bool
tensor_is_writable(struct task *me, const struct tensor *tensor)
{
    bool is_empty = tensor_count(tensor) == 0;
    if (tensor_is_sparse(tensor))
        return sparse_refused(me, "writing", tensor);
    for (int i = 0; i < tensor->dims; i++) {
        if (!is_empty && tensor->size[i] > 1 && tensor->stride[i] == 0)
            return failed(me, E_RUNTIME, "more than one element of the tensor that is written to lies at one place in "
                                         "memory (it was expanded); clone it first");
    }
    return true;
}
