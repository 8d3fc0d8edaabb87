/* Numbers over time: bytes in use on each device, bytes under way between ranks, collectives started and not finished.
 * Made of the trace's events in slices. A curve keeps its changes; of more than POINTS, several together. Order of use:
 * curves_work until false, curve_name, curve_print, curve_columns for each that is drawn; curves_free. */
#ifndef VIEWER_CURVES_H
#define VIEWER_CURVES_H
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include "axis.h"
#include "base/map.h"

struct model;

enum { CURVES = 24, POINTS = 1 << 16 };
enum curve_kind { CURVE_MEMORY, CURVE_FLIGHT, CURVE_QUEUE };

/* Changes from `time` on: the most in between, and what it is behind them. */
struct point { uint64_t time; int64_t most, after; };

struct curve {
    enum curve_kind kind;
    int             device;       /* CURVE_MEMORY; -1 the host */
    struct point   *points;
    size_t          count, room;
    size_t          group;        /* changes that a point stands for */
    size_t          in_last;      /* of them in the last one */
    int64_t         now, top;     /* behind the last event; the most of all time */
};

struct curves {
    struct curve curve[CURVES];
    int          count;
    size_t       seen;            /* events taken in */
    bool         whole, starved;
    struct map   flows;           /* bytes of messages under way, by flow */
    int64_t     *kinds;           /* what each kind of event does to them */
    size_t       kind_count;
};

bool        curves_work(struct curves *curves, const struct model *model);  /* a slice; false: all events are in */
void        curve_name(const struct curve *curve, bool whole, char *out, size_t size);  /* "mem d0" */
void        curve_print(const struct curve *curve, int64_t value, char *out, size_t size); /* "3.5KiB", "2" */
/* The most in each column of the axis, up to `limit`; -1: nothing was recorded yet. Answers the largest of them. */
int64_t     curve_columns(const struct curve *curve, const struct axis *axis, uint64_t limit, int64_t *out);
void        curves_free(struct curves *curves);
#endif
