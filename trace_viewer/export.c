/* Cells to SVG and HTML. A run is a stretch of a row in one style; in SVG it is one <text> at its column, stretched to
 * its cells, so that any monospaced font keeps the grid; in HTML one <span>. Colours are classes of CSS, black on the
 * fills, light or dark as the reader prefers. Interface: export_svg, export_html. */
#include "export.h"

#include "base/str.h"
#include "glyph.h"

#include <string.h>

enum { CELL_WIDTH = 8, CELL_HEIGHT = 17, BASELINE = 13 };

struct run { int row, column, cells; struct style style; };

static bool
same_style(struct style a, struct style b)
{
    return a.ink == b.ink && a.paper == b.paper && a.attr == b.attr;
}

/* The next run of the row from `column` on; false: the row is over. */
static bool
next_run(const struct canvas *canvas, int row, int column, struct run *run)
{
    const struct cell *first = canvas_at(canvas, row, column);
    if (first == NULL)
        return false;
    *run = (struct run){ row, column, 1, first->style };
    for (;;) {
        const struct cell *cell = canvas_at(canvas, row, column + run->cells);
        if (cell == NULL || (cell->code != 0 && !same_style(cell->style, run->style)))
            return true;
        run->cells++;
    }
}

static void
add_character(uint32_t code, const struct capabilities *capabilities, struct str *out)
{
    if (code == '<')
        str_add(out, "&lt;");
    else if (code == '>')
        str_add(out, "&gt;");
    else if (code == '&')
        str_add(out, "&amp;");
    else if (code == '"')
        str_add(out, "&quot;");
    else if (capabilities->utf8)
        glyph_print(code, out);
    else
        str_addf(out, "%c", glyph_ascii(code));
}

static void
add_run_text(const struct canvas *canvas, const struct run *run, const struct capabilities *capabilities,
             struct str *out)
{
    for (int i = 0; i < run->cells; i++) {
        const struct cell *cell = canvas_at(canvas, run->row, run->column + i);
        if (cell->code != 0)
            add_character(cell->code, capabilities, out);
    }
}

static bool
is_blank(const struct canvas *canvas, const struct run *run)
{
    if (run->style.paper != INK_PLAIN || (run->style.attr & ATTR_REVERSE) != 0)
        return false;
    for (int i = 0; i < run->cells; i++)
        if (canvas_at(canvas, run->row, run->column + i)->code != ' ')
            return false;
    return true;
}

/* "b i7 p2": bold, ink 7, paper 2; reversed ones have the two exchanged. */
static void
add_classes(struct style style, struct str *out)
{
    bool reverse = (style.attr & ATTR_REVERSE) != 0;
    str_addf(out, "%s%d", reverse ? "r" : "i", style.ink);
    if (style.paper != INK_PLAIN)
        str_addf(out, " %s%d", reverse ? "q" : "p", style.paper);
    if (reverse)
        str_add(out, " v");
    if ((style.attr & ATTR_BOLD) != 0)
        str_add(out, " b");
    if ((style.attr & ATTR_UNDERLINE) != 0)
        str_add(out, " u");
}

/* 256 colours of terminals: 16 of the system, a cube of 6 x 6 x 6, 24 greys. */
static unsigned
rgb_of(int colour)
{
    static const unsigned system[] = { 0x000000, 0xcd0000, 0x00cd00, 0xcdcd00, 0x0000ee, 0xcd00cd, 0x00cdcd, 0xe5e5e5,
                                       0x7f7f7f, 0xff0000, 0x00ff00, 0xffff00, 0x5c5cff, 0xff00ff, 0x00ffff, 0xffffff };
    static const unsigned steps[] = { 0, 95, 135, 175, 215, 255 };
    if (colour < 16)
        return system[colour];
    if (colour >= 232)
        return (unsigned)(8 + 10 * (colour - 232)) * 0x010101u;
    unsigned place = (unsigned)colour - 16;
    return steps[place / 36] << 16 | steps[place / 6 % 6] << 8 | steps[place % 6];
}

/* `ink` and `paper`: the CSS properties, which SVG and HTML name differently. */
static void
add_colours(const struct capabilities *capabilities, const char *ink, const char *paper, struct str *out)
{
    for (int i = 1; i < INK_COUNT; i++) {
        int colour = ink_colour(i, capabilities->colours, capabilities->theme);
        if (colour < 0)
            continue;
        str_addf(out, ".i%d,.q%d{%s:#%06x}.p%d,.r%d{%s:#%06x}\n", i, i, ink, rgb_of(colour), i, i, paper,
                 rgb_of(colour));
    }
}

static void
add_paper(const struct run *run, struct str *out)
{
    struct style style = run->style;
    if (style.paper == INK_PLAIN && (style.attr & ATTR_REVERSE) == 0)
        return;
    str_addf(out, "<rect x=\"%d\" y=\"%d\" width=\"%d\" height=\"%d\" class=\"f ", run->column * CELL_WIDTH,
             run->row * CELL_HEIGHT, run->cells * CELL_WIDTH, CELL_HEIGHT);
    if ((style.attr & ATTR_REVERSE) != 0)
        str_addf(out, "r%d", style.ink);
    else
        str_addf(out, "p%d", style.paper);
    str_add(out, "\"/>");
}

/* A span of the timeline says what it is to who points at it. */
static void
add_title(const struct canvas *canvas, const struct run *run, const struct capabilities *capabilities, struct str *out)
{
    int work = run->style.paper;
    if (work <= WORK_NONE || work >= WORK_COUNT)
        return;
    str_addf(out, "<title>%s: ", work_name((enum work)work));
    add_run_text(canvas, run, capabilities, out);
    str_add(out, "</title>");
}

void
export_svg(const struct canvas *canvas, const struct capabilities *capabilities, struct str *out)
{
    int width = canvas->width * CELL_WIDTH, height = canvas->height * CELL_HEIGHT;
    str_addf(out, "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 %d %d\" width=\"%d\" height=\"%d\">\n"
             "<style>\n:root{color-scheme:light dark}\ntext{font:14px monospace;white-space:pre;fill:#111}\n"
             ".page{fill:#fff}.f{fill:#111}.v{fill:#fff}.b{font-weight:bold}.u{text-decoration:underline}\n"
             "@media(prefers-color-scheme:dark){text{fill:#ddd}.page{fill:#111}.f{fill:#ddd}.v{fill:#111}}\n",
             width, height, width, height);
    add_colours(capabilities, "fill", "fill", out);
    str_add(out, "</style>\n<rect class=\"page\" width=\"100%\" height=\"100%\"/>\n");
    for (int row = 0; row < canvas->height; row++) {
        struct run run;
        for (int column = 0; next_run(canvas, row, column, &run); column += run.cells) {
            if (is_blank(canvas, &run))
                continue;
            add_paper(&run, out);
            struct style style = run.style;
            if ((style.attr & ATTR_REVERSE) == 0)
                style.paper = INK_PLAIN; /* the rectangle below has it */
            else
                style.ink = INK_PLAIN;
            str_addf(out, "<text x=\"%d\" y=\"%d\" textLength=\"%d\" lengthAdjust=\"spacingAndGlyphs\" class=\"",
                     column * CELL_WIDTH, row * CELL_HEIGHT + BASELINE, run.cells * CELL_WIDTH);
            add_classes(style, out);
            str_add(out, "\">");
            add_title(canvas, &run, capabilities, out);
            add_run_text(canvas, &run, capabilities, out);
            str_add(out, "</text>\n");
        }
    }
    str_add(out, "</svg>\n");
}

void
export_html(const struct canvas *canvas, const struct capabilities *capabilities, struct str *out)
{
    str_add(out, "<!doctype html>\n<meta charset=\"utf-8\">\n<title>Ringside</title>\n<style>\n"
                 ":root{color-scheme:light dark}pre{font:14px/1.2 monospace}\n"
                 ".v{background:CanvasText;color:Canvas}.b{font-weight:bold}.u{text-decoration:underline}\n");
    add_colours(capabilities, "color", "background", out);
    str_add(out, "</style>\n<pre>\n");
    for (int row = 0; row < canvas->height; row++) {
        struct run run;
        for (int column = 0; next_run(canvas, row, column, &run); column += run.cells) {
            bool plain = same_style(run.style, (struct style){ 0 });
            if (!plain) {
                str_add(out, "<span class=\"");
                add_classes(run.style, out);
                str_add(out, "\">");
            }
            add_run_text(canvas, &run, capabilities, out);
            str_add(out, plain ? "" : "</span>");
        }
        str_add(out, "\n");
    }
    str_add(out, "</pre>\n");
}
