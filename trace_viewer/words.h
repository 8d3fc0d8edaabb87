/* The screen in words, for who listens or feels: no lines, no boxes, always in the same order. Text is ASCII but for what
 * the trace itself says. `model` has been moved to the cursor (model_seek, model_seek_past). */
#ifndef VIEWER_WORDS_H
#define VIEWER_WORDS_H
#include "panes.h"

struct str;

/* Where one stands, a line each: step, rank, what, where, inside, changed, waiting, question. What there is not has no
 * line. */
void words_of_step(const struct scene *scene, struct str *out);
void words_of_lanes(const struct scene *scene, int rank, struct str *out);  /* what each does; -1: of all ranks */
void words_of_pane(const struct scene *scene, enum pane pane, struct str *out);
#endif
