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

/* What libFuzzer calls of a fuzzer whose input is text of these words. */
#define TOKENS_MUTATOR(list) \
    size_t \
    LLVMFuzzerCustomMutator(uint8_t *data, size_t size, size_t max, unsigned seed) \
    { \
        uint64_t random = seed; \
        return tokens_change(&(list), data, size, max, &random); \
    }
#define TOKENS_CROSSOVER(list) \
    size_t \
    LLVMFuzzerCustomCrossOver(const uint8_t *one, size_t size, const uint8_t *other, size_t other_size, uint8_t *out, \
                              size_t max, unsigned seed) \
    { \
        uint64_t random = seed; \
        return tokens_cross((struct token_text){ one, size }, (struct token_text){ other, other_size }, out, max, \
                            &random); \
    }
#endif
