/* Stages that have begun and not ended: per lane a chain from the innermost outwards, all in one array, so that a
 * moment is copied in one piece however many lanes there are. Which end belongs to which begin is as in trace/pairs.c,
 * without its memory of every event.
 *
 * Interface: open_begin, open_end; open_copy, open_bytes, open_free. */
#include <stdlib.h>
#include <string.h>

#include "analysis/internal.h"
#include "base/vec.h"
#include "trace/reader.h"

static bool
lane_room(struct open_spans *open, uint32_t lane)
{
    if (lane < open->lanes)
        return true;
    if (!vec_room(&open->innermost, &open->lane_room, lane + (size_t)1, sizeof *open->innermost))
        return false;
    memset(open->innermost + open->lanes, 0, (lane + 1 - open->lanes) * sizeof *open->innermost);
    open->lanes = lane + (size_t)1;
    return true;
}

bool
open_begin(struct open_spans *open, const struct open_span *span, uint32_t lane)
{
    if (!lane_room(open, lane))
        return false;
    uint32_t place = open->spare;
    if (place != 0) {
        open->spare = open->spans[place - 1].around;
    } else {
        if (!vec_room(&open->spans, &open->room, open->count + 1, sizeof *open->spans))
            return false;
        place = (uint32_t)++open->count;
    }
    open->spans[place - 1] = *span;
    open->spans[place - 1].around = open->innermost[lane];
    open->innermost[lane] = place;
    return true;
}

void
open_end(struct open_spans *open, const struct trace *trace, const struct trace_event *event, bool nests)
{
    if (event->lane >= open->lanes)
        return;
    for (uint32_t *at = &open->innermost[event->lane]; *at != 0; at = &open->spans[*at - 1].around) {
        uint32_t          place = *at;
        struct open_span *span = &open->spans[place - 1];
        if (span->kind != event->kind || (!nests && trace_event(trace, span->seq)->args[0] != event->args[0]))
            continue;
        *at = span->around;
        span->around = open->spare;
        open->spare = place;
        return;
    }
}

bool
open_copy(struct open_spans *to, const struct open_spans *from)
{
    size_t room = 0, lane = 0;
    *to = (struct open_spans){ 0 };
    if (from->lanes == 0)
        return true;
    if (!vec_room(&to->spans, &room, from->count, sizeof *to->spans) ||
        !vec_room(&to->innermost, &lane, from->lanes, sizeof *to->innermost))
        return false;
    to->room = room;
    to->lane_room = lane;
    to->count = from->count;
    to->lanes = from->lanes;
    to->spare = from->spare;
    memcpy(to->spans, from->spans, from->count * sizeof *to->spans);
    memcpy(to->innermost, from->innermost, from->lanes * sizeof *to->innermost);
    return true;
}

size_t
open_bytes(const struct open_spans *open)
{
    return open->count * sizeof *open->spans + open->lanes * sizeof *open->innermost;
}

void
open_free(struct open_spans *open)
{
    free(open->spans);
    free(open->innermost);
    *open = (struct open_spans){ 0 };
}
