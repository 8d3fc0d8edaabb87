/* The rules of the screen. What goes first as space shrinks: the minimap, the third pane (it becomes a tab), the
 * panes below but for the lesson's, the ruler, lanes; never the title, the cursor's lane, the event's line and the
 * keys.
 * Interface: layout_of for a frame. */
#include "layout.h"

#include "columns.h"
#include "timeline.h"

enum { BAND_FROM = 100, PANES_FROM = 16, PANE_LEAST = 6, PAGE_ROWS = 9, BAND_ROWS = 8, QUESTION_ROWS = 14,
       LANES_LEAST = 4, NARROW = 60, WORDS_FROM = 7, WORDS_ROWS = 4 };

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
stands_at(const struct model *model, const struct view *view, const char *what)
{
    return view->cursor != NO_EVENT && model_is_lesson(model, view->cursor, what);
}

/* Lanes take what they want as long as the panes keep more than a third of the rows, or eight at least. Who is asked
 * reads the question, its choices and what is said to the answer: then lanes give way. */
static int
pane_rows(const struct model *model, const struct view *view, int height, bool wide)
{
    int  rows  = most(height / 3 + 1, PANE_LEAST);
    bool asked = stands_at(model, view, "ask");
    rows = wide ? rows : least(rows, BAND_ROWS);
    return asked ? most(rows, least(QUESTION_ROWS, height - LANES_LEAST)) : rows;
}

/* The panes below the timeline, in one band: lesson and tabs; from 100 columns and 14 rows on, the source below. */
static void
place_band(struct layout *layout, int row, int height, int width)
{
    int lesson = width * 3 / 8, upper = height;
    layout->source_apart = width >= BAND_FROM && height >= 14;
    if (layout->source_apart)
        upper = height / 2;
    layout->lesson = (struct box){ row, 0, upper, lesson };
    layout->inspector = (struct box){ row, lesson, upper, width - lesson };
    if (layout->source_apart)
        layout->source = (struct box){ row + upper, 0, height - upper, width };
}

static void
place_side(struct layout *layout, int row, int height, int left, int width)
{
    int upper = height * 2 / 5;
    layout->lesson = (struct box){ row, left, upper, width };
    layout->source = (struct box){ row + upper, left, height - upper, width };
    layout->source_apart = true;
}

/* The inspector, and below it as many further pages as have a dozen rows each. */
static void
place_pages(struct layout *layout, struct box band)
{
    int count = band.height / PAGE_ROWS < 1 ? 1 : band.height / PAGE_ROWS > 3 ? 3 : band.height / PAGE_ROWS;
    int rows = band.height / count;
    layout->inspector = (struct box){ band.row, 0, count == 1 ? band.height : rows, band.width };
    for (int i = 1; i < count; i++)
        layout->more[i - 1] = (struct box){ band.row + i * rows, 0, i == count - 1 ? band.height - i * rows : rows,
                                            band.width };
}

/* No room for panes side by side: the lesson's words below the lanes; where they are new, one lane stays. */
static void
place_words(struct layout *layout, const struct model *model, const struct view *view, struct box room)
{
    bool spoken = stands_at(model, view, "ask") || stands_at(model, view, "say") || stands_at(model, view, "begin");
    int  rows   = spoken ? room.height - 1 : room.height >= WORDS_FROM ? WORDS_ROWS : 0;
    if (!spoken && room.height >= 5) {
        layout->ruler = (struct box){ room.row, 0, 1, room.width };
        room.row++, room.height--;
    }
    layout->timeline = (struct box){ room.row, 0, room.height - rows, room.width };
    layout->lesson   = (struct box){ room.row + room.height - rows, 0, rows, room.width };
}

/* The focused pane alone between title and keys. */
static void
place_full(struct layout *layout, const struct view *view, int row, int height, int width)
{
    struct box box = { row, 0, height, width };
    layout->source_apart = view->focus == PANE_SOURCE;
    if (view->focus == PANE_TIMELINE && height >= 3) {
        layout->ruler = (struct box){ row, 0, 1, width };
        layout->timeline = (struct box){ row + 1, 0, height - 1, width };
    } else if (view->focus == PANE_LESSON) {
        layout->lesson = box;
    } else if (view->focus == PANE_SOURCE) {
        layout->source = box;
    } else {
        layout->inspector = box;
    }
}

static void
place_parts(struct layout *layout, const struct model *model, const struct view *view, struct box room)
{
    int row = room.row, height = room.height, width = room.width;
    int wanted = timeline_wanted(model, view), side = columns_of_side(width), left = width - side;
    if (height < PANES_FROM - 2) {
        place_words(layout, model, view, room);
        return;
    }
    if (side > 0 && height >= PANES_FROM) {
        place_side(layout, row, height, left, side);
        width = left;
    }
    layout->ruler = (struct box){ row++, 0, 1, width };
    layout->minimap = (struct box){ row++, 0, 1, width };
    height -= 2;
    bool wide = layout->source_apart || width >= BAND_FROM;
    int lanes = least(wanted, height - pane_rows(model, view, height, wide));
    struct box band = { row + lanes, 0, height - lanes, width };
    if (layout->source_apart)
        place_pages(layout, band);
    else if (width < NARROW && stands_at(model, view, "ask"))
        layout->lesson = band;
    else
        place_band(layout, band.row, band.height, width);
    layout->timeline = (struct box){ row, 0, lanes, width };
}

struct layout
layout_of(const struct model *model, const struct view *view, int width, int height)
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
    if (view->full)
        place_full(&layout, view, row, rows, width);
    else
        place_parts(&layout, model, view, (struct box){ row, 0, rows, width });
    return layout;
}
