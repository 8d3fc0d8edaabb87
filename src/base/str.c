/* A text that grows. Whoever builds a message or a page appends without looking and asks once at the end.
 *
 * Interface in order of use: str_add, str_add_bytes, str_add_unsigned, str_add_signed, str_addf, str_addv, str_enclose;
 * str_ok, str_text; str_clear to begin again in the same room; str_free. And float_text, for who writes numbers into
 * one. */
#include "base/str.h"

#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Room for `count` more bytes and the NUL. */
static bool
str_room(struct str *str, size_t count)
{
    if (str->broken)
        return false;
    if (count >= PTRDIFF_MAX - str->len) {
        str->broken = true;
        return false;
    }
    size_t need = str->len + count + 1;
    if (need <= str->room)
        return true;

    size_t room = str->room < 32 ? 64 : str->room;
    while (room < need)
        room = room > PTRDIFF_MAX / 2 ? need : room * 2;
    char *grown = realloc(str->text, room);
    if (grown == NULL) {
        str->broken = true;
        return false;
    }
    str->text = grown;
    str->room = room;
    str->text[str->len] = '\0';
    return true;
}

void
str_add(struct str *str, const char *text)
{
    str_add_bytes(str, text, strlen(text));
}

void
str_add_bytes(struct str *str, const void *bytes, size_t count)
{
    if (!str_room(str, count))
        return;
    if (count > 0)
        memcpy(str->text + str->len, bytes, count);
    str->len += count;
    str->text[str->len] = '\0';
}

enum { DIGITS = 20 };

/* The digits of `number`, right-aligned in `text`; answers where they begin. */
static size_t
spell_digits(char text[DIGITS], uint64_t number)
{
    size_t at = DIGITS;
    do
        text[--at] = (char)('0' + number % 10);
    while ((number /= 10) > 0);
    return at;
}

void
str_add_unsigned(struct str *str, uint64_t number)
{
    char   text[DIGITS];
    size_t at = spell_digits(text, number);
    str_add_bytes(str, text + at, DIGITS - at);
}

void
str_add_signed(struct str *str, int64_t number)
{
    if (number < 0)
        str_add_bytes(str, "-", 1);
    str_add_unsigned(str, number < 0 ? 0 - (uint64_t)number : (uint64_t)number);
}

void
str_addf(struct str *str, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    str_addv(str, format, args);
    va_end(args);
}

void
str_addv(struct str *str, const char *format, va_list args)
{
    if (!str_room(str, 0))
        return;

    va_list again;
    va_copy(again, args);
    size_t left = str->room - str->len;
    int count = vsnprintf(str->text + str->len, left, format, args);
    if (count >= 0 && (size_t)count >= left) {
        str->text[str->len] = '\0'; /* if no room can be had, the half that was written does not count */
        if (!str_room(str, (size_t)count)) {
            va_end(again);
            return;
        }
        vsnprintf(str->text + str->len, str->room - str->len, format, again);
    }
    va_end(again);
    if (count < 0) { /* vsnprintf itself had no memory */
        str->text[str->len] = '\0';
        str->broken = true;
        return;
    }
    str->len += (size_t)count;
}

void
str_enclose(struct str *str, const char *before, const struct str *part, const char *after)
{
    if (part->len > 0) {
        str_add(str, before);
        str_add_bytes(str, part->text, part->len);
        str_add(str, after);
    }
    str->broken |= part->broken;
}

void
str_clear(struct str *str)
{
    str->len = 0;
    str->broken = false;
    if (str->text != NULL)
        str->text[0] = '\0';
}

bool
str_ok(const struct str *str)
{
    return !str->broken;
}

const char *
str_text(const struct str *str)
{
    return str->text != NULL ? str->text : "";
}

void
str_free(struct str *str)
{
    free(str->text);
    *str = (struct str){ 0 };
}

void
str_clip_lines(struct str *str, size_t most)
{
    static const char more[] = "\n...";
    if (str->broken || str->len <= most || most < sizeof more)
        return;
    size_t end = most - (sizeof more - 1);
    while (end > 0 && str->text[end] != '\n')
        end--;
    str->len       = end;
    str->text[end] = '\0';
    str_add(str, more + (end == 0));
}

/* The fewest digits that read back as the number; an exponent below 1e-4 and from 1e16 on. */
void
float_text(double number, char text[FLOAT_TEXT])
{
    int digits = 1;
    do
        snprintf(text, FLOAT_TEXT, "%.*e", digits - 1, number);
    while (strtod(text, NULL) != number && ++digits <= 17);
    const char *exponent = strchr(text, 'e');
    int         power    = exponent != NULL ? (int)strtol(exponent + 1, NULL, 10) : 0;
    if (number != number)
        snprintf(text, FLOAT_TEXT, "nan");
    else if (number - number == 0 && power >= -4 && power < 16)
        snprintf(text, FLOAT_TEXT, "%.*f", digits - 1 - power > 1 ? digits - 1 - power : 1, number);
}
