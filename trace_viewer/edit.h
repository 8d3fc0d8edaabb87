/* The source line of the cursor's event in a person's editor. */
#ifndef VIEWER_EDIT_H
#define VIEWER_EDIT_H
#include <stdbool.h>
#include <stddef.h>
#include "view.h"

struct source_place { const char *file; uint32_t line; };

/* $VISUAL, else $EDITOR; NULL none. */
const char *edit_program(void);
/* false: nothing to edit here; `why` is one line. */
bool edit_place(const struct model *model, const struct view *view, struct source_place *out, char *why, size_t why_size);
/* Runs it on a terminal that is its own meanwhile. false: `why` says how it ended. */
bool edit_run(const struct source_place *place, char *why, size_t why_size);
#endif
