/* What was queued in each stream, and how much of it is known to be done. A GPU tells of an error long after the
 * operation that made it, in any call that follows, so what can be named is the oldest operation that nobody saw
 * finished.
 *
 * The list of all journals is the process's because such an error is: it breaks all that CUDA has in a process.
 *
 * Interface: journal_new; journal_add for each operation; journal_mark, journal_reached; journal_keep, journal_drop;
 * journal_oldest. */
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include "plugins/cuda/cuda.h"

enum { ENTRIES = 64 };

struct entry { _Atomic(const char *) what; atomic_uint_fast64_t ticket, order; };

/* Written by who queues; read by any thread once something is wrong. */
struct journal {
    struct journal      *before, *next;
    atomic_int           keepers;
    int                  device, physical;
    atomic_uint_fast64_t queued, done;         /* how many operations; entry[n % ENTRIES] is the n-th, from 0 */
    struct entry         entry[ENTRIES];
};

static struct { pthread_mutex_t mutex; struct journal *first; atomic_uint_fast64_t order; }
    journals = { .mutex = PTHREAD_MUTEX_INITIALIZER };

/* NULL where there is no memory: then nothing of this stream will be named. */
struct journal *
journal_new(const struct backend_device *device)
{
    struct journal *journal = calloc(1, sizeof *journal);
    if (journal == NULL)
        return NULL;
    atomic_init(&journal->keepers, 1);
    journal->device   = device->number;
    journal->physical = device->physical;
    pthread_mutex_lock(&journals.mutex);
    journal->next = journals.first;
    if (journal->next != NULL)
        journal->next->before = journal;
    journals.first = journal;
    pthread_mutex_unlock(&journals.mutex);
    return journal;
}

struct journal *
journal_keep(struct journal *journal)
{
    if (journal != NULL)
        atomic_fetch_add(&journal->keepers, 1);
    return journal;
}

void
journal_drop(struct journal *journal)
{
    if (journal == NULL || atomic_fetch_sub(&journal->keepers, 1) > 1)
        return;
    pthread_mutex_lock(&journals.mutex);
    if (journal->next != NULL)
        journal->next->before = journal->before;
    if (journal->before != NULL)
        journal->before->next = journal->next;
    else
        journals.first = journal->next;
    pthread_mutex_unlock(&journals.mutex);
    free(journal);
}

/* `what` is static. */
void
journal_add(struct journal *journal, const char *what, uint64_t ticket)
{
    if (journal == NULL)
        return;
    uint64_t      n     = atomic_load_explicit(&journal->queued, memory_order_relaxed);
    struct entry *entry = &journal->entry[n % ENTRIES];
    atomic_store_explicit(&entry->what, what, memory_order_relaxed);
    atomic_store_explicit(&entry->ticket, ticket, memory_order_relaxed);
    atomic_store_explicit(&entry->order, atomic_fetch_add_explicit(&journals.order, 1, memory_order_relaxed),
                          memory_order_relaxed);
    atomic_store_explicit(&journal->queued, n + 1, memory_order_release);
}

/* What was queued up to now: to be told to journal_reached when the stream is past it. */
uint64_t
journal_mark(const struct journal *journal)
{
    return journal != NULL ? atomic_load_explicit(&journal->queued, memory_order_acquire) : 0;
}

void
journal_reached(struct journal *journal, uint64_t mark)
{
    if (journal == NULL)
        return;
    uint_fast64_t done = atomic_load_explicit(&journal->done, memory_order_relaxed);
    while (done < mark && !atomic_compare_exchange_weak(&journal->done, &done, mark))
        continue;
}

/* ---- afterwards ---- */

struct oldest { const struct journal *journal; const struct entry *entry; uint64_t order; bool is_cut; };

static void
look_at(const struct journal *journal, struct oldest *oldest)
{
    uint64_t queued = atomic_load(&journal->queued), first = atomic_load(&journal->done);
    bool     is_cut = queued > first + ENTRIES;
    if (queued <= first)
        return;
    if (is_cut)
        first = queued - ENTRIES;
    const struct entry *entry = &journal->entry[first % ENTRIES];
    uint64_t            order = atomic_load(&entry->order);
    if (oldest->journal == NULL || order < oldest->order)
        *oldest = (struct oldest){ journal, entry, order, is_cut };
}

/* " The oldest work that ...", or "" where nothing is known. */
void
journal_oldest(char *text, size_t room)
{
    struct oldest oldest = { 0 };
    text[0]              = '\0';
    pthread_mutex_lock(&journals.mutex);
    for (const struct journal *journal = journals.first; journal != NULL; journal = journal->next)
        look_at(journal, &oldest);
    if (oldest.journal != NULL) {
        uint64_t ticket     = atomic_load(&oldest.entry->ticket);
        char     event[40]  = "";
        if (ticket != 0)
            snprintf(event, sizeof event, " (event %llu)", (unsigned long long)ticket);
        snprintf(text, room, "; the oldest work not known to be finished is %s%s on cuda:%d%s%s",
                 oldest.is_cut ? "before or at " : "", atomic_load(&oldest.entry->what), oldest.journal->device, event,
                 oldest.is_cut ? ", as far as is remembered" : "");
    }
    pthread_mutex_unlock(&journals.mutex);
}
