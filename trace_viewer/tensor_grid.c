/* Values in rows and columns. A vector is wrapped, a matrix shows its corners, more dimensions are slices.
 *
 * Interface: tensor_grid_draw, tensor_grid_rows, tensor_value_short, tensor_value_exact. */
#include "tensor_grid.h"

#include "base/dtype.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

enum { LOOKED_AT = 1024, WIDEST = 12, ELLIPSIS = 0x2026 };

/* A plane of the tensor: `rows` by `columns` elements from `first` on; wrapped: a vector in pieces of `columns`. */
struct plane { int64_t first, rows, columns, count; bool wrapped; };

/* Where cells stand. */
struct grid { int label, cell, fit; };

void
tensor_value_short(const struct seen_tensor *tensor, const void *element, char out[32])
{
    enum dtype dtype = (enum dtype)tensor->dtype;
    if (dtype == DTYPE_BOOL) {
        snprintf(out, 32, "%s", dtype_whole(dtype, element) != 0 ? "true" : "false");
        return;
    }
    if (!dtype_is_float(dtype)) {
        snprintf(out, 32, "%lld", (long long)dtype_whole(dtype, element));
        return;
    }
    double value = dtype_fraction(dtype, element), size = fabs(value);
    if (!isfinite(value))
        snprintf(out, 32, "%s", isnan(value) ? "nan" : value > 0 ? "inf" : "-inf");
    else if (size != 0 && (size >= 1e6 || size < 0.00005))
        snprintf(out, 32, "%.1e", value);
    else if (value == floor(value) && size < 1e6)
        snprintf(out, 32, "%.0f", value == 0 ? 0.0 : value);
    else
        snprintf(out, 32, "%.*f", size < 100 ? 4 : size < 10000 ? 2 : 1, value);
}

void
tensor_value_exact(const struct seen_tensor *tensor, const void *element, char out[40])
{
    enum dtype dtype = (enum dtype)tensor->dtype;
    if (dtype_is_float(dtype))
        snprintf(out, 40, "%.*g", dtype == DTYPE_F64 ? 17 : dtype == DTYPE_F32 ? 9 : 5, dtype_fraction(dtype, element));
    else
        tensor_value_short(tensor, element, out);
}

/* ---- one cell ---- */

struct value { char text[32]; bool known, odd, changed, differs; };

static void
say_change(const struct seen_tensor *tensor, const void *now, const void *then, char out[32])
{
    double is = dtype_fraction((enum dtype)tensor->dtype, now), was = dtype_fraction((enum dtype)tensor->dtype, then);
    double percent = 100 * (is - was) / fabs(was);
    if (is == was || (isnan(is) && isnan(was)))
        snprintf(out, 32, "=");
    else if (was == 0 || !isfinite(percent))
        tensor_value_short(tensor, now, out);
    else
        snprintf(out, 32, fabs(percent) < 10 ? "%+.1f%%" : fabs(percent) < 1e5 ? "%+.0f%%" : "%+.0e%%", percent);
}

static struct value
value_at(const struct tensor_sheet *sheet, int64_t index)
{
    const struct seen_tensor *tensor = sheet->tensor;
    const size_t size = dtype_size((enum dtype)tensor->dtype);
    const void  *now = seen_element(tensor, sheet->now, index);
    const void  *then = sheet->then != NULL ? seen_element(tensor, sheet->then, index) : NULL;
    const void  *other = sheet->other != NULL ? seen_element(sheet->other, sheet->other_now, index) : NULL;
    struct value value = { .text = "?", .known = now != NULL };
    if (now == NULL)
        return value;
    tensor_value_short(tensor, now, value.text);
    value.odd = dtype_is_float((enum dtype)tensor->dtype) && !isfinite(dtype_fraction((enum dtype)tensor->dtype, now));
    value.changed = then != NULL && memcmp(now, then, size) != 0;
    value.differs = other != NULL && sheet->other->dtype == tensor->dtype && memcmp(now, other, size) != 0;
    if (sheet->percent && then != NULL)
        say_change(tensor, now, then, value.text);
    return value;
}

/* ---- where things stand ---- */

static struct plane
plane_at(const struct seen_tensor *tensor, int64_t slice, int fit)
{
    struct plane plane = { .rows = 1, .columns = 1, .count = seen_count(tensor) };
    if (tensor->dims == 1) {
        plane.wrapped = true;
        plane.columns = fit < 1 ? 1 : fit;
        plane.rows = (plane.count + plane.columns - 1) / plane.columns;
    } else if (tensor->dims > 1) {
        plane.rows = tensor->size[tensor->dims - 2];
        plane.columns = tensor->size[tensor->dims - 1];
        plane.count = plane.rows * plane.columns;
    }
    plane.first = slice * (tensor->dims > 1 ? plane.count : 0);
    return plane;
}

static int
digits(int64_t number)
{
    char text[24];
    return snprintf(text, sizeof text, "%lld", (long long)number);
}

/* As wide as the widest value needs; of many values those at the edges are looked at. */
static struct grid
grid_of(const struct tensor_sheet *sheet, int width)
{
    const struct seen_tensor *tensor = sheet->tensor;
    int64_t     count = seen_count(tensor);
    struct grid grid = { .cell = 3 };
    int64_t     most = tensor->dims > 1 ? tensor->size[tensor->dims - 2] : tensor->dims == 1 ? count : 1;
    for (int64_t i = 0; i < count; i++) {
        if (count > LOOKED_AT && i == LOOKED_AT / 2)
            i = count - LOOKED_AT / 2;
        struct value value = value_at(sheet, i);
        int length = (int)strlen(value.text) + 1 + value.differs;
        grid.cell = length > grid.cell ? length : grid.cell;
    }
    grid.cell = grid.cell > WIDEST ? WIDEST : grid.cell;
    grid.label = tensor->dims > 0 && most > 1 ? digits(most - 1) + 2 : 1;
    grid.fit = (width - grid.label) / grid.cell;
    grid.fit = grid.fit < 1 ? 1 : grid.fit;
    return grid;
}

/* Of `all` those that have room: the first half of them and the last. Answers which stands at `place`; -1: an ellipsis;
 * -2: none. */
static int64_t
shown_at(int64_t all, int64_t room, int64_t place)
{
    int64_t front = room > 1 ? room / 2 : room;
    if (place >= room || place >= all)
        return -2;
    if (all <= room || place < front)
        return place;
    return place == front ? -1 : all - (room - place);
}

/* ---- drawing ---- */

static void
draw_value(const struct tensor_sheet *sheet, struct canvas *pane, struct stretch place, int64_t index)
{
    struct value value = value_at(sheet, index);
    struct style style = { .ink = value.known ? INK_PLAIN : INK_DIM };
    char text[40];
    snprintf(text, sizeof text, "%s%s", value.differs ? "x" : "", value.text);
    int length = (int)strlen(text), room = place.room - 1;
    style.attr |= value.changed ? ATTR_BOLD : 0;
    style.attr |= value.odd || value.differs ? ATTR_REVERSE : 0;
    style.attr |= index == sheet->element ? ATTR_UNDERLINE | ATTR_REVERSE : 0;
    int column = place.column + (length < place.room ? place.room - length : 1);
    if (value.changed)
        canvas_put(pane, place.row, 0, (struct style){ .ink = INK_ACCENT, .attr = ATTR_BOLD }, '+');
    canvas_cut(pane, (struct stretch){ place.row, column, length < room ? length : room }, style, text);
    if (index == sheet->element && column > 0)
        canvas_put(pane, place.row, column - 1, (struct style){ .ink = INK_ACCENT }, '>');
}

static void
draw_ellipsis(struct canvas *pane, int row, int column)
{
    canvas_put(pane, row, column, (struct style){ .ink = INK_DIM }, ELLIPSIS);
}

static void
draw_plane_row(const struct tensor_sheet *sheet, const struct plane *plane, const struct grid *grid,
               struct canvas *pane, int row, int64_t which)
{
    int64_t room = plane->columns < grid->fit ? plane->columns : grid->fit;
    if (which < 0) {
        draw_ellipsis(pane, row, grid->label > 2 ? grid->label - 2 : 1);
        for (int64_t place = 0; place < room; place++)
            draw_ellipsis(pane, row, grid->label + (int)(place + 1) * grid->cell - 1);
        return;
    }
    if (grid->label > 1)
        canvas_textf(pane, row, 1, (struct style){ .ink = INK_DIM }, "%*lld", grid->label - 2,
                     (long long)(plane->wrapped ? which * plane->columns : which));
    for (int64_t place = 0; place < room; place++) {
        int64_t column = shown_at(plane->columns, room, place), index = which * plane->columns + column;
        int     at = grid->label + (int)place * grid->cell;
        if (column < 0)
            draw_ellipsis(pane, row, at + grid->cell - 1);
        else if (index < plane->count)
            draw_value(sheet, pane, (struct stretch){ row, at, grid->cell }, plane->first + index);
    }
}

static void
draw_column_numbers(const struct plane *plane, const struct grid *grid, struct canvas *pane, int row)
{
    int64_t room = plane->columns < grid->fit ? plane->columns : grid->fit;
    for (int64_t place = 0; place < room; place++) {
        int64_t column = shown_at(plane->columns, room, place);
        int     at = grid->label + (int)(place + 1) * grid->cell;
        if (column >= 0 && digits(column) <= grid->cell)
            canvas_textf(pane, row, at - digits(column), (struct style){ .ink = INK_DIM }, "%lld", (long long)column);
    }
}

/* Of a tensor of which only the edges are known as many rows as hold them. */
static int64_t
rows_worth(const struct tensor_sheet *sheet, const struct plane *plane)
{
    int64_t front = 0, back = 0;
    if (!sheet->now->edges)
        return plane->rows;
    while (front < plane->count && seen_element(sheet->tensor, sheet->now, plane->first + front) != NULL)
        front++;
    while (back < plane->count - front &&
           seen_element(sheet->tensor, sheet->now, plane->first + plane->count - 1 - back) != NULL)
        back++;
    return (front + plane->columns - 1) / plane->columns + (back + plane->columns - 1) / plane->columns + 1;
}

static void
draw_plane(const struct tensor_sheet *sheet, const struct plane *plane, const struct grid *grid, struct canvas *pane)
{
    int  row = 0;
    bool numbered = !plane->wrapped && plane->columns > 1 && pane->height > 2 && pane->height > plane->rows;
    numbered |= !plane->wrapped && plane->columns > 1 && pane->height > 4;
    if (numbered)
        draw_column_numbers(plane, grid, pane, row++);
    int64_t room = pane->height - row, worth = rows_worth(sheet, plane);
    room = worth < room ? worth : room;
    for (int64_t place = 0; place < room; place++) {
        int64_t which = shown_at(plane->rows, room, place);
        if (which == -2)
            break;
        draw_plane_row(sheet, plane, grid, pane, row + (int)place, which);
    }
}

/* "[1, 0, :, :]" */
static void
say_slice(const struct seen_tensor *tensor, int64_t slice, char out[80])
{
    int64_t index[TENSOR_DIMS];
    int     at = 1;
    for (int d = tensor->dims - 2; d-- > 0;) {
        index[d] = tensor->size[d] > 0 ? slice % tensor->size[d] : 0;
        slice /= tensor->size[d] > 0 ? tensor->size[d] : 1;
    }
    out[0] = '[';
    for (int d = 0; d < tensor->dims - 2 && at < 60; d++)
        at += snprintf(out + at, (size_t)(80 - at), "%lld, ", (long long)index[d]);
    snprintf(out + at, (size_t)(80 - at), ":, :]");
}

static int64_t
slice_count(const struct seen_tensor *tensor)
{
    int64_t count = 1;
    for (int d = 0; d < tensor->dims - 2; d++)
        count *= tensor->size[d];
    return count;
}

static void
draw_slices(const struct tensor_sheet *sheet, const struct grid *grid, struct canvas *pane)
{
    const struct seen_tensor *tensor = sheet->tensor;
    int64_t slices = slice_count(tensor), rows = tensor->size[tensor->dims - 2];
    int     row = 0;
    for (int64_t slice = 0; slice < slices && row < pane->height; slice++) {
        char name[80];
        int  left = pane->height - row, want = rows + 1 < left ? (int)rows + 1 : left;
        if (slice + 1 < slices && want < 2) {
            canvas_textf(pane, row, 1, (struct style){ .ink = INK_DIM }, "%lld more slices",
                         (long long)(slices - slice));
            return;
        }
        if (slice + 1 < slices && want == left && left > 3)
            want--; /* room to say how many more there are */
        say_slice(tensor, slice, name);
        canvas_text(pane, row, 1, (struct style){ .ink = INK_DIM }, name);
        struct canvas part = canvas_part(pane, row + 1, 0, want - 1, pane->width);
        struct plane  plane = plane_at(tensor, slice, grid->fit);
        if (part.height > 0)
            draw_plane(sheet, &plane, grid, &part);
        row += want;
    }
}

void
tensor_grid_draw(const struct tensor_sheet *sheet, struct canvas *pane, const struct capabilities *capabilities)
{
    (void)capabilities;
    const struct seen_tensor *tensor = sheet->tensor;
    if (pane->height <= 0 || pane->width <= 2)
        return;
    if (seen_count(tensor) == 0) {
        canvas_text(pane, 0, 1, (struct style){ .ink = INK_DIM }, "no elements");
        return;
    }
    struct grid grid = grid_of(sheet, pane->width - 1);
    if (tensor->dims > 2) {
        draw_slices(sheet, &grid, pane);
        return;
    }
    struct plane plane = plane_at(tensor, 0, grid.fit);
    draw_plane(sheet, &plane, &grid, pane);
}

int
tensor_grid_rows(const struct tensor_sheet *sheet, int width, int limit)
{
    const struct seen_tensor *tensor = sheet->tensor;
    if (seen_count(tensor) == 0)
        return 1;
    struct grid  grid = grid_of(sheet, width - 1);
    struct plane plane = plane_at(tensor, 0, grid.fit);
    int64_t      rows = plane.rows + (!plane.wrapped && plane.columns > 1);
    if (tensor->dims > 2)
        rows = (rows + 1) * slice_count(tensor);
    return rows < limit ? (int)rows : limit;
}
