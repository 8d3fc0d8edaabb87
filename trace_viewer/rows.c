/* Rows dealt out to lanes: a pure function of the trace, the view and how many rows there are. Interface: rows_deal,
 * rows_free, rows_wanted, rows_lane_beside, rows_hold_curves. */
#include "rows.h"

#include "analysis/diff.h"
#include "trace/reader.h"

#include <stdlib.h>
#include <string.h>

enum { MANY_RANKS = 11, MOST = 200, DEEP = 36, WIDE = 120, CURVES_WIDTH = 200, CURVES_HEIGHT = 60 };

/* ---- lanes in order ---- */

/* In its rank: what the rank's own thread does, its streams, its messages, further tasks. */
static uint64_t
place_in_rank(const struct trace_lane_info *info)
{
    const char *name = info->name, *blank = strchr(name, ' ');
    if (name[0] == 'r' && name[1] >= '0' && name[1] <= '9' && blank != NULL)
        name = blank + 1;
    if (info->kind == LANE_STREAM)
        return 1;
    if (info->kind == LANE_COMM)
        return 2;
    return strncmp(name, "main", 4) == 0 || strncmp(name, "host", 4) == 0 ? 0 : 3;
}

static int
compare_keys(const void *a, const void *b)
{
    uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;
    return x < y ? -1 : x > y;
}

/* A task of which nothing may be seen has no row: how many there are would tell something. Streams are the devices'. */
static bool
is_hidden(const struct model *model, const struct view *view, int lane)
{
    return filter_hides_lane(&view->arrange.filter, lane) ||
           (trace_lane_at(model->trace, (size_t)lane)->kind != LANE_STREAM &&
            veil_hides_lane(&view->veil, model, (size_t)lane));
}

static bool
order_lanes(const struct model *model, const struct view *view, struct rows *rows)
{
    uint64_t *keys = malloc((model->lane_count + 1) * sizeof *keys);
    rows->lane = malloc((model->lane_count + 1) * sizeof *rows->lane);
    if (keys == NULL || rows->lane == NULL) {
        free(keys);
        return false;
    }
    for (size_t i = 0; i < model->lane_count; i++) {
        const struct trace_lane_info *info = trace_lane_at(model->trace, i);
        uint64_t rank = info->rank < 0 ? 0 : (uint64_t)info->rank + 1;
        if (!is_hidden(model, view, (int)i))
            keys[rows->lanes++] = rank << 40 | (rank > 0 ? place_in_rank(info) : 0) << 36 | i;
    }
    qsort(keys, (size_t)rows->lanes, sizeof *keys, compare_keys);
    for (int i = 0; i < rows->lanes; i++)
        rows->lane[i] = (int)(keys[i] & 0xfffffffffu);
    free(keys);
    return true;
}

/* ---- units ---- */

static int
rank_at(const struct model *model, const struct rows *rows, int place)
{
    return trace_lane_at(model->trace, (size_t)rows->lane[place])->rank;
}

static int
selected_rank(const struct model *model, const struct view *view)
{
    bool there = view->lane >= 0 && (size_t)view->lane < model->lane_count;
    return there ? trace_lane_at(model->trace, (size_t)view->lane)->rank : -1;
}

static int
lanes_of_rank(const struct model *model, const struct rows *rows, int from)
{
    int count = 1, rank = rank_at(model, rows, from);
    while (from + count < rows->lanes && rank_at(model, rows, from + count) == rank)
        count++;
    return count;
}

static int
count_ranks(const struct model *model, const struct rows *rows)
{
    int ranks = 0;
    for (int i = 0; i < rows->lanes; i++)
        ranks += rank_at(model, rows, i) >= 0 && (i == 0 || rank_at(model, rows, i - 1) != rank_at(model, rows, i));
    return ranks;
}

/* How the lanes from that place on, which are of one rank, are folded. */
static enum fold
fold_of_rank(const struct view *view, const struct rows *rows, int from, int count)
{
    enum fold found = FOLD_NONE;
    for (int i = from; i < from + count; i++) {
        enum fold fold = arrange_fold(&view->arrange, rows->lane[i]);
        found = fold == FOLD_RANK || (fold == FOLD_OPEN && found == FOLD_NONE) ? fold : found;
    }
    return found;
}

/* A rank in one row joins the one before it where they are alike. */
static bool
joins(const struct model *model, const struct view *view, const struct rows *rows, int from, int count)
{
    const struct arrange *arrange = &view->arrange;
    int rank = rank_at(model, rows, from);
    if (rows->units == 0 || rank <= 0 || (size_t)rank >= arrange->like_ranks || !arrange->likeness[rank].like)
        return false;
    const struct unit *before = &rows->unit[rows->units - 1];
    int last = before->from + before->count - 1;
    return before->kind != ROW_LANE && rank_at(model, rows, last) == rank - 1 && count > 0 &&
           before->apart + arrange->likeness[rank].apart <= model->end / 100 &&
           fold_of_rank(view, rows, before->from, before->count) != FOLD_RANK;
}

static void
add_units(const struct model *model, const struct view *view, struct rows *rows, int from, bool folds)
{
    int count = lanes_of_rank(model, rows, from), rank = rank_at(model, rows, from);
    enum fold fold = rank < 0 ? FOLD_OPEN : fold_of_rank(view, rows, from, count);
    folds &= fold == FOLD_NONE && rank != selected_rank(model, view);
    if (folds && joins(model, view, rows, from, count)) {
        struct unit *unit = &rows->unit[rows->units - 1];
        unit->kind = ROW_ALIKE;
        unit->count += count;
        unit->apart += view->arrange.likeness[rank].apart;
    } else if ((folds && count > 1) || fold == FOLD_RANK) {
        rows->unit[rows->units++] = (struct unit){ ROW_RANK, from, count, 0 };
    } else {
        for (int i = 0; i < count; i++)
            rows->unit[rows->units++] = (struct unit){ ROW_LANE, from + i, 1, 0 };
    }
}

/* The first so many ranks as they are, the others folded. */
static void
add_all_units(const struct model *model, const struct view *view, struct rows *rows, int open)
{
    rows->units = 0;
    for (int from = 0, ranks = 0; from < rows->lanes; from += lanes_of_rank(model, rows, from)) {
        bool is_rank = rank_at(model, rows, from) >= 0;
        add_units(model, view, rows, from, is_rank && ranks >= open);
        ranks += is_rank;
    }
}

/* Of many ranks that have no room as many are folded as it takes, from the last one on. */
static bool
make_units(const struct model *model, const struct view *view, int room, struct rows *rows)
{
    rows->unit = malloc(((size_t)rows->lanes + 1) * sizeof *rows->unit);
    if (rows->unit == NULL)
        return false;
    int ranks = count_ranks(model, rows), low = 0, high = ranks;
    if (rows->lanes <= room || ranks < MANY_RANKS)
        low = ranks;
    while (low < high) { /* the most that may stay open */
        int middle = high - (high - low) / 2;
        add_all_units(model, view, rows, middle);
        if (rows->units <= room)
            low = middle;
        else
            high = middle - 1;
    }
    add_all_units(model, view, rows, low);
    return true;
}

static int
unit_of_lane(const struct rows *rows, int lane)
{
    for (int i = 0; i < rows->units; i++)
        for (int k = 0; k < rows->unit[i].count; k++)
            if (rows->lane[rows->unit[i].from + k] == lane)
                return i;
    return -1;
}

/* ---- rows ---- */

/* Whether anything of that level is seen between two moments. */
static bool
is_level_seen(const struct model *model, const struct view *view, int lane, int level, const uint64_t times[2])
{
    enum { ASKED = 64, LOOKED = 8 };
    size_t at = index_find_span(model->index, (size_t)lane, level, times[0]);
    for (int n = 0; n < ASKED; n++, at++) {
        size_t seq = index_begin(model->index, (size_t)lane, level, at);
        if (seq == NO_EVENT)
            return false;
        if (!veil_hides(&view->veil, model, seq) && filter_shows(&view->arrange.filter, model, seq))
            return trace_time(model->trace, seq) < times[1];
        if (n % LOOKED == 0 && trace_time(model->trace, seq) >= times[1])
            return false;
    }
    return false;
}

/* How many levels of the lane are seen in the window, from the outermost on: what is inside of hidden stages stays
 * folded. */
static int
levels_seen(const struct model *model, const struct view *view, const struct axis *axis, int lane)
{
    uint64_t shift = align_shift(&view->arrange.align, trace_lane_at(model->trace, (size_t)lane)->rank);
    uint64_t from = axis_time(axis, 0), to = axis_time(axis, axis->columns);
    bool filtered = view->arrange.filter.match != NULL;
    int seen = 1;
    const uint64_t times[2] = { from > shift ? from - shift : 0, to > shift ? to - shift : 0 };
    for (int level = 1; level < model_depth(model, (size_t)lane); level++) {
        if (is_level_seen(model, view, lane, level, times))
            seen = level + 1;
        else if (!filtered)
            break;
    }
    return seen;
}

bool
rows_hold_curves(const struct view *view)
{
    const struct arrange *arrange = &view->arrange;
    bool large = view->width >= CURVES_WIDTH && view->height >= CURVES_HEIGHT;
    return arrange->align.by == ALIGN_WALL && (arrange->curves_shown == CURVES_ON ||
                                               (arrange->curves_shown == CURVES_BY_SIZE && large));
}

/* Where the rank of that unit begins, if so many units from there on still hold it; else as far up as it is held. */
static int
top_for(const struct model *model, const struct rows *rows, int unit, int shown)
{
    int top = unit, rank = rank_at(model, rows, rows->unit[unit].from);
    while (top > 0 && rank >= 0 && rank_at(model, rows, rows->unit[top - 1].from) == rank)
        top--;
    return unit - top < shown && rank >= 0 ? top : unit - shown + 1;
}

/* Which units are on the screen: as many as there are rows but one, which tells of the others; the selected among
 * them, and its rank's first lane above it. */
static void
place_window(const struct model *model, const struct view *view, int room, struct rows *rows)
{
    int selected = unit_of_lane(rows, view->lane), others = rows->units - (rows->pinned >= 0);
    room -= rows->pinned >= 0;
    rows->shown = others <= room ? others : room > 1 ? room - 1 : room > 0 ? 1 : 0;
    if (rows->pinned >= 0 && selected > rows->pinned)
        selected--;
    else if (selected == rows->pinned)
        selected = -1;
    rows->top = view->top;
    if (selected >= 0 && selected < rows->top)
        rows->top = selected;
    if (selected >= rows->top + rows->shown)
        rows->top = top_for(model, rows, selected, rows->shown);
    rows->top = rows->top > others - rows->shown ? others - rows->shown : rows->top;
    rows->top = rows->top < 0 ? 0 : rows->top;
}

/* The units on the screen, from the top: the pinned one, then those of the window. -1 behind the last. */
static int
unit_on_screen(const struct rows *rows, int place)
{
    if (rows->pinned < 0)
        return place < rows->shown ? rows->top + place : -1;
    if (place == 0)
        return rows->pinned;
    int unit = rows->top + place - 1;
    return place - 1 >= rows->shown ? -1 : unit + (unit >= rows->pinned);
}

struct deal {
    const struct model *model;
    const struct view  *view;
    const struct axis  *axis;
    struct rows        *rows;
    int                *levels, *most; /* of each unit on the screen: rows it has, and could have */
    int                 extra;         /* rows that are left */
    bool                contrasts;     /* there are rows between the lanes of two runs */
};

static int
most_rows(struct deal *deal, int place, int unit)
{
    const struct unit *this = &deal->rows->unit[unit];
    int lane = deal->rows->lane[this->from];
    bool one = this->kind != ROW_LANE || arrange_fold(&deal->view->arrange, lane) == FOLD_LEVELS;
    if (deal->most[place] == 0)
        deal->most[place] = one ? 1 : levels_seen(deal->model, deal->view, deal->axis, lane);
    return deal->most[place];
}

/* A level more for each lane that has one, in turn, as long as there are rows. `rank` -2: of every rank. */
static void
unfold(struct deal *deal, int rank)
{
    for (bool any = true; any && deal->extra > 0;) {
        any = false;
        for (int place = 0, unit; deal->extra > 0 && (unit = unit_on_screen(deal->rows, place)) >= 0; place++) {
            bool meant = rank == -2 || rank_at(deal->model, deal->rows, deal->rows->unit[unit].from) == rank;
            if (!meant || deal->levels[place] >= most_rows(deal, place, unit))
                continue;
            deal->levels[place]++;
            deal->extra--;
            any = true;
        }
    }
}

static void
unfold_selected(struct deal *deal)
{
    int selected = unit_of_lane(deal->rows, deal->view->lane);
    for (int place = 0, unit; (unit = unit_on_screen(deal->rows, place)) >= 0; place++) {
        if (unit != selected)
            continue;
        int more = most_rows(deal, place, unit) - 1;
        more = more < deal->extra ? more : deal->extra;
        deal->levels[place] += more;
        deal->extra -= more;
    }
}

/* Where two runs are compared, the lane of the first that is this one of the second; -1: none. */
static int
other_lane(const struct model *model, const struct unit *unit, int lane)
{
    bool compared = model->diff != NULL && unit->kind == ROW_LANE && model_lane_events(model, (size_t)lane) > 0;
    return compared ? diff_lane(model->diff, (size_t)lane) : -1;
}

/* A row between the two, for all of them or for none. */
static void
make_contrasts(struct deal *deal)
{
    int wanted = 0;
    for (int place = 0, unit; (unit = unit_on_screen(deal->rows, place)) >= 0; place++) {
        const struct unit *this = &deal->rows->unit[unit];
        wanted += other_lane(deal->model, this, deal->rows->lane[this->from]) >= 0;
    }
    deal->contrasts = wanted > 0 && wanted <= deal->extra;
    deal->extra -= deal->contrasts ? wanted : 0;
}

static void
emit_unit(struct deal *deal, int place, int unit)
{
    struct rows *rows = deal->rows;
    const struct unit *this = &rows->unit[unit];
    int lane = rows->lane[this->from], rank = rank_at(deal->model, rows, this->from), before = -2;
    int more = 0;
    if (this->kind == ROW_LANE)
        more = levels_seen(deal->model, deal->view, deal->axis, lane) - deal->levels[place];
    if (rows->count > 0 && rows->row[rows->count - 1].lane >= 0)
        before = trace_lane_at(deal->model->trace, (size_t)rows->row[rows->count - 1].lane)->rank;
    if (deal->contrasts && other_lane(deal->model, this, lane) >= 0)
        rows->row[rows->count++] = (struct row){ .kind = ROW_CONTRAST, .lane = -1, .unit = -1,
                                                 .first = other_lane(deal->model, this, lane), .last = lane };
    for (int level = 0; level < deal->levels[place]; level++)
        rows->row[rows->count++] = (struct row){ .kind = this->kind, .lane = lane, .first = level, .unit = unit,
                                                 .last = level == deal->levels[place] - 1 ? LEVELS : level,
                                                 .more = level == deal->levels[place] - 1 ? more : 0,
                                                 .heads = level == 0 && rank != before };
}

static void
emit(struct deal *deal, int room, int curves)
{
    struct rows *rows = deal->rows;
    int unit;
    for (int place = 0; (unit = unit_on_screen(rows, place)) >= 0; place++)
        emit_unit(deal, place, unit);
    if (rows->shown + (rows->pinned >= 0) < rows->units && rows->count < room)
        rows->row[rows->count++] = (struct row){ .kind = ROW_REST, .lane = -1, .unit = -1 };
    for (int i = 0; i < curves && rows->count < room; i++)
        rows->row[rows->count++] = (struct row){ .kind = ROW_CURVE, .lane = i, .unit = -1 };
}

static bool
deal_out(const struct model *model, const struct view *view, const struct axis *axis, int room, struct rows *rows)
{
    rows->pinned = view->arrange.pinned > 0 && room > 2 ? unit_of_lane(rows, view->arrange.pinned - 1) : -1;
    place_window(model, view, room, rows);
    int used = rows->shown + (rows->pinned >= 0);
    rows->row = calloc((size_t)room + 1, sizeof *rows->row);
    struct deal deal = { model, view, axis, rows, calloc(2 * (size_t)used + 2, sizeof(int)), NULL,
                         room - used - (used < rows->units), false };
    deal.most = deal.levels + used + 1;
    deal.extra = deal.extra > 0 ? deal.extra : 0;
    if (rows->row == NULL || deal.levels == NULL) {
        free(deal.levels);
        return false;
    }
    for (int i = 0; i < used; i++)
        deal.levels[i] = 1;
    make_contrasts(&deal);
    unfold_selected(&deal);
    int curves = rows_hold_curves(view) ? view->arrange.curves.count : 0;
    curves = curves < deal.extra ? curves : deal.extra;
    deal.extra -= curves;
    unfold(&deal, selected_rank(model, view));
    unfold(&deal, -2);
    emit(&deal, room, curves);
    free(deal.levels);
    return true;
}

bool
rows_deal(const struct model *model, const struct view *view, const struct axis *axis, int room, struct rows *rows)
{
    *rows = (struct rows){ .pinned = -1 };
    if (order_lanes(model, view, rows) && make_units(model, view, room, rows) &&
        deal_out(model, view, axis, room, rows))
        return true;
    rows_free(rows);
    return false;
}

void
rows_free(struct rows *rows)
{
    free(rows->row);
    free(rows->lane);
    free(rows->unit);
    *rows = (struct rows){ 0 };
}

int
rows_wanted(const struct model *model, const struct view *view, const struct axis *axis)
{
    int  wanted = rows_hold_curves(view) ? view->arrange.curves.count : 0, levels = 0;
    bool large = view->height >= DEEP && view->width >= WIDE; /* elsewhere panes come before levels */
    for (size_t i = 0; i < model->lane_count && wanted < MOST; i++) {
        if (is_hidden(model, view, (int)i))
            continue;
        bool folded = arrange_fold(&view->arrange, (int)i) == FOLD_LEVELS, selected = (int)i == view->lane;
        int  more = folded || (!selected && !large) ? 0 : levels_seen(model, view, axis, (int)i) - 1;
        wanted += 1 + (selected ? more : 0);
        levels += selected ? 0 : more;
    }
    int half = view->height / 2 - wanted;
    return wanted + (levels < half ? levels : half > 0 ? half : 0);
}

int
rows_lane_beside(const struct model *model, const struct view *view, int room, int by)
{
    struct rows rows = { .pinned = -1 };
    int lane = view->lane;
    if (order_lanes(model, view, &rows) && make_units(model, view, room, &rows) && rows.units > 0) {
        int unit = unit_of_lane(&rows, lane);
        unit = unit < 0 ? 0 : unit + by;
        unit = unit < 0 ? 0 : unit >= rows.units ? rows.units - 1 : unit;
        lane = rows.lane[rows.unit[unit].from];
    }
    rows_free(&rows);
    return lane;
}
