/* Rounds: who has come, when they are over, and which of them are told.
 * Interface: round_of, round_enter, round_come, round_leave; rank_moves_on, rank_leaves, rank_ends; round_close,
 * rounds_close, wide_close, act_goes_by; round_free. */
#include "analysis/story_internal.h"

#include <stdlib.h>
#include <string.h>

#include "base/vec.h"

/* ---- members ---- */

bool
members_have(const struct members *members, int number)
{
    size_t word = (size_t)number / 64;
    if (word == 0)
        return (members->low >> number & 1) != 0;
    return word <= members->room && (members->more[word - 1] >> number % 64 & 1) != 0;
}

int
members_most(const struct members *members)
{
    return (int)(1 + members->room) * 64;
}

/* The word of that number; NULL: no memory. */
static uint64_t *
members_word(struct story *story, struct members *members, int number)
{
    size_t word = (size_t)number / 64, before = members->room;
    if (word == 0)
        return &members->low;
    if (!vec_room(&members->more, &members->room, word, sizeof *members->more)) {
        story->starved = true;
        return NULL;
    }
    for (; before < members->room; before++)
        members->more[before] = 0;
    return &members->more[word - 1];
}

/* false: they have it already, or there is no memory. */
static bool
members_add(struct story *story, struct members *members, int number)
{
    uint64_t *word = members_have(members, number) ? NULL : members_word(story, members, number);
    if (word != NULL)
        *word |= (uint64_t)1 << number % 64;
    return word != NULL;
}

/* false: they do not have it. */
static bool
members_drop(struct members *members, int number)
{
    if (!members_have(members, number))
        return false;
    *(number < 64 ? &members->low : &members->more[number / 64 - 1]) &= ~((uint64_t)1 << number % 64);
    return true;
}

static bool
same_members(const struct members *a, const struct members *b)
{
    size_t most = a->room > b->room ? a->room : b->room;
    for (size_t i = 0; i < most; i++)
        if ((i < a->room ? a->more[i] : 0) != (i < b->room ? b->more[i] : 0))
            return false;
    return a->low == b->low;
}

static void
members_free(struct members *members)
{
    free(members->more);
    *members = (struct members){ 0 };
}

void
round_free(struct round *round)
{
    members_free(&round->here);
    members_free(&round->past);
    members_free(&round->inside);
    free(round->scenes);
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
}

/* The iteration that was told of those like it. */
static uint32_t
told_iteration(const struct story *story, const struct round *act)
{
    const struct round *before = &story->rounds[act->like];
    return before->as_before && !before->has_told ? before->as : before->iteration;
}

/* It ran as in iteration `as`. As in the spawn before: there is no number to tell. */
static void
add_passed(struct story *story, const struct round *round, uint32_t as)
{
    if (round->iteration == 0)
        return;
    if (!vec_room(&story->passed, &story->passed_room, story->passed_count + 1, sizeof *story->passed)) {
        story->starved = true;
        return;
    }
    size_t at = story->passed_count++;
    for (; at > 0 && story->passed[at - 1].at > round->last; at--)
        story->passed[at] = story->passed[at - 1];
    story->passed[at] = (struct passed){ .at = round->last, .spawn = round->spawn, .iteration = round->iteration,
                                         .as = as, .is_act = round->is_act };
}

static void
drop_from_open(struct story *story, uint32_t number)
{
    size_t kept = 0;
    for (size_t i = 0; i < story->open_count; i++)
        if (story->open[i] != number)
            story->open[kept++] = story->open[i];
    story->open_count = kept;
}

/* It is compared with the act before no more, and nothing else will be compared with that one. */
static void
part_from_before(struct story *story, struct round *act)
{
    struct round *before = &story->rounds[act->like];
    act->like = NO_ROUND;
    if (!before->closed || before->undecided || before->iteration == 0) /* the spawn behind has an iteration 0, too */
        return;
    free(before->scenes);
    before->scenes      = NULL;
    before->scene_count = before->scene_room = 0;
}

/* Of an act with its ranks and all of its scenes. */
static uint64_t
whole_mark(const struct round *act)
{
    uint64_t words[5] = { 14, act->spawn, act->mark, act->algorithm, act->here.low };
    uint64_t whole = hash_bytes(0, words, sizeof words);
    for (size_t i = 0; i < act->here.room; i++)
        whole = act->here.more[i] != 0 ? hash_bytes(whole + i, &act->here.more[i], sizeof act->here.more[i]) : whole;
    for (size_t i = 0; i < act->scene_count; i++)
        whole += act->scenes[i].mark; /* in whatever order */
    return whole;
}

/* Scenes that the act before had are missing: it is told, unless it is as an earlier one of its spawn. */
static bool
lacks_scenes(const struct story *story, struct round *act)
{
    uint64_t known;
    if (act->like == NO_ROUND || story->rounds[act->like].scene_count == act->scene_count)
        return false;
    if (!map_get(&story->wholes, whole_mark(act), &known))
        return true;
    act->as = (uint32_t)known;
    return false;
}

/* An act as the one before is passed by, up to its first other scene if there is one. */
static void
settle_act(struct story *story, uint32_t number)
{
    struct round *act = &story->rounds[number];
    act->undecided = false;
    act->as_before = !lacks_scenes(story, act);
    drop_from_open(story, number);
    if (act->as_before)
        add_passed(story, act, act->as);
    else
        add_stop(story, number);
    if (act->like != NO_ROUND)
        part_from_before(story, act);
}

/* Its ranks have left it, and no scene of it goes on. */
static void
end_act_if_over(struct story *story, uint32_t number)
{
    const struct round *act = number != NO_ROUND ? &story->rounds[number] : NULL;
    if (act == NULL || !act->closed || act->within > 0 || act->scenes_open > 0)
        return;
    if (act->undecided)
        settle_act(story, number);
    uint64_t whole = whole_mark(act);
    if (!map_get(&story->wholes, whole, NULL) && !map_set(&story->wholes, whole, act->iteration))
        story->starved = true;
}

static void
tell_act(struct story *story, uint32_t number)
{
    struct round *act = &story->rounds[number];
    act->undecided = false;
    if (act->like != NO_ROUND)
        part_from_before(story, act);
    drop_from_open(story, number);
    add_stop(story, number);
}

/* A call that is known to go by another algorithm than the one before. */
static bool
goes_otherwise(const struct round *act, const struct round *before)
{
    return act->algorithm != 0 && before->algorithm != 0 && act->algorithm != before->algorithm;
}

/* Its ranks have come. Is it as that of the iteration before, then its scenes will tell. */
static void
close_act(struct story *story, uint32_t number)
{
    struct round       *act = &story->rounds[number];
    const struct round *before = act->like != NO_ROUND ? &story->rounds[act->like] : NULL;
    if (before != NULL)
        act->as = told_iteration(story, act);
    act->undecided = before != NULL && before->mark == act->mark && same_members(&before->here, &act->here) &&
                     !goes_otherwise(act, before);
    if (!act->undecided)
        tell_act(story, number);
    end_act_if_over(story, number);
}

void
act_goes_by(struct story *story, uint32_t number, uint64_t algorithm)
{
    struct round *act = &story->rounds[number];
    act->algorithm = algorithm;
    if (act->undecided && goes_otherwise(act, &story->rounds[act->like]))
        tell_act(story, number);
}

/* The next scene of that track in the act. */
static struct scene
scene_of(const struct round *act, const struct round *round)
{
    struct scene scene = { .track = round->track };
    for (size_t i = act->scene_count; i > 0 && scene.nth == 0; i--)
        if (act->scenes[i - 1].track == round->track)
            scene.nth = act->scenes[i - 1].nth + 1;
    uint64_t words[3] = { round->mark, scene.track, scene.nth };
    scene.mark = hash_bytes(15, words, sizeof words);
    return scene;
}

/* Lanes run side by side, so that scenes of two may change places; most often they do not. */
static bool
has_scene(const struct round *act, uint64_t mark, size_t near)
{
    for (size_t i = 0; i < act->scene_count; i++)
        if (act->scenes[(near + i) % act->scene_count].mark == mark)
            return true;
    return false;
}

/* Whether the act before had the same scene in its place. */
static bool
scene_is_as_before(struct story *story, uint32_t number, const struct round *round)
{
    struct round *act = &story->rounds[number];
    struct scene  scene = scene_of(act, round);
    bool as_before = act->like != NO_ROUND && has_scene(&story->rounds[act->like], scene.mark, act->scene_count);
    if (act->like != NO_ROUND && !as_before)
        part_from_before(story, act);
    if (vec_room(&act->scenes, &act->scene_room, act->scene_count + 1, sizeof *act->scenes))
        act->scenes[act->scene_count++] = scene;
    else
        story->starved = true;
    if (!as_before && act->undecided)
        settle_act(story, number);
    return as_before;
}

static void
close_scene(struct story *story, uint32_t number)
{
    struct round *round = &story->rounds[number];
    uint32_t      act   = round->act;
    drop_from_open(story, number);
    if (act != NO_ROUND && !round->is_word)
        story->rounds[act].scenes_open--;
    if (round->last != NOWHERE) {
        if (act != NO_ROUND && !round->is_word)
            round->as_before = scene_is_as_before(story, act, round);
        if (round->as_before)
            add_passed(story, round, told_iteration(story, &story->rounds[act]));
        else
            add_stop(story, number);
        if (act != NO_ROUND && !round->is_word && !round->as_before)
            story->rounds[act].has_told = true;
    }
    end_act_if_over(story, act);
}

void
round_close(struct story *story, uint32_t number)
{
    struct round *round = &story->rounds[number];
    if (round->closed)
        return;
    round->closed = true;
    members_free(&round->past);
    if (round->is_act)
        close_act(story, number);
    else
        close_scene(story, number);
}

/* ---- rounds ---- */

static bool
is_over(const struct story *story, const struct round *round)
{
    int world = round->world > 0 || round->spawn != story->spawn ? round->world : story->world;
    return !round->is_wide && !round->is_word &&
           ((round->expected > 0 && round->came >= round->expected) || (world > 0 && round->come >= world));
}

/* It counts as come, wherever it is. */
static void
pass(struct story *story, struct round *round, int rank)
{
    if (round->is_word || round->is_wide || members_have(&round->here, rank) || members_have(&round->inside, rank))
        return;
    if (members_add(story, &round->past, rank))
        round->come++;
}

/* Who ended comes to nothing any more. */
static void
pass_the_ended(struct story *story, struct round *round)
{
    for (size_t i = 1; story->alive < round->world && i < story->rank_count; i++)
        if (story->ranks[i].ended && story->ranks[i].spawn == round->spawn)
            pass(story, round, (int)i);
}

/* Ranks that came to the round before with this key have nothing to do here. */
static void
pass_those_who_came(struct story *story, struct round *round, uint32_t before)
{
    for (int i = 0; !round->is_wide && i < members_most(&story->rounds[before].here); i++)
        if (members_have(&story->rounds[before].here, i))
            pass(story, round, i);
}

static uint32_t
new_round(struct story *story, uint64_t key, const struct round *sketch)
{
    if (!vec_room(&story->rounds, &story->round_room, story->round_count + 1, sizeof *story->rounds) ||
        !vec_room(&story->open, &story->open_room, story->open_count + 1, sizeof *story->open) ||
        !map_set(&story->by_key, key, story->round_count)) {
        story->starved = true;
        return NO_ROUND;
    }
    uint32_t number = (uint32_t)story->round_count++;
    story->rounds[number] = *sketch;
    story->open[story->open_count++] = number;
    if (!sketch->is_act && !sketch->is_word && sketch->act != NO_ROUND)
        story->rounds[sketch->act].scenes_open++;
    return number;
}

uint32_t
round_of(struct story *story, uint64_t key, int rank, const struct round *sketch)
{
    uint64_t known = NO_ROUND;
    map_get(&story->by_key, key, &known);
    const struct round *before = known != NO_ROUND ? &story->rounds[known] : NULL;
    if (before != NULL && (!before->closed || before->cut || (!before->is_wide && members_have(&before->here, rank))))
        return (uint32_t)known;
    uint32_t number = new_round(story, key, sketch);
    if (number != NO_ROUND)
        pass_the_ended(story, &story->rounds[number]);
    if (number != NO_ROUND && known != NO_ROUND)
        pass_those_who_came(story, &story->rounds[number], (uint32_t)known);
    return number;
}

/* ---- who comes ---- */

void
round_enter(struct story *story, uint32_t number, int rank)
{
    struct round *round = number != NO_ROUND ? &story->rounds[number] : NULL;
    if (round == NULL || round->closed)
        return;
    if (members_drop(&round->past, rank))
        round->come--;
    if (members_add(story, &round->inside, rank) || round->is_wide)
        round->within++;
}

void
round_come(struct story *story, uint32_t number, int rank, size_t seq)
{
    struct round *round = number != NO_ROUND ? &story->rounds[number] : NULL;
    if (round == NULL)
        return;
    if (round->closed) {
        story->lost += !round->is_word && !round->cut && !members_have(&round->here, rank);
        return;
    }
    if (members_drop(&round->past, rank))
        round->come--;
    if (members_add(story, &round->here, rank)) {
        round->came++;
        round->come++;
    }
    round->last = seq;
    if (is_over(story, round))
        round_close(story, number);
}

/* false: it is not in there. */
static bool
go_out(struct round *round, int rank)
{
    bool was_in = round->is_wide ? round->within > 0 : members_drop(&round->inside, rank);
    round->within -= was_in;
    return was_in;
}

static void
close_those_that_are_over(struct story *story)
{
    for (size_t i = 0; i < story->open_count;) {
        uint32_t            number = story->open[i];
        const struct round *round = &story->rounds[number];
        size_t              before = story->open_count;
        if (round->undecided)
            end_act_if_over(story, number);
        else if (is_over(story, round))
            round_close(story, number);
        i = story->open_count < before ? 0 : i + 1;
    }
}

void
round_leave(struct story *story, uint32_t number, int rank)
{
    struct round *round = number != NO_ROUND ? &story->rounds[number] : NULL;
    if (round == NULL || !go_out(round, rank))
        return;
    if (round->is_act)
        end_act_if_over(story, number);
}

/* Another rank was in both of them. */
static bool
share_a_rank(const struct round *a, const struct round *b, int but)
{
    for (int i = 0; i < members_most(&a->here); i++)
        if (i != but && members_have(&a->here, i) && (members_have(&b->here, i) || members_have(&b->inside, i)))
            return true;
    return false;
}

/* Lanes of a rank run side by side: what it does on one says nothing of the others, but for what lies in an act that it
 * has passed. Of two scenes it is another rank that knows which is the later one. */
static bool
is_behind(const struct story *story, const struct round *round, const struct round *now, int rank)
{
    const struct round *act = round->act != NO_ROUND ? &story->rounds[round->act] : NULL;
    if (now->is_act && act != NULL && act->closed && !members_have(&act->here, rank))
        return true;
    return round->track == now->track && (now->is_act || (!round->is_act && share_a_rank(round, now, rank)));
}

void
rank_moves_on(struct story *story, int rank, uint32_t than)
{
    const struct round *now = than != NO_ROUND ? &story->rounds[than] : NULL;
    for (size_t i = 0; now != NULL && i < story->open_count && story->open[i] < than; i++) {
        struct round *round = &story->rounds[story->open[i]];
        if (!round->closed && is_behind(story, round, now, rank))
            pass(story, round, rank);
    }
    close_those_that_are_over(story);
}

/* What lies in the act and has not come will not come. */
void
rank_leaves(struct story *story, int rank, uint32_t act)
{
    for (size_t i = 0; i < story->open_count;) {
        uint32_t      number = story->open[i];
        struct round *round  = &story->rounds[number];
        bool          inside = round->act == act && !round->closed;
        if (inside)
            pass(story, round, rank);
        if (inside && round->is_wide && round->within == 0)
            round_close(story, number);
        else
            i++;
    }
    round_leave(story, act, rank);
    close_those_that_are_over(story);
}

void
rank_ends(struct story *story, int rank)
{
    for (size_t i = 0; i < story->open_count; i++) {
        struct round *round = &story->rounds[story->open[i]];
        if (!round->is_wide)
            go_out(round, rank);
        if (!round->closed)
            pass(story, round, rank);
    }
    close_those_that_are_over(story);
}

void
rounds_close(struct story *story, bool cut)
{
    while (story->open_count > 0) {
        uint32_t number = story->open[0];
        story->rounds[number].cut = cut;
        round_close(story, number);
        if (story->rounds[number].undecided)
            settle_act(story, number);
    }
}

/* Rounds over the lanes of one process are over when something else begins. */
void
wide_close(struct story *story, uint16_t but)
{
    for (size_t i = 0; i < story->open_count;) {
        const struct round *round = &story->rounds[story->open[i]];
        bool over = round->is_wide && round->kind != but && round->within == 0;
        if (over)
            round_close(story, story->open[i]);
        i = over ? 0 : i + 1;
    }
}
