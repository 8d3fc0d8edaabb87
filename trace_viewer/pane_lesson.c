/* The lesson's words so far: what was said, asked and checked up to the cursor. Its text is the source pane's. The
 * answer of the question one stands at is masked until it was asked for. For other panes: lesson_line. */
#include "panes.h"

#include "answering.h"
#include "base/str.h"
#include "base/vec.h"
#include "base/visible.h"
#include "glyph.h"
#include "heading.h"
#include "question.h"
#include "raised.h"
#include "trace/reader.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { LOOK_BACK = 100000, MOST_ROWS = 400, LARGE_FROM = 60,
       HANG = 2 /* what begins at the edge is an item, whatever its words look like */ };

struct telling { const struct model *model; const struct view *view; bool brief, dense; };

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

/* What begins at `at` takes at most `room` cells. */
static bool
fits(const char *at, int room)
{
    return glyph_width(at, room + 1) <= room;
}

/* Behind the choices of a question that is open, where the line has room: what one may always say. */
static void
print_unknown(const struct model *model, size_t seq, bool has_room, struct str *out)
{
    int count = question_choices(model, seq);
    if (has_room && count > 0)
        str_addf(out, "   %c) " QUESTION_UNKNOWN, 'a' + (count - 1) % 26);
    str_add(out, "\n");
}

/* The question's words; its choices behind them where the line has room, else on one line, else each on its own. */
static void
print_asked(const struct model *model, size_t seq, int width, bool open, struct str *out)
{
    enum { UNKNOWN_WIDTH = sizeof "   a) " QUESTION_UNKNOWN - 1 };
    const char *words = model_argument_text(model, seq, "question");
    const char *choices = question_choices(model, seq) > 0 ? strstr(words, "  a) ") : NULL;
    struct question_choice choice;
    open &= strstr(words, ") " QUESTION_UNKNOWN) == NULL; /* the lesson says it itself */
    if (choices == NULL || fits(words, width - 2)) {
        str_addf(out, "? %s", words);
        print_unknown(model, seq, open && fits(words, width - 2 - UNKNOWN_WIDTH), out);
        return;
    }
    str_addf(out, "? %.*s\n", (int)(choices - words), words);
    choices += 2;
    if (fits(choices, width - HANG)) {
        str_add(out, choices);
        print_unknown(model, seq, open && fits(choices, width - HANG - UNKNOWN_WIDTH), out);
        return;
    }
    for (int i = 0; question_choice(model, seq, i, &choice); i++)
        if (strstr(choices, ") " QUESTION_UNKNOWN) != NULL || !question_is_unknown(choice.text))
            str_addf(out, "%c) %.*s\n", 'a' + i % 26, (int)choice.text.length, choice.text.text);
}

/* What was answered, and what is said of it where it is wrong. */
static void
print_given(const struct model *model, const struct given *given, struct str *out)
{
    struct question_choice choice;
    if (given == NULL || given->how < GIVEN_UNKNOWN)
        return;
    if (given->choice < 0) {
        str_addf(out, "you: %s\n", given->text);
        return;
    }
    if (!question_choice(model, given->seq, given->choice, &choice))
        return;
    str_addf(out, "you: %.*s\n", (int)choice.text.length, choice.text.text);
    if (choice.wrong.length > 0)
        str_addf(out, "%.*s\n", (int)choice.wrong.length, choice.wrong.text);
}

/* A question that was passed: with what follows it, once it was answered. */
static void
print_question(const struct telling *telling, size_t seq, int width, struct str *out)
{
    const struct model *model = telling->model;
    print_asked(model, seq, width, false, out);
    if (asking_is_open(&telling->view->asking, seq)) {
        str_add(out, "put off; :question comes back to it");
        return;
    }
    print_given(model, asking_given(&telling->view->asking, seq), out);
    const char *why = model_argument_text(model, seq, "why");
    str_addf(out, "-> %s%s%s", model_argument_text(model, seq, "answer"), why[0] != '\0' ? "\n" : "", why);
}

/* A choice in rows of its own; the chosen one has a mark and is bold, so that it shows without colour. */
static void
draw_choice(struct canvas *pane, struct lines *lines, int number, const struct question_choice *choice, bool chosen)
{
    struct str text = { 0 };
    str_addf(&text, "%c) %.*s", 'a' + number % 26, (int)choice->text.length, choice->text.text);
    int row = lines->row;
    if (chosen && lines->skip == 0)
        canvas_put(pane, row, 1, (struct style){ .ink = INK_ACCENT, .attr = ATTR_BOLD }, 0x25ba);
    canvas_wrap(pane, lines, 1 + HANG, (struct style){ .attr = chosen ? ATTR_BOLD : 0 }, canvas_words(pane, &text));
    str_free(&text);
}

/* What is typed as an answer, and where the next letter goes. */
static void
draw_typed(struct canvas *pane, struct lines *lines, const char *typed)
{
    struct str text = { 0 };
    str_addf(&text, "> %s_", typed);
    canvas_wrap(pane, lines, 1, (struct style){ .attr = ATTR_BOLD }, canvas_words(pane, &text));
    str_free(&text);
}

/* The question one stands at, as long as it is open. With few rows the choices go in one line, and the screen's last
 * lines tell how it is answered. */
static void
draw_open_question(const struct telling *telling, size_t seq, struct canvas *pane, struct lines *lines)
{
    const struct model  *model = telling->model;
    const struct asking *asking = &telling->view->asking;
    const char *words = model_argument_text(model, seq, "question");
    const char *choices = question_choices(model, seq) > 0 ? strstr(words, "  a) ") : NULL;
    bool        taken = answering_has_keys(telling->view);
    struct str  text = { 0 };
    struct question_choice choice;
    if (telling->brief && !taken)
        print_asked(model, seq, pane->width - 1, true, &text);
    else
        str_addf(&text, "? %.*s", (int)(choices != NULL ? (size_t)(choices - words) : strlen(words)), words);
    canvas_wrap(pane, lines, 1, (struct style){ .ink = INK_ACCENT, .attr = ATTR_BOLD }, canvas_words(pane, &text));
    str_free(&text);
    for (int i = 0; (!telling->brief || taken) && question_choice(model, seq, i, &choice); i++)
        draw_choice(pane, lines, i, &choice, taken && asking->chosen == i);
    if (taken && question_choices(model, seq) == 0)
        draw_typed(pane, lines, asking->typed);
    if (!telling->brief)
        canvas_wrap(pane, lines, 1, (struct style){ .ink = INK_ACCENT, .attr = ATTR_UNDERLINE },
                    answering_hint(telling->view, model));
}

/* What failed and why, and who has raised it so far; the tables below that have no room here, and are among the event's
 * arguments. */
static void
print_fault(const struct telling *telling, size_t seq, struct str *out)
{
    const struct model *model = telling->model;
    const char         *text = raised_report(model, seq), *tables = strstr(text, "\n\n");
    struct str          lanes = { 0 };
    raised_print_lanes(model, seq, telling->view->cursor, &lanes);
    str_addf(out, "\u00d7 %s", model_kind(model, seq));
    str_enclose(out, " on ", &lanes, "");
    str_addf(out, ": %.*s", (int)(tables != NULL ? (size_t)(tables - text) : strlen(text)), text);
    str_free(&lanes);
}

/* At the lesson's end: what was answered. "I do not know" is neither right nor wrong. */
static void
print_answers(const struct asking *asking, struct str *out)
{
    static const struct { enum given_how how; const char *words; } rows[] = {
        { GIVEN_RIGHT, "right" }, { GIVEN_WRONG, "wrong" }, { GIVEN_UNKNOWN, QUESTION_UNKNOWN },
        { GIVEN_SHOWN, "shown" }, { GIVEN_LATER, "put off" },
    };
    for (size_t i = 0; i < countof(rows); i++) {
        size_t count = asking_count(asking, rows[i].how);
        if (count > 0)
            str_addf(out, "%s%zu %s", out->len > 0 ? ", " : "your answers: ", count, rows[i].words);
    }
}

static void
draw_item(const struct telling *telling, size_t seq, struct canvas *pane, struct lines *lines)
{
    const struct model *model = telling->model;
    bool here = seq == telling->view->cursor;
    struct style style = { .attr = here ? ATTR_BOLD : 0 };
    struct str text = { 0 };
    if (here && view_question(telling->view, model) == seq) {
        draw_open_question(telling, seq, pane, lines);
        return;
    }
    if (model_is_lesson(model, seq, "say")) {
        str_add(&text, model_argument_text(model, seq, "text"));
    } else if (model_is_lesson(model, seq, "ask")) {
        style.ink = INK_ACCENT;
        print_question(telling, seq, pane->width - 1, &text);
    } else if (model_is_lesson(model, seq, "check")) {
        int64_t ok = 0;
        model_argument(model, seq, "ok", &ok);
        bool edited = !ok && view_is_edited(telling->view, seq);
        style.ink = ok ? INK_GOOD : edited ? INK_ACCENT : WORK_FAULT;
        const char *name = model_argument_text(model, seq, "text");
        str_add(&text, ok ? "ok " : edited ? "not ok in the changed run: " : "NOT OK ");
        visible_add(&text, name, strlen(name), VISIBLE_LINE); /* a name has one line, whatever it says */
        const char *detail = ok ? "" : model_argument_text(model, seq, "detail");
        str_addf(&text, "%s%s", detail[0] != '\0' ? "\n" : "", detail);
        if (edited)
            str_addf(&text, "\nThe lesson's numbers are for the unchanged run. You changed this one at event %zu: %s.",
                     telling->view->edited.at, telling->view->edited.how);
    } else if (model_work(model, seq) == WORK_FAULT) {
        if (raised_repeats(model, seq))
            return;
        style.ink = WORK_FAULT;
        print_fault(telling, seq, &text);
    } else if (model_is_lesson(model, seq, "end")) {
        print_answers(&telling->view->asking, &text);
    }
    canvas_wrap(pane, lines, 1, style, canvas_words(pane, &text));
    str_free(&text);
}

/* What `predict` asks, at the foot. */
static void
draw_prediction(const struct view *view, struct canvas *pane, struct lines *lines)
{
    const struct predict *predict = &view->predict;
    struct str text = { 0 };
    if (!view_is_predicting(view))
        return;
    str_addf(&text, "? %s", predict->words);
    canvas_wrap(pane, lines, 1, (struct style){ .ink = INK_ACCENT, .attr = ATTR_BOLD }, canvas_words(pane, &text));
    str_free(&text);
    for (int i = 0; i < predict->count; i++) {
        struct question_choice choice = { { predict->choices[i], strlen(predict->choices[i]) }, { "", 0 } };
        draw_choice(pane, lines, i, &choice, predict->chosen == i);
    }
    canvas_wrap(pane, lines, 1, (struct style){ .ink = INK_ACCENT, .attr = ATTR_UNDERLINE },
                predict->chosen >= 0 ? "Enter: confirm" : "a letter or arrows choose");
}

/* How many items there are up to that event. */
static size_t
said_until(const struct model *model, size_t seq)
{
    size_t low = 0, high = model->lesson_count;
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        if (model->lessons[middle] <= seq)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

static bool
is_check_that_holds(const struct model *model, size_t seq)
{
    int64_t ok = 0;
    return model_is_lesson(model, seq, "check") && model_argument(model, seq, "ok", &ok) && ok != 0;
}

/* Checks that hold, one behind the other as long as there are: with little room they share lines. Answers how many. */
static size_t
draw_checks(const struct telling *telling, size_t first, size_t end, struct canvas *pane, struct lines *lines)
{
    struct str text = { 0 };
    size_t     i = first;
    for (; i < end && is_check_that_holds(telling->model, telling->model->lessons[i]); i++) {
        const char *name = model_argument_text(telling->model, telling->model->lessons[i], "text");
        str_add(&text, i > first ? "  ok " : "ok ");
        visible_add(&text, name, strlen(name), VISIBLE_LINE);
    }
    if (i > first)
        canvas_wrap(pane, lines, 1, (struct style){ .ink = INK_GOOD }, canvas_words(pane, &text));
    str_free(&text);
    return i - first;
}

static void
draw_items(const struct telling *telling, size_t first, size_t end, struct canvas *pane, struct lines *lines)
{
    for (size_t i = first; i < end && lines->row < pane->height;) {
        size_t checks = telling->dense ? draw_checks(telling, i, end, pane, lines) : 0;
        if (checks == 0)
            draw_item(telling, telling->model->lessons[i], pane, lines);
        i += checks > 0 ? checks : 1;
    }
    draw_prediction(telling->view, pane, lines);
}

/* How many rows the items take; never more than the canvas for trying it out has. */
static int
rows_of_items(const struct telling *telling, size_t first, size_t end, int width)
{
    struct lines  lines = { .hang = HANG };
    struct canvas probe;
    if (!canvas_init(&probe, width > 0 ? width : 1, MOST_ROWS))
        return 0;
    draw_items(telling, first, end, &probe, &lines);
    canvas_free(&probe);
    return lines.row;
}

/* The first item that is new since the last step. */
static size_t
first_new(const struct model *model, const struct view *view)
{
    bool stepped = view->before != NO_EVENT && view->before < view->cursor;
    return said_until(model, stepped ? view->before : view->cursor);
}

/* Answers the rows that it takes. */
static int
draw_heading(const struct scene *scene, struct canvas *pane)
{
    struct str   text = { 0 };
    struct lines lines = { .hang = HANG };
    heading_print_beside_words(scene->model, scene->view, &text);
    if (text.len > 0)
        canvas_wrap(pane, &lines, 1, (struct style){ .ink = INK_ACCENT, .attr = ATTR_BOLD }, canvas_words(pane, &text));
    str_free(&text);
    return lines.row;
}

static int
rows_of_heading(const struct scene *scene, int width)
{
    struct canvas probe;
    if (!canvas_init(&probe, width > 0 ? width : 1, MOST_ROWS))
        return 0;
    int rows = draw_heading(scene, &probe);
    canvas_free(&probe);
    return rows;
}

int
lesson_new_rows(const struct scene *scene, int width)
{
    const struct view *view = scene->view;
    if (view->cursor == NO_EVENT)
        return 0;
    size_t first = first_new(scene->model, view), end = said_until(scene->model, view->cursor);
    return first == end ? 0
         : rows_of_heading(scene, width) +
           rows_of_items(&(struct telling){ scene->model, view, false, false }, first, end, width);
}

/* From the newest item backwards, as many as `rows` rows show. Answers the first, and in `rows` how many they take. */
static size_t
first_shown(const struct telling *telling, size_t end, const struct canvas *pane, int *rows)
{
    size_t        first = end;
    int           used = rows_of_items(telling, end, end, pane->width);
    struct canvas probe; /* written over by one item after the other: only their rows count */
    if (!canvas_init(&probe, pane->width > 0 ? pane->width : 1, MOST_ROWS)) {
        canvas_starve(pane);
        return end;
    }
    probe.starved = pane->starved;
    while (first > 0 && used < *rows) {
        struct lines tried = { .hang = HANG };
        draw_item(telling, telling->model->lessons[--first], &probe, &tried);
        used += tried.row;
    }
    canvas_free(&probe);
    *rows = used;
    return first;
}

/* The items up to the cursor, the last ones last, so that the newest is always on the screen. */
static void
draw_said(const struct model *model, const struct view *view, struct canvas *pane, int scrolled)
{
    struct telling telling = { model, view, pane->height <= LESSON_BRIEF_ROWS, false };
    size_t end = said_until(model, view->cursor), fresh = first_new(model, view), first = fresh;
    int    rows = scrolled == 0 && fresh < end ? rows_of_items(&telling, fresh, end, pane->width) : 0;
    telling.dense = rows > pane->height;
    if (telling.dense) {
        rows = rows_of_items(&telling, fresh, end, pane->width);
    } else {
        rows  = pane->height + scrolled;
        first = first_shown(&telling, end, pane, &rows);
    }
    int skip = rows - pane->height - scrolled;
    struct lines lines = { .skip = skip > 0 ? skip : 0, .hang = HANG };
    draw_items(&telling, first, end, pane, &lines);
}

/* For a projector: what is new alone, in the middle, bold, with a row between its rows where there is room. */
static void
draw_large(const struct scene *scene, struct canvas *pane)
{
    const struct telling telling = { scene->model, scene->view, false, false };
    size_t end = said_until(scene->model, scene->view->cursor), first = first_new(scene->model, scene->view);
    struct lines  lines = { .hang = HANG };
    struct canvas words;
    int           width = pane->width >= LARGE_FROM ? pane->width * 3 / 4 : pane->width;
    first = first == end && end > 0 ? end - 1 : first;
    while (first > 0 && first < end && raised_repeats(scene->model, scene->model->lessons[first]))
        first--; /* it has nothing to say of its own */
    if (!canvas_init(&words, width > 0 ? width : 1, MOST_ROWS)) {
        canvas_starve(pane);
        return;
    }
    draw_items(&telling, first, end, &words, &lines);
    int apart = 2 * lines.row - 1 <= pane->height ? 2 : 1, used = apart * lines.row - apart + 1;
    int from = used > pane->height ? lines.row - pane->height : 0, top = from > 0 ? 0 : (pane->height - used) / 2;
    for (int row = from; row < lines.row; row++)
        for (int column = 0; column < width; column++) {
            struct cell cell = *canvas_at(&words, row, column);
            cell.style.attr |= ATTR_BOLD;
            if (cell.code != 0)
                canvas_put(pane, top + apart * (row - from), column + (pane->width - width) / 2, cell.style, cell.code);
        }
    canvas_free(&words);
}

static void
draw(const struct scene *scene, struct canvas *pane, int skip)
{
    if (scene->view->teaches && !scene->view->full && skip == 0) {
        draw_large(scene, pane);
        return;
    }
    int           heading = skip == 0 ? draw_heading(scene, pane) : 0;
    struct canvas words = canvas_part(pane, heading, 0, pane->height - heading, pane->width);
    draw_said(scene->model, scene->view, &words, skip);
}

static enum concern
concern(const struct scene *scene)
{
    (void)scene;
    return CONCERN_SOME;
}

const struct pane_kind lesson_pane = { .name = "Lesson", .least_columns = 28, .concern = concern, .draw = draw };
