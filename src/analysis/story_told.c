/* What the fold has made, told. Interface: story_again, story_tell, story_tell_event, story_tell_line,
 * story_figures. */
#include "analysis/story_internal.h"

#include <ctype.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "base/str.h"

/* ---- what ran as before ---- */

/* The stop before that was none of the lesson's words, which come up to an act early; NULL: there is none. */
static const struct story_stop *
told_before(const struct story *story, const struct story_stop *stop)
{
    for (; stop > story->stops; stop--)
        if (!story->rounds[stop[-1].round].is_word)
            return &stop[-1];
    return NULL;
}

static size_t
first_passed(const struct story *story, size_t seq)
{
    size_t low = 0, high = story->passed_count;
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        if (story->passed[middle].at < seq)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

/* What passed between two places, but for the iteration that was told last: of it only the rest ran as before. */
struct span { uint32_t first, last, as; };

static struct span
span_of(const struct story *story, size_t from, size_t behind, const struct round *told)
{
    struct span span = { .first = UINT32_MAX };
    for (size_t i = from; i < behind; i++) {
        const struct passed *passed = &story->passed[i];
        if (passed->spawn != story->passed[behind - 1].spawn ||
            (told != NULL && passed->spawn == told->spawn && passed->iteration == told->iteration))
            continue;
        span.first = passed->iteration < span.first ? passed->iteration : span.first;
        span.last  = passed->iteration > span.last ? passed->iteration : span.last;
        span.as    = passed->is_act && passed->as > span.as ? passed->as : span.as;
    }
    return span;
}

void
story_again(const struct story *story, const struct story_stop *stop, struct str *out)
{
    const struct round      *round = &story->rounds[stop->round];
    const struct story_stop *before = told_before(story, stop);
    const struct round      *told = before != NULL ? &story->rounds[before->round] : NULL;
    bool   at_end = story->over && stop + 1 == story->stops + story->stop_count;
    size_t from = first_passed(story, before != NULL ? before->at + 1 : 0), behind = first_passed(story, stop->at);
    if ((round->is_word && !at_end) || from == behind)
        return;
    struct span span = span_of(story, from, behind, told);
    bool within = !round->is_word && round->spawn == story->passed[behind - 1].spawn && round->iteration == span.last;
    if (span.first > span.last) /* all of it is of the iteration that was told last */
        str_add(out, "What lies between ran as before.");
    else if (within && span.first == span.last)
        str_addf(out, "Iteration %" PRIu32 " runs as iteration %" PRIu32 " up to here.", span.last, span.as);
    else if (span.first == span.last - within)
        str_addf(out, "Iteration %" PRIu32 " ran as iteration %" PRIu32 ".", span.first, span.as);
    else
        str_addf(out, "Iterations %" PRIu32 " to %" PRIu32 " ran as iteration %" PRIu32 ".", span.first,
                 span.last - within, span.as);
}

/* ---- a stop ---- */

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
    int                 most = members_most(&round->here), count = 0, *ranks = malloc((size_t)most * sizeof *ranks);
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

/* ---- figures ---- */

void
story_tell_event(struct story *story, size_t seq, struct str *out)
{
    const struct story_stop *stop = story_at(story, story_index(story, seq));
    const struct trace_event *event = trace_event(story->trace, seq);
    const char               *kind = trace_kind(story->trace, event->kind)->name;
    struct told told = { .at = seq, .first = seq, .last = seq, .bucket = -1, .own = own_sentence(story, kind) };
    if (stop == NULL || stop->at != seq) {
        if (story_tells(kind, event->phase))
            story_sentence(story->trace, &told, out);
        return;
    }
    size_t before = out->len;
    story_again(story, stop, out);
    str_add(out, out->len > before ? "\n" : "");
    story_tell(story, stop, out);
}

void
story_tell_line(struct story *story, size_t seq, struct str *out)
{
    struct str told = { 0 };
    story_tell_event(story, seq, &told);
    for (size_t i = 0; i < told.len; i++)
        told.text[i] = told.text[i] == '\n' ? ' ' : told.text[i];
    if (told.len > 0)
        str_enclose(out, "story: ", &told, "\n");
    out->broken |= !str_ok(&told);
    str_free(&told);
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

static size_t
longest_row_of_alike(struct story *story)
{
    struct str line = { 0 };
    uint64_t   before = 0;
    size_t     row = 0, longest = 0;
    for (size_t i = 0; i < story->stop_count; i++) {
        str_clear(&line);
        story_tell(story, &story->stops[i], &line);
        uint64_t shape = shape_of(str_text(&line));
        row     = i > 0 && shape == before ? row + 1 : 1;
        before  = shape;
        longest = row > longest ? row : longest;
        story->starved |= !str_ok(&line);
    }
    str_free(&line);
    return longest;
}

void
story_figures(struct story *story, struct story_figures *out)
{
    *out = (struct story_figures){ .stops = story->stop_count, .questions = story->questions, .untold = story->lost,
                                   .loose = story->loose, .alike = longest_row_of_alike(story) };
    for (size_t i = 0; i < story->round_count; i++) /* of one that a fault has cut the fault's sentence tells */
        out->untold += !story->rounds[i].is_word && !story->rounds[i].cut && story->rounds[i].last == NOWHERE;
    for (size_t i = 0; i < story->rank_count; i++)
        out->loose += story->ranks[i].loose;
}
