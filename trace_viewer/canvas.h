/* A grid of cells: character, inks, attributes. A pane is a smaller canvas on the same cells; nothing can be drawn
 * outside it. Emitters turn cells into curses or into text; nobody else knows what a terminal is. */
#ifndef VIEWER_CANVAS_H
#define VIEWER_CANVAS_H
#include <stdbool.h>
#include <stdint.h>
#include "theme.h"

struct str;

/* code 0: the right half of the wide character before it. */
struct cell { uint32_t code; struct style style; };

struct canvas {
    struct cell *cells;
    int          width, height, stride;
    bool        *starved; /* set where there was no memory for a part; NULL: the next frame has it */
};

bool          canvas_init(struct canvas *canvas, int width, int height); /* blank; false: no memory */
void          canvas_free(struct canvas *canvas);
struct canvas canvas_part(const struct canvas *canvas, int row, int column, int height, int width); /* cut to fit */
void          canvas_clear(struct canvas *canvas);
void          canvas_put(struct canvas *canvas, int row, int column, struct style style, uint32_t code);
const struct cell *canvas_at(const struct canvas *canvas, int row, int column); /* NULL outside */
void          canvas_fill(struct canvas *canvas, int row, struct style style, uint32_t code);

/* Untrusted text, cut at the right edge; answers the column behind it. */
int  canvas_text(struct canvas *canvas, int row, int column, struct style style, const char *text);
int  canvas_textf(struct canvas *canvas, int row, int column, struct style style, const char *format, ...)
    __attribute__((format(printf, 5, 6)));
/* A stretch of a row: `room` cells from `column` on. */
struct stretch { int row, column, room; };
/* There is no memory for what belongs here: told to the canvas's owner. */
void canvas_starve(const struct canvas *canvas);
/* What was built as `text`, for the functions below. */
const char *canvas_words(const struct canvas *canvas, const struct str *text);
/* At most so many cells, cut in the middle with an ellipsis, or at the end where that leaves too little. */
int  canvas_cut(struct canvas *canvas, struct stretch place, struct style style, const char *text);
void canvas_right(struct canvas *canvas, int row, struct style style, const char *text); /* ends at the right edge */

/* Where lines go that may be scrolled: the next one's row, how many are still to be left out before it, and how much
 * further in all but a text's first one stand. */
struct lines { int row, skip, hang; };
/* Text wrapped at blanks, at most to the last row; `lines` moves behind it. */
void canvas_wrap(struct canvas *canvas, struct lines *lines, int indent, struct style style, const char *text);

/* The whole grid as lines. `ansi`: with colours (SGR, reset at each line's end). */
void canvas_print(const struct canvas *canvas, const struct capabilities *capabilities, bool ansi, struct str *out);
#endif
