/* Questions on the screen. A question holds: nobody stands behind it and nothing behind it is shown until it was answered,
 * revealed or put off. One that was put off is still open: what it hides and the lines that answer it stay hidden, and it
 * can be come back to. Answers are the screen's alone: neither run nor trace knows of them.
 *
 * At a question all keys keep their meaning until asking_take gives it the keys (Enter); then asking_key has each of them
 * first. Order of use: asking_init; asking_pass for what was passed before; asking_take, asking_key, asking_give;
 * asking_free. */
#ifndef VIEWER_ASKING_H
#define VIEWER_ASKING_H
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include "model.h"

struct view;

enum { TYPED_ANSWER = 120 };
enum given_how { GIVEN_LATER, GIVEN_SHOWN, GIVEN_ANSWER };   /* put off; revealed; answered */

struct given {
    size_t         seq;
    enum given_how how;
    int            choice;              /* GIVEN_ANSWER; -1: typed */
    char           text[TYPED_ANSWER];
};

struct asking {
    struct given *given;                /* by seq */
    size_t        count, room;
    size_t        taken;                /* the question that has the keys; NO_EVENT none */
    int           chosen;               /* of its choices; -1 none */
    char          typed[TYPED_ANSWER];  /* where it has none */
    bool          all;                  /* all answers are shown: `reveal all`, --teacher */
};

void asking_init(struct asking *asking);
void asking_free(struct asking *asking);

const struct given *asking_given(const struct asking *asking, size_t seq);   /* NULL: nobody has answered */
bool   asking_is_open(const struct asking *asking, size_t seq);              /* put off, or not asked yet */
bool   asking_holds(const struct asking *asking, size_t seq);                /* not even put off */
size_t asking_horizon(const struct asking *asking, const struct model *model); /* the first that holds; NO_EVENT */
bool   asking_is_question(const struct model *model, size_t seq);
/* What stands before `seq` was passed before the screen opened: as if revealed. */
void   asking_pass(struct view *view, const struct model *model, size_t seq);

void   asking_take(struct view *view, const struct model *model);            /* the question at the cursor gets the keys */
bool   asking_has_keys(const struct view *view);
bool   asking_key(struct view *view, const struct model *model, const char *key); /* false: the key is not its */
/* As somebody answers: a choice by its number; -1: what was typed, or, where nothing was, the answer is shown. */
void   asking_give(struct view *view, const struct model *model, size_t seq, int choice);
/* The same in a line: a letter, the words of a choice, or what would be typed; "" shows the answer. */
void   asking_answer(struct view *view, const struct model *model, const char *words);
void   asking_put_off(struct view *view, size_t seq);
/* `reveal`: the answer here; "all" of them. `question`: back to one that was put off. */
void   asking_reveal(struct view *view, const struct model *model, const char *what);
void   asking_return(struct view *view, const struct model *model);
/* Forwards past the question at the cursor? false: no, and how to go on is said. */
bool   asking_lets_pass(struct view *view, const struct model *model);
/* What the keys do at the question that waits at the cursor, in a few words; "" none does. */
const char *asking_hint(const struct view *view, const struct model *model);
#endif
