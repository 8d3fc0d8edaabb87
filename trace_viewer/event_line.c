/* Interface: event_line_fit. */
#include "event_line.h"

#include "base/str.h"
#include "glyph.h"
#include "model.h"
#include "trace/reader.h"

#include <limits.h>
#include <stdio.h>
#include <string.h>

/* Of a value what still reads, what is least, and what is a sign that there is one; an ellipsis in bytes. */
enum { ARGUMENTS = 4, VALUE_READS = 32, VALUE_LEAST = 12, VALUE_SIGN = 6, HEAD_LEAST = 8, CUT = 3 };

struct value { size_t from, length; };

static int
too_wide(const struct str *text, int room)
{
    int width = glyph_width(str_text(text), INT_MAX / 2);
    return width > room ? width - room : 0;
}

static void
erase(struct str *text, size_t from, size_t length)
{
    memmove(text->text + from, text->text + from + length, text->len - from - length + 1);
    text->len -= length;
}

/* "src/parallel/reducer.c:258" at the end becomes "reducer.c:258", and then nothing. */
static void
drop_place(const struct trace_kind *kind, int room, struct str *text)
{
    char        place[256];
    const char *slash = strrchr(kind->file, '/');
    size_t      length = (size_t)snprintf(place, sizeof place, " %s:%u", kind->file, kind->line);
    if (kind->file[0] == '\0' || length >= sizeof place || text->len < length ||
        strcmp(text->text + text->len - length, place) != 0)
        return;
    size_t folder = slash != NULL ? (size_t)(slash + 1 - kind->file) : 0;
    erase(text, text->len - length + 1, folder);
    if (too_wide(text, room) > 0)
        erase(text, text->len - (length - folder), length - folder);
}

/* Where each argument's value stands. Answers how many were found. */
static int
find_values(const struct trace_kind *kind, const struct str *text, struct value values[ARGUMENTS])
{
    size_t at = 0;
    int    count = 0;
    for (; count < kind->arg_count && count < ARGUMENTS; count++) {
        char        name[80];
        size_t      length = (size_t)snprintf(name, sizeof name, " %s=", kind->arg_name[count]);
        const char *found = length < sizeof name ? strstr(text->text + at, name) : NULL;
        if (found == NULL)
            break;
        at = (size_t)(found - text->text) + length;
        if (count > 0)
            values[count - 1].length = (size_t)(found - text->text) - values[count - 1].from;
        values[count] = (struct value){ at, text->len - at };
    }
    return count;
}

static bool
is_inside_character(char byte)
{
    return ((unsigned char)byte & 0xc0) == 0x80;
}

/* The middle of a value goes, an ellipsis stands there. */
static void
cut_value(struct str *text, const struct value *value, size_t over, size_t least)
{
    size_t keep = value->length > over + 1 + least ? value->length - over - 1 : least;
    size_t from = value->from + keep / 2, to = value->from + value->length - (keep - keep / 2);
    while (from > value->from && is_inside_character(text->text[from]))
        from--;
    while (to < value->from + value->length && is_inside_character(text->text[to]))
        to++;
    if (to < from + CUT)
        return;
    memcpy(text->text + from, "\u2026", CUT);
    erase(text, from + CUT, to - from - CUT);
}

static void
cut_longest(const struct trace_kind *kind, int room, size_t least, struct str *text)
{
    for (int over = too_wide(text, room), tried = 0; over > 0 && tried < 2 * ARGUMENTS; tried++) {
        struct value values[ARGUMENTS], longest = { 0, least + CUT };
        int          count = find_values(kind, text, values);
        for (int i = 0; i < count; i++)
            longest = values[i].length > longest.length ? values[i] : longest;
        if (longest.from == 0)
            return;
        cut_value(text, &longest, (size_t)(over + 2 * tried), least); /* an older ellipsis has bytes, and one cell */
        over = too_wide(text, room);
    }
}

/* A word of what stands before the arguments: the ruler has the time, the lane's name the device. */
static void
drop_word(const char *word, struct str *text)
{
    char *found = strstr(text->text, word);
    if (found != NULL)
        erase(text, (size_t)(found - text->text), strlen(word));
}

static void
drop_head(const struct model *model, size_t seq, int room, struct str *text)
{
    struct str time = { 0 }, word = { 0 };
    trace_print_time(trace_time(model->trace, seq), &time);
    str_enclose(&word, " ", &time, "");
    if (str_ok(&word) && too_wide(text, room) > 0)
        drop_word(str_text(&word), text);
    str_clear(&word);
    str_addf(&word, " dev%d", trace_event(model->trace, seq)->device);
    if (str_ok(&word) && too_wide(text, room) > 0)
        drop_word(str_text(&word), text);
    str_free(&time);
    str_free(&word);
}

/* The middle of what stands before the arguments, where they would have no room else. */
static void
cut_head(const struct trace_kind *kind, int room, struct str *text)
{
    struct value values[ARGUMENTS];
    int          over = too_wide(text, room);
    if (over > 0 && find_values(kind, text, values) > 0) {
        struct value head = { 0, values[0].from - strlen(kind->arg_name[0]) - 2 };
        if (head.length > HEAD_LEAST + CUT)
            cut_value(text, &head, (size_t)over, HEAD_LEAST);
    }
}

void
event_line_fit(const struct model *model, size_t seq, int room, struct str *text)
{
    const struct trace_event *event = trace_event(model->trace, seq);
    if (event == NULL || !str_ok(text) || text->len == 0 || too_wide(text, room) == 0)
        return;
    const struct trace_kind *kind = trace_kind(model->trace, event->kind);
    drop_place(kind, room, text);
    cut_longest(kind, room, VALUE_READS, text);
    drop_head(model, seq, room, text);
    cut_longest(kind, room, VALUE_LEAST, text);
    cut_longest(kind, room, VALUE_SIGN, text);
    cut_head(kind, room, text);
}
