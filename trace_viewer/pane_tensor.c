/* The values of the tensors that an event names, as the latest snapshot before it recorded them: shape, type,
 * elements as far as there is room, and least, mean and greatest. */
#include "panes.h"

#include "analysis/state.h"
#include "base/dtype.h"
#include "base/str.h"
#include "trace/reader.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

enum { CELL = 9 }; /* columns of one value */

static double
snapshot_element(const struct trace_snapshot *snapshot, size_t index)
{
    const char *from = (const char *)snapshot->elements + index * dtype_size((enum dtype)snapshot->dtype);
    return dtype_fraction((enum dtype)snapshot->dtype, from);
}

static void
print_value(const struct trace_snapshot *snapshot, double value, char *out, size_t size)
{
    double magnitude = fabs(value);
    if (snapshot->dtype == DTYPE_BOOL)
        snprintf(out, size, "%s", value != 0 ? "true" : "false");
    else if (!dtype_is_float((enum dtype)snapshot->dtype))
        snprintf(out, size, "%.0f", value);
    else if (isfinite(value) && value != 0 && (magnitude >= 10000 || magnitude < 0.0001))
        snprintf(out, size, "%.1e", value);
    else
        snprintf(out, size, "%.4f", value);
}

static size_t
element_count(const struct trace_snapshot *snapshot)
{
    size_t size = dtype_size((enum dtype)snapshot->dtype);
    return size > 0 ? snapshot->bytes / size : 0;
}

/* An argument that names a storage. */
struct named_storage { const char *name; int64_t storage; };

/* "storage 12  float32 [6, 10]  of event 118": where the values are from. */
static void
draw_head(const struct trace_snapshot *snapshot, struct named_storage what, size_t seq, struct canvas *pane, int row)
{
    struct str text = { 0 };
    str_addf(&text, "%s = storage %lld  %s [", what.name, (long long)what.storage,
             dtype_name((enum dtype)snapshot->dtype));
    for (int i = 0; i < snapshot->dims; i++)
        str_addf(&text, i > 0 ? ", %lld" : "%lld", (long long)snapshot->sizes[i]);
    str_addf(&text, "]  as of event %zu", seq);
    canvas_text(pane, row, 1, (struct style){ .attr = ATTR_BOLD }, canvas_words(pane, &text));
    str_free(&text);
}

static void
draw_range(const struct trace_snapshot *snapshot, struct canvas *pane, int row)
{
    size_t count = element_count(snapshot), nan = 0;
    double low = INFINITY, high = -INFINITY, sum = 0;
    for (size_t i = 0; i < count; i++) {
        double value = snapshot_element(snapshot, i);
        nan += isnan(value);
        low = value < low ? value : low;
        high = value > high ? value : high;
        sum += value;
    }
    if (count == 0)
        return;
    char least[32], most[32], mean[32];
    print_value(snapshot, low, least, sizeof least);
    print_value(snapshot, high, most, sizeof most);
    snprintf(mean, sizeof mean, "%.4g", sum / (double)count);
    canvas_textf(pane, row, 1, (struct style){ .ink = INK_DIM }, "min %s  mean %s  max %s  nan %zu", least, mean, most,
                 nan);
}

/* Rows of the last dimension, as many values as fit into the pane. Answers the row behind. */
static int
draw_grid(const struct trace_snapshot *snapshot, struct canvas *pane, int row, int rows)
{
    size_t count = element_count(snapshot);
    size_t width = snapshot->dims > 0 && snapshot->sizes[snapshot->dims - 1] > 0
                       ? (size_t)snapshot->sizes[snapshot->dims - 1] : 1;
    size_t fit = pane->width > CELL + 4 ? (size_t)(pane->width - 4) / CELL : 1;
    for (size_t at = 0; at < count && rows > 0; at += width, rows--, row++) {
        for (size_t i = 0; i < width && i < fit && at + i < count; i++) {
            double value = snapshot_element(snapshot, at + i);
            char text[32];
            print_value(snapshot, value, text, sizeof text);
            struct style style = { .attr = isfinite(value) ? 0 : ATTR_REVERSE };
            int length = (int)strlen(text);
            canvas_text(pane, row, 1 + (int)i * CELL + (length < CELL - 1 ? CELL - 1 - length : 0), style, text);
        }
        if (width > fit || (rows == 1 && at + width < count))
            canvas_put(pane, row, pane->width - 2, (struct style){ .ink = INK_DIM }, 0x2026);
    }
    return row;
}

static int
draw_tensor(const struct model *model, struct named_storage what, struct canvas *pane, int row, int rows)
{
    size_t seq = 0;
    int64_t id = state_snapshot(model->state, what.storage, &seq);
    struct trace_snapshot snapshot;
    if (id == 0 || !trace_snapshot_at(model->trace, id, &snapshot)) {
        canvas_textf(pane, row, 1, (struct style){ .ink = INK_DIM }, "%s = storage %lld: values not recorded",
                     what.name, (long long)what.storage);
        return row + 1;
    }
    draw_head(&snapshot, what, seq, pane, row);
    if (rows > 3)
        draw_range(&snapshot, pane, ++row);
    return draw_grid(&snapshot, pane, row + 1, rows - (rows > 3 ? 2 : 1));
}

static void
draw(const struct scene *scene, struct canvas *pane, int skip)
{
    const struct model *model = scene->model;
    const struct view  *view = scene->view;
    const struct trace_event *event = trace_event(model->trace, view->cursor);
    if (event == NULL)
        return;
    const struct trace_kind *kind = trace_kind(model->trace, event->kind);
    int named = 0, row = -skip;
    for (int i = 0; i < kind->arg_count && i < 4; i++)
        named += strcmp(kind->arg_type[i], "storage") == 0 && event->args[i] > 0;
    for (int i = 0; i < kind->arg_count && i < 4; i++)
        if (strcmp(kind->arg_type[i], "storage") == 0 && event->args[i] > 0)
            row = draw_tensor(model, (struct named_storage){ kind->arg_name[i], event->args[i] }, pane, row,
                              (pane->height + skip - 1) / (named > 0 ? named : 1)) + 1;
    if (named == 0)
        canvas_text(pane, 0, 1, (struct style){ .ink = INK_DIM }, "this event names no tensor; s goes on to the next");
}

static enum concern
concern(const struct scene *scene)
{
    const struct trace_event *event = trace_event(scene->model->trace, scene->view->cursor);
    const struct trace_kind  *kind = trace_kind(scene->model->trace, event->kind);
    for (int i = 0; i < kind->arg_count && i < 4; i++)
        if (strcmp(kind->arg_type[i], "storage") == 0 && event->args[i] > 0)
            return CONCERN_EVENT;
    return CONCERN_NONE;
}

const struct pane_kind tensor_pane = { .name = "Tensor", .least_columns = 28, .compares = true, .of_state = true,
                                       .concern = concern, .draw = draw };
