/* The lesson's words so far: what was said, asked and checked up to the cursor, and the line of the lesson that
 * runs. The answer of the question one stands at is masked until it was asked for. For other panes:
 * lesson_line. */
#include "panes.h"

#include "base/str.h"
#include "base/visible.h"
#include "glyph.h"
#include "question.h"
#include "secrets.h"
#include "trace/reader.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { LOOK_BACK = 100000, HANG = 2 /* what begins at the edge is an item, whatever its words look like */,
       BRIEF = 6 /* with so few rows an open question leaves the keys to the screen's last lines */ };

struct telling { const struct model *model; const struct view *view; bool brief; };

uint32_t
lesson_line(const struct model *model, size_t seq)
{
    for (size_t looked = 0; looked < LOOK_BACK && looked <= seq; looked++) {
        const struct trace_event *event = trace_event(model->trace, seq - looked);
        if (event != NULL && event->line > 0)
            return event->line;
    }
    return 0;
}

/* The lesson's text around its current line, in the rows of `pane`. */
static void
draw_lines(const struct model *model, const struct view *view, struct canvas *pane, const struct secrets *secrets)
{
    const char *text = secrets->text;
    int         row = 0, rows = pane->height;
    uint32_t current = lesson_line(model, view->cursor), number = 1;
    uint32_t first = current > (uint32_t)rows / 2 ? current - (uint32_t)rows / 2 : 1;
    while (*text != '\0' && number < first + (uint32_t)rows) {
        size_t length = strcspn(text, "\n");
        if (number >= first) {
            char line[512];
            secrets_line(secrets, text, length, line, sizeof line);
            bool here = number == current;
            struct style style = { .attr = here ? ATTR_BOLD : 0, .ink = here ? INK_PLAIN : INK_DIM };
            if (here)
                canvas_put(pane, row, 0, (struct style){ .ink = INK_ACCENT, .attr = ATTR_BOLD }, 0x25ba);
            int column = canvas_textf(pane, row, 1, (struct style){ .ink = INK_DIM }, "%3u ", number);
            canvas_text(pane, row++, column, style, line);
        }
        number++;
        text += length + (text[length] == '\n');
    }
}

/* How it is answered, and that something is hidden until then. */
static void
print_open_question(const struct model *model, size_t seq, struct str *out)
{
    int count = question_choices(model, seq);
    if (count > 1)
        str_addf(out, "a to %c is your answer; ", 'a' + count - 1);
    str_add(out, "Enter shows the answer");
    if (question_hides(model, seq).length > 0)
        str_add(out, "\nwhat the answer shows is hidden until you answer");
}

/* What begins at `at` takes at most `room` cells. */
static bool
fits(const char *at, int room)
{
    return glyph_width(at, room + 1) <= room;
}

/* The question's words; its choices behind them where the line has room, else on one line, else each on its own. */
static void
print_asked(const struct model *model, size_t seq, int width, struct str *out)
{
    const char *words = model_argument_text(model, seq, "question");
    const char *choices = question_choices(model, seq) > 1 ? strstr(words, "  a) ") : NULL;
    if (choices == NULL || fits(words, width - 2)) {
        str_addf(out, "? %s\n", words);
        return;
    }
    str_addf(out, "? %.*s\n", (int)(choices - words), words);
    choices += 2;
    if (fits(choices, width - HANG)) {
        str_addf(out, "%s\n", choices);
        return;
    }
    struct question_choice choice;
    for (int i = 0; question_choice(model, seq, i, &choice); i++)
        str_addf(out, "%c) %.*s\n", 'a' + i % 26, (int)choice.text.length, choice.text.text);
}

/* What was answered, and what is said of it where it is wrong. */
static void
print_given(const struct model *model, size_t seq, int number, struct str *out)
{
    struct question_choice given;
    if (number < 0 || !question_choice(model, seq, number, &given))
        return;
    str_addf(out, "you: %.*s\n", (int)given.text.length, given.text.text);
    if (given.wrong.length > 0)
        str_addf(out, "%.*s\n", (int)given.wrong.length, given.wrong.text);
}

/* The question, and what follows it once it was answered. */
static void
print_question(const struct telling *telling, size_t seq, int width, struct str *out)
{
    const struct model *model = telling->model;
    const struct view  *view  = telling->view;
    print_asked(model, seq, width, out);
    if (seq == view->cursor && !view_is_revealed(view, seq)) {
        if (!telling->brief)
            print_open_question(model, seq, out);
        return;
    }
    print_given(model, seq, view_given(view, seq), out);
    const char *why = model_argument_text(model, seq, "why");
    str_addf(out, "-> %s%s%s", model_argument_text(model, seq, "answer"), why[0] != '\0' ? "\n" : "", why);
}

/* What failed and why; the tables below that have no room here, and are among the event's arguments. */
static void
print_fault(const struct model *model, size_t seq, struct str *out)
{
    const char *report = model_argument_text(model, seq, "report");
    const char *text   = report[0] != '\0' ? report : model_argument_text(model, seq, "message");
    const char *tables = strstr(text, "\n\n");
    int         length = (int)(tables != NULL ? (size_t)(tables - text) : strlen(text));
    str_addf(out, "\u00d7 %s: %.*s", model_kind(model, seq), length, text);
}

static void
draw_item(const struct telling *telling, size_t seq, struct canvas *pane, struct lines *lines)
{
    const struct model *model = telling->model;
    bool here = seq == telling->view->cursor;
    struct style style = { .attr = here ? ATTR_BOLD : 0 };
    struct str text = { 0 };
    if (model_is_lesson(model, seq, "say")) {
        str_add(&text, model_argument_text(model, seq, "text"));
    } else if (model_is_lesson(model, seq, "ask")) {
        style.ink = INK_ACCENT;
        print_question(telling, seq, pane->width - 1, &text);
    } else if (model_is_lesson(model, seq, "check")) {
        int64_t ok = 0;
        model_argument(model, seq, "ok", &ok);
        style.ink = ok ? INK_GOOD : WORK_FAULT;
        const char *name = model_argument_text(model, seq, "text");
        str_add(&text, ok ? "ok " : "NOT OK ");
        visible_add(&text, name, strlen(name), VISIBLE_LINE); /* a name has one line, whatever it says */
    } else if (model_work(model, seq) == WORK_FAULT) {
        style.ink = WORK_FAULT;
        print_fault(model, seq, &text);
    }
    canvas_wrap(pane, lines, 1, style, canvas_words(pane, &text));
    str_free(&text);
}

/* The items up to the cursor, the last ones last, so that the newest is always on the screen. Answers the rows used. */
static int
draw_said(const struct model *model, const struct view *view, struct canvas *pane, int scrolled)
{
    size_t count = 0;
    while (count < model->lesson_count && model->lessons[count] <= view->cursor)
        count++;
    /* From the newest item backwards, as many as fit: how many rows each takes is tried out. */
    const struct telling telling = { model, view, pane->height <= BRIEF };
    size_t first = count;
    int rows = 0;
    struct canvas probe = { 0 };
    if (!canvas_init(&probe, pane->width > 0 ? pane->width : 1, 400)) {
        canvas_starve(pane);
        return 0;
    }
    while (first > 0 && rows < pane->height + scrolled) {
        struct lines tried = { .hang = HANG };
        draw_item(&telling, model->lessons[--first], &probe, &tried);
        rows += tried.row;
    }
    canvas_free(&probe);
    int skip = rows - pane->height - scrolled;
    struct lines lines = { .skip = skip > 0 ? skip : 0, .hang = HANG };
    for (size_t i = first; i < count && lines.row < pane->height; i++)
        draw_item(&telling, model->lessons[i], pane, &lines);
    return lines.row;
}

static void
draw(const struct scene *scene, struct canvas *pane, int skip)
{
    const struct model *model = scene->model;
    const struct view  *view = scene->view;
    const char *path, *text = trace_source_text(model->trace, &path);
    bool asked = model_is_lesson(model, view->cursor, "ask"); /* a question needs the rows more than the text */
    int  least = asked ? 8 : 4;
    int  lines = text[0] == '\0' || pane->height < least ? 0 : pane->height < 8 || asked ? 1 : pane->height * 2 / 5;
    struct canvas words = canvas_part(pane, 0, 0, pane->height - lines, pane->width);
    int used = draw_said(model, view, &words, skip);
    int from = lines > 1 ? used + 1 : pane->height - lines; /* what the words leave */
    struct canvas rest = canvas_part(pane, from, 0, pane->height - from, pane->width);
    struct secrets secrets;
    if (secrets_find(model, view, text, &secrets))
        draw_lines(model, view, &rest, &secrets);
    else
        canvas_starve(pane);
    secrets_free(&secrets);
}

static enum concern
concern(const struct scene *scene)
{
    (void)scene;
    return CONCERN_SOME;
}

const struct pane_kind lesson_pane = { .name = "Lesson", .least_columns = 28, .concern = concern, .draw = draw };
