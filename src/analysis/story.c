/* The fold: what each event means for the rounds. Interface: story_new, story_read, story_close, story_count,
 * story_settled, story_at, story_index, story_tell, story_figures, story_free. */
#include "analysis/story_internal.h"

#include <ctype.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "base/str.h"
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

static bool
is_main_lane(const struct story *story, const struct trace_event *event)
{
    const char *name = trace_lane_at(story->trace, event->lane)->name, *space = strrchr(name, ' ');
    return event->rank < 0 ? event->lane == story->main_lane : space != NULL && strcmp(space, " main") == 0;
}

static void
note_task(struct story *story, const struct trace_event *event, enum story_role role)
{
    struct story_rank *rank = &story->ranks[rank_number(event->rank)];
    if (event->rank < 0 || !is_main_lane(story, event))
        return;
    if (role == ROLE_END) {
        story->loose += rank->has_act ? 0 : rank->loose;
        rank->loose = 0;
        rank_ends(story, rank_number(event->rank));
        return;
    }
    if (rank->spawn == story->spawn) { /* again: the ranks of another spawn begin */
        story->spawn++;
        story->world = 0;
    }
    rank->spawn   = story->spawn;
    rank->act     = NO_ROUND;
    rank->has_act = false;
}

/* ---- calls: whose collective is it, and which bucket's ---- */

static void
note_issue(struct story *story, const struct trace_event *event)
{
    const struct story_lane *lane = &story->lanes[event->lane];
    const struct story_rank *rank = &story->ranks[rank_number(event->rank)];
    struct issue issue = { .rank = event->rank, .operation = event->args[0], .sequence = event->args[1],
                           .group = event->args[3], .bucket = -1, .own = true };
    for (size_t i = 0; i < lane->count; i++) {
        const struct story_kind *kind = &story->kinds[lane->open[i].kind];
        issue.own    = issue.own && !kind->shields;
        issue.bucket = kind->shields ? lane->open[i].bucket : issue.bucket; /* of the innermost */
    }
    if (!is_main_lane(story, event) && rank->act != NO_ROUND && story->kinds[story->rounds[rank->act].kind].shields)
        issue.own = false; /* from a task of the backward's */
    if (vec_room(&story->issues, &story->issue_room, story->issue_count + 1, sizeof *story->issues))
        story->issues[story->issue_count++] = issue;
    else
        story->starved = true;
}

/* "all_reduce" is done by c10d.allreduce. */
static bool
is_operation(const char *operation, const char *kind)
{
    for (kind += strncmp(kind, "c10d.", 5) == 0 ? 5 : 0;; operation++, kind++) {
        while (*operation == '_')
            operation++;
        while (*kind == '_')
            kind++;
        if (*operation != *kind || *kind == '\0')
            return *operation == *kind;
    }
}

/* The oldest call of that rank that the event begins; it is forgotten. false: there is none. */
static bool
take_issue(struct story *story, const struct trace_event *event, struct issue *out)
{
    const struct story_kind *kind = &story->kinds[event->kind];
    const char              *name = trace_kind(story->trace, event->kind)->name;
    for (size_t i = 0; i < story->issue_count; i++) {
        const struct issue *issue = &story->issues[i];
        if (issue->rank != event->rank || (kind->sequence >= 0 && issue->sequence != event->args[kind->sequence]) ||
            !is_operation(trace_text_at(story->trace, issue->operation), name))
            continue;
        *out = *issue;
        memmove(&story->issues[i], &story->issues[i + 1], (story->issue_count - i - 1) * sizeof *issue);
        story->issue_count--;
        return true;
    }
    return false;
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
    if (event->rank < 0) {
        round.expected = 1;
        round.is_wide  = !is_main_lane(story, event);
    } else {
        round.expected = kind->world >= 0 ? (int)event->args[kind->world] : story->world;
    }
    return round;
}

/* thing: what tells calls of one kind apart, equal on all ranks. */
static uint32_t
round_at(struct story *story, const struct trace_event *event, uint64_t thing, const struct round *sketch)
{
    uint64_t words[6] = { event->kind, sketch->spawn, event->iteration, thing, (uint64_t)sketch->step, event->lane };
    words[5] = count_up(story, key_of(3, words, 6));
    return round_of(story, key_of(4, words, 6) ^ (event->rank < 0), sketch);
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
begin_act(struct story *story, const struct trace_event *event, size_t seq, uint64_t thing)
{
    int                number = rank_number(event->rank);
    struct story_rank *rank = &story->ranks[number];
    struct round       sketch = sketch_of(story, event, seq);
    sketch.is_act = true;
    uint32_t round = round_at(story, event, thing, &sketch);
    if (round == NO_ROUND)
        return NO_ROUND;
    uint32_t like = act_before(story, event, &sketch, round);
    if (story->rounds[round].first == seq)
        story->rounds[round].like = like;
    story->fault  = NO_ROUND;
    rank->act     = round;
    rank->has_act = true;
    rank->loose   = 0;
    round_come(story, round, number, seq);
    rank_moves_on(story, number, round, true);
    return round;
}

static uint32_t
begin_scene(struct story *story, const struct trace_event *event, size_t seq, uint64_t thing,
            const struct round *sketch)
{
    uint32_t round = round_at(story, event, thing, sketch);
    round_enter(story, round, rank_number(event->rank));
    if (story->kinds[event->kind].part == PART_OPENING)
        round_come(story, round, rank_number(event->rank), seq);
    return round;
}

static void
end_scene(struct story *story, const struct trace_event *event, size_t seq, uint32_t round)
{
    round_come(story, round, rank_number(event->rank), seq);
    rank_moves_on(story, rank_number(event->rank), round, false);
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
    if (issue.own) {
        uint32_t round = begin_act(story, event, seq, thing);
        uint64_t known = NO_ROUND;
        bool     first = !map_get(&story->algorithms, event->kind, &known) || known == round;
        if (first && !map_set(&story->algorithms, event->kind, round))
            story->starved = true;
        lane->folded = !first;
        return round;
    }
    if (issue.bucket < 0 || strcmp(trace_kind(story->trace, event->kind)->name, "c10d.allreduce") != 0)
        return NO_ROUND;
    struct round sketch = sketch_of(story, event, seq);
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
    sketch.mark     = (uint64_t)sketch.step;
    return begin_scene(story, event, seq, round, &sketch);
}

/* ---- words ---- */

/* Words at one line of the lesson, by whatever rank; those that follow each other on a lane are one stop. */
static void
take_word(struct story *story, const struct trace_event *event, size_t seq)
{
    const struct story_kind *kind = &story->kinds[event->kind];
    struct story_lane       *lane = &story->lanes[event->lane];
    struct round sketch = sketch_of(story, event, seq);
    sketch.is_word  = true;
    sketch.is_wide  = false;
    sketch.expected = 0;
    uint64_t words[4] = { event->kind, sketch.spawn, event->line, (uint64_t)(event->rank + 1) };
    words[3] = count_up(story, key_of(9, words, 4));
    uint64_t key = key_of(10, words, 4), known;
    story->fault = NO_ROUND;
    if (map_get(&story->by_key, key, &known))
        return;
    if (kind->role == ROLE_SAY && lane->word != NO_ROUND) {
        round_come(story, lane->word, rank_number(event->rank), seq);
        if (!map_set(&story->by_key, key, lane->word))
            story->starved = true;
        return;
    }
    uint32_t round = round_of(story, key, &sketch);
    round_come(story, round, rank_number(event->rank), seq);
    if (kind->role == ROLE_SAY)
        lane->word = round;
    else if (round != NO_ROUND)
        round_close(story, round);
    story->questions += strcmp(trace_kind(story->trace, event->kind)->name, "lesson.ask") == 0;
}

/* The first of a fault's errors is its stop: it closes what is open. */
static void
take_fault(struct story *story, const struct trace_event *event, size_t seq)
{
    if (story->fault != NO_ROUND)
        return;
    rounds_close(story);
    struct round sketch = sketch_of(story, event, seq);
    uint64_t     words[2] = { event->kind, seq };
    sketch.is_word = true;
    sketch.is_wide = false;
    uint32_t round = round_of(story, key_of(11, words, 2), &sketch);
    round_come(story, round, rank_number(event->rank), seq);
    if (round != NO_ROUND)
        round_close(story, round);
    story->fault = round;
}

/* ---- events ---- */

static void
take_begin(struct story *story, const struct trace_event *event, size_t seq)
{
    const struct story_kind *kind = &story->kinds[event->kind];
    struct story_lane       *lane = &story->lanes[event->lane];
    uint32_t                 round = NO_ROUND;
    uint64_t                 thing = kind->bucket >= 0 ? (uint64_t)event->args[kind->bucket] + 1 : 0;
    if (kind->role == ROLE_RENDEZVOUS && kind->world >= 0)
        story->world = (int)event->args[kind->world];
    if (kind->part == PART_ACT || kind->part == PART_SCENE)
        wide_close(story, event->kind);
    if (kind->part == PART_ACT)
        round = begin_act(story, event, seq, thing);
    else if (kind->part == PART_CALL)
        round = begin_call(story, event, seq);
    else if (kind->role == ROLE_HOP)
        round = begin_hop(story, event, seq);
    else if (kind->part == PART_SCENE || kind->part == PART_OPENING) {
        struct round sketch = sketch_of(story, event, seq);
        round = begin_scene(story, event, seq, thing, &sketch);
    } else if (kind->part == PART_DETAIL && act_around(story, event) == NO_ROUND)
        story->ranks[rank_number(event->rank)].loose++;
    if (kind->waits)
        rank_moves_on(story, rank_number(event->rank), NO_ROUND, false);
    if (!vec_room(&lane->open, &lane->room, lane->count + 1, sizeof *lane->open)) {
        story->starved = true;
        return;
    }
    int64_t bucket            = kind->bucket >= 0 ? event->args[kind->bucket] : -1;
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

static void
take_end(struct story *story, const struct trace_event *event, size_t seq)
{
    struct story_lane *lane = &story->lanes[event->lane];
    size_t             at = lane->count;
    while (at > 0 && lane->open[at - 1].kind != event->kind)
        at--;
    if (at == 0)
        return; /* its begin was lost */
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
    else if (kind->part == PART_WORD && (kind->role != ROLE_CHECK || event->args[1] == 0))
        take_word(story, event, seq);
    else if (kind->part == PART_SCENE) {
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
    if (lane->word != NO_ROUND && kind->part != PART_QUIET && kind->role != ROLE_SAY) {
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

/* ---- the interface ---- */

struct story *
story_new(struct trace *trace)
{
    struct story *story = calloc(1, sizeof *story);
    if (story != NULL) {
        story->trace = trace;
        story->fault = NO_ROUND;
        story->spawn = 1;
    }
    return story;
}

void
story_free(struct story *story)
{
    for (size_t i = 0; story != NULL && i < story->round_count; i++) {
        free(story->rounds[i].here.word);
        free(story->rounds[i].past.word);
        free(story->rounds[i].inside.word);
        free(story->rounds[i].scenes);
    }
    for (size_t i = 0; story != NULL && i < story->lane_count; i++)
        free(story->lanes[i].open);
    if (story == NULL)
        return;
    map_free(&story->by_key);
    map_free(&story->counts);
    map_free(&story->acts);
    map_free(&story->algorithms);
    map_free(&story->cuts);
    free(story->kinds);
    free(story->lanes);
    free(story->ranks);
    free(story->rounds);
    free(story->open);
    free(story->issues);
    free(story->stops);
    free(story);
}

bool
story_read(struct story *story, size_t count)
{
    if (story->read < count && !story_learn(story))
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
            story->main_lane = event->lane;
        take(story, event, story->read);
    }
    return !story->starved;
}

bool
story_close(struct story *story)
{
    rounds_close(story);
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

/* ---- told ---- */

void
story_again(const struct story *story, const struct story_stop *stop, struct str *out)
{
    if (stop->again_to == 0)
        return;
    bool     within = story->rounds[stop->round].iteration == stop->again_to; /* the last one is not over */
    uint32_t to = stop->again_to - within;
    if (within && to < stop->again_from)
        str_addf(out, "Iteration %" PRIu32 " runs as iteration %" PRIu32 " up to here.", stop->again_to,
                 stop->again_as);
    else if (stop->again_from == to)
        str_addf(out, "Iteration %" PRIu32 " ran as iteration %" PRIu32 ".", to, stop->again_as);
    else
        str_addf(out, "Iterations %" PRIu32 " to %" PRIu32 " ran as iteration %" PRIu32 ".", stop->again_from, to,
                 stop->again_as);
}

/* What the lesson says of a kind itself. */
static const char *
own_sentence(const struct story *story, const char *kind)
{
    const char *key, *value;
    for (size_t i = 0; trace_option_at(story->trace, i, &key, &value); i++)
        if (strncmp(key, STORY_TELL, strlen(STORY_TELL)) == 0 && strcmp(key + strlen(STORY_TELL), kind) == 0)
            return value;
    return NULL;
}

void
story_tell(struct story *story, const struct story_stop *stop, struct str *out)
{
    const struct round *round = &story->rounds[stop->round];
    int                 most = (int)(round->here.room * 64), count = 0;
    int                *ranks = malloc((size_t)(most + 1) * sizeof *ranks);
    for (int number = 1; ranks != NULL && number < most; number++)
        if (members_have(&round->here, number))
            ranks[count++] = rank_of_number(number);
    struct told told = { .at = round->last, .first = round->first, .last = round->last, .ranks = ranks,
                         .rank_count = count, .step = round->step, .bucket = round->is_act ? -1 : round->bucket,
                         .own = own_sentence(story, trace_kind(story->trace, round->kind)->name) };
    story_sentence(story->trace, &told, out);
    out->broken |= ranks == NULL;
    free(ranks);
}

/* Sentences that differ by numbers alone are alike. */
static uint64_t
shape_of(const char *sentence)
{
    uint64_t shape = 0;
    for (; *sentence != '\0'; sentence++)
        if (!isdigit((unsigned char)*sentence) && *sentence != '.' && *sentence != ',')
            shape = hash_bytes(shape, sentence, 1);
    return shape;
}

void
story_figures(struct story *story, struct story_figures *out)
{
    struct str line = { 0 };
    uint64_t   before = 0;
    size_t     row = 0;
    *out = (struct story_figures){ .stops = story->stop_count, .questions = story->questions, .loose = story->loose };
    for (size_t i = 0; i < story->stop_count; i++) {
        str_clear(&line);
        story_tell(story, &story->stops[i], &line);
        uint64_t shape = shape_of(str_text(&line));
        row    = i > 0 && shape == before ? row + 1 : 1;
        before = shape;
        out->alike = row > out->alike ? row : out->alike;
        story->starved |= !str_ok(&line);
    }
    for (size_t i = 0; i < story->round_count; i++)
        out->untold += !story->rounds[i].is_word && story->rounds[i].last == NOWHERE;
    str_free(&line);
}
