/* What things look like, by meaning: classes of work, inks, and the capabilities of where a frame goes. */
#ifndef VIEWER_THEME_H
#define VIEWER_THEME_H
#include <stdbool.h>
#include <stdint.h>
#include "analysis/work.h"

/* Each class of work has a letter, a fill and an ink, so that colour is never the only sign. */
char      work_letter(enum work work);
uint32_t  work_fill(enum work work);        /* inside a span where there is no colour */
const char *work_name(enum work work);

/* The first WORK_COUNT inks are the classes' own. */
enum ink { INK_PLAIN = WORK_NONE, INK_BLACK = WORK_COUNT, INK_ACCENT, INK_DIM, INK_GOOD, INK_COUNT };

enum { ATTR_BOLD = 1, ATTR_REVERSE = 2, ATTR_UNDERLINE = 4 };

struct style { uint8_t ink, paper, attr; }; /* all zero: plain */

/* For whose eyes, and on what ground. Fills are the same on a dark and a light one, since text on them is black. */
enum theme { THEME_DARK, THEME_LIGHT, THEME_CONTRAST, THEME_COLOUR_BLIND, THEME_NONE, THEME_COUNT };
const char *theme_name(enum theme theme);            /* "dark" "light" "high-contrast" "colour-blind" "none" */
bool        theme_of_name(const char *name, enum theme *theme);

struct capabilities {
    int        colours;   /* 0, 8, 16 or 256 */
    bool       utf8;
    bool       words;     /* it is read aloud: what is a picture is left out, or told */
    enum theme theme;
};

/* Spans are fills of colour; else letters and shades, which need none. */
bool capabilities_fill(const struct capabilities *capabilities);
int  ink_colour(int ink, int colours, enum theme theme);  /* a terminal's colour number; -1: its default */
#endif
