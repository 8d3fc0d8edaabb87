/* Interface: legend_draw. */
#include "legend.h"

#include "base/vec.h"
#include "theme.h"
#include "view.h"

#include <stdio.h>
#include <string.h>

enum { WORDS = 12, NARROW = 60, LETTER_CELLS = 17 };

static const struct { int command; const char *keys, *does; } keys[] = { /* keys: where it is no command's */
    { CMD_next,  NULL,    "on to what happens next" },
    { CMD_into,  NULL,    "answer a question; else look closer at the stage where you stand" },
    { 0,         "a b c", "choose the answer that has this letter" },
    { CMD_step,  NULL,    "one event on, however small" },
    { CMD_until, NULL,    "on until something happens, for example comm.hop, a message" },
    { CMD_quit,  NULL,    "close what is open, then leave" },
};

static const struct { const char *sign, *means; } signs[] = {
    { "rows",    "who works: r0 main is rank 0, comm its messages, d0 a device" },
    { "bars",    "what is done, from its begin to its end; a short one is its letter:" },
    { NULL,      NULL },
    { "\u254c",  "it waits for somebody" },
    { "\u2022 \u25cf \u250a", "something short, several of them" },
    { "\u00d7",  "an error, or a check that fails" },
    { "boxes",   "Buckets: \u25a0 a gradient is ready, \u25a1 is not yet, \u25cb was not used" },
    { "",        "Ring: \u2593 a rank's part is in the chunk, \u2591 is not yet" },
    { "\u25ba +", "where you stand; what the last step has changed" },
    { "colours", "each letter has its own; colour never says more than the letter" },
};

/* A sign, and what it means beside it; on a narrow screen below it. */
static void
draw_pair(struct canvas *canvas, const char *sign, const char *means, struct lines *lines)
{
    const struct style bold = { .ink = INK_ACCENT, .attr = ATTR_BOLD };
    if (canvas->width < NARROW) {
        char both[160];
        snprintf(both, sizeof both, "%s%s%s", sign, sign[0] != '\0' ? "  " : "", means);
        canvas_wrap(canvas, lines, 1, (struct style){ 0 }, both);
        return;
    }
    if (lines->skip == 0)
        canvas_text(canvas, lines->row, 2, bold, sign);
    canvas_wrap(canvas, lines, WORDS, (struct style){ 0 }, means);
}

/* "F forward  B backward": each letter as it stands beside the event. */
static void
draw_letters(struct canvas *canvas, struct lines *lines)
{
    int indent = canvas->width < NARROW ? 3 : WORDS, across = (canvas->width - indent) / LETTER_CELLS;
    for (int work = WORK_FORWARD, column = 0; work < WORK_COUNT; work++) {
        if (work == WORK_WAIT || work == WORK_FAULT)
            continue;
        int at = indent + column * LETTER_CELLS;
        if (lines->skip == 0) {
            canvas_put(canvas, lines->row, at, (struct style){ .ink = (uint8_t)work, .attr = ATTR_REVERSE },
                       (uint32_t)work_letter((enum work)work));
            canvas_text(canvas, lines->row, at + 2, (struct style){ 0 }, work_name((enum work)work));
        }
        if (++column < across && work + 1 < WORK_COUNT)
            continue;
        column = 0;
        lines->row += lines->skip == 0;
        lines->skip -= lines->skip > 0;
    }
}

void
legend_draw(const struct view *view, struct canvas *canvas, struct lines *lines)
{
    const struct style heading = { .attr = ATTR_UNDERLINE };
    canvas_wrap(canvas, lines, 1, heading, "six keys are enough; N, S and U go back");
    for (size_t i = 0; i < countof(keys); i++) {
        char bound[64] = "";
        if (keys[i].keys == NULL)
            binds_keys_of(&view->binds, view->settings.of[SETTING_keys], keys[i].command, bound, sizeof bound);
        bound[strcspn(bound, " ")] = '\0';
        draw_pair(canvas, keys[i].keys != NULL ? keys[i].keys : bound, keys[i].does, lines);
    }
    canvas_wrap(canvas, lines, 1, heading, "what stands on the screen");
    for (size_t i = 0; i < countof(signs); i++)
        if (signs[i].sign != NULL)
            draw_pair(canvas, signs[i].sign, signs[i].means, lines);
        else
            draw_letters(canvas, lines);
    char more[64];
    binds_keys_of(&view->binds, view->settings.of[SETTING_keys], CMD_help, more, sizeof more);
    more[strcspn(more, " ")] = '\0';
    draw_pair(canvas, more, "once more: all keys and commands", lines);
}
