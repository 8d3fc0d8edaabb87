/* Idle time taken out of the axis. Lanes that work say until when nothing else has to be asked, so a frame asks each
 * lane a few times, not for each column. Interface: squeeze_axis. */
#include "squeeze.h"

#include "canvas.h"
#include "moment.h"
#include "trace/reader.h"
#include "view.h"

#include <stdlib.h>

enum { IDLE_LEAST = 8 };

/* When each lane works next, as it is shown; `first` the lane that was busy last. */
struct watch { const struct model *model; const struct view *view; uint64_t *next; size_t first; };

static uint64_t
shown_next(struct watch *watch, size_t lane, uint64_t shown)
{
    if (watch->next[lane] >= shown && watch->next[lane] != 0)
        return watch->next[lane];
    const struct arrange *arrange = &watch->view->arrange;
    uint64_t shift = align_shift(&arrange->align, trace_lane_at(watch->model->trace, lane)->rank);
    uint64_t own = shown < shift ? 0 : shown - shift;
    uint64_t next = filter_hides_lane(&arrange->filter, (int)lane) ? UINT64_MAX
                                                                   : moment_of_work(watch->model, (int)lane, own);
    if (next != UINT64_MAX)
        next += shift;
    watch->next[lane] = next < shown ? shown : next;
    return watch->next[lane];
}

/* When any lane works next, `soon` at the earliest being enough to know. */
static uint64_t
next_work(struct watch *watch, uint64_t shown, uint64_t soon)
{
    size_t   count = watch->model->lane_count;
    uint64_t next = UINT64_MAX;
    for (size_t i = 0; i < count; i++) {
        size_t lane = (watch->first + i) % count;
        uint64_t at = shown_next(watch, lane, shown);
        next = at < next ? at : next;
        if (next <= soon) {
            watch->first = lane;
            return next;
        }
    }
    return next;
}

static void
add_piece(struct axis *axis, struct piece piece)
{
    if (piece.columns > 0 && axis->count < PIECES)
        axis->piece[axis->count++] = piece;
}

/* Column by column; where nobody works in one, on to the column in which somebody does. */
static void
walk(struct watch *watch, const struct scale *scale, struct axis *axis)
{
    int64_t from = scale->left, column = from;
    int at = 0;
    while (at + (int)(column - from) < scale->columns) {
        uint64_t begin = (uint64_t)(column > 0 ? column : 0) * scale->unit;
        uint64_t next = next_work(watch, begin, begin + scale->unit * (IDLE_LEAST + 1) - 1);
        if (next == UINT64_MAX || axis->count + 3 >= PIECES) /* behind the end everything is idle */
            break;
        int64_t works = (int64_t)(next / scale->unit);
        if (works - column <= IDLE_LEAST) {
            column = works > column ? works : column + 1;
            continue;
        }
        int plain = (int)(column - from), room = scale->columns - at - plain;
        add_piece(axis, (struct piece){ at, plain, from, plain });
        add_piece(axis, (struct piece){ at + plain, room < GAP_COLUMNS ? room : GAP_COLUMNS, column, works - column });
        at += plain + GAP_COLUMNS;
        from = column = works;
    }
    if (at < scale->columns)
        add_piece(axis, (struct piece){ at, scale->columns - at, from, scale->columns - at });
}

void
squeeze_axis(const struct model *model, const struct view *view, const struct scale *scale, struct axis *axis)
{
    axis_plain(axis, scale);
    uint64_t *next = model->lane_count > 0 ? calloc(model->lane_count, sizeof *next) : NULL;
    if (next == NULL) /* then it is shown as it is */
        return;
    struct watch watch = { .model = model, .view = view, .next = next };
    axis->count = 0;
    walk(&watch, scale, axis);
    free(next);
}
