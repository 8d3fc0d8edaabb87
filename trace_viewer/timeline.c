/* Lanes in rows. Interface in order of use: timeline_wanted while rows are dealt out, timeline_top, timeline_draw;
 * timeline_lane_at.
 * What a row's cells contain and look like is strip.c's and strip_draw.c's business. */
#include "timeline.h"

#include "columns.h"
#include "strip.h"
#include "trace/reader.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum {
    UNFOLD = 6, VERTICAL = 0x2502, HORIZONTAL = 0x2500, ARROW_LEFT = 0x25c4, ARROW_RIGHT = 0x25ba,
    ARROW_DOWN = 0x25bc, ARROW_UP = 0x25b2, SQUARE = 0x25a0
};

/* The rows on the screen: which lane, which of its levels; `last` LEVELS: to the innermost. */
struct row { int lane, first, last; };
struct dealt_rows { struct row *row; int count, hidden; }; /* hidden: lanes without a row */

static int
levels_unfolded(const struct model *model, const struct view *view)
{
    if (view->lane < 0 || (size_t)view->lane >= model->lane_count)
        return 1;
    int depth = model->lanes[view->lane].depth;
    return depth < 1 ? 1 : depth > UNFOLD ? UNFOLD : depth;
}

int
timeline_wanted(const struct model *model, const struct view *view)
{
    return (int)(model->lane_count < 4096 ? model->lane_count : 4096) + levels_unfolded(model, view) - 1;
}

int
timeline_top(const struct model *model, const struct view *view, int rows)
{
    int lanes = (int)model->lane_count, top = view->top;
    if (lanes <= rows)
        return 0;
    int shown = rows > 1 ? rows - 1 : 1; /* the last row tells of the others */
    if (view->lane < top)
        top = view->lane;
    if (view->lane >= top + shown)
        top = view->lane - shown + 1;
    return top < 0 ? 0 : top > lanes - shown ? lanes - shown : top;
}

/* "device:0 compute" becomes "d0 compute", "r0 autograd 0" of the only rank "autograd 0": names have twelve cells on a
 * small screen. */
static void
short_name(const struct model *model, const char *name, int room, char *out, size_t size)
{
    if (!model->ranked && strncmp(name, "r0 ", 3) == 0)
        name += 3;
    const char *device = strstr(name, "device:");
    if (device == NULL || (int)strlen(name) <= room)
        snprintf(out, size, "%s", name);
    else
        snprintf(out, size, "%.*sd%s", (int)(device - name), name, device + 7);
}

static void
draw_name(const struct model *model, const struct view *view, const struct row *row, struct canvas *gutter, int at)
{
    const struct trace_lane_info *info = trace_lane_at(model->trace, (size_t)row->lane);
    bool selected = row->lane == view->lane;
    if (row->first > 0) {
        canvas_textf(gutter, at, 3, (struct style){ .ink = INK_DIM }, row->last >= LEVELS &&
                     model->lanes[row->lane].depth > row->first + 1 ? "\u2514 +%d" : "\u2514 in %d",
                     row->last >= LEVELS && model->lanes[row->lane].depth > row->first + 1
                         ? model->lanes[row->lane].depth - row->first : row->first);
        return;
    }
    char name[128], whole[160];
    short_name(model, info->name, gutter->width - 2, name, sizeof name);
    bool ranked = model->ranked && info->rank >= 0 && !(name[0] == 'r' && name[1] >= '0' && name[1] <= '9');
    if (ranked)
        snprintf(whole, sizeof whole, "r%d %s", info->rank, name);
    else
        snprintf(whole, sizeof whole, "%s", name);
    struct style style = { .attr = selected ? ATTR_BOLD : 0 };
    if (selected)
        canvas_put(gutter, at, 0, (struct style){ .ink = INK_ACCENT, .attr = ATTR_BOLD }, ARROW_RIGHT);
    const struct lane *lane = &model->lanes[row->lane];
    if (lane->event_count == 0 || veil_hides_lane(&view->veil, model, lane))
        style.ink = INK_DIM;
    canvas_cut(gutter, (struct stretch){ at, 1, gutter->width - 2 }, style, whole);
}

/* A task of which nothing may be seen has no row: how many there are would tell something. Streams are the devices'. */
static bool
is_row_hidden(const struct model *model, const struct view *view, int lane)
{
    return trace_lane_at(model->trace, (size_t)lane)->kind != LANE_STREAM &&
           veil_hides_lane(&view->veil, model, &model->lanes[lane]);
}

/* Rows dealt out: every lane from the top one, the selected one unfolded as far as rows are left. */
static void
deal_rows(const struct model *model, const struct view *view, int room, struct dealt_rows *rows)
{
    int lanes = (int)model->lane_count, top = timeline_top(model, view, room);
    bool all = lanes <= room;
    int shown = all ? lanes : room > 1 ? room - 1 : 1;
    int extra = all ? room - lanes : 0, levels = levels_unfolded(model, view);
    if (extra > levels - 1)
        extra = levels - 1;
    for (int lane = top; lane < top + shown && rows->count < room; lane++) {
        int depth = is_row_hidden(model, view, lane) ? 0 : lane == view->lane ? 1 + extra : 1;
        for (int level = 0; level < depth && rows->count < room; level++)
            rows->row[rows->count++] = (struct row){ lane, level, level == depth - 1 ? LEVELS : level };
    }
    rows->hidden = lanes - shown;
}

int
timeline_lane_at(const struct model *model, const struct view *view, int rows, int row)
{
    struct dealt_rows dealt = { .row = calloc(rows > 0 ? (size_t)rows : 1, sizeof *dealt.row) };
    int lane = -1;
    if (dealt.row != NULL)
        deal_rows(model, view, rows, &dealt);
    if (row >= 0 && row < dealt.count)
        lane = dealt.row[row].lane;
    free(dealt.row);
    return lane;
}

/* The seq that a row highlights: the span that the cursor's event begins, ends, or is inside of; or the mark. */
static size_t
selection(const struct model *model, const struct view *view)
{
    if (view->cursor == NO_EVENT)
        return NO_EVENT;
    const struct trace_event *event = trace_event(model->trace, view->cursor);
    if (event != NULL && event->phase == PHASE_END) {
        size_t begin = trace_partner(model->trace, view->cursor);
        return begin != SIZE_MAX ? begin : view->cursor;
    }
    return view->cursor;
}

static bool
row_has(const struct model *model, const struct row *row, size_t seq)
{
    const struct lane *lane = &model->lanes[row->lane];
    const struct trace_event *event = trace_event(model->trace, seq);
    if (event == NULL || (int)event->lane != row->lane)
        return false;
    if (event->phase != PHASE_BEGIN)
        return row->first == 0;
    for (int level = row->first; level <= row->last && level < lane->depth; level++) {
        const struct level *spans = &lane->levels[level];
        for (size_t i = level_find(spans, trace_time(model->trace, seq)); i < spans->count; i++) {
            if (spans->spans[i].seq >= seq) {
                if (spans->spans[i].seq == seq)
                    return true;
                break;
            }
        }
    }
    return false;
}

static void
put_route(struct canvas *canvas, int row, int column, uint32_t code)
{
    const struct cell *cell = canvas_at(canvas, row, column);
    if (cell != NULL && (cell->code == ' ' || cell->code == VERTICAL) && cell->style.paper == INK_PLAIN)
        canvas_put(canvas, row, column, (struct style){ .ink = INK_ACCENT, .attr = ATTR_BOLD }, code);
}

/* Down (or up) the sender's column, along the receiver's row. Routes go under spans. */
static void
draw_route(struct canvas *canvas, int from_row, int from, int to_row, int to)
{
    int step = to_row > from_row ? 1 : -1;
    for (int row = from_row + step; row != to_row; row += step)
        put_route(canvas, row, from, VERTICAL);
    if (from == to) {
        put_route(canvas, to_row - step, from, step > 0 ? ARROW_DOWN : ARROW_UP);
        return;
    }
    put_route(canvas, to_row, from, step > 0 ? (to > from ? 0x2514 : 0x2518) : (to > from ? 0x250c : 0x2510));
    int way = to > from ? 1 : -1;
    for (int column = from + way; column != to; column += way)
        put_route(canvas, to_row, column, column + way != to ? HORIZONTAL : way > 0 ? ARROW_RIGHT : ARROW_LEFT);
}

/* The far end is marked on its span too, so that it is seen where everything is covered. */
static void
mark_end(struct canvas *canvas, int row, int column, uint32_t code)
{
    const struct cell *cell = canvas_at(canvas, row, column);
    if (cell == NULL || cell->code == 0)
        return;
    struct style style = { .ink = cell->style.paper != INK_PLAIN ? INK_BLACK : INK_ACCENT,
                           .paper = cell->style.paper, .attr = ATTR_BOLD };
    canvas_put(canvas, row, column, style, code);
}

static int
row_of_lane(const struct model *model, const struct dealt_rows *rows, size_t seq)
{
    const struct trace_event *event = trace_event(model->trace, seq);
    for (int i = 0; event != NULL && i < rows->count; i++)
        if (rows->row[i].lane == (int)event->lane)
            return i;
    return -1;
}

/* The flows of the selected event, and of the other end of its span. */
static void
draw_flows(const struct model *model, const struct view *view, const struct scale *scale,
           const struct dealt_rows *rows, struct canvas *canvas)
{
    if (view->cursor == NO_EVENT)
        return;
    size_t ends[2] = { view->cursor, trace_partner(model->trace, view->cursor) };
    for (int i = 0; i < 2; i++) {
        size_t other = ends[i] == SIZE_MAX ? SIZE_MAX : trace_flow_end(model->trace, ends[i]);
        if (other == SIZE_MAX)
            continue;
        size_t from = ends[i] < other ? ends[i] : other, to = ends[i] < other ? other : ends[i];
        int from_row = row_of_lane(model, rows, from), to_row = row_of_lane(model, rows, to);
        if (from_row < 0 || to_row < 0 || from_row == to_row || veil_hides(&view->veil, model, other))
            continue;
        int from_column = scale_column(scale, trace_time(model->trace, from));
        int to_column = scale_column(scale, trace_time(model->trace, to));
        draw_route(canvas, from_row, from_column, to_row, to_column);
        if (other == to)
            mark_end(canvas, to_row, to_column, to_row > from_row ? ARROW_DOWN : ARROW_UP);
        else
            mark_end(canvas, from_row, from_column, SQUARE);
    }
}

static void
draw_cursor(struct canvas *canvas, int rows, int column)
{
    for (int row = 0; row < rows && column >= 0 && column < canvas->width; row++) {
        const struct cell *cell = canvas_at(canvas, row, column);
        if (cell->code == ' ' && cell->style.paper == INK_PLAIN)
            canvas_put(canvas, row, column, (struct style){ .ink = INK_DIM }, VERTICAL);
    }
}

/* Which rows there are below the last one, and whether anything happens there. */
static void
draw_hidden(const struct model *model, const struct view *view, int hidden, struct canvas *pane)
{
    if (hidden <= 0 || pane->height < 2)
        return;
    enum { GUTTER = 13 };
    char more[32], text[96];
    int  gutter = columns_of_names(pane->width), top = timeline_top(model, view, pane->height);
    snprintf(more, sizeof more, "+%d lanes", hidden);
    snprintf(text, sizeof text, "lanes %d-%d of %zu, j k scroll", top + 1, top + pane->height - 1, model->lane_count);
    struct style dim = { .ink = INK_DIM };
    int row = pane->height - 1, column = 1;
    if (gutter >= GUTTER)
        canvas_cut(pane, (struct stretch){ row, 1, gutter - 2 }, dim, more);
    column = gutter >= GUTTER ? gutter : column; /* a narrow gutter has no room for both */
    canvas_cut(pane, (struct stretch){ row, column, pane->width - column }, dim, text);
}

void
timeline_draw(const struct model *model, const struct view *view, struct canvas *pane,
              const struct capabilities *capabilities)
{
    int gutter_width = columns_of_names(pane->width), columns = pane->width - gutter_width;
    if (pane->height <= 0 || columns <= 0)
        return;
    struct dealt_rows rows = { .row = calloc((size_t)pane->height, sizeof *rows.row) };
    struct strip strip = { .model = model, .veil = &view->veil, .cursor = -1,
                           .scale = view_scale(view, model, columns) };
    strip.cells = calloc((size_t)columns, sizeof *strip.cells);
    struct canvas gutter = canvas_part(pane, 0, 0, pane->height, gutter_width);
    struct canvas body = canvas_part(pane, 0, gutter_width, pane->height, columns);
    if (rows.row != NULL && strip.cells != NULL) {
        deal_rows(model, view, pane->height, &rows);
        strip.selected = selection(model, view);
        if (view->cursor != NO_EVENT)
            strip.cursor = scale_column(&strip.scale, trace_time(model->trace, view->cursor));
        if (strip.cursor >= columns)
            strip.cursor = -1;
        for (int i = 0; i < rows.count; i++) {
            strip.lane = &model->lanes[rows.row[i].lane];
            strip.first = rows.row[i].first;
            strip.last = rows.row[i].last;
            strip.cursor_here = strip.selected != NO_EVENT && row_has(model, &rows.row[i], strip.selected);
            strip_paint(&strip);
            strip_draw(&strip, &body, i, capabilities);
            draw_name(model, view, &rows.row[i], &gutter, i);
        }
        draw_flows(model, view, &strip.scale, &rows, &body);
        draw_cursor(&body, rows.count, strip.cursor);
        draw_hidden(model, view, rows.hidden, pane);
    } else {
        canvas_starve(pane);
    }
    free(rows.row);
    free(strip.cells);
}
