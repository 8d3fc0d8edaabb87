/* Stretches of time in which no lane works, taken together: longer than eight columns they become two. */
#ifndef VIEWER_SQUEEZE_H
#define VIEWER_SQUEEZE_H
#include "axis.h"

struct model; struct view;

/* The axis of that window without its idle stretches. */
void squeeze_axis(const struct model *model, const struct view *view, const struct scale *scale, struct axis *axis);
#endif
