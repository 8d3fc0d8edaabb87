/* What a run may take, and what it has taken; see account.h. One account per run, so that ranks cannot each take the
 * whole.
 *
 * Interface: account_take, account_give, account_collect, account_garbage, memory_failed; task_work (in the header),
 * work_settle. */
#include "sched/account.h"
#include "sched/faults.h"
#include "sched/internal.h"

bool
account_take(struct sched *sched, size_t bytes)
{
    struct account *account = &sched->account;
    if (sched_has_faults(sched) && fault_strikes(sched, FAULT_ALLOCATION))
        return false;
    size_t          limit = account->memory_limit, before = account_taken(sched);
    do { /* what is refused is never added: others would be refused for its sake */
        if (limit > 0 && (bytes > limit || before > limit - bytes))
            return false;
    } while (!atomic_compare_exchange_weak_explicit(&account->taken, &before, before + bytes, memory_order_relaxed,
                                                    memory_order_relaxed));
    return true;
}

void
account_give(struct sched *sched, size_t bytes)
{
    atomic_fetch_sub_explicit(&sched->account.taken, bytes, memory_order_relaxed);
}

size_t
account_taken(const struct sched *sched)
{
    return atomic_load_explicit(&sched->account.taken, memory_order_relaxed);
}

size_t
account_limit(const struct sched *sched)
{
    return sched->account.memory_limit;
}

bool
account_presses(const struct sched *sched)
{
    size_t limit = account_limit(sched);
    return limit > 0 && account_taken(sched) > limit / 4 * 3;
}

/* ---- collectors ---- */

void
account_add_collector(struct sched *sched, struct collector *collector)
{
    struct account *account = &sched->account;
    pthread_mutex_lock(&account->mutex);
    collector->next  = account->collectors;
    collector->place = &account->collectors;
    if (collector->next != NULL)
        collector->next->place = &collector->next;
    account->collectors = collector;
    __atomic_add_fetch(&account->collector_count, 1, __ATOMIC_RELAXED);
    pthread_mutex_unlock(&account->mutex);
}

void
account_remove_collector(struct sched *sched, struct collector *collector)
{
    struct account *account = &sched->account;
    pthread_mutex_lock(&account->mutex);
    if (collector->place != NULL) {
        *collector->place = collector->next;
        if (collector->next != NULL)
            collector->next->place = collector->place;
        collector->place = NULL;
        __atomic_sub_fetch(&account->collector_count, 1, __ATOMIC_RELAXED);
    }
    pthread_mutex_unlock(&account->mutex);
}

unsigned
account_collectors(const struct sched *sched)
{
    return __atomic_load_n(&sched->account.collector_count, __ATOMIC_RELAXED);
}

/* What is let go of may want memory itself: it is not asked for garbage again. In `stepped` nobody else could go on. */
static bool
is_collecting(const struct task *me)
{
    struct account    *account = &me->sched->account;
    const struct task *who     = atomic_load_explicit(&account->collecting, memory_order_relaxed);
    return who == me || (who != NULL && sched_is_stepped(me->sched));
}

/* A collection is work of some milliseconds: a lesson that lives at its limit must come to an end too. */
bool
account_garbage(struct task *me)
{
    enum { COLLECTION_STEPS = 1 << 20 };
    struct account *account = &me->sched->account;
    bool            any     = false;
    if (account_exhausted(me->sched) || is_collecting(me))
        return false;
    atomic_fetch_add_explicit(&account->done, COLLECTION_STEPS, memory_order_relaxed);
    pthread_mutex_lock(&account->mutex);
    atomic_store_explicit(&account->collecting, me, memory_order_relaxed);
    for (struct collector *collector = account->collectors; collector != NULL; collector = collector->next)
        any = collector->collect(me, collector) || any;
    atomic_store_explicit(&account->collecting, NULL, memory_order_relaxed);
    pthread_mutex_unlock(&account->mutex);
    return any;
}

bool
account_collect(struct task *me)
{
    return account_limit(me->sched) > 0 && account_garbage(me);
}

bool
memory_failed(struct task *me, size_t bytes, const char *where)
{
    size_t limit = account_limit(me->sched), taken = account_taken(me->sched);
    size_t room  = limit - limit / 64, block = bytes + bytes / 8 + 128; /* pools round up */
    bool   full  = limit > 0 && (bytes > room || block > room || taken > room - block); /* some may have gone since */
    if (full && bytes < 1 << 20)
        return failed(me, E_BUDGET, "the run has taken the %.0f MiB that a lesson may have; keep less, --trust "
                      "lifts the limit", (double)limit / (1 << 20));
    if (full)
        return failed(me, E_BUDGET, "%.1f MiB more would exceed the limit of %.0f MiB for a run, which has taken %.1f; "
                      "--trust lifts the limit", (double)bytes / (1 << 20), (double)limit / (1 << 20),
                      (double)taken / (1 << 20));
    return failed(me, E_MEMORY, "out of memory: %s cannot give %zu bytes", where, bytes);
}

/* ---- work ---- */

uint64_t
account_done(const struct sched *sched)
{
    return atomic_load_explicit(&sched->account.done, memory_order_relaxed);
}

bool
account_exhausted(const struct sched *sched)
{
    return sched->account.work_limit > 0 && account_done(sched) > sched->account.work_limit;
}

bool
account_closed(const struct sched *sched)
{
    return atomic_load_explicit(&sched->stop_kind, memory_order_acquire) != E_NONE || account_exhausted(sched);
}

bool
work_settle(struct task *me)
{
    struct account *account = &me->sched->account;
    uint64_t        steps = me->work, ceiling = UINT64_MAX / 2;
    me->work = 0;
    if (steps > ceiling || atomic_fetch_add_explicit(&account->done, steps, memory_order_relaxed) > ceiling)
        atomic_store_explicit(&account->done, ceiling, memory_order_relaxed);
    if (account_exhausted(me->sched))
        return failed(me, E_BUDGET, "the run has used up the %.4g steps of work that a lesson may do (a step is a "
                      "Lua instruction or as much); --limit-seconds 600 allows 1e+10, --trust lifts the limit",
                      (double)account->work_limit);
    return sched_goes_on(me);
}
