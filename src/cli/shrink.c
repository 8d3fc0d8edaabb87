/* Delta debugging (Zeller and Hildebrandt, 2002) over a schedule's steps and faults: parts are left out as long as the
 * run still fails for the same cause. What a run has really done is shorter than what it was told to do, and is taken
 * instead.
 *
 * Interface: shrink_schedule. */
#include "cli/shrink.h"

#include <stdlib.h>
#include <string.h>
#include "cli/trials.h"

enum { RUNS_MOST = 3000 };

struct shrinking {
    struct trials   *trials;
    uint64_t         group;
    struct schedule *best;
    int              runs;
};

/* Does it still fail so? Then it is the best. */
static bool
try_schedule(struct shrinking *shrinking, const struct schedule *schedule)
{
    struct outcome        outcome;
    const struct choosing choosing = { .how = CHOOSE_USUAL, .schedule = schedule };
    shrinking->runs++;
    if (!trials_one(shrinking->trials, &choosing, &outcome) || outcome.kind == OUTCOME_SAME ||
        outcome.group != shrinking->group || outcome.trial->chosen.overflow ||
        outcome.trial->chosen.count > schedule->count)
        return false;
    const struct chosen *chosen = &outcome.trial->chosen;
    struct schedule     *best   = shrinking->best;
    if (!schedule_copy(best, schedule))
        return false;
    best->count = 0;
    for (size_t i = 0; i < chosen->count; i++)
        if (!schedule_add(best, &chosen->steps[i]))
            return false;
    return true;
}

/* Leaves out one of `parts` after the other. true: one could go. */
static bool
leave_out(struct shrinking *shrinking, size_t parts)
{
    const struct schedule *best = shrinking->best;
    size_t                 count = best->count;
    struct schedule        fewer = { 0 };
    bool                   went  = false;
    for (size_t part = 0; part < parts && !went && shrinking->runs < RUNS_MOST; part++) {
        size_t begin = count * part / parts, end = count * (part + 1) / parts;
        if (!schedule_copy(&fewer, best))
            break;
        fewer.count = 0;
        for (size_t i = 0; i < count; i++)
            if (i < begin || i >= end)
                fewer.steps[fewer.count++] = best->steps[i];
        went = !trials_stopped(shrinking->trials) && try_schedule(shrinking, &fewer);
    }
    schedule_free(&fewer);
    return went;
}

static bool
leave_out_fault(struct shrinking *shrinking, size_t index)
{
    struct schedule fewer = { 0 };
    bool            went  = schedule_copy(&fewer, shrinking->best);
    if (went) {
        fewer.faults.faults[index] = fewer.faults.faults[--fewer.faults.count];
        went = try_schedule(shrinking, &fewer);
    }
    schedule_free(&fewer);
    return went;
}

bool
shrink_schedule(struct trials *trials, uint64_t group, struct schedule *schedule)
{
    struct shrinking shrinking = { .trials = trials, .group = group, .best = schedule };
    struct schedule  all       = { 0 };
    bool             repeats   = schedule_copy(&all, schedule) && try_schedule(&shrinking, &all);
    schedule_free(&all);
    for (size_t i = 0; repeats && i < schedule->faults.count && !trials_stopped(trials);)
        i += !leave_out_fault(&shrinking, i);
    for (size_t parts = 2; repeats && schedule->count > 0 && shrinking.runs < RUNS_MOST && !trials_stopped(trials);) {
        if (parts > schedule->count)
            parts = schedule->count;
        if (leave_out(&shrinking, parts))
            parts = parts > 2 ? parts - 1 : 2;
        else if (parts == schedule->count)
            break;
        else
            parts *= 2;
    }
    return repeats;
}
