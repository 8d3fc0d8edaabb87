/* Classes of work and their colours: black text on any of them reads well, and they differ for
 * colour-blind eyes too. Interface: work_letter, work_fill; theme_of_name; ink_colour. */
#include "theme.h"

#include "base/vec.h"

#include <string.h>

static const struct { const char *name; char letter; uint32_t fill; } works[WORK_COUNT] = {
    [WORK_NONE]          = { "nothing",       ' ', ' ' },
    [WORK_FORWARD]       = { "forward",       'F', 0x2591 },
    [WORK_BACKWARD]      = { "backward",      'B', 0x2592 },
    [WORK_COMMUNICATION] = { "communication", 'C', 0x2550 },
    [WORK_KERNEL]        = { "kernel",        'K', 0x2593 },
    [WORK_COPY]          = { "memory copy",   'M', 0x2500 },
    [WORK_OPTIMIZER]     = { "optimizer",     'O', 0x259a },
    [WORK_DATA]          = { "data",          'D', 0x2591 },
    [WORK_LESSON]        = { "lesson",        'L', 0x2591 },
    [WORK_WAIT]          = { "waiting",       '-', 0x254c },
    [WORK_FAULT]         = { "fault",         '!', 0x00d7 },
    [WORK_OTHER]         = { "other",         'X', 0x2591 },
};

/* An ink's colour where a terminal has 256, 16 and 8 of them; -1: its default. */
struct shade { short c256, c16, c8; };

/* Least distance of two fills (CIE 1976), but for waits: 32; for eyes without red 24, green 24, blue 14. */
static const struct shade usual[INK_COUNT] = {
    [WORK_NONE] = { -1, -1, -1 },    [WORK_FORWARD] = { 117, 14, 6 }, [WORK_BACKWARD] = { 214, 11, 3 },
    [WORK_COMMUNICATION] = { 175, 13, 5 }, [WORK_KERNEL] = { 33, 12, 4 }, [WORK_COPY] = { 143, 3, 3 },
    [WORK_OPTIMIZER] = { 29, 2, 2 }, [WORK_DATA] = { 254, 7, 7 },     [WORK_LESSON] = { 254, 7, 7 },
    [WORK_WAIT] = { 240, 8, -1 },    [WORK_FAULT] = { 196, 9, 1 },    [WORK_OTHER] = { 250, 7, 7 },
    [INK_BLACK] = { 16, 0, 0 },      [INK_ACCENT] = { 81, 14, 6 },    [INK_DIM] = { 244, 8, -1 },
    [INK_GOOD] = { 77, 10, 2 },
};

/* The least distance is 54, and 28, 29 and 27 for eyes without red, green or blue: their hues are the usual ones'. */
static const struct shade colour_blind[INK_COUNT] = {
    [WORK_NONE] = { -1, -1, -1 },   [WORK_FORWARD] = { 39, 14, 6 }, [WORK_BACKWARD] = { 178, 11, 3 },
    [WORK_COMMUNICATION] = { 163, 13, 5 }, [WORK_KERNEL] = { 63, 12, 4 }, [WORK_COPY] = { 131, 3, 3 },
    [WORK_OPTIMIZER] = { 48, 2, 2 }, [WORK_DATA] = { 254, 7, 7 },   [WORK_LESSON] = { 254, 7, 7 },
    [WORK_WAIT] = { 240, 8, -1 },   [WORK_FAULT] = { 160, 9, 1 },   [WORK_OTHER] = { 250, 7, 7 },
    [INK_BLACK] = { 16, 0, 0 },     [INK_ACCENT] = { 39, 14, 6 },   [INK_DIM] = { 244, 8, -1 },
    [INK_GOOD] = { 48, 10, 2 },
};

char
work_letter(enum work work)
{
    return works[work].letter;
}

uint32_t
work_fill(enum work work)
{
    return works[work].fill;
}

const char *
work_name(enum work work)
{
    return works[work].name;
}

static const char *const themes[THEME_COUNT] = { "dark", "light", "high-contrast", "colour-blind", "none" };

const char *
theme_name(enum theme theme)
{
    return themes[theme];
}

bool
theme_of_name(const char *name, enum theme *theme)
{
    for (int i = 0; i < THEME_COUNT; i++)
        if (strcmp(themes[i], name) == 0) {
            *theme = (enum theme)i;
            return true;
        }
    return false;
}

bool
capabilities_fill(const struct capabilities *capabilities)
{
    return capabilities->colours > 0 && capabilities->theme != THEME_CONTRAST && capabilities->theme != THEME_NONE;
}

/* On a light ground what is written, not filled, has to be dark: that is blue, green and a darker grey. */
static struct shade
shade_of(int ink, enum theme theme)
{
    static const struct shade light_accent = { 25, 4, 4 }, light_dim = { 241, 8, -1 }, light_good = { 28, 2, 2 };
    static const struct shade own = { -1, -1, -1 };
    if (theme == THEME_NONE || (theme == THEME_CONTRAST && ink != WORK_FAULT))
        return own;
    if (theme == THEME_LIGHT && ink >= INK_ACCENT)
        return ink == INK_ACCENT ? light_accent : ink == INK_DIM ? light_dim : light_good;
    return theme == THEME_COLOUR_BLIND ? colour_blind[ink] : usual[ink];
}

int
ink_colour(int ink, int colours, enum theme theme)
{
    if (ink <= INK_PLAIN || ink >= INK_COUNT || colours < 8)
        return -1;
    struct shade shade = shade_of(ink, theme);
    return colours >= 256 ? shade.c256 : colours >= 16 ? shade.c16 : shade.c8;
}
