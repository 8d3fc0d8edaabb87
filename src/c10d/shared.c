/* Shared memory: how the ranks of a group all-reduce where they are threads. Each shows where its tensor lies; when all
 * have, rank r reduces chunk r of all tensors, a block at a time, so that the sums stay in the first-level cache, and
 * stores the result in all of them; when all have done that, it is over. Every byte is read once and written once, with
 * nothing in between. Chunks and the order of additions are those of Gloo's ring, so the bits are, too.
 *
 * Between the two meetings ranks work in each other's memory: whoever has come to the second waits for the others come
 * what may. Each does a bounded piece of work then, in which nothing fails.
 * Order of use: shared_all_reduce on all ranks of the group; or, where the elements lie on a GPU, shared_show,
 * shared_shown, shared_done (fused.c). */
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include "c10d/local.h"
#include "c10d/spin.h"
#include "sched/account.h"
#include "tensor/cpu/wide.h"

enum { LINE = 128, BLOCK = 8192 };

struct shared {
    _Alignas(LINE) atomic_uint come;          /* how often somebody came */
    _Alignas(LINE) atomic_uint opened;        /* how often all had */
    _Alignas(LINE) atomic_int  asleep;        /* who waits in the channel's monitor */
    _Alignas(LINE) size_t      bytes;         /* of this */
    struct sched              *sched;
    struct { _Alignas(LINE) struct shown shown; } at[];   /* by rank: its elements, while the group meets */
};

static size_t
shared_bytes(int size)
{
    return sizeof(struct shared) + (size_t)size * LINE;
}

void
shared_free(struct shared *shared)
{
    if (shared == NULL)
        return;
    account_give(shared->sched, shared->bytes);
    free(shared);
}

static struct shared *
shared_new(struct task *me, int size)
{
    size_t         bytes  = shared_bytes(size);
    struct shared *shared = account_take(me->sched, bytes) ? aligned_alloc(LINE, bytes) : NULL;
    if (shared == NULL)
        return NULL;
    memset(shared, 0, bytes);
    shared->bytes = bytes;
    shared->sched = me->sched;
    return shared;
}

static struct shared *
shared_of(struct task *me, struct channel *channel)
{
    struct shared *shared = __atomic_load_n(&channel->shared, __ATOMIC_ACQUIRE);
    if (shared != NULL)
        return shared;
    monitor_enter(me, &channel->monitor);
    if (channel->shared == NULL)
        __atomic_store_n(&channel->shared, shared_new(me, channel->size), __ATOMIC_RELEASE);
    shared = channel->shared;
    monitor_leave(me, &channel->monitor);
    return shared != NULL ? shared : failed_null(me, E_MEMORY, "out of memory for an all-reduce");
}

/* ---- meetings ---- */

/* In the channel's monitor. bound: come what may. false: nobody will open, and the monitor was left. */
static bool
shared_sleep(struct task *me, const struct collective *call, struct monitor *monitor, bool bound)
{
    const struct wait_reason reason = { .what = "all_reduce", .sequence = call->sequence, .peer = -1, .join = true };
    return bound ? monitor_wait(me, monitor, &reason) : work_await(me, call->work, monitor, -1);
}

static bool
shared_wait(struct task *me, const struct collective *call, struct shared *shared, unsigned before, bool bound)
{
    struct channel *channel = call->channel;
    bool            ok      = true;
    monitor_enter(me, &channel->monitor);
    atomic_fetch_add(&shared->asleep, 1);
    while (atomic_load(&shared->opened) == before && ok)
        ok = shared_sleep(me, call, &channel->monitor, bound);
    atomic_fetch_sub(&shared->asleep, 1);
    if (ok)
        monitor_leave(me, &channel->monitor);
    return ok;
}

/* Whoever waits in vain takes his coming back, so that it never opens: unless the last one had come by then. */
static bool
shared_part(struct task *me, const struct collective *call, struct shared *shared, unsigned before)
{
    unsigned all = (before + 1) * (unsigned)call->ranks, come = atomic_load(&shared->come);
    while ((int)(come - all) < 0)
        if (atomic_compare_exchange_weak(&shared->come, &come, come - 1))
            return false;
    return shared_wait(me, call, shared, before, true);
}

/* Nobody leaves before all have come. */
static bool
shared_meet(struct task *me, const struct collective *call, struct shared *shared, bool bound)
{
    struct channel *channel = call->channel;
    unsigned        before  = atomic_load_explicit(&shared->opened, memory_order_relaxed);
    if (atomic_fetch_add(&shared->come, 1) + 1 == (before + 1) * (unsigned)call->ranks) {
        atomic_store(&shared->opened, before + 1);
        if (atomic_load(&shared->asleep) > 0) {
            monitor_enter(me, &channel->monitor);
            monitor_wake(me, &channel->monitor);
            monitor_leave(me, &channel->monitor);
        }
        return true;
    }
    if (spin_until(&shared->opened, false, before, channel->pauses))
        return true;
    return shared_wait(me, call, shared, before, bound) || shared_part(me, call, shared, before);
}

/* ---- the work ---- */

/* x = y = x + y */
WIDE static void
add_both(float *restrict x, float *restrict y, size_t count)
{
    for (size_t i = 0; i < count; i++)
        x[i] = y[i] = x[i] + y[i];
}

/* Of `bytes` from `begin` on, in chunk `first`: the sum so far takes each rank's place in turn, as it goes round. */
static void
shared_reduce_block(const struct collective *call, const struct shared *shared, size_t begin, size_t bytes)
{
    const struct reduction reduction = { true, call->options.op, (int)call->tensor->dtype };
    _Alignas(64) char      blocks[2][BLOCK];
    char                  *sum = blocks[0], *part = blocks[1];
    int                    rank = call->rank, ranks = call->ranks;
    memcpy(sum, shared->at[(rank - 1 + ranks) % ranks].shown.data + begin, bytes);
    for (int step = 2; step <= ranks; step++) {
        memcpy(part, shared->at[(rank - step + ranks) % ranks].shown.data + begin, bytes);
        reduce_elements(&reduction, part, sum, bytes);
        char *last = sum;
        sum  = part;
        part = last;
    }
    for (int i = 0; i < ranks; i++)
        memcpy(shared->at[i].shown.data + begin, sum, bytes);
}

static void
shared_reduce(const struct collective *call, const struct shared *shared)
{
    int64_t element = call->bytes / call->elements, chunk = gloo_chunk(call) * element;
    int64_t begin = chunk * call->rank, end = begin + chunk < call->bytes ? begin + chunk : call->bytes;
    bool    plain = call->ranks == 2 && call->tensor->dtype == DTYPE_F32 && call->options.op == REDUCE_SUM;
    if (plain && begin < end) {
        add_both((float *)(void *)(shared->at[0].shown.data + begin),
                 (float *)(void *)(shared->at[1].shown.data + begin),
                 (size_t)(end - begin) / sizeof(float));
        return;
    }
    for (; begin < end; begin += BLOCK)
        shared_reduce_block(call, shared, (size_t)begin, (size_t)(end - begin < BLOCK ? end - begin : BLOCK));
}

/* ---- the whole of it ---- */

struct shared *
shared_show(struct task *me, const struct collective *call, const struct shown *mine)
{
    struct shared *shared = shared_of(me, call->channel);
    if (shared == NULL)
        return NULL;
    struct shown *own = shared_shown(shared, call->rank);
    own->data      = mine->data;
    own->on_device = mine->on_device;
    return shared_meet(me, call, shared, false) ? shared : NULL;
}

struct shown *
shared_shown(struct shared *shared, int rank)
{
    return &shared->at[rank].shown;
}

bool
shared_done(struct task *me, const struct collective *call, struct shared *shared)
{
    return shared_meet(me, call, shared, true);
}

bool
shared_all_reduce(struct task *me, const struct collective *call)
{
    const struct shown mine = { tensor_elements(call->tensor), false, NULL };
    if (!task_work(me, (uint64_t)call->bytes / WORK_BYTES))
        return false;
    struct shared *shared = shared_show(me, call, &mine);
    if (shared == NULL)
        return false;
    shared_reduce(call, shared);
    return shared_done(me, call, shared) && !task_failed(me);
}
