/* Who goes on at each point of a run that has a chooser; see chooser.h.
 *
 * What was decided is a list of steps against the usual order: "at its point so and so this task gives way to that".
 * Who was put first stays so until he waits, so a step is a switch of a machine, not an event; nobody stays first for
 * STAY_LONGEST points, or who polls would keep out whom he polls for. */
#include "sched/chooser.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "base/rng.h"
#include "base/vec.h"
#include "sched/internal.h"
#include "sched/search.h"

enum { STAY_LONGEST = 2048, NOBODY = -1 };
static const uint64_t LOWEST = 1 << 20; /* priorities that were lowered lie below it, first come first */

struct chooser {
    struct choosing  how;
    uint64_t         random;
    unsigned         chance;                       /* random: of 64, at each choice */
    uint64_t         changes[CHOOSE_DEEPEST], floor;
    struct map       names;                        /* of tasks: how many have borne it */
    struct map       places;                       /* of the schedule's steps: their index, by from and point */
    struct map       seen;                         /* search: keys that were touched */
    int              first;                        /* who was put first: his number */
    uint64_t         stayed;                       /* for how many choices the same task has gone on */
    int              last;
    struct machine **ready;
    size_t           ready_count, ready_room;
};

/* ---- made and let go ---- */

static uint64_t
identity_of(const char *name)
{
    return hash_bytes(0, name, strlen(name));
}

static uint64_t
place_of(uint64_t identity, uint64_t point)
{
    uint64_t state = identity ^ point * 0x9e3779b97f4a7c15;
    return splitmix(&state);
}

static bool
learn_schedule(struct chooser *chooser)
{
    const struct schedule *schedule = chooser->how.schedule;
    for (size_t i = 0; schedule != NULL && i < schedule->count; i++)
        if (!map_set(&chooser->places, place_of(identity_of(schedule->steps[i].from), schedule->steps[i].point), i))
            return false;
    return true;
}

/* Each schedule draws how often it switches: every point, or hardly ever; and where priorities change. */
static void
draw_manner(struct chooser *chooser)
{
    chooser->random = chooser->how.seed;
    chooser->chance = 64u >> splitmix(&chooser->random) % 7;
    chooser->floor  = LOWEST;
    for (int i = 0; i < chooser->how.depth - 1; i++)
        chooser->changes[i] = 1 + splitmix(&chooser->random) % (chooser->how.length > 0 ? chooser->how.length : 1);
}

struct chooser *
chooser_new(const struct choosing *how)
{
    struct chooser *chooser = calloc(1, sizeof *chooser);
    if (chooser == NULL)
        return NULL;
    chooser->how   = *how;
    chooser->first = chooser->last = NOBODY;
    draw_manner(chooser);
    if (learn_schedule(chooser))
        return chooser;
    chooser_free(chooser);
    return NULL;
}

void
chooser_free(struct chooser *chooser)
{
    if (chooser == NULL)
        return;
    map_free(&chooser->names);
    map_free(&chooser->places);
    map_free(&chooser->seen);
    free(chooser->ready);
    free(chooser);
}

/* ---- names ---- */

static void
name_machine(const struct machine *machine, char name[SCHEDULE_NAME])
{
    if (machine->choice.twin > 1)
        snprintf(name, SCHEDULE_NAME, "%s#%u", machine->task.name, machine->choice.twin);
    else
        snprintf(name, SCHEDULE_NAME, "%s", machine->task.name);
}

/* Where memory ends two tasks may have one name: then a schedule fits worse. */
void
chooser_meet(struct chooser *chooser, struct machine *machine)
{
    uint64_t borne = 0, state;
    char     name[SCHEDULE_NAME];
    (void)map_get_text(&chooser->names, machine->task.name, &borne);
    (void)!map_set_text(&chooser->names, machine->task.name, borne + 1);
    machine->choice.twin = (unsigned)borne + 1;
    name_machine(machine, name);
    machine->choice.identity = identity_of(name);
    state                    = machine->choice.identity ^ chooser->how.seed;
    machine->choice.priority = splitmix(&state) | LOWEST << 1;
}

/* ---- who could ---- */

static bool
is_among(const struct chooser *chooser, const struct machine *machine)
{
    for (size_t i = 0; i < chooser->ready_count; i++)
        if (chooser->ready[i] == machine)
            return true;
    return false;
}

/* All tasks that are ready; those that poll only where it is their turn anyway. */
static bool
collect_ready(struct chooser *chooser, const struct sched *sched)
{
    chooser->ready_count = 0;
    if (!vec_room(&chooser->ready, &chooser->ready_room, sched->heap_count, sizeof(struct machine *)))
        return false;
    for (size_t i = 0; i < sched->heap_count; i++) {
        struct heap_item item = sched->heap[i];
        if (!heap_item_is_source(item) && (i == 0 || !item.machine->choice.polls))
            chooser->ready[chooser->ready_count++] = item.machine;
    }
    return true;
}

/* Without a step: who was put first, as long as he can, else whose turn it is. */
static struct machine *
who_stays(struct chooser *chooser, struct machine *usual)
{
    for (size_t i = 0; i < chooser->ready_count && chooser->first != NOBODY; i++)
        if (chooser->ready[i]->task.number == chooser->first && chooser->stayed < STAY_LONGEST)
            return chooser->ready[i];
    chooser->first = NOBODY;
    return usual;
}

/* ---- ways to choose ---- */

static struct machine *
choose_at_random(struct chooser *chooser, struct machine *kept)
{
    if (splitmix(&chooser->random) % 64 >= chooser->chance)
        return kept;
    return chooser->ready[splitmix(&chooser->random) % chooser->ready_count];
}

/* Who has run for so long that he may be polling gives way, too. */
static struct machine *
choose_by_priority(struct chooser *chooser, struct machine *from)
{
    bool lower = chooser->stayed >= STAY_LONGEST;
    for (int i = 0; i < chooser->how.depth - 1; i++)
        lower = lower || chooser->changes[i] == chooser->how.chosen->choices;
    if (lower && is_among(chooser, from))
        from->choice.priority = --chooser->floor;
    struct machine *best = chooser->ready[0];
    for (size_t i = 1; i < chooser->ready_count; i++)
        if (chooser->ready[i]->choice.priority > best->choice.priority)
            best = chooser->ready[i];
    return best;
}

/* What the schedule says of this place; NULL: nothing. */
static struct machine *
choose_as_told(struct chooser *chooser, const struct machine *from, uint64_t point)
{
    uint64_t index;
    if (chooser->how.schedule == NULL || !map_get(&chooser->places, place_of(from->choice.identity, point), &index))
        return NULL;
    const struct schedule_step *step     = &chooser->how.schedule->steps[index];
    struct chosen              *chosen   = chooser->how.chosen;
    uint64_t                    identity = identity_of(step->run);
    for (size_t i = 0; i < chooser->ready_count; i++) {
        if (chooser->ready[i]->choice.identity != identity)
            continue;
        chosen->used++;
        return chooser->ready[i];
    }
    if (chosen->misfit[0] == '\0')
        snprintf(chosen->misfit, sizeof chosen->misfit, "at point %llu of \"%s\" there is no \"%s\" that could go on",
                 (unsigned long long)point, step->from, step->run);
    return NULL;
}

static struct machine *
choose(struct chooser *chooser, struct machine *from, struct machine *kept, uint64_t point)
{
    struct machine *told = choose_as_told(chooser, from, point);
    if (told != NULL)
        return told;
    if (chooser->how.search != NULL)
        return search_choose(chooser->how.search, chooser->ready, chooser->ready_count, from);
    if (chooser->ready_count == 1 || chooser->how.how == CHOOSE_USUAL)
        return kept;
    return chooser->how.how == CHOOSE_PCT ? choose_by_priority(chooser, from) : choose_at_random(chooser, kept);
}

static void
note_step(struct chosen *chosen, const struct machine *from, uint64_t point, const struct machine *run)
{
    if (chosen->count == chosen->room) {
        chosen->overflow = true;
        return;
    }
    struct schedule_step *step = &chosen->steps[chosen->count];
    name_machine(from, step->from);
    name_machine(run, step->run);
    step->point = point;
    step->line  = from->task.line;
    chosen->count++;
}

/* The first in the heap is a task: whose turn it would be. */
struct machine *
chooser_pick(struct chooser *chooser, struct sched *sched, struct machine *from)
{
    struct chosen  *chosen = chooser->how.chosen;
    struct machine *usual  = sched->heap[0].machine;
    uint64_t        point  = from->choice.points++;
    chosen->decisions++;
    if (!collect_ready(chooser, sched))
        return usual;
    chosen->choices += chooser->ready_count > 1;
    struct machine *kept = who_stays(chooser, usual), *next = choose(chooser, from, kept, point);
    if (next == NULL)
        next = kept;
    if (next != kept) {
        note_step(chosen, from, point, next);
        chooser->first = next->task.number;
    }
    if (chooser->ready_count > 1)
        chosen->digest = place_of(chosen->digest ^ next->choice.identity, chosen->choices);
    chooser->stayed = next->task.number == chooser->last && chooser->ready_count > 1 ? chooser->stayed + 1 : 0;
    chooser->last   = next->task.number;
    return next;
}

bool
chooser_stands(struct chooser *chooser, const struct machine *machine, uint64_t key, enum touch touch)
{
    struct search_move move = { machine->task.number, touch, key };
    return chooser->how.search == NULL || search_stands(chooser->how.search, &chooser->seen, &move);
}
