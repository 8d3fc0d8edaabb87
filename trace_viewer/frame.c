/* The whole screen: title, timeline, panes with their titles, the selected event, the message, the keys.
 * Interface: frame_draw. Where things stand is layout.c's business, what panes say that of pane_*.c. */
#include "frame.h"

#include "base/str.h"
#include "keys.h"
#include "frame_panes.h"
#include "layout.h"
#include "question.h"
#include "timeline.h"
#include "trace/reader.h"

#include <stdio.h>
#include <string.h>

static const char *
run_word(enum run_state run)
{
    static const char *const words[] = {
        [RUN_SAVED] = "recorded", [RUN_PAUSED] = "\u2016 paused", [RUN_RUNNING] = "\u25ba running",
        [RUN_FINISHED] = "\u25a0 finished", [RUN_FAILED] = "\u00d7 failed", [RUN_GONE] = "engine gone",
    };
    return words[run];
}

static void
draw_title(const struct model *model, const struct view *view, struct canvas *canvas)
{
    struct style style = { .attr = ATTR_REVERSE | ATTR_BOLD };
    canvas_fill(canvas, 0, style, ' ');
    const char *title = trace_option_of(model->trace, "title");
    if (title[0] == '\0')
        title = trace_option_of(model->trace, "lesson");
    const struct trace_event *event = view->cursor == NO_EVENT ? NULL : trace_event(model->trace, view->cursor);
    char where[96] = "no events", right[64];
    if (event != NULL)
        snprintf(where, sizeof where, "it %u  step %zu/%zu", event->iteration, view->cursor, model->seen - 1);
    const char *seed = trace_option_of(model->trace, "seed");
    const char *note = view->run == RUN_SAVED ? trace_note(model->trace) : "";
    const char *word = note[0] == '\0' ? run_word(view->run) : strncmp(note, "cut", 3) == 0 ? "cut short" : "damaged";
    snprintf(right, sizeof right, "%s%s%.20s ", word, seed[0] != '\0' ? "  seed " : "", seed);
    int room = canvas->width - (int)strlen(where) - (int)strlen(right) - 4;
    if (room >= -2) /* where one stands comes first */
        canvas_right(canvas, 0, style, right);
    title      = title[0] != '\0' ? title : "trace";
    int column = room < 8 && room < (int)strlen(title) ? 1
                     : canvas_cut(canvas, (struct stretch){ 0, 1, room }, style, title);
    canvas_text(canvas, 0, column > 1 ? column + 2 : 1, style, where);
}

/* What `where` says, the kind in bold; if it is too long the middle goes. */
static void
draw_event_line(const struct model *model, const struct view *view, struct canvas *line)
{
    struct str text = { 0 };
    view_print_event(view, model, &text);
    enum work work = view->cursor == NO_EVENT ? WORK_NONE : model_work(model, view->cursor);
    canvas_put(line, 0, 0, (struct style){ .ink = work, .attr = ATTR_REVERSE }, (uint32_t)work_letter(work));
    canvas_cut(line, (struct stretch){ 0, 2, line->width - 2 }, (struct style){ .attr = ATTR_BOLD },
               canvas_words(line, &text));
    str_free(&text);
}

/* From where v was pressed to the cursor; `whole`: in a sentence of its own. */
static void
print_measure(const struct model *model, const struct view *view, bool whole, struct str *out)
{
    uint64_t a = trace_time(model->trace, view->measure), b = trace_time(model->trace, view->cursor);
    size_t events = view->measure < view->cursor ? view->cursor - view->measure : view->measure - view->cursor;
    if (whole)
        str_addf(out, "from event %zu to here: ", view->measure);
    str_add(out, a > b ? "-" : "");
    trace_print_time(a > b ? a - b : b - a, out);
    if (whole)
        str_addf(out, ", %zu events; v ends it", events);
    else
        str_addf(out, " from event %zu", view->measure);
}

/* What there is to say beside a measure; "" nothing. A question that the lesson's pane has alone is not said twice. */
static const char *
words_to_say(const struct model *model, const struct view *view, bool told, struct style *style)
{
    size_t question = view_question(view, model);
    if (view->message[0] != '\0')
        return view->message;
    if (question != NO_EVENT && !told) {
        style->attr = ATTR_BOLD;
        return model_argument_text(model, question, "question");
    }
    style->ink = INK_DIM;
    const char *note = view->run == RUN_SAVED ? trace_note(model->trace) : view->gone;
    if (question != NO_EVENT)
        return question_hides(model, question).length > 0 ? "more is shown once you answer" : "";
    if (note[0] != '\0' || view->measure != NO_EVENT)
        return note;
    if (view->cursor == 0)
        return "n: next stage   ?: all keys";
    return view->veil.draws ? "something is hidden until you answer a question" : "";
}

static void
draw_prompt(const struct view *view, struct canvas *line)
{
    int column = canvas_text(line, 0, 1, (struct style){ .attr = ATTR_BOLD }, view->prompt);
    column = canvas_text(line, 0, column, (struct style){ 0 }, view->typed);
    canvas_put(line, 0, column, (struct style){ .attr = ATTR_REVERSE }, ' ');
}

/* A measure stands at the right of what else is said, where there is room for both. */
static void
draw_message(const struct model *model, const struct view *view, bool told, struct canvas *line)
{
    enum { WORDS_LEAST = 24 };
    struct style style = { 0 };
    struct str   measure = { 0 };
    if (view->prompt[0] != '\0') {
        draw_prompt(view, line);
        return;
    }
    const char *words = words_to_say(model, view, told, &style);
    int room = line->width - 2, column = 1;
    if (view->measure != NO_EVENT && view->cursor != NO_EVENT)
        print_measure(model, view, words[0] == '\0', &measure);
    const struct style accent = { .ink = INK_ACCENT };
    if (words[0] == '\0') {
        canvas_cut(line, (struct stretch){ 0, 1, room }, accent, canvas_words(line, &measure));
    } else if (measure.len > 0 && room - (int)measure.len - 2 >= WORDS_LEAST) {
        room -= (int)measure.len + 2;
        canvas_text(line, 0, room + 3, accent, canvas_words(line, &measure));
    }
    if (words[0] != '\0' && view->message[0] == '\0' && !told && view_question(view, model) != NO_EVENT) {
        column = canvas_text(line, 0, 1, (struct style){ .ink = INK_ACCENT, .attr = ATTR_BOLD }, "? ");
        room -= 2;
    }
    canvas_cut(line, (struct stretch){ 0, column, room }, style, words);
    str_free(&measure);
}

/* Too small for a timeline: the event in words, one thing a line. */
static void
draw_words_alone(const struct model *model, const struct view *view, struct canvas *canvas)
{
    struct str text = { 0 };
    if (view->cursor == NO_EVENT)
        str_add(&text, "no events");
    else
        str_addf(&text, "%zu/%zu %s", view->cursor, model->seen - 1, model_kind(model, view->cursor));
    if (canvas->width < 20 || canvas->height < 3) {
        canvas_text(canvas, 0, 0, (struct style){ .attr = ATTR_BOLD }, canvas_words(canvas, &text));
        str_free(&text);
        return;
    }
    str_add(&text, "\n");
    view_print_event(view, model, &text);
    if (view->message[0] != '\0')
        str_addf(&text, "\n%s", view->message);
    str_add(&text, "\n? help  q quit");
    canvas_wrap(canvas, &(struct lines){ 0 }, 0, (struct style){ 0 }, canvas_words(canvas, &text));
    str_free(&text);
}

/* Between the title and the keys; where there is hardly room, alone. */
static void
draw_help(const struct view *view, struct canvas *canvas)
{
    struct canvas body = canvas_part(canvas, 1, 0, canvas->height - 2, canvas->width);
    if (canvas->height <= 2)
        body = *canvas;
    canvas_clear(&body);
    keys_help(&body, view->panes[PANE_TIMELINE].scroll);
}

void
frame_draw(const struct model *model, const struct view *view, struct canvas *canvas,
           const struct capabilities *capabilities)
{
    canvas_clear(canvas);
    const struct scene scene = { model, view, capabilities };
    struct layout layout = layout_of(&scene, canvas->width, canvas->height);
    if (layout.words_only && !view->help) {
        draw_words_alone(model, view, canvas);
        return;
    }
    draw_title(model, view, canvas);
    if (layout.words_only) {
        struct canvas keys = canvas_part(canvas, canvas->height - 1, 0, 1, canvas->width);
        keys_draw(model, view, &keys);
        draw_help(view, canvas);
        return;
    }
    struct box boxes[] = { layout.ruler, layout.minimap, layout.timeline, layout.event, layout.message, layout.keys };
    struct canvas part[6];
    for (int i = 0; i < 6; i++)
        part[i] = canvas_part(canvas, boxes[i].row, boxes[i].column, boxes[i].height, boxes[i].width);
    if (layout.ruler.height > 0)
        ruler_draw(model, view, &part[0], capabilities);
    if (layout.minimap.height > 0)
        minimap_draw(model, view, &part[1], capabilities);
    timeline_draw(model, view, &part[2], capabilities);
    panes_draw(&scene, &layout, canvas);
    draw_event_line(model, view, &part[3]);
    draw_message(model, view, layout.slot_count == 1 && layout.slots[0].pane == PANE_LESSON, &part[4]);
    if (view->help)
        draw_help(view, canvas);
    keys_draw(model, view, &part[5]);
}
