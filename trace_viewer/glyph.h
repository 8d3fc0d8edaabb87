/* The one door through which text from outside comes onto the screen: it answers characters that are safe to show,
 * and how many cells each takes. Nothing behind it ever holds a control character. */
#ifndef VIEWER_GLYPH_H
#define VIEWER_GLYPH_H
#include <stdbool.h>
#include <stdint.h>

struct str;

struct glyph { uint32_t code; int width; }; /* width 1 or 2; code 0: the text is over */

/* Takes the next character from *at. Control characters, direction marks, zero-width ones and unassigned ones
 * become a middle dot, broken UTF-8 a question mark; combining marks are left out; a tab is one blank. */
struct glyph glyph_next(const char **at);
int          glyph_width(const char *text, int limit);     /* cells, at most `limit` */
char         glyph_ascii(uint32_t code);                   /* what stands for it without UTF-8 */
void         glyph_print(uint32_t code, struct str *out);  /* as UTF-8 */
#endif
