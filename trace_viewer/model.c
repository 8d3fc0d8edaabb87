/* The trace arranged for drawing. Interface in order of use: model_open, model_refresh, then the
 * questions: level_find, lane_find, model_kind, model_argument; model_close. What an event is called on the
 * timeline is label.c's business. */
#include "model.h"

#include "analysis/diff.h"
#include "analysis/state.h"
#include "base/vec.h"
#include "trace/reader.h"

#include <stdlib.h>
#include <string.h>

static bool
add_seq(uint32_t **list, size_t *count, size_t *room, size_t seq)
{
    if (!vec_room(list, room, *count + 1, sizeof **list))
        return false;
    (*list)[(*count)++] = (uint32_t)seq;
    return true;
}

/* An operator inside a backward or an optimizer's step is that one's work. */
static uint8_t
inherited(const struct model *model, const struct lane *lane, int level, uint16_t kind)
{
    uint8_t work = model->work[kind];
    if (work != WORK_FORWARD || level == 0)
        return work;
    const struct level *outer = &lane->levels[level - 1];
    uint8_t around = outer->count > 0 ? outer->spans[outer->count - 1].work : (uint8_t)WORK_NONE;
    return around == WORK_BACKWARD || around == WORK_OPTIMIZER ? around : work;
}

static bool
open_span(struct model *model, struct lane *lane, const struct trace_event *event, size_t seq, uint64_t time)
{
    if (lane->open < LEVELS) {
        struct level *level = &lane->levels[lane->open];
        if (!vec_room(&level->spans, &level->room, level->count + 1, sizeof *level->spans))
            return false;
        level->spans[level->count++] = (struct span){ .begin = time, .end = STILL_OPEN, .seq = (uint32_t)seq,
                                                      .work = inherited(model, lane, lane->open, event->kind) };
        lane->open_kind[lane->open] = event->kind;
        if (lane->depth <= lane->open)
            lane->depth = lane->open + 1;
    }
    lane->open++;
    return true;
}

/* Ends the innermost open span of this kind and what was left open inside it; false: there is none. */
static bool
close_span(struct lane *lane, uint16_t kind, uint64_t time)
{
    if (lane->open > LEVELS) {
        lane->open--;
        return true;
    }
    int found = lane->open - 1;
    while (found >= 0 && lane->open_kind[found] != kind)
        found--;
    if (found < 0)
        return false;
    for (int i = found; i < lane->open; i++) {
        struct level *level = &lane->levels[i];
        level->spans[level->count - 1].end = time;
    }
    lane->open = found;
    return true;
}

static bool
add_mark(struct lane *lane, uint8_t work, size_t seq, uint64_t time)
{
    if (!vec_room(&lane->marks, &lane->mark_room, lane->mark_count + 1, sizeof *lane->marks))
        return false;
    lane->marks[lane->mark_count++] = (struct mark){ .time = time, .seq = (uint32_t)seq, .work = work };
    return true;
}

/* A lock that is held does not nest as stages do: its two ends are marks. */
static bool
kind_nests(const struct model *model, uint16_t kind)
{
    return strcmp(trace_kind(model->trace, kind)->name, "lock.hold") != 0;
}

static bool
take_event(struct model *model, size_t seq)
{
    const struct trace_event *event = trace_event(model->trace, seq);
    uint64_t time = trace_time(model->trace, seq);
    if (event->lane >= model->lane_count || event->kind >= model->kind_count)
        return true;
    struct lane *lane = &model->lanes[event->lane];
    if (!add_seq(&lane->events, &lane->event_count, &lane->event_room, seq))
        return false;
    uint8_t work = model->work[event->kind];
    bool failed_check = model_is_lesson(model, seq, "check");
    if (failed_check) {
        int64_t ok = 1;
        failed_check = model_argument(model, seq, "ok", &ok) && ok == 0;
    }
    if ((work == WORK_FAULT || failed_check) &&
        !add_seq(&model->faults, &model->fault_count, &model->fault_room, seq))
        return false;
    if ((work == WORK_LESSON || work == WORK_FAULT) &&
        !add_seq(&model->lessons, &model->lesson_count, &model->lesson_room, seq))
        return false;

    if (time > model->end)
        model->end = time;
    if (event->phase == PHASE_BEGIN && kind_nests(model, event->kind))
        return open_span(model, lane, event, seq, time);
    if (event->phase == PHASE_END && kind_nests(model, event->kind) && close_span(lane, event->kind, time))
        return true;
    return add_mark(lane, failed_check ? WORK_FAULT : work, seq, time);
}

/* Kinds and lanes may be declared while the run goes on. */
static bool
take_declarations(struct model *model)
{
    size_t lanes = trace_lanes(model->trace), kinds = trace_kinds(model->trace);
    if (!vec_room(&model->lanes, &model->lane_room, lanes, sizeof *model->lanes))
        return false;
    for (; model->lane_count < lanes; model->lane_count++) {
        model->lanes[model->lane_count] = (struct lane){ 0 };
        model->ranked |= trace_lane_at(model->trace, model->lane_count)->rank > 0;
    }
    if (kinds <= model->kind_count)
        return true;
    uint8_t *work = realloc(model->work, kinds);
    if (work == NULL)
        return false;
    model->work = work;
    for (; model->kind_count < kinds; model->kind_count++)
        work[model->kind_count] = (uint8_t)work_of_kind(trace_kind(model->trace, (unsigned)model->kind_count)->name);
    return true;
}

static bool
take_events(struct model *model)
{
    size_t count = trace_count(model->trace);
    if (count > UINT32_MAX)
        count = UINT32_MAX;
    if (!take_declarations(model))
        return false;
    for (; model->seen < count; model->seen++)
        if (!take_event(model, model->seen))
            return false;
    return true;
}

bool
model_open(struct model *model, struct trace *trace)
{
    *model = (struct model){ .trace = trace, .state = state_new(trace), .at = NO_EVENT, .past_at = NO_EVENT };
    if (model->state != NULL && take_events(model))
        return true;
    model_close(model);
    return false;
}

bool
model_refresh(struct model *model)
{
    size_t before = model->seen;
    return trace_refresh(model->trace) && take_events(model) && model->seen > before;
}

void
model_close(struct model *model)
{
    for (size_t i = 0; i < model->lane_count; i++) {
        for (int level = 0; level < LEVELS; level++)
            free(model->lanes[i].levels[level].spans);
        free(model->lanes[i].marks);
        free(model->lanes[i].events);
    }
    free(model->lanes);
    free(model->faults);
    free(model->lessons);
    free(model->work);
    if (model->state != NULL)
        state_free(model->state);
    if (model->past != NULL)
        state_free(model->past);
    diff_free(model->diff);
    if (model->trace != NULL)
        trace_release(model->trace);
    *model = (struct model){ 0 };
}

bool
model_compare(struct model *model, char *why, size_t why_size)
{
    model->diff = diff_new(model->trace, why, why_size);
    return model->diff != NULL;
}

const char *
model_kind(const struct model *model, size_t seq)
{
    const struct trace_event *event = trace_event(model->trace, seq);
    return event != NULL ? trace_kind(model->trace, event->kind)->name : "";
}

enum work
model_work(const struct model *model, size_t seq)
{
    const struct trace_event *event = trace_event(model->trace, seq);
    return event != NULL && event->kind < model->kind_count ? (enum work)model->work[event->kind] : WORK_NONE;
}

bool
model_is_lesson(const struct model *model, size_t seq, const char *what)
{
    const char *kind = model_kind(model, seq);
    return strncmp(kind, "lesson.", 7) == 0 && strcmp(kind + 7, what) == 0;
}

bool
model_argument(const struct model *model, size_t seq, const char *name, int64_t *value)
{
    const struct trace_event *event = trace_event(model->trace, seq);
    if (event == NULL)
        return false;
    const struct trace_kind *kind = trace_kind(model->trace, event->kind);
    for (int i = 0; i < kind->arg_count && i < 4; i++)
        if (strcmp(kind->arg_name[i], name) == 0) {
            *value = event->args[i];
            return true;
        }
    return false;
}

const char *
model_argument_text(const struct model *model, size_t seq, const char *name)
{
    int64_t id;
    return model_argument(model, seq, name, &id) ? trace_text_at(model->trace, id) : "";
}

size_t
level_find(const struct level *level, uint64_t time)
{
    size_t low = 0, high = level->count;
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        if (level->spans[middle].end < time)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

size_t
lane_find(const struct lane *lane, size_t seq)
{
    size_t low = 0, high = lane->event_count;
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        if (lane->events[middle] < seq)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}
