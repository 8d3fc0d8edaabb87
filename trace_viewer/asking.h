/* Questions on the screen. A question holds: nobody stands behind it and nothing behind it is shown until it was answered,
 * revealed or put off. One that was put off is still open: what it hides and the lines that answer it stay hidden, and it
 * can be come back to. Answers are the screen's alone: neither run nor trace knows of them.
 * Order of use: asking_init, asking_keep for each answer, asking_free; what keys do at a question is answering.h. */
#ifndef VIEWER_ASKING_H
#define VIEWER_ASKING_H
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include "model.h"

enum { TYPED_ANSWER = 120 };
/* Put off; it stood before the place where the screen opened; revealed; "I do not know"; answered. */
enum given_how { GIVEN_LATER, GIVEN_PASSED, GIVEN_SHOWN, GIVEN_UNKNOWN, GIVEN_WRONG, GIVEN_RIGHT };

struct given {
    size_t         seq;
    enum given_how how;
    int            choice;              /* of what was answered; -1: typed */
    char           text[TYPED_ANSWER];
};

struct asking {
    struct given *given;                /* by seq */
    size_t        count, room;
    size_t        taken;                /* the question that has the keys; NO_EVENT none */
    int           chosen;               /* of its choices; -1 none */
    char          typed[TYPED_ANSWER];  /* where it has none */
    bool          all;                  /* all answers are shown: `reveal all`, --teacher */
    bool          starved;              /* there was no memory to keep one */
};

void asking_init(struct asking *asking);
void asking_free(struct asking *asking);

const struct given *asking_given(const struct asking *asking, size_t seq);   /* NULL: nobody has answered */
bool   asking_is_open(const struct asking *asking, size_t seq);              /* put off, or not asked yet */
bool   asking_holds(const struct asking *asking, size_t seq);                /* not even put off */
size_t asking_horizon(const struct asking *asking, const struct model *model); /* the first that holds; NO_EVENT */
bool   asking_is_question(const struct model *model, size_t seq);
size_t asking_count(const struct asking *asking, enum given_how how);
bool   asking_keep(struct asking *asking, const struct given *given);         /* false: no memory */
#endif
