/* Looking around: lanes, zoom, panes, search, flows, questions. Interface: look, with a parsed command. */
#include "look.h"

#include "base/str.h"
#include "base/vec.h"
#include "columns.h"
#include "keys.h"
#include "layout.h"
#include "panes.h"
#include "question.h"
#include "trace/match.h"
#include "trace/reader.h"

#include <stdlib.h>
#include <string.h>

/* From "all" to a zoom that can be changed. */
static void
fix_zoom(struct view *view, const struct model *model)
{
    if (view->unit != 0)
        return;
    struct scale scale = view_scale(view, model, columns_of_time(view->width));
    view->unit = scale.unit;
    view->left = scale.left;
}

/* The cursor keeps its column. */
static void
zoom(struct view *view, const struct model *model, bool in)
{
    fix_zoom(view, model);
    int columns = columns_of_time(view->width);
    uint64_t time = view->cursor != NO_EVENT ? trace_time(model->trace, view->cursor) : 0;
    int64_t column = (int64_t)(time / view->unit) - view->left;
    if (column < 0 || column >= columns)
        column = columns / 2;
    view->unit = in ? scale_finer(view->unit) : scale_coarser(view->unit);
    view->left = (int64_t)(time / view->unit) - column;
    if (view->left < 0)
        view->left = 0;
}

static void
pan(struct view *view, const struct model *model, int direction)
{
    fix_zoom(view, model);
    int64_t last = (int64_t)(model->end / view->unit);
    int64_t columns = columns_of_time(view->width), left = view->left + direction * (columns / 4 > 0 ? columns / 4 : 1);
    view->left = left > last ? last : left < 0 ? 0 : left;
}

static void
zoom_into(struct view *view, struct model *model)
{
    if (view->cursor == NO_EVENT)
        return;
    size_t partner = trace_partner(model->trace, view->cursor);
    uint64_t a = trace_time(model->trace, view->cursor);
    uint64_t b = partner == SIZE_MAX ? a : trace_time(model->trace, partner);
    uint64_t from = a < b ? a : b, length = a < b ? b - a : a - b;
    if (length == 0) { /* a mark, or a stage that costs no time */
        zoom(view, model, true);
        return;
    }
    int columns = columns_of_time(view->width);
    view->unit = scale_unit_for(length + length / 8, columns);
    view->left = (int64_t)(from / view->unit) - (columns - (int64_t)(length / view->unit)) / 2;
    if (view->left < 0)
        view->left = 0;
}

/* What is not found may be there, and wait for an answer. */
static const char *
or_hidden(const struct view *view)
{
    return view->veil.draws ? "; some are hidden until you answer" : "";
}

static void
along_lane(struct view *view, struct model *model, int direction)
{
    if (view->lane < 0 || (size_t)view->lane >= model->lane_count || view->cursor == NO_EVENT)
        return;
    const struct lane *lane = &model->lanes[view->lane];
    size_t at = lane_find(lane, direction > 0 ? view->cursor + 1 : view->cursor);
    while (direction > 0 && at < lane->event_count && veil_hides(&view->veil, model, lane->events[at]))
        at++;
    if (direction < 0 && at-- == 0)
        view_say(view, "the first event of this lane");
    else if (at >= lane->event_count)
        view_say(view, "the last event of this lane%s", or_hidden(view));
    else
        view_goto(view, model, lane->events[at]);
}

/* The next (or last) event for which `is` holds. */
static void
hunt(struct view *view, struct model *model, int direction,
     bool (*is)(const struct view *view, const struct model *model, size_t seq), const char *what)
{
    if (view->cursor == NO_EVENT)
        return;
    for (size_t seq = view->cursor; direction > 0 ? seq + 1 < model->seen : seq > 0;) {
        seq = direction > 0 ? seq + 1 : seq - 1;
        if (is(view, model, seq) && !veil_hides(&view->veil, model, seq)) {
            view_goto(view, model, seq);
            return;
        }
    }
    view_say(view, "no %s %s%s", direction > 0 ? "further" : "earlier", what, direction > 0 ? or_hidden(view) : "");
}

static bool
is_same_kind(const struct view *view, const struct model *model, size_t seq)
{
    const struct trace_event *here = trace_event(model->trace, view->cursor), *there = trace_event(model->trace, seq);
    return there->kind == here->kind && there->phase != PHASE_END;
}

static bool
is_wait(const struct view *view, const struct model *model, size_t seq)
{
    const struct trace_event *event = trace_event(model->trace, seq);
    return (int)event->lane == view->lane && event->phase == PHASE_BEGIN && model_work(model, seq) == WORK_WAIT;
}

static bool
is_next_iteration(const struct view *view, const struct model *model, size_t seq)
{
    return trace_event(model->trace, seq)->iteration > trace_event(model->trace, view->cursor)->iteration;
}

/* Backwards: the first event of an iteration, this one's if one does not stand at it. */
static bool
is_iteration_start(const struct view *view, const struct model *model, size_t seq)
{
    (void)view;
    return seq == 0 || trace_event(model->trace, seq)->iteration > trace_event(model->trace, seq - 1)->iteration;
}

static bool
is_fault(const struct view *view, const struct model *model, size_t seq)
{
    (void)view;
    size_t low = 0, high = model->fault_count;
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        if (model->faults[middle] < seq)
            low = middle + 1;
        else
            high = middle;
    }
    return low < model->fault_count && model->faults[low] == seq;
}

static bool
is_match(const struct view *view, const struct model *model, size_t seq)
{
    return match_event(view->search, trace_event(model->trace, seq), seq, trace_time(model->trace, seq));
}

static void
go_match(struct view *view, struct model *model, int direction)
{
    if (view->search == NULL) {
        view_say(view, "nothing was searched for; / does");
        return;
    }
    hunt(view, model, direction, is_match, "match");
    size_t place = 0;
    view->search_count = 0;
    for (size_t seq = 0; seq < model->seen; seq++) {
        bool match = is_match(view, model, seq) && !veil_hides(&view->veil, model, seq);
        view->search_count += match;
        place += match && seq <= view->cursor;
    }
    view_say(view, "/%.200s  %zu/%zu%s", match_text(view->search), place, view->search_count, or_hidden(view));
}

static void
search_for(struct view *view, struct model *model, const char *expression)
{
    struct match_names names = match_names_of_trace(model->trace);
    char why[256];
    struct match *match = match_compile(expression, &names, why, sizeof why);
    if (match == NULL) {
        view_say(view, "%s", why);
        return;
    }
    if (view->search != NULL)
        match_free(view->search);
    view->search = match;
    view->searching = true;
    go_match(view, model, 1);
}

static void
follow_flow(struct view *view, struct model *model)
{
    if (view->cursor == NO_EVENT)
        return;
    size_t other = trace_flow_end(model->trace, view->cursor);
    size_t partner = other == SIZE_MAX ? trace_partner(model->trace, view->cursor) : SIZE_MAX;
    if (partner != SIZE_MAX)
        other = trace_flow_end(model->trace, partner);
    if (other != SIZE_MAX && veil_hides(&view->veil, model, other))
        view_say(view, "its other end is hidden until you answer");
    else if (other == SIZE_MAX)
        view_say(view, "no flow leaves or reaches this event%s",
                 view->run == RUN_PAUSED ? ", or its other end is still to come" : "");
    else
        view_goto(view, model, other);
}

static int
bounded(int value, int low, int high)
{
    return value > high ? high < low ? low : high : value < low ? low : value;
}

/* How many rows the list of keys has to itself. */
static int
help_rows(const struct view *view)
{
    return view->height > 2 ? view->height - 2 : 1;
}

/* The pane whose lines the keys move: the source may be a page of the inspector. */
static enum pane
scrolled_pane(const struct view *view, const struct layout *layout)
{
    bool source = view->focus == PANE_INSPECTOR && view->page == PAGE_SOURCE && !layout->source_apart;
    return source ? PANE_SOURCE : view->focus;
}

static int
rows_of_pane(const struct layout *layout, enum pane pane)
{
    const struct box *box = pane == PANE_LESSON ? &layout->lesson : pane == PANE_INSPECTOR ? &layout->inspector
                            : layout->source.height > 0 ? &layout->source : &layout->inspector;
    return box->height > 2 ? box->height - 1 : 1;
}

/* In the timeline lanes, in a pane its lines, in the help its lines; by one, or by as many as are on the screen. */
static void
up_or_down(struct view *view, const struct model *model, int direction, bool page)
{
    struct layout layout = layout_of(model, view, view->width, view->height);
    if (view->help) {
        int *line = &view->scroll[PANE_TIMELINE], rows = help_rows(view);
        *line = bounded(*line + direction * (page ? rows : 1), 0, keys_help_lines(view->width) - rows);
    } else if (view->focus != PANE_TIMELINE) {
        enum pane pane = scrolled_pane(view, &layout);
        int way = pane == PANE_LESSON ? -direction : direction; /* its newest words are at its foot */
        int by = page ? rows_of_pane(&layout, pane) : 1;
        view->scroll[pane] = bounded(view->scroll[pane] + way * by, 0, 100000);
    } else {
        int by = page && layout.timeline.height > 2 ? layout.timeline.height - 1 : 1;
        view->lane = bounded(view->lane + direction * by, 0, (int)model->lane_count - 1);
    }
}

/* The first or last event; in the help its first or last lines. */
static void
go_end(struct view *view, const struct model *model, bool last)
{
    if (view->help)
        view->scroll[PANE_TIMELINE] = last ? bounded(keys_help_lines(view->width) - help_rows(view), 0, 100000) : 0;
    else
        view_goto(view, model, last && model->seen > 0 ? model->seen - 1 : 0);
}

static void
go_rank(struct view *view, struct model *model, const struct command_line *line)
{
    int count = (int)model->lane_count;
    int here = count > 0 ? trace_lane_at(model->trace, (size_t)view->lane)->rank : -1;
    for (int i = 1; i <= count; i++) {
        int lane = line->has_count ? i - 1 : (view->lane + i) % count;
        int rank = trace_lane_at(model->trace, (size_t)lane)->rank;
        if (line->has_count ? rank == line->count : rank != here && rank >= 0) {
            view->lane = lane;
            return;
        }
    }
    view_say(view, line->has_count ? "no lane of rank %lld" : "there is no other rank", (long long)line->count);
}

static bool
is_on_screen(const struct layout *layout, enum pane pane)
{
    switch (pane) {
    case PANE_LESSON: return layout->lesson.height > 0;
    case PANE_SOURCE: return layout->source.height > 0;
    case PANE_INSPECTOR: return layout->inspector.height > 0;
    default: return true;
    }
}

/* The next pane of those on the screen, or the one before. */
static void
turn_pane(struct view *view, const struct model *model, int direction)
{
    struct view parts = *view;
    parts.full = false;
    struct layout layout = layout_of(model, &parts, view->width, view->height);
    do
        view->focus = (enum pane)(((int)view->focus + direction + PANE_COUNT) % PANE_COUNT);
    while (!is_on_screen(&layout, view->focus));
}

static void
give_pane(struct view *view, const struct model *model, const char *name)
{
    static const char *const names[PANE_COUNT] = { "timeline", "lesson", "source", "inspector" };
    struct layout layout = layout_of(model, view, view->width, view->height);
    if (name[0] == '\0') {
        turn_pane(view, model, 1);
        return;
    }
    for (int i = 0; i < PANE_COUNT; i++)
        if (strncmp(names[i], name, strlen(name)) == 0 && (i != PANE_SOURCE || layout.source_apart)) {
            view->focus = (enum pane)i;
            return;
        }
    for (int i = 0; i < PAGE_COUNT; i++)
        if (strncasecmp(page_name((enum page)i), name, strlen(name)) == 0) {
            view->page = (enum page)i;
            view->focus = PANE_INSPECTOR;
            return;
        }
    view_say(view, "no pane is called %.40s; timeline, lesson, source, inspector or one of its pages", name);
}

static void
next_page(struct view *view, const struct model *model)
{
    struct layout layout = layout_of(model, view, view->width, view->height);
    int page = view->page;
    if (layout.source_apart && page == PAGE_SOURCE)
        page = PAGE_EVENT;
    page = (page + 1) % (view->answer != NULL ? PAGE_COUNT : PAGE_ANSWER);
    view->page = layout.source_apart && page == PAGE_SOURCE ? PAGE_EVENT : (enum page)page;
    view->scroll[PANE_INSPECTOR] = 0;
}

static void
toggle_measure(struct view *view)
{
    view->measure = view->measure == NO_EVENT ? view->cursor : NO_EVENT;
}

static void
enter(struct view *view, struct model *model)
{
    size_t question = view_question(view, model);
    if (question == NO_EVENT) {
        zoom_into(view, model);
        return;
    }
    view_reveal(view, question, -1);
    view_say(view, "-> %.200s  %.300s", model_argument_text(model, question, "answer"),
             model_argument_text(model, question, "why"));
}

void
look_answer(struct view *view, const struct model *model, size_t question, int choice)
{
    struct question_choice given;
    question_choice(model, question, choice, &given);
    const char *answer = model_argument_text(model, question, "answer");
    view_reveal(view, question, choice);
    if (given.wrong.length > 0) /* why comes behind it, in the lesson's pane */
        view_say(view, "no, it is %.200s  %.*s", answer, (int)given.wrong.length, given.wrong.text);
    else
        view_say(view, "%s%.200s  %.300s", question_is_answer(model, question, given.text) ? "yes: " : "no, it is ",
                 answer, model_argument_text(model, question, "why"));
}

static void
say_where(struct view *view, const struct model *model)
{
    struct str text = { 0 };
    view_print_event(view, model, &text);
    view_say(view, "%s", str_text(&text));
    str_free(&text);
}

/* info: memory, buckets, tasks and locks are pages of the inspector. */
static void
show_info_page(struct view *view, const char *what)
{
    view->page = what[0] == 'm' ? PAGE_MEMORY : strncmp(what, "bu", 2) == 0 ? PAGE_BUCKETS : PAGE_TASKS;
    if (view->focus == PANE_INSPECTOR)
        view->scroll[PANE_INSPECTOR] = 0;
}

static bool
close_or_leave(struct view *view)
{
    bool open = view->help || view->full;
    if (view->help)
        view->help = false;
    else
        view->full = false;
    return open;
}

bool
look(struct model *model, struct view *view, const struct command_line *line)
{
    switch (line->command) {
    case CMD_help:        view->help = !view->help; view->scroll[PANE_TIMELINE] = 0; break;
    case CMD_quit:        return close_or_leave(view);
    case CMD_pane:        give_pane(view, model, line->rest); break;
    case CMD_rpane:       turn_pane(view, model, -1); break;
    case CMD_lane_up:     up_or_down(view, model, -1, false); break;
    case CMD_lane_down:   up_or_down(view, model, 1, false); break;
    case CMD_page_up:     up_or_down(view, model, -1, true); break;
    case CMD_page_down:   up_or_down(view, model, 1, true); break;
    case CMD_event_left:  along_lane(view, model, -1); break;
    case CMD_event_right: along_lane(view, model, 1); break;
    case CMD_flow:        follow_flow(view, model); break;
    case CMD_rank:        go_rank(view, model, line); break;
    case CMD_iteration:   hunt(view, model, 1, is_next_iteration, "iteration"); break;
    case CMD_riteration:  hunt(view, model, -1, is_iteration_start, "iteration"); break;
    case CMD_wait:        hunt(view, model, 1, is_wait, "wait on this lane"); break;
    case CMD_rwait:       hunt(view, model, -1, is_wait, "wait on this lane"); break;
    case CMD_fault:       hunt(view, model, 1, is_fault, "fault or failed check"); break;
    case CMD_rfault:      hunt(view, model, -1, is_fault, "fault or failed check"); break;
    case CMD_first:       go_end(view, model, false); break;
    case CMD_last:        go_end(view, model, true); break;
    case CMD_zoom_in:     zoom(view, model, true); break;
    case CMD_zoom_out:    zoom(view, model, false); break;
    case CMD_pan_left:    pan(view, model, -1); break;
    case CMD_pan_right:   pan(view, model, 1); break;
    case CMD_fit:         view->unit = 0; view->left = 0; view->all = true; break;
    case CMD_into:        enter(view, model); break;
    case CMD_inspect:     next_page(view, model); break;
    case CMD_measure:     toggle_measure(view); break;
    case CMD_full:        view->full = !view->full; break;
    case CMD_search:      search_for(view, model, line->rest); break;
    case CMD_match:       go_match(view, model, 1); break;
    case CMD_rmatch:      go_match(view, model, -1); break;
    case CMD_same:        hunt(view, model, 1, is_same_kind, "event of this kind"); break;
    case CMD_where:       say_where(view, model); break;
    case CMD_info:        show_info_page(view, line->rest); break;
    default:              break;
    }
    return true;
}
