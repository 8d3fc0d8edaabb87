/* Shares and numbers drawn in one row. Interface: shade_lanes, shade_curve. */
#include "shade.h"

#include "moment.h"
#include "trace/reader.h"

#include <stdlib.h>

enum { LIGHT = 0x2591, FULL = 0x2588, DASHES = 0x254c, LOWEST = 0x2581, ASKED = 32 };

static void
put_share(const struct share *share, uint64_t whole, struct canvas *body, int row, int column)
{
    static const uint32_t shades[] = { LIGHT, LIGHT, LIGHT + 1, LIGHT + 2, FULL };
    struct style style = { .ink = share->work };
    if (!share->touched)
        return;
    uint32_t code = share->busy == 0 ? DASHES : shades[(__uint128_t)share->busy * 4 / (whole > 0 ? whole : 1)];
    if (share->busy == 0)
        style.ink = INK_DIM;
    canvas_put(body, row, column, style, code);
}

/* Of very many lanes some, evenly chosen, are asked. */
void
shade_lanes(const struct model *model, const struct view *view, const struct axis *axis, const int *lanes, int count,
            struct canvas *body, int row)
{
    int step = count / ASKED + 1, asked = (count + step - 1) / step;
    for (int column = 0; column < axis->columns && count > 0; column++) {
        uint64_t from = axis_time(axis, column), to = axis_time(axis, column + 1);
        struct share share = { 0 };
        for (int i = 0; i < count; i += step) {
            uint64_t shift = align_shift(&view->arrange.align, trace_lane_at(model->trace, (size_t)lanes[i])->rank);
            if (to > shift)
                share_add(&share, model, &view->veil, lanes[i], from > shift ? from - shift : 0, to - shift);
        }
        put_share(&share, (to - from) * (uint64_t)asked, body, row, column);
    }
}

int64_t
shade_curve(const struct curve *curve, const struct axis *axis, uint64_t limit, struct canvas *body, int row)
{
    int64_t *most = malloc((size_t)axis->columns * sizeof *most);
    if (most == NULL) {
        canvas_starve(body);
        return 0;
    }
    int64_t top = curve_columns(curve, axis, limit, most);
    for (int column = 0; column < axis->columns; column++)
        if (most[column] > 0) {
            uint32_t height = (uint32_t)((__uint128_t)most[column] * 7 / (uint64_t)(top > 0 ? top : 1));
            canvas_put(body, row, column, (struct style){ .ink = WORK_COPY }, LOWEST + height);
        }
    free(most);
    return top;
}
