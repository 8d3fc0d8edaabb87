/* Copies, between places, types and devices.
 *
 * Host to device: the host's elements are packed into staging memory at once, so that the host may change them while
 * the copy is under way; tensor_to and the op `copy` wait for its end as .to() does, tensor_copy does not. Device to
 * host: the host waits. Device to device: an entry of the destination's stream, which first waits for the source's
 * stream, as that one then does for the copy: nobody overwrites what is read.
 *
 * Interface: tensor_copy, tensor_to. In PyTorch: ATen/native/Copy.cpp,
 * ATen/native/cuda/Copy.cu. */
#include <string.h>
#include "hw/cost.h"
#include "sched/sched.h"
#include "sched/stage.h"
#include "device/real.h"
#include "tensor/internal.h"
#include "tensor/queued.h"

static void
copy_run(void *context)
{
    cpu_copy(&((struct copy_job *)context)->call);
}

static struct cpu_call
copy_call(struct cpu_view to, struct cpu_view from)
{
    struct cpu_call call = { .inputs = 1, .out = to, .compute = from.dtype };
    call.in[0] = view_expand(&from, to.dims, to.size);
    return call;
}

/* All elements of `like`'s shape, in one piece of `storage`, as `like`'s type. */
static struct cpu_view
packed_view(struct storage *storage, const struct tensor *like)
{
    struct cpu_view view = { .data = storage->data, .dtype = like->dtype, .dims = like->dims };
    memcpy(view.size, like->size, sizeof view.size);
    row_major_strides(view.dims, view.size, view.stride);
    return view;
}

/* Bytes that move between devices, and what the trace is told of them. */
struct transfer {
    struct cpu_view       to, from;
    struct access         accesses[2];
    int64_t               from_device, to_device, bytes, told; /* told: the number of the storage that is written */
    struct stream_written written;
};

/* NULL where none is wanted, and where there is no memory: then me has failed. */
static struct storage *
room_for_span(struct task *me, const struct transfer *move, struct copy_job *job)
{
    const struct access *from = &move->accesses[0];
    if (job->way != COPY_OF_SPAN)
        return NULL;
    struct storage *room = storage_new_hidden(me, job->to_device, (size_t)(from->end - from->begin));
    job->bytes = (size_t)(from->end - from->begin);
    job->span  = (char *)from->storage->data + from->begin;
    job->room  = room != NULL ? room->data : NULL;
    return room;
}

static bool
is_plain(const struct cpu_call *call)
{
    const struct cpu_view *to = &call->out, *from = &call->in[0];
    return to->dtype == from->dtype && is_row_major(to->dims, to->size, to->stride) &&
           is_row_major(from->dims, from->size, from->stride);
}

static struct copy_job
transfer_job(const struct task *me, const struct transfer *move)
{
    struct copy_job job = { .call = copy_call(move->to, move->from), .way = COPY_BY_KERNEL,
                            .bytes = (size_t)move->bytes, .to_device = (int)move->to_device,
                            .from_device = (int)move->from_device };
    bool between = job.to_device != DEVICE_CPU && job.from_device != DEVICE_CPU;
    if (!devices_are_real(me->sched))
        return job;
    if (is_plain(&job.call))
        job.way = COPY_PLAIN;
    else if (between && !devices_share(me->sched, job.to_device, job.from_device))
        job.way = COPY_OF_SPAN;
    return job;
}

static bool
launch_transfer(struct task *me, struct stream *stream, const struct transfer *move)
{
    struct copy_job     job  = transfer_job(me, move);
    struct storage     *room = room_for_span(me, move, &job);
    if (job.way == COPY_OF_SPAN && room == NULL)
        return false;
    struct stream_entry entry = {
        .kind = KIND_memory_copy, .args = { move->from_device, move->to_device, move->bytes, move->told },
        .price = cost_copy(sched_cost(me->sched), (uint64_t)move->bytes),
        .accesses = { move->accesses[0], move->accesses[1] }, .access_count = 2,
        .effect = copy_run, .enqueue = transfer_queue, .context = &job, .context_bytes = sizeof job,
        .written = move->written,
    };
    if (room != NULL)
        entry.accesses[entry.access_count++] = storage_access(room, true, "copy");
    bool done = stream_launch(me, stream, &entry);
    storage_unref(me, room);
    return done;
}

static bool
copy_on_host(struct task *me, struct tensor *to, struct tensor *from, enum op op)
{
    const char   *what = op_info(op)->name;
    struct access read = tensor_access(from, false, what), write = tensor_access(to, true, what);
    if (!storage_access_by_host(me, &read) || !storage_access_by_host(me, &write))
        return false;
    struct cpu_call call = copy_call(tensor_raw(to), tensor_raw(from));
    cpu_copy(&call);
    return tensor_wrote(me, to, what);
}

bool
tensor_deliver(struct task *me, struct tensor *to, struct storage *packed, const char *what)
{
    int device = tensor_device(to);
    if (device == DEVICE_CPU) {
        struct access write = tensor_access(to, true, what);
        if (!storage_access_by_host(me, &write))
            return false;
        struct cpu_call unpack = copy_call(tensor_raw(to), packed_view(packed, to));
        cpu_copy(&unpack);
        return tensor_wrote(me, to, what);
    }
    struct stream *stream = stream_current(me, device);
    if (stream == NULL)
        return false;
    struct transfer move = {
        .to = tensor_raw(to), .from = packed_view(packed, to),
        .accesses = { storage_access(packed, false, what), tensor_access(to, true, what) },
        .from_device = DEVICE_CPU, .to_device = device, .bytes = tensor_bytes(to), .told = to->storage->number,
        .written = tensor_written(to),
    };
    return launch_transfer(me, stream, &move);
}

static bool
copy_to_device(struct task *me, struct tensor *to, struct tensor *from)
{
    struct access read = tensor_access(from, false, "copy");
    if (!storage_access_by_host(me, &read))
        return false;
    struct storage *staging = storage_new_hidden(me, DEVICE_CPU, (size_t)tensor_bytes(to));
    if (staging == NULL)
        return false;
    struct cpu_call pack = copy_call(packed_view(staging, to), tensor_raw(from));
    cpu_copy(&pack);
    bool done = tensor_deliver(me, to, staging, "copy");
    storage_unref(me, staging);
    return done;
}

/* From a device: into staging memory, and waits for it. */
static bool
fetch_from_device(struct task *me, const struct tensor *to, struct tensor *from, int64_t told,
                  struct storage *staging)
{
    int            device = tensor_device(from);
    struct stream *stream = stream_current(me, device);
    if (stream == NULL)
        return false;
    struct transfer move = {
        .to = packed_view(staging, to), .from = tensor_raw(from),
        .accesses = { tensor_access(from, false, "copy"), storage_access(staging, true, "copy") },
        .from_device = device, .to_device = DEVICE_CPU, .bytes = tensor_bytes(to), .told = told,
    };
    return launch_transfer(me, stream, &move) && stream_synchronize(me, stream);
}

struct storage *
tensor_fetch(struct task *me, const struct tensor *like, struct tensor *from, int64_t told)
{
    if (tensor_is_sparse(from))
        return failed_null(me, E_RUNTIME, "a sparse tensor is not read element by element: use t:to_dense()");
    struct storage *staging = tensor_work(me, like) ? storage_new_hidden(me, DEVICE_CPU, (size_t)tensor_bytes(like))
                                                    : NULL;
    if (staging == NULL)
        return NULL;
    struct access read = tensor_access(from, false, "read");
    bool          done;
    if (tensor_device(from) != DEVICE_CPU) {
        done = fetch_from_device(me, like, from, told, staging);
    } else {
        sched_point(me);
        done = storage_access_by_host(me, &read);
        struct cpu_call pack = copy_call(packed_view(staging, like), tensor_raw(from));
        if (done)
            cpu_copy(&pack);
    }
    if (done)
        return staging;
    storage_unref(me, staging);
    return NULL;
}

static bool
copy_to_host(struct task *me, struct tensor *to, struct tensor *from)
{
    struct storage *staging = tensor_fetch(me, to, from, to->storage->number);
    if (staging == NULL)
        return false;
    bool done = tensor_deliver(me, to, staging, "copy");
    storage_unref(me, staging);
    return done;
}

static bool
copy_between(struct task *me, struct tensor *to, struct tensor *from)
{
    struct stream *target = stream_current(me, tensor_device(to)), *source = stream_current(me, tensor_device(from));
    if (target == NULL || source == NULL || !stream_wait_stream(me, target, source))
        return false;
    struct transfer move = {
        .to = tensor_raw(to), .from = tensor_raw(from),
        .accesses = { tensor_access(from, false, "copy"), tensor_access(to, true, "copy") },
        .from_device = tensor_device(from), .to_device = tensor_device(to), .bytes = tensor_bytes(to),
        .told = to->storage->number, .written = tensor_written(to),
    };
    return launch_transfer(me, target, &move) && stream_wait_stream(me, source, target);
}

/* On one device: a kernel, told as that of `op`. */
static bool
copy_kernel(struct task *me, struct tensor *to, struct tensor *from, enum op op, struct price price)
{
    struct stream *stream = stream_current(me, tensor_device(to));
    if (stream == NULL)
        return false;
    struct copy_job job = { .call = copy_call(tensor_raw(to), tensor_raw(from)), .way = COPY_BY_KERNEL };
    int64_t         name = stage_text_id(me, op_info(op)->name);
    struct stream_entry entry = {
        .kind = KIND_kernel, .args = { name, to->storage->number, tensor_bytes(to) },
        .price = price.kernel, .covered = price.covered,
        .accesses = { tensor_access(from, false, op_info(op)->name), tensor_access(to, true, op_info(op)->name) },
        .access_count = 2, .effect = copy_run, .enqueue = transfer_queue, .context = &job, .context_bytes = sizeof job,
        .written = tensor_written(to),
    };
    return stream_launch(me, stream, &entry);
}

static bool
copy_fits(struct task *me, struct tensor *to, struct tensor *from)
{
    int     dims = to->dims;
    int64_t sizes[TENSOR_DIMS];
    memcpy(sizes, to->size, sizeof sizes);
    if (from->dims > to->dims || !shape_broadcast(&dims, sizes, from) ||
        memcmp(sizes, to->size, (size_t)dims * sizeof *sizes) != 0)
        return failed(me, E_SHAPE, "expected a source of shape %s, or one that stretches to it, got %s",
                      shape_text(to).text, shape_text(from).text);
    return tensor_is_writable(me, to);
}

static bool
copy_priced(struct task *me, struct tensor *to, struct tensor *from, const char *module)
{
    if (to == NULL || from == NULL || task_failed(me) || !copy_fits(me, to, from) || !tensor_work(me, to))
        return false;
    if (tensor_is_sparse(from))
        return sparse_refused(me, "copying", from);
    bool on_host = tensor_device(to) == DEVICE_CPU, from_host = tensor_device(from) == DEVICE_CPU;
    if (on_host && from_host)
        op_pay_host(me, OP_copy, module);
    if (on_host)
        return from_host ? copy_on_host(me, to, from, OP_copy) : copy_to_host(me, to, from);
    if (from_host)
        return copy_to_device(me, to, from);
    if (tensor_device(to) != tensor_device(from))
        return copy_between(me, to, from);
    return copy_kernel(me, to, from, OP_copy, op_price(me, OP_copy, module));
}

bool
tensor_copy(struct task *me, struct tensor *to, struct tensor *from)
{
    return copy_priced(me, to, from, NULL);
}

struct tensor *
tensor_to_async(struct task *me, struct tensor *tensor, int device, enum dtype dtype)
{
    if (tensor == NULL || !device_check(me, device))
        return NULL;
    if (tensor_device(tensor) == device && tensor->dtype == dtype)
        return tensor;
    struct tensor *made = tensor_empty(me, dtype, device, tensor->dims, tensor->size);
    return made != NULL && tensor_copy(me, made, tensor) ? made : NULL;
}

/* non_blocking=False: who copies from the host to a device waits until the elements have arrived. */
static bool
await_arrival(struct task *me, const struct tensor *to, const struct tensor *from)
{
    if (tensor_device(to) == DEVICE_CPU || tensor_device(from) != DEVICE_CPU)
        return true;
    struct stream *stream = stream_current(me, tensor_device(to));
    return stream != NULL && stream_synchronize(me, stream);
}

struct tensor *
tensor_to(struct task *me, struct tensor *tensor, int device, enum dtype dtype)
{
    struct tensor *made = tensor_to_async(me, tensor, device, dtype);
    return made != NULL && (made == tensor || await_arrival(me, made, tensor)) ? made : NULL;
}

/* ---- the operators ---- */

struct tensor *
run_copy(struct task *me, enum op op, const struct op_args *args)
{
    struct tensor *from = args->in[0];
    if (args->out != NULL) /* t:to and t:copy_ */
        return copy_priced(me, args->out, from, args->module) && await_arrival(me, args->out, from) ? args->out : NULL;
    if (args->length < 0 || args->length >= DTYPE_COUNT || args->start < DEVICE_CPU || args->start > DEVICE_MAX)
        return failed_null(me, E_VALUE, "%s: no such dtype or device", op_info(op)->name);
    struct tensor *made = tensor_empty(me, (enum dtype)args->length, (int)args->start, from->dims, from->size);
    bool done = made != NULL && copy_priced(me, made, from, args->module) && await_arrival(me, made, from);
    return done ? made : NULL;
}

struct tensor *
run_clone(struct task *me, enum op op, const struct op_args *args)
{
    struct tensor *from = args->in[0];
    struct tensor *made = tensor_empty(me, from->dtype, tensor_device(from), from->dims, from->size);
    if (made == NULL || !tensor_work(me, made))
        return NULL;
    if (tensor_device(from) != DEVICE_CPU)
        return copy_kernel(me, made, from, op, op_price(me, op, args->module)) ? made : NULL;
    op_pay_host(me, op, args->module);
    return copy_on_host(me, made, from, op) ? made : NULL;
}

/* A vector without elements joins anything, as it always did. */
static bool
is_skipped(const struct tensor *part)
{
    return part->dims == 1 && part->size[0] == 0;
}

static bool
joins(struct task *me, const struct tensor *first, struct tensor *const *list, int number, int dim)
{
    const struct tensor *part = list[number];
    if (part->dims != first->dims)
        return failed(me, E_SHAPE, "cat: Tensors must have same number of dimensions: got %d and %d for tensor number "
                      "%d in the list", first->dims, part->dims, number);
    for (int d = 0; d < part->dims; d++)
        if (d != dim && part->size[d] != first->size[d])
            return failed(me, E_SHAPE, "cat: Sizes of tensors must match except in dimension %d. Expected size %lld "
                          "but got size %lld in dimension %d for tensor number %d in the list", dim,
                          (long long)first->size[d], (long long)part->size[d], d, number);
    return true;
}

static bool
cat_shape(struct task *me, const struct op_args *args, struct plan *plan)
{
    const struct tensor *first = NULL;
    int                  dim = 0;
    for (int i = 0; i < args->list_count; i++) {
        const struct tensor *part = args->list[i];
        if (tensor_device(part) != tensor_device(args->list[0]))
            return failed(me, E_DEVICE, "cat: expected all tensors on one device");
        if (part->dims == 0)
            return failed(me, E_RUNTIME, "cat: a 0-dim tensor (number %d) cannot be joined", i);
        if (is_skipped(part))
            continue;
        if (first == NULL) {
            first = part;
            if (!shape_wrap(me, "cat", part->dims, args->dim, &dim))
                return false;
            plan->dims = part->dims;
            memcpy(plan->size, part->size, sizeof plan->size);
            continue;
        }
        if (!joins(me, first, args->list, i, dim))
            return false;
        plan->size[dim] += part->size[dim];
    }
    plan->dim = dim;
    if (first == NULL)
        plan->dims = 1;
    plan->dtype = dtype_promoted(args->list, args->list_count);
    return args->out != NULL || dtype_exists(me, OP_cat, args->list, args->list_count);
}

/* The pieces go one by one; on a device each is a small kernel of which the first has the price of all. */
static bool
join(struct task *me, const struct op_args *args, const struct plan *plan, struct tensor *made)
{
    int           device = tensor_device(args->list[0]);
    struct tensor wanted = { .dims = plan->dims };
    memcpy(wanted.size, plan->size, sizeof wanted.size);
    if (!tensor_same_shape(made, &wanted) || tensor_device(made) != device)
        return failed(me, E_SHAPE, "cat: output with shape %s doesn't match the result's shape %s",
                      shape_text(made).text, shape_text(&wanted).text);
    if (device == DEVICE_CPU)
        op_pay_host(me, OP_cat, args->module);
    struct price price = device == DEVICE_CPU ? (struct price){ 0 } : op_price(me, OP_cat, args->module);
    int64_t      at = 0;
    for (int i = 0; i < args->list_count; i++) {
        struct tensor *part = args->list[i];
        if (is_skipped(part))
            continue;
        struct tensor piece = *made; /* a view that nobody else sees */
        piece.offset += at * made->stride[plan->dim];
        piece.size[plan->dim] = part->size[plan->dim];
        at += part->size[plan->dim];
        if (!(device == DEVICE_CPU ? copy_on_host(me, &piece, part, OP_cat)
                                   : copy_kernel(me, &piece, part, OP_cat, price)))
            return false;
        price = (struct price){ .host = price.host, .covered = price.covered };
    }
    return true;
}

struct tensor *
run_cat(struct task *me, enum op op, const struct op_args *args)
{
    struct plan plan = { .op = op };
    if (args->list_count < 1)
        return failed_null(me, E_VALUE, "cat: there is nothing to join");
    for (int i = 0; i < args->list_count; i++) {
        if (args->list[i] == NULL)
            return NULL;
    }
    if (!cat_shape(me, args, &plan))
        return NULL;
    int            device = tensor_device(args->list[0]);
    struct tensor *made = args->out != NULL ? args->out : tensor_empty(me, plan.dtype, device, plan.dims, plan.size);
    if (made == NULL)
        return NULL;
    return join(me, args, &plan, made) ? made : NULL;
}
