/* Characters for the screen. Interface in order of use: glyph_next or glyph_width on the way in, glyph_print or
 * glyph_ascii on the way out. The width table is our own, so that layout and tests agree on every machine. */
#include "glyph.h"

#include "base/str.h"
#include "base/vec.h"

#include <string.h>

enum { MIDDLE_DOT = 0x00b7, LONGEST = 4096, LONGEST_CHARACTER = 4 };

struct range { uint32_t first, last; };

/* No cell of their own, or none that all terminals agree on: soft hyphen, zero-width characters, private use, and the
 * like. What is harmful never comes so far. */
static const struct range hidden[] = {
    { 0x00ad, 0x00ad }, { 0x115f, 0x1160 }, { 0x17b4, 0x17b5 }, { 0x180b, 0x180f },
    { 0x200b, 0x200d }, { 0x2060, 0x206f }, { 0x3164, 0x3164 }, { 0xe000, 0xf8ff },
    { 0xfe00, 0xfe0f }, { 0xfeff, 0xfeff }, { 0xffa0, 0xffa0 }, { 0xfff0, 0xffff }, { 0x1bca0, 0x1bca3 },
    { 0x1d173, 0x1d17a }, { 0x323b0, 0x10ffff },
};
static const struct range combining[] = {
    { 0x0300, 0x036f }, { 0x0483, 0x0489 }, { 0x0591, 0x05bd }, { 0x0610, 0x061a }, { 0x064b, 0x065f },
    { 0x06d6, 0x06dc }, { 0x0900, 0x0903 }, { 0x093a, 0x094f }, { 0x0e31, 0x0e31 }, { 0x0e34, 0x0e3a },
    { 0x0e47, 0x0e4e }, { 0x1ab0, 0x1aff }, { 0x1dc0, 0x1dff }, { 0x20d0, 0x20ff }, { 0x302a, 0x302d },
    { 0x3099, 0x309a }, { 0xfe20, 0xfe2f },
};
static const struct range wide[] = {
    { 0x1100, 0x115f }, { 0x231a, 0x231b }, { 0x2329, 0x232a }, { 0x23e9, 0x23ec }, { 0x23f0, 0x23f3 },
    { 0x25fd, 0x25fe }, { 0x2614, 0x2615 }, { 0x2648, 0x2653 }, { 0x267f, 0x267f }, { 0x2693, 0x2693 },
    { 0x26a1, 0x26a1 }, { 0x26aa, 0x26ab }, { 0x26bd, 0x26be }, { 0x26c4, 0x26c5 }, { 0x26ce, 0x26ce },
    { 0x26d4, 0x26d4 }, { 0x26ea, 0x26ea }, { 0x26f2, 0x26fd }, { 0x2705, 0x2705 }, { 0x270a, 0x270b },
    { 0x2728, 0x2728 }, { 0x274c, 0x274e }, { 0x2753, 0x2757 }, { 0x2795, 0x2797 }, { 0x27b0, 0x27bf },
    { 0x2b1b, 0x2b1c }, { 0x2b50, 0x2b55 }, { 0x2e80, 0x303e }, { 0x3041, 0x33ff }, { 0x3400, 0x4dbf },
    { 0x4e00, 0x9fff }, { 0xa000, 0xa4cf }, { 0xa960, 0xa97f }, { 0xac00, 0xd7a3 }, { 0xf900, 0xfaff },
    { 0xfe30, 0xfe6f }, { 0xff00, 0xff60 }, { 0xffe0, 0xffe6 }, { 0x16fe0, 0x18cff }, { 0x1b000, 0x1b2fb },
    { 0x1f004, 0x1f004 }, { 0x1f0cf, 0x1f0cf }, { 0x1f18e, 0x1f19a }, { 0x1f200, 0x1f320 },
    { 0x1f32d, 0x1f64f }, { 0x1f680, 0x1f6ff }, { 0x1f7e0, 0x1f7eb }, { 0x1f90c, 0x1faff },
    { 0x20000, 0x323af },
};

static bool
in_ranges(const struct range *ranges, size_t count, uint32_t code)
{
    size_t low = 0, high = count;
    while (low < high) {
        size_t middle = (low + high) / 2;
        if (code > ranges[middle].last)
            low = middle + 1;
        else
            high = middle;
    }
    return low < count && code >= ranges[low].first;
}

struct glyph
glyph_next(const char **at)
{
    for (;;) {
        const char *text = *at;
        size_t count = strnlen(text, LONGEST_CHARACTER);
        if (count == 0)
            return (struct glyph){ 0 };
        if (*text == '\t') {
            *at = text + 1;
            return (struct glyph){ .code = ' ', .width = 1 };
        }
        if (visible_length(text, count, VISIBLE_LINE) == 0) {
            struct glyph glyph = { .code = '\\' };
            *at = text + visible_spell(text, count, VISIBLE_LINE, glyph.spelled);
            glyph.width = (int)strlen(glyph.spelled);
            return glyph;
        }
        uint32_t code = 0;
        *at = text + utf8_take(text, count, &code);
        if (code < 0x7f)
            return (struct glyph){ .code = code, .width = 1 };
        if (code == 0xa0)
            return (struct glyph){ .code = ' ', .width = 1 };
        if (in_ranges(hidden, countof(hidden), code))
            return (struct glyph){ .code = MIDDLE_DOT, .width = 1 };
        if (!in_ranges(combining, countof(combining), code))
            return (struct glyph){ .code = code, .width = in_ranges(wide, countof(wide), code) ? 2 : 1 };
    }
}

int
glyph_width(const char *text, int limit)
{
    const char *at = text;
    int width = 0;
    for (struct glyph glyph = glyph_next(&at); glyph.code != 0 && width < limit && at - text < LONGEST;
         glyph = glyph_next(&at))
        width += glyph.width;
    return width < limit ? width : limit;
}

char
glyph_ascii(uint32_t code)
{
    static const struct { uint32_t code; char ascii; } table[] = {
        { 0x00b7, '.' }, { 0x00d7, 'x' }, { 0x2016, '|' }, { 0x2022, '*' }, { 0x2026, '~' }, { 0x2192, '>' },
        { 0x2013, '-' }, { 0x2014, '-' }, { 0x2018, '\'' }, { 0x2019, '\'' }, { 0x201c, '"' }, { 0x201d, '"' },
        { 0x2190, '<' }, { 0x2264, '<' }, { 0x2265, '>' }, { 0x258f, '\'' }, { 0x250a, '"' }, { 0x254c, '-' },
        { 0x2588, '#' }, { 0x2591, '.' }, { 0x2592, ':' }, { 0x2593, '=' }, { 0x2590, '[' }, { 0x258c, ']' },
        { 0x25a0, '#' }, { 0x25a1, '.' }, { 0x25b2, '^' }, { 0x25ba, '>' }, { 0x25bc, 'v' }, { 0x25c4, '<' },
        { 0x25cf, 'o' }, { 0x25cb, 'o' }, { 0x2571, '/' }, { 0x2502, '|' }, { 0x2503, '|' }, { 0x2551, '|' },
    };
    if (code < 0x7f)
        return (char)code;
    for (size_t i = 0; i < countof(table); i++)
        if (table[i].code == code)
            return table[i].ascii;
    if (code >= 0x2581 && code <= 0x2588)
        return " .:-=+*#"[code - 0x2581];
    if (code >= 0x2589 && code <= 0x258f)
        return '|';
    if (code == 0x2500 || code == 0x2501 || code == 0x2550)
        return '-';
    return code >= 0x2500 && code < 0x2580 ? '+' : '?';
}

void
glyph_print(uint32_t code, struct str *out)
{
    unsigned char bytes[4];
    if (code < 0x80) {
        bytes[0] = (unsigned char)code;
        str_add_bytes(out, bytes, 1);
    } else if (code < 0x800) {
        bytes[0] = (unsigned char)(0xc0 | code >> 6);
        bytes[1] = (unsigned char)(0x80 | (code & 0x3f));
        str_add_bytes(out, bytes, 2);
    } else if (code < 0x10000) {
        bytes[0] = (unsigned char)(0xe0 | code >> 12);
        bytes[1] = (unsigned char)(0x80 | (code >> 6 & 0x3f));
        bytes[2] = (unsigned char)(0x80 | (code & 0x3f));
        str_add_bytes(out, bytes, 3);
    } else {
        bytes[0] = (unsigned char)(0xf0 | code >> 18);
        bytes[1] = (unsigned char)(0x80 | (code >> 12 & 0x3f));
        bytes[2] = (unsigned char)(0x80 | (code >> 6 & 0x3f));
        bytes[3] = (unsigned char)(0x80 | (code & 0x3f));
        str_add_bytes(out, bytes, 4);
    }
}
