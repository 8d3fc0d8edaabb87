/* Classes of work and their colours: black text on any of them reads well, and they differ for colour-blind eyes too.
 * Interface: work_letter, work_fill, ink_colour. */
#include "theme.h"

static const struct {
    const char *name;
    char        letter;
    uint32_t    fill;
    int         c256, c16, c8;
} works[WORK_COUNT] = {
    [WORK_NONE]          = { "nothing",       ' ', ' ',    -1,  -1, -1 },
    [WORK_FORWARD]       = { "forward",       'F', 0x2591, 117, 14, 6 },
    [WORK_BACKWARD]      = { "backward",      'B', 0x2592, 214, 11, 3 },
    [WORK_COMMUNICATION] = { "communication", 'C', 0x2550, 175, 13, 5 },
    [WORK_KERNEL]        = { "kernel",        'K', 0x2593, 33,  12, 4 },
    [WORK_COPY]          = { "memory copy",   'M', 0x2500, 143, 3,  3 },
    [WORK_OPTIMIZER]     = { "optimizer",     'O', 0x259a, 29,  2,  2 },
    [WORK_DATA]          = { "data",          'D', 0x2591, 254, 7,  7 },
    [WORK_LESSON]        = { "lesson",        'L', 0x2591, 254, 7,  7 },
    [WORK_WAIT]          = { "waiting",       '-', 0x254c, 240, 8,  -1 },
    [WORK_FAULT]         = { "fault",         '!', 0x00d7, 196, 9,  1 },
    [WORK_OTHER]         = { "other",         'X', 0x2591, 250, 7,  7 },
};

static const struct { int c256, c16, c8; } inks[] = { { 16, 0, 0 }, { 81, 14, 6 }, { 244, 8, -1 }, { 77, 10, 2 } };

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

int
ink_colour(int ink, int colours)
{
    if (ink <= INK_PLAIN || ink >= INK_COUNT || colours < 8)
        return -1;
    if (ink < WORK_COUNT)
        return colours >= 256 ? works[ink].c256 : colours >= 16 ? works[ink].c16 : works[ink].c8;
    int i = ink - WORK_COUNT;
    return colours >= 256 ? inks[i].c256 : colours >= 16 ? inks[i].c16 : inks[i].c8;
}
