/* What a run among many is told, and tells; see trial.h.
 *
 * Interface: trial_new, trial_prepare, trial_free; for the run trial_choosing, trial_work_limit, trial_counts_faults,
 * trial_begin, trial_fail, trial_end. */
#include "cli/trial.h"

#include <stdio.h>
#include <sys/mman.h>
#include "sched/account.h"

#ifndef MAP_NORESERVE
#define MAP_NORESERVE 0
#endif

static const size_t trial_bytes = sizeof(struct trial) + TRIAL_STEPS * sizeof(struct schedule_step);

struct trial *
trial_new(void)
{
    const int access = PROT_READ | PROT_WRITE, kind = MAP_SHARED | MAP_ANONYMOUS | MAP_NORESERVE;
    void     *memory = mmap(NULL, trial_bytes, access, kind, -1, 0);
    return memory != MAP_FAILED ? memory : NULL;
}

void
trial_free(struct trial *trial)
{
    if (trial != NULL)
        munmap(trial, trial_bytes);
}

void
trial_prepare(struct trial *trial, const struct choosing *choosing, uint64_t work_limit)
{
    *trial = (struct trial){ .choosing = *choosing, .work_limit = work_limit, .chosen = { .room = TRIAL_STEPS } };
    trial->choosing.chosen = &trial->chosen;
    const struct schedule *schedule = choosing->schedule;
    for (size_t i = 0; schedule != NULL && i < schedule->faults.count && i < TRIAL_FAULTS; i++)
        trial->faults[trial->fault_count++] = schedule->faults.faults[i];
}

const struct choosing *
trial_choosing(const struct trial *trial)
{
    return trial != NULL ? &trial->choosing : NULL;
}

uint64_t
trial_work_limit(const struct trial *trial, uint64_t limit)
{
    return trial != NULL && trial->work_limit > 0 && trial->work_limit < limit ? trial->work_limit : limit;
}

void
trial_begin(struct trial *trial)
{
    if (trial != NULL)
        trial->begun = true;
}

void
trial_fail(struct trial *trial, const struct error *error)
{
    trial->kind = error->kind;
    trial->rank = error->rank;
    trial->line = error->lesson_line;
    snprintf(trial->message, sizeof trial->message, "%s", error->message);
}

bool
trial_counts_faults(const struct trial *trial)
{
    return trial != NULL && trial->counts_faults;
}

static void
count_strikes(struct fault_counts *counts, struct sched *sched)
{
    for (int rank = 0; rank < TRIAL_RANKS; rank++) {
        counts->points[rank] = fault_count(sched, FAULT_KILL, rank, -1);
        for (int peer = 0; peer < TRIAL_RANKS; peer++)
            counts->messages[rank][peer] = fault_count(sched, FAULT_LOSE, rank, peer);
    }
    counts->allocations = fault_count(sched, FAULT_ALLOCATION, -1, -1);
    counts->writes      = fault_count(sched, FAULT_WRITE, -1, -1);
}

void
trial_end(struct trial *trial, struct sched *sched, int status)
{
    if (trial->counts_faults)
        count_strikes(&trial->counts, sched);
    trial->status = status;
    trial->work   = account_done(sched);
    trial->left   = account_taken(sched);
    trial->ended  = true;
}
