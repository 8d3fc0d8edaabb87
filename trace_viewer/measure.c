/* The measure row. Interface: measure_draw; measure_edge for who points at a moment. */
#include "measure.h"

#include "base/str.h"
#include "moment.h"
#include "trace/reader.h"
#include "window.h"

enum {
    HORIZONTAL = 0x2500, BEGINS = 0x251c, ENDS = 0x2524, ARROW_LEFT = 0x25c4, ARROW_RIGHT = 0x25ba, COUNTED = 1 << 14,
    ADDED = 1 << 6 /* stretches of work; some milliseconds */
};

struct range { uint64_t from, to, shown; size_t events; bool known; };

/* How long the lane works between two moments; false: there is too much to count. */
static bool
busy_time(const struct model *model, int lane, const struct range *range, uint64_t *busy)
{
    uint64_t at = range->from;
    *busy = 0;
    for (int n = 0; at < range->to; n++) {
        uint64_t until = moment_of_idling(model, lane, at);
        until = until < range->to ? until : range->to;
        *busy += until - at;
        at = until < range->to ? moment_of_stage(model, lane, until) : until;
        if (n == ADDED)
            return false;
    }
    return true;
}

static bool
range_of(const struct model *model, const struct view *view, struct range *range)
{
    if (view->cursor == NO_EVENT)
        return false;
    if (view->measure != NO_EVENT && view->measure != view->cursor && view->measure < model->seen) {
        size_t one = view->measure < view->cursor ? view->measure : view->cursor;
        size_t other = one == view->measure ? view->cursor : view->measure;
        *range = (struct range){ trace_time(model->trace, one), trace_time(model->trace, other),
                                 window_shown(model, view, one), other - one, true };
        return range->to >= range->from;
    }
    struct span span;
    int level;
    if (!moment_span(model, view->cursor, &span, &level))
        return false;
    *range = (struct range){ span.begin, span_end_shown(model, &span), window_shown(model, view, span.seq), 0, false };
    return true;
}

static void
print_range(const struct model *model, const struct view *view, const struct range *range, bool wide, struct str *out)
{
    uint64_t busy, length = range->to - range->from;
    str_add(out, " ");
    trace_print_time(length, out);
    if (range->known && wide)
        str_addf(out, "  %zu events", range->events);
    if (wide && length > 0 && busy_time(model, view->lane, range, &busy))
        str_addf(out, "  %d%% busy", (int)((__uint128_t)busy * 100 / length));
    str_add(out, " ");
}

void
measure_draw(const struct model *model, const struct view *view, const struct axis *axis, struct canvas *row)
{
    enum { WIDE = 32 };
    struct range range;
    if (!range_of(model, view, &range))
        return;
    int from = axis_column(axis, range.shown), to = axis_column(axis, range.shown + (range.to - range.from));
    bool begins = from >= 0, ends = to < axis->columns;
    from = begins ? from : 0;
    to = ends ? to : axis->columns - 1;
    if (from >= axis->columns || to < 0)
        return;
    struct style style = { .ink = range.known ? INK_ACCENT : INK_DIM };
    struct str text = { 0 };
    print_range(model, view, &range, to - from >= WIDE, &text);
    for (int column = from; column <= to; column++)
        canvas_put(row, 0, column, style, HORIZONTAL);
    canvas_put(row, 0, to, style, ends ? ENDS : ARROW_RIGHT);
    canvas_put(row, 0, from, style, begins ? BEGINS : ARROW_LEFT);
    int length = (int)text.len, at = (from + to + 1 - length) / 2;
    if (to - from < length + 1) /* beside it, where there is room */
        at = to + 1 + length <= row->width ? to + 1 : from - length;
    if (at >= 0)
        canvas_text(row, 0, at, style, canvas_words(row, &text));
    str_free(&text);
}

size_t
measure_edge(const struct model *model, int lane, uint64_t time, uint64_t reach)
{
    size_t   found = NO_EVENT;
    uint64_t best = reach;
    if (lane < 0 || (size_t)lane >= model->lane_count)
        return NO_EVENT;
    size_t first = model_seq_at(model, time > reach ? time - reach : 0);
    size_t at = model_lane_next(model, (size_t)lane, first > 0 ? first - 1 : NO_EVENT, 1);
    for (int n = 0; n < COUNTED && at != NO_EVENT; n++, at = model_lane_next(model, (size_t)lane, at, 1)) {
        uint64_t edge = trace_time(model->trace, at), apart = edge > time ? edge - time : time - edge;
        if (edge > time && apart > reach)
            break;
        if (apart <= best && trace_event(model->trace, at)->phase != PHASE_INSTANT) {
            best = apart;
            found = at;
        }
    }
    return found;
}
