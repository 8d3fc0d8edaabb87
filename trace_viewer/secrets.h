/* What of a lesson's text stays hidden: the answers of questions that are still open, why they are right or wrong, and
 * the comments beside them; and as long as one is open, the sentences of the table `text`, which tell what comes. A
 * question is a table with a field `answer`; it is open until it was answered or its answer was asked for.
 * Order of use: secrets_find, secrets_line for each line, secrets_free. */
#ifndef VIEWER_SECRETS_H
#define VIEWER_SECRETS_H
#include "view.h"

struct secret { size_t begin, end; int question; }; /* bytes of the text, in order */

struct secrets {
    const char    *text;
    struct secret *found;
    size_t         count, room;
};

/* false: no memory, and nothing of the text may be shown. */
bool secrets_find(const struct model *model, const struct view *view, const char *text, struct secrets *out);
/* A line of that text as it may be shown: `?` in place of what is hidden. */
void secrets_line(const struct secrets *secrets, const char *line, size_t length, char *out, size_t size);
void secrets_free(struct secrets *secrets);
#endif
