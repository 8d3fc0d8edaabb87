/* Tab: what may be meant by a word that has begun. */
#ifndef VIEWER_COMPLETE_H
#define VIEWER_COMPLETE_H
#include <stddef.h>
#include "model.h"
#include "prompt.h"

/* Goes on with the word at the caret as far as it is decided; several words that it may become are offered. */
void complete(const struct model *model, struct prompt *prompt);
void complete_ranks(const struct model *model, char *out, size_t size);    /* "0 1 2 3" */
#endif
