/* Escape sequences, characters, mouse reports (SGR 1006) and bracketed pastes. Each takes_* answers how many bytes it
 * took; 0: they are not all there. Interface: decoder_feed, decoder_key, decoder_waits. */
#include "decode.h"

#include "base/vec.h"

#include <stdio.h>
#include <string.h>

enum { ESC = 27, DOUBLE_CLICK_MS = 400, LONGEST = 64, FARTHEST = 9999 };
enum { BUTTON_SHIFT = 4, BUTTON_ALT = 8, BUTTON_CTRL = 16, BUTTON_MOVES = 32, BUTTON_WHEEL = 64 };

static const char paste_end[] = "\x1b[201~";

size_t
decoder_room(const struct decoder *decoder)
{
    return sizeof decoder->bytes - decoder->count;
}

void
decoder_feed(struct decoder *decoder, const void *bytes, size_t count)
{
    count = count < decoder_room(decoder) ? count : decoder_room(decoder);
    memcpy(decoder->bytes + decoder->count, bytes, count);
    decoder->count += count;
}

bool
decoder_waits(const struct decoder *decoder)
{
    return decoder->count > 0 || decoder->pasting;
}

static void
drop(struct decoder *decoder, size_t count)
{
    decoder->count -= count;
    memmove(decoder->bytes, decoder->bytes + count, decoder->count);
}

/* ---- characters ---- */

/* How many bytes the character has; 0: they are not all there; 1 also for what is none (*valid says). */
static size_t
character_length(const unsigned char *at, size_t count, bool *valid)
{
    size_t length = at[0] < 0x80 ? 1 : at[0] >= 0xf0 && at[0] < 0xf5 ? 4 : at[0] >= 0xe0 && at[0] < 0xf0 ? 3
                    : at[0] >= 0xc2 && at[0] < 0xe0 ? 2 : 0;
    *valid = length > 0 && !(at[0] == 0xc2 && count > 1 && at[1] < 0xa0); /* nor a control of the second kind */
    for (size_t i = 1; i < length && i < count; i++)
        if ((at[i] & 0xc0) != 0x80) {
            *valid = false;
            return 1;
        }
    return length == 0 ? 1 : length <= count ? length : 0;
}

static void
name_character(const unsigned char *at, size_t length, char key[KEY_ROOM])
{
    if (at[0] == '\r' || at[0] == '\n')
        snprintf(key, KEY_ROOM, "Enter");
    else if (at[0] == '\t')
        snprintf(key, KEY_ROOM, "Tab");
    else if (at[0] == ' ')
        snprintf(key, KEY_ROOM, "Space");
    else if (at[0] == 127 || at[0] == 8)
        snprintf(key, KEY_ROOM, "Backspace");
    else if (at[0] < 32)
        snprintf(key, KEY_ROOM, "^%c", at[0] + 64);
    else
        snprintf(key, KEY_ROOM, "%.*s", (int)length, (const char *)at);
}

static size_t
takes_character(struct decoder *decoder, bool late, char key[KEY_ROOM])
{
    bool   valid;
    size_t length = character_length(decoder->bytes, decoder->count, &valid);
    if (length == 0)
        return late ? decoder->count : 0;
    if (valid)
        name_character(decoder->bytes, length, key);
    return length;
}

/* Pasted text never acts: each of its characters says that it was pasted. */
static size_t
takes_pasted(struct decoder *decoder, bool late, char key[KEY_ROOM])
{
    size_t end = sizeof paste_end - 1, have = decoder->count < end ? decoder->count : end;
    if (memcmp(decoder->bytes, paste_end, have) == 0 && (have == end || !late)) {
        decoder->pasting = have < end;
        return have == end ? end : 0;
    }
    if (decoder->bytes[0] == ESC && decoder->count == 1) { /* late: a person wants out */
        decoder->pasting = false;
        return 1;
    }
    bool   valid;
    size_t length = character_length(decoder->bytes, decoder->count, &valid);
    if (length == 0)
        return late ? decoder->count : 0;
    if (valid && decoder->bytes[0] >= 32 && decoder->bytes[0] != 127)
        snprintf(key, KEY_ROOM, "Paste %.*s", (int)length, (const char *)decoder->bytes);
    else if (decoder->bytes[0] == '\t' || decoder->bytes[0] == '\n' || decoder->bytes[0] == '\r')
        snprintf(key, KEY_ROOM, "Paste  ");
    return length;
}

/* ---- the mouse ---- */

struct report { int button, x, y; bool pressed; };

static void
name_press(struct decoder *decoder, const struct report *report, int64_t now_ms, char key[KEY_ROOM])
{
    bool twice = report->x == decoder->down_x && report->y == decoder->down_y &&
                 now_ms - decoder->down_ms < DOUBLE_CLICK_MS;
    snprintf(key, KEY_ROOM, "%s %d,%d", twice ? "DoubleClick" : "Click", report->x, report->y);
    decoder->down = true;
    decoder->down_x = decoder->at_x = report->x;
    decoder->down_y = decoder->at_y = report->y;
    decoder->down_ms = twice ? now_ms - DOUBLE_CLICK_MS : now_ms;
}

static void
name_report(struct decoder *decoder, const struct report *report, int64_t now_ms, char key[KEY_ROOM])
{
    int button = report->button & ~(BUTTON_SHIFT | BUTTON_ALT | BUTTON_CTRL);
    const char *held = report->button & BUTTON_CTRL ? "Ctrl" : report->button & BUTTON_SHIFT ? "Shift" : "";
    if (button >= BUTTON_WHEEL && button < BUTTON_WHEEL + 4 && report->pressed) { /* 66 and 67 lie on their sides */
        snprintf(key, KEY_ROOM, "%sWheel%s %d,%d", button >= BUTTON_WHEEL + 2 ? "Shift" : held,
                 button & 1 ? "Down" : "Up", report->x, report->y);
    } else if (button == 0 && report->pressed) {
        name_press(decoder, report, now_ms, key);
    } else if (button == BUTTON_MOVES && report->pressed && decoder->down &&
               (report->x != decoder->at_x || report->y != decoder->at_y)) {
        snprintf(key, KEY_ROOM, "Drag %d,%d %d,%d", decoder->down_x, decoder->down_y, report->x, report->y);
        decoder->at_x = report->x;
        decoder->at_y = report->y;
    } else if (!report->pressed) {
        decoder->down = false;
    }
}

/* ---- sequences ---- */

struct control { int numbers[3]; int count; char mark, final; }; /* ESC [ < 0 ; 10 ; 5 M */

/* false: it is none. */
static bool
read_control(const unsigned char *at, size_t length, struct control *out)
{
    *out = (struct control){ .final = (char)at[length - 1] };
    size_t i = 2;
    if (i < length && at[i] >= '<' && at[i] <= '?')
        out->mark = (char)at[i++];
    for (; i + 1 < length; i++) {
        if (at[i] == ';' && ++out->count > 2)
            return false;
        if (at[i] == ';')
            continue;
        if (at[i] < '0' || at[i] > '9')
            return false;
        int *number = &out->numbers[out->count];
        *number = *number * 10 + at[i] - '0' > FARTHEST ? FARTHEST : *number * 10 + at[i] - '0';
    }
    out->count++;
    return true;
}

static const char *
numbered_key(int number)
{
    static const char *const names[] = {
        [1] = "Home", [2] = "Insert", [3] = "Delete", [4] = "End", [5] = "PageUp", [6] = "PageDown", [7] = "Home",
        [8] = "End", [11] = "F1", [12] = "F2", [13] = "F3", [14] = "F4", [15] = "F5", [17] = "F6", [18] = "F7",
        [19] = "F8", [20] = "F9", [21] = "F10", [23] = "F11", [24] = "F12",
    };
    return number >= 0 && number < (int)countof(names) ? names[number] : NULL;
}

static const char *
lettered_key(char letter)
{
    static const struct { char letter; const char *key; } names[] = {
        { 'A', "Up" }, { 'B', "Down" }, { 'C', "Right" }, { 'D', "Left" }, { 'H', "Home" }, { 'F', "End" },
        { 'P', "F1" }, { 'Q', "F2" }, { 'R', "F3" }, { 'S', "F4" }, { 'Z', "BackTab" }, { 'M', "Enter" },
    };
    for (size_t i = 0; i < countof(names); i++)
        if (names[i].letter == letter)
            return names[i].key;
    return NULL;
}

/* What ESC [ ... means; nothing: it is dropped. */
static void
name_control(struct decoder *decoder, const struct control *control, int64_t now_ms, char key[KEY_ROOM])
{
    const int *numbers = control->numbers;
    bool mouse = control->mark == '<' && (control->final == 'M' || control->final == 'm');
    if (mouse) {
        struct report report = { numbers[0], numbers[1], numbers[2], control->final == 'M' };
        if (control->count == 3 && report.x > 0 && report.y > 0)
            name_report(decoder, &report, now_ms, key);
        return;
    }
    if (control->mark != '\0')
        return;
    if (control->final == '~' && numbers[0] == 200) {
        decoder->pasting = true;
        return;
    }
    const char *name = control->final == '~' ? numbered_key(numbers[0]) : control->final == 'M' ? NULL
                       : lettered_key(control->final);
    int held = control->count > 1 && numbers[1] > 0 ? numbers[1] - 1 : 0;
    if (name != NULL)
        snprintf(key, KEY_ROOM, "%s%s%s", held & 4 ? "Ctrl" : held & 2 ? "Alt" : "", held & 1 ? "Shift" : "", name);
}

/* ESC [ parameters final. A byte that cannot be in one ends it, and stays for what comes. */
static size_t
takes_control(struct decoder *decoder, bool late, int64_t now_ms, char key[KEY_ROOM])
{
    const unsigned char *at = decoder->bytes;
    size_t length = 2;
    while (length < decoder->count && length < LONGEST && at[length] >= 0x20 && at[length] < 0x40)
        length++;
    if (length == decoder->count && length < LONGEST)
        return late ? length : 0;
    if (length == 2 && at[2] == '[') { /* of Linux's console: ESC [ [ A is F1 */
        if (decoder->count > 3 && at[3] >= 'A' && at[3] <= 'E')
            snprintf(key, KEY_ROOM, "F%d", at[3] - 'A' + 1);
        return decoder->count > 3 ? 4 : late ? 3 : 0;
    }
    if (length == 2 && at[2] == 'M') /* an old mouse report: three bytes follow, of any kind */
        return decoder->count >= 6 ? 6 : late ? decoder->count : 0;
    if (length == LONGEST || at[length] < 0x40 || at[length] > 0x7e)
        return length;
    struct control control;
    if (read_control(at, length + 1, &control))
        name_control(decoder, &control, now_ms, key);
    return length + 1;
}

/* ESC O letter. */
static size_t
takes_single(struct decoder *decoder, bool late, char key[KEY_ROOM])
{
    if (decoder->count < 3)
        return late ? 2 : 0;
    const char *name = lettered_key((char)decoder->bytes[2]);
    if (name != NULL)
        snprintf(key, KEY_ROOM, "%s", name);
    return decoder->bytes[2] >= 0x20 ? 3 : 2;
}

/* What a terminal answers that nobody asked: from ESC ] and its like to BEL or ESC \. */
static size_t
takes_string(const struct decoder *decoder, bool late)
{
    for (size_t i = 2; i < decoder->count; i++) {
        if (decoder->bytes[i] == 7)
            return i + 1;
        if (decoder->bytes[i] == ESC && i + 1 < decoder->count)
            return decoder->bytes[i + 1] == '\\' ? i + 2 : i;
    }
    return late || decoder->count >= DECODER_ROOM / 2 ? decoder->count : 0;
}

/* The longest of the terminal's own that stands here; *begun: more bytes may make one. */
static size_t
takes_own(struct decoder *decoder, char key[KEY_ROOM], bool *begun)
{
    size_t longest = 0;
    for (size_t i = 0; i < decoder->own_count; i++) {
        const struct sequence *own = &decoder->own[i];
        size_t length = strlen(own->bytes), have = length < decoder->count ? length : decoder->count;
        if (length == 0 || memcmp(own->bytes, decoder->bytes, have) != 0)
            continue;
        *begun |= have < length;
        if (have == length && length > longest) {
            longest = length;
            snprintf(key, KEY_ROOM, "%s", own->key);
        }
    }
    return longest;
}

static size_t
takes_escape(struct decoder *decoder, bool late, int64_t now_ms, char key[KEY_ROOM])
{
    bool   begun = false;
    size_t own   = takes_own(decoder, key, &begun);
    if (own > 0 || (begun && !late))
        return own;
    if (decoder->count == 1) {
        if (late)
            snprintf(key, KEY_ROOM, "Esc");
        return late;
    }
    switch (decoder->bytes[1]) {
    case '[': return takes_control(decoder, late, now_ms, key);
    case 'O': return takes_single(decoder, late, key);
    case ']': case 'P': case '_': case '^': return takes_string(decoder, late);
    default:
        snprintf(key, KEY_ROOM, "Esc"); /* and what follows is a key of its own */
        return 1;
    }
}

bool
decoder_key(struct decoder *decoder, bool late, int64_t now_ms, char key[KEY_ROOM])
{
    key[0] = '\0';
    while (decoder->count > 0) {
        size_t took = decoder->pasting ? takes_pasted(decoder, late, key)
                      : decoder->bytes[0] == ESC ? takes_escape(decoder, late, now_ms, key)
                                                 : takes_character(decoder, late, key);
        if (took == 0)
            return false;
        drop(decoder, took);
        if (key[0] != '\0')
            return true;
    }
    return false;
}
