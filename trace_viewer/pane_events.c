/* The events around the cursor, in the order of the trace: number, time, rank, what it is, further in the deeper it is.
 * Those that `step` stops at, or all, or those for which a predicate holds (:events EXPR). The arrows choose one, Enter
 * goes there. A frame looks at some thousand events at most, however long the trace is. */
#include "panes.h"

#include "page.h"
#include "analysis/moves.h"
#include "base/vec.h"
#include "trace/match.h"
#include "trace/reader.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { LOOKED_AT = 20000, LISTED = 200, DEPTH = 8 };
enum { ALL = 1 };   /* bit of the pane's choice: what step passes over is listed, too */

/* Events in order, `at` the place of the cursor among them. */
struct listing { size_t events[2 * LISTED + 1]; int count, at; bool cut_before, cut_behind; };

static bool
is_listed(const struct scene *scene, size_t seq)
{
    const struct model       *model = scene->model;
    const struct view        *view  = scene->view;
    const struct trace_event *event = trace_event(model->trace, seq);
    if (veil_hides(&view->veil, model, seq))
        return false;
    if (view->events != NULL)
        return match_event(view->events, event, seq, trace_time(model->trace, seq));
    return (view->panes[PANE_EVENTS].element & ALL) != 0 || move_shows(model->trace, &view->rules, seq);
}

/* Up to `most` of them from the cursor on, without it; false: the way was too long to look at all of it. */
static bool
list_one_way(const struct scene *scene, int direction, int most, size_t *out, int *count)
{
    size_t seq = scene->view->cursor;
    for (int looked = 0; looked < LOOKED_AT; looked++) {
        if (*count == most || (direction < 0 ? seq == 0 : seq + 1 >= scene->model->seen))
            return true;
        seq = direction < 0 ? seq - 1 : seq + 1;
        if (is_listed(scene, seq))
            out[(*count)++] = seq;
    }
    return false;
}

static void
list_around(const struct scene *scene, int before, int behind, struct listing *list)
{
    size_t back[LISTED];
    int    backwards = 0, forwards = 0;
    before = before < LISTED ? before : LISTED;
    behind = behind < LISTED ? behind : LISTED;
    list->cut_before = !list_one_way(scene, -1, before, back, &backwards);
    for (int i = 0; i < backwards; i++)
        list->events[i] = back[backwards - 1 - i];
    list->at = backwards;
    list->events[backwards] = scene->view->cursor;
    list->cut_behind = !list_one_way(scene, 1, behind, list->events + backwards + 1, &forwards);
    list->count = backwards + 1 + forwards;
}

/* How far the choice is from the cursor; none once the cursor has moved. */
static int
offset_of(const struct view *view)
{
    const struct pane_look *look = &view->panes[PANE_EVENTS];
    return look->scroll == (int)(view->cursor % INT32_MAX) ? look->line : 0;
}

static void
add_event(const struct scene *scene, size_t seq, struct page *page)
{
    static const char *const phases[] = { "?", "\u250c", "\u2514", "\u2022" };
    const struct model       *model = scene->model;
    const struct trace_event *event = trace_event(model->trace, seq);
    struct str line = { 0 }, time = { 0 };
    int depth = event->depth < DEPTH ? event->depth : DEPTH;
    trace_print_time(trace_time(model->trace, seq), &time);
    str_addf(&line, "%8zu %12s ", seq, str_text(&time));
    if (event->rank >= 0)
        str_addf(&line, "r%-3d", event->rank);
    else
        str_add(&line, "    ");
    str_addf(&line, " %*s%s ", depth, "", phases[event->phase <= 3 ? event->phase : 0]);
    int heads = 9;
    model_label(model, seq, &line);
    str_addf(&line, "  %s", model_kind(model, seq));
    page->starved |= !str_ok(&line) || !str_ok(&time);
    bool here = seq == scene->view->cursor;
    page_add(page, seq, (struct style){ .ink = model_work(model, seq), .attr = here ? ATTR_BOLD : 0 }, str_text(&line));
    page_head(page, heads, (struct style){ .ink = INK_DIM, .attr = here ? ATTR_BOLD : 0 });
    if (here)
        page_mark(page, 0x25cf);
    str_free(&line);
    str_free(&time);
}

/* What is listed, if that is not what `step` stops at. Answers what is left of the pane. */
static struct canvas
draw_choice(const struct scene *scene, struct canvas *whole)
{
    const struct view *view = scene->view;
    bool all = (view->panes[PANE_EVENTS].element & ALL) != 0;
    if (whole->height < 3 || (view->events == NULL && !all))
        return *whole;
    canvas_textf(whole, 0, 1, (struct style){ .ink = INK_ACCENT }, "%s%.200s",
                 view->events != NULL ? "only " : "all events", view->events != NULL ? match_text(view->events) : "");
    return canvas_part(whole, 1, 0, whole->height - 1, whole->width);
}

static void
draw(const struct scene *scene, struct canvas *whole, int skip)
{
    (void)skip;
    struct canvas  body = draw_choice(scene, whole), *pane = &body;
    struct listing list;
    struct page    page = { 0 };
    int offset = scene->view->focus == PANE_EVENTS ? offset_of(scene->view) : 0;
    int around = (offset < 0 ? -offset : offset) + pane->height;
    list_around(scene, around, around, &list);
    int chosen = list.at + offset < 0 ? 0 : list.at + offset >= list.count ? list.count - 1 : list.at + offset;
    int top = chosen - pane->height / 2;
    top = top > list.count - pane->height ? list.count - pane->height : top;
    top = top < 0 ? 0 : top;
    for (int i = top; i < list.count && i < top + pane->height; i++)
        add_event(scene, list.events[i], &page);
    struct view own = *scene->view;
    own.panes[PANE_EVENTS].line = chosen - top;
    page_draw(&page, &(struct scene){ scene->model, &own, scene->capabilities }, PANE_EVENTS, pane, 0);
    int last = list.count - top;
    if (list.cut_behind && last < pane->height)
        canvas_text(pane, last, 1, (struct style){ .ink = INK_DIM },
                    "\u2026 further ones lie far behind: / finds them");
    if (list.cut_before && top == 0 && list.count == 1 && pane->height > 2)
        canvas_text(pane, last + 1, 1, (struct style){ .ink = INK_DIM }, "\u2026 and far before");
    page_free(&page);
}

static void
press(struct model *model, struct view *view, const char *key)
{
    const struct scene scene = { model, view, NULL };
    struct pane_look  *look = &view->panes[PANE_EVENTS];
    struct listing     list;
    int offset = offset_of(view), by = strncmp(key, "Page", 4) == 0 ? 10 : 1;
    if (strcmp(key, "A") == 0) {
        look->element ^= ALL;
        return;
    }
    offset += strcmp(key, "Down") == 0 || strcmp(key, "j") == 0 || strcmp(key, "PageDown") == 0 ? by : -by;
    int around = (offset < 0 ? -offset : offset) + 1;
    list_around(&scene, around, around, &list);
    int place = list.at + offset;
    place = place < 0 ? 0 : place >= list.count ? list.count - 1 : place;
    look->line = place - list.at;
    look->scroll = (int)(view->cursor % INT32_MAX);
}

static void
enter(struct model *model, struct view *view, int row)
{
    (void)row;
    const struct scene scene = { model, view, NULL };
    struct listing     list;
    int offset = offset_of(view), around = (offset < 0 ? -offset : offset) + 1;
    list_around(&scene, around, around, &list);
    int place = list.at + offset;
    if (place >= 0 && place < list.count)
        view_goto(view, model, list.events[place]);
}

static int
rows(const struct scene *scene)
{
    return (int)(scene->model->seen < INT32_MAX ? scene->model->seen : INT32_MAX);
}

static enum concern
concern(const struct scene *scene)
{
    (void)scene;
    return CONCERN_SOME;
}

static const struct pane_key keys[] = {
    { "A", "all",  "what step passes over is listed, too, or not" },
    { "j", "",     "the next one is chosen" },
    { "k", "",     "the one before" },
    { "Down", "",  "the next one" },
    { "Up", "",    "the one before" },
    { "PageDown", "", "ten further" },
    { "PageUp", "",   "ten back" },
    { NULL, NULL, NULL },
};

const struct pane_kind events_pane = { .name = "Events", .least_columns = 44, .concern = concern, .draw = draw,
                                       .rows = rows, .enter = enter, .keys = keys, .press = press };
