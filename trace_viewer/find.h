/* What / looks for: words of whatever is on the screen (labels, kinds, ops, names, the lesson's texts, lanes), a
 * predicate of trace/match.h, or both where a word is a kind or a family. Words are compared with each text of the
 * trace once, then events are asked by their numbers. Order of use: find_compile, find_event, find_use when another
 * trace takes the old one's place, find_free. */
#ifndef VIEWER_FIND_H
#define VIEWER_FIND_H
#include <stdbool.h>
#include <stddef.h>
#include "model.h"

struct find; struct str;

/* NULL: `why` says what is wrong. "two words" in quotes is looked for as it stands, never as a predicate. */
struct find *find_compile(const struct model *model, const char *text, char *why, size_t why_size);
/* Whether it is at that event. Of a stage the begin is found, of words at least. */
bool         find_event(struct find *find, const struct model *model, size_t seq);
const char  *find_text(const struct find *find);
/* What was looked through for a word; nothing for a predicate, which says it itself. */
void         find_say(const struct find *find, struct str *out);
/* The predicate that `until` takes to what is looked for, where it is one or a part of kinds' names; else nothing. */
void         find_until(const struct find *find, const struct model *model, struct str *out);
void         find_use(struct find *find, const struct model *model);
/* The word of the trace that was probably meant; "": none is near. */
void         find_nearest(const struct find *find, const struct model *model, char *out, size_t size);
void         find_free(struct find *find);
#endif
