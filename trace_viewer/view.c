/* Where one stands in a trace. Interface in order of use: view_init, view_goto, view_scale for each frame,
 * view_question at questions, view_print_event, view_free. */
#include "view.h"

#include "base/str.h"
#include "cast.h"
#include "columns.h"
#include "trace/match.h"
#include "trace/reader.h"
#include "window.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum {
    RUNNING_UNIT = 1000000, /* 1 us a column: a kernel of the classroom is ten columns wide */
    STEP_SPANS = 1024
};

void
view_init(struct view *view)
{
    *view = (struct view){ .cursor = NO_EVENT, .before = NO_EVENT, .measure = NO_EVENT, .run = RUN_SAVED, .width = 80,
                            .height = 24 };
    view->veil = (struct veil){ .horizon = NO_EVENT, .until = UINT64_MAX, .whole = UINT64_MAX };
    asking_init(&view->asking);
    settings_init(&view->settings);
}

void
view_free(struct view *view)
{
    breaks_free(&view->rules.breaks);
    move_end(&view->move);
    search_free(&view->search);
    prompt_free(&view->prompt);
    binds_free(&view->binds);
    veil_free(&view->veil);
    asking_free(&view->asking);
    arrange_free(&view->arrange);
    free(view->answer);
    free(view->points);
    if (view->events != NULL)
        match_free(view->events);
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

void
view_do(struct view *view, bool typed, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    vsnprintf(view->todo, sizeof view->todo, format, args);
    va_end(args);
    view->todo_typed = typed;
}

struct scale
view_scale(const struct view *view, const struct model *model, int columns)
{
    return window_scale(view, model, columns);
}

bool
view_goto(struct view *view, const struct model *model, size_t seq)
{
    size_t horizon = asking_horizon(&view->asking, model);
    bool   there = horizon == NO_EVENT || seq <= horizon;
    seq = there ? seq : horizon;
    const struct trace_event *event = trace_event(model->trace, seq);
    if (event == NULL || seq >= model->seen)
        return false;
    if (!there)
        view_say(view, "first a question: Enter answers it, Esc puts it off");
    if (view->cursor != NO_EVENT && seq < view->cursor)
        view->arrange.following = false;
    view->cursor = seq;
    view->before = NO_EVENT;
    if (event->lane < model->lane_count)
        view->lane = (int)event->lane;
    align_settle(&view->arrange.align, model, seq);
    window_follow_cursor(view, model);
    return there;
}

/* The longest of the lane's first outermost forwards, and its backward if it follows: a stage that was refused is
 * short. */
static uint64_t
step_length(const struct model *model, size_t lane)
{
    uint64_t longest = 0, begin = 0, length = 0;
    struct span span;
    for (size_t i = 0; i < STEP_SPANS && index_span(model->index, lane, 0, i, &span); i++) {
        uint64_t end = span.end == STILL_OPEN ? span.begin : span.end;
        if (span.work == WORK_FORWARD && end - span.begin > longest) {
            longest = length = end - span.begin;
            begin = span.begin;
        } else if (span.work == WORK_BACKWARD && longest > 0 && length == longest && end - begin < 8 * longest) {
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
        length = step_length(model, i);
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

bool
view_is_predicting(const struct view *view)
{
    return view->predict.open && view->cursor == view->predict.from;
}

void
view_veil(struct view *view, const struct model *model)
{
    veil_update(&view->veil, model, &view->asking, view_is_predicting(view) ? view->cursor : NO_EVENT);
    arrange_settle(view, model);
}

void
view_use(struct view *view, const struct trace *trace)
{
    struct match_names names = match_names_of_trace(trace);
    arrange_use(&view->arrange, &names);
    view->moving &= view->hunt.is == NULL; /* where a hunt had come to is another event now */
    view->hunt.is = NULL;
    breaks_use(&view->rules.breaks, trace);
    if (view->events != NULL)
        match_use(view->events, &names);
}

/* Without memory for it nothing is shown. */
void
view_answer(struct view *view, const char *text)
{
    char *copy = strdup(text);
    if (copy == NULL)
        return;
    free(view->answer);
    view->answer = copy;
    view->chosen = PANE_ANSWER;
    view->panes[PANE_ANSWER].scroll = 0;
}

void
view_print_event(const struct view *view, const struct model *model, struct str *out)
{
    if (view->cursor == NO_EVENT)
        return;
    if (veil_hides(&view->veil, model, view->cursor)) {
        str_addf(out, "%zu ? hidden until you answer: :question comes back to it", view->cursor);
        return;
    }
    size_t before = out->len;
    trace_print_event(model->trace, view->cursor, out);
    bool  masked = view_question(view, model) != NO_EVENT;
    char *answer = masked && str_ok(out) ? strstr(out->text + before, " answer=") : NULL;
    if (answer == NULL)
        return;
    *answer = '\0';
    out->len = (size_t)(answer - out->text);
}

bool
view_is_edited(const struct view *view, size_t seq)
{
    return view->edited.how[0] != '\0' && seq > view->edited.at;
}

size_t
view_question(const struct view *view, const struct model *model)
{
    bool asks = view->cursor != NO_EVENT && asking_is_question(model, view->cursor);
    return asks && asking_is_open(&view->asking, view->cursor) ? view->cursor : NO_EVENT;
}
