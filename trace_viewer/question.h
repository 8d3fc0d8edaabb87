/* What the record knows of a question beside its words: what it hides until it is answered, its choices, and what is said
 * of those that are wrong. "I do not know" is the last choice of each, whether the lesson has it or not. Texts are parts
 * of the trace's, each with its length. */
#ifndef VIEWER_QUESTION_H
#define VIEWER_QUESTION_H
#include <stdbool.h>
#include <stddef.h>
#include "model.h"

#define QUESTION_UNKNOWN "I do not know"

struct part { const char *text; size_t length; };   /* length 0: there is none */
struct question_choice { struct part text, wrong; };

struct part question_hides(const struct model *model, size_t seq);    /* kinds, with blanks between */
int         question_choices(const struct model *model, size_t seq);  /* how many; 0: any answer may be given */
bool        question_choice(const struct model *model, size_t seq, int number, struct question_choice *out);
bool        question_is_answer(const struct model *model, size_t seq, struct part text);
bool        question_is_unknown(struct part text);
#endif
