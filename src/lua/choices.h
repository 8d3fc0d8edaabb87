/* In which order a question shows its choices. Words are shuffled, so that where the answer stands says nothing; numbers,
 * with their units, keep the order in which they were written, among words too. A last choice that speaks of the others
 * ("none of these", "I do not know") stays the last. The same seed and the same number of the question give the same
 * order on every machine. */
#ifndef LUA_CHOICES_H
#define LUA_CHOICES_H
#include <stdint.h>

struct lesson_choice;

enum { LESSON_CHOICES = 25 };   /* of a question at most: the screen adds "I do not know" as its last letter */

void choices_shuffle(struct lesson_choice *choices, int count, uint64_t seed, uint32_t question);
#endif
