/* Interface in order of use: prompt_open, prompt_key for each key, prompt_draw for a frame, prompt_keep,
 * prompt_free. */
#include "prompt.h"

#include "base/vec.h"
#include "glyph.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

bool
prompt_is_open(const struct prompt *prompt)
{
    return prompt->title[0] != '\0';
}

void
prompt_close(struct prompt *prompt)
{
    prompt->title[0] = prompt->typed[0] = prompt->offers[0] = '\0';
    prompt->caret = 0;
}

void
prompt_free(struct prompt *prompt)
{
    for (int kind = 0; kind < PROMPT_KINDS; kind++)
        for (int i = 0; i < prompt->past[kind].count; i++)
            free(prompt->past[kind].lines[i]);
    *prompt = (struct prompt){ .caret = 0 };
}

/* ---- history ---- */

/* Forwards and back one runs to the same. */
static const char *
kind_of_prompt(const char *title)
{
    return strcmp(title, "runtil ") == 0 ? "until " : title;
}

static struct history *
history_of(struct prompt *prompt, const char *title)
{
    struct history *free_one = NULL;
    title = kind_of_prompt(title);
    for (int i = 0; i < PROMPT_KINDS; i++) {
        struct history *past = &prompt->past[i];
        if (past->count > 0 && strncmp(past->title, title, sizeof past->title - 1) == 0)
            return past;
        if (past->count == 0 && free_one == NULL)
            free_one = past;
    }
    if (free_one != NULL)
        snprintf(free_one->title, sizeof free_one->title, "%.*s", (int)sizeof free_one->title - 1, title);
    return free_one;
}

/* A line that is entered again is the latest once more; without memory it is forgotten. */
void
prompt_keep(struct prompt *prompt, const char *title, const char *typed)
{
    struct history *past = history_of(prompt, title);
    char *line = past != NULL && typed[0] != '\0' ? strdup(typed) : NULL;
    int   same = 0;
    if (line == NULL)
        return;
    while (same < past->count && strcmp(past->lines[same], line) != 0)
        same++;
    if (same == past->count && past->count == PROMPT_LINES)
        same = 0;
    if (same < past->count) {
        free(past->lines[same]);
        memmove(past->lines + same, past->lines + same + 1, (size_t)(past->count - same - 1) * sizeof past->lines[0]);
        past->count--;
    }
    past->lines[past->count++] = line;
}

/* `by` lines further back; 0 is what was being typed. */
static void
recall(struct prompt *prompt, int by)
{
    const struct history *past = history_of(prompt, prompt->title);
    int back = prompt->back + by;
    if (past == NULL || back < 0 || back > past->count || back == prompt->back)
        return;
    if (prompt->back == 0)
        memcpy(prompt->draft, prompt->typed, sizeof prompt->draft);
    snprintf(prompt->typed, sizeof prompt->typed, "%s", back == 0 ? prompt->draft : past->lines[past->count - back]);
    prompt->back = back;
    prompt->caret = strlen(prompt->typed);
}

/* What Enter alone does again: to look for nothing, or to run to nothing, is not meant. */
static const char *
last_entered(struct prompt *prompt)
{
    const struct history *past = history_of(prompt, prompt->title);
    bool repeats = strcmp(prompt->title, "/") == 0 || strcmp(kind_of_prompt(prompt->title), "until ") == 0;
    return repeats && past != NULL && past->count > 0 ? past->lines[past->count - 1] : "";
}

void
prompt_open(struct prompt *prompt, const char *title)
{
    snprintf(prompt->title, sizeof prompt->title, "%s", title);
    prompt->typed[0] = prompt->offers[0] = prompt->draft[0] = '\0';
    prompt->caret = 0;
    prompt->back = 0;
    const char *last = last_entered(prompt);
    if (last[0] != '\0')
        snprintf(prompt->offers, sizeof prompt->offers, "Enter: %.400s", last);
}

/* ---- editing ---- */

static size_t
before(const struct prompt *prompt, size_t at)
{
    while (at > 0 && ((unsigned char)prompt->typed[--at] & 0xc0) == 0x80)
        continue;
    return at;
}

static size_t
behind(const struct prompt *prompt, size_t at)
{
    if (prompt->typed[at] != '\0')
        at++;
    while (((unsigned char)prompt->typed[at] & 0xc0) == 0x80)
        at++;
    return at;
}

static size_t
word_before(const struct prompt *prompt)
{
    size_t at = prompt->caret;
    while (at > 0 && prompt->typed[at - 1] == ' ')
        at--;
    while (at > 0 && prompt->typed[at - 1] != ' ')
        at--;
    return at;
}

void
prompt_replace(struct prompt *prompt, size_t from, const char *text)
{
    size_t length = strlen(text), rest = strlen(prompt->typed + prompt->caret);
    if (from > prompt->caret || from + length + rest >= sizeof prompt->typed)
        return;
    memmove(prompt->typed + from + length, prompt->typed + prompt->caret, rest + 1);
    memcpy(prompt->typed + from, text, length);
    prompt->caret = from + length;
}

static void
erase(struct prompt *prompt, size_t from, size_t to)
{
    memmove(prompt->typed + from, prompt->typed + to, strlen(prompt->typed + to) + 1);
    prompt->caret = from;
}

static bool
edit(struct prompt *prompt, const char *key)
{
    size_t end = strlen(prompt->typed);
    if (strcmp(key, "Left") == 0 || strcmp(key, "^B") == 0)
        prompt->caret = before(prompt, prompt->caret);
    else if (strcmp(key, "Right") == 0 || strcmp(key, "^F") == 0)
        prompt->caret = behind(prompt, prompt->caret);
    else if (strcmp(key, "Home") == 0 || strcmp(key, "^A") == 0)
        prompt->caret = 0;
    else if (strcmp(key, "End") == 0 || strcmp(key, "^E") == 0)
        prompt->caret = end;
    else if (strcmp(key, "Backspace") == 0)
        erase(prompt, before(prompt, prompt->caret), prompt->caret);
    else if (strcmp(key, "Delete") == 0 || strcmp(key, "^D") == 0)
        erase(prompt, prompt->caret, behind(prompt, prompt->caret));
    else if (strcmp(key, "^U") == 0)
        erase(prompt, 0, prompt->caret);
    else if (strcmp(key, "^K") == 0)
        prompt->typed[prompt->caret] = '\0';
    else if (strcmp(key, "^W") == 0)
        erase(prompt, word_before(prompt), prompt->caret);
    else
        return false;
    return true;
}

/* The characters that a key stands for in a line; NULL: it is no character. */
static const char *
characters_of(const char *key)
{
    if (strncmp(key, "Paste ", 6) == 0)
        return key + 6;
    if (strcmp(key, "Space") == 0)
        return " ";
    bool one = key[0] != '\0' && (unsigned char)key[0] >= 32 && (key[1] == '\0' || ((unsigned char)key[0] & 0x80) != 0);
    return one ? key : NULL;
}

enum prompt_end
prompt_key(struct prompt *prompt, const char *key)
{
    prompt->offers[0] = '\0';
    const char *characters = characters_of(key);
    if (strcmp(key, "Enter") == 0) {
        if (prompt->typed[0] == '\0')
            snprintf(prompt->typed, sizeof prompt->typed, "%s", last_entered(prompt));
        prompt_keep(prompt, prompt->title, prompt->typed);
        return PROMPT_ENTERED;
    }
    if (strcmp(key, "Esc") == 0 || strcmp(key, "^C") == 0) {
        prompt_close(prompt);
        return PROMPT_LEFT;
    }
    if (strcmp(key, "Tab") == 0)
        return PROMPT_COMPLETES;
    if (strcmp(key, "Up") == 0 || strcmp(key, "^P") == 0)
        recall(prompt, 1);
    else if (strcmp(key, "Down") == 0 || strcmp(key, "^N") == 0)
        recall(prompt, -1);
    else if (!edit(prompt, key) && characters != NULL)
        prompt_replace(prompt, prompt->caret, characters);
    return PROMPT_STAYS;
}

/* ---- drawing ---- */

/* The part around the caret where the line is longer than its row; behind it, dim, what Tab found. */
void
prompt_draw(const struct prompt *prompt, struct canvas *line)
{
    const struct style bold = { .attr = ATTR_BOLD }, plain = { 0 };
    int    start = canvas_text(line, 0, 1, bold, prompt->title), room = line->width - start - 2;
    size_t from = 0;
    char   part[PROMPT_ROOM];
    for (;;) {
        snprintf(part, sizeof part, "%.*s", (int)(prompt->caret - from), prompt->typed + from);
        if (from >= prompt->caret || glyph_width(part, PROMPT_ROOM) <= room)
            break;
        from = behind(prompt, from);
    }
    int column = canvas_text(line, 0, start, plain, part);
    size_t next = behind(prompt, prompt->caret);
    const struct style reversed = { .attr = ATTR_REVERSE };
    if (next > prompt->caret) {
        snprintf(part, sizeof part, "%.*s", (int)(next - prompt->caret), prompt->typed + prompt->caret);
        column = canvas_text(line, 0, column, reversed, part);
    } else if (column < line->width) {
        canvas_put(line, 0, column++, reversed, ' ');
    }
    column = canvas_text(line, 0, column, plain, prompt->typed + next);
    if (prompt->offers[0] != '\0' && column + 2 < line->width)
        canvas_cut(line, (struct stretch){ 0, column + 1, line->width - column - 2 }, (struct style){ .ink = INK_DIM },
                   prompt->offers);
}
