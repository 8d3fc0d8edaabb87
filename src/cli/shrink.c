/* Delta debugging (Zeller and Hildebrandt, 2002) over a schedule's steps and faults: parts are left out as long as the
 * run still fails for the same cause. What a run has really done is shorter than what it was told to do, and is taken
 * instead.
 *
 * Interface: shrink_schedule. */
#include "cli/shrink.h"

#include <stdlib.h>
#include <string.h>
#include "cli/trials.h"

enum { RUNS_MOST = 3000, RUNS_LEAST = 40, PAIRS_MOST = 16 };
enum { SHORT_ENOUGH = 3, SEEDS_ELSEWHERE = 300, FOUND_ELSEWHERE = 4 };
static const uint64_t WORK_MOST = 1000000000; /* steps of the account, of all its runs */

struct shrinking {
    struct trials   *trials;
    uint64_t         group;
    struct schedule *best;
    int              runs, runs_most;
};

/* Runs of long lessons are fewer; of those that only the clock could end, none. */
static int
runs_for(const struct outcome *outcome)
{
    uint64_t runs = WORK_MOST / (outcome->work + 1);
    if (outcome->kind == OUTCOME_ENDLESS && !outcome->trial->ended)
        return 1;
    return runs > RUNS_MOST ? RUNS_MOST : runs < RUNS_LEAST ? RUNS_LEAST : (int)runs;
}

static bool
may_go_on(const struct shrinking *shrinking)
{
    return shrinking->runs < shrinking->runs_most && !trials_stopped(shrinking->trials);
}

/* The steps that a run has done. */
static bool
keep_steps(struct schedule *schedule, const struct chosen *chosen)
{
    schedule->count = 0;
    for (size_t i = 0; i < chosen->count; i++)
        if (!schedule_add(schedule, &chosen->steps[i]))
            return false;
    return true;
}

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
    if (shrinking->runs_most == 0)
        shrinking->runs_most = runs_for(&outcome);
    return schedule_copy(shrinking->best, schedule) && keep_steps(shrinking->best, &outcome.trial->chosen);
}

/* Leaves out one of `parts` after the other. true: one could go. */
static bool
leave_out(struct shrinking *shrinking, size_t parts)
{
    const struct schedule *best = shrinking->best;
    size_t                 count = best->count;
    struct schedule        fewer = { 0 };
    bool                   went  = false;
    for (size_t part = 0; part < parts && !went && may_go_on(shrinking); part++) {
        size_t begin = count * part / parts, end = count * (part + 1) / parts;
        if (!schedule_copy(&fewer, best))
            break;
        fewer.count = 0;
        for (size_t i = 0; i < count; i++)
            if (i < begin || i >= end)
                fewer.steps[fewer.count++] = best->steps[i];
        went = try_schedule(shrinking, &fewer);
    }
    schedule_free(&fewer);
    return went;
}

/* Two steps that only need each other. true: they could go. */
static bool
leave_out_pair(struct shrinking *shrinking)
{
    size_t          count = shrinking->best->count;
    struct schedule fewer = { 0 };
    bool            went  = false;
    for (size_t a = 0; count <= PAIRS_MOST && a < count && !went; a++)
        for (size_t b = a + 1; b < count && !went && may_go_on(shrinking); b++) {
            if (!schedule_copy(&fewer, shrinking->best))
                break;
            fewer.count = 0;
            for (size_t i = 0; i < count; i++)
                if (i != a && i != b)
                    fewer.steps[fewer.count++] = shrinking->best->steps[i];
            went = try_schedule(shrinking, &fewer);
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

/* Until no part can go any more. */
static void
shrink_steps(struct shrinking *shrinking)
{
    const struct schedule *best = shrinking->best;
    for (size_t parts = 2; best->count > 0 && may_go_on(shrinking);) {
        if (parts > best->count)
            parts = best->count;
        if (leave_out(shrinking, parts))
            parts = parts > 2 ? parts - 1 : 2;
        else if (parts == best->count && !leave_out_pair(shrinking))
            break;
        else
            parts *= 2;
    }
}

/* A way that cannot be shortened need not be the shortest: other seeds may lead there on another one. */
static bool
find_elsewhere(struct shrinking *shrinking, uint64_t *seed, struct schedule *other)
{
    struct schedule faults = { .faults = shrinking->best->faults };
    for (; *seed < SEEDS_ELSEWHERE && may_go_on(shrinking); ++*seed) {
        struct outcome        outcome;
        const struct choosing choosing = { .how = CHOOSE_RANDOM, .seed = *seed, .schedule = &faults };
        shrinking->runs++;
        if (!trials_one(shrinking->trials, &choosing, &outcome) || outcome.kind == OUTCOME_SAME ||
            outcome.group != shrinking->group || outcome.trial->chosen.overflow)
            continue;
        ++*seed;
        return schedule_copy(other, shrinking->best) && keep_steps(other, &outcome.trial->chosen);
    }
    return false;
}

static void
shrink_elsewhere(struct shrinking *shrinking)
{
    struct schedule *best = shrinking->best, other = { 0 };
    uint64_t         seed = 0;
    for (int found = 0; found < FOUND_ELSEWHERE && best->count > SHORT_ENOUGH; found++) {
        if (!find_elsewhere(shrinking, &seed, &other))
            break;
        shrinking->best = &other;
        shrink_steps(shrinking);
        shrinking->best = best;
        if (other.count < best->count && !schedule_copy(best, &other))
            break;
    }
    schedule_free(&other);
}

bool
shrink_schedule(struct trials *trials, uint64_t group, struct schedule *schedule)
{
    struct shrinking shrinking = { .trials = trials, .group = group, .best = schedule };
    struct schedule  all       = { 0 };
    bool             repeats   = schedule_copy(&all, schedule) && try_schedule(&shrinking, &all);
    schedule_free(&all);
    for (size_t i = 0; repeats && i < schedule->faults.count && may_go_on(&shrinking);)
        i += !leave_out_fault(&shrinking, i);
    if (repeats)
        shrink_steps(&shrinking);
    if (repeats)
        shrink_elsewhere(&shrinking);
    return repeats;
}
