/* The one door through which text from outside comes onto the screen: it answers characters that are safe to show,
 * and how many cells each takes. What is harmful is said by base/visible.h, as everywhere. */
#ifndef VIEWER_GLYPH_H
#define VIEWER_GLYPH_H
#include <stdbool.h>
#include <stdint.h>
#include "base/visible.h"

struct str;

/* width 1 or 2, and as many as letters where the character is spelled out; code 0: the text is over. */
struct glyph { uint32_t code; int width; char spelled[VISIBLE_ROOM]; /* in its place; "": code as it is */ };

/* Takes the next character from *at. What may not go out is spelled out; zero-width characters and unassigned ones
 * become a middle dot; combining marks are left out; a tab is one blank. */
struct glyph glyph_next(const char **at);
int          glyph_width(const char *text, int limit);     /* cells, at most `limit` */
char         glyph_ascii(uint32_t code);                   /* what stands for it without UTF-8 */
void         glyph_print(uint32_t code, struct str *out);  /* as UTF-8 */
#endif
