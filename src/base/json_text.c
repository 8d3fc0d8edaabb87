/* Where memory ends, jansson's own reader leaves bytes out of a word, takes what is left for wrong or for right, and
 * goes on past a quote that it lost; its writer leaves out names. So a text is read here, value by value, and written
 * through a callback that never fails.
 *
 * Interface: json_text_parse, json_text_write. */
#include "base/json_text.h"

#include <errno.h>
#include <locale.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include "base/str.h"
#include "base/visible.h"

enum { JSON_DEPTH = 2048 };

struct parser {
    const char        *start, *at, *end;
    size_t             flags;
    int                depth;
    struct str         word;         /* the text or the number that was read last */
    struct json_wrong *wrong;
};

/* false, and NULL for a value. */
static bool
refuse(struct parser *p, const char *why)
{
    *p->wrong = (struct json_wrong){ .line = 1, .why = why };
    for (const char *c = p->start; c < p->at; c++)
        p->wrong->line += *c == '\n';
    return false;
}

static size_t
left(const struct parser *p)
{
    return (size_t)(p->end - p->at);
}

/* ---- words ---- */

static bool
is_one_of(const struct parser *p, const char *these)
{
    return left(p) > 0 && *p->at != '\0' && strchr(these, *p->at) != NULL;
}

static bool
take_one_of(struct parser *p, const char *these)
{
    bool found = is_one_of(p, these);
    p->at += found;
    return found;
}

static void
skip_blanks(struct parser *p)
{
    while (take_one_of(p, " \t\r\n"))
        ;
}

static bool
take(struct parser *p, const char *mark)
{
    skip_blanks(p);
    return take_one_of(p, mark);
}

/* "\u" and four digits. */
static bool
take_unit(struct parser *p, uint32_t *unit)
{
    if (left(p) < 2 || p->at[0] != '\\' || p->at[1] != 'u' || !hexadecimal_take(p->at + 2, left(p) - 2, 4, unit))
        return false;
    p->at += 6;
    return true;
}

static bool
take_escape(struct parser *p)
{
    static const char letters[] = "\"\\/bfnrt", meant[] = "\"\\/\b\f\n\r\t";
    uint32_t          code = 0, low = 0;
    const char       *letter = left(p) > 1 && p->at[1] != '\0' ? strchr(letters, p->at[1]) : NULL;
    if (letter != NULL) {
        p->at += 2;
        str_add_bytes(&p->word, &meant[letter - letters], 1);
        return true;
    }
    if (!take_unit(p, &code))
        return refuse(p, "a backslash before what is no escape");
    if (code >= 0xd800 && code <= 0xdfff) {
        if (code >= 0xdc00 || !take_unit(p, &low) || low < 0xdc00 || low > 0xdfff)
            return refuse(p, "half a character");
        code = 0x10000 + ((code - 0xd800) << 10 | (low - 0xdc00));
    }
    if (code == 0 && (p->flags & JSON_ALLOW_NUL) == 0)
        return refuse(p, "a text with a NUL");
    utf8_add(&p->word, code);
    return true;
}

/* What follows a quote, to the next one. */
static bool
read_text_word(struct parser *p)
{
    uint32_t code = 0;
    str_clear(&p->word);
    while (left(p) > 0 && *p->at != '"') {
        size_t step = *p->at != '\\' ? utf8_take(p->at, left(p), &code) : 0;
        if (*p->at == '\\') {
            if (!take_escape(p))
                return false;
        } else if (step == 0 || code < 0x20) {
            return refuse(p, step == 0 ? "a byte that is no UTF-8" : "a control character in a text");
        }
        str_add_bytes(&p->word, p->at, step);
        p->at += step;
    }
    return left(p) > 0 ? p->at++, str_ok(&p->word) : refuse(p, "a text without its end");
}

static bool
take_digits(struct parser *p)
{
    const char *from = p->at;
    while (take_one_of(p, "0123456789"))
        ;
    return p->at > from;
}

static bool
read_number_word(struct parser *p, bool *real)
{
    const char *from = p->at;
    (void)take_one_of(p, "-");
    bool good = take_one_of(p, "0") || take_digits(p);
    if (good && (*real = take_one_of(p, ".")))
        good = take_digits(p);
    if (good && take_one_of(p, "eE")) {
        *real = true;
        (void)take_one_of(p, "+-");
        good = take_digits(p);
    }
    str_clear(&p->word);
    str_add_bytes(&p->word, from, (size_t)(p->at - from));
    return good ? str_ok(&p->word) : refuse(p, "a number that is none");
}

/* ---- values ---- */

static json_t *read_value(struct parser *p);

static json_t *
read_number(struct parser *p)
{
    bool real = false;
    if (!read_number_word(p, &real))
        return NULL;
    errno = 0;
    if (!real) {
        json_int_t number = strtoll(p->word.text, NULL, 10);
        return errno == 0 || refuse(p, "an integer that is too large") ? json_integer(number) : NULL;
    }
    char *point = strchr(p->word.text, '.');
    if (point != NULL)
        *point = *localeconv()->decimal_point; /* a trusted lesson may have set another */
    double number = strtod(p->word.text, NULL);
    return isfinite(number) || refuse(p, "a number that is too large") ? json_real(number) : NULL;
}

static json_t *
read_name(struct parser *p)
{
    static const struct { const char *name; json_t *(*make)(void); } names[] = {
        { "true", json_true }, { "false", json_false }, { "null", json_null },
    };
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
        size_t length = strlen(names[i].name);
        if (left(p) < length || memcmp(p->at, names[i].name, length) != 0)
            continue;
        p->at += length;
        return names[i].make();
    }
    refuse(p, left(p) > 0 ? "a value was expected" : "it ends where a value was expected");
    return NULL;
}

static bool
read_elements(struct parser *p, json_t *array)
{
    if (take(p, "]"))
        return true;
    do {
        if (json_array_append_new(array, read_value(p)) != 0)
            return false;
    } while (take(p, ","));
    return take(p, "]") || refuse(p, "',' or ']' was expected");
}

static bool
read_member(struct parser *p, json_t *object)
{
    if (!take(p, "\""))
        return refuse(p, "a name in quotes was expected");
    if (!read_text_word(p))
        return false;
    if (strlen(str_text(&p->word)) < p->word.len)
        return refuse(p, "a name with a NUL");
    if ((p->flags & JSON_REJECT_DUPLICATES) != 0 && json_object_get(object, str_text(&p->word)) != NULL)
        return refuse(p, "a name that comes twice");
    if (!take(p, ":"))
        return refuse(p, "':' was expected");
    char *name = strdup(str_text(&p->word));
    bool  good = name != NULL && json_object_set_new_nocheck(object, name, read_value(p)) == 0;
    free(name);
    return good;
}

static bool
read_members(struct parser *p, json_t *object)
{
    if (take(p, "}"))
        return true;
    do {
        if (!read_member(p, object))
            return false;
    } while (take(p, ","));
    return take(p, "}") || refuse(p, "',' or '}' was expected");
}

static json_t *
read_value(struct parser *p)
{
    if (take(p, "\""))
        return read_text_word(p) ? json_stringn_nocheck(str_text(&p->word), p->word.len) : NULL;
    if (is_one_of(p, "-0123456789"))
        return read_number(p);
    if (!is_one_of(p, "{["))
        return read_name(p);
    bool    object = *p->at++ == '{';
    json_t *value  = object ? json_object() : json_array();
    bool    fits   = ++p->depth <= JSON_DEPTH || refuse(p, "nested too deeply");
    if (value != NULL && fits && (object ? read_members(p, value) : read_elements(p, value))) {
        p->depth--;
        return value;
    }
    json_decref(value);
    return NULL;
}

json_t *
json_text_parse(const char *text, size_t length, size_t flags, struct json_wrong *wrong)
{
    struct parser p     = { .start = text, .at = text, .end = text + length, .flags = flags, .wrong = wrong };
    json_t       *value = NULL;
    *wrong              = (struct json_wrong){ 0 };
    if (take(&p, "{[")) {
        p.at--;
        value = read_value(&p);
    } else {
        refuse(&p, "'{' or '[' was expected");
    }
    skip_blanks(&p);
    if (value != NULL && left(&p) > 0) {
        refuse(&p, "more follows its end");
        json_decref(value);
        value = NULL;
    }
    str_free(&p.word);
    return value;
}

/* ---- writing ---- */

static int
add_bytes(const char *bytes, size_t count, void *out)
{
    str_add_bytes(out, bytes, count);
    return 0;
}

bool
json_text_write(const json_t *value, struct str *out)
{
    return json_dump_callback(value, add_bytes, out, JSON_COMPACT) == 0 && str_ok(out);
}
