/* Random fills by a real device, in `free`: what tensor/fill.c draws by the host elsewhere. Numbers of fractions in
 * one piece come from Philox and the rank's own generator, as tensor/cpu/draw.h says; each fill takes the next block
 * of its device. So devices that are seeded alike and asked for the same draw the same, whoever else draws
 * meanwhile. In `stepped` the host draws for all devices alike, so that a trace is equal on virtual and on real
 * ones.
 *
 * * Interface: philox_turn, then philox_fill. In PyTorch: ATen/cuda/CUDAGeneratorImpl.cpp. */
#include "base/rng.h"
#include "device/real.h"
#include "sched/sched.h"
#include "sched/stage.h"
#include "tensor/internal.h"
#include "tensor/queued.h"

_Static_assert(sizeof(struct draw_job) <= STREAM_CONTEXT, "a job fits into an entry");

bool
philox_turn(struct task *me, const struct tensor *tensor, struct generator *generator, struct philox *at)
{
    if (tensor == NULL || sched_is_stepped(me->sched) || !devices_are_real(me->sched) || task_failed(me) ||
        tensor_device(tensor) == DEVICE_CPU || !dtype_is_float(tensor->dtype) || !tensor_is_contiguous(tensor))
        return false;
    struct generator *own = default_generator(me);
    if (own == NULL || (generator != NULL && generator != own))
        return false;
    if (tensor_count(tensor) > 0)
        return generator_draws(own, tensor_device(tensor), at);
    *at = (struct philox){ 0 };           /* nothing is drawn, so nobody's turn is over */
    return true;
}

/* A number as the tensor's element. */
static double
as_element(enum dtype dtype, double value)
{
    uint64_t element = 0;
    dtype_put_fraction(dtype, &element, value);
    return dtype_fraction(dtype, &element);
}

static struct draw_job
draw_job_of(const struct tensor *tensor, enum draw_kind kind, double a, double b)
{
    const enum dtype dtype = tensor->dtype, compute = dtype == DTYPE_F64 ? DTYPE_F64 : DTYPE_F32;
    struct draw_job  job   = { .kind = kind, .dtype = dtype, .a = as_element(compute, a), .b = as_element(compute, b),
                               .out = tensor_raw(tensor).data, .count = tensor_count(tensor) };
    if (kind == DRAW_UNIFORM) {
        job.a     = as_element(dtype, a);
        job.limit = as_element(dtype, b);
        job.b     = as_element(dtype, as_element(compute, job.limit - job.a));
    }
    return job;
}

bool
philox_fill(struct task *me, struct tensor *tensor, const struct philox_fill *fill, const char *what)
{
    struct draw_job job    = draw_job_of(tensor, fill->kind, fill->a, fill->b);
    struct stream  *stream = stream_current(me, tensor_device(tensor));
    job.seed  = fill->at.seed;
    job.block = fill->at.block;
    if (stream == NULL || !tensor_work(me, tensor))
        return false;
    struct stream_entry entry = {
        .kind = KIND_kernel, .args = { stage_name_id(me, what), tensor->storage->number, tensor_bytes(tensor) },
        .accesses = { tensor_access(tensor, true, what) }, .access_count = 1,
        .effect = cpu_draw, .enqueue = draw_queue, .context = &job, .context_bytes = sizeof job,
        .written = tensor_written(tensor),
    };
    bool done = job.count == 0 || stream_launch(me, stream, &entry);
    tensor_bump(tensor);
    return done;
}
