/* Which events wait for an answer. Interface: veil_update, veil_hides, veil_hides_lane, veil_free. */
#include "veil.h"

#include "base/map.h"
#include "base/vec.h"
#include "question.h"
#include "trace/reader.h"

#include <stdlib.h>
#include <string.h>

static bool
is_open(const struct model *model, size_t seq, const struct veil_place *place)
{
    if (place->cursor == NO_EVENT || seq < place->cursor || !model_is_lesson(model, seq, "ask"))
        return false;
    for (int i = 0; i < place->count; i++)
        if (place->answered[i] == seq)
            return false;
    return true;
}

/* "dp.scatter" hides dp.scatter and dp.scatter.chunk. */
static bool
names_kind(struct part hides, const char *kind)
{
    for (size_t at = 0; at < hides.length;) {
        size_t length = 0;
        while (at + length < hides.length && hides.text[at + length] != ' ')
            length++;
        if (length > 0 && strncmp(kind, hides.text + at, length) == 0 && (kind[length] == '\0' || kind[length] == '.'))
            return true;
        at += length + 1;
    }
    return false;
}

static void
draw_veil(struct veil *veil, const struct model *model, size_t seq, struct part hides)
{
    if (!veil->draws)
        veil->question = seq;
    veil->draws = true;
    for (size_t kind = 0; kind < veil->kinds; kind++)
        if (veil->from[kind] == UINT32_MAX && names_kind(hides, trace_kind(model->trace, (unsigned)kind)->name))
            veil->from[kind] = (uint32_t)seq;
    if (veil->kinds < model->kind_count && veil->rest == UINT32_MAX)
        veil->rest = (uint32_t)seq;
}

static void
sum_up(struct veil *veil)
{
    veil->sum = veil->draws ? hash_bytes(veil->rest, veil->from, veil->kinds * sizeof *veil->from) : 0;
    veil->mask = veil->draws && veil->rest != UINT32_MAX ? UINT64_MAX : 0;
    for (size_t kind = 0; veil->draws && kind < veil->kinds; kind++)
        if (veil->from[kind] != UINT32_MAX)
            veil->mask |= (uint64_t)1 << kind % 64;
}

void
veil_update(struct veil *veil, const struct model *model, const struct veil_place *place)
{
    bool room      = vec_room(&veil->from, &veil->room, model->kind_count, sizeof *veil->from);
    veil->kinds    = room ? model->kind_count : 0;
    veil->draws    = false;
    veil->question = NO_EVENT;
    veil->rest     = UINT32_MAX;
    for (size_t kind = 0; kind < veil->kinds; kind++)
        veil->from[kind] = UINT32_MAX;
    for (size_t i = 0; i < model->lesson_count; i++) {
        struct part hides = { "", 0 };
        if (is_open(model, model->lessons[i], place))
            hides = question_hides(model, model->lessons[i]);
        if (hides.length > 0)
            draw_veil(veil, model, model->lessons[i], hides);
    }
    sum_up(veil);
}

bool
veil_hides(const struct veil *veil, const struct model *model, size_t seq)
{
    if (!veil->draws)
        return false;
    const struct trace_event *event = trace_event(model->trace, seq);
    if (event == NULL)
        return false;
    return seq > (event->kind < veil->kinds ? veil->from[event->kind] : veil->rest);
}

bool
veil_hides_lane(const struct veil *veil, const struct model *model, size_t lane)
{
    size_t seq = veil->draws ? model_lane_next(model, lane, NO_EVENT, 1) : NO_EVENT;
    size_t events = model_lane_events(model, lane);
    while (seq != NO_EVENT && veil_hides(veil, model, seq))
        seq = model_lane_next(model, lane, seq, 1);
    return veil->draws && events > 0 && seq == NO_EVENT;
}

void
veil_free(struct veil *veil)
{
    free(veil->from);
    *veil = (struct veil){ 0 };
}
