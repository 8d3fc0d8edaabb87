/* The fake's streams and events, and when what is queued runs. See fake.h.
 *
 * Work runs on the thread that calls. `lazy`: only what somebody waits for, or has asked for often enough that the
 * asking has to end some day. `eager`: at once. `seed:N`: before each call a drawn number of operations of drawn
 * streams. */
#include "fake.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { ASKED_ENOUGH = 3, DRAWN_MOST = 4 };

static struct {
    struct CUstream_st *first, *closed;
    struct CUevent_st  *events;
    pthread_cond_t      host_function_over;
    uint64_t            clock;
} queues = { .host_function_over = PTHREAD_COND_INITIALIZER };

static _Thread_local bool in_host_function;

/* ---- operations ---- */

static struct op *
op_keep(struct op *op)
{
    if (op != NULL)
        op->keepers++;
    return op;
}

static void
op_drop(struct op *op)
{
    if (op == NULL || --op->keepers > 0)
        return;
    op_drop(op->target);
    free(op->params);
    free(op);
}

/* The GPU's clock: the host's, so that work lies behind its launch and before who has waited for it. It rises. */
static uint64_t
tick(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    uint64_t ns  = (uint64_t)now.tv_sec * 1000000000 + (uint64_t)now.tv_nsec;
    queues.clock = ns > queues.clock ? ns : queues.clock + 1;
    return queues.clock;
}

struct op *
fake_queue(cudaStream_t stream, enum op_kind kind)
{
    struct op *op = calloc(1, sizeof *op);
    if (op == NULL)
        abort();
    op->kind    = kind;
    op->keepers = 1;
    if (stream->tail != NULL)
        stream->tail->next = op;
    else
        stream->head = op;
    stream->tail = op;
    return op;
}

/* ---- running ---- */

/* Host functions may take locks whose owners are in a call of ours: they run without the lock, the stream is theirs. */
static void
run_host_function(struct CUstream_st *stream, const struct op *op)
{
    stream->is_busy = true;
    pthread_mutex_unlock(fake_lock());
    in_host_function = true;
    op->function(op->context);
    in_host_function = false;
    pthread_mutex_lock(fake_lock());
    stream->is_busy = false;
    pthread_cond_broadcast(&queues.host_function_over);
}

/* Nothing holds the first one up. */
static void
run_first(struct CUstream_st *stream)
{
    struct op *op = stream->head;
    if (fake_broken() != cudaSuccess)
        ;                                    /* what is queued behind a failure never runs */
    else if (op->kind == OP_HOST)
        run_host_function(stream, op);
    else
        fake_run(stream, op);
    op->when    = tick();
    op->is_done = true;
    stream->head = op->next;
    if (stream->head == NULL)
        stream->tail = NULL;
    op_drop(op);
}

static bool
can_run(const struct CUstream_st *stream)
{
    const struct op *op = stream->head;
    return op != NULL && !stream->is_busy && !op->is_never && (op->kind != OP_WAIT || op->target->is_done);
}

/* The stream whose first operation has to run before this one's can: through waits for others. */
static struct CUstream_st *
holder_of(struct CUstream_st *stream)
{
    while (stream->head->kind == OP_WAIT && !stream->head->target->is_done)
        stream = stream->head->target_stream;
    return stream;
}

/* A real call would not come back from what is never reached: the fake answers, as a GPU's watchdog does. */
static cudaError_t
stuck(void)
{
    fprintf(stderr, "fake CUDA: a call waits for an event that is never reached, which would be for ever\n");
    fake_break(cudaErrorLaunchTimeout);
    return cudaErrorLaunchTimeout;
}

cudaError_t
fake_run_until(cudaStream_t stream, const struct op *op)
{
    while (op != NULL ? !op->is_done : stream->head != NULL) {
        struct CUstream_st *holder = holder_of(stream);
        if (holder->is_busy)
            pthread_cond_wait(&queues.host_function_over, fake_lock());
        else if (holder->head->is_never)
            return stuck();
        else
            run_first(holder);
    }
    fake_check_end(stream);
    return fake_broken();
}

cudaError_t
fake_run_all(int device)
{
    cudaError_t error = cudaSuccess;
    for (struct CUstream_st *stream = queues.first; stream != NULL && error == cudaSuccess; stream = stream->next)
        if (device < 0 || stream->device == device)
            error = fake_run_until(stream, NULL);
    return error;
}

/* ---- as the order allows ---- */

static void
run_what_can(void)
{
    bool ran = true;
    while (ran) {
        ran = false;
        for (struct CUstream_st *stream = queues.first; stream != NULL; stream = stream->next)
            while (can_run(stream)) {
                run_first(stream);
                ran = true;
            }
    }
}

static struct CUstream_st *
drawn_stream(void)
{
    unsigned            count = 0;
    struct CUstream_st *drawn = NULL;
    for (struct CUstream_st *stream = queues.first; stream != NULL; stream = stream->next)
        if (can_run(stream) && fake_random() % ++count == 0)
            drawn = stream;
    return drawn;
}

void
fake_run_some(void)
{
    if (fake.order == ORDER_EAGER)
        run_what_can();
    if (fake.order != ORDER_SEED)
        return;
    for (uint64_t n = fake_random() % DRAWN_MOST; n > 0; n--) {
        struct CUstream_st *stream = drawn_stream();
        if (stream == NULL)
            return;
        run_first(stream);
    }
}

void
fake_queued(cudaStream_t stream)
{
    (void)stream;
    fake_run_some();
}

/* Whoever asks again and again is answered some day. `op` is kept by who asks. */
static cudaError_t
ask(cudaStream_t stream, struct op *op)
{
    if (op == NULL || op->is_done)
        return cudaSuccess;
    if (op->is_never || fake.order != ORDER_LAZY || ++op->asked < ASKED_ENOUGH)
        return cudaErrorNotReady;
    for (struct CUstream_st *holder; !op->is_done; run_first(holder)) {
        holder = holder_of(stream);
        if (holder->is_busy || holder->head->is_never)
            return cudaErrorNotReady;
    }
    return fake_broken();
}

bool
fake_is_used(const void *memory, size_t bytes, const char **by)
{
    for (struct CUstream_st *stream = queues.first; stream != NULL; stream = stream->next)
        for (const struct op *op = stream->head; op != NULL; op = op->next)
            if (fake_op_uses(op, fake_reach(memory), bytes, by))
                return true;
    return false;
}

/* ---- streams ---- */

cudaError_t
fake_stream_wrong(cudaStream_t stream)
{
    if (in_host_function)
        return fake_misuse(cudaErrorNotPermitted, "a host function in a stream may not call CUDA");
    if (stream == NULL || stream == cudaStreamLegacy || stream == cudaStreamPerThread)
        return fake_misuse(cudaErrorInvalidResourceHandle, "the default stream is used; each call names its own");
    if (stream->is_closed)
        return fake_misuse(cudaErrorInvalidResourceHandle, "the stream was destroyed");
    if (stream->device != fake_current())
        return fake_misuse(cudaErrorInvalidResourceHandle, "a stream of GPU %d is used while GPU %d is current",
                           stream->device, fake_current());
    return cudaSuccess;
}

static cudaError_t
stream_create(cudaStream_t *out, unsigned flags, int priority)
{
    if (flags != cudaStreamNonBlocking)
        return fake_misuse(cudaErrorInvalidValue, "a stream that waits for the default stream");
    struct CUstream_st *stream = calloc(1, sizeof *stream);
    if (stream == NULL)
        abort();
    stream->device   = fake_current();
    stream->priority = priority;
    struct CUstream_st **end = &queues.first;      /* in the order of their making: runs repeat */
    while (*end != NULL)
        end = &(*end)->next;
    *end = *out = stream;
    return cudaSuccess;
}

cudaError_t
cudaStreamCreateWithPriority(cudaStream_t *out, unsigned flags, int priority)
{
    cudaError_t error = fake_enter("cudaStreamCreateWithPriority");
    return fake_leave(error != cudaSuccess ? error : stream_create(out, flags, priority));
}

cudaError_t
cudaStreamCreateWithFlags(cudaStream_t *out, unsigned flags)
{
    cudaError_t error = fake_enter("cudaStreamCreateWithFlags");
    return fake_leave(error != cudaSuccess ? error : stream_create(out, flags, 0));
}

cudaError_t
cudaStreamGetPriority(cudaStream_t stream, int *priority)
{
    cudaError_t error = fake_enter("cudaStreamGetPriority");
    if (error == cudaSuccess && (error = fake_stream_wrong(stream)) == cudaSuccess)
        *priority = stream->priority;
    return fake_leave(error);
}

/* The closed one stays in memory, out of the list: it has nothing queued any more. */
static cudaError_t
stream_destroy(cudaStream_t stream)
{
    cudaError_t error = fake_run_until(stream, NULL);
    if (error != cudaSuccess)
        return error;
    stream->is_closed = true;
    struct CUstream_st **at = &queues.first;
    while (*at != stream)
        at = &(*at)->next;
    *at          = stream->next;
    stream->next = queues.closed;
    queues.closed = stream;
    return cudaSuccess;
}

cudaError_t
cudaStreamDestroy(cudaStream_t stream)
{
    cudaError_t error = fake_enter("cudaStreamDestroy");
    if (error == cudaSuccess)
        error = fake_stream_wrong(stream);
    return fake_leave(error != cudaSuccess ? error : stream_destroy(stream));
}

cudaError_t
cudaStreamSynchronize(cudaStream_t stream)
{
    cudaError_t error = fake_enter("cudaStreamSynchronize");
    if (error == cudaSuccess)
        error = fake_stream_wrong(stream);
    return fake_leave(error != cudaSuccess ? error : fake_run_until(stream, NULL));
}

cudaError_t
cudaStreamQuery(cudaStream_t stream)
{
    cudaError_t error = fake_enter("cudaStreamQuery");
    if (error == cudaSuccess)
        error = fake_stream_wrong(stream);
    if (error == cudaSuccess) {
        struct op *last = op_keep(stream->tail);     /* it may run, and go, while it is asked for */
        error = ask(stream, last);
        op_drop(last);
    }
    return fake_leave(error);
}

cudaError_t
cudaDeviceSynchronize(void)
{
    cudaError_t error = fake_enter("cudaDeviceSynchronize");
    return fake_leave(error != cudaSuccess ? error : fake_run_all(fake_current()));
}

cudaError_t
cudaLaunchHostFunc(cudaStream_t stream, cudaHostFn_t function, void *context)
{
    cudaError_t error = fake_enter("cudaLaunchHostFunc");
    if (error == cudaSuccess && (error = fake_stream_wrong(stream)) == cudaSuccess) {
        struct op *op = fake_queue(stream, OP_HOST);
        op->function  = function;
        op->context   = context;
        fake_queued(stream);
    }
    return fake_leave(error);
}

/* ---- events ---- */

static cudaError_t
event_wrong(cudaEvent_t event)
{
    if (in_host_function)
        return fake_misuse(cudaErrorNotPermitted, "a host function in a stream may not call CUDA");
    if (event == NULL || event->is_closed)
        return fake_misuse(cudaErrorInvalidResourceHandle, "an event that was destroyed, or is none");
    return cudaSuccess;
}

cudaError_t
cudaEventCreateWithFlags(cudaEvent_t *out, unsigned flags)
{
    cudaError_t error = fake_enter("cudaEventCreateWithFlags");
    if (error != cudaSuccess)
        return fake_leave(error);
    struct CUevent_st *event = calloc(1, sizeof *event);
    if (event == NULL)
        abort();
    event->device     = fake_current();
    event->takes_time = (flags & cudaEventDisableTiming) == 0;
    event->next       = queues.events;
    queues.events     = event;
    *out              = event;
    return fake_leave(cudaSuccess);
}

cudaError_t
cudaEventCreate(cudaEvent_t *out)
{
    return cudaEventCreateWithFlags(out, cudaEventDefault);
}

cudaError_t
cudaEventDestroy(cudaEvent_t event)
{
    cudaError_t error = fake_enter("cudaEventDestroy");
    if (error == cudaSuccess && (error = event_wrong(event)) == cudaSuccess) {
        event->is_closed = true;
        op_drop(event->mark);
        event->mark = NULL;
    }
    return fake_leave(error);
}

static cudaError_t
record(cudaEvent_t event, cudaStream_t stream)
{
    if (event->device != stream->device)
        return fake_misuse(cudaErrorInvalidResourceHandle, "an event of GPU %d is recorded in a stream of GPU %d",
                           event->device, stream->device);
    op_drop(event->mark);
    event->mark           = op_keep(fake_queue(stream, OP_MARK));
    event->mark->is_never = fake_strikes(&fake.fail_never);
    event->stream         = stream;
    fake_queued(stream);
    return cudaSuccess;
}

cudaError_t
cudaEventRecord(cudaEvent_t event, cudaStream_t stream)
{
    cudaError_t error = fake_enter("cudaEventRecord");
    if (error == cudaSuccess)
        error = event_wrong(event);
    if (error == cudaSuccess)
        error = fake_stream_wrong(stream);
    return fake_leave(error != cudaSuccess ? error : record(event, stream));
}

/* A never recorded one is no wait at all: that is CUDA's rule, and surely not what who calls has in mind. */
static cudaError_t
wait_event(cudaStream_t stream, cudaEvent_t event)
{
    if (event->mark == NULL)
        return fake_misuse(cudaErrorInvalidValue, "a stream waits for an event that was never recorded, which is no "
                                                  "wait");
    if (event->mark->is_done)
        return cudaSuccess;
    struct op *op     = fake_queue(stream, OP_WAIT);
    op->target        = op_keep(event->mark);
    op->target_stream = event->stream;
    fake_queued(stream);
    return cudaSuccess;
}

cudaError_t
cudaStreamWaitEvent(cudaStream_t stream, cudaEvent_t event, unsigned flags)
{
    cudaError_t error = fake_enter("cudaStreamWaitEvent");
    if (error == cudaSuccess)
        error = event_wrong(event);
    if (error == cudaSuccess)
        error = flags != 0 ? cudaErrorInvalidValue : fake_stream_wrong(stream);
    return fake_leave(error != cudaSuccess ? error : wait_event(stream, event));
}

cudaError_t
cudaEventQuery(cudaEvent_t event)
{
    cudaError_t error = fake_enter("cudaEventQuery");
    if (error == cudaSuccess)
        error = event_wrong(event);
    return fake_leave(error != cudaSuccess ? error : ask(event->stream, event->mark));
}

cudaError_t
cudaEventSynchronize(cudaEvent_t event)
{
    cudaError_t error = fake_enter("cudaEventSynchronize");
    if (error == cudaSuccess)
        error = event_wrong(event);
    if (error == cudaSuccess && event->mark != NULL)
        error = fake_run_until(event->stream, event->mark);
    return fake_leave(error);
}

static cudaError_t
elapsed(float *ms, cudaEvent_t begin, cudaEvent_t end)
{
    if (!begin->takes_time || !end->takes_time || begin->mark == NULL || end->mark == NULL)
        return fake_misuse(cudaErrorInvalidResourceHandle, "the time between events that take none, or were never "
                                                           "recorded");
    if (!begin->mark->is_done || !end->mark->is_done)
        return cudaErrorNotReady;
    *ms = (float)((double)end->mark->when - (double)begin->mark->when) * 1e-6f;
    return cudaSuccess;
}

cudaError_t
cudaEventElapsedTime(float *ms, cudaEvent_t begin, cudaEvent_t end)
{
    cudaError_t error = fake_enter("cudaEventElapsedTime");
    if (error == cudaSuccess)
        error = event_wrong(begin);
    if (error == cudaSuccess)
        error = event_wrong(end);
    return fake_leave(error != cudaSuccess ? error : elapsed(ms, begin, end));
}
