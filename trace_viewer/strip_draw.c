/* How the cells of a timeline row look: with colour and UTF-8 exact to an eighth of a cell, else as runs with
 * letters. Interface: strip_draw, after strip_paint. */
#include "strip.h"

#include "base/str.h"

enum {
    BULLET = 0x2022, DISC = 0x25cf, CROSS = 0x00d7, DASHES = 0x254c, HAIRLINE = 0x258f, HAIRLINES = 0x250a,
    LIGHT_SHADE = 0x2591, FULL_BLOCK = 0x2588, RIGHT_HALF = 0x2590, LEFT_HALF = 0x258c, BAR = 0x2502,
    ARROW_LEFT = 0x25c4,
    LEGIBLE_RUN = 3, LEGIBLE_LABEL = 3
};

/* Spans that have a body; waits are only a line. */
static uint8_t
body(const struct span *span)
{
    return span == NULL || span->work == WORK_WAIT ? (uint8_t)WORK_NONE : span->work;
}

/* More than two spans, so that pieces of two would be a lie. */
static bool
crowded(const struct strip_cell *cell)
{
    return cell->tiny > 0 && (cell->left == NULL || cell->left != cell->right);
}

/* Which span a cell is counted to where it cannot be divided. */
static const struct span *
owner(const struct strip_cell *cell)
{
    if (crowded(cell))
        return NULL;
    if (cell->left == NULL || cell->right == NULL)
        return cell->left != NULL ? cell->left : cell->right;
    return cell->cut >= 4 ? cell->left : cell->right;
}

/* A cell in which nothing is long enough to have a piece of its own. */
static void
draw_small(const struct strip_cell *cell, uint64_t unit, struct canvas *canvas, int row, int column)
{
    struct style style = { .ink = cell->tiny > 0 ? cell->work : cell->mark_work };
    uint32_t code = cell->marks > 1 ? DISC : BULLET;
    if (cell->tiny > 0) {
        uint64_t share = cell->busy >= unit ? 8 : cell->busy * 8 / unit;
        code = share >= 7 ? FULL_BLOCK : LIGHT_SHADE + (uint32_t)(share >= 5 ? 2 : share >= 3 ? 1 : 0);
        if (share < 1)
            code = cell->tiny == 1 ? HAIRLINE : HAIRLINES;
        if (cell->mixed)
            style.attr |= ATTR_UNDERLINE;
    }
    canvas_put(canvas, row, column, style, code);
}

/* Two pieces in one cell, or one that does not fill it: a block of `cut` eighths. */
static void
draw_pieces(const struct strip_cell *cell, struct canvas *canvas, int row, int column)
{
    uint8_t left = body(cell->left), right = body(cell->right);
    uint32_t block = RIGHT_HALF - cell->cut; /* U+258F is one eighth, U+2589 seven */
    if (left == WORK_NONE && right == WORK_NONE)
        canvas_put(canvas, row, column, (struct style){ .ink = WORK_WAIT }, DASHES);
    else if (left == right)
        canvas_put(canvas, row, column, (struct style){ .ink = INK_BLACK, .paper = left }, HAIRLINE);
    else if (left == WORK_NONE)
        canvas_put(canvas, row, column, (struct style){ .ink = right, .attr = ATTR_REVERSE }, block);
    else
        canvas_put(canvas, row, column, (struct style){ .ink = left, .paper = right }, block);
}

static void
draw_exact(const struct strip *strip, struct canvas *canvas, int row)
{
    const struct span *before = NULL;
    for (int column = 0; column < strip->scale.columns; column++) {
        const struct strip_cell *cell = &strip->cells[column];
        const struct span *span = cell->left == cell->right ? cell->left : NULL;
        if (span != NULL && span->work == WORK_WAIT)
            canvas_put(canvas, row, column, (struct style){ .ink = WORK_WAIT }, DASHES);
        else if (span != NULL && before != NULL && before != span && before->work == span->work)
            canvas_put(canvas, row, column, (struct style){ .ink = INK_BLACK, .paper = span->work }, HAIRLINE);
        else if (span != NULL)
            canvas_put(canvas, row, column, (struct style){ .ink = INK_BLACK, .paper = span->work }, ' ');
        else if (!crowded(cell) && (cell->left != NULL || cell->right != NULL))
            draw_pieces(cell, canvas, row, column);
        else if (cell->tiny > 0 || cell->marks > 0)
            draw_small(cell, strip->scale.unit, canvas, row, column);
        before = cell->left == cell->right ? cell->left : cell->right;
    }
}

/* Without blocks of eighths: brackets around what is wide enough, letters for what is not. */
static void
draw_run(const struct strip *strip, struct canvas *canvas, struct stretch run, const struct capabilities *capabilities)
{
    int row = run.row, from = run.column, to = run.column + run.room;
    const struct span *span = owner(&strip->cells[from]);
    struct style style = { .ink = INK_PLAIN };
    uint32_t fill = capabilities->utf8 ? work_fill(span->work) : (uint32_t)work_letter(span->work);
    if (capabilities_fill(capabilities) && span->work != WORK_WAIT)
        style = (struct style){ .ink = INK_BLACK, .paper = span->work };
    bool whole = to - from >= LEGIBLE_RUN && span->work != WORK_WAIT;
    for (int column = from; column < to; column++) {
        uint32_t code = to - from < LEGIBLE_RUN && span->work != WORK_WAIT ? (uint32_t)work_letter(span->work) : fill;
        if (to - from == 2 && column == from + 1 && span->work != WORK_WAIT)
            code = capabilities->utf8 ? LEFT_HALF : ']';
        if (whole && column == from)
            code = capabilities->utf8 ? RIGHT_HALF : '[';
        if (whole && column == to - 1)
            code = capabilities->utf8 ? LEFT_HALF : ']';
        canvas_put(canvas, row, column, style, code);
    }
}

static void
draw_runs(const struct strip *strip, struct canvas *canvas, int row, const struct capabilities *capabilities)
{
    for (int column = 0; column < strip->scale.columns; column++) {
        const struct strip_cell *cell = &strip->cells[column];
        const struct span *span = owner(cell);
        int end = column + 1;
        if (span != NULL) {
            while (end < strip->scale.columns && owner(&strip->cells[end]) == span)
                end++;
            draw_run(strip, canvas, (struct stretch){ row, column, end - column }, capabilities);
            column = end - 1;
        } else if (cell->tiny > 0 && cell->mixed) {
            canvas_put(canvas, row, column, (struct style){ .attr = ATTR_UNDERLINE },
                       capabilities->utf8 ? LIGHT_SHADE : '%');
        } else if (cell->tiny > 0 && cell->busy * 8 >= strip->scale.unit) {
            canvas_put(canvas, row, column, (struct style){ 0 }, (uint32_t)work_letter(cell->work));
        } else if (cell->tiny > 0 || cell->marks > 0) {
            draw_small(cell, strip->scale.unit, canvas, row, column);
        }
    }
}

/* The label of the run of cells that a span has to itself; over the window's left edge it says that it goes on. */
static void
draw_label(const struct strip *strip, struct canvas *canvas, struct stretch run, struct style style, bool exact)
{
    int row = run.row, from = run.column, to = run.column + run.room;
    const struct span *span = owner(&strip->cells[from]);
    uint32_t fill = span->work == WORK_WAIT ? (uint32_t)DASHES : work_fill((enum work)span->work);
    struct str label = { 0 };
    model_label(strip->model, span->seq, &label);
    if (from <= 1 && span->begin < scale_time(&strip->scale, 0) && to - from > 6) {
        canvas_put(canvas, row, from, style, ARROW_LEFT);
        from += 2;
    }
    if (exact && (int)label.len + 2 <= to - from)
        from++;
    int end = canvas_cut(canvas, (struct stretch){ row, from, to - from }, style, canvas_words(canvas, &label));
    for (int column = from; column < end && style.paper == WORK_NONE; column++)
        if (canvas_at(canvas, row, column)->code == ' ') /* no cell lies: where there is no paper a blank is filled */
            canvas_put(canvas, row, column, style, fill);
    str_free(&label);
}

/* Two waits meet left of that column: they have no edge, so the words of one end before those of the next. */
static bool
are_waits(const struct strip *strip, int column)
{
    const struct span *left = owner(&strip->cells[column - 1]);
    const struct span *right = column < strip->scale.columns ? owner(&strip->cells[column]) : NULL;
    return left != NULL && right != NULL && left->work == WORK_WAIT && right->work == WORK_WAIT;
}

static void
draw_labels(const struct strip *strip, struct canvas *canvas, int row, const struct capabilities *capabilities)
{
    bool exact = capabilities->utf8 && capabilities_fill(capabilities);
    for (int column = 0; column < strip->scale.columns;) {
        const struct span *span = owner(&strip->cells[column]);
        int end = column + 1;
        while (end < strip->scale.columns && owner(&strip->cells[end]) == span)
            end++;
        int from = column, to = end;
        if (exact && strip->cells[from].left != strip->cells[from].right)
            from++;
        if (exact && strip->cells[to - 1].left != strip->cells[to - 1].right)
            to--;
        const struct cell *first = canvas_at(canvas, row, from);
        if (!exact || (first != NULL && first->code == HAIRLINE)) {
            from++;
            to -= exact ? 0 : 1;
        }
        if (to == end && to - from > LEGIBLE_LABEL && are_waits(strip, end))
            to--;
        bool selected = span != NULL && strip->cursor_here && span->seq == strip->selected;
        struct style style = { .attr = selected ? ATTR_BOLD | ATTR_UNDERLINE : 0 };
        if (span != NULL && capabilities_fill(capabilities)) {
            style.ink = span->work == WORK_WAIT ? INK_DIM : INK_BLACK;
            style.paper = body(span);
        }
        if (span != NULL && to - from >= LEGIBLE_LABEL)
            draw_label(strip, canvas, (struct stretch){ row, from, to - from }, style, exact);
        column = end;
    }
}

/* The selected span in brackets and bold, a selected mark as a bold dot: not by colour alone. */
static void
draw_selection(const struct strip *strip, struct canvas *canvas, int row, const struct capabilities *capabilities)
{
    const struct span *span = strip->chosen;
    int from = -1, to = -1;
    uint8_t work = (uint8_t)model_work(strip->model, strip->selected);
    if (span != NULL) {
        uint64_t end = span->end != STILL_OPEN ? span->end : strip->model->end;
        from = scale_column(&strip->scale, span->begin);
        to = scale_column(&strip->scale, end > span->begin ? end - 1 : end);
        work = span->work;
    }
    if (span == NULL || from == to) {
        int at = span == NULL ? strip->cursor : from;
        const struct cell *cell = at >= 0 ? canvas_at(canvas, row, at) : NULL;
        if (cell == NULL)
            return;
        struct style style = cell->style;
        style.attr |= ATTR_BOLD | (style.paper == WORK_NONE ? 0 : ATTR_REVERSE);
        uint32_t code = span != NULL ? (uint32_t)work_letter((enum work)work) : capabilities->utf8 ? BULLET : '*';
        canvas_put(canvas, row, at, style, strip->cells[at].fault ? cell->code : code);
        return;
    }
    uint8_t paper = capabilities_fill(capabilities) ? work : 0;
    struct style style = { .ink = paper, .attr = ATTR_BOLD };
    canvas_put(canvas, row, from, style, capabilities->utf8 ? RIGHT_HALF : '<');
    canvas_put(canvas, row, to, style, capabilities->utf8 ? LEFT_HALF : '>');
}

void
strip_draw(const struct strip *strip, struct canvas *canvas, int row, const struct capabilities *capabilities)
{
    if (strip->starved)
        canvas_starve(canvas);
    if (capabilities->utf8 && capabilities_fill(capabilities))
        draw_exact(strip, canvas, row);
    else
        draw_runs(strip, canvas, row, capabilities);
    draw_labels(strip, canvas, row, capabilities);
    if (strip->cursor_here)
        draw_selection(strip, canvas, row, capabilities);
    for (int column = 0; column < strip->scale.columns; column++)
        if (strip->cells[column].fault)
            canvas_put(canvas, row, column, (struct style){ .ink = WORK_FAULT, .attr = ATTR_REVERSE | ATTR_BOLD },
                       capabilities->utf8 ? CROSS : '!');
}
