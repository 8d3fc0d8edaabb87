/* Which events wait for an answer. Interface: veil_update, veil_hides, veil_question, veil_hides_kind, veil_hides_lane,
 * veil_free. */
#include "veil.h"

#include "asking.h"
#include "base/map.h"
#include "base/vec.h"
#include "question.h"
#include "trace/reader.h"

#include <stdlib.h>
#include <string.h>

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
    uint64_t time = trace_time(model->trace, seq);
    veil->draws = true;
    veil->whole = time < veil->whole ? time : veil->whole;
    for (size_t kind = 0; kind < veil->kinds; kind++)
        if (veil->from[kind] == UINT32_MAX && names_kind(hides, trace_kind(model->trace, (unsigned)kind)->name))
            veil->from[kind] = (uint32_t)seq;
    if (veil->kinds < model->kind_count && veil->rest == UINT32_MAX)
        veil->rest = (uint32_t)seq;
}

static void
sum_up(struct veil *veil)
{
    const uint64_t ends[2] = { veil->rest, veil->horizon };
    veil->sum = veil->draws ? hash_bytes(0, veil->from, veil->kinds * sizeof *veil->from) : 0;
    veil->sum = hash_bytes(veil->sum, ends, sizeof ends);
    veil->mask = veil->draws && veil->rest != UINT32_MAX ? UINT64_MAX : 0;
    for (size_t kind = 0; veil->draws && kind < veil->kinds; kind++)
        if (veil->from[kind] != UINT32_MAX)
            veil->mask |= (uint64_t)1 << kind % 64;
}

void
veil_update(struct veil *veil, const struct model *model, const struct asking *asking, size_t limit)
{
    bool room     = vec_room(&veil->from, &veil->room, model->kind_count, sizeof *veil->from);
    veil->kinds   = room ? model->kind_count : 0;
    veil->draws   = false;
    veil->rest    = UINT32_MAX;
    veil->horizon = asking_horizon(asking, model);
    if (limit < veil->horizon)
        veil->horizon = limit;
    veil->until = veil->horizon != NO_EVENT ? trace_time(model->trace, veil->horizon) : UINT64_MAX;
    veil->stamp = veil->horizon;
    veil->whole = veil->until;
    for (size_t kind = 0; kind < veil->kinds; kind++)
        veil->from[kind] = UINT32_MAX;
    for (size_t i = 0; i < asking->count && !asking->all; i++) {
        struct part hides = { "", 0 };
        if (asking->given[i].how == GIVEN_LATER)
            hides = question_hides(model, asking->given[i].seq);
        if (hides.length > 0)
            draw_veil(veil, model, asking->given[i].seq, hides);
        if (hides.length > 0)
            veil->stamp = veil->stamp * 31 + asking->given[i].seq;
    }
    sum_up(veil);
}

bool
veil_hides(const struct veil *veil, const struct model *model, size_t seq)
{
    if (seq > veil->horizon && veil->horizon != NO_EVENT)
        return true;
    const struct trace_event *event = veil->draws ? trace_event(model->trace, seq) : NULL;
    if (event == NULL)
        return false;
    return seq > (event->kind < veil->kinds ? veil->from[event->kind] : veil->rest);
}

size_t
veil_question(const struct model *model, const struct asking *asking, size_t seq)
{
    size_t question = NO_EVENT;
    for (size_t i = 0; i < asking->count && !asking->all && asking->given[i].seq < seq && seq < model->seen; i++)
        if (asking->given[i].how == GIVEN_LATER &&
            names_kind(question_hides(model, asking->given[i].seq), model_kind(model, seq)))
            question = asking->given[i].seq;
    return question;
}

bool
veil_meets(const struct veil *veil, uint64_t kinds, uint64_t last)
{
    return (veil->draws && (veil->mask & kinds) != 0) || last >= veil->until;
}

bool
veil_hides_kind(const struct veil *veil, const struct model *model, const char *name)
{
    size_t length = strlen(name);
    for (size_t kind = 0; veil->draws && kind < veil->kinds; kind++) {
        const char *own = trace_kind(model->trace, (unsigned)kind)->name;
        if (veil->from[kind] != UINT32_MAX && strncmp(own, name, length) == 0 &&
            (own[length] == '\0' || own[length] == '.'))
            return true;
    }
    return veil->draws && veil->rest != UINT32_MAX;
}

/* The events of a lane are in order, so those behind the horizon are one stretch at its end. */
bool
veil_hides_lane(const struct veil *veil, const struct model *model, size_t lane)
{
    size_t seq = model_lane_next(model, lane, NO_EVENT, 1);
    if (seq == NO_EVENT || (!veil->draws && veil->horizon == NO_EVENT))
        return false;
    while (veil->draws && seq != NO_EVENT && seq <= veil->horizon && veil_hides(veil, model, seq))
        seq = model_lane_next(model, lane, seq, 1);
    return seq == NO_EVENT || seq > veil->horizon;
}

void
veil_free(struct veil *veil)
{
    free(veil->from);
    *veil = (struct veil){ 0 };
}
