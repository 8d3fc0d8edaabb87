/* Beside each kernel the CPU's own function: the same parameters, the same memory before, the same bytes after. So
 * whatever runs on the fake proves the kernels that it uses. See fake.h.
 *
 * All pieces of memory that the parameters name are kept; the CPU's function runs, what it made of them is kept and
 * undone; then the rows of the kernel run, one launch after the other, and after the last all is compared: also
 * operands, which neither should have touched. Not compared: workspaces, and what lies behind a fault that both have
 * raised. Products that cuBLAS does never come here. */
#include "fake.h"
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include "reference.h"
#include "tensor/cpu/lstm.h"

static const size_t WORKSPACE = (size_t)8 << 30;     /* of addresses; only what is touched takes memory */

struct kept { struct fake_range range; char *before, *after; };
struct fake_check {
    const struct gpu_kernel *last;                /* row that has run; the next one belongs to the same launch */
    void                    *params;              /* as launched */
    struct cpu_call          run;                 /* an op's params with a fault of our own */
    struct kernel_fault      gpu_fault, cpu_fault;
    int                      count;
    struct kept              kept[FAKE_RANGES];
};

static void *workspace;                           /* under the lock */

static bool
is_op(const struct gpu_kernel *row)
{
    return (int)row->kernel < (int)KERNEL_OPS;
}

static void *
copy_of(const void *bytes, size_t count)
{
    void *copy = malloc(count);
    if (copy == NULL)
        abort();
    return memcpy(copy, bytes, count);
}

/* ---- the CPU's ---- */

static void
run_op(const struct gpu_kernel *row, struct fake_check *check)
{
    struct cpu_call call = check->run;
    for (int i = 0; i < call.inputs; i++)
        if (call.in[i].data == NULL)
            call.in[i].data = &call.constant[i];
    call.workspace = workspace;
    call.blas      = NULL;
    if (call.fault != NULL)
        call.fault = &check->cpu_fault;
    cpu_kernel_of(row->kernel)(&call);
}

static void
run_lstm_forward(const struct lstm_forward *params)
{
    struct lstm_forward job = *params;
    job.s.room = workspace;
    job.s.blas = NULL;
    cpu_lstm_forward(&job);
}

static void
run_lstm_backward(const struct lstm_backward *params)
{
    struct lstm_backward job = *params;
    job.s.room = workspace;
    job.s.blas = NULL;
    cpu_lstm_backward(&job);
}

static void
run_reference(const struct gpu_kernel *row, struct fake_check *check)
{
    if (workspace == NULL)
        workspace = mmap(NULL, WORKSPACE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (workspace == MAP_FAILED)
        abort();
    switch ((int)row->kernel) {
    case KERNEL_update:        cpu_update(check->params); break;
    case KERNEL_reduce:        reference_elements(check->params); break;
    case KERNEL_lstm_forward:  run_lstm_forward(check->params); break;
    case KERNEL_lstm_backward: run_lstm_backward(check->params); break;
    case KERNEL_draw:          cpu_draw(check->params); break;
    case KERNEL_all_reduce:    reference_all_reduce(check->params); break;
    default:                   run_op(row, check); break;
    }
}

/* ---- before the first row ---- */

static void
keep_ranges(struct fake_check *check, enum kernel kernel)
{
    struct fake_range ranges[FAKE_RANGES];
    int               count = fake_ranges(kernel, check->params, ranges);
    for (int i = 0; i < count; i++)
        if (ranges[i].dtype != DTYPE_COUNT)
            check->kept[check->count++] = (struct kept){ ranges[i], copy_of(ranges[i].at, ranges[i].bytes), NULL };
}

static void
begin(struct CUstream_st *stream, const struct op *op)
{
    struct fake_check *check = calloc(1, sizeof *check);
    if (check == NULL)
        abort();
    stream->check = check;
    check->params = copy_of(op->params, op->row->params);
    if (is_op(op->row)) {
        check->run = *(const struct cpu_call *)op->params;
        if (check->run.fault != NULL) {
            check->gpu_fault.zeros = check->cpu_fault.zeros = check->run.fault->zeros;
            check->run.fault       = &check->gpu_fault;
        }
    }
    keep_ranges(check, op->row->kernel);
    run_reference(op->row, check);
    for (int i = 0; i < check->count; i++)
        check->kept[i].after = copy_of(check->kept[i].range.at, check->kept[i].range.bytes);
    for (int i = 0; i < check->count; i++)
        memcpy(check->kept[i].range.at, check->kept[i].before, check->kept[i].range.bytes);
}

/* Rows without work are not launched: a later row of the same kernel, with the same parameters, goes on. */
static bool
goes_on(const struct fake_check *check, const struct op *op)
{
    return check != NULL && check->last != NULL && op->row->kernel == check->last->kernel && op->row > check->last &&
           memcmp(check->params, op->params, op->row->params) == 0;
}

const void *
fake_check_begin(struct CUstream_st *stream, const struct op *op)
{
    if (!goes_on(stream->check, op))
        fake_check_end(stream);
    if (!fake.check)
        return op->params;
    if (stream->check == NULL)
        begin(stream, op);
    return is_op(op->row) ? (const void *)&stream->check->run : op->params;
}

/* ---- after the last ---- */

static void
spell_view(char *text, size_t room, const char *name, const struct cpu_view *view)
{
    size_t n = (size_t)snprintf(text, room, " %s %s [", name, dtype_name(view->dtype));
    for (int d = 0; d < view->dims && n < room; d++)
        n += (size_t)snprintf(text + n, room - n, "%s%" PRId64, d > 0 ? ", " : "", view->size[d]);
    if (n < room)
        snprintf(text + n, room - n, "]");
}

/* What it was launched with. */
static void
spell_call(char *text, size_t room, const struct fake_check *check)
{
    const struct cpu_call *call = check->params;
    text[0]                     = '\0';
    if (!is_op(check->last))
        return;
    spell_view(text, room, "out", &call->out);
    for (int i = 0; i < call->inputs; i++) {
        char name[8];
        snprintf(name, sizeof name, "in[%d]", i);
        spell_view(text + strlen(text), room - strlen(text), name, &call->in[i]);
    }
}

static void
report(const struct fake_check *check, const struct kept *kept, size_t i)
{
    size_t      element = dtype_size(kept->range.dtype);
    const char *gpu = kept->range.at + i * element, *cpu = kept->after + i * element;
    uint64_t    gpu_bits = 0, cpu_bits = 0;
    char        call[500];
    spell_call(call, sizeof call, check);
    memcpy(&gpu_bits, gpu, element);
    memcpy(&cpu_bits, cpu, element);
    fprintf(stderr, "fake CUDA: the kernel %s and the CPU's %s differ at element %zu of %s's memory: %s, the GPU's "
            "%.9g (%#" PRIx64 "), the CPU's %.9g (%#" PRIx64 ");%s\n", check->last->symbol,
            kernel_name(check->last->kernel), i, kept->range.what, dtype_name(kept->range.dtype),
            dtype_fraction(kept->range.dtype, gpu), gpu_bits,
            dtype_fraction(kept->range.dtype, cpu), cpu_bits, call);
    fake_break(cudaErrorAssert);
}

/* False: told. */
static bool
compare(const struct fake_check *check, const struct kept *kept)
{
    size_t element = dtype_size(kept->range.dtype), count = kept->range.bytes / element;
    if (kept->range.is_undefined || memcmp(kept->range.at, kept->after, kept->range.bytes) == 0)
        return true;
    for (size_t i = 0; i < count; i++)
        if (!same_element(kept->range.dtype, kept->range.at + i * element, kept->after + i * element)) {
            report(check, kept, i);
            return false;
        }
    return true;
}

static void
compare_faults(const struct fake_check *check)
{
    if ((check->gpu_fault.raised != 0) == (check->cpu_fault.raised != 0))
        return;
    fprintf(stderr, "fake CUDA: the kernel %s %s an index that it cannot use, and the CPU's %s %s\n",
            check->last->symbol, check->gpu_fault.raised ? "tells of" : "does not tell of",
            kernel_name(check->last->kernel),
            check->gpu_fault.raised ? "does not" : "does");
    fake_break(cudaErrorAssert);
}

static void
pass_on_fault(const struct fake_check *check)
{
    const struct cpu_call *call = check->params;
    if (is_op(check->last) && call->fault != NULL && check->gpu_fault.raised)
        fault_raise(call->fault, check->gpu_fault.index, check->gpu_fault.limit);
}

static void
drop(struct fake_check *check)
{
    for (int i = 0; i < check->count; i++) {
        free(check->kept[i].before);
        free(check->kept[i].after);
    }
    free(check->params);
    free(check);
}

void
fake_check_end(struct CUstream_st *stream)
{
    struct fake_check *check = stream->check;
    bool               same  = true;
    if (check == NULL)
        return;
    stream->check = NULL;
    if (check->last != NULL && fake_broken() == cudaSuccess) {
        compare_faults(check);
        for (int i = 0; i < check->count && same && !check->gpu_fault.raised; i++)
            same = compare(check, &check->kept[i]);
        pass_on_fault(check);
    }
    drop(check);
}

void
fake_check_row_done(struct CUstream_st *stream, const struct op *op)
{
    if (stream->check == NULL)
        return;
    stream->check->last = op->row;
    if (gpu_kernel_next(op->row) == NULL)
        fake_check_end(stream);
}
