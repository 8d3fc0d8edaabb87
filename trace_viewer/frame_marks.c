/* Interface: marks_draw, once ruler and minimap are drawn. */
#include "frame_marks.h"

#include "columns.h"
#include "trace/reader.h"
#include "window.h"

#include <ctype.h>

static void
draw_letter(struct canvas *canvas, const struct box *box, int column, char letter)
{
    int gutter = columns_of_names(box->width);
    struct canvas row = canvas_part(canvas, box->row, box->column + gutter, box->height, box->width - gutter);
    const struct cell *cell = row.height > 0 ? canvas_at(&row, 0, column) : NULL;
    if (cell != NULL && !(cell->code < 128 && isalnum((int)cell->code))) /* not into words */
        canvas_put(&row, 0, column, (struct style){ .ink = INK_ACCENT, .attr = ATTR_BOLD }, (uint32_t)letter);
}

void
marks_draw(const struct scene *scene, const struct layout *layout, struct canvas *canvas)
{
    const struct model *model = scene->model;
    const struct view  *view = scene->view;
    int          columns = layout->ruler.width - columns_of_names(layout->ruler.width);
    size_t       seq;
    char         letter;
    if (columns <= 0)
        return;
    struct axis  axis;
    window_axis(model, view, columns, &axis);
    struct scale whole = { .unit = scale_unit_for(model->end, columns), .columns = columns };
    for (int i = 0; marks_take(&view->marks, i, &letter, &seq); i++) {
        if (seq >= model->seen || veil_hides(&view->veil, model, seq))
            continue;
        uint64_t time = trace_time(model->trace, seq);
        if (layout->ruler.height > 0)
            draw_letter(canvas, &layout->ruler, axis_column(&axis, window_shown(model, view, seq)), letter);
        if (layout->minimap.height > 0)
            draw_letter(canvas, &layout->minimap, scale_column(&whole, time), letter);
    }
}
