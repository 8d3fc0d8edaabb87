/* Shares and numbers drawn in one row. Interface: shade_lanes, shade_curve. */
#include "shade.h"

#include "busy.h"
#include "strip.h"
#include "trace/reader.h"
#include "window.h"

#include <stdlib.h>
#include <string.h>

enum { LIGHT = 0x2591, FULL = 0x2588, DASHES = 0x254c, LOWEST = 0x2581, BULLET = 0x2022, SLASH = 0x2571,
       CROSS = 0xd7 };

/* The class in which the lane's outermost span at the cell is; WORK_NONE: nothing touches it. */
static uint8_t
work_of_cell(const struct strip_cell *cell)
{
    const struct span *span = cell->left != NULL ? cell->left : cell->right;
    if (span != NULL || cell->tiny > 0)
        return span != NULL ? span->work : cell->work;
    return cell->marks > 0 ? cell->mark_work : (uint8_t)WORK_NONE;
}

/* A shade for how much of the time so many lanes work; where none does what the first of them is in, a wait mostly. */
static void
put_share(uint64_t busy, uint64_t whole, uint8_t work, struct canvas *body, int column)
{
    static const uint32_t shades[] = { LIGHT, LIGHT, LIGHT + 1, LIGHT + 2, FULL };
    const struct cell *cell = canvas_at(body, 0, column);
    struct style style = { .ink = work == WORK_WAIT ? WORK_NONE : work };
    if (cell->code != ' ' || cell->style.paper != INK_PLAIN)
        return;
    if (busy > 0)
        canvas_put(body, 0, column, style, shades[busy < whole ? (__uint128_t)busy * 4 / whole : 4]);
    else if (work != WORK_NONE)
        canvas_put(body, 0, column, (struct style){ .ink = INK_DIM }, work == WORK_WAIT ? DASHES : BULLET);
}

/* All that one piece of the axis is shaded with. */
struct shading {
    const struct model *model;
    const struct view  *view;
    bool               *chosen;  /* of all lanes, those that are asked for next */
    uint64_t           *busy;    /* of each column */
    struct strip_cell  *cells;   /* of the first lane */
};

/* Lanes that are moved by the same time are asked for together. */
static void
add_busy(struct shading *shading, const struct axis *axis, int piece, const int *lanes, int count)
{
    const struct align *align = &shading->view->arrange.align;
    for (int i = 0, next; i < count; i = next) {
        uint64_t shift = align_shift(align, trace_lane_at(shading->model->trace, (size_t)lanes[i])->rank);
        struct scale scale = axis_scale(axis, piece, shift);
        memset(shading->chosen, 0, shading->model->lane_count * sizeof *shading->chosen);
        for (next = i; next < count; next++) {
            if (align_shift(align, trace_lane_at(shading->model->trace, (size_t)lanes[next])->rank) != shift)
                break;
            shading->chosen[lanes[next]] = true;
        }
        busy_columns(shading->model, &shading->view->veil, shading->chosen, &scale, shading->busy);
    }
}

static struct strip
strip_of(struct shading *shading, const struct axis *axis, int piece, int lane)
{
    const struct view *view = shading->view;
    uint64_t shift = align_shift(&view->arrange.align, trace_lane_at(shading->model->trace, (size_t)lane)->rank);
    return (struct strip){ .model = shading->model, .lane = (size_t)lane, .veil = &view->veil, .cursor = -1,
                           .sieve = filter_sieve(&view->arrange.filter), .cells = shading->cells,
                           .selected = NO_EVENT, .scale = axis_scale(axis, piece, shift) };
}

/* Sums know nothing of filters: lanes are looked at, of very many some, evenly chosen. */
static void
add_filtered(struct shading *shading, const struct axis *axis, int piece, const int *lanes, int count)
{
    enum { ASKED = 32 };
    for (int i = 0; i < count; i += count / ASKED + 1) {
        struct strip strip = strip_of(shading, axis, piece, lanes[i]);
        strip_paint(&strip);
        for (int column = 0; column < strip.scale.columns; column++)
            shading->busy[column] += work_of_cell(&shading->cells[column]) != WORK_NONE ? axis->unit : 0;
    }
}

static void
shade_piece(struct shading *shading, const struct axis *axis, int piece, const int *lanes, int count,
            struct canvas *part)
{
    memset(shading->busy, 0, (size_t)part->width * sizeof *shading->busy);
    if (shading->view->arrange.filter.match != NULL)
        add_filtered(shading, axis, piece, lanes, count);
    else
        add_busy(shading, axis, piece, lanes, count);
    struct strip strip = strip_of(shading, axis, piece, lanes[0]);
    strip_paint(&strip);
    uint64_t whole = axis->unit * (uint64_t)count;
    for (int column = 0; column < part->width; column++)
        put_share(shading->busy[column], whole, work_of_cell(&shading->cells[column]), part, column);
}

/* A fault is never covered up, whichever of the lanes it is on. */
static void
mark_faults(struct shading *shading, const struct axis *axis, const int *lanes, int count, struct canvas *body, int row)
{
    enum { LOOKED_AT = 4096 };
    const struct model *model = shading->model;
    uint64_t left = axis_time(axis, 0), most = align_most(&shading->view->arrange.align);
    size_t seq = model_seq_at(model, left > most ? left - most : 0);
    memset(shading->chosen, 0, model->lane_count * sizeof *shading->chosen);
    for (int i = 0; i < count; i++)
        shading->chosen[lanes[i]] = true;
    seq = model_next_fault(model, seq > 0 ? seq - 1 : NO_EVENT, 1);
    for (int n = 0; n < LOOKED_AT && seq != NO_EVENT; n++, seq = model_next_fault(model, seq, 1)) {
        int column = axis_column(axis, window_shown(model, shading->view, seq));
        uint32_t lane = trace_event(model->trace, seq)->lane;
        if (trace_time(model->trace, seq) > axis_time(axis, axis->columns))
            return;
        if (lane < model->lane_count && shading->chosen[lane] && column >= 0 && column < axis->columns &&
            !veil_hides(&shading->view->veil, model, seq))
            canvas_put(body, row, column, (struct style){ .ink = WORK_FAULT, .attr = ATTR_REVERSE | ATTR_BOLD }, CROSS);
    }
}

void
shade_lanes(const struct model *model, const struct view *view, const struct axis *axis, const int *lanes, int count,
            struct canvas *body, int row)
{
    size_t columns = (size_t)axis->columns + 1;
    struct shading shading = { model, view, calloc(model->lane_count + 1, sizeof(bool)),
                               calloc(columns, sizeof(uint64_t)), calloc(columns, sizeof(struct strip_cell)) };
    bool good = shading.chosen != NULL && shading.busy != NULL && shading.cells != NULL;
    if (!good)
        canvas_starve(body);
    for (int i = 0; i < axis->count && count > 0 && good; i++) {
        const struct piece *piece = &axis->piece[i];
        struct canvas part = canvas_part(body, row, piece->at, 1, piece->columns);
        if (piece_is_gap(piece))
            canvas_fill(&part, 0, (struct style){ .ink = INK_DIM }, SLASH);
        else
            shade_piece(&shading, axis, i, lanes, count, &part);
    }
    if (good && count > 0)
        mark_faults(&shading, axis, lanes, count, body, row);
    free(shading.chosen);
    free(shading.busy);
    free(shading.cells);
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
