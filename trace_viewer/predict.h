/* `predict on`: before `next` shows the stop that it comes to, it asks for one thing of it, whatever the lesson asks: a
 * rank, a bucket, bytes. Question and answer come from the event itself, choices from others of its kind. As long as it is
 * open nothing behind the cursor is shown. Order of use: predict_ask where a move is about to stand; predict_key while
 * view_is_predicting. */
#ifndef VIEWER_PREDICT_H
#define VIEWER_PREDICT_H
#include <stdbool.h>
#include <stddef.h>
#include "model.h"

struct view;

enum { PREDICT_CHOICES = 4 };

struct predict {
    bool   on, open;
    size_t from, target;               /* where one stands; the stop that comes */
    char   words[200], why[240];
    char   choices[PREDICT_CHOICES][48];
    int    count, answer, chosen;      /* chosen -1: none */
};

/* Whether there is something to ask of `target`: then it is asked, and one stays where one is. */
bool predict_ask(struct view *view, const struct model *model, size_t target);
/* false: the key is not its. Once it is answered one stands at the target. */
bool predict_key(struct view *view, const struct model *model, const char *key);
#endif
