/* Reads just enough of Lua to find tables, their fields, texts and comments; then asks the trace which questions have
 * been answered. Interface: secrets_find, secrets_line, secrets_free. */
#include "secrets.h"

#include "base/vec.h"
#include "lua_text.h"
#include "trace/reader.h"

#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Whose secret it is, other than a question's: nobody's (it is none), or that of all questions. */
enum { OF_NONE = -1, OF_ALL = -2 };

/* A table that asks. `words`: its question where it is one plain text; 0 bytes: it is put together by the lesson. */
struct question { uint32_t first, last; const char *words; size_t length; bool open; };

struct bracket {
    char        kind;
    bool        asks;            /* has a field `answer` */
    uint32_t    line;
    size_t      secrets;         /* found before it */
    const char *value;           /* of a field that is hidden, under way; NULL none */
    bool        sentences;       /* the table `text`, or one in it: all it says is still to come */
    bool        sentence;        /* `value` is one of them */
    bool        told;            /* the field under way is told with its question: choices, hides */
    const char *words;
    size_t      length;
};

struct scan {
    struct secrets  *secrets;
    const char      *at;
    uint32_t         line, line_before; /* line_before: of the last thing that is no blank and no comment */
    char             before;            /* its last byte */
    struct bracket  *open;
    size_t           depth, depth_room;
    struct question *questions;
    size_t           question_count, question_room;
    bool             starved;
};

/* ---- the text ---- */

static const char *
skip_blanks(const char *at)
{
    return at + strspn(at, " \t\r\n");
}

/* A field's name at `at`, `name` or ["name"], with its "="; answers where its value begins, NULL: it is another. */
static const char *
field_value(const char *at, const char *name)
{
    bool   quoted = *at == '[';
    char   mark   = 0;
    size_t length = strlen(name);
    if (quoted) {
        at   = skip_blanks(at + 1);
        mark = *at;
        if (mark != '"' && mark != '\'')
            return NULL;
        at++;
    }
    if (strncmp(at, name, length) != 0 || lua_is_name(at[length]))
        return NULL;
    at += length;
    if (quoted) {
        if (*at != mark)
            return NULL;
        at = skip_blanks(at + 1);
        if (*at++ != ']')
            return NULL;
    }
    at = skip_blanks(at);
    return at[0] == '=' && at[1] != '=' ? skip_blanks(at + 1) : NULL;
}

/* ---- what is found ---- */

static void
add_secret(struct scan *scan, const char *begin, const char *end)
{
    struct secrets *secrets = scan->secrets;
    while (end > begin && strchr(" \t\r\n", end[-1]) != NULL)
        end--;
    if (!vec_room(&secrets->found, &secrets->room, secrets->count + 1, sizeof *secrets->found))
        scan->starved = true;
    else
        secrets->found[secrets->count++] = (struct secret){ (size_t)(begin - secrets->text),
                                                            (size_t)(end - secrets->text), OF_NONE };
}

static void
end_value(struct scan *scan)
{
    struct bracket *table = &scan->open[scan->depth - 1];
    size_t before = scan->secrets->count;
    if (table->value != NULL)
        add_secret(scan, table->value, scan->at);
    if (table->sentence && scan->secrets->count > before)
        scan->secrets->found[before].question = OF_ALL;
    table->value    = NULL;
    table->sentence = false;
}

/* Whether `text =` stands before what begins here. */
static bool
follows_text(const struct scan *scan)
{
    static const char name[] = "text";
    const char *begin = scan->secrets->text, *at = scan->at;
    size_t      length = sizeof name - 1;
    while (at > begin && strchr(" \t\r\n", at[-1]) != NULL)
        at--;
    if (at == begin || *--at != '=')
        return false;
    while (at > begin && strchr(" \t\r\n", at[-1]) != NULL)
        at--;
    if ((size_t)(at - begin) <= length || strncmp(at - length, name, length) != 0)
        return false;
    char before = (at - length)[-1];
    return !lua_is_name(before) && before != '.';
}

/* A table of sentences: `text` itself, and what is nested in it but for what is told or hidden with a question. */
static bool
holds_sentences(const struct scan *scan)
{
    const struct bracket *outer = scan->depth > 0 ? &scan->open[scan->depth - 1] : NULL;
    if (*scan->at != '{')
        return false;
    return outer == NULL ? follows_text(scan) : outer->sentences && !outer->told && outer->value == NULL;
}

static void
open_bracket(struct scan *scan)
{
    bool sentences = holds_sentences(scan);
    if (!vec_room(&scan->open, &scan->depth_room, scan->depth + 1, sizeof *scan->open)) {
        scan->starved = true;
        return;
    }
    bool called = lua_is_name(scan->before) || scan->before == '('; /* the line of the call is that of what is called */
    scan->open[scan->depth++] = (struct bracket){ .kind = *scan->at, .secrets = scan->secrets->count,
                                                  .sentences = sentences,
                                                  .line = called ? scan->line_before : scan->line };
}

/* What was found in a table that asks belongs to it, but for what belongs to a question inside of it. */
static void
close_bracket(struct scan *scan)
{
    if (scan->depth == 0)
        return;
    end_value(scan);
    const struct bracket *table = &scan->open[--scan->depth];
    if (!table->asks)
        return;
    if (!vec_room(&scan->questions, &scan->question_room, scan->question_count + 1, sizeof *scan->questions)) {
        scan->starved = true;
        return;
    }
    for (size_t i = table->secrets; i < scan->secrets->count; i++)
        if (scan->secrets->found[i].question == OF_NONE)
            scan->secrets->found[i].question = (int)scan->question_count;
    scan->questions[scan->question_count++] = (struct question){ table->line, scan->line, table->words, table->length,
                                                                 true };
}

/* A field of a table of sentences. Answers where to go on: behind the name of one that is hidden. */
static const char *
take_sentence(struct scan *scan, struct bracket *table)
{
    const char *at = scan->at;
    size_t      length = 0;
    table->told = field_value(at, "choices") != NULL || field_value(at, "hides") != NULL;
    while (lua_is_name(at[length]))
        length++;
    const char *value = skip_blanks(at + length);
    if (table->told || length == 0 || value[0] != '=' || value[1] == '=')
        return at;
    value = skip_blanks(value + 1);
    if (*value == '{')
        return at;
    table->value    = value;
    table->sentence = true;
    return value;
}

/* At the beginning of a table's field. Answers where to go on. */
static const char *
take_field(struct scan *scan)
{
    static const char *const hidden[] = { "answer", "why", "wrong" };
    struct bracket *table = &scan->open[scan->depth - 1];
    const char     *at = scan->at, *value = field_value(at, "question");
    table->told = false;
    for (size_t i = 0; i < countof(hidden); i++) {
        const char *secret = field_value(at, hidden[i]);
        if (secret == NULL)
            continue;
        table->value = secret;
        table->asks |= i == 0;
        return secret;
    }
    if (table->sentences && value == NULL)
        return take_sentence(scan, table);
    const char *words = value != NULL ? value : at;
    if ((*words == '"' || *words == '\'') && table->length == 0) {
        size_t      length = lua_short_text(words);
        const char *next = skip_blanks(words + length);
        bool        plain = length > 2 && strchr(",;}", *next) != NULL && memchr(words, '\\', length) == NULL;
        table->words  = words + 1;
        table->length = plain ? length - 2 : 0;
    }
    return value != NULL ? value : at;
}

static size_t
take_comment(struct scan *scan)
{
    const char *at = scan->at + 2;
    size_t      length = lua_long_text(at);
    length = length > 0 ? length : strcspn(at, "\n");
    add_secret(scan, at + (*at == ' '), at + length);
    return length + 2;
}

/* Takes the next thing of the text; answers how many bytes it has. */
static size_t
take_next(struct scan *scan)
{
    const char *at = scan->at;
    size_t      length;
    if (*at == '"' || *at == '\'')
        return lua_short_text(at);
    if ((length = lua_long_text(at)) > 0)
        return length;
    if (lua_is_name(*at)) {
        while (lua_is_name(at[length]))
            length++;
        return length;
    }
    if (*at == '{' || *at == '(' || *at == '[')
        open_bracket(scan);
    else if (*at == '}' || *at == ')' || *at == ']')
        close_bracket(scan);
    else if ((*at == ',' || *at == ';') && scan->depth > 0)
        end_value(scan);
    return 1;
}

static void
pass(struct scan *scan, const char *to)
{
    for (; scan->at < to; scan->at++)
        scan->line += *scan->at == '\n';
}

static void
scan_text(struct scan *scan)
{
    while (!scan->starved) {
        pass(scan, skip_blanks(scan->at));
        if (*scan->at == '\0')
            break;
        if (scan->at[0] == '-' && scan->at[1] == '-') {
            pass(scan, scan->at + take_comment(scan));
            continue;
        }
        bool in_table = scan->depth > 0 && scan->open[scan->depth - 1].kind == '{';
        if (in_table && strchr("{,;", scan->before) != NULL) {
            const char *value = take_field(scan);
            if (value != scan->at) {
                scan->before = '=';
                pass(scan, value);
                continue;
            }
        }
        const char *from = scan->at;
        pass(scan, from + take_next(scan));
        scan->before      = scan->at[-1];
        scan->line_before = scan->line;
    }
    while (scan->depth > 0 && !scan->starved)
        close_bracket(scan); /* a text that was cut */
}

/* ---- which are open ---- */

static bool
has_line(const struct question *question, uint32_t line)
{
    return question->first <= line && line <= question->last;
}

/* Whether that event asks this question: by its words where they are known, and by its line, but for a line outside of
 * all questions: there a function of the lesson asks for them. */
static bool
is_asked_by(const struct question *question, const char *asked, uint32_t line, bool elsewhere)
{
    if (question->length > 0) {
        const char *rest = asked + question->length;
        if (strncmp(asked, question->words, question->length) != 0 || (*rest != '\0' && strncmp(rest, "  a) ", 5) != 0))
            return false;
    }
    return has_line(question, line) || (question->length > 0 && elsewhere);
}

static void
mark_questions(struct scan *scan, const struct model *model, size_t seq, bool open)
{
    const struct trace_event *event = trace_event(model->trace, seq);
    uint32_t    line = event != NULL ? event->line : 0;
    const char *asked = model_argument_text(model, seq, "question");
    bool        elsewhere = true;
    for (size_t i = 0; i < scan->question_count; i++)
        elsewhere = elsewhere && !has_line(&scan->questions[i], line);
    for (size_t i = 0; i < scan->question_count; i++)
        if (scan->questions[i].open != open && is_asked_by(&scan->questions[i], asked, line, elsewhere))
            scan->questions[i].open = open;
}

static void
settle_questions(struct scan *scan, const struct model *model, const struct view *view)
{
    bool holds = false; /* which come behind it is not known yet */
    for (size_t i = 0; i < model->lesson_count && scan->question_count > 0 && !holds; i++) {
        size_t seq = model->lessons[i];
        if (!asking_is_question(model, seq))
            continue;
        mark_questions(scan, model, seq, asking_is_open(&view->asking, seq));
        holds = asking_holds(&view->asking, seq);
    }
    for (size_t i = 0; i < scan->question_count && view->asking.all; i++)
        scan->questions[i].open = false;
}

static int
by_begin(const void *a, const void *b)
{
    const struct secret *x = a, *y = b;
    return (x->begin > y->begin) - (x->begin < y->begin);
}

static void
keep_open_ones(struct scan *scan)
{
    struct secrets *secrets = scan->secrets;
    size_t          kept = 0;
    bool            any = false;
    for (size_t i = 0; i < scan->question_count; i++)
        any |= scan->questions[i].open;
    for (size_t i = 0; i < secrets->count; i++) {
        int question = secrets->found[i].question;
        if (question == OF_ALL ? any : question >= 0 && scan->questions[question].open)
            secrets->found[kept++] = secrets->found[i];
    }
    secrets->count = kept;
    if (kept > 0)
        qsort(secrets->found, kept, sizeof *secrets->found, by_begin); /* a comment stood within a value */
}

bool
secrets_find(const struct model *model, const struct view *view, const char *text, struct secrets *out)
{
    *out = (struct secrets){ .text = text };
    struct scan scan = { .secrets = out, .at = text, .line = 1 };
    if (strstr(text, "answer") != NULL)
        scan_text(&scan);
    if (!scan.starved) {
        settle_questions(&scan, model, view);
        keep_open_ones(&scan);
    }
    free(scan.open);
    free(scan.questions);
    return !scan.starved;
}

void
secrets_line(const struct secrets *secrets, const char *line, size_t length, char *out, size_t size)
{
    size_t begin = (size_t)(line - secrets->text), end = begin + length, at = begin, used = 0;
    for (size_t i = 0; i < secrets->count && used + 2 < size; i++) {
        const struct secret *secret = &secrets->found[i];
        if (secret->end <= at || secret->begin >= end)
            continue;
        size_t shown = secret->begin > at ? secret->begin - at : strspn(secrets->text + at, " \t");
        shown = shown < size - used - 2 ? shown : size - used - 2;
        memcpy(out + used, secrets->text + at, shown);
        used += shown;
        out[used++] = '?';
        at = secret->end < end ? secret->end : end;
    }
    size_t rest = end - at < size - used - 1 ? end - at : size - used - 1;
    memcpy(out + used, secrets->text + at, rest);
    out[used + rest] = '\0';
}

void
secrets_free(struct secrets *secrets)
{
    free(secrets->found);
    *secrets = (struct secrets){ 0 };
}
