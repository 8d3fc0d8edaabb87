/* Text from outside (a lesson's words, what a file holds, names, arguments) on its way out: what could steer a terminal
 * or mislead a reader is spelled out, everything else goes through byte for byte. Spelled out are control characters
 * (C0, DEL, C1 in both spellings), bytes that are no UTF-8, direction marks and Unicode's own line ends. Whoever writes
 * to a terminal, a pipe or a screen writes such text through here; what is kept (traces, names) stays as it was.
 * What was spelled out is plain ASCII, so that text which passes twice is spelled out once.
 * Order of use: visible_add into a text, visible_write into a file; visible_length and visible_spell for who lays out
 * characters himself. */
#ifndef BASE_VISIBLE_H
#define BASE_VISIBLE_H
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

struct str;

enum visible_form {
    VISIBLE_LINES, /* newlines and tabs stay; a byte becomes \x1b, a code point \u{202e} */
    VISIBLE_LINE,  /* the same, and \n and \t are spelled out: for what has one line, or one cell of a table */
    VISIBLE_JSON,  /* what stands between JSON's quotes: \" \\ \u001b; a byte that is no UTF-8 becomes \ufffd */
};
enum { VISIBLE_ROOM = 12 /* bytes of what is spelled out for one character, its NUL too */ };

void visible_add(struct str *out, const char *text, size_t count, enum visible_form form);
void visible_write(FILE *out, const char *text, size_t count, enum visible_form form); /* ferror(out) says the rest */

/* How many bytes at `text` may go out as they are: 0 if the first character may not, or count is 0. */
size_t visible_length(const char *text, size_t count, enum visible_form form);
/* Spells out the character or byte at `text`; answers how many bytes that was, at least 1. count > 0. */
size_t visible_spell(const char *text, size_t count, enum visible_form form, char out[VISIBLE_ROOM]);

/* The character of well-formed UTF-8 (shortest form, no surrogates) that begins at `text`: how many bytes it has, and
 * its code. 0: there is none; the code is not touched. */
size_t utf8_take(const char *text, size_t count, uint32_t *code);
void   utf8_add(struct str *out, uint32_t code);
/* So many hexadecimal digits of a character's code; false: they are none, or there is no such character. */
bool   hexadecimal_take(const char *text, size_t count, size_t digits, uint32_t *code);
#endif
