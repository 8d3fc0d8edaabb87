/* Words of a lesson's text, read as leniently as what somebody who thinks of another language may have written.
 *
 * Interface: forms.h. */
#include "lua/forms.h"
#include <ctype.h>
#include <string.h>
#include "base/vec.h"

/* ---- words ---- */

struct source
source_open(const char *text, size_t size)
{
    return (struct source){ .at = text, .end = text + size, .level = -1 };
}

/* "[==[" at `at`: its level; -1: it is none. */
static int
bracket_level(const char *at, const char *end)
{
    const char *next = at + 1;
    while (next < end && *next == '=')
        next++;
    return at < end && *at == '[' && next < end && *next == '[' ? (int)(next - at) - 1 : -1;
}

/* On to behind the long bracket's close, or to the line's end. */
static void
skip_bracket(struct source *source)
{
    for (; source->at < source->end && *source->at != '\n'; source->at++) {
        const char *next = source->at + 1;
        if (*source->at != ']')
            continue;
        while (next < source->end && *next == '=')
            next++;
        if (next - source->at - 1 != source->level || next >= source->end || *next != ']')
            continue;
        source->at    = next + 1;
        source->level = -1;
        return;
    }
}

static void
enter_bracket(struct source *source, int level)
{
    source->at += level + 2;
    source->level = level;
    skip_bracket(source);
}

static size_t
quoted_length(const char *at, const char *end)
{
    const char *next = at + 1;
    while (next < end && *next != *at && *next != '\n')
        next += *next == '\\' && next + 1 < end && next[1] != '\n' ? 2 : 1;
    return (size_t)(next - at) + (next < end && *next == *at);
}

static size_t
number_length(const char *at, const char *end)
{
    const char *next = at;
    while (next < end && (isalnum((unsigned char)*next) || *next == '_' ||
                          (*next == '.' && next + 1 < end && next[1] != '.')))
        next++;
    return (size_t)(next - at);
}

static size_t
sign_length(const char *at, const char *end)
{
    static const char *const signs[] = { "...", "//=", "**=", "!=", "+=", "-=", "*=", "/=", "%=", "@=", "**", "++",
                                         "&&", "||", "==", "~=", "<=", ">=", "..", "//", "::", ":=" };
    for (size_t i = 0; i < countof(signs); i++)
        if ((size_t)(end - at) >= strlen(signs[i]) && memcmp(at, signs[i], strlen(signs[i])) == 0)
            return strlen(signs[i]);
    return 1;
}

static struct token
next_token(const char *at, const char *end)
{
    unsigned char first = (unsigned char)*at;
    if (isdigit(first))
        return (struct token){ TOKEN_NUMBER, at, number_length(at, end) };
    if (first == '"' || first == '\'')
        return (struct token){ TOKEN_TEXT, at, quoted_length(at, end) };
    if (!isalpha(first) && first != '_')
        return (struct token){ TOKEN_SIGN, at, sign_length(at, end) };
    const char *next = at;
    while (next < end && (isalnum((unsigned char)*next) || *next == '_'))
        next++;
    return (struct token){ TOKEN_NAME, at, (size_t)(next - at) };
}

/* At "--". */
static void
skip_comment(struct source *source)
{
    int level = bracket_level(source->at + 2, source->end);
    if (level < 0) {
        const char *newline = memchr(source->at, '\n', (size_t)(source->end - source->at));
        source->at = newline != NULL ? newline : source->end;
        return;
    }
    source->at += 2;
    enter_bracket(source, level);
}

static void
read_word(struct source *source, struct source_line *line)
{
    const char  *at    = source->at;
    int          level = bracket_level(at, source->end);
    struct token token;
    if (level >= 0) {
        enter_bracket(source, level);
        token = (struct token){ TOKEN_TEXT, at, (size_t)(source->at - at) };
    } else {
        token = next_token(at, source->end);
        source->at += token.length;
    }
    if (line->count < LINE_TOKENS)
        line->tokens[line->count++] = token;
}

bool
source_line(struct source *source, struct source_line *line)
{
    line->count = 0;
    if (source->at >= source->end)
        return false;
    if (source->level >= 0)
        skip_bracket(source);
    while (source->at < source->end && *source->at != '\n') {
        if (isspace((unsigned char)*source->at))
            source->at++;
        else if (source->end - source->at >= 2 && memcmp(source->at, "--", 2) == 0)
            skip_comment(source);
        else
            read_word(source, line);
    }
    source->at += source->at < source->end;
    return true;
}

/* ---- forms ---- */

bool
token_is(const struct token *token, const char *text)
{
    return strlen(text) == token->length && memcmp(token->text, text, token->length) == 0;
}

static bool
is_keyword(const struct token *token)
{
    static const char *const keywords[] = { "and", "break", "do", "else", "elseif", "end", "false", "for", "function",
                                            "goto", "if", "in", "local", "nil", "not", "or", "repeat", "return",
                                            "then", "true", "until", "while" };
    for (size_t i = 0; i < countof(keywords); i++)
        if (token_is(token, keywords[i]))
            return true;
    return false;
}

struct fitting { const struct source_line *line; const char *near; struct found_names *names; };

static void
keep_name(struct found_names *names, const struct token *first, const struct token *last)
{
    if (names->count < FORM_NAMES) {
        names->name[names->count].text   = first->text;
        names->name[names->count].length = (size_t)(last->text + last->length - first->text);
    }
    names->count++;
}

/* "nn.utils.data" from the word `at` on: where it ends at the latest; `at`: there is none. */
static int
path_end(const struct source_line *line, int at)
{
    if (at >= line->count || line->tokens[at].kind != TOKEN_NAME || is_keyword(&line->tokens[at]))
        return at;
    int end = at + 1;
    while (end + 1 < line->count && token_is(&line->tokens[end], ".") && line->tokens[end + 1].kind == TOKEN_NAME)
        end += 2;
    return end;
}

static bool
word_fits(const struct fitting *f, const char *word, size_t length, const struct token *token)
{
    if (length == 4 && memcmp(word, "TEXT", 4) == 0)
        return token->kind == TOKEN_TEXT;
    if (length == 6 && memcmp(word, "NUMBER", 6) == 0)
        return token->kind == TOKEN_NUMBER;
    if (length != 4 || memcmp(word, "NAME", 4) != 0)
        return token->length == length && memcmp(token->text, word, length) == 0;
    if (token->kind != TOKEN_NAME || is_keyword(token))
        return false;
    keep_name(f->names, token, token);
    return true;
}

static bool
meets_near(const struct fitting *f, int from, int to)
{
    if (f->near == NULL)
        return true;
    for (int i = from; i < to; i++) {
        const struct token *token = &f->line->tokens[i];
        size_t length = strlen(f->near);
        if (token->length >= length && memcmp(token->text, f->near, length) == 0)
            return true;
        if (token->kind == TOKEN_SIGN && token->length >= length &&
            memcmp(token->text + token->length - length, f->near, length) == 0)
            return true;
    }
    return false;
}

/* The rest of a form against the words from `at` on. */
static bool
rest_fits(const struct fitting *f, const char *form, int from, int at)
{
    form += strspn(form, " ");
    size_t length = strcspn(form, " ");
    int    count  = f->line->count, names = f->names->count;
    if (length == 0)
        return meets_near(f, from, at);
    const char *next = form + length;
    if (length == 1 && form[0] == '$')
        return at == count && meets_near(f, from, at);
    if (length == 3 && memcmp(form, "...", 3) == 0) {
        for (int to = next[strspn(next, " ")] == '\0' ? count : at; to <= count; to++) {
            if (rest_fits(f, next, from, to))
                return true;
            f->names->count = names;
        }
        return false;
    }
    if (length == 4 && memcmp(form, "PATH", 4) == 0) {
        for (int to = path_end(f->line, at); to > at; to -= 2) {
            keep_name(f->names, &f->line->tokens[at], &f->line->tokens[to - 1]);
            if (rest_fits(f, next, from, to))
                return true;
            f->names->count = names;
        }
        return false;
    }
    return at < count && word_fits(f, form, length, &f->line->tokens[at]) && rest_fits(f, next, from, at + 1);
}

bool
form_fits(const char *form, const struct source_line *line, const char *near, struct found_names *names)
{
    const struct fitting f = { line, near, names };
    bool begins = strncmp(form, "^ ", 2) == 0;
    for (int from = 0; from < line->count && (!begins || from == 0); from++) {
        names->count = 0;
        if (rest_fits(&f, begins ? form + 2 : form, from, from))
            return true;
    }
    return false;
}

/* The shortest text for each star; the last one of a glob takes what is left. */
bool
glob_fits(const char *glob, const char *text, struct found_names *names)
{
    size_t literal = strcspn(glob, "*"), star = 0;
    names->count = 0;
    if (strncmp(glob, text, literal) != 0)
        return false;
    glob += literal;
    text += literal;
    for (; *glob == '*'; star++) {
        const char *from = text;
        char        next[120];
        literal = strcspn(++glob, "*");
        if (literal >= sizeof next)
            return false;
        memcpy(next, glob, literal);
        next[literal] = '\0';
        text = literal > 0 ? strstr(text, next) : text + strlen(text);
        if (text == NULL)
            return false;
        if (star < FORM_NAMES) {
            names->name[star].text   = from;
            names->name[star].length = (size_t)(text - from);
            names->count             = (int)star + 1;
        }
        text += literal;
        glob += literal;
    }
    return *text == '\0';
}
