/* The event pane: what the event is, its arguments, what is open around it, where its flow leads. */
#include "panes.h"

#include "base/str.h"
#include "base/vec.h"
#include "trace/reader.h"

#include <string.h>

static void
print_argument(const struct model *model, const char *type, int64_t value, struct str *out)
{
    if (strcmp(type, "text") == 0)
        str_addf(out, "\"%s\"", trace_text_at(model->trace, value));
    else if (strcmp(type, "bytes") == 0)
        str_addf(out, "%lld B", (long long)value);
    else if (strcmp(type, "ps") == 0)
        trace_print_time(value > 0 ? (uint64_t)value : 0, out);
    else if (strcmp(type, "device") == 0 && value < 0)
        str_add(out, "cpu");
    else if (strcmp(type, "flag") == 0)
        str_add(out, value != 0 ? "yes" : "no");
    else
        str_addf(out, "%lld", (long long)value);
}

static int
draw_pair(struct canvas *pane, int row, const char *name, struct str *value)
{
    canvas_text(pane, row, 1, (struct style){ .ink = INK_DIM }, name);
    canvas_cut(pane, (struct stretch){ row, 12, pane->width - 13 }, (struct style){ 0 }, canvas_words(pane, value));
    str_clear(value);
    return row + 1;
}

/* The answer of a question one stands at is left out, and why it is that; its words tell the choices. */
static int
draw_arguments(const struct model *model, const struct view *view, struct canvas *pane, int row, struct str *text)
{
    const struct trace_event *event = trace_event(model->trace, view->cursor);
    const struct trace_kind *kind = trace_kind(model->trace, event->kind);
    bool masked = view_question(view, model) != NO_EVENT;
    for (int i = 0; i < kind->arg_count && i < 4; i++) {
        const char *name = kind->arg_name[i];
        bool secret = strcmp(name, "answer") == 0 || strcmp(name, "why") == 0;
        if ((masked && secret) || strcmp(name, "choices") == 0)
            continue;
        print_argument(model, kind->arg_type[i], event->args[i], text);
        canvas_text(pane, row, 1, (struct style){ .ink = INK_DIM }, kind->arg_name[i]);
        struct lines lines = { .row = row > 0 ? row : 0, .skip = row < 0 ? -row : 0 };
        canvas_wrap(pane, &lines, 12, (struct style){ 0 }, canvas_words(pane, text));
        row = lines.row > row ? lines.row : row + 1;
        str_clear(text);
    }
    return row;
}

/* What is open around the event, outermost first: "forward > parallel_apply > worker 1". */
static void
print_stack(const struct model *model, uint32_t lane, struct str *out)
{
    size_t open[16], count = model_open_stages(model, lane, open, countof(open));
    for (size_t i = 0; i < count && i < countof(open); i++) {
        str_add(out, i > 0 ? " > " : "");
        model_label(model, open[i], out);
    }
    if (count == 0)
        str_add(out, model->at == NO_EVENT ? "still being worked out" : "nothing");
}

static void
draw_event_page(const struct model *model, const struct view *view, struct canvas *pane, int row)
{
    static const char *const phases[] = { "?", "begin", "end", "instant" };
    const struct trace_event *event = trace_event(model->trace, view->cursor);
    const struct trace_kind *kind = trace_kind(model->trace, event->kind);
    const struct trace_lane_info *lane = trace_lane_at(model->trace, event->lane);
    struct str text = { 0 };
    str_addf(&text, "%s %s, %s", kind->name, phases[event->phase <= 3 ? event->phase : 0],
             work_name(model_work(model, view->cursor)));
    row = draw_pair(pane, row, "event", &text);
    if (kind->pytorch[0] != '\0') {
        str_add(&text, kind->pytorch);
        row = draw_pair(pane, row, "PyTorch", &text);
    }
    row = draw_arguments(model, view, pane, row, &text);
    trace_print_time(trace_time(model->trace, view->cursor), &text);
    size_t partner = model_partner(model, view->cursor);
    if (partner != SIZE_MAX) {
        uint64_t a = trace_time(model->trace, view->cursor), b = trace_time(model->trace, partner);
        str_add(&text, ", lasts ");
        trace_print_time(a > b ? a - b : b - a, &text);
    }
    row = draw_pair(pane, row, "time", &text);
    str_addf(&text, "%s", lane->name);
    if (event->rank >= 0)
        str_addf(&text, ", rank %d", event->rank);
    str_addf(&text, event->device >= 0 ? ", device %d" : ", host", event->device);
    row = draw_pair(pane, row, "lane", &text);
    print_stack(model, event->lane, &text);
    row = draw_pair(pane, row, "inside", &text);
    size_t other = model_flow_end(model, view->cursor);
    if (other != SIZE_MAX) {
        str_addf(&text, "%s event %zu, %s; ] goes there", other > view->cursor ? "to" : "from", other,
                 trace_lane_at(model->trace, trace_event(model->trace, other)->lane)->name);
        draw_pair(pane, row, "flow", &text);
    }
    str_free(&text);
}

static void
draw(const struct scene *scene, struct canvas *pane, int skip)
{
    draw_event_page(scene->model, scene->view, pane, -skip);
}

static enum concern
concern(const struct scene *scene)
{
    (void)scene;
    return CONCERN_SOME;
}

const struct pane_kind event_pane = { .name = "Event", .least_columns = 30, .concern = concern, .draw = draw };
