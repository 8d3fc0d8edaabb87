/* The fold: what each event means for the rounds. Interface: story_new, story_seen, story_read, story_close,
 * story_count, story_settled, story_at, story_index, story_free. */
#include "analysis/story_internal.h"

#include <stdlib.h>
#include <string.h>

#include "base/vec.h"

/* ---- who ---- */

static struct story_rank *
rank_at(struct story *story, int number)
{
    size_t before = story->rank_count;
    if ((size_t)number >= before) {
        if (!vec_room(&story->ranks, &story->rank_room, (size_t)number + 1, sizeof *story->ranks)) {
            story->starved = true;
            return NULL;
        }
        for (; story->rank_count <= (size_t)number; story->rank_count++)
            story->ranks[story->rank_count] = (struct story_rank){ .act = NO_ROUND };
    }
    return &story->ranks[number];
}

/* The ranks of another spawn begin once all of the one before have ended, or one of them begins again. */
static void
note_start(struct story *story, const struct trace_event *event)
{
    struct story_rank *rank = &story->ranks[rank_number(event->rank)];
    if (rank->spawn == story->spawn || story->alive == 0) {
        story->spawn++;
        story->world = story->alive = 0;
    }
    *rank = (struct story_rank){ .spawn = story->spawn, .act = NO_ROUND };
    story->alive++;
    story->lanes[event->lane].count = 0;
}

static void
note_end(struct story *story, const struct trace_event *event)
{
    int                number = rank_number(event->rank);
    struct story_rank *rank   = &story->ranks[number];
    story->loose += rank->loose;
    rank->loose = 0;
    rank->ended = true;
    forget_issues(story, event->rank);
    rank_ends(story, number);
    story->alive -= story->alive > 0;
    if (story->alive == 0)
        rounds_close(story, false);
}

static void
note_task(struct story *story, const struct trace_event *event, enum story_role role)
{
    if (event->rank < 0 || !story->lanes[event->lane].is_main)
        return;
    if (role == ROLE_START)
        note_start(story, event);
    else
        note_end(story, event);
}

/* The stop that a rank comes to has what it did on its way there. */
static void
rank_is_told(struct story *story, const struct trace_event *event)
{
    struct story_rank *rank = &story->ranks[rank_number(event->rank)];
    rank->is_told = true;
    rank->loose   = 0;
}

/* ---- rounds of events ---- */

static uint64_t
key_of(uint64_t seed, const uint64_t *words, size_t count)
{
    return hash_bytes(seed, words, count * sizeof *words);
}

/* How many of these there have been before. */
static uint64_t
count_up(struct story *story, uint64_t key)
{
    uint64_t count = 0;
    map_get(&story->counts, key, &count);
    if (!map_set(&story->counts, key, count + 1))
        story->starved = true;
    return count;
}

static uint32_t
act_around(const struct story *story, const struct trace_event *event)
{
    const struct story_lane *lane = &story->lanes[event->lane];
    for (size_t i = lane->count; i > 0; i--)
        if (lane->open[i - 1].round != NO_ROUND && story->rounds[lane->open[i - 1].round].is_act)
            return lane->open[i - 1].round;
    return story->ranks[rank_number(event->rank)].act;
}

static uint64_t
key_of_bucket(int rank, int64_t bucket)
{
    uint64_t words[2] = { (uint64_t)(rank + 1), (uint64_t)bucket };
    return key_of(12, words, 2);
}

/* What a rank's bucket holds tells it from that of another iteration. */
static uint64_t
mark_of_bucket(const struct story *story, int rank, int64_t bucket, uint64_t mark)
{
    uint64_t cut = 0;
    if (bucket < 0)
        return mark;
    map_get(&story->cuts, key_of_bucket(rank, bucket), &cut);
    uint64_t words[2] = { (uint64_t)bucket, cut };
    return key_of(mark, words, 2);
}

static struct round
sketch_of(const struct story *story, const struct trace_event *event, size_t seq)
{
    const struct story_kind *kind = &story->kinds[event->kind];
    struct round round = { .kind = event->kind, .spawn = story->ranks[rank_number(event->rank)].spawn,
                           .iteration = event->iteration, .first = seq, .last = NOWHERE, .bucket = -1, .like = NO_ROUND,
                           .act = act_around(story, event), .mark = story_mark(story, event) };
    if (kind->bucket >= 0)
        round.bucket = event->args[kind->bucket];
    round.mark = mark_of_bucket(story, event->rank, round.bucket, round.mark);
    round.track = story->lanes[event->lane].track;
    if (event->rank < 0) {
        round.expected = 1;
        round.is_wide  = event->lane != story->main_lane;
    } else {
        round.world    = story->world;
        round.expected = kind->world >= 0 ? (int)event->args[kind->world] : story->world;
    }
    return round;
}

/* thing: what tells calls of one kind apart, equal on all ranks. */
static uint32_t
round_at(struct story *story, const struct trace_event *event, uint64_t thing, const struct round *sketch)
{
    uint64_t words[7] = { event->kind, sketch->spawn, event->iteration, thing, (uint64_t)sketch->step, event->lane };
    words[5] = count_up(story, key_of(3, words, 6));
    words[6] = event->rank < 0 ? 0 : 1 + (uint64_t)sketch->track;
    return round_of(story, key_of(4, words, 7), rank_number(event->rank), sketch);
}

/* ---- acts and scenes ---- */

/* The same act of the iteration before; in iteration 0 that of the spawn before. */
static uint32_t
act_before(struct story *story, const struct trace_event *event, const struct round *act, uint32_t number)
{
    uint64_t words[4] = { event->kind, act->spawn, act->iteration, event->lane }, known;
    uint64_t nth = count_up(story, key_of(5, words, 4));
    words[3] = nth << 1 | (event->rank < 0);
    if (!map_set(&story->acts, key_of(6, words, 4), number))
        story->starved = true;
    if (act->iteration > 0)
        words[2]--;
    else
        words[1]--;
    if (act->iteration == 0 && (act->spawn <= 1 || event->rank < 0))
        return NO_ROUND;
    return map_get(&story->acts, key_of(6, words, 4), &known) ? (uint32_t)known : NO_ROUND;
}

static uint32_t
begin_act(struct story *story, const struct trace_event *event, size_t seq, uint64_t thing, struct round *sketch)
{
    int number = rank_number(event->rank);
    sketch->is_act = true;
    uint32_t round = round_at(story, event, thing, sketch);
    if (round == NO_ROUND)
        return NO_ROUND;
    uint32_t like = act_before(story, event, sketch, round);
    if (story->rounds[round].first == seq)
        story->rounds[round].like = like;
    if (!story->rounds[round].cut)
        story->fault = NO_ROUND;
    if (story->lanes[event->lane].is_main)
        story->ranks[number].act = round;
    rank_is_told(story, event);
    round_enter(story, round, number);
    round_come(story, round, number, seq);
    rank_moves_on(story, number, round);
    return round;
}

static uint32_t
begin_scene(struct story *story, const struct trace_event *event, size_t seq, uint64_t thing,
            const struct round *sketch)
{
    uint32_t round = round_at(story, event, thing, sketch);
    rank_is_told(story, event);
    if (story->kinds[event->kind].part == PART_OPENING)
        round_come(story, round, rank_number(event->rank), seq);
    else
        round_enter(story, round, rank_number(event->rank));
    return round;
}

static void
end_scene(struct story *story, const struct trace_event *event, size_t seq, uint32_t round)
{
    round_leave(story, round, rank_number(event->rank));
    round_come(story, round, rank_number(event->rank), seq);
    rank_moves_on(story, rank_number(event->rank), round);
}

/* A collective: of the lesson's own it is an act, of a bucket a scene. */
static uint32_t
begin_call(struct story *story, const struct trace_event *event, size_t seq)
{
    struct issue       issue = { .bucket = -1 };
    struct story_lane *lane = &story->lanes[event->lane];
    lane->hops   = 0;
    lane->folded = true;
    if (!take_issue(story, event, &issue))
        return NO_ROUND;
    uint64_t words[2] = { (uint64_t)issue.sequence, (uint64_t)issue.group }, thing = key_of(7, words, 2);
    struct round sketch = sketch_of(story, event, seq);
    sketch.track = (uint32_t)key_of(13, &words[1], 1); /* of the group: who waits for a call may do it itself */
    if (issue.own) {
        uint32_t round = begin_act(story, event, seq, thing, &sketch);
        uint64_t known = NO_ROUND;
        bool     first = !map_get(&story->algorithms, event->kind, &known) || known == round;
        if (first && !map_set(&story->algorithms, event->kind, round))
            story->starved = true;
        lane->folded = !first;
        return round;
    }
    if (issue.bucket < 0 || !story->kinds[event->kind].sums)
        return NO_ROUND;
    sketch.bucket = issue.bucket;
    sketch.mark   = mark_of_bucket(story, event->rank, issue.bucket, sketch.mark);
    return begin_scene(story, event, seq, thing, &sketch);
}

/* Which algorithm the call that is open goes by: its steps are told once. */
static void
note_algorithm(struct story *story, const struct trace_event *event)
{
    struct story_lane *lane  = &story->lanes[event->lane];
    uint32_t           round = lane->count > 0 ? lane->open[lane->count - 1].round : NO_ROUND;
    const char        *name  = trace_text_at(story->trace, event->args[0]);
    uint64_t           key = hash_bytes(8, name, strlen(name)), known = NO_ROUND;
    if (round == NO_ROUND || !story->rounds[round].is_act)
        return;
    act_goes_by(story, round, key);
    bool first = !map_get(&story->algorithms, key, &known) || known == round;
    if (first && !map_set(&story->algorithms, key, round))
        story->starved = true;
    lane->folded = !first;
}

/* A message inside of the lesson's own collective is a step. */
static uint32_t
begin_hop(struct story *story, const struct trace_event *event, size_t seq)
{
    struct story_lane *lane  = &story->lanes[event->lane];
    uint32_t           round = lane->count > 0 ? lane->open[lane->count - 1].round : NO_ROUND;
    if (round == NO_ROUND || !story->rounds[round].is_act || lane->folded)
        return NO_ROUND;
    struct round sketch = sketch_of(story, event, seq);
    sketch.step     = ++lane->hops;
    sketch.expected = story->rounds[round].expected;
    sketch.track    = story->rounds[round].track;
    sketch.mark     = (uint64_t)sketch.step;
    return begin_scene(story, event, seq, round, &sketch);
}

/* ---- words ---- */

/* A check that holds is no word. */
static bool
holds(const struct story_kind *kind, const struct trace_event *event)
{
    return kind->role == ROLE_CHECK && event->args[1] != 0;
}

/* Says with one of these between them are two stops: a stage that begins or ends, what ranks do, a check, another
 * word. */
static bool
ends_words(const struct story_kind *kind, const struct trace_event *event)
{
    if (kind->part == PART_WORD)
        return kind->role != ROLE_SAY;
    return kind->role == ROLE_JOIN ||
           (kind->part != PART_QUIET && (event->phase != PHASE_INSTANT || kind->part == PART_SCENE));
}

/* Words at one line of the lesson, by whatever rank; those that follow each other on a lane are one stop. */
static void
take_word(struct story *story, const struct trace_event *event, size_t seq)
{
    const struct story_kind *kind = &story->kinds[event->kind];
    struct story_lane       *lane = &story->lanes[event->lane];
    struct round sketch = sketch_of(story, event, seq);
    sketch.is_word  = true;
    sketch.is_wide  = false;
    uint64_t words[4] = { event->kind, sketch.spawn, event->line, (uint64_t)(event->rank + 1) };
    words[3] = count_up(story, key_of(9, words, 4));
    uint64_t key = key_of(10, words, 4), known;
    story->fault = NO_ROUND;
    rank_is_told(story, event);
    if (map_get(&story->by_key, key, &known))
        return;
    if (kind->role == ROLE_SAY && lane->word != NO_ROUND && !story->rounds[lane->word].closed) {
        round_come(story, lane->word, rank_number(event->rank), seq);
        if (!map_set(&story->by_key, key, lane->word))
            story->starved = true;
        return;
    }
    uint32_t round = round_of(story, key, rank_number(event->rank), &sketch);
    round_come(story, round, rank_number(event->rank), seq);
    if (kind->role == ROLE_SAY)
        lane->word = round;
    else if (round != NO_ROUND)
        round_close(story, round);
    story->questions += kind->role == ROLE_ASK;
}

/* Its message or its report. */
static const char *
words_of_fault(const struct story *story, const struct trace_event *event)
{
    const struct trace_kind *kind = trace_kind(story->trace, event->kind);
    for (int i = 0; i < kind->arg_count; i++)
        if (strcmp(kind->arg_name[i], "message") == 0 || strcmp(kind->arg_name[i], "report") == 0)
            return trace_text_at(story->trace, event->args[i]);
    return "";
}

/* An error that hands on what the fault before has said. */
static bool
is_of_the_fault_before(const struct story *story, const struct trace_event *event)
{
    const struct trace_event *before = trace_event(story->trace, story->rounds[story->fault].last);
    const char               *first = words_of_fault(story, before), *now = words_of_fault(story, event);
    size_t                    length = strcspn(first, "\n");
    return strcmp(trace_kind(story->trace, event->kind)->name, "fault.error") == 0 &&
           memmem(now, strlen(now), first, length) != NULL;
}

/* The first of a fault's errors is its stop: it closes what is open. */
static void
take_fault(struct story *story, const struct trace_event *event, size_t seq)
{
    if (story->fault != NO_ROUND && is_of_the_fault_before(story, event))
        return;
    rounds_close(story, true);
    struct round sketch = sketch_of(story, event, seq);
    uint64_t     words[2] = { event->kind, seq };
    sketch.is_word = true;
    sketch.is_wide = false;
    uint32_t round = round_of(story, key_of(11, words, 2), rank_number(event->rank), &sketch);
    round_come(story, round, rank_number(event->rank), seq);
    if (round != NO_ROUND)
        round_close(story, round);
    story->fault = round;
}

/* ---- events ---- */

/* A detail of a rank of which nothing has been told so far. */
static void
note_detail(struct story *story, const struct trace_event *event)
{
    struct story_rank *rank = &story->ranks[rank_number(event->rank)];
    rank->loose += !rank->is_told;
}

static uint32_t
begin_told(struct story *story, const struct trace_event *event, size_t seq)
{
    const struct story_kind *kind = &story->kinds[event->kind];
    uint64_t                 thing = kind->bucket >= 0 ? (uint64_t)event->args[kind->bucket] + 1 : 0;
    if (kind->part != PART_OPENING)
        wide_close(story, event->kind);
    struct round sketch = sketch_of(story, event, seq);
    return kind->part == PART_ACT ? begin_act(story, event, seq, thing, &sketch)
                                  : begin_scene(story, event, seq, thing, &sketch);
}

static void
take_begin(struct story *story, const struct trace_event *event, size_t seq)
{
    const struct story_kind *kind = &story->kinds[event->kind];
    struct story_lane       *lane = &story->lanes[event->lane];
    uint32_t                 round = NO_ROUND;
    if (kind->role == ROLE_RENDEZVOUS && kind->world >= 0)
        story->world = (int)event->args[kind->world];
    if (kind->part == PART_CALL)
        round = begin_call(story, event, seq);
    else if (kind->role == ROLE_HOP && kind->part == PART_DETAIL)
        round = begin_hop(story, event, seq);
    else if (kind->part == PART_ACT || kind->part == PART_SCENE || kind->part == PART_OPENING)
        round = begin_told(story, event, seq);
    else if (kind->part == PART_DETAIL)
        note_detail(story, event);
    if (!vec_room(&lane->open, &lane->room, lane->count + 1, sizeof *lane->open)) {
        story->starved = true;
        return;
    }
    int64_t bucket = kind->bucket >= 0 ? event->args[kind->bucket] : -1;
    lane->open[lane->count++] = (struct stage){ event->kind, round, bucket };
}

static void
leave_act(struct story *story, const struct trace_event *event, uint32_t round)
{
    struct story_rank *rank = &story->ranks[rank_number(event->rank)];
    rank_leaves(story, rank_number(event->rank), round);
    if (rank->act == round)
        rank->act = story->rounds[round].act;
}

/* Stages whose ends were lost: something around them has ended. */
static void
abandon(struct story *story, const struct trace_event *event, const struct stage *from, const struct stage *to)
{
    for (; to > from; to--) {
        uint32_t round = to[-1].round;
        if (round == NO_ROUND)
            continue;
        if (story->rounds[round].is_act)
            leave_act(story, event, round);
        else
            round_leave(story, round, rank_number(event->rank));
    }
}

static void
take_end(struct story *story, const struct trace_event *event, size_t seq)
{
    struct story_lane *lane = &story->lanes[event->lane];
    size_t             at = lane->count;
    while (at > 0 && lane->open[at - 1].kind != event->kind)
        at--;
    if (at == 0)
        return; /* its begin was lost */
    abandon(story, event, &lane->open[at], &lane->open[lane->count]);
    uint32_t round = lane->open[at - 1].round;
    lane->count = at - 1;
    if (round == NO_ROUND)
        return;
    if (story->rounds[round].is_act)
        leave_act(story, event, round);
    else if (story->kinds[event->kind].part != PART_OPENING)
        end_scene(story, event, seq, round);
}

static void
take_instant(struct story *story, const struct trace_event *event, size_t seq)
{
    const struct story_kind *kind = &story->kinds[event->kind];
    if (kind->part == PART_DETAIL)
        note_detail(story, event);
    if (kind->role == ROLE_START || kind->role == ROLE_END)
        note_task(story, event, kind->role);
    else if (kind->role == ROLE_ISSUE)
        note_issue(story, event);
    else if (kind->role == ROLE_ALGORITHM)
        note_algorithm(story, event);
    else if (kind->role == ROLE_BUCKET)
        story->starved = !map_set(&story->cuts, key_of_bucket(event->rank, event->args[0]), story_mark(story, event)) ||
                         story->starved;
    else if (kind->role == ROLE_FAULT)
        take_fault(story, event, seq);
    else if (kind->part == PART_WORD && !holds(kind, event))
        take_word(story, event, seq);
    if (kind->part == PART_SCENE && kind->role != ROLE_FAULT) {
        struct round sketch = sketch_of(story, event, seq);
        end_scene(story, event, seq, begin_scene(story, event, seq, 0, &sketch));
    }
}

static void
take(struct story *story, const struct trace_event *event, size_t seq)
{
    const struct story_kind *kind = &story->kinds[event->kind];
    struct story_lane       *lane = &story->lanes[event->lane];
    if (rank_at(story, rank_number(event->rank)) == NULL || !kind->nests)
        return;
    if (lane->word != NO_ROUND && ends_words(kind, event)) {
        round_close(story, lane->word);
        lane->word = NO_ROUND;
    }
    if (event->phase == PHASE_BEGIN)
        take_begin(story, event, seq);
    else if (event->phase == PHASE_END)
        take_end(story, event, seq);
    else
        take_instant(story, event, seq);
}

/* Who has no rank begins the trace. */
static void
learn_main(struct story *story, uint32_t lane)
{
    story->main_lane = lane;
    story->lanes[lane].is_main = true;
}

/* ---- the interface ---- */

static void
begin_anew(struct story *story)
{
    struct trace *trace = story->trace;
    for (size_t i = 0; i < story->round_count; i++)
        round_free(&story->rounds[i]);
    for (size_t i = 0; i < story->lane_count; i++)
        free(story->lanes[i].open);
    map_free(&story->by_key);
    map_free(&story->counts);
    map_free(&story->acts);
    map_free(&story->algorithms);
    map_free(&story->cuts);
    map_free(&story->wholes);
    map_free(&story->operations);
    free(story->kinds);
    free(story->lanes);
    free(story->ranks);
    free(story->rounds);
    free(story->open);
    free(story->issues);
    free(story->passed);
    free(story->stops);
    *story = (struct story){ .trace = trace, .fault = NO_ROUND, .version = trace_order_version(trace) };
}

struct story *
story_new(struct trace *trace)
{
    struct story *story = calloc(1, sizeof *story);
    if (story != NULL) {
        story->trace = trace;
        begin_anew(story);
    }
    return story;
}

void
story_free(struct story *story)
{
    if (story == NULL)
        return;
    begin_anew(story);
    free(story);
}

size_t
story_seen(struct story *story)
{
    bool grown = story->over && trace_count(story->trace) > story->read;
    if (story->starved || grown || story->version != trace_order_version(story->trace))
        begin_anew(story);
    return story->read;
}

bool
story_read(struct story *story, size_t count)
{
    if (story_seen(story) < count && !story_learn(story))
        story->starved = true;
    for (; story->read < count && !story->starved; story->read++) {
        const struct trace_event *event = trace_event(story->trace, story->read);
        if (event == NULL)
            break;
        if ((event->lane >= story->lane_count || event->kind >= story->kind_count) && !story_learn(story)) {
            story->starved = true;
            break;
        }
        if (story->read == 0)
            learn_main(story, event->lane);
        take(story, event, story->read);
    }
    return !story->starved;
}

bool
story_close(struct story *story)
{
    rounds_close(story, false);
    story->over = true;
    return !story->starved;
}

size_t
story_settled(const struct story *story)
{
    size_t settled = story->read;
    for (size_t i = 0; i < story->open_count; i++)
        if (story->rounds[story->open[i]].last < settled)
            settled = story->rounds[story->open[i]].last;
    return settled;
}

size_t
story_count(const struct story *story)
{
    return story->stop_count;
}

const struct story_stop *
story_at(const struct story *story, size_t index)
{
    return index < story->stop_count ? &story->stops[index] : NULL;
}

size_t
story_index(const struct story *story, size_t seq)
{
    size_t low = 0, high = story->stop_count;
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        if (story->stops[middle].at < seq)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}
