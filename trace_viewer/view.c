/* Where one stands in a trace. Interface in order of use: view_init, view_goto, view_scale for each frame,
 * view_question and view_reveal at questions, view_print_event, view_free. */
#include "view.h"

#include "base/str.h"
#include "cast.h"
#include "columns.h"
#include "trace/match.h"
#include "trace/reader.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { RUNNING_UNIT = 1000000 }; /* 1 us a column: a kernel of the classroom is ten columns wide */

void
view_init(struct view *view)
{
    *view = (struct view){ .cursor = NO_EVENT, .before = NO_EVENT, .measure = NO_EVENT, .run = RUN_SAVED, .width = 80,
                            .height = 24 };
}

void
view_free(struct view *view)
{
    breaks_free(&view->rules.breaks);
    move_end(&view->move);
    if (view->search != NULL)
        match_free(view->search);
    veil_free(&view->veil);
    free(view->answer);
    cast_close(view->cast);
    str_free(&view->done);
    view_init(view);
}

void
view_say(struct view *view, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    vsnprintf(view->message, sizeof view->message, format, args);
    va_end(args);
}

struct scale
view_scale(const struct view *view, const struct model *model, int columns)
{
    if (view->unit == 0)
        return (struct scale){ scale_unit_for(model->end, columns), 0, columns };
    return (struct scale){ view->unit, view->left, columns };
}

void
view_goto(struct view *view, const struct model *model, size_t seq)
{
    const struct trace_event *event = trace_event(model->trace, seq);
    if (event == NULL || seq >= model->seen)
        return;
    view->cursor = seq;
    view->before = NO_EVENT;
    if (event->lane < model->lane_count)
        view->lane = (int)event->lane;
    if (view->unit == 0)
        return;
    int columns = columns_of_time(view->width);
    int64_t column = (int64_t)(trace_time(model->trace, seq) / view->unit), margin = columns / 5;
    if (column < view->left + margin || column >= view->left + columns - margin)
        view->left = column - (column < view->left + margin ? margin : columns - margin - 1);
    if (view->left < 0)
        view->left = 0;
}

/* The longest outermost forward of a lane, and its backward if it follows: a stage that was refused is short. */
static uint64_t
step_length(const struct level *level)
{
    uint64_t longest = 0, begin = 0, length = 0;
    for (size_t i = 0; i < level->count; i++) {
        const struct span *span = &level->spans[i];
        uint64_t end = span->end == STILL_OPEN ? span->begin : span->end;
        if (span->work == WORK_FORWARD && end - span->begin > longest) {
            longest = length = end - span->begin;
            begin = span->begin;
        } else if (span->work == WORK_BACKWARD && longest > 0 && length == longest && end - begin < 8 * longest) {
            length = end - begin;
        }
    }
    return length;
}

void
view_zoom_to_step(struct view *view, const struct model *model)
{
    uint64_t length = 0;
    for (size_t i = 0; i < model->lane_count && length == 0; i++)
        length = step_length(&model->lanes[i].levels[0]);
    int columns = columns_of_time(view->width);
    view->unit = length > 0 ? scale_unit_for(length + length / 8, columns) : 0;
    if (length == 0 || scale_unit_for(model->end, columns) <= view->unit)
        view->unit = 0;
    view->left = 0;
}

void
view_zoom_running(struct view *view, const struct model *model)
{
    if (view->unit == 0 && !view->all && scale_unit_for(model->end, columns_of_time(view->width)) > RUNNING_UNIT)
        view->unit = RUNNING_UNIT;
}

static int
find_revealed(const struct view *view, size_t seq)
{
    for (int i = 0; i < view->revealed_count; i++)
        if (view->revealed[i] == seq)
            return i;
    return -1;
}

bool
view_is_revealed(const struct view *view, size_t seq)
{
    return find_revealed(view, seq) >= 0;
}

int
view_given(const struct view *view, size_t seq)
{
    int found = find_revealed(view, seq);
    return found >= 0 ? view->given[found] : -1;
}

void
view_reveal(struct view *view, size_t seq, int given)
{
    if (view_is_revealed(view, seq))
        return;
    if (view->revealed_count == REVEALED) /* the oldest is masked again */
        view->revealed_count = 0;
    view->given[view->revealed_count]      = (int8_t)given;
    view->revealed[view->revealed_count++] = (uint32_t)seq;
}

void
view_veil(struct view *view, const struct model *model)
{
    veil_update(&view->veil, model, &(struct veil_place){ view->cursor, view->revealed, view->revealed_count });
}

void
view_use(struct view *view, const struct trace *trace)
{
    struct match_names names = match_names_of_trace(trace);
    view->moving &= view->hunt.is == NULL; /* where a hunt had come to is another event now */
    view->hunt.is = NULL;
    breaks_use(&view->rules.breaks, trace);
    if (view->search != NULL)
        match_use(view->search, &names);
}

void
view_print_event(const struct view *view, const struct model *model, struct str *out)
{
    if (view->cursor == NO_EVENT)
        return;
    size_t before = out->len;
    trace_print_event(model->trace, view->cursor, out);
    bool  masked = view_question(view, model) != NO_EVENT;
    char *answer = masked && str_ok(out) ? strstr(out->text + before, " answer=") : NULL;
    if (answer == NULL)
        return;
    *answer = '\0';
    out->len = (size_t)(answer - out->text);
}

size_t
view_question(const struct view *view, const struct model *model)
{
    if (view->cursor != NO_EVENT && model_is_lesson(model, view->cursor, "ask") &&
        !view_is_revealed(view, view->cursor))
        return view->cursor;
    return NO_EVENT;
}
