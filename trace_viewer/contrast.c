/* Interface: contrast_draw. */
#include "contrast.h"

#include "analysis/diff.h"
#include "trace/reader.h"

#include <stdlib.h>

enum { NOISE = 20 /* a twentieth */ };

static void
paint(struct strip *strip, size_t lane)
{
    strip->lane        = lane;
    strip->first       = 0;
    strip->last        = LEVELS;
    strip->cursor_here = false;
    strip_paint(strip);
}

/* The stage that a cell shows; NO_EVENT: none. */
static size_t
stage_of(const struct strip_cell *cell)
{
    const struct span *span = cell->right != NULL ? cell->right : cell->left;
    return span != NULL ? span->seq : NO_EVENT;
}

static uint64_t
length_of(const struct model *model, size_t begin)
{
    size_t end = model_partner(model, begin);
    return end == NO_EVENT ? 0 : trace_time(model->trace, end) - trace_time(model->trace, begin);
}

static char
sign_of(const struct model *model, size_t first, size_t second)
{
    if (first == NO_EVENT && second == NO_EVENT)
        return ' ';
    size_t other = diff_partner(model->diff, first != NO_EVENT ? first : second);
    if (other == SIZE_MAX)
        return first != NO_EVENT ? '-' : '+';
    uint64_t a = length_of(model, first != NO_EVENT ? first : other);
    uint64_t b = length_of(model, first != NO_EVENT ? other : second);
    if (a > b)
        return a - b > a / NOISE ? '>' : '=';
    return b - a > b / NOISE ? '<' : '=';
}

static struct style
style_of(char sign)
{
    if (sign == '=')
        return (struct style){ .ink = INK_DIM };
    return (struct style){ .ink = sign == '-' || sign == '+' ? INK_ACCENT : INK_PLAIN, .attr = ATTR_BOLD };
}

void
contrast_draw(const struct contrast *contrast, const struct axis *axis, struct strip *strip, struct canvas *body,
              int at)
{
    size_t *first = calloc((size_t)body->width + 1, sizeof *first);
    for (int i = 0; first != NULL && i < axis->count; i++) {
        const struct piece *piece = &axis->piece[i];
        if (piece_is_gap(piece))
            continue;
        strip->scale = axis_scale(axis, i, 0);
        paint(strip, contrast->first);
        for (int column = 0; column < piece->columns; column++)
            first[column] = stage_of(&strip->cells[column]);
        paint(strip, contrast->second);
        for (int column = 0; column < piece->columns; column++) {
            char sign = sign_of(strip->model, first[column], stage_of(&strip->cells[column]));
            canvas_put(body, at, piece->at + column, style_of(sign), (uint32_t)(unsigned char)sign);
        }
    }
    if (first == NULL)
        canvas_starve(body);
    free(first);
}
