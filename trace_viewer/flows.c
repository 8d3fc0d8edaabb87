/* Routes of flows. Down (or up) the sender's column, along the row beside the receiver's, to an arrow; where both ends
 * are in one column, a single line. What a span covers stays the span's; an arrow that has no blank cell beside the
 * receiver's row stands on the receiver. Interface: flows_draw. */
#include "flows.h"

#include "base/vec.h"
#include "moment.h"
#include "trace/reader.h"
#include "window.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum {
    ROUTES = 64, LOOKED_AT = 1 << 13, VERTICAL = 0x2502, HORIZONTAL = 0x2500, CROSS = 0x253c, HEAVY = 0x2503,
    DOWN = 0x25bc, UP = 0x25b2, LEFT = 0x25c4, RIGHT = 0x25ba
};

struct end   { int row, column, rank; };
struct route { size_t from; struct end sender, receiver; };

struct routes {
    const struct model *model;
    const struct view  *view;
    const struct rows  *rows;
    const struct axis  *axis;
    struct canvas      *body;
    struct route        route[ROUTES];
    int                 count;
    int                *row_of;       /* of each lane */
    int                *more;         /* of each row: routes that are not drawn */
};

/* ---- which ---- */

/* The first row of each lane; those without one are above the first row or below the last; -2: not to be seen. */
static void
find_rows(struct routes *routes)
{
    const struct rows *rows = routes->rows;
    int window = rows->units > 0 && rows->shown > 0 ? rows->unit[rows->top].from : 0;
    for (size_t i = 0; i < routes->model->lane_count; i++)
        routes->row_of[i] = -2;
    for (int place = 0; place < rows->lanes; place++)
        routes->row_of[rows->lane[place]] = place < window ? -1 : rows->count;
    for (int i = rows->count - 1; i >= 0; i--)
        for (int k = 0; rows->row[i].unit >= 0 && k < rows->unit[rows->row[i].unit].count; k++)
            routes->row_of[rows->lane[rows->unit[rows->row[i].unit].from + k]] = i;
}

/* In an unfolded lane the row of the event's level. */
static int
row_of_event(const struct routes *routes, const struct trace_event *event)
{
    const struct rows *rows = routes->rows;
    int row = event->lane < routes->model->lane_count ? routes->row_of[event->lane] : -2;
    while (row >= 0 && row + 1 < rows->count && rows->row[row].kind == ROW_LANE && event->depth > rows->row[row].last &&
           rows->row[row + 1].kind == ROW_LANE && rows->row[row + 1].lane == rows->row[row].lane)
        row++;
    return row;
}

static struct end
end_of_event(const struct routes *routes, size_t seq)
{
    const struct trace_event *event = trace_event(routes->model->trace, seq);
    int column = axis_column(routes->axis, window_shown(routes->model, routes->view, seq));
    return (struct end){ row_of_event(routes, event), column, trace_lane_at(routes->model->trace, event->lane)->rank };
}

static bool
is_inside(const struct routes *routes, const struct end *end)
{
    return end->row >= 0 && end->row < routes->rows->count && end->column >= 0 && end->column < routes->axis->columns;
}

static void
add_route(struct routes *routes, size_t seq)
{
    const struct trace_event *event = trace_event(routes->model->trace, seq);
    size_t other = event->flow != 0 ? model_flow_end(routes->model, seq) : SIZE_MAX;
    const struct veil *veil = &routes->view->veil;
    if (other == SIZE_MAX || veil_hides(veil, routes->model, other) || veil_hides(veil, routes->model, seq))
        return;
    struct route route = { .from = seq < other ? seq : other };
    route.sender   = end_of_event(routes, route.from);
    route.receiver = end_of_event(routes, seq < other ? other : seq);
    bool known = route.sender.row > -2 && route.receiver.row > -2 && route.sender.row != route.receiver.row;
    for (int i = 0; i < routes->count; i++)
        known &= routes->route[i].from != route.from;
    if (!known || (!is_inside(routes, &route.sender) && !is_inside(routes, &route.receiver)))
        return;
    if (routes->count < ROUTES)
        routes->route[routes->count++] = route;
    else
        routes->more[is_inside(routes, &route.receiver) ? route.receiver.row : route.sender.row]++;
}

static void
add_of_lane(struct routes *routes, size_t lane, uint64_t from, uint64_t to)
{
    size_t first = model_seq_at(routes->model, from);
    size_t at = model_lane_next(routes->model, lane, first > 0 ? first - 1 : NO_EVENT, 1);
    for (int n = 0; n < LOOKED_AT && at != NO_EVENT && trace_time(routes->model->trace, at) <= to; n++) {
        add_route(routes, at);
        at = model_lane_next(routes->model, lane, at, 1);
    }
}

/* What leaves or reaches the selected stage, what is inside it, and what its rank sends and receives meanwhile. */
static void
add_selection(struct routes *routes)
{
    const struct model *model = routes->model;
    size_t cursor = routes->view->cursor;
    const struct trace_event *event = trace_event(model->trace, cursor);
    struct span span;
    int level;
    add_route(routes, cursor);
    if (event->lane >= model->lane_count || !moment_span(model, cursor, &span, &level))
        return;
    uint64_t end = span_end_shown(model, &span);
    int rank = trace_lane_at(model->trace, event->lane)->rank;
    add_of_lane(routes, event->lane, span.begin, end);
    for (size_t i = 0; i < model->lane_count && rank >= 0; i++) {
        const struct trace_lane_info *info = trace_lane_at(model->trace, i);
        if (info->rank == rank && info->kind == LANE_COMM && i != event->lane)
            add_of_lane(routes, i, span.begin, end);
    }
}

/* Of the window, or of what of it belongs to the cursor's iteration; in a long one, what is around the cursor. */
static void
add_window(struct routes *routes, bool iteration)
{
    const struct model *model = routes->model;
    size_t cursor = routes->view->cursor;
    uint32_t which = trace_event(model->trace, cursor)->iteration;
    uint64_t left = axis_time(routes->axis, 0), most = align_most(&routes->view->arrange.align);
    size_t from = model_seq_at(model, left > most ? left - most : 0);
    size_t to = model_seq_at(model, axis_time(routes->axis, routes->axis->columns));
    if (to - from > LOOKED_AT && cursor >= from && cursor < to)
        from = cursor - from > LOOKED_AT / 2 ? cursor - LOOKED_AT / 2 : from;
    to = to - from > LOOKED_AT ? from + LOOKED_AT : to;
    for (size_t seq = from; seq < to; seq++) {
        const struct trace_event *event = trace_event(model->trace, seq);
        if (event->flow != 0 && (!iteration || event->iteration == which))
            add_route(routes, seq);
    }
}

/* ---- how ---- */

/* Of another route: spans have hairlines and fills that look alike. */
static bool
is_line(const struct cell *cell)
{
    static const uint32_t codes[] = { VERTICAL, HORIZONTAL, CROSS, HEAVY, 0x250c, 0x2510, 0x2514, 0x2518 };
    bool found = false;
    for (size_t i = 0; i < countof(codes); i++)
        found |= cell->code == codes[i];
    return found && cell->style.ink == INK_ACCENT && cell->style.paper == INK_PLAIN;
}

/* A piece of a line: where spans are, their cells stay, with a tick where the line crosses. */
static void
put_line(struct canvas *body, int row, int column, uint32_t code)
{
    const struct cell *cell = canvas_at(body, row, column);
    if (cell == NULL || cell->code == 0)
        return;
    struct style line = { .ink = INK_ACCENT, .attr = ATTR_BOLD };
    if (cell->style.paper != INK_PLAIN && cell->code == ' ')
        canvas_put(body, row, column, (struct style){ .ink = INK_PLAIN, .paper = cell->style.paper, .attr = ATTR_BOLD },
                   code);
    else if (cell->style.paper != INK_PLAIN || (cell->code != ' ' && !is_line(cell)))
        canvas_put(body, row, column, (struct style){ cell->style.ink, cell->style.paper,
                                                      cell->style.attr | ATTR_BOLD }, cell->code);
    else
        canvas_put(body, row, column, line, cell->code == ' ' || cell->code == code ? code : CROSS);
}

/* Arrows are seen over spans too, on their paper. */
static void
put_arrow(struct canvas *body, int row, int column, uint32_t code)
{
    const struct cell *cell = canvas_at(body, row, column);
    if (cell == NULL || cell->code == 0)
        return;
    bool paper = cell->style.paper != INK_PLAIN;
    canvas_put(body, row, column, (struct style){ .ink = paper ? INK_BLACK : INK_ACCENT, .paper = cell->style.paper,
                                                  .attr = ATTR_BOLD }, code);
}

/* "r5" beside an arrow at the border, in blank cells. */
static void
put_rank(struct canvas *body, int row, int column, int rank)
{
    char text[16] = "";
    if (rank >= 0)
        snprintf(text, sizeof text, "r%d", rank);
    for (size_t i = 0; text[i] != '\0'; i++) {
        const struct cell *cell = canvas_at(body, row, column + (int)i);
        if (cell != NULL && cell->style.paper == INK_PLAIN && (cell->code == ' ' || is_line(cell)))
            canvas_put(body, row, column + (int)i, (struct style){ .ink = INK_ACCENT, .attr = ATTR_BOLD },
                       (unsigned char)text[i]);
    }
}

static void
put_vertical(struct canvas *body, int from, int to, int column, uint32_t code)
{
    for (int row = from < to ? from : to; row <= (from < to ? to : from); row++)
        put_line(body, row, column, code);
}

/* Along a row, from beside the sender's column to before the arrow. */
static void
put_horizontal(struct canvas *body, int row, int from, int to)
{
    int way = to > from ? 1 : -1;
    for (int column = from + way; column != to; column += way)
        put_line(body, row, column, HORIZONTAL);
}

/* Out of sight at the left or right: along the row to the border, where it says whose the other end is. */
static void
draw_to_border(struct canvas *body, int row, int column, bool right, int rank)
{
    char text[16];
    int width = rank >= 0 ? snprintf(text, sizeof text, "r%d", rank) : 0;
    int border = right ? body->width - 1 - width : 0;
    if ((right && column < border) || (!right && column > width)) {
        put_horizontal(body, row, column, border);
        put_arrow(body, row, border, right ? RIGHT : LEFT);
        put_rank(body, row, border + 1, rank);
    } else {
        put_arrow(body, row, column, right ? RIGHT : LEFT);
    }
}

static uint32_t
corner(bool down, bool right)
{
    return down ? (right ? 0x2514 : 0x2518) : right ? 0x250c : 0x2510;
}

static bool
is_covered(const struct canvas *body, int row, int column)
{
    const struct cell *cell = canvas_at(body, row, column);
    return cell != NULL && (cell->style.paper != INK_PLAIN || (cell->code != ' ' && !is_line(cell)));
}

/* Both ends in the window's time; one of them may be above or below the rows. */
static void
draw_whole(struct routes *routes, const struct route *route)
{
    struct canvas *body = routes->body;
    int  from = route->sender.row, to = route->receiver.row, column = route->sender.column;
    int  step = to > from ? 1 : -1, end = route->receiver.column;
    bool apart = to - from > 1 || from - to > 1, out = to < 0 || to >= routes->rows->count;
    int  edge = apart && !out ? to - step : out ? to - step : to;
    if (from < 0 || from >= routes->rows->count) /* its sender has no row: only the end is seen */
        from = step > 0 ? -1 : routes->rows->count;
    if (column == end || out) {
        if (apart && from != edge)
            put_vertical(body, from + step, edge, column, column == end && !out ? HEAVY : VERTICAL);
        put_arrow(body, !apart || (!out && is_covered(body, edge, column)) ? to : edge, column, step > 0 ? DOWN : UP);
        if (out)
            put_rank(body, edge, column + 1, route->receiver.rank);
        return;
    }
    if (from + step != edge)
        put_vertical(body, from + step, edge - step, column, VERTICAL);
    put_line(body, edge, column, corner(step > 0, end > column));
    put_horizontal(body, edge, column, end);
    apart = apart && !is_covered(body, edge, end); /* else it points from within the receiver's row */
    put_arrow(body, apart ? edge : to, end, edge != to ? (step > 0 ? DOWN : UP) : end > column ? RIGHT : LEFT);
    if (route->sender.row < 0 || route->sender.row >= routes->rows->count)
        put_rank(body, step > 0 ? 0 : routes->rows->count - 1, column + 1, route->sender.rank);
}

static void
draw_route(struct routes *routes, const struct route *route)
{
    int  columns = routes->axis->columns;
    bool sent = route->sender.column >= 0 && route->sender.column < columns;
    bool received = route->receiver.column >= 0 && route->receiver.column < columns;
    if (sent && received)
        draw_whole(routes, route);
    else if (sent)
        draw_to_border(routes->body, route->sender.row, route->sender.column, route->receiver.column >= columns,
                       route->receiver.rank);
    else
        draw_to_border(routes->body, route->receiver.row, route->receiver.column, route->sender.column >= columns,
                       route->sender.rank);
}

static void
draw_more(struct routes *routes)
{
    for (int row = 0; row < routes->rows->count; row++) {
        char text[24];
        int  width = snprintf(text, sizeof text, " +%d", routes->more[row]);
        if (routes->more[row] > 0)
            canvas_text(routes->body, row, routes->body->width - width,
                        (struct style){ .ink = INK_ACCENT, .attr = ATTR_BOLD }, text);
    }
}

void
flows_draw(const struct model *model, const struct view *view, const struct rows *rows, const struct axis *axis,
           struct canvas *body)
{
    struct routes routes = { .model = model, .view = view, .rows = rows, .axis = axis, .body = body };
    if (view->cursor == NO_EVENT || view->cursor >= model->seen || view->arrange.flows == FLOWS_OFF || rows->count == 0)
        return;
    routes.more = calloc((size_t)rows->count, sizeof *routes.more);
    routes.row_of = malloc((model->lane_count + 1) * sizeof *routes.row_of);
    if (routes.more == NULL || routes.row_of == NULL) {
        canvas_starve(body);
        free(routes.more);
        free(routes.row_of);
        return;
    }
    find_rows(&routes);
    if (view->arrange.flows == FLOWS_SELECTION)
        add_selection(&routes);
    else
        add_window(&routes, view->arrange.flows == FLOWS_ITERATION);
    for (int i = routes.count - 1; i >= 0; i--) /* the first, which is the selected event's, over the others */
        draw_route(&routes, &routes.route[i]);
    draw_more(&routes);
    free(routes.row_of);
    free(routes.more);
}
