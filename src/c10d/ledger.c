/* The ledger of a group: what each rank called as its collective number n. Ranks pair their calls up by that number and
 * by nothing else, so the first call that differs is told at once, to everybody, with both lines of the lesson.
 * Order of use: ledger_join when a rank issues, ledger_leave when its part is done; ledger_break when one failed. Who
 * finds the ledger broken, or breaks it, wakes the others: that is work.c's business.
 * PyTorch does so under TORCH_DISTRIBUTED_DEBUG=DETAIL (ProcessGroupWrapper). */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include "c10d/internal.h"
#include "sched/stage.h"

/* The lower rank is named first, whoever came first: the text does not depend on the threads. */
static void
ledger_describe(const struct communicator *communicator, const struct ledger_entry *entry,
                const struct fingerprint *mine, struct error *error)
{
    const struct fingerprint *low  = entry->first.rank < mine->rank ? &entry->first : mine;
    const struct fingerprint *high = low == mine ? &entry->first : mine;
    bool       details = low->operation == high->operation;
    struct str text    = { 0 };
    str_addf(&text, "collective #%" PRId64, entry->sequence);
    if (communicator->number > 0)
        str_addf(&text, " of group %d", communicator->number);
    str_addf(&text, " differs: rank %d calls ", low->rank);
    fingerprint_print(low, details, &text);
    str_addf(&text, " but rank %d calls ", high->rank);
    fingerprint_print(high, details, &text);
    str_add(&text, "; every rank must issue the same collectives in the same order");
    snprintf(error->message, sizeof error->message, "%s",
             str_ok(&text) ? str_text(&text) : "ranks issued different collectives");
    str_free(&text);
}

/* In the monitor. Only what breaks it from a lower number on is new. */
static void
ledger_add_break(struct ledger *ledger, int64_t from, const struct error *error)
{
    struct ledger_break *new = malloc(sizeof *new);
    if (new != NULL) {
        *new           = (struct ledger_break){ .older = ledger->breaks, .from = from, .error = *error };
        ledger->breaks = new;
    }
    atomic_store(&ledger->broken_from, from);
}

/* The rank's call differs from the first one's of that number: what everybody is told, who waits for what included. */
static void
ledger_note_difference(struct task *me, const struct work *work, const struct ledger_entry *entry,
                       const struct fingerprint *mine)
{
    struct communicator *communicator = work->group->communicator;
    struct error error  = { .kind = E_MISMATCH, .function = __func__, .line = __LINE__, .lesson_line = mine->line,
                            .rank = mine->rank };
    struct str   report = { 0 };
    if (hang_of_mismatch(me, work, &report))
        snprintf(error.message, sizeof error.message, "%s", str_text(&report));
    else
        ledger_describe(communicator, entry, mine, &error);
    str_free(&report);
    ledger_add_break(&communicator->ledger, entry->sequence, &error);
}

/* Most ranks ask for the newest entry or for the oldest. */
static struct ledger_entry *
ledger_find(const struct ledger *ledger, int64_t sequence)
{
    if (ledger->last != NULL && ledger->last->sequence == sequence)
        return ledger->last;
    struct ledger_entry *entry = ledger->first;
    while (entry != NULL && entry->sequence != sequence)
        entry = entry->next;
    return entry;
}

static struct ledger_entry *
ledger_add(struct ledger *ledger, int64_t sequence, const struct fingerprint *first)
{
    struct ledger_entry *entry = ledger->spare;
    if (entry != NULL)
        ledger->spare = entry->next;
    else if ((entry = malloc(sizeof *entry)) == NULL)
        return NULL;
    *entry = (struct ledger_entry){ .sequence = sequence, .first = *first };
    atomic_init(&entry->left, 0);
    if (ledger->last != NULL)
        ledger->last->next = entry;
    else
        ledger->first = entry;
    ledger->last = entry;
    return entry;
}

enum ledger_answer
ledger_join(struct task *me, struct work *work)
{
    struct communicator *communicator = work->group->communicator;
    struct ledger      *ledger = &communicator->ledger;
    struct fingerprint  mine   = fingerprint_of(&work->call, work->line);
    enum ledger_answer  answer = LEDGER_JOINED;
    monitor_enter(me, &ledger->monitor);
    work->recorded = recorder_call(work, &mine);
    struct ledger_entry *entry = ledger_find(ledger, work->call.sequence);
    if (ledger_is_broken(ledger, work->call.sequence)) {
        answer = LEDGER_BROKEN;
    } else if (entry == NULL && (entry = ledger_add(ledger, work->call.sequence, &mine)) == NULL) {
        answer = LEDGER_NO_MEMORY;
    } else if (!fingerprint_equal(&entry->first, &mine)) {
        ledger_note_difference(me, work, entry, &mine);
        answer = LEDGER_DIFFERS;
    } else {
        work->entry = entry;
    }
    if (answer != LEDGER_NO_MEMORY)
        atomic_store(&communicator->issued[work->group->rank], work->call.sequence + 1);
    monitor_leave(me, &ledger->monitor);
    return answer;
}

static void
ledger_drop(struct ledger *ledger, struct ledger_entry *entry)
{
    struct ledger_entry *before = NULL;
    for (struct ledger_entry *at = ledger->first; at != entry; at = at->next)
        before = at;
    if (before != NULL)
        before->next = entry->next;
    else
        ledger->first = entry->next;
    if (ledger->last == entry)
        ledger->last = before;
    entry->next   = ledger->spare;
    ledger->spare = entry;
}

/* The last of all ranks drops the entry: the others need no monitor for it. */
void
ledger_leave(struct task *me, struct work *work)
{
    struct communicator *communicator = work->group->communicator;
    struct ledger_entry *entry        = work->entry;
    work->entry = NULL;
    if (entry == NULL || atomic_fetch_add(&entry->left, 1) + 1 < communicator->present)
        return;
    monitor_enter(me, &communicator->ledger.monitor);
    ledger_drop(&communicator->ledger, entry);
    monitor_leave(me, &communicator->ledger.monitor);
}

bool
ledger_is_broken(const struct ledger *ledger, int64_t sequence)
{
    return sequence >= atomic_load(&ledger->broken_from);
}

void
ledger_break(struct task *me, struct ledger *ledger, int64_t sequence, const struct error *error)
{
    monitor_enter(me, &ledger->monitor);
    if (sequence < atomic_load(&ledger->broken_from))
        ledger_add_break(ledger, sequence, error);
    monitor_leave(me, &ledger->monitor);
}

/* A later break from a lower number on has a text of its own; what was told of the higher ones stays. */
static const struct ledger_break *
find_break(const struct ledger *ledger, int64_t sequence)
{
    const struct ledger_break *found = atomic_load(&ledger->breaks);
    while (found != NULL && found->older != NULL && found->older->from <= sequence)
        found = found->older;
    return found;
}

const struct error *
ledger_error(const struct ledger *ledger, int64_t sequence)
{
    static const struct error unknown = { .kind = E_MEMORY, .message = "the collective cannot end; there was no memory "
                                                                       "for why" };
    const struct ledger_break *found = find_break(ledger, sequence);
    return found != NULL ? &found->error : &unknown;
}

/* Only the first call that differs: those that a rank makes after it had the report are no news. */
bool
ledger_missed_report(struct task *me, const struct work *work)
{
    const struct ledger_break *found = find_break(&work->group->communicator->ledger, work->call.sequence);
    if (found == NULL || found->from != work->call.sequence || found->error.kind != E_MISMATCH)
        return false;
    struct fingerprint mine = fingerprint_of(&work->call, work->line);
    struct str         own  = { 0 };
    fingerprint_print(&mine, true, &own);
    failed(me, E_MISMATCH, "%.1600s\nrank %d came later, with %.300s", found->error.message, work->group->global_rank,
           str_ok(&own) ? str_text(&own) : operation_name(work->call.operation));
    str_free(&own);
    return true;
}

/* Ranks issued different operations under one number: what each of them called, and where. */
void
ledger_announce_mismatch(struct task *me, const struct ledger *ledger, int64_t sequence)
{
    int64_t report = stage_text_id(me, ledger_error(ledger, sequence)->message);
    POINT(me, fault_mismatch, sequence, report);
}

bool
ledger_init(struct ledger *ledger)
{
    atomic_init(&ledger->broken_from, INT64_MAX);
    return monitor_init(&ledger->monitor);
}

void
ledger_free(struct ledger *ledger)
{
    struct ledger_entry *lists[] = { ledger->first, ledger->spare };
    for (size_t i = 0; i < sizeof lists / sizeof lists[0]; i++) {
        for (struct ledger_entry *entry = lists[i], *next; entry != NULL; entry = next) {
            next = entry->next;
            free(entry);
        }
    }
    for (struct ledger_break *at = ledger->breaks, *older; at != NULL; at = older) {
        older = at->older;
        free(at);
    }
    monitor_destroy(&ledger->monitor);
}
