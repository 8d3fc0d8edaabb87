/* What there is at a moment: by searches in the index, whatever the size of the trace. */
#ifndef VIEWER_MOMENT_H
#define VIEWER_MOMENT_H
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include "model.h"

/* From which moment on, `time` or later, the lane works or is marked; UINT64_MAX never again. */
uint64_t moment_of_work(const struct model *model, int lane, uint64_t time);
uint64_t moment_of_stage(const struct model *model, int lane, uint64_t time);  /* the same, marks not counted */
uint64_t moment_of_idling(const struct model *model, int lane, uint64_t time); /* from which on it does not work */

/* The span that this event begins or ends, and its level; false: it is a mark, or its span is not kept. */
bool     moment_span(const struct model *model, size_t seq, struct span *span, int *level);
uint64_t span_end_shown(const struct model *model, const struct span *span);   /* of an open one as far as is known */
#endif
