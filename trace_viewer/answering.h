/* How a question is answered: a letter of its choices answers at once, all other keys keep their meaning at it until
 * answering_take gives it the keys (Enter, or that letter); then answering_key has each of them first. Esc puts a question
 * off, Esc again shows its answer: at the question, and at whatever it hides. Which questions are open is asking.h. */
#ifndef VIEWER_ANSWERING_H
#define VIEWER_ANSWERING_H
#include <stdbool.h>
#include <stddef.h>

struct model; struct view;

/* What stands before `seq` was passed before the screen opened: as if revealed. */
void   answering_pass(struct view *view, const struct model *model, size_t seq);

/* The question at the cursor, else the one that was put off and hides what stands there; NO_EVENT: none waits. */
size_t answering_waits(const struct view *view, const struct model *model);
void   answering_take(struct view *view, const struct model *model);            /* one stands at it, and it gets the keys */
bool   answering_has_keys(const struct view *view);
bool   answering_key(struct view *view, const struct model *model, const char *key); /* false: the key is not its */
/* false: no letter of the question at the cursor. */
bool   answering_letter(struct view *view, const struct model *model, const char *key);
/* Once, one move behind the first question that was answered: `predict on` asks more of them. */
bool   answering_offers_predict(const struct view *view);
/* As somebody answers: a choice by its number; -1: what was typed, or, where nothing was, the answer is shown. */
void   answering_give(struct view *view, const struct model *model, size_t seq, int choice);
/* The same in a line: a letter, the words of a choice, or what would be typed; "" shows the answer. */
void   answering_answer(struct view *view, const struct model *model, const char *words);
void   answering_put_off(struct view *view, size_t seq);
/* `reveal`: the answer here; "all" of them. `question`: back to one that was put off. */
void   answering_reveal(struct view *view, const struct model *model, const char *what);
void   answering_return(struct view *view, const struct model *model);
/* Forwards past the question at the cursor? false: no, and how to go on is said. */
bool   answering_lets_pass(struct view *view, const struct model *model);
/* What the keys do at the question that waits at the cursor, or hides what stands there, in a few words; "" none does. */
const char *answering_hint(const struct view *view, const struct model *model);
#endif
