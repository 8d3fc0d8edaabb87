/* What may go to a terminal as it is, and what stands for the rest.
 *
 * Interface in order of use: visible_add, visible_write; visible_length, visible_spell; utf8_take, utf8_add,
 * hexadecimal_take. */
#include "base/visible.h"

#include <string.h>
#include "base/str.h"
#include "base/vec.h"

size_t
utf8_take(const char *text, size_t count, uint32_t *code)
{
    static const uint32_t smallest[] = { 0, 0x80, 0x800, 0x10000 };
    const unsigned char *byte = (const unsigned char *)text;
    if (count == 0)
        return 0;
    if (byte[0] < 0x80) {
        *code = byte[0];
        return 1;
    }
    size_t more = byte[0] >= 0xf0 ? 3 : byte[0] >= 0xe0 ? 2 : 1;
    if (byte[0] < 0xc2 || byte[0] > 0xf4 || more >= count)
        return 0;
    uint32_t value = byte[0] & (0x3fu >> more);
    for (size_t i = 1; i <= more; i++) {
        if ((byte[i] & 0xc0) != 0x80)
            return 0;
        value = value << 6 | (byte[i] & 0x3fu);
    }
    if (value < smallest[more] || value > 0x10ffff || (value >= 0xd800 && value <= 0xdfff))
        return 0;
    *code = value;
    return more + 1;
}

void
utf8_add(struct str *out, uint32_t code)
{
    char bytes[4] = { (char)(0xf0 | code >> 18), (char)(0x80 | (code >> 12 & 0x3f)), (char)(0x80 | (code >> 6 & 0x3f)),
                      (char)(0x80 | (code & 0x3f)) };
    char one      = (char)code;
    if (code < 0x80) {
        str_add_bytes(out, &one, 1);
        return;
    }
    int skipped = code < 0x800 ? 2 : code < 0x10000 ? 1 : 0;
    if (skipped == 2)
        bytes[2] = (char)(0xc0 | code >> 6);
    else if (skipped == 1)
        bytes[1] = (char)(0xe0 | code >> 12);
    str_add_bytes(out, bytes + skipped, (size_t)(4 - skipped));
}

bool
hexadecimal_take(const char *text, size_t count, size_t digits, uint32_t *code)
{
    *code = 0;
    for (size_t i = 0; i < digits; i++) {
        static const char known[] = "0123456789abcdefABCDEF";
        const char *digit = i < count && text[i] != '\0' ? strchr(known, text[i]) : NULL;
        if (digit == NULL)
            return false;
        size_t place = (size_t)(digit - known);
        *code        = *code << 4 | (uint32_t)(place < 16 ? place : place - 6);
    }
    return *code < 0x110000;
}

/* Beyond ASCII. Joiners and combining marks are honest writing. */
static bool
is_harmful(uint32_t code)
{
    static const struct { uint32_t first, last; } harmful[] = {
        { 0x0080, 0x009f },                     /* C1 */
        { 0x061c, 0x061c }, { 0x200e, 0x200f }, /* direction marks */
        { 0x2028, 0x202e },                     /* line and paragraph separator, embeddings and overrides */
        { 0x2066, 0x2069 },                     /* isolates */
    };
    for (size_t i = 0; i < countof(harmful); i++)
        if (code >= harmful[i].first && code <= harmful[i].last)
            return true;
    return false;
}

static bool
is_plain_ascii(unsigned char byte, enum visible_form form)
{
    if (byte >= 0x20 && byte < 0x7f)
        return form != VISIBLE_JSON || (byte != '"' && byte != '\\');
    return form == VISIBLE_LINES && (byte == '\n' || byte == '\t');
}

/* Eight bytes that every form shows as they are: each from 0x20 to 0x7e, none of them what JSON escapes. */
static bool
are_plain(const char *text, enum visible_form form)
{
    const uint64_t ones = 0x0101010101010101, highs = ones * 0x80;
    uint64_t       bytes;
    memcpy(&bytes, text, sizeof bytes);
    return form != VISIBLE_JSON && ((bytes | (bytes - ones * 0x20) | (bytes + ones)) & highs) == 0;
}

size_t
visible_length(const char *text, size_t count, enum visible_form form)
{
    size_t at = 0;
    for (;;) {
        while (count - at >= 8 && are_plain(text + at, form))
            at += 8;
        while (at < count && is_plain_ascii((unsigned char)text[at], form))
            at++;
        uint32_t code = 0;
        size_t   bytes = at < count && (text[at] & 0x80) != 0 ? utf8_take(text + at, count - at, &code) : 0;
        if (bytes == 0 || is_harmful(code))
            return at;
        at += bytes;
    }
}

size_t
visible_spell(const char *text, size_t count, enum visible_form form, char out[VISIBLE_ROOM])
{
    uint32_t code = 0;
    size_t   bytes = utf8_take(text, count, &code);
    bool     json = form == VISIBLE_JSON, quoted = json && (*text == '"' || *text == '\\');
    if (quoted)
        snprintf(out, VISIBLE_ROOM, "\\%c", *text);
    else if (json)
        snprintf(out, VISIBLE_ROOM, "\\u%04x", bytes > 0 ? (unsigned)(code & 0xffff) : 0xfffdu);
    else if (*text == '\n' || *text == '\t')
        snprintf(out, VISIBLE_ROOM, "%s", *text == '\n' ? "\\n" : "\\t");
    else if (bytes > 1)
        snprintf(out, VISIBLE_ROOM, "\\u{%x}", (unsigned)code);
    else
        snprintf(out, VISIBLE_ROOM, "\\x%02x", (unsigned)(unsigned char)*text);
    return bytes > 0 ? bytes : 1;
}

/* The next piece as it may be shown, of *length bytes: the text itself, or spelled. Text and count move behind it. */
static const char *
next_piece(const char **text, size_t *count, enum visible_form form, char spelled[VISIBLE_ROOM], size_t *length)
{
    const char *piece = *text;
    size_t taken = *length = visible_length(*text, *count, form);
    if (taken == 0) {
        taken = visible_spell(*text, *count, form, spelled);
        *length = strlen(spelled);
        piece = spelled;
    }
    *text += taken;
    *count -= taken;
    return piece;
}

void
visible_add(struct str *out, const char *text, size_t count, enum visible_form form)
{
    char spelled[VISIBLE_ROOM];
    while (count > 0) {
        size_t length;
        const char *piece = next_piece(&text, &count, form, spelled, &length);
        str_add_bytes(out, piece, length);
    }
}

/* Takes no memory: an error must be told when there is none. */
void
visible_write(FILE *out, const char *text, size_t count, enum visible_form form)
{
    char spelled[VISIBLE_ROOM];
    while (count > 0) {
        size_t length;
        const char *piece = next_piece(&text, &count, form, spelled, &length);
        fwrite(piece, 1, length, out);
    }
}
