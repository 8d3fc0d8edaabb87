/* Changes of a text word by word: a word, a number, a quoted text or a sign becomes another, is doubled, taken away or
 * changes places. What it was and what it becomes are of the same sort most of the time, so that much still parses. */
#ifndef FUZZ_TOKENS_H
#define FUZZ_TOKENS_H
#include <stddef.h>
#include <stdint.h>

struct token_list { const char *const *words; size_t count; };

/* One to four changes in place; answers the new length. Now and then libFuzzer changes bytes instead. */
size_t tokens_change(const struct token_list *list, uint8_t *text, size_t size, size_t max, uint64_t *random);

/* The beginning of one text and the end of another, joined where both have a bracket, a comma or a line's end. */
struct token_text { const uint8_t *bytes; size_t size; };
size_t tokens_cross(struct token_text one, struct token_text other, uint8_t *out, size_t max, uint64_t *random);
#endif
