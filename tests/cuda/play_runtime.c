/* play_runtime: plays the fake CUDA runtime itself, with kernels of its own, some of them wrong on purpose: that it
 * tells of misuse, of wrong kernels and of nothing else. TAP. The runtime's objects are linked in; no plug-in is.
 *
 *     play_runtime PART      one part, in this process */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "fake/fake.h"
#include "play_process.h"
#include "tensor/cpu/lstm.h"

unsigned emulated_thread(void);
unsigned emulated_block(void);
void     emulated_barrier(void);

enum { FLOATS = 300 };

/* ---- kernels: each does its work in the first thread of the first block ---- */

static bool
is_first(void)
{
    return emulated_thread() == 0 && emulated_block() == 0;
}

static void
right_add(const void *params)
{
    if (is_first())
        cpu_add(params);
}

/* One step beside, in the last element. */
static void
wrong_sub(const void *params)
{
    const struct cpu_call *call = params;
    if (!is_first())
        return;
    cpu_sub(call);
    float *last = (float *)call->out.data + call->out.size[0] - 1;
    *last       = nextafterf(*last, 1e30f);
}

static void
greedy_mul(const void *params)
{
    const struct cpu_call *call = params;
    if (!is_first())
        return;
    cpu_mul(call);
    ((float *)call->in[1].data)[7] += 1.0f;
}

/* No number, but other bits than the CPU's. */
static void
other_nan(const void *params)
{
    const struct cpu_call *call = params;
    uint32_t               bits = 0xffc12345u;
    if (!is_first())
        return;
    cpu_neg(call);
    memcpy(call->out.data, &bits, sizeof bits);
}

static void
silent_embedding(const void *params)
{
    struct cpu_call     call  = *(const struct cpu_call *)params;
    struct kernel_fault fault = { 0 };
    call.fault = &fault;
    if (is_first())
        cpu_embedding(&call);
}

static void
skipped_barrier(const void *params)
{
    (void)params;
    if (emulated_thread() != 5)
        emulated_barrier();
}

/* Two rows: the first leaves what only the second makes right. */
static void
first_half(const void *params)
{
    const struct cpu_call *call = params;
    if (is_first())
        memset(call->out.data, 0x11, (size_t)call->out.size[0] * sizeof(float));
}

static void
second_half(const void *params)
{
    if (is_first())
        cpu_relu(params);
}

static void
wrong_lstm(const void *params)
{
    static double       room[4096];
    struct lstm_forward job = *(const struct lstm_forward *)params;
    if (!is_first())
        return;
    job.s.room = room;
    cpu_lstm_forward(&job);
    job.cells[2] += 1.0f;
}

/* ---- the table ---- */

#define ADDRESS(function) (const void *)(uintptr_t)(function)
static struct gpu_kernel rows[] = {
    { KERNEL_cpu_add, NULL, "cpu_add", GRID_OUT, ALONE, sizeof(struct cpu_call) },
    { KERNEL_cpu_sub, NULL, "cpu_sub", GRID_OUT, ALONE, sizeof(struct cpu_call) },
    { KERNEL_cpu_mul, NULL, "cpu_mul", GRID_OUT, ALONE, sizeof(struct cpu_call) },
    { KERNEL_cpu_neg, NULL, "cpu_neg", GRID_OUT, ALONE, sizeof(struct cpu_call) },
    { KERNEL_cpu_embedding, NULL, "cpu_embedding", GRID_OUT, ALONE, sizeof(struct cpu_call) },
    { KERNEL_cpu_div, NULL, "cpu_div", GRID_OUT, TOGETHER, sizeof(struct cpu_call) },
    { KERNEL_cpu_relu, NULL, "cpu_relu_first", GRID_OUT, ALONE, sizeof(struct cpu_call) },
    { KERNEL_cpu_relu, NULL, "cpu_relu_second", GRID_OUT, ALONE, sizeof(struct cpu_call) },
    { KERNEL_lstm_forward, NULL, "lstm_forward", GRID_FULL, ALONE, sizeof(struct lstm_forward) },
};
enum { ROWS = sizeof rows / sizeof *rows };

static void
fill_table(void)
{
    static void (*const functions[ROWS])(const void *) = {
        right_add, wrong_sub, greedy_mul, other_nan, silent_embedding, skipped_barrier, first_half, second_half,
        wrong_lstm,
    };
    for (int i = 0; i < ROWS; i++)
        rows[i].address = ADDRESS(functions[i]);
}

const struct gpu_kernel *
gpu_kernel_first(enum kernel kernel)
{
    for (int i = 0; i < ROWS; i++)
        if (rows[i].kernel == kernel)
            return &rows[i];
    return NULL;
}

const struct gpu_kernel *
gpu_kernel_next(const struct gpu_kernel *row)
{
    return row + 1 < rows + ROWS && row[1].kernel == row->kernel ? row + 1 : NULL;
}

size_t
gpu_kernel_count(void)
{
    return ROWS;
}

const struct gpu_kernel *
gpu_kernel_at(size_t i)
{
    return &rows[i];
}

/* ---- a GPU, a stream, memory ---- */

struct bench { struct play *p; cudaStream_t stream; float *gpu, *host; };

static bool
answers(struct play *p, cudaError_t error, cudaError_t wanted, const char *what)
{
    return play_that(p, error == wanted, "%s answers %s, not %s", what, cudaGetErrorName(error),
                     cudaGetErrorName(wanted));
}

static void
bench_open(struct bench *b, struct play *p)
{
    *b = (struct bench){ .p = p };
    answers(p, cudaStreamCreateWithFlags(&b->stream, cudaStreamNonBlocking), cudaSuccess, "a stream");
    answers(p, cudaMalloc((void **)&b->gpu, 4 * FLOATS * sizeof(float)), cudaSuccess, "memory");
    answers(p, cudaHostAlloc((void **)&b->host, 4 * FLOATS * sizeof(float), cudaHostAllocPortable), cudaSuccess,
            "pinned memory");
    for (int i = 0; i < 4 * FLOATS; i++)
        b->host[i] = (float)(i % 17) - 8.0f;
}

static void
bench_close(struct bench *b)
{
    answers(b->p, cudaStreamDestroy(b->stream), cudaSuccess, "destroying the stream");
    answers(b->p, cudaFree(b->gpu), cudaSuccess, "freeing memory");
    answers(b->p, cudaFreeHost(b->host), cudaSuccess, "freeing pinned memory");
}

static cudaError_t
down(struct bench *b)
{
    return cudaMemcpyAsync(b->gpu, b->host, 4 * FLOATS * sizeof(float), cudaMemcpyHostToDevice, b->stream);
}

static cudaError_t
up(struct bench *b)
{
    return cudaMemcpyAsync(b->host, b->gpu, 4 * FLOATS * sizeof(float), cudaMemcpyDeviceToHost, b->stream);
}

static struct cpu_view
row_of(void *data, int64_t count)
{
    return (struct cpu_view){ .data = data, .dtype = DTYPE_F32, .dims = 1, .size = { count }, .stride = { 1 } };
}

static struct cpu_call
call_of(float *m, int inputs)
{
    return (struct cpu_call){ .in = { row_of(m, FLOATS), row_of(m + FLOATS, FLOATS) },
                              .out = row_of(m + 2 * FLOATS, FLOATS),
                              .inputs = inputs, .alpha = 1, .compute = DTYPE_F32, .common = DTYPE_F32 };
}

static cudaError_t
launch_on(cudaStream_t stream, const struct gpu_kernel *row, unsigned blocks, unsigned threads, void *params)
{
    dim3  grid = { blocks, 1, 1 }, block = { threads, 1, 1 };
    void *arguments[] = { params };
    return cudaLaunchKernel(row->address, grid, block, arguments, 0, stream);
}

/* All rows of a kernel, on fresh numbers; what the stream's end then answers. */
static cudaError_t
run(struct bench *b, enum kernel kernel, int inputs)
{
    struct cpu_call call = call_of(b->gpu, inputs);
    answers(b->p, down(b), cudaSuccess, "a copy");
    for (const struct gpu_kernel *row = gpu_kernel_first(kernel); row != NULL; row = gpu_kernel_next(row))
        if (fake_broken() == cudaSuccess)
            answers(b->p, launch_on(b->stream, row, 2, BLOCK_THREADS, &call), cudaSuccess, "a launch");
    return cudaStreamSynchronize(b->stream);
}

/* ---- order ---- */

/* Set, then asked: 0xff for as long as nothing has run. */
static void
part_late(struct play *p)
{
    struct bench b;
    cudaEvent_t  event;
    bench_open(&b, p);
    answers(p, cudaEventCreateWithFlags(&event, cudaEventDisableTiming), cudaSuccess, "an event");
    answers(p, cudaMemsetAsync(b.gpu, 0, FLOATS * sizeof(float), b.stream), cudaSuccess, "setting");
    answers(p, up(&b), cudaSuccess, "a copy");
    answers(p, cudaEventRecord(event, b.stream), cudaSuccess, "recording");
    play_that(p, b.host[0] == -8.0f, "the copy has run before anybody waited: %g", (double)b.host[0]);
    answers(p, cudaEventQuery(event), cudaErrorNotReady, "asking once");
    play_that(p, b.host[0] == -8.0f, "the copy has run when asked once");
    while (cudaEventQuery(event) == cudaErrorNotReady)
        ;
    play_that(p, b.host[0] == 0.0f, "the event is reached, the copy before it has not run: %g", (double)b.host[0]);
    play_that(p, isnan(b.host[FLOATS]), "fresh memory holds %g", (double)b.host[FLOATS]);
    answers(p, cudaEventDestroy(event), cudaSuccess, "destroying the event");
    bench_close(&b);
}

static void
part_at_once(struct play *p)
{
    struct bench b;
    bench_open(&b, p);
    answers(p, cudaMemsetAsync(b.gpu, 0, FLOATS * sizeof(float), b.stream), cudaSuccess, "setting");
    answers(p, up(&b), cudaSuccess, "a copy");
    play_that(p, b.host[0] == 0.0f, "the copy has not run: %g", (double)b.host[0]);
    bench_close(&b);
}

/* Whether each of many sets in two streams has run, as far as the host sees: a word of bits. */
static void
part_drawn(struct play *p)
{
    struct bench b;
    uint64_t     seen = 0;
    cudaStream_t other;
    bench_open(&b, p);
    answers(p, cudaStreamCreateWithFlags(&other, cudaStreamNonBlocking), cudaSuccess, "a stream");
    for (int i = 0; i < 60; i++) {
        memset(b.host, 0, 4);
        answers(p, cudaMemcpyAsync(b.host, b.gpu, 4, cudaMemcpyDeviceToHost, i % 2 == 0 ? b.stream : other),
                cudaSuccess, "a copy");
        seen = seen << 1 | (b.host[0] != 0.0f);
    }
    printf("# drawn %016llx\n", (unsigned long long)seen);
    play_that(p, seen != 0 && seen != ((uint64_t)1 << 60) - 1, "all or none of the copies have run at once");
    answers(p, cudaStreamDestroy(other), cudaSuccess, "destroying the stream");
    bench_close(&b);
}

/* A copy from or to memory that is not pinned is over when the call is. */
static void
part_pageable(struct play *p)
{
    struct bench b;
    float        here[FLOATS] = { 0 };
    bench_open(&b, p);
    answers(p, down(&b), cudaSuccess, "a copy");
    answers(p, cudaMemcpyAsync(here, b.gpu, sizeof here, cudaMemcpyDeviceToHost, b.stream), cudaSuccess,
            "a copy to the stack");
    play_that(p, memcmp(here, b.host, sizeof here) == 0, "it is not there");
    bench_close(&b);
}

static void
count_up(void *context)
{
    ++*(int *)context;
}

static void
part_host_functions(struct play *p)
{
    struct bench b;
    int          count = 0;
    bench_open(&b, p);
    for (int i = 0; i < 5; i++)
        answers(p, cudaLaunchHostFunc(b.stream, count_up, &count), cudaSuccess, "a host function");
    answers(p, cudaStreamSynchronize(b.stream), cudaSuccess, "waiting");
    play_that(p, count == 5, "%d of 5 host functions have run", count);
    bench_close(&b);
}

static void
part_times(struct play *p)
{
    struct bench b;
    cudaEvent_t  begin, end;
    float        ms = -1;
    bench_open(&b, p);
    answers(p, cudaEventCreateWithFlags(&begin, cudaEventDefault), cudaSuccess, "an event");
    answers(p, cudaEventCreateWithFlags(&end, cudaEventDefault), cudaSuccess, "an event");
    answers(p, cudaEventRecord(begin, b.stream), cudaSuccess, "recording");
    answers(p, down(&b), cudaSuccess, "a copy");
    answers(p, cudaEventRecord(end, b.stream), cudaSuccess, "recording");
    answers(p, cudaEventSynchronize(end), cudaSuccess, "waiting");
    answers(p, cudaEventElapsedTime(&ms, begin, end), cudaSuccess, "the time between");
    play_that(p, ms > 0, "a copy takes %g ms", (double)ms);
    answers(p, cudaEventDestroy(begin), cudaSuccess, "destroying an event");
    answers(p, cudaEventDestroy(end), cudaSuccess, "destroying an event");
    bench_close(&b);
}

/* ---- misuse ---- */

static void
part_default_stream(struct play *p)
{
    struct bench b;
    bench_open(&b, p);
    b.stream = NULL;
    answers(p, down(&b), cudaErrorInvalidResourceHandle, "a copy in the default stream");
}

static void
part_waiting_stream(struct play *p)
{
    cudaStream_t stream;
    answers(p, cudaStreamCreateWithFlags(&stream, cudaStreamDefault), cudaErrorInvalidValue, "a stream that waits for "
                                                                                             "the default one");
}

static void
part_wrong_gpu(struct play *p)
{
    struct bench b;
    bench_open(&b, p);
    answers(p, cudaSetDevice(1), cudaSuccess, "choosing GPU 1");
    answers(p, down(&b), cudaErrorInvalidResourceHandle, "a copy in a stream of GPU 0");
}

static void
part_destroyed_stream(struct play *p)
{
    struct bench b;
    bench_open(&b, p);
    answers(p, cudaStreamDestroy(b.stream), cudaSuccess, "destroying the stream");
    answers(p, down(&b), cudaErrorInvalidResourceHandle, "a copy in it");
}

static void
part_destroyed_event(struct play *p)
{
    struct bench b;
    cudaEvent_t  event;
    bench_open(&b, p);
    answers(p, cudaEventCreateWithFlags(&event, cudaEventDisableTiming), cudaSuccess, "an event");
    answers(p, cudaEventDestroy(event), cudaSuccess, "destroying it");
    answers(p, cudaEventRecord(event, b.stream), cudaErrorInvalidResourceHandle, "recording it");
}

static void
part_unrecorded(struct play *p)
{
    struct bench b;
    cudaEvent_t  event;
    bench_open(&b, p);
    answers(p, cudaEventCreateWithFlags(&event, cudaEventDisableTiming), cudaSuccess, "an event");
    answers(p, cudaStreamWaitEvent(b.stream, event, 0), cudaErrorInvalidValue, "waiting for it");
}

static void
part_freed_twice(struct play *p)
{
    struct bench b;
    bench_open(&b, p);
    answers(p, cudaFree(b.gpu), cudaSuccess, "freeing memory");
    answers(p, cudaFree(b.gpu), cudaErrorInvalidValue, "freeing it again");
}

static void
part_pinned_freed_twice(struct play *p)
{
    struct bench b;
    bench_open(&b, p);
    answers(p, cudaFreeHost(b.host), cudaSuccess, "freeing pinned memory");
    answers(p, cudaFreeHost(b.host), cudaErrorInvalidValue, "freeing it again");
}

static void
part_pinned_freed_while_used(struct play *p)
{
    struct bench b;
    bench_open(&b, p);
    answers(p, down(&b), cudaSuccess, "a copy");
    answers(p, cudaFreeHost(b.host), cudaErrorInvalidValue, "freeing what it reads");
}

static void
part_past_the_end(struct play *p)
{
    struct bench b;
    bench_open(&b, p);
    answers(p, cudaMemsetAsync(b.gpu, 0, 4 * FLOATS * sizeof(float) + 1, b.stream), cudaErrorInvalidValue,
            "setting one byte too many");
}

static void
part_wrong_side(struct play *p)
{
    struct bench b;
    bench_open(&b, p);
    answers(p, cudaMemcpyAsync(b.host, b.gpu, 4, cudaMemcpyHostToDevice, b.stream), cudaErrorInvalidValue,
            "a copy the wrong way");
}

static void
part_wrong_grid(struct play *p)
{
    struct bench    b;
    struct cpu_call call;
    bench_open(&b, p);
    call = call_of(b.gpu, 2);
    answers(p, launch_on(b.stream, &rows[0], 0, BLOCK_THREADS, &call), cudaErrorInvalidConfiguration,
            "a launch of no blocks");
    answers(p, launch_on(b.stream, &rows[0], 1, 2048, &call), cudaErrorInvalidConfiguration,
            "a launch of 2048 threads");
}

static void
part_unknown_kernel(struct play *p)
{
    struct bench      b;
    struct cpu_call   call;
    struct gpu_kernel none = { .address = &b };
    bench_open(&b, p);
    call = call_of(b.gpu, 2);
    answers(p, launch_on(b.stream, &none, 1, BLOCK_THREADS, &call), cudaErrorInvalidDeviceFunction, "a launch");
}

static void
part_kernel_on_host(struct play *p)
{
    struct bench    b;
    struct cpu_call call;
    float           here[FLOATS];
    bench_open(&b, p);
    call             = call_of(b.gpu, 2);
    call.in[0].data  = here;
    answers(p, launch_on(b.stream, &rows[0], 1, BLOCK_THREADS, &call), cudaErrorIllegalAddress, "a launch");
    answers(p, cudaStreamSynchronize(b.stream), cudaErrorIllegalAddress, "every later call");
}

static void
calls_cuda(void *context)
{
    struct bench *b = context;
    answers(b->p, cudaStreamSynchronize(b->stream), cudaErrorNotPermitted, "a call out of a host function");
}

static void
part_host_function_calls(struct play *p)
{
    struct bench b;
    bench_open(&b, p);
    answers(p, cudaLaunchHostFunc(b.stream, calls_cuda, &b), cudaSuccess, "a host function");
    answers(p, cudaStreamSynchronize(b.stream), cudaSuccess, "waiting");
}

/* ---- kernels against the CPU's ---- */

static void
part_right(struct play *p)
{
    struct bench b;
    bench_open(&b, p);
    answers(p, run(&b, KERNEL_cpu_add, 2), cudaSuccess, "the end of a right kernel");
    answers(p, run(&b, KERNEL_cpu_relu, 1), cudaSuccess, "the end of one of two rows");
    answers(p, run(&b, KERNEL_cpu_add, 2), cudaSuccess, "the end of another");
    answers(p, up(&b), cudaSuccess, "a copy");
    answers(p, cudaStreamSynchronize(b.stream), cudaSuccess, "waiting");
    for (int i = 0; i < FLOATS; i++)
        play_that(p, b.host[2 * FLOATS + i] == b.host[i] + b.host[FLOATS + i], "element %d is %g", i,
                  (double)b.host[2 * FLOATS + i]);
    bench_close(&b);
}

static void
part_no_numbers(struct play *p)
{
    struct bench b;
    bench_open(&b, p);
    b.host[0] = NAN;
    answers(p, run(&b, KERNEL_cpu_neg, 1), cudaSuccess, "the end of a kernel that has other bits in what is no number");
    bench_close(&b);
}

static void
part_wrong(struct play *p)
{
    struct bench b;
    bench_open(&b, p);
    answers(p, run(&b, KERNEL_cpu_sub, 2), cudaErrorAssert, "the end of a wrong kernel");
}

static void
part_unchecked(struct play *p)
{
    struct bench b;
    bench_open(&b, p);
    answers(p, run(&b, KERNEL_cpu_sub, 2), cudaSuccess, "the end of a wrong kernel that nobody checks");
    bench_close(&b);
}

static void
part_greedy(struct play *p)
{
    struct bench b;
    bench_open(&b, p);
    answers(p, run(&b, KERNEL_cpu_mul, 2), cudaErrorAssert, "the end of a kernel that writes an operand");
}

static void
part_silent(struct play *p)
{
    struct bench         b;
    struct kernel_fault *fault;
    bench_open(&b, p);
    answers(p, cudaHostAlloc((void **)&fault, sizeof *fault, cudaHostAllocPortable), cudaSuccess, "pinned memory");
    *fault = (struct kernel_fault){ 0 };
    struct cpu_call call = call_of(b.gpu, 2);
    call.in[0].dims      = call.out.dims = 2;
    call.in[0].size[1]   = call.out.size[1] = call.in[0].stride[1] = call.out.stride[1] = 1;
    call.in[1]           = row_of(b.gpu + 2 * FLOATS, 2);
    call.in[1].dtype     = DTYPE_I64;
    call.out             = call.in[0];
    call.out.data        = b.gpu + 3 * FLOATS;
    call.out.size[0]     = 2;
    call.fault           = fault;
    ((int64_t *)(void *)(b.host + 2 * FLOATS))[0] = 2;
    ((int64_t *)(void *)(b.host + 2 * FLOATS))[1] = -1;
    answers(p, down(&b), cudaSuccess, "a copy");
    answers(p, launch_on(b.stream, gpu_kernel_first(KERNEL_cpu_embedding), 1, BLOCK_THREADS, &call), cudaSuccess,
            "a launch");
    answers(p, cudaStreamSynchronize(b.stream), cudaErrorAssert, "the end of a kernel that is silent about an index");
}

static void
part_wrong_lstm(struct play *p)
{
    struct bench b;
    float       *m;
    bench_open(&b, p);
    m = b.gpu;
    struct lstm_forward job = { .s = { .steps = 2, .rows = 1, .wide = 2, .weight = m, .room = m + 900 }, .h = m + 16,
                                .c = m + 18, .gates = m + 100, .cells = m + 200, .out = m + 300 };
    answers(p, down(&b), cudaSuccess, "a copy");
    answers(p, launch_on(b.stream, gpu_kernel_first(KERNEL_lstm_forward), 1, BLOCK_THREADS, &job), cudaSuccess,
            "a launch");
    answers(p, cudaStreamSynchronize(b.stream), cudaErrorAssert, "the end of a wrong LSTM");
}

static void
part_stuck(struct play *p)
{
    struct bench b;
    bench_open(&b, p);
    answers(p, run(&b, KERNEL_cpu_div, 2), cudaErrorLaunchTimeout, "the end of a kernel that is stuck");
}

static void
part_words(struct play *p)
{
    int count;
    (void)cudaGetDeviceCount(&count);
    play_that(p, false, "words that it does not know are passed over");
}

/* ---- all ---- */

static const struct part parts[] = {
    { "late", part_late, "work runs when somebody waits, or has asked often", 1, false, "order=lazy", NULL, false },
    { "at_once", part_at_once, "work runs at once", 1, false, "order=eager", NULL, false },
    { "drawn", part_drawn, "work runs at drawn points", 1, false, "order=seed:7", NULL, false },
    { "pageable", part_pageable, "a copy to memory that is not pinned is over when the call is", 1, true, "", NULL,
      false },
    { "host_functions", part_host_functions, "host functions run in their turn", 1, true, "", NULL, false },
    { "times", part_times, "events tell the time between them", 1, true, "", NULL, false },
    { "default_stream", part_default_stream, "the default stream is told of", 1, false, "",
      "the default stream is used", false },
    { "waiting_stream", part_waiting_stream, "a stream that waits for it is told of", 1, false, "",
      "waits for the default", false },
    { "wrong_gpu", part_wrong_gpu, "a stream is told of that is used while another GPU is current", 1, false,
      "devices=2", "while GPU 1 is current", false },
    { "destroyed_stream", part_destroyed_stream, "a destroyed stream is told of", 1, false, "",
      "the stream was destroyed", false },
    { "destroyed_event", part_destroyed_event, "a destroyed event is told of", 1, false, "",
      "an event that was destroyed", false },
    { "unrecorded", part_unrecorded, "a wait for an event that was never recorded is told of", 1, false, "",
      "never recorded", false },
    { "freed_twice", part_freed_twice, "memory that is freed twice is told of", 1, false, "", "was freed before",
      false },
    { "pinned_twice", part_pinned_freed_twice, "so is pinned memory", 1, false, "", "was freed before", false },
    { "pinned_used", part_pinned_freed_while_used, "pinned memory that is freed while a copy reads it is told of", 1,
      false, "", "which is queued, uses it", false },
    { "past_the_end", part_past_the_end, "an operation over the end of a piece is told of", 1, false, "",
      "lie in no one piece", false },
    { "wrong_side", part_wrong_side, "a copy that takes the host's memory for a GPU's is told of", 1, false, "",
      "is said to be GPU 0's", false },
    { "wrong_grid", part_wrong_grid, "wrong grids are told of", 1, false, "", "blocks of 2048 x 1 x 1 threads", false },
    { "unknown_kernel", part_unknown_kernel, "a kernel that is not in the table is told of", 1, false, "",
      "not in the table", false },
    { "kernel_on_host", part_kernel_on_host, "a kernel on the host's memory is told of", 1, false, "",
      "of the host's memory: in[0]", false },
    { "host_function_calls", part_host_function_calls, "a host function that calls CUDA is told of", 1, false, "",
      "may not call CUDA", false },
    { "right", part_right, "right kernels, also of several rows, pass", 1, true, "", NULL, false },
    { "no_numbers", part_no_numbers, "bits of what is no number may differ", 1, false, "", NULL, false },
    { "wrong", part_wrong, "a kernel that is one step beside the CPU's is told of by name and element", 1, true, "",
      "the kernel cpu_sub and the CPU's cpu_sub differ at element 299 of out's memory", false },
    { "unchecked", part_unchecked, "check=off compares nothing", 1, false, "check=off", NULL, false },
    { "greedy", part_greedy, "a kernel that writes an operand is told of", 1, false, "",
      "differ at element 7 of in[1]'s memory", false },
    { "silent", part_silent, "a kernel that does not tell of a wrong index is told of", 1, false, "",
      "does not tell of an index", false },
    { "wrong_lstm", part_wrong_lstm, "so is one that does the steps of an LSTM wrongly", 1, false, "",
      "differ at element 2 of cells's memory", false },
    { "stuck", part_stuck, "a barrier that a thread never reaches is told of", 1, false, "", "is stuck in block",
      false },
    { "words", part_words, "unknown words in the setting end the process", 1, false, "ordre=lazy", NULL, true },
};

int
main(int argc, char **argv)
{
    struct play p = { .is_fake = true };
    char *const again[] = { argv[0], NULL };
    fill_table();
    if (argc == 1)
        return play_processes(parts, (int)(sizeof parts / sizeof *parts), again, 1, true);
    for (size_t i = 0; i < sizeof parts / sizeof *parts; i++)
        if (strcmp(parts[i].name, argv[1]) == 0)
            return play_part_here(&p, &parts[i]);
    fprintf(stderr, "play_runtime [PART]\n");
    return 2;
}
