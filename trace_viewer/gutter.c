/* Who a row belongs to: the rank's name once, then what each lane is, how much is folded away, by how much it was
 * moved. Interface: gutter_draw, gutter_print_short. */
#include "gutter.h"

#include "glyph.h"
#include "trace/reader.h"

#include <stdio.h>
#include <string.h>

enum { ARROW_RIGHT = 0x25ba, PIN = 0x25a0, CORNER = 0x2514, ROOMY = 12 };

void
gutter_print_short(uint64_t ps, char *out, size_t size)
{
    static const struct { uint64_t ps; const char *name; } units[] = {
        { 1000000000000u, "s" }, { 1000000000u, "ms" }, { 1000000u, "us" }, { 1000u, "ns" },
    };
    int i = 0;
    while (i < 3 && ps < units[i].ps)
        i++;
    double value = (double)ps / (double)units[i].ps;
    snprintf(out, size, value < 10 ? "%.1f%s" : "%.0f%s", value, units[i].name);
}

/* "device:0 compute" becomes "d0 compute", "r0 autograd 0" of the only rank "autograd 0", "r1 main" below its rank's
 * name "main". */
static void
short_name(const struct model *model, const struct trace_lane_info *info, char *out, size_t size)
{
    const char *name = info->name;
    char prefix[16];
    snprintf(prefix, sizeof prefix, "r%d ", info->rank >= 0 ? info->rank : 0);
    if ((!model->ranked || info->rank >= 0) && strncmp(name, prefix, strlen(prefix)) == 0)
        name += strlen(prefix);
    const char *device = strstr(name, "device:");
    if (device == NULL)
        snprintf(out, size, "%s", name);
    else
        snprintf(out, size, "%.*sd%s", (int)(device - name), name, device + 7);
}

/* As wide as the highest rank's: "r0 ", "r10 ". */
static int
rank_columns(const struct model *model, const struct rows *rows)
{
    int most = 0, columns = 3;
    for (int i = 0; i < rows->lanes; i++) {
        int rank = trace_lane_at(model->trace, (size_t)rows->lane[i])->rank;
        most = rank > most ? rank : most;
    }
    for (; most >= 10; most /= 10)
        columns++;
    return model->ranked ? columns : 0;
}

/* " +1.2ms", and of the last to arrive that it is the last. */
static void
draw_late(const struct view *view, int rank, struct canvas *gutter, struct stretch place)
{
    uint64_t late;
    char     text[32] = "", time[16];
    if (!align_late(&view->arrange.align, rank, &late))
        return;
    bool last = view->arrange.align.by == ALIGN_COLLECTIVE && view->arrange.align.last == rank;
    gutter_print_short(late, time, sizeof time);
    snprintf(text, sizeof text, "+%s%s", late == 0 ? "0" : time, last && place.room >= 12 ? " last" : last ? "!" : "");
    canvas_cut(gutter, place, (struct style){ .ink = INK_ACCENT, .attr = last ? ATTR_BOLD | ATTR_REVERSE : 0 }, text);
}

static void
draw_level(const struct row *row, struct canvas *gutter, int at, int column)
{
    struct style dim = { .ink = INK_DIM };
    char text[32];
    snprintf(text, sizeof text, row->more > 0 ? " +%d" : " in %d", row->more > 0 ? row->more + 1 : row->first);
    canvas_put(gutter, at, column, dim, CORNER);
    canvas_cut(gutter, (struct stretch){ at, column + 1, gutter->width - column - 2 }, dim, text);
}

static void
draw_lane(const struct model *model, const struct view *view, const struct rows *rows, int at, struct canvas *gutter)
{
    const struct row *row = &rows->row[at];
    const struct trace_lane_info *info = trace_lane_at(model->trace, (size_t)row->lane);
    int column = 1 + (info->rank >= 0 ? rank_columns(model, rows) : 0);
    if (row->first > 0) {
        draw_level(row, gutter, at, column);
        return;
    }
    uint64_t late;
    bool selected = row->lane == view->lane;
    bool aligned = row->heads && align_late(&view->arrange.align, info->rank, &late);
    struct style style = { .attr = selected ? ATTR_BOLD : 0 };
    size_t lane = (size_t)row->lane;
    if (model_lane_events(model, lane) == 0 || veil_hides_lane(&view->veil, model, lane))
        style.ink = INK_DIM;
    char name[128], more[16];
    short_name(model, info, name, sizeof name);
    int room = gutter->width - column - 1, end = column;
    if (!aligned || room >= ROOMY)
        end = canvas_cut(gutter, (struct stretch){ at, column, aligned ? 4 : room }, style, name);
    if (aligned)
        draw_late(view, info->rank, gutter, (struct stretch){ at, end + (end > column), gutter->width - 1 - end });
    snprintf(more, sizeof more, "+%d", row->more);
    int left = gutter->width - 1 - (int)strlen(more);
    if (row->more > 0 && !aligned && left > end)
        canvas_text(gutter, at, left, (struct style){ .ink = INK_DIM }, more);
}

static int
ranks_of_unit(const struct model *model, const struct rows *rows, const struct unit *unit, int *first)
{
    *first = trace_lane_at(model->trace, (size_t)rows->lane[unit->from])->rank;
    return trace_lane_at(model->trace, (size_t)rows->lane[unit->from + unit->count - 1])->rank - *first + 1;
}

/* "r3 3 lanes", "r4-r7 same +-2us". */
static void
draw_ranks(const struct model *model, const struct view *view, const struct rows *rows, int at, struct canvas *gutter)
{
    const struct unit *unit = &rows->unit[rows->row[at].unit];
    int  first, ranks = ranks_of_unit(model, rows, unit, &first), room = gutter->width - 2;
    char text[64], apart[16];
    uint64_t late;
    if (unit->kind == ROW_ALIKE) {
        gutter_print_short(unit->apart, apart, sizeof apart);
        int length = snprintf(text, sizeof text, "r%d-r%d same +-%s", first, first + ranks - 1, apart);
        if (length > room && unit->apart > 0)
            length = snprintf(text, sizeof text, "r%d-r%d +-%s", first, first + ranks - 1, apart);
        if (length > room || unit->apart == 0)
            length = snprintf(text, sizeof text, "r%d-r%d same", first, first + ranks - 1);
        if (length > room)
            snprintf(text, sizeof text, "r%d-r%d", first, first + ranks - 1);
        canvas_cut(gutter, (struct stretch){ at, 1, room }, (struct style){ 0 }, text);
        return;
    }
    int end = canvas_textf(gutter, at, 1, (struct style){ .attr = ATTR_BOLD }, "r%d ", first);
    if (align_late(&view->arrange.align, first, &late))
        draw_late(view, first, gutter, (struct stretch){ at, end, gutter->width - 1 - end });
    else
        canvas_textf(gutter, at, end, (struct style){ .ink = INK_DIM }, "%d lanes", unit->count);
}

static bool
is_on_screen(const struct rows *rows, int unit)
{
    int place = rows->pinned >= 0 && unit > rows->pinned ? unit - 1 : unit;
    return unit == rows->pinned || (place >= rows->top && place < rows->top + rows->shown);
}

/* What has no row: how many lanes, and of how many ranks if those have none at all; else 0 ranks. */
static void
count_rest(const struct model *model, const struct rows *rows, int *lanes, int *ranks)
{
    bool whole = true;
    *lanes = *ranks = 0;
    for (int i = 0, next; i < rows->units; i = next) {
        int first, other, count = ranks_of_unit(model, rows, &rows->unit[i], &first), hidden = 0;
        for (next = i; next < rows->units; next++) {
            ranks_of_unit(model, rows, &rows->unit[next], &other);
            if (other != first)
                break;
            hidden += !is_on_screen(rows, next);
            *lanes += is_on_screen(rows, next) ? 0 : rows->unit[next].count;
        }
        whole &= hidden == 0 || (hidden == next - i && first >= 0);
        *ranks += hidden > 0 ? count : 0;
    }
    *ranks = whole ? *ranks : 0;
}

/* "+5 ranks" where whole ranks have no row, else "+7 lanes". */
static int
draw_rest(const struct model *model, const struct rows *rows, int at, struct canvas *pane)
{
    int lanes, ranks;
    count_rest(model, rows, &lanes, &ranks);
    return canvas_textf(pane, at, 1, (struct style){ .ink = INK_DIM }, "+%d %s", ranks > 1 ? ranks : lanes,
                        ranks > 1 ? "ranks" : lanes == 1 ? "lane" : "lanes");
}

int
gutter_draw(const struct model *model, const struct view *view, const struct rows *rows, int at,
            struct canvas *gutter, struct canvas *pane)
{
    const struct row *row = &rows->row[at];
    if (row->kind == ROW_CONTRAST) {
        canvas_cut(gutter, (struct stretch){ at, 5, gutter->width - 6 }, (struct style){ .ink = INK_DIM }, "A B");
        return gutter->width;
    }
    if (row->kind == ROW_CURVE)
        return gutter->width;
    if (row->kind == ROW_REST) {
        int end = draw_rest(model, rows, at, pane);
        return end <= gutter->width ? gutter->width : end + 1;
    }
    const struct trace_lane_info *info = trace_lane_at(model->trace, (size_t)row->lane);
    const struct unit *unit = &rows->unit[row->unit];
    bool selected = false;
    for (int i = 0; i < unit->count && row->first == 0; i++)
        selected |= rows->lane[unit->from + i] == view->lane;
    if (row->kind != ROW_LANE) {
        draw_ranks(model, view, rows, at, gutter);
    } else {
        if (row->heads && info->rank >= 0 && model->ranked)
            canvas_textf(gutter, at, 1, (struct style){ .ink = INK_DIM }, "r%d", info->rank);
        draw_lane(model, view, rows, at, gutter);
    }
    if (row->unit == rows->pinned && row->first == 0)
        canvas_put(gutter, at, 0, (struct style){ .ink = INK_DIM }, PIN);
    if (selected)
        canvas_put(gutter, at, 0, (struct style){ .ink = INK_ACCENT, .attr = ATTR_BOLD }, ARROW_RIGHT);
    return gutter->width;
}
