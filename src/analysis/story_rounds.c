/* Rounds: who has come, when they are over, and which of them are told.
 * Interface: round_of, round_enter, round_come; rank_moves_on, rank_leaves, rank_ends; round_close, rounds_close,
 * wide_close. */
#include "analysis/story_internal.h"

#include <stdlib.h>
#include <string.h>

#include "base/vec.h"

/* ---- members ---- */

bool
members_have(const struct members *members, int number)
{
    size_t word = (size_t)number / 64;
    return word < members->room && (members->word[word] >> number % 64 & 1) != 0;
}

/* false: they have it already, or there is no memory. */
static bool
members_add(struct story *story, struct members *members, int number)
{
    size_t word = (size_t)number / 64, before = members->room;
    if (members_have(members, number))
        return false;
    if (!vec_room(&members->word, &members->room, word + 1, sizeof *members->word)) {
        story->starved = true;
        return false;
    }
    for (; before < members->room; before++)
        members->word[before] = 0;
    members->word[word] |= (uint64_t)1 << number % 64;
    return true;
}

static void
members_drop(struct members *members, int number)
{
    if (members_have(members, number))
        members->word[number / 64] &= ~((uint64_t)1 << number % 64);
}

static bool
same_members(const struct members *a, const struct members *b)
{
    size_t most = a->room > b->room ? a->room : b->room;
    for (size_t i = 0; i < most; i++)
        if ((i < a->room ? a->word[i] : 0) != (i < b->room ? b->word[i] : 0))
            return false;
    return true;
}

/* ---- rounds ---- */

uint32_t
round_of(struct story *story, uint64_t key, const struct round *sketch)
{
    uint64_t known;
    if (map_get(&story->by_key, key, &known))
        return (uint32_t)known;
    if (!vec_room(&story->rounds, &story->round_room, story->round_count + 1, sizeof *story->rounds) ||
        !vec_room(&story->open, &story->open_room, story->open_count + 1, sizeof *story->open) ||
        !map_set(&story->by_key, key, story->round_count)) {
        story->starved = true;
        return NO_ROUND;
    }
    uint32_t number = (uint32_t)story->round_count++;
    story->rounds[number] = *sketch;
    story->open[story->open_count++] = number;
    return number;
}

/* ---- what is told ---- */

static void
add_stop(struct story *story, uint32_t number)
{
    const struct round *round = &story->rounds[number];
    if (!vec_room(&story->stops, &story->stop_room, story->stop_count + 1, sizeof *story->stops)) {
        story->starved = true;
        return;
    }
    size_t at = story->stop_count++;
    for (; at > 0 && story->stops[at - 1].at > round->last; at--)
        story->stops[at] = story->stops[at - 1];
    story->stops[at] = (struct story_stop){ .at = round->last, .first = round->first, .round = number };
    if (story->again_to == 0 || round->is_word)
        return;
    story->stops[at].again_from = story->again_from;
    story->stops[at].again_to   = story->again_to;
    story->stops[at].again_as   = story->again_as;
    story->again_to = 0;
}

/* An act that is as that of the iteration before: from now on its scenes are compared with that one's. */
static bool
is_as_before(struct story *story, struct round *act)
{
    if (act->like == NO_ROUND)
        return false;
    const struct round *before = &story->rounds[act->like];
    if (before->mark == act->mark && same_members(&before->here, &act->here))
        return true;
    act->like = NO_ROUND;
    return false;
}

static void
pass_act(struct story *story, struct round *act)
{
    const struct round *before = &story->rounds[act->like];
    act->as = before->as_before ? before->as : before->iteration;
    if (act->iteration == 0)
        return; /* as in the spawn before: there is no number to tell */
    if (story->again_to == 0)
        story->again_from = act->iteration;
    story->again_to = act->iteration;
    story->again_as = act->as;
}

/* A scene of an act: whether the act before had the same one in its place. */
static bool
scene_is_as_before(struct story *story, struct round *act, uint64_t mark)
{
    bool as_before = false;
    if (act->like != NO_ROUND) {
        const struct round *before = &story->rounds[act->like];
        as_before = before->scene_count > act->scene_count && before->scenes[act->scene_count] == mark;
        if (!as_before)
            act->like = NO_ROUND;
    }
    if (vec_room(&act->scenes, &act->scene_room, act->scene_count + 1, sizeof *act->scenes))
        act->scenes[act->scene_count++] = mark;
    else
        story->starved = true;
    return as_before;
}

void
round_close(struct story *story, uint32_t number)
{
    struct round *round = &story->rounds[number];
    if (round->closed)
        return;
    round->closed = true;
    size_t kept = 0;
    for (size_t i = 0; i < story->open_count; i++)
        if (story->open[i] != number)
            story->open[kept++] = story->open[i];
    story->open_count = kept;
    if (round->last == NOWHERE)
        return;
    if (round->is_act) {
        round->as_before = is_as_before(story, round);
        if (round->as_before)
            pass_act(story, round);
    } else if (!round->is_word && round->act != NO_ROUND) {
        bool as_before = scene_is_as_before(story, &story->rounds[round->act], round->mark);
        round->as_before = round->as_before || as_before;
    }
    if (!round->as_before)
        add_stop(story, number);
}

/* ---- who comes ---- */

static bool
is_over(const struct round *round)
{
    return round->expected > 0 && round->come >= round->expected;
}

void
round_enter(struct story *story, uint32_t number, int rank)
{
    if (number != NO_ROUND && !story->rounds[number].closed)
        members_add(story, &story->rounds[number].inside, rank);
}

void
round_come(struct story *story, uint32_t number, int rank, size_t seq)
{
    struct round *round = number != NO_ROUND ? &story->rounds[number] : NULL;
    if (round == NULL || round->closed)
        return;
    members_drop(&round->inside, rank);
    bool counted = members_have(&round->past, rank);
    if (members_add(story, &round->here, rank) && !counted)
        round->come++;
    round->last = seq;
    if (is_over(round) && !round->is_wide)
        round_close(story, number);
}

/* It counts as come, wherever it is. */
static void
pass(struct story *story, uint32_t number, int rank)
{
    struct round *round = &story->rounds[number];
    if (members_have(&round->here, rank) || members_have(&round->inside, rank))
        return;
    if (members_add(story, &round->past, rank))
        round->come++;
}

static void
close_those_that_are_over(struct story *story)
{
    for (size_t i = 0; i < story->open_count;) {
        uint32_t number = story->open[i];
        if (is_over(&story->rounds[number]) && !story->rounds[number].is_wide)
            round_close(story, number);
        else
            i++;
    }
}

void
rank_moves_on(struct story *story, int rank, uint32_t than, bool acts_too)
{
    bool any = false;
    for (size_t i = 0; i < story->open_count && (than == NO_ROUND || story->open[i] < than); i++) {
        const struct round *round = &story->rounds[story->open[i]];
        if (round->is_word || round->is_wide || (round->is_act && !acts_too))
            continue;
        pass(story, story->open[i], rank);
        any = true;
    }
    if (any)
        close_those_that_are_over(story);
}

void
rank_leaves(struct story *story, int rank, uint32_t act)
{
    bool any = false;
    for (size_t i = 0; i < story->open_count; i++) {
        if (story->rounds[story->open[i]].act != act || story->rounds[story->open[i]].is_word)
            continue;
        pass(story, story->open[i], rank);
        any = true;
    }
    if (any)
        close_those_that_are_over(story);
}

void
rank_ends(struct story *story, int rank)
{
    for (size_t i = 0; i < story->open_count; i++)
        members_drop(&story->rounds[story->open[i]].inside, rank);
    rank_moves_on(story, rank, NO_ROUND, true);
}

void
rounds_close(struct story *story)
{
    while (story->open_count > 0)
        round_close(story, story->open[0]);
}

/* Rounds over the lanes of one process are over when something else begins. */
void
wide_close(struct story *story, uint16_t but)
{
    for (size_t i = 0; i < story->open_count;) {
        const struct round *round = &story->rounds[story->open[i]];
        if (round->is_wide && round->kind != but)
            round_close(story, story->open[i]);
        else
            i++;
    }
}
