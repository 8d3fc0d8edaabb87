/* Sentences from their table: the row for an event, then its words and values one after the other.
 * Interface: story_part_of, story_tells, story_sentence. */
#include "analysis/story_words_internal.h"

#include <string.h>

#include "base/str.h"
#include "base/vec.h"
#include "base/visible.h"
#include "trace/match.h"
#include "trace/reader.h"

enum form { FORM_PLAIN, FORM_WHEN, FORM_STEP, FORM_BUCKET };

struct row { const char *kind; enum form form; enum story_part part; const char *when, *sentence; };

static const struct row rows[] = {
#define STORY(kind, part, sentence)        { kind, FORM_PLAIN, PART_##part, NULL, sentence },
#define STORY_WHEN(kind, when, sentence)   { kind, FORM_WHEN, PART_DETAIL, when, sentence },
#define STORY_STEP(kind, sentence)         { kind, FORM_STEP, PART_DETAIL, NULL, sentence },
#define STORY_BUCKET(kind, sentence)       { kind, FORM_BUCKET, PART_DETAIL, NULL, sentence },
#include "analysis/story.def"
#undef STORY
#undef STORY_WHEN
#undef STORY_STEP
#undef STORY_BUCKET
};

enum story_part
story_part_of(const char *kind)
{
    for (size_t i = 0; i < countof(rows); i++)
        if (rows[i].form == FORM_PLAIN && strcmp(rows[i].kind, kind) == 0)
            return rows[i].part;
    return PART_DETAIL;
}

bool
story_tells(const char *kind, enum trace_phase phase)
{
    enum story_part part = story_part_of(kind);
    bool announces = part == PART_ACT || part == PART_CALL || part == PART_OPENING;
    return part != PART_QUIET && (phase == PHASE_INSTANT || announces == (phase == PHASE_BEGIN));
}

/* ---- which row ---- */

static bool
is_so(const struct telling *telling, const char *predicate)
{
    char                     why[200];
    const struct match_names names = match_names_of_trace(telling->trace);
    struct match            *match = match_compile(predicate, &names, why, sizeof why);
    size_t                   at    = telling->told->at;
    bool holds = match != NULL && match_event(match, telling->event, at, trace_time(telling->trace, at));
    match_free(match);
    return holds;
}

static bool
row_fits(const struct telling *telling, const struct row *row)
{
    if (strcmp(row->kind, telling->kind->name) != 0)
        return false;
    switch (row->form) {
    case FORM_PLAIN:  return true;
    case FORM_WHEN:   return is_so(telling, row->when);
    case FORM_STEP:   return telling->told->step > 0;
    case FORM_BUCKET: return telling->told->bucket >= 0;
    }
    return false;
}

static const char *
sentence_of(const struct telling *telling)
{
    for (size_t i = 0; i < countof(rows); i++)
        if (row_fits(telling, &rows[i]))
            return rows[i].sentence;
    return NULL;
}

/* ---- words and values ---- */

struct writing {
    struct telling *telling;
    bool            one;      /* the value that was written last is 1 */
};

/* {name}, or {name:A|B}: `from` is behind the bracket. */
static bool
write_value(struct writing *writing, const char *from, const char *to, struct str *out)
{
    const char *choice = memchr(from, ':', (size_t)(to - from));
    size_t      before = out->len;
    if (choice == NULL) {
        if (!story_value(writing->telling, from, (size_t)(to - from), out))
            return false;
        writing->one = out->len == before + 1 && out->text[before] == '1';
        return true;
    }
    const char *bar = memchr(choice, '|', (size_t)(to - choice));
    if (bar == NULL)
        return false;
    bool one = story_is_one(writing->telling, from, (size_t)(choice - from));
    from     = one ? choice + 1 : bar + 1;
    str_add_bytes(out, from, (size_t)((one ? bar : to) - from));
    return true;
}

/* A text that is filled in may bring its own full stop. */
static void
write_letter(char letter, struct str *out)
{
    if (letter != '.' || out->len == 0 || strchr(".!?", out->text[out->len - 1]) == NULL)
        str_add_bytes(out, &letter, 1);
}

static const char *
closing(const char *at, const char *to, char bracket)
{
    const char *close = memchr(at, bracket, (size_t)(to - at));
    return close != NULL ? close : to;
}

/* false: a value is missing, and the words in front of it are written. */
static bool
write_words(struct writing *writing, const char *at, const char *to, struct str *out)
{
    for (const char *close; at < to; at = close + 1) {
        close = at;
        if (*at == '{') {
            close = closing(at, to, '}');
            if (!write_value(writing, at + 1, close, out))
                return false;
        } else if (strncmp(at, "(s)", 3) == 0) {
            close = at + 2;
            str_add(out, writing->one ? "" : "s");
        } else {
            write_letter(*at, out);
        }
    }
    return true;
}

/* The same, with parts in brackets, which are left out where a value is missing. */
static bool
write_sentence(struct telling *telling, const char *at, struct str *out)
{
    struct writing writing = { .telling = telling };
    for (const char *end = at + strlen(at); at < end;) {
        const char *open = closing(at, end, '['), *close = open;
        if (!write_words(&writing, at, open, out))
            return false;
        if (open < end) {
            size_t before = out->len;
            close = closing(open, end, ']');
            if (!write_words(&writing, open + 1, close, out) && out->text != NULL)
                out->text[out->len = before] = '\0';
        }
        at = close < end ? close + 1 : end;
    }
    return true;
}

/* ---- what has no sentence ---- */

/* "my.kind: bytes 40 B, bucket 1." */
static void
write_arguments(const struct telling *telling, struct str *out)
{
    const char *between = ": ";
    str_add(out, telling->kind->name);
    for (int i = 0; i < telling->kind->arg_count; i++) {
        struct str value = { 0 };
        if (story_argument(telling, i, &value)) {
            str_addf(out, "%s%s", between, telling->kind->arg_name[i]);
            str_enclose(out, " ", &value, "");
            between = ", ";
        }
        str_free(&value);
    }
    write_letter('.', out);
}

/* ---- one line ---- */

/* The end of the last word that fits; all of it if it does. */
static size_t
fitting(const struct str *words, int most)
{
    size_t at = 0;
    for (int count = 0; at < words->len; count++) {
        size_t begin = at + strspn(words->text + at, " ");
        if (count == most && begin < words->len)
            return at;
        at = begin + strcspn(words->text + begin, " ");
    }
    return words->len;
}

/* What the lesson says stays whole; of all others there is more to read than a sentence where there is more. */
static void
add_line(const struct str *words, bool whole, struct str *out)
{
    size_t end = whole ? words->len : fitting(words, STORY_WORDS_MOST);
    bool   cut = end < words->len;
    while (cut && end > 0 && strchr(",:;. ", words->text[end - 1]) != NULL)
        end--;
    visible_add(out, str_text(words), end, VISIBLE_LINE);
    str_add(out, cut ? "..." : "");
    out->broken |= words->broken;
}

/* The sentence is nothing but one text: the lesson's own. */
static bool
is_a_text(const char *sentence)
{
    return sentence != NULL && *sentence == '{' && strcspn(sentence, "}") == strlen(sentence) - 1;
}

void
story_sentence(struct trace *trace, const struct told *told, struct str *out)
{
    const struct trace_event *event = trace_event(trace, told->at);
    if (event == NULL)
        return;
    struct telling telling = { .trace = trace, .told = told, .event = event, .kind = trace_kind(trace, event->kind) };
    struct str     words   = { 0 };
    const char    *sentence = told->own;
    bool           done    = sentence != NULL && write_sentence(&telling, sentence, &words) && words.len > 0;
    if (!done) {
        out->broken |= words.broken;
        str_clear(&words);
        sentence = sentence_of(&telling);
        done     = sentence != NULL && write_sentence(&telling, sentence, &words) && words.len > 0;
    }
    if (!done) {
        out->broken |= words.broken;
        str_clear(&words);
        write_arguments(&telling, &words);
    }
    add_line(&words, done && (sentence == told->own || is_a_text(sentence)), out);
    str_free(&words);
}
