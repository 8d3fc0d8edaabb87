/* Keys as text, and what the screen says about them: the table is control/commands.def, with a person's own keys before
 * it (binds.h). */
#ifndef VIEWER_KEYS_H
#define VIEWER_KEYS_H
#include "canvas.h"
#include "decode.h"
#include "view.h"

/* Takes one key from a text such as "nn]v" or "<Tab>s" or "<Click 12,5>"; "" at its end. */
void keys_take(const char **text, char key[KEY_ROOM]);
/* Every key: those of the pane that has the keys, then by group; the view says how many lines are scrolled away. */
void keys_help(const struct view *view, struct canvas *canvas);
int  keys_help_lines(const struct view *view);    /* how many there are on a screen that wide */
/* One command, or one key's, in a line of words; false: there is none of that name. */
bool keys_explain(struct view *view, const char *name);

/* A key that is valid now, and what it does in a word; where it stands in the last line. */
struct key_hint { char key[KEY_NAME]; const char *word; int column, width; };
enum { HINTS = 32 };
int  keys_hints(const struct model *model, const struct view *view, int width, struct key_hint hints[HINTS]);
void keys_draw(const struct model *model, const struct view *view, struct canvas *line);
#endif
