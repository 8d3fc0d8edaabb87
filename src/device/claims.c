/* Claims on storages: see claims.h. A list at each storage, under a lock that is held for a walk along it and never
 * while anything is taken, told or waited for: it carries no knowledge from one task to another, as a monitor would,
 * and so hides nothing from the race checker. What is over goes when somebody comes by.
 *
 * In PyTorch: nobody looks; on gloo such a read finds whatever is there, on NCCL torch.cuda._sanitizer may tell. */
#include "device/claims.h"
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "device/cells.h"
#include "device/internal.h"
#include "sched/account.h"

struct claim {
    struct claim   *next;
    struct claimer *claimer;
    uint64_t        begin, end;
    bool            write;
};

/* ---- lines and claimers ---- */

struct claim_line *
claim_line_new(void)
{
    struct claim_line *line = calloc(1, sizeof *line);
    if (line != NULL)
        atomic_init(&line->references, 1);
    return line;
}

void
claim_line_unref(struct claim_line *line)
{
    if (line != NULL && atomic_fetch_sub(&line->references, 1) == 1)
        free(line);
}

void
claim_line_waited(struct claim_line *line, int64_t below)
{
    int64_t known = atomic_load(&line->waited);
    while (known < below && !atomic_compare_exchange_weak(&line->waited, &known, below))
        ;
}

struct claimer *
claimer_new(struct task *me, struct claim_line *line, const char *name)
{
    struct claimer *claimer = host_take(me, sizeof *claimer);
    if (claimer == NULL)
        return NULL;
    atomic_init(&claimer->references, 1);
    atomic_init(&claimer->number, INT64_MAX);
    if (line != NULL)
        atomic_fetch_add(&line->references, 1);
    claimer->line        = line;
    claimer->name        = name;
    claimer->lesson_line = me->line;
    return claimer;
}

struct claimer *
claimer_ref(struct claimer *claimer)
{
    if (claimer != NULL)
        atomic_fetch_add(&claimer->references, 1);
    return claimer;
}

static bool
claimer_lets_go(struct claimer *claimer)
{
    if (claimer == NULL || atomic_fetch_sub(&claimer->references, 1) > 1)
        return false;
    claim_line_unref(claimer->line);
    return true;
}

void
claimer_unref(struct task *me, struct claimer *claimer)
{
    if (claimer_lets_go(claimer))
        host_return(me, claimer, sizeof *claimer);
}

void
claimer_issue(struct claimer *claimer, int64_t number)
{
    if (claimer != NULL)
        atomic_store(&claimer->number, number);
}

void
claimer_waited(struct claimer *claimer)
{
    if (claimer->line != NULL)
        claim_line_waited(claimer->line, atomic_load(&claimer->number) + 1);
    else
        claimer_over(claimer);
}

void
claimer_over(struct claimer *claimer)
{
    if (claimer != NULL)
        atomic_store(&claimer->over, true);
}

static bool
claimer_is_over(struct claimer *claimer)
{
    return atomic_load(&claimer->over) ||
           (claimer->line != NULL && atomic_load(&claimer->number) < atomic_load(&claimer->line->waited));
}

/* ---- a storage's list ---- */

static void
claims_lock(struct storage *storage)
{
    while (atomic_flag_test_and_set_explicit(&storage->claims_lock, memory_order_acquire))
        ;
}

static void
claims_unlock(struct storage *storage)
{
    atomic_flag_clear_explicit(&storage->claims_lock, memory_order_release);
}

static void
claims_drop(struct task *me, struct claim *claims)
{
    while (claims != NULL) {
        struct claim *next = claims->next;
        claimer_unref(me, claims->claimer);
        host_return(me, claims, sizeof *claims);
        claims = next;
    }
}

/* In one line the later claim ends later: it stands for what it covers. */
static bool
claim_covers(const struct claim *new, const struct claim *old)
{
    return new->claimer->line != NULL && new->claimer->line == old->claimer->line && (new->write || !old->write) &&
           new->begin <= old->begin && old->end <= new->end;
}

/* In the lock. Takes what is over out of the list, and what `new` (NULL: nothing) stands for. */
static struct claim *
claims_prune(struct storage *storage, const struct claim *new)
{
    struct claim *gone = NULL, **place = &storage->claims;
    while (*place != NULL) {
        struct claim *claim = *place;
        if (!claimer_is_over(claim->claimer) && (new == NULL || !claim_covers(new, claim))) {
            place = &claim->next;
            continue;
        }
        *place      = claim->next;
        claim->next = gone;
        gone        = claim;
        atomic_fetch_sub(&storage->claimed, 1);
    }
    return gone;
}

/* In the lock. Whose work the access would disturb; NULL: nobody's. Claimers of `line` mind those of other lines only,
 * since they touch the elements one after the other. */
static const struct claim *
claim_against(const struct storage *storage, const struct access *access, const struct claim_line *line)
{
    const struct claim *claim = storage->claims;
    while (claim != NULL && (claim->begin >= access->end || access->begin >= claim->end ||
                             !(claim->write || access->write) || (access->write && claim->claimer->yields) ||
                             (line != NULL && claim->claimer->line == line)))
        claim = claim->next;
    return claim;
}

void
claims_free(struct storage *storage)
{
    for (struct claim *claim = storage->claims, *next; claim != NULL; claim = next) {
        next = claim->next;
        if (claimer_lets_go(claim->claimer))
            host_give(storage->sched, claim->claimer, cell_bytes(sizeof *claim->claimer));
        host_give(storage->sched, claim, cell_bytes(sizeof *claim));
    }
    storage->claims = NULL;
    atomic_init(&storage->claimed, 0);
}

/* ---- told ---- */

/* Two accesses to a storage, one of them a write, that nothing orders. */
static void
race_announce(struct task *me, const struct storage *storage, const char *report)
{
    int64_t text = stage_text_id(me, report);
    POINT(me, fault_race, storage->number, text);
}

bool
race_tell(struct task *me, const struct storage *storage, const char *report)
{
    race_announce(me, storage, report);
    return failed(me, E_RACE, "%s", report);
}

void
claims_name_by(struct sched *sched, const struct access_names *names)
{
    sched_set_part(sched, PART_NAMES, (void *)(uintptr_t)names);
}

enum { REPORT = 400 };

static bool
claim_tell(struct task *me, const struct access *access, const struct claim *claim)
{
    const struct claimer *claimer = claim->claimer;
    int64_t               number  = atomic_load(&claimer->number);
    char report[REPORT], tensor[64] = "a tensor", which[32] = "", rank[24] = "";
    if (number >= 0 && number < INT64_MAX)
        snprintf(which, sizeof which, " #%" PRId64, number);
    if (me->rank >= 0)
        snprintf(rank, sizeof rank, "rank %d ", me->rank);
    const struct access_names *names = sched_part(me->sched, PART_NAMES);
    if (names != NULL && !names->find(me, access, tensor, sizeof tensor))
        snprintf(tensor, sizeof tensor, "a tensor");
    bool plain = strcmp(access->what, "read") == 0; /* the verb says it */
    snprintf(report, sizeof report, "%s%s %s (%s%sline %" PRIu32 ") while %s%s%s of line %" PRIu32 " may still be %s "
             "it: call work:wait() first", rank, access->write ? "changes" : "reads", tensor,
             plain ? "" : access->what, plain ? "" : ", ", me->line, claimer->name, which, claimer->detail,
             claimer->lesson_line, claim->write ? "changing" : "reading");
    return race_tell(me, access->storage, report);
}

/* ---- asked ---- */

static bool
claims_allow_one(struct task *me, const struct access *access, const struct claim_line *line)
{
    struct storage *storage = access->storage;
    struct claim    against = { 0 };
    if (!task_work(me, atomic_load(&storage->claimed)))
        return false;
    claims_lock(storage);
    struct claim       *gone  = claims_prune(storage, NULL);
    const struct claim *found = claim_against(storage, access, line);
    if (found != NULL) {
        against = *found;
        claimer_ref(against.claimer);
    }
    claims_unlock(storage);
    claims_drop(me, gone);
    if (against.claimer == NULL)
        return true;
    claim_tell(me, access, &against);
    claimer_unref(me, against.claimer);
    return false;
}

bool
claims_allow(struct task *me, const struct access *accesses, int count)
{
    for (int i = 0; i < count && !me->is_carrier; i++)
        if (storage_is_claimed(accesses[i].storage) && accesses[i].begin < accesses[i].end &&
            !claims_allow_one(me, &accesses[i], NULL))
            return false;
    return true;
}

bool
claims_add(struct task *me, struct claimer *claimer, const struct access *access)
{
    struct storage *storage = access->storage;
    if (access->begin >= access->end || me->is_carrier)
        return true;
    if (storage_is_claimed(storage) && !claims_allow_one(me, access, claimer->line))
        return false;
    struct claim *claim = host_take(me, sizeof *claim);
    if (claim == NULL)
        return false;
    *claim = (struct claim){ .claimer = claimer_ref(claimer), .begin = access->begin, .end = access->end,
                             .write = access->write };
    claims_lock(storage);
    struct claim *gone = claims_prune(storage, claim);
    claim->next     = storage->claims;
    storage->claims = claim;
    atomic_fetch_add(&storage->claimed, 1);
    claims_unlock(storage);
    claims_drop(me, gone);
    return true;
}
