/* What there is at a moment or between two: by binary searches, whatever the size of the trace. */
#ifndef VIEWER_MOMENT_H
#define VIEWER_MOMENT_H
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include "model.h"

struct veil;

/* What a lane does between two moments: how long it works, at what most, whether anything at all touches it. */
struct share { uint64_t busy; uint8_t work; bool touched; };

size_t       moment_seq(const struct model *model, uint64_t time);                 /* the first event from then on */
/* From which moment on, `time` or later, the lane works or is marked; UINT64_MAX never again. */
uint64_t     moment_of_work(const struct model *model, int lane, uint64_t time);
uint64_t     moment_of_stage(const struct model *model, int lane, uint64_t time);  /* the same, marks not counted */
uint64_t     moment_of_idling(const struct model *model, int lane, uint64_t time); /* from which on it does not work */
/* Adds the lane's part; what `veil` hides is left out. */
void         share_add(struct share *share, const struct model *model, const struct veil *veil, int lane, uint64_t from,
                       uint64_t to);
/* The span that this event begins or ends; NULL: it is a mark, or its span is not kept. */
const struct span *moment_span(const struct model *model, size_t seq);
uint64_t     span_end_shown(const struct model *model, const struct span *span);   /* of an open one as far as is known */
#endif
