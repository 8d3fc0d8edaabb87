/* The terminal. The only module that knows curses: it shows a canvas and hands out keys. */
#ifndef VIEWER_TERM_H
#define VIEWER_TERM_H
#include <stdbool.h>
#include <stddef.h>
#include "canvas.h"
#include "decode.h"

struct term;

/* colours: at most so many, 0 none, -1 as many as there are. */
struct term_options { bool ascii; int colours; };

/* NULL: `why` is one line naming --print. Signals that end or stop a program must be blocked before. */
struct term *term_open(const struct term_options *options, char *why, size_t why_size);
void         term_close(struct term *term);      /* the main screen, as it was */
void         term_size(const struct term *term, int *width, int *height);
void         term_resize(struct term *term);     /* the size has changed: asks for it again */
void         term_redraw(struct term *term);     /* everything anew with the next frame */
void         term_theme(struct term *term, enum theme theme); /* from the next frame on */
void         term_show(struct term *term, const struct canvas *canvas);
/* Frames wait in the line: it takes no more for the moment. */
bool         term_is_behind(const struct term *term);
void         term_mouse(struct term *term, bool wanted); /* whether clicks, drags and the wheel are reported */
/* The next key as control/commands.def names it; "" none yet; false: the terminal is gone. */
bool         term_key(struct term *term, char key[KEY_ROOM]);
void         term_suspend(struct term *term);    /* stops the process group; returns when it goes on */
/* Another program has the terminal meanwhile. */
void         term_give(struct term *term);
void         term_take(struct term *term);
const struct capabilities *term_capabilities(const struct term *term);
#endif
