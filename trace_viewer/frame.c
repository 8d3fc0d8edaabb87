/* The whole screen: title, timeline, panes with their titles, the selected event, the message, the keys.
 * Interface: frame_draw. Where things stand is layout.c's business, what panes say that of pane_*.c. */
#include "frame.h"

#include "answering.h"
#include "base/str.h"
#include "chooser.h"
#include "event_line.h"
#include "glyph.h"
#include "keys.h"
#include "frame_marks.h"
#include "frame_panes.h"
#include "layout.h"
#include "strip.h"
#include "timeline.h"
#include "trace/reader.h"

#include <stdio.h>
#include <string.h>

/* What the lesson's pane has room for. */
enum lesson_room { LESSON_ABSENT, LESSON_BRIEF, LESSON_WHOLE };

static enum lesson_room
lesson_room(const struct layout *layout)
{
    const struct slot *slot = layout_slot(layout, PANE_LESSON);
    return slot == NULL ? LESSON_ABSENT : slot->box.height - 1 <= LESSON_BRIEF_ROWS ? LESSON_BRIEF : LESSON_WHOLE;
}

static const char *
run_word(enum run_state run)
{
    static const char *const words[] = {
        [RUN_SAVED] = "recorded", [RUN_PAUSED] = "\u2016 paused", [RUN_RUNNING] = "\u25ba running",
        [RUN_FINISHED] = "\u25a0 finished", [RUN_FAILED] = "\u00d7 failed", [RUN_GONE] = "engine gone",
    };
    return words[run];
}

/* How long it will be waits for an answer, too. */
static void
print_total(const struct model *model, const struct view *view, char *out, size_t size)
{
    if (view->veil.horizon != NO_EVENT)
        snprintf(out, size, "?");
    else
        snprintf(out, size, "%zu", model->seen > 0 ? model->seen - 1 : 0);
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
    char where[160] = "no events", right[64], total[24];
    print_total(model, view, total, sizeof total);
    if (event != NULL)
        snprintf(where, sizeof where, "it %u  step %zu/%s", event->iteration, view->cursor, total);
    struct str arranged = { 0 };
    arrange_print(view, model, &arranged);
    size_t said = strlen(where);
    snprintf(where + said, sizeof where - said, "%s", canvas_words(canvas, &arranged));
    str_free(&arranged);
    const char *seed = trace_option_of(model->trace, "seed");
    const char *note = view->run == RUN_SAVED ? trace_note(model->trace) : "";
    const char *rough = shelf_is_rough(model->shelf) ? "approximate  " : "";
    const char *word = note[0] == '\0' ? run_word(view->run) : strncmp(note, "cut", 3) == 0 ? "cut short" : "damaged";
    snprintf(right, sizeof right, "%s%s%s%.20s ", rough, word, seed[0] != '\0' ? "  seed " : "", seed);
    int room = canvas->width - (int)strlen(where) - (int)strlen(right) - 4;
    if (room >= -2) /* where one stands comes first */
        canvas_right(canvas, 0, style, right);
    title      = title[0] != '\0' ? title : "trace";
    int column = room < 8 && room < (int)strlen(title) ? 1
                     : canvas_cut(canvas, (struct stretch){ 0, 1, room }, style, title);
    canvas_text(canvas, 0, column > 1 ? column + 2 : 1, style, where);
}

/* Its label, unless that only says the kind again. */
static void
print_more(const struct model *model, size_t seq, const char *name, struct str *out)
{
    enum { MOST = 24 };
    struct str label = { 0 };
    model_label(model, seq, &label);
    out->broken |= !str_ok(&label);
    if (label.len > 0 && label.len <= MOST && strstr(name, str_text(&label)) == NULL)
        str_addf(out, " %s", str_text(&label));
    str_free(&label);
}

/* What a step comes to, where that was recorded and no question keeps it back; "" it is not known. */
static void
print_next(const struct model *model, const struct view *view, struct str *out)
{
    enum { LOOK_AHEAD = 200 };
    size_t horizon = view->veil.horizon;
    for (size_t ahead = 1; view->cursor != NO_EVENT && ahead < LOOK_AHEAD; ahead++) {
        size_t seq = view->cursor + ahead;
        if (seq >= model->seen || (horizon != NO_EVENT && seq > horizon))
            return;
        if (veil_hides(&view->veil, model, seq) || !move_shows(model->trace, &view->rules, seq))
            continue;
        const struct trace_event *event = trace_event(model->trace, seq);
        const char *name = model_kind(model, seq);
        str_addf(out, "next: %s", name);
        print_more(model, seq, name, out);
        str_add(out, event->phase == PHASE_END ? " end" : "");
        if (event->rank >= 0)
            str_addf(out, " r%d", event->rank);
        return;
    }
}

/* What `where` says, the kind in bold. false: no room was left for what comes next. */
static bool
draw_event_line(const struct model *model, const struct view *view, struct canvas *line)
{
    struct str text = { 0 };
    view_print_event(view, model, &text);
    enum work work = view->cursor == NO_EVENT ? WORK_NONE : model_work(model, view->cursor);
    canvas_put(line, 0, 0, (struct style){ .ink = work, .attr = ATTR_REVERSE }, (uint32_t)work_letter(work));
    int room = line->width - 2, width = glyph_width(str_text(&text), room);
    event_line_fit(model, view->cursor, room, &text);
    canvas_cut(line, (struct stretch){ 0, 2, room }, (struct style){ .attr = ATTR_BOLD }, canvas_words(line, &text));
    str_clear(&text);
    print_next(model, view, &text);
    bool fits = width + 3 + (int)text.len <= room;
    if (text.len > 0 && fits)
        canvas_right(line, 0, (struct style){ .ink = INK_DIM }, canvas_words(line, &text));
    str_free(&text);
    return fits;
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

/* What there is to say beside a measure; "" nothing. What the lesson's pane shows of a question is not said twice. */
static const char *
words_to_say(const struct model *model, const struct view *view, enum lesson_room room, struct style *style)
{
    size_t question = view_question(view, model);
    if (view->message[0] != '\0')
        return view->message;
    if (question == NO_EVENT && answering_hint(view, model)[0] != '\0') {
        style->attr = ATTR_BOLD;
        return answering_hint(view, model);
    }
    if (question != NO_EVENT && room == LESSON_ABSENT) {
        style->attr = ATTR_BOLD;
        return model_argument_text(model, question, "question");
    }
    style->ink = INK_DIM;
    const char *note = view->run == RUN_SAVED ? trace_note(model->trace) : view->gone;
    if (question != NO_EVENT)
        return room == LESSON_BRIEF ? answering_hint(view, model) : "";
    if (note[0] != '\0' || view->measure != NO_EVENT)
        return note;
    if (view->cursor == 0)
        return "n: next stop   ?: all keys";
    if (answering_offers_predict(view))
        return ":predict on asks you before each stop";
    return view->veil.draws ? "something is hidden until you answer: :question" : "";
}

/* A measure stands at the right of what else is said, where there is room for both. false: there is nothing to say. */
static bool
draw_message(const struct model *model, const struct view *view, enum lesson_room lesson, struct canvas *line)
{
    enum { WORDS_LEAST = 24 };
    struct style style = { 0 };
    struct str   measure = { 0 };
    if (prompt_is_open(&view->prompt)) {
        prompt_draw(&view->prompt, line);
        return true;
    }
    const char *words = words_to_say(model, view, lesson, &style);
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
    bool asks = view->message[0] == '\0' && lesson == LESSON_ABSENT && view_question(view, model) != NO_EVENT;
    if (words[0] != '\0' && asks) {
        column = canvas_text(line, 0, 1, (struct style){ .ink = INK_ACCENT, .attr = ATTR_BOLD }, "? ");
        room -= 2;
    }
    canvas_cut(line, (struct stretch){ 0, column, room }, style, words);
    bool said = words[0] != '\0' || measure.len > 0;
    str_free(&measure);
    return said;
}

static void
draw_next(const struct model *model, const struct view *view, struct canvas *line)
{
    struct str text = { 0 };
    print_next(model, view, &text);
    const struct style dim = { .ink = INK_DIM };
    canvas_cut(line, (struct stretch){ 0, 1, line->width - 2 }, dim, canvas_words(line, &text));
    str_free(&text);
}

/* Too small for a timeline: the event in words, one thing a line. */
static void
draw_words_alone(const struct model *model, const struct view *view, struct canvas *canvas)
{
    struct str text = { 0 };
    char total[24];
    print_total(model, view, total, sizeof total);
    if (view->cursor == NO_EVENT)
        str_add(&text, "no events");
    else
        str_addf(&text, "%zu/%s %s", view->cursor, total, model_kind(model, view->cursor));
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
    keys_help(view, &body);
}

/* On a projector one lane, twice as high. */
static void
draw_lanes(const struct scene *scene, struct canvas *lanes)
{
    timeline_draw(scene->model, scene->view, lanes, scene->capabilities);
    for (int column = 0; scene->view->teaches && lanes->height == 2 && column < lanes->width; column++) {
        struct cell cell = *canvas_at(lanes, 0, column);
        if (cell.code != 0)
            canvas_put(lanes, 1, column, cell.style, cell.code);
    }
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
    if (layout.words_only) {
        draw_title(model, view, canvas);
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
    marks_draw(&scene, &layout, canvas);
    draw_lanes(&scene, &part[2]);
    if (view->chooses)
        chooser_draw(&scene, &part[2]);
    draw_title(model, view, canvas); /* it says how exact the timeline is */
    panes_draw(&scene, &layout, canvas);
    bool next = draw_event_line(model, view, &part[3]);
    if (!draw_message(model, view, lesson_room(&layout), &part[4]) && !next)
        draw_next(model, view, &part[4]);
    if (view->help)
        draw_help(view, canvas);
    keys_draw(model, view, &part[5]);
}
