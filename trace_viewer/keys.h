/* From keys to commands and back: the table is control/commands.def, nothing else names a key. */
#ifndef VIEWER_KEYS_H
#define VIEWER_KEYS_H
#include "canvas.h"
#include "view.h"

/* A key as the table writes it: "s", "Space", "^L", "F10", "Up", "Enter". -1: no command has it. */
int  keys_command(const char *key);
/* Takes one key from a text such as "nn]v" or "<Tab>s"; "" at its end. */
void keys_take(const char **text, char key[16]);
void keys_help(struct canvas *canvas, int skip);  /* every key, by group; the first `skip` lines left out */
int  keys_help_lines(int width);                  /* how many there are on a screen that wide */
void keys_draw(const struct model *model, const struct view *view, struct canvas *line); /* those valid now */
#endif
