/* Time on the screen: a row of columns, in pieces. Without squeezing there is one piece; squeezed, a stretch in which
 * nobody works becomes a gap of two columns. Times are as they are shown: with the rank's shift. Order of use:
 * axis_plain, or squeeze_axis of squeeze.h; then axis_column and axis_time, or axis_scale for each piece drawn. */
#ifndef VIEWER_AXIS_H
#define VIEWER_AXIS_H
#include <stdbool.h>
#include <stdint.h>
#include "scale.h"

enum { PIECES = 129, GAP_COLUMNS = 2 };

/* The screen's columns from `at` on show `length` columns of time from number `left` on; fewer than that: a gap. */
struct piece { int at, columns; int64_t left, length; };
struct axis  { uint64_t unit; int columns, count; struct piece piece[PIECES]; };

void         axis_plain(struct axis *axis, const struct scale *scale);
bool         piece_is_gap(const struct piece *piece);
int          axis_column(const struct axis *axis, uint64_t shown);    /* -1 and `columns` outside */
uint64_t     axis_time(const struct axis *axis, int column);          /* its left edge */
struct scale axis_scale(const struct axis *axis, int piece, uint64_t shift);
#endif
