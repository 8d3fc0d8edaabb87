/* The trace arranged for drawing. Interface in order of use: model_open, model_arrange, model_refresh, model_seek,
 * then the questions: model_kind, model_argument; what lies where is asked of the index. What an event is called on
 * the timeline is label.c's business. */
#include "model.h"

#include "analysis/diff.h"
#include "analysis/quantities.h"
#include "analysis/state.h"
#include "analysis/stats.h"
#include "analysis/story.h"
#include "analysis/tensors.h"
#include "strip.h"
#include "trace/reader.h"

#include <stdlib.h>
#include <string.h>

/* Events; bytes of the trace that may stay mapped. */
enum { ARRANGE_SLICE = 1 << 16, HELD = 1 << 30, STORY_LEARNED = 1 << 20 };

/* Kinds and lanes may be declared while the run goes on. */
static bool
take_declarations(struct model *model)
{
    size_t kinds = trace_kinds(model->trace);
    model->lane_count = index_lanes(model->index);
    for (size_t i = 0; i < model->lane_count && !model->ranked; i++)
        model->ranked = trace_lane_at(model->trace, i)->rank > 0;
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

/* What the index knows by now. */
static bool
take_index(struct model *model)
{
    model->seen = index_count(model->index);
    model->end = index_end(model->index);
    model->faults = index_faults(model->index, &model->fault_count);
    model->lessons = index_lessons(model->index, &model->lesson_count);
    return take_declarations(model);
}

/* Whoever asks the trace for other ends is answered by the index. */
static size_t
partner_of(const void *index, size_t seq)
{
    return index_partner(index, seq);
}

static size_t
flow_end_of(const void *index, size_t seq)
{
    return index_flow_end(index, seq);
}

bool
model_open(struct model *model, struct trace *trace)
{
    *model = (struct model){ .trace = trace, .state = state_new(trace), .at = NO_EVENT, .past_at = NO_EVENT,
                             .index = index_open(trace), .shelf = shelf_new() };
    trace_hold(trace, HELD);
    trace_ask(trace, (struct trace_ends){ partner_of, flow_end_of, model->index });
    if (model->state != NULL && model->index != NULL && model->shelf != NULL && take_index(model))
        return true;
    model_close(model);
    return false;
}

bool
model_arrange(struct model *model)
{
    if (index_is_whole(model->index))
        return false;
    index_build(model->index, ARRANGE_SLICE);
    return index_is_whole(model->index) && index_refresh(model->index) && take_index(model);
}

bool
model_is_whole(const struct model *model)
{
    return index_is_whole(model->index);
}

void
model_finish(struct model *model)
{
    while (index_build(model->index, SIZE_MAX))
        continue;
    if (index_is_whole(model->index))
        index_refresh(model->index);
    take_index(model);
}

bool
model_refresh(struct model *model)
{
    size_t before = model->seen;
    bool   more = trace_refresh(model->trace), moved = trace_order_version(model->trace) != model->version;
    if (!more && !moved)
        return false;
    model->version = trace_order_version(model->trace);
    return index_refresh(model->index) && take_index(model) && (moved || model->seen > before);
}

struct story *
model_story(struct model *model)
{
    if (model->story == NULL)
        model->story = story_new(model->trace);
    return model->story;
}

void
model_close(struct model *model)
{
    if (model->trace != NULL)
        trace_ask(model->trace, (struct trace_ends){ .partner = NULL });
    index_close(model->index);
    shelf_free(model->shelf);
    free(model->work);
    tensors_free(model->tensors);
    quantities_free(model->quantities);
    stats_free(model->stats);
    story_free(model->story);
    if (model->state != NULL)
        state_free(model->state);
    if (model->past != NULL)
        state_free(model->past);
    diff_free(model->diff);
    if (model->trace != NULL)
        trace_release(model->trace);
    *model = (struct model){ 0 };
}

/* true: there is more to read. Of a large trace the story is read by who walks through it. */
static bool
learn_story(struct model *model, size_t slice)
{
    struct story *story = model->seen <= STORY_LEARNED ? model_story(model) : NULL;
    size_t        seen  = story != NULL ? story_seen(story) : 0;
    size_t        end = seen < model->seen && model->seen - seen > slice ? seen + slice : model->seen;
    return story != NULL && seen < model->seen && story_read(story, end) && story_seen(story) < model->seen;
}

bool
model_learn(struct model *model, size_t slice)
{
    if (model->tensors == NULL)
        model->tensors = tensors_new(model->trace);
    if (model->quantities == NULL)
        model->quantities = quantities_new(model->trace);
    if (model->stats == NULL)
        model->stats = stats_new(model->trace, 0);
    bool stats = model->stats != NULL && stats_grow(model->stats, model->seen, slice);
    bool tensors = model->tensors != NULL && tensors_grow(model->tensors, slice);
    bool story = learn_story(model, slice);
    return (model->quantities != NULL && quantities_grow(model->quantities, slice)) || tensors || stats || story;
}

bool
model_has_learned(const struct model *model)
{
    size_t count = trace_count(model->trace);
    return model->tensors != NULL && tensors_seen(model->tensors) >= count
        && model->quantities != NULL && quantities_seen(model->quantities) >= count
        && model->stats != NULL && !model->stats->starved;
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

int
model_depth(const struct model *model, size_t lane)
{
    return index_depth(model->index, lane);
}

size_t
model_lane_events(const struct model *model, size_t lane)
{
    return index_events(model->index, lane);
}

size_t
model_lane_next(const struct model *model, size_t lane, size_t seq, int direction)
{
    return index_next_on_lane(model->index, lane, seq, direction);
}

bool
model_span_at(const struct model *model, size_t lane, int level, uint64_t time, struct span *out)
{
    return index_span(model->index, lane, level, index_find_span(model->index, lane, level, time), out);
}

bool
model_span(const struct model *model, size_t seq, struct span *out, int *level)
{
    return index_span_of(model->index, seq, out, level);
}

size_t
model_partner(const struct model *model, size_t seq)
{
    return index_partner(model->index, seq);
}

size_t
model_flow_end(const struct model *model, size_t seq)
{
    return index_flow_end(model->index, seq);
}

size_t
model_next_kind(const struct model *model, unsigned kind, size_t seq, int direction)
{
    return index_next_of_kind(model->index, kind, seq, direction);
}

size_t
model_next_wait(const struct model *model, size_t lane, size_t seq, int direction)
{
    return index_next_of_work(model->index, lane, WORK_WAIT, seq, direction);
}

size_t
model_next_iteration(const struct model *model, size_t seq, int direction)
{
    return index_next_iteration(model->index, seq, direction);
}

size_t
model_next_fault(const struct model *model, size_t seq, int direction)
{
    size_t low = 0, high = model->fault_count;
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        if (direction > 0 ? seq != NO_EVENT && model->faults[middle] <= seq : model->faults[middle] < seq)
            low = middle + 1;
        else
            high = middle;
    }
    if (direction < 0 && low-- == 0)
        return NO_EVENT;
    return low < model->fault_count && model->faults[low] < model->seen ? model->faults[low] : NO_EVENT;
}

size_t
model_seq_at(const struct model *model, uint64_t time)
{
    return index_seq_at(model->index, time);
}
