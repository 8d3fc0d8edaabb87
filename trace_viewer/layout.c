/* The rules of the screen. What goes first as space shrinks: further panes (they become tabs), the source's own place,
 * the minimap, the panes below but for the lesson's, the ruler, lanes; never the title, the cursor's lane, the event's
 * line and the keys. What a larger screen has more becomes panes, and where there is nothing more to show, larger ones.
 * Interface: layout_of for a frame, layout_slot. */
#include "layout.h"

#include "columns.h"
#include "timeline.h"

enum { PANES_FROM = 16, PANE_LEAST = 6, GRID_ROWS = 10, BAND_ROWS = 8, BAND_TAKEN = 12, QUESTION_ROWS = 14,
       PREDICT_ROWS = 11,
       LANES_LEAST = 4, NARROW = 60, WIDE = 100, WORDS_FROM = 7, WORDS_ROWS = 4, COLUMN_LEAST = 28, LISTING = 80,
       GRID_MOST = 12, MEASURE_FROM = 44, OPEN_COLUMNS = 50 };

static int
least(int a, int b)
{
    return a < b ? a : b;
}

static int
most(int a, int b)
{
    return a > b ? a : b;
}

static bool
stands_at(const struct scene *scene, const char *what)
{
    return scene->view->cursor != NO_EVENT && model_is_lesson(scene->model, scene->view->cursor, what);
}

const struct slot *
layout_slot(const struct layout *layout, enum pane pane)
{
    for (int i = 0; i < layout->slot_count; i++)
        if (layout->slots[i].pane == pane && layout->slots[i].box.height > 0)
            return &layout->slots[i];
    return NULL;
}

static void
add_slot(struct layout *layout, enum pane pane, struct box box)
{
    if (layout->slot_count < SLOTS && box.height > 0 && box.width > 0)
        layout->slots[layout->slot_count++] = (struct slot){ .box = box, .pane = pane };
}

static void
add_changing(struct layout *layout, const struct scene *scene, struct box box)
{
    add_slot(layout, pane_open(scene), box);
    if (layout->slot_count > 0)
        layout->slots[layout->slot_count - 1].changes = true;
}

/* The pane that has all of the bottom at this event. */
static bool
takes_band(const struct scene *scene)
{
    enum pane open = pane_open(scene);
    return pane_kind(open)->takes_band && pane_concern(scene, open) == CONCERN_EVENT;
}

/* Lanes take what they want as long as the panes keep more than a third of the rows, or eight at least. Who is asked
 * reads the question, its choices and what is said to the answer: then lanes give way. */
static int
pane_rows(const struct scene *scene, int height, bool wide)
{
    int  rows  = most(height / 3 + 1, PANE_LEAST);
    bool asked = stands_at(scene, "ask");
    rows = wide ? rows : least(rows, BAND_ROWS);
    if (takes_band(scene))
        return most(rows, least(BAND_TAKEN, height - LANES_LEAST));
    int wanted = asked ? QUESTION_ROWS : scene->view->predict.on ? PREDICT_ROWS : 0; /* on, not asking: no jumps */
    return most(rows, least(wanted, height - LANES_LEAST));
}

/* Which panes fill `room` places beside the lesson and the source: in the list's order those that have something to
 * say, so that each keeps its place from step to step, and last the one that changes. */
static int
pick_panes(const struct scene *scene, const struct layout *layout, int room, enum pane *picked)
{
    enum pane open = pane_open(scene);
    int       count = 0;
    bool      there = layout_slot(layout, open) != NULL;
    for (int pane = PANE_SOURCE + 1; pane < PANE_COUNT && count < room; pane++) {
        bool shown = layout_slot(layout, (enum pane)pane) != NULL;
        if (shown || pane_concern(scene, (enum pane)pane) == CONCERN_NONE)
            continue;
        picked[count++] = (enum pane)pane;
        there |= picked[count - 1] == open;
    }
    if (!there && count > 0)
        picked[count - 1] = open;
    return count;
}

/* The pane that belongs to the event has as much room on a large screen as on a small one, where it stands alone. */
static int
columns_of(const struct scene *scene, enum pane pane)
{
    int columns = pane_kind(pane)->least_columns;
    return pane == pane_open(scene) ? most(columns, OPEN_COLUMNS) : columns;
}

/* How many of the panes go side by side into a row that wide. */
static int
fill_row(const struct scene *scene, const enum pane *panes, int count, int width)
{
    int taken = 0, columns = 0;
    for (; taken < count; taken++) {
        columns += columns_of(scene, panes[taken]);
        if (columns > width)
            break;
    }
    return taken;
}

static bool
is_among(const enum pane *panes, int count, enum pane pane)
{
    for (int i = 0; i < count; i++)
        if (panes[i] == pane)
            return true;
    return false;
}

/* A row of panes, each as wide as its need is large. */
static void
place_row(struct layout *layout, const struct scene *scene, struct box row, const enum pane *panes, int count)
{
    int all = 0, before = 0;
    for (int i = 0; i < count; i++)
        all += columns_of(scene, panes[i]);
    for (int i = 0; i < count; i++) {
        int left = row.width * before / all;
        before += columns_of(scene, panes[i]);
        int right = row.width * before / all;
        add_slot(layout, panes[i], (struct box){ row.row, row.column + left, row.height, right - left });
    }
}

/* Panes side by side in as many rows as there is room for; the last one changes. */
static void
place_grid(struct layout *layout, const struct scene *scene, struct box band)
{
    enum pane picked[GRID_MOST];
    int in_row[GRID_MOST], rows = 0, first = layout->slot_count, from = 0;
    int columns = most(1, band.width / COLUMN_LEAST), deep = most(1, band.height / GRID_ROWS);
    int count = pick_panes(scene, layout, least(GRID_MOST, columns * deep), picked);
    for (; rows < deep && from < count; rows++) {
        in_row[rows] = most(1, fill_row(scene, picked + from, count - from, band.width));
        from += in_row[rows];
    }
    enum pane open = pane_open(scene);
    bool      there = layout_slot(layout, open) != NULL || is_among(picked, from, open);
    if (from < count && from > 0 && !there) { /* in the last row, where others become tabs */
        int first_of_row = from - in_row[rows - 1];
        int beside = fill_row(scene, picked + first_of_row, in_row[rows - 1],
                              band.width - columns_of(scene, open));
        picked[first_of_row + beside] = open;
        in_row[rows - 1] = beside + 1;
    }
    for (int row = 0, at = 0; row < rows; at += in_row[row++]) {
        int top = band.height * row / rows, below = band.height * (row + 1) / rows;
        place_row(layout, scene, (struct box){ band.row + top, band.column, below - top, band.width }, picked + at,
                  in_row[row]);
    }
    if (layout->slot_count > first)
        layout->slots[layout->slot_count - 1].changes = true;
}

/* The panes below the timeline, in one band: lesson and tabs; from 100 columns and 14 rows on others and the source. */
static void
place_band(struct layout *layout, const struct scene *scene, struct box band)
{
    bool deep  = band.width >= WIDE && band.height >= 14;
    int  upper = deep ? band.height / 2 : band.height;
    int  lesson = deep ? band.width / 3 : band.width * 3 / 8;
    add_slot(layout, PANE_LESSON, (struct box){ band.row, 0, upper, lesson });
    struct box right = { band.row, lesson, upper, band.width - lesson };
    if (!deep) {
        add_changing(layout, scene, right);
        return;
    }
    add_slot(layout, PANE_SOURCE, (struct box){ band.row + upper, 0, band.height - upper, band.width });
    place_grid(layout, scene, right);
}

/* The column at the right of wide screens: the lesson, and the source if a listing's lines have room there. */
static void
place_side(struct layout *layout, struct box side)
{
    bool listing = side.width >= LISTING;
    int  upper   = listing ? side.height * 2 / 5 : side.height;
    add_slot(layout, PANE_LESSON, (struct box){ side.row, side.column, upper, side.width });
    if (listing)
        add_slot(layout, PANE_SOURCE, (struct box){ side.row + upper, side.column, side.height - upper, side.width });
}

/* The rows at the foot of a wide screen that go across all of it: a pane that takes them, or the source, where the side
 * has no room for its lines. */
static int
foot_rows(const struct scene *scene, int rows, int side)
{
    if (takes_band(scene))
        return rows >= 2 * BAND_TAKEN ? most(BAND_TAKEN, rows / 2) : rows;
    return side >= LISTING || rows < 2 * PANE_LEAST ? 0 : rows / 2;
}

/* Below the timeline of a wide screen: panes, and under them the source, if `foot` has rows. */
static void
place_below(struct layout *layout, const struct scene *scene, struct box band, struct box foot)
{
    add_slot(layout, PANE_SOURCE, foot);
    band.height -= foot.height;
    place_grid(layout, scene, band);
}

/* One pane over the whole width; what a deep band has left above it goes to the others. */
static void
place_taken(struct layout *layout, const struct scene *scene, struct box band, struct box taken)
{
    int rest = band.height - taken.height;
    add_changing(layout, scene, taken);
    band.height = rest;
    int foot = layout_slot(layout, PANE_SOURCE) == NULL && rest >= 2 * PANE_LEAST ? rest / 2 : 0;
    if (rest > 0)
        place_below(layout, scene, band, (struct box){ band.row + rest - foot, band.column, foot, band.width });
}

/* No room for panes side by side: the lesson's words below the lanes; where they are new, one lane stays. */
static void
place_words(struct layout *layout, const struct scene *scene, struct box room)
{
    bool spoken = stands_at(scene, "ask") || stands_at(scene, "say") || stands_at(scene, "begin") || takes_band(scene);
    int  rows   = spoken ? room.height - 1 : room.height >= WORDS_FROM ? WORDS_ROWS : 0;
    if (!spoken && room.height >= 5) {
        layout->ruler = (struct box){ room.row, 0, 1, room.width };
        room.row++, room.height--;
    }
    layout->timeline = (struct box){ room.row, 0, room.height - rows, room.width };
    struct box words = { room.row + room.height - rows, 0, rows, room.width };
    if (takes_band(scene))
        add_changing(layout, scene, words);
    else
        add_slot(layout, PANE_LESSON, words);
}

/* The focused pane alone between title and keys. */
static void
place_full(struct layout *layout, const struct scene *scene, struct box room)
{
    enum pane focus = scene->view->focus;
    if (focus == PANE_TIMELINE) {
        layout->ruler    = (struct box){ room.row, 0, room.height >= 3, room.width };
        layout->timeline = (struct box){ room.row + layout->ruler.height, 0, room.height - layout->ruler.height,
                                         room.width };
        return;
    }
    add_slot(layout, focus, room);
}

/* What the lesson has said since the last step and has no room beside others has the whole width, and lanes give way:
 * who only goes on reads all of it. false: it has room, or another pane has the keys. */
static bool
place_news(struct layout *layout, const struct scene *scene, struct box room, struct box band)
{
    enum pane focus = scene->view->focus;
    int beside = room.width >= WIDE ? room.width / 3 : room.width * 3 / 8;
    int height = room.width >= WIDE && band.height >= 14 ? band.height / 2 : band.height;
    if (lesson_new_rows(scene, beside) <= height - 1 || (focus != PANE_TIMELINE && focus != PANE_LESSON))
        return false;
    int rows  = least(lesson_new_rows(scene, room.width) + 1, room.height - 1);
    int lanes = least(layout->timeline.height, room.height - rows);
    layout->timeline.height = lanes;
    add_slot(layout, PANE_LESSON, (struct box){ room.row + lanes, 0, room.height - lanes, room.width });
    return true;
}

/* The measure has a row of its own under the ruler while one measures, on a tall screen always. */
static int
ruler_rows(const struct scene *scene, int height)
{
    return height >= MEASURE_FROM || (height >= PANES_FROM && scene->view->measure != NO_EVENT) ? 2 : 1;
}

/* For a projector: the cursor's lane, twice as high, the lesson's words, and below them the pane that follows. */
static void
place_teaching(struct layout *layout, const struct scene *scene, struct box room)
{
    int  lanes = room.height >= PANES_FROM - 4 ? 2 : 1, left = room.height - lanes;
    bool alone = pane_open(scene) == PANE_LESSON || left < 2 * PANE_LEAST || stands_at(scene, "ask");
    int  words = alone ? left : left / 2;
    layout->timeline = (struct box){ room.row, 0, lanes, room.width };
    add_slot(layout, PANE_LESSON, (struct box){ room.row + lanes, 0, words, room.width });
    if (!alone)
        add_changing(layout, scene, (struct box){ room.row + lanes + words, 0, left - words, room.width });
}

static void
place_parts(struct layout *layout, const struct scene *scene, struct box room)
{
    int side = room.height >= PANES_FROM ? columns_of_side(room.width) : 0;
    if (room.height < PANES_FROM - 2) {
        place_words(layout, scene, room);
        return;
    }
    const struct box whole = room;
    room.width -= side;
    layout->ruler   = (struct box){ room.row, 0, ruler_rows(scene, room.height), room.width };
    layout->minimap = (struct box){ room.row + layout->ruler.height, 0, 1, room.width };
    room.row    += layout->ruler.height + 1;
    room.height -= layout->ruler.height + 1;
    bool wide  = side > 0 || room.width >= WIDE;
    int  lanes = least(timeline_wanted(scene->model, scene->view), room.height - pane_rows(scene, room.height, wide));
    struct box band = { room.row + lanes, 0, room.height - lanes, room.width };
    layout->timeline = (struct box){ room.row, 0, lanes, room.width };
    int foot = side > 0 ? foot_rows(scene, band.height, side) : 0;
    if (side > 0)
        place_side(layout, (struct box){ whole.row, room.width, whole.height - foot, side });
    const struct box across = { band.row + band.height - foot, 0, foot, whole.width };
    if (takes_band(scene))
        place_taken(layout, scene, band, side > 0 ? across : band);
    else if (side > 0)
        place_below(layout, scene, band, across);
    else if (room.width < NARROW && stands_at(scene, "ask"))
        add_slot(layout, PANE_LESSON, band);
    else if (place_news(layout, scene, room, band))
        return;
    else
        place_band(layout, scene, band);
}

struct layout
layout_of(const struct scene *scene, int width, int height)
{
    struct layout layout = { .title = { 0, 0, height > 0, width } };
    int row = 1, rows = height - 1;
    if (width < 40 || height < 8) {
        layout.words_only = true;
        return layout;
    }
    layout.keys = (struct box){ height - 1, 0, 1, width };
    layout.event = (struct box){ height - 2, 0, 1, width };
    rows -= 2;
    if (height >= 10) {
        layout.message = (struct box){ height - 3, 0, 1, width };
        rows--;
    }
    /* The message stands above the keys, the event above the message. */
    if (layout.message.height > 0) {
        layout.event.row = height - 3;
        layout.message.row = height - 2;
    }
    if (scene->view->teaches && !scene->view->full)
        place_teaching(&layout, scene, (struct box){ row, 0, rows, width });
    else if (scene->view->full)
        place_full(&layout, scene, (struct box){ row, 0, rows, width });
    else
        place_parts(&layout, scene, (struct box){ row, 0, rows, width });
    return layout;
}
