/* The grid of cells that a frame is drawn into. Interface in order of use: canvas_init; canvas_part for panes;
 * canvas_put, canvas_text and their kin; canvas_print; canvas_free. */
#include "canvas.h"

#include "base/str.h"
#include "glyph.h"

#include <limits.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { ELLIPSIS = 0x2026, MIDDLE_DOT = 0xb7, SHORT = 8 };

bool
canvas_init(struct canvas *canvas, int width, int height)
{
    *canvas = (struct canvas){ .width = width, .height = height, .stride = width };
    canvas->cells = malloc((size_t)width * (size_t)height * sizeof *canvas->cells);
    if (canvas->cells == NULL)
        return false;
    canvas_clear(canvas);
    return true;
}

void
canvas_free(struct canvas *canvas)
{
    free(canvas->cells);
    *canvas = (struct canvas){ 0 };
}

static int
bounded(int value, int low, int high)
{
    return value < low ? low : value > high ? high : value;
}

struct canvas
canvas_part(const struct canvas *canvas, int row, int column, int height, int width)
{
    int top = bounded(row, 0, canvas->height), left = bounded(column, 0, canvas->width);
    return (struct canvas){
        .cells = canvas->cells + (size_t)top * (size_t)canvas->stride + left,
        .width = bounded(width, 0, canvas->width - left),
        .height = bounded(height, 0, canvas->height - top),
        .stride = canvas->stride,
        .starved = canvas->starved,
    };
}

void
canvas_starve(const struct canvas *canvas)
{
    if (canvas->starved != NULL)
        *canvas->starved = true;
}

const char *
canvas_words(const struct canvas *canvas, const struct str *text)
{
    if (!str_ok(text))
        canvas_starve(canvas);
    return str_text(text);
}

static struct cell *
cell_at(const struct canvas *canvas, int row, int column)
{
    if (row < 0 || row >= canvas->height || column < 0 || column >= canvas->width)
        return NULL;
    return &canvas->cells[(size_t)row * (size_t)canvas->stride + (size_t)column];
}

const struct cell *
canvas_at(const struct canvas *canvas, int row, int column)
{
    return cell_at(canvas, row, column);
}

void
canvas_clear(struct canvas *canvas)
{
    /* Not by canvas_put: it looks at what was there before, and at first nothing was. */
    for (int row = 0; row < canvas->height; row++)
        for (int column = 0; column < canvas->width; column++)
            *cell_at(canvas, row, column) = (struct cell){ .code = ' ' };
}

void
canvas_fill(struct canvas *canvas, int row, struct style style, uint32_t code)
{
    for (int column = 0; column < canvas->width; column++)
        canvas_put(canvas, row, column, style, code);
}

/* Over half of a wide character: the other half becomes a dot, so that no row ever shifts. */
void
canvas_put(struct canvas *canvas, int row, int column, struct style style, uint32_t code)
{
    struct cell *cell = cell_at(canvas, row, column);
    if (cell == NULL)
        return;
    struct cell *right = cell_at(canvas, row, column + 1), *left = cell_at(canvas, row, column - 1);
    if (right != NULL && right->code == 0 && cell->code != 0)
        right->code = MIDDLE_DOT;
    if (left != NULL && cell->code == 0 && code != 0)
        left->code = MIDDLE_DOT;
    cell->code = code;
    cell->style = style;
}

static void
put_glyph(struct canvas *canvas, struct stretch place, struct style style, const struct glyph *glyph)
{
    for (int i = 0; glyph->spelled[i] != '\0'; i++)
        canvas_put(canvas, place.row, place.column + i, style, (unsigned char)glyph->spelled[i]);
    if (glyph->spelled[0] != '\0')
        return;
    canvas_put(canvas, place.row, place.column, style, glyph->code);
    if (glyph->width == 2)
        canvas_put(canvas, place.row, place.column + 1, style, 0);
}

/* Answers the column behind what was drawn: whole characters only, also where one is spelled out. */
static int
text_within(struct canvas *canvas, struct stretch place, struct style style, const char *text)
{
    int end = place.column + place.room;
    if (end > canvas->width)
        end = canvas->width;
    for (struct glyph glyph = glyph_next(&text); glyph.code != 0 && place.column + glyph.width <= end;
         glyph = glyph_next(&text)) {
        put_glyph(canvas, place, style, &glyph);
        place.column += glyph.width;
    }
    return place.column;
}

int
canvas_text(struct canvas *canvas, int row, int column, struct style style, const char *text)
{
    return text_within(canvas, (struct stretch){ row, column, canvas->width - column }, style, text);
}

int
canvas_textf(struct canvas *canvas, int row, int column, struct style style, const char *format, ...)
{
    char text[1024];
    va_list args;
    va_start(args, format);
    vsnprintf(text, sizeof text, format, args);
    va_end(args);
    return canvas_text(canvas, row, column, style, text);
}

int
canvas_cut(struct canvas *canvas, struct stretch place, struct style style, const char *text)
{
    if (place.room > canvas->width - place.column)
        place.room = canvas->width - place.column;
    if (place.room <= 0)
        return place.column;
    int width = glyph_width(text, INT_MAX / 2);
    if (width <= place.room || place.room < SHORT) /* too short for an ellipsis: the beginning says more */
        return text_within(canvas, place, style, text);

    int tail = (place.room - 1) / 3;
    int end = place.column + place.room;
    place.room -= 1 + tail;
    int at = text_within(canvas, place, style, text);
    canvas_put(canvas, place.row, at++, style, ELLIPSIS);
    const char *rest = text;
    while (width > tail) {
        struct glyph glyph = glyph_next(&rest);
        if (glyph.code == 0)
            break;
        width -= glyph.width;
    }
    return text_within(canvas, (struct stretch){ place.row, at, end - at }, style, rest);
}

void
canvas_right(struct canvas *canvas, int row, struct style style, const char *text)
{
    int width = glyph_width(text, canvas->width);
    canvas_text(canvas, row, canvas->width - width, style, text);
}

/* How many bytes of `text` go into one line of `room` cells: up to the last blank that fits, or a hard cut. */
static size_t
line_length(const char *text, int room)
{
    const char *at = text, *blank = NULL;
    int width = 0;
    for (;;) {
        const char *before = at;
        if (*at == '\n')
            return (size_t)(at - text);
        struct glyph glyph = glyph_next(&at);
        if (glyph.code == 0)
            return (size_t)(before - text);
        if (glyph.code == ' ')
            blank = before;
        width += glyph.width;
        if (width > room)
            return (size_t)((blank != NULL && blank > text ? blank : before > text ? before : at) - text);
    }
}

void
canvas_wrap(struct canvas *canvas, struct lines *lines, int indent, struct style style, const char *text)
{
    int column = indent;
    while (*text != '\0' && lines->row < canvas->height && canvas->width > column) {
        size_t length = line_length(text, canvas->width - column);
        char line[1024];
        size_t kept = length < sizeof line - 1 ? length : sizeof line - 1;
        memcpy(line, text, kept);
        line[kept] = '\0';
        if (lines->skip > 0)
            lines->skip--;
        else
            canvas_text(canvas, lines->row++, column, style, line);
        column = canvas->width > indent + lines->hang ? indent + lines->hang : indent;
        text += length;
        if (*text == '\n' || *text == ' ')
            text++;
    }
}

static void
print_style(struct style style, const struct capabilities *capabilities, struct str *out)
{
    str_add(out, "\x1b[0");
    if (style.attr & ATTR_BOLD)
        str_add(out, ";1");
    if (style.attr & ATTR_UNDERLINE)
        str_add(out, ";4");
    if (style.attr & ATTR_REVERSE)
        str_add(out, ";7");
    for (int paper = 0; paper < 2; paper++) {
        int colour = ink_colour(paper ? style.paper : style.ink, capabilities->colours, capabilities->theme);
        if (colour >= 16)
            str_addf(out, ";%d;5;%d", paper ? 48 : 38, colour);
        else if (colour >= 0)
            str_addf(out, ";%d", (colour >= 8 ? 82 : 30) + colour + (paper ? 10 : 0));
    }
    str_add(out, "m");
}

static bool
same_style(struct style a, struct style b)
{
    return a.ink == b.ink && a.paper == b.paper && a.attr == b.attr;
}

void
canvas_print(const struct canvas *canvas, const struct capabilities *capabilities, bool ansi, struct str *out)
{
    for (int row = 0; row < canvas->height; row++) {
        int end = canvas->width;
        while (end > 0) {
            const struct cell *cell = cell_at(canvas, row, end - 1);
            if (cell->code != ' ' || (ansi && !same_style(cell->style, (struct style){ 0 })))
                break;
            end--;
        }
        struct style now = { 0 };
        for (int column = 0; column < end; column++) {
            const struct cell *cell = cell_at(canvas, row, column);
            if (ansi && !same_style(now, cell->style)) {
                print_style(cell->style, capabilities, out);
                now = cell->style;
            }
            if (cell->code == 0)
                continue;
            if (capabilities->utf8)
                glyph_print(cell->code, out);
            else
                str_addf(out, "%c", glyph_ascii(cell->code));
        }
        if (!same_style(now, (struct style){ 0 }))
            str_add(out, "\x1b[0m");
        str_add(out, "\n");
    }
}
