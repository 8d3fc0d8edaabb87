/* Interface: find_compile, find_event, find_text, find_say and find_until, find_use, find_nearest, find_free. */
#include "find.h"

#include "base/map.h"
#include "base/nearest.h"
#include "base/str.h"
#include "base/vec.h"
#include "trace/match.h"
#include "trace/reader.h"

#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { WORD_ROOM = 256, LABELS_MOST = 1 << 18, TEXTS_MOST = 1 << 20, NEAREST_TEXTS = 4096 };

/* What is known of a text, a lane or a kind's name. */
enum known { UNKNOWN, ABSENT, PRESENT };

/* Which arguments of a kind are texts that words are looked for in, and which its label is made of. */
struct kind_form { uint8_t known, texts, label; };

struct known_list { uint8_t *of; size_t count, room; };

struct find {
    char              *text;             /* as it was typed */
    char               word[WORD_ROOM];  /* "" a predicate alone */
    struct match      *match;            /* NULL words alone */
    struct kind_form  *kinds;
    size_t             kind_count, kind_room;
    struct known_list  texts, lanes;     /* by their numbers */
    struct map         labels;           /* by kind and arguments: enum known */
};

/* ---- compile ---- */

/* Nobody types these but for a predicate: what is wrong with it is told then, instead of looking for it as a word. */
static bool
looks_like_predicate(const char *text)
{
    return strpbrk(text, "=<>~()!") != NULL || strstr(text, " and ") != NULL || strstr(text, " or ") != NULL ||
           strncmp(text, "not ", 4) == 0;
}

static void
take_word(struct find *find, const char *text)
{
    size_t length = strlen(text);
    bool   quoted = length >= 2 && text[0] == '"' && text[length - 1] == '"';
    snprintf(find->word, sizeof find->word, "%.*s", quoted ? (int)length - 2 : (int)length, text + quoted);
}

struct find *
find_compile(const struct model *model, const char *text, char *why, size_t why_size)
{
    struct match_names names = match_names_of_trace(model->trace);
    struct find       *find  = calloc(1, sizeof *find);
    bool               quoted = text[0] == '"', predicate = !quoted && looks_like_predicate(text);
    snprintf(why, why_size, "out of memory");
    if (find == NULL || (find->text = strdup(text)) == NULL) {
        free(find);
        return NULL;
    }
    if (!quoted)
        find->match = match_compile(text, &names, why, why_size);
    if (find->match == NULL && predicate) {
        find_free(find);
        return NULL;
    }
    if (!predicate && (find->match == NULL || strpbrk(text, " .*") == NULL))
        take_word(find, text);
    if (find->match == NULL && find->word[0] == '\0') {
        snprintf(why, why_size, "nothing to look for");
        find_free(find);
        return NULL;
    }
    return find;
}

static void
forget(struct find *find)
{
    free(find->kinds);
    free(find->texts.of);
    free(find->lanes.of);
    map_free(&find->labels);
    find->kinds  = NULL;
    find->texts  = find->lanes = (struct known_list){ 0 };
    find->labels = (struct map){ 0 };
    find->kind_count = find->kind_room = 0;
}

void
find_use(struct find *find, const struct model *model)
{
    struct match_names names = match_names_of_trace(model->trace);
    if (find->match != NULL)
        match_use(find->match, &names);
    forget(find);
}

void
find_free(struct find *find)
{
    if (find == NULL)
        return;
    forget(find);
    match_free(find->match);
    free(find->text);
    free(find);
}

const char *
find_text(const struct find *find)
{
    return find->text;
}

void
find_say(const struct find *find, struct str *out)
{
    if (find->word[0] == '\0')
        return;
    str_add(out, find->match != NULL ? "that kind, and the word" : "in labels, kinds, names, texts, lanes");
}

void
find_until(const struct find *find, const struct model *model, struct str *out)
{
    bool of_kinds = find->match != NULL;
    for (size_t kind = 1; kind < trace_kinds(model->trace) && !of_kinds; kind++)
        of_kinds = strstr(trace_kind(model->trace, (unsigned)kind)->name, find->word) != NULL;
    if (find->match != NULL)
        str_add(out, find->text);
    else if (of_kinds)
        str_addf(out, "kind ~ \"%s\"", find->word);
}

/* ---- words ---- */

/* A new word begins there: behind what is no letter or digit, or where capitals begin ("AddmmBackward"). */
static bool
begins_word(const char *text, const char *at)
{
    if (at == text)
        return true;
    unsigned char before = (unsigned char)at[-1], here = (unsigned char)at[0];
    return !isalnum(before) || (islower(before) && isupper(here));
}

/* A word that is also a kind's is found where a word begins alone: `fault` is not what "default" is about. */
static bool
has_word(const struct find *find, const char *text)
{
    const char *at = strcasestr(text, find->word);
    while (at != NULL && find->match != NULL && !begins_word(text, at))
        at = strcasestr(at + 1, find->word);
    return at != NULL;
}

/* What is known of number `at`; without memory for it, nothing is kept. */
static uint8_t *
known_at(struct known_list *list, size_t at, size_t most)
{
    if (at >= most || (at >= list->room && !vec_room(&list->of, &list->room, at + 1, 1)))
        return NULL;
    if (at >= list->count) {
        memset(list->of + list->count, UNKNOWN, list->room - list->count);
        list->count = list->room;
    }
    return &list->of[at];
}

static bool
text_has_word(struct find *find, const struct model *model, int64_t id)
{
    if (id <= 0)
        return false;
    uint8_t *known = known_at(&find->texts, (size_t)id, TEXTS_MOST);
    if (known == NULL)
        return has_word(find, trace_text_at(model->trace, id));
    if (*known == UNKNOWN)
        *known = has_word(find, trace_text_at(model->trace, id)) ? PRESENT : ABSENT;
    return *known == PRESENT;
}

static bool
is_first_of_lane(const struct model *model, uint32_t lane, size_t seq)
{
    return model_lane_next(model, lane, NO_EVENT, 1) == seq;
}

/* A lane's name finds the lane's first event: all of them would bury what else is found. */
static bool
lane_has_word(struct find *find, const struct model *model, uint32_t lane, size_t seq)
{
    if (lane >= model->lane_count)
        return false;
    uint8_t *known = known_at(&find->lanes, lane, TEXTS_MOST);
    if (known != NULL && *known == UNKNOWN) {
        const struct trace_lane_info *info = trace_lane_at(model->trace, lane);
        char ranked[160];
        snprintf(ranked, sizeof ranked, "r%d %.140s", info->rank, info->name);
        *known = has_word(find, info->name) || (info->rank >= 0 && has_word(find, ranked)) ? PRESENT : ABSENT;
    }
    return known != NULL && *known == PRESENT && is_first_of_lane(model, lane, seq);
}

/* Of a question what it asks; its answer and why stand beside it, and are found once they were shown. */
static void
read_form(const struct find *find, const struct model *model, unsigned number, struct kind_form *form)
{
    const struct trace_kind *kind = trace_kind(model->trace, number);
    bool ask = strcmp(kind->name, "lesson.ask") == 0;
    bool all = strcmp(kind->name, "autograd.graph") != 0; /* which names all nodes: who looks for one wants its turn */
    *form = (struct kind_form){ .known = has_word(find, kind->name) ? PRESENT : ABSENT };
    for (int i = 0; i < kind->arg_count && i < 4; i++)
        if (all && strcmp(kind->arg_type[i], "text") == 0 && (!ask || strcmp(kind->arg_name[i], "question") == 0))
            form->texts |= (uint8_t)(1u << i);
    form->label = ask ? 0 : model_label_arguments(model, number);
}

static const struct kind_form *
form_of(struct find *find, const struct model *model, unsigned kind)
{
    while (find->kind_count <= kind) {
        if (!vec_room(&find->kinds, &find->kind_room, find->kind_count + 1, sizeof *find->kinds))
            return NULL;
        read_form(find, model, (unsigned)find->kind_count, &find->kinds[find->kind_count]);
        find->kind_count++;
    }
    return &find->kinds[kind];
}

/* A label is made of words and numbers, "allreduce b0": it is made once for each kind and its numbers. */
static bool
label_has_word(struct find *find, const struct model *model, size_t seq, uint8_t arguments)
{
    const struct trace_event *event = trace_event(model->trace, seq);
    uint64_t key = event->kind, known;
    for (int i = 0; i < 4; i++)
        if (arguments & (1u << i))
            key = (key ^ (uint64_t)event->args[i] ^ key >> 29) * 0x9e3779b97f4a7c15u;
    if (map_get(&find->labels, key, &known))
        return known == PRESENT;
    if (find->labels.count >= LABELS_MOST) {
        map_free(&find->labels);
        find->labels = (struct map){ 0 };
    }
    struct str label = { 0 };
    model_label(model, seq, &label);
    bool has = has_word(find, str_text(&label));
    if (!map_set(&find->labels, key, has ? PRESENT : ABSENT))
        map_free(&find->labels);
    str_free(&label);
    return has;
}

static bool
has_words(struct find *find, const struct model *model, size_t seq, const struct trace_event *event)
{
    const struct kind_form *form = event->phase != PHASE_END ? form_of(find, model, event->kind) : NULL;
    if (form == NULL)
        return false;
    if (form->known == PRESENT)
        return true;
    for (int i = 0; i < 4; i++)
        if ((form->texts & (1u << i)) != 0 && text_has_word(find, model, event->args[i]))
            return true;
    if (form->label != 0 && label_has_word(find, model, seq, form->label))
        return true;
    return lane_has_word(find, model, event->lane, seq);
}

bool
find_event(struct find *find, const struct model *model, size_t seq)
{
    const struct trace_event *event = trace_event(model->trace, seq);
    if (event == NULL)
        return false;
    if (find->word[0] != '\0' && has_words(find, model, seq, event))
        return true;
    return find->match != NULL && match_event(find->match, event, seq, trace_time(model->trace, seq));
}

/* ---- what was meant ---- */

static void
try_word(const char *word, const char *candidate, size_t *distance, char *out, size_t size)
{
    size_t here = word_distance(word, candidate);
    if (here < *distance) {
        *distance = here;
        snprintf(out, size, "%s", candidate);
    }
}

void
find_nearest(const struct find *find, const struct model *model, char *out, size_t size)
{
    size_t distance = word_reach(find->word) + 1;
    out[0] = '\0';
    for (size_t kind = 1; kind < trace_kinds(model->trace); kind++) {
        const char *name = trace_kind(model->trace, (unsigned)kind)->name, *dot = strrchr(name, '.');
        try_word(find->word, name, &distance, out, size);
        try_word(find->word, dot != NULL ? dot + 1 : name, &distance, out, size);
    }
    for (int64_t id = 1; id <= NEAREST_TEXTS; id++) {
        const char *text = trace_text_at(model->trace, id);
        if (text[0] != '\0' && strpbrk(text, " \n") == NULL && strcmp(text, "?") != 0)
            try_word(find->word, text, &distance, out, size);
    }
}
