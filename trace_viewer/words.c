/* The screen in words. Interface: words_of_step, words_of_lanes, words_of_pane. */
#include "words.h"

#include "answering.h"
#include "base/str.h"
#include "base/vec.h"
#include "frame_panes.h"
#include "heading.h"
#include "question.h"
#include "trace/reader.h"

#include <string.h>

enum { COLUMNS = 100, ROWS = 200, OPEN = 64, CHANGES = 4 };

static const struct capabilities plain = { .colours = 0, .utf8 = false };

static void
add_lane_name(const struct model *model, size_t lane, struct str *out)
{
    const struct trace_lane_info *info = trace_lane_at(model->trace, lane);
    bool told = info->name[0] == 'r' && info->name[1] >= '0' && info->name[1] <= '9';
    if (model->ranked && info->rank >= 0 && !told)
        str_addf(out, "r%d ", info->rank);
    str_add(out, info->name);
}

/* "forward > parallel_apply > worker 1", or false. */
static bool
add_open(const struct scene *scene, uint32_t lane, struct str *out)
{
    const struct model *model = scene->model;
    size_t open[OPEN], count = model_open_stages(model, lane, open, countof(open));
    for (size_t i = 0; i < count && i < countof(open); i++) {
        bool hidden = veil_hides(&scene->view->veil, model, open[i]);
        str_add(out, i == 0 ? "" : " > ");
        if (hidden)
            str_add(out, "?");
        else
            model_label(model, open[i], out);
    }
    return count > 0;
}

static bool
is_waiting(const struct model *model, uint32_t lane, size_t *seq)
{
    size_t open[OPEN], count = model_open_stages(model, lane, open, countof(open));
    if (count == 0 || count > countof(open))
        return false;
    *seq = open[count - 1];
    return model_work(model, *seq) == WORK_WAIT;
}

static void
add_place(const struct scene *scene, struct str *out)
{
    const struct model      *model = scene->model;
    size_t                   seq   = scene->view->cursor;
    const struct trace_event *event = trace_event(model->trace, seq);
    const struct trace_kind  *kind  = trace_kind(model->trace, event->kind);
    str_add(out, "where: ");
    if (kind->file[0] != '\0')
        str_addf(out, "%s:%u %s", kind->file, kind->line, kind->function);
    if (kind->pytorch[0] != '\0')
        str_addf(out, ", in PyTorch %s", kind->pytorch);
    uint32_t line = lesson_line(model, seq);
    if (line > 0)
        str_addf(out, "%slesson line %u", kind->file[0] != '\0' ? "; " : "", line);
    str_add(out, "\n");
}

static void
add_waiting(const struct model *model, struct str *out)
{
    size_t seq;
    bool   first = true;
    for (size_t lane = 0; lane < model->lane_count; lane++) {
        if (trace_lane_at(model->trace, lane)->kind == LANE_LESSON || !is_waiting(model, (uint32_t)lane, &seq))
            continue;
        str_add(out, first ? "waiting: " : "; ");
        add_lane_name(model, lane, out);
        str_add(out, " in ");
        model_label(model, seq, out);
        first = false;
    }
    str_add(out, first ? "" : "\n");
}

static void
add_row(const struct canvas *canvas, int row, struct str *out)
{
    struct canvas line = canvas_part(canvas, row, 0, 1, canvas->width);
    canvas_print(&line, &plain, false, out);
}

/* The rows of a pane that the last step made, each with the pane's name: as many as an ear can keep, and how many
 * more. */
static void
add_changed_rows(struct canvas *body, enum pane pane, struct str *out)
{
    const char *name = pane_kind(pane)->name;
    int         told = 0;
    for (int row = 0; row < body->height; row++) {
        if (canvas_at(body, row, 0)->code != '+' || told++ >= CHANGES)
            continue;
        str_addf(out, "changed: %s:", name);
        canvas_put(body, row, 0, (struct style){ 0 }, ' ');
        add_row(body, row, out);
    }
    if (told > CHANGES)
        str_addf(out, "changed: %s: %d more; look %s\n", name, told - CHANGES, name);
}

static void
add_changes(const struct scene *scene, struct str *out)
{
    struct canvas body;
    for (int pane = PANE_LESSON; pane < PANE_COUNT; pane++) {
        if (!pane_kind((enum pane)pane)->compares || pane_concern(scene, (enum pane)pane) == CONCERN_NONE)
            continue;
        if (!canvas_init(&body, COLUMNS, ROWS))
            return;
        pane_draw_body(scene, (enum pane)pane, 0, &body);
        add_changed_rows(&body, (enum pane)pane, out);
        canvas_free(&body);
    }
}

static void
add_question(const struct scene *scene, struct str *out)
{
    const struct model    *model = scene->model;
    size_t                 question = view_question(scene->view, model);
    struct question_choice choice;
    if (answering_offers_predict(scene->view))
        str_add(out, "to be asked before each stop: predict on\n");
    if (question == NO_EVENT && answering_waits(scene->view, model) != NO_EVENT)
        str_add(out, "hidden by your question: question goes back to it, reveal shows the answer\n");
    if (question == NO_EVENT)
        return;
    const char *words = model_argument_text(model, question, "question"), *choices = strstr(words, "  a) ");
    str_addf(out, "question: %.*s\n", (int)(choices != NULL ? choices - words : (int)strlen(words)), words);
    for (int i = 0; i < question_choices(model, question) && question_choice(model, question, i, &choice); i++)
        str_addf(out, "choice %c: %.*s\n", 'a' + i % 26, (int)choice.text.length, choice.text.text);
    str_add(out, "to answer: answer LETTER, or answer WORDS where there are no choices; later puts it off\n");
}

void
words_of_step(const struct scene *scene, struct str *out)
{
    const struct model *model = scene->model;
    const struct view  *view = scene->view;
    if (view->cursor == NO_EVENT || view->cursor >= model->seen) {
        str_add(out, "step: the trace has no events\n");
        return;
    }
    const struct trace_event *event = trace_event(model->trace, view->cursor);
    heading_print_line(model, view, out);
    str_addf(out, "step: %zu of ", view->cursor);
    if (view->veil.horizon != NO_EVENT)
        str_add(out, "?"); /* how long it will be waits for an answer, too */
    else
        str_addf(out, "%zu", model->seen - 1);
    str_addf(out, ", iteration %u, ", event->iteration);
    trace_print_time(trace_time(model->trace, view->cursor), out);
    str_add(out, "\nrank: ");
    if (event->rank >= 0)
        str_addf(out, "%d, lane ", event->rank);
    else
        str_add(out, "none, lane ");
    add_lane_name(model, event->lane, out);
    str_add(out, "\nwhat: ");
    view_print_event(view, model, out);
    str_add(out, "\n");
    if (!veil_hides(&view->veil, model, view->cursor))
        add_place(scene, out);
    struct str inside = { 0 };
    if (add_open(scene, event->lane, &inside))
        str_addf(out, "inside: %s\n", str_text(&inside));
    str_free(&inside);
    add_changes(scene, out);
    add_waiting(model, out);
    add_question(scene, out);
}

void
words_of_lanes(const struct scene *scene, int rank, struct str *out)
{
    const struct model *model = scene->model;
    for (size_t lane = 0; lane < model->lane_count; lane++) {
        if (rank >= 0 && trace_lane_at(model->trace, lane)->rank != rank)
            continue;
        if (veil_hides_lane(&scene->view->veil, model, (size_t)lane))
            continue;
        add_lane_name(model, lane, out);
        str_add(out, ": ");
        if (!add_open(scene, (uint32_t)lane, out))
            str_add(out, "idle");
        str_add(out, "\n");
    }
}

void
words_of_pane(const struct scene *scene, enum pane pane, struct str *out)
{
    struct canvas body;
    str_addf(out, "%s:\n", pane_kind(pane)->name);
    if (pane_concern(scene, pane) == CONCERN_NONE) {
        str_add(out, "nothing to tell at this event\n");
        return;
    }
    if (!canvas_init(&body, COLUMNS, ROWS))
        return;
    pane_draw_body(scene, pane, 0, &body);
    int last = ROWS - 1;
    struct str line = { 0 };
    for (; last >= 0; last--) {
        str_clear(&line);
        add_row(&body, last, &line);
        if (line.len > 1)
            break;
    }
    for (int row = 0; row <= last; row++)
        add_row(&body, row, out);
    str_free(&line);
    canvas_free(&body);
}
