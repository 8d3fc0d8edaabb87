/* The inspector's pages: the event with its arguments, values of the tensors it names, memory by device, buckets of
 * its rank, tasks and locks. Interface: page_name for the tabs, inspector_draw. */
#include "panes.h"

#include "analysis/state.h"
#include "base/str.h"
#include "base/vec.h"
#include "trace/reader.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

const char *
page_name(enum page page)
{
    static const char *const names[PAGE_COUNT] = { "Source", "Event", "Values", "Memory", "Buckets", "Tasks",
                                                    "Answer" };
    return names[page];
}

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
    size_t open[16], count = state_open(model->state, lane, open, countof(open));
    for (size_t i = 0; i < count && i < countof(open); i++) {
        str_add(out, i > 0 ? " > " : "");
        model_label(model, open[i], out);
    }
    if (count == 0)
        str_add(out, "nothing");
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
    size_t partner = trace_partner(model->trace, view->cursor);
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
    size_t other = trace_flow_end(model->trace, view->cursor);
    if (other != SIZE_MAX) {
        str_addf(&text, "%s event %zu, %s; ] goes there", other > view->cursor ? "to" : "from", other,
                 trace_lane_at(model->trace, trace_event(model->trace, other)->lane)->name);
        draw_pair(pane, row, "flow", &text);
    }
    str_free(&text);
}

static void
draw_bucket(const struct state_bucket *bucket, struct canvas *pane, int row, const struct capabilities *capabilities)
{
    int column = canvas_textf(pane, row, 1, (struct style){ 0 }, "%2lld ", (long long)bucket->index);
    for (int64_t i = 0; i < bucket->params && i < 12; i++) {
        bool ready = i < bucket->ready;
        canvas_put(pane, row, column++, (struct style){ .ink = ready ? INK_GOOD : INK_DIM },
                   capabilities->utf8 ? (ready ? 0x25a0u : 0x25a1u) : (uint32_t)(unsigned char)(ready ? '#' : '.'));
    }
    const char *what = bucket->reduced ? "reduced" : bucket->launched ? "sent" :
                       bucket->ready >= bucket->params ? "ready" : "pending";
    canvas_textf(pane, row, column + 1, (struct style){ 0 }, "%lld/%lld %-8s %lld B  params %s",
                 (long long)bucket->ready, (long long)bucket->params, what, (long long)bucket->bytes,
                 bucket->indices != NULL ? bucket->indices : "?");
}

static void
draw_buckets(const struct model *model, const struct view *view, struct canvas *pane, int row,
             const struct capabilities *capabilities)
{
    int rank = trace_event(model->trace, view->cursor)->rank;
    struct state_bucket buckets[64];
    size_t count = state_buckets(model->state, rank < 0 ? 0 : rank, buckets, countof(buckets));
    if (count == 0) {
        canvas_text(pane, row, 1, (struct style){ .ink = INK_DIM }, "no buckets yet: DDP announces them");
        return;
    }
    canvas_textf(pane, row++, 1, (struct style){ .attr = ATTR_BOLD }, "rank %d, in sending order", rank < 0 ? 0 : rank);
    for (size_t i = 0; i < count && i < countof(buckets); i++)
        draw_bucket(&buckets[i], pane, row++, capabilities);
}

/* Each lane with its innermost open span; then the locks that somebody holds. */
static void
draw_tasks(const struct model *model, const struct view *view, struct canvas *pane, int row)
{
    struct state_lock locks[32];
    size_t count = state_locks(model->state, locks, countof(locks));
    for (size_t i = 0; i < count && i < countof(locks); i++) {
        const char *holder = locks[i].holder_lane < 0
                                 ? "free" : trace_lane_at(model->trace, (size_t)locks[i].holder_lane)->name;
        canvas_textf(pane, row++, 1, (struct style){ .attr = ATTR_BOLD }, "lock %.40s: %.40s, %zu waiting",
                     locks[i].name, holder, locks[i].waiting);
    }
    struct str text = { 0 };
    for (size_t i = 0; i < model->lane_count && row < pane->height; i++) {
        const struct trace_lane_info *lane = trace_lane_at(model->trace, i);
        if (lane->kind == LANE_LESSON)
            continue;
        bool told = lane->name[0] == 'r' && lane->name[1] >= '0' && lane->name[1] <= '9';
        if (model->ranked && lane->rank >= 0 && !told)
            str_addf(&text, "r%d ", lane->rank);
        str_add(&text, lane->name);
        canvas_cut(pane, (struct stretch){ row, 1, 18 },
                   (struct style){ .attr = (int)i == view->lane ? ATTR_BOLD : 0 }, canvas_words(pane, &text));
        str_clear(&text);
        size_t open[16], depth = state_open(model->state, (uint32_t)i, open, countof(open));
        enum work work = WORK_NONE;
        if (depth > 0 && depth <= countof(open)) {
            model_label(model, open[depth - 1], &text);
            work = model_work(model, open[depth - 1]);
        }
        canvas_cut(pane, (struct stretch){ row++, 20, pane->width - 21 },
                   (struct style){ .ink = work == WORK_NONE ? INK_DIM : work },
                   depth == 0 ? "idle" : depth > countof(open) ? "deep inside" : canvas_words(pane, &text));
        str_clear(&text);
    }
    str_free(&text);
}

/* What `print` and its like answered. */
static void
draw_answer(const struct view *view, struct canvas *pane)
{
    canvas_wrap(pane, &(struct lines){ .skip = view->scroll[PANE_INSPECTOR] }, 1, (struct style){ 0 },
                view->answer != NULL ? view->answer : "print, info and set are answered here");
}

void
inspector_draw(const struct model *model, const struct view *view, enum page page, struct canvas *pane,
               const struct capabilities *capabilities)
{
    if (view->cursor == NO_EVENT || trace_event(model->trace, view->cursor) == NULL)
        return;
    int row = -view->scroll[PANE_INSPECTOR];
    if (page == PAGE_SOURCE)
        source_draw(model, view, pane);
    else if (page == PAGE_EVENT)
        draw_event_page(model, view, pane, row);
    else if (page == PAGE_VALUES)
        values_draw(model, view, pane, -row);
    else if (page == PAGE_MEMORY)
        memory_draw(model, view, pane, row, capabilities);
    else if (page == PAGE_BUCKETS)
        draw_buckets(model, view, pane, row, capabilities);
    else if (page == PAGE_TASKS)
        draw_tasks(model, view, pane, row);
    else
        draw_answer(view, pane);
}
