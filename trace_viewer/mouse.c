/* Interface: hit_test; mouse_is and mouse_key for keys that are reports of the mouse. */
#include "mouse.h"

#include "answering.h"
#include "base/str.h"
#include "columns.h"
#include "drive.h"
#include "frame.h"
#include "frame_panes.h"
#include "look.h"
#include "measure.h"
#include "place.h"
#include "question.h"
#include "timeline.h"
#include "trace/reader.h"
#include "window.h"

#include <stdio.h>
#include <string.h>

enum { WHEEL_LINES = 3 };

/* ---- what is where ---- */

static bool
is_in(const struct box *box, int column, int row)
{
    return row >= box->row && row < box->row + box->height && column >= box->column &&
           column < box->column + box->width;
}

static int
rank_of_lane(const struct model *model, int lane)
{
    return lane < 0 ? -1 : trace_lane_at(model->trace, (size_t)lane)->rank;
}

static void
hit_timeline(const struct model *model, const struct view *view, const struct box *box, int column, int row,
             struct hit *hit)
{
    int         gutter = columns_of_names(box->width), at = column - box->column - gutter;
    struct axis axis;
    window_axis(model, view, box->width - gutter, &axis);
    hit->kind  = HIT_LANE;
    hit->lane  = timeline_lane_at(model, view, box->height, row - box->row);
    hit->timed = at >= 0;
    uint64_t shift = align_shift(&view->arrange.align, rank_of_lane(model, hit->lane));
    hit->from  = axis_time(&axis, at > 0 ? at : 0);
    hit->to    = axis_time(&axis, (at > 0 ? at : 0) + 1);
    hit->from -= hit->from > shift ? shift : hit->from; /* where the rank's own clock stands there */
    hit->to   -= hit->to > shift ? shift : hit->to;
}

static void
hit_minimap(const struct model *model, const struct box *box, int column, struct hit *hit)
{
    int gutter = columns_of_names(box->width), columns = box->width - gutter, at = column - box->column - gutter;
    if (columns <= 0 || at < 0)
        return;
    struct scale whole = { .unit = scale_unit_for(model->end, columns), .columns = columns };
    hit->kind = HIT_MINIMAP;
    hit->from = scale_time(&whole, at);
    hit->to   = scale_time(&whole, at + 1);
}

/* The choice whose letter stands at or before the cell, "b) 3", as it was drawn; -1 none. */
static int
choice_at(const struct model *model, const struct view *view, const struct box *box, int column, int row)
{
    const struct capabilities capabilities = { .utf8 = true };
    struct canvas canvas;
    int           choice = -1, count = question_choices(model, view_question(view, model));
    if (count == 0 || !canvas_init(&canvas, view->width, view->height))
        return -1;
    frame_draw(model, view, &canvas, &capabilities);
    for (int at = column; at > box->column && choice < 0; at--) {
        const struct cell *letter = canvas_at(&canvas, row, at), *next = canvas_at(&canvas, row, at + 1);
        const struct cell *before = canvas_at(&canvas, row, at - 1);
        bool begins = letter != NULL && next != NULL && next->code == ')' && before != NULL &&
                      strchr(" [(|", (int)(before->code < 128 ? before->code : ' ')) != NULL;
        if (begins && letter->code >= 'a' && letter->code < (uint32_t)('a' + count))
            choice = (int)(letter->code - 'a');
    }
    canvas_free(&canvas);
    return choice;
}

static void
hit_slot(const struct scene *scene, const struct layout *layout, const struct slot *slot, int column, int row,
         struct hit *hit)
{
    const struct view *view = scene->view;
    hit->pane = slot->pane;
    if (row == slot->box.row) {
        hit->pane = panes_tab_at(scene, layout, slot, column - slot->box.column);
        hit->kind = hit->pane == slot->pane ? HIT_TITLE : HIT_TAB;
        return;
    }
    hit->choice = slot->pane == PANE_LESSON && view_question(view, scene->model) != NO_EVENT
                      ? choice_at(scene->model, view, &slot->box, column, row) : -1;
    hit->kind = hit->choice >= 0 ? HIT_CHOICE : HIT_PANE;
    hit->row  = row - slot->box.row - 1 + view->panes[slot->pane].scroll;
}

static void
hit_footer(const struct model *model, const struct view *view, int column, struct hit *hit)
{
    struct key_hint hints[HINTS];
    int             count = keys_hints(model, view, view->width, hints);
    for (int i = 0; i < count; i++) /* "a-c" are several */
        if (column >= hints[i].column && column < hints[i].column + hints[i].width && hints[i].key[1] != '-') {
            hit->kind = HIT_KEY;
            memcpy(hit->key, hints[i].key, sizeof hit->key);
        }
}

struct hit
hit_test(const struct model *model, const struct view *view, int column, int row)
{
    const struct scene scene  = { model, view, NULL };
    struct layout      layout = layout_of(&scene, view->width, view->height);
    struct hit         hit    = { .kind = HIT_NOTHING, .lane = -1, .choice = -1 };
    if (column < 0 || row < 0 || column >= view->width || row >= view->height)
        return hit;
    if ((layout.keys.height > 0 && row == layout.keys.row) || (view->help && row == view->height - 1)) {
        hit_footer(model, view, column, &hit);
        return hit;
    }
    if (view->help)
        return hit;
    if (is_in(&layout.minimap, column, row))
        hit_minimap(model, &layout.minimap, column, &hit);
    else if (is_in(&layout.timeline, column, row))
        hit_timeline(model, view, &layout.timeline, column, row, &hit);
    for (int i = 0; i < layout.slot_count; i++)
        if (is_in(&layout.slots[i].box, column, row))
            hit_slot(&scene, &layout, &layout.slots[i], column, row, &hit);
    return hit;
}

/* ---- what it does ---- */

/* The lane's event that the cell shows: the nearest in it, else the innermost stage that covers it, else the
 * nearest. */
static size_t
event_at(const struct model *model, const struct view *view, const struct hit *hit)
{
    size_t lane = (size_t)hit->lane, at = place_of_time(model, hit->from);
    size_t before = at > 0 ? model_lane_next(model, lane, at, -1) : NO_EVENT;
    size_t here = model_lane_next(model, lane, at > 0 ? at - 1 : NO_EVENT, 1);
    if (here != NO_EVENT && trace_time(model->trace, here) < hit->to && !veil_hides(&view->veil, model, here))
        return here;
    for (int level = model_depth(model, lane) - 1; level >= 0; level--) {
        struct span span;
        bool covers = model_span_at(model, lane, level, hit->from, &span) && span.begin <= hit->from &&
                      span.end >= hit->to;
        if (covers && !veil_hides(&view->veil, model, span.seq))
            return span.seq;
    }
    bool   nearer = before != NO_EVENT && here != NO_EVENT &&
                  hit->from - trace_time(model->trace, before) < trace_time(model->trace, here) - hit->from;
    if (here == NO_EVENT || nearer)
        here = before;
    return here != NO_EVENT && !veil_hides(&view->veil, model, here) ? here : NO_EVENT;
}

/* A measure snaps to the edges of stages that are at most a cell away. */
static size_t
edge_at(const struct model *model, const struct view *view, const struct hit *hit)
{
    size_t seq = measure_edge(model, hit->lane, hit->from, 2 * (hit->to - hit->from));
    return seq != NO_EVENT && !veil_hides(&view->veil, model, seq) ? seq : event_at(model, view, hit);
}

/* One stands there, and the window stays: what was clicked is on the screen. */
static void
select_event(struct driver *driver, size_t seq, int lane)
{
    struct view *view = driver->view;
    int64_t      left = view->left;
    if (seq != NO_EVENT && driver->model->seen > 0) {
        view_goto(view, driver->model, seq);
        view->left = left;
        str_addf(&view->done, "goto %zu\n", seq);
    }
    view->lane  = lane;
    view->focus = PANE_TIMELINE;
}

static bool
is_on_lane(const struct driver *driver, const struct hit *hit)
{
    return hit->kind == HIT_LANE && hit->lane >= 0 && (size_t)hit->lane < driver->model->lane_count;
}

static void
jump_to_time(struct driver *driver, const struct hit *hit)
{
    struct view *view = driver->view;
    size_t       seq  = place_of_time(driver->model, hit->from);
    if (seq >= driver->model->seen && seq > 0)
        seq = driver->model->seen - 1;
    while (seq > 0 && veil_hides(&view->veil, driver->model, seq))
        seq--;
    if (seq >= driver->model->seen)
        return;
    marks_leave(&view->marks, view->cursor);
    view_goto(view, driver->model, seq);
}

static void
give_keys(struct view *view, enum pane pane, bool open)
{
    view->focus = pane;
    if (open)
        view->chosen = pane;
}

static void
click(struct driver *driver, const struct hit *hit, bool twice)
{
    struct view *view = driver->view;
    size_t       seq = NO_EVENT;
    switch (hit->kind) {
    case HIT_NOTHING: break;
    case HIT_LANE:
        if (!is_on_lane(driver, hit))
            break;
        if (hit->timed)
            seq = event_at(driver->model, view, hit);
        select_event(driver, seq, hit->lane);
        if (twice && seq != NO_EVENT)
            drive_line(driver, "into");
        break;
    case HIT_MINIMAP: jump_to_time(driver, hit); break;
    case HIT_TITLE:   give_keys(view, hit->pane, false); break;
    case HIT_TAB:     give_keys(view, hit->pane, true); break;
    case HIT_PANE:
        give_keys(view, hit->pane, false);
        if (pane_has_choices(hit->pane)) {
            int rows = pane_choices(&(struct scene){ driver->model, view, NULL }, hit->pane);
            view->panes[hit->pane].line = hit->row < rows ? hit->row : rows > 0 ? rows - 1 : 0;
            if (twice)
                drive_line(driver, "into");
        }
        break;
    case HIT_CHOICE: answering_give(view, driver->model, view_question(view, driver->model), hit->choice); break;
    case HIT_KEY:    break;
    }
}

static void
drag(struct driver *driver, const struct hit *from, const struct hit *to)
{
    struct view *view = driver->view;
    if (to->kind == HIT_MINIMAP) {
        jump_to_time(driver, to);
        return;
    }
    if (!is_on_lane(driver, from) || to->kind != HIT_LANE || !from->timed || !to->timed)
        return;
    struct hit end = *to;
    end.lane = from->lane;
    size_t a = edge_at(driver->model, view, from), b = edge_at(driver->model, view, &end);
    if (a == NO_EVENT || b == NO_EVENT)
        return;
    view->measure = a;
    select_event(driver, b, from->lane);
}

/* What was under the pointer stays under it. */
static void
zoom_at(struct driver *driver, const struct hit *hit, bool in)
{
    struct view *view = driver->view;
    struct axis axis;
    uint64_t    shown = hit->from + align_shift(&view->arrange.align, rank_of_lane(driver->model, hit->lane));
    window_axis(driver->model, view, columns_of_time(view->width), &axis);
    int column = axis_column(&axis, shown);
    drive_line(driver, in ? "zoom-in" : "zoom-out");
    if (view->unit == 0)
        return;
    window_place(view, driver->model, shown, column);
}

static void
wheel(struct driver *driver, const struct hit *hit, const char *held, bool up)
{
    struct view *view = driver->view;
    bool         pane = hit->kind == HIT_PANE || hit->kind == HIT_TITLE || hit->kind == HIT_TAB ||
                        hit->kind == HIT_CHOICE;
    if (strcmp(held, "Ctrl") == 0) {
        if (hit->kind == HIT_LANE && hit->timed)
            zoom_at(driver, hit, up);
        return;
    }
    if (strcmp(held, "Shift") == 0) {
        drive_line(driver, up ? "pan-left" : "pan-right");
        return;
    }
    enum pane focus = view->focus;
    view->focus = pane ? hit->pane : PANE_TIMELINE;
    for (int i = 0; i < (pane || view->help ? WHEEL_LINES : 1); i++)
        look(driver->model, view, &(struct command_line){ .command = up ? CMD_lane_up : CMD_lane_down, .count = 1 });
    view->focus = focus;
}

/* ---- reports ---- */

struct report { char what[16], held[8]; int x, y, to_x, to_y; bool up; };

/* "CtrlWheelUp 12,5", "Drag 1,2 3,4". */
static bool
read_report(const char *key, struct report *out)
{
    char word[24];
    *out = (struct report){ .x = 0 };
    int count = sscanf(key, "%23s %4d,%4d %4d,%4d", word, &out->x, &out->y, &out->to_x, &out->to_y);
    if (count < 3)
        return false;
    const char *wheel = strstr(word, "Wheel");
    if (wheel != NULL) {
        snprintf(out->held, sizeof out->held, "%.*s", (int)(wheel - word), word);
        out->up = strcmp(wheel, "WheelUp") == 0;
        snprintf(out->what, sizeof out->what, "Wheel");
        return out->up || strcmp(wheel, "WheelDown") == 0;
    }
    snprintf(out->what, sizeof out->what, "%.15s", word);
    return strcmp(word, "Click") == 0 || strcmp(word, "DoubleClick") == 0 || (strcmp(word, "Drag") == 0 && count == 5);
}

bool
mouse_is(const char *key)
{
    struct report report;
    return read_report(key, &report);
}

bool
mouse_key(struct driver *driver, const char *key, char pressed[KEY_NAME])
{
    struct view  *view = driver->view;
    struct report report;
    if (!read_report(key, &report) || view->settings.of[SETTING_mouse] == MOUSE_OFF || prompt_is_open(&view->prompt))
        return false;
    view_veil(view, driver->model);
    struct hit hit = hit_test(driver->model, view, report.x - 1, report.y - 1);
    if (hit.kind == HIT_KEY && strcmp(report.what, "Click") == 0) {
        memcpy(pressed, hit.key, KEY_NAME);
        return true;
    }
    if (strcmp(report.what, "Wheel") == 0) {
        wheel(driver, &hit, report.held, report.up);
    } else if (strcmp(report.what, "Drag") == 0) {
        struct hit to = hit_test(driver->model, view, report.to_x - 1, report.to_y - 1);
        drag(driver, &hit, &to);
    } else {
        click(driver, &hit, strcmp(report.what, "DoubleClick") == 0);
    }
    look_settle(view, driver->model);
    return false;
}
