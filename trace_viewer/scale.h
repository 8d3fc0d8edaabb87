/* Time to columns. A zoom is a number of picoseconds per column from the 1-2-5 series; column k covers
 * [k * unit, (k + 1) * unit) in absolute time, so that panning moves whole columns and nothing shimmers. */
#ifndef VIEWER_SCALE_H
#define VIEWER_SCALE_H
#include <stdbool.h>
#include <stdint.h>

struct str;

struct scale {
    uint64_t unit;     /* ps a column, at least 1 ns */
    int64_t  left;     /* number of the first column shown */
    int      columns;
    int64_t  shift;    /* ps by which times are shown later: where ranks are aligned */
};

uint64_t scale_unit_for(uint64_t length, int columns);  /* the smallest of the series that shows it all */
uint64_t scale_finer(uint64_t unit);
uint64_t scale_coarser(uint64_t unit);
/* Eighths of a column from the window's left edge, held within one screen on either side. */
int64_t  scale_eighths(const struct scale *scale, uint64_t time);
int64_t  scale_number(const struct scale *scale, uint64_t time); /* of its column, counted from time 0 */
int      scale_column(const struct scale *scale, uint64_t time); /* may lie outside: -1 and columns at the edges */
uint64_t scale_time(const struct scale *scale, int column);      /* its left edge; 0 before the start */
#endif
